"""Advice on a group's timeouts, and the effect that other timeouts would have had, from history; any node answers.

Rules:

* The newest report of the job `timeout_advice` is returned while it is young enough and was made for the effective
  timeouts. Otherwise the same rules are applied to a shorter window of history.
* What-if always reads history, eviction by eviction.
* A timeout that could not be set is refused as setting it would be.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from coordinator_core.analytics.advice.advise import advise
from coordinator_core.analytics.advice.evidence import Evidence
from coordinator_core.analytics.advice.policy import GRACE_MS, Advice, Bounds, CurrentTimeouts, Policy
from coordinator_core.analytics.advice.recommend import Recommendation
from coordinator_core.analytics.advice.what_if import RejoinWhatIf, SessionWhatIf, what_if_rejoin, what_if_session
from coordinator_core.protocol.errors import GroupIdNotFound
from coordinator_core.protocol.setting_rules import SettingValue, check_consistency, check_settings
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.history import StoreReader
from coordinator_core.runtime.metadata_cache import MetadataCache
from coordinator_core.store.interface import Store
from coordinator_core.store.rows import Json
from coordinator_core.store.tuning import (
    DAY_MS,
    REBALANCE_TIMEOUT,
    SESSION_EXPIRED,
    TuningHistory,
    TuningQuery,
)

HOUR_MS: Final = 3_600_000
SESSION: Final = "session_timeout_ms"
REBALANCE: Final = "rebalance_timeout_ms"
INITIAL_DELAY: Final = "group_initial_rebalance_delay_ms"
KEYS: Final[Mapping[str, str]] = {"session": SESSION, "rebalance": REBALANCE, "initial_delay": INITIAL_DELAY}
"""Prefix of a report's columns → the setting."""


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


class Tuning:
    """Computes advice and what-if from a group's history."""

    def __init__(
        self,
        store: Store,
        read: StoreReader,
        metadata_cache: MetadataCache,
        wall_ms: Callable[[], int],
        config: NodeConfig,
    ) -> None:
        self._store = store
        self._read = read
        self._metadata_cache = metadata_cache
        self._wall_ms = wall_ms
        self._config = config

    async def advise(self, group_id: str, to_try: TimeoutsToTry) -> TuningView:
        """Return advice for a group, and the effect that the given timeouts would have had.

        Raises:
            InvalidRequest: a timeout that could not be set.
            GroupIdNotFound: the group does not exist and has no history.
        """
        check_settings(to_try.settings())
        texts = {key: str(value) for key, value in to_try.settings().items()}
        check_consistency(self._metadata_cache.preview(group_id, texts))
        settings = self._metadata_cache.context(group_id).settings
        # On a reader thread: counting a large group's history takes a while.
        return await self._read(partial(self._view, self._question(group_id), settings, to_try))

    def _question(self, group_id: str) -> TuningQuery:
        now_ms = self._wall_ms()
        return TuningQuery(
            group_id=group_id,
            from_ms=now_ms - self._config.tuning_window_days * DAY_MS,
            to_ms=now_ms,
            grace_ms=GRACE_MS,
            max_rows=self._config.tuning_max_rows,
            max_evictions=self._config.tuning_max_evictions,
        )

    def _view(self, query: TuningQuery, settings: GroupSettings, to_try: TimeoutsToTry) -> TuningView:
        past = self._store.tuning(query)
        if not past.days and not self._store.is_known_group(query.group_id):
            raise GroupIdNotFound("the group does not exist and has no history")
        current, evidence = _current_timeouts(settings, past), past.evidence()
        session_ms, rebalance_ms = to_try.session_ms, to_try.rebalance_ms
        evictions = past.evictions_by
        return TuningView(
            group_id=query.group_id,
            effective=_shown(settings, current),
            current_advice=self._report(past, current, query.to_ms) or _live(past, evidence, current, settings),
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

    def _report(self, past: TuningHistory, current: CurrentTimeouts, now_ms: int) -> SourcedAdvice | None:
        """Return the report if it is young enough and was made for the effective timeouts."""
        stored = past.stored
        if stored is None or stored.as_of_ms < now_ms - self._config.tuning_advice_max_age_hours * HOUR_MS:
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
    bounds = Bounds(settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms)
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
