"""Commands and programs of docs/agent.md, and the program of README.md, work as written."""

import asyncio
import re
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from tests.support.documented_commands import sessions
from tests.support.http_client import Client
from tests.support.repository import ROOT
from tests.support.tools import program

PAGE = (ROOT / "docs" / "agent.md").read_text()
README = (ROOT / "README.md").read_text()
RECORDS = ["first", "second", "third"]
"""What every partition holds."""


def programs(page: str, beginning: str) -> list[str]:
    return [each for each in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) if beginning in each]


def test_the_documented_command_sets_the_partition_count_of_a_topic(node_url: str) -> None:
    ((command,),) = sessions("docs/agent.md")
    program("curl")
    command = command.replace(":8080/", f":{urlsplit(node_url).port}/")
    subprocess.run(["bash", "-c", command], check=True)
    with closing(Client(node_url)) as client:
        topics = {each["topic"]: each["partitions"] for each in client.ok("GET", "/v1/topics")["topics"]}
        (change,) = client.ok("GET", "/v1/changes?limit=1")["changes"]
    assert topics["invoices"] == 12
    assert change["actor"] == "ada"


class Source:
    """Two partitions of records, and how long a program consumes: until it has handled all of them once."""

    def __init__(self, client: Client, node_url: str) -> None:
        self.handled: list[str] = []
        self._client = client
        self._node_url = node_url
        self._group_id, self._topic = f"group-{uuid4().hex[:8]}", f"topic-{uuid4().hex[:8]}"
        client.ok("PUT", f"/v1/topics/{self._topic}", {"partitions": 2, "reason": "a page"})

    def with_names(self, program: str) -> str:
        """Return a program with a node, a group and a topic that exist."""
        program = program.replace("http://127.0.0.1:8080", self._node_url).replace("billing", self._group_id)
        return program.replace("orders", self._topic).replace("invoices", self._topic)

    def __bool__(self) -> bool:
        return len(self.handled) < 2 * len(RECORDS)

    def read(self, *place: Any) -> list[str]:  # noqa: ANN401  # a partition and an offset, or topic, number and offset
        return RECORDS[place[-1] :]

    def handle(self, records: list[str]) -> None:
        self.handled += records

    def check(self) -> None:
        """Check that every record was handled once, and that the offsets after the last ones are committed."""
        assert sorted(self.handled) == sorted(2 * RECORDS)
        committed = self._client.ok("GET", f"/v1/groups/{self._group_id}/offsets")["offsets"]
        assert [each["offset"] for each in committed] == 2 * [len(RECORDS)]


@pytest.fixture
def source(node_url: str) -> Iterator[Source]:
    with closing(Client(node_url)) as client:
        yield Source(client, node_url)


@pytest.mark.parametrize("page", [README, PAGE], ids=["README", "agent"])
def test_a_program_consumes_every_record_once(page: str, source: Source) -> None:
    (program,) = programs(page, "\nwith ConsumerAgent(")
    names: dict[str, Any] = {"running": source, "read": source.read, "handle": source.handle}
    exec(source.with_names(program), names)  # noqa: S102  # our own page

    source.check()


def test_the_asyncio_program_consumes_every_record_once(source: Source) -> None:
    (program,) = programs(PAGE, "\nasync with ConsumerAgent(")
    names: dict[str, Any] = {"running": source, "read": awaited(source.read), "handle": awaited(source.handle)}
    exec("async def main():\n" + textwrap.indent(source.with_names(program), "    "), names)  # noqa: S102  # our own page
    asyncio.run(names["main"]())

    source.check()


def test_a_custom_assignor_is_made_as_written() -> None:
    (program,) = programs(PAGE, "Assignor(")
    names: dict[str, Any] = {"assign": lambda counts, members: {}}
    exec(f"from agent import Assignor\nmade = {program}", names)  # noqa: S102  # our own page

    assert (names["made"].name, names["made"].is_cooperative) == ("mine", True)


def awaited(function: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*arguments: Any) -> Any:  # noqa: ANN401  # those of the function
        return function(*arguments)

    return call
