"""Property tests that compare the frequency rules' column expressions with the pure functions."""

from dataclasses import astuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, SparkSession, Window
from pyspark.sql import functions as sf

from coordinator_core.analytics.frequency import HIGH, MEDIAN, Thresholds
from coordinator_core.analytics.waiting import Wait, rank_waits
from spark_jobs.rules import frequency as rules
from spark_jobs.transforms.rebalance_frequency import (
    CONSUMER_COLUMNS,
    WAIT_COLUMNS,
    longest_waits,
    spurious_evictions,
)
from tests.support.frequency_rules import (
    Consumer,
    Life,
    churn_periods,
    existed_ms,
    is_back_within_grace,
    is_churning,
    is_same_consumer,
    is_successor,
    percentile,
    rebalancing_share,
)

THRESHOLDS = Thresholds(grace_ms=10, churn_min_rebalances=3, churn_window_ms=100, stuck_ms=1_000, stuck_restarts=10)

# A failure lists all differing rows, so shrinking an example would cost minutes without benefit.
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)

starts = st.lists(st.integers(0, 600), max_size=14).map(sorted)


@settings(max_examples=4, phases=UNSHRUNK)
@given(st.lists(starts, min_size=20, max_size=40))
def test_churn_periods_and_lengths_equal_the_pure_rules(spark: SparkSession, groups: list[list[int]]) -> None:
    rows = [(name, start_ms) for name, starts_ms in enumerate(groups) for start_ms in starts_ms]
    frame = spark.createDataFrame(rows, "name long, ms long")
    in_order = Window.partitionBy("name").orderBy("ms")
    begins = rules.begins_churn_window(sf.col("ms"), in_order, THRESHOLDS)
    marked = frame.withColumn("begins", begins).select(
        "name",
        "ms",
        rules.begins_churn(sf.col("begins"), in_order, THRESHOLDS).alias("begins_churn"),
        rules.is_in_churn(sf.col("begins"), in_order, THRESHOLDS).alias("is_in_churn"),
    )
    found = marked.groupBy("name").agg(
        sf.count_if("begins_churn"), sf.count_if("is_in_churn"), rules.median("ms"), rules.high("ms")
    )
    by_the_pure_rules = {
        (name, *churn_periods(starts_ms, THRESHOLDS), percentile(starts_ms, MEDIAN), percentile(starts_ms, HIGH))
        for name, starts_ms in enumerate(groups)
        if starts_ms
    }
    assert set(map(tuple, found.collect())) == by_the_pure_rules


consumers = st.builds(
    Consumer,
    member_id=st.uuids().map(str),
    instance_id=st.none() | st.sampled_from(["pod-1", "pod-2"]),
    client_id=st.sampled_from("xy"),
    host=st.sampled_from(["h", "i"]),
)
evicted = st.lists(st.tuples(consumers, st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=6)
joined = st.lists(st.tuples(consumers, st.integers(0, 40)), max_size=6)
CONSUMER_TYPES = "group_id long, shard_id int, member_id string, group_instance_id string, client_id string"


@settings(max_examples=4, phases=UNSHRUNK)
@given(st.lists(st.tuples(evicted, joined), min_size=40, max_size=80))
def test_spurious_evictions_are_those_of_the_pure_rules(
    spark: SparkSession, groups: list[tuple[list[tuple[Consumer, int, int]], list[tuple[Consumer, int]]]]
) -> None:
    def at(name: str) -> Column:
        return sf.timestamp_millis(name).alias(name)

    gone = [(name, 1, *astuple(each), *ms) for name, (some, _) in enumerate(groups) for each, *ms in some]
    back = [(name, 1, *astuple(each), ms) for name, (_, some) in enumerate(groups) for each, ms in some]
    evictions = spark.createDataFrame(gone, f"{CONSUMER_TYPES}, client_host string, silent_since long, ended_at long")
    evictions = evictions.select(*CONSUMER_COLUMNS, at("silent_since"), at("ended_at"))
    joins = spark.createDataFrame(back, f"{CONSUMER_TYPES}, client_host string, joined_at long")
    found = spurious_evictions(
        evictions.withColumn("group_created_at", sf.col("ended_at")),
        joins.select(*CONSUMER_COLUMNS, at("joined_at")),
        THRESHOLDS.grace_ms,
    )
    assert {row.group_id: (row.evicted, row.spuriously_evicted) for row in found.collect()} == {
        name: (len(some), sum(_is_spurious(*each, joins_of) for each in some))
        for name, (some, joins_of) in enumerate(groups)
    }


def _is_spurious(gone: Consumer, silent_since_ms: int, gone_at_ms: int, joins: list[tuple[Consumer, int]]) -> bool:
    same = [ms for consumer, ms in joins if is_same_consumer(gone, consumer)]
    is_back = any(is_back_within_grace(gone_at_ms, ms, THRESHOLDS.grace_ms) for ms in same)
    return is_back and not any(is_successor(silent_since_ms, ms, gone_at_ms) for ms in same)


def test_evictions_are_not_compared_with_every_join_of_their_consumer(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Behind a proxy all members may seem one consumer: the time would be quadratic in the evictions of a group."""
    text = {name: sf.col("id").cast("string").alias(name) for name in CONSUMER_COLUMNS}
    some, at = spark.range(5).where("id > 1"), sf.timestamp_seconds("id")
    of_evictions = (at.alias(name) for name in ("group_created_at", "ended_at", "silent_since"))
    joins = some.select(*text.values(), at.alias("joined_at"))
    spurious_evictions(some.select(*text.values(), *of_evictions), joins, grace_ms=10).explain()
    plan = capsys.readouterr().out
    assert "Window" in plan
    assert "Join" not in plan


def test_stuck_group_is_reported_as_by_the_pure_rule(spark: SparkSession) -> None:
    cases = [(ms, restarts) for ms in (None, 0, 999, 1_000) for restarts in (0, 9, 10)]
    frame = spark.createDataFrame(cases, "ms long, restarts int")
    answers = frame.select(rules.is_churning(sf.col("ms"), sf.col("restarts"), THRESHOLDS)).collect()
    assert [answer[0] for answer in answers] == [is_churning(*case, THRESHOLDS) for case in cases]


lives = st.builds(Life, st.integers(0, 300), st.none() | st.integers(0, 300))


@settings(max_examples=4, phases=UNSHRUNK)
@given(st.lists(st.tuples(lives, st.integers(0, 50)), min_size=40, max_size=80))
def test_lifetimes_and_shares_equal_the_pure_rules(spark: SparkSession, cases: list[tuple[Life, int]]) -> None:
    rows = [(life.created_at_ms, life.died_at_ms, spent_ms) for life, spent_ms in cases]
    frame = spark.createDataFrame(rows, "created long, died long, spent long")
    lived = rules.existed_ms(sf.col("created"), sf.col("died"), 100, 200)
    found = frame.select(lived, rules.rebalancing_share(sf.col("spent"), lived)).collect()
    expected = [existed_ms([life], 100, 200) for life, _ in cases]
    shares = [rebalancing_share(spent_ms, ms) for (_, spent_ms), ms in zip(cases, expected, strict=True)]
    assert list(map(tuple, found)) == list(zip(expected, shares, strict=True))


waits = st.builds(
    Wait,
    member_id=st.uuids().map(str),
    group_instance_id=st.none() | st.just("pod"),
    client_id=st.sampled_from("xy"),
    client_host=st.none() | st.just("h"),
    waited_for_ms=st.integers(1, 4),
)


@settings(max_examples=4, phases=UNSHRUNK)
@given(st.lists(st.lists(waits, min_size=1, max_size=8), min_size=20, max_size=40))
def test_longest_wait_of_a_group_equals_the_pure_rule(spark: SparkSession, groups: list[list[Wait]]) -> None:
    rows = [
        (str(name), 1, each.member_id, each.group_instance_id, each.client_id, each.client_host, each.waited_for_ms)
        for name, waited in enumerate(groups)
        for each in waited
    ]
    types = ("string", "short", "string", "string", "string", "string", "long")
    schema = ", ".join(f"{name} {kind}" for name, kind in zip(WAIT_COLUMNS, types, strict=True))
    found = {
        row.group_id: (row.waited_for_member_id, row.waited_for_members, row.waited_for_ms)
        for row in longest_waits(spark.createDataFrame(rows, schema)).collect()
    }
    first = {str(name): rank_waits(waited)[0] for name, waited in enumerate(groups)}
    assert found == {
        name: (each.longest.member_id, each.member_count, each.waited_for_ms) for name, each in first.items()
    }
