"""Selects the groups of a command: by position, option or filter."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from coordinator_core.protocol.states import GroupState
from muster.display import counted, print_undo
from muster.errors import FAILURE_EXIT_CODE, USAGE_EXIT_CODE, UserError
from muster.node_client import ApiError, Json, NodeClient
from muster.output import Table, print_json

DRY_RUN_NOTE: Final = "Dry run; use --execute to apply."


@dataclass(frozen=True, slots=True)
class GroupSelection:
    """The groups that a command line selects."""

    named: tuple[str, ...]
    is_all: bool = False
    states: tuple[str, ...] = ()
    prefix: str = ""

    @classmethod
    def of(
        cls,
        arguments: Iterable[str] | None,
        options: Iterable[str] | None,
        *,
        is_all: bool = False,
        states: Iterable[str] | None = None,
        prefix: str = "",
    ) -> GroupSelection:
        """Read the flags.

        Raises:
            UserError: nothing is chosen, the flags contradict each other, or there is no such state.
        """
        named = tuple(dict.fromkeys([*(arguments or ()), *(options or ())]))
        if is_all and named:
            raise UserError("Name groups or use --all-groups, not both.", USAGE_EXIT_CODE)
        if not is_all and not named:
            raise UserError("Name a group or use --all-groups.", USAGE_EXIT_CODE)
        if named and (states or prefix):
            raise UserError("--state and --prefix require --all-groups.", USAGE_EXIT_CODE)
        return cls(named, is_all, known_values("--state", GroupState, states), prefix)

    @property
    def is_one(self) -> bool:
        """Return whether it is one group that was named, so that nothing has to say which."""
        return len(self.named) == 1

    def groups(self, node: NodeClient) -> list[str]:
        """Return the ids of the groups, in order."""
        if not self.is_all:
            return list(self.named)
        found = node.pages("/v1/groups", "groups", state=list(self.states), prefix=self.prefix)
        return [each["group_id"] for each in found]


def one_group(argument: str | None, option: str | None) -> str:
    """Return the one group that is named.

    Raises:
        UserError: there is none, or there are two.
    """
    return one_named("group", argument, option)


def optional_group(argument: str | None, option: str | None) -> str | None:
    """Return the one group that is named, or None."""
    return None if argument is None and option is None else one_group(argument, option)


def one_named(noun: str, argument: str | None, option: str | None) -> str:
    """Return the one value that the argument or the option has.

    Raises:
        UserError: there is none, or there are two.
    """
    if argument is not None and option is not None and argument != option:
        raise UserError(f"Two {noun}s are named, {argument} and {option}; one is wanted.", USAGE_EXIT_CODE)
    named = option if argument is None else argument
    if named is None:
        raise UserError(f"Name a {noun}.", USAGE_EXIT_CODE)
    return named


def known_values(option: str, known: type[StrEnum], values: Iterable[str] | None) -> tuple[str, ...]:
    """Return the values that a repeated option names, in any case.

    Raises:
        UserError: there is no such value, or the option names none, and would choose all.
    """
    names = {each.lower(): str(each) for each in known}
    for value in values or ():
        unknown = [name for name in _split([value]) or ("",) if name.lower() not in names]
        if unknown:
            raise UserError(f"{option} {unknown[0]!r}: use {', '.join(names.values())}.", USAGE_EXIT_CODE)
    return tuple(names[name.lower()] for name in _split(values))


def _split(values: Iterable[str] | None) -> tuple[str, ...]:
    """Return the values of a repeated option, each of which may have several, separated by commas."""
    return tuple(part.strip() for value in values or () for part in value.split(",") if part.strip())


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an operation on one group, or of its dry run."""

    group_id: str
    outcome: str
    detail: str | None = None
    change_id: str | None = None
    can_undo: bool = False
    """Whether undoing the change restores anything."""


def for_each(groups: list[str], act: Callable[[str], Outcome]) -> list[Outcome]:
    """Call an operation for each group; one refusal does not stop the others."""
    outcomes: list[Outcome] = []
    with reporting_stops(outcomes, groups):
        for group_id in groups:
            outcomes.append(_one(group_id, act))  # noqa: PERF401 - those before an interruption count
    return outcomes


@contextmanager
def reporting_stops(done: Sized, wanted: Sized, noun: str = "group") -> Iterator[None]:
    """Print how many groups were done if Ctrl-C, or an error after the first, ends the block."""
    try:
        yield
    except (KeyboardInterrupt, UserError) as stop:
        if done or isinstance(stop, KeyboardInterrupt):  # The node may have changed the first group, too.
            stopped = f"Stopped after {len(done):,} of {counted(len(wanted), noun)}"
            print(f"muster: {stopped}; muster changes list shows what was changed.", file=sys.stderr)
        raise


def _one(group_id: str, act: Callable[[str], Outcome]) -> Outcome:
    try:
        return act(group_id)
    except ApiError as refusal:
        return Outcome(group_id, "refused", f"{refusal.detail} ({refusal.code})")


def report(outcomes: list[Outcome], *, as_json: bool, is_dry_run: bool) -> None:
    """Print the outcome of each group, and a summary.

    Raises:
        UserError: something was refused; the sentence is the summary, unless that was printed.
    """
    summary = outcome_summary(outcomes)
    if as_json:
        shown: Json = [
            {"group_id": one.group_id, "outcome": one.outcome, "detail": one.detail, "change_id": one.change_id}
            for one in outcomes
        ]
        print_json({"dry_run": is_dry_run, "groups": shown})
    else:
        table = Table("GROUP", "OUTCOME", "DETAIL")
        for one in outcomes:
            table.add(one.group_id, one.outcome, one.detail)
        if outcomes:
            table.print()
        possible = sum(one.outcome != "refused" for one in outcomes)
        print(f"{summary}{f' {dry_run_note(possible)}' if is_dry_run else ''}")
        print_undo(one.change_id for one in outcomes if one.change_id and one.can_undo)
    if any(one.outcome == "refused" for one in outcomes):
        raise UserError(summary if as_json else "", FAILURE_EXIT_CODE)


def dry_run_note(change_count: int) -> str:
    """Return how to apply a dry run that found so many changes."""
    return DRY_RUN_NOTE if change_count else "Nothing was changed."


def outcome_summary(outcomes: list[Outcome]) -> str:
    """Return the number of groups by outcome, as text."""
    counts: dict[str, int] = {}
    for one in outcomes:
        counts[one.outcome] = counts.get(one.outcome, 0) + 1
    summary = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items())
    return f"{counted(len(outcomes), 'group')}: {summary}." if summary else "No group is chosen."
