"""Apply maintenance runs: decide each undecided candidate of the node's shards, and finish completed runs.

Rules:

* The whole rule is checked again on the current state of the group, and the candidate's outcome is written in the
  transaction of the change. After a crash the next owner of the shard resumes the run; repeating has no effect.
* A run that fails is set aside, and the work on other runs goes on. After an unexpected error it is retried after
  `RETRY_AFTER_MS`, after a refusal (the shard is moving, say) with the next renewal.
* An unreachable database pauses all runs until the next renewal.
* Every `EXPIRY_CHECK_MS`, proposals that waited for a decision for too long are rejected. Every node does this.

Source: ARCHITECTURE.md "Maintenance".
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from typing import Final

import structlog

from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.offsets import KEPT_ALREADY_GONE
from coordinator_core.protocol.requests import (
    ExpireOffsets,
    ExpiryCandidate,
    RemoveTopicOffsets,
    Request,
    RestoreOffsets,
    RetireGroup,
    Token,
)
from coordinator_core.protocol.responses import ExpireOffsetsResponse, RestoreOffsetsResponse
from coordinator_core.protocol.settings import Now
from coordinator_core.runtime.clock import Threads
from coordinator_core.runtime.history_archiver import HistoryArchiver
from coordinator_core.runtime.memory import end_if_out_of_memory
from coordinator_core.runtime.quarantine import Quarantine
from coordinator_core.runtime.shard import Shard, SubmitLocked
from coordinator_core.state_store.interface import RuntimeStore, StoreError
from coordinator_core.state_store.rows import ExtraRows
from coordinator_core.state_store.runs import GROUP_CLEANUP, TOPIC_DELETION, UNDO, CandidateRow, OutcomeRow

log = structlog.get_logger("muster.runtime")

RETRY_AFTER_MS: Final = 30_000
"""How long a run is set aside after an unexpected error."""

EXPIRY_CHECK_MS: Final = 60_000
"""How often expired proposals are looked for, which reads every run."""


class Maintenance:
    """Applies maintenance runs to the groups of this node's shards."""

    def __init__(  # noqa: PLR0913 - called once, where a node is put together
        self,
        store: RuntimeStore,
        threads: Threads,
        shards: Callable[[], dict[int, Shard]],
        new_token: Callable[[], Token],
        node_ms: Callable[[], int],
        shard_id_of: Callable[[str], int],
        *,
        chunk: int,
        max_concurrent_groups: int,
        expire_proposals: Callable[[], list[str]],
        archiver: HistoryArchiver,
        quarantine: Quarantine,
    ) -> None:
        self._store = store
        self._threads = threads
        self._shards = shards
        self._new_token = new_token
        self._node_ms = node_ms
        self._shard_id_of = shard_id_of
        self._chunk = chunk
        self._max_concurrent_groups = max_concurrent_groups
        self._expire_proposals = expire_proposals
        self._archiver = archiver
        self._quarantine = quarantine
        self._retry_at_ms: dict[str, int] = {}
        """Run that failed → when it is retried, in node time."""
        self._next_expiry_check_ms = 0
        self._is_paused = False
        """Whether the last attempt failed because of the database, which was logged then."""

    async def process_pending(self) -> None:
        """Decide every undecided candidate of our shards and every day of history, and finish completed runs."""
        now_ms = self._node_ms()
        self._retry_at_ms = {run_id: at_ms for run_id, at_ms in self._retry_at_ms.items() if at_ms > now_ms}
        try:
            while await self._decide_chunk():
                pass
            await self._archiver.process_pending()
            await self._finish_runs()
            await self._expire()
            self._is_paused = False
        except StoreError as error:
            if not self._is_paused:
                log.warning("maintenance_run_paused", reason=str(error))
            self._is_paused = True

    async def _finish_runs(self) -> None:
        for run_id in await self._threads.read(self._store.finish_runs):
            log.info("maintenance_run_applied", run=run_id)

    async def _expire(self) -> None:
        now_ms = self._node_ms()
        if now_ms < self._next_expiry_check_ms:
            return
        self._next_expiry_check_ms = now_ms + EXPIRY_CHECK_MS
        for run_id in await self._threads.read(self._expire_proposals):
            log.info("maintenance_run_expired", run=run_id)

    async def _decide_chunk(self) -> bool:
        """Decide some candidates; those of quarantined groups remain undecided until the group is reloaded."""
        shards = {shard_id: shard for shard_id, shard in self._shards().items() if not shard.is_loading}
        if not shards:
            return False
        quarantined = [group.group_id for group in self._quarantine.of_shards(shards)]
        find = partial(self._store.next_candidates, list(shards), self._chunk, quarantined, list(self._retry_at_ms))
        candidates = await self._threads.read(find)
        of_groups = [list(rows) for _, rows in groupby(candidates, key=lambda row: (row.run_id, row.group_id))]
        limit = asyncio.Semaphore(self._max_concurrent_groups)
        failures: list[StoreError] = []
        async with asyncio.TaskGroup() as deciding:
            for rows in of_groups:
                deciding.create_task(self._decide_when_free(limit, rows, failures))
        if failures:
            raise failures[0]
        return bool(candidates)

    async def _decide_when_free(
        self, limit: asyncio.Semaphore, rows: list[CandidateRow], failures: list[StoreError]
    ) -> None:
        """Decide one group's candidates of one run; a failure does not stop other groups.

        Args:
            limit: how many groups are decided at once.
            rows: the candidates.
            failures: takes an error of the database, which is not the run's own.
        """
        run_id, group_id = rows[0].run_id, rows[0].group_id
        async with limit:
            shard = self._shards().get(rows[0].shard_id)
            if shard is None or shard.is_loading or self._quarantine.get(group_id) is not None:
                return
            try:
                await self._decide_group(shard, rows)
            except StoreError as failure:
                failures.append(failure)
            except CoordinatorError as refusal:
                log.warning("maintenance_run_paused", run=run_id, group=group_id, reason=refusal.detail)
                self._retry_at_ms.setdefault(run_id, self._node_ms())
            except Exception as failure:  # any error, such as an unreadable row, concerns this run only
                end_if_out_of_memory(failure)
                log.exception("maintenance_run_failed", run=run_id, group=group_id)
                self._retry_at_ms[run_id] = self._node_ms() + RETRY_AFTER_MS

    async def _decide_group(self, shard: Shard, rows: list[CandidateRow]) -> None:
        """Decide one group's candidates in one decision, while its requests wait.

        Raises:
            ValueError: the candidates are stored under another group's shard, where the group's members are unknown.
        """
        first = rows[0]
        shard_id = self._shard_id_of(first.group_id)
        if shard_id != first.shard_id:
            raise ValueError(f"shard_id is {first.shard_id}, but the group belongs to shard {shard_id}: muster doctor")
        async with shard.locked(first.group_id) as submit:
            token = self._new_token()
            request = await self._threads.read(partial(_request, self._store, token, rows))
            await submit(token, request, partial(_outcomes, rows))
            if isinstance(request, ExpireOffsets):
                await self._retire(first.group_id, submit)

    async def _retire(self, group_id: str, submit: SubmitLocked) -> None:
        """Retire the group if it is Empty and its last offset was removed. Source: protocol.md section 10.4."""
        has_offsets = await self._threads.read(partial(self._store.has_offsets, group_id))
        token = self._new_token()
        await submit(token, RetireGroup(token, has_offsets=has_offsets), None)


def _request(store: RuntimeStore, token: Token, rows: list[CandidateRow]) -> Request:
    """Return the request that the run's kind makes of a group, with the stored offsets that it is decided on."""
    first = rows[0]
    if first.kind == GROUP_CLEANUP:
        return RetireGroup(token, store.has_offsets(first.group_id), first.seen)
    partitions = [(row.topic, row.partition) for row in rows]
    stored = tuple(store.stored_offsets(first.group_id, partitions))
    if first.kind == UNDO and first.undoes is not None:
        taken = store.archived_offsets(first.undoes, first.group_id, partitions)
        return RestoreOffsets(
            token, tuple(one.to_restore() for one in taken), stored, first.change_id, is_maintenance_run=True
        )
    candidates = tuple(ExpiryCandidate(row.topic, row.partition, row.commit_version) for row in rows)
    request = RemoveTopicOffsets if first.kind == TOPIC_DELETION else ExpireOffsets
    return request(token, candidates, stored, first.change_id)


def _outcomes(rows: list[CandidateRow], _before: Group, decision: Decision, _: Now) -> ExtraRows:
    return ExtraRows(outcomes=tuple(_each_outcome(rows, decision)))


def _each_outcome(rows: list[CandidateRow], decision: Decision) -> Iterable[OutcomeRow]:
    run_id, group_id = rows[0].run_id, rows[0].group_id
    for answer in [reply.answer for reply in decision.replies]:
        if isinstance(answer, ExpireOffsetsResponse):
            for topic, partition, outcome in answer.outcomes:
                yield OutcomeRow(run_id, group_id, topic, partition, outcome)
        elif isinstance(answer, RestoreOffsetsResponse):
            found = {(topic, partition): outcome for topic, partition, outcome, _ in answer.offsets}
            for row in rows:  # Its archived offset may have been deleted by hand.
                outcome = found.get((row.topic, row.partition), KEPT_ALREADY_GONE)
                yield OutcomeRow(run_id, group_id, row.topic, row.partition, outcome)
