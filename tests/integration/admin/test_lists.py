"""Long lists by cursors, in both orders; failures by cause; exports; why rows wait; what needs a person."""

import base64
import csv
import datetime
import io
import json
import uuid
from urllib.parse import quote, urlencode

import pytest
from harness import Server, wait_for
from test_interface_tickets import flat
from test_openapi import DOCUMENT, check
from test_outbox import TARGET, Box, at

SCHEMAS = DOCUMENT["components"]["schemas"]
PHONE = "+5511987654321"
READER, OPERATOR = "k-reader-" + "r" * 24, "k-operator-" + "o" * 24
CONFIG = {"server": {"roles": "api"}, "imports": {"maintenance_windows": "Sun 02:00-04:00"},
          "admin.reader": {"key": READER, "role": "read"}, "admin.operator": {"key": OPERATOR, "role": "operate"}}


@pytest.fixture(scope="module")
def server(_module_backends, tmp_path_factory):
    """Takes documents and lets them lie."""
    made = Server(_module_backends(), tmp_path_factory.mktemp("server"), config=CONFIG)
    yield made.start()
    made.finish()


class Tables(Box):
    def ticket(self, reference, **more):
        return super().ticket(reference, **{"RawPayloadJson": "{}", **more})


@pytest.fixture
def box(server):
    return Tables(server.backend)


@pytest.fixture(scope="module")
def client(server):
    made = server.new_client("Lists", clientId=f"lists-{uuid.uuid4().hex[:6]}")
    return made


def get(server, path, caller=None, **query):
    answer = (caller or server.admin()).get(path + ("?" + urlencode(query) if query else ""))
    assert answer.status == 200, answer
    return answer.json


def walk(server, path, key, size, caller=None, **query):
    """All items of a list, page by page behind its cursors."""
    found, after, pages = [], None, 0
    while True:
        page = get(server, path, caller, pageSize=size, **query, **({"after": after} if after else {}))
        assert len(page["items"]) <= size and "totalIsEstimate" not in page
        found += [item[key] for item in page["items"]]
        pages += 1
        assert pages < 1000
        after = page.get("next")
        if not after:
            return found, page["total"], pages


def fill(server, client, box):
    """Five rows of every list; what each list is called, the member that tells rows apart, who asks."""
    backend = server.backend
    ids = [str(uuid.uuid4()) for _ in range(5)]
    client_id, = backend.query(f"SELECT Id FROM Clients WHERE ClientIdentifier = '{client.id}'")[0]
    hook = client.post(f"/clients/{client.id}/webhooks", {"url": "https://93.184.216.34/"}).json["id"]
    for table in ("WebhookDeliveryFailures", "WebhookDeliveries", "ImportBatch", "Alerts", "TB_COUNTERPARTIES"):
        box.write(f"DELETE FROM {table}")
    for n, row in enumerate(ids):
        # Two of a time each, so that the id decides.
        time = at(n // 2)
        box.ticket(f"T{n}", Status="Error", LastError="broken", CreatedAt=time, ClientId=str(client_id),
                   NextAttemptAt=None, RawPayloadJson="{}")
        box.add("functional-ack", "Error", f"A{n}", created=time, error="HTTP 400: no")
        box.insert("ImportBatch", {"Id": row, "ClientId": str(client_id), "FileName": f"f{n}.csv", "FileType": 2,
                                   "Status": 3, "CreatedAt": time})
        box.insert("Alerts", {"Id": row, "RuleName": "Test", "Subject": f"s{n}", "DedupKey": f"k{n}", "Severity": "info",
                              "Summary": "x", "DetailsJson": "{}", "Status": "resolved", "FiredAt": time, "ResolvedAt": time})
        box.insert("WebhookDeliveries", {
            "Id": row, "SubscriptionId": hook, "EventId": row, "Event": "BatchCompleted", "Reference": f"r{n}",
            "PayloadJson": json.dumps({"n": n}), "Status": "Error", "CreatedAt": time,
            "NextAttemptAt": None, "LastError": "HTTP 500: no"})
        box.insert("WebhookDeliveryFailures", {
            "SubscriptionId": hook, "DeliveryId": row, "EventId": row, "Event": "BatchCompleted", "PayloadJson": "{}",
            "Attempts": 3, "FirstAttemptAt": time, "LastAttemptAt": time, "CreatedAt": time})
        box.insert("TB_COUNTERPARTIES", {"BusinessDocId": f"C{n}", "BusinessAppId": "ASB", "BusinessEntity": "PRC",
                                         "OriginalBusinessDocId": f"C{n}", "CounterpartyId": f"c{n}", "EntityType": "CLI",
                                         "Name": "x", "ClientId": str(client_id), "RawPayload": "{}"})
    return hook


LISTS = [
    ("/imports", "batchId", "client"), ("/admin/imports", "batchId", "admin"),
    ("/api/tickets?status=Error", "businessDocId", "client"), ("/admin/tickets", "businessDocId", "admin"),
    ("/admin/tickets?status=Error", "businessDocId", "admin"), ("/admin/tickets?clientId=CLIENT", "businessDocId", "admin"),
    ("/api/counterparties", "businessDocId", "client"), ("/admin/outbox/functional-ack", "id", "admin"),
    ("/admin/outbox/functional-ack?status=Error", "id", "admin"), ("/admin/outbox/functional-ack?status=GivenUp", "id", "admin"),
    ("/admin/outbox/webhooks", "id", "admin"), ("/admin/outbox/webhooks?status=Error", "id", "admin"),
    ("/admin/alerts", "id", "admin"), ("/admin/webhook-failures", "id", "admin"),
    ("/clients/CLIENT/webhooks/HOOK/deliveries", "id", "client"), ("/admin/imports?clientId=CLIENT", "batchId", "admin"),
    ("/admin/imports?status=Completed", "batchId", "admin"),
]


@pytest.mark.parametrize("path, key, who", LISTS, ids=[path for path, _, _ in LISTS])
def test_a_list_is_read_behind_its_cursors_in_both_orders(server, client, box, path, key, who):
    hook = fill(server, client, box)
    path = path.replace("CLIENT", client.id).replace("HOOK", hook)
    path, _, query = path.partition("?")
    query = dict(part.split("=") for part in query.split("&")) if query else {}
    caller = client if who == "client" else server.admin()
    whole = [item[key] for item in get(server, path, caller, **query)["items"]]
    assert len(whole) == len(set(whole)) == 5
    newest, total, pages = walk(server, path, key, 2, caller, **query)
    assert (newest, total, pages) == (whole, 5, 3)
    oldest, _, _ = walk(server, path, key, 2, caller, order="oldest", **query)
    assert oldest == whole[::-1]
    # Pages by number go on working, and have a cursor too.
    second = get(server, path, caller, page=2, pageSize=2, **query)
    assert [item[key] for item in second["items"]] == whole[2:4]
    assert [item[key] for item in get(server, path, caller, after=second["next"], pageSize=2, **query)["items"]] == whole[4:]


def test_clients_and_audit_are_read_behind_cursors(server, client):
    for n in range(3):
        server.new_client(f"More {n}")
    whole = [c["clientId"] for c in get(server, "/admin/clients", pageSize=200)["items"]]
    assert walk(server, "/admin/clients", "clientId", 2)[0] == whole
    assert walk(server, "/admin/clients", "clientId", 2, order="oldest")[0] == whole[::-1]
    entries = [e["id"] for e in get(server, "/admin/audit", action="ClientCreated", pageSize=200)["items"]]
    found, after = [], None
    while True:
        page = get(server, "/admin/audit", action="ClientCreated", order="oldest", pageSize=2,
                   **({"after": after} if after else {}))
        found += [e["id"] for e in page["items"]]
        if not (after := page.get("next")):
            break
    assert found == entries[::-1]


def test_rows_written_meanwhile_neither_repeat_nor_shift_a_page(server, box):
    ids = [box.add("functional-ack", "Sent", f"d{n}") for n in range(4)]
    first = get(server, "/admin/outbox/functional-ack", pageSize=2)
    box.add("functional-ack", "Sent", "newer")
    rest = get(server, "/admin/outbox/functional-ack", pageSize=2, after=first["next"])
    assert [r["id"] for r in first["items"] + rest["items"]] == ids[::-1]


FOREIGN = {"sqlite": "2026-01-02 03:04:05", "postgres": "2026-01-02 03:04:05.678+00", "sqlserver": "2026-01-02T03:04:05.6785432"}


@pytest.mark.parametrize("path, key", (("/admin/outbox/functional-ack", "id"), ("/admin/tickets", "businessDocId")))
def test_times_that_another_program_wrote_neither_repeat_nor_hide_rows(server, box, path, key):
    """SQL Server has more digits than milliseconds, and SQLite whatever form was written."""
    time = FOREIGN[server.backend.name]
    for n in range(4):
        box.ticket(f"F{n}", CreatedAt=time)
        box.add("functional-ack", "Sent", f"F{n}", created=time)
    whole = [item[key] for item in get(server, path)["items"]]
    assert len(whole) == 4
    assert walk(server, path, key, 1)[0] == whole
    assert walk(server, path, key, 1, order="oldest")[0] == whole[::-1]


def cursor(text):
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


BAD_CURSORS = ["x", "!", "a" * 161, "%00", cursor("tickets:n:5"), cursor("tickets:x:1:2026-01-02"), cursor("tickets:n:1:5"),
               cursor("tickets:n:x:2026-01-02"), cursor("tickets:n:01:2026-01-02"), cursor("tickets:n:1:2026-01-02:1"),
               cursor("imports:n:1:2026-01-02"), cursor("tickets:n:1:1969-12-31"), cursor("tickets:n:1:10000-01-01"),
               cursor("tickets:n:99999999999999999999:2026-01-02"), cursor("tickets:n:1:2026-01-02") + "=",
               cursor(f"tickets:n:{uuid.uuid4()}:2026-01-02"), cursor("tickets:n:1:2026-01-02'--"), cursor("x" * 110)]


@pytest.mark.parametrize("after", BAD_CURSORS)
def test_a_cursor_that_is_none_is_refused(server, after):
    answer = server.admin().get(f"/admin/tickets?after={quote(after)}")
    assert answer.status == 400 and answer.bad_fields == {"after"}, answer


def test_what_does_not_go_with_a_cursor_is_refused(server):
    good = cursor("tickets:n:1:2026-01-02")
    assert server.admin().get(f"/admin/tickets?after={good}").status == 200
    for query, fields in ((f"after={good}&page=2", {"page"}), (f"after={good}&order=oldest", {"order"}), ("order=x", {"order"}),
                          ("pageSize=201", {"pageSize"}), ("page=0", {"page"})):
        answer = server.admin().get(f"/admin/tickets?{query}")
        assert answer.status == 400 and answer.bad_fields == fields, answer
    # Of another list, or of another channel.
    for path in ("/admin/imports", "/admin/outbox/functional-ack", "/admin/alerts", "/admin/clients", "/admin/audit"):
        answer = server.admin().get(f"{path}?after={good}")
        assert answer.status == 400 and answer.bad_fields == {"after"}, answer


def test_a_total_beyond_ten_thousand_is_an_estimate(server, box):
    values = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
    stamp = "strftime('%Y-%m-%dT%H:%M:%fZ', '2026-01-01', '+' || i || ' seconds')" if server.backend.name == "sqlite" else \
        "CAST('2026-01-01T00:00:00Z' AS timestamptz) + i * interval '1 second'"
    box.write(f"{values if server.backend.name == 'sqlite' else ''} INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX"
              f" (BusinessDocId, TargetUrl, PayloadJson, Status, CreatedAt) {'' if server.backend.name == 'sqlite' else values}"
              f" SELECT 'd' || i, '{TARGET}', '{{}}', 'Sent', {stamp} FROM n")
    page = get(server, "/admin/outbox/functional-ack", pageSize=1)
    assert page["totalIsEstimate"] is True and 18000 <= page["total"] <= 22000
    exact = get(server, "/admin/outbox/functional-ack", pageSize=1, since="2026-01-01T03:00:00Z")
    assert exact["total"] == 20000 - 3 * 3600 + 1 and "totalIsEstimate" not in exact


# --- causes ---


def test_failures_are_grouped_by_cause_and_found_by_it(server, box):
    for n in range(3):
        box.add("functional-ack", "Error", f"d{n}", created=at(n), tried=at(n + 10), due=at(50),
                error=f"HTTP 400: order {n}17 of CP_00{n}1234 is unknown")
    box.add("functional-ack", "Error", "x", tried=at(20), error="HTTP 500: oops")
    box.add("functional-ack", "Sent", "y", sent=at(21))
    causes = get(server, "/admin/outbox/functional-ack/causes")
    check(causes, SCHEMAS["CauseList"], "CauseList")
    assert (causes["total"], causes["causes"]) == (4, 2)
    first, second = causes["items"]
    assert first["cause"] == "HTTP 400: order {n} of {id} is unknown" and second["cause"] == "HTTP 500: oops"
    assert (first["count"], first["first"], first["last"], first["retried"]) == (3, at(10), at(12), True)
    assert (second["count"], second["retried"]) == (1, False)
    same = get(server, "/admin/outbox/functional-ack", error=first["cause"])
    assert {r["reference"] for r in same["items"]} == {"d0", "d1", "d2"} and all(r["willRetry"] for r in same["items"])
    assert get(server, "/admin/outbox/functional-ack/causes", error="oops")["total"] == 1
    assert server.admin().get("/admin/outbox/none/causes").status == 404
    assert server.admin().get("/admin/outbox/functional-ack/causes?status=x").bad_fields == {"status"}


def test_tickets_that_failed_are_grouped_by_cause(server, box):
    for n in range(3):
        box.ticket(f"T{n}", Status="Error", LastError=f"net must be {n} kg", NextAttemptAt=at(50) if n else None)
    causes = get(server, "/admin/tickets/causes")
    check(causes, SCHEMAS["CauseList"], "CauseList")
    cause, = causes["items"]
    assert (cause["cause"], cause["count"], cause["retried"]) == ("net must be {n} kg", 3, True)
    assert get(server, "/admin/tickets", error="net must be {n} kg")["total"] == 3
    assert get(server, "/admin/tickets", error="net must be 2 kg")["total"] == 1
    assert server.admin().get("/admin/tickets?error=" + "x" * 201).bad_fields == {"error"}
    assert {t["businessDocId"]: t["willRetry"] for t in get(server, "/admin/tickets")["items"]} == \
        {"T0": False, "T1": True, "T2": True}


# --- exports ---


def rows_of(answer):
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/csv"), answer
    assert "attachment" in answer.headers["Content-Disposition"]
    return list(csv.DictReader(io.StringIO(answer.body.decode())))


def test_an_export_has_the_rows_of_the_list_guards_formulas_and_is_audited(server, client, box):
    fill(server, client, box)
    box.add("functional-ack", "Error", '=cmd|"x"', created=at(30), error="-1+1\nline")
    admin = server.admin()
    rows = rows_of(admin.get("/admin/outbox/functional-ack.csv?status=Error"))
    assert [r["id"] for r in rows] == [r["id"] for r in get(server, "/admin/outbox/functional-ack", status="Error")["items"]]
    assert rows[0]["reference"] == '\'=cmd|"x"' and rows[0]["lastError"] == "'-1+1\nline" and rows[0]["givenUp"] == "true"
    assert len(rows_of(admin.get("/admin/tickets.csv?status=Error"))) == 5
    assert {r["clientId"] for r in rows_of(admin.get(f"/admin/imports.csv?clientId={client.id}"))} == {client.id}
    # In parts, which together are the whole.
    part = admin.get("/admin/tickets.csv?limit=2&order=oldest")
    rest = admin.get(f"/admin/tickets.csv?after={part.headers['X-Next-After']}")
    assert [r["businessDocId"] for r in rows_of(part) + rows_of(rest)] == [f"T{n}" for n in range(5)]
    assert "X-Next-After" not in rest.headers
    targets = [e["target"] for e in get(server, "/admin/audit", action="ListExported")["items"]]
    assert {"functional-ack", "tickets", "imports"} <= set(targets)


@pytest.mark.parametrize("path", ["/admin/tickets.csv", "/admin/imports.csv", "/admin/outbox/functional-ack.csv"])
@pytest.mark.parametrize("query, field", [("limit=0", "limit"), ("limit=100001", "limit"), ("after=x", "after"), ("order=x", "order"),
                                          ("status=x", "status")])
def test_an_export_refuses_what_the_list_refuses(server, path, query, field):
    answer = server.admin().get(f"{path}?{query}")
    assert answer.status == 400 and answer.bad_fields == {field}, answer


def test_there_is_no_export_of_an_unknown_channel(server):
    assert server.admin().get("/admin/outbox/none.csv").status == 404
    assert server.anonymous().get("/admin/tickets.csv").status == 401


# --- one row ---


def test_a_payload_is_masked_until_an_operator_reveals_it(server, box):
    payload = json.dumps({"phone": PHONE, "kept": "yes"})
    row = box.add("functional-ack", "Sent", "doc", payload)
    ticket = box.ticket("T", RawPayloadJson=payload, CallbackPayloadJson=payload, CallbackStatus="Success")
    for path, target in ((f"/admin/outbox/functional-ack/{row}", f"functional-ack/{row}"), (f"/admin/tickets/{ticket}", f"tickets/{ticket}")):
        masked = get(server, path)
        assert masked["payloadMasked"] is True and PHONE not in json.dumps(masked) and "yes" in masked["payload"]
        reader, operator = server.admin(READER), server.admin(OPERATOR)
        assert reader.get(path + "?reveal=true").code == "RoleMissing"
        assert reader.get(path + "?reveal=maybe").bad_fields == {"reveal"}
        shown = operator.get(path + "?reveal=true").json
        assert shown["payload"] == payload and shown["payloadMasked"] is False
        entry = get(server, "/admin/audit", action="PayloadRevealed", target=target)["items"][0]
        assert entry["actor"] == "admin:operator"
    check(get(server, f"/admin/outbox/functional-ack/{row}"), SCHEMAS["OutboxRowWhole"], "OutboxRowWhole")
    check(get(server, f"/admin/tickets/{ticket}"), SCHEMAS["AdminTicketWhole"], "AdminTicketWhole")
    assert server.admin(OPERATOR).get("/admin/outbox/functional-ack/999999?reveal=true").status == 404


def test_a_row_says_what_it_waits_for(server, box):
    now = datetime.datetime.now(datetime.timezone.utc)
    later = (now + datetime.timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    waits = box.add("functional-ack", "Error", due=later, tried=at(5), error="HTTP 503", FirstFailedAt=at(4))
    path = f"/admin/outbox/functional-ack/{waits}"
    # The channel has no URL in this server.
    assert get(server, path)["waitingFor"]["code"] == "NotConfigured"
    done = box.add("functional-ack", "Error", due=None, error="HTTP 400")
    assert get(server, f"/admin/outbox/functional-ack/{done}")["waitingFor"] is None
    ticket = box.ticket("T", Status="Error", NextAttemptAt=later, FirstFailedAt=at(3))
    assert get(server, f"/admin/tickets/{ticket}")["waitingFor"]["code"] == "Backoff"
    fresh = box.ticket("U", Status="Awaiting", NextAttemptAt=at(3))
    assert get(server, f"/admin/tickets/{fresh}")["waitingFor"]["code"] == "Behind"


PT = {"Accept-Language": "pt-BR"}
GATEWAY = {"functional_ack_url": "http://127.0.0.1:9/ack", "ticket_return_url": "http://127.0.0.1:9/return", "api_key": "k"}


def test_a_row_whose_target_is_away_or_paused_says_so_and_needs_attention(make_server):
    server = make_server(config={"server": {"roles": "api"}, "gateway": GATEWAY})
    box = Tables(server.backend)
    row = box.add("ticket-return", "Error", due=at(9), tried=at(5), error="connect", TargetUrl=GATEWAY["ticket_return_url"])
    box.insert("DeliveryTargets", {"Channel": "ticket-return", "Target": GATEWAY["ticket_return_url"], "DownSince": at(2),
                                   "LastError": "connection refused to port 9"})
    path = f"/admin/outbox/ticket-return/{row}"
    away = get(server, path)["waitingFor"]
    assert away["code"] == "TargetAway" and away["since"] == at(2)
    assert away["detail"].startswith(f"{GATEWAY['ticket_return_url']} is unreachable since ")
    # This process sends nothing, and so does not know when the target is probed.
    assert away["detail"].endswith(" UTC: connection refused to port {n}") and "probe" not in away["detail"]
    answer = server.admin().get(path, headers=PT)
    assert answer.headers["Content-Language"] == "pt-BR" and answer.json["waitingFor"]["code"] == "TargetAway"
    assert answer.json["waitingFor"]["detail"].startswith(f"{GATEWAY['ticket_return_url']} está inacessível desde ")
    item, = get(server, "/admin/attention")["items"]
    assert (item["kind"], item["channel"], item["since"], item["actions"]) == ("Breaker", "ticket-return", at(2), ["reset"])
    assert server.admin().post("/admin/outbox/ticket-return/pause").status == 200
    assert get(server, path)["waitingFor"]["code"] == "Paused"
    assert get(server, "/admin/attention")["items"][0]["kind"] == "Breaker"  # as it was a moment ago
    assert "pausado por admin desde " in server.admin().get(path, headers=PT).json["waitingFor"]["detail"]


def test_a_row_that_waits_for_its_target_shows_no_due_time_where_the_probe_is_not_known(make_server):
    """A process that does not send knows only the backstop, which says nothing of when the row is sent."""
    server = make_server(config={"server": {"roles": "api"}, "gateway": GATEWAY})
    box, target = Tables(server.backend), GATEWAY["ticket_return_url"]
    box.insert("DeliveryTargets", {"Channel": "ticket-return", "Target": target, "DownSince": at(2)})
    held_for = int(box.last("DeliveryTargets"))
    row = box.add("ticket-return", "Error", "T", due=at(9), tried=at(5), TargetUrl=target, HeldFor=held_for, HeldAt=at(5))
    whole = get(server, f"/admin/outbox/ticket-return/{row}")
    listed, = get(server, "/admin/outbox/ticket-return")["items"]
    for shown in (whole, listed):
        assert (shown["heldFor"], shown["nextAttemptAt"], shown["willRetry"], shown["givenUp"]) == (target, None, True, False)
    assert (whole["waitingFor"]["code"], whole["waitingFor"]["next"]) == ("TargetAway", None)
    wait, = get(server, f"/admin/timeline/return/{row}")["waits"]
    assert (wait["reason"], wait["target"], wait["nextAttemptAt"]) == ("target", target, None)
    # To clients of tickets no time means never again: the latest time stays.
    box.ticket("T", Status="Processed", ReturnStatus="Error", NextAttemptAt=None)
    ticket, = get(server, "/admin/tickets")["items"]
    assert ticket["returnNextAttemptAt"] == at(9)


# --- attention ---


def test_attention_names_what_needs_a_person_the_worst_first(make_server):
    server = make_server(config={"server": {"roles": "api"}})
    assert get(server, "/admin/attention") == {"items": [], "status": "ok",
                                               "checkedAt": get(server, "/admin/attention")["checkedAt"]}
    box = Tables(server.backend)
    for n in range(3):
        box.add("functional-ack", "Error", f"d{n}", tried=at(n), error=f"HTTP 400: {n}")
    box.ticket("T", Status="Error", FirstFailedAt=at(8), LastError="x", NextAttemptAt=None)
    minute = datetime.datetime.now(datetime.timezone.utc).replace(second=0, microsecond=0)
    box.insert("SeriesPoints", {"Grain": 60, "PointAt": minute.strftime("%Y-%m-%dT%H:%M:%S.000Z"), "ClientId": "",
                                "Channel": "webhooks", "Waiting": 7, "OldestSeconds": 700})
    alert = str(uuid.uuid4())
    box.insert("Alerts", {"Id": alert, "RuleName": "BatchStuck", "Subject": "b", "DedupKey": "BatchStuck:b", "Severity": "critical",
                          "Summary": "Batch b of acme has made no progress for 20 minutes", "DetailsJson": '{"clientId":"acme"}', "FiredAt": at(1)})
    wait_for(lambda: get(server, "/admin/attention")["status"] == "critical", "the cache's end")
    shown = get(server, "/admin/attention")
    check(shown, SCHEMAS["Attention"], "Attention")
    kinds = {item["kind"]: item for item in shown["items"]}
    assert set(kinds) == {"GivenUp", "Tickets", "Oldest", "StuckBatch"}
    assert [i["severity"] for i in shown["items"]] == ["critical"] * 3 + ["warning"]
    given_up = kinds["GivenUp"]
    assert (given_up["count"], given_up["channel"], given_up["target"], given_up["cause"], given_up["link"]) == \
        (3, "functional-ack", TARGET, "HTTP 400: {n}", "#outbox/functional-ack?status=GivenUp")
    assert given_up["actions"] == ["retry", "dismiss"]
    assert (kinds["StuckBatch"]["clientId"], kinds["StuckBatch"]["id"], kinds["StuckBatch"]["link"]) == ("acme", alert, "#imports/b")
    assert (kinds["Oldest"]["count"], kinds["Oldest"]["channel"]) == (7, "webhooks")
    # What waits has not failed: a retry of all would send again what was given up.
    assert kinds["Oldest"]["actions"] == []
    answer = server.admin().get("/admin/attention", headers=PT)
    assert answer.headers["Content-Language"] == "pt-BR"
    told = {item["kind"]: item for item in answer.json["items"]}
    assert told["GivenUp"]["title"] == "3 documentos de functional-ack foram abandonados"
    assert told["Oldest"]["title"] == "7 documentos de webhooks esperam, o mais antigo há 11 minutos"
    assert told["StuckBatch"]["title"] == "O lote b de acme não avança há 20 minutos"
    # At once again in English, though the answer is kept for two seconds.
    assert get(server, "/admin/attention")["items"][0]["title"] in {i["title"] for i in shown["items"]}
    for kind, item in told.items():
        assert {**item, "title": None} == {**kinds[kind], "title": None}, "codes, causes of peers and links stay"
    # Somebody looks after it.
    assert server.admin().post(f"/admin/alerts/{alert}/acknowledge").status == 200
    wait_for(lambda: "StuckBatch" not in {i["kind"] for i in get(server, "/admin/attention")["items"]}, "the acknowledgement")
    assert server.anonymous().get("/admin/attention").status == 401


def test_the_cause_of_an_open_breaker_is_told_in_both_languages(make_server):
    """No target tells of the breaker of an integration. Nobody listens at its port."""
    server = make_server(config={"integration.erp": {"base_url": "http://127.0.0.1:9", "window": 5, "min_calls": 5}})
    client = server.new_client(scopes=["integrations"])
    for _ in range(5):
        client.get("/integrations/erp/x")

    def told(headers):
        items = server.admin().get("/admin/attention", headers=headers).json["items"]
        return next((i for i in items if i["kind"] == "Breaker"), None)

    english = wait_for(lambda: told({}), "the breaker")
    portuguese = wait_for(lambda: told(PT), "the same in Portuguese")
    assert english["cause"] == "5 of 5 calls failed" and portuguese["cause"] == "5 de 5 chamadas falharam"
    assert english["title"].endswith(" is unreachable") and portuguese["title"].endswith(" está inacessível")
    assert english["id"] == portuguese["id"]


# --- flow, windows, search ---


def test_the_flow_adds_up_what_the_server_counted(server, box):
    box.write("DELETE FROM SeriesPoints")
    now = datetime.datetime.now(datetime.timezone.utc).replace(second=0, microsecond=0)

    def point(minutes, channel, grain=60, **counts):
        moment = (now - datetime.timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        box.insert("SeriesPoints", {"Grain": grain, "PointAt": moment, "ClientId": "", "Channel": channel, **counts})

    point(1, "tickets", Accepted=10, Processed=8, Failed=1, Waiting=2, OldestSeconds=3)
    point(2, "tickets", Accepted=5, Processed=5)
    point(1, "ticket-return", Delivered=6, Failed=2, Waiting=4, OldestSeconds=3)
    point(40, "imports", Processed=100, Failed=3)
    flow = get(server, "/admin/flow")
    check(flow, SCHEMAS["Flow"], "Flow")
    steps = {s["name"]: s for s in flow["steps"]}
    assert [s["name"] for s in flow["steps"]] == ["accepted", "processed", "delivered"]
    assert {n: (s["perMinute"], s["waiting"], s["failed"]) for n, s in steps.items()} == \
        {"accepted": (3, 0, 0), "processed": (2.6, 2, 4), "delivered": (1.2, 4, 2)}
    assert {n: sum(p["count"] for p in s["points"]) for n, s in steps.items()} == {"accepted": 15, "processed": 113, "delivered": 6}
    assert len(steps["accepted"]["points"]) == 60
    for window, count in (("day", 96), ("week", 168)):
        longer = get(server, "/admin/flow", window=window)
        assert len(longer["steps"][0]["points"]) == count
        assert sum(p["count"] for p in longer["steps"][0]["points"]) == 15
    assert server.admin().get("/admin/flow?window=year").bad_fields == {"window"}


def test_maintenance_windows_of_the_server_and_of_clients(server, client):
    assert server.admin().request("PUT", f"/admin/clients/{client.id}/policy",
                                  json.dumps({"maintenanceWindow": "03:00-04:00"}),
                                  headers={"Content-Type": "application/json"}).status == 200
    windows = get(server, "/admin/maintenance-windows")
    check(windows, SCHEMAS["MaintenanceWindows"], "MaintenanceWindows")
    assert [(w["clientId"], w["windows"]) for w in windows["items"]] == [(None, "Sun 02:00-04:00"), (client.id, "03:00-04:00")]
    assert all(w["active"] or w["next"] for w in windows["items"])


def test_a_client_finds_its_own_documents_and_no_others(server, box):
    doc = "S-" + uuid.uuid4().hex[:10]
    mine, other = (server.new_client(n) for n in ("Mine", "Other"))
    assert mine.post("/api/tickets", flat(doc)).status == 200
    assert other.post("/api/tickets", flat(doc, businessEntity="OTH")).status == 200
    found = get(server, "/search", mine, q=doc)
    check(found, SCHEMAS["SearchResult"], "SearchResult")
    assert [(f["kind"], f["clientId"], f["link"]) for f in found["items"]] == [("ticket", mine.id, None)]
    assert len(get(server, "/admin/search", q=doc)["items"]) == 2
    importer = server.new_client("Imports only", scopes=["imports"])
    box.write(f"UPDATE TB_TICKET_INTERFACE SET ClientId = (SELECT Id FROM Clients WHERE ClientIdentifier = '{importer.id}')"
              f" WHERE BusinessDocId = '{doc}'")
    assert get(server, "/search", importer, q=doc)["items"] == []
    assert mine.get("/search?q=a").bad_fields == {"q"} and server.anonymous().get("/search?q=abc").status == 401
    assert get(server, "/search", mine, q=mine.id)["items"] == []


# --- webhooks by their client ---


def test_a_client_looks_at_a_delivery_sends_it_again_and_replays(server, client, box):
    hook = fill(server, client, box)
    base = f"/clients/{client.id}/webhooks/{hook}"
    listed = get(server, base + "/deliveries", client)["items"]
    one = get(server, f"{base}/deliveries/{listed[0]['id']}", client)
    check(one, SCHEMAS["WebhookDeliveryWhole"], "WebhookDeliveryWhole")
    assert one["id"] == listed[0]["id"] and "n" in json.loads(one["payload"]) and one["attemptsHistory"] == []
    resent = client.post(f"{base}/deliveries/{one['id']}/resend")
    assert resent.status == 202 and resent.json["resentFrom"] == one["id"], resent
    again = get(server, f"{base}/deliveries/{resent.json['deliveryId']}", client)
    assert (again["status"], again["payload"], again["eventId"]) == ("Pending", one["payload"], one["eventId"])
    # It is on its way: once is enough. And it waits for nobody any more.
    assert client.post(f"{base}/deliveries/{again['id']}/resend").status == 409
    failures = get(server, "/admin/webhook-failures", replayed="false")["items"]
    assert len(failures) == 4 and one["id"] not in {f["deliveryId"] for f in failures}
    replayed = client.post(f"{base}/replay?since=2020-01-01T00:00:00Z")
    assert replayed.status == 202 and replayed.json == {"replayed": 4, "remaining": 0, "skipped": 0}, replayed
    actions = {e["action"] for e in get(server, "/admin/audit", actor=f"client:{client.id}")["items"]}
    assert {"WebhookResent", "WebhookReplayed"} <= actions
    # Nobody else's business.
    stranger = server.new_client("Stranger")
    for path in (f"{base}/deliveries/{one['id']}", f"/clients/{stranger.id}/webhooks/{hook}/deliveries/{one['id']}"):
        assert stranger.get(path).status == 404
    assert stranger.post(f"/clients/{stranger.id}/webhooks/{hook}/replay?since=2020-01-01T00:00:00Z").status == 404
    assert client.post(f"{base}/replay").bad_fields == {"since"}
    assert client.get(f"{base}/deliveries/x").status == client.get(f"{base}/deliveries/{uuid.uuid4()}").status == 404
    assert server.admin(READER).post(f"{base}/deliveries/{one['id']}/resend").code == "RoleMissing"
    # Switched off.
    assert client.patch(base, {"isActive": False}).status == 200
    assert client.post(f"{base}/deliveries/{one['id']}/resend").status == 409
