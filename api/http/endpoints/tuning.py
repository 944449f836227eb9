"""Endpoint for timeout advice: recommended timeouts from a group's history, and the effect of other timeouts.

Source: http-api.md "Tuning"; docs/tuning.md explains the values.
"""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

from litestar import get
from litestar.params import QueryParameter
from msgspec import Struct

from api.http.fast_path import REQUEST
from api.http.fields import INT64_MAX, GroupId
from api.http.request_context import CurrentRequest
from api.http.rows import response_of
from api.http.times import instant
from coordinator_core.analytics.advice.policy import GRACE_MS, Confidence, Verdict
from coordinator_core.analytics.advice.what_if import Eviction, RejoinWhatIf, SessionWhatIf
from coordinator_core.queries.timeout_advice import TimeoutsToTry, TuningView, advice_of_mirror, read_timeout_advice
from coordinator_core.queries.tuning_history import DAY_MS, TuningQuery

TAGS: Final = ["Operators: tuning"]
HOUR_MS: Final = 3_600_000

# Bounds are checked by the rules of the settings, which name the error.
SessionTimeoutParam: TypeAlias = Annotated[
    int | None, QueryParameter(name="session_timeout_ms", ge=-INT64_MAX, le=INT64_MAX, description="one to try out")
]
RebalanceTimeoutParam: TypeAlias = Annotated[
    int | None, QueryParameter(name="rebalance_timeout_ms", ge=-INT64_MAX, le=INT64_MAX, description="one to try out")
]


class WindowResponse(Struct, rename={"from_": "from"}):
    """The analysed range of history."""

    from_: datetime
    to: datetime


class AdviceResponse(Struct):
    """Advice on one setting; `value` is in milliseconds, and null if there is too little history."""

    value: int | None
    present: int | None
    verdict: Verdict
    confidence: Confidence
    because: str
    effect: dict[str, int]
    """The estimated effect of `value` over the window, compared with what happened."""


class EvictionResponse(Struct):
    """An eviction; `needed_ms` is the timeout that would have avoided it, null if the client did not reconnect."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    at: datetime
    reconnected_at: datetime | None
    limit_ms: int
    needed_ms: int | None
    seen_later_ms: int | None
    """If the client did not reconnect: how much later the failure would have been detected; negative: earlier."""


class CostResponse(Struct):
    """The estimated cost of a timeout over the window; times in milliseconds."""

    rebalances: int
    evictions: int
    """Of live members, an upper bound."""
    stood_still_ms: int
    repeated_work_ms: int
    """Work of evicted live members that they could not commit."""


class SessionWhatIfResponse(Struct):
    """The estimated effect of another session timeout."""

    value: int
    cost: CostResponse
    present_cost: CostResponse | None
    """The cost of the effective timeout; null: unknown."""
    avoided: list[EvictionResponse]
    remaining: list[EvictionResponse]
    failures: list[EvictionResponse]
    detection_added_ms: int
    added_at_least: int
    """Further live members that would have been evicted: a lower bound, since gaps are counted by histogram bucket."""
    added_at_most: int


class RebalanceWhatIfResponse(Struct):
    """The estimated effect of another rebalance timeout."""

    value: int
    cost: CostResponse
    present_cost: CostResponse | None
    """The cost of the effective timeout; null: unknown."""
    avoided: list[EvictionResponse]
    remaining: list[EvictionResponse]
    no_shows: list[EvictionResponse]
    waiting_added_ms: int
    added: int
    """Members that joined in time, and would have been evicted."""


class WhatIfResponse(Struct):
    """The estimated effect of the requested timeouts."""

    window: WindowResponse
    session_timeout_ms: SessionWhatIfResponse | None
    rebalance_timeout_ms: RebalanceWhatIfResponse | None


class RecommendationResponse(Struct):
    """A change of the clients' configuration that the group's history recommends."""

    name: Literal["cooperative-sticky", "static_membership"]
    because: str
    effect: dict[str, int]
    """The estimated savings over the window."""


class TuningResponse(Struct):
    """Advice by setting, from the newest report or computed live, and the effect of the requested timeouts."""

    group_id: str
    window: WindowResponse
    source: Literal["report", "live"]
    run_id: str | None
    effective: dict[str, int | None]
    advice: dict[str, AdviceResponse]
    recommendations: list[RecommendationResponse]
    back_test: dict[str, Any] | None
    what_if: WhatIfResponse | None


@get("/v1/groups/{group_id:str}/tuning", tags=TAGS, opt={REQUEST: "DescribeTuning"})
async def describe_tuning(
    context: CurrentRequest,
    group_id: GroupId,
    session_timeout_ms: SessionTimeoutParam = None,
    rebalance_timeout_ms: RebalanceTimeoutParam = None,
) -> TuningResponse:
    """Recommend timeouts for a group from its history, and estimate the effect of other timeouts."""
    limits, now_ms = context.node.queries.limits, context.coordinator.wall_ms()
    to_try = TimeoutsToTry(session_timeout_ms, rebalance_timeout_ms)
    context.coordinator.check_settings(group_id, to_try.settings())
    query = TuningQuery(
        group_id=group_id,
        from_ms=now_ms - limits.tuning_window_days * DAY_MS,
        to_ms=now_ms,
        grace_ms=GRACE_MS,
        max_rows=limits.tuning_max_rows,
        max_evictions=limits.tuning_max_evictions,
    )
    settings = context.coordinator.settings_of(group_id)
    max_age_ms = limits.tuning_advice_max_age_hours * HOUR_MS
    view = await context.query(read_timeout_advice, query, settings, to_try, max_age_ms)
    current = view.current_advice
    advice = advice_of_mirror(current.advice) if context.coordinator.is_mirror else current.advice
    return TuningResponse(
        group_id=view.group_id,
        window=WindowResponse(instant(current.from_ms), instant(current.to_ms)),
        source=current.source,
        run_id=current.run_id,
        effective=dict(view.effective),
        advice={
            key: response_of(AdviceResponse, each, value=each.value_ms, present=each.present_ms)
            for key, each in advice.items()
        },
        recommendations=[response_of(RecommendationResponse, each) for each in current.recommendations],
        back_test=current.back_test,
        what_if=_what_if(view),
    )


def _what_if(view: TuningView) -> WhatIfResponse | None:
    if view.session is None and view.rebalance is None:
        return None
    return WhatIfResponse(
        window=WindowResponse(instant(view.tried_from_ms), instant(view.tried_to_ms)),
        session_timeout_ms=None if view.session is None else _session(view.session),
        rebalance_timeout_ms=None if view.rebalance is None else _rebalance(view.rebalance),
    )


def _session(found: SessionWhatIf) -> SessionWhatIfResponse:
    failures = [_eviction(each, found.timeout_ms) for each in found.failures]
    return response_of(SessionWhatIfResponse, found, **_common(found), failures=failures)


def _rebalance(found: RejoinWhatIf) -> RebalanceWhatIfResponse:
    no_shows = [_eviction(each, found.timeout_ms) for each in found.no_shows]
    return response_of(RebalanceWhatIfResponse, found, **_common(found), no_shows=no_shows)


def _common(found: SessionWhatIf | RejoinWhatIf) -> dict[str, Any]:
    return {
        "value": found.timeout_ms,
        "cost": response_of(CostResponse, found.cost),
        "present_cost": None if found.present_cost is None else response_of(CostResponse, found.present_cost),
        "avoided": [_eviction(each) for each in found.avoided],
        "remaining": [_eviction(each) for each in found.remaining],
    }


def _eviction(each: Eviction, timeout_ms: int | None = None) -> EvictionResponse:
    seen_later_ms = None if timeout_ms is None else timeout_ms - each.limit_ms
    return response_of(EvictionResponse, each, seen_later_ms=seen_later_ms)
