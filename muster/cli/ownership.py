"""`muster groups owners`: who owned which partitions at a time, and what was committed by then."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.cli.argument_parsing import instant, one_partition, topic_and_partitions
from muster.cli.group_selection import one_group
from muster.cli.options import (
    GroupArgument,
    GroupOption,
    JsonOption,
    UrlOption,
    WideOption,
)
from muster.display import moment
from muster.node_client import NodeClient, group_path
from muster.output import Table, print_json


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
    wide: WideOption = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show partition ownership and offsets at any time."""
    chosen = one_group(group_id, group)
    query: dict[str, str | int | None] = {"at": None if at is None else instant(at, "--at").isoformat()}
    if topic is not None:
        named = topic_and_partitions(topic)
        query |= {"topic": named["topic"], "partition": one_partition(named)}
    answer = NodeClient(url).whole(group_path(chosen, "/ownership"), "ownership", "offsets", **query)
    if as_json:
        print_json(answer)
        return
    owner_of = {(one["topic"], number): one for one in answer["ownership"] for number in one["partitions"]}
    committed = {(one["topic"], one["partition"]): one for one in answer["offsets"]}
    headings = ("TOPIC", "PARTITION", "OWNER", "FROM", "UNTIL", "COMMITTED", "AT", "LOG-END-OFFSET")
    table = Table(*headings, wide_only={"UNTIL", "AT", "LOG-END-OFFSET"})
    for key in sorted(owner_of.keys() | committed.keys()):
        owner, position = owner_of.get(key, {}), committed.get(key, {})
        span = (owner.get("member_id"), moment(owner.get("valid_from")), moment(owner.get("valid_to")))
        table.add(
            *key, *span, position.get("offset"), moment(position.get("committed_at")), position.get("log_end_offset")
        )
    if len(table):
        table.print(is_wide=wide)
    else:
        print("No ownership and no committed offsets at this time.")
