# shellcheck shell=bash
# The drivers' inputs: IMG, CLIP and EVICT_CACHE. Sourced after common.sh.
#
# The environment wins, then untracked/input/inputs.env (yours; copy input_example/inputs.env there), then
# input_example/inputs.env. Paths in the files start at the project's root; those from the environment may also be
# relative to where the script was called.

is_dry || need_venv

# from_caller PATH: absolute, if it is a file where the script was called.
from_caller() {
  case $1 in
    '' | /*) printf '%s\n' "$1" ;;
    *) if [ -f "$CALLER/$1" ] && [ "$CALLER" != "$ROOT" ]; then printf '%s\n' "$CALLER/$1"; else printf '%s\n' "$1"; fi ;;
  esac
}

IMG=$(from_caller "${IMG:-}")
CLIP=$(from_caller "${CLIP:-}")
if [ -f untracked/input/inputs.env ]; then
  # shellcheck source=../input_example/inputs.env
  . untracked/input/inputs.env
fi
# shellcheck source=../input_example/inputs.env
. input_example/inputs.env
