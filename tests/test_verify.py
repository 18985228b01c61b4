"""dltb-verify on real models: what passes, and the negative controls."""

import json

import pytest

from dltb import verify
from dltb.models.verification.reference import Reference

ARGUMENTS = [
    "--model",
    "tiny-klein",
    "--width",
    "64",
    "--height",
    "64",
    "--num-inference-steps",
    "2",
    "--device",
    "cpu",
]


@pytest.fixture
def folder(tmp_path, shared_models):
    """A reference of the embedded editor, captured by the tool."""
    assert verify.main([*ARGUMENTS, "--capture", str(tmp_path / "reference")]) == 0
    return tmp_path / "reference"


def _replay(folder, *more) -> tuple[int, dict]:
    out = folder.parent / "report.json"
    code = verify.main(
        ["--model", "tiny-klein", "--device", "cpu", "--reference", str(folder), "--report", str(out), *more]
    )
    return code, json.loads(out.read_text())


def _change(folder, change) -> None:
    reference = Reference.load(folder)
    change(reference)
    reference.save(folder)


def _found(report) -> dict[str, dict]:
    return {check["name"]: check for check in report["checks"]}


def test_a_captured_reference_is_verified(folder, capsys) -> None:
    """Catches a gate that a correct model cannot pass, and steps that were not all compared."""
    code, report = _replay(folder)
    assert code == 0
    assert report["verdict"] == "pass"
    checks = _found(report)
    assert {name: check["status"] for name, check in checks.items()} == dict.fromkeys(
        ["geometry", "text", "steps", "vae encode", "vae decode", "frame"], "pass"
    )
    assert checks["steps"]["compared"] == 2
    assert checks["vae encode"]["compared"] == 2
    assert "verified" in capsys.readouterr().out


def _drop(prefix):
    def change(reference) -> None:
        for name in [name for name in reference.tensors if name.startswith(prefix)]:
            del reference.tensors[name]

    return change


def _no_steps(reference) -> None:
    _drop("step")(reference)
    reference.about["steps"] = 0


def _empty(reference) -> None:
    reference.tensors = {"x": reference.tensors["frame"]}
    reference.about |= dict.fromkeys(("texts", "steps", "encodes", "decodes", "inputs"), 0)


def _noise(reference) -> None:
    reference.tensors["frame"] = reference.tensors["frame"].flip(0)


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        (_drop("step0."), "steps: the reference is incomplete: 1 of 2"),
        (_drop("step"), "steps: the reference is incomplete: 0 of 2"),
        (_no_steps, "steps: the reference holds none"),
        (_drop("frame"), "geometry: the reference has no frame"),
        (_drop("decode0.out"), "geometry: the reference has no decode0.out"),
        (_drop("text."), "text: the reference is incomplete: 0 of 1"),
        (_drop("encode1.in"), "vae encode: the reference is incomplete: 1 of 2"),
        (_empty, "geometry: the reference has no frame"),
        (
            lambda reference: reference.about.update(width=96),
            "geometry: frame is [64, 64], the reference says [64, 96]",
        ),
        (_noise, "frame: "),
    ],
)
def test_negative_controls(change, failed, folder, capsys) -> None:
    """Catches every way in which a verification passes although it verified nothing, or something else."""
    _change(folder, change)
    code, report = _replay(folder)
    assert code == 1
    assert report["verdict"] == "fail"
    error = capsys.readouterr().err
    assert "not verified" in error
    assert failed in error


def test_other_weights_are_found_out(folder, tiny_klein, capsys) -> None:
    """Catches gates that any model of the same shapes passes: one damaged layer must show."""
    import torch

    weight = tiny_klein.pipe.transformer.proj_out.weight
    before = weight.detach().clone()
    with torch.no_grad():
        weight[: len(weight) // 2] *= -1
    try:
        code, report = _replay(folder)
    finally:
        with torch.no_grad():
            weight.copy_(before)
    assert code == 1
    assert _found(report)["steps"]["status"] == "fail"
    assert _found(report)["vae decode"]["status"] == "pass"


def test_what_contradicts_the_reference_is_a_usage_error(folder, tmp_path, capsys) -> None:
    """Catches another model, size or a missing reference being replayed, or a traceback in their place."""
    for arguments, text in [
        (["--model", "tiny-turbo", "--reference", str(folder)], "the reference is of tiny-klein"),
        (["--model", "tiny-klein", "--reference", str(folder), "--width", "128"], "captured with 64"),
        (["--model", "tiny-klein", "--reference", str(tmp_path / "none")], "no complete reference there"),
        (["--model", "tiny-klein", "--reference", str(folder), "--capture", "x"], "give one of the two"),
    ]:
        assert verify.main([*arguments, "--device", "cpu"]) == 2
        assert text in capsys.readouterr().err
    for arguments, text in [
        (["--profile", "fast"], "--capture records the model as it comes"),
        (["--report", str(tmp_path / "r.json")], "--capture judges nothing"),
    ]:
        assert (
            verify.main(["--model", "tiny-klein", "--device", "cpu", "--capture", str(tmp_path / "x"), *arguments]) == 2
        )
        assert text in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
    (folder / "reference.safetensors").write_bytes(b"half")
    assert verify.main(["--model", "tiny-klein", "--device", "cpu", "--reference", str(folder)]) == 2


def test_the_report_replaces_only_reports(folder, tmp_path, capsys, monkeypatch) -> None:
    """Catches a file of the user's that is overwritten, or refused only after the model has loaded."""
    code, report = _replay(folder)
    assert (code, report["tool"]) == (0, "dltb-verify")
    assert _replay(folder)[0] == 0, "one of its own"
    monkeypatch.setattr("dltb.runs.verification.load_chosen", lambda choice: pytest.fail("loaded before the check"))
    mine = tmp_path / "mine.json"
    mine.write_text("[]")
    for path, says in ((mine, "was not written by dltb-verify"), (mine / "x.json", "is not a folder")):
        argv = ["--model", "tiny-klein", "--device", "cpu", "--reference", str(folder), "--report", str(path)]
        assert verify.main(argv) == 2
        assert says in capsys.readouterr().err
    assert mine.read_text() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("key", ["tiny-turbo", "tiny-klein"])
def test_the_fast_profile_is_the_same_model(key, tmp_path) -> None:
    """Catches a compiled model that computes something else. Not on the shared pipelines: it changes the one it gets."""
    out = tmp_path / "report.json"
    assert verify.main(["--model", key, "--device", "cpu", "--profile", "fast", "--report", str(out)]) == 0
    assert json.loads(out.read_text())["profile"]["name"] == "fast"
