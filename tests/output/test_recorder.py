"""The run directory from the inside: order, checkpoints, and what an interrupted run leaves."""

import contextlib
import json
import threading
import time
from dataclasses import replace
from fractions import Fraction

import av
import numpy as np
import pytest
from PIL import Image

from dltb import Interrupted, RunError, assemble
from dltb.imaging.frames import read_image, write_png
from dltb.output import recorder as recorder_module
from dltb.output.recorder import Phase, RunPlan, RunRecorder
from dltb.output.run_directory import Decision
from dltb.output.segments import SegmentedVideo

MAIN, TAIL = Phase("main", 25, "processed_stateful.mp4"), Phase("free", 12, "tail_free.mp4")


def frame(number: int) -> np.ndarray:
    rng = np.random.default_rng(number)
    return rng.integers(0, 256, (32, 48, 3), dtype=np.uint8)


def plan(directory, decision=Decision.NEW) -> RunPlan:
    return RunPlan(
        "dltb-test", directory, decision, {"a": 1}, {}, (MAIN, TAIL), save_every=5, fps=Fraction(24000, 1001)
    )


def play(recorder, phase, stop_at=None):
    """Feed a phase from where it begins; raise at ``stop_at`` as a crash would."""
    point = recorder.start(phase)
    if point.finished:
        return point
    offset = 100 if phase is TAIL else 0
    for index in range(point.start + 1, phase.passes + 1):
        if index == stop_at:
            raise RunError("crash")
        recorder.record(phase, index, frame(index + offset), frame(index + 1000), {"seconds": 0.1})
    recorder.finish(phase, frame(phase.passes + offset), frame(phase.passes + 1000))
    return point


def whole_run(directory):
    with RunRecorder(plan(directory)) as recorder:
        play(recorder, MAIN)
        play(recorder, TAIL)
    return directory


def decoded(path):
    with av.open(str(path)) as container:
        return [f.to_ndarray(format="rgb24") for f in container.decode(video=0)]


def manifest(directory):
    return json.loads((directory / "run.json").read_text())


def assert_same_results(first, second):
    names = sorted(p.relative_to(first) for p in first.rglob("*.png"))
    assert names == sorted(p.relative_to(second) for p in second.rglob("*.png"))
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in names)
    for video in (MAIN.video, TAIL.video):
        assert np.array_equal(decoded(first / video), decoded(second / video))
    records = [[json.loads(line) for line in (d / "steps.jsonl").read_text().splitlines()] for d in (first, second)]
    assert records[0] == records[1]


def test_a_whole_run(tmp_path):
    """Catches missing files, a wrong stride, a video that lost frames at a segment's edge, and leftovers."""
    run = whole_run(tmp_path / "run")
    names = sorted(p.name for p in (run / "frames").iterdir())
    assert names == [*(f"frame_{n:04d}.png" for n in (5, 10, 15, 20, 25)), "free frame_0005.png", "free frame_0010.png"]
    assert np.array_equal(read_image(run / "frames" / "free frame_0010.png"), frame(110))
    assert (len(decoded(run / MAIN.video)), len(decoded(run / TAIL.video))) == (25, 12)
    assert manifest(run)["status"] == "complete"
    assert manifest(run)["passes"] == {"main": 25, "free": 12}
    assert len((run / "steps.jsonl").read_text().splitlines()) == 37
    assert not (run / "partial").exists()
    with av.open(str(run / MAIN.video)) as container:
        assert container.streams.video[0].average_rate == Fraction(24000, 1001)


@pytest.mark.parametrize(
    ("phase", "stop_at"), [(MAIN, 1), (MAIN, 9), (MAIN, 10), (MAIN, 11), (MAIN, 21), (TAIL, 1), (TAIL, 12)]
)
def test_a_run_that_stops_goes_on_exactly(tmp_path, phase, stop_at):
    """Catches a resume that repeats, skips or re-encodes: PNG bytes, decoded frames and records must be the same."""
    expected = whole_run(tmp_path / "unbroken")
    run = tmp_path / "run"
    with pytest.raises(RunError, match="crash"), RunRecorder(plan(run)) as recorder:
        play(recorder, MAIN, stop_at if phase is MAIN else None)
        play(recorder, TAIL, stop_at)
    assert manifest(run)["status"] == "failed"
    assert manifest(run)["reason"] == "crash"
    with RunRecorder(plan(run, Decision.RESUME)) as recorder:
        point = play(recorder, MAIN)
        assert point.start == (25 if phase is TAIL else (stop_at - 1) // 10 * 10)
        play(recorder, TAIL)
    assert manifest(run)["passes"] == {"main": 25, "free": 12}
    assert_same_results(expected, run)


def test_the_state_at_a_checkpoint_is_the_state(tmp_path):
    """Catches a resume from a state that went through a video codec or belongs to another pass."""
    with pytest.raises(RunError), RunRecorder(plan(tmp_path / "run")) as recorder:
        play(recorder, MAIN, 18)
    with RunRecorder(plan(tmp_path / "run", Decision.RESUME)) as recorder:
        point = recorder.start(MAIN)
    assert point.start == 10
    assert np.array_equal(point.state, frame(10))
    assert np.array_equal(point.source, frame(1010))


def test_an_interrupted_run_can_be_looked_at(tmp_path):
    """Catches an interruption that leaves no video although its passes were made."""
    with pytest.raises(RunError), RunRecorder(plan(tmp_path / "run")) as recorder:
        play(recorder, MAIN, 18)
    assert len(decoded(tmp_path / "run" / MAIN.video)) == 17


def test_a_failing_disk_stops_the_run_and_keeps_what_is_good(tmp_path, monkeypatch):
    """Catches a run that goes on without its frames, and an error about videos that hides the disk's."""
    import dltb.output.recorder as module

    def full_after_ten(path, image, **how):
        if path.parent.name == "frames" and path.name > "frame_0010.png":
            raise RunError(f"cannot write {path}: No space left on device")
        write(path, image, **how)

    write = module.write_png
    monkeypatch.setattr(module, "write_png", full_after_ten)
    with pytest.raises(RunError, match="No space left"), RunRecorder(plan(tmp_path / "run")) as recorder:
        play(recorder, MAIN)
    assert manifest(tmp_path / "run")["status"] == "failed"
    assert "No space left" in manifest(tmp_path / "run")["reason"]
    assert sorted(p.name for p in (tmp_path / "run" / "frames").iterdir()) == ["frame_0005.png", "frame_0010.png"]
    monkeypatch.setattr(module, "write_png", write)
    with RunRecorder(plan(tmp_path / "run", Decision.RESUME)) as recorder:
        assert play(recorder, MAIN).start == 10
        play(recorder, TAIL)
    assert_same_results(whole_run(tmp_path / "unbroken"), tmp_path / "run")


@pytest.mark.parametrize("fails", ["", "loop", "disk"])
def test_trackers_live_on_one_thread(tmp_path, monkeypatch, fails):
    """Catches a tracker that keeps its run by thread (mlflow) and is started on one thread and ended on another."""
    from accelerate.tracking import TensorBoardTracker

    import dltb.output.recorder as module

    threads = {}
    for name in ("start", "log", "finish"):
        method = getattr(TensorBoardTracker, name)

        def told(self, *args, name=name, method=method, **options):
            threads[name] = threading.current_thread().name
            return method(self, *args, **options)

        monkeypatch.setattr(TensorBoardTracker, name, told)
    if fails == "disk":
        monkeypatch.setattr(module.checkpoints, "save", lambda *args: 1 / 0)
    outcome = contextlib.nullcontext() if not fails else pytest.raises((RunError, ZeroDivisionError))
    with outcome, RunRecorder(replace(plan(tmp_path / "run"), log_with=["tensorboard"])) as recorder:
        play(recorder, MAIN, 18 if fails == "loop" else None)
    assert threads == dict.fromkeys(("start", "log", "finish"), "writer")


def test_a_kill_before_the_end_forgets_no_pass(tmp_path, monkeypatch):
    """Catches a manifest that counts only the passes of its last session: a SIGKILL closes nothing."""
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(RunRecorder, "_close", lambda *args: None)
        with pytest.raises(RunError), RunRecorder(plan(run)) as recorder:
            play(recorder, MAIN)
            play(recorder, TAIL, 11)
    with RunRecorder(plan(run, Decision.RESUME)) as recorder:
        assert play(recorder, MAIN).finished
        assert play(recorder, TAIL).start == 10
    assert manifest(run)["passes"] == {"main": 25, "free": 12}


def test_a_lost_state_is_an_error(tmp_path):
    """Catches a run that silently starts again from a clean input."""
    run = tmp_path / "run"
    with pytest.raises(RunError), RunRecorder(plan(run)) as recorder:
        play(recorder, MAIN, 18)
    (run / "partial" / "state_main_pass_0010.png").unlink()
    with pytest.raises(RunError, match="cannot go on"), RunRecorder(plan(run, Decision.RESUME)) as recorder:
        recorder.start(MAIN)


@pytest.mark.parametrize("lost", ["partial/processed_stateful/00000001.mp4", "frames/frame_0005.png"])
def test_a_lost_file_is_an_error_and_not_a_short_video(tmp_path, lost):
    """Catches a resume that says complete although passes are missing from its results."""
    run = tmp_path / "run"
    with pytest.raises(RunError), RunRecorder(plan(run)) as recorder:
        play(recorder, MAIN, 18)
    (run / lost).unlink()
    with pytest.raises(RunError, match="is gone"), RunRecorder(plan(run, Decision.RESUME)) as recorder:
        recorder.start(MAIN)


def test_a_lost_video_of_a_finished_phase_is_an_error(tmp_path):
    """Catches the same for a phase that is over."""
    run = tmp_path / "run"
    with pytest.raises(RunError), RunRecorder(plan(run)) as recorder:
        play(recorder, MAIN)
        play(recorder, TAIL, 11)
    (run / MAIN.video).unlink()
    with pytest.raises(RunError, match="is gone"), RunRecorder(plan(run, Decision.RESUME)) as recorder:
        recorder.start(MAIN)


def test_a_shortened_log_is_an_error(tmp_path):
    """Catches a log that is filled up with zero bytes."""
    run = tmp_path / "run"
    with pytest.raises(RunError), RunRecorder(plan(run)) as recorder:
        play(recorder, MAIN, 18)
    (run / "steps.jsonl").write_text("")
    with pytest.raises(RunError, match="shorter"), RunRecorder(plan(run, Decision.RESUME)):
        pass
    assert (run / "steps.jsonl").read_text() == ""


def test_sessions_and_notes_survive_a_resume(tmp_path):
    """Catches a manifest that forgets what was said and when."""
    with pytest.raises(RunError), RunRecorder(plan(tmp_path / "run")) as recorder:
        recorder.note("the prompt is long")
        play(recorder, MAIN, 3)
    with RunRecorder(plan(tmp_path / "run", Decision.RESUME)) as recorder:
        recorder.note("the prompt is long")
        play(recorder, MAIN)
        play(recorder, TAIL)
    assert manifest(tmp_path / "run")["notes"] == ["the prompt is long"]
    assert [bool(session["ended"]) for session in manifest(tmp_path / "run")["sessions"]] == [True, True]


def told_by(path):
    with Image.open(path) as image:
        return json.loads(image.text["dltb"]) if "dltb" in image.text else None


def comment_of(path):
    with av.open(str(path)) as container:
        return container.metadata.get("comment")


def test_outputs_say_what_made_them(tmp_path):
    """Catches a frame or video without its run and pass, an id that run.json does not have, and metadata in the pixels."""
    told = replace(plan(tmp_path / "told"), settings={"model": "tiny-turbo", "prompt": "öl", "seed": 7})
    silent = replace(told, directory=tmp_path / "silent", metadata=False)
    for each in (told, silent):
        with RunRecorder(each) as recorder:
            recorder.save_image("end_state.png", frame(1))
            for phase in (MAIN, TAIL):
                play(recorder, phase)
    own = {"run": manifest(told.directory)["id"], "tool": "dltb-test", "model": "tiny-turbo", "prompt": "öl"}
    assert told_by(told.directory / "frames/free frame_0010.png") == own | {"phase": "free", "pass": 10, "seed": None}
    assert told_by(told.directory / "end_state.png") == own | {"seed": 7}
    assert json.loads(comment_of(told.directory / "tail_free.mp4")) == own | {"seed": 7, "phase": "free"}
    assert told_by(silent.directory / "frames/frame_0005.png") is None
    assert comment_of(silent.directory / "processed_stateful.mp4") is None
    assert_same_pixels(told.directory, silent.directory)
    assert assemble.main([str(told.directory)]) == assemble.main([str(silent.directory)]) == 0
    assert json.loads(comment_of(told.directory / "assembled_tail_free.mp4")) == own | {"phase": "free"}
    assert comment_of(silent.directory / "assembled.mp4") is None


def assert_same_pixels(first, second):
    names = sorted(p.relative_to(first) for p in first.rglob("*.png"))
    assert names
    for name in names:
        assert np.array_equal(read_image(first / name), read_image(second / name)), name
    for name in ("processed_stateful.mp4", "tail_free.mp4"):
        assert np.array_equal(decoded(first / name), decoded(second / name))


@pytest.mark.parametrize("every", [4, 7, 10])
def test_a_preview_grows_with_the_run(tmp_path, every):
    """Catches a preview that comes at the end only, or that has passes twice after a resume."""
    watched = replace(plan(tmp_path / "run"), preview_every=every)
    with pytest.raises(RunError, match="crash"), RunRecorder(watched) as recorder:
        play(recorder, MAIN, stop_at=19)
    assert len(decoded(tmp_path / "run" / "preview.mp4")) == 18
    with RunRecorder(replace(watched, decision=Decision.RESUME)) as recorder:
        play(recorder, MAIN)
        play(recorder, TAIL)
    assert len(decoded(tmp_path / "run" / "preview.mp4")) == 25
    assert len(decoded(tmp_path / "run" / "preview_free.mp4")) == 12
    assert not (tmp_path / "run" / "partial").exists()


def test_a_preview_is_there_while_the_run_goes_on(tmp_path):
    """Catches a preview that nobody sees before the run is over."""
    with RunRecorder(replace(plan(tmp_path / "run"), preview_every=3)) as recorder:
        recorder.start(MAIN)
        for index in range(1, 8):
            recorder.record(MAIN, index, frame(index), None, {"seconds": 0.1})
        done = threading.Event()
        recorder._writer.submit(done.set)
        assert done.wait(10)
        assert len(decoded(tmp_path / "run" / "preview.mp4")) == 6


def test_a_pass_is_logged_when_its_png_is_there(tmp_path, monkeypatch):
    """Catches a log line without its frame after a kill, lines out of order, and a checkpoint that runs ahead of a PNG."""
    run, hold, go, filmed = tmp_path / "run", threading.Event(), threading.Event(), threading.Event()

    def held(path, picture, **named):
        if path.name == "frame_0005.png":
            hold.wait(10)
        write_png(path, picture, **named)

    monkeypatch.setattr(recorder_module, "write_png", held)
    with RunRecorder(plan(run)) as recorder:
        recorder.start(MAIN)
        recorder._writer.submit(go.wait)  # while the queue is empty, the writer waits for every PNG
        for index in range(1, 8):
            recorder.record(MAIN, index, frame(index), frame(index), {"seconds": 0.1})
        recorder._writer.submit(filmed.set)
        go.set()
        assert filmed.wait(10)
        assert len((run / "steps.jsonl").read_text().splitlines()) == 4
        hold.set()
    numbers = [json.loads(line)["pass"] for line in (run / "steps.jsonl").read_text().splitlines()]
    assert numbers == [1, 2, 3, 4, 5, 6, 7]


def test_a_second_signal_while_the_rest_is_written_is_told_in_the_manifest(tmp_path):
    """Catches a run.json that says "running" for ever, and a video that is never joined."""
    with pytest.raises(Interrupted, match="first"), RunRecorder(plan(tmp_path / "run")) as recorder:
        recorder.start(MAIN)
        for index in range(1, 8):
            recorder.record(MAIN, index, frame(index), frame(index), {"seconds": 0.1})
        drain, calls = recorder._writer.drain, []

        def interrupted():
            calls.append(1)
            if len(calls) == 1:
                raise Interrupted(2, "second")
            return drain()

        recorder._writer.drain = interrupted
        raise Interrupted(2, "first")
    told = manifest(tmp_path / "run")
    assert told["status"] == "interrupted"
    assert told["passes"]["main"] == 7


def test_a_png_that_cannot_be_written_ends_the_log(tmp_path, monkeypatch):
    """Catches a pass that counts, and a checkpoint after it, although its frame is not on disk."""

    def full(path, picture, **named):
        if path.name == "frame_0010.png":
            raise RunError("cannot write frame_0010.png: disk full")
        write_png(path, picture, **named)

    monkeypatch.setattr(recorder_module, "write_png", full)
    with pytest.raises(RunError, match="disk full"), RunRecorder(plan(tmp_path / "run")) as recorder:
        play(recorder, MAIN)
    assert manifest(tmp_path / "run")["passes"]["main"] == 9
    assert not (tmp_path / "run" / "partial" / "checkpoint.json").exists()


def test_a_failing_video_leaves_no_frame_without_its_line(tmp_path, monkeypatch):
    """Catches a log and a run.json that stop before frames that are there, and that a thread writes after run.json."""
    run, go, write = tmp_path / "run", threading.Event(), SegmentedVideo.write

    def full(video, index, picture):
        if index == 4:
            raise RunError("cannot write the video: disk full")
        write(video, index, picture)

    def slow(path, picture, **named):
        time.sleep(0.1)
        write_png(path, picture, **named)

    monkeypatch.setattr(SegmentedVideo, "write", full)
    monkeypatch.setattr(recorder_module, "write_png", slow)
    with (
        pytest.raises(RunError, match="disk full"),
        RunRecorder(replace(plan(run), save_every=1)) as recorder,
    ):
        recorder._writer.submit(go.wait)
        recorder.start(MAIN)
        for index in range(1, 6):
            recorder.record(MAIN, index, frame(index), None, {"seconds": 0.1})
        go.set()
    assert sorted(path.name for path in (run / "frames").iterdir()) == [f"frame_000{n}.png" for n in (1, 2, 3)]
    assert [json.loads(line)["pass"] for line in (run / "steps.jsonl").read_text().splitlines()] == [1, 2, 3]
    assert manifest(run)["passes"]["main"] == 3
    assert manifest(run)["status"] == "failed"


def test_a_measure_that_fails_costs_no_frame(tmp_path):
    """Catches a PNG that is never written because something about it could not be worked out."""

    def broken():
        raise RunError("cannot measure")

    run = tmp_path / "run"
    with pytest.raises(RunError, match="cannot measure"), RunRecorder(replace(plan(run), save_every=1)) as recorder:
        recorder.start(MAIN)
        recorder.record(MAIN, 1, frame(1), None, {"seconds": 0.1}, broken)
    assert np.array_equal(read_image(run / "frames" / "frame_0001.png"), frame(1))


def test_what_is_worked_out_later_is_logged_in_its_place(tmp_path):
    """Catches numbers beside the wrong pass, and work on the loop's own thread."""
    with RunRecorder(plan(tmp_path / "run")) as recorder:
        recorder.start(MAIN)
        for index in range(1, 8):

            def later(index=index):
                return {"mad": index, "thread": threading.current_thread().name}

            recorder.record(MAIN, index, frame(index), None, {"seconds": 0.1}, later)
    records = [json.loads(line) for line in (tmp_path / "run" / "steps.jsonl").read_text().splitlines()]
    assert [(record["pass"], record["mad"]) for record in records] == [(n, n) for n in range(1, 8)]
    assert {record["thread"] for record in records} == {"writer"}
