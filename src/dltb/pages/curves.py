"""The curves of a run over its passes: from steps.jsonl, from the tables next to it, and from its pictures."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dltb import UsageError
from dltb.metrics.series_table import Column, judge_column, read_table
from dltb.metrics.stabilization_plot import headline
from dltb.pages.run import Run, Stretch

TABLES = ("distance_metrics.csv", "drift_metrics.csv")
_NUMBERED = re.compile(r"(?:frame_)?(\d+)")


@dataclass(frozen=True)
class Chart:
    """Series that share an axis."""

    key: str
    title: str
    judged: bool  # a verdict on the end makes sense
    names: re.Pattern


def _chart(key: str, title: str, names: str, *, judged: bool = True) -> Chart:
    return Chart(key, title, judged, re.compile(names))


CHARTS = (
    _chart(
        "distance",
        "Perceptual distance",
        r"(dreamsim|flip|ssim|ms-ssim|lpips|pixel|.+)_(to_ref|to_prev|to_lag|input_to_ref)",
    ),
    _chart("drift", "Drift, mean absolute difference in levels 0..255", r"delta_(prev|original|source)"),
    _chart("lightness", "Lightness, CIELAB L*", r"lab_l"),
    _chart("colour", "Colour, CIELAB a* (green to red) and b* (blue to yellow)", r"lab_[ab]"),
    _chart("saturation", "Saturation, HSV 0..255", r"saturation"),
    _chart("detail", "Detail, mean |Laplacian| in levels", r"detail"),
    _chart("clipped", "Share of values at 0 or 255", r"clipped"),
    _chart("mask", "Share of pixels repainted by the mask", r"mask_share", judged=False),
    _chart("motion", "Mean motion of the source, px per frame", r"motion_px", judged=False),
    _chart("warp", "Error of the warped source over that of no warp", r"warp_error", judged=False),
    _chart("seconds", "Seconds per pass", r"seconds", judged=False),
)
# What a pass records that is no curve.
_NOT_DRAWN = {"phase", "pass", "seed", "steps_run", "sigma_start"}


def charts_of(run: Run, stretch: Stretch, measured: Mapping[str, Mapping[int, float]]) -> list[dict[str, Any]]:
    """Charts with their series, as JSON values; the first source that has a series gives it."""
    series: dict[str, Mapping[int, float]] = {}
    for found in (_from_steps(stretch), *_from_tables(run, stretch), measured):
        series = {**found, **series}
    charts = [_drawn(chart, series) for chart in CHARTS]
    known = {one["name"] for chart in charts for one in chart["series"]}
    others = [_drawn(_chart(name, name, re.escape(name), judged=False), series) for name in series if name not in known]
    return [chart for chart in (*charts, *others) if chart["series"]]


def _drawn(chart: Chart, series: Mapping[str, Mapping[int, float]]) -> dict[str, Any]:
    own = sorted(name for name in series if chart.names.fullmatch(name))
    drawn = [series_of(name, series[name], judged=chart.judged) for name in own]
    return {"key": chart.key, "title": chart.title, "series": drawn}


def series_of(name: str, values: Mapping[int, float], *, judged: bool) -> dict[str, Any]:
    """One series with its verdict, as JSON values."""
    numbers = sorted(values)
    ys = [values[number] for number in numbers]
    told = {"name": name, "x": numbers, "y": ys, "first": ys[0], "last": ys[-1], "low": min(ys), "high": max(ys)}
    return told | {"verdict": _verdict(name, numbers, ys) if judged else None}


def _verdict(name: str, numbers: list[int], ys: list[float]) -> dict[str, Any]:
    found = judge_column([str(number) for number in numbers], Column(name, list(ys)))
    verdict = found.verdict
    opening = None if verdict.index is None else numbers[verdict.index]
    told = {"verdict": verdict.verdict, "headline": headline(found), "reason": verdict.reason}
    return told | {"from": opening, "value": verdict.value, "band": verdict.band}


def _from_steps(stretch: Stretch) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    for number, record in sorted(stretch.steps.items()):
        for name, value in record.items():
            if name not in _NOT_DRAWN and is_number(value):
                found.setdefault(name, {})[number] = float(value)
    return found


def _from_tables(run: Run, stretch: Stretch) -> Iterator[dict[str, dict[int, float]]]:
    """The tables of the measuring tools, which are about the main loop."""
    for name in TABLES if stretch.name == "main" else ():
        path = run.directory / name
        if path.is_file():
            yield read_series(path)


def read_series(path: Path) -> dict[str, dict[int, float]]:
    """The columns of a table by pass; a table that cannot be read has none."""
    try:
        labels, columns = read_table(path)
    except UsageError:
        return {}
    numbers = [int(match[1]) if (match := _NUMBERED.fullmatch(label)) else None for label in labels]
    return {
        column.name: dict(_cells(numbers, column.values)) for column in columns if any(map(is_number, column.values))
    }


def _cells(numbers: list[int | None], values: list[float | None]) -> Iterator[tuple[int, float]]:
    for number, value in zip(numbers, values, strict=True):
        if number is not None and is_number(value):
            yield number, value


def is_number(value: Any) -> bool:
    """A finite number, not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
