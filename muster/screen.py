"""Terminal output of `muster up`: steps, then a live table; plain lines where there is no terminal."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TextIO

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from muster import display
from muster.overview import GroupView, Overview

REFRESHES_PER_SECOND = 4
PROGRESS_LINE_INTERVAL_S = 10.0
STATE_STYLES = {"Stable": "green", "Empty": "dim", "PreparingRebalance": "yellow", "CompletingRebalance": "yellow"}

COLUMNS: Mapping[str, Callable[[GroupView], Text]] = {
    "Group": lambda view: Text(display.printable(view.group_id)),
    "State": lambda view: Text(view.state, style=STATE_STYLES.get(view.state, ""), no_wrap=True),
    "Gen": lambda view: Text(display.count(view.generation)),
    "Committed": lambda view: Text(display.count(view.committed_records)),
    "Lag": lambda view: Text(_lag(view)),
    "Members (partitions)": lambda view: Text("\n".join(_member_lines(view))),
    "Last rebalance": lambda view: Text("\n".join(display.rebalance_lines(view.rebalance)), no_wrap=True),
}
NUMERIC_COLUMNS = {"Gen", "Committed", "Lag"}
ELLIPSIZED_COLUMNS = {"State", "Last rebalance"}
"""What is cropped where the terminal is narrow."""
WIDE_ONLY_COLUMNS = {"Committed"}
FULL_WIDTH = 100
"""A terminal of fewer columns goes without the luxuries, and almost without gaps."""
GROUP_MIN_WIDTH = 24
"""A longer name goes on below."""
STATE_MIN_WIDTH = 10
MEMBER_MIN_WIDTH = 28
"""Wide enough for a member of the demonstration with the longest pid there is, which people type after `kill`."""
MEMBER_LINES_MAX = 8
"""How many members of a group are named, each on a line of its own."""


@dataclass(slots=True)
class Step:
    """One thing that is being started; what it has to say for itself goes to `note`."""

    name: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a person finds something."""

    name: str
    text: str


class Screen(Protocol):
    """Output of the platform for the user who started it."""

    def step(self, name: str) -> contextlib.AbstractContextManager[Step]:
        """Show that something is being started, and how long it took."""

    def event(self, sentence: str) -> None:
        """Show something that happened."""

    def show(self, overview: Overview, addresses: Sequence[Address]) -> None:
        """Show how things stand."""

    def close(self) -> None:
        """Leave the terminal to others."""


def open_screen() -> Screen:
    """Return the screen that suits standard output."""
    return LiveScreen(Console(file=sys.stdout)) if sys.stdout.isatty() else PlainScreen(sys.stdout)


class LiveScreen:
    """What is over scrolls away above a picture that is drawn anew several times a second."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._spinner: Spinner | None = None
        self._overview: Overview | None = None
        self._addresses: Sequence[Address] = ()
        self._live = Live(
            console=console, get_renderable=self._renderable, refresh_per_second=REFRESHES_PER_SECOND, screen=False
        )
        self._live.start()

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Turn a wheel beside the name, and leave a line when it is done."""
        step = Step(name)
        self._spinner = Spinner("dots", text=Text(f" {name} …"))
        started_at_s = time.monotonic()
        try:
            yield step
            self._console.print(_done_line(step, time.monotonic() - started_at_s))
        finally:
            self._spinner = None

    def event(self, sentence: str) -> None:
        """Leave a line with the time of day."""
        self._console.print(Text.assemble((time.strftime("%H:%M:%S "), "cyan"), sentence))

    def show(self, overview: Overview, addresses: Sequence[Address]) -> None:
        """Draw this from now on."""
        self._overview, self._addresses = overview, addresses

    def close(self) -> None:
        """Stop drawing and erase the live table, which would be outdated; printed lines remain."""
        self._overview, self._addresses = None, ()
        self._live.stop()

    def _renderable(self) -> RenderableType:
        # A terminal that is too small cuts off the end, so the end is what one can do without.
        parts: list[RenderableType] = [] if self._spinner is None else [self._spinner]
        parts += [_address_line(address) for address in self._addresses]
        if self._overview is not None:
            parts += [*_run_lines(self._overview), group_table(self._overview, self._console.width)]
        return Group(*parts)


class PlainScreen:
    """Lines for a file or a pipe: each step, each change of a group, and now and then how far the offsets are."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._seen: dict[str, str] = {}
        self._addresses: Sequence[Address] = ()
        self._progress_due_at_s = 0.0

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Write one line when it is done."""
        step = Step(name)
        started_at_s = time.monotonic()
        yield step
        self._write(_done_line(step, time.monotonic() - started_at_s).plain)

    def event(self, sentence: str) -> None:
        """Write the sentence."""
        self._write(sentence)

    def show(self, overview: Overview, addresses: Sequence[Address]) -> None:
        """Write what has changed since the last time."""
        for address in addresses[len(self._addresses) :]:
            self._write(_address_line(address).plain)
        self._addresses = addresses
        is_progress_due = time.monotonic() >= self._progress_due_at_s
        for view in overview.groups:
            if self._has_changed(view.group_id, _change_key(view)) or (is_progress_due and view.members):
                self._write(display.group(view))
        for run in reversed(overview.runs):
            if self._has_changed(run.run_id, display.run(run)):
                self._write(display.run(run))
        if is_progress_due:
            self._progress_due_at_s = time.monotonic() + PROGRESS_LINE_INTERVAL_S

    def close(self) -> None:
        """Nothing is left to do."""

    def _has_changed(self, key: str, text: str) -> bool:
        is_new = self._seen.get(key) != text
        self._seen[key] = text
        return is_new

    def _write(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


def _lag(view: GroupView) -> str:
    is_lower_bound = view.is_lag_lower_bound and view.lag_records is not None
    return ("≥ " if is_lower_bound else "") + display.count(view.lag_records)


def _change_key(view: GroupView) -> str:
    """Put into one string what is worth a line when it changes; offsets move all the time."""
    trigger = view.rebalance.trigger if view.rebalance else ""
    return f"{view.state} {view.generation} {display.members(view)} {trigger}"


def _done_line(step: Step, took_s: float) -> Text:
    return Text.assemble(("✓ ", "green"), f"{step.name:<24}", (f"{took_s:6.1f} s  ", "cyan"), (step.note, "dim"))


def _address_line(address: Address) -> Text:
    return Text.assemble((f"{address.name:<9}", "bold"), address.text)


def group_table(overview: Overview, width: int) -> Table:
    """Return the groups as a table for a terminal of that many columns."""
    is_wide = width >= FULL_WIDTH
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0) if is_wide else 0)
    cells = {name: cell for name, cell in COLUMNS.items() if name not in WIDE_ONLY_COLUMNS or is_wide}
    max_widths = {"Members (partitions)": max(MEMBER_MIN_WIDTH, width // 3)}
    if not is_wide:
        max_widths["State"] = STATE_MIN_WIDTH
    names = [cell_len(display.printable(view.group_id)) for view in overview.groups]
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
    for view in overview.groups:
        table.add_row(*(cell(view) for cell in cells.values()))
    if overview.hidden_group_count:
        table.caption = f"and {overview.hidden_group_count:,} more groups"
    return table


def _member_lines(view: GroupView) -> list[str]:
    """Name a group's members, one a line, so that no name is broken."""
    named = [display.member(each) for each in view.members[:MEMBER_LINES_MAX]]
    others = len(view.members) - len(named)
    return [*named, *([f"and {others:,} more"] if others else [])] or ["none"]


def _run_lines(overview: Overview) -> list[Text]:
    """Say what came of each run, a line each: the groups below need the room more than a list's end does."""
    return [
        Text.assemble(
            ("Maintenance ", "bold"),
            (f"{display.duration(run.started_s_ago)} ago ", "dim"),
            display.run(run),
            no_wrap=True,
            overflow="ellipsis",
        )
        for run in overview.runs
    ]
