"""`dataflow sandbox`: the outside world on one port, with faults, statistics and what it received."""

import gzip
import http.client
import json
import re
import signal
import subprocess
import time

import pytest
from harness import BIN, SANITIZER, Http, environment

pytestmark = pytest.mark.threads


class Sandbox:
    def __init__(self, directory, *args):
        self.log_path = directory / "sandbox.log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([BIN, "sandbox", "--listen", "127.0.0.1:0", *args], stdout=subprocess.PIPE, stderr=log,
                                            text=True, env=environment(), cwd=directory)
        line = self.process.stdout.readline()
        found = re.search(r"http://([\d.]+):(\d+)/", line)
        assert found, line + self.log_path.read_text()
        self.host_port = (found[1], int(found[2]))

    def remember(self, _answer):
        pass

    def finish(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        log = self.log_path.read_text()
        assert code == 0 and not SANITIZER.search(log), log[-4000:]
        for line in log.splitlines():
            json.loads(line)


@pytest.fixture
def sandbox(tmp_path):
    box = Sandbox(tmp_path)
    yield Http(box)
    box.finish()


def stats(sandbox, path):
    found = sandbox.get("/_stats")
    assert found.status == 200
    return next((row for row in found.json["paths"] if row["path"] == path), None)


def send(sandbox, path, key, body=None):
    return sandbox.post(path, body or {"n": 1}, headers={"Idempotency-Key": key})


TICKET = {"businessEntity": "PRC", "businessDocId": "T-1", "phaseCode": "15"}


@pytest.mark.parametrize("path,body", [("/gateway/tickets", TICKET), ("/gateway/acks", {"functionalAck": {}}), ("/webhooks/x", {"n": 1}),
                                       ("/payments/charge", {"amount": 1})])
def test_it_takes_what_is_sent_and_counts_it(sandbox, path, body):
    statuses = [send(sandbox, path, key, body).status for key in ("a", "b", "a")]
    assert all(200 <= s < 300 for s in statuses)
    row = stats(sandbox, path)
    assert (row["requests"], row["distinctKeys"], row["repeats"]) == (3, 2, 1)
    assert sum(row["byStatus"].values()) == 3


def test_omniflow_answers_a_chunk(sandbox):
    chunk = {"batchId": "6f1c0a7e-0000-4000-8000-000000000001", "chunkId": "c1", "offset": 0, "items": [{"phoneNumber": "+5511999990000"}]}
    assert send(sandbox, "/api/leads/import", "k1", chunk).status in (200, 202)


def test_received_shows_the_newest_of_what_came(sandbox):
    for i in range(5):
        send(sandbox, "/gateway/acks", f"k{i}", {"n": i})
    send(sandbox, "/webhooks/x", "elsewhere")
    received = sandbox.get("/_received?path=/gateway/acks&limit=3")
    assert received.status == 200
    items = received.json
    assert [item["idempotencyKey"] for item in items] == ["k4", "k3", "k2"]
    assert [item["path"] for item in items] == ["/gateway/acks"] * 3
    assert "4" in json.dumps(items[0]["body"])


def test_a_fault_fails_as_often_as_asked(sandbox):
    assert sandbox.post("/_faults", {"path": "/gateway/acks", "status": 503, "count": 2}).status in (200, 201)
    statuses = [send_plain(sandbox, "/gateway/acks") for _ in range(4)]
    assert statuses[:2] == [503, 503] and all(s < 300 for s in statuses[2:])
    assert send(sandbox, "/webhooks/x", "other").status < 300, "other paths are not concerned"


def send_plain(sandbox, path):
    """The status alone: what a fault answers is no problem document of ours."""
    connection = sandbox.connect()
    try:
        connection.request("POST", path, b"{}", {"Content-Type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_rate_of_failures(sandbox):
    sandbox.post("/_faults", {"path": "/payments/charge", "status": 500, "rate": 0.5})
    statuses = [send_plain(sandbox, "/payments/charge") for _ in range(80)]
    assert 8 < statuses.count(500) < 72


def test_latency_is_added(sandbox):
    sandbox.post("/_faults", {"path": "/webhooks/slow", "latencyMs": 300})
    begun = time.monotonic()
    send(sandbox, "/webhooks/slow", "k")
    assert time.monotonic() - begun >= 0.3


def test_a_dropped_call_gets_no_answer_and_is_counted(sandbox):
    sandbox.post("/_faults", {"path": "/webhooks/drop", "drop": True, "count": 1})
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        send_plain(sandbox, "/webhooks/drop")
    assert send_plain(sandbox, "/webhooks/drop") < 300
    assert stats(sandbox, "/webhooks/drop")["requests"] == 2


def test_faults_are_listed_and_removed(sandbox):
    sandbox.post("/_faults", {"path": "/payments/a", "status": 500})
    sandbox.post("/_faults", {"path": "/payments/b", "status": 502})
    assert [f["path"] for f in sandbox.get("/_faults").json["items"]] == ["/payments/a", "/payments/b"]
    assert sandbox.request("DELETE", "/_faults?path=/payments/a").status in (200, 204)
    assert send_plain(sandbox, "/payments/a") < 300 and send_plain(sandbox, "/payments/b") == 502
    assert sandbox.request("DELETE", "/_faults").status in (200, 204)
    assert send_plain(sandbox, "/payments/b") < 300


@pytest.mark.parametrize("body", [{}, {"path": ""}, {"path": "/x", "status": 99}, {"path": "/x", "status": "many"}, {"path": "/x", "rate": 2},
                                  {"path": "/x", "rate": -1}, {"path": "/x", "latencyMs": -5}, {"path": "/x", "count": -1}])
def test_a_bad_fault_is_400(sandbox, body):
    assert sandbox.post("/_faults", body).status == 400


def test_lines_of_a_log_are_taken_compressed_or_not(sandbox):
    for body, headers in ((b'{"streams":[]}', {}), (gzip.compress(b'{"streams":[]}'), {"Content-Encoding": "gzip"})):
        assert sandbox.post("/loki/api/v1/push", body=body, headers=headers).status == 204
    counted, = (p for p in sandbox.get("/_stats").json["paths"] if p["path"] == "/loki/api/v1/push")
    assert counted["requests"] == 2
