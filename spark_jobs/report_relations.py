"""What reports read, as Postgres narrows it before Spark sees a row.

Rules:

* A relation joins what belongs together in Postgres, so that it is read at one moment.
* Every relation has `shard_id`, by which Spark reads it in parallel.
* Whatever is partitioned by time is asked for by that time, so days that cannot matter are not looked at.
"""

from datetime import datetime

from coordinator_core.protocol.reports.frequency import SILENCES
from coordinator_core.protocol.retention import CONSUMER
from coordinator_core.protocol.states import STABLE

# -- how evenly groups' partitions are spread -------------------------------------------------------------------

_IS_AUDITED = f"owner.state = '{STABLE.value}' AND owner.protocol_type = '{CONSUMER}'"

AUDITED_MEMBERS = f"""(
SELECT owner.group_id, owner.shard_id, owner.generation, member_id,
    subscription::text AS subscription, assignment::text AS assignment, held::text AS held
FROM groups AS owner JOIN members ON members.group_id = owner.group_id
WHERE {_IS_AUDITED}
) AS audited_members"""  # noqa: S608 - words of the protocol
"""A row a member of a group whose assignment stands and can be read."""

AUDITED_LAGS = f"""(
SELECT owner.group_id, owner.shard_id, topic, partition, greatest(log_end_offset - committed_offset, 0) AS lag
FROM groups AS owner JOIN offsets ON offsets.group_id = owner.group_id
WHERE {_IS_AUDITED} AND log_end_offset IS NOT NULL
) AS audited_lags"""  # noqa: S608 - likewise
"""A row a committed partition whose end is known."""

AUDITED_LOSSES = f"""(
SELECT owner.group_id, owner.shard_id, lost.member_id, lost.topic, lost.partitions, lost.valid_to
FROM groups AS owner
CROSS JOIN LATERAL (
    SELECT completed_at FROM rebalances
    WHERE group_id = owner.group_id AND group_created_at = owner.created_at AND outcome = 'completed'
    ORDER BY completed_at DESC LIMIT 1
) AS present
CROSS JOIN LATERAL (
    SELECT completed_at FROM rebalances
    WHERE group_id = owner.group_id AND group_created_at = owner.created_at AND outcome IN ('completed', 'emptied')
        AND completed_at < present.completed_at
    ORDER BY completed_at DESC LIMIT 1
) AS former
JOIN assignments AS lost ON lost.group_id = owner.group_id AND lost.group_created_at = owner.created_at
    AND lost.valid_to > former.completed_at AND lost.valid_to <= present.completed_at
WHERE {_IS_AUDITED}
) AS audited_losses"""  # noqa: S608 - likewise
"""A row an ownership that ended between the generation before and the present one."""


def scores_before(end: datetime) -> str:
    """Return each group's score as of its newest audit before an instant."""
    return f"""(
SELECT DISTINCT ON (group_id) group_id, shard_id, score AS score_before
FROM assignment_balance_audits WHERE interval_end < {_instant(end)}
ORDER BY group_id, interval_end DESC, interval_start DESC
) AS scores_before"""  # noqa: S608 - an instant


# -- how often, how long and why groups rebalance ---------------------------------------------------------------


def rebalances_within(start: datetime, end: datetime) -> str:
    """Return the rebalances of which some part lies within an interval; those not over have no outcome."""
    return f"""(
SELECT group_id, shard_id, trigger, outcome, started_at, completed_at, restarts
FROM rebalances WHERE completed_at >= {_instant(start)} AND started_at < {_instant(end)}
UNION ALL
SELECT group_id, shard_id, rebalance_trigger, NULL, rebalance_started_at, NULL, 0
FROM groups WHERE rebalance_started_at < {_instant(end)}
) AS rebalances_within"""  # noqa: S608 - instants


def waits_within(start: datetime, end: datetime) -> str:
    """Return who was waited for in rebalances that were over within an interval."""
    return f"""(
SELECT group_id, shard_id, member_id, group_instance_id, client_id, waited_for_ms
FROM rebalance_members
WHERE completed_at >= {_instant(start)} AND completed_at < {_instant(end)} AND waited_for_ms > 0
) AS waits_within"""  # noqa: S608 - likewise


def evictions_within(start: datetime, end: datetime) -> str:
    """Return the members that were put out for their silence within an interval."""
    reasons = ", ".join(f"'{reason}'" for reason in SILENCES)
    return f"""(
SELECT group_id, shard_id, member_id, group_instance_id, client_id, client_host, ended_at
FROM member_sessions
WHERE ended_at >= {_instant(start)} AND ended_at < {_instant(end)} AND end_reason IN ({reasons})
) AS evictions_within"""  # noqa: S608 - likewise, and words of ours


def joins_within(start: datetime, end: datetime) -> str:
    """Return the members that joined within an interval, its end included, be they still there or not."""
    return f"""(
SELECT group_id, shard_id, member_id, group_instance_id, client_id, client_host, joined_at
FROM member_sessions
WHERE ended_at >= {_instant(start)} AND joined_at BETWEEN {_instant(start)} AND {_instant(end)}
UNION
SELECT group_id, shard_id, member_id, group_instance_id, client_id, client_host, joined_at
FROM members WHERE joined_at BETWEEN {_instant(start)} AND {_instant(end)}
) AS joins_within"""  # noqa: S608 - likewise


def _instant(at: datetime) -> str:
    return f"timestamptz '{at.isoformat()}'"
