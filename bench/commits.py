"""Count durable commits a second; the target is 0.7 of the ceiling.

64 connections commit as members of separate groups, with 1 and with 100 partitions a request. The ceiling is the lower
of two rates: requests to a bare route that decodes the same body, and rows that Postgres stores by the fastest batched
upsert that we know, in transactions as large as the node's. With one partition, the result is also compared with the
barest write batching (`bench.bare_commits`), which pays for both ceilings on the same cores.

Run: python -m bench.commits [FILE]
"""

from dataclasses import dataclass

from bench.bench_servers import Place, Server, ask, bare_commits, bare_server, durable_place, node, sums
from bench.closed_loop import Load
from bench.figures import Figure, run_benchmark
from bench.group_members import Member, join_groups
from bench.http_load import post, put_load
from bench.postgres_upserts import rows_per_s

DIFFERENT_BODIES = 20
"""Different bodies that a connection sends in turn, with increasing offsets."""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the benchmark."""

    connections: int = 64
    partitions: tuple[int, ...] = (1, 100)
    rounds: int = 5
    round_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Round:
    """The results of one round."""

    muster: Load
    bare: Load
    batch_rows: float
    """Mean number of offsets in a transaction."""
    upserted_per_s: float
    barest: Load | None
    """The barest write batching under the same requests; it stores only their first offset."""


def measure(place: Place, size: Size) -> list[Figure]:
    """Return the benchmark's figures."""
    with node(place) as muster, bare_server(place) as bare, bare_commits(place) as barest:
        members = join_groups([muster.url], size.connections)
        servers = (muster, bare, barest)
        figures = []
        for partitions in size.partitions:
            rounds = [_round(place, size, members, partitions, servers) for _ in range(size.rounds)]
            figures += _figures(partitions, rounds)
        return figures


def _round(
    place: Place, size: Size, members: list[Member], partitions: int, servers: tuple[Server, Server, Server]
) -> Round:
    muster, *others = servers
    bodies = [[_body(one, partitions, number) for number in range(DIFFERENT_BODIES)] for one in members]
    bare, barest = (_bare_load(each, bodies, size.round_s) for each in others)
    asked = [
        (one.url, [post(f"{one.path}/offsets", each) for each in some])
        for one, some in zip(members, bodies, strict=True)
    ]
    before = sums(members[0].url)
    load = put_load(asked, size.round_s, place.pids(muster))
    after = sums(members[0].url)
    batches = after["muster_batch_flush_time_seconds_count"] - before["muster_batch_flush_time_seconds_count"]
    batch_rows = (after["muster_offset_commit_total"] - before["muster_offset_commit_total"]) / batches
    _look_at_what_stands(members[0], partitions)
    keys = size.connections * partitions
    upserted = rows_per_s(place.database_url, keys, max(1, round(batch_rows)), size.round_s / 10)
    return Round(load, bare, batch_rows, upserted, barest if partitions == 1 else None)


def _bare_load(server: Server, bodies: list[list[bytes]], round_s: float) -> Load:
    asked = [(server.url, [post("/offsets", each) for each in some]) for some in bodies]
    return put_load(asked, round_s, server.pids("bare"))


def _body(member: Member, partitions: int, number: int) -> bytes:
    offsets = [
        {"topic": "orders", "partition": each, "offset": number * 1_000 + each, "metadata": "m"}
        for each in range(partitions)
    ]
    return member.body(offsets=offsets)


def _look_at_what_stands(member: Member, partitions: int) -> None:
    stands = ask("GET", f"{member.url}/offsets")["offsets"]
    assert len(stands) >= partitions, f"{len(stands)} partitions are stored, {partitions} were committed"


def _figures(partitions: int, rounds: list[Round]) -> list[Figure]:
    """Report the median round: a disturbance affects a whole round."""

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
            **chosen.muster.details(),
            **chosen.bare.details("bare_"),
            "offsets_in_a_transaction": chosen.batch_rows,
            "bare_route_per_s": chosen.bare.per_s,
            "postgres_rows_per_s": chosen.upserted_per_s,
            "lowest_ratio": rounds[0].muster.per_s / ceiling(rounds[0]),
            "highest_ratio": rounds[-1].muster.per_s / ceiling(rounds[-1]),
        },
    )
    if chosen.barest is None:
        return [figure]
    barest = f"the barest write batching, {chosen.barest.per_s / ceiling(chosen):.2f} of the ceiling itself"
    beside = (barest, chosen.barest.per_s)
    details = chosen.barest.details("bare_")
    return [figure, Figure(f"{what}, against it", chosen.muster.per_s, "a second", *beside, details=details)]


def main() -> list[Figure]:
    with durable_place() as place:
        return measure(place, Size())


if __name__ == "__main__":
    run_benchmark("commits", "Count durable commits a second over HTTP.", main)
