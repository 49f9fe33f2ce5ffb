#!/usr/bin/python3
"""The rights on tables that a running server needs, from the queries that it makes.

    rights.py --c FILE      writes them as a table in C, which `dataflow doctor` compares with the rights that it has
    rights.py --docs        writes the GRANT statements into docs/sqlserver.md and docs/operations.md
    rights.py               prints TABLE: RIGHTS

The queries are those of src/**/*.sql in their texts for SQL Server, which tools/check_tsql.py parses whole. Texts for
other databases use the same tables in the same ways. Whoever changes or removes rows also names them in a WHERE, and
whoever inserts may ask for the new key, so every table needs SELECT.
"""

import re
import sys
from pathlib import Path

from check_tsql import Project
from embed_files import written

ROOT = Path(__file__).resolve().parents[1]
ORDER = ("SELECT", "INSERT", "UPDATE", "DELETE")

# Only `dataflow migrate` makes these.
MIGRATING = {"schema_script_record"}

# The relay makes its statements itself (src/relay/sql.c): it locks rows of the server's own events and marks them.
MADE_IN_C = {"outbox_events": {"SELECT", "UPDATE"}, "batch_ready_outbox": {"SELECT", "UPDATE"}}


def needed(root=ROOT):
    """{table: [right, …]} in the order of the names."""
    project = Project(root)
    problems = project.check()
    if problems:
        raise SystemExit("\n".join(f"{name}:{line}: {message}" for name, line, message in problems))
    rights = {table: set() for table in project.catalogue.tables}
    for query in project.queries:
        if query.name in MIGRATING or query.path.startswith("bench/"):
            continue
        for table, verbs in query.uses.items():
            if table in rights:
                rights[table] |= verbs
    for table, verbs in MADE_IN_C.items():
        rights[table] |= verbs
    return {table: [verb for verb in ORDER if verb == "SELECT" or verb in rights[table]]
            for table in sorted(rights, key=str.lower)}


def grants(role, root=ROOT):
    return [f"GRANT {', '.join(verbs)} ON {table} TO {role};" for table, verbs in needed(root).items()]


def in_c(rights):
    rows = "\n".join('    {"%s", %s},' % (table, ", ".join("true" if verb in verbs else "false" for verb in ORDER))
                     for table, verbs in rights.items())
    return ('/* Made by tools/rights.py. */\n#include "app/doctor_rights.h"\n\n'
            f"const struct df_table_rights df_table_rights[] = {{\n{rows}\n    {{.table = NULL}},\n}};\n")


def replaced(text, lines):
    """The page with these lines between its two marks."""
    marks = r"(<!-- rights: begin[^\n]*-->\n).*?(<!-- rights: end -->)"
    if len(re.findall(marks, text, re.S)) != 1:
        raise SystemExit("a page lacks the marks <!-- rights: begin … --> and <!-- rights: end -->")
    block = "\n```sql\n" + "\n".join(lines) + "\n```\n\n"
    return re.sub(marks, lambda found: found[1] + block + found[2], text, flags=re.S)


PAGES = {"docs/sqlserver.md": "dataflow_rows", "docs/operations.md": "dataflow"}


def pages(root=ROOT):
    """{page: (what it says, what it should say)}"""
    found = {}
    for page, role in PAGES.items():
        text = (root / page).read_text(encoding="utf-8")
        found[page] = text, replaced(text, grants(role, root))
    return found


def main(argv):
    if argv[1:2] == ["--c"] and len(argv) == 3:
        with written(argv[2]) as f:
            f.write(in_c(needed()))
    elif argv[1:] == ["--docs"]:
        for page, (_, text) in pages().items():
            (ROOT / page).write_text(text, encoding="utf-8")
    elif len(argv) == 1:
        for table, verbs in needed().items():
            print(f"{table}: {', '.join(verbs)}")
    else:
        print("usage: rights.py [--c FILE | --docs]", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
