"""State transitions of a group."""

from typing import Final, NamedTuple

from sqlalchemy import case, literal, select, tuple_

from coordinator_core.protocol.states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE
from coordinator_core.queries.groups import known
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.timestamps import columns_of, from_ms
from coordinator_core.state_store.rows import TransitionRow
from coordinator_core.state_store.tables import group_transitions

RANK_IN_GENERATION: Final = {EMPTY: 0, COMPLETING: 0, STABLE: 1, PREPARING: 2, DEAD: 3}
"""The order of a generation's states: one decision can enter several within a millisecond."""


class TransitionCursor(NamedTuple):
    """The last transition of a page."""

    at_ms: int
    group_created_at_ms: int
    generation: int
    rank: int


def cursor_of(row: TransitionRow) -> TransitionCursor:
    """Return the cursor of a page that ends with this row."""
    rank = RANK_IN_GENERATION.get(row.to_state, 0)  # type: ignore[call-overload]  # a state equals its text
    return TransitionCursor(row.at_ms, row.group_created_at_ms, row.generation, rank)


_TRANSITION: Final = tuple(TransitionRow.__dataclass_fields__)
_RANK: Final = case(
    {str(state): rank for state, rank in RANK_IN_GENERATION.items()}, value=group_transitions.c.to_state
)
_PLACE: Final = (
    group_transitions.c.at,
    group_transitions.c.group_created_at,
    group_transitions.c.generation,
    _RANK,
)


def read_transitions(
    transaction: Transaction, group_id: str, after: TransitionCursor | None, limit: int
) -> list[TransitionRow]:
    """Return at most `limit` transitions after a cursor, the newest first.

    Raises:
        GroupIdNotFound: there never was such a group.
    """
    wanted = select(*columns_of(group_transitions, _TRANSITION)).where(group_transitions.c.group_id == group_id)
    if after is not None:
        at, created_at = from_ms(after.at_ms), from_ms(after.group_created_at_ms)
        place = tuple_(at, created_at, literal(after.generation), literal(after.rank))
        wanted = wanted.where(group_transitions.c.at <= at, tuple_(*_PLACE) < place)
    newest_first = wanted.order_by(*(each.desc() for each in _PLACE)).limit(limit)
    return known(transaction, group_id, [TransitionRow(*row) for row in transaction.execute(newest_first)])
