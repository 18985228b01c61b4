"""How long a user waits before anything happens: --help of every tool, and the first pass of the bare command.

uv run python -m benchmarks.startup [--rounds 5]
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def seconds(argv: list[str]) -> float:
    """Wall time of one process."""
    started = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    plain = statistics.median(seconds([sys.executable, "-c", "pass"]) for _ in range(rounds))
    print(f"{'python -c pass':24} {plain:.3f} s")
    for name in scripts:
        tool = str(Path(sys.executable).with_name(name))
        median = statistics.median(seconds([tool, "--help"]) for _ in range(rounds))
        print(f"{name + ' --help':24} {median:.3f} s")
    with tempfile.TemporaryDirectory() as folder:
        tool = str(Path(sys.executable).with_name("dltb-continuous"))
        print(f"{'one pass, all in':24} {seconds([tool, '--max-frames', '1', '--output-dir', folder]):.1f} s")


if __name__ == "__main__":
    main()
