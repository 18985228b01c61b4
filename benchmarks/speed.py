"""Milliseconds per pass of this toolkit under its profiles against a plain diffusers loop, pair by pair in one process.

    uv run python -m benchmarks.speed --quick                       the embedded models, any machine
    uv run python -m benchmarks.speed --profiles exact fast fp8     full-size random weights, a large GPU
    ... [--rows sd-turbo flux2-klein-4b] [--rounds 3] [--verify] [--where] [--json FILE]

The plain loop is what one writes first: decode, resize, flow, warp, blend or pair, ``pipe(...)``, save the PNG as PIL does,
append to an mp4, one after the other. Both loops take the same clip and make the same number of passes; of each, the passes
after the second count, to the end of the last one. What comes after it and once a run, until every file is written, stands
apart as ``closing``: the encoder's last frames, the video's index, the end state, run.json, and what this toolkit's writer
lags behind, a few passes at most. ``exact`` must give the plain loop's bytes in every frame, or the command fails.
Floor: the floating-point operations of a pass, text aside, over the card's own rate in a large matrix product.
Full-size pipelines are built by ``benchmarks.full_size``: random weights, stand-in tokenizers.
"""

import argparse
import contextlib
import gc
import json
import os
import resource
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dltb.args.options import ModelOptions, OutputOptions, VideoOptions
from dltb.imaging.frames import prepare_frame
from dltb.imaging.passes import call_arguments, call_options, make_generator
from dltb.models.environment import describe_environment
from dltb.runs import model as run_model
from dltb.runs.video import run_video

CLIP = Path(__file__).parent.parent / "input_example" / "courtyard.mp4"
SKIPPED = 2  # first passes: one reference, then two; compiling and recording
PROMPT = "slightly enhance the fine details"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    key: str
    passes: int
    video: VideoOptions
    profiles: tuple[str, ...] = ("exact", "fast", "fp8")


def _row(key: str, passes: int, *profiles: str, klein: bool = False, save_every: int = 10) -> Row:
    video = VideoOptions(max_frames=passes, save_every=save_every, reproject_mask=klein)
    if klein:
        video = VideoOptions(max_frames=passes, save_every=save_every, reproject_mask=True, conditioning="dual-ref")
    return Row(key, passes, video, profiles or Row.profiles)


FULL_SIZE = (
    _row("flux2-klein-4b", 14, klein=True),
    _row("sd-turbo", 48, "exact", "fast"),
    _row("sdxl-turbo", 24, "exact", "fast"),
    _row("flux-schnell", 24),
    _row("flux2-klein-9b", 10, klein=True),
)
EMBEDDED = (
    Row("tiny-turbo", 24, VideoOptions(max_frames=24, save_every=1, reproject_mask=True), ("exact", "fast")),
    _row("tiny-klein", 16, "exact", "fast", klein=True, save_every=1),
)


@dataclass
class Timed:
    """One run of one loop."""

    ms: float  # per pass, after the skipped ones
    closing_ms: float  # from the end of the last pass to the moment when every file is written
    first_s: float  # the skipped passes
    frames: list[np.ndarray]


@dataclass
class Clock:
    """Notes when each pass ends, and keeps its frame."""

    started: float = field(default_factory=time.perf_counter)
    ends: list[float] = field(default_factory=list)
    frames: list[np.ndarray] = field(default_factory=list)

    def passed(self, frame: np.ndarray) -> None:
        """A pass is done."""
        self.ends.append(time.perf_counter())
        self.frames.append(frame)

    def stop(self) -> Timed:
        """Everything is written."""
        ended, warm, last = time.perf_counter(), self.ends[SKIPPED - 1], self.ends[-1]
        ms = (last - warm) * 1000 / (len(self.ends) - SKIPPED)
        return Timed(ms, (ended - last) * 1000, warm - self.started, self.frames)


def plain_loop(pipe: Any, choice: Any, video: VideoOptions, out: Path) -> Timed:
    """The straight loop: every step in line, nothing ahead and nothing behind."""
    import av
    from PIL import Image

    from dltb.imaging import estimate_flow, make_reprojector
    from dltb.imaging.video import read_video

    spec, settings = choice.spec, choice.settings
    warp, state, previous = make_reprojector(mask_disocclusions=video.reproject_mask), None, None
    out.mkdir(parents=True)
    clock = Clock()
    with av.open(str(out / "video.mp4"), "w") as film:
        stream = film.add_stream("libx264", rate=24)
        stream.width, stream.height, stream.pix_fmt = settings.width, settings.height, "yuv420p"
        for index, raw in enumerate(read_video(CLIP, video.max_frames), 1):
            frame = prepare_frame(raw, settings.width, settings.height)
            images = [frame]
            if state is not None:
                flow = estimate_flow(previous, frame, backward=video.reproject_mask)
                moved = warp(state, flow, frame).frame
                images = [moved, frame]
                if video.conditioning == "blend":
                    mixed = Image.blend(Image.fromarray(moved), Image.fromarray(frame), video.anchor_blend)
                    images = [np.asarray(mixed)]
            generator = make_generator(choice.device, settings.seed)
            picture = pipe(**call_arguments(spec, images, settings), generator=generator).images[0]
            if index % video.save_every == 0:
                picture.save(out / f"frame_{index:04d}.png")
            state, previous = np.asarray(picture), frame
            film.mux(stream.encode(av.VideoFrame.from_ndarray(state, format="rgb24")))
            clock.passed(state)
        film.mux(stream.encode(None))
    return clock.stop()


def our_loop(pipe: Any, video: VideoOptions, model: ModelOptions, out: Path) -> tuple[Timed, dict[str, Any]]:
    """The tool itself, as a user runs it, on a pipeline that is loaded already; with its report."""
    clock = Clock()
    under_profile = run_model.under_profile
    made: list[Any] = []

    def watched(_: Any, choice: Any) -> Any:
        generator = under_profile(pipe, choice)
        inner = generator.generate
        clock.started = time.perf_counter()

        def generate(images: Any, index: int) -> Any:
            result = inner(images, index)
            clock.passed(result.frame)
            return result

        made.append(run_model.Generator(generate, generator.report))
        return made[0]

    ours = {"load_pipeline": lambda *_, **__: pipe, "under_profile": watched, "check_requirements": nothing}
    with replaced(run_model, **ours), quiet():
        run_video("dltb-continuous", str(CLIP), video, model, OutputOptions(output_dir=str(out)))
    return clock.stop(), made[0].report.as_dict()


def nothing(*_: Any, **__: Any) -> None:
    """In the place of checks: random weights need neither a licence nor a folder."""


@contextlib.contextmanager
def replaced(owner: Any, **names: Any) -> Iterator[None]:
    """Other values for some names of a module while the block runs."""
    before = {name: getattr(owner, name) for name in names}
    vars(owner).update(names)
    try:
        yield
    finally:
        vars(owner).update(before)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """A tool's own lines are not part of the table."""
    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        yield


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
            result["where_ms"], result["kernels_ms"] = self._where(pipe, profile)
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

    def _where(self, pipe: Any, profile: str) -> tuple[dict[str, float], dict[str, float]]:
        """Median ms of the whole call and, in other passes, of each stage from idle to idle; kernels by kind."""
        from dltb.models.direct.engine import make_engine

        settings, frames = self.choice.settings, self._frames()
        engine = make_engine(
            pipe,
            self.choice.spec,
            call_options(self.choice.spec, settings),
            profile=profile,
            size=(settings.width, settings.height),
        )
        direct, spent = engine.call, {"pass": []}

        def one_pass() -> None:
            nonlocal frames
            frames = [np.roll(frame, 1, axis=0) for frame in frames]  # or references are remembered
            direct(frames, make_generator(self.device, 1)).pixels.cpu()

        for _ in range(6):
            started = time.perf_counter()
            one_pass()
            spent["pass"].append((time.perf_counter() - started) * 1000)
        kernels = kernel_times(one_pass) if self.device == "cuda" else {}
        for name in ("encode", "denoise", "decode"):
            setattr(direct, name, timed_stage(getattr(direct, name), spent.setdefault(name, []), self.device))
        for _ in range(3):
            one_pass()
        return {name: round(statistics.median(values[1:]), 2) for name, values in spent.items()}, kernels

    def _verify(self, plain: Any, pipe: Any, profile: str) -> dict[str, Any]:
        from dltb.runs.verification import capture_reference, replay_reference

        with cudnn_benchmark(False):
            reference = capture_reference(plain, self.choice, self._frames())
        report = replay_reference(reference, pipe, replace(self.choice, profile=profile))
        print(f"{self.row.key} {profile}\n{report.table()}", file=sys.stderr, flush=True)
        return report.as_dict() | {"captured": None, "replayed": None}


KINDS = {  # of kernels, by words in their names; the first that fits. Triton's names list all that is fused in them
    "compiled": ("triton",),
    "attention": ("flash", "sdpa", "fmha", "attention"),
    "convolution": ("conv", "fprop", "dgrad", "implicit", "xmma_nhwc"),
    "matrix product": ("gemm", "nvjet", "cutlass", "cublas", "splitk"),
    "copies": ("memcpy", "memset", "nchwtonhwc", "nhwctonchw", "cat", "copy"),
}


def kind_of(kernel: str) -> str:
    """The kind of a kernel, by its name."""
    name = kernel.lower()
    return next((kind for kind, words in KINDS.items() if any(word in name for word in words)), "other elementwise")


def kernel_times(work: Callable[[], None]) -> dict[str, float]:
    """Device ms of one call by kind of kernel, and the number of kernels."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        work()
        torch.cuda.synchronize()
    times: dict[str, float] = {"kernels": 0}
    for event in profiler.events():
        kind = kind_of(event.name)
        times[kind] = times.get(kind, 0) + event.device_time / 1000
        times["kernels"] += 1
    return {kind: round(ms, 2) for kind, ms in times.items()}


def timed_stage(stage: Callable, spent: list[float], device: str) -> Callable:
    """The stage with the time it takes, from an idle device to an idle device, appended to ``spent``."""

    def timed(*tensors: Any) -> Any:
        synchronise(device)
        started = time.perf_counter()
        result = stage(*tensors)
        synchronise(device)
        spent.append((time.perf_counter() - started) * 1000)
        return result

    return timed


def synchronise(device: str) -> None:
    """Wait for the device."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


@contextlib.contextmanager
def cudnn_benchmark(on: bool) -> Iterator[None]:
    """The fast profile switches cuDNN's timing of kernels on; a plain loop has it off."""
    import torch

    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, on
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@contextlib.contextmanager
def only(device: str, pipe: Any, peaks: dict[str, float], name: str) -> Iterator[None]:
    """Run one loop, and note the peak of device memory that it adds to its own pipeline's (on the CPU: the process's)."""
    import torch

    if device != "cuda":
        yield
        peaks[name] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
        return
    free(device)
    own = sum(
        tensor.numel() * tensor.element_size()
        for part in pipe.components.values()
        if isinstance(part, torch.nn.Module)
        for tensor in (*part.parameters(), *part.buffers())
    )
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    with cudnn_benchmark(name != "plain" and torch.backends.cudnn.benchmark):
        yield
    peak = (torch.cuda.max_memory_allocated() - before + own) / 2**30
    peaks[name] = round(max(peak, peaks.get(name, 0)), 2)


def free(device: str) -> None:
    """Drop what nobody holds any more."""
    gc.collect()
    if device == "cuda":
        import torch

        torch.cuda.empty_cache()


def matmul_rate(device: str, dtype: Any) -> float:
    """FLOP/s of a large matrix product on random data."""
    import torch

    n = 8192 if device == "cuda" else 1024
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    times = []
    for _ in range(8):
        synchronise(device)
        started = time.perf_counter()
        a @ b
        synchronise(device)
        times.append(time.perf_counter() - started)
    return 2 * n**3 / statistics.median(times[3:])


def first_difference(plain: list[np.ndarray], ours: list[np.ndarray]) -> int | None:
    """Number of the first frame that is not the same byte for byte; None when all are."""
    pairs = enumerate(zip(plain, ours, strict=True), 1)
    return next((index for index, (one, other) in pairs if not np.array_equal(one, other)), None)


def inexact(results: list[dict[str, Any]]) -> list[str]:
    """Rows in which the exact profile was not exact."""
    found = [(result["row"], result["profiles"].get("exact", {})) for result in results]
    return [row for row, exact in found if "error" in exact or exact.get("first_differing_frame") is not None]


def print_table(results: list[dict[str, Any]], about: dict[str, Any]) -> None:
    """The table, and beside it what it was measured on."""
    versions = about["versions"]
    named = ", ".join(f"{name} {versions[name]}" for name in ("torch", "diffusers", "transformers", "opencv", "python"))
    print(f"\n{about['device_name']}, {os.cpu_count()} host cores; {named}")
    heads = ["row", "profile", "plain ms", "dltb ms", "ratio", "of the floor", "first passes s"]
    heads += [f"{what} plain / dltb" for what in ("closing ms", "peak GiB")]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for result in results:
        for profile, found in result["profiles"].items():
            if "error" in found:
                print(
                    f"| {result['row']} {result['size']} | {profile} | {found['error'][:90]} {'| ' * (len(heads) - 2)}"
                )
                continue
            ms = found["ms"]
            share = f"{result['floor_ms'] / ms['dltb']:.0%} of {result['floor_ms']:g}"
            cells = [f"{result['row']} {result['size']}", profile, ms["plain"], ms["dltb"], f"{found['ratio']}x", share]
            pairs = [f"{found[what]['plain']} / {found[what]['dltb']}" for what in ("closing_ms", "peak_gib")]
            cells += [found["first_passes_s"], *pairs]
            print(f"| {' | '.join(map(str, cells))} |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the embedded models instead of full-size ones")
    parser.add_argument("--rows", nargs="+", metavar="KEY", help="only these models")
    parser.add_argument("--profiles", nargs="+", default=["exact"], choices=["exact", "fast", "fp8"])
    parser.add_argument("--rounds", type=int, default=3, help="pairs that count, after one that does not")
    parser.add_argument("--device")
    parser.add_argument("--size", type=int, help="px instead of each model's own")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no further row after this long")
    parser.add_argument("--where", action="store_true", help="also the time of each stage of a pass")
    parser.add_argument("--verify", action="store_true", help="also judge fast and fp8 as dltb-verify does")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    started, results = time.monotonic(), []
    rows = [row for row in (EMBEDDED if args.quick else FULL_SIZE) if args.rows is None or row.key in args.rows]
    about: dict[str, Any] = {}
    for row in rows:
        if time.monotonic() - started > args.seconds:
            print(f"{row.key}: left out, {args.seconds:g} s are over", file=sys.stderr)
            continue
        bench = Bench(row, args)
        results.append(bench.run())
        about = describe_environment(bench.device) | {"host_cores": os.cpu_count()}
        free(bench.device)
        if args.json:
            args.json.write_text(json.dumps({"about": about, "rows": results}, indent=2) + "\n")
    print_table(results, about)
    if inexact(results):
        raise SystemExit(f"exact did not give the plain loop's bytes on {', '.join(inexact(results))}")


if __name__ == "__main__":
    main()
