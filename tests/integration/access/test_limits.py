"""Limits of clients: the rate, what an answer tells of it, uploads at a time, several replicas, usage, maintenance told
beforehand. The rules of the rate themselves: tests/unit/resilience/limiter_test.c, with a clock of its own."""

import concurrent.futures
import contextlib
import re
import socket
import threading
from datetime import datetime, timedelta, timezone
from urllib.parse import urlsplit

import psycopg2
import pytest
from harness import FakeClock, Server, wait_for
from test_imports_receive import LEADS, Slow, multipart, upload
from test_openapi import DOCUMENT, check

pytestmark = pytest.mark.threads

POLICY = re.compile(r'"default";q=(\d+);w=60')
LEFT = re.compile(r'"default";r=(\d+);t=(\d+)')


def limit(server, client, **values):
    answer = server.admin().patch(f"/admin/clients/{client.id}/policy", values)
    assert answer.status == 200, answer


def fields(answer):
    """The limit, and what is left of it."""
    policy, left = POLICY.fullmatch(answer.headers["RateLimit-Policy"]), LEFT.fullmatch(answer.headers["RateLimit"])
    return int(policy[1]), int(left[1])


def usage(server, client):
    answer = server.admin().get(f"/admin/clients/{client.id}/usage")
    assert answer.status == 200, answer
    return answer.json


@pytest.fixture
def client(server):
    return server.new_client()


# --- the rate ----------------------------------------------------------------------------------------


def test_over_the_limit_is_429_and_every_answer_tells_of_it(server, client):
    assert "RateLimit" not in client.get("/whoami").headers, "without a limit there is nothing to tell"
    limit(server, client, requestsPerMinute=5)
    answers = [client.get("/whoami") for _ in range(8)]
    assert [a.status for a in answers] == [200] * 5 + [429] * 3, "at once, through the replica that changed it"
    assert [fields(a) for a in answers] == [(5, max(n, 0)) for n in range(4, -4, -1)]
    assert all(50 <= int(LEFT.fullmatch(a.headers["RateLimit"])[2]) <= 60 for a in answers), "when the first is a minute old"
    refused = answers[-1]
    assert refused.code == "TooManyRequests"
    assert 50 <= int(refused.headers["Retry-After"]) <= 60
    assert "5 requests a minute" in refused.json["detail"]


def test_the_whole_limit_passes_at_once(server, client):
    """Thirty calls side by side, then none. When the next one passes: limiter_test.c, where the clock can be moved."""
    limit(server, client, requestsPerMinute=30)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: client.get("/whoami"), range(40)))
    assert sorted(a.status for a in answers) == [200] * 30 + [429] * 10
    assert sorted(fields(a)[1] for a in answers if a.status == 200) == list(range(30))
    assert client.get("/whoami").status == 429


def test_a_refusal_is_counted_and_logged_once_a_minute(server, client):
    limit(server, client, requestsPerMinute=1)
    for _ in range(5):
        client.get("/whoami")
    metrics = server.admin().get("/metrics").body.decode()
    assert f'dataflow_rate_limited_total{{client_id="{client.id}"}} 4' in metrics
    lines = [line for line in server.log("RateLimited") if line["clientId"] == client.id]
    assert len(lines) == 1 and lines[0]["level"] == "warn" and lines[0]["requestsPerMinute"] == 1


def test_every_call_of_the_client_counts_those_that_fail_too(server, client):
    limit(server, client, requestsPerMinute=5)
    calls = [client.get("/imports/00000000-0000-0000-0000-000000000000"), client.post("/events", {}),
             client.get("/imports?pageSize=x"), upload(client), client.get("/v1/whoami")]
    assert [a.status for a in calls] == [404, 400, 400, 202, 200]
    assert [fields(a)[1] for a in calls] == [4, 3, 2, 1, 0]
    assert upload(client).code == "TooManyRequests", "and an upload is refused before its body is read"
    assert client.request("HEAD", "/whoami").status == 429


def test_what_is_not_the_clients_does_not_count(server, client):
    limit(server, client, requestsPerMinute=2)
    wrong = server.client(client.id, "not the secret")
    assert wrong.get("/whoami").status == 401 and "RateLimit" not in wrong.get("/whoami").headers
    assert usage(server, client)["requests"] == {"lastMinute": 0, "limit": 2}
    assert server.anonymous().get("/healthz").status == 200
    assert [client.get("/whoami").status for _ in range(3)] == [200, 200, 429]
    assert server.new_client().get("/whoami").status == 200


def test_a_missing_scope_counts_and_suspension_comes_first(server):
    client = server.new_client(scopes=["events"])
    limit(server, client, requestsPerMinute=1)
    assert fields(client.get("/imports"))[1] == 0
    assert client.get("/imports").status == 429
    assert server.admin().patch(f"/admin/clients/{client.id}", {"status": "Suspended"}).status == 200
    assert client.get("/imports").code == "ClientSuspended"


def test_a_limit_changes_and_goes(server, client):
    limit(server, client, requestsPerMinute=1)
    assert [client.get("/whoami").status for _ in range(2)] == [200, 429]
    limit(server, client, requestsPerMinute=1000)
    wait_for(lambda: client.get("/whoami").status == 200, "more room")
    assert server.admin().request("DELETE", f"/admin/clients/{client.id}/policy").status == 204
    answers = [client.get("/whoami") for _ in range(60)]
    assert {a.status for a in answers} == {200} and "RateLimit" not in answers[0].headers


def test_a_change_from_the_terminal_is_noticed(server, client):
    assert client.get("/whoami").status == 200
    assert server.cli("policy", "set", client.id, "requestsPerMinute=1").returncode == 0
    wait_for(lambda: client.get("/whoami").status == 429, "the limit to be known")


def test_uploads_at_a_time_tell_of_the_rate_too(server, client):
    limit(server, client, requestsPerMinute=600, concurrentUploads=1)
    body, _ = multipart(b"[" + b" " * 300_000 + LEADS[1:])
    with Slow(client, len(body)) as slow:
        slow.send(body[:200_000])
        wait_for(lambda: usage(server, client)["uploads"] == {"inProgress": 1, "limit": 1}, "the first to be admitted")
        answer = upload(client)
        assert (answer.status, answer.code) == (429, "ConcurrentUploads")
        assert int(answer.headers["Retry-After"]) >= 1 and fields(answer)[0] == 600
        slow.send(body[200_000:])
        assert slow.answer().status == 202
    assert usage(server, client)["uploads"] == {"inProgress": 0, "limit": 1}


# --- several replicas --------------------------------------------------------------------------------


@pytest.fixture
def second(server, backend_name, tmp_path):
    """Another process on the module's database."""
    if backend_name == "sqlite":
        pytest.skip("SQLite has one process")
    other = Server(server.backend, tmp_path)
    yield other.start()
    other.finish()


def test_replicas_know_what_the_others_admitted_until_they_are_gone(server, second):
    asking, uploading = server.new_client(), server.new_client()
    limit(server, asking, requestsPerMinute=5)
    limit(server, uploading, concurrentUploads=1)
    there = second.client(asking.id, asking.secret)
    assert [there.get("/whoami").status for _ in range(5)] == [200] * 5
    wait_for(lambda: usage(server, asking)["requests"]["lastMinute"] == 5, "the other to have heard of it")
    answer = asking.get("/whoami")
    assert answer.status == 429 and fields(answer)[1] == 0

    with Slow(second.client(uploading.id, uploading.secret), 1_000_000) as slow:
        slow.send(multipart(b"[" + b" " * 200_000)[0][:150_000])
        wait_for(lambda: usage(server, uploading)["uploads"]["inProgress"] == 1, "the upload to be known")
        assert upload(uploading).code == "ConcurrentUploads"
        second.kill()  # nobody takes its rows away
        wait_for(lambda: usage(server, uploading)["uploads"]["inProgress"] == 0, "the dead one to be forgotten")
    assert upload(uploading).status == 202
    assert asking.get("/whoami").status == 429, "but what it admitted counts for its minute"


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_a_replica_admitted_counts_when_it_is_gone(server, second, end):
    client, other = server.new_client(), server.new_client()
    limit(server, client, requestsPerMinute=30)
    limit(server, other, concurrentUploads=1)
    there = second.client(client.id, client.secret)
    assert [there.get("/whoami").status for _ in range(30)] == [200] * 30
    with Slow(second.client(other.id, other.secret), 1_000_000) as slow:
        slow.send(multipart(b"[" + b" " * 200_000)[0][:150_000])
        wait_for(lambda: usage(server, other)["uploads"]["inProgress"] == 1, "the upload to be known")
        if end == "kill":
            second.kill()
    if end == "stop":
        assert second.stop() == 0
    wait_for(lambda: usage(server, other)["uploads"]["inProgress"] == 0, "it to be known as gone")
    assert [client.get("/whoami").status for _ in range(5)] == [200] * 3 + [429] * 2, "a tenth more"


@pytest.mark.tools
@pytest.mark.parametrize("minutes", [-60, 60])
def test_replicas_whose_clocks_differ_share_a_limit(server, backend_name, tmp_path, minutes):
    if backend_name == "sqlite":
        pytest.skip("SQLite has one process")
    clock = FakeClock(tmp_path)
    clock.advance(minutes=minutes)
    second = Server(server.backend, tmp_path, clock=clock).start()
    client = server.new_client()
    limit(server, client, requestsPerMinute=30)
    there = second.client(client.id, client.secret)
    assert [there.get("/whoami").status for _ in range(20)] == [200] * 20
    assert [client.get("/whoami").status for _ in range(15)] == [200] * 13 + [429] * 2
    assert there.get("/whoami").status == 429
    second.finish()


def test_a_lock_that_is_not_had_holds_nobody_up(backend_name, make_server):
    """Another process has the lock of the exchange and does not go on. One thread writes for all clients here."""
    if backend_name != "postgres":
        pytest.skip("the lock of PostgreSQL")
    server = make_server(config={"database": {"pool_size": 2}})
    client, other = server.new_client(), server.new_client()
    limit(server, client, requestsPerMinute=5)
    assert client.get("/whoami").status == 200
    with contextlib.closing(psycopg2.connect(server.backend.url)) as stuck:
        stuck.cursor().execute("SELECT pg_advisory_lock(4927347428462194552)")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            waiting = [pool.submit(client.get, "/whoami") for _ in range(4)]
            assert [upload(other).status for _ in range(4)] == [202] * 4, "others write"
            assert [w.result().status for w in waiting] == [200] * 4, "and those that wait are answered"
        assert client.get("/whoami").status == 429


class Line:
    """Forwards to the database, until it is held: then nothing comes through, and nothing ends."""

    def __init__(self, url):
        self.to = urlsplit(url)
        self.free = threading.Event()
        self.free.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = self.to._replace(netloc=f"{self.to.netloc.rpartition('@')[0]}@127.0.0.1:{self.listener.getsockname()[1]}").geturl()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            far = socket.create_connection((self.to.hostname, self.to.port))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.free.wait()
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def test_a_database_that_is_silent_holds_no_request_up(backend_name, make_backend, tmp_path):
    if backend_name != "postgres":
        pytest.skip("one database server is enough")
    backend = make_backend()
    line = Line(backend.url)
    server = Server(backend, tmp_path, {"database": {"url": line.url}}).start()
    client = server.new_client()
    limit(server, client, requestsPerMinute=3)
    assert client.get("/whoami").status == 200
    line.free.clear()
    try:
        assert client.get("/whoami").status == 200
        assert not server.log("UsageNotShared"), "answered before the connection was given up"
    finally:
        line.free.set()
    wait_for(lambda: client.get("/whoami").status == 429, "the limit")
    server.finish()
    line.listener.close()


def test_replicas_together_admit_the_limit_and_a_tenth_at_most(server, second):
    """Both are asked for the whole limit at the same moment, side by side; they know nothing of each other before."""
    client = server.new_client()
    limit(server, client, requestsPerMinute=100)
    asked = [client, second.client(client.id, client.secret)]
    assert {c.get("/whoami").status for c in asked} == {200}
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda n: asked[n % 2].get("/whoami"), range(240)))
    admitted = 2 + sum(a.status == 200 for a in answers)
    assert {a.status for a in answers} == {200, 429} and 100 <= admitted <= 110
    refused = [a for a in answers if a.status == 429]
    assert all(fields(a) == (100, 0) and 1 <= int(a.headers["Retry-After"]) <= 60 for a in refused)


def test_one_replica_of_two_lets_the_whole_limit_through(server, second):
    client = server.new_client()
    limit(server, client, requestsPerMinute=30)
    there = second.client(client.id, client.secret)
    answers = [there.get("/whoami") for _ in range(32)]
    assert [a.status for a in answers] == [200] * 30 + [429] * 2
    assert [fields(a)[1] for a in answers] == [*range(29, -1, -1), 0, 0]
    assert [client.get("/whoami").status for _ in range(4)] == [200] * 3 + [429], "a tenth more, and told at once"


def test_suspension_and_rotation_hold_on_every_replica(server, second):
    """Any replica answers for any client, and what one is told the other knows soon."""
    client = server.new_client()
    there = second.client(client.id, client.secret)
    assert [c.get("/whoami").status for c in (client, there)] == [200, 200]
    second.admin().patch(f"/admin/clients/{client.id}", {"status": "Suspended"})
    wait_for(lambda: [c.get("/whoami").status for c in (client, there)] == [403, 403], "both to refuse")
    server.admin().patch(f"/admin/clients/{client.id}", {"status": "Active"})
    wait_for(lambda: [c.get("/whoami").status for c in (client, there)] == [200, 200], "both to admit")
    rotated = server.admin().post(f"/admin/clients/{client.id}/rotate-secret?graceSeconds=0")
    assert rotated.status == 200, rotated
    second.remember(rotated.json)
    anew = [s.client(client.id, rotated.json["clientSecret"]) for s in (server, second)]
    wait_for(lambda: [c.get("/whoami").status for c in (*anew, client, there)] == [200, 200, 401, 401], "the new secret alone",
             every=0.5)


# --- usage -------------------------------------------------------------------------------------------


def test_usage_is_what_is_used_and_what_may_be(server, client):
    nothing = usage(server, client)
    check(nothing, DOCUMENT["components"]["schemas"]["Usage"], "no limits")
    resets = nothing["batches"].pop("resetsAt")
    assert timedelta(0) < datetime.fromisoformat(resets) - datetime.now(timezone.utc) < timedelta(hours=26)
    assert nothing == {"clientId": client.id, "requests": {"lastMinute": 0, "limit": None},
                       "uploads": {"inProgress": 0, "limit": None}, "batches": {"today": 0, "limit": None},
                       "storage": {"usedBytes": 0, "quotaBytes": None}, "maintenance": None}
    limit(server, client, requestsPerMinute=100, concurrentUploads=3, maxBatchPerDay=7, tempStorageQuotaMb=2)
    assert upload(client).status == 202
    used = usage(server, client)
    check(used, DOCUMENT["components"]["schemas"]["Usage"], "limits")
    assert used["requests"] == {"lastMinute": 1, "limit": 100} and used["uploads"]["limit"] == 3
    assert used["batches"]["today"] == 1 and used["batches"]["limit"] == 7
    assert used["storage"] == {"usedBytes": len(LEADS), "quotaBytes": 2 << 20}


def test_a_client_sees_its_own_usage_and_nobody_elses(server, client):
    own = client.get(f"/clients/{client.id}/usage")
    assert own.status == 200 and own.json["clientId"] == client.id and own.json["requests"]["lastMinute"] == 1
    other = server.new_client()
    assert client.get(f"/clients/{other.id}/usage").status == 404
    assert client.get("/clients/nobody/usage").status == 404
    assert server.anonymous().get(f"/clients/{client.id}/usage").status == 401
    assert client.get(f"/admin/clients/{client.id}/usage").status == 401
    assert server.admin().get("/admin/clients/nobody/usage").status == 404


# --- maintenance -------------------------------------------------------------------------------------


def test_maintenance_is_told_beforehand_and_while_it_lasts(server, client):
    assert client.get("/imports").json["maintenance"] is None
    now = datetime.now(timezone.utc).replace(second=0, microsecond=0)
    stamp, shown = "%Y-%m-%dT%H:%MZ", "%Y-%m-%dT%H:%M:00.000Z"
    begin, end = now + timedelta(days=2), now + timedelta(days=2, hours=3)
    limit(server, client, maintenanceWindow=f"{begin:{stamp}}/{end:{stamp}}")
    told = client.get("/imports").json
    check(told, DOCUMENT["components"]["schemas"]["BatchPage"], "the page")
    assert told["maintenance"] == {"from": f"{begin:{shown}}", "to": f"{end:{shown}}", "active": False}
    assert usage(server, client)["maintenance"] == told["maintenance"]

    begin, middle, end = (now + timedelta(hours=h) for h in (-1, 1, 2))
    limit(server, client, maintenanceWindow=f"{begin:{stamp}}/{middle:{stamp}}; {middle:{stamp}}/{end:{stamp}}")
    told = client.get("/imports").json["maintenance"]
    assert told == {"from": f"{begin:{shown}}", "to": f"{end:{shown}}", "active": True}
    refused = upload(client)
    assert (refused.status, refused.code) == (503, "MaintenanceWindow")
    assert 3600 <= int(refused.headers["Retry-After"]) <= 7200
