"""The audit log is append-only, its minutes are sealed, and the doctor names the first one that was altered."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from functools import partial

import psycopg2
import pytest
from psycopg2.errors import InsufficientPrivilege
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.postgres.connections import ConnectionPool, Limits
from coordinator_core.state_store.postgres.seals import SEALED_AT_ONCE_MAX_BYTES, seal_minute
from muster.cli.doctor.audit import check_audit_log
from muster.settings import psql_url
from tests.support.store_rows import uuid_of

CHANGE = "INSERT INTO changes (change_id, at, actor, action, before, after) VALUES (%s, now(), %s, 'undo', '{}', '{}')"
CHANGE_OF_ANOTHER = """
INSERT INTO changes (change_id, at, actor, action, sealed_minute)
VALUES (gen_random_uuid(), now(), 'x', 'undo', '2026-01-02 03:01Z')
"""
OLD_CHANGE = """
INSERT INTO changes (change_id, at, actor, action)
VALUES (gen_random_uuid(), now() - interval '11 minutes', 'x', 'undo')
"""
CHANGE_OF_MANY_OFFSETS = """
INSERT INTO changes (change_id, at, actor, action, after)
SELECT gen_random_uuid(), now(), 'x', 'reset_offsets', jsonb_agg(md5(number::text))
FROM generate_series(1, %s / 36) AS number
"""
"""With about so many bytes, which Postgres cannot compress much."""
AHEAD = datetime(2200, 1, 2, tzinfo=UTC)
"""Later than the clock of the database."""
MINUTES = [datetime(2026, 1, 2, 3, number, tzinfo=UTC) for number in range(3)]


@pytest.fixture
def admin(database_url: str) -> Iterator[PsycopgConnection]:
    """Connect as the superuser."""
    with closing(psycopg2.connect(psql_url(database_url))) as connection:
        connection.autocommit = True
        yield connection


@pytest.fixture
def store(database_url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(database_url)) as store:
        yield store


def run(admin: PsycopgConnection, statement: str, values: tuple[str, ...] = ()) -> None:
    with admin.cursor() as cursor:
        cursor.execute(statement, values)


def record(admin: PsycopgConnection, *names: str) -> None:
    for name in names:
        run(admin, CHANGE, (uuid_of(name), name))


def tamper(admin: PsycopgConnection, statement: str) -> None:
    """Run a statement without triggers, as a superuser can."""
    run(admin, "SET session_replication_role = replica")
    run(admin, statement)
    run(admin, "SET session_replication_role = origin")


def seal_as(database_url: str, minute: datetime) -> None:
    """Seal two changes with a minute, as a node does at that time."""
    limits = Limits(
        statement_timeout_ms=60_000, lock_timeout_ms=60_000, idle_in_transaction_timeout_ms=60_000, connect_timeout_s=60
    )
    with closing(ConnectionPool(database_url, "test", 1, limits)) as pool:
        found = pool.transact(partial(seal_minute, minute=minute))
    assert found is not None
    assert found.change_count == 2


@pytest.fixture
def sealed(database_url: str, admin: PsycopgConnection) -> None:
    """Seal three minutes with two changes each."""
    for number, minute in enumerate(MINUTES):
        record(admin, f"a{number}", f"b{number}")
        seal_as(database_url, minute)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE changes SET actor = 'x'",
        "UPDATE changes SET after = NULL",
        "UPDATE changes SET sealed_minute = NULL",
        "UPDATE changes SET sealed_minute = now()",
        "DELETE FROM changes",
        "TRUNCATE changes",
        "UPDATE change_seals SET seal = 'x'",
        "DELETE FROM change_seals",
        "TRUNCATE change_seals",
    ],
)
def test_the_audit_log_is_append_only_even_for_a_superuser(
    sealed: None, admin: PsycopgConnection, statement: str
) -> None:
    with pytest.raises(InsufficientPrivilege, match="append-only"):
        run(admin, statement)


def test_a_change_is_marked_as_undone_once(sealed: None, admin: PsycopgConnection) -> None:
    mark = "UPDATE changes SET undone_at = now(), undone_by_change_id = gen_random_uuid() WHERE actor = 'a1'"
    run(admin, mark)

    assert check_audit_log(admin).status == "ok", "the marks are not sealed"
    with pytest.raises(InsufficientPrivilege, match="append-only"):
        run(admin, mark)


def test_everything_that_is_not_sealed_is_sealed_once_a_minute(store: PostgresStore, admin: PsycopgConnection) -> None:
    assert store.seal_changes() is None, "there are no changes"
    record(admin, "a", "b")
    found = store.seal_changes()
    assert found is not None
    assert found.change_count == 2
    assert check_audit_log(admin).message.endswith(f"the newest seal begins with {found.seal[:16]}")

    run(admin, "INSERT INTO change_seals VALUES (now() + interval '1 hour', 1, 'the minute has its seal')")
    record(admin, "c")
    assert store.seal_changes() is None


def test_after_the_database_clock_was_set_back_changes_are_sealed_again(
    database_url: str, store: PostgresStore, admin: PsycopgConnection
) -> None:
    record(admin, "a", "b")
    seal_as(database_url, AHEAD)
    record(admin, "c")
    assert store.seal_changes() is None, "the change may wait for a minute"
    run(admin, OLD_CHANGE)

    found = store.seal_changes()
    assert found is not None
    assert found.change_count == 2
    assert found.minute_ms == (AHEAD.timestamp() + 60) * 1000
    record(admin, "d")
    assert store.seal_changes() is None, "once a minute"
    assert check_audit_log(admin).status == "ok"


def test_large_changes_are_sealed_minute_by_minute(
    database_url: str, store: PostgresStore, admin: PsycopgConnection
) -> None:
    """A statement that seals all of them would take longer than it may, and so would each later one."""
    for _ in range(4):
        run(admin, CHANGE_OF_MANY_OFFSETS, (str(SEALED_AT_ONCE_MAX_BYTES * 3 // 4),))
    for minute in MINUTES[:2]:
        seal_as(database_url, minute)
    assert store.seal_changes() is None, "all are sealed"
    assert check_audit_log(admin).status == "ok"


def test_one_of_several_nodes_seals(database_url: str, admin: PsycopgConnection) -> None:
    record(admin, "a", "b")
    with ExitStack() as stack:
        stores = [stack.enter_context(closing(PostgresStore(database_url, lease_ttl_ms=60_000))) for _ in range(4)]
        threads = stack.enter_context(ThreadPoolExecutor(len(stores)))
        found = list(threads.map(lambda store: store.seal_changes(), stores))

    assert [each.change_count for each in found if each is not None] == [2]
    assert check_audit_log(admin).status == "ok"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE changes SET actor = 'x' WHERE actor = 'a1'",
        "UPDATE changes SET at = at - interval '1 microsecond' WHERE actor = 'a1'",
        "UPDATE changes SET client_address = '192.0.2.7' WHERE actor = 'a1'",
        "UPDATE changes SET before = NULL, after = before WHERE actor = 'a1'",
        "UPDATE changes SET sealed_minute = NULL WHERE actor = 'a1'",
        "DELETE FROM changes WHERE actor = 'a1'",
        "DELETE FROM changes WHERE actor IN ('a1', 'b1')",
        "DELETE FROM change_seals WHERE minute = '2026-01-02 03:01Z'",
        "DELETE FROM change_seals WHERE minute = '2026-01-02 03:01Z'; DELETE FROM changes WHERE actor IN ('a1', 'b1')",
        "UPDATE change_seals SET seal = repeat('0', 64) WHERE minute = '2026-01-02 03:01Z'",
        CHANGE_OF_ANOTHER,
    ],
)
def test_the_doctor_names_the_first_minute_that_was_altered(
    sealed: None, admin: PsycopgConnection, statement: str
) -> None:
    assert check_audit_log(admin).status == "ok"
    tamper(admin, statement)
    found = check_audit_log(admin)

    is_whole_minute_gone = "; DELETE" in statement
    assert found.status == "error"
    assert f"2026-01-02T03:{'02' if is_whole_minute_gone else '01'}Z" in found.message


def test_the_doctor_warns_of_changes_that_no_node_seals(sealed: None, admin: PsycopgConnection) -> None:
    record(admin, "new")
    assert check_audit_log(admin).status == "ok", "a node has a minute to seal it"

    run(admin, OLD_CHANGE)
    result = check_audit_log(admin)
    assert result.status == "warning"
    assert "1 change not sealed for ten minutes" in result.message


def test_the_doctor_warns_of_a_disabled_trigger(sealed: None, admin: PsycopgConnection) -> None:
    run(admin, "ALTER TABLE changes DISABLE TRIGGER refuse_rewriting")

    assert check_audit_log(admin).status == "warning"
