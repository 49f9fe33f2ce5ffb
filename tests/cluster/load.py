"""What is asked of the cluster, through its balancer, and the ledger of what was answered 2xx.

Every request is repeated, the same, until it is answered 2xx: what was not answered when the load ends is not in the
ledger, and may be there or not. Answers that no caller should get are findings.
"""

import collections
import contextlib
import http.client
import itertools
import json
import random
import threading
import time
import uuid

ADMIN_KEY = "admin-key-of-the-cluster-4711"
AGAIN = {408, 409, 425, 429, 500, 502, 503, 504}  # 500: a commit whose outcome is unknown, when the database died
TIMEOUT = 20
SUSPENDED_WITHIN = 5  # seconds
RECORDS = 25  # of an import
LIMIT = 60  # requests a minute of the client that is limited
SCOPES = ["interface", "imports", "events"]


def call(host_port, method, path, document=None, headers=None):
    """(status, document), or (None, None) if there was no answer."""
    body = document if isinstance(document, (bytes, type(None))) else json.dumps(document).encode()
    headers = {"Content-Type": "application/json", **(headers or {})} if body is not None else headers or {}
    with contextlib.closing(http.client.HTTPConnection(*host_port, timeout=TIMEOUT)) as connection:
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            return None, None
    return answer.status, json.loads(text) if "json" in (answer.headers["Content-Type"] or "") and text else None


def credentials(client):
    return {"X-Client-Id": client["clientId"], "X-Client-Secret": client["clientSecret"]}


def ticket(doc):
    return {"businessEntity": "TCK", "businessDocId": doc, "companyCode": "0050", "branchCode": "1", "destinationCode": "D7",
            "phaseCode": 15, "shipmentEvent": "RCD", "functionalAckIsRequired": True, "targetApplicationCode": "ASB"}


def upload(records):
    boundary = "-----boundary-of-the-cluster"
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="leads.json"\r\n\r\n'
    body = head.encode() + json.dumps(records).encode() + f"\r\n--{boundary}--\r\n".encode()
    return body, f"multipart/form-data; boundary={boundary}"


class Ledger:
    def __init__(self):
        self.tickets, self.events, self.batches = set(), set(), {}  # a batch's client
        self.answers = collections.Counter()  # of all requests of the load, by status; None: none
        self.findings = []
        self.let_in = []  # suspended clients that were
        self.suspended = []  # (client, when the suspension was answered)
        self.probes = 0
        self.admitted = []  # when a request of the limited client was let through
        self.asked = 0
        self.lock = threading.Lock()


class Load:
    def __init__(self, cluster, rate, seed):
        self.cluster = cluster
        self.rate = rate
        self.chance = random.Random(seed)
        self.ledger = Ledger()
        self.stopping = threading.Event()
        self.numbers = itertools.count()
        self.clients = []
        self.threads = []

    # -- setting up, in calm

    def make_client(self, name, **policy):
        where = self.cluster.apis[0].host_port
        status, client = call(where, "POST", "/admin/clients", {"name": name, "scopes": SCOPES}, {"X-Admin-Key": ADMIN_KEY})
        assert status == 201, (status, client)
        if policy:
            status, answer = call(where, "PUT", f"/admin/clients/{client['clientId']}/policy", policy, {"X-Admin-Key": ADMIN_KEY})
            assert status == 200, answer
        return client

    def prepare(self, clients=3):
        for n in range(clients):
            client = self.make_client(f"Client {n}")
            status, answer = call(self.cluster.apis[0].host_port, "POST", f"/clients/{client['clientId']}/webhooks",
                                  {"url": f"{self.cluster.peer.url}/webhooks/{n}", "events": ["BatchCompleted", "BatchFailed"]},
                                  credentials(client))
            assert status == 201, answer
            self.clients.append(client)
        self.limited = self.make_client("Limited", requestsPerMinute=LIMIT)

    def start(self):
        jobs = [(self.send_ticket, self.rate * 0.35)] * 2 + [(self.send_event, self.rate * 0.25), (self.send_import, self.rate * 0.05),
                (self.suspend_one, 0.15), (self.probe_suspended, 1), (self.ask_limited, 4)]
        self.threads = [threading.Thread(target=self.pace, args=job, daemon=True) for job in jobs]
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(4 * TIMEOUT)
            if thread.is_alive():
                self.finding("a caller got no answer and no error")

    # -- one after the other

    def pace(self, job, rate):
        """Calls it `rate` times a second, or as often as it returns."""
        due = time.monotonic()
        while not self.stopping.wait(max(0, due - time.monotonic())):
            due = max(due + 1 / rate, time.monotonic() - 1)
            job()

    def finding(self, text):
        with self.ledger.lock:
            self.ledger.findings.append(text)

    def until_answered(self, method, path, document, headers):
        """The document of the 2xx, or None when the load ended before. The first request is always sent."""
        while True:
            status, answer = call(self.cluster.haproxy.host_port, method, path, document, headers)
            with self.ledger.lock:
                self.ledger.answers[status] += 1
            if status is not None and 200 <= status < 300:
                return answer
            if status is not None and status not in AGAIN:
                self.finding(f"{method} {path} was answered {status}: {answer}")
                return None
            if self.stopping.wait(0.3):
                return None

    def client(self):
        return self.clients[next(self.numbers) % len(self.clients)]

    def send_ticket(self):
        doc = f"T_{uuid.uuid4().hex[:24]}"
        # A client owns what it sent: the same one repeats it.
        if self.until_answered("POST", "/api/tickets", ticket(doc), credentials(self.client())):
            with self.ledger.lock:
                self.ledger.tickets.add(doc)

    def send_event(self):
        event = {"eventType": "OrderPlaced", "aggregateType": "Order", "aggregateId": str(next(self.numbers) % 50), "payload": {"n": 1}}
        answer = self.until_answered("POST", "/events", event, {**credentials(self.client()), "Idempotency-Key": uuid.uuid4().hex})
        if answer:
            with self.ledger.lock:
                self.ledger.events.add(answer["eventId"])

    def send_import(self):
        first = next(self.numbers) * RECORDS
        body, kind = upload([{"PhoneNumber": f"+55519{90000000 + first + n}", "Name": f"Lead {n}"} for n in range(RECORDS)])
        client = self.client()
        answer = self.until_answered("POST", "/imports", body, {**credentials(client), "Content-Type": kind,
                                                                "Idempotency-Key": uuid.uuid4().hex})
        if answer:
            with self.ledger.lock:
                self.ledger.batches[answer["batchId"]] = client

    # -- suspensions: refused everywhere, five seconds after the call was answered

    def suspend_one(self):
        victim = f"victim-{uuid.uuid4().hex[:12]}"
        status, client = call(self.cluster.haproxy.host_port, "POST", "/admin/clients", {"name": victim, "clientId": victim, "scopes": SCOPES},
                              {"X-Admin-Key": ADMIN_KEY})
        if status != 201:
            return  # its secret is lost with the answer: another one, next time
        for api in self.cluster.apis:
            call(api.host_port, "GET", "/whoami", headers=credentials(client))  # so that each one that can knows it
        answer = self.until_answered("PATCH", f"/admin/clients/{victim}", {"status": "Suspended"}, {"X-Admin-Key": ADMIN_KEY})
        if answer:
            with self.ledger.lock:
                self.ledger.suspended.append((client, time.monotonic()))

    def probe_suspended(self):
        with self.ledger.lock:
            found = [client for client, at in self.ledger.suspended[-5:] if time.monotonic() > at + SUSPENDED_WITHIN]
        for client in found:
            api = self.chance.choice(self.cluster.apis)
            status, _ = call(api.host_port, "GET", "/whoami", headers=credentials(client))
            with self.ledger.lock:
                self.ledger.probes += status is not None
                if status is not None and status < 300:
                    self.ledger.let_in.append(f"{client['clientId']} by {api.name}")

    # -- the limit of one client, on all replicas together

    def ask_limited(self):
        begun = time.monotonic()
        status, _ = call(self.cluster.haproxy.host_port, "GET", "/whoami", headers=credentials(self.limited))
        with self.ledger.lock:
            self.ledger.asked += 1
            if status == 200:
                self.ledger.admitted.append(begun)

    def burst(self):
        """Asks every replica at once for more than the limit; returns how many were let through."""
        client = self.make_client("Burst", requestsPerMinute=LIMIT)
        turns = itertools.count()
        statuses = []

        def ask():
            while (turn := next(turns)) < 4 * LIMIT:
                status, _ = call(self.cluster.apis[turn % len(self.cluster.apis)].host_port, "GET", "/whoami", headers=credentials(client))
                statuses.append(status)
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return statuses.count(200)
