"""Input and output of commands: files of offsets, tables, JSON."""

from __future__ import annotations

import json
import time
from io import StringIO
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from rich.console import Console

from muster.cli.doctor.results import CheckResult
from muster.cli.offset_resets import Target
from muster.cli.runs import print_run
from muster.output import STYLES, Table, print_json


def test_every_status_of_a_check_has_a_colour() -> None:
    statuses = get_args(get_type_hints(CheckResult)["status"])

    assert statuses
    assert set(statuses) <= STYLES.keys()


def test_id_beside_which_no_column_would_fit_is_folded_and_not_cut() -> None:
    run_id = "8a56c3f2-3649-49c0-aa33-20d5caf80b0a"
    table = Table("RUN", "KIND", "STATUS")
    table.add(run_id, "group_cleanup", "proposed")

    printed = {width: StringIO() for width in (80, 40)}
    for width, text in printed.items():
        Console(width=width, file=text).print(table.rich(width=width))

    assert run_id in printed[80].getvalue()
    parts = [word for word in printed[40].getvalue().split() if word in run_id]
    assert len(parts) > 1
    assert "".join(parts) == run_id


def test_no_name_in_json_controls_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"group_id": "a\x9b2J\x7f\u202e\u2028é\U000e0001\n\x1b"}
    print_json(value)
    said = capsys.readouterr().out

    assert json.loads(said) == value
    assert "é" in said
    assert said.replace("\n", "").isprintable()


def test_no_reason_of_a_decision_controls_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    decision = {"actor": "ada\x1b[2J", "at": "2026-11-23T10:10:42Z", "reason": "no\n\x1b]0;root\x07"}
    run = {"run_id": "r", "kind": "offset_retention", "as_of": "2026-11-23T10:10:00Z", "status": "rejected"}
    print_run(
        {**run, "dry_run": False, "counts": {}, "decision": decision, "held_by": {"run_id": "s", **decision}},
        as_json=False,
    )

    said = capsys.readouterr().out.splitlines()
    assert said[1:] == [
        "Decided by ada�[2J at 2026-11-23 10:10:42 UTC: no��]0;root�",
        "Has the candidates of run s, rejected by ada�[2J at 2026-11-23 10:10:42 UTC: no��]0;root�",
    ]


def test_many_rows_take_little_time() -> None:
    table = Table("GROUP", "LAG")
    for number in range(5_000):
        table.add(f"group-{number}", number)
    began_s = time.process_time()

    assert len(table.lines()) == 5_001
    assert time.process_time() - began_s < 2, "it takes some hundredths of a second; each row is looked at once"


def test_many_groups_of_a_file_take_little_time(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("".join(f"g{line // 10},orders,{line % 10},5\n" for line in range(30_000)))
    target = Target.of(file=str(file))
    began_s = time.process_time()

    bodies = [body for group_id in target.groups_in_file([]) for body in target.bodies(group_id, [])]

    assert [len(body["offsets"]) for body in bodies] == [10] * 3_000
    assert time.process_time() - began_s < 2, "it takes some hundredths of a second; each line is looked at once"
