"""What is asked of history, and what it answers: values between the runtime and a store.

Lists come newest first, page by page. A page begins after a *place*, which is all of a row that its order looks at,
so pages join without gap or repeat whatever is added meanwhile.
"""

from dataclasses import dataclass, fields
from typing import Final, NamedTuple, Self

from coordinator_core.protocol.states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE
from coordinator_core.store.rows import RebalanceRow, TransitionRow

END_OF_TIME_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999; asked for as a moment, it means how things stand now."""

# -- rebalances -------------------------------------------------------------------------------------------


class RebalancePlace(NamedTuple):
    """Where a page of rebalances ended: at one that was over, or (END_OF_TIME_MS) at the one under way."""

    completed_at_ms: int
    rebalance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRebalance:
    """A rebalance, over or under way: under way it has no outcome yet, and no count of what came of it."""

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
        """Return a rebalance that is over, as a list shows it."""
        return cls(**{each.name: getattr(row, each.name) for each in fields(row)})

    @property
    def place(self) -> RebalancePlace:
        """Return where a page that ends here ends; the one under way comes before all others."""
        at_ms = END_OF_TIME_MS if self.completed_at_ms is None else self.completed_at_ms
        return RebalancePlace(at_ms, self.rebalance_id)


# -- waits ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WaitQuestion:
    """Which waits of a group are asked for: in rebalances that were over at an instant or later, and so long."""

    group_id: str
    from_ms: int
    at_least_ms: int


class RebalanceWait(NamedTuple):
    """How long a rebalance waited for a member, which may be gone since."""

    rebalance_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str | None
    """None: neither the present nor the sessions since `from_ms` know the member."""
    waited_for_ms: int
    outcome: str


# -- transitions ------------------------------------------------------------------------------------------

RANK_IN_GENERATION: Final = {EMPTY: 0, COMPLETING: 0, STABLE: 1, PREPARING: 2, DEAD: 3}
"""In which order a generation goes through its states: one decision can enter several within a millisecond."""


class TransitionPlace(NamedTuple):
    """Where a page of transitions ended."""

    at_ms: int
    group_created_at_ms: int
    generation: int
    rank: int


def place_of(row: TransitionRow) -> TransitionPlace:
    """Return where a page that ends with this row ends."""
    rank = RANK_IN_GENERATION.get(row.to_state, 0)  # type: ignore[call-overload]  # a state equals its text
    return TransitionPlace(row.at_ms, row.group_created_at_ms, row.generation, rank)


# -- who held what, and what was committed ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moment:
    """What of a group is asked for, as of when."""

    group_id: str
    at_ms: int = END_OF_TIME_MS
    """Wall time; END_OF_TIME_MS: now."""
    topic: str | None = None
    partition: int | None = None


class OwnedSpan(NamedTuple):
    """Partitions of one topic that a member holds or held without a break; `valid_to_ms` None: to this day."""

    member_id: str
    topic: str
    partitions: tuple[int, ...]
    generation: int
    rebalance_id: str
    valid_from_ms: int
    valid_to_ms: int | None


class PositionThen(NamedTuple):
    """What was committed for a partition at some moment, and when that had been committed."""

    topic: str
    partition: int
    offset: int
    log_end_offset: int | None
    committed_at_ms: int
    member_id: str | None
    """Who committed it: "" is a consumer in no group; None: only the archive knows the offset, and not by whom."""


def in_order(spans: list[OwnedSpan], partition: int | None) -> list[OwnedSpan]:
    """Return spans by topic, first partition and member; of one partition, if one was asked for."""
    if partition is not None:
        spans = [span._replace(partitions=(partition,)) for span in spans if partition in span.partitions]
    return sorted(spans, key=lambda span: (span.topic, span.partitions[:1], span.member_id))


# -- how far groups are behind ------------------------------------------------------------------------------


class GroupPosition(NamedTuple):
    """What a group has committed of a topic, or (where `partition` is told) of one partition of it."""

    group_id: str
    topic: str
    partition: int | None
    partition_count: int
    offset: int
    """The committed offsets, added up."""
    lag_records: int | None
    """Records between what is committed and the end of the log, added up where the end is known; None: nowhere, or a
    stale end makes it a lower bound of 0."""
    last_committed_at_ms: int
    log_end_at_ms: int | None
    """When the end of the log was last reported; of several partitions the oldest of these instants."""


# -- what will expire ---------------------------------------------------------------------------------------


class ExpiryForecast(NamedTuple):
    """How many offsets will expire after an instant, as the newest run of `offset_retention` saw it then."""

    as_of_ms: int
    within_a_day: int
    within_a_week: int
    """Those of the first day included."""
