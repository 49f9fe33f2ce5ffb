"""The container image: what is in it, and that it runs as it is meant to: unprivileged, on a read-only root."""

import contextlib
import hashlib
import http.client
import json
import os
import signal
import stat
import subprocess
import tarfile
import time

import pytest
from conftest import VERSION

import pg

USER = 10001
KEY = "admin-key-of-the-image-0815"


class Image:
    """An OCI layout, read as a runtime would: every blob by its digest."""

    def __init__(self, path):
        with tarfile.open(path) as tar:
            self.files = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
        self.index = json.loads(self.files["index.json"])
        self.manifest = json.loads(self.blob(self.index["manifests"][0]))
        self.config = json.loads(self.blob(self.manifest["config"]))

    def blob(self, descriptor):
        content = self.files["blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")]
        assert "sha256:" + hashlib.sha256(content).hexdigest() == descriptor["digest"] and len(content) == descriptor["size"]
        return content


@pytest.fixture(scope="module")
def image(made):
    return Image(made.image)


@pytest.fixture(scope="module")
def unpacked(image, tmp_path_factory):
    folder = tmp_path_factory.mktemp("image")
    packed = folder / "layer.tar.gz"
    packed.write_bytes(image.blob(image.manifest["layers"][0]))
    with tarfile.open(packed) as tar:
        tar.extractall(folder / "root", numeric_owner=True)
    packed.unlink()
    return folder / "root"


def test_the_layout_is_whole(image):
    assert json.loads(image.files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    assert len(image.index["manifests"]) == len(image.manifest["layers"]) == len(image.config["rootfs"]["diff_ids"]) == 1
    packed = image.blob(image.manifest["layers"][0])
    unpacked = subprocess.run(["gzip", "-dc"], input=packed, stdout=subprocess.PIPE, check=True).stdout
    assert "sha256:" + hashlib.sha256(unpacked).hexdigest() == image.config["rootfs"]["diff_ids"][0]
    assert {name for name in image.files if name.startswith("blobs/")} == {
        "blobs/sha256/" + d["digest"][7:] for d in (image.index["manifests"][0], image.manifest["config"], *image.manifest["layers"])}


def test_what_it_says_of_itself(image):
    config = image.config["config"]
    assert config["User"] == f"{USER}:{USER}" and config["Entrypoint"] == ["/usr/bin/dataflow"] and config["Cmd"] == ["serve"]
    assert config["Labels"]["org.opencontainers.image.version"] == VERSION
    assert config["Volumes"] == {"/var/lib/dataflow": {}} and config["StopSignal"] == "SIGTERM"


def test_one_program_and_no_way_to_another_user(unpacked):
    programs = [str(path.relative_to(unpacked)) for path in unpacked.rglob("*")
                if path.is_file() and not path.is_symlink() and os.access(path, os.X_OK) and not path.match("*.so*")]
    assert programs == ["usr/bin/dataflow"]
    for path in unpacked.rglob("*"):
        mode = path.lstat().st_mode
        assert not mode & (stat.S_ISUID | stat.S_ISGID), path
        if not stat.S_ISLNK(mode) and path.name != "tmp":
            assert not mode & stat.S_IWOTH, path
        if path != unpacked / "var/lib/dataflow":
            assert path.lstat().st_uid in (0, os.geteuid()), path


def test_every_package_in_it_is_named_and_licensed(unpacked):
    named = {path.name for path in (unpacked / "var/lib/dpkg/status.d").iterdir()}
    assert {"libc6", "libcurl4", "libpq5", "libssl3", "ca-certificates", "tzdata", "tdsodbc"} <= named
    assert all((unpacked / f"usr/share/doc/{name}/copyright").stat().st_size for name in named)


class Container:
    """The image as its configuration says, with the root read-only and a volume, as a runtime would run it."""

    def __init__(self, root, config, data):
        self.port = pg.free_port()
        self.config = config["config"]
        self.data = data
        mounts = (f"mount --bind {root} {root} && mount --bind {data} {root}/var/lib/dataflow && mount -o remount,bind,ro {root}"
                  f" && mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev")
        self.enter = ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{mounts} && exec "$@"', "sh", "setpriv", "--no-new-privs",
                      "/usr/sbin/chroot", f"--userspec={self.config['User']}", f"--groups={USER}", str(root)]
        self.env = dict(variable.split("=", 1) for variable in self.config["Env"])

    def run(self, *args):
        return subprocess.run([*self.enter, *self.config["Entrypoint"], *args], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False, timeout=60)

    @contextlib.contextmanager
    def serving(self):
        command = [*self.enter, *self.config["Entrypoint"], *self.config["Cmd"]]
        env = self.env | {"DATAFLOW_SERVER_LISTEN": f"127.0.0.1:{self.port}", "DATAFLOW_ADMIN_KEY": KEY}
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            deadline = time.monotonic() + 60
            while not self.ready():
                assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0]
                time.sleep(0.05)
            yield process
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=60)
            assert process.returncode == 0, said
        finally:
            process.kill()
            process.wait()

    def ready(self):
        with contextlib.suppress(OSError):
            return self.call("GET", "/readyz")[0] == 200
        return False

    def call(self, method, path, body=None):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, path, json.dumps(body) if body else None, {"X-Admin-Key": KEY, "Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())


@pytest.fixture
def container(mounts, image, unpacked, tmp_path):
    data = tmp_path / "volume"
    data.mkdir(0o700)
    os.chown(data, USER, USER)
    return Container(unpacked, image.config, data)


def test_it_runs_without_rights_on_a_read_only_root(container, unpacked):
    with container.serving() as process:
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            said = dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)
        assert said["Uid"].split() == [str(USER)] * 4 and said["Gid"].split() == [str(USER)] * 4
        assert int(said["CapEff"], 16) == 0 and said["NoNewPrivs"] == "1"
        with open(f"/proc/{process.pid}/mountinfo", encoding="utf-8") as mounts:
            root = next(line.split() for line in mounts if line.split()[4] == "/")
        assert "ro" in root[5].split(",")
        assert container.call("POST", "/admin/clients", {"name": "Store", "clientId": "store"})[0] == 201
    with container.serving():
        assert container.call("GET", "/admin/clients/store")[0] == 200
    assert (container.data / "dataflow.db").exists() and not list((unpacked / "var/lib/dataflow").iterdir())


def test_the_driver_for_sql_server_is_in_it(container):
    """It is loaded when a database is named: without it the error would be another."""
    done = container.run("migrate", "--set", f"database.url=sqlserver://sa:secret@127.0.0.1:{container.port}/x")
    assert done.returncode == 1 and "Can't open lib" not in done.stdout, done.stdout
    assert "127.0.0.1" in done.stdout or "connect" in done.stdout.lower(), done.stdout


def test_it_has_time_zones_and_authorities(unpacked):
    assert (unpacked / "usr/share/zoneinfo/America/Sao_Paulo").exists()
    assert (unpacked / "etc/ssl/certs/ca-certificates.crt").read_bytes().count(b"BEGIN CERTIFICATE") > 100


def test_it_has_no_shell(container):
    shell = [*container.enter, "/bin/sh", "-c", "true"]
    done = subprocess.run(shell, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60)
    assert done.returncode == 127
