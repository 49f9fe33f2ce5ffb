"""What is stored of people: masked items, failed records that are kept for a time, free text, older rows."""

import datetime
import json
import threading

import pytest
from harness import FakeClock, wait_for
from test_imports_process import configuration, make_peer, send, wait_end  # noqa: F401 (fixtures)
from test_imports_receive import execute, taken, upload
from test_interface_tickets import flat

PEOPLE = [{"Nome": "Maria Aparecida", "Fone": "(51) 99900-0001", "CPF": "529.982.247-25", "E-mail": "maria@example.com",
           "Obs": "ligar para +5551999000002"},
          {"Nome": "João Batista", "Fone": "51 99900-0003", "Documento": "12.ABC.345/01DE-35", "Cor": "azul"}]
CLEAR = ("Maria", "Aparecida", "João", "Batista", "+5551999000001", "+5551999000002", "+5551999000003", "99900-000",
         "529.982.247-25", "12.ABC.345/01DE-35", "maria@example.com")


def masking(peer, mode="mask", **more):
    return configuration(peer, sensitive_data={"mode": mode, "payload_ttl_hours": 48, **more})


def texts(server, batch):
    """Everything that the tables of imports have of the batch."""
    found = []
    for query in (f"SELECT PayloadJson, OriginalJson, ErrorMessage FROM ImportItem WHERE BatchId = '{batch}' ORDER BY Sequence",
                  f"SELECT LastError, ErrorSummary, MetadataJson, RequestedBy, FileName, ColumnsJson FROM ImportBatch WHERE Id = '{batch}'",
                  f"SELECT ErrorMessage, AckJson FROM ImportChunk WHERE BatchId = '{batch}'"):
        found += [text for row in server.backend.query(query) for text in row if text]
    return found


def in_clear(server, batch):
    return {word for word in CLEAR for text in texts(server, batch) if word in text}


def kept(server, batch):
    return [bytes(row[0]) for row in
            server.backend.query(f"SELECT Sealed FROM ImportKept WHERE BatchId = '{batch}' ORDER BY Sequence")]


def report(client, batch):
    return [{k: v for k, v in row.items() if not k.startswith("DataFlow ")}
            for row in client.get(f"/imports/{batch}/errors.json").json]


def refuse(request):
    """Quotes the item, as peers do."""
    return 422, json.dumps({"message": "no", "item": request.body["items"][0]}).encode()


def test_items_are_masked_and_failed_records_kept_until_their_time_is_over(make_server, make_peer, tmp_path):  # noqa: F811
    clock, peer = FakeClock(tmp_path), make_peer()
    server = make_server(config=masking(peer), clock=clock)
    client = server.new_client()
    peer.answer = refuse
    batch = taken(upload(client, json.dumps(PEOPLE).encode(), "lista 529.982.247-25.json",
                         requestedBy="maria@example.com", metadata=json.dumps({"nome": "Maria", "n": 1})))
    found = wait_end(client, batch)
    assert found["status"] == "CompletedWithErrors" and in_clear(server, batch) == set()
    assert (found["fileName"], found["metadata"]) == ("lista ***.***.***-25.json", {"nome": "***", "n": 1})
    items = [json.loads(row[0]) for row in server.backend.query(
        f"SELECT PayloadJson FROM ImportItem WHERE BatchId = '{batch}' ORDER BY Sequence")]
    assert items[0]["PhoneNumber"] == "+***********01" and items[1]["LeadContextJson"]["Cor"] == "azul"
    assert items[0]["LeadContextJson"]["Notes"] == "ligar para +***********02"
    rows = server.backend.query(f"SELECT IsMasked, PayloadHash FROM ImportItem WHERE BatchId = '{batch}'")
    assert all(masked in (1, True) and len(digest) == 64 for masked, digest in rows)

    # The owner sees what was uploaded and sent; the rows are not readable.
    assert report(client, batch) == PEOPLE
    shown = client.get(f"/imports/{batch}/items").json["items"]
    assert [i["payload"]["PhoneNumber"] for i in shown] == ["+5551999000001", "+5551999000003"]
    sealed = kept(server, batch)
    assert len(sealed) == 2 and not any(b"Maria" in s or b"519990" in s for s in sealed)

    # The time stands still while a retry runs, and what is sent again is the same byte for byte.
    clock.advance(hours=40)
    peer.reset()
    peer.answer = refuse
    first = [r.body["items"] for r in peer.came(batch)]
    assert client.post(f"/imports/{batch}/retry").status == 202
    assert wait_end(client, batch)["status"] == "CompletedWithErrors"
    again = [i for r in peer.came(batch) for i in r.body["items"]]
    assert [i["PhoneNumber"] for i in again] == ["+5551999000001", "+5551999000003"] and first == []
    assert again[0]["LeadContextJson"]["Name"] == "Maria Aparecida"
    clock.advance(hours=7)
    assert report(client, batch) == PEOPLE
    clock.advance(hours=2)
    wait_for(lambda: kept(server, batch) == [], "the kept records are gone")
    assert [r["PhoneNumber"] for r in report(client, batch)] == ["+***********01", "+***********03"]
    answer = client.post(f"/imports/{batch}/retry")
    assert (answer.status, answer.code) == (410, "PayloadExpired")
    shown = client.get(f"/imports/{batch}/items?status=Error").json["items"]
    assert [i["payload"]["PhoneNumber"] for i in shown] == ["+***********01", "+***********03"]
    assert server.log("PayloadsExpired")[0]["records"] == 2
    figures = server.admin().get("/metrics").body.decode()
    assert "dataflow_items_masked_total 2\n" in figures and "dataflow_items_expired_total 2\n" in figures


def test_what_is_over_is_not_shown_before_it_is_removed(make_server, make_peer, tmp_path):  # noqa: F811
    """Nobody has the role that removes it."""
    clock, peer = FakeClock(tmp_path), make_peer()
    server = make_server(config={**masking(peer), "server": {"roles": "api,import"}}, clock=clock)
    client = server.new_client()
    peer.answer = refuse
    batch = send(client, PEOPLE)
    wait_end(client, batch)
    clock.advance(hours=49)
    assert len(kept(server, batch)) == 2
    assert [r["PhoneNumber"] for r in report(client, batch)] == ["+***********01", "+***********03"]
    assert client.post(f"/imports/{batch}/retry").status == 410


def test_a_record_that_arrives_later_is_not_kept(make_server, make_peer):  # noqa: F811
    peer = make_peer()
    server = make_server(config=masking(peer))
    client = server.new_client()
    peer.answer = refuse
    batch = send(client, PEOPLE)
    wait_end(client, batch)
    peer.answer = lambda request: 200
    assert len(kept(server, batch)) == 2 and client.post(f"/imports/{batch}/retry").status == 202
    assert wait_end(client, batch)["status"] == "Completed"
    assert kept(server, batch) == [] and in_clear(server, batch) == set()


def test_a_retry_that_goes_on_sends_nothing_masked(make_server, make_peer):  # noqa: F811
    """What was kept of one record is gone when the batch is taken up again."""
    peer = make_peer()
    server = make_server(config=masking(peer))
    client = server.new_client()
    peer.answer = refuse
    batch = send(client, [{"Nome": "Maria", "Fone": f"(51) 99900-01{n:02}"} for n in range(20)])
    wait_end(client, batch)
    hang = threading.Event()

    def answer(request):
        if request.nth == 1:
            hang.wait(20)
        return 200

    peer.reset()
    peer.answer = answer
    assert client.post(f"/imports/{batch}/retry").status == 202
    wait_for(lambda: len(peer.came(batch)) == 2, "both chunks under way")
    server.kill()
    execute(server, f"DELETE FROM ImportKept WHERE BatchId = '{batch}' AND Sequence = 3")
    server.start()
    found = wait_end(client, batch)
    hang.set()
    assert (found["status"], found["errorCount"]) == ("CompletedWithErrors", 10)
    sent = [i["PhoneNumber"] for r in peer.came(batch) for i in r.body["items"]]
    assert len(sent) == 30 and set(sent) == {f"+55519990001{n:02}" for n in range(20)}
    shown = client.get(f"/imports/{batch}/items?status=Error&pageSize=50").json["items"]
    assert len(shown) == 10 and all("no longer kept" in i["errorMessage"] for i in shown)
    # The others of its chunk can still be tried.
    assert client.post(f"/imports/{batch}/retry").status == 202
    found = wait_end(client, batch)
    assert (found["status"], found["errorCount"]) == ("CompletedWithErrors", 1)


def test_a_kept_record_that_was_moved_does_not_open(make_server, make_peer):  # noqa: F811
    peer = make_peer()
    server = make_server(config=masking(peer))
    client = server.new_client()
    peer.answer = refuse
    batch = send(client, PEOPLE)
    wait_end(client, batch)
    execute(server, f"UPDATE ImportKept SET Sequence = 9 WHERE BatchId = '{batch}' AND Sequence = 0")
    execute(server, f"UPDATE ImportKept SET Sequence = 0 WHERE BatchId = '{batch}' AND Sequence = 1")
    assert client.get(f"/imports/{batch}/errors.json").status == 500
    shown = client.get(f"/imports/{batch}/items?status=Error").json["items"]
    assert [i["payload"]["PhoneNumber"] for i in shown] == ["+***********01", "+***********03"], "as it is stored"


@pytest.mark.parametrize("mode", ["hash", "drop", "keep"])
def test_the_modes(make_server, make_peer, mode):  # noqa: F811
    peer = make_peer()
    server = make_server(config=masking(peer, mode))
    client = server.new_client()
    batch = send(client, PEOPLE)
    wait_end(client, batch)
    [first, second] = [json.loads(row[0]) for row in server.backend.query(
        f"SELECT PayloadJson FROM ImportItem WHERE BatchId = '{batch}' ORDER BY Sequence")]
    if mode == "keep":
        assert first["PhoneNumber"] == "+5551999000001" and first["LeadContextJson"]["Name"] == "Maria Aparecida"
        return
    assert in_clear(server, batch) == set() and second["LeadContextJson"]["Cor"] == "azul"
    if mode == "drop":
        assert "PhoneNumber" not in first and set(second["LeadContextJson"]) == {"Cor"}
    else:
        assert all(v.startswith("hmac:") and len(v) == 37 for v in (first["PhoneNumber"], first["LeadContextJson"]["Name"]))


def test_fields_of_the_settings(make_server, make_peer):  # noqa: F811
    peer = make_peer()
    server = make_server(config=masking(peer, fields="LeadContextJson.cor, obs"))
    client = server.new_client()
    batch = send(client, PEOPLE)
    wait_end(client, batch)
    [first, second] = [json.loads(row[0]) for row in server.backend.query(
        f"SELECT PayloadJson FROM ImportItem WHERE BatchId = '{batch}' ORDER BY Sequence")]
    assert first["LeadContextJson"]["Name"] == "Maria Aparecida" and second["LeadContextJson"]["Cor"] == "***"
    assert first["PhoneNumber"] == "+***********01", "whatever its name: the value says what it is"


def test_older_rows_are_masked_by_a_command(make_server, make_peer):  # noqa: F811
    """Beside a server that still works as before."""
    peer = make_peer()
    old = make_server(config=masking(peer, "keep"))
    client = old.new_client()
    peer.answer = lambda request: (422, f"not {request.body['items'][0]['PhoneNumber']}".encode())
    failed = send(client, PEOPLE)
    wait_end(client, failed)
    long_ago = send(client, PEOPLE)
    wait_end(client, long_ago)
    then = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=9)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    execute(old, f"UPDATE ImportBatch SET CompletedAt = '{then}', LastError = 'CPF 529.982.247-25'"
                        f" WHERE Id = '{long_ago}'")
    assert in_clear(old, failed) and report(client, failed) == PEOPLE

    def mask(*args):
        done = old.cli("mask", "--json", "--set", "sensitive_data.mode=mask", *args)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    counted = mask("--dry-run")
    assert counted == {"items": 4, "kept": 0, "callbacks": 0, "texts": counted["texts"], "dryRun": True}
    assert in_clear(old, failed) and counted["texts"] >= 1
    assert mask() == {"items": 4, "kept": 2, "callbacks": 0, "texts": counted["texts"], "dryRun": False}
    assert in_clear(old, failed) == set() and in_clear(old, long_ago) == set()
    assert report(client, failed) == PEOPLE and kept(old, long_ago) == []
    assert client.post(f"/imports/{long_ago}/retry").code == "PayloadExpired"
    peer.answer = lambda request: 200
    assert client.post(f"/imports/{failed}/retry").status == 202
    assert wait_end(client, failed)["status"] == "Completed"
    assert mask() == {"items": 0, "kept": 0, "callbacks": 0, "texts": 0, "dryRun": False}
    entries = [e for e in old.admin().get("/admin/audit").json["items"] if e["action"] == "PayloadsMasked"]
    assert len(entries) == 1


def test_older_names_of_files_and_codes_of_callbacks_are_masked_by_the_command(make_server, make_peer):  # noqa: F811
    server = make_server(config=masking(make_peer(), "keep"))
    client = server.new_client(scopes=["imports", "interface"])
    over, waiting = (send(client, PEOPLE) for _ in range(2))
    ticket = client.post("/api/tickets", flat()).json["id"]
    for batch in (over, waiting):
        wait_end(client, batch)
    server.stop()
    execute(server, "UPDATE ImportBatch SET FileName = '529.982.247-25.csv'")
    execute(server, f"UPDATE ImportBatch SET Status = 0 WHERE Id = '{waiting}'")
    execute(server, f"UPDATE TB_TICKET_INTERFACE SET CallbackCode = '529.982.247-25' WHERE Id = {ticket}")
    assert server.cli("mask", "--set", "sensitive_data.mode=mask").returncode == 0
    names = dict(server.backend.query("SELECT CAST(Id AS VARCHAR(36)), FileName FROM ImportBatch"))
    assert "529" not in names[over] and names[over].endswith(".csv") and names[waiting] == "529.982.247-25.csv"
    assert "529" not in server.backend.query(f"SELECT CallbackCode FROM TB_TICKET_INTERFACE WHERE Id = {ticket}")[0][0]


HEADLESS = b"Fone;529.982.247-25;maria@example.com\n51999000001;a;b\n"  # its first person is in the names of columns


def test_names_of_columns_that_are_personal_are_not_stored(make_server, make_peer):  # noqa: F811
    peer = make_peer()
    server = make_server(config=masking(peer))
    client = server.new_client()
    peer.answer = refuse
    batch = taken(upload(client, HEADLESS, "lista.csv"))
    wait_end(client, batch)
    assert in_clear(server, batch) == set()
    assert report(client, batch) == [{"Fone": "51999000001", "529.982.247-25": "a", "maria@example.com": "b"}]
    plain = taken(upload(client, b"Fone;Cor\n51999000002;azul\n", "lista.csv"))
    wait_end(client, plain)
    [[columns]] = server.backend.query(f"SELECT ColumnsJson FROM ImportBatch WHERE Id = '{plain}'")
    assert json.loads(columns) == [["Fone", "Fone"], ["Cor", "Cor"]]


def test_older_names_of_columns_are_masked_by_the_command(make_server, make_peer):  # noqa: F811
    server = make_server(config=masking(make_peer(), "keep"))
    client = server.new_client()
    batch = taken(upload(client, HEADLESS, "lista.csv"))
    wait_end(client, batch)
    assert in_clear(server, batch) >= {"529.982.247-25", "maria@example.com"}
    done = server.cli("mask", "--json", "--set", "sensitive_data.mode=mask")
    assert done.returncode == 0 and json.loads(done.stdout)["texts"] == 1, done.stderr
    assert in_clear(server, batch) == set()


def test_a_bad_list_of_fields_is_refused(make_server, make_peer):  # noqa: F811
    server = make_server(config=masking(make_peer()))
    done = server.cli("check-config", "--set", "sensitive_data.fields=a..b")
    assert done.returncode != 0 and "[sensitive_data] fields" in done.stdout + done.stderr
