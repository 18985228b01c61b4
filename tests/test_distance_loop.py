"""dltb-distance-loop and dltb-distance-feedback: files, columns, and the identities between them."""

import csv

import numpy as np
import pytest

from dltb import analyze_distance, distance_feedback, distance_loop, iterate
from dltb.imaging.frames import read_image
from dltb.imaging.passes import Pass
from dltb.loop.conditioning import blend_frames
from tests.clips import files, manifest

pytestmark = pytest.mark.usefixtures("shared_models")
SMALL = ["--width", "64", "--height", "64", "--metric", "flip"]
ADDED = ["flip_to_lag", "lab_l", "lab_a", "lab_b", "saturation", "clipped", "detail"]


def rows_of(run):
    with (run / "distance_metrics.csv").open() as file:
        return list(csv.DictReader(file))


def frames_of(run, folder="frames"):
    return [read_image(path) for path in sorted((run / folder).iterdir())]


def same(first, second):
    return len(first) == len(second) and all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def feedback(root, blend, *more):
    argv = [*SMALL, "--frames", "4", "--anchor-blend", str(blend), "--output-dir", str(root), *more]
    assert distance_feedback.main(argv) == 0
    return root / f"feedback_s0.4_a{blend:g}"


def test_files_and_columns_of_the_loop(tmp_path):
    """Catches a missing file, another name, and a first row that claims a distance to nothing."""
    assert distance_loop.main([*SMALL, "--iterations", "3", "--output-dir", str(tmp_path)]) == 0
    run = tmp_path / "distance_s0.4"
    frames = {f"frames/frame_{n:04d}.png" for n in (1, 2, 3)}
    others = {"frame_0000_original.png", "distance_metrics.csv", "distance_plot.png", "run.json", "steps.jsonl"}
    assert files(run) == frames | others | {"dynamics_plot.png"}
    rows = rows_of(run)
    assert list(rows[0]) == ["frame", "flip_to_ref", "flip_to_prev", *ADDED]
    assert [row["frame"] for row in rows] == ["frame_0001", "frame_0002", "frame_0003"]
    assert rows[0]["flip_to_prev"] == ""
    assert float(rows[2]["flip_to_prev"]) > 0


def test_files_and_columns_of_the_feedback(tmp_path):
    """Catches inputs that are not the model's inputs."""
    run = feedback(tmp_path, 0.3)
    assert {f"inputs/frame_{n:04d}.png" for n in (1, 2, 3, 4)} <= files(run)
    assert list(rows_of(run)[0]) == ["frame", "flip_to_ref", "flip_to_prev", "flip_input_to_ref", *ADDED]
    original, outputs, inputs = read_image(run / "frame_0000_original.png"), frames_of(run), frames_of(run, "inputs")
    expected = [original, *(blend_frames(output, original, 0.3) for output in outputs[:3])]
    assert same(inputs, expected)
    assert float(rows_of(run)[0]["flip_input_to_ref"]) == 0


def test_no_anchor_equals_the_loop_and_the_free_run(tmp_path):
    """Catches three tools that walk three paths."""
    run = feedback(tmp_path, 0.0)
    assert distance_loop.main([*SMALL, "--iterations", "4", "--output-dir", str(tmp_path)]) == 0
    assert iterate.main([*SMALL[:4], "--iterations", "4", "--output-dir", str(tmp_path)]) == 0
    assert same(frames_of(run), frames_of(tmp_path / "distance_s0.4"))
    assert same(frames_of(run), frames_of(tmp_path / "test_512_free-running"))
    shared = [{k: v for k, v in row.items() if "input" not in k} for row in rows_of(run)]
    assert shared == rows_of(tmp_path / "distance_s0.4")


def test_dltb_distance_says_the_same(tmp_path):
    """Catches two tools that measure one run differently."""
    assert distance_loop.main([*SMALL, "--iterations", "5", "--lag", "3", "--output-dir", str(tmp_path)]) == 0
    run, other = tmp_path / "distance_s0.4", tmp_path / "other.csv"
    argv = [str(run), "--metric", "flip", "--lag", "3", "--batch-size", "2", "--out", str(other)]
    assert analyze_distance.main(argv) == 0
    assert other.read_text() == (run / "distance_metrics.csv").read_text()


def test_the_end_of_the_run_is_in_the_manifest(tmp_path, monkeypatch, capsys):
    """Catches a cycle that is found and not kept, and one in a run that rests."""
    import dltb.runs.measured as measured

    run = feedback(tmp_path, 1.0, "--frames", "20")
    assert manifest(run)["cycle"] is None

    def negative(images, index):
        return Pass(255 - images[0], seconds=0.0, seed=0, steps_run=1, sigma_start=0.0)

    monkeypatch.setattr(measured, "load_model", lambda *_: negative)
    free = feedback(tmp_path, 0.0, "--frames", "20")
    assert manifest(free)["cycle"]["period"] == 2
    assert manifest(free)["status"] == "complete"
    assert "CYCLE of period 2" in capsys.readouterr().out


def test_full_anchor_repeats_fresh_passes(tmp_path):
    """Catches a trace of the state at a = 1: with a fixed seed every frame is the first."""
    run = feedback(tmp_path, 1.0)
    outputs = frames_of(run)
    assert same(outputs, [outputs[0]] * 4)
    assert {float(row["flip_to_prev"] or 0) for row in rows_of(run)} == {0.0}


def test_the_model_is_gone_before_the_metric_loads(tmp_path, monkeypatch):
    """Catches two models that share a card which holds only one."""
    import gc
    import weakref

    import dltb.runs.measured as measured

    alive = []

    def watched(choice, note):
        generate = load(choice, note)
        alive.append(weakref.ref(generate))
        return generate

    def metric(choice):
        gc.collect()
        assert alive[0]() is None, "the pass callable, and with it the model, is still held"
        return load_metric(choice)

    load, load_metric = measured.load_model, measured.load_chosen
    monkeypatch.setattr(measured, "load_model", watched)
    monkeypatch.setattr(measured, "load_chosen", metric)
    feedback(tmp_path, 0.5)


def test_a_table_that_is_missing_is_made_and_nothing_else(tmp_path, monkeypatch, capsys):
    """Catches a run that was killed between its last pass and its table, and can never get one."""
    run = feedback(tmp_path, 0.3)
    before = rows_of(run)
    (run / "distance_metrics.csv").unlink()
    monkeypatch.setattr("dltb.runs.measured.load_model", lambda *_: pytest.fail("all passes are made"))
    feedback(tmp_path, 0.3)
    assert rows_of(run) == before
    monkeypatch.setattr("dltb.runs.measured.load_chosen", lambda *_: pytest.fail("the table is there"))
    (run / "dynamics_plot.png").unlink()
    feedback(tmp_path, 0.3)
    assert (run / "dynamics_plot.png").stat().st_size > 10_000


def test_another_metric_goes_into_a_table_of_its_own(tmp_path, capsys):
    """Catches dltb-distance replacing the table of a run that measures itself, by default or by name."""
    from dltb import analyze_distance

    run = feedback(tmp_path, 0.3)
    before = (run / "distance_metrics.csv").read_bytes()
    assert analyze_distance.main([str(run), "--metric", "pixel"]) == 2
    assert "give --out" in capsys.readouterr().err
    assert analyze_distance.main([str(run), "--metric", "flip", "--out", str(run / "distance_metrics.csv")]) == 2
    assert "the table of a run that measures itself" in capsys.readouterr().err
    assert analyze_distance.main([str(run), "--metric", "pixel", "--out", str(run / "other.csv")]) == 0
    assert (run / "distance_metrics.csv").read_bytes() == before


def test_a_table_of_another_metric_is_not_the_runs(tmp_path):
    """Catches a table that somebody put there and that counts as done."""
    run = feedback(tmp_path, 0.3, "--control", "identity").with_name("feedback_s0.4_a0.3_control-identity")
    before = (run / "distance_metrics.csv").read_bytes()
    (run / "distance_metrics.csv").write_bytes(before.replace(b"flip", b"pixel"))
    feedback(tmp_path, 0.3, "--control", "identity")
    assert (run / "distance_metrics.csv").read_bytes() == before


def test_a_frame_that_is_gone_is_named(tmp_path, capsys):
    """Catches a table that is a row short, and a traceback."""
    run = feedback(tmp_path, 0.3)
    (run / "distance_metrics.csv").unlink()
    (run / "frames" / "frame_0003.png").unlink()
    argv = [*SMALL, "--frames", "4", "--anchor-blend", "0.3", "--output-dir", str(tmp_path)]
    assert distance_feedback.main(argv) == 1
    assert "frame_0003.png is gone" in capsys.readouterr().err


def test_what_was_measured_is_said(tmp_path, capsys):
    """Catches a run whose numbers are only in its table."""
    feedback(tmp_path, 1.0)
    said = capsys.readouterr().out
    assert "mean flip_to_ref" in said
    assert "CONVERGED: mean flip_to_prev" in said


def test_the_control_is_a_setting(tmp_path):
    """Catches a control in the run's own directory."""
    run = feedback(tmp_path, 0.3, "--control", "identity").with_name("feedback_s0.4_a0.3_control-identity")
    assert {float(row["flip_to_ref"]) for row in rows_of(run)} == {0.0}


def test_another_metric_keeps_the_frames(tmp_path, monkeypatch, capsys):
    """Catches passes made again for another metric, a table of the old one that counts as done, and settings that
    run.json does not tell."""
    name = "feedback_s0.4_a0.3_control-identity"
    run = feedback(tmp_path, 0.3, "--control", "identity").with_name(name)
    found = manifest(run)["measurement"]
    assert (found["metric"], found["lag"], found["batch_size"], found["converged_below"]) == ("flip", 2, 8, 0.015)
    assert "metric" not in manifest(run)["settings"]
    monkeypatch.setattr("dltb.runs.measured.load_model", lambda *_: pytest.fail("all passes are made"))
    capsys.readouterr()
    feedback(tmp_path, 0.3, "--control", "identity", "--metric", "ssim", "--batch-size", "3")
    assert "measured again, the frames are kept (metric: flip there, ssim now" in capsys.readouterr().out
    assert list(rows_of(run)[0])[1:3] == ["ssim_to_ref", "ssim_to_prev"]
    found = manifest(run)["measurement"]
    assert (found["metric"], found["batch_size"]) == ("ssim", 3)
    assert "pytorch_msssim" in found["versions"]
    feedback(tmp_path, 0.3, "--control", "identity", "--metric", "ssim", "--lag", "0")
    assert "lag: 2 there, 0 now" in capsys.readouterr().out
    assert "ssim_to_lag" not in rows_of(run)[0]


def test_another_version_of_the_metric_measures_again(tmp_path, monkeypatch, capsys):
    """Catches numbers of two versions of a package under one name."""
    import importlib.metadata

    feedback(tmp_path, 0.3, "--control", "identity", "--metric", "ssim")
    version = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "99" if "msssim" in name else version(name))
    feedback(tmp_path, 0.3, "--control", "identity", "--metric", "ssim")
    assert "'pytorch_msssim': '99'" in capsys.readouterr().out


def test_another_threshold_draws_again(tmp_path, monkeypatch, capsys):
    """Catches a figure with an older threshold, and frames measured for a line in a figure."""
    run = feedback(tmp_path, 1.0, "--control", "identity").with_name("feedback_s0.4_a1_control-identity")
    before = (run / "distance_plot.png").read_bytes()
    monkeypatch.setattr("dltb.runs.measured.load_chosen", lambda *_: pytest.fail("the table is there"))
    capsys.readouterr()
    feedback(tmp_path, 1.0, "--control", "identity", "--converged-below", "0.5")
    assert "CONVERGED: mean flip_to_prev is below 0.5" in capsys.readouterr().out
    assert (run / "distance_plot.png").read_bytes() != before
    assert manifest(run)["measurement"]["converged_below"] == 0.5


def test_a_metric_that_cannot_load_is_known_before_the_passes(tmp_path, monkeypatch, capsys):
    """Catches hours of passes for a table that cannot be made."""
    import torch

    def unreachable(*rest, **options):
        raise ConnectionError("no route")

    monkeypatch.setattr(torch.hub, "download_url_to_file", unreachable)
    monkeypatch.setattr("dltb.runs.measured.load_model", lambda *_: pytest.fail("no pass may be made"))
    out, cache = tmp_path / "out", tmp_path / "cache"
    argv = ["--metric", "dreamsim", "--retries", "0", "--cache-dir", str(cache), "--output-dir", str(out), *SMALL[:4]]
    assert distance_feedback.main(argv) == 1
    assert "--metric flip, ssim, ms-ssim, pixel" in capsys.readouterr().err.splitlines()[-1]
    assert not out.exists()


def test_dreamsim_is_tried_before_and_loaded_after_the_passes(tmp_path, monkeypatch, capsys):
    """Catches a trial that is not let go of, options that do not reach DreamSim, and a table of another metric."""
    import gc
    import weakref

    import dreamsim

    from dltb.runs import measured
    from tests.metrics.dreamsim_caches import make_cache, narrow_networks

    narrow_networks(monkeypatch)
    cache, models, alive = make_cache(tmp_path / "cache", "clip_vitb32"), [], []
    load, load_model = dreamsim.dreamsim, measured.load_model

    def watched(**how):
        model, preprocess = load(**how)
        models.append(weakref.ref(model))
        return model, preprocess

    def passes(choice, note):
        gc.collect()
        alive.extend(model() for model in models)
        return load_model(choice, note)

    monkeypatch.setattr(dreamsim, "dreamsim", watched)
    monkeypatch.setattr(measured, "load_model", passes)
    extra = ["--metric", "dreamsim", "--dreamsim-type", "clip_vitb32", "--cache-dir", str(cache)]
    run = feedback(tmp_path, 0.3, "--control", "identity", *extra).with_name("feedback_s0.4_a0.3_control-identity")
    assert (len(models), alive) == (2, [None])
    assert list(rows_of(run)[0])[1:4] == ["dreamsim_to_ref", "dreamsim_to_prev", "dreamsim_input_to_ref"]
    found = manifest(run)["measurement"]
    assert (found["dreamsim_type"], found["patch"]) == ("clip_vitb32", False)
    said = capsys.readouterr().err
    assert said.index("checking that DreamSim clip_vitb32 loads") < said.index("loading DreamSim clip_vitb32 on cpu")
    feedback(tmp_path, 0.3, "--control", "identity", *extra)
    assert len(models) == 2, "a run that is complete and measured loads nothing"


def test_one_process_at_a_time_measures(tmp_path, capsys):
    """Catches two processes that write the same table, and a lock that outlives its process."""
    from dltb.output.run_directory import locked

    run = feedback(tmp_path, 0.3, "--control", "identity").with_name("feedback_s0.4_a0.3_control-identity")
    before = (run / "distance_metrics.csv").read_bytes()
    argv = [
        *SMALL[:4],
        "--frames",
        "4",
        "--anchor-blend",
        "0.3",
        "--control",
        "identity",
        "--output-dir",
        str(tmp_path),
    ]
    capsys.readouterr()
    with locked(run):
        assert distance_feedback.main([*argv, "--metric", "pixel"]) == 2
        assert f"another process is writing {run}; wait for it" in capsys.readouterr().err.splitlines()[-1]
    assert (run / "distance_metrics.csv").read_bytes() == before
    assert distance_feedback.main([*argv, "--metric", "pixel"]) == 0


def test_what_has_no_effect_and_what_is_too_short_is_said(tmp_path, capsys):
    """Catches options that a user believes in, and twenty frames that nobody can judge."""
    extra = ["--patch", "--batch-size", "4", "--prompt", "fog", "--seed", "7", "--device", "cpu"]
    feedback(tmp_path, 0.3, "--control", "identity", *extra, "--frames", "20")
    said = capsys.readouterr().err
    assert "NOTE: --patch has no effect with --metric flip" in said
    assert "NOTE: --batch-size has no effect with --metric flip" in said
    assert "NOTE: --prompt, --seed have no effect with --control identity" in said
    assert "NOTE: 20 passes are too few for dltb-stabilization to judge; it needs 21 or more" in said
    assert "--device" not in said
    feedback(tmp_path, 0.4, "--control", "identity", "--frames", "21")
    assert "NOTE" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--model", "tiny-klein"], "has no strength"),
        (["--metric", "flp"], "flip"),
        (["--input", ""], "--input is empty"),
    ],
)
def test_wrong_requests_change_nothing(tmp_path, argv, says, capsys):
    """Catches a model of the other family, and half-made directories."""
    assert distance_feedback.main([*argv, "--output-dir", str(tmp_path / "out")]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
