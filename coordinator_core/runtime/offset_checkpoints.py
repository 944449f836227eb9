"""Checkpoints: the dirty offsets of this node's shards are stored in the table `offsets`.

Rules:

* A commit is in the table at most `offsets_checkpoint_interval_ms` after its response, while checkpoints take less than
  an eighth of that. Longer ones are followed by a rest (`next_due_ms`).
  Very many dirty offsets are stored at once; past twice their limit, or its share of that, a client's commits are
  refused.
* A read of the table that answers or decides waits for a checkpoint of the group's shard (`store_group`).
* One checkpoint is under way at a time, also when the node stops, in transactions of some thousand offsets. Between
  them, shards go first that requests wait for, unless they need several themselves.
* Commits that arrive meanwhile may displace older ones of a shard from the last transaction. Requests for the shard
  then wait for the next checkpoint.
* A checkpoint that stored nothing is repeated. After one of unknown outcome, its shards are loaded again.

Source: ARCHITECTURE.md "The offset log".
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

import structlog

from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable, NotCoordinator
from coordinator_core.runtime.clock import Clock, Threads
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.counters import Counters
from coordinator_core.runtime.current_request import current_client
from coordinator_core.runtime.memory import end_if_out_of_memory
from coordinator_core.runtime.readiness import FailureStreak
from coordinator_core.runtime.shard import Shard
from coordinator_core.runtime.writer import MAX_SHARE
from coordinator_core.state_store.interface import OutcomeUnknown, RuntimeStore, StoreError
from coordinator_core.state_store.rows import CheckpointResult

log = structlog.get_logger("muster.runtime")

RETRY_S: Final = 0.25
"""How long the loop waits after a checkpoint that stored nothing."""
REST: Final = 7
"""The least rest after a checkpoint of the interval, as a multiple of what it took: seven eighths of the time are left
to commits, which replace many dirty offsets meanwhile."""
LONGEST_REST: Final = 9
"""The longest rest, in intervals."""
CHECKPOINT_AT_STOP_S: Final = 1.0
"""How long a stopping node checkpoints before it releases its shards; their next owners read the rest in the log."""


def next_due_ms(began_ms: int, took_ms: int, interval_ms: int) -> int:
    """Return when the checkpoint after one of the interval is due."""
    rest_ms = min(REST * took_ms, LONGEST_REST * interval_ms)
    return max(began_ms + interval_ms, began_ms + took_ms + rest_ms)


class OffsetCheckpoints:
    """The loop that stores dirty offsets, and the requests that wait for it."""

    def __init__(
        self,
        store: RuntimeStore,
        config: NodeConfig,
        clock: Clock,
        threads: Threads,
        counters: Counters,
        shards: Callable[[], Iterable[Shard]],
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._threads = threads
        self._counters = counters
        self._shards = shards
        self._waiting: dict[Shard, list[asyncio.Future[None]]] = {}
        """Shard → the requests that wait for the next checkpoint that begins and stores all of it."""
        self._wake = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self.failures = FailureStreak("committed offsets cannot be stored in the table", clock)
        self.dirty_size = 0
        """How many dirty offsets there are, including those of the checkpoint under way; a long one counts more."""
        self.client_sizes: Counter[str] = Counter()
        """Client → how many of them are of its commits."""
        self.max_size = 2 * config.max_dirty_offsets
        """How many there may be, before commits are refused."""

    def is_full(self) -> bool:
        """Return whether commits of the current client must wait until dirty offsets are stored."""
        share = MAX_SHARE * (self.max_size - self.dirty_size)
        if self.dirty_size <= share:  # Nearly always: no client has as many.
            return False
        return share <= 0 or self.client_sizes[current_client.get()] > share

    def oldest_ms(self) -> int:
        """Return the age of the oldest commit that is not in the table; 0 if there is none."""
        now_ms = self._clock.now().node_ms
        since_ms = [shard.offsets.since_ms for shard in self._shards()]
        return now_ms - min((each for each in since_ms if each is not None), default=now_ms)

    def note_growth(self, size: int, client: str) -> None:
        """Count new dirty offsets of a client; begin a checkpoint if there are too many."""
        self.dirty_size += size
        self.client_sizes[client] += size
        if self.dirty_size >= self._config.max_dirty_offsets:
            self._wake.set()

    async def store_group(self, shard: Shard, group_id: str | None) -> None:
        """Wait until the table has every commit of a group, or (None) of a shard, that was answered before this call.

        Raises:
            CoordinatorError: the database cannot be reached, or the shard was lost.
        """
        if shard.offsets.has(group_id):
            stored = asyncio.get_running_loop().create_future()
            self._wait(shard, [stored])
            await stored

    def _wait(self, shard: Shard, waiting: list[asyncio.Future[None]]) -> None:
        self._waiting.setdefault(shard, []).extend(waiting)
        self._wake.set()

    async def run(self) -> None:
        """Checkpoint at every interval, and when requests or too many dirty offsets demand it, without end."""
        due_ms = self._clock.now().node_ms
        while True:
            await self._wait_until(due_ms)
            is_due = self._clock.now().node_ms >= due_ms or self.dirty_size >= self._config.max_dirty_offsets
            began_ms = self._clock.now().node_ms
            is_stored = await self.checkpoint(list(self._shards()) if is_due else [])
            if is_due:
                took_ms = self._clock.now().node_ms - began_ms if is_stored else 0
                due_ms = next_due_ms(began_ms, took_ms, self._config.offsets_checkpoint_interval_ms)
            if not is_stored:
                await asyncio.sleep(RETRY_S)

    async def _wait_until(self, node_ms: int) -> None:
        """Wait for a time, or until `_wake` is set."""
        try:
            async with asyncio.timeout(max(0, node_ms - self._clock.now().node_ms) / 1000):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def checkpoint(self, shards: Iterable[Shard]) -> bool:
        """Checkpoint these shards and those that requests wait for, after the checkpoint under way.

        Do not cancel it: what a checkpoint has taken is neither dirty nor known to be stored.

        Returns:
            Whether the database could be reached.
        """
        async with self._one_at_a_time:
            failures = await self._checkpoint_small_shards()
            waiting, self._waiting = self._waiting, {}
            for some in self._in_transactions({*waiting, *shards}, failures):
                failures |= await self._checkpoint(some)
                failures |= await self._checkpoint_small_shards()
            self._answer(waiting, failures)
        self.dirty_size = sum([shard.offsets.size for shard in self._shards()])
        self.client_sizes = Counter()
        for shard in self._shards():
            self.client_sizes.update(shard.offsets.sizes)
        return not failures

    async def _checkpoint_small_shards(self) -> dict[Shard, CoordinatorError]:
        """Checkpoint shards that requests wait for and that one transaction holds; return those that failed.

        So a request does not wait until the very many offsets of another shard are stored.
        """
        small = [shard for shard in self._waiting if shard.offsets.size <= self._config.max_checkpoint_offsets]
        waiting = {shard: self._waiting.pop(shard) for shard in small}
        failures: dict[Shard, CoordinatorError] = {}
        for some in self._in_transactions(small, failures):
            failures |= await self._checkpoint(some)
        self._answer(waiting, failures)
        return failures

    def _answer(
        self, waiting: Mapping[Shard, list[asyncio.Future[None]]], failures: Mapping[Shard, CoordinatorError]
    ) -> None:
        """Complete what waits for shards, which were checkpointed as far as they are not in `failures`."""
        for shard, futures in waiting.items():
            failure = failures.get(shard)
            open_futures = [future for future in futures if not future.done()]
            if failure is None and not shard.is_unloaded and shard.offsets.is_partly_stored:
                self._wait(shard, open_futures)
                continue
            for future in open_futures:
                if failure is None and not shard.is_unloaded:
                    future.set_result(None)
                else:
                    future.set_exception(failure or NotCoordinator("the shard was unloaded on this node"))
                    future.exception()  # Who waits for it may be cancelled before it reads it.

    def _in_transactions(self, shards: Iterable[Shard], failures: Container[Shard]) -> Iterator[list[Shard]]:
        """Yield the shards with dirty offsets in lists that fit one transaction each.

        A shard that needs several transactions is yielded alone, and again until it is in `failures`: with very many
        offsets of one client, one transaction would time out for ever.
        """
        limit = self._config.max_checkpoint_offsets
        some: list[Shard] = []
        size = 0
        for shard in sorted(shards, key=lambda shard: shard.shard_id):
            if shard.is_unloaded or not shard.offsets.size:
                continue
            if some and size + shard.offsets.size > limit:
                yield some
                some, size = [], 0
            for _ in range(limit, shard.offsets.size, limit):
                yield [shard]
                if _is_ended(shard, failures):
                    break
            if _is_ended(shard, failures):
                continue
            some.append(shard)
            size += shard.offsets.size
        if some:
            yield some

    async def _checkpoint(self, shards: list[Shard]) -> dict[Shard, CoordinatorError]:
        """Store the dirty offsets of shards in one transaction; return the shards that failed, each with its error."""
        limit = self._config.max_checkpoint_offsets
        taken = {shard.shard_id: shard.offsets.take(shard.epoch, limit) for shard in shards}
        began_ms = self._clock.now().node_ms
        try:
            result = await self._threads.checkpoint(partial(self._store.checkpoint, self._config.node_id, taken))
            failures = self._complete(shards, result)
        except OutcomeUnknown as error:
            self.failures.add(error)
            return self._reload(shards, f"whether a checkpoint was stored is not known: {error.summary}")
        except StoreError as error:
            for shard in shards:
                shard.offsets.put_back()
            return dict.fromkeys(shards, self._record_failure(error))
        except Exception as error:  # any error: the log has all commits, so the shards can be loaded again
            end_if_out_of_memory(error)
            log.exception("checkpoint_crashed", shards=sorted(taken))
            return self._reload(shards, "a checkpoint failed; the log has the error")
        self.failures.end()
        self._counters.checkpoint_s.add((self._clock.now().node_ms - began_ms) / 1000)
        return failures

    def _complete(self, shards: list[Shard], result: CheckpointResult) -> dict[Shard, CoordinatorError]:
        for group_id, topic, partition, reason in result.quarantined:
            self._counters.offsets_quarantined += 1
            log.error("offset_quarantined", group=group_id, topic=topic, partition=partition, reason=reason)
        failures: dict[Shard, CoordinatorError] = {}
        for shard in shards:
            if shard.shard_id in result.lost_shards:
                failures[shard] = NotCoordinator("the lease on the shard was lost")
                shard.fail(failures[shard])
            else:
                self._counters.offsets_checkpointed += shard.offsets.complete()
        return failures

    def _reload(self, shards: list[Shard], detail: str) -> dict[Shard, CoordinatorError]:
        """Unload shards, so that they are loaded again from the table and the log."""
        for shard in shards:
            shard.fail(CoordinatorNotAvailable(detail))
        return dict.fromkeys(shards, CoordinatorNotAvailable(detail))

    def _record_failure(self, error: StoreError) -> CoordinatorNotAvailable:
        self._counters.checkpoints_failed += 1
        self.failures.add(error)
        if not self.failures.is_repeated:
            log.warning("checkpoint_failed", reason=str(error))
        return CoordinatorNotAvailable(f"committed offsets cannot be stored in the table: {error.summary}")


def _is_ended(shard: Shard, failures: Container[Shard]) -> bool:
    """Return whether the checkpoint of a shard has failed, or stored everything."""
    return shard in failures or shard.is_unloaded or not shard.offsets.size
