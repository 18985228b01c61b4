"""Flags: one line for every mistake, and defaults that exist once."""

import dataclasses

import numpy as np
import pytest

from dltb.args.options import ModelOptions, VideoOptions, seed_policy
from dltb.args.parser import ToolParser, add_options, key_frames, number, option, read_options, whole


def parser() -> ToolParser:
    made = ToolParser(prog="tool", description="d")
    add_options(made, VideoOptions, "loop")
    add_options(made, ModelOptions, "model", defaults={"model": "tiny-klein"}, leave_out=("strength",))
    return made


def test_defaults_are_those_of_the_dataclass():
    """Catches a default that a flag states for itself and that drifts away from the library's."""
    args = parser().parse_args([])
    assert read_options(VideoOptions, args) == VideoOptions()
    assert read_options(ModelOptions, args) == dataclasses.replace(ModelOptions(), model="tiny-klein")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--tail-frames", "-1"], "at least 0"),
        (["--tail-frames", "two"], "'two' is not a whole number"),
        (["--max-frames", "0"], "at least 1"),
        (["--anchor-blend", "1.5"], "at most 1"),
        (["--anchor-blend", "nan"], "out of range"),
        (["--tail-modes", "freeze,blck"], "unknown tail mode 'blck'; known: freeze, free, black"),
        (["--tail-modes", "free,free"], "twice"),
        (["--width", "wide"], "'wide' is not a whole number"),
        (["--mode", "loose"], "invalid choice"),
        (["--strength", "0.5"], "unrecognized arguments: --strength"),
        (["--anchor", "0.5"], "unrecognized arguments: --anchor"),
        (["--bogus", "a\nb"], "unrecognized arguments: --bogus a b"),
        (["--prompt", "x\udcff"], "not valid UTF-8"),
    ],
)
def test_a_wrong_flag_is_one_line_and_exit_2(argv, says, capsys):
    """Catches usage dumps, tracebacks and abbreviations that guess what was meant."""
    with pytest.raises(SystemExit) as stopped:
        parser().parse_args(argv)
    error = capsys.readouterr().err
    assert stopped.value.code == 2
    assert error.count("\n") == 1
    assert says in error


def test_given_holds_what_was_typed_even_if_it_is_the_default():
    """Catches taking a default for the user's wish, and the reverse."""
    args = parser().parse_args(["--anchor-blend", "0.3", "--no-reproject"])
    assert args.given == {"anchor_blend", "reproject"}


def test_tail_modes_become_a_tuple_in_the_order_given():
    """Catches a list that is sorted, which would rename the run directory."""
    assert parser().parse_args(["--tail-modes", "black, freeze"]).tail_modes == ("black", "freeze")


def test_help_states_defaults_and_survives_percent_signs(capsys):
    """Catches argparse's own % formatting, which breaks --help only when it is asked for."""

    @dataclasses.dataclass(frozen=True)
    class Options:
        share: float = option(0.5, "100 % of it", parse=number(0))
        on: bool = option(True, "a switch")

    made = ToolParser(prog="tool", description="d")
    add_options(made, Options, "group")
    with pytest.raises(SystemExit):
        made.parse_args(["--help"])
    text = capsys.readouterr().out
    assert "100 % of it (default: 0.5)" in text
    assert "(default: on)" in text


def test_a_parser_can_be_used_twice():
    """Catches defaults that are gone after the first use."""
    made = parser()
    assert vars(made.parse_args(["--prompt", "x"])) | {"prompt": "", "given": set()} == vars(made.parse_args([]))


def test_choices_and_defaults_are_those_of_the_library():
    """Catches a list or a default that stands in two places and differs."""
    from dltb.args.options import CONDITIONINGS, REFERENCE_ORDERS, TAIL_MODES
    from dltb.imaging import PassSettings
    from dltb.loop import conditioning
    from dltb.loop.conditioning import tail_frame

    assert set(CONDITIONINGS) == set(conditioning.CONDITIONINGS)
    assert [tail_frame(mode, np.ones((2, 2, 3), np.uint8)) is None for mode in TAIL_MODES] == [False, True, False]
    assert REFERENCE_ORDERS[0] == VideoOptions().ref_order
    shared = {f.name for f in dataclasses.fields(PassSettings)} - {"width", "height"}
    assert all(getattr(ModelOptions(), name) == getattr(PassSettings(), name) for name in shared)


def test_bounds():
    """Catches an open bound that lets its own value in."""
    assert whole(1)("1") == 1
    with pytest.raises(ValueError, match="above 0"):
        number(0, 1, above=True)("0")


def test_key_frames():
    """Catches a single value refused, a prompt cut at its comma or colon, and key frames out of order."""
    numbers, texts = key_frames(number(0, 1)), key_frames(str, between="|")
    assert numbers("0:0.3, 60:0.6") == ((0, 0.3), (60, 0.6))
    assert numbers("0.4") == ((0, 0.4),)
    assert texts("0:stone, wet|12: moss at 5:30") == ((0, "stone, wet"), (12, "moss at 5:30"))
    assert texts("a castle: ruins") == ((0, "a castle: ruins"),)
    for text, says in [
        ("0:0.3,0.6", "'0.6' in '0:0.3,0.6' is no key frame"),
        ("9:0.3,3:0.6", "not in rising order"),
        ("0:2", "out of range"),
        ("3:0.1,3:0.2", "not in rising order"),
    ]:
        with pytest.raises(ValueError, match=says):
            numbers(text)


@pytest.mark.parametrize("text", ["sometimes", "list:", "list:1,x", "0:fixed|5:never", "list:-1"])
def test_unknown_seed_policies_are_refused(text):
    """Catches a policy that only fails at its key frame, an hour into the run."""
    with pytest.raises(ValueError, match=r"unknown seed policy|not a whole number|out of range"):
        key_frames(seed_policy, between="|")(text)
