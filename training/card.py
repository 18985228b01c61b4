"""The model card: the measured numbers as Markdown, with the data and its licences."""

from pathlib import Path

HEAD = """# tiny-klein and tiny-turbo

Two small models trained by this project (`training/`) to stand in for FLUX.2 klein and sd-turbo. They share one VAE.
They know photographs of landscapes, cities and surfaces at 256x256 and the instructions listed below, nothing else.

All numbers are measured on pictures from source files that training never saw, through the diffusers pipelines.
"""


def lines_of(section, value):
    """Nested numbers as table rows."""
    if not isinstance(value, dict):
        return [f"| {section} | {value} |"]
    rows = []
    for name, inner in value.items():
        rows += lines_of(f"{section}: {name}" if section else name or "(empty)", inner)
    return rows


def data_table():
    """Packages and licences from SOURCES.tsv."""
    rows = [line.split("\t") for line in (Path(__file__).parent / "SOURCES.tsv").read_text().splitlines()]
    table = ["| " + " | ".join(row) + " |" for row in rows]
    return [table[0], "|" + " --- |" * len(rows[0]), *table[1:]]


def write_card(numbers, path):
    parts = [HEAD, "| | measured |", "| --- | --- |"]
    for section, value in numbers.items():
        parts += lines_of(section, value)
    parts += ["", "## Data", "", *data_table(), "", "The CC-BY authors are named in the packages' copyright files."]
    path.write_text("\n".join(parts) + "\n")
