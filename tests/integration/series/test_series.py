"""Figures that the server keeps itself: what was done is what is shown, from every replica, for as long as it is kept."""

import datetime
import uuid
from urllib.parse import urlencode

import pytest
from harness import FakeClock, Http, Server, check_problem, wait_for
from test_imports_receive import upload
from test_interface_tickets import flat
from test_openapi import DOCUMENT, check
from test_sandbox import Sandbox

pytestmark = pytest.mark.threads

SCHEMAS = DOCUMENT["components"]["schemas"]
DELIVERIES = ("ticket-gateway", "ticket-return", "functional-ack")


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    box = Sandbox(tmp_path_factory.mktemp("sandbox"), "--no-record")
    yield Http(box)
    box.finish()


def configuration(sandbox, **more):
    url = "http://{}:{}".format(*sandbox.server.host_port)
    return {
        "series": {"interval_seconds": 1, **more.pop("series", {})},
        "omniflow": {"url": url, "api_key": "k"},
        "imports": {"poll_ms": 20},
        "gateway": {"functional_ack_url": url + "/gateway/functional-ack", "ticket_return_url": url + "/gateway/ticket-return",
                    "ticket_send_url": url + "/gateway/ticket", "api_key": "k"},
        "delivery": {"retry_base_ms": 20, "retry_cap_ms": 50}, **more}


def series(server, client=None, caller=None, own=False, **query):
    path = f"/clients/{client.id}/series" if own else "/admin/series"
    if client and not own:
        query["clientId"] = client.id
    answer = (caller or server.admin()).get(f"{path}?{urlencode(query)}")
    assert answer.status == 200, answer
    check(answer.json, SCHEMAS["OwnSeries" if own else "Series"], "Series")
    return answer.json


def total(server, metric, client=None, **query):
    return sum(p["value"] or 0 for p in series(server, client, metric=metric, **query)["points"])


def send_tickets(client, count):
    for _ in range(count):
        payload = flat(functionalAckIsRequired=True)
        assert client.post("/api/tickets", payload).status == 200


@pytest.fixture(scope="module")
def plain(_module_backends, tmp_path_factory):
    made = Server(_module_backends(), tmp_path_factory.mktemp("server"))
    yield made.start()
    made.finish()


NOW = datetime.datetime.now(datetime.timezone.utc)


def ago(**how):
    return (NOW - datetime.timedelta(**how)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize("field,query", [
    ("metric", {"metric": "requests"}), ("metric", {"metric": "Accepted"}), ("metric", {"metric": "accepted,"}), ("metric", {"metric": "accepted,accepted"}),
    ("metric", {"metric": "," * 1000}), ("metric", {"metric": "accepted;failed"}), ("from", {"from": "yesterday"}), ("to", {"to": "2026-13-01T00:00:00Z"}),
    ("from", {"from": "-1"}), ("to", {"from": ago(hours=1), "to": ago(hours=2)}), ("to", {"from": "2999-01-01T00:00:00Z"}),
    ("step", {"step": "day"}), ("step", {"step": "0"}), ("step", {"step": "-60"}), ("step", {"step": "61"}), ("step", {"step": "30"}), ("step", {"step": "604860"}),
    ("step", {"step": "9" * 40}), ("step", {"from": ago(days=3), "step": "minute"}), ("step", {"from": ago(days=80), "step": "hour"}),
    ("step", {"from": ago(hours=25, minutes=5), "step": "300"}), ("step", {"from": "1970-01-01T00:00:00Z", "step": "86400"}),
    ("channel", {"channel": "c" * 51}), ("clientId", {"clientId": "c" * 65}), ("clientId", {"clientId": "a b"})])
def test_bad_questions(plain, field, query):
    answer = plain.admin().get(f"/admin/series?{urlencode(query)}")
    assert answer.status == 400, answer
    check_problem(answer)
    assert field in [e["field"] for e in answer.json["errors"]], answer


@pytest.mark.parametrize("query,step,points", [
    ({}, 60, 61), ({"from": ago(hours=24)}, 300, 289), ({"from": ago(days=7)}, 3600, 169), ({"from": ago(days=80)}, 86400, 81),
    ({"step": "minute"}, 60, 61), ({"step": "hour"}, 3600, 2), ({"step": "600"}, 600, 7), ({"to": "2999-01-01T00:00:00Z"}, 60, 61),
    ({"from": "", "to": "", "step": "", "metric": "", "channel": "", "clientId": ""}, 60, 61)])
def test_ranges_and_steps(plain, query, step, points):
    answer = series(plain, **query)
    late = (datetime.datetime.now(datetime.timezone.utc) - NOW).total_seconds() // step  # since the tests were collected
    assert answer["step"] == step and -1 <= len(answer["points"]) - points <= 1 + late
    times = [datetime.datetime.fromisoformat(p["time"].replace("Z", "+00:00")).timestamp() for p in answer["points"]]
    assert all(b - a == step for a, b in zip(times, times[1:])) and times[0] % step == 0
    assert all(p["failed"] == 0 for p in answer["points"])


def test_what_is_kept_no_more_is_null(plain):
    points = series(plain, **{"from": ago(days=200), "step": "86400", "metric": "accepted"})["points"]
    assert points[0]["value"] is None and points[-1]["value"] == 0


def test_a_client_sees_itself_only(plain):
    one, two = plain.new_client(), plain.new_client(scopes=["events"])
    assert set(series(plain, two, caller=two, own=True)) == {"metric", "clientId", "channel", "step", "from", "to", "points"}
    assert "annotations" not in series(plain, one, own=True)  # with the admin key
    for path in (f"/clients/{one.id}/series", "/clients/nobody/series"):
        assert two.get(path).status == 404
    assert two.get("/admin/series").status == 401
    assert plain.anonymous().get(f"/clients/{one.id}/series").status == 401
    assert plain.admin().get("/admin/series?clientId=nobody").status == 404
    assert plain.admin().get("/clients/nobody/series").status == 404


def test_nothing_is_counted_when_it_is_off(make_server):
    server = make_server(config={"series": {"enabled": "off", "interval_seconds": 1}})
    send_tickets(server.new_client(), 2)
    server.restart()
    assert server.backend.query("SELECT COUNT(*) FROM SeriesPoints")[0][0] == 0
    assert server.backend.query("SELECT COUNT(*) FROM SeriesMarks")[0][0] == 0


def test_minutes_become_hours_and_go(make_server, sandbox, tmp_path):
    clock = FakeClock(tmp_path)
    server = make_server(config=configuration(sandbox), clock=clock)
    client = server.new_client()
    grain = lambda g: server.backend.query(f"SELECT COUNT(*) FROM SeriesPoints WHERE Grain = {g} AND Accepted > 0")[0][0]  # noqa: E731
    written = "SELECT SUM(Accepted) FROM SeriesPoints WHERE Grain = 60 AND ClientId = '' AND Channel = 'tickets'"
    for _ in range(3):
        send_tickets(client, 2)
        wait_for(lambda: server.backend.query(written)[0][0] == 2, "they are written")
        clock.advance(days=2)
        wait_for(lambda: grain(60) == 0, "the minutes are gone")
    day = {"from": (clock.now() - datetime.timedelta(days=7)).isoformat().replace("+00:00", "Z")}
    assert total(server, "accepted", client, **day) == total(server, "accepted", **day) == 6
    clock.advance(days=100)
    wait_for(lambda: grain(3600) == 0, "the hours are gone")


def kinds(server):
    return [a["kind"] for a in series(server)["annotations"]]


def test_figures_are_what_was_done(make_server, sandbox):
    server = make_server(config=configuration(sandbox))
    clients = [server.new_client(scopes=["interface", "imports"]) for _ in range(2)]
    for client, count in zip(clients, (5, 2)):
        send_tickets(client, count)
    wait_for(lambda: total(server, "delivered") == 21, "every delivery is counted")
    for client, count in zip(clients, (5, 2)):
        assert [total(server, m, client) for m in ("accepted", "processed", "delivered", "failed")] == [
            count, count, 3 * count, 0]
        assert [total(server, "delivered", client, channel=c) for c in DELIVERIES] == [count] * 3
        own = series(server, client, caller=client, own=True, metric="accepted,delivered")
        assert sum(p["accepted"] for p in own["points"]) == count and "annotations" not in own
        assert "value" not in own["points"][0]
    assert total(server, "accepted") == 7 and total(server, "accepted", channel="tickets") == 7
    assert total(server, "accepted", channel="imports") == 0
    wait_for(lambda: series(server, metric="waiting")["points"][-1]["value"] == 0, "nothing waits")


def test_imports_and_their_acks(make_server, sandbox):
    server = make_server(config=configuration(sandbox))
    client = server.new_client()
    body = "telefone;nome\n" + "".join(f"5199999{i:04d};Ana\n" for i in range(20)) + "none;Eva\n"
    assert upload(client, body.encode(), "leads.csv").status == 202
    wait_for(lambda: total(server, "acks", client) == 1, "the chunk is counted")
    assert [total(server, m, client, channel="imports") for m in ("accepted", "processed", "delivered", "failed")] == [1, 20, 1, 1]
    point = next(p for p in series(server, client, metric="ackSeconds,ackP95Seconds,ackMaxSeconds")["points"]
                 if p["ackSeconds"] is not None)
    assert 0 <= point["ackSeconds"] <= point["ackMaxSeconds"] and point["ackP95Seconds"] <= point["ackMaxSeconds"]


def test_failures_waiting_and_annotations(make_server, sandbox):
    settings = configuration(sandbox, breaker={"window": 4, "min_calls": 4, "open_ms": 300000}, alerts={"interval_seconds": 1})
    settings["gateway"]["ticket_send_url"] = "http://127.0.0.1:9/ticket"
    server = make_server(config=settings)
    client = server.new_client()
    send_tickets(client, 6)
    wait_for(lambda: total(server, "failed", client, channel="ticket-gateway") >= 4, "failed tries are counted")
    wait_for(lambda: "BreakerOpened" in kinds(server), "the breaker's moment is noted")
    mark = next(a for a in series(server)["annotations"] if a["kind"] == "BreakerOpened")
    assert "http://127.0.0.1:9" in mark["subject"]
    assert "ReplicaStarted" in kinds(server)
    # A batch in work that nobody has touched for years.
    client_id, = server.backend.query(f"SELECT Id FROM Clients WHERE ClientIdentifier = '{client.id}'")[0]
    batch, zone = str(uuid.uuid4()), "" if server.backend.name == "sqlserver" else "Z"
    server.backend.script(
        "INSERT INTO ImportBatch (Id, ClientId, FileName, FileType, Status, StartedAt, LockedAt, ProcessedRecords, TotalRecords,"
        f" ProcessingHost) VALUES ('{batch}', '{client_id}', 'l.csv', 2, 1, '2020-01-01T00:00:00.000{zone}',"
        f" '9999-01-01T00:00:00.000{zone}', 7, 9, 'another')")
    wait_for(lambda: "AlertFired" in kinds(server), "the alert's moment is noted")
    alert = next(a for a in series(server)["annotations"] if a["kind"] == "AlertFired")
    assert alert["subject"] == f"BatchStuck {batch}"
    server.backend.script(f"UPDATE ImportBatch SET Status = 6 WHERE Id = '{batch}'")
    wait_for(lambda: "AlertResolved" in kinds(server), "and its end")
    pid = server.process.pid
    server.stop()
    stopped = server.backend.query("SELECT Kind, Subject FROM SeriesMarks ORDER BY Id DESC")
    assert stopped[0][0] == "ReplicaStopped" and stopped[0][1].endswith(f"/{pid}")


def test_two_replicas_add_up_and_a_kill_loses_little(make_server, make_backend, sandbox):
    backend = make_backend()
    if backend.name == "sqlite":
        pytest.skip("one process has an SQLite file")
    servers = [make_server(backend=backend, config=configuration(sandbox)) for _ in range(2)]
    client = servers[0].new_client()
    for server in servers:
        send_tickets(server.client(client.id, client.secret), 4)
    wait_for(lambda: total(servers[0], "delivered", client) == 24, "both replicas' figures")
    # What delivers may have written its figures before what accepted.
    wait_for(lambda: total(servers[1], "accepted", client) == total(servers[1], "processed", client) == 8, "the other figures")
    servers[1].kill()
    send_tickets(client, 3)
    wait_for(lambda: total(servers[0], "accepted", client) == 11, "the other goes on")
    wait_for(lambda: total(servers[0], "delivered", client) == 33, "and what the first left behind is delivered and counted")
