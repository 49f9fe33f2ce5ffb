"""What the old program leaves behind, and what must hold when the new one has worked on it.

fill() drives the old program through phases, each ended by SIGTERM or kill -9, so that rows of every kind are left in
every state: done; tried in vain; taken by a peer whose answer was lost; never tried; claimed for processing; waiting;
batches in work with settled chunks, one that waits for its ack and others on their way. What it answers, the facts, is
plain JSON, so that a snapshot can keep it. check() compares the facts with what the new program makes of them.
"""

import collections
import contextlib
import csv
import io
import json
import sqlite3

import openpyxl
from harness import wait_for
from peer import CHUNKS, LOST
from test_imports_receive import schedule_all, taken, upload

GATEWAY_KEY, OMNIFLOW_KEY = "gateway-key-of-the-tests", "omniflow-key-of-the-tests"
CHUNK, LEADS = 3, 24  # records in a chunk; leads in a file, more than are on their way at a time
GROUPS = ("done", "tried", "lost", "untried", "claimed", "waiting")
SCOPES = ("interface", "callback", "imports", "acks", "events", "integrations")
CLIENTS = {"unscoped": None, "six": SCOPES, **{s: (s,) for s in SCOPES}, "pair": ("interface", "imports"),
           "omniflow": ("acks", "callback"), "suspended": None}
OUTBOXES = ("TB_FUNCTIONAL_ACK_OUTBOX", "TB_TICKET_RETURN_OUTBOX", "WebhookDeliveries", "IntegrationCalls", "AlertDeliveries")


def configuration(address):
    base = f"http://{address}"
    return {
        "gateway": {"functional_ack_url": f"{base}/gateway/acks", "ticket_return_url": f"{base}/gateway/returns",
                    "ticket_send_url": f"{base}/gateway/tickets", "api_key": GATEWAY_KEY},
        "delivery": {"allow_private_targets": "on", "retry_base_ms": 1000, "retry_cap_ms": 1000, "max_attempts": 1000,
                     "lease_ms": 3000, "timeout_ms": 2000},
        "breaker": {"window": 10000, "min_calls": 10000},
        "omniflow": {"url": f"{base}/omniflow", "api_key": OMNIFLOW_KEY, "batch_size": CHUNK, "max_parallel_chunks": 4,
                     "max_retries": 100, "retry_delays_ms": 200, "timeout_ms": 20000, "ack_timeout_seconds": 120},
        "imports": {"mode": "concurrent", "poll_ms": 50},
        "webhooks": {"retry_delays_ms": ",".join(["500"] * 16), "timeout_ms": 2000},
        "integration.pay": {"base_url": f"{base}/payments", "retry_max_attempts": 1},
        "relay.events": {"dispatcher": "http", "target": f"{base}/events", "poll_ms": 50, "retry_base_ms": 100,
                         "retry_cap_ms": 300, "max_retries": 1000, "timeout_ms": 2000},
        "alerts": {"pagerduty_routing_key": "r" * 32, "pagerduty_url": f"{base}/alerts", "interval_seconds": 86400},
        "security": {"master_key": "5a" * 32},
    }


# --- documents ---------------------------------------------------------------------------------------


def ticket(doc, phase=15, **more):
    return {"businessEntity": "TCK", "businessDocId": doc, "companyCode": "0050", "branchCode": "1",
            "destinationCode": "D7", "phaseCode": phase, "shipmentEvent": "RCD", "functionalAckIsRequired": True,
            "targetApplicationCode": "ASB", **more}


def envelope(doc):
    return {"shipmentTicket": {
        "functionalDocID": {"businessAppID": "CRN", "businessEntity": "TCK", "businessDocID": doc,
                            "originalBusinessDocID": "", "userID": ""},
        "functionalAckIsRequired": "true",
        "header": {"companyCode": "0050", "branchCode": "1", "destinationCode": "D7", "phaseCode": "6",
                   "shipmentEvent": "RCD", "targetApplications": {"targetApplication": [{"applicationCode": "ASB"}]}},
        "data": {"weights": {"gross": 3, "tare": 1, "net": 2, "unit": "KG"}}}}


def counterparty(doc):
    return {"businessDocId": doc, "businessEntity": "PRC", "name": "Ação Ltda", "entityType": "CLI",
            "functionalAckIsRequired": True, "addresses": [{"addrLine1": "Rua A", "cityCode": "4315701"}]}


def ack(doc):
    return {"businessEntity": "TCK", "businessDocId": doc, "operation": "PROCESS", "status": "200", "message": "Concluído"}


def rows_of_a_file():
    """A header, and records with gaps: nothing, blanks only, a repeat, one that cannot be sent."""
    rows = [["telefone", "nome"]]
    for i in range(LEADS):
        rows.append([f"+55519{91000000 + i}", f"Lead {i}"])
        if i in (1, 14):
            rows += [[]] * 3
        if i == 5:
            rows.append(["", " "])
        if i == 8:
            rows.append(list(rows[-1]))
        if i == 17:
            rows.append(["", "Ninguém"])
    return rows


def files():
    """One of each kind, with the same records."""
    rows = rows_of_a_file()
    book = openpyxl.Workbook()
    for place, row in enumerate(rows, 1):
        for column, value in enumerate(row, 1):
            if value:
                book.active.cell(place, column, value)
    out = io.BytesIO()
    book.save(out)
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    records = [dict(zip(rows[0], row)) for row in rows[1:]]
    return {"leads.json": json.dumps(records).encode(), "leads.csv": text.getvalue().encode(), "leads.xlsx": out.getvalue()}


# --- filling -----------------------------------------------------------------------------------------


def failing(_path, _correlation, _body):
    return 503


def losing(_path, correlation, _body):
    """Not of all: who does not answer has every connection that one destination may have."""
    return LOST if (correlation or "").startswith("LOST") else 503


def partly(_path, _correlation, body):
    """The first two chunks of a batch are done, the third waits for its ack, the answers of others are lost."""
    return 200 if body["chunkId"] <= 2 else (202, {"ackId": ack_id(body)}) if body["chunkId"] == 3 else LOST


def ack_id(body):
    return f"ack-{body['batchId']}-{body['chunkId']}"


def callers(server, facts):
    made = {}
    for name, client in facts["clients"].items():
        made[name] = server.client(client["id"], client["secret"])
        made[name].id = client["id"]
        server.secrets.add(client["secret"])
    return made


class Filling:
    def __init__(self, server, peer):
        self.server, self.peer, self.backend = server, peer, server.backend
        self.facts = {"clients": {}, "tickets": {}, "batches": {}, "hooks": {}, "seen": [], "access": {}, "views": {}}
        self.by = {}

    def start(self, roles="all", *more, **rules):
        self.peer.tell(**rules)
        self.server.args = ("--set", f"server.roles={roles}", *more)
        self.server.start()
        self.by = callers(self.server, self.facts)

    def stop(self):
        assert self.server.stop() == 0, self.server.log_text()[-4000:]

    def kill(self):
        self.server.kill()

    def count(self, table, where):
        return self.backend.query(f"SELECT COUNT(*) FROM {table} WHERE {where}")[0][0]

    def make_clients(self):
        admin = self.server.admin()
        for name, scopes in CLIENTS.items():
            made = admin.post("/admin/clients", {"name": f"Ação {name}", "clientId": f"up-{name}",
                                                 **({"scopes": scopes} if scopes else {})})
            assert made.status == 201, made
            self.facts["clients"][name] = {"id": f"up-{name}", "secret": made.json["clientSecret"]}
        assert admin.patch("/admin/clients/up-suspended", {"status": "Suspended"}).status == 200
        assert admin.request("PUT", "/admin/clients/up-imports/policy",
                             json={"maxFileSizeMb": 5, "maxBatchPerDay": 500, "requestsPerMinute": 5000}).status == 200
        self.by = callers(self.server, self.facts)

    def subscribe(self, client, name):
        made = self.by[client].post(f"/clients/up-{client}/webhooks",
                                    {"url": f"http://{self.peer.address}/{name}/{client}",
                                     "events": ["TicketProcessed", "TicketFailed", "BatchCompleted", "BatchStarted"]})
        assert made.status == 201, made
        self.facts["hooks"][name] = made.json["id"]

    def documents(self, group):
        """Tickets of two clients in both shapes, a counterparty and an ack; 2xx for each."""
        for number, client in enumerate(("unscoped", "interface", "interface")):
            doc = f"{group.upper()}_{number}"
            body = envelope(doc) if number == 2 else ticket(doc)
            answer = self.by[client].post("/api/tickets", body)
            assert answer.status == 200, answer
            self.facts["tickets"][doc] = {"client": client, "body": body}
        for path, body in (("/api/counterparties", counterparty(f"{group.upper()}_CP")),
                           ("/api/functional-ack", ack(f"{group.upper()}_ACK"))):
            assert self.by["interface"].post(path, body).status in (200, 202)

    def events(self, group):
        answer = self.by["events"].post("/events", [{"eventType": "Filled", "payload": {"group": group, "n": n},
                                                     "correlationId": f"{group.upper()}_{n}"} for n in (0, 1)],
                                        headers={"Idempotency-Key": f"event-{group}"})
        assert answer.status in (200, 201, 202), answer

    def upload(self, group, name, client):
        answer = upload(self.by[client], files()[name], name, headers={"Idempotency-Key": f"{group}-{name}"})
        self.facts["batches"][f"{group}-{name}"] = {"id": taken(answer), "client": client}

    def batches(self, group):
        """Of three clients, so that they are in work side by side."""
        for name, client in (("leads.json", "imports"), ("leads.csv", "unscoped"), ("leads.xlsx", "pair")):
            self.upload(group, name, client)

    def batch_ids(self, group):
        return [b["id"] for key, b in self.facts["batches"].items() if key.startswith(group + "-")]

    def reached(self, group, *paths):
        """Each of the group's documents came to each path."""
        docs = [f"{group.upper()}_{n}" for n in range(3)]
        came = {(r.path, r.correlation) for r in self.peer.came()}
        return all((path, doc) in came for path in paths for doc in docs)

    # -- phases

    def all_is_done(self):
        """A subscription of its own has its deliveries given up meanwhile."""
        self.start("all", "--set", "webhooks.retry_delays_ms=10", dead=failing)
        self.make_clients()
        self.subscribe("unscoped", "webhooks")
        self.subscribe("interface", "dead")
        self.documents("done")
        wrong = ticket("WRONG", 6, data={"weights": {"gross": 1, "tare": 5, "net": 9, "unit": "KG"}})
        assert self.by["interface"].post("/api/tickets", wrong).status == 200
        self.events("done")
        assert self.by["integrations"].post("/integrations/pay/charge", {"n": 0}).status == 201
        assert self.server.admin().post("/admin/alerts/test").status == 202
        self.batches("done")
        later = self.by["pair"]
        wait_for(lambda: self.count("ImportBatch", "Status IN (3, 4)") == 3, "the batches over")
        schedule_all(self.server, later)
        for name in ("scheduled", "cancelled"):
            answer = upload(later, files()["leads.csv"], f"{name}.csv")
            self.facts["batches"][name] = {"id": taken(answer, "Scheduled"), "client": "pair"}
        assert later.request("DELETE", f"/imports/{self.facts['batches']['cancelled']['id']}").status in (200, 204)
        assert self.server.admin().request("PUT", "/admin/clients/up-pair/policy",
                                           json={"allowedStartHour": None, "allowedEndHour": None}).status == 200
        wait_for(lambda: not unsettled(self.backend, self.facts) and
                 self.count("WebhookDeliveries", "Status = 'Error'") >= 3, "everything delivered or given up")
        callback = {"businessEntity": "TCK", "businessDocId": "DONE_0", "phaseCode": 15, "status": "Success", "code": "0"}
        assert self.by["callback"].post("/api/tickets/callback", callback).status == 200
        self.facts["access"] = access(self.server, self.facts)
        wait_for(lambda: not unsettled(self.backend, self.facts), "what that has set in motion")
        self.facts["views"] = views(self.server, self.facts)
        self.stop()

    def all_is_tried(self):
        self.start(gateway=failing, webhooks=failing, events=failing, payments=failing, alerts=failing)
        self.documents("tried")
        self.events("tried")
        kept = self.by["integrations"].post("/integrations/pay/charge?onUnavailable=enqueue", {"n": 1},
                                            headers={"Idempotency-Key": "charge-1"})
        assert kept.status == 202, kept
        assert self.server.admin().post("/admin/alerts/test").status == 202
        wait_for(lambda: self.reached("tried", "/gateway/acks", "/gateway/returns", "/gateway/tickets") and
                 all(any(r.status == 503 for r in self.peer.came(p)) for p in ("/events", "/webhooks", "/alerts")) and
                 sum(r.key == "charge-1" for r in self.peer.came()) > 1, "everything tried")
        self.stop()

    def all_answers_are_lost(self):
        self.start(gateway=losing, webhooks=losing, events=losing, payments=losing, alerts=losing, omniflow=partly)
        self.documents("lost")
        self.events("lost")
        self.batches("lost")
        ids = self.batch_ids("lost")
        everyone = " OR ".join(f"BatchId = '{i}'" for i in ids)
        wait_for(lambda: self.reached("lost", "/gateway/acks", "/gateway/returns", "/gateway/tickets") and
                 self.count("ImportChunk", f"({everyone}) AND Status = 3") == 2 * len(ids) and
                 self.count("ImportChunk", f"({everyone}) AND Status = 2") == len(ids) and
                 len({r.body["batchId"] for r in self.peer.came(CHUNKS) if r.status == LOST}) == len(ids),
                 "everything on its way")
        self.kill()
        self.peer.tell()

    def nothing_is_tried(self):
        self.start("api,process")
        self.documents("untried")
        wait_for(lambda: self.count("TB_TICKET_INTERFACE", "Status = 'Awaiting'") == 0, "tickets processed")
        self.stop()

    def tickets_are_claimed(self):
        """The old program is killed between the commit that claims them and the one that has their outcome."""
        self.start("api")
        self.documents("claimed")
        self.stop()
        with stuck(self.backend):
            self.server.args = ("--set", "server.roles=process")
            self.server.spawn()
            wait_for(lambda: self.count("TB_TICKET_INTERFACE", "Status = 'Processing'") == 3, "tickets claimed")
            self.kill()

    def all_is_waiting(self):
        self.start("api")
        self.documents("waiting")
        self.events("waiting")
        self.batches("waiting")
        self.kill()

    def run(self):
        for phase in (self.all_is_done, self.all_is_tried, self.all_answers_are_lost, self.nothing_is_tried,
                      self.tickets_are_claimed, self.all_is_waiting):
            phase()
        self.facts["seen"] = [seen(r) for r in self.peer.came()]
        return self.facts


def seen(request):
    chunk = request.body and [request.body["batchId"], request.body["chunkId"]]
    return [request.path, request.key, request.correlation, request.digest, request.status, chunk]


STUCK = {
    "sqlite": ("CREATE VIEW Endless AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c;"
               " CREATE TRIGGER Stuck BEFORE INSERT ON TB_TICKET_RETURN_OUTBOX BEGIN SELECT COUNT(*) FROM Endless; END;",
               "DROP TRIGGER Stuck; DROP VIEW Endless;"),
    "postgres": ("CREATE FUNCTION stuck() RETURNS trigger LANGUAGE plpgsql AS"
                 " $$ BEGIN PERFORM pg_sleep(3600); RETURN NEW; END $$;"
                 " CREATE TRIGGER stuck BEFORE INSERT ON TB_TICKET_RETURN_OUTBOX FOR EACH ROW EXECUTE FUNCTION stuck();",
                 "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                 " AND pid <> pg_backend_pid(); DROP TRIGGER stuck ON TB_TICKET_RETURN_OUTBOX; DROP FUNCTION stuck();"),
    "sqlserver": ("CREATE TRIGGER Stuck ON TB_TICKET_RETURN_OUTBOX AFTER INSERT AS WAITFOR DELAY '01:00:00'",
                  "DROP TRIGGER Stuck"),
}


@contextlib.contextmanager
def stuck(backend):
    """What processing has to write takes for ever."""
    begin, end = STUCK[backend.name]
    backend.script(begin)
    yield
    wait_for(lambda: _dropped(backend, end), "the trigger gone")


def _dropped(backend, end):
    try:
        backend.script(end)
    except sqlite3.OperationalError:
        return False
    return True


def fill(server, peer):
    return Filling(server, peer).run()


# --- what clients can do and see ---------------------------------------------------------------------


def probes(facts):
    """Calls that may be made again and again: path, body, Idempotency-Key."""
    of = "businessEntity=TCK&businessDocId=DONE_{}&phaseCode={}"
    batch = facts["batches"]["done-leads.json"]["id"]
    return {
        "own or another's ticket": ("GET", "/api/tickets?" + of.format(0, 15), None, None),
        "another's or own ticket": ("GET", "/api/tickets?" + of.format(2, 6), None, None),
        "ticket again": ("POST", "/api/tickets", facts["tickets"]["DONE_0"]["body"], None),
        "counterparty": ("GET", "/api/counterparties?businessEntity=PRC&businessDocID=DONE_CP", None, None),
        "acks": ("GET", "/api/functional-ack?businessDocId=DONE_ACK", None, None),
        "callback": ("POST", "/api/tickets/callback", {"businessEntity": "TCK", "businessDocId": "DONE_0", "phaseCode": 15,
                                                       "status": "Success", "code": "0"}, None),
        "batches": ("GET", "/imports", None, None),
        "one batch": ("GET", f"/imports/{batch}", None, None),
        "no such chunk": ("POST", f"/imports/{batch}/acks", {"ackId": "a", "chunkId": 999, "status": "Imported"}, None),
        "event": ("POST", "/events", {"eventType": "Probe", "payload": {}}, "probe"),
        "payment": ("GET", "/integrations/pay/one", None, None),
        "whoami": ("GET", "/whoami", None, None),
    }


def access(server, facts):
    """What each client gets for each call: the status, and of an event its id."""
    found = {}
    for name, caller in callers(server, facts).items():
        for probe, (method, path, body, key) in probes(facts).items():
            answer = caller.request(method, path, headers={"Idempotency-Key": key} if key else {},
                                    **({"json": body} if body is not None else {}))
            told = answer.json.get("eventId") if probe == "event" and answer.status < 300 else None
            found[f"{name}: {probe}"] = [answer.status, told]
    return found


def views(server, facts):
    """What is at rest, as clients and the administrator see it."""
    by = callers(server, facts)
    done = [b for key, b in facts["batches"].items() if key.startswith(("done-", "cancelled"))]
    asked = [("interface", f"/api/tickets?businessEntity=TCK&businessDocId={doc}") for doc in ("DONE_0", "DONE_1", "DONE_2", "WRONG")]
    asked += [("interface", "/api/counterparties?businessEntity=PRC&businessDocID=DONE_CP"),
              ("interface", "/api/functional-ack?businessDocId=DONE_ACK")]
    asked += [(b["client"], f"/imports/{b['id']}{rest}") for b in done for rest in ("", "/items?pageSize=3")]
    asked += [("unscoped", "/clients/up-unscoped/webhooks"), ("interface", "/clients/up-interface/webhooks"),
              ("admin", "/admin/clients/up-imports/policy"), ("admin", "/admin/clients/up-pair/policy")]
    found = {}
    for name, path in asked:
        answer = (server.admin() if name == "admin" else by[name]).get(path)
        assert answer.status == 200, (path, answer)
        found[f"{name} {path}"] = answer.json
    return found


PASSING = {"lastSeenAt", "updatedAt", "failureSince"}  # what calls and deliveries of others move


def within(old, new):
    """Everything that was shown before is still shown; there may be more."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(name in PASSING or name in new and within(old[name], new[name]) for name in old)
    if isinstance(old, list):
        return isinstance(new, list) and len(old) == len(new) and all(map(within, old, new))
    return old == new


# --- afterwards --------------------------------------------------------------------------------------


def unsettled(backend, facts):
    """What still has a way to go: table → rows."""
    def count(table, where):
        return backend.query(f"SELECT COUNT(*) FROM {table} WHERE {where}")[0][0]

    dead = facts["hooks"].get("dead")
    left = {table: count(table, "Status <> 'Sent'" + (f" AND SubscriptionId <> '{dead}'" if dead and "Webhook" in table else ""))
            for table in OUTBOXES}
    left["tickets"] = count("TB_TICKET_INTERFACE", "BusinessDocId <> 'WRONG' AND (Status <> 'Processed' OR"
                                                   " ReturnStatus <> 'Sent' OR GatewaySendStatus <> 'Sent')")
    left["events"] = count("outbox_events", "status <> 'PROCESSED'")
    left["batches"] = count("ImportBatch", "Status IN (0, 1)")
    return {name: n for name, n in left.items() if n}


def is_taken(status):
    return status == LOST or status < 300


def check_deliveries(facts, peer):
    """One key for each content, the one that was used before; what was done is not done again, all else once."""
    keys, before, after = collections.defaultdict(set), collections.Counter(), collections.Counter()
    for path, key, correlation, digest, status, chunk in facts["seen"]:
        if not chunk and key:
            keys[path, correlation, digest].add(key)
            before[path, correlation, digest] += status != LOST and status < 300
    for r in peer.came():
        if r.path != CHUNKS and r.key:
            keys[r.path, r.correlation, r.digest].add(r.key)
            assert is_taken(r.status)
            after[r.path, r.correlation, r.digest] += 1
    assert {what: found for what, found in keys.items() if len(found) != 1} == {}, "a content under two keys"
    came = {what: (before[what], after[what]) for what in keys if not what[0].startswith("/dead")}
    assert {what: n for what, n in came.items() if sum(n) != 1} == {}, "not once: (answered before, came after)"
    return came


def check_documents(facts, backend, came):
    """The peer has of each ticket the ticket, the return and the ack, of each group's counterparty and ack the ack."""
    contents = collections.Counter((path, correlation) for path, correlation, _ in came)
    expected = {(f"/gateway/{path}", doc): 1 for path in ("tickets", "returns", "acks") for doc in facts["tickets"]}
    expected |= {("/gateway/acks", f"{g.upper()}_{kind}"): 1 for g in GROUPS for kind in ("CP", "ACK")}
    expected["/gateway/acks", "WRONG"] = 1
    assert {what: n for what, n in contents.items() if what[0].startswith("/gateway")} == expected
    [[status]] = backend.query("SELECT Status FROM TB_TICKET_INTERFACE WHERE BusinessDocId = 'WRONG'")
    assert status == "Error"
    assert sum(n for what, n in contents.items() if what[0] == "/webhooks/unscoped") >= len(GROUPS), "one for each ticket"
    [[events]] = backend.query("SELECT COUNT(*) FROM outbox_events")
    assert sum(n for what, n in contents.items() if what[0].startswith("/events")) == events


def items(backend, batch):
    rows = backend.query("SELECT Sequence, Status, ErrorMessage, ChunkId, PayloadJson FROM ImportItem"
                         f" WHERE BatchId = '{batch}' ORDER BY Sequence")
    return [tuple(r[:4]) + (r[4] and shown(json.loads(r[4])),) for r in rows]


def shown(payload):
    """What a masked item still tells: the old program did not mask."""
    return {"sequence": payload["sequence"], "phone": (payload["PhoneNumber"] or "")[-2:], "origin": payload["Origin"]}


def imported(found):
    return [{name: value for name, value in payload.items() if name != "sequence"}
            for _, status, _, _, payload in found if status == 0]


def sent_records(requests):
    """By the peer's view: the phone of every record, once for each chunk however often that came."""
    chunks = {r.body["chunkId"]: r.body for r in requests}
    return collections.Counter(i["PhoneNumber"] for body in chunks.values() for i in body["items"])


def check_batches(facts, backend, peer):
    keys = collections.defaultdict(set)
    for path, key, _, digest, _, chunk in facts["seen"]:
        if chunk:
            keys[tuple(chunk)].add((key, digest))
    for r in peer.came(CHUNKS):
        keys[r.body["batchId"], r.body["chunkId"]].add((r.key, r.digest))
    assert {chunk: found for chunk, found in keys.items() if len(found) != 1} == {}, "a chunk with two contents"
    answered = {tuple(chunk) for *_, status, chunk in facts["seen"] if chunk and status == 200}
    again = [(r.body["batchId"], r.body["chunkId"]) for r in peer.came(CHUNKS)]
    assert not answered & set(again), "a settled chunk came again"
    assert max(collections.Counter(again).values()) == 1
    for name in files():
        control = items(backend, facts["batches"][f"done-{name}"]["id"])
        begun = items(backend, facts["batches"][f"lost-{name}"]["id"])
        assert begun == control, f"{name}: begun by the old program, finished by the new one"
        waiting = items(backend, facts["batches"][f"waiting-{name}"]["id"])
        assert imported(waiting) == imported(control), name  # by rules of its own: other sequences, perhaps
        requests = [r for r in peer.came(CHUNKS) if r.body["batchId"] == facts["batches"][f"waiting-{name}"]["id"]]
        assert sorted(sent_records(requests).items()) == [(f"+55519{91000000 + i}", 1) for i in range(LEADS)]
    found = dict(backend.query("SELECT Id, Status FROM ImportBatch"))
    found = {key: found[batch["id"]] for key, batch in facts["batches"].items()}
    ends = {key: found[key.replace("lost", "done").replace("waiting", "done")] for key in found}
    ends |= {"scheduled": found["done-leads.csv"], "cancelled": 6}
    assert found == ends and set(ends.values()) <= {3, 4, 6}


def check_access(server, facts):
    """Nobody can do less, and nobody more."""
    now = access(server, facts)
    assert {what: (old, now[what]) for what, old in facts["access"].items() if now[what] != old} == {}
    for what, old in facts["views"].items():
        name, path = what.split(" ", 1)
        caller = server.admin() if name == "admin" else callers(server, facts)[name]
        answer = caller.get(path)
        assert answer.status == 200 and within(old, answer.json), f"{what}:\n{old}\n{answer.json}"


def check_scopes(server, facts):
    listed = {c["clientId"]: set(c["scopes"]) for c in server.admin().get("/admin/clients?pageSize=200").json["items"]}
    for name in facts["clients"]:
        before = set(CLIENTS[name] or SCOPES)
        more = listed[f"up-{name}"] - before
        assert before <= listed[f"up-{name}"] and more <= ({"interface-all"} if "interface" in before else set()), name


def check_repeats(server, facts):
    """A call with a key from before is answered as it was then."""
    by = callers(server, facts)
    for group in ("done", "waiting"):
        answer = by["pair"].request("GET", f"/imports/{facts['batches'][f'{group}-leads.xlsx']['id']}")
        assert answer.status == 200
        again = upload(by["imports"], files()["leads.json"], "leads.json",
                       headers={"Idempotency-Key": f"{group}-leads.json"})
        assert (again.status, again.json["batchId"]) == (202, facts["batches"][f"{group}-leads.json"]["id"])


def check_failures(server, facts, peer):
    """Deliveries that were given up are still there, and are sent when somebody retries them."""
    hook, caller = facts["hooks"]["dead"], callers(server, facts)["interface"]
    failed = caller.get(f"/clients/up-interface/webhooks/{hook}/deliveries?status=Error").json["items"]
    assert failed
    before = len(peer.came("/dead"))
    answer = server.admin().post(f"/admin/outbox/webhooks/{failed[0]['id']}/retry")
    assert answer.status == 200, answer
    wait_for(lambda: len(peer.came("/dead")) > before, "the replay")


def check(server, facts, peer):
    """server: the new program, started on what fill() left, with a peer that is well and has seen nothing yet."""
    backend = server.backend
    backend.script(f"UPDATE ImportBatch SET ScheduledFor = CreatedAt WHERE Id = '{facts['batches']['scheduled']['id']}'")
    by = callers(server, facts)
    for name in files():  # the ack that the old program did not live to see
        batch = facts["batches"][f"lost-{name}"]["id"]
        answer = by["omniflow"].post(f"/imports/{batch}/acks", {
            "ackId": ack_id({"batchId": batch, "chunkId": 3}), "chunkId": 3, "status": "Imported"})
        assert answer.status == 200, answer
    batch = facts["batches"]["scheduled"]["id"]
    wait_for(lambda: not unsettled(backend, facts) and
             backend.query(f"SELECT Status FROM ImportBatch WHERE Id = '{batch}'")[0][0] != 2, "everything settled", every=0.1)
    came = check_deliveries(facts, peer)
    check_documents(facts, backend, came)
    check_batches(facts, backend, peer)
    check_access(server, facts)
    check_scopes(server, facts)
    check_repeats(server, facts)
    check_failures(server, facts, peer)
