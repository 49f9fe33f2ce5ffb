"""Whose counterparties, tickets and acks are: who sees and changes them, what upgrades do, how they are given away."""

import concurrent.futures
import contextlib
import json
import uuid

import psycopg2
import pytest
from harness import Server, wait_for
from test_openapi import DOCUMENT, check

ANOTHER = (409, "DocumentOfAnotherClient")


@pytest.fixture(scope="module")
def server(_module_backends, tmp_path_factory):
    """Takes documents and lets them lie: nothing processes or sends them."""
    made = Server(_module_backends(), tmp_path_factory.mktemp("server"), config={"server": {"roles": "api"}})
    yield made.start()
    made.finish()


@pytest.fixture(scope="module")
def ann(server):
    return server.new_client("Ann", scopes=["interface"])


@pytest.fixture(scope="module")
def bob(server):
    return server.new_client("Bob", scopes=["interface"])


@pytest.fixture(scope="module")
def every(server):
    """No other scope: this one opens the interface by itself."""
    return server.new_client("Every", scopes=["interface-all"])


def fresh(kind="D"):
    return f"{kind}_{uuid.uuid4().hex}"


def ticket(doc, **fields):
    return {"businessEntity": "TCK", "businessDocId": doc, "companyCode": "0050", "branchCode": "1", "destinationCode": "D7",
            "phaseCode": 15, "shipmentEvent": "RCD", "targetApplicationCode": "ASB", **fields}


def party(doc, **fields):
    return {"businessDocId": doc, "businessEntity": "PRC", "counterpartyId": "0050-7", "name": "N", "entityType": "CLI",
            "fiscalReferences": [{"fiscalNumber": "11222333000181"}], **fields}


def ack(doc, entity="TCK"):
    return {"businessEntity": entity, "businessDocId": doc, "operation": "PROCESS", "status": "200"}


def said(answer):
    return answer.status, answer.code if answer.status >= 400 else None


def write(server, sql):
    # Of SQLite only a script is committed.
    (server.backend.script if server.backend.name == "sqlite" else server.backend.query)(sql)


def owner(server, table, doc):
    rows = server.backend.query(f"SELECT c.ClientIdentifier FROM {table} AS t LEFT JOIN Clients AS c ON c.Id = t.ClientId"
                                f" WHERE t.BusinessDocId = '{doc}'")
    [[identifier]] = rows
    return identifier


def everything(caller, path):
    """All items of a list, page by page."""
    items, page = [], 1
    while True:
        answer = caller.get(f"{path}&page={page}&pageSize=200").json
        items += answer["items"]
        if len(items) >= answer["total"]:
            assert len(items) == answer["total"]
            return items
        page += 1


# --- tickets ---


def phases(caller, doc):
    answer = caller.get(f"/api/tickets?businessEntity=TCK&businessDocId={doc}")
    assert answer.status == 200, answer
    return answer.json["items"]


def test_a_ticket_is_seen_by_its_sender_and_by_who_sees_all(server, ann, bob, every):
    doc = fresh()
    assert ann.post("/api/tickets", ticket(doc)).status == 200
    assert len(phases(ann, doc)) == len(phases(every, doc)) == 1
    assert phases(bob, doc) == [] == phases(bob, fresh())
    for caller, seen in ((ann, 1), (every, 1), (bob, 0)):
        assert sum(t["businessDocId"] == doc for t in everything(caller, "/api/tickets?status=Awaiting")) == seen
        assert caller.get(f"/api/tickets?status=Awaiting&businessDocId={doc}").json["total"] == seen


def test_the_key_of_another_clients_ticket_is_409_and_nothing_changes(server, ann, bob):
    doc = fresh()
    body = ticket(doc)
    assert ann.post("/api/tickets", body).status == 200
    before = phases(ann, doc)
    for payload in (body, ticket(doc, branchCode="2")):  # the same bytes, and others
        assert said(bob.post("/api/tickets", payload)) == ANOTHER
    assert phases(ann, doc) == before
    assert bob.post("/api/tickets", ticket(doc, phaseCode=6)).status == 200, "another phase is another key"
    assert [t["phaseCode"] for t in phases(bob, doc)] == [6] and [t["phaseCode"] for t in phases(ann, doc)] == [15]


def test_who_works_on_all_changes_a_ticket_and_it_stays_whose_it_was(server, ann, bob, every):
    doc = fresh()
    assert ann.post("/api/tickets", ticket(doc)).status == 200
    answer = every.post("/api/tickets", ticket(doc, branchCode="2"))
    assert (answer.status, answer.json["created"]) == (200, False)
    [shown] = phases(ann, doc)
    assert (shown["branchCode"], shown["payloadVersion"]) == ("2", 2)
    assert owner(server, "TB_TICKET_INTERFACE", doc) == ann.id
    own = fresh()
    assert every.post("/api/tickets", ticket(own)).status == 200
    assert owner(server, "TB_TICKET_INTERFACE", own) == every.id, "what it makes is its own"


def test_a_ticket_of_another_program_is_nobodys(server, ann, every):
    doc = fresh()
    write(server, "INSERT INTO TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, CompanyCode, BranchCode, DestinationCode,"
                  " PhaseCode, ShipmentEvent, FunctionalAckIsRequired, TargetApplicationCode, RawPayloadJson)"
                  f" VALUES ('TCK', '{doc}', '1', '2', '3', 15, 'E', '0', 'ASB', '{{}}')")
    assert phases(ann, doc) == [] and len(phases(every, doc)) == 1
    assert said(ann.post("/api/tickets", ticket(doc))) == ANOTHER
    assert every.post("/api/tickets", ticket(doc)).status == 200
    assert owner(server, "TB_TICKET_INTERFACE", doc) is None, "nor does it become anybody's by that"


def test_callbacks_are_about_everybodys_tickets(server, ann):
    doc = fresh()
    assert ann.post("/api/tickets", ticket(doc)).status == 200
    gateway = server.new_client("Gateway", scopes=["callback"])
    answer = gateway.post("/api/tickets/callback", {"businessEntity": "TCK", "businessDocId": doc, "phaseCode": 15,
                                                    "status": "Success"})
    assert answer.status == 200 and phases(ann, doc)[0]["callbackStatus"] == "Success"
    assert said(gateway.get("/api/tickets?status=Error")) == (403, "ScopeMissing")


# --- counterparties ---


def one(caller, doc):
    return caller.get(f"/api/counterparties?businessEntity=PRC&businessDocID={doc}")


@pytest.mark.parametrize("query", ["businessEntity=PRC", "entityType=CLI", "counterpartyId=0050-7",
                                   "fiscalNumber=11222333000181", "counterpartyId=0050-7&fiscalNumber=11222333000181"])
def test_a_counterparty_is_seen_by_its_sender_and_by_who_sees_all(server, ann, bob, every, query):
    doc = fresh("CP")
    assert ann.post("/api/counterparties", party(doc)).status == 200
    assert one(ann, doc).status == one(every, doc).status == 200
    assert said(one(bob, doc)) == said(one(bob, fresh("CP"))) == (404, "NotFound")
    for caller, seen in ((ann, 1), (every, 1), (bob, 0)):
        assert sum(p["businessDocId"] == doc for p in everything(caller, f"/api/counterparties?{query}")) == seen
    assert bob.get(f"/api/counterparties?{query}").json["total"] == 0


def test_the_key_of_another_clients_counterparty_is_409_and_nothing_changes(server, ann, bob, every):
    doc = fresh("CP")
    assert ann.post("/api/counterparties", party(doc)).status == 200
    before = one(ann, doc).json
    acks = server.backend.query("SELECT COUNT(*) FROM TB_FUNCTIONAL_ACK_OUTBOX")
    assert said(bob.post("/api/counterparties", party(doc, name="Bob's", functionalAckIsRequired=True))) == ANOTHER
    assert one(ann, doc).json == before
    assert server.backend.query("SELECT COUNT(*) FROM TB_FUNCTIONAL_ACK_OUTBOX") == acks
    answer = every.post("/api/counterparties", party(doc, name="Every's", functionalAckIsRequired=True))
    assert (answer.status, answer.json["created"]) == (200, False)
    assert one(ann, doc).json["name"] == "Every's"
    assert owner(server, "TB_COUNTERPARTIES", doc) == owner(server, "TB_FUNCTIONAL_ACK_OUTBOX", doc) == ann.id


def test_a_counterparty_of_another_program_is_nobodys(server, ann, every):
    doc = fresh("CP")
    write(server, f"INSERT INTO TB_COUNTERPARTIES (BusinessDocId, BusinessEntity) VALUES ('{doc}', 'PRC')")
    assert said(one(ann, doc)) == (404, "NotFound") and one(every, doc).status == 200
    assert said(ann.post("/api/counterparties", party(doc))) == ANOTHER
    assert every.post("/api/counterparties", party(doc)).status == 200
    assert owner(server, "TB_COUNTERPARTIES", doc) is None


# --- acks ---


def acks(caller, doc):
    answer = caller.get(f"/api/functional-ack?businessDocId={doc}")
    assert answer.status == 200 and answer.json["total"] == len(answer.json["items"])
    return len(answer.json["items"])


@pytest.mark.parametrize("whole", [False, True])
def test_an_ack_belongs_to_its_documents_client(server, ann, bob, every, whole):
    doc = fresh()
    body = {"functionalAck": {"functionalDocID": {"businessEntity": "TCK", "businessDocID": doc}}} if whole else ack(doc)
    assert ann.post("/api/tickets", ticket(doc)).status == 200
    assert said(bob.post("/api/functional-ack", body)) == ANOTHER
    assert every.post("/api/functional-ack", body).status == ann.post("/api/functional-ack", body).status == 202
    assert (acks(ann, doc), acks(bob, doc), acks(every, doc)) == (2, 0, 2)


def test_an_ack_about_a_counterparty_belongs_to_its_client(server, ann, bob):
    doc = fresh("CP")
    assert ann.post("/api/counterparties", party(doc)).status == 200
    whole = {"functionalAck": {"functionalDocID": {"businessDocID": doc}}}  # a counterparty's key is its document alone
    for body in (ack(doc, "PRC"), whole):
        assert said(bob.post("/api/functional-ack", body)) == ANOTHER
        assert ann.post("/api/functional-ack", body).status == 202
    assert (acks(ann, doc), acks(bob, doc)) == (2, 0)


def test_an_ack_about_what_is_not_here_is_its_senders(server, ann, bob, every):
    doc = fresh()
    assert ann.post("/api/functional-ack", ack(doc)).status == 202
    assert (acks(ann, doc), acks(bob, doc), acks(every, doc)) == (1, 0, 1)


def test_where_two_have_a_phase_each_sends_acks_of_its_own(server, ann, bob, every):
    doc = fresh()
    assert ann.post("/api/tickets", ticket(doc)).status == bob.post("/api/tickets", ticket(doc, phaseCode=6)).status == 200
    assert ann.post("/api/functional-ack", ack(doc)).status == bob.post("/api/functional-ack", ack(doc)).status == 202
    assert (acks(ann, doc), acks(bob, doc), acks(every, doc)) == (1, 1, 2)


def test_an_ack_about_a_row_of_another_program(server, ann, every):
    doc = fresh("CP")
    write(server, f"INSERT INTO TB_COUNTERPARTIES (BusinessDocId, BusinessEntity) VALUES ('{doc}', 'PRC')")
    assert said(ann.post("/api/functional-ack", ack(doc, "PRC"))) == ANOTHER
    assert every.post("/api/functional-ack", ack(doc, "PRC")).status == 202
    assert owner(server, "TB_FUNCTIONAL_ACK_OUTBOX", doc) is None


def test_acks_of_the_processing_are_the_tickets_clients(make_server):
    server = make_server()
    caller = server.new_client(scopes=["interface"])
    for doc, weights in (("good", {"net": 1}), ("bad", {"net": -1})):
        assert caller.post("/api/tickets", ticket(doc, phaseCode=6, functionalAckIsRequired=True, weights=weights)).status == 200
        wait_for(lambda doc=doc: caller.get(f"/api/functional-ack?businessDocId={doc}").json["items"], "its ack")
        assert acks(caller, doc) == 1
        assert owner(server, "TB_FUNCTIONAL_ACK_OUTBOX", doc) == caller.id


# --- giving away ---


@pytest.mark.parametrize("kind", ["tickets", "counterparties"])
def test_the_administrator_gives_a_document_away(server, ann, bob, every, kind):
    doc = fresh()
    body, path = (ticket(doc), "/api/tickets") if kind == "tickets" else (party(doc), "/api/counterparties")
    entity = "TCK" if kind == "tickets" else "PRC"
    made = ann.post(path, body).json["id"]
    assert ann.post("/api/functional-ack", ack(doc, entity)).status == 202
    for to, sees, not_any_more in ((bob.id, bob, ann), (None, every, bob), (ann.id, ann, bob)):
        answer = server.admin().patch(f"/admin/{kind}/{made}", {"clientId": to})
        check(answer.json, DOCUMENT["components"]["schemas"]["Owner"], "Owner")
        assert answer.json == {"id": made, "businessEntity": entity, "businessDocId": doc, "clientId": to}
        assert acks(sees, doc) == 1 and acks(not_any_more, doc) == 0, "its acks go along"
        assert said(not_any_more.post(path, body)) == ANOTHER
        assert sees.post(path, body).status == 200
    entries = [e for e in server.admin().get("/admin/audit?pageSize=200").json["items"] if e["target"] == f"{kind}/{made}"]
    action = "TicketReassigned" if kind == "tickets" else "CounterpartyReassigned"
    assert [(e["action"], e["details"]) for e in entries] == [
        (action, {"businessDocId": doc, "from": a, "to": b}) for a, b in ((None, ann.id), (bob.id, None), (ann.id, bob.id))]
    total = server.admin().get("/admin/audit").json["total"]
    assert server.admin().patch(f"/admin/{kind}/{made}", {"clientId": ann.id}).status == 200
    assert server.admin().get("/admin/audit").json["total"] == total, "nothing was changed by that"


def test_acks_stay_while_another_phase_does(server, ann, bob):
    doc = fresh()
    ids = [ann.post("/api/tickets", ticket(doc, phaseCode=p)).json["id"] for p in (15, 6)]
    assert ann.post("/api/functional-ack", ack(doc)).status == 202
    for made, left in zip(ids, (1, 0)):
        assert server.admin().patch(f"/admin/tickets/{made}", {"clientId": bob.id}).status == 200
        assert (acks(ann, doc), acks(bob, doc)) == (left, 1 - left)


@pytest.mark.parametrize("kind", ["tickets", "counterparties"])
def test_what_cannot_be_given_away(server, ann, kind):
    body, path = (ticket(fresh()), "/api/tickets") if kind == "tickets" else (party(fresh()), "/api/counterparties")
    made = ann.post(path, body).json["id"]
    admin = server.admin()
    assert said(admin.patch(f"/admin/{kind}/{made}", {"clientId": "nobody-has-this"})) == (400, "BadRequest")
    for bad in ({}, {"clientId": ""}, {"clientId": 7}, {"clientId": ["x"]}, {"clientId": "x" * 65}):
        assert said(admin.patch(f"/admin/{kind}/{made}", bad)) == (400, "ValidationFailed" if bad != {"clientId": 7} else "BadRequest")
    for missing in ("999999999", "x", "-1"):
        assert said(admin.patch(f"/admin/{kind}/{missing}", {"clientId": ann.id})) == (404, "NotFound")
    assert ann.patch(f"/admin/{kind}/{made}", {"clientId": ann.id}).status == 401
    assert ann.post(path, body).status == 200


# --- scopes ---


def test_a_client_without_scopes_has_the_two_that_are_its_own(server):
    answer = server.admin().post("/admin/clients", {"name": "Plain"}).json
    caller = server.client(answer["clientId"], answer["clientSecret"])
    assert caller.get("/whoami").json["scopes"] == ["interface", "imports"]
    assert caller.get("/api/tickets?status=Error").status == caller.get("/imports").status == 200
    for method, path in (("POST", "/api/tickets/callback"), ("POST", "/events"), ("GET", "/integrations/x/y")):
        assert caller.request(method, path, **({"json": {}} if method == "POST" else {})).code == "ScopeMissing"
    done = server.cli("client", "create", "--name", "Plain too", "--id", "plain-too", "--json")
    assert done.returncode == 0, done.stderr
    assert server.admin().get("/admin/clients/plain-too").json["scopes"] == ["interface", "imports"]


def test_a_client_that_an_older_version_makes_beside_this_one_has_what_it_has_there(server):
    made = server.new_client(scopes=["events"])
    write(server, f"UPDATE Clients SET Scopes = NULL WHERE ClientIdentifier = '{made.id}'")
    assert server.admin().get(f"/admin/clients/{made.id}").json["scopes"] == [*OLD_NAMES, "interface-all"]


# --- upgrades ---

BEFORE = {"everything": None, "listed": "interface,callback", "spaced": "imports, interface", "without": "imports,acks",
          "odd": "Interface,events", "prefixed": "interface-x,acks", "has-it": "interface,interface-all"}
OLD_NAMES = ["interface", "callback", "imports", "acks", "events", "integrations"]
AFTER = {"everything": [*OLD_NAMES, "interface-all"], "listed": ["interface", "callback", "interface-all"],
         "spaced": ["interface", "imports", "interface-all"], "without": ["imports", "acks"], "odd": ["events"],
         "prefixed": ["acks"], "has-it": ["interface", "interface-all"]}
WIDENED = {"everything", "listed", "spaced"}


def scopes_now(server):
    items = server.admin().get("/admin/clients?pageSize=200").json["items"]
    return {i["clientId"]: i["scopes"] for i in items}


def widened_in_audit(server):
    entries = server.admin().get("/admin/audit?pageSize=200").json["items"]
    return {e["target"]: e for e in entries if e["action"] == "ClientScopesWidened"}


def test_an_upgrade_narrows_nobody_and_says_whom_it_widened(make_server):
    server = make_server()
    for name, scopes in BEFORE.items():
        server.new_client(name, clientId=name)
        value = "NULL" if scopes is None else f"'{scopes}'"
        write(server, f"UPDATE Clients SET Scopes = {value} WHERE ClientIdentifier = '{name}'")
    # As the version before leaves it: the script was never applied.
    write(server, "DELETE FROM SchemaScripts WHERE Name = '120_tenants.sql'")
    server.restart()
    assert scopes_now(server) == AFTER
    audited = widened_in_audit(server)
    assert set(audited) == WIDENED and {e["actor"] for e in audited.values()} == {"upgrade"}
    assert audited["everything"]["details"] == {"before": "all", "after": ",".join(AFTER["everything"])}
    assert audited["listed"]["details"] == {"added": "interface-all"}
    told = server.log("ClientScopesWidened")
    assert {e["clientId"] for e in told} == WIDENED and {e["level"] for e in told} == {"warn"}


def test_a_client_made_after_the_upgrade_stays_what_it_is_when_scripts_run_again(make_server):
    server = make_server()
    server.new_client("New", clientId="new", scopes=["interface"])
    write(server, f"UPDATE SchemaScripts SET Checksum = '{'0' * 64}' WHERE Name = '120_tenants.sql'")
    done = server.cli("migrate")
    assert (done.returncode, done.stdout) == (0, "1 schema script applied\n"), done.stderr
    assert scopes_now(server) == {"new": ["interface"]} and not widened_in_audit(server)
    server.restart()
    assert scopes_now(server) == {"new": ["interface"]} and not server.log("ClientScopesWidened")


def test_migrate_names_them_too(make_server):
    server = make_server()
    server.new_client("Old", clientId="old", scopes=["interface"])
    write(server, "DELETE FROM SchemaScripts WHERE Name = '120_tenants.sql'")
    done = server.cli("migrate")
    assert done.returncode == 0
    [told] = [e for e in map(json.loads, done.stderr.splitlines()) if e["event"] == "ClientScopesWidened"]
    assert told["clientId"] == "old" and told["scopes"] == "interface,interface-all"


def test_a_script_that_meets_the_work_of_an_older_process_is_run_again(make_server):
    """It locks tables that a process beside writes in another order: the database ends one of the two."""
    server = make_server()
    if server.backend.name != "postgres":
        pytest.skip("elsewhere nobody else writes meanwhile, or waits for another lock")
    server.new_client("Old", clientId="old", scopes=["interface"])
    write(server, "DELETE FROM SchemaScripts WHERE Name = '120_tenants.sql'")
    with contextlib.closing(psycopg2.connect(server.backend.url)) as beside, concurrent.futures.ThreadPoolExecutor() as pool:
        cursor = beside.cursor()
        cursor.execute("SET deadlock_timeout = '60s'")  # so that it is the script that finds out
        cursor.execute("UPDATE TB_TICKET_INTERFACE SET UpdatedAt = UpdatedAt")
        migrating = pool.submit(server.cli, "migrate")
        wait_for(lambda: server.backend.query(
            "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = 'TB_TICKET_INTERFACE'::regclass")[0][0], "the script waits")
        cursor.execute("UPDATE TB_TICKET_RETURN_OUTBOX SET LastError = LastError")
        beside.commit()
        done = migrating.result()
    assert (done.returncode, done.stdout) == (0, "1 schema script applied\n"), done.stderr
    assert scopes_now(server) == {"old": ["interface", "interface-all"]} and set(widened_in_audit(server)) == {"old"}
