"""Tuning over HTTP: what a group's own past says of its timeouts, and what others would have done.

Source: http-api.md "Tuning"; docs/tuning.md says how to read it.
"""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

from litestar import get
from litestar.params import QueryParameter
from msgspec import Struct

from api.http.call import ThisCall
from api.http.express import REQUEST
from api.http.fields import INT64_MAX, GroupId
from api.http.times import instant, instant_or_none
from coordinator_core.protocol.advice.cost import Cost
from coordinator_core.protocol.advice.policy import Advice, Confidence, Verdict
from coordinator_core.protocol.advice.what_if import Eviction, RejoinWhatIf, SessionWhatIf
from coordinator_core.runtime.tuning import Tried, TuningView

TAGS: Final = ["Operators: tuning"]

# Judged by the rules of the settings, which say what is wrong.
SessionTried: TypeAlias = Annotated[
    int | None, QueryParameter(name="session_timeout_ms", ge=-INT64_MAX, le=INT64_MAX, description="one to try out")
]
RebalanceTried: TypeAlias = Annotated[
    int | None, QueryParameter(name="rebalance_timeout_ms", ge=-INT64_MAX, le=INT64_MAX, description="one to try out")
]


class WindowShown(Struct, rename={"from_": "from"}):
    """From when to when the past was looked at."""

    from_: datetime
    to: datetime


class AdviceShown(Struct):
    """Advice on one setting; `value` is in milliseconds, and null where too little is known."""

    value: int | None
    present: int | None
    verdict: Verdict
    confidence: Confidence
    because: str
    effect: dict[str, int]
    """What `value` would have done over the window, beside what happened."""


class EvictionShown(Struct):
    """A member that was evicted; `needed_ms` is the timeout that would have spared it, null if it did not come back."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    at: datetime
    back_at: datetime | None
    limit_ms: int
    needed_ms: int | None
    seen_later_ms: int | None
    """Of one that stayed away: how much later it would have been missed; below zero: sooner."""


class CostShown(Struct):
    """What a timeout costs over the window; times in milliseconds."""

    rebalances: int
    evictions: int
    """Of live members, at most."""
    stood_still_ms: int
    repeated_work_ms: int
    """What evicted live members worked on and could not commit."""


class SessionWhatIfShown(Struct):
    """What another session timeout would have done."""

    value: int
    cost: CostShown
    present_cost: CostShown | None
    """Of the timeout in force; null: that is not known."""
    avoided: list[EvictionShown]
    remaining: list[EvictionShown]
    failures: list[EvictionShown]
    detection_added_ms: int
    added_at_least: int
    """Further members that would have been put out though they lived; gaps are known by their bounds only."""
    added_at_most: int


class RebalanceWhatIfShown(Struct):
    """What another rebalance timeout would have done."""

    value: int
    cost: CostShown
    present_cost: CostShown | None
    """Of the timeout in force; null: that is not known."""
    avoided: list[EvictionShown]
    remaining: list[EvictionShown]
    no_shows: list[EvictionShown]
    waiting_added_ms: int
    added: int
    """Members that came in time, and would have been left out."""


class WhatIfShown(Struct):
    """What the timeouts that were asked about would have done."""

    window: WindowShown
    session_timeout_ms: SessionWhatIfShown | None
    rebalance_timeout_ms: RebalanceWhatIfShown | None


class RecommendationShown(Struct):
    """A change of the clients' configuration that the group's history recommends."""

    name: Literal["cooperative-sticky", "static_membership"]
    because: str
    effect: dict[str, int]
    """What it would have saved over the window."""


class TuningAnswer(Struct):
    """Advice by settings, from the newest report or worked out just now, and what was asked to be tried out."""

    group_id: str
    window: WindowShown
    source: Literal["report", "live"]
    run_id: str | None
    in_force: dict[str, int | None]
    advice: dict[str, AdviceShown]
    recommendations: list[RecommendationShown]
    back_test: dict[str, Any] | None
    what_if: WhatIfShown | None


@get("/v1/groups/{group_id:str}/tuning", tags=TAGS, opt={REQUEST: "DescribeTuning"})
async def describe_tuning(
    call: ThisCall,
    group_id: GroupId,
    session_timeout_ms: SessionTried = None,
    rebalance_timeout_ms: RebalanceTried = None,
) -> TuningAnswer:
    """Say which timeouts a group should have by its own past, and what others would have done."""
    view = await call.coordinator.tuning.look(group_id, Tried(session_timeout_ms, rebalance_timeout_ms))
    told = view.told
    return TuningAnswer(
        group_id=view.group_id,
        window=WindowShown(instant(told.from_ms), instant(told.to_ms)),
        source=told.source,
        run_id=told.run_id,
        in_force=dict(view.in_force),
        advice={setting: _advice(piece) for setting, piece in told.advice.items()},
        recommendations=[
            RecommendationShown(each.name, each.because, dict(each.effect)) for each in told.recommendations
        ],
        back_test=told.back_test,
        what_if=_what_if(view),
    )


def _advice(piece: Advice) -> AdviceShown:
    return AdviceShown(
        value=piece.value_ms,
        present=piece.present_ms,
        verdict=piece.verdict,
        confidence=piece.confidence,
        because=piece.because,
        effect=dict(piece.effect),
    )


def _what_if(view: TuningView) -> WhatIfShown | None:
    if view.session is None and view.rebalance is None:
        return None
    return WhatIfShown(
        window=WindowShown(instant(view.tried_from_ms), instant(view.tried_to_ms)),
        session_timeout_ms=None if view.session is None else _session(view.session),
        rebalance_timeout_ms=None if view.rebalance is None else _rebalance(view.rebalance),
    )


def _session(found: SessionWhatIf) -> SessionWhatIfShown:
    return SessionWhatIfShown(
        value=found.timeout_ms,
        cost=_cost(found.cost),
        present_cost=None if found.present_cost is None else _cost(found.present_cost),
        avoided=[_eviction(each) for each in found.avoided],
        remaining=[_eviction(each) for each in found.remaining],
        failures=[_eviction(each, found.timeout_ms) for each in found.failures],
        detection_added_ms=found.detection_added_ms,
        added_at_least=found.added_at_least,
        added_at_most=found.added_at_most,
    )


def _rebalance(found: RejoinWhatIf) -> RebalanceWhatIfShown:
    return RebalanceWhatIfShown(
        value=found.timeout_ms,
        cost=_cost(found.cost),
        present_cost=None if found.present_cost is None else _cost(found.present_cost),
        avoided=[_eviction(each) for each in found.avoided],
        remaining=[_eviction(each) for each in found.remaining],
        no_shows=[_eviction(each, found.timeout_ms) for each in found.no_shows],
        waiting_added_ms=found.waiting_added_ms,
        added=found.added,
    )


def _cost(cost: Cost) -> CostShown:
    return CostShown(cost.rebalances, cost.evictions, cost.stood_still_ms, cost.repeated_work_ms)


def _eviction(each: Eviction, timeout_ms: int | None = None) -> EvictionShown:
    return EvictionShown(
        member_id=each.member_id,
        group_instance_id=each.group_instance_id,
        client_id=each.client_id,
        client_host=each.client_host,
        at=instant(each.at_ms),
        back_at=instant_or_none(each.back_at_ms),
        limit_ms=each.limit_ms,
        needed_ms=each.needed_ms,
        seen_later_ms=None if timeout_ms is None else timeout_ms - each.limit_ms,
    )
