#!/usr/bin/python3
"""Keeps the plan of the house true: which room under src/ may include which.

    base <- json, net, store, resilience, tabular, files <- access, outbound, delivery <- webhooks <- features <- app

A feature knows the rooms below it and no other feature, but for webhooks, whose events others tell; only app knows
everybody. A file in a folder of a room knows the room's own files and those of its folder; of other folders what FOLDERS
says, and never their private headers (…_private.h). To name a struct of another room is to know that room, whether or not
its header is included. With --compile also checks that each header compiles alone. Prints one line for each violation.
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

# Which folder of a room knows which other.
FOLDERS = {
    # What a client has used of its limits is counted by receiving's queries; a cancelled batch's file goes with its help.
    ("imports", "api"): {"receive"},
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
DEFINED = re.compile(r"^struct (\w+) \{", re.M)
DECLARED = re.compile(r"^struct (\w+);", re.M)
NAMED = re.compile(r"\bstruct (\w+)")
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)


def place_of(path, root):
    """The room, and the folder in it or None."""
    parts = path.relative_to(root / "src").parts
    return parts[0], parts[1] if len(parts) > 2 else None


def owners_of_structs(files, root):
    """Where each struct belongs: where it is defined, or higher up in the room where a header declares it for others. One
    that only a .c file knows belongs to nobody, unless it has the program's prefix."""
    owners, declared = {}, set()
    for path in files:
        text = path.read_text(encoding="utf-8")
        room, folder = place_of(path, root)
        for found in DEFINED.finditer(text):
            if path.suffix == ".h" or found[1].startswith("df_"):
                owners.setdefault(found[1], (room, folder))
        if path.suffix == ".h" and folder is None:
            declared.update((found[1], room) for found in DECLARED.finditer(text))
    return {name: (room, None if (name, room) in declared else folder) for name, (room, folder) in owners.items()}


def refusal(place, target):
    """Why a file of `place` may not know what belongs to `target`; None: it may."""
    (room, folder), (other_room, other_folder) = place, target
    if other_room not in MAY_KNOW:
        return f"there is no room {other_room}"
    if other_room != room:
        return None if other_room in MAY_KNOW[room] else f"{room} may not know {other_room}"
    if other_folder in (None, folder) or other_folder in FOLDERS.get(place, ()):
        return None
    return f"{room}/{folder or ''} may not know {room}/{other_folder}"


def check_includes(text, place):
    for found in INCLUDE.finditer(text):
        parts = found[1].split("/")
        if len(parts) == 1:  # made by the build, known to nobody in particular
            continue
        target = parts[0], parts[1] if len(parts) > 2 else None
        reason = refusal(place, target)
        if not reason and target[1] and parts[-1].endswith("_private.h") and target != place:
            reason = f"it is private to {'/'.join(target)}"
        if reason:
            yield found.start(1), f'#include "{found[1]}"', reason


def check_structs(text, place, owners):
    # Lines stay where they are.
    plain = COMMENT_OR_TEXT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    own = set(DEFINED.findall(plain))
    for found in NAMED.finditer(plain):
        reason = refusal(place, owners[found[1]]) if found[1] in owners and found[1] not in own else None
        if reason:
            yield found.start(), f"struct {found[1]}", reason


def check_file(path, root, owners):
    place = place_of(path, root)
    name = path.relative_to(root)
    if place[0] not in MAY_KNOW:
        return [f"{name}: the room {place[0]} has no place in tools/check_includes.py"]
    text = path.read_text(encoding="utf-8")
    problems = sorted([*check_includes(text, place), *check_structs(text, place, owners)])
    return [f"{name}:{text.count(chr(10), 0, at) + 1}: {what}: {reason}" for at, what, reason in problems]


def compiles_alone(header, root, flags):
    done = subprocess.run(["gcc", "-fsyntax-only", "-Werror", "-Wall", "-Wextra", "-x", "c", *flags, "-include", str(header), "/dev/null"],
                          cwd=root, capture_output=True, text=True, check=False)
    first = next((line for line in done.stderr.splitlines() if "error" in line), "does not compile")
    return [] if done.returncode == 0 else [f"{header.relative_to(root)}: not self-contained: {first}"]


def main():
    root = Path(__file__).resolve().parents[1]
    flags = sys.argv[sys.argv.index("--compile") + 1:] if "--compile" in sys.argv else None
    files = sorted(p for p in (root / "src").rglob("*") if p.suffix in (".c", ".h"))
    owners = owners_of_structs(files, root)
    problems = [problem for path in files for problem in check_file(path, root, owners)]
    if flags is not None:
        headers = [p for p in files if p.suffix == ".h"]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for found in pool.map(lambda h: compiles_alone(h, root, flags), headers):
                problems += found
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
