"""The same sources give the same bytes, wherever and by whomever they are built."""

import hashlib
import subprocess
import tarfile

import pytest
from conftest import VERSION, Made, make, tracked_files
from harness import ROOT

needs_git = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs git")


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("which", ["deb", "symbols", "image"])
def test_two_builds_give_the_same_bytes(made, made_elsewhere, which):
    assert digest(getattr(made, which)) == digest(getattr(made_elsewhere, which))


@pytest.mark.parametrize("which", ["deb", "symbols"])
def test_no_path_of_the_machine_is_in_a_package(made, which, tmp_path):
    subprocess.run(["dpkg-deb", "-R", getattr(made, which), tmp_path], check=True)
    # What debuggers read is compressed.
    for debug in tmp_path.rglob("*.debug"):
        subprocess.run(["objcopy", "--decompress-debug-sections", debug], check=True)
    found = subprocess.run(["grep", "-rlF", str(ROOT), tmp_path], stdout=subprocess.PIPE, text=True, check=False)
    assert found.stdout == ""


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """`make dist` in two clones, as two people would."""
    made = []
    for name in ("one", "another-one"):
        tree = tmp_path_factory.mktemp(name) / "clone"
        subprocess.run(["git", "clone", "-q", "--shared", ROOT, tree], check=True)
        make(tree, "dist", TZ="Asia/Kolkata" if made else "UTC", umask=0o077 if made else 0o022)
        made.append(Made(tree))
    return made


@needs_git
def test_two_release_tars_are_the_same_bytes(release):
    assert digest(release[0].sources) == digest(release[1].sources)


@needs_git
def test_a_release_tar_has_what_git_has_and_says_which_commit_it_is(release, tmp_path):
    clone = release[0].tree
    with tarfile.open(release[0].sources) as tar:
        assert {member.name.split("/")[0] for member in tar} == {f"dataflow-{VERSION}"}
        tar.extractall(tmp_path)
    unpacked = tmp_path / f"dataflow-{VERSION}"
    head = subprocess.run(["git", "log", "-1", "--format=%H %ct"], cwd=clone, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert (unpacked / ".commit").read_text(encoding="ascii") == head
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=clone, stdout=subprocess.PIPE, text=True, check=True).stdout
    names = {name for name in listed.split("\0") if name}
    assert {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if not path.is_dir()} == names
    assert all((unpacked / name).read_bytes() == (clone / name).read_bytes() for name in names - {".commit"})
    commit = [subprocess.run([unpacked / "tools/commit", what], stdout=subprocess.PIPE, text=True, check=True).stdout for what in ("id", "time")]
    assert f"{commit[0].strip()} {commit[1]}" == head


@needs_git
def test_nothing_that_is_built_is_tracked():
    assert not [name for name in tracked_files() if name.startswith(("build/", "var/"))]


def test_without_git_and_a_release_tar_the_time_must_be_given(tmp_path):
    """Rather than packages with the time of the build, which nobody could make again."""
    (tmp_path / "tools").mkdir()
    for name in ("tools/commit", ".commit"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / ".commit").write_text("$Format:%H %ct$\n", encoding="ascii")
    done = subprocess.run(["sh", tmp_path / "tools/commit", "time"], capture_output=True, text=True, check=False,
                          env={"PATH": "/usr/bin:/bin", "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)})
    assert done.returncode == 1 and "SOURCE_DATE_EPOCH" in done.stderr
