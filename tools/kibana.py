#!/usr/bin/python3
"""Makes the saved objects for Kibana, deploy/kibana/dataflow.ndjson, of what is written here: a data view on the log that
`log.ship=elastic://…` sends, saved searches, and a dashboard.

    kibana.py            writes them
    kibana.py --check    exit status 1 if the file is not as it would be written

Field names are those of the Elastic Common Schema; what it has no name for is `labels.NAME` if it is text, `dataflow.NAME`
if not (src/ship/elastic.c).
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "deploy" / "kibana" / "dataflow.ndjson"
VIEW = "dataflow-logs"
# Kibana 8.9 and newer take these as they are, and bring them to their own form.
CORE, TYPES = "8.8.0", {"index-pattern": "8.0.0", "search": "8.0.0", "lens": "8.9.0", "visualization": "8.5.0", "dashboard": "8.9.0"}
WIDTH = 48
COLUMNS = ["log.level", "event.action", "message", "labels.correlationId"]


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def saved(kind, name, attributes, references=()):
    return {"id": name, "type": kind, "attributes": attributes, "references": list(references), "coreMigrationVersion": CORE,
            "typeMigrationVersion": TYPES[kind], "managed": False}


def source(query, **more):
    return {"searchSourceJSON": compact({"query": {"language": "kuery", "query": query}, "filter": [], **more})}


def view():
    return saved("index-pattern", VIEW, {"title": "logs-dataflow-*", "name": "DataFlow logs", "timeFieldName": "@timestamp"})


def search(name, title, description, query, columns, sort="desc"):
    place = "kibanaSavedObjectMeta.searchSourceJSON.index"
    return saved("search", f"dataflow-{name}", {
        "title": title, "description": description, "columns": columns, "sort": [["@timestamp", sort]], "grid": {},
        "hideChart": False, "kibanaSavedObjectMeta": source(query, indexRefName=place)},
        [{"id": VIEW, "name": place, "type": "index-pattern"}])


# --- Lens --------------------------------------------------------------------------------------------


def _count():
    return {"label": "Lines", "dataType": "number", "operationType": "count", "isBucketed": False, "scale": "ratio",
            "sourceField": "___records___", "params": {"emptyAsNull": True}}


def _over_time():
    return {"label": "@timestamp", "dataType": "date", "operationType": "date_histogram", "isBucketed": True, "scale": "interval",
            "sourceField": "@timestamp", "params": {"interval": "auto", "includeEmptyRows": True, "dropPartials": False}}


def _top(field, size):
    return {"label": field, "dataType": "string", "operationType": "terms", "isBucketed": True, "scale": "ordinal", "sourceField": field,
            "params": {"size": size, "orderBy": {"type": "column", "columnId": "count"}, "orderDirection": "desc", "otherBucket": True,
                       "missingBucket": False, "parentFormat": {"id": "terms"}}}


def lens(name, title, description, query, kind, columns, visualization):
    layer = {"columns": columns, "columnOrder": list(columns), "incompleteColumns": {}, "sampling": 1}
    return saved("lens", f"dataflow-{name}", {
        "title": title, "description": description, "visualizationType": kind, "state": {
            "datasourceStates": {"formBased": {"layers": {"layer": layer}}}, "visualization": visualization, "filters": [],
            "query": {"language": "kuery", "query": query}, "internalReferences": [], "adHocDataViews": {}}},
        [{"id": VIEW, "name": "indexpattern-datasource-layer-layer", "type": "index-pattern"}])


def bars(name, title, description, query, field, size=8):
    """Lines over time, by a field."""
    drawn = {"preferredSeriesType": "bar_stacked", "legend": {"isVisible": True, "position": "right"}, "valueLabels": "hide", "layers": [
        {"layerId": "layer", "layerType": "data", "seriesType": "bar_stacked", "xAccessor": "time", "splitAccessor": "split",
         "accessors": ["count"]}]}
    return lens(name, title, description, query, "lnsXY", {"split": _top(field, size), "time": _over_time(), "count": _count()}, drawn)


def ranking(name, title, description, query, *fields, size=20):
    """The values with the most lines."""
    columns = {f"split{i}": _top(field, size) for i, field in enumerate(fields)} | {"count": _count()}
    drawn = {"layerId": "layer", "layerType": "data", "columns": [{"columnId": column} for column in columns]}
    return lens(name, title, description, query, "lnsDatatable", columns, drawn)


def markdown(name, title, description, text):
    state = {"title": title, "type": "markdown", "aggs": [], "params": {"fontSize": 12, "openLinksInNewTab": False, "markdown": text}}
    return saved("visualization", f"dataflow-{name}", {"title": title, "description": description, "version": 1, "uiStateJSON": "{}",
                                                       "visState": compact(state), "kibanaSavedObjectMeta": source("")})


# --- what there is -----------------------------------------------------------------------------------

FAILED = "event.action : (DeliveryGivenUp or WebhookFailed or OutboxEventFailed or TicketGivenUp)"
HANDLED = "event.action : (OutboxRetried or OutboxRetriedAll or DeliveryDismissed or WebhookReplayed)"
HELP = """**One document**: open the saved search *DataFlow: one document* and put `labels.correlationId : "…"` or `trace.id : "…"` into \
the search bar, from an answer's `X-Correlation-Id`, a problem's `correlationId`, or a trace.

`log.level`, `event.action`, `message`, `trace.id`, `span.id` and `client.ip` are of the Elastic Common Schema. Everything else of a line \
is `labels.NAME` (text: `clientId`, `batchId`, `channel`, `route`, …) or `dataflow.NAME` (numbers: `status`, `durationMs`, …)."""


def objects():
    columns_of_delivery = ["event.action", "labels.channel", "labels.target", "labels.relay", "labels.id", "labels.reason", "message"]
    return [
        view(),
        search("errors", "DataFlow: errors", "What needs a person, newest first.", "log.level : error", COLUMNS),
        search("warnings", "DataFlow: errors and warnings", "With what failed and is tried again.", "log.level : (error or warn)", COLUMNS),
        search("document", "DataFlow: one document", "Everything about one document, in its order: add a correlation id or a trace id.",
               "labels.correlationId : * or trace.id : *",
               ["event.action", "message", "labels.correlationId", "trace.id", "labels.clientId", "labels.batchId", "dataflow.status",
                "dataflow.durationMs"], sort="asc"),
        search("given-up", "DataFlow: deliveries given up", "Documents that were given up, and who retried or dismissed them.",
               f"{FAILED} or {HANDLED}", columns_of_delivery),
        search("requests", "DataFlow: requests that failed", "Requests that were answered 5xx.",
               "event.action : RequestServed and dataflow.status >= 500",
               ["labels.method", "labels.route", "dataflow.status", "dataflow.durationMs", "labels.clientId", "client.ip", "labels.correlationId"]),
        bars("levels", "Lines by level", "How much is logged, and how much of it is bad.", "", "log.level"),
        bars("error-events", "Errors and warnings by event", "What kind of trouble, over time.", "log.level : (error or warn)", "event.action"),
        ranking("top-events", "Most frequent trouble", "Events of errors and warnings with the most lines.", "log.level : (error or warn)",
                "event.action", "log.level"),
        ranking("channels", "Given up by channel", "Where documents were given up, and why.", "event.action : DeliveryGivenUp", "labels.channel",
                "labels.reason"),
        ranking("clients", "Requests by client and route", "Who calls what.", "event.action : RequestServed", "labels.clientId", "labels.route"),
        markdown("help", "How to find a document", "What the fields are called.", HELP),
        board(),
    ]


def board():
    """Panels: kind, object, width, height; from left to right until a line is full."""
    panels = [("lens", "levels", 24, 12), ("lens", "error-events", 24, 12), ("lens", "top-events", 16, 14), ("lens", "channels", 16, 14),
              ("lens", "clients", 16, 14), ("visualization", "help", 48, 7), ("search", "errors", 48, 16), ("search", "given-up", 48, 14)]
    made, references, x, y, line = [], [], 0, 0, 0
    for number, (kind, name, width, height) in enumerate(panels, 1):
        if x + width > WIDTH:
            x, y, line = 0, y + line, 0
        made.append({"type": kind, "panelIndex": str(number), "panelRefName": f"panel_{number}", "embeddableConfig": {"enhancements": {}},
                     "gridData": {"x": x, "y": y, "w": width, "h": height, "i": str(number)}})
        references.append({"id": f"dataflow-{name}", "name": f"{number}:panel_{number}", "type": kind})
        x, line = x + width, max(line, height)
    return saved("dashboard", "dataflow-logs-overview", {
        "title": "DataFlow: log", "description": "The log of all DataFlow servers: how much, what trouble, what was given up.",
        "panelsJSON": compact(made), "optionsJSON": compact({"useMargins": True, "syncColors": False, "hidePanelTitles": False}),
        "timeRestore": True, "timeFrom": "now-24h", "timeTo": "now", "refreshInterval": {"pause": True, "value": 60000}, "version": 1,
        "kibanaSavedObjectMeta": source("")}, references)


def text():
    return "".join(compact(entry) + "\n" for entry in objects())


def main(args):
    if args not in ([], ["--check"]):
        raise SystemExit(__doc__)
    if not args:
        PLACE.write_text(text(), encoding="utf-8")
    elif not PLACE.exists() or PLACE.read_text(encoding="utf-8") != text():
        print(f"{PLACE.name} is not what tools/kibana.py makes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
