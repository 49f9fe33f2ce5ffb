"""docs/webhooks.md tried out: its code against what DataFlow signs, as it is and tampered with; and `dataflow webhook verify`."""

import http.server
import json
import shutil
import subprocess
import threading

import pytest
from harness import Backend, Server, npm, run, wait_for
from test_docs_outbox import blocks_of

BLOCKS = blocks_of("webhooks.md")
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
OTHER = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
TEXT = "São João, ação, 日本, 🚚🎉"


def block(language, mark=""):
    found, = [text for name, marks, text in BLOCKS if name == language and marks == mark]
    return found


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):  # noqa: N802
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((dict(self.headers.items()), body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def received(directory):
    """A delivery during a rotation, as it came: headers and body."""
    server = Server(Backend("sqlite", directory / "db"), directory, config={"delivery": {"allow_private_targets": "on"}}).start()
    server.secrets |= {SECRET, OLD}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as sink:
        sink.received = []
        threading.Thread(target=sink.serve_forever, daemon=True).start()
        try:
            client = server.new_client()
            hooks = f"/clients/{client.id}/webhooks"
            made = client.post(hooks, {"url": f"http://127.0.0.1:{sink.server_port}/", "secret": OLD, "events": ["TicketProcessed"]})
            assert made.status == 201, made
            assert client.post(f"{hooks}/{made.json['id']}/rotate-secret", {"secret": SECRET}).status == 200
            ticket = {"businessEntity": "TCK", "businessDocId": TEXT, "companyCode": "0050", "branchCode": "1", "destinationCode": "D7",
                      "phaseCode": 15, "shipmentEvent": "RCD", "functionalAckIsRequired": False, "targetApplicationCode": "ASB"}
            assert client.post("/api/tickets", ticket).status == 200
            return wait_for(lambda: sink.received, "it arrives")[0]
        finally:
            server.finish()
            sink.shutdown()


@pytest.fixture(scope="module")
def request_(tmp_path_factory):
    headers, body = received(tmp_path_factory.mktemp("signed"))
    assert json.loads(body)["businessDocId"] == TEXT and TEXT.encode() in body
    return headers, body


def cases(request):
    """(name, secrets, headers, body, whether it verifies)"""
    headers, body = request
    now = int(headers["X-DataFlow-Timestamp"])
    signature, second = headers["X-DataFlow-Signature"].split(", ")

    def but(**changed):
        return headers | {"X-DataFlow-Signature": signature} | {f"X-DataFlow-{name}": value for name, value in changed.items()}

    yield "as it came", [SECRET], headers, body, True
    yield "with the old secret", [OLD], headers, body, True
    yield "with both", [OLD, SECRET], headers, body, True
    yield "one signature", [SECRET], but(), body, True
    yield "no space between two", [SECRET], but(Signature=f"{second},{signature}"), body, True
    yield "the old one's time is over", [OLD], but(), body, False
    yield "another secret", [OTHER], headers, body, False
    yield "a byte more", [SECRET], headers, body + b"\n", False
    yield "a byte changed", [SECRET], headers, body.replace("ã".encode(), "â".encode(), 1), False
    yield "another time", [SECRET], but(Timestamp=str(now - 1)), body, False
    yield "too old", [SECRET], but(Timestamp=str(now - 301)), body, False
    yield "no time", [SECRET], but(Timestamp="now"), body, False
    yield "no signature", [SECRET], but(Signature=""), body, False
    yield "cut", [SECRET], but(Signature=signature[:-1]), body, False
    yield "another scheme", [SECRET], but(Signature="v2" + signature[2:]), body, False


@pytest.fixture
def table(request_, tmp_path):
    """The cases as files, for programs of other languages: a line each in table.json, the bodies beside it."""
    rows = []
    for i, (name, secrets, headers, body, good) in enumerate(cases(request_)):
        (tmp_path / f"body-{i}").write_bytes(body)
        rows.append({"name": name, "secrets": secrets, "headers": {k.lower(): v for k, v in headers.items()},
                     "body": str(tmp_path / f"body-{i}"), "good": good})
    (tmp_path / "table.json").write_text(json.dumps(rows), encoding="utf-8")
    return rows


@pytest.mark.tools
def test_python(request_):
    space = {}
    exec(block("python"), space)  # noqa: S102
    for name, secrets, headers, body, good in cases(request_):
        assert space["verify"](secrets, headers, body) is good, name
    _, body = request_
    assert space["verify_stored"](SECRET, body)
    assert not space["verify_stored"](OLD, body)
    assert not space["verify_stored"](SECRET, body.replace(b"Processed", b"processed"))
    assert not space["verify_stored"](SECRET, body + b" ")
    assert not space["verify_stored"](SECRET, b"{}")


NODE = """
import { readFileSync } from 'node:fs';
import { verify } from './verify.mjs';
for (const row of JSON.parse(readFileSync('table.json')))
  if (verify(row.secrets, row.headers, readFileSync(row.body)) !== row.good) throw new Error(row.name);
"""


@pytest.mark.tools
def test_node(table, tmp_path):
    (tmp_path / "verify.mjs").write_text(block("js", "node"), encoding="utf-8")
    (tmp_path / "try.mjs").write_text(NODE, encoding="utf-8")
    subprocess.run(["node", "try.mjs"], cwd=tmp_path, check=True, timeout=60)
    assert len(table) > 10


STANDARD = """
import assert from 'node:assert';
import { readFileSync } from 'node:fs';
import { open } from './open.mjs';
const { secret, old, other, headers, text } = JSON.parse(readFileSync(process.argv[2]));
const body = readFileSync(process.argv[3], 'utf-8');
assert.equal(open(secret, headers, body).businessDocId, text);
assert.equal(open(old, headers, body).businessDocId, text);
assert.throws(() => open(other, headers, body), /No matching signature/);
assert.throws(() => open(secret, headers, body + ' '), /No matching signature/);
assert.throws(() => open(secret, headers, body.replace('ã', 'â')), /No matching signature/);
assert.throws(() => open(secret, { ...headers, 'webhook-id': 'x' }, body), /No matching signature/);
assert.throws(() => open(secret, { ...headers, 'webhook-timestamp': '1' }, body), /too old/);
assert.throws(() => open(old, { ...headers, 'webhook-signature': headers['webhook-signature'].split(' ')[0] }, body), /No matching signature/);
"""


@pytest.mark.tools
def test_the_public_package_verifies_what_is_signed(request_, tmp_path):
    headers, body = request_
    work = npm("webhooks", "standardwebhooks@1.0.0")
    (work / "open.mjs").write_text(block("js", "standardwebhooks"), encoding="utf-8")
    (work / "try.mjs").write_text(STANDARD, encoding="utf-8")
    (tmp_path / "body").write_bytes(body)
    (tmp_path / "request.json").write_text(json.dumps({
        "secret": SECRET, "old": OLD, "other": OTHER, "text": TEXT, "headers": {k.lower(): v for k, v in headers.items()}}), encoding="utf-8")
    subprocess.run(["node", "try.mjs", tmp_path / "request.json", tmp_path / "body"], cwd=work, check=True, timeout=60)


def as_lines(table, tmp_path):
    """The cases for languages that cannot read JSON by themselves."""
    lines = ["\t".join([r["name"], " ".join(r["secrets"]), r["headers"]["x-dataflow-timestamp"], r["headers"]["x-dataflow-signature"],
                        r["body"], str(r["good"])]) for r in table]
    (tmp_path / "table.tsv").write_text("\n".join(lines), encoding="utf-8")


JAVA = """

import java.nio.file.*;

class Try {
    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Path.of("table.tsv"))) {
            String[] row = line.split("\\t", -1);
            if (Webhook.verify(List.of(row[1].split(" ")), row[2], row[3], Files.readAllBytes(Path.of(row[4]))) != row[5].equals("True"))
                throw new Exception(row[0]);
        }
        if (Webhook.verify(List.of("x"), null, null, new byte[0])) throw new Exception("nothing");
    }
}
"""


@pytest.mark.tools
@pytest.mark.skipif(not shutil.which("java"), reason="there is no Java")
def test_java(table, tmp_path):
    as_lines(table, tmp_path)
    imports, _, rest = block("java").partition("public final class")
    (tmp_path / "Try.java").write_text(imports + JAVA + "final class" + rest, encoding="utf-8")  # the first class is run
    subprocess.run(["java", "Try.java"], cwd=tmp_path, check=True, timeout=120)


# Mono has no FixedTimeEquals.
CSHARP = """
namespace System.Security.Cryptography
{
    static class CryptographicOperations
    {
        public static bool FixedTimeEquals(byte[] a, byte[] b)
        {
            return BitConverter.ToString(a) == BitConverter.ToString(b);
        }
    }
}

static class Try
{
    static void Main()
    {
        foreach (var line in System.IO.File.ReadAllLines("table.tsv"))
        {
            var row = line.Split('\\t');
            if (DataFlowWebhook.Verify(row[1].Split(' '), row[2], row[3], System.IO.File.ReadAllBytes(row[4])) != (row[5] == "True"))
                throw new Exception(row[0]);
        }
        if (DataFlowWebhook.Verify(new[] {"x"}, null, null, new byte[0])) throw new Exception("nothing");
    }
}
"""


@pytest.mark.tools
def test_csharp(table, tmp_path):
    as_lines(table, tmp_path)
    (tmp_path / "Try.cs").write_text(block("csharp") + CSHARP, encoding="utf-8")
    subprocess.run(["mcs", "Try.cs"], cwd=tmp_path, check=True, timeout=120)
    subprocess.run(["mono", "Try.exe"], cwd=tmp_path, check=True, timeout=120)


@pytest.mark.tools
def test_shell(table, tmp_path):
    script = tmp_path / "verify.sh"
    script.write_text(block("sh", "verify"), encoding="utf-8")
    subprocess.run(["shellcheck", script], check=True, timeout=60)
    for row in table:
        (tmp_path / "secret").write_text(row["secrets"][-1] + "\n", encoding="utf-8")
        done = subprocess.run(["sh", script, tmp_path / "secret", row["headers"]["x-dataflow-timestamp"],
                               row["headers"]["x-dataflow-signature"], row["body"]], check=False, timeout=60)
        assert done.returncode == (0 if row["good"] else 1), row["name"]


# --- the command -------------------------------------------------------------------------------------


def saved(headers, body):
    return ("POST /hooks HTTP/1.1\r\n" + "".join(f"{n}: {v}\r\n" for n, v in headers.items()) + "\r\n").encode() + body


def judge(tmp_path, text, *args, secret=SECRET):
    (tmp_path / "secret").write_text(secret, encoding="utf-8")
    (tmp_path / "request").write_bytes(text)
    return run("webhook", "verify", "--secret-file", tmp_path / "secret", *args, tmp_path / "request")


def test_the_command_agrees_with_the_page(request_, tmp_path):
    for name, secrets, headers, body, good in cases(request_):
        kept = {n: v for n, v in headers.items() if n not in ("webhook-signature", "Content-Length")}
        told = judge(tmp_path, saved(kept, body), secret="\n".join(secrets))
        own, standard, inside = (line.rsplit("  ", 1)[1] for line in told.stdout.splitlines())
        assert own == "ok" if good else own.startswith("bad: "), name
        assert standard == "missing"
        assert told.returncode == (0 if good and inside == "ok" else 1), name


def test_the_command_tells_each_signature_apart(request_, tmp_path):
    headers, body = request_
    told = judge(tmp_path, saved(headers, body))
    assert (told.returncode, told.stdout) == (0, "\n".join(block("console").splitlines()[1:]) + "\n")
    told = judge(tmp_path, saved(headers | {"webhook-id": "x"}, body))
    assert told.returncode == 1 and not told.stderr
    assert [line.split()[-1] for line in told.stdout.splitlines()] == ["ok", "match", "ok"]
    told = judge(tmp_path, saved(headers, body), secret=OLD)  # the body's is the new secret's alone
    assert told.returncode == 1 and [line.split()[-1] for line in told.stdout.splitlines()] == ["ok", "ok", "match"]
    told = judge(tmp_path, b"\n{}")
    assert told.returncode == 1 and told.stdout.count("missing") == 3


def test_a_saved_request_may_be_old_if_that_is_said(tmp_path):
    # Published by Standard Webhooks.
    published = saved({"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
                       "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}, b'{"test": 2432232314}')
    assert judge(tmp_path, published, "--tolerance", "0").returncode == 0
    assert "too far from now" in judge(tmp_path, published).stdout


@pytest.mark.parametrize("args,why", [
    ([], "usage"), (["verify"], "usage"), (["verify", "x"], "usage"), (["sign", "--secret-file", "/dev/null", "x"], "usage"),
    (["verify", "--secret-file", "/nonexistent", "-"], "No such file"), (["verify", "--secret-file", "/dev/null", "-"], "no empty line"),
    (["verify", "--secret-file", "/dev/null", "/nonexistent"], "No such file"), (["verify", "--secret-file", "/", "-"], "directory"),
    (["verify", "--secret-file", "/dev/zero", "-"], "longer than"),
    (["verify", "--secret-file", "/dev/null", "--tolerance", "x", "-"], "tolerance"),
    (["verify", "--secret-file", "/dev/null", "--tolerance", "-1", "-"], "tolerance"),
])
def test_the_command_refuses_what_it_cannot_read(args, why):
    told = run("webhook", *args)
    assert told.returncode == 2 and why in told.stderr and not told.stdout
