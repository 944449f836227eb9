"""Compare a group in memory with the group that the next owner would load, except for what a load forgets.

Forgotten are pending member ids, parked requests, timers, new members, and protocols that members offered in the join
phase under way (protocol.md section 13).
"""

from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.states import DEAD, PREPARING
from coordinator_core.runtime.group_context import GroupContext
from coordinator_core.state_store.ledger import ownership_to_json
from coordinator_core.state_store.projection import load_group
from coordinator_core.state_store.rows import StoredGroup
from tests.system.simulation.stored import Life

ALWAYS = ("generation", "must_rebalance", "subscribed_topics", "topics_version", "protocol_name", "created_at_ms")
SETTLED = ("state", "state_since_ms", "leader_id", "protocol_type", "static_members")
"""What is compared outside of a join phase only: within one, newcomers and their offers are known to memory alone."""


def compare(group_context: GroupContext | None, life: Life | None) -> str | None:
    """Return the first difference between memory and store, or None."""
    is_hosted = group_context is not None and group_context.group.exists
    is_stored = life is not None and life.row is not None and life.state is not DEAD
    if is_hosted != is_stored:
        return f"the group is {'' if is_hosted else 'not '}in memory, and {'' if is_stored else 'not '}in the store"
    if not is_hosted or group_context is None or life is None or life.row is None:
        return None
    members = tuple(sorted(life.members.values(), key=lambda row: (row.join_order, row.member_id)))
    stored = StoredGroup(life.row, members)
    if life.loaded is None or life.loaded[0] != stored:
        life.loaded = stored, load_group(stored, life.row.state_since_ms)[0]
    return _difference(group_context.group, life.loaded[1], life) or _ledger_difference(group_context, life)


def _difference(group: Group, loaded: Group, life: Life) -> str | None:
    if group.state != life.state:
        return f"it is {group.state} in memory, and {life.state} in the store"
    is_settled = group.state is not PREPARING
    for name in (*ALWAYS, *(SETTLED if is_settled else ())):
        ours, theirs = getattr(group, name), getattr(loaded, name)
        if ours != theirs:
            return f"{name} is {ours!r} in memory, and {theirs!r} from the store"
    ours_by_id = {one.member_id: one for one in group.members.values() if one.in_generation}
    if list(ours_by_id) != list(loaded.members):
        return f"members are {list(ours_by_id)} in memory, and {list(loaded.members)} from the store"
    for member_id, member in ours_by_id.items():
        if _facts(member, is_settled=is_settled) != _facts(loaded.members[member_id], is_settled=is_settled):
            return f"member {member_id} is {member!r} in memory, and {loaded.members[member_id]!r} from the store"
    return None


def _facts(member: Member, *, is_settled: bool) -> tuple[object, ...]:
    lasting = (member.group_instance_id, member.assignment, member.joined_at_ms, member.client_id)
    offered = (member.session_timeout_ms, member.rebalance_timeout_ms, member.protocols)
    return (*lasting, *offered) if is_settled else lasting


def _ledger_difference(group_context: GroupContext, life: Life) -> str | None:
    for member_id, row in life.members.items():
        held = ownership_to_json(group_context.ledger.ownership.get(member_id, ()))
        if held != row.ownership:
            return f"{member_id} holds {held} by the ledger in memory, and {row.ownership} by the stored one"
    return None
