"""A server under attack: how it is started, who else uses it meanwhile, and what must hold of it afterwards."""

import contextlib
import http.server
import json
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Callable

import psycopg2
import psycopg2.extras
from harness import Server, wait_for

MEMORY_MIB = 256  # whatever is sent, as far as limits allow it


@dataclass(frozen=True)
class Attack:
    """One row of the table.

    send gets the Target, does its worst and returns whatever the checks want to see. A row that needs something in
    the database before the server looks at it gives `prepare`, which is called when the tables are there and nobody
    works on them. What holds of every row is checked for every row; `holds` are the row's own checks.
    """

    name: str
    what: str  # in words: what is sent, and what it did to the code before
    send: Callable
    holds: tuple = ()
    prepare: Callable = None
    config: dict | Callable = field(default_factory=dict)  # or a function of the Target that returns it
    backends: tuple = ("sqlite", "postgres")


class Peer:
    """A destination of calls that takes everything and remembers only how much; it listens once its url is asked for."""

    def __init__(self):
        self.bytes = []
        self._server = None

    @property
    def url(self):
        if not self._server:
            self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
            threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self):
        if self._server:
            self._server.shutdown()
            self._server.server_close()

    def _handler(self):
        taken = self.bytes

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                left = size = int(self.headers["Content-Length"])
                while left > 0 and (data := self.rfile.read(min(left, 1 << 20))):
                    left -= len(data)
                taken.append(size)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        return Handler


class Bystander:
    """Another client, which goes on with its work: every one of its requests must succeed."""

    def __init__(self, target):
        self.caller = target.server.new_client("a bystander")
        self.answers = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _work(self):
        n = 0
        while not self._over.is_set() or n == 0:
            n += 1
            try:
                answer = self.caller.post("/api/tickets", ticket(f"BYSTANDER-{n}")).status
            except OSError as error:
                answer = repr(error)
            self.answers.append(answer)
            self._over.wait(0.05)


class Target:
    """The server, its database, an attacker and a bystander."""

    def __init__(self, attack, backend, directory):
        self.attack = attack
        self.backend = backend
        self.directory = directory
        self.peer = Peer()
        config = attack.config(self) if callable(attack.config) else attack.config
        config = {**config, "delivery": {"allow_private_targets": "on", **config.get("delivery", {})}}
        self.server = Server(backend, directory / "server", config=config)
        self.bystander = None

    def run(self):
        if self.attack.prepare:
            run = self.server.start().stop()
            assert run == 0, self.server.log_text()
            self.attack.prepare(self)
        self.server.start()
        self.pid = self.server.process.pid
        try:
            self.attacker = self.server.new_client("the attacker")
            with Bystander(self) as self.bystander:
                sent = self.attack.send(self)
            for check in (*COMMON, *self.attack.holds):
                check(self, sent)
        finally:
            self.peer.close()
            self.server.finish()

    # -- what attacks are made of

    def at_once(self, count, send):
        """send(0) … send(count - 1), each in a thread of its own; their results, an OSError where one was raised."""
        def one(i):
            try:
                return send(i)
            except OSError as error:  # a connection that the server closed
                return error

        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(one, range(count)))

    def execute(self, sql, rows=((),)):
        """With :name parameters on SQLite and %(name)s on PostgreSQL; sql is written with {name}."""
        if self.backend.name == "sqlite":
            with contextlib.closing(sqlite3.connect(self.backend.file, timeout=60)) as connection:
                for row in rows:
                    connection.execute(sql.format_map(_Named(":{}", row)), row)
                connection.commit()
            return
        with contextlib.closing(psycopg2.connect(self.backend.url)) as connection, connection.cursor() as cursor:
            for row in rows:
                cursor.execute(sql.format_map(_Named("%({})s", row)), row)
            connection.commit()

    def put_tickets(self, documents):
        """As another program does that shares the table: (businessDocId, payload)."""
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        bit = 1 if self.backend.name == "sqlite" else _bit(self.backend)
        self.execute(
            "INSERT INTO TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, CompanyCode, BranchCode, DestinationCode,"
            " PhaseCode, ShipmentEvent, FunctionalAckIsRequired, TargetApplicationCode, RawPayloadJson, NextAttemptAt)"
            " VALUES ('TKT', {id}, '1', '1', '1', 15, 'E', {bit}, 'A', {payload}, {now})",
            ({"id": doc_id, "payload": payload, "now": now, "bit": bit} for doc_id, payload in documents))

    def ticket_states(self):
        rows = self.backend.query("SELECT Status, COUNT(*) FROM TB_TICKET_INTERFACE"
                                  " WHERE BusinessDocId NOT LIKE 'BYSTANDER-%' GROUP BY Status")
        return dict(rows)

    def wait_for_tickets(self, **states):
        wait_for(lambda: self.ticket_states() == states, f"{states}, there is {self.ticket_states()}", timeout=120)

    # -- what it takes

    def figure(self, name):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) // 1024 for line in status if line.startswith(name))

    @property
    def is_sanitized(self):
        with open(f"/proc/{self.pid}/maps", encoding="utf-8", errors="replace") as maps:
            return any("san.so" in line for line in maps)


class _Named(dict):
    """{name} becomes the driver's way to write a parameter."""

    def __init__(self, style, row):
        super().__init__({name: style.format(name) for name in row})


def _bit(backend):
    kind, = backend.query("SELECT data_type FROM information_schema.columns WHERE table_name = 'tb_ticket_interface'"
                          " AND column_name = 'functionalackisrequired'")[0]
    return {"boolean": True, "bit": "1"}.get(kind, 1)


# --- what is sent ----------------------------------------------------------------------------------------


def ticket(doc_id, **more):
    """One that is taken; `more` goes beside its members."""
    return {"businessEntity": "TKT", "businessDocId": doc_id, "companyCode": "1", "branchCode": "1",
            "destinationCode": "1", "phaseCode": 15, "shipmentEvent": "E", "targetApplicationCode": "A", **more}


def zeros(size):
    """[0,0,0,…]: no JSON has more values for its bytes."""
    return b"[" + b"0," * ((size - 3) // 2) + b"0]"


def with_junk(document, junk):
    """The document as text, with a member that nobody knows."""
    return json.dumps(document).encode()[:-1] + b',"junk":' + junk + b"}"


# --- what must hold --------------------------------------------------------------------------------------


def is_alive(target, _sent):
    process = target.server.process
    assert process.poll() is None and process.pid == target.pid, target.server.log_text()[-4000:]


def memory_is_bounded(target, _sent):
    """Of the release build: the sanitizers take several times as much."""
    peak = target.figure("VmHWM")
    print(f"{target.attack.name}: {peak} MiB at most")
    assert target.is_sanitized or peak <= MEMORY_MIB, f"{peak} MiB"


def others_were_answered(target, _sent):
    answers = target.bystander.answers
    assert answers and set(answers) <= {200, 201, 202}, answers


def is_ready(target, _sent):
    assert target.server.anonymous().get("/readyz").status == 200


COMMON = (is_alive, memory_is_bounded, others_were_answered, is_ready)


def answered(*statuses):
    """Every answer is one of these, and none is missing."""
    def check(_target, sent):
        got = [getattr(answer, "status", answer) for answer in sent]
        assert got and set(got) <= set(statuses), got
    return check


def stores_nothing(*tables):
    """The bystander's own rows apart."""
    def check(target, _sent):
        for table in tables:
            condition = " WHERE BusinessDocId NOT LIKE 'BYSTANDER-%'" if table == "TB_TICKET_INTERFACE" else ""
            assert target.backend.query(f"SELECT COUNT(*) FROM {table}{condition}")[0][0] == 0, table
    return check


def tickets_became(**states):
    def check(target, _sent):
        assert target.ticket_states() == states
    return check
