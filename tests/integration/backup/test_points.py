"""Backups to points in time, and restores from them: under load, with kill -9, to a directory and a bucket, with damage,
other keys and other machines; the ledger of erasures and the audit log afterwards."""

import contextlib
import json
import re
import shutil
import signal
import sqlite3
import subprocess
import threading
import uuid
from pathlib import Path

import pytest
from harness import BIN, Backend, FakeClock, Server, environment, wait_for
from test_erase import MAINTAIN, ended, erase, everything, filled, new_client, places
from test_imports_read import Rows
from test_imports_receive import schedule_all, storage, taken, upload  # noqa: F401 (a fixture)
from test_subjects import phone

pytestmark = pytest.mark.threads


def rows(file, sql):
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return [row[0] for row in connection.execute(sql)]


def clients_of(server):
    return set(rows(server.backend.file, "SELECT ClientIdentifier FROM Clients"))


def back_up(server, place, *args):
    done = server.cli("backup", "--to", place, "--json", *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def points(server, place):
    done = server.cli("backup", "list", "--from", place, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def restore(server, place, *args, status=0):
    done = server.cli("restore", "--from", place, "--json", *args)
    assert done.returncode == status, (done.stdout, done.stderr)
    return done


def findings(done, name):
    return [c for c in json.loads(done.stdout)["checks"] if c["name"] == name]


class Traffic:
    """Makes clients, one after the other, and knows which were answered."""

    def __init__(self, server):
        self.server, self.answered, self.asked = server, [], []
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._run)

    def _run(self):
        while not self._stop.is_set():
            name = f"c-{uuid.uuid4()}"
            self.asked.append(name)
            with contextlib.suppress(OSError, AssertionError, ValueError):  # the server is killed now and then
                self.server.new_client("During", clientId=name)
                self.answered.append(name)

    def __enter__(self):
        self._thread.start()
        wait_for(lambda: self.answered, "the first client")
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def more(self):
        before = len(self.answered)
        wait_for(lambda: len(self.answered) > before + 3, "more clients")


# --- points ------------------------------------------------------------------------------------------


def test_each_point_has_what_was_answered_by_then(make_sqlite_server, tmp_path):
    server, place, kept = make_sqlite_server(), tmp_path / "place", []
    with Traffic(server) as traffic:
        for i in range(4):
            before = list(traffic.answered)
            made = back_up(server, place)
            assert made["made"] and made["number"] == i
            kept.append((made["time"], set(before), set(traffic.asked)))
            traffic.more()
            if i == 1:  # what was answered 2xx is there after kill -9, and goes into the next point
                server.kill()
                server.start()
    assert [p["time"] for p in points(server, place)] == [time for time, *_ in kept]
    for time, answered, asked in kept:
        other = make_sqlite_server(start=False, empty=True)
        done = restore(other, place, "--at", time)
        assert not [c for c in json.loads(done.stdout)["checks"] if c["status"] != "ok"]
        assert answered <= clients_of(other) <= asked
    other.start()
    assert other.admin().get("/admin/clients").json["total"] == len(clients_of(other))


def test_an_increment_is_small_and_follows_its_own_point_only(make_sqlite_server, tmp_path):
    server, place = make_sqlite_server(), tmp_path / "place"
    server.new_client()
    server.stop()
    base = back_up(server, place)
    assert base["number"] == 0 and base["pages"] > 100
    more = back_up(server, place)  # the entry of the audit log about the first
    assert more["number"] == 1 and more["pages"] < base["pages"] / 4 and more["bytes"] < base["bytes"] / 2
    # Without the hashes beside the database, or when they are another point's, it begins with a base.
    [state] = [p for p in (server.directory / "data").glob("backup-*") if p.suffix != ".lock"]
    flip(state, 200)
    again = back_up(server, place)
    assert again["number"] == 0 and again["pages"] >= base["pages"] and again["generation"] != base["generation"]
    sorted(place.rglob("p00*"))[-1].unlink()
    assert back_up(server, place)["number"] == 0


def test_a_killed_watch_leaves_whole_points(make_sqlite_server, tmp_path):
    server, place = make_sqlite_server(), tmp_path / "place"
    args = [BIN, "backup", "--to", place, "--watch", "--every", "1", "--json", "--config", server.config]
    with Traffic(server) as traffic:
        for i in range(3):
            seen = len(points(server, place)) if place.exists() else 0
            watch = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment())
            wait_for(lambda: place.exists() and len(points(server, place)) > seen + i, "points")
            watch.kill()
            watch.wait()
        (place / ".p000000-unfinished").write_bytes(b"half")
        for group in place.iterdir():
            if group.is_dir():
                (group / ".p000009-20270101T000000000Z").write_bytes(b"half")
        traffic.more()
        answered = set(traffic.answered)
        watch = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        wait_for(lambda: json.loads(watch.stdout.readline())["made"], "a point")
        watch.send_signal(signal.SIGTERM)
        _, told = watch.communicate(timeout=60)
        assert watch.returncode == 0 and "master key is not in it" in told
    listed = points(server, place)
    assert len({p["generation"] for p in listed}) >= 1 and listed == sorted(listed, key=lambda p: p["time"])
    other = make_sqlite_server(start=False, empty=True)
    restore(other, place)
    assert answered <= clients_of(other) <= set(traffic.asked)
    assert rows(other.backend.file, "PRAGMA integrity_check") == ["ok"]


def test_a_long_turn_ends_when_the_program_is_to_end(make_sqlite_server, tmp_path):
    server, place = make_sqlite_server(), tmp_path / "place"
    server.stop()
    with (server.directory / "data" / "erasures").open("ab") as ledger:
        ledger.truncate(1 << 40)  # holes: it takes many minutes to read, and no room
    watch = subprocess.Popen([BIN, "backup", "--to", place, "--watch", "--config", server.config], stderr=subprocess.PIPE,
                             text=True, env=environment())
    try:
        wait_for(lambda: "master key is not in it" in watch.stderr.readline(), "the first turn")
        watch.send_signal(signal.SIGTERM)
        _, told = watch.communicate(timeout=30)
    finally:
        watch.kill()
    assert watch.returncode == 0 and "BackupFailed" not in told
    assert not place.exists() or not list(place.iterdir())


def test_one_process_at_a_time(make_sqlite_server, tmp_path):
    server = make_sqlite_server(config={"backup": {"to": tmp_path / "place", "every_seconds": "3600"}})
    wait_for(lambda: (tmp_path / "place").exists() and points(server, tmp_path / "place"), "the server's own point")
    done = server.cli("backup", "--to", tmp_path / "place")
    assert done.returncode == 1 and "another process" in done.stderr
    assert back_up(server, tmp_path / "elsewhere")["made"]


# --- files -------------------------------------------------------------------------------------------


def waiting_files(server):
    return {p.relative_to(server.directory / "data"): p.read_bytes()
            for p in (server.directory / "data" / "imports").rglob("original/*")}


def test_waiting_files_come_with_their_point(make_sqlite_server, tmp_path):
    server, place = make_sqlite_server(), tmp_path / "place"
    client = server.new_client()
    schedule_all(server, client)
    first = taken(upload(client), "Scheduled")
    one = back_up(server, place)
    then = waiting_files(server)
    second = taken(upload(client, name="more.json"), "Scheduled")
    assert client.request("DELETE", f"/imports/{first}").status == 204
    wait_for(lambda: not any(first in str(path) for path in waiting_files(server)), "the file to be gone")
    two = back_up(server, place)
    assert (one["files"], two["files"]) == (1, 1)
    now = waiting_files(server)
    for made, files, batch in ((one, then, first), (two, now, second)):
        other = make_sqlite_server(start=False, empty=True)
        done = restore(other, place, "--at", made["time"])
        assert waiting_files(other) == files
        assert "1 batches wait" in findings(done, "files")[0]["detail"]
        other.start()
        assert other.client(client.id, client.secret).get(f"/imports/{batch}").json["status"] == "Scheduled"
    # The check says which batch lacks its file.
    other.stop()
    for path in now:
        (other.directory / "data" / path).unlink()
    told = other.cli("doctor", "--after-restore", "--json")
    [missing] = findings(told, "files")
    assert told.returncode == 1 and missing["status"] == "problem" and second in missing["detail"]


def test_a_later_attempt_needs_no_file(make_sqlite_server, tmp_path):
    server = make_sqlite_server()
    client = server.new_client()
    schedule_all(server, client)
    taken(upload(client), "Scheduled")
    server.stop()
    shutil.rmtree(server.directory / "data" / "imports")
    for attempt, told in ((1, True), (2, False)):
        with contextlib.closing(sqlite3.connect(server.backend.file)) as db, db:
            db.execute("UPDATE ImportBatch SET Attempt = ?", (attempt,))
        done = server.cli("backup", "--to", tmp_path / "place")
        assert done.returncode == 0 and ("BackupFileMissing" in done.stdout + done.stderr) == told, done


def test_files_that_the_place_lost_cost_their_batch_alone(make_sqlite_server, tmp_path):
    server, place = make_sqlite_server(), tmp_path / "place"
    client = server.new_client()
    schedule_all(server, client)
    batches = [taken(upload(client, name=f"{i}.json"), "Scheduled") for i in range(2)]
    back_up(server, place)
    [lost, _] = sorted(place.rglob("f-*"))
    lost.unlink()
    other = make_sqlite_server(start=False, empty=True)
    done = restore(other, place, status=1)
    [missing] = findings(done, "files")
    assert missing["status"] == "problem" and sum(batch in missing["detail"] for batch in batches) == 1
    assert len(waiting_files(other)) == 1 and clients_of(other) == clients_of(server)


# --- a bucket ----------------------------------------------------------------------------------------


def test_a_bucket(make_sqlite_server, storage):
    config = {"s3": {"endpoint": storage.url, "access_key": "test:tester", "secret_key": "testing", "path_style": "on"}}
    server, place = make_sqlite_server(config=config), f"s3://bucket/backups/{uuid.uuid4().hex}"
    client = server.new_client()
    schedule_all(server, client)
    taken(upload(client), "Scheduled")
    one, then = back_up(server, place), clients_of(server)
    server.new_client()
    storage.fail(status=403, count=1, method="PUT")
    refused = server.cli("backup", "--to", place)
    assert refused.returncode == 2 and "--to and [s3]" in refused.stderr, refused.stderr
    two = back_up(server, place)
    assert [p["time"] for p in points(server, place)] == [one["time"], two["time"]]
    for made, clients in ((one, then), (two, clients_of(server))):
        other = make_sqlite_server(config=config, start=False, empty=True)
        restore(other, place, "--at", made["time"])
        assert clients_of(other) == clients and waiting_files(other) == waiting_files(server)
    # What the bucket gives back is compared with what was stored, and what was stored with the point's own hashes.
    [point] = [o for o in storage.objects() if "/p000001" in o and place.removeprefix("s3://bucket/") in o]
    storage.ask("PUT", f"/v1/AUTH_test/bucket/{point}", {"X-Auth-Token": storage.token}, b"something else")
    assert storage.ask("GET", f"/v1/AUTH_test/bucket/{point}").read() == b"something else"
    other = make_sqlite_server(config=config, start=False, empty=True)
    done = other.cli("restore", "--from", place)
    assert done.returncode == 1 and "p000001" in done.stderr and not other.backend.file.exists(), done.stderr


# --- damage, keys, mistakes --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """A place with three points, and what the clients were at each."""
    backend = Backend("sqlite", tmp_path_factory.mktemp("sqlite"))
    server = Server(backend, tmp_path_factory.mktemp("server")).start()
    place, kept = tmp_path_factory.mktemp("points") / "place", []
    for i in range(3):
        server.new_client(clientId=f"client-{i}")
        kept.append((back_up(server, place)["time"], clients_of(server)))
    yield server, place, kept
    server.finish()


@pytest.fixture
def three(made_once, tmp_path):
    """A copy of the place, to be harmed."""
    server, place, kept = made_once
    return server, Path(shutil.copytree(place, tmp_path / "place")), kept


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("harm", ["flipped", "cut", "longer", "empty", "missing", "swapped"])
def test_damage_is_told_and_earlier_points_are_good(three, make_sqlite_server, harm):
    _, place, kept = three
    base, middle, last = sorted(place.rglob("p00*"))
    data = middle.read_bytes()
    {"flipped": lambda: flip(middle, len(data) // 2), "cut": lambda: middle.write_bytes(data[:-1]),
     "longer": lambda: middle.write_bytes(data + b"x"), "empty": lambda: middle.write_bytes(b""),
     "missing": middle.unlink, "swapped": lambda: middle.write_bytes(last.read_bytes())}[harm]()
    other = make_sqlite_server(start=False, empty=True)
    done = other.cli("restore", "--from", place)
    assert done.returncode == 1 and "p00000" in done.stderr, done.stderr
    assert not other.backend.file.exists() and not list(other.backend.directory.glob("*restore*"))
    restore(other, place, "--at", kept[0][0])
    assert clients_of(other) == kept[0][1]


def test_another_master_key_opens_nothing(three, make_sqlite_server, tmp_path):
    server, place, kept = three
    other = make_sqlite_server(start=False, empty=True)
    (other.directory / "data" / "master.key").write_text("ab" * 32)
    done = other.cli("restore", "--from", place)
    assert done.returncode == 2 and re.search(r"under the master key key:[0-9a-f]{32}", done.stderr), done.stderr
    assert not other.backend.file.exists()
    # Another machine that is given the key, by a file.
    (tmp_path / "key").write_text((server.directory / "data" / "master.key").read_text())
    (tmp_path / "key").chmod(0o600)
    machine = tmp_path / "machine"
    done = other.cli("restore", "--from", place, "--to", machine, "--set", f"security.master_key_file={tmp_path / 'key'}")
    assert done.returncode == 0, done.stderr
    assert set(rows(machine / "dataflow.db", "SELECT ClientIdentifier FROM Clients")) == kept[-1][1]


def test_nothing_of_a_place_can_be_read_without_the_key(three):
    server, place, _ = three
    stored = b"".join(p.read_bytes() for p in place.rglob("*") if p.is_file())
    assert b"SQLite" not in stored and b"client-0" not in stored
    assert (server.directory / "data" / "master.key").read_text().strip().encode() not in stored


def test_a_database_that_is_there_is_replaced_on_a_word_only(make_sqlite_server, tmp_path):
    server, place, kept = make_sqlite_server(), tmp_path / "place", []
    for _ in range(2):
        server.new_client()
        kept.append((back_up(server, place)["time"], clients_of(server)))
    server.stop()
    assert "--force" in restore(server, place, status=2).stderr
    assert clients_of(server) == kept[-1][1]
    restore(server, place, "--at", kept[0][0], "--force")
    assert clients_of(server) == kept[0][1]
    server.start()
    told = json.loads(server.cli("audit", "verify", "--json").stdout)
    assert told["ok"], told
    assert server.admin().get("/admin/audit?action=DatabaseRestored").json["items"]
    # The next backup begins anew: the state is of another time.
    assert back_up(server, place)["made"]


@pytest.mark.parametrize("args", [
    ["backup"], ["backup", "--to", "x", "y"], ["backup", "list"], ["backup", "--to", "x", "--every", "5"],
    ["backup", "--to", "x", "--watch", "--every", "0"], ["backup", "--to", "x", "--keep", "-1"], ["backup", "x", "--watch"],
    ["backup", "--to", "s3://No", "--set", "s3.access_key=a", "--set", "s3.secret_key=b"],
    ["restore"], ["restore", "x", "--at", "latest"], ["restore", "--from", "x", "--at", "yesterday"], ["restore", "--from", "x", "y"],
], ids=" ".join)
def test_wrong_usage(args, tmp_path):
    done = subprocess.run([BIN, *args], capture_output=True, text=True, cwd=tmp_path, env=environment(), check=False, timeout=60)
    assert done.returncode in (1, 2) and done.stderr.strip()
    assert done.returncode == 2 or "s3://No" in args, done.stderr


def test_a_place_without_a_backup_says_so(make_sqlite_server, three, tmp_path):
    other, (_, place, kept) = make_sqlite_server(start=False, empty=True), three
    (tmp_path / "empty").mkdir()
    for where, at, words in ((tmp_path / "empty", "latest", "has no backup"), (tmp_path / "none", "latest", "cannot open"),
                             (place, "2020-01-01T00:00:00Z", "no point that old")):
        done = other.cli("restore", "--from", where, "--at", at)
        assert done.returncode == 1 and words in done.stderr, done.stderr


def test_database_servers_have_their_own_ways(make_server, backend_name, tmp_path):
    if backend_name == "sqlite":
        pytest.skip("has this one")
    server = make_server()
    for args in (("backup", "--to", tmp_path / "x"), ("restore", "--from", tmp_path / "x")):
        done = server.cli(*args)
        assert done.returncode == 2 and "runbooks/restore.md" in done.stderr, done.stderr
    assert server.cli("check-config", "--set", f"backup.to={tmp_path}").returncode == 2
    told = server.cli("doctor", "--after-restore", "--json")
    assert told.returncode == 0 and findings(told, "files") and findings(told, "audit log"), told.stdout


# --- persons that were erased ------------------------------------------------------------------------


def test_erasures_after_the_point_are_applied_again_on_another_machine(make_sqlite_server, tmp_path):
    server, place = make_sqlite_server(config=MAINTAIN), tmp_path / "place"
    filled(server)
    client, number = new_client(server), phone()
    everything(server, client, Rows(server.backend), number)
    made = back_up(server, place)
    done = erase(server, number)
    server.stop()
    back_up(server, place)
    other = make_sqlite_server(config=MAINTAIN, start=False, empty=True)
    told = restore(other, place, "--at", made["time"])
    assert "1 persons" in findings(told, "erasures")[0]["detail"]
    other.start()
    assert sum(ended(other, done["jobId"])["counts"].values()) == 5
    assert places(other, phone=number) == {}
    assert json.loads(other.cli("audit", "verify", "--json").stdout)["ok"]


def test_a_torn_line_of_the_ledger_spoils_no_other(make_sqlite_server, tmp_path):
    server, place, other = make_sqlite_server(config=MAINTAIN), tmp_path / "place", make_sqlite_server(start=False, empty=True)
    for _ in range(2):
        erase(server, phone())
    back_up(server, place)
    lines = (server.directory / "data" / "erasures").read_text().splitlines()
    ledger = other.directory / "data" / "erasures"
    ledger.parent.mkdir(exist_ok=True)
    ledger.write_text(f"{lines[0]}\n{lines[1][:9]}")
    restore(other, place)
    assert ledger.read_text().splitlines() == [lines[0], lines[1][:9], *lines[1:]]


# --- the server's own, and what is old ---------------------------------------------------------------


def metric(server, name):
    found = re.search(rf"^{re.escape(name)} (\S+)$", server.admin().get("/metrics").body.decode(), re.M)
    return float(found[1]) if found else None


def test_the_server_backs_up_by_itself(make_sqlite_server, tmp_path):
    place = tmp_path / "place"
    clock = FakeClock(tmp_path)
    server = make_sqlite_server(config={"backup": {"to": place, "every_seconds": "1"}}, clock=clock)
    wait_for(lambda: metric(server, 'dataflow_backup_points_total{kind="base"}') == 1, "the base")
    made = server.new_client().id
    wait_for(lambda: metric(server, 'dataflow_backup_points_total{kind="increment"}'), "an increment")
    assert metric(server, "dataflow_backup_last_success_timestamp_seconds") > 1.7e9

    def restored():
        other = make_sqlite_server(start=False, empty=True)
        restore(other, place)
        return made in clients_of(other)

    wait_for(restored, "a point with the client", every=1)
    assert len(server.admin().get("/admin/audit?action=BackupMade").json["items"]) == 1, "of bases only"
    told = server.cli("doctor", "--json")
    assert findings(told, "backup")[0]["status"] == "ok"
    server.stop()
    clock.advance(days=3)
    assert findings(server.cli("doctor", "--json"), "backup")[0]["status"] == "warning"


def test_a_place_that_is_away_is_tried_again(make_sqlite_server, tmp_path):
    server = make_sqlite_server(config={"backup": {"to": tmp_path / "not" / "yet", "every_seconds": "1"}})
    wait_for(lambda: server.log("BackupFailed"), "the failure")
    assert metric(server, "dataflow_backup_failures_total") >= 1
    (tmp_path / "not").mkdir()
    wait_for(lambda: metric(server, "dataflow_backup_last_success_timestamp_seconds"), "a backup")


def test_what_is_too_old_goes_and_nothing_that_is_needed(make_sqlite_server, tmp_path):
    clock, place = FakeClock(tmp_path), tmp_path / "place"
    server = make_sqlite_server(clock=clock, start=False)
    assert server.cli("migrate").returncode == 0
    strange = place / "a-directory-of-somebody-else" / "file"  # as long a name as a generation's
    strange.parent.mkdir(parents=True)
    strange.write_text("not ours")
    made = []
    for _ in range(3):  # a day apart, so each is a base, with an increment after it
        for _ in range(2):
            made.append(back_up(server, place, "--keep", "1"))
            clock.advance(hours=1)
        clock.advance(hours=23)
    assert [m["number"] for m in made] == [0, 1] * 3
    left = {p["generation"] for p in points(server, place)}
    # A day before the last base lies in the generation of the second day; the one before it is gone.
    assert left == {m["generation"] for m in made[2:]} and sum(m["removed"] for m in made) == 1
    assert {p.name for p in place.iterdir() if p.is_dir()} == left | {strange.parent.name} and strange.exists()
    other = make_sqlite_server(clock=clock, start=False, empty=True)
    restore(other, place, "--at", made[3]["time"])
