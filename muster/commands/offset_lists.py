"""Committed offsets as a table, JSON, CSV, and as Kafka's console consumer prints them.

Source: Kafka's ``OffsetsMessageFormatter`` of the lines ``2.x``, and ``kafka-consumer-groups --export``.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from muster import display
from muster.atomic_write import replace_file
from muster.commands.group_description import log_end, print_stale
from muster.commands.http_client import ApiError, Json, NodeClient, group_path
from muster.commands.offset_files import Line, csv_of
from muster.commands.output import Table, counted, moment, print_json
from muster.errors import UserError

NO_LEADER_EPOCH: Final = -1
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404


class Committed(NamedTuple):
    """What a group has committed, by topic and partition."""

    group_id: str
    offsets: list[Json]


def committed_of(node: NodeClient, groups: list[str], topics: list[str]) -> list[Committed]:
    """Read what each group has committed, in the topics that are named or in all."""
    return [
        Committed(group_id, node.get(group_path(group_id, "/offsets"), topic=topics)["offsets"]) for group_id in groups
    ]


def require_known(node: NodeClient, groups: list[Committed]) -> None:
    """Refuse unknown groups; with a token that may only fetch offsets, the check is skipped.

    Raises:
        UserError: a group is unknown; its name is probably a typing error.
    """
    for group_id in (group.group_id for group in groups if not group.offsets):
        try:
            node.get(group_path(group_id))
        except ApiError as refusal:
            if refusal.status == NOT_FOUND:
                raise UserError(f"{display.printable(group_id)}: {refusal}") from None


def print_offsets(node: NodeClient, groups: list[Committed], form: str) -> None:
    """Print offsets in one of the forms; for the table the node is asked where the logs end."""
    match form:
        case "json":
            print_json(_json(groups))
        case "csv":
            sys.stdout.write(_csv(groups))
        case "kafka":
            for line in kafka_lines(groups):
                print(line)
        case _:
            _print_table(node, groups)


def write_offsets(groups: list[Committed], to: Path | None, form: str) -> None:
    """Write offsets into a file, which is its owner's only where it is new, or to the standard output.

    Raises:
        UserError: the file cannot be written.
    """
    text = _csv(groups) if form == "csv" else json.dumps(_json(groups), indent=2, ensure_ascii=False) + "\n"
    if to is None:
        sys.stdout.write(text)
        return
    replace_file(to, text)
    if to.is_file():  # A pipe holds nothing, and may be where this would be printed.
        count = sum(len(group.offsets) for group in groups)
        print(f"{to} holds {counted(count, 'offset')} of {counted(len(groups), 'group')}.")


def kafka_lines(groups: list[Committed]) -> Iterator[str]:
    """Write each offset as Kafka's console consumer does with the formatter of __consumer_offsets."""
    for group_id, offsets in groups:
        for each in offsets:
            epoch = each["leader_epoch"]
            leader_epoch = "Optional.empty" if epoch == NO_LEADER_EPOCH else f"Optional[{epoch}]"
            yield (
                f"[{group_id},{each['topic']},{each['partition']}]::OffsetAndMetadata(offset={each['offset']}, "
                f"leaderEpoch={leader_epoch}, metadata={each['metadata']}, "
                f"commitTimestamp={_ms(each['committed_at'])}, expireTimestamp={_expiry(each)})"
            )


def _expiry(offset: Json) -> str:
    """Return an offset's own end, which those have that were restored; others end with their group."""
    at = offset.get("expires_at")
    return "None" if at is None else f"Some({_ms(at)})"


def _ms(rfc3339: str) -> int:
    return round(dt.datetime.fromisoformat(rfc3339).timestamp() * 1_000)


def _json(groups: list[Committed]) -> Json:
    return {"groups": [{"group_id": group.group_id, "offsets": group.offsets} for group in groups]}


def _csv(groups: list[Committed]) -> str:
    has_groups = len(groups) != 1
    return csv_of(
        Line(group_id if has_groups else None, each["topic"], each["partition"], each["offset"])
        for group_id, offsets in groups
        for each in offsets
    )


def _print_table(node: NodeClient, groups: list[Committed]) -> None:
    table = Table("GROUP", "TOPIC", "PARTITION", "OFFSET", "LOG-END-OFFSET", "COMMITTED", "METADATA")
    shown = []
    for group_id, offsets in groups:
        lags = _lags(node, group_id) if offsets else {}
        for each in offsets:
            lag = lags.get((each["topic"], each["partition"]))
            shown += [lag] if lag else []
            place = (each["topic"], each["partition"], each["offset"], lag and log_end(lag))
            table.add(group_id, *place, moment(each["committed_at"]), each["metadata"] or None)
    if not len(table):
        print("Nothing is committed.")
        return
    table.print()
    print_stale(shown)


def _lags(node: NodeClient, group_id: str) -> dict[tuple[str, int], Json]:
    """Return what is known of the end of each partition's log; nothing where the token may read offsets only."""
    try:
        partitions = node.get(group_path(group_id, "/lag"))["partitions"]
    except ApiError as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return {}
    return {(each["topic"], each["partition"]): each for each in partitions}
