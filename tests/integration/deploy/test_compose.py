"""deploy/compose: a file that Compose takes, services that fit together, an image that has what the program needs."""

import functools
import re
import shutil
import subprocess

import pytest
import yaml
from deployments import DEPLOY, check_settings, problems
from harness import BIN, ROOT

pytestmark = pytest.mark.tools
COMPOSE = DEPLOY / "compose"


@functools.cache
def compose():
    return yaml.safe_load((COMPOSE / "compose.yaml").read_text(encoding="utf-8"))


def dockerfile():
    return (COMPOSE / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")


def servers():
    return {name: service for name, service in compose()["services"].items() if service["image"].startswith("dataflow:")}


def test_it_is_what_compose_takes():
    assert problems("compose", compose()) == []
    broken = {**compose(), "services": {"api-1": {**compose()["services"]["api-1"], "comand": []}}}
    assert "comand" in "\n".join(problems("compose", broken))


def test_what_services_name_is_there(tmp_path):
    secrets = tmp_path / "compose"
    secrets.mkdir()
    shutil.copy(COMPOSE / "secrets.sh", secrets)
    subprocess.run([secrets / "secrets.sh"], check=True, timeout=60, stdout=subprocess.DEVNULL)
    first = {p.name: p.read_bytes() for p in (secrets / "secrets").iterdir()}
    subprocess.run([secrets / "secrets.sh"], check=True, timeout=60, stdout=subprocess.DEVNULL)
    assert {p.name: p.read_bytes() for p in (secrets / "secrets").iterdir()} == first, "made once"
    assert (secrets / "secrets").stat().st_mode & 0o077 == 0
    for name, secret in compose()["secrets"].items():
        assert secret["file"] == f"./secrets/{name}" and name in first
    for name, service in compose()["services"].items():
        assert set(service.get("secrets", ())) <= compose()["secrets"].keys(), name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            known = source in compose()["volumes"] if not source.startswith(".") else (
                source.removeprefix("./secrets/") in first or (COMPOSE / source).exists())
            assert known, f"{name}: {volume}"
    check_settings((COMPOSE / "dataflow.ini").read_text(encoding="utf-8"), compose()["secrets"], tmp_path)


def test_haproxy_knows_the_replicas():
    named = set(re.findall(r"^    server (\S+) \1:8080$", (DEPLOY / "haproxy/haproxy.cfg").read_text(encoding="utf-8"), re.M))
    assert named == {name for name, s in servers().items() if s["environment"]["DATAFLOW_SERVER_ROLES"] == "api"}


def test_all_roles_are_played():
    roles = {role for s in servers().values() for role in s["environment"]["DATAFLOW_SERVER_ROLES"].split(",")}
    help_text = subprocess.run([BIN, "help", "config"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert roles == {r.strip() for r in re.search(r"`roles` \| all, or some of ([^|]*) \|", help_text)[1].split(",")}


@pytest.mark.parametrize("name", servers())
def test_a_server_has_no_more_rights_than_it_needs(name):
    service = servers()[name]
    assert service["read_only"] and service["cap_drop"] == ["ALL"] and "no-new-privileges:true" in service["security_opt"]
    assert service["user"].split(":")[0] not in ("", "0", "root")
    assert int(service["stop_grace_period"].removesuffix("s")) >= 40


def test_the_image_is_unprivileged_and_has_what_the_program_is_linked_with():
    text = dockerfile()
    stages = re.findall(r"^FROM (\S+)", text, re.M)
    assert stages == ["debian:12-slim"] * 2
    assert re.search(r"^USER 10001:10001$", text.rsplit("FROM", 1)[1], re.M)
    for source in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.M):
        assert all((ROOT / path).exists() for path in source.split()), source
    installed = set(text.rsplit("FROM", 1)[1].split())
    needed = re.findall(r"NEEDED\s+(\S+)", subprocess.run(["objdump", "-p", BIN], stdout=subprocess.PIPE, text=True, check=True).stdout)
    found = subprocess.run(["dpkg", "-S", *(f"*/{library}" for library in needed)], stdout=subprocess.PIPE, text=True, check=True).stdout
    for library in needed:
        packages = {line.split(":")[0] for line in found.splitlines() if line.endswith(f"/{library}")}
        assert packages & (installed | {"libc6"}), f"{library} is in {packages}"
