"""Rules of every endpoint: problems, correlation, versions, methods, bodies, framing, probes, metrics."""

import gzip
import json
import re
import socket
import subprocess
import time
import uuid

import pytest
from harness import ADMIN_KEY, TIMEOUT, check_problem, read_responses, wait_for

pytestmark = pytest.mark.threads

TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def raw_post(body, path="/admin/clients", headers=()):
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"X-Admin-Key: {ADMIN_KEY}", "Content-Type: application/json", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def total_clients(server):
    return server.admin().get("/admin/clients?pageSize=1").json["total"]


# --- correlation and trace ---------------------------------------------------------------------------


def test_a_correlation_id_is_echoed_in_header_problem_and_log(server):
    answer = server.anonymous().get("/nothing", headers={"X-Correlation-Id": "order-4711:a_b.c"})
    assert answer.headers["X-Correlation-Id"] == "order-4711:a_b.c"
    assert answer.json["correlationId"] == "order-4711:a_b.c"
    wait_for(lambda: any(line.get("correlationId") == "order-4711:a_b.c" for line in server.log()), "the log line")


def test_a_correlation_id_is_made_when_missing(server):
    made = {server.anonymous().get("/healthz").headers["X-Correlation-Id"] for _ in range(5)}
    assert len(made) == 5 and all(len(m) >= 16 for m in made)


@pytest.mark.parametrize("bad", ["x" * 129, "", "a\tb", "caf\xe9", '"><script>'])
def test_an_unreasonable_correlation_id_is_not_trusted(server, bad):
    answer = server.anonymous().get("/healthz", headers={"X-Correlation-Id": bad})
    assert answer.status in (200, 400)
    echoed = answer.headers["X-Correlation-Id"]
    assert echoed and re.fullmatch(r"[\x21-\x7e]{1,128}", echoed)


@pytest.mark.parametrize("personal", ["529.982.247-25", "52998224725", "12.ABC.345/01DE-35", "+5551999000001", "lead-maria@example.com"])
def test_a_correlation_id_that_is_a_persons_is_not_taken(server, personal):
    answer = server.anonymous().get("/nothing", headers={"X-Correlation-Id": personal})
    assert personal not in answer.headers["X-Correlation-Id"] + answer.body.decode()
    assert uuid.UUID(answer.headers["X-Correlation-Id"])


def test_traceparent_is_continued_with_a_span_of_our_own(server):
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    answer = server.anonymous().get("/healthz", headers={"traceparent": f"00-{trace}-{span}-01"})
    found = TRACEPARENT.fullmatch(answer.headers["traceparent"])
    assert found[1] == trace and found[2] != span and found[3] == "01"


@pytest.mark.parametrize("bad", [None, "junk", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                                 "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-" + "0" * 16 + "-01"])
def test_a_missing_or_invalid_traceparent_starts_a_new_trace(server, bad):
    answer = server.anonymous().get("/healthz", headers={"traceparent": bad})
    found = TRACEPARENT.fullmatch(answer.headers["traceparent"])
    assert found and found[1] != "4bf92f3577b34da6a3ce929d0e0e4736" and set(found[1]) != {"0"}


# --- versions, paths, methods ------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/", "/metrics"])
def test_every_path_also_exists_under_v1(server, path):
    assert server.anonymous().get(path).status == 200
    assert server.anonymous().get("/v1" + path).status == 200


@pytest.mark.parametrize("path", ["/v2/healthz", "/v0/healthz", "/v11/healthz", "/v1/v1/healthz", "/V1/healthz", "/nothing", "/healthz/", "/healthz/x",
                                  "/console/", "/console/nothing.js", "//healthz", "/admin", "/HEALTHZ"])
def test_what_does_not_exist_is_404(server, path):
    answer = server.admin().get(path)
    assert (answer.status, answer.code) == (404, "NotFound")


@pytest.mark.parametrize("path", ["/console/..%2f..%2fetc%2fpasswd", "/console/../../etc/passwd", "/console/%2e%2e/x", "/../etc/passwd"])
def test_no_path_leads_out_of_the_server(server, path):
    answer = server.admin().get(path)
    assert answer.status in (400, 404) and b"root:" not in answer.body


@pytest.mark.parametrize("method,path,allow", [
    ("POST", "/healthz", {"GET", "HEAD"}), ("DELETE", "/readyz", {"GET", "HEAD"}), ("PUT", "/admin/clients", {"GET", "HEAD", "POST"}),
    ("DELETE", "/admin/clients/x", {"GET", "HEAD", "PATCH"}), ("GET", "/admin/clients/x/rotate-secret", {"POST"}),
    ("POST", "/whoami", {"GET", "HEAD"}), ("BREW", "/healthz", {"GET", "HEAD"}), ("TRACE", "/healthz", {"GET", "HEAD"}),
])
def test_a_wrong_method_is_405_with_allow(server, method, path, allow):
    answer = server.admin().request(method, path)
    assert (answer.status, answer.code) == (405, "MethodNotAllowed")
    assert {m.strip() for m in answer.headers["Allow"].split(",")} - {"OPTIONS"} in (allow, allow - {"HEAD"})


@pytest.mark.parametrize("path", ["/healthz", "/openapi.json", "/nothing", "/"])
def test_head_answers_as_get_without_the_body(server, path):
    get = server.anonymous().get(path)
    head = server.anonymous().request("HEAD", path)
    assert (head.status, head.body) == (get.status, b"")
    assert head.headers["Content-Type"] == get.headers["Content-Type"]
    if path == "/openapi.json":
        assert head.headers["Content-Length"] == get.headers["Content-Length"]


# --- bodies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "", "application/jsonx", "multipart/form-data; boundary=x",
                                          "application/x-www-form-urlencoded"])
def test_another_content_type_is_415(server, content_type):
    answer = server.admin().post("/admin/clients", body=b'{"name":"x"}', headers={"Content-Type": content_type})
    assert (answer.status, answer.code) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON", "application/json; charset=utf-8", "application/vnd.x+json"])
def test_json_by_other_names_is_taken(server, content_type):
    answer = server.admin().post("/admin/clients", body=b'{"name":"x"}', headers={"Content-Type": content_type})
    assert answer.status == 201


# body, code, the byte at which it goes wrong (None: not checked)
MALFORMED = [
    (b"{", "MalformedJson", 1),
    (b'{"name"', "MalformedJson", 7),
    (b'{"name":}', "MalformedJson", 8),
    (b'{"name":"x",}', "MalformedJson", 12),
    (b'{"name":"x"}}', "MalformedJson", 12),
    (b'{"name":"x"} {"a":1}', "MalformedJson", 13),
    (b"{'name':'x'}", "MalformedJson", 1),
    (b'{"name":"x" /* c */}', "MalformedJson", 12),
    (b'{"name":"x","a":01}', "MalformedJson", None),
    (b'{"name":"x","a":1.}', "MalformedJson", None),
    (b'{"name":"x","a":NaN}', "MalformedJson", 16),
    (b'{"name":"x","a":tru}', "MalformedJson", None),
    (b'{"name":"line\nbreak"}', "MalformedJson", 13),
    (b'{"name":"\\x41"}', "MalformedJson", None),
    (b"\xef\xbb\xbf" + b'{"name":"x"}', "MalformedJson", 0),
    (b'{"name":"\xff"}', "InvalidText", 9),
    (b'{"name":"\xc3"}', "InvalidText", 9),
    (b'{"name":"\xc0\xaf"}', "InvalidText", 9),
    (b'{"name":"\xed\xa0\x80"}', "InvalidText", 9),
    (b'{"name":"\xf4\x90\x80\x80"}', "InvalidText", 9),
    (b'{"name":"\\ud800"}', "InvalidText", 9),
    (b'{"name":"\\udc00x"}', "InvalidText", 9),
    (b'{"name":"\\ud800\\u0041"}', "InvalidText", 9),
    (b'{"name":"a\\u0000b"}', "InvalidText", 10),
    (b'{"name":"a\x00b"}', None, 10),
    (b'{"name":"x","name":"y"}', "DuplicateKey", 12),
    (b'{"name":"x","n\\u0061me":"y"}', "DuplicateKey", 12),
    (b'{"name":"x","a":{"b":1,"b":2}}', "DuplicateKey", 23),
    (b'{"name":"x","a":' + b"[" * 64 + b"]" * 64 + b"}", "TooDeep", None),
    (b'{"name":"x","a":' + b"[" * 200000, "TooDeep", None),
]


@pytest.mark.parametrize("body,code,offset", MALFORMED, ids=[str(i) for i in range(len(MALFORMED))])
def test_bad_json_is_400_with_its_offset_and_nothing_is_stored(server, body, code, offset):
    before = total_clients(server)
    answer = server.admin().post("/admin/clients", body=body)
    assert answer.status == 400
    assert code is None or answer.code == code
    problem = answer.json
    assert isinstance(problem["offset"], int) and 0 <= problem["offset"] <= len(body), problem
    assert offset is None or problem["offset"] == offset, problem
    assert total_clients(server) == before


def test_depth_64_is_still_taken(server):
    body = b'{"name":"deep","a":' + b"[" * 63 + b"]" * 63 + b"}"
    assert server.admin().post("/admin/clients", body=body).status == 201


def test_a_body_over_the_limit_is_413_before_it_is_read(make_server):
    server = make_server(config={"server": {"max_body_bytes": 4096}})
    fits = json.dumps({"name": "x", "pad": "y" * 4000}).encode()
    assert len(fits) <= 4096
    assert server.admin().post("/admin/clients", body=fits).status == 201
    # Declared: refused at the header, whatever would follow.
    for length in (4097, 10**9, 10**12):
        [answer] = server.anonymous().raw(raw_post(b"", headers=[f"Content-Length: {length}"]))
        check_problem(answer)
        assert (answer.status, answer.code) == (413, "PayloadTooLarge")
    # Chunked: refused when it grows over.
    chunk = b"400\r\n" + b" " * 1024 + b"\r\n"
    [answer] = server.anonymous().raw([raw_post(b"", headers=["Transfer-Encoding: chunked"]), *[chunk] * 6, b"0\r\n\r\n"])
    check_problem(answer)
    assert (answer.status, answer.code) == (413, "PayloadTooLarge")
    assert total_clients(server) == 1


def test_a_chunked_body_is_taken_however_it_is_cut(server):
    body = '{"name":"ação em pedaços"}'.encode()
    for size in (1, 3, len(body)):
        parts = [b"%x\r\n%s\r\n" % (len(body[i:i + size]), body[i:i + size]) for i in range(0, len(body), size)]
        [answer] = server.anonymous().raw([raw_post(b"", headers=["Transfer-Encoding: chunked"]), *parts, b"0\r\n\r\n"])
        assert answer.status == 201
        server.remember(answer.json)


def test_a_body_where_none_belongs_is_refused(server):
    answer = server.anonymous().request("GET", "/healthz", body=b"{}")
    assert answer.status in (200, 400, 413)
    assert server.anonymous().get("/healthz").status == 200


def test_an_encoded_body_is_not_taken_for_json(server):
    answer = server.admin().post("/admin/clients", body=gzip.compress(b'{"name":"x"}'), headers={"Content-Encoding": "gzip"})
    assert answer.status in (400, 415)


# --- framing -----------------------------------------------------------------------------------------

OK_BODY = b'{"name":"smuggled"}'
BAD_REQUESTS = {
    "length and chunked": raw_post(b"0\r\n\r\n", headers=["Content-Length: 19", "Transfer-Encoding: chunked"]),
    "two lengths": raw_post(OK_BODY, headers=["Content-Length: 19", "Content-Length: 20"]),
    "two equal lengths": raw_post(OK_BODY, headers=["Content-Length: 19", "Content-Length: 19"]),
    "negative length": raw_post(OK_BODY, headers=["Content-Length: -1"]),
    "length with a sign": raw_post(OK_BODY, headers=["Content-Length: +19"]),
    "length in words": raw_post(OK_BODY, headers=["Content-Length: ten"]),
    "length beyond 64 bits": raw_post(OK_BODY, headers=["Content-Length: 99999999999999999999999"]),
    "unknown coding": raw_post(OK_BODY, headers=["Transfer-Encoding: gzip, chunked", "X: y"]),
    "chunk size not hexadecimal": raw_post(b"xyz\r\n" + OK_BODY + b"\r\n0\r\n\r\n", headers=["Transfer-Encoding: chunked"]),
    "chunk size negative": raw_post(b"-5\r\nhello\r\n0\r\n\r\n", headers=["Transfer-Encoding: chunked"]),
    "chunk size beyond 64 bits": raw_post(b"fffffffffffffffff\r\nhello\r\n", headers=["Transfer-Encoding: chunked"]),
    "chunk without its end": raw_post(b"5\r\nhelloXX0\r\n\r\n", headers=["Transfer-Encoding: chunked"]),
    "no version": b"GET /healthz\r\n\r\n",
    "unknown version": b"GET /healthz HTTP/3.7\r\nHost: x\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "space before colon": b"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n",
    "header without colon": b"GET /healthz HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n",
    "folded header": b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
    "NUL in the target": b"GET /healthz\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "NUL in a header": b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n",
    "encoded NUL": b"GET /admin/clients/%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "control byte in a header": b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\x01c\r\n\r\n",
    "binary noise": bytes(range(1, 200)) * 3 + b"\r\n\r\n",
    "TLS to a plain port": bytes.fromhex("16030100a5010000a10303") + b"\x00" * 160,
}


# libmicrohttpd 0.9 refuses these before the server sees them, in words of its own: the header twice, then HTML.
REFUSED_BY_THE_LIBRARY = {"negative length", "length with a sign", "length in words", "length beyond 64 bits"}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_bad_framing_is_refused_and_the_connection_closed(server, name):
    before = total_clients(server)
    follow = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    caller = server.anonymous()
    with socket.create_connection(server.host_port, TIMEOUT, (caller.address, 0)) as s:
        s.sendall(BAD_REQUESTS[name] + follow)
        s.shutdown(socket.SHUT_WR)
        if name in REFUSED_BY_THE_LIBRARY:
            answer = s.makefile("rb").read()
            assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 ")) and b"200 OK" not in answer
            answers = []
        else:
            answers = read_responses(s, 5)
    # Whatever is answered is a refusal, and nothing that was smuggled behind it is.
    assert all(a.status in (400, 401, 404, 405, 413, 414, 431, 501, 505) for a in answers[:1]), answers
    assert len(answers) <= 1, answers
    assert total_clients(server) == before


def test_oversized_headers_are_431_or_414(server):
    one = b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 70000 + b"\r\n\r\n"
    many = b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"".join(b"H%d: v\r\n" % i for i in range(20000)) + b"\r\n"
    target = b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    for data, statuses in ((one, {431}), (many, {431}), (target, {414, 431})):
        answers = server.anonymous().raw(data)
        assert not answers or answers[0].status in statuses, answers
        assert server.anonymous().get("/healthz").status == 200


def test_pipelined_requests_are_answered_in_order(server):
    ids = [f"pipe-{i}" for i in range(20)]
    data = b"".join(f"GET {'/healthz' if i % 2 else '/nothing'} HTTP/1.1\r\nHost: x\r\nX-Correlation-Id: {c}\r\n\r\n".encode() for i, c in enumerate(ids))
    answers = server.anonymous().raw(data, 20)
    assert [a.headers["X-Correlation-Id"] for a in answers] == ids
    assert [a.status for a in answers] == [404, 200] * 10


def test_pipelined_writes_are_all_done_in_order(server):
    bodies = [json.dumps({"name": f"Pipelined {i}", "clientId": f"pipelined-{i}"}).encode() for i in range(4)]
    answers = server.anonymous().raw(b"".join(raw_post(b, headers=[f"Content-Length: {len(b)}"]) for b in bodies), 4)
    assert [a.json["clientId"] for a in answers] == [f"pipelined-{i}" for i in range(4)]
    for answer in answers:
        server.remember(answer.json)


def test_keep_alive_serves_many_requests_on_one_connection(server):
    client = server.new_client()
    connection = client.connect()
    for _ in range(10):
        connection.request("GET", "/whoami", headers=client.headers)
        assert client.read(connection).status == 200
    connection.close()


def test_expect_100_continue(server):
    body = b'{"name":"patient"}'
    caller = server.anonymous()
    with socket.create_connection(server.host_port, TIMEOUT, (caller.address, 0)) as s:
        s.sendall(raw_post(b"", headers=[f"Content-Length: {len(body)}", "Expect: 100-continue"]))
        assert b" 100 " in s.recv(1000)
        s.sendall(body)
        [answer] = read_responses(s, 1)
    server.remember(answer.json)
    assert answer.status == 201


# --- slow and silent clients -------------------------------------------------------------------------


def test_a_trickled_header_is_cut_off(make_server):
    server = make_server(config={"server": {"header_timeout_ms": 600}})
    with socket.create_connection(server.host_port, TIMEOUT) as s:
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        closed = False
        for i in range(100):
            try:
                s.sendall(b"A%d: b\r\n" % i)
            except OSError:
                closed = True
                break
            s.settimeout(0.1)
            try:
                closed = s.recv(4096) == b"" or closed
            except TimeoutError:
                continue
            except OSError:
                closed = True
            if closed:
                break
        assert closed


def test_an_idle_connection_is_closed(make_server):
    server = make_server(config={"server": {"idle_timeout_ms": 400}})
    with socket.create_connection(server.host_port, TIMEOUT) as s:
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        f = s.makefile("rb")
        assert b"200" in f.readline()
        assert f.read().endswith(b"}")  # ends because the server closes


def test_a_client_that_leaves_in_the_middle_stores_nothing(server):
    before = total_clients(server)
    body = b'{"name":"half'
    for _ in range(20):
        with socket.create_connection(server.host_port, TIMEOUT) as s:
            s.sendall(raw_post(body, headers=["Content-Length: 1000"]))
    time.sleep(0.2)
    assert total_clients(server) == before


def test_a_client_that_does_not_wait_for_its_answer_harms_nobody(server):
    body = b'{"name":"gone"}'
    for _ in range(20):
        with socket.create_connection(server.host_port, TIMEOUT) as s:
            s.sendall(raw_post(body, headers=[f"Content-Length: {len(body)}"]))
    assert server.anonymous().get("/healthz").status == 200


def test_connections_over_the_limit_of_an_address_are_refused(make_server):
    server = make_server(config={"server": {"max_connections_per_address": 8}})
    held = [socket.create_connection(server.host_port, TIMEOUT, ("127.88.0.1", 0)) for _ in range(8)]
    time.sleep(0.1)
    try:
        with socket.create_connection(server.host_port, TIMEOUT, ("127.88.0.1", 0)) as s:
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert [a.status for a in read_responses(s, 1)] in ([], [503], [429])
    except ConnectionError:
        pass
    assert server.anonymous().get("/healthz").status == 200
    for s in held:
        s.close()
    wait_for(lambda: server.anonymous(address="127.88.0.1").get("/healthz").status == 200, "room again")


# --- behind a balancer -------------------------------------------------------------------------------

PROXIES = {"server": {"trusted_proxies": "127.77.0.0/16, 2001:db8::/32"}}


def caller_seen(server, address, **headers):
    """The address under which the server's log has a request."""
    tag = uuid.uuid4().hex
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    server.anonymous(address=address).get("/healthz", headers=names | {"X-Correlation-Id": tag})
    return wait_for(lambda: [e["ip"] for e in server.log() if e.get("correlationId") == tag], "a line of the log")[0]


def test_a_trusted_proxy_says_who_calls(make_server):
    server = make_server(config=PROXIES)
    assert caller_seen(server, "127.77.1.2", X_Forwarded_For="192.0.2.1, 198.51.100.7, 127.77.3.4") == "198.51.100.7"
    assert caller_seen(server, "127.77.1.2", Forwarded='for="[2001:db9::1]:99", for="[2001:db8::5]"') == "2001:db9::1"
    assert caller_seen(server, "127.77.1.2", X_Forwarded_For="198.51.100.7, unknown") == "127.77.1.2"
    assert caller_seen(server, "127.77.1.2") == "127.77.1.2"
    # Anybody else says nothing.
    assert caller_seen(server, "127.78.1.2", X_Forwarded_For="198.51.100.7") == "127.78.1.2"


def test_the_audit_has_the_caller_behind_a_proxy(make_server):
    server = make_server(config=PROXIES)
    made = server.anonymous(address="127.77.1.2").post("/admin/clients", {"name": "Behind"}, headers={
        "X-Admin-Key": ADMIN_KEY, "X-Forwarded-For": "198.51.100.7"})
    assert made.status == 201
    assert server.backend.query("SELECT Ip FROM AuditLog WHERE Action = 'ClientCreated'")[0][0] == "198.51.100.7"


def test_what_a_proxy_passes_on_is_not_loopback(make_server):
    for config in ({}, {"server": {"trusted_proxies": "127.0.0.0/8"}}):
        server = make_server(config=config)
        local = server.anonymous()
        assert local.get("/metrics").status == 200
        for name, value in (("X-Forwarded-For", "198.51.100.7"), ("X-Forwarded-For", "127.0.0.1"),
                            ("Forwarded", "for=127.0.0.1"), ("Via", "1.1 balancer"), ("X-Forwarded-Proto", "https")):
            assert local.get("/metrics", headers={name: value}).status == 401, (config, name)
        assert local.get("/metrics", headers={"X-Forwarded-For": "198.51.100.7", "X-Admin-Key": ADMIN_KEY}).status == 200


# --- probes, metrics, console ------------------------------------------------------------------------


def test_healthz(server):
    health = server.anonymous().get("/healthz")
    assert health.status == 200 and health.headers["Content-Type"].startswith("application/json")
    assert health.json["status"] == "ok" and health.json["version"] == "0.1.0" and health.json["uptimeSeconds"] >= 0


def test_readyz_names_each_check_and_the_back_end(server, backend_name):
    ready = server.anonymous().get("/readyz")
    assert (ready.status, ready.json["status"]) == (200, "ready")
    checks = {c["name"]: c for c in ready.json["checks"]}
    assert {"database", "schema", "disk"} <= checks.keys()
    assert all(c["status"] == "ok" for c in checks.values())
    assert checks["database"]["backend"] == backend_name
    assert ready.json["maintenance"] is None


def test_metrics_pass_promtool_and_count_requests(server):
    client = server.new_client()
    client.get("/whoami")
    server.anonymous().get("/nothing")
    answer = server.anonymous().get("/metrics")
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    check = subprocess.run(["promtool", "check", "metrics"], input=answer.body, capture_output=True, timeout=60, check=False)
    assert check.returncode == 0 and not check.stderr.strip(), check.stderr.decode()
    text = answer.body.decode()

    def value(pattern):
        found = re.findall(rf"^{pattern} (\S+)$", text, re.M)
        assert found, pattern
        return sum(map(float, found))

    assert value(r'dataflow_http_requests_total\{[^}]*route="/whoami"[^}]*status="200"[^}]*\}') >= 1
    assert value(r'dataflow_http_request_seconds_count\{[^}]*route="/whoami"[^}]*\}') >= 1
    assert value(r"process_resident_memory_bytes") > 1e6
    assert value(r'dataflow_build_info\{[^}]*version="0.1.0"[^}]*\}') == 1


def test_unknown_paths_do_not_grow_the_metrics(server):
    for i in range(50):
        server.anonymous().get(f"/invented/{i}")
        server.anonymous().request(f"METHOD{i}", "/healthz")
    text = server.anonymous().get("/metrics").body.decode()
    assert "invented" not in text and "METHOD4" not in text


def test_metrics_are_for_loopback_or_the_admin(make_server):
    server = make_server(config={"server": {"listen": "0.0.0.0:0"}})
    outside = outside_address()
    if not outside:
        pytest.skip("this machine has no address but loopback")
    port = server.host_port[1]
    server.host_port = ("127.0.0.1", port)
    assert server.anonymous().get("/metrics").status == 200
    server.host_port = (outside, port)
    caller = server.anonymous(address=outside)
    assert caller.get("/metrics").status == 401
    assert caller.get("/metrics", headers={"X-Admin-Key": "wrong"}).status == 401
    assert caller.get("/metrics", headers={"X-Admin-Key": ADMIN_KEY}).status == 200
    assert caller.get("/metrics", headers={"X-Forwarded-For": "127.0.0.1"}).status == 401
    assert caller.get("/healthz").status == 200


def outside_address():
    """An address of this machine that is not loopback; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = s.getsockname()[0]
    return None if address.startswith("127.") else address


def test_the_console_is_served_with_a_strict_policy(server):
    page = server.anonymous().get("/")
    assert page.status == 200 and page.headers["Content-Type"].startswith("text/html")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    for path, kind in re.findall(r'(?:href|src)="(console/[^"]+\.(\w+))"', page.body.decode()):
        answer = server.anonymous().get("/" + path)
        assert answer.status == 200, path
        assert answer.headers["Content-Type"].split(";")[0] == {
            "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}[kind]


@pytest.mark.parametrize("accepts, packed", [
    (None, False), ("", False), ("identity", False), ("gzip", True), ("GZIP", True), ("br, gzip;q=0.5", True),
    ("gzip;q=0", False), ("gzip; q=0.000", False), ("gzip;q=1", True), ("gzippo", False), (",;,", False),
])
def test_files_are_sent_compressed_to_who_takes_it(server, accepts, packed):
    headers = {} if accepts is None else {"Accept-Encoding": accepts}
    for path in ("/", "/console/app.js"):
        plain = server.anonymous().get(path)
        answer = server.anonymous().get(path, headers=headers)
        assert (answer.headers.get("Content-Encoding") == "gzip") == packed
        assert answer.headers["Vary"] == "Accept-Encoding"
        assert (gzip.decompress(answer.body) if packed else answer.body) == plain.body
