"""Two hosts on this machine: two network namespaces and a bridge between them, each with an address."""
import os
import subprocess

import harness


class TwoHosts:
    """For a harness.Case; it comes before the case among the bases."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("only root may make network namespaces")
        tag = f"{os.getpid() % 100000}"
        self.bridge = f"dure{tag}"
        self.names = [f"dure-{tag}-a", f"dure-{tag}-b"]
        self.subnet = f"10.{77 + os.getpid() % 100}.{os.getpid() % 250}"
        self.cables = [f"d{tag}a", f"d{tag}b"]
        self.addCleanup(self.remove_networks)
        self.ip("link", "add", self.bridge, "type", "bridge")
        self.ip("addr", "add", f"{self.subnet}.1/24", "dev", self.bridge)
        self.ip("link", "set", self.bridge, "up")
        for number, name in enumerate(self.names):
            self.ip("netns", "add", name)
            cable = self.cables[number]
            self.ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
            self.ip("link", "set", cable, "master", self.bridge, "up")
            self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("-n", name, "addr", "add", f"{self.subnet}.{number + 2}/24", "dev", "eth0")
            self.ip("-n", name, "link", "set", "eth0", "up")

    @staticmethod
    def ip(*words):
        harness.run_text(["ip", *words])

    def remove_networks(self):
        # A namespace lives on while a process is in it; its cable must not.
        for device in [*self.cables, self.bridge]:
            subprocess.run(["ip", "link", "del", device], capture_output=True)
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def on_two_hosts(self):
        """The line of a job file that deals its workers to the two."""
        return f"local: {{networks: [{', '.join(self.names)}], address: {self.subnet}.1}}\n"
