"""POST /imports, cancel and retry: what is taken, what is refused and when, and what is on disk and in the database then."""

import base64
import concurrent.futures
import hashlib
import io
import json
import re
import socket
import subprocess
import urllib.request
import uuid
import zipfile
from datetime import datetime, timedelta, timezone

import openpyxl
import pytest
from harness import ROOT, TIMEOUT, read_responses, run, wait_for
from test_openapi import DOCUMENT, check

LEADS = json.dumps([{"phoneNumber": "+5551999990000", "name": "Ana"}]).encode()
CSV = b"telefone;nome\n51999990000;Ana\n"
MB = 1 << 20
XLSX_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def workbook():
    book = openpyxl.Workbook()
    for row in (["telefone", "nome"], ["51999990000", "Ana"]):
        book.active.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def archive():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("a.txt", "hello")
    return out.getvalue()


XLSX = workbook()
BOUNDARY = "-----boundary-of-the-tests"


def multipart(data=LEADS, name="leads.json", content_type=None, field="file", **fields):
    """Fields first, then the file; (body, Content-Type)."""
    out = b""
    for key, value in fields.items():
        value = value if isinstance(value, bytes) else str(value).encode()
        out += f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n'.encode() + value + b"\r\n"
    if data is not None:
        out += f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"'.encode()
        out += b"" if name is None else b'; filename="' + name.encode() + b'"'
        out += b"" if content_type is None else b"\r\nContent-Type: " + content_type.encode()
        out += b"\r\n\r\n" + data + b"\r\n"
    return out + f"--{BOUNDARY}--\r\n".encode(), f"multipart/form-data; boundary={BOUNDARY}"


def upload(client, data=LEADS, name="leads.json", content_type=None, headers=None, **fields):
    body, kind = multipart(data, name, content_type, **fields)
    return client.request("POST", "/imports", body, {"Content-Type": kind, **(headers or {})})


def upload_json(client, data=LEADS, headers=None, **fields):
    return client.post("/imports", {"file": base64.b64encode(data).decode(), **fields}, headers=headers)


def taken(answer, status="Pending"):
    assert answer.status == 202, answer
    check(answer.json, DOCUMENT["components"]["schemas"]["ImportAccepted"], "202")
    assert answer.json["status"] == status
    assert answer.headers["Location"] == "/imports/" + answer.json["batchId"]
    return answer.json["batchId"]


def policy(server, client, **values):
    assert server.admin().request("PUT", f"/admin/clients/{client.id}/policy", json=values).status == 200


def row(server, batch, *columns):
    found = server.backend.query(f"SELECT {', '.join(columns)} FROM ImportBatch WHERE Id = '{batch}'")
    assert len(found) == 1
    return found[0]


def count(server, client, where="1 = 1"):
    return server.backend.query(f"SELECT COUNT(*) FROM ImportBatch WHERE {where} AND ClientId IN"
                                f" (SELECT Id FROM Clients WHERE ClientIdentifier = '{client.id}')")[0][0]


def execute(server, sql):
    # Of SQLite only a script is committed.
    (server.backend.script if server.backend.name == "sqlite" else server.backend.query)(sql)


def directories(server):
    return {p.name for p in (server.directory / "data" / "imports").iterdir()}


def files(server, batch):
    return sorted((server.directory / "data" / "imports" / batch / "original").iterdir())


def plain_size(path):
    """Of a stored file, which is encrypted: a header, and 41 bytes more for each 64 KiB."""
    stored = path.read_bytes()
    assert stored.startswith(b"DFE1")
    return len(stored) - 32 - 41 * -(-(len(stored) - 32) // (65536 + 41))


def schedule_all(server, client):
    """Every file of the client waits, for more than an hour."""
    hour = datetime.now(timezone.utc).hour
    policy(server, client, allowedStartHour=(hour + 2) % 24, allowedEndHour=(hour + 4) % 24)


def log_of(server, batch, event):
    return [line for line in server.log(event) if line.get("batchId") == batch]


@pytest.fixture
def client(server):
    return server.new_client()


# --- what is taken -----------------------------------------------------------------------------------


@pytest.mark.parametrize("data,name,kind,number", [
    (LEADS, "leads.json", "application/json", 0), (LEADS, "leads.json", None, 0),
    (b'{"phoneNumber":"1"}\n{"phoneNumber":"2"}\n', "leads.jsonl", "application/x-ndjson", 0),
    (XLSX, "leads.xlsx", XLSX_TYPE, 1), (XLSX, "leads.xlsx", "application/octet-stream", 1),
    (XLSX, "leads.bin", "application/zip", 1), (CSV, "leads.csv", "text/csv; charset=utf-8", 2),
    (CSV, "leads.csv", "application/vnd.ms-excel", 2), (CSV, "leads.txt", "text/plain", 2), (CSV, "leads", None, 2),
], ids=lambda v: v if isinstance(v, str) else "")
def test_a_file_is_taken_and_is_on_the_disk_when_202_is_there(server, client, data, name, kind, number):
    batch = taken(upload(client, data, name, kind))
    [path] = files(server, batch)
    assert (path.name, plain_size(path)) == (name, len(data))
    got = row(server, batch, "Status", "FileName", "FileType", "FileSizeBytes", "Checksum", "PolicyDecision", "UploadPath")
    assert got == (0, name, number, len(data), hashlib.sha256(data).hexdigest(), "Immediate",
                   str(server.directory / "data" / "imports" / batch))


@pytest.mark.parametrize("data,name", [(LEADS, "leads.json"), (XLSX, "leads.xlsx"), (CSV, "leads.csv")])
def test_json_with_base64_is_the_same(server, client, data, name):
    batch = taken(upload_json(client, data, fileName=name))
    [path] = files(server, batch)
    assert (path.name, plain_size(path)) == (name, len(data))


def test_the_answer_is_the_sources(client):
    answer = upload(client)
    batch = taken(answer)
    assert answer.json == {"batchId": batch, "status": "Pending", "policyDecision": "Immediate",
                           "message": "Importação enfileirada"}


@pytest.mark.parametrize("send", [upload, upload_json])
def test_the_fields_are_stored(server, client, send):
    more = {"fileName": "leads.json"} if send is upload_json else {}
    metadata = {"campaign": "verão", "correlationId": "abc-1"}
    batch = taken(send(client, originDefault="Site", requestedBy="ana@example.com", sheet="Plan1",
                       metadata=json.dumps(metadata), headers={"X-Correlation-Id": "of-the-request"}, **more))
    got = row(server, batch, "OriginDefault", "RequestedBy", "Sheet", "MetadataJson", "CorrelationId", "MetadataCorrelationId")
    assert got[:3] == ("Site", "a**@*******.com", "Plan1"), "who asked is masked"
    assert json.loads(got[3]) == metadata
    assert got[4:] == ("of-the-request", "abc-1"), "beside, not instead of"
    shown = client.get(f"/imports/{batch}").json
    assert (shown["correlationId"], shown["metadataCorrelationId"]) == ("of-the-request", "abc-1")
    lines = [e for e in server.log() if e.get("batchId") == batch and e["event"] in ("UploadReceived", "UploadValidated")]
    assert {(e["correlationId"], e["metadataCorrelationId"]) for e in lines} == {("of-the-request", "abc-1")} and len(lines) == 2


@pytest.mark.parametrize("own", ["a b", "é", "x" * 129, "", None, "a\r\nb"], ids=repr)
def test_a_correlation_id_of_the_metadata_that_fits_no_header_is_left_in_it(server, client, own):
    batch = taken(upload(client, metadata=json.dumps({"correlationId": own}), headers={"X-Correlation-Id": "of-the-request"}))
    assert row(server, batch, "CorrelationId", "MetadataCorrelationId") == ("of-the-request", None)


def test_without_its_own_correlation_id_a_batch_has_the_requests(server, client):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    batch = taken(upload(client, headers={"X-Correlation-Id": "of-the-request",
                                          "traceparent": f"00-{trace}-00f067aa0ba902b7-01"}))
    assert row(server, batch, "CorrelationId", "TraceId", "MetadataJson") == ("of-the-request", trace, None)


def test_fields_may_follow_the_file(server, client):
    """The name too, which is that of the file on the disk."""
    head, kind = multipart(name=None)
    tail, _ = multipart(None, fileName="depois.json", originDefault="Site")
    body = head[:-len(f"--{BOUNDARY}--\r\n")] + tail
    batch = taken(client.request("POST", "/imports", body, {"Content-Type": kind}))
    assert row(server, batch, "FileName", "OriginDefault") == ("depois.json", "Site")
    assert [p.name for p in files(server, batch)] == ["depois.json"]


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc/passwd", "..\\..\\boot.ini", "..", ".", ".ssh", "-rf",
                                  "a/b/c.json", "con.json", "%2e%2e%2fx", "nul\u202egnp.json", "é" * 200 + ".json", " "])
def test_a_name_is_data_and_never_a_path(server, client, name):
    before = directories(server)
    batch = taken(upload_json(client, fileName=name, contentType="application/json"))
    assert directories(server) == before | {batch}
    [path] = files(server, batch)
    assert plain_size(path) == len(LEADS) and "/" not in path.name and not path.name.startswith((".", "-"))
    assert list((server.directory / "data" / "imports" / batch).iterdir()) == [path.parent]


def test_a_body_in_chunks_needs_no_length(server, client):
    body, kind = multipart(LEADS)
    with_pieces = (body[i:i + 7] for i in range(0, len(body), 7))
    connection = client.connect()
    connection.request("POST", "/imports", with_pieces, {**client.headers, "Content-Type": kind}, encode_chunked=True)
    taken(client.read(connection, "POST"))
    connection.close()


def test_the_log_tells_of_it_but_not_its_name(server, client):
    batch = taken(upload(client, name="joao-da-silva.json"))
    [received] = log_of(server, batch, "UploadReceived")
    [validated] = log_of(server, batch, "UploadValidated")
    assert received["sizeBytes"] == len(LEADS) and received["clientId"] == client.id
    assert validated["fileType"] == "JSON"
    assert "joao-da-silva" not in server.log_text()


def test_the_metrics_count(make_server):
    server = make_server()
    client = server.new_client()
    taken(upload(client, headers={"Idempotency-Key": "k"}))
    taken(upload(client, headers={"Idempotency-Key": "k"}))
    assert upload(client, b"%PDF-1.4").status == 415
    page = server.anonymous(address="127.0.0.1").get("/metrics").body.decode()
    for outcome in ("accepted", "replayed", "rejected"):
        assert f'dataflow_uploads_total{{client_id="{client.id}",outcome="{outcome}"}} 1' in page
    assert f'dataflow_upload_bytes_total{{client_id="{client.id}"}} {len(LEADS)}\n' in page
    assert f'dataflow_batches_total{{client_id="{client.id}",status="Pending"}} 1\n' in page


@pytest.mark.parametrize("key", [None, "ab" * 32])
def test_files_are_encrypted(make_server, key):
    server = make_server(config={"security": {"storage_key": key}})
    server.secrets.add("ab" * 32)
    batch = taken(upload(server.new_client()))
    [path] = files(server, batch)
    assert b"Ana" not in path.read_bytes()
    assert row(server, batch, "FileSizeBytes", "Checksum") == (len(LEADS), hashlib.sha256(LEADS).hexdigest())


# --- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("data,name,kind", [
    (LEADS, "leads.csv", None), (LEADS, "leads.xlsx", "application/octet-stream"), (LEADS, "leads.json", "text/csv"),
    (LEADS, "leads.json", XLSX_TYPE), (LEADS, "leads.json", "image/png"), (LEADS, "leads.pdf", None),
    (XLSX, "leads.json", "application/json"), (XLSX, "leads.csv", None), (CSV, "leads.csv", "application/json"),
    (archive(), "leads.xlsx", XLSX_TYPE), (archive(), "leads.zip", None), (b"%PDF-1.4\n", "leads.pdf", None),
    (b"\x89PNG\r\n\x1a\n\0\0\0", "leads.json", None), (b"<html></html>", "leads.json", None),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "leads.xls", None),
], ids=lambda v: v if isinstance(v, str) else "")
def test_a_file_of_another_type_is_415(server, client, data, name, kind):
    before = directories(server)
    answer = upload(client, data, name, kind)
    assert (answer.status, answer.code) == (415, "UnsupportedMediaType")
    assert directories(server) == before and count(server, client) == 0


@pytest.mark.parametrize("data", [XLSX[:200], XLSX[:-30], XLSX[:-1000]])
def test_a_broken_workbook_is_400(server, client, data):
    before = directories(server)
    answer = upload(client, data, "leads.xlsx")
    assert (answer.status, answer.bad_fields) == (400, {"file"})
    assert directories(server) == before and count(server, client) == 0


@pytest.mark.parametrize("send,fields,bad", [
    (upload, {"originDefault": "x" * 201}, {"originDefault"}),
    (upload, {"requestedBy": b"\xff\xfe"}, {"requestedBy"}),
    (upload, {"metadata": "{"}, {"metadata"}),
    (upload, {"metadata": "[1]"}, {"metadata"}),
    (upload, {"metadata": json.dumps({"a": "x" * 70000})}, {"metadata"}),
    (upload, {"sheet": "x" * 101}, {"sheet"}),
    (upload, {"sheet": "x" * 201}, {"sheet"}),
    (upload, {"name": "x" * 261}, {"fileName"}),
    (upload, {"data": None}, {"file"}),
    (upload, {"data": b""}, {"file"}),
    (upload, {"originDefault": "x" * 201, "metadata": "no", "requestedBy": "y" * 300},
     {"originDefault", "metadata", "requestedBy"}),
    (upload_json, {"originDefault": [7]}, {"originDefault"}),
    (upload_json, {"metadata": "no"}, {"metadata"}),
    (upload_json, {"fileName": "x" * 261}, {"fileName"}),
    (upload_json, {"data": b""}, {"file"}),
    (upload_json, {"file": "no base64!"}, {"file"}),
    (upload_json, {"file": None}, {"file"}),
], ids=lambda v: str(v)[:40] if isinstance(v, dict) else getattr(v, "__name__", ""))
def test_every_bad_field_is_named(server, client, send, fields, bad):
    before = directories(server)
    answer = send(client, **fields)
    assert (answer.status, answer.code) == (400, "ValidationFailed"), answer
    assert answer.bad_fields == bad
    assert directories(server) == before and count(server, client) == 0


@pytest.mark.parametrize("body,kind,status,code", [
    (b"{", "application/json", 400, "MalformedJson"),
    (b"[]", "application/json", 400, None),
    (b"", "application/json", 400, None),
    (b"", "multipart/form-data; boundary=x", 400, None),
    (b"", None, 415, "UnsupportedMediaType"),
    (b"x", "text/plain", 415, "UnsupportedMediaType"),
    (b"x", "multipart/form-data", 400, None),
    (b"x", "multipart/form-data; boundary=x", 400, None),
    (multipart()[0][:-20], multipart()[1], 400, None),
    (b'{"fileName":"a","fileName":"b"}', "application/json", 400, None),
])
def test_a_body_that_cannot_be_read(server, client, body, kind, status, code):
    before = directories(server)
    answer = client.request("POST", "/imports", body, {"Content-Type": kind} if kind else {"Content-Type": None})
    assert answer.status == status, answer
    assert code in (None, answer.code)
    assert directories(server) == before and count(server, client) == 0


@pytest.mark.parametrize("key", ["", "x" * 201, "a b", "é", "a\tb"])
def test_a_bad_key_is_400(client, key):
    assert upload(client, headers={"Idempotency-Key": key.encode("latin-1")}).status == 400


def test_who_may(server):
    assert upload(server.anonymous()).status == 401
    assert upload(server.new_client(scopes=["acks"])).code == "ScopeMissing"


def test_the_routes_know_their_methods(client):
    assert client.request("PUT", "/imports", b"{}").status == 405
    assert client.get(f"/imports/{uuid.uuid4()}/retry").status == 405


# --- limits ------------------------------------------------------------------------------------------


class Slow:
    """An upload that is sent by hand."""

    def __init__(self, client, length, kind=multipart()[1], **headers):
        self.socket = socket.create_connection(client.server.host_port, TIMEOUT, (client.address, 0))
        lines = {**client.headers, "Host": "x", "Content-Type": kind, "Content-Length": str(length), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
        self.socket.sendall(f"POST /imports HTTP/1.1\r\n{head}\r\n".encode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def send_until_answered(self, piece, most):
        """Pieces until there is an answer; how much that was, and the answer."""
        sent = 0
        self.socket.settimeout(0.05)
        while sent < most:
            try:
                self.socket.sendall(piece)
                sent += len(piece)
                if self.socket.recv(1, socket.MSG_PEEK):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        self.socket.settimeout(TIMEOUT)
        return sent, self.answer()

    def answer(self):
        [answer] = read_responses(self.socket, 1)
        return answer


def begun(name="leads.json"):
    return (f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n').encode()


def test_the_policys_size_holds_while_the_body_arrives(server, client):
    policy(server, client, maxFileSizeMb=1)
    before = directories(server)
    with Slow(client, None, **{"Content-Length": None, "Transfer-Encoding": "chunked"}) as slow:
        first = begun()
        slow.send(f"{len(first):x}\r\n".encode() + first + b"\r\n")
        sent, answer = slow.send_until_answered(b"10000\r\n" + b"[" * 65536 + b"\r\n", 64 * MB)
    assert (answer.status, answer.code) == (409, "MaxFileSizeMb")
    assert "smaller" in answer.json["detail"]
    assert sent < 16 * MB
    assert directories(server) == before and count(server, client, "PolicyDecision <> 'Rejected'") == 0


@pytest.mark.parametrize("values,code", [({"maxFileSizeMb": 1}, "MaxFileSizeMb"),
                                         ({"tempStorageQuotaMb": 1}, "TempStorageQuotaMb")])
def test_a_length_that_says_too_much_is_refused_with_the_first_piece(server, client, values, code):
    policy(server, client, **values)
    with Slow(client, 100 * MB) as slow:
        slow.send(begun())
        sent, answer = slow.send_until_answered(b"[" * 1000, 10 * MB)
    assert (answer.status, answer.code) == (409, code)
    assert sent < MB


def test_max_batch_per_day_is_refused_before_the_file(server, client):
    policy(server, client, maxBatchPerDay=1)
    taken(upload(client))
    with Slow(client, 50 * MB) as slow:
        slow.send(begun())
        sent, answer = slow.send_until_answered(b"[" * 1000, 10 * MB)
    assert (answer.status, answer.code) == (409, "MaxBatchPerDay")
    assert int(answer.headers["Retry-After"]) <= 86400
    assert sent < MB


def test_max_batch_per_day_holds_for_uploads_at_a_time(server, client):
    policy(server, client, maxBatchPerDay=3)
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: upload(client), range(10)))
    assert sorted(a.status for a in answers) == [202] * 3 + [409] * 7
    assert {a.code for a in answers if a.status == 409} == {"MaxBatchPerDay"}
    assert count(server, client, "PolicyDecision <> 'Rejected'") == 3


def test_the_quota_counts_what_is_stored_and_frees_what_is_cancelled(server, client):
    policy(server, client, tempStorageQuotaMb=1)
    big = b"[" + b" " * 700_000 + LEADS[1:]
    batch = taken(upload(client, big))
    assert upload(client, big).code == "TempStorageQuotaMb"
    assert client.request("DELETE", f"/imports/{batch}").status == 204
    taken(upload(client, big))


def test_one_upload_at_a_time(server, client):
    policy(server, client, concurrentUploads=1)
    body, _ = multipart(b"[" + b" " * 300_000 + LEADS[1:])
    before = directories(server)
    with Slow(client, len(body)) as slow:
        slow.send(body[:200_000])
        wait_for(lambda: directories(server) != before, "the first to be admitted")
        answer = upload(client)
        assert (answer.status, answer.code) == (429, "ConcurrentUploads") and int(answer.headers["Retry-After"]) >= 1
        slow.send(body[200_000:])
        assert slow.answer().status == 202
    taken(upload(client))
    for _ in range(3):
        assert upload(client, b"%PDF-1.4").status == 415
    taken(upload(client))


def test_a_sender_that_leaves_is_not_counted_and_leaves_nothing(server, client):
    policy(server, client, concurrentUploads=1)
    before = directories(server)
    with Slow(client, 10 * MB) as slow:
        slow.send(begun() + b"[" * 300_000)
        wait_for(lambda: directories(server) != before, "the file to be begun")
    wait_for(lambda: directories(server) == before, "the file to be gone")
    wait_for(lambda: upload(client).status == 202, "the place to be free")
    assert server.log("UploadAbandoned")


def test_the_servers_own_limit_is_413(make_server):
    server = make_server(config={"server": {"max_upload_bytes": 2 * MB}})
    client = server.new_client()
    big = b"[" + b" " * 2 * MB + b"]"
    assert upload(client, big).code == "PayloadTooLarge"
    assert upload_json(client, big).code == "PayloadTooLarge"
    taken(upload(client, (b"[" + b" " * 2 * MB)[:2 * MB - len(LEADS)] + LEADS[1:]))
    taken(upload_json(client, (b"[" + b" " * 2 * MB)[:2 * MB - len(LEADS)] + LEADS[1:]))
    with Slow(client, 100 * MB) as slow:
        assert slow.answer().status == 413  # nothing of the body was sent
    with Slow(client, None, **{"Content-Length": None, "Transfer-Encoding": "chunked"}) as slow:
        first = begun()
        slow.send(f"{len(first):x}\r\n".encode() + first + b"\r\n")
        sent, answer = slow.send_until_answered(b"10000\r\n" + b"[" * 65536 + b"\r\n", 64 * MB)
        assert answer.status == 413 and sent < 32 * MB
    assert len(directories(server)) == 2


def test_maintenance_is_503_and_says_until_when(server, client):
    until = datetime.now(timezone.utc) + timedelta(hours=2)
    policy(server, client, maintenanceWindow=f"2026-01-01T00:00Z/{until:%Y-%m-%dT%H:%M}Z")
    answer = upload(client)
    assert (answer.status, answer.code) == (503, "MaintenanceWindow")
    assert 3600 < int(answer.headers["Retry-After"]) <= 7200


def test_maintenance_of_the_server(make_server):
    server = make_server(config={"imports": {"maintenance_windows": "00:00-24:00"}})
    assert upload(server.new_client()).code == "MaintenanceWindow"


def test_what_waits_is_scheduled(server, client):
    policy(server, client, requireSchedulingForLarge=True, largeThresholdMb=0)
    begun = datetime.now(timezone.utc)
    answer = upload(client)
    batch = taken(answer, "Scheduled")
    assert answer.json["policyDecision"] == "Scheduled" and answer.json["message"] == "Importação agendada"
    at = datetime.fromisoformat(answer.json["scheduledFor"].replace("Z", "+00:00"))
    assert begun < at <= begun + timedelta(hours=12), "the next hour, or the end of the business hours"
    assert row(server, batch, "Status", "PolicyDecision") == (2, "Scheduled")
    [deferred] = log_of(server, batch, "PolicyDeferred")
    assert (deferred["rule"], deferred["scheduledFor"]) == ("RequireSchedulingForLarge", answer.json["scheduledFor"])


def test_outside_the_allowed_hours_it_is_scheduled(server, client):
    hour = datetime.now(timezone.utc).hour
    policy(server, client, allowedStartHour=(hour + 2) % 24, allowedEndHour=(hour + 4) % 24)
    answer = upload(client)
    taken(answer, "Scheduled")
    assert re.search(rf"T{(hour + 2) % 24:02}:00:00", answer.json["scheduledFor"])


# --- Idempotency-Key ---------------------------------------------------------------------------------


def test_the_same_again_is_answered_as_the_first_time(server, client):
    policy(server, client, maxBatchPerDay=1)
    headers = {"Idempotency-Key": "once"}
    first = upload(client, headers=headers, originDefault="Site")
    before = directories(server)
    again = upload(client, headers=headers, originDefault="Site")
    assert again.json == first.json and taken(again)
    assert "Idempotent-Replayed" not in first.headers and again.headers["Idempotent-Replayed"] == "true"
    assert directories(server) == before and count(server, client) == 1


def test_the_answer_is_the_first_though_the_batch_went_on(server, client):
    schedule_all(server, client)
    first = upload(client, headers={"Idempotency-Key": "k"})
    assert client.request("DELETE", "/imports/" + taken(first, "Scheduled")).status == 204
    assert upload(client, headers={"Idempotency-Key": "k"}).json == first.json


@pytest.mark.parametrize("change", [
    {"data": LEADS + b" "}, {"name": "other.json"}, {"originDefault": "Feira"}, {"requestedBy": "x"}, {"sheet": "s"},
    {"metadata": "{}"}, {"originDefault": None},
], ids=lambda c: next(iter(c)))
def test_the_key_with_something_else_is_422(server, client, change):
    headers = {"Idempotency-Key": "once"}
    fields = {"data": LEADS, "name": "leads.json", "originDefault": "Site"}
    taken(upload(client, headers=headers, **fields))
    before = directories(server)
    fields = {k: v for k, v in {**fields, **change}.items() if v is not None}
    answer = upload(client, headers=headers, **fields)
    assert (answer.status, answer.code) == (422, "IdempotencyKeyReused")
    assert directories(server) == before and count(server, client) == 1


def test_a_key_is_one_clients(server, client):
    headers = {"Idempotency-Key": "k"}
    assert taken(upload(client, headers=headers)) != taken(upload(server.new_client(), headers=headers))


def test_both_forms_of_the_same_upload_are_the_same(client):
    headers = {"Idempotency-Key": "k"}
    batch = taken(upload(client, headers=headers, requestedBy="ana"))
    assert taken(upload_json(client, headers=headers, fileName="leads.json", requestedBy="ana")) == batch


def test_a_refused_upload_does_not_use_its_key_up(server, client):
    headers = {"Idempotency-Key": "k"}
    assert upload(client, b"%PDF-1.4", headers=headers).status == 415
    taken(upload(client, headers=headers))


def test_ten_at_once_with_one_key_make_one_batch(server, client):
    policy(server, client, maxBatchPerDay=5)
    before = directories(server)
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: upload(client, headers={"Idempotency-Key": "k"}), range(10)))
    assert len({taken(a) for a in answers}) == 1
    assert sum("Idempotent-Replayed" not in a.headers for a in answers) == 1
    assert count(server, client) == 1
    assert len(directories(server) - before) == 1


# --- crashes -----------------------------------------------------------------------------------------


def test_killed_in_the_middle_of_an_upload_there_is_no_row(make_server):
    server = make_server()
    client = server.new_client()
    kept = taken(upload(client))
    with Slow(client, 10 * MB) as slow:
        slow.send(begun() + b"[" * 300_000)
        wait_for(lambda: len(directories(server)) == 2, "the file to be begun")
        server.kill()
    server.start()
    assert count(server, client) == 1
    assert plain_size(files(server, kept)[0]) == len(LEADS)
    taken(upload(client))


def test_uploads_in_hand_are_finished_when_it_stops(make_server):
    server = make_server()
    client = server.new_client()
    body, _ = multipart(b"[" + b" " * 300_000 + LEADS[1:])
    with Slow(client, len(body)) as slow:
        slow.send(body[:200_000])
        wait_for(lambda: directories(server), "the file to be begun")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            stopped = pool.submit(server.stop)
            wait_for(lambda: server.log("ServerStopping"), "the drain to begin")
            slow.send(body[200_000:])
            answer = slow.answer()
            assert stopped.result() == 0
    assert answer.status == 202
    assert len(files(server, answer.json["batchId"])) == 1
    assert row(server, answer.json["batchId"], "Status") == (0,)


def test_an_upload_that_never_ends_does_not_keep_it_from_stopping(make_server):
    server = make_server(config={"server": {"drain_seconds": 1}})
    with Slow(server.new_client(), 10 * MB) as slow:
        slow.send(begun() + b"[" * 300_000)
        wait_for(lambda: directories(server), "the file to be begun")
        assert server.stop() == 0
    assert directories(server) == set()


# --- cancel ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduled", [False, True])
def test_a_batch_that_waits_is_cancelled(server, client, scheduled):
    if scheduled:
        schedule_all(server, client)
    batch = taken(upload(client), "Scheduled" if scheduled else "Pending")
    answer = client.request("DELETE", f"/imports/{batch}")
    assert (answer.status, answer.body) == (204, b"")
    status, completed = row(server, batch, "Status", "CompletedAt")
    assert status == 6 and completed is not None
    wait_for(lambda: batch not in directories(server), "the file to be gone")
    assert log_of(server, batch, "BatchCancelled")
    again = client.request("DELETE", f"/imports/{batch}")
    assert again.status == 409 and "Cancelled" in again.json["detail"]


@pytest.mark.parametrize("values,word", [
    ("Status = 1", "Processing"), ("Status = 3", "Completed"), ("Status = 4", "CompletedWithErrors"),
    ("Status = 5", "Failed"), ("LockedAt = CURRENT_TIMESTAMP", "Processing"), ("Attempt = 2", "again"),
])
def test_one_that_was_started_is_not(server, client, values, word):
    batch = taken(upload(client))
    execute(server, f"UPDATE ImportBatch SET {values} WHERE Id = '{batch}'")
    answer = client.request("DELETE", f"/imports/{batch}")
    assert (answer.status, answer.code) == (409, "Conflict")
    assert word in answer.json["detail"]
    assert len(files(server, batch)) == 1
    execute(server, f"UPDATE ImportBatch SET Status = 6, LockedAt = NULL WHERE Id = '{batch}'")


@pytest.mark.parametrize("method,path", [("DELETE", ""), ("POST", "/retry")])
def test_what_is_not_there_or_anothers_is_404(server, client, method, path):
    batch = taken(upload(server.new_client()))
    for name in (batch, uuid.uuid4(), "x", "1" * 36):
        assert client.request(method, f"/imports/{name}{path}").status == 404
    assert row(server, batch, "Status") == (0,)


# --- retry -------------------------------------------------------------------------------------------


def item(server, batch, sequence, status, chunk, masked=0):
    masked = ("false", "true")[masked] if server.backend.name == "postgres" else masked
    execute(server, "INSERT INTO ImportItem (BatchId, Sequence, PayloadJson, Status, ChunkId, IsMasked) VALUES"
                    f" ('{batch}', {sequence}, '{{}}', {status}, {'NULL' if chunk is None else chunk}, {masked})")


def over(server, client, status, items):
    """A batch that has been worked on, with chunks 0 to 2."""
    batch = taken(upload(client))
    execute(server, f"UPDATE ImportBatch SET Status = {status}, CompletedAt = CURRENT_TIMESTAMP, ErrorSummary = 'x'"
                    f" WHERE Id = '{batch}'")
    for chunk in range(3):
        execute(server, "INSERT INTO ImportChunk (BatchId, ChunkId, RecordOffset, RecordCount, ContentHash, Status)"
                        f" VALUES ('{batch}', {chunk}, {chunk * 10}, 10, '{'0' * 64}', 4)")
    for sequence, (item_status, chunk, masked) in enumerate(items):
        item(server, batch, sequence, item_status, chunk, masked)
    return batch


@pytest.mark.parametrize("status", [4, 5])
def test_failed_items_are_tried_again(make_server, status):
    server = make_server(config={"server": {"roles": "api"}})
    client = server.new_client()
    batch = over(server, client, status, [(0, 0, 0), (1, 0, 0), (1, 2, 0), (2, None, 0), (1, None, 0), (1, 1, 1)])
    answer = client.post(f"/imports/{batch}/retry")
    assert answer.status == 202
    check(answer.json, DOCUMENT["components"]["schemas"]["ImportRetry"], "202")
    assert answer.json == {"batchId": batch, "status": "Pending", "attempt": 2, "items": 2,
                           "message": "Nova tentativa enfileirada"}
    assert row(server, batch, "Status", "Attempt", "RetryFromChunk", "CompletedAt", "ErrorSummary") == (0, 2, 3, None, None)
    [said] = log_of(server, batch, "BatchRetryRequested")
    assert (said["attempt"], said["items"]) == (2, 2)
    assert client.post(f"/imports/{batch}/retry").status == 409


@pytest.mark.parametrize("status,items,word", [
    (0, [(1, 0, 0)], "Pending"), (1, [(1, 0, 0)], "Processing"), (2, [(1, 0, 0)], "Scheduled"),
    (3, [(1, 0, 0)], "Completed"), (6, [(1, 0, 0)], "Cancelled"), (4, [(0, 0, 0), (1, None, 0)], "not fit"),
    (4, [(1, 0, 1)], "is over"), (5, [], "No item"),
])
def test_where_there_is_nothing_to_try_again_it_says_why(server, client, status, items, word):
    batch = over(server, client, status, items)
    answer = client.post(f"/imports/{batch}/retry")
    assert (answer.status, answer.code) == ((410, "PayloadExpired") if word == "is over" else (409, "Conflict"))
    assert word in answer.json["detail"]
    assert row(server, batch, "Attempt", "RetryFromChunk") == (1, None)
    execute(server, f"UPDATE ImportBatch SET Status = 6 WHERE Id = '{batch}'")


# --- settings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting,word", [
    ("imports.business_time_zone=Mars/Olympus", "business_time_zone"),
    ("imports.business_time_zone=../../etc/passwd", "business_time_zone"),
    ("imports.business_time_zone=", "business_time_zone"),
    ("imports.maintenance_windows=25:00-26:00", "maintenance_windows"),
    ("imports.maintenance_windows=Someday 01:00-02:00", "maintenance_windows"),
    ("imports.scheduled_storage=ftp://x/y", "scheduled_storage"),
    ("imports.scheduled_storage=s3://", "scheduled_storage"),
    ("imports.scheduled_storage=s3://bucket", "s3.access_key"),
    ("security.storage_key=short", "storage_key"),
    ("security.storage_old_key=" + "g" * 64, "storage_old_key"),
    ("security.storage_key_file=/does/not/exist", "storage_key"),
    ("imports.workers=0", "workers"),
    ("omniflow.timeout_ms=0", "timeout_ms"),
    ("omniflow.max_outage_seconds=-1", "max_outage_seconds"),
])
def test_a_wrong_setting_is_refused(setting, word):
    told = run("check-config", "--set", setting)
    assert told.returncode == 2
    assert word in told.stderr and "\n" not in told.stderr.strip()


def test_good_settings_are_shown_without_their_secrets(tmp_path):
    (tmp_path / "key").write_text("cd" * 32 + "\n")
    told = run("check-config", "--set", f"security.storage_key_file={tmp_path / 'key'}", "--set",
               "imports.scheduled_storage=s3://bucket/leads", "--set", "s3.access_key=AKIA", "--set",
               "s3.secret_key=very-secret", "--set", "imports.maintenance_windows=Sun 02:00-04:00; 23:00-24:00")
    assert told.returncode == 0, told.stderr
    assert "scheduled_storage = s3://bucket/leads" in told.stdout and "Sun 02:00-04:00" in told.stdout
    assert "very-secret" not in told.stdout and "cdcd" not in told.stdout


# --- scheduled files in another storage --------------------------------------------------------------


class Storage:
    """tests/s3_server.py: Swift, asked here in its own language, by the program in S3's."""

    def __init__(self, directory):
        with open(directory / "log", "wb") as log:
            self.process = subprocess.Popen(["/usr/bin/python3", ROOT / "tests" / "s3_server.py", directory],
                                            stdout=subprocess.PIPE, stderr=log, text=True)
        self.url = self.process.stdout.readline().strip()
        self.token = self.ask("GET", "/auth/v1.0", {"X-Auth-User": "test:tester", "X-Auth-Key": "testing"}).headers["X-Auth-Token"]
        self.ask("PUT", "/v1/AUTH_test/bucket")

    def ask(self, method, path, headers=None, data=None):
        headers = headers or {"X-Auth-Token": self.token}
        return urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers, method=method), timeout=TIMEOUT)

    def objects(self):
        return self.ask("GET", "/v1/AUTH_test/bucket").read().decode().split()

    def fail(self, **fault):
        self.ask("POST", "/faults", {"Content-Type": "application/json"}, json.dumps(fault).encode())


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    made = Storage(tmp_path_factory.mktemp("s3"))
    yield made
    made.process.kill()
    made.process.wait()


@pytest.fixture
def far(make_server, storage):
    """A server whose scheduled files wait elsewhere, and a client all of whose files are scheduled."""
    server = make_server(config={
        "imports": {"scheduled_storage": "s3://bucket/waiting"},
        "s3": {"endpoint": storage.url, "access_key": "test:tester", "secret_key": "testing", "path_style": "on"},
        "server": {"drain_seconds": 5}})
    client = server.new_client()
    schedule_all(server, client)
    return server, client


def test_a_scheduled_file_waits_in_the_other_storage(far, storage):
    server, client = far
    batch = taken(upload(client), "Scheduled")
    assert row(server, batch, "UploadPath") == (f"s3://bucket/waiting/{batch}/leads.json",)
    assert f"waiting/{batch}/leads.json" in storage.objects()
    assert directories(server) == set()
    assert client.request("DELETE", f"/imports/{batch}").status == 204
    wait_for(lambda: f"waiting/{batch}/leads.json" not in storage.objects(), "the object to be gone")


def test_a_file_that_is_not_scheduled_stays_here(far, storage):
    server, _ = far
    before = storage.objects()
    batch = taken(upload(server.new_client()))
    assert len(files(server, batch)) == 1 and storage.objects() == before


def test_a_repeated_upload_leaves_one_object(far, storage):
    _, client = far
    before = set(storage.objects())
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: upload(client, headers={"Idempotency-Key": "k"}), range(6)))
    [batch] = {taken(a, "Scheduled") for a in answers}
    assert set(storage.objects()) - before == {f"waiting/{batch}/leads.json"}


def test_a_storage_that_refuses_is_not_answered_202(far, storage):
    server, client = far
    before = storage.objects()
    storage.fail(status=403, count=1, method="PUT")
    assert upload(client).status == 500
    assert directories(server) == set() and storage.objects() == before and count(server, client) == 0
    taken(upload(client), "Scheduled")
