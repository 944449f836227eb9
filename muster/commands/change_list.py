"""Prints changes: one line each in a list, and one in full."""

from __future__ import annotations

import json

from muster import display
from muster.commands.http_client import Json, NodeClient, segment
from muster.commands.output import Table, moment, print_json


def print_changes(node: NodeClient, group_id: str | None, limit: int, *, as_json: bool) -> None:
    """Print the newest changes."""
    found = node.pages("/v1/changes", "changes", limit, group_id=group_id)
    if as_json:
        print_json({"changes": found})
        return
    if not found:
        print("No changes.")
        return
    table = Table("AT", "ACTOR", "ACTION", "GROUP", "REASON", "UNDONE", "CHANGE")
    for each in found:
        what = (each["actor"], each["action"], each["group_id"], each["reason"])
        table.add(moment(each["at"]), *what, moment(each["undone_at"]), each["change_id"])
    table.print()


def print_change(node: NodeClient, change_id: str, *, as_json: bool) -> None:
    """Print one change in full."""
    change: Json = node.get(f"/v1/changes/{segment(change_id)}")
    if as_json:
        print_json(change)
        return
    for name, value in change.items():
        if value is None:
            continue
        text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
        print(f"{name}: {chr(10).join(display.printable(line) for line in text.splitlines())}")
