"""imports.storage = s3: uploads straight to the bucket, workers that have no disk in common with the API, and that nothing
stays in the bucket for ever."""

import concurrent.futures
import hashlib
import io
import json
import os
import select
import socket
import threading
import uuid
import zipfile

import pytest
from harness import BIN, TIMEOUT, FakeClock, read_responses, run, wait_for
from test_imports_process import (configuration, figures, leads, make_peer, state,  # noqa: F401 (a fixture)
                                  wait_end)
from test_imports_receive import (CSV, LEADS, MB, XLSX, directories, execute, log_of, multipart, policy, row,  # noqa: F401
                                  storage, taken, upload, upload_json)

pytestmark = pytest.mark.threads

PART = 5 * MB


class Bucket:
    """The part of the bucket that a test has for itself."""

    def __init__(self, storage):  # noqa: F811
        self.storage = storage
        self.prefix = f"s3-{uuid.uuid4().hex[:8]}"
        storage.fail(count=0)

    def objects(self):
        return [name for name in self.storage.objects() if name.startswith(self.prefix + "/")]

    def parts(self):
        """Uploads that are not over, and what was sent of them."""
        if "bucket+segments" not in self.storage.ask("GET", "/v1/AUTH_test").read().decode().split():
            return []
        names = self.storage.ask("GET", "/v1/AUTH_test/bucket+segments").read().decode().split()
        done = self.objects()
        return [n for n in names if n.startswith(self.prefix + "/") and n.rsplit("/", 2)[0] not in done
                and n.rsplit("/", 1)[0] not in done]

    def read(self, name):
        return self.storage.ask("GET", f"/v1/AUTH_test/bucket/{name}").read()

    def seen(self, text):
        found = json.loads(self.storage.ask("GET", "/faults", {"X-None": "1"}).read())["seen"]
        return sum(text in request for request in found)

    def config(self, **more):
        made = {"imports": {"storage": "s3", "bucket": f"s3://bucket/{self.prefix}"}, "server": {"drain_seconds": 5},
                "s3": {"endpoint": self.storage.url, "access_key": "test:tester", "secret_key": "testing", "path_style": "on"}}
        for section, keys in more.items():
            made[section] = {**made.get(section, {}), **keys}
        return made


@pytest.fixture
def bucket(storage):  # noqa: F811
    made = Bucket(storage)
    yield made
    storage.fail(count=0)


def worker_config(bucket, peer, **more):  # noqa: F811
    made = configuration(peer, **more)
    return bucket.config(**made)


def lines(size):
    """CSV of about so many bytes, no two lines alike."""
    out, number = ["telefone;nome;nota\n"], 0
    while size > 0:
        out.append(f"519{number:08d};Lead {number};{hashlib.sha256(str(number).encode()).hexdigest() * 8}\n")
        size -= len(out[-1])
        number += 1
    return "".join(out).encode()


def archive(size, *entries):
    """A ZIP with entries that do not get smaller."""
    out = io.BytesIO(XLSX if "workbook" in entries else b"")
    with zipfile.ZipFile(out, "a" if out.getvalue() else "w", zipfile.ZIP_STORED) as z:
        z.writestr("xl/media/picture.bin", os.urandom(size))
    return out.getvalue()


def peak_kb(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as f:
        return int(next(line for line in f if line.startswith("VmHWM")).split()[1])


def metric(server, name):
    text = server.anonymous().get("/metrics").body.decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


# --- uploads -----------------------------------------------------------------------------------------


def test_uploads_are_objects_when_202_is_there_and_never_on_the_disk(make_server, bucket):
    server = make_server(config=bucket.config())
    client = server.new_client()
    batch = taken(upload(client, CSV, "leads.csv"))
    name = f"{bucket.prefix}/{batch}/original"
    assert row(server, batch, "UploadPath", "Checksum", "FileType", "FileSizeBytes") == (
        f"s3://bucket/{name}", hashlib.sha256(CSV).hexdigest(), 2, len(CSV))
    assert bucket.objects() == [name] and directories(server) == set()
    assert bucket.seen("PUT /bucket/") == 1 and bucket.read(name).startswith(b"DFE1") and b"Ana" not in bucket.read(name)
    # In JSON, and with its name behind the file.
    taken(upload_json(client, XLSX, fileName="late.xlsx"))
    assert len(bucket.objects()) == 2
    # The object goes with its batch.
    assert client.request("DELETE", f"/imports/{batch}").status == 204
    wait_for(lambda: name not in bucket.objects(), "the object to be gone")
    # The content decides here, too, and what is refused is removed before the answer.
    before = bucket.objects()
    assert upload(client, archive(1000), "leads.xlsx").status == 415
    assert upload(client, b"%PDF-1.4", "leads.csv").status == 415
    assert bucket.objects() == before and directories(server) == set()


def test_a_repeated_upload_leaves_one_object(make_server, bucket):
    client = make_server(config=bucket.config()).new_client()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: upload(client, headers={"Idempotency-Key": "k"}), range(4)))
    [batch] = {taken(a) for a in answers}
    assert bucket.objects() == [f"{bucket.prefix}/{batch}/original"]
    again = upload(client, headers={"Idempotency-Key": "k"})
    assert taken(again) == batch and again.headers["Idempotent-Replayed"] == "true"


def test_a_large_upload_goes_in_parts_and_memory_does_not_grow_with_it(make_server, bucket):
    server = make_server(config=bucket.config())
    client = server.new_client()
    taken(upload(client))
    before = peak_kb(server)
    data = lines(8 * PART)
    bucket.storage.fail(count=0)
    batch = taken(upload(client, data, "leads.csv"))
    assert bucket.seen("partNumber=") == 9 and bucket.seen("?uploads=") == 1
    if "asan" not in BIN and "tsan" not in BIN:
        assert peak_kb(server) - before < 24 * 1024, "two parts, and what libcurl and the database take"
    assert row(server, batch, "Checksum", "FileSizeBytes") == (hashlib.sha256(data).hexdigest(), len(data))
    assert bucket.parts() == [] and directories(server) == set()
    assert metric(server, "dataflow_upload_parts_total") == 8  # the last one is sent by another way
    # The directory of an archive is at its end.
    batch = taken(upload(client, archive(PART + 1000, "workbook"), "large.xlsx"))
    assert row(server, batch, "FileType") == (1,)
    assert upload(client, archive(PART + 1000), "large.xlsx").status == 415
    assert len(bucket.objects()) == 3 and bucket.parts() == []


def test_a_slow_storage_suspends_the_upload_and_nobody_else(make_server, bucket):
    server = make_server(config=bucket.config())
    client, other = server.new_client(), server.new_client()
    data = lines(5 * PART)
    bucket.storage.fail(hold=True, count=1, match="partNumber=1&")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        going = pool.submit(upload, client, data, "leads.csv")
        wait_for(lambda: metric(server, "dataflow_upload_waits_total") >= 1, "the upload to wait")
        batch = taken(upload(other))
        assert client.request("GET", "/imports").status == 200 and not going.done()
        assert bucket.seen("partNumber=2&") == 0
        bucket.storage.fail(count=0)
        large = taken(going.result(TIMEOUT))
    assert bucket.objects() == sorted(f"{bucket.prefix}/{b}/original" for b in (batch, large))
    assert row(server, large, "Checksum") == (hashlib.sha256(data).hexdigest(),)


class Slow:
    """An upload whose length is not told, piece by piece."""

    def __init__(self, server, client, size=2 * PART):
        self.socket = socket.create_connection(server.host_port, TIMEOUT, (client.address, 0))
        self.body, kind = multipart(lines(size), "leads.csv")
        headers = {**client.headers, "Content-Type": kind, "Transfer-Encoding": "chunked", "Host": "x"}
        self.socket.sendall("".join([f"POST /imports HTTP/1.1\r\n", *(f"{k}: {v}\r\n" for k, v in headers.items()), "\r\n"])
                            .encode())

    def send(self, size):
        piece, self.body = self.body[:size], self.body[size:]
        self.socket.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        return self

    def is_answered(self):
        return bool(select.select([self.socket], [], [], 0)[0])

    def answer(self):
        [answer] = read_responses(self.socket, 1)
        self.socket.close()
        return answer


def test_limits_cut_an_upload_off_in_the_middle_and_its_parts_go(make_server, bucket):
    server = make_server(config=bucket.config())
    client = server.new_client()
    policy(server, client, maxFileSizeMb=8)
    slow = Slow(server, client).send(7 * MB)
    wait_for(bucket.parts, "the first part")
    answer = slow.send(2 * MB).answer()
    assert answer.status == 409 and answer.json["code"] == "MaxFileSizeMb"
    wait_for(lambda: bucket.parts() == [], "the parts to be gone")
    # The sender leaves.
    policy(server, client, maxFileSizeMb=None)
    slow = Slow(server, client).send(7 * MB)
    wait_for(bucket.parts, "the first part")
    slow.socket.close()
    wait_for(lambda: bucket.parts() == [], "the parts to be gone again")
    assert bucket.objects() == [] and directories(server) == set()
    assert len(server.log("UploadAbandoned")) == 1


def test_uploads_share_the_memory_budget(make_server, bucket):
    server = make_server(config=bucket.config(server={"memory_budget_mb": 48}))
    client = server.new_client()
    slow = Slow(server, client).send(MB)
    body, kind = multipart(lines(2 * PART), "leads.csv")

    def there_is_no_room():
        nonlocal slow
        if slow.is_answered():  # the other one was quicker
            slow.socket.close()
            slow = Slow(server, client).send(MB)
        answer = client.request("POST", "/imports", body, {"Content-Type": kind})
        return answer.status == 503 and answer

    refused = wait_for(there_is_no_room, "no room for two")
    assert refused.headers["Retry-After"]
    taken(upload(client))  # a small one needs little
    slow.socket.close()
    wait_for(lambda: client.request("POST", "/imports", body, {"Content-Type": kind}).status == 202, "room again")


@pytest.mark.parametrize("fault,status", [({"status": 403, "count": 1}, 500), ({"status": 503, "count": 1}, 202),
                                          ({"status": 503, "count": 100}, 503), ({"status": 200, "count": 1}, None)])
def test_a_storage_that_is_unwell(make_sqlite_server, bucket, fault, status):
    server = make_sqlite_server(config=bucket.config())
    client = server.new_client()
    bucket.storage.fail(**fault, method="POST", match="?uploads=")
    answer = upload(client, lines(PART + 1000), "leads.csv")
    if status is None:  # an answer to the beginning that says nothing
        assert answer.status == 503
    else:
        assert answer.status == status
    if answer.status == 503:
        assert answer.headers["Retry-After"] and answer.json["code"] == "Busy" and server.log("StorageUnavailable")
    assert len(bucket.objects()) == (answer.status == 202) and bucket.parts() == []
    bucket.storage.fail(count=0)
    taken(upload(client, CSV, "leads.csv"))


# --- workers -----------------------------------------------------------------------------------------


def test_a_worker_without_the_disk_of_the_api_finishes_the_batch(make_server, make_peer, bucket):  # noqa: F811
    """On PostgreSQL as two hosts would; on SQLite they have the database's file in common, and no other directory."""
    peer = make_peer()
    api = make_server(config=bucket.config(server={"roles": "api"}))
    client = api.new_client()
    batches = [taken(upload(client, json.dumps(leads(25)).encode())),
               taken(upload(client, lines(PART + MB), "leads.csv"))]
    assert len(bucket.objects()) == 2
    worker = make_server(backend=api.backend, config=worker_config(bucket, peer, server={"roles": "import"}))
    assert worker.directory != api.directory
    assert figures(wait_end(client, batches[0])) == ("Completed", 25, 25, 0, 0)
    assert wait_end(client, batches[1])["status"] == "Completed"
    wait_for(lambda: bucket.objects() == [] and directories(worker) == set(), "object and copy to be gone")
    assert directories(api) == set()


def test_a_copy_goes_when_its_process_ends_and_another_one_goes_on(make_server, make_peer, bucket):  # noqa: F811
    peer = make_peer()
    peer.answer = lambda request: 503
    first = make_server(config=worker_config(bucket, peer, omniflow={"max_retries": 100, "retry_delays_ms": "50"}))
    client = first.new_client()
    batch = taken(upload(client, json.dumps(leads(25)).encode()))
    wait_for(lambda: peer.came(batch), "the batch to be worked on")
    assert directories(first) == {batch}
    assert first.stop() == 0
    assert directories(first) == set() and len(bucket.objects()) == 1
    peer.answer = lambda request: 200
    second = make_server(backend=first.backend, config=worker_config(bucket, peer))
    client.server = second
    assert figures(wait_end(client, batch)) == ("Completed", 25, 25, 0, 0)
    wait_for(lambda: bucket.objects() == [] and directories(second) == set(), "object and copy to be gone")


def test_a_batch_whose_object_is_not_to_be_had_waits_and_a_changed_one_fails(make_sqlite_server, make_peer, bucket,  # noqa: F811
                                                                              tmp_path):
    clock, peer = FakeClock(tmp_path), make_peer()
    api = make_sqlite_server(config=bucket.config(server={"roles": "api"}))
    client = api.new_client()
    waits, changed, lost = (taken(upload(client, json.dumps(leads(25)).encode())) for _ in range(3))
    bucket.storage.ask("PUT", f"/v1/AUTH_test/bucket/{bucket.prefix}/{changed}/original", data=b"[]")
    bucket.storage.ask("DELETE", f"/v1/AUTH_test/bucket/{bucket.prefix}/{lost}/original")
    bucket.storage.fail(status=403, count=1, method="GET", match=waits)
    worker = make_sqlite_server(backend=api.backend, clock=clock, config=worker_config(bucket, peer, server={"roles": "import"}))
    assert wait_end(client, changed)["status"] == "Failed"
    assert wait_end(client, lost)["status"] == "Failed"
    found = state(client, waits)
    [told] = log_of(worker, waits, "FileUnavailable")
    assert found["status"] == "Scheduled" and found["lastError"] and "403" in told["message"]
    assert bucket.objects() == [f"{bucket.prefix}/{waits}/original"]
    clock.advance(minutes=2)
    assert figures(wait_end(client, waits)) == ("Completed", 25, 25, 0, 0)


def put_copy(server, batch, hours):
    """As a download left it that was killed."""
    file = server.directory / "data" / "imports" / batch / "original" / ".upload"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    age(file.parent.parent, hours)


def age(directory, hours):
    for path in [*directory.rglob("*"), directory]:
        before = path.stat().st_mtime - 3600 * hours
        os.utime(path, (before, before))


def test_a_copy_that_is_not_used_goes_and_one_in_work_stays(make_sqlite_server, make_peer, bucket):  # noqa: F811
    peer, hang = make_peer(), threading.Event()
    peer.answer = lambda request: hang.wait(TIMEOUT) and 200
    server = make_sqlite_server(config=worker_config(bucket, peer, server={"roles": "api,import"}))
    client = server.new_client()
    used, unused = (taken(upload(client, json.dumps(leads(25)).encode())) for _ in range(2))
    wait_for(lambda: peer.came(used), "the first to be worked on")
    age(server.directory / "data" / "imports" / used, 2)
    put_copy(server, unused, 2)
    put_copy(server, str(uuid.uuid4()), 2)
    keeper = make_sqlite_server(backend=server.backend, config=bucket.config(
        server={"roles": "maintain", "data_dir": server.directory / "data"}))
    wait_for(lambda: len(keeper.log("OrphanRemoved") + server.log("OrphanRemoved")) >= 2, "housekeeping, of either process")
    assert keeper.stop() == 0  # after a whole turn
    assert directories(server) == {used} and len(bucket.objects()) == 2
    hang.set()
    for batch in (used, unused):
        assert figures(wait_end(client, batch)) == ("Completed", 25, 25, 0, 0)
    wait_for(lambda: bucket.objects() == [] and directories(server) == set(), "objects and copies to be gone")


# --- nothing stays for ever --------------------------------------------------------------------------


def test_what_a_kill_leaves_in_the_bucket_is_swept(make_server, bucket, tmp_path):
    clock = FakeClock(tmp_path)
    server = make_server(config=bucket.config(), clock=clock)
    client = server.new_client()
    kept = taken(upload(client, CSV, "leads.csv"))
    orphan = f"{bucket.prefix}/{taken(upload(client, CSV, 'leads.csv'))}/original"
    over = f"{bucket.prefix}/{taken(upload(client, CSV, 'leads.csv'))}/original"
    slow = Slow(server, client).send(7 * MB)
    wait_for(bucket.parts, "the first part")
    server.kill()
    slow.socket.close()
    # Its row was not committed, or its batch ended while the storage was away; and what others keep there.
    execute(server, f"DELETE FROM ImportBatch WHERE Id = '{orphan.split('/')[1]}'")
    execute(server, f"UPDATE ImportBatch SET Status = 6 WHERE Id = '{over.split('/')[1]}'")
    foreign = [f"{bucket.prefix}/notes.txt", f"{bucket.prefix}/{uuid.uuid4()}/original", f"{bucket.prefix}/{uuid.uuid4()}/a/b"]
    for name in foreign:
        bucket.storage.ask("PUT", f"/v1/AUTH_test/bucket/{name}", data=b"DFE1")
    server.start()
    clock.advance(hours=4)
    bucket.storage.fail(count=0)

    def sweeps_on(condition):
        clock.advance(minutes=20)
        return condition()

    wait_for(lambda: sweeps_on(lambda: bucket.seen("&uploads=") >= 2), "the bucket to be listed", every=0.3)
    assert bucket.parts() and len(bucket.objects()) == 6, "it may be an upload that is under way"
    clock.advance(hours=10)
    wait_for(lambda: sweeps_on(lambda: bucket.parts() == [] and len(bucket.objects()) == 4), "the sweep", every=0.3)
    assert set(bucket.objects()) == {f"{bucket.prefix}/{kept}/original", *foreign}
    wait_for(lambda: server.log("ForeignObjects"), "what is not ours to be told")
    assert {line["location"] for line in server.log("OrphanRemoved") if "location" in line} >= {
        f"s3://bucket/{orphan}", f"s3://bucket/{over}"}
    assert metric(server, "dataflow_orphans_removed_total") == 3


def test_an_upload_that_takes_too_long_ends_before_it_could_be_swept(make_sqlite_server, bucket, tmp_path):
    clock = FakeClock(tmp_path)
    server = make_sqlite_server(config=bucket.config(), clock=clock)
    slow = Slow(server, server.new_client()).send(7 * MB)
    wait_for(bucket.parts, "the first part")
    clock.advance(hours=12.5)
    assert slow.send(MB).answer().status == 408
    wait_for(lambda: bucket.parts() == [], "the parts to be gone")
    # All of it is there, but for the end.
    slow = Slow(server, server.new_client(), PART + MB).send(2 * PART)
    wait_for(bucket.parts, "the first part")
    clock.advance(hours=12.5)
    assert slow.send(0).answer().status == 408
    wait_for(lambda: bucket.parts() == bucket.objects() == [], "all of it to be gone")


def test_a_rotation_brings_objects_under_the_new_key(make_sqlite_server, bucket, tmp_path):
    clock = FakeClock(tmp_path)
    server = make_sqlite_server(config=bucket.config(), clock=clock)
    client = server.new_client()
    batch = taken(upload(client, lines(PART + MB), "leads.csv"))
    name = f"{bucket.prefix}/{batch}/original"
    before = bucket.read(name)[:32]
    answer = server.admin().post("/admin/keys/rotate")
    assert answer.status == 202

    def is_moved():
        clock.advance(seconds=20)
        return bucket.read(name)[24:32] != before[24:32]

    wait_for(is_moved, "the object to be under the new key", every=0.3)
    assert bucket.objects() == [name] and bucket.parts() == []
    assert client.request("DELETE", f"/imports/{batch}").status == 204
    wait_for(lambda: bucket.objects() == [], "the object to be gone")


# --- settings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings,word", [
    (["imports.storage=s3"], "imports.bucket"), (["imports.storage=s3", "imports.bucket=bucket"], "imports.bucket"),
    (["imports.storage=ftp"], "storage"), (["imports.storage=s3", "imports.bucket=s3://bucket"], "s3.access_key"),
    (["imports.bucket=s3://a", "imports.scheduled_storage=s3://b"], "same place"),
    (["imports.storage=s3", "imports.bucket=s3://bucket", "s3.access_key=a", "s3.secret_key=b", "server.memory_budget_mb=32"],
     "memory_budget_mb"),
])
def test_settings_that_do_not_fit(settings, word):
    told = run("check-config", *(a for s in settings for a in ("--set", s)))
    assert told.returncode == 2 and word in told.stderr


@pytest.mark.parametrize("settings", [
    ["imports.storage=s3", "imports.scheduled_storage=s3://bucket/x"], ["imports.bucket=s3://bucket/x/"],
    ["imports.storage=s3", "imports.bucket=s3://bucket/x/", "imports.scheduled_storage=s3://bucket/x"],
])
def test_settings_that_fit(settings):
    told = run("check-config", *(a for s in [*settings, "s3.access_key=a", "s3.secret_key=b"] for a in ("--set", s)))
    assert told.returncode == 0, told.stderr
