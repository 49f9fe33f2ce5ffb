"""Vaults for tests: what HashiCorp Vault (OpenBao) and Azure Key Vault publish about the part of their HTTP interface that
the server uses, and no more. They are strict: a wrong path, method, header, body or token is refused as the real one does.

    with Vault() as vault:
        vault.faults.append({"status": 503, "body": {"errors": ["Vault is sealed"]}})

Each entry of `faults` spoils one request: "status", "body" (JSON, or bytes), "headers", "delay" in seconds, "on" (a part
of the path; without it any request). `calls` has every request: "POST /v1/transit/encrypt/k". `passed` moves the clock.
"""

import base64
import http.server
import json
import secrets
import threading
import time
import urllib.parse
import uuid

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM


class Refused(Exception):
    def __init__(self, status, body, **headers):
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers


class HttpServer:
    """One port, which stays the same when it is stopped and started again."""

    def __init__(self, tls=None):
        """tls: an ssl.SSLContext."""
        self.faults, self.calls, self.passed, self.tls = [], [], 0.0, tls
        self.port, self.httpd = 0, None
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def now(self):
        return time.monotonic() + self.passed

    def start(self):
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def handle_one(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                fake.calls.append(f"{self.command} {self.path}")
                fault = next((f for f in fake.faults if f.get("on", "") in self.path), None)
                if fault:
                    fake.faults.remove(fault)
                    time.sleep(fault.get("delay", 0))
                try:
                    if fault and "status" in fault:
                        raise Refused(fault["status"], fault.get("body", {}), **fault.get("headers", {}))
                    answer = 200, fake.answer(self, self.path, body), {}
                except Refused as r:
                    answer = r.status, r.body, r.headers
                self.reply(*answer)

            def reply(self, status, body, headers):
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                try:
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name.replace("_", "-"), value)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass  # the peer did not wait

            do_GET = do_POST = do_PUT = do_DELETE = handle_one

        http.server.ThreadingHTTPServer.allow_reuse_address = True
        self.httpd = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.httpd.daemon_threads = True
        if self.tls:
            self.httpd.socket = self.tls.wrap_socket(self.httpd.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.httpd.server_address[1]
        threading.Thread(target=self.httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self):
        if self.httpd:
            self.httpd.shutdown()
            self.httpd.server_close()
            self.httpd = None

    def count(self, part):
        return sum(part in call for call in self.calls)


# --- HashiCorp Vault, OpenBao ---------------------------------------------------------------------------


def vault_error(status, *errors, **headers):
    return Refused(status, {"errors": list(errors)}, **headers)


class Vault(HttpServer):
    def __init__(self, namespace=None, tls=None):
        self.namespace = namespace
        self.sealed = False
        self.secrets = {}  # "secret/data/app": {"field": "text"}
        self.keys = {}  # "transit/dataflow": [AES key of version 1, …]
        self.min_decryption = {}
        self.denied = set()  # parts of paths that no policy allows
        self.tokens = {}  # token: [ends at, time to live, renewable]
        self.roles = {}  # role id: (secret id, time to live, mount)
        super().__init__(tls)

    def token(self, ttl=0, renewable=True):
        made = "hvs." + secrets.token_urlsafe(24)
        self.tokens[made] = [self.now() + ttl if ttl else None, ttl, renewable]
        return made

    def role(self, ttl=3600, mount="approle"):
        role_id, secret_id = str(uuid.uuid4()), str(uuid.uuid4())
        self.roles[role_id] = (secret_id, ttl, mount)
        return role_id, secret_id

    def transit(self, name="transit/dataflow"):
        self.keys.setdefault(name, []).append(AESGCM.generate_key(256))

    def answer(self, request, path, body):
        if self.sealed:
            raise vault_error(503, "Vault is sealed")
        if not path.startswith("/v1/") or "?" in path:
            raise vault_error(404, f"unsupported path {path}")
        if request.headers.get("X-Vault-Namespace") != self.namespace:
            raise vault_error(404, f'no handler for route "{path[4:]}". route entry not found.')
        path = path[len("/v1/"):]
        if request.command == "GET" and body:
            raise vault_error(400, "a GET has no body")
        given = {}
        if request.command in ("POST", "PUT"):
            try:
                given = json.loads(body)
            except ValueError:
                raise vault_error(400, "error parsing JSON") from None
        if path.startswith("auth/") and path.endswith("/login"):
            return self.login(path.split("/")[1], given, request)
        state = self.tokens.get(request.headers.get("X-Vault-Token"))
        if not state or (state[0] is not None and state[0] <= self.now()) or any(d in path for d in self.denied):
            raise vault_error(403, "permission denied")
        return self.with_token(request, path, given, request.headers["X-Vault-Token"], state)

    @staticmethod
    def envelope(data=None, auth=None):
        return {"request_id": str(uuid.uuid4()), "lease_id": "", "renewable": False, "lease_duration": 0, "data": data,
                "wrap_info": None, "warnings": None, "auth": auth}

    def auth(self, token, ttl, renewable):
        return self.envelope(auth={"client_token": token, "accessor": secrets.token_hex(8), "policies": ["default"],
                                   "token_policies": ["default"], "lease_duration": ttl, "renewable": renewable,
                                   "entity_id": "", "token_type": "service", "orphan": True})

    def login(self, mount, given, request):
        if request.command not in ("POST", "PUT") or request.headers.get("X-Vault-Token"):
            raise vault_error(405, "unsupported operation")
        secret_id, ttl, at = self.roles.get(given.get("role_id"), (None, 0, None))
        if at != mount or secret_id != given.get("secret_id") or set(given) != {"role_id", "secret_id"}:
            raise vault_error(400, "invalid role or secret ID")
        return self.auth(self.token(ttl), ttl, True)

    def with_token(self, request, path, given, token, state):
        parts = path.split("/")
        if path == "auth/token/lookup-self" and request.command == "GET":
            return self.envelope({"id": token, "ttl": int(state[0] - self.now()) if state[0] else 0,
                                  "renewable": state[2], "policies": ["default"]})
        if path == "auth/token/renew-self" and request.command in ("POST", "PUT"):
            if not state[2]:
                raise vault_error(400, "lease is not renewable")
            state[0] = self.now() + state[1]
            return self.auth(token, state[1], True)
        if "data" in parts[1:] and request.command == "GET":
            if path not in self.secrets:
                raise vault_error(404)
            return self.envelope({"data": self.secrets[path], "metadata": {"version": 1, "destroyed": False,
                                                                           "deletion_time": ""}})
        if len(parts) == 3 and parts[1] in ("encrypt", "decrypt") and request.command in ("POST", "PUT"):
            versions = self.keys.get(f"{parts[0]}/{parts[2]}")
            if not versions:
                raise vault_error(400, "encryption key not found")
            return self.envelope(getattr(self, parts[1])(f"{parts[0]}/{parts[2]}", versions, given))
        raise vault_error(404, f'no handler for route "{path}". route entry not found.')

    @staticmethod
    def encrypt(_name, versions, given):
        try:
            plain = base64.b64decode(given["plaintext"], validate=True)
        except (KeyError, ValueError):
            raise vault_error(400, "failed to base64-decode plaintext") from None
        nonce = secrets.token_bytes(12)
        text = base64.b64encode(nonce + AESGCM(versions[-1]).encrypt(nonce, plain, None)).decode()
        return {"ciphertext": f"vault:v{len(versions)}:{text}", "key_version": len(versions)}

    def decrypt(self, name, versions, given):
        prefix, _, text = str(given.get("ciphertext", "")).rpartition(":")
        if not prefix.startswith("vault:v"):
            raise vault_error(400, "invalid ciphertext: no prefix")
        version = int(prefix[len("vault:v"):])
        if version < self.min_decryption.get(name, 1):
            raise vault_error(400, "ciphertext or signature version is disallowed by policy (too old)")
        if version > len(versions):
            raise vault_error(400, "invalid ciphertext: version is too new")
        data = base64.b64decode(text)
        try:
            plain = AESGCM(versions[version - 1]).decrypt(data[:12], data[12:], None)
        except Exception:
            raise vault_error(400, "cipher: message authentication failed") from None
        return {"plaintext": base64.b64encode(plain).decode()}


# --- Azure Key Vault ------------------------------------------------------------------------------------


def azure_error(status, code, message, **headers):
    return Refused(status, {"error": {"code": code, "message": message}}, **headers)


def unpadded(text):
    if "=" in text:
        raise azure_error(400, "BadParameter", "value is not base64url")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Azure(HttpServer):
    """The vault, Entra ID and the metadata service of a machine, all on one port."""

    TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"
    CLIENT = "4f3a5b0c-1111-4222-8333-944455566677"

    def __init__(self):
        self.secret = "Azure~" + secrets.token_urlsafe(20)
        self.tokens = {}  # token: ends at
        self.ttl = 3599
        self.keys = {}  # name: {version: private key}, in order
        self.denied = False
        self.app_service = None  # the header that App Service wants
        super().__init__()

    def key(self, name="dataflow"):
        version = secrets.token_hex(16)
        self.keys.setdefault(name, {})[version] = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        return version

    def answer(self, request, path, body):
        url = urllib.parse.urlsplit(path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path == f"/{self.TENANT}/oauth2/v2.0/token":
            return self.entra(request, dict(urllib.parse.parse_qsl(body.decode())))
        if url.path.startswith("/metadata/"):
            return self.identity(request, url.path, query)
        if query.get("api-version") != "7.4":
            raise azure_error(400, "BadParameter", "api-version must be specified")
        bearer, _, token = request.headers.get("Authorization", "").partition(" ")
        if bearer != "Bearer" or self.tokens.get(token, 0) <= self.now():
            raise azure_error(401, "Unauthorized", "AKV10000: Request is missing a Bearer or PoP token.",
                              WWW_Authenticate='Bearer authorization="https://login.microsoftonline.com/x",'
                                               ' resource="https://vault.azure.net"')
        if self.denied:
            raise azure_error(403, "Forbidden", "The user does not have keys wrapKey permission on key vault")
        return self.vault(request, url.path.split("/")[1:], body)

    def new_token(self):
        token = "eyJ0eXAi." + secrets.token_urlsafe(900)
        self.tokens[token] = self.now() + self.ttl
        return token

    def entra(self, request, form):
        if request.command != "POST" or request.headers.get("Content-Type") != "application/x-www-form-urlencoded":
            raise Refused(400, {"error": "invalid_request", "error_description": "AADSTS900144: bad request"})
        if form.get("grant_type") != "client_credentials" or form.get("scope") != "https://vault.azure.net/.default":
            raise Refused(400, {"error": "invalid_scope", "error_description": "AADSTS1002012: bad scope"})
        if form.get("client_id") != self.CLIENT:
            raise Refused(400, {"error": "unauthorized_client", "error_description": "AADSTS700016: not found"})
        if form.get("client_secret") != self.secret:
            raise Refused(401, {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret"})
        return {"token_type": "Bearer", "expires_in": self.ttl, "ext_expires_in": self.ttl, "access_token": self.new_token()}

    def identity(self, request, path, query):
        version = "2019-08-01" if self.app_service else "2018-02-01"
        named = request.headers.get("X-IDENTITY-HEADER") == self.app_service if self.app_service else \
            request.headers.get("Metadata") == "true"
        if request.command != "GET" or path != "/metadata/identity/oauth2/token" or not named or \
                request.headers.get("X-Forwarded-For"):
            raise Refused(400, {"error": "invalid_request",
                                "error_description": "Required metadata header not specified"})
        if query.get("api-version") != version or query.get("resource") != "https://vault.azure.net":
            raise Refused(400, {"error": "invalid_resource", "error_description": "AADSTS500011: bad resource"})
        if query.get("client_id", self.CLIENT) != self.CLIENT:
            raise Refused(400, {"error": "invalid_request", "error_description": "Identity not found"})
        return {"access_token": self.new_token(), "client_id": self.CLIENT, "expires_in": str(self.ttl),
                "resource": "https://vault.azure.net", "token_type": "Bearer"}

    def vault(self, request, parts, body):
        if len(parts) < 2 or parts[0] != "keys" or parts[1] not in self.keys:
            raise azure_error(404, "KeyNotFound", "A key with (name/id) was not found in this key vault.")
        name, versions = parts[1], self.keys[parts[1]]
        if len(parts) == 2 and request.command == "GET":
            return {"key": {"kid": self.kid(name, list(versions)[-1]), "kty": "RSA", "key_ops": ["wrapKey", "unwrapKey"],
                            "n": "x", "e": "AQAB"}, "attributes": {"enabled": True}}
        if len(parts) != 4 or parts[3] not in ("wrapkey", "unwrapkey") or request.command != "POST":
            raise azure_error(404, "NotFound", "Operation returned an invalid status code")
        if parts[2] not in versions:
            raise azure_error(404, "KeyNotFound", f"A key with (name/id) {name}/{parts[2]} was not found")
        if request.headers.get("Content-Type") != "application/json":
            raise azure_error(415, "UnsupportedMediaType", "application/json")
        given = json.loads(body)
        if given.get("alg") != "RSA-OAEP-256" or set(given) != {"alg", "value"}:
            raise azure_error(400, "BadParameter", "alg")
        oaep = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
        key, value = versions[parts[2]], unpadded(given["value"])
        try:
            out = key.public_key().encrypt(value, oaep) if parts[3] == "wrapkey" else key.decrypt(value, oaep)
        except ValueError:
            raise azure_error(400, "BadParameter", "The parameter is incorrect.") from None
        return {"kid": self.kid(name, parts[2]), "value": base64.urlsafe_b64encode(out).decode().rstrip("=")}

    @staticmethod
    def kid(name, version):
        return f"https://tests.vault.azure.net/keys/{name}/{version}"
