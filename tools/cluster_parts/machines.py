"""Three machines on this one: control, node-1 and node-2.

A machine is a set of namespaces (processes, mounts, network, host name) held by its first process. When that
one is killed the kernel ends every process of the machine, and its mounts, interfaces and iptables rules
go with it: nothing has to be undone, whatever state it is in.

    host ── veth ── control: bridge ── veth ── node-1
                                    └─ veth ── node-2
"""
import json
import os
import pathlib
import shutil
import subprocess
import time

from . import processes, settings
from .settings import Trouble

CONTROL = "control"
CGROUPS = pathlib.Path("/sys/fs/cgroup")
CNI_CACHE = pathlib.Path("/var/lib/cni")


def names():
    return [CONTROL] + [node.name for node in settings.nodes()]


def process_name(machine):
    return f"machine-{machine}"


def build_pause():
    """The program that a machine, and every pod, has as its first process."""
    program = settings.STATE / "pause"
    run(["gcc", "-static", "-Os", "-s", "-o", str(program), str(settings.HERE / "pause.c")])
    return program


def start(machine):
    folder = settings.MACHINES / machine
    folder.mkdir(parents=True)
    (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(
        f"{node.address} {node.name}\n" for node in settings.nodes()))
    CNI_CACHE.mkdir(exist_ok=True)
    process = processes.start(process_name(machine), [
        "unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--kill-child", "--mount-proc",
        "--propagation", "slave", settings.HERE / "machine-init.sh", machine, folder, settings.STATE / "pause"])
    deadline = time.monotonic() + 10
    while not (folder / "ready").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise Trouble(f"the machine {machine} did not start:\n{processes.log_tail(process_name(machine))}")
        time.sleep(0.01)


def init_of(machine):
    """The pid, as the host sees it, of the machine's first process."""
    keeper = processes.pid_of(process_name(machine))
    found = processes.children(keeper) if keeper else []
    if not found:
        raise Trouble(f"the machine {machine} does not run")
    return found[0]


def inside(machine, command):
    """The command, to be run inside the machine."""
    return ["nsenter", "--target", str(init_of(machine)), "--mount", "--net", "--pid", "--uts", "--ipc", "--",
            *[str(word) for word in command]]


def start_program(machine, name, command):
    """Starts a program inside the machine; it ends with the machine."""
    return processes.start(name, inside(machine, command))


def connect():
    """Gives the machines their network, and the host a way in."""
    control = init_of(CONTROL)
    host = ["ip"]
    switch = ["nsenter", "--target", str(control), "--net", "ip"]
    steps = [
        [*host, "link", "add", settings.HOST_DEVICE, "type", "veth", "peer", "name", "host", "netns", str(control)],
        # So that another user's cluster can say whose this is.
        [*host, "link", "set", settings.HOST_DEVICE, "alias", f"cluster in {settings.STATE}"],
        [*switch, "link", "add", "switch", "type", "bridge"],
        [*switch, "addr", "add", f"{settings.CONTROL_ADDRESS}/24", "dev", "switch"],
        [*switch, "link", "set", "switch", "up"],
        [*switch, "link", "set", "host", "master", "switch", "up"],
        [*host, "addr", "add", f"{settings.HOST_ADDRESS}/24", "dev", settings.HOST_DEVICE],
        [*host, "link", "set", settings.HOST_DEVICE, "up"],
    ]
    nodes = settings.nodes()
    for node in nodes:
        first = init_of(node.name)
        there = ["nsenter", "--target", str(first), "--net", "ip"]
        steps += [
            [*switch, "link", "add", node.name, "type", "veth", "peer", "name", "eth0", "netns", str(first)],
            [*switch, "link", "set", node.name, "master", "switch", "up"],
            [*there, "addr", "add", f"{node.address}/24", "dev", "eth0"],
            [*there, "link", "set", "eth0", "up"],
            # Leads nowhere, but a service's address needs some route before kube-proxy's rules see it. There
            # is none to the world outside: a kubelet that looks for its cloud learns at once that it has none.
            [*there, "route", "add", settings.SERVICES, "via", settings.CONTROL_ADDRESS],
            inside(node.name, ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]),
        ]
        for other in nodes:
            if other.name != node.name:
                steps.append([*there, "route", "add", other.pods, "via", other.address])
        for place in [host, switch]:
            steps.append([*place, "route", "add", node.pods, "via", node.address])
    for place in [host, switch]:
        steps.append([*place, "route", "add", settings.SERVICES, "via", nodes[0].address])
    for step in steps:
        run(step)


def refuse_taken_addresses():
    """Says so if the network that the cluster would have is somebody else's."""
    device = host_device()
    if device:
        raise Trouble(f"the network device {settings.HOST_DEVICE} exists: {device.get('ifalias', 'not ours')} "
                      "holds it; take that one down first (tools/cluster down with its DURE_CACHE), or choose another "
                      "name (DURE_CLUSTER)")
    prefix = settings.NET + "."
    for entry in json.loads(run(["ip", "-json", "-4", "addr"])):
        for address in entry.get("addr_info", []):
            if address["local"].startswith(prefix):
                raise Trouble(f"the address {address['local']} of {entry['ifname']} is in the cluster's range; "
                              "DURE_CLUSTER_NET=10.204 chooses another")
    for route in json.loads(run(["ip", "-json", "-4", "route"])):
        if route["dst"].startswith(prefix):
            raise Trouble(f"a route to {route['dst']} is in the cluster's range; "
                          "DURE_CLUSTER_NET=10.204 chooses another")


def host_device():
    done = subprocess.run(["ip", "-json", "link", "show", settings.HOST_DEVICE], capture_output=True, text=True)
    return json.loads(done.stdout)[0] if done.returncode == 0 else None


def other_clusters():
    return [device["ifname"] for device in json.loads(run(["ip", "-json", "link"]))
            if device.get("ifalias", "").startswith("cluster in ") and device["ifname"] != settings.HOST_DEVICE]


def remove_all():
    """Ends whatever there is of the machines, be it whole, half made, or left by a reboot."""
    # With a machine's first process the kernel ends all that runs inside.
    processes.end_all(first=[process_name(machine) for machine in names()])
    device = host_device()
    if device and device.get("ifalias") == f"cluster in {settings.STATE}":
        subprocess.run(["ip", "link", "del", settings.HOST_DEVICE], capture_output=True)
    # With the device there, the groups are those of another user's cluster, and the folder has its mounts.
    if not host_device():
        remove_cgroups()
        # The machines of another cluster have mounts there, which would go with the folder.
        if not other_clusters() and CNI_CACHE.is_dir() and not os.listdir(CNI_CACHE):
            CNI_CACHE.rmdir()
    shutil.rmtree(settings.STATE, ignore_errors=True)
    if settings.STATE.exists():
        raise Trouble(f"{settings.STATE} cannot be removed")


def make_cgroup(node):
    """Where the kubelet of a node puts its pods. The kubelet wants to find it."""
    unified = CGROUPS / "cgroup.controllers"
    if unified.exists():
        folder = CGROUPS
        for name in [settings.CGROUP, node]:
            controllers = (folder / "cgroup.controllers").read_text().split()
            (folder / "cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in controllers))
            folder = folder / name
            folder.mkdir(exist_ok=True)
        return
    for hierarchy in CGROUPS.iterdir():
        if (hierarchy / "tasks").exists() and not hierarchy.is_symlink():
            (hierarchy / settings.CGROUP / node).mkdir(parents=True, exist_ok=True)


def remove_cgroups():
    """The kernel keeps the groups of killed containers, empty."""
    deadline = time.monotonic() + 5
    for top in [*CGROUPS.glob(settings.CGROUP), *CGROUPS.glob(f"*/{settings.CGROUP}")]:
        for folder, _, _ in os.walk(top, topdown=False):
            while True:
                try:
                    os.rmdir(folder)
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise Trouble(f"the control group {folder} is still in use") from None
                    time.sleep(0.02)


def run(command, stdin=subprocess.DEVNULL):
    done = subprocess.run(command, stdin=stdin, capture_output=True, text=True)
    if done.returncode != 0:
        raise Trouble(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip() or done.returncode}")
    return done.stdout
