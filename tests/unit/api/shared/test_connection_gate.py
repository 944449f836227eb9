"""The connection gate: limits in total and per address, and connections beyond them."""

from api.shared.connection_gate import ConnectionCounts, ConnectionGate


class FakeConnection:
    """A connection that can be aborted."""

    def __init__(self, *, has_request: bool = False) -> None:
        self.has_request = has_request
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


def test_a_listener_without_spare_connections_aborts_every_connection_beyond_a_limit() -> None:
    counts = ConnectionCounts()
    gate = ConnectionGate(1, 1, counts)
    first, second = FakeConnection(), FakeConnection()

    assert gate.admit(first, "192.0.2.1")
    assert not gate.admit(second, "192.0.2.2")

    assert (first.is_aborted, second.is_aborted) == (False, True)
    assert counts.closed == {"max_connections": 1, "max_connections_per_ip": 0}


def test_spare_connections_are_aborted_oldest_first_unless_they_have_a_request() -> None:
    gate = ConnectionGate(0, 1, ConnectionCounts(), spare_connections=2)
    answered, idle, newest = FakeConnection(has_request=True), FakeConnection(), FakeConnection()

    for connection in (answered, idle, newest):
        assert not gate.admit(connection, "192.0.2.1")

    assert [each.is_aborted for each in (answered, idle, newest)] == [False, True, False]


def test_the_limit_of_an_address_does_not_hold_for_a_proxy() -> None:
    gate = ConnectionGate(10, 1, ConnectionCounts())
    assert [gate.admit(FakeConnection(), "192.0.2.1", is_proxy=True) for _ in range(3)] == [True] * 3
    assert not gate.admit(FakeConnection(), "192.0.2.1")


def test_a_released_connection_no_longer_counts_for_its_address() -> None:
    gate = ConnectionGate(10, 1, ConnectionCounts())
    first, second = FakeConnection(), FakeConnection()

    assert gate.admit(first, "192.0.2.1")
    gate.release(first)
    assert gate.admit(second, "192.0.2.1")


def test_a_connection_that_was_handed_over_keeps_its_place() -> None:
    counts = ConnectionCounts()
    gate = ConnectionGate(1, 1, counts, spare_connections=1)
    first, admitted, second, spare = (FakeConnection() for _ in range(4))

    assert gate.admit(first, "192.0.2.1")
    assert not gate.admit(second, "192.0.2.1")
    gate.hand_over(first, admitted)
    gate.hand_over(second, spare)
    gate.release(first)

    assert gate.admit(admitted, "192.0.2.1")
    assert not gate.admit(spare, "192.0.2.1")
    assert (counts.open, counts.closed["max_connections"]) == (1, 1)
    gate.release(admitted)
    assert counts.open == 0
