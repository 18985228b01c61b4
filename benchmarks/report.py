"""How long the report of a 300-frame run takes to build and to open, and how long dltb-view's list of many runs takes.

uv run python -m benchmarks.report [--size 256] [--frames 300] [--runs 300]

The run is one of dltb-continuous with the model left out (--control identity), the mask on and every frame saved, of a
clip that slides over the example image: what a report does depends on files, not on who painted them. Opening needs
Chromium (see tests/pages/browser.py); it ends when the page's script has drawn the first pass.
"""

import argparse
import contextlib
import io
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from fractions import Fraction
from pathlib import Path

import numpy as np

from dltb import continuous, report
from dltb.imaging.frames import read_image
from dltb.output.mp4 import Mp4Writer
from dltb.pages.shelf import Shelf

IMAGE = Path(__file__).parent.parent / "input_example" / "test_512.png"


def make_run(root: Path, size: int, frames: int) -> Path:
    """A finished run of a clip of that many frames."""
    picture = np.tile(read_image(IMAGE), (1 + size // 400, 2 + size // 400, 1))
    width = picture.shape[1] - size
    with Mp4Writer(root / "clip.mp4", size, size, Fraction(24)) as clip:
        for n in range(frames):
            left = abs(n % (2 * width) - width)
            clip.write(np.ascontiguousarray(picture[:size, left : left + size]))
    argv = ["--input", str(root / "clip.mp4"), "--width", str(size), "--height", str(size), "--output-dir", str(root)]
    with redirect_stdout(io.StringIO()):
        assert continuous.main([*argv, "--control", "identity", "--reproject-mask", "--save-every", "1"]) == 0
    return root / "clip_stateful-a0.3-fbmask_control-identity"


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def opened(page: Path, runs: int = 5) -> Iterator[float]:
    """Seconds from asking for the page to its first pass being drawn."""
    from tests.pages.browser import chromium

    with chromium() as browser:
        for _ in range(runs):
            tab = browser.new_page()
            started = time.perf_counter()
            tab.goto(page.resolve().as_uri())
            tab.wait_for_function("window.dltbReady === true")
            yield time.perf_counter() - started
            tab.close()


def list_many(run: Path, count: int) -> tuple[float, float]:
    """Seconds of the first and of a later list of ``count`` copies of a run, without their frames."""
    with tempfile.TemporaryDirectory() as folder:
        for n in range(count):
            copy = Path(folder) / f"sweep{n // 50}" / f"run{n}"
            (copy / "frames").mkdir(parents=True)
            for name in ("run.json", "steps.jsonl", "frames/frame_0001.png"):
                shutil.copy(run / name, copy / name)
        shelf = Shelf(Path(folder))
        first = timed(shelf.summaries)
        return first, min(timed(shelf.summaries) for _ in range(5))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--runs", type=int, default=300)
    options = parser.parse_args()
    print(f"{options.frames} frames of {options.size} px, {len(os.sched_getaffinity(0))} cores")
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(KeyboardInterrupt):
        run = make_run(Path(folder), options.size, options.frames)
        used = time.process_time()
        with redirect_stdout(io.StringIO()):
            seconds = timed(lambda: report.main([str(run), "--source", str(Path(folder) / "clip.mp4")]))
        page = run / "report.html"
        used = time.process_time() - used
        print(f"built in {seconds:.1f} s ({used:.1f} s of processor time), {page.stat().st_size / 2**20:.1f} MiB")
        print("opened in", ", ".join(f"{one:.2f}" for one in opened(page)), "s")
        first, later = list_many(run, options.runs)
        print(f"list of {options.runs} runs: {first:.3f} s, again {later:.3f} s")


if __name__ == "__main__":
    main()
