"""Counterparties that another system takes: PATCH with the ETag of what it read, and what a newer payload does to it."""

import threading
import uuid

import pytest
from harness import Server
from test_openapi import DOCUMENT, check

PATH = "/api/counterparties"


@pytest.fixture(scope="module")
def server(_module_backends, tmp_path_factory):
    made = Server(_module_backends(), tmp_path_factory.mktemp("server"), config={"server": {"roles": "api"}})
    yield made.start()
    made.finish()


@pytest.fixture(scope="module")
def sender(server):
    return server.new_client("Sender", scopes=["interface"])


@pytest.fixture(scope="module")
def taker(server):
    return server.new_client("Taker", scopes=["interface-all"])


def party(doc, **fields):
    return {"businessDocId": doc, "businessEntity": "PRC", "counterpartyId": "0050-7", "name": "N", "entityType": "CLI",
            "fiscalReferences": [{"fiscalNumber": doc[-20:]}], **fields}


@pytest.fixture
def doc(sender):
    made = f"CP_{uuid.uuid4().hex}"
    assert sender.post(PATH, party(made)).status == 200
    return made


def query(doc, entity="PRC"):
    return f"{PATH}?businessEntity={entity}&businessDocID={doc}"


def read(caller, doc):
    answer = caller.get(query(doc))
    assert answer.status == 200 and answer.headers["ETag"].startswith('"'), answer
    return answer


def settle(taker, doc, etag, status="Processed", **more):
    return taker.patch(query(doc), {"status": status, **more}, headers={"If-Match": etag})


def at_once(*functions):
    results, ready = [None] * len(functions), threading.Barrier(len(functions))

    def go(i):
        ready.wait()
        results[i] = functions[i]()

    threads = [threading.Thread(target=go, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("status,message", [("Processed", None), ("Error", "no such branch"), ("processed", "as 4711")])
def test_what_was_taken_says_so(sender, taker, doc, status, message):
    before = read(taker, doc)
    assert (before.json["status"], before.json["statusMessage"]) == ("Received", None)
    answer = settle(taker, doc, before.headers["ETag"], status, **({"message": message} if message else {}))
    assert answer.status == 200, answer
    check(answer.json, DOCUMENT["components"]["schemas"]["CounterpartyItem"], "CounterpartyItem")
    assert (answer.json["status"], answer.json["statusMessage"]) == (status.capitalize(), message)
    after = read(sender, doc)
    assert after.headers["ETag"] == answer.headers["ETag"] != before.headers["ETag"]
    changed = {name for name in before.json if before.json[name] != after.json[name]}
    assert changed == {"status", "updatedAt"} | ({"statusMessage"} if message else set())
    assert {name: answer.json[name] for name in answer.json} == {name: after.json[name] for name in answer.json}


def test_a_new_payload_is_received_again_and_has_another_etag(sender, taker, doc):
    first = read(taker, doc).headers["ETag"]
    second = settle(taker, doc, first, "Error", message="why").headers["ETag"]
    assert sender.post(PATH, party(doc)).status == 200  # the same content: it is a new payload nevertheless
    third = read(taker, doc)
    assert (third.json["status"], third.json["statusMessage"]) == ("Received", None)
    assert len({first, second, third.headers["ETag"]}) == 3
    for old in (first, second):
        answer = settle(taker, doc, old)
        assert (answer.status, answer.code) == (412, "PreconditionFailed")
    assert read(taker, doc).json["status"] == "Received"
    assert settle(taker, doc, third.headers["ETag"]).status == 200


def test_a_payload_that_an_older_version_writes_has_another_etag(server, taker, doc):
    """It knows no versions, but UpdatedAt."""
    old = read(taker, doc).headers["ETag"]
    later = "2031-01-01T00:00:00.000" + ("" if server.backend.name == "sqlserver" else "Z")
    sql = f"UPDATE TB_COUNTERPARTIES SET Name = 'M', UpdatedAt = '{later}' WHERE BusinessDocId = '{doc}'"
    (server.backend.script if server.backend.name == "sqlite" else server.backend.query)(sql)
    assert settle(taker, doc, old).status == 412


@pytest.mark.parametrize("make,status", [
    (lambda etag: etag, 200),
    (lambda etag: f'"other", {etag}', 200),
    (lambda etag: f'{etag} ,"other"', 200),
    (lambda etag: None, 428),
    (lambda etag: "", 428),
    (lambda etag: "*", 428),
    (lambda etag: "W/" + etag, 412),
    (lambda etag: etag.strip('"'), 412),
    (lambda etag: '"other"', 412),
    (lambda etag: '""', 412),
    (lambda etag: ",,,", 412),
    (lambda etag: etag[:-2], 412),
    (lambda etag: '"9-9-9", ' * 200, 412),
])
def test_if_match(taker, doc, make, status):
    answer = taker.patch(query(doc), {"status": "Processed"}, headers={"If-Match": make(read(taker, doc).headers["ETag"])})
    assert answer.status == status, answer
    if status >= 400:
        assert answer.code == {412: "PreconditionFailed", 428: "PreconditionRequired"}[status]
        assert read(taker, doc).json["status"] == "Received"


@pytest.mark.parametrize("body,fields", [
    ({}, {"status"}),
    ({"status": None}, {"status"}),
    ({"status": "Received"}, {"status"}),
    ({"status": "Done", "message": 7.5}, {"status"}),
    ({"status": "x" * 100}, {"status"}),
    ({"status": {"a": 1}, "message": {"a": 1}}, {"status", "message"}),
    ({"status": "Error", "message": ["why"]}, {"message"}),
])
def test_bad_input_is_400_and_changes_nothing(taker, doc, body, fields):
    before = read(taker, doc)
    answer = taker.patch(query(doc), body, headers={"If-Match": before.headers["ETag"]})
    assert (answer.status, answer.bad_fields) == (400, fields)
    assert read(taker, doc).headers["ETag"] == before.headers["ETag"]


@pytest.mark.parametrize("body", [b"", b"[]", b'"Processed"', b"{", b'{"status":"Error","status":"Error"}',
                                  b'{"status":"Error","message":"\\u0000"}', b'{"status":"Error","message":"\xff"}'])
def test_a_body_that_is_no_document_is_400(taker, doc, body):
    etag = read(taker, doc).headers["ETag"]
    assert taker.request("PATCH", query(doc), body, headers={"If-Match": etag}).status == 400
    assert read(taker, doc).headers["ETag"] == etag


def test_the_document_must_be_named_and_there(taker, doc):
    etag = read(taker, doc).headers["ETag"]
    answer = taker.patch(f"{PATH}?businessEntity=PRC", {"status": "Done"}, headers={"If-Match": etag})
    assert (answer.status, answer.bad_fields) == (400, {"businessDocId", "status"})
    for where in (query("nobody"), query(doc, entity="TCK")):
        assert taker.patch(where, {"status": "Error"}, headers={"If-Match": etag}).status == 404
    assert taker.patch(f"{PATH}?businessDocId={doc}", {"status": "Error"}, headers={"If-Match": etag}).status == 200


def test_only_who_works_on_all(server, sender, taker, doc):
    etag = read(sender, doc).headers["ETag"]
    answer = settle(sender, doc, etag)
    assert (answer.status, answer.code) == (403, "ScopeMissing")
    assert settle(server.anonymous(), doc, etag).status == 401
    assert read(taker, doc).json["status"] == "Received"


def test_a_long_message_is_cut(taker, doc):
    etag = read(taker, doc).headers["ETag"]
    answer = settle(taker, doc, etag, "Error", message="é" * 1999 + "😀" + "x" * 100_000)
    assert answer.json["statusMessage"] == "é" * 1999, "a character is not cut in two"
    answer = settle(taker, doc, answer.headers["ETag"], "Error", message="y" * 2001)
    assert answer.json["statusMessage"] == "y" * 2000


def test_the_list_of_a_status(server, sender, taker):
    entity = uuid.uuid4().hex[:10]
    docs = [f"CP_{uuid.uuid4().hex}" for _ in range(6)]
    for i, doc in enumerate(docs):
        assert sender.post(PATH, party(doc, businessEntity=entity, entityType="CLI" if i % 2 else "FOR")).status == 200
        if i >= 2:
            etag = taker.get(query(doc, entity)).headers["ETag"]
            assert taker.patch(query(doc, entity), {"status": "Error" if i == 5 else "Processed"}, headers={"If-Match": etag}).status == 200
    for where, wanted in (("status=Received", [1, 0]), ("status=processed", [4, 3, 2]), ("Status=Error", [5]),
                          ("status=Processed&entityType=CLI", [3]), ("status=", [5, 4, 3, 2, 1, 0]),
                          (f"status=Processed&fiscalNumber={docs[3][-20:]}", [3]), (f"status=Error&fiscalNumber={docs[3][-20:]}", [])):
        for caller in (sender, taker):
            page = caller.get(f"{PATH}?businessEntity={entity}&{where}").json
            assert ([item["businessDocId"] for item in page["items"]], page["total"]) == ([docs[i] for i in wanted], len(wanted)), where
    assert [item["businessDocId"] for item in taker.get(f"{PATH}?businessEntity={entity}&status=Processed&page=2&pageSize=1").json["items"]] == [docs[3]]
    assert (answer := taker.get(f"{PATH}?status=Done")).status == 400 and answer.bad_fields == {"status"}
    assert server.new_client("Other", scopes=["interface"]).get(f"{PATH}?status=Received").json["total"] == 0


def test_a_newer_payload_is_never_marked_as_taken(sender, taker, doc):
    """Whichever comes first: the payload waits for the PATCH and is received after it, or the PATCH finds another ETag."""
    for turn in range(15):
        etag = read(taker, doc).headers["ETag"]
        posted, patched = at_once(lambda: sender.post(PATH, party(doc, name=f"N{turn}")), lambda: settle(taker, doc, etag))
        assert posted.status == 200 and patched.status in (200, 412), (posted, patched)
        now = read(taker, doc).json
        assert (now["name"], now["status"]) == (f"N{turn}", "Received")


def test_of_two_takers_one_is_told(taker, doc):
    for _ in range(10):
        etag = read(taker, doc).headers["ETag"]
        answers = at_once(*[lambda status=status: settle(taker, doc, etag, status) for status in ("Processed", "Error", "Processed")])
        assert sorted(a.status for a in answers) == [200, 412, 412]
        [told] = [a for a in answers if a.status == 200]
        assert read(taker, doc).headers["ETag"] == told.headers["ETag"]
