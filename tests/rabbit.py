"""A private RabbitMQ on loopback, in a directory of its own, for as long as the tests run.

As a program it is told what to do on standard input, a word a line: start, stop, kill, block (an alarm, as for want of
memory: publishers are no longer read), unblock, close (every connection, by the broker). It answers each with a line:
the node's URL and, given a certificate and its key, the port for TLS; or what went wrong. It ends, with the node, when
its input does.
"""

import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from pg import free_port

SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"
MAX_MESSAGE_BYTES = 256 * 1024  # small, so that a test can pass it


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Rabbit:
    """start(), stop() and kill() may be called again and again, and keep what is in durable queues; close() removes it.

    The node's Erlang shell is its standard input, which is quicker than rabbitmqctl by seconds. Its name server, epmd,
    is one of our own: a node would start one that stays for ever.
    """

    def __init__(self, cert=None, key=None):
        if not os.path.exists(SERVER):
            raise RuntimeError(f"no {SERVER}: install the package rabbitmq-server")
        self.dir = tempfile.mkdtemp(prefix="dataflow-rabbit-")
        self.port = free_port()
        self.tls_port = free_port() if cert else None
        self.node = self.epmd = None
        lines = [f"listeners.tcp.1 = 127.0.0.1:{self.port}", f"max_message_size = {MAX_MESSAGE_BYTES}",
                 "log.console = true", "log.console.level = warning", "log.file = false",
                 "disk_free_limit.absolute = 1MB", "vm_memory_high_watermark.absolute = 4GB"]
        if cert:
            lines += [f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}", f"ssl_options.cacertfile = {cert}",
                      f"ssl_options.certfile = {cert}", f"ssl_options.keyfile = {key}"]
        with open(os.path.join(self.dir, "rabbitmq.conf"), "w", encoding="ascii") as f:
            f.write("\n".join(lines) + "\n")
        with open(os.path.join(self.dir, "enabled_plugins"), "w", encoding="ascii") as f:
            f.write("[].")
        # The programs of a node each make it if it is missing, and one may see the other's before it is private.
        with open(os.open(os.path.join(self.dir, ".erlang.cookie"), os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as f:
            f.write(secrets.token_hex(16).upper())
        self.env = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": self.dir, "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(free_port()), "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"dataflow{self.port}@localhost", "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_CONFIG_FILE": os.path.join(self.dir, "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": os.path.join(self.dir, "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": os.path.join(self.dir, "mnesia"), "RABBITMQ_LOG_BASE": self.dir,
            "RABBITMQ_CONF_ENV_FILE": os.path.join(self.dir, "none"), "RABBITMQ_ALLOW_INPUT": "1",
            # One scheduler that sleeps when there is nothing to do: the tests share the machine.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none "
                                                   "-kernel inet_dist_use_interface {127,0,0,1}",
        }

    def url(self, vhost=""):
        return f"amqp://guest:guest@127.0.0.1:{self.port}{vhost}"

    def _spawn(self, args, **kwargs):
        return subprocess.Popen(args, cwd=self.dir, env=self.env, start_new_session=True, preexec_fn=_die_with_parent,
                                **kwargs)

    def _log(self):
        with open(os.path.join(self.dir, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def start(self):
        return self.begin().wait()

    def begin(self):
        """Does not wait until it runs, which takes ten seconds of a processor's time."""
        if self.epmd is None:
            self.epmd = self._spawn(["epmd"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
        self._spawn_node()
        return self

    def wait(self):
        deadline = time.monotonic() + 170
        while not self._listens():
            if self.node.poll() is not None and "dist_port_already_used" in self._log():
                self.env["RABBITMQ_DIST_PORT"] = str(free_port())  # somebody was quicker
                self._spawn_node()
            elif self.node.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"RabbitMQ did not start:\n{self._log()[-4000:]}")
            time.sleep(0.05)
        return self

    def _spawn_node(self):
        with open(os.path.join(self.dir, "log"), "wb") as out:
            self.node = self._spawn([SERVER], stdin=subprocess.PIPE, stdout=out, stderr=out, text=True)

    def _listens(self):
        for port in (self.port, self.tls_port):
            if port:
                with socket.socket() as s:
                    if s.connect_ex(("127.0.0.1", port)) != 0:
                        return False
        return True

    def tell(self, expression):
        """Has the node evaluate an Erlang expression, and waits until it has."""
        done = os.path.join(self.dir, "done")
        self.node.stdin.write(f'{expression}, file:write_file("{done}", "").\n')
        self.node.stdin.flush()
        deadline = time.monotonic() + 60
        while not os.path.exists(done):
            if self.node.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"RabbitMQ did not do {expression}:\n{self._log()[-4000:]}")
            time.sleep(0.02)
        os.unlink(done)

    def block(self):
        self.tell("rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []})")

    def unblock(self):
        self.tell("rabbit_alarm:clear_alarm({resource_limit, memory, node()})")

    def close_connections(self):
        self.tell('[rabbit_networking:close_connection(P, "by the test") || P <- rabbit_networking:connections()]')

    def stop(self):
        """As an operator stops it: clients are told."""
        if self.node is None:
            return
        try:
            self.node.stdin.write("init:stop().\n")
            self.node.stdin.flush()
            self.node.wait(30)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            pass
        self.kill()

    def kill(self):
        if self.node is None:
            return
        try:
            os.killpg(self.node.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.node.wait()
        self.node.stdin.close()
        self.node = None

    def close(self):
        self.kill()
        if self.epmd is not None:
            self.epmd.kill()
            self.epmd.wait()
            self.epmd = None
        shutil.rmtree(self.dir, ignore_errors=True)


def main():
    rabbit = Rabbit(*sys.argv[1:3])
    commands = {"start": rabbit.start, "stop": rabbit.stop, "kill": rabbit.kill, "block": rabbit.block,
                "unblock": rabbit.unblock, "close": rabbit.close_connections}
    try:
        for line in sys.stdin:
            try:
                commands[line.strip()]()
                print(rabbit.url(), rabbit.tls_port or "", flush=True)
            except (KeyError, OSError, RuntimeError) as problem:
                print(f"error: {problem!r}", flush=True)
    finally:
        rabbit.close()


if __name__ == "__main__":
    main()
