"""FLIP, the difference that an eye sees when it alternates between two frames: LDR-FLIP at a normal viewing distance.

Andersson, Nilsson, Akenine-Möller, Oskarsson, Åström, Fairchild: FLIP, A Difference Evaluator for Alternating Images,
2020, doi:10.1145/3406183; section and constant names are the paper's. Written out here, and tested against NVIDIA's own
program, because a run compares each of its frames several times: what a single frame costs, the filtering, is done once.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import cv2
import numpy as np

from dltb.metrics.colour import SRGB_TO_RELATIVE_XYZ, lab_curve, linear_light

PIXELS_PER_DEGREE = 0.7 * 3840 / 0.7 * np.pi / 180  # 0.7 m away from a display 3840 px and 0.7 m wide

_CSF = ((1, 0.0047, 0, 1e-5), (1, 0.0053, 0, 1e-5), (34.1, 0.04, 13.5, 0.025))  # a1, b1, a2, b2 of Y, Cx, Cz (table 1)
_WIDTH = 0.082  # w, degrees: width of the feature detectors
_QC, _PC, _PT = 0.7, 0.4, 0.95  # colour: exponent, and the knee of the error's redistribution
_QF = 0.5  # features: exponent

_TO_YCXCZ = np.array([[0, 116, 0], [500, -500, 0], [0, 200, -200]]) @ SRGB_TO_RELATIVE_XYZ
_FROM_YCXCZ = np.linalg.inv(_TO_YCXCZ)  # of values without the offset of Y, -16


class Seen(NamedTuple):
    """One frame as an observer sees it; float32."""

    lab: np.ndarray  # [H, W, 3] L*a*b* after the contrast sensitivity filter, Hunt-adjusted
    edges: np.ndarray  # [H, W] gradient magnitude of the lightness
    points: np.ndarray  # [H, W] second derivative's


def see(frame: np.ndarray) -> Seen:  # uint8 [H, W, 3]
    """The half of FLIP that depends on one frame alone."""
    opponent = _times(linear_light()[frame], _TO_YCXCZ)
    lightness = opponent[..., 0] / 116  # (Y + 16) / 116 of section 5.2, since the offset is left out here
    edge, point, smooth = _feature_kernels()
    return Seen(
        lab=_hunt_lab(np.clip(_times(_spatially_filtered(opponent), _FROM_YCXCZ), 0, 1)),
        edges=_magnitude(lightness, edge, smooth),
        points=_magnitude(lightness, point, smooth),
    )


def flip_distances(images: Sequence[Seen], references: Sequence[Seen]) -> np.ndarray:  # [N], 0..1
    """The mean of the error map of each pair."""
    return np.array([error_map(a, b).mean(dtype=np.float64) for a, b in zip(images, references, strict=True)])


def error_map(image: Seen, reference: Seen) -> np.ndarray:  # float32 [H, W], 0..1
    """FLIP of every pixel: the colour difference, raised where edges or points differ (equation 7)."""
    edges, points = np.abs(image.edges - reference.edges), np.abs(image.points - reference.points)
    features = (np.maximum(edges, points) * np.float32(2**-0.5)) ** np.float32(_QF)
    return _redistributed(_hyab(image.lab, reference.lab)) ** (1 - features)


def _spatially_filtered(opponent: np.ndarray) -> np.ndarray:
    """Each channel under its contrast sensitivity, a sum of two Gaussians (section 4.1.1)."""
    channels = []
    for channel, kernels in zip(cv2.split(opponent), _csf_kernels(), strict=True):
        parts = [weight * _separable(channel, kernel, kernel) for weight, kernel in kernels]
        channels.append(sum(parts[1:], start=parts[0]))
    return cv2.merge(channels)


def _hunt_lab(linear: np.ndarray) -> np.ndarray:
    """L*a*b*, its chroma scaled with the lightness (the Hunt effect, section 4.1.2)."""
    x, y, z = cv2.split(lab_curve(_times(linear, SRGB_TO_RELATIVE_XYZ)))
    lightness = 116 * y - 16
    return cv2.merge([lightness, 5 * lightness * (x - y), 2 * lightness * (y - z)])  # 0.01 x 500 and 0.01 x 200


def _hyab(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """City-block in lightness, Euclidean in chroma, compressed by qc (section 4.1.3)."""
    lightness, green_red, blue_yellow = cv2.split(a - b)
    return (np.abs(lightness) + np.hypot(green_red, blue_yellow)) ** np.float32(_QC)


def _redistributed(error: np.ndarray) -> np.ndarray:
    """0 .. the largest possible error to 0..1, with most of the range for small errors (section 4.1.4)."""
    largest = _largest_error()
    knee = _PC * largest
    above = _PT + (error - knee) * ((1 - _PT) / (largest - knee))
    return np.where(error < knee, error * (_PT / knee), above).astype(np.float32)


@lru_cache
def _largest_error() -> float:
    """Green against blue."""
    green, blue = (_hunt_lab(np.array([[colour]], np.float32)) for colour in ((0, 1, 0), (0, 0, 1)))
    return float(_hyab(green, blue)[0, 0])


def _magnitude(lightness: np.ndarray, along: np.ndarray, across: np.ndarray) -> np.ndarray:
    return np.hypot(_separable(lightness, along, across), _separable(lightness, across, along))


def _separable(channel: np.ndarray, along_x: np.ndarray, along_y: np.ndarray) -> np.ndarray:
    return cv2.sepFilter2D(channel, cv2.CV_32F, along_x, along_y, borderType=cv2.BORDER_REPLICATE)


def _times(pixels: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    return cv2.transform(pixels, matrix.astype(np.float32))


@lru_cache
def _csf_kernels() -> tuple[tuple[tuple[float, np.ndarray], ...], ...]:
    """For every channel its Gaussians as (weight, one-dimensional kernel); together each channel's sum to 1."""
    widest = max(max(b1, b2) for _, b1, _, b2 in _CSF)
    radius = int(np.ceil(3 * np.sqrt(widest / (2 * np.pi**2)) * PIXELS_PER_DEGREE))
    degrees = np.arange(-radius, radius + 1) / PIXELS_PER_DEGREE
    channels = []
    for a1, b1, a2, b2 in _CSF:
        kernels = [(a * np.sqrt(np.pi / b), np.exp(-(np.pi**2) * degrees**2 / b)) for a, b in ((a1, b1), (a2, b2)) if a]
        total = sum(weight * kernel.sum() ** 2 for weight, kernel in kernels)
        channels.append(tuple((float(weight / total), kernel) for weight, kernel in kernels))
    return tuple(channels)


@lru_cache
def _feature_kernels() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Derivative, second derivative, and smoothing across; the positive and the negative weights each sum to 1."""
    sigma = 0.5 * _WIDTH * PIXELS_PER_DEGREE
    radius = int(np.ceil(3 * sigma))
    x = np.arange(-radius, radius + 1)
    gauss = np.exp(-(x**2) / (2 * sigma**2))
    return _balanced(-x * gauss), _balanced((x**2 / sigma**2 - 1) * gauss), gauss / gauss.sum()


def _balanced(kernel: np.ndarray) -> np.ndarray:
    positive, negative = kernel[kernel > 0].sum(), -kernel[kernel < 0].sum()
    return np.where(kernel > 0, kernel / positive, kernel / negative)
