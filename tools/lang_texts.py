"""Finds the texts in the sources that people outside read, for tools/check_lang.py.

A text is told by a call of a sink: df_err_set, df_req_fail, df_input_error and the like (SINKS). This module reads the C
files without a compiler: calls, string literals (joined, with string macros), the parameters of functions. What a sink is
given may be a literal, a choice of literals, a variable that was given literals, a parameter (then the function is a sink
itself, and its callers are looked at), or the result of a function that returns literals.
"""

import re
from pathlib import Path

import embed_lang

# Name of the function: (index of the code or None, index of the format, are there arguments).
SINKS = {
    "df_err_set": (1, 2, True),
    "df_err_at": (1, 3, True),
    "df_req_fail": (1, 2, True),
    "df_work_fail": (1, 2, True),
    "df_input_error": (None, 2, True),
    "df_place_error": (None, 2, True),
    "add_error": (None, 2, True),  # of an upload's fields
    "refuse_item": (None, 3, True),  # of a mended record
    "import_fail_items": (None, 1, False),
    "df_json_kv_told": (None, 2, False),
}
# What the command line says.
CLI_SINKS = {
    "df_cli_complain": (None, 1, True),
    "df_cli_text": (None, 0, False),
    "df_lang_text": (None, 1, False),
    # What commands print.
    "df_cli_say": (None, 1, True),
    "df_cli_cell": (None, 1, False),
    "df_cli_heads": (None, 1, False),
    # A finding of `doctor`: the thing, the advice, what was seen.
    "df_check_say": [(None, 2, False), (None, 3, False), (None, 4, True)],
    # One of `audit verify`.
    "tell": (None, 4, True),
    # What is wrong with a configuration.
    "df_buf_addf": (None, 1, True),
    "df_buf_addz": (None, 1, False),
    "complain": (None, 2, True),  # of a relay
}
# These are sinks only with such a first argument.
FIRST = {name: re.compile(r"&?(\w+->)?(complaints|warnings|why)") for name in ("df_buf_addf", "df_buf_addz")}
# In these folders, what is given to a variable or member of these names becomes the message of a record, chunk or batch.
STORED = ("src/imports", "src/tabular")
STORED_NAMES = re.compile(r"error|reason|why|ret_reason|ret_why|message")
# What prints, and its format's index: for words it is not meant in these files.
PRINTERS = {"printf": 0, "puts": 0, "fputs": 0, "fprintf": 1, "df_buf_addf": 1, "df_buf_addz": 1}
COMMANDS = re.compile(r"src/app/(cmd_|doctor|demo)\w*\.c$")
UNSAID = ("cmd_completion.c", "cmd_help.c")  # scripts; `help metrics` and the like, and lists of commands
# JSON, commands to copy, names of fields and of this program.
IN_ANY_LANGUAGE = re.compile(r'^\s*\{?"|^,"|curl -|dataflow|clientId:|X-Client|https?|^ --server $|^demo$')
# Formats of numbers, as macros of the C library.
MACROS = {"PRId64": "ld", "PRIu64": "lu", "PRIi64": "li", "PRIu32": "u", "PRId32": "d", "PRIx64": "lx", "PRIu16": "u"}

TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<string>(?:u8|L)?"(?:\\.|[^"\\\n])*")|(?P<char>'(?:\\.|[^'\\\n])+')"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<number>\d[\w.]*)|(?P<op>->|==|!=|<=|>=|&&|\|\||\.\.\.|[-+*/%&|^!~<>=?:;,.(){}\[\]#\\])""",
    re.S | re.X)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "0": "\0", "'": "'", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def unquote(literal):
    body = literal[literal.index('"') + 1:-1]

    def one(m):
        text = m[1]
        if text[0] == "x":
            return chr(int(text[1:], 16))
        if text[0] in "01234567":
            return chr(int(text, 8))
        return ESCAPES.get(text, text)

    out = re.sub(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", one, body)
    # Bytes that were written as escapes are UTF-8.
    return out if all(ord(c) < 128 for c in out) or not re.search(r"\\x[89a-fA-F]", body) else \
        out.encode("latin-1", "ignore").decode("utf-8", "replace")


class Token:
    __slots__ = ("kind", "text", "line")

    def __init__(self, kind, text, line):
        self.kind, self.text, self.line = kind, text, line

    def __repr__(self):
        return f"{self.text}@{self.line}"


def tokens_of(text):
    found, line, at = [], 1, 0
    while at < len(text):
        m = TOKEN.match(text, at)
        if not m:
            at += 1
            continue
        if m.lastgroup not in ("space", "comment"):
            found.append(Token(m.lastgroup, m[0], line))
        line += m[0].count("\n")
        at = m.end()
    return found


class Function:
    def __init__(self, file, name, params, body, static):
        self.file, self.name, self.params, self.body, self.static = file, name, params, body, static


class Text:
    """A format or an argument that somebody may read, and where it stands."""

    def __init__(self, text, file, line, kind):
        self.text, self.file, self.line, self.kind, self.holes = text, file, line, kind, set()


def closing(tokens, at):
    """The index of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(tokens)):
        if tokens[i].text in "([{" and tokens[i].kind == "op":
            depth += 1
        elif tokens[i].text in ")]}" and tokens[i].kind == "op":
            depth -= 1
            if depth == 0:
                return i
    return len(tokens) - 1


def split_args(tokens):
    args, depth, current = [], 0, []
    for t in tokens:
        if t.kind == "op" and t.text in "([{":
            depth += 1
        elif t.kind == "op" and t.text in ")]}":
            depth -= 1
        if t.kind == "op" and t.text == "," and depth == 0:
            args.append(current)
            current = []
        else:
            current.append(t)
    return args + [current] if current or args else []


class Sources:
    def __init__(self, root, folder="src"):
        self.root = root
        self.macros = dict(MACROS)
        self.tokens = {}
        self.functions = []
        self.places = None  # of calls, by name
        files = sorted([*(root / folder).rglob("*.c"), *(root / folder).rglob("*.h")])
        texts = {f.relative_to(root): f.read_text(encoding="utf-8") for f in files}
        for text in texts.values():
            self.read_macros(text)
        for f, text in texts.items():
            # Directives would be read as code.
            plain = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m[0].count("\n"), text, flags=re.M)
            self.tokens[f] = tokens_of(plain)
            self.read_functions(f)
        self.by_name = {}
        for fn in self.functions:
            self.by_name.setdefault(fn.name, []).append(fn)

    def read_macros(self, text):
        for m in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+((?:[^\n]*\\\n)*[^\n]*)", text, re.M):
            body = m[2].replace("\\\n", " ")
            parts = [t for t in tokens_of(body)]
            if parts and all(t.kind == "string" or (t.kind == "name" and t.text in self.macros) for t in parts):
                self.macros[m[1]] = "".join(self.value(t) for t in parts)

    def value(self, token):
        return unquote(token.text) if token.kind == "string" else self.macros[token.text]

    def read_functions(self, file):
        tokens = self.tokens[file]
        i = 0
        while i < len(tokens):
            t = tokens[i]
            if t.kind == "op" and t.text == "{":
                end = closing(tokens, i)
                # name ( params ) {   at the top level
                if i > 1 and tokens[i - 1].text == ")":
                    begin = i - 1
                    depth = 0
                    while begin >= 0:
                        if tokens[begin].text == ")":
                            depth += 1
                        elif tokens[begin].text == "(":
                            depth -= 1
                            if depth == 0:
                                break
                        begin -= 1
                    if begin > 0 and tokens[begin - 1].kind == "name":
                        name = tokens[begin - 1].text
                        params = [([w.text for w in p if w.kind == "name"] or [""])[-1] for p in split_args(tokens[begin + 1:i - 1])]
                        head = begin - 1
                        while head > 0 and tokens[head - 1].text not in (";", "}"):
                            head -= 1
                        static = any(w.text == "static" for w in tokens[head:begin])
                        self.functions.append(Function(file, name, params, tokens[i:end + 1], static))
                i = end
            i += 1

    def find(self, name, file):
        found = self.by_name.get(name, [])
        return [f for f in found if f.file == file] or [f for f in found if not f.static]

    # --- what an expression may be ---

    def literals(self, fn, expr, seen=()):
        """Yields (text, line, file) of the literals, and ("param", index) of parameters, that the expression may be."""
        i = 0
        while i < len(expr):
            t = expr[i]
            if t.kind == "string" or (t.kind == "name" and t.text in self.macros):
                parts, line = [], t.line
                while i < len(expr) and (expr[i].kind == "string" or (expr[i].kind == "name" and expr[i].text in self.macros)):
                    parts.append(self.value(expr[i]))
                    i += 1
                # A literal that is compared with, or that is an argument of a test before `?`, is not told.
                rest = expr[i:]
                if not self.is_condition(rest):
                    yield "".join(parts), line, fn.file
                continue
            if t.kind == "name":
                following = expr[i + 1].text if i + 1 < len(expr) else ""
                before = expr[i - 1].text if i else ""
                if following == "(":
                    end = closing(expr, i + 1)
                    inside = expr[i + 2:end]
                    if not self.is_condition(expr[end + 1:]):
                        if t.text in ("DF_STR", "DF_STR_ARG", "df_str_c", "df_arena_printf", "df_buf_str", "sizeof"):
                            yield from self.literals(fn, inside, seen)
                        else:
                            yield from self.returned(t.text, fn.file, seen)
                    i = end + 1
                    continue
                if following == "[" and before not in (".", "->"):
                    end = closing(expr, i + 1)
                    after = expr[end + 1].text if end + 1 < len(expr) else ""
                    if after not in (".", "->") and not self.is_condition(expr[end + 1:]):
                        yield from self.array(fn, t.text)
                    i = end + 1
                    continue
                if following not in (".", "->") and before not in (".", "->") and not self.is_condition(expr[i + 1:]):
                    yield from self.variable(fn, t.text, seen)
            i += 1

    def array(self, fn, name):
        """The texts of an array `name[] = {…}` of the function or its file."""
        for tokens in (fn.body, self.tokens[fn.file]):
            for i in range(len(tokens) - 5):
                if tokens[i].text == name and tokens[i].kind == "name" and tokens[i + 1].text == "[":
                    end = closing(tokens, i + 1)
                    if [t.text for t in tokens[end + 1:end + 3]] == ["=", "{"]:
                        inside = tokens[end + 3:closing(tokens, end + 2)]
                        if not any(t.text == "{" for t in inside):
                            for item in split_args(inside):
                                parts = [t for t in item if t.kind == "string"]
                                if parts:
                                    yield "".join(self.value(t) for t in parts), parts[0].line, fn.file
                            return

    @staticmethod
    def is_condition(rest):
        depth = 0
        for t in rest:
            if t.text in ("(", "["):
                depth += 1
            elif t.text in (")", "]"):
                depth -= 1
            elif t.text == "?" and depth <= 0:
                return True
            elif t.text == ":" and depth <= 0:
                return False
        return bool(rest) and rest[0].text in ("==", "!=", "<", ">", "<=", ">=")

    def variable(self, fn, name, seen):
        key = (fn.file, fn.name, name)
        if key in seen:
            return
        if name in fn.params:
            yield ("param", fn.params.index(name))
        body = fn.body
        for i in range(1, len(body) - 1):
            if body[i].kind == "name" and body[i].text == name and body[i + 1].text == "=" and body[i - 1].text not in (".", "->"):
                end = i + 2
                depth = 0
                while end < len(body) and not (depth == 0 and body[end].text in (";", ",")):
                    depth += body[end].text in ("(", "{", "[")
                    depth -= body[end].text in (")", "}", "]")
                    if depth < 0:
                        break
                    end += 1
                if body[i + 2].text != "{":
                    yield from self.literals(fn, body[i + 2:end], (*seen, key))

    def returned(self, name, file, seen):
        for fn in self.find(name, file):
            key = (fn.file, fn.name, "return")
            if key in seen:
                continue
            for i, t in enumerate(fn.body):
                if t.kind == "name" and t.text == "return":
                    end = i
                    while fn.body[end].text != ";":
                        end += 1
                    for found in self.literals(fn, fn.body[i + 1:end], (*seen, key)):
                        if found[0] != "param":
                            yield found

    # --- the calls ---

    def calls(self, name):
        """The function that calls, and the arguments."""
        if self.places is None:
            self.places = {}
            for fn in self.functions:
                body = fn.body
                for i in range(1, len(body) - 1):
                    if body[i].kind == "name" and body[i + 1].text == "(" and body[i - 1].text not in (".", "->"):
                        self.places.setdefault(body[i].text, []).append((fn, i))
        for fn, i in self.places.get(name, ()):
            yield fn, split_args(fn.body[i + 2:closing(fn.body, i + 1)])


def stored(sources):
    """Messages of records, chunks and batches, which are kept in English and translated when they are read."""
    found = {}

    def note(fn, expr):
        for text in sources.literals(fn, expr):
            if text[0] != "param" and re.search(r"[A-Za-z]", text[0]):
                found.setdefault(text[0], Text(text[0], text[2], text[1], "message"))

    for fn in sources.functions:
        if not str(fn.file).startswith(STORED):
            continue
        body = fn.body
        for i in range(1, len(body) - 2):
            if body[i].kind == "name" and STORED_NAMES.fullmatch(body[i].text) and body[i + 1].text == "=":
                end = i + 2
                while body[end].text != ";":
                    end += 1
                note(fn, body[i + 2:end])
    for file, tokens in sources.tokens.items():
        if not str(file).startswith(STORED):
            continue
        # static const char why_short[] = "too few digits";
        for i in range(len(tokens) - 4):
            if tokens[i].kind == "name" and tokens[i].text.startswith("why_") and \
                    [t.text for t in tokens[i + 1:i + 4]] == ["[", "]", "="]:
                note(Function(file, "", [], [], True), tokens[i + 4:i + 5])
    return list(found.values())


def helps(sources):
    """Help texts: of keys, commands, verbs and options."""
    found = {}

    def note(file, token_list):
        parts = [t for t in token_list if t.kind == "string" or t.text in sources.macros]
        if parts and len(parts) == len(token_list):
            text = "".join(sources.value(t) for t in parts)
            found.setdefault(text, Text(text, file, parts[0].line, "message"))

    # Those of policies are a table of macros.
    policies = sources.root / "src/access/policies.h"
    if policies.exists():
        text = policies.read_text(encoding="utf-8")
        for m in re.finditer(r"^    X\(\w+, .*(\"[^\"]*\")\)", text, re.M):
            note(Path("src/access/policies.h"), [Token("string", m[1], text.count("\n", 0, m.start()) + 1)])
    # Options that several commands share are macros.
    commands = Path("src/app/commands.c")
    text = (sources.root / commands).read_text(encoding="utf-8") if commands in sources.tokens else ""
    for m in re.finditer(r'\.help = ("[^"]*")|\{"[\w-]+", (?:"[^"]*"|NULL), (?:\w+|"[^"]*"), ("[^"]*")\}', text):
        note(commands, [Token("string", m[1] or m[2], text.count("\n", 0, m.start()) + 1)])
    for file, tokens in sources.tokens.items():
        is_command = file.name.startswith("cmd_")
        for i, t in enumerate(tokens[:-2]):
            if t.kind == "name" and re.match("DF_KEY_|KEPT$", t.text) and tokens[i + 1].text == "(":
                args = split_args(tokens[i + 2:closing(tokens, i + 1)])
                note(file, args[-1])
            elif is_command and t.text == "." and tokens[i + 1].text in ("summary", "help") and tokens[i + 2].text == "=":
                end = i + 3
                while tokens[end].kind == "string" or tokens[end].text in sources.macros:
                    end += 1
                note(file, tokens[i + 3:end])
            elif file.name == "cmd_look.c" and t.text == "{" and tokens[i + 1].kind == "string":
                fields = split_args(tokens[i + 1:closing(tokens, i)])
                if len(fields) == 3:  # a column of a list
                    note(file, fields[0])
            elif file.name == "reasons.c" and t.text == "{":
                fields = split_args(tokens[i + 1:closing(tokens, i)])
                if len(fields) == 3:  # a reason of records
                    note(file, fields[1])
            elif file.name == "commands.c" and t.text == "{" and tokens[i + 1].kind == "string":
                fields = split_args(tokens[i + 1:closing(tokens, i)])
                if len(fields) == 4:
                    note(file, fields[3])
    return list(found.values())


def printed(sources):
    """Words that commands print without df_cli_say and its like, so that nobody reads them in Portuguese."""
    found = []
    for name, at in PRINTERS.items():
        for fn, args in sources.calls(name):
            if not COMMANDS.match(str(fn.file)) or fn.file.name in UNSAID or len(args) <= at:
                continue
            if name in FIRST and FIRST[name].fullmatch("".join(t.text for t in args[0])):
                continue
            for arg in args[at:]:
                for text in sources.literals(fn, arg):
                    if text[0] != "param" and text[2] == fn.file and not IN_ANY_LANGUAGE.search(text[0]):
                        found.append(Text(text[0], text[2], text[1], "printed"))
    return found


def holes_of(formats, count):
    """For each of the arguments behind a format: {(format, number of its directive)}."""
    found = [set() for _ in range(count)]
    for text in formats:
        at = number = 0
        for m in embed_lang.directives(text):
            at += [m[3], m[4]].count("*")
            if at < count:
                found[at].add((embed_lang.compile_english(text), number + 1))
            at += 1
            number += 1
    return [frozenset(h) for h in found]


def told(sources, is_inside, sinks=None):
    """The texts that reach people: a list of Text. is_inside(code): a detail of this code never leaves the server."""
    sinks = sinks or SINKS
    found = {}
    # Name, file if it is static, index of the code, index of the text, whether arguments follow it, and for a text that is
    # itself an argument the directives that it stands for.
    queue = [(name, None, *spec, None) for name, specs in sinks.items() for spec in (specs if isinstance(specs, list) else [specs])]
    known = set(queue)

    def look_at(fn, expr, code_param, has_args, holes):
        for text in sources.literals(fn, expr):
            if text[0] == "param":
                wrapper = (fn.name, fn.file if fn.static else None, code_param, text[1], has_args, holes)
                if wrapper not in known:
                    known.add(wrapper)
                    queue.append(wrapper)
                continue
            kind = "message" if holes is None else "argument"
            if text[0].strip() not in ("%s", "%.*s"):
                found.setdefault((text[0], kind), Text(text[0], text[2], text[1], kind)).holes.update(holes or ())
            yield text[0]

    while queue:
        name, home, code_at, format_at, has_args, holes = queue.pop()
        for fn, args in sources.calls(name):
            if (home and fn.file != home) or fn.name in sinks or len(args) <= format_at:
                continue
            if name in FIRST and not FIRST[name].fullmatch("".join(t.text for t in args[0])):
                continue
            code = [t.text for t in args[code_at]] if code_at is not None and len(args) > code_at else []
            if len(code) == 1 and is_inside(code[0]):
                continue
            code_param = fn.params.index(code[0]) if len(code) == 1 and code[0] in fn.params else None
            formats = list(look_at(fn, args[format_at], code_param, has_args, holes))
            if not has_args:
                continue
            rest = args[format_at + 1:]
            pass_on = any(f.strip() in ("%s", "%.*s") for f in formats)
            for expr, stands_for in zip(rest, holes_of(formats, len(rest))):
                for _ in look_at(fn, expr, code_param, False, None if pass_on else stands_for):
                    pass
    return sorted(found.values(), key=lambda t: (str(t.file), t.line, t.text))
