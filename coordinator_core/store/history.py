"""Queries of history and their results: values that pass between the runtime and a store.

Lists are paged, the newest first. A page starts after a *cursor*: the values of the last row that the order uses. So
pages neither skip nor repeat rows when rows are added in between.
"""

from dataclasses import dataclass, fields
from typing import Final, NamedTuple, Self

from coordinator_core.protocol.states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE
from coordinator_core.store.rows import RebalanceRow, TransitionRow

END_OF_TIME_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999; as the time of a `Moment` it means now."""

# -- rebalances -------------------------------------------------------------------------------------------


class RebalanceCursor(NamedTuple):
    """The last rebalance of a page; END_OF_TIME_MS: it is in progress."""

    completed_at_ms: int
    rebalance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRebalance:
    """A rebalance, ended or in progress; in progress it has no outcome and no results."""

    rebalance_id: str
    group_id: str
    shard_id: int
    group_created_at_ms: int
    generation: int
    trigger: str
    trigger_member_id: str | None
    client_reason: str | None
    started_at_ms: int
    joined_at_ms: int | None
    completed_at_ms: int | None
    outcome: str | None
    restarts: int
    member_count_before: int
    member_count_after: int | None
    partitions_moved: int | None

    @classmethod
    def over(cls, row: RebalanceRow) -> Self:
        """Return the list entry of a rebalance that ended."""
        return cls(**{each.name: getattr(row, each.name) for each in fields(row)})

    @property
    def cursor(self) -> RebalanceCursor:
        """Return the cursor of a page that ends here; the rebalance in progress comes before all others."""
        at_ms = END_OF_TIME_MS if self.completed_at_ms is None else self.completed_at_ms
        return RebalanceCursor(at_ms, self.rebalance_id)


# -- waits ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WaitQuery:
    """Selects waits of at least `at_least_ms`, in rebalances of a group that ended at `from_ms` or later."""

    group_id: str
    from_ms: int
    at_least_ms: int


class RebalanceWait(NamedTuple):
    """How long a rebalance waited for a member, which may have left since."""

    rebalance_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str | None
    """None: the member is not in the group, and no session row since `from_ms` is of it."""
    waited_for_ms: int
    outcome: str


# -- transitions ------------------------------------------------------------------------------------------

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


# -- ownership and committed offsets ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moment:
    """Selects a group, and optionally a topic and a partition, as of a time."""

    group_id: str
    at_ms: int = END_OF_TIME_MS
    """Wall time; END_OF_TIME_MS: now."""
    topic: str | None = None
    partition: int | None = None


class PartitionOwnership(NamedTuple):
    """Partitions of one topic that a member owned without interruption; `valid_to_ms` None: it still owns them."""

    member_id: str
    topic: str
    partitions: tuple[int, ...]
    generation: int
    rebalance_id: str
    valid_from_ms: int
    valid_to_ms: int | None


class OffsetAtTime(NamedTuple):
    """The committed offset of a partition as of a time, and when it was committed."""

    topic: str
    partition: int
    offset: int
    log_end_offset: int | None
    committed_at_ms: int
    member_id: str | None
    """The member that committed it; "": a consumer outside of a group; None: unknown, the offset is in the archive."""


def in_order(ownerships: list[PartitionOwnership], partition: int | None) -> list[PartitionOwnership]:
    """Return ownerships by topic, first partition and member; those of one partition, unless it is None."""
    if partition is not None:
        ownerships = [owned._replace(partitions=(partition,)) for owned in ownerships if partition in owned.partitions]
    return sorted(ownerships, key=lambda owned: (owned.topic, owned.partitions[:1], owned.member_id))


# -- lag ----------------------------------------------------------------------------------------------------


class OffsetTotal(NamedTuple):
    """The sums over a group's offsets of one topic, or of one partition if `partition` is set."""

    group_id: str
    topic: str
    partition: int | None
    partition_count: int
    offset: int
    """The sum of the committed offsets."""
    lag_records: int | None
    """The sum of the lag, where the log end is known; None: no log end is known, or a stale log end makes it a lower
    bound of 0."""
    last_committed_at_ms: int
    log_end_at_ms: int | None
    """When the log end was last reported; of several partitions the oldest of these times."""


# -- expiry -------------------------------------------------------------------------------------------------


class ExpiryForecast(NamedTuple):
    """How many offsets will expire after `as_of_ms`, by the newest run of `offset_retention`."""

    as_of_ms: int
    within_a_day: int
    within_a_week: int
    """Including those of the first day."""
