"""Advice on a group's timeouts, and the effect that other timeouts would have had, from history; any node answers.

Rules:

* The newest report of the job `timeout_advice` is returned while it is young enough, was made for the effective
  timeouts, and its timeouts can be set. Otherwise the same rules are applied to a shorter window of history.
* What-if always reads history, eviction by eviction.
* A timeout that could not be set is refused as setting it would be.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from coordinator_core.analytics.advice.advise import advise
from coordinator_core.analytics.advice.evidence import REBALANCE_TIMEOUT, SESSION_EXPIRED, Evidence
from coordinator_core.analytics.advice.policy import Advice, Bounds, CurrentTimeouts, Policy
from coordinator_core.analytics.advice.recommend import Recommendation
from coordinator_core.analytics.advice.what_if import RejoinWhatIf, SessionWhatIf, what_if_rejoin, what_if_session
from coordinator_core.protocol.setting_rules import SettingValue, find_conflict
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.queries.groups import known
from coordinator_core.queries.tuning_history import TuningHistory, TuningQuery, read_tuning_history
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.rows import Json

SESSION: Final = "session_timeout_ms"
REBALANCE: Final = "rebalance_timeout_ms"
INITIAL_DELAY: Final = "group_initial_rebalance_delay_ms"
KEYS: Final[Mapping[str, str]] = {"session": SESSION, "rebalance": REBALANCE, "initial_delay": INITIAL_DELAY}
"""Prefix of a report's columns → the setting."""

NOT_MEASURED: Final[Mapping[str, str]] = {
    SESSION: "Kafka's log has no heartbeats, so a mirror cannot judge this timeout, however long it runs",
    REBALANCE: "Kafka's log does not say how long rebalances waited for members, so a mirror cannot judge this timeout,"
    " however long it runs",
}
"""Setting → why there is no advice on it in a mirror."""


@dataclass(frozen=True, slots=True)
class SourcedAdvice:
    """Advice, and its source."""

    source: Literal["report", "live"]
    run_id: str | None
    """The report's run; None for live advice."""
    from_ms: int
    to_ms: int
    """The window of history that it is based on."""
    advice: Mapping[str, Advice]
    """Setting → advice."""
    back_test: Json | None
    recommendations: tuple[Recommendation, ...]


@dataclass(frozen=True, slots=True)
class TuningView:
    """The effective timeouts, the advice, and the what-if results."""

    group_id: str
    effective: Mapping[str, int | None]
    current_advice: SourcedAdvice
    tried_from_ms: int
    tried_to_ms: int
    """The window of the what-if."""
    session: SessionWhatIf | None
    rebalance: RejoinWhatIf | None


@dataclass(frozen=True, slots=True)
class TimeoutsToTry:
    """Timeouts for what-if; None: not requested."""

    session_ms: int | None
    rebalance_ms: int | None

    def settings(self) -> dict[str, SettingValue]:
        """Return the timeouts as settings."""
        requested = {SESSION: self.session_ms, REBALANCE: self.rebalance_ms}
        return {key: value for key, value in requested.items() if value is not None}


def read_timeout_advice(
    transaction: Transaction, query: TuningQuery, settings: GroupSettings, to_try: TimeoutsToTry, max_age_ms: int
) -> TuningView:
    """Return advice for a group, and the effect that the given timeouts would have had.

    Args:
        transaction: the transaction.
        query: the group, the window of history and its limits.
        settings: the effective settings of the group.
        to_try: the timeouts for what-if.
        max_age_ms: the age after which the newest report is not used.

    Raises:
        GroupIdNotFound: there never was such a group.
    """
    past = read_tuning_history(transaction, query)
    known(transaction, query.group_id, list(past.days))
    current, evidence = _current_timeouts(settings, past), past.evidence()
    session_ms, rebalance_ms = to_try.session_ms, to_try.rebalance_ms
    evictions = past.evictions_by
    return TuningView(
        group_id=query.group_id,
        effective=_shown(settings, current),
        current_advice=_report(past, current, settings, query.to_ms - max_age_ms)
        or _live(past, evidence, current, settings),
        tried_from_ms=past.from_ms,
        tried_to_ms=query.to_ms,
        session=None
        if session_ms is None
        else what_if_session(evictions(SESSION_EXPIRED), evidence, current.session_timeout_ms, session_ms),
        rebalance=None
        if rebalance_ms is None
        else what_if_rejoin(
            evictions(REBALANCE_TIMEOUT), past.rejoins_ms, evidence, current.rebalance_timeout_ms, rebalance_ms
        ),
    )


def advice_of_mirror(advice: Mapping[str, Advice]) -> dict[str, Advice]:
    """Return the advice on a mirrored group: what its log does not have is not measured, now or later."""
    return {
        key: replace(each, verdict="not_measured", because=NOT_MEASURED[key]) if key in NOT_MEASURED else each
        for key, each in advice.items()
    }


def _report(
    past: TuningHistory, current: CurrentTimeouts, settings: GroupSettings, since_ms: int
) -> SourcedAdvice | None:
    """Return the report if it is young enough, was made for the effective timeouts, and can be followed."""
    stored = past.stored
    if stored is None or stored.as_of_ms < since_ms:
        return None
    if find_conflict(replace(settings, session_timeout_ms=stored.pieces["session"].value_ms)) is not None:
        return None
    advised_for = tuple(stored.pieces[name].present_ms for name in KEYS)
    if advised_for != (current.session_timeout_ms, current.rebalance_timeout_ms, current.initial_delay_ms):
        return None
    advice = {setting: stored.pieces[name] for name, setting in KEYS.items()}
    window = (stored.window_from_ms, stored.window_to_ms)
    # A recommended assignor that the group uses by now is left out.
    recommendations = tuple(each for each in stored.recommendations if each.name != past.assigned.protocol_name)
    return SourcedAdvice("report", stored.run_id, *window, advice, stored.back_test, recommendations)


def _live(past: TuningHistory, evidence: Evidence, current: CurrentTimeouts, settings: GroupSettings) -> SourcedAdvice:
    above_heartbeats_ms = (settings.heartbeat_interval_ms or 0) + 1
    least_ms = max(settings.group_min_session_timeout_ms, above_heartbeats_ms)
    bounds = Bounds(least_ms, settings.group_max_session_timeout_ms)
    found = advise(evidence, current, past.assigned, bounds, Policy())
    advice = {SESSION: found.session, REBALANCE: found.rebalance, INITIAL_DELAY: found.initial_delay}
    back_test = None if found.tested is None else found.tested.as_json()
    return SourcedAdvice("live", None, past.from_ms, past.query.to_ms, advice, back_test, found.recommendations)


def _current_timeouts(settings: GroupSettings, past: TuningHistory) -> CurrentTimeouts:
    session_ms, rebalance_ms = settings.session_timeout_ms, settings.rebalance_timeout_ms
    return CurrentTimeouts(
        session_timeout_ms=past.requested_session_ms if session_ms is None else session_ms,
        rebalance_timeout_ms=past.requested_rebalance_ms if rebalance_ms is None else rebalance_ms,
        initial_delay_ms=settings.group_initial_rebalance_delay_ms,
    )


def _shown(settings: GroupSettings, current: CurrentTimeouts) -> dict[str, int | None]:
    session_ms = current.session_timeout_ms
    return {
        SESSION: session_ms,
        "heartbeat_interval_ms": None if session_ms is None else settings.effective_heartbeat_interval_ms(session_ms),
        REBALANCE: current.rebalance_timeout_ms,
        INITIAL_DELAY: current.initial_delay_ms,
        "group_min_session_timeout_ms": settings.group_min_session_timeout_ms,
        "group_max_session_timeout_ms": settings.group_max_session_timeout_ms,
    }
