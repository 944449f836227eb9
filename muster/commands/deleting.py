"""Groups are deleted one by one, and what would become of each can be told before."""

from __future__ import annotations

from muster.commands.asking import Node, group_path
from muster.commands.choosing import DEAD, Outcome, for_each
from muster.commands.output import counted


def delete_groups(node: Node, groups: list[str], reason: str, *, is_dry_run: bool) -> list[Outcome]:
    """Delete each group, or tell what that would do; a refusal of one leaves the others alone."""

    def act(group_id: str) -> Outcome:
        if is_dry_run:
            return _would(node, group_id)
        offsets = _offset_count(node, group_id)
        node.delete(group_path(group_id), reason)
        return Outcome(group_id, "deleted", f"{offsets} archived", node.change_id)

    return for_each(groups, act)


def _would(node: Node, group_id: str) -> Outcome:
    described = node.get(group_path(group_id))
    if described["members"] or described["pending_members"]:
        members = counted(len(described["members"]) + described["pending_members"], "member")
        return Outcome(group_id, "refused", f"the group has {members}; stop them first (NON_EMPTY_GROUP)")
    if described["state"] == DEAD:
        return Outcome(group_id, "refused", "the group is gone already (GROUP_ID_NOT_FOUND)")
    return Outcome(group_id, "would be deleted", f"{_offset_count(node, group_id)} would be archived")


def _offset_count(node: Node, group_id: str) -> str:
    return counted(len(node.get(group_path(group_id, "/offsets"))["offsets"]), "offset")
