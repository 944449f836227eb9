"""Citations and links in code and pages lead to existing pages, sections, headings and decisions.

A citation names a page, and may go on to say where: `"a heading"`, `section 1.2`, `` `table.column` ``, or the number
of a decision. A page without a folder is in docs/, or at the top.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from tests.support.repository import ROOT, written

NUMBER = r"\d+(?:\.\d+)*"
BREAK = re.compile(r"\s*\n[ \t]*(?:(?:#|--|\*)[ \t]+)?")
PAGE = re.compile(r"(?<!\]\()(?<![\w./{*-])(?:docs/)?[A-Za-z][\w-]*\.md\b")
NUMBERED = re.compile(rf"`?,? \(?(?:sections? )?({NUMBER}(?:(?:, | and | to ){NUMBER})*)")
QUOTED = re.compile(r'`?,?((?:(?: and|,)? "[^"]+")+)')
TABLES = re.compile(r"`?,((?:(?: and|,)? `\w+(?:\.\w+)?`)+)")
OWN_SECTION = re.compile(rf"(?<!\.md )\bsections? ({NUMBER})")
DIFFERENCE = re.compile(r"(?<![\w-])D-\d+\b")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
FILE = re.compile(r"(?<![\w/.<>{}*-])((?:\w+/)+[a-z_]\w*\.py)\b")
"""A file of ours by its path, from the top or from the core; one that is yet to be written has its NAME in capitals."""
LINK = re.compile(r"\]\(([^)\s]+)\)")

CORE = ROOT / "coordinator_core"
ME = Path(__file__)
CODE = [
    path
    for path in written(".py", ".sql", ".js", ".css", ".toml", ".yml", ".yaml", ".sh", ".importlinter")
    if path != ME
]
PAGES = written(".md")


@cache
def page(name: str) -> Path:
    """Return where a page that is cited so is, or would be."""
    return next((path for path in (ROOT / name, ROOT / "docs" / name) if path.exists()), ROOT / "docs" / name)


@cache
def places(path: Path) -> frozenset[str]:
    """Return what a citation may name in a page: its headings, and the numbers that they begin with."""
    headings = HEADING.findall(path.read_text())
    numbers = (re.match(rf"({NUMBER})\.? ", heading) for heading in headings)
    return frozenset(headings) | {found[1] for found in numbers if found}


def citations(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield each page that a text cites, and each place in it."""
    line = BREAK.sub(" ", text)
    for found in PAGE.finditer(line):
        yield found[0], None
        rest = line[found.end() : found.end() + 300]
        if numbers := NUMBERED.match(rest):
            yield from ((found[0], number) for number in re.findall(NUMBER, numbers[1]))
        if headings := QUOTED.match(rest):
            yield from ((found[0], heading) for heading in re.findall('"([^"]+)"', headings[1]))
        if tables := TABLES.match(rest):
            yield from ((found[0], f"`{table}`") for table in re.findall(r"`(\w+)", tables[1]))


def leads_nowhere(name: str, place: str | None) -> bool:
    """Say whether a citation's page, or the place in it, is missing."""
    return not page(name).exists() or (place is not None and place not in places(page(name)))


def place(path: Path, what: object) -> str:
    return f"{path.relative_to(ROOT)}: {what}"


def anchors(path: Path) -> set[str]:
    """Return where a link into a page may go, as GitHub names it."""
    plain = (re.sub(r"[^\w -]", "", heading) for heading in HEADING.findall(path.read_text()))
    return {heading.strip().lower().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ('http-api.md "Lag"; tables.md.', [("http-api.md", None), ("http-api.md", "Lag"), ("tables.md", None)]),
        ("tables.md sections 1 to 2.3, and", [("tables.md", None), ("tables.md", "1"), ("tables.md", "2.3")]),
        ('settings.md "Of\n    # groups".', [("settings.md", None), ("settings.md", "Of groups")]),
        ("(lag.md section 2), [a](b.md)", [("lag.md", None), ("lag.md", "2")]),
        ("docs/tables.md, `changes.kind`.", [("docs/tables.md", None), ("docs/tables.md", "`changes`")]),
        ("`DECISIONS.md` (22, 45 to 47)", [("DECISIONS.md", None), *(("DECISIONS.md", n) for n in ("22", "45", "47"))]),
    ],
)
def test_a_citation_is_read_as_it_is_written(text: str, cited: list[tuple[str, str | None]]) -> None:
    assert list(citations(text)) == cited


def test_every_citation_leads_to_a_page_and_to_a_place_in_it() -> None:
    cited = ((path, *citation) for path in chain(CODE, PAGES) for citation in citations(path.read_text()))
    lost = [place(path, (name, number)) for path, name, number in cited if leads_nowhere(name, number)]

    assert lost == []


def test_a_section_is_cited_with_its_page_unless_it_is_one_of_the_same_page() -> None:
    texts = ((path, BREAK.sub(" ", path.read_text())) for path in (*CODE, *PAGES))
    cited = ((path, number) for path, text in texts for number in OWN_SECTION.findall(text))

    assert [place(path, number) for path, number in cited if path in CODE or number not in places(path)] == []


def test_every_difference_that_the_code_names_is_on_the_page_of_the_protocol() -> None:
    known = set(re.findall(r"^\| \W*(D-\d+)\b", page("protocol.md").read_text(), re.MULTILINE))
    named = {(path, name) for path in CODE for name in DIFFERENCE.findall(path.read_text())}

    assert named
    assert [place(path, name) for path, name in sorted(named) if name not in known] == []


def test_every_named_path_exists() -> None:
    named = {(path, name) for path in (*CODE, *PAGES) for name in FILE.findall(path.read_text())}
    lost = [place(path, name) for path, name in named if not any((top / name).exists() for top in (ROOT, CORE))]

    assert named
    assert sorted(lost) == []


def test_every_link_between_pages_leads_to_a_page_and_to_a_heading_in_it() -> None:
    lost = []
    for path in PAGES:
        for link in LINK.findall(path.read_text()):
            name, _, anchor = link.partition("#")
            end = path.parent / name if name else path
            if "://" not in link and (not end.exists() or (anchor and anchor not in anchors(end))):
                lost.append(place(path, link))

    assert lost == []
