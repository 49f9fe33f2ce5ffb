"""Everybody that the server talks to, on one port: gateway, OmniFlow, receivers of webhooks and events, a payment
service, PagerDuty and Teams. It keeps what came, and does what a test tells it to: answer, fail, or take a request and
never answer, as a peer does that works and then dies."""

import collections
import contextlib
import hashlib
import http.server
import json
import threading

LOST = "lost"  # taken, and the answer never arrived
CHUNKS = "/omniflow/api/leads/import"

Request = collections.namedtuple("Request", "path key correlation digest body status")


class Peer(http.server.ThreadingHTTPServer):
    """A rule is called with the path, the correlation id and the body of a chunk; it gives a status, or a status and a
    body, or LOST."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lock = threading.Lock()
        self.requests = []
        self.rules = {}
        self.freed = threading.Event()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def address(self):
        return "127.0.0.1:{}".format(self.server_address[1])

    def tell(self, **rules):
        """By the first part of the path; one that is not named answers as if all were well."""
        with self.lock:
            self.rules = rules
            self.freed.set()  # who was kept waiting is let go, without an answer
            self.freed = threading.Event()

    def came(self, prefix=""):
        with self.lock:
            return [r for r in self.requests if r.path.startswith(prefix)]

    def taken(self, prefix=""):
        """What a peer acted on: what it accepted, whether the server knows it or not."""
        return [r for r in self.came(prefix) if r.status == LOST or r.status < 300]

    def close(self):
        self.tell()
        self.shutdown()
        self.server_close()


def well(path, _correlation, _body):
    return (201, {"id": "pay_1", "status": "approved"}) if path.startswith("/payments") else 200


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        peer = self.server
        raw = self.rfile.read(int(self.headers["Content-Length"] or 0))
        path = self.path.split("?")[0]
        body = json.loads(raw) if path == CHUNKS else None
        with peer.lock:
            rule, freed = peer.rules.get(path.split("/")[1], well), peer.freed
            found = rule(path, self.headers["X-Correlation-Id"], body)
            status, answer = found if isinstance(found, tuple) else (found, None)
            peer.requests.append(Request(path, self.headers["Idempotency-Key"], self.headers["X-Correlation-Id"],
                                         hashlib.sha256(raw).hexdigest(), body, status))
        if status == LOST:
            freed.wait()
            self.close_connection = True
            return
        text = b"" if answer is None else json.dumps(answer).encode()
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    do_GET = do_POST

    def log_message(self, *_):
        pass
