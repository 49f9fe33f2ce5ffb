"""A storm of shutdowns: SIGTERM at a random moment under every kind of load at once.

Each round starts the server on the same database, lets everything loose on it, sends SIGTERM and checks that it ends
with 0 and a clean log, and that nothing it answered 2xx for is missing. The same rounds under the sanitized builds look
for what is used after it was freed. DATAFLOW_STORM_ROUNDS for more of them, DATAFLOW_STORM_SEED to repeat one.
"""

import contextlib
import json
import os
import random
import signal
import socket
import socketserver
import sqlite3
import threading
import time
import uuid

import pytest
from harness import ADMIN_KEY, TIMEOUT, Backend
from outboxes import Outbox
from test_imports_receive import LEADS, multipart
from test_interface_tickets import flat

pytestmark = pytest.mark.threads

ROUNDS = int(os.environ.get("DATAFLOW_STORM_ROUNDS", "6"))
SEED = os.environ.get("DATAFLOW_STORM_SEED")
SOCKET_SECONDS = 20


# --- the other side ----------------------------------------------------------------------------------


class Handler(socketserver.StreamRequestHandler):
    """/hang reads and says nothing; everything else answers, sometimes late, sometimes not at all."""

    def handle(self):
        with contextlib.suppress(OSError, ValueError):
            while line := self.rfile.readline():
                length = 0
                while (field := self.rfile.readline()) not in (b"\r\n", b""):
                    if field.lower().startswith(b"content-length:"):
                        length = int(field.split(b":")[1])
                self.rfile.read(length)
                if b"/hang" in line or random.random() < 0.05:
                    self.server.ended.wait()
                    return
                time.sleep(random.choice((0, 0, 0, 0.02, 0.3)))
                status = random.choice((b"200 OK", b"200 OK", b"200 OK", b"503 Busy", b"400 No"))
                self.wfile.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\n{}")


class Peer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 256
    allow_reuse_address = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.ended = threading.Event()
        self.url = "http://127.0.0.1:{}".format(self.server_address[1])
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def handle_error(self, *_):
        pass

    def close(self):
        self.ended.set()
        self.shutdown()
        self.server_close()


def configuration(peer):
    return {
        "server": {"drain_seconds": 1, "header_timeout_ms": 5000},
        "gateway": {"functional_ack_url": peer.url + "/ack", "ticket_return_url": peer.url + "/hang/return",
                    "ticket_send_url": peer.url + "/send", "api_key": "k"},
        "omniflow": {"url": peer.url, "api_key": "k", "batch_size": 1, "retry_delays_ms": "20,40"},
        "imports": {"poll_ms": 20, "mode": "concurrent"},
        "delivery": {"allow_private_targets": "on", "retry_base_ms": 50, "retry_cap_ms": 200, "max_attempts": 1000},
        "webhooks": {"max_per_client": 100000, "retry_delays_ms": "50,50,50"},
        "auth": {"failures_per_minute": 100000},
        "relay.own": {"dispatcher": "http", "target": peer.url + "/events/{eventType}", "poll_ms": 50},
        "integration.slow": {"base_url": peer.url + "/hang", "timeout_ms": 20000, "min_calls": 1000, "window": 1000},
        "integration.fine": {"base_url": peer.url + "/fine", "timeout_ms": 20000, "min_calls": 1000, "window": 1000},
    }


# --- the load ----------------------------------------------------------------------------------------


def address():
    """A new address for each caller, so that limits by address do not apply."""
    return "127.{}.{}.{}".format(*(random.randrange(1, 250) for _ in range(3)))


class Storm:
    """One round's callers. What they were answered 2xx for is in tickets, batches, events and webhooks."""

    def __init__(self, server, client, seed, kept):
        self.server, self.client, self.kept = server, client, kept
        self.random = random.Random(seed)
        self.over = threading.Event()
        self.answers, self.failures = {}, []
        self.threads = []
        for kind in (self.tickets, self.tickets, self.half_bodies, self.half_bodies, self.trickle, self.uploads,
                     self.slow_uploads, self.streams, self.reads, self.reads, self.bad_logins, self.bad_bodies, self.webhooks,
                     self.integrations, self.integrations, self.kept_calls, self.events, self.acks, self.admin, self.leave):
            self.threads.append(threading.Thread(target=self.repeat, args=(kind, random.Random(self.random.random())),
                                                 daemon=True))

    def begin(self):
        for thread in self.threads:
            thread.start()

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join(SOCKET_SECONDS + TIMEOUT)
            assert not thread.is_alive(), "a caller waits for an answer for ever"
        assert not self.failures, self.failures

    def repeat(self, kind, rnd):
        while not self.over.is_set():
            try:
                kind(rnd)
            except OSError:
                pass  # refused, or cut off: that is what the storm is about
            except Exception as problem:  # pylint: disable=broad-except
                self.failures.append(repr(problem))
                return
            time.sleep(rnd.uniform(0, 0.01))

    def head(self, method, path, *fields, who=None):
        own = who if who is not None else [f"X-Client-Id: {self.client.id}", f"X-Client-Secret: {self.client.secret}"]
        return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", *own, *fields, "", ""]).encode()

    def ask(self, parts, pause=None, wait=True):
        """Sends the parts with pauses between and returns (status, body); 0: the connection ended without an answer."""
        with socket.create_connection(self.server.host_port, SOCKET_SECONDS, (address(), 0)) as s:
            for i, part in enumerate(parts):
                if i and pause:
                    self.over.wait(pause())
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    s.sendall(part)
            if not wait:
                return 0, b""
            data = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := s.recv(65536):
                    data += piece
        head, found, body = data.partition(b"\r\n\r\n")
        status = int(head.split()[1]) if found else 0
        length = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        if length and len(body) < int(length[0]):
            status = 0  # cut: not an answer
        self.answers[status] = self.answers.get(status, 0) + 1
        return status, body

    def post(self, path, body, *fields, cuts=(), pause=None):
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = [] if any(f.startswith("Content-Type") for f in fields) else ["Content-Type: application/json"]
        places = [0, *sorted(int(len(text) * c) for c in cuts), len(text)]
        parts = [text[a:b] for a, b in zip(places, places[1:])]
        head = self.head("POST", path, f"Content-Length: {len(text)}", *kind, *fields)
        return self.ask([head + parts[0], *parts[1:]], pause)

    # -- kinds

    def tickets(self, _rnd):
        payload = flat(hawb="x" * 2000)
        if self.post("/api/tickets", payload)[0] == 200:
            self.kept["tickets"].add(payload["businessDocId"])

    def half_bodies(self, rnd):
        payload = flat(hawb="x" * 100000)
        cuts = [rnd.random() for _ in range(rnd.randrange(1, 4))]
        if self.post("/api/tickets", payload, cuts=cuts, pause=lambda: rnd.uniform(0, 1.5))[0] == 200:
            self.kept["tickets"].add(payload["businessDocId"])

    def trickle(self, rnd):
        payload = flat()
        chunks = [b"%x\r\n%s\r\n" % (1, bytes([b])) for b in json.dumps(payload).encode()] + [b"0\r\n\r\n"]
        head = self.head("POST", "/api/tickets", "Content-Type: application/json", "Transfer-Encoding: chunked")
        if self.ask([head, *chunks], lambda: rnd.uniform(0, 0.012))[0] == 200:
            self.kept["tickets"].add(payload["businessDocId"])

    def file(self, rnd, size):
        leads = json.loads(LEADS) * rnd.randrange(1, size)
        return multipart(json.dumps(leads).encode(), name=f"{uuid.uuid4().hex}.json")

    def note_batch(self, status, body):
        if status == 202:
            self.kept["batches"].add(json.loads(body)["batchId"])

    def uploads(self, rnd):
        body, kind = self.file(rnd, 50)
        self.note_batch(*self.post("/imports", body, f"Content-Type: {kind}"))

    def slow_uploads(self, rnd):
        body, kind = self.file(rnd, 5000)
        cuts = [rnd.random() for _ in range(10)]
        self.note_batch(*self.post("/imports", body, f"Content-Type: {kind}", cuts=cuts, pause=lambda: rnd.uniform(0, 0.4)))

    def streams(self, rnd):
        batches = list(self.kept["batches"])
        if batches:
            self.ask([self.head("GET", f"/imports/{rnd.choice(batches)}/events")])

    def reads(self, rnd):
        path = rnd.choice(("/api/tickets?businessEntity=TCK&businessDocId=none", "/imports", "/whoami", "/readyz", "/metrics",
                           "/api/counterparties", "/admin/outbox/ticket-return", "/admin/relays", "/admin/clients",
                           "/admin/circuit-breakers", "/admin/alerts", "/openapi.json", "/"))
        who = [f"X-Admin-Key: {ADMIN_KEY}"] if path.startswith("/admin") else None
        self.ask([self.head("GET", path, who=who)])

    def bad_logins(self, _rnd):
        self.ask([self.head("GET", "/whoami", who=[f"X-Client-Id: {self.client.id}", f"X-Client-Secret: {uuid.uuid4().hex}"])])

    def bad_bodies(self, rnd):
        """Half a request, without known credentials."""
        who = [f"X-Client-Id: {uuid.uuid4().hex}", "X-Client-Secret: no"]
        head = self.head("POST", "/api/tickets", "Content-Type: application/json", "Content-Length: 200000", who=who)
        self.ask([head + b"[" * 1000, b"0," * 1000], lambda: rnd.uniform(0, 1))

    def webhooks(self, rnd):
        host = rnd.choice((f"127.0.0.1:{self.server.peer_port}", f"localhost:{self.server.peer_port}"))
        path = rnd.choice(("/hang", "/hook"))
        status, body = self.post(f"/clients/{self.client.id}/webhooks",
                                 {"url": f"http://{host}{path}/{uuid.uuid4().hex}", "events": ["TicketProcessed", "BatchCompleted"]})
        if status == 201:
            self.server.remember(json.loads(body))
            self.kept["webhooks"].add(json.loads(body)["id"])

    def integrations(self, rnd):
        self.ask([self.head("GET", "/integrations/" + rnd.choice(("slow", "fine")) + "/x")])

    def kept_calls(self, _rnd):
        self.post("/integrations/fine/x?onUnavailable=enqueue", {"a": 1}, f"Idempotency-Key: {uuid.uuid4().hex}")

    def events(self, _rnd):
        event = {"eventType": "storm", "aggregateType": "a", "aggregateId": uuid.uuid4().hex, "payload": {"a": 1}}
        if self.post("/events", event)[0] in (200, 201, 202):
            self.kept["events"].add(event["aggregateId"])

    def acks(self, rnd):
        tickets = list(self.kept["tickets"])
        if tickets:
            self.post("/api/tickets/callback", {"businessEntity": "TCK", "businessDocId": rnd.choice(tickets), "phaseCode": 15,
                                                "status": "Success"})

    def admin(self, rnd):
        who = [f"X-Admin-Key: {ADMIN_KEY}", "Content-Type: application/json"]
        if rnd.random() < 0.5:
            text = b'{"name":"storm"}'
            status, body = self.ask([self.head("POST", "/admin/clients", f"Content-Length: {len(text)}", who=who) + text])
            if status == 201:
                self.server.remember(json.loads(body))
        else:
            text = b'{"requestsPerMinute":1000000}'
            self.ask([self.head("PUT", f"/admin/clients/{self.client.id}/policy", f"Content-Length: {len(text)}", who=who) + text])

    def leave(self, rnd):
        """Sends something and does not wait for its answer."""
        path = rnd.choice(("/api/tickets", "/integrations/slow/x", "/imports", "/whoami"))
        self.ask([self.head("POST", path, "Content-Type: application/json", "Content-Length: 2") + b"{}"[:rnd.randrange(3)]],
                 wait=False)


# --- the rounds --------------------------------------------------------------------------------------


def missing(backend, kept):
    """What was answered 2xx and is not in the database."""
    found = {
        "tickets": {row[0] for row in backend.query("SELECT BusinessDocId FROM TB_TICKET_INTERFACE")},
        "batches": {str(row[0]).lower() for row in backend.query("SELECT Id FROM ImportBatch")},
        "webhooks": {str(row[0]).lower() for row in backend.query("SELECT Id FROM WebhookSubscriptions")},
        "events": {row[0] for row in backend.query("SELECT aggregate_id FROM outbox_events")},
    }
    return {kind: sorted(ids - found[kind])[:5] for kind, ids in kept.items() if ids - found[kind]}


def one_round(server, client, seed, kept):
    rnd = random.Random(seed)
    storm = Storm(server, client, rnd.random(), kept)
    storm.begin()
    time.sleep(rnd.uniform(0.05, 1.5))
    server.process.send_signal(signal.SIGTERM)
    try:
        code = server.stop(TIMEOUT)
    finally:
        storm.end()
    log = server.log_text(current=True)
    assert code == 0, f"exit status {code}\n{log[-8000:]}"
    events = [json.loads(line)["event"] for line in log.splitlines()]
    assert events[-1] == "ServerStopped", log[-4000:]
    for event in ("RequestsForgotten", "RequestFailed"):
        assert event not in events, [line for line in log.splitlines() if event in line][:5]
    return storm.answers


def test_sigterm_at_any_moment_under_every_load(make_server):
    seed = int(SEED) if SEED else random.SystemRandom().randrange(1 << 32)
    rnd = random.Random(seed)
    peer = Peer()
    server = make_server(config=configuration(peer))
    server.peer_port = peer.server_address[1]
    client = server.new_client(scopes=["interface", "callback", "imports", "acks", "events", "integrations"])
    kept = {"tickets": set(), "batches": set(), "webhooks": set(), "events": set()}
    answers = {}
    try:
        for number in range(ROUNDS):
            if number:
                server.start()
            of_round = rnd.randrange(1 << 32)
            print(f"storm {seed}, round {number} of {ROUNDS}: {of_round}")
            for status, count in one_round(server, client, of_round, kept).items():
                answers[status] = answers.get(status, 0) + count
            assert not missing(server.backend, kept)
    finally:
        peer.close()
    print("answers by status:", dict(sorted(answers.items())), "kept:", {k: len(v) for k, v in kept.items()})
    assert all(kept.values()), kept.keys()  # the storm was one
    assert 500 not in answers


def test_the_last_line_of_the_log_waits_for_the_relays(make_sqlite_server, tmp_path):
    """A relay's answer comes back in time and is written late, its application's database being busy: the batch ends
    first all the same, and "everything in hand was finished" comes after it."""
    asked, answer = threading.Event(), threading.Event()

    class Slow(socketserver.StreamRequestHandler):
        def handle(self):
            while self.rfile.readline() not in (b"\r\n", b""):
                pass
            asked.set()
            answer.wait(TIMEOUT)
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

    outbox = Outbox(Backend("sqlite", tmp_path / "application", empty=True))
    outbox.write()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Slow) as peer:
        threading.Thread(target=peer.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        section = outbox.section(dispatcher="http", target=f"http://127.0.0.1:{peer.server_address[1]}/")
        server = make_sqlite_server(config={"server": {"drain_seconds": 1}, "relay.orders": section})
        assert asked.wait(TIMEOUT)
        with contextlib.closing(sqlite3.connect(outbox.backend.file, timeout=TIMEOUT, isolation_level=None)) as busy:
            busy.execute("BEGIN IMMEDIATE")
            server.process.send_signal(signal.SIGTERM)
            answer.set()
            time.sleep(2)  # longer than the drain: a server that does not wait for the relay ends meanwhile
        assert server.stop(TIMEOUT) == 0
        peer.shutdown()
    events = [json.loads(line)["event"] for line in server.log_text(current=True).splitlines()]
    assert "OutboxEventProcessed" in events
    assert events[-1] == "ServerStopped", events
