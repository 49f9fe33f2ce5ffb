"""The build tools that embed queries and files: what they accept, what they refuse, and that the C is right."""

import contextlib
import gzip
import random
import re
import sqlite3
import subprocess
import sys

import pytest
from harness import ROOT

pytestmark = pytest.mark.tools
WARNINGS = ["-std=gnu17", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wcast-qual", "-Wno-sign-conversion",
            "-Werror"]


def tool(name, *args, cwd=None):
    return subprocess.run([sys.executable, ROOT / "tools" / name, *map(str, args)], cwd=cwd, text=True,
                          capture_output=True, check=False)


def run_c(tmp_path, source, *objects):
    """Compiles with the house's warnings, runs, returns what was printed (as bytes)."""
    main = tmp_path / "main.c"
    main.write_text(source)
    exe = tmp_path / "main"
    subprocess.run(["gcc", *WARNINGS, "-D_GNU_SOURCE", f"-I{ROOT}/src", f"-I{tmp_path}/gen", "-o", exe, main,
                    *objects], check=True)
    return subprocess.run([exe], check=True, capture_output=True).stdout


def embed_sql(tmp_path, text, path="room/x.sql", how=("--plain",)):
    source = tmp_path / "src" / path
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(text, encoding="utf-8")
    out = tmp_path / "gen" / path
    out.parent.mkdir(parents=True, exist_ok=True)
    return tool("embed_sql.py", *how, f"src/{path}", f"{out}.c", f"{out}.h", cwd=tmp_path)


PRINT = """
#include "all.h"
#include <stdio.h>
int main(void)
{
    for (size_t i = 0; i < df_all_queries_count; i++) {
        const struct df_query *q = df_all_queries[i];
        printf("%s(", q->name);
        for (size_t p = 0; p < q->param_count; p++)
            printf("%s%s", p ? "," : "", q->params[p]);
        printf(")\\n");
        for (int d = 0; d < DF_DIALECT_COUNT; d++) {
            printf("  %s", q->text[d].sql ? q->text[d].sql : "-");
            for (size_t m = 0; m < q->text[d].marker_count; m++)
                printf("%s%d", m ? "," : " <- ", q->text[d].markers[m]);
            printf("\\n");
        }
        if (q->many)
            printf("  many: %s\\n", q->many);
    }
    return 0;
}
"""


def rendered(tmp_path, text):
    """{name: (params, sqlite, postgres, sqlserver)} as a C program sees them, and the text for many rows if there is one."""
    done = embed_sql(tmp_path, text)
    assert (done.returncode, done.stderr) == (0, "")
    assert tool("embed_sql.py", "--all", tmp_path / "gen/all.c", "src/room/x.sql", cwd=tmp_path).returncode == 0
    out = run_c(tmp_path, PRINT, tmp_path / "gen/all.c", tmp_path / "gen/room/x.sql.c").decode().splitlines()
    queries = {}
    for line in out:
        if not line.startswith("  "):
            name, _, params = line.rstrip(")").partition("(")
            current = queries[name] = [params]
        else:
            current.append(line[2:])
    return {k: tuple(v) for k, v in queries.items()}


def test_packed_texts_stand_in_the_order_of_the_names(tmp_path):
    done = embed_sql(tmp_path, "-- name: b\nSELECT :x;\n-- many: postgres\nSELECT n.x, n.Nth FROM UNNEST(CAST(:x AS INT[])) "
                                  "WITH ORDINALITY AS n (x, Nth);\n-- name: a\nSELECT 'ç';\n", how=())
    assert (done.returncode, done.stderr) == (0, "")
    assert "SELECT" not in (tmp_path / "gen/room/x.sql.c").read_text(encoding="utf-8")
    assert tool("embed_sql.py", "--all", tmp_path / "gen/all.c", "src/room/x.sql", cwd=tmp_path).returncode == 0
    made = (tmp_path / "gen/all.c").read_text(encoding="utf-8")
    assert made.index("&df_q_a") < made.index("&df_q_b")
    packs = {name: gzip.decompress(bytes(map(int, re.findall(r"\d+", body)))).decode()
             for name, body in re.findall(r"char (texts_\w+)\[\] = \{([^}]*)\}", made)}
    assert packs == {"texts_sqlite": "SELECT 'ç'\0SELECT ?1\0", "texts_postgres": "SELECT 'ç'\0SELECT $1\0",
                     "texts_sqlserver": "SELECT 'ç'\0SELECT ?\0",
                     "texts_many": "\0SELECT n.x, n.Nth FROM UNNEST(CAST($1 AS INT[])) WITH ORDINALITY AS n (x, Nth)\0"}


def test_sql_each_is_written_for_each_dialect(tmp_path):
    found = rendered(tmp_path, """-- name: a
SELECT x FROM t WHERE y = :y AND id IN EACH_INT(:ids);
-- name: b
DELETE FROM t WHERE id IN
    EACH_UUID(:ids);
""")
    assert found["a"] == (
        "y,ids", "SELECT x FROM t WHERE y = ?1 AND id IN (SELECT value FROM json_each(?2))",
        "SELECT x FROM t WHERE y = $1 AND id = ANY(CAST(translate($2, '[]\"', '{}') AS BIGINT[]))",
        "SELECT x FROM t WHERE y = ? AND id IN (SELECT CAST(value AS BIGINT) FROM OPENJSON(CAST(? AS NVARCHAR(MAX)))) <- 0,1")
    assert "AS UUID[]" in found["b"][2] and "AS UNIQUEIDENTIFIER" in found["b"][3]


def test_parameters_are_numbered_by_first_appearance_and_may_repeat(tmp_path):
    got = rendered(tmp_path, "-- name: a\nSELECT :b, :a, :b FROM t WHERE x = :c;\n")
    assert got == {"a": ("b,a,c", "SELECT ?1, ?2, ?1 FROM t WHERE x = ?3", "SELECT $1, $2, $1 FROM t WHERE x = $3",
                         "SELECT ?, ?, ? FROM t WHERE x = ? <- 0,1,0,2")}


def test_a_variant_follows_the_first_texts_numbering(tmp_path):
    got = rendered(tmp_path, "-- name: a\nSELECT :x LIMIT :n\n-- dialect: sqlserver\nSELECT TOP (:n) :x\n")
    assert got["a"] == ("x,n", "SELECT ?1 LIMIT ?2", "SELECT $1 LIMIT $2", "SELECT TOP (?) ? <- 1,0")


def test_a_text_for_sql_server_may_hold_several_statements(tmp_path):
    got = rendered(tmp_path, "-- name: a\nSELECT :x WHERE :y = 1;\n-- dialect: sqlserver\n"
                             "UPDATE t SET a = :y WHERE b = :x; IF @@ROWCOUNT = 0 SELECT :x;\n")
    assert got["a"][3] == "UPDATE t SET a = ? WHERE b = ?; IF @@ROWCOUNT = 0 SELECT ? <- 1,0,0"


def test_a_text_for_many_rows_has_the_same_parameters_as_arrays(tmp_path):
    got = rendered(tmp_path, """-- name: a
UPDATE t SET x = :x WHERE Id = :id;
-- dialect: sqlserver
UPDATE t WITH (ROWLOCK) SET x = :x WHERE Id = :id;
-- many: postgres
UPDATE t SET x = n.x FROM UNNEST(CAST(:id AS INT[]), CAST(:x AS TEXT[])) AS n (id, x) WHERE t.Id = n.id;
-- name: b
DELETE FROM t WHERE Id = :id RETURNING Id;
-- dialect: sqlserver
DELETE FROM t OUTPUT deleted.Id WHERE Id = :id;
-- many: postgres
DELETE FROM t USING UNNEST(CAST(:id AS INT[])) WITH ORDINALITY AS n (id, Nth) WHERE t.Id = n.id RETURNING t.Id, n.Nth;
""")
    assert got["a"][2] == "UPDATE t SET x = $1 WHERE Id = $2"
    assert got["a"][4] == ("many: UPDATE t SET x = n.x FROM UNNEST(CAST($2 AS INT[]), CAST($1 AS TEXT[])) AS n (id, x) "
                           "WHERE t.Id = n.id")
    assert got["b"][4].endswith("RETURNING t.Id, n.Nth")
    assert "b_Nth" not in (tmp_path / "gen/room/x.sql.h").read_text()


def test_a_template_s_text_for_many_rows_has_places(tmp_path):
    text = with_template(tmp_path, "-- with: name = a\n-- with: type = TEXT\n-- with: type/postgres = UUID\n",
                         "-- with: name\n-- with: type\n\n-- name: {name}_x\nDELETE FROM {name} WHERE Id = CAST(:id AS {type});\n"
                         "-- many: postgres\nDELETE FROM {name} WHERE Id = ANY(CAST(:id AS {type}[]));\n")
    got = rendered(tmp_path, text)
    assert got["a_x"][2] == "DELETE FROM a WHERE Id = CAST($1 AS TEXT)"
    assert got["a_x"][4] == "many: DELETE FROM a WHERE Id = ANY(CAST($1 AS UUID[]))"


LEXING = [
    ("'it''s :no ? $1; -- x'", "'it''s :no ? $1; -- x'"),
    ('"odd "" :name ?"', '"odd "" :name ?"'),
    ("x::text", "x::text"),
    (":p::int", "$1::int"),
    ("f(a := 1)", "f(a := 1)"),
    ("1 /* :no ; ? /* nested */ ' */ + 2", "1   + 2"),
    ("1 -- :no ' ;\n + 2", "1 \n+ 2"),
    ("$$ :no ; ' $$", "$$ :no ; ' $$"),
    ("$a$ $b$ :no $a$", "$a$ $b$ :no $a$"),
    (r"E'\' :no'", r"E'\' :no'"),
    (r"'\' || :p", r"'\' || $1"),
    ("ARRAY[:p, 1]", "ARRAY[$1, 1]"),
    ("x[1 : 2]", "x[1 : 2]"),
    ("a$1", "a$1"),
    ("'não \U0001f600'", "'não \U0001f600'"),
    ("x @> :p", "x @> $1"),
]


@pytest.mark.parametrize("sql,expected", LEXING)
def test_postgres_text_is_lexed_not_searched(tmp_path, sql, expected):
    use = "" if ":p" in sql else ", :p"
    text = f"-- name: a\n-- dialect: sqlite, sqlserver\nDELETE FROM t WHERE :p\n-- dialect: postgres\nDELETE FROM t WHERE ({sql}{use});\n"
    done = embed_sql(tmp_path, text)
    assert (done.returncode, done.stderr) == (0, "")
    c = ('#include "room/x.sql.h"\n#include <stdio.h>\n'
         "int main(void) { fputs(df_q_a.text[DF_POSTGRES].sql, stdout); return 0; }\n")
    assert run_c(tmp_path, c, tmp_path / "gen/room/x.sql.c").decode() == \
        f"DELETE FROM t WHERE ({expected}" + ("" if ":p" in sql else ", $1") + ")"


def test_brackets_quote_names_in_sqlite_and_sql_server(tmp_path):
    text = "-- name: a\n-- dialect: sqlite, sqlserver\nSELECT [a :b ; ]] '], :p\n-- dialect: postgres\nSELECT 1, :p\n"
    assert rendered(tmp_path, text)["a"][1:] == ("SELECT [a :b ; ]] '], ?1", "SELECT 1, $1",
                                                 "SELECT [a :b ; ]] '], ? <- 0")


def test_a_directive_inside_a_string_or_comment_is_none(tmp_path):
    text = "/*\n-- name: no\n*/\n-- name: a\nSELECT '\n-- name: no\n'\n"
    done = embed_sql(tmp_path, text)
    assert done.returncode == 0
    assert "df_q_no" not in (tmp_path / "gen/room/x.sql.h").read_text()


def test_a_text_longer_than_a_string_literal_may_be(tmp_path):
    values = ", ".join(f"'{i:08}'" for i in range(1000))
    assert rendered(tmp_path, f"-- name: a\nSELECT {values}\n")["a"][1] == f"SELECT {values}"


TEMPLATE = """-- with: name
-- with: columns
-- with: say
-- with: also =
-- with: order = Id

-- name: {name}_list
SELECT {columns} FROM T WHERE Id = :id {also} ORDER BY {order};
-- dialect: sqlserver
SELECT {t.columns} FROM T AS t WHERE {say} = 1 AND Id = :id {also} ORDER BY {order};

-- name: {name}_get
SELECT {say} FROM T;
"""


def with_template(tmp_path, text, template=TEMPLATE):
    (tmp_path / "src/room").mkdir(parents=True)
    (tmp_path / "src/room/t.sqlt").write_text(template, encoding="utf-8")
    return "-- template: t.sqlt\n" + text


def test_a_template_makes_the_queries_that_a_file_does_not_have(tmp_path):
    text = with_template(tmp_path, "-- with: name = a\n-- with: columns = X, Y\n-- with: say = p || q\n-- with: say/sqlserver = p + q\n"
                                   "-- with: also = AND 1 = 1\n--     AND 2 = 2\n\n"
                                   "-- template: t.sqlt\n-- with: name = b\n-- with: columns = Z\n-- with: say = 1\n-- with: order = Z DESC\n\n"
                                   "-- name: b_get\nSELECT 7;\n")
    found = rendered(tmp_path, text)
    assert found["a_list"][1] == "SELECT X, Y FROM T WHERE Id = ?1 AND 1 = 1 AND 2 = 2 ORDER BY Id"
    assert found["a_list"][3].startswith("SELECT t.X, t.Y FROM T AS t WHERE p + q = 1 AND Id = ? AND 1 = 1 AND 2 = 2 ORDER BY Id")
    assert found["a_get"][1] == "SELECT p || q FROM T"
    assert found["b_list"][1] == "SELECT Z FROM T WHERE Id = ?1 ORDER BY Z DESC"
    assert found["b_get"][1] == "SELECT 7"
    assert len(found) == 4


@pytest.mark.parametrize("text,line,message", [
    ("-- with: name = a\n-- with: columns = X\n", 1, "wants a value of 'say'"),
    ("-- with: name = a\n-- with: columns = X\n-- with: say = 1\n-- with: sya = 1\n", 1, "no place 'sya'"),
    ("-- with: name = A!\n-- with: columns = X\n-- with: say = 1\n", 1, "malformed name"),
    ("-- with: name = a\n-- with: columns = X\n-- with: say = '\n", 1, "lacks :id"),
    ("-- with: name = a\n-- with: columns = X\n-- with: say = 1\n\n-- with: also = 1\n", 6, "without a template"),
])
def test_a_template_s_mistake_is_told_with_the_line_that_uses_it(tmp_path, text, line, message):
    done = embed_sql(tmp_path, with_template(tmp_path, text))
    assert done.returncode == 1
    assert done.stderr.startswith(f"src/room/x.sql:{line}: ") and message in done.stderr


def test_a_query_is_made_in_both_orders(tmp_path):
    found = rendered(tmp_path, "-- name: a\n-- row: r\nSELECT Id FROM T WHERE Id {<} :id ORDER BY Id {DESC};\n"
                               "-- name: b\nSELECT 1 AS One;\n")
    assert found["a"][1] == "SELECT Id FROM T WHERE Id < ?1 ORDER BY Id DESC"
    assert found["a_oldest"][1] == "SELECT Id FROM T WHERE Id > ?1 ORDER BY Id ASC"
    assert set(found) == {"a", "a_oldest", "b"}


def test_a_template_names_its_places(tmp_path):
    text = with_template(tmp_path, "-- with: name = a\n", "-- with: name\n\n-- name: {name}\nSELECT {other};\n")
    done = embed_sql(tmp_path, text)
    assert (done.returncode, done.stderr) == (1, "src/room/x.sql:1: the template does not name its place 'other'\n")


MISTAKES = [
    ("", 1, "no query"),
    ("-- only comments\n", 1, "no query"),
    ("SELECT 1\n-- name: a\nSELECT 1\n", 1, "before the first"),
    ("-- dialect: sqlite\n-- name: a\nSELECT 1\n", 1, "before the first"),
    ("-- name: A\nSELECT 1\n", 1, "malformed name"),
    ("-- name: a b\nSELECT 1\n", 1, "malformed name"),
    ("-- name: 1a\nSELECT 1\n", 1, "malformed name"),
    ("-- name: " + "a" * 57 + "\nSELECT 1\n", 1, "longer than"),
    ("-- name:\nSELECT 1\n", 1, "malformed directive"),
    ("--name: a\nSELECT 1\n", 1, "malformed directive"),
    ("-- Name: a\nSELECT 1\n", 1, "malformed directive"),
    ("-- name: a\nSELECT 1 -- name: b\n", 2, "malformed directive"),
    ("-- name: a\nSELECT 1\n\n-- name: a\nSELECT 2\n", 4, "duplicate name 'a', also on line 1"),
    ("-- name: a\n\n-- name: b\nSELECT 1\n", 1, "'a' is empty"),
    ("-- name: a\n/* nothing */ -- here\n", 1, "'a' is empty"),
    ("-- name: a\nSELECT 1\n-- dialect: sqlserver\n", 3, "'a' is empty"),
    ("-- name: a\n;\n", 2, "empty statement"),
    ("-- name: a\nSELECT 1;;\n", 2, "empty statement"),
    ("-- name: a\nSELECT 1;\nSELECT 2\n", 3, "second statement"),
    ("-- name: a\nSELECT ?\n", 2, "positional"),
    ("-- name: a\nSELECT ?1\n", 2, "positional"),
    ("-- name: a\nSELECT\n$1\n", 3, "positional"),
    ("-- name: a\nSELECT :1\n", 2, "positional"),
    ("-- name: a\nSELECT @x\n", 2, "'@'"),
    ("-- name: a\nSELECT :Name\n", 2, "lower_snake_case"),
    ("-- name: a\n-- dialect: oracle\nSELECT 1\n", 2, "unknown dialect 'oracle'"),
    ("-- name: a\n-- dialect: sqlite\nSELECT 1\n-- dialect: postgres, sqlite\nSELECT 2\n", 4, "two texts for sqlite"),
    ("-- name: a\n-- dialect: sqlite\nSELECT 1\n", 1, "no text for postgres"),
    ("-- name: a\n-- dialect: postgres, sqlserver\nSELECT 1\n", 1, "no text for sqlite"),
    ("-- name: a\n-- dialect: sqlite, postgres\nSELECT 1\n", 1, "no text for sqlserver"),
    ("-- name: a\nSELECT 1\n-- dialect: sqlserver\nSELECT 1;;\n", 4, "empty statement"),
    ("-- name: a\n-- dialect: sqlite, sqlserver\nSELECT 1;\nSELECT 2\n", 4, "second statement"),
    ("-- name: a\nSELECT 1\n-- dialect: sqlite\nSELECT 1\n-- dialect: postgres, sqlserver\nSELECT 1\n", 1, "never used"),
    ("-- name: a\nSELECT :a, :b\n-- dialect: sqlserver\nSELECT :a, :c\n", 3, "lacks :b; adds :c"),
    ("-- name: a\nSELECT [x]\n", 2, "brackets"),
    ("-- name: a\n-- dialect: sqlite, postgres\nSELECT [x]\n", 3, "brackets"),
    ("-- name: a\nSELECT 'x\n", 2, "unterminated"),
    ("-- name: a\nSELECT /* x\n", 2, "unterminated"),
    ("-- name: a\nSELECT $x$ y\n", 2, "unterminated"),
    ("-- name: a\nSELECT \0\n", 2, "NUL"),
    ("-- name: a\nSELECT x.Id, Id FROM x\n", 1, "two columns 'Id'"),
    ("-- name: a\nSELECT Id, Name FROM x\n-- dialect: sqlserver\nSELECT Name, Id FROM x\n", 3, "Name, Id and not Id, Name"),
    ("-- name: a\nSELECT Id, Name FROM x\n-- dialect: sqlserver\nSELECT Id FROM x\n", 3, "Id and not Id, Name"),
    ("-- name: a\n-- row: r\nSELECT Id FROM x\n-- name: b\n-- row: r\nSELECT Name FROM x\n", 4, "a row r has Id; this has Name"),
    ("-- name: a\nSELECT 1\n-- row: r\n", 3, "before its text"),
    ("-- row: r\n-- name: a\nSELECT 1\n", 1, "behind a '-- name:'"),
    ("-- many: postgres\n-- name: a\nSELECT 1\n", 1, "behind the other texts"),
    ("-- name: a\n-- many: postgres\nDELETE FROM x WHERE y = ANY(:y)\n", 2, "behind the other texts"),
    ("-- name: a\nDELETE FROM x WHERE y = :y\n-- many: sqlite\nDELETE FROM x WHERE y = :y\n", 3, "behind the other texts"),
    ("-- name: a\nDELETE FROM x WHERE y = :y\n-- many: postgres\n", 3, "'a' is empty"),
    ("-- name: a\nDELETE FROM x WHERE y = :y\n-- many: postgres\nDELETE FROM x WHERE y = ANY(:z)\n", 3, "lacks :y; adds :z"),
    ("-- name: a\nDELETE FROM x WHERE y = :y\n-- many: postgres\nDELETE FROM x WHERE y = ANY(:y)\n"
     "-- dialect: sqlserver\nDELETE FROM x WHERE y = :y\n", 5, "the last text"),
    ("-- name: a\nDELETE FROM x WHERE y = :y\n-- many: postgres\nDELETE FROM x WHERE y IN EACH_INT(:y)\n", 3, "none is EACH"),
    ("-- name: a\nDELETE FROM x\n-- many: postgres\nDELETE FROM x\n", 3, "one at least"),
    ("-- name: a\nDELETE FROM x WHERE y = :y RETURNING Id\n-- many: postgres\nDELETE FROM x WHERE y = ANY(:y) RETURNING Id\n",
     3, "are Id, Nth; this has Id"),
    ("-- name: a\nDELETE FROM x WHERE y = :y\n-- many: postgres\nDELETE FROM x WHERE y = ANY(:y) RETURNING Id\n",
     3, "are Nth; this has Id"),
]


@pytest.mark.parametrize("text,line,message", MISTAKES)
def test_a_mistake_is_told_with_its_line(tmp_path, text, line, message):
    done = embed_sql(tmp_path, text)
    assert done.returncode == 1
    assert done.stderr.startswith(f"src/room/x.sql:{line}: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "gen/room/x.sql.c").exists()


COLUMNS = [
    ("SELECT Id, c.Name, COUNT(*) AS Total, MAX(a, b) FROM x AS c GROUP BY 1", {"Id": 0, "Name": 1, "Total": 2}),
    ("SELECT DISTINCT Id FROM x", {"Id": 0}),
    ("SELECT CASE WHEN a = 1 THEN (SELECT b FROM y) ELSE c END AS Kind, CAST(NULL AS VARCHAR(5)) AS None_ FROM x", {"Kind": 0, "None_": 1}),
    ("WITH w AS (SELECT Hidden FROM y) SELECT Id FROM w", {"Id": 0}),
    ("INSERT INTO x (Id) SELECT Id FROM y", {}),
    ("INSERT INTO x (Id) VALUES (:id) RETURNING Id, Version AS Newest", {"Id": 0, "Newest": 1}),
    ("UPDATE x SET a = 'SELECT b' WHERE c IN (SELECT d FROM y)", {}),
    ("SELECT a || ', b' AS Text, :p AS Given, NULL AS Nothing, NULL FROM x", {"Text": 0, "Given": 1, "Nothing": 2}),
]


@pytest.mark.parametrize("sql,expected", COLUMNS)
def test_columns_have_the_names_they_are_selected_by(tmp_path, sql, expected):
    assert embed_sql(tmp_path, f"-- name: q\n{sql};\n").returncode == 0
    header = (tmp_path / "gen/room/x.sql.h").read_text()
    assert {name: int(at) for name, at in re.findall(r"^    q_(\w+) = (\d+),$", header, re.M)} == expected


def test_columns_of_t_sql(tmp_path):
    text = ("-- name: q\nUPDATE x SET a = 1 RETURNING Id, Version;\n-- dialect: sqlserver\n"
            "UPDATE x SET a = 1 OUTPUT inserted.Id, inserted.Version WHERE b = 1;\n"
            "-- name: page\nSELECT Id, Name FROM x LIMIT :limit;\n-- dialect: sqlserver\nSELECT TOP (:limit) Id, [Name] FROM x;\n")
    assert embed_sql(tmp_path, text).returncode == 0


def test_a_row_that_is_named_has_its_constants_once(tmp_path):
    text = "-- name: a\n-- row: r\nSELECT Id, Name FROM x;\n-- name: b\n-- row: r\nSELECT Id, Name FROM y;\n"
    assert embed_sql(tmp_path, text).returncode == 0
    header = (tmp_path / "gen/room/x.sql.h").read_text()
    assert re.findall(r"^    (\w+) = \d+,$", header, re.M) == ["r_Id", "r_Name"]


def test_a_row_may_begin_like_another(tmp_path):
    item = "-- name: a\n-- row: item\nSELECT Id, Name FROM x;\n"
    assert embed_sql(tmp_path, "-- name: b\n-- row: item, …\nSELECT Id, Name, Body FROM x;\n" + item).returncode == 0
    header = (tmp_path / "gen/room/x.sql.h").read_text()
    assert "item_Name = 1," in header and "b_Name = 1," in header and "b_Body = 2," in header
    done = embed_sql(tmp_path, item + "-- name: b\n-- row: item, …\nSELECT Name, Id, Body FROM x;\n")
    assert done.returncode == 1 and "src/room/x.sql:4: 'b': a row item has Id, Name; this begins with Name, Id, Body" in done.stderr
    done = embed_sql(tmp_path, "-- name: b\n-- row: item, …\nSELECT Id FROM x;\n")
    assert done.returncode == 1 and "a row item has none" in done.stderr


def test_queries_are_held_to_the_rows_that_templates_name(tmp_path):
    shapes = tmp_path / "src/other/rows.sqlt"
    shapes.parent.mkdir(parents=True)
    shapes.write_text("-- shape: claim = Id, Fence\n-- shape: load = Id, …\n", encoding="utf-8")
    done = embed_sql(tmp_path, "-- name: a\n-- row: claim\nSELECT Id, Version FROM x;\n")
    assert (done.returncode, done.stderr) == (1, "src/room/x.sql:1: 'a': a row claim has Id, Fence; this has Id, Version\n")
    assert embed_sql(tmp_path, "-- name: a\n-- row: claim\nSELECT Id, Version AS Fence FROM x;\n").returncode == 0
    assert embed_sql(tmp_path, "-- name: a\n-- row: load\nSELECT Id, Body FROM x;\n").returncode == 0
    assert "a_Body = 1" in (tmp_path / "gen/room/x.sql.h").read_text()
    out = tmp_path / "rows.h"
    assert tool("embed_sql.py", "--shapes", "src/other/rows.sqlt", out, cwd=tmp_path).returncode == 0
    assert re.findall(r"^    (\w+) = (\d+),$", out.read_text(), re.M) == [("claim_Id", "0"), ("claim_Fence", "1"), ("load_Id", "0")]


def test_parameters_are_given_by_name(tmp_path):
    assert embed_sql(tmp_path, "-- name: q\nSELECT :b, :a, :b;\n").returncode == 0
    out = run_c(tmp_path, """
#include "room/x.sql.h"
#include <stdio.h>
static void show(const struct df_query *q, const struct df_value *params, size_t count)
{
    for (size_t i = 0; i < count; i++)
        printf("%s=%d ", q->params[i], (int)params[i].i);
}
int main(void)
{
    show(DF_Q(q, .a = df_int(1), .b = df_int(2)));
    return 0;
}
""", tmp_path / "gen/room/x.sql.c")
    assert out == b"b=2 a=1 "


def test_bytes_that_are_no_utf8_are_refused(tmp_path):
    (tmp_path / "x.sql").write_bytes(b"-- name: a\nSELECT '\xff'\n")
    done = tool("embed_sql.py", "x.sql", "x.c", "x.h", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "x.sql:2: not UTF-8\n")


def test_the_list_of_all_queries_has_those_of_every_file(tmp_path):
    assert embed_sql(tmp_path, "-- name: a\nSELECT 1\n", "room/x.sql").returncode == 0
    assert embed_sql(tmp_path, "-- name: b\nSELECT 1\n-- name: c\nSELECT 2\n", "other/y.sql").returncode == 0
    done = tool("embed_sql.py", "--all", tmp_path / "gen/all.c", "src/room/x.sql", "src/other/y.sql", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    c = ('#include "all.h"\n#include <stdio.h>\nint main(void)\n{\n'
         "    for (size_t i = 0; i < df_all_queries_count; i++)\n        puts(df_all_queries[i]->name);\n"
         "    return 0;\n}\n")
    gen = tmp_path / "gen"
    assert run_c(tmp_path, c, gen / "all.c", gen / "room/x.sql.c", gen / "other/y.sql.c") == b"a\nb\nc\n"


def test_the_list_of_no_files_is_empty(tmp_path):
    (tmp_path / "gen").mkdir()
    assert tool("embed_sql.py", "--all", tmp_path / "gen/all.c").returncode == 0
    c = '#include "all.h"\nint main(void) { return df_all_queries_count != 0; }\n'
    run_c(tmp_path, c, tmp_path / "gen/all.c")


def test_one_name_in_two_files_is_refused(tmp_path):
    embed_sql(tmp_path, "-- name: a\nSELECT 1\n", "room/x.sql")
    embed_sql(tmp_path, "\n-- name: a\nSELECT 1\n", "room/y.sql")
    done = tool("embed_sql.py", "--all", tmp_path / "all.c", "src/room/x.sql", "src/room/y.sql", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "src/room/y.sql:2: duplicate name 'a', also in src/room/x.sql:1\n")


FILES = """
#include "files.h"
#include <stdio.h>
int main(void)
{
    for (size_t i = 0; i < df_test_count; i++) {
        printf("%s %zu %zu\\n", df_test[i].name, df_test[i].len, df_test[i].size);
        fwrite(df_test[i].data, 1, df_test[i].len, stdout);
    }
    return 0;
}
"""


def embed_files(tmp_path, *paths):
    """[(name, size, content)] as the compiled program has them. They are compressed there."""
    (tmp_path / "gen").mkdir(exist_ok=True)
    done = tool("embed_files.py", "df_test", tmp_path / "base", tmp_path / "gen/files.c", *paths)
    assert (done.returncode, done.stderr) == (0, "")
    left, files = run_c(tmp_path, FILES, tmp_path / "gen/files.c"), []
    while left:
        line, left = left.split(b"\n", 1)
        name, length, size = line.decode().split(" ")
        packed, left = left[:int(length)], left[int(length):]
        assert len(packed) == int(length)
        files.append((name, int(size), gzip.decompress(packed)))
    return files


def test_files_are_embedded_byte_for_byte_in_the_order_of_their_names(tmp_path):
    base = tmp_path / "base"
    (base / "sub").mkdir(parents=True)
    every = bytes(range(256)) * 3 + b'"\\'
    (base / "z.bin").write_bytes(every)
    (base / "sub/a.txt").write_bytes(b"text")
    (base / "empty").write_bytes(b"")
    assert embed_files(tmp_path, base / "z.bin", base / "sub/a.txt", base / "empty") == [
        ("empty", 0, b""), ("sub/a.txt", 4, b"text"), ("z.bin", 770, every)]


def test_json_is_embedded_without_its_indentation(tmp_path):
    (tmp_path / "base").mkdir()
    (tmp_path / "base/a.json").write_text('{\n  "é": [1, 2.50, "a  b"],\n  "n": {}\n}\n', encoding="utf-8")
    assert embed_files(tmp_path, tmp_path / "base/a.json") == [("a.json", 28, '{"é":[1,2.5,"a  b"],"n":{}}'.encode())]


def test_no_files_make_an_empty_array(tmp_path):
    (tmp_path / "base").mkdir()
    assert embed_files(tmp_path) == []


def test_a_large_file_compiles(tmp_path):
    (tmp_path / "base").mkdir()
    data = random.Random(1).randbytes(300_000)  # which no compression makes smaller
    (tmp_path / "base/big").write_bytes(data)
    [(name, size, content)] = embed_files(tmp_path, tmp_path / "base/big")
    assert (name, size, len(content)) == ("big", 300_000, 300_000)
    is_same = content == data
    assert is_same  # no difference to show: it would take minutes


@pytest.mark.parametrize("args,message", [
    (["1x", ".", "o.c"], "no C identifier"),
    (["x", ".", "o.c", "missing"], "missing"),
    (["x", "sub", "o.c", "outside"], "not under"),
    (["x", ".", "o.c", "outside", "./outside"], "twice"),
])
def test_files_that_cannot_be_embedded_are_refused(tmp_path, args, message):
    (tmp_path / "sub").mkdir()
    (tmp_path / "outside").write_text("x")
    done = tool("embed_files.py", *args, cwd=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


# --- check_includes.py ---

HOUSE = {
    "base/str.h": "struct df_str {\n};\n",
    "access/access.h": "struct df_access {\n};\n",
    "relay/relays.h": "struct df_relays;\n",
    "relay/relays.c": "struct df_relays {\n};\nstruct local {\n};\n",
    "webhooks/webhooks.h": "struct df_webhooks;\n",
    "webhooks/webhooks.c": "struct df_webhooks {\n};\n",
    "imports/imports.h": "struct df_imports;\n",
    "imports/process/process_private.h": "struct df_imports {\n};\nstruct import_batch {\n};\n",
    "imports/receive/receive.h": "struct df_receiver {\n};\n",
    "imports/receive/receive_private.h": "struct df_receive {\n};\n",
}


@pytest.mark.parametrize("path, line, reason", [
    ("access/x.h", '#include "base/str.h"', None),
    ("access/x.h", '#include "relay/relays.h"', "access may not know relay"),
    ("access/x.h", "struct df_relays;", "access may not know relay"),
    ("access/x.h", "struct x { struct df_relays *relays; };", "access may not know relay"),
    ("access/x.h", "/* struct df_relays */", None),
    ("access/x.h", "struct local;", None),
    ("relay/x.c", "struct df_access *a;", None),
    ("relay/x.c", "struct df_webhooks *w;", "relay may not know webhooks"),
    ("imports/x.c", "struct df_webhooks *w;", None),
    ("app/x.c", "struct df_relays *r;", None),
    ("imports/api/x.c", "struct df_imports *i;", None),
    ("imports/api/x.c", "struct import_batch *b;", "imports/api may not know imports/process"),
    ("imports/api/x.c", "struct import_batch {\n};", None),
    ("imports/api/x.c", '#include "imports/receive/receive.h"', None),
    ("imports/api/x.c", '#include "imports/receive/receive_private.h"', "it is private to imports/receive"),
    ("imports/receive/x.c", '#include "imports/process/process_private.h"', "imports/receive may not know imports/process"),
    ("imports/x.c", "struct df_receiver *r;", "imports/ may not know imports/receive"),
    ("garden/x.c", "", "the room garden has no place"),
])
def test_who_may_know_whom(tmp_path, path, line, reason):
    for name, text in {**HOUSE, path: line + "\n"}.items():
        file = tmp_path / "src" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "tools").mkdir()
    script = tmp_path / "tools" / "check_includes.py"
    script.write_text((ROOT / "tools" / "check_includes.py").read_text())
    done = subprocess.run([sys.executable, script], text=True, capture_output=True, check=False)
    assert done.returncode == (1 if reason else 0), done.stdout
    lines = done.stdout.splitlines()
    assert [reason in found and found.startswith(f"src/{path}") for found in lines] == ([True] if reason else [])


def join_scripts(tmp_path, *texts):
    """What a database is that is made of the joined scripts: shape and rows."""
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.sql").write_text(text, encoding="utf-8")
    done = tool("join_scripts.py", tmp_path / "joined", *sorted(tmp_path.glob("*.sql"), reverse=True))
    if done.returncode != 0:
        return done
    with contextlib.closing(sqlite3.connect(":memory:")) as made:
        made.executescript((tmp_path / "joined").read_text(encoding="utf-8"))
        return list(made.iterdump())


BOX = "CREATE TABLE IF NOT EXISTS Box (Id int, Label text DEFAULT 'a; b'); -- it's; a box\n"


def test_scripts_are_joined_to_what_they_come_to(tmp_path):
    made = join_scripts(tmp_path, BOX + "INSERT INTO Box (Id) VALUES (1);\nCREATE INDEX IX_Old ON Box (Id);\n", """
-- add column if missing: Box Label
ALTER TABLE Box ADD COLUMN Label text;
-- add column if missing: Box Size
-- It's for later; really.
ALTER TABLE Box ADD COLUMN Size int NOT NULL DEFAULT 3;
DROP INDEX IX_Old; CREATE INDEX IX_New ON Box (Size);
CREATE TRIGGER T AFTER DELETE ON Box BEGIN INSERT INTO Box (Id) VALUES (7); SELECT 1; END;
UPDATE Box SET Id = Id + 1;
""")
    assert made == [
        "BEGIN TRANSACTION;", "CREATE TABLE Box (Id int, Label text DEFAULT 'a; b', Size int NOT NULL DEFAULT 3);",
        "INSERT INTO \"Box\" VALUES(2,'a; b',3);", "CREATE INDEX IX_New ON Box (Size);",
        "CREATE TRIGGER T AFTER DELETE ON Box BEGIN INSERT INTO Box (Id) VALUES (7); SELECT 1; END;", "COMMIT;"]


@pytest.mark.parametrize("texts,message", [
    ([BOX, "ALTER TABLE Bax ADD COLUMN Size int;"], "1.sql: no such table: Bax"),
    ([BOX, "CREATE TABLE Bax (Id int)"], "1.sql: the last statement has no end"),
    ([BOX + "INSERT INTO Box (Id) SELECT COUNT(*) FROM pragma_table_info('Box');", "ALTER TABLE Box ADD COLUMN Size int;"],
     "depends on what the tables were"),
])
def test_scripts_that_cannot_be_joined_are_refused(tmp_path, texts, message):
    done = join_scripts(tmp_path, *texts)
    assert done.returncode == 1 and message in done.stderr and not (tmp_path / "joined").exists()
