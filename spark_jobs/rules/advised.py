"""One group's counts, as Spark hands them to Python, become one row of advice by the pure rules."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from coordinator_core.protocol.advice.advise import advise
from coordinator_core.protocol.advice.evidence import NO_STEPS, Day, Evidence, Rejoins, Startups
from coordinator_core.protocol.advice.policy import Advice, Bounds, InForce, Policy

NAMES: Final = ("session", "rebalance", "initial_delay")
"""What there is a piece of advice on: the beginnings of its columns' names."""

TOLD: Final = (
    ", ".join(
        f"{name}_present_ms int, {name}_advised_ms int, {name}_verdict string, {name}_confidence string,"
        f" {name}_because string, {name}_effect string"
        for name in NAMES
    )
    + ", back_test string"
)
"""What is told of a group; effects and the test are JSON."""

Counted = Iterable[Mapping[str, int]]
"""How often something falls under a step: place and count; a step that is missing has nothing."""


def advised_row(row: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Return the advice that a row of evidence leads to, by the names of TOLD."""
    in_force = InForce(row["present_session_ms"], row["present_rebalance_ms"], row["present_initial_delay_ms"])
    bounds = Bounds(row["least_session_ms"], row["most_session_ms"])
    found = advise(evidence_of(row), in_force, bounds, policy)
    told = {
        column: value
        for name, piece in zip(NAMES, (found.session, found.rebalance, found.initial_delay), strict=True)
        for column, value in _piece(name, piece).items()
    }
    return {**told, "back_test": None if found.tested is None else json.dumps(found.tested.as_json())}


def evidence_of(row: Mapping[str, Any]) -> Evidence:
    """Return the evidence of a row."""
    return Evidence(
        days=tuple(_day(day) for day in row["days"]),
        rejoins=Rejoins(
            counts=_counts(row["rejoins"]),
            late=_counts(row["late"]),
            no_shows=row["no_shows"] or 0,
            no_shows_limit_ms=row["no_shows_limit_ms"] or 0,
        ),
        startups=Startups(
            starts=row["starts"] or 0,
            alone=row["alone"] or 0,
            last_comers=_counts(row["last_comers"]),
            followers=_counts(row["followers"]),
        ),
    )


def _day(day: Mapping[str, Any]) -> Day:
    return Day(
        day=day["day"],
        heartbeats=day["heartbeats"],
        gaps=tuple(day["gaps"]),
        longest_gap_ms=day["longest_gap_ms"],
        silences=_counts(day["silences"]),
        failures=day["failures"],
        failures_limit_ms=day["failures_limit_ms"],
    )


def _counts(counted: Counted | None) -> tuple[int, ...]:
    counts = list(NO_STEPS)
    for each in counted or ():
        counts[each["place"]] = each["count"]
    return tuple(counts)


def _piece(name: str, piece: Advice) -> dict[str, Any]:
    return {
        f"{name}_present_ms": piece.present_ms,
        f"{name}_advised_ms": piece.value_ms,
        f"{name}_verdict": piece.verdict,
        f"{name}_confidence": piece.confidence,
        f"{name}_because": piece.because,
        f"{name}_effect": json.dumps(dict(piece.effect)),
    }
