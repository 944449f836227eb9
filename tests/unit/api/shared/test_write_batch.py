"""Writes in batches: after the other callbacks of an iteration, in order, and before a connection is closed."""

import asyncio

import pytest

from api.shared.write_batch import LARGE_WRITE_BYTES, BatchedTransport, WriteBatch

pytestmark = pytest.mark.anyio


class FakeTransport(asyncio.Transport):
    """Records what is written, in the order of all transports of a test."""

    def __init__(self, written: list[bytes]) -> None:
        self._written = written
        self._is_closing = False

    def write(self, data: bytes) -> None:  # type: ignore[override]  # what the tests write
        """Record."""
        self._written.append(data)

    def is_closing(self) -> bool:
        """Return whether it is closed."""
        return self._is_closing

    def close(self) -> None:
        """Record."""
        self._is_closing = True
        self._written.append(b"closed")


@pytest.fixture
def written() -> list[bytes]:
    return []


@pytest.fixture
def transports(written: list[bytes]) -> list[BatchedTransport]:
    """Return two transports of a listener."""
    batch = WriteBatch()
    return [BatchedTransport(FakeTransport(written), batch) for _ in range(2)]


async def test_responses_are_written_after_all_requests_of_an_iteration_were_answered(
    written: list[bytes], transports: list[BatchedTransport]
) -> None:
    loop = asyncio.get_running_loop()
    for number, transport in enumerate(transports):
        loop.call_soon(transport.write, b"%d" % number)
    loop.call_soon(written.append, b"answered")
    await asyncio.sleep(0)
    assert written == [b"answered"]
    await asyncio.sleep(0)
    assert written == [b"answered", b"0", b"1"]


async def test_writes_of_a_connection_are_joined_in_order(
    written: list[bytes], transports: list[BatchedTransport]
) -> None:
    for data in (b"head", b"body"):
        transports[0].write(data)
    await asyncio.sleep(0)
    transports[0].write(b"next")
    await asyncio.sleep(0)
    assert written == [b"headbody", b"next"]


async def test_large_data_is_written_at_once_after_what_waits(
    written: list[bytes], transports: list[BatchedTransport]
) -> None:
    transports[0].write(b"head")
    transports[0].write(b"b" * LARGE_WRITE_BYTES)
    assert written == [b"head" + b"b" * LARGE_WRITE_BYTES]


async def test_a_connection_is_closed_after_its_writes(
    written: list[bytes], transports: list[BatchedTransport]
) -> None:
    transports[0].write(b"last")
    transports[0].close()
    await asyncio.sleep(0)
    assert written == [b"last", b"closed"]


async def test_nothing_is_written_to_a_connection_that_was_lost(
    written: list[bytes], transports: list[BatchedTransport]
) -> None:
    lost = FakeTransport(written)
    transport = BatchedTransport(lost, WriteBatch())
    transport.write(b"late")
    lost.close()
    await asyncio.sleep(0)
    assert written == [b"closed"]


async def test_a_write_without_memory_closes_its_connection_only(written: list[bytes]) -> None:
    class StarvedTransport(FakeTransport):
        def write(self, data: bytes) -> None:  # type: ignore[override]  # what the tests write
            raise MemoryError

        def abort(self) -> None:
            written.append(b"aborted")

    batch = WriteBatch()
    for transport in (StarvedTransport(written), FakeTransport(written)):
        BatchedTransport(transport, batch).write(b"response")
    await asyncio.sleep(0)
    assert written == [b"aborted", b"response"]
