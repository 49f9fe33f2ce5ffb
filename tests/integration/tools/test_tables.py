"""Every table that grows is removed from, or says why it need not: docs/schema.md is compared with the scripts."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.tools
CREATE = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)")
DROP = re.compile(r"DROP TABLE (?:IF EXISTS )?(\w+)")


def scripted(dialect):
    found = set()
    for path in sorted((ROOT / "scripts" / dialect).glob("*.sql")):
        text = re.sub(r"--.*", "", path.read_text(encoding="utf-8"))
        found |= set(CREATE.findall(text))
        found -= set(DROP.findall(text))
    return found


def documented():
    """Table -> when its rows go."""
    text = (ROOT / "docs/schema.md").read_text(encoding="utf-8")
    section = text.split("## What is removed when\n")[1].split("\n## ")[0]
    rows = [row for row in re.findall(r"(?m)^\| (\w+) \| (.+) \|$", section) if row[0] != "table"]
    assert len(rows) == len(dict(rows)), "a table stands there twice"
    return dict(rows)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres", "sqlserver"])
def test_the_page_says_of_every_table_when_its_rows_go(dialect):
    assert scripted(dialect) == set(documented())


def test_the_settings_that_the_page_names_exist():
    settings = set(re.findall(r"KEPT\((\w+),", (ROOT / "src/retention/settings.c").read_text(encoding="utf-8"))) - {"n"}
    named = {name for when in documented().values() for name in re.findall(r"`(\w+)`", when)}
    assert named == settings
