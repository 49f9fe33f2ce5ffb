"""Named admin keys and their roles: every route that takes an admin key, with every role."""

import json

import pytest
from harness import ADMIN_KEY, ROOT, run

KEYS = {"read": "read-key-which-is-long-enough-1", "operate": "operate-key-which-is-long-enough", "admin": "admin-key-which-is-long-enough-3"}
LEVEL = {"read": 0, "operate": 1, "admin": 2}
DOCUMENT = json.loads((ROOT / "console" / "openapi.json").read_text(encoding="utf-8"))
ROUTES = [(method.upper(), path, operation) for path, item in DOCUMENT["paths"].items() for method, operation in item.items()
          if {"AdminKey": []} in operation.get("security", []) and path not in ("/metrics", "/whoami")]

# What needs more than its method says. Everything else: GET needs read, the rest admin.
OPERATE = {
    "POST /admin/outbox/retry", "POST /admin/outbox/{channel}/{id}/retry", "POST /admin/outbox/{channel}/retry",
    "POST /admin/outbox/{channel}/pause", "POST /admin/outbox/{channel}/resume", "POST /admin/circuit-breakers/{name}/reset",
    "POST /admin/tickets/{id}/reprocess", "POST /admin/tickets/reprocess", "POST /admin/alerts/test",
    "DELETE /admin/imports/{batchId}", "POST /admin/imports/{batchId}/retry", "POST /admin/imports/{batchId}/release",
    "POST /clients/{clientId}/webhooks/{id}/test", "POST /admin/webhook-failures/{id}/replay",
    "POST /admin/webhook-failures/replay", "POST /admin/outbox/dismiss", "POST /admin/outbox/{channel}/dismiss",
    "POST /admin/outbox/{channel}/{id}/dismiss", "POST /admin/tickets/{id}/dismiss", "POST /admin/webhook-failures/{id}/dismiss",
}


def names(*roles):
    return {f"admin.{role}": {"key": KEYS[role], "role": role} for role in roles}


@pytest.fixture(scope="module")
def guarded(_module_backends, tmp_path_factory):
    from harness import Server

    server = Server(_module_backends(), tmp_path_factory.mktemp("roles"), config=names("read", "operate", "admin")).start()
    server.secrets |= set(KEYS.values())
    yield server
    server.finish()


def some(path):
    for name, value in {"id": "1", "batchId": "01920f1e-6f0a-7c3e-9d53-4b2f6c1d8e70", "clientId": "nobody", "channel": "webhooks",
                        "deliveryId": "01920f1e-6f0a-7c3e-9d53-4b2f6c1d8e71", "name": "x", "kind": "x"}.items():
        path = path.replace("{" + name + "}", value)
    assert "{" not in path, f"{path}: say what stands for it"
    return path


def test_every_route_has_a_decision():
    assert ROUTES
    for method, path, operation in ROUTES:
        assert operation.get("x-role") in LEVEL, f"{method} {path}: which role does it need?"
    assert {f"{method} {path}" for method, path, operation in ROUTES if operation["x-role"] == "operate"} >= OPERATE


@pytest.mark.parametrize("role", KEYS)
@pytest.mark.parametrize("method,path,operation", ROUTES, ids=[f"{m} {p}" for m, p, _ in ROUTES])
def test_a_route_takes_the_roles_that_it_says(guarded, method, path, operation, role):
    answer = guarded.admin(KEYS[role]).request(method, some(path))
    if LEVEL[role] < LEVEL[operation["x-role"]]:
        assert (answer.status, answer.code) == (403, "RoleMissing"), answer
        assert f'"{operation["x-role"]}" is needed' in answer.json["detail"]
    else:
        assert answer.status not in (401, 403), answer


def test_whoami_tells_name_and_role(guarded):
    for role, key in KEYS.items():
        assert guarded.admin(key).get("/whoami").json == {"admin": role, "role": role}
    assert guarded.admin().get("/whoami").json == {"admin": "admin", "role": "admin"}
    client = guarded.new_client()
    assert client.get("/whoami").json["clientId"] == client.id
    assert guarded.anonymous().get("/whoami").status == 401
    assert guarded.admin("wrong").get("/whoami").status == 401


def test_any_key_sees_metrics_and_the_details_of_readiness(guarded):
    for key in (*KEYS.values(), ADMIN_KEY):
        assert guarded.admin(key).get("/metrics").status == 200
        assert guarded.admin(key).get("/readyz").status == 200


def test_the_audit_log_has_the_name_and_the_role(guarded):
    answer = guarded.admin(KEYS["admin"]).post("/admin/clients", {"name": "By name", "clientId": "by-name"})
    assert answer.status == 201
    guarded.remember(answer.json)
    entry = guarded.admin(KEYS["read"]).get("/admin/audit?target=by-name&action=ClientCreated").json["items"][0]
    assert (entry["actor"], entry["details"]["role"], entry["outcome"]) == ("admin:admin", "admin", "ok")


def test_a_refusal_is_one_entry_a_minute_for_each_key_and_route(make_server):
    server = make_server(config=names("read", "operate"))
    server.secrets |= set(KEYS.values())
    for _ in range(3):
        assert server.admin(KEYS["read"]).post("/admin/outbox/retry", {"all": True}).status == 403
        assert server.admin(KEYS["operate"]).post("/admin/clients", {"name": "x"}).status == 403
    assert server.admin(KEYS["read"]).post("/admin/clients", {"name": "x"}).status == 403
    assert server.stop() == 0
    server.start()
    items = server.admin().get("/admin/audit?outcome=denied").json["items"]
    assert sorted((i["actor"], i["action"], i["target"], i["details"]["needs"]) for i in items) == [
        ("admin:operate", "Denied", "POST /admin/clients", "admin"), ("admin:read", "Denied", "POST /admin/clients", "admin"),
        ("admin:read", "Denied", "POST /admin/outbox/retry", "operate")]
    assert all(i["ip"] and i["details"]["role"] for i in items)


def test_a_named_key_alone_is_enough(make_server):
    server = make_server(config={"admin": {"key": None}, **names("read")})
    server.secrets |= set(KEYS.values())
    assert server.admin(KEYS["read"]).get("/admin/clients").status == 200
    assert server.admin().get("/admin/clients").status == 401


@pytest.mark.parametrize("sections,complaint", [
    ({"admin.ops": {"role": "operate"}}, "[admin.ops] key: is not set"),
    ({"admin.ops": {"key": KEYS["read"], "role": "boss"}}, "role"),
    ({"admin.ops": {"key": KEYS["read"]}, "admin.more": {"key": KEYS["read"]}}, "[admin.more] key: another section has the same key"),
    ({"admin": {"key": KEYS["read"]}, "admin.ops": {"key": KEYS["read"]}}, "[admin.ops] key: another section has the same key"),
    ({"server": {"listen": "0.0.0.0:0"}, "admin.ops": {"key": "short"}}, "[admin.ops] key: has fewer than 12"),
    ({"admin.ops": {"key": KEYS["read"], "name": "x"}}, "unknown key"),
    ({"admin.two words": {"key": KEYS["read"]}}, "NAME in admin.NAME"),
])
def test_bad_sections_are_refused(tmp_path, sections, complaint):
    from harness import write_config

    done = run("check-config", "--config", write_config(tmp_path / "x.ini", sections))
    assert done.returncode == 2 and complaint in done.stderr
    assert not any(key in done.stdout + done.stderr for key in KEYS.values())


def test_a_short_named_key_is_warned_of_and_keys_come_from_the_environment(tmp_path):
    from harness import write_config

    done = run("check-config", "--config", write_config(tmp_path / "x.ini", {"server": {}}),
               env={"DATAFLOW_ADMIN_KEY": "k" * 30, "DATAFLOW_ADMIN_OPS_KEY": "k" * 20, "DATAFLOW_ADMIN_OPS_ROLE": "operate"})
    assert done.returncode == 0 and "[admin.ops]" in done.stdout and "role = operate" in done.stdout
    assert "[admin.ops] key: has fewer than 24" in done.stderr
