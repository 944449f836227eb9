"""Whatever may happen to a group, each thing by a name; chance decides who does it and how well."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from coordinator_core.protocol.requests import (
    NO_MEMBER_ID,
    CommitOffsets,
    Heartbeat,
    LeaveGroup,
    Leaver,
    OffsetToCommit,
    Reconsider,
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
    put_out,
    remove_topic_offsets,
    reset_offsets,
    restore_offsets,
    retire,
    settle,
    sync,
)
from tests.unit.coordinator_core.protocol.laws.world import SETTINGS, World

Move = Callable[[World, Random], None]

# -- who, and how wrong -----------------------------------------------------------------------------------


def _somebody(world: World, chance: Random) -> str:
    """Return the id of somebody: mostly of a member, else of a handshake, of one who went, or of nobody."""
    others = [*sorted(world.group.pending_member_ids), *sorted(world.memory.gone_ids)[-3:], NO_MEMBER_ID, "nobody"]
    members = list(world.group.members)
    return chance.choice(members if members and chance.randrange(4) else others)


def _a_person(chance: Random) -> Person:
    return Person(
        instance_id=chance.choice([None, None, "S", "T"]),
        protocols=chance.choice([*LISTS[:4], *LISTS]),
        session_ms=chance.choice([3_000, 10_000, 30_000]),
        rebalance_ms=chance.choice([0, 5_000, 20_000, 60_000]),
        protocol_type=chance.choice(["consumer"] * 9 + ["connect"]),
        is_old=bool(chance.randrange(2)),
        can_skip=bool(chance.randrange(2)),
    )


def _generation(world: World, chance: Random) -> int:
    return world.group.generation + chance.choice([0, 0, 0, 0, 0, 0, -1, 1])


def _instance(chance: Random) -> str | None:
    return chance.choice([None, None, None, None, "S", "T", "unheard of"])


# -- members ------------------------------------------------------------------------------------------------


def somebody_comes(world: World, chance: Random) -> None:
    """A stranger joins, or a static member that is new or comes back."""
    world.ask(join(world, _a_person(chance)))


def somebody_comes_with_an_id(world: World, chance: Random) -> None:
    """Whoever it is joins, offering anything."""
    world.ask(join(world, _a_person(chance), _somebody(world, chance)))


def a_handshake_id_comes(world: World, chance: Random) -> None:
    """Whoever was handed an id joins with it."""
    for member_id in sorted(world.group.pending_member_ids)[:1]:
        world.ask(join(world, replace(_a_person(chance), instance_id=None), member_id))


def a_member_comes_again(world: World, chance: Random) -> None:
    """A member joins with what it offers already."""
    for member_id in chance.sample(list(world.group.members), min(1, len(world.group.members))):
        world.ask(join_again(world, member_id))


def a_member_offers_something_else(world: World, chance: Random) -> None:
    """A member joins with another list, under its instance if it has one."""
    for member_id in chance.sample(list(world.group.members), min(1, len(world.group.members))):
        instance_id = world.group.members[member_id].group_instance_id
        world.ask(join(world, replace(_a_person(chance), instance_id=instance_id), member_id))


def a_static_member_comes_back(world: World, chance: Random) -> None:
    """A process starts again under its instance, with what it offered before or something else."""
    for instance_id in chance.sample(list(world.group.static_members), min(1, len(world.group.static_members))):
        known = world.group.members[world.group.static_members[instance_id]]
        protocols = chance.choice([known.protocols, *LISTS[:5]])
        world.ask(join(world, replace(_a_person(chance), instance_id=instance_id, protocols=protocols)))


def all_but_one_come_again(world: World, chance: Random) -> None:
    """Nearly everybody joins again; perhaps everybody."""
    members = list(world.group.members)
    absent = chance.randrange(2 * len(members)) if members else 0
    for number, member_id in enumerate(members):
        if number != absent and member_id in world.group.members:
            world.ask(join_again(world, member_id))


def somebody_syncs(world: World, chance: Random) -> None:
    """Whoever it is syncs, and brings an assignment."""
    given = world.assignments(is_good=bool(chance.randrange(2)))
    asker = _generation(world, chance), _somebody(world, chance), _instance(chance)
    world.ask(SyncGroup(world.token(), *asker, assignments=given))


def a_follower_syncs(world: World, chance: Random) -> None:
    """A member that does not lead asks for its part."""
    followers = [one for one in world.group.members if one != world.group.leader_id]
    for member_id in chance.sample(followers, min(1, len(followers))):
        world.ask(sync(world, member_id))


def the_leader_syncs(world: World, chance: Random) -> None:
    """The leader assigns, well or badly."""
    world.ask(sync(world, world.group.leader_id or "nobody", is_good=bool(chance.randrange(4))))


def somebody_beats(world: World, chance: Random) -> None:
    """Whoever it is says that it lives."""
    asker = _generation(world, chance), _somebody(world, chance), _instance(chance)
    world.ask(Heartbeat(world.token(), *asker))


def some_leave(world: World, chance: Random) -> None:
    """Up to three leave at once, whoever they are."""
    leavers = [Leaver(_somebody(world, chance), _instance(chance)) for _ in range(chance.choice([1, 1, 2, 3]))]
    world.ask(LeaveGroup(world.token(), tuple(leavers)))


def somebody_commits(world: World, chance: Random) -> None:
    """Whoever it is commits, one of two partitions being none."""
    generation = -1 if not chance.randrange(4) else _generation(world, chance)
    offsets = OffsetToCommit(chance.choice(["orders", "x"]), 0, 1), OffsetToCommit("orders", 99, 1)
    asker = generation, _somebody(world, chance), _instance(chance)
    world.ask(CommitOffsets(world.token(), *asker, offsets))


def everybody_behaves(world: World, _: Random) -> None:
    """Everybody does what the protocol asks until the group has settled."""
    settle(world)


# -- operators and maintenance ------------------------------------------------------------------------------


def offsets_are_deleted(world: World, chance: Random) -> None:
    """An operator deletes offsets of a topic that may be read."""
    world.ask(delete_offsets(world, chance.choice(["orders", "x"])))


def the_group_is_deleted(world: World, _: Random) -> None:
    """An operator deletes the group, if it can be."""
    world.ask(delete_group(world))


def a_rebalance_is_forced(world: World, _: Random) -> None:
    """An operator wants a new generation."""
    world.ask(force_rebalance(world))


def somebody_is_put_out(world: World, chance: Random) -> None:
    """An operator puts somebody out."""
    world.ask(put_out(world, _somebody(world, chance)))


def maintenance_sweeps(world: World, _: Random) -> None:
    """What is due expires, and an empty group without offsets goes."""
    world.ask(expire_offsets(world))
    world.ask(retire(world))


def offsets_are_reset(world: World, chance: Random) -> None:
    """An operator puts the group elsewhere, if it is Empty."""
    world.ask(reset_offsets(world, chance.choice(list(ResetTo))))


def a_change_is_taken_back(world: World, chance: Random) -> None:
    """A person or a run restores what a change took, or what somebody has committed over since."""
    request = restore_offsets(world, chance.choice(["orders", "x"]), is_of_run=bool(chance.randrange(2)))
    if not chance.randrange(3):
        request = replace(request, offsets=tuple(one._replace(left_offset=77) for one in request.offsets))
    if not chance.randrange(3):
        request = replace(request, offsets=tuple(one._replace(offset=None) for one in request.offsets))
    world.ask(request)


def a_topic_is_deleted(world: World, _: Random) -> None:
    """The topic goes, its offsets with it, and whoever reads it is told."""
    world.ask(remove_topic_offsets(world))
    world.ask(Reconsider(gone_topics=frozenset({"orders"})))


def settings_change(world: World, chance: Random) -> None:
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


def partitions_change(world: World, _: Random) -> None:
    """The catalogue changes under the group."""
    world.change_partitions()


# -- time and nodes ---------------------------------------------------------------------------------------


def a_moment_passes(world: World, chance: Random) -> None:
    """Time passes, hardly any or some."""
    world.advance(chance.choice([1, 500, 2_999, 9_000]))


def something_is_due(world: World, _: Random) -> None:
    """Time passes until a deadline has."""
    world.advance_to_the_next_deadline()


def a_node_is_lost(world: World, _: Random) -> None:
    """Another node takes over."""
    world.lose_the_node()


def the_leader_assigns_to_somebody_who_was_replaced(world: World, chance: Random) -> None:
    """A static member comes back, the node is lost, and the leader, who knows of neither, assigns."""
    a_static_member_comes_back(world, chance)
    world.lose_the_node()
    world.ask(sync(world, world.group.leader_id or "nobody"))


MOVES: tuple[Move, ...] = (
    *[somebody_comes] * 4,
    *[somebody_comes_with_an_id] * 2,
    *[a_handshake_id_comes] * 3,
    *[a_member_comes_again] * 3,
    *[a_member_offers_something_else] * 3,
    *[a_static_member_comes_back] * 3,
    *[all_but_one_come_again] * 4,
    *[somebody_syncs] * 2,
    *[a_follower_syncs] * 4,
    *[the_leader_syncs] * 5,
    *[somebody_beats] * 2,
    *[some_leave] * 2,
    *[somebody_commits] * 3,
    everybody_behaves,
    offsets_are_deleted,
    the_group_is_deleted,
    a_rebalance_is_forced,
    somebody_is_put_out,
    maintenance_sweeps,
    offsets_are_reset,
    a_change_is_taken_back,
    a_topic_is_deleted,
    settings_change,
    partitions_change,
    *[a_moment_passes] * 3,
    *[something_is_due] * 3,
    *[a_node_is_lost] * 2,
    *[the_leader_assigns_to_somebody_who_was_replaced] * 2,
)
"""What may happen, as often as it should."""
