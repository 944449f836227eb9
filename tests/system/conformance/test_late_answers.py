"""An answer that comes after a scenario's slack is a failure, and its lateness is known."""

import pytest

from tests.system.conformance.driver import Handle
from tests.system.conformance.http_driver import HttpDriver, Site
from tests.system.conformance.scaled_clock import ScaledClock
from tests.system.conformance.scenarios import load_scenarios

PATIENCE_S = 0.02


class LateHandle(Handle):
    """Has its answer when it is waited for a second time."""

    def wait(self, patience_s: float) -> None:
        if patience_s != PATIENCE_S:
            self.resolve({"error": "NONE"})
        super().wait(patience_s)


@pytest.fixture
def driver() -> HttpDriver:
    site = Site("http://node", "postgresql://nowhere")
    return HttpDriver(load_scenarios()[0], site, ScaledClock(1.0), "", PATIENCE_S)


def test_late_answer_is_a_failure_whose_lateness_is_recorded(driver: HttpDriver) -> None:
    handle = LateHandle(lambda _: None)

    with pytest.raises(AssertionError, match="answered, but later than"):
        driver.settle(handle, is_due=True)

    assert driver.clock.late_ms > PATIENCE_S * 1000


def test_answer_that_never_comes_is_not_a_late_machine(driver: HttpDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.system.conformance.http_driver.LATE_ANSWER_S", PATIENCE_S)

    driver.settle(Handle(lambda _: None), is_due=True)

    assert driver.clock.late_ms == 0
