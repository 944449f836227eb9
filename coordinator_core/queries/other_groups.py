"""Share and streams groups of a mirrored cluster."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import false, or_, select

from coordinator_core.state_store.mirror_tables import other_groups
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.timestamps import columns_of
from coordinator_core.state_store.rows import OtherGroup

_OTHER_GROUPS: Final = select(*columns_of(other_groups, OtherGroup._fields)).order_by(other_groups.c.group_id)


def read_other_groups(
    transaction: Transaction, prefixes: Sequence[str] | None, after: str, limit: int
) -> list[OtherGroup]:
    """Return at most `limit` groups after a group id, sorted by id.

    Args:
        transaction: the transaction.
        prefixes: prefixes of the group id, one of which must match; None: any id.
        after: the last group id of the page before; empty: the first page.
        limit: how many groups are returned at most.
    """
    page = _OTHER_GROUPS.where(other_groups.c.group_id > after).limit(limit)
    if prefixes is not None:
        own = (other_groups.c.group_id.startswith(prefix, autoescape=True) for prefix in prefixes)
        page = page.where(or_(false(), *own))
    return [OtherGroup(*row) for row in transaction.execute(page)]
