"""Columns by a client's mapping, previews, reasons and rows of items, and retries with mended values."""

import hashlib
import io
import json
import time

import openpyxl
import pytest
from harness import Backend, Server, wait_for
from test_imports_process import API_KEY, ENDS, configuration, make_peer, module_peer  # noqa: F401 (fixtures)
from test_imports_receive import execute, multipart, policy, taken, upload, upload_json
from test_openapi import DOCUMENT, check

PHONE = "+5511912345678"
CSV = "Contato;Cliente;Obs\n11 91234-5678;Ana;a\n;Bia;b\n123;Caio;c\n11 91234-5679;Davi;d\n".encode()
MAPPING = {"Contato": "PhoneNumber"}


@pytest.fixture(scope="module")
def server(backend_name, module_peer, tmp_path_factory):
    backend = Backend(backend_name, tmp_path_factory.mktemp(backend_name))
    server = Server(backend, tmp_path_factory.mktemp("server"), config=configuration(module_peer))
    server.start()
    server.secrets.add(API_KEY)
    yield server
    server.finish()
    backend.drop()


@pytest.fixture
def peer(module_peer):
    module_peer.reset()
    return module_peer


@pytest.fixture
def caller(server):
    return server.new_client(scopes=["imports"])


def workbook(rows, title="Plan1", before=0):
    book = openpyxl.Workbook()
    book.active.title = title
    for _ in range(before):
        book.active.append([])
    for row in rows:
        book.active.append(row)
    book.create_sheet("Outra").append(["x"])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def over(client, batch):
    found = {}

    def is_over():
        found.update(client.get(f"/imports/{batch}").json)
        return found["status"] in ENDS

    wait_for(is_over, "the end of the batch")
    return found


def done(client, data, name="leads.csv", **fields):
    batch = taken(upload(client, data, name, **fields))
    return over(client, batch)


def sent(peer, batch):
    return {i["sequence"]: i for r in peer.came(batch) for i in r.body["items"]}


def items(client, batch, **query):
    text = "&".join(f"{k}={v}" for k, v in query.items())
    answer = client.get(f"/imports/{batch}/items?{text}")
    assert answer.status == 200, answer
    check(answer.json, DOCUMENT["paths"]["/imports/{batchId}/items"]["get"]["responses"]["200"]["content"]
          ["application/json"]["schema"], "items")
    return answer.json


def preview(client, data, name="leads.csv", **fields):
    body, kind = multipart(data, name, **fields)
    return client.request("POST", "/imports/preview", body, {"Content-Type": kind})


def looked(client, data, name="leads.csv", **fields):
    answer = preview(client, data, name, **fields)
    assert answer.status == 200, answer
    check(answer.json, DOCUMENT["paths"]["/imports/preview"]["post"]["responses"]["200"]["content"]
          ["application/json"]["schema"], "preview")
    return answer.json


# --- mapping -----------------------------------------------------------------------------------------

def test_a_column_means_what_the_mapping_says(peer, caller):
    batch = done(caller, CSV, mapping=json.dumps(MAPPING))
    assert (batch["totalRecords"], batch["errorCount"]) == (4, 2)
    got = sent(peer, batch["batchId"])
    assert got[0]["PhoneNumber"] == PHONE and got[0]["LeadContextJson"] == {"Name": "Ana", "Notes": "a"}
    assert sorted(got) == [0, 3]


def test_without_a_mapping_the_same_file_has_no_phone(peer, caller):
    batch = done(caller, CSV)
    assert batch["errorCount"] == 4 and sent(peer, batch["batchId"]) == {}


def test_paths_lead_into_nested_values(peer, caller):
    records = [{"contact": {"phone": "11 91234-5678", "name": "An\u0061 \"x\""}, "extra": 1},
               {"contact": {"phone": None, "phones": ["11 91234-5670"]}},
               {"contact": "none"},
               {"contact.phone": "11 91234-5671", "contact": {"phone": "123"}}]
    mapping = {"contact.phone": "PhoneNumber", "contact.name": "Name", "contact.phones.0": "PhoneNumber"}
    batch = done(caller, json.dumps(records).encode(), "leads.json", mapping=json.dumps(mapping))
    got = sent(peer, batch["batchId"])
    assert sorted(got) == [0, 1, 3] and batch["errorCount"] == 1
    assert got[0]["PhoneNumber"] == PHONE
    assert got[0]["LeadContextJson"] == {"contact": records[0]["contact"], "extra": 1, "Name": "Ana \"x\""}
    assert got[1]["PhoneNumber"] == "+5511912345670" and got[3]["PhoneNumber"] == "+5511912345671"


def test_an_empty_name_takes_a_meaning_away(peer, caller):
    data = b"Telefone;Recado;Nome\n11 91234-5678;11 91234-5670;Ana\n"
    mapping = {"telefone": "", "RECADO": "PhoneNumber", "Nome": None}
    batch = done(caller, data, mapping=json.dumps(mapping))
    assert sent(peer, batch["batchId"])[0] == {
        "sequence": 0, "PhoneNumber": "+5511912345670", "Origin": None, "PropertyContextJson": None,
        "LeadContextJson": {"Telefone": "11 91234-5678", "Nome": "Ana"}}


def test_a_column_that_gives_up_its_name_collides_with_nothing(peer, caller):
    data = b"Name;Nome;X;Telefone\na;b;c;11 91234-5678\n"
    batch = done(caller, data, mapping=json.dumps({"Name": "", "X": "Email"}))
    assert sent(peer, batch["batchId"])[0]["LeadContextJson"] == {"Name": "a", "Name (2)": "b", "Email": "c"}


def test_the_json_form_takes_a_mapping_too(peer, caller):
    batch = over(caller, taken(upload_json(caller, CSV, fileName="leads.csv", mapping=MAPPING)))
    assert sorted(sent(peer, batch["batchId"])) == [0, 3]


def many(n, name="c"):
    return {f"{name}{i}": "" for i in range(n)}


BAD_MAPPINGS = [
    ("{", ["mapping"]), ("[]", ["mapping"]), ('"x"', ["mapping"]), ("1", ["mapping"]),
    ({"A": "Phone"}, ["mapping.A"]), ({"A": 1, "B": ["Name"]}, ["mapping.A", "mapping.B"]),
    ({"A": "Telefone"}, ["mapping.A"]), ({" ": "Name"}, ["mapping. "]),
    ({"A": "Name", "B": "Name"}, ["mapping.B"]), ({"Fone": "PhoneNumber", "FONE": ""}, ["mapping.FONE"]),
    ({"a.b": "Name", "A.B": ""}, ["mapping.A.B"]), ({"x" * 201: "Name"}, ["mapping." + "x" * 40]),
    (many(201), ["mapping"]), ('{"A":"Name","A":"Email"}', ["mapping"]),
]


@pytest.mark.parametrize("mapping,fields", BAD_MAPPINGS, ids=range(len(BAD_MAPPINGS)))
def test_a_bad_mapping_is_told(caller, mapping, fields):
    text = mapping if isinstance(mapping, str) else json.dumps(mapping)
    for answer in upload(caller, CSV, "a.csv", mapping=text), preview(caller, CSV, "a.csv", mapping=text):
        assert answer.status == 400, answer
        assert [e["field"] for e in answer.json["errors"]] == fields
    if not isinstance(mapping, str):
        answer = caller.request("PUT", f"/clients/{caller.id}/mapping", json={"mapping": mapping})
        assert answer.status == 400 and [e["field"] for e in answer.json["errors"]] == fields
    assert caller.get("/imports").json["total"] == 0


def test_the_largest_mapping_is_taken(caller, peer):
    mapping = {f"{i:03}" + "é" * 197: "" for i in range(199)} | {"Contato": "PhoneNumber"}
    batch = done(caller, CSV, mapping=json.dumps(mapping))
    assert sorted(sent(peer, batch["batchId"])) == [0, 3]


def test_another_mapping_is_another_request(caller, peer):
    key = {"Idempotency-Key": "k1"}
    first = taken(upload(caller, CSV, "a.csv", headers=key, mapping=json.dumps(MAPPING)))
    assert taken(upload(caller, CSV, "a.csv", headers=key, mapping=json.dumps(MAPPING))) == first
    assert upload(caller, CSV, "a.csv", headers=key, mapping="{}").status == 422


def test_a_client_keeps_a_mapping(server, caller, peer):
    path = f"/clients/{caller.id}/mapping"
    assert caller.get(path).status == 404 and caller.request("DELETE", path).status == 404
    put = caller.request("PUT", path, json={"mapping": {"contato": "phonenumber", "Obs": None}})
    assert put.status == 200 and put.json["mapping"] == {"contato": "PhoneNumber", "Obs": ""}
    assert caller.get(path).json == put.json == server.admin().request("GET", path).json
    got = sent(peer, done(caller, CSV)["batchId"])
    assert got[0]["LeadContextJson"] == {"Name": "Ana", "Obs": "a"}
    # What the upload says comes first; the rest stays.
    data = b"Contato;Outro;Obs\n1;11 91234-5678;a\n"
    got = sent(peer, done(caller, data, mapping=json.dumps({"Outro": "PhoneNumber", "OBS": "Message"}))["batchId"])
    assert got[0]["PhoneNumber"] == PHONE and got[0]["LeadContextJson"] == {"Contato": "1", "Message": "a"}
    assert caller.request("DELETE", path).status == 204
    assert done(caller, CSV)["errorCount"] == 4
    actions = [e["action"] for e in server.admin().get("/admin/audit").json["items"]]
    assert {"ImportMappingKept", "ImportMappingRemoved"} <= set(actions)


def test_who_may_keep_a_mapping(server, caller):
    path = f"/clients/{caller.id}/mapping"
    other, without = server.new_client(scopes=["imports"]), server.new_client(scopes=["interface"])
    assert other.get(path).status == 404
    assert without.get(f"/clients/{without.id}/mapping").status == 403
    assert server.admin().request("PUT", path, json={"mapping": MAPPING}).status == 200
    assert server.admin().request("PUT", "/clients/nobody/mapping", json={"mapping": MAPPING}).status == 404
    assert caller.request("PUT", path, json={}).status == 400


def test_a_batch_is_finished_by_its_own_mapping_after_a_crash(backend_name, make_peer, tmp_path):
    """The client's kept mapping changes and the server is killed between two chunks."""
    peer, backend = make_peer(), Backend(backend_name, tmp_path)
    server = Server(backend, tmp_path / "server", config=configuration(peer, omniflow={"max_parallel_chunks": 1}))
    server.start()
    caller = server.new_client(scopes=["imports"])
    try:
        path = f"/clients/{caller.id}/mapping"
        assert caller.request("PUT", path, json={"mapping": MAPPING}).status == 200
        rows = "".join(f"11 9{i:04}-0000;{i}\n" for i in range(1000, 1040))
        peer.answer = lambda request: 200 if request.chunk < 2 else 503
        batch = taken(upload(caller, ("Contato;Cliente\n" + rows).encode(), "a.csv"))
        wait_for(lambda: 2 in peer.chunks(batch), "the second chunk")
        assert caller.request("PUT", path, json={"mapping": {"Cliente": "PhoneNumber"}}).status == 200
        server.kill()
        peer.answer = lambda request: 200
        server.start()
        found = over(caller, batch)
        assert (found["status"], found["importedCount"]) == ("Completed", 40)
        got = sent(peer, batch)
        assert sorted(got) == list(range(40))
        assert all(i["LeadContextJson"] == {"Name": str(1000 + n)} for n, i in got.items())
    finally:
        server.finish()
        backend.drop()


# --- items and reasons -------------------------------------------------------------------------------

def test_a_column_far_to_the_right_is_not_looked_for(server, caller):
    """A file may have thousands of them, and each is compared with each entry of the mapping, for each item of a page."""
    for before, named in ((499, "Contato"), (500, None)):
        heads = [f"c{n}" for n in range(before)] + ["Contato"]
        data = ";".join(heads) + "\n" + ";".join(["x"] * before + ["123"]) + "\n"
        batch = done(caller, data.encode(), "wide.csv", mapping=json.dumps(MAPPING))["batchId"]
        [item] = items(caller, batch)["items"]
        assert (item["field"], item["column"]) == ("PhoneNumber", named)


def test_items_say_row_reason_and_values(server, peer, caller):
    data = workbook([["Contato", "Cliente"], ["11 91234-5678", "Ana"], [None, None], [None, None],
                     ["123", "Bia"], [None, "Caio"], ["11 91234-5678", "Ana"]], before=2)
    peer.answer = lambda request: (200, {"items": []})
    batch = done(caller, data, "leads.xlsx", mapping=json.dumps(MAPPING))["batchId"]
    got = items(caller, batch)
    assert [(i["row"], i["reason"]) for i in got["items"]] == [
        (4, None), (5, "EmptyRow"), (7, "PhoneTooShort"), (8, "PhoneMissing"), (9, "RepeatedRecord")]
    assert [i["values"] for i in got["items"]] == [None, None, {"Contato": "123", "Cliente": "Bia"},
                                                  {"Cliente": "Caio"}, None]
    assert [(i["field"], i["column"]) for i in got["items"]] == [
        (None, None), (None, None), ("PhoneNumber", "Contato"), ("PhoneNumber", "Contato"), (None, None)]
    masked = server.admin().get(f"/admin/imports/{batch}/items?status=Error").json["items"]
    assert [(i["row"], i["column"]) for i in masked] == [(7, "Contato"), (8, "Contato")] and masked[0]["values"]["Cliente"] != "Bia"
    assert [i["row"] for i in items(caller, batch, reason="phonemissing")["items"]] == [8]
    assert [i["row"] for i in items(caller, batch, reason="RepeatedRecord")["items"]] == [9]
    reasons = caller.get(f"/imports/{batch}/reasons")
    check(reasons.json, DOCUMENT["paths"]["/imports/{batchId}/reasons"]["get"]["responses"]["200"]["content"]
          ["application/json"]["schema"], "reasons")
    assert [(r["reason"], r["count"], r["firstRow"], r["retryable"]) for r in reasons.json["items"]] == [
        ("PhoneMissing", 1, 8, False), ("PhoneTooShort", 1, 7, False)]
    assert server.admin().get(f"/admin/imports/{batch}/reasons").json == reasons.json
    assert server.new_client(scopes=["imports"]).get(f"/imports/{batch}/reasons").status == 404


def test_a_refusal_of_omniflow_has_a_code(peer, caller):
    peer.answer = lambda request: (200, {"items": [{"sequence": 0, "status": "Error", "errorMessage": "no"},
                                                   {"sequence": 1, "status": "Skipped"}]})
    data = json.dumps([{"fone": f"11 91234-567{i}"} for i in range(3)]).encode()
    batch = done(caller, data, "a.json")
    got = items(caller, batch["batchId"])["items"]
    assert [(i["row"], i["reason"]) for i in got] == [(1, "RefusedByOmniFlow"), (2, "SkippedByOmniFlow"), (3, None)]
    assert batch["canRetry"] and batch["canMend"] and not batch["canCancel"]
    peer.answer = lambda request: (422, {"why": "no"})
    got = items(caller, done(caller, data, "a.json")["batchId"])["items"]
    assert {i["reason"] for i in got} == {"RefusedByOmniFlow"}
    reasons = caller.get(f"/imports/{batch['batchId']}/reasons").json["items"]
    assert [(r["reason"], r["count"], r["retryable"]) for r in reasons] == [("RefusedByOmniFlow", 1, True)]


@pytest.mark.parametrize("mapping", [None, MAPPING])
@pytest.mark.parametrize("query", [{}, {"status": "Error"}, {"status": "Imported"}, {"reason": "PhoneTooShort"}])
def test_items_by_cursor_are_those_by_pages(peer, caller, query, mapping):
    name = "Contato" if mapping else "Telefone"
    rows = "".join((f"11 91234-{5000 + i}" if i % 2 else "123") + f";{i}\n" for i in range(23))
    batch = done(caller, f"{name};Cliente\n{rows}".encode(),
                 **({"mapping": json.dumps(mapping)} if mapping else {}))["batchId"]
    whole = items(caller, batch, pageSize=200, **query)
    assert whole["next"] is None and whole["total"] == len(whole["items"]) > 10
    found, after = [], None
    while True:
        page = items(caller, batch, pageSize=4, **query, **({"after": after} if after else {}))
        assert page["total"] == whole["total"]
        found += page["items"]
        after = page["next"]
        if after is None:
            break
    assert found == whole["items"]


@pytest.mark.parametrize("query,field", [("after=x", "after"), ("after=-1", "after"), ("after=1&page=2", "after"),
                                         ("reason=Nope", "reason"), ("after=99999999999", "after")])
def test_a_bad_cursor_or_reason_is_told(peer, caller, query, field):
    batch = done(caller, CSV)["batchId"]
    answer = caller.get(f"/imports/{batch}/items?{query}")
    assert answer.status == 400 and [e["field"] for e in answer.json["errors"]] == [field]


# --- mended retries ----------------------------------------------------------------------------------

def retry(client, batch, values):
    return client.post(f"/imports/{batch}/retry",
                       {"items": [{"sequence": s, "values": v} for s, v in values.items()]})


@pytest.mark.parametrize("mode", ["mask", "keep"])
def test_mended_values_are_sent(backend_name, make_peer, tmp_path, mode):
    peer, backend = make_peer(), Backend(backend_name, tmp_path)
    server = Server(backend, tmp_path / "server",
                    config=configuration(peer, sensitive_data={"mode": mode}))
    server.start()
    caller = server.new_client(scopes=["imports"])
    try:
        batch = done(caller, CSV, mapping=json.dumps(MAPPING), originDefault="Site")
        assert not batch["canRetry"] and batch["canMend"]
        assert caller.post(f"/imports/{batch['batchId']}/retry", {}).status == 409
        peer.reset()
        answer = retry(caller, batch["batchId"], {1: {"PhoneNumber": "11 91234-5000"},
                                                  2: {"Contato": "11 91234-5001", "cliente": "Caio B"}})
        assert answer.status == 202 and (answer.json["items"], answer.json["mended"]) == (2, 2)
        found = over(caller, batch["batchId"])
        assert (found["status"], found["errorCount"], found["attempt"]) == ("Completed", 0, 2)
        got = sent(peer, batch["batchId"])
        assert got[1] == {"sequence": 1, "PhoneNumber": "+5511912345000", "Origin": "Site",
                          "PropertyContextJson": None, "LeadContextJson": {"Name": "Bia", "Notes": "b"}}
        assert got[2]["PhoneNumber"] == "+5511912345001" and got[2]["LeadContextJson"]["Name"] == "Caio B"
        assert all(i["reason"] is None for i in items(caller, batch["batchId"])["items"])
        stored = json.dumps(backend.query("SELECT PayloadJson, OriginalJson FROM ImportItem"))
        assert ("12345001" in stored) == (mode == "keep")
        assert "12345001" not in server.log_text()
    finally:
        server.finish()
        backend.drop()


def test_a_mended_record_that_fails_again_is_kept_as_mended(peer, caller):
    batch = done(caller, CSV, mapping=json.dumps(MAPPING))["batchId"]
    peer.answer = lambda request: (422, {})
    assert retry(caller, batch, {2: {"Contato": "11 91234-5001"}}).status == 202
    over(caller, batch)
    got = items(caller, batch, reason="RefusedByOmniFlow")["items"]
    assert [(i["row"], i["values"]["Contato"]) for i in got] == [(4, "11 91234-5001")]
    assert caller.get(f"/imports/{batch}/errors.json").json[1]["Contato"] == "11 91234-5001"
    peer.answer = lambda request: 200
    answer = caller.post(f"/imports/{batch}/retry", {})  # as it is, and only what was sent
    assert answer.status == 202 and answer.json["items"] == 1
    assert over(caller, batch)["errorCount"] == 1


def test_a_path_is_mended_by_its_name_or_meaning(peer, caller):
    records = [{"contact": {"phone": "1", "name": "A"}}, {"contact": {"phone": "2"}}]
    mapping = {"contact.phone": "PhoneNumber", "contact.name": "Name"}
    batch = done(caller, json.dumps(records).encode(), "a.json", mapping=json.dumps(mapping))["batchId"]
    assert retry(caller, batch, {0: {"contact.phone": "11 91234-5001", "Name": "B"},
                                 1: {"PhoneNumber": "11 91234-5002"}}).status == 202
    assert over(caller, batch)["status"] == "Completed"
    got = sent(peer, batch)
    assert got[0]["PhoneNumber"] == "+5511912345001" and got[0]["LeadContextJson"]["Name"] == "B"
    assert got[1]["PhoneNumber"] == "+5511912345002"


BAD_RETRIES = [
    ({"items": {}}, ["items"]), ({"items": [1]}, ["items[0]"]), ({"items": [{"sequence": 1}]}, ["items[0]"]),
    ({"items": [{"values": {"A": "1"}}]}, ["items[0]"]), ({"items": [{"sequence": -1, "values": {"A": "1"}}]}, ["items[0]"]),
    ({"items": [{"sequence": 1, "values": {}}]}, ["items[0]"]), ({"items": [{"sequence": "x", "values": []}]}, ["items[0]"] * 2),
    ({"items": [{"sequence": 1, "values": {"Contato": "1"}}] * 2}, ["items[1].sequence"]),
    ({"items": [{"sequence": 0, "values": {"Contato": "1"}}, {"sequence": 99, "values": {"Contato": "1"}},
                {"sequence": 1, "values": {"Fone": "1", "Xyz": "2"}}, {"sequence": 2, "values": {"Contato": "1"}}]},
     ["items[0].sequence", "items[2].values", "items[2].values", "items[3].values", "items[1].sequence"]),
    ({"items": [{"sequence": i, "values": {"A": "1"}} for i in range(10001)]}, ["items"]),
]


@pytest.mark.parametrize("body,fields", BAD_RETRIES, ids=range(len(BAD_RETRIES)))
def test_bad_values_are_all_told_and_nothing_changes(peer, caller, body, fields):
    batch = done(caller, CSV, mapping=json.dumps(MAPPING))["batchId"]
    before = items(caller, batch)
    answer = caller.post(f"/imports/{batch}/retry", body)
    assert answer.status == 400, answer
    assert [e["field"] for e in answer.json["errors"]] == fields
    assert items(caller, batch) == before and caller.get(f"/imports/{batch}").json["attempt"] == 1


def test_a_retry_after_the_time_is_over_is_410(peer, caller, server):
    batch = done(caller, CSV, mapping=json.dumps(MAPPING))["batchId"]
    execute(server, f"UPDATE ImportBatch SET KeptUntil = '2020-01-01T00:00:00.000Z' WHERE Id = '{batch}'")
    answer = retry(caller, batch, {1: {"Contato": "11 91234-5001"}})
    assert answer.status == 410 and answer.json["code"] == "PayloadExpired"
    assert not caller.get(f"/imports/{batch}").json["canMend"]
    execute(server, f"DELETE FROM ImportKept WHERE BatchId = '{batch}'")
    execute(server, f"UPDATE ImportBatch SET KeptUntil = NULL WHERE Id = '{batch}'")
    assert retry(caller, batch, {1: {"Contato": "11 91234-5001"}}).code == "PayloadExpired"


# --- previews ----------------------------------------------------------------------------------------

def test_a_preview_shows_what_would_become_of_the_file(server, caller, peer):
    got = looked(caller, CSV, mapping=json.dumps(MAPPING))
    assert (got["format"], got["sheets"], got["sheet"], got["headerRow"]) == ("Csv", [], None, 1)
    assert (got["records"], got["complete"]) == (4, True)
    assert got["columns"] == [
        {"name": "Contato", "canonical": "PhoneNumber", "by": "mapping",
         "samples": ["11 91234-5678", "123", "11 91234-5679"]},
        {"name": "Cliente", "canonical": "Name", "by": "name", "samples": ["Ana", "Bia", "Caio", "Davi"]},
        {"name": "Obs", "canonical": "Notes", "by": "name", "samples": ["a", "b", "c", "d"]}]
    assert got["sample"][1] == {"row": 3, "values": {"Cliente": "Bia", "Obs": "b"}}
    assert [(p["reason"], p["count"], p["firstRow"], p["status"]) for p in got["problems"]] == [
        ("PhoneMissing", 1, 3, "Error"), ("PhoneTooShort", 1, 4, "Error")]
    assert got["checksum"] == hashlib.sha256(CSV).hexdigest() and got["duplicateOf"] is None
    assert caller.get("/imports").json["total"] == 0
    assert caller.request("PUT", f"/clients/{caller.id}/mapping", json={"mapping": MAPPING}).status == 200
    assert looked(caller, CSV)["columns"][0]["by"] == "client"


def test_a_preview_of_a_workbook(caller):
    data = workbook([["Fone", "Vazia", "Nome"], ["11 91234-5678", None, "Ana"]], title="Leads", before=1)
    got = looked(caller, data, "leads.xlsx")
    assert (got["format"], got["sheets"], got["sheet"], got["headerRow"]) == ("Excel", ["Leads", "Outra"], "Leads", 2)
    assert [c["name"] for c in got["columns"]] == ["Fone", "Vazia", "Nome"] and got["sample"][0]["row"] == 3
    assert looked(caller, data, "leads.xlsx", sheet="Outra")["sheet"] == "Outra"
    assert preview(caller, data, "leads.xlsx", sheet="Nope").status == 400
    assert preview(caller, data[:2000], "leads.xlsx", complete="false").status == 400


def test_a_preview_lists_nested_members_as_paths(caller):
    records = [{"contact": {"phone": "1", "home": {"city": "X"}}, "a.b": {"c": 1}, "list": [{"x": 1}]}]
    got = looked(caller, json.dumps(records).encode(), "a.json", mapping=json.dumps({"contact.phone": "PhoneNumber"}))
    assert [(c["name"], c["canonical"]) for c in got["columns"]] == [
        ("contact", None), ("contact.phone", "PhoneNumber"), ("contact.home.city", None), ("a.b", None), ("list", None)]
    values = got["sample"][0]["values"]
    assert list(values) == ["contact", "a.b", "list", "contact.phone", "contact.home.city"]
    assert (values["contact.phone"], values["contact.home.city"]) == ("1", "X")


def test_of_a_head_the_cut_record_is_ignored(caller):
    data = json.dumps([{"fone": "11 91234-5678", "nome": "Ana"}, {"fone": "11 91234-5679", "nome": "Bia"}]).encode()
    csv = b"fone;nome\n11 91234-5678;Ana\n11 91234-56"
    for name, head in (("a.json", data[:60]), ("a.csv", csv)):
        got = looked(caller, head, name, complete="false")
        assert (got["records"], got["complete"], got["problems"], got["checksum"]) == (1, False, [], None)
    for whole, name in ((data, "a.json"), (csv.rsplit(b"\n", 1)[0] + b"\n11 91234-5679;B\n", "a.csv")):
        assert looked(caller, whole, name)["complete"]
    assert looked(caller, data[:60], "a.json")["problems"][0]["reason"] == "FileUnreadable"


def test_more_than_the_head_is_only_hashed(caller):
    row = b"11 91234-5678;" + b"x" * 1000 + b"\n"
    data = b"fone;obs\n" + row * 6000
    got = looked(caller, data, complete="true")
    assert (got["records"], got["complete"]) == (1000, False)
    assert got["checksum"] == hashlib.sha256(data).hexdigest()
    long = b"fone;obs\n" + (b"1;" + b"x" * 900000 + b"\n") * 8
    got = looked(caller, long)
    assert (got["records"], got["complete"]) == (5, False) and len(got["columns"][1]["samples"][0]) == 80


def test_the_same_file_is_recognised(server, caller, peer):
    batch = done(caller, CSV, mapping=json.dumps(MAPPING))
    same = looked(caller, CSV)["duplicateOf"]
    assert same == {k: batch[k] for k in ("batchId", "fileName", "createdAt", "status")}
    sum_ = hashlib.sha256(CSV).hexdigest().upper()
    assert looked(caller, CSV[:30], complete="false", checksum=sum_)["duplicateOf"] == same
    assert looked(caller, CSV[:30], complete="false")["duplicateOf"] is None
    assert looked(server.new_client(scopes=["imports"]), CSV)["duplicateOf"] is None


BAD_PREVIEWS = [
    ({"data": b"%PDF-1.4"}, 415, None), ({"data": b""}, 400, "file"), ({"data": None}, 400, "file"),
    ({"data": CSV, "checksum": "x"}, 400, "checksum"), ({"data": CSV, "checksum": "g" * 64}, 400, "checksum"),
    ({"data": CSV, "complete": "maybe"}, 400, "complete"), ({"data": CSV, "name": "a.json"}, 415, None),
    ({"data": CSV, "sheet": "s" * 101}, 400, "sheet"),
]


@pytest.mark.parametrize("fields,status,field", BAD_PREVIEWS, ids=range(len(BAD_PREVIEWS)))
def test_a_bad_preview_is_told(caller, fields, status, field):
    answer = preview(caller, **{"name": "a.csv", **fields})
    assert answer.status == status, answer
    assert field is None or [e["field"] for e in answer.json["errors"]] == [field]


def test_the_policy_holds_for_previews(server, caller):
    policy(server, caller, maxFileSizeMb=1)
    assert preview(caller, b"fone\n" + b"1\n" * (1 << 20)).status == 409
    assert caller.get("/imports").json["total"] == 0
    policy(server, caller, maxBatchPerDay=1)
    assert preview(caller, CSV).status == 200 and preview(caller, CSV).status == 200
    taken(upload(caller, CSV, "a.csv"))
    assert preview(caller, CSV).code == "MaxBatchPerDay"
    assert server.new_client(scopes=["interface"]).request("POST", "/imports/preview", b"x").status == 403


def test_a_preview_leaves_no_file_behind(server, caller):
    data = server.directory / "data"
    before = set(data.rglob("*"))
    looked(caller, workbook([["Fone"], ["1"]]), "a.xlsx")
    assert set(data.rglob("*")) <= before  # what an earlier batch left may go meanwhile


# --- a batch as it is seen ---------------------------------------------------------------------------

def test_a_report_uploaded_again_has_the_columns_of_the_file(peer, caller):
    batch = done(caller, CSV, mapping=json.dumps(MAPPING))["batchId"]
    for kind in ("csv", "json", "xlsx"):
        report = caller.get(f"/imports/{batch}/errors.{kind}").body
        columns = [c["name"] for c in looked(caller, report, f"a.{kind}")["columns"]]
        assert columns == ["Contato", "Cliente", "Obs"] or (kind == "json" and set(columns) == {"Contato", "Cliente", "Obs"})


def test_a_batch_in_line_says_its_place(server, peer, caller):
    hold = []
    peer.answer = lambda request: (202, {"ackId": "a" + request.batch}) if not hold.append(1) else None
    row = b"fone\n11 91234-5678\n"
    first = taken(upload(caller, row, "1.csv"))
    wait_for(lambda: hold, "the first chunk")
    second, third = taken(upload(caller, row, "2.csv")), taken(upload(caller, row, "3.csv"))
    got = caller.get(f"/imports/{third}").json
    assert got["waitingFor"] == "Worker" and got["canCancel"]
    assert (got["waiting"]["code"], got["waiting"]["place"], got["waiting"]["behind"]) == ("InLine", 2, second)
    assert caller.get(f"/imports/{second}").json["waiting"]["behind"] == first
    admin = server.admin().get(f"/admin/imports/{first}").json
    assert admin["waiting"]["code"] == "Ack" and admin["remainingSeconds"] is None
    acks = server.new_client(scopes=["acks"])
    peer.answer = lambda request: 200
    for batch in (first,):
        assert acks.post(f"/imports/{batch}/acks", {"ackId": "a" + batch, "chunkId": 1, "status": "Imported"}).status == 200
    for batch in (first, second, third):
        assert over(caller, batch)["waiting"] is None


def test_the_rate_and_the_time_that_is_left_are_told_while_it_works(peer, caller):
    peer.answer = lambda request: time.sleep(0.15) or 200
    rows = "".join(f"11 9{i}-0000\n" for i in range(1000, 1800))
    batch = taken(upload(caller, ("fone\n" + rows).encode(), "a.csv"))
    seen = []

    def is_over():
        seen.append(caller.get(f"/imports/{batch}").json)
        return seen[-1]["status"] in ENDS

    wait_for(is_over, "the end of the batch")
    told = [b for b in seen if b["rowsPerSecond"]]
    assert told and all(0 < b["rowsPerSecond"] <= 800 for b in told), "at most 40 records in 0.15 s"
    for b in told:
        left = b["totalRecords"] - b["processedRecords"]
        assert b["remainingSeconds"] == -(-left // b["rowsPerSecond"])
    assert seen[-1]["rowsPerSecond"] is None and seen[-1]["remainingSeconds"] is None


def half_preview(caller):
    """A preview whose body has not arrived yet."""
    body, kind = multipart(CSV, "a.csv")
    connection = caller.connect()
    connection.putrequest("POST", "/imports/preview")
    for name, value in {**caller.headers, "Content-Type": kind, "Content-Length": len(body)}.items():
        connection.putheader(name, str(value))
    connection.endheaders()
    connection.send(body[:200])
    return connection, body[200:]


def test_previews_of_a_client_have_a_bound(server, caller):
    held = [half_preview(caller) for _ in range(4)]
    try:
        wait_for(lambda: caller.get(f"/clients/{caller.id}/usage").json["uploads"]["inProgress"] == 4, "four previews")
        answer = preview(caller, CSV)
        assert answer.status == 429 and int(answer.headers["Retry-After"]) > 0
        assert preview(server.new_client(scopes=["imports"]), CSV).status == 200
        assert taken(upload(caller, CSV, "a.csv"))
        for connection, rest in held:
            connection.send(rest)
            assert caller.read(connection).status == 200
    finally:
        for connection, _ in held:
            connection.close()
    assert preview(caller, CSV).status == 200
