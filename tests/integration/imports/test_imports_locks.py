"""The locks of imports, by both providers: owners that die or stand still, servers of locks that do."""

import signal
import threading
import time

import pytest
from harness import TIMEOUT, Backend, Http, Server, skip_if_missing, wait_for
from redis import Redis
from test_imports_process import (  # noqa: F401 (fixtures)
    chunk_rows,
    configuration,
    figures,
    items,
    leads,
    make_peer,
    owner_of,
    same_content,
    send,
    state,
    wait_end,
)
from tls import Authority

pytestmark = pytest.mark.threads

LEASE = 3


@pytest.fixture
def make_redis():
    made = []

    def make(count=1, **kwargs):
        new = [Redis(**kwargs).start() for _ in range(count)]
        made.extend(new)
        return new

    yield make
    for redis in made:
        redis.kill()


def locks_of(provider, servers=(), **imports):
    """The sections of the configuration."""
    sections = {"imports": {"lock": provider, "lease_seconds": LEASE, **imports}}
    if servers:
        sections["redis"] = {"urls": ",".join(s.url for s in servers), "timeout_ms": 900}
    return sections


@pytest.fixture(params=["sql", "redis"])
def sections(request, make_redis):
    """Three servers, one of them away: it is not needed."""
    servers = make_redis(3) if request.param == "redis" else ()
    if servers:
        servers[2].kill()
    return locks_of(request.param, servers)


@pytest.fixture
def make_hosts(tmp_path):
    """Servers on one PostgreSQL with a common directory for uploads, but without the files by which processes that share
    one know that another is gone: as on hosts that share a volume or a bucket."""
    skip_if_missing("postgres")
    backend = Backend("postgres", tmp_path / "database")
    servers = []

    def make(peer, count=2, start=True, **sections):  # noqa: F811
        for _ in range(count):
            config = configuration(peer, **sections)
            config["server"] = {"data_dir": tmp_path / "data"}
            servers.append(Server(backend, tmp_path / f"host{len(servers)}", config=config))
            if start:
                servers[-1].start()
                for mark in (tmp_path / "data" / "instances").iterdir():
                    mark.unlink()
        return servers[-count:]

    yield make
    for server in servers:
        server.finish()
    backend.drop()


@pytest.mark.parametrize("mode", ["exclusive", "concurrent"])
def test_a_killed_owner_is_replaced_within_the_lease(make_hosts, make_peer, sections, mode):  # noqa: F811
    peer = make_peer()
    sections["imports"]["mode"] = mode
    servers = make_hosts(peer, **sections)
    hang = threading.Event()
    peer.answer = lambda request: hang.wait(TIMEOUT) and 200 if request.chunk == 3 and request.nth == 1 else 200
    client = servers[0].new_client()
    batch = send(client, leads(40))
    wait_for(lambda: len(peer.came(batch)) >= 3 and state(client, batch)["processedRecords"] >= 20, "some settled")
    owner, other = owner_of(batch, servers)
    owner.kill()
    assert figures(wait_end(Http(other, client.headers), batch)) == ("Completed", 40, 40, 0, 0)
    hang.set()
    same_content(peer.came(batch))
    assert other.backend.query(f"SELECT COUNT(*) FROM ImportBatch WHERE Id = '{batch}' AND LockedAt IS NULL") == [(1,)]


def test_an_owner_that_wakes_after_its_lease_writes_nothing(make_hosts, make_peer, sections):  # noqa: F811
    """It is stopped with four chunks under way, and its answers come when another has sent them too."""
    peer = make_peer()
    servers = make_hosts(peer, **sections)
    first, second = threading.Event(), threading.Event()

    def answer(request):
        if request.nth == 1:
            return first.wait(TIMEOUT) and 200
        return second.wait(TIMEOUT) and (200, {"status": "Error", "message": "second"})

    peer.answer = answer
    client = servers[0].new_client()
    batch = send(client, leads(40))
    wait_for(lambda: len(peer.came(batch)) == 4, "four under way")
    owner, other = owner_of(batch, servers)
    owner.process.send_signal(signal.SIGSTOP)
    try:
        wait_for(lambda: len(peer.came(batch)) == 8, "the next owner to send them")
        first.set()
    finally:
        owner.process.send_signal(signal.SIGCONT)
    wait_for(lambda: owner.log("BatchLockLost"), "the first owner to notice")
    assert items(other, batch) == [] and {c[0] for c in chunk_rows(other, batch).values()} == {"Sending"}
    second.set()
    assert figures(wait_end(Http(other, client.headers), batch)) == ("CompletedWithErrors", 40, 40, 40, 0)
    assert {k[:2] for k in items(other, batch)} == {("Error", "second")}


def test_processes_with_different_providers_do_not_run_side_by_side(make_hosts, make_peer, make_redis):  # noqa: F811
    peer = make_peer()
    redis = make_redis(1)
    [one] = make_hosts(peer, 1, **locks_of("sql"))
    [other] = make_hosts(peer, 1, start=False, **locks_of("redis", redis))
    refused = other.cli("serve")
    assert refused.returncode == 2
    assert "imports.lock is redis here" in refused.stderr and "stop all that import" in refused.stderr
    assert one.stop() == 0
    other.start()
    client = other.new_client()
    assert figures(wait_end(client, send(client, leads(3)))) == ("Completed", 3, 3, 0, 0)


def locks_check(server):
    return {c["name"]: c for c in server.admin().get("/readyz").json["checks"]}["locks"]


def test_a_redis_that_is_away_delays_and_loses_nothing(make_hosts, make_peer, make_redis):  # noqa: F811
    """One server, in the middle of a batch: killed, and started without its memory."""
    peer = make_peer()
    [redis] = make_redis(1)
    [server] = make_hosts(peer, 1, **locks_of("redis", [redis]))
    client = server.new_client()
    hang = threading.Event()
    peer.answer = lambda request: hang.wait(TIMEOUT) and 200 if request.chunk == 2 and request.nth == 1 else 200
    batch = send(client, leads(30))
    wait_for(lambda: state(client, batch)["processedRecords"] >= 10, "some settled")
    redis.kill()
    wait_for(lambda: server.log("LockServerAway"), "it to be missed")
    wait_for(lambda: server.log("LockLost"), "the end of the lease")
    assert locks_check(server)["status"] == "failed" and "0 of 1 Redis" in locks_check(server)["detail"]
    hang.set()
    wait_for(lambda: server.log("BatchLockLost"), "the batch to be left")
    began = time.monotonic()
    redis.start()
    assert figures(wait_end(client, batch)) == ("Completed", 30, 30, 0, 0)
    assert time.monotonic() - began >= LEASE - 1, "no lock is given before what was given before is over"
    assert server.log("LockServerQuarantined") and server.log("LockServerBack")
    wait_for(lambda: locks_check(server)["status"] == "ok", "all to be well")
    same_content(peer.came(batch))
    metrics = server.admin().get("/metrics").body.decode()
    assert "dataflow_lock_servers_reachable 1" in metrics and 'dataflow_lock_outcomes_total{provider="redis",outcome="lost"} 1' in metrics


def test_redis_by_tls_with_a_password(make_hosts, make_peer, make_redis, tmp_path):  # noqa: F811
    peer = make_peer()
    authority = Authority(tmp_path)
    redis = make_redis(1, password="redis/secret:1", pair=authority.issue())
    sections = locks_of("redis", redis)
    sections["redis"]["urls"] = redis[0].url.replace("redis/secret", "redis%2Fsecret")
    [server] = make_hosts(peer, 1, security={"ca_file": authority.cert}, **sections)
    server.secrets |= {"redis/secret:1", "redis%2Fsecret:1"}
    client = server.new_client()
    assert figures(wait_end(client, send(client, leads(3)))) == ("Completed", 3, 3, 0, 0)
    done = server.cli("doctor", "--json")
    assert '"redis.urls"' in done.stdout and f"127.0.0.1:{redis[0].port} is Redis " in done.stdout
    shown = server.cli("check-config").stdout
    assert "urls = (set)" in shown and "secret" not in shown.split("[redis]")[1].split("[")[0]
    stranger = Authority(tmp_path, "Another")
    done = server.cli("doctor", "--set", f"security.ca_file={stranger.cert}", "--json")
    assert "unknown authority" in done.stdout or "issuer" in done.stdout, done.stdout


def test_a_redis_that_evicts_is_refused(make_hosts, make_peer, make_redis):  # noqa: F811
    [server] = make_hosts(make_peer(), 1, start=False, **locks_of("redis", make_redis(1, policy="allkeys-lru")))
    refused = server.cli("serve")
    assert refused.returncode == 2
    assert "maxmemory-policy is allkeys-lru" in refused.stderr and "noeviction" in refused.stderr
    assert '"problem"' in server.cli("doctor", "--json").stdout


@pytest.mark.parametrize("urls,said", [
    (" , ", "1, 3 or 5 servers"), ("redis://a,redis://b", "1, 3 or 5 servers"), ("http://a", "must begin with redis://"),
    ("redis://a/x", "redis://[user:password@]host"), ("redis://a:6379,redis://b,redis://a", "named twice"),
    ("redis://user@a", "redis://[user:password@]host"),
])
def test_urls_that_cannot_be_meant_are_refused(make_hosts, make_peer, urls, said):  # noqa: F811
    [server] = make_hosts(make_peer(), 1, start=False, imports={"lock": "redis"}, redis={"urls": urls})
    done = server.cli("check-config")
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_require_tls_refuses_redis_in_the_clear(make_hosts, make_peer):  # noqa: F811
    peer = make_peer()
    [server] = make_hosts(peer, 1, start=False, imports={"lock": "redis"}, redis={"urls": "redis://cache.example"})
    done = server.cli("check-config", "--set", "server.require_tls=on")
    assert done.returncode == 2 and "cache.example:6379 is a redis:// URL: write rediss://" in done.stderr
