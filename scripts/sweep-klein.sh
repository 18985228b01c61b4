#!/usr/bin/env bash
# sweep-klein.sh: one clip through a FLUX.2 klein editor, by prompt and by number of steps.
#
# Klein has no strength and its guidance is inert; the prompt and the steps are what moves it. The prompt ladder (neutral,
# enhance-slight, enhance-photo, enhance-dramatic, then weathering), each in prompt-<slug>/, and enhance-slight at other
# numbers of steps, each in steps<N>/. Under CONDITIONING=dual-ref the prompts name the roles of the two references, and
# every leg runs with and without the warp. Runs land in untracked/output_<model>/, those of REF_ORDER=frame-first in
# frame-first/ there. A leg that is complete is skipped, an unfinished one goes on.
#
#   MODEL          flux2-klein-9b
#   CLIP           the clip (inputs.env)
#   CONDITIONING   blend          or dual-ref: state and frame as two references
#   BLEND          0.1            anchor blend (blend only)
#   PROMPTS        "neutral enhance-slight enhance-photo enhance-dramatic weathering"
#   STEPS          "2 8"          numbers of steps to probe; empty: none
#   REF_ORDER      state-first    or frame-first (dual-ref only)
#   REPROJECT      1              1, 0, or ab for both; ab under dual-ref
#   MAX_FRAMES     300            source frames; empty: all
#   TAIL_FRAMES    60             passes of the freeze tail
#   SAVE_EVERY     10             save every Nth pass as a PNG
#   OFFLOAD        0              1: --offload
#   OUT_PREFIX                    a folder of its own for this sweep, in the model's tree
#   EXTRA_ARGS                    more flags for every run, split at white space
#   DRY_RUN SKIP_GPU_CHECK        1: print the commands; 1: go on without CUDA or MPS

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
take_no_arguments "$@"
# shellcheck source=inputs.sh
. scripts/inputs.sh
# shellcheck source=klein-prompts.sh
. scripts/klein-prompts.sh

MODEL=${MODEL:-flux2-klein-9b}
CONDITIONING=${CONDITIONING:-blend}
PROMPTS=${PROMPTS:-$LADDER}
REF_ORDER=${REF_ORDER:-state-first}

case $CONDITIONING in
  blend)
    REPROJECT=${REPROJECT:-1}
    how=(--conditioning blend --anchor-blend "${BLEND:-0.1}")
    ;;
  dual-ref)
    REPROJECT=${REPROJECT:-ab}
    how=(--conditioning dual-ref --ref-order "$REF_ORDER")
    ;;
  *) die "CONDITIONING is blend or dual-ref, got '$CONDITIONING'" ;;
esac
case $REPROJECT in
  1) warps=--reproject ;;
  0) warps=--no-reproject ;;
  ab) warps="--reproject --no-reproject" ;;
  *) die "REPROJECT is 1, 0 or ab, got '$REPROJECT'" ;;
esac

# prompt_of SLUG: as the conditioning wants it.
prompt_of() {
  local text
  text=$(instruction "$1")
  if [ "$CONDITIONING" = dual-ref ]; then with_roles "$text" "$REF_ORDER"; else printf '%s\n' "$text"; fi
}

for slug in $PROMPTS; do
  prompt_of "$slug" >/dev/null
done
start "$MODEL"

how+=(--input "$CLIP" --tail-frames "${TAIL_FRAMES:-60}" --tail-modes freeze --save-every "${SAVE_EVERY:-10}" --resume)
[ -z "${MAX_FRAMES-300}" ] || how+=(--max-frames "${MAX_FRAMES-300}")
! is_on "${OFFLOAD:-0}" || how+=(--offload)

# klein WHAT SUBTREE SLUG ARGUMENT...: with each of the warps.
klein() {
  local what=$1 subtree=$2 prompt warp
  prompt=$(prompt_of "$3")
  shift 3
  [ "$CONDITIONING $REF_ORDER" != "dual-ref frame-first" ] || subtree=frame-first/$subtree # no tag says the order
  for warp in $warps; do
    tool_leg "$what, $warp" dltb-klein --model "$MODEL" "${how[@]}" "$warp" --prompt "$prompt" \
      --output-dir "$(out_dir "$MODEL" "$subtree")" "$@"
  done
}

for slug in $PROMPTS; do
  klein "prompt $slug" "prompt-$slug" "$slug"
done
for steps in ${STEPS-2 8}; do
  klein "$steps steps" "steps$steps" enhance-slight --num-inference-steps "$steps"
done
finished
