"""Motion vectors, schedules and history through the tool: what a run says, keeps, and resumes to."""

import json

import numpy as np
import pytest

from dltb import continuous, klein, report
from dltb.imaging.frames import read_image
from tests.clips import assert_same_run, manifest, sliding_clip, write_clip

pytestmark = pytest.mark.usefixtures("shared_models")
SMALL = ["--width", "64", "--height", "64", "--save-every", "1"]
FRAMES, STEP = 23, 2
CHAINS = ["--history", "residual,realign,reject,confidence", "--history-input", "residual,clip", "--no-fixed-seed"]


@pytest.fixture
def clip(tmp_path, picture):
    return sliding_clip(tmp_path / "clip.png", picture, FRAMES, STEP)


@pytest.fixture
def vectors(tmp_path):
    """The exact motion of the clip, whose window slides right: what is at p was at p + 2 px."""
    folder = tmp_path / "mv"
    folder.mkdir()
    for number in range(FRAMES):
        mv = np.broadcast_to(np.float32((STEP, 0)), (64, 64, 2))
        seen = np.ones((64, 64), bool)
        seen[:, -STEP:] = False
        np.savez(folder / f"mv_{number:03d}.npz", mv=mv, visible=seen)
    return folder


def steps(run):
    return [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]


def test_exact_vectors_explain_the_clip(tmp_path, clip, vectors):
    """Catches vectors that do not reach the warp: whole pixels explain a sliding window but for its new edge."""
    argv = ["--input", str(clip), "--max-frames", "6", "--output-dir", str(tmp_path), *SMALL]
    assert continuous.main([*argv, "--motion-vectors", str(vectors), "--mask", "visibility", str(vectors)]) == 0
    run = tmp_path / "clip_stateful-a0.3-mv-vismask"
    assert all(line["motion_px"] == STEP and line["warp_error"] < 0.1 for line in steps(run)[1:])
    assert all(line["mask_share"] == pytest.approx(3 / 64, abs=1e-4) for line in steps(run)[1:])
    assert manifest(run)["settings"]["mv_direction"] == "to-previous"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--mv-direction", "from-previous"], "with the sign flipped; try --mv-direction to-previous"),
        (["--mv-scale", "-1"], "with the sign flipped; try --mv-direction from-previous"),
        (["--mv-units", "uv"], "read as px; try --mv-units px"),
        (["--mv-units", "ndc"], "read as px; try --mv-units px"),
        (["--mv-scale", "0.015625"], "read as uv; try --mv-units uv"),
        (["--mv-scale", "0.03125"], "read as ndc; try --mv-units ndc"),
        (
            ["--mv-scale", "-0.015625"],
            "read as uv with the sign flipped; try --mv-units uv --mv-direction from-previous",
        ),
        (["--mv-scale", "0"], "along an estimated flow (--no-mv-check"),
    ],
)
def test_vectors_that_harm_stop_before_anything_is_written(tmp_path, clip, vectors, argv, says, capsys):
    """Catches an hour of a loop along vectors of the wrong sign or unit; the line says which flag mends it."""
    common = ["--input", str(clip), "--max-frames", "3", "--motion-vectors", str(vectors), *SMALL]
    assert continuous.main([*common, *argv, "--output-dir", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert says in error
    assert not (tmp_path / "out").exists()
    if "flipped" in says:
        assert continuous.main([*common, *argv, "--no-mv-check", "--output-dir", str(tmp_path / "out")]) == 0


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--flow", "raft"], "raft needs"),
        (["--mv-scale", "2"], "--mv-scale says how to read --motion-vectors"),
        (["--motion-vectors", "{mv}", "--flow", "dis"], "give one of the two"),
        (["--motion-vectors", "{mv}", "--reproject-mask"], "use --mask visibility"),
        (["--motion-vectors", "{none}"], "no such folder"),
        (["--mask", "depth", "{mv}"], "--mask depth: known: visibility DIR"),
        (["--motion-vectors", "{mv}", "--history", "roundtrip"], "which --motion-vectors has not; take reject"),
        (["--reproject-mask", "--history-input", "clip"], "take roundtrip in the mask's place"),
        (["--history-alpha", "0.2"], "--history-alpha belongs to --history"),
        (["--history", "residual", "--no-reproject"], "use --flow none"),
        (["--history-input", "clip", "--mode", "anchored"], "--mode anchored shows the model none"),
        (["--history", "residual,clamped"], "unknown history method 'clamped'; known: residual, realign"),
        (["--strength-schedule", ""], "'' is not a number; the form is PASS:VALUE,..., such as 0:0.3,60:0.6"),
        (["--strength-schedule", "0:abc,9:1"], "the form is PASS:VALUE,..., such as 0:0.3,60:0.6"),
        (["--strength-schedule", "0:0.5,9:0.1"], "goes down to 0.1: 4 steps x 0.1 run no step; at least 0.25"),
        (["--blend-schedule", "0:0.5,9:2"], "out of range"),
        (["--blend-schedule", "0:0.5", "--anchor-blend", "0.2"], "--anchor-blend and --blend-schedule both say"),
        (["--seed-schedule", "random", "--no-fixed-seed"], "--fixed-seed and --seed-schedule both say"),
        (["--seed-schedule", "0:never"], "unknown seed policy"),
        (["--seed-schedule", "random", "--profile", "fast"], "--profile fast prepares one kind of pass"),
    ],
)
def test_wrong_requests_change_nothing(tmp_path, clip, vectors, argv, says, capsys, monkeypatch):
    """Catches options that contradict each other and are carried out all the same."""
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path))
    filled = [word.format(mv=vectors, none=tmp_path / "none") for word in argv]
    try:
        code = continuous.main(["--input", str(clip), *filled, *SMALL, "--output-dir", str(tmp_path / "out")])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert says in error
    assert not (tmp_path / "out").exists()


def interrupted_and_resumed(tmp_path, monkeypatch, tool, argv, at):
    """The run directories of an unbroken run and of one that was stopped in pass ``at`` and resumed."""
    import signal

    import dltb.runs.model as model

    load = model.load_model

    def interrupting(choice, note):
        generate, count = load(choice, note), [0]

        class Counted:
            def __call__(self, images, index):
                count[0] += 1
                if count[0] == at:
                    signal.raise_signal(signal.SIGINT)
                return generate(images, index)

            def __getattr__(self, name):
                return getattr(generate, name)

        return Counted()

    assert tool.main([*argv, "--output-dir", str(tmp_path / "unbroken")]) == 0
    with monkeypatch.context() as patch:
        patch.setattr("dltb.runs.video.load_model", interrupting)
        assert tool.main([*argv, "--output-dir", str(tmp_path / "broken")]) == 130
    assert tool.main([*argv, "--output-dir", str(tmp_path / "broken"), "--resume"]) == 0
    (unbroken,), (broken,) = ((tmp_path / name).iterdir() for name in ("unbroken", "broken"))
    return unbroken, broken


SCHEDULES = ["--strength-schedule", "0:0.3,20:0.8", "--blend-schedule", "1:0.1,23:0.9"]
SCHEDULES += [
    "--prompt-schedule",
    "0:stone|8:moss, wet|15:snow",
    "--seed-schedule",
    "0:increment|12:list:5,6|18:random",
]


@pytest.mark.parametrize(
    ("tool", "extra"),
    [
        (continuous, CHAINS),
        (continuous, [*CHAINS, "--reanchor-every", "7", "--motion-vectors", "{mv}", "--mask", "visibility", "{mv}"]),
        (klein, ["--model", "tiny-klein", "--conditioning", "dual-ref", *CHAINS]),
        (continuous, [*SCHEDULES, "--tail-frames", "3", "--tail-modes", "freeze,free"]),
        (continuous, ["--mode", "anchored", "--history", "residual,roundtrip,confidence", "--flow", "dis"]),
    ],
)
def test_a_resume_equals_the_unbroken_run(tmp_path, clip, vectors, monkeypatch, tool, extra):
    """Catches memory that is lost at a checkpoint, and schedules that start anew with the session."""
    filled = [word.format(mv=vectors) for word in extra]
    argv = ["--input", str(clip), *filled, *SMALL]
    unbroken, broken = interrupted_and_resumed(tmp_path, monkeypatch, tool, argv, at=17)
    assert_same_run(unbroken, broken)
    timed = ("seconds", "input_history_seconds", "output_history_seconds")
    logs = [[{k: v for k, v in line.items() if k not in timed} for line in steps(run)] for run in (unbroken, broken)]
    assert logs[0] == logs[1]


def test_memory_that_is_gone_stops_a_resume(tmp_path, clip, monkeypatch, capsys):
    """Catches a resume that goes on without its history and says nothing."""
    argv = ["--input", str(clip), "--history", "residual", *SMALL, "--output-dir", str(tmp_path / "out")]
    import dltb.runs.model as model

    inner = model.load_model

    def failing(choice, note):
        generate = inner(choice, note)

        def made(images, index):
            if index == 15:
                raise KeyboardInterrupt
            return generate(images, index)

        return made

    with monkeypatch.context() as patch:
        patch.setattr("dltb.runs.video.load_model", failing)
        assert continuous.main(argv) == 130
    (memory,) = (tmp_path / "out").glob("*/partial/memory_main_pass_0010.npz")
    memory.write_bytes(b"")
    assert continuous.main([*argv, "--resume"]) == 1
    assert "memory_main_pass_0010.npz cannot be read" in capsys.readouterr().err


def test_methods_of_flow_share_a_cache_and_no_flow(tmp_path, clip):
    """Catches a run that reads the flow of another method from the cache."""
    argv = ["--input", str(clip), "--max-frames", "3", *SMALL, "--flow-cache", str(tmp_path / "flows")]
    for files, method in ((2, "farneback"), (4, "dis"), (4, "dis"), (6, "none")):
        assert continuous.main([*argv, "--flow", method, "--output-dir", str(tmp_path / method), "--overwrite"]) == 0
        assert len(list((tmp_path / "flows").iterdir())) == files


def test_schedules_reach_the_passes(tmp_path, clip):
    """Catches a schedule that is read and not used: seeds, strength and tails as the key frames say."""
    argv = ["--input", str(clip), "--max-frames", "8", "--tail-frames", "2", *SMALL, "--output-dir", str(tmp_path)]
    argv += ["--seed-schedule", "0:fixed|3:list:5,6|6:increment", "--strength-schedule", "4:0.25,5:1", "--seed", "50"]
    assert continuous.main(argv) == 0
    lines = steps(tmp_path / "clip_stateful-a0.3_tailsfreeze2")
    assert [line["seed"] for line in lines] == [50, 50, 5, 6, 5, 56, 57, 58, 51, 52]
    assert [line["steps_run"] for line in lines] == [1, 1, 1, 1, 4, 4, 4, 4, 4, 4]


def test_schedules_run_as_prepared_as_any_run(tmp_path, clip, tiny_turbo, monkeypatch):
    """Catches a prompt that is encoded on every pass, and run.json without a word about how the passes were made."""
    encoded, encode = [], tiny_turbo.pipe.encode_prompt
    monkeypatch.setattr(
        tiny_turbo.pipe,
        "encode_prompt",
        lambda prompt, *args, **how: encoded.append(prompt) or encode(prompt, *args, **how),
    )
    argv = ["--input", str(clip), "--max-frames", "6", "--tail-frames", "2", *SMALL, "--output-dir", str(tmp_path)]
    argv += ["--strength-schedule", "1:0.3,6:1", "--prompt-schedule", "0:stone|4:moss", "--seed-schedule", "increment"]
    assert continuous.main(argv) == 0
    assert encoded == ["stone", "moss"]
    said = manifest(tmp_path / "clip_stateful-a0.3_tailsfreeze2")["profile"]
    assert (said["name"], said["call"], said["steps_run"]) == ("exact", "direct", 4)


def test_a_blend_schedule_ends_in_a_pure_frame(tmp_path, clip):
    """Catches the blend of the wrong pass: with the whole share on the frame a pass equals the anchored one."""
    common = ["--input", str(clip), "--max-frames", "4", *SMALL, "--output-dir", str(tmp_path)]
    assert continuous.main([*common, "--blend-schedule", "2:0.3,3:1"]) == 0
    assert continuous.main([*common, "--mode", "anchored"]) == 0
    assert continuous.main(common) == 0
    moving = tmp_path / "clip_stateful-a0.3@2_1@3"
    for number, other in ((2, "clip_stateful-a0.3"), (3, "clip_anchored"), (4, "clip_anchored")):
        name = f"frames/frame_{number:04d}.png"
        assert np.array_equal(read_image(moving / name), read_image(tmp_path / other / name)), number


def test_options_without_effect_are_said(tmp_path, clip, vectors, capsys):
    """Catches vectors that were exported for nothing, and a run that would be another one for them."""
    common = ["--input", str(clip), "--max-frames", "2", *SMALL, "--output-dir", str(tmp_path), "--mode", "anchored"]
    assert continuous.main([*common, "--motion-vectors", str(vectors)]) == 0
    assert "--motion-vectors has no effect: no state is moved" in capsys.readouterr().err
    assert continuous.main(common) == 0
    assert "complete already" in capsys.readouterr().out


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30, 1e6])
def test_broken_vectors_are_refused_by_name(tmp_path, clip, value, capsys):
    """Catches a run whose state never moves because every vector of the export is broken."""
    (tmp_path / "mv").mkdir()
    for number in range(FRAMES):
        np.save(tmp_path / f"mv/mv_{number:03d}.npy", np.full((64, 64, 2), value, np.float32))
    argv = ["--input", str(clip), "--motion-vectors", str(tmp_path / "mv"), *SMALL]
    assert continuous.main([*argv, "--output-dir", str(tmp_path / "out")]) == 2
    assert "mv_001.npy has " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("noise", [0, 12])
def test_a_clip_that_does_not_move_passes_the_check(tmp_path, picture, noise):
    """Catches a check that asks zero vectors to explain a still clip, or the grain of one."""
    grain = np.random.default_rng(0).integers(-noise, noise + 1, (3, 64, 64, 3))
    grain[:, 0, 0] = np.arange(3)[:, None] - 1  # frames that are quite alike would be stored as one
    frames = np.clip(picture[:64, :64] + grain, 0, 255).astype(np.uint8)
    clip = write_clip(tmp_path / "clip.png", list(frames))
    (tmp_path / "mv").mkdir()
    for number in range(len(frames)):
        np.save(tmp_path / f"mv/mv_{number}.npy", np.zeros((64, 64, 2), np.float32))
    argv = ["--input", str(clip), "--motion-vectors", str(tmp_path / "mv"), *SMALL]
    assert continuous.main([*argv, "--output-dir", str(tmp_path / "out")]) == 0


def test_only_the_files_that_are_played_must_be_there(tmp_path, clip, vectors):
    """Catches a short try that waits for the export of the whole clip."""
    for number in range(8, FRAMES):
        (vectors / f"mv_{number:03d}.npz").unlink()
    argv = ["--input", str(clip), "--motion-vectors", str(vectors), *SMALL, "--output-dir", str(tmp_path / "out")]
    assert continuous.main([*argv, "--max-frames", "3"]) == 0
    assert continuous.main([*argv, "--max-frames", "10"]) == 2


@pytest.mark.parametrize(
    ("tool", "extra", "says"),
    [
        (klein, ["--model", "tiny-klein", "--conditioning", "dual-ref"], "under dual-ref"),
        (continuous, ["--mode", "anchored"], "under --mode anchored without tails"),
    ],
)
def test_a_blend_schedule_that_blends_nothing_is_said(tmp_path, clip, tool, extra, says, capsys):
    """Catches a schedule that is announced, makes another run, and reaches no pass."""
    common = ["--input", str(clip), "--max-frames", "2", *SMALL, *extra, "--output-dir", str(tmp_path / "out")]
    assert tool.main([*common, "--blend-schedule", "0:0.3,2:0.6"]) == 0
    out, err = capsys.readouterr()
    assert f"--blend-schedule has no effect {says}" in err
    assert " blend_schedule" not in out
    assert tool.main(common) == 0
    assert "complete already" in capsys.readouterr().out


def test_key_frames_after_the_clip_are_said(tmp_path, clip, capsys):
    """Catches a schedule for a longer clip whose end nobody sees; the last pass itself is reached."""
    argv = ["--input", str(clip), "--max-frames", "2", *SMALL, "--output-dir", str(tmp_path)]
    assert continuous.main([*argv, "--strength-schedule", "0:0.3,60:0.6", "--seed-schedule", "0:fixed|2:random"]) == 0
    error = capsys.readouterr().err
    assert "--strength-schedule goes on to pass 60, and the main loop has 2" in error
    assert "--seed-schedule" not in error


def test_without_history_nothing_changes(tmp_path, clip):
    """Catches defaults that leak into the reference loop: the same settings, name and log as ever."""
    argv = ["--input", str(clip), "--max-frames", "3", *SMALL, "--output-dir", str(tmp_path)]
    assert continuous.main(argv) == 0
    run = tmp_path / "clip_stateful-a0.3"
    assert not any("history" in name or name.startswith("mv_") for name in manifest(run)["settings"])
    assert not any(name.startswith(("input_", "output_")) for line in steps(run) for name in line)


@pytest.mark.parametrize("argv", [[], ["--reproject-mask"], CHAINS])
def test_where_a_frame_fetches_is_worked_out_once(tmp_path, clip, monkeypatch, argv):
    """Catches the warp, the mask, the evidence and the measures each working out the same map again."""
    from dltb.imaging import flow as module

    worked_out, original = [], module.fetch_map
    monkeypatch.setattr(module, "fetch_map", lambda flow: worked_out.append(1) or original(flow))
    argv = ["--input", str(clip), "--max-frames", "4", *SMALL, "--output-dir", str(tmp_path), *argv]
    assert continuous.main(argv) == 0
    assert len(worked_out) == 3  # pairs of frames


def test_the_log_says_how_steady_the_run_is(tmp_path, clip, vectors):
    """Catches measures of another frame than the one that is written, or against another source."""
    from dltb.imaging.mask import outside_frame
    from dltb.imaging.video import read_video
    from dltb.metrics.temporal import flicker, warping_error

    argv = ["--input", str(clip), "--max-frames", "4", *SMALL, "--output-dir", str(tmp_path), *CHAINS]
    assert continuous.main([*argv, "--motion-vectors", str(vectors)]) == 0
    (run,) = tmp_path.glob("clip_*-mv-*")
    frames = [read_image(path) for path in sorted((run / "frames").iterdir())]
    sources, flow = list(read_video(clip)), np.broadcast_to(np.float32((-STEP, 0)), (64, 64, 2))
    lines = steps(run)
    assert "flicker" not in lines[0]
    for n in (1, 2, 3):
        assert lines[n]["mad"] == pytest.approx(np.abs(frames[n].astype(int) - sources[n]).mean(), abs=1e-4)
        wanted = flicker(frames[n], frames[n - 1], sources[n], sources[n - 1])
        assert lines[n]["flicker"] == pytest.approx(wanted, abs=1e-4)
        error = warping_error(frames[n], frames[n - 1], flow, outside_frame(flow))
        assert lines[n]["warping_error"] == pytest.approx(error, abs=1e-4)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--motion-vectors", "{mv}"], "its motion came from a renderer&#39;s files"),
        (["--history-input", "clip"], "its state was rectified by the passes before"),
        (["--blend-schedule", "0:0.2,4:0.5"], "its blend changed from pass to pass"),
    ],
)
def test_reports_make_no_other_inputs_up(tmp_path, clip, vectors, argv, says):
    """Catches a report that shows Farneback's motion, or the plain blend, of a run that used neither."""
    filled = [word.format(mv=vectors) for word in argv]
    assert (
        continuous.main(["--input", str(clip), "--max-frames", "3", *SMALL, "--output-dir", str(tmp_path), *filled])
        == 0
    )
    (run,) = (path.parent for path in tmp_path.glob("clip_*/run.json"))
    assert report.main([str(run)]) == 0
    assert says.replace("&#39;", "'") in (run / "report.html").read_text().replace("&#39;", "'").replace("\\u0027", "'")


def test_history_is_a_setting(tmp_path, clip, capsys):
    """Catches "complete already" for a run with other numbers under the same name."""
    argv = ["--input", str(clip), "--max-frames", "2", *SMALL, "--output-dir", str(tmp_path), "--history", "residual"]
    assert continuous.main(argv) == 0
    assert continuous.main([*argv, "--history-alpha", "0.2"]) == 2
    assert "history_alpha: 0.1 there, 0.2 now" in capsys.readouterr().err
