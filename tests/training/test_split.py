"""The held-out split goes by source file."""

from training.data import HELD_OUT_CROPS_PER_SOURCE, is_held_out, scene_of, select

ROWS = [{"shard": "a", "pos": str(number), "source": f"pack/photo{number // 6}.jpg"} for number in range(6 * 60)]


def test_no_source_on_both_sides():
    """Catches a split by crop, in which a neighbour of every held-out crop is trained on."""
    trained = {row["source"] for row in select(ROWS, held_out=False)}
    held = {row["source"] for row in select(ROWS, held_out=True)}
    assert held
    assert trained.isdisjoint(held)
    assert trained | held == {row["source"] for row in ROWS}


def test_held_out_side_is_not_ruled_by_one_source():
    """Catches a large photograph with many crops deciding every measured number."""
    held = [row["source"] for row in select(ROWS, held_out=True)]
    assert max(held.count(source) for source in held) == HELD_OUT_CROPS_PER_SOURCE


def test_split_does_not_depend_on_other_sources():
    """Catches a split by position in the index: adding a source must not move another across."""
    held = {row["source"] for row in select(ROWS, held_out=True)}
    assert held >= {row["source"] for row in select(ROWS[::-1][: len(ROWS) // 2], held_out=True)}


def test_collage_follows_its_held_out_part():
    """Catches a collage that smuggles half of a held-out picture into the training set."""
    held = next(row["source"] for row in ROWS if is_held_out(row["source"]))
    free = next(row["source"] for row in ROWS if not is_held_out(row["source"]))
    assert is_held_out(f"{free} | {held}")
    assert is_held_out(f"{held} | {free}")


def test_frames_of_a_scene_stay_together():
    """Catches neighbouring frames of one render on different sides."""
    assert scene_of("render/train/r1_012.png") == scene_of("render/train/r1_149.png")
    assert scene_of("pack/a_1.jpg") != scene_of("pack/a_2.jpg")
