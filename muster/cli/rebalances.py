"""`muster groups rebalances` and `rebalance`: triggers, durations and slowest members; a rebalance on demand."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Annotated, Final

import typer

from muster import display
from muster.cli.advice import findings, print_findings
from muster.cli.group_selection import one_group
from muster.cli.options import (
    REASON,
    ActorOption,
    GroupArgument,
    GroupOption,
    JsonOption,
    ReasonOption,
    UrlOption,
    WideOption,
)
from muster.display import moment
from muster.node_client import Json, NodeClient, group_path
from muster.output import Table, print_json

MIN_TRIGGERED_REBALANCES: Final = 3
"""The rebalances of one client from which on it is named as their cause."""


def rebalances(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000, help="Maximum number of entries.")] = 10,
    wide: WideOption = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show rebalances, their triggers and slowest members.

    Prints the newest first, with trigger, duration and slowest member.
    """
    print_rebalances(NodeClient(url), one_group(group_id, group), limit, is_wide=wide, as_json=as_json)


def rebalance(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Force a rebalance of a group; there is no undo."""
    node, chosen = NodeClient(url, actor), one_group(group_id, group)
    node.post(group_path(chosen, "/rebalance"), {"reason": reason})
    if as_json:
        print_json({"group_id": chosen, "change_id": node.change_id})
    else:
        print(f"{display.printable(chosen)} rebalances; see muster groups watch. {display.NO_UNDO}")


def print_rebalances(node: NodeClient, group_id: str, limit: int, *, is_wide: bool, as_json: bool) -> None:
    """Print a group's rebalances, the newest first, each with its slowest member."""
    found = node.pages(group_path(group_id, "/rebalances"), "rebalances", limit)
    for each in found:
        each.update(_members(node, group_id, each))
    if as_json:
        print_json({"group_id": group_id, "rebalances": found})
        return
    if not found:
        print(f"{display.printable(group_id)} has not rebalanced, as far as history reaches.")
        return
    headings = ("STARTED", "TOOK", "TRIGGER", "BY", "OUTCOME", "RESTARTS", "MEMBERS", "MOVED", "SLOWEST MEMBER")
    table = Table(*headings, wide_only={"RESTARTS", "MOVED"})
    for each in found:
        table.add(
            moment(each["started_at"]),
            _took(each),
            _trigger(each),
            display.client_id_of(each["trigger_member_id"]),
            each["outcome"] or "under way",
            each["restarts"],
            f"{each['member_count_before']} → {_known(each['member_count_after'])}",
            each["partitions_moved"],
            _slowest(each["waited_for"]),
        )
    table.print(is_wide=is_wide)
    _print_cause(group_id, found)
    print_findings(group_id, findings(node, group_id))


def _print_cause(group_id: str, rebalances: list[Json]) -> None:
    """Print which client triggered most of them, if one did."""
    begun = Counter(
        display.client_id_of(each["trigger_member_id"]) or "" for each in rebalances if each["trigger_member_id"]
    )
    for client_id, number in begun.most_common(1):
        if number >= MIN_TRIGGERED_REBALANCES and 2 * number >= len(rebalances):
            command = f"muster groups sessions {display.group_option(group_id)}"
            print(f"{number} of {len(rebalances)} triggered by {display.printable(client_id)}: {command}")


def _members(node: NodeClient, group_id: str, rebalance: Json) -> Json:
    """Return the members of a rebalance, and the consumers that it waited for; none while it is in progress."""
    if rebalance["completed_at"] is None:
        return {"members": [], "waited_for": []}
    path = group_path(group_id, f"/rebalances/{rebalance['rebalance_id']}/members")
    answer = node.whole(path, "members", "waited_for")
    return {"members": answer["members"], "waited_for": answer["waited_for"]}


def _trigger(rebalance: Json) -> str:
    reason = f": {rebalance['client_reason']}" if rebalance["client_reason"] else ""
    return f"{rebalance['trigger']}{reason}{' (inferred)' if rebalance.get('is_trigger_inferred') else ''}"


def _took(rebalance: Json) -> str:
    """Return the duration of a rebalance; a lower bound if its start is not known."""
    started = dt.datetime.fromisoformat(rebalance["started_at"])
    ended = rebalance["completed_at"]
    until = dt.datetime.now(dt.UTC) if ended is None else dt.datetime.fromisoformat(ended)
    return ("≥ " if rebalance.get("is_start_inferred") else "") + display.precise((until - started).total_seconds())


def _known(number: int | None) -> str:
    return "?" if number is None else str(number)


def _slowest(consumers: list[Json]) -> str | None:
    """Return the client that the rebalance waited for longest, and how long."""
    if not consumers:
        return None
    slowest = consumers[0]
    outcome = "" if slowest["outcome"] == "joined" else f", {slowest['outcome']}"
    return f"{slowest['client_id']} ({display.precise(slowest['waited_for_ms'] / 1000)}{outcome})"
