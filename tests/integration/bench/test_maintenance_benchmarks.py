"""Run the benchmarks of jobs and expiries with tiny sizes."""

from contextlib import closing
from pathlib import Path

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from bench import expiries, jobs
from bench.bench_servers import Place
from bench.synthetic_history import HISTORY_DAYS, HistorySize, fill_history, fill_offsets
from spark_jobs.database import parse_url

pytestmark = pytest.mark.jvm

TINY = HistorySize(groups=3, days=2, members=2, rebalances_a_day=1, sessions_a_day=2, commits_a_day=2)


@pytest.mark.slow
def test_jobs_benchmark_reports_figures(database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = jobs.Size((200, 400), 50, TINY, rounds=1, jobs=("offset_retention",))
    figures = jobs.measure(Place(database_url, tmp_path), size)
    assert [figure.what for figure in figures] == [
        "offset_retention, 200 offsets, against all of them",
        "offset_retention, 200 offsets",
        "  its peak heap",
        "offset_retention, 400 offsets, against all of them",
        "offset_retention, 400 offsets",
        "  its peak heap",
        "offset_retention, a million of 400 offsets",
    ]
    assert all(figure.value > 0 for figure in figures)
    assert all(figures[at].details["spark_cpu_us"] > 0 for at in (1, 4))
    progress = [line.split(":")[0] for line in capsys.readouterr().err.splitlines()]
    of_offsets = ["generating 200 offsets", "offset_retention", "offset_retention"]
    assert progress == [*of_offsets, *of_offsets, "generating 2 days of history of 3 groups"]


def test_expiries_benchmark_reports_figures(database_url: str, tmp_path: Path) -> None:
    size = expiries.Size(offsets=100, offsets_a_group=50, connections=2, rounds=1, round_s=0.2)
    figures = expiries.measure(Place(database_url, tmp_path), size)
    assert figures[-1].what == "100 offsets expired"
    assert all(figure.value > 0 for figure in figures)


def test_history_has_the_requested_rows_in_each_day(database_url: str, sql_connection: PsycopgConnection) -> None:
    with closing(parse_url(database_url).connect()) as connection:
        fill_offsets(connection, 500, 10, seed=7)
        fill_history(connection, TINY, seed=7)
    with sql_connection.cursor() as cursor:
        cursor.execute("SELECT count(*), count(DISTINCT group_id), min(shard_id) >= 0 FROM offsets")
        assert cursor.fetchall() == [(500, 10, True)]
        counts = {}
        for table in HISTORY_DAYS:
            cursor.execute(f"SELECT count(*) FROM {table}")  # noqa: S608 - a table of ours
            counts[table] = cursor.fetchone()
            cursor.execute(f"SELECT count(*) FROM {table}_default")  # noqa: S608 - likewise
            assert cursor.fetchone() == (0,)
        cursor.execute("SELECT count(*) FROM member_sessions WHERE member_id LIKE '%again'")
        (reconnected,) = cursor.fetchone() or (0,)
    assert reconnected > 0
    assert counts == {
        "rebalances": (6,),
        "rebalance_members": (12,),
        "member_sessions": (24 + reconnected,),
        "partition_ownership": (12,),
        "offset_history": (12,),
    }
