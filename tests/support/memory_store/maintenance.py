"""Maintenance runs and their candidates in memory; `propose` takes the place of the jobs."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from coordinator_core.protocol.requests import GroupSnapshot
from coordinator_core.state_store.interface import RunNotFound
from coordinator_core.state_store.rows import ChangeRow
from coordinator_core.state_store.runs import (
    GROUP_CLEANUP,
    UNDECIDED,
    CandidateRow,
    OutcomeRow,
    RunDecision,
    RunRow,
    RunStatus,
)

Key = tuple[str, str, int]


@dataclass(slots=True)
class Candidate:
    """A row of `expiry_candidates`, or of `cleanup_candidates`."""

    shard_id: int
    commit_version: int
    seen: GroupSnapshot | None
    outcome: str | None = None


@dataclass(slots=True)
class Run:
    """A row of `maintenance_runs`, with its candidates by group, topic and partition."""

    row: RunRow
    created_at_ms: int
    candidates: dict[Key, Candidate]
    change_id: str | None = None
    undoes: str | None = None

    def counts(self) -> dict[str, int]:
        """Return the job's counts and the candidates by outcome."""
        by_outcome = Counter(candidate.outcome or UNDECIDED for candidate in self.candidates.values())
        return {**self.row.counts, **by_outcome}


class Maintenance:
    """Every run."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}

    def propose(
        self,
        run: RunRow,
        candidates: Iterable[CandidateRow],
        created_at_ms: int,
    ) -> None:
        """Store a proposal, as a job does."""
        by_key = {
            (row.group_id, row.topic, row.partition): Candidate(row.shard_id, row.commit_version, row.seen)
            for row in candidates
        }
        self._runs[run.run_id] = Run(run, created_at_ms, by_key)

    def begin(self, kind: str, change: ChangeRow, candidates: Iterable[CandidateRow], undoes: str | None) -> int:
        """Add a run under the id of a change, with the status applying; return its number of candidates."""
        rows = list(candidates)
        counts = {"candidates": len(rows)}
        run = RunRow(change.change_id, kind, change.at_ms, None, None, RunStatus.APPLYING, dry_run=False, counts=counts)
        self.propose(run, rows, change.at_ms)
        self.set_status(run.run_id, RunStatus.APPLYING, change)
        self._runs[run.run_id].undoes = undoes
        return len(rows)

    def is_cleanup(self, change_id: str) -> bool:
        """Return whether a change's run retired groups."""
        return any(run.change_id == change_id and run.row.kind == GROUP_CLEANUP for run in self._runs.values())

    def is_under_way(self, change_id: str) -> bool:
        """Return whether a change's run is still applying."""
        return any(run.change_id == change_id and run.row.status == RunStatus.APPLYING for run in self._runs.values())

    def find(self, run_id: str) -> RunRow:
        """Return a run."""
        return _counted(self._run(run_id))

    def set_status(self, run_id: str, status: RunStatus, change: ChangeRow) -> None:
        """Change the status of a run."""
        run = self._run(run_id)
        decision = RunDecision(change.actor, change.at_ms, change.reason)
        run.row = replace(run.row, status=status, decision=decision)
        run.change_id = change.change_id

    def proposed_before(self, created_at_ms: int) -> list[str]:
        """Return the ids of proposed runs that were created before this, sorted."""
        runs = sorted(self._runs.items())
        return [key for key, run in runs if run.row.status == RunStatus.PROPOSED and run.created_at_ms < created_at_ms]

    def decide(self, outcomes: Iterable[OutcomeRow]) -> None:
        """Store the outcomes of undecided candidates."""
        for outcome in outcomes:
            run = self._runs.get(outcome.run_id)
            candidate = run and run.candidates.get((outcome.group_id, outcome.topic, outcome.partition))
            if candidate and candidate.outcome is None:
                candidate.outcome = outcome.outcome

    def next_candidates(
        self, shard_ids: frozenset[int], limit: int, without_groups: frozenset[str], without_runs: frozenset[str]
    ) -> list[CandidateRow]:
        """Return undecided candidates of applying runs."""
        found: list[CandidateRow] = []
        for run_id, run in sorted(self._runs.items()):
            if run.row.status == RunStatus.APPLYING and run_id not in without_runs:
                found += [row for row in _undecided(run_id, run, shard_ids) if row.group_id not in without_groups]
        return sorted(found[:limit], key=lambda row: (row.run_id, row.group_id))

    def finish(self) -> list[str]:
        """Mark applying runs without undecided candidates as applied; return their ids."""
        finished = []
        for run_id, run in sorted(self._runs.items()):
            is_applying = run.row.status == RunStatus.APPLYING
            if is_applying and all(candidate.outcome is not None for candidate in run.candidates.values()):
                run.row = replace(run.row, status=RunStatus.APPLIED, counts=run.counts())
                finished.append(run_id)
        return finished

    def _run(self, run_id: str) -> Run:
        if run_id not in self._runs:
            raise RunNotFound(run_id)
        return self._runs[run_id]


def _counted(run: Run) -> RunRow:
    return replace(run.row, counts=run.counts()) if run.row.status == RunStatus.APPLYING else run.row


def _undecided(run_id: str, run: Run, shard_ids: frozenset[int]) -> list[CandidateRow]:
    """Return a run's undecided candidates, by shard and group."""
    assert run.change_id is not None, "a run is applied under a change"
    open_ones = [
        CandidateRow(
            run_id,
            run.change_id,
            candidate.shard_id,
            *key,
            candidate.commit_version,
            run.row.kind,
            run.undoes,
            candidate.seen,
        )
        for key, candidate in run.candidates.items()
        if candidate.outcome is None and candidate.shard_id in shard_ids
    ]
    return sorted(open_ones, key=lambda row: (row.shard_id, row.group_id, row.topic, row.partition))
