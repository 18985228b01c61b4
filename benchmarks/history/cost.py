"""--cost: milliseconds a frame of the history step."""

import statistics
import time
from collections.abc import Iterator
from types import SimpleNamespace

import cv2
import numpy as np

from dltb.args.options import HISTORY, HistoryOptions, VideoOptions
from dltb.imaging.evidence import Evidence, with_evidence
from dltb.imaging.flow import Flow
from dltb.loop.engine import Source
from dltb.runs.rectified import make_rectifier

CHAINS = {
    "before, residual and clip": {"history_input": ("residual", "clip")},
    "after, residual": {"history": ("residual", "reject", "confidence")},
    "both": {"history_input": ("residual", "clip"), "history": ("residual", "reject", "confidence")},
    "both, with every method": {"history_input": HISTORY, "history": HISTORY},
}


def cost(size: int = 512, frames: int = 40) -> None:
    """Milliseconds a frame of the history step, motion and its evidence apart: wall clock, and the CPU's of all threads."""
    rng = np.random.default_rng(0)
    source, output = (cv2.GaussianBlur(rng.integers(0, 256, (size, size, 3), dtype=np.uint8), (0, 0), 2) for _ in "ab")
    flow = Flow(np.full((size, size, 2), 1.3, np.float32))
    evidence = [with_evidence(flow, source, source, 12.0) for _ in range(frames)]
    print(f"{size} px, {cv2.getNumThreads()} threads, median of {frames} frames (least), ms")
    for name, chains in CHAINS.items():
        wall, cpu = zip(*_step_times(chains, source, output, evidence), strict=True)
        numbers = (
            f"{kind} {statistics.median(ms):6.1f} ({min(ms):.1f})" for kind, ms in (("wall", wall), ("CPU", cpu))
        )
        print(f"{name:28}", *numbers)


def _step_times(
    chains: dict, source: np.ndarray, output: np.ndarray, evidence: list[Evidence]
) -> Iterator[tuple[float, float]]:
    """(wall, CPU) ms of every frame's step."""
    rectifier = make_rectifier(HistoryOptions(**chains), VideoOptions(anchor_blend=0.1), lambda a, b: now)
    made = SimpleNamespace(frame=output)
    for now in evidence:
        started, spent = time.perf_counter(), time.process_time()
        if "history_input" in chains:
            rectifier.reproject(output, now, source)
        if "history" in chains:
            rectifier.resolve(output, Source(2, source, source), made)
        yield 1000 * (time.perf_counter() - started), 1000 * (time.process_time() - spent)
