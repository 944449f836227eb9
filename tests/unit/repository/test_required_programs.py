"""Programs that tests need: installation, and tests whose program is missing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import tools
from tests.support.repository import ROOT

USED = ("cat", "chmod", "dirname", "env", "mkdir", "mktemp", "mv", "rm", "sh", "timeout")
APT_GET = """\
#!/bin/sh
echo "$*" >> {machine}/apt-get.log
case "$*" in
*" update"*) : > {machine}/lists ;;
*)
    if [ ! -e {machine}/lists ]; then echo "E: Unable to locate package"; exit 100; fi
    for package; do :; done
    if [ "$1" = download ]; then : > prometheus_1_amd64.deb; else cp {machine}/bin/sh {machine}/bin/$package; fi ;;
esac
"""
DPKG = """\
#!/bin/sh
mkdir -p "$3/usr/bin"
: > "$3/usr/bin/promtool"
chmod +x "$3/usr/bin/promtool"
"""


class Machine:
    """A machine with few programs, and a fake apt-get that finds packages after `update`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "scripts", folder / "scripts")
        (folder / "bin").mkdir()
        for name in (*USED, "cp"):
            (folder / "bin" / name).symlink_to(str(shutil.which(name)))
        self.has_user(0)
        self.has("apt-get", APT_GET.format(machine=folder))
        self.has("dpkg", DPKG)

    def has(self, name: str, script: str) -> None:
        """Put a script on the PATH."""
        path = self.folder / "bin" / name
        path.write_text(script)
        path.chmod(0o755)

    def has_user(self, uid: int) -> None:
        """Let the script be run by the user of this number."""
        self.has("id", f"#!/bin/sh\necho {uid}\n")

    def install(self, *names: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run the script; its environment is the PATH and `variables`."""
        return subprocess.run(
            [self.folder / "scripts" / "install-tools.sh", *names],
            env={"PATH": str(self.folder / "bin"), **variables},
            check=False,
            capture_output=True,
            text=True,
        )

    def calls(self) -> list[str]:
        """Return what apt-get was asked for: its last argument, or its first where that says more."""
        log = self.folder / "apt-get.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line.split()[-1] if "install" in line or "update" in line else line.split()[0] for line in lines]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


# -- installing ---------------------------------------------------------------------------------------------


def test_only_what_is_missing_is_installed_and_only_once(machine: Machine) -> None:
    (machine.folder / "lists").touch()
    machine.has("make", "")
    first = machine.install("make", "git", "chromium")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.splitlines() == [
        "tools: installing git (Debian's package git)",
        "tools: installing chromium (Debian's package chromium)",
    ]
    assert machine.calls() == ["git", "chromium"]
    again = machine.install("make", "git", "chromium")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_package_lists_are_updated_when_a_package_is_not_found(machine: Machine) -> None:
    assert machine.install("chromium").returncode == 0
    assert machine.calls() == ["chromium", "update", "chromium"]


def test_prometheus_is_unpacked_and_not_installed(machine: Machine) -> None:
    assert machine.install("promtool").returncode == 0
    assert machine.calls() == ["download", "update", "download"]
    assert (machine.folder / ".tools/prometheus/usr/bin/promtool").exists()
    assert machine.install("promtool").stdout == ""


def test_a_library_is_missing_when_it_cannot_be_loaded(machine: Machine) -> None:
    (machine.folder / "lists").touch()
    machine.has("python3", "#!/bin/sh\nexit 1\n")
    machine.install("libatomic")
    assert machine.calls() == ["libatomic1"]
    machine.has("python3", "#!/bin/sh\nexit 0\n")
    assert machine.install("libatomic").stdout == ""


def test_a_user_with_sudo_installs_by_it(machine: Machine) -> None:
    machine.has_user(1000)
    machine.has("sudo", '#!/bin/sh\n[ "$1" = -n ] || exit 1\nshift\n[ "$1" = true ] || exec "$@"\n')
    assert machine.install("chromium").returncode == 0
    assert machine.calls() == ["chromium", "update", "chromium"]


def test_setup_without_root_lists_missing_packages_and_continues(machine: Machine) -> None:
    machine.has_user(1000)
    ran = machine.install("chromium")
    assert (ran.returncode, ran.stdout, machine.calls()) == (0, "", [])
    assert ran.stderr == (
        "tools: chromium is missing, and this user may not install packages (not root, and sudo asks for a password): "
        "install chromium by hand.\n"
    )


def test_setup_without_apt_continues(machine: Machine) -> None:
    (machine.folder / "bin" / "apt-get").unlink()
    ran = machine.install("chromium", "promtool")
    assert (ran.returncode, ran.stdout) == (0, "")
    assert ran.stderr.splitlines() == [
        "tools: chromium is missing, and there is no apt-get on this machine: install chromium by hand.",
        "tools: promtool is missing, and there is no apt-get on this machine: install prometheus by hand.",
    ]


def test_failing_apt_get_is_reported_in_one_sentence_and_fails_in_ci_only(machine: Machine) -> None:
    machine.has("apt-get", "#!/bin/sh\necho 'E: no network'\nexit 100\n")
    for variables, status in (({}, 0), ({"CI": "true"}, 1)):
        ran = machine.install("chromium", **variables)
        assert ran.returncode == status
        assert ran.stderr == (
            "tools: chromium is missing, and apt-get failed (its output is in .tools/chromium.log): "
            "install chromium by hand.\n"
        )
        assert "no network" in (machine.folder / ".tools/chromium.log").read_text()


# -- tests that need a program ------------------------------------------------------------------------------


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide every program of this machine, and return the folder that is the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(tools, "TOOLS", tmp_path / ".tools")
    monkeypatch.setattr(tools, "DAEMONS", str(tmp_path / "sbin"))
    monkeypatch.delenv("CI", raising=False)
    return tmp_path


@pytest.mark.parametrize("name", [name for name in tools.PACKAGES if not name.startswith("lib")])
def test_a_test_whose_program_is_missing_is_skipped_with_what_to_install(bare: Path, name: str) -> None:
    assert not (bare / "bin").exists()
    with pytest.raises(pytest.skip.Exception, match=rf"^{name} is missing: .*apt-get install {tools.PACKAGES[name]}"):
        tools.program(name)


def test_library_is_detected_by_loading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setitem(tools.PACKAGES, "libmissing.so.1", "libmissing1")
    tools.library("libc.so.6")
    with pytest.raises(pytest.skip.Exception, match=r"^libmissing\.so\.1 is missing: .*apt-get install libmissing1"):
        tools.library("libmissing.so.1")


def test_missing_program_fails_in_ci(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not (bare / "bin").exists()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"^chromium is missing: "):
        tools.program("chromium")


@pytest.mark.parametrize("place", ["bin", ".tools/prometheus/usr/bin"])
def test_a_program_is_found_on_the_path_and_where_it_was_unpacked(bare: Path, place: str) -> None:
    path = bare / place / "promtool"
    path.parent.mkdir(parents=True)
    path.write_text("")
    path.chmod(0o755)
    assert tools.program("promtool") == str(path)
    assert os.access(path, os.X_OK)
