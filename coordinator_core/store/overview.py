"""The overview of groups: its filter, its orders, and its result: a page of groups, and the number of groups by state.

An order assigns an integer key to each group; groups are sorted by key and then by id. A page ends at a *cursor* of
both, and the next page starts after it. A group whose key changes in between may be on both pages or on neither.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from coordinator_core.protocol.states import COMPLETING, PREPARING

RECENT_MS: Final = 3_600_000
"""Rebalances that ended within this time are counted."""
REBALANCING_STATES: Final = (PREPARING, COMPLETING)
"""The states of a rebalance in progress."""
LAG_UNKNOWN_KEY: Final = 1
"""The key of a group with an unknown lag: after those without lag."""


class GroupOrder(StrEnum):
    """The order of the groups."""

    ATTENTION = "attention"
    """Rebalancing groups, then those that rebalanced most often within the last hour, then those with members."""
    GROUP_ID = "group_id"
    SINCE = "since"
    """Groups that have been in their state for longest come first."""
    MEMBERS = "members"
    LAG = "lag"
    REBALANCES = "rebalances"


class OverviewCursor(NamedTuple):
    """The last group of a page."""

    key: int
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewFilter:
    """Selects groups that are not dead."""

    text: str = ""
    """A substring of the id; ASCII letters match in either case."""
    states: frozenset[str] = frozenset()
    """Empty: every state."""
    prefixes: tuple[str, ...] | None = None
    """Prefixes of the id, one of which must match; None: any id."""
    order: GroupOrder = GroupOrder.ATTENTION
    after: OverviewCursor | None = None
    limit: int = 100
    fresh_since_ms: int = 0
    """A log end that was last reported before this time is stale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group in the overview."""

    key: int
    group_id: str
    state: str
    state_since_ms: int
    generation: int
    protocol_type: str | None
    member_count: int
    node_id: str | None
    rebalance_started_at_ms: int | None
    rebalance_trigger: str | None
    """Of the rebalance in progress."""
    rebalances: int
    """The number that ended within the last hour."""
    lag_records: int | None
    """None: no log end is known, or it is a lower bound of 0."""
    is_lag_lower_bound: bool
    """Whether it is a lower bound, because a log end is stale."""
    log_end_at_ms: int | None
    """When the log ends of its partitions were last reported: the oldest of these times."""
    last_trigger: str | None
    last_completed_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Overview:
    """A page of groups, and the number of groups by state, including states that the filter leaves out."""

    counts: Mapping[str, int]
    groups: list[GroupSummary]


def attention_key(state: str, member_count: int, rebalances: int) -> int:
    """Return the key of a group in the order ATTENTION."""
    return -((state in REBALANCING_STATES) * 10**12 + rebalances * 10 + (member_count > 0))
