"""Whether memory stays constant over a long run, checkpoints included.

    uv run python -m benchmarks.memory [--passes 1000] [--size 64]

Runs dltb-continuous with the mask on over a clip of that many frames (the example, repeated), and samples this process's
resident set twice a second. Linux only.
"""

import argparse
import statistics
import tempfile
import threading
from pathlib import Path

from dltb.args.options import ModelOptions, OutputOptions, VideoOptions
from dltb.imaging.frames import prepare_frame
from dltb.imaging.video import probe_video, read_video
from dltb.output.mp4 import Mp4Writer
from dltb.runs.video import run_video

CLIP = Path(__file__).parent.parent / "input_example" / "courtyard.mp4"


def long_clip(path: Path, frames: int, size: int) -> Path:
    """The example clip over and over, ``frames`` long."""
    loop = [prepare_frame(frame, size, size) for frame in read_video(CLIP)]
    with Mp4Writer(path, size, size, probe_video(CLIP).fps) as film:
        for index in range(frames):
            film.write(loop[index % len(loop)])
    return path


def sample(samples: list[float], done: threading.Event) -> None:
    """Append this process's resident set in MiB every half second."""
    while not done.wait(0.5):
        samples.append(int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20)


def main() -> None:
    """Run and print the resident set in tenths of the run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=1000)
    parser.add_argument("--size", type=int, default=64)
    args = parser.parse_args()
    samples: list[float] = []
    done = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        clip = long_clip(Path(folder) / "long.mp4", args.passes, args.size)
        watcher = threading.Thread(target=sample, args=(samples, done))
        watcher.start()
        model = ModelOptions(width=args.size, height=args.size)
        run_video(
            "dltb-continuous", str(clip), VideoOptions(reproject_mask=True), model, OutputOptions(output_dir=folder)
        )
        done.set()
        watcher.join()
    tenths = [samples[len(samples) * part // 10 : len(samples) * (part + 1) // 10] for part in range(10)]
    medians = [round(statistics.median(part), 1) for part in tenths]
    print(f"resident MiB, median of each tenth of {args.passes} passes: {medians}")
    print(f"growth from the third tenth to the last: {medians[-1] - medians[2]:+.1f} MiB")


if __name__ == "__main__":
    main()
