"""The reference pages say what the binary does."""

import re
import subprocess

import pytest
from harness import BIN, ROOT


def test_the_configuration_page_is_the_settings_table():
    table = subprocess.run([BIN, "help", "config"], stdout=subprocess.PIPE, text=True, check=True).stdout
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page.endswith(table), "run `make docs`"


def test_the_page_of_metrics_is_what_the_program_has():
    table = subprocess.run([BIN, "help", "metrics"], stdout=subprocess.PIPE, text=True, check=True).stdout
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert page.endswith(table), "run `make docs`"
    for path in (ROOT / "src").rglob("*.c"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"static struct df_metric_family \w+ =", text), f"{path.name}: define it with DF_METRIC_FAMILY"
        for name in re.findall(r'\.name = "((?:dataflow|process)_\w+)",\s*\.help', text):
            assert f"| `{name}` |" in table, name


def test_what_deploy_watches_is_measured():
    families = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8"), re.M))
    named, made = {}, set()
    for path in (ROOT / "deploy").rglob("*"):
        if path.suffix in {".yml", ".yaml", ".json", ".tpl"}:
            text = path.read_text(encoding="utf-8")
            made |= set(re.findall(r"""(?:record|as): *["']?(dataflow_\w+)""", text))
            for name in re.findall(r"\b((?:dataflow|process)_[a-z0-9_]+?)(?:_bucket|_sum|_count)?(?![a-z0-9_:])", text):
                named.setdefault(name, path.relative_to(ROOT))
    assert {"dataflow_backlog_batches", "dataflow_delivery_oldest_seconds"} <= named.keys()
    assert not {name: path for name, path in named.items() if name not in families | made}


def test_every_log_event_is_explained():
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    events = set()
    for path in (ROOT / "src").rglob("*.c"):
        text = path.read_text(encoding="utf-8")
        events |= set(re.findall(r'df_log_(?:info|warn|error)\(\s*"(\w+)"', text))
        events |= set(re.findall(r'df_log_write\(\s*[^"]*?"(\w+)"', text))
    missing = {e for e in events if f"`{e}`" not in page}
    assert not missing, f"docs/operations.md does not explain {sorted(missing)}"


# --- every Markdown page of the tree -------------------------------------------------------------

PAGES = [path for path in sorted(ROOT.rglob("*.md"))
         if path.relative_to(ROOT).parts[0] not in {"build", "fuzz-corpus", "var"} and "node_modules" not in path.parts]
FENCED = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
PATH = re.compile(r"(?<![\w./-])(?:src|tests|bench|docs|tools|deploy|scripts)/[\w./*{},<>-]*[\w/*}>]")


def prose(page):
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page):
    """What GitHub makes of the headings."""
    headings = re.findall(r"^#+ +(.*)$", prose(page), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def spellings(path):
    """`{a,b}` is each of them; `<room>` is any."""
    if found := re.search(r"\{([^}]*)\}", path):
        return [s for part in found[1].split(",") for s in spellings(path.replace(found[0], part, 1))]
    return [re.sub(r"<[^>]*>", "*", path)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_is_empty(page):
    assert re.search(r"^# .+\n\n.", page.read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    broken = []
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", prose(page)):
        other = page.parent / target if target else page
        if not other.exists() or (anchor and anchor not in anchors(other)):
            broken.append(f"{target}#{anchor}")
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_exist(page):
    named = {path for found in PATH.findall(page.read_text(encoding="utf-8")) for path in spellings(found)}
    missing = {path for path in named  # a unit test's program is named without its `.c`
               if not any(any(base.glob(form)) for base in (ROOT, page.parent) for form in (path, f"{path}.c"))}
    assert not missing


WRAPPED = [page for page in PAGES if page.parent.name in {"docs", "fuzz", "upgrade"} or page.name == "CHANGELOG.md"]


@pytest.mark.parametrize("page", WRAPPED, ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_fits_120_columns(page):
    wide = [line for line in prose(page).splitlines()
            if len(line) > 120 and " " in line.strip() and not line.lstrip().startswith("|")]
    assert not wide
