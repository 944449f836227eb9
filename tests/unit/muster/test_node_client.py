"""The client of the commands: the URL of its node, and lists that come in pages."""

import os

import pytest

from muster.errors import UserError
from muster.node_client import Json, NodeClient, os_user

PAGES = {
    None: {"group_id": "g", "members": [1, 2], "waited_for": ["a"], "next_cursor": "x"},
    "x": {"group_id": "g", "members": [3], "waited_for": [], "next_cursor": "y"},
    "y": {"group_id": "g", "members": [4], "waited_for": ["b"], "next_cursor": None},
}


class PagedNode(NodeClient):
    """A node that answers every request with a page."""

    def get(self, path: str, **query: str | int | list[str] | None) -> Json:
        assert (path, query.pop("state")) == ("/v1/x", "Empty")
        cursor = query.get("cursor")
        assert cursor is None or isinstance(cursor, str)
        return {name: list(each) if isinstance(each, list) else each for name, each in PAGES[cursor].items()}  # type: ignore[attr-defined]  # each is a list or a text


def test_lists_of_all_pages_are_joined() -> None:
    node = PagedNode("http://127.0.0.1:1")
    whole = node.whole("/v1/x", "members", "waited_for", state="Empty")
    assert whole == {"group_id": "g", "members": [1, 2, 3, 4], "waited_for": ["a", "b"]}


@pytest.mark.parametrize(
    "given", ["http://node:8080", "http://node:8080/", "http://node:8080/#/groups/billing?sort=lag"]
)
def test_url_may_be_that_of_a_page_of_the_console(given: str) -> None:
    assert NodeClient(given).url == "http://node:8080"


def test_password_in_a_url_is_refused_and_not_printed() -> None:
    """It would not be sent, and be in the sentences about the node."""
    with pytest.raises(UserError) as refusal:
        NodeClient("http://ada:hunter2@node:8080")
    assert refusal.value.sentence == "A node's URL has no user and no password; a token is in MUSTER_TOKEN."


@pytest.mark.parametrize("url", ["ada:hunter2@node:8080", "ftp://ada:hunter2@node:8080"])
def test_password_in_an_invalid_url_is_not_printed(url: str) -> None:
    with pytest.raises(UserError) as refusal:
        NodeClient(url)
    assert "node:8080" in refusal.value.sentence
    assert "hunter2" not in refusal.value.sentence


def test_user_without_an_account_is_named_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers often run under such a number."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2_000_123)
    assert os_user() == "uid 2000123"
    assert NodeClient("http://node:8080").url == "http://node:8080"
