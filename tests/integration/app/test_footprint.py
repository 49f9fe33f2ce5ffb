"""The size of the program, and its memory when idle. bench/footprint prints the figures."""

import re
import subprocess
from pathlib import Path

import pytest
from harness import BIN

MIB = 1 << 20
BUILD = Path(BIN).resolve().parent.name
pytestmark = [pytest.mark.tools, pytest.mark.skipif(BUILD != "release", reason=f"a {BUILD} build is larger")]


def test_the_stripped_program_is_under_2_5_mib(tmp_path):
    subprocess.run(["strip", "-o", tmp_path / "stripped", BIN], check=True)
    assert (tmp_path / "stripped").stat().st_size < 2.5 * MIB


def test_an_idle_server_is_under_20_mib(make_sqlite_server):
    server = make_sqlite_server()
    assert server.anonymous().get("/healthz").status == 200
    status = Path("/proc", str(server.process.pid), "status").read_text(encoding="ascii")
    assert int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024 < 20 * MIB
