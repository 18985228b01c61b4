"""What an output says about itself: run, model, prompt, seed and pass, as one line of JSON in a PNG or an mp4.

Everything here follows from the settings, so a run that was stopped and resumed writes the same bytes as one that was not.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dltb import __version__
from dltb.imaging.frames import opened_image

KEY = "dltb"  # the PNG text chunk that holds the JSON
NAMED = (
    "model",
    "control",
    "prompt",
    "negative_prompt",
    "seed",
)  # settings that an output carries, where the run has them


def run_id(tool: str, settings: Mapping[str, Any]) -> str:
    """12 hexadecimal digits that two runs share when tool and settings are the same."""
    told = json.dumps([tool, settings], sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def describe_output(tool: str, settings: Mapping[str, Any], **place: Any) -> str:
    """JSON of the run's identity; ``place`` says which pass, and replaces the run's seed by the pass's own."""
    named = {name: settings[name] for name in NAMED if settings.get(name) not in (None, "")}
    return json.dumps({"run": run_id(tool, settings), "tool": tool, **named, **place}, ensure_ascii=False)


def described_by(png: Path) -> str:
    """The description that a frame carries, less what belongs to its pass alone; nothing where there is none."""
    with opened_image(png) as image:
        text = image.info.get(KEY, "") if image is not None else ""
    try:
        told = json.loads(text)
        return json.dumps({name: told[name] for name in told if name not in ("pass", "seed")}, ensure_ascii=False)
    except (ValueError, TypeError):
        return ""


def png_text(description: str) -> dict[str, str]:
    """The text chunks of a PNG that carries ``description``."""
    return {"Software": f"dltb {__version__}", KEY: description}
