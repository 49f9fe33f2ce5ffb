"""A private PostgreSQL on loopback, in a directory of its own, for as long as the tests run."""

import contextlib
import ctypes
import glob
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

USER, PASSWORD = "dataflow", "pg-test-password"
PORTS = range(20000, 32000)  # below those that the kernel gives away, to listeners and for every connection that is made

_claims = []


def free_port():
    """A port that nobody listens on. No other process of the tests gets it while this one lives, so that a server can
    be started there later, and again."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        claim = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError), socket.socket() as s:
            claim.bind(f"\0dataflow-test-port-{port}")
            s.bind(("127.0.0.1", port))
            _claims.append(claim)
            return port
        claim.close()


def bin_dir():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"), key=lambda p: int(p.split("/")[4]))
    if not found:
        raise RuntimeError("no PostgreSQL under /usr/lib/postgresql: install the package postgresql")
    return os.path.dirname(found[-1])


def _send(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _die_with_parent():
    # SIGINT is PostgreSQL's fast shutdown; so nothing is left when the test run itself is killed.
    ctypes.CDLL(None).prctl(1, signal.SIGINT)


class Postgres:
    """start() and stop() may be called again and again; close() also removes the data.

    of: a primary, of which this is made as a streaming standby. Its name in synchronous_standby_names is "standby"."""

    def __init__(self, of=None):
        self.settings = {}
        self.dir = tempfile.mkdtemp(prefix="dataflow-pg-")
        self.process = None
        # PostgreSQL refuses to run as root.
        self.identity = {}
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            self.identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            os.chown(self.dir, account.pw_uid, account.pw_gid)
        self.data = os.path.join(self.dir, "data")
        try:
            if of:
                self._copy(of)
            else:
                self._initdb()
        except BaseException:
            shutil.rmtree(self.dir, ignore_errors=True)
            raise
        self.port = free_port()

    def _initdb(self):
        password = os.path.join(self.dir, "password")
        with open(password, "w", encoding="ascii") as f:
            f.write(PASSWORD)
        os.chmod(password, 0o644)
        run = subprocess.run(
            [f"{bin_dir()}/initdb", "-D", self.data, "-U", USER, "-A", "scram-sha-256", f"--pwfile={password}",
             "--no-locale", "-E", "UTF8", "--no-sync"],
            cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
            **self.identity)
        if run.returncode != 0:
            raise RuntimeError(f"initdb failed:\n{run.stdout}")

    def _copy(self, primary):
        run = subprocess.run(
            [f"{bin_dir()}/pg_basebackup", "-D", self.data, "-R", "-X", "stream", "-c", "fast", "--no-sync",
             "-d", primary.url().replace("/postgres", "/?application_name=standby")],
            cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
            **self.identity)
        if run.returncode != 0:
            raise RuntimeError(f"pg_basebackup failed:\n{run.stdout}")

    def url(self, database="postgres"):
        return f"postgres://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def start(self):
        self._spawn()
        deadline = time.monotonic() + 60
        ready = [f"{bin_dir()}/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, timeout=30, check=False).returncode != 0:
            if self.process.poll() is not None:
                # After kill(): processes of the one before may not have noticed yet that it is gone.
                if "is still in use" not in self._log()[-1000:]:
                    raise RuntimeError(f"PostgreSQL did not start:\n{self._log()}")
                self._spawn()
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start in time:\n{self._log()}")
            time.sleep(0.05)
        return self

    def _spawn(self):
        with open(os.path.join(self.dir, "log"), "ab") as out:
            self.process = subprocess.Popen(
                [f"{bin_dir()}/postgres", "-D", self.data, "-p", str(self.port), "-k", self.dir,
                 "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300", "-c", "shared_buffers=64MB",
                 # In the folder of the data, and not in /dev/shm, where a killed server leaves it.
                 "-c", "dynamic_shared_memory_type=mmap",
                 # The machine will not lose its power, and a killed server loses nothing without them.
                 "-c", "fsync=off", "-c", "full_page_writes=off",
                 *(part for key, value in self.settings.items() for part in ("-c", f"{key}={value}"))],
                cwd=self.dir, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True,
                preexec_fn=_die_with_parent, **self.identity)

    def _log(self):
        with open(os.path.join(self.dir, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()[-4000:]

    def stop(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process = None

    def kill(self):
        """As a machine that loses its power, but for what the kernel still writes."""
        # All are stopped first, so that none of them does more than the others; and named first, since the dead have no
        # children, and those of a killed server would stay stopped for good.
        for pid in self.freeze():
            _send(pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def promote(self):
        """A standby becomes the primary; returns when it takes writes."""
        run = subprocess.run([f"{bin_dir()}/pg_ctl", "promote", "-D", self.data, "-t", "60"], cwd=self.dir,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=90, check=False,
                             **self.identity)
        if run.returncode != 0:
            raise RuntimeError(f"not promoted:\n{run.stdout}\n{self._log()}")

    def _processes(self):
        """The server, and then its processes: each has a session of its own, which killpg does not reach."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as f:
            return [self.process.pid, *map(int, f.read().split())]

    def freeze(self):
        """As a machine that hangs, or is cut off: connections stay, and nobody answers. Returns who is frozen."""
        os.kill(self.process.pid, signal.SIGSTOP)  # it starts no other from now on
        frozen = self._processes()
        for pid in frozen:
            _send(pid, signal.SIGSTOP)
        return frozen

    def thaw(self):
        for pid in self._processes():
            _send(pid, signal.SIGCONT)

    def close(self):
        if self.process:
            self.thaw()
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)
