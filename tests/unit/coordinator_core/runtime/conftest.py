"""Coroutine tests run on asyncio, and a node asks its database for as long as it takes."""

import pytest

from coordinator_core.runtime import readiness
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def patient_readiness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "DATABASE_TIMEOUT_S", PATIENCE_S)
