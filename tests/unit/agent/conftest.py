"""Fixtures of the agent's unit tests."""

import pytest

from tests.support.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
