"""Messages of imports are stored in English, and follow the language of whoever reads them."""

import json

import pytest
from harness import wait_for
from test_imports_read import PROCESSING, Rows, Stream
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
        assert english.next() == portuguese.next()
        rows.change(batch, LastError="OmniFlow refused every item")
        assert english.next()[1]["lastError"] == "OmniFlow refused every item"
        assert portuguese.next()[1]["lastError"] == "O OmniFlow recusou todos os itens"


def test_what_is_stored_is_english(done):
    server, client, batch = done
    client.get(f"/imports/{batch}/items", headers=PT)
    rows = server.backend.query("SELECT ErrorMessage FROM ImportItem WHERE ErrorMessage IS NOT NULL")
    assert set(ENGLISH.values()) <= {r[0] for r in rows}
