"""/api/counterparties: both shapes, children replaced whole, raw payload, functional acks, pages and filters."""

import copy
import json
import re
import threading
import uuid
from urllib.parse import urlencode

import pytest
from test_openapi import DOCUMENT, check

PATH = "/api/counterparties"

ADDRESS = {"addressType": {"code": "1", "name": "PRINCIPAL"}, "phone": "", "fax": "", "addrLine1": "Rua São João, 10",
           "addrLine2": "Sala 2", "addrLine3City": "4315701", "zipCode": "96570-000", "state": "RS",
           "stateLocalName": "Rio Pardo", "isMainAddress": "true", "isDeleted": "false"}
FLAT_ADDRESS = {"addressTypeCode": "1", "addressTypeName": "PRINCIPAL", "phone": None, "fax": None,
                "addrLine1": "Rua São João, 10", "addrLine2": "Sala 2", "cityCode": "4315701", "zipCode": "96570-000",
                "state": "RS", "district": "Rio Pardo", "isMainAddress": True, "isDeleted": False}
FISCAL = {"fiscalReferenceType": {"code": "BR1", "name": "CNPJ/CPF"}, "fiscalNumber": "00000000000191"}
FLAT_FISCAL = {"fiscalReferenceTypeCode": "BR1", "fiscalReferenceTypeName": "CNPJ/CPF",
               "fiscalNumber": "00000000000191"}


def fresh(prefix="CP"):
    return f"{prefix}_{uuid.uuid4().hex[:16]}"


def envelope(doc_id, ack="false", **data):
    """As the sending system writes it: booleans as text, empty text for what it does not have."""
    return {"counterparty": {
        "functionalDocID": {"businessAppID": "ASB", "businessEntity": "PRC", "businessDocID": doc_id,
                            "originalBusinessDocID": f"{doc_id}-0", "userID": ""},
        "functionalAckIsRequired": ack,
        "data": {"counterpartyID": "0050-1", "name": "Comércio São João Ltda", "localName": "São João",
                 "searchName": "SAO JOAO", "source": "", "entityType": "CLI", "referenceCode": "74",
                 "isDeleted": "false", "addressList": {"address": [copy.deepcopy(ADDRESS)]},
                 "fiscalReferenceList": {"fiscalReferences": [copy.deepcopy(FISCAL)]}, **data}}}


def flat(doc_id, **fields):
    return {"businessDocId": doc_id, "businessAppId": "ASB", "businessEntity": "PRC",
            "originalBusinessDocId": f"{doc_id}-0", "counterpartyId": "0050-1", "name": "Comércio São João Ltda",
            "localName": "São João", "searchName": "SAO JOAO", "source": None, "entityType": "CLI",
            "referenceCode": "74", "isDeleted": False, "addresses": [dict(FLAT_ADDRESS)],
            "fiscalReferences": [dict(FLAT_FISCAL)], **fields}


@pytest.fixture(scope="module")
def client(server):
    return server.new_client("Interface", scopes=["interface"])


def described(value, schema):
    check(value, DOCUMENT["components"]["schemas"][schema], schema)
    return value


def store(client, document, created):
    answer = client.post(PATH, document)
    assert answer.status == 200, answer
    described(answer.json, "CounterpartyStored")
    assert (answer.json["status"], answer.json["created"]) == ("Received", created)
    return answer.json["id"]


def one(client, doc_id, entity="PRC"):
    answer = client.get(f"{PATH}?{urlencode({'businessEntity': entity, 'businessDocID': doc_id})}")
    assert answer.status == 200, answer
    return described(answer.json, "Counterparty")


def acks(client, doc_id):
    return client.get(f"/api/functional-ack?businessDocId={doc_id}").json["items"]


def count(server, table, where="1 = 1"):
    [[n]] = server.backend.query(f"SELECT COUNT(*) FROM {table} WHERE {where}")
    return n


# --- storing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [envelope, flat])
def test_what_was_sent_comes_back_in_columns(client, shape):
    doc_id = fresh()
    key = store(client, shape(doc_id), created=True)
    stored = one(client, doc_id)
    times = stored.pop("createdAt"), stored.pop("updatedAt")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", times[0]) and times[1] is None
    assert json.loads(stored.pop("rawPayload")) == shape(doc_id)
    assert stored == {
        "id": key, "businessDocId": doc_id, "businessAppId": "ASB", "businessEntity": "PRC",
        "originalBusinessDocId": f"{doc_id}-0", "counterpartyId": "0050-1", "entityType": "CLI",
        "name": "Comércio São João Ltda", "localName": "São João", "searchName": "SAO JOAO", "referenceCode": "74",
        "isDeleted": False, "source": None, "status": "Received", "statusMessage": None,
        "addresses": [FLAT_ADDRESS], "fiscalReferences": [FLAT_FISCAL]}


def test_the_key_alone_is_enough(client):
    doc_id = fresh()
    store(client, {"businessDocId": doc_id}, created=True)
    stored = client.get(f"{PATH}?businessDocId={doc_id}").json
    assert (stored["name"], stored["businessEntity"], stored["isDeleted"]) == (None, None, False)
    assert (stored["addresses"], stored["fiscalReferences"]) == ([], [])


def test_a_second_document_replaces_the_first_whole(server, client):
    doc_id = fresh()
    first = [dict(ADDRESS, addrLine1=f"Rua {i}") for i in range(3)]
    key = store(client, envelope(doc_id, addressList={"address": first}), created=True)
    assert [a["addrLine1"] for a in one(client, doc_id)["addresses"]] == ["Rua 0", "Rua 1", "Rua 2"]
    second = flat(doc_id, name="Outro", searchName=None, isDeleted="true", businessEntity="ABC", source="X",
                  addresses=[dict(FLAT_ADDRESS, addrLine1="Só esta", isMainAddress=False, isDeleted=True)],
                  fiscalReferences=[])
    assert store(client, second, created=False) == key
    stored = one(client, doc_id, "ABC")
    assert (stored["name"], stored["searchName"], stored["isDeleted"], stored["source"]) == ("Outro", None, True, "X")
    assert stored["updatedAt"] >= stored["createdAt"]
    assert stored["addresses"] == [dict(FLAT_ADDRESS, addrLine1="Só esta", isMainAddress=False, isDeleted=True)]
    assert stored["fiscalReferences"] == []
    assert count(server, "TB_COUNTERPARTY_ADDRESSES", f"CounterpartyIdFk = {key}") == 1
    assert count(server, "TB_COUNTERPARTY_FISCAL_REFERENCES", f"CounterpartyIdFk = {key}") == 0


def test_the_body_is_kept_byte_for_byte(server, client):
    doc_id = fresh()
    text = ('\r\n {"X-extra": [1.50, 1e3, "\\u00e7\\/", {"deep": null}],\t"BUSINESSDOCID" :"%s",\n '
            '"name": "\\ud83d\\ude9a ç \\" \\\\ 日本", "isDeleted":"FALSE"}  \n') % doc_id
    answer = client.post(PATH, body=text.encode())
    assert answer.status == 200, answer
    assert one(client, doc_id, "")["rawPayload"] == text
    [[raw]] = server.backend.query(f"SELECT RawPayload FROM TB_COUNTERPARTIES WHERE BusinessDocId = '{doc_id}'")
    assert raw == text


def test_names_are_matched_without_case_and_unknown_members_ignored(client):
    doc_id = fresh()
    store(client, {"BUSINESSDOCID": doc_id, "Name": "N", "ENTITYTYPE": 5, "isdeleted": 1, "whatever": {"x": [1]},
                   "Addresses": [{"ZIPCODE": "1", "unknown": 2}], "FISCALreferences": {"fiscalNUMBER": 191}},
          created=True)
    stored = one(client, doc_id, "")
    assert (stored["name"], stored["entityType"], stored["isDeleted"]) == ("N", "5", True)
    assert [a["zipCode"] for a in stored["addresses"]] == ["1"]
    assert [f["fiscalNumber"] for f in stored["fiscalReferences"]] == ["191"], "one object is a list of one"


def test_many_children_keep_their_order(client):
    doc_id = fresh()
    store(client, flat(doc_id, addresses=[{"addrLine1": f"Rua {i}"} for i in range(300)],
                       fiscalReferences=[{"fiscalNumber": str(i)} for i in range(130)]), created=True)
    stored = one(client, doc_id)
    assert [a["addrLine1"] for a in stored["addresses"]] == [f"Rua {i}" for i in range(300)]
    assert [f["fiscalNumber"] for f in stored["fiscalReferences"]] == [str(i) for i in range(130)]


def test_widest_values_fit(client):
    doc_id = fresh().ljust(100, "x")
    document = flat(doc_id, businessAppId="a" * 20, businessEntity="e" * 20, originalBusinessDocId="o" * 100,
                    counterpartyId="c" * 50, entityType="t" * 10, name="n" * 200, localName="l" * 200,
                    searchName="s" * 200, referenceCode="r" * 50, source="s" * 20)
    store(client, document, created=True)
    stored = one(client, doc_id, "e" * 20)
    assert all(stored[k] == v for k, v in document.items() if k not in ("addresses", "fiscalReferences"))


def test_a_body_of_1_mb_is_stored_whole(server, client):
    doc_id = fresh()
    document = flat(doc_id, comment="")
    document["comment"] = "ç" * ((1048576 - len(json.dumps(document))) // 2)
    body = json.dumps(document, ensure_ascii=False).encode()
    assert 1048000 < len(body) <= 1048576
    assert client.post(PATH, body=body).json["created"] is True
    assert one(client, doc_id)["rawPayload"].encode() == body
    answer = client.post(PATH, body=body + b" " * (1048577 - len(body)))
    assert (answer.status, answer.code) == (413, "PayloadTooLarge")


def test_of_many_at_once_one_creates_and_none_mixes_its_children(client):
    doc_id, threads = fresh("RACE"), 8
    answers = []

    def post(i):
        answers.append(client.post(PATH, flat(
            doc_id, name=f"N{i}", addresses=[{"addrLine1": f"N{i}"} for _ in range(5)],
            fiscalReferences=[{"fiscalNumber": f"N{i}"} for _ in range(3)], functionalAckIsRequired=True)))

    running = [threading.Thread(target=post, args=(i,)) for i in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert [a.status for a in answers] == [200] * threads, answers
    assert sorted(a.json["created"] for a in answers) == [False] * (threads - 1) + [True]
    assert len({a.json["id"] for a in answers}) == 1
    stored = one(client, doc_id)
    assert [a["addrLine1"] for a in stored["addresses"]] == [stored["name"]] * 5
    assert [f["fiscalNumber"] for f in stored["fiscalReferences"]] == [stored["name"]] * 3
    assert len(acks(client, doc_id)) == threads


def test_who_reads_while_it_is_replaced_sees_one_document(client):
    doc_id, stop = fresh(), threading.Event()

    def version(i):
        return flat(doc_id, name=f"N{i}", addresses=[{"addrLine1": f"N{i}"}] * (1 + i % 3),
                    fiscalReferences=[{"fiscalNumber": f"N{i}"}] * (1 + i % 3))

    def replace():
        for i in range(1, 10000):
            if stop.is_set():
                return
            client.post(PATH, version(i))

    store(client, version(0), created=True)
    writer = threading.Thread(target=replace)
    writer.start()
    try:
        seen = [one(client, doc_id) for _ in range(60)]
        while len({stored["name"] for stored in seen}) < 2 and len(seen) < 10000:
            seen.append(one(client, doc_id))  # the writer has not had its turn yet
    finally:
        stop.set()
        writer.join()
    for stored in seen:
        i = int(stored["name"][1:])
        assert json.loads(stored["rawPayload"])["name"] == f"N{i}"
        assert [a["addrLine1"] for a in stored["addresses"]] == [f"N{i}"] * (1 + i % 3)
        assert [f["fiscalNumber"] for f in stored["fiscalReferences"]] == [f"N{i}"] * (1 + i % 3)
    assert len({stored["name"] for stored in seen}) > 1


# --- functional acks ---------------------------------------------------------------------------------


def ack_payloads(server, doc_id):
    rows = server.backend.query("SELECT PayloadJson, TargetUrl, Status, AttemptCount FROM TB_FUNCTIONAL_ACK_OUTBOX "
                                f"WHERE BusinessDocId = '{doc_id}' ORDER BY Id")
    assert all(tuple(row[1:]) == ("", "Pending", 0) for row in rows), rows
    return [json.loads(row[0])["functionalAck"] for row in rows]


def test_an_ack_is_enqueued_with_the_document_that_asks_for_one(server, client):
    doc_id = fresh()
    store(client, envelope(doc_id, ack="true"), created=True)
    store(client, envelope(doc_id, ack="TRUE", name="Outro"), created=False)
    store(client, envelope(doc_id, ack="false"), created=False)
    created, updated = ack_payloads(server, doc_id)
    for ack, operation, status in ((created, "CREATE", "201"), (updated, "UPDATE", "200")):
        assert ack["functionalDocID"] == {"businessAppID": "ASB", "businessEntity": "PRC", "businessDocID": doc_id,
                                          "originalBusinessDocID": f"{doc_id}-0", "userID": ""}
        assert ack["header"] == [{"ackBusinessApplication": "CRN", "origMessageID": doc_id,
                                  "originalBusinessObject": "AS400_COUNTERPARTY",
                                  "originalBusinessOperation": operation, "status": status}]
        assert [set(item) for item in ack["items"]] == [{"message"}] and ack["items"][0]["message"]


def test_no_ack_without_being_asked_for(server, client):
    doc_id = fresh()
    store(client, envelope(doc_id), created=True)
    store(client, flat(doc_id), created=False)
    assert ack_payloads(server, doc_id) == [] and acks(client, doc_id) == []


def test_the_flat_form_may_ask_for_an_ack_too(server, client):
    doc_id = fresh()
    store(client, flat(doc_id, functionalAckIsRequired=True), created=True)
    [ack] = ack_payloads(server, doc_id)
    assert ack["header"][0]["status"] == "201"


# --- what is refused ---------------------------------------------------------------------------------


def in_envelope(path, value):
    """The envelope with one member replaced."""
    document = envelope("CP_WRONG", ack="true")
    node = document["counterparty"]
    *way, last = path.split("/")
    for step in way:
        node = node[int(step) if step.isdigit() else step]
    node[int(last) if last.isdigit() else last] = value
    return document


DATA, DOC = "counterparty.data", "counterparty.functionalDocID"
BAD = [
    ({}, {"businessDocId"}),
    ({"businessDocId": ""}, {"businessDocId"}),
    ({"businessDocId": "  "}, {"businessDocId"}),
    ({"businessDocId": None}, {"businessDocId"}),
    ({"businessDocId": True}, {"businessDocId"}),
    ({"businessDocId": "CP_WRONG\n1"}, {"businessDocId"}),
    ({"businessDocId": "x" * 101}, {"businessDocId"}),
    ({"businessDocId": "🚚" * 51}, {"businessDocId"}),  # 102 units of UTF-16, which SQL Server counts
    (flat("CP_WRONG", businessAppId="x" * 21, businessEntity="x" * 21, originalBusinessDocId="x" * 101,
          counterpartyId="x" * 51, entityType="x" * 11, name="x" * 201, localName="x" * 201, searchName="x" * 201,
          referenceCode="x" * 51, source="x" * 21, isDeleted="maybe"),
     {"businessAppId", "businessEntity", "originalBusinessDocId", "counterpartyId", "entityType", "name", "localName",
      "searchName", "referenceCode", "source", "isDeleted"}),
    (flat("CP_WRONG", functionalAckIsRequired="sim"), {"functionalAckIsRequired"}),
    (flat("CP_WRONG", name=["x"]), {"name"}),
    (flat("CP_WRONG", name={}), {"name"}),
    (flat("CP_WRONG", addresses=["x"]), {"addresses[0]"}),
    (flat("CP_WRONG", addresses=7), {"addresses"}),
    (flat("CP_WRONG", addresses=[{}] * 1001), {"addresses"}),
    (flat("CP_WRONG", addresses=[{}, {"zipCode": "x" * 21, "state": "x" * 11, "isMainAddress": "?"}]),
     {"addresses[1].zipCode", "addresses[1].state", "addresses[1].isMainAddress"}),
    (flat("CP_WRONG", addresses=[{"cityCode": "x" * 31, "district": "x" * 101, "phone": "x" * 31, "fax": "x" * 31,
                                "addrLine1": "x" * 201, "addrLine2": "x" * 201, "addressTypeCode": "x" * 11,
                                "addressTypeName": "x" * 51}]),
     {f"addresses[0].{n}" for n in ("cityCode", "district", "phone", "fax", "addrLine1", "addrLine2",
                                    "addressTypeCode", "addressTypeName")}),
    (flat("CP_WRONG", fiscalReferences=[{"fiscalNumber": "x" * 31, "fiscalReferenceTypeCode": "x" * 11,
                                       "fiscalReferenceTypeName": "x" * 51}]),
     {f"fiscalReferences[0].{n}" for n in ("fiscalNumber", "fiscalReferenceTypeCode", "fiscalReferenceTypeName")}),
    ({"counterparty": {}}, {f"{DOC}.businessDocId"}),
    ({"counterparty": [envelope("CP_WRONG")["counterparty"]]}, {"counterparty"}),
    ({"counterparty": "x"}, {"counterparty"}),
    (in_envelope("functionalDocID", 7), {DOC, f"{DOC}.businessDocId"}),
    (in_envelope("functionalDocID/businessDocID", ""), {f"{DOC}.businessDocID"}),
    (in_envelope("data", "text"), {DATA}),
    (in_envelope("data/name", "x" * 201), {f"{DATA}.name"}),
    (in_envelope("data/addressList/address/0/zipCode", "x" * 21), {f"{DATA}.addressList.address[0].zipCode"}),
    (in_envelope("data/addressList/address/0/addressType/code", "x" * 11),
     {f"{DATA}.addressList.address[0].addressType.code"}),
    (in_envelope("data/fiscalReferenceList/fiscalReferences/0/fiscalNumber", {}),
     {f"{DATA}.fiscalReferenceList.fiscalReferences[0].fiscalNumber"}),
]


@pytest.mark.parametrize("document,fields", BAD, ids=[str(i) for i in range(len(BAD))])
def test_validation_names_every_bad_field_and_stores_nothing(server, client, document, fields):
    answer = client.post(PATH, document)
    assert (answer.status, answer.code) == (400, "ValidationFailed"), answer
    assert answer.bad_fields == fields
    assert count(server, "TB_COUNTERPARTIES", "BusinessDocId LIKE 'CP_WRONG%' OR BusinessDocId LIKE 'x%'") == 0
    assert count(server, "TB_FUNCTIONAL_ACK_OUTBOX", "BusinessDocId LIKE 'CP_WRONG%'") == 0


GOOD = json.dumps(flat("CP_WRONG")).encode()


@pytest.mark.parametrize("body,code", [
    (b"", "MalformedJson"), (b"{", "MalformedJson"), (b"[" + GOOD + b"]", "BadRequest"), (b'"x"', "BadRequest"),
    (GOOD + GOOD, "MalformedJson"), (GOOD + b"\n" + GOOD, "MalformedJson"),
    (b'{"businessDocId": "CP_WRONG", "businessDocId": "CP_WRONG"}', "DuplicateKey"),
    (b'{"businessDocId": "CP_WRONG", "name": "\xff"}', "InvalidText"),
    (b'{"businessDocId": "CP_WRONG", "name": "\\ud800"}', "InvalidText"),
    (b'{"businessDocId": "CP_WRONG", "name": "\\u0000"}', "InvalidText"),
    (b'{"businessDocId": "CP_WRONG", "x": ' + b"[" * 65 + b"]" * 65 + b"}", "TooDeep"),
])
def test_a_body_that_is_not_one_document_is_400(server, client, body, code):
    answer = client.post(PATH, body=body, headers={"Content-Type": "application/json"})
    assert (answer.status, answer.code) == (400, code), answer
    assert answer.json["detail"]
    assert count(server, "TB_COUNTERPARTIES", "BusinessDocId = 'CP_WRONG'") == 0


def test_methods_types_and_scopes(server, client):
    assert client.post(PATH, body=GOOD, headers={"Content-Type": "text/plain"}).status == 415
    answer = client.request("DELETE", PATH)
    assert answer.status == 405 and set(answer.headers["Allow"].split(", ")) >= {"GET", "POST"}
    other = server.new_client("Other", scopes=["callback", "imports", "acks", "events", "integrations"])
    for answer in (other.post(PATH, body=GOOD), other.get(PATH)):
        assert (answer.status, answer.code) == (403, "ScopeMissing")
    for answer in (server.anonymous().post(PATH, body=GOOD), server.anonymous().get(PATH)):
        assert answer.status == 401
    assert count(server, "TB_COUNTERPARTIES", "BusinessDocId = 'CP_WRONG'") == 0


def test_the_version_prefix_is_the_same_call(client):
    doc_id = fresh()
    assert client.post(f"/v1{PATH}", flat(doc_id)).json["created"] is True
    assert client.get(f"/v1{PATH}?businessEntity=PRC&businessDocID={doc_id}").json["businessDocId"] == doc_id


# --- reading -----------------------------------------------------------------------------------------


def test_an_unknown_document_or_one_of_another_entity_is_404(client):
    doc_id = fresh()
    store(client, flat(doc_id), created=True)
    for query in ({"businessEntity": "PRC", "businessDocId": "nobody"},
                  {"businessEntity": "ABC", "businessDocId": doc_id},
                  {"businessDocId": doc_id + "x" * 100},
                  {"businessDocId": doc_id, "businessEntity": "PRC" + "x" * 30}):
        answer = client.get(f"{PATH}?{urlencode(query)}")
        assert (answer.status, answer.code) == (404, "NotFound"), query
    assert client.get(f"{PATH}?businessEntity=PRC&businessDocId=%00").status == 400
    for query in (f"businessDocID={doc_id}", f"BUSINESSENTITY=PRC&BUSINESSDOCID={doc_id}",
                  f"businessEntity=&businessDocId=%20{doc_id}%20"):
        assert client.get(f"{PATH}?{query}").json["businessDocId"] == doc_id, query


@pytest.fixture(scope="module")
def listed(server):
    """Nine of an entity of their own, in the order in which they were stored."""
    client = server.new_client("Lists", scopes=["interface"])
    entity, ids = fresh("E")[:20], [fresh() for _ in range(9)]
    for i, doc_id in enumerate(ids):
        numbers = [f"{entity}{i % 2}", "shared", "shared"]
        store(client, flat(doc_id, businessEntity=entity, entityType=("1", "CLI", "5")[i % 3],
                           counterpartyId=f"{entity}-{i // 4}",
                           fiscalReferences=[dict(FLAT_FISCAL, fiscalNumber=n) for n in numbers]), created=True)
    store(client, flat(ids[0], businessEntity=entity, entityType="1", counterpartyId=f"{entity}-0",
                       fiscalReferences=[dict(FLAT_FISCAL, fiscalNumber=f"{entity}0")] * 2), created=False)
    return client, entity, ids


def test_pages_hold_each_once_newest_first(listed):
    client, entity, ids = listed
    seen = []
    for page, size in ((1, 4), (2, 4), (3, 1), (4, 0)):
        answer = client.get(f"{PATH}?businessEntity={entity}&page={page}&pageSize=4").json
        assert (answer["page"], answer["pageSize"], answer["total"], len(answer["items"])) == (page, 4, 9, size)
        seen += [item["businessDocId"] for item in answer["items"]]
    assert seen == ids[::-1]
    whole = described(client.get(f"{PATH}?businessEntity={entity}").json, "CounterpartyPage")
    assert (whole["page"], whole["pageSize"], len(whole["items"])) == (1, 20, 9)
    assert set(whole["items"][0]) == {
        "id", "businessDocId", "businessAppId", "businessEntity", "originalBusinessDocId", "counterpartyId",
        "entityType", "name", "localName", "searchName", "referenceCode", "isDeleted", "source", "status",
        "statusMessage", "createdAt", "updatedAt"}


def test_without_an_entity_all_are_listed(listed):
    client, _, ids = listed
    answer = client.get(f"{PATH}?pageSize=200").json
    assert answer["total"] >= 9
    assert set(ids) <= {item["businessDocId"] for item in answer["items"]} or answer["total"] > 200


FILTERS = [
    ("entityType=CLI", lambda i: i % 3 == 1),
    ("entityType=1", lambda i: i % 3 == 0),
    ("counterpartyId={entity}-1", lambda i: i // 4 == 1),
    ("fiscalNumber={entity}1", lambda i: i % 2 == 1),
    ("fiscalNumber=shared", lambda i: i != 0),
    ("COUNTERPARTYID={entity}-0&FiscalNumber={entity}0", lambda i: i // 4 == 0 and i % 2 == 0),
    ("entityType=5&counterpartyId={entity}-1&fiscalNumber=shared", lambda i: i == 5),
    ("entityType=&counterpartyId=&fiscalNumber=", lambda i: True),
    ("entityType=nobody", lambda i: False),
    ("counterpartyId=nobody", lambda i: False),
    ("fiscalNumber=" + "9" * 40, lambda i: False),
    ("counterpartyId={entity}-0&fiscalNumber=nobody", lambda i: False),
]


@pytest.mark.parametrize("query,wanted", FILTERS, ids=[q for q, _ in FILTERS])
def test_filters_narrow_the_page(listed, query, wanted):
    client, entity, ids = listed
    expected = [doc_id for i, doc_id in enumerate(ids) if wanted(i)][::-1]
    answer = client.get(f"{PATH}?businessEntity={entity}&{query.format(entity=entity)}").json
    assert ([item["businessDocId"] for item in answer["items"]], answer["total"]) == (expected, len(expected))
    paged = client.get(f"{PATH}?businessEntity={entity}&{query.format(entity=entity)}&page=2&pageSize=1").json
    assert ([item["businessDocId"] for item in paged["items"]], paged["total"]) == (expected[1:2], len(expected))


@pytest.mark.parametrize("query,fields", [
    ("page=0", {"page"}), ("page=x", {"page"}), ("pageSize=201", {"pageSize"}),
    ("page=-1&pageSize=0", {"page", "pageSize"}),
])
def test_page_bounds(client, query, fields):
    answer = client.get(f"{PATH}?businessEntity=PRC&{query}")
    assert (answer.status, answer.bad_fields) == (400, fields)


def test_quotes_and_wildcards_are_only_text(client):
    doc_id = fresh("a'b\"%_[x]--;")
    store(client, flat(doc_id, counterpartyId="%' OR 1=1 --"), created=True)
    assert one(client, doc_id)["counterpartyId"] == "%' OR 1=1 --"
    page = client.get(f"{PATH}?{urlencode({'counterpartyId': '%'})}").json
    assert page["total"] == 0
