"""Tests of the alert rules: they fire as expected, use existing metrics, and have runbook entries."""

import re
import subprocess
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import yaml
from typer import Context
from typer.main import get_command

from muster.cli.main import app
from muster.settings import psql_url
from tests.support.repository import ROOT
from tests.support.tools import program

PROMETHEUS = ROOT / "docker" / "prometheus"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((PROMETHEUS / "rules.yml").read_text())["groups"] for rule in group["rules"]
]
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
ENTRIES: dict[str, str] = dict(re.findall(r"^### (Muster\w+)\n(.*?)(?=^##|\Z)", RUNBOOK, re.DOTALL | re.MULTILINE))
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("metrics", "dashboards")}
METRICS = set(re.findall(r"^\| `([a-z_]+)` \|", PAGES["metrics"], re.MULTILINE))
BY_PARTITION = set(re.findall(r"^\| `([a-z_]+)` \|.*\(`detail=partition`\)", PAGES["metrics"], re.MULTILINE))
OF_PROMETHEUS = {"up"}

every_alert = pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
every_entry = pytest.mark.parametrize("alert", ENTRIES)


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Prometheus' checker."""
    command = [program("promtool"), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=PROMETHEUS)


# -- rules ------------------------------------------------------------------------------------------------


def test_configuration_and_rules_are_valid() -> None:
    # Syntax only: in its container the token is a file, and here it is not. So the rules are checked apart.
    for what in (("config", "--syntax-only", "prometheus.yml"), ("rules", "rules.yml")):
        checked = promtool("check", *what)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_documented_scrape_on_kubernetes_is_valid_and_gives_what_the_rules_need(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "production.md").read_text()
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "prometheus.yml").write_text(text)
    checked = promtool("check", "config", "--syntax-only", str(tmp_path / "prometheus.yml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    own_text = (PROMETHEUS / "prometheus.yml").read_text()
    documented, own = (yaml.safe_load(each)["scrape_configs"][0] for each in (text, own_text))
    assert {key: documented[key] for key in ("job_name", "params")} == {key: own[key] for key in ("job_name", "params")}


def test_alert_rules_pass_their_unit_tests() -> None:
    tested = promtool("test", "rules", "rules_test.yml")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_every_alert_has_a_test_in_which_it_fires() -> None:
    tests = yaml.safe_load((PROMETHEUS / "rules_test.yml").read_text())["tests"]
    fired = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case.get("exp_alerts")}
    assert fired == {rule["alert"] for rule in RULES}


@every_alert
def test_every_alert_has_a_severity_and_a_summary(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert rule["annotations"]["summary"].endswith(".")


@every_alert
def test_every_alert_uses_existing_metrics(rule: dict[str, Any]) -> None:
    used = set(re.findall(r"\b((?:muster|kafka)_[a-z_]+|up)\b", rule["expr"]))
    assert used
    families = {re.sub(r"_(bucket|count|sum)$", "", name) if name not in METRICS else name for name in used}
    assert families <= METRICS | OF_PROMETHEUS


@every_alert
def test_pages_name_the_alert_that_needs_detail_partition(rule: dict[str, Any]) -> None:
    needs_it = any(re.search(rf"\b{name}\b", rule["expr"]) for name in BY_PARTITION)
    assert needs_it == (rule["alert"] == "MusterConsumerStalled")
    assert not needs_it or all(rule["alert"] in page for page in PAGES.values())
    assert not needs_it or "`detail=partition`" in ENTRIES[rule["alert"]]


# -- the runbook ------------------------------------------------------------------------------------------


def test_runbook_entries_equal_the_alerts() -> None:
    assert list(ENTRIES) == [rule["alert"] for rule in RULES]


@every_alert
def test_every_alert_links_to_its_entry(rule: dict[str, Any]) -> None:
    assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"


@every_entry
def test_every_entry_has_meaning_check_and_action(alert: str) -> None:
    parts = re.findall(r"^\*\*(.+?)\*\*", ENTRIES[alert], re.MULTILINE)
    assert parts == ["Meaning.", "Check.", "Action."]


def test_every_link_of_the_runbook_is_valid() -> None:
    headings = {
        re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
        for heading in re.findall("^#+ (.+)", RUNBOOK, re.MULTILINE)
    }
    for target in re.findall(r"\]\(([^)]+)\)", RUNBOOK):
        path, _, anchor = target.partition("#")
        assert (ROOT / "docs" / path).exists()
        assert path or anchor in headings, target


def test_every_command_of_the_runbook_exists() -> None:
    named = {tuple(words.split()) for words in re.findall(r"`muster((?: [a-z][a-z-]*(?![\w=]))+)", RUNBOOK)}
    assert len(named) > 5
    for words in named:
        command: Any = get_command(app)
        for word in words:
            command = command.get_command(Context(command), word)
            assert command is not None, " ".join(words)


def test_prometheus_accepts_every_metric_and_expression_of_the_runbook(tmp_path: Path) -> None:
    spans = re.findall(r"`([^`\n]*\b(?:muster|process)_[a-z_]+[^`\n]*)`", RUNBOOK)
    expressions = [
        span for span in dict.fromkeys(spans) if not re.match(r"(SELECT|muster) |muster_(reader|jobs)$", span)
    ]
    assert "rate(muster_offset_commit_total[5m])" in expressions
    used = {name for each in expressions for name in re.findall(r"\b(?:muster|process)_[a-z_]+", each)}
    assert used <= METRICS
    rules = [{"record": f"runbook:{number}", "expr": each} for number, each in enumerate(expressions)]
    file = tmp_path / "runbook.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "runbook", "rules": rules}]}))
    checked = promtool("check", "rules", str(file))
    assert checked.returncode == 0, checked.stdout + checked.stderr


OPEN_SESSIONS = """
INSERT INTO member_sessions
SELECT group_id, 1, now(), member_id, NULL, client_id, 'h', 1, 9, began, began, began + interval '49 min', end_reason,
    began + interval '48 min', heard, 1, '{1}'
FROM (SELECT now() - interval '50 min') AS an_hour (began),
    (VALUES ('g', 'm1', 'dead', 'session_expired', 9), ('g', 'm2', 'living', 'hour', 900),
    ('g', 'm3', 'went', 'left', 9), ('g', 'm4', 'removed', 'admin', 9), ('other', 'm5', 'busy', 'hour', 99999))
    AS sessions (group_id, member_id, client_id, end_reason, heard);
INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, committed_at)
SELECT 'wide', 1, 't', partition, 1, now() FROM generate_series(1, 300) AS partition
UNION ALL SELECT 'often', 1, 't', 0, 1, now();
"""


@pytest.mark.parametrize(
    ("alert", "place", "column", "found"),
    [
        ("MusterMembersEvicted", 1, 1, ["dead"]),
        ("MusterWriteQueueFilling", 0, 1, ["busy", "living", "dead", "removed", "went"]),
        ("MusterWriteQueueFilling", 1, 1, [300, 1]),
    ],
    ids=["evicted members", "frequent callers", "commits of many partitions"],
)
def test_runbook_query_finds_the_responsible_members(
    database_url: str, alert: str, place: int, column: int, found: list[object]
) -> None:
    query = re.findall(r"```sql\n(.*?)```", ENTRIES[alert], re.DOTALL)[place]
    with psycopg2.connect(psql_url(database_url)) as connection, connection.cursor() as cursor:
        cursor.execute(OPEN_SESSIONS)
        cursor.execute(query)
        rows = cursor.fetchall()
    connection.close()
    reported = [row[column] for row in rows]
    assert reported[:2] == found[:2]
    assert set(reported) == set(found)


def test_every_query_of_the_runbook_that_reads_history_names_a_range_or_a_group() -> None:
    queries = re.findall(r"```sql\n(.*?)```", RUNBOOK, re.DOTALL)
    of_history = [
        each for each in queries if re.search(r"member_sessions|spurious_evictions|rebalances_per_hour", each)
    ]
    assert len(of_history) >= 4
    assert [each for each in of_history if "now() - interval" not in each] == []
