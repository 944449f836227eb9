"""What the overview of groups is asked and answers: a page of groups in one of a few orders, and how many there are.

An order is a whole number by which groups are sorted, smallest first, and the id where numbers are equal. So a page
ends at a *place*, whatever the order, and the next one begins after it. What moves meanwhile may be seen twice, or not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from coordinator_core.protocol.states import COMPLETING, PREPARING

RECENT_MS: Final = 3_600_000
"""Rebalances that ended so long ago are counted."""
UNSETTLED: Final = (PREPARING, COMPLETING)
"""The states in which somebody is waited for."""
LAG_UNKNOWN_KEY: Final = 1
"""Where a group stands by its lag that nobody knows: after those that have none."""


class GroupOrder(StrEnum):
    """What comes first."""

    ATTENTION = "attention"
    """Unsettled groups, then those that rebalanced most often within the last hour, then those with members."""
    GROUP_ID = "group_id"
    SINCE = "since"
    """Those that have been in their state for longest."""
    MEMBERS = "members"
    LAG = "lag"
    REBALANCES = "rebalances"


class OverviewPlace(NamedTuple):
    """Where a page ended."""

    key: int
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewFilter:
    """Which groups are asked for; dead ones never are."""

    text: str = ""
    """What the id holds somewhere; letters of ASCII in either case."""
    states: frozenset[str] = frozenset()
    """Empty: every state."""
    prefixes: tuple[str, ...] | None = None
    """What the id begins with, one of these; None: anything."""
    order: GroupOrder = GroupOrder.ATTENTION
    after: OverviewPlace | None = None
    limit: int = 100
    fresh_since_ms: int = 0
    """An end of a log that was last reported before this instant is stale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupGlance:
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
    """Of the rebalance under way."""
    rebalances: int
    """Those that ended within the last hour."""
    lag_records: int | None
    """None where no end of a log is known, or where it is a lower bound of 0."""
    is_lag_at_least: bool
    """Whether it is a lower bound, because the end of a log is stale."""
    log_end_at_ms: int | None
    """When the ends of its logs were last reported: the oldest of these instants."""
    last_trigger: str | None
    last_completed_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Overview:
    """A page, and how many groups are in each state whatever states were asked for."""

    counts: Mapping[str, int]
    groups: list[GroupGlance]


def attention_key(state: str, member_count: int, rebalances: int) -> int:
    """Return where a group stands by how much it wants to be looked at."""
    return -((state in UNSETTLED) * 10**12 + rebalances * 10 + (member_count > 0))
