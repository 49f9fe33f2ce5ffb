"""tools/openapi_diff.py: which changes of an OpenAPI document break its clients; and that ours has none since the last release."""

import copy
import json
import subprocess
import sys

import openapi_diff
import pytest
from harness import ROOT
from test_openapi import DOCUMENT

pytestmark = pytest.mark.tools
RELEASED = json.loads((ROOT / "tests/openapi/released.json").read_text(encoding="utf-8"))


def test_nothing_is_broken_since_the_last_release():
    found = openapi_diff.breaking_changes(RELEASED, DOCUMENT)
    assert [line for line in found if line not in openapi_diff.accepted_changes()] == []


def test_what_is_accepted_is_there_and_has_a_reason():
    found = openapi_diff.breaking_changes(RELEASED, DOCUMENT)
    assert [line for line in openapi_diff.accepted_changes() if line not in found] == []
    blocks = (ROOT / "tests/openapi/accepted.txt").read_text(encoding="utf-8").strip().split("\n\n")[1:]
    assert all(block.startswith("# ") for block in blocks)


def test_the_kept_document_is_that_of_the_release_before():
    commit = (ROOT / "tests/upgrade/RELEASE").read_text(encoding="ascii").strip()
    shown = subprocess.run(["git", "show", f"{commit}:console/openapi.json"], cwd=ROOT, capture_output=True, text=True, check=False)
    if shown.returncode:
        pytest.skip("the release before is not in the history")
    assert openapi_diff.slim(json.loads(shown.stdout)) == RELEASED


# --- a small document, and what happens to it -------------------------------------------------------

BASE = {
    "openapi": "3.1.0",
    "paths": {
        "/things/{id}": {
            "get": {
                "operationId": "getThing", "security": [{"Key": []}], "x-role": "read",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}},
                               {"name": "size", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 200}},
                               {"name": "kind", "in": "query", "schema": {"type": "string", "enum": ["a", "b"]}}],
                "responses": {"200": {"headers": {"ETag": {"schema": {"type": "string"}}},
                                      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
                              "404": {"content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}},
                              "default": {"content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}},
            },
            "put": {
                "operationId": "putThing", "security": [{"Key": []}, {"Id": [], "Secret": []}],
                "parameters": [{"$ref": "#/components/parameters/Id"}],
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/NewThing"}},
                                            "text/csv": {"schema": {"type": "string"}}}},
                "responses": {"204": {}, "default": {}},
            },
        },
    },
    "webhooks": {"ThingMade": {"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}}}}},
    "components": {
        "parameters": {"Id": {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}},
        "schemas": {
            "Problem": {"type": "object", "required": ["status"], "properties": {"status": {"type": "integer"}, "code": {"type": "string"}}},
            "Thing": {"type": "object", "required": ["id", "state"], "properties": {
                "id": {"type": "integer"}, "state": {"type": "string", "enum": ["New", "Done"]}, "note": {"type": ["string", "null"], "maxLength": 100},
                "at": {"type": "string", "format": "date-time"}, "tags": {"type": "array", "items": {"type": "string"}},
                "parent": {"$ref": "#/components/schemas/Thing"}}},
            "NewThing": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string", "maxLength": 100}, "count": {"type": ["integer", "string"]}, "state": {"enum": ["New", "Done"]},
                "when": {"oneOf": [{"type": "string"}, {"type": "integer"}]}, "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 5}}},
        },
    },
}
GET = ("paths", "/things/{id}", "get")
PUT = ("paths", "/things/{id}", "put")
THING = ("components", "schemas", "Thing", "properties")
NEW = ("components", "schemas", "NewThing", "properties")
GONE = object()


def changed(*changes):
    """The document with members set, or taken away."""
    document = copy.deepcopy(BASE)
    for path, value in changes:
        node = document
        for name in path[:-1]:
            node = node[name]
        if value is GONE:
            del node[path[-1]]
        else:
            node[path[-1]] = value
    return document


BREAKING = {
    "a path is gone": (("paths", "/things/{id}"), GONE),
    "a method is gone": (PUT, GONE),
    "an operation has another name": ((*GET, "operationId"), "readThing"),
    "a parameter is gone": ((*GET, "parameters", 1), GONE),
    "a parameter is required": ((*GET, "parameters", 1, "required"), True),
    "a new parameter is required": ((*GET, "parameters", 1), {"name": "other", "in": "query", "required": True, "schema": {}}),
    "a parameter takes fewer values": ((*GET, "parameters", 2, "schema", "enum"), ["a"]),
    "a parameter has a lower maximum": ((*GET, "parameters", 1, "schema", "maximum"), 100),
    "a parameter has a higher minimum": ((*GET, "parameters", 1, "schema", "minimum"), 2),
    "a parameter has another type": ((*GET, "parameters", 0, "schema", "type"), "string"),
    "a parameter has a pattern": ((*GET, "parameters", 2, "schema", "pattern"), "^x"),
    "a body is required": ((*PUT, "requestBody", "required"), True),
    "a kind of body is gone": ((*PUT, "requestBody", "content", "text/csv"), GONE),
    "a member of a request is required": (("components", "schemas", "NewThing", "required"), ["name", "count"]),
    "a member of a request is gone": ((*NEW, "count"), GONE),
    "a member of a request takes fewer types": ((*NEW, "count", "type"), "integer"),
    "a member of a request takes fewer values": ((*NEW, "state", "enum"), ["New"]),
    "a member of a request takes only some values": ((*NEW, "name", "enum"), ["x"]),
    "a member of a request is shorter": ((*NEW, "name", "maxLength"), 50),
    "a member of a request must be longer": ((*NEW, "name", "minLength"), 1),
    "a member of a request has a format": ((*NEW, "name", "format"), "uuid"),
    "an alternative of a request is gone": ((*NEW, "when", "oneOf"), [{"type": "string"}]),
    "a list of a request takes fewer": ((*NEW, "tags", "maxItems"), 4),
    "items of a request have another type": ((*NEW, "tags", "items", "type"), "integer"),
    "unknown members of a request are refused": (("components", "schemas", "NewThing", "additionalProperties"), False),
    "a success is gone": ((*GET, "responses", "200"), GONE),
    "another success": ((*GET, "responses", "202"), {}),
    "a header of an answer is gone": ((*GET, "responses", "200", "headers", "ETag"), GONE),
    "a kind of answer is gone": ((*GET, "responses", "200", "content"), {"text/csv": {}}),
    "a failure without a default is gone": ((*GET, "responses"), {"200": BASE["paths"]["/things/{id}"]["get"]["responses"]["200"]}),
    "a member of an answer is gone": ((*THING, "note"), GONE),
    "a member of an answer may be absent": (("components", "schemas", "Thing", "required"), ["id"]),
    "a member of an answer has another type": ((*THING, "id", "type"), "string"),
    "a member of an answer may be null": ((*THING, "id", "type"), ["integer", "null"]),
    "a member of an answer may be a fraction": ((*THING, "id", "type"), "number"),
    "a member of an answer has a new value": ((*THING, "state", "enum"), ["New", "Done", "Lost"]),
    "a member of an answer may have any value": ((*THING, "state"), {"type": "string"}),
    "a member of an answer may be longer": ((*THING, "note", "maxLength"), 200),
    "a member of an answer has no limit": ((*THING, "note"), {"type": ["string", "null"]}),
    "a member of an answer has no format": ((*THING, "at"), {"type": "string"}),
    "items of an answer have another type": ((*THING, "tags", "items", "type"), "integer"),
    "an answer has another alternative": ((*THING, "id"), {"oneOf": [{"type": "integer"}, {"type": "string"}]}),
    "a failure has no status": (("components", "schemas", "Problem", "required"), []),
    "a member of a webhook is gone": (("webhooks", "ThingMade"), GONE),
    "credentials are needed": ((*PUT, "security"), [{"Key": [], "Other": []}]),
    "a way in is gone": ((*PUT, "security"), [{"Key": []}]),
    "a higher role is needed": ((*GET, "x-role"), "admin"),
}
HARMLESS = {
    "nothing": ((*GET, "operationId"), "getThing"),
    "another text": ((*GET, "description"), "Says more."),
    "another name of a path's parameter": (("paths",), {"/things/{thing}": BASE["paths"]["/things/{id}"]}),
    "a new path": (("paths", "/others"), {"get": {"operationId": "listOthers", "responses": {}}}),
    "a new method": (("paths", "/things/{id}", "delete"), {"operationId": "deleteThing", "responses": {}}),
    "a new parameter": ((*PUT, "parameters"), [{"$ref": "#/components/parameters/Id"}, {"name": "new", "in": "query", "schema": {"type": "string"}}]),
    "a parameter takes more values": ((*GET, "parameters", 2, "schema", "enum"), ["a", "b", "c"]),
    "a parameter takes any value": ((*GET, "parameters", 2, "schema"), {"type": "string"}),
    "a parameter has a higher maximum": ((*GET, "parameters", 1, "schema", "maximum"), 500),
    "a parameter has no limit": ((*GET, "parameters", 1, "schema"), {"type": "integer"}),
    "a parameter takes more types": ((*GET, "parameters", 0, "schema", "type"), ["integer", "string"]),
    "a parameter takes fractions": ((*GET, "parameters", 0, "schema", "type"), "number"),
    "a new member of a request": ((*NEW, "more"), {"type": "string"}),
    "a member of a request need not be there": (("components", "schemas", "NewThing", "required"), []),
    "a member of a request may be longer": ((*NEW, "name", "maxLength"), 200),
    "a member of a request takes any type": ((*NEW, "count"), {}),
    "a new alternative of a request": ((*NEW, "when", "oneOf"), [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}]),
    "another order of alternatives": ((*NEW, "when", "oneOf"), [{"type": "integer"}, {"type": "string"}]),
    "a new kind of body": ((*PUT, "requestBody", "content", "text/plain"), {}),
    "at least one member, of which one is required": (("components", "schemas", "NewThing", "minProperties"), 1),
    "a new member of an answer": ((*THING, "more"), {"type": "string"}),
    "a member of an answer is always there": (("components", "schemas", "Thing", "required"), ["id", "state", "note"]),
    "a member of an answer is never null": ((*THING, "note", "type"), "string"),
    "a member of an answer has fewer values": ((*THING, "state", "enum"), ["New"]),
    "a member of an answer has one value": ((*THING, "state"), {"const": "Done"}),
    "a member of an answer is shorter": ((*THING, "note", "maxLength"), 50),
    "a new failure": ((*GET, "responses", "409"), {}),
    "a failure of which the default tells": ((*GET, "responses", "404"), GONE),
    "a new header": ((*GET, "responses", "200", "headers", "Link"), {"schema": {"type": "string"}}),
    "another kind of answer": ((*GET, "responses", "200", "content", "text/csv"), {"schema": {"type": "string"}}),
    "a new way in": ((*GET, "security"), [{"Key": []}, {"Id": [], "Secret": []}]),
    "no credentials are needed": ((*GET, "security"), []),
    "a schema in place of a reference": ((*PUT, "requestBody", "content", "application/json", "schema"), BASE["components"]["schemas"]["NewThing"]),
    "a call is deprecated": ((*GET, "deprecated"), True),
    "a new webhook": (("webhooks", "ThingLost"), {"post": {}}),
}


@pytest.mark.parametrize("change", BREAKING.values(), ids=BREAKING)
def test_a_breaking_change_is_found(change):
    assert openapi_diff.breaking_changes(BASE, changed(change))


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_a_harmless_change_is_not(change):
    assert openapi_diff.breaking_changes(BASE, changed(change)) == []


def test_every_break_is_told_and_says_where():
    found = openapi_diff.breaking_changes(BASE, changed(((*THING, "note"), GONE), ((*NEW, "name", "maxLength"), 50), (PUT[:2] + ("get", "x-role"), "admin")))
    assert found == ["GET /things/{id}: role admin is needed now, read was enough",
                     "GET /things/{id}, 200.note: is gone",
                     "PUT /things/{id}, body.name: maxLength was 100, is 50",
                     "webhook ThingMade.note: is gone"]


def test_a_property_may_have_the_name_of_a_text():
    """`description` of a schema is left out when a document is kept; a property of that name is not."""
    document = changed(((*THING, "description"), {"type": "string", "description": "Says what it is."}))
    kept = openapi_diff.slim(document)
    assert kept["components"]["schemas"]["Thing"]["properties"]["description"] == {"type": "string"}
    assert openapi_diff.breaking_changes(kept, BASE)


def test_the_command(tmp_path):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(BASE), encoding="utf-8")
    new.write_text(json.dumps(changed((PUT, GONE), (("paths", "/others"), {"get": {"responses": {}}}))), encoding="utf-8")

    def diff(*paths):
        return subprocess.run([sys.executable, ROOT / "tools/openapi_diff.py", *paths], capture_output=True, text=True, check=False)

    done = diff(old, new)
    assert (done.returncode, done.stdout) == (1, "breaks: PUT /things/{id}: is gone\nnew: GET /others\n")
    done = diff(old, old)
    assert (done.returncode, done.stdout) == (0, "")
