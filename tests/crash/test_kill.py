"""kill -9 while writes run, again and again: whatever was answered 2xx is there afterwards, once."""

import contextlib
import http.client
import json
import os
import random
import sqlite3
import threading
import time
import uuid

import pytest
from harness import BACKENDS, BIN, SANITIZER, Backend, Relay, Server, skip_if_missing, wait_for

import pg

ROUNDS = int(os.environ.get("DATAFLOW_CRASH_ROUNDS", "50"))
WRITERS = 8
PAYLOAD = "ação " + "x" * 600


class Writers:
    """Connections that write as fast as they are answered, until the server dies under them or stop() is called."""

    def __init__(self, client):
        self.client = client
        self.acknowledged = []
        self.sent = 0
        self.refused = []
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run) for _ in range(WRITERS)]
        for thread in self.threads:
            thread.start()

    def run(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = self.client.connect()
            headers = {**self.client.headers, "Content-Type": "application/json"}
            while not self.stopping.is_set():
                row = str(uuid.uuid4())
                with self.lock:
                    self.sent += 1
                connection.request("POST", "/bench/rows", json.dumps({"id": row, "payload": PAYLOAD}).encode(), headers)
                answer = connection.getresponse()
                answer.read()
                with self.lock:
                    if answer.status == 201:
                        self.acknowledged.append(row)
                    else:
                        self.refused.append(answer.status)
                if answer.status != 201:
                    time.sleep(0.02)

    def join(self):
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()

    def stop(self):
        self.stopping.set()
        self.join()


@pytest.fixture(params=BACKENDS)
def server(request, tmp_path):
    skip_if_missing(request.param)
    backend = Backend(request.param, tmp_path / "database")
    server = Server(backend, tmp_path / "server", binary=f"{BIN}-bench")
    yield server
    if server.process:
        server.kill()
    backend.drop()


def stored(backend):
    rows = [(str(i), p) for i, p in backend.query("SELECT BusinessDocId, RawPayloadJson FROM TB_TICKET_INTERFACE")]
    ids = {i for i, _ in rows}
    assert len(ids) == len(rows), "a row is there twice"
    assert all(p == PAYLOAD for _, p in rows), "a row is torn"
    return ids


def check_integrity(backend):
    if backend.name == "sqlite":
        with contextlib.closing(sqlite3.connect(backend.file)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_what_was_answered_survives_kill_9(server):
    chance = random.Random(20240229)
    longest = 1.5 if server.backend.name == "sqlserver" else 0.35  # its first statements may take a second
    acknowledged, sent = set(), 0
    server.start()
    client = server.new_client("Writer", scopes=["interface"])
    for round_ in range(ROUNDS):
        writers = Writers(client)
        time.sleep(chance.uniform(0.02, longest))
        server.kill()
        writers.join()
        assert not writers.refused, f"round {round_}: answered {set(writers.refused)}"
        acknowledged.update(writers.acknowledged)
        sent += writers.sent
        server.start()  # by itself: no repair, no lock left behind
        present = stored(server.backend)
        missing = acknowledged - present
        assert not missing, f"round {round_}: {len(missing)} of {len(acknowledged)} acknowledged rows are gone"
        assert len(present) <= sent
        assert client.get("/whoami").status == 200
    check_integrity(server.backend)
    assert len(acknowledged) > ROUNDS, "writes were running"
    text = server.log_text()
    assert not SANITIZER.search(text), text[-4000:]
    assert server.stop() == 0
    check_integrity(server.backend)
    print(f"{server.backend.name}: {ROUNDS} kills, {len(acknowledged)} acknowledged of {sent} sent, none lost")


@pytest.fixture(params=("postgres", "sqlserver"))
def fragile(request, tmp_path):
    """A database, the URL it is reached by, and how to take it away under a running server and to bring it back."""
    skip_if_missing(request.param)
    if request.param == "postgres":
        postgres = pg.Postgres().start()
        yield Backend.on(postgres.url()), postgres.url(), postgres.kill, postgres.start
        postgres.close()
    else:
        backend = Backend(request.param, tmp_path / "database")
        with Relay(backend.url) as relay:
            yield backend, relay.url, relay.cut, relay.start
        backend.drop()


def test_what_was_answered_survives_the_database_lost_under_a_running_server(fragile, tmp_path):
    chance = random.Random(20240301)
    backend, url, take_away, bring_back = fragile
    server = Server(backend, tmp_path, binary=f"{BIN}-bench", config={"database": {"url": url}}).start()
    try:
        client = server.new_client("Writer", scopes=["interface"])
        acknowledged = set()
        for round_ in range(max(2, ROUNDS // 10)):
            writers = Writers(client)
            time.sleep(chance.uniform(0.1, 0.4))
            take_away()
            time.sleep(chance.uniform(0.0, 0.3))
            bring_back()
            wait_for(lambda: server.anonymous().get("/readyz").status == 200, "ready again", timeout=60)
            before = len(writers.acknowledged)
            wait_for(lambda w=writers, n=before: len(w.acknowledged) > n, "writes again", timeout=60)
            writers.stop()
            assert set(writers.refused) <= {503}
            acknowledged.update(writers.acknowledged)
            missing = acknowledged - stored(backend)
            assert not missing, f"round {round_}: {len(missing)} of {len(acknowledged)} acknowledged rows are gone"
        server.finish()
    finally:
        if server.process:
            server.kill()
