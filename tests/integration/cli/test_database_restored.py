"""`muster database-restored` and the doctor's check of the incarnation."""

from contextlib import closing

import psycopg2
import pytest

from coordinator_core.queries.changes import ChangeFilter, read_changes
from coordinator_core.queries.runner import Queries
from coordinator_core.state_store.postgres import PostgresStore
from muster.settings import psql_url
from tests.support.muster_command import Muster
from tests.support.store_rows import SHARD, group_row, loaded, write
from tests.support.store_worlds import Owner


@pytest.fixture
def store(postgres_store: PostgresStore, database_url: str, monkeypatch: pytest.MonkeyPatch) -> PostgresStore:
    monkeypatch.setenv("MUSTER_DATABASE_URL", database_url)
    return postgres_store


def doctor(muster: Muster) -> tuple[str, str]:
    (found,) = [each for each in muster("doctor", "--json").json["checks"] if each["check"] == "incarnation"]
    return found["status"], found["message"]


def test_database_restored_is_a_dry_run_without_execute(bare_muster: Muster, store: PostgresStore) -> None:
    out = bare_muster.ok("database-restored").out

    assert out.startswith("The database is at incarnation 1.")
    assert out.endswith("Nothing was changed; --execute --incarnation 1 does it.\n")
    assert store.incarnation().number == 1


def test_database_restored_starts_one_new_incarnation(
    bare_muster: Muster, store: PostgresStore, database_url: str
) -> None:
    Owner(store).write(write(group=group_row(generation=7)))
    command = ("database-restored", "--execute", "--incarnation", "1", "--reason", "Monday's disk", "--actor", "ada")

    first, second = bare_muster.ok(*command).out, bare_muster.ok(*command).out

    assert first == "Incarnation 2 has started. Every group with members rebalances once a node serves it.\n"
    assert second == "Incarnation 1 is over already; the database is at 2. Nothing was changed.\n"
    assert loaded(store, [SHARD])[0].group.generation > 10_000
    with closing(Queries(database_url)) as queries:
        (recorded,) = queries.read(read_changes, ChangeFilter()).changes
    assert (recorded.change.actor, recorded.change.reason) == ("ada", "Monday's disk")


@pytest.mark.parametrize("flags", [["--execute"], ["--incarnation", "1"]])
def test_execute_names_the_incarnation_that_it_ends(bare_muster: Muster, flags: list[str]) -> None:
    ran = bare_muster("database-restored", *flags)

    assert (ran.exit_code, "--execute and --incarnation go together" in ran.err) == (2, True)


def test_future_incarnation_is_rejected(bare_muster: Muster, store: PostgresStore) -> None:
    ran = bare_muster("database-restored", "--execute", "--incarnation", "2")

    assert (ran.exit_code, ran.err) == (1, "muster: The database is at incarnation 1; there is no 2 to end.\n")
    assert store.incarnation().number == 1


def test_doctor_reports_new_and_pending_incarnations(
    bare_muster: Muster, store: PostgresStore, database_url: str
) -> None:
    assert doctor(bare_muster)[0] == "ok"
    store.acquire_leases("a", [], 1_000)
    assert doctor(bare_muster)[0] == "ok"
    with closing(psycopg2.connect(psql_url(database_url))) as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE incarnation SET timeline = 99")
        connection.commit()
    verdict, saw = doctor(bare_muster)
    assert (verdict, "it has been restored or failed over since" in saw) == ("warning", True)
    store.acquire_leases("a", [], 1_000)
    verdict, saw = doctor(bare_muster)
    assert (verdict, saw.startswith("the database is at incarnation 2,")) == ("warning", True)
