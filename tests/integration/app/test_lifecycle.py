"""Start, drain, restart, lost databases, several replicas, the demo."""

import contextlib
import fcntl
import json
import os
import pty
import re
import shlex
import signal
import socket
import struct
import subprocess
import termios
import threading
from pathlib import Path

import pytest
from harness import BIN, SANITIZER, TIMEOUT, Backend, Server, environment, read_responses, run, wait_for

import pg

pytestmark = pytest.mark.threads


def half_post(server, body):
    """A request whose body is not complete yet."""
    s = socket.create_connection(server.host_port, TIMEOUT)
    s.sendall(b"POST /admin/clients HTTP/1.1\r\nHost: x\r\nX-Admin-Key: " + server.admin().headers["X-Admin-Key"].encode()
              + b"\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
    seen = s.recv(25, socket.MSG_WAITALL)
    assert seen == b"HTTP/1.1 100 Continue\r\n\r\n", seen  # it is in hand
    s.sendall(body[:5])
    return s


def test_sigterm_finishes_the_request_in_hand(make_server):
    server = make_server()
    body = b'{"name":"in hand","clientId":"in-hand"}'
    with half_post(server, body) as s:
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: server.log("ServerStopping"), "the drain to begin")
        s.sendall(body[5:])
        [answer] = read_responses(s, 1)
    server.remember(answer.json)
    assert (answer.status, answer.json["clientId"]) == (201, "in-hand")
    assert server.process.wait(TIMEOUT) == 0
    server.start()
    assert server.admin().get("/admin/clients/in-hand").status == 200


def test_sigterm_does_not_wait_longer_than_the_drain(make_server):
    server = make_server(config={"server": {"drain_seconds": 1}})
    with half_post(server, b'{"name":"never complete"}'):
        assert server.stop() == 0
    assert server.log("DrainIncomplete")


def test_sigterm_does_not_wait_for_idle_connections(make_server):
    server = make_server(config={"server": {"drain_seconds": 3600}})
    with socket.create_connection(server.host_port, TIMEOUT) as s:
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_responses(s, 1)[0].status == 200
        assert server.stop() == 0


def test_sigterm_does_not_wait_for_clients_that_have_left(make_server):
    server = make_server(config={"server": {"drain_seconds": 20}})
    for _ in range(10):
        half_post(server, b'{"name":"gone before it was complete"}').close()
    assert server.stop() == 0
    assert not server.log("DrainIncomplete")


def test_sigint_stops_too(make_server):
    server = make_server()
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(TIMEOUT) == 0
    assert server.log("ServerStopped")


def test_it_ends_when_its_terminal_closes(make_server):
    server = make_server(start=False)
    keyboard, terminal = pty.openpty()

    def own_terminal():
        # Whoever runs the tests under nohup has them ignore SIGHUP, and so would what they start.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.setsid()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

    with open(server.log_path, "ab") as log:
        server.process = subprocess.Popen([BIN, "serve", "--config", str(server.config)], stdin=terminal,
                                          stdout=subprocess.DEVNULL, stderr=log, env=environment(), preexec_fn=own_terminal)
    os.close(terminal)
    server.started()
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: server.log("ReloadAsked"), "while the terminal is there, files are read again")
    os.close(keyboard)
    assert server.process.wait(TIMEOUT) == 0
    assert server.log("ServerStopped")


def start_by_shell(server, prefix):
    """As a shell would, after its own `prefix`."""
    server._log_start = server.log_path.stat().st_size if server.log_path.exists() else 0
    with open(server.log_path, "ab") as log:
        server.process = subprocess.Popen(["sh", "-c", f'{prefix} "$@"', "sh", BIN, "serve", "--config", str(server.config)],
                                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, env=environment())
    return server.started()


def test_under_nohup_it_outlives_the_terminal(make_sqlite_server):
    server = start_by_shell(make_sqlite_server(start=False), "exec nohup")
    server.process.send_signal(signal.SIGHUP)
    assert server.anonymous().get("/healthz").status == 200
    assert server.stop() == 0 and not [e for e in server.log("ServerStopping") if "signal 1:" in e["message"]]


def test_the_limit_of_files_is_raised_or_fewer_connections_taken(make_sqlite_server):
    server = start_by_shell(make_sqlite_server(start=False, config={"server": {"header_timeout_ms": 500}}), "ulimit -Sn 200; exec")
    limits = Path(f"/proc/{server.process.pid}/limits").read_text(encoding="utf-8")
    assert int(re.search(r"Max open files +(\d+)", limits)[1]) > 200 and not server.log("ConnectionsLimited")
    assert server.stop() == 0
    start_by_shell(server, "ulimit -n 200; exec")
    with contextlib.ExitStack() as idle:
        for _ in range(120):
            idle.enter_context(socket.create_connection(server.host_port, TIMEOUT))
        wait_for(lambda: server.anonymous().get("/readyz").status == 200, "silent ones to make way")
    assert len(server.log("ConnectionsLimited")) == 1


def test_it_starts_again_after_kill(make_server):
    server = make_server()
    client = server.new_client()
    server.kill()
    server.start()
    assert client.get("/whoami").status == 200


def test_replicas_may_start_at_the_same_time_on_an_empty_database(make_server, make_backend):
    backend = make_backend(empty=True)
    servers = [make_server(backend=backend, start=False) for _ in range(4)]
    for server in servers:
        server.spawn()
    for server in servers:
        server.started()
        wait_for(lambda s=server: s.anonymous().get("/readyz").status == 200, "ready")
    applied = [line for server in servers for line in server.log("SchemaApplied")]
    assert len(applied) == 1, "one applies, the others find nothing to do"
    client = servers[0].new_client()
    assert [s.client(client.id, client.secret).get("/whoami").status for s in servers] == [200] * 4


def test_a_port_in_use_is_told(make_server):
    server = make_server()
    address = "{}:{}".format(*server.host_port)
    result = server.cli("serve", "--set", f"server.listen={address}")
    assert result.returncode == 1
    assert address in result.stderr and "in use" in result.stderr


@pytest.mark.parametrize("listen", ["nonsense", "127.0.0.1", "127.0.0.1:99999", "256.1.1.1:80", "127.0.0.1:-1", ""])
def test_a_bad_listen_address_is_told(tmp_path, listen):
    result = run("serve", "--set", f"server.listen={listen}", "--set", f"server.data_dir={tmp_path}/data")
    assert result.returncode in (1, 2) and f'"{listen}"' in result.stderr or listen and listen in result.stderr, result.stderr


def test_a_data_directory_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    result = run("serve", "--set", "server.listen=127.0.0.1:0", "--set", f"server.data_dir={tmp_path}/file/data")
    assert result.returncode == 1 and str(tmp_path / "file") in result.stderr


def test_a_database_that_is_none_is_told(tmp_path):
    (tmp_path / "bad.db").write_bytes(b"this is not a database file" * 100)
    result = run("serve", "--set", "server.listen=127.0.0.1:0", "--set", f"server.data_dir={tmp_path}/data",
                 "--set", f"database.url=sqlite:{tmp_path}/bad.db")
    assert result.returncode == 1 and "bad.db" in result.stderr


def test_nothing_is_taken_while_the_database_file_is_away(make_sqlite_server):
    server = make_sqlite_server()
    first, file = server.new_client(), server.backend.file
    file.rename(file.with_suffix(".away"))
    refused = server.admin().post("/admin/clients", {"name": "lost"})
    assert (refused.status, refused.code) == (503, "DatabaseUnavailable")
    assert [line for line in server.log("RequestFailed") if str(file) in line["message"]], "the log says which file"
    assert server.anonymous().get("/readyz").status == 503
    assert not file.exists(), "no empty one is made in its place"
    file.with_suffix(".away").rename(file)
    wait_for(lambda: server.anonymous().get("/readyz").status == 200, "the server to find it again")
    # Each connection comes back in its own time.
    wait_for(lambda: server.admin().post("/admin/clients", {"name": "found"}).status == 201, "a client to be made")
    wait_for(lambda: server.client(first.id, first.secret).get("/whoami").status == 200, "the first client to be known")


def test_ipv6_and_tls(make_server, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True, timeout=60)
    server = make_server(start=False, config={"server": {"tls_cert": cert, "tls_key": key}})
    server.spawn().started()
    base = "https://{}:{}".format(*server.host_port)

    def curl(*args):
        return subprocess.run(["curl", "-sS", "--max-time", "50", *args], capture_output=True, text=True, timeout=60, check=False)

    ok = curl("--cacert", str(cert), f"{base}/healthz")
    assert json.loads(ok.stdout)["status"] == "ok", ok.stderr
    assert curl("--cacert", str(cert), "--tls-max", "1.1", f"{base}/healthz").returncode != 0
    assert curl(base.replace("https", "http") + "/healthz").returncode != 0
    if socket.has_ipv6:
        with contextlib.suppress(OSError):
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
            six = make_server(start=False, config={"server": {"listen": "[::1]:0"}})
            six.spawn().started()
            assert json.loads(curl(f"http://[::1]:{six.host_port[1]}/healthz").stdout)["status"] == "ok"


# --- a database that goes away -----------------------------------------------------------------------


def test_postgres_restarted_means_503_and_then_recovery(tmp_path):
    postgres = pg.Postgres().start()
    server = None
    try:
        server = Server(Backend.on(postgres.url()), tmp_path).start()
        client = server.new_client()
        assert client.get("/whoami").status == 200
        postgres.stop()
        ready = wait_for(lambda: (r := server.anonymous().get("/readyz")).status == 503 and r, "503")
        database = next(c for c in ready.json["checks"] if c["name"] == "database")
        assert database["status"] == "failed" and database["detail"] and database["backend"] == "postgres"
        assert server.anonymous().get("/healthz").status == 200
        refused = server.admin().post("/admin/clients", {"name": "meanwhile"})
        assert (refused.status, refused.code) == (503, "DatabaseUnavailable")
        postgres.start()
        wait_for(lambda: server.anonymous().get("/readyz").status == 200, "ready again")
        assert client.get("/whoami").status == 200
        assert server.admin().get("/admin/clients").json["total"] == 1
        server.finish()
        server = None
    finally:
        if server:
            server.kill()
        postgres.close()


def test_a_start_without_its_database_fails_with_a_reason(tmp_path):
    url = f"postgres://x:y@127.0.0.1:{pg.free_port()}/z"
    result = run("serve", "--set", f"database.url={url}", "--set", "server.listen=127.0.0.1:0", "--set", f"server.data_dir={tmp_path}")
    assert result.returncode == 1
    assert "127.0.0.1" in result.stderr or "refused" in result.stderr


def greet_and_die(listener):
    """A PostgreSQL that stops in the moment in which it has greeted: both arrive together."""
    def message(kind, payload):
        return kind + struct.pack(">i", len(payload) + 4) + payload

    fields = {"S": "FATAL", "V": "FATAL", "C": "57P01", "M": "terminating connection due to administrator command"}
    refusal = b"".join(f"{key}{text}\0".encode() for key, text in fields.items()) + b"\0"
    settings = {"server_version": "15.0", "client_encoding": "UTF8", "in_hot_standby": "off", "default_transaction_read_only": "off"}
    greeting = message(b"R", struct.pack(">i", 0)) + b"".join(message(b"S", f"{key}\0{text}\0".encode()) for key, text in settings.items())
    greeting += message(b"K", struct.pack(">ii", 1, 1)) + message(b"Z", b"I") + message(b"E", refusal)
    with contextlib.suppress(OSError):
        while True:
            peer = listener.accept()[0]
            with peer, contextlib.suppress(OSError):
                if peer.recv(4096):
                    peer.sendall(greeting)
                    peer.shutdown(socket.SHUT_WR)
                    peer.recv(4096)


def test_what_a_dying_postgres_says_goes_to_the_log_as_json(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=greet_and_die, args=(listener,), daemon=True).start()
        url = f"postgres://x:y@127.0.0.1:{listener.getsockname()[1]}/z?sslmode=disable"
        result = run("serve", "--set", f"database.url={url}", "--set", "server.listen=127.0.0.1:0", "--set", f"server.data_dir={tmp_path}")
        listener.shutdown(socket.SHUT_RDWR)
    assert result.returncode == 1, result.stderr
    notices = [line for line in result.stderr.splitlines() if "administrator command" in line]
    assert any(line.startswith("{") and json.loads(line)["event"] == "LibraryMessage" for line in notices), result.stderr
    assert not any(line.startswith("FATAL") for line in notices), result.stderr


def test_what_a_library_prints_goes_to_the_log_as_json(tmp_path):
    passwords = tmp_path / "pgpass"
    passwords.write_text("*:*:*:*:p\n")
    passwords.chmod(0o644)  # of which libpq complains by itself
    url = f"postgres://x@127.0.0.1:{pg.free_port()}/z?passfile={passwords}"
    result = run("serve", "--set", f"database.url={url}", "--set", "server.listen=127.0.0.1:0", "--set", f"server.data_dir={tmp_path}")
    assert result.returncode == 1
    complaint, reason = result.stderr.splitlines()
    assert json.loads(complaint)["event"] == "LibraryMessage" and "0600" in complaint
    assert reason.startswith("dataflow serve: ")


# --- the demo ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def demo(directory, sandbox_port=0, last="_stats"):
    """The output of `serve --demo` once it is complete. What the sandbox can serve is printed if its port is known."""
    with open(directory / "demo.log", "ab") as log:
        process = subprocess.Popen([BIN, "serve", "--demo", "--sandbox-listen", f"127.0.0.1:{sandbox_port}",
                                    "--set", "server.listen=127.0.0.1:0", "--set", f"server.data_dir={directory}/var"], stdout=subprocess.PIPE, stderr=log, text=True,
                                   env=environment(), cwd=directory)
    try:
        text = ""
        while last not in text:
            line = process.stdout.readline()
            assert line, (directory / "demo.log").read_text()
            text += line
        yield text
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT) == 0
        log = (directory / "demo.log").read_text()
        assert not SANITIZER.search(log), log
    finally:
        process.kill()
        process.wait()


def test_the_demo_prints_three_commands_that_work(tmp_path):
    with demo(tmp_path) as text:
        assert len(re.findall(r"http://127\.0\.0\.1:\d+/", text)) >= 2
        commands = [line.strip() for line in text.splitlines() if line.strip().startswith("curl ")]
        assert len(commands) == 3
        answers = []
        for command in commands:
            done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, (command, done.stderr)
            answers.append(json.loads(done.stdout))
        assert answers[0]["clientId"] == "demo"
        assert {"clientId", "clientSecret"} == set(answers[1])
        secrets = re.findall(r"dfs_[\w-]+", text) + [answers[1]["clientSecret"]]
        log = (tmp_path / "demo.log").read_text()
        assert not [s for s in secrets if s in log]
    with demo(tmp_path) as again:
        # The same credentials as before: what was copied into a script goes on working.
        assert [shlex.split(c)[4:] for c in commands[:1]] == [
            shlex.split(line.strip())[4:] for line in again.splitlines() if "/whoami" in line]


def test_the_demo_takes_a_ticket_and_a_file_to_their_end(tmp_path):
    port = pg.free_port()

    def ask(command):
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (command, done.stderr)
        return json.loads(done.stdout)

    with demo(tmp_path, port, "/imports -H 'X-Client-Id: demo'") as text:
        ticket, shown, upload = [line.strip() for line in text.splitlines() if "/api/tickets" in line or "/imports" in line]
        ask(ticket)
        wait_for(lambda: "Success" in json.dumps(ask(shown)), "the gateway's callback")
        batch = ask(upload)["batchId"]
        listing = re.sub(r".*\| (curl .*) -F .*", r"\1", upload)
        done = wait_for(lambda: [b for b in ask(listing)["items"] if b["batchId"] == batch and b["completedAt"]], "its end")
        assert (done[0]["status"], done[0]["importedCount"]) == ("Completed", 2)


def test_resources_at_rest_are_small(make_server):
    """No figures here (the benchmarks have them); only that nothing is off by a magnitude."""
    server = make_server()
    text = server.anonymous().get("/metrics").body.decode()
    resident = float(re.search(r"^process_resident_memory_bytes (\S+)$", text, re.M)[1])
    plain = "/release/" in BIN or BIN.endswith("build/dataflow")
    assert resident < (64 if plain else 1024) * 2**20
