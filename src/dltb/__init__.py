"""dltb: deep learning tripping balls. Feeds diffusion models their own output and measures what happens.

This module knows the package's version and its kinds of error, and imports nothing heavy: every tool starts here.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

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


class Interrupted(DltbError):
    """A signal ended the run; the exit code is 128 + its number."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and all that it was raised from, the outermost first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def interruption(error: BaseException) -> BaseException | None:
    """The signal behind an error: one that arrives during an import comes wrapped as a failed import."""
    return next((link for link in causes(error) if isinstance(link, Interrupted | KeyboardInterrupt)), None)


def lazy_exports(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` (PEP 562) of a package whose names are looked up in its modules on first use."""

    def look_up(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return look_up, lambda: sorted(homes)
