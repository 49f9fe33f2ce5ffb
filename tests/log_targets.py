"""Loki, Elasticsearch and an OTLP collector as far as log.ship speaks to them, and stricter than the real ones: whatever is
not exactly as their documentation has it is a complaint, and fails the test that asks for `complaints`."""

import base64
import contextlib
import gzip
import http.server
import json
import re
import socket
import threading
import time

HEX = re.compile(r"[0-9a-f]+")


class Refuse(Exception):
    """An answer other than the usual one."""

    def __init__(self, status, body=b"", **headers):
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers


class Target:
    """Listens while it is `up`; the port stays the same. `plan` has functions for the next requests, each called with the
    lines of the request before they are taken: it may raise Refuse, wait, or do nothing."""

    scheme = None

    def __init__(self):
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
            self.address = free.getsockname()
        self.lock = threading.Lock()
        self.complaints, self.requests, self.plan = [], [], []
        self.rule = None  # for all requests for which there is no plan
        self._server = None

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.address[1]}"

    def up(self):
        self._server = _Server(self.address, self)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def down(self):
        if self._server:
            self._server.shutdown()
            self._server.server_close()
        self._server = None

    def __enter__(self):
        return self.up()

    def __exit__(self, *_):
        self.down()
        assert not self.complaints, self.complaints

    def complain_unless(self, good, what):
        if not good:
            self.complaints.append(what)
            raise Refuse(400, b"strict")

    def answer(self, handler, raw):
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.complain_unless(handler.path == self.path, f"path {handler.path}")
        self.complain_unless(headers.get("content-type") == self.media_type, f"type {headers.get('content-type')}")
        self.complain_unless(headers.get("content-encoding") == "gzip", "not compressed")
        lines = self.parse(gzip.decompress(raw).decode("utf-8"))
        self.complain_unless(lines, "nothing was sent")
        with self.lock:
            self.requests.append({"lines": lines, "headers": headers, "at": time.monotonic()})
            plan = self.plan.pop(0) if self.plan else self.rule
        if plan:
            plan(lines)
        with self.lock:
            return self.take(lines)

    def auth(self):
        return [request["headers"].get("authorization") for request in self.requests]


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address, target):
        super().__init__(address, _Handler)
        self.target = target


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            status, body, headers = *self.server.target.answer(self, raw), {}
        except Refuse as refusal:
            status, body, headers = refusal.status, refusal.body, refusal.headers
        except Exception as problem:  # pylint: disable=broad-except
            self.server.target.complaints.append(repr(problem))
            status, body, headers = 500, b"", {}
        with contextlib.suppress(OSError):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            if status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if status != 204:
                self.wfile.write(body)

    def log_message(self, *_):
        pass


class Loki(Target):
    """Entries as (time in ns, line); those that a stream has already are ignored, as Loki does."""

    scheme, path, media_type = "loki", "/loki/api/v1/push", "application/json"
    LABELS = {"job", "service_name", "instance", "level"}

    def __init__(self, labels=()):
        super().__init__()
        self.labels = self.LABELS | set(labels)
        self.entries, self.repeated = [], 0
        self._seen = set()

    def parse(self, text):
        body = json.loads(text)
        self.complain_unless(set(body) == {"streams"}, f"members {set(body)}")
        lines = []
        for stream in body["streams"]:
            self.complain_unless(set(stream) == {"stream", "values"} and stream["values"], "a stream has labels and values")
            self.complain_unless(set(stream["stream"]) == self.labels, f"labels {stream['stream']}")
            self.complain_unless(all(isinstance(v, str) and v for v in stream["stream"].values()), "values of labels are texts")
            for entry in stream["values"]:
                self.complain_unless(len(entry) == 2 and re.fullmatch(r"[0-9]{19}", entry[0]), f"time {entry}")
                line = json.loads(entry[1])
                self.complain_unless(line["level"] == stream["stream"]["level"], "the level is the stream's")
                lines.append((entry[0], entry[1]))
        return lines

    def take(self, lines):
        for line in lines:
            if line in self._seen:
                self.repeated += 1
            else:
                self._seen.add(line)
                self.entries.append(line)
        return 204, b""

    def texts(self):
        with self.lock:
            return [text for _, text in sorted(self.entries)]

    @staticmethod
    def same(line):
        return line


class Elastic(Target):
    """Documents by their id; `create` of one that is there is 409. `verdict(document)` may give another status."""

    scheme, media_type = "elastic", "application/x-ndjson"
    FIELDS = {"@timestamp", "log.level", "message", "ecs.version", "event.action", "trace.id", "span.id", "client.ip",
              "service.name", "service.node.name", "host.name", "labels", "dataflow"}

    def __init__(self, index="logs-dataflow-default"):
        super().__init__()
        self.path = f"/{index}/_bulk?filter_path=errors,items.*.status"
        self.documents, self.conflicts, self.verdict = {}, 0, None

    def parse(self, text):
        self.complain_unless(text.endswith("\n"), "the last line ends too")
        rows = [json.loads(row) for row in text[:-1].split("\n")]
        lines = []
        for action, document in zip(rows[::2], rows[1::2], strict=True):
            self.complain_unless(set(action) == {"create"} and set(action["create"]) == {"_id"}, f"action {action}")
            self.complain_unless(0 < len(action["create"]["_id"].encode()) <= 512, "id")
            self.complain_unless(set(document) <= self.FIELDS, f"fields {set(document) - self.FIELDS}")
            self.complain_unless({"@timestamp", "log.level", "message", "ecs.version", "service.name"} <= set(document), document)
            self.complain_unless(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", document["@timestamp"]), document)
            self.complain_unless(all(isinstance(v, str) for v in document.get("labels", {}).values()), document)
            self.complain_unless(all(isinstance(v, (int, float)) for v in document.get("dataflow", {}).values()), document)
            lines.append((action["create"]["_id"], document))
        return lines

    def take(self, lines):
        items = []
        for key, document in lines:
            status = self.verdict(document) if self.verdict else None
            if status is None:
                status = 409 if key in self.documents else 201
                self.conflicts += status == 409
                self.documents.setdefault(key, document)
            items.append({"create": {"status": status}})
        errors = any(item["create"]["status"] >= 300 for item in items)
        return 200, json.dumps({"errors": errors, "items": items}).encode()

    def texts(self):
        with self.lock:
            return [(d["@timestamp"], d["log.level"], d["event.action"], d["message"]) for d in self.documents.values()]

    @staticmethod
    def same(line):
        entry = json.loads(line)
        return entry["time"], entry["level"], entry["event"], entry["message"]


class Otlp(Target):
    """Log records as the protocol's JSON has them."""

    scheme, path, media_type = "otlp", "/v1/logs", "application/json"
    SEVERITIES = {"DEBUG": 5, "INFO": 9, "WARN": 13, "ERROR": 17}

    def __init__(self):
        super().__init__()
        self.records, self.partial = [], None

    def _attributes(self, attributes):
        found = {}
        for attribute in attributes:
            self.complain_unless(set(attribute) == {"key", "value"} and len(attribute["value"]) == 1, f"attribute {attribute}")
            (kind, value), = attribute["value"].items()
            good = {"stringValue": isinstance(value, str), "boolValue": isinstance(value, bool),
                    "intValue": isinstance(value, str) and bool(re.fullmatch(r"-?\d+", value)),
                    "doubleValue": isinstance(value, (int, float))}
            self.complain_unless(good.get(kind) and attribute["key"] not in found, f"attribute {attribute}")
            found[attribute["key"]] = value
        return found

    def _record(self, record):
        known = {"timeUnixNano", "observedTimeUnixNano", "severityNumber", "severityText", "body", "attributes", "traceId", "spanId"}
        self.complain_unless(set(record) <= known, f"members {set(record) - known}")
        for name in ("timeUnixNano", "observedTimeUnixNano"):
            self.complain_unless(isinstance(record[name], str) and re.fullmatch(r"[0-9]{19}", record[name]), record)
        self.complain_unless(self.SEVERITIES[record["severityText"]] == record["severityNumber"], record)
        self.complain_unless(set(record["body"]) == {"stringValue"}, record)
        for name, length in (("traceId", 32), ("spanId", 16)):
            self.complain_unless(name not in record or (len(record[name]) == length and HEX.fullmatch(record[name])), record)
        return record | {"attributes": self._attributes(record["attributes"])}

    def parse(self, text):
        body = json.loads(text)
        self.complain_unless(set(body) == {"resourceLogs"} and len(body["resourceLogs"]) == 1, "resourceLogs")
        resource, = body["resourceLogs"]
        attributes = self._attributes(resource["resource"]["attributes"])
        self.complain_unless({"service.name", "service.instance.id", "host.name"} <= set(attributes), attributes)
        scope, = resource["scopeLogs"]
        self.complain_unless(scope["scope"]["name"] == "dataflow", scope["scope"])
        return [self._record(record) for record in scope["logRecords"]]

    def take(self, lines):
        self.records += lines
        partial, self.partial = self.partial, None
        return 200, json.dumps({"partialSuccess": partial} if partial else {}).encode()

    def texts(self):
        with self.lock:
            return [(r["severityText"].lower(), r["attributes"]["event.name"], r["body"]["stringValue"])
                    for r in sorted(self.records, key=lambda r: r["timeUnixNano"])]

    @staticmethod
    def same(line):
        entry = json.loads(line)
        return entry["level"], entry["event"], entry["message"]


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
