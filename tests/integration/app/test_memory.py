"""Memory by a caller's choice: everything that the limits allow, at once, and the process stays under 256 MiB.

Each attack goes on until all are in full swing. Whatever is refused is refused with a status that says so, and
meanwhile somebody else's small requests are answered.
"""

import json
import re
import resource
import socket
import threading
import time
import uuid
from collections import Counter

import pytest
from harness import BIN, TIMEOUT, wait_for
from test_imports_receive import multipart
from test_interface_tickets import flat

MIB = 1 << 20
MOST = 256 * MIB
FILES = 4096
DENSE = "[" + "0," * 250_000 + "0]"
OURS = {200, 202, 400, 401, 404, 409, 413, 429, 503}  # 0: closed without an answer, as somebody too slow is


@pytest.fixture
def _enough_files():
    """For 1,800 connections of the test, and for the server's limit of 2,048 and its own files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES:
        pytest.skip(f"needs {FILES} open files, and may have {hard}")
    if soft != resource.RLIM_INFINITY and soft < FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, hard))


def highest(server):
    """The most memory that the process has had so far."""
    status = open(f"/proc/{server.process.pid}/status", encoding="ascii").read()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


class Attack:
    def __init__(self, server):
        self.server = server
        self.lock = threading.Lock()
        self.statuses = {}
        self.threads = []
        self.over = threading.Event()
        self.open = []

    def head(self, client, method, path, *fields):
        who = [f"X-Client-Id: {client.id}", f"X-Client-Secret: {client.secret}"] if client else []
        return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", *who, *fields, "", ""]).encode()

    def body_head(self, client, path, length, kind="application/json"):
        return self.head(client, "POST", path, f"Content-Type: {kind}", f"Content-Length: {length}")

    def note(self, what, answer):
        status = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0
        with self.lock:
            self.statuses.setdefault(what, Counter())[status] += 1

    def dial(self):
        return socket.create_connection(self.server.host_port, TIMEOUT)

    def ask(self, what, data):
        """Reads to the end of the answer and keeps only its beginning."""
        answer = b""
        try:
            with self.dial() as s:
                try:
                    s.sendall(data)
                except ConnectionError:
                    pass  # refused before it was all sent: the answer is there
                while piece := s.recv(65536):
                    answer = answer or piece
        except OSError:
            pass
        self.note(what, answer)

    def hold(self, what, data):
        """Sends what there is, and then neither sends nor reads until it is over."""
        def run():
            try:
                with self.dial() as s:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
                    try:
                        s.sendall(data)
                    except ConnectionError:
                        pass
                    self.over.wait(TIMEOUT)
                    s.settimeout(0.2)
                    self.note(what, s.recv(64))
            except OSError:
                self.note(what, b"")
        self.start(run)

    def keep(self, data, i):
        """A connection that has sent something short, from one of several addresses."""
        s = socket.create_connection(self.server.host_port, TIMEOUT, (f"127.66.0.{1 + i % 4}", 0))
        s.sendall(data)
        self.open.append(s)

    def start(self, function, *args):
        thread = threading.Thread(target=function, args=args, daemon=True)
        thread.start()
        self.threads.append(thread)

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join(TIMEOUT)
        for s in self.open:
            s.close()


def ticket(extra="null", **fields):
    return (json.dumps(flat(**fields))[:-1] + f',"extra":{extra}}}').encode()


@pytest.fixture
def server(make_server):
    if "asan" in BIN or "tsan" in BIN:
        pytest.skip("the sanitizers' own memory counts too")
    return make_server(config={"server": {"access_log": "off"}})


def test_dense_bodies_at_once(server):
    clients = [server.new_client() for _ in range(3)]
    attack = Attack(server)
    for i in range(60):
        client = clients[i % 3]
        body = ticket(DENSE)
        attack.start(attack.ask, "dense", attack.body_head(client, "/api/tickets", len(body)) + body)
    attack.end()
    assert set(attack.statuses["dense"]) <= {200, 503} and attack.statuses["dense"][200] >= 20, attack.statuses
    assert highest(server) < MOST


def large_document(client):
    """Both of its phases, with payloads that grow when they are written as text."""
    doc = f"LARGE_{uuid.uuid4().hex}"
    for phase in (15, 6):
        assert client.post("/api/tickets", flat(doc, phaseCode=phase, filler='"' * 500_000)).status == 200
    return doc


@pytest.mark.usefixtures("_enough_files")
def test_everything_at_once_stays_within_256_mib(server):
    greedy = [server.new_client(scopes=["interface", "imports", "acks"]) for _ in range(5)]
    modest = server.new_client()
    documents = {client.id: large_document(client) for client in greedy}
    attack = Attack(server)
    seen = Counter()

    def go_on():
        while not attack.over.is_set():
            seen[modest.post("/api/tickets", flat()).status] += 1
            seen[modest.get("/whoami").status] += 1
            time.sleep(0.02)

    attack.start(go_on)
    upload, kind = multipart(b"x" * 200_000, name="a.csv")
    for i in range(100):  # half sent, by those who may and by those who may not
        client = greedy[i % 5]
        attack.hold("half sent", attack.body_head(client, "/api/tickets", 1_000_000) + b"[" * 300_000)
        attack.hold("strangers", attack.body_head(None, "/api/tickets", 1_000_000) + b"[" * 100_000)
        attack.hold("uploads", attack.body_head(client, "/imports", 50_000_000, kind) + upload[:150_000])
        attack.hold("large answers", attack.head(client, "GET", f"/api/tickets?businessEntity=TCK&businessDocId={documents[client.id]}"))
    for i in range(1200):  # as much of a header as there may be, and not its end
        attack.keep(attack.head(None, "GET", "/healthz", "X-Long: " + "x" * 15_000)[:-4], i)
    for i in range(60):
        client = greedy[i % 5]
        body = ticket(DENSE)
        attack.start(attack.ask, "dense", attack.body_head(client, "/api/tickets", len(body)) + body)
        escapes = ticket('"' + "\\u00e7" * 150_000 + '"')
        attack.start(attack.ask, "escapes", attack.body_head(client, "/api/tickets", len(escapes)) + escapes)
    for i in range(20):
        client = greedy[i % 5]
        body = ('{"chunkId":1,"ackId":"a","status":"Success","items":[' + "0," * 3_900_000 + "0]}").encode()
        attack.start(attack.ask, "acks", attack.body_head(client, f"/imports/{uuid.uuid4()}/acks", len(body)) + body)
    wait_for(lambda: sum(attack.statuses.get("dense", Counter()).values()) == 60 and
             sum(attack.statuses.get("escapes", Counter()).values()) == 60 and
             sum(attack.statuses.get("acks", Counter()).values()) == 20, "answers", timeout=100)
    wait_for(lambda: sum(seen.values()) >= 40, "answers to the modest")
    attack.end()
    print("most:", highest(server) // MIB, "MiB", {what: dict(c) for what, c in attack.statuses.items()}, dict(seen))
    assert highest(server) < MOST
    assert set(seen) == {200}, seen
    for what, statuses in attack.statuses.items():
        assert set(statuses) <= OURS | {0}, (what, statuses)
    for what in ("dense", "escapes", "acks"):
        assert 0 not in attack.statuses[what], (what, attack.statuses[what])
    assert 503 in set().union(*attack.statuses.values()), "the budget was never asked for too much"
    assert server.log("MemoryBudgetExhausted"), "and nobody was told"


def in_flight(server):
    text = server.anonymous().get("/metrics").body.decode()
    return float(re.search(r"^dataflow_http_request_bytes_in_flight (\S+)$", text, re.M)[1])


def test_memory_comes_back(server):
    client = server.new_client()
    attack = Attack(server)
    for _ in range(15):
        attack.hold("half sent", attack.body_head(client, "/api/tickets", 1_000_000) + b"[" * 1000)
    wait_for(lambda: in_flight(server) >= 15_000_000, "bodies under way")
    refused = client.request("POST", "/api/tickets", body=b"{" + b" " * 1_000_000 + b"}",
                             headers={"Content-Type": "application/json"}) if in_flight(server) > 19_000_000 else None
    assert refused is None or refused.status == 503
    attack.end()
    wait_for(lambda: in_flight(server) == 0, "everything given back")
    assert client.post("/api/tickets", flat()).status == 200
