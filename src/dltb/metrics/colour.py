"""sRGB to CIELAB, what every measure of colour shares: IEC 61966-2-1 and CIE 15. numpy alone."""

from functools import lru_cache

import numpy as np

_DELTA = 6 / 29  # where CIELAB's curve goes over from a line to a cube root

# Of linear light, from the primaries of BT.709 and D65; exact, as NVIDIA's FLIP has it.
SRGB_TO_XYZ = np.array(
    [
        [10135552 / 24577794, 8788810 / 24577794, 4435075 / 24577794],
        [2613072 / 12288897, 8788810 / 12288897, 887015 / 12288897],
        [1425312 / 73733382, 8788810 / 73733382, 70074185 / 73733382],
    ]
)
SRGB_TO_RELATIVE_XYZ = SRGB_TO_XYZ / SRGB_TO_XYZ.sum(axis=1, keepdims=True)  # white is (1, 1, 1)


@lru_cache
def linear_light() -> np.ndarray:  # float32 [256], 0..1
    """Linear light of every 8-bit sRGB value."""
    value = np.arange(256) / 255
    return np.where(value > 0.04045, ((value + 0.055) / 1.055) ** 2.4, value / 12.92).astype(np.float32)


def lab_curve(relative: np.ndarray) -> np.ndarray:  # float32, XYZ relative to white
    """f of CIELAB: the cube root, a line near black."""
    curve = np.cbrt(relative)
    line = relative * np.float32(1 / (3 * _DELTA**2)) + np.float32(4 / 29)
    np.copyto(curve, line, where=relative <= np.float32(_DELTA**3))
    return curve
