"""`muster runs`: maintenance runs, and the decision to apply or reject them."""

# ruff: noqa: PLC0415 - a command loads only what it needs, and has a parameter for each of its flags

from typing import Annotated

import typer

from muster.commands.command_tree import command_group
from muster.commands.options import (
    REASON,
    ActorOption,
    DryRunOption,
    ExecuteOption,
    JsonOption,
    ReasonOption,
    UrlOption,
)

app = command_group("Show, apply and reject maintenance runs.")

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)]


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
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest maintenance runs."""
    from muster.commands.group_selection import split
    from muster.commands.http_client import NodeClient
    from muster.commands.maintenance_runs import print_runs

    print_runs(NodeClient(url), set(split(status)), as_json=as_json)


@app.command()
def show(run_id: RunArgument, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Show a run: its status, and its candidates by outcome."""
    from muster.commands.http_client import NodeClient
    from muster.commands.maintenance_runs import print_run, read_run

    print_run(read_run(NodeClient(url), run_id), as_json=as_json)


@app.command()
def candidates(
    run_id: RunArgument,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of entries.")] = 100,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the candidates of a run and their outcomes."""
    from muster.commands.http_client import NodeClient
    from muster.commands.maintenance_runs import print_candidates

    print_candidates(NodeClient(url), run_id, limit, as_json=as_json)


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
    from muster.commands.http_client import NodeClient
    from muster.commands.maintenance_runs import apply_run

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
    from muster.commands.http_client import NodeClient
    from muster.commands.maintenance_runs import print_run, reject_run

    print_run(reject_run(NodeClient(url, actor), run_id, reason), as_json=as_json)
