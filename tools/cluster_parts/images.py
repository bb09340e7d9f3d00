"""Images without a registry: packed here, imported into both nodes."""
import hashlib
import io
import json
import os
import tarfile

from . import machines, settings

# What the host's programs expect to find beside /usr and /etc, which a pod mounts from the host.
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib32": "usr/lib32", "lib64": "usr/lib64"}
FOLDERS = ["usr", "etc", "proc", "sys", "dev", "root", "run", "var", "var/tmp", "tmp", "opt", "mnt"]


def host_image(pause):
    """The bytes of an OCI archive: empty folders, and the pause program as what runs by default."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for folder in FOLDERS:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder.endswith("tmp") else 0o755
            tar.addfile(entry)
        for name, target in LINKS.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
        add_file(tar, "pause", pause.read_bytes(), 0o755)
    return oci_archive(layer.getvalue(), {"Entrypoint": ["/pause"], "WorkingDir": "/",
                                          "Env": ["PATH=/usr/local/bin:/usr/bin:/usr/sbin"]})


def add_file(tar, name, data, mode=0o644):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    tar.addfile(entry, io.BytesIO(data))


def oci_archive(layer, container):
    """An image of one layer, as a tar archive in the OCI layout."""
    blobs = {}

    def blob(kind, data):
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    layer_entry = blob("layer.v1.tar", layer)
    configuration = {"architecture": machine_architecture(), "os": "linux", "config": container,
                     "rootfs": {"type": "layers", "diff_ids": [layer_entry["digest"]]}}
    config_entry = blob("config.v1+json", json.dumps(configuration).encode())
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": config_entry, "layers": [layer_entry]}
    index = {"schemaVersion": 2, "manifests": [blob("manifest.v1+json", json.dumps(manifest).encode())]}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        add_file(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        add_file(tar, "index.json", json.dumps(index).encode())
        for digest, data in blobs.items():
            add_file(tar, f"blobs/sha256/{digest}", data)
    return archive.getvalue()


def machine_architecture():
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def import_archive(path, name):
    """Makes an image of a docker or OCI archive known to both nodes, under this name."""
    for node in settings.nodes():
        # Read from standard input: the file may be where the machine has a folder of its own.
        with open(path, "rb") as archive:
            machines.run(machines.inside(node.name, ["ctr", "--namespace", "k8s.io", "images", "import",
                                                     "--index-name", full_name(name), "-"]), stdin=archive)


def full_name(name):
    """The name with its tag. A name without a host would be taken for one of a public registry."""
    host = name.split("/")[0]
    if "/" not in name or not any(sign in host for sign in ".:"):
        raise settings.Trouble(f"image name '{name}': needs a host in front, as in dure.test/{name}")
    return name if ":" in name.rsplit("/", 1)[-1] else f"{name}:latest"
