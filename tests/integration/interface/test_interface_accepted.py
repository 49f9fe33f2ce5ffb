"""Tickets are processed in the transaction that accepts them; what else is due is taken up by who owns its shard."""

import concurrent.futures
import datetime

import pytest
from harness import wait_for

pytestmark = pytest.mark.threads

FAST = {"retry_base_ms": 5, "retry_cap_ms": 10, "lease_ms": 1000, "timeout_ms": 500}
WRONG = {"phaseCode": 6, "weights": {"gross": 1, "tare": 2, "net": 3}}


def ticket(doc, **fields):
    return {"businessEntity": "TCK", "businessDocId": doc, "phaseCode": 15, "companyCode": "1", "branchCode": "B",
            "destinationCode": "D", "shipmentEvent": "RCD", "targetApplicationCode": "ASB",
            "functionalAckIsRequired": True, **fields}


def written(server, sql):
    backend = server.backend
    (backend.script if backend.name == "sqlite" else backend.query)(sql)  # of SQLite only a script is committed


def rows(server, table, doc):
    return server.backend.query(f"SELECT COUNT(*) FROM {table} WHERE BusinessDocId = '{doc}'")[0][0]


def columns(server, doc, *names):
    [row] = server.backend.query(f"SELECT {', '.join(names)} FROM TB_TICKET_INTERFACE WHERE BusinessDocId = '{doc}'")
    return row


def counted(server, outcome):
    name = f'dataflow_tickets_processed_total{{outcome="{outcome}"}}'
    lines = server.admin().get("/metrics").body.decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def post(client, doc, **fields):
    answer = client.post("/api/tickets", ticket(doc, **fields))
    assert answer.status == 200, answer
    return answer.json


def shown(client, doc):
    [item] = client.get(f"/api/tickets?businessEntity=TCK&businessDocId={doc}").json["items"]
    return item


def due(seconds):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03}Z"


def insert(server, doc, status="Awaiting", when=-10, since="NULL"):
    """As another program does. Gives the row's id."""
    ack = "0" if server.backend.name == "sqlite" else "false"
    written(server, "INSERT INTO TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, CompanyCode, BranchCode, DestinationCode,"
                    " PhaseCode, ShipmentEvent, FunctionalAckIsRequired, TargetApplicationCode, RawPayloadJson, Status,"
                    f" NextAttemptAt, ProcessingSince) VALUES ('TCK', '{doc}', '1', 'B', 'D', 15, 'RCD', {ack}, 'ASB',"
                    f" '{payload_of(doc)}', '{status}', '{due(when)}', {since})")
    return columns(server, doc, "Id")[0]


def payload_of(doc):
    return ('{"businessEntity": "TCK", "businessDocId": "%s", "phaseCode": 15, "companyCode": "1", "branchCode": "B",'
            ' "destinationCode": "D", "shipmentEvent": "RCD", "targetApplicationCode": "ASB"}' % doc)


# --- with the answer ---


def test_when_it_is_answered_everything_is_written(make_server):
    server = make_server()
    client = server.new_client("AS400", scopes=["interface"])
    answer = post(client, "A")
    assert (answer["status"], answer["created"]) == ("Awaiting", True), "what a ticket starts as"
    item = shown(client, "A")
    assert (item["status"], item["attemptCount"], item["lastError"], item["nextAttemptAt"]) == ("Processed", 1, None, None)
    assert rows(server, "TB_TICKET_RETURN_OUTBOX", "A") == rows(server, "TB_FUNCTIONAL_ACK_OUTBOX", "A") == 1
    assert post(client, "A") == {**answer, "status": "Processed", "created": False}
    again = post(client, "A", branchCode="C")
    assert (again["id"], again["status"], again["created"]) == (answer["id"], "Awaiting", False)
    assert columns(server, "A", "Status", "PayloadVersion", "TryCount") == ("Processed", 2, 2)
    assert rows(server, "TB_TICKET_RETURN_OUTBOX", "A") == 1 and rows(server, "TB_FUNCTIONAL_ACK_OUTBOX", "A") == 2
    assert counted(server, "processed") == 2 and counted(server, "rejected") == 0
    wait_for(lambda: server.backend.query("SELECT Arrived FROM DeliveryTargets WHERE Channel = 'tickets' AND Target = ''")
             == [(2,)], "they are counted")


def test_what_can_never_be_valid_is_an_error_with_the_answer(make_server):
    server = make_server()
    client = server.new_client("AS400", scopes=["interface"])
    assert post(client, "A", **WRONG)["status"] == "Awaiting"
    item = shown(client, "A")
    assert (item["status"], item["nextAttemptAt"]) == ("Error", None) and "gross" in item["lastError"]
    assert rows(server, "TB_TICKET_RETURN_OUTBOX", "A") == 0 and rows(server, "TB_FUNCTIONAL_ACK_OUTBOX", "A") == 1
    assert server.log("TicketRejected") and counted(server, "rejected") == 1
    post(client, "A", phaseCode=6, weights={"net": 3})
    assert shown(client, "A")["status"] == "Processed"
    assert rows(server, "TB_TICKET_RETURN_OUTBOX", "A") == 1 and rows(server, "TB_FUNCTIONAL_ACK_OUTBOX", "A") == 2


def test_many_at_once_are_each_written_as_if_alone(make_server):
    """Fit and unfit ones, the same again, other payloads of one key, and keys of another client, all in one queue."""
    server = make_server()
    own, other = (server.new_client(name, scopes=["interface"]) for name in ("AS400", "SAP"))
    reaching = server.new_client("ALL", scopes=["interface", "interface-all"])
    for n in range(10):
        post(other, f"T{n}")
    calls = ([(own, f"N{n}", {}) for n in range(40)] + [(own, f"W{n}", WRONG) for n in range(10)]
             + [(own, "K", {"branchCode": str(n)}) for n in range(20)] + [(own, f"T{n}", {"branchCode": "X"}) for n in range(5)]
             + [(reaching, f"T{n}", {"branchCode": "Y"}) for n in range(5, 10)] + [(other, f"T{n}", {}) for n in range(5)])
    with concurrent.futures.ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda call: call[0].post("/api/tickets", ticket(call[1], **call[2])), calls))
    taken = [answer.status for (client, doc, fields), answer in zip(calls, answers) if fields.get("branchCode") == "X"]
    assert taken == [409] * 5 and all(a.status == 200 for a in answers if a.status != 409)
    assert sum(a.status == 409 for a in answers) == 5
    for n in range(40):
        assert columns(server, f"N{n}", "Status", "TryCount", "PayloadVersion") == ("Processed", 1, 1)
        assert rows(server, "TB_TICKET_RETURN_OUTBOX", f"N{n}") == rows(server, "TB_FUNCTIONAL_ACK_OUTBOX", f"N{n}") == 1
    for n in range(10):
        assert columns(server, f"W{n}", "Status", "TryCount") == ("Error", 1)
        assert columns(server, f"T{n}", "Status", "PayloadVersion") == ("Processed", 1 + (n >= 5))
        assert rows(server, "TB_FUNCTIONAL_ACK_OUTBOX", f"T{n}") == 1 + (n >= 5)
    assert columns(server, "K", "Status", "TryCount", "PayloadVersion") == ("Processed", 20, 20)
    assert rows(server, "TB_TICKET_RETURN_OUTBOX", "K") == 1 and rows(server, "TB_FUNCTIONAL_ACK_OUTBOX", "K") == 20
    owners = server.backend.query("SELECT COUNT(DISTINCT ClientId) FROM TB_FUNCTIONAL_ACK_OUTBOX WHERE BusinessDocId LIKE 'T%'")
    assert owners == [(1,)], "the owner stays, and the acks are the owner's"


# --- by who owns the shard ---


def test_who_only_accepts_leaves_them_to_who_processes(make_server):
    server = make_server(config={"delivery": FAST}, args=("--set", "server.roles=api"))
    client = server.new_client("AS400", scopes=["interface"])
    for n in range(40):
        assert post(client, f"A{n}", **(WRONG if n == 7 else {}))["status"] == "Awaiting"
    assert all(shown(client, f"A{n}")["status"] == "Awaiting" for n in range(40))
    worker = make_server(server.backend, config={"delivery": FAST})
    wait_for(lambda: all(shown(client, f"A{n}")["status"] in ("Processed", "Error") for n in range(40)), "they are processed")
    assert [n for n in range(40) if shown(client, f"A{n}")["status"] == "Error"] == [7]
    assert counted(worker, "processed") == 39 and counted(worker, "rejected") == 1
    for n in range(40):
        assert columns(server, f"A{n}", "TryCount", "ProcessingSince") == (1, None)
        assert rows(server, "TB_FUNCTIONAL_ACK_OUTBOX", f"A{n}") == 1


def test_rows_of_other_programs_are_processed_once_by_two_processes(make_server):
    first = make_server(config={"delivery": FAST})
    second = make_server(first.backend, config={"delivery": FAST})
    for n in range(40):
        insert(first, f"A{n}")
    wait_for(lambda: first.backend.query("SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE Status = 'Processed'") == [(40,)],
             "they are processed")
    assert first.backend.query("SELECT COUNT(*), MAX(TryCount) FROM TB_TICKET_INTERFACE") == [(40, 1)]
    assert first.backend.query("SELECT COUNT(*) FROM TB_TICKET_RETURN_OUTBOX") == [(40,)]
    assert counted(first, "processed") + counted(second, "processed") == 40


# --- after a process that did not end as it should ---


def test_what_a_lost_process_left_as_processing_is_reset(make_server):
    server = make_server(config={"delivery": FAST})
    server.kill()
    insert(server, "LATER", "Processing", when=3600, since=f"'{due(3660)}'")
    insert(server, "NOW", "Processing", when=-60, since=f"'{due(-30)}'")
    server.start()
    wait_for(lambda: columns(server, "NOW", "Status") == ("Processed",), "it is processed")
    wait_for(lambda: columns(server, "LATER", "Status", "ProcessingSince") == ("Awaiting", None), "it is reset")
    assert columns(server, "NOW", "TryCount", "ProcessingSince") == (1, None)


def test_who_was_taken_too_often_without_an_end_is_set_aside(make_server):
    server = make_server(config={"delivery": FAST})
    server.kill()
    ids = {doc: insert(server, doc) for doc in ("A", "BAD", "C", "ONCE", "E")}
    for doc, taken in (("BAD", 5), ("ONCE", 4)):
        written(server, "INSERT INTO WorkMarks (Channel, RowKey, Taken, MarkedAt)"
                        f" VALUES ('tickets', '{ids[doc]}', {taken}, '{due(-60)}')")
    written(server, f"INSERT INTO WorkMarks (Channel, RowKey, Taken, MarkedAt) VALUES ('tickets', '999999', 1, '{due(-60)}')")
    server.start()
    for doc in ("A", "C", "ONCE", "E"):
        wait_for(lambda doc=doc: columns(server, doc, "Status", "TryCount") == ("Processed", 1), f"{doc} is processed")
    wait_for(lambda: columns(server, "BAD", "Status") == ("Error",), "it is set aside")
    why, when, first = columns(server, "BAD", "LastError", "NextAttemptAt", "FirstFailedAt")
    assert why == "the server ended unexpectedly while it processed this ticket" and when is None and first
    assert rows(server, "TB_TICKET_RETURN_OUTBOX", "BAD") == 0
    [entry] = server.log("TicketGivenUp")
    assert (entry["id"], entry["level"]) == (ids["BAD"], "error") and counted(server, "given_up") == 1
    wait_for(lambda: server.backend.query("SELECT COUNT(*) FROM WorkMarks WHERE Channel = 'tickets'") == [(0,)], "no mark is left")


@pytest.mark.parametrize("count", [1, 100])
def test_after_a_kill_what_waits_is_taken_with_care_and_then_as_ever(make_server, count):
    server = make_server(config={"delivery": FAST})
    server.kill()
    for n in range(count):
        insert(server, f"A{n}")
    server.start()
    wait_for(lambda: server.backend.query("SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE Status = 'Processed' AND TryCount = 1")
             == [(count,)], "all are processed")
    assert server.backend.query("SELECT COUNT(*) FROM TB_TICKET_RETURN_OUTBOX") == [(count,)]
    insert(server, "LATER")
    wait_for(lambda: columns(server, "LATER", "Status") == ("Processed",), "the next one")
    assert server.backend.query("SELECT COUNT(*) FROM WorkMarks WHERE Channel = 'tickets'") == [(0,)]


def test_what_is_in_hand_for_long_is_seen_as_processing(make_server):
    """One is refused, so that they are written one by one, and each takes its time."""
    server = make_server(config={"delivery": {**FAST, "lease_ms": 20000}})
    if server.backend.name != "postgres":
        pytest.skip("a trigger that waits")
    server.stop()
    for n in range(12):
        insert(server, f"A{n}")
    written(server, "ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD CONSTRAINT refusal CHECK (BusinessDocId <> 'A11')")
    written(server, "CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS"
                    " $$ BEGIN PERFORM pg_sleep(0.3); RETURN NEW; END $$")
    written(server, "CREATE TRIGGER waits BEFORE INSERT ON TB_TICKET_RETURN_OUTBOX FOR EACH ROW EXECUTE FUNCTION waits()")
    server.start()
    since = wait_for(lambda: server.backend.query("SELECT ProcessingSince FROM TB_TICKET_INTERFACE WHERE Status = 'Processing'"),
                     "some are in hand")
    assert all(row[0] for row in since)
    wait_for(lambda: server.backend.query("SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE Status = 'Processed'") == [(11,)],
             "all but one are processed")
    wait_for(lambda: columns(server, "A11", "Status", "ProcessingSince") == ("Error", None), "and that one is told apart")
    assert server.backend.query("SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE ProcessingSince IS NOT NULL") == [(0,)]
    written(server, "ALTER TABLE TB_TICKET_RETURN_OUTBOX DROP CONSTRAINT refusal")
    wait_for(lambda: columns(server, "A11", "Status") == ("Processed",), "it is processed once it is taken")
