"""The patches of the runtime while a seed runs; everything else is the real runtime."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.runtime import shard as shards_module
from coordinator_core.runtime import timer_loop
from coordinator_core.runtime.shard import Shard
from coordinator_core.state_store import ledger
from tests.support.memory_store import groups
from tests.system.simulation.loop import running_in
from tests.system.simulation.watch import Watch
from tests.system.simulation.world import World

TICK_MS = 250
"""A node's timekeeper looks around less often than it would in earnest; that is a third of all there is to do."""

INTERVAL_MS = 90_000
"""The length of a session interval, short enough that a seed has some."""


class Log:
    """Stands in for every logger of the core: it is silent, but for what means that an invariant broke inside."""

    def __init__(self, world: World) -> None:
        self._world = world

    def silent(self, _event: str, **_facts: object) -> None:
        """Say nothing."""

    debug = info = warning = error = silent

    def exception(self, event: str, **facts: object) -> None:
        """Fail the seed: the runtime caught what must not be raised."""
        where = traceback.format_exc().splitlines()[-3:]
        self._world.fail("NoInvariantIsViolated", f"{event} {facts}: {' '.join(where)}", str(facts.get("group", "")))


@contextmanager
def probes(world: World, watch: Watch) -> Iterator[None]:
    """Watch decisions, extended leases and unloaded shards, and replace the loggers."""
    extend, drop = Shard.extend_lease, Shard.unload

    def extend_lease(shard: Shard, valid_until_ms: int) -> None:
        watch.extend_lease(shard, valid_until_ms)
        extend(shard, valid_until_ms)

    def unload_shard(shard: Shard, error: CoordinatorError) -> None:
        waited = list(shard._waiting._futures.values())
        drop(shard, error)
        watch.dropped(shard, waited)

    with ExitStack() as stack:
        stack.enter_context(running_in(world))
        stack.enter_context(patch.object(shards_module, "decide", watch.decide))
        stack.enter_context(patch.object(timer_loop, "TICK_MS", TICK_MS))
        stack.enter_context(patch.object(ledger, "INTERVAL_MS", INTERVAL_MS))
        stack.enter_context(patch.object(Shard, "extend_lease", extend_lease))
        stack.enter_context(patch.object(Shard, "unload", unload_shard))
        stack.enter_context(patch.object(groups, "refusal", _fits))
        for name, module in sorted(sys.modules.items()):
            if name.startswith("coordinator_core.") and hasattr(module, "log"):
                stack.enter_context(patch.object(module, "log", Log(world)))
        yield


def _fits(_row: object) -> None:
    """Take every row: looking for texts that no database takes costs more than all invariants together."""
