"""Tables of series, judged column by column, and the report of the verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dltb import UsageError
from dltb.metrics.series import Verdict, judge
from dltb.metrics.tables import Column, aligned, read_table, write_csv

REPORT_COLUMNS = ("series", "verdict", "index", "frame", "value", "band", "reason")


@dataclass(frozen=True)
class Judged:
    """A series with its verdict, and the label of its first settled row."""

    column: Column
    verdict: Verdict
    frame: str


def judge_table(path: Path) -> tuple[int, list[Judged]]:
    """How many rows a table has, and the verdicts on its series; what is no such table is a UsageError."""
    labels, columns = read_table(path)
    if tuple(column.name for column in columns) == REPORT_COLUMNS[1:]:
        raise UsageError(f"{path} is a stabilization report; give the metrics CSV that it was made from")
    return len(labels), [judge_column(labels, column) for column in columns]


def judge_column(labels: Sequence[str], column: Column) -> Judged:
    """The verdict on a series. By its name, a *_prev series is measured against the row before."""
    if column.problem:
        return Judged(column, Verdict("invalid", column.problem), "")
    verdict = judge(column.values, to_previous=column.name.endswith("_prev"))
    return Judged(column, verdict, "" if verdict.index is None else labels[verdict.index])


def report_row(judged: Judged) -> tuple[str, ...]:
    """The cells of the report; numbers with six significant digits, empty when the series has not settled."""
    verdict = judged.verdict
    index = "" if verdict.index is None else str(verdict.index)
    value, band = ("" if x is None else f"{x:.6g}" for x in (verdict.value, verdict.band))
    return (judged.column.name, verdict.verdict, index, judged.frame, value, band, verdict.reason)


def write_report(out: Path, rows: Sequence[Judged]) -> None:
    """Write the report whole or not at all."""
    write_csv(out, REPORT_COLUMNS, map(report_row, rows))


def is_report(path: Path) -> bool:
    """Whether an existing file is such a report, by its header."""
    return path.is_file() and path.read_bytes().startswith(",".join(REPORT_COLUMNS).encode())


def report_text(rows: Sequence[Judged]) -> str:
    """The report for a reader, the reasons on lines of their own."""
    cells = [REPORT_COLUMNS[:-1], *([cell or "-" for cell in report_row(row)[:-1]] for row in rows)]
    first, *lines = aligned(cells)
    return "\n".join([first, *(f"{line}\n    {row.verdict.reason}" for line, row in zip(lines, rows, strict=True))])
