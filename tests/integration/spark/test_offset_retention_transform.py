"""Tests of the offset_retention transform: only due offsets become candidates."""

from datetime import timedelta

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_jobs.transforms.offset_retention import CANDIDATE_COLUMNS
from tests.integration.spark.rows import (
    CANDIDATES,
    DUE,
    JUST_NOW,
    LONG_AGO,
    NOW,
    candidate,
    find_candidates,
    find_forecasts,
    frame,
    group,
    offset,
)

KEY = "offsets_retention_minutes"
SECOND = timedelta(seconds=1)


def assert_candidates(spark: SparkSession, found: object, expected: list[Row]) -> None:
    assertDataFrameEqual(found, frame(spark, CANDIDATES, expected))


def test_offsets_of_an_empty_group_are_candidates_with_the_state_seen(spark: SparkSession) -> None:
    offsets = [offset("g", partition=p, shard_id=7, commit_version=40 + p, committed_at=JUST_NOW) for p in range(2)]
    found = find_candidates(spark, offsets, [group("g", generation=9, state_since=DUE)])
    expected = [
        candidate(
            "g", partition=p, shard_id=7, generation=9, state_since=DUE, commit_version=40 + p, committed_at=JUST_NOW
        )
        for p in range(2)
    ]
    assert_candidates(spark, found, expected)


def test_recently_emptied_group_keeps_old_offsets(spark: SparkSession) -> None:
    found = find_candidates(spark, [offset("g")], [group("g", state_since=JUST_NOW)])
    assert_candidates(spark, found, [])


def test_active_group_keeps_offsets_of_subscribed_topics(spark: SparkSession) -> None:
    live = group("g", state="Stable", subscribed_topics=["orders"])
    found = find_candidates(spark, [offset("g"), offset("g", "left")], [live])
    assert_candidates(spark, found, [candidate("g", "left", reason="topic_unsubscribed")])


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_a_rebalancing_group_keeps_everything(spark: SparkSession, state: str) -> None:
    found = find_candidates(spark, [offset("g", expires_at=LONG_AGO)], [group("g", state=state)])
    assert_candidates(spark, found, [])


def test_an_unknown_subscription_keeps_everything(spark: SparkSession) -> None:
    found = find_candidates(spark, [offset("g")], [group("g", state="Stable", subscribed_topics=None)])
    assert_candidates(spark, found, [])


def test_offsets_of_a_simple_group_expire_individually(spark: SparkSession) -> None:
    offsets = [offset("g", partition=0, committed_at=DUE), offset("g", partition=1, committed_at=DUE + SECOND)]
    found = find_candidates(spark, offsets, [group("g", protocol_type=None, generation=0, state_since=JUST_NOW)])
    expected = candidate("g", generation=0, state_since=JUST_NOW, committed_at=DUE, reason="simple_group")
    assert_candidates(spark, found, [expected])


def test_an_offset_without_a_group_row_counts_as_a_simple_group_s(spark: SparkSession) -> None:
    found = find_candidates(spark, [offset("old"), offset("new", committed_at=JUST_NOW)])
    assert_candidates(spark, found, [candidate("old", generation=None, state_since=None, reason="simple_group")])


def test_an_own_expiry_replaces_the_retention(spark: SparkSession) -> None:
    offsets = [offset("g", partition=0, expires_at=NOW), offset("g", partition=1, expires_at=NOW + SECOND)]
    found = find_candidates(spark, offsets, [group("g", state_since=JUST_NOW)])
    assert_candidates(spark, found, [candidate("g", state_since=JUST_NOW, reason="own_expiry")])


def test_no_offsets_lead_to_no_candidates_in_the_same_columns(spark: SparkSession) -> None:
    found = find_candidates(spark, [], [group("g")])
    assert tuple(found.columns) == CANDIDATE_COLUMNS
    assert_candidates(spark, found, [])


def test_the_narrower_retention_wins(spark: SparkSession) -> None:
    days = {"default": 8, "cluster": 9, "group": 10}
    as_minutes = {level: str(count * 24 * 60) for level, count in days.items()}
    offsets = [
        offset("plain", committed_at=NOW - timedelta(days=9)),
        offset("own", committed_at=NOW - timedelta(days=9)),
    ]
    groups = [group(group_id, protocol_type=None) for group_id in ("plain", "own")]
    default_ms = days["default"] * 24 * 60 * 60_000
    cluster = [Row(key=KEY, value=as_minutes["cluster"]), Row(key="group_max_size", value="1")]
    own = [Row(group_id="own", key=KEY, value=as_minutes["group"]), Row(group_id="plain", key="other", value="1")]

    def names(**settings: list[Row]) -> set[str]:
        found = find_candidates(spark, offsets, groups, retention_ms=default_ms, **settings)
        return {row.group_id for row in found.collect()}

    assert names() == {"plain", "own"}
    assert names(cluster_configs=cluster) == {"plain", "own"}
    assert names(cluster_configs=cluster, group_configs=own) == {"plain"}
    assert names(cluster_configs=[Row(key=KEY, value=as_minutes["group"])]) == set()


@pytest.mark.parametrize("value", ["-1", "for ever", "99999999999999999999", ""])
def test_unlimited_or_invalid_retention_expires_only_own_expiries(spark: SparkSession, value: str) -> None:
    offsets = [offset("g", partition=0), offset("g", partition=1, expires_at=NOW)]
    found = find_candidates(spark, offsets, [group("g")], group_configs=[Row(group_id="g", key=KEY, value=value)])
    assert_candidates(spark, found, [candidate("g", partition=1, reason="own_expiry")])


def test_late_commit_changes_the_result_and_a_second_run_does_not(spark: SparkSession) -> None:
    simple = [group("g", protocol_type=None)]
    before = [offset("g", partition=p) for p in range(2)]
    late = [offset("g", partition=0, committed_at=JUST_NOW, commit_version=2), before[1]]
    assertDataFrameEqual(find_candidates(spark, before, simple), find_candidates(spark, before, simple))
    assert_candidates(spark, find_candidates(spark, late, simple), [candidate("g", partition=1, reason="simple_group")])


# -- the forecast ---------------------------------------------------------------------------------------------

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FORECASTS = "group_id string, shard_id smallint, within_a_day bigint, within_a_week bigint, next_expiry_at timestamp"


def forecast(group_id: str, day: int, week: int, next_expiry_at: object) -> Row:
    return Row(group_id=group_id, shard_id=1, within_a_day=day, within_a_week=week, next_expiry_at=next_expiry_at)


def test_forecast_counts_expiries_by_group_for_a_day_and_a_week(spark: SparkSession) -> None:
    until = {"now": DUE, "in an hour": DUE + HOUR, "in a day": DUE + DAY, "after a day": DUE + DAY + SECOND}
    until |= {"in a week": DUE + 7 * DAY}
    offsets = [offset("simple", topic=name, committed_at=at) for name, at in until.items()]
    offsets += [offset("later", committed_at=DUE + 2 * DAY)]
    groups = [group(name, protocol_type=None) for name in ("simple", "later")]
    expected = [forecast("simple", 2, 4, NOW + HOUR), forecast("later", 0, 1, NOW + 2 * DAY)]
    assertDataFrameEqual(find_forecasts(spark, offsets, groups), frame(spark, FORECASTS, expected))


def test_forecast_uses_own_expiries_and_the_effective_retention(spark: SparkSession) -> None:
    offsets = [
        offset("expiring", expires_at=NOW + HOUR),
        offset("beyond", expires_at=NOW + 7 * DAY + SECOND),
        offset("for ever", committed_at=JUST_NOW),
        offset("live", committed_at=JUST_NOW),
    ]
    groups = [group("expiring"), group("beyond"), group("for ever", state_since=JUST_NOW)]
    groups += [group("live", state="Stable", subscribed_topics=["orders"])]
    own = [Row(group_id="for ever", key=KEY, value="-1")]
    found = find_forecasts(spark, offsets, groups, group_configs=own)
    assertDataFrameEqual(found, frame(spark, FORECASTS, [forecast("expiring", 1, 1, NOW + HOUR)]))


def test_nothing_to_expire_is_no_row(spark: SparkSession) -> None:
    assertDataFrameEqual(find_forecasts(spark, [offset("g")], [group("g")]), frame(spark, FORECASTS, []))
