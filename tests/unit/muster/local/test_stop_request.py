"""A stop signal ends the next wait."""

import os
import signal
from collections.abc import Iterator

import pytest

from muster.local.stop_request import StopRequest, StopRequested


@pytest.fixture(autouse=True)
def _no_nohup() -> Iterator[None]:
    """Let hangups end a process, also if `nohup` has started the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_wait(number: signal.Signals) -> None:
    with StopRequest() as stop:
        stop.wait(0)
        os.kill(os.getpid(), number)
        with pytest.raises(StopRequested):
            stop.wait(1000)


def test_signal_handlers_are_restored_after_the_block() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_hangup_that_nohup_ignores_remains_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        stop.wait(0)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
