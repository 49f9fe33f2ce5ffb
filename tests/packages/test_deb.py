"""The Debian packages: what is in them, and a life with them on a fresh Debian."""

import contextlib
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import VERSION
from harness import ROOT

import pg

SUITE = "bookworm"
MIRROR = os.environ.get("DATAFLOW_TEST_DEBIAN_MIRROR", "http://deb.debian.org/debian")
UNIT = "lib/systemd/system/dataflow.service"
TICKET = {"businessEntity": "TCK", "businessDocId": "T_0042", "phaseCode": 15, "companyCode": "01", "branchCode": "0050",
          "destinationCode": "SANTOS", "shipmentEvent": "RCD", "targetApplicationCode": "ASB"}


def output(*args, **kwargs):
    done = subprocess.run([str(a) for a in args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **kwargs)
    assert done.returncode == 0, done.stdout
    return done.stdout


def field(deb, name):
    return output("dpkg-deb", "-f", deb, name).strip()


@pytest.fixture(scope="module")
def content(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("content")
    output("dpkg-deb", "-x", made.deb, folder)
    return folder


# --- the packages ------------------------------------------------------------------------------------


def test_lintian_finds_nothing(made):
    said = output("lintian", "--allow-root", "--display-info", "--pedantic", "--fail-on", "error,warning,info,pedantic",
                  made.tree / f"build/deb/{made.deb.stem}.changes")
    assert said == ""


def test_the_version_is_that_of_the_program(made, content):
    assert field(made.deb, "Version") == VERSION
    assert output(content / "usr/bin/dataflow", "version").split()[1] == VERSION


def test_what_it_installs(content):
    for name in ("usr/bin/dataflow", UNIT, "usr/lib/sysusers.d/dataflow.conf", "usr/share/man/man1/dataflow.1.gz", "etc/dataflow/dataflow.ini",
                 "usr/share/bash-completion/completions/dataflow", "usr/share/zsh/vendor-completions/_dataflow",
                 "usr/share/fish/vendor_completions.d/dataflow.fish", "usr/share/doc/dataflow/copyright",
                 "usr/share/doc/dataflow/configuration.md.gz", "usr/share/doc/dataflow/changelog.gz"):
        assert (content / name).is_file(), name
    outside = {str(path.relative_to(content)).split("/")[0] for path in content.rglob("*") if path.is_file()}
    assert outside == {"etc", "lib", "usr"}


def test_the_unit_is_closed(content, tmp_path):
    assert "ExecStart=/usr/bin/dataflow serve" in (content / UNIT).read_text(encoding="utf-8")
    output("systemd-analyze", "security", "--offline=true", "--threshold=19", "--no-pager", content / UNIT)
    local = tmp_path / "dataflow.service"
    local.write_text((content / UNIT).read_text(encoding="utf-8").replace("/usr/bin/", f"{content}/usr/bin/"), encoding="utf-8")
    said = output("systemd-analyze", "verify", "--man=no", local)
    assert "Unknown key" not in said and "Failed to parse" not in said


def test_debug_symbols_are_in_their_own_package_and_fit(made, content, tmp_path):
    program = content / "usr/bin/dataflow"
    assert ".debug_info" not in output("readelf", "-SW", program)
    build = re.search(r"Build ID: ([0-9a-f]+)", output("readelf", "-n", program))[1]
    output("dpkg-deb", "-x", made.symbols, tmp_path)
    debug = tmp_path / f"usr/lib/debug/.build-id/{build[:2]}/{build[2:]}.debug"
    address = re.search(r"^([0-9a-f]+) T main$", output("nm", debug), re.M)[1]
    assert "src/app/main.c:" in output("addr2line", "-e", debug, address)
    assert field(made.symbols, "Depends") == f"dataflow (= {VERSION})"


def test_it_asks_for_the_packages_that_install_deps_installs():
    script = (ROOT / "tools/install-deps").read_text(encoding="utf-8")
    build = set(re.search(r'^build="(.*?)"', script, re.M | re.S)[1].split())
    control = (ROOT / "deploy/debian/control").read_text(encoding="utf-8")
    asked = set(re.findall(r"^ ([a-z0-9.+-]+)", re.search(r"^Build-Depends:\n((?: .*\n)+)", control, re.M)[1], re.M))
    # Every machine that builds Debian packages has a compiler and make.
    assert asked - {"debhelper-compat"} == build - {"gcc", "make", "libc6-dev"}


# --- a life with it ----------------------------------------------------------------------------------


class System:
    """A Debian in a folder. A command in it has a name space of its own for mounts, so that none is left behind."""

    def __init__(self, root):
        self.root = root
        self.process = None
        self.port = pg.free_port()

    def path(self, name):
        return self.root / name.lstrip("/")

    def inside(self, *args, user="root"):
        mounts = f"mount -t proc proc {self.root}/proc && mount --rbind /dev {self.root}/dev"
        chroot = ["chroot", f"--userspec={user}", str(self.root), "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                  "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"]
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{mounts} && exec "$@"', "sh", *chroot, *map(str, args)]

    def run(self, *args, **kwargs):
        return output(*self.inside(*args, **kwargs))

    def dpkg(self, *args):
        deb = [shutil.copy(arg, self.root / "tmp") and f"/tmp/{Path(arg).name}" if str(arg).endswith(".deb") else arg for arg in args]
        return self.run("dpkg", *deb)

    def owner_and_mode(self, name):
        return self.run("stat", "-c", "%U:%G %a", name).strip()

    def start(self):
        """What systemd does for the unit as far as a chroot can: its user, variables, credential and command."""
        unit = re.findall(r"^(\w+)=(.*)$", self.path(UNIT).read_text(encoding="utf-8"), re.M)
        given = dict(unit)
        name, source = given["LoadCredential"].split(":")
        self.run("install", "-d", "-o", given["User"], "-m", "0500", "/run/credentials/dataflow.service")
        self.run("install", "-o", given["User"], "-m", "0400", source, f"/run/credentials/dataflow.service/{name}")
        variables = [value for key, value in unit if key == "Environment"]
        self.process = subprocess.Popen(
            self.inside("env", *variables, "CREDENTIALS_DIRECTORY=/run/credentials/dataflow.service",
                        f"DATAFLOW_SERVER_LISTEN=127.0.0.1:{self.port}", *given["ExecStart"].split(), user=f"{given['User']}:{given['Group']}"),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, umask=int(given["UMask"], 8))
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                if self.call("GET", "/readyz")[0] == 200:
                    return
            assert self.process.poll() is None and time.monotonic() < deadline, self.ended()
            time.sleep(0.05)

    def ended(self):
        self.process.send_signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=60)
        return f"exit status {self.process.returncode}: {said}"

    def stop(self):
        assert self.ended().startswith("exit status 0:")

    def call(self, method, path, body=None, **headers):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            headers = {name.replace("_", "-"): value for name, value in headers.items()} | {"Content-Type": "application/json"}
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or "null")


def base_system(needed):
    """A minimal Debian with the packages that ours depends on: made once, kept in build/."""
    names = sorted({one.split()[0] for one in needed.split(",")})
    key = hashlib.sha256(f"{SUITE} {MIRROR} {names}".encode()).hexdigest()[:12]
    base = ROOT / f"build/debian/{SUITE}-{key}"
    if not base.exists():
        fresh = base.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.parent.mkdir(parents=True, exist_ok=True)
        output("debootstrap", "--variant=minbase", f"--include={','.join(names)}", SUITE, fresh, MIRROR,
               env={k: v for k, v in os.environ.items() if k != "TMPDIR"})
        shutil.rmtree(fresh / "var/cache/apt/archives", ignore_errors=True)
        fresh.rename(base)
    return base


def repacked(deb, version, folder):
    """The same package under another version: for dpkg it is an older or a newer one."""
    tree = folder / version
    output("dpkg-deb", "-R", deb, tree)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"^Version: .*$", f"Version: {version}", control.read_text(encoding="utf-8"), flags=re.M), encoding="utf-8")
    output("dpkg-deb", "--root-owner-group", "-Zgzip", "-b", tree, folder / f"dataflow_{version}.deb")
    return folder / f"dataflow_{version}.deb"


@pytest.fixture(scope="module")
def system(mounts, made, tmp_path_factory):
    root = tmp_path_factory.mktemp("system") / "root"
    output("cp", "-a", base_system(field(made.deb, "Depends")), root)
    system = System(root)
    yield system
    if system.process and system.process.poll() is None:
        system.process.kill()
        system.process.wait()
    shutil.rmtree(root)


def test_install_run_upgrade_remove_purge(system, made, tmp_path):
    # Installed: a user, a place for configuration that others cannot read, keys, and a service that starts at boot.
    system.dpkg("-i", repacked(made.deb, "0.0.9", tmp_path))
    assert system.owner_and_mode("/etc/dataflow") == "root:dataflow 750"
    assert system.owner_and_mode("/etc/dataflow/dataflow.ini") == "root:dataflow 640"
    assert system.owner_and_mode("/etc/dataflow/master.key") == "root:root 600"
    assert system.owner_and_mode("/etc/dataflow/admin.key") == "root:dataflow 640"
    assert system.owner_and_mode("/var/lib/dataflow") == "dataflow:dataflow 700"
    assert re.search(r"^dataflow:x:\d+:\d+:.*:/var/lib/dataflow:/usr/sbin/nologin$", system.path("/etc/passwd").read_text(), re.M)
    assert system.path("/etc/systemd/system/multi-user.target.wants/dataflow.service").is_symlink()
    keys = {name: system.path(f"/etc/dataflow/{name}.key").read_text(encoding="ascii") for name in ("master", "admin")}
    assert all(re.fullmatch("[0-9a-f]{64}", key) for key in keys.values()) and keys["master"] != keys["admin"]

    # It runs as that user, with the configuration that came with it.
    system.start()
    status, client = system.call("POST", "/admin/clients", {"name": "Store"}, X_Admin_Key=keys["admin"])
    assert status == 201
    credentials = {"X_Client_Id": client["clientId"], "X_Client_Secret": client["clientSecret"]}
    assert system.call("POST", "/api/tickets", TICKET, **credentials)[0] == 200
    system.stop()

    # Upgraded: what the administrator wrote, the keys and the documents are as before.
    ini = system.path("/etc/dataflow/dataflow.ini")
    ini.write_text(ini.read_text(encoding="utf-8") + "\n[delivery]\nmax_attempts = 7\n", encoding="utf-8")
    system.path("/etc/dataflow/admin.key").chmod(0o600)
    system.run("chown", "dataflow", "/etc/dataflow/admin.key")
    system.dpkg("-i", made.deb)
    assert "max_attempts = 7" in ini.read_text(encoding="utf-8")
    assert system.owner_and_mode("/etc/dataflow/admin.key") == "dataflow:dataflow 600"
    check_kept(system, keys, credentials)

    # Removed: the program is gone, and nothing else. Installed again, it goes on.
    system.dpkg("-r", "dataflow")
    assert not system.path("/usr/bin/dataflow").exists() and not system.path(UNIT).exists()
    assert system.path("/var/lib/dataflow/dataflow.db").exists()
    assert "max_attempts = 7" in ini.read_text(encoding="utf-8")
    system.dpkg("-i", repacked(made.deb, f"{VERSION}+1", tmp_path))
    check_kept(system, keys, credentials)

    # Purged: documents, keys and configuration are gone. The user stays.
    system.dpkg("-P", "dataflow")
    for name in ("/etc/dataflow", "/var/lib/dataflow", "/etc/systemd/system/multi-user.target.wants/dataflow.service"):
        assert not os.path.lexists(system.path(name)), name
    assert "dataflow:x:" in system.path("/etc/passwd").read_text(encoding="utf-8")

    # A new beginning.
    system.dpkg("-i", made.deb)
    assert system.path("/etc/dataflow/master.key").read_text(encoding="ascii") != keys["master"]
    system.start()
    assert system.call("GET", "/whoami", **credentials)[0] == 401
    system.stop()
    system.dpkg("-P", "dataflow")


def check_kept(system, keys, credentials):
    for name, key in keys.items():
        assert system.path(f"/etc/dataflow/{name}.key").read_text(encoding="ascii") == key
    system.start()
    status, found = system.call("GET", "/api/tickets?businessEntity=TCK&businessDocId=T_0042", **credentials)
    assert status == 200 and "T_0042" in json.dumps(found)
    assert system.call("GET", "/healthz")[1]["version"] == VERSION
    system.stop()


def test_purge_leaves_what_is_not_the_packages(system, made):
    system.dpkg("-i", made.deb)
    certificate = system.path("/etc/dataflow/server.pem")
    certificate.write_text("of the administrator", encoding="ascii")
    system.dpkg("-P", "dataflow")
    assert certificate.exists() and not system.path("/etc/dataflow/master.key").exists()
    shutil.rmtree(certificate.parent)
