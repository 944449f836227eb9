"""`muster groups`: lists, describes and deletes groups; other nouns of the command have modules of their own."""

# ruff: noqa: PLR0913, PLR0917 - a command loads only what it needs, and has a parameter for each of its flags

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

import typer

from coordinator_core.protocol.states import GroupState
from muster import display
from muster.cli.advice import findings, print_findings, tuning
from muster.cli.command_tree import command_group
from muster.cli.group_selection import GroupSelection, Outcome, for_each, known_values, one_group, report
from muster.cli.members import remove_member, sessions
from muster.cli.offset_resets import reset_offsets
from muster.cli.options import (
    REASON,
    ActorOption,
    AllGroupsOption,
    DryRunOption,
    ExecuteOption,
    GroupArgument,
    GroupOption,
    GroupsArgument,
    GroupsOption,
    JsonOption,
    PrefixOption,
    ReasonOption,
    StatesOption,
    UrlOption,
    WideOption,
)
from muster.cli.ownership import owners
from muster.cli.quarantine import quarantined, reload
from muster.cli.rebalances import rebalance, rebalances
from muster.cli.watch import watch
from muster.display import counted, moment
from muster.errors import FAILURE_EXIT_CODE, UserError
from muster.node_client import ApiError, Json, NodeClient, group_path
from muster.output import Cell, Table, print_json

SUGGESTED_REMOVALS: Final = 3
"""The maximum number of awaited members whose removal is suggested."""
PARKED: Final = {"join": "joining", "sync": "syncing"}


class Order(StrEnum):
    """The order of an overview."""

    ATTENTION = "attention"
    GROUP_ID = "group_id"
    SINCE = "since"
    MEMBERS = "members"
    LAG = "lag"
    REBALANCES = "rebalances"


LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, help="Maximum number of entries.", show_default="all")
]


def list_groups(
    state: StatesOption = None,
    prefix: PrefixOption = "",
    protocol_type: Annotated[str, typer.Option("--protocol-type", help="Only groups of this protocol type.")] = "",
    limit: LimitOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """List groups with their states.

    Dead groups are listed with --state Dead only.
    """
    node, states = NodeClient(url), list(known_values("--state", GroupState, state))
    found = node.pages("/v1/groups", "groups", limit, state=states, prefix=prefix, protocol_type=protocol_type)
    node.warn_unless_ready()
    columns = ("member_count", "generation", "protocol_type")
    rows = (
        (each["group_id"], _state_now(each), *(each[name] for name in columns), each["coordinator"]["node_id"])
        for each in found
    )
    _print_rows(found, rows, "GROUP", "STATE", "MEMBERS", "GENERATION", "TYPE", "COORDINATOR", as_json=as_json)


def other(limit: LimitOption = None, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """List the share and streams groups of a mirrored cluster.

    Their members and generations are not mirrored.
    """
    found = NodeClient(url).pages("/v1/other-groups", "groups", limit)
    columns = ("group_id", "protocol_type", "state", "state_since", "member_count", "epoch")
    rows = (tuple(each[name] for name in columns) for each in found)
    _print_rows(found, rows, "GROUP", "TYPE", "STATE", "SINCE", "MEMBERS", "EPOCH", as_json=as_json)


def overview(
    search: Annotated[
        str, typer.Option("--search", help="Only groups whose id contains this text.", metavar="TEXT")
    ] = "",
    state: StatesOption = None,
    sort: Annotated[Order, typer.Option("--sort", help="Sort order.")] = Order.ATTENTION,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of entries.")] = 20,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show groups with lag, unhealthy groups first.

    Rebalancing groups come first, then the groups with the most rebalances within the last hour.
    """
    node, states = NodeClient(url), list(known_values("--state", GroupState, state))
    found = node.pages("/v1/overview/groups", "groups", limit, state=states, q=search, sort=sort.value)
    node.warn_unless_ready()
    rows = map(_overview_row, found)
    headings = ("GROUP", "STATE", "FOR", "MEMBERS", "LAG", "REBALANCES/H", "LAST TRIGGER", "AGO")
    _print_rows(found, rows, *headings, as_json=as_json)


def describe(
    groups: GroupsArgument = None,
    group: GroupsOption = None,
    all_groups: AllGroupsOption = False,
    state: Annotated[bool, typer.Option("--state", help="Show only state, awaited members and diagnosis.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Show only members.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Show only offsets, with lag and owner.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the assignment of each member, too.")] = False,
    wide: WideOption = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show state, members, offsets and diagnosis of groups.

    Prints the state with awaited members and the diagnosis of the last hour, the members, and the offsets with lag and
    owner. Flags select some of these sections.
    """
    wanted = (
        DescribedParts(state, members, offsets) if state or members or offsets else DescribedParts(True, True, True)
    )
    node = NodeClient(url)
    chosen = GroupSelection.of(groups, group, is_all=all_groups).groups(node)
    node.warn_unless_ready()
    print_descriptions(node, chosen, wanted, is_verbose=verbose, is_wide=wide, as_json=as_json)


def members(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the assignment of each member, too.")] = False,
    wide: WideOption = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the members of a group."""
    node, chosen = NodeClient(url), one_group(group_id, group)
    only_members = DescribedParts(False, True, False)
    print_descriptions(node, [chosen], only_members, is_verbose=verbose, is_wide=wide, as_json=as_json)


def delete(
    groups: GroupsArgument = None,
    group: GroupsOption = None,
    all_groups: AllGroupsOption = False,
    state: StatesOption = None,
    prefix: PrefixOption = "",
    execute: ExecuteOption = False,
    dry_run: DryRunOption = False,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete groups without members; a dry run without --execute.

    Their offsets are archived, and muster changes undo restores them.
    """
    node = NodeClient(url, actor)
    chosen = GroupSelection.of(groups, group, is_all=all_groups, states=state, prefix=prefix).groups(node)
    is_dry_run = dry_run or not execute
    if is_dry_run:
        node.refuse_on_mirror()
    report(delete_groups(node, chosen, reason, is_dry_run=is_dry_run), as_json=as_json, is_dry_run=is_dry_run)


class DescribedParts(NamedTuple):
    """The parts of a group to print."""

    state: bool
    members: bool
    offsets: bool


def _print_rows(groups: list[Json], rows: Iterable[tuple[Cell, ...]], *headings: str, as_json: bool) -> None:
    """Print groups, one a line."""
    if as_json:
        print_json({"groups": groups})
        return
    table = Table(*headings)
    for row in rows:
        table.add(*row)
    if len(table):
        table.print()
    else:
        print("No matching groups.")


def _overview_row(group: Json) -> tuple[Cell, ...]:
    """Return the cells of a group in the overview."""
    trigger = group["rebalance_trigger"] or group["last_rebalance_trigger"]
    ended = None if group["rebalance_trigger"] else group["last_rebalance_at"]
    lag = display.lag(group["lag"], group["log_end_at"], is_lower_bound=group["is_lag_lower_bound"])
    counts = (group["member_count"], lag, group["rebalances_last_hour"])
    since = display.since(group["state_since"])
    return (group["group_id"], _state_now(group), since, *counts, trigger, display.since(ended))


def _state_now(group: Json) -> str:
    return display.state_now(group["state"], group["rebalances_last_hour"])


def print_descriptions(
    node: NodeClient, groups: Sequence[str], parts: DescribedParts, *, is_verbose: bool, is_wide: bool, as_json: bool
) -> None:
    """Print the requested parts of each group as soon as they are read; JSON at the end.

    Raises:
        UserError: a group is unknown, or the token does not cover it; the others are printed.
    """
    found: list[Json] = []
    refusals = []
    for group_id in groups:
        try:
            described = _described(node, group_id, parts)
        except ApiError as refusal:
            refusals.append(f"{display.printable(group_id)}: {refusal.sentence}")
            continue
        if not as_json:
            print("\n" * bool(found), end="")
            _print(described, parts, is_verbose=is_verbose, is_wide=is_wide, is_one=len(groups) == 1)
        found.append(described)
    if as_json:
        print_json({"groups": found})
    elif not groups:
        print("There are no groups.")
    if refusals:
        raise UserError("\nmuster: ".join(refusals), FAILURE_EXIT_CODE)


def _described(node: NodeClient, group_id: str, parts: DescribedParts) -> Json:
    described = node.whole(group_path(group_id), "members")
    if parts.state:
        # A group's own id is the first of those that begin with it.
        listed = node.pages("/v1/groups", "groups", 1, prefix=group_id)
        is_listed = [each["group_id"] for each in listed] == [group_id]
        described["rebalances_last_hour"] = listed[0]["rebalances_last_hour"] if is_listed else 0
        described["findings"] = findings(node, group_id)
    if parts.offsets:
        described["offsets"] = node.whole(group_path(group_id, "/lag"), "partitions")["partitions"]
    return described


# -- for people -------------------------------------------------------------------------------------------


def _print(described: Json, parts: DescribedParts, *, is_verbose: bool, is_wide: bool, is_one: bool) -> None:
    if parts.state:
        _print_state(described, is_wide=is_wide)
        print_findings(described["group_id"], described["findings"])
    if parts.members:
        _print_members(described, is_verbose=is_verbose, is_wide=is_wide)
    if parts.offsets:
        _print_offsets(described, is_wide=is_wide, is_one=is_one)
    sys.stdout.flush()


def _print_state(described: Json, *, is_wide: bool) -> None:
    # The columns of kafka-consumer-groups come first, in its order, in each of these tables.
    headings = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS", "GENERATION", "SINCE")
    since = moment(described["state_since"])
    table = Table(*headings, wide_only={"GENERATION"})
    table.add(
        described["group_id"],
        described["coordinator"]["node_id"],
        described["protocol_name"],
        _state_now(described),
        len(described["members"]),
        described["generation"],
        since and f"{since} UTC",
    )
    table.print(is_wide=is_wide)
    for line in display.awaited_lines(described):
        print(line)
    group = display.group_option(described["group_id"])
    for member_id in described["waiting_for"][:SUGGESTED_REMOVALS]:
        print(f"  muster groups remove-member {group} --member={display.shell_word(member_id)}")
    if described["waiting_for"]:
        waited = display.since(described["state_since"])
        print(f"  With a rebalance timeout shorter than the {waited} waited, the wait ends at once:")
        print(f"  muster config set {group} rebalance_timeout_ms=MS")


def _print_members(described: Json, *, is_verbose: bool, is_wide: bool) -> None:
    if not described["members"]:
        print(f"{display.printable(described['group_id'])} has no members.")
        return
    is_static = any(each["group_instance_id"] for each in described["members"])
    is_waiting = any(each["missing_request"] for each in described["members"])
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
        wide_only={"CLIENT-ID", "SESSION-MS", *([] if is_waiting else ["AWAITED"])},
    )
    for member in described["members"]:
        table.add(
            described["group_id"],
            member["member_id"],
            *([member["group_instance_id"]] if is_static else []),
            member["client_host"],
            member["client_id"],
            display.owned_count(member),
            *([_assignment(member)] if is_verbose else []),
            _heartbeat(member),
            member["session_timeout_ms"],
            display.awaited(member, described["leader"]),
        )
    table.print(is_wide=is_wide)


def _assignment(member: Json) -> str | None:
    if isinstance(member["assignment"], str):
        return f"base64:{member['assignment']}"
    return display.owned_list(member) if display.owned_count(member) else None


def _heartbeat(member: Json) -> str | None:
    """Return the time since the last heartbeat, or the parked request, during which a session does not expire."""
    if member["parked_request"] is not None:
        return f"{PARKED[member['parked_request']]}, waiting"
    ago = display.since(member["last_heartbeat_at"])
    return ago and f"{ago} ago"


def _print_offsets(described: Json, *, is_wide: bool, is_one: bool) -> None:
    if not described["offsets"]:
        print(f"{display.printable(described['group_id'])} has no committed offsets.")
        return
    hosts = {each["member_id"]: each["client_host"] for each in described["members"]}
    headings = ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID")
    table = Table("GROUP", *headings, "TIME-LAG", wide_only={"CONSUMER-ID", "HOST", *(["GROUP"] if is_one else [])})
    for each in described["offsets"]:
        table.add(
            described["group_id"],
            each["topic"],
            each["partition"],
            each["current_offset"],
            display.log_end(each),
            display.lag(each["lag"], each["log_end_at"], is_lower_bound=each["is_log_end_stale"]),
            each["member_id"],
            hosts.get(each["member_id"]),
            each["client_id"],
            _time_lag(each),
        )
    table.print(is_wide=is_wide)
    display.print_stale(described["offsets"])


def _time_lag(partition: Json) -> str | None:
    """Return the time lag of a partition; a lower bound has a sign."""
    behind_s = partition["lag_seconds"]
    return None if behind_s is None else f"{'≥' if partition['is_lag_lower_bound'] else ''}{display.precise(behind_s)}"


def delete_groups(node: NodeClient, groups: list[str], reason: str, *, is_dry_run: bool) -> list[Outcome]:
    """Delete each group, or report what would be deleted; one refusal does not stop the others."""

    def act(group_id: str) -> Outcome:
        if refusal := _deletion_refusal(node, group_id):
            return Outcome(group_id, "refused", refusal)
        offsets = len(node.pages(group_path(group_id, "/offsets"), "offsets"))
        if is_dry_run:
            return Outcome(group_id, "would be deleted", f"{counted(offsets, 'offset')} would be archived")
        node.delete(group_path(group_id), reason)
        archived = f"{counted(offsets, 'offset')} archived"
        return Outcome(group_id, "deleted", archived, node.change_id, can_undo=offsets > 0)

    return for_each(groups, act)


def _deletion_refusal(node: NodeClient, group_id: str) -> str | None:
    """Return why an existing group cannot be deleted now."""
    described = node.whole(group_path(group_id), "members")
    if described["members"] or described["pending_members"]:
        members = counted(len(described["members"]) + described["pending_members"], "member")
        return f"the group has {members}; stop them first (NON_EMPTY_GROUP)"
    return "the group is already deleted (GROUP_ID_NOT_FOUND)" if described["state"] == GroupState.DEAD else None


app = command_group("List, describe, watch, reset and delete consumer groups.")
COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "list": list_groups,
    "other": other,
    "overview": overview,
    "describe": describe,
    "members": members,
    "rebalances": rebalances,
    "sessions": sessions,
    "owners": owners,
    "tuning": tuning,
    "watch": watch,
    "rebalance": rebalance,
    "quarantined": quarantined,
    "reload": reload,
    "remove-member": remove_member,
    "delete": delete,
    "reset-offsets": reset_offsets,
}
for name, command in COMMANDS.items():
    app.command(name)(command)
