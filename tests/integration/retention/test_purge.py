"""Purge: a batch, a client's documents, old batches; what is on its way; jobs that are broken off, and that are stopped."""

import json
import os
import uuid

import pytest
from harness import FakeClock, Server, wait_for
from test_imports_read import COMPLETED, FAILED, PENDING, PROCESSING, SCHEDULED, Rows, at
from test_imports_receive import schedule_all, storage, upload  # noqa: F401 (a fixture)
from test_interface_counterparties import flat as counterparty
from test_interface_tickets import flat as ticket
from test_openapi import DOCUMENT, check

pytestmark = pytest.mark.threads

SCHEMAS = DOCUMENT["components"]["schemas"]
PEER = "http://127.0.0.1:9"
CONFIG = {"gateway": {"functional_ack_url": f"{PEER}/ack", "ticket_return_url": f"{PEER}/return", "api_key": "k"},
          "integration.pay": {"base_url": PEER}, "server": {"roles": "api"}}
MANY = 100_000 if os.environ.get("DATAFLOW_SOAK") else 3000
TABLES = ("ImportBatch", "ImportItem", "ImportChunk", "WebhookDeliveries", "WebhookDeliveryFailures", "TB_TICKET_INTERFACE",
          "TB_TICKET_RETURN_OUTBOX", "TB_FUNCTIONAL_ACK_OUTBOX", "TB_COUNTERPARTIES", "outbox_events", "IntegrationCalls")


@pytest.fixture(scope="module")
def server(_module_backends, tmp_path_factory):
    """Takes documents and lets them lie."""
    made = Server(_module_backends(), tmp_path_factory.mktemp("server"), config=CONFIG)
    yield made.start()
    made.finish()


@pytest.fixture
def client(server):
    return server.new_client("Somebody", clientId=f"somebody-{uuid.uuid4().hex[:8]}",
                             scopes=["interface", "imports", "events", "integrations"])


@pytest.fixture
def rows(server):
    return Rows(server.backend)


def purge(server, status=200, **body):
    answer = server.admin().post("/admin/purge", body)
    assert answer.status == status, answer
    if status == 200:
        check(answer.json, SCHEMAS["PurgeResult"], "PurgeResult")
    return answer.json


def job(server, job_id):
    answer = server.admin().get(f"/admin/purge/{job_id}")
    assert answer.status == 200, answer
    check(answer.json, SCHEMAS["PurgeJob"], "PurgeJob")
    return answer.json


def ended(server, job_id):
    return wait_for(lambda: (found := job(server, job_id))["endedAt"] and found, f"the end of {job_id}", timeout=60 + MANY / 20)


def count(server, table, condition="1 = 1"):
    return server.backend.query(f"SELECT COUNT(*) FROM {table} WHERE {condition}")[0][0]


def batch_with(rows, client, status=COMPLETED, items=3, **more):
    batch = rows.batch(client, status, **more)
    rows.insert("ImportItem", [{"BatchId": batch, "Sequence": n, "PayloadJson": "{}", "Status": n % 2} for n in range(items)])
    rows.insert("ImportChunk", [{"BatchId": batch, "ChunkId": 1, "RecordOffset": 0, "RecordCount": items,
                                 "ContentHash": "0" * 64, "Status": 3}])
    return batch


def subscription(rows, client):
    made = str(uuid.uuid4())
    active = "true" if rows.backend.name == "postgres" else "1"
    rows.write("INSERT INTO WebhookSubscriptions (Id, ClientId, Url, Secret, IsActive) VALUES "
               f"('{made}', '{rows.client_key(client)}', 'https://example.com/hook', 'not-used-by-anybody', {active})")
    return made


def delivery(rows, subscribed, batch=None, status="Sent", due=None):
    made = str(uuid.uuid4())
    rows.insert("WebhookDeliveries", [{"Id": made, "SubscriptionId": subscribed, "EventId": str(uuid.uuid4()), "Event": "BatchCompleted",
                                       "Reference": "r", "PayloadJson": "{}", "Status": status, "BatchId": batch, "NextAttemptAt": due}])
    rows.insert("DeliveryAttempts", [{"Channel": "webhooks", "RowKey": made, "Attempt": 1, "AttemptedAt": at(1), "Outcome": "Sent",
                                      "DurationMs": 5}])
    rows.insert("WebhookDeliveryFailures", [{"SubscriptionId": subscribed, "EventId": str(uuid.uuid4()), "Event": "BatchCompleted",
                                             "PayloadJson": "{}", "DeliveryId": made}])
    return made


# --- what is asked for ---


@pytest.mark.parametrize("body", [
    {}, {"dryRun": True}, {"batchId": None}, {"batchId": "x"}, {"batchId": 7}, {"batchId": ""}, {"batchId": ["a"]},
    {"batchId": str(uuid.UUID(int=1)), "clientId": "a"}, {"clientId": "a", "olderThanDays": 3},
    {"olderThanDays": 3, "subject": "a@example.com"}, {"clientId": ""}, {"clientId": {}}, {"clientId": "a" * 65},
    {"olderThanDays": -1}, {"olderThanDays": 36501}, {"olderThanDays": 99999999999999999999}, {"olderThanDays": "many"},
    {"olderThanDays": 1.5}, {"olderThanDays": True}, {"olderThanDays": 3, "dryRun": "perhaps"},
    {"olderThanDays": 3, "dryrun": True, "DryRun": False}, {"olderThanDays": 3, "force": True}, {"subject": 7}, {"subject": []},
    {"subject": {}}, {"subject": {"phone": "+5511987654321", "email": "a@example.com"}}, {"subject": {"name": "Ana"}},
    {"subject": {"phone": 5}}, {"subject": {"phone": "12"}}, {"subject": {"document": "52998224726"}},
    {"subject": {"email": "nobody"}}, {"subject": {"phone": "+5511987654321", "x": 1}}, {"subject": "nobody at all"},
], ids=str)
def test_what_is_no_purge_is_400(server, body):
    before = server.admin().get("/admin/purge").json["total"]
    answer = server.admin().post("/admin/purge", body)
    assert answer.status == 400, answer
    assert answer.json["errors"], answer
    assert server.admin().get("/admin/purge").json["total"] == before


def test_a_number_that_may_be_a_phone_or_a_document_is_ambiguous(server):
    answer = server.admin().post("/admin/purge", {"subject": "11987654321"})
    assert (answer.status, answer.code) in ((400, "SubjectAmbiguous"), (400, "ValidationFailed"))
    answer = server.admin().post("/admin/purge", {"subject": "52998224725"})
    assert (answer.status, answer.code) == (400, "SubjectAmbiguous")


@pytest.mark.parametrize("body", [{"batchId": str(uuid.uuid4())}, {"clientId": "nobody"}])
@pytest.mark.parametrize("dry", [False, True])
def test_what_does_not_exist_is_404(server, body, dry):
    assert server.admin().post("/admin/purge", {**body, "dryRun": dry}).status == 404


def test_others_may_not(server, client):
    for caller in (server.anonymous(), client, server.admin(key="wrong-key-that-is-long-enough-to-be-one")):
        assert caller.post("/admin/purge", {"olderThanDays": 1}).status == 401
        assert caller.get("/admin/purge").status == 401
    for path in (f"/admin/purge/{uuid.uuid4()}", "/admin/purge/x"):
        assert server.admin().get(path).status == 404
        assert server.admin().request("DELETE", path).status == 404


# --- a batch ---


def test_a_batch_goes_with_everything(server, client, rows):
    kept = batch_with(rows, client)
    batch, subscribed = batch_with(rows, client, items=7), subscription(rows, client)
    delivery(rows, subscribed, batch)
    expected = {"ImportBatch": 1, "ImportItem": 7, "ImportChunk": 1, "WebhookDeliveries": 1, "DeliveryAttempts": 1,
                "WebhookDeliveryFailures": 1}
    dry = purge(server, batchId=batch, dryRun=True)
    assert dry == {"dryRun": True, "counts": expected, "skipped": {}}
    assert count(server, "ImportItem", f"BatchId = '{batch}'") == 7
    done = purge(server, batchId=batch.upper())
    assert (done["state"], done["counts"], done["skipped"]) == ("Done", expected, {})
    for table in ("ImportItem", "ImportChunk", "WebhookDeliveries"):
        assert count(server, table, f"BatchId = '{batch}'") == 0
    assert count(server, "ImportBatch", f"Id = '{kept}'") == 1 and count(server, "ImportItem", f"BatchId = '{kept}'") == 3
    found = job(server, done["jobId"])
    assert (found["kind"], found["target"], found["state"], found["counts"]) == ("batch", batch, "Done", expected)
    assert server.admin().post("/admin/purge", {"batchId": batch}).status == 404
    assert done["jobId"] in [j["jobId"] for j in server.admin().get("/admin/purge").json["items"]]
    audit = server.admin().get("/admin/audit?pageSize=50").json["items"]
    assert {"PurgeStarted", "PurgeEnded"} <= {a["action"] for a in audit if a["target"] == f"batch/{batch}"}


@pytest.mark.parametrize("status, name", [(PENDING, "Pending"), (PROCESSING, "Processing"), (SCHEDULED, "Scheduled")])
def test_a_batch_on_its_way_is_409(server, client, rows, status, name):
    batch = batch_with(rows, client, status)
    for dry in (True, False):
        answer = server.admin().post("/admin/purge", {"batchId": batch, "dryRun": dry})
        assert answer.status == 409 and name in answer.json["detail"], answer
    assert count(server, "ImportItem", f"BatchId = '{batch}'") == 3


def test_a_batch_whose_event_is_on_its_way_is_409(server, client, rows):
    batch = batch_with(rows, client)
    delivery(rows, subscription(rows, client), batch, "Pending", at(1))
    assert server.admin().post("/admin/purge", {"batchId": batch}).status == 409
    assert count(server, "ImportBatch", f"Id = '{batch}'") == 1


def test_the_file_goes_too(server, client):
    batch = upload(client, json.dumps([{"PhoneNumber": "+5551999000000"}]).encode()).json["batchId"]
    directory = server.directory / "data" / "imports" / batch
    assert directory.exists()
    Rows(server.backend).write(f"UPDATE ImportBatch SET Status = 5, CompletedAt = CreatedAt WHERE Id = '{batch}'")
    assert purge(server, batchId=batch)["counts"] == {"ImportBatch": 1, "files": 1}
    assert not directory.exists()


@pytest.mark.parametrize("imports", [{"scheduled_storage": "s3://bucket/waiting"},
                                     {"storage": "s3", "bucket": "s3://bucket/uploads"}], ids=("scheduled", "all"))
def test_a_file_in_the_bucket_goes_too(make_server, storage, imports):  # noqa: F811
    server = make_server(config={**CONFIG, "imports": imports, "s3": {
        "endpoint": storage.url, "access_key": "test:tester", "secret_key": "testing", "path_style": "on"}})
    client = server.new_client("Somebody")
    schedule_all(server, client)
    batch = upload(client, json.dumps([{"PhoneNumber": "+5551999000000"}]).encode()).json["batchId"]
    assert [k for k in storage.objects() if batch in k]
    Rows(server.backend).write(f"UPDATE ImportBatch SET Status = 6, CompletedAt = CreatedAt WHERE Id = '{batch}'")
    assert purge(server, batchId=batch)["counts"] == {"ImportBatch": 1, "files": 1}
    assert [k for k in storage.objects() if batch in k] == []


# --- old batches ---


def test_batches_that_ended_before_go(server, client, rows):
    old = [batch_with(rows, client, s, created=at(1)) for s in (COMPLETED, FAILED)]
    waiting = batch_with(rows, client, PENDING, created=at(1))
    new = batch_with(rows, client, created=at(1))
    for batch in old:
        rows.write(f"UPDATE ImportBatch SET CompletedAt = {rows.literal('2026-01-03T00:00:00.000Z')} WHERE Id = '{batch}'")
    rows.write(f"UPDATE ImportBatch SET CompletedAt = UpdatedAt WHERE Id = '{new}'")
    refused = batch_with(rows, client, FAILED, created=at(1))
    assert count(server, "ImportBatch", f"Id = '{refused}' AND CompletedAt IS NULL") == 1
    old.append(refused)
    before = count(server, "ImportBatch")
    would = purge(server, olderThanDays=10, dryRun=True)
    done = purge(server, olderThanDays=10)
    assert would["counts"] == done["counts"] and would["skipped"] == done["skipped"]
    assert done["counts"]["ImportBatch"] >= 2 and done["skipped"]["ImportBatch"] >= 1
    assert before - count(server, "ImportBatch") == done["counts"]["ImportBatch"]
    left = [b for b in (*old, waiting, new) if count(server, "ImportBatch", f"Id = '{b}'")]
    assert left == [waiting, new]


# --- a client ---


def documents(server, client, rows):
    """Of each kind one that is over and one that is on its way; returns what a purge removes."""
    over, due = client.post("/api/tickets", ticket()).json["id"], client.post("/api/tickets", ticket()).json["id"]
    assert client.post("/api/counterparties", counterparty(f"doc-{uuid.uuid4().hex}")).status in (200, 201)
    key, subscribed = rows.client_key(client), subscription(rows, client)
    rows.write("UPDATE TB_TICKET_INTERFACE SET Status = 'Processed', NextAttemptAt = NULL, GatewaySendStatus = 'Sent', "
               f"GatewaySendNextAttemptAt = NULL WHERE Id = {over}")
    found = server.backend.query(f"SELECT BusinessEntity, BusinessDocId, PhaseCode FROM TB_TICKET_INTERFACE WHERE Id = {over}")[0]
    rows.write(f"DELETE FROM TB_TICKET_RETURN_OUTBOX WHERE BusinessDocId = '{found[1]}'")
    rows.insert("TB_TICKET_RETURN_OUTBOX", [{"BusinessEntity": found[0], "BusinessDocId": found[1], "PhaseCode": found[2],
                                             "PayloadJson": "{}", "TargetUrl": "", "Status": "Sent", "NextAttemptAt": None}])
    rows.write(f"DELETE FROM TB_FUNCTIONAL_ACK_OUTBOX WHERE ClientId = '{key}'")
    for status, next_at in (("Sent", None), ("Error", None), ("Error", at(9))):
        rows.insert("TB_FUNCTIONAL_ACK_OUTBOX", [{"BusinessDocId": found[1], "PayloadJson": "{}", "TargetUrl": "", "Status": status,
                                                  "NextAttemptAt": next_at, "ClientId": key}])
    for status in ("PROCESSED", "FAILED", "PENDING"):
        rows.insert("outbox_events", [{"id": str(uuid.uuid4()), "event_type": "x", "payload": "{}", "status": status, "client_id": key}])
    for status, next_at in (("Sent", None), ("Pending", at(9))):
        rows.insert("IntegrationCalls", [{"Id": str(uuid.uuid4()), "ClientId": key, "IntegrationName": "pay", "Method": "POST",
                                          "Path": "/", "HeadersJson": "{}", "Status": status, "NextAttemptAt": next_at}])
    delivery(rows, subscribed)
    delivery(rows, subscribed, None, "Pending", at(9))
    batch_with(rows, client)
    batch_with(rows, client, PROCESSING)
    rows.insert("DeliveryAttempts", [{"Channel": "ticket-gateway", "RowKey": str(over), "Attempt": 1, "AttemptedAt": at(1),
                                      "Outcome": "Sent", "DurationMs": 5}])
    assert due != over
    return ({"ImportBatch": 1, "ImportItem": 3, "ImportChunk": 1, "WebhookDeliveries": 1, "DeliveryAttempts": 2,
             "TB_TICKET_INTERFACE": 1, "TB_TICKET_RETURN_OUTBOX": 1, "TB_FUNCTIONAL_ACK_OUTBOX": 2, "TB_COUNTERPARTIES": 1,
             "outbox_events": 2, "IntegrationCalls": 1, "WebhookDeliveryFailures": 1},
            {"ImportBatch": 1, "WebhookDeliveries": 1, "TB_TICKET_INTERFACE": 1, "TB_FUNCTIONAL_ACK_OUTBOX": 1, "outbox_events": 1,
             "IntegrationCalls": 1})


def test_a_clients_documents_go_and_others_stay(server, client, rows):
    other = server.new_client("Another", clientId=f"another-{uuid.uuid4().hex[:8]}")
    documents(server, other, rows)
    before = {t: count(server, t) for t in TABLES}
    expected, skipped = documents(server, client, rows)
    dry = purge(server, clientId=client.id, dryRun=True)
    done = purge(server, clientId=client.id)
    assert (done["counts"], done["skipped"]) == (expected, skipped)
    assert (dry["counts"], dry["skipped"]) == (expected, skipped)
    mine = {t: count(server, t) - before[t] for t in TABLES}
    assert mine == {**{t: 0 for t in TABLES}, **skipped, "ImportItem": 3, "ImportChunk": 1, "WebhookDeliveryFailures": 1}
    assert client.get("/imports").status == 200
    assert purge(server, clientId=client.id)["counts"] == {}


# --- much ---


def many(rows, client, batches, items=2):
    """Batches that are over, written directly."""
    key = rows.client_key(client)
    ids = [str(uuid.uuid4()) for _ in range(batches)]
    rows.insert("ImportBatch", [{"Id": b, "ClientId": key, "Status": COMPLETED, "FileName": "f.json", "FileType": 0,
                                 "CreatedAt": at(1), "CompletedAt": at(2)} for b in ids])
    rows.insert("ImportItem", [{"BatchId": b, "Sequence": n, "PayloadJson": "{}", "Status": 0} for b in ids for n in range(items)])
    return ids


def started(server, status=202, **body):
    answer = server.admin().post("/admin/purge", body)
    assert answer.status == status, answer
    assert answer.headers["Location"] == f"/admin/purge/{answer.json['jobId']}"
    return answer.json["jobId"]


MAINTAIN = {**CONFIG, "server": {"roles": "api,maintain"}, "retention": {"batches": 0}}


def test_much_is_a_job_that_goes_on_after_every_kill(make_server, tmp_path):
    """Each life of the process is short; the counts are those of a purge that was never broken off."""
    clock = FakeClock(tmp_path)
    server = make_server(config=MAINTAIN, clock=clock)
    rows, client = Rows(server.backend), server.new_client("Many")
    other = server.new_client("Few")
    kept = many(rows, other, 3)
    many(rows, client, MANY)
    job_id = started(server, clientId=client.id)
    for life in range(6):
        left = count(server, "ImportBatch")
        wait_for(lambda: count(server, "ImportBatch") < left or job(server, job_id)["endedAt"], "a step")  # noqa: B023
        server.kill()
        clock.advance(minutes=1)
        server.start()
    found = ended(server, job_id)
    assert (found["state"], found["counts"], found["skipped"]) == ("Done", {"ImportBatch": MANY, "ImportItem": 2 * MANY}, {})
    assert count(server, "ImportBatch") == len(kept) and count(server, "ImportItem") == 2 * len(kept)


def test_two_processes_share_a_job_without_counting_twice(make_server, make_backend):
    backend = make_backend()
    servers = [make_server(backend=backend, config=MAINTAIN) for _ in range(2)]
    rows, client = Rows(backend), servers[0].new_client("Many")
    many(rows, client, 2600)
    job_id = started(servers[0], clientId=client.id)
    assert ended(servers[1], job_id)["counts"] == {"ImportBatch": 2600, "ImportItem": 5200}


def test_times_of_a_clock_that_was_ahead_hold_nothing_up(make_server):
    server = make_server(config={**MAINTAIN, "retention": {"batches": "30"}})
    rows, ident = Rows(server.backend), str(uuid.uuid4())
    due = "SELECT COUNT(*) FROM MaintenanceRuns WHERE Name = 'retention' AND DueAt < '2098-01-01T00:00:00.000Z'"
    wait_for(lambda: server.backend.query(due)[0][0] == 1, "the first run")
    server.stop()
    rows.write("UPDATE MaintenanceRuns SET DueAt = '2099-01-01T00:00:00.000Z' WHERE Name = 'retention'")
    rows.insert("PurgeJobs", [{"Id": ident, "Kind": "older", "Target": "36500", "Cutoff": "1930-01-01T00:00:00.000Z", "CountsJson": "{}",
                              "SkippedJson": "{}", "CreatedBy": "admin", "CreatedAt": "2026-01-01T00:00:00.000Z",
                              "UpdatedAt": "2026-01-01T00:00:00.000Z", "Fence": 1, "LeaseUntil": "2099-01-01T00:00:00.000Z"}])
    server.start()
    assert ended(server, ident)["state"] == "Done"
    wait_for(lambda: server.backend.query(due)[0][0] == 1, "the next run")


def test_a_job_is_stopped_between_steps(make_server):
    server = make_server(config=CONFIG)
    rows, client = Rows(server.backend), server.new_client("Many")
    many(rows, client, 2600)
    job_id = started(server, clientId=client.id)
    answer = server.admin().request("DELETE", f"/admin/purge/{job_id}")
    assert (answer.status, answer.json["state"]) == (202, "Cancelling")
    maintainer = make_server(backend=server.backend, config={**MAINTAIN, "server": {"roles": "maintain"}})
    found = ended(server, job_id)
    assert found["state"] == "Cancelled"
    assert found["counts"].get("ImportBatch", 0) == 2600 - count(server, "ImportBatch")
    assert server.admin().request("DELETE", f"/admin/purge/{job_id}").status == 409
    assert maintainer.process.poll() is None


# --- the command ---


def test_the_command_beside_a_server(server, client, rows):
    batch, other = batch_with(rows, client), batch_with(rows, client, PROCESSING)
    dry = server.cli("purge", "--batch", batch, "--dry-run")
    assert dry.returncode == 0 and "would be removed" in dry.stdout, dry.stderr
    done = server.cli("purge", "--batch", batch, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"] == {"ImportBatch": 1, "ImportItem": 3, "ImportChunk": 1}
    assert job(server, json.loads(done.stdout)["jobId"])["createdBy"].startswith("cli:")
    refused = server.cli("purge", "--batch", other)
    assert refused.returncode == 1 and "Processing" in refused.stderr
    again = server.cli("purge", "--client", client.id)
    assert again.returncode == 0 and "skipped, on their way:" in again.stdout


def test_the_command_waits_for_much(server, client, rows):
    many(rows, client, 2600)
    done = server.cli("purge", "--client", client.id, "--json", timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"] == {"ImportBatch": 2600, "ImportItem": 5200}


@pytest.mark.parametrize("args, status, text", [
    ((), 2, "usage"), (("--batch", "x"), 1, "UUID"), (("--batch", str(uuid.uuid4())), 1, "no batch"),
    (("--client", "nobody"), 1, "no such client"), (("--older-than", "-1"), 1, "days"), (("--older-than", "1e9"), 1, "days"),
    (("--batch", "x", "--client", "y"), 2, "usage"), (("--subject", "52998224725"), 1, "--document"), (("--phone", "12"), 1, ""),
    (("--email", "nobody"), 1, ""), (("--older-than", "1", "more"), 2, "usage")])
def test_the_command_refuses(server, args, status, text):
    refused = server.cli("purge", *args)
    assert (refused.returncode, refused.stdout) == (status, "") and text in refused.stderr, refused.stderr
    assert "52998224725" not in refused.stderr


# --- what is told ---


def test_metrics(server, client, rows):
    batch = batch_with(rows, client)
    purge(server, batchId=batch)
    text = server.admin().get("/metrics").body.decode()
    assert 'dataflow_purged_total{kind="ImportItem"}' in text and "dataflow_purge_jobs" in text
