# shellcheck shell=bash
# What every driver shares: strict mode, the project's root as working directory, help, dry runs, the log, preflight,
# and one way to run a leg. Sourced by the scripts beside it, never run. Works with bash 3.2, the one that macOS has.
#
# A leg is one command. It runs as a job with a process group of its own, and Ctrl-C, SIGTERM and SIGHUP are handed on
# to it: the leg finishes its pass and the script stops, also where the signal went to the script alone.

set -euo pipefail

# shellcheck disable=SC2034 # for inputs.sh
CALLER=$PWD # relative paths from the environment start here
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"

SCRIPT=$(basename "$0" .sh)
VENV=${UV_PROJECT_ENVIRONMENT:-.venv} # uv's own variable for an environment that lies elsewhere
LOG=/dev/null
JOB=
STOPPED=
LEGS=0
export PYTHONUNBUFFERED=1 # a log in the order in which things happened

die() {
  printf 'error: %s\n' "$*" >&2
  exit 2
}

# The comment at the top of the script that was called.
show_help() {
  sed -n -e '1d' -e '/^#/!q' -e 's/^# \{0,1\}//p' "$0"
}

# take_no_arguments "$@": settings are environment variables; -h shows them.
take_no_arguments() {
  [ $# -gt 0 ] || return 0
  case $1 in
    -h | --help) show_help && exit 0 ;;
    *) die "$SCRIPT.sh takes no arguments, got '$1'; settings are environment variables, see scripts/$SCRIPT.sh --help" ;;
  esac
}

# Whether a switch such as DRY_RUN or OFFLOAD is on.
is_on() {
  case ${1:-0} in
    0) return 1 ;;
    1) return 0 ;;
    *) die "a switch is 0 or 1, got '$1'" ;;
  esac
}

is_dry() {
  is_on "${DRY_RUN:-0}"
}

# The words of a command as a shell reads them; printf %q differs between versions of bash.
ESCAPE_QUOTES="s/'/'\\\\''/g"
quoted() {
  local word gap=
  for word in "$@"; do
    case $word in
      '' | *[!A-Za-z0-9_./:=,@%+-]*)
        word=$(printf '%s' "$word" | sed "$ESCAPE_QUOTES")
        word="'$word'"
        ;;
    esac
    printf '%s%s' "$gap" "$word"
    gap=' '
  done
  printf '\n'
}

# A line on the terminal and in the log; in a dry run a comment, so that the output stays a script.
say() {
  if is_dry; then
    printf '# %s\n' "$*"
  else
    printf '%s\n' "$*" | tee -a "$LOG"
  fi
}

# Run a command that needs no log and no care for signals; print it in a dry run.
run() {
  if is_dry; then
    quoted "$@"
  else
    "$@"
  fi
}

need_venv() {
  [ -x "$VENV/bin/python" ] || die "no $VENV in $ROOT: run 'uv sync' first (on a pod: scripts/setup-pod.sh)"
}

# start MODEL...: everything that can be refused before the first leg, then the log.
start() {
  ! is_dry || return 0
  local gpu=--gpu
  ! is_on "${SKIP_GPU_CHECK:-0}" || gpu=--any-device
  case " ${EXTRA_ARGS:-} " in
    *" --weights"*) gpu="$gpu --weights" ;;
  esac
  # shellcheck disable=SC2086 # two flags
  "$VENV/bin/python" scripts/preflight.py $gpu "$@"
  mkdir -p untracked/output
  LOG=untracked/output/$SCRIPT-$(date -u +%Y%m%dT%H%M%SZ).log
  say "log: $ROOT/$LOG"
}

# leg TITLE COMMAND...: run one leg; a failure, or a signal, ends the script.
leg() {
  local title=$1 status=0
  shift
  if is_dry; then
    printf '# %s\n' "$title"
    quoted "$@"
    return
  fi
  LEGS=$((LEGS + 1))
  say ""
  say "== $title"
  say "$(quoted "$@")"
  supervise "$@" || status=$?
  [ -z "$STOPPED" ] || stopped
  [ "$status" -eq 0 ] || failed "$title" "$status"
}

# tool_leg TITLE TOOL ARGUMENT...: a leg that is one of the project's tools; EXTRA_ARGS goes to every one.
tool_leg() {
  local title=$1 tool=$2 extra
  shift 2
  extra=()
  read -r -d '' -a extra <<<"${EXTRA_ARGS:-}" || true
  leg "$title" "$VENV/bin/$tool" "$@" ${extra[@]+"${extra[@]}"}
}

# supervise COMMAND...: output goes to the terminal and the log, signals of this script to the command.
supervise() {
  local status=0
  set -m # a process group of its own; without it bash would start the job with SIGINT ignored
  (
    set +e
    trap : INT TERM HUP # outlive the command, whose status this is
    "$@" </dev/null 2>&1 | (
      trap '' INT TERM HUP
      exec tee -a "$LOG"
    )
    exit "${PIPESTATUS[0]}"
  ) &
  JOB=$!
  set +m
  wait "$JOB" || status=$?
  while kill -0 "$JOB" 2>/dev/null; do # a signal that was handed on ends a wait early
    wait "$JOB" || status=$?
  done
  JOB=
  return "$status"
}

on_signal() {
  STOPPED=$1
  [ -n "$JOB" ] || stopped
  kill "-${1/HUP/TERM}" "-$JOB" 2>/dev/null || true # the tools finish their pass on INT and TERM
}

stopped() {
  say "stopped by SIG$STOPPED; the same command goes on from here"
  case $STOPPED in
    INT) exit 130 ;;
    TERM) exit 143 ;;
    *) exit 129 ;;
  esac
}

# failed TITLE STATUS
failed() {
  say "FAILED: $1 (exit $2), leg $LEGS; nothing after it was run"
  if tail -n 5 "$LOG" | grep -q 'holds a run with other settings'; then
    say "for other settings give OUT_PREFIX=name: a folder of its own for this sweep"
  fi
  say "log: $ROOT/$LOG"
  exit "$2"
}

# The last line of a script that got through.
finished() {
  ! is_dry || return 0
  say ""
  say "$SCRIPT: all $LEGS legs done ($(grep -c '^complete already' "$LOG" || true) were complete already); log: $ROOT/$LOG"
}

# out_dir MODEL [SUBTREE]: where a leg's run directory goes; OUT_PREFIX sets a whole sweep apart.
out_dir() {
  local root
  root=untracked/output_$(printf '%s' "$1" | tr 'A-Z-' 'a-z_')
  [ -z "${OUT_PREFIX:-}" ] || root=$root/${OUT_PREFIX%/}
  printf '%s\n' "$root${2:+/$2}"
}

# as_switch VALUE FLAG NO_FLAG: the flag that a 1 or 0 stands for.
as_switch() {
  if is_on "$1"; then echo "$2"; else echo "$3"; fi
}

trap 'on_signal INT' INT
trap 'on_signal TERM' TERM
trap 'on_signal HUP' HUP
