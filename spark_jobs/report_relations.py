"""Queries of the reports, which preselect rows in Postgres.

Rules:

* Joins run in Postgres, so that related rows are read in one snapshot.
* Every query returns `shard_id`, by which Spark reads it in parallel.
* Tables that are partitioned by time are restricted by that time, so that irrelevant days are not scanned.
* A query on history is a `Relation`, which Spark can run too if days are in the archive.
"""

from datetime import datetime, timedelta

from coordinator_core.analytics.advice.evidence import EXIT_REASONS, REBALANCE_TIMEOUT, SESSION_EXPIRED
from coordinator_core.analytics.frequency import EVICTION_REASONS
from coordinator_core.protocol.consumer_protocol import CONSUMER
from coordinator_core.protocol.states import DEAD, STABLE
from spark_jobs.history import Relation, TablePeriod, instant

# -- assignment balance -----------------------------------------------------------------------------------------

_PARTITIONS = '@.topic.type() == "string" && @.partitions.type() == "array"'
_OTHER_TOPICS = """'strict $.topics[*] ? (@.type() != "string")', '{}', true"""
_OTHER_PARTITIONS = """'strict $[*].partitions[*] ? (@.type() != "number")', '{}', true"""
_CAN_BE_READ = f"""(
    jsonb_typeof(subscription -> 'topics') = 'array'
    AND NOT jsonb_path_exists(subscription, {_OTHER_TOPICS})
    AND jsonb_typeof(ownership) = 'array'
    AND NOT jsonb_path_exists(ownership, '$[*] ? (!({_PARTITIONS} && @.generation.type() == "number"))')
    AND NOT jsonb_path_exists(ownership, {_OTHER_PARTITIONS})
    AND (assignment IS NULL
        OR jsonb_typeof(assignment) = 'array' AND NOT jsonb_path_exists(assignment, '$[*] ? (!({_PARTITIONS}))')
        AND NOT jsonb_path_exists(assignment, {_OTHER_PARTITIONS}))
)"""
"""Whether a member's row can be parsed: a manually damaged row must not stop the audit of other groups."""

_IS_AUDITED = f"owner.state = '{STABLE.value}' AND owner.protocol_type = '{CONSUMER}'"

AUDITED_MEMBERS = f"""(
SELECT owner.group_id, owner.shard_id, owner.generation, member_id,
    CASE WHEN {_CAN_BE_READ} THEN subscription::text END AS subscription,
    assignment::text AS assignment, ownership::text AS ownership
FROM groups AS owner JOIN members ON members.group_id = owner.group_id
WHERE {_IS_AUDITED}
) AS audited_members"""  # noqa: S608 - words of the protocol
"""One row per member of a Stable group whose assignment can be parsed."""

AUDITED_LAGS = f"""(
SELECT owner.group_id, owner.shard_id, topic, partition, greatest(log_end_offset - committed_offset, 0) AS lag
FROM groups AS owner JOIN dashboards.known_log_ends AS known ON known.group_id = owner.group_id
WHERE {_IS_AUDITED} AND log_end_offset IS NOT NULL
) AS audited_lags"""  # noqa: S608 - likewise
"""One row per committed partition whose log end offset is known."""

_GENERATIONS = """
{join} JOIN LATERAL (
    SELECT completed_at FROM {{rebalances}}
    WHERE group_id = owner.group_id AND group_created_at = owner.created_at AND outcome = 'completed'
    ORDER BY completed_at DESC LIMIT 1
) AS present ON true
{join} JOIN LATERAL (
    SELECT completed_at FROM {{rebalances}}
    WHERE group_id = owner.group_id AND group_created_at = owner.created_at AND outcome IN ('completed', 'emptied')
        AND completed_at < present.completed_at
    ORDER BY completed_at DESC LIMIT 1
) AS former ON true
"""
"""Joins for the starts of a group's present generation and of the previous one."""

AUDITED_SINCE = f"""(
SELECT floor(extract(epoch FROM min(coalesce(former.completed_at, owner.created_at))))::bigint AS since_s
FROM groups AS owner {_GENERATIONS.format(join="LEFT").format(rebalances="rebalances")} WHERE {_IS_AUDITED}
) AS audited_since"""  # noqa: S608 - likewise
"""One row: the oldest instant of history that an audit needs, in seconds; NULL without audited groups.

If a group's previous generation is not found, there was none or it is archived, so its whole lifetime is needed.
"""


def losses_since(start: datetime) -> Relation:
    """Return the partition ownership that ended with the previous generation of each group or later, since an instant.

    What ended with the previous generation itself had no owner in it, or else an owner whose ownership is newer.
    """
    text = f"""
SELECT owner.group_id, owner.shard_id, lost.member_id, lost.topic, lost.partitions, lost.valid_to
FROM {{groups}} AS owner {_GENERATIONS.format(join="INNER")}
JOIN {{partition_ownership}} AS lost ON lost.group_id = owner.group_id AND lost.group_created_at = owner.created_at
    AND lost.valid_to >= former.completed_at AND lost.valid_to <= present.completed_at
WHERE {_IS_AUDITED}
"""  # noqa: S608 - likewise
    return Relation(
        "audited_losses",
        text,
        (TablePeriod("rebalances", start), TablePeriod("partition_ownership", start)),
        ("groups",),
    )


def scores_before(end: datetime) -> str:
    """Return each group's score in its newest audit before an instant, and since the group was created."""
    return f"""(
SELECT DISTINCT ON (group_id) group_id, audited.shard_id, score AS score_before
FROM assignment_balance_audits AS audited JOIN groups USING (group_id)
WHERE interval_end < {instant(end)} AND as_of >= created_at
ORDER BY group_id, interval_end DESC, interval_start DESC
) AS scores_before"""  # noqa: S608 - an instant


# -- rebalance frequency ----------------------------------------------------------------------------------------

MAX_SESSION_DELAY = timedelta(days=7)
"""A member session has a row (its end or its first interval) within this time, unless no node runs."""


def rebalances_within(start: datetime, end: datetime) -> Relation:
    """Return the rebalances that overlap an interval; those in progress have no outcome."""
    text = f"""
SELECT group_id, shard_id, group_created_at, trigger, outcome, started_at, completed_at, restarts
FROM {{rebalances}} WHERE completed_at >= {instant(start)} AND started_at < {instant(end)}
UNION ALL
SELECT group_id, shard_id, created_at, rebalance_trigger, NULL, rebalance_started_at, NULL, 0
FROM {{groups}} WHERE rebalance_started_at < {instant(end)}
"""  # noqa: S608 - instants
    return Relation("rebalances_within", text, (TablePeriod("rebalances", start),), present=("groups",))


def lifetimes_within(start: datetime, end: datetime) -> Relation:
    """Return the groups created or deleted within an interval; `died_at` is NULL for a creation."""
    text = f"""
SELECT group_id, shard_id, group_created_at, CASE WHEN to_state = '{DEAD.value}' THEN at END AS died_at
FROM {{group_transitions}}
WHERE at >= {instant(start)} AND at < {instant(end)} AND (to_state = '{DEAD.value}' OR from_state IS NULL)
"""  # noqa: S608 - instants, and a word of the protocol
    return Relation("lifetimes_within", text, (TablePeriod("group_transitions", start, end),))


def waits_within(start: datetime, end: datetime) -> Relation:
    """Return the awaited members of rebalances that ended within an interval."""
    text = f"""
SELECT group_id, shard_id, member_id, group_instance_id, client_id, client_host, waited_for_ms
FROM {{rebalance_members}}
WHERE completed_at >= {instant(start)} AND completed_at < {instant(end)} AND waited_for_ms > 0
"""  # noqa: S608 - likewise
    return Relation("waits_within", text, (TablePeriod("rebalance_members", start, end),))


def evictions_within(start: datetime, end: datetime) -> Relation:
    """Return the members that were evicted within an interval."""
    reasons = ", ".join(f"'{reason}'" for reason in EVICTION_REASONS)
    text = f"""
SELECT group_id, shard_id, group_created_at, member_id, group_instance_id, client_id, client_host, ended_at,
    coalesce(last_heartbeat_at, started_at) AS silent_since
FROM {{member_sessions}}
WHERE ended_at >= {instant(start)} AND ended_at < {instant(end)} AND end_reason IN ({reasons})
"""  # noqa: S608 - likewise, and words of ours
    return Relation("evictions_within", text, (TablePeriod("member_sessions", start, end),))


def joins_within(start: datetime, end: datetime) -> Relation:
    """Return the members that joined within an interval, including its end, whether they are still members or not."""
    reported_until = end + MAX_SESSION_DELAY
    text = f"""
SELECT group_id, shard_id, member_id, group_instance_id, client_id, client_host, joined_at
FROM {{member_sessions}}
WHERE ended_at >= {instant(start)} AND ended_at < {instant(reported_until)}
    AND joined_at BETWEEN {instant(start)} AND {instant(end)}
UNION
SELECT group_id, shard_id, member_id, group_instance_id, client_id, client_host, joined_at
FROM {{members}} WHERE joined_at BETWEEN {instant(start)} AND {instant(end)}
"""  # noqa: S608 - likewise
    return Relation(
        "joins_within", text, (TablePeriod("member_sessions", start, reported_until),), present=("members",)
    )


# -- timeout advice -----------------------------------------------------------------------------------------------

MAX_FIRST_REPORT_DELAY = timedelta(days=1)
"""Like MAX_SESSION_DELAY; advice may miss members that rejoined before all nodes were down for a day."""


def sessions_within(start: datetime, end: datetime) -> Relation:
    """Return the heartbeat statistics of member sessions and session intervals that ended within a window.

    Those of mirrored groups are NULL.
    """
    text = f"""
SELECT group_id, shard_id, session_timeout_ms, ended_at, heartbeat_count, heartbeat_gap_ms_max, heartbeat_gap_histogram
FROM {{member_sessions}} WHERE ended_at >= {instant(start)} AND ended_at < {instant(end)}
"""  # noqa: S608 - likewise
    return Relation("sessions_within", text, (TablePeriod("member_sessions", start, end),), at="ended_at")


def evictions_and_exits_within(start: datetime, end: datetime) -> Relation:
    """Return the members evicted within a window, and those without an instance id that left."""
    text = f"""
SELECT group_id, shard_id, member_id, group_instance_id, client_id, client_host, session_timeout_ms, ended_at,
    end_reason, coalesce(last_heartbeat_at, started_at) AS silent_since
FROM {{member_sessions}}
WHERE ended_at >= {instant(start)} AND ended_at < {instant(end)}
    AND (end_reason IN ('{SESSION_EXPIRED}', '{REBALANCE_TIMEOUT}')
        OR end_reason IN {EXIT_REASONS} AND group_instance_id IS NULL)
"""  # noqa: S608 - likewise
    return Relation("evictions_and_exits_within", text, (TablePeriod("member_sessions", start, end),), at="ended_at")


def reconnects_within(start: datetime, end: datetime, grace: timedelta) -> Relation:
    """Return the joins within a window and its grace, once for each row of their sessions."""
    begun = end + grace + timedelta(milliseconds=1)
    reported_until = end + grace + MAX_FIRST_REPORT_DELAY
    text = f"""
SELECT group_id, shard_id, member_id, group_instance_id, client_id, client_host, joined_at, ended_at AS told_at
FROM {{member_sessions}}
WHERE ended_at >= {instant(start)} AND ended_at < {instant(reported_until)}
    AND joined_at >= {instant(start)} AND joined_at < {instant(begun)}
UNION ALL
SELECT group_id, shard_id, member_id, group_instance_id, client_id, client_host, joined_at, joined_at
FROM {{members}} WHERE joined_at >= {instant(start)} AND joined_at < {instant(begun)}
"""  # noqa: S608 - likewise
    return Relation(
        "reconnects_within",
        text,
        (TablePeriod("member_sessions", start, reported_until),),
        present=("members",),
        at="told_at",
    )


def missed_waits_within(start: datetime, end: datetime) -> Relation:
    """Return the members that did not join rebalances which ended within a window."""
    # Both tables are partitioned, and Postgres does not derive a range for one from the other.
    text = f"""
SELECT part.group_id, part.shard_id, part.member_id, part.waited_for_ms, past.started_at, past.completed_at
FROM {{rebalances}} AS past
JOIN {{rebalance_members}} AS part
    ON (part.rebalance_id, part.completed_at) = (past.rebalance_id, past.completed_at)
    AND part.completed_at >= {instant(start)} AND part.completed_at < {instant(end)}
WHERE past.completed_at >= {instant(start)} AND past.completed_at < {instant(end)} AND part.outcome = 'evicted'
"""  # noqa: S608 - likewise
    return Relation(
        "missed_waits_within",
        text,
        (TablePeriod("rebalances", start, end), TablePeriod("rebalance_members", start, end)),
    )


def rejoins_within(start: datetime, end: datetime) -> Relation:
    """Return the awaited members of rebalances that ended within a window, with their times."""
    text = f"""
SELECT rebalance_id, group_id, shard_id, completed_at, outcome, joined_after_ms, waited_for_ms
FROM {{rebalance_members}}
WHERE completed_at >= {instant(start)} AND completed_at < {instant(end)} AND waited_for_ms > 0
"""  # noqa: S608 - likewise
    return Relation("rejoins_within", text, (TablePeriod("rebalance_members", start, end),), at="completed_at")


def ended_rebalances_within(start: datetime, end: datetime) -> Relation:
    """Return the rebalances that ended within a window."""
    text = f"""
SELECT group_id, shard_id, trigger, outcome, started_at, completed_at, partitions_moved
FROM {{rebalances}}
WHERE completed_at >= {instant(start)} AND completed_at < {instant(end)}
"""  # noqa: S608 - likewise
    return Relation("ended_rebalances_within", text, (TablePeriod("rebalances", start, end),), at="completed_at")


def new_member_rebalances_within(start: datetime, end: datetime) -> Relation:
    """Return the rebalances that were triggered by new members and ended within a window."""
    text = f"""
SELECT group_id, shard_id, started_at, joined_at, completed_at, restarts, member_count_before
FROM {{rebalances}}
WHERE completed_at >= {instant(start)} AND completed_at < {instant(end)} AND trigger = 'member_joined'
"""  # noqa: S608 - likewise
    return Relation("new_member_rebalances_within", text, (TablePeriod("rebalances", start, end),), at="completed_at")


ASSIGNED = """(
SELECT owner.group_id, owner.shard_id, owner.protocol_name,
    coalesce(sum(CASE WHEN jsonb_typeof(topic -> 'partitions') = 'array'
        THEN jsonb_array_length(topic -> 'partitions') END), 0)::bigint AS partitions
FROM groups AS owner
LEFT JOIN members ON members.group_id = owner.group_id
LEFT JOIN LATERAL jsonb_array_elements(
    CASE WHEN jsonb_typeof(assignment) = 'array' THEN assignment ELSE '[]' END
) AS topic ON true
GROUP BY owner.group_id, owner.shard_id, owner.protocol_name
) AS assigned"""
"""One row per group: its present protocol and the number of assigned partitions."""
