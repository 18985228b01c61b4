#!/usr/bin/env bash
# hf-cache.sh: what the hub cache holds, and making room in it.
#
#   hf-cache.sh status      every model in the cache and its size
#   hf-cache.sh keep KEY    remove every model but this row of the model table, and the transfer cache (xet)
#   hf-cache.sh clean       remove every model and the transfer cache
#
# keep and clean want HF_HOME to be set, so that they cannot hit the cache of a personal machine by accident; FORCE=1
# overrides that. DRY_RUN=1 prints what would be removed; DEBUG=1 traces the script.

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
! is_on "${DEBUG:-0}" || set -x

HOME_OF_CACHE=${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}
HUB=${HF_HUB_CACHE:-$HOME_OF_CACHE/hub}
XET=${HF_XET_CACHE:-$HOME_OF_CACHE/xet}

status() {
  local entry
  printf 'hub cache: %s\n' "$HUB"
  for entry in "$HUB"/models--* "$XET"; do
    [ ! -d "$entry" ] || du -sh "$entry"
  done
  [ ! -d "$HUB" ] || df -h "$HUB" | awk 'NR == 2 { print $4 " free" }'
}

# remove_all_but FOLDER: a name in the cache, or nothing.
remove_all_but() {
  local entry
  if [ -z "${HF_HOME:-}" ] && ! is_on "${FORCE:-0}"; then
    die "HF_HOME is not set, so $HUB may be your personal cache; set HF_HOME, or FORCE=1 to remove from it all the same"
  fi
  for entry in "$HUB"/models--* "$XET"; do
    if [ -d "$entry" ] && [ "$entry" != "$HUB/$1" ]; then
      is_dry || printf 'removing %s\n' "$entry"
      run rm -rf -- "$entry"
    fi
  done
}

# folder_of KEY: the name that the hub's cache gives to a model; nothing for an embedded one.
folder_of() {
  "$VENV/bin/python" - "$1" <<'PY'
import sys
from dltb.args.errors import run_tool
from dltb.models.table import MODELS, model_key

def folder():
    spec = MODELS[model_key(sys.argv[1])]
    print("" if spec.embedded else "models--" + spec.repo.replace("/", "--"))

sys.exit(run_tool(folder))
PY
}

case "$# ${1:-}" in
  '1 status') status ;;
  '1 clean') remove_all_but "" ;;
  '2 keep')
    need_venv
    folder=$(folder_of "$2")
    remove_all_but "$folder"
    ;;
  '1 -h' | '1 --help') show_help ;;
  *) die "hf-cache.sh status | keep KEY | clean, see scripts/hf-cache.sh --help" ;;
esac
