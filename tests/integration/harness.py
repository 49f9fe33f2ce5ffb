"""Starts the program as a user would and talks to it over sockets: no knowledge of its inside."""

import atexit
import contextlib
import datetime
import fcntl
import functools
import hashlib
import http.client
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import psycopg2
import pytest

import pg
import surroundings

ROOT = Path(__file__).resolve().parents[2]

BIN = str(ROOT / os.environ.get("DATAFLOW_BIN", "build/dataflow"))
BACKENDS = ("sqlite", "postgres", "sqlserver")
ADMIN_KEY = "admin-key-of-the-tests-4711"
MASTER_KEY = "b7" * 32  # in every server's data_dir, as hosts that share a database must have it
SCOPES = ["interface", "callback", "imports", "acks", "events", "integrations", "interface-all"]
SANITIZER = re.compile(r"AddressSanitizer|LeakSanitizer|ThreadSanitizer|runtime error:|UndefinedBehaviorSanitizer")
TIMEOUT = 60  # of anything that should take milliseconds, on a machine that has much else to do

surroundings.settle()
# Whatever proxy the machine's user has: everything that the tests ask for is on this machine.
os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(
    filter(None, (os.environ.get("no_proxy") or os.environ.get("NO_PROXY"), "127.0.0.1,localhost")))

# Every caller gets a loopback address of its own, so that one test's failed logins throttle no other.
_addresses = (f"127.{a}.{b}.{c}" for a, b, c in itertools.product(range(1, 250), range(1, 250), range(1, 250)))


def fresh_address():
    return next(_addresses)


# --- databases ---------------------------------------------------------------------------------------

_private_postgres = None


def postgres_url(database="postgres"):
    """Of DATAFLOW_TEST_POSTGRES_URL, or of a server started for this run of the tests."""
    global _private_postgres
    base = os.environ.get("DATAFLOW_TEST_POSTGRES_URL")
    if base:
        return urlsplit(base)._replace(path="/" + database).geturl()
    if _private_postgres is None:
        _private_postgres = pg.Postgres().start()
        atexit.register(_private_postgres.close)
    return _private_postgres.url(database)


def postgres_execute(sql, url=None):
    with contextlib.closing(psycopg2.connect(url or postgres_url())) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else None


def skip_if_missing(name):
    if name == "sqlserver" and not os.environ.get("DATAFLOW_TEST_SQLSERVER_URL"):
        pytest.skip("DATAFLOW_TEST_SQLSERVER_URL is not set")


def sqlserver_url(database):
    """Another database on the server of DATAFLOW_TEST_SQLSERVER_URL, with the same options."""
    return urlsplit(os.environ["DATAFLOW_TEST_SQLSERVER_URL"])._replace(path="/" + database).geturl()


def sqlserver_connect():
    import pyodbc  # only here: without a server nobody needs the package

    url = urlsplit(os.environ["DATAFLOW_TEST_SQLSERVER_URL"])
    encrypted = parse_qs(url.query).get("encrypt", ["on"])[0] in ("on", "true", "yes", "1")
    # The same for every database: pyodbc asks a server for its types once a string, and that takes long.
    text = (f"DRIVER=FreeTDS;Server={url.hostname};Port={url.port or 1433};Database={unquote(url.path[1:])};"
            f"UID={unquote(url.username)};PWD={unquote(url.password)};Encryption={'require' if encrypted else 'off'};"
            "TDS_Version=7.4;ClientCharset=UTF-8;TextSize=2147483647")
    return pyodbc.connect(text, autocommit=True)


def sqlserver_execute(sql, connection=None):
    with contextlib.nullcontext(connection) if connection else contextlib.closing(sqlserver_connect()) as used:
        cursor = used.execute(sql)
        return [tuple(row) for row in cursor] if cursor.description else None


def sqlserver_script(text, database):
    """By a program of the database's own, as sqlcmd would: batches between lines with GO."""
    url = urlsplit(os.environ["DATAFLOW_TEST_SQLSERVER_URL"])
    args = ["tsql", "-H", url.hostname, "-p", str(url.port or 1433), "-D", database, "-U", unquote(url.username),
            "-P", unquote(url.password), "-J", "UTF-8", "-o", "q"]
    done = subprocess.run(args, input=text.encode(), capture_output=True, timeout=60, check=True,
                          env=os.environ | {"TDSVER": "7.4"})
    told = done.stderr.decode()  # tsql goes on after an error, and ends as if there had been none
    assert not re.search(r"^Msg \d+ \(severity (1[1-9]|2\d)", told, re.M), told


def migrate(url):
    """Gives a new database the schema, and nothing that a server writes at its first start."""
    with tempfile.TemporaryDirectory(prefix="dataflow-migrate-") as directory:
        config = write_config(Path(directory) / "dataflow.ini", {"database": {"url": url}, "server": {"data_dir": directory}})
        done = run("migrate", "--config", config)
        assert done.returncode == 0, done.stderr


@functools.cache
def template_directory():
    """Of the run of the tests, whose processes share it, or of this process."""
    directory = os.environ.get("DATAFLOW_TEST_TEMPLATES")
    if not directory:
        directory = tempfile.mkdtemp(prefix="dataflow-templates-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


@functools.cache
def template_name(url):
    """Tells the program's scripts from others: what has another name is the template of another schema."""
    printed = run("migrate", "--print", "--set", f"database.url={url}")
    assert printed.returncode == 0, printed.stderr
    return f"template_{hashlib.sha256(printed.stdout.encode()).hexdigest()[:16]}"


@functools.cache
def sqlite_template():
    """A database with the schema, to be copied. Whoever comes first makes it, and the others wait."""
    file = template_directory() / f"{template_name('sqlite:none.db')}.db"
    with open(file.with_suffix(".lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            with tempfile.TemporaryDirectory(prefix="making-", dir=file.parent) as directory:
                made = Path(directory) / "dataflow.db"
                migrate(f"sqlite:{made}")
                assert not made.with_name("dataflow.db-wal").exists(), "not all of it is in one file"
                made.rename(file)
    return file


@functools.cache
def postgres_template():
    """The same on PostgreSQL, which copies a database only while nobody is connected to it. So connections are refused
    before the template gets the name by which it is found."""
    name = template_name(postgres_url())
    with contextlib.closing(psycopg2.connect(postgres_url())) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(f"SELECT pg_advisory_lock(hashtext('{name}'))")  # until the connection is closed
        cursor.execute(f"SELECT 1 FROM pg_database WHERE datname = '{name}'")
        if not cursor.fetchone():
            making = f"{name}_making"
            cursor.execute(f"DROP DATABASE IF EXISTS {making} WITH (FORCE)")  # of somebody who was killed
            cursor.execute(f"CREATE DATABASE {making}")
            migrate(postgres_url(making))
            cursor.execute(f"ALTER DATABASE {making} ALLOW_CONNECTIONS false")
            wait_for(lambda: cursor.execute(f"SELECT 1 FROM pg_stat_activity WHERE datname = '{making}'") or not cursor.fetchone(),
                     "the last connection to the template to end")
            cursor.execute(f"ALTER DATABASE {making} RENAME TO {name}")
    return name


class Backend:
    """A fresh database of one kind. It has the schema: `migrate` was run once, and this is a copy of what it left. With
    `empty` it is as the database server made it: for tests of what makes the schema, and for databases of applications."""

    def __init__(self, name, directory, empty=False):
        self.name = name
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        if name == "sqlite":
            self.file = self.directory / "dataflow.db"
            self.url = f"sqlite:{self.file}"
            if not empty:
                shutil.copy(sqlite_template(), self.file)  # with its mode
        elif name == "postgres":
            self.database = f"t_{uuid.uuid4().hex[:16]}"
            postgres_execute(f"CREATE DATABASE {self.database}" + ("" if empty else f" TEMPLATE {postgres_template()}"))
            self.url = postgres_url(self.database)
        elif name == "sqlserver":
            # Always empty: Babelfish can copy no database, neither from a backup nor from a detached file.
            self.database = f"t_{uuid.uuid4().hex[:16]}"
            sqlserver_execute(f"CREATE DATABASE {self.database}")
            # Babelfish always has snapshots, and does not know the statement.
            sqlserver_execute("IF CHARINDEX('Babelfish', @@VERSION) = 0"
                              f" EXEC('ALTER DATABASE {self.database} SET ALLOW_SNAPSHOT_ISOLATION ON')")
            self.url = sqlserver_url(self.database)
            self._connection = None  # kept, because a new one takes a quarter of a second
        else:
            raise ValueError(name)

    @classmethod
    def on(cls, url):
        """A PostgreSQL database that somebody else made."""
        backend = cls.__new__(cls)
        backend.name, backend.url = "postgres", url
        return backend

    def query(self, sql):
        if self.name == "sqlite":
            with contextlib.closing(sqlite3.connect(self.file, timeout=TIMEOUT)) as connection:
                return connection.execute(sql).fetchall()
        if self.name == "postgres":
            return postgres_execute(sql, self.url)
        if not self._connection:
            self._connection = sqlserver_connect()
            self._connection.execute(f"USE {self.database}")
        return sqlserver_execute(sql, self._connection)

    @functools.cached_property
    def babelfish(self):
        """What stands in for SQL Server; docs/sqlserver.md tells what it does otherwise."""
        return self.name == "sqlserver" and "Babelfish" in self.query("SELECT @@VERSION")[0][0]

    def script(self, text):
        """As an administrator would run it, by hand."""
        if self.name == "sqlite":
            with contextlib.closing(sqlite3.connect(self.file, timeout=TIMEOUT)) as connection:
                connection.executescript(text)
        elif self.name == "postgres":
            postgres_execute(text, self.url)
        else:
            sqlserver_script(text, self.database)

    def all_bytes(self):
        """Everything that is stored, to look for what must not be."""
        if self.name == "sqlite":
            return b"".join(p.read_bytes() for p in self.directory.glob("dataflow.db*"))
        if self.name == "sqlserver":
            tables = self.query("SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_TYPE = 'BASE TABLE'")
            values = (value for table, in tables for row in self.query(f"SELECT * FROM {table}") for value in row)
            return b"\n".join(v if isinstance(v, bytes) else str(v).encode() for v in values)
        dump = subprocess.run([f"{pg.bin_dir()}/pg_dump", self.url], capture_output=True, timeout=60, check=True)
        return dump.stdout

    def drop(self):
        if self.name == "postgres":
            postgres_execute(f"DROP DATABASE IF EXISTS {self.database} WITH (FORCE)")
        elif self.name == "sqlserver":
            if self._connection:
                self._connection.close()
            wait_for(self._dropped, "the last session in the database to end", every=0.2)

    def _dropped(self):
        import pyodbc

        try:
            sqlserver_execute(f"DROP DATABASE IF EXISTS {self.database}")
        except pyodbc.Error as error:
            if "currently in use" not in str(error):
                raise
            return False
        return True


class Relay:
    """Stands before a database that the tests may not stop, and hands on until it is cut. Keeps what was sent there."""

    def __init__(self, url):
        parts = urlsplit(url)
        self.target = (parts.hostname, parts.port)
        self.address = ("127.0.0.1", pg.free_port())
        self.url = parts._replace(netloc="{}@{}:{}".format(parts.netloc.rpartition("@")[0], *self.address)).geturl()
        self.sent = bytearray()
        self._lock = threading.Lock()
        self._sockets = set()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.cut()

    def start(self):
        self._open(socket.create_server(self.address), self._accept)
        return self

    def cut(self):
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for s in sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)  # wakes who waits on it
            s.close()

    def _open(self, s, function, *args):
        with self._lock:
            self._sockets.add(s)
        threading.Thread(target=self._until_cut, args=(function, s, *args), daemon=True).start()

    @staticmethod
    def _until_cut(function, *args):
        with contextlib.suppress(OSError):
            function(*args)

    def _accept(self, listener):
        while True:
            client, _ = listener.accept()
            server = socket.create_connection(self.target, TIMEOUT)
            server.settimeout(None)
            self._open(client, self._copy, server, self.sent)
            self._open(server, self._copy, client, bytearray())

    @staticmethod
    def _copy(source, target, kept):
        while data := source.recv(65536):
            kept += data
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)


# --- HTTP --------------------------------------------------------------------------------------------


class Response:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def __repr__(self):
        return f"<{self.status} {self.body[:400]!r}>"

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        return self.json["code"]

    @property
    def bad_fields(self):
        return {e["field"] for e in self.json["errors"]}


def check_problem(response, in_a_language=True):
    """Checks what every error answer must have. The release before has no languages."""
    assert response.headers["Content-Type"] == "application/problem+json", response
    problem = response.json
    assert problem["status"] == response.status, response
    assert re.fullmatch(r"[A-Z][A-Za-z0-9]+", problem["code"]), response
    assert problem["title"] and problem["type"], response
    if in_a_language:
        assert response.headers["Content-Language"] in ("en", "pt-BR"), response
        assert "Vary: Accept-Language" in str(response.headers) or "Accept-Language" in response.headers["Vary"], response
    assert problem["correlationId"] == response.headers["X-Correlation-Id"], response
    if response.status in (429, 503):
        assert int(response.headers["Retry-After"]) >= 1, response
    for error in problem.get("errors", []):
        assert error["field"] and error["message"], response


class Http:
    """A caller with an address, headers of its own and one connection a request."""

    def __init__(self, server, headers=None, address=None):
        self.server = server
        self.headers = headers or {}
        self.address = address or fresh_address()

    def connect(self):
        host, port = self.server.host_port
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT, source_address=(self.address, 0))

    def request(self, method, path, body=None, headers=None, **kwargs):
        if "json" in kwargs:
            body = json.dumps(kwargs["json"]).encode()
        headers = {**self.headers, **(headers or {})}
        if body is not None and "Content-Type" not in headers:
            headers["Content-Type"] = "application/json"
        headers = {name: value for name, value in headers.items() if value is not None}
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, path, body, headers)
            return self.read(connection, method)

    def read(self, connection, method="GET"):
        raw = connection.getresponse()
        response = Response(raw.status, raw.headers, raw.read())
        if "json" in (response.headers["Content-Type"] or "") and response.body:
            self.server.remember(response.json)
        if response.status >= 400 and method != "HEAD":
            check_problem(response, in_a_language=getattr(self.server, "binary", BIN) == BIN)
        return response

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def post(self, path, json=None, **kwargs):
        return self.request("POST", path, **({"json": json} if json is not None else {}), **kwargs)

    def patch(self, path, json=None, **kwargs):
        return self.request("PATCH", path, **({"json": json} if json is not None else {}), **kwargs)

    def raw(self, data, count=1, pause=0.0):
        """Sends bytes as they are (a list: one after the other) and reads `count` answers."""
        with socket.create_connection(self.server.host_port, TIMEOUT, (self.address, 0)) as s:
            for part in [data] if isinstance(data, bytes) else data:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    s.sendall(part)
                time.sleep(pause)
            return read_responses(s, count)


def read_responses(sock, count):
    """Fewer than `count` when the peer closes before."""
    responses = []
    with sock.makefile("rb") as f:
        for _ in range(count):
            try:
                status = f.readline()
                if not status:
                    break
                assert re.match(rb"HTTP/1\.[01] [1-5]\d\d ", status), f"not the start of an answer: {status}"
                headers = http.client.parse_headers(f)
                length = headers["Content-Length"]
                body = f.read(int(length)) if length is not None else f.read()
            except ConnectionResetError:
                break
            responses.append(Response(int(status.split()[1]), headers, body))
    return responses


# --- time --------------------------------------------------------------------------------------------


@functools.cache
def clock_library():
    """tests/shim/clock.c, built once in this run."""
    directory = tempfile.mkdtemp(prefix="dataflow-clock-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    library = Path(directory) / "clock.so"
    subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-std=c17", "-O1", "-fPIC", "-shared", "-o", library, ROOT / "tests/shim/clock.c"],
                   check=True, timeout=60)
    return library


class FakeClock:
    """The time of the servers that are given it: the real time and what the test lets pass. Their sockets and their
    libraries stay in real time, and so does the database. For the release build: sanitizers want to be loaded first."""

    def __init__(self, directory):
        if Path(BIN).resolve().parent.name in ("asan", "tsan"):
            pytest.skip("the clock is for the release build")
        self.file = Path(directory) / "clock"
        self.passed = datetime.timedelta()
        self.file.write_bytes(bytes(8))

    @property
    def env(self):
        return {"LD_PRELOAD": str(clock_library()), "TEST_CLOCK": str(self.file)}

    def advance(self, **how):
        """Hours, days…, as timedelta has them."""
        self.passed += datetime.timedelta(**how)
        nanoseconds = int(self.passed / datetime.timedelta(microseconds=1)) * 1000
        with open(self.file, "r+b") as f:  # in place: the servers have it mapped
            f.write(nanoseconds.to_bytes(8, sys.byteorder, signed=True))

    def now(self):
        return datetime.datetime.now(datetime.timezone.utc) + self.passed


# --- the program -------------------------------------------------------------------------------------


def environment(**more):
    """Without settings of the machine's user, which would override the tests' own."""
    return {k: v for k, v in os.environ.items() if not k.startswith("DATAFLOW_")} | more


def run(*args, env=None, stdin=None, timeout=60, cwd=None, binary=BIN):
    """The program to its end."""
    result = subprocess.run([binary, *map(str, args)], env=environment(**(env or {})), input=stdin, capture_output=True,
                            text=True, timeout=timeout, check=False, cwd=cwd)
    assert not SANITIZER.search(result.stderr), result.stderr
    return result


def npm(name, *packages):
    """The directory in which Node finds these packages; the first run of the tests installs them."""
    work = ROOT / "build" / f"test-{name}"
    work.mkdir(parents=True, exist_ok=True)
    whole = work / "installed"  # unlike node_modules, not there before npm has ended
    with open(work / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists() or whole.read_text(encoding="ascii") != " ".join(packages):
            subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", work, *packages],
                           check=True, timeout=170)
            whole.write_text(" ".join(packages), encoding="ascii")
    return work


def npm_locked(name, folder):
    """The directory in which Node finds what the folder's package-lock.json names; the first run of the tests installs it."""
    work = ROOT / "build" / f"test-{name}"
    work.mkdir(parents=True, exist_ok=True)
    whole = work / "installed"
    wanted = (folder / "package-lock.json").read_bytes()
    with open(work / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists() or whole.read_bytes() != wanted:
            for file in ("package.json", "package-lock.json"):
                shutil.copy(folder / file, work)
            subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", "--prefix", work], check=True, timeout=170)
            whole.write_bytes(wanted)
    return work


def write_config(path, sections):
    lines = []
    for section, keys in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {value}" for key, value in keys.items()]
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def master_key_file(data_dir):
    Path(data_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
    path = Path(data_dir) / "master.key"
    path.write_text(MASTER_KEY + "\n", encoding="ascii")
    path.chmod(0o600)


class Server:
    """`dataflow serve` (or another command that serves) with a configuration and a log of its own."""

    def __init__(self, backend, directory, config=None, command=("serve",), args=(), env=None, binary=BIN, clock=None,
                 master=True):
        self.backend = backend
        self.binary = binary
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.command = command
        self.args = args
        self.clock_env = clock.env if clock else {}
        self.env = {**(env or {}), **self.clock_env}
        self.secrets = {ADMIN_KEY, MASTER_KEY, pg.PASSWORD}
        if backend and backend.name == "sqlserver":
            self.secrets.add(urlsplit(backend.url).password)
        sections = {
            "server": {"listen": "127.0.0.1:0", "data_dir": self.directory / "data"},
            "database": {"url": backend.url} if backend else {},
            "admin": {"key": ADMIN_KEY},
        }
        for section, keys in (config or {}).items():
            sections.setdefault(section, {}).update(keys)
        sections = {s: {k: v for k, v in keys.items() if v is not None} for s, keys in sections.items()}
        self.config = write_config(self.directory / "dataflow.ini", sections)
        if master and sections["server"]["data_dir"]:
            master_key_file(sections["server"]["data_dir"])
        self.log_path = self.directory / "server.log"
        self.out_path = self.directory / "server.out"
        self.process = None
        self.host_port = None
        self._log_start = 0

    # -- life

    def spawn(self):
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        with open(self.log_path, "ab") as log, open(self.out_path, "ab") as out:
            self.process = subprocess.Popen([self.binary, *self.command, "--config", str(self.config), *self.args],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=log,
                                            env=environment(**self.env), cwd=self.directory)
        return self

    def listens(self, event):
        """Sets the address that the log tells with the event."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for line in self.log_text(current=True).splitlines():
                if f'"{event}"' in line and line.endswith("}"):
                    host, port = json.loads(line)["address"].rsplit(":", 1)
                    self.host_port = (host, int(port))
                    return self
            assert self.process.poll() is None, f"exited {self.process.returncode}\n{self.log_text()}"
            time.sleep(0.005)
        raise AssertionError(f"no {event}\n{self.log_text()}")

    def started(self):
        return self.listens("ServerStarted")

    def waiting(self):
        """It cannot work yet: its address answers 503."""
        return self.listens("ServerWaiting")

    def start(self):
        self.spawn().started()
        wait_for(lambda: self.anonymous().get("/readyz").status == 200, "ready")
        return self

    def stop(self, timeout=40):
        """Asks it to end and returns its exit status."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"did not stop within {timeout} s of SIGTERM\n{self.log_text()[-4000:]}") from None
        self.process = None
        return code

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None

    def restart(self):
        assert self.stop() == 0, self.log_text()[-4000:]
        return self.start()

    def finish(self):
        """The end of every test: a clean stop and a clean log."""
        code = self.stop()
        text = self.log_text()
        assert not SANITIZER.search(text), text[-8000:]
        assert code == 0, f"exit status {code}\n{text[-4000:]}"
        self.check_log(text)

    # -- log

    def log_text(self, current=False):
        if not self.log_path.exists():
            return ""
        with open(self.log_path, encoding="utf-8", errors="strict") as f:
            f.seek(self._log_start if current else 0)
            return f.read()

    def log(self, event=None):
        lines = [json.loads(line) for line in self.log_text().splitlines() if line.endswith("}")]
        return [line for line in lines if event is None or line["event"] == event]

    def check_log(self, text):
        for line in text.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                raise AssertionError(f"not a line of the log: {line!r}") from None
            assert {"time", "level", "event"} <= entry.keys(), line
            assert re.fullmatch(r"[A-Z][A-Za-z0-9]+", entry["event"]), line
        for secret in self.secrets:
            assert secret not in text, f"the secret {secret[:6]}… stands in the log"

    def remember(self, answer):
        """Secrets that the server issues: none may appear in its log."""
        for name in ("clientSecret", "secret"):
            if isinstance(answer, dict) and isinstance(answer.get(name), str):
                self.secrets.add(answer[name])

    # -- callers

    @property
    def url(self):
        return "http://{}:{}".format(*self.host_port)

    def anonymous(self, **kwargs):
        return Http(self, **kwargs)

    def admin(self, key=ADMIN_KEY, **kwargs):
        return Http(self, {"X-Admin-Key": key}, **kwargs)

    def client(self, client_id, secret, **kwargs):
        return Http(self, {"X-Client-Id": client_id, "X-Client-Secret": secret}, **kwargs)

    def new_client(self, name="A client", **fields):
        """Creates one, with all scopes unless they are named, and returns a caller with its credentials."""
        answer = self.admin().post("/admin/clients", {"name": name, "scopes": SCOPES, **fields})
        assert answer.status == 201, answer
        caller = self.client(answer.json["clientId"], answer.json["clientSecret"])
        caller.id, caller.secret = answer.json["clientId"], answer.json["clientSecret"]
        return caller

    def cli(self, *args, **kwargs):
        """A command of the program with this server's configuration."""
        kwargs["env"] = {**self.clock_env, **(kwargs.get("env") or {})}
        return run(*args, "--config", self.config, binary=self.binary, **kwargs)


def wait_for(condition, what, timeout=TIMEOUT, every=0.02):
    """Polls; a refused connection counts as not yet."""
    deadline = time.monotonic() + timeout
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            value = condition()
            if value:
                return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(every)
