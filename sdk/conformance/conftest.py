"""The fixtures and options of the black-box tests."""

import importlib.util
from pathlib import Path

_spec = importlib.util.spec_from_file_location("black_box", Path(__file__).parents[2] / "tests/integration/conftest.py")
_black_box = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_black_box)
globals().update({name: value for name, value in vars(_black_box).items() if not name.startswith("__")})
