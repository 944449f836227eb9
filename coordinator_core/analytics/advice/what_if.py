"""What-if replay: the effect of another timeout on each past eviction."""

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator_core.analytics.advice.cost import Cost, cost_of_rebalance_timeout, cost_of_session_timeout
from coordinator_core.analytics.advice.evidence import Evidence
from coordinator_core.analytics.advice.replay import added_at


@dataclass(frozen=True, slots=True)
class Eviction:
    """An eviction, and whether the member came back."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    end_reason: str
    at_ms: int
    """Wall time of the eviction."""
    limit_ms: int
    """The timeout that evicted the member."""
    needed_ms: int | None
    """The timeout that would have sufficed; None: the member did not come back within the grace."""
    reconnected_at_ms: int | None = None
    is_live: bool = False
    """The member heartbeated until it was evicted at a rebalance timeout."""
    is_restart: bool = False
    """The client was back within its session timeout, which costs a static member no rebalance."""


@dataclass(frozen=True, slots=True)
class SessionWhatIf:
    """The effect of another session timeout."""

    timeout_ms: int
    cost: Cost
    present_cost: Cost | None
    """For the effective timeout; None: unknown."""
    avoided: tuple[Eviction, ...]
    remaining: tuple[Eviction, ...]
    """Spurious as well, and not avoided."""
    failures: tuple[Eviction, ...]
    detection_added_ms: int
    """The total delay of failure detection; negative: sooner."""
    added_at_least: int
    added_at_most: int


@dataclass(frozen=True, slots=True)
class RejoinWhatIf:
    """The effect of another rebalance timeout."""

    timeout_ms: int
    cost: Cost
    present_cost: Cost | None
    """For the effective timeout; None: unknown."""
    avoided: tuple[Eviction, ...]
    remaining: tuple[Eviction, ...]
    """Live as well, and not avoided."""
    no_shows: tuple[Eviction, ...]
    waiting_added_ms: int
    """How much longer the group would have waited for members that never joined; negative: shorter."""
    added: int
    """Members that joined in time, and would have been evicted."""


def what_if_session(
    evictions: Sequence[Eviction], evidence: Evidence, present_ms: int | None, timeout_ms: int
) -> SessionWhatIf:
    """Replay the evictions at a session timeout, and the gaps of the same days, under another."""
    days, rebalances = evidence.days, evidence.rebalances
    avoided, remaining, failures = _classify(evictions, timeout_ms)
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
    """Replay the evictions at a rebalance timeout, and the rejoins in time, under another."""
    rejoins, rebalances = evidence.rejoins, evidence.rebalances
    avoided, remaining, no_shows = _classify(evictions, timeout_ms)
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


def _classify(evictions: Sequence[Eviction], timeout_ms: int) -> Sorted:
    """Return the live members that would have stayed, the live members that would not, and the dead ones."""
    live = [each for each in evictions if each.needed_ms is not None or each.is_live]
    avoided = tuple(each for each in live if each.needed_ms is not None and each.needed_ms <= timeout_ms)
    remaining = tuple(each for each in live if each.needed_ms is None or each.needed_ms > timeout_ms)
    return avoided, remaining, tuple(each for each in evictions if each.needed_ms is None and not each.is_live)


def _added_ms(evictions: Sequence[Eviction], timeout_ms: int) -> int:
    return sum(timeout_ms - each.limit_ms for each in evictions)
