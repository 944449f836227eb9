"""A short soak with every fault once; violated comparisons are detected."""

from pathlib import Path
from random import Random

import pytest

from tests.support.kafka_broker import KafkaUnavailable
from tests.support.mirrored_history import Commit, Generation, GroupHistory, Owned
from tests.system.mirror_soak.checks import compare
from tests.system.mirror_soak.run import run

KINDS = ["confluent", "consumer-protocol", "franz-go"]


@pytest.mark.postgres
@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.timeout(2_700)
def test_rows_are_those_of_the_log_under_every_fault(tmp_path: Path) -> None:
    try:
        found = run(tmp_path, KINDS, Random(1), 0, print)
    except KafkaUnavailable as why:
        pytest.skip(str(why))

    assert [check for check in found if check.violations] == []


def test_rows_that_are_not_those_of_the_log_are_detected() -> None:
    logged = GroupHistory([Generation(1, ("a",)), Generation(2, ("a", "b"))], [Owned("t", 0, 1, "a")])
    stored = GroupHistory(
        [Generation(1, ("a",)), Generation(1, ("a",))], [], {("t", 0): Commit(0, 7, "")}, {("t", 0): [(0, 6)]}
    )

    violations = {check.name: check.violations for check in compare({"g": logged}, {"g": stored})}

    assert violations == {
        "generations and their members are those of the log": [
            "not in the rows: ('g', 2, Generation(number=2, members=('a', 'b')))",
            "not in the log: ('g', 2, Generation(number=1, members=('a',)))",
        ],
        "owners of partitions are those of the log": [
            "not in the rows: ('g', Owned(topic='t', partition=0, generation=1, member_id='a'))"
        ],
        "committed offsets are those of the log": [
            "not in the log: ('g', ('t', 0), Commit(committed_ms=0, offset=7, metadata=''))"
        ],
        "the last offset of each minute is that of the log": ["not in the log: ('g', ('t', 0), 1, (0, 6))"],
    }
