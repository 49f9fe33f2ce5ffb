"""Clients: the admin API, authentication, suspension, rotation, throttling, audit."""

import itertools
import threading
import time

import pytest
from harness import ADMIN_KEY, wait_for

DEFAULT_SCOPES = ["interface", "imports"]


# --- the admin key -----------------------------------------------------------------------------------

ADMIN_PATHS = [
    ("GET", "/admin/clients"),
    ("POST", "/admin/clients"),
    ("GET", "/admin/clients/x"),
    ("PATCH", "/admin/clients/x"),
    ("POST", "/admin/clients/x/rotate-secret"),
    ("GET", "/admin/audit"),
]


@pytest.mark.parametrize("method,path", ADMIN_PATHS)
@pytest.mark.parametrize("key", [None, "", "wrong", ADMIN_KEY + "x", ADMIN_KEY[:-1]])
def test_admin_without_the_key_is_401(server, method, path, key):
    answer = server.anonymous().request(method, path, headers={"X-Admin-Key": key})
    assert (answer.status, answer.code) == (401, "Unauthorized")


def test_a_client_is_no_administrator(server):
    assert server.new_client().get("/admin/clients").status == 401


def test_without_a_key_configured_admin_does_not_exist(make_server):
    server = make_server(config={"admin": {"key": None}})
    for method, path in ADMIN_PATHS:
        for headers in ({}, {"X-Admin-Key": ""}, {"X-Admin-Key": "anything"}):
            assert server.anonymous().request(method, path, headers=headers).status == 404
        assert server.anonymous().request("OPTIONS", path).status == 404, "not even a wrong method tells"


def test_admin_failures_are_throttled(make_server):
    server = make_server(config={"auth": {"failures_per_minute": 5}})
    caller = server.admin("wrong")
    statuses = [caller.get("/admin/clients").status for _ in range(8)]
    assert statuses == [401] * 5 + [429] * 3
    assert server.admin().get("/admin/clients").status == 200, "other addresses are not concerned"


# --- creation ----------------------------------------------------------------------------------------


def test_create_answers_credentials_that_work(server):
    answer = server.admin().post("/admin/clients", {"name": "Loja"})
    assert answer.status == 201
    assert set(answer.json) == {"clientId", "clientSecret"}
    assert len(answer.json["clientSecret"]) >= 40
    me = server.client(answer.json["clientId"], answer.json["clientSecret"]).get("/whoami")
    assert me.status == 200
    assert me.json == {"clientId": answer.json["clientId"], "name": "Loja", "scopes": DEFAULT_SCOPES, "status": "Active"}


def test_create_takes_id_and_scopes(server):
    client = server.new_client("Chosen", clientId="chosen-1", scopes=["imports", "acks"])
    assert client.id == "chosen-1"
    assert client.get("/whoami").json["scopes"] == ["imports", "acks"]
    stored = server.admin().get("/admin/clients/chosen-1").json
    assert (stored["name"], stored["status"], stored["scopes"]) == ("Chosen", "Active", ["imports", "acks"])


def test_fields_are_matched_without_case_and_unknown_ones_ignored(server):
    answer = server.admin().post("/admin/clients", {"NAME": "Case", "ClientID": "case-1", "SCOPES": ["events"], "x": {"y": [1]}})
    assert (answer.status, answer.json["clientId"]) == (201, "case-1")
    assert server.admin().get("/admin/clients/case-1").json["scopes"] == ["events"]


@pytest.mark.parametrize("name", ["São João & Cia – Ação", "日本語の名前", "🚚 fretes 🇧🇷", "\"quoted\" \\ back", "<b>bold</b>", "é" * 120, "🚚" * 60])
def test_names_are_kept_as_sent(server, name):
    client = server.new_client(name)
    assert server.admin().get(f"/admin/clients/{client.id}").json["name"] == name
    assert client.get("/whoami").json["name"] == name


BAD_BODIES = [
    ({}, {"name"}),
    ({"name": ""}, {"name"}),
    ({"name": "   "}, {"name"}),
    ({"name": None}, {"name"}),
    ({"name": True}, {"name"}),
    ({"name": ["x"]}, {"name"}),
    ({"name": "x" * 121}, {"name"}),
    ({"name": "é" * 121}, {"name"}),
    ({"name": "🚚" * 61}, {"name"}),  # 122 units of UTF-16, which SQL Server counts
    ({"name": "x", "clientId": ""}, {"clientId"}),
    ({"name": "x", "clientId": "with space"}, {"clientId"}),
    ({"name": "x", "clientId": "ação"}, {"clientId"}),
    ({"name": "x", "clientId": "a/b"}, {"clientId"}),
    ({"name": "x", "clientId": "x" * 65}, {"clientId"}),
    ({"name": "x", "clientId": {}}, {"clientId"}),
    ({"name": "x", "scopes": "imports"}, {"scopes"}),
    ({"name": "x", "scopes": ["imports", "everything"]}, {"scopes"}),
    ({"name": "x", "scopes": [7]}, {"scopes"}),
    ({"name": "", "clientId": "no good", "scopes": ["nope"]}, {"name", "clientId", "scopes"}),
]


@pytest.mark.parametrize("body,fields", BAD_BODIES, ids=[str(i) for i in range(len(BAD_BODIES))])
def test_validation_names_every_bad_field_at_once(server, body, fields):
    before = server.admin().get("/admin/clients").json["total"]
    answer = server.admin().post("/admin/clients", body)
    assert (answer.status, answer.code) == (400, "ValidationFailed")
    assert {f.split("[")[0] for f in answer.bad_fields} == fields
    assert server.admin().get("/admin/clients").json["total"] == before


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"null", b"5", b""])
def test_a_body_that_is_no_object_is_400(server, body):
    answer = server.admin().post("/admin/clients", body=body, headers={"Content-Type": "application/json"})
    assert answer.status == 400


def test_a_taken_id_is_409(server):
    server.new_client("First", clientId="taken")
    answer = server.admin().post("/admin/clients", {"name": "Second", "clientId": "taken"})
    assert answer.status == 409
    assert server.admin().get("/admin/clients/taken").json["name"] == "First"


def test_another_spelling_of_an_id_is_nobody(server):
    client = server.new_client("Spelt", clientId="Spelt-1")
    admin = server.admin()
    assert client.get("/whoami").status == 200
    assert server.client("SPELT-1", client.secret).get("/whoami").status == 401
    for answer in (admin.get("/admin/clients/spelt-1"), admin.patch("/admin/clients/spelt-1", {"status": "Suspended"}),
                   admin.post("/admin/clients/spelt-1/rotate-secret")):
        assert answer.status == 404, answer
    assert client.get("/whoami").status == 200
    # Two that differ in nothing else: the unique key is the database's, and so is its collation.
    [[same]] = server.backend.query("SELECT CASE WHEN 'a' = 'A' THEN 1 ELSE 0 END")
    assert admin.post("/admin/clients", {"name": "Other", "clientId": "SPELT-1"}).status == (409 if same else 201)


def test_of_many_at_once_with_one_id_a_single_one_wins(server):
    statuses = []
    threads = [threading.Thread(target=lambda: statuses.append(
        server.admin().post("/admin/clients", {"name": "Racer", "clientId": "race"}).status)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [201] + [409] * 7


# --- reading -----------------------------------------------------------------------------------------


def test_list_pages_through_all_clients_once(make_server):
    server = make_server()
    made = {server.new_client(f"Client {i}").id for i in range(7)}
    seen = []
    for page, count in ((1, 3), (2, 3), (3, 1), (4, 0)):
        answer = server.admin().get(f"/admin/clients?page={page}&pageSize=3").json
        assert (answer["page"], answer["pageSize"], answer["total"]) == (page, 3, 7)
        assert len(answer["items"]) == count
        seen += [item["clientId"] for item in answer["items"]]
    assert len(seen) == 7 and set(seen) == made
    whole = server.admin().get("/admin/clients").json
    assert (whole["page"], whole["pageSize"], len(whole["items"])) == (1, 20, 7)
    assert server.admin().get("/admin/clients?pageSize=200").json["pageSize"] == 200
    for item in whole["items"]:
        assert set(item) == {"clientId", "name", "status", "scopes", "createdAt", "lastSeenAt"}
        assert item["createdAt"].endswith("Z") and item["lastSeenAt"] is None


@pytest.mark.parametrize("path", ["/admin/clients", "/admin/audit"])
@pytest.mark.parametrize("query,fields", [
    ("page=0", {"page"}), ("page=-1", {"page"}), ("page=x", {"page"}), ("page=", {"page"}), ("page=1.5", {"page"}),
    ("page=99999999999999999999", {"page"}), ("pageSize=0", {"pageSize"}), ("pageSize=201", {"pageSize"}),
    ("pageSize=500", {"pageSize"}), ("pageSize=abc", {"pageSize"}), ("page=0&pageSize=500", {"page", "pageSize"}),
])
def test_page_bounds(server, path, query, fields):
    answer = server.admin().get(f"{path}?{query}")
    assert (answer.status, answer.bad_fields) == (400, fields)


@pytest.mark.parametrize("client_id", ["nobody", "x" * 300, "%00", "..%2f..", "a%20b"])
def test_an_unknown_client_is_404_everywhere(server, client_id):
    admin = server.admin()
    for answer in (admin.get(f"/admin/clients/{client_id}"),
                   admin.patch(f"/admin/clients/{client_id}", {"status": "Suspended"}),
                   admin.post(f"/admin/clients/{client_id}/rotate-secret")):
        assert answer.status in ((404, 400) if client_id.startswith(("%", "..")) else (404,)), answer


# --- authentication ----------------------------------------------------------------------------------


def test_wrong_or_missing_credentials_are_401(server):
    client = server.new_client()
    for client_id, secret in [(client.id, "wrong"), (client.id, client.secret[:-1]), (client.id, client.secret + "x"),
                              (client.id, client.secret.swapcase()), ("nobody", client.secret), (client.id, None),
                              (None, client.secret), (None, None), ("", ""), ("a b", "c"), (client.id, "x" * 5000)]:
        answer = server.client(client_id, secret).get("/whoami")
        assert (answer.status, answer.code) == (401, "Unauthorized"), (client_id, answer)
    assert client.get("/whoami").status == 200


def test_failed_logins_are_throttled_by_address(make_server):
    server = make_server(config={"auth": {"failures_per_minute": 6}})
    good = server.new_client()
    bad = server.client(good.id, "wrong")
    answers = [bad.get("/whoami") for _ in range(10)]
    assert [a.status for a in answers] == [401] * 6 + [429] * 4
    assert 1 <= int(answers[-1].headers["Retry-After"]) <= 60
    assert good.get("/whoami").status == 200, "another address logs in"


def forgotten(server, client):
    """Drops the server's memory of the verified secret, as happens after five minutes."""
    assert server.admin().patch(f"/admin/clients/{client.id}", {"status": "Active"}).status == 200


def at(server, client, address):
    return server.client(client.id, client.secret, address=address)


@pytest.mark.parametrize("right", [True, False])
def test_many_calls_at_once_of_a_client_not_seen_yet_are_one_login(make_server, right):
    """After a restart, say: more than the places that one network has before the hash threads."""
    server = make_server(config={"auth": {"failures_per_minute": 1000}})
    client, statuses = server.new_client(), []
    if not right:
        client.headers["X-Client-Secret"] += "x"
    ready = threading.Barrier(100)

    def call():
        ready.wait()
        statuses.append(client.get("/whoami").status)

    threads = [threading.Thread(target=call) for _ in range(100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert statuses == [200 if right else 401] * 100


def test_a_neighbour_cannot_lock_a_verified_client_out(make_server):
    """He has its address, by NAT say, and knows its id."""
    server = make_server(config={"auth": {"failures_per_minute": 6}})
    victim, address = server.new_client(), "127.88.1.1"
    assert at(server, victim, address).get("/whoami").status == 200
    neighbour = server.client(victim.id, "wrong", address=address)
    assert [neighbour.get("/whoami").status for _ in range(8)] == [401] * 6 + [429] * 2
    for _ in range(3):
        forgotten(server, victim)
        assert at(server, victim, address).get("/whoami").status == 200
        assert neighbour.get("/whoami").status in (401, 429)
    refused = [neighbour.get("/whoami").status for _ in range(5)]
    assert refused.count(429) >= 4, "that the client is let in gives him no more guesses"


def test_failures_of_one_id_concern_no_other_behind_the_address(make_server):
    server = make_server(config={"auth": {"failures_per_minute": 6}})
    first, second, address = server.new_client(), server.new_client(), "127.88.1.2"
    for bad in (server.client(first.id, "wrong", address=address), server.client("nobody", "wrong", address=address)):
        assert [bad.get("/whoami").status for _ in range(8)][-1] == 429
    assert at(server, second, address).get("/whoami").status == 200, "it was never seen from there"
    assert at(server, first, address).get("/whoami").status == 429, "nor was this one, whose id is being guessed"


def test_many_ids_from_one_address_have_a_limit_too(make_server):
    server = make_server(config={"auth": {"failures_per_minute": 3}})
    known, address = server.new_client(), "127.88.1.3"
    assert at(server, known, address).get("/whoami").status == 200
    guesses = (server.client(f"guess-{i}", "wrong", address=address).get("/whoami").status for i in range(200))
    statuses = list(itertools.takewhile(lambda status: status == 401, guesses))
    assert 30 <= len(statuses) < 200, "then 429"
    forgotten(server, known)
    assert at(server, known, address).get("/whoami").status == 200


def test_a_secret_that_was_rotated_away_is_throttled_like_any_other(make_server):
    server = make_server(config={"auth": {"failures_per_minute": 4}})
    old, address = server.new_client(), "127.88.1.4"
    assert at(server, old, address).get("/whoami").status == 200
    rotate(server, old)
    statuses = [at(server, old, address).get("/whoami").status for _ in range(7)]
    assert statuses == [401] * 4 + [429] * 3


def test_a_neighbour_cannot_lock_the_operator_out(make_server):
    server = make_server(config={"auth": {"failures_per_minute": 5}})
    wrong, address = server.admin("wrong", address="127.88.1.5"), "127.88.1.5"
    assert [wrong.get("/admin/clients").status for _ in range(8)] == [401] * 5 + [429] * 3
    assert server.admin(address=address).get("/admin/clients").status == 200
    assert wrong.get("/admin/clients").status == 429


def test_a_short_admin_key_cannot_be_guessed_without_limit(make_server):
    key = "short-admin-key"
    server = make_server(config={"auth": {"failures_per_minute": 5}, "admin": {"key": key}})
    server.secrets.add(key)
    used, fresh = "127.88.1.6", "127.88.1.7"
    assert server.admin(key, address=used).get("/admin/clients").status == 200
    for address in (used, fresh):
        wrong = server.admin("wrong", address=address)
        assert [wrong.get("/admin/clients").status for _ in range(7)] == [401] * 5 + [429] * 2
    assert server.admin(key, address=used).get("/admin/clients").status == 200, "it was right from there lately"
    assert server.admin(key, address=fresh).get("/admin/clients").status == 429


def test_successful_logins_use_up_no_attempts(make_server):
    server = make_server(config={"auth": {"failures_per_minute": 3}})
    clients = [server.new_client() for _ in range(8)]
    assert [server.client(c.id, c.secret, address="127.9.9.9").get("/whoami").status for c in clients] == [200] * 8


def test_many_at_once_all_get_in(server):
    client = server.new_client()
    statuses = []
    threads = [threading.Thread(target=lambda: statuses.append(client.get("/whoami").status)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 16


def test_last_seen_appears(make_server):
    server = make_server()
    client = server.new_client()
    assert server.admin().get(f"/admin/clients/{client.id}").json["lastSeenAt"] is None
    assert client.get("/whoami").status == 200

    def seen():
        return server.admin().get(f"/admin/clients/{client.id}").json["lastSeenAt"]

    assert wait_for(seen, "lastSeenAt", timeout=90, every=0.5).endswith("Z")


# --- suspension --------------------------------------------------------------------------------------


def test_suspension_and_activation_take_effect_at_once(server):
    client = server.new_client()
    assert client.get("/whoami").status == 200
    for _ in range(3):
        answer = server.admin().patch(f"/admin/clients/{client.id}", {"status": "Suspended"})
        assert (answer.status, answer.json["status"]) == (200, "Suspended")
        refused = client.get("/whoami")
        assert (refused.status, refused.code) == (403, "ClientSuspended")
        answer = server.admin().patch(f"/admin/clients/{client.id}", {"status": "Active"})
        assert (answer.status, answer.json["status"]) == (200, "Active")
        assert client.get("/whoami").status == 200


def test_a_suspended_client_with_a_wrong_secret_is_only_401(server):
    client = server.new_client()
    server.admin().patch(f"/admin/clients/{client.id}", {"status": "Suspended"})
    assert server.client(client.id, "wrong").get("/whoami").status == 401


@pytest.mark.parametrize("body", [{}, {"status": "Gone"}, {"status": ""}, {"status": None}, {"status": 1}, {"status": ["Active"]}])
def test_a_bad_status_is_400(server, body):
    client = server.new_client()
    answer = server.admin().patch(f"/admin/clients/{client.id}", body)
    assert (answer.status, answer.bad_fields) == (400, {"status"})
    assert client.get("/whoami").status == 200


# --- scopes ------------------------------------------------------------------------------------------


def patch_scopes(server, client, scopes, **more):
    return server.admin().patch(f"/admin/clients/{client.id}", {"scopes": scopes, **more})


@pytest.mark.parametrize("given", [["imports", "acks"], ["acks", "imports", "acks"], "imports,acks", " acks , imports ", "imports,acks,"])
def test_scopes_change_at_once_and_the_secret_stays(server, given):
    client = server.new_client(scopes=["interface"])
    assert client.get("/api/tickets?businessEntity=x&businessDocId=y").status == 200
    assert client.get("/imports").status == 403
    answer = patch_scopes(server, client, given)
    assert (answer.status, answer.json["scopes"], answer.json["status"]) == (200, ["imports", "acks"], "Active")
    assert client.get("/imports").status == 200
    refused = client.get("/api/tickets?businessEntity=x&businessDocId=y")
    assert (refused.status, refused.code) == (403, "ScopeMissing")
    assert client.get("/whoami").json["scopes"] == ["imports", "acks"]


def test_scopes_and_status_change_together_or_alone(server):
    client = server.new_client(scopes=["interface"])
    answer = patch_scopes(server, client, ["events"], status="Suspended").json
    assert (answer["scopes"], answer["status"]) == (["events"], "Suspended")
    answer = server.admin().patch(f"/admin/clients/{client.id}", {"status": "Active"}).json
    assert (answer["scopes"], answer["status"]) == (["events"], "Active")
    answer = patch_scopes(server, client, None, status="Active").json
    assert answer["scopes"] == ["events"]


@pytest.mark.parametrize("scopes,named", [
    (["imports", "everything", "nope"], ("everything", "nope")), ("imports,everything", ("everything",)),
    ([], ("at least one",)), ("", ("at least one",)), ([7], ("7",)), (7, ("array",)), ({"imports": True}, ("array",)), ([["imports"]], ()),
])
def test_bad_scopes_are_named_and_change_nothing(server, scopes, named):
    client = server.new_client(scopes=["interface"])
    answer = patch_scopes(server, client, scopes, status="Suspended")
    assert (answer.status, answer.bad_fields) == (400, {"scopes"})
    for word in named:
        assert any(word in e["message"] for e in answer.json["errors"]), answer
    assert client.get("/whoami").json["scopes"] == ["interface"]


def test_a_change_of_scopes_is_audited_with_before_and_after(make_server):
    server = make_server()
    client = server.new_client(scopes=["interface", "imports"])
    assert patch_scopes(server, client, ["imports", "acks"]).status == 200
    assert patch_scopes(server, client, ["nope"]).status == 400
    assert server.admin().patch("/admin/clients/nobody", {"scopes": ["imports"]}).status == 404
    rows = [r for r in server.admin().get("/admin/audit").json["items"] if r["action"] == "ClientScopesChanged"]
    assert [(r["target"], r["details"]) for r in rows] == [
        (client.id, {"scopes": {"from": ["interface", "imports"], "to": ["imports", "acks"]}})]


def test_the_command_line_changes_scopes_and_a_server_notices(make_server):
    server = make_server()
    client = server.new_client(scopes=["interface"])
    assert client.get("/whoami").status == 200
    done = server.cli("client", "set-scopes", client.id, "imports,acks")
    assert done.returncode == 0, done.stderr
    wait_for(lambda: client.get("/whoami").json["scopes"] == ["imports", "acks"], "the server to notice")
    wrong = server.cli("client", "set-scopes", client.id, "imports,nope")
    assert wrong.returncode == 2 and "nope" in wrong.stderr
    assert server.cli("client", "set-scopes", "nobody", "imports").returncode == 1
    assert server.cli("client", "set-scopes", client.id).returncode == 2


# --- rotation ----------------------------------------------------------------------------------------


def rotate(server, client, query=""):
    answer = server.admin().post(f"/admin/clients/{client.id}/rotate-secret{query}")
    assert answer.status == 200, answer
    assert answer.json["clientId"] == client.id
    return server.client(client.id, answer.json["clientSecret"])


def test_rotation_without_grace_ends_the_old_secret_at_once(server):
    old = server.new_client()
    assert old.get("/whoami").status == 200
    new = rotate(server, old)
    assert old.get("/whoami").status == 401
    assert new.get("/whoami").status == 200


def test_rotation_with_grace_keeps_the_old_secret_until_its_end(server):
    old = server.new_client()
    begun = time.monotonic()
    new = rotate(server, old, "?graceSeconds=3")
    end = time.monotonic() + 3
    assert new.get("/whoami").status == 200
    assert old.get("/whoami").status == 200 or time.monotonic() > begun + 3
    assert server.client(old.id, "wrong").get("/whoami").status == 401
    time.sleep(max(0, end - time.monotonic()) + 0.2)
    assert old.get("/whoami").status == 401
    assert new.get("/whoami").status == 200


def test_a_second_rotation_leaves_only_the_last_two_secrets(server):
    first = server.new_client()
    second = rotate(server, first, "?graceSeconds=600")
    third = rotate(server, first, "?graceSeconds=600")
    assert [c.get("/whoami").status for c in (first, second, third)] == [401, 200, 200]
    fourth = rotate(server, first)
    assert [c.get("/whoami").status for c in (second, third, fourth)] == [401, 401, 200]


@pytest.mark.parametrize("grace", ["-1", "x", "", "1.5", "99999999999999999999"])
def test_a_bad_grace_is_400_and_rotates_nothing(server, grace):
    client = server.new_client()
    answer = server.admin().post(f"/admin/clients/{client.id}/rotate-secret?graceSeconds={grace}")
    assert (answer.status, answer.bad_fields) == (400, {"graceSeconds"})
    assert client.get("/whoami").status == 200


# --- all at once -------------------------------------------------------------------------------------


def test_calls_of_every_kind_at_the_same_time_get_along(make_server):
    server = make_server()
    steady = server.new_client("Steady")
    churned = [server.new_client(f"Churned {i}") for i in range(3)]
    statuses, stop = [], threading.Event()

    def repeat(*calls):
        while not stop.is_set():
            statuses.extend((name, call().status) for name, call in calls)

    def churn(client):
        path = f"/admin/clients/{client.id}"
        return (("patch", lambda: server.admin().patch(path, {"status": "Suspended"})), ("mine", lambda: client.get("/whoami")),
                ("patch", lambda: server.admin().patch(path, {"status": "Active"})), ("mine", lambda: client.get("/whoami")),
                ("rotate", lambda: server.admin().post(f"{path}/rotate-secret?graceSeconds=600")))

    groups = [(("steady", lambda: steady.get("/whoami")),)] * 2 + [churn(c) for c in churned]
    groups.append((("create", lambda: server.admin().post("/admin/clients", {"name": "More"})), ("list", lambda: server.admin().get("/admin/clients")),
                   ("metrics", lambda: server.anonymous().get("/metrics")), ("ready", lambda: server.anonymous().get("/readyz"))))
    threads = [threading.Thread(target=repeat, args=group) for group in groups]
    for thread in threads:
        thread.start()
    time.sleep(2)
    stop.set()
    for thread in threads:
        thread.join()
    expected = {"steady": {200}, "patch": {200}, "rotate": {200}, "create": {201}, "list": {200}, "metrics": {200}, "ready": {200},
                # Its secret is outlived by the second rotation.
                "mine": {200, 401, 403, 429}}
    assert {name for name, _ in statuses} == set(expected)
    assert not [found for found in statuses if found[1] not in expected[found[0]]]


# --- what remains ------------------------------------------------------------------------------------


def test_restart_keeps_clients_their_status_and_their_grace(make_server):
    server = make_server()
    active, suspended, old = (server.new_client(n) for n in ("Active", "Suspended", "Rotated"))
    server.admin().patch(f"/admin/clients/{suspended.id}", {"status": "Suspended"})
    new = rotate(server, old, "?graceSeconds=600")
    server.restart()
    assert [c.get("/whoami").status for c in (active, suspended, old, new)] == [200, 403, 200, 200]
    assert server.admin().get("/admin/clients").json["total"] == 3


def test_secrets_are_nowhere_in_the_database(make_server):
    server = make_server()
    client = server.new_client()
    rotate(server, client, "?graceSeconds=600")
    server.client(client.id, "a-wrong-secret-that-was-sent").get("/whoami")
    stored = server.backend.all_bytes()
    assert client.id.encode() in stored
    for secret in server.secrets | {"a-wrong-secret-that-was-sent"}:
        assert secret.encode() not in stored
        assert secret.removeprefix("dfs_").encode() not in stored


def test_every_change_leaves_an_audit_row_and_a_failure_none(make_server):
    server = make_server()
    admin = server.admin(address="127.77.0.1")
    created = admin.post("/admin/clients", {"name": "Audited", "clientId": "audited"}, headers={"X-Correlation-Id": "corr-create"})
    assert created.status == 201
    admin.patch("/admin/clients/audited", {"status": "Suspended"})
    admin.patch("/admin/clients/audited", {"status": "Active"})
    admin.post("/admin/clients/audited/rotate-secret?graceSeconds=5")
    admin.post("/admin/clients", {"name": "Again", "clientId": "audited"})
    admin.post("/admin/clients", {"name": ""})
    admin.patch("/admin/clients/nobody", {"status": "Active"})
    page = admin.get("/admin/audit?actor=admin").json
    assert (page["total"], page["page"], page["pageSize"]) == (4, 1, 20)
    rows = list(reversed(page["items"]))
    assert [r["target"] for r in rows] == ["audited"] * 4
    assert len({r["action"] for r in rows}) >= 3
    assert rows[0]["correlationId"] == "corr-create"
    assert all(r["ip"] == "127.77.0.1" and r["occurredAt"].endswith("Z") and r["actor"] for r in rows)
    assert created.json["clientSecret"] not in str(page)
    assert [r["id"] for r in admin.get("/admin/audit?actor=admin&page=2&pageSize=2").json["items"]] == [rows[1]["id"], rows[0]["id"]]
