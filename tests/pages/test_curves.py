"""Curves and the verdicts on their ends."""

import numpy as np

from dltb.pages.curves import charts_of, read_series, series_of
from dltb.pages.run import read_run


def by_name(charts):
    return {one["name"]: one for chart in charts for one in chart["series"]}


def test_curves_of_a_run(runs):
    """Catches a curve over rows instead of passes, and a table that replaces what the run recorded of every pass."""
    run = read_run(runs.feedback)
    (run.directory / "drift_metrics.csv").unlink(missing_ok=True)
    series = by_name(charts_of(run, run.main, {"detail": {1: 9.0}, "delta_source": {3: 1.0}}))
    assert series["pixel_to_ref"]["x"] == list(range(1, 25))
    assert series["pixel_to_prev"]["x"] == list(range(2, 25)), "the first pass has none before it"
    assert series["delta_prev"]["y"] == [run.main.steps[n]["delta_prev"] for n in range(2, 25)]
    assert len(series["detail"]["x"]) == 24, "the table has it of every pass"
    assert series["delta_source"]["x"] == [3]
    assert "seed" not in series
    assert series["seconds"]["verdict"] is None


def test_the_verdict_stands_at_a_pass():
    """Catches a plateau that is drawn at the index of its row."""
    x = np.arange(60)
    noise = np.random.default_rng(1).normal(0, 0.02, 60)
    ys = 5 - 5 * np.exp(-x / 4) + noise
    told = series_of("flip_to_ref", {int(10 * (n + 1)): float(y) for n, y in zip(x, ys, strict=True)}, judged=True)
    assert told["verdict"]["verdict"] == "stable"
    assert told["verdict"]["from"] in told["x"]
    assert 60 < told["verdict"]["from"] < 350
    assert abs(told["verdict"]["value"] - 5) < 0.1


def test_tables_with_holes(tmp_path):
    """Catches NaN and words that reach the page's JSON, and a foreign table that ends the report."""
    table = tmp_path / "distance_metrics.csv"
    table.write_text("frame,a_to_ref,b\nframe_0010,1,x\nframe_0020,nan,\nother,3,\nframe_0030,inf,\nframe_0040,4,\n")
    assert read_series(table) == {"a_to_ref": {10: 1.0, 40: 4.0}}
    table.write_text("not a table")
    assert read_series(table) == {}
