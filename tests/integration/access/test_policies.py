"""Policies of clients, over HTTP and from the terminal. What they mean for an upload: unit/imports/policy_test.c."""

import json
import re
import threading

import pytest
from harness import ADMIN_KEY, ROOT, run
from test_openapi import DOCUMENT, check

DEFAULTS = {
    "maxFileSizeMb": None, "maxBatchPerDay": None, "allowedStartHour": None, "allowedEndHour": None,
    "requireSchedulingForLarge": False, "largeThresholdMb": None, "batchSize": None, "requestsPerMinute": None,
    "concurrentUploads": None, "businessHoursOnly": None, "businessStartHour": None, "businessEndHour": None,
    "maintenanceWindow": None, "tempStorageQuotaMb": None, "maxConcurrentBatches": None, "maxRecords": None,
}
FULL = {
    "maxFileSizeMb": 50, "maxBatchPerDay": 20, "allowedStartHour": 22, "allowedEndHour": 6,
    "requireSchedulingForLarge": True, "largeThresholdMb": 0, "batchSize": 100, "requestsPerMinute": 600,
    "concurrentUploads": 2, "businessHoursOnly": False, "businessStartHour": 0, "businessEndHour": 24,
    "maintenanceWindow": "Sat,Sun 22:00-06:00; 2026-11-20T02:00Z/2026-11-20T04:00Z", "tempStorageQuotaMb": 500,
    "maxConcurrentBatches": 3, "maxRecords": 5000,
}
METHODS = ("GET", "PUT", "PATCH", "DELETE")


class Policy:
    def __init__(self, server, client_id=None):
        self.server = server
        self.admin = server.admin()
        self.id = client_id or server.new_client().id
        self.path = f"/admin/clients/{self.id}/policy"

    def get(self):
        answer = self.admin.get(self.path)
        assert answer.status == 200, answer
        return answer.json

    def values(self):
        return {name: value for name, value in self.get().items() if name in DEFAULTS}

    def put(self, body):
        return self.admin.request("PUT", self.path, json=body)

    def patch(self, body):
        return self.admin.patch(self.path, body)

    def audit(self):
        return [row for row in self.admin.get("/admin/audit?pageSize=200").json["items"] if row["target"] == self.id]


@pytest.fixture
def policy(server):
    return Policy(server)


# --- reading -----------------------------------------------------------------------------------------


def test_without_a_policy_all_is_the_default(policy):
    assert policy.get() == {"clientId": policy.id, **DEFAULTS, "createdAt": None, "updatedAt": None}


def test_the_answer_is_as_documented(policy):
    schema = DOCUMENT["components"]["schemas"]["Policy"]
    check(policy.get(), schema, "defaults")
    check(policy.put(FULL).json, schema, "full")
    assert set(DOCUMENT["components"]["schemas"]["PolicyChange"]["properties"]) == set(DEFAULTS)
    for method in ("put", "patch"):
        operation = DOCUMENT["paths"]["/admin/clients/{clientId}/policy"][method]
        example = operation["requestBody"]["content"]["application/json"]["example"]
        assert policy.admin.request(method.upper(), policy.path, json=example).status == 200


def test_the_pages_table_is_what_is_taken(policy):
    """docs/policies.md, the OpenAPI document and the server name the same members and ranges."""
    page = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([A-Z]\w+) \| ([^|]+) \|", page, re.M)
    assert [name for name, _, _ in rows] == list(DEFAULTS)
    for name, column, values in rows:
        assert column == name[0].upper() + name[1:]
        numbers = re.fullmatch(r"(\d+)–(\d+)", values.strip())
        if not numbers:
            continue
        least, most = map(int, numbers.groups())
        schema = DOCUMENT["components"]["schemas"]["PolicyChange"]["properties"][name]
        assert (schema["minimum"], schema["maximum"]) == (least, most)
        statuses = [policy.patch({name: n}).status for n in (least - 1, least, most, most + 1)]
        assert statuses == [400, 200, 200, 400], name


# --- changing ----------------------------------------------------------------------------------------


def test_put_changes_what_is_given_too(policy):
    answer = policy.put(FULL)
    assert answer.status == 200 and answer.json == policy.get()
    assert policy.values() == FULL
    assert answer.json["createdAt"] == answer.json["updatedAt"] is not None
    again = policy.put({"batchSize": 7}).json
    assert policy.values() == {**FULL, "batchSize": 7}
    assert again["createdAt"] == answer.json["createdAt"] and again["updatedAt"] >= answer.json["updatedAt"]
    assert policy.put({}).status == 200 and policy.values() == {**FULL, "batchSize": 7}


def test_patch_changes_what_is_given_and_null_clears(policy):
    policy.put(FULL)
    answer = policy.patch({"maxFileSizeMb": 5, "maintenanceWindow": None, "requireSchedulingForLarge": None})
    assert answer.status == 200
    assert policy.values() == {**FULL, "maxFileSizeMb": 5, "maintenanceWindow": None,
                               "requireSchedulingForLarge": False}
    assert policy.patch({}).status == 200
    assert policy.patch({"maintenanceWindow": ""}).status == 200
    assert policy.values()["maxFileSizeMb"] == 5


def test_delete_goes_back_to_the_defaults(policy):
    policy.put(FULL)
    for _ in range(2):
        answer = policy.admin.request("DELETE", policy.path)
        assert (answer.status, answer.body) == (204, b"")
        assert policy.get() == {"clientId": policy.id, **DEFAULTS, "createdAt": None, "updatedAt": None}
    assert policy.patch({"batchSize": 3}).json["batchSize"] == 3, "and there may be one again"


def test_what_was_shown_may_be_sent_back(policy):
    policy.put(FULL)
    shown = policy.get()
    assert policy.put(shown).json == shown
    assert policy.patch(shown).json == shown
    answer = policy.put({**shown, "clientId": "somebody-else"})
    assert (answer.status, answer.bad_fields) == (400, {"clientId"})


def test_values_are_read_leniently(policy):
    answer = policy.put({"MAXFILESIZEMB": "12", "BusinessHoursOnly": "on", "requireschedulingforlarge": 1,
                         "batchSize": 5.0, "maintenanceWindow": "  02:00-04:00 "})
    assert answer.status == 200, answer
    assert policy.values() == {**DEFAULTS, "maxFileSizeMb": 12, "businessHoursOnly": True,
                               "requireSchedulingForLarge": True, "batchSize": 5, "maintenanceWindow": "02:00-04:00"}


def test_clients_have_policies_of_their_own(server):
    one, other = Policy(server), Policy(server)
    one.put(FULL)
    assert other.values() == DEFAULTS
    other.put({"batchSize": 9})
    assert one.values() == FULL


BAD = [
    ({"maxFileSizeMb": 0}, {"maxFileSizeMb"}),
    ({"maxFileSizeMb": -1}, {"maxFileSizeMb"}),
    ({"maxFileSizeMb": 1.5}, {"maxFileSizeMb"}),
    ({"maxFileSizeMb": 1e300}, {"maxFileSizeMb"}),
    ({"maxFileSizeMb": 1048577}, {"maxFileSizeMb"}),
    ({"maxFileSizeMb": True}, {"maxFileSizeMb"}),
    ({"maxFileSizeMb": [1]}, {"maxFileSizeMb"}),
    ({"maxFileSizeMb": {}}, {"maxFileSizeMb"}),
    ({"maxFileSizeMb": "1 000"}, {"maxFileSizeMb"}),
    ({"allowedStartHour": 24}, {"allowedStartHour"}),
    ({"allowedEndHour": 25}, {"allowedEndHour"}),
    ({"businessStartHour": 24, "businessEndHour": 25}, {"businessStartHour", "businessEndHour"}),
    ({"requireSchedulingForLarge": "perhaps"}, {"requireSchedulingForLarge"}),
    ({"businessHoursOnly": 2}, {"businessHoursOnly"}),
    ({"maintenanceWindow": "Sunday"}, {"maintenanceWindow"}),
    ({"maintenanceWindow": "02:00-02:00"}, {"maintenanceWindow"}),
    ({"maintenanceWindow": "02:00-04:00;" * 8 + "02:00-04:0"}, {"maintenanceWindow"}),
    ({"maintenanceWindow": "2026-11-20T04:00Z/2026-11-20T02:00Z"}, {"maintenanceWindow"}),
    ({"maintenanceWindow": "2026-11-20T02:00Z/2026-11-20T04:00Z;" * 3}, {"maintenanceWindow"}),
    ({"maintenanceWindow": 5}, {"maintenanceWindow"}),
    ({"maxFileSize": 5}, {"maxFileSize"}),
    ({"maxBatchPerDay": 5, "colour": "red", "size": 3}, {"colour", "size"}),
    ({"batchSize": 5, "BatchSize": 6}, {"batchSize"}),
    ({"clientId": None}, {"clientId"}),
    ({"x" * 500: 1}, {"x" * 60}),
]


@pytest.mark.parametrize("body,fields", BAD, ids=[json.dumps(body)[:50] for body, _ in BAD])
def test_bad_values_are_named_and_change_nothing(policy, body, fields):
    policy.put({"batchSize": 1})
    before = policy.get()
    for change in (policy.put, policy.patch):
        answer = change(body)
        assert (answer.status, answer.code, answer.bad_fields) == (400, "ValidationFailed", fields)
    assert policy.get() == before


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b'{"batchSize":1,"batchSize":2}', b'{"batchSize":"\xff"}'])
def test_bodies_that_are_no_object_are_refused(policy, body):
    for method in ("PUT", "PATCH"):
        assert policy.admin.request(method, policy.path, body=body).status == 400
    assert policy.values() == DEFAULTS


def test_an_unknown_client_is_404(server):
    nobody = Policy(server, "nobody")
    for method in METHODS:
        answer = nobody.admin.request(method, nobody.path, **({"json": FULL} if method in ("PUT", "PATCH") else {}))
        assert (answer.status, answer.code) == (404, "NotFound")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("key", [None, "wrong", ADMIN_KEY + "x"])
def test_policies_are_the_administrators(server, policy, method, key):
    answer = server.anonymous().request(method, policy.path, headers={"X-Admin-Key": key})
    assert (answer.status, answer.code) == (401, "Unauthorized")
    assert server.new_client().request(method, policy.path).status == 401


def test_changes_leave_audit_rows(policy):
    policy.put({"maxFileSizeMb": 10})
    policy.patch({"maxFileSizeMb": 10})  # changes nothing
    policy.patch({"maxFileSizeMb": 20, "businessHoursOnly": True})
    policy.admin.request("DELETE", policy.path)
    rows = policy.audit()
    assert [row["action"] for row in rows] == ["PolicyReset", "PolicyChanged", "PolicyChanged", "ClientCreated"]
    assert [row.get("details") for row in rows[:3]] == [
        {"maxFileSizeMb": {"from": 20, "to": None}, "businessHoursOnly": {"from": True, "to": None}},
        {"maxFileSizeMb": {"from": 10, "to": 20}, "businessHoursOnly": {"from": None, "to": True}},
        {"maxFileSizeMb": {"from": None, "to": 10}},
    ]
    assert all(row["actor"] == "admin" and row["ip"] for row in rows)


def test_changes_at_the_same_time_are_all_kept(policy):
    """Each thread sets another member of a new policy: there is one row, and it has every change."""
    for _ in range(5):
        policy.admin.request("DELETE", policy.path)
        answers = []

        def set_one(name, answers=answers):
            answers.append(Policy(policy.server, policy.id).patch({name: FULL[name]}))

        threads = [threading.Thread(target=set_one, args=(name,)) for name in FULL]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [answer.status for answer in answers] == [200] * len(FULL)
        assert policy.values() == FULL


# --- the terminal ------------------------------------------------------------------------------------


def test_the_command_line_shows_what_the_api_shows(server, policy):
    policy.put(FULL)
    done = server.cli("policy", "show", policy.id, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == policy.get()
    head, *lines = server.cli("policy", "show", policy.id).stdout.splitlines()
    assert head.split() == ["POLICY", "VALUE", "MEANING"]
    shown = {line.split()[0]: line.split()[1] for line in lines}
    assert len(lines) == len(DEFAULTS)
    assert shown["MaxFileSizeMb"] == "50" and shown["RequireSchedulingForLarge"] == "true"
    policy.patch({"maxFileSizeMb": None})
    assert "MaxFileSizeMb               - " in server.cli("policy", "show", policy.id).stdout


def test_the_command_line_sets_by_either_name_and_clears(server, policy):
    policy.put({"batchSize": 5, "concurrentUploads": 2, "allowedStartHour": 3})
    done = server.cli("policy", "set", policy.id, "maxFileSizeMb=10", "MaintenanceWindow=Sun 02:00-04:00", "batchSize=",
                      "concurrentUploads=none", "BusinessHoursOnly=true", "--json")
    assert done.returncode == 0, done.stderr
    assert policy.values() == {**DEFAULTS, "maxFileSizeMb": 10, "maintenanceWindow": "Sun 02:00-04:00",
                               "businessHoursOnly": True, "allowedStartHour": 3}
    assert json.loads(done.stdout) == policy.get()
    row = policy.audit()[0]
    assert row["action"] == "PolicyChanged" and row["actor"].startswith("cli:")


@pytest.mark.parametrize("args,status,words", [
    (("show",), 2, "usage"),
    (("show", "x", "y"), 2, "usage"),
    (("set", "CLIENT"), 2, "usage"),
    (("forget", "CLIENT"), 2, "usage"),
    ((), 2, "usage"),
    (("set", "CLIENT", "batchSize"), 2, "key=value"),
    (("set", "CLIENT", "colour=red"), 2, 'no policy "colour"'),
    (("set", "CLIENT", "batchSize=0"), 2, "batchSize must be a whole number from 1 to 10000"),
    (("set", "CLIENT", "batchSize=1", "BatchSize=2"), 2, "batchSize is given twice"),
    (("set", "CLIENT", "batchSize=1", "maintenanceWindow=x"), 2, "maintenanceWindow must be windows"),
    (("show", "nobody"), 1, 'no client "nobody"'),
    (("set", "nobody", "batchSize=1"), 1, 'no client "nobody"'),
])
def test_the_command_line_refuses_what_it_cannot_do(server, policy, args, status, words):
    done = server.cli("policy", *(policy.id if arg == "CLIENT" else arg for arg in args))
    assert (done.returncode, done.stdout) == (status, "") and words in done.stderr, done
    assert policy.values() == DEFAULTS


def test_help_lists_the_keys():
    text = run("help", "policy").stdout
    for name in DEFAULTS:
        assert f"  {name}: " in text
