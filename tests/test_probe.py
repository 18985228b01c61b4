"""dltb-probe on the embedded models: what a model takes, and what happens where it does not fit."""

import json

import pytest

from dltb.models.memory import GIB, is_out_of_memory
from dltb.output.files import check_report
from dltb.probe import main
from dltb.runs.probing import smallest_card

SMALL = ["--width", "64", "--height", "64", "--passes", "2"]


@pytest.mark.usefixtures("shared_models")
def test_what_klein_takes(tmp_path, capsys):
    """Catches a probe of one reference where dual-ref has two, numbers that are none, and a report that says less."""
    report = tmp_path / "probe.json"
    assert main(["--model", "tiny-klein", *SMALL, "--device", "cpu", "--json", str(report)]) == 0
    out = capsys.readouterr().out
    assert "tiny-klein 64x64, 2 references, 2 passes on cpu" in out
    assert "verdict: no --offload needed" in out
    facts = json.loads(report.read_text())
    [native] = facts["tried"]
    assert native["placement"] == "native"
    assert native["fits"] is True
    assert 0.1 < native["loaded"] <= native["peak_allocated"] < facts["installed_gib"]
    assert native["seconds_per_pass"] > 0
    assert facts["environment"]["device"] == "cpu"
    assert check_report(str(report), tool="dltb-probe", flag="--json") == report, "the next probe may replace it"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--references", "2"], "tiny-turbo takes 1"),
        (["--card-gb", "8", "--device", "cpu"], "with CUDA only"),
        (["--device", "cpu", "--offload"], "leave it away with --device cpu"),
        (["--input", "no.png"], "no such file"),
        (["--model", "flux2-klein-9b"], "gated"),
    ],
)
def test_what_cannot_be_probed_is_one_line(argv, says, capsys):
    """Catches a probe that measures something else than what was asked."""
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert says in error


def test_the_report_replaces_only_reports(tmp_path, capsys):
    """Catches a file of the user's that is overwritten, and minutes of loading before the report cannot be written."""
    mine = tmp_path / "mine.json"
    mine.write_text('{"mine": 1}')
    argv = ["--model", "tiny-turbo", *SMALL, "--device", "cpu", "--json"]
    for path, says in (
        (tmp_path / "no" / "x.json", "is not a folder"),
        (mine, "was not written by dltb-probe"),
        (mine / "x.json", "is not a folder"),
        ("", "--json is empty"),
    ):
        assert main([*argv, str(path)]) == 2
        assert says in capsys.readouterr().err
    assert mine.read_text() == '{"mine": 1}'


def test_out_of_memory_is_seen_behind_its_one_line():
    """Catches a full device taken for another failure: loading and passes both wrap torch's error."""
    import torch

    from dltb import RunError
    from dltb.models import MODELS
    from dltb.models.loading import explain_load_error

    full = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    line = explain_load_error(full, MODELS["sd-turbo"], None)
    line.__cause__ = full
    assert is_out_of_memory(line)
    assert not is_out_of_memory(RunError("pass 1: flat output"))


@pytest.mark.parametrize(
    ("peak", "card"), [(5.0, 8), (7.0, 8), (7.2, 12), (17.0, 24), (34.0, 40), (39.0, 48), (200, None)]
)
def test_smallest_card(peak, card):
    """Catches a card that is full before CUDA itself has its share."""
    assert smallest_card(peak * GIB) == card


def test_a_device_that_is_full_before_the_first_pass(monkeypatch, capsys):
    """Catches a traceback where the prompt's encoding, not a pass, is what no longer fits."""
    import torch
    from diffusers import Flux2KleinPipeline

    def full(*args, **kwargs):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB")

    monkeypatch.setattr(Flux2KleinPipeline, "encode_prompt", full)
    assert main(["--model", "tiny-klein", "--device", "cpu", "--passes", "1"]) == 1
    captured = capsys.readouterr()
    assert "native: out of memory\n" in captured.out
    assert "does not fit here" in captured.err


@pytest.mark.gpu
def test_a_card_that_is_too_small(capsys):
    """Catches a probe that ends at the first failure instead of trying --offload, on a device that is really full."""
    import torch

    if not torch.cuda.is_available():
        pytest.skip("only CUDA imitates a smaller card")
    try:
        assert main(["--model", "tiny-klein", "--device", "cuda", "--card-gb", "0.01"]) == 1
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    captured = capsys.readouterr()
    assert "native: out of memory\n" in captured.out
    assert "offload: out of memory\n" in captured.out
    assert "does not fit here" in captured.err
