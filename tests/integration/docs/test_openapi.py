"""console/openapi.json: well formed, complete, and the same routes as the binary."""

import json
import re

import pytest
from harness import ROOT, run

METHODS = {"get", "post", "put", "patch", "delete", "head", "options"}
DOCUMENT = json.loads((ROOT / "console" / "openapi.json").read_text(encoding="utf-8"))
OPERATIONS = [(method, path, operation) for path, item in DOCUMENT["paths"].items()
              for method, operation in item.items() if method in METHODS]


def resolve(ref):
    assert ref.startswith("#/"), ref
    node = DOCUMENT
    for part in ref[2:].split("/"):
        node = node[part.replace("~1", "/").replace("~0", "~")]
    return node


def walk(node):
    yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from walk(child)


def test_head():
    assert DOCUMENT["openapi"].startswith("3.1.")
    assert DOCUMENT["info"]["title"] and DOCUMENT["info"]["version"] == "0.1.0"
    assert set(DOCUMENT["components"]["securitySchemes"]) == {"ClientId", "ClientSecret", "AdminKey"}


def test_every_reference_resolves_and_every_component_is_used():
    refs = {node["$ref"] for node in walk(DOCUMENT) if isinstance(node, dict) and "$ref" in node}
    for ref in refs:
        assert resolve(ref)
    for kind in ("schemas", "responses", "parameters", "headers"):
        for name in DOCUMENT["components"][kind]:
            assert f"#/components/{kind}/{name}" in refs, f"{kind}/{name} is not used"


def test_operation_ids_are_unique():
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("method,path,operation", OPERATIONS, ids=[f"{m} {p}" for m, p, _ in OPERATIONS])
def test_operation(method, path, operation):
    assert re.fullmatch(r"[a-z][A-Za-z0-9]*", operation["operationId"])
    assert operation["summary"]
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    assert operation["tags"] and set(operation["tags"]) <= tags
    for requirement in operation["security"]:
        assert set(requirement) <= set(DOCUMENT["components"]["securitySchemes"])
    parameters = [resolve(p["$ref"]) if "$ref" in p else p for p in operation["parameters"]]
    named = {p["name"] for p in parameters if p["in"] == "path"}
    assert named == set(re.findall(r"\{(\w+)\}", path))
    assert all(p["required"] for p in parameters if p["in"] == "path")
    assert all("schema" in p for p in parameters)
    assert {"X-Correlation-Id", "traceparent"} <= {p["name"] for p in parameters}
    assert any(re.fullmatch(r"2\d\d", status) for status in operation["responses"]) and "default" in operation["responses"]
    for status, response in operation["responses"].items():
        assert re.fullmatch(r"[1-5]\d\d|default", status)
        response = resolve(response["$ref"]) if "$ref" in response else response
        assert response["description"]
        assert {"X-Correlation-Id", "traceparent"} <= set(response["headers"])
    if operation.get("deprecated"):
        for status, response in operation["responses"].items():
            described = (resolve(response["$ref"]) if "$ref" in response else response)["headers"]
            assert status.startswith(("4", "5", "default")) or {"Deprecation", "Link"} <= set(described)
    if path.startswith("/admin/"):
        assert operation["security"] == [{"AdminKey": []}] and {"401", "404"} <= set(operation["responses"])


def test_the_binary_serves_exactly_these_routes():
    listed = run("help", "routes")
    assert listed.returncode == 0
    routes = {re.sub(r"\.\.\.\}", "}", line.strip()) for line in listed.stdout.splitlines() if line.strip()}
    assert routes == {f"{method.upper()} {path}{' deprecated' if operation.get('deprecated') else ''}" for method, path, operation in OPERATIONS}


@pytest.fixture(scope="module")
def examples(server):
    """Answers of a running server, to compare with the schemas."""
    client = server.new_client("Exemplo", clientId="exemplo")
    admin = server.admin()
    return {
        "Health": server.anonymous().get("/healthz").json,
        "Readiness": server.anonymous().get("/readyz").json,
        "WhoAmI": client.get("/whoami").json,
        "Client": admin.get("/admin/clients/exemplo").json,
        "ClientPage": admin.get("/admin/clients").json,
        "AuditPage": admin.get("/admin/audit").json,
        "Problem": server.anonymous().get("/whoami").json,
    }


@pytest.mark.parametrize("name", ["Health", "Readiness", "WhoAmI", "Client", "ClientPage", "AuditPage", "Problem"])
def test_answers_match_their_schemas(examples, name):
    check(examples[name], DOCUMENT["components"]["schemas"][name], name)


def test_the_served_document_is_this_one(server):
    assert server.anonymous().get("/openapi.json").json == DOCUMENT


TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None)}


def check(value, schema, where):
    """Checks the part of JSON Schema that the document uses; members that the schema does not name are an error."""
    if "$ref" in schema:
        schema = resolve(schema["$ref"])
    if "const" in schema:
        assert value == schema["const"], where
    if "enum" in schema:
        assert value in schema["enum"], where
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    assert not types or any(isinstance(value, TYPES[t]) for t in types), f"{where}: {value!r} is not {types}"
    if isinstance(value, dict) and "properties" in schema:
        assert set(schema.get("required", [])) <= set(value), where
        others = set(value) - set(schema["properties"])
        assert not others or schema.get("additionalProperties") is True, f"{where}: {others} not described"
        for name in value.keys() - others:
            check(value[name], schema["properties"][name], f"{where}.{name}")
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            check(item, schema["items"], f"{where}[{i}]")
    if isinstance(value, str):
        assert "pattern" not in schema or re.search(schema["pattern"], value), where
        assert len(value) <= schema.get("maxLength", len(value)), where
        if schema.get("format") == "date-time":
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", value), where
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        assert schema.get("minimum", value) <= value <= schema.get("maximum", value), where
