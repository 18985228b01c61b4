"""Flow as colours: the hue says where to, the strength how far. For eyes only.

The wheel is that of Baker et al., A Database and Evaluation Methodology for Optical Flow (2011), which flow papers use:
right is red, down yellow, left cyan, up blue-violet; standing still is white.
"""

from functools import lru_cache

import numpy as np

# Colours in each of the wheel's six arcs, red to yellow to green to cyan to blue to magenta to red.
_ARCS = (15, 6, 4, 11, 13, 6)
_CORNERS = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 1], [1, 0, 0]], np.float32)


def flow_colours(flow: np.ndarray, largest: float) -> np.ndarray:  # float [H, W, 2] px -> uint8 [H, W, 3]
    """Colours of a flow; motion of ``largest`` px is fully coloured, more is darkened."""
    length = np.hypot(flow[..., 0], flow[..., 1]) / max(largest, 1e-6)
    # Convention: the wheel starts at +x (right) and turns with +y (down), as images do.
    turn = np.arctan2(flow[..., 1], flow[..., 0]) / (2 * np.pi) % 1.0
    wheel = _wheel()
    place = turn * len(wheel)
    before = place.astype(int) % len(wheel)
    share = (place - np.floor(place))[..., None]
    hue = (1 - share) * wheel[before] + share * wheel[(before + 1) % len(wheel)]
    inside = 1 - np.minimum(length, 1)[..., None] * (1 - hue)
    return (255 * np.where(length[..., None] > 1, 0.75 * hue, inside)).astype(np.uint8)


def flow_wheel(side: int) -> np.ndarray:  # uint8 [side, side, 3]
    """The legend: the colour of every direction and strength, white outside."""
    y, x = np.mgrid[0:side, 0:side] * (2 / (side - 1)) - 1
    colours = flow_colours(np.stack([x, y], axis=-1), 1.0)
    colours[np.hypot(x, y) > 1] = 255
    return colours


@lru_cache
def _wheel() -> np.ndarray:  # float32 [55, 3], 0..1
    arcs = [
        start + (end - start) * (np.arange(count, dtype=np.float32) / count)[:, None]
        for count, start, end in zip(_ARCS, _CORNERS[:-1], _CORNERS[1:], strict=True)
    ]
    return np.concatenate(arcs)
