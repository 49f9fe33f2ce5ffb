"""What operators see of imports and do with them: /admin/imports, of all clients, with the clients' handlers underneath."""

import json
import threading
import time

import pytest
from harness import wait_for
from test_imports_process import (  # noqa: F401 (fixtures)
    configuration,
    figures,
    imported,
    leads,
    lock_row,
    make_peer,
    module_peer,
    peer,
    same_content,
    send,
    server,
    state,
    wait_end,
)
from test_imports_receive import policy, taken, upload
from test_openapi import DOCUMENT, check

UNKNOWN = "01a1dec4-a85c-7000-93d5-a69cf672170b"


def said(answer, path, method="get"):
    """The body, which is as the document describes it."""
    schema = DOCUMENT["paths"][path][method]["responses"][str(answer.status)]["content"]["application/json"]["schema"]
    check(answer.json, schema, path)
    return answer.json


def audit(server, action, target):  # noqa: F811
    return [e for e in server.admin().get("/admin/audit?pageSize=200").json["items"]
            if e["action"] == action and e["target"] == target]


@pytest.fixture
def two(server, peer):  # noqa: F811
    """Two clients, each with a batch that has an item in error."""
    peer.answer = lambda request: (200, {"items": [{"sequence": 0, "status": "Error", "errorMessage": "no such street"}]})
    found = []
    for name in ("leads-NORTE_1.json", "leads-sul%.json"):
        client = server.new_client()
        batch = taken(upload(client, json.dumps(leads(3)).encode(), name))
        assert figures(wait_end(client, batch)) == ("CompletedWithErrors", 3, 3, 1, 0)
        found.append((client, batch))
    return found


def ids(server, query):  # noqa: F811
    return {b["batchId"] for b in said(server.admin().get(f"/admin/imports?pageSize=200&{query}"), "/admin/imports")["items"]}


def test_the_list_has_batches_of_all_clients_and_filters(server, two):  # noqa: F811
    (first, one), (second, other) = two
    both = {one, other}
    assert both <= ids(server, "")
    assert ids(server, f"clientId={first.id}") == {one}
    assert ids(server, "clientId=nobody") == set()
    assert both <= ids(server, "status=completedwitherrors")
    assert not both & ids(server, "status=Pending")
    assert both & ids(server, "fileName=norte_1") == {one}, "in upper or lower case"
    assert both & ids(server, "fileName=sul%25") == {other}, "a sign of patterns stands for itself"
    assert both & ids(server, "fileName=n_rte") == set()
    made = state(first, one)["createdAt"]
    assert both <= ids(server, f"from={made}")
    assert one not in ids(server, f"to={made}") and both <= ids(server, "to=2099-01-01T00:00:00Z")
    assert ids(server, "from=2099-01-01T00:00:00Z") == set()
    page = said(server.admin().get("/admin/imports?pageSize=1&page=2"), "/admin/imports")
    assert len(page["items"]) == 1 and page["total"] >= 2


@pytest.mark.parametrize("query,field", [
    ("status=Nothing", "status"), ("from=yesterday", "from"), ("to=2026-13-01T00:00:00Z", "to"),
    ("fileName=" + "x" * 261, "fileName"), ("clientId=a%20b", "clientId"), ("clientId=" + "x" * 65, "clientId"),
    ("page=0", "page"), ("pageSize=201", "pageSize"), ("page=x", "page"),
])
def test_bad_filters_are_named(server, query, field):  # noqa: F811
    answer = server.admin().get(f"/admin/imports?{query}")
    assert answer.status == 400 and answer.bad_fields == {field}


def test_one_batch_names_its_client_and_everything_that_the_client_sees(server, two):  # noqa: F811
    for client, batch in two:
        found = said(server.admin().get(f"/admin/imports/{batch}"), "/admin/imports/{batchId}")
        assert found["clientId"] == client.id
        assert {k: v for k, v in found.items() if k not in ("clientId", "lockedBy", "lockedAt")} == state(client, batch)
        assert (found["lockedBy"], found["lockedAt"], found["waitingFor"]) == (None, None, None)
        own = client.get(f"/imports/{batch}/items?status=Error").json
        seen = server.admin().get(f"/admin/imports/{batch}/items?status=Error").json
        number = leads(3)[0]["PhoneNumber"]
        assert number in json.dumps(own["items"][0].pop("values"))
        assert number in json.dumps(own["items"][0].pop("payload")) and number not in json.dumps(seen)
        assert seen["items"][0].pop("values")["Name"] != leads(3)[0]["Name"]
        assert seen["items"][0].pop("payload")["sequence"] == 0, "masked: the report, which is audited, has it in the clear"
        assert seen == own and own["total"] == 1
        for form in ("csv", "json", "xlsx"):
            report = server.admin().get(f"/admin/imports/{batch}/errors.{form}")
            assert report.status == 200
            if form != "xlsx":  # it has the time in it
                assert report.body == client.get(f"/imports/{batch}/errors.{form}").body
        told = [e["actor"] for e in audit(server, "ImportReportDownloaded", batch)]
        assert sorted(told) == ["admin"] * 3 + [f"client:{client.id}"], "each of the operator's, and one of the client's"
        stream = server.admin().get(f"/admin/imports/{batch}/events").body.decode()
        assert stream.startswith("event: progress\n") and "event: completed\n" in stream


@pytest.mark.parametrize("method,path", [
    ("GET", ""), ("GET", "/items"), ("GET", "/errors.csv"), ("GET", "/errors.xlsx"), ("GET", "/errors.json"),
    ("GET", "/events"), ("DELETE", ""), ("POST", "/retry"), ("POST", "/release"),
])
def test_no_such_batch_and_no_key(server, two, method, path):  # noqa: F811
    for batch in (UNKNOWN, "x", "1"):
        answer = server.admin().request(method, f"/admin/imports/{batch}{path}")
        assert (answer.status, answer.code) == (404, "NotFound")
    client, batch = two[0]
    for caller in (server.anonymous(), client):
        assert caller.request(method, f"/admin/imports/{batch}{path}").status == 401


def test_an_operator_has_failed_items_tried_again(server, peer, two):  # noqa: F811
    client, batch = two[0]
    peer.answer = lambda request: 200
    answer = server.admin().post(f"/admin/imports/{batch}/retry")
    assert answer.status == 202
    assert said(answer, "/admin/imports/{batchId}/retry", "post")["items"] == 1
    assert figures(wait_end(client, batch)) == ("Completed", 3, 3, 0, 0)
    assert server.admin().post(f"/admin/imports/{batch}/retry").status == 409
    [entry] = audit(server, "ImportRetried", batch)
    assert entry["actor"] == "admin"


def test_an_operator_cancels_what_has_not_begun(server):  # noqa: F811
    client = server.new_client()
    policy(server, client, allowedStartHour=(time.gmtime().tm_hour + 3) % 24, allowedEndHour=(time.gmtime().tm_hour + 4) % 24)
    batch = upload(client).json["batchId"]
    found = server.admin().get(f"/admin/imports/{batch}").json
    assert (found["status"], found["waitingFor"]) == ("Scheduled", "Schedule") and found["waitingSince"]
    assert server.admin().request("DELETE", f"/admin/imports/{batch}").status == 204
    assert state(client, batch)["status"] == "Cancelled"
    assert server.admin().request("DELETE", f"/admin/imports/{batch}").status == 409
    assert [e["actor"] for e in audit(server, "ImportCancelled", batch)] == ["admin"]


def test_the_audit_log_tells_a_client_from_the_admin(server):  # noqa: F811
    client = server.new_client()
    policy(server, client, allowedStartHour=(time.gmtime().tm_hour + 3) % 24, allowedEndHour=(time.gmtime().tm_hour + 4) % 24)
    batch = upload(client).json["batchId"]
    assert client.request("DELETE", f"/imports/{batch}").status == 204
    assert [e["actor"] for e in audit(server, "ImportCancelled", batch)] == [f"client:{client.id}"]


def test_release_takes_the_batch_from_its_owner(make_server, make_peer):  # noqa: F811
    """The owner is in the middle of a call. What it gets is not written, and the next owner sends the chunk again."""
    peer = make_peer()  # noqa: F811
    server = make_server(config=configuration(peer, imports={"mode": "concurrent", "workers": 2}))  # noqa: F811
    client = server.new_client()
    hang, entered = threading.Event(), threading.Event()

    def answer(request):
        if request.chunk == 2 and request.nth == 1:
            entered.set()
            hang.wait(20)
        return 200

    peer.answer = answer
    batch = send(client, leads(15))
    assert entered.wait(20)
    found = said(server.admin().get(f"/admin/imports/{batch}"), "/admin/imports/{batchId}")
    assert found["status"] == "Processing" and found["lockedBy"] and found["lockedAt"]
    answer = server.admin().post(f"/admin/imports/{batch}/release")
    assert answer.status == 200
    assert said(answer, "/admin/imports/{batchId}/release", "post")["releasedFrom"] == found["lockedBy"]
    assert figures(wait_end(client, batch)) == ("Completed", 15, 15, 0, 0), "another owner has ended it"
    hang.set()
    wait_for(lambda: server.log("BatchLockLost"), "the first owner to notice")
    assert figures(state(client, batch)) == ("Completed", 15, 15, 0, 0)
    same_content(peer.came(batch))
    [entry] = audit(server, "ImportReleased", batch)
    assert (entry["actor"], entry["details"]) == ("admin", {"lockedBy": found["lockedBy"]})
    refused = server.admin().post(f"/admin/imports/{batch}/release")
    assert (refused.status, refused.code) == (409, "Conflict")


def test_release_frees_the_lock_of_the_installation(make_server, make_peer):  # noqa: F811
    peer = make_peer()  # noqa: F811
    server = make_server(config=configuration(peer))  # noqa: F811
    client = server.new_client()
    hang = threading.Event()
    peer.answer = lambda request: hang.wait(20) and 200 if request.nth == 1 else 200
    batch = send(client, leads(5))
    wait_for(lambda: peer.came(batch), "the call")
    assert lock_row(server)[0]
    assert server.admin().post(f"/admin/imports/{batch}/release").status == 200
    assert not lock_row(server)[0]
    found = server.admin().get(f"/admin/imports/{batch}").json
    assert (found["lockedBy"], found["lockedAt"], found["waitingFor"]) == (None, None, "Worker")
    hang.set()
    assert figures(wait_end(client, batch)) == ("Completed", 5, 5, 0, 0)
    assert not lock_row(server)[0]


def test_a_batch_that_waits_for_acks_says_so(server, peer):  # noqa: F811
    client = server.new_client(scopes=["imports", "acks"])
    peer.answer = lambda request: (202, {"ackId": f"ack-{request.batch}"})
    batch = send(client, leads(5))
    wait_for(lambda: server.admin().get(f"/admin/imports/{batch}").json["waitingFor"] == "Acks", "the wait")
    assert server.admin().get(f"/admin/imports/{batch}").json["waitingSince"]
    assert client.post(f"/imports/{batch}/acks", {"ackId": f"ack-{batch}", "chunkId": 1, "status": "Imported"}).status == 200
    assert wait_end(client, batch)["status"] == "Completed"


# --- refusals ----------------------------------------------------------------------------------------


def refused(server, client, count):  # noqa: F811
    def found():
        batches = ids_of(client)
        return batches if sum(b["refusalCount"] for b in batches) == count else None

    return wait_for(found, f"{count} refusals")


def ids_of(client):
    return [b for b in client.get("/imports?status=Failed").json["items"] if b["policyDecision"] == "Rejected"]


def test_a_refusal_leaves_a_row(server, peer):  # noqa: F811
    client = server.new_client()
    policy(server, client, maxFileSizeMb=1)
    answer = upload(client, b"[" + b" " * (2 << 20) + b"]", "large.json", headers={"X-Correlation-Id": "r-1"})
    assert (answer.status, answer.code) == (409, "MaxFileSizeMb")
    [row] = refused(server, client, 1)
    assert row["status"] == "Failed" and row["refusedRule"] == "MaxFileSizeMb" and row["lastError"] == answer.json["detail"]
    assert row["correlationId"] == "r-1" and row["completedAt"] is None and row["fileSizeBytes"] >= 1 << 20
    assert row["batchId"] in ids(server, f"clientId={client.id}&status=Failed")
    assert client.get(f"/imports/{row['batchId']}").json == row
    for method, path in (("DELETE", ""), ("POST", "/retry")):
        assert client.request(method, f"/imports/{row['batchId']}{path}").status == 409
    assert peer.came(row["batchId"]) == []


def test_many_refusals_are_one_row_a_rule_and_minute(server):  # noqa: F811
    client = server.new_client()
    policy(server, client, maxBatchPerDay=1)
    taken(upload(client))
    begun = time.time()
    assert {upload(client).code for _ in range(20)} == {"MaxBatchPerDay"}
    minutes = int(time.time() // 60) - int(begun // 60) + 1
    assert len(refused(server, client, 20)) <= minutes
    policy(server, client, maxBatchPerDay=2)
    assert upload(client).status == 202, "refusals do not count as batches of the day"


def test_maintenance_leaves_a_row_and_what_is_no_refusal_of_the_policy_does_not(server):  # noqa: F811
    client = server.new_client()
    assert upload(client, b"%PDF-1.4 no", "leads.json").status in (400, 415)
    now = time.time()
    policy(server, client, maintenanceWindow=f"{stamp(now - 3600)}/{stamp(now + 3600)}")
    assert (upload(client).status, upload(client).code) == (503, "MaintenanceWindow")
    [row] = refused(server, client, 2)
    assert row["refusedRule"] == "MaintenanceWindow"


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(seconds))
