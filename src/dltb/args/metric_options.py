"""The options of the tools that measure: which distance, and of what."""

from dataclasses import dataclass

from dltb.args.parser import number, option, whole


@dataclass(frozen=True)
class MetricOptions:
    """Which distance, and how it is computed."""

    metric: str = option(
        "dreamsim",
        "the distance: dreamsim (needs weights, about 1 to 4 GB), or flip, ssim, ms-ssim, pixel, which need none",
        metavar="M",
    )
    dreamsim_type: str = option(
        "ensemble",
        "which DreamSim: ensemble, dino_vitb16, clip_vitb32, open_clip_vitb32, dinov2_vitb14, synclr_vitb16",
        metavar="TYPE",
    )
    patch: bool = option(False, "the DreamSim trained on patch features too: dino_vitb16 and dinov2_vitb14 only")
    batch_size: int = option(8, "frames in one call of the metric's model", metavar="N", parse=whole(1))
    cache_dir: str = option(
        "untracked/models", "where DreamSim's weights are, or are downloaded to; made if missing", metavar="DIR"
    )
    retries: int = option(
        3,
        "times to try a failed download again, after 2, 4, 8, ... seconds",
        metavar="N",
        parse=whole(0, at_most=10),
    )
    converged_below: float | None = option(
        None,
        "a run has converged when its last frames' mean distance to the one before is below this; by default dreamsim "
        "0.01, flip 0.015, ssim 0.003, ms-ssim 0.0003, pixel 0.5",
        metavar="F",
        parse=number(0, above=True),
    )
    lag: int = option(
        2,
        "also the distance to the frame K before, in *_to_lag; near 0 with a large *_to_prev, the run is in a cycle of a "
        "period that divides K; 0 leaves the column out",
        metavar="K",
        parse=whole(0, at_most=64),
    )


@dataclass(frozen=True)
class DistanceOptions:
    """What dltb-distance is asked for, besides the metric."""

    source: str = option(
        "", "the folder of frames, or the run directory that holds it", metavar="RUN_DIR|FRAMES_DIR", positional=True
    )
    every: int = option(
        1, "take every Nth saved frame; *_to_prev is then to the frame taken before", metavar="N", parse=whole(1)
    )
    device: str | None = option(
        None, "where to run; the default is cuda, else mps, else the cpu", choices=("cuda", "mps", "cpu")
    )
    out: str | None = option(
        None, "the table to write; the default is distance_metrics.csv in the run directory", metavar="CSV"
    )
    json: str | None = option(None, "also write settings, summary and rows as JSON", metavar="FILE")
    against: str | None = option(
        None,
        "a second run: also the distance between frames of the same number, and how fast it grows",
        metavar="OTHER_RUN",
    )
