"""Word list: words that the vocabulary rules out do not appear in names, help, log events, alerts and the console."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import yaml

from tests.support.repository import ROOT, written

WORDS: Final = {
    r"who(m)?ever": "the noun: client, member, operator, node",
    r"(no|some|any)body": "the noun: client, member, operator, node; or none, any",
    r"told|tells?|telling": "returned, reports, logs, notifies",
    r"strangers?": "unknown member, unauthenticated client, foreign process",
    r"newcomers?": "new member, new user",
    r"puts? ((nobody|members?|it|them) )?out|putting out": "evict (a timeout), remove (an operator)",
    r"gives? way|giving way": "resign, yield",
    r"takes? away|took away|taken away|taking away": "remove, delete, revoke",
    r"lets? go": "release, cancel",
    r"restless(ness)?": "rebalance rate",
    r"desks?": "admin context",
    r"namesakes?": "duplicate node id",
    r"knock(s|ed)?": "ping",
    r"halls?|doors?|rooms?": "package, server, capacity, space",
    r"askers?": "client, caller",
    r"vanish(es|ed|ing)?": "crash, disconnect, expire",
    r"speaks?|spoke": "send, contain, respond",
    r"wish(es)?": "request",
    r"will not do|that (is|are) none|makes? no sense|at odds": "invalid, unknown, contradictory",
    r"said to be": "reported as",
    r"out of reach": "unreachable",
    r"(takes?|brings?) (it|its|them|their) (\w+ )?along": "stop, start, move",
}
"""Pattern → what to write instead; a space also stands for the underscore of an identifier."""

NAMES_ONLY: Final = {r"stays?": "member session"}
"""As a verb the word is fine in prose."""

SESSION: Final = {r"(a|an|the|each|every|of|its|s'|'s|member) stays?": "member session"}

ALLOWED: Final = frozenset({"nobody", "tell"})
"""The account `nobody` of Linux, and a file's method `tell`."""

LOG_LEVELS: Final = frozenset({"debug", "info", "warning", "error", "exception"})
METRICS: Final = "api/http/metrics.py"
THIS: Final = Path(__file__).resolve()


class Text(NamedTuple):
    """A name or a text that people read, and where it stands."""

    line: int
    text: str
    is_name: bool = False


class Fault(NamedTuple):
    """A word of the list, and where it stands."""

    where: str
    text: str
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.where}: {self.word!r} in {self.text!r}; write instead: {self.instead}"


def compiled(words: dict[str, str]) -> list[tuple[re.Pattern[str], str]]:
    """Return the patterns of a list, each for whole words."""
    return [(re.compile(rf"\b({pattern})\b", re.IGNORECASE), instead) for pattern, instead in words.items()]


IN_NAMES: Final = compiled(WORDS | NAMES_ONLY)
IN_TEXTS: Final = compiled(WORDS | SESSION)


def words_of(name: str) -> str:
    """Return an identifier as words: `ListedStay` and `listed_stay` are "listed stay"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_+", " ", name).strip()


def faults_in(where: str, texts: Iterator[Text]) -> Iterator[Fault]:
    """Yield each word of the list that stands in texts."""
    for line, text, is_name in texts:
        searched = words_of(text) if is_name else text
        for pattern, instead in IN_NAMES if is_name else IN_TEXTS:
            if (found := pattern.search(searched)) and text not in ALLOWED:
                yield Fault(f"{where}:{line}", text, found.group(), instead)


# -- what is read ---------------------------------------------------------------------------------------------


def identifiers(source: str) -> Iterator[Text]:
    """Yield each name in a file of Python once, with the line on which it stands first."""
    seen: set[str] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string not in seen:
            seen.add(token.string)
            yield Text(token.start[0], token.string, is_name=True)


def first_sentence(source: str) -> Iterator[Text]:
    """Yield the first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(source)) or ""
    yield Text(1, re.split(r"(?<=[.:;])\s", text, maxsplit=1)[0])


def help_texts(source: str) -> Iterator[Text]:
    """Yield the help of commands and of their options."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and any("command" in ast.unparse(one) for one in node.decorator_list):
            yield Text(node.lineno, ast.get_docstring(node) or "")
        if isinstance(node, ast.Call):
            values = [each.value for each in node.keywords if each.arg in {"help", "show_default", "epilog"}]
            is_listed = isinstance(node.func, ast.Name) and node.func.id in {"Listed", "command_group"}
            yield from strings([*values, *(node.args if is_listed else [])])


def metric_help(source: str) -> Iterator[Text]:
    """Yield the strings that are handed to the functions which make metrics."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.startswith("_"):
            yield from strings(node.args)


def log_events(source: str) -> Iterator[Text]:
    """Yield the names of events that are logged."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOG_LEVELS:
            yield from (Text(line, text, is_name=" " not in text) for line, text, _ in strings(node.args[:1]))


def strings(nodes: list[ast.expr]) -> Iterator[Text]:
    """Yield the nodes that are strings."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Text(node.lineno, node.value)


def alert_texts(source: str) -> Iterator[Text]:
    """Yield the names and summaries of alerts."""
    for group in yaml.safe_load(source)["groups"]:
        for rule in group["rules"]:
            line = source[: source.index(rule["alert"])].count("\n") + 1
            yield Text(line, rule["alert"], is_name=True)
            yield Text(line, rule["annotations"]["summary"])


def console_texts(source: str) -> Iterator[Text]:
    """Yield the strings of a script, and the text of a page."""
    code = re.sub(
        r"/\*.*?\*/|^\s*//.*?$", lambda match: "\n" * match.group().count("\n"), source, flags=re.DOTALL | re.MULTILINE
    )
    for found in re.finditer(r'"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`|>[^<>{}]+<', code):
        yield Text(code[: found.start()].count("\n") + 1, found.group()[1:-1])


READ: Final[dict[str, tuple[tuple[str, ...], Callable[[str], Iterator[Text]]]]] = {
    "identifiers": (("**/*.py",), identifiers),
    "first sentences": (("**/*.py",), first_sentence),
    "help": (("muster/**/*.py",), help_texts),
    "metric help": ((METRICS,), metric_help),
    "log events": (("**/*.py",), log_events),
    "alerts": (("docker/prometheus/rules.yml",), alert_texts),
    "console": (("api/console/static/*.js", "api/console/static/*.html"), console_texts),
}


def files(globs: tuple[str, ...]) -> list[Path]:
    """Return the files that match, without this list and landed migrations, which are never edited."""
    paths = {path: str(path.relative_to(ROOT)) for path in written(".py", ".js", ".html", ".yml") if path != THIS}
    return [
        path
        for path, name in paths.items()
        if any(_matches(name, glob) for glob in globs) and not name.startswith("migrations/versions/")
    ]


def _matches(name: str, glob: str) -> bool:
    """Return whether a path below the root matches a glob, in which `**/` stands for any folders."""
    pattern = re.escape(glob).replace(r"\*\*/", "(.*/)?").replace(r"\*", "[^/]*")
    return re.fullmatch(pattern, name) is not None


@pytest.mark.parametrize("kind", READ)
def test_words_of_the_list_do_not_appear(kind: str) -> None:
    globs, read = READ[kind]
    paths = files(globs)

    assert paths
    faults = [one for path in paths for one in faults_in(str(path.relative_to(ROOT)), read(path.read_text()))]
    assert not faults, "\n".join(map(str, faults))


@pytest.mark.parametrize(
    ("read", "source", "where", "word"),
    [
        (identifiers, "x = 1\n\ndef tell_hours(): ...\n", "f:3", "tell"),
        (identifiers, "class ListedStay: ...\n", "f:1", "Stay"),
        (first_sentence, '"""Whoever waits is answered. More."""\n', "f:1", "Whoever"),
        (help_texts, "Option('--all', help='Put members out.')\n", "f:1", "Put members out"),
        (help_texts, "@app.command()\ndef f():\n    '''Show who is told.'''\n", "f:2", "told"),
        (metric_help, "_gauge('muster_x', 'Offsets taken away.')\n", "f:1", "taken away"),
        (log_events, "log.info('member_put_out')\n", "f:1", "put out"),
        (alert_texts, "groups:\n- rules:\n  - {alert: A, annotations: {summary: Nobody answers.}}\n", "f:3", "Nobody"),
        (console_texts, 'x();\ntitle("How stays end: a stay ended");\n', "f:2", "a stay"),
    ],
)
def test_a_word_of_the_list_is_found(read: Callable[[str], Iterator[Text]], source: str, where: str, word: str) -> None:
    (fault,) = faults_in("f", read(source))

    assert (fault.where, fault.word) == (where, word)
    assert fault.instead in str(fault)


def test_ordinary_words_pass() -> None:
    texts = [Text(1, "member_sessions", is_name=True), Text(2, "The offset stays where it is."), Text(3, "nobody")]

    assert list(faults_in("f", iter(texts))) == []
