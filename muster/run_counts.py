"""Counts of a maintenance run in words: its size, and its candidates by reason and by outcome.

The console has the same words, in run_counts.js.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.display import count, counted

SIZE: Final = {
    "candidates": ("Candidates", "what the run proposes to change; each is checked again when the run is applied"),
    "of": ("Examined", "all offsets, groups or days from which the candidates were chosen"),
    "groups": ("Groups", "groups with at least one candidate"),
    "largest_group": ("Largest group", "candidates of the group with the most of them"),
    "largest_group_permille": (
        "Largest share of a group",
        (
            "candidates as a share of all offsets of their group, in the group where it is largest;"
            " small groups are left out"
        ),
    ),
    "rows": ("Rows", "rows of history in the copied days"),
    "unverified": (
        "Copies that did not match",
        "days of history that are not proposed; the next run copies them again",
    ),
}
"""The counts of the size of a run: a title and a meaning."""
REASONS: Final = {
    "group_empty": "the group has had no members for longer than its retention",
    "simple_group": "the consumer uses no group membership, and has committed nothing for longer than the retention",
    "topic_unsubscribed": "no member subscribes to the topic any more, and the last commit is older than the retention",
    "own_expiry": "the offset has an expiry time of its own, which has passed",
    "topic_deleted": "the topic was deleted",
    "undo": "the offset was changed by a change that is undone",
    "empty_without_offsets": "the group has no members and no offsets",
}
"""The counts of candidates by reason."""
OUTCOMES: Final = {
    "undecided": "not checked again yet",
    "expired": "removed and archived: the offset was still due",
    "removed": "the offset was removed",
    "restored": "the offset was restored",
    "retired": "the group was deleted",
    "dropped": "the day was dropped from Postgres; the archive has it",
    "committed_since": "kept: committed again since the proposal",
    "not_due": "kept: no longer due by the present rule, settings and state of the group",
    "already_gone": "nothing to do: removed by something else since the proposal",
    "newer_there": "kept: committed or reset since the change that is undone",
    "gone_since": "not restored: deleted since the change that is undone",
    "group_active": "kept: members of the group read the topic, or may",
    "no_such_partition": "not restored: the topic has fewer partitions now",
    "not_empty": "kept: the group has members",
    "woke_since": "kept: the group was active since the proposal",
    "has_offsets": "kept: the group has offsets",
    "being_joined": "kept: a client is joining the group",
    "changed_since": "kept: rows were added or deleted since the copy was made",
    "still_open": "kept: the day is not over",
    "copy_not_found": "kept: the node finds no copy with as many rows",
    "unknown_partition": "kept: Postgres has no such partition",
}
"""The counts of candidates by outcome."""


def counts_line(run: Any) -> str:  # noqa: ANN401 - JSON
    """Return the candidates of a run by outcome as text; only their number before the decision."""
    counts = run["counts"]
    outcomes = [key for key in counts if key not in SIZE and key not in REASONS and counts[key]]
    named = ", ".join(f"{count(counts[key])} {_plain(key)}" for key in sorted(outcomes))
    return named or counted(counts.get("candidates", 0), "candidate")


def counts_rows(counts: Mapping[str, int]) -> Iterator[tuple[str, str, str]]:
    """Return title, count and meaning of each count: the size, the reasons, the outcomes, others."""
    for key, (title, meaning) in SIZE.items():
        if key in counts:
            yield title, _written(key, counts[key]), meaning
    for part, meanings in (("Reason", REASONS), ("Outcome", OUTCOMES)):
        yield from (
            (f"{part}: {_plain(key)}", _written(key, counts[key]), meaning)
            for key, meaning in meanings.items()
            if key in counts
        )
    others = sorted(counts.keys() - SIZE.keys() - REASONS.keys() - OUTCOMES.keys())
    yield from ((_plain(key).capitalize(), _written(key, counts[key]), "") for key in others)


def _plain(key: str) -> str:
    return key.replace("_", " ")


def _written(key: str, number: int) -> str:
    return f"{number / 10:.1f} %" if key.endswith("_permille") else count(number)
