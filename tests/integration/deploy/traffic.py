"""Traffic of every kind on one server: what arrives, what is refused, what fails, what is given up; the sandbox is every
peer. For tests of what is seen from outside."""

import json
import os
import threading
import uuid

from harness import Http, Server, wait_for
from test_imports_receive import execute, policy, taken, upload
from test_interface_tickets import flat
from test_sandbox import Sandbox

from collector import Collector
from log_targets import Elastic

TRACE = "00-{}-00f067aa0ba902b7-01"


def leads(count, bad=0):
    """As many records, the last ones of which OmniFlow refuses."""
    made = [{"phoneNumber": f"+55119{10_000_000 + i}", "name": f"Lead {i}"} for i in range(count)]
    for lead in made[count - bad:]:
        lead["sandboxError"] = "no such street"
    return json.dumps(made).encode()


def lame_server(backend, directory, nowhere):
    """One whose OmniFlow, target of the log and collector are away and whose backup cannot be written, with left-overs of an upload."""
    (directory / "file").touch()
    server = Server(backend, directory, config={
        "omniflow": {"url": nowhere, "api_key": "key-of-omniflow", "max_retries": 0, "max_outage_seconds": 0},
        "imports": {"poll_ms": 20}, "breaker": {"window": 2, "min_calls": 1}, "log": {"ship": nowhere.replace("http:", "elastic:"), "ship_interval_ms": 20},
        "otel": {"endpoint": nowhere, "sample_ratio": "1", "queue": 64},
        "backup": {"to": directory / "file" / "backup", "every_seconds": 1}})
    orphan = directory / "data" / "imports" / str(uuid.uuid4()) / "original"
    orphan.mkdir(parents=True)
    for directory in (orphan, orphan.parent):
        os.utime(directory, (0, 0))
    server.start()
    client = server.new_client()
    taken(upload(client, leads(5)))
    for _ in range(100):  # more spans than may wait
        assert client.get("/whoami").status == 200
    return server


def lonely_server(backend, directory, pair, redis, nowhere):
    """One with a certificate and locks in Redis, whose broker is away."""
    return Server(backend, directory, config={
        "server": {"tls_cert": pair[0], "tls_key": pair[1]}, "redis": {"urls": redis}, "omniflow": {"url": nowhere, "api_key": "k"},
        "imports": {"lock": "redis", "queue": "rabbitmq", "queue_url": nowhere.replace("http://", "amqp://guest:guest@")}}).spawn().started()


class Traffic:
    """The server runs in the context; run() sends one round after the other until its end."""

    def __init__(self, backend, make_directory, config=None, **server):
        self.box = Sandbox(make_directory("sandbox"))
        self.sandbox = Http(self.box)
        self.url = "http://{}:{}".format(*self.box.host_port)
        self.log_target = Elastic().up()
        self.collector = Collector().start()
        self.log_target.verdict = lambda document: 400 if document["event.action"] == "UploadRejected" else None
        self.server = Server(backend, make_directory("server"), config=self._config(config or {}, make_directory("backup")), **server)
        self.stopped = threading.Event()
        self.problem = None
        self.rounds = 0
        self.traces = set()  # ids

    def _config(self, more, backup):
        relay = {"dispatcher": "http", "poll_ms": 50, "retry_base_ms": 20, "retry_cap_ms": 50}
        sections = {
            "log": {"ship": self.log_target.url, "ship_interval_ms": 20},
            "otel": {"endpoint": self.collector.url, "sample_ratio": "1"},
            "gateway": {"functional_ack_url": self.url + "/gateway/acks", "ticket_return_url": self.url + "/gateway/returns",
                        "ticket_send_url": self.url + "/gateway/tickets", "api_key": "key-of-the-gateway"},
            "omniflow": {"url": self.url, "api_key": "key-of-omniflow", "batch_size": 10, "max_retries": 2,
                         "retry_delays_ms": "20,40"},
            "imports": {"poll_ms": 20, "mode": "concurrent"},
            "delivery": {"retry_base_ms": 20, "retry_cap_ms": 50, "max_attempts": 2, "allow_private_targets": "on"},
            "webhooks": {"retry_delays_ms": "20,20"},
            "alerts": {"teams_url": self.url + "/webhooks/teams", "interval_seconds": 1},
            "backup": {"to": backup / "backup", "every_seconds": 1},
            "relay.orders": {**relay, "target": self.url + "/webhooks/events/{eventType}"},
            "integration.payment": {"base_url": self.url + "/payments", "retry_wait_ms": 1},
            "integration.broken": {"base_url": self.url + "/payments/broken", "retry_wait_ms": 1, "window": 4, "min_calls": 2,
                                   "open_ms": 60000},
        }
        for section, keys in more.items():
            sections.setdefault(section, {}).update(keys)
        return sections

    # -- life

    def __enter__(self):
        try:
            self.server.start()
            self._prepare()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.stopped.set()
        try:
            self.server.finish()
        finally:
            self.box.finish()
            self.log_target.down()
            self.collector.stop()

    def run(self):
        """Rounds in a thread of their own."""
        def loop():
            try:
                while not self.stopped.is_set():
                    self.round()
            except Exception as problem:  # pylint: disable=broad-except
                if not self.stopped.is_set():
                    self.problem = problem

        threading.Thread(target=loop, daemon=True).start()
        return self

    def _prepare(self):
        self.store = self.server.new_client("Store", clientId="store")
        self.leads = self.server.new_client("Leads", clientId="leads")
        self.hasty = self.server.new_client("Hasty", clientId="hasty")
        policy(self.server, self.hasty, requestsPerMinute=1)
        self.peer = self.server.new_client("Peer", scopes=["acks", "callback"])
        config = {"omniflow": "async", "ackDelayMs": 5, "serverUrl": self.server.url, "clientId": self.peer.id,
                  "clientSecret": self.peer.secret}
        assert self.sandbox.request("PUT", "/_config", json=config).status == 200
        for path, status in (("/webhooks/gone", 400), ("/payments/broken", 503), ("/webhooks/events/Refused", 400)):
            self.fault(path, status=status)
        for path in ("/webhooks/leads", "/webhooks/gone"):
            self.hook(self.leads, path)
        # As a fault of the database leaves one: no peer can bring it about.
        execute(self.server, "INSERT INTO TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, CompanyCode, BranchCode,"
                " DestinationCode, PhaseCode, ShipmentEvent, FunctionalAckIsRequired, TargetApplicationCode, RawPayloadJson,"
                " Status, LastError, AttemptCount, FirstFailedAt, NextAttemptAt) VALUES ('TCK', 'GIVEN-UP', 'C', 'B', 'D', 15,"
                f" 'S', {'false' if self.server.backend.name == 'postgres' else 0}, 'T', '{{}}', 'Error', 'deadlock', 5,"
                " CURRENT_TIMESTAMP, NULL)")

    def fault(self, path, **fault):
        assert self.sandbox.post("/_faults", {"path": path, **fault}).status == 201

    def hook(self, client, path):
        answer = client.post(f"/clients/{client.id}/webhooks", {"url": self.url + path, "events": ["BatchCompleted"]})
        assert answer.status == 201, answer

    # -- one round

    def round(self):
        trace_id = uuid.uuid4().hex
        self.traces.add(trace_id)
        trace = {"traceparent": TRACE.format(trace_id)}
        self._tickets(trace)
        self._imports(trace)
        self._events(trace)
        self._integrations(trace)
        self._refused()
        self._administrator()
        self.rounds += 1

    def _tickets(self, trace):
        for _ in range(3):
            assert self.store.post("/api/tickets", flat(), headers=trace).status == 200
        self.fault("/gateway/acks", status=400, count=1)  # given up
        self.fault("/gateway/returns", status=503, count=1)  # tried again
        ack = {"businessEntity": "TCK", "businessDocId": f"D{uuid.uuid4().hex[:12]}", "operation": "CREATE", "status": "200"}
        assert self.store.post("/api/functional-ack", ack, headers=trace).status == 202

    def _imports(self, trace):
        self.fault("/api/leads/import", status=503, count=1)
        for data in (leads(40, bad=10), leads(5)):
            assert upload(self.leads, data, headers=trace).status == 202
        assert upload(self.leads, b"[]").status in (202, 400)
        assert upload(self.store, b"not json").status in (202, 400, 415)

    def _events(self, trace):
        for kind in ("OrderPlaced", "OrderPlaced", "Refused"):
            body = {"eventType": kind, "payload": {"n": self.rounds}}
            assert self.store.post("/events", body, headers=trace).status in (200, 201, 202)

    def _integrations(self, trace):
        assert self.store.post("/integrations/payment/charge", {"amount": 1}, headers=trace).status == 201
        self.store.get("/integrations/broken/charge", headers=trace)
        self.store.get("/integrations/broken/charge", headers=trace)

    def _refused(self):
        self.hasty.get("/whoami")
        self.server.client("store", "dfs_wrong").get("/whoami")
        self.store.post("/api/tickets", {"businessEntity": "TCK"})
        self.store.get("/no/such/path")
        self.server.anonymous().raw(b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: nonsense\r\n\r\n")

    def _administrator(self):
        admin = self.server.admin()
        assert admin.post("/admin/subjects/find", {"phone": "11987654321"}).status == 200
        batch = taken(upload(self.store, leads(1)))
        wait_for(lambda: self.store.get(f"/imports/{batch}").json["status"] in ("Completed", "CompletedWithErrors", "Failed"), batch)
        assert admin.post("/admin/purge", {"batchId": batch}).status == 200

    def metrics(self):
        return self.server.anonymous().get("/metrics").body.decode()

    def settled(self, *texts):
        """Until /metrics has each of these at the beginning of a line, with a value that is not 0."""
        def found():
            lines = self.metrics().splitlines()
            return all(any(line.startswith(text) and not line.endswith(" 0") for line in lines) for text in texts)

        wait_for(found, texts)
