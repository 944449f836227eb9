"""A malformed scenario file is reported in one sentence that names the scenario and the step."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.system.conformance.__main__ import MALFORMED_EXIT_CODE, main
from tests.system.conformance.grammar import MalformedScenarios
from tests.system.conformance.scenarios import OURS, load_scenarios

Json = Any


def written(path: Path, change: Callable[[Json], object]) -> Path:
    """Write the file of one scenario with one join, changed."""
    content = json.loads(OURS.read_text())
    step = {"id": "s1", "op": "join", "who": "A", "args": {}, "expect": {"pending": True}}
    content["scenarios"] = [{"id": "X-1", "title": "a join", "tags": ["join"], "steps": [step]}]
    change(content)
    file = path / "mine.json"
    file.write_text(json.dumps(content))
    return file


def step_of(content: Json) -> Json:
    return content["scenarios"][0]["steps"][0]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda c: step_of(c).update(op="jion"), "scenario X-1, step s1: there is no op jion."),
        (lambda c: step_of(c).pop("who"), "scenario X-1, step s1: who is missing."),
        (lambda c: step_of(c).pop("op"), "scenario X-1, step s1: op is missing."),
        (lambda c: step_of(c).pop("id"), "scenario X-1, step number 1: id is missing."),
        (lambda c: step_of(c)["args"].update(sesion=1), "scenario X-1, step s1: join takes no argument sesion."),
        (lambda c: step_of(c)["expect"].update(eror=1), "scenario X-1, step s1: join has no answer eror."),
        (lambda c: step_of(c).update(op="await", ref="s9"), "scenario X-1, step s1: s9 is no join or sync before it."),
        (lambda c: step_of(c).update(op="advance_clock"), "scenario X-1, step s1: ms is missing."),
        (
            lambda c: step_of(c).update(op="advance_clock", ms=-1, args={}, expect=None),
            "scenario X-1, step s1: ms is no whole number of milliseconds.",
        ),
        (
            lambda c: step_of(c).update(op="commit", args={"offsets": [{"topic": "t"}]}, expect=None),
            "scenario X-1, step s1: offsets: offset is missing.",
        ),
        (lambda c: c["scenarios"][0].update(config={"no.such": 1}), "scenario X-1: there is no setting no.such."),
        (lambda c: c["scenarios"][0].pop("title"), "scenario X-1: title is missing."),
        (lambda c: c["scenarios"].append(c["scenarios"][0]), "scenario X-1: there are two of this id."),
        (lambda c: c["defaults"]["consumer"].pop("protocols"), "defaults.consumer: protocols is missing."),
        (lambda c: c.pop("scenarios"), "the file: scenarios is missing."),
    ],
)
def test_malformed_scenario_is_named(tmp_path: Path, change: Callable[[Json], object], sentence: str) -> None:
    file = written(tmp_path, change)

    with pytest.raises(MalformedScenarios) as refusal:
        load_scenarios(file)

    assert str(refusal.value) == f"{file}: {sentence}"


def test_command_prints_only_the_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.json"
    file.write_text("{")

    assert main([str(file)]) == MALFORMED_EXIT_CODE
    assert capsys.readouterr().err.startswith(f"{file} is not JSON: ")


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(MalformedScenarios, match=r"none\.json cannot be read: No such file or directory\.$"):
        load_scenarios(tmp_path / "none.json")
