"""Maintenance proposes; this disposes: candidates of applying runs are judged again and worked off.

Each candidate is judged by the whole rule on what stands now, and its outcome is written in the transaction of
the change itself. So a kill in the middle is resumed by whoever owns the shard next, and repeating has no effect.

Source: ARCHITECTURE.md "Maintenance proposes; the coordinator disposes".
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby

import structlog

from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.replies import OffsetsExpired, OffsetsRestored
from coordinator_core.protocol.requests import (
    ExpireOffsets,
    ExpiryCandidate,
    RemoveTopicOffsets,
    Request,
    RestoreOffsets,
    RetireGroup,
    Token,
)
from coordinator_core.protocol.settings import Now
from coordinator_core.runtime.archiving import Archiving
from coordinator_core.runtime.clock import Threads
from coordinator_core.runtime.notes import to_restore
from coordinator_core.runtime.quarantine import Quarantine
from coordinator_core.runtime.shard import HeldAsk, Shard, nothing_beside
from coordinator_core.store.interface import Store, StoreError
from coordinator_core.store.rows import Beside
from coordinator_core.store.runs import GROUP_CLEANUP, TOPIC_DELETION, UNDO, CandidateRow, OutcomeRow

log = structlog.get_logger("muster.runtime")


class Maintenance:
    """Works off the candidates of this node's shards."""

    def __init__(
        self,
        store: Store,
        threads: Threads,
        shards: Callable[[], dict[int, Shard]],
        new_token: Callable[[], Token],
        *,
        chunk: int,
        groups_at_once: int,
        archiving: Archiving,
        quarantine: Quarantine,
    ) -> None:
        self._store = store
        self._threads = threads
        self._shards = shards
        self._new_token = new_token
        self._chunk = chunk
        self._groups_at_once = groups_at_once
        self._archiving = archiving
        self._quarantine = quarantine

    async def work_off(self) -> None:
        """Judge every undecided candidate of our shards and every day of history; finish runs that have none left."""
        try:
            while await self._judge_chunk():
                pass
            await self._archiving.work_off()
            for run_id in await self._threads.read(self._store.finish_runs):
                log.info("maintenance_run_applied", run=run_id)
        except (CoordinatorError, StoreError) as error:
            log.warning("maintenance_paused", why=str(error))

    async def _judge_chunk(self) -> bool:
        """Judge some candidates; those of quarantined groups stay undecided until the group is reloaded."""
        shards = {shard_id: shard for shard_id, shard in self._shards().items() if not shard.is_loading}
        if not shards:
            return False
        without = [group.group_id for group in self._quarantine.of_shards(shards)]
        find = partial(self._store.next_candidates, list(shards), self._chunk, without)
        candidates = await self._threads.read(find)
        of_groups = [list(rows) for _, rows in groupby(candidates, key=lambda row: (row.run_id, row.group_id))]
        limit = asyncio.Semaphore(self._groups_at_once)
        failures: list[CoordinatorError | StoreError] = []
        async with asyncio.TaskGroup() as judging:
            for rows in of_groups:
                judging.create_task(self._judge_in_turn(limit, rows, failures))
        if failures:
            raise failures[0]
        return bool(candidates)

    async def _judge_in_turn(
        self, limit: asyncio.Semaphore, rows: list[CandidateRow], failures: list[CoordinatorError | StoreError]
    ) -> None:
        """Judge one group's candidates beside those of others; a failure stops none of them."""
        async with limit:
            shard = self._shards().get(rows[0].shard_id)
            if shard is None or shard.is_loading or self._quarantine.get(rows[0].group_id) is not None:
                return
            try:
                await self._judge_group(shard, rows)
            except (CoordinatorError, StoreError) as failure:
                failures.append(failure)

    async def _judge_group(self, shard: Shard, rows: list[CandidateRow]) -> None:
        """Judge one group's candidates in one decision, while its requests wait."""
        first = rows[0]
        async with shard.holding(first.group_id) as ask:
            token = self._new_token()
            request = await self._threads.read(partial(_request, self._store, token, rows))
            await ask(token, request, partial(_outcomes, first.run_id))
            if isinstance(request, ExpireOffsets):
                await self._retire(first.group_id, ask)

    async def _retire(self, group_id: str, ask: HeldAsk) -> None:
        """Let the group go if it is Empty and its last offset has gone. Source: protocol.md section 10.4."""
        left = await self._threads.read(partial(self._store.stored_offsets, group_id, None))
        token = self._new_token()
        await ask(token, RetireGroup(token, has_offsets=bool(left)), nothing_beside)


def _request(store: Store, token: Token, rows: list[CandidateRow]) -> Request:
    """Return what is asked of a group, with what it takes to decide; it depends on what kind of run this is."""
    first = rows[0]
    if first.kind == GROUP_CLEANUP:
        return RetireGroup(token, store.has_offsets(first.group_id), first.seen)
    partitions = [(row.topic, row.partition) for row in rows]
    stored = tuple(store.stored_offsets(first.group_id, partitions))
    if first.kind == UNDO and first.undoes is not None:
        taken = store.archived_offsets(first.undoes, first.group_id, partitions)
        return RestoreOffsets(token, tuple(map(to_restore, taken)), stored, first.change_id, is_of_run=True)
    candidates = tuple(ExpiryCandidate(row.topic, row.partition, row.commit_version) for row in rows)
    ask_for = RemoveTopicOffsets if first.kind == TOPIC_DELETION else ExpireOffsets
    return ask_for(token, candidates, stored, first.change_id)


def _outcomes(run_id: str, before: Group, decision: Decision, _: Now) -> Beside:
    return Beside(outcomes=tuple(_each_outcome(run_id, before.group_id, decision)))


def _each_outcome(run_id: str, group_id: str, decision: Decision) -> Iterable[OutcomeRow]:
    for _, answer, _ in decision.replies:
        if isinstance(answer, OffsetsExpired):
            for topic, partition, outcome in answer.outcomes:
                yield OutcomeRow(run_id, group_id, topic, partition, outcome)
        elif isinstance(answer, OffsetsRestored):
            for topic, partition, outcome, _ in answer.offsets:
                yield OutcomeRow(run_id, group_id, topic, partition, outcome)
