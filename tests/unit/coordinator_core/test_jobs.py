"""Entries of jobs: what they name exists, and what names them is unique."""

from dataclasses import fields

import pytest

from coordinator_core.jobs import JOBS, JobSpec
from coordinator_core.state_store.report_tables import column_types
from coordinator_core.state_store.tables import metadata
from spark_jobs.submit import Limits

ENTRIES = pytest.mark.parametrize("job", JOBS.values(), ids=lambda job: job.name)


@ENTRIES
def test_every_table_of_a_job_exists(job: JobSpec) -> None:
    staged = {f"{table}_staging" for table in job.reports}
    assert {*job.reports, *staged, *([job.candidates] if job.candidates else [])} <= metadata.tables.keys()


@ENTRIES
def test_a_staging_table_has_the_columns_that_the_job_writes(job: JobSpec) -> None:
    of_run = {"interval_start", "interval_end", "run_id", "as_of"}
    for table in job.reports:
        assert column_types(f"{table}_staging").keys() ^ column_types(table).keys() == {*of_run, "attempt_id"}


@ENTRIES
def test_a_job_starts_by_a_schedule_or_after_another_job(job: JobSpec) -> None:
    assert (job.schedule is None) == (job.starts_after in JOBS)


@ENTRIES
def test_a_report_has_a_table_and_says_how_long_it_is_kept(job: JobSpec) -> None:
    options = {option.name for option in job.options}
    assert job.is_report <= (bool(job.reports) and "report_days" in options)


@ENTRIES
def test_only_proposals_have_limits(job: JobSpec) -> None:
    assert set(job.limits) <= {field.name for field in fields(Limits)}
    assert bool(job.limits) == (not job.is_report)


@pytest.mark.parametrize("key", ["subject", "asset"])
def test_no_two_jobs_share_a_route_or_an_asset(key: str) -> None:
    assert len({getattr(job, key) for job in JOBS.values()}) == len(JOBS)
