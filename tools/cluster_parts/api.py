"""A small client of the Kubernetes API: requests, and mirrors of what it holds."""
import http.client
import json
import ssl
import threading
import time
import urllib.parse

from . import certificates, settings


class ApiError(Exception):
    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code


class Api:
    """Speaks to the API server as one holder of a certificate. Each thread uses a connection of its own."""

    def __init__(self, who="admin", timeout=15):
        self._context = ssl.create_default_context(cafile=str(certificates.CA))
        self._context.load_cert_chain(certificates.certificate(who), certificates.key(who))
        self._timeout = timeout
        self._local = threading.local()

    def connect(self, timeout):
        return http.client.HTTPSConnection(settings.CONTROL_ADDRESS, settings.API_PORT, timeout=timeout,
                                           context=self._context)

    def request(self, method, path, body=None, kind="application/json"):
        """What the server answers, as an object. ApiError if it refuses, OSError if it is not there."""
        headers = {"Content-Type": kind, "Accept": "application/json"}
        data = None if body is None else json.dumps(body)
        for attempt in [1, 2]:
            connection = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = self.connect(self._timeout)
            try:
                connection.request(method, path, data, headers)
                answer = connection.getresponse()
                text = answer.read()
                break
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self._local.connection = None
                # A connection that was kept may have been closed from the other side meanwhile.
                if attempt == 2 or not isinstance(error, (http.client.RemoteDisconnected, ConnectionResetError,
                                                          BrokenPipeError)):
                    raise OSError(f"{settings.API_URL}: {error}") from error
        if answer.status >= 400:
            raise ApiError(answer.status, text.decode(errors="replace")[:500])
        try:
            return json.loads(text)
        except ValueError:
            return text.decode(errors="replace")

    def get(self, path):
        return self.request("GET", path)

    def create(self, path, body):
        """Success also if it exists."""
        try:
            return self.request("POST", path, body)
        except ApiError as error:
            if error.code != 409:
                raise
            return None

    def merge(self, path, body):
        return self.request("PATCH", path, body, "application/merge-patch+json")

    def strategic_merge(self, path, body):
        return self.request("PATCH", path, body, "application/strategic-merge-patch+json")

    def delete(self, path, at_once=False):
        """Success also if it is gone."""
        options = {"propagationPolicy": "Background"}
        if at_once:
            options["gracePeriodSeconds"] = 0
        try:
            self.request("DELETE", path, options)
        except ApiError as error:
            if error.code != 404:
                raise

    def events(self, path, version):
        """Yields what changes below `path` after `version`, until the server ends it."""
        query = urllib.parse.urlencode({"watch": "true", "resourceVersion": version, "timeoutSeconds": 300,
                                        "allowWatchBookmarks": "true"})
        connection = self.connect(330)
        try:
            connection.request("GET", f"{path}{'&' if '?' in path else '?'}{query}")
            answer = connection.getresponse()
            if answer.status != 200:
                raise ApiError(answer.status, answer.read().decode(errors="replace")[:500])
            while line := answer.readline():
                yield json.loads(line)
        finally:
            connection.close()


class Mirror:
    """Holds the objects below a path as they are now; a thread of its own keeps it so.

    `objects` maps (namespace, name) to the object and is replaced, never changed, so that another thread
    may read it. `changed` is set after each change.
    """

    def __init__(self, api, path, changed):
        self.objects = {}
        self.listed = False
        self._api = api
        self._path = path
        self._changed = changed
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self):
        while True:
            try:
                listing = self._api.get(self._path)
                self.objects = {key_of(item): item for item in listing["items"]}
                self.listed = True
                self._changed.set()
                version = listing["metadata"]["resourceVersion"]
                for event in self._api.events(self._path, version):
                    if event["type"] == "ERROR":
                        break
                    if event["type"] != "BOOKMARK":
                        self._apply(event)
            except (OSError, ApiError, ValueError, http.client.HTTPException) as error:
                print(f"{self._path}: {error}", flush=True)
                time.sleep(1)

    def _apply(self, event):
        objects = dict(self.objects)
        if event["type"] == "DELETED":
            objects.pop(key_of(event["object"]), None)
        else:
            objects[key_of(event["object"])] = event["object"]
        self.objects = objects
        self._changed.set()


def key_of(item):
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def is_ready(node):
    conditions = node.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
