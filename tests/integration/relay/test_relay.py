"""`dataflow relay run` and the relays of `dataflow serve`, as an application with an outbox table sees them.

The tests of source 3's acceptance criteria come first and bear their names; the sandbox is the destination.
"""

import base64
import collections
import contextlib
import datetime
import hashlib
import hmac
import json
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import psycopg2
import pytest
from harness import BIN, Backend, Http, Server, postgres_execute, wait_for
from outboxes import REQUIRED, Outbox, RelayProcess
from test_sandbox import Sandbox

import pg
import rabbit

pytestmark = pytest.mark.threads

on_postgres = pytest.mark.parametrize("backend_name", ["postgres"], indirect=True)
on_sqlite = pytest.mark.parametrize("backend_name", ["sqlite"], indirect=True)
# One that nothing in a test opens, where it is not what the test is about.
PATIENT = {"breaker": {"window": 100, "min_calls": 100, "failure_rate": 100}}


@pytest.fixture(scope="module")
def source(_module_backends):
    """The application's database: tests have tables of their own in it."""
    return _module_backends(empty=True)


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    box = Sandbox(tmp_path_factory.mktemp("sandbox"))
    yield box
    box.finish()


class Sink:
    """A path of the sandbox that only one test uses."""

    def __init__(self, box):
        self.http = Http(box)
        self.path = "/webhooks/" + uuid.uuid4().hex[:12]
        self.url = "http://{}:{}{}".format(*box.host_port, self.path)

    def fault(self, below="", **fault):
        assert self.http.post("/_faults", {"path": self.path + below, **fault}).status == 201

    def mend(self, below=""):
        assert self.http.request("DELETE", f"/_faults?path={self.path}{below}").status in (200, 204)

    def received(self, below=""):
        """Oldest first."""
        return self.http.get(f"/_received?path={self.path}{below}&limit=1000").json[::-1]

    def stats(self):
        paths = [p for p in self.http.get("/_stats").json["paths"] if p["path"].startswith(self.path)]
        return {k: sum(p[k] for p in paths) for k in ("requests", "distinctKeys", "repeats")}

    def arrived(self):
        """The ids of what was answered 200."""
        return [r["headers"]["ce-id"] for r in self.received() if r["status"] == 200]


@pytest.fixture
def sink(box):
    sink = Sink(box)
    yield sink
    sink.mend()


@pytest.fixture
def outbox(source):
    return Outbox(source)


@pytest.fixture
def make_relay(tmp_path_factory):
    """make_relay(outbox, dispatcher="http", …): running; its end is checked too."""
    made = []

    def make(outbox, name="orders", start=True, config=None, **settings):
        relay = RelayProcess(tmp_path_factory.mktemp("relay"), name, outbox.section(**settings), config)
        made.append(relay)
        return relay.start() if start else relay

    yield make
    problems = []
    for relay in made:
        try:
            relay.finish()
        except AssertionError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]


def http(sink, **more):
    return {"dispatcher": "http", "target": sink.url, **more}


def ids(events):
    return sorted(e["id"] for e in events)


# --- source 3, criterion 1: the relay of the outbox ---------------------------------------------------


def test_criterion_1_pending_events_are_looked_for_and_dispatched_to_the_log(outbox, make_relay):
    before = outbox.write(3)
    done, given_up = outbox.write(1, status="PROCESSED")[0], outbox.write(1, status="FAILED")[0]
    relay = make_relay(outbox)
    outbox.wait(PROCESSED=4, FAILED=1)
    after = outbox.write(2)  # it looks again by itself
    outbox.wait(PROCESSED=6, FAILED=1)
    lines = relay.log("OutboxEvent")
    assert [line["eventId"].lower() for line in lines[:3]] == [e["id"] for e in before], "oldest first"
    assert sorted(line["eventId"].lower() for line in lines) == ids(before + after)
    rows = outbox.rows("processed_at", "attempts")
    assert rows[done["id"]]["processed_at"] is None and rows[given_up["id"]]["processed_at"] is None, "not its own work"
    assert '"n"' not in relay.log_text(), "no payloads in the log"


def test_criterion_1_success_is_processed_with_its_date(outbox, sink, make_relay):
    begun = datetime.datetime.now(datetime.timezone.utc)
    events = outbox.write(5)
    make_relay(outbox, **http(sink))
    outbox.wait(PROCESSED=5)
    assert sorted(sink.arrived()) == ids(events)
    for row in outbox.rows("processed_at", "attempts", "last_error").values():
        at = row["processed_at"]
        at = datetime.datetime.fromisoformat(at.replace("Z", "+00:00")) if isinstance(at, str) else at
        at = at if at.tzinfo else at.replace(tzinfo=datetime.timezone.utc)
        assert begun - datetime.timedelta(seconds=1) <= at <= datetime.datetime.now(datetime.timezone.utc)
        assert row["attempts"] == 0 and row["last_error"] is None


def test_criterion_1_failure_counts_an_attempt_and_beyond_max_retries_it_is_failed(outbox, sink, make_relay):
    sink.fault("/Bad", status=500)
    sink.fault("/Flaky", status=503, count=2)
    events = {kind: outbox.write(1, event_type=kind)[0]["id"] for kind in ("Bad", "Flaky", "Good")}
    relay = make_relay(outbox, config=PATIENT, max_retries=2, **http(sink, target=sink.url + "/{eventType}"))
    fed = outbox.feed(event_type="Good")
    outbox.wait(PROCESSED=2 + fed, FAILED=1)
    rows = outbox.rows("status", "attempts", "last_error", "processed_at")
    assert rows[events["Bad"]]["status"] == "FAILED" and rows[events["Bad"]]["processed_at"] is None
    assert {kind: rows[events[kind]]["attempts"] for kind in ("Bad", "Good")} == {"Bad": 3, "Good": 0}
    assert rows[events["Flaky"]]["attempts"] <= 2
    assert "HTTP 500" in rows[events["Bad"]]["last_error"] and rows[events["Flaky"]]["last_error"] is None
    tries = [r["status"] for r in sink.received("/Bad")]
    assert set(tries) == {500} and len(tries) >= 3
    wait_for(lambda: len(relay.log("OutboxEventFailed")) == 1 and len(relay.log("OutboxEventRetry")) == len(tries) + 1, "the log")
    [line] = relay.log("DeliveryGivenUp")
    assert line["channel"] == "relay" and line["relay"] == "orders" and line["reason"] == "count"
    assert line["eventId"].lower() == events["Bad"] and line["correlationId"]
    # A person has another try made by setting it back.
    sink.mend("/Bad")
    outbox.execute(f"UPDATE {outbox.quoted} SET {outbox.column('status')} = 'PENDING', {outbox.column('attempts')} = 0"
                   f" WHERE {outbox.column('status')} = 'FAILED'")
    outbox.wait(PROCESSED=3 + fed)


@pytest.mark.parametrize("backend_name", ["postgres", "sqlserver"], indirect=True)
def test_criterion_1_concurrent_relays_take_no_event_twice(outbox, sink, make_relay):
    if outbox.backend.babelfish:
        pytest.skip("Babelfish ignores lock hints, and the relay warns of it")
    relays = [make_relay(outbox, start=False, **http(sink, batch=10)) for _ in range(2)]
    for relay in relays:
        relay.spawn()
    for relay in relays:
        relay.wait_for_event("RelayStarted")
    events = outbox.write(500)
    outbox.wait(PROCESSED=500)
    assert sink.stats() == {"requests": 500, "distinctKeys": 500, "repeats": 0}
    # Told after the commit.
    wait_for(lambda: sum(len(relay.log("OutboxEventProcessed")) for relay in relays) >= 500, "the last lines")
    told = [{line["eventId"].lower() for line in relay.log("OutboxEventProcessed")} for relay in relays]
    assert sorted(told[0] | told[1]) == ids(events) and not told[0] & told[1]


@on_postgres
def test_criterion_1_a_row_that_somebody_has_locked_is_passed_over(outbox, sink, make_relay):
    locked, *_ = outbox.write(5)
    with contextlib.closing(psycopg2.connect(outbox.backend.url)) as other:
        other.cursor().execute(f"SELECT 1 FROM {outbox.quoted} WHERE id = '{locked['id']}' FOR UPDATE")
        make_relay(outbox, **http(sink))
        outbox.wait(PROCESSED=4, PENDING=1)
        assert locked["id"] not in sink.arrived()
    outbox.wait(PROCESSED=5)
    assert sink.stats()["repeats"] == 0


# --- source 3, criterion 3: observability -------------------------------------------------------------


def test_criterion_3_the_log_tells_an_events_story_by_its_correlation_id(outbox, sink, make_relay):
    sink.fault(status=502, count=1)
    trace = {"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "span_id": "00f067aa0ba902b7"}
    [event] = outbox.write(1, event_type="OrderPaid", aggregate_id="o-1", **trace)
    relay = make_relay(outbox, config={**PATIENT, "log": {"level": "debug"}}, **http(sink))
    outbox.wait(PROCESSED=1)
    wait_for(lambda: relay.log("OutboxEventProcessed"), "the last line")
    story = [line for line in relay.log() if line.get("correlationId", "").lower() == event["correlation_id"]]
    told = [(line["event"], line["attempt"]) for line in story]
    assert [t for t in told if t[0] != "OutboxEventClaimed"] == [("OutboxEventRetry", 1), ("OutboxEventProcessed", 2)]
    assert story[0]["message"] == "HTTP 502", "why, and none of the answer's text"
    for line in story:
        assert line["eventId"].lower() == event["id"] and line["eventType"] == "OrderPaid" and line["relay"] == "orders"
        assert line["traceId"] == trace["trace_id"]
    first, second = sink.received()
    for request in (first, second):
        headers = request["headers"]
        assert headers["X-Correlation-Id"].lower() == event["correlation_id"]
        assert headers["x-trace-id"] == trace["trace_id"]
        assert re.fullmatch(f"00-{trace['trace_id']}-[0-9a-f]{{16}}-01", headers["traceparent"])


# --- any table ----------------------------------------------------------------------------------------


ODD_NAMES = {"id": "event \"key\"", "event_type": "Kind of event", "payload": "it's data", "status": "state[1]",
             "attempts": "tries", "created_at": "When", "aggregate_type": "about (what)", "aggregate_id": "about: which",
             "next_attempt_at": "not before", "processed_at": "done?", "last_error": "why; not",
             "correlation_id": "correlação", "trace_id": "{trace}", "span_id": ":span"}
ODD_STATES = {"state_pending": "to do", "state_processed": "it's done", "state_failed": "não foi"}


@pytest.mark.parametrize("order", ["none", "aggregate"])
def test_names_may_be_anything_that_the_database_takes(source, sink, make_relay, order):
    if source.babelfish:
        pytest.skip("Babelfish does not take [a]]b] for a name")
    if source.name == "sqlserver":
        status = "NVARCHAR(20) NOT NULL DEFAULT 'to do'"
    else:
        status = "varchar(20) DEFAULT 'to do'"
    outbox = Outbox(source, f"Out \"box\" of 'it' [{order}]", ODD_NAMES, {"status": status})
    sink.fault("/Bad", status=500)
    sink.fault("/Flaky", status=500, count=1)
    for kind in ("Good", "Bad", "Flaky"):
        outbox.write(2, event_type=kind, aggregate_id=kind)
    relay = make_relay(outbox, config=PATIENT, order=order, max_retries=1, **ODD_STATES,
                       **http(sink, target=sink.url + "/{eventType}"))
    fed = outbox.feed(failed="não foi", count=2, event_type="Good", aggregate_id="Good")
    outbox.wait(**{"it's done": 4 + fed, "não foi": 2})
    looked = relay.status()
    assert looked.returncode == 0, looked


def test_columns_that_are_not_required_may_be_missing(source, sink, make_relay):
    outbox = Outbox(source, types={c: None for c in ("aggregate_type", "aggregate_id", "next_attempt_at", "processed_at",
                                                     "last_error", "correlation_id", "trace_id", "span_id")})
    assert tuple(outbox.types) == REQUIRED
    sink.fault("/Bad", status=500)
    sink.fault("/Flaky", status=500, count=2)
    for kind in ("Good", "Bad", "Flaky"):
        outbox.write(3, event_type=kind)
    make_relay(outbox, config=PATIENT, max_retries=2, **http(sink, target=sink.url + "/{eventType}"))
    fed = outbox.feed(count=3, event_type="Good")
    outbox.wait(PROCESSED=6 + fed, FAILED=3)
    assert [r["attempts"] for r in outbox.rows("attempts", "status").values() if r["status"] == "FAILED"] == [3, 3, 3]


def test_columns_that_are_not_required_may_be_not_null(source, sink, make_relay):
    time = {"sqlite": "TEXT", "postgres": "timestamptz", "sqlserver": "DATETIME2"}[source.name]
    outbox = Outbox(source, types={"next_attempt_at": f"{time} NOT NULL DEFAULT CURRENT_TIMESTAMP",
                                   "last_error": "VARCHAR(200) NOT NULL DEFAULT ''"})
    sink.fault("/Bad", status=422)
    sink.fault("/Flaky", status=500, count=1)
    for kind in ("Good", "Bad", "Flaky"):
        outbox.write(event_type=kind)
    make_relay(outbox, config=PATIENT, **http(sink, target=sink.url + "/{eventType}"))
    outbox.wait(PROCESSED=2, FAILED=1)
    assert sorted(r["last_error"][:8] for r in outbox.rows("last_error").values()) == ["", "", "HTTP 422"]
    assert sink.stats()["requests"] == 4


IDS = {"sqlite": {"number": "INTEGER PRIMARY KEY", "text": "VARCHAR(40) UNIQUE"},
       "postgres": {"number": "bigserial PRIMARY KEY", "text": "varchar(40) UNIQUE"},
       "sqlserver": {"number": "BIGINT PRIMARY KEY", "text": "NVARCHAR(40) NOT NULL UNIQUE"}}


@pytest.mark.parametrize("kind", ["number", "text"])
def test_ids_may_be_numbers_or_texts(source, sink, make_relay, kind):
    outbox = Outbox(source, types={"id": IDS[source.name][kind]})
    escaped = "" if source.babelfish else '"\\'  # in JSON; it would stay so there
    outbox.write(20, id=lambda i: i + 1 if kind == "number" else f"{i} {{é}}, '{escaped}", aggregate_id=lambda i: f"a{i % 3}")
    sink.fault(status=500, count=3)
    make_relay(outbox, config=PATIENT, order="aggregate", **http(sink))
    outbox.wait(PROCESSED=20)
    assert sink.stats() == {"requests": 23, "distinctKeys": 20, "repeats": 3}


def test_an_attempt_that_was_never_counted_is_none(source, sink, make_relay):
    """An application may leave the column NULL: it counts as 0, and the event does not fail for ever."""
    outbox = Outbox(source, types={"attempts": "INT"})
    outbox.write(2, event_type=lambda i: ("Bad", "Good")[i])
    sink.fault("/Bad", status=500)
    make_relay(outbox, config=PATIENT, max_retries=1, **http(sink, target=sink.url + "/{eventType}"))
    outbox.feed(event_type="Good")
    assert {r["status"]: r["attempts"] for r in outbox.rows("status", "attempts").values()}["FAILED"] == 2


def test_an_event_that_cannot_be_marked_keeps_no_other_from_it(source, sink, make_relay):
    """The table knows no FAILED. The others are marked, and sent once."""
    outbox = Outbox(source, types={"status": "VARCHAR(20) DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'PROCESSED'))"})
    outbox.write(6, event_type=lambda i: "Good" if i else "Bad")
    sink.fault("/Bad", status=422)
    relay = make_relay(outbox, config=PATIENT, **http(sink, target=sink.url + "/{eventType}"))
    outbox.wait(PENDING=1, PROCESSED=5)
    wait_for(lambda: relay.log("RelaySourceFailed"), "the reason")
    assert len(sink.received("/Good")) == 5


# --- the check of the table ---------------------------------------------------------------------------

WRONG = {
    "no such table": ({}, {"table": "nowhere"}, "nowhere does not exist"),
    "no id": ({"id": None}, {}, "no column id: set column_id"),
    "renamed status": ({}, {"column_status": "state"}, "no column state: set column_status"),
    "attempts as text": ({"attempts": "varchar(10)"}, {}, "attempts"),
    "payload as bytes": ({"payload": {"sqlite": "BLOB", "postgres": "bytea", "sqlserver": "VARBINARY(MAX)"}}, {}, "payload"),
    "created as a number": ({"created_at": "int"}, {}, "created_at"),
    "no order without aggregates": ({"aggregate_id": None}, {"order": "aggregate"}, "order=aggregate needs a column"),
    "states that do not fit": ({"status": "varchar(8)"}, {}, "status"),
}
ANYTHING_GOES = {"attempts as text", "created as a number", "states that do not fit"}  # with SQLite's types


@pytest.mark.parametrize("case", list(WRONG))
def test_status_says_what_is_wrong_with_the_table(source, make_relay, case):
    types, settings, complaint = WRONG[case]
    if source.name == "sqlite" and case in ANYTHING_GOES:
        pytest.skip("SQLite's types do not bind")
    types = {c: t[source.name] if isinstance(t, dict) else t for c, t in types.items()}
    relay = make_relay(Outbox(source, types=types), start=False, **settings)
    looked = relay.status()
    assert looked.returncode == 1 and complaint in looked.stdout + looked.stderr, looked
    [shown] = json.loads(relay.status("--json").stdout)
    assert complaint in shown["problem"] and not shown["tableRight"], shown


def test_a_table_that_comes_later_is_found(source, sink, make_relay):
    name = "later_" + uuid.uuid4().hex[:12]
    outbox = Outbox(source, types={"payload": None}, table=name)
    relay = make_relay(outbox, start=False, **http(sink))
    relay.start("RelayTableWrong")
    [told] = relay.log("RelayTableWrong")
    assert "payload" in told["message"] and told["level"] == "error", told
    outbox.execute(f"DROP TABLE {outbox.quoted}")
    outbox = Outbox(source, table=name)
    outbox.write(2)
    relay.wait_for_event("RelayStarted")
    outbox.wait(PROCESSED=2)


def test_status_counts_what_waits_and_what_failed(outbox, make_relay):
    outbox.write(3)
    outbox.write(2, status="FAILED")
    outbox.write(4, status="PROCESSED")
    relay = make_relay(outbox, start=False)
    looked = relay.status("--json")
    assert looked.returncode == 0, looked
    [shown] = json.loads(looked.stdout)
    assert (shown["name"], shown["waiting"], shown["failed"]) == ("orders", 3, 2), shown
    assert pg.PASSWORD not in looked.stdout
    text = relay.status()
    assert text.returncode == 0 and "orders" in text.stdout and pg.PASSWORD not in text.stdout


@on_sqlite
def test_a_relay_alone_shows_its_figures_where_it_is_told_to(source, outbox, make_relay):
    relay = make_relay(outbox, start=False)
    relay.args = ("--metrics-listen", "127.0.0.1:0")
    outbox.write(3)
    relay.start()
    outbox.wait(PROCESSED=3)
    base = "http://" + relay.current("MetricsListening")[0]["address"]

    def get(path):
        with urllib.request.urlopen(base + path, timeout=60) as answer:
            return answer.read().decode()

    assert json.loads(get("/healthz"))["status"] == "ok"
    counted = 'dataflow_relay_attempts_total{relay="orders",outcome="processed"} 3'
    wait_for(lambda: counted in get("/metrics"), "the count")
    assert 'dataflow_relay_up{relay="orders"} 1' in get("/metrics")
    for path in ("/", "/admin/clients", "/readyz", "/openapi.json"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(path)
    for args, complaint in ((("run", "orders", "--metrics-listen", "nowhere"), "--metrics-listen"),
                            (("status", "--metrics-listen", "127.0.0.1:0"), "usage")):
        refused = relay.cli("relay", *args)
        assert refused.returncode == 2 and complaint in refused.stderr, refused
    taken = relay.cli("relay", "run", "orders", "--metrics-listen", base[7:])
    assert taken.returncode == 1, taken


def test_a_relay_that_is_not_configured_is_refused(outbox, make_relay):
    relay = make_relay(outbox, start=False)
    for args in (("relay", "run", "others"), ("relay", "status", "others"), ("relay", "install-trigger", "others")):
        refused = relay.cli(*args)
        assert refused.returncode == 2 and "others" in refused.stderr, refused
    refused = relay.cli("relay", "walk")
    assert refused.returncode == 2 and "usage" in refused.stderr, refused


# --- HTTP ---------------------------------------------------------------------------------------------

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


@pytest.mark.parametrize("mode", ["binary", "structured", "batch"])
def test_http_carries_cloud_events_that_are_signed(outbox, sink, make_relay, mode):
    events = outbox.write(3, aggregate_id="o-7", payload='{"text": "ação \\" 1"}')
    assert sink.http.request("PUT", "/_config", json={"webhookSecrets": {sink.path: SECRET}}).status == 200
    make_relay(outbox, **http(sink, mode=mode, secret=SECRET, source="/shop"))
    outbox.wait(PROCESSED=3)
    requests = sink.received()
    assert len(requests) == (1 if mode == "batch" else 3)
    assert all(r["verified"] for r in requests), "the sandbox checks both signatures"
    found = {}
    for request in requests:
        headers, body = request["headers"], request["body"]
        timestamp = headers["X-DataFlow-Timestamp"]
        assert abs(time.time() - int(timestamp)) < 300
        if mode == "binary":
            assert headers["Content-Type"] == "application/json"
            found[headers["ce-id"]] = {k[3:]: v for k, v in headers.items() if k.startswith("ce-")} | {"data": body}
        else:
            kind = "application/cloudevents" + ("-batch" if mode == "batch" else "") + "+json"
            assert headers["Content-Type"].split(";")[0] == kind
            for document in body if mode == "batch" else [body]:
                assert document.pop("datacontenttype") == "application/json"
                found[document["id"]] = document
    assert sorted(found) == ids(events)
    for event in events:
        got = found[event["id"]]
        assert got.pop("correlationid").lower() == event["correlation_id"]
        assert got.pop("time").startswith("2026-01-01T00:00:00.")
        assert got == {"id": event["id"], "source": "/shop", "specversion": "1.0", "type": "OrderPlaced", "subject": "o-7",
                       "aggregatetype": "Order", "data": {"text": 'ação " 1'}}


@on_postgres
def test_http_signatures_can_be_checked_without_knowing_the_program(outbox, sink, make_relay):
    outbox.write(1, payload='{"a": 1}')
    make_relay(outbox, **http(sink, secret=SECRET))
    outbox.wait(PROCESSED=1)
    [request] = sink.received()
    headers = request["headers"]
    body = b'{"a": 1}'
    mac = hmac.new(SECRET.encode(), f"{headers['X-DataFlow-Timestamp']}.".encode() + body, hashlib.sha256).hexdigest()
    assert headers["X-DataFlow-Signature"] == f"v1={mac}"
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    mac = hmac.new(bytes(range(32)), signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(mac).decode()
    assert headers["Idempotency-Key"].endswith(headers["ce-id"])


# What an answer makes of an event: tried again, or given up at once.
ANSWERS = {301: "PENDING", 400: "FAILED", 401: "PENDING", 403: "PENDING", 404: "PENDING", 405: "PENDING", 408: "PENDING",
           409: "FAILED", 410: "FAILED", 413: "FAILED", 421: "PENDING", 422: "FAILED", 425: "PENDING", 429: "PENDING",
           500: "PENDING", 503: "PENDING"}


@on_postgres
def test_http_answers_decide_whether_it_is_tried_again(outbox, sink, make_relay):
    for status in ANSWERS:
        sink.fault(f"/s{status}", status=status)
    sink.fault("/later", status=503, retryAfter=3600)
    events = {status: outbox.write(1, event_type=f"s{status}")[0]["id"] for status in ANSWERS}
    later = outbox.write(1, event_type="later")[0]["id"]
    make_relay(outbox, config=PATIENT, max_retries=9, retry_base_ms=3600000, retry_cap_ms=3600000,
               **http(sink, target=sink.url + "/{eventType}"))
    wait_for(lambda: all(r["last_error"] for r in outbox.rows("last_error").values()), "each was tried")
    rows = outbox.rows("status", "attempts", "last_error", "next_attempt_at")
    assert {status: rows[i]["status"] for status, i in events.items()} == ANSWERS
    assert {status: f"HTTP {status}" in rows[i]["last_error"] for status, i in events.items()} == dict.fromkeys(ANSWERS, True)
    assert {rows[i]["attempts"] for status, i in events.items() if ANSWERS[status] == "FAILED"} == {10}
    assert {r["attempts"] for r in rows.values() if r["status"] == "PENDING"} == {0}, "nothing arrives: nothing counts"
    ahead = rows[later]["next_attempt_at"] - datetime.datetime.now(datetime.timezone.utc)
    assert datetime.timedelta(seconds=3500) < ahead < datetime.timedelta(seconds=3700), "Retry-After is kept"
    # How long one waits is left to chance, so that one of them may be due again already.
    assert len(sink.received()) in (len(ANSWERS) + 1, len(ANSWERS) + 2)


@on_postgres
def test_http_does_not_follow_a_redirect(outbox, sink, make_relay):
    """Redirects are not followed, and no event is given up for one: the target is wrong, and not the event."""
    sink.fault(status=308)
    outbox.write(1)
    relay = make_relay(outbox, config=PATIENT, max_retries=0, **http(sink))
    wait_for(lambda: len(relay.log("OutboxEventRetry")) >= 3, "some attempts")
    assert outbox.states() == {"PENDING": 1}
    assert {r["status"] for r in sink.received()} == {308}
    sink.mend()
    outbox.wait(PROCESSED=1)


@on_postgres
def test_http_a_batch_is_taken_apart_when_one_event_is_refused(outbox, sink, make_relay):
    outbox.write(5)
    sink.fault(status=400, count=2)  # the batch, and then one of them
    make_relay(outbox, config=PATIENT, **http(sink, mode="batch"))
    outbox.wait(PROCESSED=4, FAILED=1)
    assert len(sink.received()) == 6


@on_postgres
def test_events_that_no_header_could_carry_arrive_or_fail_alone(source, sink, make_relay):
    outbox = Outbox(source, types={"payload": "text", "event_type": "text", "aggregate_id": "text", "correlation_id": "text"})
    outbox.write(1, event_type="a\r\nX-Evil: 1", aggregate_id="../..%2f\x01\"", correlation_id="c\r\nX-Evil: 2")
    outbox.write(1, event_type="", aggregate_id="", correlation_id="", payload="")
    outbox.write(1, event_type="ação " * 20, aggregate_id="é" * 1000, payload="not JSON \x01")
    outbox.write(1, event_type="x" * 100000, payload="y")
    outbox.write(1)
    make_relay(outbox, config=PATIENT, max_retries=1, **http(sink))
    wait_for(lambda: "PENDING" not in outbox.states(), "all settled", 40)
    rows = outbox.rows("status", "event_type", "last_error")
    assert {r["status"] for r in rows.values() if len(r["event_type"]) < 1000} == {"PROCESSED"}, rows
    assert not any("evil" in name.lower() for r in sink.received() for name in r["headers"])


# --- order --------------------------------------------------------------------------------------------


def check_order(requests, events):
    """No event of an aggregate is seen before those written before it were answered 200. Oldest request first."""
    order = {e["id"]: (e["aggregate_id"], n) for n, e in enumerate(events)}
    arrived = collections.defaultdict(list)
    for request in requests:
        event = request["headers"]["ce-id"]
        aggregate, _ = order[event]
        before = [e["id"] for e in events if e["aggregate_id"] == aggregate]
        missing = set(before[:before.index(event)]) - set(arrived[aggregate])
        assert not missing, f"{event} of {aggregate} came before {missing}"
        if request["status"] == 200:
            arrived[aggregate].append(event)


@pytest.mark.parametrize("relays", [1, 2])
def test_the_order_of_an_aggregate_holds_through_failures(source, outbox, sink, make_relay, relays):
    if relays == 2 and source.name == "sqlite":
        pytest.skip("one relay at a time")
    sink.fault(status=503, rate=0.2)
    events = outbox.write(120, aggregate_id=lambda i: f"a{i * i % 7}")
    for _ in range(relays):
        make_relay(outbox, order="aggregate", max_retries=1000, config=PATIENT, batch=20, start=False, **http(sink)).spawn()
    outbox.wait(PROCESSED=120)
    check_order(sink.received(), events)
    assert sorted(set(sink.arrived())) == ids(events)


@on_postgres
def test_an_event_that_is_given_up_does_not_hold_up_its_aggregate(outbox, sink, make_relay):
    sink.fault("/Bad", status=400)
    outbox.write(3, aggregate_id="a", event_type=lambda i: ("Good", "Bad", "Good")[i])
    make_relay(outbox, order="aggregate", **http(sink, target=sink.url + "/{eventType}"))
    outbox.wait(PROCESSED=2, FAILED=1)


@on_postgres
def test_a_backlog_in_a_table_that_was_empty_is_worked_off(source, make_relay):
    """A statement that was planned for an empty table must not compare each row with each."""
    outbox = Outbox(source)
    for columns in ("created_at, id", "aggregate_id, aggregate_type, created_at, id"):
        outbox.execute(f"CREATE INDEX ON {outbox.quoted} ({columns}) WHERE status = 'PENDING'")
    make_relay(outbox, order="aggregate", batch=2000)
    time.sleep(0.5)  # its claims have found nothing, again and again
    outbox.write(8000, aggregate_id=lambda i: f"a{i % 20}")
    outbox.wait(PROCESSED=8000, timeout=120)


# --- the breaker and slowness -------------------------------------------------------------------------


@on_postgres
def test_while_the_breaker_is_open_nothing_is_sent_and_no_failure_counted(outbox, sink, make_relay):
    sink.fault(status=503)
    events = outbox.write(100)
    relay = make_relay(outbox, max_retries=3, retry_base_ms=1, retry_cap_ms=2,
                       config={"breaker": {"window": 5, "min_calls": 5, "open_ms": 60000}}, **http(sink, batch=10))
    wait_for(lambda: relay.log("CircuitBreakerOpened"), "the first failures")
    wait_for(lambda: len(relay.log("OutboxEventRetry")) == len(sink.received()), "nothing is under way")
    rows = outbox.rows("status", "attempts").values()
    assert {(r["status"], r["attempts"]) for r in rows} == {("PENDING", 0)}, "nobody gave up"
    assert len(sink.received()) < len(events)


# --- waking up ----------------------------------------------------------------------------------------


@on_postgres
def test_with_the_trigger_an_event_is_seen_though_nobody_looks_for_a_minute(source, sink, make_relay):
    outbox = Outbox(source, table="public.Wake " + uuid.uuid4().hex[:8])
    relay = make_relay(outbox, start=False, poll_ms=60000, notify_channel="Orders of \"x\"", **http(sink))
    printed = relay.cli("relay", "install-trigger", "orders")
    assert printed.returncode == 0 and "CREATE TRIGGER" in printed.stdout, printed
    assert source.query("SELECT COUNT(*) FROM pg_trigger WHERE tgname LIKE 'dataflow%'")[0][0] == 0, "only printed"
    for _ in range(2):  # the second time changes nothing
        applied = relay.cli("relay", "install-trigger", "orders", "--apply")
        assert applied.returncode == 0, applied
    relay.start("RelayListening")
    outbox.write(1)
    outbox.wait(PROCESSED=1)
    outbox.write(50)
    outbox.wait(PROCESSED=51)


@on_postgres
def test_the_trigger_is_for_the_table_that_the_relay_has_found(source, sink, make_relay):
    """Written without quotes a table is stored in lower case, and the relay finds it so; the trigger must too."""
    outbox = Outbox(source)
    relay = make_relay(outbox, start=False, table=outbox.table.upper(), notify_channel="c1", **http(sink))
    assert relay.status().returncode == 0
    applied = relay.cli("relay", "install-trigger", "orders", "--apply")
    assert applied.returncode == 0, applied


def test_the_trigger_is_for_postgres_only(outbox, make_relay, source):
    relay = make_relay(outbox, start=False)
    refused = relay.cli("relay", "install-trigger", "orders")
    assert refused.returncode in (1, 2), refused
    assert ("notify_channel" if source.name == "postgres" else "PostgreSQL") in refused.stderr


class PgBouncer:
    """A pooler in transaction mode before a PostgreSQL."""

    def __init__(self, url):
        self.directory = Path(tempfile.mkdtemp(prefix="dataflow-pgbouncer-"))  # which its user can reach
        directory = self.directory
        self.port = pg.free_port()
        parts = psycopg2.extensions.parse_dsn(url)
        (directory / "users").write_text(f'"{parts["user"]}" "{parts["password"]}"\n')
        (directory / "ini").write_text(
            f"[databases]\n* = host={parts['host']} port={parts.get('port', 5432)}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self.port}\nauth_type = plain\nauth_file = {directory}/users\npool_mode = transaction\n"
            f"unix_socket_dir =\nserver_round_robin = 1\nlogfile = {directory}/log\nignore_startup_parameters = options,extra_float_digits\n")
        self.url = f"postgres://{parts['user']}:{parts['password']}@127.0.0.1:{self.port}/{parts['dbname']}"
        directory.chmod(0o777)
        identity = {"user": "postgres", "group": "postgres"} if pg.os.geteuid() == 0 else {}
        self.process = subprocess.Popen(["pgbouncer", "-q", str(directory / "ini")], stdin=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, **identity)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        shutil.rmtree(self.directory)


@on_postgres
def test_a_pooler_that_swallows_notifications_is_found_out(source, outbox, sink, make_relay):
    pooler = PgBouncer(source.url)
    try:
        wait_for(lambda: postgres_execute_or_none("SELECT 1", pooler.url), "the pooler")
        relay = make_relay(outbox, start=False, url=pooler.url, notify_channel="orders", **http(sink, batch=5))
        relay.start("RelayNotificationsSwallowed")
        sink.fault(latencyMs=20)  # so that several workers have something in hand, each by another of the server's processes
        outbox.write(200)
        outbox.wait(PROCESSED=200)  # by looking for them
        assert sink.stats()["repeats"] == 0 and not relay.log("RelayListening")
        assert relay.stop() == 0
    finally:
        pooler.stop()


def postgres_execute_or_none(sql, url):
    try:
        return postgres_execute(sql, url)
    except psycopg2.OperationalError:
        return None


# --- the end, and others --------------------------------------------------------------------------------


@pytest.mark.parametrize("latency_ms", [300, 60000], ids=["answers_come", "answers_do_not_come"])
def test_sigterm_settles_what_is_under_way(outbox, sink, make_relay, latency_ms):
    sink.fault(latencyMs=latency_ms)
    events = outbox.write(60)
    relay = make_relay(outbox, config={"server": {"drain_seconds": 20 if latency_ms == 300 else 2}}, **http(sink))
    wait_for(lambda: sink.received(), "calls under way")
    assert relay.stop() == 0
    rows = outbox.rows("status", "attempts")
    seen = collections.Counter(r["headers"]["ce-id"] for r in sink.received())
    for event in events:
        row = rows[event["id"]]
        assert row["attempts"] == 0, "nothing failed"
        if row["status"] == "PROCESSED":
            assert seen[event["id"]] == 1
        elif latency_ms == 300:
            assert seen[event["id"]] == 0, "answered while the relay drained, and not marked"
    assert latency_ms == 300 or outbox.states() == {"PENDING": 60}
    sink.mend()
    relay.start()
    outbox.wait(PROCESSED=60)


@on_postgres
def test_sigterm_while_the_table_is_locked_sends_nothing_afterwards(outbox, sink, make_relay):
    """The claim waits for longer than the drain; what it finds in the end is not for this process any more."""
    relay = make_relay(outbox, config={"server": {"drain_seconds": 0}}, **http(sink))
    with contextlib.closing(psycopg2.connect(outbox.backend.url)) as other:
        cursor = other.cursor()
        cursor.execute(outbox.insert_sql([outbox.event() for _ in range(5)]) + f"; LOCK TABLE {outbox.quoted}")
        waits = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%" + outbox.table + "%'"
        wait_for(lambda: outbox.backend.query(waits)[0][0], "a claim that waits")
        relay.process.send_signal(signal.SIGTERM)
        wait_for(lambda: relay.log("ServerStopping"), "the signal to be seen")
        time.sleep(0.5)  # the drain is over
        other.commit()
    assert relay.stop() == 0
    assert sink.received() == [] and outbox.states() == {"PENDING": 5}


@on_sqlite
def test_sqlite_has_one_relay_at_a_time_and_another_takes_over(source, outbox, sink, make_relay):
    first = make_relay(outbox, **http(sink))
    # However the table is written, it is the same.
    second = make_relay(outbox, start=False, table="main." + outbox.table.upper(), **http(sink))
    second.start("RelayStandingBy")
    outbox.write(20)
    outbox.wait(PROCESSED=20)
    assert not second.log("OutboxEventProcessed")
    first.kill()
    outbox.write(20)
    outbox.wait(PROCESSED=40)
    wait_for(lambda: len(second.log("OutboxEventProcessed")) == 20, "the last lines")
    assert sink.stats() == {"requests": 40, "distinctKeys": 40, "repeats": 0}


def test_a_source_that_is_not_there_yet_is_waited_for(sink, make_relay):
    postgres = pg.Postgres()
    try:
        postgres.start()
        backend = Backend.on(postgres.url())
        outbox = Outbox(backend)
        outbox.write(5)
        postgres.stop()
        relay = make_relay(outbox, start=False, **http(sink))
        relay.start("RelaySourceFailed")
        assert relay.status().returncode == 1
        postgres.start()
        outbox.wait(PROCESSED=5)
        relay.finish()
    finally:
        postgres.close()


# --- brokers ------------------------------------------------------------------------------------------


@on_sqlite
def test_rabbitmq_that_goes_away_and_comes_back_has_every_event(outbox, make_relay):
    broker = rabbit.Rabbit().start()
    try:
        tool = ["--url", broker.url(), "-q", "orders"]
        subprocess.run(["amqp-declare-queue", *tool, "-d"], check=True, capture_output=True, timeout=60)
        relay = make_relay(outbox, config={"breaker": {"open_ms": 200}}, dispatcher="rabbitmq", target=broker.url(),
                           routing_key="orders", max_retries=0, timeout_ms=2000)
        outbox.write(30)
        outbox.wait(PROCESSED=30)
        broker.tell("rabbit:stop()")  # and not the whole node, which takes long to start
        outbox.write(30)
        wait_for(lambda: len(relay.log("OutboxEventRetry")) > 40, "attempts without a broker, and probes", 60)
        assert outbox.states() == {"PROCESSED": 30, "PENDING": 30}
        assert {r["attempts"] for r in outbox.rows("attempts").values()} == {0}, "an outage counts for no event"
        broker.tell("rabbit:start()")
        outbox.wait(PROCESSED=60, timeout=60)
        assert relay.stop() == 0
        bodies = iter(lambda: subprocess.run(["amqp-get", *tool], capture_output=True, timeout=60, check=False).stdout, b"")
        assert {json.loads(body)["n"] for body in bodies} == set(range(1, 61))
    finally:
        broker.close()


class Kafka:
    """librdkafka's mock cluster, of one broker, in a process of its own."""

    def __init__(self):
        program = Path(BIN).resolve().parent / "tests" / "kafka_mock"
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.servers = self.process.stdout.readline().strip()

    def tell(self, command):
        """The lines before its "ok"."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        lines = []
        while (line := self.process.stdout.readline().rstrip("\n")) != "ok":
            assert line and not line.startswith("error"), f"{command}: {line}"
            lines.append(line)
        return lines

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


@on_postgres
def test_kafka_that_goes_away_and_comes_back_has_every_event_in_order(outbox, make_relay):
    cluster = Kafka()
    try:
        cluster.tell("topic orders 2")
        relay = make_relay(outbox, config=PATIENT, dispatcher="kafka", target=f"kafka://{cluster.servers}/orders",
                           order="aggregate", max_retries=1000, timeout_ms=2000)
        events = outbox.write(30, aggregate_id=lambda i: f"a{i % 4}")
        outbox.wait(PROCESSED=30)
        cluster.tell("down 1")
        events += outbox.write(30, aggregate_id=lambda i: f"a{i % 4}")
        wait_for(lambda: relay.log("OutboxEventRetry"), "an attempt without a broker", 60)
        assert outbox.states() == {"PROCESSED": 30, "PENDING": 30}
        cluster.tell("up 1")
        outbox.wait(PROCESSED=60, timeout=60)
        first = collections.defaultdict(list)
        for line in cluster.tell("read orders 2"):
            _, _, key, event, _ = line.split("\t")
            if event not in first[key]:
                first[key].append(event)
        wanted = collections.defaultdict(list)
        for event in events:
            wanted[event["aggregate_id"]].append(event["id"])
        assert sorted(first.values()) == sorted(wanted.values())
    finally:
        cluster.close()


# --- in the server --------------------------------------------------------------------------------------


def test_several_relays_run_in_a_server_on_another_database(source, sink, tmp_path_factory):
    """The application's database is one, the server's own another; what is wrong with one relay does not touch others."""
    orders, payments = Outbox(source), Outbox(source)
    own = Backend("sqlite", tmp_path_factory.mktemp("own"))
    server = Server(own, tmp_path_factory.mktemp("server"), config={
        **PATIENT,
        "relay.orders": orders.section(**http(sink, target=sink.url + "/orders")),
        "relay.payments": payments.section(**http(sink, target=sink.url + "/payments", order="aggregate")),
        "relay.wrong": orders.section(table="nowhere"),
    }).start()
    try:
        written = {"orders": orders.write(10), "payments": payments.write(10, aggregate_id="p")}
        orders.wait(PROCESSED=10)
        payments.wait(PROCESSED=10)
        for name, events in written.items():
            assert sorted(r["headers"]["ce-id"] for r in sink.received("/" + name)) == ids(events)
            assert {r["headers"]["ce-source"] for r in sink.received("/" + name)} == {f"/dataflow/relay/{name}"}
        wait_for(lambda: "nowhere" in server.log("RelayTableWrong")[0]["message"], "the wrong one is told of")

        def metrics():
            return server.anonymous().get("/metrics").body.decode()

        for name in written:  # counted after the commit
            counted = f'dataflow_relay_attempts_total{{relay="{name}",outcome="processed"}} 10\n'
            wait_for(lambda counted=counted: counted in metrics(), counted)
        metrics = metrics()
        assert 'dataflow_relay_up{relay="orders"} 1' in metrics and 'dataflow_relay_up{relay="wrong"} 0' in metrics
    finally:
        server.finish()


@on_sqlite
def test_a_destination_that_hangs_does_not_keep_a_server_from_ending(outbox, sink, tmp_path_factory):
    own = Backend("sqlite", tmp_path_factory.mktemp("own"))
    server = Server(own, tmp_path_factory.mktemp("server"), config={
        "server": {"drain_seconds": 1}, "relay.orders": outbox.section(**http(sink, timeout_ms=200000))}).start()
    sink.fault(latencyMs=190000)
    outbox.write(3)
    wait_for(lambda: sink.received(), "calls under way")
    server.finish()  # within the 40 s that it waits
    assert outbox.states() == {"PENDING": 3}
