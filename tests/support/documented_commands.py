"""Commands of the documentation: those of console blocks, a session each, and those in code spans of the text."""

import re
from typing import Final

from tests.support.repository import ROOT

PROGRAMS: Final = (
    "airflow",
    "curl",
    "docker",
    "journalctl",
    "kill",
    "kubectl",
    "make",
    "muster",
    "openssl",
    "psql",
    "python3",
    "spark-submit",
    "spark_jobs/jobs/history_restore.py",
    "ss",
    "systemctl",
    "timedatectl",
)
"""A code span that begins with one of these is a command."""


def console_blocks(page: str) -> list[str]:
    """Return the content of a page's console blocks."""
    return re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def typed(block: str) -> list[str]:
    """Return the commands behind the prompts of a console block, each as one line without its comment."""
    found = re.findall(r"^\$ ((?:.*\\\n)*.*)$", block, re.MULTILINE)
    return [_without_comment(re.sub(r"\s*\\\n\s*", " ", command)) for command in found]


def unprompted(block: str) -> list[str]:
    """Return the lines of a console block whose first line has no prompt, without their comments."""
    return [] if block.startswith("$ ") else [_without_comment(line) for line in block.splitlines()]


def sessions(name: str) -> list[list[str]]:
    """Return the commands of a page: those of one console block together, then each code span alone, once."""
    page = (ROOT / name).read_text()
    blocks = [[*typed(block), *unprompted(block)] for block in console_blocks(page)]
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]
    commands = [span for span in spans if span.removeprefix(".venv/bin/").split()[0] in PROGRAMS]
    return [*blocks, *([command] for command in dict.fromkeys(commands))]


def the_command(name: str, beginning: str) -> str:
    """Return the one command of a page that begins so."""
    (command,) = {each for session in sessions(name) for each in session if each.startswith(beginning)}
    return command


def blocks(name: str) -> list[tuple[str, str]]:
    """Return the opening line and the content of each block of a page, indented ones too."""
    fenced = r"^([ \t>]*(?:```|~~~).*)\n((?:.*\n)*?)[ \t>]*(?:```|~~~)[ \t]*$"
    return re.findall(fenced, (ROOT / name).read_text(), re.MULTILINE)


def _without_comment(command: str) -> str:
    return re.sub(r"\s+# .*", "", command)
