"""log.ship: what standard error has arrives at Loki, Elasticsearch or a collector, whatever these do meanwhile."""

import collections
import json
import threading

import pytest
from harness import TIMEOUT, run, wait_for
from log_targets import Elastic, Loki, Otlp, Refuse, basic

pytestmark = pytest.mark.threads

TARGETS = [Loki, Elastic, Otlp]


def configuration(target, **more):
    return {"log": {"ship": target.url, "ship_interval_ms": 20, **more}}


def lines_of(server):
    return [line for line in server.log_text().splitlines() if line]


def missing(server, target):
    """What standard error has and the target does not, each as often as it is missing."""
    return collections.Counter(map(target.same, lines_of(server))) - collections.Counter(target.texts())


def wait_all(server, target):
    wait_for(lambda: not missing(server, target), "every line to arrive", timeout=20)


def ask(server, name):
    """A request that the log has under this name."""
    answer = server.anonymous().get("/nowhere", headers={"X-Correlation-Id": name})
    assert answer.status == 404, answer


def metric(server, name):
    for line in server.anonymous().get("/metrics").body.decode().splitlines():
        if line.startswith(name + " "):
            return float(line.rsplit(" ", 1)[1])
    return None


def spool_files(server):
    return [path for path in (server.directory / "data" / "spool" / "logs").rglob("*.log") if path.is_file()]


def spooled(server):
    return b"".join(path.read_bytes() for path in spool_files(server))


@pytest.mark.parametrize("kind", TARGETS)
def test_every_line_arrives_once_from_the_first_to_the_last(make_sqlite_server, kind):
    with kind() as target:
        server = make_sqlite_server(config=configuration(target))
        for i in range(50):
            ask(server, f"once-{i}")
        wait_all(server, target)
        assert server.stop() == 0
        assert lines_of(server)[-1].find('"ServerStopped"') > 0, "the last line stays the last"
        assert not missing(server, target)
        assert sorted(target.texts()) == sorted(map(target.same, lines_of(server))), "nothing twice, nothing else"
        assert not spool_files(server), "nothing is left to send"


def test_names_of_the_common_schema(make_sqlite_server):
    with Elastic("logs-ours-prod") as target:
        server = make_sqlite_server(config=configuration(target, ship=f"{target.url}/logs-ours-prod", ship_labels="site=poa"))
        ask(server, "ecs-1")
        wait_all(server, target)
        document, = wait_for(lambda: [d for d in list(target.documents.values())
                                      if d.get("labels", {}).get("correlationId") == "ecs-1"], "its line")
        assert document["event.action"] == "RequestServed" and document["labels"]["site"] == "poa"
        assert document["client.ip"].startswith("127.") and len(document["trace.id"]) == 32
        assert document["dataflow"]["status"] == 404 and document["service.name"] == "dataflow"


def test_attributes_of_a_record(make_sqlite_server):
    with Otlp() as target:
        server = make_sqlite_server(config=configuration(target))
        ask(server, "otlp-1")
        wait_all(server, target)
        record, = (r for r in target.records if r["attributes"].get("dataflow.correlationId") == "otlp-1")
        assert record["attributes"]["event.name"] == "RequestServed" and record["attributes"]["dataflow.status"] == "404"
        assert record["attributes"]["client.address"].startswith("127.") and len(record["traceId"]) == 32


@pytest.mark.parametrize("kind", TARGETS)
def test_a_target_that_is_away_gets_everything_later(make_sqlite_server, kind):
    target = kind()
    server = make_sqlite_server(config=configuration(target))
    for i in range(20):
        ask(server, f"away-{i}")
    wait_for(lambda: server.log("LogShippingFailing"), "the failure to be told")
    wait_for(lambda: b"away-19" in spooled(server), "the lines to be on the disk")
    assert metric(server, "dataflow_log_spool_lines") > 20
    with target:
        wait_for(lambda: server.log("LogShippingRestored"), "the end of it to be told")
        wait_all(server, target)
        assert server.stop() == 0
        assert sorted(target.texts()) == sorted(map(target.same, lines_of(server)))
    assert len(server.log("LogShippingFailing")) == 1, "once for the whole time"


@pytest.mark.parametrize("kind", TARGETS)
def test_a_killed_process_loses_nothing_that_was_on_the_disk(make_sqlite_server, kind):
    with kind() as target:
        taken = threading.Event()

        def take_and_hang(lines):
            """The target has the lines, and the server never hears of it."""
            with target.lock:
                target.take(lines)
            taken.set()
            raise Refuse(503)

        target.rule = take_and_hang
        server = make_sqlite_server(config=configuration(target))
        for i in range(20):
            ask(server, f"killed-{i}")
        wait_for(lambda: b"killed-19" in spooled(server), "the lines to be on the disk")
        assert taken.wait(TIMEOUT)
        before = lines_of(server)
        wait_for(lambda: all(line.encode() in spooled(server) for line in before), "all of them to be there")
        server.kill()
        target.rule = None
        server.start()
        wait_for(lambda: server.log("LogSpoolAdopted"), "the next process to find them")
        wait_all(server, target)
        if kind is Loki:
            assert target.repeated > 0 and not collections.Counter(target.texts()) - collections.Counter(lines_of(server))
        if kind is Elastic:
            assert target.conflicts > 0, "they were sent again, and known by their ids"
            assert sorted(target.texts()) == sorted(map(target.same, lines_of(server)))
        folders = list((server.directory / "data" / "spool" / "logs").iterdir())
        assert len(folders) == 1, "the folder of the process that is gone was removed"


def test_nobody_waits_for_a_target_that_hangs(make_sqlite_server):
    with Loki() as target:
        release = threading.Event()
        target.rule = lambda _lines: release.wait(TIMEOUT)
        server = make_sqlite_server(config={**configuration(target), "server": {"drain_seconds": 1}})
        wait_for(lambda: target.requests, "a call that hangs")
        for i in range(50):
            ask(server, f"hanging-{i}")
        assert server.anonymous().get("/readyz").status == 200, "a log target is no reason not to be ready"
        assert server.stop() == 0
        assert b"hanging-49" in spooled(server), "what could not be sent stays"
        assert oct(spool_files(server)[0].stat().st_mode & 0o777) == "0o600"
        target.rule = None
        release.set()
        server.start()
        wait_all(server, target)


@pytest.mark.parametrize("kind", TARGETS)
def test_retry_after_is_heeded(make_sqlite_server, kind):
    with kind() as target:
        def busy(_lines):
            raise Refuse(429, Retry_After="1")

        target.plan = [busy]
        server = make_sqlite_server(config=configuration(target))
        wait_all(server, target)
        first, second = target.requests[:2]
        assert second["at"] - first["at"] >= 0.99
        assert [k for k in target.requests[0]["lines"] if k not in second["lines"]] == [], "the same lines again"


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("status", [400, 413])
def test_one_bad_line_is_dropped_alone(make_sqlite_server, kind, status):
    with kind() as target:
        def refuse_bad(lines):
            if "poisonous" in json.dumps(lines):
                raise Refuse(status, b'{"message":"cannot take it"}')

        target.rule = refuse_bad
        server = make_sqlite_server(config=configuration(target, ship_interval_ms=500))
        for i in range(30):
            ask(server, "poisonous" if i == 17 else f"good-{i}")
        wait_for(lambda: server.log("LogLinesDropped"), "the loss to be told")
        told, = server.log("LogLinesDropped")
        assert told["reason"] == "refused" and told["lines"] == 1
        assert metric(server, 'dataflow_log_lines_total{outcome="refused"}') == 1
        (line,) = [x for x in lines_of(server) if "poisonous" in x]
        wait_for(lambda: missing(server, target) == {target.same(line): 1}, "all others")


def test_items_of_a_bulk_are_judged_one_by_one(make_sqlite_server):
    with Elastic() as target:
        refused, busy = set(), {"busy-3", "busy-4", "busy-5"}

        def verdict(document):
            name = document.get("labels", {}).get("correlationId")
            if name == "never":
                refused.add(name)
                return 400
            if name in busy:
                busy.discard(name)
                return {"busy-3": 429, "busy-4": 503, "busy-5": 403}[name]
            return None

        target.verdict = verdict
        server = make_sqlite_server(config=configuration(target, ship_interval_ms=300))
        for i in range(10):
            ask(server, "never" if i == 2 else f"busy-{i}")
        wait_for(lambda: not busy and sum(missing(server, target).values()) == 1, "all but the one")
        assert refused == {"never"} and target.conflicts == 0, "only what was not taken was sent again"
        again = [r for r in target.requests if any("busy-3" in json.dumps(line) for line in r["lines"])]
        assert len(again) == 2 and len(again[1]["lines"]) == 3, "three items alone"
        wait_for(lambda: server.log("LogLinesDropped"), "the loss to be told")
        assert server.log("LogLinesDropped")[0]["lines"] == 1


@pytest.mark.parametrize("answer", [b"", b"ok", b'{"errors":false}', b'{"errors":true,"items":[]}', b'{"items":[{}],"errors":true}',
                                    b'{"errors":true,"items":[{"create":{"status":"gut"}}]}', b"[" * 3000])
def test_an_answer_to_a_bulk_that_says_nothing_is_none(make_sqlite_server, answer):
    with Elastic() as target:
        def mumble(_lines):
            raise Refuse(200, answer)

        target.plan = [mumble]
        server = make_sqlite_server(config=configuration(target))
        wait_all(server, target)
        assert server.log("LogShippingFailing") and not server.log("LogLinesDropped")


def test_a_partial_success_is_not_sent_again(make_sqlite_server):
    with Otlp() as target:
        target.partial = {"rejectedLogRecords": "2", "errorMessage": "two of them"}
        server = make_sqlite_server(config=configuration(target, ship_interval_ms=500))
        wait_for(lambda: server.log("LogLinesDropped"), "the loss to be told")
        assert server.log("LogLinesDropped")[0]["lines"] == 2
        wait_all(server, target)
        assert len(target.records) == len(lines_of(server))


@pytest.mark.parametrize("status", [500, 501, 418])
def test_a_collector_is_asked_again_only_where_the_protocol_says_so(make_sqlite_server, status):
    with Otlp() as target:
        def fail(_lines):
            raise Refuse(status)

        target.plan = [fail]
        server = make_sqlite_server(config=configuration(target))
        wait_for(lambda: server.log("LogLinesDropped"), "the loss to be told")
        ask(server, "after")
        wait_for(lambda: "after" in json.dumps(target.records), "later lines")
        first = {r["timeUnixNano"] for r in target.requests[0]["lines"]}
        assert not first & {r["timeUnixNano"] for r in target.records}


@pytest.mark.parametrize("status", [401, 403, 404, 502, 503, 504])
def test_nothing_is_dropped_while_we_may_not_speak(make_sqlite_server, status):
    with Otlp() as target:
        def fail(_lines):
            raise Refuse(status)

        target.plan = [fail, fail]
        server = make_sqlite_server(config=configuration(target))
        wait_all(server, target)
        assert not server.log("LogLinesDropped")


def test_a_full_spool_drops_the_oldest_and_says_so(make_sqlite_server):
    target = Loki()
    server = make_sqlite_server(config=configuration(target, spool_max_bytes=1 << 20))
    caller = server.anonymous()

    def flood(name):
        request = f"GET /nowhere HTTP/1.1\r\nHost: here\r\nX-Correlation-Id: {name + 'x' * 80}\r\n\r\n".encode()
        assert len(caller.raw(request * 100, count=100)) == 100

    for i in range(35):
        flood(f"flood-{i}-")
    wait_for(lambda: server.log("LogLinesDropped"), "the loss to be told")
    flood("newest")
    wait_for(lambda: spooled(server).count(b"newest") >= 100, "the newest to be on the disk")
    assert sum(path.stat().st_size for path in spool_files(server)) <= 1 << 20
    assert b"flood-0-" not in spooled(server)
    told = server.log("LogLinesDropped")
    assert len(told) == 1 and told[0]["reason"] == "spool_full" and told[0]["lines"] > 0
    with target:
        wait_for(lambda: "newest" in "".join(target.texts()), "what is left to arrive")
        lost = metric(server, 'dataflow_log_lines_total{outcome="spool_full"}')
        wait_for(lambda: sum(missing(server, target).values()) == lost, "all but those that were counted")
        assert server.stop() == 0


def test_too_old_lines_go(make_sqlite_server, tmp_path):
    from harness import FakeClock

    clock = FakeClock(tmp_path)
    target = Loki()
    server = make_sqlite_server(config=configuration(target, spool_max_hours=2), clock=clock)
    ask(server, "outdated")
    wait_for(lambda: b"outdated" in spooled(server), "the line to be on the disk")
    clock.advance(hours=1)
    ask(server, "younger")
    wait_for(lambda: b"younger" in spooled(server), "the line to be on the disk")
    clock.advance(minutes=61)
    wait_for(lambda: b"outdated" not in spooled(server), "the line to be removed")
    assert b"younger" in spooled(server)
    wait_for(lambda: [e for e in server.log("LogLinesDropped") if e["reason"] == "too_old"], "the loss to be told")


def test_who_sends(make_sqlite_server, tmp_path):
    token = tmp_path / "token"
    token.write_text("glc_4711-abc==\n", encoding="ascii")
    token.chmod(0o600)
    with Loki(labels=["environment"]) as target:
        server = make_sqlite_server(config=configuration(target, ship=f"{target.url}/?tenant=team-a", ship_token_file=token,
                                                         ship_labels="environment=teste"))
        server.secrets.add("glc_4711-abc==")
        wait_all(server, target)
        assert set(target.auth()) == {"Bearer glc_4711-abc=="}
        assert {r["headers"]["x-scope-orgid"] for r in target.requests} == {"team-a"}
    with Elastic() as target:
        server = make_sqlite_server(config=configuration(target, ship_token_file=token))
        wait_all(server, target)
        assert set(target.auth()) == {"ApiKey glc_4711-abc=="}
    with Otlp() as target:
        url = target.url.replace("://", "://ana:s%40gredo-4711@")
        server = make_sqlite_server(config=configuration(target, ship=url))
        server.secrets.add("gredo-4711")
        wait_all(server, target)
        assert set(target.auth()) == {basic("ana", "s@gredo-4711")}
        assert "gredo-4711" not in server.cli("check-config").stdout


@pytest.mark.parametrize("settings, complaint", [
    (["log.ship=http://here:3100"], "must begin with loki://"),
    (["log.ship=lokix://here"], "must begin with loki://"),
    (["log.ship=loki://"], "[log] ship:"),
    (["log.ship=loki://here:99999"], "[log] ship:"),
    (["log.ship=loki://here/?tenant="], "tenant"),
    (["log.ship=loki://here/?user=a"], "?tenant=NAME"),
    (["log.ship=otlp://here/?tenant=a"], "?tenant=NAME"),
    (["log.ship=otlp://here/#a"], "fragment"),
    (["log.ship=elastic://here/Logs"], "index"),
    (["log.ship=elastic://here/a/_bulk"], "index"),
    (["log.ship=otlp://a:b@here", "log.ship_token=c"], "ship_token"),
    (["log.ship=otlp://here", "log.ship_token=a b"], "ship_token"),
    (["log.ship_token=c"], "log.ship, which is not set"),
    (["log.ship=otlp://here", "log.ship_labels=a"], "ship_labels"),
    (["log.ship=otlp://here", "log.ship_labels=a=1,a=2"], "ship_labels"),
    (["log.ship=otlp://here", "log.ship_labels=level=1"], "ship_labels"),
    (["log.ship=otlp://here", "log.ship_labels=" + ",".join(f"l{i}=1" for i in range(9))], "at most 8"),
    (["log.ship=otlp://here", "server.require_tls=on"], "write otlps://"),
    (["log.ship=otlp://here", "log.spool_max_bytes=1000"], "spool_max_bytes"),
])
def test_bad_settings_are_refused(settings, complaint):
    answer = run("check-config", *(arg for setting in settings for arg in ("--set", setting)))
    assert answer.returncode == 2 and complaint in answer.stderr, answer


@pytest.mark.parametrize("url", ["loki://here", "lokis://here:443/prefix?tenant=a", "elastic://[::1]:9200/x/logs-a-b", "elastics://here",
                                 "otlp://a:b@here/", "otlps://here/prefix/"])
def test_good_urls_are_taken(url):
    answer = run("check-config", "--set", f"log.ship={url}")
    assert answer.returncode == 0, answer


def test_doctor_tries_the_target(make_sqlite_server):
    target = Loki()
    server = make_sqlite_server(config=configuration(target), start=False)

    def finding():
        checks = json.loads(server.cli("doctor", "--json").stdout)["checks"]
        return next(c for c in checks if c["subject"] == "log target")

    found = finding()
    assert found["status"] == "problem" and found["name"] == "log.ship" and found["advice"], found
    with target:
        assert finding()["status"] == "ok"
