"""An image as one tar archive, in the OCI layout and as docker saves it. The same content gives the same bytes."""
import hashlib
import io
import json
import os
import tarfile


class Image:
    """Debian's packages and, in a layer above, the programs."""

    def __init__(self, name, base, programs, container):
        self.name = name
        self._base = base
        self._blobs = {}
        layers = [descriptor("layer.v1.tar", base.digest, base.path.stat().st_size),
                  self._add("layer.v1.tar", programs_layer(programs))]
        config = self._add("config.v1+json", encode({
            "architecture": machine_architecture(), "os": "linux", "config": container,
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]}}))
        manifest = self._add("manifest.v1+json", encode({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config, "layers": layers}))
        self.digest = manifest["digest"]
        self.size = sum(layer["size"] for layer in layers)
        names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
        self._index = encode({"schemaVersion": 2, "manifests": [{**manifest, "annotations": names}]})
        self._docker = encode([{"Config": place(config["digest"]), "RepoTags": [name],
                                "Layers": [place(layer["digest"]) for layer in layers]}])

    def _add(self, kind, data):
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        self._blobs[digest] = data
        return descriptor(kind, digest, len(data))

    def write(self, stream, known=()):
        """Writes the archive to a stream, without the layers that the reader says it knows."""
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT, bufsize=1 << 20,
                          copybufsize=1 << 20) as tar:
            add_file(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
            add_file(tar, "index.json", self._index)
            add_file(tar, "manifest.json", self._docker)
            for digest, data in self._blobs.items():
                add_file(tar, place(digest), data)
            if self._base.digest not in known:
                with open(self._base.path, "rb") as data:
                    tar.addfile(header(place(self._base.digest), self._base.path.stat().st_size), data)


def programs_layer(programs):
    """The bytes of a layer that has these files in /usr/bin."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for program in programs:
            add_file(tar, f"usr/bin/{program.name}", program.read_bytes(), 0o755)
    return data.getvalue()


def encode(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def descriptor(kind, digest, size):
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest, "size": size}


def place(digest):
    return "blobs/" + digest.replace(":", "/")


def header(name, size, mode=0o644):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, mode
    return entry


def add_file(tar, name, data, mode=0o644):
    tar.addfile(header(name, len(data), mode), io.BytesIO(data))


def machine_architecture():
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
