"""The colour and detail of one frame, in numpy alone. Knows neither runs nor distances."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

_LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601, of gamma-encoded values
_SRGB_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])  # IEC 61966-2-1
_DELTA = 6 / 29  # where CIELAB's curve goes over from a line to a cube root


class Look(NamedTuple):
    """One frame in six numbers; the fields are columns of the tables."""

    lab_l: float  # mean CIELAB under D65: 0 black .. 100 white
    lab_a: float  # green < 0 < red
    lab_b: float  # blue < 0 < yellow
    saturation: float  # mean S of HSV, 0..255
    clipped: float  # share of values that are 0 or 255, 0..1
    detail: float  # mean magnitude of the Laplacian of the grey levels


def look(frame: np.ndarray) -> Look:  # uint8 [H, W, 3]
    """Colour and detail of a frame."""
    lightness, green_red, blue_yellow = mean_lab(frame)
    clipped = np.count_nonzero(frame + np.uint8(1) < 2) / frame.size  # 255 wraps around to 0
    return Look(
        lightness,
        green_red,
        blue_yellow,
        saturation=float(saturation(frame).mean(dtype=np.float64)),
        clipped=clipped,
        detail=float(detail_energy(frame).mean(dtype=np.float64)),
    )


def mean_lab(frame: np.ndarray) -> tuple[float, float, float]:  # uint8 [H, W, 3], sRGB -> L*, a*, b*
    """Mean of the pixels' CIELAB, which is not the CIELAB of the mean pixel. White is (100, 0, 0)."""
    light, to_relative = _linear_light()
    relative = to_relative @ light.take(frame).reshape(-1, 3).T  # [3, H*W]: one row a channel, which numpy adds up fast
    curve = np.cbrt(relative)
    line = relative * np.float32(1 / (3 * _DELTA**2)) + np.float32(4 / 29)
    np.copyto(curve, line, where=relative <= np.float32(_DELTA**3))
    x, y, z = curve.mean(axis=1, dtype=np.float64).tolist()
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def saturation(frame: np.ndarray) -> np.ndarray:  # uint8 [H, W, 3] -> float32 [H, W], 0..255
    """S of HSV, (max - min) / max; 0 for black, as for every grey."""
    red, green, blue = frame[..., 0], frame[..., 1], frame[..., 2]
    largest = np.maximum(np.maximum(red, green), blue)
    chroma = largest - np.minimum(np.minimum(red, green), blue)
    return chroma * (np.float32(255) / np.maximum(largest, 1))


def detail_energy(frame: np.ndarray) -> np.ndarray:  # uint8 [H, W, 3] -> float32 [H, W], grey levels
    """Magnitude of the Laplacian of the grey levels (4 neighbours, edge pixels repeated); 0 where a frame is flat."""
    grey = np.pad(frame @ _LUMA, 1, mode="edge")
    across = grey[1:-1, :-2] + grey[1:-1, 2:]
    along = grey[:-2, 1:-1] + grey[2:, 1:-1]
    return np.abs(4 * grey[1:-1, 1:-1] - across - along)


@lru_cache
def _linear_light() -> tuple[np.ndarray, np.ndarray]:
    """Linear light of every 8-bit sRGB value, and the matrix that takes such pixels to XYZ relative to white."""
    value = np.arange(256) / 255
    light = np.where(value > 0.04045, ((value + 0.055) / 1.055) ** 2.4, value / 12.92)
    relative = _SRGB_TO_XYZ / _SRGB_TO_XYZ.sum(axis=1, keepdims=True)
    return light.astype(np.float32), relative.astype(np.float32)
