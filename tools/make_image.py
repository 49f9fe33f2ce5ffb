#!/usr/bin/python3
"""Makes a container image (OCI) of the program that `make deb` has packaged: build/dist/dataflow-VERSION-ARCH.oci.tar.

    tools/make_image.py VERSION

The image has one layer: the program, the shared libraries that it needs, taken from the Debian packages of this machine,
the authorities of the package ca-certificates, time zones, and the driver for SQL Server. There is no shell and no
package manager. It runs as a user without rights on a read-only root and writes to /var/lib/dataflow only.

Where a file comes from stands under /var/lib/dpkg/status.d, which scanners for vulnerabilities read; its license under
/usr/share/doc. Nothing depends on the time, the user or the directory: the same packages give the same bytes.
"""

import gzip
import hashlib
import io
import json
import os
import re
import stat
import subprocess
import sys
import tarfile
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "build/deb/tree/debian/dataflow/usr/bin/dataflow"
USER = 10001  # as in deploy/compose and deploy/kubernetes
AUTHORITIES = Path("/usr/share/ca-certificates/mozilla")
ZONES = Path("/usr/share/zoneinfo")
# FreeTDS converts text by iconv, which loads these: what SQL Server speaks, and what older columns are in.
CONVERSIONS = ("UTF-16.so", "UTF-32.so", "ISO8859-1.so", "ISO8859-15.so", "CP1252.so")

PASSWD = f"root:x:0:0:root:/root:/usr/sbin/nologin\ndataflow:x:{USER}:{USER}:DataFlow:/var/lib/dataflow:/usr/sbin/nologin\n"
GROUP = f"root:x:0:\ndataflow:x:{USER}:\n"
NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\n"


def output(*args):
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}  # without LD_LIBRARY_PATH, LD_PRELOAD
    return subprocess.run([str(a) for a in args], stdout=subprocess.PIPE, text=True, check=True, env=env).stdout


class Layer:
    """Files by their path in the image. The layout is Debian's, with /lib and /lib64 as links into /usr."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.entries = {}
        self.sources = []  # files of this machine, each for one package at least

    def directory(self, path, mode=0o755, owner=0):
        if path.strip("/") and path not in self.entries:
            self.directory(os.path.dirname(path))
            self.entries[path] = (tarfile.DIRTYPE, mode, owner, b"")

    def text(self, path, content, mode=0o644):
        self.directory(os.path.dirname(path))
        self.entries[path] = (tarfile.REGTYPE, mode, 0, content if isinstance(content, bytes) else content.encode())

    def link(self, path, target):
        self.directory(os.path.dirname(path))
        self.entries[path] = (tarfile.SYMTYPE, 0o777, 0, target.encode())

    def copy(self, source):
        """A file of this machine, under its own path; a link becomes what it leads to."""
        source = Path(source)
        self.sources.append(source)
        mode = 0o755 if source.stat().st_mode & stat.S_IXUSR else 0o644
        self.text(under_usr(str(source)), source.read_bytes(), mode)

    def tar(self):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for path, (kind, mode, owner, content) in sorted(self.entries.items()):
                info = tarfile.TarInfo(path.lstrip("/"))
                info.type, info.mode, info.uid, info.gid, info.mtime = kind, mode, owner, owner, self.seconds
                if kind == tarfile.SYMTYPE:
                    info.linkname = content.decode()
                elif kind == tarfile.REGTYPE:
                    info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
        return out.getvalue()


def under_usr(path):
    """/lib/x/libc.so.6 → /usr/lib/x/libc.so.6: the same file, where /usr is merged."""
    return "/usr" + path if re.match(r"/lib(64)?/", path) else path


def packages_of(paths):
    """Debian's names of the packages that have the files: dpkg knows a file by its real name, or by one without /usr."""
    names = {path: {str(path), os.path.realpath(path), os.path.realpath(path).removeprefix("/usr")} for path in paths}
    asked = sorted(set().union(*names.values()))
    done = subprocess.run(["dpkg-query", "-S", *asked], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    owners = {name: package for package, name in re.findall(r"^([a-z0-9.+-]+)[^ ]*: (.*)$", done.stdout, re.M)}
    strangers = [str(path) for path in paths if not names[path] & owners.keys()]
    if strangers:
        raise SystemExit(f"make_image: no Debian package has {', '.join(strangers)}")
    return {owners[name] for path in paths for name in names[path] & owners.keys()}


def libraries(*files):
    """Paths of all shared libraries that the files need, the loader among them."""
    found = set()
    for file in files:
        listed = output("ldd", file)
        if "not found" in listed:
            raise SystemExit(f"make_image: {file} lacks a library:\n{listed}")
        found.update(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", listed, re.M))
    return sorted(found)


def multiarch_dir():
    return Path("/usr/lib") / output("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()


def add_sqlserver(layer, where):
    driver = where / "odbc/libtdsodbc.so"
    layer.copy(driver)
    layer.text("/etc/odbcinst.ini", f"[FreeTDS]\nDriver={driver}\n")
    layer.text("/etc/odbc.ini", "")
    conversions = where / "gconv"
    for name in CONVERSIONS:
        layer.copy(conversions / name)
    layer.copy(conversions / "gconv-modules")
    for extra in sorted((conversions / "gconv-modules.d").glob("*.conf")):
        layer.copy(extra)
    return [driver, *(conversions / name for name in CONVERSIONS)]


def add_authorities(layer):
    """Those of the package: a machine's own bundle may have others, which are not for whoever runs the image."""
    certificates = sorted(AUTHORITIES.glob("*.crt"))
    if not certificates:
        raise SystemExit("make_image: the package ca-certificates is not installed")
    layer.sources += certificates[:1]
    bundle = b"".join(path.read_bytes().rstrip(b"\n") + b"\n" for path in certificates)
    layer.text("/etc/ssl/certs/ca-certificates.crt", bundle)
    layer.link("/usr/lib/ssl/certs", "/etc/ssl/certs")
    layer.link("/usr/lib/ssl/cert.pem", "/etc/ssl/certs/ca-certificates.crt")


def add_zones(layer):
    """Without the copies of everything for clocks that count leap seconds."""
    for path in sorted(ZONES.rglob("*")):
        if path.relative_to(ZONES).parts[0] in ("posix", "right") or path.is_dir():
            continue
        if path.is_symlink() and not os.readlink(path).startswith("/"):
            layer.link(str(path), os.readlink(path))
        elif not path.is_symlink():
            layer.text(str(path), path.read_bytes())
    layer.sources.append(ZONES / "tzdata.zi")


def add_origins(layer):
    for package in sorted(packages_of(layer.sources)):
        fields = output("dpkg-query", "-W", "-f", "Package: ${Package}\nStatus: ${Status}\nArchitecture: ${Architecture}\n"
                        "Version: ${Version}\nSource: ${source:Package}\n", package)
        layer.text(f"/var/lib/dpkg/status.d/{package}", fields)
        layer.text(f"/usr/share/doc/{package}/copyright", Path(f"/usr/share/doc/{package}/copyright").read_bytes())


def make_layer(seconds):
    layer = Layer(seconds)
    for path in ("/dev", "/proc", "/sys", "/run"):
        layer.directory(path)
    layer.directory("/tmp", 0o1777)
    layer.directory("/var/lib/dataflow", 0o700, USER)
    for name in ("lib", "lib64", "bin"):
        layer.link(f"/{name}", f"usr/{name}")
    layer.text("/usr/bin/dataflow", PROGRAM.read_bytes(), 0o755)
    layer.text("/etc/dataflow/dataflow.ini", (ROOT / "deploy/image/dataflow.ini").read_bytes())
    layer.text("/usr/share/doc/dataflow/LICENSE", (ROOT / "LICENSE").read_bytes())
    for path, content in (("/etc/passwd", PASSWD), ("/etc/group", GROUP), ("/etc/nsswitch.conf", NSSWITCH)):
        layer.text(path, content)
    for library in libraries(PROGRAM, *add_sqlserver(layer, multiarch_dir())):
        layer.copy(library)
    add_authorities(layer)
    add_zones(layer)
    add_origins(layer)
    return layer


class Blobs:
    """The content of an OCI image layout, by digest."""

    def __init__(self):
        self.files = {}

    def add(self, kind, content, **more):
        content = content if isinstance(content, bytes) else json.dumps(content, indent=1, sort_keys=True).encode()
        digest = hashlib.sha256(content).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content), **more}

    def write(self, path, seconds):
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for directory in ("blobs", "blobs/sha256"):
                info = tarfile.TarInfo(directory)
                info.type, info.mode, info.mtime = tarfile.DIRTYPE, 0o755, seconds
                tar.addfile(info)
            for name, content in sorted(self.files.items()):
                info = tarfile.TarInfo(name)
                info.size, info.mode, info.mtime = len(content), 0o644, seconds
                tar.addfile(info, io.BytesIO(content))


def main():
    version = sys.argv[1]
    seconds = int(output(ROOT / "tools/commit", "time"))
    architecture = output("dpkg", "--print-architecture").strip()
    created = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {
        "org.opencontainers.image.title": "dataflow",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.revision": output(ROOT / "tools/commit", "id").strip(),
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    tar = make_layer(seconds).tar()
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0) as out:
        out.write(tar)
    blobs = Blobs()
    layer = blobs.add("layer.v1.tar+gzip", packed.getvalue())
    config = blobs.add("config.v1+json", {
        "created": created, "architecture": architecture, "os": "linux",
        "config": {"User": f"{USER}:{USER}", "Entrypoint": ["/usr/bin/dataflow"], "Cmd": ["serve"], "WorkingDir": "/var/lib/dataflow",
                   "Env": ["PATH=/usr/bin", "DATAFLOW_CONFIG=/etc/dataflow/dataflow.ini"], "ExposedPorts": {"8080/tcp": {}},
                   "Volumes": {"/var/lib/dataflow": {}}, "StopSignal": "SIGTERM", "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(tar).hexdigest()]},
        "history": [{"created": created, "created_by": "make image"}],
    })
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": [layer],
                "annotations": labels}
    described = blobs.add("manifest.v1+json", manifest, platform={"architecture": architecture, "os": "linux"},
                          annotations={"org.opencontainers.image.ref.name": version, "io.containerd.image.name": f"docker.io/library/dataflow:{version}"})
    blobs.files["oci-layout"] = b'{"imageLayoutVersion":"1.0.0"}'
    blobs.files["index.json"] = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
                                            "manifests": [described]}, indent=1, sort_keys=True).encode()
    path = ROOT / f"build/dist/dataflow-{version}-{architecture}.oci.tar"
    blobs.write(path, seconds)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes, {len(tar)} unpacked")


if __name__ == "__main__":
    main()
