"""Tickets on their way through a server that is killed, to a gateway that fails: nothing lost, nothing doubled.

The sandbox keeps every request with its Idempotency-Key (the row) and its traceparent (the attempt), the server every
attempt whose end it knows in DeliveryAttempts. Side by side they show whether a row was sent again without need.
"""

import bisect
import collections
import concurrent.futures
import contextlib
import datetime
import http.client
import json
import os
import random
import threading
import time

import pytest
from harness import BACKENDS, SANITIZER, Backend, Http, Server, skip_if_missing, wait_for
from test_sandbox import Sandbox

ROUNDS = int(os.environ.get("DATAFLOW_CRASH_ROUNDS", "50"))
TICKETS = int(os.environ.get("DATAFLOW_CRASH_TICKETS", max(1200, 40 * ROUNDS)))  # fewer are through before kills fall
KILLS = max(20, TICKETS // 100)  # no more, however far it has come by then
CONNECTIONS = 16
SETTLED = 300 + TICKETS // 50  # seconds that everything may take in the end
PATHS = {"functional-ack": "/gateway/acks", "ticket-return": "/gateway/returns", "ticket-gateway": "/gateway/tickets"}
LEASE_MS, TIMEOUT_MS = 4000, 1000  # between them there is time to settle: no lease is lost but by a kill
CLOCK_MS = 5  # times are cut to milliseconds, and durations measured by another clock
STALL_MS = 500  # for so long a busy machine may stop a sender between its two looks at the clocks
LATE_MS = 1000  # a request of who was killed may lie in the sandbox's socket for so long
FAULTS = (
    {"status": 503, "rate": 0.2},
    {"latencyMs": 200, "rate": 0.05},
    {"latencyMs": TIMEOUT_MS + 300, "rate": 0.005},  # the answer comes when nobody waits for it any more
    {"drop": True, "rate": 0.03},
)


def configuration(gateways, **delivery):
    """gateways: a sandbox for each channel."""
    urls = {channel: "http://{}:{}{}".format(*gateways[channel].host_port, path) for channel, path in PATHS.items()}
    return {
        "gateway": {"functional_ack_url": urls["functional-ack"], "ticket_return_url": urls["ticket-return"],
                    "ticket_send_url": urls["ticket-gateway"], "api_key": "gateway-key-of-the-tests"},
        "delivery": {"allow_private_targets": "on", "retry_base_ms": 20, "retry_cap_ms": 200, "max_attempts": 1000,
                     "lease_ms": LEASE_MS, "timeout_ms": TIMEOUT_MS, **delivery},
        # A fifth of failures opens it now and then, and not for long.
        "breaker": {"window": 20, "min_calls": 10, "open_ms": 50},
    }


def ticket(doc):
    return {"businessEntity": "TCK", "businessDocId": doc, "companyCode": "0050", "branchCode": "1",
            "destinationCode": "D7", "phaseCode": 15, "shipmentEvent": "RCD", "functionalAckIsRequired": True,
            "targetApplicationCode": "ASB"}


def documents(count):
    return [f"TCK_{i:06}" for i in range(count)]


class Posters:
    """Connections that post every document until it is answered 200, to whichever server answers."""

    def __init__(self, callers, docs):
        self.callers = callers
        self.docs = collections.deque(docs)
        self.posts = 0
        self.repeated = 0  # stored by a post whose answer was lost
        self.refused = collections.Counter()
        self.lock = threading.Lock()

    def run(self, number):
        turn, connection = number, None
        with contextlib.suppress(IndexError):  # none is left
            while True:
                body = json.dumps(ticket(self.docs.popleft())).encode()
                answer = None
                while answer is None:
                    caller = self.callers[turn % len(self.callers)]
                    connection = connection or caller.connect()
                    answer = self.post(caller, connection, body)
                    if answer is None:
                        connection.close()
                        connection = None
                        turn += 1
                        time.sleep(0.02)
                with self.lock:
                    self.repeated += not answer["created"]
        if connection:
            connection.close()

    def post(self, caller, connection, body):
        try:
            with self.lock:
                self.posts += 1
            connection.request("POST", "/api/tickets", body, {**caller.headers, "Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            return None
        if answer.status == 200:
            return json.loads(text)
        with self.lock:
            self.refused[answer.status] += 1
        return None


Request = collections.namedtuple("Request", "key trace at status")
Attempt = collections.namedtuple("Attempt", "number start end outcome status")


class Journal:
    """Everything that the sandbox received, read while it arrives, because the sandbox keeps only the last thousand
    of a path."""

    def __init__(self, sandbox):
        self.sandbox = sandbox
        self.seen = {path: collections.Counter() for path in PATHS.values()}
        self.count = dict.fromkeys(self.seen, 0)
        self.whole = dict.fromkeys(self.seen, 0)  # how many had come when all of them were seen
        self.stopping = threading.Event()

    def run(self):
        while not self.stopping.wait(0.02):
            self.read()

    def read(self):
        stats = {row["path"]: row for row in self.sandbox.get("/_stats").json["paths"]}
        for path in self.seen:
            came = stats.get(path, {"requests": 0})["requests"]
            limit = came - self.whole[path] + 100  # more may come before the next call
            while self.count[path] < came:
                self.read_last(path, min(1000, limit))
                if limit >= 1000:
                    break
                limit *= 2
            if self.count[path] >= came:
                self.whole[path] = came
        return stats

    def read_last(self, path, limit):
        seen = self.seen[path]
        requests = self.sandbox.get(f"/_received?path={path}&limit={limit}").json
        # Of <channel>:<row>:<version>:<hash> the row: that each has one key is for distinctKeys to say.
        found = collections.Counter(Request(":".join(r["idempotencyKey"].split(":")[:2]), r["headers"]["traceparent"],
                                            instant_ms(r["at"]), r["status"]) for r in requests)
        for request, times in found.items():
            new = max(0, times - seen[request])
            seen[request] += new
            self.count[path] += new


def instant_ms(value):
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    if value.tzinfo is None:
        value = value.replace(tzinfo=datetime.timezone.utc)
    return round(value.timestamp() * 1000)


class World:
    """Sandbox, database and servers of a test; all that is running is ended with it."""

    def __init__(self, name, directory):
        self.backend = Backend(name, directory / "database")
        self.directory = directory
        self.sandboxes = []
        self.servers = []
        self.kills = []

    def sandbox(self):
        directory = self.directory / f"sandbox{len(self.sandboxes)}"
        directory.mkdir()
        box = Sandbox(directory, "--keep", "5000")
        self.sandboxes.append(box)
        return box

    def server(self, **sections):
        server = Server(self.backend, self.directory / f"server{len(self.servers)}", config=sections)
        self.servers.append(server)
        return server.start()

    def kill_again_and_again(self, server, seed, enough):
        chance = random.Random(seed)
        # SQL Server's first statements may take a second.
        least, most = (1.5, 3) if self.backend.name == "sqlserver" else (0.2, 0.6)
        while not enough.wait(chance.uniform(least, most)) and len(self.kills) < KILLS:
            server.kill()
            self.kills.append(time.time() * 1000)  # it was alive at most until now
            server.start()

    def count(self, condition, table="TB_TICKET_INTERFACE"):
        [[count]] = self.backend.query(f"SELECT COUNT(*) FROM {table} WHERE {condition}")
        return count

    def unsettled(self):
        return (self.count("Status <> 'Processed' OR ReturnStatus <> 'Sent' OR GatewaySendStatus <> 'Sent'") +
                self.count("Status <> 'Sent'", "TB_FUNCTIONAL_ACK_OUTBOX"))

    def wait_until_settled(self, timeout=SETTLED):
        wait_for(lambda: self.unsettled() == 0, "everything delivered", timeout=timeout, every=0.2)

    def finish(self):
        for server in self.servers:
            assert server.stop() == 0
            text = server.log_text()
            assert not SANITIZER.search(text), text[-4000:]
        for box in self.sandboxes:
            box.finish()
        self.sandboxes = []

    def close(self):
        for server in self.servers:
            if server.process:
                server.kill()
        for box in self.sandboxes:
            box.process.kill()
            box.process.wait()
        for log in [server.log_text() for server in self.servers] + [box.log_path.read_text() for box in self.sandboxes]:
            assert not SANITIZER.search(log), log[-4000:]
        self.backend.drop()


@pytest.fixture
def make_world(tmp_path):
    worlds = []

    def make(name):
        skip_if_missing(name)
        worlds.append(World(name, tmp_path))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


@pytest.fixture(params=BACKENDS)
def world(request, make_world):
    return make_world(request.param)


# --- what must hold in the end -----------------------------------------------------------------------


def check_rows(world, docs):
    """Every document is one ticket, one return and one ack, all of them through. The ids of each channel's rows."""
    tickets = world.backend.query("SELECT BusinessDocId, Status, ReturnStatus, GatewaySendStatus, PayloadVersion, Id"
                                  " FROM TB_TICKET_INTERFACE")
    assert sorted(t[0] for t in tickets) == docs
    assert {tuple(t[1:5]) for t in tickets} == {("Processed", "Sent", "Sent", 1)}
    ids = {"ticket-gateway": {str(t[5]) for t in tickets}}
    for channel, table in (("ticket-return", "TB_TICKET_RETURN_OUTBOX"),
                           ("functional-ack", "TB_FUNCTIONAL_ACK_OUTBOX")):
        rows = world.backend.query(f"SELECT BusinessDocId, Status, Id FROM {table}")
        assert sorted(r[0] for r in rows) == docs, f"{channel}: one row for each ticket"
        assert {r[1] for r in rows} == {"Sent"}, channel
        ids[channel] = {str(r[2]) for r in rows}
    return ids


def recorded_attempts(world):
    """By channel and row, in the order of time. A success at the first try stands in the delivered row."""
    found = collections.defaultdict(list)
    for channel, row, number, at, duration, outcome, status in world.backend.query(
            "SELECT Channel, RowKey, Attempt, AttemptedAt, DurationMs, Outcome, HttpStatus FROM DeliveryAttempts"):
        start = instant_ms(at)
        found[channel, row].append(Attempt(number, start, start + duration, outcome, status))
    for channel, table, prefix in (("ticket-gateway", "TB_TICKET_INTERFACE", "GatewaySend"),
                                   ("ticket-return", "TB_TICKET_RETURN_OUTBOX", ""),
                                   ("functional-ack", "TB_FUNCTIONAL_ACK_OUTBOX", "")):
        for row, at, duration, status in world.backend.query(
                f"SELECT Id, {prefix}LastAttemptAt, {prefix}SentMs, {prefix}SentStatus FROM {table}"
                f" WHERE {prefix}Status = 'Sent' AND {prefix}TryCount = 1"):
            start = instant_ms(at)
            found[channel, str(row)].append(Attempt(1, start, start + duration, "Sent", status))
    for attempts in found.values():
        attempts.sort(key=lambda a: (a.start, a.number))
    return found


def sends_by_key(requests):
    """The attempts of each key in the order of time. Each is a list of requests, because the HTTP client itself sends
    a request again that the peer dropped on a kept connection."""
    sends = collections.defaultdict(lambda: collections.defaultdict(list))
    for request in sorted(requests.elements(), key=lambda r: (r.at, r.status != "dropped")):
        sends[request.key][request.trace].append(request)
    return {key: list(by_trace.values()) for key, by_trace in sends.items()}


def match(attempts, sends):
    """The recorded attempt of each send, or None: the one during which it arrived, within the precision of the
    clocks; of two in the same millisecond the one with the send's status. A request that timed out here may have been
    read there later."""
    left = list(attempts)
    found = []
    for send in sends:
        at = send[0].at
        fitting = ((max(0, a.start - at, at - a.end), a.status != send[-1].status, a.start, a.number, a) for a in left
                   if a.start - CLOCK_MS <= at and (a.status is None or at <= a.end + STALL_MS))
        attempt = min(fitting, default=(None,))[-1]
        found.append(attempt)
        if attempt:
            left.remove(attempt)
    assert all(a.status is None for a in left), f"answered, and never sent: {left}, {sends}"
    return found


def check_attempts(name, attempts):
    """One holder at a time, and none after the one that was answered."""
    assert [a.outcome for a in attempts] == ["Retry"] * (len(attempts) - 1) + ["Sent"], f"{name}: {attempts}"
    for before, after in zip(attempts, attempts[1:]):
        assert before.number < after.number, f"{name}: {before}, {after}"
        assert before.end <= after.start + CLOCK_MS, f"{name} was held by two at once: {before}, {after}"


def check_sends(name, attempts, sends, kills):
    """A row is sent again only when the previous attempt is known to have failed, or its sender may have been killed
    before it could record the end. Returns how many of the latter there are."""
    lost = 0
    matched = match(attempts, sends)
    assert matched[-1] is attempts[-1], f"{name}: sent again after it was settled: {attempts}, {sends}"
    for send, attempt, after in zip(sends, matched, sends[1:] + [None]):
        assert {r.status for r in send[:-1]} <= {"dropped"}, f"{name}: one attempt, two requests: {send}"
        if attempt is None:
            at = bisect.bisect_left(kills, send[0].at - LATE_MS)
            assert at < len(kills) and kills[at] <= after[0].at, f"{name}: nobody was killed between {send} and {after}"
            lost += 1
        elif attempt.status is not None:
            assert send[-1].status == attempt.status, f"{name}: {attempt}, {send}"
    assert len(sends) <= attempts[-1].number + lost, f"{name}: sent more often than tried: {attempts}, {sends}"
    return lost


def check_deliveries(world, journal, ids):
    """The sandbox's view against the database's. For each channel: requests, repeats, answers lost by kills."""
    stats = journal.read()
    recorded = recorded_attempts(world)
    kills = sorted(world.kills)
    figures = {}
    for channel, path in PATHS.items():
        row = stats[path]
        requests = journal.seen[path]
        assert journal.count[path] == row["requests"], "the sandbox was quicker than it could be read"
        sends = sends_by_key(requests)
        assert sends.keys() == {f"{channel}:{i}" for i in ids[channel]}, channel
        assert row["distinctKeys"] == len(ids[channel])
        lost = 0
        for i in ids[channel]:
            name, attempts = f"{channel}:{i}", recorded[channel, i]
            check_attempts(name, attempts)
            lost += check_sends(name, attempts, sends[name], kills)
        failed = sum(a.outcome == "Retry" for i in ids[channel] for a in recorded[channel, i])
        resent = sum(len(send) - 1 for s in sends.values() for send in s)
        assert row["repeats"] <= failed + lost + resent, channel
        figures[channel] = {"requests": row["requests"], "repeats": row["repeats"], "recorded failures": failed,
                            "lost by kills": lost, "resent on a new connection": resent}
    return figures


# --- the tests ---------------------------------------------------------------------------------------


def run_through_kills(world, servers, box, docs):
    journal = Journal(Http(box))
    client = servers[0].new_client("AS400", scopes=["interface"])
    posters = Posters([Http(s, client.headers) for s in servers], docs)
    for fault in FAULTS:
        assert journal.sandbox.post("/_faults", {"path": "/gateway", **fault}).status == 201
    begun = time.monotonic()
    enough = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(CONNECTIONS + len(servers) + 1) as pool:
        try:
            reading = pool.submit(journal.run)
            killing = [pool.submit(world.kill_again_and_again, s, 20240229 + i, enough) for i, s in enumerate(servers)]
            posting = [pool.submit(posters.run, i) for i in range(CONNECTIONS)]
            for done in concurrent.futures.as_completed(posting, timeout=SETTLED):
                done.result()
            # The last quarter finds its way without kills, so that what a kill does not explain is seen.
            wait_for(lambda: all(k.done() for k in killing) or
                     world.count("GatewaySendStatus = 'Sent'") >= len(docs) * 3 // 4, "most of them sent", SETTLED, 0.1)
            enough.set()
            for done in killing:
                done.result()
            killed = time.monotonic()
            world.wait_until_settled()
            settled = time.monotonic()
        finally:
            enough.set()
            posters.docs.clear()
            journal.stopping.set()
        reading.result()
    assert set(posters.refused) <= {503}, posters.refused
    figures = check_deliveries(world, journal, check_rows(world, docs))
    assert len(world.kills) > 3, "kills fell while work was under way"
    world.finish()
    print(f"\n{world.backend.name}, {len(servers)} server(s): {len(docs)} tickets, {posters.posts} posts,"
          f" {posters.repeated} stored by a post whose answer was lost, {len(world.kills)} kills in"
          f" {killed - begun:.1f} s, all settled after {settled - begun:.1f} s")
    for channel, counts in figures.items():
        print(f"  {channel}: " + ", ".join(f"{n} {name}" for name, n in counts.items()))


def test_nothing_is_lost_and_nothing_doubled_through_kill_9(world):
    box = world.sandbox()
    docs = documents(TICKETS // 10 if world.backend.name == "sqlserver" else TICKETS)
    server = world.server(**configuration(dict.fromkeys(PATHS, box)))
    run_through_kills(world, [server], box, docs)


def test_nothing_is_doubled_by_two_servers_on_one_postgres(make_world):
    world = make_world("postgres")
    box = world.sandbox()
    servers = [world.server(**configuration(dict.fromkeys(PATHS, box))) for _ in range(2)]
    run_through_kills(world, servers, box, documents(TICKETS))


def post_all(server, docs):
    posters = Posters([server.new_client("AS400", scopes=["interface"])], docs)
    posters.run(0)


def test_a_destination_that_hangs_keeps_no_other_waiting(world):
    fine, hanging = world.sandbox(), world.sandbox()
    server = world.server(**configuration({**dict.fromkeys(PATHS, fine), "ticket-return": hanging},
                                          lease_ms=180000, timeout_ms=150000))
    assert Http(hanging).post("/_faults", {"path": "/gateway", "latencyMs": 120000}).status == 201
    docs = documents(200)  # more than one destination may have on its way at the same time
    post_all(server, docs)
    wait_for(lambda: world.count("GatewaySendStatus = 'Sent'") == len(docs) and
             world.count("Status = 'Sent'", "TB_FUNCTIONAL_ACK_OUTBOX") == len(docs), "the others delivered", 60, 0.1)
    wait_for(lambda: world.count("ReturnStatus = 'Sending'") > 0, "returns under way for more than a second", 30, 0.1)
    assert world.count("ReturnStatus = 'Sent'") == 0


def in_hand(world):
    """Rows of each channel that somebody has claimed."""
    return {"ticket-return": world.count("Status = 'Sending'", "TB_TICKET_RETURN_OUTBOX"),
            "functional-ack": world.count("Status = 'Sending'", "TB_FUNCTIONAL_ACK_OUTBOX"),
            "ticket-gateway": world.count("GatewaySendStatus = 'Sending'"),
            "processing": world.count("Status = 'Processing'")}


@pytest.mark.parametrize("latency_ms", (300, 30000), ids=("answers_come", "answers_do_not_come"))
def test_sigterm_leaves_nothing_in_hand(world, latency_ms):
    box = world.sandbox()
    drain = 20 if latency_ms == 300 else 3
    server = world.server(**{**configuration(dict.fromkeys(PATHS, box), lease_ms=60000, timeout_ms=40000),
                             "server": {"drain_seconds": drain}})
    sandbox = Http(box)
    journal = Journal(sandbox)
    assert sandbox.post("/_faults", {"path": "/gateway", "latencyMs": latency_ms}).status == 201
    docs = documents(100)
    post_all(server, docs)
    wait_for(lambda: journal.read() and all(journal.count.values()), "calls under way on every channel")
    begun = time.monotonic()
    assert server.stop() == 0
    took = time.monotonic() - begun
    assert took < drain + 15, f"drain_seconds = {drain}, and it took {took:.1f} s"
    assert set(in_hand(world).values()) == {0}, in_hand(world)
    # What was cut off is due at once, not when a lease is over.
    sandbox.request("DELETE", "/_faults")
    server.start()
    world.wait_until_settled(timeout=50)
    journal.read()
    ids = check_rows(world, docs)
    recorded = recorded_attempts(world)
    for channel, path in PATHS.items():
        sends = sends_by_key(journal.seen[path])
        assert sends.keys() == {f"{channel}:{i}" for i in ids[channel]}
        for i in ids[channel]:
            name = f"{channel}:{i}"
            check_attempts(name, recorded[channel, i])
            assert check_sends(name, recorded[channel, i], sends[name], []) == 0
            if latency_ms < 3000:
                assert len(sends[name]) == 1, f"{name} was answered while the server drained, and sent again"
    world.finish()
