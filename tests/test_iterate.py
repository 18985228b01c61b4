"""dltb-iterate on the embedded model."""

import itertools
import json

import numpy as np
import pytest

from dltb.imaging.frames import read_image
from dltb.iterate import main
from tests.clips import assert_same_run, decoded, files, manifest

pytestmark = pytest.mark.usefixtures("shared_models")
SMALL = ["--width", "64", "--height", "64"]


def test_a_free_run(tmp_path):
    """Catches a loop that does not eat its own output, a wrong stride, and a timelapse of other frames."""
    assert main(["--iterations", "12", "--save-every", "3", "--output-dir", str(tmp_path), *SMALL]) == 0
    run = tmp_path / "test_512_free-running"
    frames = {f"frames/frame_{n:04d}.png" for n in (3, 6, 9, 12)}
    assert files(run) == frames | {"frame_0000_original.png", "timelapse.mp4", "run.json", "steps.jsonl"}
    assert len(decoded(run / "timelapse.mp4")) == 4
    steps = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    assert [step["pass"] for step in steps] == list(range(1, 13))
    assert {step["steps_run"] for step in steps} == {1}


def test_each_pass_is_the_pass_before_put_through_the_model(tmp_path, tiny_turbo):
    """Catches a state that is rounded twice, or one pass late."""
    from dltb.imaging import PassSettings, make_generate

    assert main(["--iterations", "3", "--output-dir", str(tmp_path), "--no-fixed-seed", *SMALL]) == 0
    run = tmp_path / "test_512_free-running"
    generate = make_generate(*tiny_turbo, PassSettings(fixed_seed=False), "cpu")
    state = read_image(run / "frame_0000_original.png")
    for index in (1, 2, 3):
        state = generate([state], index).frame
        assert np.array_equal(state, read_image(run / "frames" / f"frame_{index:04d}.png"))


def test_a_flat_frame_stops_the_run(tmp_path, tiny_turbo, monkeypatch, capsys):
    """Catches a loop that goes on for ever on one black frame."""
    import torch

    decode = tiny_turbo.pipe.vae.decode
    monkeypatch.setattr(
        tiny_turbo.pipe.vae, "decode", lambda *a, **k: tuple(torch.full_like(part, -1) for part in decode(*a, **k))
    )
    assert main(["--iterations", "3", "--output-dir", str(tmp_path), *SMALL]) == 1
    assert "error: pass 1: " in capsys.readouterr().err
    assert manifest(tmp_path / "test_512_free-running")["status"] == "failed"


@pytest.mark.parametrize("argv", [["--video-fps", "1e-9"], ["--video-fps", "0"], ["--iterations", "0"]])
def test_numbers_that_make_no_video(argv, capsys):
    """Catches a number that is refused only after the model has loaded."""
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_stride_that_saves_nothing(tmp_path, capsys):
    """Catches a run that ends without a frame or a video."""
    assert main(["--iterations", "2", "--save-every", "5", "--output-dir", str(tmp_path / "out")]) == 2
    assert "saves nothing" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_nan_stops_the_run_and_resume_goes_on(tmp_path, tiny_turbo, monkeypatch, capsys):
    """Catches a loop that feeds NaN back for ever, and a failed run that cannot be taken up again."""
    argv = ["--iterations", "14", "--output-dir", str(tmp_path), *SMALL]
    decode = tiny_turbo.pipe.vae.decode
    calls = []

    def broken(*args, **kwargs):
        calls.append(1)
        out = decode(*args, **kwargs)
        return tuple(part * float("nan") for part in out) if len(calls) == 12 else out

    monkeypatch.setattr(tiny_turbo.pipe.vae, "decode", broken)
    assert main(argv) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: pass 12:")
    assert "NaN" in error
    run = tmp_path / "test_512_free-running"
    assert manifest(run)["status"] == "failed"
    assert len(decoded(run / "timelapse.mp4")) == 11
    assert main(argv) == 2
    assert "--resume" in capsys.readouterr().err
    assert main([*argv, "--resume"]) == 0
    assert main([*argv[:2], "--output-dir", str(tmp_path / "unbroken"), *SMALL]) == 0
    assert_same_run(run, tmp_path / "unbroken" / "test_512_free-running")
    assert drifts(run) == drifts(tmp_path / "unbroken" / "test_512_free-running")


def drifts(run):
    return [json.loads(line).get("delta_prev") for line in (run / "steps.jsonl").read_text().splitlines()]


def test_every_pass_says_how_far_it_moved(tmp_path):
    """Catches a drift of the wrong pair of frames; the first pass has none before it."""
    assert main(["--iterations", "3", "--output-dir", str(tmp_path), *SMALL]) == 0
    run = tmp_path / "test_512_free-running"
    frames = [read_image(path).astype(int) for path in sorted((run / "frames").iterdir())]
    moved = [np.abs(a - b).mean() for a, b in itertools.pairwise(frames)]
    assert drifts(run) == [None, *(pytest.approx(value, abs=1e-4) for value in moved)]


def test_watching_a_run_changes_nothing_in_it(tmp_path):
    """Catches options to watch with that are settings: a resume without them would be refused, or end in other frames."""
    argv = ["--iterations", "3", "--output-dir", str(tmp_path / "plain"), *SMALL]
    assert main(argv) == 0
    watch = ["--preview", "2", "--log-with", "tensorboard", "--no-metadata"]
    assert main([*argv[:3], str(tmp_path / "watched"), *SMALL, *watch]) == 0
    plain, watched = (tmp_path / name / "test_512_free-running" for name in ("plain", "watched"))
    assert manifest(plain)["settings"] == manifest(watched)["settings"]
    assert len(decoded(watched / "preview.mp4")) == 3
    assert list((watched / "trackers").rglob("events.out.tfevents.*"))
    for path in sorted((plain / "frames").iterdir()):
        assert np.array_equal(read_image(path), read_image(watched / "frames" / path.name))


def test_controls_run_the_same_loop_without_the_model(tmp_path, tiny_turbo, monkeypatch):
    """Catches a control that still denoises, shares a directory with the run, or loads what it does not need."""
    argv = ["--iterations", "3", "--output-dir", str(tmp_path), *SMALL]
    assert main([*argv, "--control", "vae"]) == 0
    monkeypatch.setattr("dltb.runs.model.load_pipeline", lambda *args, **how: pytest.fail("identity loads nothing"))
    assert main([*argv, "--control", "identity"]) == 0
    original = read_image(tmp_path / "test_512_free-running_control-vae" / "frame_0000_original.png")
    ends = {
        c: tmp_path / f"test_512_free-running_control-{c}" / "frames" / "frame_0003.png" for c in ("vae", "identity")
    }
    assert np.array_equal(read_image(ends["identity"]), original)
    assert not np.array_equal(read_image(ends["vae"]), original)
