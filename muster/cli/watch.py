"""`muster groups watch`: groups in the live view, until Ctrl-C."""

# ruff: noqa: PLC0415 - a command loads only what it needs

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.options import GroupsArgument, GroupsOption, UrlOption
from muster.errors import UNREACHABLE_EXIT_CODE, UserError
from muster.node_client import NodeClient

if TYPE_CHECKING:
    from muster.snapshots import SnapshotReader


def watch(
    groups: GroupsArgument = None,
    group: GroupsOption = None,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, max=86_400, help="Seconds between refreshes.")
    ] = 1.0,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="Number of refreshes.", show_default="unlimited")
    ] = None,
    url: UrlOption = None,
) -> None:
    """Watch groups live, with awaited members.

    Without a group it shows rebalancing groups first, a hundred groups at most. Ctrl-C stops it. In
    a pipe it prints a group whenever it changes.
    """
    from muster.snapshots import SnapshotReader

    node = NodeClient(url, retry_timeout_s=0)
    chosen = list(dict.fromkeys([*(groups or ()), *(group or ())]))
    with contextlib.suppress(KeyboardInterrupt):
        show_snapshots(SnapshotReader([node], chosen), node.url, interval, count, with_members=bool(chosen))


def show_snapshots(
    reader: SnapshotReader, url: str, interval_s: float, count: int | None, *, with_members: bool
) -> None:
    """Show so many snapshots, or all until Ctrl-C; the last one remains on the terminal.

    Raises:
        UserError: a request was refused, or the first one had no answer.
    """
    from muster.live_view import Address, open_view

    snapshot = reader.read()
    view = open_view()
    addresses = [Address("Node", f"{url} (Ctrl-C ends)")] if sys.stdout.isatty() else []
    try:
        for number in itertools.count(1):
            view.show(snapshot, addresses, with_members=with_members)
            if number == count:
                return
            time.sleep(interval_s)  # Nodes send no notification of changes.
            try:
                snapshot = reader.read()
            except UserError as failure:
                if failure.exit_code != UNREACHABLE_EXIT_CODE:
                    raise
                snapshot = snapshot._replace(trouble=failure.sentence)
    finally:
        view.close()
