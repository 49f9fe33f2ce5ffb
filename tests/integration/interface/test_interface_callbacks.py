"""Callbacks of the gateway: once, repeated, late, wrong."""

import json
import threading
import uuid

import pytest
from harness import Server
from test_openapi import DOCUMENT, check

COLUMNS = ("callbackStatus", "callbackReceivedAt", "callbackCode", "callbackMessage", "callbackPayloadJson",
           "updatedAt")


@pytest.fixture(scope="module")
def server(_module_backends, tmp_path_factory):
    """Takes tickets and lets them lie: nothing processes or sends them."""
    made = Server(_module_backends(), tmp_path_factory.mktemp("server"), config={"server": {"roles": "api"}})
    yield made.start()
    made.finish()


@pytest.fixture(scope="module")
def sender(server):
    return server.new_client("AS400", scopes=["interface"])


@pytest.fixture(scope="module")
def gateway(server):
    return server.new_client("Gateway", scopes=["callback"])


@pytest.fixture
def key(sender):
    """Of a ticket that is there."""
    made = {"businessEntity": "TCK", "businessDocId": f"CB_{uuid.uuid4().hex}", "phaseCode": 15}
    send(sender, made)
    return made


def send(sender, key, **fields):
    answer = sender.post("/api/tickets", {**key, "companyCode": "1", "branchCode": "1", "destinationCode": "1",
                                          "shipmentEvent": "RCD", "functionalAckIsRequired": False,
                                          "targetApplicationCode": "ASB", **fields})
    assert answer.status == 200, answer
    return answer.json


def stored(sender, key):
    [ticket] = sender.get("/api/tickets?businessEntity={businessEntity}&businessDocId={businessDocId}"
                          "&phaseCode={phaseCode}".format(**key)).json["items"]
    return {name: ticket[name] for name in COLUMNS}


@pytest.mark.parametrize("status,becomes", [("Success", "Success"), ("Error", "Error"), ("Warning", "Received"),
                                            ("SUCCESS", "Success"), ("warning", "Received")])
def test_a_callback_is_kept_with_its_ticket(sender, gateway, key, status, becomes):
    before = stored(sender, key)
    body = json.dumps({**key, "status": status, "code": "E-17", "message": "Peso inválido 🚚", "extra": [1],
                       "processedAt": "2025-01-31T12:00:00Z", "details": {"a": {"b": None}}}, indent=1).encode()
    answer = gateway.post("/api/tickets/callback", body=body)
    assert (answer.status, answer.json) == (200, {**key, "callbackStatus": becomes})
    after = stored(sender, key)
    assert (after["callbackStatus"], after["callbackCode"]) == (becomes, "E-17")
    assert after["callbackMessage"] == "Peso inválido 🚚"
    assert after["callbackPayloadJson"].encode() == body
    assert after["callbackReceivedAt"] == after["updatedAt"] >= before["updatedAt"]
    check(answer.json, DOCUMENT["components"]["schemas"]["TicketCallbackTaken"], "TicketCallbackTaken")


def test_code_and_message_may_be_missing(sender, gateway, key):
    assert gateway.post("/v1/api/tickets/callback", {**key, "status": "Success"}).status == 200
    after = stored(sender, key)
    assert (after["callbackStatus"], after["callbackCode"], after["callbackMessage"]) == ("Success", None, None)


def test_names_in_any_case_and_the_phase_as_text(sender, gateway, key):
    body = {"BusinessEntity": key["businessEntity"], "businessDocID": key["businessDocId"], "PHASECODE": "15",
            "Status": "Error", "Code": 500}
    assert gateway.post("/api/tickets/callback", body).status == 200
    assert (stored(sender, key)["callbackStatus"], stored(sender, key)["callbackCode"]) == ("Error", "500")


def test_the_same_callback_again_changes_nothing(server, sender, gateway, key):
    body = {**key, "status": "Warning", "code": "W1", "message": "m"}
    first = gateway.post("/api/tickets/callback", body).json
    server.backend.script("UPDATE TB_TICKET_INTERFACE SET CallbackReceivedAt = '2025-01-02T03:04:05.678Z',"
                          f" UpdatedAt = '2025-01-02T03:04:05.678Z' WHERE BusinessDocId = '{key['businessDocId']}'")
    before = stored(sender, key)
    assert before["callbackReceivedAt"] == "2025-01-02T03:04:05.678Z"
    assert gateway.post("/api/tickets/callback", body).json == first
    assert stored(sender, key) == before


@pytest.mark.parametrize("change", [{"status": "Success"}, {"message": "M"}, {"code": None}, {"x": 1}])
def test_another_callback_takes_its_place(server, sender, gateway, key, change):
    body = {**key, "status": "Error", "code": "E1", "message": "m"}
    gateway.post("/api/tickets/callback", body)
    body |= change
    assert gateway.post("/api/tickets/callback", body).status == 200
    after = stored(sender, key)
    assert json.loads(after["callbackPayloadJson"]) == body
    assert [after["callbackStatus"], after["callbackCode"], after["callbackMessage"]] == \
           [body["status"], body["code"], body["message"]]


def test_a_long_message_is_cut_and_the_callback_kept_whole(sender, gateway, key):
    message = "é" * 1999 + "🚚" + "x" * 900_000  # the emoji would be units 2000 and 2001
    body = json.dumps({**key, "status": "Error", "message": message}, ensure_ascii=False).encode()
    for _ in range(2):
        assert gateway.post("/api/tickets/callback", body=body).status == 200
        after = stored(sender, key)
        assert after["callbackMessage"] == "é" * 1999
        assert after["callbackPayloadJson"].encode() == body


def test_another_payload_of_the_ticket_awaits_a_callback_of_its_own(sender, gateway, key):
    body = {**key, "status": "Success"}
    gateway.post("/api/tickets/callback", body)
    send(sender, key)
    assert stored(sender, key)["callbackStatus"] == "Success", "the same payload"
    send(sender, key, shipmentEvent="DLV")
    after = stored(sender, key)
    assert [after[name] for name in COLUMNS[:5]] == ["Pending", None, None, None, None]
    assert gateway.post("/api/tickets/callback", body).status == 200
    assert stored(sender, key)["callbackStatus"] == "Success"


def test_phases_have_callbacks_of_their_own(sender, gateway, key):
    other = {**key, "phaseCode": 6}
    assert gateway.post("/api/tickets/callback", {**other, "status": "Error"}).status == 404
    send(sender, other)
    gateway.post("/api/tickets/callback", {**other, "status": "Error"})
    assert stored(sender, other)["callbackStatus"] == "Error"
    assert stored(sender, key)["callbackStatus"] == "Pending"


def test_of_many_at_once_one_is_kept_whole(sender, gateway, key):
    bodies = [{**key, "status": "Error", "code": f"C{i}", "message": f"m{i}"} for i in range(4)] * 2
    statuses = []
    threads = [threading.Thread(target=lambda b=b: statuses.append(gateway.post("/api/tickets/callback", b).status))
               for b in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 8
    after = stored(sender, key)
    kept = json.loads(after["callbackPayloadJson"])
    assert (after["callbackCode"], after["callbackMessage"]) == (kept["code"], kept["message"])


@pytest.mark.parametrize("change", [{"businessEntity": "ABC"}, {"businessDocId": "nobody"}, {"phaseCode": 6},
                                    {"phaseCode": 7}])
def test_no_such_ticket_is_404(gateway, key, change):
    answer = gateway.post("/api/tickets/callback", {**key, "status": "Success", **change})
    assert (answer.status, answer.code) == (404, "NotFound")


GOOD = {"businessEntity": "TCK", "businessDocId": "x", "phaseCode": 15, "status": "Success"}
BAD = [
    ({}, {"businessEntity", "businessDocId", "phaseCode", "status"}),
    ({**GOOD, "status": None}, {"status"}),
    ({**GOOD, "status": "Received"}, {"status"}),
    ({**GOOD, "status": {}}, {"status"}),
    ({**GOOD, "businessEntity": "x" * 101}, {"businessEntity"}),
    ({**GOOD, "businessDocId": " "}, {"businessDocId"}),
    ({**GOOD, "phaseCode": "x"}, {"phaseCode"}),
    ({**GOOD, "phaseCode": 1.5}, {"phaseCode"}),
    ({**GOOD, "phaseCode": 99999999999}, {"phaseCode"}),
    ({**GOOD, "code": "x" * 51}, {"code"}),
    ({**GOOD, "message": ["x"]}, {"message"}),
    ({**GOOD, "processedAt": "yesterday"}, {"processedAt"}),
    ({**GOOD, "code": {}, "status": "?", "phaseCode": ""}, {"code", "status", "phaseCode"}),
]


@pytest.mark.parametrize("body,fields", BAD, ids=[str(i) for i in range(len(BAD))])
def test_every_bad_field_is_named(gateway, body, fields):
    answer = gateway.post("/api/tickets/callback", body)
    assert (answer.status, answer.code, answer.bad_fields) == (400, "ValidationFailed", fields)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"{}{}", b'{"status":"\\u0000"}'])
def test_a_body_that_is_no_document_is_400(gateway, body):
    assert gateway.post("/api/tickets/callback", body=body, headers={"Content-Type": "application/json"}).status == 400


def test_only_clients_with_the_scope(server, sender, key):
    body = {**key, "status": "Success"}
    assert server.anonymous().post("/api/tickets/callback", body).status == 401
    answer = sender.post("/api/tickets/callback", body)
    assert (answer.status, answer.code) == (403, "ScopeMissing")
    assert stored(sender, key)["callbackStatus"] == "Pending"
    answer = sender.get("/api/tickets/callback")
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")


def test_a_callback_is_stored_masked_and_known_again(server, sender, gateway, key):
    """By a keyed hash: what is stored no longer tells it from another."""
    body = {**key, "status": "Error", "message": "sem cadastro: 529.982.247-25",
            "details": {"nome": "Maria", "cpf": "52998224725", "fone": "+5511912345678", "motivo": "novo"}}
    assert gateway.post("/api/tickets/callback", body).status == 200
    first = stored(sender, key)
    assert first["callbackMessage"] == "sem cadastro: ***.***.***-25"
    assert json.loads(first["callbackPayloadJson"])["details"] == {
        "nome": "***", "cpf": "*********25", "fone": "+***********78", "motivo": "novo"}
    assert gateway.post("/api/tickets/callback", body).status == 200
    assert stored(sender, key) == first, "the same changes nothing"

    def hashed():
        [[digest]] = server.backend.query(
            f"SELECT CallbackHash FROM TB_TICKET_INTERFACE WHERE BusinessDocId = '{key['businessDocId']}'")
        return digest

    before = hashed()
    other = {**body, "details": {**body["details"], "cpf": "12345678925"}}
    assert gateway.post("/api/tickets/callback", other).status == 200
    assert stored(sender, key)["callbackPayloadJson"] == first["callbackPayloadJson"] and hashed() != before
