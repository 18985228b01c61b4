#!/usr/bin/env bash
# smoke-local.sh: one pass of every model that fits a consumer machine, and how long it takes.
#
# Each frame is checked for being a picture at all (not one colour). Times are wall clock with start-up and loading; the
# first run of a model adds its download. Runs land in untracked/output_<model>/smoke-local/ and replace the last ones.
#
#   MODELS       "sd-turbo sdxl-turbo flux2-klein-4b"   others may be named; nothing blocks trying
#   IMG          the image (inputs.env)
#   EXTRA_ARGS   more flags for every run, split at white space
#   DRY_RUN SKIP_GPU_CHECK   1: print the commands; 1: go on without CUDA or MPS

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
take_no_arguments "$@"
# shellcheck source=inputs.sh
. scripts/inputs.sh

MODELS=${MODELS:-sd-turbo sdxl-turbo flux2-klein-4b}
OUT_PREFIX=${OUT_PREFIX:+${OUT_PREFIX%/}/}smoke-local
# shellcheck disable=SC2086 # words of a list
start $MODELS

name=${IMG##*/}
times=
for model in $MODELS; do
  out=$(out_dir "$model")
  began=$SECONDS
  tool_leg "$model: one pass" dltb-oneshot --model "$model" --input "$IMG" --output-dir "$out" --overwrite
  times="$times$model: $((SECONDS - began)) s wall clock
"
  leg "$model: is it a picture" "$VENV/bin/python" scripts/check_picture.py "$out/${name%.*}_oneshot/frames/frame_0001.png"
done
if ! is_dry; then
  say ""
  say "${times%?}"
fi
finished
