"""dltb: deep learning tripping balls. Feeds diffusion models their own output and measures what happens.

This module knows the package's version and its two kinds of error, and imports nothing: every tool starts here.
"""

__version__ = "0.1.0"


class DltbError(Exception):
    """An error with a message for the user: one line that says what was given, what is accepted and what to do."""

    exit_code = 1


class UsageError(DltbError):
    """The request cannot be carried out as given; nothing has been changed on disk."""

    exit_code = 2


class RunError(DltbError):
    """A run that was under way had to stop; what it had finished is on disk."""

    exit_code = 1
