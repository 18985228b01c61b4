"""The history chains in their places in the loop, before the pass and after it, and the memory that they keep.

Knows neither files nor models. The memory is the one thing here that changes; it is replaced, never written into, so what
a pass left can be handed to a checkpoint while the next pass is under way.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dltb.imaging.evidence import Evidence
from dltb.imaging.warp import Reprojected
from dltb.loop.engine import Frame, PassLike, Source
from dltb.loop.history import Memory, Rectified, Tuning, first_memory, mixed, moved_colour, rectify, to_frame

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Resolved:
    """A pass whose frame was blended with history; what else it says comes from the pass itself."""

    made: Any
    frame: Frame
    facts: Mapping[str, float]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made, name)


@dataclass(frozen=True)
class Kept:
    """What the chains carry from one pass to the next beside the frame."""

    exact: np.ndarray | None = (
        None  # [H, W, 3] float32, P_n before it was rounded; None where no chain runs after the pass
    )
    input: Memory | None = None
    output: Memory | None = None


class Rectifier:
    """``reproject`` stands in for the plain warp before the pass, ``resolve`` works on what came out of it.

    ``at_input`` and ``at_output`` are the numbers of the two chains, None where there is none.
    """

    def __init__(
        self,
        flow: Callable[[Frame, Frame], Evidence],
        *,
        at_input: Tuning | None = None,
        at_output: Tuning | None = None,
    ) -> None:
        self._flow = flow
        self._at_input, self._at_output = at_input, at_output
        self._moved: tuple[Evidence, np.ndarray] | None = None
        self.kept = Kept()

    def reproject(self, carried: Frame, flow: Evidence, fresh: Frame) -> Reprojected:
        """The rectified state; where alpha is above its least, the frame goes in as far as the conditioning will not.

        The conditioning adds its own share a of the frame afterwards: (1 - a)(1 - more) is 1 - alpha.
        """
        assert self._at_input is not None
        started = time.perf_counter()
        now = fresh.astype(np.float32)
        memory = self.kept.input or first_memory(carried)
        history = rectify(self._moved_state(carried, flow), memory, flow, now, now, self._at_input)
        least = np.float32(self._at_input.alpha)
        more = (history.alpha - least) / max(1 - least, np.float32(1e-6))
        self.kept = replace(self.kept, input=history.memory)
        return Reprojected(to_frame(mixed(history.colour, now, more)), None, _facts("input", history, started))

    def resolve(self, state: Frame | None, source: Source, output: PassLike) -> PassLike:
        """P_n = (1 - alpha) history + alpha output; the first pass has no history and stays as it is."""
        assert self._at_output is not None
        if state is None or source.previous is None:
            self.kept = Kept(output.frame.astype(np.float32), self.kept.input, first_memory(output.frame))
            return output
        flow = self._flow(source.previous, source.frame)
        started = time.perf_counter()
        made = output.frame.astype(np.float32)
        memory = self.kept.output or first_memory(state)
        moved = self._moved_state(state, flow)
        history = rectify(moved, memory, flow, source.frame.astype(np.float32), made, self._at_output)
        exact = mixed(history.colour, made, history.alpha)
        self.kept = replace(self.kept, exact=exact, output=history.memory)
        return Resolved(output, to_frame(exact), _facts("output", history, started))

    def _moved_state(self, state: Frame, flow: Evidence) -> np.ndarray:
        """The exact state where things are now; worked out once where both chains want it."""
        if self._moved is None or self._moved[0] is not flow:
            exact = state.astype(np.float32) if self.kept.exact is None else self.kept.exact
            self._moved = (flow, moved_colour(exact, flow))
        return self._moved[1]

    def arrays(self) -> Arrays:
        """What a resume needs beside the frame."""
        found = {} if self.kept.exact is None else {"exact": self.kept.exact}
        for place in ("input", "output"):
            memory = getattr(self.kept, place)
            found |= {f"{place}_{name}": np.asarray(value) for name, value in vars(memory).items()} if memory else {}
        return found

    def restore(self, arrays: Arrays) -> None:
        """Go on with what ``arrays`` gave."""
        self.kept = Kept(arrays.get("exact"), _memory(arrays, "input"), _memory(arrays, "output"))


def _memory(arrays: Arrays, place: str) -> Memory | None:
    if f"{place}_length" not in arrays:
        return None
    return Memory(arrays[f"{place}_length"], arrays[f"{place}_offset"], int(arrays[f"{place}_age"]))


def _facts(place: str, history: Rectified, started: float) -> dict[str, float]:
    facts = {f"{place}_{name}": value for name, value in history.facts.items()}
    return {**facts, f"{place}_history_seconds": time.perf_counter() - started}
