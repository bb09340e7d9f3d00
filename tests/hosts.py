"""Two hosts on this machine: two network namespaces and a bridge between them, each with an address."""
import ipaddress
import os
import re
import subprocess

import harness


class TwoHosts:
    """For a harness.Case; it comes before the case among the bases."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("only root may make network namespaces")
        self.remove_what_the_killed_left()
        pid = os.getpid()
        self.bridge = f"dure{pid}"
        self.names = [f"dure-{pid}-a", f"dure-{pid}-b"]
        self.cables = [f"d{pid}a", f"d{pid}b"]
        # Sixteen addresses of the block that no network here should use, by our number: suites run side by side.
        first = ipaddress.ip_address("100.64.0.0") + pid % 2**18 * 16
        self.bridge_address, *addresses = (str(first + number) for number in (1, 2, 3))
        self.addCleanup(self.remove_networks, pid)
        self.ip("link", "add", self.bridge, "type", "bridge")
        self.ip("addr", "add", f"{self.bridge_address}/28", "dev", self.bridge)
        self.ip("link", "set", self.bridge, "up")
        for name, cable, address in zip(self.names, self.cables, addresses):
            self.ip("netns", "add", name)
            self.ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
            self.ip("link", "set", cable, "master", self.bridge, "up")
            self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("-n", name, "addr", "add", f"{address}/28", "dev", "eth0")
            self.ip("-n", name, "link", "set", "eth0", "up")

    @staticmethod
    def ip(*words):
        harness.run_text(["ip", *words])

    @staticmethod
    def remove_networks(pid):
        # A namespace lives on while a process is in it; its cable must not.
        for device in (f"d{pid}a", f"d{pid}b", f"dure{pid}"):
            subprocess.run(["ip", "link", "del", device], capture_output=True)
        for name in (f"dure-{pid}-a", f"dure-{pid}-b"):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def remove_what_the_killed_left(self):
        """The networks of suites that ended without a chance to remove them, or had our number before us."""
        for device in os.listdir("/sys/class/net"):
            owner = re.fullmatch(r"dure(\d+)", device)
            if owner and (int(owner[1]) == os.getpid() or not os.path.exists(f"/proc/{owner[1]}")):
                self.remove_networks(owner[1])

    def on_two_hosts(self):
        """The line of a job file that assigns its workers to the two."""
        return f"local: {{networks: [{', '.join(self.names)}], address: {self.bridge_address}}}\n"
