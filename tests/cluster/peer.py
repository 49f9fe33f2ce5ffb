"""The outside world: gateway, OmniFlow, receiver of webhooks and sink of events. It keeps every request that comes, with
its key and its sender, and sometimes fails or hangs up, as others do."""

import collections
import contextlib
import json
import random
import re
import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler

# `status` is None when the connection was closed instead of an answer; `took` is how long the answer took.
Arrival = collections.namedtuple("Arrival", "path key subject sender at status took")


def subject_of(path, headers, body):
    """What the request is about: a business document, a batch (of a chunk: with its number), an event."""
    if path == "/events":
        return headers["ce-id"]
    if path == "/api/leads/import":
        document = json.loads(body)
        return f"{document['batchId']}/{document['chunkId']}"
    if path.startswith("/webhooks"):
        found = re.search(r'"batchId"\s*:\s*"([^"]+)"', body)
        return found[1] if found else None
    found = re.search(r'"businessDocI[dD]"\s*:\s*"([^"]+)"', body)
    return found[1] if found else None


class Peer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, address, seed, failing=0.01, dropping=0.005):
        super().__init__((address, 0), Handler)
        self.url = "http://{}:{}".format(*self.server_address)
        self.arrivals = []
        self.lock = threading.Lock()
        self.chance = random.Random(seed)
        self.failing, self.dropping = failing, dropping
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    def answer(self):
        with self.lock:
            drawn = self.chance.random()
        return None if drawn < self.dropping else 503 if drawn < self.dropping + self.failing else 200

    def taken(self):
        """Path -> what arrived there and was answered 2xx."""
        found = collections.defaultdict(set)
        with self.lock:
            for arrival in self.arrivals:
                if arrival.status == 200:
                    found[arrival.path].add(arrival.subject)
        return found

    def handle_error(self, _request, _address):
        """A connection that was cut."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 120

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        at = time.monotonic()
        status = self.server.answer()
        if status is None:
            self.close_connection = True
        else:
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(b"{}")
                self.wfile.flush()
        key = self.headers["ce-id"] if self.path == "/events" else self.headers["Idempotency-Key"]
        arrival = Arrival(self.path, key, subject_of(self.path, self.headers, body), self.client_address[0], at, status,
                          time.monotonic() - at)
        with self.server.lock:
            self.server.arrivals.append(arrival)

    def log_message(self, *_):
        pass
