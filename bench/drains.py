"""What bench/delivery and bench/relay share: rows drained from one PostgreSQL, by us and by others, and the cost."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

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
    say(f"{name:28} {found[0]:>9,.0f}/s {found[1]:>6.0f} µs")


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


class Sandbox:
    def __init__(self, *args):
        self.proc = subprocess.Popen([BIN, "sandbox", "--listen", "127.0.0.1:0", *args],
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.proc.stdout.readline().split()[-1].rstrip("/")

    def get(self, path):
        with urllib.request.urlopen(self.url + path) as answer:
            return json.load(answer)

    def wait_for(self, count, procs):
        """Until that many different keys have come; what is drained must live so long."""
        while self.get("/_stats")["distinctKeys"] < count:
            must_live(procs)
            time.sleep(0.1)

    def stop(self):
        stop(self.proc)


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

    def cpu_us(self, before, procs, rows):
        used = self.cpu() - before + sum(ticks(proc.pid) for proc in procs) / os.sysconf("SC_CLK_TCK")
        return 1e6 * used / rows

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
        """Jobs a second from the first one's handler to the last one done, processor time a job; arrived waits."""
        script, left = PEERS[name]
        url = self.database()
        env = {**os.environ, "DATABASE_URL": url, "JOBS": str(rows), "NODE_ENV": "production", **env}
        node = self.node(script)
        subprocess.run([*node, "fill"], env=env, check=True, stdout=subprocess.DEVNULL)
        sql(url, "VACUUM (ANALYZE)")
        sql(url, "CHECKPOINT")
        before = self.cpu()
        procs = [subprocess.Popen([*node, "drain"], env=env, stdout=subprocess.PIPE, stderr=stderr, text=True)
                 for _ in range(processes)]
        arrived(rows, procs)
        while sql(url, left) != "0":
            time.sleep(0.02)
        end = time.time()
        cpu_us = self.cpu_us(before, procs, rows)
        for proc in procs:
            stop(proc)
        start = min(int(line) for line in (proc.stdout.readline() for proc in procs) if line.strip()) / 1000
        self.drop(url)
        return rows / (end - start), cpu_us
