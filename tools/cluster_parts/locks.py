"""Work that only one process at a time may do."""
import contextlib
import fcntl


@contextlib.contextmanager
def locked(path, waiting):
    """Calls `waiting` first if another process has the lock."""
    with open(path, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
