"""The tables that the distance tools write: a frame's name, then numbers, one row a frame."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from dltb import UsageError
from dltb.imaging.atomic import replacing

LABEL = "frame"


def write_columns(
    path: Path, frames: Sequence[str], columns: Mapping[str, Sequence[float | None]], *, label: str = LABEL
) -> None:
    """Write the CSV whole or not at all; None is an empty cell, and ``label`` heads the first column."""
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow((label, *columns))
        for frame, *values in zip(frames, *columns.values(), strict=True):
            table.writerow((frame, *map(_cell, values)))


def _cell(value: float | None) -> str:
    """A count as a count, a measure with eight digits, nothing as nothing."""
    if value is None or isinstance(value, int):
        return "" if value is None else str(value)
    return f"{value:.8f}"


def read_columns(path: Path) -> tuple[list[str], dict[str, list[float | None]]]:
    """The frames and the columns of such a table; an empty cell is None."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        columns = {name: [float(row[i]) if row[i] else None for row in rows] for i, name in enumerate(header) if i}
        return [row[0] for row in rows], columns
    except (OSError, ValueError, IndexError, csv.Error) as error:
        raise UsageError(f"{path} is not a table of distances: {error}") from None
