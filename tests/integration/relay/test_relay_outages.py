"""A destination that is away, busy or out of reach of a key; relays that are paused; what other processes see of it."""

import uuid

import pytest
from harness import Http, wait_for
from outboxes import Outbox, RelayProcess
from test_openapi import DOCUMENT, check
from test_sandbox import Sandbox

pytestmark = pytest.mark.threads

QUICK = {"breaker": {"window": 10, "min_calls": 5, "open_ms": 150}}


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    box = Sandbox(tmp_path_factory.mktemp("sandbox"))
    yield box
    box.finish()


class Sink:
    """A path of the sandbox that only one test uses."""

    def __init__(self, box):
        self.http = Http(box)
        self.path = "/webhooks/" + uuid.uuid4().hex[:12]
        self.url = "http://{}:{}{}".format(*box.host_port, self.path)

    def fault(self, below="", **fault):
        assert self.http.post("/_faults", {"path": self.path + below, **fault}).status == 201

    def mend(self, below=""):
        assert self.http.request("DELETE", f"/_faults?path={self.path}{below}").status in (200, 204)

    def requests(self):
        paths = [p for p in self.http.get("/_stats").json["paths"] if p["path"].startswith(self.path)]
        return sum(p["requests"] for p in paths)


@pytest.fixture
def sink(box):
    sink = Sink(box)
    yield sink
    sink.mend()


@pytest.fixture
def backend(make_backend):
    return make_backend(empty=True)


@pytest.fixture
def outbox(backend):
    return Outbox(backend)


@pytest.fixture
def run_relay(outbox, sink, tmp_path):
    """A relay that runs alone: what it knows it keeps in memory."""
    made = []

    def run(**settings):
        relay = RelayProcess(tmp_path / f"relay{len(made)}", "orders", outbox.section(
            **{"dispatcher": "http", "target": sink.url + "/{eventType}", **settings}), QUICK)
        made.append(relay)
        return relay.start()

    yield run
    for relay in made:
        relay.finish()


# --- outages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["none", "aggregate"])
@pytest.mark.parametrize("fault", [{"status": 503}, {"status": 401}, {"status": 404}, {"status": 429, "retryAfter": 1}],
                         ids=lambda f: str(f["status"]))
def test_no_event_is_given_up_however_long_the_target_fails(outbox, sink, run_relay, order, fault):
    """Far more tries than max_retries allows failures."""
    sink.fault(**fault)
    outbox.write(12, aggregate_id=lambda i: f"a{i % 6}")
    relay = run_relay(order=order, max_retries=0, retry_cap_ms=100)
    tried = 30 if "retryAfter" not in fault else 12
    wait_for(lambda: len(relay.log("OutboxEventRetry")) >= tried, "many tries", 60)
    rows = outbox.rows("status", "attempts").values()
    assert {(r["status"], r["attempts"]) for r in rows} == {("PENDING", 0)}
    sink.mend()
    outbox.wait(PROCESSED=12)
    assert not relay.log("DeliveryGivenUp")


def test_a_poisoned_event_among_others_is_given_up(outbox, sink, run_relay):
    """Also after an outage in which it was the first probe."""
    sink.fault(status=503)
    poison = outbox.write(1, event_type="Poison")[0]["id"]
    outbox.write(8, event_type="Good")
    relay = run_relay(max_retries=1)
    wait_for(lambda: len(relay.log("OutboxEventRetry")) >= 15, "an outage with probes")
    sink.mend()
    sink.fault("/Poison", status=500)
    fed = outbox.feed(event_type="Good")
    outbox.wait(PROCESSED=8 + fed, FAILED=1)
    rows = outbox.rows("status", "attempts", "last_error")
    assert rows[poison]["status"] == "FAILED" and rows[poison]["attempts"] == 2 and "HTTP 500" in rows[poison]["last_error"]
    wait_for(lambda: relay.log("DeliveryGivenUp"), "the log")
    [line] = relay.log("DeliveryGivenUp")
    assert (line["channel"], line["relay"], line["eventId"].lower(), line["reason"]) == ("relay", "orders", poison, "count")


def test_what_waited_for_the_target_goes_at_once_when_it_is_back(outbox, sink, run_relay):
    """No backoff is left of an outage, whatever the settings say of backoffs."""
    sink.fault(status=503)
    outbox.write(30)
    relay = run_relay(retry_base_ms=1, retry_cap_ms=3600000)
    wait_for(lambda: len(relay.log("OutboxEventRetry")) >= 40, "an outage with probes")
    sink.mend()
    outbox.wait(PROCESSED=30)


# --- in a server --------------------------------------------------------------------------------------


def serve(make_server, outbox, sink, **settings):
    section = outbox.section(dispatcher="http", target=sink.url, **settings)
    return make_server(backend=outbox.backend, config={"relay.orders": section, **QUICK})


def shown(server):
    answer = server.admin().get("/admin/relays")
    assert answer.status == 200, answer
    check(answer.json, DOCUMENT["components"]["schemas"]["RelayList"], "RelayList")
    return next(r for r in answer.json["items"] if r["name"] == "orders")


def stored(backend):
    found = backend.query("SELECT Arrived, DownSince, LastError, LastArrivedAt FROM DeliveryTargets"
                          " WHERE Channel = 'relay' AND Target = 'orders'")
    return dict(zip(("arrived", "down", "error", "at"), found[0])) if found else {}


def pause(outbox, target, paused=True):
    """As POST /admin/outbox/relay/pause does it."""
    outbox.execute(f"DELETE FROM DeliveryTargets WHERE Channel = 'relay' AND Target = '{target}'")
    at = "CURRENT_TIMESTAMP" if paused else "NULL"
    if paused and outbox.backend.name == "sqlite":
        at = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
    outbox.execute(f"INSERT INTO DeliveryTargets (Channel, Target, PausedAt) VALUES ('relay', '{target}', {at})")


def test_operators_see_how_the_target_is(make_server, outbox, sink):
    server = serve(make_server, outbox, sink)
    outbox.write(5)
    outbox.wait(PROCESSED=5)
    wait_for(lambda: stored(outbox.backend).get("arrived") == 5, "the row of the target")
    before = shown(server)
    assert (before["state"], before["downSince"], before["pausedAt"], before["lastError"]) == ("running", None, None, None)
    sink.fault(status=503)
    outbox.write(20)
    wait_for(lambda: shown(server)["state"] == "down", "the outage")
    assert shown(server)["downSince"] and "HTTP 503" in shown(server)["lastError"] and shown(server)["givenUp"] == 0
    wait_for(lambda: stored(outbox.backend)["down"], "the outage, for other processes")
    assert "HTTP 503" in stored(outbox.backend)["error"]
    sink.mend()
    outbox.wait(PROCESSED=25)
    wait_for(lambda: shown(server)["state"] == "running", "the end of the outage")
    wait_for(lambda: stored(outbox.backend)["down"] is None and stored(outbox.backend)["arrived"] == 25, "for others too")


def test_what_arrived_is_counted_over_restarts(make_server, outbox, sink):
    server = serve(make_server, outbox, sink)
    outbox.write(4)
    outbox.wait(PROCESSED=4)
    assert server.stop() == 0
    assert stored(outbox.backend)["arrived"] == 4, "written at the end"
    serve(make_server, outbox, sink)
    outbox.write(3)
    outbox.wait(PROCESSED=7)
    wait_for(lambda: stored(outbox.backend)["arrived"] == 7, "both")


@pytest.mark.parametrize("target", ["orders", ""], ids=["this_relay", "all_relays"])
def test_a_paused_relay_claims_nothing_until_it_is_resumed(make_server, outbox, sink, target):
    server = serve(make_server, outbox, sink)
    wait_for(lambda: stored(outbox.backend), "the row of the target")
    pause(outbox, target)
    wait_for(lambda: shown(server)["state"] == "paused", "the pause")
    outbox.write(5)
    assert server.stop() == 0
    again = serve(make_server, outbox, sink)  # a pause holds over restarts, from the first moment
    wait_for(lambda: shown(again)["pausedAt"], "the pause")
    wait_for(lambda: again.log("RelayPaused"), "the log")
    assert outbox.states() == {"PENDING": 5} and sink.requests() == 0
    pause(outbox, target, paused=False)
    outbox.wait(PROCESSED=5)
    wait_for(lambda: again.log("RelayResumed"), "the log")
    assert shown(again)["state"] == "running"


def test_without_the_tables_of_this_version_relays_work(make_server, outbox, sink):
    """A database that cannot be read keeps no relay back for ever: nobody can have paused it there."""
    outbox.write(3)
    server = serve(make_server, outbox, sink)
    outbox.wait(PROCESSED=3)
    outbox.execute("ALTER TABLE DeliveryTargets RENAME TO Elsewhere" if outbox.backend.name != "sqlserver" else
                   "EXEC sp_rename 'DeliveryTargets', 'Elsewhere'")
    outbox.write(3)
    outbox.wait(PROCESSED=6)
    wait_for(lambda: server.log("RelayHealthFailed"), "the log")
    outbox.execute("ALTER TABLE Elsewhere RENAME TO DeliveryTargets" if outbox.backend.name != "sqlserver" else
                   "EXEC sp_rename 'Elsewhere', 'DeliveryTargets'")
    wait_for(lambda: stored(outbox.backend).get("arrived") == 6, "what was not written yet", 60)
