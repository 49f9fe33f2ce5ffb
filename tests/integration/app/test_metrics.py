"""GET /metrics of a server that has done everything: by `promtool`, by a strict reader of OpenMetrics, and by value."""

import json
import re
import subprocess

import pytest
from harness import ROOT, Http, Server, wait_for
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from test_imports_receive import taken, upload
from test_interface_accepted import ticket
from test_sandbox import Sandbox

TRACE = "4bf92f3577b34da6a3ce929d0e0e47{:02x}"
OPEN = "application/openmetrics-text; version=1.0.0"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
PROMETHEUS = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"


def traced(number, flags="01"):
    return {"traceparent": f"00-{TRACE.format(number)}-00f067aa0ba902b7-{flags}"}


@pytest.fixture(scope="module")
def busy(_module_backends, tmp_path_factory):
    """A server after traffic of every kind, its client, and the sandbox behind it."""
    box = Sandbox(tmp_path_factory.mktemp("sandbox"))
    url = "http://{}:{}".format(*box.host_port)
    server = Server(_module_backends(), tmp_path_factory.mktemp("server"), config={
        "gateway": {"functional_ack_url": url + "/gateway/ack", "ticket_return_url": url + "/gateway/return",
                    "ticket_send_url": url + "/gateway/tickets", "api_key": "k"},
        "omniflow": {"url": url, "api_key": "k", "batch_size": 2},
        "imports": {"poll_ms": 20},
        "delivery": {"allow_private_targets": "on"},
        "relay.events": {"dispatcher": "http", "target": url + "/webhooks/events", "poll_ms": 20},
        "integration.payment": {"base_url": url + "/payments"},
    }).start()
    client = server.new_client("Metrics", scopes=["interface", "imports", "events", "integrations"])
    peer = server.new_client("OmniFlow", scopes=["acks", "callback"])
    sandbox = Http(box)
    assert sandbox.request("PUT", "/_config", json.dumps({
        "omniflow": "async", "serverUrl": server.url, "clientId": peer.id, "clientSecret": peer.secret,
    }).encode()).status == 200
    drive(server, client, url)
    yield server, client
    server.finish()
    box.finish()


def drive(server, client, url):
    hook = client.post(f"/clients/{client.id}/webhooks", {"url": url + "/webhooks/all", "events": ["BatchCompleted"]})
    assert hook.status == 201, hook
    assert client.post("/api/tickets", ticket("M-1"), headers=traced(1)).status == 200
    batch = taken(upload(client, json.dumps([{"PhoneNumber": f"+55519{99000000 + i}", "Name": "x"} for i in range(5)]).encode(),
                         headers=traced(2)))
    assert upload(client, b"%PDF-1.4").status == 415
    assert client.post("/events", {"eventType": "Made", "payload": {}}, headers=traced(3)).status == 202
    assert client.post("/integrations/payment/x", {"a": 1}, headers=traced(4)).status == 201
    assert server.anonymous().get("/nothing").status == 404
    wait_for(lambda: client.get(f"/imports/{batch}").json["status"] == "Completed", "the batch")
    later = taken(upload(client, b'[{"PhoneNumber": "+5551999000000", "Name": "x"}]', name="later.json", headers=traced(2)))
    wait_for(lambda: client.get(f"/imports/{later}").json["status"] == "Completed", "the second batch")
    for name in ('delivery_attempts_total{channel="ticket-return",outcome="sent"} 1', 'batches_processing 0',
                 'delivery_attempts_total{channel="webhooks",outcome="sent"} 2',
                 'relay_attempts_total{relay="events",outcome="processed"} 1', 'backlog_batches 0'):
        wait_for(lambda name=name: f"dataflow_{name}\n" in page(server), name)


def page(server, accept=None):
    answer = server.anonymous().get("/metrics", headers={"Accept": accept} if accept else {})
    assert answer.status == 200
    return answer.body.decode()


def families_of(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(text, name):
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)
    assert found, name
    return float(found[1])


def test_promtool_objects_to_nothing_but_the_spelling_of_a_source(busy):
    done = subprocess.run(["promtool", "check", "metrics"], input=page(busy[0]), capture_output=True, text=True, timeout=60, check=False)
    complaints = {line for line in (done.stdout + done.stderr).splitlines() if line}
    assert complaints == {f"{name} label names should be written in 'snake_case' not 'camelCase'"
                          for name in ("dataflow_batch_duration_seconds",)}


def test_a_strict_reader_takes_the_openmetrics(busy):
    families = families_of(page(busy[0], OPEN))
    assert families["dataflow_http_requests"].type == "counter" and families["dataflow_ack_seconds"].type == "histogram"
    assert families["dataflow_ack_seconds"].unit == "seconds"
    assert families["dataflow_delivery_given_up"].type == "gauge"


def test_both_formats_have_the_same_samples(busy):
    """A series may begin between the two pages; then the next two are the same."""
    server, _ = busy

    def differing():
        plain = {re.sub(r" \S+$", "", line) for line in page(server).splitlines() if line[0] != "#"}
        opened = {re.sub(r" \S+$", "", line.split(" # ")[0]) for line in page(server, OPEN).splitlines() if line[0] != "#"}
        return {re.sub(r'(le="\d+)\.0"', r'\1"', name) for name in opened} ^ plain

    assert not differing() or not differing() or differing() == set()


def test_every_family_is_on_the_page_of_metrics(busy):
    listed = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8"), re.M))
    shown = dict(re.findall(r"^# TYPE (\w+) (\w+)$", page(busy[0]), re.M))
    assert shown.items() <= listed.items() and len(shown) > 60


def test_the_sources_metrics_are_there(busy):
    shown = dict(re.findall(r"^# TYPE (\w+) (\w+)$", page(busy[0]), re.M))
    for name, kind in (("requests_total", "counter"), ("batches_processing", "gauge"), ("chunk_duration_seconds", "histogram"),
                       ("batch_duration_seconds", "histogram"), ("chunk_inflight", "gauge"), ("webhook_failures_total", "counter")):
        assert shown["dataflow_" + name] == kind


def test_a_client_has_its_figures(busy):
    server, client = busy
    text, of = page(server), f'client_id="{client.id}"'
    assert value(text, f"dataflow_ack_seconds_count{{{of}}}") == 4, "chunks of two, acked later"
    assert value(text, f'dataflow_import_records_total{{{of},outcome="imported"}}') == 6
    assert value(text, f'dataflow_uploads_total{{{of},outcome="accepted"}}') == 2
    assert value(text, f'dataflow_uploads_total{{{of},outcome="rejected"}}') == 1
    assert value(text, f"dataflow_upload_bytes_total{{{of}}}") > 100
    for status in ("Pending", "Processing", "Completed"):
        assert value(text, f'dataflow_batches_total{{{of},status="{status}"}}') == 2
    assert value(text, f"dataflow_requests_total{{{of}}}") > 5
    assert value(text, 'dataflow_lock_outcomes_total{provider="sql",outcome="acquired"}') >= 2
    assert value(text, 'dataflow_lock_held{provider="sql"}') == 0
    assert value(text, 'dataflow_lock_wait_seconds_count{provider="sql",operation="acquire"}') >= 2
    assert value(text, 'dataflow_db_workers{kind="write"}') >= 1


def test_exemplars_lead_to_the_traces_of_the_callers(busy):
    found = {}
    for family in families_of(page(busy[0], PROMETHEUS)).values():
        for sample in family.samples:
            if sample.exemplar:
                labels = sample.exemplar.labels
                assert re.fullmatch("[0-9a-f]{32}", labels["trace_id"]) and re.fullmatch("[0-9a-f]{16}", labels["span_id"])
                assert sum(map(len, [*labels.keys(), *labels.values()])) <= 128 and sample.exemplar.timestamp
                found.setdefault(family.name, set()).add(labels["trace_id"])
    for number, names in ((1, ("http_request_seconds", "http_requests")),
                          (2, ("http_request_seconds", "ack_seconds", "chunk_duration_seconds")),
                          (3, ("relay_duration_seconds",)),
                          (4, ("integration_duration_seconds", "integration_calls"))):
        for name in names:
            assert TRACE.format(number) in found["dataflow_" + name], (number, name, found)
    assert found["dataflow_delivery_duration_seconds"] and found["dataflow_delivery_attempts"]
    assert " # {" not in page(busy[0])


def test_a_trace_that_is_not_sampled_is_no_exemplar(busy):
    server, _ = busy
    assert server.anonymous().get("/openapi.json", headers=traced(9, "00")).status == 200
    wait_for(lambda: 'route="/openapi.json"' in page(server), "that it is counted")
    assert TRACE.format(9) not in page(server, OPEN)


@pytest.mark.parametrize("accept, opened", [
    (None, False), ("*/*", False), ("", False), ("text/plain", False), ("application/*", False), (OPEN, True), (PROMETHEUS, True),
    ("application/openmetrics-text", True), ("APPLICATION/OpenMetrics-Text;VERSION=1.0.0", True),
    ('application/openmetrics-text;version="1.0.0"', True), ("application/openmetrics-text;version=0.0.1", False),
    ("application/openmetrics-text;version=2.0.0,*/*", False), ("application/openmetrics-text;q=0", False),
    ("application/openmetrics-text;q=0.4,text/plain;q=0.5", False), ("application/openmetrics-text;q=0.5,text/plain;q=0.5", True),
    ("application/openmetrics-text;q=0.5,*/*;q=0.6", False), ("application/openmetrics-text;q=x", False),
    ("a/b," * 100 + OPEN, False), (",;=\"\\", False), ("application/openmetrics-text;x=\"" + "y" * 2000, True),
])
def test_the_format_is_what_accept_asks_for(busy, accept, opened):
    answer = busy[0].anonymous().get("/metrics", headers={} if accept is None else {"Accept": accept})
    assert (answer.status, answer.headers["Vary"]) == (200, "Accept")
    assert answer.headers["Content-Type"] == (OPEN + "; charset=utf-8" if opened else TEXT)
    assert answer.body.endswith(b"\n# EOF\n") == opened


def test_clients_that_wait_are_counted_and_become_none(make_server):
    """A server without workers: batches stay Pending until one is cancelled."""
    server = make_server(config={"server": {"roles": "api"}, "alerts": {"interval_seconds": 1}})
    client = server.new_client()
    batches = [taken(upload(client)) for _ in range(2)]
    name = f'dataflow_batches_open{{client_id="{client.id}",status="Pending"}}'
    wait_for(lambda: f"{name} 2\n" in page(server), "both to be counted")
    for batch in batches:
        assert client.request("DELETE", f"/imports/{batch}").status == 204
    wait_for(lambda: f"{name} 0\n" in page(server), "none to be left")
    assert value(page(server), f'dataflow_batches_total{{client_id="{client.id}",status="Cancelled"}}') == 2
