"""Results of jobs and runs as a task's log, its XCom and a person who approves have them: counts, and a link."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coordinator_core.jobs import JobSpec
from spark_jobs.submit.maintenance_run import MaintenanceRun

REASON_MAX_CHARS = 1_000
"""Copied from the API, which DAGs must not import; a test compares them."""


def result_line(kind: str, values: Mapping[str, Any]) -> str:
    """Return the line in which a job prints its result for programs."""
    return f"{kind}: result {json.dumps(values)}"


def read_result(kind: str, lines: Iterable[str]) -> dict[str, Any]:
    """Return the result in a job's output; nothing if the driver ran elsewhere, so that its output is not here."""
    start = f"{kind}: result "
    found = [line.removeprefix(start) for line in lines if line.startswith(start)]
    return dict(json.loads(found[-1])) if found else {}


def read_failure(kind: str, lines: Iterable[str]) -> str | None:
    """Return the sentence with which a job failed, in its output; None if it ended without, or ran elsewhere."""
    found = [line.strip() for line in lines if line.startswith(f"{kind}: ")]
    return found[-1] if found else None


def console_url(console: str, run_id: str | None = None) -> str:
    """Return the address of a maintenance run, or of the reports, in the console at an address."""
    return f"{console.strip().rstrip('/')}/#/{'reports' if run_id is None else f'maintenance/{run_id}'}"


def result_of_run(run: MaintenanceRun, url: str) -> dict[str, Any]:
    """Return a run's status and counts, with a link to it."""
    return {"run_id": run.run_id, "status": run.status, "counts": run.counts, "console": url}


def describe_result(result: Mapping[str, Any]) -> str:
    """Return a result in one line, which ends with the link; a report without rows says why."""
    counts = ", ".join(f"{name} {count}" for name, count in result.get("counts", {}).items())
    reason = f" ({result['why_nothing']})" if result.get("why_nothing") else ""
    return f"Counts: {counts or 'unknown'}{reason}. See {result['console']}"


def rejection_text(rejection: Mapping[str, str | None]) -> str:
    """Return the reason for rejecting a run for which another run's rejection holds."""
    reason = rejection["reason"] or "no reason was given"
    text = f"the candidates are those of run {rejection['run_id']}, which {rejection['actor']} rejected at"
    return f"{text} {rejection['at']}: {reason}"[:REASON_MAX_CHARS]


def approval_text(
    job: JobSpec, run: MaintenanceRun, exceeded: Sequence[str], largest_groups: Sequence[tuple[str, int]], url: str
) -> str:
    """Return what a person is to approve, in Markdown: what would be removed, from which groups, and why it waits."""
    counts = {"candidates": "an unknown number", "of": "all", "groups": "an unknown number of", **run.counts}
    parts = [f"This run would {job.effect.format_map(counts)}."]
    if largest_groups:
        named = ", ".join(f"{_code(group_id)} ({count})" for group_id, count in largest_groups)
        parts.append(f"Groups with most of them: {named}.")
    parts.append(f"It waits for approval because: {' '.join(exceeded)}")
    parts.append(f"[Run {run.run_id} in the console]({url}) lists every candidate.")
    return "\n\n".join(parts)


def _code(name: str) -> str:
    """Return a name of a client's choice, so that Markdown cannot read anything into it."""
    return f"`{' '.join(name.replace('`', chr(39)).split())}`"
