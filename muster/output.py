"""Output of commands: JSON for programs, tables for a terminal, plain columns for a pipe.

In a terminal some columns are printed only on request, and an id is in one piece where there is room for it, else
folded, never cut; a narrow terminal wraps plain lines. A pipe has all columns, and every row is one line. No name that
a client chose can control the terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Sequence
from typing import Any, Final

from muster import display

Cell = str | int | None

STYLES: Final = {
    "Stable": "green",
    "Stable, flapping": "yellow",
    "Empty": "dim",
    "Dead": "dim",
    "PreparingRebalance": "yellow",
    "CompletingRebalance": "yellow",
    "refused": "red",
    "failed": "red",
    "error": "bold red",
    "warning": "yellow",
    "ok": "green",
}
"""Words that are coloured on a terminal."""
IDS: Final = frozenset({"RUN", "CHANGE", "TOKEN-ID", "CONSUMER-ID", "OWNER"})
"""Columns of ids, which users copy to other commands."""
FOLDED_MIN: Final = 8
"""The minimum width of a wider column that is folded."""
GAP: Final = "  "


def print_json(value: object) -> None:
    """Print a value for programs."""
    print(display.printable_json(json.dumps(value, indent=2, ensure_ascii=False)))


class Table:
    """Rows with headings; numbers are aligned to the right, and None is a dash."""

    def __init__(self, *headings: str, wide_only: Collection[str] = ()) -> None:
        """Create a table without rows.

        Args:
            headings: its columns.
            wide_only: the columns that a terminal gets on request only.
        """
        assert set(wide_only) <= set(headings), wide_only
        self._headings = headings
        self._wide_only = wide_only
        self._rows: list[Sequence[Cell]] = []

    def add(self, *cells: Cell) -> None:
        """Add a row."""
        assert len(cells) == len(self._headings), cells
        self._rows.append(cells)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._rows)

    def print(self, *, is_wide: bool = False) -> None:
        """Print it for a pipe or a terminal; columns of `wide_only` only with `is_wide`.

        A terminal that is too narrow to fold the columns gets plain ones, whose lines it wraps itself.
        """
        if not sys.stdout.isatty():
            print("\n".join(self.lines()))
            return
        from rich.console import Console  # noqa: PLC0415 - a pipe needs none of it

        console = Console(highlight=False)
        if self._folded_width(self._shown(is_wide=is_wide)) <= console.width:
            console.print(self.rich(is_wide=is_wide, width=console.width))
        else:
            print("\n".join(self.lines(is_wide=is_wide)))

    def lines(self, *, is_wide: bool = True) -> list[str]:
        """Return it as plain columns."""
        shown = self._shown(is_wide=is_wide)
        rows = [self._headings, *([_text(cell) for cell in row] for row in self._rows)]
        columns = [(index, self._width(index), self._is_number(index)) for index in shown]
        return [
            GAP.join(
                row[index].rjust(width) if is_number else row[index].ljust(width) for index, width, is_number in columns
            ).rstrip()
            for row in rows
        ]

    def rich(self, *, is_wide: bool = False, width: int = 0) -> Any:  # noqa: ANN401 - a table of a library that is loaded for terminals only
        """Return it as a table of rich; ids are not wrapped if the other columns fit beside them."""
        from rich import box, table, text  # noqa: PLC0415 - likewise

        drawn = table.Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
        shown = self._shown(is_wide=is_wide)
        has_whole_ids = self._folded_width(shown, IDS) <= width
        for index in shown:
            heading, is_number = self._headings[index], self._is_number(index)
            is_whole = is_number or (has_whole_ids and heading in IDS)
            drawn.add_column(heading, justify="right" if is_number else "left", overflow="fold", no_wrap=is_whole)
        for row in self._rows:
            cells = [_text(row[index]) for index in shown]
            drawn.add_row(*(text.Text(cell, style=STYLES.get(cell, "")) for cell in cells))
        return drawn

    def _shown(self, *, is_wide: bool) -> list[int]:
        """Return the columns to print, by their numbers."""
        return [number for number, each in enumerate(self._headings) if is_wide or each not in self._wide_only]

    def _folded_width(self, shown: Sequence[int], whole: Collection[str] = ()) -> int:
        """Return the minimum width of columns: numbers and those of `whole` are in one piece, the others folded."""
        return len(GAP) * (len(shown) - 1) + sum(
            self._width(index)
            if self._is_number(index) or self._headings[index] in whole
            else min(FOLDED_MIN, self._width(index))
            for index in shown
        )

    def _width(self, index: int) -> int:
        return max(map(len, (self._headings[index], *(_text(row[index]) for row in self._rows))))

    def _is_number(self, index: int) -> bool:
        cells = [row[index] for row in self._rows if row[index] is not None]
        return bool(cells) and all(isinstance(cell, int) for cell in cells)


def _text(cell: Cell) -> str:
    match cell:
        case None:
            return "-"
        case int():
            return str(cell)
        case _:
            return display.printable(cell)
