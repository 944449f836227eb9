"""Lists quarantined groups, and reloads one."""

from __future__ import annotations

from muster import display
from muster.commands.http_client import NodeClient, group_path
from muster.commands.output import Table, print_json


def print_quarantined(node: NodeClient, *, as_json: bool) -> None:
    """Print the groups that a node does not serve because their rows cannot be loaded."""
    found = node.get("/v1/quarantined-groups")
    if as_json:
        print_json(found)
    elif found["groups"]:
        table = Table("GROUP", "SHARD", "SINCE", "REASON")
        for each in found["groups"]:
            table.add(each["group_id"], each["shard_id"], each["since"], each["reason"])
        table.print()
    else:
        print("No group is quarantined on this node.")


def reload_group(node: NodeClient, group_id: str, reason: str, *, as_json: bool) -> None:
    """Have a quarantined group loaded again."""
    node.post(group_path(group_id, "/reload"), {"reason": reason})
    if as_json:
        print_json({"group_id": group_id, "change_id": node.change_id})
    else:
        print(f"{display.printable(group_id)} is loaded, and served again.")
