#!/usr/bin/python3
"""What every operation of console/openapi.json must have; prints a line for each that lacks something.

    tools/check_openapi.py [DOCUMENT]

Spectral and Redocly know what OpenAPI asks for. This is what we ask for: a name that SDKs can use, a tag, a description,
the failures that every call may end with, and an example of every JSON that is sent.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
METHODS = ("get", "put", "post", "patch", "delete", "head", "options")


def operations(document):
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield method, path, item[method]


def lacks_of_operation(operation, tags):
    if not re.fullmatch(r"[a-z][A-Za-z0-9]*", operation.get("operationId", "")):
        yield "an operationId in camelCase"
    if not operation.get("tags") or not set(operation["tags"]) <= tags:
        yield "a tag that the document describes"
    for text in ("summary", "description"):
        if not operation.get(text, "").strip():
            yield f"a {text}"
    statuses = set(operation.get("responses", ()))
    if not any(re.fullmatch(r"2\d\d", status) for status in statuses):
        yield "an answer 2xx"
    if not any(re.fullmatch(r"4\d\d", status) for status in statuses):
        yield "an answer 4xx"
    if "default" not in statuses:
        yield "a default answer"
    if operation.get("security") != [] and not any(re.fullmatch(r"5\d\d", status) for status in statuses):
        yield "an answer 5xx"
    if "security" not in operation:
        yield "security, be it none: []"
    sent = operation.get("requestBody", {}).get("content", {})
    if "application/json" in sent and not {"example", "examples"} & sent["application/json"].keys():
        yield "an example of the JSON that is sent"


def problems(document):
    tags = {tag["name"] for tag in document.get("tags", ())}
    seen = {}
    for method, path, operation in operations(document):
        where = f"{method.upper()} {path}"
        yield from (f"{where} lacks {what}" for what in lacks_of_operation(operation, tags))
        name = operation.get("operationId")
        if name in seen:
            yield f"{where} has the operationId of {seen[name]}: {name}"
        elif name:
            seen[name] = where


def main():
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "console/openapi.json"
    found = list(problems(json.loads(path.read_text(encoding="utf-8"))))
    print("".join(f"{path.name}: {problem}\n" for problem in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
