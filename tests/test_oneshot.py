"""dltb-oneshot on the embedded model."""

import numpy as np
import pytest
from PIL import Image

from dltb.imaging.frames import read_image
from dltb.oneshot import main
from tests.clips import files, manifest

SMALL = ["--width", "64", "--height", "64"]


@pytest.mark.usefixtures("shared_models")
def test_one_pass(tmp_path, picture, tiny_turbo, capsys):
    """Catches missing files, an input that is not prepared first, and a pass that is not the pipeline's own."""
    Image.fromarray(picture).save(tmp_path / "menü x.png")
    assert main(["--input", str(tmp_path / "menü x.png"), "--output-dir", str(tmp_path / "out"), *SMALL]) == 0
    run = tmp_path / "out" / "menü x_oneshot"
    assert files(run) == {"frame_0000_original.png", "frames/frame_0001.png", "run.json", "steps.jsonl"}
    original = Image.open(run / "frame_0000_original.png")
    assert original.size == (64, 64)
    import torch

    expected = tiny_turbo.pipe(
        prompt="", image=original, strength=0.4, num_inference_steps=4, guidance_scale=0.0,
        generator=torch.Generator().manual_seed(1234),
    ).images[0]  # fmt: skip
    assert np.array_equal(read_image(run / "frames" / "frame_0001.png"), np.asarray(expected))
    assert str(run) in capsys.readouterr().out
    assert manifest(run)["status"] == "complete"


@pytest.mark.usefixtures("shared_models")
def test_a_second_run_says_so_and_other_settings_are_refused(tmp_path, capsys):
    """Catches an overwritten run, and work done twice."""
    run = ["--output-dir", str(tmp_path), *SMALL]
    assert main(run) == 0
    before = (tmp_path / "test_512_oneshot" / "frames" / "frame_0001.png").stat().st_mtime_ns
    assert main(run) == 0
    assert "complete already" in capsys.readouterr().out
    assert main([*run, "--seed", "7"]) == 2
    assert "seed: 1234 there, 7 now" in capsys.readouterr().err
    assert (tmp_path / "test_512_oneshot" / "frames" / "frame_0001.png").stat().st_mtime_ns == before
    assert main([*run, "--seed", "7", "--overwrite"]) == 0
    assert manifest(tmp_path / "test_512_oneshot")["settings"]["seed"] == 7


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--input", ""], "--input is empty"),
        (["--input", "no/such.png"], "no such file"),
        (["--input", "input_example/courtyard.mp4"], "courtyard.mp4"),
        (["--model", "sdxl-trubo"], "unknown model 'sdxl-trubo'"),
        (["--width", "100"], "multiple of 16"),
        (["--strength", "0.2"], "no step would run"),
        (["--weights", "no/such"], "no such folder"),
        (["--resume", "--overwrite"], "exclude each other"),
    ],
)
def test_a_failed_start_is_one_line_and_changes_nothing(tmp_path, argv, says, capsys):
    """Catches half-made run directories, and tracebacks."""
    out = tmp_path / "out"
    (tmp_path / "out" / "test_512_oneshot").mkdir(parents=True)
    assert main([*argv, "--output-dir", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("error: ")
    assert says in error
    assert list((tmp_path / "out" / "test_512_oneshot").iterdir()) == []
