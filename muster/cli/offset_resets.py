"""Resets offsets of groups: prints the plan, and applies it with --execute.

One request per group, or several if a file has more partitions than a request may have. An unknown group is refused,
since its name is probably misspelled.
"""

# ruff: noqa: PLR0913, PLR0917 - a command loads only what it needs, and has a parameter for each of its flags

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Final

import typer

from muster import display
from muster.cli.argument_parsing import duration_ago, instant, topic_and_partitions
from muster.cli.group_selection import GroupSelection, dry_run_note, reporting_stops
from muster.cli.offset_files import Line, csv_of, read_lines
from muster.cli.options import (
    REASON,
    ActorOption,
    AllGroupsOption,
    AllTopicsOption,
    ByDurationOption,
    CreateOption,
    DryRunOption,
    ExecuteOption,
    FromFileOption,
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
from muster.display import counted
from muster.errors import FAILURE_EXIT_CODE, USAGE_EXIT_CODE, UserError
from muster.node_client import ApiError, Json, NodeClient, group_path
from muster.output import Table, print_json

PARTITIONS_A_REQUEST: Final = 10_000
FLAGS: Final = {
    "earliest": "--to-earliest",
    "latest": "--to-latest",
    "current": "--to-current",
    "offset": "--to-offset",
    "shift": "--shift-by",
    "datetime": "--to-datetime",
    "duration": "--by-duration",
    "file": "--from-file",
}


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
    if export and execute:
        raise UserError("--export prints a plan, and --execute carries one out: use one of them.", USAGE_EXIT_CODE)
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
    is_one = len(chosen) == 1 and not all_groups
    print_plans(plans, as_csv=export, as_json=as_json, is_dry_run=is_dry_run, is_one=is_one)


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a reset: a request body without topics, or the lines of a file."""

    body: Json
    lines: Mapping[str | None, list[Line]] = field(default_factory=dict)
    """Group (None: the file names none) → its lines."""

    @classmethod
    def of(cls, **flags: str | int | bool | None) -> Target:
        """Return the target that the options name.

        Raises:
            UserError: there is not exactly one, or its value is invalid.
        """
        given = [(name, value) for name, value in flags.items() if value is not None and value is not False]
        if len(given) != 1:
            raise UserError(f"Use exactly one of {', '.join(FLAGS.values())}.", USAGE_EXIT_CODE)
        name, value = given[0]
        match name:
            case "offset":
                return cls({"to": "offset", "offset": value})
            case "shift":
                return cls({"to": "shift", "shift_by": value})
            case "datetime":
                return cls({"to": "datetime", "datetime": instant(str(value), "--to-datetime").isoformat()})
            case "duration":
                return cls({"to": "datetime", "datetime": duration_ago(str(value)).isoformat()})
            case "file":
                lines: defaultdict[str | None, list[Line]] = defaultdict(list)
                for line in read_lines(str(value)):
                    lines[line.group_id].append(line)
                return cls({"to": "given"}, dict(lines))
            case _:
                return cls({"to": name})

    def groups_in_file(self, named: list[str]) -> list[str]:
        """Return the groups of the file, or the one that the command line names if the file names none.

        Raises:
            UserError: it names none and neither does the command line, or it lacks one that was named.
        """
        in_file = [group_id for group_id in self.lines if group_id is not None]
        if not in_file:
            if len(set(named)) != 1:
                raise UserError("The file names no group, so name exactly one.", USAGE_EXIT_CODE)
            return list(set(named))
        missing = [display.printable(group_id) for group_id in named if group_id not in in_file]
        if missing:
            raise UserError(f"The file has no offsets of {', '.join(missing)}.", USAGE_EXIT_CODE)
        return [group_id for group_id in in_file if not named or group_id in named]

    def bodies(self, group_id: str, topics: Json) -> Iterator[Json]:
        """Return the body of each request for a group."""
        if not self.lines:
            yield self.body | {"topics": topics}
            return
        in_file = (*self.lines.get(None, ()), *self.lines.get(group_id, ()))
        lines = [line for line in in_file if _is_wanted(line, topics)]
        for start in range(0, len(lines), PARTITIONS_A_REQUEST):
            part = lines[start : start + PARTITIONS_A_REQUEST]
            offsets = [{"topic": one.topic, "partition": one.partition, "offset": one.offset} for one in part]
            yield self.body | {"offsets": offsets}


@dataclass(slots=True)
class Plan:
    """The result of a reset of one group, or of its dry run."""

    group_id: str
    offsets: list[Json] = field(default_factory=list)
    change_ids: list[str] = field(default_factory=list)
    refusal: str | None = None


def topics_of(named: list[str] | None, *, all_topics: bool, is_from_file: bool) -> Json:
    """Return the topics of a reset as the API takes them; none: all partitions with committed offsets.

    Raises:
        UserError: neither topics are named nor --all-topics said, or both.
    """
    if named and all_topics:
        raise UserError("Name topics or use --all-topics, not both.", USAGE_EXIT_CODE)
    if not named and not all_topics and not is_from_file:
        raise UserError("Name topics with --topic or use --all-topics.", USAGE_EXIT_CODE)
    return [topic_and_partitions(each) for each in named or ()]


def reset_groups(
    node: NodeClient,
    groups: list[str],
    target: Target,
    topics: Json,
    reason: str,
    *,
    is_dry_run: bool,
    may_create: bool,
) -> list[Plan]:
    """Reset each group, or report what would change; one refusal does not stop the others."""
    plans: list[Plan] = []
    with reporting_stops(plans, groups):
        for group_id in groups:
            plan = Plan(group_id)
            try:
                if not may_create:
                    _refuse_unknown(node, group_id)
                for body in target.bodies(group_id, topics):
                    answer = node.post(
                        group_path(group_id, "/offsets/reset"), body | {"dry_run": is_dry_run, "reason": reason}
                    )
                    plan.offsets += answer["offsets"]
                    plan.change_ids += [answer["change_id"]] if answer["change_id"] else []
            except ApiError as refusal:
                plan.refusal = f"{refusal.detail} ({refusal.code})"
            plans.append(plan)
    return plans


def print_plans(plans: list[Plan], *, as_csv: bool, as_json: bool, is_dry_run: bool, is_one: bool = False) -> None:
    """Print the result for each partition of each group; lines of CSV begin with the group, unless it `is_one`.

    Raises:
        UserError: a group was refused; the sentence says which and why.
    """
    if as_json:
        print_json({"dry_run": is_dry_run, "groups": list(map(asdict, plans))})
    elif as_csv:
        sys.stdout.write(_csv(plans, is_one=is_one))
    else:
        _print_table(plans, is_dry_run=is_dry_run)
    refused = [
        f"{display.printable(plan.group_id)}: {display.printable(plan.refusal)}." for plan in plans if plan.refusal
    ]
    if refused:
        sys.stdout.flush()
        raise UserError("\nmuster: ".join(refused), FAILURE_EXIT_CODE)


def _print_table(plans: list[Plan], *, is_dry_run: bool) -> None:
    has_notes = any(each["note"] for plan in plans for each in plan.offsets)
    table = Table("GROUP", "TOPIC", "PARTITION", "OLD-OFFSET", "NEW-OFFSET", *(["NOTE"] if has_notes else []))
    for plan in plans:
        for each in plan.offsets:
            notes = [each["note"]] if has_notes else []
            table.add(plan.group_id, each["topic"], each["partition"], each["old_offset"], each["new_offset"], *notes)
    if len(table):
        table.print()
    moved = [plan for plan in plans if not plan.refusal]
    summary = f"{counted(len(table), 'partition')} of {counted(len(moved), 'group')}"
    unmoved = sum(each["old_offset"] == each["new_offset"] for plan in plans for each in plan.offsets)
    to_where = f", {unmoved:,} of them to where they are" if unmoved else ""
    if is_dry_run:
        print(f"{summary} would be moved{to_where}. {dry_run_note(len(table))}")
    else:
        print(f"{summary} moved{to_where}.")
        display.print_undo(change_id for plan in plans if plan.offsets for change_id in plan.change_ids)


def _csv(plans: list[Plan], *, is_one: bool) -> str:
    """Return the plan in the format of --from-file."""
    return csv_of(
        Line(None if is_one else plan.group_id, each["topic"], each["partition"], each["new_offset"])
        for plan in plans
        for each in plan.offsets
    )


def _refuse_unknown(node: NodeClient, group_id: str) -> None:
    try:
        node.get(group_path(group_id))
    except ApiError as refusal:
        if refusal.status != 404:
            raise
        raise ApiError("the group does not exist; --create creates it", refusal.code, 404, FAILURE_EXIT_CODE) from None


def _is_wanted(line: Line, topics: Json) -> bool:
    return not topics or any(
        each["topic"] == line.topic and line.partition in each.get("partitions", [line.partition]) for each in topics
    )
