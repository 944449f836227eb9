"""A column of numbers is written as a Postgres array, also if all values are equal."""

import pytest

from coordinator_core.state_store.postgres.arrays import number_array


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ((), "{}"),
        ((7,), "{7}"),
        ((None,), "{NULL}"),
        ((-1, -1, -1), "{-1,-1,-1}"),
        ((None, None), "{NULL,NULL}"),
        ((1, 2, 1), "{1, 2, 1}"),
        ((None, 2, None), "{NULL, 2, NULL}"),
        ((False, False), "{False,False}"),
    ],
    ids=str,
)
def test_numbers_are_written_as_an_array(values: tuple[int | None, ...], written: str) -> None:
    assert number_array(values) == written
