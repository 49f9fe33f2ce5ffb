"""docs/runbooks tried out: the commands that are marked for SQLite and PostgreSQL, in the order in which they stand, on
servers with traffic; each ends with the check that says what is missing."""

import datetime
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from harness import BIN, ROOT, TIMEOUT, Backend, Server, environment, postgres_execute, wait_for

import pg

RUNBOOKS = ROOT / "docs" / "runbooks"
TOOLS = ROOT / "deploy" / "postgres"


def blocks(page, mark):
    """What stands between fences like ```sh sqlite."""
    text = (RUNBOOKS / page).read_text(encoding="utf-8")
    found = re.findall(rf"^```sh {mark}\n(.*?)^```$", text, re.M | re.S)
    assert found, f"{page} has no block for {mark}"
    return found


def shell(text, directory, identity=None, **variables):
    """A block, by bash, with the program and PostgreSQL's tools in the path."""
    tools = Path(directory) / "bin"
    if not tools.exists():
        tools.mkdir()
        (tools / "dataflow").symlink_to(BIN)
        copy_tools(tools)
    env = environment(PATH=f"{tools}:{pg.bin_dir()}:{os.environ['PATH']}", **{k: str(v) for k, v in variables.items()})
    return subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=directory, env=env, capture_output=True, text=True,
                          timeout=TIMEOUT * 2, check=False, **(identity or {}))


def copy_tools(directory):
    """The tree may be closed to the user that PostgreSQL runs as."""
    for script in TOOLS.iterdir():
        shutil.copy(script, directory)
        (directory / script.name).chmod(0o755)


def must(done):
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done


def test_every_runbook_is_in_the_index_and_ends_with_a_check():
    index = (RUNBOOKS / "README.md").read_text(encoding="utf-8")
    for page in RUNBOOKS.glob("*.md"):
        if page.name == "README.md":
            continue
        text = page.read_text(encoding="utf-8")
        assert f"({page.name})" in index, page.name
        last = re.findall(r"^## (.*)$", text, re.M)[-1]
        assert last == "Check", f"{page.name} ends with {last}"
        assert "dataflow " in text.rpartition("## Check")[2], page.name


# --- SQLite ------------------------------------------------------------------------------------------


def test_restore_of_sqlite(make_sqlite_server, tmp_path):
    server, place, new = make_sqlite_server(), tmp_path / "place", tmp_path / "new"
    backup, listing, restoring, check = blocks("restore.md", "sqlite")
    kept = server.new_client("Kept")
    known = {"CONFIG": server.config, "PLACE": place, "NEW": new}
    must(shell(backup, tmp_path, **known))
    time = must(shell(listing, tmp_path, **known)).stdout.split()[0]
    server.new_client("A mistake")
    must(shell(backup, tmp_path, **known))
    server.stop()
    new.mkdir(mode=0o700)
    shutil.copy(server.directory / "data" / "master.key", new)
    told = must(shell(restoring, tmp_path, TIME=time, **known))
    assert "restored to " + time in told.stderr
    assert "0 problems" in must(shell(check, tmp_path, **known)).stdout
    other = Server(server.backend, tmp_path / "again", config={"server": {"data_dir": new}, "database": {"url": f"sqlite:{new}/dataflow.db"}})
    other.start()
    assert other.client(kept.id, kept.secret).get("/whoami").status == 200
    assert other.admin().get("/admin/clients").json["total"] == 1
    other.finish()


def test_key_rotation(make_sqlite_server, tmp_path):
    server = make_sqlite_server()
    rotate, check = blocks("key-rotation.md", "sqlite")
    assert must(shell(rotate, tmp_path, CONFIG=server.config)).stdout.count("data") >= 2
    assert "0 problems" in must(shell(check, tmp_path, CONFIG=server.config)).stdout


# --- PostgreSQL --------------------------------------------------------------------------------------


@pytest.fixture
def archived(tmp_path_factory):
    """A PostgreSQL that archives its WAL as deploy/postgres/archive-wal has it."""
    made = []

    def make():
        server = pg.Postgres()
        made.append(server)
        return server

    yield make
    for server in made:
        server.close()


def own_directory(server, name):
    path = Path(server.dir) / name
    path.mkdir()
    if server.identity:
        os.chown(path, server.identity["user"], server.identity["group"])
    return path


def test_restore_of_postgresql(archived, tmp_path):
    first = archived()
    tools, wal, bases = (own_directory(first, name) for name in ("tools", "wal", "base"))
    copy_tools(tools)
    first.settings = {"archive_mode": "on", "archive_command": f"{tools}/archive-wal {wal} %p %f", "wal_level": "replica"}
    first.start()
    url = first.url("dataflow")
    postgres_execute("CREATE DATABASE dataflow", first.url())
    server = Server(Backend.on(url), tmp_path / "server").start()
    base, choosing, restoring, check = blocks("restore.md", "postgres")
    before = [server.new_client("Before the base") for _ in range(2)]
    known = {"URL": url, "BASES": bases, "WAL": wal, "PGDATA": Path(first.dir) / "restored", "CONFIG": server.config}
    run = {"directory": tools, "identity": first.identity}
    must(shell(base, **run, **known))
    after = [server.new_client("After the base") for _ in range(2)]
    time = postgres_execute("SELECT clock_timestamp()", url)[0][0]
    wait_for(lambda: datetime.datetime.now(datetime.timezone.utc) > time + datetime.timedelta(seconds=2), "the base's second")
    asked = postgres_execute("SELECT clock_timestamp()", url)[0][0].isoformat()
    # The mistake.
    postgres_execute("DELETE FROM Clients", url)
    must(shell(choosing, **run, **known))
    assert server.stop() == 0
    wait_for(lambda: any(wal.iterdir()), "archived WAL")
    first.stop()
    must(shell(restoring, **run, TIME=asked, **known))
    second = archived()
    second.data, second.port, second.identity = str(known["PGDATA"]), first.port, first.identity
    second.start()
    told = shell(check, **{**run, "directory": tmp_path, "identity": None}, **known)
    assert told.returncode == 0 and "0 problems" in told.stdout, (told.stdout, told.stderr)
    server.start()
    for client in before + after:
        assert client.get("/whoami").status == 200
    assert server.admin().get("/admin/audit?action=DatabaseRestored").json["items"]
    server.finish()
    second.stop()


@pytest.mark.parametrize("there,status", [(None, 0), (b"the same", 0), (b"other", 1)])
def test_wal_is_never_replaced(tmp_path, there, status):
    archive = tmp_path / "wal"
    archive.mkdir()
    (tmp_path / "segment").write_bytes(b"the same")
    if there:
        (archive / "000000010000000000000001").write_bytes(there)
    done = subprocess.run([TOOLS / "archive-wal", archive, tmp_path / "segment", "000000010000000000000001"], check=False)
    assert done.returncode == status
    assert [p.read_bytes() for p in archive.iterdir()] == [there or b"the same"]


@pytest.mark.parametrize("args", [[], ["a", "b"], ["{dir}", "{dir}/segment", "../x"], ["{dir}", "{dir}/none", "0001"]])
def test_wal_that_cannot_be_archived_is_an_error(tmp_path, args):
    (tmp_path / "segment").write_bytes(b"x")
    done = subprocess.run([TOOLS / "archive-wal", *(a.format(dir=tmp_path) for a in args)], check=False, capture_output=True)
    assert done.returncode != 0 and sorted(p.name for p in tmp_path.iterdir()) == ["segment"]


def test_old_bases_go_but_for_the_one_that_is_needed(tmp_path):
    """base-backup itself is run above; here its tools are others, which do nothing."""
    tools, bases = tmp_path / "bin", tmp_path / "bases"
    tools.mkdir()
    for name, text in (("pg_basebackup", 'while [ "$1" != -D ]; do shift; done; mkdir "$2"'), ("pg_verifybackup", "true")):
        (tools / name).write_text(f"#!/bin/bash\n{text}\n")
        (tools / name).chmod(0o755)
    now = datetime.datetime.now(datetime.timezone.utc)
    ages = {days: f"base-{now - datetime.timedelta(days=days):%Y%m%dT%H%M%SZ}" for days in (1, 3, 9, 20)}
    for name in ages.values():
        (bases / name).mkdir(parents=True)
    done = subprocess.run([TOOLS / "base-backup", "postgres://x", bases, "7"], check=True, capture_output=True, text=True,
                          env=environment(PATH=f"{tools}:{os.environ['PATH']}"))
    left = {p.name for p in bases.iterdir()}
    assert left == {ages[1], ages[3], ages[9], Path(done.stdout.strip()).name}
