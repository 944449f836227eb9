"""`muster groups quarantined` and `reload`: groups that are not served because of their rows."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.cli.group_selection import GroupSelection, Outcome, for_each, report
from muster.cli.options import (
    REASON,
    ActorOption,
    GroupsArgument,
    GroupsOption,
    JsonOption,
    ReasonOption,
    UrlOption,
)
from muster.node_client import NodeClient, group_path
from muster.output import Table, print_json


def quarantined(url: UrlOption = None, as_json: JsonOption = False) -> None:
    """List groups that are not served because of their rows.

    Stored rows cannot be loaded, the database refuses new ones, or requests violate an invariant. A node lists the
    groups of its own shards; muster doctor checks the stored rows of all shards.
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
    groups: GroupsArgument = None,
    group: GroupsOption = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="All quarantined groups of this node.")] = False,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reload quarantined groups.

    Repair their rows first, or remove what else is the cause. A group is refused if its rows still cannot be loaded,
    and if it is not quarantined.
    """
    node, selection = NodeClient(url, actor), GroupSelection.of(groups, group, is_all=all_groups)
    if selection.is_all:
        chosen = [each["group_id"] for each in node.whole("/v1/quarantined-groups", "groups")["groups"]]
    else:
        chosen = selection.groups(node)

    def act(group_id: str) -> Outcome:
        node.post(group_path(group_id, "/reload"), {"reason": reason})
        return Outcome(group_id, "reloaded", "served again", node.change_id)

    report(for_each(chosen, act), as_json=as_json, is_dry_run=False)
