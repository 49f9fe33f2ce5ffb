"""deploy/prometheus/alerts.yml by `promtool`, and docs/alerts.md against the program."""

import re
import subprocess

import pytest
from harness import ROOT, run

RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
PAGE = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.tools

# Each rule: quiet while all is well, fires when its condition stands, and ends.
TESTS = f"""
rule_files: [{RULES}]
evaluation_interval: 1m
tests:
  - name: the server's own, from two processes
    interval: 1m
    input_series:
      - {{series: 'dataflow_alerts_firing{{rule="BatchStuck",instance="a"}}', values: '0x4 2x5 0x5'}}
      - {{series: 'dataflow_alerts_firing{{rule="BatchStuck",instance="b"}}', values: '0x4 2x5 0x5'}}
      - {{series: 'dataflow_build_info', values: '1x20'}}
    alert_rule_test:
      - {{eval_time: 4m, alertname: DataFlowAlertFiring}}
      - eval_time: 6m
        alertname: DataFlowAlertFiring
        exp_alerts:
          - exp_labels: {{severity: error, rule: BatchStuck}}
            exp_annotations: {{summary: 'BatchStuck fires for 2 subjects: GET /admin/alerts?status=firing'}}
      - {{eval_time: 14m, alertname: DataFlowAlertFiring}}
  - name: a batch in work without a record settled, then one
    interval: 1m
    input_series:
      - {{series: 'dataflow_batches_processing', values: '0x9 1x120'}}
      - {{series: 'dataflow_import_records_total{{outcome="imported"}}', values: '5x100 6+1x20'}}
    alert_rule_test:
      - {{eval_time: 69m, alertname: DataFlowBatchStuck}}
      - eval_time: 75m
        alertname: DataFlowBatchStuck
        exp_alerts:
          - exp_labels: {{severity: critical}}
            exp_annotations: {{summary: 'batches are in work, and no record was settled for an hour'}}
      - {{eval_time: 103m, alertname: DataFlowBatchStuck}}
  - name: a process that has settled none since its start
    interval: 1m
    input_series:
      - {{series: 'dataflow_batches_processing', values: '1x90'}}
    alert_rule_test:
      - eval_time: 80m
        alertname: DataFlowBatchStuck
        exp_alerts:
          - exp_labels: {{severity: critical}}
            exp_annotations: {{summary: 'batches are in work, and no record was settled for an hour'}}
  - name: webhooks given up
    interval: 1m
    input_series:
      - {{series: 'dataflow_delivery_attempts_total{{channel="webhooks",outcome="error"}}', values: '0x10 2x10 6x120'}}
      - {{series: 'dataflow_delivery_attempts_total{{channel="webhooks",outcome="sent"}}', values: '0+9x140'}}
    alert_rule_test:
      - {{eval_time: 15m, alertname: DataFlowWebhookFailing}}
      - eval_time: 61m
        alertname: DataFlowWebhookFailing
        exp_alerts:
          - exp_labels: {{severity: warning}}
            exp_annotations: {{summary: '6 webhook deliveries were given up within an hour: GET /admin/webhook-failures'}}
      - {{eval_time: 130m, alertname: DataFlowWebhookFailing}}
  - name: records that fail
    interval: 1m
    input_series:
      - {{series: 'dataflow_import_records_total{{outcome="imported"}}', values: '0+10x240'}}
      - {{series: 'dataflow_import_records_total{{outcome="error"}}', values: '0+1x60 70+10x59 660x120'}}
    alert_rule_test:
      - {{eval_time: 60m, alertname: DataFlowErrorRate}}
      - eval_time: 120m
        alertname: DataFlowErrorRate
        exp_alerts:
          - exp_labels: {{severity: error}}
            exp_annotations: {{summary: '50% of the records of the last hour failed'}}
      - {{eval_time: 190m, alertname: DataFlowErrorRate}}
  - name: all of a few records fail
    interval: 1m
    input_series:
      - {{series: 'dataflow_import_records_total{{outcome="error"}}', values: '0+1x60'}}
    alert_rule_test:
      - {{eval_time: 60m, alertname: DataFlowErrorRate}}
  - name: deliveries that wait
    interval: 1m
    input_series:
      - {{series: 'dataflow_delivery_oldest_seconds{{channel="alerts"}}', values: '0+60x70 0x10'}}
    alert_rule_test:
      - {{eval_time: 60m, alertname: DataFlowDeliveryStuck}}
      - eval_time: 62m
        alertname: DataFlowDeliveryStuck
        exp_alerts:
          - exp_labels: {{severity: critical, channel: alerts}}
            exp_annotations: {{summary: 'alerts: the oldest delivery has waited 1h 2m 0s'}}
      - {{eval_time: 75m, alertname: DataFlowDeliveryStuck}}
  - name: documents given up, and retried
    interval: 1m
    input_series:
      - {{series: 'dataflow_delivery_given_up{{channel="alerts",instance="a"}}', values: '0x4 2x5 0x5'}}
      - {{series: 'dataflow_delivery_given_up{{channel="alerts",instance="b"}}', values: '0x4 2x5 0x5'}}
      - {{series: 'dataflow_relay_given_up{{relay="orders"}}', values: '0x4 3x5 0x5'}}
      - {{series: 'dataflow_tickets_given_up', values: '0x4 4x5 0x5'}}
    alert_rule_test:
      - {{eval_time: 4m, alertname: DataFlowDeliveryGivenUp}}
      - {{eval_time: 4m, alertname: DataFlowRelayGivenUp}}
      - {{eval_time: 4m, alertname: DataFlowTicketsGivenUp}}
      - eval_time: 6m
        alertname: DataFlowDeliveryGivenUp
        exp_alerts:
          - exp_labels: {{severity: error, channel: alerts}}
            exp_annotations: {{summary: 'alerts: 2 documents were given up and wait for a person: dataflow outbox list'}}
      - eval_time: 6m
        alertname: DataFlowRelayGivenUp
        exp_alerts:
          - exp_labels: {{severity: error, relay: orders}}
            exp_annotations: {{summary: 'orders: 3 events were given up and wait for a person'}}
      - eval_time: 6m
        alertname: DataFlowTicketsGivenUp
        exp_alerts:
          - exp_labels: {{severity: error}}
            exp_annotations: {{summary: '4 tickets could not be processed and wait for a person'}}
      - {{eval_time: 14m, alertname: DataFlowDeliveryGivenUp}}
      - {{eval_time: 14m, alertname: DataFlowRelayGivenUp}}
      - {{eval_time: 14m, alertname: DataFlowTicketsGivenUp}}
  - name: a backup that stops, and goes on
    interval: 1m
    input_series:
      - {{series: 'dataflow_backup_last_success_timestamp_seconds', values: '0+60x10 600x79 5460+60x20'}}
    alert_rule_test:
      - {{eval_time: 79m, alertname: DataFlowBackupStopped}}
      - eval_time: 82m
        alertname: DataFlowBackupStopped
        exp_alerts:
          - exp_labels: {{severity: error}}
            exp_annotations: {{summary: 'the server has not backed itself up for 1h 12m 0s'}}
      - {{eval_time: 95m, alertname: DataFlowBackupStopped}}
  - name: nobody there
    interval: 1m
    input_series:
      - {{series: 'dataflow_build_info', values: '1x5 stale _x10 1x5'}}
    alert_rule_test:
      - {{eval_time: 5m, alertname: DataFlowDown}}
      - eval_time: 9m
        alertname: DataFlowDown
        exp_alerts:
          - exp_labels: {{severity: critical}}
            exp_annotations: {{summary: 'no DataFlow server answers Prometheus'}}
      - {{eval_time: 20m, alertname: DataFlowDown}}
"""


def test_each_rule_fires_and_ends(tmp_path):
    (tmp_path / "tests.yml").write_text(TESTS, encoding="utf-8")
    done = subprocess.run(["promtool", "test", "rules", tmp_path / "tests.yml"], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tested = set(re.findall(r"alertname: (\w+)", TESTS))
    assert tested == set(re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8")))


def test_the_rules_use_metrics_that_there_are():
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.c"))
    used = set(re.findall(r"dataflow_\w+", re.sub(r"#.*", "", RULES.read_text(encoding="utf-8"))))
    assert used and used <= set(re.findall(r'\.name = "(dataflow_\w+)"', source))


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
