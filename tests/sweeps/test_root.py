"""The directory of a sweep: legs that come back from another machine."""

import pytest

from dltb.sweeps.root import LOG, pack_leg, take_leg


def leg(directory, passes, log):
    """A leg with so many passes; None: no run in it."""
    (directory / "run").mkdir(parents=True)
    (directory / LOG).write_text(log)
    if passes is None:
        (directory / "run").rmdir()
    else:
        (directory / "run" / "steps.jsonl").write_text("{}\n" * passes)
    return directory


@pytest.mark.parametrize(
    ("here", "arriving", "is_complete", "stays"),
    [
        (7, None, False, 7),
        (7, 5, False, 7),
        (7, 9, False, 9),
        (7, 5, True, 5),
        (None, 0, False, 0),
        (0, None, False, 0),
    ],
)
def test_a_leg_never_gives_way_to_less_of_it(tmp_path, here, arriving, is_complete, stays):
    """Catches frames that are lost to a try that failed early somewhere else, and a failure whose log nobody sees."""
    root = tmp_path / "root"
    leg(root / "one", here, "before")
    take_leg(root, "one", pack_leg(leg(tmp_path / "away", arriving, "after")), is_complete=is_complete)
    assert (root / "one" / "run" / "steps.jsonl").read_text().count("\n") == stays
    assert (root / "one" / LOG).read_text() == "after"
    assert [path.name for path in root.iterdir()] == ["one"]
