"""Alerts: fired once, resolved, and brought to PagerDuty and Teams as their documentation has it; one from two servers."""

import json
import re
import uuid

import pytest
from harness import Http, wait_for
from test_openapi import DOCUMENT, check
from test_sandbox import Sandbox

pytestmark = pytest.mark.threads

ROUTING_KEY = "R0UT1NGKEY0FTHETESTS0000000000000"
TEAMS_SECRET = "signature-in-the-url-of-teams"
PT = {"Accept-Language": "pt-BR"}
CONSOLE = "https://dataflow.example/console"
OLD = "2020-01-01T00:00:00.000"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    box = Sandbox(tmp_path_factory.mktemp("sandbox"))
    yield Http(box)
    box.finish()


class Sinks:
    """PagerDuty and Teams of one test: paths of its own in the sandbox."""

    def __init__(self, sandbox):
        self.sandbox = sandbox
        self.path = f"/webhooks/{uuid.uuid4().hex}"
        base = "http://{}:{}".format(*sandbox.server.host_port) + self.path
        self.config = {"alerts": {
            "pagerduty_routing_key": ROUTING_KEY, "pagerduty_url": f"{base}/v2/enqueue",
            "teams_url": f"{base}/teams?sig={TEAMS_SECRET}", "console_url": CONSOLE, "interval_seconds": 1},
            "delivery": {"retry_base_ms": 20, "retry_cap_ms": 50}, "breaker": {"open_ms": 50}}

    def came(self, sink):
        return self.sandbox.get(f"/_received?path={self.path}/{sink}&limit=1000").json[::-1]

    def accepted(self, sink):
        return [r for r in self.came(sink) if r["status"] == 200]


@pytest.fixture
def sinks(sandbox):
    return Sinks(sandbox)


def start(make_server, sinks, **kwargs):
    server = make_server(config=sinks.config, **kwargs)
    server.secrets |= {ROUTING_KEY, TEAMS_SECRET}
    return server


def add_stuck_batch(server, client="acme"):
    """In work since years, and nobody has taken it up: its lock is held by a process that renews it."""
    server.new_client(client, clientId=client)
    client_id, = server.backend.query(f"SELECT Id FROM Clients WHERE ClientIdentifier = '{client}'")[0]
    batch = str(uuid.uuid4())
    ends = "9999-01-01T00:00:00.000"
    zone = "" if server.backend.name == "sqlserver" else "Z"
    server.backend.script(
        "INSERT INTO ImportBatch (Id, ClientId, FileName, FileType, Status, StartedAt, LockedAt, ProcessedRecords,"
        " TotalRecords, ProcessingHost) VALUES"
        f" ('{batch}', '{client_id}', 'leads.csv', 2, 1, '{OLD}{zone}', '{ends}{zone}', 7, 9, 'another')")
    return batch


def end_batch(server, batch):
    server.backend.script(f"UPDATE ImportBatch SET Status = 6 WHERE Id = '{batch}'")


def listed(server, query=""):
    answer = server.admin().get(f"/admin/alerts{query}")
    assert answer.status == 200, answer
    check(answer.json, DOCUMENT["components"]["schemas"]["AlertPage"], "AlertPage")
    return answer.json["items"]


def gauge(server, rule="BatchStuck"):
    text = server.anonymous().get("/metrics").body.decode()
    return float(re.search(rf'^dataflow_alerts_firing{{rule="{rule}"}} (\S+)$', text, re.M)[1])


def test_a_stuck_batch_is_told_once_and_resolved(make_server, sinks):
    server = start(make_server, sinks)
    for caller in (client := server.new_client()), server.admin():  # what a person switches off is no alert
        hook = caller.post(f"/clients/{client.id}/webhooks", {"url": "https://93.184.216.34/"}).json
        assert caller.patch(f"/clients/{client.id}/webhooks/{hook['id']}", {"isActive": False}).status == 200
    batch = add_stuck_batch(server)
    wait_for(lambda: sinks.accepted("v2") and sinks.accepted("teams"), "both are told")
    alert, = listed(server, "?status=firing")
    since = re.search(r"no progress for (\d+) minutes", alert["summary"])[1]
    assert int(since) > 3_000_000
    summary = f"Batch {batch} of acme has made no progress for {since} minutes"
    details = {"clientId": "acme", "batchId": batch, "processedRecords": 7, "totalRecords": 9,
               "lastProgressAt": OLD + "Z"}
    assert alert == {"id": alert["id"], "rule": "BatchStuck", "subject": batch, "severity": "critical", "summary": summary,
                     "details": details, "status": "firing", "firedAt": alert["firedAt"], "resolvedAt": None,
                     "acknowledgedBy": None, "acknowledgedAt": None, "acknowledgedNote": None, "silenced": False,
                     "link": f"#imports/{batch}"}
    answer = server.admin().get("/admin/alerts?status=firing", headers=PT)
    assert answer.headers["Content-Language"] == "pt-BR"
    portuguese, = answer.json["items"]
    assert re.fullmatch(rf"O lote {batch} de acme não avança há \d+ minutos", portuguese["summary"])
    assert portuguese == {**alert, "summary": portuguese["summary"]}, "codes and details stay"
    event, = sinks.came("v2")
    source = event["body"]["payload"]["source"]
    assert event["method"] == "POST" and event["headers"]["Content-Type"] == "application/json" and source
    assert event["body"] == {
        "routing_key": ROUTING_KEY, "event_action": "trigger", "dedup_key": alert["id"], "client": "DataFlow",
        "client_url": CONSOLE,
        "payload": {"summary": summary, "source": source, "severity": "critical", "timestamp": alert["firedAt"],
                    "component": "imports", "group": "acme", "class": "BatchStuck", "custom_details": details},
        "links": [{"href": CONSOLE, "text": "DataFlow console"}]}
    message, = sinks.came("teams")
    facts = {"severity": "critical", "source": source, **{k: str(v) for k, v in details.items()},
             "firedAt": alert["firedAt"]}
    assert message["body"] == card("Firing: BatchStuck", "Attention", summary, facts)
    wait_for(lambda: gauge(server) == 1, "the figure")

    end_batch(server, batch)
    wait_for(lambda: len(sinks.accepted("v2")) == 2 and len(sinks.accepted("teams")) == 2, "both are told of the end")
    over, = listed(server)
    assert over["status"] == "resolved" and over["resolvedAt"] > over["firedAt"] and over["id"] == alert["id"]
    assert listed(server, "?status=firing") == [] and listed(server, "?status=Resolved") == [over]
    assert sinks.came("v2")[1]["body"] == {"routing_key": ROUTING_KEY, "event_action": "resolve", "dedup_key": alert["id"]}
    assert sinks.came("teams")[1]["body"] == card("Resolved: BatchStuck", "Good", summary,
                                                  {**facts, "resolvedAt": over["resolvedAt"]})
    wait_for(lambda: gauge(server) == 0, "the figure")
    told = [(line["event"], line["rule"], line["subject"], line["alertId"]) for line in server.log()
            if line["event"] in ("AlertFired", "AlertResolved")]
    assert told == [(event, "BatchStuck", batch, alert["id"]) for event in ("AlertFired", "AlertResolved")]
    stored = server.backend.all_bytes()
    assert ROUTING_KEY.encode() not in stored and TEAMS_SECRET.encode() not in stored
    wait_for(lambda: server.admin().get("/admin/outbox/alerts?status=Sent").json["total"] == 4, "all four are settled")
    rows = server.admin().get("/admin/outbox/alerts").json["items"]
    assert sorted(row["targetUrl"] for row in rows) == ["pagerduty resolve", "pagerduty trigger", "teams resolve",
                                                     "teams trigger"]
    assert {row["reference"] for row in rows} == {alert["id"]}


def card(title, color, summary, facts):
    return {"type": "message", "attachments": [{
        "contentType": "application/vnd.microsoft.card.adaptive",
        "content": {
            "$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
            "body": [
                {"type": "TextBlock", "text": title, "wrap": True, "size": "Medium", "weight": "Bolder", "color": color},
                {"type": "TextBlock", "text": summary, "wrap": True},
                {"type": "FactSet", "facts": [{"title": k, "value": v} for k, v in facts.items()]}],
            "actions": [{"type": "Action.OpenUrl", "title": "DataFlow console", "url": CONSOLE}]}}]}


def test_two_servers_send_one_alert_and_a_sink_that_fails_gets_it_later(make_server, make_backend, backend_name, sinks, sandbox):
    sandbox.post("/_faults", {"path": f"{sinks.path}/v2", "status": 503, "count": 3})
    backend = make_backend()
    servers = [start(make_server, sinks, backend=backend) for _ in range(1 if backend_name == "sqlite" else 2)]
    batch = add_stuck_batch(servers[0])
    wait_for(lambda: sinks.accepted("v2") and sinks.accepted("teams"), "both are told")
    end_batch(servers[0], batch)
    wait_for(lambda: len(sinks.accepted("v2")) >= 2 and len(sinks.accepted("teams")) >= 2, "both are told of the end")
    for server in servers:
        wait_for(lambda server=server: gauge(server) == 0, "each server has the figure")
    actions = [r["body"]["event_action"] for r in sinks.came("v2")]
    assert actions == ["trigger"] * 4 + ["resolve"]
    assert len({r["idempotencyKey"] for r in sinks.came("v2")}) == 2
    assert [r["body"]["attachments"][0]["content"]["body"][0]["text"] for r in sinks.came("teams")] == [
        "Firing: BatchStuck", "Resolved: BatchStuck"]
    fired = [line for server in servers for line in server.log("AlertFired")]
    assert len(fired) == 1 and len(listed(servers[0])) == 1


def test_a_test_goes_through_all_sinks(make_server, sinks):
    server = start(make_server, sinks)
    answer = server.admin().post("/admin/alerts/test")
    assert answer.status == 202 and answer.json == {"id": answer.json["id"], "sinks": ["pagerduty", "teams"]}
    check(answer.json, DOCUMENT["components"]["schemas"]["AlertTest"], "AlertTest")
    wait_for(lambda: len(sinks.accepted("v2")) == 2 and len(sinks.accepted("teams")) == 2, "begun and over")
    trigger, resolve = [r["body"] for r in sinks.came("v2")]
    assert trigger["payload"]["severity"] == "info" and trigger["payload"]["class"] == "Test"
    assert resolve == {"routing_key": ROUTING_KEY, "event_action": "resolve", "dedup_key": trigger["dedup_key"]}
    assert trigger["dedup_key"] == answer.json["id"]
    assert "resolvedAt" not in json.dumps(sinks.came("teams")[0]["body"])
    assert [(a["rule"], a["status"]) for a in listed(server)] == [("Test", "resolved")]
    assert server.admin().get("/admin/audit").json["items"][0]["action"] == "AlertTested"


def test_what_is_asked_for_wrongly(server):
    """This server has no sinks."""
    assert server.admin().get("/admin/alerts?status=loud").bad_fields == {"status"}
    assert server.admin().get("/admin/alerts?status=").status == 200, "as a form sends what nobody filled in"
    assert server.admin().get("/admin/alerts?page=0").status == 400
    for method, path in (("GET", "/admin/alerts"), ("POST", "/admin/alerts/test")):
        assert server.anonymous().request(method, path).status == 401
    refused = server.admin().post("/admin/alerts/test")
    assert (refused.status, refused.code) == (409, "Conflict")
    assert listed(server) == []
