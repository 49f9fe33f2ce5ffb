"""tests/run.py with suites of this file: its report, also when it is stopped, and that no process outlives it."""

import contextlib
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

import pg

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
run.DYING_SECONDS = int(os.environ.get("DYING", run.DYING_SECONDS))
run.surroundings.SCRATCH_BYTES = int(os.environ.get("SCRATCH", run.surroundings.SCRATCH_BYTES))
run.AT_ONCE = {{run.TESTS: int(os.environ.get("LANES", "1")), run.WORK: 1}}
run.SUITES = [suite("good", "echo ok one; echo ok two"), suite("bad", "echo ok three; echo not ok four; exit 1"), {more}]
clock = time.monotonic
if "HURRY" in os.environ:
    run.time.monotonic = lambda: clock() + (3600 if os.path.exists({there!r}) else 0)
sys.exit(run.main())
"""
NO_POSTGRES = {"DATAFLOW_TEST_POSTGRES_URL": "postgres://none"}
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
        return [pid for pid in self.pids.read_text(encoding="ascii").split() if is_alive(pid)]


def is_alive(pid):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return False


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
    run = start('suite("after", "echo ok five", ("good",)), suite("skipping", "echo ok six \\# SKIP no server")', env=NO_POSTGRES)
    output = run.end()
    assert (run.process.returncode, output.splitlines()[-1]) == (1, "4 passed, 1 failed, 1 skipped")
    assert section(output, "Failed") == ["four"] and section(output, "Skipped") == ["six: no server"]
    assert section(output, "Left") == []


def pytest_suite(folder, text, more="", name="suite", timeout=60):
    tests = folder / name
    tests.mkdir()
    (tests / "test_it.py").write_text(textwrap.dedent(text), encoding="ascii")
    label = "pytest" if name == "suite" else name
    return f'("{label}", (), run.TESTS, lambda _options: [run.pytest({str(tests)!r}, "release", timeout={timeout}{more})])'


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
    run = start(STOPPED, env=NO_POSTGRES)
    run.hangs()
    run.process.send_signal(number)
    check_stopped(run, f"interrupted by {number.name}")


def test_a_run_out_of_time_tells_what_it_has(start):
    run = start(STOPPED, "--minutes=30", env={**NO_POSTGRES, "HURRY": "1"})
    check_stopped(run, "out of time after 30 minutes")


def test_a_suite_out_of_time_ends_alone(start):
    run = start('suite("slow", hang, limit=5), suite("next", "echo ok five")',
                env=NO_POSTGRES)
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


LEAVES = """suite("leaves", '''echo ok five; for state in running stopped; do
    (setsid sh -c 'echo $$ >> {pids}; test "$1" = running || kill -STOP $$; exec sleep 600' left $state &) ; done
    while [ "$(wc -l < {pids} 2>/dev/null || echo 0)" -lt 2 ]; do sleep 0.05; done''')"""


def test_a_process_that_a_test_left_fails_the_run_and_ends_with_it(start, tmp_path):
    run = start(LEAVES.format(pids=tmp_path / "pids"), env={**NO_POSTGRES, "DYING": "1"})
    output = run.end()
    assert (run.process.returncode, output.splitlines()[-1]) == (1, "4 passed, 3 failed")
    left = section(output, "Left behind")
    assert sorted(re.match(r"alive at the end: (\d+) s", line)[1] for line in left) == sorted(run.pids.read_text(encoding="ascii").split())
    assert not run.lingering()


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser's run has places of its own")
def test_a_file_outside_the_runs_folder_fails_the_run(start):
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:  # which the run does not hide
        run = start("""suite("writes", "echo ok five; touch /tmp/left-here /dev/shm/and-here $TMPDIR/and-not-here; ls /tmp | wc -l")""",
                    folder=Path(folder), env={**NO_POSTGRES, "SCRATCH": str(1 << 20), "TMPDIR": ""})
        output = run.end()
    if not ROOT.is_relative_to("/tmp"):
        assert output.splitlines()[-1] == "4 passed, 3 failed"
        assert section(output, "Left behind") == ["outside the run's folder: /tmp/left-here", "outside the run's folder: /dev/shm/and-here"]
        assert not Path("/tmp/left-here").exists()


def test_tests_that_passed_before_pytest_was_killed_count(start, tmp_path):
    suite = pytest_suite(tmp_path, """
        import os, pathlib, time
        def test_a(): pass
        def test_b(): assert not "seen"
        def test_c(): pathlib.Path(os.environ["THERE"]).touch(); time.sleep(600)
        def test_d(): pass
        """, f", THERE={str(tmp_path / 'there')!r}")
    run = start(suite, env=NO_POSTGRES)
    run.hangs()
    run.process.send_signal(signal.SIGINT)
    output = run.end()
    assert output.splitlines()[-1] == "4 passed, 3 failed"
    assert [name.split("::")[-1] for name in section(output, "Failed")] == ["four", "test_b", "interrupted by SIGINT"]
    assert re.search(r"after \d+ s and 2 tests$", section(output, "Left")[0])


# --- what failed is run again ------------------------------------------------------------------------


def names(output, title):
    return [line.split("::")[-1] for line in section(output, title)]


def ran(log):
    return log.read_text(encoding="ascii").split()


def run_pytest_suite(start, tmp_path, text, more="", **kwargs):
    """The report of a run whose tests write their names into a file, and the names."""
    log = tmp_path / "log"
    run = start(pytest_suite(tmp_path, "import os, pathlib, sys, time, pytest\n"
                             f"LOG = pathlib.Path({str(log)!r})\n"
                             "def log(name):\n"
                             "    with LOG.open('a') as f: print(name, file=f)\n"
                             "    return LOG.read_text().split().count(name)\n" + textwrap.dedent(text), **kwargs) + more, env=NO_POSTGRES)
    return run.end(), ran(log)


def test_a_slow_test_passes_when_it_is_run_again_and_is_named(start, tmp_path):
    output, names_run = run_pytest_suite(start, tmp_path, """
        def test_good(): log("good")
        @pytest.mark.parametrize("x", ["a::b", "[c]", "d e"])
        def test_slow(x): assert log("slow") > 3, "slow"
        def test_broken(): assert log("broken") > 2, "broken"
        def test_skipped(): log("skipped"); pytest.skip("no reason")
        @pytest.fixture
        def late():
            yield
            assert log("late") > 1
        def test_late_end(late): pass
        """)
    assert output.splitlines()[-1] == "8 passed, 2 failed, 1 skipped"
    assert names_run == ["good", *3 * ["slow"], "broken", "skipped", "late", *3 * ["slow"], "broken", "late"]
    assert [section(output, "Passed only when run again")[i].split("suite/")[1] for i in range(4)] == [
        "test_it.py::test_slow[a::b]", "test_it.py::test_slow[[c]]", "test_it.py::test_slow[d e]", "test_it.py::test_late_end"]
    assert names(output, "Failed") == ["four", "test_broken"]
    assert re.search(r"^pytest +5 passed, 1 failed, 1 skipped", output.split("-" * 72)[1], re.M), output


def test_what_a_sanitizer_reports_is_not_excused(start, tmp_path):
    output, names_run = run_pytest_suite(start, tmp_path, """
        def test_race(): log("race"); pytest.fail("WARNING: ThreadSanitizer: data race")
        """)
    assert names_run == ["race"] and names(output, "Failed") == ["four", "test_race"]


def test_a_file_that_cannot_be_read_is_not_run_again(start, tmp_path):
    output, names_run = run_pytest_suite(start, tmp_path, "log('read'); raise OSError\n")
    assert names_run == ["read"] and output.splitlines()[-1] == "3 passed, 2 failed", output


@pytest.mark.parametrize("count, again", [(40, True), (41, False)])
def test_more_than_forty_failures_are_not_run_again(start, tmp_path, count, again):
    output, names_run = run_pytest_suite(start, tmp_path, f"""
        @pytest.mark.parametrize("number", range({count}))
        def test_it(number): assert log("it") > {count}
        """)
    assert len(names_run) == (2 * count if again else count)
    assert output.splitlines()[-1] == (f"{count + 3} passed, 1 failed" if again else f"3 passed, {count + 1} failed")
    assert ("Not run again: 41 tests" in output) == (not again)


def test_of_a_command_that_was_killed_the_rest_is_run_again(start, tmp_path):
    output, names_run = run_pytest_suite(start, tmp_path, """
        def test_a(): log("a")
        def test_b(): time.sleep(600 if log("b") == 1 else 0)
        def test_c(): log("c")
        """, timeout=20)
    assert names_run == ["a", "b", "b", "c"]
    assert names(output, "Passed only when run again") == ["test_b", "test_c"]
    assert output.splitlines()[-1] == "6 passed, 1 failed"


def test_what_is_run_again_has_the_machine_for_itself(start, tmp_path):
    """Repeats begin when the last command has ended, and one after the other: two at once would be seen in a second."""
    log = tmp_path / "order"
    text = f"""
        import pathlib, time
        LOG = pathlib.Path({str(log)!r})
        def write(word):
            with LOG.open("a") as f: print(word, file=f)
        def test_it():
            write("begin"); time.sleep(1); write("end")
            assert "long" in LOG.read_text()
        """
    suites = [pytest_suite(tmp_path, text, name=name) for name in ("one", "two")]
    run = start(", ".join(suites) + f""", suite("long", "sleep 4; echo long >> {log}; echo ok long")""", env={**NO_POSTGRES, "LANES": "4"})
    output = run.end()
    assert output.splitlines()[-1] == "6 passed, 1 failed", output
    assert ran(log)[-4:] == ["begin", "end", "begin", "end"] and ran(log)[4] == "long"


UNIT = """printf '[       OK ] a\\n'; if [ -e {seen} ]; then printf '[       OK ] b\\n'; exit 0; fi
touch {seen}; printf '[  FAILED  ] b\\n'; {end}"""


@pytest.mark.parametrize("end, passed", [("exit 1", True), ("kill -SEGV $$", False), ("echo 'x.c:1: runtime error: overflow'; exit 1", False)])
def test_a_unit_program_is_run_again_as_a_whole(start, tmp_path, end, passed):
    program = tmp_path / "unit"
    program.write_text("#!/bin/sh\n" + UNIT.format(seen=tmp_path / "seen", end=end), encoding="ascii")
    program.chmod(0o755)
    run = start(f'("unit", (), run.TESTS, lambda _options: [run.unit_file({str(program)!r}, "some/thing", 60)])', env=NO_POSTGRES)
    output = run.end()
    assert section(output, "Passed only when run again") == (["some/thing: b"] if passed else [])
    assert output.splitlines()[-1] == ("5 passed, 1 failed" if passed else "4 passed, 2 failed")


def test_a_run_out_of_time_does_not_wait_for_what_is_run_again(start, tmp_path):
    suite = pytest_suite(tmp_path, f"""
        import pathlib, time
        def test_it():
            there, first = pathlib.Path({str(tmp_path / "there")!r}), pathlib.Path({str(tmp_path / "first")!r})
            again = first.exists()
            first.touch()
            if again: there.touch()
            time.sleep(600 if again else 0)
            assert again
        """)
    run = start(suite, "--minutes=30", env={**NO_POSTGRES, "HURRY": "1"})
    output = run.end()
    assert output.splitlines()[-1] == "3 passed, 3 failed"
    assert names(output, "Failed") == ["four", "test_it", "out of time after 30 minutes"]


def test_parts_are_all_files_once():
    """Of one room: collecting the tests of all takes many seconds."""
    def collected(part):
        done = subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "--shard=postgres",
                               f"--part={part}", "tests/integration/interface"], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT, check=True,
                              env={**os.environ, "PYTHONHASHSEED": "0"})
        return [line for line in done.stdout.splitlines() if "::" in line]

    whole, parts = collected("1/1"), [collected(f"{n}/3") for n in (1, 2, 3)]
    assert sorted(sum(parts, [])) == sorted(whole) and min(map(len, parts)) > len(whole) * 0.3
    assert sum(len({test.split("::")[0] for test in part}) for part in parts) == len({test.split("::")[0] for test in whole})


@pytest.mark.parametrize("how", ["kill", "close"])
def test_nothing_is_left_of_a_postgres_that_was_frozen(how):
    server = pg.Postgres().start()
    frozen = server.freeze()
    assert len(frozen) > 4
    getattr(server, how)()
    server.close()
    wait_for(lambda: not [pid for pid in frozen if is_alive(pid)], "end of its processes")
