"""The table of distances, read before anything heavy is imported: which there are, what they need, where they come from.

A distance compares frames of one size; 0 is identical. Adding one is a row here and a loader in
``dltb.metrics.distances``.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dltb import UsageError


@dataclass(frozen=True)
class MetricSpec:
    """One distance between two frames."""

    key: str
    title: str  # for the axis of a figure
    largest: float  # the largest value it can take; the smallest is 0
    converged_below: float  # mean distance to the previous frame under which a run counts as settled
    source: str
    packages: tuple[str, ...] = ()  # imported beyond the light install
    needs_torch: bool = False
    offline: bool = True  # needs no weights
    smallest_side: int = 1  # px

    def column(self, name: str) -> str:
        """The column of a table that holds this distance: ``to_ref`` is ``flip_to_ref``."""
        return f"{self.key}_{name}"


# Thresholds: DreamSim's was set on its real weights. The others are what a change of +-1 in half of all values gives on
# the example image: 0.5 levels, which is dltb-drift's threshold.
_ROWS = (
    MetricSpec(
        "dreamsim",
        "DreamSim distance",
        largest=2,
        converged_below=0.01,
        source="Fu et al. 2023, arXiv:2306.09344; package dreamsim, whose weights are downloaded",
        packages=("torch", "dreamsim"),
        needs_torch=True,
        offline=False,
    ),
    MetricSpec(
        "flip",
        "mean FLIP error",
        largest=1,
        converged_below=0.015,
        source="Andersson et al. 2020, doi:10.1145/3406183; equal to NVIDIA's flip-evaluator at 67 pixels per degree",
    ),
    MetricSpec(
        "ssim",
        "1 - SSIM",
        largest=2,
        converged_below=0.003,
        source="Wang et al. 2004, doi:10.1109/TIP.2003.819861; package pytorch-msssim",
        packages=("torch", "pytorch_msssim"),
        needs_torch=True,
        smallest_side=11,  # its window
    ),
    MetricSpec(
        "ms-ssim",
        "1 - MS-SSIM",
        largest=1,
        converged_below=0.0003,
        source="Wang et al. 2003, doi:10.1109/ACSSC.2003.1292216; package pytorch-msssim",
        packages=("torch", "pytorch_msssim"),
        needs_torch=True,
        smallest_side=161,  # its window at the last of five halvings
    ),
    MetricSpec(
        "pixel",
        "mean absolute difference (0..255)",
        largest=255,
        converged_below=0.5,
        source="the mean absolute difference of dltb-drift",
    ),
)

METRICS: Mapping[str, MetricSpec] = MappingProxyType({row.key: row for row in _ROWS})


def metric_key(text: str) -> str:
    """The table's key for what a user typed: ``MS_SSIM`` is ``ms-ssim``."""
    key = text.strip().lower().replace("_", "-")
    if key in METRICS:
        return key
    close = difflib.get_close_matches(key, METRICS, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise UsageError(f"unknown metric {text!r}{hint}; known: {', '.join(METRICS)}")


def offline_metrics() -> str:
    """The metrics that need no weights, as a user would type them."""
    return ", ".join(key for key, row in METRICS.items() if row.offline)
