"""What operators see of all clients: tickets, and the search for a document by any of its ids."""

import uuid
from urllib.parse import quote, urlencode

import pytest
from harness import Server
from test_interface_tickets import flat, fresh_doc
from test_openapi import DOCUMENT, check
from test_outbox import Box, at

SCHEMAS = DOCUMENT["components"]["schemas"]
GATEWAY = {"functional_ack_url": "http://127.0.0.1:9/ack", "ticket_return_url": "http://127.0.0.1:9/return", "api_key": "k"}


@pytest.fixture(scope="module")
def server(_module_backends, tmp_path_factory):
    """Takes documents and lets them lie."""
    made = Server(_module_backends(), tmp_path_factory.mktemp("server"),
                  config={"server": {"roles": "api"}, "gateway": GATEWAY})
    yield made.start()
    made.finish()


@pytest.fixture(scope="module")
def clients(server):
    return [server.new_client(name, clientId=f"{name.lower()}-{uuid.uuid4().hex[:6]}") for name in ("North", "South")]


def tickets(server, **query):
    answer = server.admin().get(f"/admin/tickets?{urlencode(query)}")
    assert answer.status == 200, answer
    check(answer.json, SCHEMAS["AdminTicketPage"], "AdminTicketPage")
    return answer.json


def send(client, doc=None, **fields):
    payload = flat(doc, **fields)
    answer = client.post("/api/tickets", payload)
    assert answer.status == 200, answer
    return answer.json["id"], payload["businessDocId"]


# --- tickets ---


def test_tickets_of_all_clients_with_their_owner(server, clients):
    ids = [send(c)[0] for c in clients]
    found = {t["id"]: t["clientId"] for t in tickets(server)["items"]}
    assert [found[i] for i in ids] == [c.id for c in clients]
    mine = tickets(server, clientId=clients[0].id)["items"]
    assert ids[0] in [t["id"] for t in mine] and {t["clientId"] for t in mine} == {clients[0].id}
    assert tickets(server, clientId="nobody") == {"items": [], "page": 1, "pageSize": 20, "total": 0}


def test_every_filter_of_tickets(server, clients):
    box = backed(server)
    entity = uuid.uuid4().hex[:12]
    rows = {name: send(clients[0], f"{name}-{entity}", businessEntity=entity, phaseCode=phase)[0]
            for name, phase in (("a", 15), ("b", 6), ("c", 6))}
    box.write(f"UPDATE TB_TICKET_INTERFACE SET Status = 'Error', NextAttemptAt = NULL WHERE Id = {rows['a']}")
    box.write(f"UPDATE TB_TICKET_INTERFACE SET ReturnStatus = 'Sent' WHERE Id = {rows['b']}")
    box.write(f"UPDATE TB_TICKET_INTERFACE SET GatewaySendStatus = 'Error' WHERE Id = {rows['c']}")
    early = box.literal("2026-01-02T03:04:05.678Z")
    box.write(f"UPDATE TB_TICKET_INTERFACE SET CreatedAt = {early} WHERE Id = {rows['a']}")
    for query, expected in (({}, "abc"), ({"status": "Error"}, "a"), ({"status": "awaiting"}, "bc"), ({"phaseCode": 6}, "bc"),
                            ({"returnStatus": "Sent"}, "b"), ({"returnStatus": "pending"}, "ac"), ({"gatewayStatus": "error"}, "c"), ({"status": "Processed"}, ""), ({"businessDocId": f"b-{entity}"}, "b"),
                            ({"clientId": clients[0].id}, "abc"), ({"clientId": clients[1].id}, ""),
                            ({"to": "2026-02-01T00:00:00Z"}, "a"), ({"from": "2026-02-01T00:00:00Z"}, "bc"),
                            ({"status": "Error", "clientId": clients[0].id, "phaseCode": 15}, "a")):
        page = tickets(server, businessEntity=entity, **query)
        assert (page["total"], {t["id"] for t in page["items"]}) == (len(expected), {rows[n] for n in expected}), query
    given_up = {t["id"]: t["givenUp"] for t in tickets(server, businessEntity=entity)["items"]}
    assert given_up == {rows["a"]: True, rows["b"]: False, rows["c"]: True}


@pytest.mark.parametrize("filters", [{}, {"status": "Awaiting"}, {"clientId": True}, {"businessDocId": True}])
def test_pages_go_on_behind_a_cursor(server, clients, filters):
    entity, doc = uuid.uuid4().hex[:12], fresh_doc()
    filters = {k: {"clientId": clients[1].id, "businessDocId": doc}[k] if v is True else v for k, v in filters.items()}
    box = backed(server)
    owner = str(box.backend.query(f"SELECT Id FROM Clients WHERE ClientIdentifier = '{clients[1].id}'")[0][0])
    ids = [int(box.ticket(doc, BusinessEntity=entity, PhaseCode=i, RawPayloadJson="{}", ClientId=owner, CreatedAt=at(i // 3)))
           for i in range(7)]  # some have the same time: the cursor tells them apart by their number
    seen, query = [], {"businessEntity": entity, "pageSize": 3, **filters}
    for count in (3, 3, 1):
        page = tickets(server, **query)
        assert (page["total"], len(page["items"])) == (7, count)
        seen += [t["id"] for t in page["items"]]
        send(clients[1], businessEntity=uuid.uuid4().hex[:12])  # what comes meanwhile moves nothing
        query["after"] = page.get("next")
    assert query["after"] is None
    assert seen == ids[::-1]


def backed(server):
    box = Box.__new__(Box)  # without emptying the tables
    box.backend = server.backend
    return box


def test_a_total_beyond_ten_thousand_is_an_estimate(server, clients):
    entity = uuid.uuid4().hex[:12]
    columns = ("BusinessEntity, BusinessDocId, CompanyCode, BranchCode, DestinationCode, PhaseCode, ShipmentEvent,"
               " FunctionalAckIsRequired, TargetApplicationCode, RawPayloadJson")
    for first in range(0, 12000, 1000):
        rows = ", ".join(f"('{entity}', 'd{i}', '1', '2', '3', 15, 'E', '0', 'A', '{{}}')" for i in range(first, first + 1000))
        backed(server).write(f"INSERT INTO TB_TICKET_INTERFACE ({columns}) VALUES {rows}")
    page = tickets(server, businessEntity=entity)
    assert page["totalIsEstimate"] is True and page["total"] > 10000
    assert "totalIsEstimate" not in tickets(server, businessEntity=entity, businessDocId="d1")


@pytest.mark.parametrize("query,fields", [
    ("status=Sent", {"status"}), ("returnStatus=x", {"returnStatus"}), ("gatewayStatus=Awaiting", {"gatewayStatus"}),
    ("phaseCode=x", {"phaseCode"}), ("phaseCode=-1", {"phaseCode"}), ("from=x", {"from"}), ("to=2026", {"to"}),
    ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", {"to"}), ("after=x", {"after"}), ("after=1", {"after"}),
    ("after=1.x", {"after"}), ("after=-1.5", {"after"}), ("after=99999999999999999.1", {"after"}), ("after=1.2&page=2", {"page"}),
    ("businessDocId=" + "x" * 101, {"businessDocId"}), ("clientId=" + "x" * 101, {"clientId"}), ("page=0&pageSize=201", {"page", "pageSize"}),
])
def test_a_bad_question_about_tickets(server, query, fields):
    answer = server.admin().get(f"/admin/tickets?{query}")
    assert (answer.status, answer.bad_fields) == (400, fields)


def test_one_ticket_whole(server, clients):
    ticket_id, doc = send(clients[0])
    box = backed(server)
    box.insert("TB_TICKET_RETURN_OUTBOX", {"BusinessEntity": "TCK", "BusinessDocId": doc, "PhaseCode": 15, "PayloadJson": "{}",
                                           "TargetUrl": "http://x/r", "Status": "Error", "LastError": "HTTP 400"})
    return_id = box.last("TB_TICKET_RETURN_OUTBOX")
    assert clients[0].post("/api/functional-ack", {"businessEntity": "TCK", "businessDocId": doc, "operation": "PROCESS",
                                                   "status": "200"}).status == 202
    ack_id = box.last("TB_FUNCTIONAL_ACK_OUTBOX")
    for number, (channel, row) in enumerate((("ticket-gateway", str(ticket_id)), ("ticket-return", return_id), ("functional-ack", ack_id))):
        box.attempt(channel, row, number + 1, "Error", 400 + number, "no", "HTTP 400")
    box.attempt("ticket-gateway", "999999", 1)
    answer = server.admin().get(f"/admin/tickets/{ticket_id}")
    assert answer.status == 200, answer
    check(answer.json, SCHEMAS["AdminTicketWhole"], "AdminTicketWhole")
    whole = answer.json
    assert (whole["id"], whole["businessDocId"], whole["clientId"], whole["status"]) == (ticket_id, doc, clients[0].id, "Awaiting")
    assert doc in whole["rawPayloadJson"] and whole["callbackPayloadJson"] is None
    assert [str(r["id"]) for r in whole["returns"]] == [return_id] and whole["returns"][0]["lastError"] == "HTTP 400"
    assert [str(a["id"]) for a in whole["acks"]] == [ack_id]
    assert [(a["channel"], str(a["id"]), a["httpStatus"]) for a in whole["attempts"]] == [
        ("ticket-gateway", str(ticket_id), 400), ("ticket-return", return_id, 401), ("functional-ack", ack_id, 402)]


@pytest.mark.parametrize("ticket_id", ["0", "-1", "999999999", "x", "99999999999999999999", "%27", "1.5"])
def test_a_ticket_that_is_not_there(server, ticket_id):
    assert server.admin().get(f"/admin/tickets/{ticket_id}").status == 404


def test_only_administrators(server, clients):
    for path in ("/admin/tickets", "/admin/tickets/1", "/admin/search?q=abc"):
        assert server.anonymous().get(path).status == 401
        assert clients[0].get(path).status == 401


# --- search ---


def search(server, q):
    answer = server.admin().get(f"/admin/search?q={quote(q)}")
    assert answer.status == 200, answer
    check(answer.json, SCHEMAS["SearchResult"], "SearchResult")
    return answer.json["items"]


def found(server, q):
    return {(item["kind"], item["id"]) for item in search(server, q)}


def test_a_business_document_by_its_id(server, clients):
    doc = fresh_doc()
    ids = [send(clients[0], doc, phaseCode=phase)[0] for phase in (15, 6)]
    counterparty = clients[1].post("/api/counterparties", {
        "businessEntity": "PRC", "businessDocId": doc, "counterpartyId": f"0050-{doc[-12:]}", "name": "n", "entityType": "CLI"}).json["id"]
    assert clients[0].post("/api/functional-ack", {"businessEntity": "TCK", "businessDocId": doc, "operation": "PROCESS",
                                                   "status": "200"}).status == 202
    box = backed(server)
    box.insert("TB_TICKET_RETURN_OUTBOX", {"BusinessEntity": "TCK", "BusinessDocId": doc, "PhaseCode": 15, "PayloadJson": "{}",
                                           "TargetUrl": "http://x/r", "Status": "Error"})
    ack, sent_back = box.last("TB_FUNCTIONAL_ACK_OUTBOX"), box.last("TB_TICKET_RETURN_OUTBOX")
    items = search(server, f" {doc} ")
    assert {(i["kind"], i["id"]) for i in items} == {
        *(("ticket", str(i)) for i in ids), ("counterparty", str(counterparty)), ("ack", ack), ("return", sent_back)}
    by_kind = {i["kind"]: i for i in items}
    ticket = next(i for i in items if i["id"] == str(ids[1]) and i["kind"] == "ticket")
    assert (ticket["title"], ticket["status"], ticket["clientId"]) == (f"TCK {doc}, phase 6", "Awaiting", clients[0].id)
    assert ticket["link"] == f"/admin/tickets/{ids[1]}" and ticket["createdAt"]
    assert by_kind["ack"]["link"] == f"/admin/outbox/functional-ack/{ack}"
    assert by_kind["return"]["link"] == f"/admin/outbox/ticket-return/{sent_back}"
    assert by_kind["counterparty"]["clientId"] == clients[1].id and by_kind["counterparty"]["link"] is None
    for item in items:
        if item["link"]:
            assert server.admin().get(item["link"]).status == 200, item
    assert found(server, f"0050-{doc[-12:]}") == {("counterparty", str(counterparty))}


def test_a_ticket_by_its_number(server, clients):
    for _ in range(10):  # a number of one digit is too short
        ticket_id, _ = send(clients[0])
    assert ("ticket", str(ticket_id)) in found(server, str(ticket_id))
    assert ("ticket", str(ticket_id)) not in found(server, f"0{ticket_id}1")


def test_an_event_by_each_of_its_ids(server, clients):
    correlation, trace = f"corr-{uuid.uuid4().hex}", uuid.uuid4().hex
    answer = clients[0].post("/events", {"eventType": "OrderPlaced", "payload": {"a": 1}, "aggregateId": "O-1"},
                             headers={"X-Correlation-Id": correlation, "traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    assert answer.status == 202, answer
    event = answer.json.get("eventId") or answer.json["id"]
    for q in (event, event.upper(), correlation, trace, trace.upper()):
        assert ("event", event) in found(server, q), q
    [item] = [i for i in search(server, event) if i["kind"] == "event"]
    assert (item["title"], item["status"], item["clientId"]) == ("OrderPlaced O-1", "PENDING", clients[0].id)


def test_an_import_by_each_of_its_ids(server, clients):
    correlation, trace, name = f"corr-{uuid.uuid4().hex}", uuid.uuid4().hex, f"leads {uuid.uuid4().hex} é.json"
    box = backed(server)
    batch = str(uuid.uuid4())
    owner = box.backend.query(f"SELECT Id FROM Clients WHERE ClientIdentifier = '{clients[1].id}'")[0][0]
    box.insert("ImportBatch", {"Id": batch, "ClientId": str(owner), "Status": 4, "FileName": name, "FileType": 0,
                               "CorrelationId": correlation, "TraceId": trace})
    for q in (batch, batch.upper(), name, name[:30], name[:-6], correlation, trace):
        assert ("import", batch) in found(server, q), q
    for q in (name[1:], name[:20] + "%", name[:20] + "_", correlation[:-1], trace[:-1]):
        assert ("import", batch) not in found(server, q), q
    [item] = search(server, batch)
    assert (item["title"], item["status"], item["clientId"], item["link"]) == (
        name, "CompletedWithErrors", clients[1].id, f"/admin/imports/{batch}")


def test_deliveries_by_each_of_their_ids(server, clients):
    box = backed(server)
    owner = str(box.backend.query(f"SELECT Id FROM Clients WHERE ClientIdentifier = '{clients[0].id}'")[0][0])
    hook, delivery, event, call = (str(uuid.uuid4()) for _ in range(4))
    correlation, trace = f"corr-{uuid.uuid4().hex}", uuid.uuid4().hex
    box.insert("WebhookSubscriptions", {"Id": hook, "ClientId": owner, "Url": "https://x.example/hook", "Secret": "s"})
    box.insert("WebhookDeliveries", {"Id": delivery, "SubscriptionId": hook, "EventId": event, "Event": "BatchCompleted",
                                     "Reference": "B-1", "PayloadJson": "{}", "CorrelationId": correlation})
    box.insert("IntegrationCalls", {"Id": call, "ClientId": owner, "IntegrationName": "payment", "Method": "POST", "Path": "/pay",
                                    "HeadersJson": "[]", "CorrelationId": correlation, "TraceId": trace})
    assert found(server, delivery) == found(server, event) == {("webhookDelivery", delivery)}
    assert found(server, call) == found(server, trace) == {("integrationCall", call)}
    assert found(server, correlation) == {("webhookDelivery", delivery), ("integrationCall", call)}
    assert {i["clientId"] for i in search(server, correlation)} == {clients[0].id}


def test_clients_by_id_and_the_beginning_of_the_name(server):
    name = f"Câmara {uuid.uuid4().hex}"
    client = server.new_client(name, clientId=f"c-{uuid.uuid4().hex[:10]}")
    for q in (client.id, name, name[:20]):
        assert ("client", client.id) in found(server, q), q
    [item] = search(server, client.id)
    assert (item["title"], item["status"]) == (name, "Active")


def test_at_most_fifty(server, clients):
    doc = fresh_doc()
    for i in range(60):
        send(clients[0], doc, businessEntity=f"E{i}")
    answer = server.admin().get(f"/admin/search?q={doc}").json
    assert len(answer["items"]) <= 50 and {i["kind"] for i in answer["items"]} == {"ticket"}


@pytest.mark.parametrize("count,complete", [(20, True), (21, False)])
def test_what_is_cut_is_not_complete(server, clients, count, complete):
    doc = fresh_doc()
    for i in range(count):
        send(clients[0], doc, businessEntity=f"E{i}")
    answer = server.admin().get(f"/admin/search?q={doc}").json
    assert (len(answer["items"]), answer["complete"]) == (20, complete)


def test_a_ticket_by_a_number_beyond_32_bits(make_server):
    server = make_server(args=("--set", "server.roles=api"))
    client = server.new_client("AS400", scopes=["interface"])
    send(client)
    columns = ("BusinessEntity, BusinessDocId, CompanyCode, BranchCode, DestinationCode, PhaseCode, ShipmentEvent,"
               " FunctionalAckIsRequired, TargetApplicationCode, RawPayloadJson")
    insert = f"INSERT INTO TB_TICKET_INTERFACE (Id, {columns}) SELECT 5000000000, {columns.replace('PhaseCode', '6')} FROM TB_TICKET_INTERFACE"
    if server.backend.name == "sqlserver":
        insert = f"SET IDENTITY_INSERT TB_TICKET_INTERFACE ON; {insert}; SET IDENTITY_INSERT TB_TICKET_INTERFACE OFF"
    backed(server).write(insert)
    assert found(server, "5000000000") == {("ticket", "5000000000")}
    assert found(server, "9223372036854775807") == found(server, "705032704") == set()


@pytest.mark.parametrize("q", ["", "?", "q=", "q=a", "q=%20a%20", "q=" + "x" * 201, "q=" + "%C3%A9" * 201])
def test_a_bad_question(server, q):
    answer = server.admin().get(f"/admin/search?{q}")
    assert (answer.status, answer.bad_fields) == (400, {"q"})


@pytest.mark.parametrize("q", ["zz", "x" * 200, "%%%", "__", "[a]", "'; DROP TABLE Clients; --", "99999999999999999999", "-12",
                               "00000000-0000-0000-0000-000000000000", "0" * 32, "日本語の名前", "\\\\", "a\tb", "1e5", "{}"])
def test_what_nobody_has(server, q):
    assert search(server, q) == []
