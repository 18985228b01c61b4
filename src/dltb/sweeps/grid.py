"""A grid file: TOML that says which legs a sweep has.

    preset = "blend-sweep"   a grid file of this package to start from
    measure = ["dltb-drift"] tools that are run on every finished leg
    [fixed]                  settings of every leg
    [product]                lists; every combination is a leg
    [zip]                    lists of equal length; the first of each, the second of each, ...
    [[leg]]                  settings of its own, each list in it a product; the legs times the product and the zip

A setting is a tool's flag without its dashes, and ``tool`` the tool. A list may be a table, name = value, whose names
then stand in the directories: ``prompt = { oil = "an oil painting" }``.
"""

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from dltb import UsageError
from dltb.sweeps import naming
from dltb.sweeps.tools import LOOP_TOOLS, MEASURING_TOOLS, Value, check_flag, check_tool, parse_measure

TABLES = ("fixed", "product", "zip")
SECTIONS = ("preset", "measure", *TABLES, "leg")
DEFAULT_MEASURE = ("dltb-drift", "dltb-stabilization")


@dataclass(frozen=True)
class Leg:
    """One run of a sweep."""

    name: str  # of its directory below the sweep's root
    tool: str
    settings: Mapping[str, Value]  # the tool's flags without dashes


@dataclass(frozen=True)
class Grid:
    """The legs, in the order of the file, and what measures them: each a measuring tool and its flags."""

    name: str
    legs: Sequence[Leg]
    measure: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class _Choice:
    """One value of one key, and what it is called in names; None: not in names."""

    key: str
    value: Value
    label: str | None


_Row = tuple[_Choice, ...]


def preset_names() -> list[str]:
    """The grid files of this package."""
    return sorted(path.name.removesuffix(".toml") for path in _presets().iterdir() if path.name.endswith(".toml"))


def _presets() -> Any:
    return resources.files("dltb.sweeps") / "presets"


def read_grid(text: str) -> Grid:
    """The grid of a file, or of a preset's name.

    Raises:
        UsageError: naming the file and the key, when something in it is not as it must be.
    """
    path = Path(text)
    if text and not path.exists() and text in preset_names():
        return _grid(text, text, {"preset": text})
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        known = ", ".join(preset_names())
        raise UsageError(f"{text or 'an empty name'}: not a grid file ({reason}); presets: {known}") from None
    return _grid(path.stem, text, content)


def _grid(name: str, source: str, content: Mapping[str, Any]) -> Grid:
    try:
        whole = _with_preset(content)
        _check_sections(whole)
        grid = Grid(name, _legs(whole), tuple(map(parse_measure, whole.get("measure", DEFAULT_MEASURE))))
        _check_measure(grid)
        return grid
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None


def _check_measure(grid: Grid) -> None:
    """Refuse what would write over the table that a leg's own tool makes."""
    for tool in dict.fromkeys(leg.tool for leg in grid.legs):
        for words in grid.measure:
            if MEASURING_TOOLS[words[0]].leaves == LOOP_TOOLS[tool].leaves:
                raise UsageError(
                    f"measure: {words[0]} is not for {tool}, which measures itself; set its metric instead"
                )


def _with_preset(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The preset, with what the file says in place of what it says: setting by setting, [[leg]] and measure whole."""
    name = content.get("preset")
    if name is None:
        return content
    if name not in preset_names():
        raise UsageError(f"preset: unknown preset {name!r}; known: {', '.join(preset_names())}")
    base = tomllib.loads((_presets() / f"{name}.toml").read_text(encoding="utf-8"))
    own = {key: value for key, value in content.items() if key != "preset"}
    _check_sections(own)
    said = {key for section in TABLES for key in _normal(own.get(section, {}))}
    for section in TABLES:
        kept = {key: value for key, value in base.get(section, {}).items() if key not in said}
        base[section] = kept | _normal(own.pop(section, {}))
    return base | own


def _check_sections(content: Mapping[str, Any]) -> None:
    for key, value in content.items():
        if key not in SECTIONS:
            raise UsageError(f"{key}: unknown; a grid has {', '.join(SECTIONS)}")
        if key in TABLES and not isinstance(value, dict):
            raise UsageError(f"{key}: a table is needed, [{key}]")
    legs = content.get("leg", [])
    if not isinstance(legs, list) or not all(isinstance(leg, dict) for leg in legs):
        raise UsageError("leg: tables are needed, [[leg]]")
    measure = content.get("measure", [])
    if not isinstance(measure, list) or not all(isinstance(line, str) for line in measure):
        raise UsageError('measure: a list of commands is needed, such as ["dltb-drift"]')


def _normal(table: Mapping[str, Any]) -> dict[str, Any]:
    """Keys as flags are written; anchor_blend is anchor-blend."""
    found = {key.replace("_", "-"): value for key, value in table.items()}
    if len(found) < len(table):
        raise UsageError("a key stands twice in one table, once with - and once with _")
    return found


def _legs(content: Mapping[str, Any]) -> list[Leg]:
    fixed = {key: _scalar(key, value) for key, value in _normal(content.get("fixed", {})).items()}
    rows = list(_rows(content))
    settings = [fixed | {choice.key: choice.value for choice in row if choice.key} for row in rows]
    differing = _differing(settings)
    legs = [_leg(whole, row, differing) for whole, row in zip(settings, rows, strict=True)]
    naming.check_distinct((leg.name, {"tool": leg.tool, **leg.settings}) for leg in legs)
    return legs


def _rows(content: Mapping[str, Any]) -> Iterator[_Row]:
    """What each leg adds to the fixed settings."""
    tables = [_normal(content.get(section, {})) for section in ("product", "zip")]
    own_tables = [_normal(table) for table in content.get("leg", [])] or [{}]
    _check_once(*tables, {key: None for table in own_tables for key in table})
    _check_values(_normal(content.get("fixed", {})), *tables, own_tables)
    combined, zipped = ([_choices(key, raw) for key, raw in table.items()] for table in tables)
    own_rows = [row for table in own_tables for row in _own_rows(table)]
    for parts in itertools.product(itertools.product(*combined), _zip(zipped), own_rows):
        yield tuple(itertools.chain(*parts))


def _check_values(
    fixed: Mapping[str, Any], product: Mapping[str, Any], zipped: Mapping[str, Any], own: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse a value before millions of legs are made of it, where every leg runs every tool that is named.

    Where [zip] or a [[leg]] names a tool, a value need not suit all of them; each leg is checked anyway.
    """
    if any("tool" in table for table in (zipped, *own)):
        return
    varied = [(key, raw) for table in (product, zipped, *own) for key, raw in table.items() if key != "name"]
    replaced = {key for key, _ in varied}
    everywhere = [(key, raw) for key, raw in fixed.items() if key not in replaced]
    choices = [choice for key, raw in (*everywhere, *varied) for choice in _choices(key, raw)]
    for tool in [check_tool(choice.value) for choice in choices if choice.key == "tool"]:
        for choice in choices:
            if choice.key != "tool":
                check_flag(tool, choice.key, choice.value)


def _check_once(*tables: Mapping[str, Any]) -> None:
    for one, other in itertools.combinations(tables, 2):
        for key in one.keys() & other.keys():
            raise UsageError(f"{key}: set in more than one of [product], [zip] and [[leg]]; leave it in one of them")


def _zip(axes: Sequence[Sequence[_Choice]]) -> list[_Row]:
    if len({len(axis) for axis in axes}) > 1:
        told = ", ".join(f"{axis[0].key} {len(axis)}" for axis in axes)
        raise UsageError(f"zip: lists of one length are needed, not {told}")
    return list(zip(*axes, strict=True)) if axes else [()]


def _own_rows(table: Mapping[str, Any]) -> Iterator[_Row]:
    """The legs of one [[leg]]: its lists are a product, and its name stands for its single values."""
    name = table.get("name")
    lists = [_choices(key, raw) for key, raw in table.items() if isinstance(raw, list | dict)]
    single = {
        key: _scalar(key, raw) for key, raw in table.items() if key != "name" and not isinstance(raw, list | dict)
    }
    said = [_Choice(key, value, None if name is not None else naming.label_of(value)) for key, value in single.items()]
    if name is not None:
        said.insert(0, _Choice("", "", naming.check_label(str(name))))
    for chosen in itertools.product(*lists):
        yield (*said, *chosen)


def _choices(key: str, raw: Any) -> list[_Choice]:
    """The values of a key: a list, a table of named ones, or a single one."""
    if isinstance(raw, dict):
        found = [_Choice(key, _scalar(key, value), naming.check_label(label)) for label, value in raw.items()]
    else:
        values = [_scalar(key, value) for value in (raw if isinstance(raw, list) else [raw])]
        found = [_Choice(key, value, naming.label_of(value)) for value in values]
    if not found:
        raise UsageError(f"{key}: an empty list makes no leg")
    return found


def _scalar(key: str, value: Any) -> Value:
    if not isinstance(value, str | int | float | bool):
        raise UsageError(f"{key} = {value!r}: one text, number, true or false is needed here; lists go into [product]")
    return value


def _differing(settings: Sequence[Mapping[str, Value]]) -> set[str]:
    """The keys that have more than one value, or are missing in some legs."""
    seen: dict[str, set[tuple]] = {}
    for whole in settings:
        for key, value in whole.items():
            seen.setdefault(key, set()).add((type(value), value))
    return {key for key, values in seen.items() if len(values) > 1 or any(key not in whole for whole in settings)}


def _leg(settings: Mapping[str, Value], row: _Row, differing: set[str]) -> Leg:
    if "tool" not in settings:
        raise UsageError('tool: say which tool the legs run, e.g. tool = "dltb-continuous" in [fixed]')
    tool = check_tool(settings["tool"])
    flags = {key: value for key, value in settings.items() if key != "tool"}
    for key, value in flags.items():
        check_flag(tool, key, value)
    return Leg(naming.join(list(_parts(row, differing)), tool.removeprefix("dltb-")), tool, flags)


def _parts(row: _Row, differing: set[str]) -> Iterator[str]:
    for choice in row:
        if not choice.key:
            yield str(choice.label)
        elif choice.label is not None and choice.key in differing:
            yield naming.part(choice.key, choice.value, choice.label)
