"""Every call of console/openapi.json is made, with the examples that the document gives; answers are validated against it.

A call is made for each example of its body, or once. Values in its path are those of documents that the test has made
(WORLD); where there is none, that of the parameter's example, or something that does not exist. A call that names only what
exists must succeed; any other must fail as the document says. So a call that is new in the document is tried here too.
"""

import datetime
import json
import re
import subprocess
import uuid
from urllib.parse import quote, urlencode

import pytest
from harness import ROOT, Http, Server, npm_locked, wait_for
from test_openapi import OPERATIONS, resolve
from test_sandbox import Sandbox

HERE = ROOT / "tests/openapi"
NOTHING = {"string": "nothing", "integer": "999999999"}
# What must be said beside the path and the body, and a second thing for calls that need to be told what to find.
QUERIES = {
    "findTickets": {"businessEntity": "TCK", "businessDocId": "TCK_0001"},
    "settleCounterparty": {"businessDocId": "CP_0001"},
    "getCounterparties": {"businessDocId": "CP_0001"},
    "getFunctionalAcks": {"businessDocId": "CP_0001"},
    "replayWebhookFailures": {"since": "2026-01-01T00:00:00Z"},
    "replayWebhook": {"since": "2026-01-01T00:00:00Z"},
    "search": {"q": "TCK_0001"},
    "searchOwn": {"q": "TCK_0001"},
    "findSubject": {"phone": "(11) 98765-4321"},
    "getSeries": {"metric": "delivered"},
    "getOwnSeries": {"metric": "delivered"},
}
# Calls that cannot succeed here, though what they name exists: the status, and why.
OTHERWISE = {
    "postImportAck": (404, "the sandbox has told of the chunk already"),
    "dismissTicket": (409, "it was processed"),
    "cancelImport": (409, "it has ended"),
    "cancelOperatorImport": (409, "it has ended"),
    "retryImport": (409, "nothing of it failed"),
    "retryOperatorImport": (409, "nothing of it failed"),
    "releaseImport": (409, "it has ended, and has no lock"),
    "optionsIntegration": (405, "the sandbox does not know the method"),
    "optionsIntegrationPath": (405, "the sandbox does not know the method"),
}


def values_of(parameters, place):
    return [p for p in (resolve(p["$ref"]) if "$ref" in p else p for p in parameters) if p["in"] == place]


class World:
    """A server with something of everything in it."""

    def __init__(self, server, sandbox):
        self.server = server
        self.admin = server.admin()
        self.client = server.new_client("Exemplo", clientId="exemplo")
        self.sandbox = sandbox

    def fresh_client(self):
        return self.server.new_client("Outro")

    def webhook(self):
        made = self.client.post(f"/clients/{self.client.id}/webhooks", {"url": f"{self.sandbox}/webhooks/{uuid.uuid4()}", "events": ["BatchCompleted"],
                                                                          "autoRotate": True})
        assert made.status == 201, made
        return made.json["id"]

    def batch(self, state="Completed"):
        made = self.client.post("/imports", {"fileName": "leads.csv", "contentType": "text/csv", "originDefault": "Site",
                                             "file": "dGVsZWZvbmU7bm9tZQo1MTk5OTk5MDAwMDtBbmEK"})
        assert made.status == 202, made
        batch = made.json["batchId"]
        wait_for(lambda: self.client.get(f"/imports/{batch}").json["status"] == state, f"that a batch is {state}")
        return batch

    def ticket(self):
        made = self.client.post("/api/tickets", {"businessEntity": "TCK", "businessDocId": f"T_{uuid.uuid4().hex[:12]}", "companyCode": "0050",
                                                 "branchCode": "1", "destinationCode": "D7", "phaseCode": 15, "shipmentEvent": "RCD",
                                                 "targetApplicationCode": "ASB"})
        assert made.status == 200, made
        return made.json["id"]

    def counterparty(self):
        made = self.client.post("/api/counterparties", {"businessDocId": f"C_{uuid.uuid4().hex[:12]}", "businessEntity": "PRC", "entityType": "CLI",
                                                        "counterpartyId": "1", "name": "Comércio", "functionalAckIsRequired": False})
        assert made.status == 200, made
        return made.json["id"]

    def outbox_row(self):
        self.ticket()
        return wait_for(lambda: self.admin.get("/admin/outbox/ticket-return").json["items"], "a row of the outbox")[0]["id"]


# By the beginning of the path and the parameter: what makes or knows a value.
WORLD = [
    (r"/console/", "file", lambda w: "app.css"),
    (r"/admin/clients/", "clientId", lambda w: w.fresh_client().id),
    (r"/clients/\{clientId\}/", "clientId", lambda w: w.client.id),
    (r"/clients/\{clientId\}/webhooks/", "id", World.webhook),
    (r"/imports/", "batchId", World.batch),
    (r"/admin/imports/", "batchId", World.batch),
    (r"/api/tickets/", "id", World.ticket),
    (r"/admin/tickets/", "id", World.ticket),
    (r"/admin/counterparties/", "id", World.counterparty),
    (r"/admin/outbox/\{channel\}", "channel", lambda w: "ticket-return"),
    (r"/admin/outbox/\{channel\}/\{id\}$", "id", World.outbox_row),
    (r"/admin/timeline/", "kind", lambda w: "ticket"),
    (r"/admin/timeline/", "id", World.ticket),
    (r"/integrations/", "name", lambda w: "payment"),
    (r"/integrations/", "path", lambda w: "charges"),
]


class Call:
    """One call as the document says: how it was made, and its answer."""

    def __init__(self, world, method, path, operation, content_type, body):
        self.operation = operation
        self.method, self.path = method, path
        self.knows_all = True
        target = re.sub(r"\{(\w+)\}", lambda m: quote(str(self.value(world, m[1])), safe=""), path)
        query = QUERIES.get(operation["operationId"], {})
        target += "?" + urlencode(query) if query else ""
        headers = {"Content-Type": content_type} if body is not None else {}
        if body:
            body = body.replace(b"https://store.example", world.sandbox.encode())  # a host that can be found
            soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
            body = re.sub(rb'"until": "[^"]*"', f'"until": "{soon:%Y-%m-%dT%H:%M:%SZ}"'.encode(), body)  # not in the past
        if operation["operationId"] == "settleCounterparty":
            headers["If-Match"] = world.client.get(target).headers["ETag"]
        caller = world.client if {"ClientId"} & {name for one in operation["security"] for name in one} else world.admin
        self.answer = self.watch(caller, target) if self.is_stream() else caller.request(method.upper(), target, body, headers)

    def value(self, world, name):
        for beginning, known, make in WORLD:
            if name == known and re.match(beginning, self.path):
                return make(world)
        self.knows_all = False
        parameter = next(p for p in values_of(self.operation["parameters"], "path") if p["name"] == name)
        return parameter.get("example") or NOTHING[parameter["schema"].get("type", "string")]

    def is_stream(self):
        return "text/event-stream" in self.operation["responses"].get("200", {}).get("content", {})

    @staticmethod
    def watch(caller, target):
        """A batch that has ended: the stream tells it and ends too."""
        return caller.get(target, headers={"Accept": "text/event-stream"})

    def described(self):
        """The answer's description: of its status, or of any other failure."""
        responses = self.operation["responses"]
        status = str(self.answer.status)
        if status not in responses and self.answer.status >= 400:
            status = "default"
        elif "integrations" in self.operation["tags"]:
            status = "200"  # for whatever the other system answers
        assert status in responses, f"{self.answer} is not described"
        pointer = ["paths", self.path, self.method, "responses", status]
        if "$ref" in responses[status]:
            return responses[status]["$ref"], resolve(responses[status]["$ref"])
        return "#/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in pointer), responses[status]

    def to_validate(self):
        """For the validator: where the schema stands, and the value. None if the answer is no JSON."""
        where, response = self.described()
        content = response.get("content", {})
        kind = (self.answer.headers["Content-Type"] or "").split(";")[0]
        if "integrations" in self.operation["tags"] and not content:
            return None  # the other system's
        if not self.answer.body:
            assert not content or self.method == "head" or self.answer.status == 204, self.answer
            return None
        described = kind if kind in content else "*/*" if "*/*" in content else None
        assert described, f"{self.method} {self.path}: {kind} is not described, only {list(content)}"
        if not kind.endswith("json") or "schema" not in content[described]:
            return None
        pointer = f"{where}/content/{described.replace('~', '~0').replace('/', '~1')}/schema"
        return {"name": f"{self.method.upper()} {self.path} {self.answer.status}", "schema": quote(pointer, safe="#/~{}*+.-"), "value": self.answer.json}


def bodies(operation):
    """Content type and bytes of every example."""
    content = operation.get("requestBody", {}).get("content", {})
    found = []
    for kind, media in content.items():
        examples = [media["example"]] if "example" in media else [one["value"] for one in media.get("examples", {}).values()]
        if kind == "application/json":
            found += [(kind, json.dumps(example).encode()) for example in examples]
        elif kind == "*/*":
            found.append(("application/json", b'{"amount":"15.90"}'))
    return found or [(None, None)]


def order(operation):
    """What makes documents, before what needs them; what ends them last."""
    method, path, _ = operation
    return ({"post": 0, "put": 1, "patch": 2, "get": 3, "head": 3, "options": 3, "delete": 4}[method], path.count("{") if method == "post" else 0)


def configuration(url):
    return {"gateway": {"functional_ack_url": f"{url}/gateway/functional-ack", "ticket_return_url": f"{url}/gateway/ticket-return",
                        "ticket_send_url": f"{url}/gateway/ticket", "api_key": "k"},
            "omniflow": {"url": url, "api_key": "k"}, "imports": {"poll_ms": 20}, "delivery": {"allow_private_targets": "on"},
            "alerts": {"teams_url": f"{url}/webhooks/teams"}, "integration.payment": {"base_url": f"{url}/payments/shop"}}


@pytest.fixture(scope="module")
def calls(_module_backends, tmp_path_factory):
    """All calls, made in an order in which each finds what it needs."""
    sandbox = Sandbox(tmp_path_factory.mktemp("sandbox"), "--no-record")
    url = "http://{}:{}".format(*sandbox.host_port)
    server = Server(_module_backends(), tmp_path_factory.mktemp("server"), config=configuration(url))
    try:
        world = World(server.start(), url)
        yield {operation["operationId"]: [Call(world, method, path, operation, *body) for body in bodies(operation)]
               for method, path, operation in sorted(OPERATIONS, key=order)}
    finally:
        server.finish()
        sandbox.finish()


@pytest.mark.parametrize("name", [operation["operationId"] for _, _, operation in OPERATIONS])
def test_a_call_is_answered_as_described(calls, name):
    for call in calls[name]:
        assert call.described()
        if name in OTHERWISE:
            assert call.answer.status == OTHERWISE[name][0], call.answer
        elif call.knows_all:
            assert call.answer.status < 400, call.answer
        for header in call.described()[1].get("headers", {}):
            if header in ("X-Correlation-Id", "traceparent"):
                assert call.answer.headers[header], header


def test_answers_are_valid_by_their_schemas(calls):
    answers = [one for made in calls.values() for call in made if (one := call.to_validate())]
    assert len(answers) > 80
    assert validate(answers) == []


def test_the_validator_finds_what_is_wrong():
    """Else nothing above would tell anything."""
    wrong = [{"name": "a", "schema": "#/components/schemas/Health", "value": {"status": "ok", "version": 1, "uptimeSeconds": 1}},
             {"name": "b", "schema": "#/components/schemas/Health", "value": {"version": "1"}},
             {"name": "c", "schema": "#/components/schemas/Problem", "value": {"type": "x", "title": "x", "status": 200, "code": "bad", "correlationId": "x"}}]
    assert {line.split(":")[0] for line in validate(wrong)} == {"a", "b", "c"}


def validate(answers):
    done = subprocess.run(["node", HERE / "validate.cjs", npm_locked("openapi", HERE), ROOT / "console/openapi.json"], input=json.dumps(answers),
                          capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
