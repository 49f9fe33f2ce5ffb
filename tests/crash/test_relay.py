"""An application's outbox on a PostgreSQL that is restarted, relays that are killed, a destination that fails: every event
arrives, none is PROCESSED that has not, each aggregate's come in their order, and each repeat has its reason.

Every aggregate has a path of its own in the sandbox, none the beginning of another, which keeps the requests of a path in
the order in which they came.
"""

import collections
import contextlib
import os
import random
import signal
import threading
import time

import psycopg2
import pytest
from harness import Backend, Http, wait_for
from outboxes import Outbox, RelayProcess
from test_sandbox import Sandbox
from test_tickets import LATE_MS, instant_ms

import pg

ROUNDS = int(os.environ.get("DATAFLOW_CRASH_ROUNDS", "50"))
EVENTS = int(os.environ.get("DATAFLOW_CRASH_EVENTS", max(600, 30 * ROUNDS)))
KILLS = int(os.environ.get("DATAFLOW_CRASH_KILLS", max(8, ROUNDS // 4)))
AGGREGATES = min(100, max(20, EVENTS // 200))  # so many paths are read again and again
SETTLED = 120 + EVENTS // 100  # seconds that all may take
PATH = "/webhooks/relay"
FAULTS = ({"status": 503, "rate": 0.2}, {"latencyMs": 100, "rate": 0.05})

Request = collections.namedtuple("Request", "event trace at status")


class Journal:
    """What came to the sandbox, by path in the order in which it came; read while it comes, because only the last
    requests are kept."""

    def __init__(self, box):
        self.http = Http(box)
        self.seen = collections.defaultdict(list)
        self.arrived = set()
        self.lock = threading.Lock()

    def read(self):
        with self.lock:
            stats = {p["path"]: p["requests"] for p in self.http.get("/_stats").json["paths"]}
            for path, came in stats.items():
                if came > len(self.seen[path]):
                    self.read_path(path, came)
            return stats

    def read_path(self, path, came):
        known = self.seen[path]
        limit = came - len(known) + 20  # some have come since
        while True:
            found = [Request(r["headers"]["ce-id"], r["headers"]["traceparent"], r["at"], r["status"])
                     for r in self.http.get(f"/_received?path={path}&limit={min(limit, 1000)}").json[::-1]]
            if not known or known[-1] in found:
                break
            assert limit < 1000, "the sandbox was quicker than it could be read"
            limit *= 4
        new = found[found.index(known[-1]) + 1:] if known else found
        known += new
        self.arrived.update(r.event for r in new if r.status == 200)


class World:
    """The database, the relays and the sandbox; what was done to them and when."""

    def __init__(self, directory, postgres, count):
        self.postgres = postgres
        self.outbox = Outbox(Backend.on(postgres.url()))
        for columns in ("created_at, id", "aggregate_id, aggregate_type, created_at, id"):
            self.outbox.execute(f"CREATE INDEX ON {self.outbox.quoted} ({columns}) WHERE status = 'PENDING'")
        self.box = Sandbox(directory)
        self.journal = Journal(self.box)
        for fault in FAULTS:
            assert self.journal.http.post("/_faults", {"path": PATH, **fault}).status == 201
        target = "http://{}:{}{}/{{aggregateId}}".format(*self.box.host_port, PATH)
        section = self.outbox.section(dispatcher="http", target=target, order="aggregate", max_retries=1000, batch=50,
                                      notify_channel="outbox")
        # A fifth of failures opens it now and then, and not for long.
        breaker = {"window": 20, "min_calls": 10, "open_ms": 50}
        self.relays = [RelayProcess(directory / f"relay{i}", "orders", section, {"breaker": breaker}) for i in range(count)]
        for relay in self.relays:
            relay.start()
        self.events = []
        self.blows = []  # (begun, ended), in milliseconds of the wall clock
        self.kinds = collections.Counter()
        self.problems = []
        self.stopping = threading.Event()

    @contextlib.contextmanager
    def blow(self, kind):
        begun = time.time() * 1000
        yield
        self.blows.append((begun, time.time() * 1000))
        self.kinds[kind] += 1

    # -- the application

    def write_all(self):
        """Three quarters while blows fall, spread over them; the rest in peace, so that what no blow explains is seen."""
        connection = None
        chance = random.Random(20240303)
        while len(self.events) < EVENTS and not self.stopping.is_set():
            allowed = EVENTS * 3 // 4 * (len(self.blows) + 1) // (KILLS + 1) if len(self.blows) < KILLS else EVENTS
            if len(self.events) >= allowed:
                time.sleep(0.005)
                continue
            events = [self.outbox.event(aggregate_id=f"{chance.randrange(AGGREGATES):06}")
                      for _ in range(min(chance.randrange(1, 40), EVENTS - len(self.events)))]
            sql = self.outbox.insert_sql(events) + " ON CONFLICT DO NOTHING"
            while not self.stopping.is_set():  # until it is known to be there
                try:
                    connection = connection or psycopg2.connect(self.outbox.backend.url)
                    with connection, connection.cursor() as cursor:
                        cursor.execute(sql)
                    break
                except psycopg2.Error:
                    connection = None
                    time.sleep(0.02)
            self.events += events

    # -- the blows

    def strike(self):
        chance = random.Random(20240304)
        wait_for(lambda: self.journal.arrived, "the first arrivals")
        while len(self.blows) < KILLS and not self.stopping.wait(chance.uniform(0.1, 0.4)):
            turn = len(self.blows) % 8
            if turn == 4:
                with self.blow("restarts of PostgreSQL"):
                    self.postgres.process.send_signal(signal.SIGQUIT)
                    self.postgres.process.wait()
                    self.postgres.start()
            elif turn in (2, 6):
                with self.blow("terminations"), contextlib.closing(psycopg2.connect(self.outbox.backend.url)) as connection:
                    connection.cursor().execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'dataflow%'"
                        + (" LIMIT 1" if turn == 2 else ""))
            else:
                relay = chance.choice(self.relays)
                with self.blow("kills"):
                    relay.kill()
                relay.spawn()

    # -- what must hold at any time

    def processed(self):
        status = "SELECT id::text FROM {} WHERE status = 'PROCESSED'".format(self.outbox.quoted)
        return {row for row, in self.outbox.backend.query(status)}

    def watch(self):
        """None is PROCESSED that has not arrived: first what the table says, then what the sandbox has seen."""
        while not self.stopping.is_set():
            processed = set()
            with contextlib.suppress(psycopg2.Error):
                processed = self.processed()
            self.journal.read()
            missing = processed - self.journal.arrived
            assert not missing, f"PROCESSED, and never arrived: {missing}"
            self.stopping.wait(0.3)

    def guarded(self, function):
        def run():
            try:
                function()
            except Exception as problem:  # told by the main thread
                self.problems.append(problem)
                self.stopping.set()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def run(self):
        threads = [self.guarded(f) for f in (self.watch, self.write_all)]
        try:
            self.strike()  # not on a thread of its own: PostgreSQL ends with the thread that has started it
            wait_for(lambda: self.stopping.is_set() or len(self.journal.arrived) >= EVENTS, "all arrived", SETTLED, 0.05)
            wait_for(lambda: self.stopping.is_set() or self.outbox.states() == {"PROCESSED": EVENTS}, "all settled", SETTLED)
        finally:
            self.stopping.set()
            for thread in threads:
                thread.join()
        if self.problems:
            raise self.problems[0]

    def finish(self):
        for relay in self.relays:
            relay.wait_for_event("RelayStarted")  # the others may have been through before it was up again
            relay.finish()
        stats = self.journal.read()
        assert {p: len(r) for p, r in self.journal.seen.items()} == stats
        self.box.finish()

    def close(self):
        for relay in self.relays:
            if relay.process:
                relay.kill()
        self.box.process.kill()
        self.box.process.wait()


# --- what must hold in the end --------------------------------------------------------------------------


def check_order(world):
    """No event is seen before all that were written to its aggregate before it were taken."""
    written = collections.defaultdict(list)
    for event in world.events:
        written[event["aggregate_id"]].append(event["id"])
    for path, requests in world.journal.seen.items():
        order = {event: n for n, event in enumerate(written[path.rpartition("/")[2]])}
        taken = 0  # so many of its first
        for request in requests:
            assert order[request.event] <= taken, f"{path}: {request} came before one that was written earlier"
            if request.status == 200 and order[request.event] == taken:
                taken += 1
        assert taken == len(order), f"{path}: not all arrived"


def check_repeats(world):
    """An event is sent again only after a failure, or if a kill or a restart fell before its end could be recorded; and no
    more failures count than there were. Returns the figures."""
    requests = collections.defaultdict(list)
    for path in world.journal.seen.values():
        for request in path:
            requests[request.event].append(request)
    rows = world.outbox.rows("attempts")
    blows = sorted(world.blows)
    figures = collections.Counter()
    for event, sent in requests.items():
        counted = rows[event]["attempts"]
        failed = sum(r.status != 200 for r in sent)
        blown = [any(begun <= instant_ms(after.at) and ended >= instant_ms(before.at) - LATE_MS for begun, ended in blows)
                 for before, after in zip(sent, sent[1:])]
        assert counted <= failed, f"{event}: {counted} failures counted, and sent {sent}"
        for before, after, blow in zip(sent, sent[1:], blown):
            assert blow or before.status != 200, f"{event} was taken, nothing happened, and it came again: {before}, {after}"
        figures["requests"] += len(sent)
        figures["failures"] += failed
        figures["failures that counted"] += counted
        figures["taken more than once"] += sum(r.status == 200 for r in sent) - 1
    return figures


@pytest.fixture(scope="module")
def postgres():
    server = pg.Postgres().start()
    yield server
    server.close()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_every_event_of_a_postgres_arrives_in_order_whatever_is_killed(tmp_path, postgres, count):
    world = World(tmp_path, postgres, count)
    try:
        begun = time.monotonic()
        world.run()
        took = time.monotonic() - begun
        world.finish()
        check_order(world)
        figures = check_repeats(world)
        assert len(world.blows) >= KILLS and world.kinds["kills"] > 0
        print(f"\n{count} relay(s): {EVENTS} events in {AGGREGATES} aggregates, {took:.1f} s, "
              + ", ".join(f"{n} {kind}" for kind, n in {**world.kinds, **figures}.items()))
    finally:
        world.close()
