"""Messages of imports are stored in English, and follow the language of whoever reads them."""

import json

import pytest
from harness import wait_for
from test_imports_read import PENDING, PROCESSING, SCHEDULED, Rows, Stream
from test_sandbox import Sandbox

PT = {"Accept-Language": "pt-BR"}
LEADS = "Telefone;Nome\n11 98765-4321;Ana\n;Rui\n123;Eva\n11 98765-4321;Ana\n"
ENGLISH = {1: "PhoneNumber: there is none", 2: "PhoneNumber: too few digits"}
PORTUGUESE = {1: "PhoneNumber: não há", 2: "PhoneNumber: dígitos de menos"}


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    box = Sandbox(tmp_path_factory.mktemp("box"))
    yield box
    box.finish()


@pytest.fixture
def done(make_server, box):
    """A server, a client, and its batch with two errors and a repeat."""
    server = make_server(config={"omniflow": {"url": "http://{}:{}".format(*box.host_port), "api_key": "k"}})
    client = server.new_client(scopes=["imports"])
    made = upload(client, LEADS)
    wait_for(lambda: client.get(f"/imports/{made}").json["status"] == "CompletedWithErrors", "the end of the batch")
    return server, client, made


def upload(client, text):
    body = (f'--x\r\nContent-Disposition: form-data; name="file"; filename="leads.csv"\r\n\r\n{text}\r\n--x--\r\n').encode()
    answer = client.request("POST", "/imports", body, headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert answer.status == 202, answer
    return answer.json["batchId"]


def test_items_batch_reports_and_events(done):
    server, client, batch = done
    for caller, prefix in ((client, ""), (server.admin(), "/admin")):
        for headers, wanted, language in (({}, ENGLISH, "en"), (PT, PORTUGUESE, "pt-BR")):
            items = caller.get(f"{prefix}/imports/{batch}/items?status=Error", headers=headers)
            assert items.headers["Content-Language"] == language and items.headers["Vary"] == "Accept-Language"
            assert {i["sequence"]: i["errorMessage"] for i in items.json["items"]} == wanted
            assert {i["field"] for i in items.json["items"]} == {"PhoneNumber"}
            shown = caller.get(f"{prefix}/imports/{batch}", headers=headers)
            assert shown.headers["Content-Language"] == language
            assert shown.json["errorSummary"] == dict.fromkeys(wanted.values(), 1)
            assert shown.json["lastError"] in wanted.values() and shown.json["status"] == "CompletedWithErrors"
            listed = caller.get(f"{prefix}/imports", headers=headers)
            assert listed.headers["Content-Language"] == language and listed.json["items"][0]["lastError"] in wanted.values()
    for headers, wanted, language in (({}, ENGLISH, "en"), (PT, PORTUGUESE, "pt-BR")):
        report = client.get(f"/imports/{batch}/errors.csv", headers=headers)
        assert report.headers["Content-Language"] == language
        lines = report.body.decode("utf-8-sig").splitlines()
        assert [line.rpartition(",")[2] for line in lines] == ["DataFlow Error", *wanted.values()]
        told = client.get(f"/imports/{batch}/errors.json", headers=headers).json
        assert all(text in json.dumps(told, ensure_ascii=False) for text in wanted.values())


def test_a_repeat_and_the_refusal_of_a_file(done):
    _, client, batch = done
    skipped = client.get(f"/imports/{batch}/items?status=Skipped", headers=PT).json["items"]
    assert [(i["errorMessage"], i["field"]) for i in skipped] == [("repetição de um registro anterior", None)]
    broken = upload(client, 'Telefone\n"11 98765-4321\n')
    failed = wait_for(lambda: (b := client.get(f"/imports/{broken}", headers=PT).json)["status"] == "Failed" and b, "a failed batch")
    assert failed["lastError"] == "a aspa que abre na linha 2 nunca fecha"
    assert client.get(f"/imports/{broken}").json["lastError"] == "the quote that opens in row 2 is never closed"


def test_events_of_two_readers_at_once(server):
    """One look at the database serves both."""
    rows, client = Rows(server.backend), server.new_client(scopes=["imports"])
    batch = rows.batch(client, PROCESSING, TotalRecords=100)
    reader = server.client(client.id, client.secret)
    reader.headers = {**reader.headers, **PT}
    with Stream(client, batch) as english, Stream(reader, batch) as portuguese:
        assert english.response.headers["Content-Language"] == "en"
        assert portuguese.response.headers["Content-Language"] == "pt-BR"
        (kind, first), (other, second) = english.next(), portuguese.next()
        assert first["waiting"].pop("detail") == "its worker is gone, and the next one goes on with it"
        assert second["waiting"].pop("detail") == "o processo que o tinha se foi, e o próximo continua"
        assert (kind, first) == (other, second)
        rows.change(batch, LastError="OmniFlow refused every item")
        assert english.next()[1]["lastError"] == "OmniFlow refused every item"
        assert portuguese.next()[1]["lastError"] == "O OmniFlow recusou todos os itens"


def test_what_a_batch_waits_for(make_server):
    """Nobody works on batches here."""
    server = make_server(config={"server": {"roles": "api"}})
    rows, client = Rows(server.backend), server.new_client(scopes=["imports"])
    first = rows.batch(client, PENDING, "2026-01-01T00:00:00.000Z")
    away = rows.batch(client, PENDING, "2026-01-02T00:00:00.000Z", WaitingSince="2026-01-02T00:00:00.000Z")
    later = rows.batch(client, SCHEDULED, ScheduledFor="2999-01-01T00:00:00.000Z")
    told = {first: ("InLine", "the next worker takes it", "o próximo processo livre o pega"),
            away: ("OmniFlowAway", "OmniFlow takes nothing at present", "o OmniFlow não aceita nada no momento"),
            later: ("Schedule", "the policy lets it begin later", "a política deixa começar mais tarde")}
    for caller, prefix in ((client, ""), (server.admin(), "/admin")):
        for batch, (code, english, portuguese) in told.items():
            for headers, detail in (({}, english), (PT, portuguese)):
                waiting = caller.get(f"{prefix}/imports/{batch}", headers=headers).json["waiting"]
                assert (waiting["code"], waiting["detail"]) == (code, detail)
        listed = caller.get(f"{prefix}/imports", headers=PT).json["items"]
        assert told[later][2] in {b["waiting"]["detail"] for b in listed}
    reader = server.client(client.id, client.secret)
    reader.headers = {**reader.headers, **PT}
    with Stream(reader, away) as stream:
        assert stream.next()[1]["waiting"]["detail"] == told[away][2]


def test_what_is_stored_is_english(done):
    server, client, batch = done
    client.get(f"/imports/{batch}/items", headers=PT)
    rows = server.backend.query("SELECT ErrorMessage FROM ImportItem WHERE ErrorMessage IS NOT NULL")
    assert set(ENGLISH.values()) <= {r[0] for r in rows}
