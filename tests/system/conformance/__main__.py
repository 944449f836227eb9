"""Command-line runner (`make conformance`): runs every scenario in process and over HTTP and prints a table by area."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from muster.local.embedded_postgres import EmbeddedPostgres
from tests.support.databases import FORGETFUL, Databases
from tests.system.conformance.fleet import Fleet, Outcome
from tests.system.conformance.grammar import MalformedScenarios
from tests.system.conformance.interpreter import Interpreter
from tests.system.conformance.machine import Machine
from tests.system.conformance.outside import LIMIT_S, Plan, plan
from tests.system.conformance.scenarios import Scenario, load_scenarios
from tests.system.conformance.silence import silenced

MALFORMED_EXIT_CODE: Final = 2


@dataclass(frozen=True, slots=True)
class Result:
    """The results of one scenario, both ways."""

    plan: Plan
    complaint_in_process: str | None
    over_http: Outcome | None
    """None when it was not run there."""

    @property
    def scenario(self) -> Scenario:
        return self.plan.scenario

    @property
    def is_good(self) -> bool:
        """Return whether the scenario passed wherever it was run."""
        return self.complaint_in_process is None and (self.over_http is None or self.over_http.complaint is None)


def main(arguments: Sequence[str]) -> int:
    """Run scenarios and print the results; return 0 if all passed, 1 if not, 2 for a malformed file."""
    asked = _parser().parse_args(arguments)
    try:
        scenarios = load_scenarios(*asked.files)
    except MalformedScenarios as malformed:
        sys.stderr.write(f"{malformed}\n")
        return MALFORMED_EXIT_CODE
    plans = [plan(each, asked.limit_s) for each in scenarios]
    console = Console()
    console.print(_announcement(plans))
    with silenced():
        results = _run(plans)
    _report(console, results)
    return 0 if all(result.is_good for result in results) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m tests.system.conformance", description="Run scenarios in process and over HTTP."
    )
    parser.add_argument("files", nargs="*", type=Path, help="scenario files (default: those of the project)")
    parser.add_argument(
        "--limit-s",
        type=float,
        default=LIMIT_S,
        help="maximum seconds of a scenario over HTTP (%(default)s)",
    )
    return parser


def _announcement(plans: Sequence[Plan]) -> str:
    over_http = [each for each in plans if each.reason is None]
    longest_s = max((each.real_s for each in over_http), default=0.0)
    numbers = f"{len(plans)} scenarios in process, {len(over_http)} of them over HTTP too"
    return f"{numbers}; the longest takes {longest_s:.0f} s."


# -- run ----------------------------------------------------------------------------------------------------


def _run(plans: Sequence[Plan]) -> list[Result]:
    in_process = {each.scenario.scenario_id: _in_process(each.scenario) for each in plans}
    over_http = _over_http([each for each in plans if each.reason is None])
    return [
        Result(each, in_process[each.scenario.scenario_id], over_http.get(each.scenario.scenario_id)) for each in plans
    ]


def _in_process(scenario: Scenario) -> str | None:
    try:
        Interpreter(scenario, Machine(scenario.config)).run()
    except AssertionError as complaint:
        return str(complaint)
    return None


def _over_http(plans: Sequence[Plan]) -> dict[str, Outcome]:
    if not plans:
        return {}
    with (
        tempfile.TemporaryDirectory() as directory,
        EmbeddedPostgres(Path(directory) / "cluster", max_connections=100, options=FORGETFUL) as postgres,
    ):
        databases = Databases(postgres)
        with Fleet(databases, plans) as fleet:
            outcomes = {each.scenario.scenario_id: fleet.outcome(each.scenario.scenario_id) for each in plans}
        databases.close()
    return outcomes


# -- report -------------------------------------------------------------------------------------------------


def _report(console: Console, results: Sequence[Result]) -> None:
    console.print(_table(results))
    _list(
        console, "Not run over HTTP", [f"{r.scenario.scenario_id}: {r.plan.reason}" for r in results if r.plan.reason]
    )
    _list(console, "Not compared over HTTP", [line for result in results for line in _not_compared(result)])
    _list(console, "Repeated", [line for r in results if r.over_http is not None for line in r.over_http.repeats])
    _list(console, "Failed", [line for result in results for line in _failures(result)])


def _table(results: Sequence[Result]) -> Table:
    table = Table("area", title="Conformance")
    for column in ("in process", "over HTTP"):
        table.add_column(column, justify="right")
    areas = dict.fromkeys(result.scenario.area for result in results)
    for area in areas:
        table.add_row(area, *_counts([result for result in results if result.scenario.area == area]))
    table.add_section()
    table.add_row("all", *_counts(results))
    return table


def _counts(results: Sequence[Result]) -> tuple[str, str]:
    held = sum(result.complaint_in_process is None for result in results)
    outside = [result.over_http for result in results if result.over_http is not None]
    held_outside = sum(outcome.complaint is None for outcome in outside)
    return f"{held}/{len(results)}", f"{held_outside}/{len(outside)}" if outside else "-"


def _not_compared(result: Result) -> list[str]:
    if result.over_http is None:
        return []
    name = result.scenario.scenario_id
    skipped_steps = [f"{name}, step {step}: {why}" for step, why in result.plan.skipped_steps.items()]
    unseen = ", ".join(result.over_http.attempts[-1].unseen)
    return [*skipped_steps, *([f"{name}: {unseen}, which no response contains"] if unseen else [])]


def _failures(result: Result) -> list[str]:
    outside = None if result.over_http is None else result.over_http.complaint
    complaints = {"in process": result.complaint_in_process, "over HTTP": outside}
    return [f"{where}: {complaint}" for where, complaint in complaints.items() if complaint is not None]


def _list(console: Console, title: str, lines: Sequence[str]) -> None:
    if lines:
        console.print(f"\n{title} ({len(lines)}):", markup=False)
    for line in lines:
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
