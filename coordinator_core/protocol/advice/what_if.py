"""Eviction by eviction: what another timeout would have done to what happened."""

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator_core.protocol.advice.cost import Cost, cost_of_rebalance_timeout, cost_of_session_timeout
from coordinator_core.protocol.advice.evidence import Evidence
from coordinator_core.protocol.advice.replay import added_at


@dataclass(frozen=True, slots=True)
class Eviction:
    """A member that was put out, and whether it came back."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    end_reason: str
    at_ms: int
    """Wall time at which it was put out."""
    limit_ms: int
    """The timeout that put it out."""
    needed_ms: int | None
    """The timeout that would not have; None: it did not come back within the grace."""
    back_at_ms: int | None = None
    is_live: bool = False
    """It was heard until it was evicted at a rebalance timeout."""
    is_restart: bool = False
    """Its client was back within its session timeout, as a static member could be without a rebalance."""


@dataclass(frozen=True, slots=True)
class SessionWhatIf:
    """What another session timeout would have done."""

    timeout_ms: int
    cost: Cost
    present_cost: Cost | None
    """Of the timeout in force; None: that is not known."""
    avoided: tuple[Eviction, ...]
    remaining: tuple[Eviction, ...]
    """Spurious as well, and not avoided."""
    failures: tuple[Eviction, ...]
    detection_added_ms: int
    """How much later the failures would have been seen, all in all; below zero: sooner."""
    added_at_least: int
    added_at_most: int


@dataclass(frozen=True, slots=True)
class RejoinWhatIf:
    """What another rebalance timeout would have done."""

    timeout_ms: int
    cost: Cost
    present_cost: Cost | None
    """Of the timeout in force; None: that is not known."""
    avoided: tuple[Eviction, ...]
    remaining: tuple[Eviction, ...]
    """Live as well, and not avoided."""
    no_shows: tuple[Eviction, ...]
    waiting_added_ms: int
    """How much longer the group would have waited for those who never came; below zero: shorter."""
    added: int
    """Members that came in time, and would have been put out."""


def what_if_session(
    evictions: Sequence[Eviction], evidence: Evidence, present_ms: int | None, timeout_ms: int
) -> SessionWhatIf:
    """Replay the evictions of a session timeout, and the gaps of the same days, under another."""
    days, rebalances = evidence.days, evidence.rebalances
    avoided, remaining, failures = _sorted_out(evictions, timeout_ms)
    at_least, at_most = added_at(days, timeout_ms)
    return SessionWhatIf(
        timeout_ms=timeout_ms,
        cost=cost_of_session_timeout(days, rebalances, timeout_ms),
        present_cost=None if present_ms is None else cost_of_session_timeout(days, rebalances, present_ms),
        avoided=avoided,
        remaining=remaining,
        failures=failures,
        detection_added_ms=_added_ms(failures, timeout_ms),
        added_at_least=at_least,
        added_at_most=at_most,
    )


def what_if_rejoin(
    evictions: Sequence[Eviction],
    rejoin_lengths_ms: Sequence[int],
    evidence: Evidence,
    present_ms: int | None,
    timeout_ms: int,
) -> RejoinWhatIf:
    """Replay the evictions of a rebalance timeout, and the rejoins that came in time, under another."""
    rejoins, rebalances = evidence.rejoins, evidence.rebalances
    avoided, remaining, no_shows = _sorted_out(evictions, timeout_ms)
    return RejoinWhatIf(
        timeout_ms=timeout_ms,
        cost=cost_of_rebalance_timeout(rejoins, rebalances, timeout_ms),
        present_cost=None if present_ms is None else cost_of_rebalance_timeout(rejoins, rebalances, present_ms),
        avoided=avoided,
        remaining=remaining,
        no_shows=no_shows,
        waiting_added_ms=_added_ms(no_shows, timeout_ms),
        added=sum(length_ms > timeout_ms for length_ms in rejoin_lengths_ms),
    )


Sorted = tuple[tuple[Eviction, ...], tuple[Eviction, ...], tuple[Eviction, ...]]


def _sorted_out(evictions: Sequence[Eviction], timeout_ms: int) -> Sorted:
    """Return the live members that would have been spared, those that would not, and the dead ones."""
    live = [each for each in evictions if each.needed_ms is not None or each.is_live]
    avoided = tuple(each for each in live if each.needed_ms is not None and each.needed_ms <= timeout_ms)
    remaining = tuple(each for each in live if each.needed_ms is None or each.needed_ms > timeout_ms)
    return avoided, remaining, tuple(each for each in evictions if each.needed_ms is None and not each.is_live)


def _added_ms(evictions: Sequence[Eviction], timeout_ms: int) -> int:
    return sum(timeout_ms - each.limit_ms for each in evictions)
