"""The options of a distance between frames, shared by the tools that measure one."""

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
