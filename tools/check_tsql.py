#!/usr/bin/python3
"""Checks all SQL for SQL Server without a server: scripts/sqlserver/*.sql and the queries of src/**/*.sql and
bench/src/*.sql.

    check_tsql.py [ROOT]            prints FILE:LINE: MESSAGE for each problem, and exits 1 if there is one
    check_tsql.py --list [ROOT]     each query with its tables, what it does to them, and its parameters

Each text is parsed completely (tools/tsql.py); then its names are looked up in the schema that the scripts create, in
their order. Names are compared exactly, since a database's collation may be case-sensitive. Further rules are our own;
each has its reason where it is checked. A script must be idempotent: a statement that creates an object must be under an
IF that asks for this object by its name.
"""

import difflib
import re
import sys
from pathlib import Path

import embed_sql
from tsql import (AGGREGATES, FIRST, FUNCTIONS, GLOBALS, NUMBER, TEXT, Parser, Problem, Token, Type, batches, tokens,
                  walk)

# The catalogue views that the texts use, with their columns.
OBJECT = "name object_id schema_id parent_object_id type type_desc create_date modify_date is_ms_shipped"
SYSTEM = {
    "sys.objects": OBJECT,
    "sys.tables": OBJECT,
    "sys.schemas": "name schema_id principal_id",
    "sys.columns": "object_id name column_id system_type_id user_type_id max_length precision scale collation_name "
                   "is_nullable is_identity is_computed default_object_id",
    "sys.types": "name system_type_id user_type_id schema_id max_length precision scale collation_name is_nullable",
    "sys.indexes": "object_id name index_id type type_desc is_unique is_primary_key is_unique_constraint is_disabled "
                   "has_filter filter_definition",
    "sys.index_columns": "object_id index_id index_column_id column_id key_ordinal is_descending_key "
                         "is_included_column",
    "sys.foreign_keys": OBJECT + " referenced_object_id key_index_id is_disabled is_not_trusted "
                        "delete_referential_action delete_referential_action_desc update_referential_action",
    "sys.foreign_key_columns": "constraint_object_id constraint_column_id parent_object_id parent_column_id "
                               "referenced_object_id referenced_column_id",
    "sys.check_constraints": OBJECT + " parent_column_id definition is_disabled is_not_trusted",
    "sys.default_constraints": OBJECT + " parent_column_id definition",
    "sys.key_constraints": OBJECT + " unique_index_id is_system_named",
    "sys.triggers": "name object_id parent_class parent_id type type_desc is_disabled is_instead_of_trigger",
    "sys.databases": "name database_id collation_name is_read_committed_snapshot_on snapshot_isolation_state",
    "sys.dm_exec_sessions": "session_id login_name host_name program_name open_transaction_count",
    "INFORMATION_SCHEMA.TABLES": "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME TABLE_TYPE",
    "INFORMATION_SCHEMA.COLUMNS": "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME ORDINAL_POSITION COLUMN_DEFAULT "
                                  "IS_NULLABLE DATA_TYPE CHARACTER_MAXIMUM_LENGTH NUMERIC_PRECISION DATETIME_PRECISION",
}
COUNTED = re.compile(r"is_\w+|has_\w+|\w*_id|\w+_ordinal|max_length|precision|scale|open_transaction_count")
NAMED = re.compile(r"(\w+_)?(name|desc|definition)", re.I)
SYSTEM = {view: {name: NUMBER if COUNTED.fullmatch(name) else TEXT if NAMED.fullmatch(name) else None
                 for name in columns.split()} for view, columns in SYSTEM.items()}
OF_NUMBERS = frozenset(("SUM", "AVG", "ABS", "CEILING", "FLOOR", "ROUND", "SIGN"))

# What sqlcmd has off, and a filtered index wants on (and one off).
FILTER_SETTINGS = {"ANSI_NULLS": True, "QUOTED_IDENTIFIER": True, "ANSI_PADDING": True, "ANSI_WARNINGS": True,
                   "ARITHABORT": True, "CONCAT_NULL_YIELDS_NULL": True, "NUMERIC_ROUNDABORT": False}
OBJECT_TYPES = {"CREATE TABLE": "U", "CREATE TRIGGER": "TR", "CHECK": "C", "DEFAULT": "D", "FOREIGN KEY": "F",
                "PRIMARY KEY": "PK", "UNIQUE": "UQ"}
KEY_BYTES, CLUSTERED_KEY_BYTES = 1700, 900  # SQL Server 2016
NAME_MAX = 128

# Families of types that SQL Server does not convert into each other, or only by guessing.
CLASHES = {frozenset(pair) for pair in (("text", "number"), ("time", "number"), ("guid", "number"), ("guid", "time"),
                                        ("binary", "text"), ("binary", "time"), ("binary", "number"))}


class Table:
    def __init__(self, name, columns, line):
        self.name = name
        self.columns = columns  # name: the parser's node
        self.line = line
        self.triggers = set()

    def types(self):
        return {name: column.type for name, column in self.columns.items()}


class Catalogue:
    def __init__(self):
        self.tables = {}
        self.indexes = {}      # (table, index): where
        self.constraints = {}  # name: table
        self.made = {}         # name of all that was ever made: its columns, if it is a table
        self.cascades = {}     # table: {foreign key: (the table whose deletions it follows, report, line)}
        self.triggers = {}     # name: table
        self.asked = []        # OBJECT_ID(N'…') and COL_LENGTH(N'…', N'…'): known only when all scripts are read


class Relation:
    """A table or subquery in a FROM, under the name that qualifies its columns."""

    def __init__(self, name, columns, table=None):
        self.name = name
        self.columns = columns  # name: Type, or None when it is not known; None: it has any
        self.table = table

    def has(self, name):
        return self.columns is not None and name in self.columns


class Scope:
    def __init__(self, outer=None, relations=()):
        self.outer = outer
        self.relations = list(relations)


def facts(condition, negated=False):
    """What a condition says is missing: a list of (the texts in the question, the type of object asked for).

    NOT EXISTS (…), OBJECT_ID(…) IS NULL and the like, and EXISTS (… default_object_id = 0)."""
    kind = condition.kind
    if kind == "not":
        return facts(condition.parts[0], not negated)
    if kind == ("or" if negated else "and"):
        return facts(condition.parts[0], negated) + facts(condition.parts[1], negated)
    if kind == "exists" and (negated or any(map(no_default, conditions_of(condition.query)))):
        return [({n.at.value for c in conditions_of(condition.query) for n in walk(c) if n.kind == "string"}, None)]
    if kind == "is null" and condition.negated == negated:
        call = condition.parts[0]
        if call.kind == "call" and call.function in ("OBJECT_ID", "COL_LENGTH", "INDEXPROPERTY"):
            asked = call.parts[1] if call.function == "OBJECT_ID" and len(call.parts) > 1 else None
            return [({n.at.value for n in walk(call) if n.kind == "string"}, asked and asked.at.value)]
    return []


def conditions_of(query):
    return [node for core in query.cores for node in (core.where, *(source.on for source in core.sources)) if node]


def no_default(condition):
    return any(n.kind == "compare" and n.op == "=" and n.parts[0].kind == "name" and n.parts[1].at.text == "0" and
               n.parts[0].names[-1].value == "default_object_id" for n in walk(condition))


def shape(node):
    """Equal for expressions that mean the same, columns being those they were found to be."""
    if node.kind == "name":
        return getattr(node, "found", None) or tuple(n.value for n in node.names)
    return (node.kind, getattr(node, "op", None), node.at.text if not node.parts or node.kind == "call" else None,
            str(getattr(node, "type", "")), tuple(shape(p) for p in node.parts))


class Checker:
    """Checks one query or one script. Problems are reported, and the check goes on."""

    def __init__(self, catalogue, report, script=False):
        self.catalogue = catalogue
        self.report_line = report
        self.script = script
        self.uses = {}        # table: set of SELECT, INSERT, UPDATE, DELETE
        self.settings = {}    # SET … ON or OFF, seen so far in the script
        self.dropped = set()  # (what, name) of DROP … IF EXISTS
        self.identity_insert = None
        self.trigger = None   # the table of the trigger whose body this is
        self.catching = False
        self.conditional = 0  # how many IFs are around this
        self.guards = []      # what they found to be missing
        self.ctes = {}
        self.new_batch()

    def new_batch(self):
        self.variables = {}
        self.fresh = {}  # (table, column): line of the ALTER TABLE in this batch

    def report(self, where, message):
        self.report_line(where.line if isinstance(where, Token) else where.at.line, message)

    def find(self, known, token, what, where=""):
        """The entry of that name; reports when there is none."""
        name = token.value
        if name in known:
            return known[name]
        alike = [k for k in known if k.lower() == name.lower()]
        if alike:
            self.report(token, f"'{name}' is written '{alike[0]}': a case-sensitive database would not find it")
            return known[alike[0]]
        near = difflib.get_close_matches(name, known, 1)
        self.report(token, f"no {what} '{name}'{where}" + (f"; is '{near[0]}' meant?" if near else ""))
        return None

    # --- names ------------------------------------------------------------------------------------

    def use(self, table, verb):
        self.uses.setdefault(table, set()).add(verb)

    def table(self, token, verb):
        """A table that is changed, or None after a report."""
        if token.kind == "variable":
            return self.table_variable(token)
        if token.value in self.ctes:
            # Babelfish has no UPDATE of a CTE.
            self.report(token, f"'{token.value}' is a WITH query: change the table itself")
            return None
        if self.trigger and token.value in ("inserted", "deleted"):
            self.report(token, f"{token.value} cannot be changed")
            return None
        found = self.find(self.catalogue.tables, token, "table")
        if found and verb:
            self.use(found.name, verb)
        return found

    def table_variable(self, token):
        found = self.variables.get(token.text)
        if not isinstance(found, Table):
            self.report(token, f"{token.text} is not declared as a table")
            return None
        return found

    def column(self, table, token):
        """A column of a known table, by its name alone."""
        found = self.find(table.columns, token, "column", f" in {table.name}")
        self.too_fresh(table.name, token)
        return found

    def too_fresh(self, table, token):
        # A batch is compiled as a whole, before its ALTER TABLE has run.
        line = self.fresh.get((table, token.value))
        if line:
            self.report(token, f"'{token.value}' is added to {table} by the same batch (line {line}): GO between them")

    def resolve(self, node, scope):
        """The type of a column; node.found becomes (relation, column), node.level how many queries further out."""
        *alias, column = node.names
        if alias:
            return self.resolve_qualified(node, alias[0], column, scope)
        return self.resolve_bare(node, column, scope)

    def resolve_qualified(self, node, alias, column, scope):
        level, names = 0, []
        while scope:
            for relation in scope.relations:
                if relation.name == alias.value:
                    return self.found(node, relation, column, level)
            names += [relation.name for relation in scope.relations]
            scope, level = scope.outer, level + 1
        self.find(dict.fromkeys(names), alias, "table or alias", " here")
        return None

    def resolve_bare(self, node, column, scope):
        name = column.value
        if any(r.columns is None for r in scope.relations):
            return None
        having = [r for r in scope.relations if r.has(name)] or \
                 [r for r in scope.relations if name.lower() in map(str.lower, r.columns)]
        if len(having) > 1:
            self.report(column, f"'{name}' is ambiguous: {' and '.join(r.name for r in having)} have it")
            return None
        if having:
            return self.found(node, having[0], column, 0)
        outer = scope.outer
        while outer:
            # SQL Server would silently take it from the outer query and hide a mistake in the inner one.
            if any(r.has(name) for r in outer.relations):
                self.report(column, f"'{name}' is a column of the outer query: write it with its table")
                return None
            outer = outer.outer
        known = {c: r.name for r in scope.relations for c in r.columns}
        self.find(known, column, "column", f" in {' or '.join(r.name for r in scope.relations)}" if known else " here")
        return None

    def found(self, node, relation, column, level):
        node.found, node.level = (relation.name, column.value), level
        if relation.columns is None:
            return None
        made = self.find(relation.columns, column, "column", f" in {relation.name}")
        if relation.table:
            self.too_fresh(relation.table, column)
        return made

    # --- expressions: each returns the Type, or None when it is not known --------------------------

    def value(self, node, scope):
        node.type_found = getattr(self, "value_" + node.kind.replace(" ", "_"))(node, scope)
        return node.type_found

    def values(self, nodes, scope):
        return [self.value(node, scope) for node in nodes]

    def value_string(self, node, _scope):
        national = node.at.text[0] in "Nn"
        if not national and not node.at.value.isascii():
            # The database's code page has only a few of these characters; the others become question marks.
            self.report(node, f"{node.at} has characters that only N'…' keeps")
        return Type("NVARCHAR" if national else "VARCHAR", max(1, len(node.at.value)))

    def value_number(self, _node, _scope):
        return NUMBER

    def value_binary(self, _node, _scope):
        return Type("VARBINARY", "MAX")

    def value_null(self, _node, _scope):
        return None

    value_date_part = value_default = value_null

    def value_param(self, node, _scope):
        if self.script:
            self.report(node, f"{node.at}: a script has no parameters")

    def value_variable(self, node, _scope):
        if node.at.text not in self.variables:
            self.find(self.variables, node.at, "variable")
            return None
        found = self.variables[node.at.text]
        if isinstance(found, Table):
            self.report(node, f"{node.at.text} is a table")
            return None
        return found

    def value_global(self, node, _scope):
        if node.at.text.upper() not in GLOBALS:
            self.report(node, f"unknown {node.at.text}: one of {', '.join(sorted(GLOBALS))}")
        return TEXT if node.at.text.upper() == "@@VERSION" else NUMBER

    def value_name(self, node, scope):
        return self.resolve(node, scope)

    def value_sign(self, node, scope):
        made = self.value(node.parts[0], scope)
        if made and made.family != "number":
            self.report(node, f"'{node.op}' before {made}")
        return made

    def value_collate(self, node, scope):
        made = self.value(node.parts[0], scope)
        if made and made.family != "text":
            self.report(node, f"COLLATE of {made}")
        return made

    def value_operator(self, node, scope):
        left, right = self.values(node.parts, scope)
        if left and right and frozenset((left.family, right.family)) in CLASHES:
            self.report(node, f"'{node.op}' between {left} and {right}: CAST one of them, CONCAT or DATEADD")
        text = next((t for t in (left, right) if t and t.family == "text"), None)
        if text and node.op != "+":
            self.report(node, f"'{node.op}' of {text}")
        return text or left or right

    def value_cast(self, node, scope):
        self.values(node.parts, scope)
        return node.type

    def value_case(self, node, scope):
        subject = self.value(node.subject, scope) if node.subject else None
        for test in node.tests:
            if node.subject:
                self.compare(node.subject, subject, test, self.value(test, scope))
            else:
                self.condition(test, scope)
        return self.same(self.values(node.results, scope), node, "the branches of CASE")

    def same(self, types, where, what):
        """The first type known; reports when another does not go with it."""
        known = [t for t in types if t]
        for other in known[1:]:
            if frozenset((known[0].family, other.family)) in CLASHES:
                self.report(where, f"{what} differ: {known[0]} and {other}")
        return known[0] if known else None

    def value_call(self, node, scope):
        if node.function == "IIF":
            self.condition(node.parts[0], scope)
            return self.same(self.values(node.parts[1:], scope), node, "the branches of IIF")
        types = self.values(node.parts, scope)
        if node.over:
            self.values(node.over.parts, scope)
        if node.function in AGGREGATES and not node.over and \
                any(n.kind == "call" and n.function in AGGREGATES and not n.over for p in node.parts for n in walk(p)):
            self.report(node, f"an aggregate inside {node.function}")
        if node.function in OF_NUMBERS and types and types[0] and types[0].family != "number":
            self.report(node, f"{node.function} of {types[0]}")
        if node.function in ("OBJECT_ID", "COL_LENGTH"):
            self.catalogue.asked.append((self.report_line, node))
        if node.function in ("COALESCE", "ISNULL"):
            self.same(types, node, f"the arguments of {node.function}")
        result = FUNCTIONS[node.function][2]
        return next((t for t in types if t), None) if result == FIRST else result

    def value_scalar(self, node, scope):
        columns = self.query(node.query, scope, needs_order=True)
        if len(columns) != 1:
            self.report(node, f"a query of {len(columns)} columns for one value")
        return columns[0][1]

    def condition(self, node, scope):
        kind = node.kind
        if kind in ("and", "or", "not"):
            for part in node.parts:
                self.condition(part, scope)
        elif kind == "exists":
            self.query(node.query, scope, needs_order=False)
        elif kind == "is null":
            self.values(node.parts, scope)
        else:
            left, *others = node.parts
            left_type, *types = self.values(node.parts, scope)
            for other, other_type in zip(others, types):
                self.compare(left, left_type, other, other_type)
            if kind == "in" and node.query:
                columns = self.query(node.query, scope, needs_order=True)
                if len(columns) != 1:
                    self.report(node, f"a query of {len(columns)} columns after IN")
                self.clash(node, left_type, columns[0][1])
                self.index_lost(left, left_type, node, columns[0][1])

    def compare(self, left, left_type, right, right_type):
        for node in (left, right):
            if node.kind == "null":
                self.report(node, "a comparison with NULL is never true: IS NULL")
        self.clash(left, left_type, right_type)
        self.index_lost(left, left_type, right, right_type)
        self.index_lost(right, right_type, left, left_type)

    def clash(self, where, left, right):
        if left and right and frozenset((left.family, right.family)) in CLASHES:
            self.report(where, f"{left} beside {right}")

    def stored(self, column, node, made):
        """A value becomes that of a column."""
        self.clash(node, column.type, made)
        if node.kind == "null" and column.null is False:
            self.report(node, f"'{column.name.value}' is NOT NULL")
        size = column.type.size if column.type.family == "text" else None
        if node.kind == "string" and size not in (None, "MAX") and len(node.at.value) > size:
            self.report(node, f"{node.at} is longer than {column.type}")

    def index_lost(self, column, column_type, other, other_type):
        """Parameters arrive as NVARCHAR. Beside one, a VARCHAR column of a SQL_* collation is itself converted, row by
        row, and its index is of no use."""
        if column.kind != "name" or not column_type or column_type.family != "text" or column_type.national:
            return
        name = column.names[-1].value
        # The CAST must be longer than the column: a value cut to the column's size could equal another one.
        cast = f"CAST({other.at.text} AS VARCHAR({column_type.size + 1 if column_type.size != 'MAX' else 'MAX'}))"
        if other.kind == "param":
            self.report(other, f"{other.at.text} arrives as NVARCHAR and would keep the index on {name} "
                               f"({column_type}) from being used: {cast}")
        elif other_type and other_type.family == "text" and other_type.national:
            self.report(other, f"{other_type} would keep the index on {name} ({column_type}) from being used")
        elif other.kind == "cast" and other.parts[0].kind == "param" and column_type.size != "MAX" and \
                other_type.family == "text" and other_type.size != "MAX" and other_type.size <= column_type.size:
            self.report(other, f"{other_type} cuts a longer value, which could then equal {name} ({column_type}): "
                               f"VARCHAR({column_type.size + 1})")

    # --- queries ----------------------------------------------------------------------------------

    def query(self, query, outer, needs_order, ordered_for_itself=False):
        """The columns that come out, as (name or None, Type). needs_order: which rows TOP takes matters."""
        if query.order and not ordered_for_itself and not query.offset and not any(core.top for core in query.cores):
            self.report(query.order[0][0], "ORDER BY in a query inside another does nothing without TOP or OFFSET")
        first, scope = self.core(query.cores[0], outer, query, needs_order)
        for core in query.cores[1:]:
            columns, _ = self.core(core, outer, query, needs_order)
            if len(columns) != len(first):
                self.report(core, f"{len(columns)} columns here, {len(first)} in the first SELECT")
            for (_, a), (_, b) in zip(first, columns):
                self.clash(core, a, b)
        if query.between:
            scope = Scope(None, [Relation("the UNION", {name: made for name, made in first if name})])
        self.order(query, first, scope)
        for node in (query.offset, query.fetch):
            if node:
                self.count(node, outer)
        return first

    def count(self, node, scope):
        made = self.value(node, scope)
        if made and made.family != "number":
            self.report(node, f"{made} for a number of rows")

    def core(self, core, outer, query, needs_order):
        if core.top:
            self.count(core.top, outer)
            # Without ORDER BY the database picks any rows.
            if needs_order and not query.order:
                self.report(core, "TOP needs ORDER BY")
            if query.offset:
                self.report(core, "TOP together with OFFSET")
        scope = Scope(outer)
        self.sources(core.sources, scope)
        if core.where:
            self.condition(core.where, scope)
            self.no_aggregates(core.where, "WHERE")
        self.values(core.group, scope)
        columns = self.items(core, scope)
        if core.having:
            self.condition(core.having, scope)
        self.grouping(core)
        return columns, scope

    def items(self, core, scope):
        columns = []
        assigned = [item for item in core.items if item.variable]
        if assigned and len(assigned) != len(core.items):
            self.report(core, "SELECT either sets variables or returns rows")
        for item in core.items:
            made = self.value(item.parts[0], scope)
            if item.variable:
                self.assign(item.variable, made)
            node = item.parts[0]
            name = item.alias.value if item.alias else node.names[-1].value if node.kind == "name" else None
            columns.append((name, made))
        return columns

    def no_aggregates(self, node, where):
        for n in walk(node):
            if n.kind == "call" and (n.function in AGGREGATES or n.over):
                self.report(n, f"{n.function} in {where}")

    def grouping(self, core):
        """Outside of aggregates there are only the columns of GROUP BY: core.keys, None where nothing is grouped."""
        core.keys = None
        inside = [item.parts[0] for item in core.items] + ([core.having] if core.having else [])
        aggregated = core.group or core.having or \
            any(n.kind == "call" and n.function in AGGREGATES and not n.over for node in inside for n in walk(node))
        if not aggregated:
            return
        core.keys = {shape(node) for node in core.group}
        for node in inside:
            self.grouped(node, core.keys)

    def grouped(self, node, keys):
        if shape(node) in keys or (node.kind == "call" and node.function in AGGREGATES and not node.over):
            return
        if node.kind == "name" and getattr(node, "level", 1) == 0:
            self.report(node, f"'{node.names[-1].value}' is neither in GROUP BY nor in an aggregate")
        for part in (*node.parts, *(node.over.parts if getattr(node, "over", None) else ())):
            self.grouped(part, keys)

    def order(self, query, columns, scope):
        core = query.cores[0]
        names = [name for name, _ in columns]
        chosen = {shape(item.parts[0]) for item in core.items}
        for node, _ in query.order:
            if node.kind in ("number", "string", "null"):
                self.report(node, "ORDER BY takes a column")
            elif node.kind == "name" and len(node.names) == 1 and node.names[0].value in names:
                if names.count(node.names[0].value) > 1:
                    self.report(node, f"'{node.names[0].value}' is ambiguous: two columns are called so")
            elif query.between and node.kind != "name":
                self.report(node, "ORDER BY of a UNION takes one of its columns")
            else:
                self.value(node, scope)
                if core.distinct and shape(node) not in chosen:
                    self.report(node, "ORDER BY of a DISTINCT query takes one of its columns")
                if core.keys is not None and not query.between:
                    self.grouped(node, core.keys)

    def sources(self, sources, scope):
        for source in sources:
            inner = scope if source.how == "APPLY" else Scope(scope.outer)
            relation = self.source(source, inner)
            if any(r.name.lower() == relation.name.lower() for r in scope.relations):
                self.report(source, f"'{relation.name}' stands twice in FROM: give an alias")
            scope.relations.append(relation)
            if source.on:
                self.condition(source.on, scope)

    def source(self, source, scope):
        name = source.alias.value if source.alias else source.names[-1].value if source.names else source.at.text
        if source.query:
            columns = self.query(source.query, scope, needs_order=True)
            return Relation(name, self.named(source, columns, source.columns))
        if source.rows:
            rows = [self.values(row, scope) for row in source.rows]
            for row in source.rows:
                if len(row) != len(source.columns):
                    self.report(row[0], f"{len(row)} values for {len(source.columns)} columns")
            types = [self.same(column, source, "the values of a column") for column in zip(*rows)]
            return Relation(name, self.named(source, [(None, made) for made in types], source.columns))
        self.values(source.parts, scope)
        if source.kind == "openjson":
            columns = [(c.value, t) for c, t in source.columns or ()]
            return Relation(name, self.named(source, columns, None) if columns else
                            {"key": TEXT, "value": TEXT, "type": NUMBER})
        if source.kind == "string_split":
            return Relation(name, {"value": TEXT})
        if source.kind == "table variable":
            table = self.table_variable(source.at)
            return Relation(name, table.types() if table else None)
        return self.table_source(source, name)

    def named(self, where, columns, names):
        if names and len(names) != len(columns):
            self.report(names[0], f"{len(names)} names for {len(columns)} columns")
        made = {}
        for i, (name, kind) in enumerate(columns):
            name = names[i].value if names and i < len(names) else name
            if not name:
                self.report(where, f"column {i + 1} needs a name: AS")
            elif name in made:
                self.report(where, f"two columns are called '{name}'")
            else:
                made[name] = kind
        return made

    def table_source(self, source, name):
        self.hints(source.hints)
        token = source.names[-1]
        if len(source.names) == 2:
            full = ".".join(n.value for n in source.names)
            return Relation(name, self.find(SYSTEM, Token("name", full, full, token.line, token.begin), "view"))
        if self.trigger and token.value in ("inserted", "deleted"):
            return Relation(name, self.trigger.types())
        if token.value in self.ctes:
            return Relation(name, self.ctes[token.value])
        table = self.find(self.catalogue.tables, token, "table")
        if not table:
            return Relation(name, None)
        self.use(table.name, "SELECT")
        return Relation(name, table.types(), table.name)

    def hints(self, hints):
        given = {hint.key for hint in hints}
        if len(given) != len(hints):
            self.report(hints[0], "a hint stands twice")
        for hint in hints:
            if hint.key in ("NOLOCK", "READUNCOMMITTED"):
                self.report(hint, f"no {hint.key}: it reads rows that may never be committed")
            # Without ROWLOCK whole pages are skipped; without UPDLOCK two take the same row.
            if hint.key == "READPAST" and not {"UPDLOCK", "ROWLOCK"} <= given:
                self.report(hint, "READPAST only together with UPDLOCK and ROWLOCK")
        if "READPAST" in given and given & {"HOLDLOCK", "SERIALIZABLE"}:
            self.report(hints[0], "READPAST does not go with HOLDLOCK")

    # --- statements -------------------------------------------------------------------------------

    def statements(self, nodes):
        for node in nodes:
            self.statement(node)
        for before, node in zip(nodes, nodes[1:]):
            if before.kind == "update" and node.kind == "if" and node.then.kind == "insert" and \
                    any(n.at.text.upper() == "@@ROWCOUNT" for n in walk(node.condition)):
                # Otherwise two sessions that find no row both insert.
                given = {hint.key for hint in before.hints}
                if "UPDLOCK" not in given or not given & {"HOLDLOCK", "SERIALIZABLE"}:
                    self.report(before, "UPDATE, else INSERT: WITH (UPDLOCK, HOLDLOCK) keeps others out between them")

    def statement(self, node):
        self.ctes = {}
        for cte in getattr(node, "ctes", ()):
            columns = self.query(cte.query, Scope(), needs_order=True)
            self.ctes[cte.name.value] = self.named(cte.name, columns, cte.columns)
        getattr(self, "do_" + node.kind.replace(" ", "_"))(node)

    def do_select(self, node):
        self.query(node.query, Scope(), needs_order=True, ordered_for_itself=True)

    def do_insert(self, node):
        table = self.table(node.target, "INSERT")
        self.hints(node.hints)
        rows = node.rows or []
        if node.query:
            self.query(node.query, Scope(), needs_order=True, ordered_for_itself=True)
            rows = [[item.parts[0] for item in core.items] for core in node.query.cores]
        for row in rows:
            if node.rows:
                self.values(row, Scope())
            if len(row) != len(node.columns):
                self.report(row[0], f"{len(row)} values for {len(node.columns)} columns")
        self.output(node, table, ("inserted",))
        if not table:
            return
        columns = [self.inserted_column(table, token) for token in node.columns]
        for row in rows:
            for column, value in zip(columns, row):
                if column:
                    self.stored(column, value, value.type_found)
        self.complete(node, table)
        if self.script and not self.trigger and node.target.kind != "variable":
            where = facts(node.query.cores[0].where) if node.query and node.query.cores[0].where else []
            if not self.guards and not where:
                self.report(node, "INSERT in a script stands under IF NOT EXISTS (…): it may run again")

    def inserted_column(self, table, token):
        column = self.column(table, token)
        if column and column.identity and self.identity_insert != table.name:
            self.report(token, f"'{token.value}' is an identity: the database gives its value")
        return column

    def once(self, columns):
        names = [token.value for token in columns]
        for i, token in enumerate(columns):
            if token.value in names[:i]:
                self.report(token, f"'{token.value}' stands twice")

    def complete(self, node, table):
        self.once(node.columns)
        given = {token.value for token in node.columns}
        for name, column in table.columns.items():
            optional = column.null or column.identity or any(c.type == "DEFAULT" for c in column.constraints)
            if not optional and name not in given:
                self.report(node, f"{table.name}.{name} is NOT NULL without a default, and no value is given")

    def do_update(self, node):
        table, scope = self.target(node, "UPDATE")
        self.once([token for token, _ in node.changes])
        for token, value in node.changes:
            made = self.value(value, scope)
            column = self.column(table, token) if table else None
            if column:
                self.stored(column, value, made)
                if column.identity:
                    self.report(token, f"'{token.value}' is an identity and cannot be changed")
        if node.where:
            self.condition(node.where, scope)
        self.output(node, table, ("inserted", "deleted"), scope)
        if node.output and any(source.on for source in node.sources) and self.stands_in_from:
            # Babelfish turns the JOIN into a subquery and then does not know its tables.
            self.report(node.output, "with OUTPUT the table that is changed is not JOINed: its condition goes to WHERE")
        items = node.output.items if node.output else ()
        told = {n.names[0].value for item in items for n in walk(item) if n.kind == "name"}
        if "deleted" in told or (told and node.sources):
            # Babelfish joins the rows before and after the change, so a bare name is ambiguous.
            for value in (*(v for _, v in node.changes), *([node.where] if node.where else [])):
                for n in walk(value):
                    if n.kind == "name" and len(n.names) == 1:
                        self.report(n, f"'{n.names[0].value}' beside OUTPUT is written with its table")

    def do_delete(self, node):
        table, scope = self.target(node, "DELETE")
        if node.where:
            self.condition(node.where, scope)
        self.output(node, table, ("deleted",))

    def target(self, node, verb):
        """The table that is changed, and the scope of the statement."""
        self.hints(node.hints)
        if node.top:
            self.count(node.top, Scope())
        scope = Scope()
        if not node.sources:
            table = self.table(node.target, verb)
            scope.relations.append(Relation(table.name, table.types(), table.name) if table else
                                   Relation(node.target.value, None))
            return table, scope
        self.sources(node.sources, scope)
        relation = next((r for r in scope.relations if r.name == node.target.value), None)
        self.stands_in_from = relation is not None
        if not relation:
            if node.target.value in (r.table for r in scope.relations):
                # Otherwise the table would be joined to itself without a condition.
                self.report(node.target, f"'{node.target.value}' stands in FROM under another name")
                return None, scope
            table = self.table(node.target, verb)
            relation = Relation(node.target.value, table.types() if table else None, table and table.name)
            scope.relations.append(relation)
        if relation.table and relation.name != relation.table:
            # Babelfish keeps a pointer to the alias that it parsed last, and looks for 'inserted' under what it finds
            # there whenever it plans an UPDATE of the connection again.
            self.report(node.target, f"'{node.target.value}' is an alias: the table that is changed goes by its name")
        if not relation.table:
            self.report(node.target, f"'{node.target.value}' is no table: change the table itself")
            return None, scope
        self.use(relation.table, verb)
        return self.catalogue.tables[relation.table], scope

    def output(self, node, table, prefixes, joined=None):
        """joined: the scope of a statement with FROM, whose other tables may be told of too."""
        if not node.output or not table:
            return
        if table.triggers and not node.output.into:
            # SQL Server refuses it.
            self.report(node.output, f"OUTPUT without INTO on {table.name}, which has a trigger")
        others = [r for r in joined.relations if r.table != table.name] if joined else []
        scope = Scope(None, [Relation(prefix, table.types(), table.name) for prefix in prefixes] + others)
        known = {r.name for r in scope.relations}
        for item in node.output.items:
            bare = [n for n in walk(item.parts[0]) if n.kind == "name" and
                    (len(n.names) == 1 or n.names[0].value not in known)]
            for n in bare:
                self.report(n, f"OUTPUT takes {' or '.join(p + '.' for p in prefixes)} before a column")
            if not bare:
                self.value(item.parts[0], scope)
        if node.output.into:
            into = self.table(node.output.into, "INSERT")
            wanted = node.output.columns if node.output.columns else list(into.columns) if into else []
            if into and len(wanted) != len(node.output.items):
                self.report(node.output, f"{len(node.output.items)} values for {len(wanted)} columns")
            for token in node.output.columns or () if into else ():
                self.inserted_column(into, token)
            self.once(node.output.columns or ())

    def do_truncate(self, node):
        self.table(node.target, "DELETE")

    def assign(self, variable, made):
        known = self.variables.get(variable.text)
        if known is None:
            self.find(self.variables, variable, "variable")
        elif isinstance(known, Table):
            self.report(variable, f"{variable.text} is a table")
        else:
            self.clash(variable, known, made)

    def do_declare(self, node):
        for declared in node.variables:
            name = declared.at.text
            if name in self.variables:
                self.report(declared, f"{name} is declared twice")
            if declared.table:
                self.variables[name] = Table(name, {}, declared.at.line)
                self.add_columns(self.variables[name], declared.table)
                continue
            types = self.values(declared.parts, Scope())
            self.variables[name] = declared.type
            if types:
                self.clash(declared, declared.type, types[0])

    def do_set_variable(self, node):
        self.assign(node.variable, self.value(node.parts[0], Scope()))

    def do_set(self, node):
        self.settings.update(dict.fromkeys(node.settings, node.on))

    def do_identity_insert(self, node):
        table = self.table(node.table, None)
        if table:
            self.identity_insert = table.name if node.on else None

    def do_if(self, node):
        self.condition(node.condition, Scope())
        self.guarded_by(facts(node.condition), node.then)
        if node.otherwise:
            self.guarded_by(facts(node.condition, negated=True), node.otherwise)

    def guarded_by(self, more, node):
        kept, self.guards = self.guards, self.guards + more
        self.conditional += 1
        self.statement(node)
        self.guards = kept
        self.conditional -= 1

    def do_while(self, node):
        self.condition(node.condition, Scope())
        self.statement(node.body)

    def do_block(self, node):
        self.statements(node.body)

    def do_try(self, node):
        self.statements(node.body)
        kept, self.catching = self.catching, True
        self.statements(node.handler)
        self.catching = kept

    def do_execute(self, node):
        if node.name:
            self.values(node.parts, Scope())
            if node.result:
                self.assign(node.result, NUMBER)
            return
        variables, fresh = self.variables, self.fresh
        self.new_batch()
        self.statements(node.body)
        self.variables, self.fresh = variables, fresh | self.fresh

    def do_throw(self, node):
        if not node.parts and not self.catching:
            self.report(node, "THROW alone stands in a CATCH")
        self.values(node.parts, Scope())

    def do_print(self, node):
        self.values(node.parts, Scope())

    do_raiserror = do_print

    def do_transaction(self, node):
        pass

    do_return = do_loop_word = do_transaction

    # --- the schema -------------------------------------------------------------------------------

    def guarded(self, node, what, *names, otherwise=None):
        """Under an IF that asks for just this object, or after its DROP … IF EXISTS. otherwise: other names will do."""
        kind = node.type if node.kind == "constraint" else what
        if (what.split()[-1], names[0]) in self.dropped:
            return
        mine = [asked for texts, asked in self.guards if texts >= set(names) or (otherwise and texts >= set(otherwise))]
        if not mine:
            self.report(node, f"{what} {names[0]} does not stand under an IF that finds " +
                        " of ".join(f"'{name}'" for name in names) + " missing: it may run again")
        elif mine[-1] and kind in OBJECT_TYPES and mine[-1] != OBJECT_TYPES[kind]:
            self.report(node, f"the IF before {what} {names[0]} asks for an object of type '{mine[-1]}', not "
                              f"'{OBJECT_TYPES[kind]}'")

    def in_a_query(self, node):
        if not self.script:
            self.report(node, "the schema is changed by scripts, not by queries")
        return not self.script

    def name_length(self, token):
        if len(token.value) > NAME_MAX:
            self.report(token, f"a name of {len(token.value)} characters: at most {NAME_MAX}")

    def do_create_table(self, node):
        if self.in_a_query(node):
            return
        name = node.table.value
        self.name_length(node.table)
        self.guarded(node, "CREATE TABLE", name)
        other = next((t for t in self.catalogue.tables if t.lower() == name.lower()), None)
        if other:
            self.report(node, f"{other} is made a second time, after line {self.catalogue.tables[other].line}")
            return
        table = self.catalogue.tables[name] = Table(name, {}, node.at.line)
        self.add_columns(table, node.columns)
        self.catalogue.made.setdefault(name, set()).update(table.columns)
        for constraint in (*(c for column in node.columns for c in column.constraints), *node.constraints):
            self.constraint(table, constraint)

    def add_columns(self, table, columns):
        for column in columns:
            name = column.name.value
            if any(c.lower() == name.lower() for c in table.columns):
                self.report(column, f"two columns are called '{name}'")
            if column.null is None:
                # What is meant otherwise depends on the session.
                self.report(column, f"'{name}': say NULL or NOT NULL")
            table.columns[name] = column

    def constraint(self, table, node):
        if not node.name:
            # Otherwise the database generates a name, a different one in every database.
            self.report(node, f"{node.type} without a name: CONSTRAINT x {node.type}")
        else:
            self.name_length(node.name)
            self.catalogue.made.setdefault(node.name.value, set())
            other = self.catalogue.constraints.setdefault(node.name.value, table.name)
            if other != table.name:
                self.report(node, f"{other} has a constraint {node.name.value} too")
            if node.type in ("PRIMARY KEY", "UNIQUE"):
                self.catalogue.indexes[table.name, node.name.value] = node.at.line
        columns = [self.column(table, token) for token in node.columns]
        scope = Scope(None, [Relation(table.name, table.types(), table.name)])
        if node.condition:
            self.condition(node.condition, scope)
        if node.default:
            made = self.value(node.default, Scope())
            if columns[0]:
                self.stored(columns[0], node.default, made)
        if node.type in ("PRIMARY KEY", "UNIQUE"):
            self.key(node, columns, node.clustered)
        if node.type == "PRIMARY KEY" and any(c and c.null for c in columns):
            self.report(node, "a primary key over a column that may be NULL")
        if node.references:
            self.foreign_key(table, node, columns)

    def foreign_key(self, table, node, columns):
        other = self.table(node.references, None)
        if len(node.columns) != len(node.foreign):
            self.report(node, f"{len(node.columns)} columns refer to {len(node.foreign)}")
        if not other:
            return
        for column, token in zip(columns, node.foreign):
            theirs = self.column(other, token)
            if column and theirs and column.type != theirs.type:
                self.report(node, f"{column.name.value} is {column.type}, {other.name}.{token.value} {theirs.type}")
        if node.follows:
            key = node.name.value if node.name else node.at.line
            self.catalogue.cascades.setdefault(table.name, {})[key] = (other.name, self.report_line, node.at.line)

    def key(self, node, columns, clustered):
        types = [c.type for c in columns if c]
        sizes = [t.bytes for t in types]
        most = CLUSTERED_KEY_BYTES if clustered else KEY_BYTES
        if None in sizes:
            self.report(node, f"a key over {types[sizes.index(None)]}")
        elif sum(sizes) > most:
            self.report(node, f"a key of up to {sum(sizes)} bytes: at most {most}")

    def do_create_index(self, node):
        if self.in_a_query(node):
            return
        table = self.table(node.table, None)
        self.name_length(node.name)
        # It may have been created under another name: then the guard asks for its first column.
        self.guarded(node, "CREATE INDEX", node.name.value, node.table.value,
                     otherwise=(node.table.value, node.columns[0].value))
        if not table:
            return
        self.key(node, [self.column(table, token) for token in node.columns], node.clustered)
        for token in node.included:
            self.column(table, token)
        if (table.name, node.name.value) in self.catalogue.indexes:
            self.report(node, f"{node.name.value} is made a second time, after line "
                              f"{self.catalogue.indexes[table.name, node.name.value]}")
        self.catalogue.indexes[table.name, node.name.value] = node.at.line
        if node.where:
            self.condition(node.where, Scope(None, [Relation(table.name, table.types(), table.name)]))
            missing = [s for s, on in FILTER_SETTINGS.items() if self.settings.get(s) != on]
            if missing:
                self.report(node, "a filtered index needs, before it in the script, " +
                            ", ".join(f"SET {s} {'ON' if FILTER_SETTINGS[s] else 'OFF'}" for s in missing))

    def do_create_trigger(self, node):
        if self.in_a_query(node):
            return
        table = self.table(node.table, None)
        self.guarded(node, "CREATE TRIGGER", node.name.value)
        self.catalogue.triggers[node.name.value] = node.table.value
        self.catalogue.made.setdefault(node.name.value, set())
        if not table:
            return
        table.triggers.add(node.name.value)
        self.trigger = table
        self.statements(node.body)
        self.trigger = None

    def do_alter_table(self, node):
        if self.in_a_query(node):
            return
        table = self.table(node.table, None)
        if not table:
            return
        for column in node.columns:
            self.add_column(table, column)
        for constraint in node.constraints:
            if constraint.name:
                self.guarded(constraint, "ADD CONSTRAINT", constraint.name.value,
                             otherwise=self.nameless(table, constraint))
            if constraint.type == "DEFAULT":
                column = self.column(table, constraint.columns[0])
                if column and not any(c.type == "DEFAULT" for c in column.constraints):
                    column.constraints.append(constraint)
            self.constraint(table, constraint)
        if node.changed:
            name, made = node.changed
            column = self.column(table, name)
            if column:
                if not column.null:
                    self.report(name, f"'{name.value}' is NOT NULL and would become nullable")
                column.type = made
        for token in node.dropped:
            self.find(self.catalogue.constraints, token, "constraint")
            self.drop_guarded(node, f"DROP CONSTRAINT {token.value}")
            self.catalogue.constraints.pop(token.value, None)
        for token in node.dropped_columns:
            self.column(table, token)
            self.drop_guarded(node, f"DROP COLUMN {token.value}")
            table.columns.pop(token.value, None)
        self.fresh.update({(table.name, column.name.value): column.at.line for column in node.columns})

    def nameless(self, table, constraint):
        """What a constraint is known by that may have been made under another name."""
        if constraint.references:
            return table.name, constraint.references.value
        return (table.name, constraint.columns[0].value) if constraint.type == "DEFAULT" else None

    def add_column(self, table, column):
        name = column.name.value
        self.guarded(column, "ADD", name, table.name)
        has_default = any(c.type == "DEFAULT" for c in column.constraints)
        if column.null is False and not has_default and not column.identity:
            # The table may have rows.
            self.report(column, f"'{name}' is added NOT NULL and without a default")
        before = table.columns.pop(name, None)
        if before:
            self.same_column(before, column)
        self.add_columns(table, [column])
        for constraint in column.constraints:
            self.constraint(table, constraint)
        self.catalogue.made[table.name].add(name)

    def same_column(self, before, after):
        """A table created now and one created earlier without the column must end up the same."""
        def described(column):
            default = next((c for c in column.constraints if c.type == "DEFAULT"), None)
            return [f"{column.type} {'NULL' if column.null else 'NOT NULL'}",
                    default and default.name and default.name.value, default and shape(default.default)]
        if described(before) != described(after):
            self.report(after, f"{after.name.value} is added otherwise than line {before.at.line} makes it")

    def drop_guarded(self, node, what):
        if not node.if_exists and not self.conditional:
            self.report(node, f"{what} without IF EXISTS: it may run again")

    def do_drop(self, node):
        if self.in_a_query(node):
            return
        self.drop_guarded(node, f"DROP {node.what} {node.name.value}")
        self.dropped.add((node.what, node.name.value))
        if node.what == "TABLE":
            self.catalogue.tables.pop(node.name.value, None)
        elif node.what == "INDEX":
            table = self.table(node.table, None)
            if table:
                self.catalogue.indexes.pop((table.name, node.name.value), None)
        else:
            table = self.catalogue.tables.get(self.catalogue.triggers.pop(node.name.value, None))
            if table:
                table.triggers.discard(node.name.value)


# --- files ----------------------------------------------------------------------------------------


def check_script(source, catalogue, report):
    checker = Checker(catalogue, report, script=True)
    try:
        streams = batches(source)
    except Problem as problem:
        report(problem.line, problem.message)
        return
    for stream in streams:
        checker.new_batch()
        try:
            checker.statements(Parser(stream).batch())
        except Problem as problem:
            report(problem.line, problem.message)


def check_query(source, line, catalogue, report):
    """The tables that it uses, as in Checker.uses."""
    checker = Checker(catalogue, report)
    try:
        checker.statements(Parser(tokens(source, line)).batch())
    except Problem as problem:
        report(problem.line, problem.message)
    return checker.uses


def check_asked(catalogue):
    """OBJECT_ID(N'…') of an object that no script creates is always NULL."""
    for report, node in catalogue.asked:
        if any(part.kind != "string" for part in node.parts):
            continue
        name, *more = (part.at.value for part in node.parts)
        if name not in catalogue.made:
            report(node.at.line, f"{node.function}: no script makes '{name}'")
        elif node.function == "COL_LENGTH" and more[0] not in catalogue.made[name]:
            report(node.at.line, f"COL_LENGTH: no script gives '{name}' a column '{more[0]}'")


def check_cascades(catalogue):
    """SQL Server, unlike others, refuses a table that cascades reach on several paths, or from itself."""
    def ways(table, seen):
        for parent, _, _ in catalogue.cascades.get(table, {}).values():
            yield parent
            if parent not in seen:
                yield from ways(parent, seen | {parent})

    for table, keys in catalogue.cascades.items():
        reached = list(ways(table, {table}))
        for parent in {p for p in reached if reached.count(p) > 1 or p == table}:
            _, report, line = list(keys.values())[-1]
            report(line, f"a deletion in {parent} would reach {table} by more than one cascade: SQL Server refuses it")


class QueryFile(embed_sql.Parser):
    """Remembers where each text begins and ends in the file, which is what is parsed here: with its lines."""

    def emit(self, what, end, space=False):
        begin = self.pos
        super().emit(what, end, space)
        if not space:
            text = self.text()
            text.begin = getattr(text, "begin", begin)
            text.end = end


class Query:
    def __init__(self, file, block):
        text = block.by_dialect()["sqlserver"]
        self.path = file.path
        self.name = block.name
        self.params = block.texts[0].params()
        self.source = file.source[text.begin:text.end]
        self.line = file.line_at(text.begin)
        self.uses = {}


def queries_of(path, name):
    """Queries, or a Problem."""
    source = path.read_text(encoding="utf-8").replace("\r\n", "\n")
    try:
        file = QueryFile(name, source, path.parent)
        return [Query(file, block) for block in file.parse()]
    except embed_sql.Mistake as mistake:
        _, line, message = str(mistake).split(":", 2)
        raise Problem(int(line), message.strip()) from None


class Project:
    def __init__(self, root):
        self.root = root
        self.catalogue = Catalogue()
        self.problems = []
        self.queries = []
        self.scripts = sorted((root / "scripts/sqlserver").glob("*.sql"))

    def reporter(self, name):
        def report(line, message):
            if (name, line, message) not in self.problems:
                self.problems.append((name, line, message))
        return report

    def check(self):
        if not self.scripts:
            self.reporter("scripts/sqlserver")(1, "no scripts")
        for path in self.scripts:
            check_script(path.read_text(encoding="utf-8"), self.catalogue, self.reporter(self.name(path)))
        sources = [path for folder in ("src", "bench/src") for path in (self.root / folder).rglob("*.sql")]
        for path in sorted(sources):
            self.check_file(path, self.reporter(self.name(path)))
        check_asked(self.catalogue)
        check_cascades(self.catalogue)
        return sorted(self.problems)

    def name(self, path):
        return str(path.relative_to(self.root))

    def check_file(self, path, report):
        try:
            queries = queries_of(path, self.name(path))
        except Problem as problem:
            report(problem.line, problem.message)
            return
        for query in queries:
            query.uses = check_query(query.source, query.line, self.catalogue, report)
            self.queries.append(query)


def main(argv):
    listing = argv[1:2] == ["--list"]
    rest = argv[2:] if listing else argv[1:]
    if len(rest) > 1 or (rest and rest[0].startswith("-")):
        print("usage: check_tsql.py [--list] [ROOT]", file=sys.stderr)
        return 2
    project = Project(Path(rest[0]) if rest else Path(__file__).resolve().parents[1])
    problems = project.check()
    if listing:
        for query in project.queries:
            uses = "; ".join(f"{', '.join(sorted(verbs))} {table}" for table, verbs in sorted(query.uses.items()))
            print(f"{query.path}: {query.name}: {uses or '-'}: {', '.join(':' + p for p in query.params) or '-'}")
        return 0
    for name, line, message in problems:
        print(f"{name}:{line}: {message}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
