"""`muster topics`: lists, sets and deletes topic metadata."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from muster import display
from muster.cli.command_tree import command_group
from muster.cli.group_selection import DRY_RUN_NOTE
from muster.cli.options import REASON, ActorOption, DryRunOption, ExecuteOption, JsonOption, ReasonOption, UrlOption
from muster.display import counted, moment
from muster.errors import FAILURE_EXIT_CODE, UserError
from muster.node_client import NOT_FOUND, ApiError, Json, NodeClient, segment
from muster.output import Table, print_json

app = command_group("List, show, set and delete topic metadata.")

TOPICS: Final = "/v1/topics"
PARTITIONS_MAX: Final = 10_000
"""The maximum number of partitions of a topic that a node describes."""

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", show_default=False)]


@app.command("list")
def list_topics(url: UrlOption = None, as_json: JsonOption = False) -> None:
    """List topics with their partition counts.

    Topics without metadata are not listed.
    """
    found = NodeClient(url).whole(TOPICS, "topics")
    if as_json:
        print_json(found)
    elif found["topics"]:
        table = Table("TOPIC", "PARTITIONS", "LOG-START-OFFSET")
        for each in found["topics"]:
            table.add(each["topic"], each["partitions"], each["log_start_offset"])
        table.print()
    else:
        print("No topic has metadata.")


@app.command()
def show(topic: TopicArgument, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Show the partitions of a topic, with log start and log end.

    LOG-END-OFFSET is the furthest end that was reported, as in groups describe.
    """
    node = NodeClient(url)
    found = _existing(node, topic)
    count, log_start = found["partition_count"], found["log_start_offset"]
    ends = [
        {"partition": each["partition"], "log_end_offset": each["log_end_offset"], "reported_at": each["log_end_at"]}
        for each in found["partitions"]
        if each["log_end_offset"] is not None
    ]
    if as_json:
        print_json({"topic": topic, "partitions": count, "log_start_offset": log_start, "log_ends": ends})
        return
    by_partition = {each["partition"]: each for each in ends}
    table = Table("PARTITION", "LOG-START-OFFSET", "LOG-END-OFFSET", "REPORTED")
    for partition in sorted({*range(min(count, PARTITIONS_MAX)), *by_partition}):
        end = by_partition.get(partition, {})
        start = log_start if partition < count else None
        table.add(partition, start, end.get("log_end_offset"), moment(end.get("reported_at")))
    table.print()
    if count > PARTITIONS_MAX:
        print(f"These are the first {PARTITIONS_MAX:,} of {count:,} partitions.")


@app.command("set")
def set_topic(
    topic: TopicArgument,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="Number of partitions.", metavar="N")],
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set the partition count of a topic, which may be new.

    A higher count rebalances the groups that read the topic. A lower one is refused, so there is no undo.
    """
    node = NodeClient(url, actor)
    before = _described(node, topic)
    after = node.put(_path(topic), {"partitions": partitions, "reason": reason})
    if as_json:
        print_json({**after, "change_id": node.change_id})
        return
    was = f"before {before['partition_count']}" if before else "a new topic"
    print(f"{display.printable(topic)} has {counted(after['partitions'], 'partition')}, {was}.")


@app.command()
def delete(
    topic: TopicArgument,
    execute: ExecuteOption = False,
    dry_run: DryRunOption = False,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a topic's metadata; a dry run without --execute.

    A run archives all groups' offsets in the topic, and the groups that read it rebalance. muster changes undo restores
    metadata and offsets.
    """
    node, is_dry_run = NodeClient(url, actor), dry_run or not execute
    if is_dry_run:
        node.refuse_on_mirror()
    metadata = _existing(node, topic)
    deleted: Json = (
        {"topic": topic, "run_id": None, "candidates": None} if is_dry_run else node.delete(_path(topic), reason)
    )
    if as_json:
        print_json({"dry_run": is_dry_run, **deleted, "change_id": None if is_dry_run else node.change_id})
        return
    which = f"{display.printable(topic)}, {counted(metadata['partition_count'], 'partition')},"
    if is_dry_run:
        print(f"{which} would be deleted, and the offsets of all groups in it archived. {DRY_RUN_NOTE}")
        return
    print(f"{which} was deleted.")
    print(
        f"Run {deleted['run_id']} archives {counted(deleted['candidates'], 'offset')};"
        f" muster runs show {deleted['run_id']} shows its progress."
    )
    display.print_undo([node.change_id] if node.change_id else [], display.AFTER_THE_RUN)


def _existing(node: NodeClient, topic: str) -> Json:
    """Describe a topic that has metadata.

    Raises:
        UserError: it has none.
    """
    found = _described(node, topic)
    if found is None:
        raise UserError(f"There is no topic metadata for {display.printable(topic)}.", FAILURE_EXIT_CODE)
    return found


def _described(node: NodeClient, topic: str) -> Json | None:
    """Describe a topic; None if it has no metadata."""
    try:
        found = node.get(_path(topic))
    except ApiError as refusal:
        if refusal.status != NOT_FOUND:
            raise
        return None
    return None if found["partition_count"] is None else found


def _path(topic: str) -> str:
    return f"{TOPICS}/{segment(topic)}"
