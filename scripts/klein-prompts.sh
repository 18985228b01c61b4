# shellcheck shell=bash
# The klein drivers' prompts. Sourced.

LADDER="neutral enhance-slight enhance-photo enhance-dramatic weathering"

# instruction SLUG: what a rung asks for. Weathering is no rung of its own strength: it asks for content that the clip
# does not have, and shows whether the loop runs away to it.
instruction() {
  case $1 in
    neutral) ;;
    enhance-slight) echo "slightly enhance the fine details" ;;
    enhance-photo) echo "enhance details and lighting, make it photorealistic" ;;
    enhance-dramatic) echo "dramatically enhance every texture and surface detail" ;;
    weathering) echo "add more weathering, moss and water stains to the stone" ;;
    *) die "unknown prompt '$1' in PROMPTS; known: $LADDER" ;;
  esac
}

# with_roles INSTRUCTION REF_ORDER: names the two references by number. Convention: numbers start at 1, in the order in
# which the references are passed. An empty instruction stays empty: the neutral control.
with_roles() {
  [ -n "$1" ] || return 0
  case $2 in
    state-first) echo "image 2 is the current frame; keep the appearance of image 1, $1" ;;
    frame-first) echo "image 1 is the current frame; keep the appearance of image 2, $1" ;;
    *) die "REF_ORDER is state-first or frame-first, got '$2'" ;;
  esac
}
