"""Video in: probe and decode through PyAV; animated images go to `dltb.imaging.animation`.

One source frame is one frame: frames come in the order and number in which the file holds them, none repeated or
dropped to reach a constant rate. They come upright, in full-range sRGB values, over black where they are transparent.
Fields of interlaced video are not separated and non-square pixels are not stretched; `Probe.notes` says both.
"""

import contextlib
import itertools
import statistics
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.reformatter import ColorRange, Interpolation, VideoReformatter
from PIL import Image

from dltb import UsageError
from dltb.imaging import hdr
from dltb.imaging.animation import is_animated_image, probe_animation, read_animation
from dltb.imaging.frames import TRANSPARENCY_NOTE, Probe, existing_file, opened_image, oriented, to_rgb

FALLBACK_FPS = Fraction(25)
_HIGHEST_FPS = 1000  # cameras reach 960; above that it is a container's clock

# Containers without an index are judged by their first packets.
_SCANNED_PACKETS = 250

# ITU-T H.273 matrix coefficients.
_BT709, _UNSPECIFIED, _BT601 = 1, 2, 5
# swscale's fast paths shift RGB by about one level, and a feedback loop adds that up; this costs 1 ms at 512 px.
_EXACT = (
    Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT | Interpolation.FULL_CHR_H_INP
)

# What ffmpeg opens as video and is none: text drawn as ANSI art, lists of other files, pictures that Pillow refused.
_NOT_VIDEO = ("tty", "concat", "image2", "hls", "lavfi")


def probe_video(path: Path | str) -> Probe:
    """Describe a video or an animated image; a still image or anything else is a UsageError."""
    path = existing_file(path)
    if is_animated_image(path):
        return probe_animation(path)
    _refuse_still(path)
    with _opened(path) as (container, stream):
        count, gaps = _timing(container, stream)
        fps, fps_notes = _frame_rate(stream, gaps)
        notes = [*fps_notes, *_stream_notes(stream)]
    frame = _first_frame(path)
    swap_axes = _orientation(frame)[0]
    size = (frame.height, frame.width) if swap_axes else (frame.width, frame.height)
    return Probe(path, "video", *size, frame_count=count, fps=fps, notes=(*_frame_notes(frame), *notes))


def looks_like_video(path: Path) -> bool:
    """Whether ffmpeg finds a video stream; nothing is decoded."""
    try:
        with _opened(path):
            return True
    except UsageError:
        return False


def read_video(
    path: Path | str,
    limit: int | None = None,
    *,
    on_note: Callable[[str], None] = warnings.warn,
) -> Iterator[np.ndarray]:
    """Yield the frames, uint8 [H, W, 3], at most `limit`; memory does not grow with the length.

    A damaged or truncated file yields what can be decoded; `on_note` then gets one line with the numbers. A file of
    which nothing can be decoded is a UsageError.
    """
    path = existing_file(path)
    if is_animated_image(path):
        yield from read_animation(path, limit, on_note)
        return
    _refuse_still(path)
    with _opened(path) as (container, stream):
        expected, damage, number = _timing(container, stream)[0], _Damage(), 0
        # A count worked out from the duration can be off by a frame or two.
        tolerance = 0 if stream.frames else max(2, (expected or 0) // 50)
    scaler = VideoReformatter()  # one for all frames: setting it up takes longer than a small frame
    with _opened(path) as (container, stream):
        for frame in itertools.islice(_decoded(container, stream, damage), limit):
            yield oriented(_rgb(frame, scaler), *_orientation(frame))
            number += 1
    if number != limit:
        _report(path, number, (expected or 0) - tolerance, damage, on_note)


class _Damage:
    """What went wrong while decoding: packets that gave no picture, and frames that the decoder had to patch."""

    lost = 0
    patched = 0


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[av.container.InputContainer, av.VideoStream]]:
    try:
        # An absolute path: ffmpeg takes what stands before a colon for a protocol.
        container = av.open(str(path.absolute()), metadata_errors="replace")
    except (av.FFmpegError, OSError, ValueError) as error:
        raise UsageError(_not_a_video(path, getattr(error, "strerror", None) or "unknown kind of file")) from None
    with container:
        if container.format.name in _NOT_VIDEO or container.format.name.endswith("_pipe"):
            raise UsageError(_not_a_video(path, "unknown kind of file"))
        if _is_heif(container):
            raise UsageError(f"{path} is a HEIC/HEIF image; convert it to PNG or JPEG first")
        # The cover picture of a music file counts as a video stream to ffmpeg.
        streams = [s for s in container.streams.video if not s.disposition & av.stream.Disposition.attached_pic]
        if not streams:
            raise UsageError(f"{path} has no video stream")
        streams[0].thread_type = "AUTO"
        yield container, streams[0]


def _is_heif(container: av.container.InputContainer) -> bool:
    return container.metadata.get("major_brand", "").strip() in ("heic", "heix", "heim", "heis", "mif1", "msf1")


def _not_a_video(path: Path, reason: str) -> str:
    return f"{path} is not an image or video that can be read ({reason}); it may be damaged or cut short"


def _refuse_still(path: Path) -> None:
    with opened_image(path) as image:
        if image is not None:
            raise UsageError(
                f"{path} is an image and a video is wanted here; dltb-iterate and dltb-oneshot take images"
            )


# --- time ---------------------------------------------------------------------------------------------------------


def _timing(container, stream) -> tuple[int | None, list[Fraction]]:
    """The number of frames that the file promises, and the gaps in seconds between those whose time is known."""
    entries = [e.timestamp for e in stream.index_entries if not e.is_discard]
    if stream.frames and len(entries) > 1:
        return len(entries), _gaps(entries, stream.time_base)
    packets = itertools.islice(container.demux(stream), _SCANNED_PACKETS)
    gaps = _gaps([p.pts for p in packets if p.pts is not None and not p.is_discard], stream.time_base)
    if stream.frames:
        return stream.frames, gaps
    if not container.duration or not gaps:
        return None, gaps
    seconds = Fraction(container.duration, av.time_base)
    return max(1, round(seconds * len(gaps) / sum(gaps))), gaps


def _gaps(times: list[int], time_base: Fraction) -> list[Fraction]:  # s
    ordered = sorted(set(times))
    return [(b - a) * time_base for a, b in itertools.pairwise(ordered)]


def _frame_rate(stream, gaps: list[Fraction]) -> tuple[Fraction, list[str]]:
    """Average frames per second as a fraction, with what there is to say about it."""
    measured = len(gaps) / sum(gaps) if gaps else None
    rates, notes = [stream.average_rate, measured, stream.guessed_rate], []
    if gaps and max(gaps) - min(gaps) > statistics.median(gaps) / 4 + 2 * stream.time_base:
        shortest, longest = (float(1000 * gap) for gap in (min(gaps), max(gaps)))
        notes.append(f"variable frame rate: frames last {shortest:.4g} to {longest:.4g} ms; each is one frame")
        if not stream.frames:
            rates.insert(0, measured)  # without an index the container's own average is what the encoder was told
    for rate in rates:
        if rate and 0 < rate < _HIGHEST_FPS:
            return Fraction(rate).limit_denominator(1_000_000), notes
    return FALLBACK_FPS, [*notes, f"the file states no frame rate; {FALLBACK_FPS} fps is assumed"]


# --- decoding -----------------------------------------------------------------------------------------------------


def _first_frame(path: Path) -> av.VideoFrame:
    with _opened(path) as (container, stream):
        for frame in _decoded(container, stream, _Damage()):
            return frame
    raise UsageError(_not_a_video(path, "no frame of it can be decoded"))


def _decoded(container, stream, damage: _Damage) -> Iterator[av.VideoFrame]:
    """All frames that decode, in display order, past whatever does not."""
    for packet in _packets(container, stream, damage):
        # A packet that the end of the file cut off holds part of a picture.
        if packet is not None and packet.is_corrupt and packet.size:
            damage.lost += 1
            continue
        try:
            frames = stream.decode(packet)
        except av.FFmpegError:
            damage.lost += 1
            continue
        for frame in frames:
            damage.patched += frame.is_corrupt
            yield frame


def _packets(container, stream, damage: _Damage) -> Iterator[av.Packet | None]:
    try:
        yield from container.demux(stream)
    except av.FFmpegError:
        damage.lost += 1
        yield None  # makes the decoder give the frames that it still holds


def _report(path: Path, number: int, expected: int, damage: _Damage, on_note: Callable[[str], None]) -> None:
    if not number:
        raise UsageError(_not_a_video(path, "no frame of it can be decoded"))
    if damage.patched:
        on_note(f"{path}: {damage.patched} of {number} frames are damaged and were patched by the decoder")
    if damage.lost or number < expected:
        promised = f"at least {expected}" if expected > number else "more"
        on_note(f"{path} is truncated or damaged: {number} frames could be decoded, {promised} were expected")


# --- one decoded picture to one frame -------------------------------------------------------------------------------


def _rgb(frame: av.VideoFrame, scaler: VideoReformatter) -> np.ndarray:  # uint8 [H, W, 3]
    if frame.colorspace == _UNSPECIFIED:
        # The usual rule for untagged files: standard definition is BT.601, anything larger BT.709.
        frame.colorspace = _BT709 if frame.width >= 1280 or frame.height > 576 else _BT601
    if frame.color_trc in (hdr.PQ, hdr.HLG):
        return hdr.tone_map(_reformatted(frame, "rgb48le", scaler), frame.color_trc)
    if _has_alpha(frame):
        return to_rgb(Image.fromarray(_reformatted(frame, "rgba", scaler)))
    return _reformatted(frame, "rgb24", scaler)


def _reformatted(frame: av.VideoFrame, pixel_format: str, scaler: VideoReformatter) -> np.ndarray:
    """Convert by the frame's own matrix and range tags to full-range RGB."""
    full = ColorRange.JPEG
    return scaler.reformat(frame, format=pixel_format, dst_color_range=full, interpolation=_EXACT).to_ndarray()


def _orientation(frame: av.VideoFrame) -> tuple[bool, bool, bool]:
    """(swap axes, mirror left-right, mirror top-bottom) of the display matrix that the container or codec carries.

    Convention: the matrix [a b u; c d v; x y w] sends the row (p, q) to (a p + c q, b p + d q), x right and y down.
    """
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return False, False, False
    a, b, _, c, d = np.frombuffer(bytes(matrix), np.int32)[:5]
    if abs(int(a)) + abs(int(d)) >= abs(int(b)) + abs(int(c)):
        return False, bool(a < 0), bool(d < 0)
    return True, bool(c < 0), bool(b < 0)


def _has_alpha(frame: av.VideoFrame) -> bool:
    return frame.format.name.startswith(("yuva", "gbrap", "rgba", "argb", "abgr", "bgra", "ya", "pal8", "ayuv", "vuya"))


# --- notes --------------------------------------------------------------------------------------------------------


def _stream_notes(stream) -> Iterator[str]:
    aspect = stream.sample_aspect_ratio
    if aspect and aspect != 1:
        yield f"its pixels are not square ({aspect.numerator}:{aspect.denominator}); they are used as stored"
    if stream.metadata.get("alpha_mode") == "1":
        yield "its alpha channel is not decoded; the colours under it are shown"


def _frame_notes(frame: av.VideoFrame) -> Iterator[str]:
    if _orientation(frame) != (False, False, False):
        yield "turned upright by its rotation metadata"
    bits = frame.format.components[0].bits
    if frame.color_trc in (hdr.PQ, hdr.HLG):
        yield f"{bits}-bit {'PQ' if frame.color_trc == hdr.PQ else 'HLG'} is tone-mapped to 8-bit sRGB"
    elif bits > 8:
        yield f"{bits}-bit colour is converted to 8 bits"
    if frame.interlaced_frame:
        yield "interlaced; its fields are not separated"
    if _has_alpha(frame) and _reformatted(frame, "rgba", VideoReformatter())[..., 3].min() < 255:
        yield TRANSPARENCY_NOTE
