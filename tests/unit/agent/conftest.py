"""A clock that tests of the agent move."""

import pytest

from tests.support.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
