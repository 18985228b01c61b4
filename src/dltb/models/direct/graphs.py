"""Stages as CUDA graphs: the kernels that PyTorch would launch one by one, recorded once and started together.

A graph runs the very kernels of the eager stage on the same values, so its bits are the same. That is checked when it is
made: a graph that gives other bits, or that cannot be recorded, is not used.
"""

import time

import torch

from dltb.models.direct.base import Signature, Stage, signature_of
from dltb.models.report import ProfileReport


class Graphed:
    """A stage with one CUDA graph for every set of input shapes. Its result is valid until the next call of these shapes."""

    def __init__(self, name: str, stage: Stage, report: ProfileReport, pool: tuple[int, int] | None = None) -> None:
        self._name, self._stage, self._report = name, stage, report
        self._pool = pool
        self._graphs: dict[Signature, _Graph | None] = {}

    def __call__(self, *tensors: torch.Tensor) -> torch.Tensor:
        signature = signature_of(tensors)
        if signature not in self._graphs:
            return self._first(signature, tensors)
        graph = self._graphs[signature]
        return self._stage(*tensors) if graph is None else graph.replay(tensors)

    def _first(self, signature: Signature, tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
        started = time.perf_counter()
        expected = self._stage(*tensors)
        graph = _record(self._stage, tensors, self._pool)
        same = graph is not None and torch.equal(graph.replay(tensors), expected)
        self._graphs[signature] = graph if same else None
        kind = "graph" if same else "eager: not recordable" if graph is None else "eager: graph gave other bits"
        self._report.say(self._name, kind, time.perf_counter() - started)
        return expected


class _Graph:
    def __init__(self, graph: torch.cuda.CUDAGraph, inputs: list[torch.Tensor], output: torch.Tensor) -> None:
        self._graph, self._inputs, self._output = graph, inputs, output

    def replay(self, tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
        for place, tensor in zip(self._inputs, tensors, strict=True):
            place.copy_(tensor, non_blocking=True)
        self._graph.replay()
        return self._output


def _record(stage: Stage, tensors: tuple[torch.Tensor, ...], pool: tuple[int, int] | None) -> _Graph | None:
    """The stage on these inputs as a graph; None where something in it cannot be recorded."""
    inputs = [tensor.clone() for tensor in tensors]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        stage(*inputs)  # libraries set themselves up on a stream's first use, which a recording must not contain
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, pool=pool):
            output = stage(*inputs)
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        torch.cuda.synchronize()
        return None
    return _Graph(graph, inputs, output)
