"""`muster offsets`: shows, exports, imports and deletes committed offsets."""

# ruff: noqa: PLR0913, PLR0917 - a command loads only what it needs, and has a parameter for each of its flags

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from muster import display
from muster.cli.argument_parsing import topic_and_partitions
from muster.cli.atomic_write import replace_file
from muster.cli.command_tree import command_group
from muster.cli.group_selection import DRY_RUN_NOTE, GroupSelection, dry_run_note, one_group, reporting_stops
from muster.cli.offset_files import Line, csv_of
from muster.cli.offset_resets import Target, print_plans, reset_groups, topics_of
from muster.cli.options import (
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
    WideOption,
)
from muster.display import counted, moment
from muster.errors import FAILURE_EXIT_CODE, UserError
from muster.node_client import FORBIDDEN, NOT_FOUND, ApiError, Json, NodeClient, group_path, segment
from muster.output import Table, print_json

app = command_group("Show, export, import and delete committed offsets.")

Query = dict[str, str | int]
NO_LEADER_EPOCH: Final = -1
DONE = "NONE"
"""The code of a partition whose offset was deleted."""
DELETED = "deleted"
WOULD_BE_DELETED = "would be deleted"


class Shown(StrEnum):
    """The format of offsets on standard output."""

    TABLE = "table"
    KAFKA = "kafka"
    CSV = "csv"
    JSON = "json"


class ExportFormat(StrEnum):
    """The format of an export."""

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
    wide: WideOption = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show committed offsets.

    In a table, LOG-END-OFFSET is the furthest end that is known of the partition, as in groups describe, with ≥ where
    it is out of date.
    """
    node, selection = NodeClient(url), GroupSelection.of(groups, group, is_all=all_groups)
    committed = committed_of(node, selection.groups(node), topic or [])
    require_known(node, committed)
    print_offsets(node, committed, Shown.JSON if as_json else form, is_wide=wide, is_one=selection.is_one)


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
        ExportFormat, typer.Option("--format", help="json includes metadata and log end offsets.")
    ] = ExportFormat.CSV,
    url: UrlOption = None,
) -> None:
    """Export committed offsets to a file.

    CSV is topic,partition,offset, as kafka-consumer-groups reads it; of several groups, or of --all-groups, each line
    begins with its group.
    """
    node = NodeClient(url)
    selection = GroupSelection.of(groups, group, is_all=all_groups, states=state, prefix=prefix)
    committed = committed_of(node, selection.groups(node), topic or [])
    require_known(node, committed)
    write_offsets(committed, to, form, is_one=selection.is_one)


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
    node, is_dry_run = NodeClient(url, actor), dry_run or not execute
    deleted, change_ids = [], []

    def send(named: str, query: Query) -> Json:
        return node.delete(f"/v1/topics/{segment(named)}/log-ends", reason, **query)

    for named, answer, change_id in delete_each(
        node, send, list(map(topic_and_partitions, topic)), is_dry_run=is_dry_run
    ):
        deleted += [{"topic": named, **each} for each in answer["log_ends"]]
        change_ids += [change_id] if change_id else []
    if as_json:
        print_json({"dry_run": is_dry_run, "log_ends": deleted, "change_ids": change_ids})
        return
    table = Table("TOPIC", "PARTITION", "LOG-END-OFFSET", "REPORTED")
    for each in deleted:
        table.add(each["topic"], each["partition"], each["log_end_offset"], moment(each["reported_at"]))
    if deleted:
        table.print()
    print(_log_ends_summary(deleted, is_dry_run=is_dry_run))


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
    target = Target.of(file=file)
    topics = topics_of(topic, all_topics=False, is_from_file=True)
    is_dry_run = dry_run or not execute
    chosen = target.groups_in_file(group or [])
    node = NodeClient(url, actor)
    plans = reset_groups(node, chosen, target, topics, reason, is_dry_run=is_dry_run, may_create=create)
    print_plans(plans, as_csv=False, as_json=as_json, is_dry_run=is_dry_run)


class Committed(NamedTuple):
    """What a group has committed, by topic and partition."""

    group_id: str
    offsets: list[Json]


def committed_of(node: NodeClient, groups: list[str], topics: list[str]) -> list[Committed]:
    """Fetch the committed offsets of groups, in the given topics or in all."""
    return [
        Committed(group_id, node.pages(group_path(group_id, "/offsets"), "offsets", topic=topics))
        for group_id in groups
    ]


def require_known(node: NodeClient, groups: list[Committed]) -> None:
    """Refuse unknown groups; with a token that may only fetch offsets, the check is skipped.

    Raises:
        UserError: a group is unknown; its name is probably misspelled.
    """
    for group_id in (group.group_id for group in groups if not group.offsets):
        try:
            node.get(group_path(group_id))
        except ApiError as refusal:
            if refusal.status == NOT_FOUND:
                raise UserError(f"{display.printable(group_id)}: {refusal}") from None


def print_offsets(node: NodeClient, groups: list[Committed], form: str, *, is_wide: bool, is_one: bool) -> None:
    """Print offsets in a format; the table has the log ends, too, which the node is asked for."""
    match form:
        case "json":
            print_json(_json(groups))
        case "csv":
            sys.stdout.write(_csv(groups, is_one=is_one))
        case "kafka":
            for line in kafka_lines(groups):
                print(line)
        case _:
            _print_table(node, groups, is_wide=is_wide)


def write_offsets(groups: list[Committed], to: Path | None, form: str, *, is_one: bool) -> None:
    """Write offsets to a file, which only its owner may read if it is new, or to standard output.

    Raises:
        UserError: the file cannot be written.
    """
    as_json = json.dumps(_json(groups), indent=2, ensure_ascii=False) + "\n"
    text = _csv(groups, is_one=is_one) if form == "csv" else as_json
    if to is None:
        sys.stdout.write(text)
        return
    replace_file(to, text)
    if to.is_file():  # A pipe holds nothing, and may be where this would be printed.
        count = sum(len(group.offsets) for group in groups)
        print(f"{to} holds {counted(count, 'offset')} of {counted(len(groups), 'group')}.")


def kafka_lines(groups: list[Committed]) -> Iterator[str]:
    """Return each offset as Kafka's console consumer prints it with the formatter of __consumer_offsets."""
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
    """Return the offset's own expiry, which a restored offset has; others expire by the retention of their group."""
    at = offset.get("expires_at")
    return "None" if at is None else f"Some({_ms(at)})"


def _ms(rfc3339: str) -> int:
    return round(dt.datetime.fromisoformat(rfc3339).timestamp() * 1_000)


def _json(groups: list[Committed]) -> Json:
    return {"groups": [{"group_id": group.group_id, "offsets": group.offsets} for group in groups]}


def _csv(groups: list[Committed], *, is_one: bool) -> str:
    return csv_of(
        Line(None if is_one else group_id, each["topic"], each["partition"], each["offset"])
        for group_id, offsets in groups
        for each in offsets
    )


def _print_table(node: NodeClient, groups: list[Committed], *, is_wide: bool) -> None:
    headings = ("GROUP", "TOPIC", "PARTITION", "OFFSET", "LOG-END-OFFSET", "COMMITTED", "METADATA")
    table = Table(*headings, wide_only={"METADATA", *(["GROUP"] if len(groups) == 1 else [])})
    shown = []
    for group_id, offsets in groups:
        lags = _lags(node, group_id) if offsets else {}
        for each in offsets:
            lag = lags.get((each["topic"], each["partition"]))
            shown += [lag] if lag else []
            place = (each["topic"], each["partition"], each["offset"], lag and display.log_end(lag))
            table.add(group_id, *place, moment(each["committed_at"]), each["metadata"] or None)
    if not len(table):
        print("Nothing is committed.")
        return
    table.print(is_wide=is_wide)
    display.print_stale(shown)


def _lags(node: NodeClient, group_id: str) -> dict[tuple[str, int], Json]:
    """Return the lag of each partition as `/lag` has it; empty if the token may only fetch offsets."""
    try:
        partitions = node.whole(group_path(group_id, "/lag"), "partitions")["partitions"]
    except ApiError as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return {}
    return {(each["topic"], each["partition"]): each for each in partitions}


def delete_offsets(
    node: NodeClient, group_id: str, topics: list[str], reason: str, *, is_dry_run: bool, as_json: bool
) -> None:
    """Delete the committed offsets of topics or partitions, or report what would be deleted.

    Raises:
        UserError: a partition was refused, or would be.
    """
    named = [topic_and_partitions(each) for each in topics]
    committed = node.pages(group_path(group_id, "/offsets"), "offsets", topic=[each["topic"] for each in named])
    offsets = {(each["topic"], each["partition"]): each["offset"] for each in committed}
    codes: dict[tuple[str, int], str] = {}
    change_ids = []

    def send(topic: str, query: Query) -> Json:
        return node.delete(group_path(group_id, "/offsets"), reason, topic=topic, **query)

    for _, answer, change_id in delete_each(node, send, named, is_dry_run=is_dry_run):
        answered = {(one["topic"], one["partition"]): one["code"] for one in answer["offsets"]}
        codes |= answered
        has_deleted = any(code == DONE and place in offsets for place, code in answered.items())
        change_ids += [change_id] if change_id and has_deleted else []
    outcomes = _outcomes(offsets, codes, is_dry_run=is_dry_run)
    _print_outcomes(group_id, outcomes, change_ids, is_dry_run=is_dry_run, as_json=as_json)
    if any(code != DONE for code in codes.values()):
        raise UserError(f"Some offsets {'would be' if is_dry_run else 'were'} refused.", FAILURE_EXIT_CODE)


def delete_each(
    node: NodeClient, send: Callable[[str, Query], Json], named: list[Json], *, is_dry_run: bool
) -> list[tuple[str, Json, str | None]]:
    """Send a DELETE request for each whole topic, or each partition; return its topic, answer and change.

    Raises:
        UserError: a request failed; how many were answered before is printed.
    """
    dry_run: Query = {"dry_run": "true"} if is_dry_run else {}
    wanted = [(each["topic"], partition) for each in named for partition in each.get("partitions", [None])]
    done: list[tuple[str, Json, str | None]] = []
    with reporting_stops(done, wanted, "deletion"):
        for topic, partition in wanted:
            answer = send(topic, dry_run if partition is None else {**dry_run, "partition": partition})
            done.append((topic, answer, node.change_id))
    return done


def _outcomes(
    offsets: dict[tuple[str, int], int], codes: dict[tuple[str, int], str], *, is_dry_run: bool
) -> list[Json]:
    """Return the outcome of each partition that has an offset, or is refused."""
    done = WOULD_BE_DELETED if is_dry_run else DELETED
    return [
        {
            "topic": topic,
            "partition": partition,
            "offset": offsets.get((topic, partition)),
            "outcome": done if code == DONE else code,
        }
        for (topic, partition), code in codes.items()
        if code != DONE or (topic, partition) in offsets
    ]


def _print_outcomes(
    group_id: str, outcomes: list[Json], change_ids: list[str], *, is_dry_run: bool, as_json: bool
) -> None:
    if as_json:
        print_json({"dry_run": is_dry_run, "group_id": group_id, "offsets": outcomes, "change_ids": change_ids})
        return
    table = Table("TOPIC", "PARTITION", "OFFSET", "OUTCOME")
    for each in outcomes:
        table.add(*each.values())
    if outcomes:
        table.print()
    print(_summary(outcomes, is_dry_run=is_dry_run))
    display.print_undo(change_ids)


def _summary(outcomes: list[Json], *, is_dry_run: bool) -> str:
    """Return a summary: how many are deleted and refused, and after a dry run how to delete them."""
    done = WOULD_BE_DELETED if is_dry_run else DELETED
    gone = sum(each["outcome"] == done for each in outcomes)
    refused = f", {len(outcomes) - gone} refused" if len(outcomes) > gone else ""
    rest = f" {dry_run_note(gone)}" if is_dry_run else ""
    return f"{counted(gone, 'offset')} {done}{refused}.{rest}"


def _log_ends_summary(deleted: list[Json], *, is_dry_run: bool) -> str:
    if not deleted:
        return "No log end of these is known. Nothing was changed."
    if is_dry_run:
        return f"{counted(len(deleted), 'log end')} {WOULD_BE_DELETED}. {DRY_RUN_NOTE}"
    return f"{counted(len(deleted), 'log end')} {DELETED}. The next report of each sets it again."
