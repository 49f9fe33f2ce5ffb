"""Addresses and cables for the members of a cluster on one machine.

As root, each member lives in a network namespace of its own, tied to one bridge by a veth pair: a cable that can be cut.
The bridge is in a namespace of the harness itself, so that nothing of it is seen outside, and all of it is gone when the
harness ends, however it ends. Otherwise members have loopback addresses, and there are no cables to cut.
"""

import ctypes
import os
import signal
import subprocess

import pg

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    _libc.prctl(1, signal.SIGKILL)


def _in_new_namespace():
    die_with_parent()
    if _libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def ip(*words, inside=()):
    subprocess.run([*inside, "ip", *map(str, words)], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)


class Node:
    """A place for a member: its address, what a command is preceded by to run there, and its cable."""

    def __init__(self, network, number):
        self.network = network
        if not network.has_cables:
            self.address, self.before, self.cable = f"127.0.1.{number}", [], None
            return
        self.address, self.cable = f"10.77.0.{number}", f"cable{number}"
        # Holds the namespace while no process of the member lives.
        self.holder = subprocess.Popen(["sleep", "infinity"], preexec_fn=_in_new_namespace)
        self.before = ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", "--"]
        ip("link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", self.holder.pid)
        ip("link", "set", self.cable, "master", "bridge", "up")
        ip("address", "add", f"{self.address}/24", "dev", "eth0", inside=self.before)
        for device in ("lo", "eth0"):
            ip("link", "set", device, "up", inside=self.before)

    def port(self, usual):
        """The usual one, where nobody else can have it."""
        return usual if self.cable else pg.free_port()

    def cut(self):
        ip("link", "set", self.cable, "down")

    def mend(self):
        ip("link", "set", self.cable, "up")


class Network:
    """Made before the first thread: a namespace is entered by a thread, and those that it starts."""

    def __init__(self, cables=True):
        self.has_cables = cables and os.geteuid() == 0 and _libc.unshare(CLONE_NEWNET) == 0
        self.address = "10.77.0.1" if self.has_cables else "127.0.0.1"
        self.trusted = "10.77.0.0/24" if self.has_cables else "127.0.0.0/8"
        self.count = 1
        if self.has_cables:
            ip("link", "set", "lo", "up")
            ip("link", "add", "bridge", "type", "bridge")
            ip("address", "add", f"{self.address}/24", "dev", "bridge")
            ip("link", "set", "bridge", "up")

    def node(self):
        self.count += 1
        return Node(self, self.count)
