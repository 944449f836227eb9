"""`muster groups sessions` and `remove-member`: how member sessions ended, and the removal of a member."""

# ruff: noqa: PLR0913, PLR0917 - a command has a parameter for each of its flags

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import groupby
from typing import Annotated, Final

import typer

from muster import display
from muster.cli.argument_parsing import instant
from muster.cli.group_selection import DRY_RUN_NOTE, one_group, one_named
from muster.cli.options import (
    REASON,
    ActorOption,
    DryRunOption,
    ExecuteOption,
    GroupArgument,
    GroupOption,
    JsonOption,
    ReasonOption,
    UrlOption,
    WideOption,
)
from muster.display import counted, moment
from muster.errors import FAILURE_EXIT_CODE, UserError
from muster.node_client import Json, NodeClient, group_path, segment
from muster.output import Table, print_json

ONGOING: Final = "hour"
END_REASONS: Final = [
    "left",
    "session_expired",
    "left_or_expired",
    "new_member_timeout",
    "rebalance_timeout",
    "sync_timeout",
    "admin",
    "replaced",
]
"""The reasons that end a session; other rows are intervals of open sessions."""
LATE_CAUSES: Final = {"late_join", "late_sync"}
"""Causes of evictions of members that still sent heartbeats."""
HEADROOM_FACTOR: Final = 1.25
"""The ratio of a suggested timeout to the longest time without a heartbeat."""
SUGGESTED_TIMEOUTS_S: Final = (6, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1_200, 1_800)
"""The values of suggested timeouts."""


def sessions(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum number of entries.")] = 20,
    since: Annotated[
        str | None,
        typer.Option(
            "--from", help="Sessions that ended at or after this time; UTC if it has no zone.", metavar="TIME"
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--to", help="Sessions that ended before this time; UTC if it has no zone.", metavar="TIME"),
    ] = None,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Include the hourly intervals of open sessions.")
    ] = False,
    wide: WideOption = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show member sessions and how they ended.

    Prints the newest first, with the time since the last heartbeat. An evicted member that rejoins at once was alive:
    for those the command suggests a session timeout.
    """
    chosen = one_group(group_id, group)
    node = NodeClient(url)
    print_sessions(node, chosen, limit, since, until, with_intervals=intervals, is_wide=wide, as_json=as_json)


def remove_member(
    group_id: GroupArgument = None,
    member_id: Annotated[
        str | None,
        typer.Argument(
            metavar="MEMBER", help="Member id, or a client id that only one member has.", show_default=False
        ),
    ] = None,
    group: GroupOption = None,
    member: Annotated[
        str | None, typer.Option("--member", help="Same as the argument MEMBER.", metavar="MEMBER")
    ] = None,
    execute: ExecuteOption = False,
    dry_run: DryRunOption = False,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a member; a dry run without --execute.

    The group rebalances, and the member may join again. With --group, a single argument is the member.
    """
    if member_id is None and member is None and group is not None:
        group_id, member_id = None, group_id
    chosen = one_group(group_id, group)
    named = one_named("member", member_id, member)
    node, is_dry_run = NodeClient(url, actor), dry_run or not execute
    if is_dry_run:
        node.refuse_on_mirror()
    described = node.whole(group_path(chosen), "members")
    removed = _member(described, named)
    count = display.owned_count(removed)
    consequence = f"{_reassignment_text(described, removed)} {display.NO_UNDO}"
    who = display.printable(f"{removed['client_id']} at {removed['client_host']} ({removed['member_id']})")
    if not is_dry_run:
        node.delete(group_path(chosen, f"/members/{segment(removed['member_id'])}"), reason)
    if as_json:
        change_id = None if is_dry_run else node.change_id
        what = {"member_id": removed["member_id"], "partition_count": count, "change_id": change_id}
        print_json({"dry_run": is_dry_run, "group_id": chosen, **what})
    elif is_dry_run:
        print(f"{who} would be removed. {consequence} {DRY_RUN_NOTE}")
    else:
        print(f"{who} was removed. {consequence}")


def print_sessions(
    node: NodeClient,
    group_id: str,
    limit: int,
    since: str | None,
    until: str | None,
    *,
    with_intervals: bool,
    is_wide: bool,
    as_json: bool,
) -> None:
    """Print ended member sessions, the newest first, and suggest session timeouts that would have avoided evictions.

    Raises:
        UserError: a time cannot be read, or the node refuses.
    """
    query: dict[str, str | int | list[str] | None] = {
        "from": None if since is None else instant(since, "--from").isoformat(),
        "to": None if until is None else instant(until, "--to").isoformat(),
        "end_reason": None if with_intervals else END_REASONS,
    }
    found = node.pages(group_path(group_id, "/member-sessions"), "member_sessions", limit, **query)
    if as_json:
        print_json({"group_id": group_id, "member_sessions": found})
        return
    if not found:
        print(f"No member session of {display.printable(group_id)} has ended within the history kept.")
        return
    _table(found).print(is_wide=is_wide)
    set_ms = node.get(group_path(group_id, "/config"))["values"]["session_timeout_ms"]["value"]
    for line in _suggestions(group_id, found, None if set_ms is None else set_ms / 1000):
        print(line)


def _table(sessions: list[Json]) -> Table:
    table = Table(
        "ENDED",
        "END-REASON",
        "CLIENT",
        "HOST",
        "DURATION",
        "HEARTBEATS",
        "MAX-GAP",
        "SINCE-HEARTBEAT",
        "TIMEOUT",
        "REJOINED-AFTER",
        wide_only={"HOST", "DURATION", "HEARTBEATS"},
    )
    for each in sessions:
        gap_ms = each["heartbeat_gap_ms_max"]
        table.add(
            moment(each["ended_at"]),
            _end_text(each),
            each["group_instance_id"] or each["client_id"],
            each["client_host"],
            _between(each["joined_at"], each["ended_at"]),
            each["heartbeat_count"],
            None if gap_ms is None else display.precise(gap_ms / 1000),
            _between(each["last_heartbeat_at"], each["ended_at"]),
            display.precise(each["session_timeout_ms"] / 1000),
            _between(each["ended_at"], each["reconnected_at"]),
        )
    return table


def _end_text(session: Json) -> str:
    """Return the end reason; of a member that missed the rebalance timeout, also whether it was alive."""
    if session["end_reason"] == ONGOING:
        return "ongoing"
    how: str = session["end_reason"]
    return f"{how}, alive" if session["cause"] in LATE_CAUSES else how


def _suggestions(group_id: str, sessions: list[Json], effective_s: float | None) -> Iterator[str]:
    """Yield lines about clients that crashed, and about those that reconnected, each with a timeout to try."""
    yield from _crashes(sessions)
    back = [each for each in sessions if each["end_reason"] == "session_expired" and each["reconnected_at"] is not None]
    by_client = sorted(back, key=_client)
    for client, same in groupby(by_client, key=_client):
        evictions = list(same)
        needed_s = max(
            each["session_timeout_ms"] / 1000 + _seconds(each["ended_at"], each["reconnected_at"]) for each in evictions
        )
        times, absence = counted(len(evictions), "time"), display.precise(_absence_s(evictions))
        yield f"\n{display.printable(client)} was evicted {times} for missed heartbeats, and rejoined within {absence}."
        if effective_s is not None and needed_s <= effective_s:
            set_to = display.precise(effective_s)
            yield f"The effective session timeout, {set_to}, would have kept it: no change needed."
            continue
        yield "If the process kept running, a longer session timeout would have kept it. Try one:"
        command = f"muster groups tuning {display.group_option(group_id)}"
        yield f"  {command} --session-timeout-ms {_suggested_ms(needed_s)}"
        yield "If the process was restarted each time, see its own log."


def _crashes(sessions: list[Json]) -> Iterator[str]:
    """Yield lines about clients that rejoined before their old member was evicted, which no timeout prevents."""
    crashed = sorted((each for each in sessions if each["successor_at"] is not None), key=_client)
    for client, same in groupby(crashed, key=_client):
        times = counted(len(list(same)), "time")
        yield f"\n{display.printable(client)} crashed {times}: it rejoined before its old session expired."
        yield "A longer session timeout does not help: every rebalance would wait longer. See the client's own log."


def _client(session: Json) -> str:
    name: str = session["group_instance_id"] or session["client_id"]
    return name


def _absence_s(evictions: list[Json]) -> float:
    return max(_seconds(each["ended_at"], each["reconnected_at"]) for each in evictions)


def _suggested_ms(needed_s: float) -> int:
    wanted_s = HEADROOM_FACTOR * needed_s
    return 1000 * next((step for step in SUGGESTED_TIMEOUTS_S if step >= wanted_s), SUGGESTED_TIMEOUTS_S[-1])


def _between(begins: str | None, ends: str | None) -> str | None:
    return None if begins is None or ends is None else display.precise(_seconds(begins, ends))


def _seconds(begins: str, ends: str) -> float:
    return (dt.datetime.fromisoformat(ends) - dt.datetime.fromisoformat(begins)).total_seconds()


def _reassignment_text(described: Json, member: Json) -> str:
    """Return a sentence about the partitions that a member owns, and their next owners."""
    count = display.owned_count(member)
    if count is None:
        return "Its partitions are not known, as its assignment cannot be read."
    if not count:
        return "It owns no partition."
    owned = f"Its {counted(count, 'partition')} ({display.printable(display.owned_list(member))})"
    is_one = count == 1
    if len(described["members"]) == 1:
        return f"{owned} {'has' if is_one else 'have'} no owner until another member joins."
    return f"{owned} {'goes' if is_one else 'go'} to the other members."


def _member(described: Json, named: str) -> Json:
    """Return the only member with that member id or client id.

    Raises:
        UserError: no member, or more than one, has that name.
    """
    found = [each for each in described["members"] if named in {each["member_id"], each["client_id"]}]
    if len(found) == 1:
        return found[0]
    group_id = display.printable(described["group_id"])
    if not found:
        raise UserError(f"{group_id} has no member {display.printable(named)}.", FAILURE_EXIT_CODE)
    raise UserError(f"{group_id} has {len(found)} members of that client id; name one by its member id.")
