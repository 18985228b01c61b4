"""From the metric options to a metric: every check first, then the weights."""

import gc
import importlib.metadata
import importlib.util
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dltb
from dltb import UsageError
from dltb.args.metric_options import MetricOptions
from dltb.metrics.distances import Distance, DistanceSummary, Metric, load_metric
from dltb.metrics.dreamsim import DreamSimSettings
from dltb.metrics.table import METRICS, MetricSpec, metric_key


@dataclass(frozen=True)
class MetricChoice:
    """A metric that passed every check, not loaded yet."""

    spec: MetricSpec
    dreamsim: DreamSimSettings | None  # None for every other metric
    device: str
    batch_size: int
    converged_below: float
    lag: int  # how many frames back *_to_lag goes; 0: no such column


def choose_metric(options: MetricOptions, device: str | None = None) -> MetricChoice:
    """Check the options, the installed packages and the device; None is the best device there is, the CPU included.

    Raises:
        UsageError: when the distance cannot be computed as asked; nothing has been loaded by then.
    """
    spec = METRICS[metric_key(options.metric)]
    settings = None
    if not spec.offline:
        cache = Path(options.cache_dir).expanduser()
        settings = DreamSimSettings(options.dreamsim_type, options.patch, cache, options.retries)
    _check_installed(spec)
    threshold = spec.converged_below if options.converged_below is None else options.converged_below
    return MetricChoice(spec, settings, _resolve_device(spec, device), options.batch_size, threshold, options.lag)


def inert_options(choice: MetricChoice, given: Collection[str]) -> Iterator[str]:
    """A note for what the user set and this metric does not look at."""
    key, ignored = choice.spec.key, set()
    if choice.dreamsim is None:
        ignored |= {"dreamsim_type", "patch", "cache_dir", "retries"}
    if not choice.spec.needs_torch:
        ignored.add("batch_size")  # one frame is compared at a time
    for name in sorted(ignored & set(given)):
        yield f"--{name.replace('_', '-')} has no effect with --metric {key}"
    if "device" in given and not choice.spec.needs_torch:
        yield f"--device has no effect: --metric {key} is computed on the CPU"


def check_loads(choice: MetricChoice) -> None:
    """Fetch and load what the metric needs, once, in main memory, and let go of it.

    Before hours of passes: a download that fails and a damaged file are known then, and the passes have the device to
    themselves.
    """
    if choice.dreamsim is not None:
        print(f"checking that DreamSim {choice.dreamsim.variant} loads ...", file=sys.stderr, flush=True)
        load_metric(choice.spec.key, device="cpu", dreamsim=choice.dreamsim)
        gc.collect()


def load_chosen(choice: MetricChoice) -> Metric:
    """Load what the metric needs."""
    if choice.dreamsim is not None:
        print(f"loading DreamSim {choice.dreamsim.variant} on {choice.device} ...", file=sys.stderr, flush=True)
    return load_metric(choice.spec.key, device=choice.device, dreamsim=choice.dreamsim)


def describe_metric(choice: MetricChoice) -> dict[str, Any]:
    """What a table of distances cannot say about itself, as JSON values."""
    settings: dict[str, Any] = {"metric": choice.spec.key, "source": choice.spec.source}
    if choice.dreamsim is not None:
        settings |= {"dreamsim_type": choice.dreamsim.type, "patch": choice.dreamsim.patch}
    versions = {name: importlib.metadata.version(name.replace("_", "-")) for name in choice.spec.packages}
    return settings | {
        "device": choice.device,
        "batch_size": choice.batch_size,
        "converged_below": choice.converged_below,
        "lag": choice.lag,
        "versions": {"dltb": dltb.__version__, **versions},
    }


def summary_text(choice: MetricChoice, names: Sequence[str], rows: Sequence[Distance], summary: DistanceSummary) -> str:
    """Means, peaks and verdict for a reader."""
    ref, prev = choice.spec.column("to_ref"), choice.spec.column("to_prev")
    means = [f"last {summary.last}: mean {ref} {summary.to_ref:.6f}"]
    peaks = [f"peak {ref} {rows[summary.peak_ref].to_ref:.6f} at {names[summary.peak_ref]}"]
    if summary.to_prev is not None and summary.peak_prev is not None:
        means.append(f"mean {prev} {summary.to_prev:.6f}")
        peaks.append(f"peak {prev} {rows[summary.peak_prev].to_prev:.6f} at {names[summary.peak_prev]}")
    lines = [", ".join(means), ", ".join(peaks)]
    if summary.converged:
        lines.append(f"CONVERGED: mean {prev} is below {choice.converged_below:g}")
    return "\n".join(lines)


def _check_installed(spec: MetricSpec) -> None:
    missing = [name for name in spec.packages if importlib.util.find_spec(name) is None]
    if missing:
        light = ", ".join(key for key, row in METRICS.items() if not row.packages)
        raise UsageError(
            f"--metric {spec.key} needs {', '.join(missing)}: `uv sync` in a checkout, or `pip install 'dltb[models]'`; "
            f"without: --metric {light}"
        )


def _resolve_device(spec: MetricSpec, requested: str | None) -> str:
    if not spec.needs_torch:
        return "cpu"
    from dltb.models.device import best_device

    return best_device(requested)
