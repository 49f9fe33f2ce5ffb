"""The attacks use the black-box tests' way to start servers and databases, and its watch over a test that hangs."""

import importlib.util
from pathlib import Path

INTEGRATION = Path(__file__).resolve().parents[1] / "integration"

_spec = importlib.util.spec_from_file_location("integration_conftest", INTEGRATION / "conftest.py")
_shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shared)

pytest_addoption = _shared.pytest_addoption
pytest_collection_modifyitems = _shared.pytest_collection_modifyitems
pytest_runtest_protocol = _shared.pytest_runtest_protocol
