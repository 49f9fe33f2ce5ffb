"""A certificate authority of the tests, by the openssl command: certificates of any host, purpose and time."""

import datetime
import itertools
import shutil
import ssl
import subprocess
from pathlib import Path

_numbers = itertools.count(1)


def _openssl(*args, cwd):
    run = subprocess.run(["openssl", *map(str, args)], cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr


def _time(days):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)).strftime("%Y%m%d%H%M%SZ")


class Authority:
    def __init__(self, directory, name="Authority of the tests"):
        self.dir = Path(directory) / f"ca{next(_numbers)}"
        self.dir.mkdir(parents=True)
        self.cert = self.dir / "ca.pem"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj",
                 f"/CN={name}", "-keyout", "ca.key", "-out", self.cert, cwd=self.dir)
        (self.dir / "index.txt").touch()
        (self.dir / "serial").write_text("01\n", encoding="ascii")

    def issue(self, hosts="IP:127.0.0.1,DNS:localhost", usage="serverAuth", subject="peer", start=-1, end=30):
        """The paths of a certificate, valid from and until so many days from now, and of its key."""
        stem = self.dir / f"c{next(_numbers)}"
        cert, key, request, config = (stem.with_suffix(s) for s in (".pem", ".key", ".csr", ".cnf"))
        config.write_text(
            "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\nserial=serial\nnew_certs_dir=.\ncertificate=ca.pem\nprivate_key=ca.key\n"
            f"default_md=sha256\npolicy=p\nunique_subject=no\nx509_extensions=x\n[p]\ncommonName=supplied\n"
            f"[x]\nbasicConstraints=CA:FALSE\nextendedKeyUsage={usage}\nsubjectAltName={hosts}\n", encoding="ascii")
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={subject}",
                 "-keyout", key, "-out", request, cwd=self.dir)
        _openssl("ca", "-batch", "-notext", "-config", config, "-startdate", _time(start), "-enddate", _time(end),
                 "-in", request, "-out", cert, cwd=self.dir)
        return cert, key

    def client_context(self, pair=None, version=None):
        """What a client needs to trust this authority, and its own certificate."""
        context = ssl.create_default_context(cafile=str(self.cert))
        if pair:
            context.load_cert_chain(*map(str, pair))
        if version:
            context.minimum_version = context.maximum_version = version
            context.set_ciphers("ALL:@SECLEVEL=0")
        return context


def server_context(pair, version=None, client_ca=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*map(str, pair))
    if version:
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = version
    if client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(str(client_ca))
    return context


def replace(pair, by):
    """As a program that renews certificates does: each file is replaced at once, one after the other."""
    for old, new in zip(pair, by):
        shutil.copy(new, f"{old}.new")
        Path(f"{old}.new").replace(old)
