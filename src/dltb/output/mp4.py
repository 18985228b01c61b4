"""MP4 out: H.264 that plays everywhere, written frame by frame, and joined from segments without re-encoding.

yuv420p in BT.709, converted and tagged so; limited range; faststart; the frame rate exact as a fraction. Every file of
one size, rate and quality has the same stream header and no B-frames, so one frame is one packet and segments can
be joined by copying packets. The same frames give the same bytes wherever the library versions are the same.
"""

import contextlib
import platform
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.reformatter import ColorRange

from dltb import RunError, UsageError
from dltb.imaging.atomic import replacing, temporary_name, write_error

CRF = 18  # x264's quality; close to lossless to the eye
PRESET = "medium"

# x264's output depends on its number of threads, so it is fixed rather than taken from the machine.
_THREADS = 4
# x264's AVX-512 code gives other bytes, and not always the same ones, for frames narrower than 128 px. SSE4.2 is exact,
# on every x86 processor that NumPy runs on, and a tenth slower.
_EXACT_CODE = {"x264-params": "asm=MMX2,SSE2Fast,SSSE3,SSE4.2"} if platform.machine() in ("x86_64", "AMD64") else {}
# ITU-T H.273: primaries, transfer and matrix of BT.709.
_BT709 = 1
_EXACT = "bicubic+accurate_rnd+full_chroma_int+full_chroma_inp"


class Mp4Writer:
    """Encodes frames into `path`, which appears, whole, when the writer closes; nothing is left of one that fails.

    An odd size is padded to even by repeating the last column or row, and `note` says so (else it is None). A writer
    that got no frame writes no file.
    """

    def __init__(
        self,
        path: Path | str,
        width: int,  # px
        height: int,  # px
        fps: Fraction,
        *,
        crf: int = CRF,
        preset: str = PRESET,
        comment: str = "",  # the file's comment tag
    ) -> None:
        self.path = Path(path)
        self.note = _padding_note(self.path, width, height)
        self.frames_written = 0
        self._shape = (height, width, 3)
        self._pad = ((0, height % 2), (0, width % 2), (0, 0))
        self._tick = 1 / Fraction(fps)  # s
        self._container = _open_output(self.path)
        with self._discarding_on_error():
            _tag(self._container, comment)
            options = {"crf": str(crf), "preset": preset, "bf": "0", **_EXACT_CODE}
            self._stream = self._container.add_stream("libx264", rate=1 / self._tick, options=options)
            even = (width + width % 2, height + height % 2)
            _set_format(self._stream.codec_context, *even)
            self._converter = _converter(*even, self._tick)

    def write(self, frame: np.ndarray) -> None:
        """Encode one frame, uint8 RGB [height, width, 3]."""
        if frame.shape != self._shape or frame.dtype != np.uint8:
            raise UsageError(f"{self.path} takes uint8 frames of shape {self._shape}; got {frame.dtype} {frame.shape}")
        padded = np.pad(frame, self._pad, mode="edge") if self.note else np.ascontiguousarray(frame)
        picture = av.VideoFrame.from_ndarray(padded, format="rgb24")
        picture.pts, picture.time_base = self.frames_written, self._tick
        with self._discarding_on_error():
            self._converter.push(picture)
            self._container.mux(self._stream.encode(self._converter.pull()))
        self.frames_written += 1

    def close(self) -> None:
        """Finish the file and give it its name. Closing twice is harmless."""
        if self._container is None or not self.frames_written:
            self.discard()
            return
        with self._discarding_on_error():
            self._container.mux(self._stream.encode(None))
            self._container.close()
            temporary_name(self.path).replace(self.path)
        self._container = None

    def discard(self) -> None:
        """Drop what was written; an older file under this name stays."""
        if self._container is None:
            return
        container, self._container = self._container, None
        with contextlib.suppress(av.FFmpegError, OSError):
            container.close()
        with contextlib.suppress(OSError):
            temporary_name(self.path).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _discarding_on_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.discard()
            raise write_error(self.path, error) from error
        except av.FFmpegError as error:
            self.discard()
            height, width = self._shape[:2]
            raise RunError(f"cannot encode {self.path} at {width}x{height} px: {error}") from error
        except BaseException:
            self.discard()
            raise

    def __enter__(self) -> "Mp4Writer":
        return self

    def __exit__(self, kind, error, trace) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def join_mp4(parts: Sequence[Path], out: Path | str, fps: Fraction, *, comment: str = "") -> int:
    """Join files that `Mp4Writer` wrote with equal settings, by copying packets; return the number of frames.

    Time stamps are counted anew from 0 at `fps`, and `comment` becomes the file's comment tag. Memory does not grow with
    the length. `out` appears whole or not at all.
    """
    if not parts:
        raise UsageError(f"no parts to join into {out}")
    out = Path(out)
    with replacing(out) as temporary, _segment(parts[0]) as (_, first), _open_output(out, temporary) as joined:
        _tag(joined, comment)
        stream = joined.add_stream_from_template(first)
        stream.time_base = tick = 1 / Fraction(fps)
        return _copy_packets(parts, joined, stream, tick)


def _copy_packets(parts: Sequence[Path], joined: av.container.OutputContainer, stream, tick: Fraction) -> int:
    header, count = stream.codec_context.extradata, 0
    for part in parts:
        with _segment(part) as (container, source):
            if source.codec_context.extradata != header:
                raise RunError(f"{part} was encoded with other settings than the parts before it; it cannot be joined")
            for packet in filter(lambda p: p.size, container.demux(source)):
                packet.pts = packet.dts = count
                packet.duration, packet.time_base, packet.stream = 1, tick, stream
                joined.mux_one(packet)
                count += 1
    return count


@contextlib.contextmanager
def _segment(part: Path) -> Iterator[tuple[av.container.InputContainer, av.VideoStream]]:
    try:
        container = av.open(str(part.absolute()))
    except av.FFmpegError as error:
        raise RunError(f"{part} is not a playable video segment ({error.strerror}); it cannot be joined") from error
    with container:
        if not container.streams.video:
            raise RunError(f"{part} is not a playable video segment (no video in it); it cannot be joined")
        yield container, container.streams.video[0]


def _open_output(path: Path, temporary: Path | None = None) -> av.container.OutputContainer:
    temporary = temporary or temporary_name(path)
    try:
        temporary.touch()  # PyAV opens the file only with the first packet, too late for a folder that is not there
    except OSError as error:
        raise write_error(path, error) from error
    # Absolute: ffmpeg takes what stands before a colon for a protocol.
    return av.open(str(temporary.absolute()), "w", format="mp4", container_options={"movflags": "+faststart"})


def _tag(container: av.container.OutputContainer, comment: str) -> None:
    if comment:
        container.metadata["comment"] = comment


def _set_format(codec: av.VideoCodecContext, width: int, height: int) -> None:
    codec.width, codec.height, codec.pix_fmt = width, height, "yuv420p"
    codec.color_primaries = codec.color_trc = codec.colorspace = _BT709
    codec.color_range = ColorRange.MPEG
    codec.thread_count = _THREADS


def _converter(width: int, height: int, tick: Fraction) -> av.filter.Graph:
    """RGB to BT.709 yuv420p. A graph, because only the scale filter can be told where H.264's chroma samples sit.

    swscale on its own puts them between two columns, half a pixel off to every player, and its fast paths are about one
    level off.
    """
    graph = av.filter.Graph()
    graph.link_nodes(
        graph.add_buffer(width=width, height=height, format="rgb24", time_base=tick),
        graph.add("scale", f"out_color_matrix=bt709:out_range=tv:out_chroma_loc=left:flags={_EXACT}"),
        graph.add("format", "yuv420p"),
        graph.add("buffersink"),
    ).configure()
    return graph


def _padding_note(path: Path, width: int, height: int) -> str | None:
    if not (width % 2 or height % 2):
        return None
    even = f"{width + width % 2}x{height + height % 2}"
    return f"{path.name} is {even}: H.264 wants even sides, so {width}x{height} is padded by repeating its edge"
