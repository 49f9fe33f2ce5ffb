"""Time lines: a document's whole life in one answer."""

import uuid

import pytest
from harness import Http, Server, check_problem, wait_for
from test_imports_receive import upload
from test_interface_tickets import flat
from test_openapi import DOCUMENT, check
from test_sandbox import Sandbox

SCHEMA = DOCUMENT["components"]["schemas"]["Timeline"]
UUID = "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    box = Sandbox(tmp_path_factory.mktemp("sandbox"), "--no-record")
    yield Http(box)
    box.finish()


@pytest.fixture(scope="module")
def server(_module_backends, tmp_path_factory, sandbox):
    url = at(sandbox)
    made = Server(_module_backends(), tmp_path_factory.mktemp("server"), config={
        "omniflow": {"url": url, "api_key": "k"}, "imports": {"poll_ms": 20},
        "gateway": {"functional_ack_url": url + "/gateway/functional-ack", "ticket_return_url": url + "/gateway/ticket-return",
                    "ticket_send_url": url + "/gateway/ticket", "api_key": "k"},
        "delivery": {"retry_base_ms": 20, "retry_cap_ms": 50, "allow_private_targets": "on"}})
    yield made.start()
    made.finish()


def at(sandbox):
    return "http://{}:{}".format(*sandbox.server.host_port)


def timeline(server, kind, key):
    answer = server.admin().get(f"/admin/timeline/{kind}/{key}")
    assert answer.status == 200, answer
    check(answer.json, SCHEMA, "Timeline")
    times = [e["time"] for e in answer.json["entries"]]
    assert times == sorted(times)
    return answer.json


def events(line, subject=None):
    return [e["event"] for e in line["entries"] if subject in (None, e["subject"])]


def attempts(line, channel):
    return [(e["attempt"], e["outcome"], e["httpStatus"]) for e in line["entries"]
            if e["event"] == "Attempt" and e["subject"] == channel]


def settled(server, key):
    line = timeline(server, "ticket", key)
    sent = {e["subject"] for e in line["entries"] if e["event"] == "Attempt" and e["outcome"] == "Sent"}
    return not line["waits"] and {"ticket-gateway", "ticket-return", "functional-ack"} <= sent and line


def test_a_ticket_with_a_retry_a_callback_and_a_reprocess(server, sandbox):
    client = server.new_client()
    hook = client.post(f"/clients/{client.id}/webhooks", {"url": at(sandbox) + "/webhooks/line", "secret": SECRET,
                                                             "events": ["TicketProcessed"]})
    assert hook.status == 201, hook
    payload = flat()
    assert sandbox.post("/_faults", {"path": "/gateway/ticket-return", "status": 503}).status == 201
    made = client.post("/api/tickets", payload)
    wait_for(lambda: attempts(timeline(server, "ticket", made.json["id"]), "ticket-return"), "a try fails")
    assert sandbox.request("DELETE", "/_faults").status == 200
    key, doc = made.json["id"], payload["businessDocId"]
    line = wait_for(lambda: settled(server, key), "everything arrives")
    assert (line["kind"], line["id"], line["clientId"], line["correlationId"], line["status"]) == (
        "ticket", str(key), client.id, doc, "Processed")
    assert line["title"] == f"TCK {doc}, phase 15" and not line["truncated"]
    assert events(line)[0] == "Received" and line["entries"][0]["by"] == client.id
    assert events(line, "ticket") == ["Received", "Processed"]
    assert attempts(line, "ticket-gateway") == [(1, "Sent", 200)]
    first, *rest = attempts(line, "ticket-return")
    assert first[1] == "Retry" and rest[-1][:2] == (len(rest) + 1, "Sent")
    assert "Queued" in events(line, "webhooks")
    callback = client.post("/api/tickets/callback", {"businessEntity": "TCK", "businessDocId": doc, "phaseCode": 15,
                                                     "status": "SUCCESS", "message": "ok", "code": "0"})
    assert callback.status == 200, callback
    line = timeline(server, "ticket", key)
    assert [e["outcome"] for e in line["entries"] if e["event"] == "CallbackReceived"] == ["Success"]
    assert client.post(f"/api/tickets/{key}/reprocess").status == 200
    line = wait_for(lambda: len([a for a in attempts(settled(server, key) or {"entries": []}, "ticket-gateway")]) == 2
                    and settled(server, key), "it is processed again")
    again = next(e for e in line["entries"] if e["event"] == "TicketReprocessed")
    assert again["by"] == f"client:{client.id}" and again["outcome"] == "ok"
    assert events(line, "ticket") == ["Received", "Processed", "TicketReprocessed", "Processed"]
    # The rows that belong to it have lines of their own.
    rows = {e["subject"]: e["id"] for e in line["entries"] if e["event"] == "Queued"}
    for kind, channel in (("return", "ticket-return"), ("ack", "functional-ack"), ("webhook", "webhooks"),
                          ("webhookDelivery", "webhooks")):
        own = timeline(server, kind, rows[channel])
        assert own["clientId"] == client.id and events(own)[0] == "Received" and own["id"] == rows[channel]
    assert len(attempts(timeline(server, "return", rows["ticket-return"]), "ticket-return")) >= 3


def test_a_batch_with_failed_items(server):
    client = server.new_client()
    body = "telefone;nome\n" + "".join(f"5199999{i:04d};Ana\n" for i in range(20)) + "none;Eva\n"
    answer = upload(client, body.encode(), "leads.csv")
    assert answer.status == 202, answer
    key = answer.json["batchId"]
    line = wait_for(lambda: "Ended" in events(found := timeline(server, "batch", key)) and found, "the batch ends")
    by = {e["event"]: e for e in line["entries"]}
    assert line["status"] == "CompletedWithErrors" and line["title"] == "leads.csv" and line["clientId"] == client.id
    assert line["traceId"] and line["correlationId"] and line["waits"] == []
    assert (by["RecordsFailed"]["count"], by["Ended"]["outcome"], by["Ended"]["count"]) == (1, "CompletedWithErrors", 21)
    assert by["LastChunkSent"]["count"] == 1 and by["Started"]["attempt"] == 1 and by["Started"]["by"]
    assert events(line)[:2] == ["Received", "Started"]


def test_a_batch_that_is_retried(server, sandbox):
    client = server.new_client()
    assert sandbox.post("/_faults", {"path": "/", "status": 422}).status == 201
    key = upload(client, b"telefone;nome\n51999990000;Ana\n", "leads.csv").json["batchId"]
    line = wait_for(lambda: "Ended" in events(found := timeline(server, "batch", key)) and found, "the batch ends")
    assert sandbox.request("DELETE", "/_faults").status == 200
    by = {e["event"]: e for e in line["entries"]}
    assert by["ChunksFailed"]["count"] == by["RecordsFailed"]["count"] == 1
    assert client.post(f"/imports/{key}/retry").status in (200, 202)
    line = wait_for(lambda: (found := timeline(server, "import", key))["status"] == "Completed" and found, "it ends again")
    assert [e["by"] for e in line["entries"] if e["event"] == "ImportRetried"] == [f"client:{client.id}"]
    assert [e["attempt"] for e in line["entries"] if e["event"] == "Started"] == [2]


def test_counterparties_and_events(server):
    client = server.new_client()
    doc = uuid.uuid4().hex[:20]
    made = client.post("/api/counterparties", {"businessDocId": doc, "name": "ACME", "functionalAckIsRequired": True})
    assert made.status in (200, 201), made
    line = timeline(server, "counterparty", made.json["id"])
    assert (line["title"], line["clientId"], events(line, "counterparty")) == (doc, client.id, ["Received"])
    event = client.post("/events", {"eventType": "Tested", "payload": {"a": 1}})
    assert event.status in (200, 201, 202), event
    line = wait_for(lambda: "Delivered" in events(found := timeline(server, "event", event.json["eventId"])) and found, "the event goes")
    assert line["clientId"] == client.id and events(line) == ["Received", "Delivered"] and line["waits"] == []


def test_what_waits_and_why(server, sandbox):
    client = server.new_client()
    assert server.admin().post("/admin/outbox/ticket-return/pause", {}).status == 200
    try:
        def waits():
            """The engine follows within about a second: until then returns go out."""
            key = client.post("/api/tickets", flat()).json["id"]
            wait_for(lambda: attempts(timeline(server, "ticket", key), "ticket-gateway"), "the ticket is sent")
            return [w for w in timeline(server, "ticket", key)["waits"] if w["subject"] == "ticket-return"]

        wait = wait_for(waits, "a return that waits")[0]
        assert wait["reason"] in ("target", "due") and wait["nextAttemptAt"]
    finally:
        assert server.admin().post("/admin/outbox/ticket-return/resume", {}).status == 200


@pytest.mark.parametrize("path,status", [
    ("ticket/999999999", 404), ("ticket/0", 404), ("ticket/007", 404), ("ticket/-1", 404), ("ticket/x", 404),
    ("ticket/99999999999999999999", 404), (f"ticket/{UUID}", 404), ("counterparty/999999999", 404), ("ack/999999999", 404),
    ("return/999999999", 404), (f"batch/{UUID}", 404), ("batch/1", 404), (f"batch/{UUID.upper()}", 404),
    (f"event/{UUID}", 404), (f"webhook/{UUID}", 404), (f"integration/{UUID}", 404),
    ("nothing/1", 400), ("Ticket/1", 400), ("ticket%00/1", 400), ("x" * 200 + "/1", 400), ("ticket/" + "9" * 200, 404)])
def test_bad_kinds_and_ids(server, path, status):
    answer = server.admin().get(f"/admin/timeline/{path}")
    assert answer.status == status, answer
    check_problem(answer)


def test_it_is_for_operators(server):
    client = server.new_client()
    assert client.get("/admin/timeline/ticket/1").status == 401
    assert server.anonymous().get("/admin/timeline/ticket/1").status == 401
