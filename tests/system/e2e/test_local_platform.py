"""The local platform end to end: groups live, a killed member, maintenance and a report through Airflow, a stop.

All DAGs run through a scheduler in tests/integration/airflow.
"""

import os
import re
import signal
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import urllib3

from agent import ConsumerAgent
from muster.data_dir import DataDir
from tests.support.documented_commands import the_command
from tests.support.waiting import poll_until
from tests.system.e2e import known_history as known_past
from tests.system.e2e.terminal_user import NewUser, new_user, processes_of

pytestmark = [pytest.mark.postgres, pytest.mark.jvm, pytest.mark.airflow, pytest.mark.slow]

DEMO_GROUPS = {"orders-billing", "clicks-enrichment", "payments-audit"}
LEFT_BEHIND = "left-behind"
"""A group that somebody joined and left, and that never committed."""

MAINTENANCE = "docs/maintenance.md"
ARCHIVE, DAILY = "history_archive", "rebalance_frequency_report"


@pytest.mark.timeout(1200)
def test_new_user_sees_live_groups_rebalances_and_dag_runs(tmp_path: Path) -> None:
    with new_user(tmp_path / "data") as platform:
        _asserts_fleet_is_consuming(platform)
        known_past.store(platform.database_url())
        platform.reads(r"user admin, password")
        _creates_an_expiring_group(platform)
        _kills_a_member(platform)
        _finds_due_offsets_expired(platform)
        _publishes_airflow_url(platform)
        archiving = platform.start(ARCHIVE, {})
        backfilled = _backfills_a_day_with_a_kill(platform)
        _runs_other_commands_of_airflow(platform)
        _reads_report(platform, backfilled)
        assert platform.end_of(ARCHIVE, archiving) == "success"
        _asserts_history_archived(platform)
        _asserts_group_retired(platform)
        assert platform.stop() == 0
    assert processes_of(platform.data_dir) == []


def _asserts_fleet_is_consuming(platform: NewUser) -> None:
    platform.reads(r"Demonstration fleet")
    poll_until(lambda: _stable_groups(platform) >= DEMO_GROUPS)
    moving = "SELECT count(*) > 0 FROM offsets WHERE group_id = 'orders-billing'"
    poll_until(lambda: platform.sql(moving) == [(True,)])


def _stable_groups(platform: NewUser) -> set[str]:
    return {group["group_id"] for group in platform.get("/v1/groups?state=Stable")["groups"]}


def _creates_an_expiring_group(platform: NewUser) -> None:
    with closing(ConsumerAgent(platform.node_url, LEFT_BEHIND, ["orders"])) as consumer:
        poll_until(lambda: consumer.poll(0.2) or consumer.assignment())


def _kills_a_member(platform: NewUser) -> None:
    """Kill a member as README.md does, by the pid in its client id; the history has the trigger of the rebalance."""
    member = platform.get("/v1/groups/orders-billing")["members"][0]
    pid = re.search(r"pid(\d+)$", member["client_id"])
    assert pid is not None, member
    platform.types(the_command("README.md", "kill -9 <").replace("<a pid from the table>", pid.group(1)))
    why = "SELECT trigger_member_id FROM rebalances WHERE group_id = 'orders-billing' AND trigger = 'session_expired'"
    poll_until(lambda: platform.sql(why) == [(member["member_id"],)])
    shown = platform.types(the_command("README.md", ".venv/bin/muster sql 'SELECT group_id, trigger"))
    assert re.search(r"orders-billing +session_expired", shown), shown


def _finds_due_offsets_expired(platform: NewUser) -> None:
    first = platform.reads("A maintenance run.*").group()
    assert "history_archive" not in first, "another run was over before"
    poll_until(lambda: _archived(platform) == {"nightly-export", "orders-v1"})
    kept = platform.sql("SELECT DISTINCT group_id FROM offsets")
    assert {group for (group,) in kept} == {*DEMO_GROUPS, "orders-replay"}
    shown = platform.types(the_command("README.md", ".venv/bin/muster runs list"))
    assert re.search("offset_retention .* applied ", shown), shown
    shown = platform.types(the_command("README.md", ".venv/bin/muster sql 'SELECT group_id, topic, partition, cause"))
    assert set(re.findall("nightly-export|orders-v1", shown)) == {"nightly-export", "orders-v1"}, shown


def _publishes_airflow_url(platform: NewUser) -> None:
    """`muster doctor` reads it from there."""
    holder = DataDir(platform.data_dir).holder()
    assert holder is not None
    assert holder.airflow_url == f"http://127.0.0.1:{platform.airflow_port}"


def _archived(platform: NewUser) -> set[str]:
    return {group for (group,) in platform.sql("SELECT DISTINCT group_id FROM archived_offsets")}


def _reads_report(platform: NewUser, run_id: str) -> None:
    """The run succeeds in its second try, and any node returns the known results."""
    assert platform.end_of(DAILY, run_id) == "success"
    assert platform.tries(DAILY, run_id, "report") == 2
    (report,) = platform.get(f"/v1/reports/rebalances?group_id={known_past.REPORTED_GROUP}")["reports"]
    assert {column: report[column] for column in known_past.REBALANCES} == known_past.REBALANCES
    states = the_command(MAINTENANCE, "muster airflow tasks states-for-dag-run")
    assert "wait_until_settled" in platform.types(states.replace("…", f"{DAILY} {run_id}"))


def _backfills_a_day_with_a_kill(platform: NewUser) -> str:
    """Kill the Spark of a backfill, have its task run once more, and return the id of the run."""
    create = the_command(MAINTENANCE, "muster airflow backfill create")
    platform.types(re.sub(r"\d{4}-\d\d-\d\d", str(known_past.REPORTED_DAY), create))
    (run_id,) = (run["dag_run_id"] for run in platform.runs(DAILY, "run_type=backfill"))
    drivers = poll_until(lambda: _drivers(platform, DAILY))
    os.kill(_parent(drivers[0]), signal.SIGKILL)
    platform.clear(DAILY, run_id, "wait_until_settled")
    return str(run_id)


def _runs_other_commands_of_airflow(platform: NewUser) -> None:
    listed = platform.types(the_command(MAINTENANCE, "muster airflow dags list"))
    assert all(dag_id in listed for dag_id in (ARCHIVE, DAILY))
    platform.types(f"muster {the_command(MAINTENANCE, 'airflow pools set muster_spark_reports 2 ')}")
    assert platform.slots("muster_spark_reports") == 2


def _drivers(platform: NewUser, job: str) -> list[int]:
    """Return the process in which a job's Python runs, if it does; its parent is Spark's Java."""
    return [pid for pid in processes_of(platform.data_dir) if _runs(pid, f"/spark_jobs/jobs/{job}.py")]


def _runs(pid: int, script: str) -> bool:
    try:
        program, *arguments = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return False
    return "python" in Path(program).name and any(argument.endswith(script) for argument in arguments[:1])


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _asserts_history_archived(platform: NewUser) -> None:
    """The old day is in Parquet files and not in Postgres, and the run is applied."""
    archived = "SELECT row_count, path FROM archived_partitions WHERE table_name = 'offset_history' AND day = %s"
    ((row_count, path),) = platform.sql(archived, known_past.OLD_DAY)
    assert row_count == known_past.OLD_ROWS
    assert list(Path(unquote(urlsplit(path).path)).glob("*.parquet"))
    assert platform.sql("SELECT to_regclass(%s) IS NULL", known_past.OLD_PARTITION) == [(True,)]
    run = "SELECT status, counts ->> 'candidates' FROM maintenance_runs WHERE kind = 'history_archive'"
    assert ("applied", "1") in platform.sql(run)


def _asserts_group_retired(platform: NewUser) -> None:
    """The run that retired the group was started by the expiry of offsets."""
    poll_until(lambda: not platform.has_active_runs("group_cleanup"))
    outcomes = "SELECT outcome FROM cleanup_candidates WHERE group_id = %s"
    assert platform.sql(outcomes, LEFT_BEHIND) == [("retired",)]
    assert platform.sql("SELECT count(*) FROM groups WHERE group_id = %s", LEFT_BEHIND) == [(0,)]
    assert {run["run_type"] for run in platform.runs("group_cleanup", "state=success")} == {"asset_triggered"}


def test_a_killed_node_loses_no_commit_and_costs_no_rebalance(tmp_path: Path) -> None:
    with new_user(tmp_path / "data", "--no-airflow") as platform:
        _asserts_fleet_is_consuming(platform)
        before = _present(platform)
        committed = dict(platform.sql("SELECT partition, committed_offset FROM offsets WHERE topic = 'orders'"))
        node = next(pid for pid in processes_of(platform.data_dir) if _is_node(pid))
        os.kill(node, signal.SIGKILL)
        moved_on = "SELECT count(*) FROM offsets WHERE topic = 'orders' AND committed_at > now() - interval '2 seconds'"
        poll_until(lambda: not _is_node(node))
        poll_until(lambda: _serves(platform) and platform.sql(moved_on)[0][0] > 0)
        after = dict(platform.sql("SELECT partition, committed_offset FROM offsets WHERE topic = 'orders'"))
        assert all(after[partition] >= offset for partition, offset in committed.items())
        assert _present(platform) == before
        assert platform.stop() == 0
    assert processes_of(platform.data_dir) == []
    with new_user(platform.data_dir, "--no-airflow", "--no-demo") as again:
        again.reads(r"owns its shards")
        assert again.sql("SELECT count(*) > 0 FROM offsets WHERE topic = 'orders'") == [(True,)]
        assert again.stop() == 0


def _present(platform: NewUser) -> object:
    """Return generation and members of the stable groups."""
    group = platform.get("/v1/groups/orders-billing")
    return group["generation"], sorted(member["member_id"] for member in group["members"])


def _is_node(pid: int) -> bool:
    try:
        return b"\0serve" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _serves(platform: NewUser) -> bool:
    try:
        return bool(platform.get("/v1/groups/orders-billing")["state"] == "Stable")
    except (urllib3.exceptions.HTTPError, AssertionError):
        return False
