"""Every number shown of the hour agrees: with every other place, with a recount, and with what happened.

The places are the API (which the console shows), the command line, SQL views, Prometheus and the reports of Spark
jobs. The recount reads raw tables only.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg2
import pytest
from pyspark.sql import SparkSession

from muster.settings import psql_url
from spark_jobs.database import parse_url
from spark_jobs.jobs import assignment_balance_audit, rebalance_frequency_report
from spark_jobs.report_job import ReportArguments, ReportingJob, report
from spark_jobs.submit import default_options
from tests.system.e2e.sick_groups.platform import Platform, Row
from tests.system.e2e.sick_groups.sick_groups import LAST_EVENT_MINUTE, MINUTE_S

pytestmark = pytest.mark.slow

STATES = {
    "crash-loop": "Stable",
    "emptied": "Empty",
    "healthy": "Stable",
    "idle-member": "Stable",
    "late": "Stable",
    "stuck": "PreparingRebalance",
    "young": "Stable",
}
STOPPED_AT_MINUTE = {"stuck": 30, "emptied": 20}
"""Groups of the topic `orders` → the minute after which they commit nothing."""
COMMIT_GAP_S = 30
"""Twice the time between two commits of a consumer, and some."""
EVICTIONS = ("session_expired", "rebalance_timeout", "sync_timeout")
REPORT_GRACE = timedelta(minutes=2)
"""How long ago a reported interval must have ended."""
Partition = tuple[str, str, int]


# -- states, members, generations ----------------------------------------------------------------------------


def test_states_members_and_generations(platform: Platform) -> None:
    counted = {
        row["group_id"]: (row["state"], row["members"], row["generation"])
        for row in platform.sql(
            "SELECT group_id, state, generation,"
            " (SELECT count(*) FROM members WHERE members.group_id = groups.group_id) AS members FROM groups"
        )
    }
    assert {group_id: state for group_id, (state, *_) in counted.items()} == STATES
    shown: dict[str, Iterable[Row]] = {
        "list": platform.api("/v1/groups")["groups"],
        "overview": platform.api("/v1/overview/groups")["groups"],
        "group_overview": platform.sql("SELECT * FROM dashboards.group_overview"),
        "command line": platform.command("groups", "list")["groups"],
    }
    for place, rows in shown.items():
        found = {row["group_id"]: (row["state"], row["member_count"], row["generation"]) for row in rows}
        # A group in PreparingRebalance has members that are in no generation yet, and no rows.
        found["stuck"] = (*found["stuck"][:1], *counted["stuck"][1:2], *found["stuck"][2:])
        assert found == counted, place
    metrics = platform.metrics()
    states = Counter(state for state, *_ in counted.values())
    assert {state: metrics[named("muster_num_groups", state=state)] for state in states} == states
    for group_id, (_, members, _) in counted.items():
        if group_id != "stuck":
            assert metrics[named("kafka_consumergroup_members", consumergroup=group_id)] == members


# -- lag -------------------------------------------------------------------------------------------------------


def recounted_lag(platform: Platform) -> dict[Partition, int]:
    """Return the lag of every committed partition: the furthest end that any group reported, less the offset."""
    ends: dict[tuple[str, int], int] = defaultdict(int)
    present = platform.sql("SELECT * FROM offsets")
    for row in [*present, *platform.sql("SELECT * FROM offset_history")]:
        key = (row["topic"], row["partition"])
        ends[key] = max(ends[key], row["log_end_offset"] or 0, row["committed_offset"])
    return {
        (row["group_id"], row["topic"], row["partition"]): ends[row["topic"], row["partition"]]
        - row["committed_offset"]
        for row in present
    }


def test_lag_in_records(platform: Platform) -> None:
    lag = recounted_lag(platform)
    of_group: Counter[str] = Counter()
    for (group_id, *_), records in lag.items():
        of_group[group_id] += records
    for group_id, minute in STOPPED_AT_MINUTE.items():
        since_s = (platform.ended_at - platform.began_at).total_seconds() - minute * 60
        assert of_group[group_id] == pytest.approx(6 * 20 * since_s, abs=6 * 20 * COMMIT_GAP_S), group_id
    assert of_group["idle-member"] == 0

    api: dict[Partition, int] = {}
    command: dict[Partition, int] = {}
    for group_id in STATES:
        answer = platform.api(f"/v1/groups/{group_id}/lag")
        assert (answer["lag"] or 0) == of_group[group_id], group_id
        api |= {
            (group_id, row["topic"], row["partition"]): row["lag"]
            for row in answer["partitions"]
            if row["lag"] is not None
        }
        (described,) = platform.command("groups", "describe", group_id)["groups"]
        command |= {
            (group_id, row["topic"], row["partition"]): row["lag"]
            for row in described["offsets"]
            if row["lag"] is not None
        }
        last = platform.api(f"/v1/groups/{group_id}/lag/history")["points"][-1]
        assert last["lag"] == of_group[group_id], group_id
    view = {
        (row["group_id"], row["topic"], row["partition"]): row["lag_records"]
        for row in platform.sql("SELECT * FROM dashboards.partition_lag")
    }
    metrics = platform.metrics()
    scraped = {
        key: metrics[named("kafka_consumergroup_lag", consumergroup=key[0], topic=key[1], partition=str(key[2]))]
        for key in lag
    }
    assert api == command == view == scraped == lag

    overview = {row["group_id"]: row["lag"] for row in platform.api("/v1/overview/groups")["groups"]}
    sql_overview = {
        row["group_id"]: row["lag_records"] for row in platform.sql("SELECT * FROM dashboards.group_overview")
    }
    sums: Counter[str] = Counter()
    for (name, labels), value in metrics.items():
        if name == "kafka_consumergroup_lag_sum":
            sums[dict(labels)["consumergroup"]] += int(value)
    for place in (overview, sql_overview, sums):
        assert {group_id: place[group_id] or 0 for group_id in STATES} == {each: of_group[each] for each in STATES}


def test_lag_in_seconds(platform: Platform) -> None:
    api = {group_id: platform.api(f"/v1/groups/{group_id}/lag")["lag_seconds"] for group_id in STOPPED_AT_MINUTE}
    view = {
        row["group_id"]: row["lag_seconds"]
        for row in platform.sql(
            "SELECT group_id, max(lag_seconds) AS lag_seconds FROM dashboards.partition_lag GROUP BY 1"
        )
    }
    metrics = platform.metrics()
    scraped: dict[str, float] = defaultdict(float)
    for (name, labels), value in metrics.items():
        if name == "kafka_consumergroup_lag_seconds":
            group_id = dict(labels)["consumergroup"]
            scraped[group_id] = max(scraped[group_id], value)
    for group_id, minute in STOPPED_AT_MINUTE.items():
        for place in (api, view, scraped):
            assert place[group_id] == pytest.approx(platform.stood_still_s(minute), abs=COMMIT_GAP_S), group_id


def test_reset_to_latest_removes_the_lag_that_is_shown(platform: Platform) -> None:
    planned = platform.command("groups", "reset-offsets", "emptied", "--all-topics", "--to-latest", "--dry-run")
    lag = {key[1:]: records for key, records in recounted_lag(platform).items() if key[0] == "emptied"}
    present = {
        (row["topic"], row["partition"]): row["committed_offset"]
        for row in platform.sql("SELECT * FROM offsets WHERE group_id = 'emptied'")
    }
    moved = {
        (row["topic"], row["partition"]): row["new_offset"] - present[row["topic"], row["partition"]]
        for row in planned["groups"][0]["offsets"]
    }
    assert moved == lag


def test_committed_offsets(platform: Platform) -> None:
    counted = {
        (row["group_id"], row["topic"], row["partition"]): row["committed_offset"]
        for row in platform.sql("SELECT * FROM offsets")
    }
    metrics = platform.metrics()
    for group_id in STATES:
        mine = {key: offset for key, offset in counted.items() if key[0] == group_id}
        fetched = platform.api(f"/v1/groups/{group_id}/offsets")["offsets"]
        assert {(group_id, row["topic"], row["partition"]): row["offset"] for row in fetched} == mine
    assert metrics["muster_num_offsets", frozenset()] == len(counted)
    for (group_id, topic, partition), offset in counted.items():
        labels = {"consumergroup": group_id, "topic": topic, "partition": str(partition)}
        assert metrics[named("kafka_consumergroup_current_offset", **labels)] == offset


# -- rebalances --------------------------------------------------------------------------------------------------


def recounted_rebalances(platform: Platform) -> dict[str, list[Row]]:
    """Return every group's rebalances that are over, by group."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in platform.sql("SELECT * FROM rebalances ORDER BY completed_at"):
        found[row["group_id"]].append(row)
    return found


def test_rebalances(platform: Platform) -> None:
    past = recounted_rebalances(platform)
    counted = {group_id: len(rows) for group_id, rows in past.items()}
    assert counted["healthy"] == 1
    assert counted["crash-loop"] > 100

    per_hour = platform.sql(
        "SELECT group_id, sum(rebalances)::int AS rebalances FROM dashboards.rebalances_per_hour GROUP BY 1"
    )
    assert {row["group_id"]: row["rebalances"] for row in per_hour} == counted
    overview = {row["group_id"]: row["rebalances_last_hour"] for row in platform.api("/v1/overview/groups")["groups"]}
    within_the_hour = platform.sql(
        "SELECT group_id, count(*)::int AS rebalances FROM rebalances WHERE completed_at > now() - interval '1 hour'"
        " GROUP BY 1"
    )
    for row in within_the_hour:
        if row["group_id"] in overview:
            assert overview[row["group_id"]] - (row["group_id"] == "stuck") == row["rebalances"], row
    total = sum(
        value for (name, _), value in platform.metrics().items() if name == "muster_group_completed_rebalance_total"
    )
    assert total == sum(counted.values())
    for group_id, count in counted.items():
        listed = platform.api(f"/v1/groups/{group_id}/rebalances?limit=1000")["rebalances"]
        assert len([row for row in listed if row["completed_at"]]) == count
        printed = platform.command("groups", "rebalances", group_id, "--limit", "1000")["rebalances"]
        assert [{key: each[key] for key in row} for each, row in zip(printed, listed, strict=True)] == listed


def test_evictions(platform: Platform) -> None:
    ended = platform.sql("SELECT * FROM member_sessions WHERE end_reason <> 'hour'")
    counted = Counter((row["group_id"], row["end_reason"]) for row in ended)
    assert counted["late", "rebalance_timeout"] > 5
    assert counted["crash-loop", "session_expired"] > 50
    for group_id in (*STATES, "deleted"):
        sessions = platform.api(f"/v1/groups/{group_id}/member-sessions?limit=1000")["member_sessions"]
        shown = Counter((group_id, row["end_reason"]) for row in sessions if row["end_reason"] != "hour")
        assert shown == {key: count for key, count in counted.items() if key[0] == group_id}
    removed = {
        dict(labels)["reason"]: value
        for (name, labels), value in platform.metrics().items()
        if name == "muster_members_removed_total"
    }
    by_reason: Counter[str] = Counter()
    for (_, reason), count in counted.items():
        by_reason[reason] += count
    for reason in EVICTIONS:
        assert removed.get(reason, 0) == by_reason[reason], reason


def test_member_that_a_stuck_group_waits_for(platform: Platform) -> None:
    (culprit,) = platform.sql("SELECT member_id FROM members WHERE group_id = 'stuck' AND client_id = 'stuck-2'")
    described = platform.api("/v1/groups/stuck")
    assert described["waiting_for"] == [culprit["member_id"]]
    (view,) = platform.sql("SELECT * FROM dashboards.rebalancing_groups")
    assert view["group_id"] == "stuck"
    assert view["awaited_client_ids"] == ["stuck-2"]
    assert view["awaited_member_ids"] == [culprit["member_id"]]
    metrics = platform.metrics()
    labels = {"consumergroup": "stuck", "member_id": culprit["member_id"], "client_id": "stuck-2"}
    assert metrics[named("muster_group_awaited_member_info", **labels)] == 1
    assert metrics[named("muster_group_awaited_members", consumergroup="stuck")] == 1
    seconds = metrics[named("muster_group_rebalancing_seconds", consumergroup="stuck", state="PreparingRebalance")]
    assert seconds == pytest.approx(platform.stood_still_s(30), abs=COMMIT_GAP_S)


# -- reports --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reported(platform: Platform, spark: SparkSession) -> tuple[datetime, datetime]:
    """Let the jobs report on the hour; return its begin and end as they have it."""
    start, end = platform.began_at, platform.ended_at - REPORT_GRACE
    for job in (rebalance_frequency_report.JOB, assignment_balance_audit.JOB):
        run(job, platform, spark, start, end)
    return start, end


def run(job: ReportingJob, platform: Platform, spark: SparkSession, start: datetime, end: datetime) -> None:
    arguments = ReportArguments(
        str(uuid4()), end, start, end, is_dry_run=False, read_partitions=2, options=default_options(job.spec.name)
    )
    connection = psycopg2.connect(psql_url(platform.database_url))
    try:
        report(job, spark, parse_url(platform.database_url), connection, arguments)
    finally:
        connection.close()


def test_report_on_rebalances(platform: Platform, reported: tuple[datetime, datetime]) -> None:
    start, end = reported
    table = {row["group_id"]: row for row in platform.sql("SELECT * FROM rebalance_frequency_reports")}
    api = {row["group_id"]: row for row in platform.api("/v1/reports/rebalances")["reports"]}
    past = recounted_rebalances(platform)
    under_way = {row["group_id"]: row["rebalance_started_at"] for row in platform.sql("SELECT * FROM groups")}
    lives = recounted_lives(platform, start, end)
    for group_id, row in table.items():
        over = [each for each in past[group_id] if start <= each["completed_at"] < end]
        assert row["rebalances"] == len(over), group_id
        spans = [(each["started_at"], each["completed_at"]) for each in past[group_id]]
        if under_way.get(group_id):
            spans.append((under_way[group_id], end))
        rebalancing_s = sum(within(*span, start, end) for span in spans)
        assert row["rebalancing_ms"] / 1_000 == pytest.approx(rebalancing_s, abs=0.1), group_id
        assert row["rebalancing_share"] == pytest.approx(rebalancing_s / lives[group_id], abs=0.002), group_id
        for key in (
            "rebalances",
            "rebalancing_ms",
            "rebalancing_share",
            "waited_for_client_id",
            "waited_for_ms",
            "evicted",
        ):
            assert api[group_id][key] == row[key], (group_id, key)
    # Of the time until its last event: how long the hour goes on after it depends on the machine.
    assert table["young"]["rebalancing_ms"] / 1_000 > 0.6 * MINUTE_S * (LAST_EVENT_MINUTE - 40)


def recounted_lives(platform: Platform, start: datetime, end: datetime) -> dict[str, float]:
    """Return for how many seconds of the interval each group existed."""
    lives: dict[str, float] = {}
    for row in platform.sql(
        "SELECT group_id, min(at) AS born, max(at) FILTER (WHERE to_state = 'Dead') AS died"
        " FROM group_transitions GROUP BY 1"
    ):
        lives[row["group_id"]] = within(row["born"], row["died"] or end, start, end)
    return lives


def within(since: datetime, until: datetime, start: datetime, end: datetime) -> float:
    """Return how many seconds of a span lie within an interval."""
    return max(0.0, (min(until, end) - max(since, start)).total_seconds())


def test_members_that_groups_waited_for_longest(platform: Platform, reported: tuple[datetime, datetime]) -> None:
    start, end = reported
    waited: dict[str, Counter[tuple[str, Any]]] = defaultdict(Counter)
    for row in platform.sql(
        "SELECT * FROM rebalance_members WHERE completed_at >= %s AND completed_at < %s", start, end
    ):
        waited[row["group_id"]][row["client_id"], row["client_host"]] += row["waited_for_ms"]
    for row in platform.sql("SELECT * FROM rebalance_frequency_reports WHERE waited_for_ms IS NOT NULL"):
        ((client_id, _), waited_ms) = waited[row["group_id"]].most_common(1)[0]
        assert (row["waited_for_client_id"], row["waited_for_ms"]) == (client_id, waited_ms), row["group_id"]
    (young,) = platform.sql("SELECT * FROM rebalance_frequency_reports WHERE group_id = 'young'")
    assert young["waited_for_client_id"] == "young-1"
    (loop,) = platform.sql("SELECT * FROM rebalance_frequency_reports WHERE group_id = 'crash-loop'")
    assert loop["waited_for_client_id"] == "crash-steady"


@pytest.mark.usefixtures("reported")
def test_idle_members(platform: Platform) -> None:
    view = platform.sql("SELECT group_id, count(*)::int AS idle FROM dashboards.idle_members GROUP BY 1")
    table = platform.sql("SELECT group_id, idle_members AS idle FROM assignment_balance_audits")
    counted = platform.sql(
        "SELECT group_id, count(*)::int AS idle FROM members WHERE ownership = '[]'"
        " AND group_id IN (SELECT group_id FROM groups WHERE state = 'Stable') GROUP BY 1"
    )
    assert [(row["group_id"], row["idle"]) for row in counted] == [("idle-member", 1)]
    assert view == counted
    assert [row for row in table if row["idle"]] == counted
    api = platform.api("/v1/reports/assignments")["reports"]
    assert {row["group_id"]: row["idle_members"] for row in api} == {row["group_id"]: row["idle"] for row in table}


def named(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    """Return the key of a sample."""
    return name, frozenset(labels.items())
