"""An import through a server that is killed again and again, to an OmniFlow that fails, is slow and forgets acks: the
batch ends, every record is settled once, no chunk has two contents, and none is sent again without need.

For a long run: DATAFLOW_CRASH_IMPORT_KILLS=100 DATAFLOW_CRASH_RECORDS=100000 DATAFLOW_TEST_SECONDS=600.
"""

import collections
import concurrent.futures
import hashlib
import json
import os
import random
import threading
import time

from harness import Http, wait_for
from test_imports_process import ENDS, PATH, Peer, configuration, same_content, send
from test_tickets import CLOCK_MS, LATE_MS, instant_ms, make_world, world  # noqa: F401 (fixtures)

import pg

ROUNDS = int(os.environ.get("DATAFLOW_CRASH_ROUNDS", "50"))
KILLS = int(os.environ.get("DATAFLOW_CRASH_IMPORT_KILLS", max(5, ROUNDS * 3 // 10)))
RECORDS = int(os.environ.get("DATAFLOW_CRASH_RECORDS", max(6000, 400 * KILLS)))  # enough for the kills
BATCH_SIZE = max(20, RECORDS // 1000)
ENDED = 60 + KILLS * 2 + RECORDS // 500  # seconds that it may take
ACK_TIMEOUT_MS = 1000
TIMEOUT_MS = 2000
FAULTS = (
    {"status": 503, "rate": 0.2},
    {"latencyMs": 300, "rate": 0.05},
    {"drop": True, "rate": 0.02},
    {"dropAcks": True, "rate": 0.1},
)


def records(count):
    """Most are fine, some have no phone, some come twice."""
    made = []
    for i in range(count):
        if i % 50 == 49:
            made.append({"Name": f"Nobody {i}"})
        elif i % 70 == 69:
            made.append(dict(made[i - 1]))
        else:
            made.append({"PhoneNumber": f"+55519{90000000 + i}", "Name": f"Lead {i}"})
    return made


Sent = collections.namedtuple("Sent", "key trace at status chunk digest")


class Journal:
    """Everything that came to the sandbox, read while it comes."""

    def __init__(self, sandbox):
        self.sandbox = sandbox
        self.seen = collections.Counter()
        self.whole = 0  # how many had come when all of them were seen
        self.stopping = threading.Event()

    def run(self):
        while not self.stopping.wait(0.05):
            self.read()

    def read(self):
        came = sum(row["requests"] for row in self.sandbox.get("/_stats").json["paths"] if row["path"] == PATH)
        limit = came - self.whole + 20  # more may come before the next call
        while self.seen.total() < came:
            assert limit <= 2000, "the sandbox was quicker than it could be read"
            found = self.sandbox.get(f"/_received?path={PATH}&limit={min(limit, 1000)}").json
            for request, times in collections.Counter(map(self.sent, found)).items():
                self.seen[request] = max(self.seen[request], times)
            limit *= 2
        self.whole = came

    @staticmethod
    def sent(r):
        assert "bodyCut" not in r
        body = json.dumps(r["body"], sort_keys=True).encode()
        return Sent(r["idempotencyKey"], r["headers"]["traceparent"], instant_ms(r["at"]), r["status"],
                    r["body"]["chunkId"], hashlib.sha256(body).hexdigest())


def kill_again_and_again(world, server, enough):
    chance = random.Random(20241115)
    least, most = (1.5, 3) if world.backend.name == "sqlserver" else (0.05, 0.6)
    while not enough.wait(chance.uniform(least, most)) and len(world.kills) < KILLS:
        server.kill()
        world.kills.append(time.time() * 1000)
        server.start()


# --- what must hold in the end -----------------------------------------------------------------------


def check_items(world, batch, made):
    """Every record once, and the batch's counters are their sums."""
    rows = world.backend.query("SELECT Sequence, Status, ChunkId, PayloadJson FROM ImportItem"
                               f" WHERE BatchId = '{batch}' ORDER BY Sequence")
    assert [r[0] for r in rows] == list(range(len(made)))
    for (sequence, status, chunk, payload), record in zip(rows, made):
        expected = 1 if "PhoneNumber" not in record else 2 if sequence and record == made[sequence - 1] else 0
        assert status == expected, f"record {sequence}"
        assert (chunk is not None) == (status == 0)
        if status == 0:
            assert chunk == sequence // BATCH_SIZE + 1
            assert json.loads(payload)["PhoneNumber"] == "+***********" + record["PhoneNumber"][-2:]
    counts = collections.Counter(r[1] for r in rows)
    [found] = world.backend.query("SELECT Status, TotalRecords, ProcessedRecords, ErrorCount, SkippedCount, LockedAt"
                                  f" FROM ImportBatch WHERE Id = '{batch}'")
    assert tuple(found) == (4, len(made), len(made), counts[1], counts[2], None)
    [[locked, owner]] = world.backend.query("SELECT IsLocked, LockOwnerBatchId FROM BatchLocks")
    assert not locked and owner is None


def needless(before, after, kills):
    """Why a chunk was sent again; None: for nothing."""
    if before.status != 202:
        return "failed"
    if any(before.at - LATE_MS <= kill <= after.at + CLOCK_MS for kill in kills):
        return "killed"
    return "no ack in time" if after.at - before.at >= ACK_TIMEOUT_MS - CLOCK_MS else None


def check_sends(world, batch, journal):
    """One content for each chunk; sent again only for a reason, and never after it was settled."""
    rows = {r[0]: r for r in world.backend.query("SELECT ChunkId, Status, Attempts, ContentHash, UpdatedAt"
                                                 f" FROM ImportChunk WHERE BatchId = '{batch}'")}
    assert sorted(rows) == list(range(1, -(-RECORDS // BATCH_SIZE) + 1))
    assert {r[1] for r in rows.values()} <= {3, 5}
    sends = collections.defaultdict(list)
    for request in sorted(journal.seen.elements(), key=lambda r: (r.at, r.status != "dropped")):
        sends[request.chunk].append(request)
    reasons = collections.Counter()
    for chunk, requests in sends.items():
        _, _, attempts, digest, settled = rows[chunk]
        assert {r.key for r in requests} == {f"{batch}:{chunk}:{digest.strip()}"}, f"chunk {chunk} has two contents"
        assert len({r.digest for r in requests}) == 1, f"chunk {chunk} has two contents"
        assert len({r.trace for r in requests}) <= attempts
        assert requests[-1].at <= instant_ms(settled) + CLOCK_MS, f"chunk {chunk} was sent after it was settled"
        for before, after in zip(requests, requests[1:]):
            why = needless(before, after, world.kills)
            assert why, f"chunk {chunk} was sent again for nothing: {before}, {after}"
            reasons[why] += 1
    assert sorted(sends) == sorted(c for c, r in rows.items() if r[1] == 3)
    return sum(map(len, sends.values())), reasons


def test_an_import_through_kill_9(world):  # noqa: F811
    made = records(RECORDS)
    box = world.sandbox()
    box.url = "http://{}:{}".format(*box.host_port)
    address = f"127.0.0.1:{pg.free_port()}"  # the same after each start: acks go there
    omniflow = {"batch_size": BATCH_SIZE, "max_retries": 100, "retry_delays_ms": "20", "timeout_ms": TIMEOUT_MS,
                "ack_timeout_seconds": ACK_TIMEOUT_MS // 1000}
    server = world.server(**configuration(box, omniflow, server={"listen": address}))
    client, sandbox = server.new_client(), Http(box)
    journal = Journal(sandbox)
    config = {"omniflow": "async", "ackDelayMs": 20, "serverUrl": f"http://{address}", "clientId": client.id,
              "clientSecret": client.secret}
    assert sandbox.request("PUT", "/_config", json=config).status == 200
    for fault in FAULTS:
        assert sandbox.post("/_faults", {"path": PATH, **fault}).status == 201
    begun = time.monotonic()
    batch = send(client, made)
    enough = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        try:
            reading = pool.submit(journal.run)
            killing = pool.submit(kill_again_and_again, world, server, enough)

            def processed():
                [[status, count]] = world.backend.query("SELECT Status, ProcessedRecords FROM ImportBatch"
                                                        f" WHERE Id = '{batch}'")
                return status in (3, 4, 5) or count >= RECORDS * 9 // 10

            wait_for(lambda: killing.done() or processed(), "most of it processed", ENDED, 0.1)
            enough.set()
            killing.result()
            killed = time.monotonic()
            wait_for(lambda: client.get(f"/imports/{batch}").json["status"] in ENDS, "the end", ENDED, 0.1)
            ended = time.monotonic()
        finally:
            enough.set()
            journal.stopping.set()
        reading.result()
    journal.read()
    check_items(world, batch, made)
    requests, reasons = check_sends(world, batch, journal)
    assert len(world.kills) >= min(5, KILLS), "kills fell while work was under way"
    world.finish()
    print(f"\n{world.backend.name}: {RECORDS} records, {len(world.kills)} kills in {killed - begun:.1f} s, over after"
          f" {ended - begun:.1f} s; {requests} requests for {-(-RECORDS // BATCH_SIZE)} chunks, sent again:"
          f" {dict(reasons)}")


# --- turns -------------------------------------------------------------------------------------------


def with_runs(count, start):
    """After every tenth record a run of empty ones."""
    made = []
    for i in range(count):
        made.append({"PhoneNumber": f"+55519{start + i}", "Name": f"Lead {i}"})
        made += [{}] * (3 if i % 10 == 9 else 0)
    return made


def kill_at_turns(world, server, count, over):
    """When a batch has just given way, or is about to; and in between."""
    chance = random.Random(20260714)
    seen = 0
    while len(world.kills) < count and not over():
        wait_for(lambda: len(server.log("BatchGaveWay")) > seen or over(), "somebody to give way", ENDED, 0.005)
        seen = len(server.log("BatchGaveWay"))
        time.sleep(chance.choice((0, 0.01, 0.1, 0.9)))
        server.kill()
        world.kills.append(time.time() * 1000)
        server.start()


def test_turns_through_kill_9(world):  # noqa: F811
    """Two clients' long batches give way to each other, and the server dies as they do: both end, every record is settled once,
    and what is sent again has the content it had."""
    peer = Peer()
    try:
        server = world.server(**configuration(peer, {"max_retries": 100}, imports={"fair_seconds": 1}))
        peer.answer = lambda request: time.sleep(0.01) or 200
        clients = [server.new_client() for _ in range(2)]
        made = [with_runs(4000, start) for start in (90000000, 91000000)]
        batches = [send(c, m) for c, m in zip(clients, made)]

        def over():
            found = world.backend.query("SELECT Status FROM ImportBatch")
            return all(status in (3, 4, 5) for (status,) in found)

        kill_at_turns(world, server, max(3, KILLS // 3), over)
        wait_for(over, "the end", ENDED, 0.1)
    finally:
        peer.close()
    for batch, records_of in zip(batches, made):
        [found] = world.backend.query("SELECT Status, TotalRecords, ProcessedRecords, ErrorCount, SkippedCount, GaveWayAt, LockedAt"
                                      f" FROM ImportBatch WHERE Id = '{batch}'")
        assert tuple(found) == (3, len(records_of), len(records_of), 0, records_of.count({}), None, None)
        rows = world.backend.query("SELECT Sequence, Status, COALESCE(RecordCount, 1) FROM ImportItem"
                                   f" WHERE BatchId = '{batch}' ORDER BY Sequence")
        place = 0
        for sequence, status, count in rows:
            assert (sequence, status) == (place, 2 if records_of[place] == {} else 0)
            assert count == (3 if status == 2 else 1)
            place += count
        assert place == len(records_of)
        same_content(peer.came(batch))
        assert sorted(set(peer.chunks(batch))) == list(range(1, max(peer.chunks(batch)) + 1))
    assert len(world.kills) >= 3, "kills fell while they took turns"
    world.finish()
