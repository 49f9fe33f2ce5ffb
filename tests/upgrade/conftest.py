"""A watch over tests that hang."""

import os
import signal

import pytest

TEST_SECONDS = int(os.environ.get("DATAFLOW_TEST_SECONDS", "180")) + int(os.environ.get("DATAFLOW_UPGRADE_SECONDS", "0"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """A test that hangs fails by itself, with a trace of where."""
    def expired(_signal, _frame):
        raise TimeoutError(f"{item.name} took more than {TEST_SECONDS} s")

    signal.signal(signal.SIGALRM, expired)
    signal.alarm(TEST_SECONDS)
    yield
    signal.alarm(0)
