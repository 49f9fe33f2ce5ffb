"""Workbooks as other programs write them: openpyxl, XlsxWriter, LibreOffice and SheetJS, and what is read out of them.

The programs are those of Debian and npm; the file is theirs alone, so that what they do differently is what is tested.
"""

import datetime
import json
import os
import re
import shutil
import struct
import subprocess
import zipfile
import zlib

import openpyxl
import openpyxl.cell
import pytest
import xlsxwriter
from harness import BIN, SANITIZER, npm

D, DT, T = datetime.date, datetime.datetime, datetime.time
LIMIT_MIB = 64

HEADER = ["Nome", "Telefone", "Nascimento", "Visto em", "Hora", "Ativo", "Valor", "CEP", "Notas"]
ROWS = [
    ["João & Cia <Ltda> \"x\"", 5511999998888, D(2025, 11, 20), DT(2025, 11, 20, 12, 1), T(12, 1), True, 0.1 + 0.2,
     1310100, "linha 1\nlinha 2"],
    ["  espaços  ", -5, D(1985, 2, 28), DT(1999, 12, 31, 23, 59, 59), T(0, 0), False, 1234567.891, 1001000, "😀 ção"],
    ["Zé", 123456789012345, D(2000, 2, 29), DT(2024, 2, 29), T(23, 59, 59), True, 1e100, 99999999, "a_b _x fica"],
]
SEEN = [
    ["João & Cia <Ltda> \"x\"", 5511999998888, "2025-11-20", "2025-11-20T12:01:00", "12:01:00", True, 0.3, "01310-100",
     "linha 1\nlinha 2"],
    ["  espaços  ", -5, "1985-02-28", "1999-12-31T23:59:59", "00:00:00", False, 1234567.891, "01001-000", "😀 ção"],
    ["Zé", 123456789012345, "2000-02-29", "2024-02-29T00:00:00", "23:59:59", True, 1e100, "99999-999", "a_b _x fica"],
]
EXPECTED = [dict(zip(HEADER, row)) for row in SEEN]
FORMATS = {2: "dd/mm/yyyy", 3: "dd/mm/yyyy hh:mm:ss", 4: "hh:mm:ss", 7: "00000-000"}


def run(path, *options):
    done = subprocess.run([f"{BIN}-bench", "records", str(path), *options], capture_output=True, check=False, timeout=120)
    assert not SANITIZER.search(done.stderr.decode(errors="replace")), done.stderr.decode(errors="replace")
    return done


def records(path, *options):
    done = run(path, *options)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def refusal(path, *options):
    """Why a file is refused."""
    done = run(path, *options)
    assert done.returncode == 1, (done.returncode, done.stdout[:500], done.stderr[:500])
    return done.stderr.decode()


# --- the writers -------------------------------------------------------------------------------------


def by_openpyxl(path, write_only=False):
    book = openpyxl.Workbook(write_only=write_only)
    sheet = book.create_sheet("Dados") if write_only else book.active
    for number, row in enumerate([HEADER, *ROWS]):
        cells = []
        for column, value in enumerate(row):
            if write_only:
                cell = openpyxl.cell.WriteOnlyCell(sheet, value)
            else:
                cell = sheet.cell(number + 1, column + 1, value)
            if number and column in FORMATS:
                cell.number_format = FORMATS[column]
            cells.append(cell)
        if write_only:
            sheet.append(cells)
    book.save(path)


def by_xlsxwriter(path, **options):
    book = xlsxwriter.Workbook(str(path), options)
    sheet = book.add_worksheet("Dados")
    formats = {column: book.add_format({"num_format": code}) for column, code in FORMATS.items()}
    sheet.write_row(0, 0, HEADER)
    for number, row in enumerate(ROWS, 1):
        for column, value in enumerate(row):
            sheet.write(number, column, value, *([formats[column]] if column in formats else []))
    book.close()


def by_libreoffice(path, suffix="xlsx"):
    if not shutil.which("soffice"):
        pytest.skip("LibreOffice is not installed")
    work = path.parent / "libreoffice"
    work.mkdir()
    by_openpyxl(work / f"{path.stem}.xlsx")
    out = work / "out"
    subprocess.run(["soffice", "--headless", f"-env:UserInstallation=file://{work}/profile", "--convert-to", suffix,
                    "--outdir", out, work / f"{path.stem}.xlsx"], check=True, capture_output=True, timeout=150)
    shutil.move(next(out.iterdir()), path)


SHEETJS = """
const XLSX = require("xlsx");
const [rows, formats, path, shared] = JSON.parse(process.argv[1]);
const sheet = XLSX.utils.aoa_to_sheet(rows);
for (const [column, code] of Object.entries(formats))
    for (let row = 1; row < rows.length; row++) {
        const cell = sheet[XLSX.utils.encode_cell({c: +column, r: row})];
        cell.t = "n";
        cell.z = code;
    }
const book = XLSX.utils.book_new();
XLSX.utils.book_append_sheet(book, sheet, "Dados");
XLSX.writeFile(book, path, {bookSST: shared, compression: true});
"""


@pytest.fixture(scope="session")
def sheetjs():
    """The directory in which Node finds SheetJS."""
    return npm("sheetjs", "xlsx@0.18.5")


def serial(value):
    if isinstance(value, T):
        return (value.hour * 3600 + value.minute * 60 + value.second) / 86400
    if isinstance(value, DT):
        delta = value - DT(1899, 12, 30)
        return delta.days + delta.seconds / 86400
    if isinstance(value, D):
        return (value - D(1899, 12, 30)).days
    return value


def by_sheetjs(path, work, shared):
    rows = [HEADER, *[[serial(value) for value in row] for row in ROWS]]
    subprocess.run(["node", "-e", SHEETJS, json.dumps([rows, FORMATS, str(path), shared])], check=True, cwd=work,
                   timeout=60)


# --- what they write ----------------------------------------------------------------------------------


@pytest.mark.parametrize("write_only", (False, True))
def test_openpyxl(tmp_path, write_only):
    by_openpyxl(tmp_path / "a.xlsx", write_only)
    assert records(tmp_path / "a.xlsx") == EXPECTED


@pytest.mark.parametrize("options", ({}, {"constant_memory": True}, {"date_1904": True}, {"use_zip64": True}), ids=str)
def test_xlsxwriter(tmp_path, options):
    by_xlsxwriter(tmp_path / "a.xlsx", **options)
    assert records(tmp_path / "a.xlsx") == EXPECTED


def test_libreoffice(tmp_path):
    by_libreoffice(tmp_path / "a.xlsx")
    assert records(tmp_path / "a.xlsx") == EXPECTED


@pytest.mark.parametrize("shared", (False, True))
def test_sheetjs(tmp_path, sheetjs, shared):
    by_sheetjs(tmp_path / "a.xlsx", sheetjs, shared)
    assert records(tmp_path / "a.xlsx") == EXPECTED


def test_formulas_errors_merged_cells_and_rich_text(tmp_path):
    book = xlsxwriter.Workbook(str(tmp_path / "a.xlsx"))
    sheet = book.add_worksheet()
    bold = book.add_format({"bold": True})
    sheet.write_row(0, 0, ["a", "b", "c", "d"])
    sheet.write_formula(1, 0, "=1+1", None, 2)
    sheet.write_formula(1, 1, '="x"&"y"', None, "xy")
    sheet.write_formula(1, 2, "=NA()", None, "#N/A")
    sheet.write_formula(1, 3, "=TRUE()", None, True)
    sheet.write_rich_string(2, 0, "meio ", bold, "negrito", " fim")
    sheet.merge_range(2, 1, 2, 3, "juntas")
    book.close()
    assert records(tmp_path / "a.xlsx") == [{"a": 2, "b": "xy", "c": "#N/A", "d": True},
                                            {"a": "meio negrito fim", "b": "juntas"}]


def test_sheets_by_name_and_charts(tmp_path):
    book = xlsxwriter.Workbook(str(tmp_path / "a.xlsx"))
    chart = book.add_chart({"type": "line"})
    hidden, first, second = (book.add_worksheet(name) for name in ("Oculta", "Primeira", "Operação"))
    page = book.add_chartsheet("Gráfico")
    for sheet, value in ((hidden, 0), (first, 1), (second, 2)):
        sheet.write_column(0, 0, ["n", value])
    chart.add_series({"values": "=Primeira!$A$2:$A$2"})
    page.set_chart(chart)
    first.activate()
    hidden.hide()
    book.close()
    path = tmp_path / "a.xlsx"
    assert records(path) == [{"n": 1}]
    assert records(path, "--sheet", "OPERAÇÃO") == [{"n": 2}]
    assert records(path, "--sheet", "oculta") == [{"n": 0}]
    assert "not a sheet of cells" in refusal(path, "--sheet", "Gráfico")
    assert '"Oculta", "Primeira", "Operação"' in refusal(path, "--sheet", "Terceira")


def test_an_xls_and_an_ods_are_refused_with_advice(tmp_path):
    for suffix in ("xls", "ods"):
        (tmp_path / suffix).mkdir()
        by_libreoffice(tmp_path / suffix / f"a.{suffix}", suffix=suffix)
        assert "save it as .xlsx" in refusal(tmp_path / suffix / f"a.{suffix}")


# --- what wants to do harm ------------------------------------------------------------------------------


def book_with(path, source, part, content, method=zipfile.ZIP_DEFLATED):
    """The workbook at source with one part replaced by what content yields."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", method) as new:
        for name in old.namelist():
            if name != part:
                new.writestr(name, old.read(name))
        with new.open(part, "w") as out:
            for piece in content:
                out.write(piece)


MAIN = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'


def many_columns():
    yield MAIN + b"<row>" + b"".join(b"<c><v>%d</v></c>" % i for i in range(1000000)) + b"</row></sheetData></worksheet>"


def deep():
    yield MAIN + b"<row>" + b"<a>" * 10000 + b"</a>" * 10000 + b"</row></sheetData></worksheet>"


def laughs():
    entities = b"".join(b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(9))
    yield b'<!DOCTYPE l [<!ENTITY a "ha">' + entities + b"]>" + MAIN
    yield b"<row><c><v>&j;</v></c></row></sheetData></worksheet>"


def spaces():
    yield MAIN
    for _ in range(256):
        yield b" " * (1 << 20)
    yield b"</sheetData></worksheet>"


def assert_refused_in_little_memory(path, words):
    done = run(path, "--count")
    assert done.returncode == 1 and words in done.stderr.decode(), done.stderr
    assert json.loads(done.stdout)["peakKb"] < LIMIT_MIB * 1024 or "asan" in BIN


@pytest.mark.parametrize(("content", "words"), (
    (many_columns, "row 1 "), (deep, "nested too deeply"),
    (laughs, "has a document type"), (spaces, "times its size")), ids=lambda value: getattr(value, "__name__", None))
def test_bombs_are_refused_in_little_memory(tmp_path, content, words):
    by_openpyxl(tmp_path / "good.xlsx")
    path = tmp_path / "bomb.xlsx"
    book_with(path, tmp_path / "good.xlsx", "xl/worksheets/sheet1.xml", content())
    assert_refused_in_little_memory(path, words)


def one_cell_of_a_gigabyte(path, source, part):
    """It packs badly enough not to be told by its ratio, and is written fast: a packed piece, again and again."""
    piece, times = os.urandom(1 << 19).hex().encode(), 1024
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    head = packer.compress(MAIN + b'<row><c t="inlineStr"><is><t>') + packer.flush(zlib.Z_FULL_FLUSH)
    body = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
    tail = packer.compress(b"</t></is></c></row></sheetData></worksheet>") + packer.flush()
    book_with(path, source, part, (head, *[body] * times, tail), zipfile.ZIP_STORED)
    packed = len(head) + len(body) * times + len(tail)
    with open(path, "r+b") as file:  # what is stored there is called packed; the checksum is never reached
        file.seek(-1 << 16, os.SEEK_END)
        start, end = file.tell(), file.read()
        for found in re.finditer(b"PK\x01\x02.{42}" + part.encode(), end, re.S):
            at = start + found.start()
            local = struct.unpack("<I", end[found.start() + 42:found.start() + 46])[0]
            file.seek(at + 10)
            file.write(struct.pack("<H", 8))
            file.seek(at + 20)
            file.write(struct.pack("<II", packed, len(piece) * times + 200))
            file.seek(local + 8)
            file.write(struct.pack("<H", 8))


def test_a_gigabyte_in_one_cell_is_refused_in_little_memory(tmp_path):
    by_openpyxl(tmp_path / "good.xlsx")
    one_cell_of_a_gigabyte(tmp_path / "bomb.xlsx", tmp_path / "good.xlsx", "xl/worksheets/sheet1.xml")
    assert_refused_in_little_memory(tmp_path / "bomb.xlsx", "row 1 has a cell with too many bytes")


def test_shared_strings_that_do_not_fit_in_memory(tmp_path):
    def texts(row):
        return [f"{c} of row {row}, with some more text to fill the table {row * 7919 % 65536:x}" for c in "abc"]

    book = xlsxwriter.Workbook(str(tmp_path / "a.xlsx"))
    sheet = book.add_worksheet()
    count = 120000
    for row in range(count + 1):
        sheet.write_row(row, 0, texts(row))
    book.close()
    figures = json.loads(run(tmp_path / "a.xlsx", "--count").stdout)
    assert (figures["records"], figures["fields"]) == (count, 3 * count)
    assert figures["peakKb"] < LIMIT_MIB * 1024 or "asan" in BIN
    lines = run(tmp_path / "a.xlsx").stdout.splitlines()
    for row in (1, count // 2, count):
        assert list(json.loads(lines[row - 1]).values()) == texts(row)
