"""PostgreSQL with a streaming standby: the primary dies or freezes under load, the standby is promoted, work goes on.

What was answered 2xx is compared with what is there and with what arrived. The moments of a failover are brought about
by the tests; nothing is asserted on how long it takes. It is printed.
"""

import collections
import contextlib
import itertools
import json
import re
import threading
import time

import pytest
from gateway import Gateway
from harness import Backend, Http, Server, postgres_execute, wait_for
from test_imports_process import ENDS, leads, send, state
from test_imports_process import configuration as import_configuration
from test_imports_receive import upload

import pg

pytestmark = pytest.mark.threads

TICKET = {"businessEntity": "TCK", "companyCode": "0050", "branchCode": "1", "destinationCode": "D7", "phaseCode": 15,
          "shipmentEvent": "RCD", "functionalAckIsRequired": True, "targetApplicationCode": "ASB"}


class Cluster:
    """A primary and its standby. With `synchronous`, a commit is not reported before the standby has it."""

    def __init__(self, synchronous):
        self.servers = []
        try:
            self.primary = self._add(pg.Postgres())
            self.standby = self._add(pg.Postgres(of=self.primary))
            if synchronous:
                self.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
                self.execute("SELECT pg_reload_conf()")
            state_of = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'"
            wait_for(lambda: self.execute(state_of) == [("sync" if synchronous else "async",)], "the standby")
        except BaseException:
            self.close()
            raise

    def _add(self, server):
        self.servers.append(server)
        return server.start()

    @property
    def url(self):
        """The primary of the beginning stands first: whoever takes the first that answers finds it again."""
        return (f"postgres://{pg.USER}:{pg.PASSWORD}@127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
                "/postgres")

    def cut(self):
        """The standby receives nothing more."""
        self.execute("ALTER SYSTEM SET primary_conninfo = ''", self.standby)
        self.execute("SELECT pg_reload_conf()", self.standby)
        wait_for(lambda: not self.execute("SELECT 1 FROM pg_stat_replication"), "the standby to be cut off")

    def execute(self, sql, on=None):
        return postgres_execute(sql, (on or self.primary).url())

    def close(self):
        for server in self.servers:
            server.close()


@pytest.fixture
def make_cluster():
    with contextlib.ExitStack() as ends:
        def make(synchronous=True):
            return ends.enter_context(contextlib.closing(Cluster(synchronous)))
        yield make


@pytest.fixture
def gateway():
    with contextlib.closing(Gateway()) as made:
        yield made


@pytest.fixture
def make_server(tmp_path, gateway):
    made = []

    def make(cluster, **sections):
        config = import_configuration(gateway, imports={"poll_ms": 50}, omniflow={"batch_size": 5, "max_parallel_chunks": 2})
        config |= {
            "server": {"data_dir": tmp_path / "data"},
            "gateway": {"functional_ack_url": gateway.url + "/ack", "ticket_return_url": gateway.url + "/return",
                        "ticket_send_url": gateway.url + "/ticket", "api_key": "gateway-key-of-the-tests"},
            "delivery": {"allow_private_targets": "on", "retry_base_ms": 50, "retry_cap_ms": 500, "max_attempts": 1000},
            "relay.own": {"dispatcher": "http", "target": gateway.url + "/event", "poll_ms": 100},
        }
        for section, keys in sections.items():
            config.setdefault(section, {}).update(keys)
        server = Server(Backend.on(cluster.url), tmp_path / f"server{len(made)}", config=config)
        made.append(server)
        return server.start()

    yield make
    for server in made:
        if server.process and server.process.poll() is None:
            server.kill()


class Load:
    """Callers that repeat what was not answered, to any of the servers, until they are told to end."""

    def __init__(self, servers, client):
        self.callers = [Http(s, client.headers) for s in servers]
        self.numbers = itertools.count(1)
        self.answered = collections.defaultdict(list)  # tickets, events, batches: what was answered 2xx
        self.refused = collections.Counter()
        self.ending = threading.Event()
        self.threads = [threading.Thread(target=kind) for kind in (self.tickets, self.tickets, self.tickets, self.events,
                                                                   self.batches)]
        for thread in self.threads:
            thread.start()

    def until_answered(self, ask):
        for caller in itertools.cycle(self.callers):
            answer = None
            with contextlib.suppress(OSError):
                answer = ask(caller)
            if answer is not None and 200 <= answer.status < 300:
                return answer.json
            if answer is not None:
                assert answer.status == 503 and int(answer.headers["Retry-After"]) >= 1, answer
                self.refused[answer.status] += 1
            if self.ending.is_set():
                return None
            time.sleep(0.02)
        return None

    def each(self, kind, ask, pause=0.0):
        while not self.ending.wait(pause):
            number = next(self.numbers)
            answer = self.until_answered(lambda caller, n=number: ask(caller, n))
            if answer is not None:
                self.answered[kind].append((number, answer))

    def tickets(self):
        self.each("tickets", lambda c, n: c.post("/api/tickets", {**TICKET, "businessDocId": f"TCK_{n:06}"}), 0.02)

    def events(self):
        self.each("events", lambda c, n: c.post("/events", {"eventType": "Moved", "payload": {"n": n}},
                                                headers={"Idempotency-Key": f"event-{n}"}), 0.02)

    def batches(self):
        self.each("batches", lambda c, n: upload(c, json.dumps(leads(20, start=100 * n)).encode()), 1.0)

    def wait_for_more(self, tickets, batches=1):
        want = len(self.answered["tickets"]) + tickets, len(self.answered["batches"]) + batches
        wait_for(lambda: (len(self.answered["tickets"]) >= want[0] and len(self.answered["batches"]) >= want[1]) or
                 not all(t.is_alive() for t in self.threads), "more answers", timeout=120, every=0.05)
        assert all(t.is_alive() for t in self.threads), "a caller found what it must not"

    def end(self):
        self.ending.set()
        for thread in self.threads:
            thread.join(120)
            assert not thread.is_alive()


SETTLED = {
    "ticket-gateway": "SELECT Id FROM TB_TICKET_INTERFACE WHERE GatewaySendStatus = 'Sent'",
    "ticket-return": "SELECT Id FROM TB_TICKET_RETURN_OUTBOX WHERE Status = 'Sent'",
    "own": "SELECT id FROM outbox_events WHERE status = 'PROCESSED'",
    "chunk": "SELECT BatchId || ':' || ChunkId FROM ImportChunk WHERE Status >= 3",
}
UNSETTLED = ("SELECT (SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE Status <> 'Processed' OR GatewaySendStatus <> 'Sent')"
             " + (SELECT COUNT(*) FROM TB_TICKET_RETURN_OUTBOX WHERE Status <> 'Sent')"
             " + (SELECT COUNT(*) FROM outbox_events WHERE status <> 'PROCESSED')"
             " + (SELECT COUNT(*) FROM ImportBatch WHERE Status < 3)")


def settled(cluster, on):
    return {kind: {str(row[0]) for row in cluster.execute(sql, on)} for kind, sql in SETTLED.items()}


def sends(gateway):
    """How often each row was sent: <channel>:<row>…, <relay>:<event>, <batch>:<chunk>…"""
    counts = collections.defaultdict(collections.Counter)
    for request in list(gateway.requests):
        parts = request.key.split(":")
        if request.path == "/api/leads/import":
            counts["chunk"][":".join(parts[:2])] += 1
        else:
            counts[parts[0]][parts[1]] += 1
    return counts


def check_outcome(cluster, now, load, gateway, settled_before):
    """Everything answered is there once and arrived, and nothing that was settled before was sent again."""
    wait_for(lambda: cluster.execute(UNSETTLED, now) == [(0,)], "everything brought to its end", timeout=120, every=0.2)
    tickets = dict(cluster.execute("SELECT BusinessDocId, Id FROM TB_TICKET_INTERFACE", now))
    events = {str(row[0]) for row in cluster.execute("SELECT id FROM outbox_events", now)}
    batches = {str(row[0]): row[1:] for row in cluster.execute(
        "SELECT Id, Status, TotalRecords, ProcessedRecords, ErrorCount FROM ImportBatch", now)}
    counts = sends(gateway)
    for number, _ in load.answered["tickets"]:
        assert counts["ticket-gateway"][str(tickets[f"TCK_{number:06}"])] >= 1
    for _, answer in load.answered["events"]:
        assert answer["eventId"] in events and counts["own"][answer["eventId"]] >= 1
    for _, answer in load.answered["batches"]:
        assert batches[answer["batchId"]] == (3, 20, 20, 0), "Completed, each record once"
    for kind, ids in settled_before.items():
        again = {i: counts[kind][i] for i in ids if counts[kind][i] != 1}
        assert not again, f"{kind}: sent again though it was settled: {again}"
    [[doubled]] = cluster.execute("SELECT COUNT(*) - COUNT(DISTINCT Sequence || BatchId::text) FROM ImportItem", now)
    assert doubled == 0


def figure(server, name):
    found = re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", server.admin().get("/metrics").body.decode(), re.M)
    return float(found[1]) if found else None


def check_told(server, before, after):
    """The log and the figures tell of one failover, with hosts."""
    at = [f"127.0.0.1:{p.port}" for p in (before, after)]
    [told] = server.log("DatabaseFailedOver")
    assert (told["before"], told["host"]) == tuple(at)
    assert server.log("DatabaseLost")[0]["host"] == at[0]
    assert server.log("DatabaseRestored")[-1]["host"] == at[1]
    assert figure(server, "dataflow_db_failovers_total") == 1


# --- the primary dies --------------------------------------------------------------------------------


def test_a_standby_promoted_under_load_goes_on_and_nothing_is_lost(make_cluster, make_server, gateway):
    cluster = make_cluster()
    servers = [make_server(cluster) for _ in range(2)]
    load = Load(servers, servers[0].new_client())
    try:
        load.wait_for_more(30)
        before = settled(cluster, cluster.primary)
        cluster.primary.kill()
        for server in servers:
            ready = wait_for(lambda s=server: (r := s.admin().get("/readyz")).status == 503 and r, "503")
            assert "127.0.0.1" in ready.json["detail"] and int(ready.headers["Retry-After"]) >= 1
            refused = server.admin().post("/admin/clients", {"name": "meanwhile"})
            assert (refused.status, refused.code) == (503, "DatabaseUnavailable")
        told = servers[0].cli("migrate")
        assert told.returncode == 1 and pg.PASSWORD not in told.stderr
        assert "read-only" in told.stderr and f"port {cluster.primary.port} failed" in told.stderr, told.stderr
        cluster.standby.promote()
        promoted = time.monotonic()
        for server in servers:
            wait_for(lambda s=server: s.anonymous().get("/readyz").status == 200, "ready again")
        print(f"\nready {time.monotonic() - promoted:.1f} s after the promotion")
        load.wait_for_more(30)
    finally:
        load.end()
    check_outcome(cluster, cluster.standby, load, gateway, before)
    for server in servers:
        check_told(server, cluster.primary, cluster.standby)
        shown = server.cli("check-config").stdout
        assert f"@127.0.0.1:{cluster.primary.port},127.0.0.1:{cluster.standby.port}/" in shown and pg.PASSWORD not in shown
        assert f"at 127.0.0.1:{cluster.standby.port}," in server.cli("doctor").stdout
        assert len(server.log("DatabaseLost")) == len(server.log("DatabaseRestored"))
        server.finish()


# --- the primary freezes, and comes back as a zombie -------------------------------------------------


def test_a_frozen_primary_is_left_and_its_return_changes_nothing(make_cluster, make_server, gateway):
    cluster = make_cluster()
    server = make_server(cluster)
    client = server.new_client()
    load = Load([server], client)
    try:
        load.wait_for_more(30)
        before = settled(cluster, cluster.primary)
        cluster.primary.freeze()
        frozen = time.monotonic()
        cluster.standby.promote()
        wait_for(lambda: server.log("DatabaseFailedOver"), "the new primary to be found", timeout=120)
        print(f"\nfound {time.monotonic() - frozen:.1f} s after the other froze")
        load.wait_for_more(20)
        cluster.primary.thaw()
        # It takes connections again, and says that it takes writes; and it stands first in the URL.
        wait_for(lambda: cluster.execute("SELECT pg_is_in_recovery()") == [(False,)], "the zombie to answer")
        cluster.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'dataflow%'",
                        cluster.standby)
        load.wait_for_more(20)
    finally:
        load.end()
    check_outcome(cluster, cluster.standby, load, gateway, before)
    assert len(server.log("DatabaseFailedOver")) == 1
    # A process that knows nothing of the failover finds the right one, too.
    server.restart()
    answer = client.post("/api/tickets", {**TICKET, "businessDocId": "TCK_AFTER"})
    assert answer.status == 200
    here = {row[0] for row in cluster.execute("SELECT BusinessDocId FROM TB_TICKET_INTERFACE", cluster.standby)}
    there = {row[0] for row in cluster.execute("SELECT BusinessDocId FROM TB_TICKET_INTERFACE")}
    assert "TCK_AFTER" in here and "TCK_AFTER" not in there
    answered = {f"TCK_{number:06}" for number, _ in load.answered["tickets"]}
    assert answered <= here and not answered <= there, "nothing that was answered went to the zombie alone"
    server.finish()


# --- replication that lags behind --------------------------------------------------------------------


def test_what_an_asynchronous_failover_loses_is_done_again(make_cluster, make_server, gateway, tmp_path):
    """The standby lacks the last commits: chunks that were settled, a client, entries of the audit log. The batch's
    owner has all of that in its memory."""
    cluster = make_cluster(synchronous=False)
    server = make_server(cluster)
    client = server.new_client()
    gate, held = threading.Event(), threading.Semaphore(0)
    plain = gateway.answer

    def answer(path, key, body):
        if path == "/api/leads/import" and not gate.is_set():
            held.acquire(timeout=60)
        return plain(path, key, body)

    gateway.answer = answer
    batch = send(client, leads(50))  # ten chunks, two at a time
    done = "SELECT COUNT(*) FROM ImportChunk WHERE Status >= 3"
    for _ in range(3):
        held.release()
    wait_for(lambda: cluster.execute(done) == [(3,)] == cluster.execute(done, cluster.standby), "three settled")
    cluster.cut()
    for _ in range(3):
        held.release()
    wait_for(lambda: cluster.execute(done) == [(6,)], "three that the standby does not have")
    lost = server.new_client("Lost")
    heads = tmp_path / "data" / "audit-heads"
    [[head]] = cluster.execute("SELECT Sequence FROM AuditHead")
    wait_for(lambda: re.search(rf"^{head} ", heads.read_text(), re.M), "the head of the audit log in its file")
    cluster.primary.kill()
    cluster.standby.promote()
    wait_for(lambda: server.anonymous().get("/readyz").status == 200, "ready again")
    gate.set()
    for _ in range(20):
        held.release()
    wait_for(lambda: state(client, batch)["status"] in ENDS, "the end of the batch", timeout=120)
    found = state(client, batch)
    assert (found["status"], found["totalRecords"], found["processedRecords"]) == ("Completed", 50, 50)
    assert cluster.execute(done, cluster.standby) == [(10,)], "what was lost was settled again"
    counts = sends(gateway)["chunk"]
    assert len(counts) == 10 and max(counts.values()) <= 3
    wait_for(lambda: lost.get("/whoami").status == 401, "the client that was lost to be unknown")
    audit = server.cli("audit", "verify")
    assert audit.returncode == 1, audit.stdout
    assert server.cli("audit", "restored", "--reason", "asynchronous failover").returncode == 0
    audit = server.cli("audit", "verify")
    assert audit.returncode == 0, audit.stdout
    server.finish()
