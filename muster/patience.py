"""A command waits until a run is worked off as long as a DAG does: one setting says it to both."""

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
