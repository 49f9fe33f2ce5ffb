"""Master keys in vaults, against strict fakes of them (tests/vault_server.py): where the key is and who may use it, a vault
that is away, sealed, slow or broken, tokens that end, keys with versions."""

import json
import secrets
import signal

import pytest
from harness import FakeClock, run, wait_for, write_config
from tls import Authority, server_context
from vault_server import Azure, Vault

pytestmark = pytest.mark.threads

PUBLIC = "https://93.184.216.34/hooks"  # nothing is ever sent there
KEY = "7e" * 32


@pytest.fixture
def vault():
    with Vault() as v:
        v.transit()
        v.secrets["secret/data/apps/dataflow"] = {"master": KEY, "other": "no key"}
        yield v


@pytest.fixture
def azure():
    with Azure() as a:
        a.key()
        yield a


def place_of(vault, path="transit/keys/dataflow"):
    return f"vault+http://{vault.address}/{path}"


def make(make_server, start=True, clock=None, **security):
    server = make_server(start=False, master=False, clock=clock, config={"security": security})
    server.secrets |= {value for name, value in security.items() if name in (
        "vault_token", "vault_secret_id", "azure_client_secret", "azure_identity_header")} | {KEY}
    return server.start() if start else server


def with_token(make_server, vault, path="transit/keys/dataflow", start=True, **more):
    return make(make_server, start, master_key=place_of(vault, path), vault_token=vault.token(), **more)


def with_secret(make_server, azure, start=True, **more):
    return make(make_server, start, **{
        "master_key": f"azurekv+http://{azure.address}/dataflow", "azure_tenant_id": azure.TENANT,
        "azure_client_id": azure.CLIENT, "azure_client_secret": azure.secret,
        "azure_login_url": f"http://{azure.address}", **more})


def wrapped(server):
    rows = server.backend.query("SELECT WrappedKey, MasterId FROM DataKeys ORDER BY Id")
    return [(bytes(row[0]), row[1]) for row in rows]


def add_webhook(server, client=None):
    client = client or server.new_client()
    answer = client.post(f"/clients/{client.id}/webhooks", {"url": PUBLIC, "autoRotate": True})
    assert answer.status == 201, answer
    return client, answer.json


def secret_of(client, hook):
    return client.get(f"/clients/{client.id}/webhooks/{hook['id']}/secret").json["secret"]


def works(server):
    """Something is encrypted, and decrypted by another process."""
    client, hook = add_webhook(server)
    assert secret_of(client, hook) == hook["secret"]
    server.restart()
    client.server = server
    client = server.client(client.id, client.secret)
    answer = client.get(f"/clients/{client.headers['X-Client-Id']}/webhooks/{hook['id']}/secret")
    assert answer.json["secret"] == hook["secret"]


def waits(server, words):
    """Its log says what is wrong, and it neither ends nor serves: its address answers 503."""
    entry = wait_for(lambda: server.log("MasterKeyUnavailable"), "the log")[0]
    for word in words:
        assert word in entry["message"], entry
    assert server.process.poll() is None and "ServerStarted" not in server.log_text(current=True).split("MasterKeyUnav")[0]


def is_not_ready(server):
    caller = server.waiting().anonymous()
    assert caller.get("/healthz").status == 200
    answer = caller.get("/readyz")
    assert answer.status == 503 and answer.json["detail"] == "The master key is not available for now.", answer.json
    assert answer.json["checks"][0]["name"] == "keys"
    assert caller.post("/api/tickets", {}).json["code"] == "NotReady"


# --- where the key is -----------------------------------------------------------------------------------


def test_key_of_kv_is_read_once(make_server, vault):
    server = with_token(make_server, vault, "secret/data/apps/dataflow#master")
    assert vault.calls == ["GET /v1/secret/data/apps/dataflow"]
    assert {master for _, master in wrapped(server)} == {m for _, m in wrapped(server)[:1]}
    vault.stop()
    add_webhook(server)
    vault.start()
    works(server)
    assert not (server.directory / "data" / "master.key").exists()


def test_a_field_that_is_missing_is_waited_for_and_one_without_a_key_is_refused(make_server, vault):
    server = with_token(make_server, vault, "secret/data/apps/dataflow#later", start=False)
    server.spawn()
    waits(server, ['no text in field "later"'])
    vault.secrets["secret/data/apps/dataflow"]["later"] = KEY
    server.started()
    refused(with_token(make_server, vault, "secret/data/apps/dataflow#other", start=False), ["holds no key of 32 bytes"])


def test_transit_wraps_the_data_keys(make_server, vault):
    server = with_token(make_server, vault)
    rows = wrapped(server)
    assert len(rows) == 3 and all(text.startswith(b"vault:v1:") for text, _ in rows)
    assert {master for _, master in rows} == {"vault:transit/keys/dataflow"}
    works(server)
    assert not (server.directory / "data" / "master.key").exists()


def test_a_namespace_and_another_mount_of_approle(make_server, vault):
    vault.namespace = "team/a"
    role_id, secret_id = vault.role(mount="machines")
    server = make(make_server, master_key=place_of(vault), vault_role_id=role_id, vault_secret_id=secret_id,
                  vault_role_mount="machines", vault_namespace="team/a")
    assert vault.calls[0] == "POST /v1/auth/machines/login"
    works(server)


@pytest.mark.parametrize("how", ["client secret", "managed identity", "App Service"])
def test_azure_wraps_the_data_keys(make_server, azure, how):
    version, = azure.keys["dataflow"]
    if how == "client secret":
        server = with_secret(make_server, azure)
    else:
        header = {"azure_identity_header": "header-of-app-service"} if how == "App Service" else {}
        azure.app_service = header.get("azure_identity_header")
        server = make(make_server, master_key=f"azurekv+http://{azure.address}/dataflow",
                      azure_identity_url=f"http://{azure.address}/metadata/identity/oauth2/token", **header)
    rows = wrapped(server)
    assert len(rows) == 3 and all(text.startswith(version.encode() + b":") for text, _ in rows)
    assert {master for _, master in rows} == {f"azurekv:{azure.address}/dataflow"}
    assert azure.count("oauth2") == 1  # the token is kept
    works(server)


def test_a_token_that_azure_refuses_is_fetched_again(make_server, azure):
    azure.faults.append({"on": "wrapkey", "status": 401, "body": {"error": {"code": "Unauthorized", "message": "expired"}}})
    server = with_secret(make_server, azure)
    assert azure.count("oauth2") == 2
    works(server)


def test_a_version_of_the_key_that_azure_is_asked_for(make_server, azure):
    first, = azure.keys["dataflow"]
    azure.key()
    server = with_secret(make_server, azure, master_key=f"azurekv+http://{azure.address}/dataflow/{first}")
    assert all(text.startswith(first.encode()) for text, _ in wrapped(server))


# --- a vault that is away, or refuses -------------------------------------------------------------------


SEALED = {"status": 503, "body": {"errors": ["Vault is sealed"]}}
BROKEN = [
    ("sealed", SEALED, ["is sealed: unseal it"]),
    ("permission denied", {"status": 403, "body": {"errors": ["permission denied"]}}, ["403", "policy"]),
    ("no such path", {"status": 404, "body": {"errors": []}}, ["404", "mount, path and namespace"]),
    ("rate", {"status": 429, "body": {"errors": ["rate limit quota exceeded"]}, "headers": {"Retry_After": "1"}},
     ["limits its rate", "rate limit quota exceeded"]),
    ("standby", {"status": 473, "body": {"errors": []}}, ["473"]),
    ("an error", {"status": 500, "body": {"errors": ["1 error occurred:\n\t* internal error\n\n"]}}, ["500", "internal error"]),
    ("slow", {"delay": 3}, ["imed out"]),
    ("no JSON", {"status": 200, "body": b"<html>It works!</html>"}, ["without a JSON object"]),
    ("no text", {"status": 200, "body": b""}, ["without a JSON object"]),
    ("JSON of somebody else", {"status": 200, "body": {"ok": True}}, ["has no ciphertext"]),
    ("no ciphertext", {"status": 200, "body": {"data": {"ciphertext": "x"}}}, ["no ciphertext of Transit"]),
    ("too long", {"status": 200, "body": {"data": {"ciphertext": "vault:v1:" + "x" * 70000}}}, ["more than 64 KiB"]),
    ("a redirect", {"status": 307, "body": {}, "headers": {"Location": "http://127.0.0.1:1/"}}, ["307"]),
]


@pytest.mark.parametrize("fault, words", [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_what_transit_answers_is_told_and_tried_again(make_server, vault, fault, words):
    vault.faults.append({"on": "/encrypt/", **fault})
    server = with_token(make_server, vault, start=False, vault_timeout_seconds=1)
    server.spawn()
    waits(server, words)
    server.started()
    add_webhook(server)


AZURE_BROKEN = [
    ("token", {"status": 401, "on": "oauth2", "body": {"error": "invalid_client", "error_description": "AADSTS7000215: x"}},
     ["Entra ID gives no token", "AADSTS7000215"]),
    ("token is none", {"status": 200, "on": "oauth2", "body": {"token_type": "Bearer"}}, ["Entra ID gives no token"]),
    ("forbidden", {"status": 403, "on": "wrapkey", "body": {"error": {"code": "Forbidden", "message": "no permission"}}},
     ["403 Forbidden", "allow get, wrapKey and unwrapKey"]),
    ("no key", {"status": 404, "on": "/keys/", "body": {"error": {"code": "KeyNotFound", "message": "x"}}}, ["404 KeyNotFound"]),
    ("rate", {"status": 429, "on": "wrapkey", "body": {"error": {"code": "Throttled", "message": "x"}},
              "headers": {"Retry_After": "1"}}, ["429 Throttled", "limits its rate"]),
    ("no version", {"status": 200, "on": "/keys/", "body": {"key": {"kid": "https://x/keys/dataflow/a?b"}}},
     ["names no version"]),
    ("no value", {"status": 200, "on": "wrapkey", "body": {"kid": "x"}}, ["has no value"]),
]


@pytest.mark.parametrize("fault, words", [row[1:] for row in AZURE_BROKEN], ids=[row[0] for row in AZURE_BROKEN])
def test_what_azure_answers_is_told_and_tried_again(make_server, azure, fault, words):
    azure.faults.append(fault)
    server = with_secret(make_server, azure, start=False)
    server.spawn()
    waits(server, words)
    server.started()
    add_webhook(server)


def test_a_vault_that_is_away_at_start_is_waited_for(make_server, vault):
    server = with_token(make_server, vault)
    client, hook = add_webhook(server)
    vault.stop()
    _, second = add_webhook(server, client)  # it is not needed to go on
    assert secret_of(client, second) == second["secret"]
    assert server.stop() == 0
    server.spawn()
    waits(server, ["onnect"])
    is_not_ready(server)
    vault.start()
    server.started()
    client = server.client(client.id, client.secret)
    assert client.get(f"/clients/{client.headers['X-Client-Id']}/webhooks/{hook['id']}/secret").json["secret"] == hook["secret"]


@pytest.mark.parametrize("fault", [None, {"delay": 30}], ids=["away", "slow"])
def test_a_signal_ends_the_wait_at_once(make_server, vault, fault):
    server = with_token(make_server, vault, start=False, vault_timeout_seconds=60)
    if fault:
        vault.faults.append(fault)
    else:
        vault.stop()
    server.spawn()
    if fault:
        wait_for(lambda: vault.calls, "a call")
    else:
        waits(server, ["onnect"])
    is_not_ready(server)  # even before the first call has ended
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(10) == 0
    assert "waited for" in server.log("ServerStopped")[-1]["message"] or fault


def test_a_command_does_not_wait(make_server, vault):
    server = with_token(make_server, vault)
    vault.sealed = True
    result = server.cli("doctor", "--json")
    found = [c for c in json.loads(result.stdout)["checks"] if "sealed" in json.dumps(c)]
    assert result.returncode != 0 and found, result.stdout


def test_wrong_permissions_are_waited_for_too(make_server, vault):
    vault.denied.add("/encrypt/")
    server = with_token(make_server, vault, start=False)
    server.spawn()
    waits(server, ["403", "permission denied"])
    vault.denied.clear()
    server.started()


def test_the_certificate_of_the_vault_is_verified(make_server, tmp_path):
    ours, other = Authority(tmp_path / "ours"), Authority(tmp_path / "other")
    with Vault(tls=server_context(ours.issue())) as vault:
        vault.transit()
        place = f"vault://{vault.address}/transit/keys/dataflow"
        stranger = make(make_server, start=False, master_key=place, vault_token=vault.token(), ca_file=other.cert)
        stranger.spawn()
        waits(stranger, [vault.address, "authority"])
        assert not vault.calls
        server = make(make_server, master_key=place, vault_token=vault.token(), ca_file=ours.cert)
        works(server)


# --- keys that are not the right ones -------------------------------------------------------------------


def refused(server, words):
    """It ends and says why; what the command says about it is no line of the log."""
    before = server.log_path.read_bytes() if server.log_path.exists() else b""
    server.spawn()
    assert server.process.wait(30) != 0
    server.process = None
    text = server.log_text(current=True)
    server.log_path.write_bytes(before)
    for word in words:
        assert word in text, text


def test_a_key_version_that_is_too_old_is_refused_at_start(make_server, vault):
    server = with_token(make_server, vault)
    assert server.stop() == 0
    vault.transit()
    vault.min_decryption["transit/dataflow"] = 2
    refused(server, ["min_decryption_version"])
    vault.min_decryption.clear()
    server.start()


def test_another_key_of_that_name_is_refused_at_start(make_server, vault):
    server = with_token(make_server, vault)
    assert server.stop() == 0
    kept, vault.keys["transit/dataflow"] = vault.keys["transit/dataflow"], []
    vault.transit()
    refused(server, ["does not decrypt it", "authentication failed"])
    vault.keys["transit/dataflow"] = kept
    server.start()


def test_wrapped_keys_that_change_places_are_refused(make_server, vault):
    """The vault would decrypt them: the label inside tells."""
    server = with_token(make_server, vault)
    assert server.stop() == 0
    (first, _), (second, _), _ = wrapped(server)
    quoted = {"sqlite": "X'{}'", "postgres": "'\\x{}'", "sqlserver": "0x{}"}[server.backend.name]
    for key, text in ((1, second), (2, first)):
        server.backend.script(f"UPDATE DataKeys SET WrappedKey = {quoted.format(text.hex())} WHERE Id = {key};")
    refused(server, ["changed, or moved"])
    for key, text in ((1, first), (2, second)):
        server.backend.script(f"UPDATE DataKeys SET WrappedKey = {quoted.format(text.hex())} WHERE Id = {key};")
    server.start()


# --- rotation -------------------------------------------------------------------------------------------


def rotate(server):
    return server.admin().post("/admin/keys/rotate")


def test_a_rotation_uses_the_newest_version_and_wraps_the_others_anew(make_server, vault):
    server = with_token(make_server, vault)
    client, hook = add_webhook(server)
    vault.transit()
    vault.transit()
    assert rotate(server).status == 202
    wait_for(lambda: [text[:8] for text, _ in wrapped(server)] == [b"vault:v3"] * 4, "keys under version 3")
    vault.min_decryption["transit/dataflow"] = 3  # older versions are not needed any more
    server.restart()
    client = server.client(client.id, client.secret)
    answer = client.get(f"/clients/{client.headers['X-Client-Id']}/webhooks/{hook['id']}/secret")
    assert answer.json["secret"] == hook["secret"]


def test_a_rotation_uses_azures_newest_version(make_server, azure):
    server = with_secret(make_server, azure)
    version = azure.key()
    assert rotate(server).status == 202
    wait_for(lambda: all(text.startswith(version.encode()) for text, _ in wrapped(server)), "the new version")
    azure.keys["dataflow"] = {version: azure.keys["dataflow"][version]}
    works(server)


def test_a_rotation_while_the_vault_is_away_is_503(make_server, vault):
    server = with_token(make_server, vault)
    vault.stop()
    answer = rotate(server)
    assert answer.status == 503 and vault.address in answer.json["detail"], answer
    vault.start()
    vault.sealed = True
    assert "sealed" in rotate(server).json["detail"]
    assert len(wrapped(server)) == 3
    refused_too = server.cli("key", "rotate")
    assert refused_too.returncode != 0 and "sealed" in refused_too.stderr, refused_too
    assert len(wrapped(server)) == 3
    vault.sealed = False
    assert rotate(server).status == 202


# --- tokens that end ------------------------------------------------------------------------------------


def together(clock, vault, seconds):
    clock.advance(seconds=seconds)
    vault.passed += seconds


def test_a_token_is_renewed_before_it_ends(make_server, vault, tmp_path):
    clock = FakeClock(tmp_path)
    server = make(make_server, clock=clock, master_key=place_of(vault), vault_token=vault.token(ttl=900))
    together(clock, vault, 500)
    assert vault.count("renew-self") == 0
    together(clock, vault, 200)
    wait_for(lambda: vault.count("renew-self") == 1, "a renewal")
    together(clock, vault, 700)
    wait_for(lambda: vault.count("renew-self") == 2, "another one")
    assert rotate(server).status == 202


def test_a_token_that_cannot_be_renewed_is_told(make_server, vault, tmp_path):
    clock = FakeClock(tmp_path)
    server = make(make_server, clock=clock, master_key=place_of(vault), vault_token=vault.token(ttl=900, renewable=False))
    together(clock, vault, 700)
    told = wait_for(lambda: server.log("MasterKeyTokenNotRenewed"), "the log")[0]
    assert "lease is not renewable" in told["message"]
    together(clock, vault, 300)
    answer = rotate(server)
    assert answer.status == 503 and "the token has ended" in answer.json["detail"]
    add_webhook(server)  # the server goes on


@pytest.mark.parametrize("why", ["the renewal fails", "it has ended"])
def test_an_approle_logs_in_again(make_server, vault, tmp_path, why):
    clock = FakeClock(tmp_path)
    role_id, secret_id = vault.role(ttl=900)
    server = make(make_server, clock=clock, master_key=place_of(vault), vault_role_id=role_id, vault_secret_id=secret_id)
    assert vault.count("login") == 1
    if why == "it has ended":
        vault.passed += 1000
    else:
        vault.faults.append({"on": "renew-self", "status": 400, "body": {"errors": ["past max TTL"]}})
        together(clock, vault, 700)
        wait_for(lambda: vault.count("login") == 2, "a login")
    assert rotate(server).status == 202
    assert vault.count("login") == 2


def test_a_wrong_role_is_told_and_tried_again(make_server, vault):
    role_id, secret_id = vault.role()
    server = make(make_server, start=False, master_key=place_of(vault), vault_role_id=role_id,
                  vault_secret_id=secrets.token_hex(16))
    server.spawn()
    waits(server, ["log in (AppRole)", "invalid role or secret ID"])
    vault.roles[role_id] = (server.config.read_text(encoding="utf-8").split("vault_secret_id = ")[1].split()[0], 60, "approle")
    server.started()
    assert secret_id not in server.log_text()


# --- settings -------------------------------------------------------------------------------------------


SETTINGS = [
    ({"master_key": "vault://vault.example/transit/keys/k"}, "vault_token_file, or vault_role_id"),
    ({"master_key": "vault://vault.example/transit/k", "vault_token": "t"}, "MOUNT/keys/NAME"),
    ({"master_key": "vault://vault.example/kv/data/a b#f", "vault_token": "t"}, "MOUNT/data/PATH"),
    ({"master_key": "vault+http://vault.example/transit/keys/k", "vault_token": "t"}, "on this machine"),
    ({"master_key": "azurekv://evil.example/k"}, "that of a key vault"),
    ({"master_key": "azurekv://x.vault.azure.net/k/v/w"}, "/KEY or /KEY/VERSION"),
    ({"vault_role_id": "r"}, "set both or none"),
    ({"azure_client_secret": "s"}, "needs azure_tenant_id"),
    ({"azure_tenant_id": "a?b"}, "azure_tenant_id: must be of letters"),
    ({"azure_login_url": "ftp://x"}, "azure_login_url"),
    ({"azure_login_url": "http://login.example"}, "azure_login_url: must be https"),
    ({"azure_identity_url": "http://10.0.0.1/token"}, "azure_identity_url: must be https"),
    ({"azure_identity_url": "http://169.254.evil.example/token"}, "azure_identity_url: must be https"),
]


@pytest.mark.parametrize("security, words", SETTINGS, ids=[row[1] for row in SETTINGS])
def test_settings_that_do_not_fit_are_refused(tmp_path, security, words):
    config = write_config(tmp_path / "dataflow.ini", {"server": {"data_dir": tmp_path}, "security": security})
    result = run("check-config", "--config", config)
    assert result.returncode == 2 and words in result.stdout + result.stderr, result
