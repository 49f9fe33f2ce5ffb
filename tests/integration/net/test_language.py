"""Accept-Language: titles, details and messages of problem documents; codes and the log stay English."""

import pytest
from harness import check_problem

PT = {"Accept-Language": "pt-BR"}


@pytest.mark.parametrize("header,language", [
    (None, "en"), ("pt-BR", "pt-BR"), ("pt", "pt-BR"), ("pt-PT", "pt-BR"), ("en", "en"), ("*", "en"), ("de", "en"),
    ("pt-BR,pt;q=0.9,en-US;q=0.8,en;q=0.7", "pt-BR"), ("en-US,en;q=0.9,pt;q=0.8", "en"), ("en;q=0.2, pt;q=0.7", "pt-BR"),
    ("pt;q=0", "en"), ("pt;q=0, *", "en"), ("en;q=0, *", "pt-BR"), ("", "en"), (",;q=,,==", "en"), ("pt;q=9", "en"),
    ("x" * 4000 + ",pt", "pt-BR"), ("a," * 1000 + "pt", "en"), ("\u00e9\u00ff, pt".encode().decode("latin-1"), "pt-BR"),
])
def test_the_language_is_chosen_by_the_header(server, header, language):
    answer = server.anonymous().get("/nowhere", headers={} if header is None else {"Accept-Language": header})
    check_problem(answer)
    assert (answer.status, answer.code, answer.headers["Content-Language"]) == (404, "NotFound", language)
    assert answer.json["title"] == {"en": "Not found", "pt-BR": "Não encontrado"}[language]
    assert answer.json["detail"] == {"en": "there is nothing at this path", "pt-BR": "não há nada neste caminho"}[language]


def test_fields_and_their_messages(server):
    body = {"name": "x" * 200, "scopes": ["is required"], "clientId": "a b"}
    english = server.admin().post("/admin/clients", body)
    answer = server.admin().post("/admin/clients", body, headers=PT)
    check_problem(answer)
    assert (answer.status, answer.code) == (english.status, english.code) == (400, "ValidationFailed")
    assert [e["field"] for e in answer.json["errors"]] == [e["field"] for e in english.json["errors"]]
    assert answer.json["title"] == "Dados inválidos" and answer.json["detail"] == "3 campos inválidos: veja errors."
    messages = {e["field"]: e["message"] for e in answer.json["errors"]}
    assert messages == {"name": "tem 200 caracteres; são permitidos no máximo 120",
                        "clientId": "deve ter de 1 a 64 letras, dígitos, '.', '_' ou '-'",
                        # What the caller wrote stays, though it reads like a message.
                        "scopes": '"is required" não é um escopo'}


@pytest.mark.parametrize("method,path,body,code,detail", [
    ("POST", "/admin/clients", b"{", "MalformedJson", "o documento termina cedo demais, no byte 1"),
    ("POST", "/admin/clients", b'{"a" 1}', "MalformedJson", "esperava ':' no byte 5, encontrou '1'"),
    ("POST", "/admin/clients", b"[]", "BadRequest", "O corpo deve ser um objeto JSON."),
    ("DELETE", "/admin/clients", b"", "MethodNotAllowed", "este caminho não aceita o método DELETE"),
    ("GET", "/admin/imports/0", b"", "NotFound", "Não há essa importação."),
])
def test_details(server, method, path, body, code, detail):
    answer = server.admin().request(method, path, body or None, headers={**PT, "Content-Type": "application/json"} if body else PT)
    check_problem(answer)
    assert (answer.code, answer.json["detail"]) == (code, detail)


def test_errors_of_the_store_are_translated_too(server):
    """They are written by another thread, in English."""
    server.new_client(clientId="language-1")
    again = server.admin().post("/admin/clients", {"name": "x", "clientId": "language-1"}, headers=PT)
    assert (again.status, again.json["detail"]) == (409, 'Já existe um cliente com o id "language-1".')
    assert server.admin().get("/admin/tickets/999999", headers=PT).json["detail"] == "Não há esse ticket."


def test_refusals_before_the_request_is_read(server):
    bad = server.anonymous().raw(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nAccept-Language: pt\r\n\r\n")[0]
    assert bad.status == 400 and bad.headers["Content-Language"] in ("en", "pt-BR")


def test_log_and_audit_stay_english(server):
    server.admin().post("/admin/clients", {"name": ""}, headers=PT)
    server.anonymous().get("/admin/clients", headers={**PT, "X-Admin-Key": "wrong"})
    entries = server.admin().get("/admin/audit", headers=PT)
    assert entries.status == 200 and "Content-Language" not in entries.headers
    for text in (server.log_text(), entries.body.decode()):
        assert "obrigatório" not in text and "válido" not in text
