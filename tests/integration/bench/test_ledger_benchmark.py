"""The ledger's benchmark runs through in a tiny form, and what it strips of history says the same of the present."""

from pathlib import Path

from bench.ledger import Played, Size, _stripped, measure
from bench.servers import Place


def test_the_ledger_s_benchmark_tells_its_figures(database_url: str, tmp_path: Path) -> None:
    tiny = Size(members=(2,), partitions_a_member=1, commits=2, heartbeats=10, rounds=1)
    figures = measure(Place(database_url, tmp_path), tiny)
    assert [figure.what for figure in figures] == [
        "rebalance of 2 members, no partitions move",
        "rebalance of 2 members, all partitions move",
        "a commit within a minute, 2 partitions",
        "a commit that ends a minute, 2 partitions",
        "a heartbeat in its shard",
    ]
    assert all(figure.value > 0 for figure in figures)


def test_a_rebalance_is_written_whole_and_stripped_of_history_alone() -> None:
    played = Played("g", 3, 2)
    played.began()
    writes = played.rebalanced(moves=True)
    last, bare = writes[-1], _stripped(writes)[-1]
    assert (len(last.rebalances), len(last.rebalance_members), len(last.ownerships)) == (1, 3, 3)
    assert (bare.group, bare.members) == (last.group, last.members)
    assert bare.row_count == 1 + 3
