"""`muster groups`: lists and describes groups, explains rebalances, and changes groups."""

# ruff: noqa: PLC0415, PLR0913, PLR0917 - a command loads only what it needs, and has a parameter for each of its flags

from enum import StrEnum
from typing import Annotated

import typer

from muster.commands.command_tree import command_group
from muster.commands.options import (
    REASON,
    ActorOption,
    AllGroupsOption,
    AllTopicsOption,
    ByDurationOption,
    CreateOption,
    DryRunOption,
    ExecuteOption,
    FromFileOption,
    GroupArgument,
    GroupOption,
    GroupsArgument,
    GroupsOption,
    JsonOption,
    PartitionsOption,
    PrefixOption,
    ReasonOption,
    ShiftByOption,
    StatesOption,
    ToCurrentOption,
    ToDatetimeOption,
    ToEarliestOption,
    ToLatestOption,
    ToOffsetOption,
    UrlOption,
)


class Order(StrEnum):
    """What comes first in an overview."""

    ATTENTION = "attention"
    GROUP_ID = "group_id"
    SINCE = "since"
    MEMBERS = "members"
    LAG = "lag"
    REBALANCES = "rebalances"


app = command_group("List, describe, watch, reset and delete consumer groups.")

LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, help="Maximum number of entries.", show_default="all")
]


@app.command("list")
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
    from muster.commands.group_description import print_list
    from muster.commands.group_selection import split
    from muster.commands.http_client import NodeClient

    found = NodeClient(url).pages(
        "/v1/groups", "groups", limit, state=list(split(state)), prefix=prefix, protocol_type=protocol_type
    )
    print_list(found, as_json=as_json)


@app.command()
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
    from muster.commands.group_description import print_overview
    from muster.commands.group_selection import split
    from muster.commands.http_client import NodeClient

    query = {"q": search, "sort": sort.value}
    found = NodeClient(url).pages("/v1/overview/groups", "groups", limit, state=list(split(state)), **query)
    print_overview(found, as_json=as_json)


@app.command()
def describe(
    groups: GroupsArgument = None,
    group: GroupsOption = None,
    all_groups: AllGroupsOption = False,
    state: Annotated[bool, typer.Option("--state", help="Show only state, awaited members and diagnosis.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Show only members.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Show only offsets, with lag and owner.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the assignment of each member, too.")] = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show state, members, offsets and diagnosis of groups.

    Prints the state with awaited members and the diagnosis of the last hour, the members, and the offsets with lag and
    owner. Flags select some of these sections.
    """
    from muster.commands.group_description import DescribedParts, print_descriptions
    from muster.commands.group_selection import GroupSelection
    from muster.commands.http_client import NodeClient

    wanted = (
        DescribedParts(state, members, offsets) if state or members or offsets else DescribedParts(True, True, True)
    )
    node = NodeClient(url)
    chosen = GroupSelection.of(groups, group, is_all=all_groups).groups(node)
    print_descriptions(node, chosen, wanted, is_verbose=verbose, as_json=as_json)


@app.command()
def members(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the assignment of each member, too.")] = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the members of a group."""
    from muster.commands.group_description import DescribedParts, print_descriptions
    from muster.commands.group_selection import one_group
    from muster.commands.http_client import NodeClient

    chosen = one_group(group_id, group)
    print_descriptions(
        NodeClient(url), [chosen], DescribedParts(False, True, False), is_verbose=verbose, as_json=as_json
    )


@app.command()
def rebalances(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000, help="Maximum number of entries.")] = 10,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show rebalances, their triggers and slowest members.

    Prints the newest first, with trigger, duration and slowest member.
    """
    from muster.commands.group_selection import one_group
    from muster.commands.history import print_rebalances
    from muster.commands.http_client import NodeClient

    print_rebalances(NodeClient(url), one_group(group_id, group), limit, as_json=as_json)


@app.command()
def sessions(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum number of entries.")] = 20,
    since: Annotated[
        str | None,
        typer.Option(
            "--from", help="Sessions that ended at or after this time; UTC if it has no zone.", metavar="TIME"
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--to", help="Sessions that ended before this time; UTC if it has no zone.", metavar="TIME"),
    ] = None,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Include the hourly intervals of open sessions.")
    ] = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show member sessions and how they ended.

    Prints the newest first, with the time since the last heartbeat. An evicted member that rejoins at once was alive:
    for those the command suggests a session timeout.
    """
    from muster.commands.group_selection import one_group
    from muster.commands.http_client import NodeClient
    from muster.commands.member_sessions import print_sessions

    chosen = one_group(group_id, group)
    print_sessions(NodeClient(url), chosen, limit, since, until, with_intervals=intervals, as_json=as_json)


@app.command()
def owners(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    at: Annotated[
        str | None,
        typer.Option("--at", help="Point in time; UTC if it has no zone.", show_default="now", metavar="TIME"),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Only this topic or partition, such as orders:7.", metavar="TOPIC[:P]")
    ] = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show partition ownership and offsets at any time."""
    from muster.commands.group_selection import one_group
    from muster.commands.history import print_owners
    from muster.commands.http_client import NodeClient

    print_owners(NodeClient(url), one_group(group_id, group), at, topic, as_json=as_json)


@app.command()
def tuning(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    session_timeout_ms: Annotated[
        int | None, typer.Option("--session-timeout-ms", help="Report what this timeout would have changed.")
    ] = None,
    rebalance_timeout_ms: Annotated[
        int | None, typer.Option("--rebalance-timeout-ms", help="Report what this timeout would have changed.")
    ] = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show timeout advice for a group, from its history.

    With a timeout to try, it reports which evictions it would have avoided, and how much later real failures would
    have been detected. muster config set changes it.
    """
    from muster.commands.group_selection import one_group
    from muster.commands.http_client import NodeClient
    from muster.commands.tuning_advice import print_tuning

    tried = {"session_timeout_ms": session_timeout_ms, "rebalance_timeout_ms": rebalance_timeout_ms}
    print_tuning(NodeClient(url), one_group(group_id, group), tried, as_json=as_json)


@app.command()
def watch(
    groups: GroupsArgument = None,
    group: GroupsOption = None,
    interval: Annotated[float, typer.Option("--interval", min=0.1, help="Seconds between refreshes.")] = 1.0,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="Number of refreshes.", show_default="unlimited")
    ] = None,
    url: UrlOption = None,
) -> None:
    """Watch groups live, with awaited members.

    Without a group it shows rebalancing groups first, a hundred groups at most. Ctrl-C stops it. In
    a pipe it prints a group whenever it changes.
    """
    from muster.commands.group_watch import watch as watch_groups
    from muster.commands.http_client import NodeClient

    chosen = list(dict.fromkeys([*(groups or ()), *(group or ())]))
    watch_groups(NodeClient(url, retry_timeout_s=0), chosen, interval, count)


@app.command()
def rebalance(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Force a rebalance of a group."""
    from muster.commands.group_operations import force_rebalance
    from muster.commands.group_selection import one_group
    from muster.commands.http_client import NodeClient

    force_rebalance(NodeClient(url, actor), one_group(group_id, group), reason, as_json=as_json)


@app.command()
def quarantined(url: UrlOption = None, as_json: JsonOption = False) -> None:
    """List groups whose rows cannot be loaded.

    A node lists the groups of its own shards; muster doctor checks the groups of all shards.
    """
    from muster.commands.http_client import NodeClient
    from muster.commands.quarantine import print_quarantined

    print_quarantined(NodeClient(url), as_json=as_json)


@app.command()
def reload(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reload a quarantined group.

    Repair its rows first. The node refuses if they still cannot be loaded, and if the group is not quarantined.
    """
    from muster.commands.group_selection import one_group
    from muster.commands.http_client import NodeClient
    from muster.commands.quarantine import reload_group

    reload_group(NodeClient(url, actor), one_group(group_id, group), reason, as_json=as_json)


@app.command("remove-member")
def remove_member(
    member: Annotated[
        str, typer.Argument(metavar="MEMBER", help="Member id, or a client id that only one member has.")
    ],
    group: Annotated[str, typer.Option("--group", help="Group of the member.", metavar="GROUP")],
    execute: ExecuteOption = False,
    dry_run: DryRunOption = False,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a member; a dry run without --execute.

    The group rebalances, and the member may join again.
    """
    from muster.commands.group_operations import remove_member as remove
    from muster.commands.http_client import NodeClient

    remove(NodeClient(url, actor), group, member, reason, is_dry_run=dry_run or not execute, as_json=as_json)


@app.command()
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
    from muster.commands.group_deletion import delete_groups
    from muster.commands.group_selection import GroupSelection, report
    from muster.commands.http_client import NodeClient

    node = NodeClient(url, actor)
    chosen = GroupSelection.of(groups, group, is_all=all_groups, states=state, prefix=prefix).groups(node)
    is_dry_run = dry_run or not execute
    report(delete_groups(node, chosen, reason, is_dry_run=is_dry_run), as_json=as_json, is_dry_run=is_dry_run)


@app.command("reset-offsets")
def reset_offsets(
    groups: GroupsArgument = None,
    group: GroupsOption = None,
    all_groups: AllGroupsOption = False,
    state: StatesOption = None,
    prefix: PrefixOption = "",
    topic: PartitionsOption = None,
    all_topics: AllTopicsOption = False,
    to_earliest: ToEarliestOption = False,
    to_latest: ToLatestOption = False,
    to_current: ToCurrentOption = False,
    to_offset: ToOffsetOption = None,
    shift_by: ShiftByOption = None,
    to_datetime: ToDatetimeOption = None,
    by_duration: ByDurationOption = None,
    from_file: FromFileOption = None,
    export: Annotated[bool, typer.Option("--export", help="Print the plan as CSV, for --from-file.")] = False,
    create: CreateOption = False,
    execute: ExecuteOption = False,
    dry_run: DryRunOption = False,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reset committed offsets; a dry run without --execute.

    The group must have no members. The old offsets are archived, and muster changes undo restores them.
    """
    from muster.commands.group_selection import GroupSelection
    from muster.commands.http_client import NodeClient
    from muster.commands.offset_reset import Target, print_plans, reset_groups, topics_of

    target = Target.of(
        earliest=to_earliest,
        latest=to_latest,
        current=to_current,
        offset=to_offset,
        shift=shift_by,
        datetime=to_datetime,
        duration=by_duration,
        file=from_file,
    )
    topics = topics_of(topic, all_topics=all_topics, is_from_file=from_file is not None)
    node = NodeClient(url, actor)
    is_dry_run = dry_run or export or not execute
    if from_file is None:
        chosen = GroupSelection.of(groups, group, is_all=all_groups, states=state, prefix=prefix).groups(node)
    else:
        chosen = target.groups_in_file([*(groups or ()), *(group or ())])
    plans = reset_groups(node, chosen, target, topics, reason, is_dry_run=is_dry_run, may_create=create)
    print_plans(plans, as_csv=export, as_json=as_json, is_dry_run=is_dry_run)
