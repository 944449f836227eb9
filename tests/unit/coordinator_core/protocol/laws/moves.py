"""Everything that may happen to a group, by name; chance decides which member it happens to, and with which values."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from msgspec import structs

from coordinator_core.protocol.requests import (
    NO_MEMBER_ID,
    CommitOffsets,
    Heartbeat,
    LeaveGroup,
    LeavingMember,
    OffsetToCommit,
    ResetTo,
    SyncGroup,
)
from coordinator_core.protocol.settings import GroupSettings
from tests.unit.coordinator_core.protocol.laws.people import (
    LISTS,
    Person,
    delete_group,
    delete_offsets,
    expire_offsets,
    force_rebalance,
    join,
    join_again,
    remove_member,
    remove_topic_offsets,
    reset_offsets,
    restore_offsets,
    retire,
    settle,
    sync,
)
from tests.unit.coordinator_core.protocol.laws.world import SETTINGS, World

Move = Callable[[World, Random], None]

# -- random identities ------------------------------------------------------------------------------------


def _random_member_id(world: World, chance: Random) -> str:
    """Return a member id: mostly of a member, else of a pending, former or unknown one."""
    others = [*sorted(world.group.pending_member_ids), *sorted(world.memory.gone_ids)[-3:], NO_MEMBER_ID, "no-member"]
    members = list(world.group.members)
    return chance.choice(members if members and chance.randrange(4) else others)


def _random_process(chance: Random) -> Person:
    return Person(
        instance_id=chance.choice([None, None, "S", "T"]),
        protocols=chance.choice([*LISTS[:4], *LISTS]),
        session_ms=chance.choice([3_000, 10_000, 30_000]),
        rebalance_ms=chance.choice([0, 5_000, 20_000, 60_000]),
        protocol_type=chance.choice(["consumer"] * 9 + ["connect"]),
        is_old=bool(chance.randrange(2)),
        can_skip=bool(chance.randrange(2)),
    )


def _random_generation(world: World, chance: Random) -> int:
    return world.group.generation + chance.choice([0, 0, 0, 0, 0, 0, -1, 1])


def _random_instance(chance: Random) -> str | None:
    return chance.choice([None, None, None, None, "S", "T", "unheard of"])


# -- members ------------------------------------------------------------------------------------------------


def new_process_joins(world: World, chance: Random) -> None:
    """Join without a member id: a new dynamic member, or a new or returning static one."""
    world.process(join(world, _random_process(chance)))


def random_id_joins(world: World, chance: Random) -> None:
    """Join as any member, with any protocols."""
    world.process(join(world, _random_process(chance), _random_member_id(world, chance)))


def pending_member_joins(world: World, chance: Random) -> None:
    """Join with a pending member id."""
    for member_id in sorted(world.group.pending_member_ids)[:1]:
        world.process(join(world, replace(_random_process(chance), instance_id=None), member_id))


def member_rejoins(world: World, chance: Random) -> None:
    """A member joins with what it offers already."""
    for member_id in chance.sample(list(world.group.members), min(1, len(world.group.members))):
        world.process(join_again(world, member_id))


def member_changes_protocols(world: World, chance: Random) -> None:
    """A member joins with another list, under its instance if it has one."""
    for member_id in chance.sample(list(world.group.members), min(1, len(world.group.members))):
        instance_id = world.group.members[member_id].group_instance_id
        world.process(join(world, replace(_random_process(chance), instance_id=instance_id), member_id))


def static_member_rejoins(world: World, chance: Random) -> None:
    """A process starts again under its instance, with what it supported_protocols before or something else."""
    for instance_id in chance.sample(list(world.group.static_members), min(1, len(world.group.static_members))):
        known = world.group.members[world.group.static_members[instance_id]]
        protocols = chance.choice([known.protocols, *LISTS[:5]])
        world.process(join(world, replace(_random_process(chance), instance_id=instance_id, protocols=protocols)))


def nearly_all_members_rejoin(world: World, chance: Random) -> None:
    """Nearly all members rejoin, or all of them."""
    members = list(world.group.members)
    absent = chance.randrange(2 * len(members)) if members else 0
    for number, member_id in enumerate(members):
        if number != absent and member_id in world.group.members:
            world.process(join_again(world, member_id))


def random_id_syncs(world: World, chance: Random) -> None:
    """Sync as any member, with an assignment."""
    given = world.assignments(is_good=bool(chance.randrange(2)))
    identity = _random_generation(world, chance), _random_member_id(world, chance), _random_instance(chance)
    world.process(SyncGroup(world.token(), *identity, assignments=given))


def follower_syncs(world: World, chance: Random) -> None:
    """A follower syncs."""
    followers = [one for one in world.group.members if one != world.group.leader_id]
    for member_id in chance.sample(followers, min(1, len(followers))):
        world.process(sync(world, member_id))


def leader_syncs(world: World, chance: Random) -> None:
    """The leader assigns, well or badly."""
    world.process(sync(world, world.group.leader_id or "no-member", is_good=bool(chance.randrange(4))))


def random_id_heartbeats(world: World, chance: Random) -> None:
    """Heartbeat as any member."""
    identity = _random_generation(world, chance), _random_member_id(world, chance), _random_instance(chance)
    world.process(Heartbeat(world.token(), *identity))


def members_leave(world: World, chance: Random) -> None:
    """Up to three members leave at once."""
    leaving_members = [
        LeavingMember(_random_member_id(world, chance), _random_instance(chance))
        for _ in range(chance.choice([1, 1, 2, 3]))
    ]
    world.process(LeaveGroup(world.token(), tuple(leaving_members)))


def random_id_commits(world: World, chance: Random) -> None:
    """Commit as any member; one of two partitions does not exist."""
    generation = -1 if not chance.randrange(4) else _random_generation(world, chance)
    offsets = OffsetToCommit(chance.choice(["orders", "x"]), 0, 1), OffsetToCommit("orders", 99, 1)
    identity = generation, _random_member_id(world, chance), _random_instance(chance)
    world.process(CommitOffsets(world.token(), *identity, offsets))


def group_settles(world: World, _: Random) -> None:
    """All members follow the protocol until the group is Stable."""
    settle(world)


# -- operators and maintenance ------------------------------------------------------------------------------


def operator_deletes_offsets(world: World, chance: Random) -> None:
    """An operator deletes offsets of a topic that may be read."""
    world.process(delete_offsets(world, chance.choice(["orders", "x"])))


def operator_deletes_group(world: World, _: Random) -> None:
    """An operator deletes the group, if it can be."""
    world.process(delete_group(world))


def operator_forces_rebalance(world: World, _: Random) -> None:
    """An operator forces a rebalance."""
    world.process(force_rebalance(world))


def operator_removes_member(world: World, chance: Random) -> None:
    """An operator removes a member."""
    world.process(remove_member(world, _random_member_id(world, chance)))


def maintenance_expires_offsets(world: World, _: Random) -> None:
    """What is due expires, and an empty group without offsets goes."""
    world.process(expire_offsets(world))
    world.process(retire(world))


def operator_resets_offsets(world: World, chance: Random) -> None:
    """An operator resets offsets, if the group is Empty."""
    world.process(reset_offsets(world, chance.choice(list(ResetTo))))


def operator_undoes_change(world: World, chance: Random) -> None:
    """An operator or a run undoes a change, perhaps after a newer commit."""
    request = restore_offsets(world, chance.choice(["orders", "x"]), is_maintenance_run=bool(chance.randrange(2)))
    if not chance.randrange(3):
        request = structs.replace(
            request, offsets=tuple(one._replace(offset_after_change=77) for one in request.offsets)
        )
    if not chance.randrange(3):
        request = structs.replace(request, offsets=tuple(one._replace(offset=None) for one in request.offsets))
    world.process(request)


def topic_is_deleted(world: World, _: Random) -> None:
    """A topic is deleted with its offsets, and its subscribers rebalance."""
    world.process(remove_topic_offsets(world))
    world.delete_topic()


def operator_changes_settings(world: World, chance: Random) -> None:
    """An operator changes timeouts and limits."""
    settings = GroupSettings(
        session_timeout_ms=chance.choice([None, None, 4_000]),
        rebalance_timeout_ms=chance.choice([None, None, 1_000, 90_000]),
        group_min_session_timeout_ms=1,
        group_initial_rebalance_delay_ms=chance.choice([0, 1_000, 3_000]),
        group_max_size=chance.choice([2, 4, 1_000]),
        group_new_member_join_timeout_ms=SETTINGS.group_new_member_join_timeout_ms,
        group_sync_timeout_scope=chance.choice(["all", "dynamic"]),
    )
    world.change_settings(settings)


def partition_counts_change(world: World, _: Random) -> None:
    """The topic metadata changes under the group."""
    world.change_partitions()


# -- time and nodes ---------------------------------------------------------------------------------------


def time_passes(world: World, chance: Random) -> None:
    """Time passes, hardly any or some."""
    world.advance(chance.choice([1, 500, 2_999, 9_000]))


def timer_fires(world: World, _: Random) -> None:
    """Time passes until a deadline has."""
    world.advance_to_the_next_deadline()


def node_is_lost(world: World, _: Random) -> None:
    """Another node loads the group."""
    world.lose_node()


def leader_assigns_to_replaced_member(world: World, chance: Random) -> None:
    """A static member rejoins, the node is lost, and the leader, which is unaware of both, assigns."""
    static_member_rejoins(world, chance)
    world.lose_node()
    world.process(sync(world, world.group.leader_id or "no-member"))


MOVES: tuple[Move, ...] = (
    *[new_process_joins] * 4,
    *[random_id_joins] * 2,
    *[pending_member_joins] * 3,
    *[member_rejoins] * 3,
    *[member_changes_protocols] * 3,
    *[static_member_rejoins] * 3,
    *[nearly_all_members_rejoin] * 4,
    *[random_id_syncs] * 2,
    *[follower_syncs] * 4,
    *[leader_syncs] * 5,
    *[random_id_heartbeats] * 2,
    *[members_leave] * 2,
    *[random_id_commits] * 3,
    group_settles,
    operator_deletes_offsets,
    operator_deletes_group,
    operator_forces_rebalance,
    operator_removes_member,
    maintenance_expires_offsets,
    operator_resets_offsets,
    operator_undoes_change,
    topic_is_deleted,
    operator_changes_settings,
    partition_counts_change,
    *[time_passes] * 3,
    *[timer_fires] * 3,
    *[node_is_lost] * 2,
    *[leader_assigns_to_replaced_member] * 2,
)
"""What may happen, as often as it should."""
