"""The tools that a leg can be, those that measure a finished leg, and what their flags say.

A setting is checked by the tool's own parser, each distinct value once.
"""

import difflib
import functools
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NoReturn

from dltb import (
    UsageError,
    analyze_distance,
    analyze_drift,
    continuous,
    detect_stabilization,
    distance_feedback,
    distance_loop,
    iterate,
    klein,
    oneshot,
)

RESERVED = ("output-dir", "overwrite", "resume", "help")  # what the sweep itself decides
Value = str | int | float | bool


@dataclass(frozen=True)
class LoopTool:
    """A tool whose run is a leg. ``values`` below are its parsed flags, ``clip`` the frames of its input."""

    module: ModuleType
    passes: Callable[[Mapping[str, Any], int | None], int | None]  # None: the input does not say
    takes_clip: bool = False
    leaves: str | None = None  # the table of a tool that measures its run itself
    films: bool = False  # every pass is in a video
    keeps_inputs: bool = False  # every pass leaves a second PNG, what the model was given
    klein_only: bool = False
    img2img_only: bool = False


def _clip_passes(values: Mapping[str, Any], clip: int | None) -> int | None:
    if clip is None:
        return None
    tails = len(values["tail_modes"]) * values["tail_frames"]
    return min(clip, values["max_frames"] or clip) + tails


LOOP_TOOLS: Mapping[str, LoopTool] = {
    "dltb-oneshot": LoopTool(oneshot, lambda values, clip: 1),
    "dltb-iterate": LoopTool(iterate, lambda values, clip: values["iterations"], films=True),
    "dltb-continuous": LoopTool(continuous, _clip_passes, takes_clip=True, films=True),
    "dltb-klein": LoopTool(klein, _clip_passes, takes_clip=True, films=True, klein_only=True),
    "dltb-distance-loop": LoopTool(
        distance_loop,
        lambda values, clip: values["iterations"],
        leaves="distance_metrics.csv",
        img2img_only=True,
    ),
    "dltb-distance-feedback": LoopTool(
        distance_feedback,
        lambda values, clip: values["frames"],
        leaves="distance_metrics.csv",
        keeps_inputs=True,
        img2img_only=True,
    ),
}


@dataclass(frozen=True)
class MeasuringTool:
    """A tool that is given a finished run, and the file of the run directory that it leaves."""

    module: ModuleType
    leaves: str
    reads: tuple[str, ...] = ()  # tables of the run directory, the first that is there; empty: the directory itself


MEASURING_TOOLS: Mapping[str, MeasuringTool] = {
    "dltb-drift": MeasuringTool(analyze_drift, "drift_metrics.csv"),
    "dltb-distance": MeasuringTool(analyze_distance, "distance_metrics.csv"),
    "dltb-stabilization": MeasuringTool(
        detect_stabilization, "stabilization_report.csv", ("distance_metrics.csv", "drift_metrics.csv")
    ),
}


@dataclass(frozen=True)
class Flag:
    """One checked setting of a tool."""

    argument: tuple[str, ...]  # as typed; empty for a switch that is off anyway
    name: str  # of the option's field
    value: Any


def _refuse(message: str) -> NoReturn:
    raise UsageError(message)


@functools.cache
def _parser(tool: str) -> ArgumentParser:
    parser = LOOP_TOOLS[tool].module.build_parser()
    parser.error = _refuse
    return parser


@functools.cache
def defaults(tool: str) -> Mapping[str, Any]:
    """The tool's options when no flag is given."""
    return vars(_parser(tool).parse_args([]))


def check_tool(tool: Any) -> str:
    """The tool's name, with or without dltb- in front."""
    name = f"dltb-{str(tool).removeprefix('dltb-')}"
    if name not in LOOP_TOOLS:
        raise UsageError(f"tool: unknown tool {tool!r}; known: {', '.join(LOOP_TOOLS)}")
    return name


@functools.lru_cache(maxsize=None, typed=True)  # 1, 1.0 and True are three settings
def check_flag(tool: str, key: str, value: Value) -> Flag:
    """Have the tool's parser judge one setting; a UsageError begins with the key."""
    parser = _parser(tool)
    known = parser._option_string_actions
    if key in RESERVED:
        raise UsageError(f"{key}: the sweep itself says where runs go and that they are resumed; leave it out")
    if f"--{key}" not in known:
        close = difflib.get_close_matches(key, [name.removeprefix("--") for name in known], n=1)
        hint = f" (did you mean {close[0]}?)" if close else f" (see {tool} --help)"
        raise UsageError(f"{key}: {tool} has no --{key}{hint}")
    name = known[f"--{key}"].dest
    argument = _argument(known, key, value)
    try:
        return Flag(argument, name, getattr(parser.parse_args(list(argument)), name))
    except UsageError as error:
        reason = str(error).removeprefix(f"argument --{key}: ")
        raise UsageError(f"{key} = {value!r}: {reason}") from None


def _argument(known: Mapping[str, Any], key: str, value: Value) -> tuple[str, ...]:
    is_switch = known[f"--{key}"].nargs == 0
    if is_switch is not isinstance(value, bool):
        raise UsageError(f"{key} = {value!r}: {'true or false is' if is_switch else 'a value is'} needed")
    if not is_switch:
        return (f"--{key}={value}",)
    if value:
        return (f"--{key}",)
    return (f"--no-{key}",) if f"--no-{key}" in known else ()


def parse_measure(text: str) -> tuple[str, ...]:
    """``dltb-distance --metric flip`` as its words, checked by that tool's parser."""
    import shlex

    words = tuple(shlex.split(text))
    if not words or words[0] not in MEASURING_TOOLS:
        raise UsageError(f"measure: unknown tool in {text!r}; known: {', '.join(MEASURING_TOOLS)}")
    parser = MEASURING_TOOLS[words[0]].module.build_parser()
    parser.error = _refuse
    try:
        parser.parse_args([*words[1:], "RUN"])
    except UsageError as error:
        raise UsageError(f"measure: {text!r}: {error}") from None
    return words
