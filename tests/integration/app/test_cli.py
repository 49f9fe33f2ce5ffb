"""The command line beside a running server: clients, migrate, backup and restore."""

import contextlib
import json
import sqlite3
import threading
import time

import pytest
from harness import run, wait_for


def create(server, *args):
    result = server.cli("client", "create", "--json", *args)
    assert result.returncode == 0, result.stderr
    made = json.loads(result.stdout)
    server.remember(made)
    return made


def listed(server):
    result = server.cli("client", "list", "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    return {c["clientId"]: c for c in (found["items"] if isinstance(found, dict) else found)}


def test_a_client_made_on_the_command_line_can_call_at_once(server):
    made = create(server, "--name", "Linha de comando", "--scopes", "imports,events")
    client = server.client(made["clientId"], made["clientSecret"])
    me = client.get("/whoami")
    assert (me.status, me.json["name"], me.json["scopes"]) == (200, "Linha de comando", ["imports", "events"])


def test_create_for_people_shows_id_and_secret(server):
    result = server.cli("client", "create", "--name", "For people", "--id", "people-1")
    assert result.returncode == 0 and "people-1" in result.stdout
    secret = next(word for word in result.stdout.split() if word.startswith("dfs_"))
    server.secrets.add(secret)
    assert server.client("people-1", secret).get("/whoami").status == 200


@pytest.mark.parametrize("args,code", [
    (["--name", ""], 2), (["--name", "x", "--id", "no good"], 2), (["--name", "x", "--scopes", "nope"], 2), (["--name", "x" * 121], 2),
    ([], 2),
])
def test_create_refuses_bad_values(server, args, code):
    before = len(listed(server))
    result = server.cli("client", "create", *args)
    assert result.returncode == code and result.stderr.strip() and not result.stdout
    assert len(listed(server)) == before


def test_a_taken_id_fails(server):
    create(server, "--name", "One", "--id", "one")
    result = server.cli("client", "create", "--name", "Two", "--id", "one")
    assert result.returncode == 1 and "one" in result.stderr


def test_unknown_clients_fail(server):
    for command in ("suspend", "activate", "rotate-secret"):
        result = server.cli("client", command, "nobody")
        assert result.returncode == 1 and "nobody" in result.stderr


def test_list_shows_what_the_api_shows(server):
    made = create(server, "--name", "Listed 🚚")
    client = listed(server)[made["clientId"]]
    assert client == server.admin().get(f"/admin/clients/{made['clientId']}").json
    people = server.cli("client", "list")
    assert people.returncode == 0 and made["clientId"] in people.stdout and "Listed 🚚" in people.stdout
    assert made["clientSecret"] not in people.stdout


def test_suspension_reaches_the_running_server_within_seconds(server):
    client = server.new_client()
    assert client.get("/whoami").status == 200
    assert server.cli("client", "suspend", client.id).returncode == 0
    wait_for(lambda: client.get("/whoami").status == 403, "suspended", timeout=20)
    assert server.cli("client", "activate", client.id).returncode == 0
    wait_for(lambda: client.get("/whoami").status == 200, "active", timeout=20)


def test_rotation_reaches_the_running_server_within_seconds(server):
    old = server.new_client()
    assert old.get("/whoami").status == 200
    result = server.cli("client", "rotate-secret", old.id, "--json")
    assert result.returncode == 0, result.stderr
    made = json.loads(result.stdout)
    server.remember(made)
    assert server.client(old.id, made["clientSecret"]).get("/whoami").status == 200
    wait_for(lambda: old.get("/whoami").status == 401, "the old secret refused", timeout=20)


def test_the_command_line_leaves_audit_rows_too(server):
    made = create(server, "--name", "Audited")
    server.cli("client", "suspend", made["clientId"])
    rows = [r for r in server.admin().get("/admin/audit?pageSize=200").json["items"] if r["target"] == made["clientId"]]
    assert len(rows) == 2 and all(r["actor"] != "admin" for r in rows)


# --- migrate -----------------------------------------------------------------------------------------


def test_migrate_twice_does_nothing_the_second_time(make_server):
    server = make_server(start=False, empty=True)
    first = server.cli("migrate")
    assert first.returncode == 0, first.stderr
    scripts = server.backend.query("SELECT * FROM SchemaScripts ORDER BY 1")
    assert len(scripts) >= 6
    second = server.cli("migrate")
    assert second.returncode == 0, second.stderr
    assert server.backend.query("SELECT * FROM SchemaScripts ORDER BY 1") == scripts
    server.start()
    assert server.anonymous().get("/readyz").status == 200


def test_printed_schema_can_be_applied_by_hand(make_server, backend_name):
    server = make_server(start=False, empty=True)
    printed = server.cli("migrate", "--print")
    assert printed.returncode == 0 and "CREATE TABLE" in printed.stdout
    if backend_name == "sqlite":
        assert not server.backend.file.exists(), "printing touches no database"
    # SQLite has no ADD COLUMN IF NOT EXISTS: by hand, once.
    for _ in range(1 if backend_name == "sqlite" else 2):
        server.backend.script(printed.stdout)
    server.start()
    assert server.anonymous().get("/readyz").status == 200
    server.new_client()


def test_without_migration_an_empty_database_is_waited_for(make_server):
    """There are no keys before there is a schema. The address answers meanwhile, and stays the same."""
    server = make_server(start=False, empty=True, config={"database": {"migrate": "off"}})
    server.spawn().waiting()
    told = wait_for(lambda: server.log("SchemaMissing"), "the server to tell")[0]
    assert "dataflow migrate" in told["message"]
    caller, address = server.anonymous(), server.host_port
    assert caller.get("/healthz").json["status"] == "ok" and caller.get("/metrics").status == 200
    ready = caller.get("/readyz")
    assert ready.status == 503 and ready.json["code"] == "NotReady" and ready.headers["Retry-After"] == "1"
    assert ready.json["detail"] == "The database's schema is not current."
    assert ready.json["checks"] == [{"name": "schema", "status": "failed", "detail": ready.json["detail"]}]
    for answer in (caller.get("/"), caller.get("/v1/admin/clients"), caller.post("/api/tickets", {"a": 1}),
                   server.admin().request("DELETE", "/admin/clients/x"), caller.get("/nowhere/at/all")):
        assert answer.status == 503 and answer.json["code"] == "NotReady" and answer.headers["Retry-After"] == "1"
    assert server.cli("migrate").returncode == 0
    deadline = time.monotonic() + 60
    while caller.get("/readyz").status != 200:  # no connection is refused on the way: that would raise
        assert time.monotonic() < deadline, server.log_text()
    assert server.started().host_port == address
    server.new_client()
    server.stop()

    # Who applies the scripts commits after each: a server that starts in between waits for the last one.
    server.backend.script("DELETE FROM SchemaScripts WHERE Name = (SELECT MAX(Name) FROM SchemaScripts)")
    server.spawn().waiting()
    assert server.anonymous().get("/readyz").json["detail"] == "The database's schema is not current."
    assert server.cli("migrate").returncode == 0
    server.started().new_client()
    server.stop()

    empty = make_server(start=False, empty=True, config={"database": {"migrate": "off"}})
    empty.spawn().waiting()
    assert empty.anonymous().get("/readyz").status == 503
    assert empty.stop() == 0, "SIGTERM ends the wait"


# --- backup and restore ------------------------------------------------------------------------------


def test_the_servers_have_their_own_backup_tools(make_server, tmp_path, backend_name):
    server = make_server()
    for command in ("backup", "restore"):
        result = server.cli(command, tmp_path / "copy.db")
        if backend_name == "sqlite":
            assert result.returncode == 0, result.stderr
        else:
            tool = {"postgres": "pg_dump", "sqlserver": "BACKUP DATABASE"}[backend_name]
            assert result.returncode == 2 and tool in result.stderr, result.stderr


def test_backup_while_clients_are_written_is_consistent(make_sqlite_server, tmp_path):
    server = make_sqlite_server()
    before = [server.new_client(f"Before {i}").id for i in range(5)]
    stop, during = threading.Event(), []

    def write():
        while not stop.is_set():
            during.append(server.new_client("During").id)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        copies = []
        for i in range(5):
            copy = tmp_path / f"copy-{i}.db"
            result = server.cli("backup", copy)
            assert result.returncode == 0, result.stderr
            copies.append(copy)
    finally:
        stop.set()
        thread.join()
    assert during, "writes went on meanwhile"
    sizes = []
    for copy in copies:
        rows = {r[0] for r in sqlite_rows(copy, "SELECT ClientIdentifier FROM Clients")}
        assert set(before) <= rows <= set(before) | set(during)
        assert sqlite_rows(copy, "PRAGMA integrity_check") == [("ok",)]
        sizes.append(len(rows))
    assert sizes == sorted(sizes)
    # The last copy serves as a database of its own.
    restored = make_sqlite_server(start=False, empty=True)
    assert restored.cli("restore", copies[-1]).returncode == 0
    restored.start()
    assert restored.admin().get("/admin/clients").json["total"] == sizes[-1]


def sqlite_rows(file, sql):
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def test_restore_replaces_what_is_there(make_sqlite_server, tmp_path):
    server = make_sqlite_server()
    kept = server.new_client("Kept")
    assert server.cli("backup", tmp_path / "copy.db").returncode == 0
    lost = server.new_client("Lost")
    assert server.stop() == 0
    result = server.cli("restore", tmp_path / "copy.db")
    assert result.returncode == 0, result.stderr
    server.start()
    assert kept.get("/whoami").status == 200
    assert lost.get("/whoami").status == 401


@pytest.mark.parametrize("content", [b"", b"this is no database" * 100, None, "other", "cut"],
                         ids=["no bytes", "no database", "no file", "another database", "cut off"])
def test_restore_of_something_else_changes_nothing(make_sqlite_server, tmp_path, content):
    server = make_sqlite_server()
    client = server.new_client()
    bad = tmp_path / "bad.db"
    if content == "other":
        with sqlite3.connect(bad) as connection:
            connection.execute("CREATE TABLE other (x)")
    elif content == "cut":
        assert server.cli("backup", bad).returncode == 0
        bad.write_bytes(bad.read_bytes()[:20000])
    elif content is not None:
        bad.write_bytes(content)
    result = server.cli("restore", bad)
    assert result.returncode in (1, 2) and result.stderr.strip()
    server.restart()
    assert client.get("/whoami").status == 200


def test_backup_to_a_place_that_does_not_exist_fails(make_sqlite_server, tmp_path):
    server = make_sqlite_server()
    result = server.cli("backup", tmp_path / "no" / "such" / "place.db")
    assert result.returncode == 1 and result.stderr.strip()
    assert not (tmp_path / "no").exists()


def test_commands_make_no_database_by_accident(tmp_path):
    for args in (["client", "list"], ["backup", tmp_path / "x.db"]):
        result = run(*args, "--set", f"database.url=sqlite:{tmp_path}/typo/dataflow.db", cwd=tmp_path)
        assert result.returncode in (1, 2) and result.stderr.strip()
    assert not (tmp_path / "typo").exists()


def test_two_servers_on_one_database_agree(make_server, make_backend):
    backend = make_backend()
    one, two = make_server(backend=backend), make_server(backend=backend)
    client = one.new_client()
    other = two.client(client.id, client.secret)
    assert other.get("/whoami").status == 200
    one.admin().patch(f"/admin/clients/{client.id}", {"status": "Suspended"})
    assert client.get("/whoami").status == 403
    wait_for(lambda: other.get("/whoami").status == 403, "suspended on the other replica", timeout=20)
