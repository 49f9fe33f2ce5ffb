"""T-SQL as this project uses it: tokens and syntax trees, for tools/check_tsql.py.

It deliberately covers only a part of the language. Text that it does not understand is a Problem with its line; nothing
is skipped. Semicolons are optional, as in T-SQL, except before WITH and THROW.

A tree is made of Nodes: `kind` is the kind of node, `at` its first token, `parts` its expressions in order; other
attributes have names of their own. Conditions are distinct from values, as T-SQL has no boolean type.
"""

import re

# --- words ----------------------------------------------------------------------------------------

# These cannot be names unless they are quoted.
RESERVED = frozenset("""
ADD ALL ALTER AND ANY AS ASC AUTHORIZATION BACKUP BEGIN BETWEEN BREAK BROWSE BULK BY CASCADE CASE CHECK CHECKPOINT
CLOSE CLUSTERED COALESCE COLLATE COLUMN COMMIT COMPUTE CONSTRAINT CONTAINS CONTAINSTABLE CONTINUE CONVERT CREATE CROSS
CURRENT CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER CURSOR DATABASE DBCC DEALLOCATE DECLARE DEFAULT
DELETE DENY DESC DISK DISTINCT DISTRIBUTED DOUBLE DROP DUMP ELSE END ERRLVL ESCAPE EXCEPT EXEC EXECUTE EXISTS EXIT
EXTERNAL FETCH FILE FILLFACTOR FOR FOREIGN FREETEXT FREETEXTTABLE FROM FULL FUNCTION GOTO GRANT GROUP HAVING HOLDLOCK
IDENTITY IDENTITY_INSERT IDENTITYCOL IF IN INDEX INNER INSERT INTERSECT INTO IS JOIN KEY KILL LEFT LIKE LINENO LOAD
MERGE NATIONAL NOCHECK NONCLUSTERED NOT NULL NULLIF OF OFF OFFSETS ON OPEN OPENDATASOURCE OPENQUERY OPENROWSET OPENXML
OPTION OR ORDER OUTER OVER PERCENT PIVOT PLAN PRECISION PRIMARY PRINT PROC PROCEDURE PUBLIC RAISERROR READ READTEXT
RECONFIGURE REFERENCES REPLICATION RESTORE RESTRICT RETURN REVERT REVOKE RIGHT ROLLBACK ROWCOUNT ROWGUIDCOL RULE SAVE
SCHEMA SECURITYAUDIT SELECT SEMANTICKEYPHRASETABLE SEMANTICSIMILARITYDETAILSTABLE SEMANTICSIMILARITYTABLE SESSION_USER
SET SETUSER SHUTDOWN SOME STATISTICS SYSTEM_USER TABLE TABLESAMPLE TEXTSIZE THEN TO TOP TRAN TRANSACTION TRIGGER
TRUNCATE TRY_CONVERT TSEQUAL UNION UNIQUE UNPIVOT UPDATE UPDATETEXT USE USER VALUES VARYING VIEW WAITFOR WHEN WHERE
WHILE WITH WITHIN WRITETEXT
""".split())

# Words of other dialects or newer versions, with what to write instead, for messages about unexpected tokens. They are
# not reserved, so some of them would pass for an alias.
ELSEWHERE = {
    "LIMIT": "T-SQL has no LIMIT: TOP (n), or ORDER BY … OFFSET n ROWS FETCH NEXT n ROWS ONLY",
    "RETURNING": "T-SQL has no RETURNING: OUTPUT inserted.x before WHERE or VALUES",
    "CONFLICT": "T-SQL has no ON CONFLICT: UPDATE … WITH (UPDLOCK, HOLDLOCK), then IF @@ROWCOUNT = 0 INSERT",
    "EXCLUDED": "T-SQL has no ON CONFLICT and so no EXCLUDED",
    "ILIKE": "T-SQL has no ILIKE: the collation decides whether LIKE heeds case",
    "GLOB": "T-SQL has no GLOB: LIKE",
    "REGEXP": "T-SQL has no regular expressions: LIKE",
    "SIMILAR": "T-SQL has no regular expressions: LIKE",
    "TRUE": "T-SQL has no TRUE: a BIT is 1",
    "FALSE": "T-SQL has no FALSE: a BIT is 0",
    "NULLS": "T-SQL has no NULLS FIRST or LAST: ORDER BY CASE WHEN x IS NULL THEN 1 ELSE 0 END, x",
    "USING": "T-SQL has no USING: JOIN … ON",
    "NATURAL": "T-SQL has no NATURAL JOIN: JOIN … ON",
    "LATERAL": "T-SQL has no LATERAL: CROSS APPLY or OUTER APPLY",
    "FILTER": "T-SQL has no FILTER: SUM(CASE WHEN … THEN 1 ELSE 0 END)",
    "INTERVAL": "T-SQL has no INTERVAL: DATEADD",
    "ARRAY": "T-SQL has no arrays: OPENJSON",
    "SKIP": "T-SQL has no SKIP LOCKED: WITH (UPDLOCK, READPAST, ROWLOCK)",
    "LOCKED": "T-SQL has no SKIP LOCKED: WITH (UPDLOCK, READPAST, ROWLOCK)",
    "CONCURRENTLY": "T-SQL has no CONCURRENTLY",
    "AUTOINCREMENT": "T-SQL has no AUTOINCREMENT: IDENTITY(1,1)",
    "GENERATED": "T-SQL has no GENERATED … AS IDENTITY: IDENTITY(1,1)",
    "SAVEPOINT": "T-SQL has no SAVEPOINT: SAVE TRANSACTION",
    "RELEASE": "T-SQL has no RELEASE: a savepoint stays until the transaction ends",
    "PRAGMA": "PRAGMA is SQLite's",
    "IGNORE": "T-SQL has no INSERT OR IGNORE: INSERT … SELECT … WHERE NOT EXISTS",
    "QUALIFY": "T-SQL has no QUALIFY: a derived table",
    "WAITFOR": "no WAITFOR: Babelfish has none, and it would hold a connection",
    "MERGE": "no MERGE: Babelfish has none, and without HOLDLOCK it races: UPDATE, then IF @@ROWCOUNT = 0 INSERT",
    "::": "T-SQL has no '::': CAST(x AS type)",
    "||": "T-SQL has no '||' before 2025: CONCAT(a, b), or +, which yields NULL when one side is",
    "==": "T-SQL has no '==': =",
    "->": "T-SQL has no '->': JSON_QUERY or JSON_VALUE",
    "->>": "T-SQL has no '->>': JSON_VALUE",
    ":=": "T-SQL has no ':=': =",
}

# --- tokens ---------------------------------------------------------------------------------------


class Problem(Exception):
    def __init__(self, line, message):
        super().__init__(message)
        self.line = line
        self.message = message


class Token:
    """key: the word in capitals or the operator, else None; a quoted name is never a keyword."""

    __slots__ = ("kind", "text", "value", "key", "line", "begin", "end")

    def __init__(self, kind, text, value, line, begin):
        self.kind = kind
        self.text = text
        self.value = value
        self.key = text.upper() if kind == "word" else text if kind == "operator" else None
        self.line = line
        self.begin = begin
        self.end = begin + len(text)

    def __str__(self):
        return "the end" if self.kind == "end" else f"'{self.text.splitlines()[0][:40]}'"


LEXEME = re.compile(r"""
    (?P<space>\s+|--[^\n]*)
  | (?P<comment>/\*)
  | (?P<string>[Nn]?'(?:[^']|'')*')
  | (?P<name>\[(?:[^\]]|\]\])+\]|"(?:[^"]|"")+")
  | (?P<binary>0[xX][0-9A-Fa-f]*(?!\w))
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?!\w))
  | (?P<global>@@\w+)
  | (?P<variable>@\w+)
  | (?P<param>:[a-z]\w*)
  | (?P<word>[^\W\d]\w*)
  | (?P<operator><>|!=|<=|>=|\+=|-=|->>?|\|\||::|:=|==|[-+*/%=<>(),.;&|^~])
""", re.X)
COMMENT_EDGE = re.compile(r"/\*|\*/")
GO_LINE = re.compile(r"^[ \t]*GO[ \t]*$", re.M | re.I)
UNTERMINATED = {"'": "unterminated '", '"': 'unterminated "', "[": "unterminated [", "@": "'@' without a name"}


def comment_end(source, pos, line):
    depth = 0
    for edge in COMMENT_EDGE.finditer(source, pos):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    raise Problem(line, "unterminated comment")


def value_of(kind, text):
    if kind == "string":
        return text[text.index("'") + 1:-1].replace("''", "'")
    if kind == "name":
        return text[1:-1].replace(text[-1] * 2, text[-1])
    return text[1:] if kind == "param" else text


def tokens(source, line=1):
    """All tokens, and an end token."""
    found, pos, counted = [], 0, 0
    while pos < len(source):
        m = LEXEME.match(source, pos)
        line += source.count("\n", counted, pos)
        counted = pos
        if not m:
            c = source[pos]
            raise Problem(line, UNTERMINATED.get(c, f"'{c}' means nothing here"))
        if m.lastgroup == "comment":
            pos = comment_end(source, pos, line)
            continue
        pos = m.end()
        if m.lastgroup != "space":
            found.append(Token(m.lastgroup, m[0], value_of(m.lastgroup, m[0]), line, m.start()))
    found.append(Token("end", "", None, line + source.count("\n", counted), len(source)))
    return found


def batches(source):
    """A script's tokens, cut at GO as sqlcmd does: at a line with nothing else, even inside a string or comment."""
    if "$(" in source:
        raise Problem(source.count("\n", 0, source.index("$(")) + 1, "sqlcmd would replace '$(…)', also in a string")
    found, current = [], []
    cuts = {m.start() + m[0].upper().index("G"): source.count("\n", 0, m.start()) + 1 for m in GO_LINE.finditer(source)}
    for token in tokens(source):
        if token.kind == "param":
            raise Problem(token.line, f"{token}: a script has no parameters")
        if token.key != "GO":
            current.append(token)
            continue
        if cuts.pop(token.begin, None) is None:
            raise Problem(token.line, "GO stands alone on its line")
        found.append([*current, Token("end", "", None, token.line, token.begin)])
        current = []
    for line in cuts.values():
        raise Problem(line, "GO inside a string or a comment: sqlcmd would cut the batch here")
    found.append(current)
    return [batch for batch in found if len(batch) > 1]


# --- types ----------------------------------------------------------------------------------------

FAMILIES = {
    "text": ("VARCHAR", "NVARCHAR", "CHAR", "NCHAR", "SYSNAME"),
    "number": ("BIGINT", "INT", "SMALLINT", "TINYINT", "BIT", "DECIMAL", "FLOAT"),
    "time": ("DATETIME2", "DATETIMEOFFSET", "DATE", "TIME"),
    "binary": ("VARBINARY", "BINARY"),
    "guid": ("UNIQUEIDENTIFIER",),
}
FAMILY = {name: family for family, names in FAMILIES.items() for name in names}
LARGEST = {"VARCHAR": 8000, "CHAR": 8000, "NVARCHAR": 4000, "NCHAR": 4000, "VARBINARY": 8000, "BINARY": 8000}
BYTES = {"BIGINT": 8, "INT": 4, "SMALLINT": 2, "TINYINT": 1, "BIT": 1, "DECIMAL": 17, "FLOAT": 8, "DATETIME2": 8,
         "DATETIMEOFFSET": 10, "DATE": 3, "TIME": 5, "UNIQUEIDENTIFIER": 16, "SYSNAME": 256}
TYPE_ELSEWHERE = {
    "TEXT": "NVARCHAR(MAX)", "NTEXT": "NVARCHAR(MAX)", "CLOB": "NVARCHAR(MAX)", "IMAGE": "VARBINARY(MAX)",
    "BLOB": "VARBINARY(MAX)", "BYTEA": "VARBINARY(MAX)", "BOOLEAN": "BIT", "BOOL": "BIT", "UUID": "UNIQUEIDENTIFIER",
    "INTEGER": "INT", "SERIAL": "INT IDENTITY(1,1)", "BIGSERIAL": "BIGINT IDENTITY(1,1)", "JSON": "NVARCHAR(MAX)",
    "JSONB": "NVARCHAR(MAX)", "NUMERIC": "DECIMAL", "TIMESTAMPTZ": "DATETIME2",
    "TIMESTAMP": "DATETIME2 (TIMESTAMP is a row version)", "DATETIME": "DATETIME2 (DATETIME rounds to 3 ms)",
    "SMALLDATETIME": "DATETIME2 (SMALLDATETIME rounds to minutes)",
}


class Type:
    def __init__(self, name, size=None, scale=None):
        self.name = name
        self.size = size  # a number, "MAX" or None
        self.scale = scale
        self.family = FAMILY[name]

    @property
    def national(self):
        return self.name in ("NVARCHAR", "NCHAR", "SYSNAME")

    @property
    def bytes(self):
        if self.name in LARGEST:
            return self.size * (2 if self.national else 1) if self.size != "MAX" else None
        return BYTES[self.name]

    def __eq__(self, other):
        return isinstance(other, Type) and str(self) == str(other)

    def __hash__(self):
        return hash(str(self))

    def __str__(self):
        inside = [str(n) for n in (self.size, self.scale) if n is not None]
        return self.name + (f"({','.join(inside)})" if inside else "")


# --- trees ----------------------------------------------------------------------------------------

CONDITIONS = frozenset(("compare", "and", "or", "not", "is null", "in", "between", "like", "exists"))


class Node:
    def __init__(self, kind, at, parts=(), **more):
        self.kind = kind
        self.at = at
        self.parts = [p for p in parts if p is not None]
        self.__dict__.update(more)


def walk(node):
    """The node and the expressions in it, except those of subqueries."""
    yield node
    for part in node.parts:
        yield from walk(part)
    if getattr(node, "over", None):
        yield from walk(node.over)


# --- functions ------------------------------------------------------------------------------------

NUMBER, TEXT = Type("BIGINT"), Type("NVARCHAR", "MAX")
FIRST = "first"  # of the type of its first argument that has one

# The functions by the type of their result, with their numbers of arguments.
SIGNATURES = (
    (FIRST, """ABS 1, CEILING 1, FLOOR 1, ROUND 2-3, LEFT 2, RIGHT 2, LOWER 1, UPPER 1, LTRIM 1, RTRIM 1, REPLACE 3,
        SUBSTRING 3, STUFF 4, REPLICATE 2, REVERSE 1, ISNULL 2, COALESCE 2-254, NULLIF 2, SUM 1, MIN 1, MAX 1, AVG 1,
        LAG 1-3, LEAD 1-3, FIRST_VALUE 1, LAST_VALUE 1"""),
    (NUMBER, """SIGN 1, POWER 2, LEN 1, DATALENGTH 1, CHARINDEX 2-3, PATINDEX 2, UNICODE 1, ASCII 1, ISJSON 1, DATEDIFF 3,
        DATEDIFF_BIG 3, DATEPART 2, COUNT 1, COUNT_BIG 1, ROW_NUMBER 0, RANK 0, DENSE_RANK 0, NTILE 1,
        SCOPE_IDENTITY 0, XACT_STATE 0, ERROR_NUMBER 0, ERROR_SEVERITY 0, ERROR_STATE 0, ERROR_LINE 0, OBJECT_ID 1-2,
        COL_LENGTH 2, COLUMNPROPERTY 3, INDEXPROPERTY 3, OBJECTPROPERTY 2, SCHEMA_ID 0-1, DB_ID 0-1,
        HAS_PERMS_BY_NAME 3-5, USER_NAME 0-1"""),
    (TEXT, """NCHAR 1, CONCAT 2-254, QUOTENAME 1-2, JSON_VALUE 2, JSON_QUERY 1-2, JSON_MODIFY 3, OBJECT_NAME 1-2,
        COL_NAME 2, OBJECT_DEFINITION 1, SCHEMA_NAME 0-1, TYPE_NAME 1, DB_NAME 0-1, SUSER_SNAME 0-1, HOST_NAME 0,
        APP_NAME 0, APPLOCK_MODE 3, ERROR_MESSAGE 0, ERROR_PROCEDURE 0"""),
    (Type("CHAR", 1), "CHAR 1"),
    (Type("DATETIME2"), "DATEADD 3, SYSUTCDATETIME 0"),
    (Type("UNIQUEIDENTIFIER"), "NEWID 0, NEWSEQUENTIALID 0"),
    (Type("VARBINARY", "MAX"), "HASHBYTES 2"),
    (None, "IIF 3, DATABASEPROPERTYEX 2, SERVERPROPERTY 1"),
)
FUNCTIONS = {}  # name: least and most arguments, and the type of the result
for _result, _functions in SIGNATURES:
    for _name, _count in (f.split() for f in _functions.split(",")):
        _least, _, _most = _count.partition("-")
        FUNCTIONS[_name] = (int(_least), int(_most or _least), _result)
AGGREGATES = frozenset(("COUNT", "COUNT_BIG", "SUM", "MIN", "MAX", "AVG"))
WINDOW_ONLY = frozenset(("ROW_NUMBER", "RANK", "DENSE_RANK", "NTILE", "LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE"))
DATE_FUNCTIONS = frozenset(("DATEADD", "DATEDIFF", "DATEDIFF_BIG", "DATEPART"))
DATE_PARTS = frozenset(("YEAR", "QUARTER", "MONTH", "DAYOFYEAR", "DAY", "WEEK", "WEEKDAY", "HOUR", "MINUTE", "SECOND",
                        "MILLISECOND", "MICROSECOND", "NANOSECOND"))
CASTS = frozenset(("CAST", "TRY_CAST", "CONVERT", "TRY_CONVERT"))
GLOBALS = frozenset(("@@ROWCOUNT", "@@ERROR", "@@TRANCOUNT", "@@SPID", "@@VERSION", "@@LOCK_TIMEOUT", "@@OPTIONS"))

# Functions that are newer than SQL Server 2016, of another dialect, or not wanted.
FUNCTIONS_ELSEWHERE = {
    **{name: "is newer than SQL Server 2016" for name in
       ("STRING_AGG", "TRANSLATE", "GENERATE_SERIES", "DATE_BUCKET", "JSON_OBJECT", "JSON_ARRAY", "JSON_PATH_EXISTS",
        "APPROX_COUNT_DISTINCT", "BIT_COUNT", "LEFT_SHIFT", "RIGHT_SHIFT", "REGEXP_LIKE")},
    "TRIM": "is newer than SQL Server 2016: LTRIM(RTRIM(x))",
    "CONCAT_WS": "is newer than SQL Server 2016: CONCAT",
    "DATETRUNC": "is newer than SQL Server 2016: DATEADD and DATEDIFF",
    "GREATEST": "is newer than SQL Server 2016: CASE WHEN a > b THEN a ELSE b END",
    "LEAST": "is newer than SQL Server 2016: CASE WHEN a < b THEN a ELSE b END",
    "GETDATE": "is local time: SYSUTCDATETIME()", "SYSDATETIME": "is local time: SYSUTCDATETIME()",
    "CURRENT_TIMESTAMP": "is local time: SYSUTCDATETIME()", "GETUTCDATE": "rounds to 3 ms: SYSUTCDATETIME()",
    "CURRENT_DATE": "is no T-SQL: CAST(SYSUTCDATETIME() AS DATE)",
    "NOW": "is no T-SQL: SYSUTCDATETIME()", "STRFTIME": "is SQLite's: SYSUTCDATETIME(), DATEADD, DATEPART",
    "DATETIME": "is SQLite's: SYSUTCDATETIME(), DATEADD", "JULIANDAY": "is SQLite's: DATEDIFF",
    "EXTRACT": "is no T-SQL: DATEPART", "DATE_TRUNC": "is no T-SQL: DATEADD and DATEDIFF",
    "AGE": "is no T-SQL: DATEDIFF",
    "LENGTH": "is no T-SQL: LEN, or DATALENGTH", "CHAR_LENGTH": "is no T-SQL: LEN", "SUBSTR": "is no T-SQL: SUBSTRING",
    "INSTR": "is no T-SQL: CHARINDEX", "POSITION": "is no T-SQL: CHARINDEX", "IFNULL": "is no T-SQL: COALESCE",
    "CEIL": "is no T-SQL: CEILING", "MOD": "is no T-SQL: a % b", "RANDOM": "is no T-SQL: NEWID()",
    "GEN_RANDOM_UUID": "is no T-SQL: NEWID()", "GROUP_CONCAT": "is no T-SQL", "TO_CHAR": "is no T-SQL: CONVERT",
    "TO_REGCLASS": "is PostgreSQL's: OBJECT_ID", "JSON_EXTRACT": "is no T-SQL: JSON_VALUE",
    "HEX": "is no T-SQL: CONVERT",
    "IDENT_CURRENT": "sees other sessions' rows: OUTPUT inserted.Id", "FORMAT": "is slow beyond reason: CONVERT",
}

HINTS = frozenset(("UPDLOCK", "READPAST", "ROWLOCK", "HOLDLOCK", "SERIALIZABLE", "XLOCK", "PAGLOCK", "TABLOCK",
                   "TABLOCKX", "REPEATABLEREAD", "READCOMMITTED", "READCOMMITTEDLOCK", "NOWAIT", "FORCESEEK", "NOLOCK",
                   "READUNCOMMITTED"))
NO_ALIAS = frozenset(("OUTPUT", "OFFSET", "THROW", "GO", *HINTS))
COLLATION = re.compile(r"\w+_(BIN2?|C[IS]_A[IS])(_\w+)?|DATABASE_DEFAULT", re.I)
SETTINGS = ("ANSI_NULLS", "QUOTED_IDENTIFIER", "ANSI_PADDING", "ANSI_WARNINGS", "ARITHABORT", "CONCAT_NULL_YIELDS_NULL",
            "NUMERIC_ROUNDABORT", "NOCOUNT", "XACT_ABORT")
LEVELS = (("READ", "COMMITTED"), ("REPEATABLE", "READ"), ("SNAPSHOT",), ("SERIALIZABLE",))
PROCEDURES = {"sp_getapplock": ("@Resource", "@LockMode", "@LockOwner", "@LockTimeout", "@DbPrincipal"),
              "sp_releaseapplock": ("@Resource", "@LockOwner", "@DbPrincipal")}
COMPARISONS = ("=", "<>", "!=", "<", ">", "<=", ">=")


# --- the parser -----------------------------------------------------------------------------------


class Parser:
    def __init__(self, stream):
        self.stream = stream
        self.i = 0

    # --- tokens ---

    @property
    def tok(self):
        return self.stream[self.i]

    def ahead(self, n=1):
        return self.stream[min(self.i + n, len(self.stream) - 1)]

    def next(self):
        token = self.tok
        if token.kind != "end":
            self.i += 1
        return token

    def at(self, *keys):
        return self.tok.key is not None and self.tok.key in keys

    def at_all(self, *keys):
        return all(self.ahead(n).key == key for n, key in enumerate(keys))

    def take(self, *keys):
        return self.next() if self.at(*keys) else None

    def take_all(self, *keys):
        if not self.at_all(*keys):
            return None
        first = self.tok
        self.i += len(keys)
        return first

    def need(self, *keys):
        return self.take(*keys) or self.unexpected(" or ".join(keys))

    def need_all(self, *keys):
        for key in keys:
            self.need(key)

    def unexpected(self, expected):
        for token in (self.tok, self.ahead()):
            if token.key in ELSEWHERE:
                raise Problem(token.line, ELSEWHERE[token.key])
        raise Problem(self.tok.line, f"unexpected {self.tok}: expected {expected}")

    def fail(self, token, message):
        raise Problem(token.line, message)

    def is_name(self, token=None):
        token = token or self.tok
        return token.kind == "name" or (token.kind == "word" and token.key not in RESERVED and
                                        token.key not in ELSEWHERE)

    def name(self, what):
        if self.is_name():
            return self.next()
        if self.tok.key in RESERVED and self.tok.key not in ELSEWHERE:
            self.fail(self.tok, f"unexpected {self.tok}: expected {what} (as a name it is quoted: [{self.tok.text}])")
        return self.unexpected(what)

    def number(self):
        if self.tok.kind != "number" or not self.tok.text.isdigit():
            self.unexpected("a number")
        return int(self.next().text)

    def comma_list(self, element):
        found = [element()]
        while self.take(","):
            found.append(element())
        return found

    def in_parentheses(self, element):
        self.need("(")
        found = element()
        self.need(")")
        return found

    def names(self, what="a column"):
        return self.in_parentheses(lambda: self.comma_list(lambda: self.name(what)))

    # --- expressions ---

    def value(self):
        node = self.expression()
        if node.kind in CONDITIONS:
            self.fail(node.at, "a condition where a value is wanted: CASE WHEN … THEN 1 ELSE 0 END")
        return node

    def condition(self):
        node = self.expression()
        if node.kind not in CONDITIONS:
            self.unexpected("a comparison: T-SQL takes no value for a condition")
        return node

    def expression(self):
        return self.logical("OR", lambda: self.logical("AND", self.negation))

    def logical(self, word, operand):
        node = operand()
        while self.at(word):
            self.as_condition(node)
            at = self.next()
            node = Node(word.lower(), at, [node, self.as_condition(operand())])
        return node

    def as_condition(self, node):
        if node.kind not in CONDITIONS:
            self.fail(node.at, "a value where a condition is wanted: compare it")
        return node

    def as_value(self, node):
        if node.kind in CONDITIONS:
            self.fail(node.at, "a condition where a value is wanted")
        return node

    def negation(self):
        at = self.take("NOT")
        return Node("not", at, [self.as_condition(self.negation())]) if at else self.predicate()

    def predicate(self):
        at = self.tok
        if self.take("EXISTS"):
            return Node("exists", at, query=self.in_parentheses(self.query))
        left = self.arithmetic()
        if self.at(*COMPARISONS):
            op = self.next().key
            return Node("compare", at, [self.as_value(left), self.as_value(self.arithmetic())], op=op)
        if self.take("IS"):
            negated = bool(self.take("NOT"))
            if self.at("DISTINCT"):
                self.fail(self.tok, "IS [NOT] DISTINCT FROM is newer than SQL Server 2016")
            self.need("NULL")
            return Node("is null", at, [self.as_value(left)], negated=negated)
        negated = self.at("NOT") and self.ahead().key in ("IN", "LIKE", "BETWEEN", "ILIKE")
        if negated:
            self.next()
        if self.take("IN"):
            return self.membership(at, self.as_value(left), negated)
        if self.take("BETWEEN"):
            low = self.as_value(self.arithmetic())
            self.need("AND")
            return Node("between", at, [self.as_value(left), low, self.as_value(self.arithmetic())], negated=negated)
        if self.take("LIKE"):
            pattern = self.as_value(self.arithmetic())
            escape = self.as_value(self.arithmetic()) if self.take("ESCAPE") else None
            return Node("like", at, [self.as_value(left), pattern, escape], negated=negated)
        if negated:
            self.unexpected("IN, LIKE or BETWEEN")
        return left

    def membership(self, at, left, negated):
        # Written out by embed_sql.py for each dialect.
        each = self.take("EACH_INT", "EACH_UUID")
        self.need("(")
        if each:
            self.primary()
            self.need(")")
            return Node("in", at, [left], negated=negated, query=None)
        if self.at("SELECT"):
            query, choices = self.query(), []
        else:
            query, choices = None, self.comma_list(self.value)
        self.need(")")
        return Node("in", at, [left, *choices], negated=negated, query=query)

    def arithmetic(self):
        return self.binary(("+", "-", "&", "|", "^"), lambda: self.binary(("*", "/", "%"), self.unary))

    def binary(self, operators, operand):
        node = operand()
        while self.at(*operators):
            op = self.next()
            node = Node("operator", node.at, [self.as_value(node), self.as_value(operand())], op=op.key)
        return node

    def unary(self):
        op = self.take("-", "+", "~")
        if op:
            return Node("sign", op, [self.as_value(self.unary())], op=op.key)
        node = self.primary()
        while self.at("COLLATE"):
            at = self.next()
            node = Node("collate", at, [self.as_value(node)], collation=self.collation())
        return node

    def collation(self):
        return self.next().value if COLLATION.fullmatch(self.tok.text) else self.unexpected("a collation")

    def primary(self):
        at = self.tok
        if at.kind in ("string", "number", "binary", "param", "variable", "global"):
            return Node(self.next().kind, at)
        if self.take("NULL"):
            return Node("null", at)
        if self.take("("):
            node = Node("scalar", at, query=self.query()) if self.at("SELECT") else self.expression()
            self.need(")")
            return node
        if self.at("CASE"):
            return self.case()
        if self.ahead().key == "(" and at.kind == "word":
            return self.cast() if at.key in CASTS else self.call()
        if at.key in FUNCTIONS_ELSEWHERE and at.key.startswith("CURRENT_"):
            self.fail(at, f"{at.key} {FUNCTIONS_ELSEWHERE[at.key]}")
        names = [self.name("a value")]
        while self.take("."):
            names.append(self.name("a column"))
        if len(names) > 2:
            self.fail(at, "a name of three parts: a column has at most its table's alias before it")
        return Node("name", at, names=names)

    def case(self):
        at = self.need("CASE")
        subject = None if self.at("WHEN") else self.value()
        tests, results = [], []
        while self.take("WHEN"):
            tests.append(self.value() if subject else self.condition())
            self.need("THEN")
            results.append(self.value())
        if not tests:
            self.unexpected("WHEN")
        if self.take("ELSE"):
            results.append(self.value())
        self.need("END")
        return Node("case", at, [subject, *tests, *results], subject=subject, tests=tests, results=results)

    def cast(self):
        at = self.next()
        self.need("(")
        if at.key in ("CAST", "TRY_CAST"):
            node = self.value()
            self.need("AS")
            made = self.type()
        else:
            made = self.type()
            self.need(",")
            node = self.value()
            if self.take(","):
                self.number()
        self.need(")")
        return Node("cast", at, [node], type=made)

    def call(self):
        at = self.tok
        if at.key not in FUNCTIONS:
            if at.key in FUNCTIONS_ELSEWHERE:
                self.fail(at, f"{at.key} {FUNCTIONS_ELSEWHERE[at.key]}")
            if at.key in RESERVED or at.key in ELSEWHERE:
                self.unexpected("a value")
            self.fail(at, f"unknown function {at.text}")
        self.next()
        self.need("(")
        star = distinct = None
        arguments = []
        if at.key in AGGREGATES:
            star = self.take("*") if at.key.startswith("COUNT") else None
            distinct = None if star else self.take("DISTINCT")
        if at.key in DATE_FUNCTIONS:
            if self.tok.key not in DATE_PARTS:
                self.unexpected("a part of a date, written out (MINUTE)")
            arguments.append(Node("date part", self.next()))
            self.need(",")
        if at.key == "IIF":
            arguments.append(self.condition())
            self.need(",")
        if not star and not self.at(")"):
            arguments += self.comma_list(self.value)
        self.need(")")
        if not star:
            self.check_count(at, arguments, *FUNCTIONS[at.key][:2])
        return Node("call", at, arguments, function=at.key, star=star, distinct=distinct, over=self.over(at))

    def check_count(self, at, arguments, least, most):
        if not least <= len(arguments) <= most:
            wanted = least if most == least else f"{least} to {most}"
            self.fail(at, f"{at.key} takes {wanted} arguments, not {len(arguments)}")

    def over(self, function):
        at = self.tok
        if not self.take("OVER"):
            if function.key in WINDOW_ONLY:
                self.unexpected(f"OVER: {function.key} needs a window")
            return None
        if function.key not in WINDOW_ONLY and function.key not in AGGREGATES:
            self.fail(at, f"{function.key} takes no OVER")
        self.need("(")
        partition = self.comma_list(self.value) if self.take_all("PARTITION", "BY") else []
        order = self.order_by() if self.at("ORDER") else []
        if function.key in WINDOW_ONLY and not order:
            self.unexpected(f"ORDER BY: {function.key} needs an order")
        if self.take("ROWS"):
            if not order:
                self.fail(at, "ROWS needs ORDER BY")
            if self.take("BETWEEN"):
                self.bound()
                self.need("AND")
            self.bound()
        self.need(")")
        return Node("over", at, [*partition, *(node for node, _ in order)])

    def bound(self):
        if not self.take_all("CURRENT", "ROW"):
            if not self.take("UNBOUNDED"):
                self.number()
            self.need("PRECEDING", "FOLLOWING")

    def type(self):
        at = self.tok
        if at.key in TYPE_ELSEWHERE:
            self.fail(at, f"no {at.key}: {TYPE_ELSEWHERE[at.key]}")
        if at.key not in FAMILY:
            self.unexpected("a type")
        self.next()
        if at.key in LARGEST:
            self.need("(")
            variable = at.key in ("VARCHAR", "NVARCHAR", "VARBINARY")
            size = "MAX" if variable and self.take("MAX") else self.number()
            if size != "MAX" and not 1 <= size <= LARGEST[at.key]:
                self.fail(at, f"{at.key}({size}): 1 to {LARGEST[at.key]}{' or MAX' if variable else ''}")
            self.need(")")
            return Type(at.key, size)
        if at.key == "DECIMAL":
            self.need("(")
            size = self.number()
            self.need(",")
            scale = self.number()
            self.need(")")
            if not 1 <= size <= 38 or scale > size:
                self.fail(at, f"DECIMAL({size},{scale}): 1 to 38 digits, not more of them behind the point")
            return Type(at.key, size, scale)
        if at.key in ("DATETIME2", "DATETIMEOFFSET", "TIME") and self.take("("):
            size = self.number()
            self.need(")")
            if size > 7:
                self.fail(at, f"{at.key}({size}): 0 to 7")
            return Type(at.key, size)
        return Type(at.key)

    # --- queries ---

    def query(self):
        """SELECT … [UNION …] [ORDER BY … [OFFSET … FETCH …]]"""
        at = self.tok
        cores, between = [self.core()], []
        while op := self.take("UNION", "EXCEPT", "INTERSECT"):
            if op.key == "UNION":
                self.take("ALL")
            between.append(op)
            cores.append(self.core())
        order = self.order_by() if self.at("ORDER") else []
        offset = fetch = None
        if self.at("OFFSET"):
            if not order:
                self.fail(self.tok, "OFFSET needs ORDER BY")
            self.next()
            offset = self.count_of_rows()
            if self.take("FETCH"):
                self.need("NEXT", "FIRST")
                fetch = self.count_of_rows()
                self.need("ONLY")
        elif self.at("FETCH"):
            self.fail(self.tok, "FETCH needs OFFSET before it: OFFSET 0 ROWS")
        if self.at_all("FOR", "UPDATE"):
            self.fail(self.tok, "T-SQL has no FOR UPDATE: FROM t WITH (UPDLOCK, ROWLOCK)")
        return Node("query", at, cores=cores, between=between, order=order, offset=offset, fetch=fetch)

    def count_of_rows(self):
        # In parentheses or not, unlike TOP.
        node = self.arithmetic()
        if node.kind not in ("number", "param", "variable", "operator"):
            self.fail(node.at, "OFFSET and FETCH take a number, a parameter or a sum")
        self.need("ROWS", "ROW")
        return node

    def order_by(self):
        self.need_all("ORDER", "BY")
        return self.comma_list(self.ordering)

    def ordering(self):
        node = self.value()
        direction = self.take("ASC", "DESC")
        return node, bool(direction and direction.key == "DESC")

    def core(self):
        at = self.need("SELECT")
        distinct = self.take("DISTINCT")
        top = self.top()
        items = self.comma_list(self.item)
        if self.at("INTO"):
            self.fail(self.tok, "SELECT … INTO makes a table: INSERT INTO … SELECT")
        sources = self.sources() if self.take("FROM") else []
        where = self.condition() if self.take("WHERE") else None
        group = self.comma_list(self.value) if self.take_all("GROUP", "BY") else []
        having = self.condition() if self.take("HAVING") else None
        return Node("core", at, items=items, distinct=distinct, top=top, sources=sources, where=where, group=group,
                    having=having)

    def top(self):
        at = self.take("TOP")
        if not at:
            return None
        if not self.at("("):
            self.fail(at, "TOP takes its number in parentheses: TOP (n)")
        return self.in_parentheses(self.value)

    def item(self):
        at = self.tok
        if self.at("*") or (self.is_name() and self.ahead().key == "." and self.ahead(2).key == "*"):
            self.fail(at, "no *: name the columns, others may be added")
        if at.kind == "variable" and self.ahead().key == "=":
            self.i += 2
            return Node("item", at, [self.value()], alias=None, variable=at)
        node = self.value()
        alias = self.name("an alias") if self.take("AS") else None
        if not alias and (self.is_name() and not self.at(*NO_ALIAS) or self.tok.kind == "string"):
            self.fail(self.tok, f"{self.tok} after a value: a comma is missing, or the AS of an alias")
        return Node("item", at, [node], alias=alias, variable=None)

    def sources(self):
        found = [self.source("FROM")]
        while True:
            if self.at(","):
                self.fail(self.tok, "a comma between tables: JOIN … ON, or CROSS JOIN")
            if self.take_all("CROSS", "JOIN"):
                found.append(self.source("CROSS JOIN"))
            elif self.take_all("CROSS", "APPLY") or self.take_all("OUTER", "APPLY"):
                found.append(self.source("APPLY"))
            elif self.at("JOIN", "INNER", "LEFT", "RIGHT", "FULL"):
                kind = self.next().key
                if kind != "JOIN":
                    if kind != "INNER":
                        self.take("OUTER")
                    self.need("JOIN")
                source = self.source("JOIN")
                self.need("ON")
                source.on = self.condition()
                found.append(source)
            else:
                return found

    def source(self, how):
        at = self.tok
        made = Node("source", at, how=how, on=None, query=None, rows=None, names=None, columns=None, hints=[],
                    alias=None)
        if self.take("("):
            if self.at("VALUES"):
                made.rows = self.rows()
            else:
                made.query = self.query()
            self.need(")")
            self.alias(made)
            if not made.alias:
                self.unexpected("an alias: a derived table needs one")
            made.columns = self.names() if self.at("(") else None
            if made.rows and not made.columns:
                self.unexpected("the names of the columns, in parentheses")
            return made
        if at.kind == "variable":
            made.kind = "table variable"
            self.next()
        elif at.key in ("OPENJSON", "STRING_SPLIT") and self.ahead().key == "(":
            self.table_function(made)
        elif at.key in FUNCTIONS_ELSEWHERE and self.ahead().key == "(":
            self.fail(at, f"{at.key} {FUNCTIONS_ELSEWHERE[at.key]}")
        else:
            made.names = self.object_name()
        self.alias(made)
        if self.at("WITH") and made.names:
            made.hints = self.hints()
        return made

    def table_function(self, made):
        made.kind = self.next().key.lower()
        made.parts = self.in_parentheses(lambda: self.comma_list(self.value))
        self.check_count(made.at, made.parts, *((1, 2) if made.kind == "openjson" else (2, 2)))
        if made.kind == "openjson" and self.take("WITH"):
            made.columns = self.in_parentheses(lambda: self.comma_list(self.json_column))

    def json_column(self):
        name, made = self.name("a column"), self.type()
        if self.tok.kind == "string":
            if not self.tok.value.startswith(("$", "lax $", "strict $")):
                self.fail(self.tok, f"{self.tok} is no JSON path: it starts with $")
            self.next()
        if self.take("AS"):
            at = self.need("JSON")
            if made != Type("NVARCHAR", "MAX"):
                self.fail(at, "AS JSON needs NVARCHAR(MAX)")
        return name, made

    def alias(self, made):
        if self.take("AS"):
            made.alias = self.name("an alias")
        elif self.is_name() and not self.at(*NO_ALIAS):
            made.alias = self.next()

    def hints(self):
        self.need("WITH")
        return self.in_parentheses(lambda: self.comma_list(self.hint))

    def hint(self):
        return self.next() if self.tok.key in HINTS else self.unexpected("a table hint")

    def object_name(self, what="a table"):
        """One name, or sys.x and INFORMATION_SCHEMA.X."""
        names = [self.name(what)]
        while self.take("."):
            names.append(self.name(what))
        if len(names) > 2 or (len(names) == 2 and names[0].value.upper() not in ("SYS", "INFORMATION_SCHEMA")):
            self.fail(names[0], f"'{'.'.join(n.value for n in names)}': names are written alone, and the user's "
                                "default schema decides")
        return names

    def rows(self):
        self.need("VALUES")
        return self.comma_list(lambda: self.in_parentheses(lambda: self.comma_list(self.value_or_default)))

    def value_or_default(self):
        at = self.take("DEFAULT")
        return Node("default", at) if at else self.value()

    # --- statements ---

    def batch(self):
        found = self.statements(())
        if self.tok.kind != "end":
            self.unexpected("a statement")
        return found

    def statements(self, closers):
        found, terminated = [], True
        while self.tok.kind != "end" and not self.at(*closers):
            if self.take(";"):
                self.fail(self.stream[self.i - 1], "an empty statement")
            if self.at("WITH", "THROW") and not terminated:
                self.fail(self.tok, f"{self.tok.key} needs a semicolon before it")
            found.append(self.statement())
            terminated = bool(self.take(";"))
        return found

    def statement(self):
        at = self.tok
        read = STATEMENTS.get(at.key) if at.kind == "word" else None
        if not read:
            self.unexpected("a statement")
        return read(self)

    def block_until(self, *closers):
        found = self.statements(closers)
        if not found:
            self.unexpected("a statement")
        return found

    def select_statement(self, ctes=()):
        at = self.tok
        query = self.query()
        self.option()
        return Node("select", at, query=query, ctes=ctes)

    def option(self):
        if self.take("OPTION"):
            self.in_parentheses(lambda: self.comma_list(self.query_hint))

    def query_hint(self):
        if self.take("MAXDOP"):
            self.number()
        elif not self.take_all("OPTIMIZE", "FOR", "UNKNOWN"):
            self.need("RECOMPILE")

    def with_statement(self):
        self.need("WITH")
        ctes = self.comma_list(self.cte)
        if not self.at("SELECT", "INSERT", "UPDATE", "DELETE"):
            self.unexpected("SELECT, INSERT, UPDATE or DELETE")
        node = self.statement()
        node.ctes = ctes
        return node

    def cte(self):
        name = self.name("a name")
        columns = self.names() if self.at("(") else None
        self.need("AS")
        return Node("cte", name, name=name, columns=columns, query=self.in_parentheses(self.query))

    def insert(self):
        at = self.need("INSERT")
        self.need("INTO")
        target = self.target()
        hints = self.hints() if self.at("WITH") else []
        if not self.at("(", "OUTPUT", "DEFAULT"):
            self.fail(self.tok, "INSERT names its columns: others may be added")
        columns = self.names() if self.at("(") else []
        output = self.output()
        rows = query = None
        if not columns:
            self.need_all("DEFAULT", "VALUES")
        elif self.at("VALUES"):
            rows = self.rows()
        elif self.at("SELECT"):
            query = self.query()
            self.option()
        else:
            self.unexpected("VALUES or SELECT")
        return Node("insert", at, target=target, hints=hints, columns=columns, output=output, rows=rows, query=query,
                    ctes=())

    def target(self):
        return self.next() if self.tok.kind == "variable" else self.object_name()[-1]

    def update(self):
        at = self.need("UPDATE")
        top = self.top()
        target = self.target()
        hints = self.hints() if self.at("WITH") else []
        self.need("SET")
        changes = self.comma_list(self.assignment)
        return self.changing(Node("update", at, top=top, target=target, hints=hints, changes=changes, ctes=()))

    def assignment(self):
        column = self.name("a column")
        if self.at("."):
            self.fail(column, "a column that is SET is written without its table")
        self.need("=")
        return column, self.value_or_default()

    def delete(self):
        at = self.need("DELETE")
        top = self.top()
        self.take("FROM")
        target = self.target()
        hints = self.hints() if self.at("WITH") else []
        return self.changing(Node("delete", at, top=top, target=target, hints=hints, changes=[], ctes=()))

    def changing(self, node):
        node.output = self.output()
        node.sources = self.sources() if self.take("FROM") else []
        node.where = self.condition() if self.take("WHERE") else None
        self.option()
        return node

    def output(self):
        at = self.take("OUTPUT")
        if not at:
            return None
        items = self.comma_list(self.item)
        into = columns = None
        if self.take("INTO"):
            into = self.target()
            columns = self.names() if self.at("(") else None
        return Node("output", at, items=items, into=into, columns=columns)

    def if_statement(self):
        at = self.need("IF")
        condition = self.condition()
        then = self.statement()
        if self.at(";") and self.ahead().key == "ELSE":
            self.next()
        otherwise = self.statement() if self.take("ELSE") else None
        return Node("if", at, condition=condition, then=then, otherwise=otherwise)

    def while_statement(self):
        at = self.need("WHILE")
        condition = self.condition()
        return Node("while", at, condition=condition, body=self.statement())

    def begin(self):
        at = self.need("BEGIN")
        if self.take("TRAN", "TRANSACTION"):
            return self.transaction_name(Node("transaction", at))
        if not self.take("TRY"):
            body = self.block_until("END")
            self.need("END")
            return Node("block", at, body=body)
        body = self.block_until("END")
        self.need_all("END", "TRY", "BEGIN", "CATCH")
        handler = self.statements(("END",))
        self.need_all("END", "CATCH")
        return Node("try", at, body=body, handler=handler)

    def transaction(self):
        at = self.next()
        if self.take("TRAN", "TRANSACTION"):
            return self.transaction_name(Node("transaction", at))
        if at.key == "SAVE":
            self.unexpected("TRANSACTION")
        return Node("transaction", at)

    def transaction_name(self, node):
        if self.is_name() and not self.at("THROW"):
            self.next()
        elif node.at.key == "SAVE":
            self.unexpected("a name")
        return node

    def declare(self):
        at = self.need("DECLARE")
        return Node("declare", at, variables=self.comma_list(self.declaration))

    def declaration(self):
        at = self.variable()
        self.take("AS")
        if self.take("TABLE"):
            return Node("declaration", at, table=self.in_parentheses(lambda: self.comma_list(self.column)), type=None)
        made = self.type()
        return Node("declaration", at, [self.value() if self.take("=") else None], table=None, type=made)

    def variable(self):
        return self.next() if self.tok.kind == "variable" else self.unexpected("a variable")

    def set_statement(self):
        at = self.need("SET")
        if self.tok.kind == "variable":
            variable = self.next()
            self.need("=", "+=", "-=")
            return Node("set variable", at, [self.value()], variable=variable)
        if self.take("IDENTITY_INSERT"):
            table = self.target()
            return Node("identity insert", at, table=table, on=self.need("ON", "OFF").key == "ON")
        if self.take("TRANSACTION"):
            self.need_all("ISOLATION", "LEVEL")
            if not any(self.take_all(*level) for level in LEVELS):
                self.unexpected("an isolation level")
            return Node("set", at, settings=[], on=True)
        if self.take("LOCK_TIMEOUT"):
            self.take("-")
            self.number()
            return Node("set", at, settings=[], on=True)
        if self.take("DEADLOCK_PRIORITY"):
            self.need("LOW", "NORMAL", "HIGH")
            return Node("set", at, settings=[], on=True)
        settings = [token.key for token in self.comma_list(lambda: self.need(*SETTINGS))]
        return Node("set", at, settings=settings, on=self.need("ON", "OFF").key == "ON")

    def execute(self):
        """Parses a text as a batch of its own; only some procedures are known."""
        at = self.next()
        if self.at("("):
            text = self.in_parentheses(lambda: self.next() if self.tok.kind == "string" else self.unexpected(
                "a text: what is put together at run time cannot be checked"))
            return Node("execute", at, body=Parser(tokens(text.value, text.line)).batch(), name=None, result=None)
        result = None
        if self.tok.kind == "variable":
            result = self.next()
            self.need("=")
        name = self.name("a procedure")
        if name.value not in PROCEDURES:
            self.fail(name, f"unknown procedure {name.value}: one of {', '.join(PROCEDURES)}")
        known = list(PROCEDURES[name.value])
        arguments = self.comma_list(lambda: self.argument(known))
        return Node("execute", at, arguments, name=name, result=result, body=None)

    def argument(self, known):
        """One of the known, each only once."""
        at = self.variable()
        if at.text not in known:
            self.fail(at, f"{at.text}: expected one of {', '.join(known)}")
        known.remove(at.text)
        self.need("=")
        node = self.unary()
        if node.kind not in ("string", "number", "param", "variable", "sign", "null"):
            self.fail(node.at, "an argument of a procedure is a constant, a variable or a parameter")
        return node

    def throw(self):
        at = self.need("THROW")
        if self.tok.kind not in ("number", "variable"):
            return Node("throw", at)
        number = self.simple("number")
        if number.kind == "number" and int(number.at.text) < 50000:
            self.fail(number.at, "THROW takes a number from 50000 on")
        self.need(",")
        message = self.simple("string")
        self.need(",")
        return Node("throw", at, [number, message, self.simple("number")])

    def simple(self, *kinds):
        if self.tok.kind not in (*kinds, "variable"):
            self.unexpected(f"a {' or a '.join(kinds)} or a variable")
        return self.primary()

    def raiserror(self):
        at = self.need("RAISERROR")
        self.need("(")
        arguments = [self.simple("string")]
        for _ in ("severity", "state"):
            self.need(",")
            arguments.append(self.simple("number"))
        while self.take(","):
            arguments.append(self.simple("string", "number"))
        self.need(")")
        if self.take("WITH"):
            self.need("NOWAIT")
        return Node("raiserror", at, arguments)

    def return_statement(self):
        at = self.need("RETURN")
        return Node("return", at)

    def loop_word(self):
        return Node("loop word", self.next())

    def print_statement(self):
        at = self.need("PRINT")
        return Node("print", at, [self.value()])

    def truncate(self):
        at = self.need("TRUNCATE")
        self.need("TABLE")
        return Node("truncate", at, target=self.target())

    # --- the schema ---

    def create(self):
        first = self.i == 0
        at = self.need("CREATE")
        if self.at("OR"):
            self.fail(at, "CREATE OR ALTER is newer than SQL Server 2016: DROP … IF EXISTS before it")
        if self.take("TABLE"):
            if self.at("IF"):
                self.fail(at, "T-SQL has no CREATE TABLE IF NOT EXISTS: IF OBJECT_ID(N'…', N'U') IS NULL before it")
            table = self.target()
            elements = self.in_parentheses(lambda: self.comma_list(self.element))
            return Node("create table", at, table=table, columns=[e for e in elements if e.kind == "column"],
                        constraints=[e for e in elements if e.kind == "constraint"])
        if self.take("TRIGGER"):
            if not first:
                self.fail(at, "CREATE TRIGGER must be the first of its batch")
            return self.trigger(at)
        self.take("UNIQUE")
        clustered = self.take("CLUSTERED", "NONCLUSTERED")
        self.need("INDEX")
        return self.index(at, clustered and clustered.key == "CLUSTERED")

    def index(self, at, clustered):
        if self.at("IF"):
            self.fail(at, "T-SQL has no CREATE INDEX IF NOT EXISTS: IF NOT EXISTS (… sys.indexes …) before it")
        name = self.name("an index")
        self.need("ON")
        table = self.target()
        columns = self.key_columns()
        included = self.names() if self.take("INCLUDE") else []
        where = self.condition() if self.take("WHERE") else None
        if where:
            self.filter(where)
        return Node("create index", at, name=name, table=table, columns=columns, included=included, where=where,
                    clustered=clustered)

    def filter(self, where):
        """T-SQL's filters know comparisons of a column with constants, IN, IS NULL and AND."""
        for node in walk(where):
            if node.kind not in ("and", "compare", "in", "is null", "name", "string", "number") or \
                    getattr(node, "query", None) or (node.kind == "in" and node.negated):
                self.fail(node.at, "the filter of an index: comparisons with constants, IN, IS [NOT] NULL and AND")

    def key_columns(self):
        return self.in_parentheses(lambda: self.comma_list(self.key_column))

    def key_column(self):
        column = self.name("a column")
        self.take("ASC", "DESC")
        return column

    def trigger(self, at):
        name = self.name("a trigger")
        self.need("ON")
        table = self.target()
        if not self.take("AFTER", "FOR") and not self.take_all("INSTEAD", "OF"):
            self.unexpected("AFTER or INSTEAD OF")
        events = [token.key for token in self.comma_list(lambda: self.need("INSERT", "UPDATE", "DELETE"))]
        self.need("AS")
        body = self.block_until()
        return Node("create trigger", at, name=name, table=table, events=events, body=body)

    def element(self):
        return self.constraint(None) if self.at("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "DEFAULT") else \
            self.column()

    def column(self):
        name = self.name("a column")
        node = Node("column", name, name=name, type=self.type(), null=None, identity=False, constraints=[])
        while not self.at(",", ")") and self.column_option(node):
            pass
        return node

    def column_option(self, node):
        if self.at("NULL", "NOT"):
            if node.null is not None:
                self.fail(self.tok, "NULL or NOT NULL a second time")
            node.null = not self.take("NOT")
            self.need("NULL")
        elif at := self.take("IDENTITY"):
            if node.identity:
                self.fail(at, "IDENTITY a second time")
            node.identity = True
            if self.take("("):
                self.number()
                self.need(",")
                self.number()
                self.need(")")
        elif self.take("COLLATE"):
            self.collation()
        elif self.at("CONSTRAINT", "DEFAULT", "PRIMARY", "UNIQUE", "CHECK", "REFERENCES"):
            node.constraints.append(self.constraint(node.name))
        elif self.at("GENERATED", "AUTOINCREMENT"):
            self.unexpected("an option of the column")
        else:
            return False
        return True

    def constraint(self, column):
        """column: the one that it stands beside, or None when it stands for itself."""
        at = self.tok
        node = Node("constraint", at, name=self.name("a constraint") if self.take("CONSTRAINT") else None, type=None,
                    columns=[column] if column else [], clustered=None, condition=None, default=None, references=None,
                    foreign=[], follows=False)
        kind = self.need("PRIMARY", "UNIQUE", "CHECK", *(("REFERENCES",) if column else ("FOREIGN",)), "DEFAULT").key
        if kind in ("PRIMARY", "UNIQUE"):
            if kind == "PRIMARY":
                self.need("KEY")
            node.type = "PRIMARY KEY" if kind == "PRIMARY" else kind
            clustered = self.take("CLUSTERED", "NONCLUSTERED")
            node.clustered = clustered.key == "CLUSTERED" if clustered else kind == "PRIMARY"
            if not column:
                node.columns = self.key_columns()
        elif kind == "CHECK":
            node.type = kind
            node.condition = self.in_parentheses(self.condition)
        elif kind == "DEFAULT":
            node.type = kind
            node.default = self.arithmetic()
            if not column:
                self.need("FOR")
                node.columns = [self.name("a column")]
        else:
            node.type = "FOREIGN KEY"
            if not column:
                self.need("KEY")
                node.columns = self.names()
                self.need("REFERENCES")
            node.references = self.target()
            node.foreign = self.names()
            while self.take("ON"):
                self.need("DELETE", "UPDATE")
                if self.take("CASCADE") or self.take_all("SET", "NULL"):
                    node.follows = True
                elif not self.take_all("NO", "ACTION"):
                    self.unexpected("CASCADE, NO ACTION or SET NULL")
        return node

    def alter(self):
        at = self.need("ALTER")
        self.need("TABLE")
        table = self.target()
        node = Node("alter table", at, table=table, columns=[], constraints=[], changed=None, dropped=[],
                    dropped_columns=[], if_exists=False)
        if self.take("ADD"):
            if self.at("COLUMN"):
                self.fail(self.tok, "T-SQL writes ADD without COLUMN")
            for element in self.comma_list(self.element):
                (node.columns if element.kind == "column" else node.constraints).append(element)
        elif self.take("DROP"):
            what = self.need("CONSTRAINT", "COLUMN").key
            node.if_exists = bool(self.take_all("IF", "EXISTS"))
            names = self.comma_list(lambda: self.name("a name"))
            (node.dropped if what == "CONSTRAINT" else node.dropped_columns).extend(names)
        elif self.take_all("ALTER", "COLUMN"):
            node.changed = self.name("a column"), self.type()
            if self.at("NULL", "NOT"):
                # SQL Server silently makes it nullable.
                self.fail(self.tok, "Babelfish takes neither NULL nor NOT NULL here: change nullable columns only")
        elif self.at("WITH"):
            self.fail(self.tok, "no WITH CHECK: Babelfish has none, and a new constraint is checked in any case")
        else:
            self.unexpected("ADD, DROP or ALTER COLUMN")
        return node

    def drop(self):
        at = self.need("DROP")
        what = self.need("TABLE", "INDEX", "TRIGGER").key
        if_exists = bool(self.take_all("IF", "EXISTS"))
        name = self.name("a name")
        table = None
        if what == "INDEX":
            self.need("ON")
            table = self.target()
        return Node("drop", at, what=what, name=name, table=table, if_exists=if_exists)


STATEMENTS = {
    "SELECT": Parser.select_statement, "WITH": Parser.with_statement, "INSERT": Parser.insert, "UPDATE": Parser.update,
    "DELETE": Parser.delete, "IF": Parser.if_statement, "WHILE": Parser.while_statement, "BEGIN": Parser.begin,
    "COMMIT": Parser.transaction, "ROLLBACK": Parser.transaction, "SAVE": Parser.transaction, "DECLARE": Parser.declare,
    "SET": Parser.set_statement, "EXEC": Parser.execute, "EXECUTE": Parser.execute, "THROW": Parser.throw,
    "RAISERROR": Parser.raiserror, "RETURN": Parser.return_statement, "BREAK": Parser.loop_word,
    "CONTINUE": Parser.loop_word, "PRINT": Parser.print_statement, "TRUNCATE": Parser.truncate,
    "CREATE": Parser.create, "ALTER": Parser.alter, "DROP": Parser.drop,
}
