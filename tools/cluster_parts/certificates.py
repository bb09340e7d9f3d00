"""The cluster's own certificate authority, and who has a certificate of it."""
import base64
import subprocess

from . import settings

CA = settings.CERTIFICATES / "ca.pem"
CA_KEY = settings.CERTIFICATES / "ca.key"
SERVICE_ACCOUNT_KEY = settings.CERTIFICATES / "service-accounts.key"
NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
# Nothing of the machine's own openssl.cnf should get in.
CONFIGURATION = "[req]\ndistinguished_name = name\n[name]\n"
DAYS = "365"


def certificate(name):
    return settings.CERTIFICATES / f"{name}.pem"


def key(name):
    return settings.CERTIFICATES / f"{name}.key"


def make_all():
    settings.CERTIFICATES.mkdir(mode=0o755, parents=True)  # openssl makes the keys private
    (settings.CERTIFICATES / "openssl.cnf").write_text(CONFIGURATION)
    openssl("req", "-x509", *NEW_KEY, "-keyout", CA_KEY, "-out", CA, "-days", DAYS, "-subj", "/CN=dure test cluster",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", SERVICE_ACCOUNT_KEY)
    issue("api", "kube-apiserver", addresses=[settings.CONTROL_ADDRESS, settings.API_SERVICE_ADDRESS, "127.0.0.1"],
          hosts=["kubernetes", "kubernetes.default", "kubernetes.default.svc",
                 f"kubernetes.default.svc.{settings.DNS_DOMAIN}", "localhost"])
    # As whom the API server asks kubelets for logs.
    issue("api-to-kubelet", "kube-apiserver-kubelet-client", group="system:masters")
    issue("admin", "admin", group="system:masters")
    for role in ["kube-controller-manager", "kube-scheduler", "kube-proxy"]:
        issue(role, f"system:{role}")
    for node in settings.nodes():
        issue(node.name, f"system:node:{node.name}", group="system:nodes", addresses=[node.address], hosts=[node.name])


def issue(name, user, group=None, addresses=(), hosts=()):
    subject = (f"/O={group}" if group else "") + f"/CN={user}"
    alternatives = [f"IP:{address}" for address in addresses] + [f"DNS:{host}" for host in hosts]
    extensions = ["basicConstraints=CA:FALSE", "extendedKeyUsage=clientAuth,serverAuth"]
    if alternatives:
        extensions.append("subjectAltName=" + ",".join(alternatives))
    openssl("req", "-x509", *NEW_KEY, "-CA", CA, "-CAkey", CA_KEY, "-keyout", key(name), "-out", certificate(name),
            "-days", DAYS, "-subj", subject, *[word for each in extensions for word in ("-addext", each)])


def openssl(action, *words):
    command = ["openssl", action, *map(str, words)]
    if action == "req":
        command += ["-config", str(settings.CERTIFICATES / "openssl.cnf")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise settings.Trouble(f"openssl {action}: {done.stderr.strip()[-500:]}")


def write_kubeconfig(path, name):
    """A kubeconfig that needs no other file, for the holder of a certificate."""
    def text_of(file):
        return base64.b64encode(file.read_bytes()).decode()

    path.touch(mode=0o600)
    path.write_text(f"""apiVersion: v1
kind: Config
clusters:
- name: dure
  cluster:
    server: {settings.API_URL}
    certificate-authority-data: {text_of(CA)}
users:
- name: {name}
  user:
    client-certificate-data: {text_of(certificate(name))}
    client-key-data: {text_of(key(name))}
contexts:
- name: dure
  context: {{cluster: dure, user: {name}}}
current-context: dure
""")
