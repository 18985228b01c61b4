"""dltb-continuous on the embedded model: files of the contract and the identities of the loop."""

import json
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from dltb import UsageError, continuous, iterate
from dltb.continuous import main
from dltb.imaging.frames import read_image
from dltb.output.mp4 import Mp4Writer
from tests.clips import assert_same_run, decoded, files, manifest, sliding_clip, write_clip
from tests.full_disk import full_disk

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
        (["--input", "input_example/test_512.png"], "dltb-iterate and dltb-oneshot take images"),
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


@pytest.mark.parametrize("passes_of_tails", [3, 11, 12, 14, 23])  # of two tails of 12, checkpoints at 10
def test_interrupt_finishes_the_pass_and_resume_is_exact(tmp_path, clip, monkeypatch, capsys, passes_of_tails):
    """Catches a Ctrl-C that loses the pass under way, and a resume that differs from an unbroken run."""
    import signal

    import dltb.runs.model as model

    load, number = model.load_model, signal.SIGINT if passes_of_tails == 14 else signal.SIGTERM
    argv = ["--input", str(clip), "--tail-frames", "12", "--tail-modes", "freeze,black", *SMALL]
    assert main([*argv, "--output-dir", str(tmp_path / "unbroken")]) == 0

    def interrupting(choice, note):
        generate, count = load(choice, note), [0]

        def counted(images, index):
            count[0] += 1
            if count[0] == 5 + passes_of_tails:
                signal.raise_signal(number)
            return generate(images, index)

        return counted

    with monkeypatch.context() as patch:
        patch.setattr("dltb.runs.video.load_model", interrupting)
        assert main([*argv, "--output-dir", str(tmp_path / "broken")]) == 128 + number
    assert number.name in capsys.readouterr().err
    name = "clip_stateful-a0.3_tailsfreeze-black12"
    broken = tmp_path / "broken" / name
    assert manifest(broken)["status"] == "interrupted"
    assert sum(len(decoded(video)) for video in broken.glob("tail_*.mp4")) == passes_of_tails
    assert main([*argv, "--output-dir", str(tmp_path / "broken"), "--resume"]) == 0
    assert_same_run(tmp_path / "unbroken" / name, broken)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_options_without_effect_make_no_other_run(tmp_path, clip, capsys):
    """Catches a good run that is refused, or replaced, for a flag that changes nothing."""
    argv = ["--input", str(clip), "--output-dir", str(tmp_path), *SMALL]
    assert main(argv) == 0
    assert main([*argv, "--tail-modes", "free"]) == 0
    assert "complete already" in capsys.readouterr().out


def test_a_conditioning_of_ones_own_is_a_setting(tmp_path, clip, capsys):
    """Catches "complete already" for a run that another conditioning made."""

    def make_conditioning(args, estimate_flow, warp):
        return (lambda carried, fresh, previous: fresh), (lambda mode, carried, last_source: carried)

    args = continuous.build_parser().parse_args(["--input", str(clip), "--output-dir", str(tmp_path), *SMALL])
    assert continuous.run(args) == 0
    with pytest.raises(UsageError, match="make_conditioning"):
        continuous.run(args, make_conditioning)


def test_a_directory_used_while_the_model_loads_is_refused(tmp_path, clip, monkeypatch, capsys):
    """Catches two runs mixed because both found the directory free before they loaded."""
    import dltb.runs.video as video

    argv = ["--input", str(clip), "--output-dir", str(tmp_path / "out"), *SMALL]
    load = video.load_model

    def slow(choice, note):
        monkeypatch.setattr(video, "load_model", load)
        assert main([*argv, "--seed", "7"]) == 0
        return load(choice, note)

    monkeypatch.setattr(video, "load_model", slow)
    assert main(argv) == 2
    assert "seed" in capsys.readouterr().err
    assert manifest(tmp_path / "out" / "clip_stateful-a0.3")["settings"]["seed"] == 7


def test_a_truncated_clip_says_so_and_is_used_as_far_as_it_goes(tmp_path, capsys):
    """Catches a shortfall that is only known to the decoding thread."""
    with Mp4Writer(tmp_path / "whole.mp4", 256, 256, Fraction(24)) as film:
        for seed in range(20):  # noise: no frame is much smaller than the others
            film.write(np.random.default_rng(seed).integers(0, 256, (256, 256, 3), dtype=np.uint8))
    whole = (tmp_path / "whole.mp4").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole[: len(whole) // 2])
    assert main(["--input", str(tmp_path / "cut.mp4"), "--output-dir", str(tmp_path), *SMALL]) == 0
    run = tmp_path / "cut_stateful-a0.3"
    made = manifest(run)["passes"]["main"]
    assert 1 <= made < 20
    (note,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("NOTE")]
    assert "20" in note
    assert note.removeprefix("NOTE: ") in manifest(run)["notes"]
    assert len(decoded(run / "processed_stateful.mp4")) == made


@pytest.mark.parametrize("count", [1, 2])
def test_very_short_clips_with_tails(tmp_path, picture, count):
    """Catches a loop that needs a frame before the first, or a last frame that is not the first."""
    clip = sliding_clip(tmp_path / "short.gif", picture, count)
    argv = ["--input", str(clip), "--tail-frames", "2", "--tail-modes", "freeze,free,black", *SMALL]
    assert main([*argv, "--output-dir", str(tmp_path)]) == 0
    run = tmp_path / "short_stateful-a0.3_tailsfreeze-free-black2"
    assert manifest(run)["passes"] == {"main": count, "freeze": 2, "free": 2, "black": 2}


def test_a_fractional_frame_rate_is_kept(tmp_path, small_picture):
    """Catches 24000/1001 that becomes 23.976 or 24."""
    import av

    with Mp4Writer(tmp_path / "film.mp4", 64, 64, Fraction(24000, 1001)) as film:
        for shift in range(3):
            film.write(np.roll(small_picture, shift, axis=1))
    assert main(["--input", str(tmp_path / "film.mp4"), "--output-dir", str(tmp_path), *SMALL]) == 0
    with av.open(str(tmp_path / "film_stateful-a0.3" / "processed_stateful.mp4")) as container:
        assert container.streams.video[0].average_rate == Fraction(24000, 1001)


def test_a_full_disk_stops_the_run_with_a_line(tmp_path, clip, capsys):
    """Catches a traceback, a half-written PNG, and a run that cannot go on when there is room again."""
    argv = [
        "--input",
        str(clip),
        "--output-dir",
        str(tmp_path),
        "--width",
        "256",
        "--height",
        "256",
        "--save-every",
        "1",
    ]
    with full_disk(60_000):  # no PNG of this size fits
        assert main(argv) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: cannot write")
    run = tmp_path / "clip_stateful-a0.3"
    assert manifest(run)["status"] == "failed"
    assert not list(run.rglob("*.part"))
    assert main([*argv, "--resume"]) == 0


def test_the_manifest_says_what_ran(tmp_path, clip):
    """Catches a run.json from which a run cannot be explained or repeated."""
    assert main(["--input", str(clip), "--output-dir", str(tmp_path), *SMALL]) == 0
    told = manifest(tmp_path / "clip_stateful-a0.3")
    assert told["environment"]["generator_device"] == told["settings"]["device"] == "cpu"
    assert told["settings"]["dtype"] == "float32"
    assert {"torch version", "diffusers version", "input sha256", "torch_threads"} <= set(told["settings"])
    assert told["median_seconds_per_pass"] > 0
    assert [bool(session["ended"]) for session in told["sessions"]] == [True]


def test_the_end_state_of_a_resume_is_the_runs_own(tmp_path, clip, monkeypatch, capsys):
    """Catches tails that start from whatever lies in the user's part of the run."""
    import signal

    import dltb.runs.model as model

    load = model.load_model
    argv = ["--input", str(clip), "--tail-frames", "12", "--tail-modes", "freeze,black", *SMALL]
    assert main([*argv, "--output-dir", str(tmp_path / "unbroken")]) == 0

    def interrupting(choice, note):
        generate, count = load(choice, note), [0]

        def counted(images, index):
            count[0] += 1
            if count[0] == 5 + 11:
                signal.raise_signal(signal.SIGTERM)
            return generate(images, index)

        return counted

    with monkeypatch.context() as patch:
        patch.setattr("dltb.runs.video.load_model", interrupting)
        assert main([*argv, "--output-dir", str(tmp_path / "broken")]) == 143
    name = "clip_stateful-a0.3_tailsfreeze-black12"
    Image.new("RGB", (32, 32), "red").save(tmp_path / "broken" / name / "end_state.png")
    assert main([*argv, "--output-dir", str(tmp_path / "broken"), "--resume"]) == 0
    assert_same_run(tmp_path / "unbroken" / name, tmp_path / "broken" / name)


def test_a_name_that_is_too_long_is_refused_before_anything_loads(tmp_path, picture, capsys):
    """Catches a model that loads for minutes to learn that no directory can have this name."""
    clip = sliding_clip(tmp_path / f"{'x' * 240}.png", picture, 2)
    assert main(["--input", str(clip), "--output-dir", str(tmp_path / "out"), *SMALL]) == 2
    assert "too long" in capsys.readouterr().err
    assert main(["--output-dir", str(tmp_path / ("y" * 300)), *SMALL]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_run_directory_that_is_a_link(tmp_path, clip):
    """Catches --overwrite replacing the link instead of the run it stands for."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    link = tmp_path / "out" / "clip_stateful-a0.3"
    link.symlink_to(tmp_path / "elsewhere")
    argv = ["--input", str(clip), "--output-dir", str(tmp_path / "out"), "--max-frames", "1", *SMALL]
    assert main(argv) == 0
    assert main([*argv, "--overwrite"]) == 0
    assert link.is_symlink()
    assert (tmp_path / "elsewhere" / "run.json").exists()


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


def test_the_manifest_says_how_the_model_was_run(tmp_path, clip, capsys):
    """Catches a speed profile that leaves no trace, and a run that goes on under another one."""
    argv = ["--input", str(clip), "--output-dir", str(tmp_path), *SMALL, "--device", "cpu"]
    assert main([*argv, "--max-frames", "3", "--num-inference-steps", "5"]) == 0
    said = manifest(tmp_path / "clip_stateful-a0.3")
    assert said["settings"]["profile"] == "exact"
    assert said["profile"] | {"setup_seconds": 0} == {
        "name": "exact",
        "call": "direct",
        "stages": {},
        "setup_seconds": 0,
        "attention": None,
        "steps_run": 2,
    }
    capsys.readouterr()
    again = [*argv, "--max-frames", "3", "--num-inference-steps", "5", "--profile", "fast", "--resume"]
    assert main(again) == 2
    assert "profile: exact there, fast now" in capsys.readouterr().err


def test_profiles_that_cannot_run_here_change_nothing(tmp_path, clip, capsys):
    """Catches a refusal that comes after the directory was made, or in more than a line."""
    argv = ["--input", str(clip), "--output-dir", str(tmp_path / "out"), "--device", "cpu"]
    for more, text in [(["--profile", "fp8"], "CUDA device"), (["--profile", "fast", "--control", "vae"], "--control")]:
        assert main([*argv, *more]) == 2
        error = capsys.readouterr().err
        assert text in error
        assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_how_the_flow_is_come_by_changes_nothing(tmp_path, clip):
    """Catches workers or a cache that change a frame or a recorded number, and settings that would refuse a resume."""
    argv = ["--input", str(clip), "--reproject-mask", *SMALL]
    ways = {"plain": [], "many": ["--flow-workers", "5"]}
    ways |= {name: ["--flow-cache", str(tmp_path / "flows")] for name in ("writes", "reads")}
    for name, more in ways.items():
        assert main([*argv, *more, "--output-dir", str(tmp_path / name)]) == 0
    plain, *others = (tmp_path / name / "clip_stateful-a0.3-fbmask" for name in ways)
    for other in others:
        assert_same_run(plain, other)
        assert manifest(plain)["settings"] == manifest(other)["settings"]
        assert steps(plain) == steps(other)
    assert len(list((tmp_path / "flows").iterdir())) == 4


def steps(run):
    """steps.jsonl without the times."""
    lines = (run / "steps.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name != "seconds"} for line in lines]


def test_a_flow_cache_that_is_a_file_is_refused_before_loading(tmp_path, clip, capsys):
    """Catches a wrong flag that is told only after the model has loaded."""
    (tmp_path / "file").touch()
    argv = ["--input", str(clip), *SMALL, "--output-dir", str(tmp_path / "out")]
    assert main([*argv, "--flow-cache", str(tmp_path / "file")]) == 2
    said = capsys.readouterr().err
    assert "is a file, not a folder" in said
    assert "loading" not in said
