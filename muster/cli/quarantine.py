"""`muster groups quarantined` and `reload`: groups that are not served because of their rows."""

from __future__ import annotations

from muster import display
from muster.cli.group_selection import one_group
from muster.cli.options import (
    REASON,
    ActorOption,
    GroupArgument,
    GroupOption,
    JsonOption,
    ReasonOption,
    UrlOption,
)
from muster.node_client import NodeClient, group_path
from muster.output import Table, print_json


def quarantined(url: UrlOption = None, as_json: JsonOption = False) -> None:
    """List groups that are not served because of their rows.

    Stored rows cannot be loaded, or the database refuses new ones. A node lists the groups of its own shards; muster
    doctor checks the stored rows of all shards.
    """
    found = NodeClient(url).whole("/v1/quarantined-groups", "groups")
    if as_json:
        print_json(found)
    elif found["groups"]:
        table = Table("GROUP", "SHARD", "SINCE", "REASON")
        for each in found["groups"]:
            table.add(each["group_id"], each["shard_id"], each["since"], each["reason"])
        table.print()
    else:
        print("No group is quarantined on this node.")


def reload(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reload a quarantined group.

    Repair its rows first, or remove what else is the cause. The node refuses if the rows still cannot be loaded, and
    if the group is not quarantined.
    """
    node, chosen = NodeClient(url, actor), one_group(group_id, group)
    node.post(group_path(chosen, "/reload"), {"reason": reason})
    if as_json:
        print_json({"group_id": chosen, "change_id": node.change_id})
    else:
        print(f"{display.printable(chosen)} is loaded, and served again.")
