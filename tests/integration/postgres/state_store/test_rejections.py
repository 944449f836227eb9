"""An operator's rejection holds for later runs with the same candidates."""

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.queries.changes import ChangeFilter, read_changes
from coordinator_core.queries.runs import describe_run, read_candidates
from coordinator_core.state_store.interface import Store
from coordinator_core.state_store.runs import GROUP_CLEANUP, CandidateRow, Rejection
from tests.support.store_rows import NOW_MS, candidate, change_row, retirement, run_row, uuid_of
from tests.support.store_worlds import Query, World

DAG = "dag:offset_retention"
ADA = Rejection("ada", NOW_MS, "too many", uuid_of("first"))


@pytest.fixture
def rejected(world: World, store: Store) -> None:
    """Ada has rejected two candidates."""
    propose(world, "first", 0, 1)
    reject(store, "first")


def propose(world: World, name: str, *partitions: int, as_of_ms: int = NOW_MS) -> None:
    candidates = [candidate(partition, run=name) for partition in partitions]
    world.propose(run_row(name, counts={"candidates": len(candidates)}, as_of_ms=as_of_ms), candidates)


def reject(store: Store, name: str, actor: str = "ada") -> None:
    store.reject(uuid_of(name), change_row(f"{name} by {actor}", actor=actor, reason="too many", action="reject_run"))


def holding(query: Query, name: str) -> Rejection | None:
    """Return the rejection that holds for a run."""
    _, rejection = query(describe_run, uuid_of(name))
    return rejection


def test_rejection_holds_for_a_run_with_the_same_candidates(rejected: None, world: World, query: Query) -> None:
    propose(world, "next", 1, 0, as_of_ms=NOW_MS + 86_400_000)
    assert holding(query, "next") == ADA


def test_rejection_holds_whatever_the_age_and_the_reason_of_candidates(
    rejected: None, world: World, query: Query, sql_connection: PsycopgConnection
) -> None:
    propose(world, "next", 0, 1)
    with sql_connection.cursor() as cursor:
        older = "SET committed_at = now() - interval '1 day', reason = 'own_expiry', generation = 9"
        cursor.execute(f"UPDATE expiry_candidates {older} WHERE run_id = %s", (uuid_of("next"),))
        assert cursor.rowcount == 2
    assert holding(query, "next") == ADA


@pytest.mark.parametrize("partitions", [(0,), (0, 2), (0, 1, 2), ()], ids=str)
def test_rejection_does_not_hold_for_other_candidates(
    rejected: None, world: World, query: Query, partitions: tuple[int, ...]
) -> None:
    propose(world, "next", *partitions)
    assert holding(query, "next") is None


def test_rejection_does_not_hold_for_a_later_commit(rejected: None, world: World, query: Query) -> None:
    later = candidate(1, run="next")._replace(commit_version=2)
    world.propose(run_row("next"), [candidate(0, run="next"), later])
    assert holding(query, "next") is None


def test_rejection_of_nothing_does_not_hold(world: World, store: Store, query: Query) -> None:
    propose(world, "first")
    reject(store, "first")
    propose(world, "next")
    assert holding(query, "next") is None


@pytest.mark.parametrize("actor", [DAG, f"airflow ({DAG})"])
def test_rejection_by_a_dag_does_not_hold(world: World, store: Store, query: Query, actor: str) -> None:
    propose(world, "first", 0)
    reject(store, "first", actor)
    propose(world, "next", 0)
    assert holding(query, "next") is None


@pytest.mark.parametrize("actor", ["airflow:ada", "dag:token (airflow:ada)", "bulldag:er (x)"])
def test_rejection_by_an_operator_with_any_name_holds(world: World, store: Store, query: Query, actor: str) -> None:
    propose(world, "first", 0)
    reject(store, "first", actor)
    propose(world, "next", 0)
    assert holding(query, "next") == Rejection(actor, NOW_MS, "too many", uuid_of("first"))


def test_expired_proposal_does_not_hold(world: World, store: Store, query: Query) -> None:
    propose(world, "first", 0)
    world.pass_time(3_600_001)
    assert store.expire_proposals(1, "node:a") == [uuid_of("first")]
    propose(world, "next", 0)
    assert holding(query, "next") is None


def test_changes_of_proposals_that_expire_together_are_all_on_a_page(world: World, store: Store, query: Query) -> None:
    for number in range(20):
        world.propose(run_row(f"run-{number}"), [])
    world.pass_time(3_600_001)
    expired = store.expire_proposals(1, "node:a")
    listed, after = [], None
    while page := query(read_changes, ChangeFilter(after=after, limit=1)).changes:
        listed.append(page[0].change.after["run_id"])
        after = page[0].change.at_ms, page[0].change.change_id
    assert sorted(listed) == expired


def test_newest_rejection_of_an_operator_holds(rejected: None, world: World, store: Store, query: Query) -> None:
    propose(world, "second", 5, as_of_ms=NOW_MS + 1)
    reject(store, "second", "grace")
    propose(world, "repeated", 5, as_of_ms=NOW_MS + 2)
    reject(store, "repeated", DAG)
    for name, partitions in (("old", (0, 1)), ("new", (5,))):
        propose(world, name, *partitions, as_of_ms=NOW_MS + 3)
    assert holding(query, "old") is None
    assert holding(query, "new") == Rejection("grace", NOW_MS, "too many", uuid_of("second"))


def test_rejection_does_not_hold_for_a_run_that_is_decided(
    rejected: None, world: World, store: Store, query: Query
) -> None:
    """An operator may apply what another one has rejected."""
    propose(world, "next", 0, 1)
    assert store.begin_apply(uuid_of("next"), change_row("apply", action="apply_run")).status == "applying"
    assert holding(query, "next") is None


def stored(query: Query, name: str) -> int:
    return len(query(read_candidates, uuid_of(name), None, 10))


def test_dag_that_repeats_a_rejection_deletes_the_candidates(
    rejected: None, world: World, store: Store, query: Query
) -> None:
    for name in ("second", "third"):
        propose(world, name, 0, 1)
        assert holding(query, name) == ADA
        reject(store, name, DAG)
        assert stored(query, name) == 0
    assert stored(query, "first") == 2


def test_candidates_of_other_rejections_are_kept(rejected: None, world: World, store: Store, query: Query) -> None:
    propose(world, "by an operator", 0, 1)
    reject(store, "by an operator", "grace")
    propose(world, "differs", 7)
    reject(store, "differs", DAG)
    propose(world, "applying", 0, 1)
    store.begin_apply(uuid_of("applying"), change_row("apply", action="apply_run"))
    reject(store, "applying", DAG)
    assert [stored(query, name) for name in ("by an operator", "differs", "applying")] == [2, 1, 2]


# -- other jobs -------------------------------------------------------------------------------------------------


def cleanup(name: str, generation: int = 3) -> list[CandidateRow]:
    row = retirement("a", run=name)
    assert row.seen is not None
    return [row._replace(seen=row.seen._replace(generation=generation))]


def test_rejection_holds_for_groups_until_they_were_active(world: World, store: Store, query: Query) -> None:
    counts = {"candidates": 1}
    world.propose(run_row("first", kind=GROUP_CLEANUP, counts=counts), cleanup("first"))
    reject(store, "first")
    world.propose(run_row("same", kind=GROUP_CLEANUP, counts=counts), cleanup("same"))
    world.propose(run_row("active", kind=GROUP_CLEANUP, counts=counts), cleanup("active", generation=4))
    assert holding(query, "same") == ADA
    assert holding(query, "active") is None


def test_rejection_holds_for_days_of_history_until_rows_come(
    world: World, store: Store, query: Query, sql_connection: PsycopgConnection
) -> None:
    copied = (
        "INSERT INTO archive_candidates (run_id, table_name, day, source, path, row_count, checksum, verified_at)"
        " VALUES (%s, 'rebalances', '2026-01-02', 'rebalances_p20260102', %s, %s, '1-2', now())"
    )
    for name, rows in (("first", 5), ("same", 5), ("more", 6)):
        world.propose(run_row(name, kind="history_archive", counts={"candidates": 1}), [])
        with sql_connection.cursor() as cursor:
            cursor.execute(copied, (uuid_of(name), f"file:///{name}", rows))
    reject(store, "first")
    assert holding(query, "same") == ADA
    assert holding(query, "more") is None
