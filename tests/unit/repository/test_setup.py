"""The setup runs when needed, is idempotent, and reports failures in one sentence."""

import fcntl
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from scripts import bootstrap
from tests.support.repository import ROOT

LOCK = """\
uv==1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
setuptools==2.0 ; python_full_version < '3.12' \\
    --hash=sha256:cc
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a work tree that the setup uses as the project, with an empty environment."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / "requirements.lock").write_text(LOCK)
    for folder in (tmp_path, tmp_path / "airflow_provider"):
        folder.mkdir(exist_ok=True)
        (folder / "pyproject.toml").write_text("[project]\n")
    venv.create(tmp_path / ".venv", with_pip=False, symlinks=True)
    for name in ("VENV", "VENV_PYTHON", "VENV_UV", "LOCK", "PROVIDER", "STAMP", "LOG", "EXTRACT"):
        monkeypatch.setattr(bootstrap, name, tmp_path / getattr(bootstrap, name).relative_to(ROOT))
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    # The script's own text is part of the fingerprint.
    monkeypatch.setattr(bootstrap, "__file__", str(tmp_path / "scripts" / "bootstrap.py"))
    return tmp_path


def test_second_setup_does_nothing(tree: Path) -> None:
    bootstrap.write_stamp()
    assert run_setup(tree) == (0, "", "")


@pytest.mark.parametrize(
    "file",
    [
        "requirements.lock",
        "pyproject.toml",
        "airflow_provider/pyproject.toml",
        "scripts/bootstrap.py",
        ".venv/pyvenv.cfg",
    ],
)
def test_changed_requirements_run_the_setup_again(tree: Path, file: str) -> None:
    bootstrap.write_stamp()
    assert bootstrap.is_up_to_date()
    with (tree / file).open("a") as changed:
        changed.write("\n")
    assert not bootstrap.is_up_to_date()


def test_moved_tree_is_set_up_again(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Programs in .venv/bin contain the path of the environment.
    bootstrap.write_stamp()
    (tree / "elsewhere").mkdir()
    shutil.copy(tree / "pyproject.toml", tree / "elsewhere")
    monkeypatch.setattr(bootstrap, "ROOT", tree / "elsewhere")
    assert not bootstrap.is_up_to_date()


def test_failed_setup_writes_no_stamp_and_reports_one_sentence(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap.write_stamp()
    (tree / "requirements.lock").write_text("rich==1.0 \\\n    --hash=sha256:aa\n")
    monkeypatch.setattr(bootstrap, "is_environment", lambda: True)
    with pytest.raises(bootstrap.SetupError, match="does not pin each of uv once"):
        bootstrap.make_environment()
    assert not bootstrap.STAMP.exists()


def test_failed_command_shows_the_end_of_its_output(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tree == bootstrap.ROOT
    with pytest.raises(bootstrap.CommandFailed, match="failed"), bootstrap.Step("a step") as step:
        step.run("sh", "-c", "echo the reason; exit 3")
    output = capsys.readouterr().out
    assert "the reason" in output
    assert "a step: failed" in output


def test_environment_without_its_python_is_recreated(tree: Path) -> None:
    assert bootstrap.is_sound(tree / ".venv/bin/python")
    (tree / ".venv/bin/python").unlink()
    (tree / ".venv/bin/python").symlink_to("/nonexistent/python3")
    assert not bootstrap.is_environment()


def test_installer_is_installed_from_the_lock_with_hashes(tree: Path) -> None:
    assert bootstrap.write_extract(["uv"]).read_text() == "".join(LOCK.splitlines(keepends=True)[:3])
    assert bootstrap.write_extract(["uv", "setuptools"]).read_text() == (tree / "requirements.lock").read_text()


@pytest.mark.parametrize(
    ("present", "sentence"),
    [
        ({"ctypes", "sqlite3", "ssl", "venv"}, "comes without pip; on Debian and Ubuntu: apt install python3"),
        ({"ctypes", "sqlite3", "venv", "pip"}, "lacks ssl; name another one: make setup PYTHON="),
    ],
)
def test_unsuitable_python_is_reported(
    tree: Path, monkeypatch: pytest.MonkeyPatch, present: set[str], sentence: str
) -> None:
    assert tree == bootstrap.ROOT
    monkeypatch.setattr(bootstrap, "has_module", lambda name: name in present)
    with pytest.raises(bootstrap.SetupError, match=sentence):
        bootstrap.refuse_what_cannot_work()


def test_full_disk_is_reported_before_download(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(tree / ".venv")
    monkeypatch.setattr(bootstrap, "NEEDED_DISK_BYTES", 10**18)
    with pytest.raises(bootstrap.SetupError, match="GB are free"):
        bootstrap.refuse_what_cannot_work()


def test_unwritable_home_disables_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    output = bootstrap.child_environment()
    assert output["UV_NO_CACHE"] == "1"
    assert "PYTHONPATH" not in output


def test_a_setup_waits_for_another_one_under_way(tree: Path) -> None:
    bootstrap.write_stamp()
    with (tree / "requirements.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = subprocess.Popen(command(tree), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "setup: another one is under way; waiting for it\n"
    with waiting.stdout:
        assert waiting.wait() == 0


def test_missing_python_is_reported_with_what_to_install(tree: Path) -> None:
    tools = tree / "tools"
    tools.mkdir()
    (tools / "dirname").symlink_to(str(shutil.which("dirname")))
    sh = str(shutil.which("sh"))
    found = subprocess.run(
        [sh, tree / "scripts/setup.sh"], env={"PATH": str(tools)}, check=False, capture_output=True, text=True
    )
    assert found.returncode == 1
    assert "apt install python3 python3-venv" in found.stderr
    assert found.stderr.count("\n") == 1


FAKE_PYTHON = """\
#!/bin/sh
case "$2" in
    *version_info*) exit 0 ;;
    *CONFIG_ARGS*) exit {unoptimized} ;;
    *) echo "run by $0" ;;
esac
"""


@pytest.mark.parametrize(("unoptimized", "chosen"), [((0, 0), "a b"), ((1, 0), "second"), ((1, 1), "a b")])
def test_a_python_built_with_optimizations_is_preferred(tree: Path, unoptimized: tuple[int, int], chosen: str) -> None:
    """The first on the PATH of them, or the first usable one."""
    folders = [tree / "a b", tree / "second"]
    for folder, status in zip(folders, unoptimized, strict=True):
        folder.mkdir()
        (folder / "python3").write_text(FAKE_PYTHON.format(unoptimized=status))
        (folder / "python3").chmod(0o755)
    (folders[0] / "dirname").symlink_to(str(shutil.which("dirname")))
    variables = {"PATH": ":".join(map(str, folders))}
    found = subprocess.run(command(tree), env=variables, check=True, capture_output=True, text=True)
    assert found.stdout == f"run by {tree / chosen / 'python3'}\n"


def test_a_python_that_is_named_and_too_old_is_refused(tree: Path) -> None:
    status, out, output = run_setup(tree, python="false")
    assert (status, out) == (1, "")
    assert output == "setup: PYTHON=false is not a Python from 3.11 to 3.14.\n"


def test_make_lists_every_target() -> None:
    listed = subprocess.run(["make", "-C", ROOT], check=True, capture_output=True, text=True).stdout
    makefile = (ROOT / "Makefile").read_text()
    [phony] = [line for line in makefile.splitlines() if line.startswith(".PHONY:")]
    for target in phony.split()[1:]:
        assert f"  make {target} " in listed


def run_setup(tree: Path, python: str = sys.executable) -> tuple[int, str, str]:
    """Run the setup of a tree as `make setup` does; return its exit status, output and errors."""
    variables = {**os.environ, "PYTHON": python}
    found = subprocess.run(command(tree), env=variables, check=False, capture_output=True, text=True)
    return found.returncode, found.stdout, found.stderr


def command(tree: Path) -> list[str]:
    """Return the command that `make setup` runs."""
    return [str(tree / "scripts" / "setup.sh")]
