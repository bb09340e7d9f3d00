#!/usr/bin/python3
"""The cluster's DNS: dnsmasq, with a list of names kept as the Services and Endpoints are.

  python3 -m cluster_parts.dns FOLDER        serves until killed; the list is in FOLDER
"""
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

from . import settings
from .api import Api, Mirror


def addresses_of(services, endpoints):
    """The lines of a hosts file: every service, and behind headless ones every address, by name."""
    lines = set()
    for key, service in services.items():
        namespace, name = key
        domain = f"{name}.{namespace}.svc.{settings.DNS_DOMAIN}"
        spec = service["spec"]
        headless = spec.get("clusterIP") == "None"
        if spec.get("clusterIP") and not headless:
            lines.add(f"{spec['clusterIP']} {domain}")
        for subset in endpoints.get(key, {}).get("subsets") or []:
            for address in subset.get("addresses") or []:
                if headless:
                    lines.add(f"{address['ip']} {domain}")
                if address.get("hostname"):
                    lines.add(f"{address['ip']} {address['hostname']}.{domain}")
    return "".join(line + "\n" for line in sorted(lines))


def start_server(names):
    return subprocess.Popen([
        "/usr/sbin/dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--group=root",
        "--no-resolv", "--no-hosts", f"--addn-hosts={names}", "--pid-file=", "--log-facility=-",
        f"--listen-address={settings.CONTROL_ADDRESS}", "--bind-interfaces", "--local-ttl=1", "--cache-size=0",
        # There is no other server to ask: an unknown name is unknown, at once.
        "--local=/#/"])


def wait_for_server(server):
    """A signal before it is ready to read its list again would kill it."""
    while server.poll() is None:
        try:
            return socket.create_connection((settings.CONTROL_ADDRESS, 53), timeout=1).close()
        except OSError:
            time.sleep(0.05)


def main():
    names = pathlib.Path(sys.argv[1]) / "names"
    names.write_text("")
    server = start_server(names)
    wait_for_server(server)
    changed = threading.Event()
    api = Api()
    services = Mirror(api, "/api/v1/services", changed)
    endpoints = Mirror(api, "/api/v1/endpoints", changed)
    written = ""
    while server.poll() is None:
        if not changed.wait(timeout=5):
            continue
        changed.clear()
        if not (services.listed and endpoints.listed):
            continue
        text = addresses_of(services.objects, endpoints.objects)
        if text != written:
            fresh = names.with_suffix(".new")
            fresh.write_text(text)
            os.replace(fresh, names)
            server.send_signal(signal.SIGHUP)
            written = text
            # A burst of changes is one reading of the list.
            time.sleep(0.05)
    sys.exit(f"dnsmasq ended with {server.returncode}")


if __name__ == "__main__":
    main()
