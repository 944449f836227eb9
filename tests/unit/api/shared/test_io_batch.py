"""Reads and writes in batches: after the other callbacks of an iteration, in order, before a connection ends."""

import asyncio

import pytest

from api.shared.io_batch import LARGE_READ_BYTES, LARGE_WRITE_BYTES, BatchedTransport, IoBatch

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
    batch = IoBatch()
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
    transport = BatchedTransport(lost, IoBatch())
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

    batch = IoBatch()
    for transport in (StarvedTransport(written), FakeTransport(written)):
        BatchedTransport(transport, batch).write(b"response")
    await asyncio.sleep(0)
    assert written == [b"aborted", b"response"]


class FakeConnection:
    """Records what it receives, in the order of all connections of a test."""

    def __init__(self, received: list[bytes]) -> None:
        self._received = received

    def receive(self, data: bytes) -> None:
        """Record, or fail."""
        if data == b"bug":
            raise LookupError("a bug")
        self._received.append(data)

    def abort(self) -> None:
        """Record."""
        self._received.append(b"aborted")


@pytest.fixture
def connections(written: list[bytes]) -> list[FakeConnection]:
    return [FakeConnection(written) for _ in range(2)]


async def test_reads_of_an_iteration_are_received_together_in_their_order(
    written: list[bytes], connections: list[FakeConnection]
) -> None:
    batch = IoBatch()
    for data in (b"1", b"2", b"3"):
        batch.add_read(connections[data == b"2"], data)
        asyncio.get_running_loop().call_soon(written.append, b"later")
    assert written == []
    await asyncio.sleep(0)
    assert written == [b"1", b"2", b"3", b"later", b"later", b"later"]
    batch.add_read(connections[0], b"next")
    await asyncio.sleep(0)
    assert written[-1] == b"next"


async def test_large_data_is_received_at_once_after_what_waits(
    written: list[bytes], connections: list[FakeConnection]
) -> None:
    batch, large = IoBatch(), b"l" * LARGE_READ_BYTES
    batch.add_read(connections[0], b"small")
    batch.add_read(connections[1], large)
    assert written == [b"small", large]
    await asyncio.sleep(0)
    assert written == [b"small", large]


async def test_a_connection_that_fails_is_closed_and_the_others_receive(
    written: list[bytes], connections: list[FakeConnection]
) -> None:
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
    batch = IoBatch()
    for connection, data in zip(connections, (b"bug", b"data"), strict=True):
        batch.add_read(connection, data)
    await asyncio.sleep(0)
    assert written == [b"aborted", b"data"]
    assert [str(each) for each in failures] == ["a bug"]
