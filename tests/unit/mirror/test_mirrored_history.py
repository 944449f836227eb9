"""The history that tests read from Kafka's log, with which the rows of a mirror are compared."""

import pytest

from mirror.observed import ObservedMember
from tests.support.mirrored_history import Generation, logged_history
from tests.unit.mirror.observations import generation, member


@pytest.mark.parametrize(
    ("second", "generations"),
    [
        (member("c", 1), [Generation(1, ("a", "b")), Generation(1, ("a", "c"))]),
        (member("b", 2), [Generation(1, ("a", "b")), Generation(1, ("a", "b"))]),
        (member("b", 1), [Generation(1, ("a", "b"))]),
        (member("b-2", 1, instance_id="b"), [Generation(1, ("a", "b"))]),
    ],
    ids=["other members", "another assignment", "nothing new", "a static member with a new id"],
)
def test_generation_that_was_written_twice(second: ObservedMember, generations: list[Generation]) -> None:
    history = logged_history(
        [generation(1, member("a", 0), member("b", 1)), generation(1, member("a", 0), second)], "g"
    )

    assert history["g"].generations == generations
