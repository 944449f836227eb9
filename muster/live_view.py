"""The live view of the terminal, of `muster up` and `muster groups watch`: drawn in place, or plain lines in a pipe."""

from __future__ import annotations

import contextlib
import errno
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TextIO

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from muster import display, output
from muster.run_counts import counts_line
from muster.snapshots import Snapshot, WatchedGroup

REFRESHES_PER_SECOND: Final = 4
RUNS_MAX: Final = 2

COLUMNS: Final[Mapping[str, Callable[[WatchedGroup], Text]]] = {
    "Group": lambda group: Text(display.printable(group.group_id)),
    "State": lambda group: Text(group.state_now, style=output.STYLES.get(group.state_now, ""), no_wrap=True),
    "For": lambda group: Text(display.since(group.summary["state_since"]) or "–"),
    "Gen": lambda group: Text(display.count(group.generation)),
    "Lag": lambda group: Text(_lag(group)),
    "Members (partitions)": lambda group: Text("\n").join(_member_lines(group)),
    "Rebalances/h": lambda group: Text(display.count(group.summary["rebalances_last_hour"])),
    "Last rebalance": lambda group: Text("\n".join(_rebalance_lines(group)), no_wrap=True),
}
NUMERIC_COLUMNS: Final = {"Gen", "Lag", "Rebalances/h"}
ELLIPSIZED_COLUMNS: Final = {"State", "Last rebalance"}
"""The columns that are cropped on a narrow terminal."""
WIDE_ONLY_COLUMNS: Final = {"For", "Rebalances/h"}
FULL_WIDTH: Final = 100
"""The width below which columns of WIDE_ONLY_COLUMNS are left out, and gaps are small."""
GROUP_MIN_WIDTH: Final = 24
"""A longer name is wrapped."""
STATE_MIN_WIDTH: Final = 10
MEMBER_MIN_WIDTH: Final = 28
"""The width of a demonstration member with the longest possible pid, which users type after `kill`."""
MEMBER_LINES_MAX: Final = 8
"""The maximum number of members of a group that are named, one a line."""


@dataclass(slots=True)
class Step:
    """A step of the start; `note` is shown when it is done."""

    name: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a part of the platform."""

    name: str
    text: str


class View(Protocol):
    """Output for the user at the terminal."""

    def step(self, name: str) -> contextlib.AbstractContextManager[Step]:
        """Show a step, and its duration when the block ends."""

    def event(self, sentence: str) -> None:
        """Show an event."""

    def show(self, snapshot: Snapshot, addresses: Sequence[Address], *, with_members: bool = False) -> None:
        """Show a snapshot; `with_members` adds a table of the members of each group."""

    def close(self, *, erases: bool = False) -> None:
        """End the view; `erases` removes the last drawn snapshot."""


def open_view(progress_interval_s: float | None = None) -> View:
    """Return a live view on a terminal, else a plain one, which repeats unchanged groups after the interval."""
    if sys.stdout.isatty():
        return LiveView(Console(file=sys.stdout, highlight=False))
    return PlainView(sys.stdout, progress_interval_s)


class LiveView:
    """A view that redraws the snapshot several times a second; steps and events scroll away above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._spinner: Spinner | None = None
        self._parts: list[RenderableType] = []
        self._live = Live(
            console=console, get_renderable=self._renderable, refresh_per_second=REFRESHES_PER_SECOND, screen=False
        )
        self._live.start()

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Show a spinner with the name, and print a line when the block ends."""
        step = Step(name)
        self._spinner = Spinner("dots", text=Text(f" {name} …"))
        started_at_s = time.monotonic()
        try:
            yield step
            self._console.print(_done_line(step, time.monotonic() - started_at_s))
        finally:
            self._spinner = None

    def event(self, sentence: str) -> None:
        """Print a line with the time of day."""
        self._console.print(Text.assemble((time.strftime("%H:%M:%S "), "cyan"), sentence))

    def show(self, snapshot: Snapshot, addresses: Sequence[Address], *, with_members: bool = False) -> None:
        """Draw this snapshot from now on."""
        # A small terminal cuts off the end, so the least important part comes last.
        parts: list[RenderableType] = [_address_line(address) for address in addresses]
        if snapshot.trouble:
            parts.append(Text(snapshot.trouble, style="red"))
        parts += map(_run_line, snapshot.runs[:RUNS_MAX])
        parts.append(group_table(snapshot, self._console.width))
        for group in snapshot.groups:
            if awaited := _awaited_lines(group):
                title = f"{display.printable(group.group_id)}: {group.state}"
                parts.append(Text("\n".join([title, *awaited]), style="yellow"))
            if with_members and group.members:
                parts.append(_member_table(group))
        self._parts = parts

    def close(self, *, erases: bool = False) -> None:
        """Stop drawing; the lines of steps and events remain."""
        if erases:
            self._parts = []
        self._live.stop()

    def _renderable(self) -> RenderableType:
        return Group(*([] if self._spinner is None else [self._spinner]), *self._parts)


class PlainView:
    """Lines for a file or a pipe: each step, each change of a group and, after an interval, groups with members."""

    def __init__(self, stream: TextIO, progress_interval_s: float | None = None) -> None:
        self._stream = stream
        self._seen: dict[str, str] = {}
        self._addresses: Sequence[Address] = ()
        self._progress_interval_s = progress_interval_s
        self._progress_due_at_s = 0.0

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Write one line when the block ends."""
        step = Step(name)
        started_at_s = time.monotonic()
        yield step
        self._write(_done_line(step, time.monotonic() - started_at_s).plain)

    def event(self, sentence: str) -> None:
        """Write the sentence."""
        self._write(sentence)

    def show(self, snapshot: Snapshot, addresses: Sequence[Address], *, with_members: bool = False) -> None:
        """Write groups, runs and addresses that have changed since the last call, and awaited members."""
        for address in addresses[len(self._addresses) :]:
            self._write(_address_line(address).plain)
        self._addresses = addresses
        is_progress_due = self._progress_interval_s is not None and time.monotonic() >= self._progress_due_at_s
        if self._has_changed("trouble", snapshot.trouble) and snapshot.trouble:
            self._write(snapshot.trouble)
        for group in snapshot.groups:
            if self._has_changed(f"group {group.group_id}", _change_key(group)) or (is_progress_due and group.members):
                self._write("\n".join([f"{snapshot.at} {group_line(group)}", *_awaited_lines(group)]))
        hidden = _hidden_note(snapshot)
        if self._has_changed("hidden", hidden) and hidden:
            self._write(hidden)
        for run in reversed(snapshot.runs[:RUNS_MAX]):
            if self._has_changed(f"run {run['run_id']}", run_line(run)):
                self._write(run_line(run))
        if is_progress_due:
            self._progress_due_at_s = time.monotonic() + (self._progress_interval_s or 0.0)

    def close(self, *, erases: bool = False) -> None:
        """Do nothing."""

    def _has_changed(self, key: str, text: str) -> bool:
        is_new = self._seen.get(key) != text
        self._seen[key] = text
        return is_new

    def _write(self, line: str) -> None:
        try:
            print(line, file=self._stream, flush=True)
        except OSError as failure:
            if failure.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise


def group_line(group: WatchedGroup) -> str:
    """Return the state of a group in one line."""
    *reason, when = _rebalance_lines(group)
    last = f"{' '.join(reason)}, {when}" if reason else when
    members = ", ".join(map(_member, group.members)) or _member_count(group)
    return (
        f"{display.printable(group.group_id)}: {group.state_now}, generation {group.generation}, members {members}, "
        f"lag {_lag(group)}, last rebalance {last}"
    )


def run_line(run: display.Json) -> str:
    """Return the status of a maintenance run and its candidates by outcome in one line."""
    return f"{run['kind']} {run['status']}: {counts_line(run)}"


def group_table(snapshot: Snapshot, width: int) -> Table:
    """Return the groups as a table for a terminal of that many columns."""
    is_wide = width >= FULL_WIDTH
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0) if is_wide else 0)
    cells = {name: cell for name, cell in COLUMNS.items() if name not in WIDE_ONLY_COLUMNS or is_wide}
    max_widths = {"Members (partitions)": max(MEMBER_MIN_WIDTH, width // 3)}
    if not is_wide:
        max_widths["State"] = STATE_MIN_WIDTH
    names = [cell_len(display.printable(group.group_id)) for group in snapshot.groups]
    widths = {"Group": min(max(names, default=0), max(GROUP_MIN_WIDTH, width // 4))}
    for name in cells:
        table.add_column(
            Text(name, no_wrap=True),
            justify="right" if name in NUMERIC_COLUMNS else "left",
            no_wrap=name not in ELLIPSIZED_COLUMNS,
            overflow="fold" if name == "Group" else "ellipsis",
            width=widths.get(name),
            max_width=max_widths.get(name),
        )
    for group in snapshot.groups:
        table.add_row(*(cell(group) for cell in cells.values()))
    table.caption = "; ".join(filter(None, (f"{snapshot.at} UTC", _hidden_note(snapshot))))
    return table


def _hidden_note(snapshot: Snapshot) -> str:
    hidden = snapshot.hidden_group_count
    return f"{hidden:,} more groups; name those to watch, or see muster groups list" if hidden else ""


def _lag(group: WatchedGroup) -> str:
    records = group.summary["lag"]
    is_lower_bound = group.summary["is_lag_lower_bound"] and records is not None
    return ("≥ " if is_lower_bound else "") + display.count(records)


def _rebalance_lines(group: WatchedGroup) -> list[str]:
    """Return the trigger of the rebalance in progress, or else the trigger, the client and the time of the last one."""
    if group.summary["rebalance_trigger"]:
        return [f"now: {group.summary['rebalance_trigger']}"]
    ago = display.since(group.summary["last_rebalance_at"])
    if ago is None:
        return ["never"]
    who = [f"of {display.printable(group.triggered_by)}"] if group.triggered_by else []
    return [group.summary["last_rebalance_trigger"], *who, f"{ago} ago"]


def _member(member: display.Json) -> str:
    """Return the client id of a member with its number of partitions."""
    count = display.owned_count(member)
    return f"{display.printable(member['client_id'])} ({'?' if count is None else count})"


def _member_lines(group: WatchedGroup) -> list[Text]:
    """Return a group's members, one a line, so that names are not wrapped; awaited ones are highlighted."""
    named = [
        Text(_member(each), style="yellow" if each["missing_request"] else "")
        for each in group.members[:MEMBER_LINES_MAX]
    ]
    others = len(group.members) - len(named)
    return [*named, *([Text(f"and {others:,} more")] if others else [])] or [Text(_member_count(group))]


def _member_count(group: WatchedGroup) -> str:
    count = 0 if group.described else group.summary["member_count"]
    return f"{count:,}" if count else "none"


def _awaited_lines(group: WatchedGroup) -> list[str]:
    """Return the awaited members and the deadline."""
    return display.awaited_lines(group.described) if group.described else []


def _member_table(group: WatchedGroup) -> Table:
    table = output.Table("CLIENT-ID", "HOST", "#PARTITIONS", "AWAITED", "CONSUMER-ID")
    for member in group.members:
        awaited = display.awaited(member, group.described["leader"] if group.described else None)
        place = (member["client_id"], member["client_host"], display.owned_count(member))
        table.add(*place, awaited, member["member_id"])
    drawn: Table = table.rich()
    return drawn


def _change_key(group: WatchedGroup) -> str:
    """Return a text that changes whenever the plain view should print the group; offsets change all the time."""
    waiting = (group.described or {}).get("waiting_for")
    trigger = group.summary["rebalance_trigger"] or group.summary["last_rebalance_trigger"]
    return f"{group.state} {group.generation} {[*map(_member, group.members)]} {trigger} {waiting}"


def _done_line(step: Step, took_s: float) -> Text:
    return Text.assemble(("✓ ", "green"), f"{step.name:<24}", (f"{took_s:6.1f} s  ", "cyan"), (step.note, "dim"))


def _address_line(address: Address) -> Text:
    return Text.assemble((f"{address.name:<9}", "bold"), address.text)


def _run_line(run: display.Json) -> Text:
    """Return a run in one line, which is cropped, so that the groups below have room."""
    ago = f"{display.since(run['as_of'])} ago "
    return Text.assemble(("Maintenance ", "bold"), (ago, "dim"), run_line(run), no_wrap=True, overflow="ellipsis")
