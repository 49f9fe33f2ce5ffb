"""deploy/prometheus by `promtool`, and docs/alerts.md against the program."""

import re
import subprocess

import pytest
from harness import ROOT, run

RULES, RECORDS, TESTS = (ROOT / "deploy" / "prometheus" / name for name in ("alerts.yml", "records.yml", "tests.yml"))
PAGE = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.tools


def without_comments(path):
    return re.sub(r"#.*", "", path.read_text(encoding="utf-8"))


def promtool(*args):
    return subprocess.run(["promtool", *args], capture_output=True, text=True, timeout=60, check=False)


def test_each_rule_fires_and_ends():
    done = promtool("test", "rules", TESTS)
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.findall(r"eval_time: \w+(?:,|\n) *alertname: (\w+)(\n *exp_alerts:)?", TESTS.read_text(encoding="utf-8"))
    rules = set(re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8")))
    assert {name for name, fires in told if fires} == rules, "not all are shown to fire"
    assert {name for name, fires in told if not fires} == rules, "not all are shown to be quiet"


SPOILED = [("dataflow_tickets_given_up) > 0", "dataflow_tickets_given_up) > 5", "DataFlowTicketsGivenUp"),
           ("dataflow_target_up) == 0", "dataflow_target_up) >= 0", "DataFlowTargetAway"),
           ('status=~"5.."', 'status=~"4.."', "DataFlowRequestsFail"), ("for: 2m", "for: 20m", "DataFlowDown")]


def test_the_tests_of_the_rules_can_fail(tmp_path):
    for path in (RULES, RECORDS):
        text = path.read_text(encoding="utf-8")
        for old, new, _ in SPOILED:
            text = text.replace(old, new)
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    head, *cases = re.split(r"^(?=  - name:)", TESTS.read_text(encoding="utf-8"), flags=re.M)
    concerned = [case for case in cases if any(name in case for _, _, name in SPOILED)]
    (tmp_path / TESTS.name).write_text(head + "".join(concerned), encoding="utf-8")
    done = promtool("test", "rules", tmp_path / TESTS.name)
    assert done.returncode != 0
    assert set(re.findall(r"alertname: (\w+)", done.stdout + done.stderr)) == {name for _, _, name in SPOILED}


def test_the_rules_are_well_formed():
    done = promtool("check", "rules", RULES, RECORDS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_alerts_use_records_that_there_are():
    """Metrics: test_dashboards.py asks a real Prometheus for them."""
    records = set(re.findall(r"record: (\S+)", without_comments(RECORDS)))
    used = set(re.findall(r"job\w*:dataflow_\w+:\w+", without_comments(RULES)))
    assert used and used <= records


def test_the_page_has_every_rule_of_prometheus():
    assert all(f"`{name}`" in PAGE for name in re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8")))


def test_the_page_has_every_rule_and_every_setting():
    source = (ROOT / "src" / "alerts" / "rules.c").read_text(encoding="utf-8")
    rules = re.findall(r'\[ALERT_\w+\] = \{"(\w+)"', source)
    assert len(rules) == 8 and all(f"`{rule}`" in PAGE for rule in rules)
    section = re.search(r"^## \[alerts\]$(.*?)^## ", run("help", "config").stdout, re.M | re.S)[1]
    names = re.findall(r"^\| `(\w+)`", section, re.M)
    assert len(names) > 9 and all(name in PAGE for name in names)


def test_the_configuration_of_the_page_is_taken(tmp_path):
    text, = re.findall(r"^```ini\n(.*?)^```$", PAGE, re.M | re.S)
    for name in re.findall(r"/etc/dataflow/(\S+)", text):
        (tmp_path / name).write_text("https://example.org/x\n", encoding="utf-8")
    (tmp_path / "dataflow.ini").write_text(text.replace("/etc/dataflow", str(tmp_path)), encoding="utf-8")
    told = run("check-config", "--config", tmp_path / "dataflow.ini")
    assert told.returncode == 0, told.stderr


BAD = [("teams_url", "teams.example"), ("pagerduty_url", "ftp://x/"), ("console_url", "//x"), ("interval_seconds", "0"),
       ("error_rate_percent", "101"), ("webhook_failures", "0"), ("batch_stuck_minutes", "soon")]


@pytest.mark.parametrize("key,value", BAD)
def test_bad_settings_are_refused_by_name(key, value):
    told = run("check-config", "--set", f"alerts.{key}={value}")
    assert told.returncode != 0 and key in told.stderr, told.stderr
