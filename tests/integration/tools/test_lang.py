"""Translations: what tools/embed_lang.py refuses, what tools/check_lang.py finds, and that nothing is missing in the tree."""

import shutil
import subprocess
import sys

import pytest
from harness import ROOT

pytestmark = pytest.mark.tools

CATALOGUE = """[messages]
Not found
    Não encontrado

there is no %s "%.*s" (%d)
    não há %1$~s "%2$s" (%3$d)

%zu of %s
    %2$s: %1$zu

[arguments]
thing
    coisa

[composed]
a list of %s
    uma lista de %s

[inside]
only the log has this
"""

ERRORS = """#define DF_ERRORS(X) \\
    X(DF_E_IO,        "InputOutputError", 500, LATER, "Not found", "Not found") \\
    X(DF_E_NOT_FOUND, "NotFound",         404, NEVER, "Not found", NULL)
"""

SOURCE = """#include "x.h"
void f(struct df_err *err, const char *id)
{
    df_err_set(err, DF_E_NOT_FOUND, "there is no %s \\"%.*s\\" (%d)", "thing", 1, id, 7);
    df_err_set(err, DF_E_IO, "a detail for the log: %s", id);
    df_err_set(err, DF_E_NOT_FOUND, "%zu of %s", n, id);
    df_err_set(err, DF_E_NOT_FOUND, "only the log has this");
}
"""


def tree(tmp_path, source=SOURCE, catalogue=CATALOGUE):
    """A small project with the tools."""
    for path, text in (("src/base/err.h", ERRORS), ("src/room/x.c", source), ("lang/pt-BR.txt", catalogue)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    (tmp_path / "tools").mkdir(exist_ok=True)
    for name in ("check_lang.py", "embed_lang.py", "embed_files.py", "lang_texts.py"):
        shutil.copy(ROOT / "tools" / name, tmp_path / "tools" / name)
    return tmp_path


def check(root, *args):
    return subprocess.run([sys.executable, root / "tools/check_lang.py", *args], text=True, capture_output=True, check=False)


def test_everything_that_people_read_is_translated():
    done = check(ROOT)
    assert done.returncode == 0, done.stdout


def test_a_whole_catalogue_passes(tmp_path):
    done = check(tree(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("line,text", [
    ('df_err_set(err, DF_E_NOT_FOUND, "nobody has translated this");', "nobody has translated this   [messages]"),
    ('df_err_set(err, DF_E_NOT_FOUND, "in two " "parts: %d", 1);', "in two parts: %d   [messages]"),
    ('return df_err_set(err, n ? DF_E_NOT_FOUND : DF_E_IO, "a code that is not known");', "a code that is not known   [messages]"),
    ('df_req_fail(req, DF_E_NOT_FOUND, id ? "one" : "Not found");', "one   [messages]"),
    ('df_input_error(in, "a", "a field of %d", 3);', "a field of %d   [messages]"),
    ('const char *why = "a reason"; df_err_set(err, DF_E_NOT_FOUND, "%s", why);', "a reason   [messages]"),
    ('df_err_set(err, DF_E_NOT_FOUND, "there is no %s \\"%.*s\\" (%d)", "goat", 1, id, 7);', "goat   [arguments]"),
    ('df_err_set(err, DF_E_NOT_FOUND, "%zu of %s", n, "all the things");', "all the things   [arguments]"),
    ('refuse(err, "by a function of its own");', "by a function of its own   [messages]"),
    ('df_cli_complain(cmd, "a complaint");', "a complaint   [messages]"),
    ('df_buf_addf(complaints, "[server] key: is strange\\n");', "is strange   [messages]"),
])
def test_a_text_without_a_translation_is_found_with_its_place(tmp_path, line, text):
    source = SOURCE.replace("    df_err_set(err, DF_E_NOT_FOUND, \"%zu", f"    {line}\n    df_err_set(err, DF_E_NOT_FOUND, \"%zu", 1)
    source += """static enum df_code refuse(struct df_err *err, const char *what)
{
    return df_err_set(err, DF_E_NOT_FOUND, "%s", what);
}
"""
    done = check(tree(tmp_path, source))
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == f"src/room/x.c:6: no translation of: {text}"
    assert done.stdout.count("no translation of") == 1
    # With the skeleton filled in, it passes.
    section, _, new = check(tmp_path, "--skeleton").stdout.partition("\n")
    kind = "arguments" if text.endswith("[arguments]") else "messages"
    words = text.rpartition("   [")[0]
    assert words in new and section == "[messages]"
    fixed = CATALOGUE.replace(f"[{kind}]\n", f"[{kind}]\n{words}\n    pronto {words}\n\n", 1)
    assert check(tree(tmp_path, source, fixed)).returncode == 0


@pytest.mark.parametrize("change,line,problem", [
    (("Não encontrado", "Não %s"), 3, "the translation has a directive more than the text: %s"),
    (("(%3$d)", ""), 6, "the translation must have each directive of the text once"),
    (("(%3$d)", "(%3$s)"), 6, "directive 3 of the translation, %3$s, is of another type than in the text"),
    (("(%3$d)", "(%d)"), 6, "some directives of the translation have numbers, and some have none"),
    (("%2$s: %1$zu", "%s: %zu"), 9, "directive 1 of the translation, %s, is of another type than in the text"),
    (("    coisa\n", ""), 13, "a translation is missing above"),
    (("[composed]", "[compost]"), 15, "no section [compost]; there are messages, arguments, composed, inside"),
    (("thing\n    coisa", "thing\n    coisa\n\nthing\n    outra"), 15, "stands in line 12 already"),
    (("Not found\n", "    sem texto\nNot found\n"), 2, "a translation without a text above it"),
])
def test_a_faulty_entry_is_told_with_its_line(tmp_path, change, line, problem):
    root = tree(tmp_path, catalogue=CATALOGUE.replace(*change, 1))
    assert check(root).stdout == f"lang/pt-BR.txt:{line}: {problem}\n"
    done = subprocess.run([sys.executable, root / "tools/embed_lang.py", root / "lang/pt-BR.txt", root / "x.c"], text=True,
                          capture_output=True, check=False)
    assert done.returncode == 1 and done.stderr.endswith(f"lang/pt-BR.txt:{line}: {problem}\n") and not (root / "x.c").exists()


def test_an_entry_that_stands_for_nothing_any_more_is_told(tmp_path):
    done = check(tree(tmp_path, catalogue=CATALOGUE.replace("[arguments]", "it was there once\n    já foi\n\n[arguments]", 1)))
    assert done.stdout.splitlines()[0] == "lang/pt-BR.txt:11: no text of the sources is: it was there once"
    assert done.returncode == 1


def test_the_same_catalogue_makes_the_same_binary(tmp_path):
    root = tree(tmp_path)
    made = []
    for name in ("a", "b"):
        (root / name).mkdir()
        subprocess.run([sys.executable, root / "tools/embed_lang.py", root / "lang/pt-BR.txt", root / name / "t.c"], check=True)
        made.append((root / name / "t.c").read_bytes())
    assert made[0] == made[1] and b"df_lang_texts" in made[0]
