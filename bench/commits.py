"""Count durable commits a second; the target is 0.7 of the ceiling.

64 connections commit as members of separate groups, with 1 and with 100 partitions a request. The ceiling is the barest
server that answers when Postgres has a commit (`bench.bare_commits`): it appends the same bytes to a log, in batches,
and does nothing else. Muster's checkpoints run meanwhile, and their time is in its processor time.

Run: python -m bench.commits [FILE]
"""

from dataclasses import dataclass

from bench.bench_servers import Place, Server, ask, bare_commits, in_durable_place, node, sums
from bench.closed_loop import Load
from bench.figures import Figure, run_benchmark
from bench.group_members import Member, join_groups
from bench.http_load import post, put_load

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


def measure(place: Place, size: Size) -> list[Figure]:
    """Return the benchmark's figures."""
    with node(place) as muster, bare_commits(place) as bare:
        members = join_groups([muster.url], size.connections)
        figures = []
        for partitions in size.partitions:
            rounds = [_round(place, size, members, partitions, muster, bare) for _ in range(size.rounds)]
            figures.append(_figure(partitions, rounds))
        return figures


def _round(place: Place, size: Size, members: list[Member], partitions: int, muster: Server, bare: Server) -> Round:
    bodies = [[offsets_body(one, partitions, number) for number in range(DIFFERENT_BODIES)] for one in members]
    bare_load = _bare_load(place, bare, bodies, size.round_s)
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
    return Round(load, bare_load, batch_rows)


def _bare_load(place: Place, server: Server, bodies: list[list[bytes]], round_s: float) -> Load:
    asked = [(server.url, [post("/offsets", each) for each in some]) for some in bodies]
    pids = {f"bare_{name}": of_name for name, of_name in place.pids(server).items()}
    return put_load(asked, round_s, pids)


def offsets_body(member: Member, partitions: int, number: int) -> bytes:
    """Return the body of a member's commit of some partitions; a greater number commits greater offsets."""
    offsets = [
        {"topic": "orders", "partition": each, "offset": number * 1_000 + each, "metadata": "m"}
        for each in range(partitions)
    ]
    return member.body(offsets=offsets)


def _look_at_what_stands(member: Member, partitions: int) -> None:
    stands = ask("GET", f"{member.url}/offsets")["offsets"]
    assert len(stands) >= partitions, f"{len(stands)} partitions are stored, {partitions} were committed"


def _figure(partitions: int, rounds: list[Round]) -> Figure:
    """Report the median round: a disturbance affects a whole round."""
    rounds.sort(key=_ratio)
    chosen = rounds[len(rounds) // 2]
    return Figure(
        f"durable commits, {partitions} partition{'s' if partitions > 1 else ''} a request",
        chosen.muster.per_s,
        "a second",
        "the barest log of commits",
        chosen.bare.per_s,
        wanted=0.7,
        details={
            **chosen.muster.details(),
            **chosen.bare.details("bare_"),
            "offsets_in_a_transaction": chosen.batch_rows,
            "lowest_ratio": _ratio(rounds[0]),
            "highest_ratio": _ratio(rounds[-1]),
        },
    )


def _ratio(each: Round) -> float:
    return each.muster.per_s / each.bare.per_s


if __name__ == "__main__":
    run_benchmark("commits", "Count durable commits a second over HTTP.", in_durable_place(measure, Size()))
