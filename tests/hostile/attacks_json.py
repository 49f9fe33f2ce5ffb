"""Documents that are small on the wire and were large in memory."""

import json

from harness import wait_for
from target import Attack, answered, stores_nothing, ticket, tickets_became, with_junk, zeros

HALF_MIB = 500_000


# --- tickets ---------------------------------------------------------------------------------------------


def put_dense_tickets(target):
    target.put_tickets((f"DENSE-{i}", with_junk(ticket(f"DENSE-{i}"), zeros(HALF_MIB)).decode()) for i in range(150))


def wait_until_processed(count):
    def send(target):
        target.wait_for_tickets(Processed=count)
    return send


def post_dense_tickets(target):
    return target.at_once(60, lambda i: target.attacker.post(
        "/api/tickets", body=with_junk(ticket(f"DENSE-{i}"), zeros(HALF_MIB))))


def put_wide_acks(target):
    """4 KB each, of which an ack with a header for each application becomes 150 KB."""
    codes = [f"A{i}" for i in range(1000)]
    target.put_tickets((f"WIDE-{i}", json.dumps(ticket(f"WIDE-{i}", functionalAckIsRequired=True,
                                                       targetApplications=codes))) for i in range(256))


def acks_are_whole(target, _sent):
    rows = target.backend.query("SELECT PayloadJson FROM TB_FUNCTIONAL_ACK_OUTBOX")
    assert len(rows) == 256
    for payload, in rows:
        assert len(json.loads(payload)["functionalAck"]["header"]) == 1000


def put_huge_ticket(target):
    """SQLite itself holds a row that is changed three times: as read, as written, and to undo it."""
    size = 50_000_000 if target.backend.name == "sqlite" else 100_000_000
    target.put_tickets([("HUGE", with_junk(ticket("HUGE"), zeros(size)).decode())])


def wait_for_error(target):
    target.wait_for_tickets(Error=1)
    return target.at_once(8, lambda _: target.attacker.get("/api/tickets?businessEntity=TKT&businessDocId=HUGE"))


def payload_is_not_shown(_target, sent):
    """Whether a client sees a ticket that another program wrote is not the question here."""
    assert all(item["rawPayloadJson"] is None for answer in sent for item in answer.json["items"])


def error_says_why(target, _sent):
    text, = target.backend.query("SELECT LastError FROM TB_TICKET_INTERFACE WHERE BusinessDocId = 'HUGE'")[0]
    assert text == "the payload is larger than 16777216 bytes: it is not processed"


def post_and_look(target):
    body = json.dumps(ticket("QUOTES", junk='"' * 450_000)).encode()
    assert target.attacker.post("/api/tickets", body=body).status in (200, 201, 202)
    return target.at_once(60, lambda _: target.attacker.get("/api/tickets?businessEntity=TKT&businessDocId=QUOTES"))


def payload_is_whole(_target, sent):
    assert all(len(json.loads(answer.json["items"][0]["rawPayloadJson"])["junk"]) == 450_000 for answer in sent)


# --- bodies ----------------------------------------------------------------------------------------------


def address(i):
    text = f"{i} \\u0041\\u0042"  # escapes: these are unescaped into memory
    names = ("addressTypeCode", "addressTypeName", "phone", "fax", "addrLine1", "addrLine2", "cityCode", "zipCode",
             "state", "district", "isMainAddress", "isDeleted")
    return "{" + ",".join(f'"{name}":' + ("true" if name.startswith("is") else f'"{text}"') for name in names) + "}"


def post_dense_counterparties(target):
    addresses = ",".join(address(i) for i in range(1000))
    body = f'{{"businessDocId":"C","name":"n","addresses":[{addresses}]}}'.encode()
    return target.at_once(40, lambda i: target.attacker.post(
        "/api/counterparties", body=body.replace(b'"C"', b'"C-%d"' % i, 1)))


def post_long_list(target):
    body = b'{"businessDocId":"C","addresses":' + zeros(1_000_000) + b"}"
    return target.at_once(20, lambda _: target.attacker.post("/api/counterparties", body=body))


def post_dense_acks(target):
    ack = {"functionalAck": {"functionalDocID": {"businessDocId": "A"}, "header": [], "items": []}}
    whole = with_junk(ack, zeros(1_000_000))
    short = with_junk({"businessDocId": "A", "businessEntity": "TKT", "operation": "CREATE", "status": "200"},
                      zeros(1_000_000))
    return target.at_once(20, lambda i: target.attacker.post("/api/functional-ack", body=(whole, short)[i % 2]))


def post_dense_import_acks(target):
    body = b'{"ackId":"a","chunkId":0,"status":"Imported","items":' + zeros(8_000_000) + b"}"
    batch = "0190a1b2-0000-7000-8000-000000000000"
    return target.at_once(16, lambda _: target.attacker.post(f"/imports/{batch}/acks", body=body))


def post_dense_events(target):
    body = b'[{"eventType":"t","payload":' + zeros(1_000_000) + b"}]"
    return target.at_once(20, lambda _: target.attacker.post("/events", body=body))


def members(count, name='"k%d"'):
    return b"{" + b",".join((name % i).encode() + b":0" for i in range(count)) + b"}"


BOMBS = {
    "too deep, arrays": (b"[" * 500_000, 400),
    "too deep, objects": (b'{"a":' * 150_000, 400),
    "as deep as allowed, over and over": (b'{"a":[' + (b"[" * 60 + b"]" * 60 + b",") * 8_000 + b"0]}", 400),
    "one name a hundred thousand times": (b"{" + b'"a":0,' * 100_000 + b'"a":0}', 400),
    "a name again after fifty thousand": (members(50_000)[:-1] + b',"k\\u0031":0}', 400),
    "more names than are remembered": (members(90_000), 413),
    "names with escapes only": (members(60_000, '"\\u006b%d"'), 400),
    "fifty thousand names in each of many objects": (b'{"a":[' + members(50_000) + b',{"b":1}]}', 400),
    "unterminated": (b'{"a":"' + b"x" * 900_000, 400),
    "not UTF-8": (b'{"a":"' + b"x" * 900_000 + b'\xc0\xaf"}', 400),
}


def post_bombs(target):
    """Each alone, and then all of them four times at once."""
    def send(body):
        return target.attacker.post("/api/tickets", body=body)

    bombs = list(BOMBS.values())
    alone = [send(body) for body, _ in bombs]
    return alone, target.at_once(4 * len(bombs), lambda i: (bombs[i % len(bombs)][1], send(bombs[i % len(bombs)][0])))


def each_bomb_is_refused(_target, sent):
    """Refused at once (also with 503, if the attacker has its share of the memory already), or the connection is
    closed."""
    alone, together = sent
    assert {name: answer.status for name, answer in zip(BOMBS, alone, strict=True)} == {
        name: status for name, (_, status) in BOMBS.items()}
    wrong = [pair for pair in together if not isinstance(pair, OSError) and pair[1].status not in (pair[0], 503)]
    assert not wrong, wrong


def post_wide_tickets(target):
    """Fifty thousand members that nobody knows, before and behind those that are asked for."""
    body = members(50_000)[:-1] + b"," + json.dumps(ticket("WIDE")).encode()[1:]
    return target.at_once(20, lambda i: target.attacker.post("/api/tickets", body=body.replace(b"WIDE", b"WIDE-%d" % i)))


def wait_for_posted(target, sent):
    taken = sum(answer.status in (200, 201, 202) for answer in sent)
    wait_for(lambda: target.ticket_states().get("Processed", 0) == taken, f"{taken} tickets processed")


ROOM = {"server": {"max_body_bytes": 1048576}}

ATTACKS = [
    Attack("waiting-dense-tickets",
           "150 tickets of 0.5 MB of [0,0,…] wait when the server starts: it took 3.5 GB and died at each start",
           wait_until_processed(150), (tickets_became(Processed=150),), prepare=put_dense_tickets),
    Attack("concurrent-dense-tickets", "60 requests with such tickets at once: 31 MB in, 1 GB resident",
           post_dense_tickets, (answered(200, 201, 202, 503, 429), wait_for_posted), config=ROOM),
    Attack("wide-acks", "256 tickets of 10 KB that want an ack for 1000 applications each, claimed as one batch",
           wait_until_processed(256), (tickets_became(Processed=256), acks_are_whole), prepare=put_wide_acks),
    Attack("huge-ticket-row", "a ticket of 100 MB (on SQLite 50) that another program put into the table",
           wait_for_error, (tickets_became(Error=1), error_says_why, answered(200), payload_is_not_shown),
           prepare=put_huge_ticket),
    Attack("many-looks", "60 at once ask for a ticket of 0.9 MB of quotes, which is twice as long in the answer",
           post_and_look, (answered(200), payload_is_whole), config=ROOM, backends=("sqlite",)),
    Attack("dense-counterparties", "40 counterparties at once, each with 1000 addresses of all members",
           post_dense_counterparties, (answered(200, 201, 202, 503, 429),), config=ROOM),
    Attack("long-list", "a list of 500,000 zeros where 1000 entries are allowed",
           post_long_list, (answered(400, 503, 429), stores_nothing("TB_COUNTERPARTIES")), config=ROOM,
           backends=("sqlite",)),
    Attack("dense-acks", "functional acks of 1 MB of [0,0,…], whole and short ones",
           post_dense_acks, (answered(200, 201, 202, 503, 429),), config=ROOM, backends=("sqlite",)),
    Attack("dense-import-acks", "16 acks of 8 MB of [0,0,…] for a batch that is not there",
           post_dense_import_acks, (answered(400, 404, 413, 503, 429),), backends=("sqlite",)),
    Attack("dense-events", "20 events at once whose payload is 1 MB of [0,0,…]",
           post_dense_events, (answered(200, 201, 202, 503, 429),),
           config={"server": {"max_body_bytes": 2097152}}, backends=("sqlite",)),
    Attack("bombs", "what no parser may choke on: depth, names given twice, very many names, cut and foreign text",
           post_bombs, (each_bomb_is_refused, stores_nothing("TB_TICKET_INTERFACE")), config=ROOM,
           backends=("sqlite",)),
    Attack("wide-tickets", "tickets with fifty thousand members that nobody knows",
           post_wide_tickets, (answered(200, 201, 202, 503, 429), wait_for_posted), config=ROOM,
           backends=("sqlite",)),
]
