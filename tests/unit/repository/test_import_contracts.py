"""The import contracts cover every required library and every package of the project."""

from __future__ import annotations

import re
import tomllib
from configparser import ConfigParser
from importlib.metadata import packages_distributions
from itertools import chain

import pytest

from tests.support.repository import ROOT

CONTRACTS = ConfigParser()
CONTRACTS.read(ROOT / ".importlinter")

DEPENDENCY = re.compile(r"[\w.-]+")
TOOLS = "dev"
"""Development tools."""


def lines(section: str, key: str) -> set[str]:
    return set(CONTRACTS[section][key].split())


def libraries() -> set[str]:
    """Return the modules of the project's dependencies, without development tools."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = (needed for extra, needed in project["optional-dependencies"].items() if extra != TOOLS)
    needed = {DEPENDENCY.match(one)[0].lower() for one in chain(project["dependencies"], *extras)}  # type: ignore[index]  # each has a name
    return {
        module
        for module, brought_by in packages_distributions().items()
        if not module.startswith("_") and needed & {name.lower().replace("_", "-") for name in brought_by}
    }


@pytest.mark.parametrize(("contract", "allowed"), [("pure", {"msgspec", "rpds"}), ("agent-alone", {"urllib3"})])
def test_a_contract_of_no_libraries_names_every_library(contract: str, allowed: set[str]) -> None:
    assert {"aiohttp", "airflow", "pyspark", "urllib3"} <= libraries()
    assert libraries() - lines(f"importlinter:contract:{contract}", "forbidden_modules") == allowed


def test_every_package_has_a_contract_and_none_imports_tests() -> None:
    packages = {path.parent.name for glob in ("*", "airflow_provider/*") for path in ROOT.glob(f"{glob}/__init__.py")}
    shipped = lines("importlinter:contract:shipped-alone", "source_modules")

    assert lines("importlinter", "root_packages") == packages
    assert packages - shipped == lines("importlinter:contract:shipped-alone", "forbidden_modules") == {"bench", "tests"}
