"""The page about settings names every setting there is, with its default and its bounds."""

from pathlib import Path

import pytest
from annotated_types import Ge, Le
from pydantic.fields import FieldInfo

from coordinator_core.protocol.setting_rules import RULES, IntegerRule
from muster.settings import GROUP_KEYS, Settings

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
ROWS = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `MUSTER_")]
TOLD = {row[1].strip(" `").removeprefix("MUSTER_").lower(): (row[2].strip(), row[3].strip()) for row in ROWS}


def shown(value: object) -> str:
    """Return a default as the page writes it."""
    return "none" if value in {None, ()} else str(value).lower() if isinstance(value, bool) else str(value)


def bounds_of(field: FieldInfo) -> str | None:
    """Return a setting's bounds as the page writes them; None where the field itself has none."""
    low = [each.ge for each in field.metadata if isinstance(each, Ge)]
    high = [each.le for each in field.metadata if isinstance(each, Le)]
    return f"{low[0]} … {high[0] if high else ''}".strip() if low else None


def test_the_page_names_every_setting_and_no_other() -> None:
    assert list(TOLD) == list(Settings.model_fields)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_a_setting_s_default_and_bounds_are_as_the_page_tells(name: str) -> None:
    field = Settings.model_fields[name]
    default, bounds = TOLD[name]

    assert default == shown(field.default)
    assert bounds_of(field) in {bounds, None}


@pytest.mark.parametrize("key", GROUP_KEYS)
def test_a_group_may_have_what_the_environment_may(key: str) -> None:
    rule = RULES[key]

    told = f"{rule.low} … {rule.high}" if isinstance(rule, IntegerRule) else ", ".join(rule.choices)
    assert TOLD[key][1] == told
