"""dltb-stability-sweep: what is kept, what is moved, and that a sweep goes on where it stopped."""

import csv
import json

import pytest

from dltb import distance_feedback
from dltb.stability_sweep import main
from dltb.sweeps.executors import in_this_process
from tests.clips import files, manifest

pytestmark = pytest.mark.usefixtures("shared_models")
FRAMES = "21"
SMALL = ["--width", "64", "--height", "64", "--metric", "flip"]
RANGE = ["--min-blend", "0", "--max-blend", "1", "--step", "0.5", "--frames", FRAMES]


def sweep(root, *more):
    assert main([*SMALL, *RANGE, "--output-dir", str(root), *more]) == 0
    return root / "stability_s0.4"


def table(root):
    with (root / "stability_sweep.csv").open() as file:
        return list(csv.DictReader(file))


def test_stable_legs_are_reduced_and_unstable_ones_moved_whole(tmp_path):
    """Catches frames that are lost, legs that stay behind, and a table of unstable blends."""
    root = sweep(tmp_path)
    rows = table(root)
    assert list(rows[0]) == ["anchor-blend", "v_prev", "i_prev", "v_ref", "i_ref"]
    stable = {row["anchor-blend"] for row in rows}
    assert {path.name.removeprefix("a") for path in (root / "stable").iterdir()} == stable
    assert "1" in stable, "repeated fresh passes with a fixed seed are the most stable run there is"
    assert not (root / "running").exists()
    for row in rows:
        leg = root / "stable" / f"a{row['anchor-blend']}"
        opening = {f"frame_{int(row[name]):04d}.png" for name in ("i_prev", "i_ref")}
        assert files(leg) == {"run.json", *opening}
        assert manifest(leg)["stability"]["to_ref"]["value"] == pytest.approx(float(row["v_ref"]), abs=1e-8)
    for leg in (root / "unstable").glob("*"):
        assert {"distance_metrics.csv", "frames/frame_0001.png", "inputs/frame_0001.png"} <= files(leg)
    assert (root / "stability_plot.png").stat().st_size > 10_000


def test_a_leg_is_the_feedback_run_itself(tmp_path):
    """Catches a sweep that walks a path of its own."""
    root = sweep(tmp_path, "--control", "identity", "--min-blend", "0.5", "--max-blend", "0.5")
    root = root.with_name("stability_s0.4_control-identity")
    argv = [*SMALL, "--frames", FRAMES, "--anchor-blend", "0.5", "--control", "identity", "--output-dir", str(tmp_path)]
    assert distance_feedback.main(argv) == 0
    alone = manifest(tmp_path / "feedback_s0.4_a0.5_control-identity")["settings"]
    assert manifest(root / "stable" / "a0.5")["settings"] == alone


def test_an_interrupted_sweep_goes_on_and_ends_with_the_same_table(tmp_path, monkeypatch, capsys):
    """Catches legs that are made twice, or a table that depends on the interruption."""
    import dltb.runs.sweep as module

    expected = table(sweep(tmp_path / "unbroken"))
    made, judged = [], []
    play, sort = module.play_passes, module._sort

    def play_two(plan, *rest, **how):
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(plan.directory.name)
        play(plan, *rest, **how)

    monkeypatch.setattr(module, "play_passes", play_two)
    argv = [*SMALL, *RANGE, "--output-dir", str(tmp_path / "broken")]
    assert main(argv) == 130
    assert made == ["a0", "a0.5"]
    made.clear()

    def sort_one(leg, verdicts):
        if judged:
            raise KeyboardInterrupt
        judged.append(leg.tag)
        sort(leg, verdicts)

    monkeypatch.setattr(module, "_sort", sort_one)
    assert main(argv) == 130
    assert made == ["a1"], "the two legs that were made are not made again"
    monkeypatch.setattr(module, "_sort", sort)
    monkeypatch.setattr(module, "load_model", lambda *_: pytest.fail("nothing is left to make"))
    assert main(argv) == 0
    assert table(tmp_path / "broken" / "stability_s0.4") == expected


def test_one_load_of_each(tmp_path, monkeypatch):
    """Catches a model that is loaded once per blend."""
    import dltb.runs.sweep as module

    loads = []
    for name in ("load_model", "load_chosen"):
        load = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, load=load, name=name: (loads.append(name), load(*a))[1])
    root = sweep(tmp_path)
    assert loads == ["load_model", "load_chosen"]
    sweep(tmp_path)
    assert loads == ["load_model", "load_chosen"], "a sweep that is complete loads nothing"
    assert len(table(root)) >= 1


def test_other_settings_are_refused(tmp_path, capsys):
    """Catches blends of two prompts in one table."""
    sweep(tmp_path)
    assert main([*SMALL, *RANGE, "--output-dir", str(tmp_path), "--prompt", "fog"]) == 2
    assert "prompt" in capsys.readouterr().err


def test_frames_too_small_for_the_metric_are_refused_at_once(tmp_path, capsys):
    """Catches a sweep that makes all its passes to learn that they cannot be measured."""
    argv = ["--width", "64", "--height", "64", "--metric", "ms-ssim", "--output-dir", str(tmp_path / "out")]
    assert main(argv) == 2
    assert "needs frames of at least" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


FAST = ["--control", "identity", "--frames", "21"]  # without the model


def fast_sweep(root, low, high, *more, code=0):
    argv = [
        *SMALL,
        *FAST,
        "--min-blend",
        str(low),
        "--max-blend",
        str(high),
        "--step",
        "0.1",
        "--output-dir",
        str(root),
    ]
    assert main([*argv, *more]) == code
    return root / "stability_s0.4_control-identity"


def test_a_second_range_joins_the_first(tmp_path, capsys):
    """Catches a table of the last command only, and blends in the order in which they were made."""
    fast_sweep(tmp_path, 0.4, 0.5)
    root = fast_sweep(tmp_path, 0.1, 0.2)
    assert [row["anchor-blend"] for row in table(root)] == ["0.1", "0.2", "0.4", "0.5"]
    assert "4 of 4 blends are stable" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--prompt", "fog"], "(prompt: '' there, fog now)"),
        (["--frames", "22"], "(passes: 21 there, 22 now)"),
        (["--metric", "pixel"], "(metric: flip there, pixel now)"),
    ],
)
@pytest.mark.parametrize("low", [0.1, 0.3])
def test_legs_of_one_table_differ_in_their_blend_alone(tmp_path, capsys, more, says, low):
    """Catches blends of two prompts, lengths or metrics in one table, in the same range and in another."""
    root = fast_sweep(tmp_path, 0.1, 0.2)
    before = files(root)
    fast_sweep(tmp_path, low, low, *more, code=2)
    error = capsys.readouterr().err.splitlines()[-1]
    assert says in error
    assert "--output-dir" in error
    assert files(root) == before


def test_an_overwrite_that_is_interrupted_goes_on_without_it(tmp_path, monkeypatch, capsys):
    """Catches old legs that count as new ones, are refused for their old settings, or are lost before the new are there."""
    import dltb.runs.sweep as module

    root = fast_sweep(tmp_path, 0.1, 0.3)
    old = files(root / "stable")
    play, made = module.play_passes, []

    def play_one(plan, *rest, **how):
        if made:
            raise KeyboardInterrupt
        made.append(plan.directory.name)
        play(plan, *rest, **how)

    monkeypatch.setattr(module, "play_passes", play_one)
    fast_sweep(tmp_path, 0.1, 0.3, "--prompt", "fog", "--overwrite", code=130)
    assert files(root / "replaced" / "stable") == old
    monkeypatch.setattr(module, "play_passes", play)
    fast_sweep(tmp_path, 0.1, 0.3, "--prompt", "fog")
    assert len(table(root)) == 3
    assert {manifest(leg)["settings"]["prompt"] for leg in (root / "stable").iterdir()} == {"fog"}
    assert {path.name for path in root.iterdir()} == {"stable", "stability_sweep.csv", "stability_plot.png"}


def test_an_overwrite_that_cannot_start_moves_nothing(tmp_path, monkeypatch, capsys):
    """Catches judged legs that are put aside for a model that does not load, and folders of others that are replaced."""
    import dltb.runs.sweep as module

    root = fast_sweep(tmp_path, 0.1, 0.2)
    before = files(root)

    def broken(*rest):
        raise module.UsageError("no such weights")

    with monkeypatch.context() as patch:
        patch.setattr(module, "load_model", broken)
        fast_sweep(tmp_path, 0.1, 0.2, "--overwrite", code=2)
    assert files(root) == before
    (root / "unstable" / "a0.2").mkdir(parents=True)
    (root / "unstable" / "a0.2" / "mine.txt").write_text("mine")
    fast_sweep(tmp_path, 0.1, 0.2, "--overwrite", code=2)
    assert "is no leg of a sweep" in capsys.readouterr().err
    assert (root / "unstable" / "a0.2" / "mine.txt").read_text() == "mine"


def test_one_sweep_at_a_time(tmp_path, capsys):
    """Catches two sweeps that write one table."""
    from dltb.output.run_directory import locked

    root = tmp_path / "stability_s0.4_control-identity"
    with locked(root):
        fast_sweep(tmp_path, 0.1, 0.2, code=2)
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"another process is writing {root}; wait for it, or choose another --output-dir" in error


def test_too_few_frames_for_a_verdict_are_refused(tmp_path, capsys):
    """Catches hours of passes whose only verdict is "too short"."""
    fast_sweep(tmp_path / "out", 0.1, 0.2, "--frames", "20", code=2)
    assert "--frames 20 is too few for a verdict, which needs 21 or more" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    fast_sweep(tmp_path / "out", 0.1, 0.1)


@pytest.mark.parametrize(
    ("argv", "says"),
    [(["--min-blend", "0.6", "--max-blend", "0.5"], "is above"), (["--step", "0"], "out of range")],
)
def test_an_empty_range(tmp_path, argv, says, capsys):
    """Catches a sweep over nothing, or without end."""
    try:
        code = main([*argv, "--output-dir", str(tmp_path / "out")])
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_blends_in_workers_end_in_the_table_of_one_process(tmp_path):
    """Catches runs that are left where they were made, made again, or made under other settings; and a finished sweep that
    another way of running does not recognise."""
    argv = ["--frames", FRAMES, "--min-blend", "0.5", "--step", "0.5", "--prompt", "fog"]
    expected = table(sweep(tmp_path / "here", *argv))
    root = sweep(tmp_path / "there", *argv, "--workers", "2")
    assert table(root) == expected
    here = tmp_path / "here" / "stability_s0.4"
    assert files(root) == files(here)
    for name in ("stable/a1/run.json", *(f"{path.relative_to(here)}/run.json" for path in here.glob("unstable/*"))):
        found, wanted = (json.loads((place / name).read_text()) for place in (root, here))
        assert (found["settings"], found["tool"]) == (wanted["settings"], wanted["tool"])
    assert table(sweep(tmp_path / "there", *argv)) == expected, "in one process nothing is left to make"


def test_an_unfinished_blend_goes_on_in_a_worker(tmp_path, monkeypatch):
    """Catches a run that is begun anew, or lost, where one way of running takes over from another."""
    import dltb.runs.sweep as module
    from dltb.sweeps import stability

    argv = ["--frames", FRAMES, "--min-blend", "0.5", "--max-blend", "0.5"]
    expected = table(sweep(tmp_path / "here", *argv))
    play, made = module.play_passes, []

    def broken(plan, generate, *rest, **how):
        def few(images, index):
            if index == 12:
                raise KeyboardInterrupt
            return generate(images, index)

        play(plan, few, *rest, **how)

    with monkeypatch.context() as patch:
        patch.setattr(module, "play_passes", broken)
        assert main([*SMALL, *RANGE, *argv, "--output-dir", str(tmp_path / "there")]) == 130
    # In this process, but by the way of the workers.
    monkeypatch.setattr("dltb.stability_sweep.choose_executor", lambda *_, **how: in_this_process)
    move = stability._move
    monkeypatch.setattr(stability, "_move", lambda source, target: (made.append(target.name), move(source, target)))
    root = sweep(tmp_path / "there", *argv, "--workers", "1")
    assert made == ["feedback_s0.4_a0.5", "a0.5"]
    assert table(root) == expected
    (place,) = root.glob("*stable/a0.5")
    assert len(manifest(place)["sessions"]) == 2


def test_an_interruption_in_workers_leaves_nothing_in_the_way(tmp_path, monkeypatch):
    """Catches legs that stay behind and are in the way of the same range with another seed, or for ever; and flags whose
    value is a list."""
    from dltb.sweeps import stability

    argv = ["--frames", FRAMES, "--min-blend", "0.5", "--max-blend", "0.5", "--log-with", "tensorboard"]
    monkeypatch.setattr("dltb.stability_sweep.choose_executor", lambda *_, **how: in_this_process)
    expected = table(sweep(tmp_path / "whole", *argv, "--seed", "7"))

    def interrupted(*_):
        raise KeyboardInterrupt

    root = tmp_path / "there" / "stability_s0.4"
    with monkeypatch.context() as patch:
        patch.setattr("dltb.sweeps.work._measure", interrupted)
        assert main([*SMALL, *RANGE, *argv, "--output-dir", str(tmp_path / "there"), "--workers", "1"]) == 130
    assert {path.name for path in root.iterdir() if path.is_dir()} == {"running"}
    assert stability.LEGS not in {path.name for path in root.iterdir()}
    (root / stability.LEGS / "a0.5").mkdir(parents=True)  # a kill leaves it
    (root / stability.LEGS / "sweep.json").write_text(
        json.dumps({"schema": 1, "legs": {"a0.5": {"tool": "dltb-distance-feedback", "settings": {}}}})
    )
    sweep(tmp_path / "there", *argv, "--seed", "7", "--overwrite", "--workers", "1")
    assert table(root) == expected
    assert not (root / stability.LEGS).exists()
