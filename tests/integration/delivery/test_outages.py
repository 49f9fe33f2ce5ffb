"""An outage is not a failed delivery: destinations that are away for hours and days, by the tests' clock, with the
default settings. Everything arrives, and nobody has to touch it; a poisoned document is given up beside it."""

import collections
import contextlib
import datetime
import json
import os
import re

import pytest
from gateway import Gateway
from harness import FakeClock, wait_for
from test_interface_acks import short

pytestmark = pytest.mark.tools  # the clock is for the release build

SOAK = bool(os.environ.get("DATAFLOW_SOAK"))
DOCUMENTS = 10000 if SOAK else 1000
PATIENCE = 600 if SOAK else 120  # seconds, for all of them
MAX_ATTEMPTS, GIVE_UP_HOURS, MIN_TRIES = 5, 72, 50  # the contract's, and the defaults
CAP = {"minutes": 6}  # a little more than retry_cap_ms, and than any backoff and any time that a peer may ask for

Channel = collections.namedtuple("Channel", "path table prefix")
CHANNELS = {"functional-ack": Channel("/ack", "TB_FUNCTIONAL_ACK_OUTBOX", ""),
            "ticket-return": Channel("/return", "TB_TICKET_RETURN_OUTBOX", ""),
            "ticket-gateway": Channel("/send", "TB_TICKET_INTERFACE", "GatewaySend")}
Row = collections.namedtuple("Row", "id doc status attempts tries first_failed due")


def ticket(doc, ack=True):
    return {"businessEntity": "TCK", "businessDocId": doc, "companyCode": "0050", "branchCode": "1", "destinationCode": "D7",
            "phaseCode": 15, "shipmentEvent": "RCD", "functionalAckIsRequired": ack, "targetApplicationCode": "ASB"}


def documents(name, count):
    return [f"{name}_{i:05}" for i in range(count)]


def in_flight(server):
    """Rows that are to be sent, or are on their way."""
    text = server.anonymous().get("/metrics").body.decode()
    return sum(float(n) for n in re.findall(r"^dataflow_delivery_in_flight\{[^}]*\} (\S+)$", text, re.M))


class World:
    """A gateway, servers that share a database, and their clock."""

    def __init__(self, gateway, make_server, backend, directory):
        self.gateway = gateway
        self.clock = FakeClock(directory)
        self.backend = backend
        self._make_server = make_server
        self.servers = []
        self.add_server()
        self.client = self.servers[0].new_client("AS400")

    @property
    def server(self):
        return self.servers[0]

    def add_server(self):
        """With default settings, but for where the gateway is."""
        url = self.gateway.url
        self.servers.append(self._make_server(self.backend, clock=self.clock, config={
            "gateway": {"functional_ack_url": url + "/ack", "ticket_return_url": url + "/return",
                        "ticket_send_url": url + "/send", "api_key": "gateway-key-of-the-tests"},
            "delivery": {"allow_private_targets": "on"}}))

    def post(self, path, bodies, expected):
        with contextlib.closing(self.client.connect()) as connection:
            for body in bodies:
                connection.request("POST", path, json.dumps(body), {**self.client.headers, "Content-Type": "application/json"})
                answer = connection.getresponse()
                assert answer.read() and answer.status == expected, answer.status

    def post_tickets(self, docs, ack=True):
        """Until they are processed: the outboxes have their rows."""
        self.post("/api/tickets", [ticket(doc, ack) for doc in docs], 200)
        wait_for(lambda: self.count("TB_TICKET_INTERFACE", "Status <> 'Processed'") == 0, "tickets processed", PATIENCE, 0.1)

    def post_acks(self, docs):
        self.post("/api/functional-ack", [short(doc) for doc in docs], 202)

    # -- what the database has

    def count(self, table, condition="1 = 1"):
        return self.backend.query(f"SELECT COUNT(*) FROM {table} WHERE {condition}")[0][0]

    def rows(self, channel):
        c = CHANNELS[channel]
        names = ", ".join(c.prefix + name for name in ("Status", "AttemptCount", "TryCount", "FirstFailedAt", "NextAttemptAt"))
        return [Row(*row) for row in self.backend.query(f"SELECT Id, BusinessDocId, {names} FROM {c.table} ORDER BY Id")]

    def row(self, channel, doc):
        row, = (row for row in self.rows(channel) if row.doc == doc)
        return row

    def unsent(self, channels):
        return sum(self.count(CHANNELS[c].table, f"{CHANNELS[c].prefix}Status <> 'Sent'") for c in channels)

    def given_up(self):
        return {channel: rows for channel in CHANNELS
                if (rows := [row for row in self.rows(channel) if row.status == "Error" and row.due is None])}

    def attempts(self, channel=None, row=None):
        """Tries that were recorded: number, whether it counted."""
        where = (f"Channel = '{channel}'" if channel else "1 = 1") + (f" AND RowKey = '{row}'" if row else "")
        return [tuple(a) for a in self.backend.query(f"SELECT Attempt, Counted FROM DeliveryAttempts WHERE {where} ORDER BY Id")]

    def counted(self, channel, row):
        return sum(counted or 0 for _, counted in self.attempts(channel, row))

    def target(self, channel):
        """How many arrived there, and since when it is down."""
        [row] = self.backend.query("SELECT Arrived, DownSince FROM DeliveryTargets"
                                   f" WHERE Channel = '{channel}' AND Target = '{self.gateway.url}{CHANNELS[channel].path}'")
        return tuple(row)

    def tries(self):
        """All but those that arrived at once, which have no row."""
        return self.count("DeliveryAttempts")

    # -- time

    def rest(self):
        """Nothing is under way: no lease ends while a call is answered."""
        wait_for(lambda: not any(in_flight(server) for server in self.servers if server.process), "rest", PATIENCE)

    def pass_time(self, steps, **step):
        """Hours pass in jumps, and after each of them at least one more try fails."""
        for _ in range(steps):
            self.rest()
            before = self.tries()
            self.clock.advance(**step)
            wait_for(lambda: self.tries() > before, "another try")  # pylint: disable=cell-var-from-loop

    def arrive(self, channels=tuple(CHANNELS)):
        """Time passes until the breaker lets probes pass; then everything goes. No jump ends a lease: nothing may be sent
        twice. More than one jump may be needed, because failures of before are among the probes of few rows."""
        for _ in range(8):
            self.clock.advance(seconds=50)
            self.rest()
        wait_for(lambda: self.unsent(channels) == 0, "everything arrived", PATIENCE, 0.1)


@pytest.fixture
def gateway():
    with contextlib.closing(Gateway()) as made:
        yield made


@pytest.fixture
def world(gateway, make_server, make_backend, tmp_path):
    return World(gateway, make_server, make_backend(), tmp_path)


def check_waiting(world, channels=tuple(CHANNELS)):
    """Rows that failed, of which none counts and none is given up."""
    for channel in channels:
        rows = world.rows(channel)
        assert {row.attempts for row in rows} == {0}, f"{channel}: {rows}"
        assert all(row.due is not None and row.status in ("Pending", "Error") for row in rows), f"{channel}: {rows}"
        assert all((row.first_failed is not None) == (row.tries > 0) for row in rows), f"{channel}: {rows}"
        assert not any(counted for _, counted in world.attempts(channel)), channel


def check_arrived(world, docs, channels=tuple(CHANNELS)):
    """Each once, under one key, and only the success counts. Where there are two servers, one may hear of what arrived
    before the outage when it has begun; then a failure counts, once."""
    assert world.given_up() == {}
    counted = {1} if len(world.servers) == 1 else {1, 2}
    for channel in channels:
        path = CHANNELS[channel].path
        rows = world.rows(channel)
        assert sorted(row.doc for row in rows) == sorted(docs)
        assert {row.status for row in rows} == {"Sent"} and {row.attempts for row in rows} <= counted, channel
        taken = collections.Counter(r.doc for r in world.gateway.seen(path) if r.status == 200)
        assert taken == collections.Counter(docs), f"{channel}: each once"
        keys = {(r.doc, r.key) for r in world.gateway.seen(path)}
        assert len(keys) == len(docs), f"{channel}: one key for all tries of a document"
    assert not any(item["action"].startswith("Outbox") for item in world.server.admin().get("/admin/audit?pageSize=200").json["items"])


# --- kinds of outages ---

OUTAGES = {
    "503_for_half_a_day": (lambda gateway: gateway.fail(503), {"hours": 1}),
    "refused_for_half_a_day": (Gateway.go_away, {"hours": 1}),
    "401_for_an_hour": (lambda gateway: gateway.fail(401), CAP),
    "404_for_an_hour": (lambda gateway: gateway.fail(404), CAP),
    "429_for_a_day": (lambda gateway: gateway.fail(429), {"hours": 2}),
    "429_with_a_time_for_a_day": (lambda gateway: gateway.fail(429, Retry_After=3600), {"hours": 2}),
    "503_with_a_time_for_a_day": (lambda gateway: gateway.fail(503, Retry_After=120), {"hours": 2}),
}


@pytest.mark.parametrize("kind", OUTAGES)
def test_what_waits_through_an_outage_arrives_after_it(world, kind):
    begin, step = OUTAGES[kind]
    begin(world.gateway)
    docs = documents("OUT", 2)  # few, so that each is tried more often than max_attempts
    world.post_tickets(docs)
    wait_for(lambda: world.tries() > 0, "the first try")
    world.pass_time(15, **step)
    world.rest()
    check_waiting(world)
    assert max(row.tries for channel in CHANNELS for row in world.rows(channel)) > MAX_ATTEMPTS
    world.gateway.recover()
    if begin is Gateway.go_away:
        world.gateway.come_back()
    if "time" in kind:
        world.pass_time(1, **step)  # the gateway asked to be left alone so long
    world.arrive()
    check_arrived(world, docs)
    for channel in CHANNELS:
        for row in world.rows(channel):
            numbers = [number for number, _ in world.attempts(channel, row.id)]
            # One that was under way when hours passed lost its lease and could not be settled.
            assert numbers == sorted(set(numbers)) and numbers[-1] == row.tries, f"{channel} {row}: tries are shown"


def moment(text):
    return datetime.datetime.fromisoformat(text)


def held_times(world, doc):
    """What the pages say of when the rows of a document are tried next, each as its channel, and whether they all wait for
    their targets."""
    admin = world.server.admin()
    row = world.row("ticket-gateway", doc)
    whole = admin.get(f"/admin/tickets/{row.id}").json
    listed, = admin.get(f"/admin/tickets?businessDocId={doc}").json["items"]
    own, = world.client.get(f"/api/tickets?businessEntity=TCK&businessDocId={doc}").json["items"]
    paged, = world.client.get(f"/api/tickets?businessEntity=TCK&businessDocId={doc}&status=Processed&page=1").json["items"]
    times = {}
    for shown in (whole, listed, own, paged):
        times.setdefault("ticket-gateway", []).append(shown["gatewaySendNextAttemptAt"])
        times.setdefault("ticket-return", []).append(shown["returnNextAttemptAt"])
    times["ticket-return"] += [sent["nextAttemptAt"] for sent in whole["returns"]]
    acks = world.client.get(f"/api/functional-ack?businessDocId={doc}").json["items"]
    times["functional-ack"] = [sent["nextAttemptAt"] for sent in whole["acks"] + acks]
    times["ticket-gateway"].append((whole["waitingFor"] or {}).get("next"))
    waits = admin.get(f"/admin/timeline/ticket/{row.id}").json["waits"]
    held = {wait["subject"] for wait in waits if wait["reason"] == "target"} == set(CHANNELS)
    for wait in waits:
        times[wait["subject"]].append(wait["nextAttemptAt"])
    for channel in CHANNELS:
        mine, = (r for r in admin.get(f"/admin/outbox/{channel}").json["items"] if r["reference"] == doc)
        times[channel] += [mine["nextAttemptAt"], admin.get(f"/admin/outbox/{channel}/{mine['id']}").json["nextAttemptAt"]]
        held = held and mine["heldFor"] is not None and mine["willRetry"] is True
    return times, held


def test_what_waits_for_a_target_tells_of_its_probe_and_not_of_the_backstop(world):
    """The due time of such a row is an hour away; the target is probed within a minute."""
    world.gateway.go_away()
    world.post_tickets(documents("AWAY", 1))
    doc, = documents("AWAY", 1)
    wait_for(lambda: world.tries() > 0, "the first try")
    world.pass_time(6, **CAP)
    world.rest()

    def told():
        times, held = held_times(world, doc)
        now = moment(world.server.admin().get("/admin/attention").json["checkedAt"])
        known = all(at is not None for all_ in times.values() for at in all_)
        return held and known and {channel: [(moment(at) - now).total_seconds() for at in all_] for channel, all_ in times.items()}

    seconds = wait_for(told, "all rows wait for their targets")
    assert all(at < 120 for all_ in seconds.values() for at in all_), seconds
    breakers = {i["channel"]: i for i in world.server.admin().get("/admin/attention").json["items"] if i["kind"] == "Breaker"}
    assert set(breakers) == set(CHANNELS)
    path = f"/admin/tickets/{world.row('ticket-gateway', doc).id}"
    why = world.server.admin().get(path).json["waitingFor"]
    assert why["code"] == "TargetAway" and abs((moment(why["next"]) - moment(breakers["ticket-gateway"]["next"])).total_seconds()) < 60
    assert int(re.search(r"is unreachable since .* UTC, next probe in (\d+) s", why["detail"])[1]) < 120
    answer = world.server.admin().get(path, headers={"Accept-Language": "pt-BR"})
    assert answer.headers["Content-Language"] == "pt-BR" and answer.json["waitingFor"]["code"] == "TargetAway"
    assert re.search(r"está inacessível desde .* UTC, próxima sonda em \d+ s", answer.json["waitingFor"]["detail"])
    lines = world.server.admin().get("/admin/outbox/ticket-return.csv").body.decode("utf-8-sig").splitlines()
    column = lines[0].split(",").index("nextAttemptAt")
    assert (moment(lines[1].split(",")[column]) - moment(why["since"])).total_seconds() < 3600 * 2


def test_health_is_kept_for_each_target(world):
    """/ack is down while /send on the same host works; a restart forgets nothing."""
    world.gateway.fail(503, path="/ack")
    docs = documents("FIRST", 6)
    world.post_tickets(docs)
    working = ("ticket-return", "ticket-gateway")
    for number in range(6):
        wait_for(lambda: world.unsent(working) == 0, "the other channels go on")
        docs += (more := documents(f"MORE{number}", 2))
        world.post_tickets(more)
        world.pass_time(1, hours=1)
        if number == 3:
            world.server.restart()
    wait_for(lambda: world.unsent(working) == 0, "the other channels go on")
    world.rest()
    check_waiting(world, ["functional-ack"])
    wait_for(lambda: world.target("functional-ack")[1] is not None, "the target is down")
    assert world.target("functional-ack")[0] == 0
    for channel in working:
        wait_for(lambda: world.target(channel) == (len(docs), None), f"{channel} is well")  # pylint: disable=cell-var-from-loop
    world.gateway.recover()
    world.arrive()
    check_arrived(world, docs)
    wait_for(lambda: world.target("functional-ack") == (len(docs), None), "the target is well again")


def test_a_poisoned_document_does_not_keep_its_target_shut(world):
    """It is the oldest, and a probe; the next probes are others."""
    world.gateway.fail(503)
    world.gateway.fail(500, doc="POISON")
    docs = documents("GOOD", 9)
    world.post_acks(["POISON", *docs])
    wait_for(lambda: world.tries() > 0, "the first try")
    world.pass_time(6, hours=1)
    world.rest()
    check_waiting(world, ["functional-ack"])
    del world.gateway.faults[None, None]
    world.clock.advance(**CAP)
    wait_for(lambda: world.unsent(["functional-ack"]) == 1, "the others arrive")
    assert world.gateway.arrived("/ack") == set(docs)
    poison = world.row("functional-ack", "POISON")
    assert poison.status == "Error" and poison.due is not None, "it has not failed often enough since the others arrive"


# --- when a document is given up ---


def check_given_up(world, doc, attempts=MAX_ATTEMPTS):
    """Where operators look, and that a person's retry begins anew."""
    row = world.row("functional-ack", doc)
    assert (row.status, row.due, row.attempts) == ("Error", None, attempts), row
    assert world.given_up() == {"functional-ack": [row]}
    admin = world.server.admin()
    shown, = admin.get("/admin/outbox/functional-ack?status=Error").json["items"]
    assert (shown["id"], shown["reference"], shown["nextAttemptAt"]) == (str(row.id), doc, None)
    counts = {c["channel"]: c["counts"] for c in admin.get("/admin/outbox").json["channels"]}
    assert counts["functional-ack"]["Error"] == 1
    world.clock.advance(minutes=2)  # rules are evaluated every minute
    alert = ("DeliveryGivenUp", f"functional-ack {world.gateway.url}/ack")
    wait_for(lambda: alert in {(a["rule"], a["subject"]) for a in admin.get("/admin/alerts?status=firing").json["items"]}, "the alert")
    world.gateway.recover()
    assert admin.post(f"/admin/outbox/functional-ack/{row.id}/retry").status == 200
    wait_for(lambda: world.unsent(["functional-ack"]) == 0, "what a person sent again")
    again = world.row("functional-ack", doc)
    assert (again.attempts, again.tries, again.first_failed) == (1, row.tries + 1, None), again


def test_a_refused_document_is_given_up_at_once(world):
    world.gateway.fail(400, doc="POISON")
    docs = documents("GOOD", 5)
    world.post_acks([*docs[:3], "POISON", *docs[3:]])
    wait_for(lambda: world.given_up(), "the refused one")
    wait_for(lambda: world.unsent(["functional-ack"]) == 1, "the others arrive")
    assert world.row("functional-ack", "POISON").tries == 1 and world.gateway.arrived("/ack") == set(docs)
    check_given_up(world, "POISON")


def test_a_poisoned_document_is_given_up_by_count_while_others_arrive(world):
    """A failure counts only if others arrived since the one before, and once in retry_cap_ms. Of ten calls fewer than
    five fail, so that the breaker stays closed."""
    def poison():
        return world.row("functional-ack", "POISON")

    def good(number):
        world.post_acks(documents(f"GOOD{number}", 6))
        wait_for(lambda: world.unsent(["functional-ack"]) == 1, "the good ones arrive")

    world.gateway.fail(500, doc="POISON")
    world.post_acks(documents("BEFORE", 12))
    wait_for(lambda: world.unsent(["functional-ack"]) == 0, "the first good ones arrive")
    world.post_acks(["POISON"])
    wait_for(lambda: poison().tries > 0, "the first try")
    world.pass_time(2, **CAP)
    assert (poison().attempts, poison().status) == (0, "Error"), "nobody else arrived meanwhile"
    for number in range(MAX_ATTEMPTS):
        assert poison().due is not None and poison().attempts == number
        good(number)
        world.pass_time(1, **CAP)
        wait_for(lambda: poison().attempts == number + 1, "it counts")  # pylint: disable=cell-var-from-loop
    assert world.counted("functional-ack", poison().id) == MAX_ATTEMPTS
    check_given_up(world, "POISON")


@pytest.mark.parametrize("first, then", [
    ({"steps": 55, "minutes": 10}, {"hours": GIVE_UP_HOURS}),  # enough tries, and then time
    ({"steps": 10, "hours": 8}, CAP),  # enough time, and then tries
], ids=("many_tries", "much_time"))
def test_a_document_alone_is_given_up_by_time_and_tries(world, first, then):
    world.gateway.fail(503)
    world.post_acks(["ALONE"])
    wait_for(lambda: world.tries() > 0, "the first try")
    world.pass_time(**first)
    world.rest()
    check_waiting(world, ["functional-ack"])
    begun = world.row("functional-ack", "ALONE").first_failed
    for _ in range(2 * MIN_TRIES):
        world.rest()
        before = world.tries()
        world.clock.advance(**then)
        if wait_for(lambda: world.given_up() or world.tries() > before, "another try, or the last") is not True:
            break
    row = world.row("functional-ack", "ALONE")
    assert row.tries >= MIN_TRIES and row.first_failed == begun
    assert world.clock.passed >= datetime.timedelta(hours=GIVE_UP_HOURS)
    check_given_up(world, "ALONE")


# --- long ones ---


def test_a_server_that_was_off_for_four_days_goes_on(world):
    """The time is over then, but not the tries."""
    world.gateway.go_away()
    docs = documents("OFF", 5)
    world.post_tickets(docs)
    wait_for(lambda: world.tries() > 0, "the first try")
    world.pass_time(3, hours=1)
    assert world.server.stop() == 0
    world.clock.advance(days=4)
    before = world.tries()
    world.server.start()
    wait_for(lambda: world.tries() > before, "a try after the days off")
    world.pass_time(3, hours=1)
    world.rest()
    check_waiting(world)
    world.gateway.come_back()
    world.arrive()
    check_arrived(world, docs)


def test_everything_arrives_after_three_days(world):
    """Half of the documents come while the gateway is away; it refuses connections, and then answers 503. A server is
    killed in the middle. On PostgreSQL there are two."""
    channels = ("ticket-return", "ticket-gateway")
    if world.backend.name != "sqlite":
        world.add_server()
    docs = documents("DAY", DOCUMENTS)
    world.post_tickets(docs[:DOCUMENTS // 2], ack=False)
    wait_for(lambda: world.unsent(channels) == 0, "the first half arrived", PATIENCE, 0.1)
    world.gateway.go_away()
    before = world.tries()
    world.post_tickets(docs[DOCUMENTS // 2:], ack=False)
    wait_for(lambda: world.tries() > before, "the first failure")
    world.pass_time(12, hours=2)
    for server in world.servers:
        server.kill()
        world.clock.advance(minutes=1)
        server.start()
    world.pass_time(12, hours=2)
    world.gateway.come_back()
    world.gateway.fail(503)
    world.pass_time(12, hours=2)
    assert world.clock.passed > datetime.timedelta(days=3)
    assert world.given_up() == {} and world.unsent(channels) == len(channels) * (DOCUMENTS - DOCUMENTS // 2)
    world.gateway.recover()
    world.arrive(channels)
    check_arrived(world, docs, channels)
