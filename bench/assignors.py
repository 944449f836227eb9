"""Measure the processor time of each assignor with 10,000 partitions and 1,000 members.

The ceiling is the time to create the partitions and distribute them in a plain loop. With a path, the figures are also
written there as JSON.

Run: python -m bench.assignors [FILE]
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from time import process_time

from bench.figures import Figure, report
from coordinator_core.assignors import ASSIGNORS, Assignment, MemberSubscription, TopicPartition, assign

MEMBERS = 1_000
TOPICS = 100
PARTITIONS_A_TOPIC = 100
CHANGED_MEMBERS = MEMBERS // 100
REPEATS = 5
SEED = 11
WANTED_MS = {"range": 100.0, "roundrobin": 100.0, "sticky": 1_000.0, "cooperative-sticky": 1_000.0}
UNEQUAL_WANTED_MS = 5_000.0
BESIDE = "a plain loop"

Group = list[MemberSubscription]
COUNTS = {f"topic-{number:03}": PARTITIONS_A_TOPIC for number in range(TOPICS)}


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement: the least processor time of several repeats, and its ratio to the ceiling."""

    assignor: str
    subscriptions: str
    start: str
    took_ms: float
    ratio: float
    wanted_ms: float


def main() -> None:
    """Measure, print, and write the figures if a path is given."""
    parser = argparse.ArgumentParser(description="Time the assignors.")
    parser.add_argument("file", type=Path, nargs="?", help="path for the figures as JSON")
    file: Path | None = parser.parse_args().file
    ceiling_ms = took_ms(partial(hand_out, COUNTS, MEMBERS))
    print(f"{MEMBERS} members, {sum(COUNTS.values())} partitions of {TOPICS} topics, best of {REPEATS}")
    print(f"ceiling, a plain loop: {ceiling_ms:.1f} ms\n")
    print(f"{'assignor':<20}{'subscriptions':<16}{'start':<24}{'ms':>8}{'x ceiling':>11}{'wanted ms':>11}")
    rows = []
    for row in measured(ceiling_ms):
        rows.append(row)
        print(
            f"{row.assignor:<20}{row.subscriptions:<16}{row.start:<24}"
            f"{row.took_ms:>8.1f}{row.ratio:>11.1f}{row.wanted_ms:>11.0f}"
        )
    if file is not None:
        written = {**report("assignors", slowest(ceiling_ms, rows)), "rows": [asdict(row) for row in rows]}
        file.write_text(json.dumps(written, indent=2) + "\n")


def measured(ceiling_ms: float) -> Iterator[Row]:
    """Measure every assignor from every start, with equal and with differing subscriptions."""
    for subscriptions, members in {"all alike": alike(), "half, at random": at_random()}.items():
        for name in ASSIGNORS:
            wanted_ms = WANTED_MS[name] if subscriptions == "all alike" else UNEQUAL_WANTED_MS
            for start, group in starts(name, members).items():
                best_ms = took_ms(partial(assign, name, COUNTS, group))
                yield Row(name, subscriptions, start, best_ms, best_ms / ceiling_ms, wanted_ms)


def starts(name: str, members: Group) -> dict[str, Group]:
    """Return the starting groups: new, unchanged, few members replaced, and one member owning everything."""
    first = assign(name, COUNTS, members)
    return {
        "from scratch": members,
        "nothing changed": rejoining(members, first),
        "1 % of members changed": rejoining(changed(members), first),
        "one member owns all": hoarded(members),
    }


def alike() -> Group:
    return [MemberSubscription(f"member-{number:04}", None, tuple(COUNTS)) for number in range(MEMBERS)]


def at_random() -> Group:
    chance = Random(SEED)
    return [
        MemberSubscription(f"member-{number:04}", None, tuple(chance.sample(list(COUNTS), TOPICS // 2)))
        for number in range(MEMBERS)
    ]


def changed(members: Group) -> Group:
    """Replace some members by new ones with the same subscription."""
    gone = set(Random(SEED).sample(range(len(members)), CHANGED_MEMBERS))
    return [
        MemberSubscription(f"new-{number:04}", None, one.topics) if number in gone else one
        for number, one in enumerate(members)
    ]


def rejoining(members: Group, assignment: Assignment) -> Group:
    """Return the members with their previous partitions."""
    return [
        MemberSubscription(one.member_id, None, one.topics, assignment.get(one.member_id, ()), 1) for one in members
    ]


def hoarded(members: Group) -> Group:
    """Return the members; the first owns all partitions that it subscribes to."""
    first, *others = members
    owned = tuple(TopicPartition(topic, number) for topic in first.topics for number in range(COUNTS[topic]))
    return [MemberSubscription(first.member_id, None, first.topics, owned, 1), *others]


def hand_out(counts: Mapping[str, int], members: int) -> list[tuple[TopicPartition, ...]]:
    """Distribute partitions in a plain loop, whatever the subscriptions: the ceiling."""
    shares: list[list[TopicPartition]] = [[] for _ in range(members)]
    turn = 0
    for topic, count in counts.items():
        for number in range(count):
            shares[turn % members].append(TopicPartition(topic, number))
            turn += 1
    return [tuple(share) for share in shares]


def took_ms(work: Callable[[], object]) -> float:
    """Return the least processor time of several repeats."""
    times = []
    for _ in range(REPEATS):
        started = process_time()
        work()
        times.append(process_time() - started)
    return min(times) * 1_000


def slowest(ceiling_ms: float, rows: Sequence[Row]) -> list[Figure]:
    """Return each assignor's worst time, for the table of all benchmarks."""
    worst = {row.assignor: row for row in sorted(rows, key=lambda row: row.took_ms)}
    return [
        Figure(f"{name}, {row.subscriptions}, {row.start}", row.took_ms, "ms", BESIDE, ceiling_ms, better="less")
        for name, row in worst.items()
    ]


if __name__ == "__main__":
    main()
