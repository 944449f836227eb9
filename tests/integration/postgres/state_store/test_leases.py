"""Contract tests: shard leases are acquired, renewed, released and lost."""

from coordinator_core.state_store.interface import Store
from coordinator_core.state_store.rows import LeaseRow, Versions, WriteResult
from tests.support.store_rows import committed, write
from tests.support.store_worlds import NODE, TTL_MS, Owner, World

OTHER = "node-2:8080"


def renew(store: Store, node_id: str, epochs: dict[int, int]) -> frozenset[int]:
    return store.renew(node_id, {"http": f"http://{node_id}"}, "1.0", epochs, TTL_MS).held


def test_a_new_database_has_fifty_free_shards(store: Store, world: World) -> None:
    assert store.shard_count() == 50
    assert world.leases() == tuple(LeaseRow(shard, None, 0, True, {}) for shard in range(50))


def test_free_shards_are_acquired_under_their_first_epoch(store: Store, world: World) -> None:
    assert store.acquire_leases(NODE, [3, 1], TTL_MS) == {1: 1, 3: 1}
    assert [(row.shard_id, row.node_id) for row in world.leases()][:4] == [(0, None), (1, NODE), (2, None), (3, NODE)]


def test_shard_of_another_node_is_not_acquired(store: Store) -> None:
    store.acquire_leases(NODE, [1], TTL_MS)
    assert store.acquire_leases(OTHER, [1, 2], TTL_MS) == {2: 1}


def test_expired_shard_is_acquired_under_the_next_epoch(world: World, store: Store) -> None:
    store.acquire_leases(NODE, [1], TTL_MS)
    world.pass_time(TTL_MS)
    assert world.leases()[1].is_expired
    assert store.acquire_leases(OTHER, [1], TTL_MS) == {1: 2}
    assert not world.leases()[1].is_expired


def test_node_reacquires_its_own_shards_immediately(store: Store) -> None:
    store.acquire_leases(NODE, [1], TTL_MS)
    assert store.acquire_leases(NODE, [1], TTL_MS) == {1: 2}


def test_unknown_shard_is_not_acquired(store: Store) -> None:
    assert store.acquire_leases(NODE, [99], TTL_MS) == {}
    assert store.acquire_leases(NODE, [], TTL_MS) == {}


def test_renewal_extends_leases_by_their_full_time(world: World, store: Store) -> None:
    epochs = store.acquire_leases(NODE, [1, 2], TTL_MS)
    world.pass_time(TTL_MS - 1_000)
    assert renew(store, NODE, epochs) == {1, 2}
    world.pass_time(TTL_MS - 1_000)
    assert store.acquire_leases(OTHER, [1, 2], TTL_MS) == {}


def test_lost_node_loses_its_leases_although_the_clock_was_set_back(world: World, store: Store) -> None:
    renew(store, NODE, store.acquire_leases(NODE, [1], TTL_MS))
    world.pass_time(-3_600_000)
    renew(store, OTHER, {})
    assert store.acquire_leases(OTHER, [1], TTL_MS) == {}, "its owner may still renew it"
    world.pass_time(TTL_MS)
    assert store.acquire_leases(OTHER, [1], TTL_MS) == {1: 2}
    assert store.renew(OTHER, {}, "1.0", {1: 2}, TTL_MS).live_nodes == (OTHER,)


def test_renewal_returns_the_leases_that_are_still_valid(world: World, store: Store) -> None:
    epochs = store.acquire_leases(NODE, [1, 2, 3], TTL_MS)
    world.pass_time(TTL_MS)
    store.acquire_leases(OTHER, [2], TTL_MS)
    assert renew(store, NODE, epochs) == {1, 3}


def test_renewal_under_an_older_epoch_is_rejected(store: Store) -> None:
    epochs = store.acquire_leases(NODE, [1], TTL_MS)
    store.acquire_leases(NODE, [1], TTL_MS)
    assert renew(store, NODE, epochs) == frozenset()


def test_expired_unclaimed_lease_is_renewed(world: World, store: Store) -> None:
    epochs = store.acquire_leases(NODE, [1], TTL_MS)
    world.pass_time(TTL_MS)
    assert renew(store, NODE, epochs) == {1}
    assert store.acquire_leases(OTHER, [1], TTL_MS) == {}


def test_renewal_keeps_the_epoch(store: Store, owner: Owner) -> None:
    renew(store, NODE, owner.epochs)
    assert owner.write(write(committed=(committed(),))) == WriteResult()


def test_renewal_returns_leases_nodes_and_versions(world: World, store: Store) -> None:
    store.renew("old:1", {"http": "http://old:1"}, "1.0", {}, TTL_MS)
    world.pass_time(TTL_MS)
    store.renew(OTHER, {"http": "http://other"}, "1.0", {}, TTL_MS)
    epochs = store.acquire_leases(OTHER, [0], TTL_MS)
    found = store.renew(NODE, {"http": "http://node"}, "1.0", store.acquire_leases(NODE, [1], TTL_MS), TTL_MS)
    assert found.live_nodes == (NODE, OTHER)
    assert found.leases[:3] == (
        LeaseRow(0, OTHER, epochs[0], False, {"http": "http://other"}),
        LeaseRow(1, NODE, 1, False, {"http": "http://node"}),
        LeaseRow(2, None, 0, True, {}),
    )
    assert found.versions == Versions(0, 0, 0, 0)


def test_node_confirms_settings_with_a_renewal(store: Store) -> None:
    store.renew(OTHER, {"http": "http://other"}, "1.0", {}, TTL_MS)
    store.renew(NODE, {"http": "http://node"}, "1.0", {}, TTL_MS, cluster_configs=1)
    assert [store.unconfirmed_nodes(version) for version in (0, 1, 2)] == [[], [OTHER], [NODE, OTHER]]
    store.renew(OTHER, {"http": "http://other"}, "1.0", {}, TTL_MS, cluster_configs=2)
    assert store.unconfirmed_nodes(2) == [NODE]


def test_expired_node_is_unconfirmed_while_it_owns_a_shard(world: World, store: Store) -> None:
    store.renew(OTHER, {"http": "http://other"}, "1.0", {}, TTL_MS)
    store.renew(NODE, {"http": "http://node"}, "1.0", store.acquire_leases(NODE, [1], TTL_MS), TTL_MS)
    world.pass_time(TTL_MS)
    assert store.unconfirmed_nodes(1) == [NODE]
    store.acquire_leases("node-3:8080", [1], TTL_MS)
    assert store.unconfirmed_nodes(1) == []


def test_renewal_updates_the_addresses_of_the_listeners(store: Store, world: World) -> None:
    epochs = store.acquire_leases(NODE, [0], TTL_MS)
    store.renew(NODE, {"http": "http://here"}, "1.0", epochs, TTL_MS)
    moved = {"http": "http://there", "kafka": "there:9092"}
    store.renew(NODE, moved, "1.1", epochs, TTL_MS)
    assert world.leases()[0].listeners == moved


def test_released_shard_can_be_acquired_immediately(store: Store, world: World) -> None:
    epochs = store.acquire_leases(NODE, [1, 2], TTL_MS)
    store.release(NODE, {1: epochs[1]})
    assert world.leases()[1] == LeaseRow(1, None, 1, True, {})
    assert store.acquire_leases(OTHER, [1, 2], TTL_MS) == {1: 2}


def test_released_shard_refuses_writes(owner: Owner, store: Store) -> None:
    store.release(NODE, owner.epochs)
    assert owner.write(write(shard_id=1, committed=(committed(),))) == WriteResult(lost_shards=frozenset({1}))


def test_release_keeps_leases_of_other_nodes(world: World, store: Store) -> None:
    epochs = store.acquire_leases(NODE, [1], TTL_MS)
    world.pass_time(TTL_MS)
    store.acquire_leases(OTHER, [1], TTL_MS)
    store.release(NODE, epochs)
    assert world.leases()[1].node_id == OTHER


def test_rows_of_long_lost_nodes_are_deleted(world: World, store: Store) -> None:
    epochs = store.acquire_leases(NODE, [1], TTL_MS)
    store.renew(NODE, {"http": "http://node"}, "1.0", epochs, TTL_MS)
    world.pass_time(TTL_MS + 1)
    store.delete_lost_nodes(60_000)
    assert world.leases()[1].listeners == {"http": "http://node"}
    store.delete_lost_nodes(0)
    assert world.leases()[1].listeners == {}


def test_a_node_that_retired_is_not_live(store: Store) -> None:
    store.renew(NODE, {"http": "http://node"}, "1.0", {}, TTL_MS)
    store.renew(OTHER, {"http": "http://other"}, "1.0", {}, TTL_MS)
    store.delete_node(NODE)
    store.delete_node("nobody")
    assert store.renew(OTHER, {"http": "http://other"}, "1.0", {}, TTL_MS).live_nodes == (OTHER,)
