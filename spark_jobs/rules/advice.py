"""The steps of advice as Spark column expressions: a length is counted where the pure rule counts it.

Source: coordinator_core/protocol/advice/steps.py, to which a property test compares this module.
"""

from functools import reduce
from operator import add

from pyspark.sql import Column
from pyspark.sql import functions as sf

from coordinator_core.protocol.advice.evidence import GAP_BOUNDS_MS
from coordinator_core.protocol.advice.steps import RUNS_MS

DAY_MS = 86_400_000


def place_of(length_ms: Column) -> Column:
    """Say under which step a length is counted: how many steps are shorter than it; NULL of NULL."""
    shorter = (_shorter_steps(length_ms, run_ms) for run_ms in RUNS_MS)
    return sf.when(length_ms.isNotNull(), reduce(add, shorter).cast("int"))


def _shorter_steps(length_ms: Column, run_ms: range) -> Column:
    """Say how many steps of an even run are shorter than a length."""
    beyond = sf.ceil((length_ms - run_ms.start) / run_ms.step)
    return sf.greatest(sf.lit(0), sf.least(sf.lit(len(run_ms)), beyond))


def day_of(at: Column, end_ms: int) -> Column:
    """Number an instant's day: -1 is the last 24 hours before the window's end, as for `TuningQuestion.day_of`."""
    return sf.floor((sf.unix_millis(at) - sf.lit(end_ms)) / sf.lit(DAY_MS)).cast("int")


def summed_gaps(histogram: Column) -> Column:
    """Add histograms of gaps up, bound by bound; one that is shorter has nothing there."""
    places = range(len(GAP_BOUNDS_MS) + 1)
    return sf.array(*(sf.coalesce(sf.sum(sf.get(histogram, sf.lit(place))), sf.lit(0)) for place in places))


def identity_of(group_instance_id: Column, client_id: Column, client_host: Column) -> Column:
    """Say who a member is under whatever id: its instance, wherever it runs, or else its client id and host."""
    is_instance = group_instance_id.isNotNull()
    # No text of Postgres has a zero character.
    process = sf.concat_ws("\0", client_id, client_host)
    return sf.when(is_instance, sf.concat(group_instance_id, sf.lit("\0"))).otherwise(sf.concat(sf.lit("\0"), process))
