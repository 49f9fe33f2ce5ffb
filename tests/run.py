#!/usr/bin/python3
"""Runs every suite of tests and ends with one line: N passed, M failed.

    tests/run.py                 what a change can have broken (make check)
    tests/run.py --all           everything, on every build and back end (make check-all)
    tests/run.py --list          the suites' names, with --all the other ones too
    tests/run.py --only unit     one of them (may be given again) with the builds that it needs
    tests/run.py --soak          crashes, outages, a cluster and a year of traffic in their long sizes: an hour or two (make soak)
    tests/run.py --times         tells at the end where processor and wall time went: by suite, command and file
    tests/run.py --coverage      unit and black-box tests with line coverage, HTML in build/coverage/html

A PostgreSQL of its own is started for the run and removed at the end. What runs on SQL Server is skipped, by name,
unless DATAFLOW_TEST_SQLSERVER_URL (sqlserver://user:password@host:port/database) names one on which databases may be
made.

Each pass proves something that no other does. The black-box tests run on SQLite under the address sanitizer, with all
rows of their tables; on PostgreSQL on the release build, with a few rows of each table, since its rows go through the
same SQL; and a few rows of the files that are marked `threads` under the thread sanitizer. Unit tests run under both
sanitizers, and so do the inputs that fuzzing found under the first. --all has the other passes, and fuzzing itself.

Every command has a time limit, and so has the whole run (--minutes). A command that reaches its limit is killed with
everything that it started. A run that reaches its own, or gets SIGINT or SIGTERM, kills all of its commands, tells what
passed, what failed and what was left, and fails.

Nothing outlives a run. Processes that a test left come to the run when their parents end, because it is their reaper: those
alive at the end are named and fail it. The superuser's run also has places for temporary files of its own, in memory,
instead of those that all processes share; what lies in them beside its folder at the end fails it too.

Most tests wait three times as long as they compute: for a server to start, a lease to end, a disk. So there are two
lanes. TESTS runs three commands for each processor; WORK runs what computes all the time (builds, lint, fuzz). What no
test waits for has a lower priority: it takes what the tests leave. A suite's commands are queued when the suites that
it needs have passed, and earlier suites of the list go before later ones.

A machine with much else to do makes a test too slow now and then. So the tests that failed, or that a killed command
had not come to, are run once more when everything else has ended, one command after the other: of pytest those tests,
of another program all. What passes then counts as passed and is named under "Passed only when run again". Builds, lint
and fuzz are not repeated, nor what a sanitizer reported or a signal ended; and if there are more than 40 tests to
repeat, something is broken, and none is.
"""

import argparse
import contextlib
import ctypes
import glob
import json
import os
import queue
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pg
import surroundings

ROOT = Path(__file__).resolve().parents[1]
BACKENDS = ("sqlite", "postgres", "sqlserver")
# For the sanitized builds: what is skipped for want of a server is named once, by the release build. Black-box tests
# run on one back end under each of them, so that all stays under half an hour; unit tests on all under both.
REACHABLE = tuple(b for b in BACKENDS if b != "sqlserver" or os.environ.get("DATAFLOW_TEST_SQLSERVER_URL"))
CORES = os.cpu_count() or 1
PARTS = {"postgres": 4, "sqlite": 4, "none": 3, "sqlserver": 2}  # of the black-box tests
FAILURE_LINES = 120  # of a failing command's output
REPEATED = 40  # tests at most
PR_SET_CHILD_SUBREAPER, CLONE_NEWNS, MS_PRIVATE_ALL = 36, 0x20000, 0x44000  # of Linux: MS_REC | MS_PRIVATE
SHARED_PLACES = ("/tmp", "/var/tmp", "/dev/shm")
DYING_SECONDS = 20  # what was left and ends by itself meanwhile, like a server that was told to, was not left
LONGEST = 12  # files of tests that the report names
# The aim is a quarter of an hour, with what a new machine installs before. The run is cut off much later, because a busy machine
# is no reason to fail; on SQL Server it takes its time.
MINUTES = 85 if "sqlserver" not in REACHABLE else 90
SUPPRESSIONS = ROOT / "tests" / "tsan.supp"
SANITIZER_REPORT = re.compile(r"AddressSanitizer|LeakSanitizer|ThreadSanitizer|UndefinedBehaviorSanitizer|runtime error:")
SANITIZERS = {
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1 second_deadlock_stack=1" + (f" suppressions={SUPPRESSIONS}" if SUPPRESSIONS.exists() else ""),
}


class Result:
    """What a suite, or one command of it, came to."""

    def __init__(self):
        self.passed = 0
        self.failed = []
        self.skipped = []
        self.left = []
        self.notes = []
        self.passed_again = []
        self.seconds = {}  # of files of tests, on the wall clock
        self.computed = {}  # of files of tests, by processors
        self.times = []  # (command, seconds on the wall clock, seconds of processors)
        self.repeat = None  # a Repeat, if running it again may tell something else

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.left += other.left
        self.notes += other.notes
        self.passed_again += other.passed_again
        self.times += other.times
        for mine, others in ((self.seconds, other.seconds), (self.computed, other.computed)):
            for name, seconds in others.items():
                mine[name] = mine.get(name, 0) + seconds


class Repeat:
    """How many tests are to be run again, and what runs them: it returns the command's result after both runs."""

    def __init__(self, count, run):
        self.count = count
        self.run = run


# --- running commands --------------------------------------------------------------------------------

running = set()
running_lock = threading.RLock()  # the main thread may hold it when a signal comes
kept = []  # processes that serve the whole run
libc = ctypes.CDLL(None, use_errno=True)
stopped = []  # why nothing new is started any more


class Finished:
    def __init__(self, status, output, seconds, computed, timed_out):
        self.status = status
        self.output = output
        self.seconds = seconds
        self.computed = computed
        self.timed_out = timed_out
        self.cut_short = bool(stopped) and status < 0


def children_of(pid):
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError):
            found += map(int, Path(path).read_text(encoding="ascii").split())
    return found


def descendants(pid):
    """Processes that a living process has started, and those that they have, in whatever group or session."""
    found = [pid]
    for parent in found:
        found += children_of(parent)
    return found[1:]


def end_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def end_tree(process):
    below = descendants(process.pid)
    end_group(process)
    for pid in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def stop(reason):
    """Ends what runs. The first reason is the one that is reported."""
    with running_lock:
        stopped.append(reason)
        for process in running:
            end_tree(process)


def command(args, timeout, **env):
    """Runs args with everything it starts in one process group; none of it outlives the call."""
    begun = time.monotonic()
    with tempfile.TemporaryFile() as out:
        with running_lock:  # a child that is not in `running` is one that was left
            process = subprocess.Popen([str(a) for a in args], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=subprocess.STDOUT, env=environment(**env), start_new_session=True)
            running.add(process)
            if stopped:
                end_tree(process)
        try:
            if timed_out := not ends_within(process, timeout):
                end_tree(process)
        finally:
            end_group(process)
            used = take_status(process)
            with running_lock:
                running.discard(process)
        out.seek(0)
        text = out.read().decode(errors="replace")
    return Finished(process.returncode, text, time.monotonic() - begun, used.ru_utime + used.ru_stime, timed_out)


def ends_within(process, seconds):
    """Whether it does. Its status is left to be taken."""
    with open(os.pidfd_open(process.pid), "rb", closefd=True) as ended:
        return bool(select.select([ended], [], [], seconds)[0])


def take_status(process):
    """Waits for the end of a process, and returns what it and the children that it waited for have used."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used


def environment(**more):
    # Without what a calling make says of its own job server and variables.
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "BUILD")}
    return env | {k: str(v) for k, v in more.items()}


# --- what is left behind -----------------------------------------------------------------------------


def become_reaper():
    """From now on processes whose parents end are this process's children, and not init's."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def adopted():
    """Children that the run has not started itself: those that somebody left. The ended ones are buried."""
    with running_lock:
        own = {process.pid for process in running} | set(kept)
        left = [pid for pid in children_of(os.getpid()) if pid not in own]
    return [pid for pid in left if not has_ended(pid)]


def has_ended(pid):
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return True


def name_of(pid):
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        return words or Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    return "?"


def end_adopted():
    """Ends them and what they have started. Returns what they were. The dying have a moment to die by themselves."""
    deadline = time.monotonic() + DYING_SECONDS
    while adopted() and time.monotonic() < deadline:
        time.sleep(0.1)
    left = []
    while found := adopted():  # their children come next
        for pid in found:
            left.append(f"alive at the end: {pid} {name_of(pid)[:160]}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
    return left


def judge(result, done, name, timeout):
    """A command that failed without naming a failed test is a failure of its own."""
    result.times.append((name, done.seconds, done.computed))
    if done.cut_short:
        result.left.append(f"{name}, after {done.seconds:.0f} s and {result.passed + len(result.failed)} tests")
    elif done.timed_out:
        result.failed.append(f"{name}: killed after {timeout} s")
    elif done.status != 0 and not result.failed:
        result.failed.append(f"{name}: exit status {done.status}")
    if result.failed:
        lines = done.output.rstrip().splitlines()
        if len(lines) > FAILURE_LINES:
            lines = [f"… {len(lines) - FAILURE_LINES} lines before …", *lines[-FAILURE_LINES:]]
        result.notes.append("\n".join(lines))
    return result


# --- kinds of suites ---------------------------------------------------------------------------------


def build(kind, *targets, how=()):
    def run():
        done = command([*how, "make", f"-j{CORES}", f"BUILD={kind}", *targets], 2400)
        result = Result()
        result.passed = 1 if done.status == 0 else 0
        return judge(result, done, f"make BUILD={kind}", 2400)
    return lambda _options: [run]


def parse_cmocka(output):
    """A line for each test, and which of them failed once more at the end of each group."""
    result = Result()
    ran = re.findall(r"^\[       OK \] (\w+)$", output, re.M)
    result.passed = len(ran)
    result.failed = sorted(set(re.findall(r"^\[  FAILED  \] (\w+)$", output, re.M)))
    # A test that ran for one back end is not skipped because it makes no sense on another.
    result.skipped = sorted(set(re.findall(r"^\[  SKIPPED \] (\w+)$", output, re.M)) - set(ran))
    # tests/unit/testdb.h: a back end that is not there.
    result.skipped += sorted({f"on {name}: {why}" for name, why in re.findall(r"^SKIP (\w+): (.*)$", output, re.M)})
    return result


def program(name, args, parse, timeout, **env):
    """A program that runs all of its tests and is repeated as a whole."""
    def once():
        done = command(args, timeout, **env)
        result = parse(done)
        slow = done.timed_out or (done.status >= 0 and not SANITIZER_REPORT.search(done.output))
        return judge(result, done, name, timeout), slow and not done.cut_short

    def again(first):
        second, _ = once()
        second.passed_again = [test for test in first.failed if test not in second.failed]
        return second

    def run():
        result, slow = once()
        if result.failed and slow:
            result.repeat = Repeat(len(result.failed), lambda: again(result))
        return result
    return run


def unit_file(runner, name, timeout):
    def parse(done):
        result = parse_cmocka(done.output)
        result.failed = [f"{name}: {test}" for test in result.failed]
        result.skipped = [f"{name}: {test}" for test in result.skipped]
        if done.status == 0 and not result.passed and not result.skipped:
            result.failed.append(f"{name}: ran no test")
        return result
    return program(name, [runner, name], parse, timeout, **SANITIZERS)


def unit(kind):
    """Each file of tests in a process of its own, since they are one program (tests/unit/runner.c)."""
    def jobs(_options):
        runner = ROOT / f"build/{kind}/unit"
        names = command([runner, "--list"], 60).output.split()
        return [unit_file(runner, name, 1200 if "sqlserver" in REACHABLE else 600) for name in names]
    return jobs


class Outcomes:
    """What tests/outcomes.py wrote of a run of pytest, which may have been killed."""

    def __init__(self, path):
        self.result = Result()
        self.passed = []
        self.slow = []  # failed, and may pass when run again
        self.waiting = {}  # not come to
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            self.read(json.loads(line))
        self.result.passed = len(self.passed)
        self.failed = list(self.result.failed)  # tests only

    def read(self, line):
        if "collected" in line:
            self.waiting = dict.fromkeys(line["collected"])
            return
        self.waiting.pop(line["id"], None)
        name = line["id"].split("::")[0]
        self.result.seconds[name] = self.result.seconds.get(name, 0) + line["seconds"]
        self.result.computed[name] = self.result.computed.get(name, 0) + line["computed"]
        if line["outcome"] == "passed":
            self.passed.append(line["id"])
        elif line["outcome"] == "skipped":
            self.result.skipped.append(f"{line['id']}: {line['why']}")
        else:
            self.result.failed.append(line["id"])
            if line["outcome"] == "failed" and not SANITIZER_REPORT.search(line["why"]):
                self.slow.append(line["id"])


def pytest(directory, kind, *args, timeout, chosen=(), **env):
    """Tests of a directory, with options that choose among them all (`chosen`) and others."""
    def once(*what):
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "outcomes"
            done = command([sys.executable, "-m", "pytest", "-v", "--tb=short", "-p", "no:cacheprovider", f"--basetemp={scratch}/t",
                            "-p", "outcomes", f"--outcomes={path}", *args, *what], timeout,
                           PYTHONHASHSEED=0,  # a set in a test's name is written in the same order again
                           PYTHONPATH=ROOT / "tests", DATAFLOW_BIN=f"build/{kind}/dataflow",
                           # Compiled once a run, and beside the tree: most of what it takes to collect tests.
                           PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=Path(tempfile.gettempdir()) / "pycache",
                           **SANITIZERS, **env)
            found = Outcomes(path)
        judge(found.result, done, " ".join(["pytest", f"tests/{directory}", *args, *chosen]), timeout)
        return done, found

    def again(first, tests):
        _, second = once(*tests)
        result = second.result
        result.passed_again = second.passed
        result.passed += len(first.passed)
        result.failed = [test for test in first.failed if test not in tests] + result.failed
        result.skipped = first.result.skipped + result.skipped
        return result

    def run():
        done, found = once(*chosen, Path("tests") / directory)
        tests = found.slow + (list(found.waiting) if done.timed_out else [])
        if tests and not done.cut_short:
            found.result.repeat = Repeat(len(tests), lambda: again(found, tests))
        return found.result
    return run


def seconds_for(_shard):
    """Long, because a busy machine is no reason to fail; a test that hangs ends by itself before."""
    return 3600


def black_box(kind, *args, shards, few=()):
    """Commands of some hundred tests each. On the back ends in `few`, only a few rows of each table, unless all is asked for."""
    def jobs(options):
        return [pytest("integration", kind, f"--shard={shard}", *args, *(["--rows=few"] if shard in few and not options.all else []),
                       timeout=seconds_for(shard), chosen=(f"--part={n + 1}/{PARTS[shard]}",))
                for shard in shards for n in range(PARTS[shard])]
    return jobs


def crash(kind, rounds, backends, timeout=None):
    return lambda _options: [pytest("crash", kind, "-k", name, timeout=timeout or seconds_for(name), DATAFLOW_CRASH_ROUNDS=rounds)
                             for name in backends]


def year(kind, backends, timeout):
    return lambda _options: [pytest("integration/retention", kind, "-k", "year or much_is_a_job", f"--shard={name}", timeout=timeout, DATAFLOW_SOAK=1,
                                    DATAFLOW_TEST_SECONDS=timeout) for name in backends]


def outages(kind, backends, timeout):
    return lambda _options: [pytest("integration/delivery", kind, f"--shard={name}", timeout=timeout, DATAFLOW_SOAK=1,
                                    DATAFLOW_TEST_SECONDS=timeout) for name in backends]


def build_release_before(_options):
    def run():
        # Where there is no history it says so and does not fail: the tests then skip what needs it, by name.
        done = command([*POLITELY, sys.executable, ROOT / "tests/upgrade/release.py"], 2400)
        result = Result()
        result.passed = 1 if done.status == 0 else 0
        return judge(result, done, "tests/upgrade/release.py", 2400)
    return [run]


def upgrade(_options):
    return [pytest("upgrade", "release", "-k", name, timeout=seconds_for(name)) for name in BACKENDS]


def cluster(kind, *args, timeout):
    """tests/cluster: a whole cluster on this machine, with members that are killed, paused and cut off."""
    return lambda _options: [program("cluster", [sys.executable, ROOT / "tests/cluster/cluster.py", "--chaos", *args],
                                     lambda done: parse_tap(done.output), timeout, DATAFLOW_BIN=f"build/{kind}/dataflow")]


def packages(_options):
    """Builds everything a second time, elsewhere, and compares."""
    return [pytest("packages", "release", timeout=1800)]


def hostile(kind):
    return lambda _options: [pytest("hostile", kind, f"--shard={name}", timeout=2400) for name in ("postgres", "sqlite")]


def parse_tap(output):
    """Lines `ok NAME` and `not ok NAME`, as tools/lint, tests/fuzz/run and node's reporter write them."""
    result = Result()
    for bad, name, skip in re.findall(r"^(not )?ok (?:\d+ - )?(.*?)( # SKIP.*)?$", output, re.M):
        if skip:
            result.skipped.append(name + skip.replace(" # SKIP", ":"))
        elif bad:
            result.failed.append(name)
        else:
            result.passed += 1
    return result


def install_browser_driver():
    if (ROOT / "tests/browser/node_modules").exists():
        return None
    done = command(["npm", "ci", "--prefix", "tests/browser", "--no-audit", "--no-fund"], 180)
    return judge(Result(), done, "npm ci", 180) if done.status != 0 else None


def browser(_options):
    def run():
        if failure := install_browser_driver():
            return failure
        return program("browser", ["node", "--test-reporter=tap", "tests/browser/test.mjs"], lambda done: parse_tap(done.output), 1500)()
    return [run]


def parse_counts(output):
    """A line `FAILED NAME: …` for each test that did, and at the end `N passed, M failed`."""
    result = Result()
    result.failed = re.findall(r"^FAILED (\S+?):? ", output, re.M)
    if found := re.findall(r"^(\d+) passed, (\d+) failed$", output, re.M):
        result.passed = int(found[-1][0])
    return result


def sdk(options):
    """Each SDK by itself; and both by one table of scenarios, against a server on SQLite, or with --all on each database."""
    node = ["node", "--test", "--test-reporter=tap", *sorted(glob.glob(str(ROOT / "sdk/node/test/*.test.mjs")))]
    scenarios = [pytest("../sdk/conformance", "release", f"--shard={shard}", timeout=900) for shard in (*(BACKENDS if options.all else ("sqlite",)), "none")]
    return [*scenarios, program("sdk/node", node, lambda done: parse_tap(done.output), 600),
            program("sdk/dotnet", [ROOT / "sdk/dotnet/test"], lambda done: parse_counts(done.output), 600)]


def lint(options):
    def run():
        # Generated headers and objects must stand for it; the release build has made them.
        done = command([*POLITELY, ROOT / "tools/lint", *(["--remember"] if options.all else [])], 2400, B="build/release", LINT="quick")
        return judge(parse_tap(done.output), done, "lint", 2400)
    return [run]


def clones(_options):
    """`make run` and a suite in clones of four kinds, on the same build."""
    return [pytest("clones", "release", timeout=5400)]


def replay(kind):
    """What fuzzing found once, and a little more, without libFuzzer."""
    def jobs(_options):
        program_path = ROOT / f"build/{kind}/replay"
        targets = command([program_path, "--list"], 60).output.split()
        return [program(target, [program_path, target, *sorted(glob.glob(str(ROOT / f"tests/fuzz/seeds/{target}/*")))],
                        lambda done: parse_tap(done.output), 600, **SANITIZERS) for target in targets]
    return jobs


def fuzz(options):
    def run():
        done = command([*POLITELY, ROOT / "tests/fuzz/run", options.fuzz_seconds], 2400)
        return judge(parse_tap(done.output), done, "fuzz", 2400)
    return [run]


TESTS, WORK = "tests", "work"
AT_ONCE = {TESTS: 3 * CORES, WORK: 1}
POLITELY = ("nice", "-n", "10")
WITH_SERVER = tuple(b for b in REACHABLE if b != "sqlite")

# name, what it needs before, its lane, and what gives its commands. The longest begin first, as far as builds allow.
SUITES = [
    ("build", (), WORK, build("release", "unit", "all")),
    ("black-box", ("build",), TESTS, black_box("release", shards=(*WITH_SERVER, "none"), few=("postgres",))),
    ("build-asan", (), WORK, build("asan", "unit", "replay", "all")),
    ("black-box-asan", ("build-asan",), TESTS, black_box("asan", "--no-tools", shards=("sqlite",))),
    ("build-tsan", (), WORK, build("tsan", "unit", "all")),
    ("black-box-tsan", ("build-tsan",), TESTS, black_box("tsan", "--threads", "--no-tools", "--rows=few", shards=("sqlite",))),
    ("crash", ("build",), TESTS, crash("release", 50, BACKENDS)),
    ("browser", ("build",), TESTS, browser),
    ("build-upgrade", (), WORK, build_release_before),
    ("upgrade", ("build", "build-upgrade"), TESTS, upgrade),
    ("sdk", ("build",), TESTS, sdk),
    ("cluster", ("build",), TESTS, cluster("release", "--seconds=25", "--seed=18", timeout=600)),
    ("hostile-asan", ("build-asan",), TESTS, hostile("asan")),
    ("crash-asan", ("build-asan",), TESTS, crash("asan", 8, REACHABLE)),
    ("unit-asan", ("build-asan",), TESTS, unit("asan")),
    ("unit-tsan", ("build-tsan",), TESTS, unit("tsan")),
    ("packages", ("build",), WORK, packages),
    ("replay", ("build-asan",), TESTS, replay("asan")),
    ("lint", ("build",), WORK, lint),
]
# With --all only.
MORE = [
    ("black-box-sqlite", ("build",), TESTS, black_box("release", shards=("sqlite",))),
    ("black-box-tsan-rest", ("build-tsan",), TESTS, black_box("tsan", "--no-threads", "--no-tools", "--rows=few", shards=("sqlite",))),
    ("black-box-asan-rest", ("build-asan",), TESTS, black_box("asan", "--no-tools", "--rows=some", shards=(*WITH_SERVER, "none"))),
    ("unit", ("build",), TESTS, unit("release")),
    ("hostile", ("build",), TESTS, hostile("release")),
    ("clones", ("build",), WORK, clones),
    ("build-fuzz", (), WORK, build("fuzz", "fuzz-bin", how=POLITELY)),
    ("fuzz", ("build-fuzz",), WORK, fuzz),
]
# Nobody waits for them, so their commands may take as long as the run.
SOAK_MINUTES = 240
SOAK = [
    ("build", (), WORK, build("release", "unit", "all")),
    ("crash", ("build",), TESTS, crash("release", 250, REACHABLE, SOAK_MINUTES * 60)),
    ("outages", ("build",), TESTS, outages("release", REACHABLE, SOAK_MINUTES * 60)),
    ("year", ("build",), TESTS, year("release", REACHABLE, SOAK_MINUTES * 60)),
    ("cluster", ("build",), TESTS, cluster("release", "--minutes=30", timeout=SOAK_MINUTES * 60)),
]
COVERAGE = [
    ("build-coverage", (), WORK, build("coverage", "unit", "all")),
    ("unit-coverage", ("build-coverage",), TESTS, unit("coverage")),
    ("black-box-coverage", ("build-coverage",), TESTS, black_box("coverage", shards=(*BACKENDS, "none"))),
]


# --- the run -----------------------------------------------------------------------------------------


def selected(suites, only):
    if not only:
        return suites
    wanted = set(only)
    for name, needs, *_ in reversed(suites):
        if name in wanted:
            wanted.update(needs)
    return [suite for suite in suites if suite[0] in wanted]


class Suite:
    def __init__(self, place, name, needs, lane, jobs):
        self.place = place
        self.name = name
        self.needs = needs
        self.lane = lane
        self.jobs = jobs
        self.begun = None
        self.results = []  # of its commands, in their order; None until each has ended

    def total(self):
        result = Result()
        for one in self.results:
            if one is not None:
                result.add(one)
        if stopped and (unbegun := self.results.count(None)):
            result.left.append(f"{self.name}: {unbegun} of {len(self.results)} commands")
        elif stopped and not self.results:
            result.left.append(self.name)
        elif not result.passed and not result.failed and not result.skipped and not result.left:
            result.failed.append(f"{self.name}: ran nothing")
        return result


def work(lane, ended):
    """What each thread of a lane does until it gets None for a job."""
    while True:
        _, number, suite, job = lane.get()
        if job is None or stopped:
            return
        suite.begun = suite.begun or time.monotonic()
        try:
            result = job()
        except Exception as problem:  # nobody would come to know of it
            result = Result()
            result.failed.append(f"{suite.name}: {problem!r}")
        ended.put((suite, number, result))


def finish(suite, result, results):
    seconds = time.monotonic() - suite.begun if suite.begun else 0
    results[suite.name] = (result, seconds)
    print(line_of(suite.name, result, seconds), flush=True)
    for note in result.notes:
        print(indent(note), flush=True)


def queue_ready(waiting, lanes, results, options):
    """Queues the commands of the suites that wait for nothing more, and returns the others."""
    rest = []
    for suite in waiting:
        if broken := [n for n in suite.needs if n in results and results[n][0].failed]:
            result = Result()
            result.failed.append(f"{suite.name}: not run, {broken[0]} failed")
            finish(suite, result, results)
        elif all(n in results for n in suite.needs):
            jobs = suite.jobs(options)
            suite.results = [None] * len(jobs)
            for number, job in enumerate(jobs):
                lanes[suite.lane].put((suite.place, number, suite, job))
            if not jobs:
                finish(suite, suite.total(), results)
        else:
            rest.append(suite)
    return rest


def collect(ended, seconds):
    """Takes what ended, and waits for it as long as told. Whether anything did."""
    with contextlib.suppress(queue.Empty):
        suite, number, result = ended.get(timeout=seconds)
        suite.results[number] = result
        return suite
    return None


def repeat_all(repeats):
    """The job that repeats: nothing runs beside a command of it. What it comes to stands in the suites' results."""
    for suite, number, repeat in repeats:
        result = repeat.run() if not stopped else None
        if result and not result.left:  # else it was cut short, and the first result stands
            suite.results[number] = result
            for note in result.notes:
                print(indent(note), flush=True)
    return Result()


def queue_repeats(every, lane):
    """Returns the suite that the repetition is, or None when there is nothing to repeat, or too much."""
    repeats = [(suite, number, result.repeat) for suite in every for number, result in enumerate(suite.results) if result.repeat]
    count = sum(repeat.count for *_, repeat in repeats)
    if not count:
        return None
    if count > REPEATED:
        print(f"\nNot run again: {count} tests are more than {REPEATED}", flush=True)
        return None
    print(f"\nRun again, alone: {count} tests", flush=True)
    again = Suite(len(every), "again", (), TESTS, None)
    again.results = [None]
    lane.put((again.place, 0, again, lambda: repeat_all(repeats)))
    return again


def close_lanes(lanes, threads):
    for name, count in AT_ONCE.items():
        for number in range(count):
            lanes[name].put((-1, number, None, None))
    for thread in threads:
        thread.join()


def run_suites(suites, options):
    lanes = {name: queue.PriorityQueue() for name in AT_ONCE}
    ended = queue.Queue()
    threads = [threading.Thread(target=work, args=(lanes[name], ended))
               for name, count in AT_ONCE.items() for _ in range(count)]
    for thread in threads:
        thread.start()
    results = {}
    every = [Suite(place, *suite) for place, suite in enumerate(suites)]
    waiting, again = every, None
    deadline = time.monotonic() + options.minutes * 60
    try:
        while not stopped:
            waiting = queue_ready(waiting, lanes, results, options)
            if len(results) == len(suites) and not again:
                again = queue_repeats(every, lanes[TESTS])
                if not again:
                    break
            suite = collect(ended, 0.2)
            if suite and suite is again:
                break
            if suite and None not in suite.results:
                finish(suite, suite.total(), results)
            adopted()
            if time.monotonic() > deadline:
                stop(f"out of time after {options.minutes:g} minutes")
    finally:
        close_lanes(lanes, threads)
    while collect(ended, 0):
        pass
    return final_results(every, results)


def final_results(every, results):
    """With those of suites that were not finished, and what running again changed."""
    for suite in every:
        if suite.name not in results:
            finish(suite, suite.total(), results)
        elif suite.results:
            results[suite.name] = (suite.total(), results[suite.name][1])
    return {suite.name: results[suite.name] for suite in every}


def line_of(name, result, seconds):
    skipped = f", {len(result.skipped)} skipped" if result.skipped else ""
    left = ", not finished" if result.left else ""
    return f"{name:<20} {result.passed:>5} passed, {len(result.failed)} failed{skipped}{left}   {seconds:6.1f} s"


def indent(text):
    return "\n".join("    " + line for line in text.splitlines())


def folded(skipped):
    """Tests of one file that were skipped for one reason share a line, without their parameters."""
    groups = {}
    for text in skipped:
        test = re.fullmatch(r"([\w./-]+)::(\w+)(?:\[.*\])?: (.*)", text, re.S)
        groups.setdefault((test[1], test[3]) if test else (text, None), []).append(test and test[2])
    return [where if why is None else
            textwrap.fill(f"{where}, {len(tests)} tests: {why}: {', '.join(dict.fromkeys(tests))}", 116,
                          subsequent_indent="    ")
            for (where, why), tests in groups.items()]


def longest(results):
    """The files whose tests took longest; a waiting test takes time, too."""
    total = Result()
    for result, _ in results.values():
        total.add(result)
    return [f"{seconds:6.0f} s  {name}" for name, seconds in sorted(total.seconds.items(), key=lambda one: -one[1])[:LONGEST]]


def print_times(results):
    """Where the time went. A daemon that outlives the test that started it counts for its command only."""
    print("\n   wall s   processor s  suite, command")
    for name, (result, _) in results.items():
        print(f"{sum(t[1] for t in result.times):9.1f} {sum(t[2] for t in result.times):13.1f}  {name}")
        for what, seconds, computed in sorted(result.times, key=lambda one: -one[2]):
            print(f"{seconds:9.1f} {computed:13.1f}      {what}")
    print("\n   wall s   processor s  suite and file of tests")
    rows = [(seconds, result.computed.get(path, 0), f"{name}  {path}")
            for name, (result, _) in results.items() for path, seconds in result.seconds.items()]
    for seconds, computed, what in sorted(rows, key=lambda row: -row[0]):
        print(f"{seconds:9.1f} {computed:13.1f}  {what}")


def report(results, wall, times, left):
    if times:
        print_times(results)
    print("\n" + "-" * 72)
    for name, (result, seconds) in results.items():
        print(line_of(name, result, seconds))
    for title, names in (("Longest", longest(results)),
                         ("Skipped", folded(n for result, _ in results.values() for n in result.skipped)),
                         ("Passed only when run again", [n for result, _ in results.values() for n in result.passed_again]),
                         ("Left", [n for result, _ in results.values() for n in result.left]),
                         ("Left behind", left),
                         ("Failed", [n for result, _ in results.values() for n in result.failed] + stopped[:1])):
        if names:
            print(f"\n{title}:\n" + indent("\n".join(names)))
    passed = sum(result.passed for result, _ in results.values())
    failed = sum(len(result.failed) for result, _ in results.values()) + len(stopped[:1]) + len(left)
    skipped = sum(len(result.skipped) for result, _ in results.values())
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"\n{wall:.0f} s in all, in which {CORES} processors computed for {used.ru_utime + used.ru_stime:.0f} s")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""), flush=True)
    return 1 if failed or not passed else 0


def coverage_report():
    out = ROOT / "build/coverage"
    info = out / "coverage.info"
    ignore = ["--ignore-errors", "source"]
    for args in (["lcov", "-q", "--capture", "--directory", out / "obj", "--base-directory", ROOT, "--no-external", "--output-file", info, *ignore],
                 ["lcov", "-q", "--remove", info, "*/gen/*", "--output-file", info],
                 ["genhtml", "-q", "--prefix", ROOT, "--output-directory", out / "html", info]):
        done = command(args, 300)
        if done.status != 0:
            print(done.output)
            return
    print(command(["lcov", "--summary", info], 60).output)
    print(f"{out}/html/index.html")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--list", action="store_true", help="names of the suites")
    parser.add_argument("--all", action="store_true", help="every suite, with all rows of tables on every back end")
    parser.add_argument("--only", action="append", metavar="SUITE", help="this suite and the builds it needs")
    parser.add_argument("--coverage", action="store_true", help="line coverage instead of the usual suites")
    parser.add_argument("--soak", action="store_true", help="crashes, outages and a year of traffic in their long sizes")
    parser.add_argument("--times", action="store_true", help="where processor and wall time went")
    parser.add_argument("--minutes", type=float, help=f"after which the run is stopped [{MINUTES}; --soak {SOAK_MINUTES}]")
    parser.add_argument("--fuzz-seconds", type=int, default=6, help="for each fuzz target [6]")
    options = parser.parse_args()
    suites = COVERAGE if options.coverage else SOAK if options.soak else SUITES + MORE if options.all or options.only else SUITES
    options.minutes = options.minutes or (SOAK_MINUTES if options.soak else MINUTES)
    if options.list:
        print("\n".join(name for name, *_ in suites))
        return 0
    unknown = set(options.only or ()) - {name for name, *_ in suites}
    if unknown:
        parser.error(f"no suite {', '.join(sorted(unknown))}; --list names them")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: stop(f"interrupted by {signal.Signals(number).name}"))
    surroundings.settle()
    become_reaper()
    own_places = hide_shared_places()
    begun = time.monotonic()
    with scratch_directory():
        with test_postgres():
            if options.coverage:
                shutil.rmtree(ROOT / "build/coverage/html", ignore_errors=True)
            results = run_suites(selected(suites, options.only), options)
            if options.coverage and not stopped:
                coverage_report()
        left = end_adopted()
    if own_places:
        left += [f"outside the run's folder: {place}/{name}" for place in SHARED_PLACES for name in os.listdir(place)
                 if not name.startswith("hsperfdata_")]  # every Java has it there, whatever its folder for temporary files
    return report(results, time.monotonic() - begun, options.times, left)


def hide_shared_places():
    """Whether this run has its own, in memory, that end with its last process. Not if the tree or the folder that somebody
    chose for temporary files may lie in them. Threads come later: each would have to do it for itself."""
    hidden = tuple(place + "/" for place in SHARED_PLACES)
    if os.geteuid() != 0 or os.environ.get("TMPDIR") or str(ROOT).startswith(hidden) or surroundings.scratch_place() != "/dev/shm":
        return False
    if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(b"none", b"/", None, MS_PRIVATE_ALL, None) != 0:
        return False  # a container may forbid it
    for place in SHARED_PLACES:
        if libc.mount(b"dataflow-run", place.encode(), b"tmpfs", 0, f"mode=1777,size={surroundings.SCRATCH_BYTES}".encode()) != 0:
            sys.exit(f"{place} cannot be mounted: {os.strerror(ctypes.get_errno())}")
    return True


@contextlib.contextmanager
def scratch_directory():
    """Temporary files of all suites, so that those of killed ones are removed too."""
    place = os.environ.get("TMPDIR") or surroundings.scratch_place()
    with tempfile.TemporaryDirectory(prefix="dataflow-run-", dir=place, ignore_cleanup_errors=True) as scratch:
        os.chmod(scratch, 0o711)  # PostgreSQL runs as another user
        os.environ["TMPDIR"] = tempfile.tempdir = os.environ["DATAFLOW_TEST_TEMPLATES"] = scratch
        yield
    tempfile.tempdir = None


@contextlib.contextmanager
def test_postgres():
    if os.environ.get("DATAFLOW_TEST_POSTGRES_URL"):
        yield
        return
    postgres = None
    try:
        postgres = pg.Postgres().start()
        kept.append(postgres.process.pid)
        os.environ["DATAFLOW_TEST_POSTGRES_URL"] = postgres.url()
    except RuntimeError:  # Ctrl-C reaches initdb as well
        if not stopped:
            raise
    try:
        yield
    finally:
        if postgres:
            postgres.close()
            kept.clear()


if __name__ == "__main__":
    sys.exit(main())
