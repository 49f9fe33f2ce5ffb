"""Attacks on a live server, as one table: name, what is sent, what must hold.

Of every row holds: the process lives on, takes less than 256 MiB (release build), answers another client's requests
well all the while, and reports nothing through the sanitizers or as a secret in its log. The rows are in attacks_*.py,
each a list ATTACKS; to add one, write what it sends and what else must hold (target.py has the pieces).
"""

import importlib
from pathlib import Path

import pytest
from harness import Backend
from target import Target

ATTACKS = [attack for path in sorted(Path(__file__).parent.glob("attacks_*.py"))
           for attack in importlib.import_module(path.stem).ATTACKS]
assert len({attack.name for attack in ATTACKS}) == len(ATTACKS), "every row has a name of its own"


@pytest.mark.parametrize("attack, backend_name", [pytest.param(attack, name, id=f"{attack.name}-{name}")
                                                   for attack in ATTACKS for name in attack.backends])
def test_holds(attack, backend_name, tmp_path):
    backend = Backend(backend_name, tmp_path / "database")
    try:
        Target(attack, backend, tmp_path).run()
    finally:
        backend.drop()
