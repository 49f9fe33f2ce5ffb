"""Clients take turns, and a later owner of a batch cuts it by the rules that it was begun with."""

import collections
import hashlib
import json
import threading
import time
import uuid

import pytest
from harness import Http, wait_for
from test_imports_growth import FILES
from test_imports_process import (  # noqa: F401 (fixtures)
    chunk_rows,
    column,
    configuration,
    figures,
    item,
    leads,
    lock_row,
    make_pair,
    make_peer,
    past,
    same_content,
    send,
    state,
    wait_end,
    waits,
)
from test_imports_receive import execute, taken, upload

pytestmark = pytest.mark.threads

# Each chunk takes as long as makes a batch of 4000 records last for two turns at least.
LONG = 4000


def slow(request):
    time.sleep(0.02)
    return 200


def starts(server, batches):
    """The turns in the order in which they began: the index of each batch in `batches`."""
    return [batches.index(line["batchId"]) for line in server.log("BatchProcessingStarted") if line["batchId"] in batches]


def gave_way(server, batch):
    return [line for line in server.log("BatchGaveWay") if line["batchId"] == batch]


@pytest.mark.parametrize("mode", ["exclusive", "concurrent"])
def test_a_long_batch_gives_way_to_another_client(make_server, make_peer, mode):  # noqa: F811
    peer = make_peer()
    server = make_server(config=configuration(peer, imports={"fair_seconds": 1, "mode": mode, "workers": 1}))
    peer.answer = slow
    huge, small = server.new_client(), server.new_client()
    long = send(huge, leads(LONG))
    wait_for(lambda: peer.came(long), "it to begin")
    begun = state(huge, long)["startedAt"]
    short = send(small, leads(25))
    found = wait_end(small, short)
    assert figures(found) == ("Completed", 25, 25, 0, 0)
    waiting = state(huge, long)
    assert waiting["status"] == "Processing" and 0 < waiting["processedRecords"] < LONG
    end = wait_end(huge, long)
    assert figures(end) == ("Completed", LONG, LONG, 0, 0)
    assert end["startedAt"] == begun and end["gaveWayAt"] is None
    assert len(gave_way(server, long)) == 1, "and was not disturbed any more"
    # All that it had sent was settled when it stopped: nothing is sent twice.
    assert sorted(peer.chunks(long)) == list(range(1, LONG // 10 + 1))
    order = [r.batch for r in peer.requests]
    assert long in order[:order.index(short)] and long in order[order.index(short):]
    assert not {long, short} & set(order[order.index(short):][:3]) - {short}, "the other's chunks were not in between"
    assert lock_row(server) == (False, None, None)


def test_a_long_batch_gives_way_to_one_that_waited_for_omniflow(make_server, make_peer):  # noqa: F811
    peer = make_peer()
    server = make_server(config=configuration(
        peer, {"max_outage_seconds": 0, "max_retries": 0, "retry_delays_ms": "5", "probe_seconds": 1},
        imports={"fair_seconds": 1}))
    back_for = set()
    peer.answer = lambda request: slow(request) if request.batch in back_for else 503
    huge, small = server.new_client(), server.new_client()
    long, short = send(huge, leads(LONG)), send(small, leads(25))
    for client, batch in ((huge, long), (small, short)):
        waits(client, batch)
    back_for.add(long)  # first, so that it is in work when the other could go
    wait_for(lambda: state(huge, long)["processedRecords"] > 0, "it to go on")
    back_for.add(short)
    assert figures(wait_end(small, short)) == ("Completed", 25, 25, 0, 0)
    waiting = state(huge, long)
    assert waiting["status"] == "Processing" and 0 < waiting["processedRecords"] < LONG
    assert figures(wait_end(huge, long)) == ("Completed", LONG, LONG, 0, 0)
    assert gave_way(server, long)


def test_it_waits_for_the_acks_it_is_owed(make_server, make_peer):  # noqa: F811
    peer = make_peer()
    server = make_server(config=configuration(peer, {"max_parallel_chunks": 2}, imports={"fair_seconds": 1}))
    huge, small = server.new_client(), server.new_client()
    held = threading.Event()

    def answer(request):
        if request.batch != long or request.chunk != 2:
            return 200
        held.set()
        return 202, {"ackId": "a-2"}

    long = None
    peer.answer = lambda request: 503  # until it has a name
    long = send(huge, leads(LONG))
    peer.answer = answer
    held.wait(20)
    short = send(small, leads(5))
    wait_for(lambda: len(peer.came(long)) > 30, "the turn to go on beside the chunk that waits")

    def stands():
        count = len(peer.came(long))
        time.sleep(0.5)
        return count == len(peer.came(long))

    wait_for(stands, "no more to be sent")
    assert state(small, short)["status"] == "Pending", "one chunk waits for its ack"
    assert column(server, long, "GaveWayAt") is None
    assert huge.post(f"/imports/{long}/acks", {"ackId": "a-2", "chunkId": 2, "status": "Imported"}).status == 200
    assert figures(wait_end(small, short)) == ("Completed", 5, 5, 0, 0)
    assert wait_end(huge, long)["status"] == "Completed"
    same_content(peer.came(long))


def test_without_fairness_they_are_taken_as_they_came(make_server, make_peer):  # noqa: F811
    peer = make_peer()
    server = make_server(config=configuration(peer, imports={"fair_seconds": 0}))
    go = threading.Event()
    peer.answer = lambda request: go.wait(20) and 200
    one, other = server.new_client(), server.new_client()
    batches = [send(c, leads(1, start=i)) for i, c in enumerate((one, one, one, other))]
    go.set()
    for caller, batch in zip((one, one, one, other), batches):
        wait_end(caller, batch)
    assert [r.batch for r in peer.requests] == batches
    assert server.log("BatchGaveWay") == []


def test_clients_take_turns_however_much_one_has_sent(make_server, make_peer):  # noqa: F811
    peer = make_peer()
    server = make_server(config=configuration(peer))
    go = threading.Event()
    peer.answer = lambda request: go.wait(20) and 200
    clients = [server.new_client() for _ in range(3)]
    sent = [(c, send(clients[c], leads(1, start=i))) for i, c in enumerate((0, 0, 0, 0, 1, 1, 2))]
    go.set()
    for c, batch in sent:
        wait_end(clients[c], batch)
    of = {batch: c for c, batch in sent}
    assert [of[r.batch] for r in peer.requests] == [0, 1, 2, 0, 1, 0, 0]
    for c in range(3):
        assert [r.batch for r in peer.requests if of[r.batch] == c] == [b for owner, b in sent if owner == c], "as they came"


def test_the_turn_goes_to_whose_last_one_is_longest_ago(make_server, make_peer):  # noqa: F811
    """Three long ones: nobody has two turns while another waits."""
    peer = make_peer()
    server = make_server(config=configuration(peer, imports={"fair_seconds": 1}))
    peer.answer = slow
    clients = [server.new_client() for _ in range(3)]
    batches = [send(c, leads(2000 + 1000 * i, start=10000 * i)) for i, c in enumerate(clients)]
    for caller, batch in zip(clients, batches):
        assert wait_end(caller, batch, timeout=90)["status"] == "Completed"
    turns = starts(server, batches)
    ends = [max(i for i, t in enumerate(turns) if t == b) for b in range(3)]
    for i, turn in enumerate(turns[1:], start=1):
        others = [b for b in range(3) if ends[b] >= i]
        last = {b: max((k for k in range(i) if turns[k] == b), default=-1) for b in others}
        assert last[turn] == min(last.values()), turns
    assert max(collections.Counter((r.batch, r.chunk) for r in peer.requests).values()) == 1
    assert len(turns) > 3


def test_turns_of_several_servers(make_pair, make_peer):  # noqa: F811
    peer = make_peer()
    servers = make_pair(peer, imports={"fair_seconds": 1})
    peer.answer = slow
    huge, small = servers[0].new_client(), servers[0].new_client()
    long = send(huge, leads(LONG))
    wait_for(lambda: peer.came(long), "it to begin")
    short = send(Http(servers[1], small.headers), leads(5))
    wait_end(small, short)
    assert state(huge, long)["status"] == "Processing"
    assert figures(wait_end(huge, long)) == ("Completed", LONG, LONG, 0, 0)
    assert sum(len(gave_way(s, long)) for s in servers) == 1
    assert sorted(peer.chunks(long)) == list(range(1, LONG // 10 + 1))


def test_a_turn_for_a_file_that_only_another_machine_has(make_pair, make_peer):  # noqa: F811
    """Who gave way does not take it up again before that machine has looked."""
    peer = make_peer()
    servers = make_pair(peer, shared=False, imports={"fair_seconds": 1, "poll_ms": 500})
    peer.answer = slow
    huge, small = servers[0].new_client(), servers[0].new_client()
    long = send(huge, leads(LONG))
    wait_for(lambda: peer.came(long), "it to begin")
    short = send(Http(servers[1], small.headers), leads(5))
    wait_end(small, short)
    assert state(huge, long)["status"] == "Processing"
    assert len(gave_way(servers[0], long)) == 1
    assert figures(wait_end(huge, long)) == ("Completed", LONG, LONG, 0, 0)


# --- rules -------------------------------------------------------------------------------------------


@pytest.fixture
def waiting(make_server, make_peer):  # noqa: F811
    """make(data, name): a batch that nobody works on, the server stopped, and a way to let it go on."""

    class Waiting:
        def __init__(self, data, name):
            self.peer = make_peer()
            self.server = make_server(config=configuration(self.peer), args=["--set", "server.roles=api"])
            self.client = self.server.new_client()
            self.batch = taken(upload(self.client, data, name))
            assert self.server.stop() == 0

        def set(self, values):
            execute(self.server, f"UPDATE ImportBatch SET {values} WHERE Id = '{self.batch}'")

        def go_on(self):
            self.server.args = ()
            self.server.start()

    return Waiting


def old_chunk(batch, chunk, offset, entries):
    """As the release before wrote it."""
    body = json.dumps({"batchId": batch, "chunkId": chunk, "offset": offset, "items": entries}, separators=(",", ":"))
    return hashlib.sha256(body.encode()).hexdigest()


@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize("settled", [0, 1, 2])
def test_what_the_release_before_began_is_finished_by_its_rules(waiting, form, settled):
    """Chunks of four records each, empty ones counted: the second has nothing in it but empty ones."""
    w = waiting(*FILES[form])
    lead = [{"PhoneNumber": f"+55519990000{i:02}", "Name": name} for i, name in enumerate("abcd")]
    chunks = [(0, [item(0, lead[0])], 1), (4, [], 3), (8, [item(8, lead[1]), item(9, lead[2]), item(11, lead[3])], 1)]
    for chunk, (offset, entries, status) in enumerate(chunks[:settled + 1], start=1):
        if not entries and chunk == settled + 1:
            continue  # one without items is settled when it is stored
        digest = old_chunk(w.batch, chunk, offset, entries)
        execute(w.server, "INSERT INTO ImportChunk (BatchId, ChunkId, RecordOffset, RecordCount, ContentHash, Status, Attempts)"
                          f" VALUES ('{w.batch}', {chunk}, {offset}, 4, '{digest}', {(3 if entries else 5) if chunk <= settled else 1}, 1)")
        for sequence in range(offset, offset + 4) if chunk <= settled else ():
            execute(w.server, "INSERT INTO ImportItem (BatchId, Sequence, PayloadJson, Status, ChunkId) VALUES"
                              f" ('{w.batch}', {sequence}, '{{}}', {0 if sequence == 0 else 2}, NULL)")
    w.set(f"Status = 1, StartedAt = '{past(1)}', TotalRecords = 12, BatchSize = 4, FencingToken = 0, LockedAt = NULL,"
          f" ProcessingHost = 'old/{uuid.uuid4()}', ProcessedRecords = {4 * settled}, SkippedCount = {(0, 3, 7)[settled]}")
    w.go_on()
    found = wait_end(w.client, w.batch)
    assert figures(found) == ("Completed", 12, 12, 0, 8)
    assert sorted(w.peer.chunks(w.batch)) == [[1, 3], [3], [3]][settled]
    rows = w.server.backend.query("SELECT Sequence, RecordCount FROM ImportItem"
                                  f" WHERE BatchId = '{w.batch}' ORDER BY Sequence")
    assert rows == [(n, None) for n in range(12)], "one item for each record"
    assert column(w.server, w.batch, "CutRules") is None
    assert {r[0] for r in chunk_rows(w.server, w.batch).values()} == {"Imported", "Skipped"}


def test_what_the_release_before_only_counted_is_cut_by_the_rules_of_today(waiting):
    w = waiting(*FILES["csv"])
    w.set(f"Status = 1, StartedAt = '{past(1)}', TotalRecords = 12, BatchSize = 4, LockedAt = NULL")
    w.go_on()
    assert figures(wait_end(w.client, w.batch)) == ("Completed", 12, 12, 0, 8)
    assert (column(w.server, w.batch, "CutRules"), len(w.client.get(f"/imports/{w.batch}/items").json["items"])) == (2, 6)


def test_rules_of_a_newer_release_are_left_to_it(waiting):
    w = waiting(*FILES["csv"])
    w.set(f"Status = 1, StartedAt = '{past(1)}', TotalRecords = 12, BatchSize = 4, LockedAt = NULL, CutRules = 5")
    w.go_on()
    for _ in range(3):  # others are not kept waiting
        assert figures(wait_end(w.client, send(w.client, leads(3)))) == ("Completed", 3, 3, 0, 0)
    assert figures(state(w.client, w.batch)) == ("Processing", 12, 0, 0, 0)
    assert w.peer.came(w.batch) == []
    [said] = w.server.log("BatchOfNewerRelease")
    assert (said["batchId"], said["cutRules"]) == (w.batch, 5)


@pytest.mark.parametrize("form,shown", [("csv", False), ("plain", True)])
def test_what_an_ended_process_leaves_looks_taken_to_those_who_must_not_cut_it(make_server, make_peer, form, shown):  # noqa: F811
    """The release before takes what has no LockedAt, or whose owner's mark it finds without its owner."""
    peer = make_peer()
    server = make_server(config=configuration(peer, {"batch_size": 2}))
    client = server.new_client()
    hang = threading.Event()
    peer.answer = lambda request: hang.wait(20) and 200 if request.chunk == 2 and request.nth == 1 else 200
    data = json.dumps(leads(6)).encode() if form == "plain" else FILES[form][0]
    batch = taken(upload(client, data, "leads.json" if form == "plain" else FILES[form][1]))
    wait_for(lambda: chunk_rows(server, batch).get(2), "the second chunk")
    host = column(server, batch, "ProcessingHost").rsplit("/", 1)[1]
    assert (host == "2") != shown, "the mark of its owner"
    server.process.terminate()
    wait_for(lambda: server.log("ServerStopping"), "the end")
    time.sleep(0.2)
    hang.set()
    assert server.process.wait(20) == 0
    left = column(server, batch, "Status"), column(server, batch, "LockedAt") is None, column(server, batch, "ProcessingHost") is None
    assert left == (1, shown, not shown)
    server.start()
    assert wait_end(client, batch)["status"] == "Completed"
    same_content(peer.came(batch))
