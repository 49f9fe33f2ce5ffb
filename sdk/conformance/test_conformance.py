"""Every scenario of scenarios.json, with every SDK, against a server on every database; and that nothing is left out."""

import datetime
import json
import os
import re
import urllib.request
import uuid
from pathlib import Path

import pg
import pytest
from harness import ADMIN_KEY, ROOT, SCOPES, Backend, Server
from test_sandbox import Sandbox
from world import Driver, Proxy, Receiver, differs, fill, pick, until

HERE = Path(__file__).parent
TABLE = json.loads((HERE / "scenarios.json").read_text(encoding="utf-8"))
DRIVERS = {"node": ["node", HERE.parent / "node/conformance/driver.mjs"], "dotnet": [HERE.parent / "dotnet/conformance/run"]}
DRIVERS = {name: command for name, command in DRIVERS.items() if Path(command[-1]).exists()}
# By which a server is made again, not waited for.
QUICK = {"retries": 5, "retryBaseMs": 20, "retryCapMs": 200, "timeoutMs": 30000}
READER_KEY = "reader-key-of-the-tests-4711"
# Every error of the server's table, with its status.
ERRORS = {code: int(status) for code, status in
          re.findall(r'X\(DF_\w+,\s+"(\w+)",\s+(\d+)', (ROOT / "src/base/err.h").read_text(encoding="utf-8")) if int(status) >= 400}


def anonymous(operation):
    return re.sub(r"\{\w+\}", "{}", operation)


def calls(scenario):
    return [(step["call"], step.get("args", {}).get("method", "GET"), bool(step.get("args", {}).get("path")))
            for step in scenario["steps"] if "call" in step]


def may_be_sent_again(status):
    """README.md has the rule; this is of a call that may be repeated."""
    return status in (408, 429) or (status >= 500 and status not in (501, 505))


def type_of(sdk, status):
    """The class that an SDK makes of a status."""
    types = TABLE["types"]
    return types.get(str(status), types[f"{status // 100}xx"])[sdk]


def codes_of_examples(api):
    contents = (response.get("content", {}) for response in api["components"]["responses"].values())
    return {content["example"]["code"] for types in contents for kind, content in types.items()
            if kind == "application/problem+json" and "example" in content}


def refusals():
    """Steps in which the server itself, not the proxy, answers with an error."""
    for scenario in TABLE["scenarios"]:
        for step in scenario["steps"]:
            if step.get("error", {}).get("kind") == "problem" and not step.get("as", "").startswith("proxied"):
                yield step["error"]


class World:
    """A server with all that is around it, for the scenarios of one database."""

    def __init__(self, name, directory):
        self.sandbox = Sandbox(directory)
        self.receiver = Receiver()
        self.proxy = Proxy()
        self.backend = Backend(name, directory / "database")
        self.sandbox_url = "http://{}:{}".format(*self.sandbox.host_port)
        config = fill(TABLE["server"], {"sandbox": self.sandbox_url, "receiver": self.receiver.url, "readerKey": READER_KEY, "port": pg.free_port()})
        self.server = Server(self.backend, directory / "server", config=config).start()
        self.proxy.target = self.server.host_port
        self.api = self.server.anonymous().get("/openapi.json").json
        self.operations = {anonymous(f"{method.upper()} {path}") for path, item in self.api["paths"].items()
                           for method in item if method in ("get", "post", "put", "patch", "delete")}

    def close(self):
        self.proxy.close()
        self.receiver.close()
        try:
            self.server.finish()
        finally:
            self.sandbox.finish()
            self.backend.drop()


@pytest.fixture(scope="module")
def world(backend_name, tmp_path_factory):
    made = World(backend_name, tmp_path_factory.mktemp("world"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def drivers(tmp_path_factory):
    made = {}

    def get(name):
        if name not in made or made[name].process.poll() is not None:
            made[name] = Driver(name, [str(word) for word in DRIVERS[name]], tmp_path_factory.mktemp(name) / "log")
        return made[name]

    yield get
    for driver in made.values():
        driver.close()


class Run:
    """One scenario with one SDK."""

    def __init__(self, world, driver, directory):
        self.world, self.driver, self.directory = world, driver, directory
        self.background = {}
        self.unique = uuid.uuid4().hex[:12]
        caller = world.server.new_client(f"Conformance {self.unique}")
        self.names = {"unique": self.unique, "clientId": caller.id, "clientSecret": caller.secret, "adminKey": ADMIN_KEY, "scopes": SCOPES,
                      "readerKey": READER_KEY, "proxy": world.proxy.url, "receiver": world.receiver.url, "sandbox": world.sandbox_url, "bigBytes": 0,
                      "number": int(self.unique[:7], 16), "phone": f"+55119{int(self.unique[:8], 16) % 10**8:08d}"}
        now = datetime.datetime.now(datetime.timezone.utc)
        hour = lambda minutes: (now + datetime.timedelta(minutes=minutes))  # noqa: E731
        self.names |= {"laterHour": hour(360).hour, "laterHourEnd": hour(420).hour, "tomorrow": hour(1440).strftime("%Y-%m-%dT%H:%M:%SZ"),
                       "nowWindow": f"{hour(-60):%H:%M}-{hour(60):%H:%M}", "twoMegabytes": "x" * (2 << 20), "longText": "x" * 300,
                       "longPath": "x" * 9000, "longHeader": "x" * 20000, "deep": json.loads("[" * 80 + "]" * 80)}
        world.proxy.reset()
        self.made = set()

    def client(self, name):
        """Makes it when a step first names it: `client` and `admin`, or one of the scenario's own."""
        if name not in self.made:
            own = {"clientId": self.names["clientId"], "clientSecret": self.names["clientSecret"]}
            known = {"client": own, "admin": {"adminKey": ADMIN_KEY}, "anonymous": {}, "proxied": {"baseUrl": self.world.proxy.url, **own},
                     "proxiedAdmin": {"baseUrl": self.world.proxy.url, "adminKey": ADMIN_KEY}}
            self.make_client(name, known[name])
        return f"{self.unique}-{name}"

    def make_client(self, name, options):
        self.made.add(name)
        options = {"baseUrl": self.world.server.url, **QUICK, **options}
        assert "error" not in self.driver.ask({"op": "client", "name": f"{self.unique}-{name}", "options": options})

    def step(self, step):
        step = fill({key: value for key, value in step.items() if key != "note"}, self.names)
        getattr(self, "do_" + step.get("do", "call"))(step)

    # -- steps of the SDK

    def do_call(self, step):
        request = {"op": step.get("do", "call"), "client": self.client(step.get("as", "client"))}
        request |= {key: step[key] for key in ("call", "args", "options", "limit", "source", "abortAfterBytes", "timeoutMs", "events") if key in step}
        self.judge(step, request)

    do_iterate = do_upload = do_wait = do_call

    def do_verify(self, step):
        self.judge(step, {"op": "verify"} | {key: step[key] for key in ("secrets", "headers", "body", "toleranceSeconds", "stored") if key in step})

    def judge(self, step, request):
        if "begin" in step:
            self.background[step["begin"]] = self.driver.begin(request)
            return
        last = {}

        def check():
            last["answer"] = self.driver.ask(request)
            return self.problem(step, last["answer"])

        if problem := until(check, step.get("within", 0)):
            raise AssertionError(f"{step}: {problem}\n{json.dumps(last['answer'])[:2000]}")
        self.save(step, last["answer"])

    def do_join(self, step):
        answer = self.background.pop(step["name"])()
        assert not (problem := self.problem(step, answer)), f"{step}: {problem}\n{json.dumps(answer)[:2000]}"
        self.save(step, answer)

    def problem(self, step, answer):
        if "error" in step or "error" in answer:
            return differs(step.get("error", "no error"), answer.get("error"), "error") or self.wrong_type(answer["error"])
        for part, member in (("expect", "ok"), ("response", "response")):
            if part in step and (problem := differs(step[part], answer.get(member), member)):
                return problem
        return None

    def wrong_type(self, error):
        return differs(type_of(self.driver.name, error["status"]), error.get("type"), "type") if error["kind"] == "problem" else None

    def save(self, step, answer):
        for name, path in step.get("save", {}).items():
            self.names[name] = pick(answer, path if path.startswith("response") else f"ok.{path}")

    # -- steps of what is around it

    def do_client(self, step):
        self.make_client(step["name"], step["options"])

    def do_file(self, step):
        """A CSV file of about so many bytes, with records that are all alike but for their number."""
        path = self.directory / step.get("fileName", "big.csv")
        with path.open("w", encoding="ascii") as f:
            f.write("phone,name,note\n")
            for number in range(step["bytes"] // 1024):
                f.write(f"+55119{number % 10**8:08d},Person {number},{'x' * 988}\n")
        self.names[step["name"]] = str(path)
        self.names[step["name"] + "Bytes"] = path.stat().st_size

    def do_proxy(self, step):
        self.world.proxy.reset(step["rules"])

    def do_proxied(self, step):
        """What came to the proxy."""
        seen = self.world.proxy.seen
        found = {"requests": len(seen), "keys": len({one["key"] for one in seen}), "seen": seen}
        assert not (problem := differs(step["expect"], found, "proxied")), f"{problem}\n{seen}"

    def do_server(self, step):
        {"stop": self.stop_server, "start": self.world.server.start, "restart": self.world.server.restart}[step["action"]]()

    def stop_server(self):
        assert self.world.server.stop() == 0

    def do_expire(self, step):
        """What is kept of a batch's failed records has been kept for long enough."""
        backend = self.world.backend
        write = backend.script if backend.name == "sqlite" else backend.query  # of SQLite only a script is committed
        long_ago = "2020-01-01T00:00:00.000" + ("" if backend.name == "sqlserver" else "Z")
        write(f"UPDATE ImportBatch SET KeptUntil = '{long_ago}' WHERE Id = '{step['batchId']}'")

    def do_receiver(self, step):
        self.world.receiver.statuses[step["path"]] = step["status"]

    def do_received(self, step):
        """The newest of what came to a path of the receiver."""
        found = []

        def check():
            found[:] = [one for one in self.world.receiver.received if one["path"] == step["path"]]
            matching = [one for one in found if not differs(step["expect"], one)]
            found[:] = matching or found
            return None if matching else f"{step}: received {found}"

        assert not (problem := until(check, step.get("within", 20))), problem
        self.save({"save": step.get("save", {})}, {"ok": found[-1]})

    def do_http(self, step):
        """Of the test itself: faults of the sandbox."""
        body = json.dumps(step["json"]).encode() if "json" in step else None
        request = urllib.request.Request(step["url"], body, {"Content-Type": "application/json"}, method=step.get("method"))
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.status < 300


@pytest.mark.parametrize("sdk", DRIVERS)
@pytest.mark.parametrize("scenario", TABLE["scenarios"], ids=lambda scenario: scenario["name"].replace(" ", "-"))
def test_scenario(world, drivers, sdk, scenario, tmp_path):
    driver = drivers(sdk)
    known = {name: operation for operation, name in driver.hello["operations"].items()}
    if missing := [name for name, *_ in calls(scenario) if name in known and anonymous(known[name]) not in world.operations and
                   name != "integrations.call"]:
        pytest.skip(f"the server has no {missing[0]} yet")
    run = Run(world, driver, tmp_path)
    try:
        for step in scenario["steps"]:
            run.step(step)
    finally:
        if world.server.process is None:
            world.server.start()
        run.do_http({"method": "DELETE", "url": world.sandbox_url + "/_faults"})


@pytest.mark.parametrize("sdk", DRIVERS)
def test_an_sdk_has_every_call(world, drivers, sdk):
    driver = drivers(sdk)
    named = {anonymous(operation): name for operation, name in driver.hello["operations"].items()}
    wanted = world.operations - {anonymous(operation) for operation in TABLE["notForSdks"]}
    assert not sorted(wanted - named.keys()), "calls that the SDK does not have"
    assert not sorted(named.keys() - world.operations - set(TABLE["notYetInTheServer"])), "calls that the server does not have"
    made = {call for scenario in TABLE["scenarios"] for call in calls(scenario)}
    names = {name for name, *_ in made} - {"integrations.call"}
    integrations = {f"{method} /integrations/{{}}{'/{}' if path else ''}" for name, method, path in made if name == "integrations.call"}
    unproved = [operation for operation in wanted if operation not in integrations and named[operation] not in names]
    assert not sorted(unproved), "calls that no scenario makes"


def test_every_status_and_code_has_a_row(world):
    """A status that /openapi.json documents, and a code that a caller can be answered with, is met by the SDKs for real."""
    documented = {status for item in world.api["paths"].values() for operation in item.values() if isinstance(operation, dict)
                  for status in operation.get("responses", {}) if status[0] in "45"}
    assert not sorted(documented - {str(error["status"]) for error in refusals()}), "documented statuses that no scenario meets"
    codes = ERRORS.keys() | codes_of_examples(world.api)
    met, excused = {error["code"] for error in refusals()}, TABLE["notProvoked"].keys()
    assert not sorted(codes - met - excused), "codes without a row, nor a reason for having none"
    assert not sorted(excused & met), "codes that notProvoked excuses, and a row has"
    assert not sorted((excused | met) - codes), "codes that the server does not have"


@pytest.mark.parametrize("sdk", DRIVERS)
def test_every_error_of_the_server_is_typed_and_repeated_by_its_status(drivers, sdk):
    """As the server writes it, but from a proxy, because not every one can be provoked."""
    driver, proxy = drivers(sdk), Proxy()
    own = {"clientId": "c", "clientSecret": "s" * 32, "baseUrl": proxy.url}
    driver.ask({"op": "client", "name": "errors", "options": own | QUICK | {"retries": 2, "retryBaseMs": 1}})
    problems = []
    for code, status in ERRORS.items():
        document = {"title": "Title", "status": status, "detail": "Detail.", "code": code, "correlationId": "c-1"}
        proxy.reset([{"answer": status, "body": {"type": "about:blank", **document}, "count": 9}])
        answer = driver.ask({"op": "call", "client": "errors", "call": "server.whoami"})
        requests = 3 if may_be_sent_again(status) else 1
        problems += [differs({"kind": "problem", "type": type_of(sdk, status), **document}, answer.get("error"), code),
                     differs(requests, len(proxy.seen), f"requests for {code}")]
    proxy.close()
    assert not list(filter(None, problems))


def test_every_driver_is_there():
    """A run for the whole project has all of them; one without .NET says so by DATAFLOW_TEST_SDKS=node."""
    wanted = os.environ.get("DATAFLOW_TEST_SDKS", "node,dotnet").split(",")
    assert sorted(DRIVERS) == sorted(wanted)
