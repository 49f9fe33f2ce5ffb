#!/usr/bin/python3
"""The program of the release before: RELEASE names its commit. It is built once from the history, in
build/upgrade/<commit>, with the packages and the compiler of today.

    tests/upgrade/release.py     builds it and says where it is, or why it cannot be built
"""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMIT = (ROOT / "tests/upgrade/RELEASE").read_text(encoding="ascii").strip()
BUILD_SECONDS = 900


class NoHistory(Exception):
    """The commit is not there: a shallow clone, or sources without git."""


def git(*args, **kwargs):
    try:
        return subprocess.run(["git", "-C", ROOT, *args], capture_output=True, timeout=60, check=True, **kwargs).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoHistory(f"no git history with {COMMIT[:12]}, the release before") from error


def binary():
    """The program's path. A second caller waits for the first."""
    if given := os.environ.get("DATAFLOW_OLD_BIN"):
        return str(ROOT / given)
    git("cat-file", "-e", COMMIT + "^{commit}")
    tree = ROOT / "build" / "upgrade" / COMMIT
    tree.parent.mkdir(parents=True, exist_ok=True)
    with open(tree.parent / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = tree / "build" / "dataflow"
        if not made.exists():
            shutil.rmtree(tree, ignore_errors=True)
            build(tree)
        return str(made)


def build(tree):
    (tree / "build").mkdir(parents=True)
    subprocess.run(["tar", "x", "-C", tree], input=git("archive", COMMIT), timeout=60, check=True)
    (tree / "build" / ".deps-build").touch()  # what today's build needs is installed, and that has to do
    # Without what a calling make says of its own flags and variables.
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "BUILD")}
    done = subprocess.run(["make", "-C", tree, f"-j{os.cpu_count() or 1}"], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=BUILD_SECONDS, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{COMMIT[:12]} does not build:\n{done.stdout[-4000:]}")


def main():
    try:
        print(binary())
    except NoHistory as reason:
        print(f"not built: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
