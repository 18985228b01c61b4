"""A loaded pipeline under a profile: the call that makes its passes, and the report of what that came to."""

import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from dltb.imaging.passes import Call, pipeline_call
from dltb.models.direct import embedded_options, make_direct
from dltb.models.direct.base import Direct, Signature, Stage, Wrap, signature_of, unwrapped
from dltb.models.report import ProfileReport
from dltb.models.table import ModelSpec


@dataclass(frozen=True)
class Engine:
    """What a run needs of a profile."""

    call: Call
    report: ProfileReport
    at_strength: Callable[[float], Call]  # the call of another strength, for a model that has one


def make_engine(
    pipe: Any,
    spec: ModelSpec,
    options: Mapping[str, Any],
    *,
    profile: str = "exact",
    offload: bool = False,
    size: tuple[int, int],
    report: ProfileReport | None = None,
) -> Engine:
    """Set a pipeline up under ``profile``, for passes of ``size`` (width, height, px); fast and fp8 change it in place.

    A pipeline that is offloaded, or that the direct path does not cover, is called as it comes, its prompt encoded once.
    ``report`` is one to go on with, where a run sets up several engines.
    """
    report = report or ProfileReport(profile, "direct")
    direct = None if offload else make_direct(pipe, options, wrap=_wrapping(pipe, report))
    if direct is None:
        report.call = "pipeline"
        return _as_it_comes(pipe, spec, embedded_options(pipe, options), report)
    if profile != "exact":
        _change(direct, report, size)
    return Engine(direct, report, direct.at_strength)


def _as_it_comes(pipe: Any, spec: ModelSpec, options: Mapping[str, Any], report: ProfileReport) -> Engine:
    def at_strength(strength: float) -> Call:
        return pipeline_call(pipe, spec, {**options, "strength": strength})

    return Engine(pipeline_call(pipe, spec, options), report, at_strength)


def _wrapping(pipe: Any, report: ProfileReport) -> Wrap:
    """On CUDA every stage becomes a graph; elsewhere what is compiled is at least timed."""
    if torch.device(pipe._execution_device).type != "cuda":
        return unwrapped if report.name == "exact" else lambda name, stage: Compiled(name, stage, report)
    from dltb.models.direct.graphs import Graphed

    pool = torch.cuda.graph_pool_handle()
    return lambda name, stage: Graphed(name, stage, report, pool)


class Compiled:
    """A stage whose first call of every set of input shapes, the one that compiles, is reported."""

    def __init__(self, name: str, stage: Stage, report: ProfileReport) -> None:
        self._name, self._stage, self._report = name, stage, report
        self._seen: set[Signature] = set()

    def __call__(self, *tensors: torch.Tensor) -> torch.Tensor:
        signature = signature_of(tensors)
        if signature in self._seen:
            return self._stage(*tensors)
        started = time.perf_counter()
        result = self._stage(*tensors)
        self._seen.add(signature)
        self._report.say(self._name, "compiled", time.perf_counter() - started)
        return result


def _change(direct: Direct, report: ProfileReport, size: tuple[int, int]) -> None:
    from dltb.models.direct.fast import choose_attention, compile_modules
    from dltb.models.direct.float8 import quantise_blocks

    _announce(report)
    width, height = size
    if report.name == "fp8":
        quantise_blocks(direct.pipe.transformer)
    report.attention = choose_attention(direct, height, width)
    compile_modules(direct)


def _announce(report: ProfileReport) -> None:
    """Say once a run why nothing moves for a minute or two."""
    if report.stages:
        return  # set up again for another prompt of the same run
    logging.getLogger("torch.utils.cpp_extension").addFilter(_is_news)
    print(f"compiling for --profile {report.name}; the first passes are slow ...", file=sys.stderr, flush=True)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line of torch's says anything: a machine with a CUDA toolkit and no GPU is no fault."""
    return "No CUDA runtime is found" not in record.getMessage()
