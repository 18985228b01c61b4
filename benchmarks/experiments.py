"""The A/B experiments of the klein line, redone on the embedded model: warp, mask, tails, prompt ladder.

    uv run python -m benchmarks.experiments [--only warp mask tails prompts] [--size 128] [--frames 24] [--out DIR]

Each leg is an ordinary run of dltb-klein, each comparison one of dltb-compare, under DIR/<experiment>/. A leg that is
complete is not made again. Minutes on two cores; NOTES.md has what came out.
"""

import argparse
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
# experiment -> leg -> what differs from the common flags
EXPERIMENTS = {
    "warp": {"warp": DUAL_REF, "no-warp": [*DUAL_REF, "--no-reproject"]},
    "mask": {"plain": ["--anchor-blend", "0.1"], "mask": ["--anchor-blend", "0.1", "--reproject-mask"]},
    "tails": {"plain": [*DUAL_REF, *TAILS], "mask": [*DUAL_REF, *TAILS, "--reproject-mask"]},
    "prompts": {slug: [*DUAL_REF, "--prompt", prompt] for slug, prompt in LADDER.items()},
}


def make(root: Path, legs: dict[str, list[str]], common: list[str]) -> list[str]:
    """Run every leg into a folder of its own and return the run directories."""
    runs = []
    for leg, flags in legs.items():
        if klein.main([*common, *flags, "--resume", "--output-dir", str(root / leg)]):
            raise SystemExit(f"{leg} failed")
        runs += [str(run.parent) for run in (root / leg).glob("*/run.json")]
    return runs


def main() -> None:
    """Run what is asked for and print the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=EXPERIMENTS, default=list(EXPERIMENTS))
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--frames", type=int, default=24)
    parser.add_argument("--out", type=Path, default=Path("untracked/experiments"))
    args = parser.parse_args()
    size = ["--width", str(args.size), "--height", str(args.size)]
    common = ["--model", "tiny-klein", "--save-every", "1", "--max-frames", str(args.frames), *size]
    for name in args.only:
        print(f"\n== {name}")
        runs = make(args.out / name, EXPERIMENTS[name], common)
        compare.main([*runs, "--out", str(args.out / name / "comparison")])


if __name__ == "__main__":
    main()
