"""Small files that expand to a lot: runs of empty records, rows past the last one, very many or very long records."""

import csv
import io
import json
import re
import zipfile

import openpyxl
import pytest
from test_imports_process import (  # noqa: F401 (fixtures)
    chunk_rows,
    client,
    column,
    configuration,
    figures,
    imported,
    leads,
    make_peer,
    module_peer,
    peer,
    server,
    wait_end,
)
from test_imports_receive import policy, taken, upload

NS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def workbook(rows, strings=None):
    """A workbook whose sheet has these rows as they stand, packed as tightly as it goes."""
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="xml" ContentType="application/xml"/>'
                               '<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument'
                               '.spreadsheetml.sheet.main+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" Type="{RELS}/officeDocument"'
                       ' Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{NS}" xmlns:r="{RELS}"><sheets><sheet name="S" sheetId="1" r:id="r1"/></sheets>'
                           '</workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" Type="{RELS}/worksheet"'
                                      f' Target="worksheets/sheet1.xml"/><Relationship Id="r2" Type="{RELS}/sharedStrings"'
                                      ' Target="sharedStrings.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{NS}"><sheetData>{rows}</sheetData></worksheet>',
    }
    if strings is not None:
        parts["xl/sharedStrings.xml"] = f'<sst xmlns="{NS}">' + "".join(f"<si><t>{s}</t></si>" for s in strings) + "</sst>"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return out.getvalue()


def cells(*texts):
    return "".join(f'<c t="str"><v>{t}</v></c>' for t in texts)


def line(number, *texts):
    return f'<row r="{number}">{cells(*texts)}</row>'


HEAD = line(1, "Telefone", "Nome")
PHONE = "+55519990000{:02}"

# The same twelve places in each format: a record, a run of seven, two records, one empty, one record.
FILES = {
    "xlsx": (workbook(HEAD + line(2, PHONE.format(0), "a") + "<row r='3'/><row r='4'><c/></row>" + line(5, " ", "")
                      + line(10, PHONE.format(1), "b") + line(11, PHONE.format(2), "c") + line(13, PHONE.format(3), "d")
                      + "<row r='20'/>"), "leads.xlsx"),
    "csv": (("Telefone;Nome\n" + PHONE.format(0) + ";a\n\n;\n ; \n\n;;\n\n\n" + PHONE.format(1) + ";b\n"
             + PHONE.format(2) + ";c\n;\n" + PHONE.format(3) + ";d\n\n\n").encode(), "leads.csv"),
    "json": (json.dumps([{"Telefone": PHONE.format(0), "Nome": "a"}, {}, {"Nome": None}, {"Nome": " "}, {}, {}, {}, {},
                         {"Telefone": PHONE.format(1), "Nome": "b"}, {"Telefone": PHONE.format(2), "Nome": "c"}, {},
                         {"Telefone": PHONE.format(3), "Nome": "d"}]).encode(), "leads.json"),
}


@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize("size", [100, 3, 1])
def test_a_run_of_empty_records_is_one_item_with_a_count(server, peer, client, form, size):  # noqa: F811
    policy(server, client, batchSize=size)
    batch = taken(upload(client, *FILES[form]))
    found = wait_end(client, batch)
    assert figures(found) == ("Completed", 12, 12, 0, 8)
    assert found["importedCount"] == 4
    page = client.get(f"/imports/{batch}/items").json
    assert [(i["sequence"], i["status"], i["recordCount"]) for i in page["items"]] == [
        (0, "Imported", 1), (1, "Skipped", 7), (8, "Imported", 1), (9, "Imported", 1), (10, "Skipped", 1), (11, "Imported", 1)]
    assert page["total"] == 6
    assert [i["errorMessage"] for i in page["items"] if i["status"] == "Skipped"] == ["7 empty rows", "empty row"]
    skipped = client.get(f"/imports/{batch}/items?status=Skipped").json
    assert (skipped["total"], [i["sequence"] for i in skipped["items"]]) == (2, [1, 10])
    assert client.get(f"/imports/{batch}/items?page=2&pageSize=4").json["items"] == page["items"][4:]
    # The sequence is a record's place in the file, and a chunk covers the places of its items.
    sent = sorted(((r.body["offset"], [i["sequence"] for i in r.body["items"]]) for r in peer.came(batch)))
    assert sent == {100: [(0, [0, 8, 9, 11])], 3: [(0, [0, 8]), (9, [9, 11])], 1: [(s, [s]) for s in (0, 8, 9, 11)]}[size]
    rows = server.backend.query(f"SELECT RecordOffset, RecordCount FROM ImportChunk WHERE BatchId = '{batch}' ORDER BY ChunkId")
    assert [offset + count for offset, count in rows] == [offset for offset, _ in rows[1:]] + [12]
    assert column(server, batch, "CutRules") == 2
    assert server.backend.query(f"SELECT SUM(COALESCE(RecordCount, 1)) FROM ImportItem WHERE BatchId = '{batch}'") == [(12,)]


def test_a_file_without_runs_is_cut_as_ever(server, peer, client):  # noqa: F811
    records = [*leads(5), {}, *leads(5, start=5)]
    batch, found = imported(client, records)
    assert figures(found) == ("Completed", 11, 11, 0, 1)
    assert column(server, batch, "CutRules") == 1, "so that the release before may finish it"


def test_gaps_all_over_a_sheet_cost_little(server, peer, client):  # noqa: F811
    """Rows as far apart as possible while the gap still counts as empty rows."""
    rows = HEAD + "".join(line(n, "1", "x") for n in range(1001, 1048576, 1000))
    data = workbook(rows)
    assert len(data) < 30_000
    batch = taken(upload(client, data, "leads.xlsx"))
    found = wait_end(client, batch)
    assert found["status"] == "CompletedWithErrors"
    assert (found["totalRecords"], found["errorCount"], found["skippedCount"]) == (1048 * 1000, 1048, 1048 * 999)
    assert client.get(f"/imports/{batch}/items").json["total"] == 2 * 1048
    assert len(chunk_rows(server, batch)) == 210


@pytest.mark.parametrize("rows", [
    line(1048577, "x"), "".join(line(n, "x") for n in range(1001, 3_000_000, 1000)), line(1048576) + "<row/>",
    '<row r="4294967297"/>', '<row r="9223372036854775807"><c/></row>',
], ids=["one", "gaps", "counted", "wrapped", "largest"])
def test_rows_past_the_last_are_refused(server, peer, client, rows):  # noqa: F811
    batch = taken(upload(client, workbook(HEAD + line(2, PHONE.format(0), "a") + rows), "leads.xlsx"))
    found = wait_end(client, batch)
    assert found["status"] == "Failed" and "past the last row of a sheet, 1048576" in found["lastError"]
    assert peer.came(batch) == [] and client.get(f"/imports/{batch}/items").json["total"] == 0


EMPTY = {
    "json": b'[{"PhoneNumber":"+5551999000000"},' + b"{}," * 2_000_000 + b'{"PhoneNumber":"+5551999000001"}]',
    "csv": b"PhoneNumber\n+5551999000000\n" + b"\n" * 2_000_000 + b"+5551999000001\n",
    "blank": b"PhoneNumber;b\n+5551999000000;\n" + b" ; \n" * 2_000_000 + b"+5551999000001;\n",
}


@pytest.mark.parametrize("form", EMPTY)
def test_millions_of_empty_records_are_three_items(server, peer, client, form):  # noqa: F811
    batch = taken(upload(client, EMPTY[form], "leads.json" if form == "json" else "leads.csv"))
    assert figures(wait_end(client, batch)) == ("Completed", 2_000_002, 2_000_002, 0, 2_000_000)
    page = client.get(f"/imports/{batch}/items").json
    assert [i["recordCount"] for i in page["items"]] == [1, 2_000_000, 1]


# --- limits ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def limited(backend_name, module_peer, tmp_path_factory):  # noqa: F811
    from harness import Backend, Server

    backend = Backend(backend_name, tmp_path_factory.mktemp(backend_name))
    server = Server(backend, tmp_path_factory.mktemp("limited"),  # noqa: F811
                    config=configuration(module_peer, imports={"max_records": 20, "max_growth": 2}))
    server.start()
    yield server
    server.finish()
    backend.drop()


@pytest.mark.parametrize("most,count,why", [
    (None, 20, None), (None, 21, "more than 20 records, which is the limit of this server (imports.max_records)"),
    (5, 5, None), (5, 6, "more than 5 records, which is the limit of the client's policy (maxRecords)"),
    (1000, 20, None), (1000, 21, "limit of this server"),
])
def test_records_of_a_file_are_limited(limited, peer, most, count, why):  # noqa: F811
    client = limited.new_client()  # noqa: F811
    policy(limited, client, maxRecords=most)
    batch, found = imported(client, leads(count))
    if why is None:
        assert figures(found) == ("Completed", count, count, 0, 0)
        return
    assert found["status"] == "Failed" and why in found["lastError"]
    assert (peer.came(batch), found["processedRecords"]) == ([], 0), "before anything was sent"


def test_a_run_of_empty_records_counts_as_one(limited, peer):  # noqa: F811
    client = limited.new_client()  # noqa: F811
    batch, found = imported(client, [*leads(18), *[{}] * 1000, *leads(1, start=18)])
    assert figures(found) == ("Completed", 1019, 1019, 0, 1000)
    batch, found = imported(client, [*leads(18), *[{}] * 1000, *leads(2, start=18)])
    assert found["status"] == "Failed" and "more than 20 records" in found["lastError"]


LONG = "x" * 1_000_000
BOMBS = {
    "shared": (workbook(HEAD + "".join(f'<row><c t="str"><v>{PHONE.format(i)}</v></c><c t="s"><v>0</v></c></row>'
                                       for i in range(90)), [LONG]), "leads.xlsx"),
    "header": (f"Telefone;{LONG}\n".encode() + b"".join(b"%d;1\n" % i for i in range(1000)), "leads.csv"),
    "rows": (workbook(HEAD + "<row><c><v>1</v></c></row>" * 600_000), "leads.xlsx"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_file_that_grows_without_end_is_refused(make_sqlite_server, make_peer, bomb):  # noqa: F811
    """Its texts or its names stand once in the file and in each record, or its rows are all the same."""
    from harness import BIN

    peer = make_peer()  # noqa: F811
    server = make_sqlite_server(config=configuration(peer, imports={"max_growth": 20}))  # noqa: F811
    client = server.new_client()  # noqa: F811
    assert len(BOMBS[bomb][0]) < 1_200_000
    batch = taken(upload(client, *BOMBS[bomb]))
    found = wait_end(client, batch, timeout=60)
    assert found["status"] == "Failed" and "(imports.max_growth)" in found["lastError"]
    assert peer.came(batch) == []
    if "asan" not in BIN and "tsan" not in BIN:
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as f:
            assert int(re.search(r"VmHWM:\s+(\d+) kB", f.read())[1]) < 96 * 1024


def test_long_records_of_several_batches_at_a_time(make_sqlite_server, make_peer):  # noqa: F811
    """Records of the greatest length, of characters that grow sixfold in JSON, with several batches and large chunks."""
    from harness import BIN

    if "asan" in BIN or "tsan" in BIN:
        pytest.skip("the sanitizers' own memory counts too")
    peer = make_peer()  # noqa: F811
    server = make_sqlite_server(config=configuration(  # noqa: F811
        peer, {"batch_size": 10000, "max_parallel_chunks": 256, "timeout_ms": 30000},
        imports={"mode": "concurrent", "workers": 4}))
    data = [b"Telefone;Nome\n" + b"".join(b"+55519%08d;" % (n * 1000 + i) + (b"\1" * 170_000 if i % 2 else b"y" * 1_000_000) + b"\n"
                                          for i in range(40)) for n in range(4)]
    clients = [server.new_client() for _ in data]
    batches = [taken(upload(c, d, "leads.csv")) for c, d in zip(clients, data)]
    for caller, batch in zip(clients, batches):
        assert wait_end(caller, batch, timeout=120)["processedRecords"] == 40
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as f:
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", f.read())[1])
    print(f"peak memory {peak / 1024:.1f} MiB")
    assert peak < 256 * 1024


# --- reports that come back --------------------------------------------------------------------------


def test_what_a_report_guards_comes_back_as_it_was(server, peer, client):  # noqa: F811
    """In CSV a formula has an apostrophe before it; sent again it is gone."""
    names = ["=1+1", "+a", "-a", "@a", "\uff1d1", "\uff0bx", "\uff0dx", "\uff20x", "'=1", "'x", "plain"]
    peer.answer = lambda request: (200, {"items": [{"sequence": i["sequence"], "status": "Error", "errorMessage": "no"}
                                                   for i in request.body["items"]]})
    batch, found = imported(client, [{"PhoneNumber": PHONE.format(i), "Name": n} for i, n in enumerate(names)])
    assert found["errorCount"] == len(names)
    report = client.get(f"/imports/{batch}/errors.csv").body
    lines = list(csv.DictReader(io.StringIO(report.decode("utf-8-sig"))))
    assert [r["Name"] for r in lines] == [n if n in ("'x", "plain") else "'" + n for n in names]
    peer.answer = lambda request: 200
    again = taken(upload(client, report, "errors.csv"))
    assert wait_end(client, again)["status"] == "Completed"
    sent = sorted((i for r in peer.came(again) for i in r.body["items"]), key=lambda i: i["sequence"])
    assert [i["LeadContextJson"]["Name"] for i in sent] == names
    assert column(server, again, "CutRules") == 3
    assert all(list(i["LeadContextJson"]) == ["Name"] for i in sent), "the report's own columns are left out"


HEADERS = {
    "portuguese": ["Nome", "Telefone", "Observações", "Endereço (rua)"],
    "english": ["Name", "Phone", "Notes", "Street"],
    "repeated": ["Telefone", "Nome", "Nome", "Telefone"],
    "empty_headers": ["Nome", "", "Telefone", ""],
    "two_like_the_reports": ["Sequence", "ErrorMessage", "Telefone", "Nome"],
}


def table_file(form, header, lines):
    """The file, and its name."""
    if form == "csv":
        out = io.StringIO()
        csv.writer(out).writerows([header, *lines])
        return out.getvalue().encode(), "leads.csv"
    book = openpyxl.Workbook()
    for line in [header, *lines]:
        book.active.append([cell if cell != "" else None for cell in line])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue(), "leads.xlsx"


def read_table(form, body):
    if form == "csv":
        return list(csv.reader(io.StringIO(body.decode("utf-8-sig"), newline="")))
    return [["" if c is None else str(c) for c in row]
            for row in openpyxl.load_workbook(io.BytesIO(body)).active.iter_rows(values_only=True)]


@pytest.mark.parametrize("names", HEADERS)
@pytest.mark.parametrize("uploaded,form", [("csv", "csv"), ("xlsx", "xlsx"), ("csv", "xlsx"), ("xlsx", "csv"), ("csv", "json")])
def test_a_report_is_mended_and_uploaded_again(server, peer, client, names, uploaded, form):  # noqa: F811
    """Report, mended phone, upload: what OmniFlow gets then is what it would have got of a right file."""
    header = HEADERS[names]
    phone = max(i for i, h in enumerate(header) if h in ("Telefone", "Phone"))
    lines = [[f" value {n} of {i}, é" if i != phone and h not in ("Telefone",) else "" for i, h in enumerate(header)]
             for n in range(4)]
    for n, line in enumerate(lines):
        line[phone] = PHONE.format(n) if n % 2 else "12"
    data, name = table_file(uploaded, header, lines)
    batch = taken(upload(client, data, name))
    assert figures(wait_end(client, batch)) == ("CompletedWithErrors", 4, 4, 2, 0)
    report = client.get(f"/imports/{batch}/errors.{form}").body
    if form == "json":
        records = json.loads(report)
        assert [r["DataFlow Sequence"] for r in records] == [0, 2]
        mended = json.dumps([{k: PHONE.format(i) if v == "12" else v for k, v in r.items()}
                             for i, r in enumerate(records)]).encode()
    else:
        rows = read_table(form, report)
        assert rows[0] == [*header, "DataFlow Sequence", "DataFlow Error"]
        assert [r[:-2] for r in rows[1:]] == [lines[0], lines[2]], "values as in the file"
        assert all("PhoneNumber" in r[-1] for r in rows[1:])
        for i, row in enumerate(rows[1:]):
            row[phone] = PHONE.format(i)
        mended, _ = table_file(form, rows[0], rows[1:])
    again = taken(upload(client, mended, f"mended.{form}"))
    assert figures(wait_end(client, again)) == ("Completed", 2, 2, 0, 0)
    for i, n in enumerate((0, 2)):
        lines[n][phone] = PHONE.format(i)
    right = taken(upload(client, *table_file(uploaded, header, [lines[0], lines[2]])))
    assert figures(wait_end(client, right)) == ("Completed", 2, 2, 0, 0)

    def sent(of):
        return [i for r in peer.came(of) for i in r.body["items"]]

    assert sent(again) == sent(right)
    assert column(server, again, "CutRules") == 3 and column(server, right, "CutRules") == 1


def test_nested_json_keeps_its_form_and_comes_back(server, peer, client):  # noqa: F811
    records = [{"Fone": "12", "Ficha": {"código": "AP-1", "cômodos": [1, {"m2": 10.50}]}, "Nada": None, "x": 1e3, "sim": True},
               {"Fone": PHONE.format(1)}]
    raw = json.dumps(records, ensure_ascii=False, indent=1)
    batch = taken(upload(client, raw.encode(), "leads.json"))
    assert figures(wait_end(client, batch)) == ("CompletedWithErrors", 2, 2, 1, 0)
    answer = client.get(f"/imports/{batch}/errors.json")
    [found] = answer.json
    assert {k: v for k, v in found.items() if not k.startswith("DataFlow ")} == records[0]
    assert b"10.5" in answer.body and list(found)[:5] == list(records[0])
    found["Fone"] = PHONE.format(0)
    again = taken(upload(client, json.dumps([found]).encode(), "mended.json"))
    assert figures(wait_end(client, again)) == ("Completed", 1, 1, 0, 0)
    [sent] = [i for r in peer.came(again) for i in r.body["items"]]
    assert sent["LeadContextJson"] == {"Ficha": records[0]["Ficha"], "Nada": None, "x": 1000.0, "sim": True}


def test_an_item_that_succeeds_later_keeps_no_record(server, peer, client):  # noqa: F811
    peer.answer = lambda request: 422
    batch, found = imported(client, [{"PhoneNumber": PHONE.format(1), "Name": "Ana"}])
    assert found["status"] == "CompletedWithErrors"

    def kept():
        return server.backend.query(f"SELECT COUNT(*) FROM ImportKept WHERE BatchId = '{batch}'")[0][0]

    [record] = client.get(f"/imports/{batch}/errors.json").json
    assert (record["PhoneNumber"], record["Name"], kept()) == (PHONE.format(1), "Ana", 1)
    peer.answer = lambda request: 200
    assert client.post(f"/imports/{batch}/retry").status == 202
    assert wait_end(client, batch)["status"] == "Completed" and kept() == 0
