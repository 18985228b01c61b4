"""The options of dltb-probe."""

from dataclasses import dataclass

from dltb.args.parser import number, option, whole


@dataclass(frozen=True)
class ProbeOptions:
    """What is tried, and where the numbers go."""

    passes: int = option(3, "passes to make; seconds leave the first out", metavar="N", parse=whole(1))
    references: int | None = option(
        None,
        "reference images a pass; the default is 2 for klein (dual-ref), 1 for others",
        metavar="N",
        parse=whole(1),
    )
    card_gb: float | None = option(
        None,
        "imitate a card of this size: give the process no more memory (CUDA)",
        metavar="GB",
        parse=number(0, above=True),
    )
    json: str | None = option(None, "write the numbers to this file too", metavar="FILE")
