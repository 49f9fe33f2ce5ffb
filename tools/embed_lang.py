#!/usr/bin/env python3
"""Embeds the catalogue of translations in the binary (src/base/lang.h).

    embed_lang.py CATALOGUE OUT.c

The catalogue is lines: an English text as it stands in the source, and under it, indented, its translation; then an empty
line. `=` as the translation: it is the same. `#` begins a comment. \\n, \\\\ and \\x20 are as in C. Sections:

    [messages]     whole texts: details and titles of errors, messages of fields and imports, texts of the command line
    [arguments]    words that are put into messages; used for directives that say so
    [composed]     as [messages], for texts that the source puts together: they stand nowhere as they are
    [inside]       English only: they never reach a person outside, or need no translation; with the reason as a comment

Directives of printf stand for the same arguments in both texts; `%2$s` names one by its number. `%~s` (`%2$~s`) in a
translation: what stands there is translated too, if the catalogue has it.
"""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import embed_files  # noqa: E402

DIRECTIVE = re.compile(r"%(?:(\d+)\$)?([-+ #0~']*)(\*|\d+)?(?:\.(\*|\d+))?(?:hh|h|ll|l|z|j|t|L)?([diouxXeEfFgGcsp%])")
HOLES = {"s": 1, "c": 1, "d": 2, "i": 2, "u": 2, "x": 3, "X": 3, "o": 3, "p": 3, "e": 4, "f": 4, "g": 4, "E": 4, "F": 4, "G": 4}
HOLES_MAX = 9  # of src/base/lang.c
SECTIONS = ("messages", "arguments", "composed", "inside")


class Problem(Exception):
    pass


def compile_english(text):
    """The text with a byte for each directive, which tells what it takes."""
    return DIRECTIVE.sub(lambda m: "%" if m[5] == "%" else chr(HOLES[m[5]]), text)


def directives(text):
    return [m for m in DIRECTIVE.finditer(text) if m[5] != "%"]


def compile_translation(english, translation):
    wanted = [HOLES[m[5]] for m in directives(english)]
    if len(wanted) > HOLES_MAX:
        raise Problem(f"more than {HOLES_MAX} directives")
    used = []
    given = directives(translation)
    if any(m[1] for m in given) and not all(m[1] for m in given):
        raise Problem("some directives of the translation have numbers, and some have none")

    def put(m):
        if m[5] == "%":
            return "%"
        number = int(m[1]) if m[1] else len(used) + 1
        if number < 1 or number > len(wanted):
            raise Problem(f"the translation has a directive more than the text: {m[0]}")
        if HOLES[m[5]] != wanted[number - 1]:
            raise Problem(f"directive {number} of the translation, {m[0]}, is of another type than in the text")
        used.append(number)
        return ("\2" if "~" in m[2] else "\1") + str(number)

    out = DIRECTIVE.sub(put, translation)
    if sorted(used) != list(range(1, len(wanted) + 1)):
        raise Problem("the translation must have each directive of the text once")
    return out


def unescape(text):
    return re.sub(r"\\(x[0-9A-Fa-f]{2}|.)", lambda m: {"n": "\n", "\\": "\\"}.get(m[1]) or (
        chr(int(m[1][1:], 16)) if m[1][0] == "x" else m[1]), text)


def escape(text):
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    text = re.sub(r"^ |^#|^\[", lambda m: f"\\x{ord(m[0]):02x}", text)
    return re.sub(r" $", r"\\x20", text)


class Entry:
    def __init__(self, section, english, line):
        self.section, self.english, self.line, self.translation = section, english, line, None

    @property
    def is_argument(self):
        return self.section == "arguments"

    @property
    def pattern(self):
        return compile_english(self.english)


def read(path):
    """The entries of a catalogue. A Problem tells file and line."""
    entries, section, pending = [], "messages", None

    def fail(number, text):
        raise Problem(f"{path}:{number}: {text}")

    with open(path, encoding="utf-8") as f:
        lines = f.read().split("\n")
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            continue
        if line.startswith("["):
            if line.strip("[]") not in SECTIONS:
                fail(number, f"no section {line}; there are {', '.join(SECTIONS)}")
            section = line.strip("[]")
        elif not line.strip():
            if pending:
                fail(number, "a translation is missing above")
        elif line.startswith(" "):
            if not pending:
                fail(number, "a translation without a text above it")
            pending.translation = unescape(line.strip(" "))
            if pending.translation == "=":
                pending.translation = pending.english
            try:
                compile_translation(pending.english, pending.translation)
            except Problem as problem:
                fail(number, str(problem))
            pending = None
        else:
            if pending:
                fail(number, "a translation is missing above")
            entry = Entry(section, unescape(line), number)
            entries.append(entry)
            pending = None if section == "inside" else entry
    if pending:
        fail(len(lines), "a translation is missing")
    seen = {}
    for e in entries:
        key = (e.pattern, e.is_argument)
        if key in seen:
            fail(e.line, f"stands in line {seen[key].line} already")
        seen[key] = e
    return entries


def literal_bytes(pattern):
    return len(re.sub(r"[\1-\4]", "", pattern).encode())


def compiled(entries):
    told = [e for e in entries if e.section != "inside" and e.translation != e.english]
    # A text may match several patterns: the one with most literal text is meant.
    told.sort(key=lambda e: (-literal_bytes(e.pattern), e.pattern))
    return b"".join((("A" if e.is_argument else "M") + e.pattern + "\0"
                     + compile_translation(e.english, e.translation) + "\0").encode() for e in told)


def main(argv):
    if len(argv) != 2:
        print("usage: embed_lang.py CATALOGUE OUT.c", file=sys.stderr)
        return 2
    try:
        blob = compiled(read(argv[0]))
    except (OSError, Problem) as problem:
        print(problem, file=sys.stderr)
        return 1
    packed = argv[1].removesuffix(".c") + ".bin"
    with embed_files.written(packed, "wb") as f:
        f.write(blob)
    embed_files.embed("df_lang_texts", os.path.dirname(packed), argv[1], [packed])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
