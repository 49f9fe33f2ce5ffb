"""/api/functional-ack: complete and short acks, refused ones, and their states."""

import http.server
import json
import threading
import uuid
from urllib.parse import urlencode

import pytest
from harness import wait_for
from test_openapi import DOCUMENT, check

PATH = "/api/functional-ack"
TABLE = "TB_FUNCTIONAL_ACK_OUTBOX"


def fresh():
    return f"ACK_{uuid.uuid4().hex[:16]}"


def short(doc_id, **fields):
    return {"businessEntity": "TCK", "businessDocId": doc_id, "operation": "PROCESS", "status": "200",
            "message": "Concluído", **fields}


def whole(doc_id):
    return {"functionalAck": {
        "functionalDocID": {"businessAppID": "ASB", "businessEntity": "TCK", "businessDocID": doc_id,
                            "originalBusinessDocID": "", "userID": ""},
        "header": [{"ackBusinessApplication": "OTHER", "origMessageID": doc_id,
                    "originalBusinessObject": "AS400_TICKET", "originalBusinessOperation": "PROCESS", "status": "201"}],
        "items": [{"message": "tudo certo"}], "extra": {"kept": [1.50]}}}


@pytest.fixture(scope="module")
def client(server):
    return server.new_client("Acks", scopes=["interface"])


def enqueue(client, document):
    answer = client.post(PATH, document)
    assert answer.status == 202, answer
    check(answer.json, DOCUMENT["components"]["schemas"]["FunctionalAckQueued"], "FunctionalAckQueued")
    return answer.json


def listed(client, doc_id, **query):
    answer = client.get(f"{PATH}?{urlencode({'businessDocId': doc_id, **query})}")
    assert answer.status == 200, answer
    check(answer.json, DOCUMENT["components"]["schemas"]["FunctionalAckPage"], "FunctionalAckPage")
    return answer.json


def rows(server, key):
    return [tuple(row) for row in server.backend.query(
        f"SELECT BusinessDocId, PayloadJson, TargetUrl, Status, AttemptCount FROM {TABLE} WHERE Id = {key}")]


def total(server):
    [[n]] = server.backend.query(f"SELECT COUNT(*) FROM {TABLE}")
    return n


# --- storing -----------------------------------------------------------------------------------------


def test_a_whole_ack_is_kept_byte_for_byte(server, client):
    doc_id = fresh()
    text = json.dumps(whole(doc_id), indent=3, ensure_ascii=False).replace("certo", "cérto \\u00e9 日本")
    answer = client.post(PATH, body=text.encode())
    assert (answer.status, answer.json["businessDocId"], answer.json["status"]) == (202, doc_id, "Pending"), answer
    assert rows(server, answer.json["id"]) == [(doc_id, text, "", "Pending", 0)]


@pytest.mark.parametrize("operation,status,entity,target", [
    ("CREATE", "201", "PRC", "AS400_COUNTERPARTY"), ("UPDATE", "200", "PRC", "AS400_COUNTERPARTY"),
    ("PROCESS", "400", "TCK", "AS400_TICKET"), ("process", 500, "XYZ", "AS400_TICKET"),
])
def test_a_short_one_is_built(server, client, operation, status, entity, target):
    doc_id = fresh()
    made = enqueue(client, short(doc_id, operation=operation, status=status, businessEntity=entity))
    assert (made["businessDocId"], made["status"]) == (doc_id, "Pending")
    [(_, payload, *state)] = rows(server, made["id"])
    assert state == ["", "Pending", 0]
    assert json.loads(payload) == {"functionalAck": {
        "functionalDocID": {"businessAppID": "", "businessEntity": entity, "businessDocID": doc_id,
                            "originalBusinessDocID": "", "userID": ""},
        "header": [{"ackBusinessApplication": "CRN", "origMessageID": doc_id, "originalBusinessObject": target,
                    "originalBusinessOperation": operation.upper(), "status": str(status)}],
        "items": [{"message": "Concluído"}]}}


def test_the_message_may_be_left_out_and_names_are_matched_without_case(server, client):
    doc_id = fresh()
    made = enqueue(client, {"BUSINESSENTITY": "TCK", "businessDocID": doc_id, "Operation": "CREATE", "STATUS": "201",
                            "unknown": [None]})
    [(_, payload, *_)] = rows(server, made["id"])
    assert json.loads(payload)["functionalAck"]["items"] == [{"message": ""}]


def test_an_ack_of_1_mb_is_stored_whole(server, client):
    document = whole(fresh())
    document["functionalAck"]["items"][0]["message"] = ""
    room = 1048576 - len(json.dumps(document))
    document["functionalAck"]["items"][0]["message"] = "m" * room
    body = json.dumps(document)
    assert len(body) == 1048576
    answer = client.post(PATH, body=body.encode())
    assert answer.status == 202, answer
    assert rows(server, answer.json["id"])[0][1] == body
    assert client.post(PATH, body=body.encode() + b" ").status == 413


def test_every_call_is_an_ack_of_its_own(client):
    doc_id, answers = fresh(), []
    threads = [threading.Thread(target=lambda: answers.append(enqueue(client, short(doc_id)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({a["id"] for a in answers}) == 8
    assert {item["id"] for item in listed(client, doc_id)["items"]} == {a["id"] for a in answers}


# --- what is refused ---------------------------------------------------------------------------------

BAD = [
    ({}, {"businessEntity", "businessDocId", "operation", "status"}),
    (short("", businessEntity=" ", operation="", status=None),
     {"businessEntity", "businessDocId", "operation", "status"}),
    (short("x" * 101, businessEntity="x" * 101), {"businessEntity", "businessDocId"}),
    (short("x", operation="DELETE", status="404"), {"operation", "status"}),
    (short("x", operation=["CREATE"], status={}), {"operation", "status"}),
    (short("x", message="m" * 2001), {"message"}),
    (short("x", message=["m"]), {"message"}),
    (short("x", originalBusinessObject="AS400_SHIP"), {"originalBusinessObject"}),
    ({"functionalAck": {}}, {"functionalAck.functionalDocID.businessDocId"}),
    ({"functionalAck": []}, {"functionalAck"}),
    ({"functionalAck": [whole("x")["functionalAck"]]}, {"functionalAck"}),
    (whole(""), {"functionalAck.functionalDocID.businessDocID"}),
    (whole("x" * 101), {"functionalAck.functionalDocID.businessDocID"}),
]


@pytest.mark.parametrize("document,fields", BAD, ids=[str(i) for i in range(len(BAD))])
def test_validation_names_every_bad_field_and_stores_nothing(server, client, document, fields):
    before = total(server)
    answer = client.post(PATH, document)
    assert (answer.status, answer.code) == (400, "ValidationFailed"), answer
    assert answer.bad_fields == fields
    assert total(server) == before


@pytest.mark.parametrize("body,code", [
    (b"{", "MalformedJson"), (b"[]", "BadRequest"), (json.dumps(short("x")).encode() * 2, "MalformedJson"),
    (b'{"businessDocId": "x", "businessDocId": "y"}', "DuplicateKey"), (b'{"message": "\\udc00"}', "InvalidText"),
])
def test_a_body_that_is_not_one_document_is_400(server, client, body, code):
    before = total(server)
    answer = client.post(PATH, body=body)
    assert (answer.status, answer.code) == (400, code), answer
    assert total(server) == before


def test_scopes(server):
    other = server.new_client("Other", scopes=["callback", "imports", "acks", "events", "integrations"])
    for caller, status in ((other, 403), (server.anonymous(), 401)):
        assert caller.post(PATH, short("x")).status == status
        assert caller.get(f"{PATH}?businessDocId=x").status == status


# --- reading -----------------------------------------------------------------------------------------


def test_the_acks_of_a_document_are_listed_newest_first(client):
    doc_id = fresh()
    made = [enqueue(client, short(doc_id))["id"] for _ in range(5)]
    enqueue(client, short(fresh()))
    seen = []
    for page, size in ((1, 2), (2, 2), (3, 1), (4, 0)):
        answer = listed(client, doc_id, page=page, pageSize=2)
        assert (answer["page"], answer["pageSize"], answer["total"], len(answer["items"])) == (page, 2, 5, size)
        seen += [item["id"] for item in answer["items"]]
    assert seen == made[::-1]
    [item] = listed(client, f" {doc_id} ", pageSize=1)["items"]
    assert item["createdAt"] == item["nextAttemptAt"]
    assert {k: v for k, v in item.items() if k not in ("id", "createdAt", "nextAttemptAt")} == {
        "businessDocId": doc_id, "targetUrl": "", "status": "Pending", "attemptCount": 0, "lastAttemptAt": None,
        "sentAt": None, "lastError": None}


def test_a_document_without_acks_has_an_empty_page(client):
    for doc_id in ("nobody", "x" * 300, "%"):
        assert listed(client, doc_id) == {"items": [], "page": 1, "pageSize": 20, "total": 0}


@pytest.mark.parametrize("query,fields", [
    ("", {"businessDocId"}), ("businessDocId=", {"businessDocId"}), ("businessDocId=%20", {"businessDocId"}),
    ("businessDocId=x&page=0", {"page"}), ("businessDocId=x&pageSize=201", {"pageSize"}),
])
def test_bad_queries(client, query, fields):
    answer = client.get(f"{PATH}?{query}")
    assert (answer.status, answer.bad_fields) == (400, fields)


# --- sending -----------------------------------------------------------------------------------------


class Gateway(http.server.ThreadingHTTPServer):
    """A gateway that accepts everything."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.received = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.received.append((self.path, dict(self.headers), body.decode()))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass


def test_with_a_gateway_acks_are_sent_at_once(make_server):
    gateway = Gateway()
    url = f"http://127.0.0.1:{gateway.server_port}/gateway/acks"
    server = make_server(config={
        "gateway": {"functional_ack_url": url, "api_key": "key-of-the-gateway", "ack_business_application": "XPTO"},
        "delivery": {"allow_private_targets": "on"}})
    server.secrets.add("key-of-the-gateway")
    client, doc_id, party = server.new_client(), fresh(), fresh()
    text = json.dumps(whole(doc_id), indent=1)
    assert client.post(PATH, body=text.encode()).status == 202
    assert client.post("/api/counterparties", {"businessDocId": party, "functionalAckIsRequired": True}).status == 200
    for key in (doc_id, party):
        [ack] = wait_for(lambda key=key: [i for i in listed(client, key)["items"] if i["status"] == "Sent"], "sent")
        assert (ack["targetUrl"], ack["attemptCount"], ack["nextAttemptAt"], ack["lastError"]) == (url, 1, None, None)
        assert ack["sentAt"] >= ack["createdAt"]
    sent = {headers["X-Correlation-Id"]: (path, headers, body) for path, headers, body in gateway.received}
    assert len(gateway.received) == 2 and set(sent) == {doc_id, party}
    path, headers, body = sent[doc_id]
    assert (path, body, headers["x-Gateway-APIKey"]) == ("/gateway/acks", text, "key-of-the-gateway")
    assert json.loads(sent[party][2])["functionalAck"]["header"][0]["ackBusinessApplication"] == "XPTO"
    gateway.shutdown()
    gateway.server_close()
