"""Result files: refused before the work where they cannot be, written whole or not at all."""

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from dltb import UsageError
from dltb.imaging.atomic import replacing


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON; a RunError (disk full, ...) leaves what was there before."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def check_output(path: Path, *, is_ours: Callable[[Path], bool], tool: str, otherwise: str) -> None:
    """Refuse, before anything is computed, a file that cannot be written, or that ``tool`` did not make.

    The folder that it goes into may be missing as long as it can be made. ``otherwise`` says what to do instead.
    """
    place = next(parent for parent in path.absolute().parents if parent.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: cannot write in {place}; {otherwise}")
    if os.path.lexists(path) and not is_ours(path):
        raise UsageError(f"{path} exists and was not written by {tool}; {otherwise}")


def check_report(text: str | None, *, tool: str, flag: str) -> Path | None:
    """The JSON report that ``flag`` asks for, refused as by ``check_output``."""
    if text is None:
        return None
    if not text:
        raise UsageError(f"{flag} is empty; give a file, or leave the flag out")
    path = Path(text)
    if not path.parent.is_dir():
        raise UsageError(f"{flag} {path}: {path.parent} is not a folder")
    check_output(path, is_ours=partial(is_report, tool=tool), tool=tool, otherwise=f"give another {flag}")
    return path


def is_report(path: Path, *, tool: str) -> bool:
    """Whether an existing file is a JSON report of ``tool``, by its first key."""
    return first_bytes(path).lstrip("{ \r\n").startswith(f'"tool": "{tool}"')


def first_bytes(path: Path) -> str:
    """How an existing file begins, as text; empty for what is no regular file."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return file.read(1000).decode("utf-8", "replace")


def first_line(path: Path) -> str:
    """The header of a table that exists."""
    return first_bytes(path).split("\n", 1)[0].rstrip("\r")
