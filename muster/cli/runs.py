"""`muster runs`: maintenance runs, and the decision to apply or reject them."""

from __future__ import annotations

import time
from typing import Annotated, Final

import typer

from coordinator_core.state_store.runs import FINISHED, UNDECIDED, RunStatus
from muster import display
from muster.cli.command_tree import command_group
from muster.cli.group_selection import known_values
from muster.cli.options import (
    REASON,
    ActorOption,
    DryRunOption,
    ExecuteOption,
    JsonOption,
    ReasonOption,
    UrlOption,
    WideOption,
)
from muster.display import counted, moment
from muster.errors import FAILURE_EXIT_CODE, USAGE_EXIT_CODE, UserError
from muster.node_client import Json, NodeClient, segment
from muster.output import Table, print_json
from muster.run_counts import counts_line, counts_rows

app = command_group("Show, apply and reject maintenance runs.")

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)]


POLL_S: Final = 0.5
RUNS: Final = "/v1/maintenance/runs"
EXPIRY: Final = "offset_retention"
"""The kind of a proposed run that archives offsets, which an undo restores."""


@app.command("list")
def list_runs(
    status: Annotated[
        list[str] | None,
        typer.Option(
            "--status",
            help="Only runs with this status: proposed,applying,applied,rejected,failed.",
            metavar="STATUSES",
        ),
    ] = None,
    wide: WideOption = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest maintenance runs."""
    found = NodeClient(url).get(RUNS, status=list(known_values("--status", RunStatus, status)))["runs"]
    if as_json:
        print_json({"runs": found})
        return
    if not found:
        print("No matching runs.")
        return
    headings = ("RUN", "KIND", "AS OF", "STATUS", "CANDIDATES BY OUTCOME", "DECIDED BY")
    table = Table(*headings, wide_only={"DECIDED BY"})
    for each in found:
        run = (each["run_id"], each["kind"], moment(each["as_of"]), each["status"], counts_line(each))
        table.add(*run, _describe_decision(each["decision"]) if each.get("decision") else None)
    table.print(is_wide=wide)


@app.command()
def show(run_id: RunArgument, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Show a run: its status, and its candidates by outcome."""
    print_run(read_run(NodeClient(url), run_id), as_json=as_json)


@app.command()
def candidates(
    run_id: RunArgument,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of entries.")] = 100,
    wide: WideOption = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the candidates of a run and their outcomes."""
    node = NodeClient(url)
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
        print("No candidates of the run are stored.")
        return
    headings = ("GROUP", "TOPIC", "PARTITION", "COMMITTED", "EMPTY SINCE", "REASON", "OUTCOME")
    table = Table(*headings, wide_only={"EMPTY SINCE"})
    for each in found:
        seen = (moment(each["committed_at"]), moment(each["state_since"]), each["reason"])
        table.add(each["group_id"], each["topic"], each["partition"], *seen, each["outcome"] or UNDECIDED)
    table.print(is_wide=wide)


@app.command()
def apply(
    run_id: RunArgument,
    execute: ExecuteOption = False,
    dry_run: DryRunOption = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the run is completed.")] = False,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply a run; a dry run without --execute.

    Each candidate is evaluated again before it is removed, and removed rows are archived.
    """
    is_dry_run = dry_run or not execute
    apply_run(NodeClient(url, actor), run_id, reason, is_dry_run=is_dry_run, waits=wait, as_json=as_json)


@app.command()
def reject(
    run_id: RunArgument,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reject a run; none of its candidates is applied."""
    print_run(NodeClient(url, actor).post(_path(run_id, "/reject"), {"reason": reason}), as_json=as_json)


def read_run(node: NodeClient, run_id: str) -> Json:
    """Return a run."""
    return node.get(_path(run_id))


def print_run(run: Json, *, as_json: bool) -> None:
    """Print a run in full."""
    if as_json:
        print_json(run)
        return
    print(f"{run['run_id']}: {run['kind']} as of {moment(run['as_of'])} UTC, {run['status']}", end="")
    print(" (dry run)" if run["dry_run"] else "")
    if decision := run.get("decision"):
        print(f"Decided by {_describe_decision(decision)}")
    if held_by := run.get("held_by"):
        print(f"Has the candidates of run {held_by['run_id']}, rejected by {_describe_decision(held_by)}")
    table = Table("WHAT", "COUNT", "MEANING")
    for row in counts_rows(run["counts"]):
        table.add(*row)
    if len(table):
        table.print()


def _describe_decision(decision: Json) -> str:
    reason = f": {decision['reason']}" if decision["reason"] else ""
    return display.printable(f"{decision['actor']} at {moment(decision['at'])} UTC{reason}")


def _print_days(days: list[Json]) -> None:
    table = Table("TABLE", "DAY", "ROWS", "OUTCOME", "WHERE")
    for each in days:
        table.add(each["table"], each["day"], each["row_count"], each["outcome"] or UNDECIDED, each["path"])
    table.print()


def apply_run(node: NodeClient, run_id: str, reason: str, *, is_dry_run: bool, waits: bool, as_json: bool) -> None:
    """Apply a run, or report what would be applied.

    Raises:
        UserError: it was decided differently, or is not applied in time.
    """
    if is_dry_run:
        _print_dry_run(read_run(node, run_id), as_json=as_json)
        return
    timeout_s = apply_timeout_s() if waits else 0.0
    run = node.post(_path(run_id, "/apply"), {"reason": reason})
    change_id = node.change_id
    deadline_s = time.monotonic() + timeout_s
    while waits and run["status"] not in FINISHED:
        if time.monotonic() > deadline_s:
            raise UserError(display.apply_timeout_message(run_id, timeout_s), FAILURE_EXIT_CODE)
        time.sleep(POLL_S)  # Nodes send no notification when a run is completed.
        run = read_run(node, run_id)
    print_run(run, as_json=as_json)
    if not as_json:
        print_undo(node, run, change_id)


def print_undo(node: NodeClient, run: Json, change_id: str | None) -> None:
    """Print the command that undoes a run, unless it removed nothing, or an earlier change had applied it."""
    if change_id is None or run["kind"] != EXPIRY or not run["counts"].get("candidates"):
        return
    if node.get(f"/v1/changes/{segment(change_id)}")["before"]["status"] == RunStatus.PROPOSED:
        display.print_undo([change_id], "" if run["status"] in FINISHED else display.AFTER_THE_RUN)


def _print_dry_run(run: Json, *, as_json: bool) -> None:
    """Print what applying a run would do."""
    if as_json:
        print_json(run)
        return
    print_run(run, as_json=False)
    if run["status"] != RunStatus.PROPOSED:
        print(f"The run is {run['status']}; there is nothing to decide.")
        return
    left = run["counts"].get(UNDECIDED, run["counts"].get("candidates", 0))
    print(f"{counted(left, 'candidate')} would be checked again. Dry run; use --execute to apply.")


def _path(run_id: str, action: str = "") -> str:
    return f"{RUNS}/{segment(run_id)}{action}"


def apply_timeout_s() -> float:
    """Return how long to wait for a run to be applied, in seconds.

    Raises:
        UserError: the setting is not a number of minutes.
    """
    from spark_jobs import submit  # noqa: PLC0415 - the help needs none of it
    from spark_jobs.errors import JobError  # noqa: PLC0415 - likewise

    try:
        return submit.apply_timeout().total_seconds()
    except JobError as refusal:
        raise UserError(str(refusal), USAGE_EXIT_CODE) from None
