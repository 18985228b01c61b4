"""Pairs of rendered frames whose true motion and visibility are known, shared by the tests of flow, warp and mask."""

import functools
from dataclasses import dataclass

import numpy as np

from training.courtyard import GroundTruth, Renderer

SIZE = 128  # px
FPS = 24
NUMBERS = (8, 16, 24, 32, 40)  # of the later frame of each pair


@dataclass(frozen=True)
class Pair:
    """Two frames and what is true about them."""

    previous: np.ndarray  # [H, W, 3] uint8 RGB
    current: np.ndarray  # [H, W, 3] uint8 RGB
    truth: GroundTruth  # of `current`, seen from `previous`
    reverse: GroundTruth  # of `previous`, seen from `current`

    @property
    def true_flow(self):
        """The flow with which p - flow(p) is the exact place in `previous`, [H, W, 2] px."""
        return -self.truth.motion


@functools.cache
def courtyard_pairs(step):
    """Pairs that lie `step` frames apart: about 1 px of motion at step 1, 3 px at step 3."""
    return [
        Pair(
            previous=_frame(number - step),
            current=_frame(number),
            truth=_renderer().ground_truth(number / FPS, (number - step) / FPS),
            reverse=_renderer().ground_truth((number - step) / FPS, number / FPS),
        )
        for number in NUMBERS
    ]


@functools.cache
def _renderer():
    return Renderer(SIZE, SIZE, supersampling=2, seconds=2.0)


@functools.cache
def _frame(number):
    frame = (_renderer().frame(number / FPS) * 255 + 0.5).astype(np.uint8)
    frame.setflags(write=False)
    return frame
