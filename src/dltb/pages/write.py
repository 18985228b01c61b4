"""From paths on the command line to pages on disk."""

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

from dltb import UsageError
from dltb.imaging.atomic import replacing
from dltb.output.progress import watched
from dltb.pages.render import GENERATOR
from dltb.pages.report import Link, PageOptions, embedding, prepare, relative_link, run_page
from dltb.pages.run import Run, find_runs, read_run

PAGE = "report.html"
SEVERAL = Path("untracked/report")  # where the page about several runs goes that share no given folder
SHARED_LIMIT = 1200  # passes that the page about several runs holds in all


def write_reports(paths: Sequence[str], options: PageOptions, out: Path | None) -> None:
    """Write a page for every run and, for more than one or for a folder of runs, one that shows them together."""
    runs, root = find(paths)
    if root is None and len(runs) == 1:
        page = (out or runs[0].directory) / PAGE
        check_page(page)
        write_page(page, run_page(prepare(runs[0], options), links(page, options)))
        print(f"report: {page}")
        return
    _write_several(runs, options, out or root or SEVERAL, root=root, apart=out is not None)


def find(paths: Sequence[str]) -> tuple[list[Run], Path | None]:
    """The runs, none twice, and the folder that was given if it was one folder of runs.

    Raises:
        UsageError: when a path is empty, missing, or holds no run.
    """
    if not paths or not all(paths):
        raise UsageError("no run given; give run directories, or a folder with runs below it")
    found: dict[Path, Path] = {}
    folders = []
    for path in map(Path, paths):
        run = _run_at(path)
        folders += [path] if run is None else []
        found |= {directory.resolve(): directory for directory in ([run] if run else _runs_below(path))}
    runs = [read_run(directory) for directory in found.values()]
    return runs, folders[0] if folders and len(paths) == 1 else None


def _run_at(path: Path) -> Path | None:
    """The run directory that a path names, itself or by its frames folder; None for a folder of runs."""
    if not path.is_dir():
        raise UsageError(f"{path} {'is a file' if path.exists() else 'does not exist'}; give a run directory")
    if path.resolve().name == "frames" and not (path / "run.json").exists():
        path = path.resolve().parent
    if (path / "run.json").exists() or (path / "frames").is_dir():
        return path
    return None


def _runs_below(path: Path) -> list[Path]:
    below = list(find_runs(path))
    if not below:
        raise UsageError(f"{path} is no run directory, and there is none below it: no run.json and no frames folder")
    return below


def labels_of(runs: Sequence[Run]) -> list[str]:
    """Short names that tell the runs apart: their paths below the folder that they share."""
    places = [os.fspath(run.directory.resolve()) for run in runs]
    if len(places) == 1:
        return [Path(places[0]).name]
    shared = os.path.commonpath(places)
    return [Path(os.path.relpath(place, shared)).as_posix() for place in places]


def page_names(labels: Sequence[str]) -> list[str]:
    """File names beside the index, one a label; those that would be the same, on any file system, are numbered."""
    names: list[str] = []
    taken = {PAGE}
    for label in labels:
        stem = label.replace("/", "_")
        endings = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
        names.append(next(name for end in endings if (name := f"{stem}{end}.html").casefold() not in taken))
        taken.add(names[-1].casefold())
    return names


def check_page(path: Path) -> None:
    """Refuse to write over a file that is no page of ours."""
    _check_folder(path.parent)
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give another --out")
    if path.exists() and f'name="generator" content="{GENERATOR}'.encode() not in path.read_bytes()[:4096]:
        raise UsageError(f"{path} exists and was not written by dltb-report; give another --out")


def _check_folder(folder: Path) -> None:
    """Refuse a place for pages that is a file, or lies below one."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise UsageError(f"--out {folder}: {there} is a file, not a folder; give another --out")


def write_page(path: Path, html: str) -> None:
    """Write the page whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(html, encoding="utf-8")


def links(page: Path, options: PageOptions) -> Link:
    """How a page at this path names the files of a run."""
    return embedding(relative_link(page)) if options.embed else relative_link(page)


def _write_several(runs: Sequence[Run], options: PageOptions, folder: Path, *, root: Path | None, apart: bool) -> None:
    """Below ``root`` sweeps may have left summaries; ``apart`` puts the runs' pages into ``folder``, not into their own."""
    from dltb.pages.comparison import Member, comparison_page

    index, labels = folder / PAGE, labels_of(runs)
    places = [folder / name for name in page_names(labels)] if apart else [run.directory / PAGE for run in runs]
    for place in (index, *places):
        check_page(place)
    members = []
    title = (root or folder).resolve().name
    share = max(4, min(options.limit, SHARED_LIMIT // len(runs)))
    for run, label, place in watched(list(zip(runs, labels, places, strict=True)), "report", "runs"):
        page = prepare(run, options)
        home = relative_link(place)(index)
        write_page(place, run_page(page, links(place, options), home=home))
        members.append(
            Member.of(page, label, href=relative_link(index)(place), link=links(index, options), limit=share)
        )
    write_page(index, comparison_page(members, sweeps=_folders_of(runs, root), clip=options.clip, title=title))
    print(f"report: {index} ({len(runs)} runs)")


def _folders_of(runs: Sequence[Run], root: Path | None) -> list[Path]:
    """Where a sweep may have left its summary: the root, and what lies between it and the runs."""
    if root is None:
        return list(dict.fromkeys(run.directory.resolve().parent for run in runs))
    above = [parent for run in runs for parent in reversed(run.directory.resolve().parents)]
    return list(dict.fromkeys(parent for parent in above if parent.is_relative_to(root.resolve())))
