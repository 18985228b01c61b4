"""Names of run directories and videos. What a name does not hold (prompt, seed, steps) needs its own --output-dir."""

from collections.abc import Sequence
from pathlib import Path

from dltb import UsageError


def output_root(output_dir: str | None, model_key: str) -> Path:
    """Parent of the run directory: ``output_dir``, or untracked/output_<model>."""
    if output_dir == "":
        raise UsageError("--output-dir is empty; give a folder, or leave the flag out")
    return Path(output_dir or f"untracked/output_{model_key.replace('-', '_')}")


def warp_tag(reproject: bool, reproject_mask: bool) -> str:
    """``-norepro``, ``-fbmask`` or nothing for the plain warp."""
    if not reproject:
        return "-norepro"
    return "-fbmask" if reproject_mask else ""


def video_tag(*, mode: str, conditioning: str, anchor_blend: float, reproject: bool, reproject_mask: bool) -> str:
    """Tag of a video run's main loop: anchored, stateful-a0.3[-norepro|-fbmask] or dualref[-norepro|-fbmask]."""
    if mode == "anchored":
        return "anchored"
    loop = "dualref" if conditioning == "dual-ref" else f"stateful-a{anchor_blend:g}"
    return loop + warp_tag(reproject, reproject_mask)


def control_tag(control: str | None) -> str:
    """``_control-vae``, or nothing when the model runs."""
    return f"_control-{control}" if control else ""


def tails_tag(modes: Sequence[str], frames: int) -> str:
    """``_tailsfreeze-free60``, or nothing when no tail runs."""
    return f"_tails{'-'.join(modes)}{frames}" if frames else ""
