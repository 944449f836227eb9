"""One run at a time uses the data directory, and what is secret in it is for its owner alone."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

import pytest

from muster.data_dir import DatabaseUrls, DataDir, keep_secret, write_private
from muster.errors import UserError, disk_error

HOLD = """
import sys
from pathlib import Path
from muster.data_dir import DatabaseUrls, DataDir
data_dir = DataDir(Path(sys.argv[1]))
data_dir.create()
with data_dir.locked("up") as lock:
    lock.publish_database_urls(DatabaseUrls(*sys.argv[2:]))
    print("held", flush=True)
    sys.stdin.read()
"""

URLS = DatabaseUrls(*(f"postgresql+psycopg2://{role}:secret@127.0.0.1:5432/muster" for role in ("o", "j", "r")))


@pytest.fixture
def data_dir(tmp_path: Path) -> DataDir:
    data_dir = DataDir(tmp_path / "new" / "muster")
    data_dir.create()
    return data_dir


def test_a_new_directory_is_private(data_dir: DataDir) -> None:
    assert data_dir.path.stat().st_mode & 0o777 == 0o700


def test_second_run_is_refused_with_the_holder_of_the_directory(data_dir: DataDir) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(data_dir.path), *astuple(URLS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(UserError, match=rf"^muster up \(pid {holder.pid}\) is using"), data_dir.locked("serve"):
            pass
        known = data_dir.holder()
        assert known is not None
        assert known.database_urls == URLS
        holder.kill()
    assert data_dir.holder() is None
    with data_dir.locked("up"):
        pass


def test_directory_is_unlocked_after_the_block(data_dir: DataDir) -> None:
    with data_dir.locked("up"):
        assert data_dir.holder() is not None
    assert data_dir.holder() is None


def test_copy_of_a_directory_in_use_has_no_holder(data_dir: DataDir, tmp_path: Path) -> None:
    """Else commands for the copy would change the database of the original."""
    with data_dir.locked("up"):
        copy = shutil.copytree(data_dir.path, tmp_path / "copy")
        assert DataDir(copy).holder() is None
        moved = data_dir.path.rename(tmp_path / "moved")
        assert DataDir(moved).holder() is not None


def test_missing_directory_has_no_holder(tmp_path: Path) -> None:
    assert DataDir(tmp_path / "nowhere").holder() is None


def test_disk_with_too_little_space_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="MB left and Muster wants 1000000000 MB"):
        DataDir(tmp_path).create(min_free_disk_mb=1_000_000_000)


def test_a_directory_under_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is not a directory"):
        DataDir(tmp_path / "file" / "muster").create()


@pytest.mark.parametrize(
    ("path", "reason"), [("/proc/muster", "No such file or directory"), ("/tmp/" + 300 * "x", "File name too long")]
)
def test_a_directory_that_cannot_be_created_is_reported_in_one_sentence(path: str, reason: str) -> None:
    with pytest.raises(UserError) as refusal:
        DataDir(Path(path)).create()
    said = f"The data directory {path} cannot be created ({reason}); choose another one with --data-dir."
    assert refusal.value.sentence == said


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    secret = keep_secret(tmp_path / "secret")
    assert len(secret) >= 32
    assert keep_secret(tmp_path / "secret") == secret
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_rewritten_private_file_remains_private(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("for all to see")
    write_private(tmp_path / "secret", "mine")
    assert (tmp_path / "secret").read_text() == "mine"
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSPC, "disk is full"), (errno.EACCES, "may not use"), (errno.EROFS, "read-only")],
)
def test_disk_error_is_reported_in_one_sentence(number: int, words: str) -> None:
    explained = disk_error(OSError(number, "no", "/some/place"))
    assert explained is not None
    assert words in explained.sentence
    assert "/some/place" in explained.sentence


def test_other_errors_are_not_reported_as_disk_errors() -> None:
    assert disk_error(OSError(errno.ECONNREFUSED, "no")) is None


def test_run_is_found_while_it_publishes_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two system calls, too: a command would say that nothing runs there."""
    data_dir, found = DataDir(tmp_path), []

    def spied(call: Callable[..., object]) -> Callable[..., object]:
        def spy(*arguments: object) -> object:
            result = call(*arguments)
            found.append(data_dir.holder())
            return result

        return spy

    data_dir.create()
    with data_dir.locked("up") as lock:
        for name in ("ftruncate", "pwrite"):
            monkeypatch.setattr(os, name, spied(getattr(os, name)))
        lock.publish_node_url("http://127.0.0.1:8080")

    assert len(found) == 2
    assert None not in found
