"""Secrets that are replaced in time: webhooks with autoRotate, and alerts of clients' secrets that are old. The servers'
clock is moved."""

import base64
import hashlib
import hmac
import http.server
import json
import re
import threading

import pytest
from harness import ADMIN_KEY, ROOT, FakeClock, wait_for
from test_openapi import DOCUMENT, check

pytestmark = pytest.mark.threads

SCHEMAS = DOCUMENT["components"]["schemas"]


class Receiver:
    """Answers 200, or `status`, and remembers what came."""

    def __init__(self):
        self.requests, self.status = [], 200
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((dict(self.headers.items()), body))
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

        self.httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.httpd.daemon_threads = True
        threading.Thread(target=self.httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.httpd.server_address[1]}/hook"

    def close(self):
        self.httpd.shutdown()
        self.httpd.server_close()

    def events(self):
        return [json.loads(body)["event"] for _, body in self.requests]

    def ids(self):
        """A delivery that comes again, because its sender was killed before it could store the answer, has the same id."""
        return {headers["webhook-id"] for headers, _ in self.requests}

    def signed_by(self, number, secret):
        """Whether a delivery has a signature of this secret, under each of the three names."""
        headers, body = self.requests[number]
        headers = {name.lower(): value for name, value in headers.items()}
        stamp = headers["x-dataflow-timestamp"].encode()
        standard = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
        key = base64.b64decode(secret.removeprefix("whsec_"))
        own = "v1=" + hmac.new(secret.encode(), stamp + b"." + body, hashlib.sha256).hexdigest() in headers["x-dataflow-signature"].replace(",", " ").split()
        other = "v1," + base64.b64encode(hmac.digest(key, standard, "sha256")).decode() in headers["webhook-signature"].split()
        assert own == other
        return own

    def member_is_of(self, number, secret):
        document = json.loads(self.requests[number][1])
        text = self.requests[number][1].removesuffix(f',"signature":"{document["signature"]}"}}'.encode()) + b"}"
        return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest() == document["signature"]


@pytest.fixture
def receiver():
    r = Receiver()
    yield r
    r.close()


@pytest.fixture
def clock(tmp_path):
    return FakeClock(tmp_path)


class Hook:
    def __init__(self, server, receiver, **fields):
        self.server, self.client = server, server.new_client()
        self.path = f"/clients/{self.client.id}/webhooks"
        answer = self.client.post(self.path, {"url": receiver.url, "autoRotate": True, **fields})
        assert answer.status == 201, answer
        check(answer.json, SCHEMAS["WebhookWithSecret"], "created")
        self.path += "/" + answer.json["id"]
        self.id, self.secret = answer.json["id"], answer.json["secret"]

    def get(self):
        answer = self.client.get(self.path).json
        check(answer, SCHEMAS["Webhook"], "webhook")
        return answer

    def fetch(self, caller=None, **kwargs):
        return (caller or self.client).get(self.path + "/secret", **kwargs)

    def test(self):
        assert self.client.post(self.path + "/test", {}).status == 202

    def audit(self):
        items = self.server.admin().get("/admin/audit?pageSize=200").json["items"]
        return [row["action"] for row in reversed(items) if row["target"] == self.id]


def rotating(make_server, clock, **more):
    config = {"delivery": {"allow_private_targets": "on"}, "webhooks": {"retry_delays_ms": "20,20", "rotate_days": 90},
              "alerts": {"interval_seconds": 1}}
    for section, keys in more.pop("config", {}).items():
        config.setdefault(section, {}).update(keys)
    return make_server(config=config, clock=clock, **more)


def firing(server, rule):
    alerts = server.admin().get("/admin/alerts?status=firing&pageSize=200").json["items"]
    return [a for a in alerts if a["rule"] == rule]


def deliver(hook, receiver):
    """The number of a delivery that was made now."""
    number = len(receiver.requests)
    hook.test()
    wait_for(lambda: len(receiver.requests) > number, "a delivery")
    return number


def test_a_secret_is_replaced_and_the_old_one_ends_a_day_after_the_fetch(make_server, clock, receiver):
    server = rotating(make_server, clock)
    hook = Hook(server, receiver)
    by_hand = Hook(server, receiver, autoRotate=False)
    assert hook.get()["autoRotate"] is True and by_hand.get()["autoRotate"] is False
    clock.advance(days=89)
    number = deliver(hook, receiver)
    assert receiver.signed_by(number, hook.secret) and hook.get()["nextSecretAt"] is None
    clock.advance(days=2)
    wait_for(lambda: "SecretRotated" in receiver.events(), "the event")
    told = receiver.events().index("SecretRotated")
    event = json.loads(receiver.requests[told][1])
    assert list(event) == ["event", "clientId", "webhookId", "status", "createdAt", "signature"]
    assert (event["clientId"], event["webhookId"]) == (hook.client.id, hook.id)
    assert receiver.signed_by(told, hook.secret) and receiver.member_is_of(told, hook.secret)
    assert hook.get()["nextSecretAt"] and by_hand.get()["nextSecretAt"] is None

    clock.advance(days=5)  # nobody fetches it, and the old one goes on
    number = deliver(hook, receiver)
    assert receiver.signed_by(number, hook.secret) and receiver.member_is_of(number, hook.secret)

    answer = hook.fetch()
    check(answer.json, SCHEMAS["WebhookFetchedSecret"], "fetched")
    new = answer.json["secret"]
    assert answer.status == 200 and new != hook.secret and answer.headers["Cache-Control"] == "no-store"
    assert hook.fetch().json["secret"] == new  # its answer may have been lost
    number = deliver(hook, receiver)
    assert receiver.signed_by(number, hook.secret) and receiver.signed_by(number, new)
    clock.advance(hours=23, minutes=55)
    number = deliver(hook, receiver)
    assert receiver.signed_by(number, hook.secret) and receiver.signed_by(number, new)
    clock.advance(minutes=10)
    number = deliver(hook, receiver)
    assert not receiver.signed_by(number, hook.secret) and receiver.signed_by(number, new)
    assert receiver.member_is_of(number, new)
    assert receiver.events().count("SecretRotated") == 1
    assert hook.audit() == ["WebhookCreated", "WebhookSecretRotated", "WebhookSecretFetched", "WebhookSecretFetched"]
    clock.advance(days=91)
    wait_for(lambda: receiver.events().count("SecretRotated") == 2, "the next one")


def test_the_state_outlives_a_kill_and_one_of_two_servers_rotates(make_server, make_backend, clock, receiver):
    backend = make_backend()
    first = rotating(make_server, clock, backend=backend)
    hook = Hook(first, receiver)
    second = rotating(make_server, clock, backend=backend, config={"server": {"data_dir": first.directory / "data"}})
    clock.advance(days=91)
    wait_for(lambda: hook.get()["nextSecretAt"], "a new secret")
    wait_for(lambda: "SecretRotated" in receiver.events(), "the event")
    first.kill()
    clock.advance(days=1)
    hook.client = second.client(hook.client.id, hook.client.secret)
    new = hook.fetch().json["secret"]
    first.start()
    hook.client = first.client(hook.client.headers["X-Client-Id"], hook.client.headers["X-Client-Secret"])
    assert hook.fetch().json["secret"] == new != hook.secret
    assert set(receiver.events()) == {"SecretRotated"} and len(receiver.ids()) == 1
    rotations = [e for s in (first, second) for e in s.log("WebhookSecretsRotated")]
    assert len(rotations) == 1


def test_a_secret_that_nobody_fetches_is_alerted(make_server, clock, receiver):
    server = rotating(make_server, clock)
    hook = Hook(server, receiver)
    receiver.status = 500
    clock.advance(days=91)
    wait_for(lambda: hook.get()["nextSecretAt"], "a new secret")
    assert not firing(server, "WebhookSecretWaits")
    clock.advance(days=6)
    server.admin().patch(hook.path, {"isActive": True})
    clock.advance(days=2)
    alert, = wait_for(lambda: firing(server, "WebhookSecretWaits"), "an alert")
    assert alert["subject"] == hook.id and "has not fetched" in alert["summary"]
    assert hook.fetch().status == 200
    clock.advance(minutes=5)
    wait_for(lambda: not firing(server, "WebhookSecretWaits"), "the end of the alert")


@pytest.mark.parametrize("end", ["rotation by hand", "autoRotate off"])
def test_a_secret_that_waits_goes(make_server, clock, receiver, end):
    server = rotating(make_server, clock)
    hook = Hook(server, receiver)
    clock.advance(days=91)
    wait_for(lambda: "SecretRotated" in receiver.events(), "the event")
    if end == "rotation by hand":
        by_hand = hook.client.post(hook.path + "/rotate-secret", {}).json["secret"]
        assert hook.get()["nextSecretAt"] is None and hook.fetch().json["secret"] == by_hand
        number = deliver(hook, receiver)
        assert receiver.signed_by(number, hook.secret) and receiver.signed_by(number, by_hand)
        return
    assert hook.client.patch(hook.path, {"autoRotate": False}).json["autoRotate"] is False
    assert hook.get()["nextSecretAt"] is None and hook.fetch().code == "Conflict"
    number = deliver(hook, receiver)
    assert receiver.signed_by(number, hook.secret)
    assert hook.client.patch(hook.path, {"autoRotate": "true"}).json["autoRotate"] is True
    clock.advance(minutes=5)
    wait_for(lambda: hook.get()["nextSecretAt"], "another one")


def test_a_previous_secret_is_not_cut_short(make_server, clock, receiver):
    server = rotating(make_server, clock, config={"webhooks": {"rotate_days": 1}})
    hook = Hook(server, receiver, autoRotate=False)
    made = hook.client.post(hook.path + "/rotate-secret?overlapHours=720", {}).json["secret"]
    assert hook.client.patch(hook.path, {"autoRotate": True}).status == 200
    clock.advance(days=20)
    number = deliver(hook, receiver)
    assert receiver.signed_by(number, hook.secret) and receiver.signed_by(number, made)
    other = Hook(server, receiver)
    clock.advance(days=2)
    wait_for(lambda: other.get()["nextSecretAt"], "the other one's new secret")
    assert hook.get()["nextSecretAt"] is None
    clock.advance(days=11)
    wait_for(lambda: hook.get()["nextSecretAt"], "a new secret")


def test_who_may_fetch(make_server, receiver):
    server = make_server(config={"delivery": {"allow_private_targets": "on"}})
    hook = Hook(server, receiver)
    assert hook.fetch(server.admin()).json["secret"] == hook.secret
    assert hook.fetch(server.new_client()).status in (403, 404)
    assert hook.fetch(server.anonymous()).status == 401
    assert hook.fetch(server.client(hook.client.id, "wrong-" + ADMIN_KEY)).status == 401
    assert hook.client.request("HEAD", hook.path + "/secret").status == 405
    assert hook.client.get(hook.path[:-1] + ("0" if hook.path[-1] != "0" else "1") + "/secret").status == 404
    assert hook.client.patch(hook.path, {"autoRotate": "perhaps"}).bad_fields == {"autoRotate"}
    assert hook.audit().count("WebhookSecretFetched") == 1
    stored = server.backend.all_bytes()
    assert hook.secret.encode() not in stored


def test_old_secrets_of_clients_are_alerted(make_server, clock):
    server = rotating(make_server, clock, config={"security": {"client_secret_max_days": 30}})
    old, rotated, suspended = (server.new_client(clientId=name) for name in ("old", "rotated", "suspended"))
    server.admin().patch(f"/admin/clients/{suspended.id}", {"status": "Suspended"})
    clock.advance(days=29)
    assert server.admin().post(f"/admin/clients/{rotated.id}/rotate-secret", {}).status == 200
    assert not firing(server, "ClientSecretOld")
    clock.advance(days=2)
    alert, = wait_for(lambda: firing(server, "ClientSecretOld"), "an alert")
    assert alert["details"]["clientId"] == old.id and "31 days" in alert["summary"]
    assert server.admin().post(f"/admin/clients/{old.id}/rotate-secret", {}).status == 200
    clock.advance(minutes=2)
    wait_for(lambda: not firing(server, "ClientSecretOld"), "the end of the alert")


def test_no_limit_by_default(make_server, clock, receiver):
    """The other rule is evaluated after it."""
    server = rotating(make_server, clock)
    hook = Hook(server, receiver)
    clock.advance(days=3000)
    wait_for(lambda: hook.get()["nextSecretAt"], "a new secret")
    clock.advance(days=8)
    wait_for(lambda: firing(server, "WebhookSecretWaits"), "an alert")
    assert not firing(server, "ClientSecretOld")


def test_rotations_before_the_upgrade_are_taken_from_the_audit_log(make_server, receiver):
    server = make_server(config={"delivery": {"allow_private_targets": "on"}})
    hook, other = Hook(server, receiver), Hook(server, receiver)
    assert hook.client.post(hook.path + "/rotate-secret", {}).status == 200
    assert server.admin().post(f"/admin/clients/{hook.client.id}/rotate-secret?graceSeconds=600", {}).status == 200
    assert server.stop() == 0
    clients = "SELECT SecretChangedAt FROM Clients WHERE ClientIdentifier = '{}'"
    hooks = "SELECT SecretChangedAt FROM WebhookSubscriptions WHERE Id = '{}'"
    before = [server.backend.query(sql)[0][0] for sql in (clients.format(hook.client.id), hooks.format(hook.id))]
    assert all(before)
    server.backend.script("UPDATE Clients SET SecretChangedAt = NULL; UPDATE WebhookSubscriptions SET SecretChangedAt = NULL;")
    text = (ROOT / "scripts" / server.backend.name / "165_rotation.sql").read_text(encoding="utf-8")
    server.backend.script("\n".join(re.findall(r"^UPDATE .*?;", text, re.M | re.S)))
    assert [server.backend.query(sql)[0][0] for sql in (clients.format(hook.client.id), hooks.format(hook.id))] == before
    assert server.backend.query(clients.format(other.client.id))[0][0] is None
    assert server.backend.query(hooks.format(other.id))[0][0] is None
    server.start()


def test_a_secret_that_waits_follows_the_data_key(make_server, clock, receiver):
    server = rotating(make_server, clock)
    hook = Hook(server, receiver)
    clock.advance(days=91)
    wait_for(lambda: hook.get()["nextSecretAt"], "a new secret")
    made = server.admin().post("/admin/keys/rotate")
    assert made.status == 202, made
    clock.advance(minutes=2)

    def key_of_next():
        sealed, = server.backend.query(f"SELECT NextSecretEncrypted FROM WebhookSubscriptions WHERE Id = '{hook.id}'")[0]
        return int.from_bytes(bytes(sealed)[1:5], "big")

    wait_for(lambda: clock.advance(seconds=30) or key_of_next() == made.json["id"], "the secret is under the new key")
    new = hook.fetch().json["secret"]
    number = deliver(hook, receiver)
    assert receiver.signed_by(number, new) and receiver.signed_by(number, hook.secret)
