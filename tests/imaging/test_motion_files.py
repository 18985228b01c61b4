"""Motion vectors and visibility from files: every format, every convention, and what fits no clip."""

import struct

import cv2
import numpy as np
import pytest

from dltb import UsageError
from dltb.imaging.motion_files import READERS, VectorOptions, find_files, read_flow, read_visibility

WIDTH, HEIGHT = 24, 16
PX = VectorOptions(direction="from-previous", units="px", y=None, scale=1.0)


@pytest.fixture
def vectors():
    """Whole 64ths of a pixel, which every format holds exactly; x and y differ everywhere."""
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    return np.stack([columns / 4 - 2, rows / 8 + 0.25], -1).astype(np.float32)


def write_flo(path, vectors):
    height, width = vectors.shape[:2]
    path.write_bytes(b"PIEH" + struct.pack("<ii", width, height) + vectors.astype("<f4").tobytes())


def write_kitti(path, vectors, known=None):
    known = np.ones(vectors.shape[:2]) if known is None else known
    packed = np.concatenate([vectors * 64 + 2**15, known[..., None]], -1).astype(np.uint16)
    assert cv2.imwrite(str(path), packed[..., ::-1])


def write_exr(path, vectors):
    OpenEXR = pytest.importorskip("OpenEXR")
    layers = {"View.Vector.X": vectors[..., 0].copy(), "View.Vector.Y": vectors[..., 1].copy()}
    OpenEXR.File({}, layers).write(str(path))


WRITERS = {
    ".flo": write_flo,
    ".npy": np.save,
    ".npz": lambda path, vectors: np.savez(path, depth=vectors[..., 0], mv=vectors.astype(np.float16)),
    ".exr": write_exr,
    ".png": write_kitti,
}


def read(path, options=PX, clip=(WIDTH, HEIGHT), size=(WIDTH, HEIGHT)):
    return read_flow(path, options, clip, size)


@pytest.mark.parametrize("suffix", READERS)
def test_every_format_gives_the_same_flow(tmp_path, vectors, suffix):
    """Catches x and y swapped, a header read as data, BGR for RGB, and a format that nobody reads any more."""
    path = tmp_path / f"mv_0001{suffix}"
    WRITERS[suffix](path, vectors)
    flow = read(path)
    assert flow.forward.dtype == np.float32
    np.testing.assert_array_equal(flow.forward, vectors)
    assert not flow.hidden.any()


@pytest.mark.parametrize(
    ("options", "factors"),
    [
        ({"direction": "to-previous"}, (-1, -1)),
        ({"y": "up"}, (1, -1)),
        ({"scale": 0.5}, (0.5, 0.5)),
        ({"units": "uv"}, (WIDTH, HEIGHT)),
        ({"units": "ndc"}, (WIDTH / 2, -HEIGHT / 2)),
        ({"units": "ndc", "y": "down"}, (WIDTH / 2, HEIGHT / 2)),
    ],
)
def test_conventions(tmp_path, vectors, options, factors):
    """Catches a sign or a unit that is applied to the wrong axis, and ndc whose y is taken to grow downwards."""
    np.save(tmp_path / "mv_1.npy", vectors)
    flow = read(tmp_path / "mv_1.npy", VectorOptions(**{**vars(PX), **options}))
    np.testing.assert_allclose(flow.forward, vectors * np.float32(factors), rtol=1e-6)


def test_vectors_are_cropped_and_scaled_as_the_frames_are(tmp_path):
    """Catches vectors that keep their length when the frame shrinks, and a crop from the corner."""
    vectors = np.zeros((HEIGHT, WIDTH, 2), np.float32)
    vectors[:, 4:20] = (6, 2)  # the centred square of 16 px that a square pass keeps
    np.save(tmp_path / "mv_1.npy", vectors)
    flow = read(tmp_path / "mv_1.npy", size=(8, 8))
    assert flow.forward.shape == (8, 8, 2)
    np.testing.assert_array_equal(flow.forward, np.broadcast_to(np.float32((3, 1)), (8, 8, 2)))


def test_unknown_vectors_move_nothing_and_are_hidden(tmp_path, vectors):
    """Catches a NaN that reaches the warp, and KITTI's or Middlebury's marks taken for motion."""
    bad = np.zeros((HEIGHT, WIDTH), bool)
    bad[2, 3] = True
    write_kitti(tmp_path / "mv_1.png", vectors, ~bad)
    np.save(tmp_path / "mv_2.npy", np.where(bad[..., None], np.float32(np.nan), vectors))
    write_flo(tmp_path / "mv_3.flo", np.where(bad[..., None], np.float32(1e10), vectors))
    for name in ("mv_1.png", "mv_2.npy", "mv_3.flo"):
        flow = read(tmp_path / name)
        np.testing.assert_array_equal(flow.hidden, bad)
        np.testing.assert_array_equal(flow.forward, np.where(bad[..., None], 0, vectors))


@pytest.mark.parametrize("options", [PX, VectorOptions("to-previous", "ndc", None, 100.0)])
def test_vectors_of_no_possible_motion_are_refused(tmp_path, vectors, options):
    """Catches one broken value that is taken for motion, in whatever unit, and a file in which nothing is valid."""
    np.save(tmp_path / "mv_1.npy", np.where(np.arange(WIDTH)[:, None] == 3, 8.1 * WIDTH, vectors))
    with pytest.raises(UsageError, match=r"mv_1.npy has vectors of up to .* \(--mv-units\)"):
        read(tmp_path / "mv_1.npy", options)
    write_kitti(tmp_path / "mv_2.png", vectors, np.zeros((HEIGHT, WIDTH)))
    with pytest.raises(UsageError, match=r"mv_2.png has no valid vector"):
        read(tmp_path / "mv_2.png", options)


def test_the_size_must_be_the_clips_or_the_passes(tmp_path, vectors):
    """Catches vectors of another render that would be stretched over the clip."""
    np.save(tmp_path / "mv_1.npy", vectors)
    with pytest.raises(UsageError, match=r"mv_1.npy is 24x16; it must be 512x512 or 256x256"):
        read(tmp_path / "mv_1.npy", clip=(512, 512), size=(256, 256))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.flo", b"PIE", "it does not start with PIEH"),
        ("a.flo", b"PIEH" + struct.pack("<ii", 5, 5) + b"0000", "cannot be read as motion vectors"),
        ("a.npy", b"nothing", "cannot be read as motion vectors"),
        ("a.npz", b"nothing", "cannot be read as motion vectors"),
        ("a.png", b"nothing", "no flow as KITTI packs it"),
    ],
)
def test_damaged_files_are_one_line(tmp_path, name, content, says):
    """Catches a traceback of numpy or OpenCV for a file that was cut off."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=says):
        read(tmp_path / name)


def test_other_arrays_are_named(tmp_path):
    """Catches the first array of an archive taken for vectors."""
    np.savez(tmp_path / "a.npz", depth=np.zeros((4, 4)), albedo=np.zeros((4, 4, 3)))
    with pytest.raises(UsageError, match="holds depth, albedo; motion vectors are named mv, flow"):
        read(tmp_path / "a.npz")
    np.save(tmp_path / "a.npy", np.zeros((4, 4)))
    with pytest.raises(UsageError, match=r"shape \(4, 4\)"):
        read(tmp_path / "a.npy")


def numbered(folder, count, suffix=".npy"):
    for number in range(1, count + 1):
        (folder / f"mv_{number}{suffix}").touch()
    return str(folder)


@pytest.mark.parametrize(
    ("count", "lengths", "of_frame_2"),
    [
        (12, [12], "mv_2.npy"),  # one a frame, the first is ignored
        (11, [12], "mv_1.npy"),  # one a pair
        (5, [12, 5], "mv_2.npy"),  # rendered as far as the run goes
        (8, [12, 5], "mv_2.npy"),  # rendered further than the run goes, not to the end of the clip
        (12, [], "mv_2.npy"),  # the clip does not say how long it is
    ],
)
def test_files_belong_to_frames(tmp_path, count, lengths, of_frame_2):
    """Catches motion that comes a frame early or late, which no picture shows, and mv_10 sorted before mv_2."""
    files = find_files(numbered(tmp_path, count), "--motion-vectors", tuple(READERS), lengths)
    assert files.of(2).name == of_frame_2
    assert files.of(count + files.first).name == f"mv_{count}.npy"
    with pytest.raises(UsageError, match=f"no file for frame {count + files.first + 1}"):
        files.of(count + files.first + 1)


def test_a_count_that_fits_no_clip_is_one_line(tmp_path):
    """Catches a run that ends in the middle because an export did."""
    with pytest.raises(UsageError, match=r"9 files \(.npy\) for a clip of 12 frames; .* one a pair of frames \(11\)"):
        find_files(numbered(tmp_path, 9), "--motion-vectors", tuple(READERS), [12])
    with pytest.raises(UsageError, match="no such folder"):
        find_files(str(tmp_path / "none"), "--motion-vectors", tuple(READERS), [12])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"no files of a known kind; known: .flo, .npy"):
        find_files(str(tmp_path / "empty"), "--motion-vectors", tuple(READERS), [12])


def test_frames_beside_the_vectors_are_not_vectors(tmp_path):
    """Catches the renderer's pictures read as KITTI flow where both lie in one folder."""
    numbered(tmp_path, 3, ".png")
    files = find_files(numbered(tmp_path, 3, ".npz"), "--motion-vectors", tuple(READERS), [3])
    assert {path.suffix for path in files.paths} == {".npz"}


@pytest.mark.parametrize("suffix", [".png", ".npy", ".npz"])
def test_visibility(tmp_path, suffix):
    """Catches the polarity turned round: 0 is what could not be seen."""
    seen = np.ones((HEIGHT, WIDTH), bool)
    seen[4:8, 10:14] = False
    path = tmp_path / f"v_1{suffix}"
    if suffix == ".png":
        cv2.imwrite(str(path), seen.astype(np.uint8) * 255)
    else:
        np.save(path, seen) if suffix == ".npy" else np.savez(path, mv=np.zeros(3), visible=seen)
    np.testing.assert_array_equal(read_visibility(path, (WIDTH, HEIGHT), (WIDTH, HEIGHT)), seen)
    small = read_visibility(path, (WIDTH, HEIGHT), (8, 8))
    np.testing.assert_array_equal(np.argwhere(~small), [(2, 3), (2, 4), (3, 3), (3, 4)])
