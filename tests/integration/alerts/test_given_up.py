"""What the server gives up is loud: an alert by channel and target, figures, the log; and it is over when a person retries."""

import json
import re
import uuid

import pytest
from harness import Http, wait_for
from test_alerts import CONSOLE, Sinks, card, listed, start
from test_outbox import overview
from test_sandbox import Sandbox

SECRET_WORDS = "cpf 12345678909 is unknown"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    box = Sandbox(tmp_path_factory.mktemp("sandbox"))
    yield Http(box)
    box.finish()


@pytest.fixture
def sinks(sandbox):
    return Sinks(sandbox)


class Gateway:
    """A path of its own for functional acks, and PagerDuty and Teams beside it."""

    def __init__(self, sandbox, sinks):
        self.sandbox, self.sinks = sandbox, sinks
        self.path = f"/gateway/{uuid.uuid4().hex}"
        self.url = "http://{}:{}".format(*sandbox.server.host_port) + self.path
        sinks.config["gateway"] = {"functional_ack_url": self.url + "?key=k1", "api_key": "key-of-the-gateway"}

    def refuse(self, count):
        assert self.sandbox.post("/_faults", {"path": self.path, "status": 400, "count": count}).status == 201

    def send(self, client, count=1):
        for _ in range(count):
            answer = client.post("/api/functional-ack", {
                "businessEntity": "TCK", "businessDocId": f"D{uuid.uuid4().hex[:12]}", "operation": "CREATE", "status": "200"})
            assert answer.status == 202, answer


@pytest.fixture
def gateway(sandbox, sinks):
    return Gateway(sandbox, sinks)


def given_up(server, status="firing"):
    return [a for a in listed(server, f"?status={status}") if a["rule"] == "DeliveryGivenUp"]


def metric(server, name, **labels):
    text = server.anonymous().get("/metrics").body.decode()
    wanted = ",".join(f'{k}="{v}"' for k, v in labels.items())
    found = re.search(rf"^{name}{re.escape('{' + wanted + '}') if labels else ''} (\S+)$", text, re.M)
    return float(found[1]) if found else None


def triggers(sinks):
    return [r["body"] for r in sinks.accepted("v2") if r["body"]["event_action"] == "trigger"]


def test_a_refused_document_raises_an_alert_that_grows_and_ends_with_the_retry(make_server, gateway, sinks):
    server = start(make_server, sinks)
    client = server.new_client()
    gateway.refuse(1)
    gateway.send(client)
    wait_for(lambda: sinks.accepted("v2") and sinks.accepted("teams"), "both are told")
    gateway.send(client)  # this one arrives, and changes nothing
    alert, = given_up(server)
    subject = f"functional-ack {gateway.url}"
    assert (alert["subject"], alert["severity"]) == (subject, "error")
    assert alert["summary"] == f"1 document of {subject} was given up and waits for a person; the last error: HTTP 400"
    portuguese, = server.admin().get("/admin/alerts?status=firing", headers={"Accept-Language": "pt-BR"}).json["items"]
    assert portuguese["summary"] == f"1 documento de {subject} foi abandonado e espera por uma pessoa; o último erro: HTTP 400"
    page = f"{CONSOLE}#outbox?channel=functional-ack&status=Error"
    assert alert["details"] == {
        "channel": "functional-ack", "target": gateway.url, "documents": 1, "oldestAt": alert["details"]["oldestAt"],
        "newestAt": alert["details"]["oldestAt"], "lastError": "HTTP 400",
        "whatToDo": f"Remove the cause, then: dataflow outbox retry functional-ack --target {gateway.url}", "page": page}
    event, = triggers(sinks)
    assert event["dedup_key"] == alert["id"] and event["links"] == [{"href": page, "text": "DataFlow console"}]
    assert event["payload"]["class"] == "DeliveryGivenUp" and event["payload"]["severity"] == "error"
    assert event["payload"]["component"] == "delivery" and event["payload"]["custom_details"] == alert["details"]
    message, = [r["body"] for r in sinks.accepted("teams")]
    expected = card("Firing: DeliveryGivenUp", "Attention", alert["summary"], {})
    content, wanted = message["attachments"][0]["content"], expected["attachments"][0]["content"]
    assert content["body"][:2] == wanted["body"][:2] and content["actions"][0]["url"] == page

    gateway.refuse(12)
    gateway.send(client, 12)
    wait_for(lambda: [a["details"]["documents"] for a in given_up(server)] == [13], "the alert has the figure")
    wait_for(lambda: len(triggers(sinks)) >= 2, "people are told again, of the same incident")
    assert {t["dedup_key"] for t in triggers(sinks)} == {alert["id"]}
    assert 2 <= len(triggers(sinks)) <= 3, "not for each of them"
    assert len(server.log("AlertFired")) == 1 and server.log("AlertGrew")
    wait_for(lambda: metric(server, "dataflow_delivery_given_up", channel="functional-ack") == 13, "the gauge")
    assert metric(server, "dataflow_delivery_given_up_total", channel="functional-ack") == 13
    assert metric(server, "dataflow_alerts_firing", rule="DeliveryGivenUp") == 1

    lines = server.log("DeliveryGivenUp")
    assert len(lines) == 13 and {line["level"] for line in lines} == {"error"}
    assert {(line["channel"], line["reason"], line["tries"]) for line in lines} == {("functional-ack", "refused", 1)}
    assert all(line["id"] and line["correlationId"].startswith("D") and line["target"] for line in lines)

    server.restart()
    wait_for(lambda: metric(server, "dataflow_alerts_firing", rule="DeliveryGivenUp") == 1, "after a restart")
    assert [a["id"] for a in given_up(server)] == [alert["id"]]
    assert server.admin().post("/admin/outbox/functional-ack/retry", {"status": "Error"}).json["retried"] == 13
    wait_for(lambda: given_up(server) == [], "the end")
    wait_for(lambda: [r["body"]["event_action"] for r in sinks.accepted("v2")][-1] == "resolve", "PagerDuty is told")
    assert [a["id"] for a in given_up(server, "resolved")] == [alert["id"]]
    wait_for(lambda: metric(server, "dataflow_delivery_given_up", channel="functional-ack") == 0, "the gauge")


def test_two_servers_raise_one_alert(make_server, make_backend, backend_name, gateway, sinks):
    backend = make_backend()
    servers = [start(make_server, sinks, backend=backend) for _ in range(1 if backend_name == "sqlite" else 2)]
    gateway.refuse(3)
    gateway.send(servers[0].new_client(), 3)
    wait_for(lambda: [a["details"]["documents"] for a in given_up(servers[0])] == [3], "the alert")
    for server in servers:
        wait_for(lambda server=server: metric(server, "dataflow_alerts_firing", rule="DeliveryGivenUp") == 1, "each knows")
    assert sum(len(server.log("AlertFired")) for server in servers) == 1
    wait_for(lambda: triggers(sinks), "people are told")
    assert len(triggers(sinks)) == 1


def test_one_webhook_that_is_given_up_raises_an_alert_until_it_is_replayed(make_server, sinks, sandbox):
    sinks.config |= {"webhooks": {"retry_delays_ms": "20"}}
    sinks.config["delivery"]["allow_private_targets"] = "on"
    server = start(make_server, sinks)
    client = server.new_client()
    path = f"/webhooks/{uuid.uuid4().hex}"
    hook = client.post(f"/clients/{client.id}/webhooks",
                       {"url": "http://{}:{}".format(*sandbox.server.host_port) + path}).json
    sandbox.post("/_faults", {"path": path, "status": 500, "count": 2})
    assert client.post(f"/clients/{client.id}/webhooks/{hook['id']}/test").status == 202
    alert, = wait_for(lambda: given_up(server), "the alert")
    assert alert["subject"] == f"webhooks {hook['id']}" and alert["details"]["documents"] == 1
    assert alert["details"]["lastError"] == "HTTP 500" and alert["details"]["page"] == CONSOLE + "#webhooks"
    wait_for(lambda: triggers(sinks), "people are told")
    wait_for(lambda: metric(server, "dataflow_delivery_given_up", channel="webhooks") == 1, "the gauge")
    assert len(server.log("WebhookFailed")) == 1 and not server.log("DeliveryGivenUp")
    failure, = server.admin().get("/admin/webhook-failures").json["items"]
    assert server.admin().post(f"/admin/webhook-failures/{failure['id']}/replay").status == 202
    wait_for(lambda: given_up(server) == [], "the end")


def test_an_event_that_a_relay_gives_up_raises_an_alert_until_it_is_retried(make_server, make_backend, sinks, sandbox):
    backend = make_backend()
    path = f"/webhooks/{uuid.uuid4().hex}"
    url = "http://{}:{}".format(*sandbox.server.host_port) + path
    sinks.config["relay.orders"] = {"url": backend.url, "dispatcher": "http", "target": url, "poll_ms": 50, "max_retries": 0}
    server = start(make_server, sinks, backend=backend)
    sandbox.post("/_faults", {"path": path, "status": 400, "count": 2})
    client = server.new_client()
    for n in range(3):
        assert client.post("/events", {"eventType": "OrderPlaced", "payload": {"n": n}}).status == 202
    wait_for(lambda: [a["details"]["documents"] for a in given_up(server)] == [2], "the alert")
    alert, = given_up(server)
    assert alert["subject"] == "relay orders" and alert["details"]["lastError"] == "HTTP 400"
    assert alert["details"]["oldestAt"] <= alert["details"]["newestAt"]
    wait_for(lambda: triggers(sinks), "people are told")
    assert metric(server, "dataflow_relay_given_up", relay="orders") == 2
    assert metric(server, "dataflow_relay_given_up_total", relay="orders") == 2

    server.restart()  # the new process counts what the old one has given up
    wait_for(lambda: metric(server, "dataflow_relay_given_up", relay="orders") == 2, "the gauge")
    assert [a["id"] for a in given_up(server)] == [alert["id"]]
    assert server.admin().post("/admin/outbox/events/retry", {"status": "FAILED"}).json["retried"] == 2
    wait_for(lambda: given_up(server) == [], "the end")
    assert metric(server, "dataflow_relay_given_up", relay="orders") == 0


def test_a_relay_counts_what_another_process_has_noted(make_server, make_backend, sinks):
    """That one may be gone, and somebody may have set the events back meanwhile."""
    backend = make_backend()
    sinks.config["relay.orders"] = {"url": backend.url, "dispatcher": "log", "poll_ms": 50}
    server = start(make_server, sinks, backend=backend)
    server.stop()
    now = "SYSUTCDATETIME()" if backend.name == "sqlserver" else "CURRENT_TIMESTAMP"
    # The relay itself has written its row, if it had the time.
    backend.script("DELETE FROM DeliveryTargets WHERE Channel = 'relay' AND Target = 'orders'")
    backend.script("INSERT INTO DeliveryTargets (Channel, Target, GivenUp) VALUES ('relay', 'orders', 7)")
    backend.script("INSERT INTO outbox_events (id, event_type, payload, status, created_at)"
                   f" VALUES ('{uuid.uuid4()}', 'OrderPlaced', '{{}}', 'FAILED', {now})")
    server.start()
    wait_for(lambda: backend.query("SELECT GivenUp FROM DeliveryTargets WHERE Target = 'orders'")[0][0] == 1, "it was counted")
    wait_for(lambda: [a["details"]["documents"] for a in given_up(server)] == [1], "the alert")
    backend.script("UPDATE outbox_events SET status = 'PENDING'")
    wait_for(lambda: given_up(server) == [], "the end")


def test_tickets_whose_processing_was_given_up(make_server, sinks):
    server = start(make_server, sinks)
    for doc, failed in (("GIVEN-UP", "CURRENT_TIMESTAMP"), ("INVALID", "NULL")):
        server.backend.script(
            "INSERT INTO TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, CompanyCode, BranchCode, DestinationCode, PhaseCode,"
            " ShipmentEvent, FunctionalAckIsRequired, TargetApplicationCode, RawPayloadJson, Status, LastError, AttemptCount,"
            f" FirstFailedAt, NextAttemptAt) VALUES ('TCK', '{doc}', 'C', 'B', 'D', 15, 'S',"
            f" {'false' if server.backend.name == 'postgres' else 0}, 'T', '{{}}', 'Error', '{SECRET_WORDS}', 5, {failed}, NULL)")
    alert, = wait_for(lambda: given_up(server), "the alert")
    assert alert["subject"] == "tickets" and alert["details"]["documents"] == 1 and alert["details"]["lastError"] is None
    wait_for(lambda: metric(server, "dataflow_tickets_given_up") == 1, "the gauge")
    wait_for(lambda: triggers(sinks), "people are told")
    assert SECRET_WORDS not in json.dumps(sinks.came("v2")) and SECRET_WORDS not in server.log_text()
    server.backend.script("UPDATE TB_TICKET_INTERFACE SET Status = 'Processed', FirstFailedAt = NULL"
                          " WHERE BusinessDocId = 'GIVEN-UP'")
    wait_for(lambda: given_up(server) == [], "the end")


def test_messages_to_a_sink_that_refuses_them_make_no_further_alert(make_server, gateway, sinks, sandbox):
    sandbox.post("/_faults", {"path": f"{sinks.path}/v2", "status": 400})
    server = start(make_server, sinks)
    gateway.refuse(1)
    gateway.send(server.new_client())
    wait_for(lambda: metric(server, "dataflow_delivery_given_up", channel="alerts") == 1, "the message was given up")
    line, = [line for line in server.log("DeliveryGivenUp") if line["channel"] == "alerts"]
    assert line["reason"] == "refused"
    evaluated = metric(server, "dataflow_alerts_firing", rule="DeliveryGivenUp")
    assert evaluated == 1 and len(given_up(server)) == 1
    shown = server.admin().get("/admin/outbox/alerts?status=Error").json
    assert shown["total"] == 1 and "pagerduty" in shown["items"][0]["targetUrl"]
    sandbox.request("DELETE", f"/_faults?path={sinks.path}/v2")


SINKS = {"none": ({}, False, []), "pagerduty": ({"pagerduty_routing_key": "R" * 32}, True, ["pagerduty"]),
         "teams": ({"teams_url": "https://teams.example/x"}, True, ["teams"])}


@pytest.mark.parametrize("which", SINKS)
def test_alerts_are_configured_when_they_have_somewhere_to_go(make_server, which):
    settings, configured, names = SINKS[which]
    server = make_server(config={"alerts": settings} if settings else {})
    channels = {c["name"]: c for c in server.anonymous().get("/readyz").json["channels"]}
    told = overview(server)
    assert channels["alerts"]["configured"] is told["alerts"]["configured"] is configured
    missing = None if configured else "alerts.pagerduty_routing_key or alerts.teams_url"
    assert channels["alerts"].get("missing") == missing and told["alerts"].get("missing") == missing
    assert server.admin().get("/admin/alerts").json["sinks"] == names
    said = [line for line in server.log("ChannelNotConfigured") if line["channel"] == "alerts"]
    assert len(said) == (0 if configured else 1)
