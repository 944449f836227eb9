"""Deletes groups one by one, or prints what would become of each."""

from __future__ import annotations

from muster.commands.group_selection import DEAD, Outcome, for_each
from muster.commands.http_client import NodeClient, group_path
from muster.commands.output import counted


def delete_groups(node: NodeClient, groups: list[str], reason: str, *, is_dry_run: bool) -> list[Outcome]:
    """Delete each group, or report what would be deleted; one refusal does not stop the others."""

    def act(group_id: str) -> Outcome:
        if is_dry_run:
            return _dry_run_outcome(node, group_id)
        offsets = _offset_count(node, group_id)
        node.delete(group_path(group_id), reason)
        return Outcome(group_id, "deleted", f"{offsets} archived", node.change_id)

    return for_each(groups, act)


def _dry_run_outcome(node: NodeClient, group_id: str) -> Outcome:
    described = node.get(group_path(group_id))
    if described["members"] or described["pending_members"]:
        members = counted(len(described["members"]) + described["pending_members"], "member")
        return Outcome(group_id, "refused", f"the group has {members}; stop them first (NON_EMPTY_GROUP)")
    if described["state"] == DEAD:
        return Outcome(group_id, "refused", "the group is gone already (GROUP_ID_NOT_FOUND)")
    return Outcome(group_id, "would be deleted", f"{_offset_count(node, group_id)} would be archived")


def _offset_count(node: NodeClient, group_id: str) -> str:
    return counted(len(node.get(group_path(group_id, "/offsets"))["offsets"]), "offset")
