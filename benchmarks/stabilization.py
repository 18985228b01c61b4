"""How well dltb-stabilization judges the held-out corpus, side by side with pymbar and MSER-5, and how long it takes.

    uv run python -m benchmarks.stabilization [--count 1000] [--seed 31415]

The corpus is tests/metrics/corpus.py with shapes and seeds that the detector was not developed on. pymbar's
detect_equilibration (Chodera 2016) and MSER-5 (White 1997) only say where a plateau opens: they are compared by that, on
the stable series, and by how often they find one where there is none. pymbar is left out where it is not installed.
"""

import argparse
import logging
import time
from collections import Counter
from collections.abc import Callable

import numpy as np

from dltb.metrics.series import VERDICTS, judge
from tests.metrics.corpus import Example, examples

Finder = Callable[[np.ndarray], int | None]


def ours(x: np.ndarray) -> int | None:
    return judge(x.tolist()).index


def mser5(x: np.ndarray) -> int | None:
    """White (1997): batches of 5; the cut that minimises the standard error of the mean of what is left.

    As Hoad et al. (2010) advise, the last five batches are no candidates, and a cut in the second half means that the
    series is too short to tell.
    """
    batches = x[: len(x) // 5 * 5].reshape(-1, 5).mean(axis=1)
    cuts = range(max(1, len(batches) - 5))
    cut = min(cuts, key=lambda d: np.var(batches[d:]) / (len(batches) - d))
    return cut * 5


def mser5_first_half(x: np.ndarray) -> int | None:
    cut = mser5(x)
    return cut if cut <= len(x) / 2 else None


def pymbar_finder() -> Finder | None:
    logging.getLogger("pymbar").setLevel(logging.ERROR)  # it greets with advice about jax
    try:
        from pymbar.timeseries import detect_equilibration
    except ImportError:
        return None
    return lambda x: int(detect_equilibration(x)[0])


def print_confusion(corpus: list[Example]) -> None:
    """Verdicts of the detector against the labels, right share and false plateaus."""
    found = [judge(example.values).verdict for example in corpus]
    counts = Counter((example.verdict, verdict) for example, verdict in zip(corpus, found, strict=True))
    names = VERDICTS[:6]
    print(f"{'label | verdict':15}" + "".join(f"{name:>15}" for name in names))
    for label in names:
        print(f"{label:15}" + "".join(f"{counts[label, name]:15}" for name in names))
    right = sum(counts[name, name] for name in names) / len(corpus)
    unstable = [verdict for example, verdict in zip(corpus, found, strict=True) if example.verdict != "stable"]
    print(f"right: {right:.1%}; unstable series called stable: {unstable.count('stable') / len(unstable):.1%}\n")


def print_finders(corpus: list[Example], finders: dict[str, Finder]) -> None:
    """Errors of the settle sample in % of the length, on stable series; missing plateaus count as an error of 100 %."""
    print(
        f"{'settle sample, error in % of length':38}{'median':>8}{'75 %':>8}{'90 %':>8}{'missed':>8}{'false':>8}{'s':>8}"
    )
    for name, find in finders.items():
        start = time.perf_counter()
        found = [find(np.array(example.values)) for example in corpus]
        seconds = time.perf_counter() - start
        pairs = [(e, f) for e, f in zip(corpus, found, strict=True) if e.settle is not None]
        errors = [100.0 if f is None else 100 * abs(f - e.settle) / len(e.values) for e, f in pairs]
        missed = np.mean([f is None for _, f in pairs])
        false = np.mean([f is not None for e, f in zip(corpus, found, strict=True) if e.settle is None])
        quantiles = "".join(f"{np.percentile(errors, q):8.2f}" for q in (50, 75, 90))
        print(f"{name:38}{quantiles}{missed:8.1%}{false:8.1%}{seconds:8.1f}")


def print_speed() -> None:
    rng = np.random.default_rng(0)
    t = np.arange(10_000)
    shapes = {
        "stable": np.exp(-t / 500) + 0.05 * rng.standard_normal(len(t)),
        "wandering": np.cumsum(rng.standard_normal(len(t))),
        "oscillating": 2 * np.sin(t / 7) + rng.standard_normal(len(t)),
        "rising": t + 200 * rng.standard_normal(len(t)),
    }
    for name, x in shapes.items():
        values = x.tolist()
        start = time.perf_counter()
        verdict = judge(values).verdict
        print(f"10,000 samples, {name}: {verdict}, {time.perf_counter() - start:.3f} s")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=31415)
    args = parser.parse_args()
    corpus = list(examples(args.seed, args.count, tuning=False))
    print_confusion(corpus)
    finders = {"dltb-stabilization": ours, "MSER-5": mser5, "MSER-5, first half only": mser5_first_half}
    pymbar = pymbar_finder()
    if pymbar:
        finders["pymbar.detect_equilibration"] = pymbar
    print_finders(corpus, finders)
    print()
    print_speed()


if __name__ == "__main__":
    main()
