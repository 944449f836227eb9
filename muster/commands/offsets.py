"""`muster offsets`: shows, exports, imports and deletes committed offsets."""

# ruff: noqa: PLC0415, PLR0913, PLR0917 - a command loads only what it needs, and has a parameter for each of its flags

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muster.commands.command_tree import command_group
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

app = command_group("Show, export, import and delete committed offsets.")


class Shown(StrEnum):
    """How offsets are shown."""

    TABLE = "table"
    KAFKA = "kafka"
    CSV = "csv"
    JSON = "json"


class WriteResult(StrEnum):
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
        Shown, typer.Option("--format", help="kafka is the form of __consumer_offsets in Kafka's console consumer.")
    ] = Shown.TABLE,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show committed offsets.

    In a table, LOG-END-OFFSET is the furthest end that is known of the partition, as in groups describe, with ≥ where
    it is out of date.
    """
    from muster.commands.group_selection import GroupSelection
    from muster.commands.http_client import NodeClient
    from muster.commands.offset_lists import committed_of, print_offsets

    node = NodeClient(url)
    chosen = GroupSelection.of(groups, group, is_all=all_groups).groups(node)
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
        Path | None, typer.Option("--to", help="The file to write.", show_default="standard output", metavar="FILE")
    ] = None,
    form: Annotated[
        WriteResult, typer.Option("--format", help="json includes metadata and log end offsets.")
    ] = WriteResult.CSV,
    url: UrlOption = None,
) -> None:
    """Export committed offsets to a file.

    CSV is topic,partition,offset, as kafka-consumer-groups reads it; of several groups each line begins with its group.
    """
    from muster.commands.group_selection import GroupSelection
    from muster.commands.http_client import NodeClient
    from muster.commands.offset_lists import committed_of, require_known, write_offsets

    node = NodeClient(url)
    chosen = GroupSelection.of(groups, group, is_all=all_groups, states=state, prefix=prefix).groups(node)
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

    Topics that the group subscribes to are refused. Deleted offsets are archived; muster changes undo restores them.
    """
    from muster.commands.group_operations import delete_offsets
    from muster.commands.group_selection import one_group
    from muster.commands.http_client import NodeClient

    is_dry_run = dry_run or not execute
    chosen = one_group(group_id, group)
    delete_offsets(NodeClient(url, actor), chosen, topic, reason, is_dry_run=is_dry_run, as_json=as_json)


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

    They are deleted for all groups. Correct the reporter first: the next report sets a new log end. There is
    no undo.
    """
    from muster.commands.http_client import NodeClient
    from muster.commands.log_ends import delete_log_ends as delete

    delete(NodeClient(url, actor), topic, reason, is_dry_run=dry_run or not execute, as_json=as_json)


@app.command("import")
def import_offsets(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A CSV or JSON file; - is standard input.")],
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

    Same as groups reset-offsets --from-file. A file without group ids, as exported from one group, can be imported into
    another group.
    """
    from muster.commands.http_client import NodeClient
    from muster.commands.offset_reset import Target, print_plans, reset_groups, topics_of

    target = Target.of(file=file)
    topics = topics_of(topic, all_topics=False, is_from_file=True)
    is_dry_run = dry_run or not execute
    chosen = target.groups_in_file(group or [])
    node = NodeClient(url, actor)
    plans = reset_groups(node, chosen, target, topics, reason, is_dry_run=is_dry_run, may_create=create)
    print_plans(plans, as_csv=False, as_json=as_json, is_dry_run=is_dry_run)
