"""`muster groups`: what groups there are, how they stand, why they rebalance, and what an operator can do to them."""

# ruff: noqa: PLC0415, PLR0913, PLR0917 - a command loads only what it needs, and has a parameter for each of its flags

from enum import StrEnum
from typing import Annotated

import typer

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
from muster.commands.tree import command_group


class Order(StrEnum):
    """What comes first in an overview."""

    ATTENTION = "attention"
    GROUP_ID = "group_id"
    SINCE = "since"
    MEMBERS = "members"
    LAG = "lag"
    REBALANCES = "rebalances"


app = command_group("List, describe, watch, reset, delete; why groups rebalance.")

LimitOption = Annotated[int | None, typer.Option("--limit", min=1, help="So many at most.", show_default="all")]


@app.command("list")
def list_groups(
    state: StatesOption = None,
    prefix: PrefixOption = "",
    protocol_type: Annotated[str, typer.Option("--protocol-type", help="Only groups of this type.")] = "",
    limit: LimitOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """List groups with their states.

    Dead groups are listed with --state Dead only.
    """
    from muster.commands.asking import Node
    from muster.commands.choosing import split
    from muster.commands.describing import print_list

    found = Node(url).pages(
        "/v1/groups", "groups", limit, state=list(split(state)), prefix=prefix, protocol_type=protocol_type
    )
    print_list(found, as_json=as_json)


@app.command()
def overview(
    search: Annotated[str, typer.Option("--search", help="Only groups whose id holds this.", metavar="TEXT")] = "",
    state: StatesOption = None,
    sort: Annotated[Order, typer.Option("--sort", help="What comes first.")] = Order.ATTENTION,
    limit: Annotated[int, typer.Option("--limit", min=1, help="So many at most.")] = 20,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show groups with lag, those in trouble first.

    Those that are not settled come first, then those that rebalanced most often within the last hour.
    """
    from muster.commands.asking import Node
    from muster.commands.choosing import split
    from muster.commands.describing import print_overview

    query = {"q": search, "sort": sort.value}
    found = Node(url).pages("/v1/overview/groups", "groups", limit, state=list(split(state)), **query)
    print_overview(found, as_json=as_json)


@app.command()
def describe(
    groups: GroupsArgument = None,
    group: GroupsOption = None,
    all_groups: AllGroupsOption = False,
    state: Annotated[bool, typer.Option("--state", help="Only the state, awaited members and diagnosis.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Only the members.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Only the offsets, with lag and owner.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show what each member is assigned, too.")] = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how groups stand, and what is wrong with them.

    That is the state with awaited members and the diagnosis of the last hour, the members, and the offsets with lag and
    owner, unless a flag chooses among them.
    """
    from muster.commands.asking import Node
    from muster.commands.choosing import Choice
    from muster.commands.describing import Parts, print_descriptions

    wanted = Parts(state, members, offsets) if state or members or offsets else Parts(True, True, True)
    node = Node(url)
    chosen = Choice.of(groups, group, is_all=all_groups).groups(node)
    print_descriptions(node, chosen, wanted, is_verbose=verbose, as_json=as_json)


@app.command()
def members(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show what each is assigned, too.")] = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a group's members."""
    from muster.commands.asking import Node
    from muster.commands.choosing import one_group
    from muster.commands.describing import Parts, print_descriptions

    chosen = one_group(group_id, group)
    print_descriptions(Node(url), [chosen], Parts(False, True, False), is_verbose=verbose, as_json=as_json)


@app.command()
def rebalances(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000, help="So many at most.")] = 10,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show why a group rebalanced, who held it up.

    The newest comes first, with what began it, how long it took, and the member that was waited for longest.
    """
    from muster.commands.asking import Node
    from muster.commands.choosing import one_group
    from muster.commands.history import print_rebalances

    print_rebalances(Node(url), one_group(group_id, group), limit, as_json=as_json)


@app.command()
def stays(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="So many at most.")] = 20,
    since: Annotated[
        str | None, typer.Option("--from", help="Ended then or later; without a zone it is UTC.", metavar="TIME")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="Ended before then; without a zone it is UTC.", metavar="TIME")
    ] = None,
    hours: Annotated[bool, typer.Option("--hours", help="Show the hours of stays that go on, too.")] = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how members' stays ended, and who was back at once.

    The newest comes first, with how long the member had been silent. Who was put out and is back at once was alive: for
    those it says which session timeout to try.
    """
    from muster.commands.asking import Node
    from muster.commands.choosing import one_group
    from muster.commands.stays import print_stays

    chosen = one_group(group_id, group)
    print_stays(Node(url), chosen, limit, since, until, with_hours=hours, as_json=as_json)


@app.command()
def owners(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    at: Annotated[
        str | None, typer.Option("--at", help="When; without a zone it is UTC.", show_default="now", metavar="TIME")
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Only a topic, or a partition of it: orders:7.", metavar="TOPIC[:P]")
    ] = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show who owned what at any time, with offsets."""
    from muster.commands.asking import Node
    from muster.commands.choosing import one_group
    from muster.commands.history import print_owners

    print_owners(Node(url), one_group(group_id, group), at, topic, as_json=as_json)


@app.command()
def tuning(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    session_timeout_ms: Annotated[
        int | None, typer.Option("--session-timeout-ms", help="Say what this one would have done.")
    ] = None,
    rebalance_timeout_ms: Annotated[
        int | None, typer.Option("--rebalance-timeout-ms", help="Say what this one would have done.")
    ] = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which timeouts a group should have, by its own past.

    With a timeout to try, it says which members would not have been put out, and how much later real failures would
    have been seen. muster config set changes it.
    """
    from muster.commands.advising import print_tuning
    from muster.commands.asking import Node
    from muster.commands.choosing import one_group

    tried = {"session_timeout_ms": session_timeout_ms, "rebalance_timeout_ms": rebalance_timeout_ms}
    print_tuning(Node(url), one_group(group_id, group), tried, as_json=as_json)


@app.command()
def watch(
    groups: GroupsArgument = None,
    group: GroupsOption = None,
    interval: Annotated[float, typer.Option("--interval", min=0.1, help="Seconds from look to look.")] = 1.0,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Look so often.", show_default="for ever")] = None,
    url: UrlOption = None,
) -> None:
    """Watch groups live; says who is waited for. Ctrl-C ends it.

    Without a group it shows those that are not settled and others, a hundred at most, and says when there are more. In
    a pipe it prints a group whenever it has changed.
    """
    from muster.commands.asking import Node
    from muster.commands.watching import watch as watch_groups

    chosen = list(dict.fromkeys([*(groups or ()), *(group or ())]))
    watch_groups(Node(url, patience_s=0), chosen, interval, count)


@app.command()
def rebalance(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a group rebalance."""
    from muster.commands.acting import force_rebalance
    from muster.commands.asking import Node
    from muster.commands.choosing import one_group

    force_rebalance(Node(url, actor), one_group(group_id, group), reason, as_json=as_json)


@app.command()
def quarantined(url: UrlOption = None, as_json: JsonOption = False) -> None:
    """List groups whose rows cannot be loaded.

    A node lists the groups of its own shards; muster doctor checks the groups of all shards.
    """
    from muster.commands.asking import Node
    from muster.commands.quarantine import print_quarantined

    print_quarantined(Node(url), as_json=as_json)


@app.command()
def reload(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load a quarantined group again.

    Repair its rows first. The node refuses if they still cannot be loaded, and if the group is not quarantined.
    """
    from muster.commands.asking import Node
    from muster.commands.choosing import one_group
    from muster.commands.quarantine import reload_group

    reload_group(Node(url, actor), one_group(group_id, group), reason, as_json=as_json)


@app.command("remove-member")
def remove_member(
    member: Annotated[str, typer.Argument(metavar="MEMBER", help="Its id, or its client id if it is the only one.")],
    group: Annotated[str, typer.Option("--group", help="Its group.", metavar="GROUP")],
    execute: ExecuteOption = False,
    dry_run: DryRunOption = False,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a member; a dry run without --execute.

    It is as if it had left: the group rebalances, and it may join again.
    """
    from muster.commands.acting import remove_member as remove
    from muster.commands.asking import Node

    remove(Node(url, actor), group, member, reason, is_dry_run=dry_run or not execute, as_json=as_json)


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

    Their offsets go to the archive, and muster changes undo brings them back.
    """
    from muster.commands.asking import Node
    from muster.commands.choosing import Choice, report
    from muster.commands.deleting import delete_groups

    node = Node(url, actor)
    chosen = Choice.of(groups, group, is_all=all_groups, states=state, prefix=prefix).groups(node)
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
    """Move groups to other offsets; a dry run without --execute.

    A group must have no members. What stood there goes to the archive, and muster changes undo brings it back.
    """
    from muster.commands.asking import Node
    from muster.commands.choosing import Choice
    from muster.commands.resetting import Target, print_plans, reset_groups, topics_of

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
    node = Node(url, actor)
    is_dry_run = dry_run or export or not execute
    if from_file is None:
        chosen = Choice.of(groups, group, is_all=all_groups, states=state, prefix=prefix).groups(node)
    else:
        chosen = target.groups_in_file([*(groups or ()), *(group or ())])
    plans = reset_groups(node, chosen, target, topics, reason, is_dry_run=is_dry_run, may_create=create)
    print_plans(plans, as_csv=export, as_json=as_json, is_dry_run=is_dry_run)
