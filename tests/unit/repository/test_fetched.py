"""What tests fetch is fetched once, and is whole, also when several processes of a run want it at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.support.fetched import fetch_once
from tests.support.waiting import PATIENCE_S

OVERTAKING_S: Final = 0.2
"""How long a second fetch, which must wait, has time to begin beside the first."""


def test_folder_that_two_want_at_once_is_fetched_once_and_whole(tmp_path: Path) -> None:
    begun, is_second_begun, fetches = threading.Event(), threading.Event(), list[Path]()

    def fetch(draft: Path) -> None:
        fetches.append(draft)
        (draft / "first").touch()
        if len(fetches) == 1:
            begun.set()
            is_second_begun.wait(OVERTAKING_S)
        else:
            is_second_begun.set()
        (draft / "last").touch()

    with ThreadPoolExecutor() as pool:
        first = pool.submit(fetch_once, tmp_path / "tools" / "one", fetch)
        assert begun.wait(PATIENCE_S)
        second = pool.submit(fetch_once, tmp_path / "tools" / "one", fetch)
        found = {first.result(), second.result()}

    assert len(fetches) == 1
    assert [sorted(each.name for each in folder.iterdir()) for folder in found] == [["first", "last"]]


def test_fetch_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(draft: Path) -> None:
        (draft / "half").touch()
        raise OSError("the registry does not answer")

    with pytest.raises(OSError, match="does not answer"):
        fetch_once(tmp_path / "one", fail)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_fetch_has_left_is_fetched_again(tmp_path: Path) -> None:
    half = tmp_path / "one.new"
    half.mkdir()
    (half / "half").touch()

    folder = fetch_once(tmp_path / "one", lambda draft: (draft / "whole").touch())

    assert [each.name for each in folder.iterdir()] == ["whole"]
