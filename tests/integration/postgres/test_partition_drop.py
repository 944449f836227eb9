"""A node drops a day of history only if its copy is complete."""

from contextlib import closing
from datetime import UTC, date, datetime, timedelta

import psycopg2
import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.state_store.interface import NotUndoable, StoreUnavailable
from coordinator_core.state_store.partition_drop import ClaimedCopy, HasCopy
from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.postgres.partitions import LOCK_PARTITION_MOVES
from coordinator_core.state_store.rows import ChangeRow
from muster.settings import psql_url
from tests.support.waiting import in_background, poll_until

RUN = "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"
CHANGE = "2b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"
DAY = date(2026, 1, 2)
ROW = """
INSERT INTO offset_history (group_id, shard_id, topic, partition, at, committed_offset, member_id)
VALUES ('g', 1, 'orders', 0, '2026-01-02 10:00:00+00', 5, '')
"""


@pytest.fixture
def day(sql_connection: PsycopgConnection) -> PsycopgConnection:
    """A day of one row, and a run that is being applied and has no candidates yet."""
    with sql_connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE offset_history_p20260102 PARTITION OF offset_history"
            " FOR VALUES FROM ('2026-01-02 00:00:00+00') TO ('2026-01-03 00:00:00+00')"
        )
        cursor.execute(ROW)
        cursor.execute(
            "INSERT INTO maintenance_runs (run_id, kind, as_of, status, applied_by, change_id)"
            " VALUES (%s, 'history_archive', now(), 'applying', 'somebody', %s)",
            (RUN, CHANGE),
        )
    return sql_connection


def propose(
    connection: PsycopgConnection,
    table: str = "offset_history",
    day: date = DAY,
    source: str = "offset_history_p20260102",
    row_count: int = 1,
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO archive_candidates (run_id, table_name, day, source, path, row_count, checksum, verified_at)"
            " VALUES (%s, %s, %s, %s, 'file:///a', %s, '1-2', now())",
            (RUN, table, day, source, row_count),
        )


def outcome(store: PostgresStore, has_copy: HasCopy = lambda _: True) -> str | None:
    dropped = store.drop_archived(has_copy)
    return None if dropped is None else dropped.outcome


def left(connection: PsycopgConnection) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM offset_history")
        (count,) = cursor.fetchone() or (0,)
    return int(count)


def test_day_with_a_complete_copy_is_dropped_once(postgres_store: PostgresStore, day: PsycopgConnection) -> None:
    propose(day)
    assert postgres_store.finish_runs() == []
    assert [outcome(postgres_store), outcome(postgres_store)] == ["dropped", None]
    assert left(day) == 0
    assert postgres_store.finish_runs() == [RUN]


def test_day_that_python_cannot_represent_is_decided(postgres_store: PostgresStore, day: PsycopgConnection) -> None:
    """Such rows are older than their CHECK constraint."""
    with day.cursor() as cursor:
        cursor.execute("ALTER TABLE archive_candidates DROP CONSTRAINT archive_candidates_day")
        cursor.execute(
            "INSERT INTO archive_candidates (run_id, table_name, day, source, path, row_count, checksum, verified_at)"
            " VALUES (%s, 'offset_history', '4713-01-01 BC', 'offset_history_p20260102', 'file:///a', 1, '1-2', now())",
            (RUN,),
        )
    assert [outcome(postgres_store), outcome(postgres_store)] == ["unknown_partition", None]
    assert postgres_store.finish_runs() == [RUN]
    assert left(day) == 1


def test_day_without_its_copy_is_kept(postgres_store: PostgresStore, day: PsycopgConnection) -> None:
    """The node checks the copy itself, whatever a job reports."""
    propose(day)
    looked_for: list[ClaimedCopy] = []

    def is_nowhere(copy: ClaimedCopy) -> bool:
        looked_for.append(copy)
        return False

    assert outcome(postgres_store, is_nowhere) == "copy_not_found"
    assert looked_for == [ClaimedCopy("offset_history", "2026-01-02", "file:///a", 1)]
    assert left(day) == 1


def test_copy_of_dropped_rows_does_not_cover_later_rows(postgres_store: PostgresStore, day: PsycopgConnection) -> None:
    propose(day)
    with day.cursor() as cursor:
        cursor.execute(
            "INSERT INTO archived_partitions (table_name, day, run_id, change_id, source, path, row_count, checksum,"
            " verified_at, dropped_at) SELECT table_name, day, %s, %s, source, path, row_count, checksum,"
            " verified_at - interval '2 days', verified_at - interval '1 day' FROM archive_candidates",
            (CHANGE, CHANGE),
        )
    assert outcome(postgres_store) == "changed_since"
    assert left(day) == 1


def test_day_already_dropped_is_reported(postgres_store: PostgresStore, day: PsycopgConnection) -> None:
    with day.cursor() as cursor:
        cursor.execute("DROP TABLE offset_history_p20260102")
    propose(day)
    assert outcome(postgres_store) == "already_gone"


@pytest.mark.parametrize("row_count", [0, 2])
def test_day_with_another_row_count_is_kept(
    postgres_store: PostgresStore, day: PsycopgConnection, row_count: int
) -> None:
    propose(day, row_count=row_count)
    assert outcome(postgres_store) == "changed_since"
    assert left(day) == 1


def test_unfinished_day_is_kept(postgres_store: PostgresStore, day: PsycopgConnection) -> None:
    today = datetime.now(UTC).date()
    for ahead in (today, today + timedelta(days=1)):
        propose(day, day=ahead, source=f"offset_history_p{ahead:%Y%m%d}")
        assert outcome(postgres_store) == "still_open"


@pytest.mark.parametrize(
    ("table", "source"),
    [
        ("offsets", "offsets"),
        ("offsets", "offsets_p20260102"),
        ("offsets", "offsets_default"),
        ("offset_history", "offsets"),
        ("offset_history", "offset_history"),
        ("offset_history", "rebalances_default"),
        ("offset_history", "offset_history_p20260103"),
        ("offset_history; DROP TABLE offsets", "offset_history_p20260102"),
    ],
)
def test_only_the_partition_of_the_day_is_dropped(
    postgres_store: PostgresStore, day: PsycopgConnection, table: str, source: str
) -> None:
    propose(day, table=table, source=source)
    assert outcome(postgres_store) == "unknown_partition"
    assert left(day) == 1


def test_late_rows_in_the_default_partition_are_dropped(postgres_store: PostgresStore, day: PsycopgConnection) -> None:
    with day.cursor() as cursor:
        cursor.execute(ROW.replace("2026-01-02", "2026-01-04"))
        cursor.execute(ROW.replace("2026-01-02", "2026-01-05"))
    propose(day, day=date(2026, 1, 4), source="offset_history_default")
    assert outcome(postgres_store) == "dropped"
    assert left(day) == 2
    with day.cursor() as cursor:
        cursor.execute("UPDATE archive_candidates SET outcome = NULL")
    assert outcome(postgres_store) == "already_gone"


@pytest.mark.parametrize(
    ("moved", "becomes"), [("before", "dropped"), ("after", "changed_since"), ("restored after", "changed_since")]
)
@pytest.mark.parametrize(
    ("day_named", "source"), [(DAY, "offset_history_p20260102"), (date(2026, 1, 4), "offset_history_default")]
)
def test_day_dropped_or_restored_since_its_copy_is_kept(
    postgres_store: PostgresStore, day: PsycopgConnection, day_named: date, source: str, moved: str, becomes: str
) -> None:
    """The copied rows may have been dropped by another run, and as many others inserted since."""
    with day.cursor() as cursor:
        cursor.execute(ROW.replace("2026-01-02", str(day_named)))
        count = 1 if source.endswith("default") else 2
        propose(day, day=day_named, source=source, row_count=count)
        cursor.execute(
            "INSERT INTO archived_partitions (table_name, day, run_id, change_id, source, path, row_count, checksum,"
            " verified_at, dropped_at, restored_at)"
            " SELECT table_name, day, %s, %s, source, path || '/before', row_count, checksum, verified_at,"
            " verified_at + %s * interval '1 minute', verified_at + %s * interval '2 minutes' FROM archive_candidates",
            (CHANGE, CHANGE, 1 if moved == "after" else -1, 1 if moved == "restored after" else None),
        )
    assert outcome(postgres_store) == becomes


def test_copy_is_looked_for_outside_of_a_transaction(postgres_store: PostgresStore, day: PsycopgConnection) -> None:
    """Postgres would end one that waits for a slow archive, again and again."""
    propose(day)
    open_transactions = []

    def has_copy(_: ClaimedCopy) -> bool:
        with day.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND state = 'idle in transaction'"
            )
            open_transactions.append(cursor.fetchone())
        return True

    assert outcome(postgres_store, has_copy) == "dropped"
    assert open_transactions == [(0,)]


def test_partition_is_kept_if_its_change_cannot_be_recorded(
    postgres_store: PostgresStore, day: PsycopgConnection
) -> None:
    propose(day)
    with day.cursor() as cursor:
        cursor.execute("ALTER TABLE changes RENAME TO mislaid")
        with pytest.raises(StoreUnavailable):
            postgres_store.drop_archived(lambda _: True)
        assert left(day) == 1
        cursor.execute("ALTER TABLE mislaid RENAME TO changes")
    assert outcome(postgres_store) == "dropped"


def test_reader_of_the_table_delays_the_drop(
    postgres_store: PostgresStore, day: PsycopgConnection, database_url: str
) -> None:
    """The drop has its own short lock timeout, whatever the store's is."""
    propose(day)
    with (
        closing(PostgresStore(database_url, lease_ttl_ms=3_600_000, read_timeout_ms=3_600_000)) as patient,
        closing(psycopg2.connect(psql_url(database_url))) as reader,
        reader.cursor() as cursor,
    ):
        cursor.execute("SELECT count(*) FROM offset_history")
        with pytest.raises(StoreUnavailable):
            patient.drop_archived(lambda _: True)
        cursor.execute("SELECT count(*) FROM offset_history")
        assert cursor.fetchone() == (1,)
        reader.rollback()
        assert outcome(postgres_store) == "dropped"


@pytest.mark.parametrize(
    ("day_named", "source"), [(DAY, "offset_history_p20260102"), (date(2026, 1, 4), "offset_history_default")]
)
def test_uncommitted_row_is_awaited_and_keeps_the_day(
    postgres_store: PostgresStore, day: PsycopgConnection, database_url: str, day_named: date, source: str
) -> None:
    row = ROW.replace("2026-01-02", str(day_named))
    with closing(psycopg2.connect(psql_url(database_url))) as writer, writer.cursor() as cursor:
        if source.endswith("default"):
            day.cursor().execute(row)
        propose(day, day=day_named, source=source)
        cursor.execute(row)
        with in_background(lambda: outcome(postgres_store), writer.commit) as dropping:
            wait_until_locked(day, source)
        assert dropping.result() == "changed_since"
    assert left(day) == (3 if source.endswith("default") else 2)


def wait_until_locked(connection: PsycopgConnection, table: str) -> None:
    """Return when a session waits for a lock on a table."""

    def is_so() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE relation = %s::regclass AND NOT granted", (table,))
            return cursor.fetchone() == (1,)

    poll_until(is_so)


def test_drop_is_serialized_with_partition_creation_and_restore(
    postgres_store: PostgresStore, day: PsycopgConnection, database_url: str
) -> None:
    propose(day)
    with closing(psycopg2.connect(psql_url(database_url))) as other, other.cursor() as cursor:
        cursor.execute(LOCK_PARTITION_MOVES)
        with in_background(lambda: outcome(postgres_store), other.rollback) as dropping:
            wait_until_locked(day, "archived_partitions")
            assert left(day) == 1
        assert dropping.result() == "dropped"


@pytest.mark.parametrize("status", ["proposed", "rejected", "applied", "failed"])
def test_day_of_an_unapplied_run_is_kept(postgres_store: PostgresStore, day: PsycopgConnection, status: str) -> None:
    propose(day)
    with day.cursor() as cursor:
        cursor.execute("UPDATE maintenance_runs SET status = %s", (status,))
    assert outcome(postgres_store) is None
    assert left(day) == 1


def test_day_locked_by_another_node_is_skipped(
    postgres_store: PostgresStore, day: PsycopgConnection, database_url: str
) -> None:
    propose(day)
    with closing(psycopg2.connect(psql_url(database_url))) as other, other.cursor() as cursor:
        cursor.execute("SELECT FROM archive_candidates FOR UPDATE")
        assert outcome(postgres_store) is None
        other.rollback()
        assert outcome(postgres_store) == "dropped"


def test_applied_archive_run_cannot_be_undone(postgres_store: PostgresStore, day: PsycopgConnection) -> None:
    with day.cursor() as cursor:
        cursor.execute(
            "INSERT INTO changes (change_id, at, actor, action) VALUES (%s, now(), 'somebody', 'apply_run')", (CHANGE,)
        )
    undo = ChangeRow("3b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d", 0, "somebody", "undo", None, None, None, None)
    with pytest.raises(NotUndoable, match="run history_restore to restore it"):
        postgres_store.begin_undo(CHANGE, undo)
