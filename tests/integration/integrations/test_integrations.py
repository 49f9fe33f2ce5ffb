"""/integrations/{name}/{path}: calls passed on with retry and circuit breaker, and kept for later when asked to."""

import contextlib
import http.server
import json
import socket
import threading
import time
import uuid

import pytest
from harness import Backend, Http, Server, wait_for
from test_openapi import DOCUMENT, check
from test_sandbox import Sandbox

pytestmark = pytest.mark.threads

API_KEY = "payment-key-of-the-tests"
TOKEN = "token-of-set-headers"
LENIENT = {"window": 10000, "min_calls": 10000}  # its breaker never opens
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class Peer(http.server.ThreadingHTTPServer):
    """Answers by path: what `plan` has for it, one after the other, the last for ever; else 200 and what came, as JSON.
    A plan's entry is a status, (status, headers, body) or a number of seconds (float) to sleep first; None: hangs up."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), PeerHandler)
        self.lock = threading.Lock()
        self.plan, self.requests = {}, []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self):
        return "http://127.0.0.1:{}".format(self.server_address[1])

    def came(self, path):
        with self.lock:
            return [r for r in self.requests if r["path"].split("?")[0] == path]

    def next(self, path):
        with self.lock:
            steps = self.plan.get(path)
            return 200 if not steps else steps.pop(0) if len(steps) > 1 else steps[0]

    def close(self):
        self.shutdown()
        self.server_close()


class PeerHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def serve(self):
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        request = {"method": self.command, "path": self.path, "headers": self.headers.items(), "body": body.hex()}
        with self.server.lock:
            self.server.requests.append(request)
        step = self.server.next(self.path.split("?")[0])
        if isinstance(step, float):
            time.sleep(step)
            step = 200
        if step is None:
            self.close_connection = True
            return
        status, headers, text = step if isinstance(step, tuple) else (step, {}, json.dumps(request).encode())
        with contextlib.suppress(OSError):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status >= 200 and status not in (204, 304):
                self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD" and status not in (204, 304):
                self.wfile.write(text)

    def log_message(self, *_):
        pass


for _method in METHODS:
    setattr(PeerHandler, f"do_{_method}", PeerHandler.serve)


@pytest.fixture(scope="module")
def peer():
    peer = Peer()
    yield peer
    peer.close()


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    box = Sandbox(tmp_path_factory.mktemp("sandbox"))
    yield Http(box)
    box.finish()


def payments(sandbox):
    return "http://{}:{}/payments".format(*sandbox.server.host_port)


@pytest.fixture(scope="module")
def nowhere():
    """An address that refuses connections: a port that is taken, and that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield "http://127.0.0.1:{}/x".format(taken.getsockname()[1])


@pytest.fixture(scope="module")
def server(sandbox, peer, nowhere, tmp_path_factory):
    """What does not touch the database is tested on one of them."""
    quick = {"retry_wait_ms": 1, **LENIENT}
    sections = {
        "pay": {"base_url": payments(sandbox), **quick},
        "echo": {"base_url": peer.url + "/base/", "api_key": API_KEY, **quick,
                 "set_headers": f"X-Tenant: 7; Authorization: Bearer {TOKEN}"},
        "bearer": {"base_url": peer.url, "forward_headers": "Authorization, X-Custom, Content-Type", **quick},
        "credit-check": {"base_url": nowhere, **quick},
        "reads": {"base_url": peer.url, "methods": "GET,OPTIONS", **quick},
        "hasty": {"base_url": peer.url, "timeout_ms": 500, "retry_max_attempts": 2, **quick},
        "named": {"base_url": peer.url, "unavailable_code": "OutOfOrder", "retry_max_attempts": 1, **quick},
        "patient": {"base_url": peer.url, **quick, "retry_wait_ms": 1500},
        "brittle": {"base_url": payments(sandbox), "window": 4, "min_calls": 2, "open_ms": 60000, "retry_wait_ms": 1},
        "elastic": {"base_url": payments(sandbox), "window": 2, "min_calls": 2, "open_ms": 100, "half_open_calls": 1,
                    "retry_max_attempts": 1},
    }
    backend = Backend("sqlite", tmp_path_factory.mktemp("sqlite"))
    server = Server(backend, tmp_path_factory.mktemp("server"),
                    config={"breaker": {"half_open_calls": 2},
                            **{f"integration.{name}": keys for name, keys in sections.items()}})
    server.secrets |= {API_KEY, TOKEN}
    yield server.start()
    server.finish()
    backend.drop()


@pytest.fixture(scope="module")
def client(server):
    return server.new_client(scopes=["integrations"])


@pytest.fixture
def path():
    """A path that no other test uses."""
    return "/" + uuid.uuid4().hex[:12]


def fault(sandbox, path, **more):
    assert sandbox.post("/_faults", {"path": "/payments" + path, **more}).status == 201


def heal(sandbox, path):
    assert sandbox.request("DELETE", f"/_faults?path=/payments{path}").status == 200


def count(sandbox, path):
    return sum(row["requests"] for row in sandbox.get("/_stats").json["paths"] if row["path"] == "/payments" + path)


def received(sandbox, path):
    return sandbox.get(f"/_received?path=/payments{path}").json


def refused(answer, code="PayServiceUnavailable"):
    assert (answer.status, answer.code) == (503, code), answer
    check(answer.json, DOCUMENT["components"]["schemas"]["Problem"], "problem")
    return answer.json["detail"]


def breaker(server, name):
    items = server.admin().get("/admin/circuit-breakers").json["items"]
    return next(item for item in items if item["name"] == f"integration:{name}")


# --- passing on --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_call_is_passed_on_and_its_answer_back(client, peer, path, method):
    body = b'{"n":1}' if method in ("POST", "PUT", "PATCH", "DELETE") else None
    answer = client.request(method, f"/integrations/echo{path}/a%2Fb%c3%A7/?q=%2F+x&empty&a=1&a=2", body)
    assert answer.status == 200, answer
    came = peer.came(f"/base{path}/a%2Fb%c3%A7/")
    assert [(r["method"], r["path"], bytes.fromhex(r["body"])) for r in came] == [
        (method, f"/base{path}/a%2Fb%c3%A7/?q=%2F+x&empty&a=1&a=2", body or b"")]
    if method != "HEAD":
        assert answer.json["path"] == came[0]["path"]


def test_the_sandbox_is_a_payment_gateway(client, sandbox, path):
    first, again = (client.post(f"/v1/integrations/pay{path}", {"amount": 1990}, headers={"Idempotency-Key": "k"})
                    for _ in range(2))
    assert (first.status, first.json["status"]) == (201, "approved")
    assert again.json == first.json
    assert client.get(f"/integrations/pay{path}/{first.json['id']}").json["id"] == first.json["id"]
    assert count(sandbox, path) == 2


def test_without_a_path_base_url_is_called_as_it_is_written(client, peer):
    assert client.get("/integrations/echo?x=1").json["path"] == "/base/?x=1"
    assert client.get("/integrations/bearer").json["path"] == "/"


def test_what_was_sent_without_being_encoded_is(client, peer, path):
    with contextlib.closing(client.connect()) as connection:
        raw = f"/integrations/echo{path}/çã|{{}}?q=ü|".encode()
        connection.putrequest("GET", "/", skip_host=True)
        connection._buffer[0] = b"GET " + raw + b" HTTP/1.1"
        for name, value in {"Host": "x", **client.headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = client.read(connection)
    assert answer.json["path"] == f"/base{path}/%C3%A7%C3%A3%7C%7B%7D?q=%C3%BC%7C"


def test_a_body_of_any_kind_arrives_byte_for_byte(client, peer, path):
    body = bytes(range(256)) * 300
    answer = client.request("POST", f"/integrations/echo{path}", body, headers={"Content-Type": "application/x-strange"})
    assert bytes.fromhex(answer.json["body"]) == body
    assert dict(answer.json["headers"])["Content-Type"] == "application/x-strange"
    chunked = client.raw(
        f"POST /integrations/echo{path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        f"X-Client-Id: {client.id}\r\nX-Client-Secret: {client.secret}\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n".encode())
    assert bytes.fromhex(chunked[0].json["body"]) == b"abcde"


def test_headers_go_by_the_rules(client, peer, path):
    trace = "0af7651916cd43dd8448eb211c80319c"
    answer = client.get(f"/integrations/echo{path}", headers={
        "Accept": "text/x", "Accept-Language": "pt-BR", "Idempotency-Key": "k-1", "User-Agent": "caller/1", "If-Match": '"é"',
        "Prefer": "a, b", "Range": "bytes=0-", "Connection": "close, If-Match, TE", "TE": "trailers", "Cookie": "a=b",
        "Authorization": "Basic x", "X-Admin-Key": "guess", "X-Api-Key": "guess", "X-Tenant": "8", "X-Other": "1",
        "X-Correlation-Id": "corr-1", "traceparent": f"00-{trace}-b7ad6b7169203331-01", "X-Forwarded-For": "1.2.3.4"})
    assert answer.status == 200 and answer.headers["X-Correlation-Id"] == "corr-1"
    got = {name.lower(): value for name, value in answer.json["headers"]}
    assert len(got) == len(answer.json["headers"])  # none twice
    parent = got.pop("traceparent").split("-")
    assert parent[:2] == ["00", trace] and parent[2] != "b7ad6b7169203331"
    assert got == {"host": peer.url[7:], "accept": "text/x", "accept-language": "pt-BR", "idempotency-key": "k-1",
                   "user-agent": "caller/1", "prefer": "a, b", "range": "bytes=0-", "x-api-key": API_KEY, "x-tenant": "7",
                   "authorization": f"Bearer {TOKEN}", "x-correlation-id": "corr-1", "x-trace-id": trace}


def test_authorization_is_passed_on_only_where_it_is_listed(client, path):
    headers = {"Authorization": "Bearer mine", "X-Custom": "1", "Accept": "text/x"}
    got = dict(client.get(f"/integrations/bearer{path}", headers=headers).json["headers"])
    assert got["Authorization"] == "Bearer mine" and got["X-Custom"] == "1" and got["Accept"] == "*/*"
    got = dict(client.get(f"/integrations/reads{path}", headers=headers).json["headers"])
    assert "Authorization" not in got and "X-Custom" not in got and got["Accept"] == "text/x"


def test_headers_of_the_answer_go_by_the_rules(client, peer, path):
    peer.plan["/base" + path] = [(200, {
        "Content-Type": "text/x; charset=utf-8", "ETag": '"1"', "Cache-Control": "max-age=5", "Location": "/elsewhere", "Link": "<a>",
        "Set-Cookie": "a=b", "X-Secret": "1", "Keep-Alive": "timeout=5", "X-Correlation-Id": "theirs", "Vary": "a\tb",
        "X-Content-Type-Options": "sniff", "Retry-After": "7"}, b"\0\xff text")]
    answer = client.get(f"/integrations/echo{path}", headers={"X-Correlation-Id": "mine"})
    assert (answer.status, answer.body) == (200, b"\0\xff text")
    got = {name.lower(): value for name, value in answer.headers.items()}
    assert len(got) == len(answer.headers)
    assert {k: got[k] for k in got if k not in ("date", "traceparent", "connection")} == {
        "content-type": "text/x; charset=utf-8", "etag": '"1"', "cache-control": "max-age=5", "location": "/elsewhere", "link": "<a>",
        "vary": "a b", "retry-after": "7", "x-correlation-id": "mine", "x-content-type-options": "nosniff",
        "content-length": "7"}


@pytest.mark.parametrize("status", [200, 201, 202, 204, 206, 301, 302, 304, 307, 400, 401, 403, 404, 409, 410, 418, 422])
def test_an_answer_that_is_no_failure_is_passed_back_as_it_is(client, peer, path, status):
    location = peer.url + "/base/never"
    peer.plan["/base" + path] = [(status, {"Location": location, "Content-Type": "text/plain"}, b"words")]
    with contextlib.closing(client.connect()) as connection:
        connection.request("POST", f"/integrations/echo{path}", b"x", client.headers)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (status, b"" if status in (204, 304) else b"words")
    assert answer.headers["Location"] == location
    assert len(peer.came("/base" + path)) == 1 and not peer.came("/base/never")


def test_an_answer_without_end_is_502(client, peer, path):
    peer.plan["/base" + path] = [(200, {}, b"x" * (16 << 20)), (200, {}, b"x" * ((16 << 20) + 1))]
    assert len(client.get(f"/integrations/echo{path}").body) == 16 << 20
    answer = client.get(f"/integrations/echo{path}")
    assert (answer.status, answer.code) == (502, "AnswerTooLarge")


# --- who and what is refused -------------------------------------------------------------------------


def test_only_clients_with_the_scope(server, peer, path):
    assert server.anonymous().get(f"/integrations/echo{path}").status == 401
    assert server.admin().get(f"/integrations/echo{path}").status == 401
    answer = server.new_client(scopes=["events"]).get(f"/integrations/echo{path}")
    assert (answer.status, answer.code) == (403, "ScopeMissing")
    assert not peer.came("/base" + path)


@pytest.mark.parametrize("method,target,status,code", [
    ("GET", "/integrations", 404, "NotFound"),
    ("GET", "/integrations/nobody", 404, "NotFound"),
    ("POST", "/integrations/nobody/x", 404, "NotFound"),
    ("GET", "/integrations/ECHO/x", 404, "NotFound"),
    ("GET", "/integrations/integration.echo/x", 404, "NotFound"),
    ("GET", "/integrations/echo//x", 404, "NotFound"),
    ("GET", "/v2/integrations/echo/x", 404, "NotFound"),
    ("TRACE", "/integrations/echo/x", 405, "MethodNotAllowed"),
    ("GET", "/integrations/echo/..", 400, "BadRequest"),
    ("GET", "/integrations/echo/a/../../b", 400, "BadRequest"),
    ("GET", "/integrations/echo/%2e%2E/b", 400, "BadRequest"),
    ("GET", "/integrations/echo/%252e%252e/b", 400, "BadRequest"),
    ("GET", "/integrations/echo/..%2fb", 400, "BadRequest"),
    ("GET", "/integrations/echo/..%5cb", 400, "BadRequest"),
    ("GET", "/integrations/echo/..;x/b", 400, "BadRequest"),
    ("GET", "/integrations/echo/%00", 400, "BadRequest"),
    ("GET", "/integrations/echo/%2500", 400, "BadRequest"),
    ("GET", "/integrations/echo/%zz", 400, "BadRequest"),
    ("GET", "/integrations/echo/%ff", 400, "BadRequest"),
    ("GET", "/integrations/echo/a%0d%0aX:1", 400, "BadRequest"),
    ("GET", "/integrations/echo/a?q=%ff", 400, "BadRequest"),
    ("GET", "/integrations/echo/" + "a" * 3000, 414, "UriTooLong"),
    ("GET", "/integrations/echo/a?" + "a" * 3000, 414, "UriTooLong"),
    ("POST", "/integrations/echo/a?onUnavailable=fail", 400, "BadRequest"),
    ("POST", "/integrations/echo/a?onUnavailable", 400, "BadRequest"),
    ("POST", "/integrations/echo/a?onUnavailable=", 400, "BadRequest"),
    ("POST", "/integrations/echo/a?onUnavailable=enqueue&onUnavailable=x", 400, "BadRequest"),
])
def test_bad_targets_reach_nobody(client, peer, method, target, status, code):
    before = len(peer.requests)
    answer = client.request(method, target)
    assert (answer.status, answer.code) == (status, code), answer
    assert len(peer.requests) == before


@pytest.mark.parametrize("target", ["@9.9.9.9/x", "%40x:80@9.9.9.9", ":1@9.9.9.9/", "\\\\9.9.9.9/", "%5c%5c9.9.9.9", "%2f%2f9.9.9.9/x",
                                    "%2F%2Fx", ".@9.9.9.9", "http:%2f%2f9.9.9.9", "x%3f@9.9.9.9", "%23@9.9.9.9", "?@9.9.9.9", "?//9.9.9.9"])
def test_no_path_changes_the_host(client, peer, target):
    before = len(peer.requests)
    slash = "" if target[0] == "?" else "/"
    answer = client.request("GET", "/integrations/named" + slash + target)
    assert answer.status == 200 and len(peer.requests) == before + 1, (target, answer)


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("GET", "OPTIONS")])
def test_a_method_that_is_not_configured_is_405(client, method):
    answer = client.request(method, "/integrations/reads/x")
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, OPTIONS"


def test_bad_requests(client, peer, path):
    def lines(*headers):
        head = [f"POST /integrations/echo{path}?onUnavailable=enqueue HTTP/1.1", "Host: x", f"X-Client-Id: {client.id}",
                f"X-Client-Secret: {client.secret}", "Content-Length: 1", *headers, "", "x"]
        return "\r\n".join(head).encode("latin-1")

    for headers, status in ((("Idempotency-Key: a", "Idempotency-Key: b"), 400), (("Idempotency-Key: " + "k" * 256,), 400),
                            (("Accept: \xff",), 400), (("Content-Encoding: gzip",), 415), (("Accept: a",) * 120, 400)):
        answer = client.raw(lines(*headers))[0]
        assert answer.status == status, answer
    assert client.request("POST", f"/integrations/echo{path}", b"x" * ((1 << 20) + 1)).status == 413
    assert client.request("HEAD", f"/integrations/echo{path}", b"x").status == 413
    assert not peer.came("/base" + path)


# --- retry -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("POST", "PATCH")])
def test_what_is_safe_is_repeated(client, peer, path, method):
    peer.plan["/base" + path] = [503, None, 200]
    answer = client.request(method, f"/integrations/echo{path}", headers={"X-Correlation-Id": "c" + path[1:]})
    assert answer.status == 200
    came = peer.came("/base" + path)
    assert [r["method"] for r in came] == [method] * 3
    assert all(dict(r["headers"])["X-Correlation-Id"] == "c" + path[1:] for r in came)


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_with_an_idempotency_key_anything_is(client, peer, path, method):
    peer.plan["/base" + path] = [500, None, 201]
    answer = client.request(method, f"/integrations/echo{path}", b"body", headers={"Idempotency-Key": "k"})
    assert answer.status == 201
    assert [(dict(r["headers"])["Idempotency-Key"], r["body"]) for r in peer.came("/base" + path)] == [("k", b"body".hex())] * 3


@pytest.mark.parametrize("method", ["POST", "PATCH"])
@pytest.mark.parametrize("step", [500, 502, 503, 408, 425, 429, None])
@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": ""}])
def test_without_one_it_is_not(client, peer, path, method, step, headers):
    peer.plan["/base" + path] = [step]
    answer = client.request(method, f"/integrations/echo{path}", b"body", headers=headers)
    detail = refused(answer, "EchoServiceUnavailable")
    assert "may have been done" in detail and "(1 attempt)" in detail
    assert len(peer.came("/base" + path)) == 1


def test_a_key_that_is_not_passed_on_makes_nothing_safe(client, peer, path):
    peer.plan[path] = [503]
    answer = client.post(f"/integrations/bearer{path}", {}, headers={"Idempotency-Key": "k"})
    assert "may have been done" in refused(answer, "BearerServiceUnavailable")
    assert len(peer.came(path)) == 1


def test_what_has_certainly_not_arrived_is_repeated_whatever_it_is(client):
    detail = refused(client.post("/integrations/credit-check/x", {}), "CreditCheckServiceUnavailable")
    assert detail == "credit-check is not available: Connection failed (3 attempts)"


@pytest.mark.parametrize("step", [408, 425, 429, 500, 501, 502, 503, 504, 599])
def test_when_the_attempts_are_used_up_it_is_503(client, peer, path, step):
    peer.plan["/base" + path] = [step]
    answer = client.get(f"/integrations/echo{path}")
    assert refused(answer, "EchoServiceUnavailable") == f"echo is not available: HTTP {step} (3 attempts)"
    assert answer.headers["Retry-After"] == "1"
    assert len(peer.came("/base" + path)) == 3


def test_the_code_is_the_configured_one_and_retry_after_the_peers(client, peer, path):
    peer.plan[path] = [(503, {"Retry-After": "42"}, b"")]
    answer = client.get(f"/integrations/named{path}")
    assert refused(answer, "OutOfOrder") == "named is not available: HTTP 503 (1 attempt)"
    assert answer.headers["Retry-After"] == "42"


def test_a_long_retry_after_is_not_waited_for(client, peer, path):
    peer.plan["/base" + path] = [(429, {"Retry-After": "3600"}, b"")]
    answer = client.get(f"/integrations/echo{path}")
    refused(answer, "EchoServiceUnavailable")
    assert answer.headers["Retry-After"] == "3600"
    assert len(peer.came("/base" + path)) == 1


def test_a_timeout_is_a_failure_like_others(client, peer, path):
    peer.plan[path] = [2.0]
    detail = refused(client.get(f"/integrations/hasty{path}"), "HastyServiceUnavailable")
    assert detail == "hasty is not available: Upstream timeout (2 attempts)"
    wait_for(lambda: len(peer.came(path)) == 2, "both attempts to be read")
    detail = refused(client.post(f"/integrations/hasty{path}", {}), "HastyServiceUnavailable")
    assert "Upstream timeout (1 attempt); the call may have been done" in detail
    wait_for(lambda: len(peer.came(path)) == 3, "the attempt to be read")


def test_nothing_is_repeated_for_a_caller_who_left(server, client, peer, path):
    peer.plan[path] = [503]
    connection = client.connect()
    connection.request("GET", f"/integrations/patient{path}", headers=client.headers)
    wait_for(lambda: peer.came(path), "the first attempt")
    connection.close()
    told = 'dataflow_integration_calls_total{integration="patient",outcome="abandoned"} 1'
    wait_for(lambda: told in server.admin().get("/metrics").body.decode(), "that it was given up")
    assert len(peer.came(path)) == 1


# --- circuit breaker ---------------------------------------------------------------------------------


def test_there_is_no_call_while_the_breaker_is_open(server, client, sandbox, path):
    assert breaker(server, "brittle")["state"] == "CLOSED"  # shown before it is used
    fault(sandbox, path, status=500)
    refused(client.get(f"/integrations/brittle{path}"), "BrittleServiceUnavailable")
    assert count(sandbox, path) == 2  # the third attempt was not permitted
    heal(sandbox, path)
    shown = breaker(server, "brittle")
    assert (shown["state"], shown["window"], shown["calls"], shown["failed"], shown["failureRate"]) == ("OPEN", 4, 2, 2, 100)
    assert shown["since"] and shown["lastFailureAt"] and 0 < shown["retryMs"] <= 60000

    for method in ("GET", "POST", "DELETE"):
        answer = client.request(method, f"/integrations/brittle{path}")
        detail = refused(answer, "BrittleServiceUnavailable")
        assert detail == "brittle is not available: its circuit breaker is open"
        assert 30 < int(answer.headers["Retry-After"]) <= 60
    assert count(sandbox, path) == 2
    assert breaker(server, "brittle")["notPermitted"] == shown["notPermitted"] + 3
    assert client.get(f"/integrations/pay{path}").status == 200  # the same host, another breaker


def test_probes_find_out_when_it_is_well_again(server, client, sandbox, path):
    fault(sandbox, path, status=503)
    wait_for(lambda: client.get(f"/integrations/elastic{path}") and breaker(server, "elastic")["state"] == "OPEN", "open")
    probes = count(sandbox, path)
    # A probe fails: open again.
    wait_for(lambda: client.get(f"/integrations/elastic{path}") and count(sandbox, path) > probes, "a probe")
    assert breaker(server, "elastic")["state"] in ("OPEN", "HALF_OPEN")
    heal(sandbox, path)
    wait_for(lambda: client.get(f"/integrations/elastic{path}").status == 200, "a probe that goes well")
    assert breaker(server, "elastic")["state"] == "CLOSED"
    events = [line["event"] for line in server.log() if line.get("destination") == "integration:elastic"]
    assert events[:2] == ["CircuitBreakerOpened", "CircuitBreakerHalfOpen"] and events[-1] == "CircuitBreakerClosed"


# --- what operators see ------------------------------------------------------------------------------


def test_log_and_metrics_tell_a_calls_story(server, client, peer, path):
    peer.plan["/base" + path] = [503, 200]
    correlation = "story-" + path[1:]
    assert client.get(f"/integrations/echo{path}", headers={"X-Correlation-Id": correlation}).status == 200
    story = [line for line in server.log() if line.get("correlationId") == correlation and "integration" in line]
    assert [(line["event"], line["attempt"], line["status"]) for line in story] == [
        ("IntegrationAttemptFailed", 1, 503), ("IntegrationCall", 2, 200)]
    assert all(line["integration"] == "echo" and line["durationMs"] >= 0 and line["traceId"] for line in story)
    metrics = server.admin().get("/metrics").body.decode()
    for line in ('calls_total{integration="echo",outcome="success"}', 'calls_total{integration="echo",outcome="client_error"}',
                 'calls_total{integration="echo",outcome="unavailable"}', 'calls_total{integration="echo",outcome="error"}',
                 'duration_seconds_count{integration="echo"}', 'retries_total{integration="echo"}'):
        assert f"dataflow_integration_{line}" in metrics


def test_who_waits_for_another_attempt_is_answered_when_the_server_stops(peer, path, tmp_path):
    backend = Backend("sqlite", tmp_path / "db")
    server = Server(backend, tmp_path / "server", config={
        "server": {"drain_seconds": 0},
        "integration.late": {"base_url": peer.url, "retry_wait_ms": 60000}})
    server.start()
    peer.plan[path] = [503]
    client = server.new_client()
    with contextlib.closing(client.connect()) as connection:
        connection.request("GET", f"/integrations/late{path}", headers=client.headers)
        wait_for(lambda: peer.came(path), "the first attempt")
        wait_for(lambda: server.log("IntegrationAttemptFailed"), "that it failed")
        server.process.terminate()
        answer = client.read(connection)
    assert "shutting down" in refused(answer, "LateServiceUnavailable")
    server.finish()
    backend.drop()


# --- kept for later ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keeper(backend_name, sandbox, peer, nowhere, tmp_path_factory):
    once = {"retry_max_attempts": 1}
    backend = Backend(backend_name, tmp_path_factory.mktemp(backend_name))
    server = Server(backend, tmp_path_factory.mktemp("keeper"), config={
        "delivery": {"retry_base_ms": 20, "retry_cap_ms": 50, "max_attempts": 1000},
        "integration.pay": {"base_url": payments(sandbox), **once, **LENIENT},
        "integration.raw": {"base_url": peer.url, "api_key": API_KEY, **once, **LENIENT},
        "integration.gone": {"base_url": nowhere, **once, **LENIENT},
        "integration.brittle": {"base_url": payments(sandbox), **once, "window": 2, "min_calls": 2, "open_ms": 600,
                                "half_open_calls": 1},
    })
    server.secrets.add(API_KEY)
    yield server.start()
    server.finish()
    backend.drop()


@pytest.fixture(scope="module")
def caller(keeper):
    return keeper.new_client(scopes=["integrations"])


def rows(server):
    return server.backend.query("SELECT COUNT(*) FROM IntegrationCalls")[0][0]


def row(server, call):
    answer = server.admin().get(f"/admin/outbox/integrations/{call['id']}")
    assert answer.status == 200, answer
    check(answer.json, DOCUMENT["components"]["schemas"]["OutboxRowWhole"], "row")
    return answer.json


def kept(answer, integration):
    assert answer.status == 202, answer
    assert answer.json == {"id": answer.json["id"], "status": "Pending", "integration": integration,
                           "correlationId": answer.headers["X-Correlation-Id"]}
    assert uuid.UUID(answer.json["id"])
    return answer.json


def settled(server, call, status="Sent"):
    return wait_for(lambda: (found := row(server, call))["status"] == status and found, f"{status} of {call}")


def test_a_call_is_kept_and_delivered_once_with_the_same_key(keeper, caller, sandbox, path):
    fault(sandbox, path, status=500)
    answer = caller.post(f"/integrations/pay{path}?x=%2F&onUnavailable=enqueue", {"amount": 1},
                         headers={"Idempotency-Key": "order-7", "X-Correlation-Id": "corr-7", "Accept": "text/x", "X-Other": "1"})
    call = kept(answer, "pay")
    wait_for(lambda: row(keeper, call)["lastError"], "an attempt that fails")
    heal(sandbox, path)
    found = settled(keeper, call)
    assert (found["reference"], found["targetUrl"], json.loads(found["payload"])) == ("corr-7", f"POST pay{path}?x=%2F", {"amount": 1})
    came = [r for r in received(sandbox, path) if r["status"] == 201]
    assert len(came) == 1
    headers = {name.lower(): value for name, value in came[0]["headers"].items()}
    assert (came[0]["idempotencyKey"], came[0]["body"], came[0]["query"]) == ("order-7", {"amount": 1}, "x=%2F")
    assert (headers["x-correlation-id"], headers["accept"]) == ("corr-7", "text/x")
    assert headers["traceparent"][3:35] == headers["x-trace-id"] and "x-other" not in headers
    assert {r["idempotencyKey"] for r in received(sandbox, path)} == {"order-7"}
    story = {"IntegrationAttemptFailed", "IntegrationCallEnqueued", "DeliveryRetry", "DeliverySent"}
    wait_for(lambda: story <= {line["event"] for line in keeper.log() if line.get("correlationId") == "corr-7"}, "the log")


def test_nothing_is_kept_while_the_other_side_is_there(keeper, caller, path):
    before = rows(keeper)
    assert caller.post(f"/integrations/pay{path}?onUnavailable=enqueue", {}).status == 201
    assert rows(keeper) == before


@pytest.mark.parametrize("how", [{"status": 500}, {"drop": True}])
def test_what_may_have_been_done_is_not_kept_without_a_key(keeper, caller, sandbox, path, how):
    before = rows(keeper)
    fault(sandbox, path, **how)
    detail = refused(caller.post(f"/integrations/pay{path}?onUnavailable=enqueue", {}))
    assert "may have been done" in detail and "not kept" in detail
    assert rows(keeper) == before and count(sandbox, path) == 1
    heal(sandbox, path)


def test_bytes_of_any_kind_are_kept(keeper, caller, peer, path):
    body = bytes(range(256)) * 64
    peer.plan[path] = [503, 200]
    call = kept(caller.request("PUT", f"/integrations/raw{path}?onUnavailable=enqueue", body,
                               headers={"Content-Type": "application/octet-stream", "Accept-Language": "ção".encode()}), "raw")
    settled(keeper, call)
    first, second = peer.came(path)
    assert bytes.fromhex(first["body"]) == bytes.fromhex(second["body"]) == body
    headers = dict(second["headers"])
    assert headers["X-Api-Key"] == API_KEY and headers["Content-Type"] == "application/octet-stream"
    assert headers["Idempotency-Key"] == f"integrations:{call['id']}"
    # The key is the configuration's, and stays there.
    stored = keeper.backend.query(f"SELECT HeadersJson FROM IntegrationCalls WHERE Id = '{call['id']}'")[0][0]
    assert API_KEY not in stored and json.loads(stored)


def test_an_empty_body_is_kept_too(keeper, caller, peer, path):
    peer.plan[path] = [503, 204]
    call = kept(caller.request("DELETE", f"/integrations/raw{path}?onUnavailable=enqueue"), "raw")
    assert settled(keeper, call)["payload"] == ""
    assert [(r["method"], r["body"]) for r in peer.came(path)] == [("DELETE", "")] * 2


def test_kept_calls_wait_for_the_breaker_too(keeper, caller, sandbox, path):
    fault(sandbox, path, status=503)
    for _ in range(2):
        refused(caller.get(f"/integrations/brittle{path}"), "BrittleServiceUnavailable")
    opened, before = breaker(keeper, "brittle"), count(sandbox, path)

    def keep(n):
        """Certainly not done, so that no key is needed: unless the call is the one that finds out whether all is well."""
        answer = caller.post(f"/integrations/brittle{path}?onUnavailable=enqueue", {"n": n})
        return answer.status == 202 and kept(answer, "brittle")

    calls = [wait_for(lambda n=n: keep(n), "a call that is kept") for n in range(3)]
    wait_for(lambda: breaker(keeper, "brittle")["notPermitted"] >= 3 or breaker(keeper, "brittle")["state"] != "OPEN", "refusals")
    came = count(sandbox, path)
    if opened["state"] == "OPEN" and breaker(keeper, "brittle")["since"] == opened["since"]:
        assert came == before
    heal(sandbox, path)
    for call in calls:
        settled(keeper, call)
    came = [r for r in received(sandbox, path) if r["status"] == 201]
    assert sorted(r["idempotencyKey"] for r in came) == sorted(f"integrations:{call['id']}" for call in calls)


def test_what_the_other_side_refuses_waits_for_a_person(keeper, caller, peer, path):
    peer.plan[path] = [503, (422, {}, b"no such account")]
    call = kept(caller.request("PUT", f"/integrations/raw{path}?onUnavailable=enqueue", b"x"), "raw")
    found = settled(keeper, call, "Error")
    assert (found["nextAttemptAt"], found["lastError"]) == (None, "HTTP 422: no such account")
    peer.plan[path] = [200]
    assert keeper.admin().post(f"/admin/outbox/integrations/{call['id']}/retry").status == 200
    settled(keeper, call)


def test_a_call_survives_kill_and_a_section_that_is_gone(keeper, caller, sandbox, path):
    fault(sandbox, path, status=503)
    call = kept(caller.post(f"/integrations/pay{path}?onUnavailable=enqueue", {"n": 1}, headers={"Idempotency-Key": "k"}), "pay")
    lost = kept(caller.post("/integrations/gone/x?onUnavailable=enqueue", {"n": 2}), "gone")
    keeper.kill()
    heal(sandbox, path)
    text = keeper.config.read_text(encoding="utf-8")
    keeper.config.write_text(text.replace("[integration.gone]", "[integration.other]"), encoding="utf-8")
    # A row that was being sent is free again when its lease is over, and that takes a minute.
    write = keeper.backend.script if keeper.backend.name == "sqlite" else keeper.backend.query
    write("UPDATE IntegrationCalls SET NextAttemptAt = CreatedAt WHERE NextAttemptAt IS NOT NULL")
    keeper.start()
    settled(keeper, call)
    assert [r["idempotencyKey"] for r in received(sandbox, path) if r["status"] == 201] == ["k"]
    found = settled(keeper, lost, "Error")
    assert (found["nextAttemptAt"], found["lastError"]) == (None, "there is no [integration.gone] any more")
    assert caller.get("/integrations/gone/x").status == 404


def test_the_command_line_shows_and_retries(keeper, caller, peer, path):
    peer.plan[path] = [503, 409]
    call = kept(caller.request("PUT", f"/integrations/raw{path}?onUnavailable=enqueue", b"x"), "raw")
    settled(keeper, call, "Error")
    shown = keeper.cli("outbox", "show", "integrations", call["id"])
    assert shown.returncode == 0 and f"PUT raw{path}" in shown.stdout and "HTTP 409" in shown.stdout
    peer.plan[path] = [200]
    assert keeper.cli("outbox", "retry", "integrations", call["id"]).returncode == 0
    settled(keeper, call)
