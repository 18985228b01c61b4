#!/usr/bin/env bash
# sweep.sh: one clip through several models, and what the carried state does to each.
#
# Per model: the boil test (every frame on its own); the blend sweep with freeze tails, all three tails at the baseline;
# the semantic anchor (the baseline with a description as prompt, in prompt/); the strength probe (the baseline at another
# strength, in strength<value>/). Runs land in untracked/output_<model>/. A leg that is complete is skipped, an
# unfinished one goes on.
#
#   MODELS           "sd-turbo sdxl-turbo flux-schnell flux2-klein-9b"
#   CLIP             the clip (inputs.env)
#   BLENDS           "0.6 0.7 0.8"   anchor blends
#   BASELINE         0.7             the blend of the three tails, the prompt and the strength probe
#   MAX_FRAMES       300             source frames; empty: all
#   TAIL_FRAMES      60              passes of each tail
#   SAVE_EVERY       10              save every Nth pass as a PNG
#   STRENGTH         0.55            of the strength probe; empty: no probe
#   STRENGTH_MODELS                  models that get it; unset: those of MODELS that have a strength
#   DESC                             what the semantic anchor says; empty: no such leg
#   REPROJECT        1               0: carry the state without the warp
#   OFFLOAD          0               1: --offload
#   EVICT_CACHE      0               1: keep only the model at work in the hub cache
#   OUT_PREFIX                       a folder of its own for this sweep, in each model's tree
#   EXTRA_ARGS                       more flags for every run, split at white space
#   DRY_RUN SKIP_GPU_CHECK           1: print the commands; 1: go on without CUDA or MPS

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
take_no_arguments "$@"
# shellcheck source=inputs.sh
. scripts/inputs.sh

MODELS=${MODELS:-sd-turbo sdxl-turbo flux-schnell flux2-klein-9b}
BLENDS=${BLENDS:-0.6 0.7 0.8}
BASELINE=${BASELINE:-0.7}
TAIL_FRAMES=${TAIL_FRAMES:-60}
STRENGTH=${STRENGTH-0.55}
DESC=${DESC-a sharp, natural photograph of the same scene}
warp=$(as_switch "${REPROJECT:-1}" --reproject --no-reproject)

# shellcheck disable=SC2086 # words of a list
start $MODELS

clip=(--input "$CLIP" --save-every "${SAVE_EVERY:-10}" --resume)
[ -z "${MAX_FRAMES-300}" ] || clip+=(--max-frames "${MAX_FRAMES-300}")
! is_on "${OFFLOAD:-0}" || clip+=(--offload)

# has_strength MODEL: whether it gets the strength probe.
has_strength() {
  case " ${STRENGTH_MODELS-$MODELS} " in
    *" $1 "*) ;;
    *) return 1 ;;
  esac
  case $1 in
    *[Kk]lein*) return 1 ;; # regenerates from pure noise
  esac
}

# continuous WHAT SUBTREE ARGUMENT...
continuous() {
  local what=$1 subtree=$2
  shift 2
  tool_leg "$model: $what" dltb-continuous --model "$model" "${clip[@]}" --output-dir "$(out_dir "$model" "$subtree")" "$@"
}

# stateful WHAT SUBTREE BLEND TAIL_MODES ARGUMENT...
stateful() {
  local what=$1 subtree=$2 blend=$3 tails=$4
  shift 4
  continuous "$what" "$subtree" --anchor-blend "$blend" "$warp" --tail-frames "$TAIL_FRAMES" \
    --tail-modes "$tails" "$@"
}

for model in $MODELS; do
  ! is_on "${EVICT_CACHE:-0}" || leg "$model: make room" scripts/hf-cache.sh keep "$model"
  continuous "boil test" "" --mode anchored
  stateful "baseline $BASELINE, all tails" "" "$BASELINE" freeze,free,black
  for blend in $BLENDS; do
    [ "$blend" = "$BASELINE" ] || stateful "blend $blend" "" "$blend" freeze
  done
  [ -z "$DESC" ] || stateful "semantic anchor" prompt "$BASELINE" freeze --prompt "$DESC"
  if [ -n "$STRENGTH" ] && has_strength "$model"; then
    stateful "strength $STRENGTH" "strength$STRENGTH" "$BASELINE" freeze --strength "$STRENGTH"
  fi
done
finished
