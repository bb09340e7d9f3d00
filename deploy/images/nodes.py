"""The images on the nodes of tools/cluster."""
import concurrent.futures
import os
import subprocess

from base import Trouble
from cluster_parts import images, machines, settings

CTR = ["ctr", "--namespace", "k8s.io"]


def import_image(image):
    """Makes the image known to both nodes; quick if it is."""
    if os.geteuid() != 0:
        raise Trouble("--import needs root: write the image with --out, and call tools/cluster image import")
    if images.full_name(image.name) != image.name:
        raise Trouble(f"image name '{image.name}': needs a tag, as in {image.name}:1")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda node: import_into(node.name, image), settings.nodes()))


def import_into(node, image):
    if digest_on(node, image.name) == image.digest:
        return
    # Layers that the node has are not sent again: of a new build, that leaves a few megabytes.
    known = set(machines.run(machines.inside(node, [*CTR, "content", "ls", "--quiet"])).split())
    process = subprocess.Popen(machines.inside(node, [*CTR, "images", "import", "-"]), stdin=subprocess.PIPE,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        image.write(process.stdin, known)
    except BrokenPipeError:
        pass  # its own words say more
    words = process.communicate()[1].decode(errors="replace").strip()
    if process.returncode != 0:
        raise Trouble(f"importing {image.name} into {node}: {words}")


def digest_on(node, name):
    listing = machines.run(machines.inside(node, [*CTR, "images", "ls", f"name=={name}"]))
    return next((line.split()[2] for line in listing.splitlines()[1:] if line.split()[0] == name), None)
