"""requirements.lock pins all requirements of the project by hash, and names no package index."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scripts.bootstrap import lock_entries
from tests.support.repository import ROOT

LOCKS = [ROOT / "requirements.lock", *sorted((ROOT / "docker").glob("requirements-*.lock"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

every_lock = pytest.mark.parametrize("lock", LOCKS, ids=lambda file: file.stem)


@every_lock
def test_every_package_is_pinned_by_hash(lock: Path) -> None:
    entries = list(lock_entries(lock.read_text()))
    assert entries
    assert [
        entry for entry in entries if not re.match(r"[a-z0-9-]+==\S+ ", entry) or "--hash=sha256:" not in entry
    ] == []


@every_lock
def test_a_lock_holds_no_address_and_no_place_of_this_machine(lock: Path) -> None:
    assert re.findall(r"://|find-links|index-url|file:| @ ", lock.read_text()) == []


@every_lock
@pytest.mark.parametrize("package", ["pyspark-client", "jpype1", "jaydebeapi"])
def test_excluded_packages_are_not_locked(lock: Path, package: str) -> None:
    assert package not in pins(lock)


def test_everything_that_an_extra_asks_for_is_locked() -> None:
    locked = pins(LOCKS[0])
    asked = [text for texts in PROJECT["project"]["optional-dependencies"].values() for text in texts]
    requirements = [Requirement(text) for text in [*asked, *PROJECT["project"]["dependencies"]]]
    others = [requirement for requirement in requirements if requirement.name != "muster"]
    assert others
    assert [str(one) for one in others if not one.specifier.contains(locked.get(one.name, ""))] == []


def test_build_requirements_are_locked() -> None:
    locked = pins(LOCKS[0])
    backends = [Requirement(text) for text in PROJECT["build-system"]["requires"]]
    assert {backend.name for backend in backends} <= set(locked)


def test_agent_requires_an_http_client_only() -> None:
    assert [Requirement(text).name for text in PROJECT["project"]["dependencies"]] == ["urllib3"]


def pins(lock: Path) -> dict[str, str]:
    """Return the version of each package in a lock."""
    return dict(re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", lock.read_text(), flags=re.MULTILINE))
