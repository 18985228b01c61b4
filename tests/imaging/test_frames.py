"""Still images: each kind that cameras and editors write, with a file made here."""

import errno
import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from dltb import RunError, UsageError
from dltb.imaging import atomic
from dltb.imaging.frames import prepare_frame, probe, probe_image, read_image, write_png, write_stored_png


@pytest.fixture
def ramp() -> np.ndarray:  # uint8 [48, 64, 3]; no two corners alike
    rows, columns = np.mgrid[0:48, 0:64]
    return np.stack([columns * 4, rows * 5, (rows + columns) * 2], -1).astype(np.uint8)


def _with_exif(path: Path, ramp: np.ndarray, orientation: int) -> Path:
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(ramp).save(path, exif=exif)
    return path


# What a camera held so writes for an upright scene: the inverse of the EXIF orientation.
STORED = {
    1: lambda a: a,
    2: np.fliplr,
    3: lambda a: np.rot90(a, 2),
    4: np.flipud,
    5: lambda a: a.transpose(1, 0, 2),
    6: np.rot90,
    7: lambda a: np.rot90(a, 2).transpose(1, 0, 2),
    8: lambda a: np.rot90(a, -1),
}


@pytest.mark.parametrize("orientation", STORED)
def test_every_exif_orientation_comes_back_upright(tmp_path: Path, ramp: np.ndarray, orientation: int) -> None:
    """Catches an orientation applied twice, mirrored or turned the wrong way."""
    path = _with_exif(tmp_path / "turned.png", np.ascontiguousarray(STORED[orientation](ramp)), orientation)
    np.testing.assert_array_equal(read_image(path), ramp)
    found = probe_image(path)
    assert (found.width, found.height) == (64, 48)
    assert bool(found.notes) == (orientation != 1)


def test_senseless_exif_orientation_is_ignored(tmp_path: Path, ramp: np.ndarray) -> None:
    """Catches a KeyError on the 0 that some phones write."""
    np.testing.assert_array_equal(read_image(_with_exif(tmp_path / "a.png", ramp, 0)), ramp)


def test_16_bit_grey_keeps_its_tones(tmp_path: Path) -> None:
    """Catches Pillow's clipping, which turns everything above 255 white."""
    path = tmp_path / "grey.png"
    Image.fromarray(np.array([[0, 257, 32768, 65535]], np.uint16)).save(path)
    assert read_image(path)[0, :, 0].tolist() == [0, 1, 128, 255]
    assert probe_image(path).notes == ("16-bit grey is scaled to 8 bits",)


def test_32_bit_pixels_are_refused(tmp_path: Path) -> None:
    """Catches floating point pixels being truncated to black."""
    path = tmp_path / "depth.tiff"
    Image.fromarray(np.full((4, 4), 0.5, np.float32)).save(path)
    with pytest.raises(UsageError, match=r"depth\.tiff has 32-bit pixels"):
        read_image(path)


def test_alpha_lies_over_black(tmp_path: Path) -> None:
    """Catches dropping alpha, which shows whatever colour hides under transparent pixels."""
    rgba = np.array([[[200, 100, 50, 255], [200, 100, 50, 128], [200, 100, 50, 0]]], np.uint8)
    path = tmp_path / "alpha.png"
    Image.fromarray(rgba).save(path)
    assert read_image(path)[0].tolist() == [[200, 100, 50], [100, 50, 25], [0, 0, 0]]
    assert probe_image(path).notes == ("transparent pixels are shown over black",)


def test_alpha_that_hides_nothing_is_not_mentioned(tmp_path: Path) -> None:
    """Catches a note on every screenshot, which are RGBA and opaque."""
    path = tmp_path / "opaque.png"
    Image.new("RGBA", (8, 8), (10, 20, 30, 255)).save(path)
    assert probe_image(path).notes == ()


def test_palette_with_a_transparent_entry(tmp_path: Path) -> None:
    """Catches reading palette indices as grey, and the transparent entry as a colour."""
    image = Image.new("P", (2, 1))
    image.putpalette([255, 0, 0, 0, 255, 0])
    image.putdata([0, 1])
    path = tmp_path / "palette.png"
    image.save(path, transparency=1)
    assert read_image(path)[0].tolist() == [[255, 0, 0], [0, 0, 0]]


def test_cmyk_jpeg(tmp_path: Path) -> None:
    """Catches inverted or four-channel CMYK."""
    path = tmp_path / "print.jpg"
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(path, quality=95)
    red = read_image(path)
    assert red.shape == (16, 16, 3)
    assert np.abs(red[8, 8].astype(int) - [255, 0, 0]).max() <= 3


def _png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _png_of_size(width: int, height: int) -> bytes:
    header = _png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + _png_chunk(b"IDAT", zlib.compress(bytes(60000)))


@pytest.mark.parametrize("use", [probe, read_image])
def test_decompression_bomb_is_refused(tmp_path: Path, use) -> None:
    """Catches a 60 KB file that asks for 10 GB of memory."""
    path = tmp_path / "bomb.png"
    path.write_bytes(_png_of_size(60000, 60000))
    with pytest.raises(UsageError, match="too large to decode safely"):
        use(path)


def test_large_photo_is_read_without_a_warning(tmp_path: Path, monkeypatch, recwarn) -> None:
    """Catches Pillow's warning, printed at half the size that it refuses."""
    path = tmp_path / "large.png"
    Image.new("RGB", (40, 40)).save(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    assert read_image(path).shape == (40, 40, 3)
    assert not recwarn.list


def test_spaces_and_other_alphabets_in_paths(tmp_path: Path, ramp: np.ndarray) -> None:
    """Catches paths that are passed on as bytes or split at spaces."""
    path = tmp_path / "mein Bild ñ 写真" / "frame: один.png"
    path.parent.mkdir()
    write_png(path, ramp)
    np.testing.assert_array_equal(read_image(path), ramp)
    assert probe(path).kind == "image"


def test_truncated_image_is_named(tmp_path: Path) -> None:
    """Catches a traceback, or a frame whose lower half is grey."""
    path = tmp_path / "cut.png"
    write_png(path, np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8))
    path.write_bytes(path.read_bytes()[:4000])
    with pytest.raises(UsageError, match=r"cut\.png is damaged or truncated"):
        read_image(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        (b"", r"is empty \(0 bytes\)"),
        (b"Dear diary, today nothing moved.\n" * 40, "is not an image or video"),
        (b"\x89PNG\r\n\x1a\nrubbish" * 20, "is not an image or video"),
    ],
)
@pytest.mark.parametrize("name", ["thing.txt", "thing.png", "thing.mp4"])
def test_what_is_neither_image_nor_video_is_one_line(tmp_path: Path, content, message: str, name: str) -> None:
    """Catches tracebacks, and ffmpeg drawing a text file as ANSI art."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=message) as caught:
        probe(path)
    assert "\n" not in str(caught.value)


def test_folder_and_empty_path_are_one_line(tmp_path: Path) -> None:
    """Catches IsADirectoryError, and "" being taken for the current folder."""
    with pytest.raises(UsageError, match="is a folder"):
        probe(tmp_path)
    with pytest.raises(UsageError, match="path is empty"):
        probe("")


def test_prepare_frame_leaves_a_fitting_frame_alone(ramp: np.ndarray) -> None:
    """Catches a resize by the identity that still filters."""
    np.testing.assert_array_equal(prepare_frame(ramp, 64, 48), ramp)


def test_prepare_frame_crops_the_centre(ramp: np.ndarray) -> None:
    """Catches a crop from a corner, or a squeeze to the target's aspect."""
    np.testing.assert_array_equal(prepare_frame(ramp, 48, 48), ramp[:, 8:56])
    np.testing.assert_array_equal(prepare_frame(ramp, 64, 16), ramp[16:32])


def test_prepare_frame_crops_before_it_resizes() -> None:
    """Catches `resize(box=...)`, whose filter mixes in pixels from outside the box."""
    frame = np.zeros((32, 64, 3), np.uint8)
    frame[:, :16] = frame[:, 48:] = 255
    assert prepare_frame(frame, 16, 16).max() == 0


def test_prepare_frame_is_lanczos(ramp: np.ndarray) -> None:
    """Catches another filter; the reference is Pillow's own."""
    expected = Image.fromarray(ramp).resize((32, 24), Image.Resampling.LANCZOS)
    np.testing.assert_array_equal(prepare_frame(ramp, 32, 24), np.asarray(expected))
    np.testing.assert_array_equal(prepare_frame(Image.fromarray(ramp), 32, 24), np.asarray(expected))


def test_prepare_frame_takes_small_and_extreme_images() -> None:
    """Catches a crop of zero rows and sides under 64 px."""
    assert prepare_frame(np.zeros((1, 400, 3), np.uint8), 64, 64).shape == (64, 64, 3)
    assert prepare_frame(np.zeros((400, 1, 3), np.uint8), 128, 16).shape == (16, 128, 3)


def test_write_png_keeps_pixels_and_text(tmp_path: Path, ramp: np.ndarray) -> None:
    """Catches a lossy or colour-converted write, and a temporary file that stays."""
    write_png(tmp_path / "a.png", ramp, text={"prompt": "вид из окна"})
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), ramp)
    assert Image.open(tmp_path / "a.png").text == {"prompt": "вид из окна"}
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


@pytest.mark.parametrize("shape", [(16, 24, 3), (1, 1, 3), (301, 7, 3), (200, 300, 3)])
def test_a_stored_png_holds_the_pixels(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """Catches swapped channels, a row out of step, and a file that other programs refuse."""
    frame = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    write_stored_png(tmp_path / "a.png", frame)
    with Image.open(tmp_path / "a.png") as image:
        image.verify()
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), frame)
    np.testing.assert_array_equal(cv2.imread(str(tmp_path / "a.png"))[..., ::-1], frame)


def test_full_disk_keeps_the_older_file(tmp_path: Path, ramp: np.ndarray, monkeypatch) -> None:
    """Catches a half-written PNG under the final name, and a temporary file left on a full disk."""
    path = tmp_path / "a.png"
    write_png(path, ramp)

    def full(*_args) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic.os, "replace", full)
    with pytest.raises(RunError, match=r"cannot write .*a\.png: No space left on device; what was written before"):
        write_png(path, 255 - ramp)
    monkeypatch.undo()
    np.testing.assert_array_equal(read_image(path), ramp)
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_missing_folder_is_a_run_error(tmp_path: Path, ramp: np.ndarray) -> None:
    """Catches a bare FileNotFoundError."""
    with pytest.raises(RunError, match="No such file or directory"):
        write_png(tmp_path / "gone" / "a.png", ramp)
