"""A group's members, lags and history come together in one row, and the pure rule judges it, and each of its topics.

The rule is a walk over a graph of members and topics, which no column expression says: it runs in Python, group by
group.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from coordinator_core.protocol.reports.balance import (
    GroupFacts,
    MemberFacts,
    Partition,
    audit,
    trend_of,
)

MEMBER_COLUMNS = ("group_id", "shard_id", "generation", "member_id", "subscription", "assignment", "held")
LAG_COLUMNS = ("group_id", "topic", "partition", "lag")
LOSS_COLUMNS = ("group_id", "member_id", "topic", "partitions", "valid_to")
CATALOGUE_COLUMNS = ("topic", "partitions")
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
"""A row a group, of which `topic` is NULL, and one a topic of it, of which `topics` and `trend` are NULL."""


def judged(
    members: DataFrame, lags: DataFrame, losses: DataFrame, catalogue: DataFrame, scores_before: DataFrame
) -> DataFrame:
    """Judge the assignment of every group.

    Args:
        members: A row a member, MEMBER_COLUMNS; the last three are JSON as text, or NULL where unknown.
        lags: A row a partition whose end is known, LAG_COLUMNS.
        losses: A row an ownership that ended with the present generation or before it, LOSS_COLUMNS.
        catalogue: A row a topic, CATALOGUE_COLUMNS.
        scores_before: At most a row a group, SCORE_COLUMNS.

    Returns:
        JUDGED; a group with a member whose subscription cannot be read has no row.
    """
    judge = sf.udf(_judge, f"array<struct<{JUDGEMENT}>>", useArrow=False)
    return (
        _by_group(members)
        .join(_catalogue_by_group(members, catalogue), on="group_id", how="left")
        .join(_lags_by_group(lags), on="group_id", how="left")
        .join(_losses_by_group(losses), on="group_id", how="left")
        .join(scores_before.select(*SCORE_COLUMNS), on="group_id", how="left")
        .withColumn("judgement", sf.explode(judge("generation", "facts", "catalogue", "lags", "lost", "score_before")))
        .select("group_id", "shard_id", "generation", "score_before", "judgement.*")
        .select(*JUDGED)
    )


def audits_of(judged: DataFrame) -> DataFrame:
    """Return a row a group, AUDIT_COLUMNS."""
    return judged.where(sf.col("topic").isNull()).select(*AUDIT_COLUMNS)


def topics_of(judged: DataFrame) -> DataFrame:
    """Return a row a group and topic, TOPIC_COLUMNS."""
    return judged.where(sf.col("topic").isNotNull()).select(*TOPIC_COLUMNS)


# -- a row a group --------------------------------------------------------------------------------------------


def _by_group(members: DataFrame) -> DataFrame:
    everybody = sf.collect_list(sf.struct("member_id", "subscription", "assignment", "held"))
    by_group = members.groupBy("group_id", "shard_id", "generation").agg(
        everybody.alias("facts"), sf.count_if(sf.col("subscription").isNull()).alias("unreadable")
    )
    return by_group.where(sf.col("unreadable") == 0).drop("unreadable")


def _catalogue_by_group(members: DataFrame, catalogue: DataFrame) -> DataFrame:
    topics = sf.from_json("subscription", "topics array<string>").getField("topics")
    read = members.select("group_id", sf.explode(topics).alias("topic")).distinct()
    known = read.join(catalogue.select(*CATALOGUE_COLUMNS), on="topic", how="inner")
    return known.groupBy("group_id").agg(sf.collect_list(sf.struct("topic", "partitions")).alias("catalogue"))


def _lags_by_group(lags: DataFrame) -> DataFrame:
    return lags.groupBy("group_id").agg(sf.collect_list(sf.struct("topic", "partition", "lag")).alias("lags"))


def _losses_by_group(losses: DataFrame) -> DataFrame:
    each = losses.select("group_id", "member_id", "topic", "valid_to", sf.explode("partitions").alias("partition"))
    last = each.groupBy("group_id", "topic", "partition").agg(sf.max_by("member_id", "valid_to").alias("member_id"))
    return last.groupBy("group_id").agg(sf.collect_list(sf.struct("topic", "partition", "member_id")).alias("lost"))


# -- the rule, group by group ---------------------------------------------------------------------------------

Rows = Sequence[Mapping[str, Any]]


def _judge(
    generation: int, members: Rows, catalogue: Rows | None, lags: Rows | None, lost: Rows | None, before: int | None
) -> list[tuple[Any, ...]]:
    """Judge a group and each of its topics, in the order of JUDGEMENT."""
    found = audit(
        GroupFacts(
            generation=generation,
            members=[_member(row, generation) for row in sorted(members, key=lambda row: row["member_id"])],
            catalogue={row["topic"]: row["partitions"] for row in catalogue or ()},
            lags={(row["topic"], row["partition"]): row["lag"] for row in lags or ()},
            lost={(row["topic"], row["partition"]): row["member_id"] for row in lost or ()},
        )
    )
    whole = (None, len(found.topics), *astuple(found.group), trend_of(found.group.score, before))
    return [whole, *((topic, None, *astuple(balance), None) for topic, balance in found.topics.items())]


def _member(row: Mapping[str, Any], generation: int) -> MemberFacts:
    since = {
        (span["topic"], number): span["generation"]
        for span in json.loads(row["held"] or "[]")
        for number in span["partitions"]
    }
    topics = frozenset(json.loads(row["subscription"])["topics"])
    # What nothing is known of counts as given with the present generation.
    return MemberFacts(row["member_id"], topics, {each: since.get(each, generation) for each in _assigned(row)})


def _assigned(row: Mapping[str, Any]) -> Iterator[Partition]:
    for given in json.loads(row["assignment"] or "null") or ():
        for number in given["partitions"]:
            yield given["topic"], number
