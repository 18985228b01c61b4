"""Still images and frame geometry: probe, read, orient, crop, resize, write.

A frame is uint8 RGB `[H, W, 3]`, 0..255, in the values that an sRGB PNG holds. This module knows single images; moving
pictures are `dltb.imaging.video`'s, and `probe` sends a file to whichever of the two can read it. Embedded ICC profiles
are not applied.
"""

import contextlib
import struct
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import Image, PngImagePlugin

from dltb import UsageError
from dltb.imaging.atomic import replacing

# Raster kinds only: Pillow also recognises files it cannot or should not decode (MPEG, EPS through Ghostscript, WMF).
IMAGE_FORMATS = (
    *("PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP", "AVIF", "JPEG2000", "PPM"),
    *("ICO", "PSD", "QOI", "SGI", "PCX", "DDS", "DIB"),
)
# Formats in which several pictures are a movie. In the others (TIFF pages, stereo pairs) the first one is the image.
ANIMATION_FORMATS = ("GIF", "WEBP", "PNG", "AVIF")

# zlib at level 1 takes 30 ms for a 512 px frame and 65 ms for 768; Pillow's default (6) takes 76 and 187 for files
# about a tenth smaller, and a fast pass on the device is shorter than that.
PNG_COMPRESS_LEVEL = 1

# EXIF orientation -> (swap axes, then mirror left-right, then mirror top-bottom).
_ORIENTATIONS = {
    1: (False, False, False),
    2: (False, True, False),
    3: (False, True, True),
    4: (False, False, True),
    5: (True, False, False),
    6: (True, True, False),
    7: (True, True, True),
    8: (True, False, True),
}
_EXIF_ORIENTATION_TAG = 0x0112

TRANSPARENCY_NOTE = "transparent pixels are shown over black"


@dataclass(frozen=True)
class Probe:
    """What a file holds, learned without decoding all of it."""

    path: Path
    kind: str  # "image" | "video"
    width: int  # px, after orientation
    height: int  # px, after orientation
    frame_count: int | None  # expected; None where the file does not say
    fps: Fraction  # average over the real frames; 0 for an image
    notes: tuple[str, ...] = ()  # to be said aloud once


def probe(path: Path | str) -> Probe:
    """Describe an image or a video; a file that is neither is a UsageError."""
    from dltb.imaging.video import probe_video

    path = existing_file(path)
    with opened_image(path) as image:
        still = image is not None and not is_animation(image)
    return probe_image(path) if still else probe_video(path)


def probe_image(path: Path | str) -> Probe:
    """Describe a still image; a video is a UsageError that names the tool for it."""
    path = existing_file(path)
    with opened_image(path) as image:
        if image is None:
            raise UsageError(_not_an_image(path))
        if is_animation(image):
            raise UsageError(
                f"{path} is animated and a still image is wanted here; dltb-continuous and dltb-klein take videos"
            )
        width, height = image.size
        turned = _ORIENTATIONS[exif_orientation(image)][0]
        size = (height, width) if turned else (width, height)
        return Probe(path, "image", *size, frame_count=1, fps=Fraction(0), notes=tuple(_image_notes(image)))


def read_image(path: Path | str) -> np.ndarray:  # uint8 [H, W, 3]
    """Decode an image, upright by its EXIF orientation, over black where it is transparent."""
    path = existing_file(path)
    with opened_image(path) as image:
        if image is None:
            raise UsageError(_not_an_image(path))
        return oriented(to_rgb(image), *_ORIENTATIONS[exif_orientation(image)])


def prepare_frame(image: np.ndarray | Image.Image, width: int, height: int) -> np.ndarray:  # uint8 [height, width, 3]
    """Centre crop to the aspect of width x height, then Lanczos resize; a frame of that size comes back unchanged.

    Cropping comes first as a step of its own: Pillow's `resize(box=...)` lets the filter reach outside the box.
    """
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    picture = picture if picture.mode == "RGB" else Image.fromarray(to_rgb(picture))
    box = centre_box(*picture.size, width, height)
    if box != (0, 0, *picture.size):
        picture = picture.crop(box)
    if picture.size != (width, height):
        picture = picture.resize((width, height), Image.Resampling.LANCZOS)
    return np.array(picture)


def shrunk(frame: np.ndarray, longest: int) -> np.ndarray:  # uint8 [H, W, 3] -> uint8 [h, w, 3]
    """The frame, no side longer than `longest` px; a smaller one comes back unchanged."""
    height, width = frame.shape[:2]
    scale = longest / max(height, width)
    if scale >= 1:
        return frame
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0))


def write_png(
    path: Path | str,
    frame: np.ndarray,  # uint8 [H, W, 3]
    compress_level: int = PNG_COMPRESS_LEVEL,
    text: Mapping[str, str] | None = None,
) -> None:
    """Write a PNG whole or not at all; `text` becomes its text chunks. A full disk is a RunError."""
    chunks = PngImagePlugin.PngInfo()
    for key, value in (text or {}).items():
        chunks.add_itxt(key, value)
    with replacing(Path(path)) as temporary:
        Image.fromarray(frame).save(temporary, format="PNG", compress_level=compress_level, pnginfo=chunks)


def write_stored_png(path: Path, frame: np.ndarray) -> None:  # uint8 [H, W, 3]
    """`write_png` without compression: twice the size, or three times, in a small part of the time.

    Chunk by chunk, as Pillow tries every filter on every row even where nothing is compressed.
    """
    height, width = frame.shape[:2]
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # a row begins with the number of its filter, 0 for none
    rows[:, 1:] = frame.reshape(height, -1)
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        PngImagePlugin.putchunk(file, b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))  # 8-bit RGB
        PngImagePlugin.putchunk(file, b"IDAT", zlib.compress(rows, 0))
        PngImagePlugin.putchunk(file, b"IEND", b"")


def existing_file(path: Path | str) -> Path:
    """The path of a file that has something in it; else a UsageError says what is there instead."""
    if not str(path):
        raise UsageError("the input path is empty; give the path of an image or a video")
    path = Path(path)
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder; give the path of an image or video file")
        if not path.is_file() and path.exists():
            raise UsageError(f"{path} is not a regular file; copy what it gives into a file first")
        if path.stat().st_size == 0:
            raise UsageError(f"{path} is empty (0 bytes)")
        with path.open("rb"):
            return path
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


@contextlib.contextmanager
def opened_image(path: Path) -> Iterator[Image.Image | None]:
    """The file as a lazy Pillow image, or None where Pillow does not know it; failures to decode become UsageErrors."""
    try:
        image = _open_image(path)
        with image or contextlib.nullcontext():
            yield image
    except Image.DecompressionBombError as error:
        limit = 2 * (Image.MAX_IMAGE_PIXELS or 0) // 1_000_000
        raise UsageError(f"{path} is too large to decode safely (limit {limit} megapixels): {error}") from None
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, struct.error) as error:
        raise UsageError(f"{path} is damaged or truncated and cannot be decoded: {error}") from None


def _open_image(path: Path) -> Image.Image | None:
    with warnings.catch_warnings():
        # Pillow warns at half the size that it refuses.
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        try:
            return Image.open(path, formats=_known_formats())
        except Image.UnidentifiedImageError:
            return None


def is_animation(image: Image.Image) -> bool:
    """Whether the open image is a movie rather than a picture."""
    return image.format in ANIMATION_FORMATS and getattr(image, "n_frames", 1) > 1


def exif_orientation(image: Image.Image) -> int:
    """1..8; 1 where there is no tag, or none that makes sense."""
    try:
        value = image.getexif().get(_EXIF_ORIENTATION_TAG, 1)
    except (OSError, ValueError, SyntaxError, EOFError, KeyError, TypeError, struct.error):
        return 1
    return value if value in _ORIENTATIONS else 1


def oriented(
    frame: np.ndarray,  # uint8 [H, W, 3]
    swap_axes: bool,
    mirror_x: bool,
    mirror_y: bool,
) -> np.ndarray:
    """Swap rows and columns, then mirror left-right, then top-bottom: every orientation is one of these eight."""
    turned = frame.transpose(1, 0, 2) if swap_axes else frame
    return np.ascontiguousarray(turned[:: -1 if mirror_y else 1, :: -1 if mirror_x else 1])


def to_rgb(image: Image.Image) -> np.ndarray:  # uint8 [H, W, 3]
    """8-bit RGB of any Pillow mode: 16-bit grey scaled (Pillow clips it to white), transparency laid over black."""
    if image.mode.startswith("I"):
        image = _grey_from_16_bits(image)
    if image.mode == "F":
        raise UsageError(_no_fixed_range(image))
    if image.has_transparency_data:
        black = Image.new("RGBA", image.size, (0, 0, 0, 255))
        image = Image.alpha_composite(black, image.convert("RGBA"))
    return np.array(image.convert("RGB"))


def _grey_from_16_bits(image: Image.Image) -> Image.Image:
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 65535:
        raise UsageError(_no_fixed_range(image))
    return Image.fromarray(((values + 128) // 257).astype(np.uint8))


def _no_fixed_range(image: Image.Image) -> str:
    name = getattr(image, "filename", "") or "the image"
    return f"{name} has 32-bit pixels, whose black and white are not defined; save it with 8 or 16 bits first"


def _image_notes(image: Image.Image) -> Iterator[str]:
    orientation = exif_orientation(image)
    if orientation != 1:
        yield f"turned upright by its EXIF orientation ({orientation})"
    if image.mode.startswith("I"):
        yield "16-bit grey is scaled to 8 bits"
    elif image.mode == "CMYK":
        yield "CMYK is converted to RGB without its colour profile"
    elif is_transparent(image):
        yield TRANSPARENCY_NOTE


def is_transparent(image: Image.Image) -> bool:
    """Whether some pixel is less than opaque: an alpha channel that hides nothing is not worth a note."""
    return image.has_transparency_data and image.convert("RGBA").getextrema()[3][0] < 255


def centre_box(width: int, height: int, to_width: int, to_height: int) -> tuple[int, int, int, int]:
    """The largest centred box (left, top, right, bottom) of the target's aspect, in whole pixels."""
    crop_width = min(width, max(1, round(height * to_width / to_height)))
    crop_height = min(height, max(1, round(width * to_height / to_width)))
    left, top = (width - crop_width) // 2, (height - crop_height) // 2
    return left, top, left + crop_width, top + crop_height


def _known_formats() -> list[str]:
    Image.init()  # fills Image.OPEN with what this build of Pillow has
    return [name for name in IMAGE_FORMATS if name in Image.OPEN]


def _not_an_image(path: Path) -> str:
    from dltb.imaging.video import looks_like_video

    if looks_like_video(path):
        return f"{path} is a video and a still image is wanted here; dltb-continuous and dltb-klein take videos"
    return f"{path} is not an image that can be read (PNG, JPEG, WebP, TIFF, BMP, ...)"
