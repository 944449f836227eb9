"""Joins and syncs whose heads a connection has kept: they wait for the group, and for their turn to be read."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from api.http.limits import HttpLimits
from api.shared.quotas import QuotaLimits
from coordinator_core.runtime.quarantine import QuarantinedGroup
from tests.support.tokens_file import ADA, TokensFile
from tests.support.waiting import turns
from tests.unit.api.http.wire import Node, Wire, body_of, heartbeat, join, post, serving, status, sync
from tests.unit.coordinator_core.runtime.nodes import Member

pytestmark = pytest.mark.anyio

AS_ADA = ("Authorization: Bearer ada's",)


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    async with serving() as node:
        yield node


async def rejoin(wire: Wire, member: Member) -> None:
    """Rejoin, and sync as the leader."""
    joined = await wire.ask(join(member))
    assert status(joined) == 200
    generation = json.loads(body_of(joined))["generation"]
    assert generation == member.generation + 1
    member.generation = generation
    assert status(await wire.ask(sync(member))) == 200


@pytest.mark.parametrize("is_held", [False, True])
async def test_joins_and_syncs_are_parsed_once(node: Node, *, is_held: bool) -> None:
    member, wire = await node.member(), node.connect()
    for _ in range(3):
        if is_held:
            wire.take_read_turns()
        await rejoin(wire, member)
    assert wire.repeated.answered == 2 * 2


async def test_a_request_behind_a_join_that_waits_is_answered_after_it(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    await rejoin(wire, member)
    assert status(await wire.ask(heartbeat(member))) == 200
    other = Member(node.coordinator, member.group_id)
    joining = asyncio.ensure_future(other.join())
    await turns()
    await rejoin(wire, member)
    await joining
    wire.repeated.answered = 0
    wire.connection.data_received(join(member))
    wire.connection.data_received(heartbeat(member))
    await turns()
    assert (wire.repeated.answered, wire.transport.written) == (1, b"")
    await other.join()
    assert b'"leader"' in await wire.response()
    assert b"ILLEGAL_GENERATION" in await wire.response()
    assert wire.repeated.answered == 1, "the heartbeat was parsed"


async def test_a_join_waits_as_long_as_it_asks_for(node: Node) -> None:
    member, wire = await node.member(), node.connect()
    await rejoin(wire, member)
    other = Member(node.coordinator, member.group_id)
    joining = asyncio.ensure_future(other.join())
    await turns()
    await rejoin(wire, member)
    await joining
    wire.repeated.answered = 0
    timed_out = await wire.ask(join(member, max_wait_ms=10))
    assert b"REBALANCE_IN_PROGRESS" in timed_out
    assert json.loads(body_of(timed_out))["member_id"] == member.member_id
    wire.connection.data_received(join(member, max_wait_ms=60_000))
    await turns()
    await other.join()
    assert status(await wire.response()) == 200
    assert wire.repeated.answered == 2


async def test_a_join_that_is_answered_counts_as_waiting_no_longer() -> None:
    limits = HttpLimits(quotas=QuotaLimits(max_waiting_requests_per_client=1))
    async with serving(limits=limits) as node:
        member, wire = await node.member(), node.connect()
        for _ in range(3):
            await rejoin(wire, member)
        node.coordinator.quarantine.add(QuarantinedGroup("unreadable", 0, "its rows cannot be read", 0))
        unreadable = Member(node.coordinator, "unreadable")
        assert status(await wire.ask(join(unreadable))) == 503
        await rejoin(wire, member)


async def test_a_token_that_is_revoked_while_a_join_waits_is_refused(tmp_path: Path) -> None:
    file = TokensFile.written(tmp_path, ADA)
    async with serving(file.read()) as node:
        first, wire = await node.member("a"), node.connect()
        second = Member(node.coordinator, "a")
        second.member_id = "unknown"
        assert b"UNKNOWN_MEMBER_ID" in await wire.ask(join(second, *AS_ADA))
        second.member_id = ""
        wire.connection.data_received(join(second, *AS_ADA))
        await turns()
        assert (wire.repeated.answered, wire.transport.written) == (1, b"")
        file.write()
        file.clock.now_s += 60
        await first.join()
        assert status(await wire.response()) == 401


async def test_a_head_is_not_kept_with_the_request_that_it_is_held_back_behind(node: Node) -> None:
    """A join is held back with a heartbeat behind it; the third request arrives before both are parsed."""
    first, second = await node.member("first"), await node.member("second")
    wire, parsed = node.connect(), node.connect(keeps_heads=False)
    refused = post("/v1/groups/first/join", {})
    for each in (wire, parsed):
        each.take_read_turns()
        each.connection.data_received(refused + heartbeat(first))
        each.connection.data_received(heartbeat(second))
    for _ in range(3):
        assert await wire.response() == await parsed.response()
    second.generation += 1  # is refused for the second group only
    assert b"ILLEGAL_GENERATION" in await wire.ask(heartbeat(second))
