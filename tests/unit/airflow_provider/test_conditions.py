"""Tests of the conditions that sensors wait for: known and unknown lags, targets, states, and what is logged."""

import asyncio
import logging
from typing import Any

import pytest

from muster_airflow.client import MusterClient
from muster_airflow.conditions import LagCondition, Progress, StateCondition, log_progress, look_once
from tests.support.fake_maintenance_node import FakeNode, running


def partition(number: int, lag: int | None, lag_seconds: float | None = 0.0, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    return {
        "topic": "orders",
        "partition": number,
        "lag": lag,
        "lag_seconds": lag_seconds,
        "is_lag_lower_bound": False,
        "is_log_end_stale": False,
        **changes,
    }


@pytest.mark.parametrize(
    ("partitions", "is_met"),
    [
        ([partition(0, 0), partition(1, 0)], True),
        ([partition(0, 0), partition(1, 1, 2.0)], False),
        ([partition(0, 0), partition(1, None, None)], False),
        ([partition(0, 0), partition(1, 0, is_log_end_stale=True)], False),
        ([partition(0, 0, is_lag_lower_bound=True)], True),  # of the seconds only
        ([], False),
    ],
)
def test_unknown_lag_or_a_lower_bound_never_counts_as_caught_up(partitions: list[dict[str, Any]], is_met: bool) -> None:
    assert LagCondition("billing").judge("Stable", partitions).is_met is is_met


@pytest.mark.parametrize(
    ("max_lag", "max_lag_seconds", "is_met"),
    [(30, None, True), (29, None, False), (None, 5.0, True), (None, 4.9, False), (30, 4.9, False), (29, 5.0, False)],
)
def test_records_are_summed_and_seconds_are_the_longest(
    max_lag: int | None, max_lag_seconds: float | None, is_met: bool
) -> None:
    found = LagCondition("billing", (), max_lag, max_lag_seconds).judge(
        "Stable", [partition(0, 10, 5.0), partition(1, 20, 1.0)]
    )
    assert found.is_met is is_met
    assert found.result == {"group_id": "billing", "state": "Stable", "lag": 30, "lag_seconds": 5.0}


def test_lower_bound_of_seconds_is_unknown_if_seconds_are_limited() -> None:
    found = LagCondition("billing", (), None, 100.0).judge("Stable", [partition(0, 1, 2.0, is_lag_lower_bound=True)])
    assert not found.is_met
    assert "Unknown, or a lower bound: orders-0." in found.text


def test_only_the_named_topics_count_and_each_must_have_a_partition() -> None:
    partitions = [partition(0, 0), partition(0, 9, topic="clicks")]
    assert LagCondition("billing", ["orders"]).judge("Stable", partitions).is_met
    missing = LagCondition("billing", ["orders", "payments"]).judge("Stable", partitions)
    assert not missing.is_met
    assert "Unknown, or a lower bound: payments." in missing.text


def test_progress_has_the_lag_and_the_target() -> None:
    partitions = [partition(0, 1_880, 94.2), *(partition(each, None, None) for each in range(1, 8))]
    assert LagCondition("billing", (), 5, 60).judge("Stable", partitions).text == (
        "Group billing is Stable. Known lag: 1880 records (target: 5), 94.2 seconds (target: 60)."
        " Unknown, or a lower bound: orders-1, orders-2, orders-3, orders-4, orders-5 and 2 more."
    )


def test_limits_and_states_are_checked() -> None:
    with pytest.raises(ValueError, match="set one of them"):
        LagCondition("billing", (), None, None)
    with pytest.raises(ValueError, match="Empyt is not among CompletingRebalance, Empty"):
        StateCondition("billing", ["Empyt"])
    with pytest.raises(ValueError, match="at least one"):
        StateCondition("billing", [])


def test_a_node_that_does_not_answer_is_no_error() -> None:
    with running(FakeNode()) as gone:
        pass
    client = MusterClient([gone.url], retry_timeout_s=0)
    found = asyncio.run(look_once(StateCondition("billing", ["Empty"]), client, wait_for_group=False))
    assert (found.is_met, found.is_answered) == (False, False)
    assert found.text.startswith(f"No node answers. {gone.url}: ")


def test_nodes_that_do_not_answer_are_a_warning_when_the_text_changes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = logging.getLogger("muster_airflow")
    found = [Progress(is_met=False, text=text, result={}, is_answered=False) for text in ("down", "down", "refused")]
    found += [Progress(is_met=False, text="Group g is Stable.", result={}) for _ in range(2)]
    previous = ""
    for progress in found:
        log_progress(log, progress, previous)
        previous = progress.text
    logged = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert logged == [("WARNING", "down"), ("WARNING", "refused"), *[("INFO", "Group g is Stable.")] * 2]
