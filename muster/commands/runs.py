"""`muster runs`: what the maintenance proposes, what of it was applied, and the two decisions on it."""

# ruff: noqa: PLC0415 - a command loads only what it needs, and has a parameter for each of its flags

from typing import Annotated

import typer

from muster.commands.options import (
    REASON,
    ActorOption,
    DryRunOption,
    ExecuteOption,
    JsonOption,
    ReasonOption,
    UrlOption,
)
from muster.commands.tree import command_group

app = command_group("What the maintenance proposes: look at it, apply it, reject it.")

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)]


@app.command("list")
def list_runs(
    status: Annotated[
        list[str] | None,
        typer.Option("--status", help="Only these: proposed,applying,applied,rejected,failed.", metavar="STATUSES"),
    ] = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest maintenance runs."""
    from muster.commands.asking import Node
    from muster.commands.choosing import split
    from muster.commands.proposals import print_runs

    print_runs(Node(url), set(split(status)), as_json=as_json)


@app.command()
def show(run_id: RunArgument, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Show a run: its status, and its candidates by outcome."""
    from muster.commands.asking import Node
    from muster.commands.proposals import print_run, read_run

    print_run(read_run(Node(url), run_id), as_json=as_json)


@app.command()
def candidates(
    run_id: RunArgument,
    limit: Annotated[int, typer.Option("--limit", min=1, help="So many at most.")] = 100,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a run names, and what came of each."""
    from muster.commands.asking import Node
    from muster.commands.proposals import print_candidates

    print_candidates(Node(url), run_id, limit, as_json=as_json)


@app.command()
def apply(
    run_id: RunArgument,
    execute: ExecuteOption = False,
    dry_run: DryRunOption = False,
    wait: Annotated[bool, typer.Option("--wait", help="Return when it is worked off.")] = False,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a proposal applied; a dry run without --execute.

    Each candidate is judged again before it goes, and what goes is archived.
    """
    from muster.commands.asking import Node
    from muster.commands.proposals import apply_run

    is_dry_run = dry_run or not execute
    apply_run(Node(url, actor), run_id, reason, is_dry_run=is_dry_run, waits=wait, as_json=as_json)


@app.command()
def reject(
    run_id: RunArgument,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reject a proposal: nothing of it will be applied."""
    from muster.commands.asking import Node
    from muster.commands.proposals import print_run, reject_run

    print_run(reject_run(Node(url, actor), run_id, reason), as_json=as_json)
