"""The apply timeout: how long commands and DAGs wait for a maintenance run, from one setting."""

from muster.errors import USAGE_EXIT_CODE, UserError
from spark_jobs import submit
from spark_jobs.errors import JobError


def apply_timeout_s() -> float:
    """Return how long a run may take to be worked off, in seconds.

    Raises:
        UserError: the setting is no number of minutes.
    """
    try:
        return submit.apply_timeout().total_seconds()
    except JobError as refusal:
        raise UserError(str(refusal), USAGE_EXIT_CODE) from None
