"""The old program is stopped, or dies, and the new one is started on its database and files, with its configuration."""

import pytest
import release
import snapshot
from harness import BACKENDS, BIN, Backend, Server, run, skip_if_missing
from peer import Peer
from scenario import check, configuration, fill

# However old the snapshot is.
KEPT = dict.fromkeys(("batches", "events", "deliveries", "attempts", "alerts", "audit"), 0)


@pytest.fixture
def old_binary():
    try:
        return release.binary()
    except release.NoHistory as reason:
        pytest.skip(str(reason))


@pytest.fixture
def peer():
    peer = Peer()
    yield peer
    peer.close()


@pytest.fixture
def make_backend(tmp_path):
    made = []

    def make(name):
        skip_if_missing(name)
        made.append(Backend(name, tmp_path / f"database{len(made)}", empty=True))
        return made[-1]

    yield make
    for backend in made:
        backend.drop()


SHAPES = {
    "sqlite": ("SELECT m.name, p.name, p.type, p.\"notnull\", p.dflt_value, p.pk FROM sqlite_master m,"
               " pragma_table_info(m.name) p WHERE m.type = 'table'",
               "SELECT type, name, tbl_name, CASE type WHEN 'table' THEN NULL ELSE sql END FROM sqlite_master"),
    "postgres": ("SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default"
                 " FROM information_schema.columns WHERE table_schema = 'public'",
                 "SELECT indexname, indexdef, '', '' FROM pg_indexes WHERE schemaname = 'public'",
                 "SELECT conname, pg_get_constraintdef(oid), contype, '' FROM pg_constraint"
                 " WHERE connamespace = 'public'::regnamespace",
                 "SELECT tgname, pg_get_triggerdef(oid), '', '' FROM pg_trigger WHERE NOT tgisinternal"),
    "sqlserver": ("SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH, IS_NULLABLE, COLUMN_DEFAULT"
                  " FROM INFORMATION_SCHEMA.COLUMNS",
                  "SELECT name, type_desc, OBJECT_NAME(object_id), is_unique FROM sys.indexes WHERE name LIKE '[IPU][XKQ]%'"),
}


def shape(backend):
    return [sorted(map(str, backend.query(sql))) for sql in SHAPES[backend.name]]


def check_schema(server, make_backend, tmp_path):
    """As if it had been made today; applying it again changes nothing."""
    records = server.backend.query("SELECT Name, Checksum, AppliedAt FROM SchemaScripts ORDER BY Name")
    for _ in range(2):
        done = server.cli("migrate")
        assert done.returncode == 0, done.stderr
    assert server.backend.query("SELECT Name, Checksum, AppliedAt FROM SchemaScripts ORDER BY Name") == records
    fresh = Server(make_backend(server.backend.name), tmp_path / "fresh")
    done = run("migrate", "--config", fresh.config)
    assert done.returncode == 0, done.stderr
    assert shape(server.backend) == shape(fresh.backend)
    assert server.anonymous().get("/readyz").status == 200


def upgrade(server, facts, peer, make_backend, tmp_path):
    peer.tell()
    peer.requests.clear()
    server.binary, server.args = BIN, ()
    begun = server.log_path.stat().st_size if server.log_path.exists() else 0
    server.start()
    check(server, facts, peer)
    check_schema(server, make_backend, tmp_path)
    server.finish()
    with open(server.log_path, encoding="utf-8") as log:
        log.seek(begun)
        assert not (errors := [line for line in log if '"level":"error"' in line]), "".join(errors)


@pytest.mark.parametrize("name", BACKENDS)
def test_nothing_is_lost_repeated_or_refused(name, old_binary, peer, make_backend, tmp_path):
    server = Server(make_backend(name), tmp_path / "server", config=configuration(peer.address), binary=old_binary)
    try:
        facts = fill(server, peer)
        upgrade(server, facts, peer, make_backend, tmp_path)
    finally:
        server.kill()


@pytest.mark.parametrize("name", snapshot.BACKENDS)
def test_a_stored_database_of_the_release_before(name, peer, make_backend, tmp_path):
    """Needs no history, and comes from that very release, not from old sources built with today's packages."""
    assert snapshot.kept(name, peer)["release"] == release.COMMIT, "run tests/upgrade/snapshot.py"
    server = Server(make_backend(name), tmp_path / "server", config={**configuration(peer.address), "retention": KEPT})
    try:
        facts = snapshot.restore(server.backend, server, peer)
        upgrade(server, facts, peer, make_backend, tmp_path)
    finally:
        server.kill()
