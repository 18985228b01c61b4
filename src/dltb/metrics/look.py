"""The colour and detail of one frame, in numpy alone. Knows neither runs nor distances."""

from typing import NamedTuple

import numpy as np

from dltb.metrics.colour import SRGB_TO_RELATIVE_XYZ, lab_curve, linear_light

_LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601, of gamma-encoded values
_TO_RELATIVE_XYZ = SRGB_TO_RELATIVE_XYZ.astype(np.float32)


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
    pixels = linear_light().take(frame).reshape(-1, 3).T
    curve = lab_curve(_TO_RELATIVE_XYZ @ pixels)  # [3, H*W]: one row a channel, which numpy adds up fast
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
