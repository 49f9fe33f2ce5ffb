"""The members of a cluster: each can be started, told to stop, killed, paused, and cut off.

A member is one process group, and ends with the thread that started it: that is the main thread, always. Only `start`
waits, until the member answers.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pg
from balancer import Balancer
from network import die_with_parent
from rabbit import Rabbit

TESTS = Path(__file__).resolve().parents[1]
PATIENCE = 90  # seconds until a member answers


def wait_until(condition, what, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {seconds} s: {what}")
        time.sleep(0.05)


def listens(address, port):
    with socket.socket() as s:
        s.settimeout(2)
        return s.connect_ex((address, port)) == 0


class Member:
    """Troubles are (begin, end) with end None while it lasts; they excuse what is sent twice."""

    kinds = ("kill", "stop", "pause", "cut")

    def __init__(self, name, node, directory):
        self.name = name
        self.node = node
        self.directory = Path(directory) / name
        self.directory.mkdir(parents=True)
        self.process = None
        self.wanted = False  # it should run: who ends by itself is started again
        self.began = 0  # when it was started last
        self.troubles = []
        self.log_path = self.directory / "log"

    # -- what a kind of member says of itself

    def command(self):
        raise NotImplementedError

    def answers(self):
        raise NotImplementedError

    # -- life

    def spawn(self):
        self.wanted = True
        self.began = time.monotonic()
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([*self.node.before, *map(str, self.command())], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, cwd=self.directory, start_new_session=True, preexec_fn=die_with_parent,
                                            env=os.environ | {"LC_ALL": "C.UTF-8"})

    def start(self):
        self.spawn()
        wait_until(self._is_up, f"{self.name} to answer; {self.log_path}")
        return self

    def _is_up(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}:\n{self.log_text()[-2000:]}")
        return self.answers()

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def kill(self):
        self.wanted = False
        self.signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """As a supervisor stops it; it ends in its own time."""
        self.wanted = False
        self.process.send_signal(signal.SIGTERM)

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def cut(self):
        self.node.cut()

    def mend(self):
        self.node.mend()

    def restart(self):
        """After kill or stop; one that is still draining is waited for."""
        self.process.wait(60)
        self.spawn()

    def close(self):
        if self.process and self.process.poll() is None:
            self.resume()
            self.kill()

    # -- troubles

    def begin(self):
        self.troubles.append([time.monotonic(), None])

    def end(self):
        self.troubles[-1][1] = time.monotonic()

    @property
    def in_trouble(self):
        return bool(self.troubles) and self.troubles[-1][1] is None

    def troubled(self, since, until, grace):
        """Whether a trouble, or the time of grace after it, touches the interval."""
        return any(begin <= until and (end is None or end + grace >= since) for begin, end in self.troubles)

    def log_text(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace")


class Server(Member):
    """`dataflow serve` with some of the roles."""

    def __init__(self, name, node, directory, binary, config):
        super().__init__(name, node, directory)
        self.binary = binary
        self.port = node.port(8080)
        self.host_port = (node.address, self.port)
        sections = {**config, "server": {**config["server"], "listen": f"{node.address}:{self.port}"}}
        lines = [line for section, keys in sections.items() for line in (f"[{section}]", *(f"{k} = {v}" for k, v in keys.items()))]
        self.config = self.directory / "dataflow.ini"
        self.config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.config.chmod(0o600)

    def command(self):
        return [self.binary, "serve", "--config", self.config]

    def answers(self):
        with contextlib.suppress(OSError):
            return urllib.request.urlopen("http://{}:{}/readyz".format(*self.host_port), timeout=5).status == 200
        return False


class HAProxy(Member):
    def __init__(self, name, node, directory, replicas):
        super().__init__(name, node, directory)
        self.port = node.port(8080)
        self.host_port = (node.address, self.port)
        self.balancer = Balancer("haproxy", self.directory, f"{node.address}:{self.port}",
                                 ["{}:{}".format(*r.host_port) for r in replicas])

    def command(self):
        return self.balancer.command

    def answers(self):
        return listens(*self.host_port)


class Postgres(Member):
    """A primary, or with `primary` a standby of it. Both have the settings that docs/scaling.md asks for: a session whose
    client is gone must not keep its locks."""

    kinds = ("kill", "pause", "cut")

    def __init__(self, name, node, directory, primary=None):
        super().__init__(name, node, directory)
        self.port = node.port(5432)
        self.data = self.directory / "data"
        self.as_user = []
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            account = pwd.getpwnam("postgres")
            os.chown(self.directory, account.pw_uid, account.pw_gid)
            self.as_user = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", "--pdeathsig=INT"]
        if primary:
            self.follow(primary)
        else:
            self._init()

    def _run(self, *words):
        subprocess.run([*self.node.before, *self.as_user, f"{pg.bin_dir()}/{words[0]}", *map(str, words[1:])], cwd=self.directory,
                       check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)

    def _init(self):
        password = self.directory / "password"
        password.write_text(pg.PASSWORD, encoding="ascii")
        password.chmod(0o644)
        self._run("initdb", "-D", self.data, "-U", pg.USER, "-A", "scram-sha-256", f"--pwfile={password}", "--no-locale", "-E", "UTF8",
                  "--no-sync")
        with open(self.data / "pg_hba.conf", "a", encoding="ascii") as f:
            f.write("host all all samenet scram-sha-256\nhost replication all samenet scram-sha-256\n"
                    "host all all 127.0.0.0/8 scram-sha-256\nhost replication all 127.0.0.0/8 scram-sha-256\n")

    def follow(self, primary):
        """Becomes a standby of another one, from nothing."""
        shutil.rmtree(self.data, ignore_errors=True)
        self._run("pg_basebackup", "-D", self.data, "-R", "--checkpoint=fast", "-d",
                  f"{primary.url('postgres')}?application_name={self.name}")

    def command(self):
        settings = {
            "listen_addresses": self.node.address, "max_connections": 300, "shared_buffers": "64MB", "fsync": "off",
            "full_page_writes": "off", "wal_level": "replica", "hot_standby": "on", "wal_keep_size": "256MB",
            "tcp_keepalives_idle": 5, "tcp_keepalives_interval": 2, "tcp_keepalives_count": 3, "tcp_user_timeout": 10000,
            "wal_sender_timeout": 5000, "wal_receiver_timeout": 5000,
            "dynamic_shared_memory_type": "mmap",  # in /dev/shm a killed server leaves it
        }
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        return [*self.as_user, f"{pg.bin_dir()}/postgres", "-D", self.data, "-p", self.port, "-k", self.directory, *options]

    def answers(self):
        ready = subprocess.run([f"{pg.bin_dir()}/pg_isready", "-q", "-h", self.node.address, "-p", str(self.port)], timeout=30, check=False)
        return ready.returncode == 0

    def restart(self):
        """Processes of one that was killed may not have noticed yet that it is gone."""
        self.spawn()
        time.sleep(0.3)
        while self.process.poll() is not None and "is still in use" in self.log_text()[-1000:]:
            self.spawn()
            time.sleep(0.3)

    def stop(self):
        self.wanted = False
        self.process.send_signal(signal.SIGINT)

    @property
    def place(self):
        return f"{self.node.address}:{self.port}"

    def url(self, database):
        return f"postgres://{pg.USER}:{pg.PASSWORD}@{self.place}/{database}"

    def promote(self):
        self._run("pg_ctl", "promote", "-D", self.data, "-w")


class Redis(Member):
    """Keeps everything in memory: one that was killed has forgotten its locks."""

    def __init__(self, name, node, directory):
        super().__init__(name, node, directory)
        self.port = node.port(6379)

    def command(self):
        return ["redis-server", "--bind", self.node.address, "--port", self.port, "--protected-mode", "no", "--save", "",
                "--appendonly", "no", "--maxmemory-policy", "noeviction"]

    def answers(self):
        return listens(self.node.address, self.port)

    @property
    def url(self):
        return f"redis://{self.node.address}:{self.port}"


class RabbitNode(Rabbit):
    """tests/rabbit.py in a namespace, at an address that others reach."""

    def __init__(self, node):
        super().__init__()
        self.place = node
        path = Path(self.dir) / "rabbitmq.conf"
        text = path.read_text(encoding="ascii").replace(f"127.0.0.1:{self.port}", f"{node.address}:{self.port}")
        path.write_text(text + "loopback_users = none\n", encoding="ascii")

    def _spawn(self, args, **kwargs):
        return super()._spawn([*self.place.before, *args], **kwargs)

    def _listens(self):
        return listens(self.place.address, self.port)


class RabbitMQ(Member):
    kinds = ("kill", "pause", "cut")

    def __init__(self, name, node, directory):
        super().__init__(name, node, directory)
        self.rabbit = RabbitNode(node)

    @property
    def url(self):
        return f"amqp://guest:guest@{self.node.address}:{self.rabbit.port}"

    def start(self):
        self.rabbit.start()
        self._started()
        return self

    def spawn(self):
        self.rabbit._spawn_node()  # pylint: disable=protected-access
        self._started()

    def _started(self):
        self.process, self.wanted, self.began = self.rabbit.node, True, time.monotonic()

    def answers(self):
        return self.rabbit._listens()  # pylint: disable=protected-access

    def kill(self):
        self.wanted = False
        self.rabbit.kill()

    def restart(self):
        self.spawn()

    def close(self):
        if self.process and self.rabbit.node:
            self.resume()
        self.rabbit.close()


class S3(Member):
    """tests/s3_server.py. Its objects are in memory, so it is never killed."""

    kinds = ("pause", "cut")

    def __init__(self, name, node, directory):
        super().__init__(name, node, directory)
        self.port = node.port(8333)
        self.url = f"http://{node.address}:{self.port}"

    def command(self):
        return [sys.executable, TESTS / "s3_server.py", self.directory / "objects", f"{self.node.address}:{self.port}"]

    def answers(self):
        return listens(self.node.address, self.port)

    def make_bucket(self, name):
        def ask(method, path, **headers):
            request = urllib.request.Request(self.url + path, headers={k.replace("_", "-"): v for k, v in headers.items()}, method=method)
            return urllib.request.urlopen(request, timeout=30)
        token = ask("GET", "/auth/v1.0", X_Auth_User="test:tester", X_Auth_Key="testing").headers["X-Auth-Token"]
        ask("PUT", f"/v1/AUTH_test/{name}", X_Auth_Token=token)
