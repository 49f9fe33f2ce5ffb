"""deploy/haproxy and deploy/nginx in front of two real servers: uploads and event streams pass through unbuffered, the
caller's address arrives, a replica that is stopped loses no request, and one that is killed is left out."""

import collections
import concurrent.futures
import contextlib
import http.client
import itertools
import json
import signal
import threading
import uuid

import pytest
from balancer import Balancer
from harness import TIMEOUT, Backend, Http, Server, wait_for
from test_imports_process import Peer, configuration
from test_imports_read import Stream
from test_imports_receive import multipart
from test_interface_tickets import flat

import pg

BIG = 8 << 20  # more than any buffer of a balancer


class World:
    """Two replicas on one database with one directory of files, and a balancer before them."""

    def __init__(self, kind, directory):
        self.backend = Backend("postgres", directory / "database")
        self.peer = Peer()
        config = configuration(self.peer, database={"pool_size": 4}, server={
            "data_dir": directory / "data", "trusted_proxies": "127.0.0.1", "drain_seconds": 20})
        self.ports = [pg.free_port(), pg.free_port()]
        self.replicas = []
        for port in self.ports:
            own = {**config, "server": {**config["server"], "listen": f"127.0.0.1:{port}"}}
            self.replicas.append(Server(self.backend, directory / f"replica-{port}", config=own).start())
        self.balancer = Balancer(kind, directory / kind, f"127.0.0.1:{pg.free_port()}", [f"127.0.0.1:{p}" for p in self.ports]).start()
        made = self.replicas[0].new_client("Behind the balancer")
        self.headers = made.headers
        wait_for(lambda: {self.anonymous().get("/whoami", headers=self.headers).status for _ in range(6)} == {200}, "both are ready")

    def anonymous(self, **kwargs):
        return Http(self.balancer, **kwargs)

    def caller(self, **kwargs):
        return Http(self.balancer, self.headers, **kwargs)

    def close(self):
        self.balancer.stop()
        for replica in self.replicas:
            replica.finish()
        self.peer.close()
        self.backend.drop()


@pytest.fixture(scope="module", params=("postgres",))
def backend_name(request):
    return request.param


@pytest.fixture(scope="module", params=("haproxy", "nginx"))
def world(request, backend_name, tmp_path_factory):  # pylint: disable=unused-argument
    made = World(request.param, tmp_path_factory.mktemp(request.param))
    yield made
    made.close()


def big_upload():
    """A file of records, longer than any buffer."""
    record = {"phoneNumber": "+5551999990000", "name": "Ana", "notes": "x" * 20000}
    count = BIG // len(json.dumps(record)) + 1
    data = json.dumps([{**record, "phoneNumber": f"+55519{90000000 + n}"} for n in range(count)]).encode()
    assert len(data) > BIG
    return multipart(data), count


def test_an_upload_passes_as_it_comes(world):
    """Half of the body is sent, and the rest only when a replica has the first half in a file of its own."""
    (body, kind), count = big_upload()
    caller = world.caller()
    files = world.replicas[0].directory.parent / "data" / "imports"
    with contextlib.closing(world.caller().connect()) as connection:
        connection.putrequest("POST", "/imports")
        for name, value in {**caller.headers, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.endheaders(body[:len(body) // 2])
        wait_for(lambda: any(p.stat().st_size > len(body) // 4 for p in files.rglob(".upload")), "the first half at a replica")
        connection.send(body[len(body) // 2:])
        answer = connection.getresponse()
        accepted = json.loads(answer.read())
    assert answer.status == 202, accepted
    over = wait_for(lambda: (b := caller.get("/imports/" + accepted["batchId"]).json)["status"] == "Completed" and b, "the batch")
    assert over["totalRecords"] == count


def test_events_are_not_held_back(world):
    """OmniFlow answers only when the stream has told of the chunk before."""
    told = threading.Event()
    world.peer.answer = lambda request: 200 if told.wait(TIMEOUT) else 503
    caller = world.caller()
    try:
        body, kind = multipart(json.dumps([{"phoneNumber": f"+55519{90000000 + n}"} for n in range(10)]).encode())
        batch = caller.request("POST", "/imports", body, {"Content-Type": kind}).json["batchId"]
        with Stream(caller, batch) as stream:
            assert stream.next()[0] == "progress"
            told.set()
            assert stream.rest()[-1][0] == "completed"
    finally:
        told.set()
        world.peer.reset()


def test_the_callers_address_arrives_and_cannot_be_made_up(world):
    tag = uuid.uuid4().hex
    for number, field in enumerate(({}, {"X-Forwarded-For": "203.0.113.9"}, {"Forwarded": "for=203.0.113.9"})):
        answer = world.caller(address="127.9.8.7").get("/whoami", headers={**field, "X-Correlation-Id": f"{tag}-{number}"})
        assert answer.status == 200

    def addresses():
        return [e["ip"] for r in world.replicas for e in r.log("RequestServed") if e["correlationId"].startswith(tag)]
    wait_for(lambda: len(addresses()) == 3, "three lines of the log")
    assert set(addresses()) == {"127.9.8.7"}


class Tickets:
    """Callers that post tickets, each on one connection as long as it lasts, until they are stopped."""

    def __init__(self, world, callers=6):
        self.world = world
        self.stopping = threading.Event()
        self.count = itertools.count()
        self.answers = collections.Counter()
        self.stored = set()
        self.lock = threading.Lock()
        self.pool = concurrent.futures.ThreadPoolExecutor(callers)
        self.runs = [self.pool.submit(self.run, world.caller()) for _ in range(callers)]

    def run(self, caller):
        connection = caller.connect()
        while not self.stopping.is_set():
            doc = f"T_{uuid.uuid4().hex[:20]}"
            try:
                connection.request("POST", "/api/tickets", json.dumps(flat(doc)).encode(),
                                   {**caller.headers, "Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                outcome = answer.status
            except (OSError, http.client.HTTPException) as problem:
                outcome = type(problem).__name__
                connection.close()
                connection = caller.connect()
            with self.lock:
                self.answers[outcome] += 1
                if outcome == 200:
                    self.stored.add(doc)

    def answered(self):
        with self.lock:
            return self.answers[200]

    def more(self, count):
        before = self.answered()
        wait_for(lambda: self.answered() >= before + count, f"{count} more answers of {dict(self.answers)}")

    def stop(self):
        self.stopping.set()
        for run in self.runs:
            run.result(TIMEOUT)
        self.pool.shutdown()


def test_a_replica_that_is_stopped_loses_no_request(world):
    tickets = Tickets(world)
    try:
        tickets.more(50)
        for replica in world.replicas:
            replica.process.send_signal(signal.SIGTERM)
            assert replica.process.wait(TIMEOUT) == 0
            tickets.more(50)
            replica.start()
            wait_until_in(world, replica)
    finally:
        tickets.stop()
    assert set(tickets.answers) == {200}, tickets.answers
    rows = {r[0] for r in world.backend.query("SELECT BusinessDocId FROM TB_TICKET_INTERFACE")}
    assert tickets.stored <= rows


def wait_until_in(world, replica):
    """The balancer has seen that the replica is back."""
    tag = uuid.uuid4().hex

    def reached():
        world.caller().get("/whoami", headers={"X-Correlation-Id": tag})
        return tag in replica.log_text(current=True)
    wait_for(reached, "the replica gets requests again")


def test_a_replica_that_is_killed_is_left_out(world):
    """Requests on their way to it fail; those after them are answered by the other one."""
    world.replicas[0].kill()
    statuses = []

    def answered():
        with contextlib.closing(world.caller().connect()) as connection:
            connection.request("GET", "/whoami", headers=world.headers)
            statuses.append(connection.getresponse().status)
        return statuses[-20:] == [200] * 20
    wait_for(answered, "twenty answers in turn")
    world.replicas[0].start()
    wait_until_in(world, world.replicas[0])


@pytest.mark.parametrize("world", ["haproxy"], indirect=True)  # nginx, unlike nginx Plus, asks nobody for /readyz
def test_a_replica_that_hangs_is_left_out_by_its_health_check(world):
    """It accepts connections and answers nothing."""
    hanging = world.replicas[0].process
    before = world.balancer.log_text().count("api-1 is DOWN")
    hanging.send_signal(signal.SIGSTOP)
    try:
        wait_for(lambda: world.balancer.log_text().count("api-1 is DOWN") > before, "HAProxy leaves it out")
        assert {world.caller().get("/whoami").status for _ in range(20)} == {200}
    finally:
        hanging.send_signal(signal.SIGCONT)
    wait_until_in(world, world.replicas[0])


@pytest.mark.parametrize("world", ["haproxy"], indirect=True)
def test_with_no_replica_the_caller_is_told_to_come_again(world):
    for replica in world.replicas:
        assert replica.stop() == 0

    def answer():
        with contextlib.closing(world.caller().connect()) as connection:
            connection.request("GET", "/whoami", headers=world.headers)
            found = connection.getresponse()
            return found.status, found.headers, found.read()
    status, headers, body = answer()
    for replica in world.replicas:
        replica.start()
    assert status == 503 and headers["Content-Type"] == "application/problem+json" and headers["Retry-After"] == "5"
    assert json.loads(body)["code"] == "NoReplica"
