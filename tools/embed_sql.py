#!/usr/bin/env python3
"""Turns the queries of a .sql file into C: one struct df_query (src/store/db.h) for each.

    embed_sql.py [--plain] IN.sql OUT.c OUT.h
    embed_sql.py --all OUT.c FILES...       the list of all queries of all files with their texts, and OUT.h
    embed_sql.py --shapes IN.sqlt OUT.h     the rows that a template names

The texts are in OUT.c of --all, compressed: a process needs those of one dialect. With --plain they are in OUT.c of the
file itself, which is then not among FILES.

A file is a sequence of blocks:

    -- Comments explain what follows.
    -- name: client_insert
    INSERT INTO Clients (Id, Name) VALUES (:id, :name);

    -- name: ticket_claim
    -- dialect: sqlite, postgres
    SELECT ... LIMIT :count
    -- dialect: sqlserver
    SELECT TOP (:count) ...

Columns and parameters are used by name in C. For each query the header has

    struct df_p_NAME        a struct df_value for each parameter: DF_Q(client_insert, .id = …, .name = …)
    enum                    a constant for each column it returns: df_col_text(r, client_get_Name)

A column has the name by which it is selected (`Name`, `c.Name`), or the name after AS. A column without a name has no
constant, two columns of one name are a mistake, and all texts of a block return the same columns. Queries whose rows are
read by the same code say so, and share the constants (client_Name):

    -- name: client_get
    -- row: client

`-- row: client, …` is for a query that has more columns after those of a client: the first ones have the constants of
client, and all of them have the query's own constants too.

A template may define rows for queries of any file, which are checked against it. `…` stands for further columns:

    -- shape: channel_load = Id, Attempt, Fence, …

A text without a dialect line serves every dialect that has no text of its own; it comes first.
Parameters are written :name and numbered by their first appearance in the block's first text; all texts
of a block have the same ones. A repeated parameter has the same value everywhere. Comments and the closing semicolon
are dropped; everything else stays as written. A text holds one statement; only a text for SQL Server may hold several.

A query that is run for many rows (df_db_exec_many) may have one more text for PostgreSQL, the last of its block. It runs
once for all rows, and each of its parameters is an array with a value for each row. A CAST says of what type: that of the
column, or one that it may become:

    -- name: item_settle
    UPDATE Items SET A = :a WHERE Id = :id;
    -- many: postgres
    UPDATE Items SET A = n.a FROM UNNEST(CAST(:a AS INT[]), CAST(:id AS BIGINT[])) AS n (a, id) WHERE Items.Id = n.id;

It changes at most one row for each row of parameters. It has the columns of the other texts and, after them, a column Nth:
the number of the row of parameters, from 1 (UNNEST(…) WITH ORDINALITY AS n (a, id, Nth)). A query without columns may
have Nth or not; with it, the rows that were changed are known at once. Who changes rows at the same time as others in
other processes locks them first, in the order of their keys: the order of an UPDATE … FROM is the database's to choose.

`x IN EACH_INT(:ids)` and `x IN EACH_UUID(:ids)` take one text parameter, a JSON array ("[1,2,3]", '["0190…"]'), and are
written for each dialect so that it looks the values up one by one, by an index if there is one, whatever its statistics
of the table say.

Queries shared by tables of one shape are in a template (.sqlt), with {places} for the differences. They are made by

    -- template: ../delivery/outbox.sqlt
    -- with: table = Orders
    -- with: target = Method || Path
    -- with: target/sqlserver = Method + Path
    -- with: ready = AND EXISTS (SELECT …
    --     a value goes on in lines that are indented by four or more)

The template lists its places in `-- with:` lines too; optional ones have `=` and a default value. `{o.x}` puts `o.`
before each item of a list; an empty value also removes the space before it. A place in the text of one dialect takes the
value of that dialect, if there is one. A query that the file defines itself is not made.

A query with `{DESC}` in it is made twice: as it is called, with DESC, and as NAME_oldest with ASC. `{<}` is `<` in the
first and `>` in the second. Lists are read in both orders by it (src/access/list.h); such a query has a `-- row:`:

    -- name: order_keys
    -- row: list_key
    SELECT o.Id, o.CreatedAt FROM Orders AS o WHERE o.Id {<} :after_id ORDER BY o.Id {DESC} LIMIT :limit OFFSET :offset;

The time in such a list is called `:after_at`. It is given as the text that the database has (df_col_exact_time), and SQL
Server must be told that it is a time.

Brackets quote a name in SQLite and SQL Server but index an array in PostgreSQL, so they need a dialect line. In PostgreSQL write `x[a : b]` with spaces, since `:b` is a parameter, and the functions
behind the operators that contain a question mark (jsonb_exists).

Mistakes are found at build time: the tool prints FILE:LINE: MESSAGE and exits with status 1.
"""

import gzip
import os
import re
import sys

from embed_files import written

DIALECTS = ("sqlite", "postgres", "sqlserver")
ENUM = {"sqlite": "DF_SQLITE", "postgres": "DF_POSTGRES", "sqlserver": "DF_SQLSERVER"}

# PostgreSQL cuts the names of prepared statements at 63 bytes; a driver may put something before them.
NAME_MAX = 56
PARAM_MAX = 255  # the elements of df_query.markers are bytes

NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
DIRECTIVE = re.compile(r"--\s*(name|dialect|many|row|shape|template|with)\s*:", re.IGNORECASE)
STRICT_DIRECTIVE = re.compile(r"-- (name|dialect|many|row|shape|template|with): (\S.*?)\s*\Z")
ROW = re.compile(r"([a-z][a-z0-9_]*)(, …)?\Z")
SHAPE = re.compile(r"-- shape: ([a-z][a-z0-9_]*) = (\S.*?)\s*\Z")
TEMPLATE = re.compile(r"-- template: (\S+)\s*\Z")
WITH = re.compile(r"-- with: ([a-z_]+)(?:/(sqlite|postgres|sqlserver))?(?: =(?: (.*?))?(?P<given>))?\s*\Z")
MORE = re.compile(r"-- {4,}(\S.*?)\s*\Z")
PLACE = re.compile(r" ?\{(?:([a-z]+)\.)?([a-z_]+)\}")
SPACE = re.compile(r"\s+")
IDENT = re.compile(r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*")
NUMBER = re.compile(r"\d[A-Za-z0-9_.]*")
PARAM = re.compile(r":([A-Za-z_][A-Za-z0-9_]*)")
EACH = re.compile(r"IN\s+EACH_(INT|UUID)\(:([A-Za-z_][A-Za-z0-9_]*)\)")
CURSOR_TIME = "after_at"
EACH_SQL = {
    "sqlite": ("IN (SELECT value FROM json_each(", "))"),
    "postgres": ("= ANY(CAST(translate(", ", '[]\"', '{}') AS {type}[]))"),
    "sqlserver": ("IN (SELECT CAST(value AS {type}) FROM OPENJSON(CAST(", " AS NVARCHAR(MAX))))"),
}
EACH_TYPE = {"INT": {"postgres": "BIGINT", "sqlserver": "BIGINT"},
             "UUID": {"postgres": "UUID", "sqlserver": "UNIQUEIDENTIFIER"}}
DOLLAR_QUOTE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)?\$")


class Mistake(Exception):
    def __init__(self, path, line, message):
        super().__init__(f"{path}:{line}: {message}")


class Text:
    """The SQL of one variant: a list of strings and, for parameters, tuples: a name, and for EACH the type of its values."""

    def __init__(self, dialects, line):
        self.dialects = dialects  # None: those that have no text of their own
        self.line = line
        self.parts = []
        self.ended = False  # a semicolon was seen

    def params(self):
        return list(dict.fromkeys(p[0] for p in self.parts if isinstance(p, tuple)))

    def may_go_on(self):
        """Several statements in one text: only T-SQL needs them (an UPDATE, then an INSERT if it found no row)."""
        return self.dialects == ["sqlserver"]

    def empty(self):
        return not any(isinstance(p, tuple) or p.strip() for p in self.parts)


class Block:
    def __init__(self, name, line):
        self.name = name
        self.line = line
        self.row = None  # name of its rows; None: the query's name
        self.more = False  # it has more columns than the row
        self.texts = []
        self.many = None  # PostgreSQL's text with arrays

    def all_texts(self):
        return self.texts + ([self.many] if self.many else [])

    def current(self):
        """The text that is being read; None: none yet."""
        return next(reversed(self.all_texts()), None)

    def by_dialect(self):
        own = {d: t for t in self.texts if t.dialects for d in t.dialects}
        rest = next((t for t in self.texts if t.dialects is None), None)
        return {d: own.get(d, rest) for d in DIALECTS if own.get(d, rest)}


def read(path):
    try:
        with open(path, encoding="utf-8", newline="") as f:
            return f.read().replace("\r\n", "\n")
    except UnicodeDecodeError as e:
        with open(path, "rb") as f:
            raise Mistake(path, f.read(e.start).count(b"\n") + 1, "not UTF-8") from None


# --- templates ------------------------------------------------------------------------------------

class Template:
    def __init__(self, path):
        self.lines = read(path).split("\n")
        self.defaults = {}  # None: must be given
        for line in self.lines:
            if m := WITH.match(line):
                self.defaults[m[1]] = None if m["given"] is None else m[3] or ""

    def fill(self, values, own_names):
        """The lines of the queries that the file does not define itself."""
        out, dialect, wanted = [], None, False

        def value(m):
            if m[2] not in self.defaults:
                raise ValueError(f"the template does not name its place '{m[2]}'")
            text = values.get((m[2], dialect), values.get((m[2], None), self.defaults[m[2]]))
            if text is None:
                raise ValueError(f"the template wants a value of '{m[2]}'")
            if m[1]:
                text = ", ".join(f"{m[1]}.{item.strip()}" for item in text.split(","))
            return text and (" " if m[0][0] == " " else "") + text

        for name, _ in values:
            if name not in self.defaults:
                raise ValueError(f"the template has no place '{name}'")
        for line in self.lines:
            if m := STRICT_DIRECTIVE.match(line):
                dialect = m[2] if m[1] in ("dialect", "many") else None
                if m[1] == "name":
                    wanted = PLACE.sub(value, m[2]) not in own_names
            if wanted:
                out.append(PLACE.sub(value, line))
        return out


def values_behind(lines, at):
    """The `-- with:` lines from there on: {(name, dialect or None): value}, and where they end."""
    values, last = {}, None
    while at < len(lines):
        if m := WITH.match(lines[at]):
            last = (m[1], m[2])
            values[last] = m[3] or ""
        elif last and (m := MORE.match(lines[at])):
            values[last] += " " + m[1]
        else:
            break
        at += 1
    return values, at


def in_both_orders(lines, line_numbers):
    """Gives queries with {DESC} their order, and returns the lines of the same ones in the other order, with the lines that
    made them."""
    twins, numbers, begin = [], [], None
    starts = [i for i, line in enumerate(lines) if line.startswith("-- name: ")] + [len(lines)]
    for begin, end in zip(starts, starts[1:]):
        if not any("{DESC}" in line and not line.startswith("--") for line in lines[begin:end]):
            continue
        for i in range(begin, end):
            twins.append(lines[i].replace("{DESC}", "ASC").replace("{<}", ">"))
            numbers.append(line_numbers[i])
            lines[i] = lines[i].replace("{DESC}", "DESC").replace("{<}", "<")
        twins[begin - end] += "_oldest"
    return twins, numbers


def expand(path, source, folder):
    """The source followed by the queries of its templates, and for each of their lines the line that made it."""
    lines = source.split("\n")
    own_names = {m[2] for line in lines if (m := STRICT_DIRECTIVE.match(line)) and m[1] == "name"}
    made, origins, at = [], [], 0
    while at < len(lines):
        line, at = at + 1, at + 1
        if WITH.match(lines[line - 1]):
            raise Mistake(path, line, "'-- with:' without a template before it")
        m = TEMPLATE.match(lines[line - 1])
        if not m:
            continue
        template = Template(os.path.normpath(os.path.join(folder, m[1])))
        values, at = values_behind(lines, at)
        try:
            filled = template.fill(values, own_names)
        except ValueError as e:
            raise Mistake(path, line, str(e)) from None
        made += filled
        origins += [line] * len(filled)
    own = len(lines)
    lines += made
    twins, numbers = in_both_orders(lines, [*range(1, own + 1), *origins])
    return "\n".join([*lines, *twins]), origins + numbers


# --- the text -------------------------------------------------------------------------------------

class Parser:
    """Lexes the whole file at once, so that a directive inside a string or a block comment does not count."""

    def __init__(self, path, source, folder=None):
        self.path = path
        self.own_lines = source.count("\n") + 1
        self.source, self.origins = expand(path, source, folder or os.path.dirname(path))
        self.pos = 0
        self.blocks = []

    def line_at(self, pos):
        line = self.source.count("\n", 0, pos) + 1
        return line if line <= self.own_lines else self.origins[line - self.own_lines - 1]

    def fail(self, message, pos=None):
        raise Mistake(self.path, self.line_at(self.pos if pos is None else pos), message)

    def line(self):
        return self.line_at(self.pos)

    def parse(self):
        if "\0" in self.source:
            self.fail("a NUL byte", self.source.index("\0"))
        while self.pos < len(self.source):
            self.token()
        self.close_block()
        if not self.blocks:
            self.fail("no query in this file", 0)
        return self.blocks

    # --- tokens -----------------------------------------------------------------------------------

    def token(self):
        s, pos = self.source, self.pos
        c = s[pos]
        if s.startswith("--", pos):
            self.line_comment()
        elif s.startswith("/*", pos):
            self.block_comment()
        elif m := SPACE.match(s, pos):
            self.emit("\n" if "\n" in m[0] else " ", m.end(), space=True)
        elif c == "'":
            self.quoted("'", pos)
        elif c == '"':
            self.quoted('"', pos)
        elif c == "[":
            self.bracket()
        elif c == "$":
            self.dollar()
        elif c == ":":
            self.colon()
        elif c == "?":
            self.fail("positional parameter '?': write :name")
        elif c == "@":
            self.at()
        elif c == ";":
            self.semicolon()
        elif m := IDENT.match(s, pos):
            self.identifier(m)
        elif m := NUMBER.match(s, pos):
            self.emit(m[0], m.end())
        else:
            self.emit(c, pos + 1)

    def text(self):
        if not self.blocks:
            self.fail("SQL before the first '-- name:'")
        block = self.blocks[-1]
        if not block.texts:
            block.texts.append(Text(None, self.line()))
        return block.current()

    def emit(self, what, end, space=False):
        if space:
            # Space between blocks is dropped.
            if self.blocks and (text := self.blocks[-1].current()):
                text.parts.append(what)
        else:
            text = self.text()
            if text.ended and not text.may_go_on():
                self.fail("a second statement: one block holds one")
            text.ended = False
            text.parts.append(what)
        self.pos = end

    def line_comment(self):
        end = self.source.find("\n", self.pos)
        end = len(self.source) if end < 0 else end
        comment = self.source[self.pos:end]
        if DIRECTIVE.match(comment):
            self.directive(comment)
        self.pos = end

    def directive(self, comment):
        begin = self.source.rfind("\n", 0, self.pos) + 1
        m = STRICT_DIRECTIVE.match(comment)
        if not m or begin != self.pos:
            self.fail("malformed directive: write '-- name: x' or '-- dialect: x, y' on a line of its own")
        if m[1] == "name":
            self.open_block(m[2])
        elif m[1] == "dialect":
            self.open_text(m[2])
        elif m[1] == "many":
            self.open_many(m[2])
        elif m[1] == "row":
            self.set_row(m[2])

    def block_comment(self):
        depth, pos = 0, self.pos
        while True:
            m = re.compile(r"/\*|\*/").search(self.source, pos)
            if not m:
                self.fail("unterminated comment")
            depth += 1 if m[0] == "/*" else -1
            pos = m.end()
            if depth == 0:
                break
        self.emit(" ", pos, space=True)

    def quoted(self, quote, start, escapes=False):
        pos = self.source.index(quote, start) + 1
        while True:
            if pos >= len(self.source):
                self.fail(f"unterminated {quote}")
            c = self.source[pos]
            if c == "\\" and escapes:
                pos += 2
            elif c != quote:
                pos += 1
            elif self.source.startswith(quote, pos + 1):
                pos += 2
            else:
                break
        self.emit(self.source[start:pos + 1], pos + 1)

    def bracket(self):
        dialects = self.text().dialects
        if dialects is None or len({d == "postgres" for d in dialects}) == 2:
            self.fail("brackets mean one thing in PostgreSQL and another elsewhere: "
                      "say '-- dialect:' before them")
        if dialects == ["postgres"]:
            self.emit("[", self.pos + 1)
            return
        end = self.pos + 1
        while True:
            end = self.source.find("]", end)
            if end < 0:
                self.fail("unterminated [")
            if not self.source.startswith("]]", end):
                break
            end += 2
        self.emit(self.source[self.pos:end + 1], end + 1)

    def dollar(self):
        m = DOLLAR_QUOTE.match(self.source, self.pos)
        if not m:
            self.fail("positional parameter '$': write :name")
        end = self.source.find(m[0], m.end())
        if end < 0:
            self.fail(f"unterminated {m[0]}")
        self.emit(self.source[self.pos:end + len(m[0])], end + len(m[0]))

    def colon(self):
        if self.source.startswith(("::", ":="), self.pos):
            self.emit(self.source[self.pos:self.pos + 2], self.pos + 2)
        elif m := PARAM.match(self.source, self.pos):
            if not NAME.match(m[1]):
                self.fail(f"parameter :{m[1]} is not lower_snake_case")
            self.emit((m[1],), m.end())
        elif self.source[self.pos + 1:self.pos + 2].isdigit():
            self.fail("positional parameter ':' and a number: write :name")
        else:
            self.emit(":", self.pos + 1)

    def at(self):
        # SQLite takes @x for a parameter, SQL Server for a variable, PostgreSQL has an operator.
        dialects = self.text().dialects
        if IDENT.match(self.source, self.pos + 1) and (dialects is None or "sqlite" in dialects):
            self.fail("'@' before a name is a parameter in SQLite: write :name")
        self.emit("@", self.pos + 1)

    def semicolon(self):
        text = self.text()
        if text.ended or text.empty():
            self.fail("an empty statement")
        if text.may_go_on():
            text.parts.append(";")
        text.ended = True
        self.pos += 1

    def identifier(self, m):
        if each := EACH.match(self.source, self.pos):
            self.emit((each[2], each[1]), each.end())
        elif m[0] in ("e", "E") and self.source.startswith("'", m.end()):
            self.quoted("'", self.pos, escapes=True)
        else:
            self.emit(m[0], m.end())

    # --- blocks -----------------------------------------------------------------------------------

    def open_block(self, name):
        self.close_block()
        if not NAME.match(name):
            self.fail(f"malformed name '{name}': lower-case letters, digits and underscores")
        if len(name) > NAME_MAX:
            self.fail(f"name '{name}' is longer than {NAME_MAX} characters")
        for other in self.blocks:
            if other.name == name:
                self.fail(f"duplicate name '{name}', also on line {other.line}")
        self.blocks.append(Block(name, self.line()))

    def set_row(self, name):
        m = ROW.match(name)
        if not self.blocks or self.blocks[-1].texts or not m:
            self.fail("'-- row: name' stands behind a '-- name:' and before its text")
        self.blocks[-1].row, self.blocks[-1].more = m[1], bool(m[2])

    def open_text(self, value):
        if not self.blocks:
            self.fail("'-- dialect:' before the first '-- name:'")
        dialects = [d.strip() for d in value.split(",")]
        block = self.blocks[-1]
        if block.many:
            self.fail("'-- many:' is the last text of its block")
        for i, d in enumerate(dialects):
            if d not in DIALECTS:
                self.fail(f"unknown dialect '{d}': one of {', '.join(DIALECTS)}")
            if d in dialects[:i] or any(d in (t.dialects or ()) for t in block.texts):
                self.fail(f"'{block.name}' has two texts for {d}")
        block.texts.append(Text(dialects, self.line()))

    def open_many(self, value):
        if not self.blocks or not self.blocks[-1].texts or self.blocks[-1].many or value != "postgres":
            self.fail("'-- many: postgres' stands once, behind the other texts of a block")
        self.blocks[-1].many = Text(["postgres"], self.line())

    def close_block(self):
        if not self.blocks:
            return
        block = self.blocks[-1]
        if not block.texts:
            raise Mistake(self.path, block.line, f"'{block.name}' is empty")
        for t in block.all_texts():
            if t.empty():
                raise Mistake(self.path, t.line, f"'{block.name}' is empty")
        served = block.by_dialect()
        if any(t not in served.values() for t in block.texts):
            raise Mistake(self.path, block.line,
                          f"'{block.name}': every dialect has its own text, the one without is never used")
        for d in DIALECTS:
            if d not in served:
                raise Mistake(self.path, block.line, f"'{block.name}' has no text for {d}")
        self.check_params(block)
        self.check_columns(block)
        if block.many:
            self.check_many(block)

    def check_many(self, block):
        """The columns of the other texts, then Nth, without which nobody knows whose row it is."""
        first, here = columns_of(block.texts[0]), columns_of(block.many)
        wanted = [*first, "Nth"] if first or here else []
        if len(here) != len(wanted) or any(a and (b or "").lower() != a.lower() for a, b in zip(wanted, here)):
            raise Mistake(self.path, block.many.line, f"'{block.name}': the columns for many rows are {shown(wanted)}; "
                                                      f"this has {shown(here)}")
        if not block.texts[0].params() or any(len(p) == 2 for p in block.many.parts if isinstance(p, tuple)):
            raise Mistake(self.path, block.many.line, f"'{block.name}': for many rows each parameter is an array, "
                                                      "there is one at least, and none is EACH")

    def check_columns(self, block):
        first = columns_of(block.texts[0])
        named = [c for c in first if c]
        if len(set(named)) < len(named):
            twice = next(c for c in named if named.count(c) > 1)
            raise Mistake(self.path, block.line, f"'{block.name}' has two columns '{twice}': write AS")
        for t in block.texts[1:]:
            here = columns_of(t)
            if len(here) != len(first) or any(a and b and a.lower() != b.lower() for a, b in zip(first, here)):
                raise Mistake(self.path, t.line, f"'{block.name}': the columns of this text differ from the first: "
                                                 f"{shown(here)} and not {shown(first)}")

    def check_params(self, block):
        first = block.texts[0].params()
        if len(first) > PARAM_MAX:
            raise Mistake(self.path, block.line, f"'{block.name}' has more than {PARAM_MAX} parameters")
        for t in block.all_texts()[1:]:
            here = t.params()
            missing = [":" + p for p in first if p not in here]
            extra = [":" + p for p in here if p not in first]
            if missing or extra:
                what = "; ".join(w + " " + ", ".join(ps) for w, ps in
                                 (("lacks", missing), ("adds", extra)) if ps)
                raise Mistake(self.path, t.line,
                              f"'{block.name}': the parameters of this text differ from the first: {what}")


def parse_file(path):
    return Parser(path, read(path)).parse()


# --- columns --------------------------------------------------------------------------------------

LIST_ENDS = {"FROM", "WHERE", "UNION", "ORDER", "LIMIT", "FOR", "GROUP", "HAVING", "INTO", "VALUES", "SELECT", "OFFSET"}
VERBS = {"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"}


def word(part):
    return part.upper() if isinstance(part, str) else ""


def at_top(parts):
    """(index, part) of the parts outside parentheses."""
    depth = 0
    for i, part in enumerate(parts):
        depth -= part == ")"
        if depth == 0:
            yield i, part
        depth += part == "("


def skip_space(parts, at):
    while at < len(parts) and isinstance(parts[at], str) and not parts[at].strip():
        at += 1
    return at


def skip_limits(parts, at):
    """DISTINCT, TOP (n) and the like, between SELECT and the list."""
    at = skip_space(parts, at)
    while at < len(parts) and word(parts[at]) in ("DISTINCT", "ALL", "TOP"):
        top = word(parts[at]) == "TOP"
        at = skip_space(parts, at + 1)
        if top and parts[at] == "(":
            at = parts.index(")", at)
        at = skip_space(parts, at + top)
    return at


def items_from(parts, start):
    items = [[]]
    for _, part in at_top_whole(parts[start:]):
        if part == ",":
            items.append([])
        elif isinstance(part, list) or not isinstance(part, str) or part.strip():
            items[-1].append(part)
    return items


def at_top_whole(parts):
    """The items of the list up to the word that ends it; parentheses are one part."""
    depth, inside = 0, []
    for i, part in enumerate(parts):
        if depth == 0 and word(part) in LIST_ENDS:
            return
        depth += (part == "(") - (part == ")")
        inside.append(part)
        if depth == 0:
            yield i, inside if len(inside) > 1 else part
            inside = []


def answered(parts):
    """The items that a statement returns; None: it returns no rows."""
    words = [(i, word(p)) for i, p in at_top(parts)]
    verb = next(((i, w) for i, w in words if w in VERBS), None)
    if not verb:
        return None
    if verb[1] == "SELECT":
        return items_from(parts, skip_limits(parts, verb[0] + 1))
    clause = next((i for i, w in words if w in ("RETURNING", "OUTPUT")), None)
    return None if clause is None else items_from(parts, clause + 1)


def column_name(item):
    last = item[-1].strip("[]") if item and isinstance(item[-1], str) else ""
    if not IDENT.fullmatch(last):
        return None
    if len(item) > 1 and word(item[-2]) == "AS":
        return last
    plain = len(item) == 1 or (len(item) == 3 and item[1] == ".")
    return last if plain and last.upper() != "NULL" else None


def columns_of(text):
    """The columns of the first statement that returns rows; None for a column without a name."""
    statement = []
    for part in [*text.parts, ";"]:
        if part != ";":
            statement.append(part)
            continue
        items = answered(statement)
        if items is not None:
            return [column_name(item) for item in items]
        statement = []
    return []


def shown(columns):
    return ", ".join(c or "?" for c in columns) or "none"


def shapes_in(path):
    """{name: columns} of the rows that a template defines; the last column may be …"""
    found = {}
    for number, line in enumerate(read(path).split("\n"), 1):
        if not line.startswith("-- shape:"):
            continue
        m = SHAPE.match(line)
        if not m:
            raise Mistake(path, number, "write '-- shape: name = Column, Column'")
        found[m[1]] = [c.strip() for c in m[2].split(",")]
    return found


def all_shapes(path):
    """The rows of all templates of the tree that holds the file."""
    root, below, _ = os.path.abspath(path).rpartition("/src/")
    found = {}
    for folder, _, names in os.walk(root + "/src") if below else ():
        for name in sorted(names):
            if name.endswith(".sqlt"):
                found.update(shapes_in(os.path.join(folder, name)))
    return found


def fits(columns, shape):
    more = shape[-1] == "…"
    wanted = shape[:-1] if more else shape
    here = columns[:len(wanted)] if more else columns
    return len(here) == len(wanted) and all(c and c.lower() == w.lower() for c, w in zip(here, wanted))


def c_enum(name, columns):
    members = [f"    {name}_{c} = {i},\n" for i, c in enumerate(columns) if c and c != "…"]
    return "enum {\n" + "".join(members) + "};\n" if members else ""


def c_columns(path, blocks):
    """The constants for the columns, once for each kind of row."""
    shapes, rows, out = all_shapes(path), {}, []
    for b in blocks:
        columns = columns_of(b.texts[0])
        shape = None if b.more else shapes.get(b.row)
        if shape and not fits(columns, shape):
            raise Mistake(path, b.line, f"'{b.name}': a row {b.row} has {shown(shape)}; this has {shown(columns)}")
        if shape and shape[-1] != "…":
            continue
        name = b.row if b.row and not shape and not b.more else b.name
        if name not in rows:
            rows[name] = columns
            out.append(c_enum(name, columns))
        elif rows[name] != columns:
            raise Mistake(path, b.line, f"'{b.name}': a row {name} has {shown(rows[name])}; this has {shown(columns)}")
    for b in (b for b in blocks if b.more):
        shared = rows.get(b.row, [])
        if not shared or rows[b.name][:len(shared)] != shared:
            raise Mistake(path, b.line, f"'{b.name}': a row {b.row} has {shown(shared)}; this begins with {shown(rows[b.name])}")
    return "".join(out)


def c_params(block):
    params = block.texts[0].params()
    return f"struct df_p_{block.name} {{\n    struct df_value {', '.join(params)};\n}};\n" if params else ""


# --- C --------------------------------------------------------------------------------------------

def render(text, dialect, params):
    """The text as the driver sends it, and for SQL Server which parameter each marker takes."""
    out, markers = [], []
    for p in text.parts:
        if not isinstance(p, tuple):
            out.append(p)
            continue
        n = params.index(p[0])
        markers.append(n)
        before, after = EACH_SQL[dialect] if len(p) == 2 else ("", "")
        if len(p) == 2:
            kind = EACH_TYPE[p[1]].get(dialect, "")
            before, after = before.replace("{type}", kind), after.replace("{type}", kind)
        if dialect == "sqlserver" and p[0] == CURSOR_TIME:
            before, after = "CAST(", " AS DATETIME2)"
        out.append(before + {"sqlite": f"?{n + 1}", "postgres": f"${n + 1}", "sqlserver": "?"}[dialect] + after)
        # :a directly followed by a digit or letter cannot happen: the name would have taken it.
    return "".join(out).strip().rstrip(";"), markers


def char_literals():
    table = []
    for b in range(256):
        c = chr(b)
        if c in "'\\":
            table.append(f"'\\{c}'")
        elif 32 <= b < 127:
            table.append(f"'{c}'")
        else:
            table.append(f"'\\{b:03o}'")
    return table


CHARS = char_literals()


def c_array(symbol, text):
    """An array, because string literals longer than 4095 bytes are not portable C."""
    items = [CHARS[b] for b in text.encode()] + ["0"]
    rows = [", ".join(items[i:i + 20]) for i in range(0, len(items), 20)]
    return f"static const char {symbol}[] = {{\n    " + ",\n    ".join(rows) + ",\n};\n"


def texts_of(block):
    """The text of each dialect, SQL Server's markers, and PostgreSQL's text for many rows ("": none)."""
    params = block.texts[0].params()
    rendered = {d: render(text, d, params) for d, text in block.by_dialect().items()}
    many = render(block.many, "postgres", params)[0] if block.many else ""
    return {d: sql for d, (sql, _) in rendered.items()}, rendered["sqlserver"][1], many


def c_query(block, plain):
    name = block.name
    params = block.texts[0].params()
    texts, markers, many = texts_of(block)
    out, members = [], {d: [] for d in DIALECTS}
    if params:
        out.append(f"static const char *const params_{name}[] = {{" +
                   ", ".join(f'"{p}"' for p in params) + "};\n")
    if plain:
        for dialect, sql in texts.items():
            out.append(c_array(f"sql_{dialect}_{name}", sql))
            members[dialect].append(f".sql = sql_{dialect}_{name}")
    if markers:
        out.append(f"static const unsigned char markers_{name}[] = {{" + ", ".join(map(str, markers)) + "};\n")
        members["sqlserver"].append(f".markers = markers_{name}, .marker_count = {len(markers)}")
    if plain and many:
        out.append(c_array(f"many_{name}", many))
    body = "\n             ".join(f"[{ENUM[d]}] = {{{', '.join(m)}}}," for d, m in members.items() if m)
    out.append(f'const struct df_query df_q_{name} = {{\n    .name = "{name}",\n'
               f"    .params = {'params_' + name if params else 'NULL'},\n"
               f"    .param_count = {len(params)},\n    .column_count = {len(columns_of(block.texts[0]))},\n" +
               (f"    .text = {{{body}}},\n" if body else "") + (f"    .many = many_{name},\n" if plain and many else "") +
               ("" if plain else "    .is_packed = true,\n") + "};\n")
    return "\n".join(out)


def guard(path):
    return "DF_GEN_" + re.sub(r"[^A-Za-z0-9]", "_", path.partition("/gen/")[2] or os.path.basename(path)).upper()


def write(path, text):
    with written(path) as f:
        f.write(text)


def embed(source, out_c, out_h, plain):
    blocks = parse_file(source)
    g = guard(out_h)
    write(out_h, f"/* Generated from {source} by tools/embed_sql.py. */\n#ifndef {g}\n#define {g}\n\n"
                 '#include "store/db.h"\n\n' +
                 "".join(f"extern const struct df_query df_q_{b.name};\n" for b in blocks) +
                 "\n" + "".join(c_params(b) for b in blocks) + "\n" + c_columns(source, blocks) +
                 "\n#endif\n")
    write(out_c, f"/* Generated from {source} by tools/embed_sql.py. */\n"
                 f'#include "{os.path.basename(out_h)}"\n\n' +
                 "\n".join(c_query(b, plain) for b in blocks))


def c_pack(symbol, texts):
    """Texts one after the other, each ended by NUL; no time in the archive: the same files give the same binary."""
    data = b"".join(t.encode() + b"\0" for t in texts)
    packed = gzip.compress(data, 9, mtime=0)
    rows = ["".join(f"{b}," for b in packed[i:i + 32]) for i in range(0, len(packed), 32)]
    return (f"static const unsigned char {symbol}[] = {{\n" + "\n".join(rows) + "\n};\n",
            f'{{"{symbol}", {symbol}, sizeof({symbol}), {len(data)}}}')


def embed_all(out_c, sources):
    """In the order of the names, so that one is found by its name."""
    found, includes = {}, []
    for source in sources:
        includes.append(f'#include "{source.removeprefix("src/")}.h"\n')
        for b in parse_file(source):
            if b.name in found:
                raise Mistake(source, b.line, f"duplicate name '{b.name}', also in {found[b.name][0]}")
            found[b.name] = (f"{source}:{b.line}", texts_of(b))
    names = sorted(found)
    packs = {d: c_pack(f"texts_{d}", [found[n][1][0][d] for n in names]) for d in DIALECTS}
    many = c_pack("texts_many", [found[n][1][2] for n in names])
    out_h = out_c.removesuffix(".c") + ".h"
    g = guard(out_h)
    write(out_h, f"/* Generated by tools/embed_sql.py: every query of the program. */\n#ifndef {g}\n#define {g}\n\n"
                 '#include "base/file.h"\n#include "store/db.h"\n\n'
                 "/* In the order of their names. */\nextern const struct df_query *const df_all_queries[];\n"
                 "extern const size_t df_all_queries_count;\n"
                 "/* Their texts in the same order, each ended by a NUL. */\n"
                 "extern const struct df_file df_query_packs[DF_DIALECT_COUNT];\n"
                 "extern const struct df_file df_query_many_pack; /* empty: there is none for many rows */\n\n#endif\n")
    write(out_c, "/* Generated by tools/embed_sql.py: every query of the program. */\n"
                 f'#include "{os.path.basename(out_h)}"\n\n' + "".join(includes) +
                 "\nconst struct df_query *const df_all_queries[] = {\n" +
                 ("".join(f"    &df_q_{n},\n" for n in names) or "    NULL,\n") +
                 f"}};\nconst size_t df_all_queries_count = {len(names)};\n\n" +
                 "".join(array for array, _ in (*packs.values(), many)) +
                 "\nconst struct df_file df_query_packs[DF_DIALECT_COUNT] = {\n" +
                 "".join(f"    [{ENUM[d]}] = {member},\n" for d, (_, member) in packs.items()) + "};\n"
                 f"const struct df_file df_query_many_pack = {many[1]};\n")


def embed_shapes(source, out_h):
    g = guard(out_h)
    write(out_h, f"/* Generated from {source} by tools/embed_sql.py. */\n#ifndef {g}\n#define {g}\n\n" +
                 "".join(c_enum(name, columns) for name, columns in shapes_in(source).items()) + "\n#endif\n")


def main(argv):
    try:
        if len(argv) >= 3 and argv[1] == "--all":
            embed_all(argv[2], argv[3:])
        elif len(argv) == 4 and argv[1] == "--shapes":
            embed_shapes(argv[2], argv[3])
        elif len(argv) == 5 and argv[1] == "--plain":
            embed(*argv[2:], plain=True)
        elif len(argv) == 4:
            embed(*argv[1:], plain=False)
        else:
            print("usage: embed_sql.py [--plain] IN.sql OUT.c OUT.h | --all OUT.c FILES... | --shapes IN.sqlt OUT.h", file=sys.stderr)
            return 2
    except (Mistake, OSError) as e:
        print(e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
