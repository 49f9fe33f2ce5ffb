"""Which process owns which work: shares, the end of a process and its death, GET /admin/owners and `dataflow owners`."""

import contextlib
import json
import signal

from harness import wait_for
from test_openapi import DOCUMENT, check

SCHEMAS = DOCUMENT["components"]["schemas"]
ALL = list(range(16))
LEASE = {"delivery": {"lease_ms": 1000}}


def owners(server):
    answer = server.admin().get("/admin/owners")
    assert answer.status == 200, answer
    check(answer.json, SCHEMAS["WorkOwnerList"], "WorkOwnerList")
    return answer.json


def shards(server):
    """By process and channel."""
    return [{work["channel"]: work["shards"] for work in owner["work"]} for owner in owners(server)["items"]]


def has_all(server, ids=1):
    """Whether that many processes own all shards of all channels."""
    answer = owners(server)
    by_channel = {}
    for owner in answer["items"]:
        for work in owner["work"]:
            by_channel.setdefault(work["channel"], []).extend(work["shards"])
    return (len(answer["items"]) == ids and not answer["unowned"] and by_channel
            and all(sorted(numbers) == ALL for numbers in by_channel.values()))


def taken(server):
    """How many shards it took, and how many of these from one that did not end as it should."""
    words = [line["message"].split() for line in server.log("WorkTaken")]
    return [(int(line[1]), int(line[3])) for line in words]


@contextlib.contextmanager
def stopped(server):
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def test_one_process_has_everything_when_it_is_ready(make_server):
    server = make_server()
    assert has_all(server)
    owner, = owners(server)["items"]
    assert owner["name"].endswith(f"/{server.process.pid}") and owner["isLate"] is False
    assert owner["startedAt"] <= owner["renewedAt"] < owner["leaseUntil"]
    assert {"functional-ack", "ticket-return", "webhooks"} <= {work["channel"] for work in owner["work"]}


def test_the_command_shows_what_the_api_shows(make_server):
    server = make_server()
    shown = json.loads(server.cli("owners", "--json").stdout)
    check(shown, SCHEMAS["WorkOwnerList"], "WorkOwnerList")
    assert [owner["work"] for owner in shown["items"]] == [owner["work"] for owner in owners(server)["items"]]
    text = server.cli("owners").stdout
    assert f"/{server.process.pid} " in text and "functional-ack 16" in text and "Without an owner" not in text
    assert server.cli("owners", "more").returncode == 2
    server.stop()
    text = server.cli("owners").stdout
    assert "Without an owner" in text and "functional-ack 16" in text
    server.start()


def test_it_is_the_administrators(make_server):
    server = make_server()
    assert server.anonymous().get("/admin/owners").status == 401
    assert server.new_client().get("/admin/owners").status == 401


def test_two_share_and_the_one_that_is_left_has_all(make_server):
    first = make_server()
    second = make_server(first.backend)

    def half_each():
        both = shards(first)
        return len(both) == 2 and both[0].keys() == both[1].keys() and all(
            len(both[0][channel]) == len(both[1][channel]) == 8 and sorted(both[0][channel] + both[1][channel]) == ALL
            for channel in both[0])

    wait_for(half_each, "half of each channel")
    assert second.stop() == 0
    wait_for(lambda: has_all(first), "all again")
    assert [unclean for _, unclean in taken(first)] == [0] * len(taken(first))
    second.start()
    wait_for(half_each, "half of each channel again")
    assert first.stop() == 0
    wait_for(lambda: has_all(second), "all for the other")
    first.start()


def test_a_process_without_a_role_that_works_owns_nothing(make_server):
    server = make_server()
    api = make_server(server.backend, config={"server": {"roles": "api"}})
    assert len(owners(api)["items"]) == 1 and has_all(api)


def test_the_next_process_of_the_directory_takes_over_at_once(make_server):
    """The lease would go on for a minute."""
    server = make_server()
    before = owners(server)["items"][0]["id"]
    server.kill()
    server.start()
    assert has_all(server)
    assert owners(server)["items"][0]["id"] != before
    assert taken(server)[-1] == (len(ALL) * len(shards(server)[0]), len(ALL) * len(shards(server)[0]))


def test_another_process_takes_over_after_the_lease(make_server):
    first = make_server(config=LEASE)
    second = make_server(first.backend, config=LEASE)
    wait_for(lambda: all(len(numbers) == 8 for owner in shards(second) for numbers in owner.values()), "half each")
    first.kill()
    wait_for(lambda: has_all(second), "all")
    assert taken(second)[-1][1] == taken(second)[-1][0] > 0
    first.start()
    wait_for(lambda: has_all(first, 2), "both again")


def test_a_process_that_stood_still_for_longer_than_its_lease_finds_out(make_server):
    first = make_server(config=LEASE)
    second = make_server(first.backend, config=LEASE)
    wait_for(lambda: has_all(second, 2), "both")
    for _ in range(5):  # it may be stopped in a transaction that others wait for
        with stopped(first), contextlib.suppress(AssertionError):
            wait_for(lambda: has_all(second), "all", timeout=6)
            break
    wait_for(lambda: first.log("WorkLeaseLost"), "it finds out")
    wait_for(lambda: has_all(second, 2), "both again")


def test_the_metrics_tell(make_server):
    server = make_server()
    text = server.admin().get("/metrics").body.decode()
    assert 'dataflow_work_shards{channel="functional-ack"} 16' in text
    assert 'dataflow_work_taken_total{how="lost"} 0' in text
    left = next(line for line in text.splitlines() if line.startswith("dataflow_work_lease_seconds "))
    assert 0 < float(left.split()[1]) <= 60
