"""The loop itself: one frame, one direction; the only edge that goes back is P_n -> the next step's state."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

Frame = np.ndarray  # [H, W, 3] uint8 RGB: what a PNG holds, so that a state read back from disk is the state itself


@dataclass(frozen=True)
class Source:
    """What the world gives a step: the fresh frame N_n, and N_{n-1} for motion."""

    index: int  # from 1 in each phase
    frame: Frame
    previous: Frame | None = None  # None where nothing came before


@dataclass(frozen=True)
class ModelInput:
    """The image or the reference images of one pass, and what is worth recording about them."""

    images: tuple[Frame, ...]
    facts: MappingProxyType | dict[str, float] = field(default_factory=dict)


class PassLike(Protocol):
    """What a generate callable returns; the loop reads its frame and hands on the rest."""

    frame: Frame


@dataclass(frozen=True)
class StepResult:
    """Everything about one finished step."""

    source: Source
    inputs: ModelInput
    output: Any  # a PassLike

    @property
    def index(self) -> int:
        """Number of the pass, from 1 in its phase."""
        return self.source.index

    @property
    def frame(self) -> Frame:
        """P_n: the pass's output and the next step's carried state."""
        return self.output.frame


Combine = Callable[[Frame, Frame, Frame | None], Any]  # (carried, fresh, previous source) -> ModelInput or image(s)
Generate = Callable[[tuple[Frame, ...], int], PassLike]  # (images, index) -> pass
Resolve = Callable[[Frame | None, Source, PassLike], PassLike]  # (carried, source, pass) -> pass with history in it


@dataclass(frozen=True)
class Scheduled:
    """A conditioning that changes from pass to pass."""

    at: Callable[[int], Combine]  # by the number of the pass


def run_loop(
    sources: Iterable[Source],
    combine: Combine | Scheduled,
    generate: Generate,
    state: Frame | None = None,
    resolve: Resolve | None = None,
) -> Iterator[StepResult]:
    """Yield one StepResult per source; without a state the first step is a single clean input.

    ``resolve`` may change what a pass made before it becomes P_n.
    """
    for source in sources:
        if state is None:
            inputs = ModelInput((source.frame,))
        else:
            now = combine.at(source.index) if isinstance(combine, Scheduled) else combine
            inputs = as_model_input(now(state, source.frame, source.previous))
        output = generate(inputs.images, source.index)
        if resolve is not None:
            output = resolve(state, source, output)
        state = output.frame
        yield StepResult(source, inputs, output)


def as_model_input(value: Any) -> ModelInput:
    """A conditioning may return a ModelInput, one image, or a sequence of reference images."""
    if isinstance(value, ModelInput):
        return value
    images = value if isinstance(value, list | tuple) else (value,)
    return ModelInput(tuple(np.asarray(image) for image in images))
