"""--picture: what each method does to one frame."""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.history.legs import INDEPENDENT, NOISES, flags_of
from benchmarks.history.world import World, make_world, write_clip
from dltb import continuous
from dltb.imaging.evidence import with_evidence
from dltb.imaging.frames import read_image
from dltb.loop.history import METHODS, History, Tuning, View, first_memory, moved_colour, to_frame
from dltb.metrics.figure import new_figure

PICTURED = (INDEPENDENT, "reference a=0.1", "both a=0.1")
PICTURE_PASSES = 60


def picture(args: argparse.Namespace) -> None:
    """Frames of three loops after the same passes, and what each method makes of the reference loop's state."""
    out = args.out / f"{args.size}px_{PICTURE_PASSES}"
    out.mkdir(parents=True, exist_ok=True)
    world = make_world(out, args.size)
    clip, vectors = write_clip(world, PICTURE_PASSES)
    states = {leg: _last_frames(world, leg, clip, vectors, args) for leg in PICTURED}
    now, before = world.order(PICTURE_PASSES)[:-3:-1]
    evidence = with_evidence(world.flows[now, before], world.frames[before], world.frames[now], 12.0)
    fresh = np.float32(world.frames[now])
    moved = moved_colour(np.float32(states["reference a=0.1"][0]), evidence)
    tuning = Tuning((), alpha=0.1, gamma=1.0, carry=0.9, reject_above=12.0, cut_above=0.65, reanchor_every=0)
    view = View(fresh, fresh, evidence.moved, evidence.mismatch, None, tuning)
    history = History(moved, np.ones(fresh.shape[:2], np.float32), first_memory(fresh).offset)
    made = {name: METHODS[name](history, view).colour for name in ("clamp", "clip", "residual")}
    made["residual, then clip"] = METHODS["clip"](METHODS["residual"](history, view), view).colour
    marks = {"mismatch (reject)": evidence.mismatch, "unseen (exact)": evidence.unseen}
    panels = {"source N": fresh, **{leg: frames[1] for leg, frames in states.items()}, "state, moved": moved, **made}
    panels |= {name: np.repeat(mask[..., None] * 255, 3, axis=2) for name, mask in marks.items()}
    draw_panels(out / "methods.jpg", {name: to_frame(np.float32(image)) for name, image in panels.items()})
    print(f"figure: {out / 'methods.jpg'}")


def _last_frames(
    world: World, leg: str, clip: Path, vectors: Path, args: argparse.Namespace
) -> tuple[np.ndarray, np.ndarray]:
    """The last two frames of a leg under fresh noise."""
    folder = world.folder / "pictured" / leg.replace(" ", "-")
    flags = flags_of("tiny-turbo", leg, clip, vectors, args)
    if code := continuous.main([*flags, *NOISES["fresh"], "--output-dir", str(folder)]):
        raise SystemExit(code)
    before, last = sorted(folder.glob("*/frames/frame_*.png"))[-2:]
    return read_image(before), read_image(last)


def draw_panels(path: Path, panels: dict[str, np.ndarray]) -> None:
    """Pictures in two rows, each under its name."""
    columns = -(-len(panels) // 2)
    figure = new_figure(2.0 * columns, 4.5)
    for place, (name, image) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(2, columns, place)
        axes.imshow(image, interpolation="nearest")
        axes.set_title(name, fontsize=8)
        axes.set_axis_off()
    figure.savefig(path, dpi=130)
