"""Batches from their claim to their end: chunks, the handshake with OmniFlow, retries, outages, locks, takeovers.

OmniFlow is a server of the tests' own here (Peer), so that each answer can be chosen and each request kept whole.
"""

import collections
import concurrent.futures
import contextlib
import datetime
import hashlib
import http.server
import itertools
import json
import os
import re
import signal
import threading
import time
import uuid

import pytest
from harness import TIMEOUT, Backend, Http, Server, skip_if_missing, wait_for
from test_lifecycle import half_post
from test_imports_receive import XLSX, execute, policy, schedule_all, storage, taken, upload  # noqa: F401 (a fixture)
from test_sandbox import Sandbox

pytestmark = pytest.mark.threads

API_KEY = "omniflow-key-of-the-tests"
ENDS = ("Completed", "CompletedWithErrors", "Failed")
PATH = "/api/leads/import"


# --- OmniFlow ----------------------------------------------------------------------------------------

Request = collections.namedtuple("Request", "at headers raw body batch chunk nth")


class Peer(http.server.ThreadingHTTPServer):
    """Answers by `answer(request)`: a status, or (status, body), or (status, body, headers); None: hangs up."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self):
        super().__init__(("127.0.0.1", 0), PeerHandler)
        self.lock = threading.Lock()
        self.reset()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def reset(self):
        with self.lock:
            self.requests = []
            self.open = self.most_open = 0
            self.answer = lambda request: 200

    @property
    def url(self):
        return "http://127.0.0.1:{}".format(self.server_address[1])

    def came(self, batch):
        with self.lock:
            return [r for r in self.requests if r.batch == batch]

    def chunks(self, batch):
        return [r.chunk for r in self.came(batch)]

    def close(self):
        self.shutdown()
        self.server_close()


class PeerHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        peer = self.server
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        body = json.loads(raw)
        with peer.lock:
            nth = 1 + sum(r.batch == body["batchId"] and r.chunk == body["chunkId"] for r in peer.requests)
            request = Request(time.monotonic(), self.headers, raw, body, body["batchId"], body["chunkId"], nth)
            peer.requests.append(request)
            peer.open += 1
            peer.most_open = max(peer.most_open, peer.open)
            answer = peer.answer
        try:
            found = answer(request)
        finally:
            with peer.lock:
                peer.open -= 1
        if found is None:
            self.close_connection = True
            return
        found = found if isinstance(found, tuple) else (found,)
        status, text, headers = (*found, None, {})[:3] if len(found) < 2 else (*found, {})[:3]
        self.reply(status, text, headers)

    def reply(self, status, body, headers):
        text = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        with contextlib.suppress(OSError):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def module_peer():
    peer = Peer()
    yield peer
    peer.close()


@pytest.fixture
def make_peer():
    made = []

    def make():
        made.append(Peer())
        return made[-1]

    yield make
    for peer in made:
        peer.close()


def configuration(peer, omniflow=None, breaker=None, imports=None, **more):
    return {
        "omniflow": {"url": peer.url, "api_key": API_KEY, "batch_size": 10, "max_parallel_chunks": 4, "max_retries": 2,
                     "retry_delays_ms": "20,40", "ack_timeout_seconds": 60, "timeout_ms": 5000, **(omniflow or {})},
        # As good as none, but where a test is about it.
        "breaker": {"window": 1000, "min_calls": 1000, **(breaker or {})},
        "imports": {"poll_ms": 20, **(imports or {})},
        **more,
    }


@pytest.fixture(scope="module")
def server(backend_name, module_peer, tmp_path_factory):
    """One for all tests that need no settings of their own. It works on one batch at a time, as they do."""
    backend = Backend(backend_name, tmp_path_factory.mktemp(backend_name))
    server = Server(backend, tmp_path_factory.mktemp("server"), config=configuration(module_peer))
    server.start()
    server.secrets.add(API_KEY)
    yield server
    server.finish()
    backend.drop()


@pytest.fixture
def peer(module_peer):
    module_peer.reset()
    return module_peer


@pytest.fixture
def client(server):
    return server.new_client()


# --- files and what became of them -------------------------------------------------------------------


def leads(count, start=0):
    return [{"PhoneNumber": f"+55519{99000000 + i}", "Name": f"Lead {i}"} for i in range(start, start + count)]


def item(sequence, lead):
    return {"sequence": sequence, "PhoneNumber": lead["PhoneNumber"], "Origin": None, "PropertyContextJson": None,
            "LeadContextJson": {"Name": lead["Name"]}}


def send(client, records, **fields):
    return taken(upload(client, json.dumps(records).encode(), **fields))


def state(client, batch):
    answer = client.get(f"/imports/{batch}")
    assert answer.status == 200, answer
    return answer.json


def wait_end(client, batch, timeout=TIMEOUT):
    def over():
        found = state(client, batch)
        return found if found["status"] in ENDS else None

    return wait_for(over, f"the end of {batch}", timeout=timeout, every=0.01)


def imported(client, records, **fields):
    batch = send(client, records, **fields)
    return batch, wait_end(client, batch)


def items(server, batch):
    """By sequence: status, error, chunk, payload."""
    rows = server.backend.query("SELECT Sequence, Status, ErrorMessage, ChunkId, PayloadJson FROM ImportItem"
                                f" WHERE BatchId = '{batch}' ORDER BY Sequence")
    names = ("Imported", "Error", "Skipped")
    assert [r[0] for r in rows] == list(range(len(rows))), "every sequence once"
    return [(names[s], e, c, json.loads(p)) for _, s, e, c, p in rows]


def chunk_rows(server, batch):
    names = ("Pending", "Sending", "AwaitingAck", "Imported", "Error", "Skipped")
    return {row[0]: (names[row[1]], row[2], row[3]) for row in server.backend.query(
        f"SELECT ChunkId, Status, Attempts, ErrorMessage FROM ImportChunk WHERE BatchId = '{batch}'")}


def lock_row(server):
    [[locked, owner, at]] = server.backend.query("SELECT IsLocked, LockOwnerBatchId, LockedAt FROM BatchLocks")
    return bool(locked), owner and str(owner).lower(), at


def column(server, batch, name):
    [[value]] = server.backend.query(f"SELECT {name} FROM ImportBatch WHERE Id = '{batch}'")
    return value


def figures(found):
    return tuple(found[n] for n in ("status", "totalRecords", "processedRecords", "errorCount", "skippedCount"))


def same_content(requests):
    """All requests of a chunk have one body and one key."""
    by_chunk = collections.defaultdict(set)
    for r in requests:
        by_chunk[r.batch, r.chunk].add((r.raw, r.headers["Idempotency-Key"]))
    assert all(len(v) == 1 for v in by_chunk.values())


def directory(server, batch):
    return server.directory / "data" / "imports" / batch


def past(minutes):
    at = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=minutes)
    return at.strftime("%Y-%m-%dT%H:%M:%S.000Z")


class Acks:
    """Sends acks for chunks that were answered 202."""

    def __init__(self, client):
        self.client = client

    def post(self, batch, chunk, ack_id, status="Imported", **more):
        return self.client.post(f"/imports/{batch}/acks", {"ackId": ack_id, "chunkId": chunk, "status": status, **more})


def ack_id(request):
    return f"ack-{request.batch}-{request.chunk}"


def later(peer, function, *args, after=0.02):
    done = concurrent.futures.Future()

    def call():
        try:
            done.set_result(function(*args))
        except Exception as error:  # noqa: BLE001 (whoever asks for the result hears of it)
            done.set_exception(error)

    timer = threading.Timer(after, call)
    timer.daemon = True
    timer.start()
    return done


# --- what is sent ------------------------------------------------------------------------------------


def test_chunks_are_cut_as_the_contract_says(server, peer, client):
    records = leads(25)
    batch, found = imported(client, records)
    assert figures(found) == ("Completed", 25, 25, 0, 0)
    assert (found["lastError"], found["errorSummary"], found["importedCount"]) == (None, None, 25)
    came = sorted(peer.came(batch), key=lambda r: r.chunk)
    assert [(list(r.body), r.chunk, r.body["offset"], len(r.body["items"])) for r in came] == [
        (["batchId", "chunkId", "offset", "items"], i + 1, 10 * i, n) for i, n in enumerate((10, 10, 5))]
    assert [i for r in came for i in r.body["items"]] == [item(i, lead) for i, lead in enumerate(records)]
    assert [i[:3] for i in items(server, batch)] == [("Imported", None, 1 + i // 10) for i in range(25)]
    assert [i[3] for i in items(server, batch)] == [
        {**item(i, lead), "PhoneNumber": "+***********" + lead["PhoneNumber"][-2:], "LeadContextJson": {"Name": "***"}}
        for i, lead in enumerate(records)], "masked"
    assert chunk_rows(server, batch) == {i: ("Imported", 1, None) for i in (1, 2, 3)}
    for r in came:
        assert r.headers["X-Api-Key"] == API_KEY
        assert r.headers["Content-Type"] == "application/json"
        assert r.headers["Idempotency-Key"] == f"{batch}:{r.chunk}:{hashlib.sha256(r.raw).hexdigest()}"
        trace = r.headers["x-trace-id"]
        assert re.fullmatch(rf"00-{trace}-[0-9a-f]{{16}}-01", r.headers["traceparent"]), dict(r.headers)
        assert r.headers["X-Correlation-Id"] == found["correlationId"]
    assert len({r.headers["x-trace-id"] for r in came}) == 1
    assert len({r.headers["traceparent"] for r in came}) == 3, "a span for each call"


def test_the_policy_says_how_many_records_a_chunk_has(server, peer, client):
    policy(server, client, batchSize=3)
    batch, _ = imported(client, leads(7))
    assert sorted((r.chunk, r.body["offset"], len(r.body["items"])) for r in peer.came(batch)) == [
        (1, 0, 3), (2, 3, 3), (3, 6, 1)]


def test_a_chunk_is_cut_short_when_its_records_are_long(server, peer, client):
    policy(server, client, batchSize=1000)
    records = [{"PhoneNumber": lead["PhoneNumber"], "Name": "x" * 300_000} for lead in leads(20)]
    batch, found = imported(client, records)
    assert figures(found) == ("Completed", 20, 20, 0, 0)
    came = sorted(peer.came(batch), key=lambda r: r.chunk)
    assert len(came) > 2 and max(len(r.raw) for r in came) < 4 << 20
    assert [r.body["offset"] for r in came] == [0, *itertools.accumulate(len(r.body["items"]) for r in came)][:-1]


def test_what_is_not_fit_to_be_sent_is_kept_and_not_sent(server, peer, client):
    records = leads(12)
    records[3] = {"Name": "nobody's"}
    records[5] = dict(records[4])
    records[6] = {}
    batch, found = imported(client, records)
    assert figures(found) == ("CompletedWithErrors", 12, 12, 1, 2)
    assert found["errorSummary"] == {"PhoneNumber: there is none": 1}
    assert found["lastError"] == "PhoneNumber: there is none"
    came = sorted(peer.came(batch), key=lambda r: r.chunk)
    assert [[i["sequence"] for i in r.body["items"]] for r in came] == [[0, 1, 2, 4, 7, 8, 9], [10, 11]]
    kept = items(server, batch)
    assert [(i[0], i[2]) for i in kept[3:7]] == [("Error", None), ("Imported", 1), ("Skipped", None), ("Skipped", None)]
    assert kept[3][3]["LeadContextJson"] == {"Name": "***"}
    assert [r["Name"] for r in client.get(f"/imports/{batch}/errors.json").json] == ["nobody's"]


def test_a_chunk_without_anything_to_send_is_not_sent(server, peer, client):
    records = [{"Name": f"{i}"} for i in range(10)] + leads(5)
    batch, found = imported(client, records)
    assert figures(found) == ("CompletedWithErrors", 15, 15, 10, 0)
    assert peer.chunks(batch) == [2]
    assert chunk_rows(server, batch) == {1: ("Skipped", 0, None), 2: ("Imported", 1, None)}


def test_a_file_without_records_is_completed(server, peer, client):
    batch, found = imported(client, [])
    assert figures(found) == ("Completed", 0, 0, 0, 0)
    assert peer.came(batch) == []


def test_it_is_known_who_works_how_far_it_is_and_nothing_is_left_at_the_end(server, peer, client):
    seen, go = [], threading.Event()

    def answer(request):
        if request.chunk == 2:
            host = column(server, request.batch, "ProcessingHost")
            seen.append((state(client, request.batch), lock_row(server), host))
            go.wait(TIMEOUT)
        return 200

    peer.answer = answer
    batch = send(client, leads(25))
    wait_for(lambda: seen, "the second chunk")
    wait_for(lambda: state(client, batch)["processedRecords"] == 15, "the progress of the others")
    assert directory(server, batch).is_dir()
    go.set()
    found = wait_end(client, batch)
    [(before, lock, host)] = seen
    assert (before["status"], before["totalRecords"]) == ("Processing", 25), "the total is known before a chunk is sent"
    assert before["startedAt"] and not before["completedAt"]
    assert lock[:2] == (True, batch) and lock[2]
    assert re.fullmatch(r"[^/]+/[0-9a-f-]{36}", host)
    assert figures(found) == ("Completed", 25, 25, 0, 0)
    assert found["completedAt"] >= found["startedAt"] == before["startedAt"]
    assert lock_row(server) == (False, None, None)
    assert column(server, batch, "LockedAt") is None
    wait_for(lambda: not directory(server, batch).exists(), "the file to be removed")
    events = [line["event"] for line in server.log() if line.get("batchId") == batch]
    frame = ["BatchProcessingStarted", "BatchFinalized"]
    assert [e for e in events if e in frame] == frame
    assert events.count("ChunkSent") == 3


def test_metrics_tell_of_chunks_batches_and_records(server, peer, client):
    def read():
        lines = server.anonymous(address="127.0.0.1").get("/metrics").body.decode().splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}

    before = read()
    peer.answer = lambda request: 400 if request.chunk == 2 else 200
    imported(client, leads(25) + [{"Name": "x"}])
    # Its worker tells the end to others before it counts it.
    after = wait_for(lambda: (found := read())["dataflow_batches_processing"] == 0 and found, "the batch to be counted")

    def rose(name):
        return after[name] - before.get(name, 0)

    assert rose(f'dataflow_import_records_total{{client_id="{client.id}",outcome="imported"}}') == 15
    assert rose(f'dataflow_import_records_total{{client_id="{client.id}",outcome="error"}}') == 11
    assert rose(f'dataflow_ack_seconds_count{{client_id="{client.id}"}}') == 2, "an answer 200 is the ack"
    for state in ("Pending", "Processing", "CompletedWithErrors"):
        assert rose(f'dataflow_batches_total{{client_id="{client.id}",status="{state}"}}') == 1
    assert rose("dataflow_chunk_duration_seconds_count") == 3
    assert rose('dataflow_chunk_duration_seconds_bucket{le="14400"}') == 3
    assert rose(f'dataflow_chunk_errors_total{{clientId="{client.id}",reason="rejected"}}') == 1
    assert rose(f'dataflow_batch_duration_seconds_count{{clientId="{client.id}",status="CompletedWithErrors"}}') == 1
    assert after["dataflow_chunk_inflight"] == 0


# --- 200 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", (None, b"OK", {}, {"status": "Imported"}, [1], {"items": None},
                                  {"items": [{"sequence": 99}, 7]}), ids=str)
def test_200_without_results_is_good_for_every_item(server, peer, client, body):
    peer.answer = lambda request: (200, body)
    batch, found = imported(client, leads(12))
    assert figures(found) == ("Completed", 12, 12, 0, 0)
    assert len(peer.came(batch)) == 2


def test_200_may_say_what_became_of_each_item(server, peer, client):
    peer.answer = lambda request: (200, {"status": "Imported", "items": [
        {"sequence": 3, "status": "Error", "errorMessage": "no such street"}, {"sequence": 4, "status": "error"},
        {"sequence": 5, "status": "Skipped"}, {"sequence": "6", "status": "Error", "message": "ação" * 500},
        {"sequence": 11, "status": "Error", "errorMessage": "of another chunk"}]})
    batch, found = imported(client, leads(10))
    assert figures(found) == ("CompletedWithErrors", 10, 10, 3, 1)
    kept = items(server, batch)
    assert [k[0] for k in kept] == ["Imported"] * 3 + ["Error", "Error", "Skipped", "Error"] + ["Imported"] * 3
    assert kept[3][1] == "no such street" and kept[4][1] and kept[6][1] == "ação" * 250
    assert found["errorSummary"]["no such street"] == 1
    assert chunk_rows(server, batch) == {1: ("Imported", 1, None)}


def test_an_item_whose_result_is_none_of_ours_is_an_error(server, peer, client):
    peer.answer = lambda request: (200, {"items": [
        {"sequence": 0, "status": "Rejected"}, {"sequence": 1, "status": "Rejected", "message": "too late"},
        {"sequence": 2, "errorMessage": "no status"}, {"sequence": 3}, {"sequence": 4, "message": "fine"}]})
    batch, found = imported(client, leads(5))
    assert figures(found) == ("CompletedWithErrors", 5, 5, 3, 0)
    assert [k[1] for k in items(server, batch)] == ['OmniFlow answered "Rejected"', "too late", "no status", None, None]


def test_200_with_the_status_error_refuses_the_chunk(server, peer, client):
    peer.answer = lambda request: (200, {"status": "Error", "message": "closed today", "items": [
        {"sequence": 0, "status": "Imported"}]} if request.chunk == 1 else {"status": "Error", "message": "never"})
    batch, found = imported(client, leads(12))
    assert figures(found) == ("CompletedWithErrors", 12, 12, 11, 0)
    assert [k[0] for k in items(server, batch)] == ["Imported"] + ["Error"] * 11
    assert chunk_rows(server, batch) == {1: ("Imported", 1, None), 2: ("Error", 1, "never")}
    assert found["errorSummary"] == {"closed today": 9, "never": 2}
    assert len(peer.came(batch)) == 2, "not sent again"


# --- refusals and retries ----------------------------------------------------------------------------


def test_4xx_is_an_error_at_once_and_the_next_chunk_goes_on(server, peer, client):
    peer.answer = lambda request: (422, b"phone \xff\x00 of a kind that nobody knows") if request.chunk == 1 else 200
    batch, found = imported(client, leads(15))
    assert figures(found) == ("CompletedWithErrors", 15, 15, 10, 0)
    assert sorted(peer.chunks(batch)) == [1, 2]
    assert items(server, batch)[0][1].startswith("OmniFlow answered 422: phone")
    assert chunk_rows(server, batch)[2] == ("Imported", 1, None)


@pytest.mark.parametrize("fault", (500, 503, 408, None, (202, {})),
                         ids=("500", "503", "408", "hangs_up", "202_without_ackId"))
def test_what_may_go_well_later_is_tried_again_with_the_same_key(server, peer, client, fault):
    def attempts(batch):
        """Times; the HTTP client itself sends again what was dropped on a connection that had been kept."""
        return list({r.headers["traceparent"]: r.at for r in peer.came(batch) if r.chunk == 1}.values())

    peer.answer = lambda request: fault if request.chunk == 1 and len(attempts(request.batch)) < 3 else 200
    batch, found = imported(client, leads(15))
    assert figures(found) == ("Completed", 15, 15, 0, 0)
    assert peer.chunks(batch).count(2) == 1
    same_content(peer.came(batch))
    first, second, third = attempts(batch)
    assert second - first >= 0.019 and third - second >= 0.039, "the configured delays"
    assert chunk_rows(server, batch) == {1: ("Imported", 3, None), 2: ("Imported", 1, None)}


def test_after_the_last_retry_it_is_an_error(server, peer, client):
    """A failure counts once three others have arrived since the last one that did."""
    def answer(request):
        if request.chunk == 2:
            return 503, b"not today"
        time.sleep(0.02)
        return 200

    peer.answer = answer
    batch, found = imported(client, leads(405))
    assert figures(found) == ("CompletedWithErrors", 405, 405, 10, 0)
    tries = peer.chunks(batch).count(2)
    assert tries >= 3 and len(peer.came(batch)) == 40 + tries
    assert [k[0] for k in items(server, batch)] == ["Imported"] * 10 + ["Error"] * 10 + ["Imported"] * 385
    assert found["errorSummary"] == {"OmniFlow answered 503: not today": 10}
    assert chunk_rows(server, batch)[2] == ("Error", tries, "OmniFlow answered 503: not today")


def test_retry_after_is_honoured(server, peer, client):
    peer.answer = lambda request: (429, None, {"Retry-After": "1"}) if request.nth == 1 else 200
    batch, found = imported(client, leads(5))
    assert figures(found) == ("Completed", 5, 5, 0, 0)
    first, second = (r.at for r in peer.came(batch))
    assert second - first >= 0.99


def test_never_more_chunks_at_a_time_than_configured(server, peer, client):
    def answer(request):
        wait_for(lambda: peer.most_open >= 4, "four at a time", 4)
        time.sleep(0.03)
        return 200

    peer.answer = answer
    _, found = imported(client, leads(200))
    assert figures(found) == ("Completed", 200, 200, 0, 0)
    assert peer.most_open == 4


def test_nobody_there(make_server, make_peer):
    peer = make_peer()
    server = make_server(config=configuration(peer, {"max_outage_seconds": 0}, delivery={"give_up_hours": 0}))
    peer.close()
    client = server.new_client()
    batch, found = imported(client, leads(15))
    assert figures(found) == ("Failed", 15, 0, 0, 0)
    assert found["lastError"].startswith("OmniFlow took nothing for 0 seconds, then it was given up: ")
    assert {c[0] for c in chunk_rows(server, batch).values()} == {"Sending"}, "no chunk is an error for it"
    assert lock_row(server) == (False, None, None)


# --- 202 and acks ------------------------------------------------------------------------------------


def test_202_waits_for_the_ack(server, peer, client):
    peer.answer = lambda request: (202, {"ackId": ack_id(request)})
    acks = Acks(client)
    batch = send(client, leads(35))
    wait_for(lambda: [c[0] for c in chunk_rows(server, batch).values()] == ["AwaitingAck"] * 4, "all of them awaited")
    assert figures(state(client, batch)) == ("Processing", 35, 0, 0, 0)
    ids = {r.chunk: ack_id(r) for r in peer.came(batch)}
    assert acks.post(batch, 2, ids[2], "Error", message="no").status == 200
    wait_for(lambda: state(client, batch)["errorCount"] == 10, "the second settled")
    assert acks.post(batch, 1, ids[1]).status == 200
    assert acks.post(batch, 3, ids[3], items=[{"sequence": 20, "status": "Error", "errorMessage": "twentieth"},
                                              {"sequence": 21, "status": "Skipped"}]).status == 200
    assert acks.post(batch, 4, "another's").status == 404
    assert acks.post(batch, 5, ids[1]).status == 404
    assert acks.post(str(uuid.uuid4()), 1, ids[1]).status == 404
    assert acks.post(batch, 4, ids[4]).status == 200
    found = wait_end(client, batch)
    assert figures(found) == ("CompletedWithErrors", 35, 35, 11, 1)
    kept = items(server, batch)
    assert [k[0] for k in kept] == (["Imported"] * 10 + ["Error"] * 10 + ["Error", "Skipped"] + ["Imported"] * 13)
    assert (kept[10][1], kept[20][1]) == ("no", "twentieth")
    assert sorted(peer.chunks(batch)) == [1, 2, 3, 4], "none was sent again"
    # The same again changes nothing, another outcome is refused.
    assert acks.post(batch, 2, ids[2], "Error", message="no").status == 200
    assert acks.post(batch, 2, ids[2], "Imported").status == 409
    assert acks.post(batch, 1, ids[1], "Error").status == 409
    assert figures(state(client, batch)) == figures(found)
    events = [line for line in server.log("AckReceived") if line.get("batchId") == batch]
    assert len(events) == 4


def early(server, batch):
    return server.backend.query(f"SELECT ChunkId FROM ImportEarlyAck WHERE BatchId = '{batch}' ORDER BY ChunkId")


def kept(server, request):
    wait_for(lambda: (request.chunk,) in early(server, request.batch), "the ack to be there")


def test_an_ack_that_is_quicker_than_the_answer(server, peer, client):
    acks, posted = Acks(client), []

    def answer(request):
        posted.append(later(peer, acks.post, request.batch, request.chunk, ack_id(request), after=0))
        kept(server, request)
        return 202, {"ackId": ack_id(request)}

    peer.answer = answer
    batch, found = imported(client, leads(15))
    assert figures(found) == ("Completed", 15, 15, 0, 0)
    assert sorted(peer.chunks(batch)) == [1, 2]
    assert [p.result().status for p in posted] == [200, 200]
    assert early(server, batch) == []


def test_an_ack_counts_though_the_peer_waits_for_its_answer_before_it_answers(server, peer, client):
    """Nobody can know then whether the ack is the chunk's: it is 404, and kept."""
    acks, statuses = Acks(client), []

    def answer(request):
        statuses.append(acks.post(request.batch, request.chunk, ack_id(request)).status)
        return 202, {"ackId": ack_id(request)}

    peer.answer = answer
    batch, found = imported(client, leads(15))
    assert statuses == [404, 404]
    assert figures(found) == ("Completed", 15, 15, 0, 0)
    assert sorted(peer.chunks(batch)) == [1, 2], "none was sent again"
    first = peer.came(batch)[0]
    assert acks.post(batch, first.chunk, ack_id(first)).status == 200, "the same again"


def test_an_ack_with_another_id_before_the_answer_settles_nothing(server, peer, client):
    acks, statuses = Acks(client), []

    def answer(request):
        statuses.append(acks.post(request.batch, request.chunk, "another's", "Error").status)
        later(peer, acks.post, request.batch, request.chunk, ack_id(request), after=0.1)
        return 202, {"ackId": ack_id(request)}

    peer.answer = answer
    batch, found = imported(client, leads(5))
    assert statuses == [404]
    assert figures(found) == ("Completed", 5, 5, 0, 0)
    assert early(server, batch) == [], "nothing is left of it"


def test_an_ack_counts_though_the_answer_was_lost(server, peer, client):
    acks, posted = Acks(client), []

    def answer(request):
        if request.nth == 1:
            posted.append(later(peer, acks.post, request.batch, request.chunk, ack_id(request), after=0))
            kept(server, request)
            return 503
        return 202, {"ackId": ack_id(request)}

    peer.answer = answer
    batch, found = imported(client, leads(15))
    assert figures(found) == ("Completed", 15, 15, 0, 0)
    assert sorted(peer.chunks(batch)) == [1, 1, 2, 2], "the second answer names it, and no other ack is needed"
    assert {p.result().status for p in posted} <= {200, 404}


def test_the_ack_of_an_attempt_before_counts(make_server, make_peer):
    """It comes when the chunk is on its way again."""
    peer = make_peer()
    server = make_server(config=configuration(peer, {"ack_timeout_seconds": 1}))
    client = server.new_client()
    acks, statuses = Acks(client), []

    def answer(request):
        if request.nth == 2:
            statuses.append(acks.post(request.batch, request.chunk, f"{ack_id(request)}-1").status)
        return 202, {"ackId": f"{ack_id(request)}-{request.nth}"}

    peer.answer = answer
    batch, found = imported(client, leads(5))
    assert (statuses, figures(found)) == ([200], ("Completed", 5, 5, 0, 0))
    assert peer.chunks(batch) == [1, 1]


def test_an_ack_that_came_while_nobody_worked_counts_and_its_refusal_is_told(make_server, make_peer):
    """By the owner that takes the batch up, as by one that was there when it came."""
    peer = make_peer()
    server = make_server(config=configuration(peer))
    client = server.new_client()
    peer.answer = lambda request: (202, {"ackId": ack_id(request)})
    batch = send(client, leads(5))
    wait_for(lambda: [c[0] for c in chunk_rows(server, batch).values()] == ["AwaitingAck"], "the chunk awaited")
    server.kill()
    server.backend.script("UPDATE ImportChunk SET AckJson = '{\"status\":\"Error\",\"message\":\"no\"}'"
                          f" WHERE BatchId = '{batch}' AND ChunkId = 1;")
    server.start()
    found = wait_end(client, batch)
    assert figures(found) == ("CompletedWithErrors", 5, 5, 5, 0)
    assert found["errorSummary"] == {"no": 5}
    assert peer.chunks(batch) == [1], "it was not sent again"
    assert [line["reason"] for line in server.log("ChunkError") if line.get("batchId") == batch] == ["ack_error"]


def test_without_an_ack_it_is_sent_again_and_then_an_error(make_server, make_peer):
    peer = make_peer()
    server = make_server(config=configuration(peer, {"ack_timeout_seconds": 2}))
    client = server.new_client()
    acks = Acks(client)
    given = itertools.count()

    def answer(request):
        # OmniFlow may give another id each time.
        this = f"{ack_id(request)}-{next(given)}"
        if request.chunk == 1 and request.nth == 2:
            later(peer, acks.post, request.batch, 1, this, after=0.1)
        return 202, {"ackId": this}

    peer.answer = answer
    batch, found = imported(client, leads(15))
    assert figures(found) == ("CompletedWithErrors", 15, 15, 5, 0)
    assert sorted(peer.chunks(batch)) == [1, 1, 2, 2, 2]
    same_content(peer.came(batch))
    times = [r.at for r in peer.came(batch) if r.chunk == 2]
    assert all(2 <= b - a for a, b in zip(times, times[1:]))
    assert found["errorSummary"] == {"no ack came in time": 5}
    assert chunk_rows(server, batch) == {1: ("Imported", 2, None), 2: ("Error", 3, "no ack came in time")}
    assert len([line for line in server.log("ChunkAckTimeout") if line.get("batchId") == batch]) == 4
    assert acks.post(batch, 2, "too late").status in (404, 409)


def test_an_outage_leaves_the_tries_for_acks_that_do_not_come(make_server, make_peer):
    peer = make_peer()
    server = make_server(config=configuration(peer, {"ack_timeout_seconds": 1, "max_retries": 1}))
    client = server.new_client()
    peer.answer = lambda request: 503 if request.nth <= 4 else (202, {"ackId": ack_id(request)}) if request.nth == 5 else 200
    batch, found = imported(client, leads(5))
    assert figures(found) == ("Completed", 5, 5, 0, 0)
    assert [r.nth for r in peer.came(batch)] == [1, 2, 3, 4, 5, 6], "sent again once its ack did not come"
    assert len([line for line in server.log("ChunkAckTimeout") if line.get("batchId") == batch]) == 1


def test_the_sandbox_as_omniflow(make_server, tmp_path):
    """Both ends of the product: every mode of the sandbox, and what its journal says came."""
    box = Sandbox(tmp_path)
    box.url = "http://{}:{}".format(*box.host_port)
    server = make_server(config=configuration(box, {"ack_timeout_seconds": 3}))
    client, sandbox = server.new_client(), Http(box)
    records = leads(25)
    records[7]["sandboxError"] = "not this one"
    config = {"omniflow": "async", "ackDelayMs": 10, "serverUrl": server.url, "clientId": client.id,
              "clientSecret": client.secret}
    assert sandbox.request("PUT", "/_config", json=config).status == 200
    assert sandbox.post("/_faults", {"path": PATH, "dropAcks": True, "count": 1}).status == 201
    batch, found = imported(client, records)
    assert figures(found) == ("CompletedWithErrors", 25, 25, 1, 0)
    assert found["errorSummary"] == {"not this one": 1}
    came = sandbox.get(f"/_received?path={PATH}&limit=100").json
    assert len(came) == 4 and len({r["idempotencyKey"] for r in came}) == 3, "one was sent again for want of its ack"
    sent = {i["sequence"]: i for r in came for i in r["body"]["items"]}
    assert [sent[i]["PhoneNumber"] for i in range(25)] == [r["PhoneNumber"] for r in records]
    assert {r["headers"]["X-Api-Key"] for r in came} == {"(hidden)"}
    assert sandbox.request("PUT", "/_config", json={"omniflow": "sync"}).status == 200
    _, found = imported(client, records)
    assert figures(found) == ("CompletedWithErrors", 25, 25, 1, 0)
    box.finish()


# --- outages -----------------------------------------------------------------------------------------


def test_while_the_breaker_is_open_nothing_is_sent_and_no_attempt_used_up(make_server, make_peer):
    peer = make_peer()
    server = make_server(config=configuration(
        peer, {"max_parallel_chunks": 2, "max_retries": 3, "retry_delays_ms": "5", "max_outage_seconds": 60},
        {"window": 4, "min_calls": 4, "failure_rate": 50, "open_ms": 150, "half_open_calls": 1}))
    client = server.new_client()
    down = threading.Event()
    down.set()
    peer.answer = lambda request: 503 if down.is_set() else 200
    begun = time.monotonic()
    batch = send(client, leads(60))

    def times():
        return [r.at for r in peer.came(batch)]

    wait_for(lambda: sum(b - a >= 0.14 for a, b in zip(times(), times()[1:])) >= 5, "probes")
    assert 4 <= len(times()) <= 4 + 2 + (time.monotonic() - begun) / 0.15, "a probe each time, and no more"
    assert figures(state(client, batch)) == ("Processing", 60, 0, 0, 0), "more probes than attempts, none failed"
    down.clear()
    found = wait_end(client, batch)
    assert figures(found) == ("Completed", 60, 60, 0, 0)
    same_content(peer.came(batch))


def waits(client, batch):
    """The batch, once it waits for OmniFlow."""
    def found():
        batch_now = state(client, batch)
        return batch_now if (batch_now["status"], batch_now["waitingFor"]) == ("Pending", "OmniFlow") else None

    return wait_for(found, f"{batch} to wait", every=0.005)


# With a breaker that opens, and with one that never does: a file of one chunk makes too few calls for it.
OUTAGES = {
    "breaker": {"window": 4, "min_calls": 4, "failure_rate": 50, "open_ms": 100, "half_open_calls": 1},
    "every_chunk_fails": {},
}
AWAY = {"max_parallel_chunks": 2, "retry_delays_ms": "5", "max_outage_seconds": 1, "probe_seconds": 1}


@pytest.mark.parametrize("fault,breaker,count", [
    (503, "breaker", 60), (503, "every_chunk_fails", 5), (503, "every_chunk_fails", 60), (401, "breaker", 60),
    (401, "every_chunk_fails", 5), (None, "every_chunk_fails", 5),
], ids=lambda value: str(value))
def test_a_batch_waits_for_omniflow_and_each_chunk_arrives_once(make_server, make_peer, fault, breaker, count):
    peer = make_peer()
    server = make_server(config=configuration(peer, AWAY, OUTAGES[breaker]))
    client = server.new_client()
    down, arrived = threading.Event(), []

    def answer(request):
        if down.is_set() and (count < 20 or request.chunk > 1):
            return fault
        arrived.append(request.chunk)
        return 200

    peer.answer = answer
    down.set()
    batch = send(client, leads(count))
    found = waits(client, batch)
    assert found["lastError"].startswith("OmniFlow takes nothing; the batch waits until it does: ")
    assert found["waitingSince"] and found["errorCount"] == 0
    assert lock_row(server) == (False, None, None)
    assert server.log("BatchWaitsForOmniFlow")[0]["batchId"] == batch
    settled = found["processedRecords"]
    server.restart()
    assert waits(client, batch)["processedRecords"] == settled, "also with another owner"
    down.clear()
    found = wait_end(client, batch)
    assert figures(found) == ("Completed", count, count, 0, 0)
    assert (found["lastError"], found["waitingFor"], found["waitingSince"]) == (None, None, None)
    assert sorted(arrived) == list(range(1, (count + 9) // 10 + 1)), "what was settled is not sent again"
    same_content(peer.came(batch))


@pytest.mark.parametrize("give_up_hours", [72, 0])
def test_no_client_reads_what_omniflow_answered_about_another(make_server, make_peer, give_up_hours):
    """The breaker is open when the second batch comes, so that it has no failure of its own."""
    peer = make_peer()
    server = make_server(config=configuration(
        peer, {"max_outage_seconds": 0, "max_retries": 0, "probe_seconds": 600},
        {"window": 4, "min_calls": 1, "failure_rate": 50, "open_ms": 600000}, delivery={"give_up_hours": give_up_hours}))
    peer.answer = lambda request: (500, json.dumps(request.body["items"][0]).encode())
    one, other = server.new_client(), server.new_client()
    lead = leads(1, start=77)[0]
    end = waits if give_up_hours else wait_end
    batch = send(one, [lead])
    own = end(one, batch)["lastError"]
    assert "OmniFlow answered 500: " in own and "+***********" + lead["PhoneNumber"][-2:] in own
    assert lead["Name"] not in own
    found = waits(other, send(other, leads(1)))
    assert len(peer.requests) == 1
    assert found["lastError"] == "OmniFlow takes nothing; the batch waits until it does: OmniFlow answered 500"
    told = [line["message"] for line in server.log("BatchWaitsForOmniFlow") + server.log("BatchFinalized")]
    assert len(told) == 2 and all(text.endswith(": OmniFlow answered 500") for text in told)


def test_a_batch_is_given_up_only_when_a_try_fails(make_server, make_peer):
    """Not by time alone: the server may have been off, and OmniFlow back."""
    peer = make_peer()
    server = make_server(config=configuration(peer, AWAY | {"max_outage_seconds": 0, "max_retries": 0},
                                              {"window": 4, "min_calls": 1, "failure_rate": 50, "open_ms": 600000}))
    client = server.new_client()
    peer.answer = lambda request: 503
    batch = send(client, leads(5))
    waits(client, batch)
    server.stop()
    for name in ("OutageSince", "WaitingSince"):
        execute(server, f"UPDATE ImportBatch SET {name} = '{past(100 * 60)}' WHERE Id = '{batch}'")
    server.start()
    found = wait_end(client, batch)
    assert found["status"] == "Failed" and found["lastError"].endswith(": OmniFlow answered 503")
    assert len(peer.came(batch)) == 2, "it was tried once more"
    # The breaker is open now: no call is made for this one, however old it is.
    batch = send(client, leads(5))
    waits(client, batch)
    execute(server, f"UPDATE ImportBatch SET OutageSince = '{past(100 * 60)}' WHERE Id = '{batch}'")
    wait_for(lambda: len([1 for line in server.log("BatchWaitsForOmniFlow") if line["batchId"] == batch]) > 1, "a probe")
    assert peer.came(batch) == [] and directory(server, batch).exists()
    peer.answer = lambda request: 200
    server.restart()  # with a new breaker
    assert figures(wait_end(client, batch)) == ("Completed", 5, 5, 0, 0)


def test_waiting_batches_are_tried_one_at_a_time_and_all_go_when_omniflow_is_back(make_server, make_peer):
    peer = make_peer()
    server = make_server(config=configuration(peer, AWAY | {"max_outage_seconds": 0, "max_retries": 0},
                                              imports={"mode": "concurrent", "workers": 4}))
    down = threading.Event()
    down.set()
    peer.answer = lambda request: 503 if down.is_set() else 200
    clients = [server.new_client() for _ in range(6)]
    batches = [(c, send(c, leads(25))) for c in clients]
    for client, batch in batches:
        waits(client, batch)
    sent = len(peer.requests)
    wait_for(lambda: len(peer.requests) >= sent + 3, "probes")
    assert len({r.batch for r in peer.requests[sent:sent + 3]}) == 3, "each probe is another batch"
    down.clear()
    for client, batch in batches:
        assert figures(wait_end(client, batch)) == ("Completed", 25, 25, 0, 0)


def test_one_poisoned_batch_does_not_keep_the_others_and_fails_in_the_end(make_server, make_peer):
    """OmniFlow takes the chunks of the other client, so that the fault is the batch's own."""
    peer = make_peer()
    server = make_server(config=configuration(peer, AWAY | {"max_retries": 1, "max_outage_seconds": 60},
                                              imports={"fair_seconds": 1}))
    poisoned, other = server.new_client(), server.new_client()
    bad = []
    peer.answer = lambda request: (500, b"poison") if request.batch in bad or not bad else 200
    bad.append(send(poisoned, leads(5)))
    wait_for(lambda: peer.came(bad[0]), "the first try")
    assert figures(wait_end(other, send(other, leads(5)))) == ("Completed", 5, 5, 0, 0), "it does not wait for the outage"

    def ended():
        assert figures(wait_end(other, send(other, leads(5))))[0] == "Completed"
        found = state(poisoned, bad[0])
        return found if found["status"] in ENDS else None

    found = wait_for(ended, "the end of the poisoned one", every=0.2)
    assert figures(found) == ("CompletedWithErrors", 5, 5, 5, 0)
    assert found["errorSummary"] == {"OmniFlow answered 500: poison": 5}


def test_a_batch_that_waits_can_be_cancelled_only_before_anything_was_sent(make_server, make_peer):
    peer = make_peer()
    server = make_server(config=configuration(peer, AWAY | {"max_outage_seconds": 0, "probe_seconds": 600}))
    client = server.new_client()
    peer.answer = lambda request: 200 if request.chunk == 1 and [r.chunk for r in peer.came(request.batch)].count(1) == 1 else 503
    batch = send(client, leads(45))
    waits(client, batch)
    answer = client.request("DELETE", f"/imports/{batch}")
    assert (answer.status, answer.code) == (409, "Conflict")
    # OmniFlow has the chunk, though no record is processed before its ack.
    peer.answer = lambda request: (202, {"ackId": ack_id(request)}) if request.chunk == 1 else 503
    batch = send(client, leads(15))
    assert waits(client, batch)["processedRecords"] == 0
    assert chunk_rows(server, batch)[1][0] == "AwaitingAck"
    for status in (2, 1):  # 1: it is sent again, and the 202 before still counts
        execute(server, f"UPDATE ImportChunk SET Status = {status} WHERE BatchId = '{batch}' AND ChunkId = 1")
        for caller, path in ((client, "/imports"), (server.admin(), "/admin/imports")):
            answer = caller.request("DELETE", f"{path}/{batch}")
            assert (answer.status, answer.code) == (409, "Conflict")
    assert state(client, batch)["status"] == "Pending" and directory(server, batch).exists()
    peer.answer = lambda request: 503
    batch = send(client, leads(5))
    waits(client, batch)
    assert client.request("DELETE", f"/imports/{batch}").status == 204
    assert state(client, batch)["status"] == "Cancelled"


# --- files that are no good --------------------------------------------------------------------------


@pytest.mark.parametrize("data,name,why", [
    (b'[{"PhoneNumber":"+5551999000000"}' + b',{"PhoneNumber":"+5551999000001"}' * 30 + b',{"PhoneN', "a.json", "byte"),
    (b'[{"PhoneNumber":"+5551999000000"}] x', "a.json", ""),
    (b'[{"PhoneNumber":"+5551999000000"},{"Name":"\xff"}]', "a.json", ""),
], ids=("cut_off", "something_after_it", "invalid_utf8"))
def test_a_broken_file_fails_before_anything_is_sent(server, peer, client, data, name, why):
    batch = taken(upload(client, data, name))
    found = wait_end(client, batch)
    assert figures(found)[0::2] == ("Failed", 0, 0)
    assert found["lastError"] and why in found["lastError"], found
    assert list(found["errorSummary"]) == [found["lastError"]]
    assert peer.came(batch) == []
    assert lock_row(server) == (False, None, None)
    wait_for(lambda: not directory(server, batch).exists(), "the file to be removed")
    assert figures(imported(client, leads(3))[1]) == ("Completed", 3, 3, 0, 0), "the next one runs"


def test_a_workbook_without_the_sheet_fails(server, peer, client):
    batch = taken(upload(client, XLSX, "leads.xlsx", sheet="Nowhere"))
    found = wait_end(client, batch)
    assert found["status"] == "Failed" and "Nowhere" in found["lastError"]
    batch = taken(upload(client, XLSX, "leads.xlsx", originDefault="Fair"))
    assert figures(wait_end(client, batch)) == ("Completed", 1, 1, 0, 0)
    [request] = peer.came(batch)
    assert request.body["items"] == [item(0, {"PhoneNumber": "+5551999990000", "Name": "Ana"}) | {"Origin": "Fair"}]


@contextlib.contextmanager
def held(server, peer, client):
    """Keeps the one worker busy with a batch, so that the next ones wait."""
    go = threading.Event()
    usual = peer.answer
    first = []

    def answer(request):
        if request.batch == first[0]:
            go.wait(TIMEOUT)
            return 200
        return usual(request)

    first.append(None)
    peer.answer = lambda request: go.wait(TIMEOUT) and 200
    first[0] = send(client, leads(1))
    wait_for(lambda: peer.came(first[0]), "the worker to be busy")
    peer.answer = answer
    yield go
    go.set()
    wait_end(client, first[0])


@pytest.mark.parametrize("changed,told", [
    (lambda stored: json.dumps(leads(4)).encode(), "checksum"),  # another file, which is not encrypted
    (lambda stored: stored[:-20] + bytes([stored[-20] ^ 1]) + stored[-19:], "The server failed"),
], ids=["another", "a byte"])
def test_a_file_changed_on_the_disk_fails(server, peer, client, changed, told):
    with held(server, peer, client):
        batch = send(client, leads(3))
        [file] = (directory(server, batch) / "original").iterdir()
        file.write_bytes(changed(file.read_bytes()))
    found = wait_end(client, batch)
    assert found["status"] == "Failed" and told in found["lastError"]
    assert peer.came(batch) == []


def test_batches_are_taken_in_the_order_they_came(server, peer, client):
    with held(server, peer, client):
        batches = [send(client, leads(1, start=i)) for i in range(4)]
        assert {state(client, b)["status"] for b in batches} == {"Pending"}
    for batch in batches:
        wait_end(client, batch)
    assert [r.batch for r in peer.requests][1:] == batches


def test_a_scheduled_batch_begins_at_its_time(server, peer, client):
    schedule_all(server, client)
    batch = taken(upload(client, json.dumps(leads(3)).encode()), "Scheduled")
    time.sleep(0.2)
    assert state(client, batch)["status"] == "Scheduled"
    due = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=0.6)
    at = due.isoformat(timespec="milliseconds")[:-6] + "Z"
    execute(server, f"UPDATE ImportBatch SET ScheduledFor = '{at}' WHERE Id = '{batch}'")
    found = wait_end(client, batch)
    assert figures(found) == ("Completed", 3, 3, 0, 0)
    assert found["startedAt"] >= at


@pytest.fixture
def far(make_sqlite_server, make_peer, storage, tmp_path):  # noqa: F811
    """Encrypted files, scheduled ones in another storage; a batch that waits there."""
    key = tmp_path / "key"
    key.write_text("6b" * 32)
    peer = make_peer()
    server = make_sqlite_server(config=configuration(
        peer, imports={"scheduled_storage": "s3://bucket/process"}, security={"storage_key_file": key},
        s3={"endpoint": storage.url, "access_key": "test:tester", "secret_key": "testing", "path_style": "on"}))
    client = server.new_client()
    schedule_all(server, client)
    batch = taken(upload(client, json.dumps(leads(25)).encode()), "Scheduled")
    return server, peer, client, batch


def make_due(server, batch):
    execute(server, f"UPDATE ImportBatch SET ScheduledFor = '{past(1)}' WHERE Id = '{batch}'")


def test_a_file_that_waited_elsewhere_is_fetched_and_gone_in_the_end_even_through_a_kill(far, storage):  # noqa: F811
    server, peer, client, batch = far
    hang = threading.Event()
    peer.answer = lambda request: hang.wait(TIMEOUT) and 200 if request.nth == 1 else 200
    make_due(server, batch)
    wait_for(lambda: len(peer.came(batch)) == 3, "all of it under way")
    assert [b"Lead" in f.read_bytes() for f in (directory(server, batch) / "original").iterdir()] == [False]
    server.kill()
    hang.set()
    server.start()
    assert figures(wait_end(client, batch)) == ("Completed", 25, 25, 0, 0)
    wait_for(lambda: not directory(server, batch).exists() and f"process/{batch}/leads.json" not in storage.objects(),
             "both copies to be gone")
    same_content(peer.came(batch))
    # Killed between the end and the removal.
    assert server.stop() == 0
    (directory(server, batch) / "original").mkdir(parents=True)
    storage.ask("PUT", f"/v1/AUTH_test/bucket/process/{batch}/leads.json", data=b"x")
    server.start()
    wait_for(lambda: not directory(server, batch).exists() and f"process/{batch}/leads.json" not in storage.objects(),
             "both copies to be gone again")


def test_a_storage_that_is_down_puts_the_batch_off(far, storage):  # noqa: F811
    server, peer, client, batch = far
    storage.fail(status=503, count=100, method="GET")
    try:
        make_due(server, batch)
        wait_for(lambda: state(client, batch)["lastError"], "the storage to be asked")
        found = state(client, batch)
        assert found["status"] == "Scheduled" and found["scheduledFor"] > found["createdAt"]
        assert lock_row(server) == (False, None, None), "it keeps nobody waiting"
    finally:
        storage.fail(status=503, count=0, method="GET")
    make_due(server, batch)
    found = wait_end(client, batch)
    assert figures(found) == ("Completed", 25, 25, 0, 0) and found["lastError"] is None


def test_a_key_that_is_missing_costs_no_file(far, tmp_path):
    server, _, client, batch = far
    assert server.stop() == 0
    (tmp_path / "key").write_text("00" * 32)
    server.start()
    make_due(server, batch)
    wait_for(lambda: state(client, batch)["lastError"], "the file to be looked at")
    assert state(client, batch)["status"] == "Scheduled"
    assert server.stop() == 0
    (tmp_path / "key").write_text("6b" * 32)
    server.start()
    make_due(server, batch)
    assert figures(wait_end(client, batch)) == ("Completed", 25, 25, 0, 0)


# --- another attempt at what failed ------------------------------------------------------------------


def test_a_retry_sends_what_failed_and_nothing_else(server, peer, client):
    refused = {3, 4, 12, 20, 21}

    def answer(request):
        return 200, {"items": [{"sequence": i["sequence"], "status": "Error", "errorMessage": "no"}
                               for i in request.body["items"] if i["sequence"] in refused]}

    peer.answer = answer
    records = leads(25)
    records[7] = {"Name": "no phone"}
    batch, found = imported(client, records)
    assert figures(found) == ("CompletedWithErrors", 25, 25, 6, 0)
    wait_for(lambda: not directory(server, batch).exists(), "the file to be removed")
    first = {r.chunk for r in peer.came(batch)}
    refused -= {4, 20, 21}
    answer = client.post(f"/imports/{batch}/retry")
    assert answer.status == 202 and answer.json["items"] == 5
    found = wait_end(client, batch)
    assert figures(found) == ("CompletedWithErrors", 25, 25, 3, 0)
    again = [r for r in peer.came(batch) if r.chunk not in first]
    assert [(r.chunk, r.body["offset"]) for r in again] == [(4, 3)]
    assert [i["sequence"] for i in again[0].body["items"]] == [3, 4, 12, 20, 21]
    assert again[0].headers["Idempotency-Key"] == f"{batch}:4:{hashlib.sha256(again[0].raw).hexdigest()}"
    assert again[0].body["items"][0] == item(3, records[3])
    assert found["errorSummary"] == {"no": 2, "PhoneNumber: there is none": 1}
    refused.clear()
    assert client.post(f"/imports/{batch}/retry").json["items"] == 2
    found = wait_end(client, batch)
    assert figures(found) == ("CompletedWithErrors", 25, 25, 1, 0), "the one without a phone stays"
    assert sorted(peer.chunks(batch)) == [1, 2, 3, 4, 5]
    assert [k[0] for k in items(server, batch)].count("Error") == 1
    assert client.post(f"/imports/{batch}/retry").status == 409
    same_content(peer.came(batch))


def test_a_retry_that_goes_well_completes_the_batch(server, peer, client):
    peer.answer = lambda request: 400
    batch, found = imported(client, leads(35))
    assert figures(found) == ("CompletedWithErrors", 35, 35, 35, 0)
    peer.reset()

    def answer(request):
        later(peer, Acks(client).post, batch, request.chunk, "a")
        return 202, {"ackId": "a"}

    peer.answer = answer
    assert client.post(f"/imports/{batch}/retry", {}).status == 202, "many HTTP clients send an object"
    found = wait_end(client, batch)
    assert figures(found) == ("Completed", 35, 35, 0, 0)
    assert (found["errorSummary"], found["lastError"], found["attempt"]) == (None, None, 2)
    assert sorted(peer.chunks(batch)) == [5, 6, 7, 8]
    assert {k[:2] for k in items(server, batch)} == {("Imported", None)}


def test_a_batch_that_failed_half_way_is_not_completed_by_a_retry(make_server, make_peer):
    """Its file changed while the server was down: some chunks are settled, others never will be."""
    peer = make_peer()
    server = make_server(config=configuration(peer, {"max_parallel_chunks": 2}, server={"drain_seconds": 1}))
    client = server.new_client()
    peer.answer = lambda request: (400 if request.chunk < 3 else 202, {"ackId": "a"})
    batch = send(client, leads(60))
    wait_for(lambda: sorted(c[0] for c in chunk_rows(server, batch).values() if c[0] != "Pending") ==
             ["AwaitingAck"] * 2 + ["Error"] * 2, "two chunks refused and two awaited")
    server.kill()
    [file] = (directory(server, batch) / "original").iterdir()
    file.write_bytes(b"[]")
    peer.answer = lambda request: 200
    server.start()
    found = wait_end(client, batch)
    assert figures(found) == ("Failed", 60, 20, 20, 0) and "checksum" in found["lastError"]
    assert client.post(f"/imports/{batch}/retry").status == 202
    found = wait_end(client, batch)
    assert figures(found) == ("Failed", 60, 20, 0, 0)
    assert found["lastError"] == "40 records of the file were never processed"
    assert max(peer.chunks(batch)) == 6 and all(r.body["items"] for r in peer.came(batch))


@pytest.mark.parametrize("first_attempt", (True, False), ids=("first", "retry"))
def test_killed_in_the_middle_it_goes_on_where_it_was(make_server, make_peer, first_attempt):
    peer = make_peer()
    server = make_server(config=configuration(peer))
    client = server.new_client()
    if first_attempt:
        batch, offset = None, 0
    else:
        peer.answer = lambda request: 400
        batch, _ = imported(client, leads(100))
        offset = 10
    hang = threading.Event()

    def answer(request):
        if request.chunk > offset + 6 and request.nth == 1:
            hang.wait(TIMEOUT)
        return 200

    peer.reset()
    peer.answer = answer
    if first_attempt:
        batch = send(client, leads(100))
    else:
        assert client.post(f"/imports/{batch}/retry").status == 202
    wait_for(lambda: len(peer.came(batch)) == 10 and
             [c[0] for c in chunk_rows(server, batch).values()].count("Imported") == 6, "six settled, four under way")
    server.kill()
    assert lock_row(server)[0], "it had no time to give it back"
    server.start()
    found = wait_end(client, batch)
    hang.set()
    assert figures(found) == ("Completed", 100, 100, 0, 0)
    assert sorted(peer.chunks(batch)) == sorted([offset + c for c in (1, 2, 3, 4, 5, 6, 7, 7, 8, 8, 9, 9, 10, 10)])
    same_content(peer.came(batch))
    assert {k[:2] for k in items(server, batch)} == {("Imported", None)}


# --- the end of the process --------------------------------------------------------------------------


def test_sigterm_drains_gives_the_lock_back_and_nothing_is_sent_twice(make_server, make_peer):
    peer = make_peer()
    server = make_server(config=configuration(peer))
    client = server.new_client()
    acked = set()

    def answer(request):
        time.sleep(0.05)
        return (202, {"ackId": ack_id(request)}) if request.chunk % 5 == 0 else 200

    def acknowledge():
        for request in peer.came(batch):
            if request.chunk % 5 == 0 and request.chunk not in acked and \
                    Acks(client).post(batch, request.chunk, ack_id(request)).status == 200:
                acked.add(request.chunk)
        return state(client, batch)["status"] in ENDS

    peer.answer = answer
    batch = send(client, leads(400))
    for _ in range(2):
        before = len(peer.came(batch))
        wait_for(lambda least=before + 8: len(peer.came(batch)) >= least, "some chunks")
        assert server.stop() == 0
        assert lock_row(server) == (False, None, None)
        assert column(server, batch, "Status") == 1 and column(server, batch, "LockedAt") is None
        rows = chunk_rows(server, batch)
        assert {c[0] for c in rows.values()} == {"Imported", "AwaitingAck"}, "what was under way is settled"
        assert len(rows) == len(peer.came(batch))
        server.start()
        acknowledge()
    wait_for(acknowledge, "the end")
    assert figures(state(client, batch)) == ("Completed", 400, 400, 0, 0)
    assert sorted(peer.chunks(batch)) == list(range(1, 41))


def test_sigterm_does_not_wait_longer_than_the_drain(make_server, make_peer):
    peer = make_peer()
    server = make_server(config=configuration(peer, {"timeout_ms": 60000}, server={"drain_seconds": 1}))
    client = server.new_client()
    hang = threading.Event()
    peer.answer = lambda request: hang.wait(TIMEOUT) and 200
    batch = send(client, leads(30))
    wait_for(lambda: len(peer.came(batch)) == 3, "calls under way")
    assert server.stop() == 0  # within the 40 s that it waits
    assert column(server, batch, "LockedAt") is None and not lock_row(server)[0]
    hang.set()
    peer.answer = lambda request: 200
    server.start()
    assert figures(wait_end(client, batch)) == ("Completed", 30, 30, 0, 0)
    assert sorted(peer.chunks(batch)) == [1, 1, 2, 2, 3, 3]
    same_content(peer.came(batch))


def test_sigterm_hands_the_batch_over_while_the_process_still_has_requests(make_pair, make_peer):
    """The owner's drain is long, and it has a request in hand that does not end: the batch does not wait for it, nor for
    calls that are not answered."""
    peer = make_peer()
    servers = make_pair(peer, omniflow={"timeout_ms": 60000}, server={"drain_seconds": 300, "idle_timeout_ms": 300000})
    client = servers[0].new_client()
    hang = threading.Event()
    peer.answer = lambda request: hang.wait(TIMEOUT) and 200 if request.chunk in (5, 6) and request.nth == 1 else 200
    batch = send(client, leads(100))
    wait_for(lambda: {5, 6} <= set(peer.chunks(batch)) and state(client, batch)["processedRecords"] == 80, "two under way")
    owner, other = owner_of(batch, servers)
    with half_post(owner, b'{"name": "unfinished"}'):
        owner.process.send_signal(signal.SIGTERM)
        found = wait_end(Http(other, client.headers), batch)
        assert owner.process.poll() is None, "it still drains"
    assert figures(found) == ("Completed", 100, 100, 0, 0)
    [told] = owner.log("BatchHandedOver")
    assert told["cutOff"] == 2
    [stopping] = owner.log("ServerStopping")
    print(f"\nhanded over at {told['time']}, told to stop at {stopping['time']}")
    assert sorted(peer.chunks(batch)) == sorted([*range(1, 11), 5, 6]), "what was not answered goes again"
    same_content(peer.came(batch))
    hang.set()


# --- more than one at a time, more than one server ---------------------------------------------------


@pytest.fixture
def make_pair(tmp_path):
    """Two servers on one PostgreSQL; with one data directory, or with one each."""
    skip_if_missing("postgres")
    backend = Backend("postgres", tmp_path / "database")
    servers = []

    def make(peer, shared=True, **sections):
        for name in ("a", "b"):
            config = configuration(peer, **sections)
            config["server"] = {"data_dir": tmp_path / ("data" if shared else f"data-{name}"), **sections.get("server", {})}
            server = Server(backend, tmp_path / name, config=config)
            servers.append(server)
            server.start()
        return servers

    yield make
    for server in servers:
        server.finish()
    backend.drop()


class Overlap:
    """Answers late enough that two batches at a time would be seen; not before there are as many as are expected."""

    def __init__(self, seconds=0.03, expected=1):
        self.seconds = seconds
        self.expected = expected
        self.lock = threading.Lock()
        self.open = collections.Counter()
        self.most = 0
        self.most_of = collections.Counter()
        self.client_of = {}

    def __call__(self, request):
        with self.lock:
            self.open[request.batch] += 1
            batches = [b for b, n in self.open.items() if n > 0]
            self.most = max(self.most, len(batches))
            for client, n in collections.Counter(self.client_of.get(b) for b in batches).items():
                self.most_of[client] = max(self.most_of[client], n)
        with contextlib.suppress(AssertionError):  # the test tells what was wrong
            wait_for(lambda: self.most >= self.expected, "so many at a time", 2)
        time.sleep(self.seconds)
        with self.lock:
            self.open[request.batch] -= 1
        return 200


def test_exclusive_means_one_batch_in_the_whole_installation(make_pair, make_peer):
    peer = make_peer()
    one, other = make_pair(peer)
    overlap = peer.answer = Overlap()
    clients = [one.new_client() for _ in range(2)]
    callers = [*clients, Http(other, clients[0].headers)]
    batches = [(c, send(c, leads(60, start=100 * i))) for i, c in enumerate(callers)]
    for client, batch in batches:
        assert figures(wait_end(client, batch)) == ("Completed", 60, 60, 0, 0)
    assert overlap.most == 1
    assert sorted(peer.chunks(batches[0][1])) == list(range(1, 7))


def test_concurrent_means_one_for_each_client_or_as_its_policy_says(make_pair, make_peer):
    peer = make_peer()
    one, other = make_pair(peer, imports={"mode": "concurrent", "workers": 4})
    overlap = peer.answer = Overlap(0.05, 4)
    clients = [one.new_client() for _ in range(3)]
    policy(one, clients[2], maxConcurrentBatches=2)
    batches = []
    with held_claims(one.backend):
        for i, (turn, client) in enumerate(itertools.product(range(3), clients)):
            batch = send(client if turn else Http(other, client.headers), leads(60, start=1000 * i))
            overlap.client_of[batch] = client.id
            batches.append((client, batch))
    for client, batch in batches:
        assert figures(wait_end(client, batch)) == ("Completed", 60, 60, 0, 0)
    assert [overlap.most_of[c.id] for c in clients] == [1, 1, 2]
    assert overlap.most == 4
    assert max(collections.Counter((r.batch, r.chunk) for r in peer.requests).values()) == 1


@contextlib.contextmanager
def held_claims(backend):
    """All claims pass through one row."""
    import psycopg2

    with contextlib.closing(psycopg2.connect(backend.url)) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM BatchLocks WHERE Id = 1 FOR UPDATE")
            yield
        connection.rollback()


def owner_of(batch, servers):
    """The server that works on it, and the other."""
    wait_for(lambda: any('"BatchProcessingStarted"' in s.log_text() for s in servers), "somebody to begin")
    ours = [any(line.get("batchId") == batch for line in s.log("BatchProcessingStarted")) for s in servers]
    assert sum(ours) == 1
    return servers if ours[0] else servers[::-1]


def test_a_killed_owner_is_followed_at_once_with_one_data_directory(make_pair, make_peer):
    peer = make_peer()
    servers = make_pair(peer)
    hang = threading.Event()
    peer.answer = lambda request: hang.wait(TIMEOUT) and 200 if 4 < request.chunk < 9 and request.nth == 1 else 200
    client = servers[0].new_client()
    batch = send(client, leads(100))
    wait_for(lambda: len(peer.came(batch)) == 8, "four under way")
    wait_for(lambda: client.get(f"/imports/{batch}").json["processedRecords"] == 40, "the four before them settled")
    owner, other = owner_of(batch, servers)
    owner.kill()
    found = wait_end(Http(other, client.headers), batch)  # a lock that nobody gives back is freed after minutes
    hang.set()
    assert figures(found) == ("Completed", 100, 100, 0, 0)
    assert sorted(peer.chunks(batch)) == sorted([*range(1, 11), 5, 6, 7, 8])
    same_content(peer.came(batch))
    owner.start()


def test_with_a_data_directory_each_a_batch_waits_for_its_machine(make_pair, make_peer):
    peer = make_peer()
    servers = make_pair(peer, shared=False, imports={"lease_seconds": 3})
    hang = threading.Event()
    peer.answer = lambda request: hang.wait(TIMEOUT) and 200 if request.chunk == 2 and request.nth == 1 else 200
    client = servers[0].new_client()
    batch = send(client, leads(20))
    wait_for(lambda: state(client, batch)["processedRecords"] == 10, "one of two settled")
    owner, other = owner_of(batch, servers)
    assert owner is servers[0], "only it has the file"
    owner.kill()
    # The lock is free when its lease is over; the file is still not here.
    over_there = Http(other, client.headers)
    mine = send(over_there, leads(3))
    assert figures(wait_end(over_there, mine)) == ("Completed", 3, 3, 0, 0), "others are not kept waiting"
    assert figures(state(over_there, batch)) == ("Processing", 20, 10, 0, 0)
    hang.set()
    owner.start()
    assert figures(wait_end(client, batch)) == ("Completed", 20, 20, 0, 0)
    assert sorted(peer.chunks(batch)) == [1, 2, 2]


def test_an_owner_that_lost_its_lease_settles_nothing(make_pair, make_peer):
    """It is stopped with four chunks under way; the next owner has sent them too when its answers come."""
    peer = make_peer()
    servers = make_pair(peer, imports={"lease_seconds": 3})
    first, second = threading.Event(), threading.Event()

    def answer(request):
        if request.nth == 1:
            return first.wait(TIMEOUT) and 200
        return second.wait(TIMEOUT) and (200, {"status": "Error", "message": "second"})

    peer.answer = answer
    client = servers[0].new_client()
    batch = send(client, leads(40))
    wait_for(lambda: len(peer.came(batch)) == 4, "four under way")
    owner, other = owner_of(batch, servers)
    owner.process.send_signal(signal.SIGSTOP)
    try:
        wait_for(lambda: len(peer.came(batch)) == 8, "the next owner to send them")
        first.set()
        time.sleep(0.1)
    finally:
        owner.process.send_signal(signal.SIGCONT)
    wait_for(lambda: owner.log("BatchLockLost"), "the first owner to notice")
    asked = Http(other, client.headers)
    assert figures(state(asked, batch)) == ("Processing", 40, 0, 0, 0)
    assert items(other, batch) == [] and {c[0] for c in chunk_rows(other, batch).values()} == {"Sending"}
    second.set()
    assert figures(wait_end(asked, batch)) == ("CompletedWithErrors", 40, 40, 40, 0)
    assert {k[:2] for k in items(other, batch)} == {("Error", "second")}
    assert sorted(peer.chunks(batch)) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert lock_row(other) == (False, None, None)
    assert figures(imported(client, leads(3))[1]) == ("Completed", 3, 3, 0, 0), "and works on"


def test_the_watchdog_frees_old_locks_and_removes_what_a_crash_left(make_server, make_peer):
    server = make_server(config=configuration(make_peer()))
    client = server.new_client()
    done, _ = imported(client, leads(1))
    [[key]] = server.backend.query(f"SELECT Id FROM Clients WHERE ClientIdentifier = '{client.id}'")
    assert server.stop() == 0
    left = directory(server, done) / "original"
    left.mkdir(parents=True)
    (left / "leads.json").write_text("[]")
    lost, old = str(uuid.uuid4()), past(31)
    execute(server, "INSERT INTO ImportBatch (Id, ClientId, Status, FileName, FileType, FileSizeBytes, CreatedAt,"
                    f" LockedAt, ProcessingHost) VALUES ('{lost}', '{key}', 1, 'x.json', 0, 2, '{old}', '{old}',"
                    f" 'elsewhere/{uuid.uuid4()}')")
    execute(server, f"UPDATE BatchLocks SET IsLocked = '1', LockOwnerBatchId = '{lost}', LockedAt = '{old}'")
    marks = [server.directory / "data" / "instances" / str(uuid.uuid4()) for _ in range(2)]
    for mark in marks:
        mark.touch()
    os.utime(marks[0], (time.time() - 3600,) * 2)
    server.start()
    wait_for(lambda: not marks[0].exists(), "the round of the housekeeping")
    assert marks[1].exists(), "a process may be about to lock it"
    assert lock_row(server) == (False, None, None)
    assert column(server, lost, "LockedAt") is None
    assert not directory(server, done).exists()
    assert len(server.log("BatchLockFreed")) == len(server.log("OrphanRemoved")) == 1
    assert figures(imported(client, leads(3))[1]) == ("Completed", 3, 3, 0, 0), "it is in nobody's way"


def test_no_clients_queue_hides_another_client(make_server, make_peer):
    peer = make_peer()
    server = make_server(config=configuration(peer, imports={"mode": "concurrent", "workers": 2}))
    busy, other = server.new_client(), server.new_client()
    go = threading.Event()
    [[key]] = server.backend.query(f"SELECT Id FROM Clients WHERE ClientIdentifier = '{busy.id}'")
    peer.answer = lambda request: go.wait(TIMEOUT) and 200 if request.batch == first else 200
    first = None
    first = send(busy, leads(1))
    rows = ", ".join(f"('{uuid.uuid4()}', '{key}', 0, 'x.json', 0, 10, '{past(9999)}')" for _ in range(1100))
    execute(server, "INSERT INTO ImportBatch (Id, ClientId, Status, FileName, FileType, FileSizeBytes, CreatedAt)"
                    f" VALUES {rows}")
    assert figures(imported(other, leads(3))[1]) == ("Completed", 3, 3, 0, 0)
    go.set()
    assert wait_end(busy, first)["status"] == "Completed"
    assert server.backend.query("SELECT COUNT(*) FROM ImportBatch WHERE Status = 0") == [(1100,)], \
        "their files may be on another machine"


# --- memory ------------------------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_file(make_sqlite_server, make_peer):
    from harness import BIN

    if "asan" in BIN or "tsan" in BIN:
        pytest.skip("the sanitizers' own memory counts too")
    peer = make_peer()
    server = make_sqlite_server(config=configuration(peer, {"batch_size": 5000}))
    client = server.new_client()
    count = 300_000
    notes = "x" * 60
    data = "\n".join(f'{{"PhoneNumber":"+55519{90000000 + i}","Name":"Lead {i}","Notes":"{notes}"}}'
                     for i in range(count)).encode()
    batch = taken(upload(client, data))
    found = wait_end(client, batch, timeout=120)
    assert figures(found) == ("Completed", count, count, 0, 0)
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as f:
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", f.read())[1])
    print(f"peak memory {peak / 1024:.1f} MiB for {len(data) / 1e6:.0f} MB")
    assert peak < 80 * 1024
