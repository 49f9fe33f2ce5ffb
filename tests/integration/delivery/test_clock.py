"""The clock that tests move (tests/shim/clock.c): the server's time is the test's, in what it writes and in what it waits for."""

import datetime

import pytest
from gateway import Gateway
from harness import FakeClock, wait_for
from test_interface_acks import short

pytestmark = pytest.mark.tools


@pytest.fixture
def clock(tmp_path):
    return FakeClock(tmp_path)


def written(server):
    """The time of the newest line of the audit log."""
    at = server.admin().get("/admin/audit").json["items"][0]["occurredAt"]
    return datetime.datetime.fromisoformat(at.replace("Z", "+00:00"))


def is_now(time, clock):
    return abs(time - clock.now()) < datetime.timedelta(hours=1)


def test_what_is_written_has_the_time_of_the_clock(make_sqlite_server, clock):
    server, other = make_sqlite_server(clock=clock), make_sqlite_server()
    for days in (0, 3, 40):
        clock.advance(days=days)
        server.new_client()
        assert is_now(written(server), clock)
    clock.advance(days=1)
    server.restart().new_client()
    assert is_now(written(server), clock)
    clock.advance(days=1)
    assert server.cli("client", "create", "--name", "By hand").returncode == 0
    assert is_now(written(server), clock)
    other.new_client()
    assert clock.now() - written(other) > datetime.timedelta(days=44), "without the clock it is today"


def test_what_waits_for_a_time_goes_on_when_it_has_come(make_sqlite_server, clock):
    gateway = Gateway()
    try:
        gateway.fail(503, Retry_After=300)
        server = make_sqlite_server(clock=clock, config={
            "gateway": {"functional_ack_url": gateway.url + "/ack", "api_key": "gateway-key-of-the-tests"},
            "delivery": {"allow_private_targets": "on"}})
        assert server.new_client().post("/api/functional-ack", short("CLOCK-1")).status == 202
        wait_for(lambda: len(gateway.seen("/ack")) == 1, "the first try")
        gateway.recover()
        clock.advance(minutes=6)
        wait_for(lambda: gateway.arrived("/ack") == {"CLOCK-1"}, "the next one, five minutes later")
    finally:
        gateway.close()
