"""Log events about groups: rebalances that ended, members that were removed, members without an assignment.

An event is logged after its rows are stored, so the log never reports more than the database has. A member that leaves
by itself is not logged.
"""

from collections.abc import Iterable
from typing import Final

import structlog

from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import AssignmentAccepted, MemberRemoved, Record, RemovalReason
from coordinator_core.state_store.rows import RebalanceRow

log = structlog.get_logger("muster.runtime")

LOGGED_MEMBERS_MAX: Final = 20
"""Members that one event names."""


def log_member_events(group_id: str, records: Iterable[Record]) -> None:
    """Log members that were evicted or removed, and members that the leader left out of its assignment."""
    for record in records:
        if isinstance(record, MemberRemoved) and record.removal_reason is not RemovalReason.LEFT:
            log.info("member_removed", group=group_id, member=record.member_id, reason=str(record.removal_reason))
        elif isinstance(record, AssignmentAccepted) and record.omitted_members:
            log.info(
                "members_omitted_from_assignment",
                group=group_id,
                generation=record.generation,
                members=list(record.omitted_members[:LOGGED_MEMBERS_MAX]),
                member_count=len(record.omitted_members),
            )


def log_rebalances(rows: Iterable[RebalanceRow]) -> None:
    """Log rebalances that ended."""
    for row in rows:
        log.info(
            "rebalance_ended",
            outcome=row.outcome,
            group=row.group_id,
            rebalance=row.rebalance_id,
            generation=row.generation,
            trigger=row.trigger,
            member=row.trigger_member_id,
            took_ms=row.completed_at_ms - row.started_at_ms,
            restarts=row.restarts,
            members_before=row.member_count_before,
            members_after=row.member_count_after,
            partitions_moved=row.partitions_moved,
        )


def log_transition(before: Group, decision: Decision) -> None:
    """Log a change of a group's state."""
    group = decision.group
    log.info(
        "request_decided",
        group=group.group_id,
        from_state=str(before.state),
        to_state=str(group.state),
        generation_before=before.generation,
        generation=group.generation,
        members=len(group.members),
        trigger=None if group.trigger is None else str(group.trigger),
        records=[type(record).__name__ for record in decision.records],
    )
