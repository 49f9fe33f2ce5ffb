#!/usr/bin/python3
"""What changed in console/openapi.json since the last release, and which changes break clients (docs/versioning.md).

    tools/openapi_diff.py                     changes since tests/openapi/released.json; status 1 if one breaks
    tools/openapi_diff.py OLD NEW             of any two documents
    tools/openapi_diff.py --keep [DOCUMENT]   after a release: its document is the released one from now on

A schema is compared by where it stands. What clients send may only be accepted more widely, what they get may only be
promised more narrowly, or with members that they do not know yet. Both directions go through one function: a schema's set of
values must contain another's, and for answers the two are exchanged. Where the comparer cannot tell, it says that it breaks.

A break that is meant stands in tests/openapi/accepted.txt, as the line that this prints, with the reason above it.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "console/openapi.json"
RELEASED = ROOT / "tests/openapi/released.json"
ACCEPTED = ROOT / "tests/openapi/accepted.txt"
METHODS = ("get", "put", "post", "patch", "delete", "head", "options")
TEXTS = {"description", "summary", "example", "examples", "title", "externalDocs", "contact", "license", "tags"}
EVERY_TYPE = frozenset(("object", "array", "string", "integer", "number", "boolean", "null"))
# Keyword, and whether a larger value lets more values in.
LIMITS = {"maximum": True, "exclusiveMaximum": True, "maxLength": True, "maxItems": True, "maxProperties": True,
          "minimum": False, "exclusiveMinimum": False, "minLength": False, "minItems": False, "minProperties": False}
# Keywords with which two schemas are compared as a whole: they must be the same.
OPAQUE = ("pattern", "multipleOf", "uniqueItems", "not", "if", "then", "else", "dependentRequired", "patternProperties", "propertyNames",
          "contains", "prefixItems")


def slim(node, is_map=False):
    """A document without texts and examples. Names of properties and of components are kept, whatever they are."""
    if isinstance(node, list):
        return [slim(one) for one in node]
    if not isinstance(node, dict):
        return node
    maps = ("properties", "schemas", "parameters", "headers", "responses", "securitySchemes", "paths")
    return {name: slim(value, name in maps and not is_map and isinstance(value, dict)) for name, value in node.items()
            if is_map or name not in TEXTS}


class Document:
    def __init__(self, content):
        self.content = content

    def resolve(self, node):
        seen = set()
        while isinstance(node, dict) and "$ref" in node:
            ref = node["$ref"]
            if ref in seen:
                raise ValueError(f"{ref} leads to itself")
            seen.add(ref)
            node = self.content
            for part in ref.removeprefix("#/").split("/"):
                node = node[part.replace("~1", "/").replace("~0", "~")]
        return node

    def operations(self):
        """(path with its parameters numbered, method) → path as written, operation with the path's parameters."""
        found = {}
        for path, item in self.content.get("paths", {}).items():
            for method in METHODS:
                if method in item:
                    operation = dict(item[method])
                    operation["parameters"] = item.get("parameters", []) + operation.get("parameters", [])
                    found[re.sub(r"\{[^}]*\}", "{}", path), method] = (path, operation)
        return found

    def parameters(self, operation):
        """By place and name; those of a path, which callers do not name, by their number."""
        found = {}
        for parameter in map(self.resolve, operation["parameters"]):
            name = parameter["name"].lower() if parameter["in"] == "header" else parameter["name"]
            key = len([k for k in found if k[0] == "path"]) if parameter["in"] == "path" else name
            found[parameter["in"], key] = parameter
        return found


# --- schemas -----------------------------------------------------------------------------------------


def types_of(schema):
    if "type" in schema:
        listed = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return frozenset(listed) | ({"integer"} if "number" in listed else set())
    if "const" in schema or "enum" in schema:
        return frozenset(type_name(value) for value in values_of(schema))
    return EVERY_TYPE


def type_name(value):
    return {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object", type(None): "null"}[type(value)]


def values_of(schema):
    """The values of an enum or const; None if there may be any."""
    if "const" in schema:
        return [schema["const"]]
    return schema.get("enum")


def branches(schema):
    return schema.get("oneOf") or schema.get("anyOf")


class Containment:
    """Whether every value of one schema (`inner`, of one document) is a value of another (`outer`). Tells what is not.

    `answers` says which way it is asked: for a request the outer schema is the new one, for an answer the old one.
    """

    def __init__(self, outer_document, inner_document, answers):
        self.outer_document, self.inner_document = outer_document, inner_document
        self.answers = answers
        self.seen = set()

    def problems(self, outer, inner, where):
        pair = (json.dumps(outer, sort_keys=True), json.dumps(inner, sort_keys=True))
        if pair in self.seen:
            return
        self.seen.add(pair)
        outer, inner = self.outer_document.resolve(outer), self.inner_document.resolve(inner)
        if outer is True or outer == {}:
            return
        if isinstance(outer, bool) or isinstance(inner, bool):
            if outer is not inner:
                yield f"{where}: another schema"
            return
        if branches(outer) or branches(inner):
            yield from self.alternatives(outer, inner, where)
        else:
            yield from self.plain(outer, inner, where)
        if "allOf" in outer or "allOf" in inner:
            if len(outer.get("allOf", [])) != len(inner.get("allOf", [])):
                yield f"{where}: other parts of allOf"
            for one, other in zip(outer.get("allOf", []), inner.get("allOf", [])):
                yield from self.problems(one, other, where)

    def alternatives(self, outer, inner, where):
        """Each of the inner ones must be in one of the outer ones; else it is told what is wrong with the one that fits best."""
        for one in branches(inner) or [inner]:
            tried = (Containment(self.outer_document, self.inner_document, self.answers).problems(other, one, where)
                     for other in branches(outer) or [outer])
            yield from min(map(list, tried), key=len)

    def plain(self, outer, inner, where):
        missing = types_of(inner) - types_of(outer)
        if missing:
            yield f"{where}: type {self.change(', '.join(sorted(missing)))}"
        yield from self.values(outer, inner, where)
        yield from self.limits(outer, inner, where)
        yield from self.members(outer, inner, where)
        if "items" in outer:
            yield from self.problems(outer["items"], inner.get("items", {}), f"{where}[]")

    def change(self, what):
        return f"{what} is new" if self.answers else f"{what} is no longer taken"

    def values(self, outer, inner, where):
        allowed = values_of(outer)
        if allowed is None:
            return
        possible = values_of(inner)
        if possible is None:
            yield f"{where}: {'any value is possible, no longer only some' if self.answers else 'only some values are taken, no longer any'}"
            return
        for value in possible:
            if value not in allowed:
                yield f"{where}: value {self.change(json.dumps(value, ensure_ascii=False))}"

    def limits(self, outer, inner, where):
        for name, larger_is_wider in LIMITS.items():
            if name not in outer or (name == "minProperties" and len(inner.get("required", ())) >= outer[name]):
                continue
            if values_of(inner) is not None and name in ("minLength", "maxLength") and all(
                    isinstance(v, str) and (len(v) <= outer[name] if larger_is_wider else len(v) >= outer[name]) for v in values_of(inner)):
                continue
            if name not in inner or (inner[name] > outer[name] if larger_is_wider else inner[name] < outer[name]):
                old, new = (outer, inner) if self.answers else (inner, outer)
                yield f"{where}: {name} was {old.get(name, 'unlimited')}, is {new.get(name, 'unlimited')}"
        for name in OPAQUE:
            if name in outer and outer[name] != inner.get(name):
                yield f"{where}: another {name}"
        if "format" in outer and outer["format"] != inner.get("format") and values_of(inner) is None:
            yield f"{where}: format {outer['format']} {'is no longer promised' if self.answers else 'is asked for'}"

    def members(self, outer, inner, where):
        theirs = inner.get("properties", {})
        for name in outer.get("required", ()):
            if name not in inner.get("required", ()) and not (self.answers and name in outer.get("properties", {}) and name not in theirs):
                yield f"{where}.{name}: {'may be absent now' if self.answers else 'is required now'}"
        for name, schema in outer.get("properties", {}).items():
            if name in theirs:
                yield from self.problems(schema, theirs[name], f"{where}.{name}")
            elif self.answers:
                yield f"{where}.{name}: is gone"
        # Members that a document does not describe: clients ignore them in answers, the server in requests.
        extra = outer.get("additionalProperties", True)
        for name in () if self.answers else theirs.keys() - outer.get("properties", {}).keys():
            # A member that is not known any more is ignored, which is not what its sender wants.
            yield f"{where}.{name}: is no longer taken"
        if isinstance(extra, dict):
            yield from self.problems(extra, inner.get("additionalProperties", {}), f"{where}.*")
        elif extra is False and not self.answers and inner.get("additionalProperties", True) is not False:
            yield f"{where}: unknown members are refused now"


# --- operations --------------------------------------------------------------------------------------


class Comparison:
    def __init__(self, old, new):
        self.old, self.new = Document(old), Document(new)
        self.added = []

    def request_schema(self, old, new, where):
        """Whatever was taken must be taken."""
        return Containment(self.new, self.old, answers=False).problems(new, old, where)

    def answer_schema(self, old, new, where):
        """Whatever may come now might have come before."""
        return Containment(self.old, self.new, answers=True).problems(old, new, where)

    def breaks(self):
        old, new = self.old.operations(), self.new.operations()
        for key, (path, operation) in old.items():
            where = f"{key[1].upper()} {path}"
            if key not in new:
                yield f"{where}: is gone"
                continue
            yield from self.operation(operation, new[key][1], where)
        self.added += [f"{method.upper()} {new[path, method][0]}" for path, method in new if (path, method) not in old]
        yield from self.webhooks()

    def webhooks(self):
        """What the server sends by itself is an answer."""
        for name, item in self.old.content.get("webhooks", {}).items():
            theirs = self.new.content.get("webhooks", {}).get(name)
            if not theirs:
                yield f"webhook {name}: is gone"
                continue
            for method in METHODS:
                body = self.old.resolve(item.get(method, {})).get("requestBody")
                if body:
                    other = self.new.resolve(theirs.get(method, {})).get("requestBody", {})
                    yield from self.contents(body, other, f"webhook {name}", self.answer_schema, "is no longer sent")

    def operation(self, old, new, where):
        if old.get("operationId") != new.get("operationId"):
            yield f"{where}: operationId was {old.get('operationId')}, is {new.get('operationId')}"
        yield from self.security(old, new, where)
        yield from self.parameters(old, new, where)
        yield from self.body(old, new, where)
        yield from self.answers(old, new, where)

    def security(self, old, new, where):
        """One of the ways in that there were must be there, or an easier one."""
        ways = [set(way) for way in new.get("security", [])]
        for way in old.get("security", []):
            if ways and not any(other <= set(way) for other in ways):
                yield f"{where}: credentials {' and '.join(sorted(way))} are not enough any more"
        if not old.get("security") and ways and set() not in ways:
            yield f"{where}: credentials are needed now"
        ranks = ["read", "operate", "admin"]
        role, before = new.get("x-role"), old.get("x-role")
        if before in ranks and role in ranks and ranks.index(role) > ranks.index(before):
            yield f"{where}: role {role} is needed now, {before} was enough"

    def parameters(self, old, new, where):
        before, now = self.old.parameters(old), self.new.parameters(new)
        for key, parameter in before.items():
            label = f"{where}, {key[0]} {parameter['name']}"
            if key not in now:
                yield f"{label}: is gone"
                continue
            if now[key].get("required") and not parameter.get("required"):
                yield f"{label}: is required now"
            yield from self.request_schema(parameter.get("schema", {}), now[key].get("schema", {}), label)
        for key, parameter in now.items():
            if key not in before and parameter.get("required"):
                yield f"{where}, {key[0]} {parameter['name']}: is required now"

    def body(self, old, new, where):
        before, now = self.old.resolve(old.get("requestBody", {})), self.new.resolve(new.get("requestBody", {}))
        if now.get("required") and not before.get("required"):
            yield f"{where}: a body is required now"
        if before:
            yield from self.contents(before, now, f"{where}, body", self.request_schema, "is no longer taken")

    def contents(self, before, now, where, compare, gone):
        theirs = now.get("content", {})
        for kind, media in before.get("content", {}).items():
            if kind not in theirs:
                yield f"{where}: {kind} {gone}"
            else:
                yield from compare(media.get("schema", {}), theirs[kind].get("schema", {}), where)

    def answers(self, old, new, where):
        before, now = old.get("responses", {}), new.get("responses", {})
        for status, response in before.items():
            if status not in now:
                # A failure that is not described any more is one of the default's.
                if status.startswith("2") or "default" not in now:
                    yield f"{where}, {status}: is gone"
                continue
            response, other = self.old.resolve(response), self.new.resolve(now[status])
            for name in response.get("headers", {}):
                if name.lower() not in {header.lower() for header in other.get("headers", {})}:
                    yield f"{where}, {status}, header {name}: is gone"
            yield from self.contents(response, other, f"{where}, {status}", self.answer_schema, "is no longer answered")
        for status in now:
            if status not in before and status.startswith("2"):
                yield f"{where}, {status}: a success that clients do not know"


def breaking_changes(old, new):
    """One line each, in the order of the old document; a component that is used often tells once for each use."""
    return list(dict.fromkeys(Comparison(slim(old), slim(new)).breaks()))


def accepted_changes():
    lines = ACCEPTED.read_text(encoding="utf-8").splitlines() if ACCEPTED.exists() else []
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def read(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))


def keep(path):
    RELEASED.write_text(json.dumps(slim(read(path)), ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n", encoding="utf-8")
    ACCEPTED.write_text("# Breaking changes since the last release that are meant: the line of tools/openapi_diff.py, its reason above it.\n",
                        encoding="utf-8")


def main():
    args = sys.argv[1:]
    if args[:1] == ["--keep"]:
        keep(args[1] if len(args) > 1 else DOCUMENT)
        return 0
    old, new = (read(path) for path in (args if len(args) == 2 else (RELEASED, DOCUMENT)))
    comparison = Comparison(slim(old), slim(new))
    found = list(dict.fromkeys(comparison.breaks()))
    for line in found:
        print(f"breaks: {line}{' (accepted)' if line in accepted_changes() else ''}")
    for line in comparison.added:
        print(f"new: {line}")
    return 1 if set(found) - set(accepted_changes()) else 0


if __name__ == "__main__":
    sys.exit(main())
