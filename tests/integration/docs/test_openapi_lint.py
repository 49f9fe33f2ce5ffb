"""console/openapi.json as linters see it, and our own check of what every operation must have."""

import copy
import json
import os
import subprocess

import check_openapi
import pytest
from harness import ROOT, npm_locked
from test_openapi import DOCUMENT

pytestmark = pytest.mark.tools
HERE = ROOT / "tests/openapi"
FILE = ROOT / "console/openapi.json"
QUIET = os.environ | {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "NO_COLOR": "1"}


def lint(tool, *args):
    program = npm_locked("openapi", HERE) / "node_modules/.bin" / tool
    return subprocess.run([program, "lint", *map(str, args)], cwd=HERE, env=QUIET, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=170, check=False)


def spectral(path):
    return lint("spectral", "--ruleset", HERE / "spectral.yaml", "--fail-severity", "hint", path)


def redocly(path):
    return lint("redocly", "--config", HERE / "redocly.yaml", path)


def test_spectral_finds_nothing():
    done = spectral(FILE)
    assert done.returncode == 0, done.stdout


def test_redocly_finds_nothing():
    done = redocly(FILE)
    assert done.returncode == 0 and "warning" not in done.stdout.lower(), done.stdout


def without(path, *names):
    """The document without a member of an operation."""
    document = copy.deepcopy(DOCUMENT)
    node = document["paths"][path]
    for name in names[:-1]:
        node = node[name]
    del node[names[-1]]
    return document


@pytest.mark.parametrize("linter,names,rule", [(spectral, ("post", "operationId"), "operation-operationId"),
                                               (spectral, ("post", "description"), "operation-description"),
                                               (redocly, ("post", "operationId"), "operation-operationId"),
                                               (redocly, ("post", "security"), "security-defined")])
def test_the_linters_find_something(linter, names, rule, tmp_path):
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(without("/events", *names)), encoding="utf-8")
    done = linter(path)
    assert done.returncode != 0 and rule in done.stdout, done.stdout


def test_every_operation_has_what_we_ask_for():
    assert list(check_openapi.problems(DOCUMENT)) == []


@pytest.mark.parametrize("names", [("operationId",), ("tags",), ("summary",), ("description",), ("security",), ("responses", "202"),
                                   ("responses", "503"), ("responses", "default"),
                                   ("requestBody", "content", "application/json", "example")], ids="-".join)
def test_what_an_operation_lacks_is_found(names):
    found = list(check_openapi.problems(without("/events", "post", *names)))
    assert len(found) == 1 and found[0].startswith("POST /events lacks ")


def test_failures_of_the_caller_must_be_described():
    document = copy.deepcopy(DOCUMENT)
    responses = document["paths"]["/events"]["post"]["responses"]
    document["paths"]["/events"]["post"]["responses"] = {s: r for s, r in responses.items() if not s.startswith("4")}
    assert list(check_openapi.problems(document)) == ["POST /events lacks an answer 4xx"]


def test_a_name_that_is_taken_is_found():
    document = copy.deepcopy(DOCUMENT)
    document["paths"]["/events"]["post"]["operationId"] = "getHealth"
    assert [p for p in check_openapi.problems(document) if "has the operationId of GET /healthz" in p]
