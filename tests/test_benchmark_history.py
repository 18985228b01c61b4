"""The arithmetic of the history study: a wrong sign here would be a wrong claim in the documentation."""

import itertools

import numpy as np
import pytest

from benchmarks.history.measuring import kept_change
from benchmarks.history.results import Result, reference_at, slope_interval, verdict
from benchmarks.history.world import World, write_lossless
from dltb.imaging.video import read_video


def result(leg, excess, error, slope=0.0):
    return Result(leg, excess, error, slope, 1.0, *[0.0] * 6)


CURVE = [result("independent", 0, 12), result("reference a=0.1", 20, 4), result("reference a=0.5", 4, 8)]


def test_slopes_have_the_interval_of_a_line():
    """Catches a slope per pass for one per 1,000, and content that repeats with the clip taken for a trend."""
    rng, passes = np.random.default_rng(0), np.arange(470)
    wave = 3 * np.sin(passes * 2 * np.pi / 47)
    slope, error = slope_interval(0.02 * passes + wave + rng.normal(0, 0.5, 470), 47)
    assert slope == pytest.approx(20, abs=error)
    assert 0 < error < 2
    inside = 0
    for _ in range(200):
        slope, error = slope_interval(wave + rng.normal(0, 1, 470), 47)
        inside += abs(slope) <= error
    assert 180 <= inside <= 199
    assert np.isnan(slope_interval(passes[:100], 47)[0])


def test_the_curve_is_read_between_its_legs():
    """Catches an interpolation over the blend in the place of the warping error."""
    assert reference_at(CURVE, 6) == pytest.approx(12)
    assert reference_at(CURVE, 10) == pytest.approx(2)
    assert reference_at(CURVE, 3) is None


@pytest.mark.parametrize(
    ("leg", "says"),
    [
        (result("both", 5.9, 6), "reference 12.00, under half, flat"),
        (result("both", 6.1, 6), "reference 12.00, OVER half, flat"),
        (result("both", 1.9, 3), "reference, anywhere 4.00, under half, flat"),
        (result("both", 2.1, 3), "reference, anywhere 4.00, OVER half, flat"),
        (result("both", 0, 13), "less steady than the whole curve, flat"),
        (result("both", 5.9, 6, slope=-1.1), "reference 12.00, under half, MOVES"),
    ],
)
def test_verdicts(leg, says):
    """Catches a claim that the numbers do not hold."""
    assert verdict(leg, [*CURVE, leg]) == says


def test_a_leg_without_the_reference():
    """Catches hours of --only that end in a traceback where none of the legs is a reference."""
    leg = result("both", 1, 6)
    assert verdict(leg, [CURVE[0], leg]) == "no reference leg, flat"


def test_kept_change_of_known_changes():
    """Catches a projection onto the wrong picture: all of the change, half of it, none, its opposite."""
    source = np.full((32, 32, 3), 100, np.uint8)
    alone = source + np.uint8(20)
    for level, share in ((120, 1.0), (110, 0.5), (100, 0.0), (80, -1.0)):
        assert kept_change(np.full_like(source, level), alone, source) == pytest.approx(share)


def test_the_clip_goes_there_and_back(tmp_path):
    """Catches a frame that comes twice at the ends, where exact motion would be none."""
    order = World(tmp_path, np.zeros(0), {}).order(190)
    assert order[:3] == [0, 1, 2]
    assert order[46:50] == [46, 47, 46, 45]
    assert order[92:96] == [2, 1, 0, 1]
    assert {abs(a - b) for a, b in itertools.pairwise(order)} == {1}


def test_the_clip_is_lossless(tmp_path):
    """Catches chroma that is halved on the way to the loop: the study compares with the frames themselves."""
    frames = list(np.random.default_rng(1).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8))
    write_lossless(tmp_path / "clip.mkv", iter(frames), 64)
    read = list(read_video(tmp_path / "clip.mkv"))
    assert len(read) == 3
    assert all(np.array_equal(a, b) for a, b in zip(frames, read, strict=True))


def test_a_report_of_what_is_measured(tmp_path, capsys, monkeypatch):
    """Catches a study that was stopped and cannot be read, a missing figure, and a group without its yardstick."""
    import csv
    import sys

    from benchmarks.history import __main__ as study
    from benchmarks.history.measuring import COLUMNS

    def table(group, leg, drift):
        path = tmp_path / "64px_300" / group / f"{leg}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, restval="1")
            writer.writeheader()
            writer.writerows({"pass": number, "drift": drift} for number in range(1, 301))

    table("tiny-turbo/fixed", "independent", 5)
    table("tiny-turbo/fixed", "both-a=0.1", 7)
    table("tiny-klein/fixed", "both-a=0.1", 7)  # no independent leg: nothing to hold it against
    command = ["history", "--report", "--passes", "300", "--size", "64", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    study.main()
    out = capsys.readouterr().out
    assert "both a=0.1                            2.00" in out
    assert "tiny-klein" not in out
    assert {"results.csv", "history.png", "history_over_time.png"} <= {path.name for path in tmp_path.glob("*/*")}
    monkeypatch.setattr(sys, "argv", [*command, "--noise", "fresh"])
    with pytest.raises(SystemExit, match="nothing is measured"):
        study.main()


def test_a_leg_that_does_not_exist(monkeypatch, capsys, tmp_path):
    """Catches a study of hours over the independent leg alone, because a name was mistyped."""
    import sys

    from benchmarks.history import __main__ as study

    monkeypatch.setattr(sys, "argv", ["history", "--only", "both a=0.2", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        study.main()
    assert stopped.value.code == 2
    assert "no such leg: both a=0.2; known: " in capsys.readouterr().err
