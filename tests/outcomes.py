"""A plugin of pytest for run.py: writes what each test came to as soon as it has, so that a run that is killed tells it too.

    PYTHONPATH=tests pytest -p outcomes --outcomes=FILE ...

Lines of JSON: {"collected": [ids]} once, then {"id", "outcome", "why", "seconds", "computed"} for each test: on the wall clock
and by processors, where children count when they have been waited for. An id can be given to pytest again.
A test fails in its set-up, its body or its tear-down; a file that cannot be collected fails as `error`.
"""

import json
import resource


def pytest_addoption(parser):
    parser.addoption("--outcomes", metavar="FILE", help="lines of JSON, one for each test")


def pytest_configure(config):
    if path := config.getoption("--outcomes"):
        config.pluginmanager.register(Outcomes(config, path))


def computed():
    """Seconds of processors that this process, and the children that it has waited for, have used."""
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


class Outcomes:
    def __init__(self, config, path):
        self.config = config
        self.file = open(path, "w", encoding="utf-8")  # pylint: disable=consider-using-with
        self.outcome, self.why, self.seconds = "passed", "", 0.0
        self.computed = computed()

    def write(self, **line):
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()

    def id_of(self, node):
        return self.config.cwd_relative_nodeid(node)

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(id=self.id_of(report.nodeid), outcome="error", why=report.longreprtext, seconds=0, computed=0)

    def pytest_collection_finish(self, session):
        self.write(collected=[self.id_of(item.nodeid) for item in session.items])

    def pytest_runtest_logreport(self, report):
        self.seconds += report.duration
        if report.failed:
            self.outcome, self.why = "failed", report.longreprtext
        elif report.skipped and self.outcome == "passed":
            self.outcome, self.why = "skipped", str(report.longrepr[2]).removeprefix("Skipped: ")

    def pytest_runtest_logfinish(self, nodeid):
        before, self.computed = self.computed, computed()
        self.write(id=self.id_of(nodeid), outcome=self.outcome, why=self.why, seconds=self.seconds, computed=self.computed - before)
        self.outcome, self.why, self.seconds = "passed", "", 0.0

    def pytest_unconfigure(self):
        self.file.close()
