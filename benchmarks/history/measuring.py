"""What is measured on every pass of a leg, against exact motion, and read back from its table."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from benchmarks.history.world import World
from dltb.imaging.frames import read_image
from dltb.metrics.look import detail_energy
from dltb.metrics.pixel import mean_absolute_difference
from dltb.metrics.temporal import flicker, temporal_flip, warping_error
from dltb.metrics.zones import pixel_error

FLIP_EVERY = 10  # passes: FLIP costs as much as a small model's pass
SMOOTH = 4.0  # px, sigma: the model's change is compared below this scale, above it is noise
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


def read_table(path: Path) -> dict[str, np.ndarray]:
    """Columns of a leg's table; NaN where nothing was measured."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name] or "nan") for row in rows]) for name in COLUMNS}
