"""Train everything, export it and measure it.

    python -m training --data untracked/train256 --out untracked/legs --minutes 8

The VAE, then klein and turbo on its latents, `--minutes` each; about 25 minutes of one H200 with the default.
The stages run as processes of their own, so each starts from the same seed however it is started.
"""

import argparse
import subprocess
import sys
from pathlib import Path


def run(module, *options):
    subprocess.run([sys.executable, "-m", f"training.{module}", *map(str, options)], check=True)


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m training", description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--minutes", type=float, default=8, help="per stage")
    parser.add_argument("--skip-evaluation", action="store_true", help="the evaluation takes an hour on two cores")
    options = parser.parse_args(argv)
    common = ("--data", options.data, "--out", options.out, "--minutes", options.minutes)
    run("vae", *common)
    for stage in ("klein", "turbo"):
        run(stage, *common, "--vae", options.out / "vae.safetensors")
    weights = options.out / "weights"
    run("export", "--legs", options.out, "--out", weights)
    if not options.skip_evaluation:
        run("evaluate", "--weights", weights, "--data", options.data, "--out", options.out / "evaluation")


if __name__ == "__main__":
    main()
