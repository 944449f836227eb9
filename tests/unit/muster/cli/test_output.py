"""Terminal output of commands."""

from __future__ import annotations

from typing import get_args, get_type_hints

from muster.cli.doctor.results import CheckResult
from muster.output import STYLES


def test_every_status_of_a_check_has_a_colour() -> None:
    statuses = get_args(get_type_hints(CheckResult)["status"])

    assert statuses
    assert set(statuses) <= STYLES.keys()
