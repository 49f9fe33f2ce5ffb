"""What commands print for people: every word of it in Portuguese where the locale says so, columns below their headings,
and JSON the same in both."""

import json
import re
import socket
import sys

import pytest
from harness import ADMIN_KEY, ROOT, run
from test_imports_read import PROCESSING, Rows
from test_lifecycle import demo
from test_outbox import Box

import pg

sys.path.insert(0, str(ROOT / "tools"))
import lang_texts  # noqa: E402

LANGUAGES = {"en": {"LC_ALL": "C.UTF-8"}, "pt": {"LC_ALL": "pt_BR.UTF-8"}}
TICKET = {"businessEntity": "TCK", "phaseCode": 15, "companyCode": "0050", "branchCode": "01", "destinationCode": "SSZ",
          "shipmentEvent": "RCD", "targetApplicationCode": "ASB"}
# Data, and what the API calls so: times, ids, addresses, names of settings, codes and states.
DATA = re.compile(r"""\S*[./:_=@\d-]\S* | \b[A-Z]\w*[a-z]+[A-Z]\w*\b | \b[a-z]+[A-Z]\w*\b
    | \b(?:ID|STATUS|PENDING|SENDING|SENT|ERROR|GATEWAY|RELAY|MS|Pending|Sending|Sent|Error|Processing|Active|Suspended|Completed|CSV)\b
    | \b(?:alerts|events|integrations|webhooks|relay|tickets|counterparties|batches|idempotency|audit|data|index|master|admin|ok)\b
    | \b(?:id|status|base|bytes|console|sandbox|backup|curl|leads|Ana|Look|A\ client|payload|refused|retry|Rows?)\b""", re.X)


def both(*args, status=0, call=run, **kwargs):
    """The command's standard output in both languages."""
    env = kwargs.pop("env", {})
    done = [call(*args, env={**env, **locale}, **kwargs) for locale in LANGUAGES.values()]
    for one in done:
        assert one.returncode == status, one
    return [one.stdout for one in done]


def words_in_both(english, portuguese):
    """The English words that the Portuguese text still has."""
    def words(text):
        return set(re.findall(r"[^\W\d_]{2,}", DATA.sub(" ", text).lower()))

    alike = {"import", "no", "for", "telefone", "do", "use", "log", "callbacks", "scripts", "chmod", "utc", "mb", "ms", "false", "sqlite", "postgres", "debian", "pgdg", "sqlserver",
             "microsoft", "dataflow", "key", "list",
             "name", "nome", "client", "policy"}
    return (words(english) & words(portuguese)) - alike


def check_words(english, portuguese):
    assert english != portuguese
    assert len(english.splitlines()) == len(portuguese.splitlines())
    assert not words_in_both(english, portuguese), portuguese


def aligned(english, portuguese, words):
    """Each heading begins, or ends, where the English one of the same column does."""
    starts = {m.start() for m in re.finditer(r"(?<!\S)\S", english)}
    ends = {m.end() for m in re.finditer(r"\S(?!\S)", english)}
    at = 0
    for word in words:
        at = portuguese.index(word, at)
        assert at in starts or at + len(word) in ends, (word, english, portuguese)
        at += len(word)


# Tables and their headings in Portuguese, where "_" is a blank. {} is what the fixture made.
TABLES = [
    ("client list", "CLIENTE STATUS ÚLTIMO_ACESSO NOME"),
    ("policy show {client}", "POLÍTICA VALOR SIGNIFICADO"),
    ("outbox list", "CANAL PENDING SENDING SENT ERROR RETIDOS ABANDONADOS ESPERA_MAIS_ANTIGA"),
    ("outbox list ticket-return", "ID STATUS TENTATIVAS CRIADO PRÓXIMA_TENTATIVA REFERÊNCIA,_ÚLTIMO_ERRO"),
    ("owners", "PROCESSO VERSÃO INICIADO VALE_ATÉ SHARDS_POR_CANAL"),
    ("key list", "ID USO CRIADO EM_USO_DESDE APOSENTADA SEGREDOS CONTEÚDOS ARQUIVOS CHAVE_MESTRA"),
    ("retention run --dry-run", "TIPO VENCIDOS"),
    ("batch list --server {url}", "LOTE STATUS REGISTROS ERROS CRIADO CLIENTE ARQUIVO"),
    ("ticket list --server {url}", "ID ENTIDADE DOCUMENTO FASE STATUS RETORNO GATEWAY CLIENTE ÚLTIMO_ERRO"),
    ("alerts --server {url}", "DISPARADO STATUS GRAVIDADE REGRA RESUMO"),
    ("relay status", "RELAY PARA ESPERANDO FALHARAM MAIS_ANTIGO ORIGEM"),
]
LINES = [
    "policy show {client}", "outbox show ticket-return {row}", "outbox retry --all --dry-run", "outbox dismiss --all --dry-run",
    "outbox retry --error nothing-has-this", "outbox pause ticket-return", "outbox pause ticket-return", "outbox resume ticket-return",
    "outbox resume ticket-return", "client create --name X", "client rotate-secret {client}", "client suspend {client}",
    "client activate {client}", "client set-scopes {client} imports,interface", "key rotate", "mask --dry-run", "mask", "migrate",
    "audit verify", "audit restored --reason because", "subjects find --phone 11987654321", "purge --older-than 9 --dry-run",
    "purge --client {client}", "doctor", "outbox retry ticket-return --all", "outbox dismiss ticket-return --all",
]
SAME_JSON = ["client list", "policy show {client}", "outbox list", "outbox list ticket-return", "outbox show ticket-return {row}",
             "key list", "owners", "batch list --server {url}", "ticket list --server {url}", "alerts --server {url}"]


@pytest.fixture(scope="module")
def made(server):
    """A server with something in every list, and the names that the commands need."""
    client = server.new_client("A client")
    Rows(server.backend).batch(client, PROCESSING, TotalRecords=100)
    box = Box(server.backend)  # which empties the tables
    client.post("/api/tickets", {**TICKET, "businessDocId": "T-1"})
    row = box.add("ticket-return", "Error", "Ref-1", attempts=2)
    box.attempt("ticket-return", row, 1, "Error", 500, "7", None)
    return {"server": server, "client": client.id, "row": row, "url": server.url}


def arguments(command, made):
    return [word.format(**made) for word in command.split()]


@pytest.mark.parametrize("command,heads", TABLES, ids=[command for command, _ in TABLES])
def test_headings_are_translated_and_stand_above_their_columns(made, command, heads):
    english, portuguese = both(*arguments(command, made), call=made["server"].cli)
    words = [word.replace("_", " ") for word in heads.split()]
    assert portuguese.splitlines()[0].split() == " ".join(words).split()
    aligned(english.splitlines()[0], portuguese.splitlines()[0], words)
    assert len(english.splitlines()) == len(portuguese.splitlines()) >= 1


@pytest.mark.parametrize("command", LINES)
def test_nothing_that_people_read_stays_english(made, command):
    english, portuguese = both(*arguments(command, made), call=made["server"].cli)
    check_words(english, portuguese)


@pytest.mark.parametrize("command", SAME_JSON)
def test_json_is_the_same_in_every_language(made, command):
    english, portuguese = both(*arguments(command, made), "--json", call=made["server"].cli)
    moves = re.compile(r'"(leaseUntil|renewedAt)":"[^"]*"')
    assert json.loads(moves.sub('"x":1', english)) == json.loads(moves.sub('"x":1', portuguese))


def test_an_import_speaks_portuguese_from_its_preview_to_its_end(made, tmp_path):
    server, leads = made["server"], tmp_path / "leads.csv"
    client = server.new_client()
    leads.write_text("Telefone;Nome\n11 91234-5678;Ana\n123;Ana\n", encoding="utf-8")
    env = {"DATAFLOW_CLIENT_ID": client.id, "DATAFLOW_CLIENT_SECRET": client.secret}
    english, portuguese = both("import", leads, "--preview", "--server", server.url, env=env)
    assert english.startswith("CSV: 2 records looked at\n") and portuguese.startswith("CSV: 2 registros examinados\n")
    check_words(english, portuguese)
    assert "Telefone                        PhoneNumber      its name\n" in english
    assert "Telefone                        PhoneNumber      o próprio nome\n" in portuguese
    for text in (english, portuguese):
        head, line = next((a, b) for a, b in zip(text.splitlines(), text.splitlines()[1:]) if b.startswith("PhoneTooShort"))
        assert head.index(re.split(r"\s{2,}", head)[2]) == line.index("3") and len(line.split()) > 4, "the reason in words"
    leads.write_text("Telefone;Nome\n11 91234-5678;Ana\n", encoding="utf-8")
    assert "1 registro examinado\n" in run("import", leads, "--preview", "--server", server.url, env={**env, **LANGUAGES["pt"]}).stdout
    sent = run("import", leads, "--server", server.url, env={**env, **LANGUAGES["pt"]})
    assert re.match(r"lote \S+: Pending\npara ver de novo: dataflow import --batch ", sent.stdout) and "envio" in sent.stderr
    batch = re.match(r"lote (\S+):", sent.stdout)[1]
    check_words(*both("import", "--batch", batch, "--server", server.url, env=env))
    again = run("import", leads, "--preview", "--server", server.url, env={**env, **LANGUAGES["pt"]}).stdout
    assert f"o mesmo arquivo já foi enviado: lote {batch}\n" in again


def test_formats_are_written_as_people_write_them(made, tmp_path):
    server, leads = made["server"], tmp_path / "leads.json"
    client = server.new_client()
    leads.write_text('[{"Telefone": "11 91234-5678"}]', encoding="utf-8")
    env = {"DATAFLOW_CLIENT_ID": client.id, "DATAFLOW_CLIENT_SECRET": client.secret}
    assert run("import", leads, "--preview", "--server", server.url, env=env).stdout.startswith("JSON: 1 record looked at\n")


def test_the_keys_of_a_policy_are_explained():
    english, portuguese = both("help", "policy")
    assert english.count("\n  maxRecords: records of one file") == 1
    assert "\nChaves:\n  maxFileSizeMb: maior arquivo, " in portuguese and "\n  maxRecords: registros de um arquivo;" in portuguese


def test_findings_of_doctor(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as peer:
        sets = [f"server.data_dir={tmp_path}/data", f"gateway.ticket_send_url=http://127.0.0.1:{peer.getsockname()[1]}/x", "gateway.api_key=k",
                "omniflow.url=http://127.0.0.1:1", "omniflow.api_key=k", f"admin.key={ADMIN_KEY}"]
        english, portuguese = both("doctor", *(word for one in sets for word in ("--set", one)), status=1)
    assert re.search(r"^problema omniflow\.url  +http://127\.0\.0\.1:1: (?!http)", portuguese, re.M)
    assert re.search(r"^aviso    banco de dados  +", portuguese, re.M)
    assert portuguese.splitlines()[-1].startswith("1 problema, ")
    before, after = english.split("\n\n")[0].splitlines(), portuguese.split("\n\n")[0].splitlines()
    assert len(before) == len(after) and all(line.index("→") == 38 for line in before + after if "→" in line)
    advice = [line.split("→")[1] for line in before if "→" in line], [line.split("→")[1] for line in after if "→" in line]
    assert all(a != b for a, b in zip(*advice) if "openssl rand -base64" not in a)


def test_the_demo_and_doctor_beside_it(tmp_path):
    beside = ("--set", f"server.data_dir={tmp_path}/var")
    with demo(tmp_path, sandbox_port=pg.free_port(), last="/integrations/payment"):
        found = {c["name"]: c for c in json.loads(run("doctor", "--json", *beside).stdout)["checks"]}
        assert found["admin.key"]["status"] == "ok", "the demo's key"
        assert found["gateway.ticket_send_url"]["status"] == "ok" and found["omniflow.url"]["status"] == "ok"
    assert "admin.key" in json.dumps(json.loads(run("doctor", "--json", *beside).stdout))


# --- complaints ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("args,english,portuguese", [
    (("import", "nothing.csv", "--client-id", "x", "--client-secret", "y"), "nothing.csv: No such file or directory",
     "nothing.csv: arquivo ou diretório não encontrado"),
    (("check-config", "--config", "nothing.ini"), "nothing.ini: cannot be read: No such file or directory",
     "nothing.ini: não pode ser lido: arquivo ou diretório não encontrado"),
    (("check-config", "--set", "database.url=x"), "[database] url: a database's URL is sqlite:PATH",
     "[database] url: a URL de um banco de dados é sqlite:PATH"),
    (("help", "lock_timeout"), "it is part of: imports.lock_timeout_minutes\n", "faz parte de: imports.lock_timeout_minutes\n"),
    (("help", "nothing.here"), 'no setting "nothing.here"; ', 'não há a configuração "nothing.here"; '),
    (("help", "timeout"), ", …\n", ", …\n"),
    (("--hlep",), "did you mean --help?", "você quis dizer --help?"),
])
def test_what_was_typed_wrong_is_explained(args, english, portuguese, tmp_path):
    for text, locale in ((english, "en"), (portuguese, "pt")):
        done = run(*args, cwd=tmp_path, env=LANGUAGES[locale])
        assert done.returncode == 2 and text in done.stderr and not done.stdout, done


# --- the check of the sources -------------------------------------------------------------------------


def test_words_that_a_command_prints_past_the_catalogue_are_found(tmp_path):
    room = tmp_path / "src/app"
    room.mkdir(parents=True)
    (room / "cmd_x.c").write_text("""static void f(struct df_buf *out, bool many)
{
    printf("%d rows are gone\\n", 1);
    df_buf_addf(out, "%s %s\\n", many ? "were sent" : "was sent", "x");
    df_buf_addf(out, "{\\"applied\\":%d}", 1);
    df_cli_say(out, "all is well\\n");
}
""", encoding="utf-8")
    found = [(t.line, t.text) for t in lang_texts.printed(lang_texts.Sources(tmp_path))]
    assert [text for _, text in found if re.search("[a-z]{2}", text)] == ["%d rows are gone\n", "were sent", "was sent"]
    assert found[0][0] == 3
