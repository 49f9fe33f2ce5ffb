"""Webhooks from what happens to what arrives: the sandbox's receiver verifies every signature.

Subscriptions are written into the database here; test_webhooks_api.py has the calls that do so.
"""

import datetime
import json
import uuid

import pytest
from harness import Backend, Http, Server, wait_for
from test_imports_receive import execute, policy, taken, upload
from test_interface_tickets import flat
from test_sandbox import Sandbox

pytestmark = pytest.mark.threads

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BATCH_MEMBERS = ["event", "clientId", "batchId", "status", "metrics", "signature"]
TICKET_MEMBERS = ["event", "clientId", "businessDocId", "businessEntity", "phaseCode", "status", "error", "processedAt",
                  "signature"]
METRICS = ["totalRecords", "processedRecords", "errorCount", "startedAt", "completedAt"]
EVERYTHING = "BatchCompleted,BatchFailed,BatchScheduled,BatchStarted,TicketProcessed,TicketFailed"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    box = Sandbox(tmp_path_factory.mktemp("sandbox"), "--webhook-secret", SECRET)
    yield Http(box)
    box.finish()


def configuration(sandbox):
    url = "http://{}:{}".format(*sandbox.server.host_port)
    return {
        "omniflow": {"url": url, "api_key": "k"},
        "imports": {"poll_ms": 20},
        "delivery": {"allow_private_targets": "on"},
        "webhooks": {"retry_delays_ms": "20,20"},
        "breaker": {"window": 1000, "min_calls": 1000},
    }


@pytest.fixture(scope="module")
def server(backend_name, sandbox, tmp_path_factory):
    backend = Backend(backend_name, tmp_path_factory.mktemp(backend_name))
    server = Server(backend, tmp_path_factory.mktemp("server"), config=configuration(sandbox))
    server.start()
    server.secrets.add(SECRET)
    yield server
    server.finish()
    backend.drop()


@pytest.fixture
def client(server):
    return server.new_client("Ação 😀")


class Hook:
    """A subscription with a path of its own."""

    def __init__(self, server, sandbox, client, events=None):
        self.server, self.sandbox = server, sandbox
        self.id = str(uuid.uuid4())
        self.path = "/webhooks/" + self.id
        url = "http://{}:{}".format(*sandbox.server.host_port) + self.path
        events = f"'{events}'" if events else "NULL"
        execute(server, "INSERT INTO WebhookSubscriptions (Id, ClientId, Url, Secret, Events)"
                        f" SELECT '{self.id}', Id, '{url}', '{SECRET}', {events} FROM Clients"
                        f" WHERE ClientIdentifier = '{client.id}'")

    def fault(self, **fault):
        assert self.sandbox.post("/_faults", {"path": self.path, **fault}).status in (200, 201)

    def received(self):
        """Oldest first."""
        found = self.sandbox.get(f"/_received?path={self.path}&limit=100").json
        return found[::-1]

    def bodies(self):
        return [json.loads(r["body"]) if isinstance(r["body"], str) else r["body"] for r in self.received()]

    def await_events(self, *events):
        wait_for(lambda: sorted(b["event"] for b in self.bodies()) == sorted(events), events)
        assert all(r["verified"] for r in self.received())
        return {b["event"]: b for b in self.bodies()}

    def rows(self, columns):
        return self.server.backend.query(f"SELECT {columns} FROM WebhookDeliveries"
                                         f" WHERE SubscriptionId = '{self.id}' ORDER BY CreatedAt")

    def failures(self, columns):
        return self.server.backend.query(f"SELECT {columns} FROM WebhookDeliveryFailures"
                                         f" WHERE SubscriptionId = '{self.id}' ORDER BY Id")

    def subscription(self, columns):
        return self.server.backend.query(f"SELECT {columns} FROM WebhookSubscriptions WHERE Id = '{self.id}'")[0]


def batch_of(client, batch):
    return client.get("/imports/" + batch).json


def test_a_batch_is_told_of_once_at_each_step(server, sandbox, client):
    all_of_it, defaults = Hook(server, sandbox, client, EVERYTHING), Hook(server, sandbox, client)
    foreign = Hook(server, sandbox, server.new_client(), EVERYTHING)
    batch = taken(upload(client, name="ação 😀.json"))
    told = all_of_it.await_events("BatchStarted", "BatchCompleted")
    assert list(defaults.await_events("BatchCompleted")) == ["BatchCompleted"]
    wait_for(lambda: batch_of(client, batch)["webhookNotified"], "notified")
    done, shown = told["BatchCompleted"], batch_of(client, batch)
    assert list(done) == BATCH_MEMBERS and list(done["metrics"]) == METRICS
    assert (done["clientId"], done["batchId"], done["status"]) == (client.id, batch, shown["status"])
    assert done["metrics"] == {name: shown[name] for name in METRICS}
    assert told["BatchStarted"]["status"] == "Processing" and told["BatchStarted"]["metrics"]["completedAt"] is None
    assert foreign.received() == []
    wait_for(lambda: {r[0] for r in all_of_it.rows("Status")} == {"Sent"}, "both are settled")
    rows = all_of_it.rows("Id, EventId")
    assert len({str(r[1]) for r in rows}) == 2
    keys = [r["headers"].get("webhook-id") or r["headers"].get("Webhook-Id") for r in all_of_it.received()]
    assert sorted(keys) == sorted(str(r[0]).lower() for r in rows)


def test_a_batch_that_fails_and_one_that_waits_are_told_of(server, sandbox, client):
    hook = Hook(server, sandbox, client, EVERYTHING)
    batch = taken(upload(client, data=b'[{"PhoneNumber": "+5551999000000"},'))
    failed = hook.await_events("BatchStarted", "BatchFailed")["BatchFailed"]
    assert (failed["batchId"], failed["status"]) == (batch, "Failed")
    hour = datetime.datetime.now(datetime.timezone.utc).hour
    policy(server, client, allowedStartHour=(hour + 2) % 24, allowedEndHour=(hour + 3) % 24)
    answer = upload(client, name="later.json")
    told = hook.await_events("BatchStarted", "BatchFailed", "BatchScheduled")["BatchScheduled"]
    assert (told["batchId"], told["status"]) == (taken(answer, "Scheduled"), "Scheduled")
    assert told["scheduledFor"] == answer.json["scheduledFor"]


def test_tickets_are_told_of_whatever_they_are_called(server, sandbox, client):
    hook = Hook(server, sandbox, client, EVERYTHING)
    deaf = Hook(server, sandbox, client)
    name = f"São {uuid.uuid4()}" + ("" if server.backend.name == "sqlserver" else " 😀")
    assert client.post("/api/tickets", flat(name)).status == 200
    told = hook.await_events("TicketProcessed")["TicketProcessed"]
    assert list(told) == TICKET_MEMBERS
    assert (told["clientId"], told["businessDocId"]) == (client.id, name)
    assert (told["status"], told["error"]) == ("Processed", None)
    bad = flat(name, phaseCode=6, weights={"gross": 3, "tare": 1, "net": 5, "unit": "KG"})
    assert client.post("/api/tickets", bad).status == 200
    failed = hook.await_events("TicketProcessed", "TicketFailed")["TicketFailed"]
    assert failed["status"] == "Error" and "net" in failed["error"]
    assert deaf.received() == []


def test_what_never_arrives_is_a_dead_letter_until_somebody_retries_it(server, sandbox, client):
    hook = Hook(server, sandbox, client)
    hook.fault(status=500, count=3)
    batch = taken(upload(client))
    wait_for(lambda: hook.failures("Id"), "a dead letter")
    dead = hook.failures("Event, Attempts, LastStatus, ReplayedAt")
    assert [tuple(f) for f in dead] == [("BatchCompleted", 3, 500, None)]
    assert hook.subscription("FailureSince")[0] is not None
    assert not batch_of(client, batch)["webhookNotified"]
    assert len(hook.received()) == 3
    row = str(hook.rows("Id")[0][0]).lower()
    assert server.admin().get(f"/admin/outbox/webhooks/{row}").json["attempts"] == 3
    # Told and counted after the commit.
    wait_for(lambda: {line["event"] for line in server.log() if line.get("id") == row} >= {"WebhookRetry", "WebhookFailed"},
             "the log")
    told = {line["event"]: line for line in server.log() if line.get("id") == row}
    for line in told["WebhookRetry"], told["WebhookFailed"]:
        assert (line["clientId"], line["batchId"], line["subscriptionId"]) == (client.id, batch, hook.id)
    metrics = server.anonymous().get("/metrics").body.decode()
    counted = next(x for x in metrics.splitlines() if x.startswith("dataflow_webhook_failures_total "))
    assert float(counted.split()[1]) >= 3
    assert server.cli("outbox", "retry", "webhooks", row).returncode == 0
    wait_for(lambda: hook.rows("Status")[0][0] == "Sent", "sent")
    assert hook.failures("ReplayedAt")[0][0] is not None and hook.subscription("FailureSince")[0] is None
    assert batch_of(client, batch)["webhookNotified"]


def test_gone_is_gone(server, sandbox, client):
    hook = Hook(server, sandbox, client)
    hook.fault(status=410)
    taken(upload(client))
    wait_for(lambda: hook.failures("Id"), "a dead letter")
    active, at, reason = hook.subscription("IsActive, DisabledAt, DisabledReason")
    assert not active and at is not None and "410" in reason
    assert len(hook.received()) == 1
    wait_for(lambda: hook.id in [x["subscriptionId"] for x in server.log("WebhookDisabled")], "the log")
    batch = taken(upload(client))
    wait_for(lambda: batch_of(client, batch)["status"] == "Completed", "the batch")
    assert len(hook.rows("Id")) == 1


def test_a_redirect_is_a_failure(server, sandbox, client):
    hook = Hook(server, sandbox, client)
    hook.fault(status=302, count=1)
    taken(upload(client))
    wait_for(lambda: [tuple(r) for r in hook.rows("Status, AttemptCount")] == [("Sent", 2)], "the second attempt")


def test_a_kill_between_attempts_loses_nothing_and_repeats_nothing_early(make_backend, sandbox, tmp_path):
    backend = make_backend()
    delay = 15000 if backend.name == "sqlserver" else 4000  # Babelfish takes seconds to settle the first attempts
    server = Server(backend, tmp_path / "server", config=configuration(sandbox) | {"webhooks": {"retry_delays_ms": delay}})
    server.start()
    client = server.new_client()
    hooks = [Hook(server, sandbox, client) for _ in range(5)]
    for hook in hooks:
        hook.fault(status=503, count=1)
    taken(upload(client))
    wait_for(lambda: all(tuple(h.rows("Status")[:1] or [()])[0] == ("Error",) for h in hooks), "the first attempts")
    server.kill()
    due = {h: h.rows("NextAttemptAt") for h in hooks}
    server.start()
    wait_for(lambda: all([tuple(r) for r in h.rows("Status, AttemptCount")] == [("Sent", 2)] for h in hooks),
             "the second attempts")
    for hook in hooks:
        first, second = hook.received()
        assert first["headers"]["Idempotency-Key"] == second["headers"]["Idempotency-Key"]
        assert hook.rows("LastAttemptAt") >= due[hook]
    server.finish()
