"""POST /events: accepted and refused bodies, the order of events, repeated calls; events as operators see them."""

import concurrent.futures
import json
import re
import uuid

import pytest
from harness import wait_for
from test_openapi import DOCUMENT, check
from test_outbox import at, audit, cli, overview, whole

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
EVENT = {"eventType": "OrderPlaced", "payload": {"order": 1}}
COLUMNS = ("id", "event_type", "payload", "status", "attempts", "aggregate_type", "aggregate_id", "correlation_id",
           "trace_id", "span_id", "idempotency_key")


@pytest.fixture(scope="module")
def server(_module_backends, tmp_path_factory):
    """Nothing is dispatched here: what is written stays as it was written."""
    from conftest import _servers

    servers = _servers(_module_backends, tmp_path_factory)
    yield next(servers)(config={"server": {"roles": "api"}})
    yield from servers


@pytest.fixture(scope="module")
def shared(server):
    return server.new_client("Events")


@pytest.fixture
def client(server, shared):
    """Each test has a type of its own for its events, so that they find them again."""
    shared.type = "T-" + uuid.uuid4().hex[:12]
    return shared


def event(client, **more):
    return {"eventType": client.type, "payload": {"n": 1}, **more}


def rows(server, event_type):
    """In the order in which a relay takes them."""
    found = server.backend.query(f"SELECT {', '.join(COLUMNS)} FROM outbox_events WHERE event_type = '{event_type}'"
                                 " ORDER BY created_at, id")
    return [dict(zip(COLUMNS, [str(row[0]).lower(), *row[1:]])) for row in found]


def total(server):
    return server.backend.query("SELECT COUNT(*) FROM outbox_events")[0][0]


def post(client, body, key=None, **headers):
    return client.post("/events", body, headers={"Idempotency-Key": key, **headers})


def same(answers):
    first = answers[0]
    return all((a.status, a.json) == (first.status, first.json) for a in answers)


# --- one ---


def test_one_event_is_written_whole(server, client):
    given = event(client, aggregateType="Order", aggregateId="42", correlationId="story-1")
    trace = "0af7651916cd43dd8448eb211c80319c"
    answer = post(client, given, traceparent=f"00-{trace}-b7ad6b7169203331-01")
    assert answer.status == 202, answer
    assert set(answer.json) == {"eventId", "status", "correlationId"}
    assert UUID.fullmatch(answer.json["eventId"]) and answer.json["eventId"][14] == "7"
    assert (answer.json["status"], answer.json["correlationId"]) == ("PENDING", "story-1")
    check(answer.json, DOCUMENT["components"]["schemas"]["EventAccepted"], "EventAccepted")
    [row] = rows(server, client.type)
    assert row.pop("span_id") == answer.headers["traceparent"].split("-")[2]
    assert json.loads(row.pop("payload")) == {"n": 1}
    assert row == {"id": answer.json["eventId"], "event_type": client.type, "status": "PENDING", "attempts": 0,
                   "aggregate_type": "Order", "aggregate_id": "42", "correlation_id": "story-1", "trace_id": trace,
                   "idempotency_key": None}
    assert [line["correlationId"] for line in server.log("EventsAccepted") if line["eventType"] == client.type] == [
        "story-1"]


def test_the_request_gives_the_correlation(server, client):
    answer = post(client, event(client), **{"X-Correlation-Id": "of-the-call"})
    assert answer.json["correlationId"] == "of-the-call"
    assert rows(server, client.type)[0]["correlation_id"] == "of-the-call"


@pytest.mark.parametrize("text", ["{}", "null", "0", "-1.50e3", '"text"', "[ 1 ,\t2 ]", "false", '{"é": "\\u00e9 🚚"}',
                                  '{"b": 1, "a": 12345678901234567890.10}', '""'])
def test_a_payload_is_any_json_and_stays_as_it_came(server, client, text):
    body = f'{{"eventType": "{client.type}", "payload": {text}}}'.encode()
    assert client.request("POST", "/events", body).status == 202
    assert rows(server, client.type)[0]["payload"] == text


def test_names_in_any_case_numbers_as_text_blank_is_absent(server, client):
    answer = post(client, {"EVENTTYPE": client.type, "Payload": 1, "aggregateID": 42, "aggregatetype": "",
                           "correlationId": "", "eventId": None, "somethingElse": {"is": "ignored"}})
    assert answer.status == 202, answer
    [row] = rows(server, client.type)
    assert (row["aggregate_type"], row["aggregate_id"]) == (None, "42")
    assert row["correlation_id"] == answer.headers["X-Correlation-Id"]


def test_the_longest_that_fits(server, client):
    given = {"eventType": client.type.ljust(200, "x"), "payload": "p" * 500_000, "aggregateType": "t" * 200,
             "aggregateId": "i" * 200, "correlationId": "c" * 128}
    assert post(client, given).status == 202
    [row] = rows(server, given["eventType"])
    assert (row["aggregate_type"], row["aggregate_id"], row["correlation_id"]) == ("t" * 200, "i" * 200, "c" * 128)
    assert row["payload"] == json.dumps(given["payload"])


# --- what is not taken ---

BAD = [
    ({}, {"eventType", "payload"}),
    ({"eventType": "T"}, {"payload"}),
    ({"payload": 1}, {"eventType"}),
    ({"eventType": None, "payload": 1}, {"eventType"}),
    ({"eventType": " ", "payload": 1}, {"eventType"}),
    ({"eventType": ["T"], "payload": 1}, {"eventType"}),
    ({"eventType": "T" * 201, "payload": 1}, {"eventType"}),
    ({"eventType": "T", "payload": 1, "aggregateType": "x" * 201}, {"aggregateType"}),
    ({"eventType": "T", "payload": 1, "aggregateId": {}}, {"aggregateId"}),
    ({"eventType": "T", "payload": 1, "correlationId": "x" * 129}, {"correlationId"}),
    ({"eventType": "T", "payload": 1, "correlationId": "a\nb"}, {"correlationId"}),
    ({"eventType": "T", "payload": 1, "correlationId": "é"}, {"correlationId"}),
    ({"eventType": "T", "EventType": "U", "payload": 1, "PAYLOAD": 2}, {"eventType", "payload"}),
    ({"eventType": "T", "payload": 1, "eventId": "1"}, {"eventId"}),
    ({"eventType": "T", "payload": 1, "eventId": str(uuid.uuid4()) + "0"}, {"eventId"}),
    ({"eventType": "", "aggregateType": "x" * 201, "aggregateId": [], "correlationId": " ", "eventId": "?"},
     {"eventType", "payload", "aggregateType", "aggregateId", "correlationId", "eventId"}),
    ([EVENT, 1, {"payload": 1}, {**EVENT, "eventType": 0}, {**EVENT, "aggregateId": "x" * 201}],
     {"[1]", "[2].eventType", "[4].aggregateId"}),
    ([EVENT, {**EVENT, "eventId": "00000000-0000-7000-8000-000000000001"}, EVENT], {"[0].eventId", "[2].eventId"}),
    ([{**EVENT, "eventId": i} for i in ("00000000-0000-7000-8000-000000000001", "00000000-0000-7000-8000-00000000000a",
                                        "00000000-0000-7000-8000-000000000001", "00000000-0000-7000-8000-00000000000A",
                                        "{00000000-0000-7000-8000-000000000001}")],
     {"[2].eventId", "[3].eventId", "[4].eventId"}),
]


@pytest.mark.parametrize("body,fields", BAD, ids=range(len(BAD)))
def test_every_bad_field_is_named_and_nothing_is_written(server, client, body, fields):
    before = total(server)
    answer = post(client, body)
    assert (answer.status, answer.code, answer.bad_fields) == (400, "ValidationFailed", fields), answer
    assert total(server) == before


@pytest.mark.parametrize("body,status", [
    (b"", 400), (b"1", 400), (b"null", 400), (b'"x"', 400), (b"[]", 400), (b"[" + b"{}," * 1000 + b"{}]", 400),
    (b'{"eventType":"T","payload":1', 400), (b'{"eventType":"T","payload":1,"payload":2}', 400),
    (b'{"eventType":"T\\u0000","payload":1}', 400), (b'{"eventType":"T","payload":"\\ud800"}', 400),
    (b'{"eventType":"T","payload":"\xff"}', 400), (b'{"eventType":"T","payload":' + b"[" * 70 + b"]" * 70 + b"}", 400),
    (b'{"eventType":"T","payload":"' + b"x" * (1 << 20) + b'"}', 413),
])
def test_a_bad_body_is_refused(server, client, body, status):
    before = total(server)
    assert client.request("POST", "/events", body).status == status
    assert total(server) == before


@pytest.mark.parametrize("key", ["", "with blank", "é", "k" * 201])
def test_a_bad_key_is_400(server, client, key):
    assert client.post("/events", event(client), headers={"Idempotency-Key": key.encode("latin-1")}).status == 400
    assert rows(server, client.type) == []


def test_who_may_and_how(server, client):
    assert server.anonymous().post("/events", EVENT).status == 401
    other = server.new_client("No events", scopes=["imports"])
    assert (post(other, EVENT).status, post(other, EVENT).code) == (403, "ScopeMissing")
    assert server.new_client("Only events", scopes=["events"]).post("/v1/events", event(client)).status == 202
    assert client.get("/events").status == 405
    assert client.request("POST", "/events", b"x", headers={"Content-Type": "text/plain"}).status == 415


# --- many ---


def test_an_array_stands_in_its_order(server, client):
    answers = [post(client, [event(client, payload=[call, n], aggregateId="a") for n in range(size)])
               for call, size in enumerate((1000, 1, 7))]
    assert [a.status for a in answers] == [202] * 3, answers
    assert [a.json["accepted"] for a in answers] == [1000, 1, 7]
    check(answers[2].json, DOCUMENT["components"]["schemas"]["EventsAccepted"], "EventsAccepted")
    found = rows(server, client.type)
    assert [json.loads(r["payload"]) for r in found] == [[c, n] for c, size in enumerate((1000, 1, 7))
                                                        for n in range(size)]
    assert [r["id"] for r in found] == [item["eventId"] for a in answers for item in a.json["items"]]
    assert {item["status"] for a in answers for item in a.json["items"]} == {"PENDING"}
    assert {r["correlation_id"] for r in found[:1000]} == {answers[0].headers["X-Correlation-Id"]}


def test_ids_that_are_given_change_nothing_of_the_order(server, client):
    sizes = (50, None, 1, 30, None)  # None: ids are made
    for call, size in enumerate(sizes):
        body = [event(client, payload=[call, n], **({"eventId": str(uuid.uuid4())} if size else {}))
                for n in range(size or 5)]
        answer = post(client, body)
        assert answer.status == 202, answer
        if size:
            assert [item["eventId"] for item in answer.json["items"]] == [e["eventId"] for e in body]
    assert [json.loads(r["payload"]) for r in rows(server, client.type)] == [
        [c, n] for c, size in enumerate(sizes) for n in range(size or 5)]


def test_all_or_none(server, client):
    taken = str(uuid.uuid4())
    assert post(client, event(client, eventId=taken)).status == 202
    answer = post(client, [event(client, eventId=str(uuid.uuid4()), payload=2) for _ in range(20)]
                  + [event(client, eventId=taken, payload=3)])
    assert (answer.status, answer.code) == (409, "AlreadyExists")
    assert taken in answer.json["detail"]
    assert len(rows(server, client.type)) == 1


# --- again ---


@pytest.mark.parametrize("body", [lambda c: event(c, aggregateId="1"), lambda c: [event(c, payload=n) for n in range(30)],
                                  lambda c: [event(c, eventId=str(uuid.uuid4())) for n in range(3)]],
                         ids=["one", "many", "given ids"])
def test_the_same_key_and_content_is_answered_as_before(server, client, body):
    body = body(client)
    key = f"k-{client.type}"
    first = post(client, body, key)
    assert first.status == 202 and first.headers["Idempotent-Replayed"] is None
    before = rows(server, client.type)
    assert [r["idempotency_key"] for r in before] == [key] + [None] * (len(before) - 1)
    again = [post(client, body, key) for _ in range(2)]
    assert same([first, *again]) and {a.headers["Idempotent-Replayed"] for a in again} == {"true"}
    assert rows(server, client.type) == before
    for other in ({**EVENT, "payload": 2}, [EVENT], body[:-1] if isinstance(body, list) and len(body) > 3 else EVENT):
        answer = post(client, other, key)
        assert (answer.status, answer.code) == (422, "IdempotencyKeyReused"), answer
    assert rows(server, client.type) == before


def test_keys_are_a_clients_own(server, client):
    other = server.new_client("Another")
    first, second = post(client, event(client), "shared"), post(other, event(client, payload=2), "shared")
    assert (first.status, second.status) == (202, 202)
    assert first.json["eventId"] != second.json["eventId"]


@pytest.mark.parametrize("size", [1, 40], ids=["one", "many"])
def test_ten_at_once_with_one_key_write_once(server, client, size):
    body = [event(client, payload=n) for n in range(size)] if size > 1 else event(client)
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: post(client, body, client.type, **{"X-Correlation-Id": "one"}), range(10)))
    assert same(answers) and answers[0].status == 202, answers
    assert sum(a.headers["Idempotent-Replayed"] is None for a in answers) == 1
    assert len(rows(server, client.type)) == size


def test_a_given_id_is_a_key_too(server, client):
    body = [event(client, eventId=str(uuid.uuid4()), payload=n, aggregateId="1") for n in range(3)]
    one = event(client, eventId=str(uuid.uuid4()).upper())
    for given in (body, one):
        first, again = post(client, given), post(client, given)
        assert same([first, again]) and first.status == 202, again
        assert again.headers["Idempotent-Replayed"] == "true"
    assert post(client, one).json["eventId"] == one["eventId"].lower()
    other = server.new_client("Another of ids")
    for given in ({**one, "payload": 2}, {**one, "aggregateId": "2"}, {**one, "eventType": "x"}, body[:2] + [
            {**body[2], "payload": "x"}], [*body, event(client, eventId=str(uuid.uuid4()))]):
        answer = post(client, given)
        assert (answer.status, answer.code) == (409, "AlreadyExists"), given
    assert post(other, one).status == 409
    assert len(rows(server, client.type)) == 4


# --- for operators ---


class Fates:
    """Events in every state, as a relay leaves them."""

    def __init__(self, server, client):
        self.server = server
        self.write("DELETE FROM outbox_events")
        answer = post(client, [event(client, payload={"n": n}, aggregateType="Order", aggregateId=str(n),
                                     correlationId=f"story-{n}") for n in range(4)])
        self.ids = [item["eventId"] for item in answer.json["items"]]
        stamp = at(7)[:-1] if server.backend.name == "sqlserver" else at(7)
        self.write(f"UPDATE outbox_events SET status = 'PROCESSED', attempts = 1, processed_at = '{stamp}'"
                   f" WHERE id = '{self.ids[1]}'")
        for i in self.ids[2:]:
            self.write(f"UPDATE outbox_events SET status = 'FAILED', attempts = 5, next_attempt_at = '{stamp}',"
                       f" last_error = 'HTTP 422' WHERE id = '{i}'")

    def write(self, sql):
        backend = self.server.backend
        (backend.script if backend.name == "sqlite" else backend.query)(sql)


@pytest.fixture
def fates(server, client):
    return Fates(server, client)


def test_operators_see_events_by_their_own_states(server, client, fates):
    channel = overview(server)["events"]
    assert channel["configured"] and channel["counts"] == {"PENDING": 1, "PROCESSED": 1, "FAILED": 2}
    assert channel["oldestPendingAt"].endswith("Z")
    admin = server.admin()
    page = admin.get("/admin/outbox/events").json
    check(page, DOCUMENT["components"]["schemas"]["OutboxPage"], "OutboxPage")
    assert [item["id"] for item in page["items"]] == fates.ids[::-1]
    assert [item["reference"] for item in page["items"]] == [f"{client.type} Order {n}" for n in (3, 2, 1, 0)]
    for status, ids in (("PENDING", fates.ids[:1]), ("processed", fates.ids[1:2]), ("Failed", fates.ids[:1:-1])):
        page = admin.get(f"/admin/outbox/events?status={status}").json
        assert (page["total"], [item["id"] for item in page["items"]]) == (len(ids), ids)
    answer = admin.get("/admin/outbox/events?status=Error")
    assert (answer.status, answer.bad_fields) == (400, {"status"})
    assert answer.json["errors"][0]["message"] == "must be PENDING, PROCESSED or FAILED, or GivenUp"


def test_one_event_for_operators(server, client, fates):
    row = whole(server, "events", fates.ids[1])
    check(row, DOCUMENT["components"]["schemas"]["OutboxRowWhole"], "OutboxRowWhole")
    assert (row["status"], row["attempts"], row["sentAt"], row["attemptsHistory"]) == ("PROCESSED", 1, at(7), [])
    assert (row["correlationId"], json.loads(row["payload"])) == ("story-1", {"n": 1})
    for nobody in (fates.ids[1].upper(), "{" + fates.ids[1] + "}", str(uuid.uuid4()), "1", "x"):
        assert server.admin().get(f"/admin/outbox/events/{nobody}").status == 404, nobody


def test_retry_gives_an_event_all_its_attempts_again(server, fates):
    admin = server.admin()
    answer = admin.post(f"/admin/outbox/events/{fates.ids[2]}/retry")
    assert (answer.status, answer.json) == (200, {"id": fates.ids[2], "status": "PENDING"})
    row = whole(server, "events", fates.ids[2])
    assert (row["status"], row["attempts"], row["nextAttemptAt"]) == ("PENDING", 0, None)
    said = audit(server)[0]
    assert (said["action"], said["target"]) == ("OutboxRetried", f"events/{fates.ids[2]}")
    assert admin.post(f"/admin/outbox/events/{fates.ids[0]}/retry").status == 200, "is PENDING already"
    assert admin.post(f"/admin/outbox/events/{fates.ids[1]}/retry").status == 409
    assert admin.post("/admin/outbox/events/retry", {"status": "Error"}).status == 400
    assert admin.post("/admin/outbox/events/retry", {"status": "FAILED"}).json["retried"] == 1
    assert overview(server)["events"]["counts"] == {"PENDING": 3, "PROCESSED": 1, "FAILED": 0}


def test_the_terminal_shows_the_same(server, fates):
    admin = server.admin()
    assert json.loads(cli(server, "list", "events", "--status", "failed", "--json")) == admin.get(
        "/admin/outbox/events?status=FAILED").json
    assert json.loads(cli(server, "show", "events", fates.ids[2], "--json")) == whole(server, "events", fates.ids[2])
    assert "story-2" in cli(server, "show", "events", fates.ids[2])
    head, first, *_ = cli(server, "list", "events").splitlines()
    assert head.index("STATUS") == first.index("FAILED") and first.startswith(fates.ids[3])
    [line] = [line for line in cli(server, "list").splitlines() if line.startswith("events")]
    assert line.split()[1:5] == ["1", "-", "1", "2"]
    for status in ("Error", "Sending", ""):
        done = server.cli("outbox", "list", "events", "--status", status)
        assert done.returncode == 2 and "PENDING, PROCESSED or FAILED" in done.stderr
    assert cli(server, "retry", "events", fates.ids[2]) == f"events {fates.ids[2]} is to be sent again\n"
    assert json.loads(cli(server, "retry", "events", "--all", "--json"))["retried"] == 1
    assert overview(server)["events"]["counts"]["FAILED"] == 0


# --- and its relay ---


def relays(server):
    answer = server.admin().get("/admin/relays")
    assert answer.status == 200, answer
    check(answer.json, DOCUMENT["components"]["schemas"]["RelayList"], "RelayList")
    return {r["name"]: r for r in answer.json["items"]}


def test_without_the_role_there_are_no_relays(server):
    assert relays(server) == {}
    assert server.anonymous().get("/admin/relays").status == 401


def state(server, event_id):
    return whole(server, "events", event_id)["status"]


def test_what_was_answered_is_dispatched_whatever_happens(make_server):
    """Answered, killed at once, started again with relays: the log has it, then the table says so."""
    server = make_server(config={"relay.events": {"table": "not_there"}}, args=("--set", "server.roles=api"))
    client = server.new_client()
    body = [{"eventType": "Happened", "payload": {"secret": "sesame"}, "correlationId": f"story-{n}"} for n in range(20)]
    ids = [item["eventId"] for item in post(client, body, "once").json["items"]]
    server.kill()
    server.args = ()
    server.start()
    assert [item["eventId"] for item in post(client, body, "once").json["items"]] == ids
    wait_for(lambda: all(state(server, i) == "PROCESSED" for i in ids), "all dispatched")
    told = {line["eventId"]: line for line in server.log("OutboxEvent")}
    assert {i: (told[i]["correlationId"], told[i]["relay"]) for i in ids} == {
        i: (f"story-{n}", "own-events") for n, i in enumerate(ids)}
    wait_for(lambda: relays(server)["own-events"]["dispatched"] == len(ids), "all counted, which is after the commit")
    # The one that is configured has the name, but another table, and that one is not there.
    assert tuple(relays(server)) == ("events", "own-events")
    other, own = relays(server).values()
    assert (other["running"], other["table"]) == (False, "not_there") and "not_there" in other["problem"]
    assert (own["running"], own["problem"], own["dispatcher"], own["table"]) == (True, None, "log", "outbox_events")
    assert own["lastDispatchAt"].endswith("Z")
    # New ones, in any script, and what a person has tried again.
    names = {"eventType": "Expedição 出荷 🚚", "aggregateType": "Peça 部品", "aggregateId": "Ñ-№ 7 🧩"}
    late = post(client, EVENT | names).json["eventId"]
    wait_for(lambda: state(server, late) == "PROCESSED", "the new one dispatched")
    said = next(line for line in server.log("OutboxEvent") if line["eventId"] == late)
    assert {name: said[name] for name in names} == names
    assert whole(server, "events", late)["reference"] == " ".join(names.values())
    assert names["aggregateId"] in server.admin().get("/admin/outbox/events?pageSize=1").json["items"][0]["reference"]
    write = server.backend.script if server.backend.name == "sqlite" else server.backend.query
    write(f"UPDATE outbox_events SET status = 'FAILED' WHERE id = '{ids[0]}'")
    assert server.admin().post(f"/admin/outbox/events/{ids[0]}/retry").status == 200
    wait_for(lambda: state(server, ids[0]) == "PROCESSED", "the one that had failed dispatched")
    assert "sesame" not in server.log_text()


def test_a_relay_of_the_own_table_takes_the_place_of_the_default(make_sqlite_server):
    server = make_sqlite_server(config={"relay.mine": {"dispatcher": "log"}})
    wait_for(lambda: relays(server)["mine"]["running"], "it running")
    assert tuple(relays(server)) == ("mine",)
    made = post(server.new_client(), EVENT).json["eventId"]
    wait_for(lambda: state(server, made) == "PROCESSED", "dispatched")
    assert [(line["eventId"], line["relay"]) for line in server.log("OutboxEvent")] == [(made, "mine")]
