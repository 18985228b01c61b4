"""Video in: each kind of file that users bring, made here with PyAV or Pillow."""

import itertools
import struct
import tracemalloc
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.reformatter import Interpolation
from PIL import Image

from dltb import UsageError
from dltb.imaging import hdr
from dltb.imaging.frames import probe, probe_image
from dltb.imaging.video import probe_video, read_video

# swscale's default is a level or more off, so clips made with it could not show what decoding adds.
ACCURATE = Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INP

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def numbered(count: int, width: int = 64, height: int = 48) -> list[np.ndarray]:
    """Frames that tell their own number by their grey, 10 levels a step."""
    return [np.full((height, width, 3), 20 + 10 * n, np.uint8) for n in range(count)]


def numbers(frames: Sequence[np.ndarray]) -> list[int]:
    return [round((float(frame.mean()) - 20) / 10) for frame in frames]


def write_clip(
    path: Path,
    frames: Sequence[np.ndarray],
    *,
    codec: str = "libx264",
    pixel_format: str = "yuv420p",
    rate: Fraction = Fraction(24),
    times: Sequence[int] | None = None,  # ms
    setup: Callable[[av.VideoStream], None] = lambda stream: None,
    source_format: str = "rgb24",
    size: tuple[int, int] | None = None,  # width, height; where it is not the array's
) -> Path:
    width, height = size or frames[0].shape[1::-1]
    time_base = Fraction(1, 1000) if times else 1 / rate
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate)
        stream.width, stream.height, stream.pix_fmt = width, height, pixel_format
        stream.time_base = stream.codec_context.time_base = time_base
        setup(stream)
        for index, frame in enumerate(frames):
            picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format=source_format)
            if pixel_format != source_format:
                picture = picture.reformat(format=pixel_format, interpolation=ACCURATE)
            picture.pts, picture.time_base = times[index] if times else index, time_base
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return path


def read_all(path: Path, **options) -> tuple[list[np.ndarray], list[str]]:
    notes: list[str] = []
    return list(read_video(path, on_note=notes.append, **options)), notes


def close(frame: np.ndarray, colour: Sequence[int], tolerance: int = 4) -> bool:
    return np.abs(frame.reshape(-1, 3).mean(0) - colour).max() <= tolerance


# --- time ---------------------------------------------------------------------------------------------------------


def irregular_times(count: int) -> list[int]:
    return list(itertools.accumulate(itertools.islice(itertools.cycle((20, 60, 33, 90)), count - 1), initial=0))


@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_variable_frame_rate_keeps_every_frame_once(tmp_path: Path, container: str) -> None:
    """Catches a constant-rate guess, which made 60 frames of 46."""
    times = irregular_times(20)
    path = write_clip(tmp_path / f"phone.{container}", numbered(20), rate=Fraction(60), times=times)
    frames, notes = read_all(path)
    assert numbers(frames) == list(range(20))
    assert notes == []
    found = probe_video(path)
    assert any("variable frame rate" in note for note in found.notes)
    assert float(found.fps) == pytest.approx(1000 * 19 / times[-1], rel=0.08)


@pytest.mark.parametrize("rate", [Fraction(24000, 1001), Fraction(30000, 1001), Fraction(24), Fraction(60)])
@pytest.mark.parametrize("container", ["mp4", "mkv", "mov"])
def test_frame_rate_is_an_exact_fraction(tmp_path: Path, rate: Fraction, container: str) -> None:
    """Catches 23.976 as a float, which drifts from the sound."""
    path = write_clip(tmp_path / f"a.{container}", numbered(6), rate=rate)
    found = probe_video(path)
    assert (found.fps, found.frame_count, found.notes) == (rate, 6, ())


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_one_and_two_frame_clips(tmp_path: Path, count: int, container: str) -> None:
    """Catches a division by a duration of zero and a decoder that is never flushed."""
    path = write_clip(tmp_path / f"short.{container}", numbered(count))
    frames, notes = read_all(path)
    assert numbers(frames) == list(range(count))
    assert notes == []
    assert 1 <= probe_video(path).fps <= 240


def test_missing_frame_rate_falls_back_and_says_so(tmp_path: Path, monkeypatch) -> None:
    """Catches 0/0 becoming an exception or a rate of 90000."""
    from dltb.imaging import video

    class Stream:
        average_rate, guessed_rate, time_base = None, Fraction(90000), Fraction(1, 90000)

    fps, notes = video._frame_rate(Stream, [])
    assert fps == 25
    assert notes == ["the file states no frame rate; 25 fps is assumed"]


def test_raw_stream_without_time_stamps(tmp_path: Path) -> None:
    """Catches frames lost where a file has neither index nor times nor a frame count."""
    path = write_clip(tmp_path / "raw.h264", numbered(9))
    frames, notes = read_all(path)
    assert numbers(frames) == list(range(9))
    assert notes == []
    assert 1 <= probe_video(path).fps <= 240


def test_b_frames_come_in_display_order(tmp_path: Path) -> None:
    """Catches decode order, and the reordered tail being dropped."""

    def b_frames(stream) -> None:
        stream.codec_context.options = {"bf": "3", "b-adapt": "0"}

    frames, _ = read_all(write_clip(tmp_path / "b.mp4", numbered(13), setup=b_frames))
    assert numbers(frames) == list(range(13))


def test_limit_stops_early_without_a_complaint(tmp_path: Path) -> None:
    """Catches a limit that counts one off, and a false report of a short file."""
    path = write_clip(tmp_path / "a.mp4", numbered(12))
    frames, notes = read_all(path, limit=5)
    assert numbers(frames) == list(range(5))
    assert notes == []
    assert len(read_all(path, limit=50)[0]) == 12


def test_memory_does_not_grow_with_length(tmp_path: Path) -> None:
    """Catches a reader that decodes the file into a list."""
    grey = [np.full((120, 160, 3), 90, np.uint8)] * 400  # 23 MB decoded
    path = write_clip(tmp_path / "long.mp4", grey)
    tracemalloc.start()
    assert sum(1 for _ in read_video(path)) == 400
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_000_000


# --- geometry -----------------------------------------------------------------------------------------------------


def test_odd_sizes(tmp_path: Path) -> None:
    """Catches sides rounded to even, or rows that start one pixel off."""
    frames = [np.random.default_rng(n).integers(0, 256, (33, 51, 3), np.uint8) for n in range(3)]
    path = write_clip(tmp_path / "odd.mkv", frames, codec="ffv1", pixel_format="bgr0")
    found, _ = read_all(path)
    np.testing.assert_array_equal(found, frames)
    assert (probe_video(path).width, probe_video(path).height) == (51, 33)


def quarters() -> np.ndarray:  # red, green / blue, white; 64x48
    frame = np.zeros((48, 64, 3), np.uint8)
    frame[:24, :32], frame[:24, 32:], frame[24:, :32], frame[24:, 32:] = RED, GREEN, BLUE, WHITE
    return frame


# (counter-clockwise degrees to show it by, mirrored left-right after that) -> what the viewer sees.
SHOWN = {
    (0, False): lambda a: a,
    (90, False): lambda a: np.rot90(a, 1),
    (180, False): lambda a: np.rot90(a, 2),
    (270, False): lambda a: np.rot90(a, 3),
    (0, True): np.fliplr,
    (90, True): lambda a: np.fliplr(np.rot90(a, 1)),
    (180, True): lambda a: np.fliplr(np.rot90(a, 2)),
    (270, True): lambda a: np.fliplr(np.rot90(a, 3)),
}


@pytest.mark.parametrize(("degrees", "mirrored"), SHOWN)
def test_display_matrix_is_applied_exactly_once(tmp_path: Path, degrees: int, mirrored: bool) -> None:
    """Catches rotation ignored, applied twice or the wrong way round, and mirrors taken for rotations."""

    def turn(stream) -> None:
        stream.set_display_rotation(degrees, hflip=mirrored)

    path = write_clip(tmp_path / "turned.mp4", [quarters()] * 3, pixel_format="yuv444p", setup=turn)
    shown = SHOWN[degrees, mirrored](quarters())
    frames, _ = read_all(path)
    assert frames[1].shape == shown.shape
    assert np.abs(frames[1].astype(int) - shown).mean() < 6
    found = probe_video(path)
    assert (found.height, found.width) == shown.shape[:2]
    assert bool(found.notes) == ((degrees, mirrored) != (0, False))


def test_rotation_written_by_a_phone(tmp_path: Path) -> None:
    """Catches a sign error that a test through PyAV's own writer would share: the bytes follow ISO 14496-12.

    tkhd's matrix of an upright phone, {0, 1, 0; -1, 0, 0}, asks for 90 degrees clockwise.
    """
    path = write_clip(tmp_path / "phone.mp4", [quarters()] * 2, pixel_format="yuv444p")
    content = path.read_bytes()
    identity = struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
    at = content.index(identity, content.index(b"tkhd"))
    turned = struct.pack(">9i", 0, 1 << 16, 0, -1 << 16, 0, 0, 48 << 16, 0, 1 << 30)
    path.write_bytes(content[:at] + turned + content[at + len(turned) :])
    frames, _ = read_all(path)
    assert np.abs(frames[0].astype(int) - np.rot90(quarters(), -1)).mean() < 6


def test_pixels_that_are_not_square_are_mentioned(tmp_path: Path) -> None:
    """Catches anamorphic video being squeezed without a word."""

    def anamorphic(stream) -> None:
        stream.codec_context.sample_aspect_ratio = Fraction(16, 15)

    found = probe_video(write_clip(tmp_path / "dv.mp4", numbered(2), setup=anamorphic))
    assert any("not square (16:15)" in note for note in found.notes)


# --- colour -------------------------------------------------------------------------------------------------------

LUMA = {1: (0.2126, 0.0722), 5: (0.299, 0.114), 9: (0.2627, 0.0593)}  # matrix -> weights of red and blue


def yuv444(rgb: Sequence[int], matrix: int, full: bool, width: int = 64, height: int = 48) -> np.ndarray:
    """uint8 [3, H, W], by the equations of H.273."""
    kr, kb = LUMA[matrix]
    r, g, b = (value / 255 for value in rgb)
    luma = kr * r + (1 - kr - kb) * g + kb * b
    cb, cr = (b - luma) / (2 - 2 * kb), (r - luma) / (2 - 2 * kr)
    values = (255 * luma, 255 * cb + 128, 255 * cr + 128) if full else (16 + 219 * luma, 128 + 224 * cb, 128 + 224 * cr)
    return np.broadcast_to(np.round(np.clip(values, 0, 255)).astype(np.uint8)[:, None, None], (3, height, width))


def write_yuv(path: Path, planes: np.ndarray, *, matrix: int | None, full: bool, trc: int | None = None) -> Path:
    """A lossless 4:4:4 clip of two frames whose stored values are exactly `planes`."""
    deep = planes.dtype == np.uint16
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=24, options={"qp": "0"})
        stream.height, stream.width = planes.shape[1:]
        stream.pix_fmt = "yuv444p10le" if deep else "yuv444p"
        codec = stream.codec_context
        codec.color_range = 2 if full else 1
        if matrix is not None:
            codec.colorspace = matrix
        if trc is not None:
            codec.color_trc, codec.color_primaries = trc, 9
        for index in range(2):
            frame = av.VideoFrame(stream.width, stream.height, stream.pix_fmt)
            for plane, values in zip(frame.planes, planes, strict=True):
                rows = np.zeros((plane.height, plane.line_size // planes.itemsize), planes.dtype)
                rows[:, : plane.width] = values
                plane.update(rows.tobytes())
            frame.color_range = codec.color_range
            frame.pts, frame.time_base = index, Fraction(1, 24)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("matrix", [1, 5])
@pytest.mark.parametrize("rgb", [(200, 40, 60), (20, 180, 90), (255, 255, 255), (0, 0, 0)])
def test_matrix_and_range_tags_are_respected(tmp_path: Path, matrix: int, full: bool, rgb) -> None:
    """Catches BT.601 taken for BT.709 (hues off), and full range taken for limited (black and white off)."""
    path = write_yuv(tmp_path / "a.mp4", yuv444(rgb, matrix, full), matrix=matrix, full=full)
    assert close(read_all(path)[0][0], rgb, 2)


@pytest.mark.parametrize(("width", "height", "matrix"), [(320, 240, 5), (720, 576, 5), (1280, 720, 1)])
def test_untagged_video_follows_the_usual_rule(tmp_path: Path, width: int, height: int, matrix: int) -> None:
    """Catches one matrix for all sizes: untagged SD is BT.601, HD is BT.709."""
    rgb = (200, 40, 60)
    planes = yuv444(rgb, matrix, False, width, height)
    assert close(read_all(write_yuv(tmp_path / "a.mp4", planes, matrix=None, full=False))[0][0], rgb, 2)


def left_sited(chroma: np.ndarray) -> np.ndarray:
    """Halve both sides where H.264 puts its samples: on every other column, between two rows."""
    padded = np.pad(chroma, ((0, 0), (1, 1)), mode="edge")
    across = (padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:])[:, ::2] / 4
    return (across[::2] + across[1::2]) / 2


def test_decoding_adds_no_shift(tmp_path: Path) -> None:
    """Catches swscale's fast 4:2:0 path, a level too dark, and chroma half a pixel off: a loop adds both up."""
    rows, columns = np.mgrid[0:128, 0:128]
    smooth = np.stack([columns, rows, 255 - (rows + columns) // 2], -1).astype(np.uint8)
    r, g, b = np.moveaxis(smooth / 255, -1, 0)
    luma = 0.2126 * r + 0.7152 * g + 0.0722 * b
    chroma = (128 + 224 * (b - luma) / 1.8556, 128 + 224 * (r - luma) / 1.5748)
    planes = np.concatenate([(16 + 219 * luma).ravel(), *(left_sited(c).ravel() for c in chroma)])
    stored = np.round(planes).astype(np.uint8).reshape(192, 128)

    def lossless(stream) -> None:
        stream.codec_context.options = {"qp": "0"}
        stream.codec_context.colorspace = 1

    path = write_clip(tmp_path / "a.mp4", [stored] * 2, setup=lossless, source_format="yuv420p", size=(128, 128))
    shift = (read_all(path)[0][0].astype(float) - smooth)[8:-8, 8:-8].mean((0, 1))
    assert np.abs(shift).max() < 0.1


def ten_bit(rgb_signal: Sequence[float]) -> np.ndarray:  # uint16 [3, 48, 64]; BT.2020, limited range
    kr, kb = LUMA[9]
    r, g, b = rgb_signal
    luma = kr * r + (1 - kr - kb) * g + kb * b
    values = (64 + 876 * luma, 512 + 896 * (b - luma) / (2 - 2 * kb), 512 + 896 * (r - luma) / (2 - 2 * kr))
    return np.broadcast_to(np.round(values).astype(np.uint16)[:, None, None], (3, 48, 64))


def test_ten_bit_sdr_is_converted_and_said(tmp_path: Path) -> None:
    """Catches 10-bit values read as 8-bit."""
    path = write_clip(tmp_path / "deep.mkv", numbered(4), codec="ffv1", pixel_format="yuv420p10le")
    frames, _ = read_all(path)
    assert numbers(frames) == [0, 1, 2, 3]
    assert "10-bit colour is converted to 8 bits" in probe_video(path).notes


@pytest.mark.parametrize(
    ("transfer", "name", "white"),
    # The signal of reference white, 203 cd/m2, in BT.2408: HLG 75 %, PQ 58 %.
    [(hdr.HLG, "HLG", 0.75), (hdr.PQ, "PQ", 0.58)],
)
def test_hdr_is_tone_mapped_and_said(tmp_path: Path, transfer: int, name: str, white: float) -> None:
    """Catches HDR shown as it is: PQ dull and grey, HLG washed out; and neutral tones that get a tint."""
    levels = {}
    for label, signal in (("black", 0.0), ("dark", white / 3), ("white", white), ("peak", 1.0)):
        path = write_yuv(tmp_path / f"{label}.mp4", ten_bit((signal,) * 3), matrix=9, full=False, trc=transfer)
        pixel = read_all(path)[0][0][24, 32]
        assert int(pixel.max()) - int(pixel.min()) <= 2
        levels[label] = int(pixel[1])
    assert levels["black"] == 0
    assert levels["dark"] < 100
    assert 190 <= levels["white"] <= 235
    assert levels["peak"] == 255
    assert f"10-bit {name} is tone-mapped to 8-bit sRGB" in probe_video(path).notes


def test_hdr_colours_come_from_the_wide_gamut(tmp_path: Path) -> None:
    """Catches BT.2020 primaries shown as BT.709 ones, which turns every colour pale."""
    path = write_yuv(tmp_path / "red.mp4", ten_bit((0.6, 0.2, 0.2)), matrix=9, full=False, trc=hdr.HLG)
    red, green, _ = read_all(path)[0][0][24, 32].astype(int)
    linear = hdr._hlg_scene_light(np.array([0.6, 0.2]))
    as_is = (linear[1] / linear[0]) ** (1 / 2.4)
    assert green / red < 0.8 * as_is


@pytest.mark.parametrize(("name", "codec", "pixel_format"), [("a.mov", "png", "rgba"), ("a.mov", "qtrle", "argb")])
def test_alpha_lies_over_black(tmp_path: Path, name: str, codec: str, pixel_format: str) -> None:
    """Catches the colour under transparent pixels showing through."""
    rgba = np.zeros((48, 64, 4), np.uint8)
    rgba[..., :3], rgba[:, :32, 3] = (200, 100, 50), 255
    path = write_clip(tmp_path / name, [rgba] * 2, codec=codec, pixel_format=pixel_format, source_format="rgba")
    frame = read_all(path)[0][0]
    assert close(frame[:, :32], (200, 100, 50), 0)
    assert close(frame[:, 32:], (0, 0, 0), 0)
    assert "transparent pixels are shown over black" in probe_video(path).notes


# --- animated images ------------------------------------------------------------------------------------------------


def patch_on_red() -> list[Image.Image]:
    """A blue patch that wanders over red: encoders store only the part that changes."""
    frames = []
    for index in range(4):
        frame = Image.new("RGB", (32, 24), RED)
        frame.paste(BLUE, (8 * index, 0, 8 * index + 8, 24))
        frames.append(frame)
    return frames


@pytest.mark.parametrize(("name", "options"), [("a.gif", {}), ("a.webp", {"lossless": True}), ("a.png", {})])
def test_animated_images_are_composed_fully(tmp_path: Path, name: str, options: dict) -> None:
    """Catches frames that hold only the changed rectangle, and ffmpeg's lack of animated WebP."""
    frames = patch_on_red()
    path = tmp_path / name
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=40, loop=0, **options)
    found, notes = read_all(path)
    np.testing.assert_array_equal(found, [np.asarray(frame) for frame in frames])
    assert notes == []
    clip = probe(path)
    assert (clip.kind, clip.width, clip.height, clip.frame_count, clip.fps) == ("video", 32, 24, 4, 25)
    assert len(read_all(path, limit=2)[0]) == 2
    with pytest.raises(UsageError, match="is animated and a still image is wanted here; dltb-continuous"):
        probe_image(path)


def test_gif_of_mixed_and_zero_durations(tmp_path: Path) -> None:
    """Catches a division by zero and a rate of 100 fps: browsers show a frame of 0 ms for 100 ms."""
    frames = patch_on_red()
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:], duration=[0, 100, 100, 200])
    found = probe_video(tmp_path / "a.gif")
    assert found.fps == 8
    assert any("variable frame rate" in note for note in found.notes)


def test_transparent_gif_lies_over_black(tmp_path: Path) -> None:
    """Catches the palette's colour for transparency, often magenta, in the frames."""
    frames = [Image.new("RGBA", (16, 16), (0, 0, 0, 0)) for _ in range(2)]
    for index, frame in enumerate(frames):
        frame.paste((255, 0, 0, 255), (0, 0, 8, 8 + 4 * index))
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:], duration=50, disposal=2)
    found, _ = read_all(tmp_path / "a.gif")
    assert found[1][0, 0].tolist() == [255, 0, 0]
    assert found[1][15, 15].tolist() == [0, 0, 0]
    assert "transparent pixels are shown over black" in probe_video(tmp_path / "a.gif").notes


def test_one_frame_gif_is_a_clip_where_a_video_is_wanted(tmp_path: Path) -> None:
    """Catches a GIF being refused for having one frame."""
    Image.new("RGB", (16, 16), RED).save(tmp_path / "a.gif")
    assert probe_video(tmp_path / "a.gif").frame_count == 1
    assert len(read_all(tmp_path / "a.gif")[0]) == 1
    assert probe(tmp_path / "a.gif").kind == "image"


def test_truncated_gif_says_how_far_it_came(tmp_path: Path) -> None:
    """Catches a traceback in the middle of a run."""
    noise = [Image.fromarray(np.random.default_rng(n).integers(0, 256, (40, 40, 3), np.uint8)) for n in range(6)]
    path = tmp_path / "a.gif"
    noise[0].save(path, save_all=True, append_images=noise[1:], duration=40)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 5])
    frames, _ = read_all(path)
    assert 2 <= len(frames) <= 4


# --- files that are broken or something else ------------------------------------------------------------------------


def noisy(count: int) -> list[np.ndarray]:
    return [np.random.default_rng(n).integers(0, 256, (96, 128, 3), np.uint8) for n in range(count)]


def test_truncated_mp4_yields_what_decodes_and_says_it(tmp_path: Path) -> None:
    """Catches a silent short run, and an exception that loses what was there."""

    def faststart(stream) -> None:
        stream.container.container_options["movflags"] = "+faststart"

    path = write_clip(tmp_path / "cut.mp4", noisy(30), setup=faststart)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    frames, notes = read_all(path)
    assert 10 <= len(frames) <= 20
    assert len(notes) == 1
    assert f"{len(frames)} frames could be decoded, at least 30 were expected" in notes[0]
    assert probe_video(path).frame_count == 30


def test_truncated_mkv_says_it_too(tmp_path: Path) -> None:
    """Catches containers that hold a duration but no frame count."""
    path = write_clip(tmp_path / "cut.mkv", noisy(30))
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    frames, notes = read_all(path)
    assert 10 <= len(frames) <= 20
    assert len(notes) == 1
    assert "truncated or damaged" in notes[0]


def test_damage_in_the_middle_does_not_end_the_clip(tmp_path: Path) -> None:
    """Catches the first packet that does not decode ending the run."""
    path = write_clip(tmp_path / "scratched.mkv", noisy(20), codec="mjpeg", pixel_format="yuvj420p")
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 40] = bytes(40)
    path.write_bytes(content)
    frames, _ = read_all(path)
    assert len(frames) >= 18


def test_mp4_without_its_index_is_one_line(tmp_path: Path) -> None:
    """Catches `moov atom not found` as a traceback: the rest of a download that broke off."""
    path = write_clip(tmp_path / "part.mp4", noisy(10))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    for use in (probe, probe_video, lambda p: next(read_video(p))):
        with pytest.raises(UsageError, match=r"part\.mp4 is not an image or video that can be read") as caught:
            use(path)
        assert "\n" not in str(caught.value)


def test_sound_without_pictures_is_one_line(tmp_path: Path) -> None:
    """Catches an IndexError on a file without a video stream."""
    path = tmp_path / "song.m4a"
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("aac", rate=44100, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 4096), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 44100
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with pytest.raises(UsageError, match=r"song\.m4a has no video stream"):
        probe(path)


def test_an_image_where_a_video_is_wanted_names_the_tool(tmp_path: Path) -> None:
    """Catches ffmpeg playing a PNG as a video of one frame."""
    Image.new("RGB", (64, 64)).save(tmp_path / "still.png")
    with pytest.raises(UsageError, match=r"still\.png is an image and a video is wanted here; dltb-iterate"):
        probe_video(tmp_path / "still.png")
    with pytest.raises(UsageError, match="a video is wanted"):
        next(read_video(tmp_path / "still.png"))


def test_a_video_where_an_image_is_wanted_names_the_tool(tmp_path: Path) -> None:
    """Catches "cannot identify image file"."""
    path = write_clip(tmp_path / "clip.mp4", numbered(2))
    with pytest.raises(UsageError, match=r"clip\.mp4 is a video and a still image is wanted here; dltb-continuous"):
        probe_image(path)


def test_spaces_colons_and_other_alphabets_in_paths(tmp_path: Path, monkeypatch) -> None:
    """Catches ffmpeg taking what stands before a colon for a protocol."""
    (tmp_path / "плёнка 1").mkdir()
    write_clip(tmp_path / "плёнка 1" / "clip.mp4", numbered(3)).rename(tmp_path / "плёнка 1" / "http: é %03d.mp4")
    monkeypatch.chdir(tmp_path / "плёнка 1")
    assert numbers(read_all(Path("http: é %03d.mp4"))[0]) == [0, 1, 2]
