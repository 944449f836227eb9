"""What a job cannot go on with is told in one sentence, and never as a traceback."""


class JobError(Exception):
    """Carry one sentence for whoever started the job; it holds no password."""
