"""The legs of the study: their names, their flags, and which of them a command asks for."""

import argparse
from pathlib import Path

INDEPENDENT = "independent"
BLENDS = ("0.05", "0.1", "0.3", "0.5")
MEAN = ["--history", "residual,reject,confidence"]
CLIPPED = ["--history-input", "residual,clip"]
# leg -> flags; the reference curve, then what is tried against it.
REFERENCE = {INDEPENDENT: ["--mode", "anchored"]} | {f"reference a={a}": ["--anchor-blend", a] for a in BLENDS}
LEGS = REFERENCE | {
    "after: mean": ["--mode", "anchored", "--history", "reject,confidence"],
    "after: clip": ["--mode", "anchored", "--history", "clip,reject,confidence"],
    "after: residual": ["--mode", "anchored", *MEAN],
    "before: clip a=0.1": ["--anchor-blend", "0.1", "--history-input", "clip"],
    "before: clamp a=0.1": ["--anchor-blend", "0.1", "--history-input", "clamp"],
    "before: residual a=0.1": ["--anchor-blend", "0.1", "--history-input", "residual"],
    "before: residual, clip a=0.1": ["--anchor-blend", "0.1", *CLIPPED],
    "before: realign a=0.1": ["--anchor-blend", "0.1", "--history-input", "realign"],
    "before: confidence, reject a=0.1": ["--anchor-blend", "0.1", "--history-input", "reject,confidence"],
    "reanchored every 24 a=0.1": ["--anchor-blend", "0.1", "--history-input", "reject", "--reanchor-every", "24"],
    "after only a=0.1": ["--anchor-blend", "0.1", *MEAN],
    **{f"both a={a}": ["--anchor-blend", a, *CLIPPED, *MEAN] for a in BLENDS},
    **{f"both a=0.1, gamma {g}": ["--anchor-blend", "0.1", *CLIPPED, *MEAN, "--history-gamma", g] for g in ("2", "4")},
    "both a=0.1, farneback": ["--anchor-blend", "0.1", *CLIPPED, *MEAN, "--flow", "farneback"],
    "both a=0.1, dis": ["--anchor-blend", "0.1", *CLIPPED, *MEAN, "--flow", "dis"],
}
DUAL = ["--conditioning", "dual-ref"]
KLEIN_LEGS = LEGS | {
    "reference dual-ref": DUAL,
    "dual-ref before: clip": [*DUAL, "--history-input", "clip"],
    "dual-ref both": [*DUAL, *CLIPPED, *MEAN],
}
CORE = ("after: residual", "before: clip a=0.1", *(f"both a={a}" for a in BLENDS))
CORE += (*REFERENCE, "both a=0.1, farneback", "reference dual-ref", "dual-ref both")
NOISES = {"fixed": [], "fresh": ["--no-fixed-seed"]}
Leg = tuple[str, str, str]  # model, noise, leg


def wanted_legs(args: argparse.Namespace) -> list[Leg]:
    """What was asked for, in the order of the report; ValueError names legs that none of the models has."""
    known = {leg for model in args.models for leg in (KLEIN_LEGS if model == "tiny-klein" else LEGS)}
    if unknown := [leg for leg in args.only or () if leg not in known]:
        raise ValueError(f"no such leg: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    found = []
    for model in args.models:
        legs = KLEIN_LEGS if model == "tiny-klein" else LEGS
        only = args.only or (CORE if args.core else legs)
        wanted = [leg for leg in legs if leg == INDEPENDENT or leg in only]
        found += [(model, noise, leg) for noise in args.noise for leg in wanted]
    return found


def flags_of(model: str, leg: str, clip: Path, vectors: Path, args: argparse.Namespace) -> list[str]:
    """The command line of a leg, less its output folder."""
    own = (KLEIN_LEGS if model == "tiny-klein" else LEGS)[leg]
    size = ["--width", str(args.size), "--height", str(args.size)]
    exact = [] if "--flow" in own else ["--motion-vectors", str(vectors), "--mask", "visibility", str(vectors)]
    if "--history-input" not in own and "--history" not in own and exact:
        exact = exact[:2]  # the reference loop has no mask
    device = ["--device", args.device] if args.device else []
    common = ["--model", model, "--input", str(clip), "--save-every", "1", "--resume", "--prompt", args.prompt]
    return [*common, *size, *device, *exact, *own]


def slug_of(text: str) -> str:
    """A text as a file name."""
    return "".join(letter if letter.isalnum() or letter in ".=" else "-" for letter in text)
