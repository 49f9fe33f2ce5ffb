"""What is stored about a person: every kind of document, in every spelling, old and new, and nothing of it in the log."""

import datetime
import json
import random
import uuid
from urllib.parse import urlencode

import pytest
from harness import Server, wait_for
from test_imports_read import Rows, at
from test_imports_receive import upload
from test_interface_acks import short, whole
from test_interface_counterparties import flat as counterparty
from test_interface_tickets import flat as ticket
from test_openapi import DOCUMENT, check
from test_sandbox import Sandbox

PEER = "http://127.0.0.1:9"
CONFIG = {"gateway": {"functional_ack_url": f"{PEER}/ack", "ticket_return_url": f"{PEER}/return", "api_key": "k"},
          "integration.pay": {"base_url": PEER, "retry_max_attempts": 1, "window": 10000, "min_calls": 10000},
          "server": {"roles": "api"}}


@pytest.fixture(scope="module")
def server(_module_backends, tmp_path_factory):
    """Takes documents and lets them lie."""
    made = Server(_module_backends(), tmp_path_factory.mktemp("server"), config=CONFIG)
    yield made.start()
    made.finish()


@pytest.fixture(scope="module")
def client(server):
    return server.new_client("Everything")


def digits(body, weights):
    """The body with its two check digits: a digit or a letter counts as its ASCII value less 48."""
    for first in weights:
        total = sum((ord(c) - 48) * w for c, w in zip(body, first))
        rest = total % 11
        body += str(0 if rest < 2 else 11 - rest)
    return body


def cpf():
    return digits("".join(random.choices("123456789", k=9)), (range(10, 1, -1), range(11, 1, -1)))


def cnpj():
    weights = [5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2]
    return digits("".join(random.choices("ABCDEFGH0123456789", k=12)), (weights, [6, *weights]))


def phone():
    return "+55119" + "".join(random.choices("0123456789", k=8))


def email():
    return f"{uuid.uuid4().hex}@example.com"


def spelled(number):
    """+5511987654321 as people write it: (11) 98765-4321."""
    return f"({number[3:5]}) {number[5:10]}-{number[10:]}"


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def ask(server, status=200, **query):
    answer = server.admin().get(f"/admin/subjects?{urlencode(query)}")
    assert answer.status == status, answer
    if status == 200:
        check(answer.json, DOCUMENT["components"]["schemas"]["Subject"], "Subject")
    return answer.json


def places(server, **query):
    """The ids of each place, with the sequence where there is one."""
    found = {}
    for p in ask(server, pageSize=200, **query)["places"]:
        found.setdefault(p["place"], []).append((p["batchId"], p["sequence"]) if "sequence" in p else p["id"])
    return found


def send_ticket(client, **fields):
    payload = ticket(**fields)
    answer = client.post("/api/tickets", payload)
    assert answer.status == 200, answer
    return answer.json["id"], payload


# --- documents as they come ---


def test_a_ticket_in_every_spelling(server, client):
    number, document, address = phone(), cpf(), email()
    first, _ = send_ticket(client, driver={"telefone": spelled(number), "CPF": document, "mail": address})
    second, _ = send_ticket(client, contact=number, Documento=int(document), x=address.upper())
    for query in ({"phone": number}, {"phone": spelled(number)}, {"phone": number[3:]}, {"document": document},
                  {"document": f"{document[:3]}.{document[3:6]}.{document[6:9]}-{document[9:]}"}, {"email": address},
                  {"email": address.title()}):
        assert places(server, **query) == {"ticket": [first, second]}, query
    assert places(server, phone=phone()) == {}


def test_what_is_shown_of_a_place(server, client):
    document = cnpj()
    number, payload = send_ticket(client, owner={"cnpj": document.lower()})
    answer = ask(server, document=document)
    assert answer["subject"]["kind"] == "document" and len(answer["subject"]["hash"]) == 32
    assert document not in json.dumps(answer)
    [place] = answer["places"]
    assert place.pop("createdAt")
    assert place == {"place": "ticket", "id": number, "waits": True, "clientId": client.id, "status": "Awaiting",
                     "businessEntity": "TCK", "businessDocId": payload["businessDocId"], "phaseCode": 15}
    assert answer["counts"] == {"ack": 0, "batch": 0, "batch-item": 0, "call": 0, "counterparty": 0, "event": 0, "ticket": 1,
                                "total": 1, "waiting": 1}
    assert answer["next"] is None and answer["unreadMore"] is False


def test_a_replaced_payload_replaces_its_entries(server, client):
    before, after, said = phone(), phone(), email()
    number, payload = send_ticket(client, phone=before)
    key = {k: payload[k] for k in ("businessEntity", "businessDocId", "phaseCode")}
    caller = client.post("/api/tickets/callback", {**key, "status": "Success", "by": said})
    assert caller.status == 200, caller
    assert places(server, email=said) == places(server, phone=before) == {"ticket": [number]}
    assert client.post("/api/tickets", {**payload, "phone": after}).status == 200
    assert places(server, phone=before) == places(server, email=said) == {}  # the callback is gone with the payload
    assert places(server, phone=after) == {"ticket": [number]}


def test_a_callback_replaces_the_one_before(server, client):
    old, new, driver = email(), email(), phone()
    number, payload = send_ticket(client, phone=driver)
    key = {k: payload[k] for k in ("businessEntity", "businessDocId", "phaseCode")}
    for address in (old, new):
        assert client.post("/api/tickets/callback", {**key, "status": "Success", "by": address}).status == 200
    assert places(server, email=old) == {}
    assert places(server, email=new) == places(server, phone=driver) == {"ticket": [number]}


def test_the_same_payload_again_changes_nothing(server, client):
    number = phone()
    ident, payload = send_ticket(client, phone=number)
    assert client.post("/api/tickets", payload).json["id"] == ident
    [(count,)] = server.backend.query(f"SELECT COUNT(*) FROM SubjectIndex WHERE Place = 'ticket' AND RowKey = '{ident}'")
    assert count == 1


def test_a_counterparty_and_its_replacement(server, client):
    document, number, later = cnpj(), phone(), phone()
    doc = f"CP_{uuid.uuid4().hex[:16]}"
    address = {"addressTypeCode": "1", "phone": spelled(number)}
    body = counterparty(doc, addresses=[address], fiscalReferences=[{"fiscalReferenceTypeCode": "BR1", "fiscalNumber": document}])
    ident = client.post("/api/counterparties", body).json["id"]
    assert places(server, document=document) == places(server, phone=number) == {"counterparty": [ident]}
    body["addresses"][0]["phone"] = later
    assert client.post("/api/counterparties", body).json["id"] == ident
    assert places(server, phone=number) == {}
    assert places(server, phone=later) == places(server, document=document) == {"counterparty": [ident]}


@pytest.mark.parametrize("form", [whole, short])
def test_an_ack(server, client, form):
    address = email()
    body = form(f"A_{uuid.uuid4().hex[:12]}")
    if form is whole:
        body["functionalAck"]["items"][0]["contact"] = address
    else:
        body["message"] = address
    answer = client.post("/api/functional-ack", body)
    assert answer.status == 202, answer
    assert places(server, email=address) == {"ack": [answer.json["id"]]}


def test_events_one_and_many(server, client):
    one, many, aggregate = phone(), email(), cpf()
    first = client.post("/events", {"eventType": "T", "payload": {"whatsapp": one}, "aggregateType": "cpf", "aggregateId": aggregate})
    assert first.status == 202, first
    others = client.post("/events", [{"eventType": "T", "payload": {"n": n, "to": many if n else None}} for n in range(3)])
    assert places(server, phone=one) == places(server, document=aggregate) == {"event": [first.json["eventId"]]}
    assert places(server, email=many) == {"event": sorted(e["eventId"] for e in others.json["items"][1:])}


def test_an_event_that_is_refused_leaves_no_entries(server, client):
    address, same = email(), str(uuid.uuid4())
    assert client.post("/events", {"eventType": "T", "eventId": same, "payload": {}}).status == 202
    assert client.post("/events", {"eventType": "T", "eventId": same, "payload": {"to": address}}).status == 409
    assert places(server, email=address) == {}


def test_a_call_that_is_kept(server, client):
    number, document, address = phone(), cpf(), email()
    answer = client.post(f"/integrations/pay/people/{document}?{urlencode({'email': address, 'onUnavailable': 'enqueue'})}",
                         {"celular": spelled(number)})
    assert answer.status == 202, answer
    expected = {"call": [answer.json["id"]]}
    for query in ({"phone": number}, {"document": document}, {"email": address}):
        assert places(server, **query) == expected, query
    assert ask(server, phone=number)["places"][0]["integration"] == "pay"


def test_an_upload_and_what_waits_to_be_read(server, client):
    meta, by = phone(), email()
    batch = upload(client, b"Fone;Nome\n11912345678;Ana\n", name="a.csv", requestedBy=by, metadata=json.dumps({"telefone": meta}))
    assert batch.status == 202, batch
    ident = batch.json["batchId"]
    assert places(server, phone=meta) == places(server, email=by) == {"batch": [ident]}
    answer = ask(server, phone=phone())
    assert ident in answer["unread"] and answer["places"] == []


# --- imports ---


@pytest.fixture
def importing(_module_backends, tmp_path):
    sandbox = Sandbox(tmp_path)
    server = Server(_module_backends(), tmp_path / "server",
                    config={"omniflow": {"url": "http://{}:{}".format(*sandbox.host_port), "api_key": "k"}})
    yield server.start()
    server.finish()
    sandbox.finish()


def test_items_of_an_import(importing):
    server, client = importing, importing.new_client("Imports")
    people = [(phone(), cpf(), email()) for _ in range(450)]
    lines = ["Telefone;CPF;E-mail;Nome", *(f"{spelled(p)};{c};{m};Ana" for p, c, m in people), f"none;{people[0][1]};;Eva"]
    batch = upload(client, "\n".join(lines).encode(), name="a.csv").json["batchId"]
    wait_for(lambda: client.get(f"/imports/{batch}").json["status"].startswith("Completed"), "the batch")
    for at_place in (0, 100, 449):
        number, document, address = people[at_place]
        assert places(server, phone=number) == places(server, email=address) == {"batch-item": [(batch, at_place)]}
        others = [(batch, 450)] if at_place == 0 else []  # also in the record that could not be sent
        assert places(server, document=document) == {"batch-item": [(batch, at_place), *others]}
    [place] = ask(server, phone=people[7][0])["places"]
    assert (place["status"], place["fileName"], place["waits"]) == ("Imported", "a.csv", False)
    [place] = ask(server, phone=people[7][0], export="full")["places"]
    assert place["item"]["sequence"] == 7 and people[7][0] not in json.dumps(place)  # it is stored masked
    failed = ask(server, document=people[0][1], export="full")["places"][1]
    assert failed["status"] == "Error" and failed["record"]["CPF"] == people[0][1]  # what is kept of it is not
    # A batch that is removed takes the entries of its items with it.
    keys = "PRAGMA foreign_keys = ON; " if server.backend.name == "sqlite" else ""
    Rows(server.backend).write(f"{keys}DELETE FROM ImportBatch WHERE Id = '{batch}'")
    [(left,)] = server.backend.query("SELECT COUNT(*) FROM ImportSubjects")
    assert left == 0 and places(server, phone=people[0][0]) == {}


def test_a_hundred_thousand_items_are_looked_through(server, client):
    """Entries as the workers write them; one of them is the person's."""
    rows = Rows(server.backend)
    batch, number = rows.batch(client), phone()
    known = bytes.fromhex(ask(server, phone=number)["subject"]["hash"])[:8]
    other = [b"".join(random.randbytes(8) + b"\x01" + n.to_bytes(4, "big") for n in range(100)) for _ in range(20)]
    # A hash that stands across two entries, or of another kind, is somebody else's.
    false = [b"\0" * 5 + known + b"\0" * 13, known + b"\x02" + b"\0" * 4]
    entries = [other[n % 20] for n in range(1000)]
    entries[700] += known + b"\x01" + (41).to_bytes(4, "big")
    literal = {"sqlite": "X'{}'", "postgres": "'\\x{}'", "sqlserver": "0x{}"}[server.backend.name]
    values = [f"('{batch}', {n}, {literal.format(e.hex())})" for n, e in enumerate([*entries, *false])]
    for start in range(0, len(values), 100):
        rows.write("INSERT INTO ImportSubjects (BatchId, ChunkId, Entries) VALUES " + ", ".join(values[start:start + 100]))
    assert places(server, phone=number) == {"batch-item": [(batch, 41)]}
    assert places(server, phone=phone()) == {}


# --- rows of an earlier release ---


def test_older_rows_are_filled_in(_module_backends, tmp_path):
    server = Server(_module_backends(), tmp_path / "server", config=CONFIG).start()
    try:
        client = server.new_client("Before")
        number, document, address, by = phone(), cpf(), email(), email()
        tickets = [send_ticket(client, phone=number) for _ in range(120)]
        party = client.post("/api/counterparties", counterparty("CP", addresses=[{"addressTypeCode": "1", "fax": number}],
                                                                fiscalReferences=[])).json["id"]
        event = client.post("/events", {"eventType": "T", "payload": {"cpf": document}}).json["eventId"]
        call = client.post("/integrations/pay/x?onUnavailable=enqueue", {"cpf": document}).json["id"]
        ack = client.post("/api/functional-ack", short("A", message=by)).json["id"]
        rows = Rows(server.backend)
        batch = rows.batch(client, RequestedBy=by, created=now())
        rows.items(batch, [(0, None, {"LeadContextJson": {"Mail": address if n in (0, 1150) else "-"}}) for n in range(1200)])
        wanted = {"phone": {"counterparty": [party], "ticket": sorted(i for i, _ in tickets)},
                  "document": {"event": [event], "call": [call]}, "email": {"batch-item": [(batch, 0), (batch, 1150)]}}
        asked = {"phone": number, "document": document, "email": address}
        # As an earlier release has left it; the counterparty is another program's.
        for table in ("SubjectIndex", "ImportSubjects", "SubjectFill"):
            rows.write(f"DELETE FROM {table}")
        rows.write("UPDATE TB_COUNTERPARTIES SET RawPayload = NULL")
        rows.write(f"UPDATE TB_TICKET_INTERFACE SET CallbackPayloadJson = '{json.dumps({'by': by})}' WHERE Id = {tickets[0][0]}")
        assert all(places(server, **{k: v}) == {} for k, v in asked.items())
        server.args = ("--set", "server.roles=api,maintain")
        server.restart()
        done = "SELECT COUNT(*) FROM SubjectFill WHERE DoneAt IS NOT NULL"
        wait_for(lambda: server.backend.query(done)[0][0] == 7, "the walk")
        found = {k: places(server, **{k: v}) for k, v in asked.items()}
        found["phone"]["ticket"].sort()
        assert found == wanted
        assert places(server, email=by) == {"ack": [ack], "batch": [batch], "ticket": [tickets[0][0]]}
        # Walked again, everything is as it was.
        rows.write("DELETE FROM SubjectFill")
        server.restart()
        wait_for(lambda: server.backend.query(done)[0][0] == 7, "the second walk")
        again = {k: places(server, **{k: v}) for k, v in asked.items()}
        again["phone"]["ticket"].sort()
        assert again == wanted
    finally:
        server.finish()


def test_entries_go_after_their_document(_module_backends, tmp_path):
    server = Server(_module_backends(), tmp_path / "server", config=CONFIG).start()
    try:
        client, number = server.new_client("Gone"), phone()
        kept = send_ticket(client, phone=number)[0], client.post("/events", {"eventType": "T", "payload": {"phone": number}}).json["eventId"]
        gone = send_ticket(client, phone=number)[0]
        call = client.post("/integrations/pay/x?onUnavailable=enqueue", {"phone": number}).json["id"]
        rows = Rows(server.backend)
        rows.write(f"DELETE FROM TB_TICKET_INTERFACE WHERE Id = {gone}")
        rows.write(f"DELETE FROM IntegrationCalls WHERE Id = '{call}'")
        assert places(server, phone=number) == {"ticket": [kept[0]], "event": [kept[1]]}
        server.args = ("--set", "server.roles=api,maintain")
        server.restart()
        wait_for(lambda: server.backend.query("SELECT COUNT(*) FROM SubjectIndex")[0][0] == 2, "the sweep")
        assert places(server, phone=number) == {"ticket": [kept[0]], "event": [kept[1]]}
    finally:
        server.finish()


def test_a_ticket_of_another_program_gets_its_entries(_module_backends, tmp_path):
    server = Server(_module_backends(), tmp_path / "server", config={**CONFIG, "server": {"roles": "api,process"}}).start()
    try:
        number = phone()
        rows = Rows(server.backend)
        rows.insert("TB_TICKET_INTERFACE", [{
            "BusinessEntity": "TCK", "BusinessDocId": "other", "CompanyCode": "1", "BranchCode": "2", "DestinationCode": "3",
            "PhaseCode": 15, "ShipmentEvent": "E", "FunctionalAckIsRequired": "0", "TargetApplicationCode": "ASB",
            "RawPayloadJson": json.dumps(ticket("other", phone=spelled(number))), "NextAttemptAt": at(1)}])
        wait_for(lambda: places(server, phone=number).get("ticket"), "the entries")
    finally:
        server.finish()


def test_older_rows_are_found_after_they_were_masked(_module_backends, tmp_path):
    server = Server(_module_backends(), tmp_path / "server", config=CONFIG).start()
    try:
        client, number, said = server.new_client("Before"), phone(), email()
        rows = Rows(server.backend)
        batch = rows.batch(client, created=now(), CompletedAt=now())
        rows.items(batch, [(0, None, {"PhoneNumber": number})])
        ident, payload = send_ticket(client)
        key = {k: payload[k] for k in ("businessEntity", "businessDocId", "phaseCode")}
        assert client.post("/api/tickets/callback", {**key, "status": "Success", "email": said}).status == 200
        assert places(server, phone=number) == {}
        masked = server.cli("mask")
        assert masked.returncode == 0, masked.stderr
        assert number.encode() not in server.backend.query("SELECT PayloadJson FROM ImportItem")[0][0].encode()
        assert places(server, phone=number) == {"batch-item": [(batch, 0)]}
        assert places(server, email=said) == {"ticket": [ident]}  # the walk has left its entries
    finally:
        server.finish()


# --- the question ---

BAD = [
    ({}, "phone"), ({"phone": "11987654321", "email": "a@b.com"}, "phone"), ({"phone": "94444"}, "phone"),
    ({"phone": "ana@example.com"}, "phone"), ({"document": "52998224724"}, "document"), ({"document": "123"}, "document"),
    ({"document": "12ABC34501DE36"}, "document"), ({"email": "ana"}, "email"), ({"email": "x" * 400 + "@example.com"}, "email"),
    ({"subject": "nobody"}, "subject"), ({"phone": "11987654321", "after": "x"}, "after"),
    ({"phone": "11987654321", "after": "ticket:1"}, "after"), ({"phone": "11987654321", "after": "tickets:1:-1"}, "after"),
    ({"phone": "11987654321", "export": "all"}, "export"), ({"phone": "11987654321", "pageSize": 201}, "pageSize"),
]


@pytest.mark.parametrize("query, field", BAD, ids=[json.dumps(q)[:60] for q, _ in BAD])
def test_bad_questions(server, query, field):
    for answer in (server.admin().get(f"/admin/subjects?{urlencode(query)}"), server.admin().post("/admin/subjects/find", query)):
        assert answer.status == 400 and answer.code == "ValidationFailed", answer
        assert field in [e["field"] for e in answer.json["errors"]]
        assert "52998224724" not in answer.body.decode() and "94444" not in answer.body.decode()


def test_a_bare_number_is_ambiguous(server, client):
    document = cpf()
    number, _ = send_ticket(client, cpf=document)
    for name in ("q", "subject"):
        for bare in (document, "11987654321"):
            answer = server.admin().get(f"/admin/subjects?{urlencode({name: bare})}")
            assert answer.status == 400 and answer.code == "SubjectAmbiguous" and bare not in answer.body.decode()
        for clear in (f"{document[:3]}.{document[3:6]}.{document[6:9]}-{document[9:]}", "949.514.289-03", phone(), email(), cnpj()):
            assert server.admin().get(f"/admin/subjects?{urlencode({name: clear})}").status == 200, clear
    assert places(server, document=document) == {"ticket": [number]}


def test_only_administrators(server, client):
    for caller, status in ((server.anonymous(), 401), (client, 401)):
        assert caller.get("/admin/subjects?phone=11987654321").status == status
        assert caller.post("/admin/subjects/find", {"phone": "11987654321"}).status == status


def test_the_same_in_a_body(server, client):
    number = phone()
    ident, _ = send_ticket(client, phone=number)
    answer = server.admin().post("/admin/subjects/find", {"phone": spelled(number)})
    assert answer.status == 200 and answer.json == ask(server, phone=number)
    assert [p["id"] for p in answer.json["places"]] == [ident]
    assert server.admin().post("/admin/subjects/find", {"phone": number, "fone": 1}).status == 400


def test_pages(server, client):
    number = phone()
    tickets = sorted(send_ticket(client, phone=number)[0] for _ in range(7))
    event = client.post("/events", {"eventType": "T", "payload": {"phone": number}}).json["eventId"]
    seen, after = [], None
    while True:
        answer = ask(server, phone=number, pageSize=3, **({"after": after} if after else {}))
        assert answer["counts"]["total"] == 8 and len(answer["places"]) <= 3
        seen += [p["id"] for p in answer["places"]]
        after = answer["next"]
        if not after:
            break
    assert seen[0] == event and sorted(seen[1:]) == tickets


def test_an_export_has_the_payloads(server, client):
    number = phone()
    _, payload = send_ticket(client, driver={"phone": number, "name": "Ana"})
    event = client.post("/events", {"eventType": "T", "payload": {"to": number}})
    assert event.status == 202
    call = client.post("/integrations/pay/x?onUnavailable=enqueue", {"celular": number})
    assert call.status == 202
    known = ask(server, phone=number)
    assert number not in json.dumps(known)
    shown = {p["place"]: p for p in ask(server, phone=number, export="full")["places"]}
    assert shown["ticket"]["payload"] == payload and shown["ticket"]["callback"] is None
    assert shown["event"]["payload"] == {"to": number}
    assert shown["call"]["body"] == {"celular": number}


def test_every_question_is_audited_by_the_hash_alone(server, client):
    number = phone()
    send_ticket(client, phone=number)
    known = ask(server, phone=number)["subject"]["hash"]
    ask(server, phone=number, export="full")
    nobody = phone()
    unknown = ask(server, phone=nobody)["subject"]["hash"]
    entries = server.admin().get("/admin/audit?pageSize=200").json["items"]
    said = [(e["action"], e["target"]) for e in entries if e["target"] in (known, unknown)]
    assert said == [("SubjectLookedUp", unknown), ("SubjectExported", known), ("SubjectLookedUp", known)]
    assert number[3:] not in json.dumps(entries) and nobody[3:] not in json.dumps(entries)


def test_nothing_of_the_question_is_in_the_log(server):
    number, document, address = phone(), cpf(), email()
    ask(server, phone=number)
    ask(server, document=document)
    ask(server, email=address)
    ask(server, 400, phone=number, email=address)
    ask(server, 400, q=document)
    server.admin().post("/admin/subjects/find", {"email": address, "document": document})
    text = server.log_text()
    assert "/admin/subjects" in text  # the access log has the route
    for secret in (number[3:], document, address):
        assert secret not in text
    assert 'dataflow_subject_lookups_total{kind="phone"}' in server.admin().get("/metrics").body.decode()


def test_the_command(server, client):
    number = phone()
    ident, payload = send_ticket(client, phone=number)
    found = server.cli("subjects", "find", "--phone", spelled(number), "--json")
    assert found.returncode == 0, found.stderr
    answer = json.loads(found.stdout)
    check(answer, DOCUMENT["components"]["schemas"]["Subject"], "Subject")
    assert answer == ask(server, phone=number)
    text = server.cli("subjects", "find", "--phone", number).stdout
    assert f"ticket {ident}" in text and number not in text
    full = json.loads(server.cli("subjects", "export", "--phone", number, "--json").stdout)
    assert full["places"][0]["payload"] == payload
    for args in ((), ("--phone", "1"), ("--phone", number, "--email", "a@b.com"), ("--document", "52998224724")):
        refused = server.cli("subjects", "find", *args)
        assert refused.returncode == 2 and number not in refused.stderr, args
    actions = [(e["actor"].split(":")[0], e["action"]) for e in server.admin().get("/admin/audit?pageSize=10").json["items"]]
    assert ("cli", "SubjectExported") in actions and ("cli", "SubjectLookedUp") in actions
