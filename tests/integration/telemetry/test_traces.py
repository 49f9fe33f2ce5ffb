"""Traces: one tree from the caller's span to the peer's, over crashes, replicas and retries; what is recorded; and what
becomes of spans when the collector is away, slow or of another mind."""

import http.server
import json
import re
import threading
import uuid

import pytest
from harness import wait_for
from test_imports_receive import taken, upload
from test_interface_processing import ticket

from collector import Collector, check_tree, free_port

pytestmark = pytest.mark.threads

INTERNAL, SERVER, CLIENT, PRODUCER = 1, 2, 3, 4
FAST = {"retry_base_ms": 5, "retry_cap_ms": 20, "lease_ms": 1000, "timeout_ms": 1000, "allow_private_targets": "on"}


class Peer(http.server.ThreadingHTTPServer):
    """Gateway, OmniFlow, a webhook's receiver and a relay's target. Answers `status` of the path, or 200."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), PeerHandler)
        self.got, self.status = [], {}
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def traceparents(self, path=None):
        return [parent for at, status, parent in list(self.got) if path in (None, at)]

    def arrived(self, path):
        return [parent for at, status, parent in list(self.got) if at == path and status < 300]

    def handle_error(self, *_):  # a server that was killed
        pass


class PeerHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = "/" + self.path.split("/")[1]
        status = self.server.status.get(path, 200)
        self.server.got.append((path, status, self.headers["traceparent"]))
        answer = b"{}"
        if status == 202:
            answer = json.dumps({"ackId": f"ack-{json.loads(body)['chunkId']}"}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@pytest.fixture
def peer():
    p = Peer()
    yield p
    p.shutdown()
    p.server_close()


@pytest.fixture
def collector():
    with Collector() as c:
        yield c
        assert not c.faults, c.faults


def config(collector, peer=None, otel=None, **more):
    url = peer.url if peer else "http://127.0.0.1:9"
    return {"otel": {"endpoint": collector.url, "sample_ratio": "0", **(otel or {})}, "delivery": FAST,
            "gateway": {"functional_ack_url": url + "/ack", "ticket_return_url": url + "/return",
                        "ticket_send_url": url + "/send", "api_key": "gateway-key-of-the-traces"},
            "breaker": {"window": 1000, "min_calls": 1000}, "webhooks": {"retry_delays_ms": ",".join(["500"] * 16)}, **more}


class Caller:
    """A span of the caller's own tracer."""

    def __init__(self, flags="01"):
        self.trace, self.span = uuid.uuid4().hex, uuid.uuid4().hex[:16]
        self.headers = {"traceparent": f"00-{self.trace}-{self.span}-{flags}"}


def kinds(spans):
    return {s["name"]: s["kind"] for s in spans}


def check_peer(spans, peer, trace):
    """Every call that the peer got hangs on a client span of the trace."""
    calls = {s["id"]: s for s in spans if s["kind"] == CLIENT}
    for parent in peer.traceparents():
        _, of, span, flags = parent.split("-")
        assert (of, flags) == (trace, "01") and span in calls, parent
    for s in calls.values():
        assert s["attributes"]["server.address"] == "127.0.0.1"
        assert s["attributes"]["server.port"] == peer.server_address[1]
    return list(calls.values())


def metric(server, name, **labels):
    wanted = "".join(f'{k}="{v}"' for k, v in labels.items())
    text = server.admin().get("/metrics").body.decode()
    found = [line for line in text.splitlines() if re.match(rf"{name}(\{{{wanted}.*\}})? ", line)]
    return sum(float(line.split()[-1]) for line in found)


def kill_and_move(first, make_server, settings):
    """kill -9, and another process with a directory of its own goes on."""
    first.kill()
    return make_server(backend=first.backend, config=settings)


# --- one tree ------------------------------------------------------------------------------------------


def test_a_ticket_is_one_tree_over_a_crash_another_replica_and_retries(make_server, collector, peer):
    peer.status = {"/send": 503, "/return": 503, "/ack": 503, "/hook": 503}
    settings = config(collector, peer)
    first = make_server(config=settings)
    client = first.new_client()
    hook = client.post(f"/clients/{client.id}/webhooks", {"url": peer.url + "/hook", "events": ["TicketProcessed"]})
    assert hook.status == 201, hook
    first.remember(hook.json)
    peer.got.clear()
    caller = Caller()
    answer = client.post("/api/tickets", ticket("T-1"), headers=caller.headers)
    assert answer.status == 200 and answer.headers["traceparent"].startswith(f"00-{caller.trace}-")
    assert answer.headers["traceparent"].endswith("-01")
    paths = ("/send", "/return", "/ack", "/hook")
    wait_for(lambda: all(peer.traceparents(path) for path in paths), "first attempts")
    wait_for(lambda: collector.named("POST /api/tickets", caller.trace) and collector.named("commit", caller.trace)
             and len(collector.named("POST", caller.trace)) >= 4, "the first spans")
    second = kill_and_move(first, make_server, settings)
    lost = set(peer.traceparents())  # sent by the one that was killed: their spans may be lost with it
    peer.got.clear()
    peer.status.clear()
    wait_for(lambda: all(peer.arrived(path) for path in paths), "all deliveries")
    wait_for(lambda: {p.split("-")[2] for p in peer.traceparents()} <= {s["id"] for s in collector.trace(caller.trace)}, "their spans")
    spans = collector.trace(caller.trace)
    check_tree(spans, caller.span)
    roots = [s for s in spans if s["parent"] == caller.span]
    assert [(s["name"], s["kind"]) for s in roots] == [("POST /api/tickets", SERVER)]
    assert kinds(spans) == {"POST /api/tickets": SERVER, "commit": INTERNAL, "process ticket": INTERNAL, "POST": CLIENT}
    calls = check_peer(spans, peer, caller.trace)
    assert {s["attributes"]["dataflow.channel"] for s in calls} == {"ticket-gateway", "ticket-return", "functional-ack", "webhooks"}
    assert {s["parent"] for s in calls} == {roots[0]["id"]}, "attempts are siblings"
    again = [s for s in calls if s["attributes"].get("http.request.resend_count")]
    failed = [s for s in calls if s["status"] == 2]
    assert again and failed and all(s["attributes"]["error.type"] == "503" for s in failed)
    assert len({s["resource"]["service.instance.id"] for s in spans}) == 2
    assert lost and second.log("ServerStarted")
    root = roots[0]["attributes"]
    assert (root["http.request.method"], root["http.route"], root["http.response.status_code"]) == ("POST", "/api/tickets", 200)
    assert root["dataflow.client.id"] == client.id
    for s in spans:
        assert s["start"] >= roots[0]["start"], s


def test_an_import_is_one_tree_over_a_crash_another_replica_and_its_ack(make_server, collector, peer):
    peer.status = {"/omni": 503}
    settings = config(collector, peer, omniflow={"url": peer.url + "/omni", "api_key": "omniflow-key-of-the-traces", "batch_size": 10,
                                                "max_retries": 8, "retry_delays_ms": "20", "ack_timeout_seconds": 60},
                      imports={"poll_ms": 20, "lock_timeout_minutes": 1, "storage": "local"})
    first = make_server(config=settings)
    client = first.new_client()
    caller = Caller()
    data = json.dumps([{"name": f"Lead {i}", "phone": f"+55519999{i:05}"} for i in range(20)]).encode()
    batch = taken(upload(client, data, headers=caller.headers))
    wait_for(lambda: peer.traceparents("/omni"), "a failed attempt")
    peer.status["/omni"] = 202
    wait_for(lambda: len(peer.arrived("/omni")) == 2, "both chunks are taken")
    wait_for(lambda: collector.named("POST /imports", caller.trace) and collector.named("parse", caller.trace)
             and len([s for s in collector.named("POST", caller.trace) if s["status"] == 0]) == 2, "the first spans")
    wait_for(lambda: len(first.backend.query("SELECT 1 FROM ImportChunk WHERE Status = 2")) == 2, "the promises are stored")
    # The file is in the first one's directory, as on a disk that both have.
    settings["server"] = {"data_dir": first.directory / "data"}
    second = kill_and_move(first, make_server, settings)
    acker = second.new_client("OmniFlow", scopes=["acks"])
    for chunk in (1, 2):
        wait_for(lambda chunk=chunk: acker.post(f"/imports/{batch}/acks", {"ackId": f"ack-{chunk}", "chunkId": chunk, "status": "Imported"})
                 .status == 200, "the ack is taken")
    client = second.client(client.id, client.secret)
    wait_for(lambda: client.get(f"/imports/{batch}").json["status"] == "Completed", "the end")
    wait_for(lambda: len(collector.named("ack wait", caller.trace)) == 2, "the last spans")
    spans = collector.trace(caller.trace)
    check_tree(spans, caller.span)
    [root] = [s for s in spans if s["parent"] == caller.span]
    assert root["name"] == "POST /imports"
    assert kinds(spans) == {"POST /imports": SERVER, "commit": INTERNAL, "parse": INTERNAL, "POST": CLIENT, "ack wait": INTERNAL}
    calls = check_peer(spans, peer, caller.trace)
    assert {s["attributes"]["dataflow.item.id"] for s in calls} == {f"{batch}/1", f"{batch}/2"}
    assert [s for s in calls if s["attributes"].get("http.request.resend_count")]
    [parse] = collector.named("parse", caller.trace)
    assert parse["attributes"]["dataflow.records"] == 20 and parse["attributes"]["dataflow.batch.id"] == batch
    waits = collector.named("ack wait", caller.trace)
    assert {s["attributes"]["dataflow.chunk.id"] for s in waits} == {1, 2}
    for s in waits:  # it began in the process that was killed
        assert s["resource"]["service.instance.id"] != parse["resource"]["service.instance.id"]
        assert root["start"] < s["start"] < root["end"] + 60 * 10 ** 9 and s["end"] > max(c["end"] for c in calls)


def test_an_event_is_sent_by_a_producer_span(make_server, collector, peer):
    peer.status = {"/events": 503}
    server = make_server(config=config(collector, peer, **{"relay.events": {
        "dispatcher": "http", "target": peer.url + "/events", "poll_ms": 20, "retry_base_ms": 5, "retry_cap_ms": 10}}))
    client = server.new_client()
    caller = Caller()
    answer = client.post("/events", {"eventType": "OrderPlaced", "payload": {"n": 1}}, headers=caller.headers)
    assert answer.status == 202, answer
    wait_for(lambda: peer.traceparents("/events"), "the first attempt")
    peer.status.clear()
    wait_for(lambda: peer.arrived("/events"), "the event")
    wait_for(lambda: {p.split("-")[2] for p in peer.traceparents()} <= {s["id"] for s in collector.trace(caller.trace)}
             and [s for s in collector.named("send", caller.trace) if s["status"] == 0], "its spans")
    spans = collector.trace(caller.trace)
    children = check_tree(spans, caller.span)
    [root] = children[caller.span]
    sends = [s for s in children[root["id"]] if s["name"] == "send"]
    assert len(sends) >= 2 and {s["kind"] for s in sends} == {PRODUCER}
    assert [s for s in sends if s["attributes"].get("dataflow.resend_count")] and [s for s in sends if s["status"] == 2]
    calls = check_peer(spans, peer, caller.trace)
    assert {s["parent"] for s in calls} == {s["id"] for s in sends}
    assert sends[0]["attributes"]["messaging.message.id"] in json.dumps(answer.json)


def test_a_call_with_many_events_is_linked_to_them(make_server, collector, peer):
    server = make_server(config=config(collector, peer, otel={"sample_ratio": "1"}, **{"relay.events": {
        "dispatcher": "http", "target": peer.url + "/events", "mode": "batch", "poll_ms": 20}}))
    caller = Caller()
    answer = server.new_client().post("/events", [{"eventType": f"E{n}", "payload": {}} for n in range(3)], headers=caller.headers)
    assert answer.status == 202, answer
    wait_for(lambda: len(collector.named("send", caller.trace)) == 3, "a span for each event")
    check_tree(collector.trace(caller.trace), caller.span)
    wait_for(lambda: [s for s in collector.named("POST") if s["links"]], "the call")
    [call] = [s for s in collector.named("POST") if s["links"]]
    [link] = call["links"]
    assert call["trace"] != caller.trace and call["parent"] is None
    assert (link["traceId"], link["spanId"]) in [(caller.trace, s["id"]) for s in collector.named("send", caller.trace)]
    assert peer.traceparents("/events") == [f"00-{call['trace']}-{call['id']}-01"]


def test_a_call_to_an_integration_is_below_its_request(make_server, collector, peer):
    server = make_server(config=config(collector, peer, otel={"sample_ratio": "1"}, **{"integration.pay": {"base_url": peer.url + "/pay"}}))
    answer = server.new_client().post("/integrations/pay/charge?card=4111", {"a": 1})
    assert answer.status == 200, answer
    trace = answer.headers["traceparent"].split("-")[1]
    wait_for(lambda: len(collector.trace(trace)) >= 2, "the spans")
    children = check_tree(collector.trace(trace), None)
    [root] = children[None]
    [call] = [s for s in children[root["id"]] if s["kind"] == CLIENT]
    assert peer.traceparents("/pay") == [f"00-{trace}-{call['id']}-01"]
    assert "4111" not in json.dumps(collector.trace(trace))


def test_a_replaced_ticket_goes_on_in_the_newer_trace(make_server, collector, peer):
    peer.status = {"/send": 503, "/return": 503}
    server = make_server(config=config(collector, peer))
    client = server.new_client()
    older, newer = Caller(), Caller()
    assert client.post("/api/tickets", ticket("T-2"), headers=older.headers).status == 200
    wait_for(lambda: peer.traceparents("/send") and peer.traceparents("/return"), "attempts of the older")
    assert client.post("/api/tickets", ticket("T-2", companyCode="2"), headers=newer.headers).status == 200
    peer.status.clear()
    wait_for(lambda: peer.arrived("/send") and peer.arrived("/return"), "arrival")
    assert {p.split("-")[1] for path in ("/send", "/return") for p in peer.arrived(path)[-1:]} == {newer.trace}


# --- what is recorded ----------------------------------------------------------------------------------


def flag(answer):
    return answer.headers["traceparent"][-2:]


def test_the_callers_flag_counts_up_to_a_rate_for_each_client(make_server, collector):
    server = make_server(config=config(collector, otel={"caller_traces_per_minute": 3}))
    one, two = server.new_client(), server.new_client()
    assert [flag(one.get("/whoami", headers=Caller().headers)) for _ in range(5)] == ["01"] * 3 + ["00"] * 2
    assert flag(two.get("/whoami", headers=Caller().headers)) == "01"
    assert flag(two.get("/whoami", headers=Caller("00").headers)) == "00"
    assert flag(two.get("/whoami")) == "00"
    # Who is nobody's client records nothing here.
    assert flag(server.anonymous().get("/healthz", headers=Caller().headers)) == "00"
    assert flag(server.anonymous().get("/whoami", headers=Caller().headers)) == "00"
    wait_for(lambda: len(collector.named("GET /whoami")) == 4, "four spans")


def test_the_ratio_is_by_the_traces_id_and_by_lot_for_a_caller(make_server, collector):
    server = make_server(config=config(collector, otel={"sample_ratio": "0.5", "caller_traces_per_minute": 0}))
    client = server.new_client()
    for _ in range(20):
        answer = client.get("/whoami")
        assert flag(answer) == ("01" if answer.headers["traceparent"].split("-")[1][18:] >= "8" + "0" * 13 else "00")
    for low in ("0" * 14, "f" * 14):  # who chooses the id does not choose whether it is recorded
        parent = f"00-{'a' * 18}{low}-{'b' * 16}-00"
        assert {flag(client.get("/whoami", headers={"traceparent": parent})) for _ in range(64)} == {"00", "01"}, low


def test_without_an_endpoint_the_callers_flag_goes_on(server):
    client = server.new_client()
    for flags in ("00", "01"):
        assert flag(client.get("/whoami", headers=Caller(flags).headers)) == flags


# --- the collector -------------------------------------------------------------------------------------


def test_what_the_collector_answers(make_server, collector):
    server = make_server(config=config(collector, otel={"sample_ratio": "1", "headers": "X-Scope=team%20a,Authorization=Bearer abc"}))
    client = server.new_client()
    server.secrets.add("Bearer abc")

    def traced():
        trace = client.get("/whoami").headers["traceparent"].split("-")[1]
        return wait_for(lambda: collector.trace(trace), "its span", timeout=30)

    traced()
    assert collector.requests[-1]["headers"]["X-Scope"] == "team a"
    for plan in (("status", 503), ("status", 429, {"Retry-After": "1"}), ("cut",), ("body", b"\xff not JSON"), ("body", b"")):
        collector.plan.append(plan)
        assert len(traced()) == 1, "sent again, and once"
    refused = metric(server, "dataflow_spans_dropped_total", reason="refused")
    collector.plan.extend([("status", 400), ("status", 302, {"Location": collector.url})])
    client.get("/whoami")
    wait_for(lambda: metric(server, "dataflow_spans_dropped_total", reason="refused") > refused, "a refused batch is dropped")
    wait_for(lambda: client.get("/whoami") and not collector.plan, "both")
    traced()
    collector.plan.extend([("partial", 1, "no room for (51) 98765-4321"), ("partial", 1, "the same"), ("partial", 0, "a warning")])
    wait_for(lambda: client.get("/whoami") and metric(server, "dataflow_spans_dropped_total", reason="rejected") == 2, "two are rejected")
    traced()
    [said] = server.log("SpansRejected")
    assert said["rejected"] == 1 and "98765" not in said["reason"]
    outages = [line["event"] for line in server.log() if line["event"] in ("TracesNotExported", "TracesExportedAgain")]
    assert outages and outages == ["TracesNotExported", "TracesExportedAgain"] * (len(outages) // 2)


def test_a_retry_waits_for_as_long_as_it_is_told(make_server, collector):
    server = make_server(config=config(collector, otel={"sample_ratio": "1"}))
    client = server.new_client()
    wait_for(lambda: collector.spans, "spans")
    collector.plan.append(("status", 429, {"Retry-After": "2"}))
    trace = client.get("/whoami").headers["traceparent"].split("-")[1]
    wait_for(lambda: collector.trace(trace), "its span")
    refused = next(i for i, r in enumerate(collector.requests) if i and r["at"] - collector.requests[i - 1]["at"] > 1.9)
    assert refused, [r["at"] for r in collector.requests]


def test_a_collector_that_is_away_costs_spans_only(make_server):
    away = Collector(port=free_port())
    server = make_server(config=config(away, otel={"sample_ratio": "1", "queue": 64, "timeout_ms": 500}))
    client = server.new_client()
    for n in range(100):
        assert client.post("/api/tickets", ticket(f"A-{n}")).status == 200
    wait_for(lambda: metric(server, "dataflow_spans_dropped_total", reason="queue_full") > 0, "the queue is full")
    assert metric(server, "dataflow_spans_waiting") <= 64
    wait_for(lambda: server.log("TracesNotExported"), "it is told")
    with away:
        wait_for(lambda: away.spans and server.log("TracesExportedAgain"), "it is back")
        wait_for(lambda: client.get("/whoami") and away.named("GET /whoami"), "new spans come")
        assert len(server.log("TracesNotExported")) == 1, "once, and not for every try"
        assert not away.faults


def test_a_stop_sends_what_waits(make_server, collector):
    server = make_server(config=config(collector, otel={"sample_ratio": "1"}))
    client = server.new_client()
    traces = [client.get("/whoami").headers["traceparent"].split("-")[1] for _ in range(20)]
    assert server.stop() == 0
    assert all(collector.trace(trace) for trace in traces)


def test_a_stop_does_not_wait_for_a_slow_collector(make_server, collector):
    collector.always = ("slow", 60)
    server = make_server(config=config(collector, otel={"sample_ratio": "1", "timeout_ms": 60000}))
    server.new_client()
    wait_for(lambda: collector.requests, "a call that hangs")
    assert server.stop(timeout=20) == 0
    collector.resumed.set()


def test_the_path_is_as_given(make_server):
    with Collector(path="/otlp/spans") as c:
        server = make_server(config=config(c, otel={"endpoint": c.url + "/otlp/spans", "sample_ratio": "1"}))
        server.new_client()
        wait_for(lambda: c.spans, "spans")
        assert not c.faults


BAD = [("endpoint", "ftp://x"), ("endpoint", "http://u:p@x"), ("sample_ratio", "1.1"), ("sample_ratio", "-1"), ("sample_ratio", "nan"),
       ("sample_ratio", "1e-2"), ("sample_ratio", ""), ("sample_ratio", "0..1"), ("headers", "no-value"), ("headers", "a=%2"),
       ("headers", "a=%0a"), ("headers", "content-type=x"), ("headers", "a b=c"), ("headers", ",".join(f"h{i}=x" for i in range(17))),
       ("queue", "63"), ("timeout_ms", "0"), ("caller_traces_per_minute", "-1")]


def test_bad_settings_are_refused(make_server, backend_name):
    if backend_name != "sqlite":
        pytest.skip("the same for every database")
    server = make_server(start=False)
    for key, value in BAD:
        done = server.cli("check-config", "--set", f"otel.{key}={value}")
        assert done.returncode != 0 and "otel" in done.stderr + done.stdout, (key, value)
