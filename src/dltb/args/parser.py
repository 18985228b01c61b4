"""argparse groups made from frozen option dataclasses: a flag's name, type, default and help exist once, in its field."""

import argparse
import contextlib
import dataclasses
import math
import os
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


def option(
    default: Any,
    help: str,
    *,
    choices: Sequence[str] | None = None,
    metavar: str | tuple[str, ...] | None = None,
    parse: Callable[[str], Any] | None = None,
    positional: bool = False,
    words: int | None = None,
) -> Any:
    """A dataclass field that is also a flag. ``parse`` turns the text into the value or raises ValueError.

    A flag of several ``words`` takes them one by one, and its value is a list.
    """
    metadata = {"help": help, "choices": choices, "metavar": metavar, "parse": parse, "positional": positional}
    metadata["words"] = words
    return dataclasses.field(default=default, metadata=metadata)


class ToolParser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line and whose help keeps the layout of its examples."""

    def __init__(self, *, prog: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
        )

    def parse_args(self, argv: Sequence[str] | None = None) -> argparse.Namespace:  # type: ignore[override]
        """Parse; ``given`` in the result holds the names of the flags that the user typed."""
        for text in sys.argv[1:] if argv is None else argv:
            if not text.isprintable() and any(0xD800 <= ord(letter) < 0xE000 for letter in text):
                self.error(f"{text!r} is not valid UTF-8")
        parsed = super().parse_args(argv)
        defaults = {action: action.default for action in self._actions}
        try:
            for action in defaults:
                action.default = argparse.SUPPRESS
            parsed.given = frozenset(vars(super().parse_args(argv)))
        finally:
            for action, default in defaults.items():
                action.default = default
        return parsed

    def print_help(self, file: Any = None) -> None:
        """Print the help; a reader that went away (`| head`) is no error."""
        with contextlib.suppress(BrokenPipeError):
            super().print_help(file)
            sys.stdout.flush()
            return
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {' '.join(message.split())} (see {self.prog} --help)\n")


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps paragraphs as written and ends each flag's help with its default."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = (action.help or "").replace("%", "%%")
        if action.default in (None, argparse.SUPPRESS, "") or action.dest == "help":
            return text
        return f"{text} (default: {_as_typed(action.default)})"


def _as_typed(default: Any) -> str:
    """A default as a user would type or say it."""
    if isinstance(default, bool):
        return "on" if default else "off"
    return (",".join(default) or "none") if isinstance(default, tuple) else str(default)


def add_options(
    parser: argparse.ArgumentParser,
    options: type,
    title: str,
    *,
    defaults: Mapping[str, Any] = types.MappingProxyType({}),
    leave_out: Sequence[str] = (),
) -> None:
    """Add one flag per field of ``options`` as a group; ``defaults`` are this tool's own where they differ."""
    group = parser.add_argument_group(title)
    hints = typing.get_type_hints(options)
    for field in dataclasses.fields(options):
        if field.name not in leave_out:
            _add_flag(group, field, hints[field.name], defaults.get(field.name, field.default))


def _add_flag(group: argparse._ArgumentGroup, field: dataclasses.Field, hint: Any, default: Any) -> None:
    meta = field.metadata
    flag = "--" + field.name.replace("_", "-")
    if meta["positional"]:
        group.add_argument(field.name, metavar=meta["metavar"], help=meta["help"])
    elif hint is bool:
        # A switch that is off by default needs no --no- form; one that is on does.
        action = argparse.BooleanOptionalAction if default else "store_true"
        group.add_argument(flag, action=action, default=default, help=meta["help"])
    else:
        kind = _Parsed(meta["parse"] or (str if meta["words"] else _plain_type(hint)))
        extra = {"choices": meta["choices"]} if meta["choices"] else {}
        extra |= {"nargs": meta["words"]} if meta["words"] else {}
        group.add_argument(flag, type=kind, default=default, metavar=meta["metavar"], help=meta["help"], **extra)


def _plain_type(hint: Any) -> Callable[[str], Any]:
    members = [m for m in typing.get_args(hint) if m is not type(None)] or [hint]
    return members[0]


class _Parsed:
    """Wraps a field's parser so that its ValueError text reaches the user as it is."""

    def __init__(self, parse: Callable[[str], Any]) -> None:
        self.parse = parse
        self.__name__ = getattr(parse, "__name__", "value")

    def __call__(self, text: str) -> Any:
        try:
            return self.parse(text)
        except ValueError as error:
            plain = self.parse in (int, float)
            wanted = {int: "a whole number", float: "a number"}.get(self.parse)  # type: ignore[call-overload]
            raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}" if plain else str(error)) from None


def read_options(options: type[T], namespace: argparse.Namespace) -> T:
    """The parsed flags as an instance of ``options``; a field that the tool leaves out keeps its default."""
    known = {f.name: getattr(namespace, f.name) for f in dataclasses.fields(options) if hasattr(namespace, f.name)}  # type: ignore[arg-type]
    return options(**known)


def whole(at_least: int, *, at_most: int | None = None) -> Callable[[str], int]:
    """A parser of whole numbers within bounds."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a whole number") from None
        if value < at_least or (at_most is not None and value > at_most):
            upper = f" and at most {at_most}" if at_most is not None else ""
            raise ValueError(f"{value} is out of range: at least {at_least}{upper}")
        return value

    return parse


def number(at_least: float, at_most: float | None = None, *, above: bool = False) -> Callable[[str], float]:
    """A parser of finite numbers within bounds; ``above`` leaves the lower bound itself out."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a number") from None
        too_low = value <= at_least if above else value < at_least
        if not math.isfinite(value) or too_low or (at_most is not None and value > at_most):
            lower = f"above {at_least:g}" if above else f"at least {at_least:g}"
            raise ValueError(
                f"{text} is out of range: {lower}" + (f", at most {at_most:g}" if at_most is not None else "")
            )
        return value

    return parse


def key_frames(
    parse: Callable[[str], T], between: str = ",", *, example: str = "0:0.3,60:0.6"
) -> Callable[[str], tuple[tuple[int, T], ...]]:
    """A parser of ``0:VALUE,60:VALUE``, or of one VALUE that holds throughout; a wrong VALUE is answered by ``example``."""

    def parse_all(text: str) -> tuple[tuple[int, T], ...]:
        parts = [part.strip() for part in text.split(between)]
        try:
            keys = [_key_frame(part, parse) for part in parts]
            if len(keys) == 1 and keys[0] is None:
                return ((0, parse(parts[0])),)
        except ValueError as error:
            raise ValueError(f"{error}; the form is PASS:VALUE{between}..., such as {example}") from None
        if None in keys:
            raise ValueError(f"{parts[keys.index(None)]!r} in {text!r} is no key frame such as 60:VALUE")
        found = [key for key in keys if key is not None]
        passes = [at for at, _ in found]
        if sorted(set(passes)) != passes:
            raise ValueError(f"the key frames of {text!r} are not in rising order")
        return tuple(found)

    return parse_all


def _key_frame(text: str, parse: Callable[[str], T]) -> tuple[int, T] | None:
    at, colon, value = text.partition(":")
    return (int(at), parse(value.strip())) if colon and at.strip().isdecimal() else None


def frame_rate(text: str) -> Fraction:
    """Parse ``30``, ``23.976`` or ``24000/1001`` frames per second; a fraction is kept exactly."""
    try:
        rate = Fraction(text).limit_denominator(1_000_000)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{text!r} is not a frame rate such as 30, 23.976 or 24000/1001") from None
    if not Fraction(1, 100) <= rate <= 1000:
        raise ValueError(f"{text} is out of range: at least 0.01 and at most 1000 frames per second")
    return rate
