"""The result of one check: what was found, its status, and what to do."""

from typing import Literal, NamedTuple


class CheckResult(NamedTuple):
    """The result of one check."""

    check: str
    status: Literal["ok", "warning", "error"]
    message: str
    advice: str | None = None


def ok(check: str, message: str) -> CheckResult:
    """Return a result that needs no action."""
    return CheckResult(check, "ok", message)


def warning(check: str, message: str, advice: str) -> CheckResult:
    """Return a result that may be intended."""
    return CheckResult(check, "warning", message, advice)


def error(check: str, message: str, advice: str) -> CheckResult:
    """Return a result that needs action."""
    return CheckResult(check, "error", message, advice)
