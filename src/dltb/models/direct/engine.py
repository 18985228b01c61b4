"""A loaded pipeline under a profile: the call that makes its passes, and the report of what that came to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from dltb.imaging.passes import Call, pipeline_call
from dltb.models.direct import embedded_options, make_direct
from dltb.models.direct.base import Direct, Stage
from dltb.models.report import ProfileReport
from dltb.models.table import ModelSpec


@dataclass(frozen=True)
class Engine:
    """What a run needs of a profile."""

    call: Call
    report: ProfileReport


def make_engine(
    pipe: Any,
    spec: ModelSpec,
    options: Mapping[str, Any],
    *,
    profile: str = "exact",
    offload: bool = False,
    size: tuple[int, int],
) -> Engine:
    """Set a pipeline up under ``profile``, for passes of ``size`` (width, height, px); fast and fp8 change it in place.

    A pipeline that is offloaded, or that the direct path does not cover, is called as it comes, its prompt encoded once.
    """
    report = ProfileReport(profile, "direct")
    direct = None if offload else make_direct(pipe, options, wrap=_wrapping(pipe, report))
    if direct is None:
        report.call = "pipeline"
        return Engine(pipeline_call(pipe, spec, embedded_options(pipe, options)), report)
    if profile != "exact":
        _change(direct, report, size)
    return Engine(direct, report)


def _wrapping(pipe: Any, report: ProfileReport) -> Any:
    if torch.device(pipe._execution_device).type != "cuda":
        return lambda name, stage: stage
    from dltb.models.direct.graphs import Graphed

    pool = torch.cuda.graph_pool_handle()

    def wrap(name: str, stage: Stage) -> Stage:
        return Graphed(name, stage, report, pool)

    return wrap


def _change(direct: Direct, report: ProfileReport, size: tuple[int, int]) -> None:
    from dltb.models.direct.fast import choose_attention, compile_modules
    from dltb.models.direct.float8 import quantise_blocks

    width, height = size
    if report.name == "fp8":
        quantise_blocks(direct.pipe.transformer)
    report.attention = choose_attention(direct, height, width)
    compile_modules(direct)
