"""Builds Kubernetes from Debian's source package, once, into the cache.

Debian ships the source of Kubernetes 1.20 whole, but only kubectl as a binary. Two of the libraries
that its source carries along are older than the maps of Go 1.18, and the API server crashes within
minutes; Debian's own packages of the two take their place. A generated file is missing, and is generated.
"""
import os
import pathlib
import re
import shutil
import subprocess
import time

from . import settings
from .locks import locked
from .settings import Trouble, say

PROGRAMS = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"]
# Part of the cache's name: a change of how it is built makes a new one.
RECIPE = 1
TOO_OLD = ["modern-go/reflect2", "json-iterator/go"]
DEBIAN_GO_SOURCES = pathlib.Path("/usr/share/gocode/src/github.com")

BINARIES = settings.CACHE / f"kubernetes-{settings.KUBERNETES_VERSION}-{RECIPE}"


def binary(name):
    return str(BINARIES / name)


def ready():
    """Whether the programs are in the cache. They come there all at once or not at all."""
    return BINARIES.is_dir()


def build():
    """Fills the cache unless it is full. Takes about ten minutes on two cores."""
    if ready():
        return
    settings.CACHE.mkdir(parents=True, exist_ok=True)
    with locked(settings.CACHE / "kubernetes.lock", lambda: say("waiting for another build of Kubernetes")):
        if ready():
            return
        began = time.monotonic()
        workshop = settings.CACHE / f"{BINARIES.name}.building"
        # What an interrupted build left is thrown away, except for what Go compiled: that is checked by Go.
        compiled = workshop / "compiled"
        for leftover in workshop.iterdir() if workshop.exists() else []:
            if leftover != compiled:
                shutil.rmtree(leftover)
        compiled.mkdir(parents=True, exist_ok=True)
        build_in(workshop, compiled)
        (workshop / "bin").rename(BINARIES)
        # Go writes its folders read-only in places.
        subprocess.run(["chmod", "-R", "u+w", str(workshop)], check=False)
        shutil.rmtree(workshop, ignore_errors=True)
        say(f"Kubernetes {settings.KUBERNETES_VERSION} built in {time.monotonic() - began:.0f} s, kept in {BINARIES}")


def build_in(workshop, compiled):
    go = {**os.environ, "GOPATH": str(workshop / "go"), "GO111MODULE": "off", "CGO_ENABLED": "0",
          "GOCACHE": str(compiled), "GOFLAGS": ""}
    say("downloading the source of Kubernetes")
    download = workshop / "download"
    download.mkdir()
    run(["apt-get", "source", "--download-only", f"kubernetes={source_version()}"], download)
    tree = workshop / "go" / "src" / "k8s.io" / "kubernetes"
    tree.parent.mkdir(parents=True)
    description = next(download.glob("*.dsc"))
    run(["dpkg-source", "-x", "--no-check", description.name, str(tree)], download)
    repair(tree)
    generate_openapi(tree, workshop, go)
    say("compiling Kubernetes, once: about ten minutes on two cores")
    out = workshop / "bin"
    out.mkdir()
    run(["nice", "go", "build", "-p", str(os.cpu_count() or 2), "-ldflags", " ".join(["-s", "-w", *version_stamps()]),
         "-o", str(out) + "/", *[f"./cmd/{program}" for program in PROGRAMS]], tree, go)


def source_version():
    """The archive may offer several versions of the source; this is the one the recipe is for."""
    listing = subprocess.run(["apt-cache", "showsrc", "kubernetes"], capture_output=True, text=True).stdout
    for version in re.findall(r"^Version: (\S+)", listing, re.MULTILINE):
        if re.search(rf"(^|really){re.escape(settings.KUBERNETES_VERSION)}[-+]", version):
            return version
    raise Trouble(f"apt knows no source package of Kubernetes {settings.KUBERNETES_VERSION}: "
                  "this needs Debian 12, and tools/setup --cluster")


def repair(tree):
    for library in TOO_OLD:
        place = tree / "vendor" / "github.com" / library
        shutil.rmtree(place)
        shutil.copytree(DEBIAN_GO_SOURCES / library, place, symlinks=False,
                        ignore=shutil.ignore_patterns("*_test.go"))


def generate_openapi(tree, workshop, go):
    """Writes pkg/generated/openapi, which the API server is built with and the source lacks."""
    generator = workshop / "openapi-gen"
    run(["nice", "go", "build", "-o", str(generator), "./vendor/k8s.io/kube-openapi/cmd/openapi-gen"], tree, go)
    inputs = [f"k8s.io/kubernetes/{folder}" for folder in tagged_folders(tree)]
    run([str(generator), "--v", "0", "--logtostderr", "--go-header-file", "/dev/null",
         "--output-file-base", "zz_generated.openapi", "--output-base", str(workshop / "go" / "src"),
         "--output-package", "k8s.io/kubernetes/pkg/generated/openapi",
         "--report-filename", str(workshop / "violations"), "--input-dirs", ",".join(inputs)], tree, go)


def tagged_folders(tree):
    """Folders whose types belong into the API's description, as Go names them."""
    found = set()
    unwanted = re.compile(r"/(test|testdata|sample-apiserver|code-generator|_examples)/")
    for top in ["pkg", "staging/src/k8s.io", "vendor/k8s.io"]:
        for path in (tree / top).rglob("*.go"):
            name = str(path.relative_to(tree))
            if unwanted.search("/" + name) or path.name.endswith("_test.go"):
                continue
            if "+k8s:openapi-gen=" in path.read_text(errors="replace"):
                found.add(os.path.dirname(name).replace("staging/src/", "vendor/"))
    # Those that carry the generator are about the tag, not under it.
    return sorted(folder for folder in found if "kube-openapi/pkg/generators" not in folder)


def version_stamps():
    major, minor, _ = settings.KUBERNETES_VERSION.split(".")
    stamps = []
    for package in ["component-base/version", "client-go/pkg/version"]:
        prefix = f"-X k8s.io/kubernetes/vendor/k8s.io/{package}"
        stamps += [f"{prefix}.gitVersion=v{settings.KUBERNETES_VERSION}", f"{prefix}.gitMajor={major}",
                   f"{prefix}.gitMinor={minor}"]
    return stamps


def run(command, folder, environment=None):
    done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        raise Trouble(f"building Kubernetes: {' '.join(command)[:200]} ended with {done.returncode}:\n"
                      f"{done.stdout[-3000:]}")
