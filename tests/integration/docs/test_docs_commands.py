"""docs/commands.md, dataflow(1) and the completions say what the commands are: the fields of each --json document, the
options, the verbs; and completing in a real shell finds them."""

import json
import os
import pty
import re
import select
import subprocess
import time

import pytest
from harness import ROOT, run
from test_openapi import DOCUMENT, check

PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^  dataflow (\S+)", run("help").stdout, re.M)


def documented(heading):
    """{field: type} of the table below a heading."""
    section = re.search(rf"^### {re.escape(heading)}\n(.*?)(?=^##|\Z)", PAGE, re.M | re.S)[1]
    return dict(re.findall(r"^\| `([^`]+)` \| ([^|]+?) \|", section, re.M))


def fields(value, known, path=""):
    """The paths of all leaves; what the page calls an object is not taken apart."""
    if known.get(path) == "object":
        assert isinstance(value, dict)
        return {path}
    if isinstance(value, dict):
        return set().union(*(fields(v, known, f"{path}.{k}" if path else k) for k, v in value.items()))
    if isinstance(value, list):
        return set().union(*(fields(v, known, f"{path}[]") for v in value))
    return {path}


AUDIT_FINDING = {f"findings[].{name}" for name in ("kind", "sequence", "time", "text")}
KINDS = {"text": str, "number": int, "true": bool, "false": bool, "null": type(None), "time": str}


def compare(heading, result, status=0, optional=()):
    assert result.returncode == status, result.stderr
    value = json.loads(result.stdout)
    known = documented(heading)
    assert known and fields(value, known) | set(optional) == set(known), heading
    for field, kind in known.items():
        assert kind == "object" or all(word in KINDS for word in re.split(r", | or ", kind)), (field, kind)
    check_kinds(value, known)
    return value


def check_kinds(value, known, path=""):
    if known.get(path) == "object":
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            check_kinds(inner, known, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            check_kinds(inner, known, f"{path}[]")
    else:
        allowed = {KINDS[word] for word in re.split(r", | or ", known[path])}
        assert type(value) in allowed, (path, value)


# --- examples --------------------------------------------------------------------------------------


def test_the_examples_are_what_is_printed(server):
    examples = re.findall(r"^```console\n\$ dataflow ([^\n]*)\n(.*?)^```", PAGE, re.M | re.S)
    assert [command.split()[0] for command, _ in examples] == ["help", "batch"]
    (help_args, help_text), (batch_args, batch_text) = examples
    assert run(*help_args.split()).stdout == help_text
    listed = server.cli(*batch_args.split(), "--server", server.url).stdout
    assert listed.splitlines()[0] == batch_text.splitlines()[0]  # the rows are of another server


def test_batches_tickets_and_alerts_print_the_documents_of_the_api(server):
    for args, path in ((("batch", "list"), "/admin/imports"), (("ticket", "list"), "/admin/tickets"), (("alerts",), "/admin/alerts")):
        shown = server.cli(*args, "--server", server.url, "--json")
        assert shown.returncode == 0, shown.stderr
        check(json.loads(shown.stdout), schema_of(path), " ".join(args))


# --- JSON ------------------------------------------------------------------------------------------


def test_clients_and_policies(server):
    made = compare("client create", server.cli("client", "create", "--name", "Documented", "--json"))
    server.remember(made)
    ours = made["clientId"]
    server.remember(compare("client create", server.cli("client", "rotate-secret", ours, "--json")))
    assert any(c["clientId"] == ours for c in compare("client list", server.cli("client", "list", "--json")))
    assert compare("client suspend", server.cli("client", "suspend", ours, "--json"))["status"] == "Suspended"
    assert compare("client suspend", server.cli("client", "activate", ours, "--json"))["status"] == "Active"
    changed = compare("client suspend", server.cli("client", "set-scopes", ours, "acks", "--json"))
    assert changed["scopes"] == ["acks"]
    set_ = compare("policy show", server.cli("policy", "set", ours, "requestsPerMinute=30", "--json"))
    assert compare("policy show", server.cli("policy", "show", ours, "--json")) == set_
    assert set_["requestsPerMinute"] == 30


def schema_of(path):
    return DOCUMENT["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]


def test_the_outbox_prints_the_documents_of_the_api(server):
    assert server.new_client().post("/events", {"eventType": "Made", "payload": {"a": 1}}).status == 202
    listed = []
    for args, path in ((("list",), ""), (("list", "events"), "/{channel}"), (("show", "events", None), "/{channel}/{id}")):
        args = [listed[-1]["items"][0]["id"] if arg is None else arg for arg in args]
        shown = server.cli("outbox", *args, "--json")
        assert shown.returncode == 0, shown.stderr
        listed.append(json.loads(shown.stdout))
        check(listed[-1], schema_of(f"/admin/outbox{path}"), " ".join(args))


def test_relays_doctor_and_the_rest(server, tmp_path):
    relay = ("--set", "relay.own.dispatcher=log")
    compare("relay status", server.cli("relay", "status", "--json", *relay))
    compare("doctor", server.cli("doctor", "--json", *relay))
    shown = compare("check-config", server.cli("check-config", "--json", "--set", "admin.key=short-but-enough", *relay))
    assert shown["settings"]["relay.own"]["dispatcher"] == "log" and shown["settings"]["admin"]["key"] == "(set)"
    assert any("fewer than" in line for line in shown["warnings"]) and "short-but" not in json.dumps(shown)
    assert compare("migrate", server.cli("migrate", "--json")) == {"applied": 0}
    compare("audit list", server.cli("audit", "list", "--action", "ServerStarted", "--limit", "1", "--json"))
    assert compare("audit verify", server.cli("audit", "verify", "--json"), optional=AUDIT_FINDING)["ok"]


def test_backup(make_sqlite_server, tmp_path):
    server = make_sqlite_server()
    assert compare("backup", server.cli("backup", "--to", tmp_path / "place", "--json"))["made"]
    assert len(compare("backup list", server.cli("backup", "list", "--from", tmp_path / "place", "--json"))) == 1
    other = make_sqlite_server(start=False, empty=True)
    compare("doctor", other.cli("restore", "--from", tmp_path / "place", "--json"))
    compare("doctor", other.cli("doctor", "--after-restore", "--json"))


def test_purge(server):
    compare("purge", server.cli("purge", "--older-than", "36500", "--json"))
    compare("purge", server.cli("purge", "--email", "nobody@example.com", "--dry-run", "--json"))


def test_without_a_database(tmp_path):
    assert f"dataflow {compare('version', run('version', '--json'))['version']}\n" == run("version").stdout
    (tmp_path / "secret").write_text("whsec_x\n")
    (tmp_path / "request").write_text("X-Webhook-Signature: nonsense\n\n{}")
    found = compare("webhook verify", run("webhook", "verify", "--json", "--secret-file", tmp_path / "secret",
                                          tmp_path / "request"), status=1)
    assert found["verified"] is False and {s["verdict"] for s in found["signatures"]} <= {"bad", "missing"}


# --- the table -------------------------------------------------------------------------------------


def options_of(command):
    return re.findall(r"^  --([\w-]+)( \S+)?", run("help", command).stdout, re.M)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_the_table_is_taken(command, tmp_path):
    """A wrong operand ends the command before it does anything; an unknown option would be named first."""
    for option, takes in options_of(command):
        args = [f"--{option}", "x"] if takes else [f"--{option}"]
        if option == "set":
            args = ["--set", "no.such=key"]
        result = run(command, *args, "no", "such", "operands", "here", cwd=tmp_path)
        assert result.returncode == 2 or command == "help", (command, option, result.stderr)
        assert "unknown option" not in result.stderr, (command, option)


def test_usage_lines_and_the_table_name_the_same_options():
    for command in COMMANDS:
        text = run("help", command).stdout
        usage = text.split("\n\n")[0]
        named = set(re.findall(r"--([\w-]+)", usage))
        listed = {option for option, _ in options_of(command)}
        assert named <= listed, command
        assert command == "sandbox" or listed - {"config", "set"} <= named, command


# --- dataflow(1) -----------------------------------------------------------------------------------


def test_the_man_page_is_the_table():
    assert (ROOT / "docs" / "dataflow.1").read_text(encoding="utf-8") == run("help", "man").stdout, "run `make docs`"


def test_the_man_page_is_clean():
    lint = subprocess.run(["mandoc", "-Tlint", ROOT / "docs" / "dataflow.1"], capture_output=True, text=True)
    assert (lint.returncode, lint.stdout, lint.stderr) == (0, "", "")
    shown = subprocess.run(["mandoc", "-Tutf8", ROOT / "docs" / "dataflow.1"], capture_output=True, text=True, check=True)
    plain = re.sub(r".\x08", "", shown.stdout)
    for command in COMMANDS:
        assert f"dataflow {command}" in plain
        for option, _ in options_of(command):
            assert f"--{option}" in plain


# --- completion ------------------------------------------------------------------------------------

CASES = [
    ("", {"serve", "doctor", "client", "completion"}, set()),
    ("doc", {"doctor"}, {"serve"}),
    ("client ", {"create", "list", "rotate-secret", "set-scopes"}, {"serve"}),
    ("client create --", {"--name", "--scopes", "--json", "--config", "--set"}, {"--grace-seconds"}),
    ("client rotate-secret --", {"--grace-seconds"}, {"--name"}),
    ("outbox list --status Se", {"Sending", "Sent"}, {"Error"}),
    ("serve --set server.li", {"server.listen="}, {"server.data_dir="}),
    ("serve --set breaker.", {"breaker.window=", "breaker.open_ms="}, {"server.listen="}),
    ("sandbox --mode ", {"sync", "async"}, set()),
    ("completion ", {"bash", "zsh", "fish"}, set()),
    ("help doc", {"doctor"}, {"serve"}),
]


def bash(line, directory):
    """What _dataflow leaves in COMPREPLY for the words of the line, in a shell that read the script."""
    script = run("completion", "bash").stdout
    words = ["dataflow", *line.split(" ")]
    quoted = " ".join(f"'{word}'" for word in words)
    text = f"{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _dataflow; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "--norc", "-c", text], capture_output=True, text=True, cwd=directory, check=True)
    assert not done.stderr
    return set(done.stdout.split())


def fish(line, directory):
    (directory / "dataflow.fish").write_text(run("completion", "fish").stdout, encoding="utf-8")
    text = f"source dataflow.fish; complete -C 'dataflow {line}'"
    done = subprocess.run(["fish", "--no-config", "-c", text], capture_output=True, text=True, cwd=directory, check=True)
    assert not done.stderr
    return {found.split("\t")[0] for found in done.stdout.splitlines()}


def zsh(line, directory):
    """zsh completes only at a terminal: it gets one, and a listing of what it found after the tab."""
    (directory / "_dataflow").write_text(run("completion", "zsh").stdout, encoding="utf-8")
    rc = ("PROMPT='READY> '; LISTMAX=10000; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D\n"
          "zstyle ':completion:*' list-separator '#'; zstyle ':completion:*' menu no\n"
          "bindkey '^X' list-choices; setopt no_beep\n")
    (directory / ".zshrc").write_text(rc)
    terminal, end = pty.openpty()
    shell = subprocess.Popen(["zsh", "-i"], stdin=end, stdout=end, stderr=end, cwd=directory, start_new_session=True,
                             env={**os.environ, "ZDOTDIR": str(directory), "TERM": "dumb", "COLUMNS": "300"})
    try:
        read_until(terminal, "READY> ")
        os.write(terminal, f"dataflow {line}\x18".encode())
        shown = read_until(terminal, None)
    finally:
        shell.kill()
        shell.wait()
        os.close(end)
        os.close(terminal)
    return {word for word in re.split(r"\s+", shown.split(f"dataflow {line}", 1)[-1]) if word}


def read_until(terminal, text):
    """What the terminal shows until the text is there or, with None, until it shows no more."""
    seen, end = "", time.monotonic() + 20
    while time.monotonic() < end:
        ready, _, _ = select.select([terminal], [], [], 0.7)
        if not ready:
            if text is None:
                return seen
            continue
        try:
            seen += os.read(terminal, 65536).decode(errors="replace")
        except OSError:
            break
        if text and text in seen:
            return seen
    if text is None:
        return seen
    raise AssertionError(f"zsh did not show {text!r}: {seen!r}")


@pytest.mark.tools
@pytest.mark.parametrize("shell", [bash, zsh, fish], ids=lambda shell: shell.__name__)
@pytest.mark.parametrize("line,there,missing", CASES, ids=[case[0] or "(nothing)" for case in CASES])
def test_shells_complete(shell, line, there, missing, tmp_path):
    found = shell(line, tmp_path)
    if shell is zsh:  # it inserts what is certain, and lists the rest
        whole = " ".join(found)
        assert all(word in whole for word in there) and not missing & found, found
    else:
        assert there <= found and not missing & found, found


def test_completion_refuses_other_shells():
    for args in ((), ("tcsh",), ("bash", "zsh")):
        result = run("completion", *args)
        assert result.returncode == 2 and not result.stdout and "bash|zsh|fish" in result.stderr
