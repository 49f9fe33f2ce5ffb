"""What `make deb image dist` makes, once for all tests, and a second time in another place."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from harness import ROOT

VERSION = re.search(r"^VERSION\s*:= (\S+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)[1]
ARCHITECTURE = subprocess.run(["dpkg", "--print-architecture"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
TEST_SECONDS = int(os.environ.get("DATAFLOW_TEST_SECONDS", "900"))  # one builds everything, another fetches a Debian


class Made:
    """The files of a build in a tree."""

    def __init__(self, tree):
        dist = Path(tree) / "build/dist"
        self.tree = Path(tree)
        self.deb = dist / f"dataflow_{VERSION}_{ARCHITECTURE}.deb"
        self.symbols = dist / f"dataflow-dbgsym_{VERSION}_{ARCHITECTURE}.deb"
        self.image = dist / f"dataflow-{VERSION}-{ARCHITECTURE}.oci.tar"
        self.sources = dist / f"dataflow-{VERSION}.tar.xz"


def make(tree, *targets, umask=0o022, **env):
    """As a person would, without what the run of the tests has set."""
    clean = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "BUILD", "TMPDIR")}
    done = subprocess.run(["nice", "make", "-s", *targets], cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, env=clean | env, umask=umask)
    assert done.returncode == 0, done.stdout[-4000:]


def tracked_files():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).exists()]


def copy_tree(target):
    """The files of the project as they are now, in the form of an unpacked release: without git, with the commit's time."""
    for name in tracked_files():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target / name)
    said = subprocess.run(["git", "log", "-1", "--format=%H %ct"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    (target / ".commit").write_text(said, encoding="ascii")


@pytest.fixture(scope="session")
def made():
    make(ROOT, "deb", "image")
    return Made(ROOT)


@pytest.fixture(scope="session")
def made_elsewhere(tmp_path_factory):
    """Another directory, with a longer name, and another user's settings."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs git: which files belong to the project")
    tree = tmp_path_factory.mktemp("a-directory-with-another-name") / "and-a-deeper-one"
    tree.mkdir()
    copy_tree(tree)
    # Without objects that a cache would take from the first build.
    make(tree, "deb", "image", umask=0o077, CCACHE_DISABLE="1", TZ="Pacific/Auckland", LC_ALL="C", HOME=str(tree), USER="somebody")
    return Made(tree)


@pytest.fixture(scope="session")
def mounts():
    """Name spaces for mounts, which root has, though not in every container."""
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "mount", "-t", "tmpfs", "none", "/mnt"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs to mount: {done.stdout.strip()}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """A test that hangs fails by itself, with a trace of where."""
    def expired(_signal, _frame):
        raise TimeoutError(f"{item.name} took more than {TEST_SECONDS} s")

    signal.signal(signal.SIGALRM, expired)
    signal.alarm(TEST_SECONDS)
    yield
    signal.alarm(0)
