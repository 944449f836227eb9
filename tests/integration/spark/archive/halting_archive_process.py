"""A process that archives history and halts at a chosen step, so that a test can kill it there.

Arguments: `job` or `node`; the step after which it halts (empty: none); after how many calls; a file that
it makes when it does, and the archive's directory. The database is named in the environment, as for every job.
"""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.postgres import archive as dropping
from spark_jobs.archive import archive_copy
from spark_jobs.arguments import JobArguments
from spark_jobs.database import database_from_environment
from spark_jobs.session import open_session
from spark_jobs.submit import find_jdbc_jar
from tests.integration.spark.archive.old_days import NOW, RUN_ID
from tests.support.spark_session import TEST_CONF


def halting(module: ModuleType, step: str, times: int, marker: Path) -> None:
    """Halt after a function of a module has returned a number of times."""
    original: Callable[..., Any] = getattr(module, step)
    calls: list[None] = []

    def halt(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - as the original
        done = original(*given, **named)
        calls.append(None)
        if len(calls) == times:
            marker.touch()
            signal.pause()
        return done

    setattr(module, step, halt)


def run_job(directory: str) -> None:
    arguments = JobArguments(RUN_ID, NOW, None, None, -1, is_dry_run=False, read_partitions=2, archive=directory)
    database = database_from_environment()
    conf = {**TEST_CONF, "spark.jars": str(find_jdbc_jar())}
    with closing(database.connect()) as connection, open_session("halting", "local[1]", conf) as spark:
        archive_copy.archive_closed_days(spark, database, connection, arguments)


def run_node() -> None:
    with closing(PostgresStore(os.environ["MUSTER_DATABASE_URL"])) as store:
        # As `store.drop_archived` does, which was bound to the function before it was made to halt.
        while store._changes.transact(lambda transaction: dropping.drop_next(transaction, lambda _: True)) is not None:
            pass


if __name__ == "__main__":
    what, step_name, how_often, where, archive_directory = sys.argv[1:]
    if step_name:
        halting(dropping if what == "node" else archive_copy, step_name, int(how_often), Path(where))
    if what == "node":
        run_node()
    else:
        run_job(archive_directory)
