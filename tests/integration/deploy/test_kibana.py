"""deploy/kibana: the saved objects are whole, and what they ask for is in the log that a server under traffic ships to
Elasticsearch."""

import json
import re

import kibana
import pytest
from harness import ROOT, Backend, wait_for
from traffic import Traffic

OBJECTS = [json.loads(line) for line in kibana.PLACE.read_text(encoding="utf-8").splitlines()]
BY_ID = {(entry["type"], entry["id"]): entry for entry in OBJECTS}

pytestmark = pytest.mark.tools


def test_the_file_is_what_the_tool_makes(tmp_path, monkeypatch, capsys):
    assert kibana.main(["--check"]) == 0
    monkeypatch.setattr(kibana, "PLACE", tmp_path / "dataflow.ndjson")
    assert kibana.main(["--check"]) == 1 and "dataflow.ndjson" in capsys.readouterr().err
    assert kibana.main([]) == 0 and kibana.main(["--check"]) == 0


def test_objects_are_whole():
    assert len(BY_ID) == len(OBJECTS) > 10
    for entry in OBJECTS:
        assert {"id", "type", "attributes", "references", "coreMigrationVersion", "typeMigrationVersion"} <= set(entry)
        attributes = entry["attributes"]
        assert attributes["title"] and (entry["type"] == "index-pattern" or attributes["description"]), entry["id"]
        for name in ("panelsJSON", "optionsJSON", "visState", "uiStateJSON"):
            json.loads(attributes.get(name, "{}"))


def test_references_resolve():
    for entry in OBJECTS:
        names = [reference["name"] for reference in entry["references"]]
        assert len(names) == len(set(names)), entry["id"]
        for reference in entry["references"]:
            assert (reference["type"], reference["id"]) in BY_ID, reference
        attributes = entry["attributes"]
        if entry["type"] == "search":
            assert json.loads(attributes["kibanaSavedObjectMeta"]["searchSourceJSON"])["indexRefName"] in names
        elif entry["type"] == "lens":
            assert {f"indexpattern-datasource-layer-{layer}" for layer in layers(entry)} == set(names)
        elif entry["type"] == "dashboard":
            panels = json.loads(attributes["panelsJSON"])
            assert [f"{panel['panelIndex']}:{panel['panelRefName']}" for panel in panels] == names
            assert [panel["type"] for panel in panels] == [reference["type"] for reference in entry["references"]]


def layers(entry):
    return entry["attributes"]["state"]["datasourceStates"]["formBased"]["layers"]


def test_what_is_drawn_names_columns_that_there_are():
    drawn = [entry for entry in OBJECTS if entry["type"] == "lens"]
    assert len(drawn) > 3
    for entry in drawn:
        shown = json.dumps(entry["attributes"]["state"]["visualization"])
        used = set(re.findall(r'"(?:columnId|xAccessor|splitAccessor)": "(\w+)"', shown)) | set(
            re.findall(r'"accessors": \["(\w+)"\]', shown))
        for layer in layers(entry).values():
            assert used == set(layer["columns"]) == set(layer["columnOrder"]), entry["id"]
            for column in layer["columns"].values():
                order = column["params"].get("orderBy")
                assert order is None or order["columnId"] in layer["columns"]


def test_the_data_view_is_the_index_of_the_documentation():
    view = BY_ID["index-pattern", kibana.VIEW]["attributes"]
    assert view["timeFieldName"] == "@timestamp"
    assert f"`{view['title']}`" in (ROOT / "docs" / "dashboards.md").read_text(encoding="utf-8")


# --- on a real log -----------------------------------------------------------------------------------


def as_fields(document):
    """As Elasticsearch names the fields of what it was sent."""
    return {name: value for name, value in document.items() if not isinstance(value, dict)} | {
        f"{group}.{name}": value for group in ("labels", "dataflow") for name, value in document.get(group, {}).items()}


def matches(query, document):
    """The part of Kibana's query language that the searches use: a : b, a : (b or c), a : *, a >= n, and, or."""
    if not query:
        return True
    tokens = re.findall(r"\(|\)|>=|:|[\w@.*-]+", query)

    def either():
        found = both()
        while tokens and tokens[0] == "or":
            tokens.pop(0)
            found = both() or found
        return found

    def both():
        found = one()
        while tokens and tokens[0] == "and":
            tokens.pop(0)
            found = one() and found
        return found

    def one():
        field, how = tokens.pop(0), tokens.pop(0)
        value = document.get(field)
        if how == ">=":
            limit = float(tokens.pop(0))
            return isinstance(value, (int, float)) and value >= limit
        assert how == ":", query
        wanted = [tokens.pop(0)]
        if wanted == ["("]:
            wanted = []
            while tokens[0] != ")":
                word = tokens.pop(0)
                wanted += [word] if word != "or" else []
            tokens.pop(0)
        return value is not None and ("*" in wanted or str(value) in wanted)

    found = either()
    assert not tokens, query
    return found


@pytest.mark.parametrize("query,found", [
    ("", True), ("a.b : x", True), ("a.b : y", False), ("a.b : (y or x)", True), ("a.b : *", True), ("c : *", False), ("n >= 5", True),
    ("n >= 6", False), ("a.b : x and n >= 6", False), ("a.b : y or n >= 5", True), ("a.b : y and c : * or n >= 1", True)])
def test_queries_are_understood(query, found):
    assert matches(query, {"a.b": "x", "n": 5}) is found


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    with Traffic(Backend("sqlite", tmp_path_factory.mktemp("busy")), tmp_path_factory.mktemp) as traffic:
        traffic.round()
        traffic.round()
        admin = traffic.server.admin()
        wait_for(lambda: admin.get("/admin/outbox/functional-ack?status=Error").json["total"] > 0, "one that was given up")
        assert admin.post("/admin/outbox/functional-ack/retry").status == 200
        for event in ("DeliveryGivenUp", "WebhookFailed", "OutboxEventFailed", "OutboxRetriedAll"):
            wait_for(lambda event=event: any(text[2] == event for text in traffic.log_target.texts()), event)
        yield [as_fields(document) for document in list(traffic.log_target.documents.values())]


def queries(entry):
    if entry["type"] == "search":
        return [json.loads(entry["attributes"]["kibanaSavedObjectMeta"]["searchSourceJSON"])["query"]["query"]]
    return [entry["attributes"]["state"]["query"]["query"]] if entry["type"] == "lens" else []


def shown_fields(entry):
    if entry["type"] == "search":
        return set(entry["attributes"]["columns"]) | {field for field, _ in entry["attributes"]["sort"]}
    if entry["type"] == "lens":
        return {column["sourceField"] for layer in layers(entry).values() for column in layer["columns"].values()} - {"___records___"}
    return set()


def test_every_search_finds_something_and_every_column_is_filled(documents):
    looked_at = 0
    for entry in OBJECTS:
        for query in queries(entry):
            found = [document for document in documents if matches(query, document)]
            assert found, f"{entry['id']}: {query}"
            missing = shown_fields(entry) - set().union(*found)
            assert not missing, f"{entry['id']}: no line has {missing}"
            looked_at += 1
    assert looked_at > 8


def test_every_field_of_a_query_is_in_the_log(documents):
    known = set().union(*documents)
    used = {field for entry in OBJECTS for query in queries(entry) for field in re.findall(r"([\w@.]+) (?::|>=)", query)}
    assert used and used <= known


def test_every_event_of_a_query_is_one_of_the_program():
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.c"))
    used = {name for entry in OBJECTS for query in queries(entry) for name in re.findall(r"\b[A-Z][a-z]+[A-Z]\w+", query)}
    assert "DeliveryGivenUp" in used and all(f'"{name}"' in source for name in used)
