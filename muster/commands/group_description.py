"""Prints groups in a list and in full: state, awaited members, diagnosis, members, offsets with lag."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from muster import display
from muster.commands.diagnosis import findings, print_findings
from muster.commands.http_client import ApiError, Json, NodeClient, group_path
from muster.commands.output import Table, counted, moment, print_json
from muster.errors import FAILURE_EXIT_CODE, UserError

PREPARING: Final = "PreparingRebalance"
PARKED: Final = {"join": "joining", "sync": "syncing"}


class DescribedParts(NamedTuple):
    """What of a group is wanted."""

    state: bool
    members: bool
    offsets: bool


def print_list(groups: list[Json], *, as_json: bool) -> None:
    """Print groups, one a line."""
    if as_json:
        print_json({"groups": groups})
        return
    table = Table("GROUP", "STATE", "MEMBERS", "GENERATION", "TYPE", "COORDINATOR")
    for each in groups:
        table.add(
            each["group_id"],
            each["state"],
            each["member_count"],
            each["generation"],
            each["protocol_type"],
            each["coordinator"]["node_id"],
        )
    if groups:
        table.print()
    else:
        print("No matching groups.")


def print_overview(groups: list[Json], *, as_json: bool) -> None:
    """Print groups with what an operator looks for."""
    if as_json:
        print_json({"groups": groups})
        return
    table = Table("GROUP", "STATE", "FOR", "MEMBERS", "LAG", "REBALANCES/H", "LAST TRIGGER", "AGO")
    for each in groups:
        trigger = each["rebalance_trigger"] or each["last_rebalance_trigger"]
        ended = None if each["rebalance_trigger"] else each["last_rebalance_at"]
        lag = display.lag(each["lag"], each["log_end_at"], is_lower_bound=each["is_lag_lower_bound"])
        counts = (each["member_count"], lag, each["rebalances_last_hour"])
        table.add(each["group_id"], each["state"], _since(each["state_since"]), *counts, trigger, _since(ended))
    if groups:
        table.print()
    else:
        print("No matching groups.")


def print_descriptions(
    node: NodeClient, groups: Sequence[str], parts: DescribedParts, *, is_verbose: bool, as_json: bool
) -> None:
    """Print how each group stands.

    Raises:
        UserError: a group is unknown, or the token does not cover it; the others are printed.
    """
    found, refusals = [], []
    for group_id in groups:
        try:
            found.append(_described(node, group_id, parts))
        except ApiError as refusal:
            refusals.append(f"{display.printable(group_id)}: {refusal.sentence}")
    if as_json:
        print_json({"groups": found})
    else:
        for number, described in enumerate(found):
            print("\n" * bool(number), end="")
            _print(described, parts, is_verbose=is_verbose)
    if refusals:
        raise UserError("\nmuster: ".join(refusals), FAILURE_EXIT_CODE)


def _described(node: NodeClient, group_id: str, parts: DescribedParts) -> Json:
    described = node.get(group_path(group_id))
    if parts.state:
        described["findings"] = findings(node, group_id)
    if parts.offsets:
        described["offsets"] = node.get(group_path(group_id, "/lag"))["partitions"]
    return described


def log_end(partition: Json) -> int | str | None:
    """Write the end of a partition's log as `/lag` has it: a lower bound where it is out of date."""
    end: int | None = partition["log_end_offset"]
    return f"≥{end}" if partition["is_log_end_stale"] else end


def print_stale(partitions: list[Json]) -> None:
    """Print how many of these ends are out of date, if any is, and when the oldest was last reported."""
    stale = [each for each in partitions if each["is_log_end_stale"]]
    if stale:
        oldest = min(stale, key=lambda each: each["log_end_at"])
        named = f"{display.printable(oldest['topic'])} {oldest['partition']}"
        print(
            f"The log ends of {counted(len(stale), 'partition')} are out of date: that of {named} was last reported "
            f"{moment(oldest['log_end_at'])} UTC. Log ends and lags are at least as shown."
        )


def owned_count(member: Json) -> int | None:
    """Return how many partitions a member owns, or owned last; None: its assignment cannot be read."""
    owned = member["owned_partitions"]
    return None if owned is None else sum(len(each["partitions"]) for each in owned)


def owned_list(member: Json) -> str:
    """Write the partitions that a member owns, topic by topic."""
    return " ".join(f"{each['topic']}:{','.join(map(str, each['partitions']))}" for each in member["owned_partitions"])


def awaited(member: Json, leader: str | None) -> str | None:
    """Say which request of a member the group waits for; the leader's sync brings the assignment of every member."""
    is_leader = member["missing_request"] == "sync" and member["member_id"] == leader
    return "sync (leader)" if is_leader else member["missing_request"]


# -- for people -------------------------------------------------------------------------------------------


def _print(described: Json, parts: DescribedParts, *, is_verbose: bool) -> None:
    if parts.state:
        _print_state(described)
        print_findings(described["group_id"], described["findings"])
    if parts.members:
        _print_members(described, is_verbose=is_verbose)
    if parts.offsets:
        _print_offsets(described)
    sys.stdout.flush()


def _print_state(described: Json) -> None:
    # The columns of kafka-consumer-groups come first, in its order, in each of these tables.
    headings = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS", "GENERATION", "SINCE")
    since = moment(described["state_since"])
    table = Table(*headings)
    table.add(
        described["group_id"],
        described["coordinator"]["node_id"],
        described["protocol_name"],
        described["state"],
        len(described["members"]),
        described["generation"],
        since and f"{since} UTC",
    )
    table.print()
    for line in awaited_lines(described):
        print(line)


def state_lines(described: Json) -> list[str]:
    """Say in a sentence how a group stands, then which members it waits for and until when."""
    since = moment(described["state_since"])
    facts = [
        described["state"] + (f" since {since} UTC" if since else ""),
        f"generation {described['generation']}",
        described["protocol_name"],
        counted(len(described["members"]), "member"),
        f"on {described['coordinator']['node_id'] or 'no node'}",
    ]
    return [
        f"{display.printable(described['group_id'])}: {', '.join(fact for fact in facts if fact)}",
        *awaited_lines(described),
    ]


def awaited_lines(described: Json) -> list[str]:
    """Say which members a group waits for and until when; nothing where it waits for none."""
    lines = []
    if described["pending_members"]:
        lines.append(f"  {counted(described['pending_members'], 'new member')} with a pending member id")
    if described["waiting_for"]:
        lines.append(f"  waits for {awaited_text(described)}")
    return lines


def awaited_text(described: Json) -> str:
    """Name the awaited members, by client id, host and member id, say what they have to do, and until when."""
    members = {each["member_id"]: each for each in described["members"]}
    named = ", ".join(_member_label(each, members.get(each), described) for each in described["waiting_for"])
    until = described["waiting_until"]
    named += " to join" if described["state"] == PREPARING else " to sync"
    return named + (f" until {moment(until)} UTC{_remaining(until)}" if until else "")


def _member_label(member_id: str, member: Json | None, described: Json) -> str:
    if member is None:
        return display.printable(member_id)
    is_leader = described["state"] != PREPARING and member_id == described["leader"]
    role = ", the leader" if is_leader else ""
    return display.printable(f"{member['client_id']} at {member['client_host'] or '?'} ({member_id}{role})")


def _remaining(until: str) -> str:
    left_s = (dt.datetime.fromisoformat(until) - dt.datetime.now(dt.UTC)).total_seconds()
    return f" ({display.duration(left_s)} from now)" if left_s > 0 else ""


def _print_members(described: Json, *, is_verbose: bool) -> None:
    if not described["members"]:
        print(f"{display.printable(described['group_id'])} has no members.")
        return
    is_static = any(each["group_instance_id"] for each in described["members"])
    table = Table(
        "GROUP",
        "CONSUMER-ID",
        *(["GROUP-INSTANCE-ID"] if is_static else []),
        "HOST",
        "CLIENT-ID",
        "#PARTITIONS",
        *(["ASSIGNMENT"] if is_verbose else []),
        "HEARTBEAT",
        "SESSION-MS",
        "AWAITED",
    )
    for member in described["members"]:
        table.add(
            described["group_id"],
            member["member_id"],
            *([member["group_instance_id"]] if is_static else []),
            member["client_host"],
            member["client_id"],
            owned_count(member),
            *([_assignment(member)] if is_verbose else []),
            _heartbeat(member),
            member["session_timeout_ms"],
            awaited(member, described["leader"]),
        )
    table.print()


def _assignment(member: Json) -> str | None:
    if isinstance(member["assignment"], str):
        return f"base64:{member['assignment']}"
    return owned_list(member) if owned_count(member) else None


def _heartbeat(member: Json) -> str | None:
    """Say when a member was last heard. A parked request is a sign of life: its member does not expire."""
    if member["parked_request"] is not None:
        return f"{PARKED[member['parked_request']]}, waiting"
    return _ago(member["last_heartbeat_at"])


def _ago(at: str | None) -> str | None:
    span = _since(at)
    return None if span is None else f"{span} ago"


def _since(at: str | None) -> str | None:
    """Say how long ago something was."""
    if at is None:
        return None
    return display.duration(max(0.0, (dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(at)).total_seconds()))


def _print_offsets(described: Json) -> None:
    if not described["offsets"]:
        print(f"{display.printable(described['group_id'])} has no committed offsets.")
        return
    hosts = {each["member_id"]: each["client_host"] for each in described["members"]}
    headings = ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID")
    table = Table("GROUP", *headings, "LAG-SECONDS")
    for each in described["offsets"]:
        table.add(
            described["group_id"],
            each["topic"],
            each["partition"],
            each["current_offset"],
            log_end(each),
            display.lag(each["lag"], each["log_end_at"], is_lower_bound=each["is_log_end_stale"]),
            each["member_id"],
            hosts.get(each["member_id"]),
            each["client_id"],
            _seconds(each),
        )
    table.print()
    print_stale(described["offsets"])


def _seconds(partition: Json) -> str | None:
    """Say how far a partition is behind in time; with a sign where it may be more."""
    behind_s = partition["lag_seconds"]
    return None if behind_s is None else f"{'≥' if partition['is_lag_lower_bound'] else ''}{behind_s:.1f}"
