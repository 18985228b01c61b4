"""HTML from templates. A page holds its own styles, scripts and data, so it opens from disk and needs no network."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dltb import __version__

GENERATOR = "dltb-report"  # named in every page, so that a report is told from a file of another origin


def render(template: str, *, nonce: str = "", **values: Any) -> str:
    """The page; ``nonce`` is what a server's content security policy lets styles and scripts run by."""
    page = _environment().get_template(template)
    return page.render(nonce=nonce, generator=GENERATOR, version=__version__, **values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dltb.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["asset"] = _asset
    environment.filters["compact_json"] = _compact_json
    return environment


@cache
def _asset(name: str) -> Markup:
    """A style or script of this package, to stand inside a page."""
    return Markup((files("dltb.pages") / "static" / name).read_text(encoding="utf-8"))


def _compact_json(value: Any) -> Markup:
    """JSON that can stand inside a script element: nothing in it can close one."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
