"""The two loops that are timed: the plain one, and the tool as a user runs it."""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dltb.args.options import ModelOptions, OutputOptions, VideoOptions
from dltb.imaging.frames import prepare_frame
from dltb.imaging.passes import call_arguments, make_generator
from dltb.runs import model as run_model
from dltb.runs.video import run_video

CLIP = Path(__file__).parents[2] / "input_example" / "courtyard.mp4"
SKIPPED = 2  # first passes: one reference, then two; compiling and recording


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
