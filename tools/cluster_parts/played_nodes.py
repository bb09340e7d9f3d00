#!/usr/bin/python3
"""Plays the kubelet for Node objects that have no machine.

A node with the label of settings.PLAYED_LABEL is kept Ready. A pod bound to it becomes Running, and later
Succeeded or Failed, without a process anywhere. Annotations of the pod say how:

  dure.test/runs-for    seconds until it ends (1), or "forever"; a pod with restartPolicy Always never ends
  dure.test/exit-code   what it ends with (0)

  python3 -m cluster_parts.played_nodes      plays until killed
"""
import datetime
import http.client
import threading
import time
import urllib.parse

from . import settings
from .api import Api, ApiError, Mirror, key_of

RENEW_EVERY = 10
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def stamp(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def node_object(name, gpus=0, cpus=8, memory="32Gi", tainted=True):
    """A node to be played. Its taint keeps away pods that expect to really run."""
    resources = {"cpu": str(cpus), "memory": memory, "pods": "110", "ephemeral-storage": "100Gi"}
    if gpus:
        resources[settings.GPU] = str(gpus)
    labels = {settings.PLAYED_LABEL: "true", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
              "kubernetes.io/arch": "amd64"}
    taints = [{"key": settings.PLAYED_LABEL, "value": "true", "effect": "NoSchedule"}] if tainted else []
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints}, "status": {"capacity": resources, "allocatable": resources}}


def ready_status(moment):
    def condition(kind, status):
        return {"type": kind, "status": status, "reason": "Played", "lastHeartbeatTime": stamp(moment),
                "lastTransitionTime": stamp(moment)}
    return {"status": {"conditions": [condition("Ready", "True"), condition("MemoryPressure", "False"),
                                      condition("DiskPressure", "False"), condition("PIDPressure", "False")],
                       "nodeInfo": {"kubeletVersion": f"v{settings.KUBERNETES_VERSION}"}}}


def lease_object(node, moment):
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": node, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": node, "leaseDurationSeconds": 40,
                     "renewTime": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}}


def seconds_until_end(pod):
    """How long the pod runs, or nothing if it runs until it is deleted."""
    text = pod["metadata"].get("annotations", {}).get("dure.test/runs-for", "1")
    if pod["spec"].get("restartPolicy") == "Always" or text == "forever":
        return None
    try:
        return float(text)
    except ValueError:
        return 1.0


def exit_code(pod):
    try:
        return int(pod["metadata"].get("annotations", {}).get("dure.test/exit-code", "0"))
    except ValueError:
        return 1


def pod_status(pod, phase, address, began, ended=None):
    """The status a kubelet would report of it."""
    state = {"running": {"startedAt": stamp(began)}}
    if ended:
        state = {"terminated": {"exitCode": exit_code(pod), "reason": "Completed" if phase == "Succeeded" else "Error",
                                "startedAt": stamp(began), "finishedAt": stamp(ended)}}
    ready = "False" if ended else "True"
    reason = {"reason": "PodCompleted"} if ended else {}
    conditions = [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": ready, **reason},
                  {"type": "ContainersReady", "status": ready, **reason}, {"type": "PodScheduled", "status": "True"}]
    return {"status": {
        "phase": phase, "podIP": address, "podIPs": [{"ip": address}], "startTime": stamp(began),
        "conditions": [{**each, "lastTransitionTime": stamp(ended or began)} for each in conditions],
        "containerStatuses": [{
            "name": each["name"], "image": each["image"], "imageID": "", "ready": not ended, "started": not ended,
            "restartCount": 0, "containerID": f"played://{pod['metadata']['uid']}-{each['name']}", "state": state,
        } for each in pod["spec"]["containers"]]}}


class Player:
    """Looks at nodes and pods as they are, and does what a kubelet would do next. One thread."""

    def __init__(self, api):
        self.api = api
        self.changed = threading.Event()
        label = urllib.parse.quote(f"{settings.PLAYED_LABEL}=true")
        self.nodes = Mirror(api, f"/api/v1/nodes?labelSelector={label}", self.changed)
        self.pods = Mirror(api, "/api/v1/pods?fieldSelector=spec.nodeName!=", self.changed)
        self.renewed = {}  # per node's uid: when its lease was renewed, in monotonic seconds
        self.running = {}  # per pod's uid: (when it began, its address, seconds until it ends)
        self.given = 0     # how many addresses were given to pods

    def play(self):
        while True:
            self.changed.wait(timeout=self.pause())
            self.changed.clear()
            for node in self.nodes.objects.values():
                self.attempt(self.keep_ready, node)
            played = {name for _, name in self.nodes.objects}
            pods = [pod for pod in self.pods.objects.values() if pod["spec"].get("nodeName") in played]
            for pod in pods:
                self.attempt(self.advance, pod)
            alive = {pod["metadata"]["uid"] for pod in pods}
            self.running = {uid: entry for uid, entry in self.running.items() if uid in alive}

    @staticmethod
    def attempt(action, item):
        try:
            action(item)
        except (OSError, ApiError, http.client.HTTPException) as error:
            # It changed meanwhile, or the server is busy: the next round looks again.
            print(f"{item['metadata']['name']}: {error}", flush=True)

    def pause(self):
        """Seconds until something is due without anything having changed."""
        due = [began.timestamp() + seconds - now().timestamp() for began, _, seconds in self.running.values()
               if seconds is not None]
        if self.nodes.objects:
            due.append(RENEW_EVERY)
        return max(0.05, min(due)) if due else None

    def keep_ready(self, node):
        name, uid = node["metadata"]["name"], node["metadata"]["uid"]
        if time.monotonic() - self.renewed.get(uid, float("-inf")) < RENEW_EVERY * 0.9:
            return
        moment = now()
        if uid not in self.renewed:
            self.api.create(LEASES, lease_object(name, moment))
            self.api.strategic_merge(f"/api/v1/nodes/{name}/status", ready_status(moment))
        self.api.merge(f"{LEASES}/{name}", lease_object(name, moment))
        self.renewed[uid] = time.monotonic()

    def advance(self, pod):
        namespace, name = key_of(pod)
        uid = pod["metadata"]["uid"]
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        phase = pod.get("status", {}).get("phase")
        if pod["metadata"].get("deletionTimestamp"):
            self.running.pop(uid, None)
            self.api.delete(path, at_once=True)
        elif uid in self.running:
            began, address, seconds = self.running[uid]
            if seconds is not None and now().timestamp() >= began.timestamp() + seconds:
                phase = "Failed" if exit_code(pod) else "Succeeded"
                self.api.merge(f"{path}/status", pod_status(pod, phase, address, began, now()))
                self.running[uid] = (began, address, None)
        elif phase == "Pending":
            began, address = now(), self.new_address()
            self.running[uid] = (began, address, seconds_until_end(pod))
            self.api.merge(f"{path}/status", pod_status(pod, "Running", address, began))

    def new_address(self):
        """An address that leads nowhere; they come round after 8,000 pods."""
        self.given = self.given % 8000 + 1
        return f"{settings.NET}.{96 + self.given // 256}.{self.given % 256}"


if __name__ == "__main__":
    Player(Api()).play()
