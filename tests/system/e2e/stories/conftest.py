"""Fixtures: stories share a node and its database; each has its own group."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg2
import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from agent import ConsumerAgent
from muster.settings import psql_url
from tests.support.blocking_aio_agent import BlockingAioAgent
from tests.support.databases import Databases
from tests.support.nodes import running_node
from tests.system.e2e.stories.story_group import StoryGroup


@pytest.fixture(scope="module")
def ledger_url(databases: Databases) -> Iterator[str]:
    url = databases.create()
    yield url
    databases.drop(url)


@pytest.fixture(scope="module")
def story_node(ledger_url: str) -> Iterator[str]:
    with running_node(ledger_url) as node:
        yield node.url


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[PsycopgConnection]:
    connection = psycopg2.connect(psql_url(ledger_url))
    connection.autocommit = True
    yield connection
    connection.close()


@pytest.fixture(params=[ConsumerAgent, BlockingAioAgent], ids=["threads", "asyncio"])
def group(story_node: str, ledger: PsycopgConnection, request: pytest.FixtureRequest) -> Iterator[StoryGroup]:
    group = StoryGroup(story_node, ledger, agent_class=request.param)
    yield group
    group.close()
