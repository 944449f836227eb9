"""Contract tests: runs are proposed, applied by candidate, and finished."""

import pytest

from coordinator_core.queries.changes import ChangeFilter, read_changes
from coordinator_core.queries.runs import ExpiryForecast, read_forecast, read_newest_runs, read_runs
from coordinator_core.state_store.interface import RunNotFound, Store
from coordinator_core.state_store.runs import GROUP_CLEANUP, WHOLE_GROUP, OutcomeRow, RunDecision
from tests.support.store_rows import (
    NOW_MS,
    ForecastRow,
    candidate,
    change_row,
    committed,
    outcome,
    removed,
    retirement,
    run_row,
    uuid_of,
    write,
)
from tests.support.store_worlds import Owner, Query, World

RUN = uuid_of("run")
APPLY = change_row("apply", action="apply")


@pytest.fixture
def proposed(world: World) -> None:
    world.propose(run_row(), [candidate(0), candidate(1)])


def test_run_is_returned_as_proposed(world: World) -> None:
    run = run_row(interval_start_ms=NOW_MS - 1, dry_run=True)
    world.propose(run, [])
    assert world.run(RUN) == run


@pytest.mark.parametrize("run_id", [RUN, "no uuid", "", "\0"])
def test_unknown_run_is_not_found(store: Store, run_id: str, world: World) -> None:
    with pytest.raises(RunNotFound):
        world.run(run_id)
    with pytest.raises(RunNotFound):
        store.begin_apply(run_id, APPLY)
    with pytest.raises(RunNotFound):
        store.reject(run_id, APPLY)


def test_the_newest_runs_come_first(world: World, query: Query) -> None:
    for name in ("first", "second", "third"):
        world.propose(run_row(name), [])
    assert [run.run_id for run in query(read_runs, limit=2)] == [uuid_of("third"), uuid_of("second")]


def test_newest_instant_of_each_job_is_returned(world: World, query: Query) -> None:
    assert query(read_newest_runs) == {}
    for name, kind, at_ms in (("a", "offset_retention", 5), ("b", "offset_retention", 3), ("c", "undo", 9)):
        world.propose(run_row(name, kind=kind, as_of_ms=at_ms), [])
    world.propose(run_row("d", kind=GROUP_CLEANUP, as_of_ms=NOW_MS), [])
    assert query(read_newest_runs) == {"offset_retention": 5, GROUP_CLEANUP: NOW_MS}


def test_run_as_of_a_future_time_is_not_the_newest_yet(world: World, query: Query) -> None:
    world.propose(run_row("now", as_of_ms=world.today_ms()), [], [forecast("a", 1, 2, 5)])
    now_ms = query(read_newest_runs)["offset_retention"]
    world.propose(run_row("tomorrow", as_of_ms=now_ms + 86_400_000), [])
    assert query(read_newest_runs) == {"offset_retention": now_ms}
    assert query(read_forecast, [*range(50)]) == ExpiryForecast(now_ms, 2, 5)


def test_proposal_is_not_applied_by_itself(proposed: None, store: Store, world: World) -> None:
    assert store.next_candidates(range(50), 10) == []
    assert store.finish_runs() == []
    assert world.run(RUN).counts == {"candidates": 2}


def test_applying_starts_once_and_repeats_are_recorded(proposed: None, world: World, store: Store) -> None:
    assert store.begin_apply(RUN, APPLY).status == "applying"
    assert store.begin_apply(RUN, APPLY).status == "applying"
    assert store.begin_apply(RUN, change_row("again")).status == "applying"
    first, again = sorted(world.history().changes, key=lambda change: change.before["status"], reverse=True)
    assert (first.change_id, again.change_id) == (uuid_of("apply"), uuid_of("again"))
    of_run = {"run_id": RUN, "kind": "offset_retention"}
    assert (first.before, first.after) == ({**of_run, "status": "proposed"}, {**of_run, "status": "applying"})
    assert again.before == again.after == {**of_run, "status": "applying"}
    assert {one.change_id for one in store.next_candidates(range(50), 10)} == {uuid_of("apply")}


def test_second_rejection_is_recorded(proposed: None, world: World, store: Store) -> None:
    store.reject(RUN, change_row("no"))
    assert store.reject(RUN, change_row("no, again")).status == "rejected"
    assert [change.after["status"] for change in world.history().changes] == ["rejected", "rejected"]


def test_a_rejected_run_is_not_applied(proposed: None, world: World, store: Store) -> None:
    assert store.reject(RUN, change_row("no")).status == "rejected"
    assert store.begin_apply(RUN, APPLY).status == "rejected"
    assert store.next_candidates(range(50), 10) == []
    assert [change.after["status"] for change in world.history().changes] == ["rejected"]


def test_decision_has_actor_time_and_reason(proposed: None, world: World, store: Store) -> None:
    assert world.run(RUN).decision is None
    store.reject(RUN, change_row("no", actor="ada", reason="too many"))
    store.reject(RUN, change_row("no, again"))
    assert world.run(RUN).decision == RunDecision("ada", NOW_MS, "too many")


def test_decision_of_an_applied_run_is_the_first(proposed: None, world: World, store: Store) -> None:
    store.begin_apply(RUN, APPLY)
    assert store.begin_apply(RUN, change_row("again", actor="ada")).decision == RunDecision(
        "night shift", NOW_MS, "a drill"
    )


TTL_HOURS = 168
TTL_MS = TTL_HOURS * 3_600_000


def test_proposal_expires_after_its_time_to_live(proposed: None, world: World, store: Store) -> None:
    world.pass_time(TTL_MS - 60_000)
    assert store.expire_proposals(TTL_HOURS, "node:a") == []
    world.pass_time(61_000)
    assert store.expire_proposals(TTL_HOURS, "node:a") == [RUN]
    run = store.begin_apply(RUN, APPLY)
    assert run.status == "rejected"
    assert run.decision is not None
    assert (run.decision.actor, run.decision.reason) == ("node:a", "expired: no decision within 168 hours")
    (change,) = world.history().changes
    assert (change.action, change.before["status"], change.after["status"]) == ("expire_run", "proposed", "rejected")
    assert store.expire_proposals(TTL_HOURS, "node:a") == []


def test_only_proposals_expire(world: World, store: Store) -> None:
    for name in ("applying", "rejected"):
        world.propose(run_row(name), [candidate(0, run=name)])
    store.begin_apply(uuid_of("applying"), APPLY)
    store.reject(uuid_of("rejected"), change_row("no"))
    world.pass_time(2 * TTL_MS)
    world.propose(run_row("new"), [])
    assert store.expire_proposals(TTL_HOURS, "node:a") == []
    assert world.run(uuid_of("applying")).status == "applying"


def test_a_run_under_way_is_not_rejected(proposed: None, store: Store) -> None:
    store.begin_apply(RUN, APPLY)
    assert store.reject(RUN, change_row("no")).status == "applying"


def test_candidates_of_an_applying_run_are_handed_out(proposed: None, store: Store) -> None:
    store.begin_apply(RUN, APPLY)
    assert store.next_candidates(range(50), 10) == [candidate(0), candidate(1)]


def test_candidates_of_other_shards_are_not_handed_out(world: World, store: Store) -> None:
    world.propose(run_row(), [candidate(0, shard_id=1), candidate(1, "views", shard_id=2)])
    store.begin_apply(RUN, APPLY)
    assert [row.group_id for row in store.next_candidates([2, 3], 10)] == ["views"]
    assert store.next_candidates([], 10) == []


def test_candidates_come_in_chunks_by_run_and_group(world: World, store: Store) -> None:
    for name in ("run", "run-2"):
        rows = [candidate(number, group, run=name) for number in (0, 1) for group in ("b", "a")]
        world.propose(run_row(name), rows)
        store.begin_apply(uuid_of(name), change_row(f"apply {name}"))
    everything = store.next_candidates(range(50), 100)
    first, second = sorted([RUN, uuid_of("run-2")])
    assert [(row.run_id, row.group_id) for row in everything] == [
        (run_id, group) for run_id in (first, second) for group in ("a", "a", "b", "b")
    ]
    assert store.next_candidates(range(50), 3) == everything[:3]
    assert {row.change_id for row in everything} == {uuid_of("apply run"), uuid_of("apply run-2")}


def test_outcome_is_stored_with_its_change(proposed: None, owner: Owner, world: World, store: Store) -> None:
    owner.write(write(committed=(committed(partition=0),)))
    store.begin_apply(RUN, APPLY)
    (seen,) = store.stored_offsets("orders")
    owner.write(write(removed=(removed(seen, "apply", cause="expired"),), outcomes=(outcome(0),)))
    assert [row.partition for row in store.next_candidates(range(50), 10)] == [1]
    assert world.run(RUN).counts == {"candidates": 2, "expired": 1, "undecided": 1}
    assert [(row.change_id, row.cause) for row in world.history().archived] == [(uuid_of("apply"), "expired")]


def test_of_two_outcomes_the_first_counts(proposed: None, owner: Owner, store: Store, world: World) -> None:
    store.begin_apply(RUN, APPLY)
    owner.write(write(outcomes=(outcome(0, "expired"), outcome(0, "committed_since"))))
    owner.write(write(outcomes=(outcome(0, "group_not_empty"), outcome(1, "committed_since"), outcome(9))))
    assert world.run(RUN).counts == {"candidates": 2, "expired": 1, "committed_since": 1}


def test_a_run_is_applied_when_every_candidate_has_an_outcome(
    proposed: None, owner: Owner, store: Store, world: World
) -> None:
    store.begin_apply(RUN, APPLY)
    owner.write(write(outcomes=(outcome(0),)))
    assert store.finish_runs() == []
    owner.write(write(outcomes=(outcome(1),)))
    assert store.finish_runs() == [RUN]
    assert store.finish_runs() == []
    finished = world.run(RUN)
    assert (finished.status, finished.counts) == ("applied", {"candidates": 2, "expired": 2})
    assert store.begin_apply(RUN, change_row("again")).status == "applied"


def test_a_run_without_candidates_is_applied_at_once(world: World, store: Store) -> None:
    world.propose(run_row(counts={"candidates": 0}), [])
    store.begin_apply(RUN, APPLY)
    assert store.finish_runs() == [RUN]
    assert world.run(RUN).counts == {"candidates": 0}


def test_a_refused_group_s_outcomes_are_not_stored(proposed: None, owner: Owner, store: Store, world: World) -> None:
    store.begin_apply(RUN, APPLY)
    owner.write(write(outcomes=(outcome(0),), committed=(committed(metadata="\0"),)))
    assert world.run(RUN).counts["undecided"] == 2


def test_a_list_of_runs_counts_as_a_single_run_does(
    proposed: None, owner: Owner, store: Store, query: Query, world: World
) -> None:
    store.begin_apply(RUN, APPLY)
    owner.write(write(outcomes=(outcome(0),)))
    assert query(read_runs) == [world.run(RUN)]


# -- groups that are candidates themselves ----------------------------------------------------------------------

CLEANUP = run_row(kind=GROUP_CLEANUP)


def became(group_id: str, what: str) -> OutcomeRow:
    return OutcomeRow(RUN, group_id, *WHOLE_GROUP, what)


def test_groups_to_retire_are_handed_out_with_what_was_seen_of_them(world: World, store: Store) -> None:
    world.propose(CLEANUP, [retirement("b"), retirement("a"), retirement("elsewhere", shard_id=8)])
    store.begin_apply(RUN, APPLY)
    assert store.next_candidates([7], 10) == [retirement("a"), retirement("b")]
    assert store.next_candidates([7], 1) == [retirement("a")]


def test_outcome_of_the_last_group_completes_the_run(world: World, owner: Owner, store: Store) -> None:
    world.propose(CLEANUP, [retirement("a"), retirement("b")])
    store.begin_apply(RUN, APPLY)
    owner.write(write("a", outcomes=(became("a", "retired"), became("a", "woke_since"))))
    assert world.run(RUN).counts == {"candidates": 2, "retired": 1, "undecided": 1}
    assert store.finish_runs() == []
    owner.write(write("b", outcomes=(became("b", "has_offsets"), became("unknown", "retired"))))
    assert store.next_candidates(range(50), 10) == []
    assert store.finish_runs() == [RUN]
    assert world.run(RUN).counts == {"candidates": 2, "retired": 1, "has_offsets": 1}


def test_runs_of_both_kinds_are_applied_concurrently(world: World, owner: Owner, store: Store) -> None:
    world.propose(run_row(), [candidate(0)])
    world.propose(run_row("cleanup", kind=GROUP_CLEANUP), [retirement(run="cleanup")])
    for name in ("run", "cleanup"):
        store.begin_apply(uuid_of(name), change_row(f"apply {name}"))
    assert len(store.next_candidates(range(50), 10)) == 2
    of_group = OutcomeRow(uuid_of("cleanup"), "orders", *WHOLE_GROUP, "retired")
    owner.write(write(outcomes=(outcome(0), of_group)))
    assert store.finish_runs() == sorted([RUN, uuid_of("cleanup")])


def test_candidates_of_excluded_runs_and_groups_are_left_out(world: World, store: Store) -> None:
    world.propose(run_row(), [candidate(0)])
    world.propose(
        run_row("cleanup", kind=GROUP_CLEANUP), [retirement("a", run="cleanup"), retirement("b", run="cleanup")]
    )
    for name in ("run", "cleanup"):
        store.begin_apply(uuid_of(name), change_row(f"apply {name}"))
    found = store.next_candidates(range(50), 10, without_groups=["a"], without_runs=[RUN])
    assert [(row.run_id, row.group_id) for row in found] == [(uuid_of("cleanup"), "b")]


# -- what will expire -------------------------------------------------------------------------------------------


def forecast(group_id: str, shard_id: int, day: int, week: int) -> ForecastRow:
    return ForecastRow(group_id, shard_id, day, week, NOW_MS)


def test_run_is_applied_only_with_the_reviewed_counts(world: World, store: Store, query: Query) -> None:
    world.propose(run_row(counts={"candidates": 50, "of": 100}), [candidate(0)])
    assert store.begin_apply(RUN, APPLY, candidates=1).status == "proposed"
    assert query(read_changes, ChangeFilter()).changes == []
    assert store.next_candidates(range(50), 10) == []
    assert store.begin_apply(RUN, APPLY, candidates=50).status == "applying"
    assert store.begin_apply(RUN, change_row("again"), candidates=1).status == "applying"


def test_run_without_counts_is_rejected_as_changed(world: World, store: Store) -> None:
    world.propose(run_row(counts={}), [])
    assert store.begin_apply(RUN, APPLY, candidates=0).status == "proposed"
    assert store.begin_apply(RUN, APPLY).status == "applying"


def test_expiry_is_unknown_without_a_run(world: World, query: Query) -> None:
    world.propose(run_row(kind=GROUP_CLEANUP), [])
    assert query(read_forecast, [*range(50)]) is None


def test_expiring_offsets_are_summed_over_shards(world: World, query: Query) -> None:
    rows = [forecast("a", 1, 2, 5), forecast("b", 1, 1, 1), forecast("c", 2, 7, 9)]
    world.propose(run_row(), [], rows)
    assert query(read_forecast, [1, 3]) == ExpiryForecast(NOW_MS, 3, 6)
    assert query(read_forecast, [*range(50)]) == ExpiryForecast(NOW_MS, 10, 15)
    assert query(read_forecast, []) == ExpiryForecast(NOW_MS, 0, 0)


def test_the_newest_forecast_counts_and_may_be_that_nothing_expires(world: World, query: Query) -> None:
    world.propose(run_row("newer", as_of_ms=NOW_MS + 1), [])
    world.propose(run_row(), [], [forecast("a", 1, 2, 5)])
    assert query(read_forecast, [*range(50)]) == ExpiryForecast(NOW_MS + 1, 0, 0)


def test_a_second_run_of_an_interval_replaces_what_the_first_forecast(world: World, query: Query) -> None:
    for name in ("b", "a", "c"):
        world.propose(run_row(name), [], [forecast("a", 1, 2, 5)])
        assert query(read_forecast, [*range(50)]) == ExpiryForecast(NOW_MS, 2, 5)
    world.propose(run_row("by hand", interval_end_ms=None), [], [forecast("b", 1, 1, 4)])
    assert query(read_forecast, [*range(50)]) == ExpiryForecast(NOW_MS, 1, 4)
    world.propose(run_row("d"), [])
    assert query(read_forecast, [*range(50)]) == ExpiryForecast(NOW_MS, 0, 0)
