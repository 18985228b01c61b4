"""Frame folders as runs, copies and file managers leave them."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from dltb import UsageError
from dltb.imaging.folder import common_size, find_frames, find_reference, list_frames, list_tails, run_directory
from dltb.imaging.frames import write_png


def touch(directory: Path, names: Iterable[str]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).touch()
    return directory


def test_order_is_by_number_past_9999(tmp_path: Path) -> None:
    """Catches sorting by name, which puts frame_10000 before frame_9999."""
    touch(tmp_path, ["frame_10000.png", "frame_9999.png", "frame_10001.png", "frame_0002.png"])
    assert list_frames(tmp_path).numbers == (2, 9999, 10000, 10001)
    assert [p.name for p in list_frames(tmp_path).paths][1:3] == ["frame_9999.png", "frame_10000.png"]


def test_foreign_files_are_not_frames(tmp_path: Path) -> None:
    """Catches macOS's ._ files, thumbnails, half-written frames and references in the sequence."""
    foreign = [
        "._frame_0001.png",
        ".DS_Store",
        "frame_0002.png.part",
        ".frame_0002.png.part",
        "frame_0000_original.png",
    ]
    more = [
        "notes.txt",
        "frame_12.png",
        "frame_0003.jpg",
        "my frame_0004.png.bak",
        "Thumbs.db",
        "._freeze frame_0001.png",
    ]
    touch(tmp_path, ["frame_0001.png", *foreign, *more])
    assert list_frames(tmp_path).numbers == (1,)
    assert list_tails(tmp_path) == {}


def test_tails_are_told_apart(tmp_path: Path) -> None:
    """Catches tail frames in the main loop: both number from 1."""
    touch(tmp_path, ["frame_0001.png", "freeze frame_0001.png", "freeze frame_0002.png", "black frame_0001.png"])
    assert list_frames(tmp_path).numbers == (1,)
    tails = list_tails(tmp_path)
    assert {mode: (t.tail, t.numbers) for mode, t in tails.items()} == {
        "black": ("black", (1,)),
        "freeze": ("freeze", (1, 2)),
    }


@pytest.mark.parametrize(
    ("numbers", "stride", "gaps"),
    [
        ([1, 2, 3, 4], 1, ""),
        ([10, 20, 30], 10, ""),
        ([1, 2, 5, 6, 8], 1, "3-4, 7"),
        ([10, 20, 50, 60], 10, "30-40"),
        ([41, 42, 43], 1, "1-40"),
        ([0, 1, 2], 1, ""),
        ([0, 10, 20], 10, ""),
        ([20, 30, 40], 10, "10"),
        ([7], 1, ""),
        ([5, 50], 45, ""),
        ([], 1, ""),
    ],
)
def test_stride_and_gaps(tmp_path: Path, numbers: list[int], stride: int, gaps: str) -> None:
    """Catches a gap taken for the stride, and a sequence that starts late taken for whole."""
    touch(tmp_path, [f"frame_{n:04d}.png" for n in numbers])
    found = list_frames(tmp_path)
    assert (found.numbers, found.stride, found.describe_gaps()) == (tuple(numbers), stride, gaps)


def test_every_takes_from_the_first(tmp_path: Path) -> None:
    """Catches a sub-sample that skips the first frame or keeps the old stride."""
    touch(tmp_path, [f"frame_{n:04d}.png" for n in range(10, 60, 10)])
    found = list_frames(tmp_path).every(2)
    assert (found.numbers, found.stride) == ((10, 30, 50), 20)


@pytest.mark.parametrize("given", ["run", "run/frames", "run/frames/"])
def test_run_directory_or_frames_folder(tmp_path: Path, given: str) -> None:
    """Catches results that land in the frames folder or beside the run."""
    touch(tmp_path / "run" / "frames", ["frame_0001.png"])
    frames = find_frames(tmp_path / given)
    assert frames == tmp_path / "run" / "frames"
    assert run_directory(frames) == tmp_path / "run"


def test_frames_beside_run_json(tmp_path: Path) -> None:
    """Catches results of a sweep's stable leg, which has no frames folder, that land beside the leg."""
    leg = touch(tmp_path / "leg", ["frame_0001.png", "run.json"])
    assert run_directory(find_frames(leg)) == leg


def test_the_current_folder_has_a_parent(tmp_path: Path, monkeypatch) -> None:
    """Catches `Path(".").parent`, which is the folder itself."""
    monkeypatch.chdir(touch(tmp_path / "run" / "frames", ["frame_0001.png"]))
    assert run_directory(find_frames(".")) == tmp_path / "run"


def test_what_holds_no_frames_is_one_line(tmp_path: Path) -> None:
    """Catches an empty result that is taken for a short run."""
    touch(tmp_path / "empty" / "frames", [])
    for path, message in [("gone", "does not exist"), ("empty", "no frames in"), ("empty/frames", "no frames in")]:
        with pytest.raises(UsageError, match=message):
            find_frames(tmp_path / path)
    (tmp_path / "file.png").touch()
    with pytest.raises(UsageError, match="is a file; give a run directory"):
        find_frames(tmp_path / "file.png")


@pytest.mark.parametrize("name", ["frame_0000_original.png", "frame_0000_source.png"])
def test_reference_lies_in_the_run_directory(tmp_path: Path, name: str) -> None:
    """Catches the reference being looked for among the frames."""
    frames = touch(tmp_path / "run" / "frames", ["frame_0001.png"])
    assert find_reference(frames) is None
    touch(tmp_path / "run", [name])
    assert find_reference(frames) == tmp_path / "run" / name


def test_frames_of_another_size_are_named(tmp_path: Path) -> None:
    """Catches a mixed folder being resized without a word, or failing half-way through."""
    paths = [tmp_path / f"frame_000{n}.png" for n in (1, 2, 3)]
    for path, width in zip(paths, (32, 32, 48), strict=True):
        write_png(path, np.zeros((16, width, 3), np.uint8))
    assert common_size(paths[:2]) == (32, 16)
    with pytest.raises(UsageError, match=r"frame_0003\.png is 48x16 px but frame_0001\.png is 32x16"):
        common_size(paths)
