"""Input files: found, and named in run.json by what they hold rather than by where they lie."""

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
    path = Path(text)
    if not path.exists() and text.startswith("input_example/") and (CHECKOUT / text).exists():
        return CHECKOUT / text
    if not path.exists():
        raise UsageError(f"--input {text}: no such file")
    return path


def describe_input(path: Path) -> dict[str, str]:
    """Name and SHA-256 of an input, so that a resume notices another file under the same name."""
    with path.open("rb") as file:
        return {"input": path.name, "input sha256": hashlib.file_digest(file, "sha256").hexdigest()}
