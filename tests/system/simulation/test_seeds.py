"""Some seeds hold every invariant, and every run of a seed is the same."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.support.repository import ROOT
from tests.system.simulation.__main__ import ENOUGH_SEEDS, Run, finish, main, missing
from tests.system.simulation.faults import FAULTS
from tests.system.simulation.seeds import Outcome, run_seed
from tests.system.simulation.world import Violation

SEEDS = range(1, 6)
COMMON = ("node_paused", "node_crashed", "store_down", "lease_overtaken", "request_lost", "reply_lost", "agent_crashed")


@pytest.mark.parametrize("option", ["--seeds", "--jobs"])
def test_run_of_nothing_is_refused(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["simulation", option, "0"])

    with pytest.raises(SystemExit, match="2"):
        main()
    assert "--seeds and --jobs must be at least 1" in capsys.readouterr().err


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [run_seed(seed) for seed in SEEDS]


def test_every_invariant_holds(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        reported = "\n".join(outcome.transcript)
        assert outcome.violation is None, f"seed {outcome.seed}: {outcome.violation}\n{reported}"


def test_faults_do_strike(outcomes: list[Outcome]) -> None:
    for fault in COMMON:
        assert any(outcome.struck[fault] for outcome in outcomes), f"{fault} never struck"
    assert {fault for outcome in outcomes for fault in outcome.struck} <= set(FAULTS), "a fault is not on the list"


def test_much_is_looked_at(outcomes: list[Outcome]) -> None:
    sums = sum((Counter(outcome.sums) for outcome in outcomes), Counter())
    assert all(count > 50 * len(SEEDS) for count in sums.values()), sums


def test_a_seed_is_the_same_in_another_process(outcomes: list[Outcome]) -> None:
    command = [sys.executable, "-m", "tests.system.simulation", "--seed", str(SEEDS[0])]
    repeated = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    assert f"trace {outcomes[0].fingerprint}" in repeated.stdout


def test_two_seeds_are_not_the_same(outcomes: list[Outcome]) -> None:
    assert len({outcome.fingerprint for outcome in outcomes}) == len(outcomes)


def test_a_long_run_in_which_a_fault_never_struck_fails() -> None:
    struck = Counter(dict.fromkeys(FAULTS, 1))
    assert missing(struck, ENOUGH_SEEDS) == 0
    struck["store_down"] = 0
    assert missing(struck, ENOUGH_SEEDS) == 1
    assert missing(struck, ENOUGH_SEEDS - 1) == 0


def taken(seeds: range, failing: int, mode: str = "") -> Run:
    run = Run(0.0, 1, mode)
    for seed in seeds:
        violation = Violation("GroupsSettle", "it does not", 1.0, None) if seed == failing else None
        run.take(Outcome(seed, violation, Counter(), ""))
    return run


def test_a_run_goes_on_after_a_failure_and_names_it_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert finish(taken(range(5, 15), 7, "unreadable"), range(5, 15), "unreadable") == 1
    printed = capsys.readouterr().out
    assert "10 seeds" in printed
    assert printed.splitlines()[-1] == "failed: make sim SEED=7 ARGS=--unreadable"


def test_a_run_that_ended_early_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert finish(taken(range(5, 15), 0), range(5, 105), "losses") == 1
    assert capsys.readouterr().out.splitlines()[-1] == 'to go on: make sim SEEDS=90 ARGS="--first 15 --losses"'
    assert finish(taken(range(5, 15), 0), range(5, 15), "losses") == 0
