"""What tests need of their surroundings, and what a machine's user or a container may have otherwise."""

import os
import re
from pathlib import Path

ADMINISTRATORS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
SCRATCH_BYTES = 12 << 30  # what all suites take


def settle():
    """Programs speak English, because tests read what they print; and those for administrators, as pgbouncer, are found:
    a user of Debian has them outside of PATH."""
    os.environ.pop("LANGUAGE", None)
    os.environ["LC_ALL"] = "C.UTF-8"
    path = os.environ.get("PATH", os.defpath).split(":")
    os.environ["PATH"] = ":".join(path + [folder for folder in ADMINISTRATORS if folder not in path])


def room(folder):
    """In bytes, for files that tests make; 0 where programs and libraries among them could not run."""
    try:
        there = os.statvfs(folder)
    except OSError:
        return 0
    usable = os.access(folder, os.W_OK | os.X_OK) and not there.f_flag & os.ST_NOEXEC
    return there.f_bavail * there.f_frsize if usable else 0


def free_memory():
    found = re.search(r"^MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"), re.M)
    return int(found[1]) << 10


def scratch_place(memory="/dev/shm", disks=("/tmp", "/var/tmp")):
    """Where temporary files are best: in memory if they all fit, else on the first disk that has room for them, or has most.

    Tests make thousands of databases and remove them again, which on a disk takes a sixth of the processors' time. What
    is killed is a process, never the machine: nothing is lost."""
    if min(room(memory), free_memory()) >= SCRATCH_BYTES:
        return memory
    return max(disks, key=lambda disk: min(room(disk), SCRATCH_BYTES))
