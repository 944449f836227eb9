"""How members' stays ended, as the ledger has it, and what those that were put out and back at once have in common."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from muster import wording
from muster.commands.asking import Json, Node, group_path
from muster.commands.history import precise
from muster.commands.output import Table, counted, moment, print_json
from muster.commands.reading import instant

GOES_ON: Final = "hour"
ENDS: Final = ["left", "session_expired", "rebalance_timeout", "sync_timeout", "admin", "replaced"]
"""Whatever ends a stay; other rows are hours of stays that go on."""
ALIVE: Final = {"late_join", "late_sync"}
"""Causes of evictions of members that heartbeated to the end."""
ROOM: Final = 1.25
"""How much longer a timeout that is suggested is than the longest silence that was seen."""
STEPS_S: Final = (6, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1_200, 1_800)
"""Timeouts that people choose."""


def print_stays(
    node: Node, group_id: str, limit: int, since: str | None, until: str | None, *, with_hours: bool, as_json: bool
) -> None:
    """Print how members' stays ended, the newest first, and whom a longer session timeout would have kept.

    Raises:
        UserError: a time cannot be read, or the node refuses.
    """
    query: dict[str, str | int | list[str] | None] = {
        "from": None if since is None else instant(since, "--from").isoformat(),
        "to": None if until is None else instant(until, "--to").isoformat(),
        "end_reason": None if with_hours else ENDS,
    }
    found = node.pages(group_path(group_id, "/stays"), "stays", limit, **query)
    if as_json:
        print_json({"group_id": group_id, "stays": found})
        return
    if not found:
        print(f"No stay in {wording.name(group_id)} has ended, as far as this looks.")
        return
    _table(found).print()
    set_ms = node.get(group_path(group_id, "/config"))["values"]["session_timeout_ms"]["value"]
    for line in _conclusions(group_id, found, None if set_ms is None else set_ms / 1000):
        print(line)


def _table(stays: list[Json]) -> Table:
    table = Table(
        "ENDED", "HOW", "CLIENT", "HOST", "STAYED", "HEARTBEATS", "LONGEST-GAP", "SILENT", "TIMEOUT", "BACK-AFTER"
    )
    for each in stays:
        gap_ms = each["heartbeat_gap_ms_max"]
        table.add(
            moment(each["ended_at"]),
            _how(each),
            each["group_instance_id"] or each["client_id"],
            each["client_host"],
            _between(each["joined_at"], each["ended_at"]),
            each["heartbeat_count"],
            None if gap_ms is None else precise(gap_ms / 1000),
            _between(each["last_heartbeat_at"], each["ended_at"]),
            precise(each["session_timeout_ms"] / 1000),
            _between(each["ended_at"], each["back_at"]),
        )
    return table


def _how(stay: Json) -> str:
    """Say how a session ended; of a member that missed a rebalance, whether it was alive."""
    if stay["end_reason"] == GOES_ON:
        return "goes on"
    how: str = stay["end_reason"]
    return f"{how}, alive" if stay["cause"] in ALIVE else how


def _conclusions(group_id: str, stays: list[Json], in_force_s: float | None) -> Iterator[str]:
    """Say of each client that fell silent and was back at once how often that was, and what to try; and who died."""
    yield from _deaths(stays)
    back = [each for each in stays if each["end_reason"] == "session_expired" and each["back_at"] is not None]
    by_client = sorted(back, key=_client)
    for client, same in groupby(by_client, key=_client):
        evictions = list(same)
        needed_s = max(
            each["session_timeout_ms"] / 1000 + _seconds(each["ended_at"], each["back_at"]) for each in evictions
        )
        times, away = counted(len(evictions), "time"), precise(_away_s(evictions))
        yield f"\n{wording.name(client)} was put out for silence {times}, and was back within {away}."
        if in_force_s is not None and needed_s <= in_force_s:
            yield f"The session timeout in force, {precise(in_force_s)}, would have kept it: nothing is left to change."
            continue
        yield "If its process was the same all the time, a longer session timeout would have kept it. Try one out:"
        command = f"muster groups tuning {wording.group_option(group_id)}"
        yield f"  {command} --session-timeout-ms {_suggested_ms(needed_s)}"
        yield "If it was started again each time, its own log says why."


def _deaths(stays: list[Json]) -> Iterator[str]:
    """Say of each client that joined anew before its member was put out how often that was: no timeout cures it."""
    dead = sorted((each for each in stays if each["successor_at"] is not None), key=_client)
    for client, same in groupby(dead, key=_client):
        times = counted(len(list(same)), "time")
        yield f"\n{wording.name(client)} died {times}: it had joined anew before the silent member was put out."
        yield "No timeout cures that. Its own log says why; a longer session timeout makes everybody wait longer."


def _client(stay: Json) -> str:
    name: str = stay["group_instance_id"] or stay["client_id"]
    return name


def _away_s(evictions: list[Json]) -> float:
    return max(_seconds(each["ended_at"], each["back_at"]) for each in evictions)


def _suggested_ms(needed_s: float) -> int:
    wanted_s = ROOM * needed_s
    return 1000 * next((step for step in STEPS_S if step >= wanted_s), STEPS_S[-1])


def _between(begins: str | None, ends: str | None) -> str | None:
    return None if begins is None or ends is None else precise(_seconds(begins, ends))


def _seconds(begins: str, ends: str) -> float:
    return (dt.datetime.fromisoformat(ends) - dt.datetime.fromisoformat(begins)).total_seconds()
