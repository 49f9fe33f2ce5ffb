"""Erasing a person: every kind of document, what waits, what can't be done afterwards, and a restore."""

import contextlib
import http.client
import json
import threading
import uuid
from urllib.parse import urlencode

import pytest
from harness import FakeClock, Server, wait_for
from test_imports_process import Peer, configuration, wait_end
from test_imports_read import Rows
from test_imports_receive import upload
from test_interface_acks import short
from test_interface_counterparties import flat as counterparty
from test_interface_tickets import flat as ticket
from test_purge import MAINTAIN, count, ended, job, purge
from test_subjects import ask, cpf, email, phone, places, spelled

ERASED = '{"erased":true}'
SCOPES = ["interface", "imports", "events", "integrations", "callback"]


@pytest.fixture(scope="module")
def server(_module_backends, tmp_path_factory):
    """Takes documents and lets them lie."""
    made = Server(_module_backends(), tmp_path_factory.mktemp("server"), config=MAINTAIN)
    filled(made.start())
    yield made
    made.finish()


def filled(server):
    """The index of people is complete."""
    wait_for(lambda: count(server, "SubjectFill", "DoneAt IS NOT NULL") == 7, "the walk")


@pytest.fixture
def client(server):
    return new_client(server)


@pytest.fixture
def rows(server):
    return Rows(server.backend)


def new_client(server):
    return server.new_client("Somebody", clientId=f"somebody-{uuid.uuid4().hex[:8]}", scopes=SCOPES)


def send_ticket(client, **fields):
    answer = client.post("/api/tickets", ticket(**fields))
    assert answer.status == 200, answer
    return answer.json["id"]


def settle_ticket(rows, ticket_id):
    rows.write("UPDATE TB_TICKET_INTERFACE SET Status = 'Processed', NextAttemptAt = NULL, GatewaySendStatus = 'Error', "
               f"GatewaySendNextAttemptAt = NULL WHERE Id = {ticket_id}")


def columns(server, table, row_id, *names):
    return [str(v) if v is not None else None
            for v in server.backend.query(f"SELECT {', '.join(names)} FROM {table} WHERE Id = {row_id}")[0]]


def everything(server, client, rows, number):
    """A document of each kind that names the person, all of them over or given up; their ids by place."""
    doc = f"CP_{uuid.uuid4().hex[:16]}"
    body = counterparty(doc, addresses=[{"addressTypeCode": "1", "phone": spelled(number)}],
                        fiscalReferences=[{"fiscalReferenceTypeCode": "BR1", "fiscalNumber": cpf()}])
    made = {"ticket": send_ticket(client, phone=number), "counterparty": client.post("/api/counterparties", body).json["id"],
            "event": client.post("/events", {"eventType": "T", "payload": {"phone": number}}).json["eventId"],
            "call": client.post(f"/integrations/pay/people?{urlencode({'onUnavailable': 'enqueue'})}", {"phone": number}).json["id"],
            "ack": client.post("/api/functional-ack", {**short(doc), "message": number}).json["id"]}
    settle_ticket(rows, made["ticket"])
    rows.write(f"UPDATE outbox_events SET status = 'FAILED' WHERE id = '{made['event']}'")
    rows.write(f"UPDATE IntegrationCalls SET Status = 'Error', NextAttemptAt = NULL WHERE Id = '{made['call']}'")
    rows.write(f"UPDATE TB_FUNCTIONAL_ACK_OUTBOX SET Status = 'Error', NextAttemptAt = NULL WHERE Id = {made['ack']}")
    return made


def erase(server, subject):
    """A server that still looks through the documents of an earlier release makes a job of it."""
    answer = server.admin().post("/admin/purge", {"subject": subject})
    assert answer.status in (200, 202), answer
    return ended(server, answer.json["jobId"])


# --- documents ---


def test_every_document_of_the_person_and_no_other(server, client, rows):
    number, other = phone(), phone()
    made, kept = everything(server, client, rows, number), everything(server, client, rows, other)
    assert {p: ids for p, ids in places(server, phone=number).items()} == {p: [i] for p, i in made.items()}
    rows.write(f"UPDATE TB_TICKET_INTERFACE SET CallbackCode = '{number[-11:]}' WHERE Id = {made['ticket']}")
    expected = {"TB_TICKET_INTERFACE": 1, "TB_COUNTERPARTIES": 1, "outbox_events": 1, "IntegrationCalls": 1,
                "TB_FUNCTIONAL_ACK_OUTBOX": 1}
    assert purge(server, subject={"phone": spelled(number)}, dryRun=True)["counts"] == expected
    assert len(places(server, phone=number)) == 5
    done = purge(server, subject={"phone": spelled(number)})
    assert (done["state"], done["counts"], done["skipped"]) == ("Done", expected, {})
    assert places(server, phone=number) == {} and places(server, phone=other) == {p: [i] for p, i in kept.items()}
    assert columns(server, "TB_TICKET_INTERFACE", made["ticket"], "RawPayloadJson", "PayloadHash", "Status", "CallbackCode") == [
        ERASED, None, "Processed", None]
    assert columns(server, "TB_COUNTERPARTIES", made["counterparty"], "RawPayload", "Name") == [ERASED, None]
    assert columns(server, "outbox_events", f"'{made['event']}'", "payload", "status") == [ERASED, "DISMISSED"]
    assert columns(server, "TB_FUNCTIONAL_ACK_OUTBOX", made["ack"], "PayloadJson", "Status") == [ERASED, "Error"]
    for table in ("TB_COUNTERPARTY_ADDRESSES", "TB_COUNTERPARTY_FISCAL_REFERENCES"):
        assert count(server, table, f"CounterpartyIdFk = {made['counterparty']}") == 0
        assert count(server, table, f"CounterpartyIdFk = {kept['counterparty']}") == 1
    assert purge(server, subject={"phone": number})["counts"] == {}
    said = json.dumps(job(server, done["jobId"])) + json.dumps(server.admin().get("/admin/audit?pageSize=50").json) + server.log_text()
    assert number[3:] not in said and "SubjectErased" in said


def test_what_is_erased_is_not_sent_again(server, client, rows):
    number = phone()
    made = everything(server, client, rows, number)
    purge(server, subject=number)
    admin = server.admin()
    for path in (f"/admin/tickets/{made['ticket']}/reprocess", f"/admin/outbox/ticket-gateway/{made['ticket']}/retry",
                 f"/admin/outbox/integrations/{made['call']}/retry", f"/admin/outbox/functional-ack/{made['ack']}/retry"):
        answer = admin.post(path)
        assert (answer.status, answer.code) == (410, "PayloadErased"), (path, answer)
    answer = client.post(f"/api/tickets/{made['ticket']}/reprocess")
    assert (answer.status, answer.code) == (410, "PayloadErased")
    admin.post("/admin/tickets/reprocess", {"all": True})
    assert columns(server, "TB_TICKET_INTERFACE", made["ticket"], "Status") == ["Processed"]
    admin.post("/admin/outbox/retry", {"all": True})
    for channel in ("functional-ack", "integrations", "ticket-gateway"):
        admin.post(f"/admin/outbox/{channel}/retry", {"all": True})
    assert columns(server, "TB_FUNCTIONAL_ACK_OUTBOX", made["ack"], "Status", "NextAttemptAt") == ["Error", None]
    assert columns(server, "IntegrationCalls", f"'{made['call']}'", "Status", "NextAttemptAt") == ["Error", None]


def test_a_document_may_come_again(server, client, rows):
    """The same content after the erasure is a new document, and is found."""
    number, payload = phone(), ticket()
    ticket_id = client.post("/api/tickets", {**payload, "phone": number}).json["id"]
    settle_ticket(rows, ticket_id)
    purge(server, subject=number)
    assert client.post("/api/tickets", {**payload, "phone": number}).json["id"] == ticket_id
    assert places(server, phone=number) == {"ticket": [ticket_id]}
    assert columns(server, "TB_TICKET_INTERFACE", ticket_id, "Status", "ErasedAt") == ["Awaiting", None]
    assert server.admin().post(f"/admin/tickets/{ticket_id}/reprocess").status in (200, 202)


def test_what_is_on_its_way_is_409_and_nothing_is_erased(server, client, rows):
    number = phone()
    made = everything(server, client, rows, number)
    waiting = send_ticket(client, phone=number)
    answer = server.admin().post("/admin/purge", {"subject": {"phone": number}})
    assert answer.status == 409, answer
    assert answer.json["errors"] == [{"field": "ticket", "message": str(waiting)}]
    assert number[3:] not in json.dumps(answer.json)
    assert len(places(server, phone=number)) == len(made)
    assert purge(server, subject={"phone": number}, dryRun=True)["skipped"] == {"TB_TICKET_INTERFACE": 1}


def test_a_dry_run_and_a_refusal_are_audited_as_a_question(server, client):
    number = phone()
    send_ticket(client, phone=number)
    hashed = ask(server, phone=number)["subject"]["hash"]

    def asked():
        entries = server.admin().get(f"/admin/audit?action=SubjectLookedUp&target={hashed}").json["items"]
        assert number[3:] not in json.dumps(entries)
        return [(e["actor"].split(":")[0], e["details"]) for e in entries if e["details"].get("purge")]

    told = {"kind": "phone", "purge": True}
    purge(server, subject={"phone": number}, dryRun=True)
    assert asked() == [("admin", told)]
    assert server.admin().post("/admin/purge", {"subject": {"phone": number}}).status == 409
    assert asked() == [("admin", told)] * 2
    assert server.cli("purge", "--phone", number, "--dry-run").returncode == 0
    assert asked() == [("cli", told)] + [("admin", told)] * 2


def test_nobody_is_erased(server):
    done = purge(server, subject=email())
    assert (done["state"], done["counts"]) == ("Done", {})
    assert server.admin().request("DELETE", f"/admin/purge/{done['jobId']}").status == 409


# --- items ---


def test_items_of_imports(make_server):
    peer = Peer()
    peer.answer = lambda request: 400
    server = make_server(config=configuration(peer))
    client = new_client(server)
    number, other = phone(), phone()
    records = [{"PhoneNumber": n, "Name": f"Ana {i}"} for i, n in enumerate([other, number, phone(), number])]
    batch = upload(client, json.dumps(records).encode()).json["batchId"]
    before = wait_end(client, batch)
    assert count(server, "ImportKept", f"BatchId = '{batch}'") == 4
    assert len(places(server, phone=number)["batch-item"]) == 2
    done = erase(server, number)
    assert done["counts"] == {"ImportItem": 2, "ImportKept": 2}
    assert places(server, phone=number) == {} and len(places(server, phone=other)["batch-item"]) == 1
    after = client.get(f"/imports/{batch}").json
    assert {k: after[k] for k in ("status", "totalRecords", "errorCount")} == {k: before[k] for k in ("status", "totalRecords", "errorCount")}
    erased = server.backend.query(f"SELECT Sequence FROM ImportItem WHERE BatchId = '{batch}' AND PayloadJson = '{ERASED}' ORDER BY 1")
    assert [s for (s,) in erased] == [s for (s,) in server.backend.query(
        f"SELECT Sequence FROM ImportItem WHERE BatchId = '{batch}' ORDER BY 1")][1::2]
    report = client.get(f"/imports/{batch}/errors.json")
    assert report.status == 200 and number[3:] not in report.body.decode()
    peer.answer = lambda request: 200
    answer = client.post(f"/imports/{batch}/retry")
    assert (answer.status, answer.json["items"]) == (202, 2)
    wait_end(client, batch)
    sent = json.dumps([r.body for r in peer.came(batch)][-1])
    assert other[3:] in sent and number[3:] not in sent
    again = client.post(f"/imports/{batch}/retry")
    assert (again.status, again.code) == (410, "PayloadErased"), again
    peer.close()


def test_a_batch_that_nobody_has_read_yet_is_waited_for(make_server, tmp_path):
    """Whom its file names is not known: the erasure ends once it is over, and what it stored then is erased."""
    clock, peer = FakeClock(tmp_path), Peer()
    peer.answer = lambda request: 400
    server = make_server(config={**configuration(peer), "server": {"roles": "api,maintain"}}, clock=clock)
    filled(server)
    client, number = new_client(server), phone()
    batch = upload(client, json.dumps([{"PhoneNumber": number, "Name": "Ana"}]).encode()).json["batchId"]
    assert purge(server, subject=number, dryRun=True)["skipped"] == {"ImportBatch": 1}
    answer = server.admin().post("/admin/purge", {"subject": number})
    assert (answer.status, answer.json["state"], answer.json["skipped"]) == (202, "Running", {"ImportBatch": 1}), answer
    told = server.cli("purge", "--subject", email())
    assert told.returncode == 0 and "when they are over" in told.stdout, told
    server.args = ("--set", "server.roles=all")
    server.restart()
    wait_end(client, batch)
    clock.advance(minutes=2)
    found = ended(server, answer.json["jobId"])
    assert (found["counts"], found["skipped"]) == ({"ImportItem": 1, "ImportKept": 1}, {})
    assert places(server, phone=number) == {}
    assert count(server, "ImportItem", f"PayloadJson = '{ERASED}'") == 1
    peer.close()


# --- documents that come again ---


def running(server, rows, client, number):
    """An erasure that waits for a ticket: the ticket and the job."""
    waiting = send_ticket(client, phone=number)
    settle_ticket(rows, waiting)
    rows.write(f"UPDATE TB_TICKET_INTERFACE SET Status = 'Awaiting' WHERE Id = {waiting}")  # taken up again by nobody
    answer = server.admin().post("/admin/purge", {"subject": number})
    assert answer.status == 202, answer
    return waiting, answer.json["jobId"]


def test_what_came_again_after_the_erasure_stays(make_server, tmp_path):
    clock = FakeClock(tmp_path)
    server = make_server(config=MAINTAIN, clock=clock)
    filled(server)
    client, rows, number = new_client(server), Rows(server.backend), phone()
    sent, doc = ticket(), f"CP_{uuid.uuid4().hex[:16]}"
    again = client.post("/api/tickets", sent).json["id"]
    party = client.post("/api/counterparties", counterparty(doc)).json["id"]
    other = ticket()
    called = client.post("/api/tickets", other).json["id"]
    settle_ticket(rows, called)
    waiting, job_id = running(server, rows, client, number)
    clock.advance(seconds=1)
    assert client.post("/api/tickets", {**sent, "phone": number}).json["id"] == again
    settle_ticket(rows, again)
    client.post("/api/counterparties", counterparty(doc, addresses=[{"addressTypeCode": "1", "phone": number}]))
    call_back(client, other, by=number)
    settle_ticket(rows, waiting)
    clock.advance(minutes=2)
    found = ended(server, job_id)
    assert found["counts"] == {"TB_TICKET_INTERFACE": 1}
    assert places(server, phone=number) == {"ticket": [again, called], "counterparty": [party]}
    assert columns(server, "TB_TICKET_INTERFACE", waiting, "RawPayloadJson") == [ERASED]
    assert number[3:] in columns(server, "TB_TICKET_INTERFACE", again, "RawPayloadJson")[0]
    clock.advance(seconds=1)
    assert erase(server, number)["counts"] == {"TB_TICKET_INTERFACE": 2, "TB_COUNTERPARTIES": 1}


def call_back(client, sent, **fields):
    key = {k: sent[k] for k in ("businessEntity", "businessDocId", "phaseCode")}
    answer = client.post("/api/tickets/callback", {**key, "status": "Success", **fields})
    assert answer.status == 200, answer


def test_a_reprocessed_ticket_forgets_whom_its_callback_named(server, client, rows):
    first, second, sent = phone(), phone(), ticket()
    ticket_id = client.post("/api/tickets", sent).json["id"]
    settle_ticket(rows, ticket_id)
    call_back(client, sent, by=first)
    assert places(server, phone=first) == {"ticket": [ticket_id]}
    assert server.admin().post(f"/admin/tickets/{ticket_id}/reprocess").status in (200, 202)
    assert places(server, phone=first) == {}
    settle_ticket(rows, ticket_id)
    call_back(client, sent, by=second)
    assert erase(server, first)["counts"] == {}
    assert places(server, phone=second) == {"ticket": [ticket_id]}
    assert columns(server, "TB_TICKET_INTERFACE", ticket_id, "ErasedAt") == [None]


# --- many ---


def test_documents_that_stay_hide_no_other(make_server, tmp_path):
    clock = FakeClock(tmp_path)
    server = make_server(config=MAINTAIN, clock=clock)
    filled(server)
    client, rows, number = new_client(server), Rows(server.backend), phone()
    ids = [send_ticket(client, phone=number) for _ in range(350)]
    rows.write("UPDATE TB_TICKET_INTERFACE SET Status = 'Processed', NextAttemptAt = NULL, GatewaySendStatus = 'Sent', "
               "GatewaySendNextAttemptAt = NULL")
    stay = ids[::9]
    rows.write(f"UPDATE TB_TICKET_INTERFACE SET Status = 'Awaiting' WHERE Id IN ({', '.join(map(str, stay))})")
    answer = server.admin().post("/admin/purge", {"subject": number})
    assert (answer.status, answer.json["counts"], answer.json["skipped"]) == (
        202, {"TB_TICKET_INTERFACE": len(ids) - len(stay)}, {"TB_TICKET_INTERFACE": len(stay)}), answer
    rows.write("UPDATE TB_TICKET_INTERFACE SET Status = 'Processed'")
    clock.advance(minutes=2)
    found = ended(server, answer.json["jobId"])
    assert (found["counts"], found["skipped"]) == ({"TB_TICKET_INTERFACE": len(ids)}, {})


def test_a_number_that_very_many_share(server, client, rows):
    """More places than a question may have: an import of everybody under one phone."""
    number, a_chunk = phone(), 1000
    known = bytes.fromhex(ask(server, phone=number)["subject"]["hash"])[:8] + b"\x01"
    batch = rows.batch(client)
    rows.items(batch, [(0, None, {"PhoneNumber": number}) for _ in range(3)])
    rows.insert("ImportSubjects", [
        {"BatchId": batch, "ChunkId": c, "Entries": b"".join(known + n.to_bytes(4, "big") for n in range(c * a_chunk, (c + 1) * a_chunk))}
        for c in range(101)])
    assert server.admin().get(f"/admin/subjects?{urlencode({'phone': number})}").status == 413
    assert erase(server, number)["counts"] == {"ImportItem": 3}
    assert places(server, phone=number) == {}
    assert count(server, "ImportItem", f"BatchId = '{batch}' AND PayloadJson = '{ERASED}'") == 3


# --- the ledger ---


def lines(server):
    path = server.directory / "data" / "erasures"
    return path.read_text().splitlines() if path.exists() else []


def test_a_restored_database_is_erased_again(make_server, tmp_path):
    """A copy of the tables takes the place of a backup, so that it is the same on every database."""
    server = make_server(config=MAINTAIN)
    client, rows = new_client(server), Rows(server.backend)
    number = phone()
    made = everything(server, client, rows, number)
    entries = server.backend.query("SELECT Hash, Place, RowKey FROM SubjectIndex")
    payload = columns(server, "TB_TICKET_INTERFACE", made["ticket"], "RawPayloadJson")[0]
    done = erase(server, number)
    assert len(lines(server)) == 1 and number[3:] not in lines(server)[0]
    server.stop()
    rows.write("DELETE FROM Erasures")
    rows.write("DELETE FROM PurgeJobs")
    rows.write(f"UPDATE TB_TICKET_INTERFACE SET RawPayloadJson = {rows.literal(payload)}, ErasedAt = NULL WHERE Id = {made['ticket']}")
    rows.insert("SubjectIndex", [{"Hash": h, "Place": p, "RowKey": r} for h, p, r in entries if p == "ticket"])
    server.start()
    found = ended(server, done["jobId"])
    assert (found["createdBy"], found["counts"]) == ("ledger", {"TB_TICKET_INTERFACE": 1})
    assert columns(server, "TB_TICKET_INTERFACE", made["ticket"], "RawPayloadJson") == [ERASED]
    assert server.log("ErasuresAppliedAgain")
    later = send_ticket(client, phone=number)
    server.restart()
    assert places(server, phone=number) == {"ticket": [later]} and len(lines(server)) == 1


def test_a_backup_of_an_earlier_release_is_erased_again(make_server):
    """It has no index of people: the erasure waits until every document was looked through."""
    server = make_server(config=MAINTAIN)
    client, rows = new_client(server), Rows(server.backend)
    number = phone()
    ticket_id = send_ticket(client, phone=number)
    payload = columns(server, "TB_TICKET_INTERFACE", ticket_id, "RawPayloadJson")[0]
    settle_ticket(rows, ticket_id)
    done = erase(server, number)
    server.stop()
    restore = [f"UPDATE TB_TICKET_INTERFACE SET RawPayloadJson = {rows.literal(payload)}, ErasedAt = NULL",
               *(f"DELETE FROM {table}" for table in ("Erasures", "PurgeJobs", "SubjectIndex", "SubjectFill"))]
    for statement in restore:
        rows.write(statement)
    server.start()
    assert ended(server, done["jobId"])["counts"] == {"TB_TICKET_INTERFACE": 1}
    assert columns(server, "TB_TICKET_INTERFACE", ticket_id, "RawPayloadJson") == [ERASED]
    # The command fills the index itself.
    server.stop()
    for statement in restore:
        rows.write(statement)
    (server.directory / "data" / "erasures").unlink()
    told = server.cli("purge", "--phone", number, "--json")
    assert told.returncode == 0 and json.loads(told.stdout)["counts"] == {"TB_TICKET_INTERFACE": 1}, told
    assert columns(server, "TB_TICKET_INTERFACE", ticket_id, "RawPayloadJson") == [ERASED]


def test_a_backup_that_is_restored(make_sqlite_server, tmp_path):
    server = make_sqlite_server(config=MAINTAIN)
    client, rows = new_client(server), Rows(server.backend)
    number = phone()
    made = everything(server, client, rows, number)
    assert server.cli("backup", str(tmp_path / "copy.db")).returncode == 0
    done = erase(server, number)
    server.stop()
    assert server.cli("restore", str(tmp_path / "copy.db")).returncode == 0
    assert number[3:] in columns(server, "TB_TICKET_INTERFACE", made["ticket"], "RawPayloadJson")[0]
    server.start()
    assert sum(ended(server, done["jobId"])["counts"].values()) == 5
    assert places(server, phone=number) == {}


def test_lines_that_nobody_wrote_here_erase_nobody(make_server):
    server = make_server(config=MAINTAIN)
    client, rows = new_client(server), Rows(server.backend)
    number = phone()
    made = everything(server, client, rows, number)
    known = ask(server, phone=number)["subject"]["hash"]
    server.stop()
    path = server.directory / "data" / "erasures"
    forged = f"1 {uuid.uuid4()} phone:{known} 2027-01-01T00:00:00.000Z {'0' * 64}"
    path.write_text("\n".join([forged, "", "x" * 5000, "1 2 3", forged[:40]]))
    server.start()
    wait_for(lambda: server.log("ErasureLineIgnored"), "the lines")
    assert len(places(server, phone=number)) == len(made)
    assert erase(server, number)["state"] == "Done"
    assert lines(server)[-1].split()[2] == f"phone:{known}" and lines(server)[-2] == forged[:40]


def test_another_hosts_ledger_gets_the_entries(make_server, make_backend, tmp_path):
    backend = make_backend()
    key = {"security": {"master_key": "ab" * 32}}
    clock = FakeClock(tmp_path)
    first = make_server(backend=backend, config={**MAINTAIN, **key})
    erase(first, phone())
    second = make_server(backend=backend, config={**MAINTAIN, **key}, clock=clock)
    wait_for(lambda: lines(second) == lines(first), "the entry")
    erase(first, email())
    clock.advance(minutes=2)
    wait_for(lambda: lines(second) == lines(first), "the second entry")


def test_an_erasure_waits_for_what_is_on_its_way_again(make_server, tmp_path):
    """A document that the restored database has on its way is erased once it is over."""
    clock = FakeClock(tmp_path)
    server = make_server(config=MAINTAIN, clock=clock)
    client, rows = new_client(server), Rows(server.backend)
    number = phone()
    ticket_id = send_ticket(client, phone=number)
    entries = server.backend.query("SELECT Hash, Place, RowKey FROM SubjectIndex")
    payload = columns(server, "TB_TICKET_INTERFACE", ticket_id, "RawPayloadJson")[0]
    settle_ticket(rows, ticket_id)
    done = erase(server, number)
    server.stop()
    rows.write("DELETE FROM Erasures")
    rows.write("DELETE FROM PurgeJobs")
    rows.write(f"UPDATE TB_TICKET_INTERFACE SET RawPayloadJson = {rows.literal(payload)}, ErasedAt = NULL, Status = 'Awaiting', "
               f"NextAttemptAt = CreatedAt WHERE Id = {ticket_id}")
    rows.insert("SubjectIndex", [{"Hash": h, "Place": p, "RowKey": r} for h, p, r in entries])
    server.start()
    wait_for(lambda: count(server, "PurgeJobs", "Phase > 0 AND CursorKey IS NULL"), "the end of a pass")
    found = job(server, done["jobId"])
    assert (found["state"], found["skipped"]) == ("Running", {"TB_TICKET_INTERFACE": 1})
    settle_ticket(rows, ticket_id)
    clock.advance(minutes=2)
    found = ended(server, done["jobId"])
    assert (found["state"], found["counts"], found["skipped"]) == ("Done", {"TB_TICKET_INTERFACE": 1}, {})
    assert columns(server, "TB_TICKET_INTERFACE", ticket_id, "RawPayloadJson") == [ERASED]


def test_an_erasure_that_is_killed_ends_the_same(make_server, tmp_path):
    clock = FakeClock(tmp_path)
    server = make_server(config=MAINTAIN, clock=clock)
    client, rows = new_client(server), Rows(server.backend)
    number = phone()
    ids = [send_ticket(client, phone=number) for _ in range(400)]
    rows.write("UPDATE TB_TICKET_INTERFACE SET Status = 'Processed', NextAttemptAt = NULL, GatewaySendStatus = 'Sent', "
               "GatewaySendNextAttemptAt = NULL")

    def ask_once():
        with contextlib.suppress(OSError, http.client.HTTPException):  # the server is killed
            server.admin().post("/admin/purge", {"subject": number})

    asked = threading.Thread(target=ask_once)
    asked.start()
    wait_for(lambda: count(server, "TB_TICKET_INTERFACE", "ErasedAt IS NOT NULL"), "the first")
    server.kill()
    asked.join()
    clock.advance(minutes=2)
    server.start()
    [found] = server.admin().get("/admin/purge").json["items"]
    found = ended(server, found["jobId"])
    assert (found["state"], found["counts"]) == ("Done", {"TB_TICKET_INTERFACE": len(ids)})
    assert count(server, "TB_TICKET_INTERFACE", f"RawPayloadJson = '{ERASED}'") == len(ids) and len(lines(server)) == 1
    assert places(server, phone=number) == {}
