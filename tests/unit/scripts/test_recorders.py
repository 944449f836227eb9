"""The recorders of data and pictures say in one sentence what they cannot record, before anything is written."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from scripts import record_kafka_encodings, record_offsets_topic, screenshots
from tests.support.kafka_broker import KafkaUnavailable


def test_unknown_scenario_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["record_offsets_topic", "transactions", "transaction"])
    monkeypatch.setattr(record_offsets_topic, "running_kafka", None)

    with pytest.raises(SystemExit, match=r"^There is no scenario transaction; there are join_leave_crash, "):
        record_offsets_topic.main()


@pytest.mark.parametrize(
    ("recorder", "first"),
    [(record_offsets_topic, "running_kafka"), (record_kafka_encodings, "java_or_unavailable")],
)
def test_missing_kafka_is_one_sentence(monkeypatch: pytest.MonkeyPatch, recorder: ModuleType, first: str) -> None:
    def is_missing(*_: object, **__: object) -> None:
        raise KafkaUnavailable("Kafka needs Java 17 or newer, and there is none")

    monkeypatch.setattr(sys, "argv", ["recorder"])
    monkeypatch.setattr(recorder, first, is_missing)

    with pytest.raises(SystemExit, match="Kafka needs Java 17 or newer, and there is none"):
        recorder.main()


def test_missing_browser_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    monkeypatch.setattr("tests.support.tools.TOOLS", Path("/nowhere"))

    with pytest.raises(SystemExit, match="chromium is missing: install Debian's package chromium"):
        screenshots.main()
