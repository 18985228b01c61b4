"""The server of dltb-view: reads runs below a root for browsers on this machine.

Another web site must not read through it, so the Host is one of this machine's names (no DNS rebinding), requests that a
browser marks as another site's are refused, and no page may be framed. Files come from run directories below the root.
"""

import secrets
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dltb import UsageError
from dltb.imaging.frames import read_image, shrunk
from dltb.pages.comparison import Member, comparison_page
from dltb.pages.curves import CHARTS
from dltb.pages.panels import encode
from dltb.pages.render import render
from dltb.pages.report import PageOptions, RunPage, prepare, run_page, short_facts
from dltb.pages.run import read_run
from dltb.pages.shelf import Json, Shelf
from dltb.pages.write import SHARED_LIMIT

ADDRESS = "127.0.0.1"
HOSTS = {"127.0.0.1", "localhost", "::1"}
REPORTS_KEPT = 8
COMPARED = 8  # runs on one page
THUMBNAILS_KEPT = 1000
THUMBNAIL = 256  # px
EXPENSIVE = ("/report", "/compare")  # pages that are made when they are asked for, by every core
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def serve(root: Path, *, port: int, clip: Path | None) -> int:
    """Serve until Ctrl-C.

    Raises:
        UsageError: when the port is taken.
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((ADDRESS, port))
        except OSError as error:
            raise UsageError(f"cannot listen on {ADDRESS}:{port}: {error.strerror}; give another --port") from None
        app = build_app(root, clip)
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, lifespan="off")
        told = f"runs below {root}: http://{ADDRESS}:{listener.getsockname()[1]}/ (Ctrl-C ends it)"
        AnnouncedServer(config, told).run(sockets=[listener])
    return 0


class AnnouncedServer(uvicorn.Server):
    """Says where it is once it answers, and signals end it in order."""

    def __init__(self, config: uvicorn.Config, told: str) -> None:
        super().__init__(config)
        self._told = told

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        print(self._told, flush=True)


def build_app(root: Path, clip: Path | None = None) -> Starlette:
    """The application over the runs below ``root``."""
    pages = Pages(Shelf(root), PageOptions(clip=clip))
    routes = [
        Route("/", pages.home),
        Route("/run/{name:path}", pages.run),
        Route("/report/{name:path}", pages.report),
        Route("/compare", pages.compare),
        Route("/api/runs", pages.api_runs),
        Route("/api/run/{name:path}", pages.api_run),
        Route("/thumbnail/{name:path}", pages.thumbnail),
        Route("/files/{name:path}", pages.file),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard)])


class Guard:
    """Refuses what this machine's own pages would not ask, and marks every answer as theirs alone."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = refused(Request(scope))
        answer = self.app if refusal is None else PlainTextResponse(refusal, 403)

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower().encode() for name in HEADERS}
                kept = [pair for pair in message["headers"] if pair[0].lower() not in own]
                message["headers"] = [
                    *kept,
                    *((name.lower().encode(), text.encode()) for name, text in HEADERS.items()),
                ]
            await send(message)

        await answer(scope, receive, marked)


def refused(request: Request) -> str | None:
    """Why a request is not answered; None where it is."""
    headers = request.headers
    host = headers.get("host", "")
    try:
        known = urlsplit(f"//{host}").hostname in HOSTS
    except ValueError:
        known = False
    if not known:
        return "this server answers to 127.0.0.1 and localhost only"
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return "other sites cannot read from this server"
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return None
    if headers.get("sec-fetch-mode") != "navigate" or headers.get("sec-fetch-dest") != "document":
        return "other sites cannot read from this server"
    if request.scope["path"].startswith(EXPENSIVE):
        return "other sites cannot start this; open it from the list of runs"
    return None


class Pages:
    """What each address answers."""

    def __init__(self, shelf: Shelf, options: PageOptions) -> None:
        self._shelf, self._options = shelf, options
        self._reports: OrderedDict[Any, RunPage] = OrderedDict()
        self._thumbnails: OrderedDict[Any, bytes] = OrderedDict()
        self._lock = threading.Lock()  # one report at a time: each takes every core

    def home(self, request: Request) -> Response:
        """The page that lists the runs."""
        return _html(lambda nonce: render("runs.html.j2", nonce=nonce, root=self._shelf.root.name))

    def run(self, request: Request) -> Response:
        """The page that follows one run."""
        directory = self._directory(request.path_params["name"])
        name = self._shelf.name_of(directory)
        charts = [{"key": chart.key, "title": chart.title, "names": chart.names.pattern} for chart in CHARTS]
        data = {"name": name, "charts": charts}
        facts = short_facts(_read(directory))
        facts.pop("passes")
        return _html(lambda nonce: render("live.html.j2", nonce=nonce, name=name, facts=facts, data=data))

    def report(self, request: Request) -> Response:
        """A report, made now."""
        page = self._prepared(self._directory(request.path_params["name"]))
        return _html(lambda nonce: run_page(page, self._link, nonce=nonce, home="/"))

    def compare(self, request: Request) -> Response:
        """Several runs side by side, named by ``?run=...&run=...``."""
        names = list(dict.fromkeys(request.query_params.getlist("run")))
        if not 2 <= len(names) <= COMPARED:
            raise HTTPException(400, f"give two to {COMPARED} runs")
        members = []
        for directory in map(self._directory, names):
            name = self._shelf.name_of(directory)
            href, page = f"/report/{quote(name)}", self._prepared(directory)
            members.append(Member.of(page, name, href=href, link=self._link, limit=SHARED_LIMIT // len(names)))
        return _html(
            lambda nonce: comparison_page(members, title="Comparison", statistics=False, nonce=nonce, home="/")
        )

    def _prepared(self, directory: Path) -> RunPage:
        files = (directory / "run.json", directory / "steps.jsonl", directory / "frames", directory)
        stamp = (
            directory,
            self._shelf.status(directory),
            *(path.stat().st_mtime_ns for path in files if path.exists()),
        )
        with self._lock:
            return _remembered(self._reports, stamp, REPORTS_KEPT, lambda: prepare(_read(directory), self._options))

    def api_runs(self, request: Request) -> Response:
        """Every run in a few values."""
        return _json(request, self._shelf.summaries())

    def api_run(self, request: Request) -> Response:
        """One run, with the passes after what the page has."""
        directory = self._directory(request.path_params["name"])
        offset = request.query_params.get("offset", "0")
        offset = int(offset) if offset.isascii() and offset.isdigit() and len(offset) < 16 else 0
        return _json(request, self._shelf.live(directory, offset, request.query_params.get("check", "")))

    def thumbnail(self, request: Request) -> Response:
        """A small picture of a frame."""
        path = self._file(request)
        if path.suffix != ".png":
            raise HTTPException(404)
        stamp = (path, path.stat().st_mtime_ns)
        try:
            picture = _remembered(
                self._thumbnails, stamp, THUMBNAILS_KEPT, lambda: encode(shrunk(read_image(path), THUMBNAIL))
            )
        except UsageError:
            raise HTTPException(404) from None
        return Response(picture, media_type="image/webp")

    def file(self, request: Request) -> Response:
        """A file of a run."""
        return FileResponse(self._file(request))

    def _directory(self, name: str) -> Path:
        directory = self._shelf.find(name)
        if directory is None:
            raise HTTPException(404)
        return directory

    def _file(self, request: Request) -> Path:
        path = self._shelf.file(request.path_params["name"])
        if path is None:
            raise HTTPException(404)
        return path

    def _link(self, path: Path) -> str | None:
        name = self._shelf.name_of_file(path)
        return None if name is None else f"/files/{quote(name)}"


def _read(directory: Path) -> Any:
    try:
        return read_run(directory)
    except UsageError as error:
        raise HTTPException(404, str(error)) from None


def _remembered(kept: OrderedDict, key: Any, most: int, make: Callable[[], Any]) -> Any:
    """kept[key], made where it is not there; the oldest goes when there are more than ``most``."""
    value = kept.get(key)
    if value is None:
        value = kept[key] = make()
        while len(kept) > most:
            kept.popitem(last=False)
    return value


def _html(page: Callable[[str], str]) -> Response:
    """A page in which only its own script and style run."""
    nonce = secrets.token_urlsafe(16)
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src 'self' data:; "
        "media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(page(nonce), headers={"Content-Security-Policy": policy})


def _json(request: Request, value: Any) -> Response:
    """JSON, or 304 where the browser has it."""
    answer = Json.of(value)
    if request.headers.get("if-none-match") == answer.tag:
        return Response(status_code=304, headers={"ETag": answer.tag})
    return Response(answer.body, media_type="application/json", headers={"ETag": answer.tag})
