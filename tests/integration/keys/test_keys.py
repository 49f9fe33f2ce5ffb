"""The keys of what is stored: where they come from, who may open them, rotation, and a key that is lost."""

import json
import random
import stat
import subprocess
import threading

import pytest
from harness import BIN, MASTER_KEY, TIMEOUT, FakeClock, Server, environment, wait_for
from test_imports_process import configuration, leads, make_peer, send, wait_end  # noqa: F401 (fixtures)
from test_openapi import DOCUMENT, check
from test_webhooks_api import hooks_of, receiver, secret_columns  # noqa: F401 (fixtures)

pytestmark = pytest.mark.threads

SCHEMAS = DOCUMENT["components"]["schemas"]
OTHER = "cd" * 32
PRIVATE = {"delivery": {"allow_private_targets": "on"}, "webhooks": {"retry_delays_ms": "50,100,200,400,800,1600"},
           "breaker": {"min_calls": 1000, "window": 1000}}


def keys_of(server):
    answer = server.admin().get("/admin/keys")
    assert answer.status == 200, answer
    check(answer.json, SCHEMAS["KeyList"], "keys")
    return {key["id"]: key for key in answer.json["items"]}


def listed(server):
    """With the files."""
    result = server.cli("key", "list", "--json")
    assert result.returncode == 0, result
    return json.loads(result.stdout)


def rotate(server, clock):
    """And waits until the key is in use."""
    answer = server.admin().post("/admin/keys/rotate")
    assert answer.status == 202, answer
    check(answer.json, SCHEMAS["KeyRotation"], "rotation")
    clock.advance(seconds=16)
    wait_for(lambda: keys_of(server)[answer.json["id"]]["current"], "the key's time")
    return answer.json["id"]


def moved(server, clock, key):
    """Everything is under this key, and those before are retired."""
    def over():
        clock.advance(seconds=20)
        found = listed(server)
        older = [k for k in found["items"] if k["purpose"] == "data" and k["id"] < key]
        return all(k["retiredAt"] and k["secrets"] == k["payloads"] == k["files"] == 0 for k in older) and found

    return wait_for(over, f"all under key {key}", every=0.3)


# --- the master key ----------------------------------------------------------------------------------


def test_without_a_master_key_one_is_made_for_this_host(make_server):
    server = make_server(master=False)
    file = server.directory / "data" / "master.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    key = file.read_text(encoding="ascii").strip()
    assert len(bytes.fromhex(key)) == 32
    server.secrets.add(key)
    assert [k["purpose"] for k in keys_of(server).values()] == ["data", "index", "audit"]
    found = {c["name"]: c for c in json.loads(server.cli("doctor", "--json").stdout)["checks"]}["security.master_key"]
    assert found["status"] == "warning" and "data_dir/master.key" in found["detail"] and "back the file up" in found["advice"]
    stored = server.backend.all_bytes()
    assert key.encode() not in stored and bytes.fromhex(key) not in stored

    # Its text as the setting of another host.
    server.stop()
    other = make_server(backend=server.backend, master=False, config={"security": {"master_key": key}})
    assert not (other.directory / "data" / "master.key").exists()
    assert {c["name"]: c for c in json.loads(other.cli("doctor", "--json").stdout)["checks"]}["security.master_key"]["status"] == "ok"


def test_a_second_host_without_the_key_is_refused_and_makes_none(make_server):
    first = make_server()
    first.stop()
    second = make_server(backend=first.backend, master=False, start=False)
    for security, told in (("", "security.master_key_file"), (f"[security]\nmaster_key = {OTHER}\n", "security.master_old_key")):
        second.config.write_text(second.config.read_text(encoding="utf-8") + security, encoding="utf-8")
        for command in (["serve"], ["key", "list"]):
            refused = second.cli(*command)
            assert refused.returncode == 2 and told in refused.stderr, refused
            assert OTHER not in refused.stderr
        found = {c["name"]: c for c in json.loads(second.cli("doctor", "--json").stdout)["checks"]}["security.master_key"]
        assert found["status"] == "problem" and told in found["detail"]
    assert not (second.directory / "data" / "master.key").exists()


def test_the_master_key_is_replaced(make_server, receiver):
    server = make_server(config=PRIVATE)
    hooks = hooks_of(server)
    hook = hooks.create(receiver.url)
    before = secret_columns(server.backend, hook)
    config = server.config.read_text(encoding="utf-8")
    server.secrets |= {OTHER}
    server.stop()
    server.config.write_text(config + f"[security]\nmaster_key = {OTHER}\nmaster_old_key = {MASTER_KEY}\n", encoding="utf-8")
    server.start()
    assert len(server.log("DataKeyRewrapped")) == 3
    assert len({k["masterId"] for k in keys_of(server).values()}) == 1
    assert secret_columns(server.backend, hook) == before
    # Without the old one, and without the file of this host.
    server.stop()
    (server.directory / "data" / "master.key").unlink()
    server.config.write_text(config + f"[security]\nmaster_key = {OTHER}\n", encoding="utf-8")
    server.start()
    assert hooks.post(hook, "/test").status == 202
    wait_for(lambda: receiver.came, "the delivery")


def test_several_processes_at_once_make_one_set_of_keys(make_backend, tmp_path):
    """The database is empty and has no schema; all of them share a data directory."""
    server = Server(make_backend(empty=True), tmp_path, master=False)
    args = [BIN, "key", "list", "--json", "--config", server.config]
    started = [subprocess.Popen(args, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    ended = [process.communicate(timeout=TIMEOUT) for process in started]
    assert all(process.returncode == 0 for process in started), ended
    found = [json.loads(out)["items"] for out, _ in ended]
    assert all([(k["id"], k["masterId"]) for k in f] == [(k["id"], k["masterId"]) for k in found[0]] for f in found)
    assert len(found[0]) == 3 == len(server.backend.query("SELECT Id FROM DataKeys"))


def test_a_credential_of_systemd_is_taken(make_server, tmp_path):
    (tmp_path / "df-master").write_text(MASTER_KEY + "\n", encoding="ascii")
    server = make_server(master=False, config={"security": {"master_key": "credential:df-master"}},
                         env={"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert len(keys_of(server)) == 3
    server.stop()
    refused = server.cli("serve", env={"CREDENTIALS_DIRECTORY": str(tmp_path / "other")})
    assert refused.returncode == 2 and "df-master" in refused.stderr
    server.start()


@pytest.mark.parametrize("value", ["x", "ab" * 31, "credential:", "credential:../x", "file:/etc/passwd"])
def test_bad_values_are_refused(tmp_path, value):
    server = Server(None, tmp_path, config={"security": {"master_key": value}})
    refused = server.cli("check-config")
    assert refused.returncode == 2 and "[security] master_key must be" in refused.stderr


def test_a_backup_says_that_the_key_is_not_in_it(make_sqlite_server, tmp_path):
    server = make_sqlite_server()
    done = server.cli("backup", tmp_path / "copy.db")
    assert done.returncode == 0 and "master key" in done.stderr and not done.stdout
    assert MASTER_KEY.encode() not in (tmp_path / "copy.db").read_bytes()


# --- rotation ----------------------------------------------------------------------------------------


def test_keys_are_for_the_administrator(server):
    assert server.anonymous().get("/admin/keys").status == 401
    assert server.anonymous().post("/admin/keys/rotate").status == 401
    assert server.new_client().post("/admin/keys/rotate").status == 401
    assert server.admin().get("/admin/keys/rotate").status == 405


def test_rotation_moves_secrets_and_files(make_server, make_peer, receiver, tmp_path):
    clock, peer = FakeClock(tmp_path), make_peer()
    peer.answer = lambda request: None  # OmniFlow is away: the files stay
    server = make_server(config=configuration(peer, **{k: v for k, v in PRIVATE.items() if k != "breaker"}), clock=clock)
    hooks = hooks_of(server)
    hook = hooks.create(receiver.url)
    hooks.post(hook, "/rotate-secret")
    batch = send(hooks.client, leads(30))
    file, = (server.directory / "data" / "imports" / batch / "original").iterdir()
    assert file.read_bytes()[24:32] == b"DK\0\0\1\0\0\0" and b"Lead 7" not in file.read_bytes()
    first = listed(server)
    assert [(k["id"], k["secrets"], k["files"]) for k in first["items"]] == [(1, 2, 1), (2, 0, 0), (3, 0, 0)]
    assert first["lost"] == [] and first["others"] == {"secrets": 0, "payloads": 0, "files": 0}

    key = rotate(server, clock)
    found = moved(server, clock, key)
    assert [(k["id"], k["purpose"], k["secrets"], k["files"], k["current"]) for k in found["items"]] == [
        (1, "data", 0, 0, False), (2, "index", 0, 0, False), (3, "audit", 0, 0, False), (4, "data", 2, 1, True)]
    assert file.read_bytes()[24:32] == b"DK\0\0\4\0\0\0"
    assert [p.name for p in file.parent.iterdir()] == [file.name]
    metrics = server.admin().get("/metrics").body.decode()
    assert 'dataflow_reencrypted_total{kind="secret"} 2' in metrics and 'dataflow_reencrypted_total{kind="file"} 1' in metrics
    assert "\ndataflow_data_key 4\n" in metrics and server.log("DataKeyRetired")
    entry, = [e for e in server.admin().get("/admin/audit").json["items"] if e["action"] == "KeyRotated"]
    assert entry["target"] == "data key 4"

    # What is under the new key works.
    assert hooks.post(hook, "/test").status == 202
    wait_for(lambda: receiver.came, "the delivery")
    peer.answer = lambda request: 200
    clock.advance(minutes=5)
    assert wait_end(hooks.client, batch)["status"] == "Completed"

    # From the command line, and after a restart.
    done = server.cli("key", "rotate", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["id"] == 5
    server.restart()
    clock.advance(seconds=16)
    moved(server, clock, 5)
    assert "LOST" not in server.cli("key", "list").stdout


def test_two_rotations_at_once_make_two_keys_or_one_and_a_conflict(make_server):
    server = make_server()
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(server.admin().post("/admin/keys/rotate"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = {a.json["id"] for a in answers if a.status == 202}
    assert made and {a.status for a in answers} <= {202, 409, 503}
    assert len(made) == sum(a.status == 202 for a in answers)
    assert set(keys_of(server)) == {1, 2, 3} | made


def test_another_process_follows_a_rotation(make_server, backend_name, receiver, tmp_path):
    if backend_name == "sqlite":
        pytest.skip("SQLite has one process")
    clock = FakeClock(tmp_path)
    one = make_server(config={**PRIVATE, "server": {"roles": "api,maintain"}}, clock=clock)
    other = make_server(backend=one.backend, config={**PRIVATE, "server": {"roles": "deliver"}}, clock=clock)
    hooks = hooks_of(one)
    hook = hooks.create(receiver.url)
    key = rotate(one, clock)
    moved(one, clock, key)
    hooks.post(hook, "/rotate-secret")  # under the new key
    assert hooks.post(hook, "/test").status == 202
    wait_for(lambda: receiver.came, "a delivery by the other process")
    wait_for(lambda: other.log("DataKeyInUse"), "the other process to use it too")


def test_nothing_is_moved_back_from_a_newer_key(make_server, receiver, tmp_path):
    """As by a process that has not followed a rotation yet."""
    clock = FakeClock(tmp_path)
    server = make_server(config=PRIVATE, clock=clock)
    hooks_of(server).create(receiver.url)
    key = rotate(server, clock)
    moved(server, clock, key)
    server.stop()
    server.backend.script(f"UPDATE DataKeys SET ActiveAt = '2099-01-01T00:00:00.000Z' WHERE Id = {key}")
    server.start()
    assert keys_of(server)[1]["current"] and keys_of(server)[key]["secrets"] == 1
    assert not server.log("WebhookSecretsLost") and not server.log("DataKeyLost")


def test_one_secret_that_does_not_open_keeps_no_server_from_starting(make_server, receiver):
    server = make_server(config=PRIVATE)
    hooks = hooks_of(server)
    hooks.create(receiver.url)
    damaged = hooks.create(receiver.url)
    server.stop()
    garbage = "01" + "5a" * 90  # in the form of older releases, under nobody's key
    literal = {"sqlite": f"X'{garbage}'", "postgres": f"'\\x{garbage}'", "sqlserver": f"0x{garbage}"}[server.backend.name]
    server.backend.script(f"UPDATE WebhookSubscriptions SET SecretEncrypted = {literal} WHERE Id = '{damaged['id']}'")
    server.start()
    assert "1 webhook secrets do not open" in server.log("WebhookSecretsLost")[-1]["message"]


def test_a_lost_key_is_told_of_and_deliveries_wait_for_it(make_server, receiver, tmp_path):
    clock = FakeClock(tmp_path)
    server = make_server(config=PRIVATE, clock=clock)
    hooks = hooks_of(server)
    hook = hooks.create(receiver.url)
    server.stop()
    backend = server.backend
    backend.script("""
        CREATE TABLE Kept AS SELECT * FROM DataKeys;
        UPDATE DataKeys SET Id = 7 WHERE Id = 1;""" if backend.name != "sqlserver" else """
        SELECT * INTO Kept FROM DataKeys;
        UPDATE DataKeys SET Id = 7 WHERE Id = 1;""")
    refused = server.cli("serve")
    assert refused.returncode == 2 and "key 7 does not open" in refused.stderr  # a row of another place
    backend.script("DELETE FROM DataKeys; INSERT INTO DataKeys SELECT * FROM Kept")
    assert server.cli("key", "rotate").returncode == 0
    clock.advance(seconds=16)
    backend.script("DELETE FROM DataKeys WHERE Id = 1")

    server.start()
    assert "1 webhook secrets do not open" in server.log("WebhookSecretsLost")[-1]["message"]
    wait_for(lambda: "under data key 1" in "".join(e["message"] for e in server.log("DataKeyLost")), "the pass")
    assert "\ndataflow_data_key_lost 1\n" in server.admin().get("/metrics").body.decode()
    found = listed(server)
    assert found["lost"] == [{"id": 1, "secrets": 1, "payloads": 0, "files": 0}]
    assert "Data key 1 is LOST, and with it 1 secrets" in server.cli("key", "list").stdout
    assert server.admin().get("/admin/keys").json["lost"] == [{"id": 1, "secrets": 1, "payloads": 0}]
    assert hooks.post(hook, "/test").status == 202
    other = hooks.create(receiver.url)
    assert hooks.post(other, "/test").status == 202
    wait_for(lambda: hooks.deliveries(other, "?status=Sent"), "the delivery of another subscription")
    assert [d["status"] for d in hooks.deliveries(hook)] == ["Pending"], "it waits, and is not given up"

    # A restored row is found by itself; a rotation meanwhile takes no id that is lost.
    assert server.admin().post("/admin/keys/rotate").json["id"] == 5
    backend.script("INSERT INTO DataKeys SELECT * FROM Kept WHERE Id = 1")
    wait_for(lambda: hooks.deliveries(hook, "?status=Sent"), "the delivery")


def test_rotation_moves_kept_records(make_server, make_peer, tmp_path):
    clock, peer = FakeClock(tmp_path), make_peer()
    peer.answer = lambda request: (200, {"results": [{"sequence": i["sequence"], "status": "error", "message": "no"}
                                                     for i in request.body["items"]]}) if request.chunk == 1 else 200
    server = make_server(config=configuration(peer), clock=clock)
    client = server.new_client()
    batch = send(client, [*leads(60), *({"Name": f"Nobody {i}"} for i in range(45))])
    wait_end(client, batch)
    before = dict(server.backend.query("SELECT Sequence, KeyId FROM ImportKept"))
    assert len(before) >= 45 and set(before.values()) == {1}
    report = client.get(f"/imports/{batch}/items?status=Error&pageSize=200").json["items"]
    server.backend.script("UPDATE ImportKept SET KeyId = 99 WHERE Sequence = 62")  # the bytes tell, not the column
    key = rotate(server, clock)
    found = moved(server, clock, key)
    assert dict(server.backend.query("SELECT Sequence, KeyId FROM ImportKept")) == dict.fromkeys(before, key)
    assert [k["payloads"] for k in found["items"] if k["current"]] == [len(before)]
    assert client.get(f"/imports/{batch}/items?status=Error&pageSize=200").json["items"] == report
    assert server.admin().get("/admin/keys").json["lost"] == []


# --- under load, with crashes ------------------------------------------------------------------------


def test_rotation_under_load_survives_kills(make_server, make_peer, receiver, tmp_path):
    """Webhooks and imports go on while keys change and the server is killed: nothing fails, nothing stays behind."""
    clock, peer, chance = FakeClock(tmp_path), make_peer(), random.Random(17)
    server = make_server(config=configuration(peer, omniflow={"batch_size": 50}, delivery=PRIVATE["delivery"],
                                              webhooks=PRIVATE["webhooks"]), clock=clock)
    hooks = hooks_of(server)
    made = [hooks.create(receiver.url, events=["BatchCompleted"]) for _ in range(15)]
    batches, key = [], 1
    for _ in range(3):
        batches += [send(hooks.client, leads(200, start=1000 * len(batches))) for _ in range(3)]
        key = rotate(server, clock)
        for _ in range(3):
            batches.append(send(hooks.client, leads(200, start=1000 * len(batches))))
            clock.advance(seconds=chance.uniform(5, 40))
            server.kill()
            server.start()
    found = moved(server, clock, key)
    for batch in batches:
        assert wait_end(hooks.client, batch)["status"] == "Completed"
    current, = [k for k in found["items"] if k["current"]]
    assert current["id"] == key and current["secrets"] == len(made) and found["lost"] == []
    assert found["others"] == {"secrets": 0, "payloads": 0, "files": 0}

    def told():
        return {(h["X-DataFlow-Event-Id"] if "X-DataFlow-Event-Id" in h else h["webhook-id"]) for h, _ in receiver.came}

    def all_arrived():
        clock.advance(seconds=5)
        return server.backend.query("SELECT COUNT(*) FROM WebhookDeliveries WHERE Status = 'Sent'")[0][0] == len(batches) * len(made)

    wait_for(all_arrived, "the webhooks", every=0.3)
    assert len(told()) == len(batches) * len(made)
    assert server.backend.query("SELECT COUNT(*) FROM WebhookDeliveryFailures")[0][0] == 0


def test_a_command_moves_no_keys_to_another_master(make_server):
    server = make_server()
    before = {k: v["masterId"] for k, v in keys_of(server).items()}
    other = server.cli("client", "list", "--set", f"security.master_key={OTHER}", "--set",
                       f"security.master_old_key={MASTER_KEY}")
    assert other.returncode == 0, other
    assert server.cli("key", "rotate", "--set", f"security.master_key={OTHER}", "--set",
                      f"security.master_old_key={MASTER_KEY}").returncode == 0
    after = {k: v["masterId"] for k, v in keys_of(server).items()}
    assert {k: after[k] for k in before} == before and len(after) == len(before) + 1
    assert set(after.values()) == set(before.values())
