"""Watching runs cheaply, and never outside the root."""

import json
import os
import shutil

import pytest

from dltb.pages import shelf as module
from dltb.pages.shelf import Shelf


def line(number):
    return json.dumps({"phase": "main", "pass": number, "seconds": number / 1000}) + "\n"


@pytest.fixture
def log(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text(json.dumps({"tool": "dltb-iterate", "status": "complete"}))
    return run / "steps.jsonl"


def follow(shelf, log, page):
    """What the page has after one more poll."""
    told = shelf.steps_since(log.parent, page["offset"], page["check"])
    had = [] if told["reset"] else page["steps"]
    return {"steps": had + [step["pass"] for step in told["steps"]], "offset": told["offset"], "check": told["check"]}


def test_only_new_passes_are_sent(log, tmp_path):
    """Catches a page that gets the whole log every second, or the same pass twice, or half a pass."""
    shelf, page = Shelf(tmp_path), {"steps": [], "offset": 0, "check": ""}
    log.write_text(line(1) + line(2) + line(3)[:10])
    page = follow(shelf, log, page)
    assert page["steps"] == [1, 2]
    with log.open("a") as file:
        file.write(line(3)[10:] + line(4))
    assert [s["pass"] for s in shelf.steps_since(log.parent, page["offset"], page["check"])["steps"]] == [3, 4]
    assert follow(shelf, log, page)["steps"] == [1, 2, 3, 4]


@pytest.mark.parametrize("after", [range(3, 3), range(3, 5), range(3, 40)])
def test_a_resumed_run_cuts_its_log_back(log, tmp_path, after):
    """Catches passes of before the kill that stay on the page: whether the log is shorter now, as long, or longer."""
    shelf, page = Shelf(tmp_path), {"steps": [], "offset": 0, "check": ""}
    log.write_text("".join(map(line, range(1, 8))))
    page = follow(shelf, log, page)
    log.write_text(line(1) + line(2) + "".join(line(n).replace("0.0", "0.1") for n in after))
    assert follow(shelf, log, page)["steps"] == [1, 2, *after]


def test_no_log_and_odd_offsets(log, tmp_path):
    """Catches a poll that fails where there is no log yet, or on an offset that was made up."""
    shelf = Shelf(tmp_path)
    assert shelf.steps_since(log.parent, 0, "")["steps"] == []
    log.write_text(line(1))
    for offset in (-5, 10**12, 3):
        assert [s["pass"] for s in shelf.steps_since(log.parent, offset, "x")["steps"]] == [1]


def test_what_has_not_changed_is_not_read_again(runs, monkeypatch):
    """Catches hundreds of manifests parsed at every poll."""
    shelf, read = Shelf(runs.root), []
    original = module.read_manifest
    monkeypatch.setattr(module, "read_manifest", lambda path, problems: read.append(path) or original(path, problems))
    first = shelf.summaries()
    assert len(first) == len(read) == 5
    assert shelf.summaries() == first
    assert len(read) == 5
    os.utime(runs.still / "run.json")
    shelf.summaries()
    assert len(read) == 6


def test_names_that_lead_out_of_the_root(runs, tmp_path):
    """Catches a file outside the root, by dots, an absolute path, a link or a hidden folder, and files of no run."""
    root = tmp_path / "root"
    run = runs.copy(runs.still, root)
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"secret")
    (tmp_path / "run.json").write_text("{}")
    (run / "frames" / "link.png").symlink_to(secret)
    (root / "out").symlink_to(tmp_path)
    (root / "loose.png").write_bytes(b"x")
    (run / ".hidden.png").write_bytes(b"x")
    shelf = Shelf(root)
    assert shelf.file(f"{run.name}/frames/frame_0001.png") == (run / "frames" / "frame_0001.png").resolve()
    names = ["../secret.png", str(secret), f"{run.name}/frames/link.png", "out/secret.png", "loose.png"]
    names += [f"{run.name}/.hidden.png", f"{run.name}/run.json", f"{run.name}/frames", "a\0b", "x" * 5000, ""]
    assert [name for name in names if shelf.file(name) is not None] == []
    assert [name for name in ("..", "out", "/", str(tmp_path), "", "\0") if shelf.find(name) is not None] == []


@pytest.mark.parametrize("linked", ["frames", "frames/frame_0003.png"])
def test_a_linked_picture_is_left_out_and_spoils_no_list(runs, tmp_path, linked):
    """Catches one run with a link out of the root that takes the list of all runs with it."""
    root = tmp_path / "root"
    run, other = runs.copy(runs.still, root / "a"), runs.copy(runs.still, root / "b")
    outside = (run / linked).rename(tmp_path / "outside.png")
    (run / linked).symlink_to(outside)
    os.utime(outside, (2e9, 2e9))  # the newest
    told = {summary["name"]: summary["picture"] for summary in Shelf(root).summaries()}
    assert told[f"a/{run.name}"] is None
    assert told[f"b/{other.name}"][0] == f"b/{other.name}/frames/frame_0003.png"


@pytest.mark.parametrize(
    ("last", "shown"),
    [
        (("main", 3), "frame_0003.png"),
        (("main", 2), "frame_0002.png"),  # after a kill, a later frame is left from before
        (("free", 1), "frame_0003.png"),  # saved every second pass: none of the tail yet
        (("free", 3), "free frame_0002.png"),
        (("free", 4), "free frame_0004.png"),
    ],
)
def test_the_latest_picture_is_the_last_saved_pass_of_the_log(runs, tmp_path, last, shown):
    """Catches an earlier pass that was done later, as PNGs are written side by side, and one that a resume will replace."""
    run = runs.copy(runs.still, tmp_path / "root")
    frames = run / "frames"
    for number in (2, 4):
        shutil.copy(frames / "frame_0001.png", frames / f"free frame_000{number}.png")
    for age, path in enumerate(sorted(frames.iterdir())):
        os.utime(path, (2e9 - age, 2e9 - age))
    os.utime(frames / "frame_0003.png", (3e9, 3e9))
    shelf = Shelf(tmp_path / "root")
    shelf.summaries()  # the log decides, also where no frame has changed
    (run / "steps.jsonl").write_text(json.dumps({"phase": last[0], "pass": last[1], "seconds": 0.1}) + "\n")
    assert shelf.summaries()[0]["picture"][0].endswith(f"/frames/{shown}")


def test_numbers_that_no_browser_reads(log, tmp_path):
    """Catches a page that stops because a pass recorded an infinite warp error."""
    from dltb.pages.shelf import Json

    log.write_text('{"phase": "main", "pass": 1, "seconds": 0.1, "warp_error": Infinity, "x": NaN}\n')
    live = Shelf(tmp_path).live(log.parent, 0, "")
    assert live["steps"] == [{"phase": "main", "pass": 1, "seconds": 0.1, "warp_error": None, "x": None}]
    assert b"Infinity" not in Json.of(live).body
