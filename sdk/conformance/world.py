"""What stands around an SDK in the conformance tests: its driver, a proxy that breaks connections, a receiver of webhooks."""

import base64
import contextlib
import http.server
import itertools
import json
import queue
import re
import socket
import subprocess
import threading
import time

TIMEOUT = 60
TOO_LARGE = (16 << 20) + 1  # bytes of an integration's answer
BUILT = 170  # a driver's first answer: it may have to be installed and built before


class Driver:
    """An SDK's driver; README.md has the protocol."""

    def __init__(self, name, command, log):
        self.name = name
        self.log = log
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        self._ids = itertools.count(1)
        self._waiting = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()
        self.hello = self.begin({"op": "hello"})(BUILT)["ok"]

    def _read(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            with self._lock:
                self._waiting.pop(answer["id"]).put(answer)
        with self._lock:
            for one in self._waiting.values():
                one.put({"error": {"kind": "driver", "message": "the driver has ended"}})

    def begin(self, request):
        """Sends a request, and returns what waits for its answer."""
        arrived = queue.Queue()
        with self._lock:
            number = next(self._ids)
            self._waiting[number] = arrived
            self.process.stdin.write(json.dumps({"id": number, **request}).encode() + b"\n")
            self.process.stdin.flush()
        return lambda seconds=TIMEOUT: arrived.get(timeout=seconds)

    def ask(self, request):
        return self.begin(request)()

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Proxy:
    """Between an SDK and the server, one request a connection. Its rules apply to the next requests, one after the other:

        {"answer": 503, "headers": {…}, "body": …}   answers by itself: a problem document, or a text, which is HTML
        {"cutRequest": 100000}                       closes when so many bytes have come from the client
        {"holdRequest": 100000}                      hands on no more than that, until the next rules are set; then it closes
        {"cutAnswer": true}                          hands the request on, and closes instead of answering
        {"cutAnswerAfter": 300}                      closes when so many bytes of the answer were handed on
        {"stall": true}                              answers nothing, and keeps the connection

    each for `count` [1] requests. Then everything passes."""

    def __init__(self):
        self.target = None
        self.rules = []
        self.seen = []  # method, path and key of each request
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:{}".format(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._stalled = []
        self._release = threading.Event()  # what is held waits for it
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()
        self._release.set()
        for s in self._stalled:
            s.close()

    def reset(self, rules=()):
        with self._lock:
            self._release.set()
            self._release = threading.Event()
            self.seen.clear()
            self.rules = [rule for rule in rules for _ in range(rule.get("count", 1))]

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with contextlib.suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.settimeout(TIMEOUT)
            head = b""
            while b"\r\n\r\n" not in head:
                data = client.recv(65536)
                if not data:
                    raise ConnectionError
                head += data
            head, _, rest = head.partition(b"\r\n\r\n")
            first, *fields = head.decode("latin-1").split("\r\n")
            named = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
            with self._lock:
                rule = self.rules.pop(0) if self.rules else {}
                method, path, _ = first.split(" ")
                self.seen.append({"method": method, "path": path, "key": named.get("idempotency-key")})
            fields = [field for field in fields if not field.lower().startswith(("connection:", "keep-alive:"))]
            self._obey(rule, client, "\r\n".join([first, *fields, "Connection: close"]).encode("latin-1") + b"\r\n\r\n" + rest)
        if client not in self._stalled:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)  # another thread may wait on it
            client.close()

    def _obey(self, rule, client, sent):
        if rule.get("stall"):
            self._stalled.append(client)
            return
        if "answer" in rule:
            kind, body = self._document(rule.get("body"))
            fields = {"Content-Type": kind, "Content-Length": len(body), "Connection": "close", **rule.get("headers", {})}
            text = f"HTTP/1.1 {rule['answer']} Answer\r\n" + "".join(f"{n}: {v}\r\n" for n, v in fields.items()) + "\r\n"
            client.sendall(text.encode() + body)
            client.shutdown(socket.SHUT_WR)
            client.settimeout(1)
            while client.recv(65536):  # or the client would get a reset in place of the answer
                pass
            return
        with socket.create_connection(self.target, TIMEOUT) as server:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            most = rule.get("cutRequest", rule.get("holdRequest"))
            held = self._release if "holdRequest" in rule else None
            threading.Thread(target=self._hand_on, args=(client, server, sent, most, held), daemon=True).start()
            left = rule.get("cutAnswerAfter")
            while data := server.recv(65536):
                if rule.get("cutAnswer") and not data.startswith(b"HTTP/1.1 100"):
                    return
                if left is not None:
                    data, left = data[:left], left - len(data)
                client.sendall(data)
                if left is not None and left <= 0:
                    return

    @staticmethod
    def _document(body):
        if body is None:
            return "text/plain", b""
        if isinstance(body, str):
            return "text/html; charset=utf-8", body.encode()
        return "application/problem+json", json.dumps(body).encode()

    @staticmethod
    def _hand_on(client, server, data, most, held):
        passed = 0
        with contextlib.suppress(OSError):
            while data:
                server.sendall(data)
                passed += len(data)
                if most is not None and passed >= most:
                    if held:
                        held.wait(TIMEOUT)
                    for s in (client, server):
                        s.shutdown(socket.SHUT_RDWR)
                    return
                data = client.recv(65536)


class Receiver:
    """Keeps the webhooks that come, as they came, and answers what its `statuses` say for a path, else 200. Who fetches from
    it is refused by `statuses` too, or gets more than an integration may answer."""

    def __init__(self):
        self.received = []
        self.statuses = {}
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.received.append({"path": self.path, "headers": {n.lower(): v for n, v in self.headers.items()},
                                          "body": base64.b64encode(body).decode(), "json": json.loads(body)})
                self.send_response(receiver.statuses.get(self.path, 200))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_GET(self):
                refused = receiver.statuses.get(self.path)
                body = b"No" if refused else b"x" * TOO_LARGE
                self.send_response(refused or 200)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):  # the server reads no further than its limit
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:{}".format(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


# --- comparing ---------------------------------------------------------------------------------------


def differs(wanted, found, at="answer"):
    """None if `found` is as `wanted` says, else where and how it is not. Objects may have more members than wanted;
    members with $ are conditions: $len, $min, $max, $match (a regular expression), $has (a list with such an item),
    $type, $in, $not."""
    if isinstance(wanted, dict) and wanted and all(key.startswith("$") for key in wanted):
        for condition, value in wanted.items():
            if problem := _fails(condition, value, found, at):
                return problem
        return None
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return f"{at}: {found!r} is no object"
        return next((problem for key, value in wanted.items() if (problem := differs(value, found.get(key), f"{at}.{key}"))), None)
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return f"{at}: {found!r} is not a list of {len(wanted)}"
        return next((problem for n, value in enumerate(wanted) if (problem := differs(value, found[n], f"{at}[{n}]"))), None)
    if wanted == "*":
        return f"{at}: missing" if found is None else None
    return None if wanted == found and type(wanted) is type(found) else f"{at}: {found!r} is not {wanted!r}"


def _fails(condition, value, found, at):
    holds = {
        "$len": lambda: len(found) == value,
        "$min": lambda: found >= value,
        "$max": lambda: found <= value,
        "$match": lambda: re.search(value, found) is not None,
        "$has": lambda: any(differs(value, item) is None for item in found),
        "$in": lambda: found in value,
        "$not": lambda: differs(value, found) is not None,
        "$type": lambda: {"list": list, "object": dict, "text": str, "number": (int, float)}[value] and
                         isinstance(found, {"list": list, "object": dict, "text": str, "number": (int, float)}[value]),
    }[condition]
    try:
        return None if holds() else f"{at}: {json.dumps(found)[:600]} is not {condition} {json.dumps(value)}"
    except TypeError as error:
        return f"{at}: {found!r}: {error}"


def named(path, names):
    return names[path] if path in names else pick(names, path)


NAME = re.compile(r"\$\{([\w.-]+)\}")


def fill(value, names):
    """Puts values for ${name}; a text that is nothing else takes the value as it is."""
    if isinstance(value, dict):
        return {fill(key, names): fill(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item, names) for item in value]
    if not isinstance(value, str):
        return value
    if whole := NAME.fullmatch(value):
        return named(whole[1], names)
    return NAME.sub(lambda match: str(named(match[1], names)), value)


def pick(value, path):
    """a.b.0 of a document; the whole of it for the empty path."""
    for step in filter(None, path.split(".")):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def until(check, seconds):
    """Calls it until it returns no problem any more; the last problem."""
    deadline = time.monotonic() + seconds
    while (problem := check()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return problem
