"""Tickets that are processed again from their stored payload: alone, by a filter, and whose they are."""

import json
import uuid

import pytest
from harness import Server, wait_for
from test_interface_keys import Sender, digits, gateway, sending  # noqa: F401
from test_interface_keys import ticket as sent_ticket
from test_openapi import DOCUMENT, check
from test_outbox import whole


@pytest.fixture(scope="module")
def server(_module_backends, tmp_path_factory):
    """Takes tickets and lets them lie: nothing processes or sends them."""
    made = Server(_module_backends(), tmp_path_factory.mktemp("server"), config={"server": {"roles": "api"}})
    yield made.start()
    made.finish()


@pytest.fixture(scope="module")
def ann(server):
    return server.new_client("Ann", scopes=["interface"], clientId="ann")


@pytest.fixture(scope="module")
def bob(server):
    return server.new_client("Bob", scopes=["interface"])


@pytest.fixture(scope="module")
def every(server):
    return server.new_client("Every", scopes=["interface-all"])


def ticket(doc, **fields):
    return {"businessEntity": "TCK", "businessDocId": doc, "companyCode": "0050", "branchCode": "1", "destinationCode": "D7",
            "phaseCode": 15, "shipmentEvent": "RCD", "targetApplicationCode": "ASB", **fields}


def described(value, schema):
    check(value, DOCUMENT["components"]["schemas"][schema], schema)
    return value


def write(server, sql):
    # Of SQLite only a script is committed.
    (server.backend.script if server.backend.name == "sqlite" else server.backend.query)(sql)


def made(client, **fields):
    answer = client.post("/api/tickets", ticket(f"T_{uuid.uuid4().hex}", **fields))
    assert answer.status == 200, answer
    return answer.json


def row(server, number, *columns):
    [found] = server.backend.query(f"SELECT {', '.join(columns)} FROM TB_TICKET_INTERFACE WHERE Id = {number}")
    return tuple(found)


def audited(server, target):
    items = server.admin().get("/admin/audit?pageSize=200").json["items"]
    return [entry for entry in items if entry["target"] == target]


# --- one ---


def test_everything_goes_again_under_new_keys_and_its_history_stays(make_server, gateway):  # noqa: F811
    server = sending(make_server, gateway, "send", "return", "ack")
    sender = Sender(server)
    assert sender.client.post("/api/tickets", {**sent_ticket("A"), "functionalAckIsRequired": True}).status == 200
    first = sender.reach(status="Processed", gatewaySendStatus="Sent", returnStatus="Sent")
    assert server.new_client("G", scopes=["callback"]).post("/api/tickets/callback", {
        "businessEntity": "TCK", "businessDocId": "T1", "phaseCode": 15, "status": "Success"}).status == 200
    wait_for(lambda: len(gateway.of("/ack")) == 1, "the ack")
    answer = sender.client.post(f"/api/tickets/{first['id']}/reprocess")
    assert answer.status == 200, answer
    assert described(answer.json, "TicketReprocessed") == {
        "id": first["id"], "businessEntity": "TCK", "businessDocId": "T1", "phaseCode": 15, "status": "Awaiting",
        "payloadVersion": 2}
    second = sender.reach(status="Processed", gatewaySendStatus="Sent", returnStatus="Sent", payloadVersion=2)
    wait_for(lambda: len(gateway.of("/ack")) == 2, "another ack")
    assert (second["attemptCount"], second["gatewaySendAttemptCount"], second["returnAttemptCount"]) == (1, 1, 1)
    assert (second["callbackStatus"], second["callbackReceivedAt"], second["callbackPayloadJson"]) == ("Pending", None, None)
    assert second["rawPayloadJson"] == first["rawPayloadJson"] and second["createdAt"] == first["createdAt"]
    for path, channel in (("send", "ticket-gateway"), ("return", "ticket-return")):
        came = gateway.of(f"/{path}")
        assert [c.key for c in came] == [f"{channel}:1:{v}:{digits(c.body)}" for v, c in enumerate(came, 1)]
        assert len(came) == 2
        assert [a["outcome"] for a in whole(server, channel, 1)["attemptsHistory"]] == ["Sent", "Sent"]
    assert gateway.of("/send")[0].body == gateway.of("/send")[1].body


@pytest.mark.parametrize("path,channel,state", [
    ("return", "ticket-return", "returnStatus"), ("send", "ticket-gateway", "gatewaySendStatus")])
def test_what_is_on_its_way_is_waited_for(make_server, gateway, path, channel, state):  # noqa: F811
    server = sending(make_server, gateway, path)
    sender = Sender(server)
    gateway.held.clear()
    sender.post("A")
    wait_for(lambda: gateway.of(f"/{path}"), "the first is on its way")
    assert sender.client.post(f"/api/tickets/{sender.shown()['id']}/reprocess").status == 200
    sender.reach(status="Processed", payloadVersion=2, **{state: "Pending"})
    waiting = whole(server, channel, 1)
    assert waiting["status"] == "Pending" and waiting["nextAttemptAt"], "until the old one has ended, or its lease has"
    gateway.held.set()
    sender.reach(**{state: "Sent"})
    assert [c.key.split(":")[2] for c in gateway.of(f"/{path}")] == ["1", "2"] and gateway.most[f"/{path}"] == 1
    assert not server.log("DeliveryLeaseLost")


def test_a_payload_after_a_reprocess_is_one_like_any_other(make_server, gateway):  # noqa: F811
    """A return that was sent is not sent again for a new payload: only a reprocess does that."""
    server = sending(make_server, gateway, "send", "return")
    sender = Sender(server)
    sent = {"gatewaySendStatus": "Sent", "returnStatus": "Sent"}
    sender.post("A")
    sender.reach(**sent)
    assert sender.client.post(f"/api/tickets/{sender.shown()['id']}/reprocess").status == 200
    sender.reach(payloadVersion=2, **sent)
    sender.version = 2
    sender.post("B")
    sender.reach(payloadVersion=3, **sent)
    assert [c.key.split(":")[2] for c in gateway.of("/send")] == ["1", "2", "3"]
    assert [c.key.split(":")[2] for c in gateway.of("/return")] == ["1", "2"]


@pytest.mark.parametrize("columns", [
    "Status = 'Awaiting'",
    "Status = 'Processing', ProcessingSince = COALESCE(NextAttemptAt, CreatedAt), TryCount = 1",
    "Status = 'Error', NextAttemptAt = NULL, LastError = 'why', AttemptCount = 5, TryCount = 9, FirstFailedAt = CreatedAt,"
    " CountedAt = CreatedAt, TargetMark = 7",
    "Status = 'Processed', NextAttemptAt = NULL, AttemptCount = 1, GatewaySendStatus = 'Error', GatewaySendAttemptCount = 5,"
    " GatewaySendLastError = 'why', GatewaySendFirstFailedAt = CreatedAt, GatewaySendCountedAt = CreatedAt, GatewaySendTargetMark = 7",
    "Status = 'Processed', NextAttemptAt = NULL, GatewaySendStatus = 'Pending', GatewaySendNextAttemptAt = CreatedAt,"
    " GatewaySendHeldFor = 3, GatewaySendHeldAt = CreatedAt",
    "Status = 'Processed', NextAttemptAt = NULL, ReturnStatus = 'Error', ReturnAttemptCount = 5, ReturnLastError = 'why',"
    " ReturnLastAttemptAt = CreatedAt",
    "Status = 'Processed', NextAttemptAt = NULL, ReturnStatus = 'Sent', ReturnSentAt = CreatedAt, GatewaySendStatus = 'Sent',"
    " GatewaySendSentAt = CreatedAt, CallbackStatus = 'Success', CallbackCode = 'C', CallbackMessage = 'm'",
])
def test_from_every_state_it_starts_as_a_new_one_does(server, ann, columns):
    number = made(ann)["id"]
    tries = row(server, number, "TryCount")[0]
    write(server, f"UPDATE TB_TICKET_INTERFACE SET {columns} WHERE Id = {number}")
    tries = row(server, number, "TryCount")[0]
    assert ann.post(f"/api/tickets/{number}/reprocess").status == 200
    assert row(server, number, "Status", "AttemptCount", "LastError", "FirstFailedAt", "CountedAt", "TargetMark",
               "PayloadVersion", "TryCount") == ("Awaiting", 0, None, None, None, None, 2, tries)
    assert row(server, number, "GatewaySendStatus", "GatewaySendAttemptCount", "GatewaySendLastError", "GatewaySendSentAt",
               "GatewaySendNextAttemptAt", "GatewaySendFirstFailedAt", "GatewaySendCountedAt", "GatewaySendTargetMark",
               "GatewaySendHeldFor", "GatewaySendHeldAt") == ("Pending", 0, *[None] * 8)
    assert row(server, number, "ReturnStatus", "ReturnAttemptCount", "ReturnLastError", "ReturnSentAt",
               "ReturnLastAttemptAt") == ("Pending", 0, None, None, None)
    assert row(server, number, "CallbackStatus", "CallbackCode", "CallbackMessage") == ("Pending", None, None)
    assert row(server, number, "NextAttemptAt")[0], "it is due"


def test_a_server_that_dies_after_its_answer_has_lost_nothing(make_server):
    server = make_server(args=("--set", "server.roles=api"))
    client = server.new_client("AS400", scopes=["interface"])
    number = made(client)["id"]
    write(server, f"UPDATE TB_TICKET_INTERFACE SET Status = 'Error', NextAttemptAt = NULL WHERE Id = {number}")
    assert client.post(f"/api/tickets/{number}/reprocess").status == 200
    server.kill()
    server.args = ()
    server.start()
    wait_for(lambda: row(server, number, "Status", "PayloadVersion") == ("Processed", 2), "it is processed")


# --- whose ---


def test_another_clients_ticket_is_404_and_stays(server, ann, bob, every):
    number = made(ann)["id"]
    answer = bob.post(f"/api/tickets/{number}/reprocess")
    assert (answer.status, answer.code) == (404, "NotFound")
    assert row(server, number, "PayloadVersion") == (1,) and not audited(server, f"tickets/{number}")
    assert ann.post(f"/api/tickets/{number}/reprocess").json["payloadVersion"] == 2
    assert every.post(f"/api/tickets/{number}/reprocess").json["payloadVersion"] == 3
    assert server.admin().post(f"/admin/tickets/{number}/reprocess").json["payloadVersion"] == 4
    entries = audited(server, f"tickets/{number}")
    assert [e["actor"] for e in entries] == ["admin", f"client:{every.id}", f"client:{ann.id}"]
    assert {e["action"] for e in entries} == {"TicketReprocessed"}
    assert entries[0]["details"]["payloadVersion"] == 4


def test_a_ticket_of_another_program_is_for_who_works_on_all(server, ann, every):
    number = made(ann)["id"]
    write(server, f"UPDATE TB_TICKET_INTERFACE SET ClientId = NULL WHERE Id = {number}")
    assert ann.post(f"/api/tickets/{number}/reprocess").status == 404
    assert every.post(f"/api/tickets/{number}/reprocess").status == 200


@pytest.mark.parametrize("number", ["0", "-1", "x", "1.5", "99999999", "99999999999999999999", "%00", "1%20OR%201=1"])
def test_what_is_no_ticket_is_404(server, ann, number):
    assert ann.post(f"/api/tickets/{number}/reprocess").status in (400, 404)
    assert server.admin().post(f"/admin/tickets/{number}/reprocess").status in (400, 404)


def test_scopes_and_keys(server, ann):
    number = made(ann)["id"]
    other = server.new_client("Other", scopes=["imports", "callback", "acks"])
    assert (other.post(f"/api/tickets/{number}/reprocess").code) == "ScopeMissing"
    for path in (f"/admin/tickets/{number}/reprocess", "/admin/tickets/reprocess"):
        assert ann.post(path, {"all": True}).status == 401
    assert ann.get(f"/api/tickets/{number}/reprocess").status == 405


# --- many ---


@pytest.fixture(scope="module")
def many(server, ann, bob):
    """Of entity E1 four of Ann's and one of Bob's, in several states. Returns a function that finds those started over."""
    numbers = [made(ann, businessEntity="E1")["id"] for _ in range(3)]
    numbers.append(made(ann, businessEntity="E1", phaseCode=6)["id"])
    numbers.append(made(bob, businessEntity="E1")["id"])
    made(ann, businessEntity="E2")
    states = ["Status = 'Error', LastError = 'No Weights: 100%_sure [x]', CreatedAt = '2026-01-01T00:00:00.000Z'",
              "Status = 'Error', LastError = 'something else', CreatedAt = '2026-01-02T00:00:00.000Z'",
              "Status = 'Processed', CreatedAt = '2026-01-03T00:00:00.000Z'",
              "Status = 'Awaiting', LastError = 'left over', CreatedAt = '2026-01-04T00:00:00.000Z'",
              "Status = 'Error', LastError = 'no weights', CreatedAt = '2026-01-05T00:00:00.000Z'"]
    if server.backend.name == "sqlserver":
        states = [s.replace("Z'", "'") for s in states]

    def reset():
        for number, columns in zip(numbers, states):
            write(server, f"UPDATE TB_TICKET_INTERFACE SET {columns}, PayloadVersion = 1 WHERE Id = {number}")

    def started():
        return [i for i, number in enumerate(numbers) if row(server, number, "PayloadVersion") == (2,)]

    return reset, started


@pytest.mark.parametrize("condition,wanted", [
    ({}, [0, 1, 2, 3, 4]),
    ({"status": "Error"}, [0, 1, 4]),
    ({"STATUS": "error"}, [0, 1, 4]),
    ({"phaseCode": 6}, [3]),
    ({"phaseCode": "15", "status": "Processed"}, [2]),
    ({"clientId": "ann"}, [0, 1, 2, 3]),
    ({"clientId": "nobody"}, []),
    ({"clientId": "ann", "status": "Processed"}, [2]),
    ({"error": "weights"}, [0, 4]),
    ({"error": "weights", "clientId": "ann"}, [0]),
    ({"error": "weights", "status": "Error"}, [0, 4]),
    ({"error": "weights", "status": "Processed"}, []),
    ({"error": "left over"}, []),
    ({"error": "NO WEIGHTS"}, [0, 4]),
    ({"error": "100%_sure [x]"}, [0]),
    ({"error": "%"}, [0]),
    ({"error": "_"}, [0]),
    ({"error": "[x"}, [0]),
    ({"error": "!"}, []),
    ({"error": "s' OR '1'='1"}, []),
    ({"from": "2026-01-02T00:00:00Z"}, [1, 2, 3, 4]),
    ({"to": "2026-01-02T00:00:00Z"}, [0]),
    ({"from": "2026-01-02", "to": "2026-01-04"}, [1, 2]),
    ({"status": "Error", "clientId": "ann", "error": "else", "from": "2026-01-01", "phaseCode": 15}, [1]),
])
def test_a_filter_finds_what_matches_all_of_it(server, many, condition, wanted):
    reset, started = many
    reset()
    body = {"businessEntity": "E1", **condition}
    preview = server.admin().post("/admin/tickets/reprocess", {**body, "dryRun": True})
    assert preview.status == 200, preview
    assert preview.json == {"matched": len(wanted), "reprocessed": 0, "left": len(wanted)}
    assert started() == [], "a dry run changes nothing"
    before = len(audited(server, "tickets"))
    answer = server.admin().post("/admin/tickets/reprocess", body)
    assert described(answer.json, "TicketsReprocessed") == {"matched": len(wanted), "reprocessed": len(wanted), "left": 0}
    assert started() == wanted
    entries = audited(server, "tickets")
    assert len(entries) == before + (1 if wanted else 0)
    if wanted:
        assert (entries[0]["action"], entries[0]["actor"], entries[0]["details"]["matched"]) == ("TicketsReprocessed", "admin", len(wanted))
        assert entries[0]["details"]["filter"]["businessEntity"] == "E1"


@pytest.mark.parametrize("body,fields", [
    ({}, {"all"}),
    ({"dryRun": True}, {"all"}),
    ({"all": False}, {"all"}),
    ({"all": "maybe"}, {"all"}),
    ({"status": "Sent"}, {"status"}),
    ({"status": ["Error"]}, {"status"}),
    ({"phaseCode": "x"}, {"phaseCode"}),
    ({"phaseCode": -1}, {"phaseCode"}),
    ({"phaseCode": 2**31}, {"phaseCode"}),
    ({"error": " "}, {"error"}),
    ({"error": "x" * 201}, {"error"}),
    ({"businessEntity": ""}, {"businessEntity"}),
    ({"businessEntity": "x" * 101}, {"businessEntity"}),
    ({"clientId": "x" * 65}, {"clientId"}),
    ({"from": "yesterday", "to": "32"}, {"from", "to"}),
    ({"state": "Error", "all": True}, {"state"}),
    ({"status": "Error", "dryRun": "x", "clientID": ""}, {"dryRun", "clientId"}),
])
def test_a_bad_filter_is_400_and_changes_nothing(server, many, body, fields):
    reset, started = many
    reset()
    answer = server.admin().post("/admin/tickets/reprocess", body)
    assert (answer.status, answer.bad_fields) == (400, fields)
    assert started() == []


@pytest.mark.parametrize("body,code", [(b"", "MalformedJson"), (b"[]", "BadRequest"), (b'{"status"', "MalformedJson"),
                                       (b'{"status":"Error","status":"Error"}', "DuplicateKey")])
def test_a_body_that_is_no_filter_is_400(server, body, code):
    answer = server.admin().request("POST", "/admin/tickets/reprocess", body)
    assert (answer.status, answer.code) == (400, code)


def test_a_call_takes_ten_thousand_and_says_how_many_are_left(make_server):
    """In steps, between which others write."""
    server = make_server(args=("--set", "server.roles=api"))
    client = server.new_client("AS400", scopes=["interface"])
    digit = "(SELECT 0 AS n" + "".join(f" UNION ALL SELECT {i}" for i in range(1, 10)) + ")"
    number = "a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n"
    payload = json.dumps(ticket("x"))
    concat = f"CAST({number} AS VARCHAR(10))"
    write(server, "INSERT INTO TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, CompanyCode, BranchCode, DestinationCode,"
                  " PhaseCode, ShipmentEvent, FunctionalAckIsRequired, TargetApplicationCode, RawPayloadJson, Status)"
                  f" SELECT 'MANY', {concat}, '1', '1', '1', 15, 'RCD', '0', 'ASB', '{payload}', 'Error'"
                  f" FROM {digit} AS a CROSS JOIN {digit} AS b CROSS JOIN {digit} AS c CROSS JOIN {digit} AS d CROSS JOIN {digit} AS e"
                  f" WHERE {number} < 10150")
    body = {"businessEntity": "MANY", "status": "Error"}
    preview = server.admin().post("/admin/tickets/reprocess", {**body, "dryRun": True}).json
    assert preview == {"matched": 10001, "reprocessed": 0, "left": 10001}, "it counts no further"
    for answer in ({"matched": 10001, "reprocessed": 10000, "left": 1}, {"matched": 150, "reprocessed": 150, "left": 0},
                   {"matched": 0, "reprocessed": 0, "left": 0}):
        assert server.admin().post("/admin/tickets/reprocess", body).json == answer
        assert client.post("/api/tickets", ticket("beside")).status == 200
    assert server.backend.query("SELECT Status, PayloadVersion, COUNT(*) FROM TB_TICKET_INTERFACE WHERE BusinessEntity = 'MANY'"
                                " GROUP BY Status, PayloadVersion") == [("Awaiting", 2, 10150)]
