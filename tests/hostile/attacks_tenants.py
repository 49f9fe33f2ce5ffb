"""Attacks on other tenants, by a client or without credentials: smuggling, lock-out, slots, files, foreign documents."""

import socket
import threading

from harness import wait_for
from target import Attack, answered, stores_nothing, ticket
from test_imports_growth import line, workbook
from test_imports_receive import upload

# --- framing ---------------------------------------------------------------------------------------------

CHUNKED = (b"POST /api/tickets HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
           b"X-Client-Id: %b\r\nX-Client-Secret: %b\r\n\r\n")
HIDDEN = b"GET /admin/clients HTTP/1.1\r\nHost: x\r\nX-Admin-Key: none\r\n\r\n"
ENDS = [b"0\r\n\r\n", b"0\n\n", b"0\n\r\n", b"0\r\n\n", b"0;a=b\n\n", b"0\r\nTrailer: x\n\n", b"2\n{}0\n\n", b"2\r\n{}\n0\n\n"]


def smuggle(target):
    """A request behind the end of a chunked body, for each way in which the end may be written."""
    who = tuple(target.attacker.headers[name].encode() for name in ("X-Client-Id", "X-Client-Secret"))
    return [target.attacker.raw(CHUNKED % who + end + HIDDEN, count=2) for end in ENDS]


def nothing_hidden_is_answered(_target, sent):
    assert all(len(answers) <= 1 for answers in sent), sent
    assert any(answers for answers in sent)


# --- logins ----------------------------------------------------------------------------------------------


def guess_the_neighbours_secret(target):
    """From the bystander's own address, with its id."""
    bystander = target.bystander.caller
    guesser = target.server.client(bystander.headers["X-Client-Id"], "dfs_wrong", address=bystander.address)
    return target.at_once(100, lambda _: guesser.get("/whoami"))


def large_bodies_of_nobody(target):
    """A megabyte each, with no credentials and with wrong ones."""
    callers = [target.server.anonymous(), target.server.client("nobody", "dfs_wrong")]
    return target.at_once(60, lambda i: callers[i % 2].post("/api/tickets", body=b" " * 1_000_000))


# --- documents -------------------------------------------------------------------------------------------


def take_others_documents(target):
    owner = target.server.new_client("the owner", scopes=["interface"])
    thief = target.server.new_client("a thief", scopes=["interface"])
    assert owner.post("/api/tickets", ticket("OWNED")).status == 200
    assert owner.post("/api/counterparties", {"businessDocId": "OWNED", "name": "mine"}).status == 200
    return [
        thief.get("/api/counterparties?businessDocID=OWNED"),
        thief.post("/api/tickets", ticket("OWNED", companyCode="2")),
        thief.post("/api/counterparties", {"businessDocId": "OWNED", "name": "yours"}),
        thief.post("/api/functional-ack", {"businessEntity": "TKT", "businessDocId": "OWNED", "operation": "UPDATE",
                                           "status": "200"}),
    ]


def documents_are_as_they_were(target, _sent):
    assert target.backend.query("SELECT CompanyCode FROM TB_TICKET_INTERFACE WHERE BusinessDocId = 'OWNED'") == [("1",)]
    assert target.backend.query("SELECT Name FROM TB_COUNTERPARTIES") == [("mine",)]


# --- webhooks --------------------------------------------------------------------------------------------

INSIDE = ["http://127.0.0.1:1/", "http://localhost/", "http://[::1]/", "http://10.0.0.1/", "http://192.168.0.1/",
          "http://169.254.169.254/latest/meta-data/", "http://[::ffff:127.0.0.1]/", "http://2130706433/", "http://0/",
          "http://0x7f.1/", "http://[fe80::1]/", "http://[64:ff9b::7f00:1]/", "http://nobody.invalid/"]


def subscribe_to_the_inside(target):
    me = target.attacker.headers["X-Client-Id"]
    return [target.attacker.post(f"/clients/{me}/webhooks", {"url": url}) for url in INSIDE]


def one_refusal_for_all(_target, sent):
    errors = [answer.json["errors"] for answer in sent]
    assert all(error == errors[0] for error in errors), errors
    assert errors[0][0]["field"] == "url"


class Listeners:
    """They take a connection and never say a word."""

    def __init__(self, count):
        self.sockets = []
        for _ in range(count):
            s = socket.socket()
            s.bind(("127.0.0.1", 0))
            s.listen(64)
            self.sockets.append(s)
        self.urls = [f"http://127.0.0.1:{s.getsockname()[1]}/hook" for s in self.sockets]


def hang(target):
    """Sixty destinations of one tenant, and a few hundred events for them; the gateway's deliveries arrive meanwhile."""
    listeners = Listeners(60)
    me = target.attacker.headers["X-Client-Id"]
    for url in listeners.urls:
        answer = target.attacker.post(f"/clients/{me}/webhooks", {"url": url, "events": ["TicketProcessed"]})
        assert answer.status == 201, answer
    answers = [target.attacker.post("/api/tickets", ticket(f"HANG-{i}")) for i in range(10)]
    wait_for(lambda: target.backend.query("SELECT COUNT(*) FROM WebhookDeliveries WHERE Status = 'Sending'")[0][0] > 0,
             "some are on their way")
    before = len(target.peer.bytes)
    wait_for(lambda: len(target.peer.bytes) >= before + 20, "the gateway's deliveries go on")
    return answers


def with_gateway(target):
    url = target.peer.url
    return {"gateway": {"ticket_send_url": f"{url}/send", "ticket_return_url": f"{url}/return", "api_key": "gateway-key"},
            "webhooks": {"max_per_client": 100, "timeout_ms": 40000}}


# --- files -----------------------------------------------------------------------------------------------


def upload_gaps(target):
    """A few hundred bytes that stand for a million rows, and for twenty million."""
    head, last = line(1, "Telefone"), "51999990000"
    books = [head + line(1_048_576, last), head + line(20_000_001, last), head + line(2, last) + line(4_294_967_295, last)]
    answers = [upload(target.attacker, workbook(rows), f"gap{i}.xlsx") for i, rows in enumerate(books)]

    def ended():
        rows = target.backend.query("SELECT COUNT(*) FROM ImportBatch WHERE Status IN (0, 1)")
        return rows[0][0] == 0

    wait_for(ended, "the batches to end", timeout=120)
    return answers


def few_items(target, _sent):
    assert target.backend.query("SELECT COUNT(*) FROM ImportItem")[0][0] <= 4


def with_omniflow(target):
    return {"omniflow": {"url": target.peer.url, "api_key": "omniflow-key"}}


# --- event streams ---------------------------------------------------------------------------------------


def open_streams(target):
    """Streams of one batch, all at once, and none of them is read."""
    batch = upload(target.attacker, b'[{"phone":"51999990000"}]', "one.json").json["batchId"]
    lock, statuses = threading.Lock(), []

    def follow(_):
        with socket.create_connection(target.server.host_port, 20) as s:
            lines = [f"GET /imports/{batch}/events HTTP/1.1", "Host: x",
                     *(f"{name}: {value}" for name, value in target.attacker.headers.items()), "", ""]
            s.sendall("\r\n".join(lines).encode())
            status = int(s.recv(4096).split()[1])
            with lock:
                statuses.append(status)

    target.at_once(120, follow)
    return statuses


ATTACKS = [
    Attack("smuggling", "a request hidden behind a chunked body whose end has bare line feeds: it was answered",
           smuggle, (nothing_hidden_is_answered, stores_nothing("TB_TICKET_INTERFACE")), backends=("sqlite",)),
    Attack("lock-out", "a hundred wrong secrets for another client's id from its own address: it was locked out",
           guess_the_neighbours_secret, (answered(401, 429, 503),)),
    Attack("bodies-of-nobody", "sixty bodies of a megabyte without credentials, and with wrong ones",
           large_bodies_of_nobody, (answered(401, 429, 503), stores_nothing("TB_TICKET_INTERFACE")), backends=("sqlite",)),
    Attack("foreign-documents", "reading, replacing and acknowledging what another client sent: all of it worked",
           take_others_documents, (answered(404, 409), documents_are_as_they_were)),
    Attack("inside", "webhooks to internal addresses in every spelling, and to a name that there is not",
           subscribe_to_the_inside, (answered(400), one_refusal_for_all, stores_nothing("WebhookSubscriptions")),
           config={"delivery": {"allow_private_targets": "off"}}, backends=("sqlite",)),
    Attack("hanging-targets", "sixty webhooks of one client that hang: six delayed a gateway's delivery by 13.6 s",
           hang, (answered(200),), config=with_gateway),
    Attack("row-gaps", "workbooks of a few hundred bytes with a million rows and more: 20 million items, 468 MB",
           upload_gaps, (answered(202), few_items), config=with_omniflow),
    Attack("streams", "120 event streams of one client at once", open_streams, (answered(200, 429, 503),), config=with_omniflow,
           backends=("sqlite",)),
]
