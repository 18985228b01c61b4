#!/usr/bin/env bash
# bundle.sh: everything that a pod needs, in one archive: bundle/dltb-<UTC stamp>.tar.gz.
#
# Holds the tracked files as they are in the working tree, and untracked/input with your own inputs (links are followed).
# Other untracked files stay behind and are listed. Finder files (._*, .DS_Store) never get in: macOS' tar makes some by
# itself, and hides them in its own listings, so the finished archive is read again with Python, and deleted if it holds any.
#
# On the pod: mkdir -p dltb && tar -xzf dltb-<stamp>.tar.gz -C dltb --strip-components=1 --no-same-owner
# then cd dltb && scripts/setup-pod.sh
#
#   DRY_RUN   1: list what would be packed

# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
take_no_arguments "$@"
export COPYFILE_DISABLE=1 # else macOS' tar stores extended attributes as ._* members

# Tracked files that are there, and a user's inputs; separated by NUL.
list_files() {
  git ls-files -z | while IFS= read -r -d '' file; do
    if [ -e "$file" ] || [ -L "$file" ]; then printf '%s\0' "$file"; fi
  done
  if [ -d untracked/input ]; then
    find -L untracked/input -type f ! -name '._*' ! -name .DS_Store -print0
  fi
}

# verify ARCHIVE: fails when it holds Finder files; Python's tarfile shows every member.
verify() {
  "$python" - "$1" <<'PY'
import sys, tarfile
from pathlib import PurePosixPath

with tarfile.open(sys.argv[1]) as archive:
    names = [PurePosixPath(member.name).name for member in archive]
foreign = [name for name in names if name.startswith("._") or name == ".DS_Store"]
if foreign:
    sys.exit(f"{len(foreign)} of {len(names)} members are Finder files, such as {foreign[0]}")
print(f"{len(names)} members, no Finder files")
PY
}

[ "$(git rev-parse --show-toplevel)" = "$ROOT" ] ||
  die "$ROOT is no git checkout; bundles are made where the project is tracked"
if is_dry; then
  list_files | tr '\0' '\n'
  exit
fi

name=dltb-$(date -u +%Y%m%d%H%M%S)
archive=bundle/$name.tar.gz
mkdir -p bundle
stage=$(mktemp -d "bundle/.stage.XXXXXX")
trap 'rm -rf "$stage"' EXIT
mkdir "$stage/$name"
list_files | tar -chf - --null -T - | tar -xf - -C "$stage/$name"
tar -czf "$stage/whole.tar.gz" -C "$stage" "$name"

python=$VENV/bin/python
[ -x "$python" ] || python=$(command -v python3 || true)
if [ -n "$python" ]; then
  if ! verify "$stage/whole.tar.gz"; then
    die "the archive was not kept; remove those files and bundle again"
  fi
else
  echo "WARNING: no python3 here, so the archive was not searched for Finder files" >&2
fi
mv "$stage/whole.tar.gz" "$archive"

git ls-files --others --exclude-standard | sed 's/^/left out (untracked): /'
[ -d untracked/input ] || echo "no untracked/input: the pod will use the example inputs"
echo "bundle: $ROOT/$archive ($(du -h "$archive" | cut -f1))"
