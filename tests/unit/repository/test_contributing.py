"""CONTRIBUTING.md names files, folders, fixtures and targets that exist."""

from __future__ import annotations

import re

from tests.support.repository import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
NAMED = set(re.findall(r"`([\w./-]+)`", PAGE))
RECIPES = (
    "A rule of the protocol",
    "An assignor",
    "A column",
    "A query and its endpoint",
    "A metric",
    "A command",
    "A setting",
    "A listener",
    "A Spark job",
)


def test_every_recipe_is_on_the_page() -> None:
    assert [name for name in RECIPES if f"\n### {name}" not in PAGE] == []


def test_every_path_on_the_page_exists() -> None:
    tops = {path.name for path in ROOT.iterdir()}
    paths = {name for name in NAMED if "/" in name and name.partition("/")[0] in tops and "NNNN" not in name}

    assert len(paths) > len(RECIPES)
    assert {path for path in paths if not (ROOT / path).exists()} == set()


def test_every_make_target_on_the_page_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ((?:[a-z-]+ )*[a-z-]+)\b", " ".join(re.findall(r"`(make [^`]*)`", PAGE))))

    assert named
    assert {target for words in named for target in words.split() if target not in targets | {"make"}} == set()
