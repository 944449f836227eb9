"""Prints how member sessions ended, and what evicted members that rejoined at once have in common."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from muster import display
from muster.commands.argument_parsing import instant
from muster.commands.history import precise
from muster.commands.http_client import Json, NodeClient, group_path
from muster.commands.output import Table, counted, moment, print_json

ONGOING: Final = "hour"
END_REASONS: Final = [
    "left",
    "session_expired",
    "new_member_timeout",
    "rebalance_timeout",
    "sync_timeout",
    "admin",
    "replaced",
]
"""The reasons that end a session; other rows are intervals of open sessions."""
LATE_CAUSES: Final = {"late_join", "late_sync"}
"""Causes of evictions of members that heartbeated to the end."""
HEADROOM_FACTOR: Final = 1.25
"""How much longer a timeout that is suggested is than the longest silence that was seen."""
SUGGESTED_TIMEOUTS_S: Final = (6, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1_200, 1_800)
"""Timeouts that people choose."""


def print_sessions(
    node: NodeClient,
    group_id: str,
    limit: int,
    since: str | None,
    until: str | None,
    *,
    with_intervals: bool,
    as_json: bool,
) -> None:
    """Print how member sessions ended, the newest first, and which a longer session timeout would have kept.

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
    _table(found).print()
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
            None if gap_ms is None else precise(gap_ms / 1000),
            _between(each["last_heartbeat_at"], each["ended_at"]),
            precise(each["session_timeout_ms"] / 1000),
            _between(each["ended_at"], each["reconnected_at"]),
        )
    return table


def _end_text(session: Json) -> str:
    """Say how a session ended; of a member that missed a rebalance, whether it was alive."""
    if session["end_reason"] == ONGOING:
        return "ongoing"
    how: str = session["end_reason"]
    return f"{how}, alive" if session["cause"] in LATE_CAUSES else how


def _suggestions(group_id: str, sessions: list[Json], effective_s: float | None) -> Iterator[str]:
    """Say of each client that fell silent and was back at once how often that was, and what to try; and who died."""
    yield from _crashes(sessions)
    back = [each for each in sessions if each["end_reason"] == "session_expired" and each["reconnected_at"] is not None]
    by_client = sorted(back, key=_client)
    for client, same in groupby(by_client, key=_client):
        evictions = list(same)
        needed_s = max(
            each["session_timeout_ms"] / 1000 + _seconds(each["ended_at"], each["reconnected_at"]) for each in evictions
        )
        times, absence = counted(len(evictions), "time"), precise(_absence_s(evictions))
        yield f"\n{display.printable(client)} was evicted {times} for missed heartbeats, and rejoined within {absence}."
        if effective_s is not None and needed_s <= effective_s:
            yield f"The effective session timeout, {precise(effective_s)}, would have kept it: no change needed."
            continue
        yield "If the process kept running, a longer session timeout would have kept it. Try one:"
        command = f"muster groups tuning {display.group_option(group_id)}"
        yield f"  {command} --session-timeout-ms {_suggested_ms(needed_s)}"
        yield "If the process was restarted each time, see its own log."


def _crashes(sessions: list[Json]) -> Iterator[str]:
    """Print how often each client rejoined before its old member was evicted, which no timeout prevents."""
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
    return None if begins is None or ends is None else precise(_seconds(begins, ends))


def _seconds(begins: str, ends: str) -> float:
    return (dt.datetime.fromisoformat(ends) - dt.datetime.fromisoformat(begins)).total_seconds()
