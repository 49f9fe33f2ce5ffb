"""A document that kills the process that sends it: it is set aside, and the others arrive."""

import os
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from harness import wait_for

pytestmark = pytest.mark.threads

POISON = "POISON"
DOCUMENTS = 40
STARTS = 20  # more than it takes


class Gateway(ThreadingHTTPServer):
    """Answers 200. Whoever sends the poison is killed before its answer comes."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.victim = None
        self.kills = 0
        self.arrived = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):  # noqa: N802
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if POISON in body:
            self.server.kills += 1
            os.kill(self.server.victim, signal.SIGKILL)
            return
        self.server.arrived.add(self.headers["Idempotency-Key"])
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """The test has its own eyes."""


@pytest.fixture(name="gateway")
def _gateway():
    gateway = Gateway()
    yield gateway
    gateway.shutdown()
    gateway.server_close()


def test_a_row_that_kills_its_sender_is_set_aside(make_server, gateway):
    server = make_server(config={
        "gateway": {"functional_ack_url": f"http://127.0.0.1:{gateway.server_address[1]}/ack", "api_key": "k"},
        "delivery": {"allow_private_targets": "on"},
    })
    server.stop()
    docs = [f"D{i}" for i in range(DOCUMENTS // 2)] + [POISON] + [f"E{i}" for i in range(DOCUMENTS // 2)]
    rows = ", ".join(f"""('{doc}', '{{"document": "{doc}"}}', '', '2026-01-01T00:00:00.000Z')""" for doc in docs)
    write = server.backend.script if server.backend.name == "sqlite" else server.backend.query
    write(f"INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl, NextAttemptAt) VALUES {rows}")
    gateway.victim = server.spawn().process.pid

    def poison():
        found = server.backend.query("SELECT Status, NextAttemptAt, LastError FROM TB_FUNCTIONAL_ACK_OUTBOX"
                                     f" WHERE BusinessDocId = '{POISON}'")
        return found[0]

    for _ in range(STARTS):
        wait_for(lambda: server.process.poll() is not None or poison()[0] == "Error", "killed, or set aside")
        if server.process.poll() is None:
            break
        gateway.victim = server.spawn().process.pid
    server.started()
    status, due, error = poison()
    assert (status, due) == ("Error", None)
    assert "ended unexpectedly" in error
    assert gateway.kills > 2
    wait_for(lambda: len(gateway.arrived) == DOCUMENTS, "the others")
    kills = gateway.kills
    server.restart()
    assert gateway.kills == kills and server.process.poll() is None
    assert not server.backend.query("SELECT RowKey FROM WorkMarks")
