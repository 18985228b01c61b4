"""The options of dltb-report."""

from dataclasses import dataclass

from dltb.args.parser import option, whole


@dataclass(frozen=True)
class ReportOptions:
    """What dltb-report is asked for, besides the runs."""

    out: str | None = option(
        None, "folder for the pages, made if missing; the default is the run's, or the folder's", metavar="DIR"
    )
    source: str | None = option(None, "the clip that the runs were made from", metavar="VIDEO")
    embed: bool = option(False, "put videos and full frames into the page too: one file to send, as large as they are")
    thumbnail: int = option(
        224, "longer side of the small pictures, in pixels", metavar="PX", parse=whole(32, at_most=1024)
    )
    motion_every: int | None = option(
        None,
        "estimate flow again (for flow, mask and model input) on every Nth pass shown; the default is every one up to 300 "
        "passes of 256 x 256 pixels, fewer of larger ones",
        metavar="N",
        parse=whole(1),
    )
    frames: int = option(
        300, "passes that a scrubber holds; of longer runs as many, evenly chosen", metavar="N", parse=whole(2)
    )
