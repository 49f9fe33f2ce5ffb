"""`make run` and `make check` where a clone may lie, as whoever made it, in the language of the machine.

Each clone has the project's files and what the build of this tree made of them, with their times: nothing is compiled
again. It has no other settings than a fresh login gives. A user gets what is missing by sudo, which only notes that
here: one package, after the first call no longer."""

import contextlib
import http.client
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from harness import ROOT, wait_for

SUITE = "unit"
START_SECONDS = 120
SUITE_SECONDS = 1200  # a minute on an idle machine
BUILT = ("gen", "release", "dataflow")
USERS_PATH = "/usr/local/bin:/usr/bin:/bin"
ROOTS_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MISSING = "zlib1g-dev"
SUDO = '#!/bin/sh\necho "$*" >>"{called}"\n'
DPKG_QUERY = f'#!/bin/sh\n[ -e "{{called}}" ] || case $* in *" {MISSING}") exit 1 ;; esac\nexec /usr/bin/dpkg-query "$@"\n'


def tracked_files():
    if not (ROOT / ".git").exists():
        pytest.skip("needs git: which files belong to the project")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).exists()]


class Clone:
    """A directory of `owner` (None: whoever runs the tests), and how it is to type something there."""

    def __init__(self, base, place, owner, locale):
        self.base = base
        self.owner = owner
        self.tree = base / place
        self.sudo_called = base / "sudo-called"
        as_root = os.geteuid() == 0 and not owner
        self.env = {"HOME": str(base / "home"), "PATH": ROOTS_PATH if as_root else f"{base}/programs:{USERS_PATH}", "LANG": locale,
                    "SHELL": "/bin/sh", "TERM": "dumb", "USER": (owner or pwd.getpwuid(os.geteuid())).pw_name}
        self.copy()
        self.write_program("sudo", SUDO)
        self.write_program("dpkg-query", DPKG_QUERY)
        if owner:
            subprocess.run(["chown", "-R", f"{owner.pw_uid}:{owner.pw_gid}", base], check=True)

    def write_program(self, name, text):
        path = self.base / "programs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.format(called=self.sudo_called), encoding="utf-8")
        path.chmod(0o755)

    def copy(self):
        for name in tracked_files():
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, self.tree / name, follow_symlinks=False)
        (self.tree / "build").mkdir()
        for name in BUILT:
            if (ROOT / "build" / name).is_dir():
                shutil.copytree(ROOT / "build" / name, self.tree / "build" / name, symlinks=True)
            else:
                shutil.copy2(ROOT / "build" / name, self.tree / "build" / name, follow_symlinks=False)

    def start(self, *words, output):
        """In a process group of its own, as a shell does, which Ctrl-C reaches."""
        who = {"user": self.owner.pw_uid, "group": self.owner.pw_gid, "extra_groups": []} if self.owner else {}
        return subprocess.Popen(["make", *words], cwd=self.tree, env=self.env, stdin=subprocess.DEVNULL, stdout=output,
                                stderr=subprocess.STDOUT, start_new_session=True, **who)

    @contextlib.contextmanager
    def typed(self, *words):
        """The command while it runs, and what it has printed so far. Nothing of it outlives the block."""
        printed = self.base / "printed"
        with open(printed, "wb") as output:
            process = self.start(*words, output=output)
        try:
            yield process, lambda: printed.read_text(encoding="utf-8")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)  # tests/run.py ends what it has started
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def nobody():
    """Another user than root, for root; for anybody else, who runs the tests."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


# name: the mode of the directory above, the place in it, whether root is somebody else there, the locale
CLONES = {
    "root in a closed home": (0o700, "home/dataflow", False, "C"),
    "a user with sudo": (0o711, "home/dataflow", True, "C.UTF-8"),
    "a path with a space": (0o711, "home/Área de trabalho/it's DataFlow", True, "C"),
    "a machine in Portuguese": (0o711, "home/dataflow", False, "pt_BR.UTF-8"),
}


@pytest.fixture(params=CLONES.values(), ids=CLONES)
def clone(request):
    mode, place, as_user, locale = request.param
    if mode == 0o700 and os.geteuid() != 0:
        pytest.skip("only root has PostgreSQL run by another user")
    base = Path(tempfile.mkdtemp(prefix="dataflow-clone-"))  # not below pytest's, which are closed
    try:
        base.chmod(mode)
        yield Clone(base, place, nobody() if as_user else None, locale)
    finally:
        shutil.rmtree(base, ignore_errors=True)


def ask(address, path, **headers):
    connection = http.client.HTTPConnection(address, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status


def lives(group):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


def check_run(clone):
    with clone.typed("run", "ARGS=--set server.listen=127.0.0.1:0 --sandbox-listen 127.0.0.1:0") as (process, printed):
        wait_for(lambda: "/_stats\n" in printed() or process.poll() is not None, "the welcome", START_SECONDS)
        assert process.poll() is None, printed()[-4000:]
        welcome = re.search(r"^  (.*DataFlow \S+ .*)\n\n.* http://(\S+)/$", printed(), re.M)
        assert welcome, printed()[-4000:]
        assert ("está em execução" in welcome[1]) == clone.env["LANG"].startswith("pt"), welcome[1]
        admin_key = (clone.tree / "var/demo-admin-key").read_text(encoding="ascii")
        assert ask(welcome[2], "/healthz") == 200
        wait_for(lambda: ask(welcome[2], "/readyz") == 200, "ready")
        assert ask(welcome[2], "/admin/outbox", **{"X-Admin-Key": admin_key}) == 200
        os.killpg(process.pid, signal.SIGINT)
        wait_for(lambda: process.poll() is not None and not lives(process.pid), "the end of all after Ctrl-C")
        assert '"event":"ServerStopped"' in printed()
        assert not re.search(r"^  (CC|LD|GEN) ", printed(), re.M), "something was built again"


def check_suite(clone):
    with clone.typed("check", f"ARGS=--only {SUITE}") as (process, printed):
        deadline = time.monotonic() + SUITE_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
        assert process.poll() == 0, printed()[-8000:]
        assert re.search(r"^\d{3,} passed, 0 failed", printed(), re.M), printed()[-4000:]


def test_make_run_and_make_check(clone):
    check_run(clone)
    if clone.env["PATH"] != ROOTS_PATH:
        assert f"--no-install-recommends {MISSING}" in clone.sudo_called.read_text(encoding="utf-8")
    check_suite(clone)
