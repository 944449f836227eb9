"""Tests of fields as users write them: names, topics, numbers, and what is a template."""

from typing import Any

import pytest

from muster_airflow.fields import is_template, names, offsets, records, seconds, text, topics, whole_number


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("orders", ["orders"]),
        ("a,b", ["a,b"]),
        (["orders", "clicks"], ["orders", "clicks"]),
        (("orders",), ["orders"]),
        ([], []),
        (None, []),
    ],
)
def test_text_is_one_name_and_none_is_no_name(value: Any, found: list[str]) -> None:  # noqa: ANN401 - anything
    assert names("topics", value) == found


@pytest.mark.parametrize("value", ["", "['orders']", [7], ["orders", ""]])
def test_what_is_no_name_is_refused(value: Any) -> None:  # noqa: ANN401 - likewise
    with pytest.raises(ValueError, match=r"^topics: .* is no name; a template of a list needs render_template_as_nat"):
        names("topics", value)


def test_number_of_another_task_is_the_text_of_its_digits() -> None:
    assert (text("group_id", "g"), text("group_id", 7), text("group_id", "")) == ("g", "7", "")
    for value in (None, True, 1.5, ["g"]):
        with pytest.raises(ValueError, match=r"^group_id: .* is no text$"):
            text("group_id", value)


def test_topics_are_names_or_mappings() -> None:
    some = {"topic": "clicks", "partitions": [0, 1]}
    assert topics("topics", "orders") == [{"topic": "orders"}]
    assert topics("topics", ["orders", some]) == [{"topic": "orders"}, some]
    assert topics("topics", some) == [some]
    assert topics("topics", None) == []
    with pytest.raises(ValueError, match="topics: 7 is no name"):
        topics("topics", [7])


def test_offsets_are_mappings() -> None:
    some = {"topic": "clicks", "partition": 0, "offset": 7}
    assert offsets("offsets", [some]) == offsets("offsets", some) == [some]
    assert offsets("offsets", None) == offsets("offsets", ()) == []
    for value in (f"[{some}]", ["clicks"]):
        with pytest.raises(ValueError, match=r"^offsets: .* is no list of mappings; a template of a list needs render"):
            offsets("offsets", value)


def test_numbers_of_templates_in_mappings_are_numbers() -> None:
    assert topics("topics", {"topic": "t", "partitions": ["0", 1]}) == [{"topic": "t", "partitions": [0, 1]}]
    given = {"topic": "t", "partition": "0", "offset": "7"}
    assert offsets("offsets", [given]) == [{"topic": "t", "partition": 0, "offset": 7}]
    with pytest.raises(ValueError, match=r"^offsets: 'x' is no whole number$"):
        offsets("offsets", [{**given, "offset": "x"}])


@pytest.mark.parametrize("value", [[], ()])
def test_empty_list_of_topics_is_not_all_of_them(value: Any) -> None:  # noqa: ANN401 - likewise
    with pytest.raises(ValueError, match=r"^topics: .* names no topic; None is all topics$"):
        topics("topics", value)


def test_numbers_are_read_from_text_too() -> None:
    assert (whole_number("offset", "-3"), whole_number("offset", None)) == (-3, None)
    assert (records("max_lag", "5"), records("max_lag", 0), records("max_lag", None)) == (5, 0, None)
    assert (seconds("max_lag_seconds", "1.5"), seconds("max_lag_seconds", None)) == (1.5, None)


@pytest.mark.parametrize("value", [1.5, "1.5", "x", "", True])
def test_a_part_of_a_number_is_never_dropped(value: Any) -> None:  # noqa: ANN401 - likewise
    with pytest.raises(ValueError, match=f"^offset: {value!r} is no whole number$"):
        whole_number("offset", value)


def test_limits_that_nothing_meets_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^max_lag: -1 is below 0$"):
        records("max_lag", -1)
    for value in (-0.5, "nan", "inf", "soon", [1]):
        with pytest.raises(ValueError, match=r"^max_lag_seconds: .* is no number of seconds$"):
            seconds("max_lag_seconds", value)


def test_templates_and_values_differ() -> None:
    assert all(is_template(each) for each in ("{{ ds }}", "{% if x %}1{% endif %}", ["orders", "{{ ds }}"], object()))
    assert not any(is_template(each) for each in ("orders", ["orders"], ("a", "b"), 5, 1.5, None))
