#!/usr/bin/env python3
"""Checks the translations of lang/pt-BR.txt against the sources; `tools/lint lang` runs it.

    check_lang.py [--skeleton]

Every text that people read must have an entry: what may become the title, detail or a field's message of a problem
document, the messages of imports, and the command line's complaints and help. For each that has none it prints

    FILE:LINE: no translation of: TEXT

To mend it, add two lines to the section of lang/pt-BR.txt that it names: the text, and under it, indented, the
Portuguese; --skeleton prints them with the translation left out. A text that only operators of the server's log see goes
to [inside]. Entries that stand for no text any more are named too.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import embed_lang  # noqa: E402
import lang_texts  # noqa: E402

CATALOGUE = "lang/pt-BR.txt"
SETTING = re.compile(r"[a-z]\w*\.[a-z_.]*")  # the name of a setting, or its beginning


def error_table(root):
    """Codes whose detail stays inside, and the texts of the table: titles, and details for outsiders."""
    text = (root / "src/base/err.h").read_text(encoding="utf-8")
    fixed = re.findall(r'^#define (DF_SERVER_FAILED) "(.*)"', text, re.M)
    rows = re.findall(r'^    X\((\w+),\s*"\w+",\s*\d+,\s*\w+,\s*"([^"]*)",\s*(NULL|DF_SERVER_FAILED|"[^"]*")\)', text, re.M)
    line_of = {}
    for number, line in enumerate(text.split("\n"), 1):
        for _, title, outside in rows:
            if f'"{title}"' in line:
                line_of.setdefault(title, number)
            if outside in line:
                line_of.setdefault(outside.strip('"'), number)
    inside = {code for code, _, outside in rows if outside != "NULL"}
    texts = [title for code, title, _ in rows if code not in ("DF_OK", "DF_ROW", "DF_DONE")]
    texts += [outside.strip('"') for _, _, outside in rows if outside.startswith('"')] + [value for _, value in fixed]
    file = Path("src/base/err.h")
    return inside, [lang_texts.Text(t, file, line_of.get(t, 1), "message") for t in dict.fromkeys(texts)]


def wanted(root):
    sources = lang_texts.Sources(root)
    inside, texts = error_table(root)
    texts += lang_texts.told(sources, inside.__contains__)
    texts += lang_texts.stored(sources)
    texts += lang_texts.told(sources, inside.__contains__, lang_texts.CLI_SINKS)
    texts += lang_texts.helps(sources)
    return sources, texts


def is_text(text):
    """Whether it says something: words, not only directives, signs and names of settings."""
    plain = embed_lang.DIRECTIVE.sub("", text)
    return bool(re.search(r"[A-Za-z]{2}", plain)) and not SETTING.fullmatch(plain)


def translated_holes(entries):
    """The directives whose arguments the translations translate: (pattern, number)."""
    found = set()
    for e in entries:
        given = embed_lang.directives(e.translation or "")
        found |= {(e.pattern, int(m[1] or i)) for i, m in enumerate(given, 1) if "~" in m[2]}
    return found


def is_phrase(text):
    return bool(re.search(r"[a-z]{2,}\W* \W*[a-z]{2,}", text))


def all_patterns(sources):
    """The patterns of all literals in the sources."""
    found = set()
    for tokens in sources.tokens.values():
        parts = []
        for t in [*tokens, None]:
            if t and (t.kind == "string" or (t.kind == "name" and t.text in sources.macros)):
                parts.append(sources.value(t))
            elif parts:
                found.add(key_of("".join(parts)))
                parts = []
    return found | {key_of(value) for value in sources.macros.values()}


def key_of(text):
    # Complaints are lines "[section] key: what is wrong", of which the last part is translated.
    return embed_lang.compile_english(plain(text))


def plain(text):
    return re.sub(r"^\[[^\]]*\] (?:[\w%.]+: )?", "", text.rstrip("\n"))


def main(argv):
    root = Path(__file__).resolve().parents[1]
    skeleton = "--skeleton" in argv
    try:
        entries = embed_lang.read(root / CATALOGUE)
    except (OSError, embed_lang.Problem) as problem:
        print(str(problem).replace(f"{root}/", ""))
        return 1
    messages = {e.pattern for e in entries if not e.is_argument}
    arguments = messages | {e.pattern for e in entries if e.is_argument}
    sources, texts = wanted(root)
    problems, missing = [], {}
    translated = translated_holes(entries)
    for t in texts:
        key = key_of(t.text)
        # A word is needed where a translation asks for it; a phrase always, or somebody has forgotten to ask.
        if t.kind == "argument" and not is_phrase(t.text) and not t.holes & translated:
            continue
        if is_text(plain(t.text)) and key not in (arguments if t.kind == "argument" else messages):
            missing.setdefault((key, t.kind), t)
    if skeleton:
        for kind in ("message", "argument"):
            print(f"[{kind}s]")
            for t in missing.values():
                if t.kind == kind:
                    print(f"{embed_lang.escape(plain(t.text))}\n    \n")
        return 0
    for t in missing.values():
        problems.append(f"{t.file}:{t.line}: no translation of: {embed_lang.escape(plain(t.text))}   [{t.kind}s]")
    problems += [f"{t.file}:{t.line}: printed without df_cli_say: {embed_lang.escape(t.text)}"
                 for t in lang_texts.printed(sources) if is_text(t.text)]
    known = all_patterns(sources) | {key_of(t.text) for t in texts}
    for e in entries:
        if e.section != "composed" and e.pattern not in known:
            problems.append(f"{CATALOGUE}:{e.line}: no text of the sources is: {embed_lang.escape(e.english)}")
    for problem in problems:
        print(problem)
    if problems:
        print(f"{len(problems)} problems. Translations stand in {CATALOGUE}; tools/check_lang.py tells how.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
