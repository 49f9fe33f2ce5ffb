"""Configuration: refused values and their messages, precedence, secrets."""

import os
import re

import pytest
from harness import ROOT, environment, run, write_config

SECRET = "a-secret-of-the-test-0815"


def check(text, tmp_path, *args, env=None):
    path = tmp_path / "dataflow.ini"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return run("check-config", "--config", path, *args, env=env)


# text, the line that is wrong, a word that the message must contain
BAD_FILES = [
    ("[server]\nlisten = 127.0.0.1:0\ncolour = red\n", 3, "colour"),
    ("[nowhere]\nkey = 1\n", 2, "nowhere"),
    ("\n\n[server]\nthreads = many\n", 4, "threads"),
    ("[server]\nthreads = 65\n", 2, "64"),
    ("[server]\nthreads = -1\n", 2, "threads"),
    ("[server]\nthreads = 1.5\n", 2, "threads"),
    ("[server]\nthreads =\n", 2, "threads"),
    ("[server]\nmax_body_bytes = 99999999999999999999\n", 2, "max_body_bytes"),
    ("[server]\nmax_body_bytes = 1k\n", 2, "max_body_bytes"),
    ("[server]\naccess_log = perhaps\n", 2, "on or off"),
    ("[server]\nroles = api,dance\n", 2, "dance"),
    ("[log]\nlevel = loud\n", 2, "debug, info, warn, error"),
    ("[omniflow]\nretry_delays_ms = 1,x,3\n", 2, "retry_delays_ms"),
    ("[omniflow]\nretry_delays_ms = " + ",".join("1" * 17) + "\n", 2, "16"),
    ("[server]\ndrain_seconds = 1\ndrain_seconds = 2\n", 3, "twice"),
    ("[server\nthreads = 1\n", 1, ""),
    ("[server]\nthis is no setting\n", 2, ""),
    ("threads = 1\n", 1, ""),
    ("[admin]\nkey_file = /does/not/exist\n", 2, "/does/not/exist"),
    ("[admin]\nkey_file = /\n", 2, "key_file"),
    ("[admin]\nkey = a\nkey_file = /dev/null\n", 3, "both"),
    (b"[server]\ndata_dir = a\x00b\n", 2, ""),
    (b"[server]\ndata_dir = \xff\xfe\n", 2, ""),
    ("[server]\ndata_dir = " + "x" * 100000 + "\n", 2, ""),
]


@pytest.mark.parametrize("text,line,word", BAD_FILES, ids=[str(i) for i in range(len(BAD_FILES))])
def test_a_bad_file_is_refused_with_its_line(tmp_path, text, line, word):
    result = check(text, tmp_path)
    assert result.returncode == 2, result
    assert f"dataflow.ini:{line}:" in result.stderr, result.stderr
    assert word in result.stderr, result.stderr
    assert result.stdout == ""


def test_every_complaint_is_told_at_once(tmp_path):
    result = check("[server]\nthreads = x\ncolour = red\n[log]\nlevel = loud\n", tmp_path, "--set", "server.nothing=1",
                   env={"DATAFLOW_SERVER_DRAIN_SECONDS": "-5"})
    assert result.returncode == 2
    for word in ("dataflow.ini:2:", "dataflow.ini:3:", "dataflow.ini:5:", "--set server.nothing", "DATAFLOW_SERVER_DRAIN_SECONDS"):
        assert word in result.stderr, word
    assert len(result.stderr.strip().splitlines()) == 5


@pytest.mark.parametrize("sets,word", [
    (["nonsense"], "section.key=value"), (["server=1"], "section.key=value"), (["server.threads"], "section.key=value"),
    (["server.threads=x"], "server.threads"), (["nope.key=1"], "nope"), ([".=1"], "--set"), (["=1"], "--set"),
])
def test_a_bad_set_is_refused(tmp_path, sets, word):
    result = check("", tmp_path, *[a for s in sets for a in ("--set", s)])
    assert result.returncode == 2 and word in result.stderr, result.stderr


@pytest.mark.parametrize("env", [{"DATAFLOW_SERVER_THREADS": "x"}, {"DATAFLOW_SERVER_COLOUR": "red"}])
def test_a_bad_variable_is_refused_by_its_name(tmp_path, env):
    result = check("", tmp_path, env=env)
    assert result.returncode == 2 and next(iter(env)) in result.stderr, result.stderr


# --- sections that have names ------------------------------------------------------------------------

# the file, and every complaint that it gives
BAD_NAMED = [
    ("[relay.a b]\nurl = x\n", ["dataflow.ini:1: NAME in relay.NAME"]),
    ("[relay.a]\ncolour = red\n[integration.b]\ntimeout_ms = 0\n",
     ["dataflow.ini:2: [relay.a] colour: unknown key", "dataflow.ini:4: [integration.b] timeout_ms: must be between",
                                                                  "[integration.b] base_url: is needed"]),
    ("[relay]\nurl = x\n", ["dataflow.ini:2: [relay] url: unknown section; it is [relay.NAME]"]),
    ("[relay.a]\nbatch = 1\n[relay.A]\nbatch = 2\n", ["dataflow.ini:4: [relay.a] batch: given twice, first on line 2"]),
    ("[relay.a]\nsecret_file = /does/not/exist\n", ["dataflow.ini:2: [relay.a] secret_file: /does/not/exist"]),
    ("[relay.a]\nurl = oracle://h/d\n", ["[relay.a] url: a database's URL is"]),
    ("[relay.a]\nurl = postgres://u:p@[::1/x\n", ["[relay.a] url: "]),
    ("[relay.a]\ntable =\n", ["[relay.a] table: a name has 1 to 128 bytes"]),
    ("[relay.a]\ntable = a..b\n", ["[relay.a] table: a name has"]),
    ("[relay.a]\ntable = a\tb\n", ["[relay.a] table: a name has"]),
    ("[relay.a]\ntable = " + "x" * 129 + "\n", ["[relay.a] table: a name has"]),
    ("[relay.a]\ntable = a.b.c\n", ["[relay.a] table: on sqlite it is table or schema.table"]),
    ("[relay.a]\nurl = sqlserver://u:p@h/d\ntable = a.b.c.d\n",
     ["[relay.a] table: on sqlserver it is database.schema.table"]),
    ("[relay.a]\ncolumn_payload =\ncolumn_trace_id = " + "x" * 129 + "\n",
     ["[relay.a] column_payload: a name has", "[relay.a] column_trace_id: a name has"]),
    ("[relay.a]\ncolumn_status = ID\n", ["[relay.a] column_id and column_status are the same column"]),
    ("[relay.a]\ncolumn_last_error = payload\n",
     ["[relay.a] column_payload and column_last_error are the same column"]),
    ("[relay.a]\norder = aggregate\ncolumn_aggregate_id =\n", ["[relay.a] order: aggregate needs column_aggregate_id"]),
    ("[relay.a]\nstate_failed = processed\n", ["[relay.a] state_processed and state_failed must differ"]),
    ("[relay.a]\nstate_pending =\n", ["[relay.a] state_pending: a state has 1 to 64 characters"]),
    ("[relay.a]\nstate_failed = " + "é" * 65 + "\n", ["[relay.a] state_failed: a state has 1 to 64 characters"]),
    ("[relay.a]\nretry_base_ms = 2\nretry_cap_ms = 1\n", ["[relay.a] retry_base_ms is greater than retry_cap_ms"]),
    ("[relay.a]\nnotify_channel = x\n", ["[relay.a] notify_channel: only PostgreSQL can notify"]),
    ("[relay.a]\nnotify_channel = " + "x" * 64 + "\n",
     ["dataflow.ini:2: [relay.a] notify_channel: must be at most 63 bytes long"]),
    ("[relay.a]\nurl = postgres://h/d\nnotify_channel = a\tb\n", ["[relay.a] notify_channel: control characters"]),
    ("[relay.a]\ndispatcher = http\n", ["[relay.a] target: "]),
    ("[relay.a]\ndispatcher = http\ntarget = ftp://h/\n", ["[relay.a] target: "]),
    ("[relay.a]\ndispatcher = pigeon\n",
     ["dataflow.ini:2: [relay.a] dispatcher: must be one of log, http, rabbitmq, kafka"]),
    ("[integration.a]\n", ["[integration.a] base_url: is needed"]),
    ("[integration.a]\nbase_url = ftp://h/\n", ["[integration.a] base_url: "]),
    ("[integration.a]\nbase_url = http://u:p@h/\n", ["[integration.a] base_url: may not hold credentials"]),
    ("[integration.a]\nbase_url = http://h/?x=1\n", ["[integration.a] base_url: may not have a query"]),
    ("[integration.a]\nbase_url = http://h/\nunavailable_code = not-a-code\n",
     ["[integration.a] unavailable_code: must be a code"]),
    ("[integration.a]\nbase_url = http://h/\nforward_headers = Accept, Host\nset_headers = nothing\n",
     ["[integration.a] forward_headers: ", "[integration.a] set_headers: "]),
    ("[integration.a]\nbase_url = http://h/\nmethods =\n", ["[integration.a] methods: name at least one"]),
    ("[integration.a]\nbase_url = http://h/\nmethods = GET,TRACE\n",
     ["dataflow.ini:3: [integration.a] methods: must be all, or some of GET"]),
    ("[integration.a]\nbase_url = http://h/\nretry_max_attempts = 21\n",
     ["dataflow.ini:3: [integration.a] retry_max_attempts: must be"]),
]


@pytest.mark.parametrize("text,complaints", BAD_NAMED, ids=[str(i) for i in range(len(BAD_NAMED))])
def test_a_bad_section_with_a_name_is_refused(tmp_path, text, complaints):
    result = check(text, tmp_path)
    lines = result.stderr.splitlines()
    assert result.returncode == 2 and len(lines) == len(complaints), result.stderr
    for line, complaint in zip(lines, complaints):
        assert complaint in line, line


@pytest.mark.parametrize("env", ["DATAFLOW_RELAY_URL", "DATAFLOW_RELAY_ORDERS_COLOUR",
                                 "DATAFLOW_INTEGRATION_RETRY_WAIT_MS"])
def test_a_variable_that_names_no_key_of_a_named_section_is_refused(tmp_path, env):
    result = check("", tmp_path, env={env: "1"})
    assert result.returncode == 2 and result.stderr == f"{env}: no such setting\n"


def test_sections_with_names_come_from_every_source(tmp_path):
    text = ("[relay.Orders]\nbatch = 1\npoll_ms = 11\nmax_retries = 1\n"
            "[integration.credit-check]\nbase_url = http://h/x\n")
    env = {"DATAFLOW_RELAY_ORDERS_POLL_MS": "22", "DATAFLOW_RELAY_ORDERS_MAX_RETRIES": "2",
           "DATAFLOW_INTEGRATION_CREDIT_CHECK_TIMEOUT_MS": "5", "DATAFLOW_RELAY_FROM_ENV_STATE_FAILED": "DEAD"}
    values = effective(check(text, tmp_path, "--set", "relay.orders.max_retries=3", "--set", "relay.set.batch=4", env=env))
    assert [values[f"relay.Orders.{key}"] for key in ("batch", "poll_ms", "max_retries")] == ["1", "22", "3"]
    assert values["relay.set.batch"] == "4"
    assert values["relay.from_env.state_failed"] == "DEAD"
    assert values["integration.credit-check.timeout_ms"] == "5"


def test_what_a_named_section_does_not_say_comes_from_elsewhere(tmp_path):
    values = effective(check("[database]\nurl = sqlite:here.db\n[breaker]\nopen_ms = 77\nwindow = 7\n[relay.a]\n"
                             "[integration.credit-check]\nbase_url = http://h/x\nwindow = 9\n"
                             "[integration.payment]\nbase_url = http://h/x\n"
                             "[integration.2go_x]\nbase_url = http://h/x\n", tmp_path))
    relay = [values[f"relay.a.{key}"] for key in ("url", "source", "dispatcher")]
    assert relay == ["sqlite:here.db", "/dataflow/relay/a", "log"]
    assert (values["integration.credit-check.open_ms"], values["integration.credit-check.window"]) == ("77", "9")
    assert values["integration.payment.unavailable_code"] == "PaymentServiceUnavailable"
    assert values["integration.credit-check.unavailable_code"] == "CreditCheckServiceUnavailable"
    assert values["integration.2go_x.unavailable_code"] == "Integration2goXServiceUnavailable"
    assert values["integration.payment.methods"] == "GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS"


def test_the_secrets_of_a_named_section_are_never_shown(tmp_path):
    secret_file = tmp_path / "secret"
    secret_file.write_text(f"https://u:{SECRET}@h/x\n")
    result = check(f"[relay.a]\nurl = postgres://u:{SECRET}@h/d\ndispatcher = http\ntarget_file = {secret_file}\n"
                   f"secret = {SECRET}\nproperties = sasl.password={SECRET}\n"
                   f"[integration.b]\nbase_url = http://h/x\napi_key = {SECRET}\n"
                   f"set_headers = Authorization: Bearer {SECRET}\n", tmp_path)
    values = effective(result)
    assert SECRET not in result.stdout + result.stderr
    assert values["relay.a.target"] == "https://u:***@h/x"
    for key in ("relay.a.secret", "relay.a.properties", "integration.b.api_key", "integration.b.set_headers"):
        assert values[key] == "(set)"


def test_the_examples_are_configurations(tmp_path):
    page = open(os.path.join(ROOT, "docs", "configuration.md"), encoding="utf-8").read()
    fences = re.findall(r"```ini\n(.*?)```", page, re.S)
    values = effective(check("\n".join(fences), tmp_path))
    assert values["relay.orders.order"] == "aggregate" and values["integration.payment.base_url"].endswith("/payments")
    shipped = run("check-config", "--config", os.path.join(ROOT, "docs", "dataflow.example.ini"))
    assert effective(shipped)["integration.payment.base_url"].endswith("/payments")


@pytest.mark.parametrize("sections,word", [
    ({"server": {"tls_cert": "cert.pem"}}, "tls_key"),
    ({"gateway": {"ticket_send_url": "http://127.0.0.1:1/"}}, "api_key"),
    ({"delivery": {"retry_base_ms": 5000, "retry_cap_ms": 1000}}, "retry_cap_ms"),
    ({"database": {"url": "mysql://x/y"}}, "database"),
    ({"database": {"url": "nonsense"}}, "database"),
    ({"database": {"url": "postgres://u:p@[::1/x"}}, "database"),
    ({"database": {"url": "postgres://u:p@h/x?pasword=y"}}, "database"),
    ({"database": {"url": "sqlserver://h/x"}}, "database"),
    ({"database": {"url": "sqlite:"}}, "needs the path of a file"),
    ({"database": {"url": "sqlite::memory:"}}, "needs the path of a file"),
    ({"server": {"data_dir": ""}}, "[server] data_dir"),
    ({"server": {"trusted_proxies": "10.0.0.0/8, balancer"}}, "[server] trusted_proxies"),
    ({"server": {"trusted_proxies": "0.0.0.0/0"}}, "[server] trusted_proxies"),
    ({"server": {"roles": ""}}, "[server] roles"),
    ({"gateway": {"ticket_send_url": "gateway.example", "api_key": "k"}}, "[gateway] ticket_send_url"),
    ({"gateway": {"ticket_return_url": "ftp://gateway.example/", "api_key": "k"}}, "[gateway] ticket_return_url"),
    ({"gateway": {"functional_ack_url": "http://h/" + "x" * 492, "api_key": "k"}}, "at most 500 bytes"),
    ({"gateway": {"functional_ack_url": "http://u:p@h/x", "api_key": "k"}}, "functional_ack_url: may not hold credentials"),
    ({"gateway": {"api_key_header": "API key"}}, "[gateway] api_key_header"),
    ({"gateway": {"api_key_header": "idempotency-key"}}, "[gateway] api_key_header"),
    ({"omniflow": {"url": "omniflow.example"}}, "[omniflow] url"),
    ({"omniflow": {"api_key_header": ""}}, "[omniflow] api_key_header"),
    ({"imports": {"lock": "zookeeper"}}, "one of sql, redis"),
    ({"imports": {"lock": "redis"}}, "[redis] urls"),
])
def test_what_no_single_key_can_tell_is_checked_too(tmp_path, sections, word):
    path = write_config(tmp_path / "dataflow.ini", sections)
    for command in ("check-config", "serve"):
        result = run(command, "--config", path)
        assert result.returncode == 2 and word in result.stderr, result.stderr


def test_a_missing_file_is_told(tmp_path):
    for command in ("check-config", "serve", "migrate"):
        result = run(command, "--config", tmp_path / "no.ini")
        assert result.returncode == 2 and "no.ini" in result.stderr


def effective(result):
    assert result.returncode == 0, result.stderr
    section, values = None, {}
    for line in result.stdout.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            values[f"{section}.{key.strip()}"] = value.strip()
    return values


def test_file_then_environment_then_set(tmp_path):
    text = "[server]\ndrain_seconds = 1\nthreads = 1\nidle_timeout_ms = 1000\n"
    values = effective(check(text, tmp_path, "--set", "server.idle_timeout_ms=3000",
                             env={"DATAFLOW_SERVER_THREADS": "2", "DATAFLOW_SERVER_IDLE_TIMEOUT_MS": "2000"}))
    assert values["server.drain_seconds"] == "1"
    assert values["server.threads"] == "2"
    assert values["server.idle_timeout_ms"] == "3000"
    assert values["server.listen"] == "127.0.0.1:8080"


def test_comments_blank_lines_and_windows_line_ends_are_fine(tmp_path):
    text = "\ufeff; a comment\r\n# another\r\n\r\n[server]\r\n  drain_seconds = 3\r\nthreads=2\r\n"
    values = effective(check(text, tmp_path))
    assert (values["server.drain_seconds"], values["server.threads"]) == ("3", "2")


def test_what_check_config_prints_is_a_configuration(tmp_path):
    first = check("[server]\ndrain_seconds = 7\nroles = api,relay\n", tmp_path)
    again = check(first.stdout, tmp_path)
    assert effective(again) == effective(first)


@pytest.mark.parametrize("how", ["file", "key_file", "env", "env_file", "set", "set_file"])
def test_secrets_come_every_way_and_are_never_shown(tmp_path, how):
    secret_file = tmp_path / "secret"
    secret_file.write_text(SECRET + "\n")
    text = {"file": f"[admin]\nkey = {SECRET}\n", "key_file": f"[admin]\nkey_file = {secret_file}\n"}.get(how, "")
    env = {"env": {"DATAFLOW_ADMIN_KEY": SECRET}, "env_file": {"DATAFLOW_ADMIN_KEY_FILE": str(secret_file)}}.get(how)
    args = {"set": ["--set", f"admin.key={SECRET}"], "set_file": ["--set", f"admin.key_file={secret_file}"]}.get(how, [])
    result = check(text, tmp_path, *args, env=env)
    assert result.returncode == 0, result.stderr
    assert SECRET not in result.stdout + result.stderr
    assert effective(result)["admin.key"] == "(set)"


def test_a_complaint_does_not_show_a_secret(tmp_path):
    result = check(f"[admin]\nkey = {SECRET}\nkey = {SECRET}x\n", tmp_path, "--set", f"admin.keys={SECRET}")
    assert result.returncode == 2
    assert SECRET not in result.stdout + result.stderr


def test_the_password_in_a_database_url_is_never_shown(tmp_path):
    url = f"postgres://someone:{SECRET}@127.0.0.1:1/nothing"
    result = check(f"[database]\nurl = {url}\n", tmp_path)
    assert result.returncode == 0
    assert SECRET not in result.stdout + result.stderr
    assert "127.0.0.1:1" in result.stdout
    for command in ("serve", "migrate"):
        failed = run(command, "--set", f"database.url={url}", "--set", f"server.data_dir={tmp_path}", "--set", "server.listen=127.0.0.1:0")
        assert failed.returncode == 1, failed
        assert SECRET not in failed.stdout + failed.stderr


# --- what is valid and yet unwise --------------------------------------------------------------------


def warnings(result):
    assert result.returncode == 0, result.stderr
    return [line.removeprefix("warning: ") for line in result.stderr.splitlines() if line.startswith("warning: ")]


@pytest.mark.parametrize("key,listen,exit_status,word", [
    ("short", "0.0.0.0:8080", 2, "[admin] key"), ("elevenchars", "[::]:8080", 2, "[admin] key"), ("short", "192.0.2.7:80", 2, "[admin] key"),
    ("short", "127.0.0.1:8080", 0, "[admin] key"), ("short", "[::1]:8080", 0, "[admin] key"), ("twelve-chars", "0.0.0.0:80", 0, "[admin] key"),
    ("x" * 23, "0.0.0.0:80", 0, "[admin] key"), ("x" * 24, "0.0.0.0:80", 0, None), (None, "0.0.0.0:80", 0, None),
])
@pytest.mark.parametrize("how", ["key", "key_file"])
def test_a_short_admin_key_is_refused_or_warned_of(tmp_path, how, key, listen, exit_status, word):
    (tmp_path / "key").write_text(f"{key}\n")
    (tmp_path / "key").chmod(0o600)
    value = key if how == "key" else tmp_path / "key"
    args = ["--set", f"server.listen={listen}"] + (["--set", f"admin.{how}={value}"] if key else [])
    result = run("check-config", *args)
    assert result.returncode == exit_status, result.stderr
    assert (word in result.stderr) if word else result.stderr == ""
    if exit_status:
        assert run("serve", *args, "--set", f"server.data_dir={tmp_path}/data").returncode == 2
    assert not key or key not in result.stderr


@pytest.mark.parametrize("mode,warned", [(0o600, False), (0o400, False), (0o644, True), (0o640, True), (0o666, True)])
def test_a_secrets_file_that_others_can_read_is_warned_of(tmp_path, mode, warned):
    (tmp_path / "key").write_text(SECRET + "\n")
    (tmp_path / "key").chmod(mode)
    said = warnings(run("check-config", "--set", f"admin.key_file={tmp_path}/key"))
    assert [str(tmp_path / "key") in line and f"mode {mode:o}" in line for line in said] == [True] * warned


def test_a_configuration_with_secrets_that_others_can_read_is_warned_of(tmp_path):
    path = write_config(tmp_path / "dataflow.ini", {"admin": {"key": SECRET}})
    path.chmod(0o644)
    assert [str(path) in line for line in warnings(run("check-config", "--config", path))] == [True]
    path.chmod(0o600)
    assert warnings(run("check-config", "--config", path)) == []


def test_a_database_that_is_not_verified_is_warned_of(tmp_path):
    args = ["--set", f"database.url=postgres://u:{SECRET}@db.example.com/d", "--set", f"relay.orders.url=postgres://u:{SECRET}@other.example.com/d",
            "--set", "relay.orders.dispatcher=log"]
    said = warnings(run("check-config", *args))
    assert [line.split(": ")[0] for line in said] == ["[database] url", "[relay.orders] url"]
    assert all("sslmode=verify-full&sslrootcert=" in line and SECRET not in line for line in said)
    assert warnings(run("check-config", "--set", "database.url=postgres://u:p@db.example.com/d?sslmode=verify-full&sslrootcert=/ca.pem")) == []


def test_the_log_of_the_server_has_the_warnings(make_sqlite_server):
    server = make_sqlite_server(config={"admin": {"key": "admin-key-of-22-letters"[:22]}})
    server.secrets.add("admin-key-of-22-letters"[:22])
    said = [line["message"] for line in server.log("ConfigurationUnwise")]
    assert [message.split(":")[0] for message in said if "[admin]" in message] == ["[admin] key"]


# --- commands ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [["dance"], [], ["serve", "--dance"], ["serve", "extra"], ["serve", "--config"], ["check-config", "--set"],
                                  ["client"], ["client", "dance"], ["client", "create"], ["client", "rotate-secret"], ["client", "suspend"],
                                  ["backup"], ["restore"], ["migrate", "extra"], ["help", "dance"], ["version", "extra"], ["sandbox", "--dance"]])
def test_wrong_usage_exits_2_and_says_what_to_do(args, tmp_path):
    result = run(*args, cwd=tmp_path)
    assert result.returncode == 2, result
    assert result.stderr.strip()
    assert not os.listdir(tmp_path), "wrong usage makes no files"


def test_help_is_found_behind_other_words():
    assert run("client", "create", "--help").stdout == run("help", "client").stdout
    assert run("client", "create", "--", "--help").returncode == 2


def test_help_and_version():
    overview = run("help")
    assert overview.returncode == 0
    for command in ("serve", "migrate", "check-config", "client", "backup", "restore", "sandbox", "version", "help"):
        assert command in overview.stdout
        told = run("help", command)
        assert run(command, "--help").stdout == told.stdout
        assert told.returncode == 0 and command in told.stdout
    for args in (["--help"], ["-h"]):
        assert run(*args).stdout == overview.stdout
    for args in (["version"], ["--version"]):
        assert run(*args).stdout.strip() == "dataflow 0.1.0"
    assert "max_body_bytes" in run("help", "config").stdout


def test_a_file_may_come_from_the_environment(tmp_path):
    path = write_config(tmp_path / "other.ini", {"server": {"drain_seconds": 9}})
    assert effective(run("check-config", env={"DATAFLOW_CONFIG": str(path)}))["server.drain_seconds"] == "9"
    assert effective(run("check-config", env={"DATAFLOW_CONFIG": ""}))["server.drain_seconds"] == "20", "none is named"


def test_the_tests_see_no_settings_of_the_caller():
    assert not [name for name in environment() if name.startswith("DATAFLOW_")]
