"""dataflow doctor: what it finds, how it says it, that it ends, and that it shows no secrets."""

import json
import socket
import subprocess
from urllib.parse import urlsplit

import pytest
import rabbit
from harness import ADMIN_KEY, MASTER_KEY, run
from test_imports_receive import storage  # noqa: F401 (a fixture)
from test_relay import Kafka

STRONG = "K" * 40


def examine(server, *sets, status=None):
    args = [word for one in sets for word in ("--set", one)]
    result = server.cli("doctor", "--json", *args)
    found = json.loads(result.stdout)
    assert result.returncode == (1 if found["problems"] else 0), result.stderr
    if status is not None:
        assert found["status"] == status, found
    assert found["problems"] == sum(c["status"] == "problem" for c in found["checks"])
    assert found["warnings"] == sum(c["status"] == "warning" for c in found["checks"])
    assert all((c["advice"] is None) == (c["status"] == "ok") for c in found["checks"]), "what to do, where something is to do"
    return {c["name"]: c for c in found["checks"]}


@pytest.fixture(scope="module")
def listening():
    """A peer that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as peer:
        yield f"127.0.0.1:{peer.getsockname()[1]}"


def test_a_sound_server_has_no_problem(make_server, backend_name, listening):
    server = make_server()
    server.config.chmod(0o600)
    found = examine(server, f"admin.key={STRONG}", f"security.master_key={MASTER_KEY}",
                    f"gateway.ticket_send_url=http://{listening}/send", "gateway.api_key=k", status="ok")
    assert {"database", "schema", "rights", "server.data_dir", "disk", "admin.key", "gateway.ticket_send_url"} <= set(found)
    assert ("clock" in found) == (backend_name != "sqlite")


def test_what_is_unwise_is_a_warning(server):
    server.config.chmod(0o644)
    found = examine(server, "admin.key=too-short-key")
    assert "chmod 600" in found["configuration"]["detail"] and found["configuration"]["status"] == "warning"
    assert {found[name]["status"] for name in ("admin.key", "security.master_key")} == {"warning"}
    assert found["database"]["status"] == "ok"


def test_for_people_it_is_a_line_a_finding_and_the_advice_below(server):
    result = server.cli("doctor", "--set", "omniflow.url=http://127.0.0.1:1", "--set", "omniflow.api_key=k")
    assert result.returncode == 1 and not result.stderr
    lines = result.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("problem  omniflow.url"))
    assert "→ check the URL" in lines[at + 1]
    assert lines[-1].startswith("1 problem, ")


def test_a_new_schema_and_a_missing_database(make_server, backend_name):
    server = make_server(start=False, empty=True)
    found = examine(server)
    if backend_name == "sqlite":
        assert found["database"]["status"] == "warning" and "does not exist yet" in found["database"]["detail"]
        assert not server.backend.file.exists(), "it looks and makes nothing"
    else:
        assert found["schema"]["status"] == "warning" and "migrate" in found["schema"]["advice"]
        assert examine(server, "database.migrate=off")["schema"]["status"] == "problem"


def test_clients_that_the_upgrade_widened_are_named(make_server):
    server = make_server()
    kept = server.new_client(scopes=["interface", "interface-all"])
    taken = server.new_client(scopes=["interface"])
    for client in (kept, taken):
        insert = ("INSERT INTO AuditLog (Actor, Action, Target, ClientId, DetailsJson, OccurredAt) "
                  f"SELECT 'upgrade', 'ClientScopesWidened', ClientIdentifier, Id, '{{}}', CreatedAt FROM Clients "
                  f"WHERE ClientIdentifier = '{client.id}'")
        server.backend.script(insert + ";")
    found = examine(server)["clients"]
    assert found["status"] == "warning" and kept.id in found["detail"] and taken.id not in found["detail"]
    assert "set-scopes" in found["advice"]


# --- without a database of their own -----------------------------------------------------------------


def doctor(tmp_path, *sets, timeout=60):
    args = [word for one in (f"server.data_dir={tmp_path / 'data'}", *sets) for word in ("--set", one)]
    result = run("doctor", "--json", *args, timeout=timeout)
    return {c["name"]: c for c in json.loads(result.stdout)["checks"]}, result


def certificate(directory, name, days):
    """A pair that is valid for so many days; none: it ended yesterday."""
    key, cert = directory / f"{name}.key", directory / f"{name}.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                    "-out", cert, "-subj", "/CN=localhost", "-days", str(days)], check=True, capture_output=True)
    return key, cert


def test_certificates(tmp_path):
    key, cert = certificate(tmp_path, "good", 90)
    soon_key, soon = certificate(tmp_path, "soon", 10)
    (tmp_path / "nothing.pem").write_text("no certificate")
    cases = [
        (cert, key, "ok", "expires in", "ok", "belongs"),
        (soon, soon_key, "warning", "expires in", "ok", "belongs"),
        (cert, soon_key, "ok", "expires in", "problem", "does not belong"),
        (tmp_path / "nothing.pem", key, "problem", "no certificate", None, None),
        (tmp_path / "missing.pem", key, "problem", "No such file", None, None),
        (cert, tmp_path / "nothing.pem", "ok", "expires in", "problem", "no key"),
    ]
    for of, by, cert_status, cert_text, key_status, key_text in cases:
        found, _ = doctor(tmp_path, f"server.tls_cert={of}", f"server.tls_key={by}")
        assert found["server.tls_cert"]["status"] == cert_status and cert_text in found["server.tls_cert"]["detail"], (of, by)
        if key_status:
            assert found["server.tls_key"]["status"] == key_status and key_text in found["server.tls_key"]["detail"], (of, by)
        else:
            assert "server.tls_key" not in found


def test_a_directory_that_cannot_be_written(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    result = run("doctor", "--json", "--set", f"server.data_dir={file}/data", "--set", f"database.url=sqlite:{tmp_path}/x.db")
    found = {c["name"]: c for c in json.loads(result.stdout)["checks"]}
    assert result.returncode == 1 and found["server.data_dir"]["status"] == "problem"


UNREACHABLE = [
    ("database.url=postgres://u:{secret}@127.0.0.1:1/db", "database"),
    ("gateway.ticket_return_url=http://127.0.0.1:1/x?key={secret}", "gateway.ticket_return_url"),
    ("integration.pay.base_url=https://127.0.0.1:1/v1/{secret}", "integration.pay"),
    ("relay.r.target=amqp://guest:{secret}@127.0.0.1:1/", "relay.r.target"),
    ("relay.k.target=kafka://127.0.0.1:1/topic", "relay.k.target"),
    ("relay.h.target=http://127.0.0.1:1/{secret}", "relay.h"),
    ("alerts.teams_url=http://127.0.0.1:1/{secret}", "alerts.teams_url"),
]


def test_what_cannot_be_reached_is_a_problem_and_no_secret_is_shown(tmp_path):
    secret = "s3cr3t-4711-password"
    sets = [text.format(secret=secret) for text, _ in UNREACHABLE]
    found, result = doctor(tmp_path, *sets, "relay.r.dispatcher=rabbitmq", "relay.k.dispatcher=kafka", "relay.h.dispatcher=http",
                           f"gateway.api_key={secret}", f"admin.key={ADMIN_KEY}")
    assert result.returncode == 1
    assert {name: found[name]["status"] for _, name in UNREACHABLE} == {name: "problem" for _, name in UNREACHABLE}
    assert secret not in result.stdout + result.stderr and ADMIN_KEY not in result.stdout + result.stderr


def test_it_ends_whatever_hangs(tmp_path):
    """Databases, brokers and TLS peers that take the connection and never answer. Its own limit is ten seconds; the test's
    is wide, for a loaded machine, and without the limit the command would not end at all."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        at = f"127.0.0.1:{silent.getsockname()[1]}"
        found, result = doctor(tmp_path, f"database.url=postgres://u:p@{at}/db", f"omniflow.url=https://{at}/", "omniflow.api_key=k",
                               "relay.r.dispatcher=rabbitmq", f"relay.r.target=amqp://guest:guest@{at}/", timeout=60)
        assert result.returncode == 1
        assert found["omniflow.url"]["status"] == "problem" and found["relay.r.target"]["status"] == "problem"
        assert found["database"]["status"] == "problem"
        # The source is the same database: either its own limit or the command's came first.
        assert (found.get("relay.r.url") or found["relays"])["status"] == "problem"


def test_the_bucket(tmp_path, storage):
    s3 = [f"s3.endpoint={storage.url}", "s3.access_key=test:tester", "s3.path_style=on",
          "imports.scheduled_storage=s3://bucket/waiting"]
    before = storage.objects()
    found, _ = doctor(tmp_path, *s3, "s3.secret_key=testing")
    assert found["imports.scheduled_storage"]["status"] == "ok" and storage.objects() == before
    found, result = doctor(tmp_path, *s3, "s3.secret_key=wrong-secret-0815")
    assert found["imports.scheduled_storage"]["status"] == "problem" and "wrong-secret-0815" not in result.stdout
    # All uploads there: it must be listed, too.
    s3 = [*s3[:3], "s3.secret_key=testing", "imports.storage=s3", "imports.bucket=s3://bucket/uploads"]
    found, _ = doctor(tmp_path, *s3)
    assert found["imports.storage"]["status"] == "ok" and "listed" in found["imports.storage"]["detail"]
    storage.fail(status=403, count=1, method="GET", match="?max-uploads=")
    found, _ = doctor(tmp_path, *s3)
    assert found["imports.storage"]["status"] == "problem" and "ListBucketMultipartUploads" in found["imports.storage"]["advice"]
    assert storage.objects() == before
    assert not list((tmp_path / "data" / "imports").iterdir()), "nothing is left behind"


def test_brokers(tmp_path):
    broker, kafka = rabbit.Rabbit().start(), Kafka()
    try:
        sets = ["relay.r.dispatcher=rabbitmq", "relay.k.dispatcher=kafka", f"relay.k.target=kafka://{kafka.servers}/topic"]
        found, _ = doctor(tmp_path, *sets, f"relay.r.target={broker.url()}")
        assert (found["relay.r.target"]["status"], found["relay.k.target"]["status"]) == ("ok", "ok"), found
        parts = urlsplit(broker.url())
        wrong = parts._replace(netloc=f"guest:wrong-4711@{parts.hostname}:{parts.port}").geturl()
        found, result = doctor(tmp_path, *sets, f"relay.r.target={wrong}")
        assert found["relay.r.target"]["status"] == "problem" and "wrong-4711" not in result.stdout
    finally:
        kafka.close()
        broker.close()


@pytest.mark.parametrize("args", [("extra",), ("--what",), ("--set", "no.such=1"), ("--config", "/no/such/file")])
def test_wrong_usage_and_configuration_are_2(args):
    result = run("doctor", *args)
    assert result.returncode == 2 and result.stderr and not result.stdout
