"""Limits of proposals: those within all limits are applied automatically, others need an operator's approval.

The limits bound the number of rows that one run removes and their share, in total and per group. A proposal with
missing counts exceeds them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

from spark_jobs.errors import JobError

PERMILLE = 1_000

MEASURES = frozenset({"of", "largest_group", "largest_group_permille"})
"""Counts that serve only the limits; the other counts are printed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a run that needs no approval. Shares are from 0 to 1; 1 is no limit."""

    max_candidates: int = 100_000
    max_share: float = 0.5
    """Share of all rows."""
    max_group_candidates: int = 20_000
    max_group_share: float = 1.0
    """Share of one group's rows. An unused group rightly loses all of them."""
    share_from: int = 1_000
    """Shares of fewer candidates than this are ignored: of a handful, every share is large."""

    def exceeded_by(self, counts: Mapping[str, int], job: str) -> list[str]:
        """Return a sentence for each limit that a job's proposal exceeds, with its value, name and setting.

        Proposals of whole groups have no counts of the largest group, and need none.
        """
        if not {"candidates", "of"} <= counts.keys():
            return ["The proposal has no counts."]
        return [
            f"{excess} ({name}, {_variable(job, name)})."
            for name, excess in (*self._by_the_run(counts), *self._by_one_group(counts))
        ]

    def _by_the_run(self, counts: Mapping[str, int]) -> list[tuple[str, str]]:
        candidates, of = counts["candidates"], counts["of"]
        found = []
        if candidates > self.max_candidates:
            found.append(("max_candidates", f"{candidates} candidates are more than {self.max_candidates}"))
        if candidates >= self.share_from and candidates / max(of, 1) > self.max_share:
            found.append(("max_share", f"{candidates} candidates of {of} are more than a share of {self.max_share:g}"))
        return found

    def _by_one_group(self, counts: Mapping[str, int]) -> list[tuple[str, str]]:
        largest, permille = counts.get("largest_group", 0), counts.get("largest_group_permille", 0)
        found = []
        if largest > self.max_group_candidates:
            found.append(
                ("max_group_candidates", f"{largest} candidates of one group are more than {self.max_group_candidates}")
            )
        if permille > self.max_group_share * PERMILLE:
            found.append(
                (
                    "max_group_share",
                    f"{permille / PERMILLE:g} of one group is more than a share of {self.max_group_share:g}",
                )
            )
        return found


def default_limits(job: str) -> Limits:
    """Return a job's limits: `MUSTER_<JOB>_<LIMIT>`, such as MUSTER_GROUP_CLEANUP_MAX_SHARE, else the defaults.

    Raises:
        JobError: A setting is not a number within its range.
    """
    given = {field.name: _setting(job, field.name, field.default) for field in fields(Limits)}
    return Limits(**given)  # type: ignore[arg-type]  # each is of its default's type


def _setting(job: str, name: str, default: object) -> int | float:
    assert isinstance(default, int | float), "every limit has a number as its default"
    variable = _variable(job, name)
    text = os.environ.get(variable, "").strip()
    is_share = isinstance(default, float)
    try:
        value = default if not text else float(text) if is_share else int(text)
    except ValueError:
        value = -1
    if not 0 <= value <= (1 if is_share else 2**31 - 1):
        kind = "a share from 0 to 1" if is_share else f"a whole number from 0 to {2**31 - 1}"
        raise JobError(f"{variable} is {text!r}; it must be {kind}.")
    return value


def _variable(job: str, name: str) -> str:
    return f"MUSTER_{job}_{name}".upper()
