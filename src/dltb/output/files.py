"""Small text files written whole or not at all."""

import json
from pathlib import Path
from typing import Any

from dltb.imaging.atomic import replacing


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON; a RunError (disk full, ...) leaves what was there before."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
