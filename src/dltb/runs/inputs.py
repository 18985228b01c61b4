"""Input files: found, and named in run.json by what they hold rather than by where they lie."""

import contextlib
import hashlib
from pathlib import Path

from dltb import UsageError

CHECKOUT = Path(__file__).resolve().parents[3]


def find_input(text: str) -> Path:
    """The input file; the example inputs are found from any working directory.

    Raises:
        UsageError: when it is empty or missing.
    """
    if not text:
        raise UsageError("--input is empty; give a file, or leave the flag out for the example")
    example = CHECKOUT / text if text.startswith("input_example/") else None
    for path in filter(None, (Path(text), example)):
        with contextlib.suppress(OSError):  # a name that is too long for a file's
            if path.exists():
                return path
    if "://" in text:
        raise UsageError(f"--input {text[:200]}: download it first; inputs are files")
    hint = " (the examples come with a checkout of the project)" if example else ""
    raise UsageError(f"--input {text[:200]}: no such file{hint}")


def describe_input(path: Path) -> dict[str, str]:
    """Name and SHA-256 of an input, so that a resume notices another file under the same name."""
    with path.open("rb") as file:
        return {"input": path.name, "input sha256": hashlib.file_digest(file, "sha256").hexdigest()}
