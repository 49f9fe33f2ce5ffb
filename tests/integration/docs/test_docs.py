"""The reference pages say what the binary does."""

import os
import re
import subprocess

from harness import BIN, ROOT


def test_the_configuration_page_is_the_settings_table():
    table = subprocess.run([BIN, "help", "config"], stdout=subprocess.PIPE, text=True, check=True).stdout
    with open(os.path.join(ROOT, "docs", "configuration.md"), encoding="utf-8") as f:
        assert f.read().endswith(table), "run `make docs`"


def test_every_log_event_and_metric_is_explained():
    with open(os.path.join(ROOT, "docs", "operations.md"), encoding="utf-8") as f:
        page = f.read()
    events, families = set(), set()
    for folder, _, names in os.walk(os.path.join(ROOT, "src")):
        for name in (n for n in names if n.endswith(".c")):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                text = f.read()
            events |= set(re.findall(r'df_log_(?:info|warn|error)\(\s*"(\w+)"', text))
            events |= set(re.findall(r'df_log_write\(\s*[^"]*?"(\w+)"', text))
            families |= set(re.findall(r'\.name = "(dataflow_\w+)"', text))
    missing = {e for e in events if f"`{e}`" not in page} | {m for m in families if m not in page}
    assert not missing, f"docs/operations.md does not explain {sorted(missing)}"


def test_links_between_the_pages_lead_somewhere():
    pages = [os.path.join(ROOT, n) for n in os.listdir(ROOT) if n.endswith(".md")]
    pages += [os.path.join(ROOT, "docs", n) for n in os.listdir(os.path.join(ROOT, "docs"))]
    broken = []
    for page in pages:
        with open(page, encoding="utf-8") as f:
            for target in re.findall(r"\]\((?!https?:)([^)#]+)", f.read()):
                if not os.path.exists(os.path.join(os.path.dirname(page), target)):
                    broken.append(f"{os.path.relpath(page, ROOT)}: {target}")
    assert not broken
