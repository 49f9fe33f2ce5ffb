"""What is removed, what is not, and what a person dismisses. Rows are written as the server leaves them."""

import concurrent.futures
import contextlib
import datetime
import json
import subprocess
import uuid

import pytest
from harness import Backend, FakeClock, Server, wait_for
from test_imports_receive import execute
from test_outbox import Box

KINDS = ("batches", "events", "deliveries", "attempts", "tickets", "acks", "counterparties", "integrations", "alerts")
EVERYTHING = {"retention": dict.fromkeys(KINDS, "30")}
NOW = datetime.datetime.now(datetime.timezone.utc)


def days_ago(days):
    return (NOW - datetime.timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


OLD, YOUNG = days_ago(31), days_ago(29)


class World(Box):
    """A server's tables before it starts, or beside it."""

    def __init__(self, server):
        super().__init__(server.backend)
        self.server = server
        self.client = server.new_client().id
        self.client_id = self.one(f"SELECT Id FROM Clients WHERE ClientIdentifier = '{self.client}'")
        self.hook = str(uuid.uuid4())
        self.insert("WebhookSubscriptions", {"Id": self.hook, "ClientId": str(self.client_id), "Url": "http://127.0.0.1:9/x", "Secret": "s" * 24})

    def one(self, sql):
        return self.backend.query(sql)[0][0]

    def count(self, table, where="1 = 1"):
        return self.one(f"SELECT COUNT(*) FROM {table} WHERE {where}")

    def ticket(self, reference, **more):
        return super().ticket(reference, **{"NextAttemptAt": None, **more})

    def batch(self, ended=OLD, status=3, items=3, **more):
        batch = str(uuid.uuid4())
        self.insert("ImportBatch", {"Id": batch, "ClientId": str(self.client_id), "Status": status, "FileName": "a.csv", "FileType": 2,
                                    "CreatedAt": ended, "CompletedAt": ended, **more})
        for i in range(items):
            self.insert("ImportItem", {"BatchId": batch, "Sequence": i, "Status": 0, "PayloadJson": "{}"})
        self.insert("ImportChunk", {"BatchId": batch, "ChunkId": 1, "RecordOffset": 0, "RecordCount": items, "ContentHash": "0" * 64,
                                    "Status": 3})
        return batch

    def delivery(self, status="Sent", at=OLD, batch=None, due=None, **more):
        delivery = str(uuid.uuid4())
        self.insert("WebhookDeliveries", {"Id": delivery, "SubscriptionId": self.hook, "EventId": str(uuid.uuid4()), "Event": "BatchCompleted",
                                          "BatchId": batch, "PayloadJson": "{}", "Status": status, "CreatedAt": at, "LastAttemptAt": at,
                                          "SentAt": at if status == "Sent" else None, "NextAttemptAt": due, **more})
        return delivery

    def failure(self, delivery, **more):
        self.insert("WebhookDeliveryFailures", {"SubscriptionId": self.hook, "EventId": str(uuid.uuid4()), "Event": "BatchCompleted",
                                                "PayloadJson": "{}", "CreatedAt": OLD, "DeliveryId": delivery, **more})
        return self.one("SELECT MAX(Id) FROM WebhookDeliveryFailures")

    def event(self, status="PROCESSED", at=OLD):
        event = str(uuid.uuid4())
        self.insert("outbox_events", {"id": event, "event_type": "T", "payload": "{}", "status": status, "created_at": at,
                                      "processed_at": at if status == "PROCESSED" else None})
        return event

    def run(self, *args):
        result = self.server.cli("retention", "run", "--json", *args)
        assert result.returncode == 0, result.stderr
        answer = json.loads(result.stdout)
        return {k: n for k, n in answer.get("removed", answer.get("over")).items() if n}


@pytest.fixture(scope="module")
def server(backend_name, tmp_path_factory):
    """Without the role that would remove things by itself."""
    backend = Backend(backend_name, tmp_path_factory.mktemp(backend_name))
    server = Server(backend, tmp_path_factory.mktemp("server"),
                    config={**EVERYTHING, "server": {"roles": "api"}})
    server.start()
    yield server
    server.finish()
    backend.drop()


@pytest.fixture
def world(server):
    world = World(server)
    yield world
    for table in ("WebhookDeliveryFailures", "WebhookDeliveries", "ImportItem", "ImportChunk", "ImportBatch", "outbox_events", "AlertDeliveries",
                  "Alerts", "TB_COUNTERPARTIES", "WebhookSubscriptions"):
        execute(server, f"DELETE FROM {table}")


# --- what is over ---


def test_what_is_over_goes_and_what_is_young_stays(world):
    for at in (OLD, YOUNG):
        world.batch(at)
        world.delivery(at=at)
        world.event(at=at)
        world.add("functional-ack", "Sent", f"doc-{at}", created=at, sent=at)
        world.ticket(f"t-{at}", RawPayloadJson="{}", Status="Processed", CreatedAt=at, UpdatedAt=at, GatewaySendStatus="Sent",
                     GatewaySendSentAt=at)
        world.insert("TB_COUNTERPARTIES", {"BusinessDocId": f"c-{at}", "Status": "Processed", "CreatedAt": at})
        world.insert("Alerts", {"Id": str(uuid.uuid4()), "RuleName": "Test", "Subject": "s", "DedupKey": at, "Severity": "info",
                                "Summary": "x", "DetailsJson": "{}", "Status": "resolved", "FiredAt": at, "ResolvedAt": at})
    expected = {"batches": 1, "deliveries": 1, "events": 1, "acks": 1, "tickets": 1, "counterparties": 1, "alerts": 1}
    assert world.run("--dry-run") == expected
    assert world.count("ImportItem") == 6
    assert world.run() == expected
    assert world.count("ImportItem") == 3 and world.count("ImportChunk") == 1
    for table in ("ImportBatch", "WebhookDeliveries", "outbox_events", "TB_FUNCTIONAL_ACK_OUTBOX", "TB_TICKET_INTERFACE",
                  "TB_COUNTERPARTIES", "Alerts"):
        assert world.count(table) == 1, table
    assert world.run() == {}


def test_what_waits_or_was_given_up_stays(world):
    waits = {"Status": "Error", "NextAttemptAt": YOUNG}
    world.batch(status=0)
    batch = world.batch()
    world.delivery("Error", batch=batch)
    world.delivery("Pending", due=YOUNG)
    world.event("PENDING")
    world.event("FAILED")
    for channel in ("functional-ack", "ticket-return", "ticket-gateway"):
        world.add(channel, "Error", created=OLD, tried=OLD)
        world.add(channel, waits["Status"], created=OLD, tried=OLD, due=waits["NextAttemptAt"], reference="waits")
    world.ticket("given-up", RawPayloadJson="{}", Status="Error", CreatedAt=OLD, UpdatedAt=OLD, FirstFailedAt=OLD)
    world.insert("TB_COUNTERPARTIES", {"BusinessDocId": "c", "Status": "Received", "CreatedAt": OLD})
    assert world.run() == {}
    assert world.count("ImportItem") == 6


def test_a_ticket_waits_for_its_return_and_its_ack_and_takes_the_return_along(world):
    def ticket(doc):
        return world.ticket(doc, RawPayloadJson="{}", Status="Processed", CreatedAt=OLD, UpdatedAt=OLD, GatewaySendStatus="Sent",
                            GatewaySendSentAt=OLD)

    for doc in ("return-waits", "ack-waits", "over"):
        ticket(doc)
    world.add("ticket-return", "Error", "return-waits", created=OLD, tried=OLD, due=YOUNG)
    world.add("functional-ack", "Pending", "ack-waits", created=OLD, due=YOUNG)
    sent = world.add("ticket-return", "Sent", "over", created=OLD, sent=OLD)
    world.insert("DeliveryAttempts", {"Channel": "ticket-return", "RowKey": sent, "Attempt": 1, "AttemptedAt": YOUNG, "Outcome": "Sent",
                                      "DurationMs": 1})
    assert world.run() == {"tickets": 1}
    assert world.count("TB_TICKET_RETURN_OUTBOX") == 1 and world.count("TB_TICKET_INTERFACE") == 2
    assert world.count("DeliveryAttempts") == 0


def test_attempts_at_rows_that_wait_stay(world):
    rows = {"over": world.add("functional-ack", "Sent", created=YOUNG, sent=YOUNG),
            "given up": world.add("functional-ack", "Error", created=YOUNG, tried=YOUNG),
            "gone": "123456"}
    for row in rows.values():
        world.insert("DeliveryAttempts", {"Channel": "functional-ack", "RowKey": row, "Attempt": 1, "AttemptedAt": OLD, "Outcome": "Retry",
                                          "DurationMs": 1})
    assert world.run() == {"attempts": 2}
    assert world.one("SELECT RowKey FROM DeliveryAttempts") == rows["given up"]


def test_more_rows_than_a_step_takes_and_rows_that_stay_between_them(world):
    for i in range(700):
        world.event("FAILED" if i % 7 == 0 else "PROCESSED")
    assert world.run() == {"events": 600}
    assert world.count("outbox_events") == 100


def test_a_removal_that_was_broken_off_goes_on_and_nobody_sees_the_batch_meanwhile(world, server):
    young = world.batch(YOUNG, RemovingAt=YOUNG, IdempotencyKey=None)
    assert server.admin().get(f"/admin/imports/{young}").status == 404
    assert server.admin().get("/admin/imports").json["total"] == 0
    assert server.admin().post(f"/admin/imports/{young}/retry").status == 404
    assert world.run() == {"batches": 1}
    assert world.count("ImportItem") == 0


def test_a_run_that_is_killed_ends_the_same_when_it_runs_again(world, server):
    batches = [world.batch(items=2) for _ in range(6)]
    kept = world.batch(YOUNG)
    for batch in batches:
        delivery = world.delivery(batch=batch)
        world.insert("DeliveryAttempts", {"Channel": "webhooks", "RowKey": delivery, "Attempt": 1, "AttemptedAt": YOUNG, "Outcome": "Sent",
                                          "DurationMs": 1})
        directory = server.directory / "data" / "imports" / batch / "original"
        directory.mkdir(parents=True)
        (directory / "a.csv").write_bytes(b"x")
    for delay in (0.03, 0.05, 0.07):
        process = subprocess.Popen([server.binary, "retention", "run", "--config", str(server.config)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(delay)
        process.kill()
        process.wait()
    world.run()
    assert [str(row[0]).lower() for row in world.backend.query("SELECT Id FROM ImportBatch")] == [kept]
    assert world.count("ImportItem") == 3 and world.count("WebhookDeliveries") == 0 and world.count("DeliveryAttempts") == 0
    assert not [b for b in batches if (server.directory / "data" / "imports" / b).exists()]


def test_the_job_runs_at_the_start_and_every_hour_and_tells_what_it_did(make_server, tmp_path):
    clock = FakeClock(tmp_path)
    server = make_server(config={"retention": {"events": "30"}}, clock=clock)
    world = World(server)
    wait_for(lambda: "dataflow_retention_last_run_timestamp_seconds 1" in server.admin().get("/metrics").body.decode(), "the first run")
    world.event()
    clock.advance(hours=2)
    wait_for(lambda: world.count("outbox_events") == 0, "the event is removed")
    told = wait_for(lambda: server.log("RetentionRan"), "it is told")
    assert '"events":1' in told[0]["message"]
    entries = [e for e in server.admin().get("/admin/audit?pageSize=200").json["items"] if e["action"] == "RetentionRan"]
    assert len(entries) == 1
    text = server.admin().get("/metrics").body.decode()
    assert 'dataflow_retention_removed_total{kind="events"} 1' in text
    assert "dataflow_retention_last_run_timestamp_seconds 1" in text


# --- what a run would remove, asked over HTTP ---


def over(answer):
    assert answer.status == 200, answer
    return {k["kind"]: k["over"] for k in answer.json["kinds"] if k["over"]}


def test_the_days_are_shown_and_nothing_is_counted_unless_asked(server):
    answer = server.admin().get("/admin/retention")
    assert answer.status == 200
    assert {k["kind"]: (k["setting"], k["days"]) for k in answer.json["kinds"]} == {
        **{kind: (kind, 30) for kind in KINDS}, "failures": ("deliveries", 30), "targets": ("attempts", 30), "audit": ("audit", 1825)}
    assert answer.json["countedAt"] is None
    assert not [k for k in answer.json["kinds"] if "over" in k]


def test_the_count_is_that_of_the_command_and_removes_nothing(world, server):
    for at in (OLD, YOUNG):
        batch = world.batch(at)
        world.failure(world.delivery(at=at), ReplayedAt=at)
        world.event(at=at)
        world.add("functional-ack", "Sent", f"count-{at}", created=at, sent=at)
        world.insert("DeliveryAttempts", {"Channel": "functional-ack", "RowKey": f"9{len(batch)}", "Attempt": 1, "AttemptedAt": at,
                                          "Outcome": "Sent", "DurationMs": 1})
    for i in range(700):
        world.event("FAILED" if i % 7 == 0 else "PROCESSED")
    answer = server.admin().get("/admin/retention?count=true")
    found = over(answer)
    assert found == world.run("--dry-run")
    assert found == {"batches": 1, "deliveries": 1, "failures": 1, "events": 601, "acks": 1, "attempts": 1}
    assert answer.json["countedAt"] and not [k for k in answer.json["kinds"] if k["overIsAtLeast"]]
    assert world.count("ImportBatch") == 2 and world.count("outbox_events") == 702
    assert world.count("DeliveryAttempts") == 2
    assert "countedAt" in server.admin().get("/admin/retention?count=false").json
    world.run()
    assert over(server.admin().get("/admin/retention?count=true")) == {}


def test_a_count_ends_where_it_would_take_long(world, server):
    row = {"Channel": "functional-ack", "RowKey": "7", "Attempt": 1, "AttemptedAt": OLD, "Outcome": "Sent", "DurationMs": 1}
    world.insert("DeliveryAttempts", row)
    for _ in range(17):
        execute(server, f"INSERT INTO DeliveryAttempts ({', '.join(row)}) SELECT {', '.join(row)} FROM DeliveryAttempts")
    try:
        answer = server.admin().get("/admin/retention?count=true")
        found = {k["kind"]: (k["over"], k["overIsAtLeast"]) for k in answer.json["kinds"]}
        # Its rows or its time: what was counted is there, and more.
        assert 0 < found["attempts"][0] < 2 ** 17 and found["attempts"][1] is True
        assert found["targets"] == (0, False)
        with concurrent.futures.ThreadPoolExecutor(8) as several:
            answers = list(several.map(lambda _: server.admin().get("/admin/retention?count=true"), range(8)))
        assert 200 in {a.status for a in answers} <= {200, 503}
        assert all(a.code == "Busy" and a.headers["Retry-After"] for a in answers if a.status == 503), "one is made at a time"
        assert server.admin().get("/admin/retention?count=true").status == 200
    finally:
        execute(server, "DELETE FROM DeliveryAttempts")


def test_who_may_ask_and_what(world, server):
    assert server.anonymous().get("/admin/retention").status == 401
    assert server.new_client().get("/admin/retention").status == 401
    for query in ("?count=perhaps", "?count=1"):
        answer = server.admin().get("/admin/retention" + query)
        assert answer.status == 400 and [e["field"] for e in answer.json["errors"]] == ["count"]
    assert server.admin().post("/admin/retention").status == 405


def test_the_next_run_is_told(make_server, tmp_path):
    clock = FakeClock(tmp_path)
    server = make_server(config={"retention": {"events": "0"}}, clock=clock)
    found = wait_for(lambda: server.admin().get("/admin/retention").json["nextRunAt"], "the run at the start")
    begun = server.admin().get("/admin/retention?count=true").json["countedAt"]
    ahead = datetime.datetime.fromisoformat(found.replace("Z", "+00:00")) - datetime.datetime.fromisoformat(begun.replace("Z", "+00:00"))
    assert datetime.timedelta(minutes=59) < ahead <= datetime.timedelta(hours=1)
    assert [k["days"] for k in server.admin().get("/admin/retention").json["kinds"] if k["kind"] == "events"] == [0]


# --- dismissal ---


@pytest.mark.parametrize("channel", ["functional-ack", "ticket-return", "ticket-gateway"])
def test_a_dismissed_row_is_given_up_no_more_and_goes_with_the_others(world, server, channel):
    row = world.add(channel, "Error", created=OLD, tried=OLD, error="no")
    path = f"/admin/outbox/{channel}/{row}"
    assert server.admin().get(path).json["givenUp"] is True
    answer = server.admin().post(path + "/dismiss")
    assert answer.status == 200 and answer.json == {"id": row, "status": "Error", "dismissed": True}
    assert server.admin().post(path + "/dismiss").status == 200, "once more changes nothing"
    shown = server.admin().get(path).json
    assert shown["givenUp"] is False and shown["dismissedAt"]
    found = {c["channel"]: c for c in server.admin().get("/admin/outbox").json["channels"]}[channel]
    assert found["givenUp"] == 0
    assert server.admin().get(f"/admin/outbox/{channel}?status=GivenUp").json["total"] == 0
    assert [e["target"] for e in server.admin().get("/admin/audit").json["items"] if e["action"] == "DeliveryDismissed"][0] == f"{channel}/{row}"
    # A retry takes it back.
    assert server.admin().post(f"/admin/outbox/{channel}/retry").json["matched"] == 0
    assert server.admin().post(path + "/retry").status == 200
    assert server.admin().get(path).json["dismissedAt"] is None


def test_only_what_was_given_up_is_dismissed(world, server):
    sent = world.add("functional-ack", "Sent", created=OLD, sent=OLD)
    waits = world.add("functional-ack", "Error", created=OLD, tried=OLD, due=YOUNG)
    for row, why in ((sent, "sent"), (waits, "tried again")):
        answer = server.admin().post(f"/admin/outbox/functional-ack/{row}/dismiss")
        assert answer.status == 409 and why in answer.json["detail"]
    assert server.admin().post("/admin/outbox/functional-ack/999999/dismiss").status == 404
    assert server.admin().post("/admin/outbox/nothing/1/dismiss").status == 404
    assert server.admin().post("/admin/outbox/dismiss", {}).status == 400
    assert server.anonymous().post(f"/admin/outbox/functional-ack/{sent}/dismiss").status == 401


def test_many_are_dismissed_by_a_filter(world, server):
    for i in range(3):
        world.add("functional-ack", "Error", f"d{i}", created=YOUNG, tried=YOUNG, error="HTTP 422" if i else "HTTP 500")
    world.event("FAILED", YOUNG)
    answer = server.admin().post("/admin/outbox/dismiss", {"error": "422", "dryRun": True})
    assert answer.status == 200 and answer.json == {"matched": 2, "dismissed": 0, "byChannel": {"functional-ack": 2}}
    assert server.admin().post("/admin/outbox/functional-ack/dismiss", {"error": "422"}).json["dismissed"] == 2
    result = server.cli("outbox", "dismiss", "--all", "--json")
    assert result.returncode == 0 and json.loads(result.stdout) == {"byChannel": {"functional-ack": 1, "events": 1}, "matched": 2, "dismissed": 2}
    assert world.count("outbox_events", "status = 'DISMISSED'") == 1


def test_a_dismissed_row_is_removed_after_its_time(world, server):
    row = world.add("functional-ack", "Error", created=OLD, tried=OLD, DismissedAt=OLD)
    young = world.add("functional-ack", "Error", created=OLD, tried=OLD, DismissedAt=YOUNG)
    assert world.run() == {"acks": 1}
    assert server.admin().get(f"/admin/outbox/functional-ack/{row}").status == 404
    assert server.admin().get(f"/admin/outbox/functional-ack/{young}").status == 200


def test_webhook_failures_and_tickets_are_dismissed_too(world, server):
    delivery = world.delivery("Error")
    failure = world.failure(delivery)
    answer = server.admin().post(f"/admin/webhook-failures/{failure}/dismiss")
    assert answer.status == 200 and answer.json == {"id": failure, "dismissed": True}
    assert server.admin().get("/admin/webhook-failures").json["items"][0]["dismissedAt"]
    assert server.admin().get(f"/admin/outbox/webhooks/{delivery}").json["dismissedAt"]
    replayed = world.failure(world.delivery("Error"), ReplayedAt=YOUNG)
    assert server.admin().post(f"/admin/webhook-failures/{replayed}/dismiss").status == 409
    assert server.admin().post("/admin/webhook-failures/999999/dismiss").status == 404
    ticket = world.ticket("t", RawPayloadJson="{}", Status="Error", CreatedAt=OLD, UpdatedAt=OLD, FirstFailedAt=OLD)
    assert server.admin().post(f"/admin/tickets/{ticket}/dismiss").json == {"id": int(ticket), "dismissed": True}
    assert server.admin().post(f"/admin/tickets/{ticket}/dismiss").status == 200
    fit = world.ticket("u", RawPayloadJson="{}", Status="Processed", CreatedAt=OLD, UpdatedAt=OLD)
    assert server.admin().post(f"/admin/tickets/{fit}/dismiss").status == 409
    for bad in ("999999", "x", "0", "-1"):
        assert server.admin().post(f"/admin/tickets/{bad}/dismiss").status == 404
    # Dismissed through the outbox, the failure is dismissed with the delivery; a retry takes both back.
    other = world.delivery("Error")
    world.failure(other)
    assert server.admin().post(f"/admin/outbox/webhooks/{other}/dismiss").status == 200
    assert world.count("WebhookDeliveryFailures", f"DeliveryId = '{other}' AND DismissedAt IS NOT NULL") == 1
    assert server.admin().post(f"/admin/outbox/webhooks/{other}/retry").status == 200
    assert world.count("WebhookDeliveryFailures", f"DeliveryId = '{other}' AND DismissedAt IS NULL") == 1


# --- the command, and SQLite's file ---


@pytest.mark.parametrize("args", [(), ("walk",), ("run", "now"), ("run", "--all"), ("vacuum", "--json"), ("vacuum", "--dry-run")])
def test_the_command_refuses_what_it_does_not_know(server, args):
    assert server.cli("retention", *args).returncode == 2


def test_an_older_file_gives_space_back_after_it_was_written_anew(make_sqlite_server):
    server = make_sqlite_server(config={"server": {"roles": "api"}, "retention": {"events": "30"}})
    assert server.backend.query("SELECT auto_vacuum FROM pragma_auto_vacuum")[0][0] == 2
    server.stop()
    server.backend.script("PRAGMA journal_mode=DELETE; PRAGMA auto_vacuum=NONE; VACUUM;")
    assert server.backend.query("SELECT auto_vacuum FROM pragma_auto_vacuum")[0][0] == 0
    assert "retention vacuum" in server.cli("doctor").stdout
    assert server.cli("retention", "vacuum").returncode == 0
    assert server.backend.query("SELECT auto_vacuum FROM pragma_auto_vacuum")[0][0] == 2
    assert "retention vacuum" not in server.cli("doctor").stdout
    server.start()
