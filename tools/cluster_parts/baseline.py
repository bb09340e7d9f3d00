"""What a fresh cluster contains, and how to get back to it."""
import json
import time

from . import settings
from .api import ApiError, is_ready, key_of
from .settings import Trouble

FILE = settings.STATE / "baseline.json"
# Made and removed by the cluster itself, all the time.
UNCOUNTED = {"events", "endpoints", "endpointslices", "leases", "componentstatuses", "flowschemas",
             "prioritylevelconfigurations", "apiservices"}
# In this order, after all others.
LAST = ["customresourcedefinitions", "namespaces"]


def kinds(api):
    """(path, resource, kind, whether it is in namespaces) of all that can be listed and deleted."""
    groups = ["/api/v1"]
    groups += [f"/apis/{group['preferredVersion']['groupVersion']}" for group in api.get("/apis")["groups"]]
    found = []
    for group in groups:
        try:
            resources = api.get(group)["resources"]
        except ApiError:
            continue  # an aggregated API whose server is away
        for resource in resources:
            if {"list", "delete"} <= set(resource["verbs"]) and resource["name"] not in UNCOUNTED:
                found.append((group, resource["name"], resource["kind"], resource["namespaced"]))
    return sorted(found, key=lambda each: LAST.index(each[1]) if each[1] in LAST else -1)


def listing(api):
    """Yields (address, object) of everything, in an order in which it can be deleted."""
    for group, resource, kind, namespaced in kinds(api):
        try:
            items = api.get(f"{group}/{resource}")["items"]
        except ApiError:
            continue  # its definition has just gone
        for item in items:
            namespace, name = key_of(item)
            place = f"namespaces/{namespace}/" if namespaced else ""
            # Lists leave the kind out of their items.
            yield f"{group}/{place}{resource}/{name}", {**item, "kind": kind}


def remember(api):
    FILE.write_text(json.dumps({
        "objects": sorted(address for address, _ in listing(api)),
        "nodes": {name: wanted(api.get(f"/api/v1/nodes/{name}")) for name in real_nodes()}}))


def real_nodes():
    return [node.name for node in settings.nodes()]


def wanted(node):
    return {"labels": node["metadata"].get("labels", {}), "taints": steady_taints(node)}


def steady_taints(node):
    """Those that somebody set: the cluster's own come and go with the node's health."""
    return [taint for taint in node["spec"].get("taints", []) if not taint["key"].startswith("node.kubernetes.io/")]


def restore(api, within=60):
    """Deletes what is not in the baseline, and returns when it is gone."""
    known = json.loads(FILE.read_text())
    objects = set(known["objects"])
    deadline = time.monotonic() + within
    began = time.monotonic()
    while True:
        left = [(address, item) for address, item in listing(api) if address not in objects and is_own(item, objects)]
        if not left:
            break
        if time.monotonic() > deadline:
            raise Trouble("still there: " + ", ".join(address for address, _ in left[:10]))
        for address, item in left:
            remove(api, address, item, insist=time.monotonic() - began > 2)
        time.sleep(0.2)
    for name, node in known["nodes"].items():
        restore_node(api, name, node)


def is_own(item, objects):
    """Whether it must be deleted by itself, not with its namespace, and is not made anew at once."""
    namespace, name = key_of(item)
    if namespace and f"/api/v1/namespaces/{namespace}" not in objects:
        # A pod is: its namespace would wait for it to end in peace. So is what a finalizer holds.
        return item.get("kind") == "Pod" or bool(item["metadata"].get("finalizers"))
    return name != "kube-root-ca.crt" and item.get("type") != "kubernetes.io/service-account-token"


def remove(api, address, item, insist):
    try:
        if insist and item["metadata"].get("finalizers"):
            # Whoever was to act on it is gone with the rest.
            api.merge(address, {"metadata": {"finalizers": None}})
        # What runs is killed, not asked.
        pod = item["kind"] == "Pod"
        if pod or insist or not item["metadata"].get("deletionTimestamp"):
            api.delete(address, at_once=pod)
    except ApiError as error:
        if error.code not in (404, 405, 409):
            raise


def restore_node(api, name, known):
    path = f"/api/v1/nodes/{name}"
    node = api.get(path)
    labels = {label: None for label in node["metadata"].get("labels", {}) if label not in known["labels"]}
    labels.update(known["labels"])
    api.merge(path, {"metadata": {"labels": labels}})
    if node["spec"].get("unschedulable") or steady_taints(node) != known["taints"]:
        api.merge(path, {"spec": {"unschedulable": None, "taints": known["taints"] or None}})
    extra = [resource for resource in node["status"]["capacity"]
             if "/" in resource and resource != settings.GPU]
    if extra:
        gone = {resource: None for resource in extra}
        api.merge(f"{path}/status", {"status": {"capacity": gone, "allocatable": gone}})
    if not is_ready(node):
        raise Trouble(f"{name} is not ready")
