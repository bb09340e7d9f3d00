"""The layer of Debian packages under the programs: made once, kept in the cache."""
import collections
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

from cluster_parts.locks import locked

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("DURE_CACHE") or pathlib.Path.home() / ".cache" / "dure").absolute() / "images"
APT = pathlib.Path("/etc/apt")

# Part of the cache's name: a change of how it is made makes a new one.
RECIPE = 1

# Runs with mounts, process numbers and (unless root's) users of its own. All that it makes is in memory until
# it is whole: whenever it is killed the kernel ends its children and takes mounts and files away.
SCRIPT = """
mount -t tmpfs -o mode=755 dure-image /mnt
export TMPDIR=/mnt
mmdebstrap --quiet --mode=root --format=directory --variant=essential "$@" /mnt/root {sources}
tar --create --format=gnu --sort=name --mtime=@0 --numeric-owner --one-file-system {excluded} \\
  --file={layer} --directory=/mnt/root .
"""

# What is of the machine that made it, or of the moment.
EXCLUDED = ["dev/*", "etc/resolv.conf", "etc/hostname", "etc/machine-id", "etc/apt/sources.list",
            "etc/apt/sources.list.d/*", "etc/apt/apt.conf.d/99mmdebstrap", "var/cache/*", "var/lib/apt/*", "var/lib/dpkg/*-old", "var/log/*"]

Layer = collections.namedtuple("Layer", "path digest")


class Trouble(Exception):
    """What a developer should read, in a sentence, instead of a traceback."""


def say(text):
    print(f"images: {text}", file=sys.stderr, flush=True)


def packages(image):
    """Those of the image dure are in every image."""
    names = []
    for name in dict.fromkeys(["dure", image]):
        lines = (HERE / f"{name}.packages").read_text().splitlines()
        names += [line for line in lines if line and not line.startswith("#")]
    return names


def debian_release():
    return dict(re.findall(r'^(\w+)="?([^"\n]*)', pathlib.Path("/etc/os-release").read_text(), re.MULTILINE)).get(
        "VERSION_CODENAME", "")


def key(image):
    """Of all that decides what is in the layer, but for the versions of the packages."""
    parts = [str(RECIPE), debian_release(), os.uname().machine, *packages(image), SCRIPT, *EXCLUDED,
             (HERE / "dpkg.cfg").read_text(), (HERE / "add-user").read_text()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def layer(image):
    """From the cache, or made now, which takes about a minute."""
    place = CACHE / f"{image}-{key(image)}"
    if not place.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with locked(CACHE / f"{image}.lock", lambda: say("waiting for another build")):
            if not place.is_dir():
                make(image, place)
    return Layer(place / "layer.tar", (place / "digest").read_text())


def make(image, place):
    say(f"installing Debian's packages for the image {image}, once: about a minute")
    began = time.monotonic()
    workshop = CACHE / f"{image}.making"
    shutil.rmtree(workshop, ignore_errors=True)
    workshop.mkdir()
    try:
        install(image, workshop)
        file = workshop / "layer.tar"
        with open(file, "rb") as data:
            (workshop / "digest").write_text("sha256:" + hashlib.file_digest(data, "sha256").hexdigest())
        (workshop / "sources").unlink()
        workshop.rename(place)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
    say(f"{image}: {megabytes((place / 'layer.tar').stat().st_size)} in {time.monotonic() - began:.0f} s, kept in {place}")


def install(image, workshop):
    if not shutil.which("mmdebstrap"):
        raise Trouble("mmdebstrap is missing: tools/setup --cluster")
    (workshop / "sources").write_text(sources())
    script = SCRIPT.format(sources=shlex.quote(str(workshop / "sources")),
                           layer=shlex.quote(str(workshop / "layer.tar")),
                           excluded=shlex.join(f"--exclude=./{pattern}" for pattern in EXCLUDED))
    options = [f"--include={','.join(packages(image))}", f"--dpkgopt={HERE / 'dpkg.cfg'}",
               f"--customize-hook={shlex.quote(str(HERE / 'add-user'))} \"$1\""]
    options += [f"--aptopt={line}" for line in proxies()]
    # The kernel ends it with this process, however that ends: nobody writes what another build has begun anew.
    apart = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        apart += ["--map-root-user", "--map-auto"]
    # Dates of the few files that packages write when they are installed.
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0", "LC_ALL": "C.UTF-8",
                   "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    with tempfile.TemporaryFile("w+") as words:
        process = subprocess.Popen([*apart, "sh", "-eu", "-c", script, "sh", *options, debian_release()],
                                   env=environment, stdin=subprocess.DEVNULL, stdout=words, stderr=words)
        if process.wait() != 0:
            words.seek(0)
            raise Trouble(f"installing the packages of the image {image} failed:\n{words.read()[-2000:]}")


def sources():
    """What apt of this machine knows of this Debian's archives, whichever way it is written."""
    release = debian_release()
    texts = [path.read_text() for path in [APT / "sources.list", *sorted((APT / "sources.list.d").glob("*.list"))]
             if path.exists()]
    lines = [line for text in texts for line in text.splitlines() if re.match(rf"deb\s.*\s{release}\S*\s", line)]
    stanzas = [stanza for path in sorted((APT / "sources.list.d").glob("*.sources"))
               for stanza in re.split(r"\n\s*\n", path.read_text())
               if re.search(rf"^Suites:.*\b{release}\b", stanza, re.MULTILINE)
               and re.search(r"^Types:.*\bdeb\b(?!-)", stanza, re.MULTILINE)]
    if not lines and not stanzas:
        raise Trouble(f"apt of this machine has no source for Debian's release '{release}'")
    # mmdebstrap takes one of the two ways at a time.
    return "\n\n".join(stanzas) + "\n" if stanzas else "\n".join(lines) + "\n"


def proxies():
    listing = subprocess.run(["apt-config", "dump"], capture_output=True, text=True).stdout
    return [line for line in listing.splitlines() if re.match(r"Acquire::https?::Proxy\b", line)]


def megabytes(size):
    return f"{size / 1e6:.0f} MB"
