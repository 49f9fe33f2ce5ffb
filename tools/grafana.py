"""The pieces of which tools/dashboards.py makes dashboards for Grafana: expressions, panels, variables, links.

Every selector carries the dashboard's variables for job and instance, every panel a unit, a title and a description;
who writes a dashboard says only what is its own.
"""

import json
import re
from urllib.parse import quote

PROMETHEUS = {"type": "prometheus", "uid": "${prometheus_datasource}"}
SCHEMA = 39  # of Grafana 11
WIDTH = 24
TAG = "dataflow"
KEPT = "${__url_time_range}&${job:queryparam}&${instance:queryparam}"  # what a link takes along
GREEN, YELLOW, RED = "green", "yellow", "red"


# --- expressions -------------------------------------------------------------------------------------


def select(metric, where=""):
    return f'{metric}{{job=~"$job",instance=~"$instance"{"," + where if where else ""}}}'


def _over(operator, inner, by):
    return f"{operator} by ({by}) ({inner})" if by else f"{operator}({inner})"


def per_second(metric, by="", where=""):
    """Of a counter."""
    return _over("sum", f"rate({select(metric, where)}[$__rate_interval])", by)


def increase(metric, by="", where=""):
    """Of a counter, over the time that the dashboard shows."""
    return _over("sum", f"increase({select(metric, where)}[$__range])", by)


def total(metric, by="", where=""):
    """Of a gauge of which every process has its own share."""
    return _over("sum", select(metric, where), by)


def most(metric, by="", where=""):
    """Of a gauge that every process has of the same thing."""
    return _over("max", select(metric, where), by)


def least(metric, by="", where=""):
    return _over("min", select(metric, where), by)


def quantile(share, histogram, by="", where=""):
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, {per_second(histogram + '_bucket', labels, where)})"


def mean(histogram, by="", where=""):
    return f"{per_second(histogram + '_sum', by, where)} / {per_second(histogram + '_count', by, where)}"


def or_zero(expression):
    """For a metric that has no series before the first of its kind. on(): else the 0 stands beside series with labels."""
    return f"{expression} or on() vector(0)"


# --- panels ------------------------------------------------------------------------------------------


def panel(kind, title, description, unit, targets, width, height, options, **defaults):
    """targets: (expression, legend), …"""
    fields = {"unit": unit, "color": {"mode": "palette-classic"}, **defaults}
    return {"type": kind, "title": title, "description": description, "datasource": PROMETHEUS,
            "fieldConfig": {"defaults": fields, "overrides": []}, "options": options, "width": width, "height": height,
            "targets": [{"refId": chr(ord("A") + i), "datasource": PROMETHEUS, "expr": expression, "legendFormat": legend,
                         "exemplar": "histogram_quantile" in expression} for i, (expression, legend) in enumerate(targets)]}


def graph(title, description, unit, *targets, width=8, traces=None, stacked=False, **defaults):
    """Lines over time. traces: the TraceQL of a link from each line."""
    custom = {"drawStyle": "line", "fillOpacity": 20 if stacked else 8, "lineWidth": 1, "showPoints": "never", "spanNulls": False,
              "stacking": {"mode": "normal" if stacked else "none", "group": "A"}}
    options = {"legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"], "showLegend": True},
               "tooltip": {"mode": "multi", "sort": "desc"}}
    links = [trace_link(traces)] if traces else []
    return panel("timeseries", title, description, unit, targets, width, 8, options, custom=custom, min=0, links=links, **defaults)


def latency(title, description, histogram, by="", where="", traces=None, **more):
    """Its quantiles; from each line a link to the traces."""
    name = "".join(f" {{{{{label.strip()}}}}}" for label in by.split(",")) if by else ""
    shares = ((0.5, "p50"), (0.95, "p95"), (0.99, "p99")) if not by else ((0.5, "p50"), (0.95, "p95"))
    return graph(title, description, "s", *((quantile(share, histogram, by, where), legend + name) for share, legend in shares),
                 traces=traces, **more)


def steps(*pairs):
    """steps((None, GREEN), (1, RED)): from which value on which colour."""
    return {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in pairs]}


def stat(title, description, unit, expression, bad=None, warn=None, width=4, link=None):
    """One figure; yellow from `warn` on, red from `bad` on. link: (title, uid of a dashboard)."""
    colors = [(None, GREEN)] + ([(warn, YELLOW)] if warn is not None else []) + ([(bad, RED)] if bad is not None else [])
    options = {"colorMode": "value", "graphMode": "area", "justifyMode": "auto", "textMode": "value",
               "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
    made = panel("stat", title, description, unit, [(expression, "")], width, 4, options, thresholds=steps(*colors),
                 links=[dashboard_link(*link)] if link else [])
    made["fieldConfig"]["defaults"]["color"] = {"mode": "thresholds"}
    return made


def states(title, description, expression, legend, names, width=12):
    """A line for each series, coloured by its state. names: {value: (name, colour)}."""
    mappings = [{"type": "value", "options": {str(value): {"text": text, "color": color, "index": i}
                                              for i, (value, (text, color)) in enumerate(names.items())}}]
    options = {"mergeValues": True, "showValue": "never", "rowHeight": 0.8,
               "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}, "tooltip": {"mode": "single"}}
    made = panel("state-timeline", title, description, "short", [(expression, legend)], width, 8, options, mappings=mappings,
                 custom={"fillOpacity": 80, "lineWidth": 0})
    made["fieldConfig"]["defaults"]["color"] = {"mode": "thresholds"}
    return made


def table(title, description, unit, expression, width=12, hidden=("Time", "job"), links=()):
    """A row for each series, now."""
    options = {"showHeader": True, "cellHeight": "sm", "footer": {"show": False}}
    made = panel("table", title, description, unit, [(expression, "")], width, 8, options, links=list(links))
    made["targets"][0] |= {"format": "table", "instant": True}
    made["transformations"] = [{"id": "organize", "options": {"excludeByName": dict.fromkeys(hidden, True)}}]
    return made


# --- links -------------------------------------------------------------------------------------------


def _encoded(text):
    """Variables of Grafana stay as they are."""
    return "".join(part if part.startswith("${") else quote(part, safe="") for part in re.split(r"(\$\{[^}]*\})", text))


def trace_link(query):
    """To the traces of the time that is shown, in the chosen data source."""
    panes = {"t": {"datasource": "${tempo_datasource}", "range": {"from": "${__from}", "to": "${__to}"}, "queries": [
        {"refId": "A", "datasource": {"type": "tempo", "uid": "${tempo_datasource}"}, "queryType": "traceql", "query": query}]}}
    return {"title": "Traces", "targetBlank": True,
            "url": "/explore?schemaVersion=1&panes=" + _encoded(json.dumps(panes, separators=(",", ":")))}


def dashboard_link(title, uid):
    return {"title": title, "targetBlank": False, "url": f"/d/{uid}?{KEPT}"}


# --- variables and annotations -----------------------------------------------------------------------


def _datasource(name, kind, label):
    return {"type": "datasource", "name": name, "label": label, "query": kind, "refresh": 1, "regex": "", "hide": 0,
            "multi": False, "includeAll": False, "options": [], "current": {}}


def variable(name, label, query):
    """Values of a label; all of them unless somebody chooses."""
    return {"type": "query", "name": name, "label": label, "datasource": PROMETHEUS, "query": query, "definition": query,
            "refresh": 2, "regex": "", "sort": 1, "hide": 0, "multi": True, "includeAll": True, "allValue": ".+", "options": [],
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]}}


def values(metric, label):
    return f'label_values({metric}{{job=~"$job",instance=~"$instance"}}, {label})'


def _variables(more):
    return [_datasource("prometheus_datasource", "prometheus", "Prometheus data source"),
            _datasource("tempo_datasource", "tempo", "Tempo data source"),
            variable("job", "Job", "label_values(dataflow_build_info, job)"),
            variable("instance", "Instance", 'label_values(dataflow_build_info{job=~"$job"}, instance)'), *more]


def _annotation(name, color, expression, title, text):
    return {"name": name, "enable": True, "iconColor": color, "datasource": PROMETHEUS, "expr": expression, "step": "60s",
            "titleFormat": title, "textFormat": text, "useValueForTime": False}


def _annotations():
    return [_annotation("Alerts", RED, 'ALERTS{alertname=~"DataFlow.+",alertstate="firing"}', "{{alertname}}", "{{severity}}"),
            _annotation("Starts", "blue", f"changes({select('process_start_time_seconds')}[$__interval]) > 0", "Start", "{{instance}}")]


# --- a dashboard -------------------------------------------------------------------------------------


def _placed(rows):
    """Panels with their places: rows under each other, panels from left to right until a line is full. Row 2 has the number
    200, its panels 201, 202, …: a panel more at the end of a row changes no other's number, which alerts link to."""
    y, made = 0, []
    for row, (title, panels) in enumerate(rows, 1):
        made.append({"id": row * 100, "type": "row", "title": title, "collapsed": False, "panels": [],
                     "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}})
        y, x, line = y + 1, 0, 0
        for number, entry in enumerate(panels, 1):
            width, height = entry["width"], entry["height"]
            if x + width > WIDTH:
                x, y, line = 0, y + line, 0
            made.append({"id": row * 100 + number, **{key: value for key, value in entry.items() if key not in ("width", "height")},
                         "gridPos": {"x": x, "y": y, "w": width, "h": height}})
            x, line = x + width, max(line, height)
        y += line
    return made


def dashboard(uid, title, description, rows, variables=()):
    return {
        "uid": uid, "title": title, "description": description, "tags": [TAG], "schemaVersion": SCHEMA, "version": 1,
        "editable": False, "graphTooltip": 1, "timezone": "", "refresh": "30s", "time": {"from": "now-3h", "to": "now"},
        "links": [{"type": "dashboards", "title": "DataFlow", "tags": [TAG], "asDropdown": True, "includeVars": True,
                   "keepTime": True, "targetBlank": False}],
        "annotations": {"list": _annotations()},
        "templating": {"list": _variables(variables)},
        "panels": _placed(rows),
    }


def text_of(made):
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"
