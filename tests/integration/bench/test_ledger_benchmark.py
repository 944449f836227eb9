"""Run the ledger benchmark with tiny sizes, and check that removing history does not change the current state."""

from pathlib import Path

from bench.bench_servers import Place
from bench.ledger import SimulatedGroup, Size, _stripped, measure


def test_ledger_benchmark_reports_figures(database_url: str, tmp_path: Path) -> None:
    tiny = Size(members=(2,), partitions_a_member=1, commits=2, heartbeats=10, rounds=1)
    figures = measure(Place(database_url, tmp_path), tiny)
    assert [figure.what for figure in figures] == [
        "rebalance of 2 members, no partitions move",
        "rebalance of 2 members, all partitions move",
        "a commit that ends a minute, 2 partitions",
        "a heartbeat in its shard",
    ]
    assert all(figure.value > 0 for figure in figures)


def test_rebalance_is_written_with_and_without_history() -> None:
    played = SimulatedGroup("g", 3, 2)
    played.began()
    writes = played.rebalanced(moves=True)
    last, bare = writes[-1], _stripped(writes)[-1]
    assert (len(last.rebalances), len(last.rebalance_members), len(last.ownerships)) == (1, 3, 3)
    assert (bare.group, bare.members) == (last.group, last.members)
    assert bare.size[0] == 1 + 3
