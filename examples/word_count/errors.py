"""What goes wrong at a person's side is one sentence."""


class UserError(Exception):
    """The message is for the person who started the program."""
