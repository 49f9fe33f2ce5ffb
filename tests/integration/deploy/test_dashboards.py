"""deploy/grafana and deploy/prometheus on a real Prometheus that scrapes real servers under traffic of every kind: every query
of every panel and every rule has an answer. And the rules of Grafana's dashboard-linter, each of which can fail."""

import contextlib
import copy
import json
import re
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
import yaml
from dashboard_lint import RULES, filled, names, panels, problems, selectors, targets, templates
from harness import ROOT, TIMEOUT, Backend, wait_for
from traffic import Traffic, lame_server, lonely_server

import dashboards
import pg
import redis
import tls

PLACE = ROOT / "deploy"
BOARDS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((PLACE / "grafana").glob("*.json"))}
RULE_FILES = [PLACE / "prometheus" / "alerts.yml", PLACE / "prometheus" / "records.yml"]
RULE_LIST = [rule for path in RULE_FILES for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]
ALERTS = [rule for rule in RULE_LIST if "alert" in rule]
RECORDS = [rule for rule in RULE_LIST if "record" in rule]
BY_UID = {board["uid"]: board for board in BOARDS.values()}

pytestmark = pytest.mark.tools

# Metrics that no server here has, with the reason.
NOT_HERE = {"dataflow_queue_messages_total": "its first series comes with the first message, and a broker takes long to start"}


# --- the files ---------------------------------------------------------------------------------------


def test_the_dashboards_are_what_the_tool_makes():
    assert {path.name: path.read_text(encoding="utf-8") for path in (PLACE / "grafana").glob("*.json")} == {
        path.name: text for path, text in dashboards.texts().items()}


def test_the_tool_writes_and_checks(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(dashboards, "PLACE", tmp_path)
    monkeypatch.setattr(dashboards, "ROOT", tmp_path)
    assert dashboards.main(["--check"]) == 1 and "overview.json" in capsys.readouterr().err
    assert dashboards.main([]) == 0 and dashboards.main(["--check"]) == 0
    (tmp_path / "client.json").write_text("{}", encoding="utf-8")
    assert dashboards.main(["--check"]) == 1 and "client.json" in capsys.readouterr().err


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_passes_the_linter(name):
    assert problems(BOARDS[name]) == {}


def _good():
    """A small dashboard without a fault."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    query = {"type": "query", "datasource": source, "multi": True, "allValue": ".+", "refresh": 2}
    return {
        "uid": "u", "title": "t", "description": "d", "tags": ["x"], "editable": False,
        "templating": {"list": [
            {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus"},
            {**query, "name": "job", "label": "Job", "query": "label_values(up, job)"},
            {**query, "name": "instance", "label": "Instance", "query": 'label_values(up{job=~"$job"}, instance)'}]},
        "panels": [
            {"id": 1, "type": "timeseries", "title": "A", "description": "b", "datasource": source,
             "gridPos": {"x": 0, "y": 0, "w": 12, "h": 8}, "fieldConfig": {"defaults": {"unit": "ops"}}, "targets": [
                 {"datasource": source, "expr": 'sum(rate(a_total{job=~"$job",instance=~"$instance"}[$__rate_interval]))'}]},
            {"id": 2, "type": "stat", "title": "B", "description": "b", "datasource": source,
             "gridPos": {"x": 12, "y": 0, "w": 12, "h": 8}, "fieldConfig": {"defaults": {"unit": "s"}}, "targets": [
                 {"datasource": source, "expr": 'histogram_quantile(0.9, sum by (le, x) (rate('
                                                'a_bucket{job=~"$job",instance=~"$instance"}[$__rate_interval])))'}]}]}


def _expression(text):
    return lambda board: board["panels"][0]["targets"][0].update(expr=text)


ALL = 'job=~"$job",instance=~"$instance"'
BAD = [
    ("template-datasource-rule", lambda b: b["templating"]["list"].pop(0)),
    ("template-datasource-rule", lambda b: b["templating"]["list"][0].update(name="source")),
    ("template-datasource-rule", lambda b: b["templating"]["list"][0].update(label="Source")),
    ("template-datasource-rule", lambda b: b["templating"]["list"][0].update(query="loki")),
    ("template-job-rule", lambda b: b["templating"]["list"].pop(1)),
    ("template-job-rule", lambda b: b["templating"]["list"][1].update(allValue=".*")),
    ("template-job-rule", lambda b: b["templating"]["list"][1].update(datasource={"uid": "prom-1"})),
    ("template-instance-rule", lambda b: b["templating"]["list"].pop(2)),
    ("template-instance-rule", lambda b: b["templating"]["list"][2].update(multi=False)),
    ("template-instance-rule", lambda b: b["templating"]["list"][2].update(label="Server")),
    ("template-label-promql-rule", lambda b: b["templating"]["list"][2].update(query="label_value(up, instance)")),
    ("template-label-promql-rule", lambda b: b["templating"]["list"][2].update(query="label_values(up{job=~}, instance)")),
    ("template-on-time-change-reload-rule", lambda b: b["templating"]["list"][2].update(refresh=1)),
    ("panel-datasource-rule", lambda b: b["panels"][0].update(datasource={"uid": "prom-1"})),
    ("panel-datasource-rule", lambda b: b["panels"][0]["targets"][0].update(datasource={"uid": "prom-1"})),
    ("panel-title-description-rule", lambda b: b["panels"][0].update(title="")),
    ("panel-title-description-rule", lambda b: b["panels"][0].pop("description")),
    ("panel-units-rule", lambda b: b["panels"][0].pop("fieldConfig")),
    ("panel-units-rule", lambda b: b["panels"][0]["fieldConfig"]["defaults"].update(unit="apples")),
    ("panel-no-targets-rule", lambda b: b["panels"][0].update(targets=[])),
    ("target-promql-rule", _expression(f"sum(rate(a_total{{{ALL}}}[$__rate_interval])")),
    ("target-rate-interval-rule", _expression(f"sum(rate(a_total{{{ALL}}}[5m]))")),
    ("target-rate-interval-rule", _expression(f"max_over_time(a{{{ALL}}}[$__rate_interval])")),
    ("target-job-rule", _expression('sum(rate(a_total{instance=~"$instance"}[$__rate_interval]))')),
    ("target-job-rule", _expression('up{instance=~"$instance",job="$job"}')),
    ("target-instance-rule", _expression('sum(rate(a_total{job=~"$job"}[$__rate_interval]))')),
    ("target-counter-agg-rule", _expression(f"sum(a_total{{{ALL}}})")),
    ("target-counter-agg-rule", _expression(f"max_over_time(a_count{{{ALL}}}[1h])")),
    ("uneditable-dashboard", lambda b: b.update(editable=True)),
    ("histograms", _expression(f"histogram_quantile(0.9, rate(a_bucket{{{ALL}}}[$__rate_interval]))")),
    ("histograms", _expression(f"histogram_quantile(0.9, sum by (x) (rate(a_bucket{{{ALL}}}[$__rate_interval])))")),
    ("placing", lambda b: b["panels"][1]["gridPos"].update(x=11)),
    ("placing", lambda b: b["panels"][1]["gridPos"].update(x=13)),
    ("placing", lambda b: b["panels"][1].update(id=1)),
    ("described", lambda b: b.pop("description")),
]


def test_the_linter_finds_nothing_in_what_is_good():
    assert problems(_good()) == {}


@pytest.mark.parametrize("rule,spoil", BAD, ids=[f"{rule}-{i}" for i, (rule, _) in enumerate(BAD)])
def test_each_rule_of_the_linter_finds_its_fault(rule, spoil):
    board = copy.deepcopy(_good())
    spoil(board)
    assert list(RULES[rule](board))


def test_every_rule_of_the_linter_is_shown_to_fail():
    assert {rule for rule, _ in BAD} == set(RULES)


def test_selectors_are_found_in_expressions():
    text = ('sum by (le, a) (rate(x_total{job=~"$job",a!="b)"}[5m])) / on (z) group_left (c) y offset 5m'
            ' or vector(0) > bool 3 and max without (q) (abs(p:q:r)) unless topk(3, z{})')
    assert [(s.metric, s.around, s.range, s.matchers) for s in selectors(text)] == [
        ("x_total", ("sum", "rate"), "5m", {"job": ("=~", '"$job"'), "a": ("!=", '"b)"')}), ("y", (), None, {}),
        ("p:q:r", ("max", "abs"), None, {}), ("z", ("topk",), None, {})]


# Metrics that no panel has, with the reason.
NOT_SHOWN = {"dataflow_data_key": "an id", "dataflow_subject_rows_filled_total": "only once, after an upgrade"}


def test_every_metric_is_on_a_panel():
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^\| `(\w+)` \|", page, re.M))
    shown = set().union(*(_metrics_of(filled(expression)) for board in BOARDS.values() for _, expression in targets(board)))
    assert known - shown == set(NOT_SHOWN) and shown - known == set()


# --- links -------------------------------------------------------------------------------------------


def _metrics_of(expression):
    """Without what a histogram's series end in; of a record, the metrics that it is made of."""
    made_of = {rule["record"]: rule["expr"] for rule in RECORDS}
    found = set()
    for selector in selectors(expression):
        found |= _metrics_of(made_of[selector.metric]) if selector.metric in made_of else {
            re.sub(r"_(bucket|sum|count)$", "", selector.metric)}
    return found


def test_every_link_of_a_dashboard_leads_somewhere():
    for board in BOARDS.values():
        for panel in panels(board):
            for link in panel["fieldConfig"]["defaults"].get("links", ()):
                url = urllib.parse.urlsplit(link["url"])
                if url.path.startswith("/d/"):
                    assert url.path.removeprefix("/d/") in BY_UID, link
                    continue
                assert url.path == "/explore", link
                pane, = json.loads(urllib.parse.parse_qs(url.query)["panes"][0]).values()
                assert pane["datasource"] == "${tempo_datasource}" and pane["queries"][0]["query"].startswith("{ resource.service.name")
                assert "tempo_datasource" in {t["name"] for t in templates(board, "datasource")}
                labels = set(re.findall(r"\$\{__field\.labels\.(\w+)\}", pane["queries"][0]["query"]))
                assert all(labels <= set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) for target in panel["targets"])


def _anchors(path):
    """As GitHub makes them of headings."""
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)}


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_leads_to_its_panel_and_its_runbook(rule):
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "dashboard", "runbook_url"}
    page, _, anchor = notes["runbook_url"].partition("#")
    assert anchor in _anchors(ROOT / page), notes["runbook_url"]
    url = urllib.parse.urlsplit(re.sub(r"\{\{.*?\}\}", "x", notes["dashboard"]))
    board = BY_UID[url.path.removeprefix("/d/")]
    query = dict(urllib.parse.parse_qsl(url.query))
    number = int(query.pop("viewPanel"))
    panel, = [panel for panel in panels(board) if panel["id"] == number]
    assert {name.removeprefix("var-") for name in query} <= set(names(board))
    shown = set().union(*(_metrics_of(filled(target["expr"])) for target in panel["targets"]))
    assert _metrics_of(rule["expr"]) & shown, f"{panel['title']} shows {shown}"


def test_addresses_are_put_before_the_links_as_the_page_says(tmp_path):
    page = (ROOT / "docs" / "dashboards.md").read_text(encoding="utf-8")
    command, = re.findall(r"^ *(sed -e .*?)^ *```", page, re.M | re.S)
    out = tmp_path / "alerts.yml"
    subprocess.run(["bash", "-euc", command.replace("/etc/prometheus/dataflow/alerts.yml", str(out))], cwd=ROOT, check=True, timeout=60)
    made = [rule["annotations"] for rule in yaml.safe_load(out.read_text(encoding="utf-8"))["groups"][0]["rules"]]
    assert len(made) == len(ALERTS)
    assert all(notes["dashboard"].startswith("https://grafana.example.org/d/dataflow-") for notes in made)
    assert all(notes["runbook_url"].startswith("https://docs.example.org/dataflow/docs/runbooks/") for notes in made)


def test_the_provisioning_belongs_together():
    place = PLACE / "grafana" / "provisioning"
    sources = yaml.safe_load((place / "datasources" / "dataflow.yaml").read_text(encoding="utf-8"))["datasources"]
    metrics, traces = sources
    assert [source["type"] for source in sources] == [t["query"] for t in templates(BOARDS["overview"], "datasource")]
    assert metrics["jsonData"]["exemplarTraceIdDestinations"][0]["datasourceUid"] == traces["uid"]
    provider, = yaml.safe_load((place / "dashboards" / "dataflow.yaml").read_text(encoding="utf-8"))["providers"]
    assert f"cp deploy/grafana/*.json {provider['options']['path']}/" in (ROOT / "docs" / "dashboards.md").read_text(encoding="utf-8")


# --- on a real Prometheus ----------------------------------------------------------------------------


class Prometheus:
    """Scrapes every second, with our rules."""

    def __init__(self, directory, servers):
        self.url = f"http://127.0.0.1:{pg.free_port()}"
        jobs = [{"job_name": name, "scheme": scheme, "tls_config": {"insecure_skip_verify": True},
                 "static_configs": [{"targets": ["{}:{}".format(*server.host_port)]}]} for name, (scheme, server) in servers.items()]
        config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "scrape_configs": jobs,
                  "rule_files": [str(path) for path in RULE_FILES]}
        (directory / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
        self.log = directory / "prometheus.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data",
                 f"--web.listen-address={self.url.removeprefix('http://')}", "--enable-feature=exemplar-storage", "--log.level=warn"],
                stdout=log, stderr=log)

    def close(self):
        self.process.terminate()
        self.process.wait(TIMEOUT)

    def is_ready(self):
        assert self.process.poll() is None, self.log.read_text(encoding="utf-8")
        with urllib.request.urlopen(f"{self.url}/-/ready", timeout=TIMEOUT) as answer:  # 503 is an OSError
            return answer.status == 200

    def get(self, path, **query):
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=TIMEOUT) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from None

    def query(self, expression):
        """[(labels, value)]"""
        found = self.get("query", query=expression)
        assert found["resultType"] in ("vector", "scalar"), expression
        return [(row["metric"], float(row["value"][1])) for row in found["result"]] if found["resultType"] == "vector" else [({}, 0.0)]


@pytest.fixture(scope="module")
def nowhere():
    """An address that refuses connections: a port that is taken, and that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield "http://127.0.0.1:{}/".format(taken.getsockname()[1])


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory, nowhere):
    """With all that it scrapes: a server under traffic, one whose peers are away, one with a certificate."""
    with contextlib.ExitStack() as stack:
        def backend(name):
            return Backend("sqlite", tmp_path_factory.mktemp(name))

        traffic = stack.enter_context(Traffic(backend("busy"), tmp_path_factory.mktemp))
        lame = lame_server(backend("lame"), tmp_path_factory.mktemp("lame"), nowhere)
        stack.callback(lame.finish)
        pair = tls.Authority(tmp_path_factory.mktemp("tls")).issue()
        locks = redis.Redis().start()
        stack.callback(locks.kill)
        lonely = lonely_server(backend("lonely"), tmp_path_factory.mktemp("lonely"), pair, locks.url, nowhere)
        stack.callback(lonely.finish)
        traffic.run()
        made = Prometheus(tmp_path_factory.mktemp("prometheus"), {
            "dataflow": ("http", traffic.server), "lame": ("http", lame), "lonely": ("https", lonely)})
        stack.callback(made.close)
        wait_for(made.is_ready, "Prometheus")
        wait_for(lambda: sum(up for _, up in made.query("up")) == 3, "three servers are scraped")
        wait_for(lambda: traffic.problem or traffic.rounds >= 2, "traffic")
        made.traffic = traffic
        yield made
        assert traffic.problem is None, traffic.problem


def ask(prometheus, wanted, answered, seconds=30):
    """Asks again for what has no answer yet; what has none in the end. wanted: {name: expression}."""
    deadline = time.monotonic() + seconds
    while True:
        wanted = {name: expression for name, expression in wanted.items() if not answered(name, prometheus.query(expression))}
        if not wanted or time.monotonic() > deadline:
            return wanted
        time.sleep(0.5)


def as_shown(board, expression):
    """As Grafana would ask, with everything selected."""
    return filled(expression, names(board), rate_interval="30s", interval="30s", shown="1m")


@pytest.fixture(scope="module")
def metrics(prometheus):
    """Every one that Prometheus has; waits for those that the dashboards and the rules use."""
    used = {s.metric for board in BOARDS.values() for _, expression in targets(board) for s in selectors(as_shown(board, expression))}
    used |= {s.metric for rule in RULE_LIST for s in selectors(rule["expr"])}
    missing = ask(prometheus, {metric: f"count({metric})" for metric in used - set(NOT_HERE)}, lambda _, rows: rows)
    assert not missing, f"no server has {sorted(missing)}"
    return set(prometheus.get("label/__name__/values"))


def test_every_panel_has_an_answer(prometheus, metrics):
    wanted, legends = {}, {}
    for name, board in BOARDS.items():
        for panel in panels(board):
            for target in panel["targets"]:
                key = (name, panel["title"], target["refId"])
                wanted[key] = as_shown(board, target["expr"])
                there = not any(s.metric in NOT_HERE for s in selectors(wanted[key]))
                legends[key] = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) if there else set()

    def answered(key, rows):
        # `or vector(0)` is an answer, but not one with the labels of the legend.
        return rows and all(legends[key] <= set(labels) for labels, _ in rows)

    assert len(wanted) > 100
    assert ask(prometheus, wanted, answered) == {}


def test_every_selection_of_a_panel_has_a_series(prometheus, metrics):
    wanted = {}
    for name, board in BOARDS.items():
        for panel, expression in targets(board):
            for s in selectors(as_shown(board, expression)):
                if s.metric not in NOT_HERE:
                    wanted[(name, panel["title"], str(s))] = str(s)
    assert ask(prometheus, wanted, lambda _, rows: rows) == {}


def test_every_variable_has_values(prometheus, metrics):
    for board in BOARDS.values():
        for t in templates(board, "query"):
            selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", t["query"]).groups()
            rows = prometheus.query(as_shown(board, selector))
            assert rows and all(row.get(label) for row, _ in rows), t["query"]


def test_every_annotation_can_be_asked_for(prometheus):
    for board in BOARDS.values():
        for note in board["annotations"]["list"]:
            prometheus.query(as_shown(board, note["expr"]))


def test_every_record_is_made(prometheus, metrics):
    assert ask(prometheus, {rule["record"]: rule["record"] for rule in RECORDS}, lambda _, rows: rows) == {}


def test_every_rule_is_evaluated_and_sees_its_metrics(prometheus, metrics):
    shown = {rule["name"]: rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]}
    assert set(shown) == {rule.get("alert") or rule["record"] for rule in RULE_LIST}
    assert {name: rule["lastError"] for name, rule in shown.items() if rule["health"] == "err"} == {}
    wanted = {(rule["alert"], str(s)): str(s) for rule in ALERTS for s in selectors(rule["expr"])}
    assert ask(prometheus, wanted, lambda _, rows: rows) == {}


def test_exemplars_lead_to_traces(prometheus, metrics):
    """As the example of a data source names them."""
    source = yaml.safe_load((PLACE / "grafana" / "provisioning" / "datasources" / "dataflow.yaml").read_text(encoding="utf-8"))
    label = source["datasources"][0]["jsonData"]["exemplarTraceIdDestinations"][0]["name"]

    def traces():
        now = time.time()
        rows = prometheus.get("query_exemplars", query="dataflow_http_request_seconds_bucket", start=now - 300, end=now)
        return {exemplar["labels"].get(label) for row in rows for exemplar in row["exemplars"]}

    wait_for(lambda: traces() & prometheus.traffic.traces, "an exemplar of a request with a trace")


def test_links_ask_for_attributes_that_spans_have(prometheus):
    """By kind: 2 is a server's span, 3 a client's, 4 a producer's."""
    kinds = {"server": 2, "client": 3, "producer": 4}
    asked = {match for board in BOARDS.values() for text in re.findall(r"panes=([^\"]*)", json.dumps(board))
             for match in re.findall(r'kind = (\w+)(?: && span\.([\w.]+) =)?', urllib.parse.unquote(text))}
    assert len(asked) > 5

    def missing():
        spans = list(prometheus.traffic.collector.spans)
        return {(kind, name) for kind, name in asked if not any(
            span["kind"] == kinds[kind] and (not name or name in span["attributes"]) for span in spans)}

    wait_for(lambda: not missing(), "spans of each kind with their attributes")


# What stands on these servers, and what does not.
FIRES = {"DataFlowAlertFiring", "DataFlowDeliveryGivenUp", "DataFlowTicketsGivenUp", "DataFlowRelayGivenUp", "DataFlowWebhookFailing"}


def test_alerts_fire_for_what_stands(prometheus, metrics):
    wanted = {name: f'ALERTS{{alertname="{name}",alertstate="firing",job="dataflow"}}' for name in FIRES}
    assert ask(prometheus, wanted, lambda _, rows: rows) == {}
    assert not prometheus.query('ALERTS{alertname=~"DataFlowDown|DataFlowInstanceDown|DataFlowKeysLost|DataFlowDeliveryStuck"}')
