"""Every failure of Postgres is reported as one of two errors: nothing was stored, or the outcome is unknown.

A batch of nothing but commits is one statement, any other a transaction of several; both are made to fail.
"""

from collections.abc import Callable
from contextlib import closing
from socket import socket

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.state_store.interface import OutcomeUnknown, StoreError, StoreUnavailable
from coordinator_core.state_store.postgres import PostgresStore, autocommit
from coordinator_core.state_store.postgres.connections import ConnectionPool, Limits, Transaction
from coordinator_core.state_store.postgres.identity import read_incarnation
from coordinator_core.state_store.postgres.incarnations import start
from coordinator_core.state_store.rows import GroupWrite, WriteResult
from tests.support.silent_proxy import SilentProxy
from tests.support.store_rows import change_row, committed, transition_row, write
from tests.support.store_worlds import NODE, TTL_MS, Owner, has_commits

COMMIT = write(committed=(committed(),))
COMMIT_AND_MORE = write(committed=(committed(),), transitions=(transition_row(),))
BATCHES = pytest.mark.parametrize("batch", [COMMIT, COMMIT_AND_MORE], ids=["one statement", "a transaction"])

Sql = Callable[[str], None]


@pytest.fixture
def sql(sql_connection: PsycopgConnection) -> Sql:
    def run(statements: str) -> None:
        with sql_connection.cursor() as cursor:
            cursor.execute(statements)

    run("CREATE SEQUENCE failures; CREATE SEQUENCE attempts")
    return run


@pytest.fixture
def store(postgres_store: PostgresStore) -> PostgresStore:
    return postgres_store


@pytest.fixture
def owner(store: PostgresStore) -> Owner:
    return Owner(store)


def fail(sql: Sql, what: str, *, times: int = 1, at_commit: bool = False) -> None:
    """Make the next commits of offsets fail; sequences count, because a rollback does not take them back."""
    sql(
        f"""
        CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM nextval('attempts');
            IF nextval('failures') <= {times} THEN
                {what};
            END IF;
            RETURN NULL;
        END
        $$;
        """
    )
    if at_commit:
        sql(
            "CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON offset_log DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION fail()"
        )
    else:
        sql("CREATE TRIGGER fail AFTER INSERT ON offset_log FOR EACH STATEMENT EXECUTE FUNCTION fail()")


def raising(sqlstate: str) -> str:
    return f"RAISE EXCEPTION 'told to' USING ERRCODE = '{sqlstate}'"


DIE = "PERFORM pg_terminate_backend(pg_backend_pid())"

# -- repeated inside ------------------------------------------------------------------------------------------


@BATCHES
@pytest.mark.parametrize("sqlstate", ["40P01", "40001"], ids=["deadlock", "serialization"])
@pytest.mark.parametrize("at_commit", [False, True], ids=["in the middle", "at the end"])
def test_a_transaction_that_collides_is_repeated(
    owner: Owner, store: PostgresStore, sql: Sql, sqlstate: str, at_commit: bool, batch: GroupWrite
) -> None:
    fail(sql, raising(sqlstate), times=2, at_commit=at_commit)
    assert owner.append(batch) == WriteResult()
    assert has_commits(store, "orders")


def test_transaction_with_repeated_conflicts_is_abandoned(
    owner: Owner, store: PostgresStore, sql: Sql, sql_connection: PsycopgConnection
) -> None:
    fail(sql, raising("40P01"), times=1_000)
    with pytest.raises(StoreUnavailable, match="told to"):
        owner.append(COMMIT)
    with sql_connection.cursor() as cursor:
        cursor.execute("SELECT last_value FROM attempts")
        assert cursor.fetchone() == (3,)
    assert not has_commits(store, "orders")


def test_a_deadlock_among_halves_repeats_all_of_them(owner: Owner, store: PostgresStore, sql: Sql) -> None:
    fail(sql, raising("40P01"), times=1)
    written = owner.append(COMMIT, write("bad", transitions=(transition_row("bad", reason="\0"),)))
    assert set(written.refused_groups) == {"bad"}
    assert has_commits(store, "orders")


# -- nothing was stored ---------------------------------------------------------------------------------------

TRANSIENT = {
    "a full disk": raising("53100"),
    "no memory": raising("53200"),
    "an input or output error": raising("58030"),
    "a cancelled statement": "PERFORM pg_cancel_backend(pg_backend_pid())",
    "a lock that did not come": raising("55P03"),
    "a missing right": raising("42501"),
}


@BATCHES
@pytest.mark.parametrize("what", TRANSIENT.values(), ids=TRANSIENT.keys())
def test_a_failure_stores_nothing_and_the_next_write_goes_through(
    owner: Owner, store: PostgresStore, sql: Sql, what: str, batch: GroupWrite
) -> None:
    fail(sql, what)
    with pytest.raises(StoreUnavailable) as failure:
        owner.append(batch)
    assert not isinstance(failure.value, OutcomeUnknown)
    assert not has_commits(store, "orders")
    assert owner.append(batch) == WriteResult()


def test_a_connection_cut_before_the_end_of_a_transaction_stores_nothing(
    owner: Owner, store: PostgresStore, sql: Sql
) -> None:
    fail(sql, DIE)
    with pytest.raises(StoreUnavailable) as failure:
        owner.append(COMMIT_AND_MORE)
    assert not isinstance(failure.value, OutcomeUnknown)
    assert not has_commits(store, "orders")
    assert owner.append(COMMIT_AND_MORE) == WriteResult()


def test_a_statement_that_takes_too_long_is_ended_by_the_server(database_url: str, sql: Sql) -> None:
    fail(sql, "PERFORM pg_sleep(100)")
    hasty = PostgresStore(database_url, lease_ttl_ms=2_000)
    owner = Owner(hasty)
    with pytest.raises(StoreUnavailable, match="statement timeout"):
        owner.append(COMMIT)
    assert owner.append(COMMIT) == WriteResult()
    hasty.close()


def test_a_server_that_answers_read_only_is_unavailable_until_another_answers(
    owner: Owner, store: PostgresStore, database_url: str, sql: Sql
) -> None:
    name = database_url.rpartition("/")[2]
    sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    cut_connections(sql)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="read-only"):
            owner.append(COMMIT)
    with pytest.raises(StoreUnavailable, match="read-only") as failure:
        store.renew(NODE, {"http": "http://node"}, "1.0", owner.epochs, TTL_MS)
    assert failure.value.summary == "the database is read-only: a standby, or default_transaction_read_only is on"
    sql(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    assert owner.append(COMMIT) == WriteResult()


@BATCHES
def test_write_whose_answer_never_comes_ends_with_an_unknown_outcome_or_none(
    batch: GroupWrite, database_url: str
) -> None:
    with SilentProxy(database_url).running() as proxy:
        store = PostgresStore(proxy.url, lease_ttl_ms=2_000, connect_timeout_s=2)
        owner = Owner(store)
        owner.append(batch)
        proxy.fall_silent()
        with pytest.raises((OutcomeUnknown, StoreUnavailable)):
            owner.append(batch)
        store.close()


def test_connection_refused_is_unavailable() -> None:
    with socket() as silent:
        silent.bind(("127.0.0.1", 0))
        store = PostgresStore(f"postgresql+psycopg2://muster:secret@127.0.0.1:{silent.getsockname()[1]}/muster")
        with pytest.raises(StoreUnavailable) as failure:
            store.shard_count()
    assert "secret" not in str(failure.value)
    store.close()


def test_a_wrong_password_is_unavailable(database_url: str) -> None:
    store = PostgresStore(database_url.replace("muster:", "muster:not-", 1))
    with pytest.raises(StoreUnavailable, match="password"):
        store.shard_count()
    store.close()


def test_a_database_without_tables_is_unavailable(empty_database_url: str) -> None:
    store = PostgresStore(empty_database_url)
    with pytest.raises(StoreUnavailable, match="does not exist"):
        store.shard_count()
    store.close()


def test_when_every_connection_is_busy_a_read_is_unavailable(database_url: str, sql: Sql) -> None:
    store = PostgresStore(database_url, readers=1, connect_timeout_s=1)
    with pytest.raises(StoreUnavailable, match="in use"):
        store._readers.read(lambda _: store.shard_count())
    assert store.shard_count() == 50
    store.close()


def test_data_that_cannot_be_kept_outside_a_batch_is_an_error_of_its_own(store: PostgresStore) -> None:
    with pytest.raises(StoreError, match="NUL") as refusal:
        store.put_settings("orders", {"group_max_size": "\0"}, change_row())
    assert not isinstance(refusal.value, StoreUnavailable)


# -- connections that died -----------------------------------------------------------------------------------


def test_failure_is_reported_although_its_rollback_fails(store: PostgresStore, sql: Sql) -> None:
    def fail_and_lose_the_connection(transaction: Transaction) -> None:
        transaction.execute("SELECT 1")
        cut_connections(sql)
        raise StoreUnavailable("a lock was not to be had")

    with pytest.raises(StoreUnavailable, match="a lock was not to be had"):
        store._leases.transact(fail_and_lose_the_connection)
    assert len(store._leases.transact(lambda transaction: list(transaction.execute("SELECT 1")))) == 1


def cut_connections(sql: Sql) -> None:
    sql(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


@BATCHES
def test_connection_lost_while_idle_is_replaced(
    owner: Owner, store: PostgresStore, sql: Sql, batch: GroupWrite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autocommit, "ALIVE_S", 0)  # Every moment is as good as a long time.
    owner.append(batch)
    has_commits(store, "orders")
    cut_connections(sql)
    assert owner.append(batch) == WriteResult()
    assert has_commits(store, "orders")
    assert len(store.renew(NODE, {"http": "http://node"}, "1.0", owner.epochs, TTL_MS).held) == 50


# -- unknown outcomes -----------------------------------------------------------------------------------------


@BATCHES
def test_a_connection_lost_while_committing_leaves_the_outcome_unknown(
    owner: Owner, store: PostgresStore, sql: Sql, batch: GroupWrite
) -> None:
    fail(sql, DIE, at_commit=True)
    with pytest.raises(OutcomeUnknown):
        owner.append(batch)
    assert owner.append(batch) == WriteResult()


def test_a_connection_lost_under_a_statement_that_is_a_transaction_leaves_the_outcome_unknown(
    owner: Owner, store: PostgresStore, sql: Sql
) -> None:
    owner.append(COMMIT)  # The first write to a shard checks its lease, in a transaction of several statements.
    fail(sql, DIE)
    with pytest.raises(OutcomeUnknown):
        owner.append(COMMIT)
    assert owner.append(COMMIT) == WriteResult()


def test_failed_commit_with_a_server_error_has_an_unknown_outcome(owner: Owner, sql: Sql) -> None:
    fail(sql, raising("53100"), at_commit=True)
    with pytest.raises(OutcomeUnknown):
        owner.append(COMMIT_AND_MORE)


def test_start_of_an_incarnation_may_take_longer_than_other_statements(sql: Sql, database_url: str) -> None:
    sql(
        """
        CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); RETURN NULL; END';
        CREATE TRIGGER slow BEFORE UPDATE ON groups FOR EACH STATEMENT EXECUTE FUNCTION wait();
        """
    )
    limits = Limits(
        statement_timeout_ms=150, lock_timeout_ms=100, idle_in_transaction_timeout_ms=5_000, connect_timeout_s=10
    )
    with closing(ConnectionPool(database_url, "test", 1, limits)) as pool:
        known = pool.read(read_incarnation)
        started = pool.transact(lambda transaction: start(transaction, known.number, "ada", "a test"))

    assert started.number == known.number + 1
