"""Contract tests: after a restore, failover or rollback a new incarnation starts, and no number repeats."""

from dataclasses import replace

import pytest

from coordinator_core.protocol.group import GENERATION_MAX
from coordinator_core.queries.changes import ChangeFilter, read_changes
from coordinator_core.state_store.incarnations import GENERATION_JUMP, GENERATIONS_A_MINUTE, is_rolled_back
from coordinator_core.state_store.interface import RolledBack, Store
from coordinator_core.state_store.rows import Renewal, WriteResult
from tests.support.store_rows import MINUTE_MS, NOW_MS, SHARD, committed, group_row, loaded, member_row, write
from tests.support.store_worlds import NODE, TTL_MS, Owner, Query, World

OTHER = "node-2:8080"
COMMIT = write(committed=(committed(),))


def renew(store: Store, epochs: dict[int, int], node_id: str = NODE, last: Renewal | None = None) -> Renewal:
    return store.renew(node_id, {"http": f"http://{node_id}"}, "1.0", epochs, TTL_MS, last)


def generation_of(store: Store, group_id: str = "orders") -> int:
    return next(one.group.generation for one in loaded(store, [SHARD]) if one.group.group_id == group_id)


def test_the_first_renewal_adopts_the_database(store: Store) -> None:
    before = store.incarnation()
    after = renew(store, {}).incarnation
    assert (before.number, before.identity, after.number) == (1, None, 1)
    assert after.identity is not None
    assert after == store.incarnation() == renew(store, {}, OTHER).incarnation


def test_another_database_rejects_commits(world: World, owner: Owner) -> None:
    assert owner.write(COMMIT) == WriteResult()
    world.fail_over()
    assert owner.write(COMMIT) == WriteResult(lost_shards=frozenset({SHARD}))


def test_another_database_rejects_writes_of_groups(world: World, store: Store, owner: Owner) -> None:
    world.fail_over()
    assert owner.write(write(group=group_row())) == WriteResult(lost_shards=frozenset({SHARD}))
    assert store.load_shards([SHARD]) == []


def test_a_renewal_ends_every_lease_of_another_database(world: World, store: Store, owner: Owner) -> None:
    world.fail_over()
    found = renew(store, owner.epochs)
    assert found.incarnation.number == 2
    assert found.held == frozenset()
    assert all(lease.node_id is None and lease.epoch > owner.epochs[lease.shard_id] for lease in found.leases)
    assert owner.write(COMMIT) == WriteResult(lost_shards=frozenset({SHARD}))


def test_one_node_starts_the_incarnation_and_the_others_find_it(world: World, store: Store, owner: Owner) -> None:
    world.fail_over()
    started = renew(store, owner.epochs).incarnation
    assert renew(store, {}, OTHER).incarnation == started
    assert renew(store, owner.epochs).incarnation == started


def test_acquiring_leases_starts_an_incarnation_too(world: World, store: Store, owner: Owner) -> None:
    owner.write(write(group=group_row(generation=7)))
    world.fail_over()
    taken = store.acquire_leases(OTHER, [SHARD], TTL_MS)
    assert taken[SHARD] > owner.epochs[SHARD] + 1
    assert generation_of(store) == 7 + GENERATION_JUMP


def test_generations_jump_and_groups_with_members_are_to_rebalance(world: World, store: Store, owner: Owner) -> None:
    owner.write(
        write(group=group_row(generation=7), members={"m-1": member_row()}),
        write("resting", group=group_row("resting", state="Empty", state_before_join_phase="Empty", generation=3)),
    )
    world.fail_over()
    renew(store, {})
    resting, orders = (one.group for one in sorted(loaded(store, [SHARD]), key=lambda one: one.group.generation))
    assert (orders.generation, orders.must_rebalance) == (7 + GENERATION_JUMP, True)
    assert orders.rebalance_trigger == "database_restored"
    assert (resting.generation, resting.must_rebalance) == (3 + GENERATION_JUMP, False)
    assert (resting.protocol_type, resting.rebalance_trigger) == ("consumer", None)


def test_protocol_of_an_unstored_first_member_is_cleared(world: World, store: Store, owner: Owner) -> None:
    row = group_row(
        state="PreparingRebalance", state_before_join_phase="Empty", generation=0, rebalance_trigger="member_joined"
    )
    owner.write(write(group=row))
    world.fail_over()
    renew(store, {})
    (found,) = loaded(store, [SHARD])
    assert (found.group.generation, found.group.protocol_type) == (GENERATION_JUMP, None)
    assert (found.group.must_rebalance, found.group.rebalance_trigger) == (False, "member_joined")


def test_generation_beyond_the_maximum_restarts_at_zero(world: World, store: Store, owner: Owner) -> None:
    owner.write(write(group=group_row(generation=GENERATION_MAX)))
    world.fail_over()
    renew(store, {})
    assert generation_of(store) == GENERATION_JUMP - 1


def test_an_old_backup_makes_generations_jump_further(world: World, store: Store, owner: Owner) -> None:
    """Restoring one backup twice leads to different generations."""
    owner.write(write(group=group_row(generation=7, state_since_ms=NOW_MS - 600 * MINUTE_MS)))
    world.pass_time(120 * MINUTE_MS)
    world.fail_over()
    renew(store, {})
    assert generation_of(store) - 7 - GENERATION_JUMP in {119 * GENERATIONS_A_MINUTE, 120 * GENERATIONS_A_MINUTE}


def test_every_node_reads_settings_and_topics_again(world: World, store: Store) -> None:
    before = renew(store, {}).versions
    world.fail_over()
    assert all(after > earlier for after, earlier in zip(renew(store, {}).versions, before, strict=True))


def test_a_change_records_what_the_database_was_and_is(world: World, store: Store, query: Query) -> None:
    first = renew(store, {}).incarnation
    world.fail_over()
    second = renew(store, {}).incarnation
    (recorded,) = query(read_changes, ChangeFilter(None, None, 10)).changes
    change = recorded.change
    assert first.identity
    assert second.identity
    assert (change.actor, change.action, change.group_id) == (NODE, "start_incarnation", None)
    assert change.at_ms == second.started_at_ms
    assert change.before["incarnation"] == 1
    assert (change.after["incarnation"], change.after["timeline"]) == (2, second.identity.timeline)
    assert change.after["generations_raised_by"] == GENERATION_JUMP


def test_operator_starts_an_incarnation_once(store: Store, owner: Owner) -> None:
    owner.write(write(group=group_row(generation=7)))
    assert store.start_incarnation(1, "ada", "rolled back to Monday").number == 2
    assert store.start_incarnation(1, "ada", "rolled back to Monday").number == 2
    assert generation_of(store) == 7 + GENERATION_JUMP
    assert owner.write(COMMIT) == WriteResult(lost_shards=frozenset({SHARD}))


def test_renewals_are_counted(store: Store) -> None:
    assert [renew(store, {}).renewals for _ in range(3)] == [1, 2, 3]


def test_renewal_count_continues_for_an_unknown_node(store: Store) -> None:
    last = renew(store, {})
    store.delete_node(NODE)
    assert renew(store, {}, last=replace(last, renewals=41)).renewals == 42


def test_fewer_renewals_show_a_rollback(store: Store) -> None:
    first, second = renew(store, {}), renew(store, {})
    assert not is_rolled_back(second, first)
    assert is_rolled_back(first, second)


def test_a_rollback_refuses_every_renewal_until_a_new_incarnation(store: Store) -> None:
    """One that fails to start the incarnation must not make the next one look right."""
    last = renew(store, {})
    remembered = replace(last, renewals=last.renewals + 1)
    for _ in range(2):
        with pytest.raises(RolledBack):
            renew(store, {}, last=remembered)
    with pytest.raises(RolledBack) as refused:
        renew(store, {}, last=remembered)
    assert store.start_incarnation(refused.value.incarnation, NODE, "rolled back").number == 2
    assert renew(store, {}, last=remembered).incarnation.number == 2


def test_a_lower_epoch_shows_a_rollback(store: Store) -> None:
    first = renew(store, {})
    store.acquire_leases(OTHER, [SHARD], TTL_MS)
    second = renew(store, {})
    assert not is_rolled_back(second, first)
    assert is_rolled_back(replace(first, renewals=second.renewals + 1), second)


def test_a_new_incarnation_is_no_rollback_and_an_old_one_is(world: World, store: Store) -> None:
    first = renew(store, {})
    world.pass_time(MINUTE_MS)
    world.fail_over()
    second = renew(store, {})
    assert not is_rolled_back(replace(second, renewals=0), first)
    assert is_rolled_back(replace(first, renewals=9), second)


def test_failover_to_a_server_whose_clock_is_behind_starts_one_incarnation(world: World, store: Store) -> None:
    world.pass_time(-60 * MINUTE_MS)
    first = renew(store, {})
    world.fail_over()
    second = renew(store, {}, last=first)
    assert (second.incarnation.number, renew(store, {}, last=second).incarnation) == (2, second.incarnation)
