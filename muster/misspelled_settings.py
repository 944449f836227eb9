"""Variables whose names resemble a setting's: misspelled ones, which would have no effect and say nothing."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from muster.settings import ENVIRONMENT_PREFIX, Settings

LIKELY_MISSPELLED: Final = 0.85
"""The least similarity, from 0 to 1, at which a name counts as a misspelled other one."""
NO_SETTINGS: Final = ("MUSTER_CLIENT_CERTIFICATE_FILE", "MUSTER_JOBS_DATABASE_URL_", "MUSTER_SPARK_REPORT_POOL")
"""Prefixes of variables of commands and DAGs whose names resemble a setting's."""


def misspelled(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the variables that nothing reads and whose names resemble a setting's, each with that setting."""
    known = [ENVIRONMENT_PREFIX + name.upper() for name in Settings.model_fields]
    ours = (name for name in names if name.startswith(ENVIRONMENT_PREFIX) and not name.startswith(NO_SETTINGS))
    unknown = sorted(set(ours) - set(known))
    likely = ((name, get_close_matches(name, known, 1, LIKELY_MISSPELLED)) for name in unknown)
    return [(name, found[0]) for name, found in likely if found]
