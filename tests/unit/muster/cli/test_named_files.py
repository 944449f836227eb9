"""Files named by users keep link, pipe, owner and mode when they are written."""

import os
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from api.shared.identity import Role
from api.shared.tokens import TokensFileBody
from muster.cli.atomic_write import replace_file
from muster.cli.tokens import new
from muster.errors import UserError
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Give a folder in which no draft may be left behind."""
    yield tmp_path
    assert not list(tmp_path.glob(".muster-*"))


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_a_new_file_is_for_its_owner_only(folder: Path) -> None:
    replace_file(folder / "new", "text")

    assert (folder / "new").read_text() == "text"
    assert mode_of(folder / "new") == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o664, 0o400])
def test_existing_file_keeps_its_mode(folder: Path, mode: int) -> None:
    file = folder / "tokens.json"
    file.write_text("before")
    file.chmod(mode)

    replace_file(file, "after")

    assert (file.read_text(), mode_of(file)) == ("after", mode)


def test_tokens_added_at_the_same_time_are_all_in_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, actors = folder / "tokens.json", [f"actor {number}" for number in range(8)]
    together = threading.Barrier(len(actors))

    def add(actor: str) -> None:
        together.wait(PATIENCE_S)
        new(actor, Role.VIEWER, add_to=file)

    with ThreadPoolExecutor(len(actors)) as threads:
        list(threads.map(add, actors))

    known = msgspec.json.decode(file.read_bytes(), type=TokensFileBody)
    assert sorted(entry.actor for entry in known.tokens) == actors
    assert capsys.readouterr().out.count("nodes that read that file know it") == len(actors)


def test_existing_file_keeps_its_owner_and_group(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "tokens.json"
    file.write_text("before")
    given: list[tuple[int, int]] = []
    before = file.stat()
    monkeypatch.setattr(os, "fchown", lambda _, uid, gid: given.append((uid, gid)))
    monkeypatch.setattr(Path, "stat", lambda *_, **__: as_if_of(before, uid=before.st_uid + 1, gid=before.st_gid + 2))

    replace_file(file, "after")

    assert given == [(before.st_uid + 1, before.st_gid + 2)]


def test_file_whose_owner_cannot_be_kept_is_not_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "tokens.json"
    file.write_text("before")
    before = file.stat()

    def refuse(*_: int) -> None:
        raise PermissionError

    with monkeypatch.context() as patched:
        patched.setattr(os, "fchown", refuse)
        patched.setattr(Path, "stat", lambda *_, **__: as_if_of(before, uid=before.st_uid + 1, gid=before.st_gid))
        with pytest.raises(UserError) as refused:
            replace_file(file, "after")

    assert refused.value.sentence == f"{file} cannot be written (this user may not keep its owner and group)."
    assert file.read_text() == "before"


def test_symbolic_link_is_kept_and_its_target_written(folder: Path) -> None:
    target = folder / "released" / "offsets.csv"
    target.parent.mkdir()
    target.write_text("before")
    link = folder / "latest.csv"
    link.symlink_to(Path("released") / "offsets.csv")

    replace_file(link, "after")

    assert link.is_symlink()
    assert target.read_text() == "after"


def test_dangling_link_creates_its_target(folder: Path) -> None:
    link = folder / "latest.csv"
    link.symlink_to("offsets.csv")

    replace_file(link, "text")

    assert link.is_symlink()
    assert (folder / "offsets.csv").read_text() == "text"


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_pipe_is_written_into(folder: Path, *, is_linked: bool) -> None:
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    named = folder / "link" if is_linked else pipe
    if is_linked:
        named.symlink_to(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()

    replace_file(named, "text")

    reader.join(PATIENCE_S)
    assert read == ["text"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_directory_missing_path_and_link_loop_are_rejected_in_one_sentence(folder: Path) -> None:
    (folder / "ring").symlink_to("ring")
    for name, reason in (
        (".", "Is a directory"),
        ("nowhere/file", "No such file or directory"),
        ("ring", "Too many levels of symbolic links"),
    ):
        with pytest.raises(UserError) as refused:
            replace_file(folder / name, "text")
        assert refused.value.sentence == f"{folder / name} cannot be written ({reason})."


def as_if_of(status: os.stat_result, *, uid: int, gid: int) -> os.stat_result:
    """Return the status of the same file, had it another owner and group."""
    fields = list(status)
    fields[stat.ST_UID], fields[stat.ST_GID] = uid, gid
    return os.stat_result(fields)
