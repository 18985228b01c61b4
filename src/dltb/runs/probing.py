"""How much memory a model takes on this machine: loaded, at its peak, and whether it needs --offload."""

import statistics
import sys
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from dltb import RunError, UsageError
from dltb.args.options import ModelOptions
from dltb.args.probe_options import ProbeOptions
from dltb.imaging import prepare_frame
from dltb.imaging.frames import read_image
from dltb.models import memory
from dltb.models.environment import describe_environment
from dltb.models.memory import GIB
from dltb.output.files import check_report, write_json
from dltb.runs.inputs import find_input
from dltb.runs.model import ModelChoice, choose_model, load_model

TOOL = "dltb-probe"
CONTEXT = 0.7 * GIB  # bytes that CUDA itself takes of a card, and a little air
CARDS = (8, 12, 16, 24, 32, 40, 48, 80, 96, 141)  # GB, of cards that can be rented or bought


@dataclass(frozen=True)
class Measured:
    """One way to place the model, tried. Memory in GiB."""

    placement: str  # native or offload
    fits: bool
    loaded: float | None = None
    peak_allocated: float | None = None
    peak_reserved: float | None = None
    seconds_per_pass: float | None = None  # median, the first pass left out where there are more


def run_probe(input_text: str, model: ModelOptions, options: ProbeOptions) -> int:
    """Try the model in the device's memory, with --offload if it does not fit, and say what it took."""
    path = find_input(input_text)
    report = check_report(options.json, tool=TOOL, flag="--json")
    choice = choose_model(model)
    references = _references(choice, options)
    if options.card_gb is not None:
        memory.limit(choice.device, options.card_gb * GIB)
    picture = prepare_frame(read_image(path), choice.settings.width, choice.settings.height)
    images = [picture] * references
    print(_header(choice, references, options))
    tried = [_try(choice, images, options.passes)]
    print(_line(tried[0]))
    if not tried[0].fits and not choice.offload and choice.device != "cpu":
        tried.append(_try(replace(choice, offload=True), images, options.passes))
        print(_line(tried[1]))
    if report is not None:
        write_json(report, _facts(choice, references, options, tried))
    if not tried[-1].fits:
        raise RunError(f"{choice.spec.key} does not fit here, not even with --offload: take a larger card")
    print(_verdict(tried[-1], choice))
    return 0


def _references(choice: ModelChoice, options: ProbeOptions) -> int:
    most = choice.spec.max_references
    count = options.references or (2 if choice.spec.edits_references else 1)
    if most is not None and count > most:
        raise UsageError(f"--references {count}: {choice.spec.key} takes {most}")
    return count


def _try(choice: ModelChoice, images: list[np.ndarray], passes: int) -> Measured:
    placement = "offload" if choice.offload else "native"
    try:
        return _measure(choice, images, passes, placement)
    except RunError as error:
        if not memory.is_out_of_memory(error):
            raise
    # Out of the except block: until then the error keeps the model alive.
    memory.release(choice.device)
    return Measured(placement, fits=False)


def _measure(choice: ModelChoice, images: list[np.ndarray], passes: int, placement: str) -> Measured:
    memory.forget_peak(choice.device)
    generate = load_model(choice, lambda note: print(f"NOTE: {note}", file=sys.stderr))
    loaded = memory.used_now(choice.device)
    seconds = [generate(images, index).seconds for index in range(1, passes + 1)]
    peak = memory.used_at_most(choice.device)
    return Measured(
        placement,
        fits=True,
        loaded=loaded.allocated / GIB,
        peak_allocated=peak.allocated / GIB,
        peak_reserved=peak.reserved / GIB,
        seconds_per_pass=statistics.median(seconds[1:] or seconds),
    )


def _header(choice: ModelChoice, references: int, options: ProbeOptions) -> str:
    size = f"{choice.settings.width}x{choice.settings.height}"
    there = f"{memory.installed(choice.device) / GIB:.1f} GiB"
    card = f", limited to {options.card_gb:g} GB" if options.card_gb is not None else ""
    images = f"{references} reference{'s' if references > 1 else ''}, " if choice.spec.edits_references else ""
    name = describe_environment(choice.device)["device_name"]
    return f"{choice.spec.key} {size}, {images}{options.passes} passes on {choice.device} ({name}, {there}{card})"


def _line(tried: Measured) -> str:
    if not tried.fits:
        return f"{tried.placement}: out of memory"
    return (
        f"{tried.placement}: fits; {tried.loaded:.2f} GiB loaded, peak {tried.peak_allocated:.2f} GiB in tensors and "
        f"{tried.peak_reserved:.2f} GiB held, {tried.seconds_per_pass:.3f} s/pass"
    )


def _verdict(tried: Measured, choice: ModelChoice) -> str:
    need = "needs --offload" if tried.placement == "offload" and not choice.offload else "as asked"
    if tried.placement == "native":
        need = "no --offload needed"
    if choice.device != "cuda":
        return f"verdict: {need}"
    card = smallest_card(tried.peak_allocated * GIB)
    return f"verdict: {need}; by its peak in tensors it fits a card of {card} GB" if card else f"verdict: {need}"


def smallest_card(peak: float) -> int | None:
    """The smallest of CARDS, in GB, that holds ``peak`` bytes and what CUDA takes; None where none does.

    A card of N GB has about 0.97 N GiB for its programs.
    """
    return next((card for card in CARDS if peak + CONTEXT <= 0.97 * card * GIB), None)


def _facts(choice: ModelChoice, references: int, options: ProbeOptions, tried: list[Measured]) -> dict[str, Any]:
    return {
        "tool": TOOL,
        "date": datetime.now(UTC).date().isoformat(),
        "model": choice.spec.key,
        "size": [choice.settings.width, choice.settings.height],
        "references": references,
        "steps": choice.settings.num_inference_steps,
        "card_gb": options.card_gb,
        "installed_gib": memory.installed(choice.device) / GIB,
        "tried": [asdict(way) for way in tried],
        "environment": describe_environment(choice.device),
    }
