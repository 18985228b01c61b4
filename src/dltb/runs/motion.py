"""The motion of a clip: estimated from its frames or read from a renderer's files, checked before anything loads."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace

import cv2
import numpy as np

from dltb import UsageError
from dltb.args.options import MotionOptions
from dltb.imaging.flow import METHODS, Flow, estimate_flow, mean_motion
from dltb.imaging.motion_files import (
    READERS,
    UNITS,
    VISIBILITY_SUFFIXES,
    FrameFiles,
    VectorOptions,
    find_files,
    read_flow,
    read_visibility,
)
from dltb.imaging.warp import warp, warp_error_ratio
from dltb.loop.engine import Source

CHECKED = 8  # pairs of frames that the self-check looks at
MOVES = 0.5  # levels, mean: below this the first frames hardly move, and nothing can be said
SOURCE_MOVES = 0.25  # px, mean of the estimated flow: below this vectors that move nothing are right
HELPS = 0.9  # share of the error without motion: above this vectors hardly help, and an estimated flow is asked
CLEARLY = 0.8  # share of the vectors' own error: below this other units, or an estimated flow, explain more than chance
# What users get wrong, as factors of (x, y) and as the flags that mend it.
_FLIPS = {
    "with the sign flipped": (-1, -1),
    "with y flipped": (1, -1),
    "with x flipped": (-1, 1),
}


@dataclass(frozen=True)
class Motion:
    """Where the flow of a source comes from; everything that is wrong with the files' names has been said by now."""

    options: MotionOptions
    vectors: FrameFiles | None
    visibility: FrameFiles | None
    clip_size: tuple[int, int]  # px, width and height of the clip's frames
    size: tuple[int, int]  # px, of a pass

    def flow(self, source: Source, estimate: Callable[[np.ndarray, np.ndarray], Flow]) -> Flow:
        """The motion from ``source.previous`` to ``source.frame``, read, or found by ``estimate``."""
        if self.vectors:
            read = read_flow(self.vectors.of(source.index), _meaning(self.options), self.clip_size, self.size)
            flow = measured(read, source.previous, source.frame)
        else:
            flow = estimate(source.previous, source.frame)
        if self.visibility:
            hidden = ~read_visibility(self.visibility.of(source.index), self.clip_size, self.size)
            flow = flow.sharing_fetch(replace(flow, hidden=hidden))
        return flow


def measured(flow: Flow, previous: np.ndarray, current: np.ndarray) -> Flow:
    """How far a flow goes and what it is worth, found where it is made, away from the loop's thread."""
    ratio = warp_error_ratio(previous, current, flow)
    return flow.sharing_fetch(replace(flow, warp_error=ratio, motion_px=mean_motion(flow.forward)))


def measured_flow(previous: np.ndarray, current: np.ndarray, *, backward: bool, method: str | Callable) -> Flow:
    """The estimated flow of a pair, measured."""
    return measured(estimate_flow(previous, current, backward=backward, method=method), previous, current)


def choose_motion(
    options: MotionOptions, given: frozenset[str], lengths: list[int], clip_size: tuple[int, int], size: tuple[int, int]
) -> Motion:
    """Check the options and find the files.

    Raises:
        UsageError: when options contradict each other, weights are missing, or files fit no clip of these ``lengths``.
    """
    if options.motion_vectors and "flow" in given:
        raise UsageError("--flow estimates the motion that --motion-vectors reads; give one of the two")
    _check_vector_flags(options, given)
    if options.flow == "raft" and not options.motion_vectors:
        from dltb.imaging.raft import weights_file

        weights_file()
    vectors = visibility = None
    if options.motion_vectors is not None:
        vectors = find_files(options.motion_vectors, "--motion-vectors", tuple(READERS), lengths)
    if options.mask is not None:
        visibility = find_files(_mask_folder(options.mask), "--mask visibility", VISIBILITY_SUFFIXES, lengths)
    return Motion(options, vectors, visibility, clip_size, size)


def _check_vector_flags(options: MotionOptions, given: frozenset[str]) -> None:
    own = [name for name in given if name.startswith("mv_") or name == "no_mv_check"]
    if own and options.motion_vectors is None:
        raise UsageError(f"--{sorted(own)[0].replace('_', '-')} says how to read --motion-vectors, which is not given")


def _mask_folder(words: list[str]) -> str:
    if words[0] != "visibility":
        raise UsageError(f"--mask {words[0]}: known: visibility DIR")
    return words[1]


def _meaning(options: MotionOptions) -> VectorOptions:
    return VectorOptions(options.mv_direction, options.mv_units, options.mv_y, options.mv_scale)


def flow_method(name: str, device: str) -> str | Callable:
    """What ``estimate_flow`` takes: the key of one of its own methods, or RAFT with its weights loaded."""
    if name in METHODS:
        return name
    from dltb.imaging.raft import Raft

    return Raft(device)


def motion_settings(motion: Motion) -> dict[str, object]:
    """What tells two runs apart; a run with the reference's motion has nothing to tell."""
    options = asdict(motion.options)
    settings = {"flow": options["flow"]} if options["flow"] != MotionOptions.flow else {}
    if motion.vectors:
        fields = ("mv_direction", "mv_units", "mv_y", "mv_scale")
        settings |= {"motion_vectors": motion.vectors.digest()} | {name: options[name] for name in fields}
    if motion.visibility:
        settings |= {"visibility": motion.visibility.digest()}
    return settings


def check_vectors(motion: Motion, sources: Iterator[Source]) -> None:
    """Compare the warp error of the first pairs with that of no motion, of flipped vectors and of other units.

    Raises:
        UsageError: when a file is broken, or when the vectors explain the frames worse than one of these, or no better
            than no motion where the frames do move; with the numbers and the flag that would mend it.
    """
    pairs = [source for source in sources if source.previous is not None]
    flows = [motion.flow(source, estimate_flow).forward for source in pairs]
    still = _error(pairs, flows, (0, 0))
    if still < MOVES or not motion.vectors:
        return
    error = _error(pairs, flows, (1, 1))
    others = [_Reading(_error(pairs, flows, by), name, _mended(motion.options, name)) for name, by in _FLIPS.items()]
    flipped = min(reading.error for reading in others)
    others += _other_units(motion, pairs)
    best = min(others, key=lambda reading: reading.error)
    harms = error > min(still, flipped) or best.error < CLEARLY * error
    estimated = None if harms or error <= HELPS * still else _estimated_error(pairs)
    if not harms and (estimated is None or estimated >= CLEARLY * error):
        return
    along = "" if estimated is None else f", {estimated:.2f} along an estimated flow"
    hint = f"; try {best.flags}" if best.error < min(still, error) else ""
    raise UsageError(
        f"--motion-vectors {motion.vectors.folder}: over the first {len(pairs)} pairs of frames the warp error is "
        f"{error:.2f} levels with them, {still:.2f} without any motion, {best.error:.2f} {best.name}{along}{hint}"
        " (--no-mv-check goes on all the same)"
    )


@dataclass(frozen=True)
class _Reading:
    """Another way to read the vectors."""

    error: float  # levels
    name: str
    flags: str  # that ask for it


def _other_units(motion: Motion, pairs: list[Source]) -> Iterator[_Reading]:
    """The vectors in every other unit, flipped and not; units in which they are absurd are left out."""
    for units in (name for name in UNITS if name != motion.options.mv_units):
        options = replace(motion.options, mv_units=units)
        try:
            flows = [replace(motion, options=options).flow(source, estimate_flow).forward for source in pairs]
        except UsageError:
            continue
        flags = f"--mv-units {units}"
        yield _Reading(_error(pairs, flows, (1, 1)), f"read as {units}", flags)
        for name, by in _FLIPS.items():
            yield _Reading(_error(pairs, flows, by), f"read as {units} {name}", f"{flags} {_mended(options, name)}")


def _estimated_error(pairs: list[Source]) -> float | None:
    """The error along an estimated flow; None where that finds no motion."""
    flows = [estimate_flow(source.previous, source.frame).forward for source in pairs]
    moves = float(np.mean([mean_motion(flow) for flow in flows])) > SOURCE_MOVES
    return _error(pairs, flows, (1, 1)) if moves else None


def _error(pairs: list[Source], flows: list[np.ndarray], factors: tuple[int, int]) -> float:
    """Mean absolute difference, levels, between each frame and the one before, moved along the scaled flow."""
    scale = np.array(factors, np.float32)
    found = zip(pairs, flows, strict=True)
    errors = [cv2.absdiff(warp(source.previous, flow * scale), source.frame).mean() for source, flow in found]
    return float(np.mean(errors)) if errors else 0.0


def _mended(options: MotionOptions, flip: str) -> str:
    """The flag that makes the flip, in the place of what is set."""
    if flip == "with y flipped":
        up = (options.mv_y or ("up" if options.mv_units == "ndc" else "down")) == "up"
        return f"--mv-y {'down' if up else 'up'}"
    other = "from-previous" if options.mv_direction == "to-previous" else "to-previous"
    if flip == "with x flipped":
        up = (options.mv_y or ("up" if options.mv_units == "ndc" else "down")) == "up"
        return f"--mv-direction {other} --mv-y {'down' if up else 'up'}"
    return f"--mv-direction {other}"
