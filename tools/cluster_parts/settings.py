"""Where things are: one definition of each folder, address and name of the cluster."""
import os
import pathlib
import re
import sys
import zlib


class Trouble(Exception):
    """What a developer should read, in a sentence, instead of a traceback."""


HERE = pathlib.Path(__file__).resolve().parent
TOOLS = HERE.parent

# Caches outlive checkouts; the state of a running cluster does not outlive the cluster.
CACHE = pathlib.Path(os.environ.get("DURE_CACHE") or pathlib.Path.home() / ".cache" / "dure").absolute()
# Several clusters can be up at once, each with a name of its own.
NAME = os.environ.get("DURE_CLUSTER") or "cluster"
STATE = CACHE / (NAME if NAME == "cluster" else f"cluster-{NAME}")
KUBECONFIG = STATE / "kubeconfig"
CERTIFICATES = STATE / "certificates"
LOGS = STATE / "logs"
PROCESSES = STATE / "processes"
MACHINES = STATE / "machines"

KUBERNETES_VERSION = "1.20.2"

# The first two numbers of every address: machines are in NET.0, pods from NET.64 on (those of played nodes
# from NET.96 on), services from NET.128 on.
NET = os.environ.get("DURE_CLUSTER_NET") or (
    "10.203" if NAME == "cluster" else f"10.{204 + zlib.crc32(NAME.encode()) % 50}")
PODS = f"{NET}.64.0/18"
SERVICES = f"{NET}.128.0/20"
HOST_ADDRESS = f"{NET}.0.1"
CONTROL_ADDRESS = f"{NET}.0.2"
API_SERVICE_ADDRESS = f"{NET}.128.1"
API_PORT = 6443
API_URL = f"https://{CONTROL_ADDRESS}:{API_PORT}"
DNS_DOMAIN = "cluster.local"

# The one network device that the host itself sees.
HOST_DEVICE = f"dure-{NAME}"
# Every container's cgroup is below this one, so that `down` can remove them.
CGROUP = f"dure-{NAME}"

GPU = "nvidia.com/gpu"
# A Node object with this label has no machine: played_nodes.py plays its kubelet.
PLAYED_LABEL = "dure.test/played"

HOST_IMAGE = "dure.test/host:1"


class Node:
    """One of the two real nodes."""

    def __init__(self, number, gpus):
        self.name = f"node-{number}"
        self.address = f"{NET}.0.{10 + number}"
        self.pods = f"{NET}.{64 + number}.0/24"
        self.gpus = gpus


def check_name():
    # The name of a network device has at most fifteen characters.
    if not re.fullmatch("[a-z][a-z0-9]{0,9}", NAME):
        raise Trouble(f"DURE_CLUSTER: expected up to ten small letters and digits, got '{NAME}'")


def gpus_of_nodes():
    """DURE_CLUSTER_GPUS is how many GPUs node-1 and node-2 say they have: "5,3"."""
    text = os.environ.get("DURE_CLUSTER_GPUS", "5,3")
    try:
        first, second = (int(word) for word in text.split(","))
        if first < 0 or second < 0:
            raise ValueError
    except ValueError:
        raise Trouble(f"DURE_CLUSTER_GPUS: expected two numbers such as 5,3, got '{text}'") from None
    return [first, second]


def nodes():
    return [Node(number, gpus) for number, gpus in enumerate(gpus_of_nodes(), start=1)]


def say(text):
    print(f"cluster: {text}", file=sys.stderr, flush=True)
