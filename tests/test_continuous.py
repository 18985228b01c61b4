"""dltb-continuous on the embedded model: files of the contract and the identities of the loop."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from dltb import continuous, iterate
from dltb.continuous import main
from dltb.imaging.frames import read_image
from tests.clips import assert_same_run, decoded, files, manifest, sliding_clip, write_clip

pytestmark = pytest.mark.usefixtures("shared_models")
SMALL = ["--width", "64", "--height", "64", "--save-every", "1"]


@pytest.fixture
def clip(tmp_path, picture):
    return sliding_clip(tmp_path / "clip.png", picture, 5)


def frames_of(run, prefix=""):
    return [read_image(p) for p in sorted((run / "frames").glob(f"{prefix}frame_*.png"))]


def test_files_of_the_contract(tmp_path, clip):
    """Catches a missing, misnamed or extra file; a tail's frames have a space after the mode."""
    argv = ["--input", str(clip), "--tail-frames", "4", "--tail-modes", "freeze,free,black", "--save-every", "2"]
    assert main([*argv, "--output-dir", str(tmp_path / "out"), "--width", "64", "--height", "64"]) == 0
    run = tmp_path / "out" / "clip_stateful-a0.3_tailsfreeze-free-black4"
    tails = ("freeze", "free", "black")
    expected = {"frame_0000_source.png", "processed_stateful.mp4", "end_state.png", "run.json", "steps.jsonl"}
    expected |= {f"tail_{mode}.mp4" for mode in tails} | {"frames/frame_0002.png", "frames/frame_0004.png"}
    expected |= {f"frames/{mode} frame_{n:04d}.png" for mode in tails for n in (2, 4)}
    assert files(run) == expected
    assert [len(decoded(run / f"tail_{mode}.mp4")) for mode in tails] == [4, 4, 4]
    assert len(decoded(run / "processed_stateful.mp4")) == 5
    assert manifest(run)["passes"] == {"main": 5, "freeze": 4, "free": 4, "black": 4}


def test_full_anchor_equals_anchored(tmp_path, clip, capsys):
    """Catches an anchor that lets a trace of the state through; tails are the same too."""
    common = ["--input", str(clip), "--tail-frames", "2", "--tail-modes", "freeze,free", *SMALL]
    assert main([*common, "--anchor-blend", "1.0", "--output-dir", str(tmp_path / "a")]) == 0
    assert capsys.readouterr().err.count("NOTE: at --anchor-blend 1.0") == 1
    assert main([*common, "--anchor-blend", "1.0", "--mode", "anchored", "--output-dir", str(tmp_path / "b")]) == 0
    stateful = tmp_path / "a" / "clip_stateful-a1_tailsfreeze-free2"
    anchored = tmp_path / "b" / "clip_anchored_tailsfreeze-free2"
    assert (anchored / "processed_anchored.mp4").exists()
    for prefix in ("", "freeze ", "free "):
        pairs = zip(frames_of(stateful, prefix), frames_of(anchored, prefix), strict=True)
        assert all(np.array_equal(a, b) for a, b in pairs)
    assert len(frames_of(stateful)) == 5


def test_no_anchor_equals_a_free_run(tmp_path, small_picture):
    """Catches a state that is touched on its way: a still clip at a = 0 is dltb-iterate, pass by pass."""
    Image.fromarray(small_picture).save(tmp_path / "still.png")
    write_clip(tmp_path / "clip.png", [small_picture] * 4)
    # Pillow drops repeated frames of an animated PNG; mark each outside the centre crop.
    marked = [np.pad(small_picture, ((0, 0), (8, 8), (0, 0)), constant_values=n) for n in range(4)]
    write_clip(tmp_path / "clip.png", marked)
    argv = ["--anchor-blend", "0", "--no-reproject", "--output-dir", str(tmp_path), *SMALL]
    assert main(["--input", str(tmp_path / "clip.png"), *argv]) == 0
    assert (
        iterate.main(
            ["--input", str(tmp_path / "still.png"), "--iterations", "4", "--output-dir", str(tmp_path), *SMALL[:4]]
        )
        == 0
    )
    looped, free = frames_of(tmp_path / "clip_stateful-a0-norepro"), frames_of(tmp_path / "still_free-running")
    assert len(looped) == 4
    assert all(np.array_equal(a, b) for a, b in zip(looped, free, strict=True))


def test_tails_start_from_one_end_state(tmp_path, clip):
    """Catches a tail that goes on where the tail before it ended."""
    argv = ["--input", str(clip), "--tail-frames", "2", *SMALL]
    assert main([*argv, "--tail-modes", "black,free", "--output-dir", str(tmp_path / "a")]) == 0
    assert main([*argv, "--tail-modes", "free", "--output-dir", str(tmp_path / "b")]) == 0
    both, alone = (
        tmp_path / "a" / "clip_stateful-a0.3_tailsblack-free2",
        tmp_path / "b" / "clip_stateful-a0.3_tailsfree2",
    )
    assert np.array_equal(frames_of(both, "free ")[1], frames_of(alone, "free ")[1])
    assert np.array_equal(read_image(both / "end_state.png"), frames_of(both)[-1])


def test_seeds_count_from_one_in_each_tail(tmp_path, clip):
    """Catches a tail whose noise depends on the length of the clip."""
    argv = ["--input", str(clip), "--tail-frames", "2", "--no-fixed-seed", "--seed", "50", *SMALL]
    assert main([*argv, "--output-dir", str(tmp_path)]) == 0
    lines = (tmp_path / "clip_stateful-a0.3_tailsfreeze2" / "steps.jsonl").read_text().splitlines()
    assert [json.loads(line)["seed"] for line in lines] == [51, 52, 53, 54, 55, 51, 52]


def test_max_frames_and_frame_rate(tmp_path):
    """Catches a clip that runs on, and a video at another rate than the source's."""
    import av

    assert main(["--max-frames", "2", "--output-dir", str(tmp_path), *SMALL]) == 0
    video = tmp_path / "courtyard_stateful-a0.3" / "processed_stateful.mp4"
    assert len(decoded(video)) == 2
    with av.open(str(video)) as container:
        assert container.streams.video[0].average_rate == 24


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--reproject-mask", "--no-reproject"], "--reproject-mask"),
        (["--input", "input_example/test_512.png"], "use dltb-iterate"),
        (["--input", ""], "--input is empty"),
    ],
)
def test_wrong_requests_change_nothing(tmp_path, argv, says, capsys):
    """Catches options that contradict each other and are carried out all the same."""
    assert main([*argv, "--output-dir", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert says in error
    assert not (tmp_path / "out").exists()


def test_a_conditioning_of_ones_own(tmp_path, clip, small_picture):
    """Catches a broken seam: run(args, make_conditioning) is what users of the library build on."""
    seen = []

    def make_conditioning(args, estimate_flow, warp):
        def combine(carried, fresh, previous):
            seen.append(estimate_flow(previous, fresh).forward.shape)
            return fresh

        return combine, lambda mode, carried, last_source: carried

    args = continuous.build_parser().parse_args(["--input", str(clip), "--output-dir", str(tmp_path), *SMALL])
    assert continuous.run(args, make_conditioning) == 0
    assert seen == [(64, 64, 2)] * 4


@pytest.mark.parametrize("passes_of_tails", [3, 11, 12, 14, 23])
def test_interrupt_finishes_the_pass_and_resume_is_exact(tmp_path, clip, monkeypatch, capsys, passes_of_tails):
    """Catches a Ctrl-C that loses the pass under way, and a resume that differs from an unbroken run."""
    import signal

    import dltb.runs.model as model

    load = model.load_model
    argv = ["--input", str(clip), "--tail-frames", "12", "--tail-modes", "freeze,black", *SMALL]
    assert main([*argv, "--output-dir", str(tmp_path / "unbroken")]) == 0

    def interrupting(choice, note):
        generate, count = load(choice, note), [0]

        def counted(images, index):
            count[0] += 1
            if count[0] == 5 + passes_of_tails:
                signal.raise_signal(signal.SIGTERM)
            return generate(images, index)

        return counted

    with monkeypatch.context() as patch:
        patch.setattr("dltb.runs.video.load_model", interrupting)
        assert main([*argv, "--output-dir", str(tmp_path / "broken")]) == 143
    assert "SIGTERM" in capsys.readouterr().err
    name = "clip_stateful-a0.3_tailsfreeze-black12"
    broken = tmp_path / "broken" / name
    assert manifest(broken)["status"] == "interrupted"
    assert sum(len(decoded(video)) for video in broken.glob("tail_*.mp4")) == passes_of_tails
    assert main([*argv, "--output-dir", str(tmp_path / "broken"), "--resume"]) == 0
    assert_same_run(tmp_path / "unbroken" / name, broken)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_resume_with_another_file_is_refused(tmp_path, picture, capsys):
    """Catches two clips of one name mixed in one run."""
    argv = ["--input", str(tmp_path / "clip.png"), "--output-dir", str(tmp_path / "out"), *SMALL]
    sliding_clip(tmp_path / "clip.png", picture, 3)
    assert main(argv) == 0
    sliding_clip(tmp_path / "clip.png", picture, 3, step=4)
    assert main([*argv, "--resume"]) == 2
    assert "input sha256" in capsys.readouterr().err


def test_too_little_disk_is_refused_before_it_starts(tmp_path, clip, monkeypatch, capsys):
    """Catches a run that fills the disk hours later."""
    monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=1000))
    assert main(["--input", str(clip), "--output-dir", str(tmp_path / "out"), *SMALL]) == 2
    assert "of disk" not in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
