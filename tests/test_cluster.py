#!/usr/bin/python3
"""tools/cluster gives what a Kubernetes of one's own would give, and takes all of it away again."""
import hashlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = ROOT / "tools" / "cluster"
CACHE = pathlib.Path(os.environ.get("DURE_CACHE") or pathlib.Path.home() / ".cache" / "dure")
# Its own, beside the one that other suites use.
NAME = os.environ["DURE_CLUSTER"] = "test"
NET = os.environ["DURE_CLUSTER_NET"] = "10.202"
STATE = CACHE / f"cluster-{NAME}"
HOST_DEVICE = CGROUP = f"dure-{NAME}"
CGROUPS = pathlib.Path("/sys/fs/cgroup")
NAMESPACE = f"test-cluster-{os.getpid()}"

# A web server that says which pod it is.
SERVER = """
import http.server, socket
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(socket.gethostname().encode())
print('listening', flush=True)
http.server.ThreadingHTTPServer(('', 8080), Answer).serve_forever()
"""
FETCH = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"
# The status of a request to the API server, as a pod with a service account makes it.
ASK_API = """
import ssl, sys, urllib.error, urllib.request
folder = '/var/run/secrets/kubernetes.io/serviceaccount'
request = urllib.request.Request('https://kubernetes.default.svc' + sys.argv[1],
                                 headers={'Authorization': 'Bearer ' + open(folder + '/token').read()})
try:
    print(urllib.request.urlopen(request, context=ssl.create_default_context(cafile=folder + '/ca.crt')).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


def setUpModule():
    if os.environ.get("DURE_TEST_KUBECONFIG"):
        raise unittest.SkipTest("DURE_TEST_KUBECONFIG names another cluster; this is about tools/cluster's own")
    if os.geteuid() != 0:
        raise unittest.SkipTest("only root may make a cluster")
    if cluster("status", code=None).returncode == 0:  # left by a suite that was killed
        cluster("down")
    began = time.monotonic()
    cluster("up", seconds=1500)
    print(f"measured: up in {time.monotonic() - began:.1f} s", file=sys.stderr)
    kubectl("create", "namespace", NAMESPACE)


def tearDownModule():
    cluster("down")


def cluster(*words, code=0, seconds=120):
    done = subprocess.run([CLUSTER, *words], capture_output=True, text=True, timeout=seconds)
    if code is not None and done.returncode != code:
        raise AssertionError(f"tools/cluster {' '.join(words)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def kubectl(*words, stdin=None):
    done = subprocess.run([CLUSTER, "kubectl", *words], input=stdin, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError(f"kubectl {' '.join(words)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def get(*words):
    return json.loads(kubectl("get", *words, "-o", "json"))


def apply(*objects, namespace=NAMESPACE):
    kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List",
                                                                  "items": list(objects)}))


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.2)
    return value


def pod(name, *command, node=None, **spec):
    """A pod that runs the host's programs: the image is empty, /usr and /etc are the host's."""
    mounts = [{"name": folder, "mountPath": f"/{folder}", "readOnly": True} for folder in ["usr", "etc"]]
    container = {"name": "main", "image": "dure.test/host:1", "imagePullPolicy": "Never", "command": list(command),
                 "volumeMounts": mounts, "resources": spec.pop("resources", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name},
                                                           "annotations": spec.pop("annotations", {})},
            "spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                     "volumes": [{"name": each, "hostPath": {"path": f"/{each}"}} for each in ["usr", "etc"]],
                     **({"nodeName": node} if node else {}), **spec}}


def service(name, app, **spec):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": {"app": app}, "ports": [{"port": 80, "targetPort": 8080}], **spec}}


def wait_for_phase(name, phase, seconds=60):
    def reached():
        status = get("pod", name, "-n", NAMESPACE)["status"]
        return status if status["phase"] == phase else None
    return wait_until(reached, seconds, f"pod {name} {phase}")


def inside(name, *command):
    return kubectl("exec", "-n", NAMESPACE, name, "--", *command).strip()


class Cluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        apply(pod("one", "python3", "-c", SERVER, node="node-1"), pod("two", "python3", "-c", SERVER, node="node-2"),
              service("second", "two"), service("headless", "two", clusterIP="None"))
        cls.addresses = {name: wait_for_phase(name, "Running")["podIP"] for name in ["one", "two"]}
        for name in cls.addresses:
            wait_until(lambda: "listening" in kubectl("logs", "-n", NAMESPACE, name), 30, f"{name} listens")

    def test_env_points_at_the_cluster(self):
        line = cluster("env").stdout
        self.assertEqual(line, f"export KUBECONFIG={STATE}/kubeconfig\n")
        self.assertIn("up", cluster("status").stdout)

    def test_both_nodes_are_ready_and_have_gpus(self):
        nodes = {node["metadata"]["name"]: node for node in get("nodes")["items"]}
        for name, gpus in [("node-1", "5"), ("node-2", "3")]:
            conditions = {each["type"]: each["status"] for each in nodes[name]["status"]["conditions"]}
            self.assertEqual(conditions["Ready"], "True")
            self.assertEqual(nodes[name]["status"]["allocatable"]["nvidia.com/gpu"], gpus)

    def test_the_scheduler_counts_gpus(self):
        four = {"limits": {"nvidia.com/gpu": "4"}}
        apply(pod("greedy", "true", resources=four))
        self.assertTrue(wait_for_phase("greedy", "Succeeded"))
        self.assertEqual(get("pod", "greedy", "-n", NAMESPACE)["spec"]["nodeName"], "node-1")

    def test_pods_of_two_nodes_reach_each_other(self):
        self.assertEqual(inside("one", "python3", "-c", FETCH, f"http://{self.addresses['two']}:8080"), "two")
        self.assertEqual(inside("two", "python3", "-c", FETCH, f"http://{self.addresses['one']}:8080"), "one")

    def test_a_service_is_reached_by_name_and_by_address(self):
        address = get("service", "second", "-n", NAMESPACE)["spec"]["clusterIP"]
        # From another node, and from the very pod behind it.
        for client in ["one", "two"]:
            for host in ["second", f"second.{NAMESPACE}", f"second.{NAMESPACE}.svc.cluster.local", address]:
                self.assertEqual(inside(client, "python3", "-c", FETCH, f"http://{host}"), "two", (client, host))

    def test_a_headless_service_leads_to_its_pods(self):
        look_up = "import socket; print(socket.gethostbyname('headless'))"
        self.assertEqual(inside("one", "python3", "-c", look_up), self.addresses["two"])

    def test_an_unknown_name_is_unknown_at_once(self):
        look_up = ("import socket, time\nbegan = time.monotonic()\n"
                   "try: socket.gethostbyname('nobody.example')\n"
                   "except socket.gaierror as error: print(error.errno, time.monotonic() - began < 2)")
        self.assertEqual(inside("one", "python3", "-c", look_up), "-2 True")

    def test_the_host_reaches_pods_and_services(self):
        address = get("service", "second", "-n", NAMESPACE)["spec"]["clusterIP"]
        for url in [f"http://{self.addresses['two']}:8080", f"http://{address}"]:
            done = subprocess.run(["python3", "-c", FETCH, url], capture_output=True, text=True, timeout=30)
            self.assertEqual(done.stdout.strip(), "two", done.stderr)

    def test_logs_are_read_and_exit_codes_kept(self):
        apply(pod("ending", "sh", "-c", "echo these words; exit 3", node="node-2"))
        status = wait_for_phase("ending", "Failed")
        self.assertEqual(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3)
        self.assertEqual(kubectl("logs", "-n", NAMESPACE, "ending"), "these words\n")

    def test_a_service_account_is_refused_elsewhere(self):
        name = "limited"
        apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
              {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
               "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]},
              {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
               "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}]})
        apply(pod(name, "sleep", "1000", serviceAccountName=name))
        wait_for_phase(name, "Running")
        for path, status in [(f"/api/v1/namespaces/{NAMESPACE}/pods", "200"),
                             (f"/api/v1/namespaces/{NAMESPACE}/secrets", "403"),
                             ("/api/v1/namespaces/default/pods", "403"), ("/api/v1/nodes", "403")]:
            self.assertEqual(inside(name, "python3", "-c", ASK_API, path), status, path)

    def test_a_node_that_is_only_an_object_runs_pods_to_their_end(self):
        node = f"played-{os.getpid()}"
        cluster("node", "add", node, "--gpus", "8")
        self.addCleanup(kubectl, "delete", "node", node)
        bearing = {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"kubernetes.io/hostname": node},
                   "resources": {"limits": {"nvidia.com/gpu": "8"}}}
        apply(pod("played", "anything", **bearing))
        status = wait_for_phase("played", "Succeeded")
        self.assertEqual(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 0)
        bearing["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
        apply(pod("failing", "anything", annotations={"dure.test/exit-code": "7"}, tolerations=bearing["tolerations"],
                  nodeSelector=bearing["nodeSelector"]))
        status = wait_for_phase("failing", "Failed")
        self.assertEqual(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 7)
        apply(pod("staying", "anything", node=node, annotations={"dure.test/runs-for": "forever"}))
        wait_for_phase("staying", "Running")
        kubectl("delete", "pod", "staying", "-n", NAMESPACE, "--timeout=20s")

    def test_an_imported_image_runs_on_both_nodes(self):
        name = f"dure.test/imported:{os.getpid()}"
        with tempfile.TemporaryDirectory() as folder:
            archive = pathlib.Path(folder) / "image.tar"
            archive.write_bytes(docker_archive({"message": b"from the image\n"}))
            cluster("image", "import", str(archive), name)
        for node in ["node-1", "node-2"]:
            reader = pod(f"reader-{node}", "cat", "/message", node=node)
            reader["spec"]["containers"][0]["image"] = name
            apply(reader)
        for node in ["node-1", "node-2"]:
            wait_for_phase(f"reader-{node}", "Succeeded")
            self.assertEqual(kubectl("logs", "-n", NAMESPACE, f"reader-{node}"), "from the image\n")

    def test_memory_limits_hold(self):
        limit = {"limits": {"memory": "64Mi"}}
        apply(pod("hungry", "python3", "-c", "x = b'x' * (1 << 28)", resources=limit))
        status = wait_for_phase("hungry", "Failed")
        self.assertEqual(status["containerStatuses"][0]["state"]["terminated"]["reason"], "OOMKilled")

    def test_pytorch_runs_in_a_pod(self):
        apply(pod("torch", "python3", "-c", "import torch; print(int(torch.ones(6, 7).sum()))"))
        wait_for_phase("torch", "Succeeded", 120)
        self.assertEqual(kubectl("logs", "-n", NAMESPACE, "torch"), "42\n")


def docker_archive(files):
    """An image of one layer as `docker save` writes it; the links let the host's programs run in it."""
    def tar_of(entries):
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar:
            for name, content in entries.items():
                entry = tarfile.TarInfo(name)
                if isinstance(content, str):
                    entry.type, entry.linkname = tarfile.SYMTYPE, content
                else:
                    entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else None)
        return data.getvalue()

    layer = tar_of({**files, "lib": "usr/lib", "lib64": "usr/lib64", "bin": "usr/bin"})
    configuration = {"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/usr/bin"]},
                     "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}
    manifest = [{"Config": "config.json", "RepoTags": None, "Layers": ["layer.tar"]}]
    return tar_of({"config.json": json.dumps(configuration).encode(), "layer.tar": layer,
                   "manifest.json": json.dumps(manifest).encode()})


def interfaces():
    return {line.split(":")[1].strip().split("@")[0]
            for line in subprocess.check_output(["ip", "-o", "link"], text=True).splitlines()}


def rules():
    """Rules of the host's firewall; counters and empty tables aside."""
    text = subprocess.check_output(["iptables-save"], text=True)
    return [line for line in text.splitlines() if line.startswith("-")]


def processes_of_the_cluster():
    """Whatever was started with the cluster's name, uses its folder, or is in one of its control groups."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        if int(entry) == os.getpid():
            continue
        try:
            line, environment, groups = (pathlib.Path(f"/proc/{entry}/{name}").read_bytes()
                                         for name in ("cmdline", "environ", "cgroup"))
        except OSError:
            continue
        if (f"{STATE}/".encode() in line or f"DURE_CLUSTER={NAME}".encode() in environment.split(b"\0")
                or f"/{CGROUP}".encode() in groups):
            found.append((int(entry), line.replace(b"\0", b" ").decode(errors="replace")[:200]))
    return found


def program(name):
    """The pid of a program of the cluster; the one that is remembered waits for it, outside its machine."""
    outside = (STATE / "processes" / name).read_text().split()[0]
    return int(pathlib.Path(f"/proc/{outside}/task/{outside}/children").read_text())


class Lifecycle(unittest.TestCase):
    """Takes the cluster down and up; runs after the others, by its name."""

    def assert_nothing_left(self):
        wait_until(lambda: not processes_of_the_cluster(), 5, f"no processes: {processes_of_the_cluster()}")
        self.assertFalse(STATE.exists())
        self.assertNotIn(str(STATE), pathlib.Path("/proc/self/mountinfo").read_text())
        self.assertNotIn(HOST_DEVICE, interfaces())
        self.assertNotIn(f"{NET}.", subprocess.check_output(["ip", "route"], text=True))
        self.assertEqual([line for line in rules() if "KUBE" in line or "CNI" in line], [])
        self.assertEqual([*CGROUPS.glob(CGROUP), *CGROUPS.glob(f"*/{CGROUP}"),
                          *CGROUPS.glob("*/k8s.io")], [])
        self.assertEqual(list(pathlib.Path("/run/netns").glob("cni-*")), [])
        self.assertNotEqual(cluster("status", code=None).returncode, 0)

    def network_namespaces(self):
        """Those of the machines and of the pods in them."""
        here = os.readlink("/proc/self/ns/net")
        found = set()
        for pid, _ in processes_of_the_cluster():
            try:
                found.add(os.readlink(f"/proc/{pid}/ns/net"))
            except OSError:
                pass
        return found - {here}

    def test_1_reset_makes_it_as_new(self):
        before = set(kubectl("get", "namespaces", "-o", "name").split())
        kubectl("create", "namespace", "left-over")
        apply(pod("left-over", "sleep", "1000"), namespace="left-over")
        apply(pod("left-over", "sleep", "1000"), {"apiVersion": "v1", "kind": "ConfigMap",
                                                  "metadata": {"name": "left-over"}}, namespace="default")
        cluster("node", "add", "left-over")
        kubectl("label", "node", "node-1", "left=over")
        kubectl("cordon", "node-2")
        began = time.monotonic()
        cluster("reset")
        print(f"measured: reset in {time.monotonic() - began:.1f} s", file=sys.stderr)
        self.assertEqual(set(kubectl("get", "namespaces", "-o", "name").split()),
                         before - {f"namespace/{NAMESPACE}", "namespace/left-over"})
        self.assertNotIn("left-over", kubectl("get", "pods,configmaps", "-n", "default", "-o", "name"))
        nodes = {node["metadata"]["name"]: node for node in get("nodes")["items"]}
        self.assertEqual(sorted(nodes), ["node-1", "node-2"])
        self.assertNotIn("left", nodes["node-1"]["metadata"]["labels"])
        self.assertFalse(nodes["node-2"]["spec"].get("unschedulable", False))

    def test_2_up_again_is_quick(self):
        began = time.monotonic()
        cluster("up")
        self.assertLess(time.monotonic() - began, 5)

    def test_3_a_component_that_died_is_noticed_and_mended(self):
        os.kill(program("kube-scheduler"), signal.SIGKILL)
        wait_until(lambda: "kube-scheduler" in cluster("status", code=None).stdout, 5, "status names the scheduler")
        cluster("up")
        cluster("status")

    def test_4_down_leaves_nothing(self):
        apply(pod("busy", "sleep", "1000", node="node-1"), namespace="default")
        wait_until(lambda: get("pod", "busy", "-n", "default")["status"]["phase"] == "Running", 30, "busy runs")
        # A kubelet that somebody stopped, to see a node vanish, must not be in the way either.
        os.kill(program("kubelet-node-2"), signal.SIGSTOP)
        namespaces = self.network_namespaces()
        self.assertGreaterEqual(len(namespaces), 3)
        began = time.monotonic()
        cluster("down")
        print(f"measured: down in {time.monotonic() - began:.1f} s", file=sys.stderr)
        self.assert_nothing_left()
        self.assertEqual(self.network_namespaces() & namespaces, set())

    def test_5_an_up_that_was_killed_leaves_what_down_can_remove(self):
        for words in ["making three machines", "starting etcd", "starting controllers"]:
            process = subprocess.Popen([CLUSTER, "up"], stderr=subprocess.PIPE, text=True)
            for line in process.stderr:
                if words in line:
                    break
            time.sleep(0.3)
            process.kill()
            process.wait()
            process.stderr.close()
            cluster("down")
            self.assert_nothing_left()

    def test_6_an_up_that_was_interrupted_takes_itself_down(self):
        process = subprocess.Popen([CLUSTER, "up"], stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if "starting controllers" in line:
                process.terminate()
        self.assertEqual(process.wait(30), 130)
        process.stderr.close()
        self.assert_nothing_left()

    def test_7_a_note_of_an_old_process_harms_nobody(self):
        stranger = subprocess.Popen(["sleep", "60"], env={})
        self.addCleanup(stranger.wait)
        self.addCleanup(stranger.kill)
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        (STATE / "processes").mkdir(parents=True)
        for name, started, when in [("machine-control", "1", boot), ("machine-node-1", "1", "an-earlier-boot")]:
            (STATE / "processes" / name).write_text(f"{stranger.pid} {started} {when}\n")
        cluster("down")
        self.assertIsNone(stranger.poll())
        self.assert_nothing_left()

    def test_8_addresses_of_another_are_not_taken(self):
        subprocess.run(["ip", "link", "add", HOST_DEVICE, "type", "bridge"], check=True)
        self.addCleanup(subprocess.run, ["ip", "link", "del", HOST_DEVICE], check=True)
        done = cluster("up", code=1)
        self.assertIn(f"the network device {HOST_DEVICE} exists", done.stderr)


if __name__ == "__main__":
    unittest.main()
