"""Log events about groups: rebalances that are over, members that were evicted, members that were assigned nothing.

An event is logged when what it reports is stored, so the log never knows more than the database. A member that leaves
by itself is not logged.
"""

from collections.abc import Iterable
from typing import Final

import structlog

from coordinator_core.protocol.records import AssignmentAccepted, MemberRemoved, Record, Removal
from coordinator_core.store.rows import RebalanceRow

log = structlog.get_logger("muster.runtime")

LOGGED_MEMBERS_MAX: Final = 20
"""How many members one event names."""


def tell_of_members(group_id: str, records: Iterable[Record]) -> None:
    """Log members that were evicted, and members that the leader left out of its assignment."""
    for record in records:
        if isinstance(record, MemberRemoved) and record.removal is not Removal.LEFT:
            log.info("member_put_out", group=group_id, member=record.member_id, why=str(record.removal))
        elif isinstance(record, AssignmentAccepted) and record.left_out:
            log.info(
                "members_left_out_of_assignment",
                group=group_id,
                generation=record.generation,
                members=list(record.left_out[:LOGGED_MEMBERS_MAX]),
                member_count=len(record.left_out),
            )


def tell_of_rebalances(rows: Iterable[RebalanceRow]) -> None:
    """Tell of rebalances that are over."""
    for row in rows:
        log.info(
            "rebalance_over",
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
