"""The history study: does a rectified loop drift less than the reference loop that is as steady?

    uv run python -m benchmarks.history [--models tiny-turbo tiny-klein] [--passes 1000] [--size 256] [--device cuda]
        [--noise fixed fresh] [--core] [--only LEG ...] [--jobs N] [--out DIR]
    uv run python -m benchmarks.history --cost      # milliseconds a frame of the history step at 512 px
    uv run python -m benchmarks.history --picture   # what each method does to one frame, after 60 passes

The courtyard is rendered with its exact motion and visibility and played back and forth; every leg is an ordinary run of
dltb-continuous or dltb-klein over it. A leg is measured once, against exact motion, and its frames are then dropped; a leg
that was measured is not made again, one that was stopped goes on. At the end: results.csv, a table, and a figure of drift
in excess of independent frames over warping error. NOTES.md and doc/algorithm/history.md have what came out.
"""

import argparse
import csv
import json
import os
import shutil
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import av
import cv2
import numpy as np

from dltb import continuous, klein
from dltb.args.options import HISTORY, HistoryOptions, VideoOptions
from dltb.imaging.evidence import Evidence, with_evidence
from dltb.imaging.flow import Flow
from dltb.imaging.frames import read_image
from dltb.loop.engine import Source
from dltb.loop.history import METHODS, History, Tuning, View, first_memory, moved_colour, to_frame
from dltb.metrics.look import detail_energy
from dltb.metrics.pixel import mean_absolute_difference
from dltb.metrics.temporal import flicker, temporal_flip, warping_error
from dltb.metrics.zones import pixel_error
from dltb.runs.rectified import make_rectifier

RENDERED = 48  # frames, at 24 a second
FLIP_EVERY = 10  # passes: FLIP costs as much as a small model's pass
SMOOTH = 4.0  # px, sigma: the model's change is compared below this scale, above it is noise
INDEPENDENT = "independent"
COLUMNS = (
    "pass",
    "drift",
    "zone_drift",
    "warping_error",
    "flicker",
    "temporal_flip",
    "detail",
    "kept_change",
    "seconds",
)

BLENDS = ("0.05", "0.1", "0.3", "0.5")
MEAN = ["--history", "residual,reject,confidence"]
CLIPPED = ["--history-input", "residual,clip"]
# leg -> flags; the reference curve, then what is tried against it. {mv} is the folder of exact vectors.
REFERENCE = {INDEPENDENT: ["--mode", "anchored"]} | {f"reference a={a}": ["--anchor-blend", a] for a in BLENDS}
LEGS = REFERENCE | {
    "after: mean": ["--mode", "anchored", "--history", "reject,confidence"],
    "after: clip": ["--mode", "anchored", "--history", "clip,reject,confidence"],
    "after: residual": ["--mode", "anchored", *MEAN],
    "before: clip a=0.1": ["--anchor-blend", "0.1", "--history-input", "clip"],
    "before: clamp a=0.1": ["--anchor-blend", "0.1", "--history-input", "clamp"],
    "before: residual a=0.1": ["--anchor-blend", "0.1", "--history-input", "residual"],
    "before: residual, clip a=0.1": ["--anchor-blend", "0.1", *CLIPPED],
    "before: realign a=0.1": ["--anchor-blend", "0.1", "--history-input", "realign"],
    "before: confidence, reject a=0.1": ["--anchor-blend", "0.1", "--history-input", "reject,confidence"],
    "reanchored every 24 a=0.1": ["--anchor-blend", "0.1", "--history-input", "reject", "--reanchor-every", "24"],
    "after only a=0.1": ["--anchor-blend", "0.1", *MEAN],
    **{f"both a={a}": ["--anchor-blend", a, *CLIPPED, *MEAN] for a in BLENDS},
    **{f"both a=0.1, gamma {g}": ["--anchor-blend", "0.1", *CLIPPED, *MEAN, "--history-gamma", g] for g in ("2", "4")},
    "both a=0.1, farneback": ["--anchor-blend", "0.1", *CLIPPED, *MEAN, "--flow", "farneback"],
    "both a=0.1, dis": ["--anchor-blend", "0.1", *CLIPPED, *MEAN, "--flow", "dis"],
}
DUAL = ["--conditioning", "dual-ref"]
KLEIN_LEGS = LEGS | {
    "reference dual-ref": DUAL,
    "dual-ref before: clip": [*DUAL, "--history-input", "clip"],
    "dual-ref both": [*DUAL, *CLIPPED, *MEAN],
}
CORE = ("after: residual", "before: clip a=0.1", *(f"both a={a}" for a in BLENDS))
CORE += (*REFERENCE, "both a=0.1, farneback", "reference dual-ref", "dual-ref both")
NOISES = {"fixed": [], "fresh": ["--no-fixed-seed"]}


@dataclass(frozen=True)
class World:
    """The rendered clip, its truth both ways, and the order in which it is played."""

    folder: Path
    frames: np.ndarray  # uint8 [RENDERED, S, S, 3]
    flows: dict[tuple[int, int], Flow]  # (frame, frame before) -> exact motion, hidden

    def order(self, passes: int) -> list[int]:
        """Numbers of the rendered frames, there and back."""
        there = list(range(RENDERED))
        return [(there + there[-2:0:-1])[n % (2 * RENDERED - 2)] for n in range(passes)]


def make_world(out: Path, size: int) -> World:
    """Render the courtyard with its motion forwards and backwards; once."""
    path = out / f"courtyard_{size}.npz"
    if not path.exists():
        print(f"rendering {RENDERED} frames at {size} px ...", flush=True)
        from training.courtyard import Renderer

        renderer = Renderer(size, size, supersampling=2, seconds=RENDERED / 24)
        arrays = {"frames": np.stack([(renderer.frame(n / 24) * 255 + 0.5).astype(np.uint8) for n in range(RENDERED)])}
        for a, b in pairwise(range(RENDERED)):
            for now, before in ((b, a), (a, b)):
                truth = renderer.ground_truth(now / 24, before / 24)
                arrays[f"mv_{now}_{before}"], arrays[f"visible_{now}_{before}"] = truth.motion, truth.visible
        np.savez(path.with_suffix(".part.npz"), **arrays)
        path.with_suffix(".part.npz").replace(path)
    with np.load(path) as arrays:
        pairs = [tuple(map(int, name.split("_")[1:])) for name in arrays.files if name.startswith("mv_")]
        flows = {(a, b): Flow(-arrays[f"mv_{a}_{b}"], hidden=~arrays[f"visible_{a}_{b}"]) for a, b in pairs}
        return World(out, arrays["frames"], flows)


def write_clip(world: World, passes: int) -> tuple[Path, Path]:
    """The clip as lossless video and its vectors as files, played to ``passes`` frames."""
    clip, vectors = world.folder / f"clip{passes}.mkv", world.folder / f"mv{passes}"
    order = world.order(passes)
    if not clip.exists():
        write_lossless(clip, (world.frames[n] for n in order), world.frames.shape[1])
    vectors.mkdir(exist_ok=True)
    for number, (now, before) in enumerate(zip(order[1:], order[:-1], strict=True), 2):
        flow, target = world.flows[now, before], vectors / f"mv_{number:05d}.npz"
        once = world.folder / f"pair_{now}_{before}.npz"
        if not once.exists():
            np.savez_compressed(once, mv=-flow.forward, visible=~flow.hidden)
        if not target.exists():
            os.link(once, target)
    return clip, vectors


def write_lossless(path: Path, frames: Iterator[np.ndarray], size: int) -> None:
    """FFV1 in RGB: what is read is what was written; frames are size x size px."""
    part = path.with_suffix(".part.mkv")
    with av.open(str(part), "w") as container:
        stream = container.add_stream("ffv1", rate=Fraction(24))
        stream.pix_fmt, stream.width, stream.height = "bgr0", size, size
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24").reformat(format="bgr0")))
        container.mux(stream.encode())
    part.replace(path)


def flags_of(model: str, leg: str, clip: Path, vectors: Path, args: argparse.Namespace) -> list[str]:
    """The command line of a leg, less its output folder."""
    own = (KLEIN_LEGS if model == "tiny-klein" else LEGS)[leg]
    size = ["--width", str(args.size), "--height", str(args.size)]
    exact = [] if "--flow" in own else ["--motion-vectors", str(vectors), "--mask", "visibility", str(vectors)]
    if "--history-input" not in own and "--history" not in own and exact:
        exact = exact[:2]  # the reference loop has no mask
    device = ["--device", args.device] if args.device else []
    common = ["--model", model, "--input", str(clip), "--save-every", "1", "--resume", "--prompt", args.prompt]
    return [*common, *size, *device, *exact, *own]


def measured(world: World, run: Path, passes: int, independent: Path | None) -> Iterator[dict[str, float]]:
    """One row a pass."""
    order = world.order(passes)
    log = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    before = None
    for number, now in enumerate(order, 1):
        frame, source = read_image(run / "frames" / f"frame_{number:04d}.png"), world.frames[now]
        row = {"pass": number, "drift": mean_absolute_difference(frame, source), "detail": detail_energy(frame).mean()}
        row["seconds"] = log[number - 1]["seconds"]
        if before is not None:
            flow = world.flows[now, order[number - 2]]
            row["warping_error"] = warping_error(frame, before, flow.forward, flow.hidden)
            row["flicker"] = flicker(frame, before, source, world.frames[order[number - 2]])
            row["zone_drift"] = pixel_error(frame, source)[flow.hidden].mean() if flow.hidden.any() else None
            if number % FLIP_EVERY == 0:
                row["temporal_flip"] = temporal_flip(frame, before, flow.forward, flow.hidden)
        if independent is not None and number % FLIP_EVERY == 0:
            alone = read_image(independent / "frames" / f"frame_{number:04d}.png")
            row["kept_change"] = kept_change(frame, alone, source)
        yield row
        before = frame


def kept_change(frame: np.ndarray, alone: np.ndarray, source: np.ndarray) -> float:
    """How much of what the model does to a frame alone is in the loop's frame: 1 all of it, 0 nothing, -1 its opposite.

    The projection of the one smoothed change onto the other.
    """
    change, wanted = (cv2.GaussianBlur(np.float32(image) - source, (0, 0), SMOOTH) for image in (frame, alone))
    return float((change * wanted).sum() / max(float((wanted * wanted).sum()), 1e-6))


def slug_of(text: str) -> str:
    """A text as a file name."""
    return "".join(letter if letter.isalnum() or letter in ".=" else "-" for letter in text)


def make_leg(world: World, model: str, noise: str, leg: str, args: argparse.Namespace) -> Path:
    """Run and measure one leg unless that was done; the table of its passes."""
    root = args.out / model / noise
    table, folder = root / f"{slug_of(leg)}.csv", root / slug_of(leg)
    if table.exists():
        return table
    clip, vectors = write_clip(world, args.passes)
    tool = klein if model == "tiny-klein" else continuous
    argv = [*flags_of(model, leg, clip, vectors, args), *NOISES[noise], "--output-dir", str(folder)]
    if code := tool.main(argv):
        raise SystemExit(f"{model} {noise} {leg}: exit {code}")
    (run,) = (path.parent for path in folder.glob("*/run.json"))
    alone = next((path.parent for path in (root / INDEPENDENT).glob("*/run.json")), None)
    rows = list(measured(world, run, args.passes, alone))
    with table.with_suffix(".part").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    if leg != INDEPENDENT:
        shutil.rmtree(run / "frames")
    table.with_suffix(".part").replace(table)
    return table


Leg = tuple[str, str, str]  # model, noise, leg


def wanted_legs(args: argparse.Namespace) -> list[Leg]:
    """What was asked for, in the order of the report."""
    found = []
    for model in args.models:
        legs = KLEIN_LEGS if model == "tiny-klein" else LEGS
        only = args.only or (CORE if args.core else legs)
        wanted = [leg for leg in legs if leg == INDEPENDENT or leg in only]
        found += [(model, noise, leg) for noise in args.noise for leg in wanted]
    return found


def make_legs(wanted: list[Leg], args: argparse.Namespace) -> dict[Leg, Path]:
    """Tables of the legs: the independent ones first, against whose frames the others are measured, then the slow model."""
    order = sorted(wanted, key=lambda leg: (leg[2] != INDEPENDENT, leg[0] != "tiny-klein"))
    first = sum(leg[2] == INDEPENDENT for leg in wanted)
    made: dict[Leg, Path] = {}
    with ProcessPoolExecutor(args.jobs, get_context("spawn")) as pool:
        for part in (order[:first], order[first:]):
            made |= zip(part, pool.map(partial(make_one, args=args), part), strict=True)
    return {leg: made[leg] for leg in wanted}


def make_one(leg: Leg, args: argparse.Namespace) -> Path:
    """One leg, in any process."""
    return make_leg(open_world(args.out, args.size), *leg, args)


@cache
def open_world(out: Path, size: int) -> World:
    """The rendered world; read once by every process."""
    return make_world(out, size)


def read_table(path: Path) -> dict[str, np.ndarray]:
    """Columns of a leg's table; NaN where nothing was measured."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name] or "nan") for row in rows]) for name in COLUMNS}


@dataclass(frozen=True)
class Result:
    """A leg over the last half of its passes."""

    leg: str
    excess: float  # levels: drift less that of independent frames
    warping_error: float
    slope: float  # levels per 1,000 passes, of the excess
    slope_error: float  # half of its 95 % interval
    flicker: float
    temporal_flip: float
    zone_drift: float
    detail: float
    kept_change: float
    seconds: float


def summarize(leg: str, table: dict[str, np.ndarray], alone: dict[str, np.ndarray]) -> Result:
    """Means over the last half, and the slope of the excess there.

    The excess is averaged over each round through the clip, there and back, first: forwards and backwards are not alike, and
    what is left hardly varies with the content. So few points have an honest interval; 1,000 passes have five in a half.
    """
    half = len(table["pass"]) // 2
    late = {name: values[half:] for name, values in table.items()}
    excess = (table["drift"] - alone["drift"])[half:]
    slope, error = slope_interval(excess, 2 * RENDERED - 2)
    means = {name: float(np.nanmean(late[name])) for name in COLUMNS[2:] if np.isfinite(late[name]).any()}
    known = {name: means.get(name, float("nan")) for name in Result.__dataclass_fields__ if name in COLUMNS}
    return Result(leg=leg, excess=float(excess.mean()), slope=slope, slope_error=error, **known)


def slope_interval(values: np.ndarray, period: int) -> tuple[float, float]:
    """Slope per 1,000 of a series and half of its 95 % interval (Student's t), by least squares over period means."""
    count = len(values) // period
    if count < 3:
        return float("nan"), float("nan")
    means = values[: count * period].reshape(count, period).mean(axis=1)
    x = (np.arange(count) - (count - 1) / 2) * period / 1000
    slope = float((x * means).sum() / (x * x).sum())
    residual = means - means.mean() - slope * x
    t = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}.get(count - 2, 2.0)
    return slope, float(t * np.sqrt((residual**2).sum() / (count - 2) / (x * x).sum()))


def reference_at(results: list[Result], error: float) -> float | None:
    """Excess of the reference curve at a warping error; None where the curve does not reach.

    The curve goes through the reference legs and independent frames in the order of their blends. Where it folds back the
    least excess counts, so that a rectified loop is held against the best reference that is as steady.
    """
    curve = [r for r in results if r.leg.startswith("reference a=")] + [r for r in results if r.leg == INDEPENDENT]
    found = []
    for a, b in pairwise(curve):
        low, high = sorted((a.warping_error, b.warping_error))
        if low <= error <= high and high > low:
            share = (error - a.warping_error) / (b.warping_error - a.warping_error)
            found.append(a.excess + share * (b.excess - a.excess))
    return min(found) if found else None


def verdict(result: Result, results: list[Result]) -> str:
    """What the table says about a leg."""
    if result.leg in REFERENCE or result.leg == "reference dual-ref":
        return ""
    reference = [r for r in results if r.leg.startswith("reference a=")]
    at = reference_at(results, result.warping_error)
    if at is None and result.warping_error > max(r.warping_error for r in results if r.leg in REFERENCE):
        return f"less steady than the whole curve, {_trend(result)}"
    # Steadier than the curve reaches: held against the least excess that it has anywhere.
    against = min(r.excess for r in reference) if at is None else at
    half = "under" if result.excess <= against / 2 else "OVER"
    return f"{'reference, anywhere' if at is None else 'reference'} {against:.2f}, {half} half, {_trend(result)}"


def _trend(result: Result) -> str:
    if np.isnan(result.slope):
        return "too short for a slope"
    return "flat" if abs(result.slope) <= result.slope_error else "MOVES"


def report(out: Path, tables: dict[tuple[str, str, str], Path]) -> None:
    """results.csv, the table on stdout, and the figure."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for (model, noise, leg), path in tables.items():
        alone = read_table(tables[model, noise, INDEPENDENT])
        groups.setdefault((model, noise), []).append(summarize(leg, read_table(path), alone))
    with (out / "results.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "noise", *Result.__dataclass_fields__, "verdict"])
        for (model, noise), results in groups.items():
            writer.writerows([model, noise, *vars(r).values(), verdict(r, results)] for r in results)
    for (model, noise), results in groups.items():
        print(f"\n{model}, {noise} noise")
        print(f"{'leg':34}{'excess':>8}{'warp':>7}{'slope/1000':>16}{'flicker':>9}{'FLIP':>7}{'detail':>8}{'kept':>6}")
        for r in results:
            slope = f"{r.slope:+.2f} +- {r.slope_error:.2f}"
            numbers = f"{r.excess:8.2f}{r.warping_error:7.2f}{slope:>16}{r.flicker:9.2f}{r.temporal_flip:7.3f}"
            print(f"{r.leg:34}{numbers}{r.detail:8.1f}{r.kept_change:6.2f}  {verdict(r, results)}")
    draw(out / "history.png", groups)
    print(f"\nfigure: {out / 'history.png'}")


KINDS = (
    ("reference", "#D55E00", "o"),
    ("before", "#0072B2", "s"),
    ("after", "#009E73", "^"),
    ("both", "#CC79A7", "D"),
)


def draw(path: Path, groups: dict[tuple[str, str], list[Result]]) -> None:
    """Excess drift over warping error: the reference curve, and what is tried against it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = {1: 1, 3: 3}.get(len(groups), 2)
    rows = -(-len(groups) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.6 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    for place, ((model, noise), results) in enumerate(groups.items(), 1):
        axes = figure.add_subplot(rows, columns, place)
        curve = [r for r in results if r.leg.startswith("reference a=")] + [r for r in results if r.leg == INDEPENDENT]
        axes.plot([r.warping_error for r in curve], [r.excess for r in curve], "o-", color="#D55E00", label="reference")
        for kind, colour, mark in KINDS:
            for fill, chosen in ((colour, kind), ("none", f"dual-ref {kind}")):
                some = [r for r in results if r.leg.startswith(chosen) or r.leg == f"{kind} dual-ref"]
                some = [r for r in some if ("dual-ref" in r.leg) == (fill == "none")]
                place_of = [r.warping_error for r in some], [r.excess for r in some]
                label = kind if fill == colour else f"{kind}, dual-ref"
                if some and not (kind == "reference" and fill == colour):
                    axes.plot(*place_of, mark, color=colour, markerfacecolor=fill, label=label)
        for r in curve:
            place = (r.warping_error, r.excess)
            style = {"textcoords": "offset points", "fontsize": 7}
            axes.annotate(r.leg.removeprefix("reference "), place, (0, 6), ha="center", **style)
        axes.margins(x=0.15)
        axes.axhline(0, color="0.7", linewidth=0.8)
        axes.set_yscale("symlog", linthresh=5)
        axes.set_yticks([-10, -5, 0, 5, 10, 20, 50], ["-10", "-5", "0", "5", "10", "20", "50"])
        axes.set(title=f"{model}, {noise} noise", xlabel="warping error (levels)", ylabel="drift in excess (levels)")
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=150)


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
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = -(-len(panels) // 2)
    figure = Figure(figsize=(2.0 * columns, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    for place, (name, image) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(2, columns, place)
        axes.imshow(image, interpolation="nearest")
        axes.set_title(name, fontsize=8)
        axes.set_axis_off()
    figure.savefig(path, dpi=130)


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


def main() -> None:
    """Make what is missing, then report on all that is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--models", nargs="+", choices=("tiny-turbo", "tiny-klein"), default=["tiny-turbo", "tiny-klein"]
    )
    parser.add_argument("--noise", nargs="+", choices=NOISES, default=list(NOISES))
    parser.add_argument("--only", nargs="+", metavar="LEG", help="these legs; the independent one is always made")
    parser.add_argument("--core", action="store_true", help="the legs that the question needs; about half of all")
    parser.add_argument("--jobs", type=int, default=1, help="legs at a time, each in a process of its own")
    parser.add_argument("--passes", type=int, default=1000)
    parser.add_argument("--size", type=int, default=256, help="px (%(default)s)")
    parser.add_argument("--prompt", default="", help="of every pass; the study has a folder of its own for each")
    parser.add_argument("--device", choices=("cuda", "mps", "cpu"))
    parser.add_argument("--out", type=Path, default=Path("untracked/history"))
    parser.add_argument("--cost", action="store_true", help="measure the history step instead")
    parser.add_argument("--picture", action="store_true", help="draw what each method does instead")
    args = parser.parse_args()
    if args.cost or args.picture:
        cost() if args.cost else picture(args)
        return
    args.out = args.out / f"{args.size}px_{args.passes}{slug_of(args.prompt and ' ' + args.prompt)}"
    args.out.mkdir(parents=True, exist_ok=True)
    write_clip(make_world(args.out, args.size), args.passes)
    report(args.out, make_legs(wanted_legs(args), args))


if __name__ == "__main__":
    main()
