"""Distances between frames: one signature, whichever metric, and the distances of every frame of a run.

    metric = load_metric("flip")
    metric(images, references)  # float64 [N]; 0 is identical

What one frame costs (an embedding, a filtered image) is done once: ``prepare`` does it, ``between`` compares what came
out. Knows neither files nor options.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dltb import RunError, UsageError
from dltb.metrics.pixel import mean_absolute_difference
from dltb.metrics.table import METRICS, MetricSpec, metric_key

if TYPE_CHECKING:
    from dltb.metrics.dreamsim import DreamSimSettings

LAST_FRAMES = 10


@dataclass(frozen=True)
class Metric:
    """A distance that is ready to run."""

    spec: MetricSpec
    _prepare: Callable[[Sequence[np.ndarray]], Sequence[Any]]
    _compare: Callable[[Sequence[Any], Sequence[Any]], np.ndarray]

    def __call__(self, images: Sequence[np.ndarray], references: Sequence[np.ndarray]) -> np.ndarray:
        """The distance of each image, uint8 [H, W, 3], to its reference: float64 [N]."""
        for image, reference in zip(images, references, strict=True):
            if image.shape != reference.shape:
                raise ValueError(f"an image is {image.shape} but its reference {reference.shape}")
        return self.between(self.prepare(images), self.prepare(references))

    def prepare(self, images: Sequence[np.ndarray]) -> Sequence[Any]:  # N x uint8 [H, W, 3]
        """What ``between`` compares, one item a frame; one call of a model, whatever N is."""
        for image in images:
            if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
                raise ValueError(f"a frame is uint8 [H, W, 3], not {image.dtype} {list(image.shape)}")
            check_size(self.spec, width=image.shape[1], height=image.shape[0])
        return self._prepare(images) if len(images) else []

    def between(self, images: Sequence[Any], references: Sequence[Any]) -> np.ndarray:
        """Distances, float64 [N], of items that ``prepare`` made."""
        if len(images) != len(references):
            raise ValueError(f"{len(images)} images but {len(references)} references")
        if not len(images):
            return np.zeros(0)
        found = np.asarray(self._compare(images, references), np.float64)
        if not np.isfinite(found).all():
            raise RunError(f"{self.spec.key} gave a distance that is not a number; its weights may be damaged")
        return np.maximum(found, 0)  # rounding takes the distance of equal frames a hair below


def load_metric(name: str, *, device: str = "cpu", dreamsim: "DreamSimSettings | None" = None) -> Metric:
    """A metric by its name in the table; ``dreamsim`` says which DreamSim, and is needed for that one alone.

    Raises:
        UsageError: for an unknown name or impossible settings.
        RunError: when weights cannot be had.
    """
    spec = METRICS[metric_key(name)]
    return Metric(spec, *_LOADERS[spec.key](device, dreamsim))


def check_size(spec: MetricSpec, *, width: int, height: int) -> None:
    """Refuse frames that the metric cannot take."""
    if min(width, height) < spec.smallest_side:
        raise UsageError(
            f"--metric {spec.key} needs frames of at least {spec.smallest_side}x{spec.smallest_side} px, these are "
            f"{width}x{height}: use another one, e.g. --metric flip"
        )


def _flip(device: str, dreamsim: Any) -> tuple[Callable, Callable]:
    from dltb.metrics.flip import flip_distances, see

    return lambda images: [see(image) for image in images], flip_distances


def _pixel(device: str, dreamsim: Any) -> tuple[Callable, Callable]:
    def compare(images: Sequence[np.ndarray], references: Sequence[np.ndarray]) -> np.ndarray:
        return np.array([mean_absolute_difference(a, b) for a, b in zip(images, references, strict=True)])

    return list, compare


def _ssim(device: str, dreamsim: Any, *, multi_scale: bool) -> tuple[Callable, Callable]:
    from dltb.metrics.ssim import make_ssim, to_tensors

    return partial(to_tensors, device=device), make_ssim(multi_scale=multi_scale)


def _dreamsim(device: str, dreamsim: "DreamSimSettings | None") -> tuple[Callable, Callable]:
    from dltb.metrics.dreamsim import cosine_distances, load_embedder

    if dreamsim is None:
        raise ValueError("the metric dreamsim needs DreamSimSettings")
    return load_embedder(dreamsim, device), cosine_distances


_LOADERS: dict[str, Callable[..., tuple[Callable, Callable]]] = {
    "dreamsim": _dreamsim,
    "flip": _flip,
    "ssim": partial(_ssim, multi_scale=False),
    "ms-ssim": partial(_ssim, multi_scale=True),
    "pixel": _pixel,
}


@dataclass(frozen=True)
class Distance:
    """One frame's distances."""

    to_ref: float
    to_prev: float | None  # None for the first frame
    to_lag: float | None = None  # to the frame k before; None for the first k
    to_other: float | None = None  # to the same frame of another run; None where that has none
    levels: float | None = None  # the same as a mean absolute difference, 0..255, whatever the metric


def score(
    frames: Iterable[np.ndarray],  # uint8 [H, W, 3]
    reference: np.ndarray | None,
    metric: Metric,
    *,
    batch_size: int = 8,
    lag: int = 0,
    others: Iterable[np.ndarray | None] | None = None,
) -> Iterator[Distance]:
    """One Distance a frame, in order; without a reference the first frame is it. Holds a batch of frames at a time.

    ``lag`` is how many frames back to_lag goes, 0 for not at all: that many prepared frames are held. ``others`` has one
    entry a frame, None where there is nothing to compare with.
    """
    origin = None if reference is None else metric.prepare([reference])[0]
    past: deque[Any] = deque(maxlen=max(1, lag))
    partners = iter(others or ())
    for batch in _batches(frames, batch_size):
        ready = metric.prepare(batch)
        origin = ready[0] if origin is None else origin
        to_ref = metric.between(ready, [origin] * len(ready)).tolist()
        nothing = [None] * len(ready)
        chain = [*past, *ready]
        to_prev = _back(metric, chain, len(ready), 1)
        to_lag = _back(metric, chain, len(ready), lag) if lag else nothing
        theirs = list(itertools.islice(partners, len(ready))) or nothing
        to_other, levels = _across(metric, ready, theirs), map(_levels, batch, theirs)
        yield from map(Distance, to_ref, to_prev, to_lag, to_other, levels)
        past.extend(ready)


def _back(metric: Metric, chain: Sequence[Any], count: int, step: int) -> list[float | None]:
    """Distances of the last ``count`` items to the items ``step`` before each; None where the chain begins later."""
    first = max(step, len(chain) - count)
    late = chain[first:]
    found = metric.between(late, chain[first - step :][: len(late)]).tolist()
    return [None] * (count - len(found)) + found


def _across(metric: Metric, ready: Sequence[Any], others: Sequence[np.ndarray | None]) -> list[float | None]:
    """Distances of prepared frames to other frames, as far as there are any."""
    pairs = [(item, other) for item, other in zip(ready, others, strict=True) if other is not None]
    prepared = metric.prepare([other for _, other in pairs])
    found = iter(metric.between([item for item, _ in pairs], prepared).tolist())
    return [None if other is None else next(found) for other in others]


def _levels(frame: np.ndarray, other: np.ndarray | None) -> float | None:
    return None if other is None else mean_absolute_difference(frame, other)


def _batches(frames: Iterable[np.ndarray], size: int) -> Iterator[list[np.ndarray]]:
    remaining = iter(frames)
    while batch := list(itertools.islice(remaining, size)):
        yield batch


@dataclass(frozen=True)
class DistanceSummary:
    """Means over the last rows, and which row has the largest value of each distance."""

    last: int  # rows that the means cover
    to_ref: float
    to_prev: float | None  # None where there is one row
    peak_ref: int
    peak_prev: int | None
    converged: bool


def summarize(rows: Sequence[Distance], *, converged_below: float, last: int = LAST_FRAMES) -> DistanceSummary:
    """Converged: the mean distance of the last frames to the one before each is below the threshold."""
    far = np.array([row.to_ref for row in rows])
    moved = np.array([np.nan if row.to_prev is None else row.to_prev for row in rows])
    measured = moved[1:][-last:]
    to_prev = float(measured.mean()) if len(measured) else None
    return DistanceSummary(
        last=min(last, len(rows)),
        to_ref=float(far[-last:].mean()),
        to_prev=to_prev,
        peak_ref=int(far.argmax()),
        peak_prev=int(np.nanargmax(moved)) if len(measured) else None,
        converged=to_prev is not None and to_prev < converged_below,
    )
