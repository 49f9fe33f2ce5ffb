"""tools/rights.py: the rights on tables, from the queries, in the pages; and that they are enough and needed."""

import re
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
import rights
from harness import ROOT, postgres_execute, wait_for
from test_imports_receive import upload
from test_interface_counterparties import flat as counterparty
from test_interface_tickets import flat as ticket
from test_webhooks_api import PUBLIC

SECRET = "rights-test-4711"


@pytest.mark.tools
@pytest.mark.parametrize("page", rights.PAGES)
def test_the_page_lists_what_the_queries_need(page):
    is_, should = rights.pages()[page]
    assert is_ == should, "run `make docs`"


@pytest.mark.tools
def test_every_table_of_the_scripts_is_there():
    made = set()
    for path in (ROOT / "scripts" / "sqlserver").glob("*.sql"):
        made |= set(re.findall(r"^CREATE TABLE (\w+)", path.read_text(encoding="utf-8"), re.M))
    needed = rights.needed()
    assert made == set(needed) and all(verbs[0] == "SELECT" for verbs in needed.values())
    assert needed["AuditLog"] == ["SELECT", "INSERT", "UPDATE", "DELETE"], "sealing and retention; triggers refuse the rest"


@pytest.mark.tools
def test_a_page_without_marks_is_refused():
    with pytest.raises(SystemExit):
        rights.replaced("no marks", [])
    wrong = subprocess.run([sys.executable, ROOT / "tools" / "rights.py", "--what"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "usage" in wrong.stderr


@pytest.fixture
def limited(make_server, backend_name):
    """A server whose user has exactly the rights that docs/operations.md lists."""
    if backend_name != "postgres":
        pytest.skip("the list is PostgreSQL's")
    owner = make_server(start=False, empty=True)
    assert owner.cli("migrate").returncode == 0
    role = owner.backend.database + "_app"
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    listed = re.search(r"<!-- rights: begin.*?```sql\n(.*?)```", page, re.S)[1].replace(" TO dataflow;", f" TO {role};")
    owner.backend.script(f"CREATE ROLE {role} LOGIN PASSWORD '{SECRET}'; GRANT USAGE ON SCHEMA public TO {role};\n{listed}")
    parts = urlsplit(owner.backend.url)
    url = parts._replace(netloc=f"{role}:{SECRET}@{parts.hostname}:{parts.port}").geturl()
    server = make_server(backend=owner.backend, start=False, config={
        "database": {"url": url, "migrate": "off"}, "alerts": {"interval_seconds": 1},
        "gateway": {"functional_ack_url": "http://127.0.0.1:1/ack", "ticket_return_url": "http://127.0.0.1:1/return",
                    "ticket_send_url": "http://127.0.0.1:1/send", "api_key": "k"},
        "omniflow": {"url": "http://127.0.0.1:1", "api_key": "k"}})
    server.role = role
    yield server
    server.finish()
    owner.backend.script(f"DROP OWNED BY {role}; DROP ROLE {role};")


def one(server, sql):
    return postgres_execute(sql, server.backend.url)[0][0]


def test_a_user_with_the_documented_rights_is_enough(limited):
    """The main calls, and what the server does by itself: processing, deliveries that fail, rules of alerts."""
    limited.start()
    admin, client = limited.admin(), limited.new_client()
    assert admin.patch(f"/admin/clients/{client.id}/policy", {"requestsPerMinute": 600, "maxRecords": 100}).status == 200
    for _ in range(2):  # made, then changed
        assert client.post("/api/tickets", ticket("RIGHTS_1")).status in (200, 201)
        assert client.post("/api/counterparties", counterparty("RIGHTS_2")).status in (200, 201)
    assert client.post("/events", {"eventType": "Made", "payload": {"a": 1}}).status == 202
    assert client.post(f"/clients/{client.id}/webhooks", {"url": PUBLIC, "events": ["BatchCompleted"]}).status == 201
    batch = upload(client)
    assert batch.status == 202
    wait_for(lambda: client.get(f"/imports/{batch.json['batchId']}").json["status"] != "Pending", "the batch to be taken")
    wait_for(lambda: one(limited, "SELECT count(*) FROM AlertEvaluation WHERE EvaluatedAt IS NOT NULL") == 1, "the rules")
    wait_for(lambda: one(limited, "SELECT count(*) FROM DeliveryAttempts") > 0, "an attempt to deliver")
    wait_for(lambda: one(limited, "SELECT count(*) FROM TB_TICKET_INTERFACE WHERE Status = 'Processed'") == 1, "the ticket")
    wait_for(lambda: one(limited, "SELECT count(*) FROM ClientUsage") > 0, "the limit to be shared")
    for path in ("/admin/outbox", "/admin/audit", "/admin/clients", "/admin/alerts"):
        assert admin.get(path).status == 200, path
    assert admin.request("DELETE", f"/admin/clients/{client.id}/policy").status == 204
    assert "permission denied" not in limited.log_text()
    assert "the user may do what the server does" in limited.cli("doctor").stdout


def test_the_doctor_names_what_is_missing(limited):
    limited.backend.script(f"REVOKE UPDATE ON Clients FROM {limited.role}; REVOKE DELETE ON Alerts FROM {limited.role};")
    found = limited.cli("doctor")
    assert found.returncode == 1
    assert f"GRANT DELETE ON Alerts TO {limited.role}; GRANT UPDATE ON Clients TO {limited.role};" in found.stdout
    assert SECRET not in found.stdout + found.stderr
