"""Flow, mask and model input of a pass, which a run does not store, made again by the loop's own functions.

Where something cannot be made again, or there never was any, it says why.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from dltb import UsageError
from dltb.args.options import VideoOptions
from dltb.imaging.flow import METHODS, Flow, estimate_flow
from dltb.imaging.mask import disocclusion_mask
from dltb.imaging.warp import Reprojected, make_reprojector
from dltb.loop.conditioning import make_conditioning, needs_motion
from dltb.loop.engine import as_model_input
from dltb.pages.frames import Step
from dltb.pages.run import Run, Stretch

OWN_CONDITIONING = "dltb.loop.conditioning.make_conditioning"


@dataclass(frozen=True)
class Traced:
    """What went into a pass."""

    flow: Flow | None = None
    mask: np.ndarray | None = None  # [H, W] bool, True where the fresh frame was taken
    model_input: np.ndarray | None = None  # uint8 [H, references * W, 3]: reference images side by side
    references: int = 1
    why_no_input: str = ""


class Retracer:
    """Retraces the passes of one stretch; safe to be used by several threads."""

    def __init__(self, run: Run, stretch: Stretch, why_no_clip: str) -> None:
        self._name, self._is_video, self._why_no_clip = stretch.name, run.is_video, why_no_clip
        told = {name: value for name, value in run.settings.items() if value is not None}
        self._settings = SimpleNamespace(**(asdict(VideoOptions()) | told))  # what is inert is None in run.json
        self._feedback = run.settings.get("anchor_blend") is not None
        self._own = run.settings.get("make_conditioning", OWN_CONDITIONING) == OWN_CONDITIONING
        self._flow = run.settings.get("flow", "farneback")  # absent where it is the reference's
        self.why_still = self._motionless()
        self._why_unknown = self._beyond(run.settings)

    def _beyond(self, settings: Mapping[str, Any]) -> str:
        """Why the model inputs of this run are not made again, though its frames and its clip are there."""
        reasons = {
            "motion_vectors": "its motion came from a renderer's files",
            "visibility": "its mask came from a renderer's files",
            "history_input": "its state was rectified by the passes before (--history-input)",
            "blend_schedule": "its blend changed from pass to pass (--blend-schedule)",
        }
        names = reasons if self._name == "main" else ("blend_schedule",)
        return next((reasons[name] for name in names if settings.get(name)), "")

    def _motionless(self) -> str:
        """Why no motion is estimated in this stretch; empty where it is."""
        if not self._is_video:
            return "a still image: nothing moves"
        if self._name != "main":
            return "in a tail nothing moves"
        if hasattr(self._settings, "motion_vectors"):
            return "the motion of this run came from a renderer's files"
        if self._flow not in METHODS:
            return f"{self._flow} is not run again for a report"
        try:
            return "" if needs_motion(self._settings) else "this run warps nothing, so it estimates no motion"
        except TypeError as error:
            return f"the settings of this run are not understood: {error}"

    def source(self, step: Step) -> np.ndarray | None:
        """The fresh frame of a pass: the clip's, or what its tail puts in its place."""
        if self._name == "free" or step.source is None:
            return None
        return np.zeros_like(step.source) if self._name == "black" else step.source

    def trace(self, step: Step) -> Traced:
        """What went into a pass; whatever does not fit together becomes a reason."""
        try:
            return self._clip_pass(step) if self._is_video else self._still_pass(step)
        except (UsageError, TypeError, ValueError, KeyError) as error:  # frames of two sizes, settings edited by hand
            return Traced(why_no_input=f"it cannot be made again: {error}")

    def why(self, step: Step, traced: Traced) -> dict[str, str]:
        """Why a panel is empty, if it is."""
        no_source = "a free tail has no fresh frame" if self._name == "free" else self._why_no_clip
        flow = self.why_still or no_source or "the first pass has no frame before it"
        unmasked = not self.why_still and traced.flow is not None
        return {
            "source": no_source or "the clip ends before this pass, or it cannot be read",
            "input": traced.why_no_input,
            "flow": flow,
            "mask": "this run masks nothing (--reproject-mask)" if unmasked else flow,
        }

    def _still_pass(self, step: Step) -> Traced:
        """A pass over a still image."""
        if step.kept_input is not None:
            return Traced(model_input=step.kept_input)
        if self._feedback:
            return Traced(why_no_input="the input was not saved")
        why = "the input is the output of the pass before, which was not saved"
        return Traced(model_input=step.carried, why_no_input=why)

    def _clip_pass(self, step: Step) -> Traced:
        tail = self._name != "main"
        if step.source is None and self._name != "free":
            return Traced(why_no_input=self._why_no_clip or "the clip ends before this pass")
        if not tail and (step.number == 1 or self._settings.mode == "anchored"):
            return Traced(model_input=step.source)
        if step.carried is None:
            return self._motion_alone(step, "the output of the pass before is not there")
        if not self._own:
            return self._motion_alone(step, "this run has a conditioning of its own")
        if self._why_unknown or (self._flow not in METHODS and not tail):
            return self._motion_alone(step, self._why_unknown or self.why_still)
        return self._conditioned(step, tail=tail)

    def _conditioned(self, step: Step, *, tail: bool) -> Traced:
        """By the run's conditioning, with an ear on the flow and the mask that it asks for."""
        heard: dict[str, Any] = {"flow": None, "mask": None}
        masked = bool(self._settings.reproject_mask)
        reproject = make_reprojector(mask_disocclusions=masked)

        def estimate(previous: np.ndarray, current: np.ndarray) -> Flow:
            heard["flow"] = estimate_flow(previous, current, backward=masked, method=self._flow)
            return heard["flow"]

        def warp(state: np.ndarray, flow: Flow, fresh: np.ndarray) -> Reprojected:
            moved = reproject(state, flow, fresh)
            heard["mask"] = moved.mask
            return moved

        combine, tail_source = make_conditioning(self._settings, estimate, warp)
        if tail:
            made = tail_source(self._name, step.carried, step.carried if step.source is None else step.source)
        else:
            made = combine(step.carried, step.source, step.previous)
        images = as_model_input(made).images
        return Traced(**heard, model_input=np.concatenate(images, axis=1), references=len(images))

    def _motion_alone(self, step: Step, why: str) -> Traced:
        """Flow and mask of a pass whose state is not known."""
        if self.why_still or step.previous is None or step.source is None:
            return Traced(why_no_input=why)
        masked = bool(self._settings.reproject_mask)
        flow = estimate_flow(step.previous, step.source, backward=masked, method=self._flow)
        mask = disocclusion_mask(flow.forward, flow.backward) if flow.backward is not None else None
        return Traced(flow=flow, mask=mask, why_no_input=why)
