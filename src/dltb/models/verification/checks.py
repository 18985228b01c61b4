"""Measures, gates, and the verdict over all checks. Knows arrays, not models.

A check that could not be made is a failure unless it says why it need not be made; a report in which nothing ran has failed.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

TEXT_COSINE = 0.999
STEP_COSINE = 0.995
ENCODE_COSINE = 0.999
DECODE_PSNR = 25.0  # dB
SIGNAL = 10.0  # grey levels: standard deviation below which a picture shows nothing, and PSNR proves nothing

Status = Literal["pass", "fail", "skip"]


@dataclass(frozen=True)
class Check:
    """One comparison."""

    name: str
    status: Status
    value: float | None = None
    gate: float | None = None
    compared: int = 0  # how many tensors or pictures went into it
    reason: str = ""  # of a failure or a skip


@dataclass
class Report:
    """All checks of one replay."""

    about: dict[str, Any] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)

    @property
    def failures(self) -> list[str]:
        """Why the replay does not pass; empty when it does."""
        found = [f"{check.name}: {check.reason}" for check in self.checks if check.status == "fail"]
        if not any(check.status == "pass" for check in self.checks) and not found:
            found = ["no check ran: nothing was verified"]
        return found

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        verdict = "fail" if self.failures else "pass"
        return {"verdict": verdict, **self.about, "checks": [asdict(check) for check in self.checks]}

    def table(self) -> str:
        """One line a check."""
        lines = [f"{'check':16} {'value':>10} {'gate':>8} {'of':>3}  verdict"]
        for check in self.checks:
            value = "-" if check.value is None else f"{check.value:.6f}" if check.value < 2 else f"{check.value:.2f}"
            gate = "-" if check.gate is None else f"{check.gate:g}"
            verdict = f"{check.status}{': ' if check.reason else ''}{check.reason}"
            lines.append(f"{check.name:16} {value:>10} {gate:>8} {check.compared:>3}  {verdict}")
        return "\n".join(lines)


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    """Cosine between two arrays of one shape; 0 where one of them is zero or not finite."""
    a, b = one.astype(np.float64).ravel(), other.astype(np.float64).ravel()
    scale = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / scale) if np.isfinite(scale) and scale > 0 else 0.0


def psnr(one: np.ndarray, other: np.ndarray) -> float:
    """Peak signal-to-noise ratio in dB of two pictures in 0..255; 99 for equal ones."""
    error = float(np.mean((one.astype(np.float64) - other.astype(np.float64)) ** 2))
    if not np.isfinite(error):
        return 0.0
    return min(99.0, float(10 * np.log10(255**2 / error))) if error > 0 else 99.0


def check_cosine(name: str, gate: float, pairs: Sequence[tuple[np.ndarray, np.ndarray]], *, expected: int) -> Check:
    """The worst cosine of ``pairs`` (reference, replayed); ``expected`` of them must be there, at least one."""
    problem = _incomplete(pairs, expected)
    if problem:
        return Check(name, "fail", None, gate, len(pairs), problem)
    worst = min(cosine(*pair) for pair in pairs)
    reason = "" if worst >= gate else f"{worst:.6f} is below {gate:g}"
    return Check(name, "fail" if reason else "pass", worst, gate, len(pairs), reason)


def check_pictures(name: str, pairs: Sequence[tuple[np.ndarray, np.ndarray]], *, expected: int) -> Check:
    """The worst PSNR of pictures in 0..255 (reference, replayed), none of which may be without signal."""
    problem = _incomplete(pairs, expected)
    if problem:
        return Check(name, "fail", None, DECODE_PSNR, len(pairs), problem)
    signal = float(np.min([picture.std() for pair in pairs for picture in pair]))  # NaN if one is
    worst = min(psnr(*pair) for pair in pairs)
    reason = "" if worst >= DECODE_PSNR else f"{worst:.2f} dB is below {DECODE_PSNR:g} dB"
    if not signal >= SIGNAL:
        reason = f"a picture without signal (standard deviation {signal:.2f} of {SIGNAL:g} levels) proves nothing"
    return Check(name, "fail" if reason else "pass", worst, DECODE_PSNR, len(pairs), reason)


def _incomplete(pairs: Sequence[tuple[np.ndarray, np.ndarray]], expected: int) -> str:
    if expected < 1:
        return "the reference holds none of these"
    if len(pairs) < expected:
        return f"the reference is incomplete: {len(pairs)} of {expected} are there"
    wrong = [f"{list(one.shape)} there, {list(other.shape)} here" for one, other in pairs if one.shape != other.shape]
    return f"another shape: {wrong[0]}" if wrong else ""
