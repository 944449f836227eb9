"""The result of one check: what was found, its status, and what to do."""

from typing import Literal, NamedTuple


class CheckResult(NamedTuple):
    """What one check found."""

    check: str
    status: Literal["ok", "warning", "error"]
    message: str
    advice: str | None = None


def ok(check: str, message: str) -> CheckResult:
    """Return that nothing needs to be done."""
    return CheckResult(check, "ok", message)


def warning(check: str, message: str, advice: str) -> CheckResult:
    """Return that it may be meant so, or not."""
    return CheckResult(check, "warning", message, advice)


def error(check: str, message: str, advice: str) -> CheckResult:
    """Return that something does not work."""
    return CheckResult(check, "error", message, advice)
