"""Where webhooks may go: internal addresses are refused when a URL is registered, and again when it is dialled."""

import http.server
import subprocess
import threading

import pytest
from harness import wait_for
from test_interface_tickets import flat

INTERNAL = [
    "http://127.0.0.1/", "http://127.1/", "http://127.0.1/", "http://0x7f.1/", "http://0x7f000001/", "http://0177.0.0.1/", "http://017700000001/",
    "http://2130706433/", "http://localhost/", "https://LOCALHOST:8443/", "http://[::1]/", "http://[0:0:0:0:0:0:0:1]/", "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/", "http://[::127.0.0.1]/", "http://0/", "http://0.0.0.0/", "http://[::]/",
    "http://10.0.0.1/", "http://172.16.0.1/", "http://172.31.255.254/", "http://192.168.1.1/", "http://100.64.0.1/", "http://100.127.255.254/",
    "http://169.254.169.254/latest/meta-data/", "http://2852039166/", "http://0xa9fea9fe/", "http://0251.0376.0251.0376/", "http://[::ffff:169.254.169.254]/",
    "http://[fd00:ec2::254]/", "http://192.0.0.192/",
    "http://[fe80::1]/", "http://[fec0::1]/", "http://[fc00::1]/", "http://[fd00::1]/",
    "http://[64:ff9b::7f00:1]/", "http://[64:ff9b::a9fe:a9fe]/", "http://[64:ff9b:1::7f00:1]/", "http://[2002:7f00:1::]/", "http://[2002:a9fe:a9fe::]/",
    "http://[2001:0:7f00:1::]/", "http://[2001:db8::1]/", "http://[3fff::1]/", "http://192.0.2.1/", "http://198.51.100.1/", "http://203.0.113.1/",
    "http://198.18.0.1/", "http://224.0.0.1/", "http://[ff02::1]/", "http://255.255.255.255/", "http://240.0.0.1/",
]
MALFORMED = [
    "http://[fe80::1%25eth0]/", "http://127.0.0.1%2f@example.com/", "http://user:secret@9.9.9.9/", "http://9.9.9.9/#x", "http://9.9.9.9\\@127.0.0.1/",
    "ftp://9.9.9.9/", "file:///etc/passwd", "gopher://127.0.0.1/", "//9.9.9.9/", "http:///", "http://①②⑦.0.0.1/", "http://9.9.9.9:0/", "",
]

# Names of the test's own: an attacker's name server in one file. Once public, then this machine, or gone; both at once.
RESOLVER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <string.h>

static _Atomic int asked, asked_again;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **ret)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
    if (node && strcmp(node, "rebind.example") == 0)
        return real(asked++ == 0 ? "9.9.9.9" : "127.0.0.1", service, hints, ret);
    if (node && strcmp(node, "gone.example") == 0)
        return asked_again++ == 0 ? real("9.9.9.9", service, hints, ret) : EAI_NONAME;
    if (node && strcmp(node, "never.example") == 0)
        return EAI_NONAME;
    int rc = real(node && strcmp(node, "both.example") == 0 ? "9.9.9.9" : node, service, hints, ret);
    if (rc == 0 && node && strcmp(node, "both.example") == 0) {
        struct addrinfo *last = *ret;
        while (last->ai_next)
            last = last->ai_next;
        return real("127.0.0.1", service, hints, &last->ai_next);
    }
    return rc;
}
"""


class Sink(http.server.BaseHTTPRequestHandler):
    """Sends everybody on to /inside."""

    def do_POST(self):  # noqa: N802
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.paths.append(self.path)
        self.send_response(307)
        self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/inside")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_):
        pass


@pytest.fixture
def sink():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink) as server:
        server.paths = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def given_up(server, client, url):
    """Subscribes, has a test event sent, and tells why it was not delivered."""
    made = client.post(f"/clients/{client.id}/webhooks", {"url": url})
    assert made.status == 201, made
    server.secrets.add(made.json["secret"])
    assert client.post(f"/clients/{client.id}/webhooks/{made.json['id']}/test", {}).status == 202
    failures = f"/admin/webhook-failures?subscriptionId={made.json['id']}"
    return wait_for(lambda: server.admin().get(failures).json["items"], "it is given up")[0]


SOON = {"webhooks": {"retry_delays_ms": "10"}}


def test_internal_targets_are_refused_when_registered(make_sqlite_server):
    server = make_sqlite_server()
    client = server.new_client()
    for url in INTERNAL + MALFORMED:
        answer = client.post(f"/clients/{client.id}/webhooks", {"url": url})
        assert answer.status == 400 and {e["field"] for e in answer.json["errors"]} == {"url"}, (url, answer)
    assert client.get(f"/clients/{client.id}/webhooks").json["total"] == 0
    made = client.post(f"/clients/{client.id}/webhooks", {"url": "http://9.9.9.9/"})
    assert made.status == 201
    server.secrets.add(made.json["secret"])
    for url in INTERNAL[:3]:
        assert client.patch(f"/clients/{client.id}/webhooks/{made.json['id']}", {"url": url}).status == 400
    assert client.get(f"/clients/{client.id}/webhooks/{made.json['id']}").json["url"] == "http://9.9.9.9/"


@pytest.mark.tools  # sanitizers do not let others come before them
def test_a_name_that_resolves_otherwise_the_second_time_reaches_nobody(make_sqlite_server, sink, tmp_path):
    (tmp_path / "resolver.c").write_text(RESOLVER, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "resolver.so", tmp_path / "resolver.c"], check=True, timeout=60)
    server = make_sqlite_server(config=SOON, env={"LD_PRELOAD": str(tmp_path / "resolver.so")})
    client = server.new_client()
    answer = client.post(f"/clients/{client.id}/webhooks", {"url": f"http://both.example:{sink.server_port}/"})
    assert answer.status == 400, "one address that is not public is enough"
    failure = given_up(server, client, f"http://rebind.example:{sink.server_port}/")
    assert "127.0.0.1" in failure["lastError"] and "not a public address" in failure["lastError"]
    assert failure["lastStatus"] is None and sink.paths == []


@pytest.mark.tools
def test_an_internal_name_is_told_of_as_one_that_does_not_exist(make_sqlite_server, sink, tmp_path):
    (tmp_path / "resolver.c").write_text(RESOLVER, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "resolver.so", tmp_path / "resolver.c"], check=True, timeout=60)
    server = make_sqlite_server(config=SOON, env={"LD_PRELOAD": str(tmp_path / "resolver.so")})
    client = server.new_client()
    hooks = f"/clients/{client.id}/webhooks"
    refused = [client.post(hooks, {"url": f"http://{host}/"}) for host in ("both.example", "never.example", "127.0.0.1", "[fd00::1]")]
    assert {a.status for a in refused} == {400} and len({str(a.json["errors"]) for a in refused}) == 1
    assert [line["message"] for line in server.log("WebhookTargetRefused")][:2] == [
        "it has an address that is not public (delivery.allow_private_targets)", "it cannot be resolved"]
    seen = []
    for host in ("rebind.example", "gone.example"):
        failure = given_up(server, client, f"http://{host}:{sink.server_port}/")
        path = f"{hooks}/{failure['subscriptionId']}/deliveries"
        delivery, = client.get(path).json["items"]
        seen.append((delivery["status"], delivery["attempts"], delivery["lastStatus"], delivery["lastError"],
                     [{k: v for k, v in a.items() if k != "attemptedAt"} for a in delivery["attemptsHistory"]]))
        assert client.get(hooks + "/" + failure["subscriptionId"]).json["disabledReason"] is None
        assert failure["lastError"] != delivery["lastError"], "the administrator has the details"
    assert seen[0] == seen[1] and seen[0][3] == "the target's address is not allowed or cannot be found"
    assert sink.paths == []


class Teller(Sink):
    def do_POST(self):  # noqa: N802
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b"root password: 4711"
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.parametrize("status", [200, 403, 500])
def test_what_the_target_answers_is_for_the_administrator(make_sqlite_server, status):
    server = make_sqlite_server(config={"delivery": {"allow_private_targets": "on"}, **SOON})
    client = server.new_client()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Teller) as peer:
        peer.status = status
        threading.Thread(target=peer.serve_forever, daemon=True).start()
        made = client.post(f"/clients/{client.id}/webhooks", {"url": f"http://127.0.0.1:{peer.server_port}/"})
        server.secrets.add(made.json["secret"])
        hook = f"/clients/{client.id}/webhooks/{made.json['id']}"
        tested = client.post(hook + "/test", {})
        assert tested.status == 202
        over = ("Sent", None) if status == 200 else ("Error", None)
        wait_for(lambda: [(d["status"], d["nextAttemptAt"]) for d in client.get(hook + "/deliveries").json["items"]] == [over],
                 "it is over")
        peer.shutdown()
    for path in ("", "/deliveries"):
        assert b"password" not in client.get(hook + path).body
    assert b"password" not in tested.body
    delivery, = client.get(hook + "/deliveries").json["items"]
    kept = None if status == 200 else "root password: 4711"  # of a success at the first try no answer is kept
    assert delivery["attemptsHistory"]
    for attempt in delivery["attemptsHistory"]:
        assert (attempt["httpStatus"], attempt["answerLength"]) == (status, len(kept or "")) and "answer" not in attempt
        assert attempt["error"] == (None if status == 200 else f"HTTP {status}")
    assert delivery["lastError"] == (None if status == 200 else f"HTTP {status}")
    whole, = server.admin().get(hook + "/deliveries").json["items"]
    assert {a["answer"] for a in whole["attemptsHistory"]} == {kept}


def test_the_operators_targets_may_be_anywhere(make_sqlite_server, sink):
    """A gateway on a private address does not open the filter for tenants."""
    url = f"http://127.0.0.1:{sink.server_port}/gateway"
    server = make_sqlite_server(config={"gateway": {"ticket_send_url": url, "functional_ack_url": url, "ticket_return_url": url,
                                                    "api_key": "k"}})
    client = server.new_client()
    assert client.post("/api/tickets", flat()).status == 200
    wait_for(lambda: len(sink.paths) >= 3, "ticket, return and ack are sent")
    assert client.post(f"/clients/{client.id}/webhooks", {"url": url}).status == 400
    assert set(sink.paths) == {"/gateway"}


def test_redirects_are_not_followed(make_sqlite_server, sink):
    server = make_sqlite_server(config={"delivery": {"allow_private_targets": "on"}, **SOON})
    failure = given_up(server, server.new_client(), f"http://127.0.0.1:{sink.server_port}/hook")
    assert (failure["lastStatus"], failure["attempts"]) == (307, 2)
    assert sink.paths == ["/hook", "/hook"]
