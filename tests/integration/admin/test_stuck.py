"""What was given up, and what to do about it: retry by filter with a preview, pause and resume of channels and targets."""

import json
from urllib.parse import urlencode

import pytest
from harness import wait_for
from test_openapi import DOCUMENT, check
from test_outbox import CHANNELS, TARGET, Box, at, audit, audit_total, delivering, overview, reach, sink, whole  # noqa: F401
from test_outbox import fill as fill_sink

SCHEMAS = DOCUMENT["components"]["schemas"]
OTHER = "https://other.example/in"


@pytest.fixture
def box(server):
    """The server's channels are not configured: what is in them stays there."""
    return Box(server.backend)


def retry(server, body, channel=None):
    answer = server.admin().post(f"/admin/outbox/{channel}/retry" if channel else "/admin/outbox/retry", body)
    assert answer.status == 200, answer
    check(answer.json, SCHEMAS["OutboxRetriedAll"], "OutboxRetriedAll")
    return answer.json


def states(server, channel):
    items = server.admin().get(f"/admin/outbox/{channel}?pageSize=200").json["items"]
    return {item["reference"]: item["status"] for item in items}


def fill(box):
    """Failed acks at two targets, with two errors, at three times."""
    table = "TB_FUNCTIONAL_ACK_OUTBOX"
    for name, error, tried, due in (("a", "HTTP 503: busy", at(1), None), ("b", "HTTP 422: 100% wrong_", at(2), None),
                                    ("c", "http 503: BUSY", at(3), at(50))):
        box.add("functional-ack", "Error", name, attempts=5, tried=tried, due=due, error=error)
    row_id = box.add("functional-ack", "Error", "d", attempts=5, tried=at(4), error="HTTP 503: busy")
    box.write(f"UPDATE {table} SET TargetUrl = '{OTHER}?key=secret' WHERE Id = {row_id}")
    box.add("functional-ack", "Sent", "s", tried=at(2), sent=at(2))
    box.add("functional-ack", "Pending", "p", due=at(1))


# --- retry by filter ---

FILTERS = [
    ({"all": True}, "abcd"), ({"target": TARGET}, "abc"), ({"target": OTHER}, "d"), ({"target": OTHER + "?x=1"}, "d"),
    ({"target": "https://gateway.example/i"}, ""), ({"error": "503"}, "acd"), ({"error": "busy"}, "acd"),
    ({"error": "100% wrong_"}, "b"), ({"error": "100%wrong"}, ""), ({"error": "_"}, "b"), ({"error": "!"}, ""),
    ({"error": "%"}, "b"), ({"error": "["}, ""), ({"error": "'"}, ""), ({"since": at(3)}, "cd"), ({"until": at(3)}, "ab"),
    ({"since": at(2), "until": at(4)}, "bc"), ({"target": TARGET, "error": "503", "since": at(2)}, "c"),
]


@pytest.mark.parametrize("asked,expected", FILTERS, ids=[json.dumps(f) for f, _ in FILTERS])
def test_a_filter_is_previewed_and_then_retried(server, box, asked, expected):
    fill(box)
    said = audit_total(server)
    preview = retry(server, {**asked, "dryRun": True})
    assert preview == {"matched": len(expected), "retried": 0, "byChannel": {"functional-ack": len(expected)} if expected else {}}
    assert states(server, "functional-ack") == {**dict.fromkeys("abcd", "Error"), "s": "Sent", "p": "Pending"}
    assert audit_total(server) == said, "a preview changes nothing"
    done = retry(server, {"channel": "functional-ack", **asked})
    assert done == {**preview, "retried": len(expected)}
    assert {name for name, state in states(server, "functional-ack").items() if state == "Pending"} == {*expected, "p"}
    assert audit_total(server) == said + bool(expected)


@pytest.mark.parametrize("channel", CHANNELS)
def test_only_what_was_given_up_is_retried_if_so_wanted(server, box, channel):
    over = box.add(channel, "Error", "over", tried=at(2), error="HTTP 400")
    soon = box.add(channel, "Error", "soon", tried=at(2), due=at(9), error="HTTP 503")
    asked = {"givenUp": True}
    assert retry(server, {**asked, "dryRun": True}, channel) == {"matched": 1, "retried": 0, "byChannel": {channel: 1}}
    assert retry(server, asked, channel)["retried"] == 1
    assert [whole(server, channel, row)["status"] for row in (over, soon)] == ["Pending", "Error"]
    assert audit(server)[0]["details"] == {"retried": 1, "givenUp": True}
    assert retry(server, {"channel": channel, "givenUp": True})["matched"] == 0
    assert retry(server, {"channel": channel, "givenUp": False})["retried"] == 1


@pytest.mark.parametrize("channel", CHANNELS)
def test_what_is_retried_starts_over(server, box, channel):
    row_id = box.add(channel, "Error", "doc", attempts=5, tried=at(2), error="HTTP 500")
    prefix = "GatewaySend" if channel == "ticket-gateway" else ""
    table = {"functional-ack": "TB_FUNCTIONAL_ACK_OUTBOX", "ticket-return": "TB_TICKET_RETURN_OUTBOX",
             "ticket-gateway": "TB_TICKET_INTERFACE"}[channel]
    box.write(f"INSERT INTO DeliveryTargets (Channel, Target) VALUES ('{channel}', '{TARGET}')")
    target = box.last("DeliveryTargets")
    columns = {"TryCount": 60, "FirstFailedAt": at(1), "CountedAt": at(2), "TargetMark": 7, "HeldFor": int(target), "HeldAt": at(2)}
    box.write(f"UPDATE {table} SET " + ", ".join(f"{prefix}{c} = {box.literal(v)}" for c, v in columns.items()))
    row = whole(server, channel, row_id)
    assert (row["tries"], row["firstFailedAt"], row["heldFor"], row["givenUp"]) == (60, at(1), TARGET, True)
    assert retry(server, {"error": "500"}, channel)["retried"] == 1
    row = whole(server, channel, row_id)
    assert (row["status"], row["attempts"], row["tries"]) == ("Pending", 0, 60)
    assert (row["firstFailedAt"], row["heldFor"], row["givenUp"]) == (None, None, False)
    assert row["nextAttemptAt"] is not None
    left = box.backend.query(f"SELECT {prefix}CountedAt, {prefix}TargetMark, {prefix}HeldFor, {prefix}HeldAt FROM {table}")
    assert [tuple(r) for r in left] == [(None, None, None, None)]


def test_all_channels_at_once(server, box):
    for channel in CHANNELS:
        box.add(channel, "Error", f"of {channel}", tried=at(2), error="HTTP 500")
    box.ticket("T-1", RawPayloadJson="{}", ReturnStatus="Error", ReturnAttemptCount=5)
    box.add("ticket-return", "Error", "T-1", attempts=5, error="HTTP 400")
    counts = {"functional-ack": 1, "ticket-return": 2, "ticket-gateway": 1}
    assert retry(server, {"all": True, "dryRun": True}) == {"matched": 4, "retried": 0, "byChannel": counts}
    assert retry(server, {"all": True}) == {"matched": 4, "retried": 4, "byChannel": counts}
    mirrored = box.backend.query("SELECT ReturnStatus FROM TB_TICKET_INTERFACE WHERE BusinessDocId = 'T-1'")
    assert [tuple(r) for r in mirrored] == [("Pending",)]
    said = [(a["action"], a["target"], a["details"]["retried"]) for a in audit(server)[:3]]
    assert sorted(said) == sorted(("OutboxRetriedAll", c, n) for c, n in counts.items())


def test_many_rows_are_retried_in_steps(server, box):
    columns = "BusinessDocId, PayloadJson, TargetUrl, Status, AttemptCount, CreatedAt, LastError"
    row = f"('m', '{{}}', '{TARGET}', 'Error', 5, {box.literal(at(1))}, 'HTTP 500')"
    for _ in range(3):
        box.write(f"INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX ({columns}) VALUES " + ", ".join([row] * 401))
    before = audit_total(server)
    assert retry(server, {"target": TARGET}, "functional-ack") == {
        "matched": 1203, "retried": 1203, "byChannel": {"functional-ack": 1203}}
    steps = [a["details"] for a in audit(server)[:audit_total(server) - before]]
    assert sum(s["retried"] for s in steps) == 1203 and max(s["retried"] for s in steps) <= 500
    assert all(s["target"] == TARGET for s in steps)
    assert overview(server)["functional-ack"]["counts"]["Pending"] == 1203


@pytest.mark.parametrize("first", [0, 600])
def test_a_retry_that_fails_on_its_way_tells_what_it_did(server, box, first):
    """The database refuses one row: of the first step, or of a later one."""
    columns = "BusinessDocId, PayloadJson, TargetUrl, Status, AttemptCount, CreatedAt, LastError"
    docs = ["m"] * first + ["refused"] + ["m"] * 99
    box.write(f"INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX ({columns}) VALUES " + ", ".join(
        f"('{doc}', '{{}}', '{TARGET}', 'Error', 5, {box.literal(at(1))}, 'HTTP 500')" for doc in docs))
    if server.backend.name == "sqlite":
        refuse = ("CREATE TRIGGER refusal BEFORE UPDATE ON TB_FUNCTIONAL_ACK_OUTBOX WHEN NEW.BusinessDocId = 'refused'"
                  " BEGIN SELECT RAISE(ABORT, 'not this one'); END")
        accept = "DROP TRIGGER refusal"
    else:
        refuse = ("ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD CONSTRAINT refusal"
                  " CHECK (BusinessDocId <> 'refused' OR Status = 'Error')")
        accept = "ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX DROP CONSTRAINT refusal"
    box.write(refuse)
    try:
        if first == 0:
            assert server.admin().post("/admin/outbox/functional-ack/retry").status >= 400
        else:
            done = retry(server, None, "functional-ack")
            assert done == {"matched": 700, "retried": 500, "byChannel": {"functional-ack": 700}, "left": 200}
            assert "after 500 rows" in server.log("OutboxRetryStopped")[0]["message"]
        assert overview(server)["functional-ack"]["counts"]["Error"] == (200 if first else 100)
    finally:
        box.write(accept)


@pytest.mark.parametrize("body,fields", [
    ({}, {"all"}), ({"all": False}, {"all"}), ({"all": "x"}, {"all"}), ({"dryRun": True}, {"all"}),
    ({"givenUp": True}, {"all"}), ({"givenUp": "x", "all": True}, {"givenUp"}),
    ({"channel": "nothing"}, {"channel"}), ({"channel": ""}, {"channel"}), ({"channel": 5, "all": True}, {"channel"}),
    ({"target": ""}, {"target"}), ({"target": "x" * 1001}, {"target"}), ({"target": ["x"]}, {"target"}),
    ({"error": " "}, {"error"}), ({"error": "x" * 201}, {"error"}), ({"error": {}}, {"error"}),
    ({"since": "yesterday"}, {"since"}), ({"since": "2026-13-01T00:00:00Z"}, {"since"}), ({"until": "1"}, {"until"}),
    ({"since": at(2), "until": at(2)}, {"until"}), ({"all": True, "dryRun": "perhaps"}, {"dryRun"}),
    ({"all": True, "dry_run": True}, {"dry_run"}), ({"channel": "functional-ack", "tagret": TARGET}, {"tagret"}),
    ({"all": True, "x" * 300: 1}, {"x" * 100}), ({"all": True, "from": at(1), "to": at(2)}, {"from", "to"}),
    ({"all": True, "status": "Sent"}, {"status"}), ({"channel": "x", "error": "", "since": "x"}, {"channel", "error", "since"}),
])
def test_a_bad_filter_retries_nothing(server, box, body, fields):
    row_id = box.add("functional-ack", "Error", tried=at(1), error="HTTP 500")
    answer = server.admin().post("/admin/outbox/retry", body)
    assert (answer.status, answer.bad_fields) == (400, fields)
    assert whole(server, "functional-ack", row_id)["status"] == "Error"


def test_no_body_and_bad_bodies(server):
    for body, status in ((None, 400), (b"", 400), (b"{", 400), (b"[]", 400), (b'{"all": true, "ALL": true}', 400)):
        assert server.admin().post("/admin/outbox/retry", body=body).status == status, body
    plain = {"Content-Type": "text/plain"}
    assert server.admin().post("/admin/outbox/retry", body=b'{"all": true}', headers=plain).status == 415
    assert server.anonymous().post("/admin/outbox/retry", {"all": True}).status == 401


# --- the same filters for lists ---


@pytest.mark.parametrize("asked,expected", FILTERS[1:], ids=[json.dumps(f) for f, _ in FILTERS[1:]])
def test_lists_take_the_same_filters(server, box, asked, expected):
    fill(box)
    page = server.admin().get(f"/admin/outbox/functional-ack?{urlencode({'status': 'Error', **asked})}").json
    assert (page["total"], {item["reference"] for item in page["items"]}) == (len(expected), set(expected))
    check(page, SCHEMAS["OutboxPage"], "OutboxPage")


def test_what_was_given_up_is_a_status_of_lists(server, box):
    fill(box)
    for spelt in ("GivenUp", "givenup"):
        page = server.admin().get(f"/admin/outbox/functional-ack?status={spelt}").json
        assert {item["reference"] for item in page["items"]} == set("abd") and page["total"] == 3
        assert {item["givenUp"] for item in page["items"]} == {True}


@pytest.mark.parametrize("query,fields", [
    ("target=" + "x" * 1001, {"target"}), ("error=" + "x" * 201, {"error"}), ("since=x", {"since"}), ("until=2026", {"until"}),
    ("since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", {"until"}), ("status=given", {"status"}),
])
def test_a_bad_filter_of_a_list_is_400(server, query, fields):
    answer = server.admin().get(f"/admin/outbox/functional-ack?{query}")
    assert (answer.status, answer.bad_fields) == (400, fields)


# --- the overview ---


def test_the_overview_tells_what_is_stuck(server, box):
    fill(box)
    for target, down, paused, arrived in ((TARGET, at(3), None, 12), (OTHER, None, at(4), 0), ("", None, at(5), 0)):
        box.insert("DeliveryTargets", {"Channel": "functional-ack", "Target": target, "Arrived": arrived, "DownSince": down,
                                       "PausedAt": paused, "PausedBy": "me" if paused else None, "LastError": "HTTP 503"})
    box.insert("DeliveryTargets", {"Channel": "relay", "Target": "orders", "Arrived": 3, "DownSince": at(1)})
    box.write("UPDATE TB_FUNCTIONAL_ACK_OUTBOX SET HeldFor = 1 WHERE BusinessDocId = 'c'")
    answer = server.admin().get("/admin/outbox").json
    check(answer, SCHEMAS["OutboxOverview"], "OutboxOverview")
    channel = answer["channels"][0]
    assert (channel["waiting"], channel["oldestWaitingAt"], channel["held"]) == (2, at(1), 1)
    assert (channel["givenUp"], channel["givenUpSince"]) == (3, at(1))
    assert channel["givenUpByTarget"] == [{"target": TARGET, "count": 2, "since": at(1), "last": at(2)},
                                          {"target": OTHER, "count": 1, "since": at(4), "last": at(4)}]
    assert (channel["paused"], channel["pausedAt"], channel["pausedBy"]) == (True, at(5), "me")
    assert [(t["target"], t["state"], t["downSince"], t["arrived"], t["lastError"]) for t in channel["targets"]] == [
        (TARGET, "down", at(3), 12, "HTTP 503"), (OTHER, "paused", None, 0, "HTTP 503")]
    assert [(t["channel"], t["target"], t["state"]) for t in answer["targets"]] == [("relay", "orders", "down")]
    assert answer["channels"][1]["paused"] is False and answer["channels"][1]["targets"] == []


# --- pause and resume ---


BODIES = [None, {}, {"target": TARGET}, {"target": TARGET + "?key=secret"}, {"target": "é"}]


@pytest.mark.parametrize("channel,body", [
    *((c, b) for c in (*CHANNELS, "integrations", "alerts", "relay") for b in BODIES), ("webhooks", None), ("webhooks", {}),
])
def test_pause_and_resume(server, box, channel, body):
    admin = server.admin(address="127.77.0.3")
    target = ((body or {}).get("target") or "").split("?")[0]
    before = audit_total(server)
    for verb, state in (("pause", "paused"), ("pause", "paused"), ("resume", "up"), ("resume", "up")):
        answer = admin.post(f"/admin/outbox/{channel}/{verb}", body)
        assert answer.status == 200, answer
        check(answer.json, SCHEMAS["OutboxTarget"], "OutboxTarget")
        assert (answer.json["channel"], answer.json["target"], answer.json["state"]) == (channel, target, state)
        assert answer.json["paused"] is (state == "paused")
        rows = box.backend.query("SELECT Channel, Target, PausedBy FROM DeliveryTargets WHERE PausedAt IS NOT NULL")
        assert [tuple(r) for r in rows] == ([(channel, target, "admin")] if state == "paused" else [])
    said = audit(server)[:2]
    assert audit_total(server) == before + 2, "only changes are written down"
    assert [(a["action"], a["target"], a["details"]) for a in said] == [
        (action, channel, {"target": target} if target else {}) for action in ("DeliveryResumed", "DeliveryPaused")]
    assert said[0]["ip"] == "127.77.0.3"


def test_a_pause_keeps_what_is_known_of_the_target(server, box):
    box.insert("DeliveryTargets", {"Channel": "functional-ack", "Target": TARGET, "Arrived": 12, "DownSince": at(3)})
    answer = server.admin().post("/admin/outbox/functional-ack/pause", {"target": TARGET})
    assert (answer.json["state"], answer.json["downSince"], answer.json["arrived"]) == ("paused", at(3), 12)
    answer = server.admin().post("/admin/outbox/functional-ack/resume", {"target": TARGET})
    assert (answer.json["state"], answer.json["arrived"]) == ("down", 12)


@pytest.mark.parametrize("body,status", [
    (b'{"target": ""}', 400), (b'{"target": 1}', 200), (b'{"target": ["x"]}', 400), (b"[]", 400), (b"{", 400),
    (json.dumps({"target": "x" * 1001}).encode(), 400), (b'{"target": "a", "TARGET": "b"}', 400),
    (b'{"tagret": "a"}', 400),
])
def test_bad_bodies_of_pause(server, box, body, status):
    for verb in ("pause", "resume"):
        assert server.admin().post(f"/admin/outbox/functional-ack/{verb}", body=body).status == status


@pytest.mark.parametrize("channel,body,field,word", [
    ("events", {}, "channel", "relay"), ("events", {"target": "x"}, "target", "relay"),
    ("webhooks", {"target": TARGET}, "target", "isActive"),
])
def test_what_nobody_would_obey_is_not_paused(server, box, channel, body, field, word):
    answer = server.admin().post(f"/admin/outbox/{channel}/pause", body)
    assert (answer.status, answer.json["errors"][0]["field"]) == (400, field) and word in answer.json["errors"][0]["message"]
    assert box.backend.query("SELECT COUNT(*) FROM DeliveryTargets WHERE PausedAt IS NOT NULL")[0][0] == 0
    done = server.cli("outbox", "pause", channel, *(("--target", body["target"]) if body else ()))
    assert done.returncode == 2 and word in done.stderr


def test_who_may_pause_and_what(server, box):
    for verb in ("pause", "resume"):
        assert server.anonymous().post(f"/admin/outbox/functional-ack/{verb}").status == 401
        for channel in ("nothing", "Functional-Ack", "tickets", "x" * 300):
            assert server.admin().post(f"/admin/outbox/{channel}/{verb}").status == 404
        assert server.admin().get(f"/admin/outbox/functional-ack/{verb}").status in (404, 405)


# --- from the terminal ---


def cli(server, *args):
    done = server.cli("outbox", *args)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_retry_by_filter_from_the_terminal(server, box):
    fill(box)
    box.add("ticket-return", "Error", "r", tried=at(2), error="HTTP 503")
    preview = json.loads(cli(server, "retry", "--error", "503", "--dry-run", "--json"))
    assert preview == {"matched": 4, "retried": 0, "byChannel": {"functional-ack": 3, "ticket-return": 1}}
    assert cli(server, "retry", "--error", "503", "--dry-run") == (
        "3 rows of functional-ack would have to be sent again\n1 rows of ticket-return would have to be sent again\n")
    assert set(states(server, "functional-ack").values()) == {"Error", "Sent", "Pending"}
    assert cli(server, "retry", "functional-ack", "--target", OTHER, "--since", at(1)) == (
        "1 rows of functional-ack are to be sent again\n")
    assert states(server, "functional-ack")["d"] == "Pending"
    assert json.loads(cli(server, "retry", "--all", "--json"))["retried"] == 4
    assert cli(server, "retry", "--all") == "no row matches\n"
    said = audit(server)[0]
    assert said["action"] == "OutboxRetriedAll" and said["actor"].startswith("cli:")


def test_lists_by_filter_from_the_terminal(server, box):
    fill(box)
    admin = server.admin()
    assert (json.loads(cli(server, "list", "functional-ack", "--given-up", "--json"))
            == admin.get("/admin/outbox/functional-ack?status=GivenUp").json)
    assert (json.loads(cli(server, "list", "functional-ack", "--error", "wrong", "--until", at(9), "--json"))
            == admin.get(f"/admin/outbox/functional-ack?error=wrong&until={at(9)}").json)


def test_pause_from_the_terminal(server, box):
    shown = json.loads(cli(server, "pause", "ticket-return", "--target", TARGET, "--json"))
    assert (shown["state"], shown["target"]) == ("paused", TARGET) and shown["pausedBy"].startswith("cli:")
    assert "already" in cli(server, "pause", "ticket-return", "--target", TARGET)
    assert [t["state"] for t in overview(server)["ticket-return"]["targets"]] == ["paused"]
    cli(server, "pause", "relay")
    cli(server, "resume", "ticket-return", "--target", TARGET)
    assert [t["state"] for t in overview(server)["ticket-return"]["targets"]] == ["up"]


@pytest.mark.parametrize("args", [
    ["retry"], ["retry", "functional-ack"], ["retry", "--dry-run"], ["retry", "nothing", "--all"],
    ["retry", "functional-ack", "1", "--error", "x"], ["retry", "functional-ack", "1", "--dry-run"],
    ["retry", "--since", "yesterday"], ["retry", "--error", ""], ["retry", "--error", "x" * 201],
    ["retry", "--all", "--given-up"], ["list", "--given-up"], ["list", "--error", "x"],
    ["list", "functional-ack", "--given-up", "--status", "Sent"], ["list", "functional-ack", "--dry-run"],
    ["pause"], ["pause", "nothing"], ["pause", "tickets"], ["pause", "functional-ack", "--error", "x"],
    ["pause", "functional-ack", "--all"], ["resume", "functional-ack", "1"], ["show", "functional-ack", "1", "--target", "x"],
])
def test_wrong_usage(server, box, args):
    done = server.cli("outbox", *args)
    assert (done.returncode, done.stdout) == (2, ""), args
    assert done.stderr.startswith("dataflow outbox: ")


# --- with the engine ---


def test_a_paused_target_holds_what_goes_there(make_server, sink):
    server = delivering(make_server, sink)
    box = Box(server.backend)
    [first] = fill_sink(box, sink)
    reach(server, first, "Sent")
    [target] = wait_for(lambda: overview(server)["functional-ack"]["targets"], "the target")
    assert (target["target"], target["state"]) == (f"{sink.url}/ack", "up")
    assert server.admin().post("/admin/outbox/functional-ack/pause", {"target": target["target"]}).status == 200
    wait_for(lambda: holds_back(server, box, sink, target["target"]), "a row that is held")
    arrived = len(sink.seen)
    stuck = overview(server)["functional-ack"]
    assert stuck["held"] > 0 and stuck["givenUp"] == 0
    assert server.admin().post("/admin/outbox/functional-ack/resume", {"target": target["target"]}).status == 200
    wait_for(lambda: overview(server)["functional-ack"]["waiting"] == 0, "all to be sent")
    assert len(sink.seen) > arrived


def holds_back(server, box, sink, target):
    """One more row; whether it is held. The processes hear of a pause within a second or so."""
    [row_id] = fill_sink(box, sink)
    return wait_for(lambda: settled(whole(server, "functional-ack", row_id)), "a row that is sent or held")["heldFor"] == target


def settled(row):
    return row if row["status"] == "Sent" or row["heldFor"] else None


def send_return(server, box, sink):
    row_id = box.add("ticket-return")
    box.write(f"UPDATE TB_TICKET_RETURN_OUTBOX SET TargetUrl = '{sink.url}/return', NextAttemptAt = CreatedAt WHERE Id = {row_id}")
    wait_for(lambda: whole(server, "ticket-return", row_id)["status"] == "Sent", "the other channel")


def stays(server, box, sink):
    """One more row; whether it is still there after some of another channel were sent."""
    [row_id] = fill_sink(box, sink)
    for _ in range(3):
        send_return(server, box, sink)
    return row_id if whole(server, "functional-ack", row_id)["status"] == "Pending" else None


def test_a_paused_channel_sends_nothing_until_it_is_resumed(make_server, sink):
    server = delivering(make_server, sink)
    box = Box(server.backend)
    assert server.admin().post("/admin/outbox/functional-ack/pause").status == 200
    row_id = wait_for(lambda: stays(server, box, sink), "a row that is not taken")
    for _ in range(3):
        send_return(server, box, sink)
    assert whole(server, "functional-ack", row_id)["status"] == "Pending"
    assert server.admin().post("/admin/outbox/functional-ack/resume").status == 200
    reach(server, row_id, "Sent")
    wait_for(lambda: overview(server)["functional-ack"]["waiting"] == 0, "all to be sent")
