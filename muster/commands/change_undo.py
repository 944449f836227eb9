"""Undoes a change, and prints what could not be undone."""

from __future__ import annotations

from typing import Final

from muster.commands.config_values import print_unconfirmed
from muster.commands.http_client import Json, NodeClient, segment
from muster.commands.output import Table, counted, print_json

DONE: Final = frozenset({"restored", "removed"})


def undo(node: NodeClient, change_id: str, reason: str, *, as_json: bool) -> None:
    """Take a change back, and print what became of every part of it."""
    answer = node.post(f"/v1/changes/{segment(change_id)}/undo", {"reason": reason})
    if as_json:
        print_json(answer)
        return
    table = Table("WHAT", "OUTCOME", "NOW")
    for what, outcome, now in _parts(answer):
        table.add(what, outcome, now)
    if len(table):
        table.print()
    if answer["offset_count"] > len(answer["offsets"]):
        print(f"... and {answer['offset_count'] - len(answer['offsets'])} more.")
    if answer["run_id"]:
        coming = counted(answer["candidates"], "offset comes", "offsets come")
        print(f"{coming} back by run {answer['run_id']}; muster runs show shows its progress.")
    if not _parts(answer) and not answer["run_id"]:
        print(f"{answer['action']} had taken nothing, so nothing comes back.")
        return
    print_unconfirmed(answer)
    kept = sum(outcome not in DONE for _, outcome, _ in _parts(answer))
    print(f"{answer['action']} is taken back{f', but for {kept} where something newer stands' if kept else ''}.")


def _parts(answer: Json) -> list[tuple[str, str, str | None]]:
    offsets = [
        (f"{each['topic']} {each['partition']}", each["outcome"], _text(each["offset"])) for each in answer["offsets"]
    ]
    settings = [(each["key"], each["outcome"], each["value"]) for each in answer["settings"]]
    topic = answer["topic"]
    return [*offsets, *settings, *([(topic["topic"], topic["outcome"], None)] if topic else [])]


def _text(offset: int | None) -> str | None:
    return None if offset is None else str(offset)
