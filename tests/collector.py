"""An OpenTelemetry collector for tests: takes spans over OTLP/HTTP in JSON, and takes nothing that is not exactly as the
specification has it. `spans` is what it got; `faults` is what it was sent that is wrong; `plan` is what it answers next.

    with Collector() as c:
        server(config={"otel": {"endpoint": c.url, "sample_ratio": "1"}})
        c.plan.append(("status", 503, {"Retry-After": "1"}))
"""

import contextlib
import gzip
import http.server
import json
import re
import socket
import threading
import time

HEX = {16: re.compile(r"[0-9a-f]{16}\Z"), 32: re.compile(r"[0-9a-f]{32}\Z")}
UINT64 = re.compile(r"(0|[1-9][0-9]{0,19})\Z")
INT64 = re.compile(r"(0|-?[1-9][0-9]{0,18})\Z")
MAX_BYTES = 4 << 20


class Wrong(Exception):
    pass


def expect(yes, what):
    if not yes:
        raise Wrong(what)


def members(value, where, required, optional=()):
    expect(isinstance(value, dict), f"{where} is no object")
    for name in required:
        expect(name in value, f"{where} has no {name}")
    for name in value:
        expect(name in required or name in optional, f"{where}.{name} is unknown")


def text(value, where):
    expect(isinstance(value, str), f"{where} is no text")


def integer(value, where, most):
    expect(isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most, f"{where} is no enum or uint32")


def identifier(value, where, length):
    text(value, where)
    expect(HEX[length].match(value) and value.strip("0"), f"{where} is no id: {value}")


def attributes(value, where):
    expect(isinstance(value, list), f"{where} is no list")
    seen = {}
    for at in value:
        members(at, where, ("key", "value"))
        text(at["key"], f"{where}.key")
        expect(at["key"] and at["key"] not in seen, f"{where}: {at['key']} is empty or there twice")
        members(at["value"], f"{where}.{at['key']}", (), ("stringValue", "intValue", "boolValue"))
        expect(len(at["value"]) == 1, f"{where}.{at['key']} has not one value")
        (kind, v), = at["value"].items()
        if kind == "stringValue":
            text(v, at["key"])
        elif kind == "intValue":
            expect(isinstance(v, str) and INT64.match(v), f"{at['key']}: an intValue is a text of digits")
            v = int(v)
        else:
            expect(isinstance(v, bool), f"{at['key']}: a boolValue is true or false")
        seen[at["key"]] = v
    return seen


def nanoseconds(value, where):
    expect(isinstance(value, str) and UINT64.match(value) and int(value) < 1 << 64, f"{where} is no text of digits")
    return int(value)


def check_span(s):
    members(s, "span", ("traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano"),
            ("parentSpanId", "traceState", "flags", "attributes", "droppedAttributesCount", "events", "droppedEventsCount",
             "links", "droppedLinksCount", "status"))
    identifier(s["traceId"], "traceId", 32)
    identifier(s["spanId"], "spanId", 16)
    if "parentSpanId" in s:
        identifier(s["parentSpanId"], "parentSpanId", 16)
    text(s["name"], "name")
    expect(s["name"], "a span has no name")
    integer(s["kind"], "kind", 5)
    expect(s["kind"] > 0, "kind is unspecified")
    integer(s.get("flags", 0), "flags", (1 << 32) - 1)
    start, end = (nanoseconds(s[k], k) for k in ("startTimeUnixNano", "endTimeUnixNano"))
    expect(0 < start <= end, "a span ends before it begins")
    found = attributes(s.get("attributes", []), "attributes")
    for link in s.get("links", []):
        members(link, "link", ("traceId", "spanId"), ("traceState", "attributes", "flags"))
        identifier(link["traceId"], "link.traceId", 32)
        identifier(link["spanId"], "link.spanId", 16)
    status = s.get("status", {})
    members(status, "status", (), ("code", "message"))
    integer(status.get("code", 0), "status.code", 2)
    text(status.get("message", ""), "status.message")
    return {"trace": s["traceId"], "id": s["spanId"], "parent": s.get("parentSpanId"), "name": s["name"], "kind": s["kind"],
            "start": start, "end": end, "attributes": found, "status": status.get("code", 0),
            "message": status.get("message", ""), "links": s.get("links", [])}


def check_request(root):
    """The spans of an ExportTraceServiceRequest, each with the attributes of its resource."""
    members(root, "request", ("resourceSpans",))
    expect(isinstance(root["resourceSpans"], list) and root["resourceSpans"], "resourceSpans is no list")
    spans = []
    for group in root["resourceSpans"]:
        members(group, "resourceSpans", ("resource", "scopeSpans"), ("schemaUrl",))
        members(group["resource"], "resource", ("attributes",), ("droppedAttributesCount",))
        resource = attributes(group["resource"]["attributes"], "resource.attributes")
        for name in ("service.name", "service.version", "service.instance.id"):
            expect(resource.get(name), f"the resource has no {name}")
        for scope in group["scopeSpans"]:
            members(scope, "scopeSpans", ("scope", "spans"), ("schemaUrl",))
            members(scope["scope"], "scope", ("name",), ("version", "attributes", "droppedAttributesCount"))
            expect(isinstance(scope["spans"], list) and scope["spans"], "spans is no list")
            for s in scope["spans"]:
                spans.append(check_span(s) | {"resource": resource})
    return spans


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"{}", headers=()):
        self.send_response(status)
        for name, value in dict({"Content-Type": "application/json"}, **dict(headers)).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        collector = self.server.collector
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with collector.lock:
            collector.requests.append({"path": self.path, "headers": dict(self.headers), "bytes": len(body), "at": time.time()})
            kind, *what = collector.plan.pop(0) if collector.plan else collector.always
        if kind == "slow":
            collector.resumed.wait(what[0])
        elif kind == "status":
            return self.answer(what[0], b'{"message":"planned"}', what[1] if len(what) > 1 else {})
        elif kind == "cut":
            self.close_connection = True
            return None
        try:
            spans = self.take(body)
        except (Wrong, ValueError, KeyError, TypeError, OSError) as e:
            with collector.lock:
                collector.faults.append(repr(e))
            return self.answer(400, json.dumps({"code": 3, "message": str(e)}).encode())
        with collector.lock:
            collector.spans.extend(spans)
        if kind == "partial":
            return self.answer(200, json.dumps({"partialSuccess": {"rejectedSpans": str(what[0]),
                                                                   "errorMessage": what[1]}}).encode())
        return self.answer(200, what[0] if kind == "body" else b'{"partialSuccess":{}}')

    def take(self, body):
        expect(self.path == self.server.collector.path, f"the path is {self.path}")
        expect(self.headers["Content-Type"] == "application/json", "Content-Type")
        expect(self.headers["Content-Encoding"] == "gzip", "Content-Encoding")
        expect("traceparent" not in self.headers, "the export itself is traced")
        raw = gzip.decompress(body)
        expect(len(raw) <= MAX_BYTES, "the body is too large")
        return check_request(json.loads(raw.decode("utf-8")))


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):  # a server under test that was killed
        pass


class Collector:
    def __init__(self, port=0, path="/v1/traces"):
        self.path = path
        self.lock = threading.Lock()
        self.spans, self.faults, self.requests, self.plan = [], [], [], []
        self.always = ("ok",)
        self.resumed = threading.Event()
        self.port = port
        self._server = None

    def start(self):
        self._server = Server(("127.0.0.1", self.port), Handler)
        self._server.collector = self
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def stop(self):
        self.resumed.set()
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def trace(self, trace_id):
        with self.lock:
            return [s for s in self.spans if s["trace"] == trace_id]

    def named(self, name, trace_id=None):
        with self.lock:
            return [s for s in self.spans if s["name"] == name and trace_id in (None, s["trace"])]


def free_port():
    with contextlib.closing(socket.socket()) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def check_tree(spans, root):
    """That the spans of one trace are a tree below the span `root`, which is the caller's. Returns the children of each."""
    ids = [s["id"] for s in spans]
    assert len(ids) == len(set(ids)), "two spans have one id"
    children = {}
    for s in spans:
        assert s["parent"] == root or s["parent"] in ids, f"the parent of {s['name']} ({s['parent']}) is missing"
        children.setdefault(s["parent"], []).append(s)
    return children
