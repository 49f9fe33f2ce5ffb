"""What the benchmarks share: a server under load, rows drained from one PostgreSQL by us and by others, and the cost."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from pg import Postgres  # noqa: E402,F401

BIN = os.environ.get("DATAFLOW_BIN", os.path.join(ROOT, "build", "release", "dataflow"))
BENCH = f"{BIN}-bench"
# The script under bench/peers, and how many jobs it has left.
PEERS = {"pg-boss": ("pgboss.js", "SELECT count(*) FROM pgboss.job WHERE state < 'completed'"),
         "Graphile Worker": ("graphile.js", "SELECT count(*) FROM graphile_worker._private_jobs")}


def say(text):
    print(f"  {text}", file=sys.stderr, flush=True)


def show(name, found):
    say(f"{name:28} {found.rate:>9,.0f}/s {found.us:>6.0f} µs, of PostgreSQL {found.database_us:.0f}, "
        f"WAL {found.wal:,.0f} B")


def sql(url, text):
    done = subprocess.run(["psql", "-qAtX", "-v", "ON_ERROR_STOP=1", url, "-c", text], stdout=subprocess.PIPE,
                          text=True, check=True)
    return done.stdout.strip()


def ticks(pid, reaped=False):
    """Processor time of a process, with that of children it has waited for if wanted."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return sum(int(x) for x in fields[11:15 if reaped else 13])


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as f:
        return [int(x) for x in f.read().split()]


def stop(proc):
    proc.send_signal(signal.SIGTERM)
    try:
        proc.wait(60)
    except subprocess.TimeoutExpired:
        proc.kill()
        proc.wait()


def must_live(procs):
    for proc in procs:
        if proc.poll() is not None:
            raise SystemExit(f"{proc.args[:3]} ended")


class Server:
    """dataflow-bench serve with a client of its own."""

    def __init__(self, url, data_dir, **more):
        pairs = {"database.url": url, "server.data_dir": data_dir, "server.listen": "127.0.0.1:0",
                 "server.access_log": "off", "log.format": "json", **more}
        settings = [x for k, v in pairs.items() for x in ("--set", f"{k}={v}")]
        made = subprocess.run([BIN, "client", "create", "--name", "bench", "--scopes", "interface,imports,events",
                               "--json", *settings],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        self.client = json.loads(made.stdout)
        self.log = open(os.path.join(data_dir, "log"), "w+", encoding="utf-8")
        self.proc = subprocess.Popen([BENCH, "serve", *settings], stderr=self.log)
        self.at = self.address()

    def address(self):
        while self.proc.poll() is None:
            self.log.seek(0)
            found = re.search(r'"event":"ServerStarted".*"address":"([^"]+)"', self.log.read())
            if found:
                return found.group(1)
            time.sleep(0.05)
        raise SystemExit("the server did not start")

    def load(self, route, run, seconds=600, count=0):
        """64 connections of wrk, for that time, or until that many requests are answered."""
        done = subprocess.run(["wrk", "-t1", "-c64", f"-d{seconds}s", "-s", os.path.join(ROOT, "bench", "tickets.lua"),
                               f"http://{self.at}", "--", route, str(run), self.client["clientId"],
                               self.client["clientSecret"], str(count)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stderr.strip().splitlines()[-1])
        if found["failed"] or (count and found["ok"] != count):
            raise SystemExit(f"{found['failed']} of {found['ok']} requests failed")
        return found

    def stop(self):
        stop(self.proc)
        self.log.close()


class Sandbox:
    def __init__(self, *args):
        self.proc = subprocess.Popen([BIN, "sandbox", "--listen", "127.0.0.1:0", *args],
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.proc.stdout.readline().split()[-1].rstrip("/")

    def get(self, path):
        with urllib.request.urlopen(self.url + path) as answer:
            return json.load(answer)

    def gateway(self):
        """Settings of a server whose tickets, returns and acks come here."""
        return {"gateway.functional_ack_url": self.url + "/gateway/ack",
                "gateway.ticket_return_url": self.url + "/gateway/return",
                "gateway.ticket_send_url": self.url + "/gateway/tickets", "gateway.api_key": "bench",
                "delivery.allow_private_targets": "on"}

    def wait_for(self, count, procs):
        """Until that many different keys have come; a minute without anything new is a failure."""
        last, since = -1, time.monotonic()
        while (seen := self.get("/_stats")["distinctKeys"]) < count:
            must_live(procs)
            if seen != last:
                last, since = seen, time.monotonic()
            elif time.monotonic() - since > 60:
                raise SystemExit(f"{seen} of {count} calls came to the sandbox")
            time.sleep(0.05)

    def stop(self):
        stop(self.proc)


class Found(NamedTuple):
    """Rows a second, and what a row took: processor time of sender and PostgreSQL, PostgreSQL's share, bytes of WAL."""
    rate: float
    us: float
    database_us: float
    wal: float


class Meter:
    """What processes and PostgreSQL use from now on. Processes that start later count whole."""

    def __init__(self, drains, procs=()):
        self.drains, self.before = drains, sum(ticks(proc.pid) for proc in procs)
        self.database, self.wal = drains.cpu(), drains.wal()

    def read(self, procs, rows):
        own = (sum(ticks(proc.pid) for proc in procs) - self.before) / os.sysconf("SC_CLK_TCK")
        database = self.drains.cpu() - self.database
        return 1e6 * (own + database) / rows, 1e6 * database / rows, (self.drains.wal() - self.wal) / rows


class Drains:
    """Databases of one PostgreSQL, one for each drain."""

    def __init__(self, pg, work):
        self.pg, self.work, self.made, self.peers = pg, work, 0, None

    def database(self):
        self.made += 1
        name = f"bench_{self.made}"
        sql(self.pg.url(), f"CREATE DATABASE {name}")
        return self.pg.url(name)

    def drop(self, url):
        sql(self.pg.url(), f"DROP DATABASE {url.rsplit('/', 1)[1]} WITH (FORCE)")

    def cpu(self):
        """Seconds that PostgreSQL has used so far."""
        total = ticks(self.pg.process.pid, reaped=True)
        for pid in children(self.pg.process.pid):
            try:
                total += ticks(pid)
            except FileNotFoundError:  # gone meanwhile: then it is among the reaped
                return self.cpu()
        return total / os.sysconf("SC_CLK_TCK")

    def wal(self):
        """Bytes of WAL that PostgreSQL has written so far, for all databases."""
        return int(sql(self.pg.url(), "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"))

    def install_peers(self):
        """The peers' programs and packages, under build/: nothing is installed in the tree."""
        if self.peers:
            return
        target = os.path.join(ROOT, "build", "bench", "peers")
        source = os.path.join(ROOT, "bench", "peers")
        os.makedirs(target, exist_ok=True)
        with open(os.path.join(source, "package.json"), encoding="utf-8") as f:
            wanted = f.read()
        mark = os.path.join(target, ".installed")
        for entry in os.scandir(source):
            if entry.is_file():
                shutil.copy(entry.path, target)
        if not os.path.exists(mark) or open(mark, encoding="utf-8").read() != wanted:
            say("installing pg-boss and graphile-worker from npm")
            subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent"], cwd=target, check=True,
                           stdout=sys.stderr)
            with open(mark, "w", encoding="utf-8") as f:
                f.write(wanted)
        self.peers = target

    def node(self, script):
        self.install_peers()
        return [os.path.join(self.peers, "node_modules", ".bin", "node"), os.path.join(self.peers, script)]

    def peer(self, name, rows, env, arrived, processes=1, stderr=None):
        """Jobs a second from the first one's handler to the last one done, and what a job took; arrived waits."""
        script, left = PEERS[name]
        url = self.database()
        env = {**os.environ, "DATABASE_URL": url, "JOBS": str(rows), "NODE_ENV": "production", **env}
        node = self.node(script)
        subprocess.run([*node, "fill"], env=env, check=True, stdout=subprocess.DEVNULL)
        sql(url, "VACUUM (ANALYZE)")
        sql(url, "CHECKPOINT")
        meter = Meter(self)
        procs = [subprocess.Popen([*node, "drain"], env=env, stdout=subprocess.PIPE, stderr=stderr, text=True)
                 for _ in range(processes)]
        arrived(rows, procs)
        while sql(url, left) != "0":
            time.sleep(0.02)
        end = time.time()
        cost = meter.read(procs, rows)
        for proc in procs:
            stop(proc)
        start = min(int(line) for line in (proc.stdout.readline() for proc in procs) if line.strip()) / 1000
        self.drop(url)
        return Found(rows / (end - start), *cost)
