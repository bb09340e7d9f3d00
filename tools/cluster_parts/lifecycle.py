"""Up, down, status and reset, as a developer calls them."""
import contextlib
import fcntl
import json
import signal
import socket
import struct
import subprocess
import time

from . import baseline, certificates, components, images, machines, processes, settings, storage
from .api import Api, ApiError, is_ready
from .settings import Trouble, say


@contextlib.contextmanager
def alone():
    """One command changes the cluster at a time; others wait for it."""
    settings.CACHE.mkdir(parents=True, exist_ok=True)
    with open(f"{settings.STATE}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another tools/cluster")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def problem():
    """Why the cluster is not up, in a sentence; nothing if it is."""
    if not (settings.STATE / "up").exists():
        return "the cluster is down"
    dead = processes.dead()
    if dead:
        return f"{', '.join(dead)} ended"
    try:
        nodes = {node["metadata"]["name"]: node for node in Api(timeout=5).get("/api/v1/nodes")["items"]}
    except (OSError, ApiError) as error:
        return f"the API server does not answer: {error}"
    for node in settings.nodes():
        if node.name not in nodes or not is_ready(nodes[node.name]):
            return f"{node.name} is not ready"
    return None


def up():
    """Returns once it can be used. If it cannot be brought up nothing of it is left."""
    with alone():
        began = time.monotonic()
        if keep_up():
            return
        machines.remove_all()
        with interrupts():
            try:
                bring_up()
            except BaseException as error:
                say(f"{'did not come up' if isinstance(error, Exception) else 'interrupted'}, taking it down")
                machines.remove_all()
                raise
        say(f"up in {time.monotonic() - began:.1f} s")


def keep_up():
    """Whether it is up already; if so, its nodes then have as many GPUs as they should."""
    deadline = time.monotonic() + 60
    while trouble := problem():
        # All its programs run: it may only be slow, on a busy machine, and others may be using it.
        only_slow = (settings.STATE / "up").exists() and not processes.dead()
        if not only_slow or time.monotonic() > deadline:
            return False
        say(f"{trouble}; waiting")
        time.sleep(2)
    if stored_gpus() != settings.gpus_of_nodes():
        give_gpus(Api())
    say("is up")
    return True


@contextlib.contextmanager
def interrupts():
    """Lets SIGTERM be cleaned up after, as Ctrl-C is."""
    def raise_interrupt(*_):
        raise KeyboardInterrupt
    before = signal.signal(signal.SIGTERM, raise_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def bring_up():
    machines.refuse_taken_addresses()
    settings.STATE.mkdir(parents=True, exist_ok=True)
    settings.STATE.chmod(0o755)
    nodes = settings.nodes()
    say("making three machines, their network and certificates")
    pause = machines.build_pause()
    for machine in machines.names():
        machines.start(machine)
    machines.connect()
    certificates.make_all()
    say("starting etcd, the API server, containerds and kubelets")
    components.start_control()
    for node in nodes:
        components.start_containerd(node)
    for node in nodes:
        wait_for(f"containerd of {node.name}", lambda: containerd_answers(node))
        # Does not need the API server for its first five seconds, which it spends looking for Docker.
        components.start_kubelet(node)
    archive = settings.STATE / "host-image.tar"
    archive.write_bytes(images.host_image(pause))
    images.import_archive(archive, settings.HOST_IMAGE)
    wait_for("the API server", api_answers, 60)
    say("starting controllers, scheduler, DNS and kube-proxies")
    components.start_managers()
    api = Api()
    for node in nodes:
        wait_for(node.name, lambda: node_is_ready(api, node), 60)
        # Not before: it would wait, longer and longer, for its node to exist.
        components.start_proxy(node)
    give_gpus(api)
    storage.make_class(api)
    wait_for("DNS", dns_answers)
    wait_for("the default service account", lambda: default_account_has_token(api))
    for node in nodes:
        wait_for(f"kube-proxy of {node.name}", lambda: proxy_has_rules(node))
    baseline.remember(api)
    components.give_kubeconfig()
    (settings.STATE / "up").touch()


def wait_for(what, condition, seconds=30):
    """Fails with the words of whoever ended, if somebody did, rather than by the clock."""
    deadline = time.monotonic() + seconds
    while not condition():
        processes.reap()
        dead = processes.dead()
        if dead:
            raise Trouble(f"{dead[0]} ended; its last words:\n{processes.log_tail(dead[0])}")
        if time.monotonic() > deadline:
            tails = "\n".join(f"  {name}:\n{processes.log_tail(name, 5)}" for name in processes.names())
            raise Trouble(f"{what}: not ready within {seconds} s; the last words of all:\n{tails}")
        time.sleep(0.1)


def containerd_answers(node):
    command = machines.inside(node.name, ["ctr", "--timeout", "2s", "version"])
    return subprocess.run(command, capture_output=True).returncode == 0


def api_answers():
    try:
        return Api(timeout=2).get("/readyz") == "ok"
    except (OSError, ApiError):
        return False


def node_is_ready(api, node):
    try:
        return is_ready(api.get(f"/api/v1/nodes/{node.name}"))
    except ApiError:
        return False


def default_account_has_token(api):
    try:
        return bool(api.get("/api/v1/namespaces/default/serviceaccounts/default").get("secrets"))
    except ApiError:
        return False


def dns_answers():
    """Whether the API server's own service has a name."""
    question = b"".join(bytes([len(word)]) + word.encode()
                        for word in f"kubernetes.default.svc.{settings.DNS_DOMAIN}".split(".")) + b"\0"
    query = struct.pack(">6H", 1, 0x100, 1, 0, 0, 0) + question + struct.pack(">2H", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(0.5)
        try:
            asker.sendto(query, (settings.CONTROL_ADDRESS, 53))
            return asker.recv(512).endswith(socket.inet_aton(settings.API_SERVICE_ADDRESS))
        except OSError:
            return False


def proxy_has_rules(node):
    rules = subprocess.run(machines.inside(node.name, ["iptables-save", "-t", "nat"]), capture_output=True, text=True)
    return f"-d {settings.API_SERVICE_ADDRESS}/32" in rules.stdout


def give_gpus(api):
    """Extended resources: scheduler and kubelet count them as they count real ones."""
    for node in settings.nodes():
        amount = {settings.GPU: str(node.gpus)}
        api.merge(f"/api/v1/nodes/{node.name}/status", {"status": {"capacity": amount, "allocatable": amount}})
    (settings.STATE / "gpus.json").write_text(json.dumps(settings.gpus_of_nodes()))


def stored_gpus():
    try:
        return json.loads((settings.STATE / "gpus.json").read_text())
    except (OSError, ValueError):
        return None


def down():
    with alone():
        began = time.monotonic()
        machines.remove_all()
        say(f"down in {time.monotonic() - began:.1f} s")


def reset():
    """Takes away what was added since `up`, and gives the nodes back what they had."""
    with alone():
        began = time.monotonic()
        trouble = problem()
        if trouble:
            raise Trouble(trouble)
        api = Api()
        baseline.restore(api)
        give_gpus(api)
        say(f"as new in {time.monotonic() - began:.1f} s")
