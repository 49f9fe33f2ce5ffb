"""docs/outbox.md and docs/relay.md tried out: their SQL on every database, the Node, configurations, alerts."""

import re
import subprocess
import uuid
from urllib.parse import urlsplit

import pytest
from harness import ROOT, Server, npm, run, wait_for


def blocks_of(name):
    """(language, marks, text) of what stands between fences: ```sql postgres sqlite."""
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    return re.findall(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", page, re.M | re.S)


OUTBOX = blocks_of("outbox.md")
RELAY = blocks_of("relay.md")


def marked(blocks, language, mark):
    return [text for name, marks, text in blocks if name == language and mark in marks.split()]


# --- SQL ---------------------------------------------------------------------------------------------

PASSWORD = {"postgres": "change-me", "sqlserver": "Change-me-1"}
DROP_USER = {"postgres": "DROP OWNED BY {0}; DROP ROLE {0}",
             "sqlserver": "REVOKE ALL ON outbox_events FROM {0}\nGO\nDROP USER {0}\nGO\nDROP LOGIN {0}\nGO\n"}


def test_every_statement_of_the_guide_is_for_some_database():
    marks = [set(marks.split()) for name, marks, _ in OUTBOX if name == "sql"]
    assert marks and all(m and m <= {"postgres", "sqlserver", "sqlite"} for m in marks)


def as_user(url, user, password):
    parts = urlsplit(url)
    return parts._replace(netloc=f"{user}:{password}@{parts.hostname}:{parts.port}").geturl()


@pytest.fixture
def prepared(backend_name, make_backend):
    """A database in which all statements were run, and its URL for the relay's user."""
    backend = make_backend(empty=True)
    user = f"relay_{uuid.uuid4().hex[:12]}"  # users belong to the whole server
    texts = [text.replace("dataflow_relay", user) for text in marked(OUTBOX, "sql", backend_name)]
    # A new session with SQL Server takes a second.
    for text in ["GO\n".join(texts) + "GO\n"] if backend_name == "sqlserver" else texts:
        backend.script(text)
    yield backend, as_user(backend.url, user, PASSWORD[backend_name]) if backend_name in PASSWORD else backend.url
    if backend_name in DROP_USER:
        backend.script(DROP_USER[backend_name].format(user))


def test_the_statements_run_and_the_relay_finds_all_it_needs(prepared, tmp_path):
    backend, url = prepared
    sections = {"relay.orders": {"url": url, "order": "aggregate"}}
    relay = Server(backend, tmp_path, config=sections, command=("relay", "run", "orders"))
    told = run("relay", "status", "orders", "--config", relay.config)
    assert told.returncode == 0, told.stdout + told.stderr
    assert len(told.stdout.splitlines()) == 2, f"it complains\n{told.stdout}"
    relay.spawn()
    try:
        wait_for(lambda: backend.query("SELECT status FROM outbox_events")[0][0] == "PROCESSED", "the event is sent")
    finally:
        relay.finish()
    story = [(line["event"], line["correlationId"]) for line in relay.log() if line.get("eventType") == "OrderPlaced"]
    assert story == [("OutboxEvent", "checkout-8f2c"), ("OutboxEventProcessed", "checkout-8f2c")]


# --- PostgreSQL only ---------------------------------------------------------------------------------

SHIP = """
import assert from 'node:assert';
import pg from 'pg';
import { ship } from './outbox.mjs';
const pool = new pg.Pool({ connectionString: process.argv[2] });
try {
  await ship(pool, '4711', 'checkout-8f2c');
  await assert.rejects(ship(pool, 'nobody', 'x'), /no order nobody/);
} finally {
  await pool.end();
}
"""


@pytest.fixture
def with_table(make_backend):
    backend = make_backend(empty=True)
    backend.script(marked(OUTBOX, "sql", "postgres")[0])
    return backend


@pytest.mark.parametrize("backend_name", ["postgres"], scope="module")
def test_the_node_example_writes_both_or_neither(with_table):
    with_table.script("CREATE TABLE orders (id text PRIMARY KEY, state text);"
                      "INSERT INTO orders VALUES ('4711', 'NEW')")
    work = npm("pg", "pg@8.23.1", "uuid@11.1.1")
    example, = marked(OUTBOX, "js", "node")
    (work / "outbox.mjs").write_text(example, encoding="utf-8")
    (work / "ship.mjs").write_text(SHIP, encoding="utf-8")
    subprocess.run(["node", "ship.mjs", with_table.url], check=True, cwd=work, timeout=60)
    assert with_table.query("SELECT state FROM orders") == [("SHIPPED",)]
    assert with_table.query("SELECT event_type, payload, aggregate_type, aggregate_id, correlation_id, status"
                            " FROM outbox_events") == [
        ("OrderShipped", '{"orderId":"4711"}', "Order", "4711", "checkout-8f2c", "PENDING")]


@pytest.mark.parametrize("backend_name", ["postgres"], scope="module")
def test_the_trigger_is_what_the_page_shows(with_table, tmp_path):
    relay = Server(with_table, tmp_path,
                   config={"relay.orders": {"url": with_table.url, "notify_channel": "outbox_events"}})
    shown, = marked(RELAY, "sql", "trigger")
    assert run("relay", "install-trigger", "orders", "--config", relay.config).stdout == shown
    for _ in range(2):  # again changes nothing
        assert run("relay", "install-trigger", "orders", "--apply", "--config", relay.config).returncode == 0
    assert with_table.query("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal") == [("dataflow_notify_orders",)]


# --- the rest --------------------------------------------------------------------------------------


def test_the_configurations_are_taken(tmp_path):
    (tmp_path / "orders.secret").write_text("a secret that is long enough\n", encoding="utf-8")
    texts = [text for name, _, text in OUTBOX if name == "ini" and "[relay." in text]
    assert len(texts) == 2
    for text in texts:
        file = tmp_path / "dataflow.ini"
        file.write_text(text.replace("/etc/dataflow", str(tmp_path)), encoding="utf-8")
        told = run("check-config", "--config", file)
        assert told.returncode == 0, told.stderr


def test_the_alerts_are_rules_of_prometheus(tmp_path):
    rules, = marked(RELAY, "yaml", "alerts")
    (tmp_path / "rules.yml").write_text(rules, encoding="utf-8")
    subprocess.run(["promtool", "check", "rules", tmp_path / "rules.yml"], check=True, timeout=60,
                   stdout=subprocess.DEVNULL)
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").glob("re*/*.c"))
    known = set(re.findall(r'\.name = "(dataflow_\w+)"', source))
    assert set(re.findall(r"dataflow_\w+", rules)) <= known
