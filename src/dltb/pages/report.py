"""The page about one run."""

import base64
import json
import mimetypes
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dltb.args.report_options import ReportOptions
from dltb.imaging.flow_colours import flow_wheel
from dltb.models.table import MODELS
from dltb.pages.curves import charts_of
from dltb.pages.frames import Footage
from dltb.pages.panels import Pictures, Shown, encode, show
from dltb.pages.render import render
from dltb.pages.run import STATUSES, Run, Stretch, mapping

SHEET = 24  # pictures of the contact sheet
PANEL_TITLES = {
    "source": "Source",
    "output": "Output",
    "input": "Model input",
    "flow": "Flow of the source",
    "mask": "Repainted by the mask",
}
ABOUT = ("tool", "dltb", "id", "schema", "median_seconds_per_pass", "metric", "cycle", "stability", "profile")
SHORT_FACTS = ("model", "prompt", "mode", "conditioning", "anchor_blend", "strength", "seed", "width", "height")

Link = Callable[[Path], str | None]  # a file of the run -> what the page writes into href and src; None: not handed out


@dataclass(frozen=True)
class PageOptions:
    """How much a page shows."""

    clip: Path | None = None
    side: int = ReportOptions.thumbnail  # px, longer side of a thumbnail
    limit: int = ReportOptions.frames  # passes of a stretch that the scrubber holds
    motion_every: int | None = None  # passes between two that flow is estimated for; None: what is affordable
    embed: bool = False


@dataclass(frozen=True)
class RunPage:
    """A run made ready for a page."""

    run: Run
    shown: tuple[Shown, ...]
    charts: tuple[list[dict[str, Any]], ...]  # of each stretch
    pictures: Pictures

    @property
    def stretches(self) -> Iterator[tuple[Stretch, Shown, list[dict[str, Any]]]]:
        return zip(self.run.stretches, self.shown, self.charts, strict=True)


def prepare(run: Run, options: PageOptions) -> RunPage:
    """Make pictures and curves of every stretch of a run."""
    pictures = Pictures()
    footage = Footage(run, options.clip)
    shown = tuple(
        show(footage, stretch, pictures, side=options.side, limit=options.limit, motion_every=options.motion_every)
        for stretch in run.stretches
    )
    charts = tuple(charts_of(run, stretch, one.measured) for stretch, one in zip(run.stretches, shown, strict=True))
    return RunPage(run, shown, charts, pictures)


def run_page(page: RunPage, link: Link, *, nonce: str = "", home: str = "") -> str:
    """The HTML of one run; ``home`` is the address of the page that lists the runs."""
    run = page.run
    return render(
        "report.html.j2",
        nonce=nonce,
        home=home,
        name=run.directory.resolve().name,
        status=run.status,
        status_text=STATUSES[run.status],
        facts=short_facts(run),
        tables=list(_tables(run)),
        problems=[*run.problems, *_reason(run)],
        notes=[str(note) for note in run.manifest.get("notes") or ()],
        videos=list(_videos(run, link)),
        panels=PANEL_TITLES,
        charts=page.charts,
        stretches=run.stretches,
        sheet=SHEET,
        data=_data(page, link),
    )


def short_facts(run: Run) -> dict[str, str]:
    """What tells a run from another, in a few words."""
    settings, facts = run.settings, {"tool": str(run.manifest.get("tool", "unknown"))}
    spec = MODELS.get(str(settings.get("model")))
    inert = {"strength"} if spec is not None and not spec.uses_strength else set()
    facts |= {
        name: text(settings[name]) for name in SHORT_FACTS if settings.get(name) not in (None, "") and name not in inert
    }
    facts["passes"] = ", ".join(
        f"{s.name} {s.passes}" + (f" of {s.expected}" if s.expected and s.expected != s.passes else "")
        for s in run.stretches
    )
    return facts


def relative_link(page: Path) -> Link:
    """Links from a page in one folder to files in others."""

    def link(path: Path) -> str:
        return quote(Path(os.path.relpath(path.resolve(), page.resolve().parent)).as_posix())

    return link


def embedding(link: Link) -> Link:
    """Links that are the files themselves."""

    def embedded(path: Path) -> str:
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        try:
            return f"data:{kind};base64,{_base64(path.read_bytes())}"
        except OSError:
            return link(path)

    return embedded


def text(value: Any) -> str:
    """A setting for a reader."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _data(page: RunPage, link: Link) -> dict[str, Any]:
    """What the page's script works on."""
    return {
        "pictures": [_base64(encoded) for encoded in page.pictures.encoded()],
        "wheel": _base64(encode(flow_wheel(96))),
        "panels": PANEL_TITLES,
        "sheet": SHEET,
        "stretches": [
            {
                "name": shown.name,
                "passes": stretch.passes,
                "numbers": shown.numbers,
                "kinds": shown.kinds,
                "full": [link(stretch.frames[n]) if n in stretch.frames else None for n in shown.numbers],
                "cells": shown.cells,
                "motionOf": shown.motion_of,
                "reasons": shown.reasons,
                "flowScale": shown.flow_scale,
                "charts": charts,
            }
            for stretch, shown, charts in page.stretches
        ],
    }


def _tables(run: Run) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Settings, environment and sessions as (title, name -> text)."""
    manifest = run.manifest
    yield "Settings", {name: text(value) for name, value in run.settings.items()}
    about = {name: text(manifest[name]) for name in ABOUT if manifest.get(name) is not None}
    yield "Run", about
    yield "Environment", {name: text(value) for name, value in mapping(manifest.get("environment")).items()}
    sessions = manifest.get("sessions")
    yield (
        "Sessions",
        {
            f"{n}": ", ".join(f"{name} {text(value)}" for name, value in mapping(session).items())
            for n, session in enumerate(sessions if isinstance(sessions, list) else (), 1)
        },
    )


def _reason(run: Run) -> Iterator[str]:
    if run.manifest.get("reason"):
        yield str(run.manifest["reason"])
    for stretch in run.stretches:
        numbers = sorted(stretch.frames)
        every = run.settings.get("save_every")
        if isinstance(every, int) and every > 0 and numbers:
            gone = sorted(set(range(every, stretch.passes + 1, every)) - set(numbers))
            if gone:
                named = ", ".join(map(str, gone[:8])) + (", ..." if len(gone) > 8 else "")
                yield f"{stretch.name}: {len(gone)} saved frames are missing: {named}"


def _videos(run: Run, link: Link) -> Iterator[dict[str, str]]:
    """The run's own videos, or why one is not there, then what else lies there: of dltb-assemble, previews."""
    for stretch in run.stretches:
        if stretch.video:
            yield _video(run, stretch.video, link)
    told = {stretch.video for stretch in run.stretches}
    for path in sorted(run.directory.glob("[!.]*.mp4")):
        if path.name not in told:
            yield _video(run, path.name, link)


def _video(run: Run, name: str, link: Link) -> dict[str, str]:
    path = run.directory / name
    if path.is_file():
        href = link(path)
        return {"name": name, "missing": "it lies outside the root"} if href is None else {"name": name, "href": href}
    missing = "it comes when the run ends" if run.status == "running" else "it is not there; dltb-assemble makes one"
    return {"name": name, "missing": missing}
