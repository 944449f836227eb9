"""Count heartbeats a second; the target is 0.6 of the ceiling.

The ceiling is a bare route of the same server, which decodes the same body into the same struct and returns a constant.
A bare ASGI application, which ignores the body, is measured for comparison. Rounds alternate.

Run: python -m bench.heartbeats [FILE]
"""

from dataclasses import dataclass

from bench.bench_servers import Place, bare_server, in_durable_place, node
from bench.closed_loop import Load
from bench.figures import Figure, run_benchmark
from bench.group_members import join_groups
from bench.http_load import post, put_load


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the benchmark."""

    connections: int = 64
    rounds: int = 7
    round_s: float = 2.0


def measure(place: Place, size: Size) -> list[Figure]:
    """Return the benchmark's figures."""
    with node(place) as muster, bare_server(place) as bare:
        members = join_groups([muster.url], size.connections)
        asked = {
            "muster": [(muster.url, [post(f"{one.path}/heartbeat", one.body())]) for one in members],
            "bare": [(bare.url, [post("/heartbeat", one.body())]) for one in members],
            "asgi": [(bare.url, [post("/asgi", one.body())]) for one in members],
        }
        pids = {"muster": place.pids(muster), "bare": bare.pids("bare"), "asgi": {}}
        rounds = [
            {name: put_load(requests, size.round_s, pids[name]) for name, requests in asked.items()}
            for _ in range(size.rounds)
        ]
    return _figures(rounds)


def _figures(rounds: list[dict[str, Load]]) -> list[Figure]:
    """Report the median round: a disturbance affects a whole round."""

    def ratio(each: dict[str, Load]) -> float:
        return each["muster"].per_s / each["bare"].per_s

    rounds.sort(key=ratio)
    chosen = rounds[len(rounds) // 2]
    per_s = {name: load.per_s for name, load in chosen.items()}
    details = {
        **chosen["muster"].details(),
        **chosen["bare"].details("bare_"),
        "lowest_ratio": ratio(rounds[0]),
        "highest_ratio": ratio(rounds[-1]),
    }
    beside_asgi = Figure("heartbeats, against bare ASGI", per_s["muster"], "a second", "a bare app", per_s["asgi"])
    return [
        Figure("heartbeats", per_s["muster"], "a second", "a bare route", per_s["bare"], wanted=0.6, details=details),
        beside_asgi,
    ]


if __name__ == "__main__":
    run_benchmark("heartbeats", "Count heartbeats a second over HTTP.", in_durable_place(measure, Size()))
