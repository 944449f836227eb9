"""Measure the requests of one tenant beside another that sends as much as it can.

The healthy tenant's members send heartbeats and commits of one partition, with pauses. The other tenant has a token of
its own, and a process of its own: on many connections it commits 10,000 partitions at a time, floods the node with
heartbeats, sends large bodies, or fetches pages of offsets. It ignores Retry-After. The healthy tenant alone is
measured before.

The cost of quotas is the node's processor time a heartbeat with all quotas, which refuse nothing, and without them, in
short turns; and that of all checks the same, compared to a node without tokens.

Run: python -m bench.tenants [FILE]
"""

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle, islice, permutations
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

import msgspec

from api.shared.identity import Role
from api.shared.tokens import TokensFileBody, token_entry
from bench.bench_servers import Place, durable_place, in_durable_place, node
from bench.closed_loop import Sender, send_load
from bench.commits import offsets_body
from bench.figures import Figure, middle, run_benchmark
from bench.group_members import Member, join_groups
from bench.http_load import get, is_complete, post, put_load

LIMIT_MS: Final = 50.0
"""The wanted maximum of the healthy tenant's p99."""
HEALTHY, HOSTILE = "healthy", "hostile"
"""The tenants, and their tokens."""
START_S: Final = 60.0
ATTACK_S: Final = 3_600.0
"""Longer than any round."""
SECRET: Final = "a secret of thirty-two bytes, for a benchmark"


QUOTAS: Final = dict.fromkeys(
    (
        "client_quota_requests_per_s",
        "client_quota_bytes_per_s",
        "group_quota_requests_per_s",
        "group_quota_bytes_per_s",
    ),
    1_000_000_000,
)
"""Quotas that refuse nothing."""
CHECKS: Final[Sequence[tuple[str, Mapping[str, int]]]] = ((HOSTILE, QUOTAS), (HOSTILE, {}), ("", {}))
"""The tokens, empty for none, and the quotas of the nodes whose heartbeats are compared."""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the benchmark."""

    members: int = 16
    pause_s: float = 0.02
    """How long a healthy member waits between a response and its next request."""
    connections: int = 32
    """Connections of the hostile tenant."""
    partitions: int = 10_000
    large_body_bytes: int = 8_000_000
    rounds: int = 5
    round_s: float = 3.0
    starts: int = 6
    """How often the nodes with all checks, without quotas and without a token are started anew."""
    turns: int = 12
    """How often each of them is measured in turn."""
    turn_s: float = 0.6


def measure(place: Place, size: Size) -> list[Figure]:
    """Return the benchmark's figures."""
    return [*(_figure(what, attack, place, size) for what, attack in ATTACKS.items()), *_costs(size)]


def _costs(size: Size) -> list[Figure]:
    """Compare the node's processor time a heartbeat: quotas with none, and quotas and a token with neither.

    Three nodes, each beside a Postgres of its own, take short turns in every order: a machine is not as fast in each
    minute, nor each node after the same other one. They are started several times: a process may be some percent
    slower than another of the same program for as long as it runs.
    """
    turns: list[dict[int, float]] = []
    for _ in range(size.starts):
        with ExitStack() as started:
            loads = [started.enter_context(_heartbeats(size, token, quotas)) for token, quotas in CHECKS]
            orders = islice(cycle(permutations(range(len(loads)))), size.turns)
            turns += [{each: loads[each]() for each in order} for order in orders]
    return [
        _cost("quotas", [(turn[0], turn[1]) for turn in turns]),
        _cost("quotas and a token", [(turn[0], turn[2]) for turn in turns]),
    ]


def _cost(what: str, turns: Sequence[tuple[float, float]]) -> Figure:
    ranked = sorted(turns, key=lambda each: each[0] / each[1])
    with_us, without_us = ranked[len(ranked) // 2]
    quartiles = [all_us / less_us for all_us, less_us in (ranked[len(ranked) // 4], ranked[3 * len(ranked) // 4])]
    details = {"turns": len(turns), "lower_quartile": quartiles[0], "upper_quartile": quartiles[1]}
    return Figure(f"node CPU a heartbeat with {what}", with_us, "µs", "without", without_us, 1.05, "less", details)


@contextmanager
def _heartbeats(size: Size, token: str, quotas: Mapping[str, int]) -> Iterator[Callable[[], float]]:
    """Run a node, and return what sends heartbeats to it and returns its processor time of one, in microseconds."""
    with durable_place() as place:
        options = {"tokens_file": str(_tokens_file(place.directory)), "cluster_secret": SECRET} if token else {}
        with node(place, **options, **quotas) as muster:
            members = join_groups([muster.url], size.connections, token)
            heartbeats = [(one.url, [post(f"{one.path}/heartbeat", one.body(), token)]) for one in members]
            pids = place.pids(muster)
            yield lambda: put_load(heartbeats, size.turn_s, pids).cpu_us["node"]


def _tokens_file(directory: Path) -> Path:
    tokens = [token_entry(actor, actor, Role.AGENT, ("",)) for actor in (HEALTHY, HOSTILE)]
    path = directory / "tokens.json"
    path.write_bytes(msgspec.json.encode(TokensFileBody(tokens)))
    return path


def _large_commit(member: Member, size: Size) -> Sender:
    body = offsets_body(member, size.partitions, 1)
    return Sender(member.url, [post(f"{member.path}/offsets", body, HOSTILE)], is_complete)


def _flood(member: Member, _size: Size) -> Sender:
    return Sender(member.url, [post(f"{member.path}/heartbeat", member.body(), HOSTILE)], is_complete)


def _large_body(member: Member, size: Size) -> Sender:
    offsets = [{"topic": "orders", "partition": 0, "offset": 1, "metadata": "m" * size.large_body_bytes}]
    return Sender(member.url, [post(f"{member.path}/offsets", member.body(offsets=offsets), HOSTILE)], is_complete)


def _metadata_commit(member: Member, _size: Size) -> Sender:
    """Return commits of as much metadata as one may have."""
    offsets = [{"topic": "orders", "partition": each, "offset": 1, "metadata": "m" * 4_096} for each in range(250)]
    return Sender(member.url, [post(f"{member.path}/offsets", member.body(offsets=offsets), HOSTILE)], is_complete)


def _page(member: Member, _size: Size) -> Sender:
    """Return fetches of pages of offsets, after a commit of as many."""
    commit = post(f"{member.path}/offsets", offsets_body(member, 1_000, 1), HOSTILE)
    fetches = [get(f"{member.path}/offsets", HOSTILE)] * 100
    return Sender(member.url, [commit, *fetches], is_complete)


Attack = Callable[[Member, Size], Sender]
"""Returns what one connection of the hostile tenant sends, as a member of a group."""
ATTACKS: Final[dict[str, Attack]] = {
    "commits of 10,000 partitions": _large_commit,
    "a flood of heartbeats": _flood,
    "bodies of 8 MB": _large_body,
    "commits with 1 MB of metadata": _metadata_commit,
    "pages of 1,000 offsets": _page,
}


def _figure(what: str, attack: Attack, place: Place, size: Size) -> Figure:
    """Report the median p99 beside an attack against the limit, and the medians alone as details."""
    answers = _Answers()
    with node(place, tokens_file=str(_tokens_file(place.directory)), cluster_secret=SECRET) as muster:
        healthy = [_healthy_sender(one, size, answers) for one in join_groups([muster.url], size.members, HEALTHY)]
        hostile = [attack(one, size) for one in join_groups([muster.url], size.connections, HOSTILE)]
        alone = [send_load(healthy, size.round_s, {}) for _ in range(size.rounds)]
        assert not answers.refused, "the healthy tenant alone is refused"
        with _sending(hostile):
            beside = [send_load(healthy, size.round_s, {}) for _ in range(size.rounds)]
    details = {
        "p50_ms": middle(load.p50_ms for load in beside),
        "alone_p50_ms": middle(load.p50_ms for load in alone),
        "alone_p99_ms": middle(load.p99_ms for load in alone),
        "highest_p99_ms": max(load.p99_ms for load in beside),
        "refused": answers.refused,
    }
    p99_ms = middle(load.p99_ms for load in beside)
    return Figure(f"p99 beside {what}", p99_ms, "ms", "the limit", LIMIT_MS, wanted=1.0, better="less", details=details)


class _Answers:
    """Recognizes responses to the healthy tenant, and counts the refusals among them."""

    def __init__(self) -> None:
        self.refused = 0

    def __call__(self, received: bytes) -> bool:
        """Return whether a response is complete."""
        is_whole = is_complete(received)
        self.refused += is_whole and not received.startswith(b"HTTP/1.1 200")
        return is_whole


def _healthy_sender(member: Member, size: Size, answers: "_Answers") -> Sender:
    heartbeat = post(f"{member.path}/heartbeat", member.body(), HEALTHY)
    commit = post(f"{member.path}/offsets", offsets_body(member, 1, 1), HEALTHY)
    return Sender(member.url, [heartbeat, commit], answers, size.pause_s)


@contextmanager
def _sending(attack: Sequence[Sender]) -> Iterator[None]:
    """Send requests from another process during the block."""
    spawn = multiprocessing.get_context("spawn")
    is_started = spawn.Event()
    process = spawn.Process(target=_send, args=(attack, is_started), daemon=True)
    process.start()
    try:
        assert is_started.wait(START_S), "the hostile tenant did not start"
        yield
        assert process.is_alive(), "the hostile tenant stopped sending"
    finally:
        process.terminate()
        process.join()


def _send(attack: Sequence[Sender], is_started: Event) -> None:
    is_started.set()
    send_load(attack, ATTACK_S, {})


if __name__ == "__main__":
    what = "Measure one tenant's requests beside another that sends as much as it can."
    run_benchmark("tenants", what, in_durable_place(measure, Size()))
