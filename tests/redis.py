"""A private Redis on loopback, without a file: a restart loses its memory. It ends with the tests."""

import ctypes
import os
import signal
import socket
import subprocess
import time

from pg import free_port

SERVER = "/usr/bin/redis-server"


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Redis:
    """start() and kill() may be called again and again. With a certificate and its key it speaks TLS only."""

    def __init__(self, password=None, pair=None, policy="noeviction"):
        if not os.path.exists(SERVER):
            raise RuntimeError(f"no {SERVER}: install the package redis-server")
        self.port = free_port()
        self.password = password
        self.tls = pair is not None
        self.process = None
        self.args = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--maxmemory-policy", policy]
        if password:
            self.args += ["--requirepass", password]
        if pair:
            self.args += ["--port", "0", "--tls-port", str(self.port), "--tls-cert-file", str(pair[0]), "--tls-key-file",
                          str(pair[1]), "--tls-auth-clients", "no"]
        else:
            self.args += ["--port", str(self.port)]

    @property
    def url(self):
        login = f":{self.password}@" if self.password else ""
        return f"{'rediss' if self.tls else 'redis'}://{login}127.0.0.1:{self.port}"

    def start(self):
        self.process = subprocess.Popen([SERVER, *self.args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, preexec_fn=_die_with_parent)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            assert self.process.poll() is None, "redis-server ended"
            time.sleep(0.01)
        raise AssertionError("redis-server does not listen")

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)
