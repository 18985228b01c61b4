"""Whether a directory may be used: nothing is mixed, nothing overwritten, and the refusal says what to do."""

import json
import multiprocessing
import os

import pytest

from dltb import UsageError
from dltb.output.run_directory import SCHEMA, Decision, check_writable, decide, differences, fresh_directory, locked

SETTINGS = {"strength": 0.4, "tail_modes": ("freeze",), "device": "cpu"}


def run_in(directory, status="running", **changes):
    directory.mkdir(parents=True, exist_ok=True)
    manifest = {"schema": SCHEMA, "tool": "dltb-iterate", "status": status, "settings": SETTINGS, "dltb": "0.1.0"}
    manifest |= {"notes": [], "sessions": [], "passes": {}, **changes}
    (directory / "run.json").write_text(json.dumps(manifest))
    return directory


def wanted(directory, *, resume=False, overwrite=False, **changes):
    return decide(directory, {**SETTINGS, **changes}, resume=resume, overwrite=overwrite)


def test_new_and_empty_directories_are_free(tmp_path):
    """Catches a refusal of a directory that holds nothing; --resume starts a run that does not exist yet."""
    assert wanted(tmp_path / "none") is Decision.NEW
    assert wanted(tmp_path, resume=True) is Decision.NEW


def test_same_settings_complete_or_resumed(tmp_path):
    """Catches a finished run that is made again, and tuples that differ from JSON's lists."""
    assert wanted(run_in(tmp_path, "complete")) is Decision.COMPLETE
    assert wanted(run_in(tmp_path, "complete"), resume=True) is Decision.COMPLETE
    assert wanted(run_in(tmp_path, "interrupted"), resume=True) is Decision.RESUME
    assert wanted(run_in(tmp_path, "failed"), resume=True) is Decision.RESUME


def test_unfinished_needs_resume(tmp_path):
    """Catches an unfinished run that is silently started over."""
    with pytest.raises(UsageError, match="--resume"):
        wanted(run_in(tmp_path))


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("status", ["running", "complete"])
def test_other_settings_are_refused_by_name(tmp_path, resume, status):
    """Catches two runs mixed in one directory; the device is a setting like any other."""
    with pytest.raises(UsageError, match="device: cpu there, cuda now"):
        wanted(run_in(tmp_path, status), resume=resume, strength=0.5, device="cuda")


def test_overwrite_replaces_runs_and_nothing_else(tmp_path):
    """Catches --overwrite deleting a folder of holiday pictures."""
    assert wanted(run_in(tmp_path / "run"), overwrite=True, strength=0.9) is Decision.REPLACE
    assert wanted(run_in(tmp_path / "old", schema=0), overwrite=True) is Decision.REPLACE
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "cat.png").write_bytes(b"")
    with pytest.raises(UsageError, match=r"no run\.json"):
        wanted(tmp_path / "pictures", overwrite=True)
    run_in(tmp_path / "other", tool="webpack")
    with pytest.raises(UsageError, match=r"no run\.json of dltb"):
        wanted(tmp_path / "other", overwrite=True)
    with pytest.raises(UsageError, match="exclude each other"):
        wanted(tmp_path / "run", overwrite=True, resume=True)


def test_a_file_in_the_way_a_broken_and_an_older_manifest(tmp_path):
    """Catches tracebacks where a line belongs."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        wanted(tmp_path / "file")
    with pytest.raises(UsageError, match=r"schema 0.*finish that run with the dltb that started it"):
        wanted(run_in(tmp_path / "old", schema=0))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text('{"schema": ')
    with pytest.raises(UsageError, match="cannot be read"):
        wanted(tmp_path / "broken")


def test_replacing_leaves_nothing_of_the_old_run(tmp_path):
    """Catches old frames among new ones."""
    old = run_in(tmp_path / "run")
    (old / "frames").mkdir()
    with fresh_directory(old, Decision.REPLACE):
        assert list(old.iterdir()) == []
    assert list(tmp_path.iterdir()) == [old]


def test_a_failed_replacement_brings_the_old_run_back(tmp_path):
    """Catches --overwrite on a full disk: no new run, and the old one gone."""
    old = run_in(tmp_path / "run")
    with pytest.raises(OSError, match="full"), fresh_directory(old, Decision.REPLACE):
        raise OSError("full")
    assert list(tmp_path.iterdir()) == [old]
    assert (old / "run.json").exists()


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    """Catches a traceback for --output-dir in a file's place."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot create"), fresh_directory(tmp_path / "file" / "run", Decision.NEW):
        pass


@pytest.mark.parametrize(
    "change",
    [
        {"settings": None},
        {"status": None},
        {"notes": None},
        {"sessions": {}},
        {"passes": []},
        {"schema": "1"},
        {"tool": None},
    ],
)
def test_a_damaged_manifest_is_one_line(tmp_path, change):
    """Catches tracebacks from a run.json that somebody edited."""
    with pytest.raises(UsageError, match="move the directory away"):
        wanted(run_in(tmp_path, **change), resume=True)


def test_differences_name_settings_that_only_one_side_has():
    """Catches a new setting that an older run cannot differ in."""
    assert differences({"a": 1}, {"a": 1, "b": 2}) == ["b: not set there, 2 now"]


def test_differences_show_texts_that_nobody_sees():
    """Catches "prompt:  there, fog now", and blanks at an end that are the whole difference."""
    assert differences({"prompt": ""}, {"prompt": "fog"}) == ["prompt: '' there, fog now"]
    assert differences({"prompt": "fog "}, {"prompt": "fog"}) == ["prompt: 'fog ' there, fog now"]


def _hold(directory, ready, done):
    with locked(directory):
        ready.set()
        done.wait(20)


def test_two_processes_never_write_one_run(tmp_path):
    """Catches two terminals resuming the same run at once."""
    context = multiprocessing.get_context("fork")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path, ready, done))
    other.start()
    assert ready.wait(20)
    with pytest.raises(UsageError, match="another process"), locked(tmp_path):
        pass
    done.set()
    other.join()
    with locked(tmp_path):
        pass


def test_a_run_under_way_is_not_replaced(tmp_path):
    """Catches --overwrite pulling the directory from under another process."""
    run = run_in(tmp_path / "run")
    with locked(run), pytest.raises(UsageError, match="another process"):
        check_writable(run)
    check_writable(run)
    assert [path.name for path in tmp_path.iterdir()] == ["run"], "the lock leaves nothing behind"


def test_a_volume_without_locks_is_no_obstacle(tmp_path, monkeypatch):
    """Catches a network volume on which every run is refused for ever."""

    def unsupported(*args):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", unsupported)
    with locked(tmp_path / "run"):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_place_is_refused_before_anything_loads(tmp_path):
    """Catches a model that loads for minutes to learn that nothing can be written."""
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot write in"):
        check_writable(tmp_path / "a" / "run")
    tmp_path.chmod(0o700)


def test_a_start_that_was_killed_at_once_is_no_obstacle(tmp_path):
    """Catches a directory that nobody can use again."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".run.json.part").touch()
    (tmp_path / "run" / ".DS_Store").touch()
    assert wanted(tmp_path / "run") is Decision.NEW
