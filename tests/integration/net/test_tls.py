"""TLS on every side, with an authority of the tests: what is served, what is called, and what is refused, and why."""

import contextlib
import http.client
import http.server
import itertools
import json
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pg
import pytest
import rabbit
import tls
from harness import ADMIN_KEY, TIMEOUT, Backend, Server, postgres_execute, run, wait_for
from test_webhooks_targets import RESOLVER, given_up

pytestmark = pytest.mark.threads

UNKNOWN, OTHER_HOST = "from an unknown authority", "for another host name"


@pytest.fixture(scope="module", name="ca")
def _ca(tmp_path_factory):
    return tls.Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module", name="other_ca")
def _other_ca(tmp_path_factory):
    return tls.Authority(tmp_path_factory.mktemp("tls"), "Another authority")


# --- the server --------------------------------------------------------------------------------------


def connect(server, context, host="127.0.0.1"):
    return http.client.HTTPSConnection(host, server.host_port[1], context=context, timeout=TIMEOUT)


def get(server, context, path="/healthz", headers=None):
    with contextlib.closing(connect(server, context)) as connection:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()


def subject(server, context):
    """Of the certificate that a new connection is shown."""
    with socket.create_connection(server.host_port, TIMEOUT) as plain, \
            context.wrap_socket(plain, server_hostname="localhost") as secure:
        return dict(pair for part in secure.getpeercert()["subject"] for pair in part)["commonName"]


@pytest.fixture(name="files")
def _files(ca, tmp_path):
    """Where the server's certificate and key lie, to be replaced."""
    files = tmp_path / "server.pem", tmp_path / "server.key"
    tls.replace(files, ca.issue(subject="first"))
    return files


def serve_tls(make, files, **more):
    server = make(start=False, config={"server": {"tls_cert": files[0], "tls_key": files[1], **more}})
    return server.spawn().started()


def test_a_new_certificate_costs_no_request(make_sqlite_server, ca, files):
    server = serve_tls(make_sqlite_server, files)
    context = ca.client_context()
    failed, answered, over = [], itertools.count(), threading.Event()

    def load(keep):
        try:
            connection = connect(server, context)
            while not over.is_set():
                connection.request("GET", "/healthz")
                answer = connection.getresponse()
                assert answer.read() and answer.status == 200
                next(answered)
                if not keep:
                    connection.close()
            connection.close()
        except Exception as error:  # pylint: disable=broad-except
            failed.append(repr(error))

    threads = [threading.Thread(target=load, args=(n % 2 == 0,)) for n in range(4)]
    for thread in threads:
        thread.start()
    assert subject(server, context) == "first"
    for number, name in enumerate(("second", "third", "fourth")):
        tls.replace(files, ca.issue(subject=name))
        if number == 1:  # the others are found without being told of
            server.process.send_signal(signal.SIGHUP)
        wait_for(lambda n=name: subject(server, context) == n, f"the {name} certificate")
        assert len(server.log("TlsReloaded")) == number + 1
    over.set()
    for thread in threads:
        thread.join(TIMEOUT)
    assert not failed and next(answered) > 20
    told = server.log("TlsReloaded")[-1]
    assert told["subject"] == "CN=fourth" and told["notAfter"].endswith("Z")
    assert not server.log("TlsReloadFailed")


def test_a_certificate_that_is_no_good_leaves_the_old_one(make_sqlite_server, ca, files, tmp_path):
    server = serve_tls(make_sqlite_server, files)
    context = ca.client_context()
    pairs = [
        ((ca.issue()[0], ca.issue()[1]), "does not match"),
        (ca.issue(end=-0.5), "expired"),
        ((tmp_path / "text", ca.issue()[1]), "not a PEM certificate"),
    ]
    (tmp_path / "text").write_text("no certificate\n", encoding="ascii")
    for number, (pair, why) in enumerate(pairs, 1):
        tls.replace(files, pair)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda n=number: len(server.log("TlsReloadFailed")) >= n, why)
        assert why in server.log("TlsReloadFailed")[-1]["message"]
        assert subject(server, context) == "first"
    files[1].unlink()
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "server.key" in server.log("TlsReloadFailed")[-1]["message"], "a key that is gone")
    assert subject(server, context) == "first"
    tls.replace(files, ca.issue(subject="good"))
    wait_for(lambda: subject(server, context) == "good", "a good pair")


def test_versions_suites_and_time_left(make_sqlite_server, ca, files):
    server = serve_tls(make_sqlite_server, files)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        assert get(server, ca.client_context(version=version))[0] == 200
    with pytest.raises((ssl.SSLError, ConnectionError)):
        get(server, ca.client_context(version=ssl.TLSVersion.TLSv1_1))
    for cipher in ("AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA256"):  # no forward secrecy; no AEAD
        context = ca.client_context(version=ssl.TLSVersion.TLSv1_2)
        context.set_ciphers(cipher)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            get(server, context)
    _, text = get(server, ca.client_context(), "/metrics")
    left, = (float(line.split()[1]) for line in text.decode().splitlines() if line.startswith("dataflow_tls_expires_seconds"))
    assert 29 * 86400 < left <= 30 * 86400


def test_callers_need_a_certificate(make_sqlite_server, ca, other_ca, files, tmp_path):
    authorities = tmp_path / "clients.pem"
    shutil.copy(ca.cert, authorities)
    server = serve_tls(make_sqlite_server, files, tls_client_ca=authorities)
    good = ca.client_context(ca.issue(usage="clientAuth", subject="caller"))
    admin = {"X-Admin-Key": ADMIN_KEY}
    assert get(server, good, "/admin/clients", admin)[0] == 200
    refused = [
        (ca.issue(usage="clientAuth", end=-0.5, subject="late"), "it has expired"),
        (ca.issue(usage="clientAuth", start=1, subject="early"), "it is not valid yet"),
        (other_ca.issue(usage="clientAuth", subject="stranger"), "its authority is not in tls_client_ca"),
        (ca.issue(usage="serverAuth", subject="server"), "it is not for clients"),
    ]
    for number, (pair, why) in enumerate(refused, 1):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with pytest.raises(ssl.SSLError, match="alert"):
                get(server, ca.client_context(pair, version), "/admin/clients", admin)
        told = server.log("ClientCertificateRefused")
        assert len(told) == 2 * number and told[-1]["message"] == why and told[-1]["subject"].startswith("CN=")
    # Without any: probes of this machine are answered, the rest is told what is missing.
    for path in ("/healthz", "/readyz"):
        assert get(server, ca.client_context(), path)[0] == 200
    for path in ("/whoami", "/admin/clients", "/nothing", "/metrics", "/"):
        status, body = get(server, ca.client_context(), path, admin)
        assert (status, json.loads(body)["code"]) == (403, "ClientCertificateWanted"), path
    # Another authority takes the place of this one.
    other = ca.client_context(other_ca.issue(usage="clientAuth"))
    shutil.copy(other_ca.cert, authorities)
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: server.log("TlsReloaded"), "the other authority")
    assert get(server, other, "/admin/clients", admin)[0] == 200
    with pytest.raises(ssl.SSLError, match="alert"):
        get(server, good, "/admin/clients", admin)


def test_dataflow_import_trusts_a_private_authority(make_sqlite_server, ca, other_ca, files, tmp_path):
    server = serve_tls(make_sqlite_server, files)
    (tmp_path / "leads.csv").write_text("name,phone\nAna,+5511987654321\n", encoding="utf-8")

    def send_file(*args):
        return run("import", tmp_path / "leads.csv", "--server", f"https://localhost:{server.host_port[1]}",
                   env={"DATAFLOW_CLIENT_ID": "nobody", "DATAFLOW_CLIENT_SECRET": "wrong"}, *args)
    assert UNKNOWN in send_file().stderr
    assert UNKNOWN in send_file("--ca-file", other_ca.cert).stderr
    assert "401" in (told := send_file("--ca-file", ca.cert)).stderr or "Unauthorized" in told.stderr, told.stderr
    assert send_file("--ca-file", tmp_path / "missing.pem").returncode == 2


def test_a_server_without_tls_lives_on_after_sighup(make_sqlite_server):
    server = make_sqlite_server()
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: server.log("ReloadAsked"), "told")
    assert server.anonymous().get("/healthz").status == 200


# --- calls to others ---------------------------------------------------------------------------------


def shake_hands(secure):
    """A peer that refuses reads on for a while, as servers do: otherwise a reset would overtake its alert."""
    try:
        secure.do_handshake()
    except ssl.SSLError:
        with contextlib.suppress(OSError), socket.socket(fileno=secure.detach()) as plain:
            plain.settimeout(TIMEOUT)
            plain.shutdown(socket.SHUT_WR)
            while plain.recv(4096):
                pass
        raise


class Peer:
    """Answers 200 to every POST over TLS, or without, and 403 to a PUT."""

    def __init__(self, context):
        outer = self
        self.paths = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                self.request.settimeout(TIMEOUT)
                if context:
                    self.request = context.wrap_socket(self.request, server_side=True, do_handshake_on_connect=False)
                    shake_hands(self.request)
                super().setup()

            def do_POST(self):  # noqa: N802
                self.rfile.read(int(self.headers["Content-Length"]))
                outer.paths.append(self.path)
                self.send_response(200 if self.command == "POST" else 403)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_PUT = do_POST  # noqa: N815

            def log_message(self, *_):
                pass

        class Listener(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):
                """A handshake that failed."""

        self.server = Listener(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, path="/"):
        return f"https://localhost:{self.server.server_port}{path}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(name="peer")
def _peer():
    with contextlib.ExitStack() as stack:
        def make(context):
            peer = Peer(context)
            stack.callback(peer.close)
            return peer
        yield make


def send(server, targets):
    """Acks that are to go to these URLs, as rows; a function that tells their state and last error."""
    names = ", ".join(f"('{doc}', '{{}}', '{url}', '2026-01-01T00:00:00.000Z')" for doc, url in targets.items())
    write = server.backend.script if server.backend.name == "sqlite" else server.backend.query
    write(f"INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl, NextAttemptAt) VALUES {names}")
    listed = ", ".join(f"'{doc}'" for doc in targets)

    def states():
        return {doc: (status, error or "") for doc, status, error in server.backend.query(
            f"SELECT BusinessDocId, Status, LastError FROM TB_FUNCTIONAL_ACK_OUTBOX WHERE BusinessDocId IN ({listed})")}
    return states


def gateway(ca_file, **sections):
    return {"gateway": {"functional_ack_url": "https://localhost:1/", "api_key": "k"}, "delivery": {"allow_private_targets": "on"},
            "security": {"ca_file": ca_file}, **sections}


def test_every_refusal_says_which(make_server, ca, other_ca, peer):
    contexts = {
        "good": (tls.server_context(ca.issue()), None),
        "expired": (tls.server_context(ca.issue(end=-0.5)), "its certificate has expired"),
        "early": (tls.server_context(ca.issue(start=1)), "its certificate is not valid yet"),
        "host": (tls.server_context(ca.issue(hosts="DNS:other.example")), OTHER_HOST),
        "unknown": (tls.server_context(other_ca.issue()), UNKNOWN),
        "purpose": (tls.server_context(ca.issue(usage="clientAuth")), "is not for servers"),
        "old": (tls.server_context(ca.issue(), ssl.TLSVersion.TLSv1_1), "it speaks no TLS as new as 1.2"),
        "client12": (tls.server_context(ca.issue(), ssl.TLSVersion.TLSv1_2, ca.cert), "it wants a client certificate"),
        "client13": (tls.server_context(ca.issue(), ssl.TLSVersion.TLSv1_3, ca.cert), "it wants a client certificate"),
        "plain": (None, "it does not speak TLS on this port"),
    }
    server = make_server(config=gateway(ca.cert))
    states = send(server, {doc: peer(context).url() for doc, (context, _) in contexts.items()})
    wait_for(lambda: all(status == "Sent" or error for status, error in states().values()), "each was tried")
    for doc, (_, why) in contexts.items():
        status, error = states()[doc]
        assert (status == "Sent") == (why is None), (doc, status, error)
        assert not why or (why in error and error.startswith("https://localhost:")), (doc, error)


def test_an_authority_that_was_replaced_is_trusted_no_more(make_sqlite_server, ca, other_ca, peer, tmp_path):
    """Without a restart, and though a connection to the peer is open."""
    trusted = tmp_path / "trusted.pem"
    shutil.copy(ca.cert, trusted)
    server = make_sqlite_server(config=gateway(trusted))
    old, new = peer(tls.server_context(ca.issue())), peer(tls.server_context(other_ca.issue()))
    before = send(server, {"a": old.url(), "b": new.url()})
    wait_for(lambda: before()["a"][0] == "Sent" and UNKNOWN in before()["b"][1], "the first authority")
    time.sleep(2.1)  # a connection that is hardly older than the reload may still be used
    shutil.copy(other_ca.cert, f"{trusted}.new")
    Path(f"{trusted}.new").replace(trusted)
    wait_for(lambda: server.log("CaReloaded"), "the second authority")
    after = send(server, {"c": old.url(), "d": new.url()})
    wait_for(lambda: UNKNOWN in after()["c"][1] and after()["d"][0] == "Sent", "the second authority")
    trusted.write_text("nothing", encoding="ascii")
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: server.log("TlsReloadFailed"), "a file that is no good")
    last = send(server, {"e": new.url()})
    wait_for(lambda: last()["e"][0] == "Sent", "what was trusted still is")


def test_postgres_by_tls(ca, other_ca, tmp_path):
    postgres = pg.Postgres()
    server = None
    try:
        cert, key = ca.issue(hosts="DNS:localhost")
        for source, name in ((cert, "server.crt"), (key, "server.key")):
            target = Path(postgres.data) / name
            shutil.copy(source, target)
            target.chmod(0o600)
            if postgres.identity:
                shutil.chown(target, postgres.identity["user"], postgres.identity["group"])
        with open(Path(postgres.data) / "postgresql.conf", "a", encoding="ascii") as f:
            f.write("ssl = on\n")
        postgres.start()
        by_name = postgres.url().replace("127.0.0.1", "localhost") + "?sslmode=verify-full"
        by_address = postgres.url() + "?sslmode=verify-full"
        for url, trusted, why in ((by_name, other_ca.cert, "certificate verify failed"), (by_address, ca.cert, "does not match host name")):
            refused = run("serve", "--set", f"database.url={url}", "--set", f"security.ca_file={trusted}",
                          "--set", "server.listen=127.0.0.1:0", "--set", f"server.data_dir={tmp_path}/x")
            assert refused.returncode == 1 and why in refused.stderr, refused.stderr
        server = Server(Backend.on(by_name), tmp_path, config={"security": {"ca_file": ca.cert}}).start()

        def connections():
            """By name, whether they are encrypted."""
            return set(postgres_execute("SELECT a.application_name, s.ssl AND s.version IN ('TLSv1.2', 'TLSv1.3') FROM pg_stat_ssl s"
                                        " JOIN pg_stat_activity a ON a.pid = s.pid WHERE a.application_name LIKE 'dataflow%'", postgres.url()))
        wait_for(lambda: connections() == {("dataflow", True), ("dataflow notifications", True)}, "every connection")
        server.finish()
        server = None
    finally:
        if server:
            server.kill()
        postgres.close()


def doctor(name, settings):
    """One check of `dataflow doctor` with these settings."""
    args = itertools.chain.from_iterable(("--set", f"{key}={value}") for key, value in settings.items())
    found = json.loads(run("doctor", "--json", *args).stdout)
    return next(check for check in found["checks"] if check["name"] == name)


def test_rabbitmq_by_tls(ca, other_ca, tmp_path):
    broker = rabbit.Rabbit(*ca.issue(hosts="DNS:localhost"))
    try:
        broker.start()
        target = f"amqps://guest:guest@localhost:{broker.tls_port}/"
        base = {"server.data_dir": tmp_path, "relay.r.dispatcher": "rabbitmq", "relay.r.target": target, "security.ca_file": ca.cert}
        assert doctor("relay.r.target", base)["status"] == "ok"
        for more, why in (({"security.ca_file": ""}, UNKNOWN), ({"security.ca_file": other_ca.cert}, UNKNOWN),
                          ({"relay.r.target": target.replace("localhost", "127.0.0.1")}, OTHER_HOST)):
            check = doctor("relay.r.target", {**base, **more})
            assert check["status"] == "problem" and why in check["detail"], check
    finally:
        broker.close()


def test_kafka_by_tls(ca, other_ca, tmp_path):
    """The mock broker speaks no TLS: a listener tells whether the client trusted it and began to speak."""
    heard, refused = [], []
    context = tls.server_context(ca.issue(hosts="DNS:localhost"))

    def listen(listener):
        with contextlib.suppress(OSError):
            while True:
                plain, _ = listener.accept()
                plain.settimeout(TIMEOUT)
                try:
                    with context.wrap_socket(plain, server_side=True) as secure:
                        heard.append(secure.recv(100))
                except OSError as error:
                    refused.append(str(error))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=listen, args=(listener,), daemon=True).start()
        port = listener.getsockname()[1]
        base = {"server.data_dir": tmp_path, "relay.r.dispatcher": "kafka", "relay.r.properties": "security.protocol=ssl"}
        cases = [("localhost", ca.cert, True), ("localhost", other_ca.cert, False), ("127.0.0.1", ca.cert, False)]
        for host, trusted, speaks in cases:
            heard.clear()
            refused.clear()
            check = doctor("relay.r.target", {**base, "relay.r.target": f"kafka://{host}:{port}/t", "security.ca_file": trusted})
            assert check["status"] == "problem", "it is no broker"
            assert bool([data for data in heard if data]) == speaks and (speaks or refused), (host, heard, refused)


def test_s3_by_tls(ca, other_ca, peer, tmp_path):
    storage = peer(tls.server_context(ca.issue()))
    base = {"server.data_dir": tmp_path, "imports.scheduled_storage": "s3://bucket", "s3.access_key": "a", "s3.secret_key": "b",
            "s3.path_style": "on", "s3.endpoint": storage.url("").rstrip("/")}
    assert UNKNOWN in doctor("imports.scheduled_storage", {**base, "security.ca_file": other_ca.cert})["detail"]
    reached = doctor("imports.scheduled_storage", {**base, "security.ca_file": ca.cert})["detail"]
    assert "refused with 403" in reached, "the peer is trusted"


def test_doctor_says_what_is_wrong_with_a_destination(ca, peer, tmp_path):
    bad = peer(tls.server_context(ca.issue(end=-0.5)))
    good = peer(tls.server_context(ca.issue()))
    base = {"server.data_dir": tmp_path, "gateway.api_key": "k", "security.ca_file": ca.cert}
    check = doctor("gateway.functional_ack_url", {**base, "gateway.functional_ack_url": bad.url()})
    assert check["status"] == "problem" and "its certificate has expired" in check["detail"]
    assert doctor("gateway.functional_ack_url", {**base, "gateway.functional_ack_url": good.url()})["status"] == "ok"


def test_doctor_looks_at_the_authorities_of_callers(ca, files, tmp_path):
    base = {"server.data_dir": tmp_path, "server.tls_cert": files[0], "server.tls_key": files[1]}
    for authorities, status in ((ca.cert, "ok"), (files[1], "problem"), (tmp_path / "missing.pem", "problem")):
        assert doctor("server.tls_client_ca", {**base, "server.tls_client_ca": authorities})["status"] == status


# --- the proxy ---------------------------------------------------------------------------------------


class Proxy:
    """Speaks CONNECT, and answers 200 to other requests. What it is asked for is noted, and every tunnel leads to `port` on this machine."""

    def __init__(self, port, login=None):
        self.asked = []
        self.port = port
        self.login = login
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self):
        return "127.0.0.1:%d" % self.listener.getsockname()[1]

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self.listener.accept()[0],), daemon=True).start()

    def _serve(self, caller):
        with contextlib.suppress(OSError), caller:
            head = b""
            while b"\r\n\r\n" not in head:
                head += caller.recv(4096)
            self.asked.append(head.split(b"\r\n")[0].decode())
            if not head.startswith(b"CONNECT "):  # a request of its own, which it answers itself
                caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            if self.login and f"Proxy-Authorization: Basic {self.login}".encode() not in head:
                caller.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                return
            with socket.create_connection(("127.0.0.1", self.port), TIMEOUT) as other:
                caller.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                back = threading.Thread(target=self._copy, args=(other, caller), daemon=True)
                back.start()
                self._copy(caller, other)
                back.join(TIMEOUT)

    @staticmethod
    def _copy(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def test_calls_go_through_the_proxy(make_sqlite_server, ca, peer):
    far = peer(tls.server_context(ca.issue(hosts="DNS:gateway.example")))
    near = peer(tls.server_context(ca.issue()))
    proxy = Proxy(far.server.server_port, "dXNlcjpwcm94eSBwYXNzd29yZA==")  # user:proxy password
    config = gateway(ca.cert)
    config["security"]["proxy"] = f"http://user:proxy%20password@{proxy.address}"
    server = make_sqlite_server(start=False, config=config)
    server.secrets.add("proxy%20password")
    server.start()
    states = send(server, {"far": "https://gateway.example/x", "near": near.url("/y")})
    wait_for(lambda: {s for s, _ in states().values()} == {"Sent"}, "both")
    assert far.paths == ["/x"] and near.paths == ["/y"], "loopback needs no proxy"
    assert set(proxy.asked) == {"CONNECT gateway.example:443 HTTP/1.1"}, "the proxy looks up the operator's names"
    assert "proxy%20password" not in run("config", "--config", server.config).stdout
    plain = send(server, {"plain": "http://gateway.example/z"})
    wait_for(lambda: plain()["plain"][0] == "Sent", "a request in the clear")
    assert proxy.asked[-1] == "POST http://gateway.example/z HTTP/1.1"
    proxy.login = "another"
    wrong = send(server, {"no": "https://elsewhere.example/"})
    wait_for(lambda: "the proxy refuses to connect (407)" in wrong()["no"][1], "a proxy that refuses")


def through(proxy, ca):
    return {"security": {"ca_file": ca.cert, "proxy": f"http://{proxy.address}"}, "webhooks": {"retry_delays_ms": "10"}}


@pytest.mark.tools  # sanitizers do not let others come before them
def test_what_a_tenant_names_is_checked_before_the_proxy_is_asked(make_sqlite_server, ca, tmp_path):
    (tmp_path / "resolver.c").write_text(RESOLVER, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "resolver.so", tmp_path / "resolver.c"], check=True, timeout=60)
    proxy = Proxy(1)
    server = make_sqlite_server(env={"LD_PRELOAD": str(tmp_path / "resolver.so")}, config=through(proxy, ca))
    client = server.new_client()
    failure = given_up(server, client, "https://rebind.example/")  # public when it is registered, and then this machine
    assert "not a public address" in failure["lastError"] and not proxy.asked


@pytest.mark.parametrize("url, secure, asked", (
    ("https://9.9.9.9:8443/hook", True, "CONNECT 9.9.9.9:8443 HTTP/1.1"),
    ("http://9.9.9.9/hook", False, "CONNECT 9.9.9.9:80 HTTP/1.1"),
    ("https://[2606:4700::1111]/hook", True, "CONNECT [2606:4700::1111]:443 HTTP/1.1"),
))
def test_the_proxy_is_told_the_address_of_a_tenants_target(make_sqlite_server, ca, peer, url, secure, asked):
    far = peer(tls.server_context(ca.issue(hosts="IP:9.9.9.9,IP:2606:4700::1111")) if secure else None)
    proxy = Proxy(far.server.server_port)
    server = make_sqlite_server(config=through(proxy, ca))
    client = server.new_client()
    made = client.post(f"/clients/{client.id}/webhooks", {"url": url})
    server.secrets.add(made.json["secret"])
    for _ in range(2):
        assert client.post(f"/clients/{client.id}/webhooks/{made.json['id']}/test", {}).status == 202
    wait_for(lambda: far.paths == ["/hook"] * 2, "delivered")
    assert set(proxy.asked) == {asked}


# --- nothing in the clear ----------------------------------------------------------------------------

OK = {"server.require_tls": "on", "database.url": "sqlite:x.db"}
CLEAR = [
    ({"server.listen": "0.0.0.0:8443"}, "server.tls_cert"),
    ({"server.listen": ":8443"}, "server.tls_cert"),
    ({"gateway.functional_ack_url": "http://gw.example/", "gateway.api_key": "k"}, "gateway.functional_ack_url"),
    ({"gateway.ticket_return_url": "http://gw.example/", "gateway.api_key": "k"}, "gateway.ticket_return_url"),
    ({"gateway.ticket_send_url": "http://gw.example/", "gateway.api_key": "k"}, "gateway.ticket_send_url"),
    ({"omniflow.url": "http://omni.example/", "omniflow.api_key": "k"}, "omniflow.url"),
    ({"alerts.teams_url": "http://teams.example/"}, "alerts.teams_url"),
    ({"alerts.pagerduty_url": "http://pd.example/", "alerts.pagerduty_routing_key": "k"}, "alerts.pagerduty_url"),
    ({"s3.endpoint": "http://s3.example"}, "s3.endpoint"),
    ({"security.proxy": "http://user:password@proxy.example:3128"}, "security.proxy"),
    ({"integration.erp.base_url": "http://erp.example/"}, "integration.erp"),
    ({"relay.r.dispatcher": "http", "relay.r.target": "http://r.example/"}, "relay.r.target"),
    ({"relay.r.dispatcher": "rabbitmq", "relay.r.target": "amqp://u:p@mq.example/"}, "amqps://"),
    ({"relay.r.dispatcher": "kafka", "relay.r.target": "kafka://k.example:9092/t"}, "security.protocol=ssl"),
    ({"relay.r.dispatcher": "kafka", "relay.r.target": "kafka://localhost:9092,k.example:9092/t",
      "relay.r.properties": "security.protocol=sasl_plaintext;sasl.mechanism=PLAIN;sasl.username=u;sasl.password=p"}, "security.protocol=ssl"),
    ({"relay.r.dispatcher": "kafka", "relay.r.target": "kafka://k.example:9093/t",
      "relay.r.properties": "security.protocol=ssl;enable.ssl.certificate.verification=false"}, "not verified"),
    ({"relay.r.url": "postgres://u:p@db.example/d"}, "relay.r.url"),
    ({"database.url": "postgres://u:p@db.example/d"}, "verify-full"),
    ({"database.url": "postgres://u:p@db.example/d?sslmode=require"}, "verify-full"),
    ({"database.url": "postgres://u:p@db.example/d?sslmode=verify-ca"}, "verify-full"),
    ({"database.url": "postgres:///d?service=x&host=db.example"}, "verify-full"),
    ({"database.url": "sqlserver://u:p@db.example/d"}, "servername"),
    ({"database.url": "sqlserver://u:p@db.example/d?servername=s&encrypt=off"}, "in the clear"),
]
SECURE = [
    {},
    {"gateway.functional_ack_url": "https://gw.example/", "gateway.api_key": "k"},
    {"gateway.functional_ack_url": "http://127.0.0.1:9/", "gateway.api_key": "k", "omniflow.url": "http://localhost:9/", "omniflow.api_key": "k"},
    {"security.proxy": "http://proxy.example:3128"},
    {"security.proxy": "http://user:password@127.0.0.1:3128"},
    {"relay.r.dispatcher": "rabbitmq", "relay.r.target": "amqp://u:p@localhost/"},
    {"relay.r.dispatcher": "rabbitmq", "relay.r.target": "amqps://u:p@mq.example/"},
    {"relay.r.dispatcher": "kafka", "relay.r.target": "kafka://localhost:9092/t"},
    {"relay.r.dispatcher": "kafka", "relay.r.target": "kafka://k.example:9093/t",
     "relay.r.properties": "security.protocol=SASL_SSL;sasl.mechanism=PLAIN;sasl.username=u;sasl.password=p"},
    {"database.url": "postgres://u:p@db.example/d?sslmode=verify-full"},
    {"database.url": "postgres://u:p@127.0.0.1/d"},
    {"database.url": "sqlserver://u:p@db.example/d?servername=s"},
]


def check_config(settings):
    return run("check-config", *itertools.chain.from_iterable(("--set", f"{k}={v}") for k, v in {**OK, **settings}.items()))


@pytest.mark.parametrize("settings, word", CLEAR)
def test_nothing_in_the_clear_is_configured(settings, word):
    refused = check_config(settings)
    assert refused.returncode != 0 and "require_tls" in refused.stderr and word in refused.stderr, refused.stderr
    assert check_config({**settings, "server.require_tls": "off"}).returncode == 0


@pytest.mark.parametrize("settings", SECURE)
def test_what_is_secure_or_stays_here_is_configured(settings):
    allowed = check_config(settings)
    assert allowed.returncode == 0, allowed.stderr


def test_webhooks_in_the_clear_are_refused_or_wait(make_server):
    server = make_server()
    client = server.new_client()
    hooks = f"/clients/{client.id}/webhooks"
    made = client.post(hooks, {"url": "http://9.9.9.9:9/"})
    server.secrets.add(made.json["secret"])
    with open(server.config, "a", encoding="utf-8") as f:
        f.write("[server]\nrequire_tls = on\n")
    server.restart()
    answer = client.post(hooks, {"url": "http://9.9.9.9/"})
    assert answer.status == 400 and [e["field"] for e in answer.json["errors"]] == ["url"] and "https" in str(answer.json["errors"])
    assert client.patch(f"{hooks}/{made.json['id']}", {"url": "http://9.9.9.8/"}).status == 400
    assert client.post(f"{hooks}/{made.json['id']}/test", {}).status == 202
    waiting = wait_for(lambda: [d for d in client.get(f"{hooks}/{made.json['id']}/deliveries").json["items"] if d["lastError"]], "told why")[0]
    assert "require_tls" in waiting["lastError"] and waiting["status"] != "Sent" and waiting["nextAttemptAt"], waiting
    assert waiting["attempts"] == 0, "nothing was tried, and nothing counts"


def test_the_start_is_refused_too(tmp_path):
    refused = run("serve", "--set", "server.require_tls=on", "--set", "server.listen=0.0.0.0:0", "--set", f"server.data_dir={tmp_path}")
    assert refused.returncode == 2 and "server.tls_cert" in refused.stderr
    for settings, word in ((("security.ca_file=/nonexistent",), "/nonexistent"), (("security.proxy=ftp://x",), "security] proxy"),
                           (("server.tls_client_ca=x.pem",), "tls_client_ca")):
        refused = run("check-config", *itertools.chain.from_iterable(("--set", s) for s in settings))
        assert refused.returncode == 2 and word in refused.stderr, refused.stderr
