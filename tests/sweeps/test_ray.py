"""Legs on a Ray cluster: the bytes of one process, a lost worker, and machines that do not share the sweep's directory."""

import os
import shutil
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from dltb import Interrupted, RunError
from dltb.runs.inputs import describe_input
from dltb.sweep import main
from dltb.sweeps.executors import LaneLost
from dltb.sweeps.grid import read_grid
from dltb.sweeps.root import pack_leg, replace_leg, take_leg
from dltb.sweeps.work import Task
from tests.clips import assert_same_run, manifest
from tests.sweeps.same import assert_same_sweep, passes, wait_for

ray = pytest.importorskip("ray")
from dltb.sweeps.ray_lanes import Input, RayLane, Worker  # noqa: E402 - imports ray

GRID = """
[fixed]
tool = "dltb-iterate"
width = 64
height = 64
[[leg]]
name = "first"
iterations = 30
[[leg]]
name = "second"
iterations = 12
prompt = "fog"
[[leg]]
name = "third"
iterations = 4
strength = 0.6
"""


@pytest.fixture
def grid(tmp_path) -> Path:
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    return path


@pytest.fixture
def cluster(monkeypatch):
    """Two nodes of one CPU each."""
    from ray.cluster_utils import Cluster

    handler = signal.getsignal(signal.SIGTERM)  # a node in this process sets its own, for good
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    yield made
    ray.shutdown()
    made.shutdown()
    signal.signal(signal.SIGTERM, handler)


def workers_called(name: str) -> list[int]:
    """Processes of Ray that carry out a task of this name, as its dashboard would show it."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            title = (path / "cmdline").read_bytes().rstrip(b"\0 ").decode()
        except (OSError, UnicodeDecodeError):
            continue
        found += [int(path.name)] if title == f"ray::{name}" else []
    return found


@pytest.mark.usefixtures("shared_models")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the workers in /proc")
def test_a_lost_worker_on_two_nodes_ends_in_the_bytes_of_one_process(tmp_path, grid, cluster):
    """Catches legs that are lost with their worker, that have no name, or that round otherwise on a cluster."""
    assert main([str(grid), "--output-dir", str(tmp_path / "alone")]) == 0
    root, killed = tmp_path / "ray", []

    def kill() -> None:
        wait_for(lambda: passes(root / "first" / "test_512_free-running" / "steps.jsonl") >= 12)
        killed.extend(workers_called("first"))
        for pid in killed:
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    code = main([str(grid), "--output-dir", str(root), "--ray", cluster.address])
    killer.join()
    assert code == 0
    assert len(killed) == 1
    assert len(manifest(root / "first" / "test_512_free-running")["sessions"]) == 2, "it went on from its frames"
    assert (root / "first" / "leg.log").read_text().count("output: ") == 2
    assert_same_sweep(tmp_path / "alone", root)


@pytest.mark.usefixtures("shared_models")
def test_machines_that_share_nothing_send_their_legs_back(tmp_path, grid, monkeypatch):
    """Catches legs whose files stay on another machine, inputs that are not there, and old files among the new."""
    grid.write_text(GRID.replace("iterations = 30", "iterations = 3").replace("iterations = 12", "iterations = 2"))
    assert main([str(grid), "--output-dir", str(tmp_path / "alone")]) == 0
    picture = Path("input_example/test_512.png").read_bytes()
    monkeypatch.setattr(ray, "get", lambda reference: {"the bytes": picture}[reference])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    away, root = tmp_path / "driver's" / "test_512.png", tmp_path / "root"
    shutil.copytree(tmp_path / "alone", root)
    found = read_grid(str(grid))
    worker = Worker()
    for leg in found.legs:
        (root / leg.name / "old.txt").write_text("of a try before")
        task = Task(leg, root, found.measure, threads=1)
        outcome, files = worker.carry_out(task, "a mark", Input(away, "digest", ("the bytes",)))
        assert outcome.error is None
        replace_leg(root, leg.name, files)
        assert not (root / leg.name / "old.txt").exists()
    assert main(["--collect", str(root)]) == 0
    assert_same_sweep(tmp_path / "alone", root)


@pytest.mark.usefixtures("shared_models")
def test_what_the_driver_has_of_a_leg_goes_along(tmp_path, grid, monkeypatch):
    """Catches finished passes that are made again, or lost, on machines that share nothing; and files that stay there."""
    import dltb.runs.still as module

    assert main([str(grid), "--output-dir", str(tmp_path / "alone")]) == 0
    picture, found, root = Path("input_example/test_512.png").resolve(), read_grid(str(grid)), tmp_path / "root"
    source = Input(picture, describe_input(picture)["input sha256"], ("unused",))
    monkeypatch.setattr(ray, "get", lambda reference: reference)
    (tmp_path / "away").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "away"))
    task, worker, play = Task(found.legs[0], root, found.measure, threads=1), Worker(), module._play

    def broken(session, phase, original):
        def few(images, index):
            if index == 15:
                raise RunError("out of memory")
            return generate(images, index)

        generate = session.generate
        object.__setattr__(session, "generate", few)
        play(session, phase, original)

    with monkeypatch.context() as patch:
        patch.setattr(module, "_play", broken)
        outcome, files = worker.carry_out(task, "a mark", source)
    assert outcome.error == "out of memory"
    root.mkdir()
    take_leg(root, "first", files, is_complete=False)
    assert passes(root / "first" / "test_512_free-running" / "steps.jsonl") == 14
    outcome, files = worker.carry_out(task, "a mark", source, (pack_leg(root / "first"),))
    take_leg(root, "first", files, is_complete=outcome.error is None)
    assert len(manifest(root / "first" / "test_512_free-running")["sessions"]) == 2
    assert_same_run(tmp_path / "alone" / "first" / "test_512_free-running", root / "first" / "test_512_free-running")
    assert [path for path in (tmp_path / "away").rglob("*") if path.is_file()] == []
    worker.leave()
    assert list((tmp_path / "away").iterdir()) == []


def lane_whose_actor(raises, monkeypatch, root):
    def get(reference):
        raise raises

    actor = SimpleNamespace(carry_out=SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda *_: None)))
    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(ray, "put", lambda value: value)
    return RayLane(actor, root, "a mark", {})


def test_an_error_of_ours_in_an_actor_is_the_legs_failure(tmp_path, grid, monkeypatch):
    """Catches an exception, such as a full disk, that is taken for a lost machine, and a machine that is taken for one."""
    task = Task(read_grid(str(grid)).legs[0], tmp_path, (), threads=1)

    def of_an_actor(cause):
        return ray.exceptions.RayTaskError("carry_out", "a traceback", cause).as_instanceof_cause()

    outcome = lane_whose_actor(of_an_actor(OSError("no space left")), monkeypatch, tmp_path).carry_out(task)
    assert (outcome.error, outcome.again) == ("OSError: no space left", True)
    for lost in (of_an_actor(Interrupted(15, "SIGTERM")), ray.exceptions.RayActorError()):
        with pytest.raises(LaneLost, match="its Ray worker was lost"):
            lane_whose_actor(lost, monkeypatch, tmp_path).carry_out(task)


def test_half_an_input_is_not_taken_for_the_whole(tmp_path, monkeypatch):
    """Catches a leg that is made from the half of a file that an interrupted copy left."""
    source = Input(tmp_path / "driver's" / "clip.png", "digest", ("reference",))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    worker, whole = Worker(), b"whole"
    write = Path.write_bytes

    def torn(path, content):
        write(path, content[:2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ray, "get", lambda _: whole)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", torn)
        with pytest.raises(RunError, match="No space left"):
            worker._place(source)
    assert worker._place(source).read_bytes() == whole


def test_an_address_without_a_cluster(tmp_path, grid, capsys):
    """Catches a sweep that tries for ever, and a traceback of Ray's."""
    assert main([str(grid), "--output-dir", str(tmp_path / "root"), "--ray", "127.0.0.1:1"]) == 2
    assert "--ray 127.0.0.1:1: nobody listens there" in capsys.readouterr().err
