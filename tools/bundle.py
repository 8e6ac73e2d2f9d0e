"""Pack what the runs of a manifest need on a machine with little room and no network: this checkout's code, the data
files they read, their encoders (transformers in half precision), and wheels that such a machine lacks.

    python tools/bundle.py configs/device/itvreg.yaml                 # writes .bundle/bundle.tar.xz, says what is in it
    python tools/bundle.py configs/device/itvreg.yaml --wheels .whl   # with the wheels of a folder
    tar xOf .bundle/bundle.tar.xz checkout/bundle.json                # what is in one

There: unpack it, then run from its folder `checkout`, with its folders `data` and `models`:

    tar xf bundle.tar.xz && python3 -m pip install -q --no-index --no-deps --target site wheels/*.whl
    cd checkout && export PYTHONPATH=$PWD:$PWD/../site DEBIAS_NB_DATA=$PWD/../data DEBIAS_NB_MODELS=$PWD/../models
    python3 -m debias_nb.repro.cli device-batch configs/device/itvreg.yaml --time 540

The code is that of a commit: a checkout with changes is packed, too, and its records say so.
"""
import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from contextlib import chdir
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
CODE = ("debias_nb", "configs", "bench", "expected", "tools/bundle.py", "settings.ini", "pyproject.toml", "LICENSE")
LIMIT = 60 # MiB


class BundleError(RuntimeError):
    "A bundle that cannot be made; the message says why."


def needed(runs) -> tuple[dict[Path, str], dict]: # data files -> their place; encoders by name
    "What runs read. Raises `BundleError` where something is not here."
    from debias_nb.data import registry
    from debias_nb.repro.runs.runner import absent
    from debias_nb.repro.runs.tasks.common import task_of
    files, encoders = {}, {}
    verified = registry.verified

    def seen(path, entry):
        files[path] = f"data/{path.parent.name}/{path.name}"
        return verified(path, entry)

    with patch.object(registry, "verified", seen):
        for run in runs:
            if run.encoder.pretrain is None and run.encoder.name != "learned":
                encoders[run.encoder.name] = run.encoder
            why = absent(run)
            if why:
                raise BundleError(f"{run.id}: {why}")
            for name in run.evaluate: # looks for each evaluation set that is no part of its training corpus
                others = dict.fromkeys(set(run.evaluate) - {name})
                task_of(run).stale({"metrics": others}, run)
    return files, encoders


def pack_encoder(config, folder: Path) -> None:
    "The files of an encoder; those of a transformer with weights in half precision."
    from debias_nb.encoders.loading import encoder_cards, find_folder
    from debias_nb.encoders.safe_folders import folder_files
    from debias_nb.files import sha256_file
    source = find_folder(config, download=False)
    for name in folder_files(source):
        copied(source / name, folder / name)
    if config.kind in ("transformer", "cross"):
        halve(folder / "model.safetensors")
        card = encoder_cards().get(config.name)
        made = sha256_file(folder / "model.safetensors")
        if card and card.pinned and made != card.half:
            words = f"in half precision its weights have sha256 {made}, and its card says {card.half}"
            raise BundleError(f"{config.name}: {words}")


def halve(path: Path) -> None:
    "Weights in half precision. Raises `BundleError` where one is too large for it."
    import torch
    from safetensors.torch import load_file, save_file
    weights = load_file(path)
    for name, value in weights.items():
        if value.dtype == torch.float32:
            weights[name] = value.half()
        if not torch.isfinite(weights[name]).all():
            raise BundleError(f"{path.parent.name}: {name} is too large for half precision")
    save_file(weights, path, metadata={"format": "pt"})


def copied(source: Path, target: Path) -> None:
    "Copy a file, into a folder that is made where it is missing."
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def pack_code(folder: Path) -> None:
    "The code of this checkout as it is, without what git ignores."
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *CODE]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file(): # one that was removed is listed until that is committed
            copied(ROOT / name, folder / name)


def pack(place: Path, todo, wheels: list[Path]) -> None:
    "Lay all that some runs need into a folder. Raises `BundleError` where something is not here."
    files, encoders = needed(todo)
    pack_code(place / "checkout")
    for path, name in files.items():
        copied(path, place / name)
    for name, config in encoders.items():
        pack_encoder(config, place / "models" / name.split("/")[-1])
    for wheel in wheels:
        copied(wheel, place / "wheels" / wheel.name)


def make(manifest: Path, out: Path, wheels: Path | None, limit: float) -> dict:
    """Write a bundle of at most `limit` MiB; what is in it.
    Raises `BundleError` for a larger one, which is not left behind: an earlier one stays."""
    from debias_nb.repro.cli import settle_folders
    from debias_nb.repro.runs.device import manifest_runs, outstanding
    from debias_nb.repro.runs.origin import git_state
    from debias_nb.repro.runs.runner import store_for
    packed = sorted(wheels.glob("*.whl")) if wheels else []
    if wheels and not packed:
        raise BundleError(f"no wheels in {wheels}")
    settle_folders()
    runs = manifest_runs(manifest, ROOT)
    with chdir(ROOT): # whose records count, wherever this is called
        todo = outstanding(runs, [store_for(profile) for profile in {run.profile for run in runs}])
    kept = {run.id for run in todo}
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        pack(place, todo, packed)
        about = git_state(ROOT) | {
            "manifest": str(manifest),
            "runs": len(todo),
            "finished": [run.id for run in runs if run.id not in kept],
            "files": {
                path.relative_to(place).as_posix(): path.stat().st_size for path in sorted(place.rglob("*")) if path.is_file()},
        }
        (place / "checkout/bundle.json").write_text(json.dumps(about, indent=1))
        out.parent.mkdir(parents=True, exist_ok=True)
        new = out.with_name(f"{out.name}.new")
        try:
            with tarfile.open(new, "w:xz") as tar:
                for path in sorted(place.iterdir()):
                    tar.add(path, path.name)
            size = new.stat().st_size / 2**20
            if size > limit:
                raise BundleError(f"{size:.1f} MiB, more than {limit:g}: give a manifest with fewer runs\n{told(about)}")
            new.replace(out)
        finally:
            new.unlink(missing_ok=True)
    return about


def told(about: dict) -> str:
    "What is in a bundle, a line a folder."
    sizes = {}
    for name, size in about["files"].items():
        parts = name.split("/")
        key = "/".join(parts[: 1 if parts[0] in ("checkout", "wheels") else 2])
        sizes[key] = sizes.get(key, 0) + size
    lines = [f"{size / 2**20:8.2f} MiB  {name}" for name, size in sizes.items()]
    state = " with changes" if about["dirty"] else ""
    runs = f"{about['runs']} runs of {about['manifest']}, {len(about['finished'])} finished before"
    return "\n".join([f"{runs}; commit {about['commit']}{state}", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--out", type=Path, default=Path(".bundle/bundle.tar.xz"))
    parser.add_argument("--wheels", type=Path, help="a folder of wheels to carry along")
    parser.add_argument("--limit", type=float, default=LIMIT, help="MiB that the bundle may have")
    given = parser.parse_args()
    try:
        print(told(make(given.manifest, given.out, given.wheels, given.limit)))
    except (BundleError, ValueError, OSError) as e:
        sys.exit(f"bundle: {e}")
    print(f"{given.out}: {given.out.stat().st_size / 2**20:.2f} MiB")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
