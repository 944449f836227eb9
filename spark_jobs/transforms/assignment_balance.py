"""Join each group's members, lags and history, and apply the pure balance rule to the group and its topics.

The rule searches a graph of members and topics, which column expressions cannot do, so it runs in Python, group by
group.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from coordinator_core.analytics.balance import (
    AuditedGroup,
    AuditedMember,
    Partition,
    audit,
    trend_of,
)

MEMBER_COLUMNS = ("group_id", "shard_id", "generation", "member_id", "subscription", "assignment", "ownership")
LAG_COLUMNS = ("group_id", "topic", "partition", "lag")
LOSS_COLUMNS = ("group_id", "member_id", "topic", "partitions", "valid_to")
TOPIC_METADATA_COLUMNS = ("topic", "partitions")
SCORE_COLUMNS = ("group_id", "score_before")

BALANCE_COLUMNS = (
    "members",
    "idle_members",
    "partitions",
    "unassigned",
    "partitions_max",
    "partitions_mean",
    "lag_max",
    "lag_mean",
    "best_partitions_max",
    "misplaced",
    "has_better",
    "score",
    "moved",
    "moves_needed",
)
AUDIT_COLUMNS = ("group_id", "shard_id", "generation", "topics", *BALANCE_COLUMNS, "score_before", "trend")
TOPIC_COLUMNS = ("group_id", "shard_id", "topic", *BALANCE_COLUMNS)

JUDGEMENT = (
    "topic string, topics int, members int, idle_members int, partitions int, unassigned int, partitions_max int,"
    " partitions_mean double, lag_max bigint, lag_mean double, best_partitions_max int, misplaced int,"
    " has_better boolean, score smallint, moved int, moves_needed int, trend string"
)
JUDGED = ("group_id", "shard_id", "generation", "score_before", *(each.split()[0] for each in JUDGEMENT.split(", ")))
"""One row per group, with `topic` NULL, and one per topic, with `topics` and `trend` NULL."""


def judged(
    members: DataFrame, lags: DataFrame, losses: DataFrame, topic_partitions: DataFrame, scores_before: DataFrame
) -> DataFrame:
    """Evaluate the assignment of every group.

    Args:
        members: One row per member, MEMBER_COLUMNS; the last three are JSON texts, NULL if unknown.
        lags: One row per partition with a known log end offset, LAG_COLUMNS.
        losses: One row per partition ownership that ended with the present generation or before, LOSS_COLUMNS.
        topic_partitions: One row per topic, TOPIC_METADATA_COLUMNS.
        scores_before: At most one row per group, SCORE_COLUMNS.

    Returns:
        JUDGED; groups with a subscription that cannot be parsed have no row.
    """
    judge = sf.udf(_judge, f"array<struct<{JUDGEMENT}>>", useArrow=False)
    return (
        _by_group(members)
        .join(_topic_partitions_by_group(members, topic_partitions), on="group_id", how="left")
        .join(_lags_by_group(lags), on="group_id", how="left")
        .join(_losses_by_group(losses), on="group_id", how="left")
        .join(scores_before.select(*SCORE_COLUMNS), on="group_id", how="left")
        .withColumn(
            "judgement", sf.explode(judge("generation", "facts", "topic_partitions", "lags", "lost", "score_before"))
        )
        .select("group_id", "shard_id", "generation", "score_before", "judgement.*")
        .select(*JUDGED)
    )


def audits_of(judged: DataFrame) -> DataFrame:
    """Return one row per group, AUDIT_COLUMNS."""
    return judged.where(sf.col("topic").isNull()).select(*AUDIT_COLUMNS)


def topics_of(judged: DataFrame) -> DataFrame:
    """Return one row per group and topic, TOPIC_COLUMNS."""
    return judged.where(sf.col("topic").isNotNull()).select(*TOPIC_COLUMNS)


# -- one row per group ----------------------------------------------------------------------------------------


def _by_group(members: DataFrame) -> DataFrame:
    facts = sf.collect_list(sf.struct("member_id", "subscription", "assignment", "ownership"))
    by_group = members.groupBy("group_id", "shard_id", "generation").agg(
        facts.alias("facts"), sf.count_if(sf.col("subscription").isNull()).alias("unreadable")
    )
    return by_group.where(sf.col("unreadable") == 0).drop("unreadable")


def _topic_partitions_by_group(members: DataFrame, topic_partitions: DataFrame) -> DataFrame:
    topics = sf.from_json("subscription", "topics array<string>").getField("topics")
    read = members.select("group_id", sf.explode(topics).alias("topic")).distinct()
    known = read.join(topic_partitions.select(*TOPIC_METADATA_COLUMNS), on="topic", how="inner")
    return known.groupBy("group_id").agg(sf.collect_list(sf.struct("topic", "partitions")).alias("topic_partitions"))


def _lags_by_group(lags: DataFrame) -> DataFrame:
    return lags.groupBy("group_id").agg(sf.collect_list(sf.struct("topic", "partition", "lag")).alias("lags"))


def _losses_by_group(losses: DataFrame) -> DataFrame:
    each = losses.select("group_id", "member_id", "topic", "valid_to", sf.explode("partitions").alias("partition"))
    last = each.groupBy("group_id", "topic", "partition").agg(sf.max_by("member_id", "valid_to").alias("member_id"))
    return last.groupBy("group_id").agg(sf.collect_list(sf.struct("topic", "partition", "member_id")).alias("lost"))


# -- the rule, group by group ---------------------------------------------------------------------------------

Rows = Sequence[Mapping[str, Any]]


def _judge(
    generation: int,
    members: Rows,
    topic_partitions: Rows | None,
    lags: Rows | None,
    lost: Rows | None,
    before: int | None,
) -> list[tuple[Any, ...]]:
    """Evaluate a group and each of its topics, in the order of JUDGEMENT."""
    found = audit(
        AuditedGroup(
            generation=generation,
            members=[_member(row, generation) for row in sorted(members, key=lambda row: row["member_id"])],
            topic_partitions={row["topic"]: row["partitions"] for row in topic_partitions or ()},
            lags={(row["topic"], row["partition"]): row["lag"] for row in lags or ()},
            lost={(row["topic"], row["partition"]): row["member_id"] for row in lost or ()},
        )
    )
    whole = (None, len(found.topics), *astuple(found.group), trend_of(found.group.score, before))
    return [whole, *((topic, None, *astuple(balance), None) for topic, balance in found.topics.items())]


def _member(row: Mapping[str, Any], generation: int) -> AuditedMember:
    since = {
        (span["topic"], number): span["generation"]
        for span in json.loads(row["ownership"] or "[]")
        for number in span["partitions"]
    }
    topics = frozenset(json.loads(row["subscription"])["topics"])
    # A partition without a known start counts as assigned with the present generation.
    return AuditedMember(row["member_id"], topics, {each: since.get(each, generation) for each in _assigned(row)})


def _assigned(row: Mapping[str, Any]) -> Iterator[Partition]:
    for given in json.loads(row["assignment"] or "null") or ():
        for number in given["partitions"]:
            yield given["topic"], number
