"""What the tests of deploy/ share: npm's packages, checks by schema, and the settings that the files name."""

import configparser
import hashlib
import json
import re
import subprocess
from pathlib import Path

import yaml
from harness import BIN, ROOT, npm_locked

DEPLOY = ROOT / "deploy"
HERE = Path(__file__).resolve().parent
URLS = {"database-url": "postgres://dataflow@db/dataflow", "queue-url": "amqp://dataflow:secret@broker/dataflow"}


def packages():
    """Where npm has installed package.json, once for all runs."""
    return npm_locked("deploy", HERE)


def problems(kind, document):
    """What schemas and types have to say of Kubernetes objects or of a Compose file."""
    done = subprocess.run(["node", HERE / "check.cjs", packages(), kind], input=json.dumps(document), capture_output=True, text=True,
                          timeout=170, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def load_all(text):
    return [document for document in yaml.safe_load_all(text) if document]


def ini(text):
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=(";", "#"))
    parser.optionxform = str
    parser.read_string(text)
    return {section: dict(parser[section]) for section in parser.sections()}


def known_settings():
    """(section, key) of `dataflow help config`; a secret's file too."""
    text = subprocess.run([BIN, "help", "config"], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = set()
    for section, body in re.findall(r"^## \[([^\]]+)\]\n(.*?)(?=^## |\Z)", text, re.M | re.S):
        for key, kind in re.findall(r"^\| `(\w+)` \| ([^|]*) \|", body, re.M):
            found.add((section, key))
            found.update((section, name) for name in re.findall(r"or `(\w+_file)`", kind))
    return found


def check_settings(text, secrets, tmp_path):
    """The server takes the file, with secrets in the place of those that it names; each of these exists in `secrets`."""
    sections = ini(text)
    known = known_settings()
    kept = {}
    for section, keys in sections.items():
        for key, value in keys.items():
            table = re.sub(r"\..*", ".NAME", section)
            assert (table, key) in known, f"[{section}] {key} is no setting"
            if key.endswith("_file"):
                name = Path(value).name
                assert name in secrets, f"[{section}] {key}: nobody makes {name}"
                value = tmp_path / name
                value.write_text(URLS.get(name) or hashlib.sha256(name.encode()).hexdigest(), encoding="ascii")
                value.chmod(0o600)
            kept.setdefault(section, {})[key] = value
    kept["server"]["data_dir"] = tmp_path / "data"
    path = tmp_path / "dataflow.ini"
    path.write_text("".join(f"[{s}]\n" + "".join(f"{k} = {v}\n" for k, v in keys.items()) for s, keys in kept.items()), encoding="utf-8")
    done = subprocess.run([BIN, "check-config", "--config", path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return sections
