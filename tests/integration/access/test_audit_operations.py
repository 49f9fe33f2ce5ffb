"""Every sensitive operation leaves its entry: who, from where, what, outcome."""

import json
import threading
import time

import pytest
from harness import wait_for
from test_imports_process import configuration, figures, leads, make_peer, send, wait_end  # noqa: F401 (fixture)
from test_imports_receive import policy, taken, upload

OPS, BOSS = "ops-key-that-is-long-enough-here", "boss-key-that-is-long-enough-here"
ADDRESS = "127.77.0.9"


@pytest.fixture
def world(make_server, make_peer):  # noqa: F811
    peer = make_peer()
    config = configuration(peer, imports={"mode": "concurrent", "workers": 2},
                           **{"admin.ops": {"key": OPS, "role": "operate"}, "admin.boss": {"key": BOSS}})
    server = make_server(config=config)
    server.secrets |= {OPS, BOSS}
    server.peer = peer
    return server


def entries(server, **wanted):
    query = "&".join(f"{name}={value}" for name, value in wanted.items())
    answer = server.admin().get(f"/admin/audit?pageSize=200&{query}")
    assert answer.status == 200, answer
    return answer.json["items"]


def expect(server, action, target, actor="admin:ops", outcome="ok", **details):
    found = [e for e in entries(server, action=action, outcome=outcome) if e["target"] == target and e["actor"] == actor]
    assert found, (action, target, [(e["action"], e["target"], e["actor"]) for e in entries(server)])
    entry = found[0]
    if actor.startswith(("admin:", "client:")):
        assert entry["ip"] == ADDRESS and entry["correlationId"], entry
    if actor.startswith("admin:"):
        assert entry["details"]["role"] == ("operate" if actor == "admin:ops" else "admin")
    for name, value in details.items():
        assert entry["details"][name] == value, entry
    return entry


def later(server, client):
    policy(server, client, allowedStartHour=(time.gmtime().tm_hour + 3) % 24, allowedEndHour=(time.gmtime().tm_hour + 4) % 24)
    return upload(client).json["batchId"]


def test_clients_secrets_policies_scopes(world):
    boss = world.admin(BOSS, address=ADDRESS)
    world.remember(boss.post("/admin/clients", {"name": "A", "clientId": "a"}).json)
    world.remember(boss.post("/admin/clients/a/rotate-secret").json)
    assert boss.patch("/admin/clients/a", {"status": "Suspended"}).status == 200
    assert boss.patch("/admin/clients/a", {"status": "Active", "scopes": ["imports"]}).status == 200
    assert boss.request("PUT", "/admin/clients/a/policy", json.dumps({"maxFileSizeMb": 3}).encode(),
                        headers={"Content-Type": "application/json"}).status == 200
    assert boss.request("DELETE", "/admin/clients/a/policy").status in (200, 204)
    for action in ("ClientCreated", "ClientSecretRotated", "ClientSuspended", "ClientActivated", "ClientScopesChanged",
                   "PolicyChanged", "PolicyReset"):
        expect(world, action, "a", "admin:boss")
    assert world.cli("client", "suspend", "a").returncode == 0
    actor = [e["actor"] for e in entries(world, action="ClientSuspended")][0]
    assert actor.startswith("cli:")


def test_imports(world):
    ops = world.admin(OPS, address=ADDRESS)
    client = world.new_client()
    own = world.client(client.id, client.secret, address=ADDRESS)
    world.peer.answer = lambda request: (200, {"items": [{"sequence": 0, "status": "Error", "errorMessage": "no"}]})
    batch = taken(upload(client, json.dumps(leads(3)).encode(), "leads.json"))
    wait_end(client, batch)
    for caller, actor in ((ops, "admin:ops"), (own, f"client:{client.id}")):
        prefix = "/admin" if caller is ops else ""
        assert caller.get(f"{prefix}/imports/{batch}/errors.csv").status == 200
        expect(world, "ImportReportDownloaded", batch, actor)
    assert own.get(f"/imports/{batch}/errors.json").status == 200
    assert len(entries(world, action="ImportReportDownloaded")) == 2, "a client's own: one a batch and hour"
    world.peer.answer = lambda request: 200
    assert ops.post(f"/admin/imports/{batch}/retry").status == 202
    expect(world, "ImportRetried", batch)
    assert figures(wait_end(client, batch))[0] == "Completed"
    batch = later(world, client)
    assert ops.request("DELETE", f"/admin/imports/{batch}").status == 204
    expect(world, "ImportCancelled", batch)
    batch = later(world, client)
    assert own.request("DELETE", f"/imports/{batch}").status == 204
    expect(world, "ImportCancelled", batch, f"client:{client.id}")


def test_release_of_a_lock(world):
    client = world.new_client()
    hang, entered = threading.Event(), threading.Event()

    def answer(request):
        if request.nth == 1:
            entered.set()
            hang.wait(20)
        return 200

    world.peer.answer = answer
    batch = send(client, leads(5))
    assert entered.wait(20)
    assert world.admin(OPS, address=ADDRESS).post(f"/admin/imports/{batch}/release").status == 200
    expect(world, "ImportReleased", batch)
    hang.set()
    wait_end(client, batch)


def test_tickets_outboxes_webhooks_alerts(world):
    ops, boss = world.admin(OPS, address=ADDRESS), world.admin(BOSS, address=ADDRESS)
    client = world.new_client()
    made = client.post("/api/tickets", {"businessEntity": "TCK", "businessDocId": "T1", "companyCode": "1", "branchCode": "1",
                                        "destinationCode": "D", "phaseCode": 15, "shipmentEvent": "RCD", "targetApplicationCode": "X"})
    assert made.status == 200
    number = made.json["id"]
    wait_for(lambda: world.admin().get(f"/admin/tickets/{number}").json["status"] == "Processed", "the ticket")
    assert ops.post(f"/admin/tickets/{number}/reprocess").status in (200, 202)
    expect(world, "TicketReprocessed", f"tickets/{number}")
    other = world.new_client()
    assert boss.patch(f"/admin/tickets/{number}", {"clientId": other.id}).status == 200
    assert [e for e in entries(world, target=f"tickets/{number}") if e["actor"] == "admin:boss"]
    for verb, action in (("pause", "DeliveryPaused"), ("resume", "DeliveryResumed")):
        assert ops.post(f"/admin/outbox/webhooks/{verb}", {}).status == 200
        expect(world, action, "webhooks")
    hook = boss.post(f"/clients/{client.id}/webhooks", {"url": "http://93.184.216.34/x"})
    assert hook.status == 201
    world.remember(hook.json)
    expect(world, "WebhookCreated", hook.json["id"], "admin:boss")
    world.remember(boss.post(f"/clients/{client.id}/webhooks/{hook.json['id']}/rotate-secret").json)
    expect(world, "WebhookSecretRotated", hook.json["id"], "admin:boss")
    assert boss.request("DELETE", f"/clients/{client.id}/webhooks/{hook.json['id']}").status == 204
    expect(world, "WebhookDeleted", hook.json["id"], "admin:boss")


def test_the_configuration_at_the_start(world):
    entry = expect(world, "ServerStarted", entries(world, action="ServerStarted")[0]["target"], "server",
                   adminKeys=["admin", "ops", "boss"], roles=["api", "process", "deliver", "import", "relay", "maintain"])
    assert set(entry["details"]) == {"version", "listen", "roles", "adminKeys", "configuration"}
    first = entry["details"]["configuration"]
    text = json.dumps(entries(world, action="ServerStarted"))
    assert not any(secret in text for secret in world.secrets)
    world.restart()
    assert entries(world, action="ServerStarted")[0]["details"]["configuration"] == first
    world.args = ("--set", "delivery.max_attempts=7")
    world.restart()
    assert entries(world, action="ServerStarted")[0]["details"]["configuration"] != first
