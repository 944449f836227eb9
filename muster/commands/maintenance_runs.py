"""Prints maintenance runs: what each proposes, and its progress."""

from __future__ import annotations

import time
from typing import Final

from coordinator_core.store.runs import FINISHED, UNDECIDED, RunStatus
from muster import display
from muster.apply_timeout import apply_timeout_s
from muster.commands.http_client import Json, NodeClient, segment
from muster.commands.output import Table, counted, moment, print_json
from muster.errors import FAILURE_EXIT_CODE, UserError
from spark_jobs.submit import MEASURES

POLL_S: Final = 0.5


def print_runs(node: NodeClient, statuses: set[str], *, as_json: bool) -> None:
    """Print the newest runs, those of the statuses that are named or all."""
    found = [each for each in node.get("/v1/maintenance/runs")["runs"] if not statuses or each["status"] in statuses]
    if as_json:
        print_json({"runs": found})
        return
    if not found:
        print("No matching runs.")
        return
    table = Table("RUN", "KIND", "AS OF", "STATUS", "CANDIDATES BY OUTCOME")
    for each in found:
        table.add(each["run_id"], each["kind"], moment(each["as_of"]), each["status"], _counts(each))
    table.print()


def read_run(node: NodeClient, run_id: str) -> Json:
    """Return a run as it stands."""
    return node.get(_path(run_id))


def print_run(run: Json, *, as_json: bool) -> None:
    """Print a run in full."""
    if as_json:
        print_json(run)
        return
    print(f"{run['run_id']}: {run['kind']} as of {moment(run['as_of'])} UTC, {run['status']}", end="")
    print(" (dry run)" if run["dry_run"] else "")
    table = Table("WHAT", "COUNT")
    for name, count in sorted(run["counts"].items()):
        table.add(name, count)
    if len(table):
        table.print()


def print_candidates(node: NodeClient, run_id: str, limit: int, *, as_json: bool) -> None:
    """Print the offsets, groups or days of history that a run names, and what came of each."""
    found = node.pages(_path(run_id, "/candidates"), "candidates", limit)
    # A run names days or something else, and all of its days at once.
    days = [] if found else node.get(_path(run_id, "/candidates"), limit=1)["days"][:limit]
    if as_json:
        print_json({"run_id": run_id, "candidates": found, "days": days})
        return
    if days:
        _print_days(days)
        return
    if not found:
        print("The run has no candidates.")
        return
    table = Table("GROUP", "TOPIC", "PARTITION", "COMMITTED", "EMPTY SINCE", "REASON", "OUTCOME")
    for each in found:
        seen = (moment(each["committed_at"]), moment(each["state_since"]), each["reason"])
        table.add(each["group_id"], each["topic"], each["partition"], *seen, each["outcome"] or UNDECIDED)
    table.print()


def _print_days(days: list[Json]) -> None:
    table = Table("TABLE", "DAY", "ROWS", "OUTCOME", "WHERE")
    for each in days:
        table.add(each["table"], each["day"], each["row_count"], each["outcome"] or UNDECIDED, each["path"])
    table.print()


def apply_run(node: NodeClient, run_id: str, reason: str, *, is_dry_run: bool, waits: bool, as_json: bool) -> None:
    """Apply a run, or report what would be applied.

    Raises:
        UserError: it is decided otherwise, or not worked off in time.
    """
    if is_dry_run:
        _print_dry_run(read_run(node, run_id), as_json=as_json)
        return
    timeout_s = apply_timeout_s() if waits else 0.0
    run = node.post(_path(run_id, "/apply"), {"reason": reason})
    deadline_s = time.monotonic() + timeout_s
    while waits and run["status"] not in FINISHED:
        if time.monotonic() > deadline_s:
            raise UserError(display.apply_timeout_message(run_id, timeout_s), FAILURE_EXIT_CODE)
        time.sleep(POLL_S)  # Nodes send no notification when a run is completed.
        run = read_run(node, run_id)
    print_run(run, as_json=as_json)


def reject_run(node: NodeClient, run_id: str, reason: str) -> Json:
    """Reject a run, and return it."""
    return node.post(_path(run_id, "/reject"), {"reason": reason})


def _print_dry_run(run: Json, *, as_json: bool) -> None:
    """Say what applying a run would do."""
    if as_json:
        print_json(run)
        return
    print_run(run, as_json=False)
    if run["status"] != RunStatus.PROPOSED:
        print(f"The run is {run['status']}; there is nothing to decide.")
        return
    left = run["counts"].get(UNDECIDED, run["counts"].get("candidates", 0))
    print(f"{counted(left, 'candidate')} would be judged again. Dry run; use --execute to apply.")


def _counts(run: Json) -> str:
    counts = sorted((name, count) for name, count in run["counts"].items() if name not in MEASURES and count)
    return ", ".join(f"{count} {name}" for name, count in counts) or "none"


def _path(run_id: str, action: str = "") -> str:
    return f"/v1/maintenance/runs/{segment(run_id)}{action}"
