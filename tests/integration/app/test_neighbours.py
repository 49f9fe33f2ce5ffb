"""Whoever hangs keeps no neighbour waiting: nothing here is timed. What arrives is counted while everything of one
tenant hangs, and afterwards that all of it still does.
"""

import re
import selectors
import socket
import threading
import uuid

import pytest
from harness import Backend, Http, Server, wait_for
from test_imports_receive import execute
from test_interface_tickets import flat
from test_sandbox import Sandbox

pytestmark = pytest.mark.threads

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HANG_MS = 44000  # shorter than a lease allows, longer than any of this takes


class Silence:
    """Listeners that take a request and never answer."""

    def __init__(self, count):
        self.listeners = []
        for _ in range(count):
            listener = socket.socket()
            listener.bind(("127.0.0.1", 0))
            listener.listen(256)
            listener.setblocking(False)
            self.listeners.append(listener)
        self.urls = ["http://127.0.0.1:{}/hook".format(s.getsockname()[1]) for s in self.listeners]
        self.open, self.ended, self.stopping = set(), 0, False
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with selectors.DefaultSelector() as ready:
            for listener in self.listeners:
                ready.register(listener, selectors.EVENT_READ, True)
            while not self.stopping:
                for key, _ in ready.select(0.1):
                    if key.data:
                        s, _ = key.fileobj.accept()
                        s.setblocking(False)
                        self.open.add(s)
                        ready.register(s, selectors.EVENT_READ, False)
                    elif not self.read(key.fileobj):
                        ready.unregister(key.fileobj)
                        self.open.discard(key.fileobj)
                        self.ended += 1
                        key.fileobj.close()

    @staticmethod
    def read(s):
        try:
            return s.recv(65536)
        except OSError:
            return b""

    def close(self):
        self.stopping = True
        self.thread.join(10)
        for s in [*self.open, *self.listeners]:
            s.close()


@pytest.fixture
def silence():
    made = Silence(300)
    yield made
    made.close()


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    box = Sandbox(tmp_path_factory.mktemp("sandbox"), "--webhook-secret", SECRET)
    yield Http(box)
    box.finish()


def url_of(sandbox, path):
    return "http://{}:{}".format(*sandbox.server.host_port) + path


@pytest.fixture
def server(backend_name, sandbox, silence, tmp_path):
    backend = Backend(backend_name, tmp_path / backend_name)
    server = Server(backend, tmp_path / "server", config={
        "gateway": {"ticket_send_url": url_of(sandbox, "/gateway/tickets"), "api_key": "k"},
        "delivery": {"allow_private_targets": "on", "timeout_ms": HANG_MS},
        "webhooks": {"timeout_ms": HANG_MS, "max_per_client": 2000},
        "integration.quiet": {"base_url": silence.urls[0], "timeout_ms": HANG_MS},
        "integration.pay": {"base_url": url_of(sandbox, "/payments")},
    })
    server.start()
    server.secrets.add(SECRET)
    yield server
    server.kill()  # nobody waits for what hangs
    server.finish()
    backend.drop()


def subscribe(server, client, urls):
    values = ", ".join(f"('{uuid.uuid4()}', '{url}')" for url in urls)
    execute(server, "WITH h(id, url) AS (VALUES " + values + ")"
                    " INSERT INTO WebhookSubscriptions (Id, ClientId, Url, Secret, Events)"
                    f" SELECT {'CAST(h.id AS uuid)' if server.backend.name == 'postgres' else 'h.id'}, c.Id, h.url,"
                    f" '{SECRET}', 'TicketProcessed' FROM h, Clients AS c WHERE c.ClientIdentifier = '{client.id}'")


def paths(sandbox, path):
    return [r["body"] for r in sandbox.get(f"/_received?path={path}&limit=200").json]


def send_ticket(client):
    doc = f"N_{uuid.uuid4().hex}"
    assert client.post("/api/tickets", flat(doc, functionalAckIsRequired=False)).status == 200
    return doc


def neighbours_are_served(server, sandbox, count=10):
    """Tickets of another tenant reach the gateway, and its webhook hears of each."""
    client, path = server.new_client(), f"/webhooks/{uuid.uuid4()}"
    subscribe(server, client, [url_of(sandbox, path)])
    for _ in range(count):
        doc = send_ticket(client)
        wait_for(lambda doc=doc: any(doc in str(b) for b in paths(sandbox, "/gateway/tickets")), "the gateway has it")
        wait_for(lambda doc=doc: any(doc in str(b) for b in paths(sandbox, path)), "the webhook has it")


def attempts(server):
    return server.backend.query("SELECT COUNT(*) FROM DeliveryAttempts WHERE Channel = 'webhooks'"
                                " AND HttpStatus IS NULL")[0][0]


def metric(server, name):
    found = re.search(rf"^{re.escape(name)} (\S+)$", server.anonymous().get("/metrics").body.decode(), re.M)
    return float(found[1]) if found else None


def test_a_tenant_with_hundreds_of_hanging_webhooks_delays_nobody(server, sandbox, silence):
    tenant = server.new_client()
    subscribe(server, tenant, silence.urls)
    for _ in range(3):
        send_ticket(tenant)
    wait_for(lambda: len(silence.open) >= 16, "they hang")
    neighbours_are_served(server, sandbox)
    assert silence.ended == 0 and attempts(server) == 0
    assert len(silence.open) <= 64, "a quarter of all calls"


def test_six_webhooks_that_hang_at_the_gateways_own_host_delay_nobody(server, sandbox):
    tenant = server.new_client()
    hooks = [f"/webhooks/hang-{uuid.uuid4()}" for _ in range(6)]
    for path in hooks:
        assert sandbox.post("/_faults", {"path": path, "latencyMs": HANG_MS + 5000}).status in (200, 201)
    subscribe(server, tenant, [url_of(sandbox, path) for path in hooks])
    for _ in range(20):
        send_ticket(tenant)
    wait_for(lambda: metric(server, "dataflow_http_client_in_flight") >= 40, "they hang")
    neighbours_are_served(server, sandbox)
    assert attempts(server) == 0
    assert server.backend.query("SELECT COUNT(*) FROM WebhookDeliveries AS d JOIN WebhookSubscriptions AS s"
                                " ON s.Id = d.SubscriptionId WHERE s.Url LIKE '%/hang-%' AND d.Status = 'Sent'")[0][0] == 0


def test_a_backlog_that_goes_nowhere_is_passed_by(server, sandbox, silence):
    tenant = server.new_client()
    subscribe(server, tenant, silence.urls)
    send_ticket(tenant)
    rows = "SELECT COUNT(*) FROM WebhookDeliveries"
    wait_for(lambda: server.backend.query(rows)[0][0] == 300, "they are written")
    new_id = "gen_random_uuid()" if server.backend.name == "postgres" else (
        "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-a' ||"
        " substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))")
    execute(server, "INSERT INTO WebhookDeliveries (Id, SubscriptionId, EventId, Event, Reference, PayloadJson, CreatedAt,"
                    " NextAttemptAt)"
                    f" SELECT {new_id}, d.SubscriptionId, d.EventId, d.Event, d.Reference, d.PayloadJson, d.CreatedAt,"
                    " d.CreatedAt FROM WebhookDeliveries AS d, (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL"
                    " SELECT i + 1 FROM n WHERE i < 66) SELECT i FROM n) AS n")
    wait_for(lambda: len(silence.open) >= 16, "they hang")
    neighbours_are_served(server, sandbox)
    assert silence.ended == 0 and attempts(server) == 0
    assert metric(server, 'dataflow_delivery_in_flight{channel="webhooks"}') <= 512


def test_a_client_whose_calls_to_an_integration_hang_has_its_share(server, silence):
    tenant, other = server.new_client(), server.new_client()
    answers, lock = [], threading.Lock()

    def call():
        try:
            answer = tenant.get("/integrations/quiet/x")
        except OSError:
            return  # the server was killed
        with lock:
            answers.append(answer)

    for _ in range(80):
        threading.Thread(target=call, daemon=True).start()
    wait_for(lambda: len(answers) == 16, "those beyond the share are refused")
    assert {(a.status, a.headers.get("Retry-After")) for a in answers} == {(503, "1")}
    for _ in range(10):
        assert other.get("/integrations/pay/x").status < 500
    assert silence.ended == 0 and len(answers) == 16
