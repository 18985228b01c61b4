"""Run directory names are part of the contract: scripts and users look for them."""

import pytest

from dltb.output.naming import output_root, tails_tag, video_tag


@pytest.mark.parametrize(
    ("arguments", "tag"),
    [
        (("anchored", "blend", 0.3, True, False), "anchored"),
        (("anchored", "dual-ref", 0.3, True, True), "anchored"),
        (("stateful", "blend", 0.3, True, False), "stateful-a0.3"),
        (("stateful", "blend", 0.30000000000000004, True, True), "stateful-a0.3-fbmask"),
        (("stateful", "blend", 1.0, False, False), "stateful-a1-norepro"),
        (("stateful", "dual-ref", 0.1, True, False), "dualref"),
        (("stateful", "dual-ref", 0.1, True, True), "dualref-fbmask"),
        (("stateful", "dual-ref", 0.1, False, False), "dualref-norepro"),
    ],
)
def test_tags(arguments, tag):
    """Catches a renamed directory, and two settings that share one."""
    names = ("mode", "conditioning", "anchor_blend", "reproject", "reproject_mask")
    assert video_tag(**dict(zip(names, arguments, strict=True))) == tag


def test_tails_and_root():
    """Catches a tag for tails that do not run."""
    assert tails_tag(("freeze", "free", "black"), 60) == "_tailsfreeze-free-black60"
    assert tails_tag(("freeze",), 0) == ""
    assert output_root(None, "sd-turbo").as_posix() == "untracked/output_sd_turbo"
    assert output_root("x/y", "sd-turbo").as_posix() == "x/y"
