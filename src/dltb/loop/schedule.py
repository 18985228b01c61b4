"""Settings that change from pass to pass, as key frames: ``0:0.3,60:0.6`` is 0.3 at pass 0 and 0.6 from pass 60 on.

Numbers run in straight lines between their key frames; texts hold until the next one. Before the first key frame its
value holds, after the last one that one's.
"""

import bisect
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def number_at(keys: tuple[tuple[int, float], ...], index: int) -> float:
    """The value at pass ``index`` on the lines through ``keys``, which are in order."""
    passes, values = zip(*keys, strict=True)
    return float(np.interp(index, passes, values))


def held_at(keys: tuple[tuple[int, T], ...], index: int) -> T:
    """The value of the last key frame at or before pass ``index``; before all of them, of the first."""
    place = bisect.bisect_right([at for at, _ in keys], index) - 1
    return keys[max(place, 0)][1]


def seed_at(policy: str, seed: int, index: int) -> int:
    """The seed of pass ``index``, from 1.

    ``fixed`` is ``seed`` itself, ``increment`` seed + index, ``random`` a number that ``seed`` and the index decide (so
    that a run can be repeated and resumed), and ``list:3,7,9`` takes its numbers in turn.
    """
    if policy.startswith("list:"):
        numbers = [int(part) for part in policy.removeprefix("list:").split(",")]
        return numbers[(index - 1) % len(numbers)]
    if policy == "random":
        return int(np.random.SeedSequence([seed, index]).generate_state(1, np.uint32)[0])
    return seed + index if policy == "increment" else seed
