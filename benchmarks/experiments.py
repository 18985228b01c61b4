"""The A/B experiments of the klein line, redone on the embedded model: warp, mask, tails, prompt ladder.

    uv run python -m benchmarks.experiments [--only warp mask ...] [--fresh] [--out DIR]

Each leg is an ordinary run of dltb-klein, each comparison one of dltb-compare, under DIR/<experiment>/, where its table is
kept as comparison.txt. A leg that is complete is not made again, unless --fresh asks for it: the settings of a run do not
tell one set of embedded weights from another. Sizes and lengths are those of NOTES.md, which has what came out; --size
and --frames make short trials. Minutes on two cores.
"""

import argparse
import contextlib
import io
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dltb import compare, klein

LADDER = {
    "neutral": "",
    "enhance-slight": "slightly enhance the fine details",
    "enhance-photo": "enhance details and lighting, make it photorealistic",
    "enhance-dramatic": "dramatically enhance every texture and surface detail",
    "weathering": "add more weathering, moss and water stains to the stone",
}
DUAL_REF = ["--conditioning", "dual-ref"]
TAILS = ["--tail-frames", "10", "--tail-modes", "freeze,free,black"]


@dataclass(frozen=True)
class Experiment:
    """Runs of one clip, and what differs between them."""

    legs: Mapping[str, Sequence[str]]  # flags beyond the common ones
    size: int = 128  # px
    frames: int = 24


EXPERIMENTS = {
    "warp": Experiment({"warp": DUAL_REF, "no-warp": [*DUAL_REF, "--no-reproject"]}),
    "mask": Experiment(
        {"plain": ["--anchor-blend", "0.1"], "mask": ["--anchor-blend", "0.1", "--reproject-mask"]}, frames=48
    ),
    "mask-dual-ref": Experiment({"plain": DUAL_REF, "mask": [*DUAL_REF, "--reproject-mask"]}, size=256, frames=48),
    "tails": Experiment({"plain": [*DUAL_REF, *TAILS], "mask": [*DUAL_REF, *TAILS, "--reproject-mask"]}),
    "prompts": Experiment({slug: [*DUAL_REF, "--prompt", prompt] for slug, prompt in LADDER.items()}, frames=16),
}


def make(root: Path, legs: Mapping[str, Sequence[str]], common: Sequence[str]) -> list[str]:
    """Run every leg into a folder of its own and return the run directories."""
    runs = []
    for leg, flags in legs.items():
        if klein.main([*common, *flags, "--output-dir", str(root / leg)]):
            raise SystemExit(f"{leg} failed")
        runs += [str(run.parent) for run in (root / leg).glob("*/run.json")]
    return runs


def compare_legs(runs: Sequence[str], root: Path) -> str:
    """The table of a comparison, which is also kept."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        code = compare.main([*runs, "--out", str(root / "comparison")])
    if code:
        raise SystemExit(f"the comparison of {root.name} failed")
    (root / "comparison.txt").write_text(told.getvalue(), encoding="utf-8")
    return told.getvalue()


def main() -> None:
    """Run what is asked for and print the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=EXPERIMENTS, default=list(EXPERIMENTS))
    parser.add_argument("--size", type=int)
    parser.add_argument("--frames", type=int)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("untracked/experiments"))
    args = parser.parse_args()
    for name in args.only:
        print(f"\n== {name}", flush=True)
        experiment = EXPERIMENTS[name]
        size, frames = str(args.size or experiment.size), str(args.frames or experiment.frames)
        common = [
            "--model",
            "tiny-klein",
            "--save-every",
            "1",
            "--max-frames",
            frames,
            "--width",
            size,
            "--height",
            size,
        ]
        common.append("--overwrite" if args.fresh else "--resume")
        runs = make(args.out / name, experiment.legs, common)
        if args.fresh:  # dltb-compare keeps a comparison of the runs that these replace
            shutil.rmtree(args.out / name / "comparison", ignore_errors=True)
        print(compare_legs(runs, args.out / name))


if __name__ == "__main__":
    main()
