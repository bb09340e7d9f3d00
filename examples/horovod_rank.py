"""Meets the other ranks as Horovod's Gloo controller does; works without Horovod.

With it, hvd.init() reads the same variables and finds the same server.
"""
import os
import time
import urllib.error
import urllib.request

rank, size = int(os.environ["HOROVOD_RANK"]), int(os.environ["HOROVOD_SIZE"])
server = (f"http://{os.environ['HOROVOD_GLOO_RENDEZVOUS_ADDR']}:"
          f"{os.environ['HOROVOD_GLOO_RENDEZVOUS_PORT']}")


def ask(method, path, body=None):
    """The value, or nothing if there is none yet."""
    request = urllib.request.Request(server + path, data=body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.read()
    except urllib.error.HTTPError:
        return None


ask("PUT", f"/example/{rank}", f"process {os.getpid()}".encode())
for other in range(size):
    while (value := ask("GET", f"/example/{other}")) is None:
        time.sleep(0.05)
    print(f"rank {rank} of {size} met rank {other}: {value.decode()}")
