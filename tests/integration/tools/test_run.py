"""tests/run.py with suites of this file: its report, also when it is stopped, and that no process outlives it."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import psycopg2
import pytest
from harness import ROOT, TIMEOUT, wait_for

pytestmark = pytest.mark.tools
# Suites are commands that print TAP. `slow` leaves a process in its group and one in a session of its own, says that
# it is there, and hangs. With HURRY an hour has passed then.
PROGRAM = """
import os, sys, time
sys.path.insert(0, {tests!r})
import run

def tap(name, script, limit):
    def job():
        done = run.command(["sh", "-c", script], limit)
        return run.judge(run.parse_tap(done.output), done, name, limit)
    return job

def suite(name, script, needs=(), limit=60):
    return (name, needs, run.TESTS, lambda _options: [tap(name, script, limit)])

hang = '''sleep 600 & echo $! >> {pids}; setsid sleep 600 & echo $! >> {pids}; echo $$ >> {pids}
    echo "ok before"; echo $DATAFLOW_TEST_POSTGRES_URL > {there}.new; mv {there}.new {there}; sleep 600'''
run.AT_ONCE = {{run.TESTS: 1, run.WORK: 1}}
run.SUITES = [suite("good", "echo ok one; echo ok two"), suite("bad", "echo ok three; echo not ok four; exit 1"), {more}]
clock = time.monotonic
if "HURRY" in os.environ:
    run.time.monotonic = lambda: clock() + (3600 if os.path.exists({there!r}) else 0)
sys.exit(run.main())
"""
STOPPED = 'suite("slow", hang), suite("never", "echo ok five"), suite("later", "echo ok six", ("slow",))'


class Run:
    def __init__(self, folder, more, *args, env=None):
        self.pids, self.there = folder / "pids", folder / "there"
        program = PROGRAM.format(tests=str(ROOT / "tests"), pids=self.pids, there=str(self.there), more=textwrap.dedent(more))
        self.process = subprocess.Popen([sys.executable, "-c", program, *args], env={**os.environ, "TMPDIR": str(folder), **(env or {})},
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def end(self):
        self.output, _ = self.process.communicate(timeout=TIMEOUT)
        return self.output

    def hangs(self):
        wait_for(self.there.exists, "suite that hangs")
        return self.there.read_text(encoding="ascii").strip()

    def lingering(self):
        """Processes of `slow` that still run: none, as soon as the kernel has ended those that were killed."""
        return [pid for pid in self.pids.read_text(encoding="ascii").split()
                if Path("/proc", pid).exists() and "(zombie)" not in Path("/proc", pid, "status").read_text(encoding="ascii")]


@pytest.fixture
def start(tmp_path):
    started = []

    def make(more, *args, folder=tmp_path, **kwargs):
        started.append(Run(folder, more, *args, **kwargs))
        return started[-1]

    yield make
    for run in started:
        run.process.kill()
        run.process.wait()


def section(output, title):
    found = re.search(rf"^{title}:\n((?:    .*\n)+)", output, re.M)
    return [line.strip() for line in found[1].splitlines()] if found else []


def test_a_run_to_the_end_counts_all_suites(start):
    run = start('suite("after", "echo ok five", ("good",)), suite("skipping", "echo ok six \\# SKIP no server")')
    output = run.end()
    assert (run.process.returncode, output.splitlines()[-1]) == (1, "4 passed, 1 failed, 1 skipped")
    assert section(output, "Failed") == ["four"] and section(output, "Skipped") == ["six: no server"]
    assert section(output, "Left") == []


def check_stopped(run, why):
    output = run.end()
    assert (run.process.returncode, output.splitlines()[-1]) == (1, "4 passed, 2 failed")
    assert re.search(r"^good +2 passed, 0 failed  ", output, re.M)
    assert re.search(r"^slow +1 passed, 0 failed, not finished", output, re.M)
    assert section(output, "Failed") == ["four", why]
    slow, *rest = section(output, "Left")
    assert re.fullmatch(r"slow, after \d+ s and 1 tests", slow) and rest == ["never: 1 of 1 commands", "later"]
    wait_for(lambda: not run.lingering(), "end of what was killed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_tells_what_it_has_and_leaves_no_process(start, number):
    run = start(STOPPED, env={"DATAFLOW_TEST_POSTGRES_URL": "postgres://none"})
    run.hangs()
    run.process.send_signal(number)
    check_stopped(run, f"interrupted by {number.name}")


def test_a_run_out_of_time_tells_what_it_has(start):
    run = start(STOPPED, "--minutes=30", env={"DATAFLOW_TEST_POSTGRES_URL": "postgres://none", "HURRY": "1"})
    check_stopped(run, "out of time after 30 minutes")


def test_a_suite_out_of_time_ends_alone(start):
    run = start('suite("slow", hang, limit=5), suite("next", "echo ok five")',
                env={"DATAFLOW_TEST_POSTGRES_URL": "postgres://none"})
    output = run.end()
    assert (run.process.returncode, output.splitlines()[-1]) == (1, "5 passed, 2 failed")
    assert section(output, "Failed") == ["four", "slow: killed after 5 s"]
    wait_for(lambda: not run.lingering(), "end of what was killed")


def test_postgres_and_temporary_files_go_with_the_run(start, monkeypatch):
    monkeypatch.delenv("DATAFLOW_TEST_POSTGRES_URL", raising=False)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)  # PostgreSQL runs as another user
        run = start(STOPPED, folder=Path(folder))
        url = run.hangs()
        psycopg2.connect(url).close()
        assert list(Path(folder).glob("dataflow-run-*/dataflow-pg-*"))
        run.process.send_signal(signal.SIGTERM)
        check_stopped(run, "interrupted by SIGTERM")
        with pytest.raises(psycopg2.OperationalError):
            psycopg2.connect(url)
        assert not list(Path(folder).glob("dataflow-run-*"))


def test_tests_that_passed_before_pytest_was_killed_count(start, tmp_path):
    tests = tmp_path / "suite"
    tests.mkdir()
    (tests / "test_it.py").write_text(textwrap.dedent("""
        import os, pathlib, time
        def test_a(): pass
        def test_b(): assert not "seen"
        def test_c(): pathlib.Path(os.environ["THERE"]).touch(); time.sleep(600)
        def test_d(): pass
        """), encoding="ascii")
    run = start(f'("pytest", (), run.TESTS, lambda _options: [run.pytest({str(tests)!r}, "release", timeout=60, THERE={str(tmp_path / "there")!r})])',
                env={"DATAFLOW_TEST_POSTGRES_URL": "postgres://none"})
    run.hangs()
    run.process.send_signal(signal.SIGINT)
    output = run.end()
    assert output.splitlines()[-1] == "4 passed, 3 failed"
    assert [name.split("::")[-1] for name in section(output, "Failed")] == ["four", "test_b", "interrupted by SIGINT"]
    assert re.search(r"after \d+ s and 2 tests$", section(output, "Left")[0])
