"""Numbers with more digits than Python converts are refused in one sentence, or left to the node."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from muster.cli.argument_parsing import duration_ago, topic_and_partitions
from muster.cli.offset_files import read_lines
from muster.cli.settings import read_words
from muster.errors import UserError

LONG: Final = "9" * 5_000


@pytest.mark.parametrize(
    ("parse", "said"),
    [
        (partial(topic_and_partitions, f"orders:0,{LONG}"), "A partition has at most 10 digits."),
        (partial(duration_ago, f"P{LONG}D"), "a duration looks like PT1H30M, or P2D."),
    ],
)
def test_long_number_of_an_option_is_refused(parse: Callable[[], object], said: str) -> None:
    with pytest.raises(UserError) as refusal:
        parse()
    assert refusal.value.sentence.endswith(said)


@pytest.mark.parametrize("line", [f"orders,0,{LONG}", f"orders,{LONG},0"])
def test_long_number_in_a_file_is_refused(line: str, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(f"orders,1,9223372036854775807\n{line}\n")

    with pytest.raises(UserError) as refusal:
        read_lines(str(file))
    assert refusal.value.sentence.startswith(f"Line 2 of {file}: the ")
    assert refusal.value.sentence.endswith(" has 5,000 digits, and none has more than 19.")


def test_long_value_of_a_setting_is_left_to_the_node() -> None:
    assert read_words(["session_timeout_ms=" + LONG]) == (None, {"session_timeout_ms": LONG})
    assert read_words(["g", "a=-1", "b=999999999999999999"]) == ("g", {"a": -1, "b": 999999999999999999})
