#!/usr/bin/env bash
# setup-pod.sh: from an extracted bundle to a machine that runs everything. Again after every new bundle: seconds then.
#
# Extract every bundle into the same folder with --strip-components=1, so that .venv and untracked/ survive. Installs uv at
# the version below (release archive with its checksum; the Python package where releases cannot be reached), then what
# uv.lock says into .venv. Linux.
#
#   UV_BIN_DIR   /usr/local/bin if it can be written, else ~/.local/bin
#   DRY_RUN      1: print the commands

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
take_no_arguments "$@"

UV_VERSION=0.13.9 # wrote uv.lock, and is in the range that pyproject.toml wants of uv_build
RELEASES=https://github.com/astral-sh/uv/releases/download/$UV_VERSION
LEAST_DRIVER=580 # of NVIDIA's driver, for the CUDA 13 wheels in uv.lock

if [ -z "${UV_BIN_DIR:-}" ]; then
  UV_BIN_DIR=/usr/local/bin
  [ -w "$UV_BIN_DIR" ] || UV_BIN_DIR=$HOME/.local/bin
fi

# pinned UV: whether it is the version wanted.
pinned() {
  [ "$("$1" --version 2>/dev/null | cut -d' ' -f2)" = "$UV_VERSION" ]
}

# from_release FOLDER: the release archive, checked and unpacked.
from_release() {
  local name
  name=uv-$(uname -m)-unknown-linux-gnu
  run curl -fsSL --proto =https --connect-timeout 20 -o "$1/$name.tar.gz" "$RELEASES/$name.tar.gz" &&
    run curl -fsSL --proto =https --connect-timeout 20 -o "$1/$name.tar.gz.sha256" "$RELEASES/$name.tar.gz.sha256" &&
    (is_dry || cd "$1" && run sha256sum --quiet -c "$name.tar.gz.sha256") &&
    run tar -xzf "$1/$name.tar.gz" -C "$1" --strip-components=1
}

# from_package FOLDER: the same program out of the Python package.
from_package() {
  run python3 -m pip install --quiet --disable-pip-version-check --target "$1/package" "uv==$UV_VERSION" &&
    run cp "$1/package/bin/uv" "$1/uv"
}

install_uv() {
  local folder
  if is_dry; then folder=/tmp/uv; else folder=$(mktemp -d); fi
  if ! from_release "$folder"; then
    say "uv's release cannot be fetched here; taking the Python package"
    from_package "$folder" || die "cannot install uv $UV_VERSION: neither its release nor its Python package can be fetched"
  fi
  run mkdir -p "$UV_BIN_DIR"
  run install -m 755 "$folder/uv" "$UV_BIN_DIR/uv"
  run rm -rf "$folder"
}

# Warnings about what would fail later.
look_around() {
  local driver
  driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)
  if [ -n "$driver" ] && [ "${driver%%.*}" -lt "$LEAST_DRIVER" ]; then
    say "WARNING: NVIDIA driver $driver; the CUDA 13 wheels want $LEAST_DRIVER or newer: take another host"
  fi
  command -v uv >/dev/null || say "NOTE: $UV_BIN_DIR is not in PATH; add it: export PATH=\"$UV_BIN_DIR:\$PATH\""
  [ -n "${HF_HOME:-}" ] || say "NOTE: HF_HOME is not set; scripts/hf-cache.sh and EVICT_CACHE=1 want it"
  command -v rsync >/dev/null || say "NOTE: no rsync here; apt-get install rsync, to copy results home"
  "$VENV/bin/python" -c 'from dltb.models.device import available_devices; print("devices:", *available_devices())' ||
    say "WARNING: the environment in $VENV does not work"
}

[ "$(uname -s)" = Linux ] || die "setup-pod.sh is for Linux pods; here: pip install uv && uv sync"

uv=$(command -v uv || true)
if [ -z "$uv" ] || ! pinned "$uv"; then
  uv=$UV_BIN_DIR/uv
  pinned "$uv" || install_uv
fi
say "uv $UV_VERSION: $uv"
run "$uv" sync --frozen
is_dry || look_around
say "ready: scripts/smoke.sh"
