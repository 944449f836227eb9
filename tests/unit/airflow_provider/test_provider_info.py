"""The description of the provider fits Airflow's schema, and its distribution."""

import json
import re
import tomllib
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path

import jsonschema

from muster_airflow.get_provider_info import get_provider_info
from tests.support.repository import ROOT

PROJECT = tomllib.loads((ROOT / "airflow_provider" / "pyproject.toml").read_text())["project"]


def test_description_fits_the_schema_of_airflow() -> None:
    airflow = find_spec("airflow")
    assert airflow is not None
    assert airflow.origin is not None
    schema = json.loads(Path(airflow.origin).with_name("provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_every_module_of_the_description_is_a_file() -> None:
    info = get_provider_info()
    modules = [
        module
        for kind in ("hooks", "sensors", "triggers", "operators")
        for each in info[kind]
        for module in each["python-modules"]
    ]
    assert len(modules) == 4
    hook = info["connection-types"][0]["hook-class-name"].rpartition(".")[0]
    for module in (*modules, hook):
        assert (ROOT / "airflow_provider" / module.replace(".", "/")).with_suffix(".py").is_file()


def test_form_of_a_connection_has_every_field_of_the_page() -> None:
    page = (ROOT / "docs" / "airflow-provider.md").read_text()
    (described,) = re.findall(r"^\| extra \| (.*) \|$", page, re.MULTILINE)
    fields = get_provider_info()["connection-types"][0]["conn-fields"]
    assert fields.keys() == set(re.findall(r"`(\w+)`", described))


def test_airflow_discovers_the_distribution_in_this_environment() -> None:
    (found,) = (each for each in entry_points(group="apache_airflow_provider") if each.module.startswith("muster_"))
    assert found.load() is get_provider_info
    assert found.dist is not None
    assert found.dist.name == get_provider_info()["package-name"] == PROJECT["name"]


def test_provider_has_the_version_of_muster() -> None:
    assert PROJECT["version"] == version("muster-airflow") == version("muster")
