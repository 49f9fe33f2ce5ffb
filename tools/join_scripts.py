#!/usr/bin/env python3
"""Joins the schema scripts of SQLite into one that makes the same database out of an empty one.

    join_scripts.py OUT.sql SCRIPTS...

SQLite reads its whole schema again for each ALTER TABLE, and the scripts have grown column by column: run one after the
other they take twenty times as long as the tables that they come to. So OUT.sql has these tables, with their indexes
and triggers, as they are after the last script; then what the scripts do to rows, in their order. It is tried here, on
a database in memory, and refused unless the result is the same.
"""

import re
import sqlite3
import sys

from embed_files import written

DIRECTIVE = re.compile(r"^-- add column if missing: *(\w+) +(\w+) *$", re.M)  # src/store/schema.h
COMMENT = re.compile(r"\s+|--[^\n]*(?:\n|$)|/\*.*?\*/", re.S)
SHAPE = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY rowid"


def statements(text):
    """Each with the comments that stand before it."""
    statement = ""
    for part in text.split(";")[:-1]:
        statement += part + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if bare(statement + text.rpartition(";")[2]):
        raise ValueError("the last statement has no end")


def bare(statement):
    at = 0
    while found := COMMENT.match(statement, at):
        at = found.end()
    return statement[at:]


def has_column(database, table, column):
    return any(row[1].lower() == column.lower() for row in database.execute(f"PRAGMA table_info({table})"))


def run(database, text):
    """Runs a script as the program does. Returns what it does to rows."""
    kept = []
    for statement in statements(text):
        directive = DIRECTIVE.search(statement)
        if directive and has_column(database, directive[1], directive[2]):
            continue
        database.execute(statement)
        if bare(statement).split(None, 1)[0].upper() not in ("CREATE", "ALTER", "DROP"):
            kept.append(bare(statement))
    return kept


def content(database):
    shape = database.execute(SHAPE).fetchall()
    return shape, {name: database.execute(f'SELECT * FROM "{name}"').fetchall() for kind, name, *_ in shape if kind == "table"}


def opened():
    return sqlite3.connect(":memory:", isolation_level=None)


def join(texts):
    database, rows = opened(), []
    for name, text in texts:
        try:
            rows += run(database, text)
        except (sqlite3.Error, ValueError) as problem:
            raise ValueError(f"{name}: {problem}") from None
    # SQLite makes by itself what has no text, and what has a name of its own.
    made = [sql + ";" for _, name, _, sql in database.execute(SHAPE) if sql and not name.startswith("sqlite_")]
    joined = "\n".join(made + rows) + "\n"
    again = opened()
    again.executescript(joined)
    if content(again) != content(database):
        raise ValueError("the scripts cannot be joined: what they do to rows depends on what the tables were meanwhile")
    return joined


def main(argv):
    if len(argv) < 3:
        print("usage: join_scripts.py OUT.sql SCRIPTS...", file=sys.stderr)
        return 2
    try:
        texts = []
        for path in sorted(argv[2:]):
            with open(path, encoding="utf-8") as f:
                texts.append((path, f.read()))
        joined = join(texts)
        with written(argv[1]) as f:
            f.write(joined)
    except (OSError, ValueError, sqlite3.Error) as problem:
        print(f"join_scripts.py: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
