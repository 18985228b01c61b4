#!/usr/bin/env bash
# sweep-klein-mask.sh: what the disocclusion mask does on top of the warp, under dual-ref.
#
# Two legs with the same seed, prompt and steps, --reproject and --reproject --reproject-mask, in
# untracked/output_<model>/mask-ab/. Compare them with dltb-compare, by statistics: frames of the two decorrelate. A leg
# that is complete is skipped, an unfinished one goes on.
#
#   MODEL         flux2-klein-9b
#   CLIP          the clip (inputs.env)
#   PROMPT        the role-naming prompt of enhance-slight; may be empty. Another prompt wants an OUT_PREFIX
#   MAX_FRAMES    300            source frames; empty: all
#   TAIL_FRAMES   60             passes of the freeze tail
#   SAVE_EVERY    10             save every Nth pass as a PNG
#   OFFLOAD       0              1: --offload
#   OUT_PREFIX                   a folder of its own for this sweep, in the model's tree
#   EXTRA_ARGS                   more flags for every run, split at white space
#   DRY_RUN SKIP_GPU_CHECK       1: print the commands; 1: go on without CUDA or MPS

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
take_no_arguments "$@"
# shellcheck source=inputs.sh
. scripts/inputs.sh
# shellcheck source=klein-prompts.sh
. scripts/klein-prompts.sh

MODEL=${MODEL:-flux2-klein-9b}
PROMPT=${PROMPT-$(with_roles "$(instruction enhance-slight)" state-first)}
start "$MODEL"

same=(--model "$MODEL" --input "$CLIP" --conditioning dual-ref --prompt "$PROMPT" --tail-frames "${TAIL_FRAMES:-60}"
  --tail-modes freeze --save-every "${SAVE_EVERY:-10}" --resume --output-dir "$(out_dir "$MODEL" mask-ab)")
[ -z "${MAX_FRAMES-300}" ] || same+=(--max-frames "${MAX_FRAMES-300}")
! is_on "${OFFLOAD:-0}" || same+=(--offload)

tool_leg "the warp alone" dltb-klein "${same[@]}" --reproject
tool_leg "warp and mask" dltb-klein "${same[@]}" --reproject --reproject-mask
finished
