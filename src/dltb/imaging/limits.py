"""Which sizes a pass can have. Standard library only, so that a request can be refused before anything is imported."""

from dltb import UsageError

MAX_SIDE = 16384  # px; x264 encodes no longer side, and no model here comes near it
SIZE_STEP = 16  # px; klein packs 2x2 latents of 8x8 px, the other models' steps divide it

# Limits of diffusers' Flux2ImageProcessor: it refuses smaller and longer images, and shrinks larger ones unasked.
MIN_REFERENCE_SIDE = 64  # px
MAX_REFERENCE_ASPECT = 8
MAX_REFERENCE_AREA = 1024 * 1024  # px


def check_side(name: str, pixels: int) -> None:
    """Refuse a side that the pipelines would round to their own step unasked."""
    if pixels <= 0 or pixels % SIZE_STEP:
        nearest = max(SIZE_STEP, round(pixels / SIZE_STEP) * SIZE_STEP)
        raise UsageError(f"{name} {pixels}: a positive multiple of {SIZE_STEP} is needed; the nearest is {nearest}")
    if pixels > MAX_SIDE:
        raise UsageError(f"{name} {pixels}: at most {MAX_SIDE} px")


def check_reference_size(key: str, width: int, height: int) -> None:
    """Refuse sizes (px) that the klein pipelines would refuse in the middle of a run, or would shrink unasked."""
    if min(width, height) < MIN_REFERENCE_SIDE:
        raise UsageError(f"{width}x{height} px: {key} needs at least {MIN_REFERENCE_SIDE} px on each side")
    if max(width, height) > MAX_REFERENCE_ASPECT * min(width, height):
        raise UsageError(f"{width}x{height} px: {key} takes an aspect of at most {MAX_REFERENCE_ASPECT}:1")
    if width * height > MAX_REFERENCE_AREA:
        raise UsageError(
            f"{width}x{height} px: {key} shrinks references above {MAX_REFERENCE_AREA} px (1024x1024), so every pass "
            "would lose detail; give a smaller --width or --height"
        )
