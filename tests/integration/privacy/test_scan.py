"""A whole run with people and secrets that are known, and then a look at everything that the server wrote.

Each kind of document has a person of its own, so that a value that is found says where it came from. ALLOWED is what
docs/privacy.md says: the only columns in which a person may stand while the document is kept."""

import base64
import dataclasses
import http.server
import json
import re
import threading
import uuid
from urllib.parse import quote, quote_plus

import pytest
from harness import ADMIN_KEY, MASTER_KEY, ROOT, TIMEOUT, FakeClock, wait_for
from test_imports_process import configuration, wait_end
from test_imports_receive import taken, upload
from test_interface_acks import short
from test_interface_counterparties import flat as counterparty
from test_interface_tickets import flat as ticket
from test_year import KINDS, tables

import pg
from collector import Collector

# (kind of document, table.column, why). A kind that is not here may stand nowhere in the clear.
ALLOWED = [
    ("ticket", "TB_TICKET_INTERFACE.RawPayloadJson", "is sent to the gateway, again too when somebody asks for it"),
    ("counterparty", "TB_COUNTERPARTIES.Name", "is read by the system that takes counterparties"),
    ("counterparty", "TB_COUNTERPARTIES.LocalName", "the same"),
    ("counterparty", "TB_COUNTERPARTIES.SearchName", "the same"),
    ("counterparty", "TB_COUNTERPARTIES.RawPayload", "the document as it came"),
    ("counterparty", "TB_COUNTERPARTY_ADDRESSES.Phone", "as the name"),
    ("counterparty", "TB_COUNTERPARTY_ADDRESSES.AddrLine1", "as the name"),
    ("counterparty", "TB_COUNTERPARTY_FISCAL_REFERENCES.FiscalNumber", "as the name, and to search by"),
    ("ack", "TB_FUNCTIONAL_ACK_OUTBOX.PayloadJson", "is sent to the gateway, again too"),
    ("event", "outbox_events.payload", "is sent by the relay"),
    ("call", "IntegrationCalls.Path", "is sent to the integration, again too"),
    ("call", "IntegrationCalls.HeadersJson", "the same"),
    ("call", "IntegrationCalls.Body", "the same"),
]
# Where peers' words about people stand, masked: the run was about them.
MASKED = ["ImportItem.PayloadJson", "ImportItem.ErrorMessage", "ImportChunk.AckJson", "ImportBatch.FileName", "ImportBatch.MetadataJson",
          "TB_TICKET_INTERFACE.GatewaySendLastError", "TB_TICKET_INTERFACE.CallbackMessage",
          "TB_TICKET_INTERFACE.CallbackCode", "TB_TICKET_INTERFACE.CallbackPayloadJson", "TB_COUNTERPARTIES.StatusMessage",
          "TB_FUNCTIONAL_ACK_OUTBOX.LastError", "outbox_events.last_error", "IntegrationCalls.LastError", "WebhookDeliveries.LastError",
          "AlertDeliveries.LastError", "DeliveryAttempts.Answer", "DeliveryAttempts.Error", "DeliveryTargets.LastError"]
# A new server keeps these until somebody gives them an end, as this test does.
KEPT_BY_DEFAULT = {"tickets", "acks", "counterparties", "integrations"}

OMNIFLOW_KEY, GATEWAY_KEY, PAY_KEY = "omniflow-key-of-the-scan-0815", "gateway-key-of-the-scan-0815", "pay-key-of-the-scan-0815"
OTEL_KEY = "collector-key-of-the-scan-0815"
MARIA_KEY, TEAMS_KEY, LOKI_KEY = "named-admin-key-of-the-scan-0815", "teams-signature-of-the-scan", "loki-password-of-the-scan-0815"


# --- what is looked for --------------------------------------------------------------------------------


def check_digits(body, *weights):
    for row in weights:
        rest = sum((ord(c) - 48) * w for c, w in zip(body, row)) % 11
        body += str(0 if rest < 2 else 11 - rest)
    return body


def make_cpf(n):
    return check_digits(f"{n:09}", range(10, 1, -1), range(11, 1, -1))


def make_cnpj(body):
    weights = [5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2]
    return check_digits(body, weights, [6, *weights])


@dataclasses.dataclass
class Person:
    number: int
    name: str
    street: str

    @property
    def phone(self):
        return f"+555198{7650000 + self.number * 11:07}"

    @property
    def spelled(self):
        return f"({self.phone[3:5]}) {self.phone[5:10]}-{self.phone[10:]}"

    @property
    def cpf(self):
        return make_cpf(314159260 + self.number)

    @property
    def dotted_cpf(self):
        c = self.cpf
        return f"{c[:3]}.{c[3:6]}.{c[6:9]}-{c[9:]}"

    @property
    def cnpj(self):
        """Of digits for every second person, with letters for the others."""
        return make_cnpj(f"{('271828' if self.number % 2 else '2B7D8K') + str(100 + self.number)}001")

    @property
    def dotted_cnpj(self):
        c = self.cnpj
        return f"{c[:2]}.{c[2:5]}.{c[5:8]}/{c[8:12]}-{c[12:]}"

    @property
    def email(self):
        return f"pessoa.{self.number}.quaresma@correio-exemplo.com.br"

    def numbers(self):
        """As a peer or a caller quotes them in a sentence."""
        return f"fone {self.spelled}, {self.phone}, CPF {self.dotted_cpf} ({self.cpf}), CNPJ {self.dotted_cnpj}, {self.email}"

    def record(self, **more):
        return {"Nome": self.name, "Fone": self.spelled, "CPF": self.dotted_cpf, "CNPJ": self.cnpj, "E-mail": self.email,
                "Endereço": self.street, **more}

    def values(self):
        """With the usual rewritings but those of `rewritten`."""
        national = self.phone[3:]
        return {self.name, self.name.upper(), self.street, self.cpf, self.dotted_cpf, self.cnpj, self.cnpj.lower(), self.dotted_cnpj,
                self.email, self.phone, self.phone[1:], national, self.spelled, f"{national[:2]} {national[2:7]}-{national[7:]}",
                f"{national[2:7]}-{national[7:]}"}


PEOPLE = {kind: Person(i, name, street) for i, (kind, name, street) in enumerate([
    ("import", "Zulmira Quaresma", "Travessa dos Cataventos, 4101"),
    ("failed", "Ildefonso Brandão", "Alameda das Quaresmeiras, 4202"),
    ("invalid", "Eufrásia Penteado", "Ladeira do Bonfim Velho, 4303"),
    ("refused", "Teobaldo Carrascosa", "Beco da Vela Acesa, 4404"),
    ("ticket", "Hermenegildo Fagundes", "Estrada do Mar Bravio, 4505"),
    ("callback", "Gumercindo Tavares", "Largo da Epatur Antiga, 4606"),
    ("counterparty", "Comercial Quixadá Florêncio", "Rua Sertão Profundo, 4707"),
    ("status", "Anacleto Monjardim", "Rua do Perdão Tardio, 4808"),
    ("ack", "Filomena Sarmento", "Rua dos Cordoeiros, 4909"),
    ("event", "Policarpo Nepomuceno", "Rua da Praia Deserta, 5010"),
    ("call", "Sinforosa Albuquerque", "Rua dos Oleiros, 5111"),
    ("webhook", "Venâncio Guimarães", "Rua da Ponte Caída, 5212"),
    ("request", "Leocádia Bittencourt", "Rua do Arvoredo Alto, 5313"),
    ("ack of an import", "Deolinda Cavalheiro", "Rua do Chafariz Seco, 5515"),
    ("target", "Astrogildo Peçanha", "Rua da Ladeira Torta, 5414"),
], 1)}


def rewritten(value):
    """Bytes as which the text may stand somewhere: as it is, in JSON, in a URL, in base64 at any place of a text."""
    raw = value.encode()
    found = {raw, json.dumps(value)[1:-1].encode(), quote(value, safe="").encode(), quote(value).encode(), quote_plus(value).encode()}
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + raw)
        text = text[(0, 2, 3)[shift]:].rstrip(b"=")
        found.add(text[:-1] if (shift + len(raw)) % 3 else text)  # the last character has bits of what follows
    return {f for f in found if len(f) >= 8}


def needles():
    return {form: kind for kind, person in PEOPLE.items() for value in person.values() for form in rewritten(value)}


NEEDLES = needles()
PATTERN = re.compile(b"|".join(re.escape(n) for n in sorted(NEEDLES, key=len, reverse=True)))


def people_in(data):
    """Kind and value of everybody who stands in it."""
    return {(NEEDLES[found], found.decode()) for found in PATTERN.findall(data)}


def as_bytes(value):
    return b"" if value is None else bytes(value) if isinstance(value, (bytes, memoryview)) else str(value).encode()


def columns_with_people(backend):
    """(kind, table.column, value) of all tables."""
    found = set()
    for table in tables(backend):
        if backend.name == "sqlite":
            names = [row[1] for row in backend.query(f"PRAGMA table_info({table})")]
        else:
            names = [row[0] for row in backend.query("SELECT column_name FROM information_schema.columns"
                                                     f" WHERE lower(table_name) = lower('{table}') ORDER BY ordinal_position")]
        for row in backend.query(f"SELECT {', '.join(names)} FROM {table}"):
            for name, value in zip(names, row):
                found |= {(kind, f"{table}.{name}", text) for kind, text in people_in(as_bytes(value))}
    return found


def raw_bytes(server):
    """The database as it lies on the disk, or as it is dumped."""
    if server.backend.name == "sqlserver":
        pytest.skip("there is no dump of it")
    return server.backend.all_bytes()


def written_files(server):
    """What the server wrote beside its database: name and content. The two files that the test itself wrote are not."""
    for path in server.directory.rglob("*"):
        if path.is_file() and path.name not in ("dataflow.ini", "master.key"):
            yield path.relative_to(server.directory).as_posix(), path.read_bytes()


# --- peers that quote ----------------------------------------------------------------------------------


class World(http.server.ThreadingHTTPServer):
    """OmniFlow, the gateway, an integration, webhooks and Teams, all of which say in their errors whom they mean."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.away = True  # the integration
        self.teams = 400
        self.collector = Collector().start()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, path, body):
        text = body.decode("utf-8", "replace")
        if path.startswith("/api/leads/import"):
            chunk = json.loads(text)
            items = chunk["items"]
            if "aguardar" in text:
                self.acknowledge(chunk)  # sooner than the answer that names it
                return 202, b'{"ackId":"a-1"}'
            if "recusar" not in text:
                return 200, b""
            return 422, json.dumps({"message": PEOPLE["failed"].numbers(), "name": PEOPLE["failed"].name, "item": items[0]}).encode()
        if path.startswith("/relay"):
            return (422, text.encode()) if "recusar" in text else (200, b"")
        if path.startswith("/pay"):
            return (503, text.encode()) if self.away else (422, text.encode()) if "recusar" in text else (200, text.encode())
        if path.startswith("/hook"):
            return 422, json.dumps({"message": PEOPLE["webhook"].numbers(), "lead": PEOPLE["webhook"].record()}).encode()
        if path.startswith("/teams"):
            return self.teams, PEOPLE["target"].numbers().encode()
        if "recusar" in text:
            if path.endswith("ack"):
                return 422, f"cannot take {PEOPLE['ack'].numbers()}".encode()
            long = [{"x": "y" * 60, "driver": PEOPLE["ticket"].record()}] * 40  # more than is read of an answer
            return 422, json.dumps({"message": PEOPLE["ticket"].numbers(), "received": long}, ensure_ascii=False).encode()
        return 200, b"{}"

    def acknowledge(self, chunk):
        person = PEOPLE["ack of an import"]
        answer = self.acker.post(f"/imports/{chunk['batchId']}/acks", {
            "ackId": "a-1", "chunkId": chunk["chunkId"], "status": "Imported", "message": person.numbers(),
            "items": [{"sequence": chunk["items"][0]["sequence"], "status": "Error", "errorMessage": person.numbers()}]})
        assert answer.status == 404, "nobody knows the ack yet, and it is kept"

    def close(self):
        self.shutdown()
        self.server_close()
        self.collector.stop()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        status, text = self.server.answer(self.path, body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@pytest.fixture
def world():
    world = World()
    yield world
    world.close()


def settings(world):
    url = world.url
    return {
        **configuration(world, omniflow={"api_key": OMNIFLOW_KEY, "max_retries": 0}, sensitive_data={"payload_ttl_hours": 48}),
        "gateway": {"functional_ack_url": f"{url}/gateway/ack", "ticket_return_url": f"{url}/gateway/return",
                    "ticket_send_url": f"{url}/gateway/ticket", "api_key": GATEWAY_KEY},
        "integration.pay": {"base_url": f"{url}/pay", "api_key": PAY_KEY, "retry_max_attempts": 1, "window": 10000, "min_calls": 10000},
        "delivery": {"allow_private_targets": "on", "max_attempts": 2, "retry_base_ms": 20, "retry_cap_ms": 50},
        "webhooks": {"retry_delays_ms": "20"},
        "alerts": {"teams_url": f"{url}/teams?sig={TEAMS_KEY}", "interval_seconds": 1, "webhook_failures": 1},
        "relay.people": {"dispatcher": "http", "target": f"{url}/relay"},
        "admin.maria": {"key": MARIA_KEY, "role": "admin"},
        "retention": dict.fromkeys(KINDS, "30"),
        # Nobody listens there: every line stays in the spool.
        "log": {"level": "debug", "ship": f"loki://spool:{LOKI_KEY}@127.0.0.1:1"},
        "otel": {"endpoint": world.collector.url, "sample_ratio": "1", "queue": 100000, "headers": f"Authorization=Bearer {OTEL_KEY}"},
    }


# --- the run -------------------------------------------------------------------------------------------


class Run:
    def __init__(self, server, world, clock):
        self.server, self.world, self.clock = server, world, clock
        self.client = world.acker = server.new_client("Cliente")
        self.admin = server.admin(key=MARIA_KEY)
        self.secrets = {ADMIN_KEY, MASTER_KEY, pg.PASSWORD, OMNIFLOW_KEY, GATEWAY_KEY, PAY_KEY, OTEL_KEY, MARIA_KEY, TEAMS_KEY, LOKI_KEY,
                        self.client.secret}
        server.secrets |= self.secrets

    def one(self, sql):
        return self.server.backend.query(sql)[0][0]

    def hooks(self):
        answer = self.client.post(f"/clients/{self.client.id}/webhooks", {"url": f"{self.world.url}/hook"})
        assert answer.status == 201, answer
        self.secrets.add(answer.json["secret"])
        again = self.client.post(f"/clients/{self.client.id}/webhooks/{answer.json['id']}/rotate-secret")
        assert again.status == 200, again
        self.secrets.add(again.json["secret"])

    def imports(self):
        people, client = PEOPLE, self.client
        good = taken(upload(client, json.dumps([people["import"].record(Cor="azul")]).encode(), f"{people['import'].cpf} lista.json",
                            requestedBy=people["import"].email, headers={"X-Correlation-Id": people["import"].cpf},
                            metadata=json.dumps({"nome": people["import"].name, "obs": people["import"].numbers(),
                                                 "correlationId": people["import"].phone})))
        assert wait_end(client, good)["status"] == "Completed"
        # One that OmniFlow refuses, by an answer that quotes it; twice.
        bad = taken(upload(client, json.dumps([people["failed"].record(Cor="recusar")]).encode(), "b.json"))
        for _ in range(2):
            assert wait_end(client, bad)["status"] == "CompletedWithErrors"
            assert people["failed"].name in client.get(f"/imports/{bad}/errors.json").body.decode()
            for kind in ("csv", "xlsx"):
                assert client.get(f"/imports/{bad}/errors.{kind}").status == 200
            assert client.post(f"/imports/{bad}/retry").status == 202
        assert wait_end(client, bad)["status"] == "CompletedWithErrors"
        # One whose result comes later.
        later = taken(upload(client, json.dumps([people["ack of an import"].record(Cor="aguardar")]).encode(), "c.json"))
        assert wait_end(client, later)["errorCount"] == 1
        # Records that are none: a phone that is too long.
        person = people["invalid"]
        lines = [f"Nome;Fone;CPF;Obs\n{person.name};{person.phone}9999;{person.dotted_cpf};{person.numbers()}\n",
                 f"{person.name};{person.spelled};{person.cpf};{person.email}\n"]
        invalid = taken(upload(client, "".join(lines).encode(), f"{person.spelled}.csv"))
        assert wait_end(client, invalid)["errorCount"] == 1
        # Files that are refused.
        person = people["refused"]
        for data, name in ((f"[{{{person.numbers()}".encode(), f"{person.email}.json"), (person.numbers().encode(), f"{person.cpf}.exe"),
                           (b"", f"{person.phone}.csv"), (json.dumps({"x": person.record()}).encode(), "objeto.json")):
            answer = upload(client, data, name)
            if answer.status == 202:
                wait_end(client, answer.json["batchId"])
        self.batches = (good, bad, invalid)

    def tickets(self):
        people, client = PEOPLE, self.client
        driver = people["ticket"]
        data = {"driver": {"name": driver.name, "cpf": driver.dotted_cpf, "phone": driver.spelled, "email": driver.email},
                "carrier": {"cnpj": driver.dotted_cnpj, "address": driver.street}, "notes": driver.numbers()}
        self.docs = {}
        for word in ("aceitar", "recusar"):
            doc = self.docs[word] = f"TCK_{uuid.uuid4().hex}"
            assert client.post("/api/tickets", ticket(doc, **data, result=word)).status == 200
        # One that never fits, whose problem texts may quote it.
        assert client.post("/api/tickets", ticket(phaseCode=driver.cpf, **data)).status in (200, 400)
        assert client.post("/api/tickets", ticket(shipmentEvent=driver.phone, branchCode=driver.email, **data)).status in (200, 400)
        caller = people["callback"]
        wait_for(lambda: self.one(f"SELECT GatewaySendStatus FROM TB_TICKET_INTERFACE WHERE BusinessDocId = '{self.docs['aceitar']}'")
                 == "Sent", "the ticket is sent")
        answer = client.post("/api/tickets/callback", {
            "businessEntity": "TCK", "businessDocId": self.docs["aceitar"], "phaseCode": 15, "status": "Error", "code": caller.cpf,
            "message": f"motorista {caller.numbers()}", "details": {"name": caller.name, "address": caller.street, "cpf": caller.cpf}})
        assert answer.status == 200, answer
        answer = client.post("/api/tickets/callback", {"businessEntity": "TCK", "businessDocId": caller.cpf, "phaseCode": 15,
                                                       "status": caller.numbers()})
        assert answer.status in (400, 404), answer

    def counterparties(self):
        person, client = PEOPLE["counterparty"], self.client
        doc = f"CP_{uuid.uuid4().hex[:16]}"
        made = client.post("/api/counterparties", counterparty(
            doc, name=person.name, localName=person.name, searchName=person.name.upper(),
            addresses=[{"addressTypeCode": "1", "phone": person.spelled, "addrLine1": person.street}],
            fiscalReferences=[{"fiscalReferenceTypeCode": "BR1", "fiscalNumber": number} for number in (person.cnpj, person.dotted_cpf)]))
        assert made.status == 200, made
        other = PEOPLE["status"]
        answer = client.patch(f"/api/counterparties?businessEntity=PRC&businessDocId={doc}", {"status": "Error", "message": other.numbers()},
                              headers={"If-Match": client.get(f"/api/counterparties?businessEntity=PRC&businessDocId={doc}").headers["ETag"]})
        assert answer.status == 200, answer
        assert client.get(f"/api/counterparties?fiscalNumber={quote(person.cnpj)}").status in (200, 400)
        assert client.post("/api/counterparties", counterparty(f"CP_{uuid.uuid4().hex[:16]}", entityType=other.numbers())).status == 400

    def acks_events_calls(self):
        client, person = self.client, PEOPLE["ack"]
        for word in ("aceitar", "recusar"):
            answer = client.post("/api/functional-ack", {**short(f"TCK_{uuid.uuid4().hex}"), "message": f"{word} {person.numbers()}"})
            assert answer.status in (200, 201, 202), answer
        person = PEOPLE["event"]
        for word in ("aceitar", "recusar"):
            event = {"eventType": "PersonChanged", "payload": person.record(result=word), "correlationId": person.cpf}
            answer = client.post("/events", event, headers={"X-Correlation-Id": person.phone})
            assert answer.status == 202, answer
        person = PEOPLE["call"]
        for word in ("aceitar", "recusar"):
            answer = client.post(f"/integrations/pay/{quote(person.email)}?onUnavailable=enqueue&cpf={person.cpf}",
                                 {**person.record(), "result": word}, headers={"X-Correlation-Id": person.email, "Idempotency-Key": word,
                                          "Prefer": person.phone})
            assert answer.status == 202, answer
        self.world.away = False
        wait_for(lambda: self.one("SELECT COUNT(*) FROM IntegrationCalls WHERE NextAttemptAt IS NOT NULL") == 0, "the calls are over")

    def requests(self):
        """Bad ones, and questions about people."""
        person, client, admin = PEOPLE["request"], self.client, self.admin
        text, mark = quote(person.numbers(), safe=""), {"X-Correlation-Id": person.cpf}
        for method, path, body in (
                ("GET", f"/nowhere/{text}?name={quote(person.name)}&cpf={person.cpf}", None),
                ("GET", f"/imports/{person.cpf}?phone={quote(person.phone)}", None),
                ("GET", f"/imports?status={text}", None), ("GET", f"/api/tickets?businessDocId={text}&phaseCode={person.cpf}", None),
                ("POST", "/api/tickets", person.numbers().encode()), ("POST", "/events", json.dumps({person.cpf: person.name}).encode()),
                ("POST", "/events", json.dumps({"eventType": "T", "eventId": person.numbers(), "payload": person.record()}).encode()),
                ("POST", "/acks", json.dumps({"batchId": person.cpf, "error": person.numbers()}).encode()),
                ("POST", f"/integrations/{person.cpf}/x?q={text}", b"{}"), ("PUT", f"/api/counterparties/{person.cpf}", b"{}")):
            assert client.request(method, path, body, headers=mark).status >= 400, path
        for path in (f"/admin/search?q={quote(person.dotted_cpf)}", f"/admin/audit?target={quote(person.email)}",
                     f"/admin/clients?q={quote(person.phone)}", f"/admin/outbox/{person.cpf}"):
            admin.get(path, headers=mark)
        for name, value in (("phone", person.phone), ("document", person.dotted_cpf), ("document", person.cnpj), ("email", person.email),
                            ("phone", person.cpf), ("email", person.name)):
            admin.get(f"/admin/subjects?{name}={quote(value)}", headers=mark)
        assert admin.post("/admin/purge", {"subject": {"phone": person.phone}}, headers=mark).status == 200
        assert admin.post("/admin/purge", {"subject": person.email}, headers=mark).status == 200
        assert admin.post("/admin/purge", {"subject": person.numbers()}, headers=mark).status == 400
        server = self.server
        server.anonymous().get("/imports", headers={"X-Client-Id": person.cpf, "X-Client-Secret": person.email})
        server.anonymous().get("/admin/clients", headers={"X-Admin-Key": person.numbers()})
        done = server.cli("purge", "--subject", person.cpf, "--yes")
        assert person.cpf not in done.stdout

    def given_up(self):
        waiting = ("TB_TICKET_INTERFACE", "TB_FUNCTIONAL_ACK_OUTBOX", "TB_TICKET_RETURN_OUTBOX", "WebhookDeliveries", "AlertDeliveries")
        return (all(self.one(f"SELECT COUNT(*) FROM {t} WHERE NextAttemptAt IS NOT NULL") == 0 for t in waiting)
                and self.one("SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE GatewaySendNextAttemptAt IS NOT NULL") == 0
                and self.one("SELECT COUNT(*) FROM outbox_events WHERE status = 'PENDING'") == 0)

    def everything(self):
        self.hooks()
        self.imports()
        self.tickets()
        self.counterparties()
        self.acks_events_calls()
        self.requests()
        wait_for(lambda: self.one("SELECT COUNT(*) FROM AlertDeliveries") > 0, "an alert")
        wait_for(self.given_up, "nothing is on its way")

    # -- what is over

    def dismiss(self):
        """Everything that was given up."""
        answer = self.admin.post("/admin/outbox/dismiss", {"all": True})
        assert answer.status == 200, answer
        for failure, in self.server.backend.query("SELECT Id FROM WebhookDeliveryFailures WHERE DismissedAt IS NULL"):
            assert self.admin.post(f"/admin/webhook-failures/{failure}/dismiss").status in (200, 204, 409)

    def pass_days(self, days):
        self.clock.advance(days=days)
        moved = self.clock.now().timestamp()

        def ran():
            found = re.search(r"(?m)^dataflow_retention_last_run_timestamp_seconds (\S+)", self.admin.get("/metrics").body.decode())
            return found and float(found[1]) >= moved - 1

        wait_for(ran, "retention ran", timeout=3 * TIMEOUT)

    def documents(self):
        """Rows that are left of what was sent here."""
        names = ("ImportBatch", "ImportItem", "ImportKept", "TB_TICKET_INTERFACE", "TB_TICKET_RETURN_OUTBOX", "TB_FUNCTIONAL_ACK_OUTBOX",
                 "TB_COUNTERPARTIES", "outbox_events", "IntegrationCalls", "WebhookDeliveries", "WebhookDeliveryFailures",
                 "DeliveryAttempts", "Alerts")
        return {name: n for name in names if (n := self.one(f"SELECT COUNT(*) FROM {name}"))}

    # -- what was written

    def spans(self):
        """All of them, from every part that has some."""
        collector = self.world.collector
        parts = {"POST /api/tickets", "POST", "commit", "parse", "ack wait", "process ticket", "send"}
        wait_for(lambda: parts <= {s["name"] for s in list(collector.spans)}, "spans of every part")
        assert not collector.faults
        return json.dumps(collector.spans, ensure_ascii=False).encode()

    def check_outside(self):
        """Log, figures, traces, audit and files: nobody, at any time."""
        places = dict(written_files(self.server))
        spooled = b"".join(data for name, data in places.items() if "/spool/logs/" in name)
        assert b"RequestServed" in spooled, "the lines that wait to be shipped were looked at"
        places |= {f"the name {name}": name.encode() for name in list(places)}
        places["/metrics"] = self.admin.get("/metrics").body
        places["/admin/audit"] = self.admin.get("/admin/audit?pageSize=200").body
        places["/admin/alerts"] = self.admin.get("/admin/alerts").body
        places["/admin/purge"] = self.admin.get("/admin/purge").body
        places["the spans"] = self.spans()
        found = {(name, *what) for name, data in places.items() for what in people_in(data)}
        assert not found, sorted(found)
        return places

    def check_secrets(self, places):
        forms = {s.encode() for s in self.secrets}
        forms |= {base64.b64decode(s[6:] + "==") for s in self.secrets if s.startswith("whsec_")}
        forms |= {quote(s, safe="").encode() for s in self.secrets} | {bytes.fromhex(MASTER_KEY)}
        forms |= {f for s in self.secrets for f in rewritten(s)}
        found = {(name, form) for name, data in places.items() for form in forms if form in data}
        assert not found, sorted(found)


def test_what_is_kept_by_default_is_what_the_page_says():
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    section = text[text.index("## [retention]"):].split("\n## ")[0]
    days = dict(re.findall(r"^\| `(\w+)` \| [^|]* \| `(\d+)` \|", section, re.M))
    assert {kind for kind, n in days.items() if n == "0"} == KEPT_BY_DEFAULT and set(KINDS) <= set(days)


def test_nobody_is_found_where_nobody_may_be(make_server, world, tmp_path):
    clock = FakeClock(tmp_path)
    server = make_server(config=settings(world), clock=clock)
    run = Run(server, world, clock)
    run.everything()

    # While the documents are there.
    places = run.check_outside()
    found = columns_with_people(server.backend)
    allowed = {(kind, column.lower()) for kind, column, _ in ALLOWED}
    assert {f for f in found if (f[0], f[1].lower()) not in allowed} == set()
    assert {(kind, column.lower()) for kind, column, _ in found} == allowed, "the table says what is stored"
    unseen = [place for place in MASKED if not run.one("SELECT COUNT(*) FROM {} WHERE {} LIKE '%**%'".format(*place.split(".")))]
    assert unseen == []
    raw = raw_bytes(server)
    named = {kind for kind, _, _ in ALLOWED}
    assert {what for what in people_in(raw) if what[0] not in named} == set()
    run.check_secrets({**places, "the database": raw})

    # When the time of the kept payloads is over, and then that of everything.
    assert run.one("SELECT COUNT(*) FROM ImportKept") > 0
    clock.advance(hours=49)
    wait_for(lambda: run.one("SELECT COUNT(*) FROM ImportKept") == 0, "the kept payloads are gone")
    world.teams = 200
    for _ in range(8):  # alerts are told of and resolved first, and their messages are documents, too
        wait_for(run.given_up, "nothing is on its way")
        run.dismiss()
        run.pass_days(31)
        if run.documents() == {}:
            break
    assert run.documents() == {}
    assert columns_with_people(server.backend) == set()
    wait_for(lambda: not people_in(raw_bytes(server)), "what was removed is overwritten")
    places = run.check_outside()
    run.check_secrets({**places, "the database": raw_bytes(server)})
    server.stop()
    assert people_in(raw_bytes(server)) == set()
