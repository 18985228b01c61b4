"""Names of legs: what a leg's directory is called says what it differs in from the others of its sweep."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence

from dltb import UsageError
from dltb.sweeps.tools import Value

LONGEST_PART, LONGEST_NAME = 40, 180  # characters
_PLAIN = re.compile(r"[A-Za-z0-9.+-]+")


def label_of(value: Value) -> str:
    """A value as part of a name; what cannot stand there as it is, is told apart by six digits of its SHA-256."""
    if not isinstance(value, str):
        return repr(value)
    if len(value) <= LONGEST_PART and _PLAIN.fullmatch(value):
        return value
    last = value.rstrip("/").rsplit("/", 1)[-1]
    words = "-".join(_PLAIN.findall(last))[:LONGEST_PART].strip("-.")
    return f"{words}-{_digest(value, 6)}".lstrip("-") if value else "empty"


def check_label(label: str) -> str:
    """A label that the user chose, as it will stand in a name."""
    if not re.fullmatch(r"[A-Za-z0-9.+_-]+", label) or label.startswith("."):
        raise UsageError(f"{label!r} names a directory: letters, digits and . + _ - only, no . in front")
    return label


def part(key: str, value: Value, label: str) -> str:
    """``strength-0.4``; a switch is its key, with no- in front when it is off."""
    if isinstance(value, bool):
        return key if value else f"no-{key}"
    return f"{key}-{label}"


def join(parts: Sequence[str], otherwise: str) -> str:
    """A leg's name; ``otherwise`` where nothing differs."""
    name = "_".join(parts) or otherwise
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}-{_digest(name, 12)}"


def check_distinct(names: Iterable[tuple[str, Mapping[str, Value]]]) -> None:
    """Refuse two legs that would share a directory, also on a file system that does not tell case."""
    seen: dict[str, Mapping[str, Value]] = {}
    for name, settings in names:
        other = seen.setdefault(name.casefold(), settings)
        if other is not settings:
            raise UsageError(
                f"two legs would be called {name}: {_told(other, settings)}; give the values names, or [[leg]]"
            )


def _told(one: Mapping[str, Value], other: Mapping[str, Value]) -> str:
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    if not keys:
        return "their settings are the same"
    return ", ".join(f"{key} {one.get(key, 'not set')!r} and {other.get(key, 'not set')!r}" for key in keys)


def _digest(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
