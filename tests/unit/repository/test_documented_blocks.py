"""Every block of the pages whose rule is that all of them is executed belongs to the test that runs it."""

from typing import Final

import pytest

from tests.support.documented_commands import blocks
from tests.support.repository import ROOT

COMMANDS: Final = "tests/integration/cli/test_documented_commands.py"
CONSUME: Final = "tests/system/e2e/examples/test_consume_page.py"
AGENT: Final = "tests/integration/agent/test_agent_page.py"
QUERIES: Final = "tests/integration/postgres/test_documented_queries.py"
PROGRAM: Final = "from agent import ConsumerAgent\n\nwith ConsumerAgent("

EXECUTED: Final = {
    ("README.md", "```console", ""): COMMANDS,
    ("README.md", "```python", PROGRAM): AGENT,
    ("docs/consume.md", "```console", ""): CONSUME,
    ("docs/consume.md", "```python", "from pathlib import Path\n"): CONSUME,
    ("docs/agent.md", "```python", PROGRAM): AGENT,
    ("docs/agent.md", "```python", "from agent.aio import ConsumerAgent\n"): AGENT,
    ("docs/agent.md", "```python", "Assignor("): AGENT,
    ("docs/agent.md", "```console", "$ curl "): AGENT,
    ("docs/maintenance.md", "```console", ""): COMMANDS,
    ("docs/maintenance.md", "```sql", "SELECT "): QUERIES,
    ("docs/maintenance.md", "```http", "PATCH "): "tests/integration/airflow/answering.py",
    ("docs/maintenance.md", "```text", "MUSTER_CLUSTERS="): "tests/integration/airflow/test_clusters.py",
    ("docs/maintenance.md", "```text", "misplaced = "): "not: it is a formula",
    ("docs/runbook.md", "```console", ""): COMMANDS,
    ("docs/runbook.md", "```sql", "SELECT "): QUERIES,
}
"""The page, opening line and beginning of blocks, and the test that runs all of these, or requires that it is one."""


@pytest.mark.parametrize("page", dict.fromkeys(page for page, _, _ in EXECUTED))
def test_every_block_of_a_page_is_executed(page: str) -> None:
    kinds = [(fence, beginning) for name, fence, beginning in EXECUTED if name == page]
    found = blocks(page)
    executed = [[kind for kind in kinds if fence == kind[0] and text.startswith(kind[1])] for fence, text in found]

    assert [block for block, kinds_of_it in zip(found, executed, strict=True) if not kinds_of_it] == []
    assert {kind for kinds_of_it in executed for kind in kinds_of_it} == {*kinds}


@pytest.mark.parametrize("executor", sorted({each for each in EXECUTED.values() if not each.startswith("not: ")}))
def test_the_test_that_runs_a_block_exists(executor: str) -> None:
    assert (ROOT / executor).is_file()
