"""Group patterns: which groups a query covers, as patterns of SQL's LIKE."""

from typing import Final, NamedTuple

from sqlalchemy import ARRAY, Column, ColumnElement, Text, all_, any_, cast

COVERED_GROUPS: Final = """(%(covered)s::text[] IS NULL OR group_id LIKE ANY (%(covered)s::text[]))
    AND group_id NOT LIKE ALL (%(excluded)s::text[])"""
"""The condition that a query covers `group_id`; its parameters are those of `pattern_parameters`."""


class GroupPatterns(NamedTuple):
    """The groups whose ids are like one of `covered` and like none of `excluded`; `like_prefix` makes such patterns."""

    covered: tuple[str, ...]
    excluded: tuple[str, ...] = ()


def pattern_parameters(patterns: GroupPatterns | None) -> dict[str, list[str] | None]:
    """Return the parameters of `COVERED_GROUPS`; None covers every group."""
    if patterns is None:
        return {"covered": None, "excluded": []}
    return {"covered": list(patterns.covered), "excluded": list(patterns.excluded)}


def covers(group_id: Column[str], patterns: GroupPatterns | None) -> list[ColumnElement[bool]]:
    """Return the conditions that a query covers the groups of a column."""
    if patterns is None:
        return []
    covered, excluded = (cast(list(each), ARRAY(Text)) for each in patterns)
    return [group_id.like(any_(covered)), group_id.not_like(all_(excluded))]


def like_literal(name: str) -> str:
    """Return the pattern of one group id."""
    return name.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def like_prefix(prefix: str) -> str:
    """Return the pattern of all group ids with a prefix."""
    return like_literal(prefix) + "%"
