"""Seconds per pass of the toolkit's loop against a plain diffusers loop that does the same work, in one run.

    uv run python -m benchmarks.loop [--model tiny-turbo] [--passes 40] [--rounds 3]

The plain loop is what one writes first: decode, resize, flow, warp, blend, ``pipe(...)``, save the PNG, append to the video,
one after the other. Both loops take the same clip, make the same frames (checked) and share one loaded pipeline; rounds
alternate, so that a machine that slows down slows both. Prints a table, and JSON with --json.
"""

import argparse
import json
import resource
import shutil
import statistics
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from dltb.args.options import ModelOptions, OutputOptions, VideoOptions
from dltb.imaging.frames import prepare_frame, read_image
from dltb.runs import model as run_model
from dltb.runs.video import run_video

CLIP = Path(__file__).parent.parent / "input_example" / "courtyard.mp4"


def plain_loop(pipe: Any, call: dict, video: VideoOptions, size: int, out: Path) -> None:
    """The straight loop: every step in line, nothing ahead and nothing behind."""
    import torch
    from PIL import Image

    from dltb.imaging import estimate_flow, make_reprojector
    from dltb.imaging.video import read_video
    from dltb.output.mp4 import Mp4Writer

    warp, state, previous = make_reprojector(), None, None
    (out / "frames").mkdir(parents=True)
    with Mp4Writer(out / "video.mp4", size, size, Fraction(24)) as film:
        for index, raw in enumerate(read_video(CLIP, video.max_frames), 1):
            frame = prepare_frame(raw, size, size)
            image = Image.fromarray(frame)
            if state is not None:
                moved = warp(np.asarray(state), estimate_flow(previous, frame), frame).frame
                image = Image.blend(Image.fromarray(moved), image, video.anchor_blend)
            state = pipe(image=image, generator=torch.Generator(pipe.device).manual_seed(1234), **call).images[0]
            state.save(out / "frames" / f"frame_{index:04d}.png", compress_level=1)
            film.write(np.asarray(state))
            previous = frame


def our_loop(video: VideoOptions, model: ModelOptions, out: Path) -> Path:
    """The tool itself, as a user runs it."""
    run_video("dltb-continuous", str(CLIP), video, model, OutputOptions(output_dir=str(out)))
    return next(out.glob("*/frames"))


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Alternate the two loops and return seconds per pass of each round."""
    video = VideoOptions(max_frames=args.passes, save_every=1, anchor_blend=args.anchor_blend)
    model = ModelOptions(model=args.model, device=args.device)
    choice = run_model.choose_model(model)
    pipe = run_model.load_pipeline(choice.spec, device=choice.device)
    run_model.load_pipeline = lambda *_, **__: pipe  # both loops share one loaded pipeline
    times: dict[str, list[float]] = {"plain": [], "dltb": []}
    for turn in range(args.rounds + 1):
        seconds = _one_round(pipe, choice, video, model)
        if turn:  # the first round warms caches and allocators
            for name, value in seconds.items():
                times[name].append(value / args.passes)
    return _summary(args, times, choice.device)


def _one_round(pipe: Any, choice: Any, video: VideoOptions, model: ModelOptions) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        plain, ours = Path(folder) / "plain", Path(folder) / "dltb"
        started = time.perf_counter()
        plain_loop(pipe, _call(choice), video, choice.settings.width, plain)
        between = time.perf_counter()
        frames = our_loop(video, model, ours)
        ended = time.perf_counter()
        _check_same(plain / "frames", frames)
        shutil.rmtree(folder, ignore_errors=True)
    return {"plain": between - started, "dltb": ended - between}


def _call(choice: Any) -> dict[str, Any]:
    spec, settings = choice.spec, choice.settings
    call: dict[str, Any] = {"prompt": settings.prompt, "num_inference_steps": settings.num_inference_steps}
    call |= {"guidance_scale": spec.guidance_scale, **spec.call_arguments}
    if spec.uses_strength:
        call["strength"] = settings.strength
    if spec.pass_size:
        call |= {"width": settings.width, "height": settings.height}
    return call


def _check_same(plain: Path, ours: Path) -> None:
    for path in sorted(plain.iterdir()):
        assert np.array_equal(read_image(path), read_image(ours / path.name)), f"{path.name} differs"


def _summary(args: argparse.Namespace, times: dict[str, list[float]], device: str) -> dict[str, Any]:
    medians = {name: statistics.median(values) for name, values in times.items()}
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return {
        "model": args.model,
        "device": device,
        "passes": args.passes,
        "rounds": args.rounds,
        "seconds_per_pass": {name: [round(v, 4) for v in values] for name, values in times.items()},
        "median": {name: round(value, 4) for name, value in medians.items()},
        "ratio": round(medians["dltb"] / medians["plain"], 3),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny-turbo")
    parser.add_argument("--device")
    parser.add_argument("--passes", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--anchor-blend", type=float, default=0.3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    result = SimpleNamespace(**measure(args))
    print(f"\n{result.model} on {result.device}, {result.passes} passes x {result.rounds} rounds, s/pass")
    for name, values in result.seconds_per_pass.items():
        print(f"  {name:6} median {result.median[name]:.4f}   {values}")
    print(f"  ratio dltb / plain {result.ratio:.3f}   peak memory of both {result.peak_mib} MiB")
    if args.json:
        args.json.write_text(json.dumps(vars(result), indent=2) + "\n")


if __name__ == "__main__":
    main()
