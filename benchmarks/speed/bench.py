"""One row of the table: both loops in turn under each profile, the floor, and what else is asked for."""

import argparse
import json
import statistics
import sys
import tempfile
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.speed.device import cudnn_benchmark, free, matmul_rate, only
from benchmarks.speed.loops import CLIP, SKIPPED, nothing, our_loop, plain_loop, replaced
from benchmarks.speed.rows import Row
from benchmarks.speed.table import first_difference
from benchmarks.speed.where import stage_times
from dltb.args.options import ModelOptions
from dltb.imaging.frames import prepare_frame
from dltb.imaging.passes import call_options, make_generator
from dltb.runs import model as run_model

PROMPT = "slightly enhance the fine details"


class Bench:
    """One row: the plain loop in turn with each profile."""

    def __init__(self, row: Row, args: argparse.Namespace) -> None:
        self.row, self.args = row, args
        model = ModelOptions(model=row.key, device=args.device, prompt=PROMPT, width=args.size, height=args.size)
        with replaced(run_model, check_requirements=nothing):
            self.choice = run_model.choose_model(model)
        self.model = model
        self.device = self.choice.device

    def load(self) -> Any:
        """A pipeline of this row with the same weights every time."""
        from dltb.models.loading import load_pipeline, resolve_dtype

        if self.choice.spec.embedded:
            return load_pipeline(self.choice.spec, device=self.device)
        from benchmarks.full_size import build

        return build(self.row.key, self.device, resolve_dtype(self.choice.spec, self.device))

    def run(self) -> dict[str, Any]:
        """Measure every profile that was asked for."""
        plain = self.load()
        result: dict[str, Any] = {"row": self.row.key, "size": self.choice.settings.width, "profiles": {}}
        result["floor_ms"] = self._floor(plain)
        for profile in self.row.profiles:
            if profile not in self.args.profiles:
                continue
            try:
                result["profiles"][profile] = self._pairs(plain, profile)
            except Exception as error:  # the other rows and profiles are worth having
                traceback.print_exc()
                result["profiles"][profile] = {"error": f"{type(error).__name__}: {error}"[:500]}
            print(json.dumps({self.row.key: {profile: result["profiles"][profile]}}), file=sys.stderr, flush=True)
            free(self.device)
        return result

    def _pairs(self, plain: Any, profile: str) -> dict[str, Any]:
        pipe = plain if profile == "exact" else self.load()
        model = ModelOptions(**{**vars(self.model), "profile": profile})
        times: dict[str, list[float]] = {"plain": [], "dltb": []}
        closing: dict[str, list[float]] = {"plain": [], "dltb": []}
        first_s, peaks, report, differing = 0.0, {}, {}, None
        for turn in range(self.args.rounds + 1):
            # The first turn warms caches and allocators, and compiles.
            video = self.row.video if turn else replace(self.row.video, max_frames=SKIPPED + 2)
            with tempfile.TemporaryDirectory() as folder, only(self.device, plain, peaks, "plain"):
                straight = plain_loop(plain, self.choice, video, Path(folder) / "plain")
            with tempfile.TemporaryDirectory() as folder, only(self.device, pipe, peaks, "dltb"):
                ours, told = our_loop(pipe, video, model, Path(folder))
            differing = first_difference(straight.frames, ours.frames)
            if turn == 0:
                first_s, report = ours.first_s, told
                continue
            for name, timed in (("plain", straight), ("dltb", ours)):
                times[name].append(timed.ms)
                closing[name].append(timed.closing_ms)
        medians = {name: statistics.median(values) for name, values in times.items()}
        result = {
            "ms": {name: round(value, 1) for name, value in medians.items()},
            "ratio": round(medians["plain"] / medians["dltb"], 2),
            "rounds_ms": {name: [round(value, 1) for value in values] for name, values in times.items()},
            "closing_ms": {name: round(statistics.median(values)) for name, values in closing.items()},
            "first_differing_frame": differing,
            "first_passes_s": round(first_s, 1),
            "peak_gib": peaks,
            "report": report,
        }
        if self.args.where:
            result["where_ms"], result["kernels_ms"] = stage_times(pipe, self.choice, self._frames(), profile)
        if self.args.verify and profile != "exact":
            result["verify"] = self._verify(plain, pipe, profile)
        return result

    def _frames(self) -> list[np.ndarray]:
        from dltb.imaging.video import read_video

        size = (self.choice.settings.width, self.choice.settings.height)
        frames = [prepare_frame(frame, *size) for frame in read_video(CLIP, 2)]
        return frames if self.row.video.conditioning == "dual-ref" else frames[:1]

    def _floor(self, pipe: Any) -> float | None:
        """ms that a pass's arithmetic takes at the rate of a large matrix product."""
        from torch.utils.flop_counter import FlopCounterMode

        from dltb.models.direct import make_direct

        direct = make_direct(pipe, call_options(self.choice.spec, self.choice.settings))
        with FlopCounterMode(display=False) as counter:
            direct(self._frames(), make_generator(self.device, 1))
        return round(counter.get_total_flops() / matmul_rate(self.device, pipe.dtype) * 1000, 2)

    def _verify(self, plain: Any, pipe: Any, profile: str) -> dict[str, Any]:
        from dltb.runs.verification import capture_reference, replay_reference

        with cudnn_benchmark(False):
            reference = capture_reference(plain, self.choice, self._frames())
        report = replay_reference(reference, pipe, replace(self.choice, profile=profile))
        print(f"{self.row.key} {profile}\n{report.table()}", file=sys.stderr, flush=True)
        return report.as_dict() | {"captured": None, "replayed": None}
