"""The measures and the verdict, on arrays."""

import numpy as np
import pytest

from dltb.models.verification.checks import Check, Report, check_cosine, check_pictures, cosine, psnr


def test_cosine_by_hand() -> None:
    """Catches a cosine that depends on scale, and one that is 1 for nothing or for NaN."""
    assert cosine(np.array([3.0, 0]), np.array([7.0, 0])) == 1
    assert cosine(np.array([1.0, 0]), np.array([0, 2.0])) == 0
    assert cosine(np.array([1.0, 1]), np.array([-2.0, -2])) == pytest.approx(-1)
    assert cosine(np.zeros(3), np.zeros(3)) == 0
    assert cosine(np.array([np.nan, 1]), np.array([1.0, 1])) == 0


def test_psnr_by_hand() -> None:
    """Catches another peak or a missing square."""
    black = np.zeros((4, 4))
    assert psnr(black, black) == 99
    assert psnr(black, black + 255) == 0
    assert psnr(black, black + 25.5) == pytest.approx(20)
    assert psnr(black, black * np.nan) == 0


def test_the_worst_pair_decides() -> None:
    """Catches an average that hides one wrong step."""
    right, wrong = np.array([1.0, 0]), np.array([0, 1.0])
    check = check_cosine("steps", 0.9, [(right, right), (right, wrong)], expected=2)
    assert (check.status, check.value, check.compared) == ("fail", 0, 2)


@pytest.mark.parametrize(
    ("pairs", "expected", "text"),
    [
        ([], 0, "holds none"),
        ([], 2, "0 of 2"),
        ([(np.ones(2), np.ones(2))], 2, "1 of 2"),
        ([(np.ones(2), np.ones(3))], 1, "another shape"),
    ],
)
def test_what_was_not_compared_is_a_failure(pairs, expected, text) -> None:
    """Catches a running minimum that starts at 1 and passes having compared nothing."""
    for check in (
        check_cosine("steps", 0.995, pairs, expected=expected),
        check_pictures("x", pairs, expected=expected),
    ):
        assert check.status == "fail"
        assert text in check.reason


def test_pictures_without_signal_prove_nothing() -> None:
    """Catches two grey pictures, whose PSNR is perfect, passing for a decoder that works."""
    grey = np.full((8, 8, 3), 128.0)
    assert "without signal" in check_pictures("decode", [(grey, grey)], expected=1).reason
    noise = np.random.default_rng(0).uniform(0, 255, (8, 8, 3))
    assert check_pictures("decode", [(noise, noise)], expected=1).status == "pass"
    assert "dB is below" in check_pictures("decode", [(noise, noise[::-1])], expected=1).reason
    assert "without signal" in check_pictures("decode", [(noise, noise * np.nan)], expected=1).reason


def test_a_report_in_which_nothing_ran_has_failed() -> None:
    """Catches an empty capture being signed off."""
    assert Report().failures == ["no check ran: nothing was verified"]
    skipped = Report(checks=[Check("frame", "skip", reason="other noise")])
    assert skipped.failures
    assert skipped.as_dict()["verdict"] == "fail"
    skipped.checks.append(Check("text", "pass", 1.0, 0.999, 1))
    assert skipped.failures == []
    assert "other noise" in skipped.table()
