"""A node that does not answer at the moment is late, also before its answer comes."""

from threading import Event
from time import monotonic

import pytest

from tests.support.waiting import poll_until
from tests.system.conformance import fleet


class StalledWire:
    """A connection to a node that answers when it is let go on."""

    may_answer = Event()

    def __init__(self, url: str) -> None:
        self.url = url

    def post(self, path: str, body: object) -> None:
        self.may_answer.wait()

    def close(self) -> None:
        """Nothing is open."""


def test_commit_in_progress_counts_as_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "Wire", StalledWire)
    began_s = monotonic()
    with fleet.Pulse("http://node") as pulse:
        try:
            poll_until(lambda: pulse.late_ms(began_s, monotonic()) > 20)
        finally:
            StalledWire.may_answer.set()
