"""Names of run directories and videos. What a name does not hold (prompt, seed, steps) needs its own --output-dir."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from dltb import UsageError

LONGEST_KEYS = 40  # characters of key frames in a name


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


def video_tag(*, mode: str, conditioning: str, anchor_blend: float | str, reproject: bool, reproject_mask: bool) -> str:
    """Tag of a video run's main loop: anchored, stateful-a0.3[-norepro|-fbmask] or dualref[-norepro|-fbmask]."""
    if mode == "anchored":
        return "anchored"
    share = anchor_blend if isinstance(anchor_blend, str) else f"{anchor_blend:g}"
    loop = "dualref" if conditioning == "dual-ref" else f"stateful-a{share}"
    return loop + warp_tag(reproject, reproject_mask)


def motion_tag(flow: str, *, vectors: bool, visibility: bool) -> str:
    """``-mv`` or ``-dis``, and ``-vismask``; nothing for the default flow."""
    return ("-mv" if vectors else "" if flow == "farneback" else f"-{flow}") + ("-vismask" if visibility else "")


def history_tag(before: Sequence[str], after: Sequence[str]) -> str:
    """``-in-residual-clip-out-residual``, or nothing without history."""
    return "".join(f"-{place}-{'-'.join(methods)}" for place, methods in (("in", before), ("out", after)) if methods)


def keys_tag(keys: Sequence[tuple[int, float]]) -> str:
    """Key frames in the place of a number: 0.3@0_0.6@60, or a hash of them where that would be long."""
    text = "_".join(f"{value:g}@{at}" for at, value in keys)
    return text if len(text) <= LONGEST_KEYS else f"keys{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def control_tag(control: str | None) -> str:
    """``_control-vae``, or nothing when the model runs."""
    return f"_control-{control}" if control else ""


def tails_tag(modes: Sequence[str], frames: int) -> str:
    """``_tailsfreeze-free60``, or nothing when no tail runs."""
    return f"_tails{'-'.join(modes)}{frames}" if frames else ""
