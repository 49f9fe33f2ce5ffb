#!/usr/bin/python3
"""A whole cluster on one machine: HAProxy, three API replicas, three workers, PostgreSQL, and what else is asked for.

    tests/cluster/cluster.py [--seconds N | --minutes N] [--chaos] [--seed N] [--rate N] [--no-cables]
                             [--lock sql|redis] [--queue poll|rabbitmq] [--storage local|s3] [--standby off|on]

Starts everything, prints the addresses, and puts load on it until Ctrl-C, or for as long as told. With --chaos, members are
killed, stopped, paused and cut off at random meanwhile (as root in network namespaces, so that there are cables to cut;
else on loopback addresses). In the end it mends everything, waits until all that was answered 2xx has arrived, and says what
it found, a line for each check: ok, or not ok. `make cluster` is the same; `make check` runs half a minute of it.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import psycopg2  # noqa: E402
from chaos import Chaos  # noqa: E402
from load import ADMIN_KEY, Load  # noqa: E402
from members import S3, HAProxy, Postgres, RabbitMQ, Redis, Server, wait_until  # noqa: E402
from network import Network  # noqa: E402
from peer import Peer  # noqa: E402
from verdict import Verdict  # noqa: E402

# What the server can do. The last of each is the default, here and in the tests.
CHOICES = {
    "lock": ("sql", "redis"),
    "queue": ("poll", "rabbitmq"),
    "storage": ("local", "s3"),
    "standby": ("off", "on"),
}
BIN = str(ROOT / os.environ.get("DATAFLOW_BIN", "build/dataflow"))
MASTER_KEY = "b7" * 32
DATABASE = "dataflow"


class Cluster:
    def __init__(self, options, directory):
        self.options = options
        self.directory = Path(directory)
        self.network = Network(options.cables)
        self.peer = Peer(self.network.address, options.seed)
        self.members = []
        self.databases, self.redis, self.apis, self.workers = [], [], [], []
        self.rabbit = self.s3 = self.haproxy = self.standby = None

    def add(self, kind, name, *args):
        member = kind(name, self.network.node(), self.directory, *args)
        self.members.append(member)
        return member

    # -- starting

    def start(self):
        self.start_stores()
        config = self.config()
        self.apis = [self.add(Server, f"api-{n}", BIN, {**config, "server": {**config["server"], "roles": "api"}}) for n in (1, 2, 3)]
        roles = "process,deliver,import,relay,maintain"
        self.workers = [self.add(Server, f"worker-{n}", BIN, {**config, "server": {**config["server"], "roles": roles}}) for n in (1, 2, 3)]
        for server in self.servers:
            server.spawn()
        for server in self.servers:
            wait_until(server._is_up, f"{server.name} to be ready")  # pylint: disable=protected-access
        self.haproxy = self.add(HAProxy, "haproxy", self.apis).start()

    def start_stores(self):
        self.primary = self.add(Postgres, "postgres-1").start()
        self.databases = [self.primary]
        self.execute("postgres", f"CREATE DATABASE {DATABASE}")
        if self.options.standby == "on":
            self.standby = self.add(Postgres, "postgres-2", self.primary).start()
            self.databases.append(self.standby)
            self.make_synchronous()
        if self.options.lock == "redis":
            self.redis = [self.add(Redis, f"redis-{n}").start() for n in (1, 2, 3)]
        if self.options.queue == "rabbitmq":
            self.rabbit = self.add(RabbitMQ, "rabbitmq").start()
        if self.options.storage == "s3":
            self.s3 = self.add(S3, "s3").start()
            self.s3.make_bucket("dataflow")

    def config(self):
        data = self.directory / "data"
        peer = self.peer.url
        found = {
            "server": {"data_dir": data, "trusted_proxies": self.network.trusted, "drain_seconds": 5},
            "database": {"url": self.url(), "pool_size": 4},
            "admin": {"key": ADMIN_KEY},
            "security": {"master_key": MASTER_KEY},
            "gateway": {"functional_ack_url": f"{peer}/gateway/acks", "ticket_return_url": f"{peer}/gateway/returns",
                        "ticket_send_url": f"{peer}/gateway/tickets", "api_key": "gateway-key-of-the-cluster"},
            "omniflow": {"url": peer, "api_key": "omniflow-key-of-the-cluster", "batch_size": 10, "max_retries": 20,
                         "retry_delays_ms": "200,500,1000,2000", "timeout_ms": 6000},
            "delivery": {"allow_private_targets": "on", "retry_base_ms": 100, "retry_cap_ms": 2000, "max_attempts": 1000,
                         "lease_ms": 10000, "timeout_ms": 6000},
            "breaker": {"window": 50, "min_calls": 20, "open_ms": 500},
            "imports": {"mode": "concurrent", "workers": 2, "poll_ms": 200, "lock": self.options.lock},
            "webhooks": {"retry_delays_ms": ",".join(["500", "1000"] + ["2000"] * 14), "timeout_ms": 6000},
            "relay.own": {"dispatcher": "http", "target": f"{peer}/events", "retry_base_ms": 100, "retry_cap_ms": 2000, "timeout_ms": 6000,
                          "max_retries": 1000},
        }
        if self.redis:
            found["redis"] = {"urls": ",".join(r.url for r in self.redis)}
        if self.rabbit:
            found["imports"] |= {"queue": "rabbitmq", "queue_url": self.rabbit.url, "queue_name": "dataflow.batches"}
        if self.s3:
            found["imports"] |= {"storage": "s3", "bucket": "s3://dataflow/imports"}
            found["s3"] = {"endpoint": self.s3.url, "access_key": "test:tester", "secret_key": "testing", "path_style": "on"}
        return found

    # -- databases

    def url(self):
        """Of the database; with a standby, of both hosts."""
        found = self.primary.url(DATABASE)
        if self.standby:
            found = found.replace(self.primary.place, f"{self.databases[0].place},{self.databases[1].place}")
            found += "?target_session_attrs=read-write"
        return found

    def execute(self, database, *statements):
        with contextlib.closing(psycopg2.connect(self.primary.url(database))) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return cursor.fetchall() if cursor.description else None

    def make_synchronous(self):
        """No commit is answered before the standby has it, so that a failover loses nothing that was answered."""
        wait_until(lambda: self.execute("postgres", "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"), "the standby to follow")
        self.execute("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        wait_until(lambda: self.execute("postgres", "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"), "the standby to be in step")

    def swap(self):
        """The standby was promoted: nobody follows it yet, so its commits wait for nobody."""
        self.primary, self.standby = self.standby, self.primary
        self.execute("postgres", "ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")

    # -- members

    @property
    def servers(self):
        return self.apis + self.workers

    def groups(self):
        """For chaos: of each group, some are left alone."""
        singles = [m for m in (self.haproxy, self.primary, self.rabbit, self.s3) if m]
        return [group for group in (self.apis, self.workers, self.redis, *([m] for m in singles)) if group]

    def close(self):
        for member in reversed(self.members):
            member.close()


def say_since(begin):
    return lambda text: print(f"{time.monotonic() - begin:8.1f} s  {text}", flush=True)


def print_addresses(cluster):
    for member in cluster.members:
        port = getattr(member, "port", None) or member.rabbit.port
        print(f"  {member.name:<11} {member.node.address}:{port}")
    if cluster.network.has_cables:
        print(f"  from here they are reached inside the harness's namespace: nsenter --net=/proc/{os.getpid()}/ns/net curl -s "
              "http://{}:{}/readyz".format(*cluster.haproxy.host_port))
    print(f"  admin key   {ADMIN_KEY}", flush=True)


def put_load_on(cluster, load, options, say):
    """Until it is time, or somebody says so."""
    chaos = Chaos(cluster, options.seed, say)
    done = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    load.start()
    until = time.monotonic() + (options.seconds or float("inf"))
    while time.monotonic() < until and not done.wait(0.1):
        if options.chaos:
            chaos.step()
    if options.chaos:
        chaos.end()
    if options.chaos and cluster.standby:
        chaos.fail_over()
    time.sleep(1)  # a moment of calm, with load
    load.stop()
    return chaos


def report(cluster, load, chaos, verdict, burst, options):
    ledger = load.ledger
    print("\nIt did: " + (", ".join(f"{count} x {kind}" for kind, count in sorted(chaos.counts.items())) or "nothing") +
          (f"; {len(chaos.exits)} members ended by themselves" if chaos.exits else ""))
    checks = verdict.checks(burst)
    print("Callers were answered: " + ", ".join(f"{count} x {status or 'no answer'}" for status, count in ledger.answers.most_common()))
    print("Sent again because: " + (", ".join(f"{reason} ({count})" for reason, count in verdict.repeats.most_common()) or "nothing was"))
    print(f"Seed {options.seed}: --seed {options.seed} draws the same again\n")
    for name, what, problems in checks:
        print(f"{'not ok' if problems else 'ok'} {name}\n    {what}")
        for problem in problems[:10]:
            print(f"    {problem}")
    return not any(problems for *_, problems in checks)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=float, help="how long there is load; without it until Ctrl-C")
    length.add_argument("--minutes", type=float)
    parser.add_argument("--chaos", action="store_true", help="kill, stop, pause and cut off members at random")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--rate", type=float, default=20, help="documents a second")
    parser.add_argument("--no-cables", dest="cables", action="store_false", help="loopback addresses instead of namespaces")
    parser.add_argument("--keep", action="store_true", help="keep logs and data")
    for name, choices in CHOICES.items():
        parser.add_argument(f"--{name}", choices=choices, default=choices[-1])
    options = parser.parse_args(arguments)
    if options.minutes:
        options.seconds = options.minutes * 60
    return options


def main():
    options = parse(sys.argv[1:])
    say = say_since(time.monotonic())
    directory = tempfile.mkdtemp(prefix="dataflow-cluster-")
    os.chmod(directory, 0o755)  # PostgreSQL's user must come through
    cluster = Cluster(options, directory)
    good = False
    try:
        say(f"starting with {', '.join(f'{n} {getattr(options, n)}' for n in CHOICES)}; "
            + ("namespaces and cables" if cluster.network.has_cables else "loopback addresses, no cables to cut"))
        cluster.start()
        print_addresses(cluster)
        load = Load(cluster, options.rate, options.seed)
        load.prepare()
        burst = load.burst()
        say("load" + (" and chaos" if options.chaos else "") + (f" for {options.seconds:g} s" if options.seconds else ", until Ctrl-C"))
        chaos = put_load_on(cluster, load, options, say)
        verdict = Verdict(cluster, load, chaos)
        say("waiting until everything has arrived")
        verdict.wait()
        say("judging")
        good = report(cluster, load, chaos, verdict, burst, options)
    finally:
        cluster.close()
        if options.keep or not good:
            print(f"Logs are in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
