"""The diagnosis of a group's last hour: the node's findings, as the console shows them too."""

from __future__ import annotations

from muster import wording
from muster.commands.asking import Json, Node, group_path


def findings(node: Node, group_id: str) -> list[Json]:
    """Return what stands out in a group's last hour."""
    found: list[Json] = node.get(group_path(group_id, "/diagnosis"))["findings"]
    return found


def print_findings(group_id: str, found: list[Json]) -> None:
    """Print findings, a paragraph each, with the command that sets what would help."""
    for each in found:
        print(f"* {wording.name(each['text'])}")
        if each["value"] is not None:
            print(f"  muster config set {wording.group_option(group_id)} {each['setting']}={each['value']}")
