"""Answers while the database is in trouble: clients and strangers get fixed words, the reasons are in the log."""

import json

import pytest
from harness import ADMIN_KEY, Backend, Server, wait_for

import pg

TICKET = {"businessEntity": "TCK", "businessDocId": "T1", "companyCode": "1", "branchCode": "1", "destinationCode": "D",
          "phaseCode": 15, "shipmentEvent": "RCD", "targetApplicationCode": "ASB"}
CALLS = [
    ("GET", "/readyz", None), ("GET", "/whoami", None), ("GET", "/api/tickets?businessEntity=TCK&businessDocId=T1", None),
    ("POST", "/api/tickets", TICKET), ("POST", "/api/counterparties", {"businessDocId": "C1", "name": "x"}),
    ("GET", "/api/functional-ack?businessDocId=T1", None), ("GET", "/imports", None),
    ("GET", "/imports/0190a000-0000-7000-8000-000000000000", None),
    ("POST", "/imports", {"file": "W10="}), ("POST", "/events", {"eventType": "x", "payload": {}}),
    ("GET", "/clients/{id}/webhooks", None), ("POST", "/api/tickets/callback", {**TICKET, "status": "Success"}),
]
ADMIN_CALLS = [
    ("GET", "/admin/clients", None), ("POST", "/admin/clients", {"name": "x"}), ("GET", "/admin/audit", None),
    ("PATCH", "/admin/clients/{id}", {"status": "Active"}),
]
# The documented name of the kind of database, and what is there in every answer.
PLAIN = {"backend", "type", "correlationId"}


def words(value, key=None):
    """Every text of a document, except those with a fixed set of values."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from words(member, name)
    elif isinstance(value, list):
        for member in value:
            yield from words(member, key)
    elif isinstance(value, str) and key not in PLAIN:
        yield value


def answers(server, client):
    """What everybody gets while the database is away, and how many were refused."""
    for method, path, body in CALLS:
        for caller in (client, server.anonymous(), server.client("nobody", "wrong")):
            yield caller.request(method, path.replace("{id}", client.id), **({"json": body} if body else {}))
    for method, path, body in ADMIN_CALLS:
        yield server.admin().request(method, path.replace("{id}", client.id), **({"json": body} if body else {}))


def check_words(server, client, secret_words):
    seen = []
    for answer in answers(server, client):
        for text in words(json.loads(answer.body)):
            found = [word for word in secret_words if word in text.lower()]
            assert not found, (found, answer)
        seen.append(answer.status)
    assert {401} < set(seen) and seen.count(503) + seen.count(500) >= 10, seen


def reasons(server):
    return " ".join(line["message"] for line in server.log() if line["level"] in ("warn", "error"))


def test_a_database_file_that_is_away(make_sqlite_server):
    server = make_sqlite_server()
    client, file = server.new_client(scopes=["interface", "imports", "events", "callback"]), server.backend.file
    assert client.get("/whoami").status == 200
    file.rename(file.with_suffix(".away"))
    wait_for(lambda: server.anonymous().get("/readyz").status == 503, "the loss to be seen")
    check_words(server, client, ["/", "sqlite", "dataflow", ".db", "sql"])
    assert str(file) in reasons(server), "the log says which"
    told = server.anonymous().get("/readyz")
    assert told.json["detail"] == "The database is not available for now."
    to_admin = server.admin().get("/readyz")
    assert to_admin.status == 503 and str(file) in to_admin.json["detail"]
    assert server.admin("wrong").get("/readyz").json["detail"] == told.json["detail"]
    file.with_suffix(".away").rename(file)
    wait_for(lambda: server.admin().post("/admin/clients", {"name": "found"}).status == 201, "a client to be made")


def test_a_database_file_that_is_damaged(make_sqlite_server):
    server = make_sqlite_server(config={"auth": {"failures_per_minute": 1000}})
    client, file = server.new_client(scopes=["interface", "imports", "events", "callback"]), server.backend.file
    assert client.get("/whoami").status == 200
    assert server.stop() == 0  # and with that everything is in the file
    server.start()
    with open(file, "r+b") as f:
        f.seek(4096)
        f.write(b"\xff" * (file.stat().st_size - 4096))
    check_words(server, client, ["/", "sqlite", "malformed", ".db", "sql"])
    assert "damaged" in reasons(server)
    server.kill()


def test_a_postgres_that_is_down(tmp_path):
    postgres = pg.Postgres().start()
    server = None
    try:
        server = Server(Backend.on(postgres.url()), tmp_path).start()
        client = server.new_client(scopes=["interface", "imports", "events", "callback"])
        assert client.get("/whoami").status == 200
        postgres.stop()
        wait_for(lambda: server.anonymous().get("/readyz").status == 503, "the loss to be seen")
        check_words(server, client, ["/", "postgres", "127.0.0.1", str(postgres.port), "libpq", "connection to server", "refused"])
        assert str(postgres.port) in reasons(server)
        assert str(postgres.port) in server.admin().get("/readyz").json["detail"]
        postgres.start()
        wait_for(lambda: server.anonymous().get("/readyz").status == 200, "ready again")
        server.finish()
        server = None
    finally:
        if server:
            server.kill()
        postgres.close()


def test_a_schema_that_is_not_current(make_sqlite_server):
    server = make_sqlite_server(config={"database": {"migrate": "off"}}, start=False)
    assert server.cli("migrate").returncode == 0
    server.start()
    server.backend.script("DELETE FROM SchemaScripts WHERE Name LIKE '151%'")
    wait_for(lambda: server.anonymous().get("/readyz").status == 503, "the next look at the schema")
    told = server.anonymous().get("/readyz")
    assert told.status == 503 and told.json["detail"] == "The database's schema is not current."
    assert "dataflow migrate" in server.admin().get("/readyz").json["detail"]


@pytest.mark.parametrize("key", ["wrong", ADMIN_KEY[:-1]])
def test_readyz_is_no_way_around_the_limit_of_guesses(make_sqlite_server, key):
    server = make_sqlite_server(config={"auth": {"failures_per_minute": 4}})
    caller = server.admin(key)
    assert [caller.get("/readyz").status for _ in range(6)] == [200] * 6
    assert caller.get("/admin/clients").status == 429
