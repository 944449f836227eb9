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
from muster.node_client import FORBIDDEN, ApiError, Json, NodeClient, segment
from muster.output import Table, print_json

app = command_group("List, show, set and delete topic metadata.")

TOPICS: Final = "/v1/topics"

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

    LOG-END-OFFSET is the furthest end that was reported, as in groups describe; only an operator's token can read it.
    """
    node = NodeClient(url)
    metadata = _existing(node, topic)
    ends = _log_ends(node, topic)
    if as_json:
        print_json({**metadata, "log_ends": ends})
        return
    by_partition = {each["partition"]: each for each in ends or ()}
    table = Table("PARTITION", "LOG-START-OFFSET", "LOG-END-OFFSET", "REPORTED")
    for partition in sorted({*range(metadata["partitions"]), *by_partition}):
        end = by_partition.get(partition, {})
        start = metadata["log_start_offset"] if partition < metadata["partitions"] else None
        table.add(partition, start, end.get("log_end_offset"), moment(end.get("reported_at")))
    table.print()
    if ends is None:
        print("The token may not read log ends.")


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
    before = _metadata(node, topic)
    after = node.put(_path(topic), {"partitions": partitions, "reason": reason})
    if as_json:
        print_json({**after, "change_id": node.change_id})
        return
    was = f"before {before['partitions']}" if before else "a new topic"
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
    metadata = _existing(node, topic)
    deleted: Json = (
        {"topic": topic, "run_id": None, "candidates": None} if is_dry_run else node.delete(_path(topic), reason)
    )
    if as_json:
        print_json({"dry_run": is_dry_run, **deleted, "change_id": None if is_dry_run else node.change_id})
        return
    which = f"{display.printable(topic)}, {counted(metadata['partitions'], 'partition')},"
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
    """Return the metadata of a topic.

    Raises:
        UserError: there is none.
    """
    found = _metadata(node, topic)
    if found is None:
        raise UserError(f"There is no topic metadata for {display.printable(topic)}.", FAILURE_EXIT_CODE)
    return found


def _metadata(node: NodeClient, topic: str) -> Json | None:
    """Return the metadata of a topic, if there is any; the API has only a list."""
    return next((each for each in node.whole(TOPICS, "topics")["topics"] if each["topic"] == topic), None)


def _log_ends(node: NodeClient, topic: str) -> list[Json] | None:
    """Return the reported log ends of a topic; None where the token may not read them."""
    try:  # The API lists log ends as what their deletion would delete.
        ends: list[Json] = node.delete(_path(topic, "/log-ends"), REASON, dry_run="true")["log_ends"]
    except ApiError as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return None
    return ends


def _path(topic: str, action: str = "") -> str:
    return f"{TOPICS}/{segment(topic)}{action}"
