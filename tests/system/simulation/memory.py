"""A group in its owner's memory is the group that a take-over would make of what is stored, but for what is forgotten.

Forgotten are handshake ids, who is waiting, timers, newcomers, and what members offered anew in a join phase that is
not over (protocol.md section 13).
"""

from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.states import DEAD, PREPARING
from coordinator_core.runtime.hosting import Hosted
from coordinator_core.store.ledger import spans_to_json
from coordinator_core.store.projection import load_group
from coordinator_core.store.rows import StoredGroup
from tests.system.simulation.stored import Life

ALWAYS = ("generation", "must_rebalance", "subscribed_topics", "topics_version", "protocol_name", "created_at_ms")
SETTLED = ("state", "state_since_ms", "leader_id", "protocol_type", "static_members")
"""What is compared outside of a join phase only: within one, newcomers and their offers are known to memory alone."""


def compare(hosted: Hosted | None, life: Life | None) -> str | None:
    """Return the first difference between memory and store, or None."""
    is_hosted = hosted is not None and hosted.group.exists
    is_stored = life is not None and life.row is not None and life.state is not DEAD
    if is_hosted != is_stored:
        return f"the group is {'' if is_hosted else 'not '}in memory, and {'' if is_stored else 'not '}in the store"
    if not is_hosted or hosted is None or life is None or life.row is None:
        return None
    members = tuple(sorted(life.members.values(), key=lambda row: (row.position, row.member_id)))
    loaded, _, _ = load_group(StoredGroup(life.row, members), life.row.state_since_ms)
    return _difference(hosted.group, loaded, life) or _ledger_difference(hosted, life)


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


def _ledger_difference(hosted: Hosted, life: Life) -> str | None:
    for member_id, row in life.members.items():
        held = spans_to_json(hosted.ledger.held.get(member_id, ()))
        if held != row.held:
            return f"{member_id} holds {held} by the ledger in memory, and {row.held} by the stored one"
    return None
