"""History rectification of a run: from options to the two chains of the loop."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from dltb import UsageError
from dltb.args.options import HistoryOptions, VideoOptions
from dltb.loop.history import Tuning
from dltb.loop.rectifier import Rectifier


def check_history(
    options: HistoryOptions, video: VideoOptions, given: frozenset[str], *, blend_moves: bool, vectors: bool
) -> None:
    """Refuse what cannot be carried out as asked."""
    wanted = options.history or options.history_input
    extra = sorted(name for name in given if name in asdict(options) and name not in ("history", "history_input"))
    if extra and not wanted:
        raise UsageError(f"--{extra[0].replace('_', '-')} belongs to --history or --history-input; neither is given")
    if wanted and not video.reproject:
        raise UsageError("history moves along the motion that --no-reproject leaves out; use --flow none for none")
    if options.history_input and video.mode == "anchored":
        raise UsageError("--history-input rectifies the carried state, and --mode anchored shows the model none")
    if options.history_input and video.reproject_mask:
        raise UsageError(
            "--reproject-mask and --history-input both repaint the state; take roundtrip in the mask's place"
        )
    if "roundtrip" in (*options.history, *options.history_input) and vectors:
        raise UsageError("roundtrip compares the motion with the way back, which --motion-vectors has not; take reject")
    if options.history_input and blend_moves:
        raise UsageError(
            "--history-input holds the share of the fresh frame per pixel; --blend-schedule cannot move it"
        )


def make_rectifier(options: HistoryOptions, video: VideoOptions, flow: Callable) -> Rectifier | None:
    """The chains that are asked for, None where there are none."""
    if not (options.history or options.history_input):
        return None
    share = video.anchor_blend if video.conditioning == "blend" else options.history_alpha
    before = _tuning(options, options.history_input, share, options.history_input_carry)
    after = _tuning(options, options.history, options.history_alpha, options.history_carry)
    return Rectifier(flow, at_input=before, at_output=after)


def _tuning(options: HistoryOptions, methods: tuple[str, ...], alpha: float, carry: float) -> Tuning | None:
    if not methods:
        return None
    return Tuning(
        methods=methods,
        alpha=alpha,
        gamma=options.history_gamma,
        carry=carry,
        reject_above=options.history_reject,
        cut_above=options.history_cut,
        reanchor_every=options.reanchor_every,
    )


def needs_way_back(options: HistoryOptions, video: VideoOptions) -> bool:
    """Whether the motion from a frame to the one before is wanted too."""
    return video.reproject_mask or "roundtrip" in (*options.history, *options.history_input)


def history_settings(options: HistoryOptions) -> dict[str, Any]:
    """Settings of the run; without history there are none."""
    return asdict(options) if options.history or options.history_input else {}
