"""Tests of publishing: proposals appear completely or not at all, and do not change once decided."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg2
import psycopg2.extensions as pg
import pytest

from spark_jobs.errors import JobError
from spark_jobs.publish import (
    LARGEST_GROUPS_MAX,
    STAGING_MAX_AGE_MS,
    CandidateTable,
    Proposal,
    ReportTable,
    discard_staged,
    least_retention_ms,
    new_attempt_id,
    publish,
    require_coordinated_groups,
)
from spark_jobs.relations import LARGEST_EXPIRY, OFFSET_COUNT
from spark_jobs.transforms.offset_retention import FORECAST_COLUMNS

TABLE = CandidateTable("expiry_candidates", OFFSET_COUNT, LARGEST_EXPIRY)
RUN_ID = "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"
PROPOSAL = Proposal(
    RUN_ID, "offset_retention", "2026-11-21T12:00:00+00:00", None, None, is_dry_run=False, share_from=2, report_days=30
)
REPORT = ReportTable("offset_expiry_forecasts", FORECAST_COLUMNS)
NOW_MS = 1_795_000_000_000


def rows(connection: pg.connection, statement: str) -> list[tuple[Any, ...]]:
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def stage(connection: pg.connection, attempt_id: str, *offsets: tuple[str, int], reason: str = "group_empty") -> None:
    """Stage offsets as candidates; they are stored too, since an offset that does not exist is not proposed."""
    for group_id, partition in offsets:
        with connection, connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, committed_at)"
                " VALUES (%s, 1, 'orders', %s, 5, now()) ON CONFLICT DO NOTHING",
                (group_id, partition),
            )
            cursor.execute(
                "INSERT INTO expiry_candidates_staging (attempt_id, group_id, shard_id, topic, partition,"
                " commit_version, committed_at, reason) VALUES (%s, %s, 1, 'orders', %s, 1, now(), %s)",
                (attempt_id, group_id, partition, reason),
            )


def candidates(connection: pg.connection) -> list[tuple[Any, ...]]:
    return rows(connection, "SELECT group_id, partition, outcome FROM expiry_candidates ORDER BY group_id, partition")


NOTHING = {"of": 0, "largest_group": 0, "largest_group_permille": 0}


def test_candidates_are_stored_in_processing_order(connection: pg.connection) -> None:
    attempt_id = new_attempt_id(NOW_MS)
    staged = [("b", 1), ("a", 2), ("b", 0), ("a", 10)]
    stage(connection, attempt_id, *staged)
    publish(connection, PROPOSAL, TABLE, attempt_id)
    assert rows(connection, "SELECT group_id, partition FROM expiry_candidates ORDER BY ctid") == sorted(staged)


def test_a_run_and_its_candidates_appear_together(connection: pg.connection) -> None:
    attempt_id = new_attempt_id(NOW_MS)
    stage(connection, attempt_id, ("a", 0), ("a", 1))
    stage(connection, attempt_id, ("b", 0), reason="simple_group")
    published = publish(connection, PROPOSAL, TABLE, attempt_id)
    assert published.is_replaced
    assert published.counts == {
        "candidates": 3,
        "of": 3,
        "groups": 2,
        "largest_group": 2,
        "largest_group_permille": 1000,
        "group_empty": 2,
        "simple_group": 1,
    }
    assert candidates(connection) == [("a", 0, None), ("a", 1, None), ("b", 0, None)]
    assert rows(connection, "SELECT run_id, kind, status, dry_run, counts FROM maintenance_runs") == [
        (RUN_ID, "offset_retention", "proposed", False, published.counts)
    ]
    assert rows(connection, "SELECT * FROM expiry_candidates_staging") == []


def test_the_groups_with_most_candidates_are_named_first(connection: pg.connection) -> None:
    attempt_id = new_attempt_id(NOW_MS)
    few = [(f"few-{number:02}", 0) for number in range(LARGEST_GROUPS_MAX)]
    stage(connection, attempt_id, *few, ("many", 0), ("many", 1))
    published = publish(connection, PROPOSAL, TABLE, attempt_id)
    assert published.largest_groups == (("many", 2), *((group_id, 1) for group_id, _ in few[:-1]))


def test_a_run_without_candidates_is_published_too(connection: pg.connection) -> None:
    published = publish(connection, PROPOSAL, TABLE, new_attempt_id(NOW_MS))
    assert (published.status, published.counts) == ("proposed", {"candidates": 0, "groups": 0} | NOTHING)


def test_a_second_attempt_replaces_the_first(connection: pg.connection) -> None:
    first, second = new_attempt_id(NOW_MS), new_attempt_id(NOW_MS + 1)
    stage(connection, first, ("a", 0), ("a", 1))
    stage(connection, second, ("a", 1), ("c", 0))
    publish(connection, PROPOSAL, TABLE, first)
    later = replace(PROPOSAL, as_of="2026-11-21T13:00:00+00:00", is_dry_run=True)
    published = publish(connection, later, TABLE, second)
    assert candidates(connection) == [("a", 1, None), ("c", 0, None)]
    assert published.counts == {"candidates": 2, "groups": 2, "group_empty": 2} | NOTHING | {
        "of": 3,
        "largest_group": 1,
    }
    assert rows(connection, "SELECT dry_run, extract(hour FROM as_of)::int FROM maintenance_runs") == [(True, 13)]


def test_rows_that_spark_wrote_twice_count_once(connection: pg.connection) -> None:
    attempt_id = new_attempt_id(NOW_MS)
    stage(connection, attempt_id, ("a", 0), ("a", 0))
    assert publish(connection, PROPOSAL, TABLE, attempt_id).counts["candidates"] == 1


@pytest.mark.parametrize("status", ["applying", "applied", "rejected", "failed"])
def test_run_past_proposed_is_not_changed(connection: pg.connection, status: str) -> None:
    first, second = new_attempt_id(NOW_MS), new_attempt_id(NOW_MS + 1)
    stage(connection, first, ("a", 0))
    publish(connection, PROPOSAL, TABLE, first)
    rows(connection, f"UPDATE maintenance_runs SET status = '{status}'")  # noqa: S608 - a word of this test
    rows(connection, "UPDATE expiry_candidates SET outcome = 'expired'")
    stage(connection, second, ("b", 0))
    published = publish(connection, replace(PROPOSAL, is_dry_run=True), TABLE, second)
    assert (published.status, published.is_replaced) == (status, False)
    assert published.counts == {"candidates": 1, "groups": 1, "group_empty": 1} | NOTHING | {
        "of": 1,
        "largest_group": 1,
    }
    assert candidates(connection) == [("a", 0, "expired")]
    assert rows(connection, "SELECT dry_run FROM maintenance_runs") == [(False,)]
    assert rows(connection, "SELECT * FROM expiry_candidates_staging") == []


def test_failed_publication_leaves_no_rows(connection: pg.connection) -> None:
    attempt_id = new_attempt_id(NOW_MS)
    stage(connection, attempt_id, ("a", 0))
    rows(connection, "ALTER TABLE expiry_candidates ADD CONSTRAINT none_at_all CHECK (false)")
    with pytest.raises(psycopg2.errors.CheckViolation):
        publish(connection, PROPOSAL, TABLE, attempt_id)
    assert rows(connection, "SELECT * FROM maintenance_runs") == []


def test_an_attempt_discards_its_own_rows_and_those_abandoned_a_day_ago(connection: pg.connection) -> None:
    own, other = new_attempt_id(NOW_MS), new_attempt_id(NOW_MS - STAGING_MAX_AGE_MS + 1)
    abandoned = new_attempt_id(NOW_MS - STAGING_MAX_AGE_MS - 1)
    for attempt_id in (own, other, abandoned):
        stage(connection, attempt_id, ("a", 0))
    discard_staged(connection, TABLE.name, own, NOW_MS)
    assert rows(connection, "SELECT attempt_id::text FROM expiry_candidates_staging") == [(other,)]


def test_attempts_of_one_millisecond_have_ids_of_their_own() -> None:
    assert len({new_attempt_id(NOW_MS) for _ in range(100)}) == 100


def store_offsets(connection: pg.connection, **counts: int) -> None:
    for group_id, count in counts.items():
        with connection, connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, committed_at)"
                " SELECT %s, 1, 'orders', number, 5, now() FROM generate_series(1, %s) AS number",
                (group_id, count),
            )


def test_proposal_has_counts_and_shares(connection: pg.connection) -> None:
    store_offsets(connection, big=8, small=1)
    attempt_id = new_attempt_id(NOW_MS)
    # One of one is less than `share_from`, so its share is not looked at.
    stage(connection, attempt_id, ("big", 1), ("big", 2), ("small", 1))
    counts = publish(connection, PROPOSAL, TABLE, attempt_id).counts
    assert {name: counts[name] for name in ("candidates", *NOTHING)} == {
        "candidates": 3,
        "of": 9,
        "largest_group": 2,
        "largest_group_permille": 250,
    }


def test_share_is_rounded_up(
    connection: pg.connection,
) -> None:
    """1,001 of 2,001 are more than half."""
    attempt_id = new_attempt_id(NOW_MS)
    store_offsets(connection, big=2_001)
    stage(connection, attempt_id, *(("big", partition) for partition in range(1, 1_002)))
    assert publish(connection, PROPOSAL, TABLE, attempt_id).counts["largest_group_permille"] == 501


# -- what is over and done with ---------------------------------------------------------------------------------


def test_candidates_of_old_rejected_runs_are_deleted_and_others_kept(connection: pg.connection) -> None:
    """Unanswered proposals are rejected and written again and again."""
    left = {}
    for kind, status, days_ago in [
        *((PROPOSAL.kind, "rejected", days_ago) for days_ago in (31, 29)),
        *((PROPOSAL.kind, status, 31) for status in ("proposed", "applying", "applied", "failed")),
        ("group_cleanup", "rejected", 31),
    ]:
        run_id = new_attempt_id(NOW_MS)
        left[run_id] = (kind, status, days_ago) != (PROPOSAL.kind, "rejected", 31)
        rows(
            connection,
            "INSERT INTO maintenance_runs (run_id, kind, as_of, status, finished_at)"  # noqa: S608 - words of these tests
            f" VALUES ('{run_id}', '{kind}', now(), '{status}', now() - interval '{days_ago} days');"
            " INSERT INTO expiry_candidates (run_id, group_id, shard_id, topic, partition, commit_version,"
            f" committed_at, reason) VALUES ('{run_id}', 'g', 1, 'orders', 0, 1, now(), 'group_empty')",
        )
    publish(connection, PROPOSAL, TABLE, new_attempt_id(NOW_MS))
    found = {run_id for (run_id,) in rows(connection, "SELECT run_id::text FROM expiry_candidates")}
    assert {run_id: run_id in found for run_id in left} == left


# -- reports ----------------------------------------------------------------------------------------------------


def report(connection: pg.connection, end: str, group_id: str, *, start: str | None = None, run: str = RUN_ID) -> None:
    """Publish a forecast of one group, for an interval that ends then."""
    attempt_id = new_attempt_id(NOW_MS)
    rows(
        connection,
        "INSERT INTO offset_expiry_forecasts_staging"  # noqa: S608 - words of these tests
        f" VALUES ('{attempt_id}', '{group_id}', 1, 1, 2, '2026-11-22T00:00:00Z')",
    )
    interval = (start, None if start is None else end)
    proposal = replace(PROPOSAL, run_id=run, as_of=end, interval_start=interval[0], interval_end=interval[1])
    publish(connection, proposal, TABLE, attempt_id, REPORT)


def forecasts(connection: pg.connection) -> list[tuple[Any, ...]]:
    found = "SELECT to_char(interval_end AT TIME ZONE 'UTC', 'DD HH24:MI'), group_id FROM offset_expiry_forecasts"
    return rows(connection, f"{found} ORDER BY interval_end, group_id")


def test_a_second_run_of_an_interval_replaces_its_report(connection: pg.connection) -> None:
    first, second = "2026-11-21T12:00:00+00:00", "2026-11-21T12:10:00+00:00"
    report(connection, second, "a", start=first)
    report(connection, second, "b", start=first, run="1b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d")
    assert forecasts(connection) == [("21 12:10", "b")]
    assert rows(connection, "SELECT * FROM offset_expiry_forecasts_staging") == []


def test_a_run_as_of_the_end_of_an_interval_replaces_its_report(connection: pg.connection) -> None:
    """Both describe the same instant, so their rows must not be added up."""
    end = "2026-11-21T12:10:00+00:00"
    report(connection, end, "a", start="2026-11-21T12:00:00+00:00")
    report(connection, end, "b", run="1b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d")
    assert forecasts(connection) == [("21 12:10", "b")]


def test_last_report_of_a_day_is_kept_and_old_ones_deleted(connection: pg.connection) -> None:
    for number, end in enumerate(
        [
            "2026-10-21T23:00:00+00:00",
            "2026-11-19T23:00:00+00:00",
            "2026-11-20T23:00:00+00:00",
            "2026-11-21T00:00:00+00:00",
            "2026-11-21T12:00:00+00:00",
        ]
    ):
        report(connection, end, "a", run=new_attempt_id(NOW_MS + number))
    assert forecasts(connection) == [("19 23:00", "a"), ("20 23:00", "a"), ("21 12:00", "a")]


def test_a_late_run_of_an_early_interval_leaves_the_reports_of_then(connection: pg.connection) -> None:
    """A backfill reads the present state, which is no forecast of days ago."""
    report(connection, "2026-11-20T23:50:00+00:00", "a")
    report(connection, "2026-11-21T12:00:00+00:00", "a", run=new_attempt_id(NOW_MS))
    for number, end in enumerate(("2026-11-20T23:40:00+00:00", "2026-11-20T23:50:00+00:00"), 1):
        report(connection, end, "b", run=new_attempt_id(NOW_MS + number))
    assert forecasts(connection) == [("20 23:50", "a"), ("21 12:00", "a")]
    assert rows(connection, "SELECT * FROM offset_expiry_forecasts_staging") == []
    assert rows(connection, "SELECT count(*) FROM maintenance_runs") == [(4,)]


def test_forecast_as_of_a_future_time_keeps_earlier_ones(connection: pg.connection) -> None:
    now = datetime.now(UTC)
    soon, later = now + timedelta(hours=1), now + timedelta(days=32)
    for number, end in enumerate((now - timedelta(hours=1), now, soon, later)):
        report(connection, end.isoformat(), f"{number}", run=new_attempt_id(NOW_MS + number))
    kept = {group_id for _, group_id in forecasts(connection)}
    assert kept == {"1", "2", "3"} | ({"0"} if now.hour == 0 else set())


@pytest.mark.parametrize(
    ("cluster", "group", "default_ms", "least_ms"),
    [
        (None, None, 5, 5),
        (None, None, -1, None),
        ("-1", "for ever", -1, None),
        ("2", "-1", 300_000, 120_000),
        ("9", " 1 ", 300_000, 60_000),
        ("99999999999999999999", None, 300_000, 300_000),
    ],
)
def test_the_shortest_retention_of_all_levels_is_found(
    connection: pg.connection, cluster: str | None, group: str | None, default_ms: int, least_ms: int | None
) -> None:
    if cluster is not None:
        rows(connection, f"INSERT INTO cluster_configs VALUES ('minutes', '{cluster}', 'test', now())")  # noqa: S608 - ours
    if group is not None:
        rows(connection, f"INSERT INTO group_configs VALUES ('g', 'minutes', '{group}', 'test', now())")  # noqa: S608 - ours
    assert least_retention_ms(connection, "minutes", default_ms) == least_ms


def test_nothing_is_proposed_for_a_mirrored_cluster(connection: pg.connection) -> None:
    rows(connection, "INSERT INTO mirrored_cluster (cluster_id) VALUES ('prod')")

    with pytest.raises(JobError, match="mirrors the Kafka cluster prod: offsets and groups expire there, and Muster"):
        require_coordinated_groups(connection)
    with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="a mirrored Kafka cluster"):
        publish(connection, PROPOSAL, TABLE, new_attempt_id(NOW_MS))
