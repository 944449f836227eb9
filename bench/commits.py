"""A node stores at least 0.7 of the commits that its server and Postgres would let through.

64 connections commit as members of groups of their own, one partition a request, and 100. The ceiling is the lesser of
two: requests that a bare route of the same server takes, which decodes the same body; and rows that Postgres takes in
the best batched upsert that we know, with as many rows in a transaction as the node's own have. Every answered commit
is durable. With one partition, the barest group commit on the same server stands beside it: what is left when both
ceilings have to be paid at once, on the same cores.

Run: python -m bench.commits [FILE]
"""

from dataclasses import dataclass

from bench.figures import Figure, tell
from bench.http_load import Load, post, put_load
from bench.members import Member, join_groups
from bench.servers import Place, ask, bare_commits, bare_server, durable_place, node, sums
from bench.upserts import rows_per_s

DIFFERENT_BODIES = 20
"""How many bodies a connection sends in turn, each further on than the one before."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it."""

    connections: int = 64
    partitions: tuple[int, ...] = (1, 100)
    rounds: int = 5
    round_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Round:
    """What one round found."""

    muster: Load
    bare: Load
    batch_rows: float
    """Offsets in a transaction, on average."""
    upserted_per_s: float
    barest: Load | None
    """What the barest group commit makes of the same requests, which stores their first offset only."""


def measure(place: Place, size: Size) -> list[Figure]:
    """Measure."""
    with node(place) as muster, bare_server(place) as bare, bare_commits(place) as barest:
        members = join_groups([muster.url], size.connections)
        figures = []
        for partitions in size.partitions:
            rounds = [_round(place, size, members, partitions, (bare.url, barest.url)) for _ in range(size.rounds)]
            figures += _figures(partitions, rounds)
        return figures


def _round(place: Place, size: Size, members: list[Member], partitions: int, bare_urls: tuple[str, str]) -> Round:
    bodies = [[_body(one, partitions, number) for number in range(DIFFERENT_BODIES)] for one in members]
    bare, barest = (
        put_load([(url, [post("/offsets", each) for each in some]) for some in bodies], size.round_s)
        for url in bare_urls
    )
    asked = [
        (one.url, [post(f"{one.path}/offsets", each) for each in some])
        for one, some in zip(members, bodies, strict=True)
    ]
    before = sums(members[0].url)
    muster = put_load(asked, size.round_s)
    after = sums(members[0].url)
    batches = after["muster_batch_flush_time_seconds_count"] - before["muster_batch_flush_time_seconds_count"]
    batch_rows = (after["muster_offset_commit_total"] - before["muster_offset_commit_total"]) / batches
    _look_at_what_stands(members[0], partitions)
    keys = size.connections * partitions
    upserted = rows_per_s(place.database_url, keys, max(1, round(batch_rows)), size.round_s / 10)
    return Round(muster, bare, batch_rows, upserted, barest if partitions == 1 else None)


def _body(member: Member, partitions: int, number: int) -> bytes:
    offsets = [
        {"topic": "orders", "partition": each, "offset": number * 1_000 + each, "metadata": "m"}
        for each in range(partitions)
    ]
    return member.body(offsets=offsets)


def _look_at_what_stands(member: Member, partitions: int) -> None:
    stands = ask("GET", f"{member.url}/offsets")["offsets"]
    assert len(stands) >= partitions, f"{len(stands)} partitions stand, {partitions} were committed"


def _figures(partitions: int, rounds: list[Round]) -> list[Figure]:
    """Tell of the round in the middle: what disturbs a machine disturbs a whole round."""

    def ceiling(each: Round) -> float:
        return min(each.bare.per_s, each.upserted_per_s / partitions)

    rounds.sort(key=lambda each: each.muster.per_s / ceiling(each))
    chosen = rounds[len(rounds) // 2]
    is_route = ceiling(chosen) == chosen.bare.per_s
    what = f"durable commits, {partitions} partition{'s' if partitions > 1 else ''} a request"
    figure = Figure(
        what,
        chosen.muster.per_s,
        "a second",
        "a bare route" if is_route else "Postgres alone",
        ceiling(chosen),
        wanted=0.7,
        details={
            "p50_ms": chosen.muster.p50_ms,
            "p99_ms": chosen.muster.p99_ms,
            "offsets_in_a_transaction": chosen.batch_rows,
            "bare_route_per_s": chosen.bare.per_s,
            "postgres_rows_per_s": chosen.upserted_per_s,
            "lowest_ratio": rounds[0].muster.per_s / ceiling(rounds[0]),
            "highest_ratio": rounds[-1].muster.per_s / ceiling(rounds[-1]),
        },
    )
    if chosen.barest is None:
        return [figure]
    barest = f"the barest group commit, {chosen.barest.per_s / ceiling(chosen):.2f} of the ceiling itself"
    return [figure, Figure(f"{what}, beside it", chosen.muster.per_s, "a second", barest, chosen.barest.per_s)]


def main() -> list[Figure]:
    with durable_place() as place:
        return measure(place, Size())


if __name__ == "__main__":
    tell("commits", "Count durable commits a second over HTTP.", main)
