#!/usr/bin/python3
"""What the release before leaves behind, as text: SQL of its database, and JSON with its files and the facts.

    python3 tests/upgrade/snapshot.py     makes snapshots/ anew, by the program that RELEASE names
"""

import base64
import contextlib
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
sys.path[:0] = map(str, (HERE, TESTS, TESTS / "integration", *(TESTS / "integration").glob("*/")))

import pg  # noqa: E402
import release  # noqa: E402
from harness import Backend, Server  # noqa: E402
from peer import Peer  # noqa: E402
from scenario import configuration, fill  # noqa: E402

SNAPSHOTS = HERE / "snapshots"
BACKENDS = ("sqlite", "postgres")
PEER = "@PEER@"  # where it listens, wherever that is written


def dump(backend):
    if backend.name == "sqlite":
        with contextlib.closing(sqlite3.connect(backend.file)) as connection:
            return "\n".join(connection.iterdump()) + "\n"
    args = [f"{pg.bin_dir()}/pg_dump", "--inserts", "--no-owner", "--no-privileges", "--no-comments", backend.url]
    text = subprocess.run(args, capture_output=True, text=True, timeout=60, check=True).stdout
    # Not psql's own commands, and nothing that tells of this server's version.
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("\\", "--")))
    return re.sub(r"\n{2,}", "\n", text).lstrip() + "\n"


def files_of(server):
    """Uploads, and the marks by which others know that their owner is dead."""
    root = server.directory / "data"
    return {str(p.relative_to(root)): base64.b64encode(p.read_bytes()).decode() for p in sorted(root.rglob("*")) if p.is_file()}


def make(name, directory):
    backend, peer = Backend(name, directory / name, empty=True), Peer()
    server = Server(backend, directory / f"{name}-server", config=configuration(peer.address), binary=release.binary())
    try:
        facts = fill(server, peer)
        text = dump(backend).replace(peer.address, PEER)
        kept = {"release": release.COMMIT, "facts": facts, "files": files_of(server)}
    finally:
        server.kill()
        peer.close()
        backend.drop()
    SNAPSHOTS.mkdir(exist_ok=True)
    (SNAPSHOTS / f"{name}.sql").write_text(text, encoding="utf-8")
    (SNAPSHOTS / f"{name}.json").write_text(
        json.dumps(kept, ensure_ascii=False, separators=(",", ":")).replace(peer.address, PEER) + "\n", encoding="utf-8")


def kept(name, peer):
    return json.loads((SNAPSHOTS / f"{name}.json").read_text(encoding="utf-8").replace(PEER, peer.address))


def restore(backend, server, peer):
    """The database and the files as they were; the facts."""
    backend.script((SNAPSHOTS / f"{backend.name}.sql").read_text(encoding="utf-8").replace(PEER, peer.address))
    found = kept(backend.name, peer)
    for path, content in found["files"].items():
        file = server.directory / "data" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(content))
    return found["facts"]


def main():
    with tempfile.TemporaryDirectory() as scratch:
        for name in BACKENDS:
            make(name, Path(scratch))
            sizes = ", ".join(f"{p.name} {p.stat().st_size} bytes" for p in sorted(SNAPSHOTS.glob(f"{name}.*")))
            print(sizes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
