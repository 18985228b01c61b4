"""Video out: what a player relies on, and segments joined without re-encoding."""

import tracemalloc
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from dltb import RunError, UsageError
from dltb.imaging.video import probe_video, read_video
from dltb.output.mp4 import Mp4Writer, join_mp4
from tests.full_disk import full_disk

FILM = Fraction(24000, 1001)


def moving(count: int, width: int = 96, height: int = 64) -> list[np.ndarray]:
    """A colour ramp that rolls on by three pixels a frame."""
    rows, columns = np.mgrid[0:height, 0:width]
    frame = np.stack([columns * 2, rows * 3, 200 - columns - rows // 2], -1).astype(np.uint8)
    return [np.roll(frame, 3 * n, axis=1) for n in range(count)]


def write(path: Path, frames: Sequence[np.ndarray], fps: Fraction = FILM, **options) -> Path:
    height, width = frames[0].shape[:2]
    with Mp4Writer(path, width, height, fps, **options) as writer:
        for frame in frames:
            writer.write(frame)
    return path


def decoded(path: Path) -> list[np.ndarray]:
    notes: list[str] = []
    frames = list(read_video(path, on_note=notes.append))
    assert notes == []
    return frames


def test_frames_come_back_in_number_order_and_colour(tmp_path: Path) -> None:
    """Catches a lost last frame (an encoder that is not flushed), swapped channels and a wrong matrix."""
    frames = moving(25)
    found = decoded(write(tmp_path / "a.mp4", frames, crf=1))
    assert len(found) == 25
    errors = np.abs(np.stack(found).astype(int) - np.stack(frames))[:, 8:-8, 8:-8]
    assert errors.mean() < 3
    assert probe_video(tmp_path / "a.mp4").fps == FILM


@pytest.mark.parametrize("fps", [FILM, Fraction(25), Fraction(30000, 1001), Fraction(60), Fraction(7, 2), Fraction(1)])
def test_frame_rate_and_count_are_exact(tmp_path: Path, fps: Fraction) -> None:
    """Catches 23.976 rounded, and a last frame without a duration, which shifts the average."""
    with av.open(str(write(tmp_path / "a.mp4", moving(7), fps))) as container:
        stream = container.streams.video[0]
        assert (stream.average_rate, stream.frames) == (fps, 7)
        assert stream.duration * stream.time_base == 7 / fps


def test_stream_is_what_players_take(tmp_path: Path) -> None:
    """Catches yuv444p, B-frames, missing BT.709 tags and full range."""
    with av.open(str(write(tmp_path / "a.mp4", moving(12)))) as container:
        codec = container.streams.video[0].codec_context
        assert (codec.name, codec.pix_fmt, codec.has_b_frames) == ("h264", "yuv420p", False)
        assert (codec.colorspace, codec.color_primaries, codec.color_trc, codec.color_range) == (1, 1, 1, 1)


def test_index_stands_before_the_pictures(tmp_path: Path) -> None:
    """Catches a file that a browser has to load whole before it plays."""
    content = write(tmp_path / "a.mp4", moving(3)).read_bytes()
    joined = tmp_path / "joined.mp4"
    join_mp4([tmp_path / "a.mp4"], joined, FILM)
    for data in (content, joined.read_bytes()):
        assert data.index(b"moov") < data.index(b"mdat")


def test_stored_values_are_bt709_by_its_equations(tmp_path: Path) -> None:
    """Catches the tag without the conversion, a level lost to swscale's fast paths, and chroma half a pixel off."""
    frame = moving(1)[0]
    path = write(tmp_path / "a.mp4", [frame], crf=0)
    with av.open(str(path)) as container:
        stored = next(container.decode(video=0)).to_ndarray().astype(float)
    r, g, b = np.moveaxis(frame / 255, -1, 0)
    luma = 0.2126 * r + 0.7152 * g + 0.0722 * b
    assert np.abs(stored[:64] - (16 + 219 * luma)).max() <= 1.1
    # Columns 0, 2, 4, ... and between two rows: H.264's default place of chroma samples.
    chroma = ((128 + 224 * c)[::2] / 2 + (128 + 224 * c)[1::2] / 2 for c in ((b - luma) / 1.8556, (r - luma) / 1.5748))
    for plane, wanted in zip(stored[64:].reshape(2, 32, 48), chroma, strict=True):
        difference = (plane - wanted[:, ::2])[4:-4, 4:-4]
        assert np.abs(difference).max() <= 1.1
        assert abs(difference.mean()) < 0.1


@pytest.mark.parametrize(("width", "height"), [(112, 80), (64, 64), (256, 256)])
def test_same_frames_give_the_same_bytes(tmp_path: Path, width: int, height: int) -> None:
    """Catches the time of day in the file, and x264's AVX-512 code, a fourth of whose narrow videos came out different."""
    frames = moving(20, width, height)
    found = {write(tmp_path / "a.mp4", frames).read_bytes() for _ in range(12)}
    assert len(found) == 1


@pytest.mark.parametrize(("width", "height", "even"), [(51, 34, (52, 34)), (50, 33, (50, 34)), (51, 33, (52, 34))])
def test_odd_sizes_are_padded_and_said(tmp_path: Path, width: int, height: int, even: tuple[int, int]) -> None:
    """Catches a silent resize (imageio rounds up to multiples of 16) and black borders."""
    frame = np.full((height, width, 3), 200, np.uint8)
    with Mp4Writer(tmp_path / "odd.mp4", width, height, Fraction(24)) as writer:
        writer.write(frame)
    assert writer.note
    assert f"{even[0]}x{even[1]}" in writer.note
    found = decoded(tmp_path / "odd.mp4")[0]
    assert found.shape == (even[1], even[0], 3)
    assert found.min() >= 197


def test_even_sizes_are_left_alone(tmp_path: Path) -> None:
    """Catches padding to a multiple of 16."""
    with Mp4Writer(tmp_path / "a.mp4", 50, 34, Fraction(24)) as writer:
        writer.write(np.zeros((34, 50, 3), np.uint8))
    assert writer.note is None
    assert decoded(tmp_path / "a.mp4")[0].shape == (34, 50, 3)


@pytest.mark.parametrize(
    "frame", [np.zeros((64, 64, 3), np.uint8), np.zeros((64, 96), np.uint8), np.zeros((64, 96, 3))]
)
def test_a_frame_of_another_shape_is_refused(tmp_path: Path, frame: np.ndarray) -> None:
    """Catches a silent resize, and float frames taken for bytes; nothing is left of the file."""
    with (
        pytest.raises(UsageError, match="takes uint8 frames of shape"),
        Mp4Writer(tmp_path / "a.mp4", 96, 64, FILM) as w,
    ):
        w.write(frame)
    assert list(tmp_path.iterdir()) == []


def test_the_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    """Catches half a file under the final name, and an older file lost to a run that failed."""
    path = write(tmp_path / "a.mp4", moving(2))
    before = path.read_bytes()
    writer = Mp4Writer(path, 96, 64, FILM)
    writer.write(moving(1)[0])
    assert path.read_bytes() == before
    with pytest.raises(UsageError), writer:
        writer.write(np.zeros((1, 1, 3), np.uint8))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.mp4"]


def test_a_writer_without_frames_leaves_nothing(tmp_path: Path) -> None:
    """Catches an unplayable file of 0 frames."""
    with Mp4Writer(tmp_path / "a.mp4", 96, 64, FILM) as writer:
        pass
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """Catches PyAV's own exception reaching the user."""
    with pytest.raises(RunError, match=r"cannot write .*a\.mp4: No such file or directory"):
        Mp4Writer(tmp_path / "gone" / "a.mp4", 96, 64, FILM)


def noise(count: int) -> list[np.ndarray]:
    return [np.random.default_rng(n).integers(0, 256, (64, 96, 3), np.uint8) for n in range(count)]


@pytest.mark.parametrize("count", [3, 80])
def test_a_full_disk_is_a_run_error_and_leaves_nothing(tmp_path: Path, count: int) -> None:
    """Catches a short file taken for a good one, whether the disk fills while writing or at the very end."""
    with full_disk(8_000), pytest.raises(RunError, match=r"cannot write .*a\.mp4"):
        write(tmp_path / "a.mp4", noise(count))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_while_joining_keeps_the_parts(tmp_path: Path) -> None:
    """Catches a half-joined video, and parts that are deleted before the whole is safe."""
    parts = [write(tmp_path / f"{n}.mp4", noise(2)) for n in range(4)]
    with full_disk(20_000), pytest.raises(RunError, match=r"cannot write .*joined\.mp4"):
        join_mp4(parts, tmp_path / "joined.mp4", FILM)
    assert sorted(tmp_path.iterdir()) == parts


# --- joining --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [(10, 10, 3), (1,), (1, 1, 1), (5, 1, 12)])
@pytest.mark.parametrize("fps", [FILM, Fraction(30)])
def test_joined_parts_decode_to_the_same_frames(tmp_path: Path, lengths: tuple[int, ...], fps: Fraction) -> None:
    """Catches frames lost or doubled at the seams, re-encoding, and time stamps that jump."""
    frames = iter(moving(sum(lengths)))
    parts = [
        write(tmp_path / f"{n}.mp4", [next(frames) for _ in range(length)], fps) for n, length in enumerate(lengths)
    ]
    out = tmp_path / "joined.mp4"
    assert join_mp4(parts, out, fps) == sum(lengths)
    expected = [frame for part in parts for frame in decoded(part)]
    np.testing.assert_array_equal(decoded(out), expected)
    with av.open(str(out)) as container:
        stream = container.streams.video[0]
        assert (stream.average_rate, stream.frames) == (fps, sum(lengths))
        times = [frame.pts * frame.time_base for frame in container.decode(stream)]
    assert times == [n / fps for n in range(sum(lengths))]
    codec = stream.codec_context
    assert (codec.colorspace, codec.color_primaries, codec.color_trc, codec.color_range) == (1, 1, 1, 1)


def test_joining_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    """Catches a join that depends on anything but its parts."""
    parts = [write(tmp_path / f"{n}.mp4", moving(3)) for n in range(2)]
    for name in ("a.mp4", "b.mp4"):
        join_mp4(parts, tmp_path / f"joined_{name}", FILM)
    assert (tmp_path / "joined_a.mp4").read_bytes() == (tmp_path / "joined_b.mp4").read_bytes()


def test_parts_of_other_settings_are_refused(tmp_path: Path) -> None:
    """Catches a file whose second half is garbage to a decoder set up by the first."""
    parts = [write(tmp_path / "a.mp4", moving(2)), write(tmp_path / "b.mp4", moving(2, 64, 64))]
    with pytest.raises(RunError, match=r"b\.mp4 was encoded with other settings"):
        join_mp4(parts, tmp_path / "joined.mp4", FILM)
    assert not (tmp_path / "joined.mp4").exists()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_part_that_is_no_video_is_named(tmp_path: Path) -> None:
    """Catches a segment that a kill cut short being joined as if it were empty."""
    (tmp_path / "b.mp4").write_bytes(b"half a segment" * 100)
    parts = [write(tmp_path / "a.mp4", moving(2)), tmp_path / "b.mp4"]
    for order in (parts, parts[::-1]):
        with pytest.raises(RunError, match=r"b\.mp4 is not a playable video segment"):
            join_mp4(order, tmp_path / "joined.mp4", FILM)
    with pytest.raises(UsageError, match="no parts to join"):
        join_mp4([], tmp_path / "joined.mp4", FILM)
    assert len(list(tmp_path.iterdir())) == 2


def test_memory_does_not_grow_with_the_number_of_parts(tmp_path: Path) -> None:
    """Catches all packets, or all open files, held until the end."""
    part = write(tmp_path / "a.mp4", noise(10))
    tracemalloc.start()
    assert join_mp4([part] * 100, tmp_path / "joined.mp4", FILM) == 1000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
