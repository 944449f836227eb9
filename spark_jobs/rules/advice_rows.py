"""Convert one group's counts from Spark to evidence, and apply the pure advice rules."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from coordinator_core.analytics.advice.advise import advise
from coordinator_core.analytics.advice.evidence import (
    NO_STEPS,
    REBALANCE_TIMEOUT,
    SESSION_EXPIRED,
    Day,
    Evidence,
    Rebalances,
    Rejoins,
    Startups,
    merged,
    rejoins_of,
)
from coordinator_core.analytics.advice.policy import Advice, Bounds, CurrentAssignment, CurrentTimeouts, Policy
from coordinator_core.analytics.advice.steps import BEYOND

NAMES: Final = ("session", "rebalance", "initial_delay")
"""Prefixes of the advice columns."""

ADVICE_SCHEMA: Final = (
    ", ".join(
        f"{name}_present_ms int, {name}_advised_ms int, {name}_verdict string, {name}_confidence string,"
        f" {name}_reason string, {name}_effect string"
        for name in NAMES
    )
    + ", back_test string, recommendations string"
)
"""Columns of a group's advice; effects, the back-test and recommendations are JSON."""


Counted = Mapping[str, int]
"""Counts by step; a step may be missing, or occur several times."""

Eviction = Mapping[str, Any]
"""Member sessions that ended on a day for a reason: end_reason, day, place, limit_place, is_live, is_restart, count,
`limit_ms` (the sum of their limits), and `stalls`, the join phases in which one of them was the slowest member.

The place is the step of the timeout that would not have evicted them, None for members that did not rejoin.
"""


def advised_row(row: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Return the advice for a row of evidence, by the columns of ADVICE_SCHEMA."""
    effective = CurrentTimeouts(row["present_session_ms"], row["present_rebalance_ms"], row["present_initial_delay_ms"])
    bounds = Bounds(row["least_session_ms"], row["most_session_ms"])
    assigned = CurrentAssignment(row["protocol_name"], row["partitions"])
    found = advise(evidence_of(row), effective, assigned, bounds, policy)
    advice = {
        column: value
        for name, piece in zip(NAMES, (found.session, found.rebalance, found.initial_delay), strict=True)
        for column, value in _piece(name, piece).items()
    }
    return {
        **advice,
        "back_test": None if found.tested is None else json.dumps(found.tested.as_json()),
        "recommendations": json.dumps([each.as_json() for each in found.recommendations]),
    }


def evidence_of(row: Mapping[str, Any]) -> Evidence:
    """Return the evidence of a row."""
    evictions = row["evictions"] or ()
    by_session = [each for each in evictions if each["end_reason"] == SESSION_EXPIRED]
    by_rebalance = [each for each in evictions if each["end_reason"] == REBALANCE_TIMEOUT]
    return Evidence(
        days=merged([*map(_measured, row["days"]), *_eviction_counts(by_session)]),
        rejoins=_rejoins(row["rejoins"] or (), row["waits"] or (), by_rebalance),
        startups=Startups(
            starts=row["starts"] or 0,
            alone=row["alone"] or 0,
            last_comers=_counts(row["last_comers"] or ()),
            followers=_counts(row["followers"] or ()),
        ),
        rebalances=Rebalances(
            count=row["rebalances"] or 0,
            took_ms=row["took_ms"] or 0,
            completed=row["completed"] or 0,
            partitions_moved=row["partitions_moved"] or 0,
            by_members=row["by_members"] or 0,
            restarts=sum(each["count"] for each in evictions if each["is_restart"]),
        ),
    )


def _measured(day: Mapping[str, Any]) -> Day:
    return Day(day["day"], day["heartbeats"], tuple(day["gaps"]), day["longest_gap_ms"])


def _eviction_counts(evictions: Iterable[Eviction]) -> Iterator[Day]:
    """Return the eviction counts by day."""
    by_day: defaultdict[int, list[Eviction]] = defaultdict(list)
    for each in evictions:
        by_day[each["day"]].append(each)
    for day, its in by_day.items():
        back, away = _split_by_liveness(its)
        count, limit_ms = _sums(away)
        yield Day(day, silences=_counts(back), failures=count, failures_limit_ms=limit_ms)


def _rejoins(in_time: Iterable[Counted], waits: Iterable[Counted], evictions: Sequence[Eviction]) -> Rejoins:
    late = [each for each in evictions if each["place"] is not None or each["is_live"]]
    return rejoins_of(
        in_time=_counts(in_time),
        late=_counts([{"place": _needed_place(each), "count": each["count"]} for each in late]),
        no_shows=sum(each["count"] for each in evictions) - sum(each["count"] for each in late),
        waits=_counts(waits),
        stalls=[(each["limit_place"], _needed_place(each), each["stalls"]) for each in evictions],
    )


def _needed_place(eviction: Eviction) -> int:
    return BEYOND if eviction["place"] is None else int(eviction["place"])


def _split_by_liveness(evictions: Iterable[Eviction]) -> tuple[list[Eviction], list[Eviction]]:
    """Return the evictions of members that rejoined, and of those that did not."""
    known = list(evictions)
    return [each for each in known if each["place"] is not None], [each for each in known if each["place"] is None]


def _sums(evictions: Iterable[Eviction]) -> tuple[int, int]:
    """Return the number of evictions and the sum of their limits."""
    known = list(evictions)
    return sum(each["count"] for each in known), sum(each["limit_ms"] for each in known)


def _counts(counted: Iterable[Counted]) -> tuple[int, ...]:
    counts = list(NO_STEPS)
    for each in counted:
        counts[each["place"]] += each["count"]
    return tuple(counts)


def _piece(name: str, piece: Advice) -> dict[str, Any]:
    return {
        f"{name}_present_ms": piece.present_ms,
        f"{name}_advised_ms": piece.value_ms,
        f"{name}_verdict": piece.verdict,
        f"{name}_confidence": piece.confidence,
        f"{name}_reason": piece.because,
        f"{name}_effect": json.dumps(dict(piece.effect)),
    }
