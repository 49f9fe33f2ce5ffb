"""The Makefile installs packages when it builds, before anything else, and never when it is only asked something."""

import os
import subprocess

import pytest
from harness import ROOT

pytestmark = pytest.mark.tools
INSTALLERS = ("apt-get", "sudo", "npm")
RECORD = '#!/bin/sh\necho "$(basename "$0") $*" >> "{log}"\n'


def write_program(path, text):
    path.write_text(text, encoding="ascii")
    path.chmod(0o755)


class Tree:
    """The sources as after a clone. What would install packages only notes that it was called, as does the compiler."""

    def __init__(self, folder):
        self.folder = folder / "tree"
        self.programs = folder / "programs"
        self.log = folder / "called"
        for made in (self.folder, self.folder / "tools", self.programs):
            made.mkdir()
        for name in ("Makefile", "src", "console", "scripts", "lang", "tests", "bench"):
            (self.folder / name).symlink_to(ROOT / name)
        for tool in (ROOT / "tools").iterdir():
            if tool.name != "install-deps":
                (self.folder / "tools" / tool.name).symlink_to(tool)
        record = RECORD.format(log=self.log)
        for path in (self.folder / "tools/install-deps", *(self.programs / name for name in INSTALLERS)):
            write_program(path, record)
        # The object is the word after -o.
        write_program(self.programs / "compiler", record + 'while [ "$1" != -o ]; do shift; done\n: > "$2"\n')

    def make(self, *args):
        env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k not in ("MFLAGS", "BUILD", "CC")}
        env["PATH"] = f"{self.programs}:{env['PATH']}"
        return subprocess.run(["make", *args], cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False, timeout=120)

    def called(self):
        return self.log.read_text(encoding="ascii").splitlines() if self.log.exists() else []


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


QUESTIONS = [("-n",), ("-n", "check"), ("-n", "run"), ("-n", "lint"), ("-n", "fuzz"), ("-n", "bench"), ("-n", "deps"),
             ("-q",), ("-p", "-q"), ("-n", "-j4"), ("--dry-run", "BUILD=asan", "all", "unit"), ("help",), ("clean",)]


@pytest.mark.parametrize("args", QUESTIONS, ids=" ".join)
def test_asking_make_installs_nothing(tree, args):
    done = tree.make(*args)
    # -q says by 1 that something would have to be made.
    assert (done.returncode, tree.called()) == (1 if "-q" in args else 0, []), done.stdout
    assert not (tree.folder / "build").exists()


def test_a_dry_run_tells_the_installation_first(tree):
    lines = tree.make("-n", "run").stdout.splitlines()
    installs = lines.index("tools/install-deps build")
    assert not [line for line in lines[:installs] if "-MMD" in line or "embed_" in line]
    assert [line for line in lines[installs:] if "-MMD" in line]


def test_a_build_installs_once_and_before_it_compiles(tree):
    objects = [f"build/release/obj/src/base/{name}.o" for name in ("str", "buf", "arena")]
    done = tree.make("-j4", f"CC={tree.programs}/compiler", *objects)
    assert done.returncode == 0, done.stdout
    assert [line.split()[0] for line in tree.called()] == ["install-deps"] + ["compiler"] * len(objects)
    assert tree.called()[0] == "install-deps build"
    tree.log.unlink()
    assert tree.make("-j4", f"CC={tree.programs}/compiler", *objects).returncode == 0
    assert tree.called() == []


def test_a_failed_installation_ends_the_build(tree):
    write_program(tree.folder / "tools/install-deps", "#!/bin/sh\necho 'no such package' >&2\nexit 1\n")
    done = tree.make(f"CC={tree.programs}/compiler", "build/release/obj/src/base/str.o")
    assert done.returncode == 2 and "no such package" in done.stdout
    assert tree.called() == [] and not (tree.folder / "build/.deps-build").exists()


def test_clean_leaves_what_is_installed(tree):
    tree.make("build/.deps-build")
    tree.log.unlink()
    assert tree.make("clean").returncode == 0
    assert (tree.called(), (tree.folder / "build").exists()) == ([], False)
