"""deploy/systemd: the unit gives the server no more rights than it needs, and systemd understands it."""

import os
import re
import shutil
import subprocess

import pytest
from harness import BIN, ROOT

UNIT = ROOT / "deploy/systemd/dataflow.service"
USERS = ROOT / "deploy/systemd/dataflow.sysusers"


def settings():
    return re.findall(r"^(\w+)=(.*)$", UNIT.read_text(encoding="utf-8"), re.M)


def test_the_server_is_an_unprivileged_user_who_writes_to_one_directory():
    given = dict(settings())
    assert given["User"] not in ("", "root") and given["NoNewPrivileges"] == "yes"
    assert given["CapabilityBoundingSet"] == given["AmbientCapabilities"] == ""
    assert given["ProtectSystem"] == "strict" and given["ProtectHome"] == "yes" and given["PrivateTmp"] == "yes"
    assert given["StateDirectory"] == "dataflow" and given["StateDirectoryMode"] == "0700" and given["UMask"] == "0077"
    assert "ReadWritePaths" not in given, "the state directory is enough"
    assert f"u {given['User']} " in USERS.read_text(encoding="utf-8")


def test_the_master_key_is_a_credential_and_memory_is_not_dumped():
    given = dict(settings())
    assert given["LoadCredential"].startswith("master.key:/etc/dataflow/")
    assert given["LimitCORE"] == "0"


def test_it_waits_longer_than_the_server_drains():
    default = subprocess.run([BIN, "help", "config"], stdout=subprocess.PIPE, text=True, check=True).stdout
    drain = int(re.search(r"`drain_seconds` \|[^|]*\| `(\d+)`", default)[1])
    assert int(dict(settings())["TimeoutStopSec"]) >= 2 * drain


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_takes_the_unit_and_finds_it_closed(tmp_path):
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text(encoding="utf-8").replace("/usr/local/bin/dataflow", os.path.abspath(BIN)), encoding="utf-8")
    for command in (["verify", "--man=no"], ["security", "--offline=true", "--threshold=20", "--no-pager"]):
        done = subprocess.run(["systemd-analyze", *command, unit], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        assert done.returncode == 0, done.stdout
        assert "Unknown key" not in done.stdout and "Failed to parse" not in done.stdout, done.stdout
