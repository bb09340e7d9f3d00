"""Following a run costs the API server nothing while nothing happens, and loses nothing when connections break."""
import base64
import collections
import contextlib
import http.client
import http.server
import json
import socket
import ssl
import tempfile
import threading
import time
import urllib.parse

import harness
from kubernetes import OnKubernetes, RunsOnKubernetes


class Proxy:
    """Stands before the API server, counts what is asked, and breaks what it is told to break."""

    def __init__(self, config, directory):
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.server = urllib.parse.urlsplit(cluster["server"])
        self.tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        with tempfile.NamedTemporaryFile(dir=directory) as file:
            file.write(base64.b64decode(user["client-certificate-data"]) + b"\n" + base64.b64decode(user["client-key-data"]))
            file.flush()
            self.tls.load_cert_chain(file.name)
        self.lock, self.asked, self.open, self.expired = threading.Lock(), [], set(), set()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words):
                pass

            def forward(self):
                outer.forward(self)
            do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = forward

        self.httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.httpd.daemon_threads = True
        self.httpd.handle_error = lambda *words: None  # it is there to break connections
        self.url = f"http://127.0.0.1:{self.httpd.server_address[1]}"
        threading.Thread(target=self.httpd.serve_forever, daemon=True).start()

    def forward(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        watch = "watch=true" in handler.path
        with self.lock:
            self.asked.append(f"{'WATCH' if watch else handler.command} {handler.path}")
            kind = handler.path.split("?")[0].rsplit("/", 1)[1]
            gone = watch and kind in self.expired
            self.expired.discard(kind if gone else None)
        if gone:
            answer = json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}})
            self.reply(handler, 200, iter([answer.encode() + b"\n"]))
            return
        upstream = http.client.HTTPSConnection(self.server.hostname, self.server.port, context=self.tls)
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in ("host", "connection")}
        try:
            upstream.request(handler.command, handler.path, body or None, headers)
            with self.lock:
                self.open.add(handler.connection)
            response = upstream.getresponse()
            self.reply(handler, response.status, iter(lambda: response.read1(65536), b""))
        except OSError:
            handler.close_connection = True
        finally:
            with self.lock:
                self.open.discard(handler.connection)
            upstream.close()

    @staticmethod
    def reply(handler, status, pieces):
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for piece in pieces:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            handler.wfile.flush()
        handler.wfile.write(b"0\r\n\r\n")

    def cut(self):
        """Breaks every connection that something goes over now."""
        with self.lock:
            for connection in self.open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def expire(self, *kinds):
        """The next watch of each is told that its version is too old."""
        with self.lock:
            self.expired.update(kinds)

    def count(self):
        with self.lock:
            return collections.Counter(line.split("?")[0] for line in self.asked)

    def close(self):
        self.httpd.shutdown()
        self.httpd.server_close()


class Follow(RunsOnKubernetes, OnKubernetes, harness.Case):
    def setUp(self):
        super().setUp()
        config = json.loads(self.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
        self.proxy = Proxy(config, self.dir)
        self.addCleanup(self.proxy.close)
        through = {**config, "clusters": [{**config["clusters"][0], "cluster": {"server": self.proxy.url}}],
                   "users": [{**config["users"][0], "user": {}}]}
        self.through = str(self.write("proxy.kubeconfig", json.dumps(through)))

    def begin(self, *words):
        return self.start(*words, "--on", "kubernetes", "-n", self.namespace, env={**self.env, "KUBECONFIG": self.through})

    def test_while_nothing_happens_nothing_is_asked(self):
        job = self.job_file("quiet", workers=2, command=["sh", "-c", "echo begun; until test -e out/go; do sleep 0.2; done; echo ended"],
                            claim="models")
        claim = self.make_claim()
        running = self.begin("run", job)
        self.wait_until(lambda: running.out.count("begun") == 2, "both ranks print")
        reading = self.begin("logs", "quiet", "-f")
        self.wait_until(lambda: reading.out.count("begun") == 2, "both are read")
        time.sleep(5)  # what the start set in motion
        before = self.proxy.count()
        time.sleep(60)  # the minute in which there is to be no more than one request of each
        asked = self.proxy.count() - before
        self.assertLessEqual(asked.total(), 2, asked)
        (claim / "go").write_text("")
        for process in (running, reading):
            done = process.wait(60)
            self.assertEqual(done.code, 0, done.err)
            self.assertEqual([self.lines_of(done.out, rank) for rank in (0, 1)], [["begun", "ended"]] * 2)

    def test_broken_and_expired_watches_lose_nothing(self):
        job = self.job_file("broken", workers=2, restarts={"limit": 3}, clean="none", command=[
            "sh", "-c", 'for i in $(seq 60); do echo $DURE_GENERATION line $i; sleep 0.1; done; test $DURE_GENERATION = 2'])
        running = self.begin("run", job)
        self.wait_until(lambda: "1 line 10" in running.out, "it prints")
        for round in range(8):
            self.proxy.expire("pods", "configmaps", "jobs")
            self.proxy.cut()
            time.sleep(1)
        done = running.wait(120)
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("broken.1 succeeded", done.err)
        for rank in (0, 1):
            lines = [line for line in self.lines_of(done.out, rank) if line.startswith("2 ")]
            self.assertEqual(lines, [f"2 line {number}" for number in range(1, 61)])

    def test_a_run_that_is_removed_is_not_followed_for_ever(self):
        running = self.begin("run", self.job_file("removed", workers=1, command=["sleep", "300"]))
        self.wait_until(lambda: self.status("removed") == "running", "it runs")
        reading = self.begin("logs", "removed", "-f")
        self.kubectl("delete", "job", "removed-1", "-n", self.namespace)
        done = running.wait(60)
        self.assertEqual((done.code, done.err.strip().splitlines()[-1]), (130, "dure: removed.1 was removed"))
        self.assertEqual(reading.wait(60).code, 0)


harness.main()
