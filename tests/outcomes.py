"""A plugin of pytest for run.py: writes what each test came to as soon as it has, so that a run that is killed tells it too.

    PYTHONPATH=tests pytest -p outcomes --outcomes=FILE ...

Lines of JSON: {"collected": [ids]} once, then {"id", "outcome", "why", "seconds"} for each test. An id can be given to pytest again.
A test fails in its set-up, its body or its tear-down; a file that cannot be collected fails as `error`.
"""

import json


def pytest_addoption(parser):
    parser.addoption("--outcomes", metavar="FILE", help="lines of JSON, one for each test")


def pytest_configure(config):
    if path := config.getoption("--outcomes"):
        config.pluginmanager.register(Outcomes(config, path))


class Outcomes:
    def __init__(self, config, path):
        self.config = config
        self.file = open(path, "w", encoding="utf-8")  # pylint: disable=consider-using-with
        self.outcome, self.why, self.seconds = "passed", "", 0.0

    def write(self, **line):
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()

    def id_of(self, node):
        return self.config.cwd_relative_nodeid(node)

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(id=self.id_of(report.nodeid), outcome="error", why=report.longreprtext, seconds=0)

    def pytest_collection_finish(self, session):
        self.write(collected=[self.id_of(item.nodeid) for item in session.items])

    def pytest_runtest_logreport(self, report):
        self.seconds += report.duration
        if report.failed:
            self.outcome, self.why = "failed", report.longreprtext
        elif report.skipped and self.outcome == "passed":
            self.outcome, self.why = "skipped", str(report.longrepr[2]).removeprefix("Skipped: ")

    def pytest_runtest_logfinish(self, nodeid):
        self.write(id=self.id_of(nodeid), outcome=self.outcome, why=self.why, seconds=self.seconds)
        self.outcome, self.why, self.seconds = "passed", "", 0.0

    def pytest_unconfigure(self):
        self.file.close()
