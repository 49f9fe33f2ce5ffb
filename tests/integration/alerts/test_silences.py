"""Alerts that somebody looks after, and alerts that are kept back for a while: on every replica, over restarts."""

import datetime
import uuid

import pytest
from harness import wait_for
from test_alerts import add_stuck_batch, end_batch, listed, sandbox, sinks, start  # noqa: F401
from test_openapi import DOCUMENT, check

SCHEMAS = DOCUMENT["components"]["schemas"]


def in_hours(hours):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


def silence(server, status=201, **fields):
    answer = server.admin().post("/admin/alert-silences", {"until": in_hours(1), "reason": "work on the peer", **fields})
    assert answer.status == status, answer
    if status == 201:
        check(answer.json, SCHEMAS["AlertSilence"], "AlertSilence")
    return answer


@pytest.mark.parametrize("fields", [{"rule": "BatchStuck"}, {"clientId": "acme"}, {"rule": "BatchStuck", "clientId": "acme"}])
def test_a_silenced_alert_is_recorded_and_not_sent(make_server, sinks, fields):  # noqa: F811
    server = start(make_server, sinks)
    made = silence(server, **fields).json
    batch = add_stuck_batch(server)
    alert = wait_for(lambda: next(iter(listed(server, "?status=firing")), None), "the alert")
    assert alert["silenced"] is True and alert["link"] == f"#imports/{batch}"
    server.restart()  # a silence survives
    shown = server.admin().get("/admin/alert-silences").json
    check(shown, SCHEMAS["AlertSilenceList"], "AlertSilenceList")
    assert shown == {"items": [made], "total": 1}
    end_batch(server, batch)
    wait_for(lambda: listed(server, "?status=resolved"), "its end")
    assert sinks.came("v2") == [] and sinks.came("teams") == []
    actions = [e["action"] for e in server.admin().get("/admin/audit").json["items"]]
    assert "AlertSilenced" in actions


def test_a_silence_that_is_about_others_or_was_ended_keeps_nothing_back(make_server, sinks):  # noqa: F811
    server = start(make_server, sinks)
    silence(server, clientId="somebody-else")
    silence(server, rule="ErrorRate")
    made = silence(server, target="nothing-of-this").json["id"]
    add_stuck_batch(server)
    wait_for(lambda: sinks.accepted("v2"), "the message")
    admin = server.admin()
    assert admin.request("DELETE", f"/admin/alert-silences/{made}").status == 204
    assert admin.request("DELETE", f"/admin/alert-silences/{made}").status == 404
    assert admin.request("DELETE", "/admin/alert-silences/x").status == 404
    assert admin.get("/admin/alert-silences").json["total"] == 2


def test_an_alert_that_outlasts_its_silence_is_sent_then(make_server, sinks):  # noqa: F811
    server = start(make_server, sinks)
    made = silence(server, rule="BatchStuck").json["id"]
    add_stuck_batch(server)
    wait_for(lambda: listed(server, "?status=firing"), "the alert")
    assert sinks.came("v2") == []
    assert server.admin().request("DELETE", f"/admin/alert-silences/{made}").status == 204
    wait_for(lambda: sinks.accepted("v2"), "the message")
    assert listed(server, "?status=firing")[0]["silenced"] is False


BAD = [
    ({"rule": None}, {"rule"}), ({"rule": "Nonsense"}, {"rule"}), ({"rule": ""}, {"rule"}), ({"clientId": "no such name!"}, {"clientId"}),
    ({"target": "x" * 1001}, {"target"}), ({"rule": "BatchStuck", "until": "soon"}, {"until"}),
    ({"rule": "BatchStuck", "until": in_hours(-1)}, {"until"}), ({"rule": "BatchStuck", "until": in_hours(24 * 31)}, {"until"}),
    ({"rule": "BatchStuck", "until": None}, {"until"}), ({"rule": "BatchStuck", "reason": " "}, {"reason"}),
    ({"rule": "BatchStuck", "reason": "x" * 501}, {"reason"}), ({"rule": "BatchStuck", "unti": in_hours(1)}, {"unti"}),
    ({"until": "x", "reason": None}, {"until", "reason", "rule"}),
]


@pytest.fixture(scope="module")
def plain(_module_backends, tmp_path_factory):
    from harness import Server
    made = Server(_module_backends(), tmp_path_factory.mktemp("server"),
                  config={"server": {"roles": "api"}, "admin.reader": {"key": "k-reader-" + "r" * 24, "role": "read"}})
    yield made.start()
    made.finish()


@pytest.mark.parametrize("fields, bad", BAD, ids=[str(b) for _, b in BAD])
def test_a_silence_that_is_not_right_is_refused(plain, fields, bad):
    answer = silence(plain, 400, **fields)
    assert answer.bad_fields == bad


def add_alert(server, resolved="NULL"):
    made = str(uuid.uuid4())
    server.backend.script("INSERT INTO Alerts (Id, RuleName, Subject, DedupKey, Severity, Summary, DetailsJson, ResolvedAt, Status)"
                          f" VALUES ('{made}', 'DeliveryGivenUp', 's', '{made}', 'error', 'x',"
                          f" '{{\"channel\":\"ticket-return\"}}', {resolved}, '{'firing' if resolved == 'NULL' else 'resolved'}')")
    return made


def test_an_alert_is_acknowledged_and_given_back(plain):
    admin, alert = plain.admin(), add_alert(plain)
    path = f"/admin/alerts/{alert}/acknowledge"
    taken = admin.post(path, {"note": "I look"})
    assert taken.status == 200, taken
    check(taken.json, SCHEMAS["Alert"], "Alert")
    assert (taken.json["acknowledgedBy"], taken.json["acknowledgedNote"]) == ("admin", "I look") and taken.json["acknowledgedAt"]
    assert taken.json["link"] == "#outbox/ticket-return?status=Error"
    assert admin.post(path, {"note": "me too"}).json["acknowledgedNote"] == "I look"  # the first one stays
    back = admin.request("DELETE", path)
    assert back.status == 200 and back.json["acknowledgedBy"] is None
    assert admin.request("DELETE", path).status == 200
    assert admin.post(path).json["acknowledgedNote"] is None
    assert admin.post(path, {"note": "x" * 501}).bad_fields == {"note"} and admin.post(path, {"notes": "x"}).bad_fields == {"notes"}
    over = add_alert(plain, "CURRENT_TIMESTAMP")
    assert admin.post(f"/admin/alerts/{over}/acknowledge").status == 409
    for nobody in ("x", uuid.uuid4()):
        assert admin.post(f"/admin/alerts/{nobody}/acknowledge").status == 404
    assert plain.admin("k-reader-" + "r" * 24).post(path).code == "RoleMissing"
    actions = [e["action"] for e in admin.get(f"/admin/audit?target={alert}").json["items"]]
    assert actions.count("AlertAcknowledged") == 2 and actions.count("AlertUnacknowledged") == 1


def test_there_are_no_more_than_two_hundred_silences(plain):
    admin = plain.admin()
    have = admin.get("/admin/alert-silences").json["total"]
    rows = ", ".join(f"('{uuid.uuid4()}', 'Test', 'r', 'x', '{in_hours(1)}')" for _ in range(200 - have))
    plain.backend.script(f"INSERT INTO AlertSilences (Id, RuleName, Reason, CreatedBy, EndsAt) VALUES {rows}")
    silence(plain, 409, rule="BatchStuck")
    assert admin.get("/admin/alert-silences").json["total"] == 200
