"""Share and streams groups of a mirrored cluster."""

from typing import Final

from sqlalchemy import select

from coordinator_core.queries.group_patterns import GroupPatterns, covers
from coordinator_core.state_store.mirror_tables import other_groups
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.timestamps import columns_of
from coordinator_core.state_store.rows import OtherGroup

_OTHER_GROUPS: Final = select(*columns_of(other_groups, OtherGroup._fields)).order_by(other_groups.c.group_id)


def read_other_groups(
    transaction: Transaction, patterns: GroupPatterns | None, after: str, limit: int
) -> list[OtherGroup]:
    """Return at most `limit` groups after a group id, sorted by id.

    Args:
        transaction: the transaction.
        patterns: the groups that are covered; None: all.
        after: the last group id of the page before; empty: the first page.
        limit: how many groups are returned at most.
    """
    covered = covers(other_groups.c.group_id, patterns)
    page = _OTHER_GROUPS.where(other_groups.c.group_id > after, *covered).limit(limit)
    return [OtherGroup(*row) for row in transaction.execute(page)]
