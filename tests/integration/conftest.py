"""Fixtures, and options that choose tests; what they start is in harness.py."""

import os
import signal

import pytest
from harness import BACKENDS, Backend, Server, skip_if_missing

TEST_SECONDS = int(os.environ.get("DATAFLOW_TEST_SECONDS", "180"))


def pytest_addoption(parser):
    parser.addoption("--shard", choices=(*BACKENDS, "none"),
                     help="only the tests on one back end, or (none) only those without one")
    parser.addoption("--rows", choices=("few", "some", "all"), default="all",
                     help="few: of every table the first row, the middle and the last; some: every fourth as well")
    parser.addoption("--threads", action="store_true", help="only the files that are marked `threads`")
    parser.addoption("--no-threads", action="store_true", help="only the other ones")
    parser.addoption("--no-tools", action="store_true", help="without the tests that tell nothing more in this build than in another")
    parser.addoption("--part", default="1/1", metavar="N/OF", help="1/2: half of the files, with about half of the tests")


def pytest_make_parametrize_id(val, argname):
    """A workbook is no name: it has the time in it, and the test could not be run again by its name."""
    return argname if isinstance(val, bytes) and len(val) > 60 else None


def _backend_of(item):
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("backend_name", "none") if callspec else "none"


def _chosen_rows(items, rows):
    """Some rows of every table, because each row goes through the same threads, the same SQL and most of the same code.
    What depends on what is sent (memory, for one) is seen where all rows run."""
    tables = {}
    for item in items:
        tables.setdefault((item.module, item.originalname, _backend_of(item)), []).append(item)
    few = {id(table[place]) for table in tables.values() for place in (0, len(table) // 2, -1)}
    return few | {id(row) for table in tables.values() for row in table[::4]} if rows == "some" else few


def _in_part(items, part):
    """Whole files, because the tests of one share a server; the largest first, each to the part that has fewer tests."""
    number, count = map(int, part.split("/"))
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    parts = [[] for _ in range(count)]
    for _, tests in sorted(files.items(), key=lambda file: (-len(file[1]), file[0])):
        min(parts, key=len).extend(tests)
    return {id(item) for item in parts[number - 1]}


def pytest_collection_modifyitems(config, items):
    shard, rows = config.getoption("--shard"), config.getoption("--rows")
    kept = [item for item in items if not shard or _backend_of(item) == shard]
    if config.getoption("--no-tools"):
        kept = [item for item in kept if not item.get_closest_marker("tools")]
    for option, wanted in (("--threads", True), ("--no-threads", False)):
        if config.getoption(option):
            kept = [item for item in kept if bool(item.get_closest_marker("threads")) == wanted]
    if rows != "all":
        chosen = _chosen_rows(kept, rows)
        kept = [item for item in kept if id(item) in chosen]
    chosen = _in_part(kept, config.getoption("--part"))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in chosen])
    items[:] = [item for item in kept if id(item) in chosen]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """A test that hangs fails by itself, with a trace of where."""
    def expired(_signal, _frame):
        raise TimeoutError(f"{item.name} took more than {TEST_SECONDS} s")

    signal.signal(signal.SIGALRM, expired)
    signal.alarm(TEST_SECONDS)
    yield
    signal.alarm(0)


@pytest.fixture(scope="module", params=BACKENDS)
def backend_name(request):
    skip_if_missing(request.param)
    return request.param


def _backends(name, tmp_path_factory):
    made = []

    def make(**kwargs):
        backend = Backend(name, tmp_path_factory.mktemp(name), **kwargs)
        made.append(backend)
        return backend

    yield make
    for backend in made:
        backend.drop()


def _servers(make_backend, tmp_path_factory):
    made = []

    def make(backend=None, start=True, empty=False, **kwargs):
        server = Server(backend or make_backend(empty=empty), tmp_path_factory.mktemp("server"), **kwargs)
        made.append(server)
        return server.start() if start else server

    yield make
    problems = []
    for server in made:
        try:
            server.finish()
        except AssertionError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]


@pytest.fixture(scope="module")
def _module_backends(backend_name, tmp_path_factory):
    yield from _backends(backend_name, tmp_path_factory)


@pytest.fixture(scope="module")
def server(_module_backends, tmp_path_factory):
    """One running server for all tests of a module: they may not depend on what else is in it."""
    servers = _servers(_module_backends, tmp_path_factory)
    yield next(servers)()
    yield from servers


@pytest.fixture
def make_backend(backend_name, tmp_path_factory):
    yield from _backends(backend_name, tmp_path_factory)


@pytest.fixture
def make_server(make_backend, tmp_path_factory):
    """make_server(config={...}, args=[...]): a server of the test's own; its end is checked too. With empty=True its
    database has no schema yet."""
    yield from _servers(make_backend, tmp_path_factory)


@pytest.fixture
def make_sqlite_server(tmp_path_factory):
    """For what only the embedded database has."""
    backends = _backends("sqlite", tmp_path_factory)
    yield from _servers(next(backends), tmp_path_factory)
