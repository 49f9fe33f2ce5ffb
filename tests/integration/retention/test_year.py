"""A year of traffic by a clock that is moved: rows, file and the cost of a claim stay as they are, and space comes back.

The small form is a dozen months with two days of traffic each; `make soak` has every day of the year, with more documents."""

import os
import re
import sqlite3
import sys
import uuid
from pathlib import Path

import pytest
from harness import FakeClock, Http, wait_for
from test_imports_receive import execute, multipart
from test_interface_tickets import flat
from test_sandbox import Sandbox

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import embed_sql  # noqa: E402

SOAK = bool(os.environ.get("DATAFLOW_SOAK"))
STEP_DAYS = 1 if SOAK else 15
DOCUMENTS = 40 if SOAK else 6
RECORDS = 2000 if SOAK else 600
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KINDS = ("batches", "events", "deliveries", "attempts", "tickets", "acks", "counterparties", "integrations", "alerts")
# What grows with the number of clients, processes or runs, and has no document in it.
FIXED = {"SchemaScripts", "Clients", "ClientPolicies", "WorkShards", "WorkOwners", "MaintenanceRuns", "AlertEvaluation", "BatchLocks",
         "ImportTurn", "WebhookSubscriptions", "ClientUsage", "DeliveryTargets", "SubjectFill", "NamedLocks", "LockProviders",
         "LockInstallation"}
# The audit log is kept for five years; a chain of keys or stubs has a row a rotation.
KEPT = {"AuditLog", "AuditHead", "AuditStubs", "DataKeys", "PurgeJobs", "Erasures"}
# Figures of 90 days, whatever the documents do.
FIGURES = {"SeriesPoints", "SeriesMarks"}
# Follows its documents by a job of its own.
LATER = "subjectindex"


@pytest.fixture
def sandbox(tmp_path):
    # It verifies no webhooks: its time is the real one.
    box = Sandbox(tmp_path, "--no-record")
    yield Http(box)
    box.finish()


def configuration(url):
    return {
        "omniflow": {"url": url, "api_key": "k"},
        "imports": {"poll_ms": 20},
        "gateway": {"functional_ack_url": url + "/gateway/functional-ack", "ticket_return_url": url + "/gateway/ticket-return",
                    "ticket_send_url": url + "/gateway/ticket", "api_key": "k"},
        "delivery": {"allow_private_targets": "on"},
        "retention": dict.fromkeys(KINDS, "30"),
        "log": {"level": "info"},
    }


def tables(backend):
    if backend.name == "sqlite":
        found = backend.query("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    elif backend.name == "sqlserver":
        found = backend.query("SELECT name FROM sys.tables")
    else:
        found = backend.query("SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()")
    return sorted(row[0] for row in found)


def rows(backend):
    """Of every table that grows with the traffic."""
    fixed = {name.lower() for name in FIXED | KEPT | FIGURES}
    return {name.lower(): backend.query(f"SELECT COUNT(*) FROM {name}")[0][0] for name in tables(backend) if name.lower() not in fixed}


def size(backend):
    """Bytes of what is stored, without the audit log; SQL Server has its own ways."""
    if backend.name == "sqlserver":
        return 0
    if backend.name == "sqlite":
        path = Path(backend.url.removeprefix("sqlite:"))
        return sum(p.stat().st_size for p in (path, path.with_name(path.name + "-wal")) if p.exists())
    return sum(backend.query(f"SELECT pg_total_relation_size('{name}')")[0][0] for name in rows(backend))


def claim_text(dialect):
    for block in embed_sql.parse_file(str(ROOT / "src/interface/channels.sql")):
        if block.name == "ack_claim":
            text, params = block.by_dialect()[dialect], block.texts[0].params()
            return embed_sql.render(text, dialect, params)[0], params
    raise AssertionError("there is no ack_claim")


def claim_cost(backend, now):
    """What a claim reads: steps of SQLite's machine, or blocks of PostgreSQL."""
    if backend.name == "sqlserver":
        return 0
    sql, params = claim_text(backend.name)
    values = {"now": now, "after": "1970-01-01T00:00:00.000Z", "after_id": 0, "shards": 0xFFFF, "limit": 500}
    if backend.name == "sqlite":
        steps = [0]

        def step():
            steps[0] += 1

        with sqlite3.connect(backend.url.removeprefix("sqlite:")) as db:
            db.set_progress_handler(step, 1)
            db.execute(sql, [values[p] for p in params]).fetchall()
        return steps[0]
    for number, name in reversed(list(enumerate(params, 1))):
        value = values[name]
        sql = sql.replace(f"${number}", str(value) if isinstance(value, int) else f"'{value}'")
    # The sums of the plan's first line; each step's own lines follow.
    plan = "\n".join(row[0] for row in backend.query("EXPLAIN (ANALYZE, BUFFERS) " + sql))
    found = re.search(r"Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?", plan)
    return sum(int(n or 0) for n in found.groups()) if found else 0


class Year:
    def __init__(self, server, sandbox, clock):
        self.server, self.clock, self.backend = server, clock, server.backend
        self.client = server.new_client("A year")
        url = "http://{}:{}/webhooks/year".format(*sandbox.server.host_port)
        execute(server, "INSERT INTO WebhookSubscriptions (Id, ClientId, Url, Secret, Events)"
                        f" SELECT '{uuid.uuid4()}', Id, '{url}', '{SECRET}', 'BatchCompleted,TicketProcessed' FROM Clients"
                        f" WHERE ClientIdentifier = '{self.client.id}'")
        self.moved = 1.0
        wait_for(self.ran, "the run at the start")

    def one(self, sql):
        return self.backend.query(sql)[0][0]

    def settled(self):
        """Nothing is on its way any more."""
        waiting = "SELECT COUNT(*) FROM {} WHERE NextAttemptAt IS NOT NULL"
        return (self.one("SELECT COUNT(*) FROM ImportBatch WHERE Status < 3") == 0
                and self.one("SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE NextAttemptAt IS NOT NULL"
                             " OR GatewaySendNextAttemptAt IS NOT NULL") == 0
                and all(self.one(waiting.format(t)) == 0 for t in ("TB_FUNCTIONAL_ACK_OUTBOX", "TB_TICKET_RETURN_OUTBOX",
                                                                   "WebhookDeliveries", "AlertDeliveries"))
                and self.one("SELECT COUNT(*) FROM outbox_events WHERE status = 'PENDING'") == 0)

    def day(self):
        name = uuid.uuid4().hex[:12]
        leads = "name,phone\n" + "".join(f"Lead {i},+55119{i:08}\n" for i in range(RECORDS))
        body, kind = multipart(leads.encode(), f"{name}.csv", None)
        assert self.client.request("POST", "/imports", body, {"Content-Type": kind}).status == 202
        for i in range(DOCUMENTS):
            assert self.client.post("/api/tickets", flat(f"{name}-{i}")).status in (200, 201, 202)
            assert self.client.post("/events", {"eventType": "DayPassed", "payload": {"n": i}}).status in (200, 201, 202)
        execute(self.server, "INSERT INTO Alerts (Id, RuleName, Subject, DedupKey, Severity, Summary, DetailsJson, Status, FiredAt,"
                f" ResolvedAt) VALUES ('{uuid.uuid4()}', 'Test', 's', '{name}', 'info', 'x', '{{}}', 'resolved',"
                f" '{self.now()}', '{self.now()}')")
        wait_for(self.settled, "everything is delivered")

    def now(self):
        return self.clock.now().strftime("%Y-%m-%dT%H:%M:%S.000Z")

    def ran(self):
        text = self.server.admin().get("/metrics").body.decode()
        found = re.search(r"(?m)^dataflow_retention_last_run_timestamp_seconds (\S+)", text)
        return found and float(found[1]) >= max(self.moved - 1, 1)

    def pass_days(self, days):
        self.clock.advance(days=days)
        self.moved = self.clock.now().timestamp()
        wait_for(self.ran, "retention ran", timeout=60)

    def look(self):
        if self.backend.name == "postgres":
            execute(self.server, "VACUUM")  # what autovacuum does for larger tables
        return rows(self.backend), size(self.backend), claim_cost(self.backend, self.now()), self.one("SELECT COUNT(*) FROM SeriesPoints")


def test_a_year_of_traffic_leaves_no_more_than_a_month_of_it(make_server, sandbox, tmp_path):
    clock = FakeClock(tmp_path)
    url = "http://{}:{}".format(*sandbox.server.host_port)
    year = Year(make_server(config=configuration(url), clock=clock), sandbox, clock)
    looks, empty = {}, size(year.backend)
    for day in range(STEP_DAYS, 361, STEP_DAYS):
        year.day()
        year.pass_days(STEP_DAYS)
        if day % 30 == 0:
            looks[day // 30] = year.look()
    third, last = looks[3], looks[12]
    assert min(third[0][t] for t in ("importitem", "importbatch", "tb_ticket_interface", "outbox_events", "alerts",
                                     "tb_functional_ack_outbox", "webhookdeliveries")) > 0, third[0]
    assert {t: n for t, n in last[0].items() if t != LATER} == {t: n for t, n in third[0].items() if t != LATER}, "rows"
    assert last[0].get(LATER, 0) <= 2 * third[0].get(LATER, 0)
    assert last[1] <= third[1] * 1.25, "bytes"
    assert last[2] <= third[2] * 1.25 + 2, "what a claim reads"
    assert 0 < last[3] <= third[3] * 1.5 + 100, "figures"
    # Without traffic all of it goes, and so does its space.
    year.pass_days(45)
    wait_for(lambda: not any(rows(year.backend).values()), "no document is left")
    nothing = year.look()
    if year.backend.name == "sqlite":
        assert nothing[1] - empty < (last[1] - empty) * 0.5, "space comes back"
        assert year.one("SELECT freelist_count FROM pragma_freelist_count") == 0
    batches = year.server.directory / "data" / "imports"
    assert not [p for p in batches.iterdir() if p.is_dir()]
    ran = [e for e in year.server.admin().get("/admin/audit?pageSize=200").json["items"] if e["action"] == "RetentionRan"]
    assert ran and "batches" in str(ran[0])
