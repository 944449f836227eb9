"""Errors of Spark jobs."""


class JobError(Exception):
    """A job cannot continue; the message is printed without a traceback and contains no password."""
