"""What the gateway knows a delivery by: one Idempotency-Key for one content, and never two contents on their way at once."""

import collections
import contextlib
import hashlib
import http.server
import json
import threading

import pytest
from harness import wait_for
from test_outbox import Box, at, whole

Came = collections.namedtuple("Came", "path key body")


class Gateway:
    """Records requests, holds them back while told to, and counts how many of one path it has at the same time."""

    def __init__(self):
        gateway = self
        self.came = []
        self.finished = []
        self.plan = []  # statuses of the next answers; then 200
        self.held = threading.Event()
        self.held.set()
        self.most = collections.Counter()
        self._now = collections.Counter()
        self._lock = threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with gateway._lock:
                    came = Came(self.path, self.headers["Idempotency-Key"], body)
                    gateway.came.append(came)
                    gateway._now[self.path] += 1
                    gateway.most[self.path] = max(gateway.most[self.path], gateway._now[self.path])
                    status = gateway.plan.pop(0) if gateway.plan else 200
                gateway.held.wait(60)
                with gateway._lock:
                    gateway._now[self.path] -= 1
                    gateway.finished.append(came)
                with contextlib.suppress(OSError):  # the sender may be gone
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:{}".format(self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def of(self, path):
        return [c for c in list(self.came) if c.path == path]

    def close(self):
        self.held.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def gateway():
    with contextlib.closing(Gateway()) as made:
        yield made


def sending(make_server, gateway, *channels, **delivery):
    urls = {"return": "ticket_return_url", "send": "ticket_send_url", "ack": "functional_ack_url"}
    return make_server(config={
        "gateway": {"api_key": "key-of-the-gateway", **{urls[c]: f"{gateway.url}/{c}" for c in channels}},
        "delivery": {"allow_private_targets": "on", "retry_base_ms": 20, "retry_cap_ms": 40, **delivery}})


def ticket(branch):
    return {"businessEntity": "TCK", "businessDocId": "T1", "phaseCode": 15, "companyCode": "1", "branchCode": branch,
            "destinationCode": "D", "shipmentEvent": "RCD", "targetApplicationCode": "ASB"}


def digits(body):
    return hashlib.sha256(body).hexdigest()[:16]


def branch_of(body):
    document = json.loads(body)
    return document["ticketResult"]["header"]["branchCode"] if "ticketResult" in document else document["branchCode"]


class Sender:
    def __init__(self, server):
        self.server = server
        self.client = server.new_client("AS400", scopes=["interface"])
        self.version = 0

    def post(self, branch):
        """And waits until it is processed."""
        assert self.client.post("/api/tickets", ticket(branch)).status == 200
        self.version += 1
        wait_for(lambda: (s := self.shown())["status"] == "Processed" and s["payloadVersion"] == self.version, "processed")

    def shown(self):
        [item] = self.client.get("/api/tickets?businessEntity=TCK&businessDocId=T1").json["items"]
        return item

    def reach(self, **states):
        return wait_for(lambda: (s := self.shown()) and {n: s[n] for n in states} == states and s, states)


# --- the key ---


@pytest.mark.parametrize("path,channel,state", [
    ("send", "ticket-gateway", "gatewaySendStatus"), ("return", "ticket-return", "returnStatus")])
def test_there_and_back_again_are_three_keys(make_server, gateway, path, channel, state):
    server = sending(make_server, gateway, path)
    sender = Sender(server)
    if path == "return":  # one that was sent is not sent again: they are refused
        gateway.plan = [422] * 3
    for branch in ("A", "B", "A"):
        sender.post(branch)
        sender.reach(**{state: "Error" if path == "return" else "Sent"})
    came = gateway.of(f"/{path}")
    assert [branch_of(c.body) for c in came] == ["A", "B", "A"]
    assert [c.key for c in came] == [f"{channel}:1:{v}:{digits(c.body)}" for v, c in enumerate(came, 1)]
    assert len({c.key for c in came}) == 3
    if path == "return":  # a person's retry sends the same content
        assert server.admin().post("/admin/outbox/ticket-return/1/retry").status == 200
        sender.reach(returnStatus="Sent")
        assert gateway.of("/return")[3] == came[2]


@pytest.mark.parametrize("path,channel", [("send", "ticket-gateway"), ("return", "ticket-return")])
def test_every_attempt_of_one_content_has_its_key(make_server, gateway, path, channel):
    sender = Sender(sending(make_server, gateway, path))
    gateway.plan = [503, 503]
    sender.post("A")
    sender.reach(**{"gatewaySendStatus" if path == "send" else "returnStatus": "Sent"})
    [first, *others] = gateway.of(f"/{path}")
    assert others == [first] * 2 and first.key == f"{channel}:1:1:{digits(first.body)}"


def test_an_ack_has_a_key_of_its_content(make_server, gateway):
    server = sending(make_server, gateway, "ack")
    client = server.new_client(scopes=["interface"])
    gateway.plan = [503]
    made = client.post("/api/functional-ack", {"businessEntity": "TCK", "businessDocId": "D", "operation": "CREATE",
                                               "status": "201"}).json["id"]
    wait_for(lambda: len(gateway.of("/ack")) == 2, "two attempts")
    first, second = gateway.of("/ack")
    assert first == second and first.key == f"functional-ack:{made}:1:{digits(first.body)}"


def test_what_an_older_version_has_tried_keeps_its_key(make_server, gateway):
    """Such rows have attempts and no KeyForm, be it from before an upgrade or from a process beside this one."""
    server = sending(make_server, gateway, "return", "send", "ack", retry_base_ms=10, max_attempts=9)
    box = Box(server.backend)
    ids = {}
    for channel in ("functional-ack", "ticket-return", "ticket-gateway"):
        tried = box.add(channel, "Error", f"tried {channel}", attempts=2, tried=at(1), due=at(2))
        fresh = box.add(channel, "Pending", f"fresh {channel}", due=at(2))
        ids[channel] = (tried, fresh)
    for table in ("TB_FUNCTIONAL_ACK_OUTBOX", "TB_TICKET_RETURN_OUTBOX"):
        box.write(f"UPDATE {table} SET TargetUrl = '' WHERE Id > 0")
    wait_for(lambda: {c.key for c in list(gateway.came)} >= {
        key for channel, (tried, fresh) in ids.items() for key in (f"{channel}:{tried}", f"{channel}:{fresh}:1:{digits(b'{}')}")
    }, "all of them, under their keys")
    assert len({c.key for c in gateway.came}) == 6


def test_a_persons_retry_does_not_change_the_key_of_what_was_tried_before(make_server, gateway):
    server = sending(make_server, gateway, "return")
    box = Box(server.backend)
    gateway.plan = [422]
    row = box.add("ticket-return", "Error", "doc", attempts=2, tried=at(1), due=at(2))
    box.write("UPDATE TB_TICKET_RETURN_OUTBOX SET TargetUrl = '' WHERE Id > 0")
    wait_for(lambda: whole(server, "ticket-return", row)["nextAttemptAt"] is None, "refused")
    assert server.admin().post(f"/admin/outbox/ticket-return/{row}/retry").status == 200
    wait_for(lambda: whole(server, "ticket-return", row)["status"] == "Sent", "sent")
    assert [c.key for c in gateway.came] == [f"ticket-return:{row}"] * 2


def test_a_new_payload_of_what_was_tried_before_has_a_new_key(make_server, gateway):
    server = sending(make_server, gateway, "return")
    box, sender = Box(server.backend), Sender(server)
    gateway.plan = [422]
    sender.post("A")
    sender.reach(returnStatus="Error")
    box.write("UPDATE TB_TICKET_RETURN_OUTBOX SET KeyForm = NULL WHERE Id > 0")  # as the version before leaves it
    sender.post("B")
    sender.reach(returnStatus="Sent")
    assert gateway.came[1].key == f"ticket-return:1:2:{digits(gateway.came[1].body)}"


# --- on its way when it is replaced ---

CHANNELS = [("return", "ticket-return", "returnStatus"), ("send", "ticket-gateway", "gatewaySendStatus")]


@pytest.mark.parametrize("first", [200, 503, 422])
@pytest.mark.parametrize("path,channel,state", CHANNELS)
def test_an_old_and_a_new_content_are_never_on_their_way_at_once(make_server, gateway, path, channel, state, first):
    server = sending(make_server, gateway, path)
    sender = Sender(server)
    gateway.plan = [first]
    gateway.held.clear()
    sender.post("A")
    wait_for(lambda: gateway.of(f"/{path}"), "the first is on its way")
    for branch in ("B", "C"):
        sender.post(branch)
        # The new one waits, and until when is in the row: whoever holds the old one may die.
        row = whole(server, channel, 1)
        assert (row["status"], row["attempts"]) == ("Pending", 0) and row["nextAttemptAt"]
        assert sender.shown()[state] == "Pending"
    gateway.held.set()
    shown = sender.reach(**{state: "Sent"})
    assert [branch_of(c.body) for c in gateway.of(f"/{path}")] == ["A", "C"] == [branch_of(c.body) for c in gateway.finished]
    assert gateway.most[f"/{path}"] == 1
    assert gateway.of(f"/{path}")[1].key == f"{channel}:1:3:{digits(gateway.came[1].body)}"
    row = whole(server, channel, 1)
    assert branch_of(row["payload"]) == "C" and row["attempts"] == 1
    assert [a["outcome"] for a in row["attemptsHistory"]] == ["Sent", {200: "Sent", 503: "Retry", 422: "Error"}[first]]
    assert not server.log("DeliveryLeaseLost")
    if path == "return":
        assert (shown["returnAttemptCount"], shown["returnLastError"]) == (1, None)


@pytest.mark.parametrize("path,channel,state", CHANNELS)
def test_the_new_content_goes_when_the_sender_of_the_old_one_died(make_server, gateway, path, channel, state):
    server = sending(make_server, gateway, path, lease_ms=2000, timeout_ms=1000)
    sender = Sender(server)
    gateway.held.clear()
    sender.post("A")
    wait_for(lambda: gateway.of(f"/{path}"), "the first is on its way")
    sender.post("B")
    server.kill()
    gateway.held.set()
    server.start()
    sender.reach(**{state: "Sent"})
    assert branch_of(gateway.of(f"/{path}")[-1].body) == "B"


def test_a_payload_that_is_not_fit_is_not_sent_when_the_old_one_ends(make_server, gateway):
    """A ticket goes to the gateway only once it was processed: the end of the old send does not make it due."""
    server = sending(make_server, gateway, "send")
    client = server.new_client("AS400", scopes=["interface"])
    fit = {**ticket("A"), "phaseCode": 6, "weights": {"gross": 3, "tare": 1, "net": 2}}
    gateway.held.clear()
    assert client.post("/api/tickets", fit).status == 200
    wait_for(lambda: gateway.of("/send"), "the first is on its way")
    assert client.post("/api/tickets", {**fit, "weights": {"net": -1}}).status == 200

    def shown():
        return client.get("/api/tickets?businessEntity=TCK&businessDocId=T1").json["items"][0]

    wait_for(lambda: shown()["status"] == "Error", "not fit")
    gateway.held.set()
    wait_for(lambda: server.backend.query("SELECT COUNT(*) FROM DeliveryAttempts WHERE Outcome = 'Sent'")[0][0] == 1,
             "the old one is settled")
    ticket_now = shown()
    assert (ticket_now["gatewaySendStatus"], ticket_now["gatewaySendNextAttemptAt"]) == ("Pending", None)
    assert client.post("/api/tickets", fit).status == 200
    wait_for(lambda: shown()["gatewaySendStatus"] == "Sent", "the corrected one is sent")
    assert [json.loads(c.body)["weights"] for c in gateway.of("/send")] == [fit["weights"]] * 2
