"""Advice on a group's timeouts, and what others would have done, from the group's own past; any node answers.

Rules:

* The newest report of the job `timeout_advice` is told while it is young enough and speaks of what is in force now.
  Else the same rules are applied on demand, to a shorter window.
* What-if always looks at the past itself, eviction by eviction.
* A timeout that could not be set is not tried out: it is refused as setting it would be.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from coordinator_core.protocol.advice.advise import advise
from coordinator_core.protocol.advice.evidence import Evidence
from coordinator_core.protocol.advice.policy import GRACE_MS, Advice, Bounds, InForce, Policy
from coordinator_core.protocol.advice.recommend import Recommendation
from coordinator_core.protocol.advice.what_if import RejoinWhatIf, SessionWhatIf, what_if_rejoin, what_if_session
from coordinator_core.protocol.errors import GroupIdNotFound
from coordinator_core.protocol.setting_rules import SettingValue, check_settings, check_together
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.history import Read
from coordinator_core.runtime.surroundings import Surroundings
from coordinator_core.store.interface import Store
from coordinator_core.store.rows import Json
from coordinator_core.store.tuning import (
    DAY_MS,
    REBALANCE_TIMEOUT,
    SESSION_EXPIRED,
    TuningPast,
    TuningQuestion,
)

HOUR_MS: Final = 3_600_000
SESSION: Final = "session_timeout_ms"
REBALANCE: Final = "rebalance_timeout_ms"
INITIAL_DELAY: Final = "group_initial_rebalance_delay_ms"
KEYS: Final[Mapping[str, str]] = {"session": SESSION, "rebalance": REBALANCE, "initial_delay": INITIAL_DELAY}
"""What a report's columns begin with → the setting that the advice is on."""


@dataclass(frozen=True, slots=True)
class Told:
    """Advice, and where it comes from."""

    source: Literal["report", "live"]
    run_id: str | None
    """Of the report."""
    from_ms: int
    to_ms: int
    """The window that it comes from."""
    advice: Mapping[str, Advice]
    """By settings."""
    back_test: Json | None
    recommendations: tuple[Recommendation, ...]


@dataclass(frozen=True, slots=True)
class TuningView:
    """What is in force, what is advised, and what was asked to be tried out."""

    group_id: str
    in_force: Mapping[str, int | None]
    told: Told
    tried_from_ms: int
    tried_to_ms: int
    """The window that is tried out on."""
    session: SessionWhatIf | None
    rebalance: RejoinWhatIf | None


@dataclass(frozen=True, slots=True)
class Tried:
    """The timeouts to try out; None: none."""

    session_ms: int | None
    rebalance_ms: int | None

    def settings(self) -> dict[str, SettingValue]:
        """Return what would have to be set."""
        asked = {SESSION: self.session_ms, REBALANCE: self.rebalance_ms}
        return {key: value for key, value in asked.items() if value is not None}


class Tuning:
    """Asks the store of a group's past, and the rules what follows from it."""

    def __init__(
        self, store: Store, read: Read, surroundings: Surroundings, wall_ms: Callable[[], int], config: NodeConfig
    ) -> None:
        self._store = store
        self._read = read
        self._surroundings = surroundings
        self._wall_ms = wall_ms
        self._config = config

    async def look(self, group_id: str, tried: Tried) -> TuningView:
        """Return advice for a group, and what the timeouts that are given would have done.

        Raises:
            InvalidRequest: a timeout that could not be set.
            GroupIdNotFound: nobody has ever seen this group.
        """
        check_settings(tried.settings())
        texts = {key: str(value) for key, value in tried.settings().items()}
        check_together(self._surroundings.would_be(group_id, texts))
        settings = self._surroundings.context(group_id).settings
        # Beside the loop, all of it: counting a large group's past takes a while.
        return await self._read(partial(self._view, self._question(group_id), settings, tried))

    def _question(self, group_id: str) -> TuningQuestion:
        now_ms = self._wall_ms()
        return TuningQuestion(
            group_id=group_id,
            from_ms=now_ms - self._config.tuning_window_days * DAY_MS,
            to_ms=now_ms,
            grace_ms=GRACE_MS,
            max_rows=self._config.tuning_max_rows,
            max_evictions=self._config.tuning_max_evictions,
        )

    def _view(self, question: TuningQuestion, settings: GroupSettings, tried: Tried) -> TuningView:
        past = self._store.tuning(question)
        if not past.days and not self._store.knows(question.group_id):
            raise GroupIdNotFound("nobody has ever seen this group")
        in_force, evidence = _in_force(settings, past), past.evidence()
        session_ms, rebalance_ms = tried.session_ms, tried.rebalance_ms
        evictions = past.evictions_by
        return TuningView(
            group_id=question.group_id,
            in_force=_shown(settings, in_force),
            told=self._report(past, in_force, question.to_ms) or _live(past, evidence, in_force, settings),
            tried_from_ms=past.from_ms,
            tried_to_ms=question.to_ms,
            session=None
            if session_ms is None
            else what_if_session(evictions(SESSION_EXPIRED), evidence, in_force.session_timeout_ms, session_ms),
            rebalance=None
            if rebalance_ms is None
            else what_if_rejoin(
                evictions(REBALANCE_TIMEOUT), past.rejoins_ms, evidence, in_force.rebalance_timeout_ms, rebalance_ms
            ),
        )

    def _report(self, past: TuningPast, in_force: InForce, now_ms: int) -> Told | None:
        """Return the report if it is young enough, and speaks of what is in force now."""
        stored = past.stored
        if stored is None or stored.as_of_ms < now_ms - self._config.tuning_advice_max_age_hours * HOUR_MS:
            return None
        then = tuple(stored.pieces[name].present_ms for name in KEYS)
        if then != (in_force.session_timeout_ms, in_force.rebalance_timeout_ms, in_force.initial_delay_ms):
            return None
        advice = {setting: stored.pieces[name] for name, setting in KEYS.items()}
        window = (stored.window_from_ms, stored.window_to_ms)
        # A group whose assignor was changed since has followed that recommendation.
        recommendations = tuple(each for each in stored.recommendations if each.name != past.assigned.protocol_name)
        return Told("report", stored.run_id, *window, advice, stored.back_test, recommendations)


def _live(past: TuningPast, evidence: Evidence, in_force: InForce, settings: GroupSettings) -> Told:
    bounds = Bounds(settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms)
    found = advise(evidence, in_force, past.assigned, bounds, Policy())
    advice = {SESSION: found.session, REBALANCE: found.rebalance, INITIAL_DELAY: found.initial_delay}
    back_test = None if found.tested is None else found.tested.as_json()
    return Told("live", None, past.from_ms, past.question.to_ms, advice, back_test, found.recommendations)


def _in_force(settings: GroupSettings, past: TuningPast) -> InForce:
    session_ms, rebalance_ms = settings.session_timeout_ms, settings.rebalance_timeout_ms
    return InForce(
        session_timeout_ms=past.asked_session_ms if session_ms is None else session_ms,
        rebalance_timeout_ms=past.asked_rebalance_ms if rebalance_ms is None else rebalance_ms,
        initial_delay_ms=settings.group_initial_rebalance_delay_ms,
    )


def _shown(settings: GroupSettings, in_force: InForce) -> dict[str, int | None]:
    session_ms = in_force.session_timeout_ms
    return {
        SESSION: session_ms,
        "heartbeat_interval_ms": None if session_ms is None else settings.heartbeat_in_force_ms(session_ms),
        REBALANCE: in_force.rebalance_timeout_ms,
        INITIAL_DELAY: in_force.initial_delay_ms,
        "group_min_session_timeout_ms": settings.group_min_session_timeout_ms,
        "group_max_session_timeout_ms": settings.group_max_session_timeout_ms,
    }
