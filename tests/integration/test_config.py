"""Configuration: what is refused and how it is told, precedence, secrets."""

import os

import pytest
from harness import environment, run, write_config

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


@pytest.mark.parametrize("sections,word", [
    ({"server": {"tls_cert": "cert.pem"}}, "tls_key"),
    ({"gateway": {"ticket_send_url": "http://127.0.0.1:1/"}}, "api_key"),
    ({"delivery": {"retry_base_ms": 5000, "retry_cap_ms": 1000}}, "retry_cap_ms"),
    ({"database": {"url": "mysql://x/y"}}, "database"),
    ({"database": {"url": "nonsense"}}, "database"),
    ({"database": {"url": "postgres://u:p@[::1/x"}}, "database"),
    ({"database": {"url": "postgres://u:p@h/x?pasword=y"}}, "database"),
    ({"database": {"url": "sqlserver://h/x"}}, "database"),
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


# --- commands ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [["dance"], [], ["serve", "--dance"], ["serve", "extra"], ["serve", "--config"], ["check-config", "--set"],
                                  ["client"], ["client", "dance"], ["client", "create"], ["client", "rotate-secret"], ["client", "suspend"],
                                  ["backup"], ["restore"], ["migrate", "extra"], ["help", "dance"], ["version", "extra"], ["sandbox", "--dance"]])
def test_wrong_usage_exits_2_and_says_what_to_do(args, tmp_path):
    result = run(*args, cwd=tmp_path)
    assert result.returncode == 2, result
    assert result.stderr.strip()
    assert not os.listdir(tmp_path), "wrong usage makes no files"


def test_help_and_version():
    overview = run("help")
    assert overview.returncode == 0
    for command in ("serve", "migrate", "check-config", "client", "backup", "restore", "sandbox", "bench", "version", "help"):
        assert command in overview.stdout
        told = run("help", command)
        assert told.returncode == 0 and command in told.stdout
    for args in (["--help"], ["-h"]):
        assert run(*args).stdout == overview.stdout
    for args in (["version"], ["--version"]):
        assert run(*args).stdout.strip() == "dataflow 0.1.0"
    assert "max_body_bytes" in run("help", "config").stdout


def test_a_file_may_come_from_the_environment(tmp_path):
    path = write_config(tmp_path / "other.ini", {"server": {"drain_seconds": 9}})
    assert effective(run("check-config", env={"DATAFLOW_CONFIG": str(path)}))["server.drain_seconds"] == "9"


def test_the_tests_see_no_settings_of_the_caller():
    assert not [name for name in environment() if name.startswith("DATAFLOW_")]
