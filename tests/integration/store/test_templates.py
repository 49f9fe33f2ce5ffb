"""The tests' databases are copies of one that was migrated: a copy has what a migration leaves, and nothing more."""

from harness import Backend

# What the scripts themselves insert: the lock of the installation, the turn of the alerts, an audit log without entries.
FIXED = {"SchemaScripts", "BatchLocks", "AlertEvaluation", "AuditHead"}

TABLES = {
    "sqlite": "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    "postgres": "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
    "sqlserver": "SELECT name FROM sys.tables",
}


def content(backend):
    found = {table.lower(): backend.query(f"SELECT * FROM {table}") for table, in backend.query(TABLES[backend.name])}
    found["schemascripts"] = [row[:2] for row in found["schemascripts"]]  # without the time
    return found


def test_a_copy_is_what_a_migration_leaves(make_server, backend_name):
    copied, migrated = make_server(start=False), make_server(start=False, empty=True)
    if backend_name == "sqlserver":
        assert copied.cli("migrate").returncode == 0
    assert migrated.cli("migrate").returncode == 0
    rows = content(copied.backend)
    assert rows == content(migrated.backend)
    assert {table for table, found in rows.items() if found} == {table.lower() for table in FIXED}
    assert copied.cli("migrate").stdout == "0 schema scripts applied\n"


def test_what_a_server_writes_to_a_copy_is_its_own(make_server, backend_name, tmp_path):
    one, two = make_server(), make_server()
    keys = [{bytes(row[0]) for row in server.backend.query("SELECT WrappedKey FROM DataKeys")} for server in (one, two)]
    assert keys[0] and keys[1] and not keys[0] & keys[1]
    one.new_client("Of one")
    assert not two.backend.query("SELECT Name FROM Clients")
    three = Backend(backend_name, tmp_path / "three")
    try:
        if backend_name != "sqlserver":
            assert not three.query("SELECT Name FROM Clients") and not three.query("SELECT Id FROM DataKeys")
    finally:
        three.drop()
