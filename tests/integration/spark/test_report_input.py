"""Tests of a report's arguments and environment, valid and invalid."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg2.extensions as pg
import pytest

from muster.cli.jobs import run_job
from muster.errors import UserError
from muster.settings import Settings, load_settings
from spark_jobs.errors import JobError
from spark_jobs.jobs import assignment_balance_audit, rebalance_frequency_report, timeout_advice
from spark_jobs.report_job import ReportArguments, ReportingJob, read_report_arguments, run, why_nothing
from spark_jobs.submit import default_options, job_arguments, start_date
from tests.support.stored_history import BORN, GROUP, SHARD, group, insert

RUN_ID = "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"
AS_OF = "2026-11-21T13:00:00+01:00"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MIDNIGHT = datetime(2026, 11, 21, tzinfo=UTC)
FREQUENCY, AUDIT, ADVICE = rebalance_frequency_report.JOB, assignment_balance_audit.JOB, timeout_advice.JOB


def just_now() -> str:
    return datetime.now(UTC).isoformat()


def command_line(**changes: str) -> list[str]:
    interval = {name: changes.pop(name, "") for name in ("interval_start", "interval_end")}
    given = {"run_id": RUN_ID, "as_of": AS_OF, "is_dry_run": "False", **interval}
    return job_arguments(**(given | changes))


def read(job: ReportingJob, **changes: str) -> ReportArguments:
    return read_report_arguments(job, command_line(**changes))


def test_arguments_of_a_dag_are_parsed() -> None:
    arguments = read(FREQUENCY, interval_start="2026-11-19T00:00:00Z", interval_end=AS_OF, grace_ms="5")
    assert (arguments.interval_start, arguments.interval_end) == (datetime(2026, 11, 19, tzinfo=UTC), NOON)
    assert arguments.options == {**default_options(FREQUENCY.spec.name), "grace_ms": 5}
    assert (arguments.run_id, arguments.as_of, arguments.is_dry_run) == (RUN_ID, NOON, False)


def test_archive_argument_overrides_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(FREQUENCY).archive == ""
    monkeypatch.setenv("MUSTER_ARCHIVE_URI", "file:///srv/archive")
    assert read(FREQUENCY).archive == "file:///srv/archive"
    assert read(FREQUENCY, archive="file:///other").archive == "file:///other"


def test_default_interval_is_the_last_whole_day_or_the_as_of_time() -> None:
    now = just_now()
    day = read(FREQUENCY)
    assert (day.interval_start, day.interval_end) == (MIDNIGHT - timedelta(days=1), MIDNIGHT)
    for job in (AUDIT, ADVICE):
        moment = read(job, as_of=now)
        assert {moment.interval_start, moment.interval_end} == {datetime.fromisoformat(now)}


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"interval_start": AS_OF}, "an interval has a start and an end"),
        ({"interval_start": AS_OF, "interval_end": "2026-11-20T00:00:00Z"}, "before it starts"),
        ({"churn_min_rebalances": "1"}, "'1' is not a whole number from 2 to 1000"),
        ({"grace_ms": "a minute"}, "'a minute' is not a whole number from 0"),
        ({"wrong_option": "1"}, "unrecognized arguments: --wrong-option=1"),
        (
            {"interval_start": AS_OF, "interval_end": "2962-11-21T00:00:00Z"},
            "the interval ends (2962-11-21T00:00:00+00:00) in the future",
        ),
        ({"as_of": "2962-11-21T12:00:00Z"}, "the interval ends (2962-11-21T00:00:00+00:00) in the future"),
    ],
)
def test_invalid_argument_is_rejected_in_one_sentence(
    capsys: pytest.CaptureFixture[str], wrong: dict[str, str], complaint: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        read(FREQUENCY, **wrong)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err.splitlines()[-1]


def test_future_as_of_beyond_clock_skew_is_rejected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = datetime.now(UTC)
    assert read(AUDIT, as_of=(now + timedelta(minutes=4)).isoformat()).interval_end > now
    with pytest.raises(SystemExit):
        read(AUDIT, as_of=(now + timedelta(minutes=6)).isoformat())
    assert capsys.readouterr().err.endswith("in the future; run the report after its end\n")


@pytest.mark.parametrize(
    ("length", "late"), [(timedelta(days=1), timedelta(days=1)), (timedelta(0), timedelta(hours=1))]
)
def test_current_state_is_not_reported_for_an_old_interval(
    capsys: pytest.CaptureFixture[str], length: timedelta, late: timedelta
) -> None:
    def interval(over_for: timedelta) -> dict[str, str]:
        end = datetime.now(UTC) - over_for
        return {"interval_start": (end - length).isoformat(), "interval_end": end.isoformat()}

    in_time = read(AUDIT, **interval(late - timedelta(minutes=5)))
    assert in_time.interval_end - in_time.interval_start == length
    assert read(FREQUENCY, **interval(late + timedelta(minutes=5))).interval_end < in_time.interval_end
    with pytest.raises(SystemExit) as ended:
        read(AUDIT, **interval(late + timedelta(minutes=5)))
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(" too long ago; assignment_balance_audit reports the current state\n")


def test_missing_database_url_is_reported_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MUSTER_DATABASE_URL", raising=False)
    monkeypatch.delenv("MUSTER_JOBS_DATABASE_URL", raising=False)
    assert run(FREQUENCY, command_line()) == 1
    assert capsys.readouterr().err.startswith("rebalance_frequency_report: No database is configured")


def test_a_default_comes_from_the_environment_within_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_REBALANCE_FREQUENCY_REPORT_GRACE_MS", "30000")
    assert default_options(FREQUENCY.spec.name)["grace_ms"] == 30_000
    monkeypatch.setenv("MUSTER_REBALANCE_FREQUENCY_REPORT_GRACE_MS", "-1")
    with pytest.raises(JobError, match="MUSTER_REBALANCE_FREQUENCY_REPORT_GRACE_MS is '-1'; it must be a whole number"):
        default_options(FREQUENCY.spec.name)


def test_the_first_day_of_reports_is_a_date(monkeypatch: pytest.MonkeyPatch) -> None:
    assert start_date("MUSTER_REPORTS_SINCE", NOON) == NOON
    monkeypatch.setenv("MUSTER_REPORTS_SINCE", "2026-11-21")
    assert start_date("MUSTER_REPORTS_SINCE", NOON) == MIDNIGHT
    monkeypatch.setenv("MUSTER_REPORTS_SINCE", "yesterday")
    with pytest.raises(JobError, match="MUSTER_REPORTS_SINCE is 'yesterday'; it must be a date"):
        start_date("MUSTER_REPORTS_SINCE", NOON)


# -- by `muster job` --------------------------------------------------------------------------------------------


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(database_url="postgresql+psycopg2://me@127.0.0.1:1/nowhere", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("name", "interval", "complaint"),
    [
        ("rebalance_frequency_report", "last week", "last week is no interval: give a day or START/END"),
        ("rebalance_frequency_report", "2026-11-20/2026-11-20", "ends before it starts"),
        ("offset_retention", "2026-11-20", "judges the current state, and has no interval"),
    ],
)
def test_invalid_interval_is_rejected_in_one_sentence(
    settings: Settings, name: str, interval: str, complaint: str
) -> None:
    with pytest.raises(UserError, match=complaint) as refusal:
        run_job(name, NOON, True, settings, interval)
    assert refusal.value.exit_code == 2


def test_invalid_default_is_rejected_in_one_sentence(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_ASSIGNMENT_BALANCE_AUDIT_REPORT_DAYS", "0")
    with pytest.raises(UserError, match="it must be a whole number from 1 to 3650"):
        run_job("assignment_balance_audit", NOON, True, settings)


@pytest.mark.usefixtures("jobs_in_warm_spark")
def test_one_day_report_is_shown(database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_job(ADVICE.spec.name, NOON, False, load_settings(database_url=database_url, data_dir=tmp_path), "2026-11-19")
    interval = "2026-11-19T00:00:00+00:00 to 2026-11-20T00:00:00+00:00"
    output = f"timeout_advice: wrote the report of {interval}: timeout_advice 0 (there are no groups)."
    assert capsys.readouterr().out.splitlines()[1:] == [output]


def test_report_without_rows_has_its_reason(connection: pg.connection) -> None:
    day = read(FREQUENCY)

    def reason() -> str:
        return why_nothing(FREQUENCY, connection, day)

    assert reason() == "there are no groups"
    insert(connection, "groups", group())
    assert reason() == "history begins after 2026-11-21T00:00:00+00:00"
    created = {"from_state": None, "to_state": "Empty", "generation": 0, "reason": "test"}
    key = {"group_id": GROUP, "shard_id": SHARD, "group_created_at": BORN, "at": MIDNIGHT - timedelta(days=9)}
    insert(connection, "group_transitions", key | created)
    assert reason() == "no group was created, deleted or rebalanced in the interval"
