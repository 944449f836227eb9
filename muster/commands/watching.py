"""A live look at groups: every interval anew, in place on a terminal, line by line in a pipe.

A node that does not answer for a moment leaves the last look standing, and the look says so.
"""

from __future__ import annotations

import datetime as dt
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from muster.commands.asking import Json, Node, group_path
from muster.commands.describing import awaited, owned_count, state_lines
from muster.commands.output import STYLES, Table, counted
from muster.errors import UNREACHABLE_EXIT_CODE, UserError

if TYPE_CHECKING:
    from rich.console import RenderableType

UNSETTLED: Final = ("PreparingRebalance", "CompletingRebalance")
DESCRIBED_MAX: Final = 20
"""How many groups that are not settled are described when none is named."""
LISTED_MAX: Final = 100
"""How many others are listed then."""


class Look(NamedTuple):
    """What was seen at one moment."""

    described: list[Json]
    """Groups in full."""
    listed: Sequence[Json] = ()
    """Others, as a list has them."""
    unseen: str = ""
    """Says that there are more; empty: there are not."""
    trouble: str | None = None
    """Why this look is not new."""


def watch(node: Node, groups: Sequence[str], interval_s: float, count: int | None) -> None:
    """Look again and again, so often or until Ctrl-C; then leave the last look standing.

    Args:
        node: to be asked; it should not be asked twice for one look.
        groups: those to look at; none stands for all.
        interval_s: how long from look to look.
        count: how many looks; None: until Ctrl-C.

    Raises:
        UserError: the first look was refused, or nobody answered it; or a later one was refused.
    """
    looks = _looks(node, groups, interval_s, count)
    try:
        if sys.stdout.isatty():
            _show(node, looks)
        else:
            _print(looks)
    except KeyboardInterrupt:
        return


def _looks(node: Node, groups: Sequence[str], interval_s: float, count: int | None) -> Iterator[Look]:
    look = _look(node, groups)
    yield look
    for _ in itertools.count() if count is None else range(count - 1):
        time.sleep(interval_s)  # A node tells nobody that a group has changed.
        try:
            look = _look(node, groups)
        except UserError as failure:
            if failure.exit_code != UNREACHABLE_EXIT_CODE:
                raise
            look = look._replace(trouble=failure.sentence)
        yield look


def _look(node: Node, groups: Sequence[str]) -> Look:
    if groups:
        return Look([node.get(group_path(group_id)) for group_id in groups])
    unsettled = node.pages("/v1/groups", "groups", DESCRIBED_MAX + 1, state=list(UNSETTLED))
    described = [node.get(group_path(each["group_id"])) for each in unsettled[:DESCRIBED_MAX]]
    shown = {each["group_id"] for each in described}
    others = node.pages("/v1/groups", "groups", LISTED_MAX + 1)
    listed = [each for each in others[:LISTED_MAX] if each["group_id"] not in shown]
    return Look(described, listed, _unseen(len(unsettled), len(others)))


def _unseen(unsettled_count: int, other_count: int) -> str:
    """Say what is left out, where there are more groups than are shown."""
    limits = (("unsettled groups", unsettled_count, DESCRIBED_MAX), ("groups", other_count, LISTED_MAX))
    cut = " and ".join(f"the first {most} {which}" for which, found, most in limits if found > most)
    return f"Only {cut} are shown; name those to watch, or see muster groups list." if cut else ""


# -- in a pipe --------------------------------------------------------------------------------------------


def _print(looks: Iterator[Look]) -> None:
    """Print a group's lines when they have changed, and trouble when it begins."""
    seen: dict[str, list[str]] = {}
    trouble = unseen = ""
    for look in looks:
        at = f"{dt.datetime.now(dt.UTC):%H:%M:%S}"
        if look.trouble and look.trouble != trouble:
            print(f"{at} {look.trouble}", flush=True)
        if look.unseen and look.unseen != unseen:
            print(f"{at} {look.unseen}", flush=True)
        trouble, unseen = look.trouble or "", look.unseen
        for group_id, lines in _lines(look):
            if seen.get(group_id) != lines:
                seen[group_id] = lines
                print(at, "\n".join(lines), flush=True)


def _lines(look: Look) -> Iterator[tuple[str, list[str]]]:
    for each in look.described:
        yield each["group_id"], state_lines(each)
    for each in look.listed:
        facts = f"{each['state']}, generation {each['generation']}, {counted(each['member_count'], 'member')}"
        yield each["group_id"], [f"{each['group_id']}: {facts}"]


# -- on a terminal ----------------------------------------------------------------------------------------


def _show(node: Node, looks: Iterator[Look]) -> None:
    from rich.console import Console  # noqa: PLC0415 - a pipe needs none of it
    from rich.live import Live  # noqa: PLC0415 - likewise

    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        for look in looks:
            live.update(_drawn(node.url, look), refresh=True)


def _drawn(url: str, look: Look) -> RenderableType:
    from rich.console import Group  # noqa: PLC0415 - likewise
    from rich.text import Text  # noqa: PLC0415 - likewise

    now = f"{dt.datetime.now(dt.UTC):%H:%M:%S} UTC"
    parts: list[RenderableType] = [Text(f"{url} at {now}; Ctrl-C ends.", style="dim")]
    if look.trouble:
        parts.append(Text(look.trouble, style="red"))
    for each in look.described:
        parts.append(Text("\n".join(state_lines(each)), style=STYLES.get(each["state"], "")))
        if each["members"]:
            parts.append(_members(each).rich())
    if look.listed:
        parts.append(_list(look.listed).rich())
    if look.unseen:
        parts.append(Text(look.unseen, style="dim"))
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
