"""Deletes wrong log end offsets, or lists which would be deleted."""

from __future__ import annotations

from muster.commands.argument_parsing import topic_and_partitions
from muster.commands.group_operations import DELETED, DRY_RUN_NOTE, WOULD_BE_DELETED, partition_queries
from muster.commands.http_client import Json, NodeClient, segment
from muster.commands.output import Table, counted, moment, print_json


def delete_log_ends(node: NodeClient, topics: list[str], reason: str, *, is_dry_run: bool, as_json: bool) -> None:
    """Delete the known ends of topics or partitions, or print which would be deleted."""
    deleted, change_ids = [], []
    for topic, query in partition_queries(list(map(topic_and_partitions, topics)), is_dry_run=is_dry_run):
        answer = node.delete(f"/v1/topics/{segment(topic)}/log-ends", reason, **query)
        deleted += [{"topic": topic, **each} for each in answer["log_ends"]]
        change_ids += [node.change_id] if node.change_id else []
    if as_json:
        print_json({"dry_run": is_dry_run, "log_ends": deleted, "change_ids": change_ids})
        return
    table = Table("TOPIC", "PARTITION", "LOG-END-OFFSET", "REPORTED")
    for each in deleted:
        table.add(each["topic"], each["partition"], each["log_end_offset"], moment(each["reported_at"]))
    if deleted:
        table.print()
    print(_summary(deleted, is_dry_run=is_dry_run))


def _summary(deleted: list[Json], *, is_dry_run: bool) -> str:
    if not deleted:
        return "No log end of these is known. Nothing was changed."
    if is_dry_run:
        return f"{counted(len(deleted), 'log end')} {WOULD_BE_DELETED}. {DRY_RUN_NOTE}"
    return f"{counted(len(deleted), 'log end')} {DELETED}. The next report of each begins anew."
