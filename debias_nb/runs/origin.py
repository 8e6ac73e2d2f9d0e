"What a run was made with: the commit of the code, packages, and the machine."
import importlib.metadata
import os
import platform
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from ..checks import ConfigError
from ..files import package_file, project_root

RUN_PACKAGES = (
    "torch", "transformers", "sentence-transformers", "tokenizers", "numpy",
    "scipy", "scikit-learn", "datasets", "accelerate", "debias-nb",
)
GIT_VARIABLES = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"} # a git hook sets them, and they point elsewhere
# What runs: outputs and metadata of notebooks are none of it, nor what a finished run changes.
CODE = ("debias_nb", ":(glob)experiments/**/*.yaml", "pyproject.toml", "requirements")


def git(root: Path, *args: str) -> str:
    "Return the output of git in a folder, even inside a git hook. Raise `OSError` or `SubprocessError` if it fails."
    command = ["git", "--no-optional-locks", "-C", str(root), *args]
    variables = {name: os.environ[name] for name in os.environ.keys() - GIT_VARIABLES}
    process = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True, env=variables)
    return process.stdout.strip()


def is_top(root: Path) -> bool:
    "Return whether a folder is the top of a git work tree. Raise as `git`."
    return Path(git(root, "rev-parse", "--show-toplevel")).samefile(root)


def git_state(
    root: str | Path | None = None, # the top of a git work tree; default: the project that this code lies in
) -> dict: # commit: 40 hex digits; dirty: whether the code was changed since; both None where nobody knows
    "Return the state of the project's code, `CODE`, in git."
    with suppress(OSError, subprocess.SubprocessError, ConfigError):
        root = Path(root or project_root(package_file(".")))
        if is_top(root):
            changes = git(root, "status", "--porcelain", "--", *CODE)
            return {"commit": git(root, "rev-parse", "HEAD"), "dirty": changes != ""}
    return {"commit": None, "dirty": None}


def history(root: Path) -> dict[str, int] | None: # commit -> its time in seconds; None: nobody knows
    "Return the commits that the clone at `root` goes back to, or None for a shallow one or a folder without git."
    with suppress(OSError, subprocess.SubprocessError):
        is_whole = git(root, "rev-parse", "--is-shallow-repository") == "false"
        if is_whole and is_top(root):
            lines = git(root, "log", "--format=%H %ct").splitlines()
            return {commit: int(seconds) for commit, seconds in map(str.split, lines)}
    return None


NO_HISTORY = "no git here, or not the whole history: whether records are of code in the history cannot be said"

CPUINFO = Path("/proc/cpuinfo") # Linux has it


def processor() -> str: # "AMD EPYC (family 25, model 1)"
    "Return name, family and model of the processor. Cloud machines of several generations share one name."
    with suppress(OSError):
        first = CPUINFO.read_text().partition("\n\n")[0] # one part for each core, all alike
        parts = [line.partition(":") for line in first.splitlines()]
        facts = {key.strip(): value.strip() for key, _, value in parts}
        if "model name" in facts:
            return f"{facts['model name']} (family {facts.get('cpu family')}, model {facts.get('model')})"
    return platform.processor() or platform.machine()


def run_environment() -> dict: # python, packages (name -> version), commit, dirty, platform, cpu, cores
    "Describe packages, code and machine. Import none of the packages that are named."
    versions = {}
    for package in RUN_PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return {
        "python": platform.python_version(), "packages": versions, **git_state(), "platform": platform.platform(),
        "cpu": processor(), "cores": os.cpu_count()}


@dataclass(frozen=True)
class Start:
    "Time at which a run began, and its environment then: a commit or a change while it runs is no part of it."
    clock: float = field(default_factory=time.monotonic)
    time: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    environment: dict = field(default_factory=run_environment)

    @property
    def seconds(self) -> float: # until now
        return time.monotonic() - self.clock


def this_machine() -> dict: # device: `cpu` or the accelerator's name; peak_memory: bytes, of that device, so far
    "Describe where a run was made, for `make_record`."
    import resource
    import sys
    import torch
    if torch.cuda.is_available():
        return {"device": torch.cuda.get_device_name(), "peak_memory": torch.cuda.max_memory_allocated()}
    unit = 1 if sys.platform == "darwin" else 1024
    return {"device": "cpu", "peak_memory": unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}


def unknown_code(environment: dict, commits: dict[str, int]) -> str:
    """Explain why the code that made a record cannot be looked up, or return "" if it can."""
    commit = environment["commit"]
    if environment["dirty"] or commit is None:
        return "were made with changes that stand in no commit"
    return "" if commit in commits else f"name the commit {commit[:8]}, which is not in this history"
