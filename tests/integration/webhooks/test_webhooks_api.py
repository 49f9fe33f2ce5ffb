"""Subscriptions to webhooks: access, accepted and refused values, secrets, deliveries and failures."""

import base64
import http.server
import json
import re
import threading
import uuid

import pytest
from conftest import _servers
from harness import ADMIN_KEY, fresh_address, wait_for
from test_openapi import DOCUMENT, check

SCHEMAS = DOCUMENT["components"]["schemas"]
PUBLIC = "https://93.184.216.34/hooks"  # nothing is ever sent there
MASTER = "9f" * 32
DEFAULTS = ["BatchCompleted", "BatchFailed"]
OWN = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Hooks:
    """A client's webhooks, as the client or the administrator sees them."""

    def __init__(self, server, caller, client):
        self.server, self.caller, self.client = server, caller, client
        self.path = f"/clients/{client.id}/webhooks"

    def create(self, url=PUBLIC, **fields):
        answer = self.caller.post(self.path, {"url": url, **fields})
        assert answer.status == 201, answer
        check(answer.json, SCHEMAS["WebhookWithSecret"], "created")
        return answer.json

    def get(self, hook, rest="", **kwargs):
        return self.caller.get(f"{self.path}/{hook['id']}{rest}", **kwargs)

    def post(self, hook, rest, *args, **kwargs):
        return self.caller.post(f"{self.path}/{hook['id']}{rest}", *args, **kwargs)

    def patch(self, hook, body):
        return self.caller.patch(f"{self.path}/{hook['id']}", body)

    def delete(self, hook):
        return self.caller.request("DELETE", f"{self.path}/{hook['id']}")

    def deliveries(self, hook, query=""):
        answer = self.get(hook, "/deliveries" + query)
        assert answer.status == 200, answer
        check(answer.json, SCHEMAS["WebhookDeliveryPage"], "deliveries")
        return answer.json["items"]


def hooks_of(server, by="client"):
    client = server.new_client()
    return Hooks(server, server.admin() if by == "admin" else client, client)


@pytest.fixture(params=["client", "admin"])
def hooks(server, request):
    return hooks_of(server, request.param)


def audit_of(server, hook):
    items = server.admin().get("/admin/audit?pageSize=200").json["items"]
    return [(row["action"], row["actor"]) for row in reversed(items) if row["target"] == hook["id"]]


# --- a subscription's life -----------------------------------------------------------------------------


def test_from_its_creation_to_its_end(hooks):
    hook = hooks.create()
    secret = hook.pop("secret")
    assert secret.startswith("whsec_") and len(base64.b64decode(secret[6:], validate=True)) == 32
    assert hook["url"] == PUBLIC and hook["events"] == DEFAULTS and hook["isActive"] is True
    assert hook["clientId"] == hooks.client.id and hook["disabledAt"] is hook["failureSince"] is None
    assert hooks.get(hook).json == hook
    listed = hooks.caller.get(hooks.path).json
    assert listed == {"items": [hook], "page": 1, "pageSize": 20, "total": 1}
    check(listed, SCHEMAS["WebhookPage"], "list")

    changed = hooks.patch(hook, {"url": "http://93.184.216.34:8080/x?y=1",
                                 "events": ["ticketfailed", "BatchStarted", "BatchStarted"]})
    assert changed.status == 200 and changed.json["events"] == ["BatchStarted", "TicketFailed"]
    assert changed.json["url"] == "http://93.184.216.34:8080/x?y=1"
    assert hooks.patch(hook, {}).json["events"] == ["BatchStarted", "TicketFailed"]

    assert hooks.delete(hook).status == 204
    assert hooks.get(hook).status == hooks.delete(hook).status == hooks.patch(hook, {}).status == 404
    assert hooks.caller.get(hooks.path).json["total"] == 0
    actor = "admin" if hooks.caller is not hooks.client else f"client:{hooks.client.id}"
    actions = ("WebhookCreated", "WebhookChanged", "WebhookChanged", "WebhookDeleted")
    assert audit_of(hooks.server, hook) == [(action, actor) for action in actions]


def test_location_leads_to_it(hooks):
    answer = hooks.caller.post(hooks.path, {"url": PUBLIC})
    assert hooks.caller.get(answer.headers["Location"]).json["id"] == answer.json["id"]


def test_switched_off_and_on(hooks):
    hook = hooks.create(isActive=False)
    assert hook["isActive"] is False and hook["disabledAt"] and "Switched off" in hook["disabledReason"]
    assert hooks.post(hook, "/test").status == 409
    hook_id = hook["id"]
    hooks.server.backend.script("UPDATE WebhookSubscriptions SET FailureSince = CreatedAt,"
                                f" DisabledReason = 'It is gone.' WHERE Id = '{hook_id}';")
    assert hooks.patch(hook, {"isActive": False}).json["disabledReason"] == "It is gone."
    on = hooks.patch(hook, {"isActive": "true"}).json
    assert on["isActive"] is True and on["disabledAt"] is on["disabledReason"] is on["failureSince"] is None
    off = hooks.patch(hook, {"isActive": False}).json
    assert off["isActive"] is False and off["disabledAt"]


def test_pages(server):
    hooks = hooks_of(server)
    made = [hooks.create()["id"] for _ in range(3)]
    first = hooks.caller.get(hooks.path + "?pageSize=2").json
    second = hooks.caller.get(hooks.path + "?pageSize=2&page=2").json
    assert [h["id"] for h in first["items"] + second["items"]] == made[::-1] and first["total"] == 3


# --- who may ---------------------------------------------------------------------------------------------


def test_another_clients_webhooks_are_not_there(server):
    mine, theirs = hooks_of(server), hooks_of(server)
    hook = theirs.create()
    one = "/" + hook["id"]
    paths = [("GET", ""), ("POST", ""), ("GET", one), ("PATCH", one), ("DELETE", one), ("POST", one + "/test"),
             ("POST", one + "/rotate-secret"), ("GET", one + "/deliveries")]
    for method, rest in paths:
        body = b'{"url": "https://93.184.216.34/"}' if method in ("POST", "PATCH") else None
        assert mine.caller.request(method, theirs.path + rest, body).status == 404, (method, rest)
        if rest:  # nor under one's own name
            assert mine.caller.request(method, mine.path + rest, body).status == 404, (method, rest)
            assert server.admin().request(method, mine.path + rest, body).status == 404, (method, rest)
        assert server.anonymous().request(method, theirs.path + rest, body).status == 401, (method, rest)
    del hook["secret"]
    assert theirs.get(hook).json == hook


def test_callers(server):
    hooks = hooks_of(server)
    client = hooks.client
    assert server.admin("wrong").get(hooks.path).status == 401
    assert server.client(client.id, "wrong").get(hooks.path).status == 401
    assert server.admin().get("/clients/nobody/webhooks").status == 404
    assert server.admin().post("/clients/nobody/webhooks", {"url": PUBLIC}).status == 404
    # Whoever shows the admin key is judged by it.
    assert client.get(hooks.path, headers={"X-Admin-Key": "wrong"}).status == 401
    assert client.get("/clients/nobody/webhooks", headers={"X-Admin-Key": ADMIN_KEY}).status == 404
    other = server.new_client(scopes=["acks"])
    assert other.get(f"/clients/{other.id}/webhooks").status == 200
    assert server.admin().patch(f"/admin/clients/{client.id}", {"status": "Suspended"}).status == 200
    assert client.get(hooks.path).status == 403
    assert server.admin().get(hooks.path).status == 200


# --- what is taken ---------------------------------------------------------------------------------------

BAD_URLS = [
    "", " ", "ftp://93.184.216.34/", "93.184.216.34", "//93.184.216.34/", "https://", "https:///path",
    "https://user@93.184.216.34/", "https://user:pass@93.184.216.34/", "https://93.184.216.34/#part",
    "https://93.184.216.34/a b", "https://93.184.216.34/ação", "https://93.184.216.34:0/",
    "https://93.184.216.34:65536/", "https://93.184.216.34\\@10.0.0.1/", "https://93.184.216.34/" + "x" * 500,
    "http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/",
    "http://localhost:8080/", "http://0.0.0.0/", "http://10.1.2.3/", "http://172.31.0.1/", "http://192.168.1.1/",
    "http://169.254.169.254/latest", "http://[::1]/", "http://[::]/", "http://[::ffff:127.0.0.1]/",
    "http://[fe80::1]/", "http://[fd00::1]/", "http://[64:ff9b::a00:1]/", "https://nothing.invalid/",
]
BAD = [
    ({"url": None}, "url"), ({"url": []}, "url"), ({"url": True}, "url"), ({"events": "BatchCompleted"}, "events"),
    ({"events": []}, "events"), ({"events": ["BatchGone"]}, "events"),
    ({"events": ["BatchCompleted", 1]}, "events"), ({"events": {"BatchCompleted": True}}, "events"),
    ({"events": ["Test"]}, "events"), ({"secret": ""}, "secret"), ({"secret": "short"}, "secret"),
    ({"secret": "x" * 129}, "secret"), ({"secret": "with spaces in between"}, "secret"),
    ({"secret": "segredo-não-é-ascii"}, "secret"), ({"secret": "whsec_AAAA"}, "secret"),
    ({"secret": ["x" * 20]}, "secret"), ({"isActive": "perhaps"}, "isActive"),
]


def test_bad_urls(server):
    hooks = hooks_of(server)
    hook = hooks.create()
    for url in BAD_URLS:
        for answer in (hooks.caller.post(hooks.path, {"url": url}), hooks.patch(hook, {"url": url})):
            assert answer.status == 400 and answer.bad_fields == {"url"}, (url, answer)
    assert hooks.caller.get(hooks.path).json["total"] == 1 and hooks.get(hook).json["url"] == PUBLIC


def test_bad_fields(server):
    hooks = hooks_of(server)
    for fields, name in BAD:
        answer = hooks.caller.post(hooks.path, {"url": PUBLIC, **fields})
        assert answer.status == 400 and answer.bad_fields == {name}, (fields, answer)
    answer = hooks.caller.post(hooks.path, {"url": "x", "events": ["y"], "secret": "z", "isActive": "w"})
    assert answer.bad_fields == {"url", "events", "secret", "isActive"}
    hook = hooks.create()
    assert hooks.patch(hook, {"secret": OWN}).bad_fields == {"secret"}
    assert hooks.post(hook, "/rotate-secret", {"secret": "short"}).bad_fields == {"secret"}
    assert hooks.post(hook, "/rotate-secret?overlapHours=721").bad_fields == {"overlapHours"}
    assert hooks.get(hook, "/deliveries?status=Lost").bad_fields == {"status"}
    assert hooks.get(hook, "/deliveries?pageSize=201").status == 400
    for body in (b"", b"[]", b"{", b'{"url": "https://93.184.216.34/", "url": "https://93.184.216.34/"}'):
        assert hooks.caller.request("POST", hooks.path, body).status == 400, body
    assert hooks.caller.request("POST", hooks.path, b"{}", headers={"Content-Type": "text/plain"}).status == 415
    for method, rest in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/test"), ("POST", "/rotate-secret"),
                         ("GET", "/deliveries")):
        for hook_id in (uuid.uuid4(), "x", "%00"):
            answer = hooks.caller.request(method, f"{hooks.path}/{hook_id}{rest}", b"{}" if method == "PATCH" else None)
            assert answer.status in (400, 404), (method, rest, hook_id)
    assert hooks.caller.get(hooks.path).json["total"] == 1


def test_no_more_than_allowed(server):
    """Also when they are made side by side."""
    hooks = hooks_of(server)
    for _ in range(17):
        hooks.create()
    answers = []
    callers = [server.client(hooks.client.id, hooks.client.secret) for _ in range(6)]
    threads = [threading.Thread(target=lambda c=c: answers.append(c.post(hooks.path, {"url": PUBLIC}).status))
               for c in callers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [201] * 3 + [409] * 3
    hook = hooks.caller.get(hooks.path).json["items"][0]
    assert hooks.delete(hook).status == 204
    hooks.create()
    refused = hooks.caller.post(hooks.path, {"url": PUBLIC})
    assert refused.status == 409 and "Location" not in refused.headers


# --- secrets ---------------------------------------------------------------------------------------------


def test_secrets_are_shown_once(server):
    """Neither again, nor in the audit log, nor (as of every secret) in the server's log."""
    hooks = hooks_of(server)
    hook = hooks.create(secret=OWN)
    assert hook["secret"] == OWN
    rotated = hooks.post(hook, "/rotate-secret").json
    check(rotated, SCHEMAS["WebhookWithSecret"], "rotated")
    assert rotated["secret"] not in (OWN, None) and rotated["previousSecretValidUntil"]
    own = hooks.post(hook, "/rotate-secret", {"secret": "my-own-secret-of-2026"}).json
    assert own["secret"] == "my-own-secret-of-2026"
    seen = b"".join(answer.body for answer in (hooks.get(hook), hooks.caller.get(hooks.path), hooks.patch(hook, {}),
                                               server.admin().get("/admin/audit?pageSize=200")))
    for secret in (OWN, rotated["secret"], own["secret"]):
        assert secret.encode() not in seen
    assert hooks.post(hook, "/rotate-secret?overlapHours=0").json["previousSecretValidUntil"] is None


def secret_columns(backend, hook):
    row, = backend.query("SELECT Secret, SecretEncrypted, PreviousSecret, PreviousSecretEncrypted,"
                         f" PreviousSecretExpiresAt FROM WebhookSubscriptions WHERE Id = '{hook['id']}'")
    return row


def test_secrets_of_older_releases_are_encrypted_at_start(make_server):
    """Without a master key they lay open there."""
    server = make_server(config={"alerts": {"interval_seconds": 1}})
    hooks = hooks_of(server)
    hook = hooks.create(secret="first-secret-lies-open")
    second = hooks.post(hook, "/rotate-secret", {"secret": "second-one-lies-open"}).json["secret"]
    columns = secret_columns(server.backend, hook)
    assert columns[0] is columns[2] is None and columns[1] and columns[3] and bytes(columns[1]) != bytes(columns[3])
    server.stop()
    server.backend.script("UPDATE WebhookSubscriptions SET SecretEncrypted = NULL, PreviousSecretEncrypted = NULL,"
                          f" Secret = '{second}', PreviousSecret = 'first-secret-lies-open'")
    server.start()
    assert "2 webhook secrets" in server.log("WebhookSecretsEncrypted")[-1]["message"]
    columns = secret_columns(server.backend, hook)
    assert columns[0] is columns[2] is None and columns[1] and columns[3] and columns[4]

    third = hooks.post(hook, "/rotate-secret").json["secret"]
    fourth = hooks.create()["secret"]
    stored = server.backend.all_bytes()
    for secret in (third, fourth):
        assert secret.encode() not in stored and base64.b64decode(secret[6:]) not in stored
        assert base64.b64decode(secret[6:]).hex().encode() not in stored
    # The old one is forgotten when its time is over.
    server.stop()
    server.backend.script("UPDATE WebhookSubscriptions SET PreviousSecretExpiresAt = '2020-01-01T00:00:00.000Z'")
    server.start()
    wait_for(lambda: secret_columns(server.backend, hook)[2:] == (None, None, None), "the old secret to be gone")


# --- deliveries and what was given up ----------------------------------------------------------------------


class Receiver(http.server.ThreadingHTTPServer):
    """Answers what it is told to, and keeps what came."""

    daemon_threads = True

    def __init__(self):
        super().__init__((fresh_address(), 0), Handler)
        self.status = 200
        self.came = []
        self.url = "http://{}:{}/hook".format(*self.server_address)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.came.append((dict(self.headers), json.loads(body)))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver():
    receiver = Receiver()
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    yield receiver
    receiver.shutdown()
    receiver.server_close()


@pytest.fixture(scope="module")
def sending(_module_backends, tmp_path_factory):
    """A server that may reach this machine, and gives up after three attempts at once."""
    servers = _servers(_module_backends, tmp_path_factory)
    yield next(servers)(config={"delivery": {"allow_private_targets": "on"}, "webhooks": {"retry_delays_ms": "1,1"},
                                "security": {"master_key": MASTER}, "breaker": {"min_calls": 1000, "window": 1000}})
    yield from servers


def failures(server, query=""):
    answer = server.admin().get("/admin/webhook-failures" + query)
    assert answer.status == 200, answer
    check(answer.json, SCHEMAS["WebhookFailurePage"], "failures")
    return answer.json["items"]


def give_up(hooks, hook, count=1):
    """Sends test events that fail; returns the failures, oldest first."""
    for _ in range(count):
        answer = hooks.post(hook, "/test")
        assert answer.status == 202, answer
        check(answer.json, SCHEMAS["WebhookTest"], "test")
    query = f"?subscriptionId={hook['id']}&replayed=false"
    wait_for(lambda: len(failures(hooks.server, query)) == count, "given up")
    return failures(hooks.server, query)[::-1]


def test_a_test_event_arrives(sending, receiver):
    hooks = hooks_of(sending)
    hook = hooks.create(receiver.url, events=["TicketFailed"])
    assert hooks.post(hook, "/test").status == 202
    delivery = wait_for(lambda: hooks.deliveries(hook, "?status=sent"), "the delivery")[0]
    (headers, body), = receiver.came
    assert list(body)[0] == "event" and list(body)[-1] == "signature"
    assert body["event"] == "Test" and body["clientId"] == hooks.client.id and body["webhookId"] == hook["id"]
    assert headers["webhook-id"] == delivery["id"] and delivery["event"] == "Test" and delivery["sentAt"]
    attempt, = delivery["attemptsHistory"]
    assert (attempt["attempt"], attempt["outcome"], attempt["httpStatus"]) == (1, "Sent", 200)
    assert attempt["attemptedAt"] == delivery["lastAttemptAt"] and attempt["error"] is None
    assert hooks.deliveries(hook, "?status=Error") == []
    during = hooks.post(hook, "/rotate-secret").json
    assert during["previousSecretValidUntil"]
    assert hooks.post(hook, "/test").status == 202
    wait_for(lambda: len(receiver.came) == 2, "the second")
    assert receiver.came[1][0]["X-DataFlow-Signature"].count("v1=") == 2


def test_what_was_given_up_is_replayed(sending, receiver):
    hooks = hooks_of(sending)
    hook = hooks.create(receiver.url)
    receiver.status = 500
    failure, = give_up(hooks, hook)
    assert failure["clientId"] == hooks.client.id and failure["url"] == receiver.url and failure["event"] == "Test"
    assert (failure["attempts"], failure["lastStatus"], failure["replayedAt"]) == (3, 500, None)
    assert json.loads(failure["payload"])["webhookId"] == hook["id"]
    given_up, = hooks.deliveries(hook)
    assert (given_up["status"], given_up["attempts"], given_up["nextAttemptAt"]) == ("Error", 3, None)
    assert [a["attempt"] for a in given_up["attemptsHistory"]] == [3, 2, 1]
    assert failure in failures(sending, f"?clientId={hooks.client.id}") and failures(sending, "?clientId=nobody") == []

    receiver.status = 200
    admin = sending.admin()
    answer = admin.post(f"/admin/webhook-failures/{failure['id']}/replay")
    assert answer.status == 202, answer
    check(answer.json, SCHEMAS["WebhookReplay"], "replay")
    sent = wait_for(lambda: hooks.deliveries(hook, "?status=Sent"), "the replay")[0]
    assert sent["id"] == answer.json["deliveryId"] != given_up["id"] and sent["eventId"] == given_up["eventId"]
    assert sent["reference"] == given_up["reference"]
    assert failures(sending, f"?subscriptionId={hook['id']}")[0]["replayedAt"]
    assert admin.post(f"/admin/webhook-failures/{failure['id']}/replay").status == 409
    assert len(receiver.came) == 4
    assert ("WebhookReplayed", "admin") in audit_of(sending, hook)


def test_all_since_a_time_are_replayed(sending, receiver):
    hooks = hooks_of(sending)
    hook, off = hooks.create(receiver.url), hooks.create(receiver.url)
    receiver.status = 503
    give_up(hooks, hook, 3)
    other, = give_up(hooks, off)
    assert hooks.patch(off, {"isActive": False}).status == 200
    admin = sending.admin()

    def replay(query):
        return admin.post("/admin/webhook-failures/replay?" + query)

    one = f"&subscriptionId={hook['id']}"
    assert admin.post(f"/admin/webhook-failures/{other['id']}/replay").status == 409
    assert replay(f"since=2026-01-01T00:00:00Z&subscriptionId={off['id']}").status == 409
    assert replay("since=9999-01-01T00:00:00Z" + one).json == {"replayed": 0, "remaining": 0, "skipped": 0}
    receiver.status = 200
    before = len(receiver.came)
    answer = replay("since=2000-01-01T00:00:00Z" + one)
    assert answer.status == 202 and answer.json == {"replayed": 3, "remaining": 0, "skipped": 0}, answer
    wait_for(lambda: len(hooks.deliveries(hook, "?status=Sent")) == 3, "the replays")
    assert len(receiver.came) == before + 3
    again = replay("since=2000-01-01T00:00:00Z")
    check(again.json, SCHEMAS["WebhookReplayAll"], "replay all")
    assert again.json["remaining"] == 0 and again.json["skipped"] >= 1
    assert not failures(sending, f"?replayed=false{one}")
    assert failures(sending, f"?replayed=false&subscriptionId={off['id']}")


def test_bad_calls_of_failures(sending):
    admin = sending.admin()
    for query in ("", "?since=", "?since=yesterday", "?since=2026-13-01"):
        assert admin.post("/admin/webhook-failures/replay" + query).bad_fields == {"since"}, query
    assert admin.post("/admin/webhook-failures/replay?subscriptionId=x").bad_fields == {"since", "subscriptionId"}
    assert admin.post(f"/admin/webhook-failures/replay?since=2026-01-01&subscriptionId={uuid.uuid4()}").status == 404
    for number in ("0", "999999999", "-1", "x", "99999999999999999999"):
        assert admin.post(f"/admin/webhook-failures/{number}/replay").status == 404, number
    assert admin.get("/admin/webhook-failures?subscriptionId=x&replayed=maybe&clientId=a%20b").bad_fields == \
        {"subscriptionId", "replayed", "clientId"}
    for caller in (sending.anonymous(), sending.new_client()):
        assert caller.get("/admin/webhook-failures").status == 401
        assert caller.post("/admin/webhook-failures/1/replay").status == 401


def test_a_master_key_that_is_none_is_refused(make_sqlite_server):
    for security, complaint in (({"master_key": "too short"}, "master_key must be a key of 32 bytes"),
                                ({"master_key": MASTER, "master_old_key": "too short"}, "master_old_key must be a"),
                                ({"master_old_key": MASTER}, "master_old_key is set and master_key is not")):
        server = make_sqlite_server(start=False, config={"security": security})
        checked = server.cli("check-config")
        assert checked.returncode == 2 and complaint in checked.stderr, checked
        assert "too short" not in checked.stderr
