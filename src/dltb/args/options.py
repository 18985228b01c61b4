"""The options that the loop tools share, one frozen dataclass per group of flags.

Knows names, defaults, help texts and what a single value may be; what depends on the model or on the machine is checked
where the model is chosen.
"""

from dataclasses import dataclass
from fractions import Fraction

from dltb.args.parser import frame_rate, key_frames, number, option, whole

TAIL_MODES = ("freeze", "free", "black")
TRACKERS = ("tensorboard", "wandb", "trackio", "mlflow", "comet_ml", "aim", "clearml", "dvclive", "swanlab")
CONDITIONINGS = ("blend", "dual-ref")
CONTROLS = ("identity", "vae")
REFERENCE_ORDERS = ("state-first", "frame-first")
FLOWS = ("farneback", "dis", "raft", "none")
SEED_POLICIES = ("fixed", "increment", "random")
HISTORY = ("residual", "realign", "clamp", "clip", "reject", "roundtrip", "confidence")


def tail_modes(text: str) -> tuple[str, ...]:
    """Parse ``freeze,free,black`` in any order, each at most once."""
    modes = tuple(part.strip() for part in text.split(","))
    unknown = [mode for mode in modes if mode not in TAIL_MODES]
    if unknown:
        raise ValueError(f"unknown tail mode {unknown[0]!r}; known: {', '.join(TAIL_MODES)}")
    if len(set(modes)) != len(modes):
        raise ValueError(f"a tail mode stands twice in {text!r}")
    return modes


def trackers(text: str) -> tuple[str, ...]:
    """Parse ``tensorboard,wandb``."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    unknown = [name for name in names if name not in TRACKERS]
    if unknown:
        raise ValueError(f"unknown tracker {unknown[0]!r}; known: {', '.join(TRACKERS)}")
    return names


def seed_policy(text: str) -> str:
    """Check ``fixed``, ``increment``, ``random`` or ``list:3,7,9``."""
    kind, _, numbers = text.partition(":")
    if kind == "list" and numbers:
        return "list:" + ",".join(str(whole(0, at_most=2**63 - 1)(part)) for part in numbers.split(","))
    if text not in SEED_POLICIES:
        raise ValueError(f"unknown seed policy {text!r}; known: {', '.join(SEED_POLICIES)}, list:3,7,9")
    return text


def history_methods(text: str) -> tuple[str, ...]:
    """Parse ``residual,clip,reject`` in any order, each at most once; the order of the result is the chain's."""
    methods = [part.strip() for part in text.split(",")]
    unknown = [method for method in methods if method not in HISTORY]
    if unknown:
        raise ValueError(f"unknown history method {unknown[0]!r}; known: {', '.join(HISTORY)}")
    return tuple(method for method in HISTORY if method in methods)


@dataclass(frozen=True)
class ModelOptions:
    """Which model makes a pass, and how."""

    model: str = option(
        "tiny-turbo",
        "key of the model table (sd-turbo, sdxl-turbo, ...; sd_turbo and SD-Turbo are the same); the tiny models are part "
        "of this package and need no download",
        metavar="KEY",
    )
    weights: str | None = option(
        None, "load this model from a local diffusers folder instead of the hub", metavar="DIR"
    )
    strength: float = option(
        0.4,
        "img2img denoising strength: the share of the noise schedule that is run; 1.0 starts from the full noise level",
        metavar="F",
        parse=number(0, 1, above=True),
    )
    num_inference_steps: int = option(
        4,
        "length of the denoising schedule; img2img models run about steps x strength of it",
        metavar="N",
        parse=whole(1, at_most=1000),
    )
    guidance_scale: float | None = option(
        None, "classifier-free guidance; the default is the model's own", metavar="F", parse=number(0)
    )
    prompt: str = option("", "the artistic direction; empty asks for no change", metavar="TEXT")
    negative_prompt: str = option("", "only matters where classifier-free guidance runs", metavar="TEXT")
    width: int | None = option(
        None, "width of a pass in pixels, a multiple of 16; the default is the model's native size", metavar="N"
    )
    height: int | None = option(
        None,
        "height, likewise; the input is centre-cropped to this shape, then resized",
        metavar="N",
    )
    seed: int = option(1234, "seed of the noise", metavar="N", parse=whole(0, at_most=2**63 - 1))
    fixed_seed: bool = option(True, "the same noise on every pass; otherwise pass n uses seed + n")
    offload: bool = option(False, "keep the model in main memory and move parts to the accelerator as they run")
    device: str | None = option(
        None,
        "where to run; the default is cuda, else mps, else an error (the tiny models also take the CPU)",
        choices=("cuda", "mps", "cpu"),
    )
    profile: str = option(
        "exact",
        "exact gives the bits of diffusers' own call; fast compiles the model, which rounds otherwise; fp8 also multiplies "
        "in 8 bits (CUDA, compute capability 8.9 or newer)",
        choices=("exact", "fast", "fp8"),
    )


@dataclass(frozen=True)
class SpeedOptions:
    """How the work beside the model is spread; none of it changes a result."""

    flow_workers: int | None = option(
        None,
        "threads that estimate optical flow ahead of the model; the default is half of the cores, from 2 to 8",
        metavar="N",
        parse=whole(1, at_most=64),
    )
    flow_cache: str | None = option(
        None,
        "keep every estimated flow in this folder, by content, for later runs of the same frames (8 bytes a pixel and "
        "direction)",
        metavar="DIR",
    )


@dataclass(frozen=True)
class VerifyOptions:
    """Where the reference comes from and where the verdict goes."""

    reference: str | None = option(None, "replay this captured reference instead of a new one", metavar="DIR")
    capture: str | None = option(None, "only capture a reference, into this folder", metavar="DIR")
    report: str | None = option(None, "also write the verdict and every check as JSON", metavar="FILE")


@dataclass(frozen=True)
class ControlOptions:
    """The same loop without the model, to compare with."""

    control: str | None = option(
        None,
        "run the loop without the denoiser: identity hands the model's input on, vae encodes and decodes it; a run's "
        "drift in excess of its control's is the model's",
        choices=CONTROLS,
    )


@dataclass(frozen=True)
class OutputOptions:
    """Where results go, and what happens to a run directory that exists."""

    output_dir: str | None = option(
        None, "parent of the run directory; the default is untracked/output_<model>", metavar="DIR"
    )
    overwrite: bool = option(False, "replace a run directory that exists")
    resume: bool = option(False, "go on with an unfinished run of the same settings (starts it when there is none)")
    metadata: bool = option(
        True, "name run, model, prompt, seed and pass in the text chunks of PNG files and the comment of mp4 files"
    )
    preview: int | None = option(
        None,
        "every N passes, bring preview.mp4 (preview_<tail>.mp4) up to date: a small video of the passes so far",
        metavar="N",
        parse=whole(1),
    )
    log_with: tuple[str, ...] | None = option(
        None,
        f"also send numbers, saved frames and settings to {', '.join(TRACKERS)} (to be installed by yourself)",
        metavar="T[,T...]",
        parse=trackers,
    )


@dataclass(frozen=True)
class ImageInput:
    """A still image to start from."""

    input: str = option("input_example/test_512.png", "the image to start from", metavar="IMAGE")


@dataclass(frozen=True)
class VideoInput:
    """A clip whose frames are the fresh frames N_n."""

    input: str = option("input_example/courtyard.mp4", "the clip whose frames are fed in, one by one", metavar="VIDEO")


@dataclass(frozen=True)
class IterateOptions:
    """How long a free run is, and what of it is kept."""

    iterations: int = option(200, "number of passes", metavar="N", parse=whole(1))
    save_every: int = option(
        1, "save every Nth pass as a PNG; the timelapse holds the saved passes", metavar="N", parse=whole(1)
    )
    video_fps: Fraction = option(
        Fraction(30), "frame rate of timelapse.mp4, such as 30 or 24000/1001", metavar="RATE", parse=frame_rate
    )


@dataclass(frozen=True)
class VideoOptions:
    """The video loop: what a pass is given, and what follows the clip."""

    mode: str = option(
        "stateful",
        "stateful carries the model's last output into the next pass; anchored makes every frame on its own (boil test)",
        choices=("anchored", "stateful"),
    )
    anchor_blend: float = option(
        0.3,
        "share a of the fresh frame in the model's input, (1-a) state + a frame: 0 is a free run, 1 equals anchored",
        metavar="A",
        parse=number(0, 1),
    )
    reproject: bool = option(True, "warp the carried state along the optical flow of the source frames")
    reproject_mask: bool = option(
        False, "where the warp has no valid history (disocclusions), take the fresh frame instead"
    )
    max_frames: int | None = option(
        None, "stop after N source frames; the default is the whole clip", metavar="N", parse=whole(1)
    )
    tail_frames: int = option(0, "passes to go on for after the clip, in each tail mode", metavar="N", parse=whole(0))
    tail_modes: tuple[str, ...] = option(
        ("freeze",),
        "what follows the clip, each from the same end state: freeze (the last frame stays), free (no fresh frame), "
        "black (black frames)",
        metavar="M[,M...]",
        parse=tail_modes,
    )
    save_every: int = option(
        10, "save every Nth pass as a PNG, in the main loop and in tails", metavar="N", parse=whole(1)
    )
    conditioning: str = option(
        "blend",
        "blend: one image, the pixel blend; dual-ref: carried state and fresh frame as two reference images",
        choices=CONDITIONINGS,
    )
    ref_order: str = option("state-first", "order of the two reference images under dual-ref", choices=REFERENCE_ORDERS)


@dataclass(frozen=True)
class MotionOptions:
    """Where the motion of the source comes from, and what a renderer knows about it."""

    flow: str = option(
        "farneback",
        "how the motion of the source frames is estimated; raft needs torchvision and its weights on this machine, none "
        "leaves the state where it is",
        choices=FLOWS,
    )
    motion_vectors: str | None = option(
        None,
        "take a renderer's motion vectors instead: .flo, .npy, .npz, .exr or KITTI .png, one file a frame (the first is "
        "ignored) or one a pair of frames; where --max-frames needs fewer than there are, and the clip more, they are "
        "taken as one a frame",
        metavar="DIR",
    )
    mv_direction: str = option(
        "to-previous",
        "to-previous: a point at p was at p + v in the previous frame; from-previous: it was at p - v",
        choices=("to-previous", "from-previous"),
    )
    mv_units: str = option(
        "px",
        "px of the vectors' own grid, uv (shares of the frame) or ndc (-1 to 1 across the frame)",
        choices=("px", "uv", "ndc"),
    )
    mv_y: str | None = option(
        None, "where y grows; the default is up for ndc and down for the others", choices=("down", "up")
    )
    mv_scale: float = option(1.0, "factor of every vector", metavar="F", parse=number(-1e6, 1e6))
    no_mv_check: bool = option(
        False, "go on with vectors that explain the first frames worse than no motion, or than their opposite"
    )
    mask: list[str] | None = option(
        None,
        "repaint what a renderer says could not be seen in the previous frame, in the place of "
        "--reproject-mask; .npz, .npy or .png, 0 is hidden, files as for --motion-vectors",
        metavar=("visibility", "DIR"),
        words=2,
    )


@dataclass(frozen=True)
class HistoryOptions:
    """What keeps the carried state from compounding; doc/algorithm/history.md explains each method."""

    history: tuple[str, ...] = option(
        (),
        "after the pass, blend what it made with the state moved along the motion (this is then P_n), rectified against it "
        "by any of: residual (carry the model's change, not the content), realign (low-frequency colour), clamp, clip "
        "(into the neighbourhood's colours), reject (where the moved source is not the source), roundtrip (where the "
        "estimated motion there and back does not close), confidence (length per pixel)",
        metavar="M[,M...]",
        parse=history_methods,
    )
    history_input: tuple[str, ...] = option(
        (),
        "before the pass, rectify the state that the model will see against the fresh frame, by the same methods",
        metavar="M[,M...]",
        parse=history_methods,
    )
    history_alpha: float = option(
        0.1,
        "least share of the new frame in --history (and, under dual-ref, in --history-input: a blend has --anchor-blend)",
        metavar="A",
        parse=number(0, 1, above=True),
    )
    history_gamma: float = option(
        1.0, "clip: half width of the box in standard deviations", metavar="F", parse=number(0, above=True)
    )
    history_carry: float = option(
        1.0, "residual in --history: share of the model's change that is carried on", metavar="F", parse=number(0, 1)
    )
    history_input_carry: float = option(0.9, "the same in --history-input", metavar="F", parse=number(0, 1))
    history_reject: float = option(
        12.0,
        "reject: levels by which the moved source may miss the source beyond the local contrast",
        metavar="F",
        parse=number(0, 255),
    )
    history_cut: float = option(
        0.65,
        "a cut, after which nothing is inherited: the moved source misses the source by more than this share of what an "
        "unrelated picture would; 1 finds hardly any",
        metavar="F",
        parse=number(0, 1),
    )
    reanchor_every: int = option(0, "drop all history every K passes; 0 never does", metavar="K", parse=whole(0))


@dataclass(frozen=True)
class ScheduleOptions:
    """Settings that change from pass to pass of the main loop; a tail keeps what the clip ended with."""

    strength_schedule: tuple[tuple[int, float], ...] | None = option(
        None,
        "--strength by key frames, PASS:VALUE,..., in straight lines between them",
        metavar="0:0.3,60:0.6",
        parse=key_frames(number(0, 1, above=True)),
    )
    blend_schedule: tuple[tuple[int, float], ...] | None = option(
        None, "--anchor-blend likewise", metavar="0:0.3,60:0.6", parse=key_frames(number(0, 1))
    )
    prompt_schedule: tuple[tuple[int, str], ...] | None = option(
        None,
        "--prompt by key frames with | between them; each holds until the next",
        metavar="0:TEXT|60:TEXT",
        parse=key_frames(str, between="|"),
    )
    seed_schedule: tuple[tuple[int, str], ...] | None = option(
        None,
        "in the place of --fixed-seed: fixed, increment (seed + pass), random (repeatable), or list:3,7,9 (in turn); also "
        "by key frames, 0:fixed|60:random",
        metavar="POLICY",
        parse=key_frames(seed_policy, between="|", example="0:fixed|60:random"),
    )
