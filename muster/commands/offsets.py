"""`muster offsets`: what is committed, on the screen, in Kafka's own words, and in files."""

# ruff: noqa: PLC0415, PLR0913, PLR0917 - a command loads only what it needs, and has a parameter for each of its flags

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muster.commands.options import (
    REASON,
    ActorOption,
    AllGroupsOption,
    CreateOption,
    DryRunOption,
    ExecuteOption,
    GroupArgument,
    GroupOption,
    GroupsArgument,
    GroupsOption,
    JsonOption,
    PrefixOption,
    ReasonOption,
    RequiredPartitionsOption,
    StatesOption,
    UrlOption,
)
from muster.commands.tree import command_group

app = command_group("Show committed offsets; take them into a file and back.")


class Shown(StrEnum):
    """How offsets are shown."""

    TABLE = "table"
    KAFKA = "kafka"
    CSV = "csv"
    JSON = "json"


class Written(StrEnum):
    """How offsets are written into a file."""

    CSV = "csv"
    JSON = "json"


TopicsOption = Annotated[
    list[str] | None, typer.Option("--topic", help="Only this topic; repeatable.", metavar="TOPIC")
]


@app.command()
def show(
    groups: GroupsArgument = None,
    group: GroupsOption = None,
    all_groups: AllGroupsOption = False,
    topic: TopicsOption = None,
    form: Annotated[
        Shown, typer.Option("--format", help="kafka: as its console consumer prints __consumer_offsets.")
    ] = Shown.TABLE,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what groups have committed.

    In a table, LOG-END-OFFSET is the furthest end that is known of the partition, as in groups describe, with ≥ where
    it is out of date.
    """
    from muster.commands.asking import Node
    from muster.commands.choosing import Choice
    from muster.commands.offset_lists import committed_of, print_offsets

    node = Node(url)
    chosen = Choice.of(groups, group, is_all=all_groups).groups(node)
    print_offsets(node, committed_of(node, chosen, topic or []), Shown.JSON if as_json else form)


@app.command()
def export(
    groups: GroupsArgument = None,
    group: GroupsOption = None,
    all_groups: AllGroupsOption = False,
    state: StatesOption = None,
    prefix: PrefixOption = "",
    topic: TopicsOption = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="The file to write.", show_default="the standard output", metavar="FILE")
    ] = None,
    form: Annotated[Written, typer.Option("--format", help="json keeps metadata and log ends as well.")] = Written.CSV,
    url: UrlOption = None,
) -> None:
    """Write what groups have committed into a file.

    CSV is topic,partition,offset, as kafka-consumer-groups reads it; of several groups each line begins with its group.
    """
    from muster.commands.asking import Node
    from muster.commands.choosing import Choice
    from muster.commands.offset_lists import committed_of, require_known, write_offsets

    node = Node(url)
    chosen = Choice.of(groups, group, is_all=all_groups, states=state, prefix=prefix).groups(node)
    committed = committed_of(node, chosen, topic or [])
    require_known(node, committed)
    write_offsets(committed, to, form)


@app.command()
def delete(
    topic: RequiredPartitionsOption,
    group_id: GroupArgument = None,
    group: GroupOption = None,
    execute: ExecuteOption = False,
    dry_run: DryRunOption = False,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete offsets of a group; a dry run without --execute.

    A topic that a live group reads is refused. What goes is archived, and muster changes undo brings it back.
    """
    from muster.commands.acting import delete_offsets
    from muster.commands.asking import Node
    from muster.commands.choosing import one_group

    is_dry_run = dry_run or not execute
    chosen = one_group(group_id, group)
    delete_offsets(Node(url, actor), chosen, topic, reason, is_dry_run=is_dry_run, as_json=as_json)


@app.command("delete-log-ends")
def delete_log_ends(
    topic: RequiredPartitionsOption,
    execute: ExecuteOption = False,
    dry_run: DryRunOption = False,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete wrong log ends; a dry run without --execute.

    They go for all groups. Correct the reporter first: the next report of a partition's end begins anew, and there is
    no undo.
    """
    from muster.commands.asking import Node
    from muster.commands.log_ends import delete_log_ends as delete

    delete(Node(url, actor), topic, reason, is_dry_run=dry_run or not execute, as_json=as_json)


@app.command("import")
def import_offsets(
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV or JSON; - is the standard input.")],
    group: GroupsOption = None,
    topic: TopicsOption = None,
    create: CreateOption = False,
    execute: ExecuteOption = False,
    dry_run: DryRunOption = False,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import offsets from FILE; a dry run without --execute.

    It is groups reset-offsets --from-file. A file of one group's offsets, which names no group, can so be copied to
    another one.
    """
    from muster.commands.asking import Node
    from muster.commands.resetting import Target, print_plans, reset_groups, topics_of

    target = Target.of(file=file)
    topics = topics_of(topic, all_topics=False, is_from_file=True)
    is_dry_run = dry_run or not execute
    chosen = target.groups_in_file(group or [])
    node = Node(url, actor)
    plans = reset_groups(node, chosen, target, topics, reason, is_dry_run=is_dry_run, may_create=create)
    print_plans(plans, as_csv=False, as_json=as_json, is_dry_run=is_dry_run)
