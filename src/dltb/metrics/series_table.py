"""CSV tables of series, a label and then numbers in every row: read with suspicion, judged column by column, reported."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dltb import UsageError
from dltb.imaging.atomic import replacing
from dltb.metrics.series import Verdict, judge

REPORT_COLUMNS = ("series", "verdict", "index", "frame", "value", "band", "reason")
NAMED = 3  # bad cells that a reason names; the rest is counted


@dataclass(frozen=True)
class Column:
    """One series as it stands in the file."""

    name: str
    values: list[float | None]  # None is an empty cell
    problem: str = ""  # names the lines that hold no finite number; empty cells in front are none


@dataclass(frozen=True)
class Judged:
    """A series with its verdict, and the label of its first settled row."""

    column: Column
    verdict: Verdict
    frame: str


def read_table(path: Path) -> tuple[list[str], list[Column]]:
    """The labels of the rows and the series; whatever makes it another kind of file is a UsageError."""
    lines = [(line, row) for line, row in numbered_rows(path, read_text(path)) if any(cell.strip() for cell in row)]
    if not lines:
        raise UsageError(f"{path} is empty; a CSV with a header and a frame column first is expected")
    header = [name.strip() for name in lines[0][1]]
    check_header(path, header)
    for line, row in lines[1:]:
        if len(row) != len(header):
            raise UsageError(f"{path}, line {line}: {len(row)} cells, but the header has {len(header)}")
    columns = [read_column(name, [(line, row[i]) for line, row in lines[1:]]) for i, name in enumerate(header) if i]
    return [row[0].strip() for _, row in lines[1:]], columns


def read_text(path: Path) -> str:
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give the metrics CSV in it")
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text; save the table as CSV in UTF-8") from None


def numbered_rows(path: Path, text: str) -> list[tuple[int, list[str]]]:
    """Every row with the line of the file that it ends on."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        return [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise UsageError(f"{path}, line {reader.line_num}: not CSV ({error})") from None


def check_header(path: Path, header: Sequence[str]) -> None:
    """A comma-separated line of different names: a label's, then at least one series'."""
    if len(header) == 1:
        for separator, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            if separator in header[0]:
                raise UsageError(f"{path} is separated by {name}; commas are expected (and points in numbers)")
        raise UsageError(f"{path} has one column; a frame column and at least one series are expected")
    if "" in header[1:]:
        raise UsageError(f"{path}: column {header.index('', 1) + 1} has no name in the header")
    twice = [name for i, name in enumerate(header) if name in header[:i]]
    if twice:
        raise UsageError(f"{path}: the column {twice[0]!r} stands twice in the header")
    if any(number(name) is not None for name in header[1:]):
        raise UsageError(f"{path} has no header: its first line holds numbers; name the columns there")
    if tuple(header) == REPORT_COLUMNS:
        raise UsageError(f"{path} is a stabilization report; give the metrics CSV that it was made from")


def number(text: str) -> float | None:
    """What a cell holds, NaN and infinities included; None if it is no number. `1_000`, which Python reads, is none."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def read_column(name: str, cells: Sequence[tuple[int, str]]) -> Column:
    """One series from (line, text) pairs."""
    texts = [text.strip() for _, text in cells]
    first = next((i for i, text in enumerate(texts) if text), len(texts))
    values = [number(text) if text else None for text in texts]
    bad = [i for i, value in enumerate(values) if i >= first and (value is None or not math.isfinite(value))]
    named = [f"line {cells[i][0]} {repr(texts[i][:20]) if texts[i] else 'is empty'}" for i in bad[:NAMED]]
    more = [f"{len(bad) - NAMED} more"] if len(bad) > NAMED else []
    return Column(name, values, f"not a finite number: {', '.join(named + more)}" if bad else "")


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
    with replacing(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(REPORT_COLUMNS)
        table.writerows(map(report_row, rows))
