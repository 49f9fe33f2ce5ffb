"""HAProxy or nginx in front of replicas, with the very files of deploy/: only addresses are put in."""

import ctypes
import re
import resource
import signal
import socket
import subprocess
import time
from pathlib import Path

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"

NGINX = """
daemon off;
master_process off;
pid {directory}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log {directory}/access.log;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/unused;
    uwsgi_temp_path {directory}/unused;
    scgi_temp_path {directory}/unused;
{file}
}}
"""


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def put(text, pattern, lines, flags=re.M):
    """Replaces the lines that match; they must be there."""
    found = list(re.finditer(pattern, text, flags))
    assert found, f"no {pattern} in the file"
    return text[:found[0].start()] + "\n".join(lines) + text[found[-1].end():]


def haproxy_file(listen, replicas):
    text = (DEPLOY / "haproxy/haproxy.cfg").read_text(encoding="utf-8")
    text = put(text, r"^    bind :8080$", [f"    bind {listen}"])
    # It ends when it may not have two files for each connection, and a few.
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY:
        text = put(text, r"^    maxconn 4096$", [f"    maxconn {min(4096, files // 2 - 50)}"])
    return put(text, r"^    server api-\d+ api-\d+:8080$", [f"    server api-{n} {a}" for n, a in enumerate(replicas, 1)])


def nginx_file(listen, replicas):
    text = (DEPLOY / "nginx/dataflow.conf").read_text(encoding="utf-8")
    text = put(text, r"^    listen 8080;$", [f"    listen {listen};"])
    return put(text, r"^    server api-\d+:8080 (.*)$", [f"    server {a} max_fails=2 fail_timeout=5s;" for a in replicas])


class Balancer:
    """`kind` is haproxy or nginx; addresses are host:port. `before` runs it, as `ip netns exec NAME` does."""

    def __init__(self, kind, directory, listen, replicas, before=()):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        host, port = listen.rsplit(":", 1)
        self.host_port = (host, int(port))
        self.log_path = self.directory / f"{kind}.log"
        self.process = None
        config = self.directory / f"{kind}.cfg"
        if kind == "haproxy":
            config.write_text(haproxy_file(listen, replicas), encoding="utf-8")
            self.command = [*before, "/usr/sbin/haproxy", "-db", "-f", config]
        else:
            config.write_text(NGINX.format(directory=self.directory, file=nginx_file(listen, replicas)), encoding="utf-8")
            self.command = [*before, "/usr/sbin/nginx", "-p", self.directory, "-c", config]

    def spawn(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([str(a) for a in self.command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            cwd=self.directory, preexec_fn=_die_with_parent)
        return self

    def start(self):
        self.spawn()
        deadline = time.monotonic() + 30
        while True:
            with socket.socket() as s:
                if s.connect_ex(self.host_port) == 0:
                    return self
            assert self.process.poll() is None and time.monotonic() < deadline, self.log_text()
            time.sleep(0.02)

    def log_text(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace") if self.log_path.exists() else ""

    def remember(self, _answer):
        """For harness.Http: it issues no secrets."""

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None
