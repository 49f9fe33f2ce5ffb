"""Outboxes for operators: what waits, what failed, try again; over HTTP and from the terminal."""

import contextlib
import datetime
import hashlib
import http.server
import json
import re
import socket
import threading
from urllib.parse import quote

import pytest
from harness import wait_for
from test_openapi import DOCUMENT, check

CHANNELS = ("functional-ack", "ticket-return", "ticket-gateway")
KEYS = {"functional-ack": "gateway.functional_ack_url", "ticket-return": "gateway.ticket_return_url",
        "ticket-gateway": "gateway.ticket_send_url"}
STATUSES = ("Pending", "Sending", "Sent", "Error")
TARGET = "https://gateway.example/in"
EMPTY = hashlib.sha256(b"{}").hexdigest()[:16]
ROW = {"id", "reference", "targetUrl", "status", "attempts", "createdAt", "lastAttemptAt", "sentAt", "nextAttemptAt",
       "lastError", "tries", "firstFailedAt", "heldFor", "givenUp", "dismissedAt", "willRetry"}


# The server removes attempts that are older than thirty days and at rows that are over.
YESTERDAY = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)).date()


def at(second):
    return f"{YESTERDAY}T03:04:{second:02}.678Z"


class Box:
    """Rows of the three tables, as the programs that fill the outboxes write them."""

    def __init__(self, backend):
        self.backend = backend
        for table in ("DeliveryAttempts", "DeliveryTargets", "TB_FUNCTIONAL_ACK_OUTBOX", "TB_TICKET_RETURN_OUTBOX", "TB_TICKET_INTERFACE"):
            self.write(f"DELETE FROM {table}")

    def write(self, sql):
        # Of SQLite only a script is committed.
        (self.backend.script if self.backend.name == "sqlite" else self.backend.query)(sql)

    def literal(self, value):
        if value is None or isinstance(value, int):
            return "NULL" if value is None else str(value)
        if self.backend.name == "sqlserver":
            is_time = value.startswith("2026-") and value.endswith("Z")
            return "N'" + (value[:-1] if is_time else value).replace("'", "''") + "'"
        return "'" + value.replace("'", "''") + "'"

    def insert(self, table, row):
        self.write(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(map(self.literal, row.values()))})")

    def last(self, table):
        return str(self.backend.query(f"SELECT MAX(Id) FROM {table}")[0][0])

    def ticket(self, reference, **more):
        self.insert("TB_TICKET_INTERFACE", {
            "BusinessEntity": "BR", "BusinessDocId": reference, "CompanyCode": "1", "BranchCode": "2",
            "DestinationCode": "3", "PhaseCode": 15, "ShipmentEvent": "E", "FunctionalAckIsRequired": "0",
            "TargetApplicationCode": "ASB", **more})
        return self.last("TB_TICKET_INTERFACE")

    def add(self, channel, status="Pending", reference="doc", payload="{}", attempts=0, created=at(1), tried=None,
            sent=None, due=None, error=None, **more):
        """A row of the channel; its id. `more` are columns by their names, without the prefix of the gateway's."""
        if status == "Sending":
            more = {"SendingSince": tried or created, **more}
        if channel == "ticket-gateway":
            if status == "Pending" and due is None:
                due = created  # one that is not due has nothing to send, and is not shown
            return self.ticket(reference, RawPayloadJson=payload, CreatedAt=created, GatewaySendStatus=status,
                               GatewaySendAttemptCount=attempts, GatewaySendLastAttemptAt=tried, GatewaySendSentAt=sent,
                               GatewaySendNextAttemptAt=due, GatewaySendLastError=error,
                               **{f"GatewaySend{name}": value for name, value in more.items()})
        table = "TB_FUNCTIONAL_ACK_OUTBOX" if channel == "functional-ack" else "TB_TICKET_RETURN_OUTBOX"
        row = {"BusinessDocId": reference, "PayloadJson": payload, "TargetUrl": TARGET, "Status": status,
               "AttemptCount": attempts, "CreatedAt": created, "LastAttemptAt": tried, "SentAt": sent,
               "NextAttemptAt": due, "LastError": error, **more}
        if channel == "ticket-return":
            row |= {"BusinessEntity": "BR", "PhaseCode": 15}
        self.insert(table, row)
        return self.last(table)

    def attempt(self, channel, row_id, number, outcome="Retry", status=None, answer=None, error=None):
        self.insert("DeliveryAttempts", {
            "Channel": channel, "RowKey": row_id, "Attempt": number, "AttemptedAt": at(number % 60), "Outcome": outcome,
            "HttpStatus": status, "DurationMs": 7, "Answer": answer, "Error": error})


@pytest.fixture
def box(server):
    """The server's channels are not configured: what is in them stays there."""
    return Box(server.backend)


def overview(server):
    answer = server.admin().get("/admin/outbox")
    assert answer.status == 200, answer
    return {c["channel"]: c for c in answer.json["channels"]}


def whole(server, channel, row_id):
    answer = server.admin().get(f"/admin/outbox/{channel}/{row_id}")
    assert answer.status == 200, answer
    return answer.json


def audit(server):
    return server.admin().get("/admin/audit?pageSize=200").json["items"]


def audit_total(server):
    return server.admin().get("/admin/audit").json["total"]


# --- who may ---

PATHS = [("GET", "/admin/outbox"), ("GET", "/admin/outbox/functional-ack"), ("GET", "/admin/outbox/functional-ack/1"),
         ("POST", "/admin/outbox/functional-ack/1/retry"), ("POST", "/admin/outbox/functional-ack/retry"),
         ("GET", "/admin/circuit-breakers")]


@pytest.mark.parametrize("method,path", PATHS)
def test_without_the_admin_key_it_is_401(server, method, path):
    for headers in ({}, {"X-Admin-Key": "wrong"}):
        assert server.anonymous().request(method, path, headers=headers).status == 401


# --- all channels ---


def test_an_empty_outbox_shows_every_channel(server, box):
    channels = overview(server)
    assert tuple(channels) == (*CHANNELS, "events", "integrations", "webhooks", "alerts")
    for name in CHANNELS:
        assert channels[name] == {"channel": name, "configured": False, "missing": KEYS[name],
                           "counts": dict.fromkeys(STATUSES, 0), "oldestPendingAt": None, "waiting": 0,
                           "oldestWaitingAt": None, "held": 0, "givenUp": 0, "givenUpSince": None,
                           "givenUpByTarget": [], "paused": False, "targets": []}


def test_counts_by_state_and_the_oldest_that_waits(server, box):
    for channel in CHANNELS:
        box.add(channel, "Sent", "s", created=at(1), sent=at(5))
        for i in (9, 4, 7):
            box.add(channel, reference=f"p{i}", created=at(i), due=at(i))
        box.add(channel, "Error", "e", error="HTTP 400")
    box.add("ticket-return", "Sending", "g", due=at(2))
    channels = overview(server)
    for name in CHANNELS:
        channel = channels[name]
        sending = int(name == "ticket-return")
        assert channel["counts"] == {"Pending": 3, "Sending": sending, "Sent": 1, "Error": 1}
        assert channel["oldestPendingAt"] == at(4)


def test_a_state_that_nobody_knows_does_no_harm(server, box):
    box.add("functional-ack", "Strange")
    assert overview(server)["functional-ack"]["counts"] == dict.fromkeys(STATUSES, 0)
    assert server.admin().get("/admin/outbox/functional-ack").json["items"][0]["status"] == "Strange"


# --- one channel ---


@pytest.mark.parametrize("channel", CHANNELS)
def test_list_has_every_member(server, box, channel):
    error = 'HTTP 503: "🚚"\n'
    row_id = box.add(channel, "Error", "São 1", attempts=3, created=at(1), tried=at(2), due=at(4), error=error)
    page = server.admin().get(f"/admin/outbox/{channel}").json
    assert {k: page[k] for k in ("page", "pageSize", "total")} == {"page": 1, "pageSize": 20, "total": 1}
    assert page["items"] == [{
        "id": row_id, "reference": "São 1", "targetUrl": None if channel == "ticket-gateway" else TARGET,
        "status": "Error", "attempts": 3, "createdAt": at(1), "lastAttemptAt": at(2), "sentAt": None,
        "nextAttemptAt": at(4), "lastError": error, "tries": 0, "firstFailedAt": None, "heldFor": None, "givenUp": False, "dismissedAt": None,
        "willRetry": True}]
    assert set(page["items"][0]) == ROW


@pytest.mark.parametrize("channel", CHANNELS)
def test_pages_newest_first_each_row_once(server, box, channel):
    ids = [box.add(channel, reference=f"d{i}") for i in range(7)]
    seen = []
    for page, count in ((1, 3), (2, 3), (3, 1), (4, 0)):
        answer = server.admin().get(f"/admin/outbox/{channel}?page={page}&pageSize=3").json
        assert (answer["page"], answer["pageSize"], answer["total"], len(answer["items"])) == (page, 3, 7, count)
        seen += [item["id"] for item in answer["items"]]
    assert seen == ids[::-1]


@pytest.mark.parametrize("channel", CHANNELS)
def test_the_state_filters(server, box, channel):
    ids = {status: box.add(channel, status, status) for status in STATUSES}
    for status in STATUSES:
        for spelt in (status, status.lower(), status.upper()):
            page = server.admin().get(f"/admin/outbox/{channel}?status={spelt}").json
            assert (page["total"], [item["id"] for item in page["items"]]) == (1, [ids[status]])
    assert server.admin().get(f"/admin/outbox/{channel}").json["total"] == 4
    assert server.admin().get(f"/admin/outbox/{channel}?status=").json["total"] == 4


@pytest.mark.parametrize("query,fields", [
    ("status=x", {"status"}), ("status=Awaiting", {"status"}),
    ("status=Sent,Error", {"status"}), ("status=%27", {"status"}), ("page=0", {"page"}),
    ("page=x", {"page"}), ("pageSize=201", {"pageSize"}), ("page=0&pageSize=0", {"page", "pageSize"}),
])
def test_a_bad_query_is_400(server, query, fields):
    answer = server.admin().get(f"/admin/outbox/functional-ack?{query}")
    assert (answer.status, answer.bad_fields) == (400, fields)


@pytest.mark.parametrize("channel", ["nothing", "Functional-Ack", "functional-ack ", "x" * 300, "%C3%A9"])
def test_an_unknown_channel_is_404_everywhere(server, channel):
    channel = channel.replace(" ", "%20")
    admin = server.admin()
    for answer in (admin.get(f"/admin/outbox/{channel}"), admin.get(f"/admin/outbox/{channel}/1"),
                   admin.post(f"/admin/outbox/{channel}/1/retry"), admin.post(f"/admin/outbox/{channel}/retry", {})):
        assert (answer.status, answer.code) == (404, "NotFound")


def test_answers_match_the_document(server, box):
    row_id = box.add("ticket-return", "Error", error="HTTP 503", due=at(4))
    box.attempt("ticket-return", row_id, 1, "Retry", 503, "down", "HTTP 503: down")
    box.attempt("ticket-return", row_id, 2, "Error", None, None, "connection refused")
    admin = server.admin()
    for schema, answer in (("OutboxOverview", admin.get("/admin/outbox")),
                           ("OutboxPage", admin.get("/admin/outbox/ticket-return")),
                           ("OutboxRowWhole", admin.get(f"/admin/outbox/ticket-return/{row_id}")),
                           ("OutboxRetried", admin.post(f"/admin/outbox/ticket-return/{row_id}/retry")),
                           ("OutboxRetriedAll", admin.post("/admin/outbox/ticket-return/retry"))):
        assert answer.status == 200, answer
        check(answer.json, DOCUMENT["components"]["schemas"][schema], schema)


# --- one row ---


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("payload", ['{"a": "ação 🚚",\n\t"b": [1, null]}', '{"text": "' + "ação 🚚 " * 80000 + '"}'],
                         ids=["small", "1MB"])
def test_one_row_has_its_payload_as_it_is(server, box, channel, payload):
    row_id = box.add(channel, "Sent", "doc", payload, attempts=1, tried=at(2), sent=at(3))
    row = whole(server, channel, row_id)
    assert set(row) == ROW | {"payload", "payloadMasked", "waitingFor", "attemptsHistory"}
    assert (row["id"], row["status"], row["sentAt"], row["attemptsHistory"]) == (row_id, "Sent", at(3), [])
    assert row["payload"] == payload and row["payloadMasked"] is False and row["waitingFor"] is None


def test_attempts_are_those_of_the_row_newest_first(server, box):
    row_id = box.add("functional-ack", "Error", attempts=2)
    other = box.add("functional-ack", "Error")
    box.attempt("functional-ack", row_id, 1, "Retry", None, None, "connection refused")
    box.attempt("functional-ack", other, 1, "Error", 404)
    box.attempt("ticket-return", row_id, 1, "Sent", 200)
    box.attempt("functional-ack", row_id, 2, "Error", 422, "não", "HTTP 422: não")
    assert whole(server, "functional-ack", row_id)["attemptsHistory"] == [
        {"attempt": 2, "attemptedAt": at(2), "outcome": "Error", "httpStatus": 422, "durationMs": 7, "answer": "não",
         "error": "HTTP 422: não"},
        {"attempt": 1, "attemptedAt": at(1), "outcome": "Retry", "httpStatus": None, "durationMs": 7, "answer": None,
         "error": "connection refused"}]


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_success_at_the_first_try_is_in_the_history_by_the_row_itself(server, box, channel):
    row_id = box.add(channel, "Sent", attempts=1, tried=at(2), sent=at(3), TryCount=1, SentStatus=202, SentMs=12)
    entry = {"attempt": 1, "attemptedAt": at(2), "outcome": "Sent", "httpStatus": 202, "durationMs": 12, "answer": None,
             "error": None}
    assert whole(server, channel, row_id)["attemptsHistory"] == [entry]
    shown = cli(server, "show", channel, row_id)
    assert re.search(rf"^1 +{re.escape(at(2))} +Sent +202 +12", shown, re.MULTILINE), shown
    if channel == "ticket-gateway":
        assert server.admin().get(f"/admin/tickets/{row_id}").json["attempts"] == [
            {"channel": channel, "id": int(row_id), **entry}]


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_success_is_in_the_history_once(server, box, channel):
    row_id = box.add(channel, "Sent", attempts=2, tried=at(2), sent=at(3), TryCount=2, SentStatus=202, SentMs=12)
    box.attempt(channel, row_id, 1, "Retry", 503)
    box.attempt(channel, row_id, 2, "Sent", 202, "thanks")
    older = box.add(channel, "Sent", "older", attempts=1, tried=at(1), sent=at(3), TryCount=1)
    box.attempt(channel, older, 1, "Sent", 200, "thanks")
    waiting = box.add(channel, "Pending", "again", due=at(5), TryCount=1, SentStatus=202, SentMs=12)
    assert [(a["attempt"], a["outcome"], a["answer"]) for a in whole(server, channel, row_id)["attemptsHistory"]] == [
        (2, "Sent", "thanks"), (1, "Retry", None)]
    assert [a["answer"] for a in whole(server, channel, older)["attemptsHistory"]] == ["thanks"]
    assert whole(server, channel, waiting)["attemptsHistory"] == []


def test_of_many_attempts_the_last_fifty_are_shown(server, box):
    row_id = box.add("ticket-return", "Error")
    for i in range(1, 56):
        box.attempt("ticket-return", row_id, i)
    assert [a["attempt"] for a in whole(server, "ticket-return", row_id)["attemptsHistory"]] == list(range(55, 5, -1))


@pytest.mark.parametrize("row_id", ["0", "-1", "999999999", "x", "1.5", "1e3", "99999999999999999999", "retry", "%20",
                                    "1%20", "1%27", "a%2Fb", "%C3%A9"])
def test_an_id_that_nobody_has_is_404(server, row_id):
    assert server.admin().get(f"/admin/outbox/ticket-return/{row_id}").status == 404
    assert server.admin().post(f"/admin/outbox/ticket-return/{row_id}/retry").status == 404


def test_a_row_has_one_name(server, box):
    row_id = box.add("functional-ack", "Error")
    for other in (f"0{row_id}", f"00{row_id}", f"%2B{row_id}"):
        assert server.admin().get(f"/admin/outbox/functional-ack/{other}").status == 404
        assert server.admin().post(f"/admin/outbox/functional-ack/{other}/retry").status == 404


# --- retry of one ---


@pytest.mark.parametrize("channel", CHANNELS)
def test_what_failed_is_pending_and_due_again(server, box, channel):
    row_id = box.add(channel, "Error", "doc", attempts=5, tried=at(2), error="HTTP 400")
    other = box.add(channel, "Error", "other", attempts=5)
    admin = server.admin(address="127.77.0.2")
    answer = admin.post(f"/admin/outbox/{channel}/{row_id}/retry", headers={"X-Correlation-Id": "again-1"})
    assert (answer.status, answer.json) == (200, {"id": row_id, "status": "Pending"})
    row = whole(server, channel, row_id)
    assert (row["status"], row["attempts"], row["lastAttemptAt"]) == ("Pending", 0, at(2))
    assert row["nextAttemptAt"] > row["createdAt"]
    assert whole(server, channel, other)["status"] == "Error"
    said = audit(server)[0]
    assert (said["action"], said["target"], said["actor"]) == ("OutboxRetried", f"{channel}/{row_id}", "admin")
    assert (said["ip"], said["correlationId"]) == ("127.77.0.2", "again-1")


def test_what_is_pending_stays_so(server, box):
    row_id = box.add("functional-ack", "Pending", attempts=2, due=at(9))
    before, said = whole(server, "functional-ack", row_id), audit_total(server)
    answer = server.admin().post(f"/admin/outbox/functional-ack/{row_id}/retry")
    assert (answer.status, answer.json) == (200, {"id": row_id, "status": "Pending"})
    assert whole(server, "functional-ack", row_id) == before
    assert audit_total(server) == said, "nothing was done"


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("status", ["Sending", "Sent", "Strange"])
def test_what_is_on_its_way_or_sent_is_409(server, box, channel, status):
    row_id = box.add(channel, status, attempts=1, tried=at(2), due=at(3))
    before, said = whole(server, channel, row_id), audit_total(server)
    answer = server.admin().post(f"/admin/outbox/{channel}/{row_id}/retry")
    assert (answer.status, answer.code) == (409, "Conflict")
    assert whole(server, channel, row_id) == before
    assert audit_total(server) == said


def test_retry_of_a_return_is_seen_in_its_ticket(server, box):
    box.ticket("T-1", RawPayloadJson="{}", ReturnStatus="Error", ReturnAttemptCount=5, ReturnLastError="HTTP 400")
    box.ticket("T-2", RawPayloadJson="{}", ReturnStatus="Error", ReturnAttemptCount=5)
    one, two = (box.add("ticket-return", "Error", reference, attempts=5) for reference in ("T-1", "T-2"))
    states = "SELECT BusinessDocId, ReturnStatus, ReturnAttemptCount FROM TB_TICKET_INTERFACE ORDER BY 1"
    assert server.admin().post(f"/admin/outbox/ticket-return/{one}/retry").status == 200
    assert [tuple(r) for r in server.backend.query(states)] == [("T-1", "Pending", 0), ("T-2", "Error", 5)]
    assert server.admin().post("/admin/outbox/ticket-return/retry", {}).json["retried"] == 1
    assert [tuple(r) for r in server.backend.query(states)] == [("T-1", "Pending", 0), ("T-2", "Pending", 0)]
    assert whole(server, "ticket-return", two)["status"] == "Pending"


def test_of_many_retries_at_once_one_does_it(server, box):
    row_id = box.add("ticket-return", "Error", attempts=5)
    before = audit_total(server)
    statuses = []
    threads = [threading.Thread(target=lambda: statuses.append(
        server.admin().post(f"/admin/outbox/ticket-return/{row_id}/retry").status)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 8
    assert audit_total(server) == before + 1


# --- retry of all ---


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("body", [None, b"{}", b'{"status": "Error"}', b'{"STATUS": "error"}',
                                  b'{"status": null}'])
def test_all_that_failed_are_tried_again(server, box, channel, body):
    failed = [box.add(channel, "Error", f"e{i}", attempts=5) for i in range(3)]
    others = [box.add(channel, status, status, attempts=1) for status in ("Pending", "Sending", "Sent")]
    elsewhere = [(c, box.add(c, "Error", "elsewhere")) for c in CHANNELS if c != channel]
    answer = server.admin().post(f"/admin/outbox/{channel}/retry", body=body)
    assert (answer.status, answer.json) == (200, {"matched": 3, "retried": 3, "byChannel": {channel: 3}})
    assert {(r["status"], r["attempts"]) for r in (whole(server, channel, i) for i in failed)} == {("Pending", 0)}
    assert [whole(server, channel, i)["status"] for i in others] == ["Pending", "Sending", "Sent"]
    assert {whole(server, *row)["status"] for row in elsewhere} == {"Error"}
    said = audit(server)[0]
    assert (said["action"], said["target"], said["details"]) == ("OutboxRetriedAll", channel, {"retried": 3})
    again, total = server.admin().post(f"/admin/outbox/{channel}/retry", body=body), audit_total(server)
    assert (again.json, audit_total(server)) == ({"matched": 0, "retried": 0, "byChannel": {}}, total)


@pytest.mark.parametrize("body,status", [
    (b'{"status": "Sent"}', 400), (b'{"status": "Pending"}', 400), (b'{"status": ""}', 400), (b'{"status": 5}', 400),
    (b'{"status": ["Error"]}', 400), (b'{"tagret": "https://gateway.example/in"}', 400), (b'{"dry_run": true}', 400),
    (b'{"status": "Error", "x": 1}', 400), (b'{"channel": "functional-ack"}', 400), (b'{"": null}', 400), (b"[]", 400), (b'"Error"', 400), (b"{", 400), (b'{"status": "Error"} {}', 400),
])
def test_a_bad_body_retries_nothing(server, box, body, status):
    row_id = box.add("functional-ack", "Error")
    assert server.admin().post("/admin/outbox/functional-ack/retry", body=body).status == status
    plain = {"Content-Type": "text/plain"}
    assert server.admin().post("/admin/outbox/functional-ack/retry", body=b"{}", headers=plain).status == 415
    assert whole(server, "functional-ack", row_id)["status"] == "Error"


# --- with the engine ---


class Sink:
    """A destination that answers as told."""

    def __init__(self):
        sink = self
        self.answer = (200, b"fine")
        self.seen = []
        self.bodies = []
        self.hold = contextlib.nullcontext()  # entered by each call before it is answered

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                sink.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                status, body = sink.answer
                sink.seen.append((self.path, self.headers["Idempotency-Key"]))
                with sink.hold:
                    pass
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:{}".format(self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def sink():
    with contextlib.closing(Sink()) as made:
        yield made


def delivering(make_server, sink, **breaker):
    return make_server(config={
        "gateway": {"functional_ack_url": f"{sink.url}/ack", "ticket_return_url": f"{sink.url}/return",
                    "api_key": "key-of-the-gateway"},
        "delivery": {"allow_private_targets": "on", "retry_base_ms": 100, "retry_cap_ms": 200}, "breaker": breaker})


def fill(box, sink, count=1):
    """Acks that are due, to the sink."""
    ids = []
    for i in range(count):
        ids.append(box.add("functional-ack", reference=f"d{i}"))
        box.write(f"UPDATE TB_FUNCTIONAL_ACK_OUTBOX SET TargetUrl = '{sink.url}/ack', NextAttemptAt = CreatedAt"
                  f" WHERE Id = {ids[-1]}")
    return ids


def reach(server, row_id, status, due=None):
    def reached():
        row = whole(server, "functional-ack", row_id)
        return row if row["status"] == status and (due is None or bool(row["nextAttemptAt"]) == due) else None
    return wait_for(reached, f"{status}")


def test_a_refused_document_is_sent_after_a_retry(make_server, sink):
    server = delivering(make_server, sink)
    box = Box(server.backend)
    shown = overview(server)
    assert [shown[c]["configured"] for c in CHANNELS] == [True, True, False]
    assert "missing" not in shown["functional-ack"]
    sink.answer = (422, "não serve".encode())
    [row_id] = fill(box, sink)
    row = reach(server, row_id, "Error", due=False)
    assert "422" in row["lastError"] and row["attempts"] == 5  # delivery.max_attempts: it is not tried again
    sink.answer = (200, b"fine")
    assert server.admin().post(f"/admin/outbox/functional-ack/{row_id}/retry").status == 200
    row = reach(server, row_id, "Sent")
    assert row["lastError"] is None and row["sentAt"] and row["nextAttemptAt"] is None and row["attempts"] == 1
    assert [(a["outcome"], a["httpStatus"], a["answer"]) for a in row["attemptsHistory"]] == [
        ("Sent", 200, "fine"), ("Error", 422, "não serve")]
    assert sink.seen == [("/ack", f"functional-ack:{row_id}:1:{EMPTY}")] * 2
    assert overview(server)["functional-ack"]["counts"] == {"Pending": 0, "Sending": 0, "Sent": 1, "Error": 0}


def test_from_the_terminal_too_and_all_of_them(make_server, sink):
    server = delivering(make_server, sink)
    box = Box(server.backend)
    sink.answer = (400, b"")
    ids = fill(box, sink, 3)
    for row_id in ids:
        reach(server, row_id, "Error", due=False)
    sink.answer = (200, b"")
    done = server.cli("outbox", "retry", "functional-ack", "--all", "--json")
    assert (done.returncode, json.loads(done.stdout)["retried"]) == (0, 3), done.stderr
    for row_id in ids:
        reach(server, row_id, "Sent")
    assert sorted(sink.seen) == sorted([("/ack", f"functional-ack:{i}:1:{EMPTY}") for i in ids] * 2)


def test_a_destination_that_hangs_keeps_nobody_else_waiting(make_server, sink):
    """A backlog for a peer that never answers, older than what comes for another."""
    server = delivering(make_server, sink)
    box = Box(server.backend)
    with socket.create_server(("127.0.0.1", 0), backlog=200) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/ack"
        for i in range(60):
            box.add("functional-ack", reference=f"h{i}")
        box.write(f"UPDATE TB_FUNCTIONAL_ACK_OUTBOX SET TargetUrl = '{url}', NextAttemptAt = CreatedAt")
        wait_for(lambda: overview(server)["functional-ack"]["counts"]["Sending"] > 0, "calls that hang")
        for row_id in fill(box, sink, 5):
            reach(server, row_id, "Sent")
        counts = overview(server)["functional-ack"]["counts"]
        assert counts["Sent"] == 5 and counts["Sending"] > 0 and counts["Sending"] + counts["Pending"] == 60
        assert not any(path.startswith("/h") for path, _ in sink.seen)


@pytest.mark.parametrize("first", [200, 503])
def test_a_return_on_its_way_gives_way_to_that_of_a_newer_payload(make_server, sink, first):
    """Whatever becomes of it, the newer one is sent."""
    server = delivering(make_server, sink)
    client = server.new_client("AS400", scopes=["interface"])
    ticket = {"businessEntity": "TCK", "businessDocId": "T1", "phaseCode": 15, "companyCode": "1", "branchCode": "old",
              "destinationCode": "D", "shipmentEvent": "RCD", "targetApplicationCode": "ASB"}
    sink.answer, sink.hold = (first, b""), threading.Lock()
    with sink.hold:
        assert client.post("/api/tickets", ticket).status == 200
        wait_for(lambda: len(sink.seen) == 1, "the first return")
        sink.answer = (200, b"")
        assert client.post("/api/tickets", {**ticket, "branchCode": "new"}).status == 200
        wait_for(lambda: server.backend.query("SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE Status = 'Processed'"
                                              " AND PayloadVersion = 2")[0][0] == 1, "the newer payload processed")
    row = wait_for(lambda: (r := whole(server, "ticket-return", 1))["status"] == "Sent" and r, "sent")
    assert [json.loads(b)["ticketResult"]["header"]["branchCode"] for b in sink.bodies] == ["old", "new"]
    assert [key.split(":")[:3] for _, key in sink.seen] == [["ticket-return", "1", "1"], ["ticket-return", "1", "2"]]
    assert json.loads(row["payload"])["ticketResult"]["header"]["branchCode"] == "new"
    [shown] = client.get("/api/tickets?businessEntity=TCK&businessDocId=T1").json["items"]
    assert (shown["returnStatus"], shown["returnAttemptCount"], shown["returnLastError"]) == ("Sent", 1, None)


def test_a_ticket_that_the_database_refuses_keeps_no_other_back(make_server):
    """It waits in Error until it is due again, and no event is sent; once the database accepts it, it is processed."""
    server = make_server(config={"delivery": {"lease_ms": 1000, "timeout_ms": 500}}, args=("--set", "server.roles=api"))
    box = Box(server.backend)
    if server.backend.name == "sqlite":
        refuse = ("CREATE TRIGGER refusal BEFORE INSERT ON TB_TICKET_RETURN_OUTBOX WHEN NEW.BusinessDocId = 'T2'"
                  " BEGIN SELECT RAISE(ABORT, 'not this one'); END")
        accept = "DROP TRIGGER refusal"
    else:
        refuse = "ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD CONSTRAINT refusal CHECK (BusinessDocId <> 'T2')"
        accept = "ALTER TABLE TB_TICKET_RETURN_OUTBOX DROP CONSTRAINT refusal"
    client = server.new_client("AS400", scopes=["interface"])
    for doc in ("T1", "T2", "T3"):
        assert client.post("/api/tickets", {
            "businessEntity": "TCK", "businessDocId": doc, "phaseCode": 15, "companyCode": "1", "branchCode": "B",
            "destinationCode": "D", "shipmentEvent": "RCD", "targetApplicationCode": "ASB",
            "functionalAckIsRequired": True}).status == 200
    box.write(refuse)
    server.args = ()
    server.restart()

    def states():
        return dict(server.backend.query("SELECT BusinessDocId, Status FROM TB_TICKET_INTERFACE"))

    wait_for(lambda: states() == {"T1": "Processed", "T2": "Error", "T3": "Processed"}, "the others go on")
    [refused] = client.get("/api/tickets?businessEntity=TCK&businessDocId=T2").json["items"]
    assert refused["lastError"] in ("A value breaks a rule of the database.", "The server failed; its log has the reason under the correlation id.")
    assert all(word in server.log("TicketRefused")[0]["message"] for word in ("not this one" if server.backend.name == "sqlite" else "refusal",))
    acked = "SELECT BusinessDocId FROM TB_FUNCTIONAL_ACK_OUTBOX ORDER BY BusinessDocId"
    assert [row[0] for row in server.backend.query(acked)] == ["T1", "T3"]
    assert {entry["id"] for entry in server.log("TicketRefused")} == {refused["id"]}
    box.write(accept)
    wait_for(lambda: set(states().values()) == {"Processed"}, "and it too, once it is taken")
    assert [row[0] for row in server.backend.query(acked)] == ["T1", "T2", "T3"]


def breakers(server):
    """Of targets and their hosts, by name; relays have theirs, too."""
    items = server.admin().get("/admin/circuit-breakers").json["items"]
    return [item for item in items if not item["name"].startswith("relay:")]


def test_breakers_are_shown(make_server, sink):
    server = delivering(make_server, sink, window=4, min_calls=2, failure_rate=50, open_ms=600000)
    assert breakers(server) == []
    box = Box(server.backend)
    sink.answer = (503, b"down")
    fill(box, sink, 3)

    def opened():
        items = breakers(server)
        return items if items and items[0]["state"] == "OPEN" else None

    breaker, host = wait_for(opened, "the breaker open")
    check({"items": [breaker, host]}, DOCUMENT["components"]["schemas"]["CircuitBreakerList"], "breakers")
    assert (breaker["name"], host["name"]) == (f"functional-ack {sink.url}/ack", sink.url)
    assert (host["state"], host["failed"]) == ("CLOSED", 0)  # it answers
    assert breaker["failureRate"] == 100 and breaker["failed"] == breaker["calls"] >= 2 and breaker["slow"] == 0
    assert 0 < breaker["retryMs"] <= 600000
    assert breaker["since"].endswith("Z") and breaker["lastFailureAt"].endswith("Z")
    sink.answer, seen = (200, b""), len(sink.seen)
    reset = server.admin().post(f"/admin/circuit-breakers/{quote(breaker['name'], safe='')}/reset")
    assert reset.status == 200 and (reset.json["name"], reset.json["state"]) == (breaker["name"], "CLOSED")
    check(reset.json, DOCUMENT["components"]["schemas"]["CircuitBreaker"], "reset")
    entry = audit(server)[0]
    assert (entry["action"], entry["target"], entry["actor"]) == ("BreakerReset", breaker["name"], "admin")
    wait_for(lambda: breakers(server)[0]["state"] == "CLOSED" and len(sink.seen) > seen, "deliveries again")
    assert server.admin().post("/admin/circuit-breakers/nobody/reset").status == 404


def test_a_breaker_that_saw_too_little_has_no_rate(make_server, sink):
    server = delivering(make_server, sink, min_calls=5)
    [row_id] = fill(Box(server.backend), sink)
    reach(server, row_id, "Sent")
    for breaker in breakers(server):
        assert (breaker["state"], breaker["calls"], breaker["failed"], breaker["failureRate"]) == ("CLOSED", 1, 0, None)
        assert (breaker["lastFailureAt"], breaker["retryMs"]) == (None, 0)
    assert len(breakers(server)) == 2


# --- the terminal ---


def cli(server, *args):
    done = server.cli("outbox", *args)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def test_json_is_what_the_api_answers(server, box):
    for channel in CHANNELS:
        for i, status in enumerate(STATUSES):
            box.add(channel, status, f"ação {i}", '{"a": "🚚"}', attempts=i, error="não" if status == "Error" else None)
    row_id = box.add("functional-ack", "Error", "one", due=at(3))
    box.attempt("functional-ack", row_id, 1, "Retry", 503, "down", "HTTP 503: down")
    admin = server.admin()
    assert json.loads(cli(server, "list", "--json")) == admin.get("/admin/outbox").json
    for channel in CHANNELS:
        assert json.loads(cli(server, "list", channel, "--json")) == admin.get(f"/admin/outbox/{channel}").json
        assert (json.loads(cli(server, "list", channel, "--status", "error", "--page", "2", "--page-size=1", "--json"))
                == admin.get(f"/admin/outbox/{channel}?status=Error&page=2&pageSize=1").json)
    shown = json.loads(cli(server, "show", "functional-ack", row_id, "--json"))
    assert shown == whole(server, "functional-ack", row_id)


def test_tables_for_people(server, box):
    payload = '{"p": 1,\n "q": "ação"}'
    error = "HTTP 500: " + "ã" * 100
    ids = [box.add("ticket-return", "Error", f"Ref-{i}", payload, attempts=2, error=error) for i in range(3)]
    box.attempt("ticket-return", ids[0], 1, "Retry", None, None, "connection refused")
    box.attempt("ticket-return", ids[0], 2, "Error", 500, "oh", "HTTP 500: oh")
    head, *lines = cli(server, "list").splitlines()
    assert head.split()[:5] == ["CHANNEL", "PENDING", "SENDING", "SENT", "ERROR"]
    assert [line.split()[0] for line in lines] == [*CHANNELS, "events", "integrations", "webhooks", "alerts"]
    assert lines[1].split()[1:6] == ["0", "0", "0", "3", "0"]
    assert all(KEYS[channel] in line for channel, line in zip(CHANNELS, lines))
    head, *lines = cli(server, "list", "ticket-return", "--page-size", "2").splitlines()
    assert head.split()[:3] == ["ID", "STATUS", "ATTEMPTS"]
    assert [line.split()[:3] for line in lines[:2]] == [[ids[2], "Error", "2"], [ids[1], "Error", "2"]]
    assert "Ref-2" in lines[0] and "HTTP 500" in lines[0] and "ã" * 60 not in lines[0]
    assert lines[2] == "page 1 of 2, 3 rows"
    shown = cli(server, "show", "ticket-return", ids[0])
    for text in ("Ref-0", TARGET, "connection refused", "HTTP 500: oh", payload):
        assert text in shown
    assert shown.index("HTTP 500: oh") < shown.index("connection refused"), "newest first"
    assert cli(server, "retry", "ticket-return", ids[0]) == f"ticket-return {ids[0]} is to be sent again\n"
    assert cli(server, "retry", "ticket-return", "--all") == "2 rows of ticket-return are to be sent again\n"
    assert cli(server, "retry", "ticket-return", "--all") == "0 rows of ticket-return are to be sent again\n"


def test_what_a_peer_answered_does_nothing_to_the_terminal(server, box):
    evil = "a\x1b[2Jb\x9b31mc\r\nd\x7f"
    row_id = box.add("functional-ack", "Error", "ref", '{"x":\t"\x9b31m"}\r\n', error=evil)
    box.attempt("functional-ack", row_id, 1, "Error", 400, evil, None)
    for text in (cli(server, "list", "functional-ack"), cli(server, "show", "functional-ack", row_id)):
        assert not [c for c in text if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160]
        assert "a [2Jb 31mc  d" in text
    assert json.loads(cli(server, "show", "functional-ack", row_id, "--json"))["lastError"] == evil


def test_retry_of_one_leaves_an_audit_row_of_the_user(server, box):
    row_id = box.add("functional-ack", "Error", attempts=5)
    assert json.loads(cli(server, "retry", "functional-ack", row_id, "--json")) == {"id": row_id, "status": "Pending"}
    assert whole(server, "functional-ack", row_id)["status"] == "Pending"
    said = audit(server)[0]
    assert (said["action"], said["target"]) == ("OutboxRetried", f"functional-ack/{row_id}")
    assert said["actor"].startswith("cli:")


def test_what_cannot_be_done_exits_1(server, box):
    sent, sending = box.add("functional-ack", "Sent"), box.add("functional-ack", "Sending")
    before = audit_total(server)
    for verb, row_id in (("show", "999999"), ("show", "x"), ("retry", "999999"), ("retry", sent), ("retry", sending)):
        done = server.cli("outbox", verb, "functional-ack", row_id)
        assert (done.returncode, done.stdout) == (1, "") and len(done.stderr.splitlines()) == 1, done
    assert audit_total(server) == before


@pytest.mark.parametrize("args", [
    "", "list nothing", "show nothing 1", "retry nothing --all", "list functional-ack more", "list --status Error",
    "list --page 2", "list functional-ack --status x", "list functional-ack --status=", "list functional-ack --page 0",
    "list functional-ack --page-size 201", "list --all", "show functional-ack", "show 1", "show functional-ack 1 --all",
    "retry", "retry functional-ack", "retry functional-ack 1 --all", "retry functional-ack --all --status Error",
    "forget functional-ack 1", "list --nothing",
])
def test_wrong_usage_exits_2_and_does_nothing(server, box, args):
    row_id = box.add("functional-ack", "Error")
    done = server.cli("outbox", *args.split())
    assert (done.returncode, done.stdout) == (2, "") and "dataflow outbox: " in done.stderr, done
    assert whole(server, "functional-ack", row_id)["status"] == "Error"


def test_without_a_server_and_on_a_new_database(make_server):
    server = make_server(start=False, empty=True)
    assert all(not any(c["counts"].values()) for c in json.loads(cli(server, "list", "--json"))["channels"])
    page = json.loads(cli(server, "list", "ticket-gateway", "--json"))
    assert page == {"items": [], "page": 1, "pageSize": 20, "total": 0}
    assert json.loads(cli(server, "retry", "ticket-gateway", "--all", "--json")) == {
        "matched": 0, "retried": 0, "byChannel": {}}
