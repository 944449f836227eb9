"""Actions of changes and statuses of runs are the same in code, documentation and database."""

import json
import re
from enum import StrEnum

import psycopg2.extensions
import pytest

from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.runs import FINISHED, RunStatus, decided
from spark_jobs import publish
from spark_jobs.submit import maintenance_run
from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "tables.md").read_text()


@pytest.mark.parametrize("word", [*ChangeAction, *RunStatus])
def test_action_equals_its_text_in_json_and_sql(word: StrEnum) -> None:
    text = word.value
    assert json.dumps({word: word}) == f'{{"{text}": "{text}"}}'
    assert psycopg2.extensions.adapt(word).getquoted() == f"'{text}'".encode()
    assert (f"{word}", str(word)) == (text, text)
    assert {word} == {text}


def test_the_page_has_every_action() -> None:
    rows = PAGE.partition("| action | `before` | `after` |")[2].partition("\n\n")[0]
    firsts = [row.split("|")[1] for row in rows.splitlines() if row.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", "".join(firsts))) == sorted(ChangeAction)


def test_the_page_has_every_status_of_a_run() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| `status` | text |"))
    assert re.findall(r"`(\w+)`", row)[1:] == list(RunStatus)


def test_jobs_and_dags_use_the_same_values() -> None:
    assert maintenance_run.FINISHED == FINISHED
    assert publish.PROPOSED == RunStatus.PROPOSED


@pytest.mark.parametrize(
    ("status", "wanted", "then"),
    [
        ("proposed", RunStatus.APPLYING, "applying"),
        ("proposed", RunStatus.REJECTED, "rejected"),
        ("applied", RunStatus.APPLYING, "applied"),
        ("rejected", RunStatus.REJECTED, "rejected"),
        ("rejected", RunStatus.APPLYING, None),
        ("applying", RunStatus.REJECTED, None),
    ],
)
def test_a_run_is_decided_once(status: str, wanted: RunStatus, then: str | None) -> None:
    assert decided(status, wanted) == then
