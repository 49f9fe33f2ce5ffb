"""Every index has a query that needs it: docs/schema.md names it, and here the list is compared with scripts and plans."""

import re
import sqlite3
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import embed_sql  # noqa: E402

pytestmark = pytest.mark.tools
CREATE = re.compile(r"CREATE (?:UNIQUE )?(?:NONCLUSTERED )?INDEX (?:IF NOT EXISTS )?((?:IX|UQ)_\w+)\s+ON ")
DROP = re.compile(r"DROP INDEX (?:IF EXISTS )?((?:IX|UQ)_\w+)")
CONSTRAINT = re.compile(r"CONSTRAINT (UQ_\w+)\s+UNIQUE")  # as SQL Server writes some of them


def documented():
    """Index -> what the page says of it."""
    text = (ROOT / "docs/schema.md").read_text(encoding="utf-8")
    section = text.split("## Which query needs which index\n")[1].split("\n## ")[0]
    rows = re.findall(r"(?m)^\| ((?:IX|UQ)_\w+) \| (.+) \|$", section)
    assert len(rows) == len(dict(rows)), "an index stands there twice"
    return dict(rows)


def scripted(dialect):
    found = set()
    for path in sorted((ROOT / "scripts" / dialect).glob("*.sql")):
        text = re.sub(r"--.*", "", path.read_text(encoding="utf-8"))
        found -= set(DROP.findall(text))
        dropped = {name for name in DROP.findall(text) if name in CREATE.findall(text)}
        assert not dropped, f"{path.name} creates and drops {dropped}"
        found |= set(CREATE.findall(text)) | set(CONSTRAINT.findall(text))
    return found


def planned():
    """Index -> the queries for which SQLite uses it."""
    db = sqlite3.connect(":memory:")
    for path in sorted((ROOT / "scripts/sqlite").glob("*.sql")):
        db.executescript(path.read_text(encoding="utf-8"))
    used, names = {}, set()
    for path in sorted((ROOT / "src").rglob("*.sql")):
        for block in embed_sql.parse_file(str(path)):
            names.add(block.name)
            text = block.by_dialect().get("sqlite")
            if not text:
                continue
            params = block.texts[0].params()
            sql, _ = embed_sql.render(text, "sqlite", params)
            for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", [None] * len(params)):
                if found := re.search(r"USING (?:COVERING )?INDEX (\w+)", row[3]):
                    used.setdefault(found[1], set()).add(block.name)
    return used, names


@pytest.mark.parametrize("dialect", ["sqlite", "postgres", "sqlserver"])
def test_the_page_lists_the_indexes_of_the_scripts(dialect):
    assert scripted(dialect) == set(documented())


def test_every_index_is_used_by_the_queries_that_the_page_names():
    used, names = planned()
    for index, needed in documented().items():
        queries = re.findall(r"`([a-z_0-9]+)`", needed)
        assert queries or needed in ("specification", "foreign key") or needed.startswith("statements of the relay"), index
        assert not set(queries) - names, f"{index}: no such query"
        if "on PostgreSQL" not in needed:
            assert not set(queries) - used.get(index, set()), f"{index}: SQLite does not use it there"


def test_no_query_is_left_to_an_index_that_the_page_does_not_list():
    used, _ = planned()
    assert {name for name in used if not name.startswith("sqlite_autoindex")} <= set(documented())
