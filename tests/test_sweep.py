"""dltb-sweep in this process: what is made, skipped, gone on with, refused and put into the table."""

import csv
import json
import shutil
import subprocess
import sys

import pytest

from dltb import RunError, continuous, distance_loop, iterate
from dltb.sweep import main
from tests.clips import assert_same_run, files, manifest, sliding_clip

pytestmark = pytest.mark.usefixtures("shared_models")
SMALL = 'tool = "dltb-iterate"\niterations = 4\nwidth = 64\nheight = 64\n'
FOUR = f'[fixed]\n{SMALL}[product]\nstrength = [0.3, 0.5]\nprompt = {{ none = "", fog = "fog" }}\n'
LEGS = [f"strength-{strength}_prompt-{label}" for strength in (0.3, 0.5) for label in ("none", "fog")]
RUN = "test_512_free-running"


@pytest.fixture
def sweep(tmp_path):
    """``sweep(text, *flags)`` runs a grid in tmp_path/root and returns the exit code."""

    def run(text, *flags):
        (tmp_path / "grid.toml").write_text(text)
        return main([str(tmp_path / "grid.toml"), "--output-dir", str(tmp_path / "root"), *flags])

    return run


@pytest.fixture
def loads(monkeypatch):
    """The models that were loaded."""
    import dltb.runs.model as module

    found, load = [], module.load_pipeline
    monkeypatch.setattr(module, "load_pipeline", lambda spec, **how: (found.append(spec.key), load(spec, **how))[1])
    return found


def table(root):
    with (root / "sweep.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def column(root, name):
    return [row[name] for row in table(root)]


def test_legs_are_ordinary_runs_on_one_loaded_model(tmp_path, sweep, loads, capsys):
    """Catches a load per leg, a leg that is lost, and a table without its settings or measures."""
    assert sweep(FOUR) == 0
    root = tmp_path / "root"
    assert loads == ["tiny-turbo"]
    assert {path.name for path in root.iterdir()} == {*LEGS, "sweep.csv", "sweep.json"}
    for leg in LEGS:
        expected = {"drift_metrics.csv", "stabilization_report.csv", "run.json", "steps.jsonl", "timelapse.mp4"}
        assert expected <= files(root / leg / RUN)
        assert "free-running" in (root / leg / "leg.log").read_text()
    assert column(root, "leg") == LEGS
    assert column(root, "prompt") == ["", "fog", "", "fog"]
    assert column(root, "strength") == ["0.3", "0.3", "0.5", "0.5"]
    assert set(column(root, "status")) == {"complete"}
    assert set(column(root, "passes_made")) == {"4"}
    assert all(float(row["drift_original"]) > 0 and float(row["seconds_per_pass"]) > 0 for row in table(root))
    assert set(column(root, "delta_prev_verdict")) == {"too short"}
    assert "[4/4]" in capsys.readouterr().out


def test_a_leg_is_the_same_alone_and_after_others(tmp_path, sweep):
    """Catches state of one leg that reaches the next, and a leg that is not what its tool makes."""
    assert sweep(FOUR) == 0
    for leg, strength, prompt in ((LEGS[1], "0.3", "fog"), (LEGS[2], "0.5", "")):
        argv = ["--iterations", "4", "--width", "64", "--height", "64", "--strength", strength, "--prompt", prompt]
        assert iterate.main([*argv, "--output-dir", str(tmp_path / leg)]) == 0
        for extra in ("drift_metrics.csv", "stabilization_report.csv"):
            (tmp_path / "root" / leg / RUN / extra).unlink()
        assert_same_run(tmp_path / "root" / leg / RUN, tmp_path / leg / RUN)


def test_legs_of_every_loop_tool(tmp_path, sweep, picture, loads):
    """Catches a tool whose legs cannot run, whose passes are planned wrong, or that loads a model of its own."""
    clip = sliding_clip(tmp_path / "clip.png", picture, 3)
    text = f"""
    [fixed]
    width = 64
    height = 64
    [[leg]]
    name = "one"
    tool = "oneshot"
    [[leg]]
    name = "klein"
    tool = "klein"
    model = "tiny-klein"
    input = "{clip}"
    tail-frames = 2
    tail-modes = "freeze,black"
    save-every = 1
    [[leg]]
    name = "clip"
    tool = "continuous"
    input = "{clip}"
    save-every = 1
    [[leg]]
    name = "loop"
    tool = "distance-loop"
    iterations = 3
    metric = "pixel"
    [[leg]]
    name = "feedback"
    tool = "distance-feedback"
    frames = 3
    metric = "pixel"
    """
    assert sweep(text, "--keep-going") == 0
    root = tmp_path / "root"
    assert dict(zip(column(root, "leg"), column(root, "passes_made"), strict=True)) == {
        "one": "1", "klein": "7", "clip": "3", "loop": "3", "feedback": "3"
    }  # fmt: skip
    assert loads == ["tiny-turbo", "tiny-klein"], "legs of one model run in one stretch"
    assert [row["leg"] for row in table(root) if row["pixel_to_ref"]] == ["loop", "feedback"]


def test_what_is_complete_is_skipped_and_what_is_new_is_made(tmp_path, sweep, loads):
    """Catches legs that are made again when the grid grows."""
    assert sweep(FOUR.replace("[0.3, 0.5]", "[0.3]").replace('none = ""', 'none = "", oil = "oil"')) == 0
    root = tmp_path / "root"
    assert sorted(column(root, "leg")) == ["prompt-fog", "prompt-none", "prompt-oil"]
    before = (root / "prompt-fog" / RUN / "run.json").read_bytes()
    loads.clear()
    assert sweep(FOUR.replace("[0.3, 0.5]", "[0.3]")) == 0
    assert loads == [], "nothing is left to make"
    assert sweep(FOUR) == 0
    assert loads == ["tiny-turbo"]
    assert (root / "prompt-fog" / RUN / "run.json").read_bytes() == before
    assert column(root, "leg")[-4:] == LEGS


def test_an_interrupted_sweep_goes_on_and_ends_with_the_same_table(tmp_path, sweep, monkeypatch, capsys):
    """Catches passes that are lost or made twice, and a table that remembers the interruption."""
    import dltb.runs.still as module

    long = FOUR.replace("iterations = 4", "iterations = 12")
    assert sweep(long) == 0
    root = tmp_path / "root"
    whole, unbroken = table(root), tmp_path / "unbroken"
    root.rename(unbroken)
    play, begun = module._play, []

    def break_the_third(session, phase, original):
        begun.append(1)
        generate = session.generate

        def stopping(images, index):
            if len(begun) == 3 and index == 11:
                raise KeyboardInterrupt
            return generate(images, index)

        object.__setattr__(session, "generate", stopping)
        play(session, phase, original)

    monkeypatch.setattr(module, "_play", break_the_third)
    assert sweep(long) == 130
    assert "stopped by SIGINT; what is finished is kept, and the same command goes on" in capsys.readouterr().err
    assert column(root, "status") == ["complete", "complete", "interrupted", "planned"]
    assert sweep(long) == 0
    assert len(begun) == 5
    logged = [json.loads(line)["pass"] for line in (root / LEGS[2] / RUN / "steps.jsonl").read_text().splitlines()]
    assert logged == list(range(1, 13))
    timed = {"seconds_per_pass"}
    assert [{k: v for k, v in row.items() if k not in timed} for row in table(root)] == [
        {k: v for k, v in row.items() if k not in timed} for row in whole
    ]
    for leg in LEGS:
        assert_same_run(unbroken / leg / RUN, root / leg / RUN)


def test_other_settings_under_the_same_name_are_refused_and_change_nothing(tmp_path, sweep, capsys):
    """Catches a leg that is skipped though it was made with another seed."""
    assert sweep(FOUR) == 0
    root = tmp_path / "root"
    before = {name: (root / name).read_bytes() for name in files(root)}
    assert sweep(FOUR.replace("width = 64", "width = 64\nseed = 7")) == 2
    assert "seed: 'not set' there, 7 now" in capsys.readouterr().err
    assert {name: (root / name).read_bytes() for name in files(root)} == before


def test_another_file_of_the_same_name_is_refused(tmp_path, sweep, picture, capsys):
    """Catches a finished leg of an input that has changed since."""
    clip = tmp_path / "clip.png"
    sliding_clip(clip, picture, 3)
    text = (
        f'[fixed]\ntool = "continuous"\nwidth = 64\nheight = 64\ninput = "{clip}"\n[product]\ncontrol = ["identity"]\n'
    )
    assert sweep(text) == 0
    from dltb.sweeps import plan

    plan._describe_source.cache_clear()  # another process, in life
    sliding_clip(clip, picture, 3, step=3)
    assert sweep(text) == 2
    assert "another file of that name" in capsys.readouterr().err


def failing_on(monkeypatch, wanted, times, error):
    """Let the runs of one prompt fail so many times."""
    import dltb.runs.still as module

    load, failed = module.load_model, []

    def fail(choice, note, **how):
        if choice.settings.prompt == wanted and len(failed) < times:
            failed.append(1)
            raise error
        return load(choice, note, **how)

    monkeypatch.setattr("dltb.runs.pool.load_model", fail)
    return failed


def test_a_failed_leg_stops_the_sweep_or_is_left(tmp_path, sweep, monkeypatch, capsys):
    """Catches a failure that nobody hears of, or that takes the legs after it along though it must not."""
    failing_on(monkeypatch, "fog", 99, RunError("out of memory"))
    assert sweep(FOUR) == 1
    root = tmp_path / "root"
    assert column(root, "status") == ["complete", "failed", "planned", "planned"]
    assert f"1 of 4 legs failed, the first {LEGS[1]}: out of memory; legs after it" in capsys.readouterr().err
    assert sweep(FOUR, "--keep-going") == 1
    assert column(root, "status") == ["complete", "failed", "complete", "failed"]
    assert column(root, "reason") == ["", "out of memory", "", "out of memory"]


def test_a_failed_leg_is_tried_again_and_forgotten_once_it_is_made(tmp_path, sweep, monkeypatch):
    """Catches retries that do not happen, and a reason that outlives the failure."""
    failed = failing_on(monkeypatch, "fog", 3, RunError("out of memory"))
    assert sweep(FOUR, "--retries", "2", "--keep-going") == 0
    assert len(failed) == 3
    assert set(column(tmp_path / "root", "status")) == {"complete"}
    assert set(column(tmp_path / "root", "reason")) == {""}


def test_a_wrong_request_is_not_tried_again(tmp_path, sweep, monkeypatch):
    """Catches retries of what can only fail again."""
    from dltb import UsageError

    failed = failing_on(monkeypatch, "fog", 99, UsageError("no such device"))
    assert sweep(FOUR, "--retries", "5") == 1
    assert len(failed) == 1


def test_a_bug_in_one_leg_is_its_failure_alone(tmp_path, sweep, monkeypatch, capsys):
    """Catches an unexpected exception that ends the sweep without a table."""
    failing_on(monkeypatch, "fog", 99, ZeroDivisionError("division by zero"))
    assert sweep(FOUR, "--keep-going") == 1
    assert column(tmp_path / "root", "reason")[1] == "ZeroDivisionError: division by zero"
    assert "Traceback" in capsys.readouterr().err


def test_a_leg_that_was_made_but_not_measured_is_measured(tmp_path, sweep, loads):
    """Catches a table that lacks the measures of the leg that was killed between the two."""
    assert sweep(FOUR) == 0
    root = tmp_path / "root"
    whole = (root / "sweep.csv").read_bytes()
    for name in ("drift_metrics.csv", "stabilization_report.csv"):
        (root / LEGS[2] / RUN / name).unlink()
    loads.clear()
    assert sweep(FOUR) == 0
    assert loads == []
    assert (root / "sweep.csv").read_bytes() == whole


def test_a_signal_while_a_leg_is_measured_ends_the_sweep(tmp_path, sweep, monkeypatch):
    """Catches a Ctrl-C that counts as a failed measure, and a leg that is never measured afterwards."""
    from dltb import analyze_drift

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(analyze_drift, "analyze", interrupted)
        assert sweep(FOUR, "--keep-going") == 130
    assert column(tmp_path / "root", "status") == ["complete", "planned", "planned", "planned"]
    assert sweep(FOUR) == 0
    assert all(column(tmp_path / "root", "drift_original"))


def test_a_metric_can_be_asked_for(tmp_path, sweep):
    """Catches measure lines whose flags do not reach the tool, and verdicts on another table than the best one."""
    measure = 'measure = ["dltb-distance --metric pixel --lag 0", "dltb-stabilization"]\n'
    assert sweep(measure + f"[fixed]\n{SMALL}") == 0
    (row,) = table(tmp_path / "root")
    assert float(row["pixel_to_ref"]) > 0
    assert "pixel_to_lag" not in row
    assert row["pixel_to_ref_verdict"] == "too short"
    assert "drift_prev" not in row


def test_another_measure_is_made_and_what_reads_it_again(tmp_path, sweep, loads):
    """Catches a leg that counts as measured though its tables are another metric's or of fewer passes."""
    root, measure = tmp_path / "root", 'measure = ["dltb-distance --metric {}", "dltb-stabilization"]\n'
    assert sweep(measure.format("flip") + f"[fixed]\n{SMALL}") == 0
    loads.clear()
    assert sweep(measure.format("pixel") + f"[fixed]\n{SMALL}") == 0
    (row,) = table(root)
    assert loads == []
    assert float(row["pixel_to_ref"]) > 0
    assert "flip_to_ref" not in row
    assert row["pixel_to_ref_verdict"] == "too short"
    record = root / "iterate" / "measured.json"
    record.write_text(record.read_text().replace('"main": 4', '"main": 3'))
    made = (root / "iterate" / RUN / "distance_metrics.csv").stat().st_mtime_ns
    assert sweep(measure.format("pixel") + f"[fixed]\n{SMALL}") == 0
    assert (root / "iterate" / RUN / "distance_metrics.csv").stat().st_mtime_ns > made


def test_a_damaged_table_is_its_runs_alone(tmp_path, sweep):
    """Catches one table, one report or one doubled run that keeps a whole sweep, or --collect, from its table."""
    assert sweep(FOUR) == 0
    root = tmp_path / "root"
    (root / LEGS[0] / RUN / "drift_metrics.csv").write_text("frame,delta_prev\nframe_0001,many\n")
    (root / LEGS[1] / RUN / "stabilization_report.csv").write_text("what,is,this\n1,2,3\n")
    shutil.copytree(root / LEGS[2] / RUN, root / LEGS[2] / "copy")
    assert main(["--collect", str(root)]) == 0
    reasons = column(root, "reason")
    assert "drift_metrics.csv, column 'delta_prev'" in reasons[0]
    assert "verdicts of" in reasons[1]
    assert "holds 2 runs" in reasons[2]
    assert reasons[3] == ""
    assert [bool(cell) for cell in column(root, "drift_prev")] == [False, False, False, True]
    assert sweep(FOUR.replace("[0.3, 0.5]", "[0.3]").replace('none = "", fog', 'oil = "oil", fog')) == 0
    assert column(root, "status")[-1] == "complete"


def test_a_settled_series_is_in_the_table_with_its_plateau(tmp_path, sweep):
    """Catches verdicts without the values that a stability sweep is made for."""
    text = """
    preset = "stability"
    [fixed]
    metric = "pixel"
    frames = 24
    width = 64
    height = 64
    [product]
    anchor-blend = [0.5, 1.0]
    """
    assert sweep(text) == 0
    moving, repeated = table(tmp_path / "root")
    assert repeated["leg"] == "anchor-blend-1.0"
    assert repeated["pixel_to_ref_verdict"] == "stable", "repeated fresh passes with a fixed seed"
    assert float(repeated["pixel_to_ref_plateau"]) == pytest.approx(float(repeated["pixel_to_ref"]), rel=1e-4)
    assert repeated["pixel_to_ref_settled_at"] == "frame_0001"
    assert moving["pixel_to_ref_verdict"]


def test_a_plan_says_what_would_be_done_and_changes_nothing(tmp_path, sweep, capsys):
    """Catches a plan that loads, writes, or counts what is made."""
    assert sweep(FOUR, "--plan") == 0
    told = capsys.readouterr().out
    assert "legs: 4 (4 new); models to load: 1" in told
    assert "passes: 16 to make" in told
    assert "time: unknown until a leg" in told
    assert files(tmp_path) == {"grid.toml"}
    assert sweep(FOUR.replace("[0.3, 0.5]", "[0.3]")) == 0
    assert sweep(FOUR.replace("[0.3, 0.5]", "[0.3]").replace('""', '"", oil = "oil"'), "--plan") == 0
    told = capsys.readouterr().out
    assert "legs: 3 (2 complete, 1 new)" in told
    assert "time: about" in told
    assert "prompt-oil: dltb-iterate, 4 passes, new" in told


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("strength = 0.1", "leg iterate: --num-inference-steps 4 x --strength 0.1 is below 1"),
        ('model = "sd-trubo"', "leg iterate: unknown model 'sd-trubo' (did you mean sd-turbo?)"),
        ('tool = "klein"\nmodel = "sd-turbo"', "leg klein: sd-turbo is no FLUX.2 klein model"),
        ('tool = "distance-loop"\nmodel = "tiny-klein"', "leg distance-loop: tiny-klein has no strength"),
        ('input = "none.png"', "leg iterate: --input none.png: no such file"),
    ],
)
def test_what_cannot_run_is_refused_before_the_first_leg(tmp_path, sweep, capsys, line, says):
    """Catches a sweep that finds out on its last leg."""
    tool = "" if "tool" in line else 'tool = "iterate"\n'
    assert sweep(f"[fixed]\n{tool}{line}") == 2
    assert says in capsys.readouterr().err
    assert files(tmp_path) == {"grid.toml"}


def test_planning_and_collecting_need_no_torch(tmp_path, sweep):
    """Catches an import that makes --plan wait for torch, or --collect fail in the light install."""
    assert sweep(f"[fixed]\n{SMALL}") == 0
    program = (
        "import sys\nfor name in ('torch', 'diffusers', 'transformers'): sys.modules[name] = None\n"
        "from dltb.sweep import main\n"
        f"assert main([{str(tmp_path / 'grid.toml')!r}, '--plan', '--output-dir', {str(tmp_path / 'root')!r}]) == 0\n"
        f"assert main(['--collect', {str(tmp_path / 'root')!r}]) == 0\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_plan_says_that_it_asks_no_cluster(sweep, capsys):
    """Catches a plan whose time is taken for that of the cluster."""
    assert sweep(FOUR, "--plan", "--ray") == 0
    assert "NOTE: --plan does not ask the Ray cluster" in capsys.readouterr().out


def test_two_sweeps_in_one_root_are_refused(tmp_path, sweep, capsys):
    """Catches two tables that overwrite each other."""
    from dltb.output.run_directory import locked

    with locked(tmp_path / "root"):
        assert sweep(FOUR) == 2
    assert "another process is writing" in capsys.readouterr().err


def test_collect_rebuilds_the_table_of_a_sweep(tmp_path, sweep, monkeypatch):
    """Catches a table that holds what cannot be found on disk."""
    failing_on(monkeypatch, "fog", 99, RunError("out of memory"))
    assert sweep(FOUR) == 1
    root = tmp_path / "root"
    expected = (root / "sweep.csv").read_bytes()
    (root / "sweep.csv").unlink()
    assert main(["--collect", str(root)]) == 0
    assert (root / "sweep.csv").read_bytes() == expected


def test_collect_reads_runs_that_no_sweep_made_and_pandas_reads_the_table(tmp_path, picture):
    """Catches runs of bash sweeps that are missed, and a CSV that needs care."""
    import pandas

    clip = str(sliding_clip(tmp_path / "clip.png", picture, 3))
    small = ["--width", "64", "--height", "64"]
    root = tmp_path / "output"
    argv = ["--input", clip, *small, "--prompt", 'commas, "quotes"\nand lines']
    assert continuous.main([*argv, "--output-dir", str(root / "prompt")]) == 0
    argv = [*small, "--iterations", "3", "--metric", "pixel", "--output-dir", str(root)]
    assert distance_loop.main(argv) == 0
    (root / "foreign").mkdir()
    (root / "foreign" / "run.json").write_text("{}")
    assert main(["--collect", str(root)]) == 0
    frame = pandas.read_csv(root / "sweep.csv")
    assert list(frame["leg"]) == ["distance_s0.4", "prompt/clip_stateful-a0.3"]
    assert frame["prompt"][1] == 'commas, "quotes"\nand lines'
    assert frame["pixel_to_ref"][0] > 0
    assert frame["fixed_seed"].all()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "give a grid file or a preset's name, or --collect ROOT"),
        (["klein-ladder", "--collect", "."], "one of the two"),
        (["--collect", "/none"], "no such folder"),
        (["none.toml"], "No such file"),
        (["--collect", ".", "--output-dir", "x", "--workers", "2"], "leave out --output-dir, --workers"),
    ],
)
def test_what_is_asked_must_be_clear(argv, says, capsys):
    """Catches a guess where two things, or nothing, was asked."""
    assert main(argv) == 2
    assert says in capsys.readouterr().err


def test_collect_where_one_stands(tmp_path, sweep, monkeypatch):
    """Catches a traceback for `.`, a folder whose path has no name."""
    assert sweep(f"[fixed]\n{SMALL}") == 0
    monkeypatch.chdir(tmp_path / "root")
    assert main(["--collect", "."]) == 0
    assert column(tmp_path / "root", "leg") == ["iterate"]


def test_collect_without_runs_writes_nothing(tmp_path, capsys):
    """Catches an empty table in the wrong folder."""
    assert main(["--collect", str(tmp_path)]) == 2
    assert "no run.json" in capsys.readouterr().err
    assert files(tmp_path) == set()


def test_a_leg_of_two_runs_is_refused(tmp_path, sweep, capsys):
    """Catches a row that speaks of one run of two."""
    assert sweep(f"[fixed]\n{SMALL}") == 0
    leg = tmp_path / "root" / "iterate"
    shutil.copytree(leg / RUN, leg / "copy")
    assert sweep(f"[fixed]\n{SMALL}") == 2
    assert "holds 2 runs" in capsys.readouterr().err
    assert manifest(leg / RUN)["status"] == "complete"
