"""What must hold when everything is mended: each check is a name, and the problems that were found."""

import collections
import contextlib
import time

import psycopg2
from load import LIMIT, RECORDS, call, credentials

PATIENCE = 240  # seconds until everything that was answered has arrived
GRACE = 12  # seconds after a trouble in which its consequences may show: a lease, a call's time, a connection that comes back
GATEWAY = ("/gateway/acks", "/gateway/returns", "/gateway/tickets")
SHOWN = 5


def some(found):
    found = sorted(map(str, found))
    return ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")


class Verdict:
    def __init__(self, cluster, load, chaos):
        self.cluster, self.ledger, self.chaos = cluster, load.ledger, chaos
        self.repeats = collections.Counter()

    # -- waiting

    def missing(self):
        """What was answered and has not arrived, by where it should have."""
        taken = self.cluster.peer.taken()
        found = {path: self.ledger.tickets - taken[path] for path in GATEWAY}
        found["/events"] = self.ledger.events - taken["/events"]
        told = set().union(*(subjects for path, subjects in taken.items() if path.startswith("/webhooks")))
        found["/webhooks"] = set(self.ledger.batches) - told
        sent = {subject.split("/")[0] for subject in taken["/api/leads/import"]}
        found["/api/leads/import"] = set(self.ledger.batches) - sent
        return {path: lost for path, lost in found.items() if lost}

    def wait(self):
        """Until all are ready again, the balancer has seen it, and nothing is missing."""
        deadline = time.monotonic() + PATIENCE
        while not (all(m.answers() for m in self.cluster.members) and self.balancer_answers() and not self.missing()):
            if time.monotonic() > deadline:
                return
            self.chaos.supervise()
            time.sleep(0.3)

    def balancer_answers(self):
        return call(self.cluster.haproxy.host_port, "GET", "/readyz")[0] == 200

    # -- checks

    def arrived(self):
        return [f"{len(lost)} did not arrive at {path}: {some(lost)}" for path, lost in self.missing().items()]

    def stored(self):
        """Once, and as it was sent."""
        problems = []
        with contextlib.closing(psycopg2.connect(self.cluster.url())) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT BusinessDocId, COUNT(*) FROM TB_TICKET_INTERFACE GROUP BY BusinessDocId")
            rows = dict(cursor.fetchall())
            if lost := self.ledger.tickets - rows.keys():
                problems.append(f"{len(lost)} tickets are not stored: {some(lost)}")
            if twice := {doc for doc, count in rows.items() if count > 1}:
                problems.append(f"stored twice: {some(twice)}")
            cursor.execute("SELECT id::text FROM outbox_events")
            if lost := self.ledger.events - {row[0] for row in cursor.fetchall()}:
                problems.append(f"{len(lost)} events are not stored: {some(lost)}")
        return problems

    def imports_are_whole(self):
        problems = []
        for batch, client in self.ledger.batches.items():
            status, found = call(self.cluster.haproxy.host_port, "GET", f"/imports/{batch}", headers=credentials(client))
            told = status == 200 and (found["status"], found["totalRecords"], found["processedRecords"], found["errorCount"])
            if told != ("Completed", RECORDS, RECORDS, 0):
                problems.append(f"batch {batch}: {told or status}")
        return problems

    def reason(self, before, after):
        """Why something was sent again; None: for nothing."""
        if before.status != 200:
            return "the peer failed"
        if before.took > 1:
            return "the peer was slow"
        since, until = before.at, after.at
        if any(db.troubled(since, until, GRACE) for db in self.cluster.databases):
            return "the database was in trouble"
        senders = [m for m in self.cluster.workers if not m.node.cable or m.node.address in (before.sender, after.sender)]
        if any(m.troubled(since, until, GRACE) for m in senders):
            return "the sender was in trouble"
        return None

    def repeated_for_a_reason(self):
        requests = collections.defaultdict(list)
        for arrival in self.cluster.peer.arrivals:
            requests[arrival.path, arrival.key].append(arrival)
        problems = []
        for (path, key), found in requests.items():
            found.sort(key=lambda a: a.at)
            for before, after in zip(found, found[1:]):
                reason = self.reason(before, after)
                self.repeats[reason or "no reason"] += 1
                if not reason:
                    problems.append(f"{path} {key} came from {before.sender} and, {after.at - before.at:.2f} s later, from {after.sender}")
        return problems

    def one_content(self):
        """The key of a chunk has its content's hash: two keys are two contents."""
        keys = collections.defaultdict(set)
        for arrival in self.cluster.peer.arrivals:
            if arrival.path == "/api/leads/import":
                keys[arrival.subject].add(arrival.key)
        return [f"chunk {chunk} had {len(found)} contents" for chunk, found in keys.items() if len(found) > 1]

    def most_in_a_minute(self):
        times = sorted(self.ledger.admitted)
        most, first = 0, 0
        for last, at in enumerate(times):
            while times[first] <= at - 60:
                first += 1
            most = max(most, last - first + 1)
        return most

    def limit_holds(self, burst):
        most = self.most_in_a_minute()
        allowed = LIMIT + LIMIT // 10
        problems = [] if LIMIT <= burst <= allowed else [f"{burst} of a burst were let through, with a limit of {LIMIT}"]
        return problems + ([f"{most} in a minute were let through, with a limit of {LIMIT}"] if most > allowed else [])

    def nobody_crashed(self):
        problems = [f"{name} ended with {status}" for name, status in self.chaos.exits if status not in (0, 1)]
        for server in self.cluster.servers:
            text = server.log_text()
            problems += [f"{server.name}: {word}" for word in ("Sanitizer", "runtime error:", "assertion failed") if word in text]
        return problems

    def checks(self, burst):
        """(name, what was looked at, problems); the names stay the same from run to run."""
        ledger = self.ledger
        return [
            ("nothing answered 2xx is lost", f"{len(ledger.tickets)} tickets, {len(ledger.events)} events, {len(ledger.batches)} imports",
             self.arrived() + self.stored()),
            ("every import is whole", f"{len(ledger.batches)} imports", self.imports_are_whole() + self.one_content()),
            ("nothing is sent again without a reason", f"{len(self.cluster.peer.arrivals)} requests arrived", self.repeated_for_a_reason()),
            ("a limit holds across replicas",
             f"{LIMIT} a minute; {burst} of a burst, and {self.most_in_a_minute()} in a minute, of {ledger.asked} in all", self.limit_holds(burst)),
            ("a suspended client is refused everywhere", f"{len(ledger.suspended)} suspended, {ledger.probes} answers", ledger.let_in),
            ("callers got no answer that they should not get", f"{ledger.answers.total()} requests", ledger.findings),
            ("no member crashed", f"{len(self.cluster.members)} members", self.nobody_crashed()),
        ]
