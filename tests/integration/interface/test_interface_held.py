"""Rows whose target is away wait for it: by HTTP alone, with real time. The rule itself, and outages of days, are in
tests/unit/delivery/outage_test.c."""

import collections
import contextlib
import http.server
import threading

import pytest
from harness import wait_for

pytestmark = pytest.mark.threads


class Gateway:
    """Answers each path as told."""

    def __init__(self):
        gateway = self
        self.status = collections.defaultdict(lambda: 200)
        self.seen = collections.Counter()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                gateway.seen[self.path] += 1
                self.send_response(gateway.status[self.path])
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:{}".format(self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def gateway():
    with contextlib.closing(Gateway()) as made:
        yield made


@pytest.fixture
def server(make_server, gateway):
    return make_server(config={
        "gateway": {"functional_ack_url": f"{gateway.url}/ack", "ticket_send_url": f"{gateway.url}/send?key=secret",
                    "api_key": "key-of-the-gateway"},
        "delivery": {"retry_base_ms": 50, "retry_cap_ms": 200, "max_attempts": 2},
        "breaker": {"window": 10, "min_calls": 5, "open_ms": 300, "half_open_calls": 1}})


def post_tickets(client, count):
    for i in range(count):
        answer = client.post("/api/tickets", {
            "businessEntity": "TCK", "businessDocId": f"T{i}", "phaseCode": 15, "companyCode": "1", "branchCode": "B",
            "destinationCode": "D", "shipmentEvent": "RCD", "targetApplicationCode": "ASB", "functionalAckIsRequired": True})
        assert answer.status == 200, answer


def column(server, sql):
    return [row[0] for row in server.backend.query(sql)]


def metric(server, name):
    text = server.admin().get("/metrics").body.decode()
    return [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name)]


@pytest.mark.parametrize("status", [503, 401, 404, 429])
def test_one_url_away_costs_no_document_an_attempt(server, gateway, status):
    gateway.status["/ack"] = status
    post_tickets(server.new_client("AS400", scopes=["interface"]), 20)
    wait_for(lambda: column(server, "SELECT GatewaySendStatus FROM TB_TICKET_INTERFACE") == ["Sent"] * 20, "the sends")
    held = "SELECT COUNT(*) FROM TB_FUNCTIONAL_ACK_OUTBOX WHERE HeldFor IS NOT NULL OR Status = 'Sending'"
    wait_for(lambda: column(server, held) == [20], "the acks wait")
    wait_for(lambda: gateway.seen["/ack"] > 10, "probes")
    wait_for(lambda: server.log("DeliveryTargetDown"), "the log says so")
    down = "SELECT Channel, Target FROM DeliveryTargets WHERE DownSince IS NOT NULL"
    wait_for(lambda: [tuple(row) for row in server.backend.query(down)] == [("functional-ack", f"{gateway.url}/ack")], "down")
    wait_for(lambda: metric(server, 'dataflow_delivery_held{channel="functional-ack"}')[0] >= 19, "the figure")
    up = f'dataflow_target_up{{channel="functional-ack",target="{gateway.url}/ack"}}'
    assert metric(server, up) == [0]
    assert sum(column(server, "SELECT AttemptCount FROM TB_FUNCTIONAL_ACK_OUTBOX")) == 0
    gateway.status["/ack"] = 200
    wait_for(lambda: column(server, "SELECT Status FROM TB_FUNCTIONAL_ACK_OUTBOX") == ["Sent"] * 20, "all of them")
    assert column(server, "SELECT AttemptCount FROM TB_FUNCTIONAL_ACK_OUTBOX") == [1] * 20
    assert column(server, "SELECT COUNT(*) FROM DeliveryAttempts WHERE Counted = 1 AND Outcome <> 'Sent'") == [0]
    wait_for(lambda: server.log("DeliveryTargetUp") and metric(server, up) == [1], "the log says so")
    wait_for(lambda: not server.backend.query(down), "well again")
    targets = "SELECT Target, Arrived FROM DeliveryTargets WHERE Channel IN ('functional-ack', 'ticket-gateway') ORDER BY Target"
    wait_for(lambda: [tuple(row) for row in server.backend.query(targets)] == [
        (f"{gateway.url}/ack", 20), (f"{gateway.url}/send", 20)], "what arrived; no query, which may be a secret")


def test_it_waits_over_a_restart_too(server, gateway):
    gateway.status["/ack"] = 503
    post_tickets(server.new_client("AS400", scopes=["interface"]), 10)
    held = "SELECT COUNT(*) FROM TB_FUNCTIONAL_ACK_OUTBOX WHERE HeldFor IS NOT NULL"
    wait_for(lambda: column(server, held) == [10], "the acks wait")
    server.restart()
    wait_for(lambda: column(server, held) == [10], "they still do")
    gateway.status["/ack"] = 200
    wait_for(lambda: column(server, "SELECT Status FROM TB_FUNCTIONAL_ACK_OUTBOX") == ["Sent"] * 10, "all of them")
