#!/usr/bin/env bash
# sweep-prompt.sh: a free run from one image for every prompt of a table, at every strength.
#
# For img2img models, those with a strength. Runs land in untracked/output_<model>/prompt-<slug>/strength<value>/. A leg
# that is complete is skipped, an unfinished one goes on.
#
#   MODEL        sd-turbo
#   IMG          the image (inputs.env)
#   PROMPTS      "none detail photo oil sketch pixel sepia sunset moonlight vivid"   which of the table
#   STRENGTHS    "0.4 0.55 0.8"   at 4 steps these run 1, 2 and 3 of them; 0.3 and 0.4 would be the same run
#   ITERATIONS   20
#   SAVE_EVERY   1                save every Nth pass; the timelapse holds the saved ones
#   VIDEO_FPS    12
#   OUT_PREFIX                    a folder of its own for this sweep, in the model's tree
#   EXTRA_ARGS                    more flags for every run, split at white space
#   DRY_RUN SKIP_GPU_CHECK        1: print the commands; 1: go on without CUDA or MPS

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
take_no_arguments "$@"
# shellcheck source=inputs.sh
. scripts/inputs.sh

MODEL=${MODEL:-sd-turbo}
PROMPTS=${PROMPTS:-none detail photo oil sketch pixel sepia sunset moonlight vivid}
STRENGTHS=${STRENGTHS:-0.4 0.55 0.8}

prompt_of() {
  case $1 in
    none) ;;
    detail) echo "slightly enhance the fine details" ;;
    photo) echo "enhance details and lighting, make it photorealistic" ;;
    oil) echo "an oil painting" ;;
    sketch) echo "a pencil sketch" ;;
    pixel) echo "pixel art" ;;
    sepia) echo "an old sepia photograph" ;;
    sunset) echo "warm sunset light" ;;
    moonlight) echo "cold blue moonlight" ;;
    vivid) echo "vivid saturated colors" ;;
    *) die "unknown prompt '$1' in PROMPTS; known: none detail photo oil sketch pixel sepia sunset moonlight vivid" ;;
  esac
}

for slug in $PROMPTS; do
  prompt_of "$slug" >/dev/null
done
case $MODEL in
  *[Kk]lein*) die "$MODEL has no strength; use scripts/sweep-klein.sh" ;;
esac
start "$MODEL"

for slug in $PROMPTS; do
  for strength in $STRENGTHS; do
    tool_leg "prompt $slug, strength $strength" dltb-iterate --model "$MODEL" --input "$IMG" \
      --prompt "$(prompt_of "$slug")" --strength "$strength" --iterations "${ITERATIONS:-20}" \
      --save-every "${SAVE_EVERY:-1}" --video-fps "${VIDEO_FPS:-12}" --resume \
      --output-dir "$(out_dir "$MODEL" "prompt-$slug/strength$strength")"
  done
done
finished
