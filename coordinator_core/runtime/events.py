"""What groups did, for the log: an event for each rebalance that is over, and for each member that was put out.

They are told when they are stored, so the log never knows more than the database. Who leaves by itself is no news.
"""

from collections.abc import Iterable

import structlog

from coordinator_core.protocol.records import MemberRemoved, Record, Removal
from coordinator_core.store.rows import RebalanceRow

log = structlog.get_logger("muster.runtime")


def tell_of_members(group_id: str, records: Iterable[Record]) -> None:
    """Tell of members that were put out."""
    for record in records:
        if isinstance(record, MemberRemoved) and record.removal is not Removal.LEFT:
            log.info("member_put_out", group=group_id, member=record.member_id, why=str(record.removal))


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
