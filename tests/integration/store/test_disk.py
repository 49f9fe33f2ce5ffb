"""A full disk: writes are refused with 503, reads go on, and all is well when there is room again."""

import contextlib
import http.client
import json
import re
import subprocess
import uuid
from pathlib import Path

import pytest
from harness import TIMEOUT, Backend, Server, wait_for
from test_imports_receive import multipart, taken, upload

MB = 1 << 20
ROOM = 12 * MB


@pytest.fixture
def disk(tmp_path):
    """A small file system of the test's own."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", place], capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True, timeout=60)


@pytest.fixture
def server(disk, tmp_path):
    """Database and data on the small disk, the log elsewhere."""
    made = Server(Backend("sqlite", disk / "db"), tmp_path / "server",
                  config={"server": {"data_dir": disk / "data"}, "imports": {"poll_ms": 200}})
    try:
        made.start()
        yield made
        made.finish()
    finally:
        made.kill()


def ticket(doc, size=0):
    return {"businessEntity": "TCK", "businessDocId": doc, "companyCode": "0050", "branchCode": "1", "destinationCode": "D7",
            "phaseCode": 15, "shipmentEvent": "RCD", "targetApplicationCode": "ASB", "filler": "x" * size}


def post(client, size=0):
    doc = f"TCK_{uuid.uuid4().hex}"
    return doc, client.post("/api/tickets", ticket(doc, size))


def fill(disk):
    """To the last byte; what takes up the room."""
    ballast = disk / "ballast"
    with open(ballast, "ab", buffering=0) as f, contextlib.suppress(OSError):
        while True:
            f.write(b"\0" * 4096)
    return ballast


def until_refused(client, disk):
    """The database's log has reserved space that is used up first. Returns (documents accepted, the refusal)."""
    taken_docs = []
    for _ in range(400):
        doc, answer = post(client, 200_000)
        if answer.status != 200:
            return taken_docs, answer
        taken_docs.append(doc)
        fill(disk)
    raise AssertionError("nothing was refused")


def check_of(server, name, **caller):
    ready = (server.admin() if caller.get("admin") else server.anonymous()).get("/readyz")
    return ready.status, next(c for c in ready.json["checks"] if c["name"] == name)


def stored(server, doc):
    return server.backend.query(f"SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE BusinessDocId = '{doc}'")[0][0]


def says_no_room(answer):
    assert (answer.status, answer.code) == (503, "DiskFull"), answer
    assert int(answer.headers["Retry-After"]) >= 10
    assert answer.json["detail"] == "There is no room on the server's disk."


def test_writes_are_refused_reads_go_on_and_all_is_well_with_room(server, disk):
    client = server.new_client()
    before, answer = post(client)
    assert answer.status == 200
    assert check_of(server, "disk") == (200, {"name": "disk", "status": "ok"})

    ballast = fill(disk)
    docs, refused = until_refused(client, disk)
    says_no_room(refused)
    for _ in range(5):
        lost, refused = post(client, 200_000)
        says_no_room(refused)
        for doc in (before, *docs[-3:]):
            found = client.get(f"/api/tickets?businessEntity=TCK&businessDocId={doc}")
            assert found.status == 200 and len(found.json["items"]) == 1
        assert client.get("/whoami").status == 200
        assert server.admin().get("/admin/clients").status == 200
        assert stored(server, lost) == 0
    status, disk_check = check_of(server, "disk")
    assert (status, disk_check["status"]) == (200, "failed"), "reads go on, so the server is ready"
    assert disk_check["detail"] == "There is no room on the server's disk."
    assert check_of(server, "database")[1]["status"] == "ok"

    ballast.unlink()
    after, answer = post(client, 200_000)
    assert answer.status == 200, "at once, and without a restart"
    wait_for(lambda: check_of(server, "disk")[1]["status"] == "ok", "the disk to be well")
    for doc in (before, *docs, after):
        assert stored(server, doc) == 1
    assert [r[0] for r in server.backend.query("PRAGMA integrity_check")] == ["ok"]
    failures = [line for line in server.log() if line["event"] in ("RequestFailed", "CommitFailed")]
    assert any("disk is full" in line["message"] and str(disk) in line["message"] for line in failures), "the log has it"


def imports_of(disk):
    return sorted(p.name for p in (disk / "data" / "imports").iterdir())


def test_uploads_are_refused_and_leave_nothing(server, disk):
    client = server.new_client()
    batch = taken(upload(client))
    there = imports_of(disk)
    leads = b"[" + b",".join(b'{"phoneNumber":"+55519%08d"}' % i for i in range(60_000)) + b"]"

    ballast = fill(disk)
    says_no_room(upload(client, leads))
    assert imports_of(disk) == there
    # Without a length nobody can know beforehand: the room ends in the middle.
    ballast.unlink()
    left = disk / "left"
    left.write_bytes(b"\0" * MB)
    ballast = fill(disk)
    left.unlink()
    body, kind = multipart(leads)
    with contextlib.closing(http.client.HTTPConnection(*server.host_port, timeout=TIMEOUT)) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request("POST", "/imports", iter([body]), {**client.headers, "Content-Type": kind}, encode_chunked=True)
        answer = client.read(connection, "POST")
    says_no_room(answer)
    wait_for(lambda: imports_of(disk) == there, "what was received to be removed")
    fill(disk)
    assert client.get(f"/imports/{batch}").status == 200
    assert client.get("/imports").json["total"] == 1

    ballast.unlink()
    wait_for(lambda: upload(client, leads).status == 202, "an upload to be taken")


def test_a_log_on_the_full_disk_ends_nothing_and_goes_on(disk):
    server = Server(Backend("sqlite", disk / "db"), disk / "server", config={"server": {"data_dir": disk / "data"}})
    try:
        server.start()
        client = server.new_client()
        ballast = fill(disk)
        for _ in range(50):
            assert server.anonymous().get("/healthz").status == 200
            fill(disk)
        assert client.get("/whoami").status == 200
        ballast.unlink()
        assert post(client)[1].status == 200
        assert server.stop() == 0
        lines = Path(server.log_path).read_text(encoding="utf-8").splitlines()
        torn = [line for line in lines if not line.endswith("}")]
        assert len(torn) <= 1, torn
        for line in lines:
            if line not in torn:
                json.loads(line)
        assert re.search(r'"ServerStopped"', lines[-1])
    finally:
        server.kill()
