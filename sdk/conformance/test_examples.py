"""What a reader copies: the code of sdk/node/README.md as printed, and the examples."""

import json
import os
import re
import socket
import subprocess
import time

import openpyxl
import pg
import pytest
import rabbit
from harness import BIN, ROOT, Backend, Server, postgres_execute, wait_for
from test_sandbox import Sandbox

EXAMPLES = ROOT / "examples"


def blocks():
    page = (ROOT / "sdk/node/README.md").read_text(encoding="utf-8")
    return {mark: text for mark, text in re.findall(r"^```js (\w+)\n(.*?)^```$", page, re.M | re.S)}


@pytest.fixture
def project(tmp_path):
    """A directory in which the package is installed."""
    (tmp_path / "node_modules/@dataflow").mkdir(parents=True)
    (tmp_path / "node_modules/@dataflow/sdk").symlink_to(ROOT / "sdk/node")
    return tmp_path


@pytest.fixture
def server(tmp_path):
    sandbox = Sandbox(tmp_path)
    url = "http://{}:{}".format(*sandbox.host_port)
    server = Server(Backend("sqlite", tmp_path / "database"), tmp_path / "server", config={
        "omniflow": {"url": url, "api_key": "k"}, "imports": {"poll_ms": 50}, "delivery": {"allow_private_targets": "on"}}).start()
    yield server
    server.finish()
    sandbox.finish()


def node(project, *args, env=None, timeout=60):
    return subprocess.run(["node", *map(str, args)], cwd=project, env=os.environ | (env or {}), capture_output=True, text=True, timeout=timeout, check=False)


def access(server, scopes=("imports",)):
    caller = server.new_client(scopes=list(scopes))
    return caller, {"DATAFLOW_URL": server.url, "DATAFLOW_CLIENT_ID": caller.id, "DATAFLOW_CLIENT_SECRET": caller.secret}


def test_the_quick_start_runs_as_printed(project, server):
    (project / "quickstart.mjs").write_text(blocks()["quickstart"], encoding="utf-8")
    (project / "leads.csv").write_text("phone,name\n+5511988887777,Ana\n123,Without\n", encoding="utf-8")
    _, env = access(server)
    done = node(project, "quickstart.mjs", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    first, outcome, record = done.stdout.splitlines()
    assert first == "42 of 42 bytes"
    assert outcome == "CompletedWithErrors: 1 imported, 1 failed"
    assert record.startswith("record 1: ")
    denied = node(project, "quickstart.mjs", env=env | {"DATAFLOW_CLIENT_SECRET": "wrong"})
    assert denied.returncode == 1
    assert denied.stderr.startswith("401 ")


def test_the_receiver_of_webhooks_runs_as_printed(project, server):
    (project / "receiver.mjs").write_text(blocks()["webhooks"], encoding="utf-8")
    caller, _ = access(server)
    port = pg.free_port()
    made = caller.post(f"/clients/{caller.id}/webhooks", {"url": f"http://127.0.0.1:{port}/"}).json
    errors = project / "errors"
    told = lambda: errors.read_text(encoding="utf-8").splitlines()  # noqa: E731
    with errors.open("w") as log, subprocess.Popen(["node", "receiver.mjs"], cwd=project, env=os.environ | {"PORT": str(port), "WEBHOOK_SECRETS": f"another-secret {made['secret']}"},
                          stdout=subprocess.PIPE, stderr=log, text=True) as receiver:
        try:
            wait_for(lambda: subprocess.run(["curl", "-s", "-o", "/dev/null", f"http://127.0.0.1:{port}/"], check=False, timeout=20).returncode == 0, "the receiver")
            assert caller.post(f"/clients/{caller.id}/webhooks/{made['id']}/test").status == 202
            assert receiver.stdout.readline() == "Test \n"
            forged = subprocess.run(["curl", "-s", "-w", "%{http_code}", "-d", "{}", f"http://127.0.0.1:{port}/"], capture_output=True, check=False, timeout=20)
            assert forged.stdout == b"401"
            long = subprocess.run(["curl", "-s", "-w", "%{http_code}", "-H", "Expect:", "--data-binary", "@-", f"http://127.0.0.1:{port}/"],
                                  input=bytes((1 << 20) + 1), capture_output=True, check=False, timeout=20)
            assert long.stdout == b"400"
            break_off(port)
            wait_for(lambda: told()[-1:] == ["aborted"], "the end of the request")
            assert told()[-3:-1] == ["there is no signature", "the body is too long"]
            assert caller.post(f"/clients/{caller.id}/webhooks/{made['id']}/test").status == 202
            assert receiver.stdout.readline() == "Test \n", "it goes on"
        finally:
            receiver.terminate()


def break_off(port):
    """A client that leaves in the middle of its body."""
    with socket.create_connection(("127.0.0.1", port), 20) as s:
        s.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        time.sleep(0.2)  # it is being read


def test_the_tests_of_a_user_run_as_printed(project):
    (project / "user.test.mjs").write_text(blocks()["testing"], encoding="utf-8")
    done = node(project, "--test", "user.test.mjs")
    assert done.returncode == 0, done.stdout
    assert re.search(r"^# pass 2$", done.stdout, re.M), done.stdout


def test_a_workbook_is_imported_and_followed(project, server):
    book = openpyxl.Workbook()
    for row in (["Telefone", "Nome"], ["+55 11 98888-7777", "Ana"], ["123", "Without"], ["+55 11 98888-6666", "Rui"]):
        book.active.append(row)
    book.save(project / "leads.xlsx")
    (project / "import-workbook.mjs").write_text((EXAMPLES / "import-workbook.mjs").read_text(encoding="utf-8"), encoding="utf-8")
    _, env = access(server)
    done = node(project, "import-workbook.mjs", "leads.xlsx", env=env)
    assert (done.returncode, done.stderr) == (1, "PhoneNumber: too few digits\n")
    assert "sent 100 %" in done.stdout
    assert "CompletedWithErrors: 2 imported, 1 failed, 0 skipped" in done.stdout
    assert "record 2: " in done.stdout
    rows = list(openpyxl.load_workbook(project / "leads.errors.xlsx").active.iter_rows(values_only=True))
    assert rows[1][:2] == ("123", "Without")

    assert node(project, "import-workbook.mjs").returncode == 2
    missing = node(project, "import-workbook.mjs", "none.xlsx", env=env)
    assert (missing.returncode, missing.stderr.startswith("ENOENT")) == (2, True)
    refused = node(project, "import-workbook.mjs", "leads.xlsx", env=env | {"DATAFLOW_CLIENT_SECRET": "wrong"})
    assert refused.returncode == 2
    assert "correlation" in refused.stderr


def test_an_outbox_is_relayed_to_rabbitmq(tmp_path):
    broker = rabbit.Rabbit().begin()
    backend = Backend("postgres", tmp_path / "database")
    shop = lambda *args: subprocess.run(["/usr/bin/python3", EXAMPLES / "outbox/shop.py", *args], capture_output=True, text=True, timeout=60,  # noqa: E731
                                        env=os.environ | {"SHOP_DATABASE": backend.url}, check=False)
    relay = None
    try:
        for _ in range(2):  # nothing is lost by a second time
            assert (done := shop("setup")).returncode == 0, done.stderr
        orders = [shop("order", "coffee", str(n)).stdout.strip() for n in (1, 2)]
        assert shop("order", "tea", "0").returncode != 0, "an order that is not taken"
        broker.wait()
        queue = ["--url", broker.url(), "-q", "orders"]
        subprocess.run(["amqp-declare-queue", *queue, "-d"], check=True, capture_output=True, timeout=60)
        relay = subprocess.Popen([BIN, "relay", "run", "orders", "--config", EXAMPLES / "outbox/relay.ini"], cwd=tmp_path, stderr=subprocess.DEVNULL,
                                 env=os.environ | {"DATAFLOW_RELAY_ORDERS_URL": backend.url, "DATAFLOW_RELAY_ORDERS_TARGET": broker.url()})
        wait_for(lambda: shop("events").stdout.count("PROCESSED") == 2, "both events")
        assert shop("cancel", orders[0]).returncode == 0
        assert shop("cancel", orders[0]).returncode != 0
        wait_for(lambda: shop("events").stdout.count("PROCESSED") == 3, "the third event")
        bodies = [json.loads(subprocess.run(["amqp-get", *queue], capture_output=True, timeout=60, check=True).stdout) for _ in range(3)]
        assert bodies == [{"order": orders[0], "article": "coffee", "count": 1}, {"order": orders[1], "article": "coffee", "count": 2},
                          {"order": orders[0]}]
        assert postgres_execute("SELECT count(*) FROM outbox_events", backend.url) == [(3,)]
    finally:
        if relay:
            relay.terminate()
            assert relay.wait(30) == 0
        broker.close()
        backend.drop()


@pytest.mark.parametrize("path", [p for p in EXAMPLES.rglob("*") if p.suffix in (".mjs", ".py", ".cs", ".ini")], ids=lambda p: p.name)
def test_an_example_is_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80
