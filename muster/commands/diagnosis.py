"""Prints the diagnosis of a group's last hour."""

from __future__ import annotations

from muster import display
from muster.commands.http_client import Json, NodeClient, group_path


def findings(node: NodeClient, group_id: str) -> list[Json]:
    """Return what stands out in a group's last hour."""
    found: list[Json] = node.get(group_path(group_id, "/diagnosis"))["findings"]
    return found


def print_findings(group_id: str, found: list[Json]) -> None:
    """Print findings, a paragraph each, with the command that sets what would help."""
    for each in found:
        print(f"* {display.printable(each['text'])}")
        if each["value"] is not None:
            print(f"  muster config set {display.group_option(group_id)} {each['setting']}={each['value']}")
