"""Advice rules as Spark column expressions: steps, days, histograms and identities.

Source: coordinator_core/analytics/advice/steps.py, to which a property test compares this module.
"""

from functools import reduce
from operator import add

from pyspark.sql import Column
from pyspark.sql import functions as sf

from coordinator_core.analytics.advice.evidence import GAP_BOUNDS_MS
from coordinator_core.analytics.advice.steps import STEP_RANGES_MS

DAY_MS = 86_400_000


def place_of(length_ms: Column) -> Column:
    """Return the index of a duration's step: the number of shorter steps; NULL for NULL."""
    shorter = (_shorter_steps(length_ms, run_ms) for run_ms in STEP_RANGES_MS)
    return sf.when(length_ms.isNotNull(), reduce(add, shorter).cast("int"))


def _shorter_steps(length_ms: Column, run_ms: range) -> Column:
    """Return how many steps of an evenly spaced range are shorter than a duration."""
    beyond = sf.ceil((length_ms - run_ms.start) / run_ms.step)
    return sf.greatest(sf.lit(0), sf.least(sf.lit(len(run_ms)), beyond))


def day_of(at: Column, end_ms: int) -> Column:
    """Return an instant's day: -1 is the last 24 hours before the window's end, as in `TuningQuery.day_of`."""
    return sf.floor((sf.unix_millis(at) - sf.lit(end_ms)) / sf.lit(DAY_MS)).cast("int")


def summed_gaps(histogram: Column) -> Column:
    """Return the sum of gap histograms, bound by bound; shorter ones count as 0."""
    places = range(len(GAP_BOUNDS_MS) + 1)
    return sf.array(*(sf.coalesce(sf.sum(sf.get(histogram, sf.lit(place))), sf.lit(0)) for place in places))


def identity_of(group_instance_id: Column, client_id: Column, client_host: Column) -> Column:
    """Return a member's identity apart from its member id: its instance id, else its client id and host."""
    is_instance = group_instance_id.isNotNull()
    # Postgres texts contain no zero character.
    process = sf.concat_ws("\0", client_id, client_host)
    return sf.when(is_instance, sf.concat(group_instance_id, sf.lit("\0"))).otherwise(sf.concat(sf.lit("\0"), process))
