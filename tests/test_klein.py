"""dltb-klein on the embedded model: both conditionings, the mask, and the control."""

import json

import numpy as np
import pytest

from dltb.imaging.frames import read_image
from dltb.klein import main
from tests.clips import files, manifest, sliding_clip

pytestmark = pytest.mark.usefixtures("shared_models")
TINY = ["--model", "tiny-klein", "--width", "64", "--height", "64", "--save-every", "1"]


@pytest.fixture
def clip(tmp_path, picture):
    return sliding_clip(tmp_path / "clip.png", picture, 3)


def test_dual_ref_with_mask_and_all_tails(tmp_path, clip):
    """Catches a missing file, a mask that is not recorded, and a tail that warps."""
    argv = ["--conditioning", "dual-ref", "--reproject-mask", "--tail-frames", "2", "--tail-modes", "freeze,free,black"]
    assert main([*TINY, *argv, "--input", str(clip), "--output-dir", str(tmp_path)]) == 0
    run = tmp_path / "clip_dualref-fbmask_tailsfreeze-free-black2"
    assert {"processed_stateful.mp4", "tail_black.mp4", "frames/black frame_0002.png", "end_state.png"} <= files(run)
    steps = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    assert ["mask_share" in step for step in steps] == [False, True, True, *[False] * 6]
    assert steps[1]["motion_px"] == pytest.approx(2, abs=1)


def test_dual_ref_is_one_pass_over_two_references(tmp_path, clip, tiny_klein):
    """Catches references in another order, or a state that was not carried."""
    from dltb.imaging import PassSettings, estimate_flow, make_generate, make_reprojector
    from dltb.imaging.video import read_video

    argv = ["--conditioning", "dual-ref", "--ref-order", "frame-first", "--input", str(clip)]
    assert main([*TINY, *argv, "--output-dir", str(tmp_path)]) == 0
    run = tmp_path / "clip_dualref"
    first, second, _ = read_video(clip)
    carried = read_image(run / "frames" / "frame_0001.png")
    moved = make_reprojector()(carried, estimate_flow(first, second), second).frame
    generate = make_generate(*tiny_klein, PassSettings(), "cpu")
    assert np.array_equal(generate([second, moved], 2).frame, read_image(run / "frames" / "frame_0002.png"))


def test_blend_is_the_default_and_anchored_is_the_control(tmp_path, clip):
    """Catches a default that is the other tool's, and a control that carries a state."""
    assert main([*TINY, "--input", str(clip), "--output-dir", str(tmp_path)]) == 0
    assert manifest(tmp_path / "clip_stateful-a0.1")["settings"]["conditioning"] == "blend"
    argv = [
        *TINY,
        "--input",
        str(clip),
        "--mode",
        "anchored",
        "--conditioning",
        "dual-ref",
        "--output-dir",
        str(tmp_path),
    ]
    assert main(argv) == 0
    assert (tmp_path / "clip_anchored" / "processed_anchored.mp4").exists()


@pytest.mark.parametrize("scale", ["0.5", "4"])
def test_options_without_effect_are_said_once(tmp_path, clip, scale, capsys):
    """Catches options that are ignored silently."""
    argv = [
        "--conditioning",
        "dual-ref",
        "--anchor-blend",
        "0.5",
        "--guidance-scale",
        scale,
        "--negative-prompt",
        "fog",
    ]
    assert main([*TINY, *argv, "--max-frames", "1", "--input", str(clip), "--output-dir", str(tmp_path)]) == 0
    error = capsys.readouterr().err
    for flag in ("--anchor-blend", "--guidance-scale", "--negative-prompt"):
        assert error.count(f"NOTE: {flag}") == 1
    assert len(manifest(tmp_path / "clip_dualref")["notes"]) == 3


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--model", "tiny-turbo"], "is no FLUX.2 klein model"),
        (["--model", "tiny-klein", "--width", "48", "--height", "48"], "64"),
    ],
)
def test_wrong_requests(tmp_path, clip, argv, says, capsys):
    """Catches a model of another family, and sizes that the pipeline would refuse in the middle of a run."""
    assert main([*argv, "--input", str(clip), "--output-dir", str(tmp_path / "out")]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_an_accelerator_the_error_names_the_embedded_model(tmp_path, clip, monkeypatch, capsys):
    """Catches a full-size model that lands on the CPU, and an error that leaves the user alone."""
    monkeypatch.setattr("dltb.models.device.available_devices", lambda: ("cpu",))
    assert main(["--input", str(clip), "--output-dir", str(tmp_path / "out")]) == 2
    assert "--model tiny-klein" in capsys.readouterr().err
