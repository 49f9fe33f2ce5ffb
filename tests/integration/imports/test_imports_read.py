"""Looking at imports: batches, items, error reports and events. The rows are written here, as the workers would."""

import contextlib
import csv
import io
import json
import select
import threading
import time
import uuid

import openpyxl
import pytest
from harness import TIMEOUT, wait_for
from test_openapi import DOCUMENT, check

BATCH = ["batchId", "status", "fileName", "createdAt", "startedAt", "completedAt", "totalRecords", "processedRecords",
         "lastError", "webhookNotified", "fileType", "fileSizeBytes", "checksum", "policyDecision", "scheduledFor",
         "originDefault", "requestedBy", "metadata", "errorCount", "skippedCount", "importedCount", "errorSummary",
         "attempt", "correlationId", "gaveWayAt", "metadataCorrelationId", "refusedRule", "refusalCount", "waitingFor",
         "waitingSince", "waiting", "rowsPerSecond", "remainingSeconds", "canRetry", "canMend", "canCancel"]
OWN = ["DataFlow Sequence", "DataFlow Error"]
STATUSES = ["Pending", "Processing", "Scheduled", "Completed", "CompletedWithErrors", "Failed", "Cancelled"]
PENDING, PROCESSING, SCHEDULED, COMPLETED, WITH_ERRORS, FAILED, CANCELLED = range(7)
IMPORTED, ERROR, SKIPPED = range(3)
FORMATS = ("xlsx", "csv", "json")


def at(second):
    return f"2026-01-02T03:{second // 60:02}:{second % 60:02}.678Z"


class Rows:
    """Batches and items, written directly."""

    def __init__(self, backend):
        self.backend = backend

    def literal(self, value):
        if value is None or isinstance(value, int):
            return "NULL" if value is None else str(int(value))
        if isinstance(value, bytes):
            shapes = {"sqlite": "X'{}'", "postgres": "decode('{}', 'hex')", "sqlserver": "0x{}"}
            return shapes[self.backend.name].format(value.hex())
        if self.backend.name == "sqlserver":
            is_time = value.startswith("2026-") and value.endswith("Z")
            return "N'" + (value[:-1] if is_time else value).replace("'", "''") + "'"
        return "'" + value.replace("'", "''") + "'"

    def write(self, sql):
        (self.backend.script if self.backend.name == "sqlite" else self.backend.query)(sql)

    def insert(self, table, rows):
        columns = list(rows[0])
        for start in range(0, len(rows), 500):
            values = ", ".join("(" + ", ".join(self.literal(row[c]) for c in columns) + ")"
                               for row in rows[start:start + 500])
            self.write(f"INSERT INTO {table} ({', '.join(columns)}) VALUES {values}")

    def client_key(self, caller):
        return str(self.backend.query(f"SELECT Id FROM Clients WHERE ClientIdentifier = '{caller.id}'")[0][0]).lower()

    def batch(self, caller, status=COMPLETED, created=at(1), **more):
        batch_id = str(uuid.uuid4())
        self.insert("ImportBatch", [{"Id": batch_id, "ClientId": self.client_key(caller), "Status": status,
                                     "FileName": "leads.xlsx", "FileType": 1, "FileSizeBytes": 10, "CreatedAt": created,
                                     **more}])
        return batch_id

    def items(self, batch_id, items):
        """(status, error, payload) in the order of their sequence."""
        self.insert("ImportItem", [
            {"BatchId": batch_id, "Sequence": i, "Status": status, "ErrorMessage": error,
             "PayloadJson": json.dumps(payload, ensure_ascii=False) if isinstance(payload, dict) else payload,
             "ChunkId": 1 + i // 100, "CreatedAt": at(9)}
            for i, (status, error, payload) in enumerate(items)])

    def change(self, batch_id, **columns):
        sets = ", ".join(f"{name} = {self.literal(value)}" for name, value in columns.items())
        self.write(f"UPDATE ImportBatch SET {sets} WHERE Id = '{batch_id}'")


def item(sequence, phone="+5511912345678", lead=None, context=None, origin="Site"):
    return {"sequence": sequence, "PhoneNumber": phone, "Origin": origin, "PropertyContextJson": context,
            "LeadContextJson": lead}


@pytest.fixture(scope="module")
def rows(server):
    return Rows(server.backend)


@pytest.fixture
def caller(server):
    return server.new_client(scopes=["imports"])


def said(answer, path, status="200"):
    """The answer, which is as the OpenAPI document says."""
    assert answer.status == int(status), answer
    content = DOCUMENT["paths"][path]["get"]["responses"][status]["content"]["application/json"]
    check(answer.json, content["schema"], path)
    return answer.json


# --- who may ---

PATHS = ["/imports", *(f"/imports/{{batchId}}{rest}" for rest in
                       ("", "/items", "/errors.xlsx", "/errors.csv", "/errors.json", "/events"))]


@pytest.mark.parametrize("path", PATHS)
def test_only_clients_with_the_scope(server, rows, caller, path):
    path = path.format(batchId=rows.batch(caller))
    assert server.anonymous().get(path).status == 401
    assert server.admin().get(path).status == 401
    answer = server.new_client(scopes=["acks", "interface"]).get(path)
    assert answer.status == 403 and answer.code == "ScopeMissing"


@pytest.mark.parametrize("path", PATHS[1:])
def test_of_others_malformed_and_unknown_are_404(server, rows, caller, path):
    other = rows.batch(server.new_client(scopes=["imports"]))
    for batch_id in (other, str(uuid.uuid4()), "1", "x" * 36, "%27", other[:-1], other + "0"):
        answer = caller.get(path.format(batchId=batch_id))
        assert answer.status == 404 and answer.code == "NotFound"


# --- batches ---


def test_a_batch_has_the_fields_of_the_source_and_more(rows, caller):
    batch_id = rows.batch(
        caller, WITH_ERRORS, at(1), StartedAt=at(2), CompletedAt=at(3), TotalRecords=10, ProcessedRecords=10,
        LastError="HTTP 500", FileName="leads é.xlsx", Checksum="ab" * 32, PolicyDecision="Immediate",
        OriginDefault="Site", RequestedBy="ana@example.com", MetadataJson='{"a":[1,{"b":null}]}', ErrorCount=2,
        SkippedCount=1, ErrorSummary='{"PhoneNumber: there is none":2}',
        CorrelationId="c-1", UploadPath="/secret/path", ProcessingHost="host-7", Attempt=2, FileSizeBytes=2**33)
    answer = caller.get(f"/imports/{batch_id}")
    batch = said(answer, "/imports/{batchId}")
    assert list(batch) == BATCH
    assert batch == {
        "batchId": batch_id, "status": "CompletedWithErrors", "fileName": "leads é.xlsx", "createdAt": at(1),
        "startedAt": at(2), "completedAt": at(3), "totalRecords": 10, "processedRecords": 10, "lastError": "HTTP 500",
        "webhookNotified": False, "fileType": "Excel", "fileSizeBytes": 2**33, "checksum": "ab" * 32,
        "policyDecision": "Immediate", "scheduledFor": None,
        "originDefault": "Site", "requestedBy": "ana@example.com", "metadata": {"a": [1, {"b": None}]}, "errorCount": 2,
        "skippedCount": 1, "importedCount": 7, "errorSummary": {"PhoneNumber: there is none": 2}, "attempt": 2,
        "correlationId": "c-1", "gaveWayAt": None, "metadataCorrelationId": None, "refusedRule": None,
        "refusalCount": None, "waitingFor": None, "waitingSince": None, "waiting": None, "rowsPerSecond": None,
        "remainingSeconds": None, "canRetry": True, "canMend": True, "canCancel": False}
    assert b"secret" not in answer.body and b"host-7" not in answer.body
    assert caller.get(f"/v1/imports/{batch_id.upper()}").json == batch


def test_a_batch_that_waits(rows, caller):
    batch = caller.get(f"/imports/{rows.batch(caller, SCHEDULED, ScheduledFor=at(59), FileType=2)}").json
    assert (batch["status"], batch["scheduledFor"], batch["fileType"]) == ("Scheduled", at(59), "Csv")
    assert batch["startedAt"] is batch["totalRecords"] is batch["metadata"] is batch["errorSummary"] is None
    assert batch["attempt"] == 1 and batch["importedCount"] == 0


def test_text_where_json_should_be_does_not_break_the_answer(rows, caller):
    batch = rows.batch(caller, MetadataJson='{"a":', ErrorSummary="not json")
    assert caller.get(f"/imports/{batch}").json["metadata"] is None
    assert caller.get(f"/imports/{batch}").json["errorSummary"] is None


def test_the_list_has_own_batches_newest_first_by_pages(server, rows, caller):
    rows.batch(server.new_client(scopes=["imports"]))
    ids = [rows.batch(caller, i % 7, at(i)) for i in range(25)]
    page = said(caller.get("/imports"), "/imports")
    assert [b["batchId"] for b in page["items"]] == ids[:4:-1]
    assert (page["page"], page["pageSize"], page["total"]) == (1, 20, 25)
    assert all(list(b) == BATCH for b in page["items"])
    page = caller.get("/imports?page=2").json
    assert [b["batchId"] for b in page["items"]] == ids[4::-1]
    assert caller.get("/imports?page=9").json["items"] == []
    for number, name in enumerate(STATUSES):
        page = caller.get(f"/imports?status={name.lower()}&pageSize=200").json
        assert page["total"] == len(page["items"]) == len(range(number, 25, 7))
        assert {b["status"] for b in page["items"]} == {name}


def test_nothing_yet(caller):
    assert caller.get("/imports").json == {"items": [], "page": 1, "pageSize": 20, "total": 0, "maintenance": None}


@pytest.mark.parametrize("query,field", [("status=Done", "status"), ("page=0", "page"), ("pageSize=201", "pageSize"),
                                         ("page=x", "page")])
@pytest.mark.parametrize("path", ["/imports", "/imports/{}/items"])
def test_a_bad_query_is_told(rows, caller, path, query, field):
    answer = caller.get(path.format(rows.batch(caller)) + "?" + query)
    assert answer.status == 400 and answer.bad_fields == {field}


# --- items ---


@pytest.fixture(scope="module")
def mixed(server, rows):
    """A caller and a batch of 250: every tenth in error, every tenth after it skipped."""
    caller = server.new_client(scopes=["imports"])
    batch_id = rows.batch(caller, WITH_ERRORS, TotalRecords=250, ProcessedRecords=250, ErrorCount=25, SkippedCount=25)
    status = {3: ERROR, 4: SKIPPED}
    rows.items(batch_id, [(status.get(i % 10, IMPORTED), f"reason {i}" if i % 10 == 3 else None,
                           item(i, lead={"Name": f"n{i}"})) for i in range(250)])
    return caller, batch_id


def test_items_in_order_with_their_payload(mixed):
    caller, batch_id = mixed
    page = said(caller.get(f"/imports/{batch_id}/items"), "/imports/{batchId}/items")
    assert [i["sequence"] for i in page["items"]] == list(range(20)) and page["total"] == 250
    assert page["items"][3] == {"sequence": 3, "row": None, "status": "Error", "reason": None, "field": None, "column": None, "errorMessage": "reason 3",
                                "payload": item(3, lead={"Name": "n3"}), "values": None, "chunkId": 1, "createdAt": at(9),
                                "recordCount": 1}
    assert list(page["items"][0]) == ["sequence", "row", "status", "reason", "field", "column", "errorMessage", "payload",
                                      "values", "chunkId", "createdAt", "recordCount"]
    last = caller.get(f"/imports/{batch_id}/items?page=3&pageSize=100").json
    assert [i["sequence"] for i in last["items"]] == list(range(200, 250))


@pytest.mark.parametrize("name,expected", [
    ("Error", [i for i in range(250) if i % 10 == 3]), ("skipped", [i for i in range(250) if i % 10 == 4]),
    ("Imported", [i for i in range(250) if i % 10 not in (3, 4)])])
def test_items_of_one_status_by_pages(mixed, name, expected):
    caller, batch_id = mixed
    seen = []
    for page in range(1, 30):
        answer = caller.get(f"/imports/{batch_id}/items?status={name}&pageSize=7&page={page}").json
        assert answer["total"] == len(expected)
        seen += [i["sequence"] for i in answer["items"]]
        assert {i["status"] for i in answer["items"]} <= {name.capitalize()}
    assert seen == expected
    beyond = caller.get(f"/imports/{batch_id}/items?status={name}&page=1000000000&pageSize=200")
    assert beyond.status == 200 and beyond.json["items"] == [] and beyond.json["total"] == len(expected)


def test_items_of_a_batch_in_work_have_gaps(rows, caller):
    """Chunks settle in any order, and counters may lag: pages are right all the same."""
    batch_id = rows.batch(caller, PROCESSING, ProcessedRecords=20, TotalRecords=60)
    rows.items(batch_id, [(IMPORTED, None, item(i)) for i in range(60)])
    rows.write(f"DELETE FROM ImportItem WHERE BatchId = '{batch_id}' AND Sequence < 40")
    for query in ("", "&status=Imported"):
        page = caller.get(f"/imports/{batch_id}/items?pageSize=15&page=2{query}").json
        assert [i["sequence"] for i in page["items"]] == list(range(55, 60)) and page["total"] == 20


def test_items_without_a_payload(rows, caller):
    batch_id = rows.batch(caller, ProcessedRecords=4, ErrorCount=4)
    long = item(2, lead={"Notes": "x" * 40000})
    rows.items(batch_id, [(ERROR, "too large", None), (ERROR, "masked", {"PhoneNumber": "***"}), (ERROR, "long", long),
                          (ERROR, "odd", "{")])
    masked = "'1'" if rows.backend.name == "postgres" else "1"
    rows.write(f"UPDATE ImportItem SET IsMasked = {masked} WHERE BatchId = '{batch_id}' AND Sequence = 1")
    answer = caller.get(f"/imports/{batch_id}/items")
    assert [i["payload"] for i in answer.json["items"]] == [None, {"PhoneNumber": "***"}, None, None]
    report = caller.get(f"/imports/{batch_id}/errors.json")
    assert [{k: v for k, v in i.items() if k not in OWN} for i in report.json] == [
        {}, {"PhoneNumber": "***"}, {k: v for k, v in long.items() if k != "sequence"}, {}]
    assert [(i[OWN[0]], i[OWN[1]]) for i in report.json] == [(0, "too large"), (1, "masked"), (2, "long"), (3, "odd")]


def test_no_items(rows, caller):
    batch_id = rows.batch(caller, PENDING)
    for query in ("", "?status=Error", "?status=Imported"):
        page = caller.get(f"/imports/{batch_id}/items{query}").json
        assert page == {"items": [], "page": 1, "pageSize": 20, "total": 0, "next": None}


# --- error reports ---


def read_xlsx(body):
    book = openpyxl.load_workbook(io.BytesIO(body), read_only=False)
    return [[cell for cell in row] for row in book["Errors"].iter_rows(values_only=True)]


def read_csv(body):
    assert body.startswith(b"\xef\xbb\xbf") and body.endswith(b"\r\n")
    return list(csv.reader(io.StringIO(body.decode("utf-8-sig"), newline="")))


def report(caller, batch_id, form):
    answer = caller.get(f"/imports/{batch_id}/errors.{form}")
    assert answer.status == 200, answer
    assert int(answer.headers["Content-Length"]) == len(answer.body)
    return answer


def test_a_report_has_the_failed_rows_as_uploaded_with_the_reason(rows, caller):
    """The headers and their order are the file's: repeated and empty ones, and one that no failed row has."""
    batch_id = rows.batch(caller, WITH_ERRORS, FileName="Feira são paulo.2026.xlsx", ColumnsJson=json.dumps(
        [["Nome", "Nome"], ["Fone", "Fone"], ["Fone (2)", "Fone"], ["Column D", ""], ["Obs", "Obs"], ["Tags", "Tags"]]))
    failed = [
        ("PhoneNumber: there is none", {"Nome": " João ", "Column D": "x"}),
        (None, {"Nome": 'a "b", c\nd', "Fone": "123", "Fone (2)": 456, "Tags": ["a", {"b": 1}]}),
        ("HTTP 400", {"Fone": "+5511912345678", "Tags": True}),
        ("short", {"Fone": "1"}),
        ("gone", None),
    ]
    rows.items(batch_id, [*((ERROR, reason, item(i)) for i, (reason, _) in enumerate(failed)), (IMPORTED, None, item(5)),
                          (SKIPPED, "x", item(6))])
    for i, (_, original) in enumerate(failed):
        text = rows.literal(json.dumps(original, ensure_ascii=False) if original else None)
        rows.write(f"UPDATE ImportItem SET OriginalJson = {text} WHERE BatchId = '{batch_id}' AND Sequence = {i}")
    rows.write(f"UPDATE ImportItem SET PayloadJson = NULL WHERE BatchId = '{batch_id}' AND Sequence = 4")
    head = ["Nome", "Fone", "Fone", "", "Obs", "Tags", *OWN]
    table = [
        [" João ", "", "", "x", "", "", "0", "PhoneNumber: there is none"],
        ['a "b", c\nd', "123", "456", "", "", '["a", {"b": 1}]', "1", ""],
        ["", "+5511912345678", "", "", "", "true", "2", "HTTP 400"],
        ["", "1", "", "", "", "", "3", "short"],
        ["", "", "", "", "", "", "4", "gone"],
    ]
    answer = report(caller, batch_id, "csv")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="Feira_s_o_paulo.2026-errors.csv"'
    assert read_csv(answer.body) == [head, *table]
    answer = report(caller, batch_id, "xlsx")
    assert answer.headers["Content-Type"] == "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    assert answer.headers["Content-Disposition"].endswith('-errors.xlsx"')
    sheet = read_xlsx(answer.body)
    assert [["" if cell is None else str(cell) for cell in row] for row in sheet] == [head, *table]
    assert all(isinstance(row[6], int) and all(c is None or isinstance(c, str) for c in row[:6]) for row in sheet[1:])
    answer = report(caller, batch_id, "json")
    assert said(answer, "/imports/{batchId}/errors.json") == [
        {**(original or {}), OWN[0]: i, OWN[1]: reason} for i, (reason, original) in enumerate(failed)]


def test_a_report_of_a_batch_of_an_earlier_release_has_the_items(rows, caller):
    """Their records were not kept. An upload takes the members for what they came from."""
    batch_id = rows.batch(caller, WITH_ERRORS)
    rows.items(batch_id, [(ERROR, "no", item(0, "123", {"Name": "João", "Tags": [1]}, {"code": "AP-1"})),
                          (ERROR, None, item(1, None, None))])
    assert read_csv(report(caller, batch_id, "csv").body) == [
        ["PhoneNumber", "Origin", "PropertyContextJson", "LeadContextJson", *OWN],
        ["123", "Site", '{"code": "AP-1"}', '{"Name": "João", "Tags": [1]}', "0", "no"], ["", "Site", "", "", "1", ""]]
    assert report(caller, batch_id, "json").json[0] == {
        "PhoneNumber": "123", "Origin": "Site", "PropertyContextJson": {"code": "AP-1"},
        "LeadContextJson": {"Name": "João", "Tags": [1]}, OWN[0]: 0, OWN[1]: "no"}


def test_a_report_without_errors_is_an_empty_table(rows, caller):
    batch_id = rows.batch(caller)
    assert read_csv(report(caller, batch_id, "csv").body) == [OWN]
    assert read_xlsx(report(caller, batch_id, "xlsx").body) == [OWN]
    assert report(caller, batch_id, "json").json == []


DANGEROUS = ["=1+1", "+cmd|'/c calc'!A0", "-2+3+cmd|x", "@SUM(1)", "\t=1", "\r=1", "=HYPERLINK(\"http://x\")", "+55a",
             "\uff1d1+1", "\uff0bcmd|x", "\uff0d2+3+cmd|x", "\uff20SUM(1)", "\n=1", "'=1", "''\uff1d1"]
HARMLESS = ["+5511912345678", "+55 (11) 91234-5678", "-12.50", "a=1", "1", "-", "'", "'1", "\uff0b5511912345678", "\uff1e",
            "\uff10", "d'=1"]


def originals(rows, batch_id, records, error="no"):
    """Items in error with these records."""
    errors = [error] * len(records) if isinstance(error, str) or error is None else error
    rows.insert("ImportItem", [{"BatchId": batch_id, "Sequence": i, "PayloadJson": "{}", "Status": ERROR, "ErrorMessage": e,
                                "OriginalJson": r if isinstance(r, str) else json.dumps(r, ensure_ascii=False)}
                               for i, (r, e) in enumerate(zip(records, errors, strict=True))])


def test_what_looks_like_a_formula_is_text(rows, caller):
    batch_id = rows.batch(caller)
    texts = DANGEROUS + HARMLESS
    originals(rows, batch_id, [{"x": text} for text in texts], texts)
    for row, text in zip(read_csv(report(caller, batch_id, "csv").body)[1:], texts, strict=True):
        assert row[0] == row[2] == ("'" if text in DANGEROUS else "") + text
    book = openpyxl.load_workbook(io.BytesIO(report(caller, batch_id, "xlsx").body))
    cells = [row[0] for row in book["Errors"].iter_rows(min_row=2)]
    assert [cell.data_type for cell in cells] == ["s"] * len(cells)
    # A carriage return is written as _x000D_, which Excel reads back.
    assert [cell.value.replace("_x000D_", "\r") for cell in cells] == texts
    assert [r["x"] for r in report(caller, batch_id, "json").json] == texts


def test_what_xml_cannot_carry_and_what_excel_does_not_take(rows, caller):
    batch_id = rows.batch(caller)
    texts = ["a\x01b\x1fc", "_x0041_", "\ufffe\uffffend", "x" * 40000, "é" * 32768, "🙂" * 20000, "<&>\"'", "  both  "]
    originals(rows, batch_id, [{"t": text} for text in texts], None)
    assert [row[0] for row in read_csv(report(caller, batch_id, "csv").body)[1:]] == texts
    read = [row[0] for row in read_xlsx(report(caller, batch_id, "xlsx").body)[1:]]
    assert read[0] == "a_x0001_b_x001F_c"
    assert read[2] == "end"
    assert read[3] == "x" * 32766 + "…" and read[4] == "é" * 32766 + "…" and read[5] == "🙂" * 16383 + "…"
    assert read[6:] == texts[6:]


def test_members_beyond_the_columns_stay_in_one(rows, caller):
    batch_id = rows.batch(caller)
    wide = {f"m{i}": i for i in range(4100)}
    originals(rows, batch_id, [wide, "[1]", "{broken"])
    table = read_csv(report(caller, batch_id, "csv").body)
    assert len(table[0]) == 4096 + 3 and table[0][0] == "m0" and table[0][-3:] == ["LeadContextJson", *OWN]
    assert json.loads(table[1][-3]) == {name: value for name, value in wide.items() if name not in table[0]}
    assert [row[-3] for row in table[2:]] == ["[1]", "{broken"]
    assert len(read_xlsx(report(caller, batch_id, "xlsx").body)[0]) == 4099
    assert [list(r) for r in report(caller, batch_id, "json").json[1:]] == [OWN, OWN], "no JSON but what is valid"


def test_a_long_report_comes_whole_and_in_order(rows, caller):
    batch_id = rows.batch(caller)
    rows.items(batch_id, [(ERROR if i % 3 else IMPORTED, f"e{i}",
                           item(i, str(i), {"pad": "y" * (9 if i % 50 else 60000)})) for i in range(3700)])
    expected = [i for i in range(3700) if i % 3]
    assert [int(row[-2]) for row in read_csv(report(caller, batch_id, "csv").body)[1:]] == expected
    assert [row[-2] for row in read_xlsx(report(caller, batch_id, "xlsx").body)[1:]] == expected
    entries = report(caller, batch_id, "json").json
    assert [e[OWN[0]] for e in entries] == expected
    assert all(len(e["LeadContextJson"]["pad"]) == (9 if e[OWN[0]] % 50 else 60000) for e in entries)


@pytest.mark.parametrize("form", FORMATS)
def test_head_of_a_report(rows, caller, form):
    batch_id = rows.batch(caller)
    rows.items(batch_id, [(ERROR, "no", item(0))])
    head = caller.request("HEAD", f"/imports/{batch_id}/errors.{form}")
    assert head.status == 200 and head.body == b"" and int(head.headers["Content-Length"]) > 0


def test_one_client_may_not_have_all_the_reports(server, rows, caller):
    batch_id = rows.batch(caller)
    rows.items(batch_id, [(ERROR, "no", item(i, lead={f"m{j}": "z" * 50 for j in range(40)})) for i in range(1500)])
    answers = []
    path = f"/imports/{batch_id}/errors.xlsx"
    threads = [threading.Thread(target=lambda: answers.append(caller.get(path))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {a.status for a in answers} <= {200, 429} and any(a.status == 200 for a in answers)
    assert all(a.code == "TooManyRequests" for a in answers if a.status == 429)
    assert caller.get(f"/imports/{batch_id}/errors.csv").status == 200


def test_a_report_leaves_no_file_behind(server, rows, caller):
    batch_id = rows.batch(caller)
    rows.items(batch_id, [(ERROR, "no", item(0))])
    before = sorted(p.name for p in (server.directory / "data").rglob("*") if "db" not in p.name)
    for form in FORMATS:
        report(caller, batch_id, form)
    assert sorted(p.name for p in (server.directory / "data").rglob("*") if "db" not in p.name) == before


# --- events ---


class Stream:
    """An event stream, read as it comes."""

    def __init__(self, caller, batch_id):
        self.connection = caller.connect()
        self.connection.request("GET", f"/imports/{batch_id}/events", headers=caller.headers)
        self.response = self.connection.getresponse()

    def __enter__(self):
        assert self.response.status == 200
        assert self.response.headers["Content-Type"] == "text/event-stream"
        return self

    def __exit__(self, *_):
        self.connection.close()

    def next(self):
        """(event, data), or None at the end."""
        event, data = None, []
        while True:
            line = self.response.readline()
            if not line:
                return None
            line = line.decode().rstrip("\n")
            if line.startswith("event: "):
                event = line[7:]
            elif line.startswith("data: "):
                data.append(line[6:])
            elif line == "" and event:
                return event, json.loads("\n".join(data))

    def rest(self):
        return list(iter(self.next, None))


def test_events_tell_every_change_and_the_end(rows, caller):
    batch_id = rows.batch(caller, PROCESSING, TotalRecords=100)
    with Stream(caller, batch_id) as stream:
        event, batch = stream.next()
        assert event == "progress" and list(batch) == BATCH and batch == caller.get(f"/imports/{batch_id}").json
        for done in (10, 55):
            rows.change(batch_id, ProcessedRecords=done, ErrorCount=done // 10)
            event, batch = stream.next()
            assert (event, batch["processedRecords"], batch["errorCount"]) == ("progress", done, done // 10)
        rows.change(batch_id, ProcessedRecords=100, Status=WITH_ERRORS, CompletedAt=at(30))
        event, batch = stream.next()
        assert event == "completed" and batch == caller.get(f"/imports/{batch_id}").json
        assert stream.next() is None


@pytest.mark.parametrize("status", [COMPLETED, WITH_ERRORS, FAILED, CANCELLED])
def test_events_of_a_batch_that_is_over_end_at_once(rows, caller, status):
    with Stream(caller, rows.batch(caller, status)) as stream:
        name = STATUSES[status]
        assert [(event, batch["status"]) for event, batch in stream.rest()] == [("progress", name), ("completed", name)]


def test_nothing_new_says_nothing(rows, caller):
    batch_id = rows.batch(caller, SCHEDULED, ScheduledFor=at(59))
    with Stream(caller, batch_id) as stream:
        stream.next()
        time.sleep(1.5)
        rows.change(batch_id, Status=CANCELLED)
        assert [event for event, _ in stream.rest()] == ["completed"]


def test_events_of_a_batch_that_is_removed_end(rows, caller):
    batch_id = rows.batch(caller, SCHEDULED)
    with Stream(caller, batch_id) as stream:
        stream.next()
        rows.write(f"DELETE FROM ImportBatch WHERE Id = '{batch_id}'")
        assert stream.rest() == []


@pytest.mark.parametrize("change", [
    lambda admin, client: admin.patch(f"/admin/clients/{client.id}", {"status": "Suspended"}),
    lambda admin, client: admin.post(f"/admin/clients/{client.id}/rotate-secret"),
], ids=["suspended", "rotated"])
def test_a_stream_ends_when_its_client_may_not_see_it_any_more(server, rows, change):
    caller, other = (server.new_client(scopes=["imports"]) for _ in range(2))
    batch_id, others = rows.batch(caller, PENDING), rows.batch(other, PENDING)
    with Stream(caller, batch_id) as stream, Stream(other, others) as stays:
        stream.next(), stays.next()
        assert change(server.admin(), caller).status == 200
        assert stream.rest() == []
        rows.change(batch_id, ProcessedRecords=1)
        rows.change(others, ProcessedRecords=1)
        assert stays.next()[1]["processedRecords"] == 1
    assert caller.get(f"/imports/{batch_id}/events").status in (401, 403)


@contextlib.contextmanager
def held_batches(backend):
    """Nobody reads a batch meanwhile."""
    if backend.name != "postgres":
        pytest.skip("only there can readers be kept waiting")
    import psycopg2

    with contextlib.closing(psycopg2.connect(backend.url)) as connection:
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE ImportBatch IN ACCESS EXCLUSIVE MODE")
            yield
        connection.rollback()


def test_places_that_are_promised_count(server, rows, caller):
    """Many requests at once, all of them before the first has its stream."""
    batch_id = rows.batch(caller, PENDING)
    assert caller.get(f"/imports/{batch_id}").status == 200
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(contextlib.closing(caller.connect())) for _ in range(120)]
        with held_batches(server.backend):
            for connection in connections:
                connection.request("GET", f"/imports/{batch_id}/events", headers=caller.headers)
            answered = [c.sock for c in connections]
            wait_for(lambda: len(select.select(answered, [], [], 0)[0]) == 20, "those over the limit to be told")
        statuses = [c.getresponse().status for c in connections]
    assert sorted(statuses) == [200] * 100 + [429] * 20


def test_many_streams_of_many_batches(rows, server):
    callers = [server.new_client(scopes=["imports"]) for _ in range(2)]
    batches = [(c, rows.batch(c, PROCESSING, TotalRecords=9)) for c in callers for _ in range(40)]
    with contextlib.ExitStack() as stack:
        streams = [(stack.enter_context(Stream(c, b)), b) for c, b in batches for _ in range(2)]
        for stream, batch_id in streams:
            assert stream.next()[1]["batchId"] == batch_id
        for i, (_, batch_id) in enumerate(batches):
            rows.change(batch_id, ProcessedRecords=i, Status=COMPLETED)
        for i, (stream, batch_id) in enumerate(streams):
            event, batch = stream.rest()[-1]
            assert (event, batch["batchId"], batch["processedRecords"]) == ("completed", batch_id, i // 2)


def test_one_client_may_not_have_all_the_streams(rows, caller, server):
    batch_id = rows.batch(caller, PENDING)
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(Stream(caller, batch_id)).next()
        answer = caller.get(f"/imports/{batch_id}/events")
        assert answer.status == 429 and answer.code == "TooManyRequests"
        other = server.new_client(scopes=["imports"])
        stack.enter_context(Stream(other, rows.batch(other, PENDING))).next()
    # A reader that left is noticed when something is said.
    rows.change(batch_id, ProcessedRecords=1)
    time.sleep(1)
    rows.change(batch_id, ProcessedRecords=2)

    def opened():
        with contextlib.closing(caller.connect()) as connection:
            connection.request("GET", f"/imports/{batch_id}/events", headers=caller.headers)
            return connection.getresponse().status == 200
    wait_for(opened, "the places to be free", timeout=TIMEOUT, every=0.2)


def test_a_stop_ends_the_streams_at_once(make_server):
    server = make_server(config={"server": {"drain_seconds": 30}})
    rows, caller = Rows(server.backend), server.new_client(scopes=["imports"])
    batch_id = rows.batch(caller, PENDING)
    with Stream(caller, batch_id) as stream:
        stream.next()
        begun = time.monotonic()
        assert server.stop() == 0
        assert stream.rest() == [] and time.monotonic() - begun < 15
