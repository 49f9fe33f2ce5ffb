"""POST /imports/{batchId}/acks: OmniFlow's result for a chunk is stored once, for batches of every client."""

import concurrent.futures
import json
import uuid

import pytest
from harness import wait_for
from test_imports_receive import execute, log_of, taken, upload
from test_openapi import DOCUMENT, check

PENDING, SENDING, AWAITING, IMPORTED, ERROR, SKIPPED = range(6)


@pytest.fixture
def acker(server):
    return server.new_client("OmniFlow", scopes=["acks"])


class Batch:
    """With chunk 3: records 300 to 399. Nobody works on it: it is Cancelled."""

    def __init__(self, server, acker):
        self.server = server
        self.acker = acker
        self.id = taken(upload(server.new_client()))
        self.set_batch("Status = 6")

    def set_batch(self, values):
        execute(self.server, f"UPDATE ImportBatch SET {values} WHERE Id = '{self.id}'")

    def chunk(self, status=AWAITING, ack_id="a-1"):
        ack_id = "NULL" if ack_id is None else f"'{ack_id}'"
        execute(self.server, "INSERT INTO ImportChunk (BatchId, ChunkId, RecordOffset, RecordCount, ContentHash, Status, AckId)"
                             f" VALUES ('{self.id}', 3, 300, 100, '{'0' * 64}', {status}, {ack_id})")
        return self

    def ack(self, body=None, **fields):
        body = {"ackId": "a-1", "chunkId": 3, "status": "Imported", **fields} if body is None else body
        return self.acker.post(f"/imports/{self.id}/acks", {k: v for k, v in body.items() if v is not ...})

    def row(self):
        [found] = self.server.backend.query("SELECT Status, AckId, AckJson, AckedAt FROM ImportChunk"
                                            f" WHERE BatchId = '{self.id}' AND ChunkId = 3")
        return found

    def early(self):
        """Acks that are kept until an answer names them."""
        return [row[0] for row in self.server.backend.query(f"SELECT AckJson FROM ImportEarlyAck WHERE BatchId = '{self.id}'")]

    def stored(self):
        """The ack that is stored, None: none."""
        text = self.row()[2]
        return json.loads(text) if text is not None else None


@pytest.fixture
def batch(server, acker):
    return Batch(server, acker)


ITEMS = [{"sequence": 300, "status": "Imported", "errorMessage": None},
         {"sequence": 399, "status": "Error", "errorMessage": "bloqueado"}]


def test_an_ack_is_stored_with_its_chunk(server, batch):
    answer = batch.chunk().ack(message="fine", items=ITEMS)
    assert answer.status == 200
    check(answer.json, DOCUMENT["components"]["schemas"]["ImportAckStored"], "200")
    assert answer.json == {"batchId": batch.id, "chunkId": 3, "status": "Imported"}
    assert batch.stored() == {"ackId": "a-1", "status": "Imported", "message": "fine", "items": ITEMS}
    assert batch.row()[3] is not None
    [said] = log_of(server, batch.id, "AckReceived")
    assert (said["chunkId"], said["ackId"]) == (3, "a-1")


# While a call is under way, the first or a later one, nobody knows which id its answer will name.
UNKNOWN = [(PENDING, None), (SENDING, None), (SENDING, "a-0")]


@pytest.mark.parametrize("status,ack_id", UNKNOWN)
def test_an_ack_that_no_answer_has_named_is_404_and_kept(batch, status, ack_id):
    answer = batch.chunk(status, ack_id).ack(status="Error", message="no")
    assert (answer.status, answer.code) == (404, "NotFound")
    assert batch.row()[:3] == (status, ack_id, None)
    assert [json.loads(kept) for kept in batch.early()] == [
        {"ackId": "a-1", "status": "Error", "message": "no", "items": []}]


@pytest.mark.parametrize("status,ack_id", UNKNOWN)
def test_an_ack_waits_for_the_answer_that_names_it(server, batch, status, ack_id):
    batch.chunk(status, ack_id)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        true, foreign = pool.submit(batch.ack), pool.submit(batch.ack, ackId="a-2")
        wait_for(lambda: len(batch.early()) == 2, "both to be kept")
        execute(server, f"UPDATE ImportChunk SET Status = {AWAITING}, AckId = 'a-1' WHERE BatchId = '{batch.id}'")
        assert (true.result().status, foreign.result().status) == (200, 404)
    assert batch.stored()["ackId"] == "a-1"
    assert len(log_of(server, batch.id, "AckReceived")) == 1


def test_not_more_than_a_few_are_kept(batch):
    batch.chunk(SENDING, None)
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda n: batch.ack(ackId=f"f-{n}"), range(10)))
    assert {a.status for a in answers} == {404}
    assert len(batch.early()) == 4


def test_a_chunk_that_waits_for_its_ack_takes_no_other(batch):
    assert batch.chunk(AWAITING, None).ack().status == 404
    assert batch.stored() is None and batch.early() == []


def test_those_that_wait_are_answered_when_the_server_stops(make_server):
    server = make_server()
    batch = Batch(server, server.new_client("OmniFlow", scopes=["acks"])).chunk(SENDING, None)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        held = pool.submit(batch.ack)
        wait_for(lambda: batch.early(), "it to be kept")
        assert server.stop() == 0
        assert held.result().status in (404, 503)


def test_the_same_ack_again_is_200_and_changes_nothing(server, batch):
    assert batch.chunk().ack(items=ITEMS).status == 200
    before = batch.row()
    assert batch.ack(items=ITEMS).status == 200
    # However it is written.
    assert batch.ack({"STATUS": "imported", "Items": [{**i, "extra": 1, "sequence": str(i["sequence"])} for i in ITEMS],
                      "chunkID": "3", "ackId": "a-1", "message": None}).status == 200
    assert batch.row() == before
    assert len(log_of(server, batch.id, "AckReceived")) == 1


@pytest.mark.parametrize("other", [{"status": "Error"}, {"message": "x"}, {"items": ITEMS[:1]}, {"items": []}])
def test_another_ack_is_409(batch, other):
    assert batch.chunk().ack(items=ITEMS).status == 200
    before = batch.row()
    assert batch.ack(**{"items": ITEMS, **other}).code == "Conflict"
    assert batch.row() == before


@pytest.mark.parametrize("settled,said,status", [
    (IMPORTED, "Imported", 200), (ERROR, "Error", 200), (IMPORTED, "Error", 409), (ERROR, "Imported", 409),
    (SKIPPED, "Imported", 409), (SKIPPED, "Error", 409),
])
@pytest.mark.parametrize("ack_id", ["a-1", None])
def test_a_chunk_that_was_settled_without_an_ack(batch, settled, said, status, ack_id):
    assert batch.chunk(settled, ack_id).ack(status=said).status == status
    assert batch.row()[:3] == (settled, ack_id, None)


def test_the_same_ack_after_its_chunk_was_settled_is_200(server, batch):
    assert batch.chunk().ack(items=ITEMS).status == 200
    execute(server, f"UPDATE ImportChunk SET Status = 3 WHERE BatchId = '{batch.id}'")
    assert batch.ack(items=ITEMS).status == 200
    assert batch.ack(status="Error").status == 409


def test_what_is_unknown_is_404(server, batch):
    batch.chunk()
    assert batch.ack(ackId="a-2").status == 404
    assert batch.ack(ackId="A-1").status == 404
    assert batch.ack(chunkId=4).status == 404
    for name in (uuid.uuid4(), "x"):
        assert batch.acker.post(f"/imports/{name}/acks", {"ackId": "a-1", "chunkId": 3, "status": "Imported"}).status == 404
    assert batch.stored() is None


def test_what_is_unknown_gives_nothing_away(server, batch):
    """No such batch, no such chunk, another id, a call under way, a sequence that is not the chunk's: one answer. None of
    them comes before others that were sent later, since each waits as one for a call under way does."""
    batch.chunk(SENDING, None)
    other = Batch(server, batch.acker).chunk()
    nowhere = str(uuid.uuid4())
    body = {"ackId": "a-9", "chunkId": 3, "status": "Imported"}
    calls = [(nowhere, body), (batch.id, body), (batch.id, {**body, "chunkId": 77}), (other.id, body),
             (batch.id, {**body, "ackId": "a-8", "items": [{"sequence": 7, "status": "Imported"}]}),
             (nowhere, {**body, "items": [{"sequence": 7, "status": "Imported"}]})]
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        held = [pool.submit(batch.acker.post, f"/imports/{name}/acks", content) for name, content in calls]
        wait_for(lambda: batch.early(), "one to be kept")
        for _ in range(5):
            assert other.ack().status == 200
        assert not any(h.done() for h in held)
        answers = [h.result() for h in held]
    assert {(a.status, a.code, a.json["detail"]) for a in answers} == {
        (404, "NotFound", "There is no such batch, chunk or ack.")}
    assert {frozenset(a.headers) for a in answers} == {frozenset(answers[0].headers)}
    assert batch.stored() is None and len(batch.early()) == 1, "what is not of the chunk is not kept"


@pytest.mark.parametrize("fields,bad", [
    ({"ackId": ...}, {"ackId"}), ({"ackId": ""}, {"ackId"}), ({"ackId": " "}, {"ackId"}), ({"ackId": "x" * 201}, {"ackId"}),
    ({"ackId": [1]}, {"ackId"}), ({"chunkId": ...}, {"chunkId"}), ({"chunkId": None}, {"chunkId"}),
    ({"chunkId": -1}, {"chunkId"}), ({"chunkId": 1.5}, {"chunkId"}), ({"chunkId": "x"}, {"chunkId"}),
    ({"chunkId": 2**31}, {"chunkId"}), ({"status": ...}, {"status"}), ({"status": "Skipped"}, {"status"}),
    ({"status": "ok"}, {"status"}), ({"status": 3}, {"status"}), ({"message": 7}, {"message"}), ({"message": {}}, {"message"}),
    ({"items": {}}, {"items"}), ({"items": "x"}, {"items"}), ({"items": [1]}, {"items[0]"}),
    ({"items": [{}]}, {"items[0]"}), ({"items": [{"sequence": 300}]}, {"items[0]"}),
    ({"items": [{"sequence": -1, "status": "Error"}]}, {"items[0]"}),
    ({"items": [{"sequence": 300, "status": "Lost"}]}, {"items[0]"}),
    ({"items": [{"sequence": 300, "status": "Error", "errorMessage": 4}]}, {"items[0]"}),
    ({"items": [ITEMS[0], ITEMS[0]]}, {"items"}),
    ({"items": [{"sequence": 299, "status": "Imported"}]}, {"items"}),
    ({"items": [ITEMS[0], {"sequence": 400, "status": "Imported"}]}, {"items"}),
    ({"items": [{"sequence": n, "status": "Imported"} for n in range(10001)]}, {"items"}),
    ({"ackId": ..., "chunkId": "x", "status": "x", "items": 1}, {"ackId", "chunkId", "status", "items"}),
], ids=lambda v: str(v)[:50])
def test_every_bad_field_is_named(batch, fields, bad):
    answer = batch.chunk().ack(**fields)
    assert (answer.status, answer.code) == (400, "ValidationFailed"), answer
    assert answer.bad_fields == bad
    assert batch.stored() is None


@pytest.mark.parametrize("body,code", [(b"{", "MalformedJson"), (b"[]", None), (b"", None),
                                       (b'{"ackId":"a","ackId":"b"}', "DuplicateKey"), (b'{"ackId":"\xff"}', None)])
def test_a_body_that_is_no_object(batch, body, code):
    answer = batch.acker.request("POST", f"/imports/{batch.id}/acks", body)
    assert answer.status == 400 and code in (None, answer.code)


def test_long_messages_are_cut_and_not_refused(batch):
    items = [{"sequence": 300, "status": "Error", "errorMessage": "ç" * 5000}]
    assert batch.chunk().ack(status="Error", message="é" * 5000, items=items).status == 200
    stored = batch.stored()
    assert stored["message"] == "é" * 2000 and stored["items"][0]["errorMessage"] == "ç" * 1000


def test_an_ack_of_many_items(batch):
    """More than other bodies may have."""
    execute(batch.server, f"UPDATE ImportChunk SET RecordCount = 10000 WHERE BatchId = '{batch.chunk().id}'")
    items = [{"sequence": 300 + n, "status": "Error", "errorMessage": "x" * 200} for n in range(10000)]
    assert batch.ack(status="Error", items=items).status == 200
    assert len(batch.stored()["items"]) == 10000


def test_items_of_a_later_attempt_come_from_anywhere(batch):
    batch.chunk().set_batch("Attempt = 2, RetryFromChunk = 3")
    assert batch.ack(items=[{"sequence": 5, "status": "Imported"}]).status == 200


def test_ten_at_once_are_stored_once(server, batch):
    batch.chunk()
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda n: batch.ack(message=str(n % 2)), range(10)))
    assert sorted(a.status for a in answers) == [200] * 5 + [409] * 5
    assert len(log_of(server, batch.id, "AckReceived")) == 1


def test_who_may(server, batch):
    batch.chunk()
    body = {"ackId": "a-1", "chunkId": 3, "status": "Imported"}
    assert server.new_client(scopes=["imports"]).post(f"/imports/{batch.id}/acks", body).code == "ScopeMissing"
    assert server.anonymous().post(f"/imports/{batch.id}/acks", body).status == 401
    assert batch.stored() is None
