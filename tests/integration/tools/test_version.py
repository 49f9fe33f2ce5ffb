"""The version is said once, in the Makefile; whatever else has to name it says the same."""

import json
import re
import xml.etree.ElementTree as xml

import pytest
from harness import ROOT, run

pytestmark = pytest.mark.tools
VERSION = re.search(r"^VERSION\s*:= (\S+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)[1]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## (.*)$", CHANGELOG, re.M)


def said_in(path):
    """Every version of DataFlow that a file of the project names."""
    text = path.read_text(encoding="utf-8")
    if (path.parent / "package.json").exists() and json.loads((path.parent / "package.json").read_text(encoding="utf-8")).get("private"):
        return []  # tools of the tests
    if path.name == "package.json":
        return [version for version in (json.loads(text).get("version"),) if version]
    if path.name == "package-lock.json":
        lock = json.loads(text)
        return [version for version in (lock.get("version"), lock["packages"][""].get("version")) if version]
    if path.suffix in (".csproj", ".props"):
        return [element.text for element in xml.fromstring(text).iter() if element.tag in ("Version", "PackageVersion", "VersionPrefix")]
    if path.name == "Chart.yaml":
        return re.findall(r"^(?:appVersion|version): \"?([^\"\n]+)", text, re.M)
    return re.findall(r"\bdataflow:(\d[\w.+-]*)", text)  # images


def files():
    found = [path for pattern in ("deploy/compose/*", "deploy/kubernetes/**/*.yaml") for path in sorted(ROOT.glob(pattern)) if path.is_file()]
    for pattern in ("package.json", "package-lock.json", "*.csproj", "*.props"):
        found += [path for path in sorted(ROOT.glob(f"sdk/**/{pattern}"))
                  if not {"node_modules", "bin", "obj", "test", "tests", "examples"} & set(path.relative_to(ROOT).parts)]
    return [path for path in found if said_in(path)]


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_names_the_same_version(path):
    assert set(said_in(path)) == {VERSION}


def test_some_files_name_it():
    assert {"compose.yaml", "Dockerfile", "Chart.yaml", "api.yaml"} <= {path.name for path in files()}


def test_the_sdks_name_it():
    for folder, name in (("sdk/node", "package.json"), ("sdk/dotnet", "*.csproj")):
        if (ROOT / folder).exists():
            assert [path for path in files() if path.is_relative_to(ROOT / folder)], f"no {name} of {folder} names a version"


def test_the_program_says_it():
    assert run("version").stdout.split()[1] == VERSION


def test_the_openapi_document_says_it():
    document = json.loads((ROOT / "console/openapi.json").read_text(encoding="utf-8"))
    assert document["info"]["version"] == VERSION
    assert document["paths"]["/healthz"]["get"]["responses"]["200"]["content"]["application/json"]["example"]["version"] == VERSION


def test_it_is_a_semantic_version():
    assert re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?", VERSION)


def test_the_changelog_has_what_is_to_come_first_and_then_releases():
    """https://keepachangelog.com: the newest first, each with its day."""
    assert SECTIONS[0] == "Unreleased"
    releases = [re.fullmatch(r"(\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)", section) for section in SECTIONS[1:]]
    assert all(releases), SECTIONS
    versions = [tuple(map(int, release[1].split("."))) for release in releases]
    days = [release[2] for release in releases]
    assert versions == sorted(set(versions), reverse=True) and days == sorted(days, reverse=True)
    assert releases[0][1] == VERSION, "the Makefile's version has a section of its own"
