"""SQL Server: its URLs, TLS, the schema over what the sources' own scripts have made, lost connections."""

from urllib.parse import urlsplit

import pytest
from harness import ROOT, Relay, run, wait_for

SECRET = "a-password-that-nobody-may-see"
SOURCE_SCHEMA = (ROOT / "tests/sqlserver/source_schema.sql").read_text(encoding="utf-8")

on_sqlserver = pytest.mark.parametrize("backend_name", ["sqlserver"], indirect=True)


def run_on(url, directory, *args):
    return run(*args, "--set", f"database.url={url}", "--set", f"server.data_dir={directory}",
               "--set", "server.listen=127.0.0.1:0")


# --- URLs: no server is needed -----------------------------------------------------------------------


@pytest.mark.parametrize("rest,word", [
    ("db.example/app", "user is missing"),
    (f":{SECRET}@db.example/app", "user is missing"),
    (f"sa:{SECRET}@db.example", "database is missing"),
    (f"sa:{SECRET}@db.example/", "database is missing"),
    (f"sa:{SECRET}@/app", "host is missing"),
    (f"sa:{SECRET}@:1433/app", "host is missing"),
    (f"sa:{SECRET}@db.example:0/app", "port"),
    (f"sa:{SECRET}@db.example:65536/app", "port"),
    (f"sa:{SECRET}@db.example:sql/app", "port"),
    (f"sa:{SECRET}@db.example\\SQLEXPRESS/app", "give the port the instance listens on"),
    (f"sa:{SECRET}@db.example/app?instance=SQLEXPRESS", "give the port the instance listens on"),
    (f"sa:{SECRET}@db.example/app?trusted_connection=yes", "integrated authentication"),
    (f"sa:{SECRET}@db.example/app?Integrated_Security=SSPI", "integrated authentication"),
    (f"sa:{SECRET}@db.example/app?failover_partner=other:0", "port"),
    (f"sa:{SECRET}@db.example/app?failover_partner=other&multi_subnet_failover=on", "one of them"),
    (f"sa:{SECRET}@db.example/app?password={SECRET}", "unknown option"),
    (f"sa:{SECRET}@db.example/app?encrypt", "option"),
    (f"sa:{SECRET}@db.example/app?encrypt=perhaps", "encrypt is on or off"),
    (f"sa:{SECRET}@db.example/app?encrypt=on&encrypt=off", "twice"),
    (f"sa:{SECRET}%zz@db.example/app", "percent-encoded"),
    (f"sa:{SECRET}%00@db.example/app", "percent-encoded"),
    (f"sa:{SECRET};}}@db.example/app", "cannot be said"),
])
def test_a_url_that_cannot_work_is_refused_in_words(tmp_path, rest, word):
    for command in ("check-config", "migrate", "serve"):
        result = run_on(f"sqlserver://{rest}", tmp_path, command)
        assert result.returncode == 2 and word in result.stderr, result.stderr
        assert SECRET not in result.stdout + result.stderr


def test_a_server_that_is_not_there_is_named_and_the_password_is_not(tmp_path):
    url = f"sqlserver://sa:{SECRET}@127.0.0.1:1/app"
    shown = run_on(url, tmp_path, "check-config")
    assert shown.returncode == 0 and "127.0.0.1:1/app" in shown.stdout
    failed = run_on(url, tmp_path, "serve")
    assert failed.returncode == 1 and "127.0.0.1:1/app" in failed.stderr, failed.stderr
    assert SECRET not in shown.stdout + shown.stderr + failed.stdout + failed.stderr


# --- connecting --------------------------------------------------------------------------------------


def with_option(url, option):
    parts = urlsplit(url)
    others = [o for o in parts.query.split("&") if o and not o.startswith("encrypt")]
    return parts._replace(query="&".join(others + [option] * bool(option))).geturl()


@on_sqlserver
@pytest.mark.parametrize("option,clear", [("", False), ("encrypt=on", False), ("encrypt=off", True)])
def test_the_connection_is_encrypted_unless_the_url_says_otherwise(make_backend, tmp_path, option, clear):
    backend = make_backend()
    with Relay(with_option(backend.url, option)) as relay:
        result = run_on(relay.url, tmp_path, "client", "list")
    assert result.returncode == 0, result.stderr
    assert ("FROM Clients".encode("utf-16-le") in relay.sent) == clear


@on_sqlserver
def test_a_refused_login_is_told_and_its_password_is_not(make_backend, tmp_path):
    # Not a wrong password: a Babelfish may be set to trust everybody it knows.
    parts = urlsplit(make_backend().url)
    url = parts._replace(netloc=f"dataflow_nobody:{SECRET}@{parts.hostname}:{parts.port}").geturl()
    result = run_on(url, tmp_path, "migrate")
    assert result.returncode == 1, result
    assert parts.hostname in result.stderr and "dataflow_nobody" in result.stderr, result.stderr
    assert SECRET not in result.stderr


@on_sqlserver
def test_a_lost_connection_means_503_and_then_recovery(make_server, make_backend):
    backend = make_backend()
    with Relay(backend.url) as relay:
        server = make_server(backend=backend, config={"database": {"url": relay.url}})
        client = server.new_client()
        assert client.get("/whoami").status == 200
        relay.cut()
        ready = wait_for(lambda: (r := server.anonymous().get("/readyz")).status == 503 and r, "503")
        database = next(c for c in ready.json["checks"] if c["name"] == "database")
        assert database["status"] == "failed" and database["detail"] and database["backend"] == "sqlserver"
        assert server.anonymous().get("/healthz").status == 200
        refused = server.admin().post("/admin/clients", {"name": "meanwhile"})
        assert (refused.status, refused.code) == (503, "DatabaseUnavailable")
        relay.start()
        wait_for(lambda: server.anonymous().get("/readyz").status == 200, "ready again", timeout=60)
        assert client.get("/whoami").status == 200
        assert server.admin().get("/admin/clients").json["total"] == 1
        assert server.stop() == 0


# --- the schema --------------------------------------------------------------------------------------

CATALOGUE = {
    "columns": """SELECT TABLE_NAME, ORDINAL_POSITION, COLUMN_NAME, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH,
                         NUMERIC_PRECISION, DATETIME_PRECISION, IS_NULLABLE, COLUMN_DEFAULT
                  FROM INFORMATION_SCHEMA.COLUMNS""",
    "identities": "SELECT OBJECT_NAME(object_id), name FROM sys.columns WHERE is_identity = 1",
    # Not by their names, which Babelfish makes up; nor whether a unique key is a constraint or an index.
    "indexes": """SELECT t.name, i.is_primary_key, i.is_unique, c.name, k.key_ordinal, i.has_filter, i.filter_definition
                  FROM sys.tables AS t INNER JOIN sys.indexes AS i ON i.object_id = t.object_id
                  INNER JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id
                  INNER JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id""",
    "foreign keys": """SELECT OBJECT_NAME(f.parent_object_id), COL_NAME(k.parent_object_id, k.parent_column_id),
                              OBJECT_NAME(f.referenced_object_id),
                              COL_NAME(k.referenced_object_id, k.referenced_column_id), f.delete_referential_action_desc
                       FROM sys.foreign_keys AS f
                       INNER JOIN sys.foreign_key_columns AS k ON k.constraint_object_id = f.object_id""",
    "checks": "SELECT OBJECT_NAME(parent_object_id), name, definition FROM sys.check_constraints",
    "triggers": "SELECT OBJECT_NAME(parent_id), name, is_instead_of_trigger FROM sys.triggers",
}


def schema_of(backend):
    found = {name: sorted(map(repr, backend.query(sql))) for name, sql in CATALOGUE.items()}
    assert all(found.values()), "each kind is there"
    return found


def rows_of(backend, columns=None):
    """{table: ([column], [row])}, of all columns or of those given for each table."""
    if columns is None:
        columns = {}
        for table, column in backend.query(
                "SELECT c.TABLE_NAME, c.COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS AS c"
                " INNER JOIN INFORMATION_SCHEMA.TABLES AS t ON t.TABLE_NAME = c.TABLE_NAME"
                " WHERE t.TABLE_TYPE = 'BASE TABLE' ORDER BY c.ORDINAL_POSITION"):
            columns.setdefault(table, []).append(column)
    return {table: (names, sorted(map(repr, backend.query(f"SELECT {', '.join(names)} FROM {table}"))))
            for table, names in columns.items()}


@on_sqlserver
def test_every_way_to_the_schema_ends_in_the_same(make_server):
    fresh, old, by_hand = (make_server(start=False, config={"database": {"migrate": "off"}}) for _ in range(3))
    scripts = sorted((ROOT / "scripts/sqlserver").glob("*.sql"))
    assert fresh.cli("migrate").stdout == f"{len(scripts)} schema scripts applied\n"
    expected = schema_of(fresh.backend)
    everything = rows_of(fresh.backend)
    assert fresh.cli("migrate").stdout == "0 schema scripts applied\n"
    assert schema_of(fresh.backend) == expected and rows_of(fresh.backend) == everything

    old.backend.script(SOURCE_SCHEMA)
    before = rows_of(old.backend)
    assert len(before) >= 13 and all(rows for _, rows in before.values()), "there is something to lose"
    result = old.cli("migrate")
    assert result.returncode == 0, result.stderr
    assert schema_of(old.backend) == expected
    assert rows_of(old.backend, {table: names for table, (names, _) in before.items()}) == before
    everything = rows_of(old.backend)
    assert old.cli("migrate").stdout == "0 schema scripts applied\n"
    # Whoever runs the scripts by hand runs them on whatever is there.
    for script in scripts:
        old.backend.script(script.read_text(encoding="utf-8"))
    assert schema_of(old.backend) == expected and rows_of(old.backend) == everything

    by_hand.backend.script(by_hand.cli("migrate", "--print").stdout)
    assert schema_of(by_hand.backend) == expected
    assert by_hand.cli("migrate").stdout == "0 schema scripts applied\n"
    by_hand.start()
    by_hand.new_client()


@on_sqlserver
def test_a_printed_script_that_fails_is_not_recorded(make_server):
    server = make_server(start=False)
    printed = server.cli("migrate", "--print").stdout
    # A column of another type, so that one statement in the middle of a script fails.
    server.backend.query("CREATE TABLE ClientPolicies (Id INT NOT NULL, ClientId INT NOT NULL)")
    with pytest.raises(AssertionError, match="Msg"):
        server.backend.script(printed)  # goes on after an error, as sqlcmd does without -b
    recorded = [name for name, in server.backend.query("SELECT Name FROM SchemaScripts ORDER BY Name")]
    assert "010_interface.sql" in recorded and "020_clients.sql" not in recorded
    assert server.cli("migrate").returncode == 1


@on_sqlserver
def test_a_server_works_on_the_sources_database(make_server):
    server = make_server(start=False)
    server.backend.script(SOURCE_SCHEMA)
    server.start()
    admin = server.admin()
    clients = {c["clientId"]: c for c in admin.get("/admin/clients").json["items"]}
    assert {c: (v["name"], v["status"]) for c, v in clients.items()} == {
        "store-omniflow": ("Imobiliária Coração 💙", "Active"), "piloto": ("Piloto", "Suspended")}
    assert clients["store-omniflow"]["createdAt"].startswith("2024-11-20T12:00:00.123")
    # A secret hashed by others is no secret here; a new one is.
    assert server.client("store-omniflow", "anything").get("/whoami").status == 401
    rotated = admin.post("/admin/clients/store-omniflow/rotate-secret")
    assert rotated.status == 200
    me = server.client("store-omniflow", rotated.json["clientSecret"]).get("/whoami").json
    assert me["name"] == "Imobiliária Coração 💙"
    new = server.new_client("Nova 🚚")
    assert new.get("/whoami").status == 200
    audit = admin.get("/admin/audit?actor=admin").json
    assert [r["target"] for r in audit["items"]] == [new.id, "store-omniflow"]
    # The source left it locked a long time ago.
    wait_for(lambda: server.backend.query("SELECT Id, IsLocked, FencingToken FROM BatchLocks") == [(1, False, 0)],
             "a lock that nobody renews to be freed")


@on_sqlserver
def test_a_login_that_may_only_read_and_write_rows_is_enough(make_server):
    """The rights that docs/sqlserver.md names."""
    server = make_server(start=False)
    database, login = server.backend.database, server.backend.database + "_app"
    assert server.cli("migrate").returncode == 0
    server.backend.script(f"""
CREATE LOGIN {login} WITH PASSWORD = '{SECRET}-4711-Aa', DEFAULT_DATABASE = {database};
GO
CREATE USER {login} FOR LOGIN {login};
GO
GRANT SELECT, INSERT, UPDATE, DELETE ON SCHEMA::dbo TO {login};
GO
""")
    try:
        parts = urlsplit(server.backend.url)
        url = parts._replace(netloc=f"{login}:{SECRET}-4711-Aa@{parts.hostname}:{parts.port}").geturl()
        limited = make_server(backend=server.backend, config={"database": {"url": url}})
        client = limited.new_client()
        assert client.get("/whoami").status == 200
        assert limited.admin().patch(f"/admin/clients/{client.id}", {"status": "Suspended"}).status == 200
        assert limited.admin().get("/admin/audit?actor=admin").json["total"] == 2
        assert limited.cli("migrate").stdout == "0 schema scripts applied\n"
        assert limited.stop() == 0
    finally:
        server.backend.script(f"REVOKE SELECT, INSERT, UPDATE, DELETE ON SCHEMA::dbo FROM {login};\nGO\n"
                              f"DROP USER {login};\nGO\nDROP LOGIN {login};\nGO\n")
