"""A signal ends the next wait, and nothing before it."""

import os
import signal

import pytest

from muster.stop_request import StopRequest, StopRequested


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_wait(number: signal.Signals) -> None:
    with StopRequest() as stop:
        stop.wait(0)
        os.kill(os.getpid(), number)
        with pytest.raises(StopRequested):
            stop.wait(1000)


def test_after_the_block_the_signals_mean_what_they_meant() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
