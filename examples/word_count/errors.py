"""The error of the word count example."""


class UserError(Exception):
    """An error that the user can fix; its message is printed as one sentence."""
