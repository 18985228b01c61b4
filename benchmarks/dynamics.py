"""What the embedded models' loops do when left alone: rest, cycles, colour, and how fast two starts part or meet.

    uv run python -m benchmarks.dynamics [--model tiny-turbo tiny-klein] [--passes 200] [--size 128] [--fresh] [--out DIR]

Free runs of dltb-iterate from three starts: the example image, the same with +-1 in 2 % of its values, and another image;
each is measured by dltb-distance against the first. Minutes on two cores; NOTES.md has what came out.
"""

import argparse
from pathlib import Path

import numpy as np

from dltb import analyze_distance, iterate
from dltb.imaging import prepare_frame
from dltb.imaging.frames import read_image, write_png

INPUTS = Path(__file__).parent.parent / "input_example"
TOUCHED = 0.02  # share of the values
SEED = 1234


def write_starts(folder: Path, size: int) -> list[Path]:
    """The three starts as PNGs of the size of a pass, so that nothing is rounded on the way in."""
    folder.mkdir(parents=True, exist_ok=True)
    image, other = (prepare_frame(read_image(INPUTS / f"{name}_512.png"), size, size) for name in ("test", "seeding"))
    random = np.random.default_rng(SEED)
    step = random.choice((-1, 1), image.shape) * (random.random(image.shape) < TOUCHED)
    touched = np.clip(image.astype(int) + step, 0, 255).astype(np.uint8)
    paths = [folder / f"{name}.png" for name in ("start", "touched", "other")]
    for path, frame in zip(paths, (image, touched, other), strict=True):
        write_png(path, frame)
    return paths


def run(argv: list[str], tool: object) -> None:
    if tool.main(argv):
        raise SystemExit(f"failed: {' '.join(argv)}")


def main() -> None:
    """Make the runs that are missing and print what dltb-distance says of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="*", default=["tiny-turbo", "tiny-klein"])
    parser.add_argument("--passes", type=int, default=200)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--fresh", action="store_true", help="also where the runs are there, e.g. of other weights")
    parser.add_argument("--out", type=Path, default=Path("untracked/dynamics"))
    args = parser.parse_args()
    starts = write_starts(args.out / "starts", args.size)
    size = ["--width", str(args.size), "--height", str(args.size)]
    common = ["--iterations", str(args.passes), *size, "--overwrite" if args.fresh else "--resume"]
    for model in args.model:
        root = args.out / model
        for start in starts:
            run(["--model", model, "--input", str(start), "--output-dir", str(root), *common], iterate)
        first, *others = [root / f"{start.stem}_free-running" for start in starts]
        for other in others:
            print(f"\n== {model}, {other.name}", flush=True)
            run([str(other), "--against", str(first), "--metric", "pixel"], analyze_distance)


if __name__ == "__main__":
    main()
