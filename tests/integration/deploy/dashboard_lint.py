"""The rules of Grafana's dashboard-linter, for dashboards that Prometheus feeds, and a few of our own.

Grafana's program is written in Go and cannot be had from Debian. The rules bear its names; where they differ they are
stricter: all panels are looked at, not only some kinds, and a counter is known by its name whatever else is selected.
"""

import re
import subprocess
import tempfile
from pathlib import Path

UNITS = {"none", "short", "percent", "percentunit", "bytes", "decbytes", "Bps", "binBps", "s", "ms", "ops", "reqps", "rps", "wps", "iops",
         "cps", "bool", "bool_yes_no", "bool_on_off", "dateTimeAsIso", "dateTimeFromNow"}
QUERIES = {"stat", "gauge", "bargauge", "graph", "timeseries", "table", "state-timeline", "heatmap"}
KEYWORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}
LABELS = {"by", "without", "on", "ignoring", "group_left", "group_right"}
TOKEN = re.compile(r"""\s+|(?P<string>"(?:[^"\\]|\\.)*")|(?P<name>[a-zA-Z_:][\w:]*)|(?P<number>\d[\w.]*)|(?P<other>.)""", re.S)
# What Grafana fills in; times that nobody would write, so that they are known again.
RATE_INTERVAL, RANGE, INTERVAL = "7m7s", "1h7m", "1m7s"


def filled(expression, variables=(), rate_interval=RATE_INTERVAL, interval=INTERVAL, shown=RANGE):
    """An expression as Prometheus gets it, with everything selected."""
    expression = expression.replace("$__rate_interval", rate_interval).replace("$__interval", interval).replace("$__range", shown)
    for name in variables:
        expression = re.sub(rf"\$(?:{name}\b|\{{{name}\}})", ".+", expression)
    return expression


class Selector:
    """A metric as it stands in an expression: its matchers, its range and the functions around it, the innermost last."""

    def __init__(self, metric, around):
        self.metric, self.around = metric, around
        self.matchers, self.range = {}, None

    def __str__(self):
        return self.metric + "{" + ",".join(f"{label}{how}{value}" for label, (how, value) in self.matchers.items()) + "}"


def selectors(expression):
    """All of an expression that is valid."""
    tokens = [(m.lastgroup, m[m.lastgroup]) for m in TOKEN.finditer(expression) if m.lastgroup]
    found, around, at = [], [], 0

    def text(place):
        return tokens[place][1] if place < len(tokens) else ""

    while at < len(tokens):
        kind, value = tokens[at]
        at += 1
        if kind == "name" and value in LABELS:
            if text(at) == "(":
                at = next(i for i in range(at, len(tokens)) if text(i) == ")") + 1
        elif kind == "name" and value.lower() not in KEYWORDS:
            # An aggregation may have its labels before its arguments.
            if text(at) == "(" or text(at) in LABELS:
                pending = value
                if text(at) in LABELS:
                    at = next(i for i in range(at, len(tokens)) if text(i) == ")") + 1
                assert text(at) == "(", expression
                around.append(pending)
                at += 1
            else:
                found.append(Selector(value, tuple(name for name in around if name)))
                at = _matchers(tokens, at, found[-1])
        elif value == "(":
            around.append("")
        elif value == ")":
            around.pop()
    return found


def _matchers(tokens, at, selector):
    if at < len(tokens) and tokens[at][1] == "{":
        at += 1
        while tokens[at][1] != "}":
            label, how = tokens[at][1], ""
            at += 1
            while tokens[at][0] == "other":
                how += tokens[at][1]
                at += 1
            selector.matchers[label] = (how, tokens[at][1])
            at += 1
            if tokens[at][1] == ",":
                at += 1
        at += 1
    if at < len(tokens) and tokens[at][1] == "[":
        end = next(i for i in range(at, len(tokens)) if tokens[i][1] == "]")
        selector.range = "".join(value for _, value in tokens[at + 1:end])
        at = end + 1
    return at


def invalid(expressions):
    """Those that Prometheus would not take, each with what promtool says."""
    def check(some):
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "rules.yml"
            rules = "".join(f"      - record: r{i}\n        expr: '{e.replace(chr(39), chr(39) * 2)}'\n" for i, e in enumerate(some))
            path.write_text("groups:\n  - name: all\n    rules:\n" + rules, encoding="utf-8")
            return subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True, timeout=60, check=False)

    expressions = list(expressions)
    if not expressions or check(expressions).returncode == 0:
        return {}
    if len(expressions) == 1:
        return {expressions[0]: check(expressions).stderr}
    middle = len(expressions) // 2
    return {**invalid(expressions[:middle]), **invalid(expressions[middle:])}


# --- the rules ---------------------------------------------------------------------------------------


def panels(board):
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def targets(board):
    """(panel, expression)"""
    return [(panel, target["expr"]) for panel in panels(board) for target in panel.get("targets", ())]


def templates(board, kind):
    return [t for t in board["templating"]["list"] if t["type"] == kind]


def names(board):
    return [t["name"] for t in templates(board, "query")]


def _uid(thing):
    return (thing.get("datasource") or {}).get("uid", "").strip("${}")


def template_datasource(board):
    found = templates(board, "datasource")
    if not found:
        yield "no templated data source"
    elif found[0]["query"] != "prometheus":
        yield "the first data source is not Prometheus"
    for t in found:
        allowed = {t["query"] + "_datasource": t["query"].title() + " data source"}
        if len(found) == 1:
            allowed["datasource"] = "Data source"
        if t["name"] not in allowed:
            yield f"data source variable {t['name']}: should be {' or '.join(allowed)}"
        elif t["label"] != allowed[t["name"]]:
            yield f"data source variable {t['name']}: its label should be {allowed[t['name']]}"


def _template(board, name):
    t = next((t for t in board["templating"]["list"] if t["name"] == name), None)
    if t is None:
        yield f"no variable {name}"
        return
    if _uid(t) not in ("datasource", "prometheus_datasource"):
        yield f"variable {name}: not of the templated data source"
    if t["type"] != "query":
        yield f"variable {name}: not a query"
    if t["label"] != name.title():
        yield f"variable {name}: its label should be {name.title()}"
    if not t.get("multi"):
        yield f"variable {name}: only one value can be selected"
    if t.get("allValue") != ".+":
        yield f"variable {name}: allValue is not .+"


def template_job(board):
    yield from _template(board, "job")


def template_instance(board):
    yield from _template(board, "instance")


def template_label_promql(board):
    wanted = {}
    for t in templates(board, "query"):
        call = re.fullmatch(r"(label_names|label_values|metrics|query_result)\((.+?)(?:, *\w+)?\)", t["query"])
        if not call:
            yield f"variable {t['name']}: {t['query']}"
        else:
            wanted[filled(call[2], names(board))] = t["name"]
    for expression, why in invalid(wanted).items():
        yield f"variable {wanted[expression]}: {why}"


def template_on_time_change_reload(board):
    return (f"variable {t['name']} is not read again when the time changes" for t in templates(board, "query") if t.get("refresh") != 2)


def panel_datasource(board):
    known = {t["name"] for t in templates(board, "datasource")}
    for panel in panels(board):
        if any(_uid(thing) not in known for thing in (panel, *panel.get("targets", ()))):
            yield f"{panel.get('title')}: not a templated data source"


def panel_title_description(board):
    for panel in panels(board):
        if not (panel.get("title") and panel.get("description")):
            yield f"panel {panel.get('id')} ({panel.get('title')}): no title or no description"


def panel_units(board):
    for panel in panels(board):
        unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "")
        if unit not in UNITS:
            yield f"{panel.get('title')}: unit {unit!r}"


def panel_no_targets(board):
    return (f"{panel.get('title')}: no target" for panel in panels(board) if panel["type"] in QUERIES and not panel.get("targets"))


def target_promql(board):
    wanted = {filled(expression, names(board)): panel["title"] for panel, expression in targets(board)}
    for expression, why in invalid(wanted).items():
        yield f"{wanted[expression]}: {expression}: {why}"


def _selectors(board):
    for panel, expression in targets(board):
        for selector in selectors(filled(expression)):
            yield panel, selector


def target_rate_interval(board):
    for panel, s in _selectors(board):
        if s.range and s.around[-1] in ("rate", "irate") and s.range != RATE_INTERVAL:
            yield f"{panel['title']}: {s}[{s.range}] instead of $__rate_interval"
        if s.range == RATE_INTERVAL and s.around[-1] not in ("rate", "irate", "increase"):
            yield f"{panel['title']}: $__rate_interval in {s.around[-1]}"


def _target_matcher(board, label):
    for panel, s in _selectors(board):
        if s.matchers.get(label) != ("=~", f'"${label}"'):
            yield f"{panel['title']}: {s} has no {label}=~\"${label}\""


def target_job(board):
    yield from _target_matcher(board, "job")


def target_instance(board):
    yield from _target_matcher(board, "instance")


def target_counter_agg(board):
    for panel, s in _selectors(board):
        if re.search(r"_(total|sum|count|bucket)$", s.metric) and (not s.range or s.around[-1] not in ("rate", "irate", "increase")):
            yield f"{panel['title']}: the counter {s.metric} is not in rate, irate or increase"


def uneditable(board):
    if board.get("editable", True):
        yield "can be edited"


# --- rules of our own --------------------------------------------------------------------------------


def own_histograms(board):
    """A quantile is of the rates of buckets, summed by le."""
    for panel, expression in targets(board):
        for inside in re.findall(r"histogram_quantile\([\d.]+, (.*)", expression):
            if not re.match(r"sum by \(le\b[^)]*\) \(rate\(\w+_bucket\{", inside):
                yield f"{panel['title']}: {expression}"


def own_placing(board):
    """Numbers are unique, and no panel lies on another or beyond the edge."""
    taken, numbers = {}, set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        if panel["id"] in numbers:
            yield f"{panel['title']}: its number {panel['id']} is another's"
        numbers.add(panel["id"])
        if place["x"] < 0 or place["x"] + place["w"] > 24:
            yield f"{panel['title']}: beyond the edge"
        for spot in ((x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])):
            if taken.setdefault(spot, panel["id"]) != panel["id"]:
                yield f"{panel['title']}: lies on panel {taken[spot]}"
                break


def own_described(board):
    for member in ("uid", "title", "description", "tags"):
        if not board.get(member):
            yield f"no {member}"


RULES = {
    "template-datasource-rule": template_datasource, "template-job-rule": template_job, "template-instance-rule": template_instance,
    "template-label-promql-rule": template_label_promql, "template-on-time-change-reload-rule": template_on_time_change_reload,
    "panel-datasource-rule": panel_datasource, "panel-title-description-rule": panel_title_description,
    "panel-units-rule": panel_units, "panel-no-targets-rule": panel_no_targets, "target-promql-rule": target_promql,
    "target-rate-interval-rule": target_rate_interval, "target-job-rule": target_job, "target-instance-rule": target_instance,
    "target-counter-agg-rule": target_counter_agg, "uneditable-dashboard": uneditable, "histograms": own_histograms,
    "placing": own_placing, "described": own_described,
}


def problems(board):
    """{rule: [what is wrong, …]}, of the rules that find something."""
    found = {name: list(rule(board)) for name, rule in RULES.items()}
    return {name: wrong for name, wrong in found.items() if wrong}
