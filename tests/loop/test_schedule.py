"""Schedules: lines between key frames, texts that hold, and seeds that can be repeated."""

import pytest

from dltb.loop.schedule import held_at, number_at, seed_at


@pytest.mark.parametrize(
    ("index", "value"), [(0, 0.2), (10, 0.2), (15, 0.4), (20, 0.6), (25, 0.3), (30, 0.0), (99, 0.0)]
)
def test_numbers_run_in_lines(index, value):
    """Catches steps for lines, and values that run on beyond the ends."""
    assert number_at(((10, 0.2), (20, 0.6), (30, 0.0)), index) == pytest.approx(value)


@pytest.mark.parametrize(("index", "text"), [(1, "stone"), (4, "stone"), (5, "moss"), (99, "moss")])
def test_texts_hold_until_the_next(index, text):
    """Catches a text that changes a pass late, and no text before the first key frame."""
    assert held_at(((2, "stone"), (5, "moss")), index) == text


def test_seed_policies():
    """Catches a list that starts at its second number, and random seeds that a resume would not find again."""
    assert [seed_at("fixed", 7, n) for n in (1, 2)] == [7, 7]
    assert [seed_at("increment", 7, n) for n in (1, 2)] == [8, 9]
    assert [seed_at("list:3,5,9", 7, n) for n in (1, 2, 3, 4)] == [3, 5, 9, 3]
    random = [seed_at("random", 7, n) for n in range(1, 50)]
    assert random == [seed_at("random", 7, n) for n in range(1, 50)]
    assert len(set(random)) == 49
    assert random[0] != seed_at("random", 8, 1)
