"""What outputs say about themselves."""

import json

from dltb.output.identity import describe_output, run_id


def test_the_id_follows_from_the_settings():
    """Catches an id from a clock or a counter: a resumed run must write the bytes of one that was never stopped."""
    settings = {"seed": 1, "prompt": "a", "strength": 0.4}
    assert run_id("dltb-x", settings) == run_id("dltb-x", dict(reversed(settings.items())))
    assert run_id("dltb-x", settings) != run_id("dltb-x", settings | {"prompt": "b"})
    assert run_id("dltb-x", settings) != run_id("dltb-y", settings)


def test_the_pass_has_the_last_word_on_its_seed():
    """Catches the run's first seed on every pass under --no-fixed-seed, and empty settings that say nothing."""
    settings = {"model": "tiny-turbo", "seed": 50, "prompt": "", "control": None, "width": 64}
    told = json.loads(describe_output("dltb-x", settings, phase="main", **{"pass": 3}, seed=53))
    assert told == {"run": told["run"], "tool": "dltb-x", "model": "tiny-turbo", "seed": 53, "phase": "main", "pass": 3}
