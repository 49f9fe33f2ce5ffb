"""An application's outbox table on any database, and `dataflow relay run` on it."""

import datetime
import json
import uuid

from harness import Server, wait_for

BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)

# What the relay can use, as an application would declare it. Those of REQUIRED every table must have.
TYPES = {
    "sqlite": {"id": "TEXT PRIMARY KEY", "event_type": "TEXT", "payload": "TEXT", "status": "TEXT DEFAULT 'PENDING'",
               "attempts": "INTEGER DEFAULT 0", "created_at": "TEXT", "aggregate_type": "TEXT", "aggregate_id": "TEXT",
               "next_attempt_at": "TEXT", "processed_at": "TEXT", "last_error": "TEXT", "correlation_id": "TEXT",
               "trace_id": "TEXT", "span_id": "TEXT"},
    "postgres": {"id": "uuid PRIMARY KEY", "event_type": "varchar(100) NOT NULL", "payload": "jsonb NOT NULL",
                 "status": "varchar(20) NOT NULL DEFAULT 'PENDING'", "attempts": "int NOT NULL DEFAULT 0",
                 "created_at": "timestamptz NOT NULL", "aggregate_type": "varchar(100)", "aggregate_id": "varchar(100)",
                 "next_attempt_at": "timestamptz", "processed_at": "timestamptz", "last_error": "varchar(200)",
                 "correlation_id": "uuid", "trace_id": "varchar(32)", "span_id": "varchar(16)"},
    "sqlserver": {"id": "UNIQUEIDENTIFIER PRIMARY KEY", "event_type": "NVARCHAR(100) NOT NULL",
                  "payload": "NVARCHAR(MAX) NOT NULL", "status": "VARCHAR(20) NOT NULL DEFAULT 'PENDING'",
                  "attempts": "INT NOT NULL DEFAULT 0", "created_at": "DATETIME2 NOT NULL",
                  "aggregate_type": "NVARCHAR(100)", "aggregate_id": "NVARCHAR(100)", "next_attempt_at": "DATETIME2",
                  "processed_at": "DATETIME2", "last_error": "NVARCHAR(200)", "correlation_id": "UNIQUEIDENTIFIER",
                  "trace_id": "VARCHAR(32)", "span_id": "VARCHAR(16)"},
}
REQUIRED = ("id", "event_type", "payload", "status", "attempts", "created_at")


def literal(value):
    if value is None:
        return "NULL"
    if isinstance(value, (int, float)):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"


class Outbox:
    """A table of a test's own. names: what its columns are called, where that is not their own name; types: of columns,
    where another than the usual is wanted, None where there is no such column."""

    def __init__(self, backend, table=None, names=None, types=None):
        self.backend = backend
        self.table = table or "outbox_" + uuid.uuid4().hex[:12]
        self.types = {c: t for c, t in {**TYPES[backend.name], **(types or {})}.items() if t is not None}
        self.names = {c: (names or {}).get(c, c) for c in TYPES[backend.name]}
        columns = ", ".join(f"{self.column(c)} {t}" for c, t in self.types.items())
        backend.query(f"CREATE TABLE {self.quoted} ({columns})") if backend.name != "sqlite" else \
            backend.script(f"CREATE TABLE {self.quoted} ({columns});")
        self.written = 0

    def quote(self, name):
        if self.backend.name == "sqlserver":
            return "[" + name.replace("]", "]]") + "]"
        return '"' + name.replace('"', '""') + '"'

    @property
    def quoted(self):
        return ".".join(self.quote(part) for part in self.table.split("."))

    def column(self, column):
        return self.quote(self.names[column])

    def execute(self, sql):
        if self.backend.name == "sqlite":
            self.backend.script(sql + ";")  # commits
        else:
            self.backend.query(sql)

    # -- the application

    def event(self, **more):
        """One that is not written yet; each is a millisecond younger than the one before."""
        self.written += 1
        at = BEGIN + datetime.timedelta(milliseconds=self.written)
        event = {"id": str(uuid.uuid4()), "event_type": "OrderPlaced", "payload": json.dumps({"n": self.written}),
                 "created_at": at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + ("+00" if self.backend.name == "postgres" else ""),
                 "aggregate_type": "Order", "correlation_id": str(uuid.uuid4())}
        return {c: v for c, v in {**event, **more}.items() if c in self.types}

    def insert_sql(self, events):
        columns = list(events[0])
        rows = ", ".join("(" + ", ".join(literal(e[c]) for c in columns) + ")" for e in events)
        return f"INSERT INTO {self.quoted} ({', '.join(map(self.column, columns))}) VALUES {rows}"

    def write(self, count=1, **more):
        """In one transaction; the events, as they were written. Values that are functions are called with 0, 1, …"""
        events = [self.event(**{c: v(i) if callable(v) else v for c, v in more.items()}) for i in range(count)]
        for first in range(0, count, 500):  # SQL Server takes a thousand rows
            self.execute(self.insert_sql(events[first:first + 500]))
        return events

    # -- what became of them

    def rows(self, *columns):
        """By id."""
        columns = columns or tuple(self.types)
        found = self.backend.query(f"SELECT {', '.join(map(self.column, ('id', *columns)))} FROM {self.quoted}")
        return {str(row[0]).lower(): dict(zip(columns, row[1:])) for row in found}

    def states(self):
        """How many in each."""
        status = self.column("status")
        return dict(self.backend.query(f"SELECT {status}, COUNT(*) FROM {self.quoted} GROUP BY {status}"))

    def wait(self, timeout=40, **states):
        """Waits until each state has the given number of events, and no other state has any."""
        try:
            wait_for(lambda: self.states() == states, states, timeout, 0.03)
        except AssertionError as problem:
            raise AssertionError(f"{problem}; there are {self.states()}: {list(self.rows().values())[:3]}") from None

    def feed(self, timeout=60, failed="FAILED", count=1, **more):
        """Writes events that arrive until `count` others were given up: a failure counts only while others arrive. How many
        were written."""
        written = 0

        def given_up():
            nonlocal written
            if self.states().get(failed, 0) >= count:
                return True
            written += len(self.write(3, **more))
            return False

        wait_for(given_up, f"{count} {failed}", timeout, 0.06)
        return written

    # -- the relay's configuration

    def section(self, **settings):
        names = {f"column_{c}": n for c, n in self.names.items() if n != c}
        return {"url": self.backend.url, "table": self.table, "poll_ms": 20, "retry_base_ms": 10, "retry_cap_ms": 50,
                **names, **settings}


class RelayProcess(Server):
    """`dataflow relay run NAME`, which listens nowhere unless it is told to."""

    def __init__(self, directory, name, section, config=None):
        super().__init__(None, directory, command=("relay", "run", name), config={
            f"relay.{name}": section, **(config or {})})
        self.name = name

    def start(self, event="RelayStarted"):
        self.spawn()
        self.wait_for_event(event)
        return self

    def current(self, event):
        lines = [json.loads(line) for line in self.log_text(current=True).splitlines() if line.endswith("}")]
        return [line for line in lines if line["event"] == event]

    def wait_for_event(self, event):
        def there():
            assert self.process.poll() is None, f"exited {self.process.returncode}\n{self.log_text()[-4000:]}"
            return self.current(event)

        return wait_for(there, event)

    def status(self, *args):
        return self.cli("relay", "status", self.name, *args)
