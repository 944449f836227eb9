"""A live view of groups: in place on a terminal, line by line in a pipe.

A node that does not answer for a moment leaves the last look standing, and the look says so.
"""

from __future__ import annotations

import datetime as dt
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from muster.commands.group_description import awaited, owned_count, state_lines
from muster.commands.http_client import Json, NodeClient, group_path
from muster.commands.output import STYLES, Table, counted
from muster.errors import UNREACHABLE_EXIT_CODE, UserError

if TYPE_CHECKING:
    from rich.console import RenderableType

REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")
DESCRIBED_MAX: Final = 20
"""How many groups that are not settled are described when none is named."""
LISTED_MAX: Final = 100
"""How many others are listed then."""


class GroupsSnapshot(NamedTuple):
    """What was seen at one moment."""

    described: list[Json]
    """Groups in full."""
    listed: Sequence[Json] = ()
    """Others, as a list has them."""
    hidden: str = ""
    """Says that there are more; empty: there are not."""
    trouble: str | None = None
    """Why this look is not new."""


def watch(node: NodeClient, groups: Sequence[str], interval_s: float, count: int | None) -> None:
    """Look again and again, so often or until Ctrl-C; then leave the last look standing.

    Args:
        node: to be asked; it should not be asked twice for one look.
        groups: those to look at; none stands for all.
        interval_s: how long from look to look.
        count: how many looks; None: until Ctrl-C.

    Raises:
        UserError: a request was refused, or the first one had no answer.
    """
    snapshots = _snapshots(node, groups, interval_s, count)
    try:
        if sys.stdout.isatty():
            _show(node, snapshots)
        else:
            _print(snapshots)
    except KeyboardInterrupt:
        return


def _snapshots(
    node: NodeClient, groups: Sequence[str], interval_s: float, count: int | None
) -> Iterator[GroupsSnapshot]:
    snapshot = _take_snapshot(node, groups)
    yield snapshot
    for _ in itertools.count() if count is None else range(count - 1):
        time.sleep(interval_s)  # Nodes send no notification of changes.
        try:
            snapshot = _take_snapshot(node, groups)
        except UserError as failure:
            if failure.exit_code != UNREACHABLE_EXIT_CODE:
                raise
            snapshot = snapshot._replace(trouble=failure.sentence)
        yield snapshot


def _take_snapshot(node: NodeClient, groups: Sequence[str]) -> GroupsSnapshot:
    if groups:
        return GroupsSnapshot([node.get(group_path(group_id)) for group_id in groups])
    rebalancing = node.pages("/v1/groups", "groups", DESCRIBED_MAX + 1, state=list(REBALANCING))
    described = [node.get(group_path(each["group_id"])) for each in rebalancing[:DESCRIBED_MAX]]
    shown = {each["group_id"] for each in described}
    others = node.pages("/v1/groups", "groups", LISTED_MAX + 1)
    listed = [each for each in others[:LISTED_MAX] if each["group_id"] not in shown]
    return GroupsSnapshot(described, listed, _hidden_note(len(rebalancing), len(others)))


def _hidden_note(rebalancing_count: int, other_count: int) -> str:
    """Say what is left out, where there are more groups than are shown."""
    limits = (("rebalancing groups", rebalancing_count, DESCRIBED_MAX), ("groups", other_count, LISTED_MAX))
    cut = " and ".join(f"the first {most} {which}" for which, found, most in limits if found > most)
    return f"Only {cut} are shown; name those to watch, or see muster groups list." if cut else ""


# -- in a pipe --------------------------------------------------------------------------------------------


def _print(snapshots: Iterator[GroupsSnapshot]) -> None:
    """Print a group's lines when they have changed, and trouble when it begins."""
    seen: dict[str, list[str]] = {}
    trouble = hidden = ""
    for snapshot in snapshots:
        at = f"{dt.datetime.now(dt.UTC):%H:%M:%S}"
        if snapshot.trouble and snapshot.trouble != trouble:
            print(f"{at} {snapshot.trouble}", flush=True)
        if snapshot.hidden and snapshot.hidden != hidden:
            print(f"{at} {snapshot.hidden}", flush=True)
        trouble, hidden = snapshot.trouble or "", snapshot.hidden
        for group_id, lines in _lines(snapshot):
            if seen.get(group_id) != lines:
                seen[group_id] = lines
                print(at, "\n".join(lines), flush=True)


def _lines(snapshot: GroupsSnapshot) -> Iterator[tuple[str, list[str]]]:
    for each in snapshot.described:
        yield each["group_id"], state_lines(each)
    for each in snapshot.listed:
        facts = f"{each['state']}, generation {each['generation']}, {counted(each['member_count'], 'member')}"
        yield each["group_id"], [f"{each['group_id']}: {facts}"]


# -- on a terminal ----------------------------------------------------------------------------------------


def _show(node: NodeClient, snapshots: Iterator[GroupsSnapshot]) -> None:
    from rich.console import Console  # noqa: PLC0415 - a pipe needs none of it
    from rich.live import Live  # noqa: PLC0415 - likewise

    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        for snapshot in snapshots:
            live.update(_renderable(node.url, snapshot), refresh=True)


def _renderable(url: str, snapshot: GroupsSnapshot) -> RenderableType:
    from rich.console import Group  # noqa: PLC0415 - likewise
    from rich.text import Text  # noqa: PLC0415 - likewise

    now = f"{dt.datetime.now(dt.UTC):%H:%M:%S} UTC"
    parts: list[RenderableType] = [Text(f"{url} at {now}; Ctrl-C ends.", style="dim")]
    if snapshot.trouble:
        parts.append(Text(snapshot.trouble, style="red"))
    for each in snapshot.described:
        parts.append(Text("\n".join(state_lines(each)), style=STYLES.get(each["state"], "")))
        if each["members"]:
            parts.append(_members(each).rich())
    if snapshot.listed:
        parts.append(_list(snapshot.listed).rich())
    if snapshot.hidden:
        parts.append(Text(snapshot.hidden, style="dim"))
    return Group(*parts)


def _members(described: Json) -> Table:
    table = Table("CLIENT-ID", "HOST", "#PARTITIONS", "AWAITED", "CONSUMER-ID")
    for member in described["members"]:
        table.add(
            member["client_id"],
            member["client_host"],
            owned_count(member),
            awaited(member, described["leader"]),
            member["member_id"],
        )
    return table


def _list(groups: Sequence[Json]) -> Table:
    table = Table("GROUP", "STATE", "GENERATION", "MEMBERS")
    for each in groups:
        table.add(each["group_id"], each["state"], each["generation"], each["member_count"])
    return table
