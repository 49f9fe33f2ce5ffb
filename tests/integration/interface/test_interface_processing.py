"""Tickets whose outcome the database refuses: given up while others are processed, never while none is."""

import pytest
from harness import wait_for

pytestmark = pytest.mark.threads

FAST = {"max_attempts": 3, "retry_base_ms": 5, "retry_cap_ms": 10, "lease_ms": 1000, "timeout_ms": 500}


def ticket(doc, **fields):
    return {"businessEntity": "TCK", "businessDocId": doc, "phaseCode": 15, "companyCode": "1", "branchCode": "B",
            "destinationCode": "D", "shipmentEvent": "RCD", "targetApplicationCode": "ASB",
            "functionalAckIsRequired": True, **fields}


class Processing:
    """A server, a client of it, and a database that can be told to refuse returns."""

    def __init__(self, make_server):
        self.server = make_server(config={"delivery": FAST})
        self.client = self.server.new_client("AS400", scopes=["interface"])
        self.sent = 0

    def write(self, sql):
        backend = self.server.backend
        (backend.script if backend.name == "sqlite" else backend.query)(sql)  # of SQLite only a script is committed

    def refuse(self, doc=None):
        """Returns of this document, or all but those that were there before, the good ones."""
        if self.server.backend.name == "sqlite":
            when = f"NEW.BusinessDocId = '{doc}'" if doc else "NEW.BusinessDocId NOT LIKE 'G%'"
            self.write(f"CREATE TRIGGER refusal BEFORE INSERT ON TB_TICKET_RETURN_OUTBOX WHEN {when}"
                       " BEGIN SELECT RAISE(ABORT, 'not this one'); END")
        else:
            check = f"BusinessDocId <> '{doc}'" if doc else "BusinessDocId LIKE 'G%'"
            self.write(f"ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD CONSTRAINT refusal CHECK ({check})")

    def accept(self):
        self.write("DROP TRIGGER refusal" if self.server.backend.name == "sqlite"
                   else "ALTER TABLE TB_TICKET_RETURN_OUTBOX DROP CONSTRAINT refusal")

    def post(self, doc, **fields):
        answer = self.client.post("/api/tickets", ticket(doc, **fields))
        assert answer.status == 200, answer
        return answer.json["id"]

    def shown(self, doc):
        [item] = self.client.get(f"/api/tickets?businessEntity=TCK&businessDocId={doc}").json["items"]
        return item

    def columns(self, doc):
        [row] = self.server.backend.query("SELECT Status, AttemptCount, TryCount, FirstFailedAt, CountedAt, TargetMark, NextAttemptAt"
                                          f" FROM TB_TICKET_INTERFACE WHERE BusinessDocId = '{doc}'")
        return dict(zip(("status", "attempts", "tries", "first", "counted", "mark", "due"), row))

    def others(self, count=3):
        """Sends so many that are processed."""
        docs = [f"G{self.sent + i}" for i in range(count)]
        self.sent += count
        for doc in docs:
            self.post(doc)
        wait_for(lambda: all(self.shown(doc)["status"] == "Processed" for doc in docs), "others are processed")

    def tried_again(self, doc, times=1):
        before = self.columns(doc)["tries"]
        wait_for(lambda: self.columns(doc)["tries"] >= before + times, f"{doc} tried again")

    def gives_up(self, doc):
        """While others are processed. Never before three others for each failure that counts."""
        for _ in range(200):
            self.others()
            now = self.columns(doc)
            assert now["attempts"] <= self.sent // 3, now
            if now["status"] == "Error" and now["due"] is None:
                return now
        raise AssertionError(f"{doc} is not given up")


@pytest.fixture
def processing(make_server):
    return Processing(make_server)


def counted(server, outcome):
    name = f'dataflow_tickets_processed_total{{outcome="{outcome}"}}'
    lines = server.admin().get("/metrics").body.decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def test_a_ticket_that_is_refused_while_others_are_processed_is_given_up(processing):
    processing.refuse("BAD")
    number = processing.post("BAD")
    processing.tried_again("BAD", times=6)
    assert processing.columns("BAD")["attempts"] == 0, "as long as it is alone, no failure counts"
    gone = processing.gives_up("BAD")
    assert gone["attempts"] == 3 and gone["tries"] > 6 and gone["first"] and gone["counted"]
    [entry] = wait_for(lambda: processing.server.log("TicketGivenUp"), "it is told")
    assert (entry["id"], entry["level"]) == (number, "error")
    assert counted(processing.server, "given_up") == 1 and counted(processing.server, "refused") >= 3
    shown = processing.shown("BAD")
    assert (shown["status"], shown["attemptCount"], shown["nextAttemptAt"]) == ("Error", 3, None)
    processing.others()
    assert processing.columns("BAD")["tries"] == gone["tries"], "it waits for a person"
    [[arrived]] = wait_for(lambda: processing.others(1) or processing.server.backend.query(
        "SELECT Arrived FROM DeliveryTargets WHERE Channel = 'tickets' AND Target = ''"), "the count of processed tickets")
    assert 0 < arrived <= processing.sent


def test_who_was_given_up_goes_again_with_a_reprocess_or_a_new_payload(processing):
    processing.refuse("BAD")
    number = processing.post("BAD")
    processing.gives_up("BAD")
    assert processing.server.admin().post(f"/admin/tickets/{number}/reprocess").status == 200
    again = wait_for(lambda: (c := processing.columns("BAD"))["due"] and c["status"] == "Error" and c, "refused again")
    assert again["attempts"] == 0 and again["first"] and again["counted"] is None
    processing.gives_up("BAD")
    processing.post("BAD", branchCode="C")
    again = wait_for(lambda: (c := processing.columns("BAD"))["due"] and c["status"] == "Error" and c, "refused again")
    assert again["attempts"] == 0 and again["counted"] is None
    processing.accept()
    wait_for(lambda: processing.shown("BAD")["status"] == "Processed", "processed once it is taken")
    assert processing.shown("BAD")["attemptCount"] == 1
    assert len(processing.server.log("TicketGivenUp")) == 2


def test_nothing_is_given_up_while_nothing_is_processed(processing):
    """Whatever is wrong then is no ticket's fault, however often it is tried and wherever the server was stopped."""
    docs = ["A", "B", "C", "D", "E"]
    processing.others()
    processing.refuse()
    for doc in docs:
        processing.post(doc)
    for stop in (processing.server.kill, processing.server.stop):
        for doc in docs:
            processing.tried_again(doc, times=5)
        stop()
        processing.server.start()
    for doc in docs:
        processing.tried_again(doc)
        now = processing.columns(doc)
        assert now["attempts"] == 0 and now["tries"] > FAST["max_attempts"] and now["due"] and now["first"], now
    assert not processing.server.log("TicketGivenUp")
    processing.accept()
    wait_for(lambda: all(processing.shown(doc)["status"] == "Processed" for doc in docs), "all of them, without a person")
    assert {processing.shown(doc)["attemptCount"] for doc in docs} == {1}


def test_a_ticket_that_is_not_fit_is_not_given_up(processing):
    """It goes to Error at once, has its sender's attention by the ack, and raises no alarm."""
    processing.post("UNFIT", phaseCode=6)
    wait_for(lambda: processing.columns("UNFIT")["status"] == "Error", "rejected")
    now = processing.columns("UNFIT")
    assert (now["tries"], now["due"], now["first"]) == (1, None, None)
    assert now["attempts"] == FAST["max_attempts"], "as many as are allowed: it is not tried again"
    assert processing.server.log("TicketRejected") and not processing.server.log("TicketGivenUp")


def test_failures_that_an_older_version_counted_do_not_count(processing):
    """It counted every try: AttemptCount without FirstFailedAt."""
    processing.refuse()
    processing.post("OLD")
    processing.server.stop()
    processing.write("UPDATE TB_TICKET_INTERFACE SET AttemptCount = 99, FirstFailedAt = NULL, CountedAt = NULL, TargetMark = NULL")
    processing.server.start()
    processing.tried_again("OLD", times=2)
    now = wait_for(lambda: (c := processing.columns("OLD"))["first"] and c, "it fails")
    assert now["attempts"] == 0 and now["due"]
