"""Tickets: receiving them in both shapes, repeats, replacements, races, and looking at them."""

import json
import threading
import uuid

import pytest
from harness import Server
from test_openapi import DOCUMENT, check

FRESH = {"status": "Awaiting", "attemptCount": 0, "lastError": None,
         "returnStatus": "Pending", "returnAttemptCount": 0, "returnLastError": None, "returnLastAttemptAt": None,
         "returnSentAt": None,
         "gatewaySendStatus": "Pending", "gatewaySendAttemptCount": 0, "gatewaySendLastError": None,
         "gatewaySendLastAttemptAt": None, "gatewaySendSentAt": None, "gatewaySendNextAttemptAt": None,
         "callbackStatus": "Pending", "callbackReceivedAt": None, "callbackCode": None, "callbackMessage": None,
         "callbackPayloadJson": None}


@pytest.fixture(scope="module")
def server(_module_backends, tmp_path_factory):
    """Takes tickets and lets them lie: nothing processes or sends them."""
    made = Server(_module_backends(), tmp_path_factory.mktemp("server"), config={"server": {"roles": "api"}})
    yield made.start()
    made.finish()


@pytest.fixture(scope="module")
def client(server):
    return server.new_client("AS400", scopes=["interface"])


def fresh_doc():
    return f"TCK_{uuid.uuid4().hex}"


def flat(doc=None, **fields):
    return {"businessEntity": "TCK", "businessDocId": doc or fresh_doc(), "companyCode": "0050", "branchCode": "1",
            "destinationCode": "D7", "phaseCode": 15, "shipmentEvent": "RCD", "functionalAckIsRequired": True,
            "targetApplicationCode": "ASB", **fields}


def envelope(doc=None, phase="15", **header):
    return {"shipmentTicket": {
        "functionalDocID": {"businessAppID": "CRN", "businessEntity": "TCK", "businessDocID": doc or fresh_doc(),
                            "originalBusinessDocID": "", "userID": ""},
        "functionalAckIsRequired": "true",
        "header": {"companyCode": "0050", "branchCode": "1", "destinationCode": "D7", "phaseCode": phase,
                   "shipmentEvent": "RCD",
                   "targetApplications": {"targetApplication": [{"applicationCode": "ASB"}]}, **header},
        "data": {"weights": {"gross": 3, "tare": 1, "net": 2, "unit": "KG"}}}}


def key_of(payload):
    if "shipmentTicket" in payload:
        head = payload["shipmentTicket"]["functionalDocID"]
        return {"businessEntity": head["businessEntity"], "businessDocId": head["businessDocID"]}
    return {"businessEntity": payload["businessEntity"], "businessDocId": payload["businessDocId"]}


def stored(client, payload, phase=15):
    key = key_of(payload)
    answer = client.get(f"/api/tickets?businessEntity={key['businessEntity']}&businessDocId={key['businessDocId']}"
                        f"&phaseCode={phase}")
    assert answer.status == 200, answer
    [ticket] = answer.json["items"]
    return ticket


def post(client, payload, **kwargs):
    answer = client.post("/api/tickets", payload, **kwargs)
    assert answer.status == 200, answer
    return answer.json


def at_once(functions):
    """Runs them side by side and returns what they returned."""
    results, ready = [None] * len(functions), threading.Barrier(len(functions))

    def go(i):
        ready.wait()
        results[i] = functions[i]()

    threads = [threading.Thread(target=go, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


# --- receiving ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [flat, envelope])
def test_a_new_ticket_waits_to_be_processed(client, make):
    payload = make()
    answer = post(client, payload)
    assert answer == {"id": answer["id"], **key_of(payload), "phaseCode": 15, "status": "Awaiting", "created": True}
    ticket = stored(client, payload)
    assert {name: ticket[name] for name in FRESH} == FRESH
    assert ticket["id"] == answer["id"] and ticket["payloadVersion"] == 1
    assert {name: ticket[name] for name in ("companyCode", "branchCode", "destinationCode", "shipmentEvent",
                                            "functionalAckIsRequired", "targetApplicationCode")} == {
        "companyCode": "0050", "branchCode": "1", "destinationCode": "D7", "shipmentEvent": "RCD",
        "functionalAckIsRequired": True, "targetApplicationCode": "ASB"}
    assert ticket["createdAt"] == ticket["updatedAt"] == ticket["nextAttemptAt"]


def test_names_in_any_case_and_values_as_text(client):
    doc = fresh_doc()
    payload = {"BUSINESSENTITY": "TCK", "businessDocID": doc, "CompanyCode": "0050", "branchcode": "1",
               "DestinationCode": "D7", "PhaseCode": "6", "SHIPMENTEVENT": "DLV", "functionalAckIsRequired": "false",
               "targetapplicationcode": "ASB", "unknown": {"x": [1, None]}}
    assert post(client, payload)["phaseCode"] == 6
    ticket = stored(client, {"businessEntity": "TCK", "businessDocId": doc}, 6)
    assert (ticket["shipmentEvent"], ticket["functionalAckIsRequired"]) == ("DLV", False)


def test_the_bytes_are_kept_as_they_came(server, client):
    doc = fresh_doc()
    body = ('{ "x" : "é\\u00e9 🚚 \\\\ \\"",\r\n\t"businessEntity":"TCK", "businessDocId":"' + doc + '",'
            '"companyCode":"1","branchCode":"1","destinationCode":"1","phaseCode":15,"shipmentEvent":"RCD",\n'
            '"functionalAckIsRequired":"FALSE","targetApplicationCode":"ASB", "n": 1.10, "y": {"y": ""} }  \n').encode()
    post(client, None, body=body)
    assert stored(client, {"businessEntity": "TCK", "businessDocId": doc})["rawPayloadJson"].encode() == body
    [[raw]] = server.backend.query(f"SELECT RawPayloadJson FROM TB_TICKET_INTERFACE WHERE BusinessDocId = '{doc}'")
    assert raw.encode() == body


def test_a_body_of_a_megabyte_is_kept_and_one_byte_more_is_413(client):
    payload = flat(note="aç🚚")
    body = json.dumps(payload, ensure_ascii=False).encode()
    body = body[:-2] + b"x" * (1024 * 1024 - len(body)) + b'"}'
    assert len(body) == 1024 * 1024
    assert post(client, None, body=body)["created"] is True
    assert stored(client, payload)["rawPayloadJson"].encode() == body
    assert post(client, None, body=body)["created"] is False
    other = body.replace(b'xx"}', b'xy"}')
    assert post(client, None, body=other)["created"] is False
    assert stored(client, payload)["rawPayloadJson"].encode() == other
    assert client.post("/api/tickets", body=body + b" ").status == 413


def test_phases_are_tickets_of_their_own(client):
    doc = fresh_doc()
    first, second = post(client, flat(doc)), post(client, envelope(doc, phase=6))
    assert first["created"] and second["created"] and first["id"] != second["id"]
    items = client.get(f"/api/tickets?businessEntity=TCK&businessDocId={doc}").json["items"]
    assert [(t["id"], t["phaseCode"]) for t in items] == [(first["id"], 15), (second["id"], 6)]


# --- again -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["Awaiting", "Processing", "Processed", "Error"])
def test_the_same_payload_again_changes_nothing(server, client, status):
    payload = flat()
    first = post(client, payload)
    server.backend.script(f"UPDATE TB_TICKET_INTERFACE SET Status = '{status}', ProcessingSince = COALESCE(NextAttemptAt, CreatedAt), AttemptCount = 3, LastError = 'x',"
                          f" CallbackStatus = 'Error' WHERE Id = {first['id']}")
    before = stored(client, payload)
    assert post(client, payload) == {**first, "status": status, "created": False}
    assert stored(client, payload) == before


def set_all(server, ticket, **columns):
    texts = ", ".join(f"{name} = {value}" for name, value in columns.items())
    server.backend.script(f"UPDATE TB_TICKET_INTERFACE SET {texts} WHERE Id = {ticket}")


def test_another_payload_replaces_and_starts_over(server, client):
    doc, time = fresh_doc(), "'2025-01-02T03:04:05.678Z'"
    first = post(client, flat(doc))
    set_all(server, first["id"], Status="'Processed'", AttemptCount=4, LastError="'a'", NextAttemptAt="NULL",
            ReturnStatus="'Sent'", ReturnAttemptCount=2, ReturnLastError="'b'", ReturnSentAt=time,
            ReturnLastAttemptAt=time, GatewaySendStatus="'Sent'", GatewaySendAttemptCount=3,
            GatewaySendLastError="'c'", GatewaySendLastAttemptAt=time, GatewaySendSentAt=time,
            GatewaySendNextAttemptAt=time, CallbackStatus="'Success'", CallbackReceivedAt=time,
            CallbackPayloadJson="'{}'", CallbackMessage="'d'", CallbackCode="'e'")
    before = stored(client, flat(doc))
    assert before["returnSentAt"] == before["callbackReceivedAt"] == time[1:-1]
    changed = envelope(doc, companyCode="0051", branchCode="2", destinationCode="D8", shipmentEvent="DLV",
                       targetApplications={"targetApplication": [{"applicationCode": "XYZ"}]})
    changed["shipmentTicket"]["functionalAckIsRequired"] = "false"
    assert post(client, changed) == {**first, "created": False}
    after = stored(client, changed)
    returned = {name for name in FRESH if name.startswith("return")}
    assert {name: after[name] for name in FRESH if name not in returned} == \
           {name: value for name, value in FRESH.items() if name not in returned}
    kept = {name: before[name] for name in returned}
    assert {name: after[name] for name in returned} == kept, "one was sent: no other is"
    assert [after[name] for name in ("companyCode", "branchCode", "destinationCode", "shipmentEvent",
                                     "targetApplicationCode", "functionalAckIsRequired")] == \
           ["0051", "2", "D8", "DLV", "XYZ", False]
    assert json.loads(after["rawPayloadJson"]) == changed
    assert (after["payloadVersion"], after["createdAt"]) == (2, before["createdAt"])
    assert after["nextAttemptAt"] == after["updatedAt"] > before["updatedAt"]
    assert post(client, flat(doc))["created"] is False, "back to the first"
    assert stored(client, changed)["payloadVersion"] == 3


def test_bytes_decide_what_the_same_payload_is(client):
    payload = flat()
    post(client, payload)
    spaced = json.dumps(payload, indent=1).encode()
    assert post(client, None, body=spaced)["created"] is False
    ticket = stored(client, payload)
    assert (ticket["payloadVersion"], ticket["rawPayloadJson"].encode()) == (2, spaced)


def test_what_another_program_wrote_counts_as_another_payload(server):
    client = server.new_client("All", scopes=["interface-all"])
    payload = flat()
    server.backend.script(
        "INSERT INTO TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, CompanyCode, BranchCode, DestinationCode,"
        " PhaseCode, ShipmentEvent, FunctionalAckIsRequired, TargetApplicationCode, RawPayloadJson, Status) VALUES"
        f" ('TCK', '{payload['businessDocId']}', '0', '0', '0', 15, 'RCD',"
        f" {'true' if server.backend.name == 'postgres' else 1}, 'ASB', '{json.dumps(payload)}', 'Processed')")
    before = stored(client, payload)
    answer = post(client, payload)
    assert (answer["id"], answer["created"], answer["status"]) == (before["id"], False, "Awaiting")
    assert [stored(client, payload)[name] for name in ("companyCode", "payloadVersion")] == ["0050", 2]


def test_of_many_at_once_one_makes_the_ticket(client):
    for _ in range(4):
        payload = flat()
        answers = at_once([lambda: post(client, payload)] * 16)
        assert sum(a["created"] for a in answers) == 1
        assert len({a["id"] for a in answers}) == 1 and {a["status"] for a in answers} == {"Awaiting"}
        assert stored(client, payload)["payloadVersion"] == 1


def test_of_different_payloads_at_once_one_is_kept_whole(client):
    doc = fresh_doc()
    payloads = [flat(doc, companyCode=str(i), branchCode=str(i), shipmentEvent=f"E{i}") for i in range(8)]
    answers = at_once([lambda p=p: post(client, p) for p in payloads])
    assert sum(a["created"] for a in answers) == 1 and len({a["id"] for a in answers}) == 1
    ticket = stored(client, payloads[0])
    kept = json.loads(ticket["rawPayloadJson"])
    assert [ticket[n] for n in ("companyCode", "branchCode", "shipmentEvent")] == \
           [kept[n] for n in ("companyCode", "branchCode", "shipmentEvent")]
    assert ticket["payloadVersion"] == 8, "every one was stored in its turn"
    before = stored(client, payloads[0])
    post(client, kept)
    assert stored(client, payloads[0]) == before, "the hash is that of the payload kept"


# --- refused -----------------------------------------------------------------------------------------

BAD = [
    ({}, set(flat()) - {"functionalAckIsRequired"}),
    (flat(businessEntity=None), {"businessEntity"}),
    (flat(businessEntity=""), {"businessEntity"}),
    (flat(businessEntity="x" * 101), {"businessEntity"}),
    (flat("x" * 101), {"businessDocId"}),
    (flat("é" * 101), {"businessDocId"}),
    (flat(phaseCode=None), {"phaseCode"}),
    (flat(phaseCode=7), {"phaseCode"}),
    (flat(phaseCode="fifteen"), {"phaseCode"}),
    (flat(phaseCode=15.5), {"phaseCode"}),
    (flat(companyCode="x" * 21), {"companyCode"}),
    (flat(branchCode={}), {"branchCode"}),
    (flat(destinationCode="🚚" * 11), {"destinationCode"}),
    (flat(shipmentEvent=" "), {"shipmentEvent"}),
    (flat(functionalAckIsRequired="perhaps"), {"functionalAckIsRequired"}),
    (flat(companyCode="", branchCode="", phaseCode="x"), {"companyCode", "branchCode", "phaseCode"}),
    (envelope(phase=""), {"shipmentTicket.header.phaseCode"}),
    (envelope(companyCode="x" * 21, branchCode=[]),
     {"shipmentTicket.header.companyCode", "shipmentTicket.header.branchCode"}),
    ({"shipmentTicket": []}, {"shipmentTicket"}),
]


@pytest.mark.parametrize("payload,fields", BAD, ids=[str(i) for i in range(len(BAD))])
def test_every_bad_field_is_named_and_nothing_is_stored(server, client, payload, fields):
    [[before]] = server.backend.query("SELECT COUNT(*) FROM TB_TICKET_INTERFACE")
    answer = client.post("/api/tickets", payload)
    assert (answer.status, answer.code) == (400, "ValidationFailed")
    assert answer.bad_fields == fields
    assert server.backend.query("SELECT COUNT(*) FROM TB_TICKET_INTERFACE") == [(before,)]


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'"x"', b"{", b'{"a":1}{"a":2}', b"[{}]", b'{"a":1,"a":2}',
                                  b'{"a":"\xff"}', b'{"a":"\\ud800"}', b'{"a":"\\u0000"}', b"[" * 65 + b"]" * 65])
def test_a_body_that_is_no_document_is_400(client, body):
    assert client.post("/api/tickets", body=body, headers={"Content-Type": "application/json"}).status == 400


def test_malformed_json_tells_where(client):
    answer = client.post("/api/tickets", body=b'{"businessEntity": x}')
    assert (answer.status, answer.code, answer.json["offset"]) == (400, "MalformedJson", 19)


def test_other_types_and_methods(client):
    body = json.dumps(flat()).encode()
    assert client.post("/api/tickets", body=body, headers={"Content-Type": "text/xml"}).status == 415
    answer = client.request("DELETE", "/api/tickets")
    assert answer.status == 405 and {"GET", "POST"} <= set(answer.headers["Allow"].split(", "))


def test_only_clients_with_the_scope(server):
    other = server.new_client("Other", scopes=["callback", "imports"])
    for path in ("/api/tickets", "/api/tickets?status=Awaiting"):
        method = "GET" if "?" in path else "POST"
        body = None if "?" in path else b"{}"
        assert server.anonymous().request(method, path, body).status == 401
        answer = other.request(method, path, body)
        assert (answer.status, answer.code) == (403, "ScopeMissing")


def test_also_under_its_version(client):
    payload = flat()
    assert client.post("/v1/api/tickets", payload).json["created"] is True
    [ticket] = client.get(f"/v1/api/tickets?businessentity=TCK&BUSINESSDOCID={payload['businessDocId']}").json["items"]
    assert ticket["businessDocId"] == payload["businessDocId"]


# --- looking -----------------------------------------------------------------------------------------


def test_one_ticket_by_its_key(client):
    doc = fresh_doc()
    for phase in (15, 6):
        post(client, flat(doc, phaseCode=phase))
    path = f"/api/tickets?businessEntity=TCK&businessDocId={doc}"
    assert client.get(path).json == {"items": client.get(path).json["items"]}
    assert [t["phaseCode"] for t in client.get(path).json["items"]] == [15, 6]
    assert [t["phaseCode"] for t in client.get(path + "&phaseCode=6").json["items"]] == [6]
    assert len(client.get(path + "&status=Awaiting").json["items"]) == 2
    for nothing in ("&phaseCode=7", "&status=Error"):
        assert client.get(path + nothing).json == {"items": []}
    assert client.get(f"/api/tickets?businessEntity=ABC&businessDocId={doc}").json == {"items": []}
    assert client.get(f"/api/tickets?businessEntity=TCK&businessDocId={doc}{'x' * 200}").json == {"items": []}


def test_texts_of_the_key_are_kept(client):
    doc = f"ação/{uuid.uuid4().hex} & 100%?"
    assert post(client, flat(doc))["businessDocId"] == doc
    quoted = "".join(f"%{b:02X}" for b in doc.encode())
    [ticket] = client.get(f"/api/tickets?businessEntity=TCK&businessDocId={quoted}").json["items"]
    assert ticket["businessDocId"] == doc


BAD_QUESTIONS = [
    ("", {"businessEntity", "businessDocId"}),
    ("?businessEntity=", {"businessEntity", "businessDocId"}),
    ("?businessEntity=TCK", {"businessDocId"}),
    ("?businessDocId=x", {"businessEntity"}),
    ("?phaseCode=15", {"businessEntity", "businessDocId"}),
    ("?businessEntity=TCK&businessDocId=x&phaseCode=six", {"phaseCode"}),
    ("?businessEntity=TCK&businessDocId=x&phaseCode=-1", {"phaseCode"}),
    ("?businessEntity=TCK&businessDocId=x&status=Sent", {"status"}),
    ("?status=", {"businessEntity", "businessDocId"}),
    ("?status=Nope&phaseCode=99999999999", {"status", "phaseCode"}),
    ("?status=Awaiting&page=0", {"page"}),
    ("?status=Awaiting&page=x&pageSize=201", {"page", "pageSize"}),
]


@pytest.mark.parametrize("query,fields", BAD_QUESTIONS, ids=[q for q, _ in BAD_QUESTIONS])
def test_a_question_that_cannot_be_answered_is_400(client, query, fields):
    answer = client.get("/api/tickets" + query)
    assert (answer.status, answer.bad_fields) == (400, fields)


def test_pages_of_a_status_newest_first(server, client):
    entity = f"P{uuid.uuid4().hex[:12]}"
    ids = [post(client, flat(businessEntity=entity, phaseCode=15 if i % 2 else 6))["id"] for i in range(7)]
    set_all(server, ids[3], Status="'Error'")
    waiting = [i for i in reversed(ids) if i != ids[3]]
    path = f"/api/tickets?status=awaiting&businessEntity={entity}"
    whole = client.get(path).json
    assert [t["id"] for t in whole["items"]] == waiting
    assert (whole["page"], whole["pageSize"], whole["total"]) == (1, 20, 6)
    pages = [client.get(f"{path}&page={n}&pageSize=4").json for n in (1, 2, 3)]
    assert [[t["id"] for t in p["items"]] for p in pages] == [waiting[:4], waiting[4:], []]
    assert [(p["page"], p["pageSize"], p["total"]) for p in pages] == [(n, 4, 6) for n in (1, 2, 3)]
    assert [t["id"] for t in client.get(f"{path}&phaseCode=6").json["items"]] == \
           [i for n, i in reversed(list(enumerate(ids))) if n % 2 == 0]
    failed = client.get(f"/api/tickets?status=Error&businessEntity={entity}").json
    assert [t["id"] for t in failed["items"]] == [ids[3]] and failed["total"] == 1
    assert client.get("/api/tickets?status=Processing&businessEntity=" + entity).json["items"] == []
    newest = client.get("/api/tickets?status=Awaiting&pageSize=1").json
    assert newest["items"][0]["id"] == ids[6] and newest["total"] >= 6, "whatever its entity"


def test_answers_are_as_described(server, client):
    payload = flat()
    check(post(client, payload), DOCUMENT["components"]["schemas"]["TicketReceived"], "TicketReceived")
    ticket = stored(client, payload)
    schema = DOCUMENT["components"]["schemas"]["Ticket"]
    check(ticket, schema, "Ticket")
    assert set(ticket) == set(schema["properties"])
    page = client.get("/api/tickets?status=Awaiting").json
    check(page, DOCUMENT["components"]["schemas"]["TicketPage"], "TicketPage")
    assert set(page["items"][0]) == set(schema["properties"]) - {"rawPayloadJson", "callbackPayloadJson"}
