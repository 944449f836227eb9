"""Words and numbers for the terminal: durations, lags, names that cannot control it, groups and their members."""

from __future__ import annotations

import datetime as dt
import json
import re
import shlex
from collections.abc import Iterable
from typing import Any, Final

Json = Any

MINUTE_S = 60
HOUR_S = 3_600
DAY_S = 86_400
AFTER_THE_RUN: Final = " (when the run is applied)"
"""The note of print_undo while a run has not yet archived what the undo restores."""
BESIDE_ASCII: Final = re.compile(r"[^\0-~]")
NO_UNDO: Final = "There is no undo."
PREPARING: Final = "PreparingRebalance"
REBALANCING: Final = (PREPARING, "CompletingRebalance")
MEMBER_ID_TAIL: Final = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


FLAPPING_REBALANCES: Final = 10
"""A Stable group with so many rebalances within an hour is flapping, in the console, too."""


def state_now(state: str, rebalances_last_hour: int) -> str:
    """Return a group's state, or `flapping` for a Stable group with many rebalances."""
    return "Stable, flapping" if state == "Stable" and rebalances_last_hour >= FLAPPING_REBALANCES else state


def duration(seconds: float) -> str:
    """Return a duration as text, rounded to a whole number of one unit."""
    if round(seconds) < MINUTE_S:
        return f"{round(seconds)} s"
    if (minutes := round(seconds / MINUTE_S)) < HOUR_S // MINUTE_S:
        return f"{minutes} min"
    if (hours := round(seconds / HOUR_S)) < DAY_S // HOUR_S:
        return f"{hours} h"
    days = round(seconds / DAY_S)
    return "1 day" if days == 1 else f"{days} days"


def precise(seconds: float) -> str:
    """Return a duration as text; short ones in milliseconds."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if round(seconds, 1) < MINUTE_S else duration(seconds)


def since(at: str | None) -> str | None:
    """Return the time since an RFC 3339 time, as text."""
    if at is None:
        return None
    return duration(max(0.0, (dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(at)).total_seconds()))


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def moment(rfc3339: str | None) -> str | None:
    """Return a time in UTC, to the second."""
    return None if rfc3339 is None else rfc3339[:19].replace("T", " ")


def count(number: int | None) -> str:
    """Return a number with thousands separators; a dash for None."""
    return "–" if number is None else f"{number:,}"


def lag(records: int | None, log_end_at: str | None, *, is_lower_bound: bool) -> int | str | None:
    """Return a lag in records as text; a lower bound has a sign, and one of 0 names the last report of the log end."""
    if not is_lower_bound:
        return records
    if records is None and log_end_at is not None:
        return f"0 when last known, {log_end_at[:19].replace('T', ' ')}"
    return f"≥{records}"


def printable(text: str) -> str:
    """Return an untrusted name with its control characters escaped."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def printable_json(text: str) -> str:
    """Return equal JSON in which the control characters of strings are escaped."""
    return BESIDE_ASCII.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)


def shell_word(text: str) -> str:
    """Return an untrusted name as one word of a POSIX shell, safe to paste.

    What would command the terminal is made by `printf`, of which a shell drops newlines at the end: those are quoted.
    """
    if text.isprintable():
        return shlex.quote(text)
    inner = text.rstrip("\n")
    octal = "".join(f"\\{byte:03o}" for byte in inner.encode())
    return f"\"$(printf '{octal}')\"" + (shlex.quote(text[len(inner) :]) if inner != text else "")


def group_option(group_id: str) -> str:
    """Return the option that names a group, safe to paste into a shell, also if the id begins with a dash."""
    return f"--group={shell_word(group_id)}"


def client_id_of(member_id: str | None) -> str | None:
    """Return the client id that a member id begins with."""
    return None if member_id is None else MEMBER_ID_TAIL.sub("", member_id)


def print_undo(change_ids: Iterable[str], note: str = "") -> None:
    """Print the command that undoes each change."""
    for change_id in change_ids:
        print(f"Undo with: muster changes undo {change_id}{note}")


def apply_timeout_message(run_id: str, after_s: float) -> str:
    """Return the sentence about a run that was not applied in time, with the command that shows it."""
    message = f"Run {run_id} is not completed after {duration(after_s)}"
    return f"{message}; it continues; muster runs show {shell_word(run_id)} shows its progress."


# -- of a group, as the API describes it ----------------------------------------------------------------


def log_end(partition: Json) -> int | str | None:
    """Return the log end offset of a partition of `/lag` as text; a stale one has a sign."""
    end: int | None = partition["log_end_offset"]
    return f"≥{end}" if partition["is_log_end_stale"] else end


def print_stale(partitions: list[Json]) -> None:
    """Print how many of these log ends are stale, if any, and when the oldest was last reported."""
    stale = [each for each in partitions if each["is_log_end_stale"]]
    if stale:
        oldest = min(stale, key=lambda each: each["log_end_at"])
        named = f"{printable(oldest['topic'])} {oldest['partition']}"
        print(
            f"The log ends of {counted(len(stale), 'partition')} are out of date: that of {named} was last reported "
            f"{moment(oldest['log_end_at'])} UTC. Log ends and lags are at least as shown."
        )


def owned_count(member: Json) -> int | None:
    """Return the number of partitions that a member owns, or owned last; None: its assignment cannot be read."""
    owned = member["owned_partitions"]
    return None if owned is None else sum(len(each["partitions"]) for each in owned)


def owned_list(member: Json) -> str:
    """Return the partitions that a member owns, by topic, as text."""
    return " ".join(f"{each['topic']}:{','.join(map(str, each['partitions']))}" for each in member["owned_partitions"])


def awaited(member: Json, leader: str | None) -> str | None:
    """Return the request of a member that the group waits for; the leader's sync brings all assignments."""
    is_leader = member["missing_request"] == "sync" and member["member_id"] == leader
    return "sync (leader)" if is_leader else member["missing_request"]


def awaited_lines(described: Json) -> list[str]:
    """Return lines with the awaited members and the deadline; none if the group waits for no member."""
    lines = []
    if described["pending_members"]:
        lines.append(f"  {counted(described['pending_members'], 'new member')} with a pending member id")
    if described["waiting_for"]:
        lines.append(f"  waits for {awaited_text(described)}")
    return lines


def awaited_text(described: Json) -> str:
    """Return the awaited members by client id, host and member id, their missing request, and the deadline."""
    members = {each["member_id"]: each for each in described["members"]}
    named = ", ".join(_member_label(each, members.get(each), described) for each in described["waiting_for"])
    until = described["waiting_until"]
    named += " to join" if described["state"] == PREPARING else " to sync"
    return named + (f" until {moment(until)} UTC{_remaining(until)}" if until else "")


def _member_label(member_id: str, member: Json | None, described: Json) -> str:
    if member is None:
        return printable(member_id)
    is_leader = described["state"] != PREPARING and member_id == described["leader"]
    role = ", the leader" if is_leader else ""
    return printable(f"{member['client_id']} at {member['client_host'] or '?'} ({member_id}{role})")


def _remaining(until: str) -> str:
    left_s = (dt.datetime.fromisoformat(until) - dt.datetime.now(dt.UTC)).total_seconds()
    return f" ({duration(left_s)} from now)" if left_s > 0 else ""
