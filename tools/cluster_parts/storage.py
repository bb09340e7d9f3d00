#!/usr/bin/python3
"""The cluster's default storage class: every claim gets a folder of this machine, which pods on both nodes see.

  python3 -m cluster_parts.storage        provisions until killed
"""
import shutil
import threading

from . import settings
from .api import Api, ApiError, Mirror

CLASS = "standard"
PROVISIONER = "dure.test/folder"
VOLUMES = settings.STATE / "volumes"
PATH = "/api/v1/persistentvolumes"


def make_class(api):
    api.create("/apis/storage.k8s.io/v1/storageclasses", {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


def name_for(claim):
    return f"folder-{claim['metadata']['uid']}"


def waits(claim):
    spec = claim["spec"]
    return (spec.get("storageClassName") == CLASS and not spec.get("volumeName")
            and not claim["metadata"].get("deletionTimestamp"))


def provision(api, claim):
    folder = VOLUMES / name_for(claim)
    folder.mkdir(parents=True, exist_ok=True)
    # Whoever the pods' programs run as.
    folder.chmod(0o777)
    metadata, spec = claim["metadata"], claim["spec"]
    api.create(PATH, {
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name_for(claim), "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {"storageClassName": CLASS, "persistentVolumeReclaimPolicy": "Delete",
                 "capacity": spec["resources"]["requests"], "accessModes": spec["accessModes"],
                 "hostPath": {"path": str(folder)},
                 "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": metadata["name"],
                              "namespace": metadata["namespace"], "uid": metadata["uid"]}}})


def reconcile(api, claims, volumes):
    ours = {name: volume for (_, name), volume in volumes.items() if volume["spec"].get("storageClassName") == CLASS}
    for claim in claims.values():
        if waits(claim) and name_for(claim) not in ours:
            provision(api, claim)
    for name, volume in ours.items():
        if volume.get("status", {}).get("phase") in ("Released", "Failed"):
            api.delete(f"{PATH}/{name}")
    wanted = set(ours) | {name_for(claim) for claim in claims.values()}
    for folder in VOLUMES.iterdir():
        if folder.name not in wanted:
            shutil.rmtree(folder, ignore_errors=True)


def main():
    VOLUMES.mkdir(exist_ok=True)
    changed = threading.Event()
    api = Api()
    claims = Mirror(api, "/api/v1/persistentvolumeclaims", changed)
    volumes = Mirror(api, PATH, changed)
    while True:
        changed.wait()
        changed.clear()
        if not (claims.listed and volumes.listed):
            continue
        try:
            reconcile(api, claims.objects, volumes.objects)
        except (OSError, ApiError) as error:
            print(error, flush=True)
            changed.wait(timeout=1)
            changed.set()


if __name__ == "__main__":
    main()
