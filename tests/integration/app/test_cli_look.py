"""dataflow batch, ticket, alerts: what a running server knows; suggestions, `help KEY`, and the language of the locale."""

import json

import pytest
from harness import ADMIN_KEY, run
from test_imports_read import PROCESSING, Rows
from test_lifecycle import demo

import pg

PT = {"LC_ALL": "pt_BR.UTF-8"}
TICKET = {"businessEntity": "TCK", "phaseCode": 15, "companyCode": "0050", "branchCode": "01", "destinationCode": "SSZ",
          "shipmentEvent": "RCD", "targetApplicationCode": "ASB"}


def look(server, *args, status=0, **kwargs):
    """With the server that listens: its port is not in the configuration."""
    done = server.cli(*args, "--server", server.url, **kwargs)
    assert done.returncode == status, done.stderr
    return done


def test_batches(server):
    client = server.new_client("Look")
    rows = Rows(server.backend)
    made = rows.batch(client, PROCESSING, TotalRecords=100, LastError="OmniFlow refused every item")
    answer = server.admin().get(f"/admin/imports?clientId={client.id}").json
    assert json.loads(look(server, "batch", "list", "--client", client.id, "--json").stdout)["items"][0]["batchId"] == made
    assert answer["total"] == 1
    listed = look(server, "batch", "list", "--client", client.id, "--status", "Processing").stdout.splitlines()
    assert listed[0].split()[:2] == ["BATCH", "STATUS"] and listed[1].split()[:3] == [made, "Processing", "100"]
    assert listed[2:] == ["1 of 1"]
    assert look(server, "batch", "list", "--client", client.id, "--status", "Failed").stdout.splitlines()[1:] == ["0 of 0"]
    shown = look(server, "batch", "show", made).stdout
    assert f"batchId                   {made}\n" in shown and "OmniFlow refused every item" in shown
    assert "O OmniFlow recusou todos os itens" in look(server, "batch", "show", made, env=PT).stdout
    assert json.loads(look(server, "batch", "show", made, "--json").stdout)["batchId"] == made
    gone = look(server, "batch", "show", "0190a000-0000-7000-8000-000000000000", status=1)
    assert "the server answered 404" in gone.stderr and not gone.stdout
    assert "the server answered 400" in look(server, "batch", "show", "../clients", status=1).stderr  # it asks for nothing else


def test_tickets(server):
    client = server.new_client()
    made = client.post("/api/tickets", {**TICKET, "businessDocId": "LOOK-1"}).json["id"]
    listed = look(server, "ticket", "list", "--client", client.id).stdout.splitlines()
    assert listed[0].split()[:3] == ["ID", "ENTITY", "DOCUMENT"] and listed[1].split()[:2] == [str(made), "TCK"]
    shown = look(server, "ticket", "show", str(made)).stdout
    assert "businessEntity            TCK\n" in shown
    assert json.loads(look(server, "ticket", "show", str(made), "--json").stdout)["id"] == made
    bad = look(server, "ticket", "list", "--status", "Nonsense", status=1)
    assert "status: must be Awaiting, Processing, Processed or Error" in bad.stderr
    assert "status: deve ser Awaiting, Processing, Processed ou Error" in look(
        server, "ticket", "list", "--status", "Nonsense", status=1, env=PT).stderr


def test_alerts(server):
    shown = look(server, "alerts")
    assert shown.stdout.splitlines()[0].split() == ["FIRED", "STATUS", "SEVERITY", "RULE", "SUMMARY"]
    assert set(json.loads(look(server, "alerts", "--status", "firing", "--json").stdout)) >= {"items", "page", "total"}


@pytest.mark.parametrize("args", [
    ("batch",), ("batch", "show"), ("batch", "list", "x"), ("batch", "show", "a", "--status", "Failed"), ("ticket", "show"),
    ("ticket", "frobnicate"), ("alerts", "list"), ("batch", "list", "--page", "0"), ("batch", "list", "--page-size", "x"),
    ("alerts", "--client", "x"), ("batch", "list", "--server", "nonsense"),
])
def test_wrong_usage(server, args):
    done = server.cli(*args)
    assert done.returncode == 2 and done.stderr and not done.stdout


def test_keys_and_servers_that_do_not_fit(server, tmp_path):
    alone = run("batch", "list", "--server", server.url, cwd=tmp_path)
    assert alone.returncode == 2 and "administrator's key" in alone.stderr
    assert run("alerts", "--server", server.url, cwd=tmp_path, env={"DATAFLOW_ADMIN_KEY": ADMIN_KEY}).returncode == 0
    wrong = run("alerts", "--server", server.url, cwd=tmp_path, env={"DATAFLOW_ADMIN_KEY": "no key of this server"})
    assert wrong.returncode == 1 and "the server answered 401" in wrong.stderr
    nobody = run("alerts", "--server", "http://127.0.0.1:1", cwd=tmp_path, env={"DATAFLOW_ADMIN_KEY": ADMIN_KEY})
    assert nobody.returncode == 1 and nobody.stderr


def test_commands_beside_a_demo_know_what_it_has_set(tmp_path):
    port = pg.free_port()
    beside = ("--set", f"server.data_dir={tmp_path}/var")
    with demo(tmp_path, sandbox_port=port, last="/integrations/payment"):
        listed = run("outbox", "list", *beside)
        assert listed.returncode == 0 and "gateway." not in listed.stdout
    after = run("outbox", "list", *beside)
    assert "waits for gateway.ticket_send_url to be set" in after.stdout


# --- suggestions and help ----------------------------------------------------------------------------


@pytest.mark.parametrize("args,meant", [
    (("cleint", "list"), "client"), (("outbx",), "outbox"), (("client", "lits"), "list"), (("outbox", "list", "--jsn"), "--json"),
    (("serve", "--confg", "x"), "--config"), (("check-config", "--set", "server.lisen=x"), "listen"),
    (("check-config", "--set", "sever.listen=x"), "[server]"), (("check-config", "--set", "relays.a.url=x"), "[relay.a]"),
    (("help", "server.lisen"), "server.listen"), (("help", "outbxo"), "outbox"),
])
def test_a_typing_error_is_answered_with_what_was_meant(args, meant, tmp_path):
    done = run(*args, cwd=tmp_path)
    assert done.returncode == 2 and f"did you mean {meant}" in done.stderr and not done.stdout
    assert f"você quis dizer {meant}" in run(*args, cwd=tmp_path, env=PT).stderr


@pytest.mark.parametrize("args", [("zzzzzz",), ("client", "zzzzzz"), ("check-config", "--set", "server.zzzzzz=1"), ("help", "x" * 10000),
                                  ("check-config", "--set", f"{'y' * 5000}.{'x' * 5000}=1")])
def test_what_is_near_nothing_gets_no_suggestion(args, tmp_path):
    done = run(*args, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr and "did you mean" not in done.stderr


def test_a_key_that_belongs_to_another_section(tmp_path):
    done = run("check-config", "--set", "gateway.data_dir=x", cwd=tmp_path)
    assert "--set gateway.data_dir: unknown key; it belongs to [server]\n" == done.stderr


def test_all_mistakes_of_a_configuration_are_told_at_once(tmp_path):
    (tmp_path / "x.ini").write_text("[server]\nlistn = 1\ndata_dir =\nmax_body_bytes = 1\n[imports]\nqueue = rabbitmq\n"
                                    "[gateway]\nfunctional_ack_url = http://127.0.0.1/a\n[relay.a]\nurl = nonsense\n", encoding="utf-8")
    done = run("check-config", "--config", "x.ini", "--set", "redis.timeout_ms=x", cwd=tmp_path,
               env={"DATAFLOW_SERVER_LISEN": "1"})
    said = done.stderr.splitlines()
    assert done.returncode == 2 and not done.stdout
    assert said[:4] == ["x.ini:2: [server] listn: unknown key; did you mean listen?",
                        'x.ini:4: [server] max_body_bytes: must be between 1024 and 1073741824, not "1"',
                        "DATAFLOW_SERVER_LISEN: no such setting; did you mean DATAFLOW_SERVER_LISTEN?",
                        next(line for line in said if line.startswith("--set redis.timeout_ms: "))]
    for line in ("[server] data_dir: must name a directory", "[imports] queue: rabbitmq needs queue_url",
                 "[gateway] api_key (or api_key_file) is needed when a gateway URL is set"):
        assert line in said
    # A value that was refused is not judged again by its default.
    assert sum("max_body_bytes" in line for line in said) == 1 and sum("redis" in line for line in said) == 1


def test_help_explains_a_key_a_section_and_a_group(tmp_path):
    one = run("help", "server.listen").stdout
    assert one == ("server.listen\n  Address and port to listen on; port 0 picks a free one.\n\n  value     text\n"
                   "  default   127.0.0.1:8080\n  variable  DATAFLOW_SERVER_LISTEN\n  option    --set server.listen=…\n")
    assert run("help", "LISTEN").stdout == one
    number = run("help", "server.max_body_bytes").stdout
    assert "whole number, 1024 to 1073741824" in number and "1048576" in number
    assert run("help", "relay.orders.url").stdout == run("help", "relay.url").stdout
    assert "DATAFLOW_RELAY_NAME_URL" in run("help", "relay.url").stdout
    section = run("help", "database").stdout
    assert "database.url\n" in section and "database.migrate\n" in section and "\nserver." not in section
    assert run("help", "mode").stdout.count("  variable") == 3  # in three sections
    assert "  padrão    127.0.0.1:8080\n" in run("help", "server.listen", env=PT).stdout


# --- languages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("env,portuguese", [
    ({"LC_ALL": "pt_BR.UTF-8"}, True), ({"LC_ALL": "", "LC_MESSAGES": "pt_BR"}, True), ({"LC_ALL": "", "LANG": "pt_PT.UTF-8"}, True),
    ({"LC_ALL": "C", "LANG": "pt_BR.UTF-8"}, False), ({"LC_ALL": "", "LC_MESSAGES": "en_US.UTF-8", "LANG": "pt_BR"}, False),
    ({"LC_ALL": "ptolemy"}, False),
])
def test_the_locale_chooses_the_language(env, portuguese):
    done = run("help", env=env)
    assert ("executa o servidor" in done.stdout, "run the server" in done.stdout) == (portuguese, not portuguese)


def test_machines_read_english_in_any_locale(tmp_path):
    for args in (("help", "config"), ("help", "man"), ("help", "metrics"), ("check-config", "--json"), ("version", "--json"),
                 ("completion", "bash")):
        assert run(*args, env=PT, cwd=tmp_path).stdout == run(*args, cwd=tmp_path).stdout


def test_every_help_is_translated(tmp_path):
    commands = [line.split()[1] for line in run("help").stdout.splitlines() if line.startswith("  dataflow ")]
    for command in commands:
        english, portuguese = run("help", command).stdout, run("help", command, env=PT).stdout
        assert english.splitlines()[0] == portuguese.splitlines()[0] and english != portuguese, command


# --- import ------------------------------------------------------------------------------------------


def test_credentials_are_tried_before_the_file_is_sent(server, tmp_path):
    file = tmp_path / "leads.csv"
    file.write_text("Telefone\n11 98765-4321\n" * 100000, encoding="utf-8")
    for scopes, secret, status in ((["imports"], "dfs_wrong", 401), (["events"], None, 403)):
        client = server.new_client(scopes=scopes)
        done = run("import", file, "--server", server.url, env={"DATAFLOW_CLIENT_ID": client.id, "DATAFLOW_CLIENT_SECRET": secret or client.secret})
        assert done.returncode == 1 and f"the server answered {status}" in done.stderr and "upload" not in done.stderr
