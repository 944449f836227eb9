"""Arguments, limits, submission and calls of the jobs, without Spark."""
