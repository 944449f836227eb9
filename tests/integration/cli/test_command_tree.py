"""Command listing: help texts, imports of `--help`, usage errors."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from muster.cli.command_tree import COMMANDS, Listed
from muster.cli.help_pages import FILE, stored_page
from scripts.reference_pages import DOCS, commands, help_file, help_pages
from tests.support.muster_command import Muster
from tests.support.ports import free_port

HEAVY = (
    "agent",
    "aiohttp",
    "alembic",
    "litestar",
    "msgspec",
    "muster.data_dir",
    "psycopg2",
    "pydantic",
    "pyspark",
    "rich",
    "spark_jobs.submit",
    "sqlalchemy",
    "structlog",
    "urllib3",
    "uvicorn",
)


def test_the_readme_names_every_command() -> None:
    section = (DOCS.parent / "README.md").read_text().split("## Commands")[1].split("\n## ")[0]

    assert [
        each.name for each in COMMANDS if f"`{each.name}`" not in section and f"`muster {each.name}" not in section
    ] == []


def test_the_page_has_the_json_of_every_command() -> None:
    table = (DOCS / "command-line.md").read_text().split("| command | JSON |")[1].split("\n\n")[0]
    described = {name for row in table.splitlines() for name in re.findall(r"`([^`]+)`", row.partition(" | ")[0])}
    with_json = {name for name, command in commands().items() if any("--json" in each.opts for each in command.params)}

    assert {name for name in with_json if not {name, f"{name.split()[0]} …"} & described} == set()


def test_the_help_lists_every_command_in_one_line_under_its_section(bare_muster: Muster) -> None:
    lines = bare_muster.ok("--help").out.splitlines()

    for listed in COMMANDS:
        assert f"{listed.section}:" in lines
        (line,) = [line for line in lines if line.split()[:1] == [listed.name]]
        assert line.endswith(listed.line)


@pytest.mark.parametrize("listed", COMMANDS, ids=lambda listed: listed.name)
def test_listed_help_line_equals_the_first_line_of_the_command_help(bare_muster: Muster, listed: Listed) -> None:
    said = bare_muster.ok(listed.name, "--help").out

    assert listed.line in " ".join(said.split())


def test_command_lines_are_not_truncated_in_group_help(bare_muster: Muster) -> None:
    for group in {name.split()[0] for name in commands() if " " in name}:
        assert "..." not in bare_muster.ok(group, "--help").out.partition("Commands:")[2]


def test_stored_help_is_what_the_command_line_prints(bare_muster: Muster) -> None:
    assert Path(FILE).read_text() == help_file(), "run make docs"
    assert {name: stored_page([*name.split(), "--help"]) for name in help_pages()} == help_pages()
    printed = bare_muster.ok("groups", "list", "--help").out.strip()
    assert printed.partition("\n")[2] == help_pages()["groups list"].partition("\n")[2]


@pytest.mark.parametrize("words", [(), ("groups",), ("groups", "list"), ("airflow",)])
def test_help_has_a_short_option(bare_muster: Muster, words: tuple[str, ...]) -> None:
    assert bare_muster.ok(*words, "-h").out == bare_muster.ok(*words, "--help").out


def test_version_is_an_option_too(bare_muster: Muster) -> None:
    assert bare_muster.ok("--version").out == bare_muster.ok("version").out


@pytest.mark.parametrize("name", help_pages())
def test_help_is_printed_without_the_command_line(name: str) -> None:
    loaded = _loaded_by_help(name, "muster.__main__", "typer", "muster.cli.main", "pathlib", "re")

    assert loaded == []


def test_usage_has_each_argument_in_one_pair_of_brackets() -> None:
    assert [page for page in help_pages().values() if "[[" in page] == []


def test_help_fits_a_narrow_terminal() -> None:
    asked = [sys.executable, "-m", "muster", "groups", "list", "--help"]
    ran = subprocess.run(asked, env={**os.environ, "COLUMNS": "60"}, capture_output=True, text=True, check=True)

    assert max(map(len, ran.stdout.splitlines())) <= 60


@pytest.mark.parametrize(
    "command",
    [
        "",
        "groups",
        "groups list",
        "groups describe",
        "groups delete",
        "groups reset-offsets",
        "groups watch",
        "offsets show",
        "offsets import",
        "topics set",
        "config set",
        "changes undo",
        "runs apply",
        "up",
        "serve",
    ],
)
def test_help_imports_no_heavy_modules(command: str) -> None:
    assert _loaded_by_help(command, "muster.cli.main", *HEAVY) == []


@pytest.mark.parametrize(
    "command",
    [
        "version",
        "groups list --state Empty",
        "groups overview",
        "groups rebalances g --limit 5",
        "groups sessions g",
        "groups tuning g --session-timeout-ms 20000",
        "groups reset-offsets g --topic t --shift-by=-5",
        "offsets show g",
        "topics set t --partitions 3",
        "config get",
        "changes list",
        "changes undo x",
    ],
)
def test_text_numbers_and_defaults_are_read_without_pydantic(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_URL", f"http://127.0.0.1:{free_port()}")

    assert _loaded(command, "muster.cli.main", "pydantic", "rich", "sqlalchemy", "litestar") == []


def _loaded_by_help(command: str, entry: str, *names: str) -> list[str]:
    """Return which of these modules are imported when the `main` of a module prints the help of a command."""
    return _loaded(f"{command} --help", entry, *names)


def _loaded(command: str, entry: str, *names: str) -> list[str]:
    """Return which of these modules are imported when the `main` of a module runs a command."""
    words = ["muster", *command.split()]
    code = f"import sys; sys.argv = {words!r}; import {entry}\n"
    code += f"try: {entry}.main()\nexcept SystemExit: pass\n"
    code += f"print(*[name for name in {names!r} if name in sys.modules], file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return (ran.stderr.splitlines() or [""])[-1].split()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fly"], "No such command 'fly'."),
        (["topic", "list"], "No such command 'topic'. Did you mean 'topics'?"),
        (["group", "list"], "No such command 'group'. Did you mean 'groups'?"),
        (["groups", "fly"], "No such command 'fly'."),
        (["groups", "describe", "--verbos"], "No such option: --verbos"),
        (["runs", "show"], "Missing argument 'RUN'."),
        (["groups", "describe"], "Name a group or use --all-groups."),
        (["groups", "members"], "Name a group."),
        (["groups", "members", "a", "--group", "b"], "Two groups are named, a and b; one is wanted."),
        (["groups", "remove-member"], "Name a group."),
        (["groups", "remove-member", "a"], "Name a member."),
        (["groups", "remove-member", "--group", "a"], "Name a member."),
        (["groups", "remove-member", "a", "b", "--member", "c"], "Two members are named, b and c; one is wanted."),
        (["groups", "remove-member", "a", "b", "--group", "c"], "Two groups are named, a and c; one is wanted."),
        (["groups", "rebalances", "g", "--limit", "0"], "Invalid value for '--limit': "),
        (["groups", "rebalances", "g", "--limit", "1001"], "Invalid value for '--limit': "),
        (["groups", "rebalances", "g", "--limit", "ten"], "Invalid value for '--limit': "),
        (["groups", "rebalances", "g", "--limit", "9" * 5_000], "Invalid value for '--limit': "),
        (["groups", "describe", ""], "Invalid value for 'GROUP': it is empty."),
        (["groups", "delete", "a", "", "--execute"], "Invalid value for 'GROUP': it is empty."),
        (["groups", "rebalances", "--group", ""], "Invalid value for '--group': it is empty."),
        (["groups", "remove-member", "a", "--member", ""], "Invalid value for '--member': it is empty."),
        (["config", "get", ""], "Invalid value for 'GROUP': it is empty."),
        (["config", "set", "", "session_timeout_ms=30000"], "Invalid value for '[GROUP] KEY=VALUE...': it is empty."),
        (["config", "undo", ""], "Invalid value for 'CHANGE': it is empty."),
        (["changes", "list", ""], "Invalid value for 'GROUP': it is empty."),
        (["offset-log", "dump", "--group", ""], "Invalid value for '--group': it is empty."),
        (["offset-log", "dump", "--shard", "-1"], "Invalid value for '--shard': "),
        (["sql", ""], "Invalid value for 'SQL': it is empty."),
        (
            ["token", "new", "--actor", "a", "--role", "root"],
            "Invalid value for '--role': 'root' is not one of 'agent', ",
        ),
        (["up", "--data-dir", ""], "Invalid value for '--data-dir': it is empty."),
        (["offsets", "export", "g", "--to", ""], "Invalid value for '--to': it is empty."),
        # As of a variable that is not set: it would choose all groups.
        (["groups", "delete", "--all-groups", "--prefix", ""], "Invalid value for '--prefix': it is empty."),
        (
            ["token", "new", "--actor", "a", "--role", "agent", "--prefix", ""],
            "Invalid value for '--prefix': it is empty.",
        ),
        (["tokens", "issue", "--actor", "a", "--allow", "JOIN:GROUP:PREFIXED:"], "'JOIN:GROUP:PREFIXED:' is no entry "),
        (["tokens", "issue", "--actor", "a", "--allow", "JOIN:GROUP:PREFIXED"], "'JOIN:GROUP:PREFIXED' is no entry "),
        (["sql", " ; "], "There is no statement in the SQL."),
        (["sql", "--json"], "--json needs a statement: without one, psql is opened."),
        (["groups", "describe", "\udcff"], "An argument is not UTF-8."),
        (["groups", "list", "--url", "nonsense"], "A node's URL looks like http://host:port, and not like nonsense."),
    ],
)
def test_usage_error_is_one_sentence(bare_muster: Muster, arguments: list[str], said: str) -> None:
    assert bare_muster.refused(2, *arguments).startswith(said)


def test_completion_knows_the_commands() -> None:
    asked = {"_MUSTER_COMPLETE": "complete_bash", "COMP_WORDS": "muster groups res", "COMP_CWORD": "2"}
    script = Path(sys.executable).with_name("muster")
    ran = subprocess.run([script], env={**os.environ, **asked}, capture_output=True, text=True, check=False)

    assert ran.stdout.split() == ["reset-offsets"]


def test_closed_output_pipe_causes_no_traceback() -> None:
    shell = f"{sys.executable} -m muster --help | head -n 1"
    ran = subprocess.run(["bash", "-o", "pipefail", "-c", shell], capture_output=True, text=True, check=False)

    assert ran.stderr == ""
