"""Batches of which a broker tells the workers: messages that arrive, are lost, repeated or hostile; brokers that go away.

One process takes uploads, others work, so that nothing but a message makes a worker look: with polling as good as off
(BLIND), a batch that is worked on was announced.
"""

import atexit
import functools
import subprocess
import threading
import uuid

import pytest
import rabbit
from harness import wait_for
from test_imports_process import configuration, leads, make_peer, send, state, wait_end  # noqa: F401 (a fixture)
from test_imports_receive import execute
from test_relay import Kafka, on_postgres, on_sqlite

pytestmark = pytest.mark.threads

BLIND = {"poll_ms": 60000, "queue_backstop_seconds": 3600}
EAGER = {"poll_ms": 50, "queue_backstop_seconds": 3600}
HOSTILE = [b"", b"hello", b"\x00\xff\xfe", b"{}", str(uuid.uuid4()).encode() + b"x", b"x" * 257, b"y" * 200_000]


class Broker(rabbit.Rabbit):
    """With what an operator, or somebody hostile, can do to a queue."""

    def _run(self, *args, **kwargs):
        return subprocess.run([args[0], "--url", self.url(), *args[1:]], check=True, capture_output=True, timeout=60, **kwargs)

    def publish(self, queue, body):
        self._run("amqp-publish", "-r", queue, input=body)

    def delete(self, queue):
        self._run("amqp-delete-queue", "-q", queue)

    def counts(self, queue):
        """Messages that are ready, and that somebody has; as the node last counted them."""
        file = f"{self.dir}/counts"
        self.tell(f'file:write_file("{file}", [io_lib:format("~p ~p", [proplists:get_value(K, rabbit_amqqueue:info(Q, '
                  '[messages_ready, messages_unacknowledged])) || K <- [messages_ready, messages_unacknowledged]]) || '
                  f'{{ok, Q}} <- [rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"{queue}">>))]])')
        with open(file, encoding="ascii") as f:
            return tuple(map(int, f.read().split()))


@functools.cache
def begun_broker():
    broker = Broker().begin()
    atexit.register(broker.close)
    return broker


@functools.cache
def shared_broker():
    """One for all tests, which leave it running; each has a queue of its own."""
    broker = begun_broker().wait()
    broker.tell("application:set_env(rabbit, quorum_tick_interval, 200)")  # how often messages are counted
    return broker


@pytest.fixture(autouse=True)
def broker_begins():
    """While it starts, the tests run that need none: they come first."""
    begun_broker()


class Installation:
    """A process that takes uploads, and as many as the test wants that work on them."""

    def __init__(self, make_server, peer, **imports):
        self.make_server, self.peer, self.imports = make_server, peer, imports
        self.front = self.make("api,maintain")
        self.client = self.front.new_client()

    def make(self, roles, **imports):
        first = getattr(self, "front", None)
        server = {"roles": roles, "drain_seconds": 1, **({"data_dir": first.directory / "data"} if first else {})}
        return self.make_server(first and first.backend, config=configuration(self.peer, imports={**self.imports, **imports}, server=server))

    def worker(self, **imports):
        worker = self.make("import", **imports)
        wait_for(lambda: connected(worker), "the worker to listen")
        return worker

    def rows(self):
        return self.front.backend.query("SELECT status, reason, aggregate_id FROM batch_ready_outbox ORDER BY id")

    def wait_sent(self, count):
        wait_for(lambda: [row[0] for row in self.rows()] == ["PROCESSED"] * count, f"{count} rows to be sent")

    def query(self, column, batch):
        return self.front.backend.query(f"SELECT {column} FROM ImportBatch WHERE Id = '{batch}'")[0][0]


def check_of(server):
    answer = server.anonymous().get("/readyz")
    assert answer.status == 200, answer
    return next((c["status"] for c in answer.json["checks"] if c["name"] == "queue"), None)


def connected(server):
    return check_of(server) == "ok"


def metric(server, name):
    lines = server.admin().get("/metrics").body.decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + " ") or line.startswith(name))


@pytest.fixture
def queue():
    return f"q-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def make_installation(make_server, make_peer, queue):  # noqa: F811
    def make(**imports):
        return Installation(make_server, make_peer(),
                            **{**BLIND, "queue": "rabbitmq", "queue_url": shared_broker().url(), "queue_name": queue, **imports})

    return make


# --- without RabbitMQ --------------------------------------------------------------------------------


@on_sqlite
@pytest.mark.parametrize("settings, complaint", [
    ({"queue": "rabbitmq"}, "needs queue_url"),
    ({"queue": "kafka"}, "needs queue_url"),
    ({"queue": "rabbitmq", "queue_url": "http://x"}, "queue_url: target: must be amqp://"),
    ({"queue": "kafka", "queue_url": "user:secret@host:9092"}, "queue_url: target: must be kafka://"),
    ({"queue": "rabbitmq", "queue_url": "amqp://localhost", "queue_name": "a b"}, "queue_name"),
    ({"queue": "kafka", "queue_url": "h:9092", "queue_properties": "group.id=x"}, "group.id cannot be set"),
])
def test_a_queue_that_cannot_work_is_refused(make_server, settings, complaint):
    server = make_server(config={"imports": settings}, start=False)
    refused = server.cli("check-config")
    assert refused.returncode == 2 and complaint in refused.stderr, refused
    assert "secret" not in refused.stderr


def test_without_a_queue_nothing_is_announced(make_server, make_peer):  # noqa: F811
    server = make_server(config=configuration(make_peer()))
    client = server.new_client()
    assert wait_end(client, send(client, leads(1)))["status"] == "Completed"
    assert server.backend.query("SELECT COUNT(*) FROM batch_ready_outbox")[0][0] == 0


@on_postgres
def test_kafka_tells_of_batches_and_may_go_away(make_server, make_peer, queue):  # noqa: F811
    cluster = Kafka()
    try:
        cluster.tell(f"topic {queue} 2")
        site = Installation(make_server, make_peer(), **BLIND, queue="kafka", queue_url=cluster.servers, queue_name=queue)
        worker = site.worker()
        for _ in range(3):
            assert wait_end(site.client, send(site.client, leads(1)))["status"] == "Completed"
        site.wait_sent(3)
        assert metric(worker, 'dataflow_queue_messages_total{outcome="tried"}') >= 1
        going = threading.Event()
        site.peer.answer = lambda request: 200 if going.wait(100) else 503
        batches = [send(site.client, leads(1)) for _ in range(2)]
        wait_for(lambda: not connected(worker), "the worker to leave the group, as it has been busy for long")
        going.set()
        for batch in batches:
            assert wait_end(site.client, batch)["status"] == "Completed"
        wait_for(lambda: connected(worker), "the worker to be in the group again")
        assert wait_end(site.client, send(site.client, leads(1)))["status"] == "Completed"
        site.wait_sent(6)
        assert worker.log("QueueAway") == []
        cluster.tell("down 1")
        wait_for(lambda: not connected(worker), "the worker to notice")
        batch = send(site.client, leads(1))
        cluster.tell("up 1")
        wait_for(lambda: connected(worker), "the broker to be back")
        assert wait_end(site.client, batch)["status"] == "Completed"
        site.wait_sent(7)
        wait_for(lambda: len(worker.log("QueueAway")) == 1 and len(worker.log("QueueBack")) == 1, "the log to say so")
        assert worker.stop() == 0
    finally:
        cluster.close()


# --- messages ----------------------------------------------------------------------------------------


def test_a_message_makes_an_idle_worker_of_another_process_take_the_batch(make_installation):
    site = make_installation()
    worker = site.worker()
    batches = [send(site.client, leads(3)) for _ in range(3)]
    for batch in batches:
        assert wait_end(site.client, batch)["status"] == "Completed"
    site.wait_sent(3)
    assert [row[1:] for row in site.rows()] == [("new", batch) for batch in batches]
    wait_for(lambda: metric(worker, 'dataflow_queue_messages_total{outcome="tried"}') >= 1, "a message to be tried")
    assert check_of(site.front) is None, "who does not work listens to nothing"


@on_postgres
def test_a_batch_is_worked_on_once_however_often_its_message_comes(make_installation, queue):
    site = make_installation()
    worker = site.worker()
    going = threading.Event()
    site.peer.answer = lambda request: 200 if going.wait(60) else 503
    batch = send(site.client, leads(25))
    wait_for(lambda: site.peer.came(batch), "the first chunk")
    repeated = threading.Thread(target=lambda: [shared_broker().publish(queue, batch.encode()) for _ in range(30)])
    repeated.start()
    going.set()
    assert wait_end(site.client, batch)["status"] == "Completed"
    repeated.join()
    wait_for(lambda: metric(worker, 'dataflow_queue_messages_total{outcome="tried"}') >= 31, "all messages to be tried")
    assert sorted(site.peer.chunks(batch)) == [1, 2, 3]
    assert state(site.client, batch)["status"] == "Completed"


@on_sqlite
def test_what_is_no_message_of_ours_goes_to_the_dead_letters(make_installation, queue):
    site = make_installation()
    worker = site.worker()
    for body in HOSTILE:
        shared_broker().publish(queue, body)
    wait_for(lambda: metric(worker, 'dataflow_queue_messages_total{outcome="rejected"}') == len(HOSTILE), "them to be rejected")
    wait_for(lambda: shared_broker().counts(queue + ".dead") == (len(HOSTILE), 0), "the dead letters")
    assert len(worker.log("QueueMessageRejected")) == len(HOSTILE)
    assert wait_end(site.client, send(site.client, leads(1)))["status"] == "Completed"


@on_sqlite
def test_a_batch_whose_message_is_lost_is_found_by_the_backstop(make_installation):
    site = make_installation(queue_backstop_seconds=1)
    site.worker()
    mute = site.make("api", queue="poll")
    batch = send(mute.client(site.client.id, site.client.secret), leads(1))
    assert wait_end(site.client, batch)["status"] == "Completed"
    assert site.rows() == []


@on_postgres
def test_a_busy_process_keeps_no_message_from_an_idle_one(make_installation, queue):
    site = make_installation(mode="concurrent", workers=1)
    others = [site.client, site.front.new_client(), site.front.new_client()]
    going = threading.Event()
    site.peer.answer = lambda request: 200 if going.wait(100) else 503
    workers = [site.worker()]
    batches = [send(others[0], leads(1))]
    wait_for(lambda: site.peer.came(batches[0]), "the first batch in work")
    workers.append(site.worker())
    batches.append(send(others[1], leads(1)))
    wait_for(lambda: site.peer.came(batches[1]), "the other process to take the second")
    batches.append(send(others[2], leads(1)))
    site.wait_sent(3)

    def waiting():  # the second one too, where the second process saw its batch by its first look and gave the message back
        return 3 - sum(metric(worker, 'dataflow_queue_messages_total{outcome="tried"}') for worker in workers)
    wait_for(lambda: shared_broker().counts(queue) == (waiting(), 0), "the third message to wait, in nobody's hands")
    assert waiting() in (1, 2)
    batches.append(send(others[0], leads(1)))  # it has to wait for the first, whoever is idle
    going.set()
    for client, batch in zip([*others, others[0]], batches):
        assert wait_end(client, batch)["status"] == "Completed"
    assert len({site.query("ProcessingHost", batch) for batch in batches[:2]}) == 2
    assert ("released", batches[3]) in [row[1:] for row in site.rows()]
    wait_for(lambda: shared_broker().counts(queue) == (0, 0), "all messages to be tried")


# --- what makes a batch ready ------------------------------------------------------------------------


def test_a_batch_that_its_owner_gives_back_is_taken_up_by_another_at_once(make_installation):
    site = make_installation()
    going = threading.Event()
    site.peer.answer = lambda request: 200 if request.chunk < 3 or going.wait(100) else 503
    first = site.worker()
    batch = send(site.client, leads(100))
    wait_for(lambda: len(site.peer.came(batch)) > 3, "chunks on their way")
    owner = site.query("ProcessingHost", batch)
    site.worker()
    assert first.stop() == 0, "with calls under way, which it cuts off"
    going.set()
    assert wait_end(site.client, batch)["status"] == "Completed"
    assert site.query("ProcessingHost", batch) != owner
    assert [row[1] for row in site.rows()] == ["new", "givenBack"]


@on_sqlite
def test_a_batch_whose_owner_is_killed_is_taken_over_long_before_the_backstop(make_installation):
    site = make_installation(poll_ms=50, lease_seconds=3)
    going = threading.Event()
    site.peer.answer = lambda request: 200 if going.wait(100) else 503
    first = site.worker()
    batch = send(site.client, leads(1))
    wait_for(lambda: site.peer.came(batch), "the batch in work")
    second = site.worker()  # sees it at its start, and that somebody has it
    first.kill()
    going.set()
    assert wait_end(site.client, batch)["status"] == "Completed"
    assert second.log("BatchFinalized"), "although no message told of it"


def test_batches_that_are_due_retried_or_released_are_announced(make_installation):
    site = make_installation(poll_ms=200)
    site.worker()
    site.peer.answer = lambda request: 422
    late = send(site.client, leads(2))
    assert wait_end(site.client, late)["status"] == "CompletedWithErrors"
    site.peer.answer = lambda request: 200
    assert site.client.post(f"/imports/{late}/retry").status == 202
    assert wait_end(site.client, late)["status"] == "Completed"
    # As if it had been scheduled: nobody but who maintains finds out, and tells.
    execute(site.front, f"UPDATE ImportBatch SET Status = 2, ScheduledFor = CreatedAt, CompletedAt = NULL, Attempt = 2 WHERE Id = '{late}'")
    wait_end(site.client, late)
    going = threading.Event()
    site.peer.answer = lambda request: 200 if going.wait(100) else 503
    taken = send(site.client, leads(1))
    wait_for(lambda: site.peer.came(taken), "the batch in work")
    assert site.front.admin().post(f"/admin/imports/{taken}/release").status == 200
    going.set()
    assert wait_end(site.client, taken)["status"] == "Completed"
    site.wait_sent(5)
    assert [row[1] for row in site.rows()] == ["new", "retried", "due", "new", "released"]


@on_sqlite
def test_nobody_else_gets_our_rows(make_installation):
    site = make_installation()
    for keys in (["relay.other.table=batch_ready_outbox"], ["relay.other.table=main.Batch_Ready_Outbox"], ["relay.batch-ready.table=x"]):
        refused = site.front.cli("check-config", *[a for key in keys for a in ("--set", key)])
        assert refused.returncode == 2 and "[relay." in refused.stderr, refused
    assert site.client.post("/events", {"eventType": "BatchReady", "aggregateId": "x", "payload": {}}).status in (201, 202)
    assert site.rows() == []


# --- brokers -----------------------------------------------------------------------------------------


@on_sqlite
def test_a_queue_that_was_deleted_is_made_again(make_installation, queue):
    site = make_installation()
    worker = site.worker()
    shared_broker().delete(queue)
    for _ in range(2):
        assert wait_end(site.client, send(site.client, leads(1)))["status"] == "Completed"
    site.wait_sent(2)
    assert connected(worker)


@on_postgres
def test_while_rabbitmq_is_away_workers_poll_and_nothing_is_lost(make_installation):
    broker = shared_broker()
    site = make_installation(**EAGER)
    worker = site.worker()
    assert wait_end(site.client, send(site.client, leads(1)))["status"] == "Completed"
    # A node that dies in the half second before it has noted its new queue can never use that queue again.
    broker.tell("[dets:sync(Table) || Table <- dets:all()]")
    broker.kill()
    try:
        wait_for(lambda: not connected(worker), "the worker to notice")
        assert wait_end(site.client, send(site.client, leads(1)))["status"] == "Completed"
        assert len(worker.log("QueueAway")) == 1
        assert worker.cli("doctor").returncode != 0
    finally:
        broker.start()
    wait_for(lambda: connected(worker), "the broker to be back")
    wait_for(lambda: worker.log("QueueBack"), "the log to say so")
    assert wait_end(site.client, send(site.client, leads(1)))["status"] == "Completed"
    site.wait_sent(3)
