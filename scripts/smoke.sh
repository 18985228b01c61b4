#!/usr/bin/env bash
# smoke.sh: does everything work here, end to end? A few passes of each tool on one model, and are the files there.
#
# Cache status, dltb-oneshot, dltb-iterate, dltb-continuous with all tails, the same anchored. Runs land in
# untracked/output_<model>/smoke/ and replace those of the last smoke test.
#
#   MODEL            sd-turbo
#   IMG CLIP         the inputs (inputs.env)
#   ITERATIONS       3     passes of dltb-iterate
#   MAX_FRAMES       4     source frames
#   TAIL_FRAMES      2     passes of each tail
#   SMOKE_KLEIN      0     1: dltb-klein too, dual-ref with the mask, on
#   KLEIN_MODEL      flux2-klein-4b
#   SMOKE_DISTANCE   0     1: score the frames of dltb-iterate with DreamSim (downloads 2.7 GB once), or the name of
#                          another metric, such as flip, which downloads nothing
#   EXTRA_ARGS             more flags for every run of a model, split at white space
#   DRY_RUN SKIP_GPU_CHECK 1: print the commands; 1: go on without CUDA or MPS

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
take_no_arguments "$@"
# shellcheck source=inputs.sh
. scripts/inputs.sh

MODEL=${MODEL:-sd-turbo}
KLEIN_MODEL=${KLEIN_MODEL:-flux2-klein-4b}
ITERATIONS=${ITERATIONS:-3}
SMOKE_DISTANCE=${SMOKE_DISTANCE:-0}
OUT_PREFIX=${OUT_PREFIX:+${OUT_PREFIX%/}/}smoke

models=("$MODEL")
! is_on "${SMOKE_KLEIN:-0}" || models+=("$KLEIN_MODEL")
start "${models[@]}"

# stem PATH: the file's name without its suffix.
stem() {
  local name=${1##*/}
  printf '%s\n' "${name%.*}"
}

# expect FILE...: they are there and not empty.
expect() {
  local file
  for file in "$@"; do
    run test -s "$file" || failed "$file is missing" 1
  done
}

out=$(out_dir "$MODEL")
budget=(--max-frames "${MAX_FRAMES:-4}" --save-every 1)
tails=(--tail-frames "${TAIL_FRAMES:-2}" --tail-modes "freeze,free,black")
last=$(printf '%04d' "$ITERATIONS") # frames are numbered with four digits at least

leg "cache" scripts/hf-cache.sh status

tool_leg "one pass" dltb-oneshot --model "$MODEL" --input "$IMG" --output-dir "$out" --overwrite
run_dir=$out/$(stem "$IMG")_oneshot
expect "$run_dir/frame_0000_original.png" "$run_dir/frames/frame_0001.png" "$run_dir/run.json"

tool_leg "free run" dltb-iterate --model "$MODEL" --input "$IMG" --iterations "$ITERATIONS" --output-dir "$out" --overwrite
run_dir=$out/$(stem "$IMG")_free-running
expect "$run_dir/frames/frame_0001.png" "$run_dir/frames/frame_$last.png" "$run_dir/timelapse.mp4"
case $SMOKE_DISTANCE in
  0) ;;
  *)
    [ "$SMOKE_DISTANCE" != 1 ] || SMOKE_DISTANCE=dreamsim
    leg "distance" "$VENV/bin/dltb-distance" "$run_dir" --metric "$SMOKE_DISTANCE"
    expect "$run_dir/distance_metrics.csv"
    ;;
esac

tool_leg "clip and all tails" dltb-continuous --model "$MODEL" --input "$CLIP" "${budget[@]}" "${tails[@]}" \
  --output-dir "$out" --overwrite
run_dir=$out/$(stem "$CLIP")_stateful-a0.3_tailsfreeze-free-black${TAIL_FRAMES:-2}
expect "$run_dir/processed_stateful.mp4" "$run_dir/end_state.png" "$run_dir/frames/frame_0001.png"
for mode in freeze free black; do
  expect "$run_dir/tail_$mode.mp4" "$run_dir/frames/$mode frame_0001.png"
done

tool_leg "every frame on its own" dltb-continuous --model "$MODEL" --input "$CLIP" "${budget[@]}" --mode anchored \
  --output-dir "$out" --overwrite
run_dir=$out/$(stem "$CLIP")_anchored
expect "$run_dir/processed_anchored.mp4" "$run_dir/frames/frame_0001.png"

if is_on "${SMOKE_KLEIN:-0}"; then
  out=$(out_dir "$KLEIN_MODEL")
  tool_leg "two references" dltb-klein --model "$KLEIN_MODEL" --input "$CLIP" "${budget[@]}" --conditioning dual-ref \
    --reproject-mask --tail-frames "${TAIL_FRAMES:-2}" --output-dir "$out" --overwrite
  run_dir=$out/$(stem "$CLIP")_dualref-fbmask_tailsfreeze${TAIL_FRAMES:-2}
  expect "$run_dir/processed_stateful.mp4" "$run_dir/tail_freeze.mp4"
fi
finished
