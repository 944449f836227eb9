"""What reports read, as Postgres narrows it before Spark sees a row.

Rules:

* A relation joins what belongs together in Postgres, so that it is read at one moment.
* Every relation has `shard_id`, by which Spark reads it in parallel.
* Whatever is partitioned by time is asked for by that time, so days that cannot matter are not looked at.
* What reads history is a `Relation`, which Spark can run as well where days lie in the archive.
"""

from datetime import datetime, timedelta

from coordinator_core.protocol.reports.frequency import SILENCES
from coordinator_core.protocol.retention import CONSUMER
from coordinator_core.protocol.states import DEAD, STABLE
from spark_jobs.history import Relation, Span, instant
from spark_jobs.rules.advised import LEFT, REBALANCE_TIMEOUT, SESSION_EXPIRED

# -- how evenly groups' partitions are spread -------------------------------------------------------------------

_PARTITIONS = '@.topic.type() == "string" && @.partitions.type() == "array"'
_CAN_BE_READ = f"""(
    jsonb_typeof(subscription -> 'topics') = 'array'
    AND jsonb_typeof(held) = 'array'
    AND NOT jsonb_path_exists(held, '$[*] ? (!({_PARTITIONS} && @.generation.type() == "number"))')
    AND (assignment IS NULL
        OR jsonb_typeof(assignment) = 'array' AND NOT jsonb_path_exists(assignment, '$[*] ? (!({_PARTITIONS}))'))
)"""
"""Of a member's row; one that people have changed so that it cannot be read must not stop the audit of other groups."""

_IS_AUDITED = f"owner.state = '{STABLE.value}' AND owner.protocol_type = '{CONSUMER}'"

AUDITED_MEMBERS = f"""(
SELECT owner.group_id, owner.shard_id, owner.generation, member_id,
    CASE WHEN {_CAN_BE_READ} THEN subscription::text END AS subscription,
    assignment::text AS assignment, held::text AS held
FROM groups AS owner JOIN members ON members.group_id = owner.group_id
WHERE {_IS_AUDITED}
) AS audited_members"""  # noqa: S608 - words of the protocol
"""A row a member of a group whose assignment stands and can be read."""

AUDITED_LAGS = f"""(
SELECT owner.group_id, owner.shard_id, topic, partition, greatest(log_end_offset - committed_offset, 0) AS lag
FROM groups AS owner JOIN dashboards.known_log_ends AS known ON known.group_id = owner.group_id
WHERE {_IS_AUDITED} AND log_end_offset IS NOT NULL
) AS audited_lags"""  # noqa: S608 - likewise
"""A row a committed partition whose end is known."""

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
"""When a group's present generation began, and the one before."""

AUDITED_SINCE = f"""
SELECT min(coalesce(former.completed_at, owner.created_at))
FROM groups AS owner {_GENERATIONS.format(join="LEFT").format(rebalances="rebalances")} WHERE {_IS_AUDITED}
"""  # noqa: S608 - likewise
"""The oldest instant from which on history matters to an audit.

A group whose generation before is not to be found has had none, or it is in the archive: anywhere since it began.
"""


def losses_since(start: datetime) -> Relation:
    """Return the ownerships that ended between the generation before and the present one, of any group's since then."""
    text = f"""
SELECT owner.group_id, owner.shard_id, lost.member_id, lost.topic, lost.partitions, lost.valid_to
FROM {{groups}} AS owner {_GENERATIONS.format(join="INNER")}
JOIN {{assignments}} AS lost ON lost.group_id = owner.group_id AND lost.group_created_at = owner.created_at
    AND lost.valid_to > former.completed_at AND lost.valid_to <= present.completed_at
WHERE {_IS_AUDITED}
"""  # noqa: S608 - likewise
    return Relation("audited_losses", text, (Span("rebalances", start), Span("assignments", start)), ("groups",))


def scores_before(end: datetime) -> str:
    """Return each group's score as of its newest audit before an instant."""
    return f"""(
SELECT DISTINCT ON (group_id) group_id, shard_id, score AS score_before
FROM assignment_balance_audits WHERE interval_end < {instant(end)}
ORDER BY group_id, interval_end DESC, interval_start DESC
) AS scores_before"""  # noqa: S608 - an instant


# -- how often, how long and why groups rebalance ---------------------------------------------------------------

TOLD_BY = timedelta(days=7)
"""Within this time of its begin something of a stay is told: its end, or its first hour; later if no node runs."""


def rebalances_within(start: datetime, end: datetime) -> Relation:
    """Return the rebalances of which some part lies within an interval; those not over have no outcome."""
    text = f"""
SELECT group_id, shard_id, group_created_at, trigger, outcome, started_at, completed_at, restarts
FROM {{rebalances}} WHERE completed_at >= {instant(start)} AND started_at < {instant(end)}
UNION ALL
SELECT group_id, shard_id, created_at, rebalance_trigger, NULL, rebalance_started_at, NULL, 0
FROM {{groups}} WHERE rebalance_started_at < {instant(end)}
"""  # noqa: S608 - instants
    return Relation("rebalances_within", text, (Span("rebalances", start),), present=("groups",))


def lives_within(start: datetime, end: datetime) -> Relation:
    """Return the lives of groups that began or ended within an interval; `died_at` is NULL of one that began."""
    text = f"""
SELECT group_id, shard_id, group_created_at, CASE WHEN to_state = '{DEAD.value}' THEN at END AS died_at
FROM {{group_transitions}}
WHERE at >= {instant(start)} AND at < {instant(end)} AND (to_state = '{DEAD.value}' OR from_state IS NULL)
"""  # noqa: S608 - instants, and a word of the protocol
    return Relation("lives_within", text, (Span("group_transitions", start, end),))


def waits_within(start: datetime, end: datetime) -> Relation:
    """Return who was waited for in rebalances that were over within an interval."""
    text = f"""
SELECT group_id, shard_id, member_id, group_instance_id, client_id, client_host, waited_for_ms
FROM {{rebalance_members}}
WHERE completed_at >= {instant(start)} AND completed_at < {instant(end)} AND waited_for_ms > 0
"""  # noqa: S608 - likewise
    return Relation("waits_within", text, (Span("rebalance_members", start, end),))


def evictions_within(start: datetime, end: datetime) -> Relation:
    """Return the members that were put out for their silence within an interval."""
    reasons = ", ".join(f"'{reason}'" for reason in SILENCES)
    text = f"""
SELECT group_id, shard_id, group_created_at, member_id, group_instance_id, client_id, client_host, ended_at,
    coalesce(last_heartbeat_at, started_at) AS silent_since
FROM {{member_sessions}}
WHERE ended_at >= {instant(start)} AND ended_at < {instant(end)} AND end_reason IN ({reasons})
"""  # noqa: S608 - likewise, and words of ours
    return Relation("evictions_within", text, (Span("member_sessions", start, end),))


def joins_within(start: datetime, end: datetime) -> Relation:
    """Return the members that joined within an interval, its end included, be they still there or not."""
    told = end + TOLD_BY
    text = f"""
SELECT group_id, shard_id, member_id, group_instance_id, client_id, client_host, joined_at
FROM {{member_sessions}}
WHERE ended_at >= {instant(start)} AND ended_at < {instant(told)}
    AND joined_at BETWEEN {instant(start)} AND {instant(end)}
UNION
SELECT group_id, shard_id, member_id, group_instance_id, client_id, client_host, joined_at
FROM {{members}} WHERE joined_at BETWEEN {instant(start)} AND {instant(end)}
"""  # noqa: S608 - likewise
    return Relation("joins_within", text, (Span("member_sessions", start, told),), present=("members",))


# -- the past, as advice on timeouts looks at it ------------------------------------------------------------------

FIRST_TOLD = timedelta(days=1)
"""As TOLD_BY; advice can do without who came back before nobody ran for a day."""


def stays_within(start: datetime, end: datetime) -> Relation:
    """Return what was measured in the stays, and hours of stays, that were over within a window."""
    text = f"""
SELECT group_id, shard_id, session_timeout_ms, ended_at, heartbeat_count, heartbeat_gap_ms_max, heartbeat_gap_histogram
FROM {{member_sessions}} WHERE ended_at >= {instant(start)} AND ended_at < {instant(end)}
"""  # noqa: S608 - likewise
    return Relation("stays_within", text, (Span("member_sessions", start, end),), at="ended_at")


def evictions_and_exits_within(start: datetime, end: datetime) -> Relation:
    """Return the members that a timeout evicted within a window, and those without an instance id that left."""
    text = f"""
SELECT group_id, shard_id, member_id, group_instance_id, client_id, client_host, session_timeout_ms, ended_at,
    end_reason, coalesce(last_heartbeat_at, started_at) AS silent_since
FROM {{member_sessions}}
WHERE ended_at >= {instant(start)} AND ended_at < {instant(end)}
    AND (end_reason IN ('{SESSION_EXPIRED}', '{REBALANCE_TIMEOUT}')
        OR end_reason = '{LEFT}' AND group_instance_id IS NULL)
"""  # noqa: S608 - likewise
    return Relation("evictions_and_exits_within", text, (Span("member_sessions", start, end),), at="ended_at")


def returns_within(start: datetime, end: datetime, grace: timedelta) -> Relation:
    """Return who joined while anybody who was put out within a window could still come back, as often as is told."""
    begun = end + grace + timedelta(milliseconds=1)
    told = end + grace + FIRST_TOLD
    text = f"""
SELECT group_id, shard_id, member_id, group_instance_id, client_id, client_host, joined_at, ended_at AS told_at
FROM {{member_sessions}}
WHERE ended_at >= {instant(start)} AND ended_at < {instant(told)}
    AND joined_at >= {instant(start)} AND joined_at < {instant(begun)}
UNION ALL
SELECT group_id, shard_id, member_id, group_instance_id, client_id, client_host, joined_at, joined_at
FROM {{members}} WHERE joined_at >= {instant(start)} AND joined_at < {instant(begun)}
"""  # noqa: S608 - likewise
    return Relation("returns_within", text, (Span("member_sessions", start, told),), present=("members",), at="told_at")


def vain_waits_within(start: datetime, end: datetime) -> Relation:
    """Return for whom was waited in vain, and when, in rebalances that were over within a window."""
    # Both tables are partitioned, and Postgres does not carry a range from one to the other.
    text = f"""
SELECT part.group_id, part.shard_id, part.member_id, part.waited_for_ms, past.started_at, past.completed_at
FROM {{rebalances}} AS past
JOIN {{rebalance_members}} AS part
    ON (part.rebalance_id, part.completed_at) = (past.rebalance_id, past.completed_at)
    AND part.completed_at >= {instant(start)} AND part.completed_at < {instant(end)}
WHERE past.completed_at >= {instant(start)} AND past.completed_at < {instant(end)} AND part.outcome = 'evicted'
"""  # noqa: S608 - likewise
    return Relation("vain_waits_within", text, (Span("rebalances", start, end), Span("rebalance_members", start, end)))


def rejoins_within(start: datetime, end: datetime) -> Relation:
    """Return the members that rebalances waited for which were over within a window."""
    text = f"""
SELECT rebalance_id, group_id, shard_id, completed_at, outcome, joined_after_ms, waited_for_ms
FROM {{rebalance_members}}
WHERE completed_at >= {instant(start)} AND completed_at < {instant(end)} AND waited_for_ms > 0
"""  # noqa: S608 - likewise
    return Relation("rejoins_within", text, (Span("rebalance_members", start, end),), at="completed_at")


def rebalances_over_within(start: datetime, end: datetime) -> Relation:
    """Return the rebalances that were over within a window."""
    text = f"""
SELECT group_id, shard_id, trigger, outcome, started_at, completed_at, partitions_moved
FROM {{rebalances}}
WHERE completed_at >= {instant(start)} AND completed_at < {instant(end)}
"""  # noqa: S608 - likewise
    return Relation("rebalances_over_within", text, (Span("rebalances", start, end),), at="completed_at")


def newcomers_within(start: datetime, end: datetime) -> Relation:
    """Return the rebalances that newcomers caused, and that were over within a window."""
    text = f"""
SELECT group_id, shard_id, started_at, joined_at, completed_at, restarts, member_count_before
FROM {{rebalances}}
WHERE completed_at >= {instant(start)} AND completed_at < {instant(end)} AND trigger = 'member_joined'
"""  # noqa: S608 - likewise
    return Relation("newcomers_within", text, (Span("rebalances", start, end),), at="completed_at")


ASSIGNED = """(
SELECT owner.group_id, owner.shard_id, owner.protocol_name,
    coalesce(sum(jsonb_array_length(topic -> 'partitions')), 0)::bigint AS partitions
FROM groups AS owner
LEFT JOIN members ON members.group_id = owner.group_id
LEFT JOIN LATERAL jsonb_array_elements(
    CASE WHEN jsonb_typeof(assignment) = 'array' THEN assignment ELSE '[]' END
) AS topic ON true
GROUP BY owner.group_id, owner.shard_id, owner.protocol_name
) AS assigned"""
"""A row a group: the protocol by which its partitions are assigned now, and how many are."""
