"""The programs of Kubernetes: with which arguments and files each of them starts."""
import json
import os
import sys

from . import build, certificates, machines, settings

CONFIGURATION = settings.STATE / "configuration"
CERTIFICATE = certificates.certificate
KEY = certificates.key
# Nobody needs the rest, and each takes its share of the processor.
CONTROLLERS = "*,-horizontalpodautoscaling,-csrapproving,-csrcleaner,-csrsigning,-bootstrapsigner,-tokencleaner"


def kubeconfig(who):
    path = CONFIGURATION / f"{who}.kubeconfig"
    if not path.exists():
        certificates.write_kubeconfig(path, who)
    return path


def start_control():
    """etcd and the API server; the rest waits until that one answers."""
    CONFIGURATION.mkdir(mode=0o700)
    # In memory, as /run of the machine is: nothing of it is worth a disk's fsync.
    machines.start_program(machines.CONTROL, "etcd", [
        "/usr/bin/etcd", "--name", "only", "--data-dir", "/run/etcd", "--listen-client-urls", "http://127.0.0.1:2379",
        "--advertise-client-urls", "http://127.0.0.1:2379", "--listen-peer-urls", "http://127.0.0.1:2380",
        "--initial-advertise-peer-urls", "http://127.0.0.1:2380", "--initial-cluster", "only=http://127.0.0.1:2380",
        "--snapshot-count", "10000", "--quota-backend-bytes", str(1 << 30), "--logger", "zap", "--log-level", "warn"])
    machines.start_program(machines.CONTROL, "kube-apiserver", [
        build.binary("kube-apiserver"), "--etcd-servers=http://127.0.0.1:2379",
        f"--bind-address={settings.CONTROL_ADDRESS}", f"--advertise-address={settings.CONTROL_ADDRESS}",
        f"--secure-port={settings.API_PORT}", "--insecure-port=0", "--cert-dir=/run/kubernetes",
        f"--tls-cert-file={CERTIFICATE('api')}", f"--tls-private-key-file={KEY('api')}",
        f"--client-ca-file={certificates.CA}",
        f"--kubelet-certificate-authority={certificates.CA}",
        f"--kubelet-client-certificate={CERTIFICATE('api-to-kubelet')}",
        f"--kubelet-client-key={KEY('api-to-kubelet')}", "--kubelet-preferred-address-types=InternalIP",
        "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
        f"--service-cluster-ip-range={settings.SERVICES}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={certificates.SERVICE_ACCOUNT_KEY}",
        f"--service-account-key-file={certificates.SERVICE_ACCOUNT_KEY}",
        "--allow-privileged=true", "--profiling=false", "--event-ttl=1h"])


def start_managers():
    """Controllers, scheduler, DNS, storage, and the player of nodes that are only objects."""
    common = ["--leader-elect=false", "--port=0", "--bind-address=127.0.0.1", "--profiling=false"]
    machines.start_program(machines.CONTROL, "kube-controller-manager", [
        build.binary("kube-controller-manager"), f"--kubeconfig={kubeconfig('kube-controller-manager')}", *common,
        f"--service-account-private-key-file={certificates.SERVICE_ACCOUNT_KEY}",
        f"--root-ca-file={certificates.CA}", "--use-service-account-credentials=true",
        # Tests of lost nodes wait for this.
        "--node-monitor-grace-period=16s",
        f"--controllers={CONTROLLERS}"])
    machines.start_program(machines.CONTROL, "kube-scheduler", [
        build.binary("kube-scheduler"), f"--kubeconfig={kubeconfig('kube-scheduler')}", *common])
    start_own("dns", "cluster_parts.dns", "/run")
    start_own("played-nodes", "cluster_parts.played_nodes")
    start_own("storage", "cluster_parts.storage")


def start_own(name, module, *arguments):
    """Starts a Python program of this folder inside the control machine."""
    machines.start_program(machines.CONTROL, name, [
        "env", f"PYTHONPATH={settings.TOOLS}", "PYTHONDONTWRITEBYTECODE=1", f"DURE_CACHE={settings.CACHE}",
        f"DURE_CLUSTER_NET={settings.NET}", sys.executable, "-m", module, *arguments])


def start_containerd(node):
    folder = CONFIGURATION / node.name
    (folder / "cni").mkdir(parents=True)
    (folder / "cni" / "10-pods.conflist").write_text(json.dumps(network_of_pods(node), indent=2))
    (folder / "containerd.toml").write_text(containerd_configuration(folder))
    machines.start_program(node.name, f"containerd-{node.name}", [
        "/usr/bin/containerd", "--config", folder / "containerd.toml", "--log-level", "warn"])


def network_of_pods(node):
    """Each pod has a cable of its own to its node, which routes. On a bridge, a service's answer to a pod of
    the same node would bypass kube-proxy's rules where the kernel does not filter bridges."""
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [
        {"type": "ptp", "ipMasq": False,
         "ipam": {"type": "host-local", "dataDir": "/var/lib/cni/addresses", "ranges": [[{"subnet": node.pods}]],
                  "routes": [{"dst": "0.0.0.0/0"}]}},
        {"type": "portmap", "capabilities": {"portMappings": True}}]}


def containerd_configuration(folder):
    return f"""version = 2
root = "/run/disk/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{settings.HOST_IMAGE}"
  # Without CAP_SYS_RESOURCE a container may not be protected more than containerd itself.
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""


def start_kubelet(node):
    path = CONFIGURATION / node.name / "kubelet.json"
    path.write_text(json.dumps(kubelet_configuration(node), indent=2))
    machines.make_cgroup(node.name)
    machines.start_program(node.name, f"kubelet-{node.name}", [
        build.binary("kubelet"), f"--config={path}", f"--kubeconfig={kubeconfig(node.name)}",
        f"--hostname-override={node.name}", f"--node-ip={node.address}", "--root-dir=/run/disk/kubelet",
        "--container-runtime=remote", "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
        f"--pod-infra-container-image={settings.HOST_IMAGE}",
        # Pods ask the cluster's DNS and nobody else.
        "--resolv-conf=", "--housekeeping-interval=30s"])


def kubelet_configuration(node):
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "address": node.address,
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True},
                           "x509": {"clientCAFile": str(certificates.CA)}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(CERTIFICATE(node.name)), "tlsPrivateKeyFile": str(KEY(node.name)),
        "clusterDNS": [settings.CONTROL_ADDRESS], "clusterDomain": settings.DNS_DOMAIN,
        # Pods have all of the machine, but their groups are where `down` finds them.
        "cgroupDriver": "cgroupfs", "enforceNodeAllocatable": [], "cgroupRoot": f"/{settings.CGROUP}/{node.name}",
        "failSwapOn": False,
        # Finds the kernel settings it wants (machine-init.sh) and must not touch the host's.
        "protectKernelDefaults": True,
        # Imported images cannot be pulled again, so none is ever collected; a full disk of the developer's
        # is no reason to evict tests.
        "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "100Mi"},
        # Looks often, so that a change is seen soon; tells the API server only of changes, and that it lives.
        "nodeStatusUpdateFrequency": "2s", "nodeStatusReportFrequency": "5m",
        "volumeStatsAggPeriod": "10m", "serializeImagePulls": False,
    }


def start_proxy(node):
    machines.start_program(node.name, f"kube-proxy-{node.name}", [
        build.binary("kube-proxy"), f"--kubeconfig={kubeconfig('kube-proxy')}", "--proxy-mode=iptables",
        f"--hostname-override={node.name}", f"--cluster-cidr={settings.PODS}", "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0"])


def give_kubeconfig():
    """The admin's, for the developer; also for the one who called sudo."""
    certificates.write_kubeconfig(settings.KUBECONFIG, "admin")
    if "SUDO_UID" in os.environ:
        for path in [settings.KUBECONFIG, KEY("admin")]:
            os.chown(path, int(os.environ["SUDO_UID"]), -1)
