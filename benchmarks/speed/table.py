"""What is said of the results: the table, and the rows in which frames differ."""

import os
from typing import Any

import numpy as np


def first_difference(plain: list[np.ndarray], ours: list[np.ndarray]) -> int | None:
    """Number of the first frame that is not the same byte for byte; None when all are."""
    pairs = enumerate(zip(plain, ours, strict=True), 1)
    return next((index for index, (one, other) in pairs if not np.array_equal(one, other)), None)


def inexact(results: list[dict[str, Any]]) -> list[str]:
    """Rows in which the exact profile was not exact."""
    found = [(result["row"], result["profiles"].get("exact", {})) for result in results]
    return [row for row, exact in found if "error" in exact or exact.get("first_differing_frame") is not None]


def print_table(results: list[dict[str, Any]], about: dict[str, Any]) -> None:
    """The table, and beside it what it was measured on."""
    versions = about["versions"]
    named = ", ".join(f"{name} {versions[name]}" for name in ("torch", "diffusers", "transformers", "opencv", "python"))
    print(f"\n{about['device_name']}, {os.cpu_count()} host cores; {named}")
    heads = ["row", "profile", "plain ms", "dltb ms", "ratio", "of the floor", "first passes s"]
    heads += [f"{what} plain / dltb" for what in ("closing ms", "peak GiB")]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for result in results:
        for profile, found in result["profiles"].items():
            if "error" in found:
                print(
                    f"| {result['row']} {result['size']} | {profile} | {found['error'][:90]} {'| ' * (len(heads) - 2)}"
                )
                continue
            ms = found["ms"]
            share = f"{result['floor_ms'] / ms['dltb']:.0%} of {result['floor_ms']:g}"
            cells = [f"{result['row']} {result['size']}", profile, ms["plain"], ms["dltb"], f"{found['ratio']}x", share]
            pairs = [f"{found[what]['plain']} / {found[what]['dltb']}" for what in ("closing_ms", "peak_gib")]
            cells += [found["first_passes_s"], *pairs]
            print(f"| {' | '.join(map(str, cells))} |")
