"""Tests of the limits' messages and of alerts."""

import asyncio
import logging
import re
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from spark_jobs import submit
from spark_jobs.errors import JobError
from tests.support.webhook import Webhook, listening

LIMITS = submit.Limits(max_candidates=100, max_share=0.25, max_group_candidates=50, max_group_share=0.5, share_from=10)

# -- limits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "counts",
    [
        {"candidates": 0, "of": 0},
        {"candidates": 100, "of": 400, "largest_group": 50, "largest_group_permille": 500},
        # Of fewer than ten, every share will do.
        {"candidates": 9, "of": 9},
    ],
)
def test_proposal_within_limits_needs_no_approval(counts: dict[str, int]) -> None:
    assert LIMITS.exceeded_by(counts, "offset_retention") == []


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        (
            {"candidates": 101, "of": 1000},
            "101 candidates are more than 100 (max_candidates).",
        ),
        (
            {"candidates": 10, "of": 39},
            "10 candidates of 39 are more than a share of 0.25 (max_share).",
        ),
        (
            {"candidates": 60, "of": 600, "largest_group": 51},
            "51 candidates of one group are more than 50 (max_group_candidates).",
        ),
        (
            {"candidates": 20, "of": 600, "largest_group": 20, "largest_group_permille": 501},
            "0.501 of one group is more than a share of 0.5 (max_group_share).",
        ),
        ({"candidates": 20}, "The proposal has no counts."),
        ({}, "The proposal has no counts."),
        (
            {"candidates": 20, "of": 0},
            "20 candidates of 0 are more than a share of 0.25 (max_share).",
        ),
    ],
)
def test_exceeded_limits_are_listed(counts: dict[str, int], sentence: str) -> None:
    with_settings = re.sub(
        r"\((\w+)\)", lambda name: f"({name[1]}, MUSTER_OFFSET_RETENTION_{name[1].upper()})", sentence
    )
    assert LIMITS.exceeded_by(counts, "offset_retention") == [with_settings]


def test_share_that_equals_its_limit_is_within_it() -> None:
    """0.94 times 17400 is less than 16356 in floating point."""
    limits = submit.Limits(max_share=0.94)
    assert limits.exceeded_by({"candidates": 16_356, "of": 17_400}, "group_cleanup") == []
    assert len(limits.exceeded_by({"candidates": 16_357, "of": 17_400}, "group_cleanup")) == 1


def test_every_limit_that_is_exceeded_is_named() -> None:
    counts = {"candidates": 200, "of": 200, "largest_group": 200, "largest_group_permille": 1000}
    assert len(LIMITS.exceeded_by(counts, "offset_retention")) == 4


def test_limits_come_from_the_environment_of_each_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_OFFSET_RETENTION_MAX_CANDIDATES", " 7 ")
    monkeypatch.setenv("MUSTER_OFFSET_RETENTION_MAX_GROUP_SHARE", "0.75")
    found = submit.default_limits("offset_retention")
    assert (found.max_candidates, found.max_group_share) == (7, 0.75)
    assert found.share_from == submit.Limits().share_from
    assert submit.default_limits("group_cleanup") == submit.Limits()


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("MAX_CANDIDATES", "many", "a whole number"),
        ("MAX_CANDIDATES", "-1", "a whole number"),
        ("MAX_CANDIDATES", "0.5", "a whole number"),
        ("MAX_SHARE", "1.01", "a share from 0 to 1"),
        ("MAX_SHARE", "nan", "a share from 0 to 1"),
        ("MAX_GROUP_SHARE", "half", "a share from 0 to 1"),
    ],
)
def test_invalid_limit_is_rejected(monkeypatch: pytest.MonkeyPatch, name: str, text: str, kind: str) -> None:
    monkeypatch.setenv(f"MUSTER_GROUP_CLEANUP_{name}", text)
    with pytest.raises(JobError, match=f"MUSTER_GROUP_CLEANUP_{name} is '{text}'; it must be {kind}"):
        submit.default_limits("group_cleanup")


# -- alerts ---------------------------------------------------------------------------------------------------


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with listening(Webhook()) as webhook:
        monkeypatch.setenv("MUSTER_ALERT_WEBHOOK_URL", webhook.url)
        yield webhook


def test_failed_task_is_alerted_and_logged(webhook: Webhook, caplog: pytest.LogCaptureFixture) -> None:
    instance = SimpleNamespace(dag_id="d", task_id="t", run_id="r", try_number=4, log_url="http://airflow/log")
    submit.task_failed({"ti": instance, "exception": ValueError("two\nlines")})
    (alert,) = webhook.alerts
    assert alert == {
        "event": "task_failed",
        "text": "d.t failed: two lines",
        "dag_id": "d",
        "task_id": "t",
        "run_id": "r",
        "try_number": 4,
        "log_url": "http://airflow/log",
    }
    assert "task_failed: d.t failed: two lines" in caplog.text


def test_a_long_reason_is_cut(webhook: Webhook) -> None:
    instance = SimpleNamespace(dag_id="d", task_id="t", run_id="r", try_number=3)
    submit.task_failed({"ti": instance, "exception": ValueError("why " + "at frame " * 5_000)})
    (alert,) = webhook.alerts
    assert alert["text"].startswith("d.t failed: why at frame")
    assert len(alert["text"]) < 2_100


def test_failed_run_and_missed_deadline_are_alerted(webhook: Webhook) -> None:
    submit.run_failed({"dag_run": SimpleNamespace(dag_id="d", run_id="r"), "reason": "timed_out"})
    asyncio.run(submit.deadline_missed("d", context={"dag_run": {"dag_run_id": "r"}}))
    asyncio.run(submit.deadline_missed("d"))
    assert [(alert["event"], alert["run_id"]) for alert in webhook.alerts] == [
        ("run_failed", "r"),
        ("deadline_missed", "r"),
        ("deadline_missed", None),
    ]


def test_runs_of_a_backfill_that_wait_for_one_another_are_not_alerted(webhook: Webhook) -> None:
    asyncio.run(submit.deadline_missed("d", context={"dag_run": {"dag_run_id": "r", "run_type": "backfill"}}))
    assert webhook.alerts == []


def test_alert_without_a_webhook_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delenv("MUSTER_ALERT_WEBHOOK_URL", raising=False)
    submit.alert("something", "A sentence.")
    assert "something: A sentence." in caplog.text


def test_failing_webhook_fails_no_task_and_its_url_is_not_logged(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for status in (500, 302):
        webhook.status = status
        submit.alert("something", "A sentence.")
    for address in ("http://127.0.0.1:1/s3cret", "no address at all: s3cret"):
        monkeypatch.setenv("MUSTER_ALERT_WEBHOOK_URL", address)
        submit.alert("something", "A sentence.")
    assert "The webhook answered with status 500." in caplog.text
    assert "The webhook answered with status 302." in caplog.text
    assert caplog.text.count("The webhook request failed") == 2
    assert "s3cret" not in "".join(record.getMessage() for record in caplog.records if record.name == "airflow.task")
