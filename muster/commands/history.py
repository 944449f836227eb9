"""Prints rebalances of a group: trigger, duration, slowest member."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Final

from muster import display
from muster.commands.argument_parsing import instant, one_partition, topic_and_partitions
from muster.commands.diagnosis import findings, print_findings
from muster.commands.http_client import Json, NodeClient, group_path
from muster.commands.output import Table, moment, print_json
from muster.member_names import client_id_of

MIN_TRIGGERED_REBALANCES: Final = 3
"""How many rebalances of one member's are no chance."""


def print_rebalances(node: NodeClient, group_id: str, limit: int, *, as_json: bool) -> None:
    """Print a group's rebalances, the newest first, each with the member that held it up."""
    found = node.pages(group_path(group_id, "/rebalances"), "rebalances", limit)
    for each in found:
        each.update(_members(node, group_id, each))
    if as_json:
        print_json({"group_id": group_id, "rebalances": found})
        return
    if not found:
        print(f"{display.printable(group_id)} has not rebalanced, as far as history reaches.")
        return
    table = Table("STARTED", "TOOK", "TRIGGER", "BY", "OUTCOME", "RESTARTS", "MEMBERS", "MOVED", "SLOWEST MEMBER")
    for each in found:
        table.add(
            moment(each["started_at"]),
            _took(each),
            each["trigger"] + (f": {each['client_reason']}" if each["client_reason"] else ""),
            client_id_of(each["trigger_member_id"]),
            each["outcome"] or "under way",
            each["restarts"],
            f"{each['member_count_before']} → {_known(each['member_count_after'])}",
            each["partitions_moved"],
            _slowest(each["waited_for"]),
        )
    table.print()
    _print_cause(group_id, found)
    print_findings(group_id, findings(node, group_id))


def _print_cause(group_id: str, rebalances: list[Json]) -> None:
    """Say which client began most of them, where one stands out."""
    begun = Counter(client_id_of(each["trigger_member_id"]) or "" for each in rebalances if each["trigger_member_id"])
    for client_id, number in begun.most_common(1):
        if number >= MIN_TRIGGERED_REBALANCES and 2 * number >= len(rebalances):
            command = f"muster groups sessions {display.group_option(group_id)}"
            print(f"{number} of {len(rebalances)} triggered by {display.printable(client_id)}: {command}")


def print_owners(node: NodeClient, group_id: str, at: str | None, topic: str | None, *, as_json: bool) -> None:
    """Print who owned which partitions at a moment, and what was committed there by then.

    Raises:
        UserError: the time or the topic cannot be read, or the node refuses.
    """
    query: dict[str, str | int | None] = {"at": None if at is None else instant(at, "--at").isoformat()}
    if topic is not None:
        named = topic_and_partitions(topic)
        query |= {"topic": named["topic"], "partition": one_partition(named)}
    answer = node.get(group_path(group_id, "/ownership"), **query)
    if as_json:
        print_json(answer)
        return
    owners = {(one["topic"], number): one for one in answer["ownership"] for number in one["partitions"]}
    committed = {(one["topic"], one["partition"]): one for one in answer["offsets"]}
    table = Table("TOPIC", "PARTITION", "OWNER", "FROM", "UNTIL", "COMMITTED", "AT", "LOG-END-OFFSET")
    for key in sorted(owners.keys() | committed.keys()):
        owner, position = owners.get(key, {}), committed.get(key, {})
        span = (owner.get("member_id"), moment(owner.get("valid_from")), moment(owner.get("valid_to")))
        table.add(
            *key, *span, position.get("offset"), moment(position.get("committed_at")), position.get("log_end_offset")
        )
    if len(table):
        table.print()
    else:
        print("No ownership and no committed offsets at this time.")


def _members(node: NodeClient, group_id: str, rebalance: Json) -> Json:
    """Return the members of a rebalance and the consumers that it waited for; of one under way, none."""
    if rebalance["completed_at"] is None:
        return {"members": [], "waited_for": []}
    answer = node.get(group_path(group_id, f"/rebalances/{rebalance['rebalance_id']}/members"))
    return {"members": answer["members"], "waited_for": answer["waited_for"]}


def _took(rebalance: Json) -> str:
    started = dt.datetime.fromisoformat(rebalance["started_at"])
    ended = rebalance["completed_at"]
    until = dt.datetime.now(dt.UTC) if ended is None else dt.datetime.fromisoformat(ended)
    return precise((until - started).total_seconds())


def _known(number: int | None) -> str:
    return "?" if number is None else str(number)


def _slowest(consumers: list[Json]) -> str | None:
    """Return the client that the rebalance waited for longest, and how long."""
    if not consumers:
        return None
    slowest = consumers[0]
    outcome = "" if slowest["outcome"] == "joined" else f", {slowest['outcome']}"
    return f"{slowest['client_id']} ({precise(slowest['waited_for_ms'] / 1000)}{outcome})"


def precise(seconds: float) -> str:
    """Say how long something took; short times to the millisecond."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if round(seconds, 1) < display.MINUTE_S else display.duration(seconds)
