#!/usr/bin/python3
"""Keeps the plan of the house true: which room under src/ may include which.

    base <- json, net, store, resilience, tabular, files <- access, outbound, delivery <- webhooks <- features <- app

A feature knows the rooms below it and no other feature, but for webhooks, whose events others tell; only app knows
everybody. A private header of a folder (…_private.h) is that folder's alone. With --compile also checks that each header
compiles alone. Prints one line for each violation.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
from pathlib import Path

FOUNDATION = {"base": set(), "json": {"base"}, "resilience": {"base"}, "store": {"base"}, "net": {"base", "json"},
              "tabular": {"base", "json"}, "files": {"base", "net", "resilience"}}
SERVICES = ("access", "outbound", "delivery")
FEATURES = ("interface", "imports", "webhooks", "relay", "integrations", "alerts", "admin", "sandbox")

MAY_KNOW = dict(FOUNDATION)
MAY_KNOW.update({room: set(FOUNDATION) for room in SERVICES})
MAY_KNOW["delivery"].add("outbound")
MAY_KNOW.update({room: set(FOUNDATION) | set(SERVICES) for room in FEATURES})
for teller in ("interface", "imports"):
    MAY_KNOW[teller].add("webhooks")
MAY_KNOW["app"] = set(MAY_KNOW)

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)


def check_file(path, root):
    place = path.relative_to(root / "src").parts
    room, folder = place[0], place[1] if len(place) > 2 else None
    if room not in MAY_KNOW:
        return [f"{path.relative_to(root)}: the room {room} has no place in tools/check_includes.py"]
    problems = []
    text = path.read_text(encoding="utf-8")
    for found in INCLUDE.finditer(text):
        target, slash, inside = found[1].partition("/")
        other = inside.partition("/")[0] if inside.endswith("_private.h") and "/" in inside else None
        line = text.count("\n", 0, found.start(1)) + 1
        # Without a directory: made by the build, known to nobody in particular.
        if not slash or target in MAY_KNOW[room] or (target == room and other in (None, folder)):
            continue
        if target == room:
            reason = f"it is private to {room}/{other}"
        else:
            reason = f"{room} may not know {target}" if target in MAY_KNOW else f"there is no room {target}"
        problems.append(f'{path.relative_to(root)}:{line}: #include "{found[1]}": {reason}')
    return problems


def compiles_alone(header, root, flags):
    done = subprocess.run(["gcc", "-fsyntax-only", "-Werror", "-Wall", "-Wextra", "-x", "c", *flags, "-include", str(header), "/dev/null"],
                          cwd=root, capture_output=True, text=True, check=False)
    first = next((line for line in done.stderr.splitlines() if "error" in line), "does not compile")
    return [] if done.returncode == 0 else [f"{header.relative_to(root)}: not self-contained: {first}"]


def main():
    root = Path(__file__).resolve().parents[1]
    flags = sys.argv[sys.argv.index("--compile") + 1:] if "--compile" in sys.argv else None
    files = sorted(p for p in (root / "src").rglob("*") if p.suffix in (".c", ".h"))
    problems = [problem for path in files for problem in check_file(path, root)]
    if flags is not None:
        headers = [p for p in files if p.suffix == ".h"]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for found in pool.map(lambda h: compiles_alone(h, root, flags), headers):
                problems += found
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
