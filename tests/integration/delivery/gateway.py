"""A gateway with outages: what it answers is the test's to say, by path and by document, and it can be away altogether."""

import collections
import contextlib
import json
import re
import socket
import socketserver
import threading
from http.server import BaseHTTPRequestHandler

Request = collections.namedtuple("Request", "path doc key status")


def document_of(body):
    """The business document of a ticket, a return or an ack."""
    found = re.search(r'"businessDocI[dD]"\s*:\s*"([^"]+)"', body)
    return found[1] if found else None


class Gateway:
    """Answers 200 unless `faults` says otherwise: of the first entry whose path and document match (None: any), the
    status and the fields of the answer."""

    def __init__(self):
        self.faults = {}  # (path, document) -> (status, fields)
        self.requests = []
        self._lock = threading.Lock()
        self._sockets = set()
        self._port = 0
        self._server = None
        self.come_back()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._port}"

    def fail(self, status, path=None, doc=None, **fields):
        self.faults[path, doc] = (status, {name.replace("_", "-"): str(value) for name, value in fields.items()})

    def recover(self):
        self.faults.clear()

    def go_away(self):
        """Connections are refused from now on; those that are open are cut."""
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for s in sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def come_back(self):
        self._server = _Server(("127.0.0.1", self._port), self)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self):
        self.go_away()

    def opened(self, connection):
        with self._lock:
            self._sockets.add(connection)

    def closed(self, connection):
        with self._lock:
            self._sockets.discard(connection)

    def answer(self, path, key, body):
        doc = document_of(body)
        status, fields = next((self.faults[place] for place in ((path, doc), (None, doc), (path, None), (None, None))
                               if place in self.faults), (200, {}))
        with self._lock:
            self.requests.append(Request(path, doc, key, status))
        return status, fields

    def arrived(self, path):
        """Documents that were taken."""
        with self._lock:
            return {r.doc for r in self.requests if r.path == path and r.status == 200}

    def seen(self, path=None, doc=None):
        with self._lock:
            return [r for r in self.requests if path in (None, r.path) and doc in (None, r.doc)]


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address, gateway):
        self.gateway = gateway
        super().__init__(address, _Handler)

    def handle_error(self, _request, _address):
        """A connection that was cut."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def setup(self):
        super().setup()
        self.server.gateway.opened(self.connection)

    def finish(self):
        self.server.gateway.closed(self.connection)
        super().finish()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        status, fields = self.server.gateway.answer(self.path, self.headers["Idempotency-Key"], body)
        text = json.dumps({"status": status}).encode()
        self.send_response(status)
        for name, value in {**fields, "Content-Length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass
