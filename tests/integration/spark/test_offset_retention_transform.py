"""Tests of the offset_retention transform: only due offsets become candidates."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

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


# -- candidates -----------------------------------------------------------------------------------------------

Values = dict[str, Any]
REBALANCING = ("PreparingRebalance", "CompletingRebalance")
NOT_MINUTES = ("-1", "for ever", "99999999999999999999", "")
"""Retentions for ever, and texts that are no number of minutes."""


def values(row: Row) -> Values:
    """Return a row's values by column; Spark returns instants in local time without an offset."""
    return {name: each.astimezone(UTC) if isinstance(each, datetime) else each for name, each in row.asDict().items()}


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, list[Values]]:
    """Find the candidates of many groups at once; tests have groups of their own. Return them by group."""
    offsets = [
        *(offset("empty", partition=p, shard_id=7, commit_version=40 + p, committed_at=JUST_NOW) for p in range(2)),
        offset("just emptied"),
        *(offset("active", topic) for topic in ("orders", "left")),
        *(offset(state, expires_at=LONG_AGO) for state in REBALANCING),
        offset("unreadable"),
        *(offset("simple", partition=p, committed_at=DUE + p * SECOND) for p in range(2)),
        *(offset("without group", partition=p, committed_at=at) for p, at in enumerate((LONG_AGO, JUST_NOW))),
        *(offset("expiring", partition=p, expires_at=NOW + p * SECOND) for p in range(2)),
        *(
            offset(f"kept {text}", partition=p, expires_at=at)
            for text in NOT_MINUTES
            for p, at in enumerate((None, NOW))
        ),
    ]
    groups = [
        group("empty", generation=9, state_since=DUE),
        group("just emptied", state_since=JUST_NOW),
        group("active", state="Stable", subscribed_topics=["orders"]),
        *(group(state, state=state) for state in REBALANCING),
        group("unreadable", state="Stable", subscribed_topics=None),
        group("simple", protocol_type=None, generation=0, state_since=JUST_NOW),
        group("expiring", state_since=JUST_NOW),
        *(group(f"kept {text}") for text in NOT_MINUTES),
    ]
    settings = [Row(group_id=f"kept {text}", key=KEY, value=text) for text in NOT_MINUTES]
    by_group: dict[str, list[Values]] = {each.group_id: [] for each in offsets}
    for row in find_candidates(spark, offsets, groups, group_configs=settings).orderBy("partition").collect():
        by_group[row.group_id].append(values(row))
    return by_group


def one(group_id: str, **columns: Any) -> list[Values]:  # noqa: ANN401 - what `candidate` takes
    """Return the only candidate of a group."""
    return [values(candidate(group_id, **columns))]


def test_offsets_of_an_empty_group_are_candidates_with_the_state_seen(found: dict[str, list[Values]]) -> None:
    seen = {"shard_id": 7, "generation": 9, "state_since": DUE, "committed_at": JUST_NOW}
    assert found["empty"] == [row for p in range(2) for row in one("empty", partition=p, commit_version=40 + p, **seen)]


def test_recently_emptied_group_keeps_old_offsets(found: dict[str, list[Values]]) -> None:
    assert found["just emptied"] == []


def test_active_group_keeps_offsets_of_subscribed_topics(found: dict[str, list[Values]]) -> None:
    assert found["active"] == one("active", topic="left", reason="topic_unsubscribed")


@pytest.mark.parametrize("state", REBALANCING)
def test_a_rebalancing_group_keeps_everything(found: dict[str, list[Values]], state: str) -> None:
    assert found[state] == []


def test_an_unknown_subscription_keeps_everything(found: dict[str, list[Values]]) -> None:
    assert found["unreadable"] == []


def test_offsets_of_a_simple_group_expire_individually(found: dict[str, list[Values]]) -> None:
    assert found["simple"] == one("simple", generation=0, state_since=JUST_NOW, committed_at=DUE, reason="simple_group")


def test_an_offset_without_a_group_row_counts_as_a_simple_group_s(found: dict[str, list[Values]]) -> None:
    assert found["without group"] == one("without group", generation=None, state_since=None, reason="simple_group")


def test_an_own_expiry_replaces_the_retention(found: dict[str, list[Values]]) -> None:
    assert found["expiring"] == one("expiring", state_since=JUST_NOW, reason="own_expiry")


@pytest.mark.parametrize("value", NOT_MINUTES)
def test_unlimited_or_invalid_retention_expires_only_own_expiries(found: dict[str, list[Values]], value: str) -> None:
    assert found[f"kept {value}"] == one(f"kept {value}", partition=1, reason="own_expiry")


def test_no_offsets_lead_to_no_candidates_in_the_same_columns(spark: SparkSession) -> None:
    found = find_candidates(spark, [], [group("g")])
    assert found.schema.simpleString() == frame(spark, CANDIDATES, []).schema.simpleString()
    assert found.collect() == []


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
    assert names(cluster_configs=cluster, group_configs=own) == {"plain"}
    assert names(cluster_configs=[Row(key=KEY, value=as_minutes["group"])]) == set()


# -- the forecast ---------------------------------------------------------------------------------------------

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FORECASTS = "group_id string, shard_id smallint, within_a_day bigint, within_a_week bigint, next_expiry_at timestamp"


def forecast(group_id: str, day: int, week: int, next_expiry_at: datetime) -> Values:
    row = Row(group_id=group_id, shard_id=1, within_a_day=day, within_a_week=week, next_expiry_at=next_expiry_at)
    return values(row)


def test_nothing_to_expire_is_no_row_in_the_same_columns(spark: SparkSession) -> None:
    found = find_forecasts(spark, [], [group("g")])
    assert found.schema.simpleString() == frame(spark, FORECASTS, []).schema.simpleString()
    assert found.collect() == []


@pytest.fixture(scope="module")
def forecasts(spark: SparkSession) -> dict[str, Values]:
    """Forecast what many groups will lose; return the rows by group."""
    until = {"now": DUE, "in an hour": DUE + HOUR, "in a day": DUE + DAY, "after a day": DUE + DAY + SECOND}
    until |= {"in a week": DUE + 7 * DAY}
    offsets = [
        *(offset("simple", topic=name, committed_at=at) for name, at in until.items()),
        offset("later", committed_at=DUE + 2 * DAY),
        offset("expiring", expires_at=NOW + HOUR),
        offset("beyond", expires_at=NOW + 7 * DAY + SECOND),
        offset("for ever", committed_at=JUST_NOW),
        offset("live", committed_at=JUST_NOW),
        offset("due already"),
    ]
    groups = [
        *(group(name, protocol_type=None) for name in ("simple", "later")),
        *(group(name) for name in ("expiring", "beyond", "due already")),
        group("for ever", state_since=JUST_NOW),
        group("live", state="Stable", subscribed_topics=["orders"]),
    ]
    own = [Row(group_id="for ever", key=KEY, value="-1")]
    return {row.group_id: values(row) for row in find_forecasts(spark, offsets, groups, group_configs=own).collect()}


def test_forecast_counts_expiries_by_group_for_a_day_and_a_week(forecasts: dict[str, Values]) -> None:
    assert forecasts["simple"] == forecast("simple", 2, 4, NOW + HOUR)
    assert forecasts["later"] == forecast("later", 0, 1, NOW + 2 * DAY)


def test_forecast_uses_own_expiries_and_the_effective_retention(forecasts: dict[str, Values]) -> None:
    assert forecasts["expiring"] == forecast("expiring", 1, 1, NOW + HOUR)
    assert forecasts.keys() & {"beyond", "for ever", "live"} == set()


def test_what_is_due_already_is_not_forecast(forecasts: dict[str, Values]) -> None:
    assert "due already" not in forecasts
