"""A process that drops archived days as a node does, and halts after a chosen step, so that a test can kill it there.

Arguments: the step after which it halts (empty: none); after how many calls; a file that it makes when it does. The
database is named in the environment. It does not import Spark, which takes longer than all that it does.
"""

import os
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.postgres import archive as dropping


def halt_after(step: str, times: int, marker: Path) -> None:
    """Halt after a function has returned a number of times."""
    original = getattr(dropping, step)
    calls: list[None] = []

    def halt(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - as the original
        done = original(*given, **named)
        calls.append(None)
        if len(calls) == times:
            marker.touch()
            signal.pause()
        return done

    setattr(dropping, step, halt)


def run_node() -> None:
    with closing(PostgresStore(os.environ["MUSTER_DATABASE_URL"])) as store:
        # As `store.drop_archived` does, which was bound to the function before it was made to halt.
        while store._changes.transact(lambda transaction: dropping.drop_next(transaction, lambda _: True)) is not None:
            pass


if __name__ == "__main__":
    halting_step, how_often, where = sys.argv[1:]
    if halting_step:
        halt_after(halting_step, int(how_often), Path(where))
    run_node()
