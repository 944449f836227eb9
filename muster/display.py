"""Formats groups, rebalances, runs and durations for the terminal."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # What is put into words comes from the database, and the words do not.
    from muster.overview import GroupView, MemberView, RebalanceView, RunView

MINUTE_S = 60
HOUR_S = 3_600
DAY_S = 86_400


def duration(seconds: float) -> str:
    """Say how long something took, or how long ago it was, in one unit, of which it is rounded to a whole number."""
    if round(seconds) < MINUTE_S:
        return f"{round(seconds)} s"
    if (minutes := round(seconds / MINUTE_S)) < HOUR_S // MINUTE_S:
        return f"{minutes} min"
    if (hours := round(seconds / HOUR_S)) < DAY_S // HOUR_S:
        return f"{hours} h"
    days = round(seconds / DAY_S)
    return "1 day" if days == 1 else f"{days} days"


def lag(records: int | None, log_end_at: str | None, *, is_lower_bound: bool) -> int | str | None:
    """Write a lag in records: a lower bound where a log's end is out of date, and since when that is where it is 0."""
    if not is_lower_bound:
        return records
    if records is None and log_end_at is not None:
        return f"0 when last known, {log_end_at[:19].replace('T', ' ')}"
    return f"≥{records}"


def printable(text: str) -> str:
    """Return an untrusted name with its control characters escaped."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


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
    """Write the option that names a group, to be pasted into a shell; a leading dash makes no option of it."""
    return f"--group={shell_word(group_id)}"


def rebalance(view: RebalanceView | None) -> str:
    """Say in one line why a group rebalances, or why it did last and when."""
    *reason, when = rebalance_lines(view)
    return f"{' '.join(reason)}, {when}" if reason else when


def rebalance_lines(view: RebalanceView | None) -> list[str]:
    """Say why a group rebalances, or why it did last, through whom and when, each on a line of its own."""
    if view is None:
        return ["never"]
    if view.ended_s_ago is None:
        return [f"now: {view.trigger}"]
    who = [f"of {printable(view.client_id)}"] if view.client_id else []
    return [view.trigger, *who, f"{duration(view.ended_s_ago)} ago"]


def member(view: MemberView) -> str:
    """Name a member by its client id, with how many partitions it has."""
    return f"{printable(view.client_id)} ({view.partition_count})"


def members(view: GroupView) -> str:
    """Name all members of a group."""
    return ", ".join(member(each) for each in view.members) or "none"


def count(number: int | None) -> str:
    """Write a number for people; a dash where there is none."""
    return "–" if number is None else f"{number:,}"


def group(view: GroupView) -> str:
    """Say in one line how a group stands."""
    generation = "" if view.generation is None else f", generation {view.generation}"
    return (
        f"{printable(view.group_id)}: {view.state}{generation}, members {members(view)}, committed "
        f"{count(view.committed_records)}, lag {count(view.lag_records)}, last rebalance {rebalance(view.rebalance)}"
    )


def apply_timeout_message(run_id: str, after_s: float) -> str:
    """Say that a run was waited for in vain, and how to look again."""
    message = f"Run {run_id} is not completed after {duration(after_s)}"
    return f"{message}; it continues; muster runs show {shell_word(run_id)} shows its progress."


def run(view: RunView) -> str:
    """Say in one line what a maintenance run found, and what came of it."""
    expired = ", ".join(f"{number} of {printable(group_id)}" for group_id, number in view.expired_by_group.items())
    kept = ", ".join(f"{number} {outcome}" for outcome, number in view.outcomes.items() if outcome != "expired")
    found = "; ".join(part for part in (f"expired {expired}" if expired else "", kept) if part) or "nothing was due"
    return f"{view.kind} {view.status}: {found}"
