"""CSV tables of series, a label and then numbers in every row: written whole, read with suspicion, shown in columns."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dltb import UsageError
from dltb.imaging.atomic import replacing
from dltb.metrics.series import LARGEST

LABEL = "frame"
NAMED = 3  # bad cells that a message names; the rest is counted

Columns = Mapping[str, Sequence[float | None]]  # None is an empty cell


@dataclass(frozen=True)
class Column:
    """One series as it stands in a file."""

    name: str
    values: list[float | None]  # None is an empty cell
    problem: str = ""  # names the lines that hold no finite number; empty cells in front are none


def write_columns(path: Path, labels: Sequence[str], columns: Columns, *, label: str = LABEL) -> None:
    """Write a table whole or not at all; ``label`` heads the first column."""
    rows = zip(labels, *columns.values(), strict=True)
    write_csv(path, (label, *columns), ((first, *map(_cell, values)) for first, *values in rows))


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write rows of text whole or not at all."""
    with replacing(path) as temporary:
        write_rows(temporary, header, rows)


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """The same for a file that is not in its place yet."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(header)
        table.writerows(rows)


def _cell(value: float | None) -> str:
    """A count as a count, a measure with eight digits, nothing as nothing."""
    if value is None or isinstance(value, int):
        return "" if value is None else str(value)
    return f"{value:.8f}"


def read_columns(path: Path) -> tuple[list[str], dict[str, list[float | None]]]:
    """The labels and the columns of a table in which every cell must be a number or empty.

    Raises:
        UsageError: when it is another kind of file, or a cell is neither.
    """
    labels, columns = read_table(path, holes=True)
    for column in columns:
        if column.problem:
            raise UsageError(f"{path}, column {column.name!r}: {column.problem}")
    return labels, {column.name: column.values for column in columns}


def read_table(path: Path, *, holes: bool = False) -> tuple[list[str], list[Column]]:
    """The labels of the rows and the series; whatever makes it another kind of file is a UsageError.

    With ``holes`` an empty cell is none of a column's problems, wherever it stands.
    """
    lines = [(line, row) for line, row in _numbered_rows(path, _read_text(path)) if any(cell.strip() for cell in row)]
    if not lines:
        raise UsageError(f"{path} is empty; a CSV with a header and a frame column first is expected")
    header = [name.strip() for name in lines[0][1]]
    _check_header(path, header)
    for line, row in lines[1:]:
        if len(row) != len(header):
            raise UsageError(f"{path}, line {line}: {len(row)} cells, but the header has {len(header)}")
    numbers = [line for line, _ in lines[1:]]
    cells = zip(*([cell.strip() for cell in row] for _, row in lines[1:]), strict=True)
    labels, *columns = map(list, cells) if numbers else [[] for _ in header]
    return labels, [_read_column(name, numbers, texts, holes) for name, texts in zip(header[1:], columns, strict=True)]


def _read_text(path: Path) -> str:
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


def _numbered_rows(path: Path, text: str) -> list[tuple[int, list[str]]]:
    """Every row with the line of the file that it ends on."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        return [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise UsageError(f"{path}, line {reader.line_num}: not CSV ({error})") from None


def _check_header(path: Path, header: Sequence[str]) -> None:
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
    if any(_number(name) is not None for name in header[1:]):
        raise UsageError(f"{path} has no header: its first line holds numbers; name the columns there")


def _read_column(name: str, lines: Sequence[int], texts: Sequence[str], holes: bool) -> Column:
    """One series, and what is wrong with it."""
    first = next((i for i, text in enumerate(texts) if text), len(texts))
    values = [_number(text) if text else None for text in texts]
    bad = [
        i
        for i, value in enumerate(values)
        if (value is None and (texts[i] or (i > first and not holes)))
        or (value is not None and not abs(value) <= LARGEST)
    ]
    named = [f"line {lines[i]} {repr(texts[i][:20]) if texts[i] else 'is empty'}" for i in bad[:NAMED]]
    more = [f"{len(bad) - NAMED} more"] if len(bad) > NAMED else []
    return Column(
        name, values, f"no finite number, or one beyond {LARGEST:g}: {', '.join(named + more)}" if bad else ""
    )


def _number(text: str) -> float | None:
    """What a cell holds, NaN and infinities included; None if it is no number. `1_000`, which Python reads, is none."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Lines whose columns stand under each other, for a reader."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]
