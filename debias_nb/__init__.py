"""Against spurious correlations in text matching. The names below are imported when they are first used, so that
`import debias_nb` loads nothing else."""
import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING: # what PUBLIC says, in the form that editors read
    from debias_nb.arr import ARR as ARR, AuthorPairSampler as AuthorPairSampler, ProductOfExperts as ProductOfExperts
    from debias_nb.data.questions import load_questions as load_questions, read_pairs as read_pairs
    from debias_nb.encoders import embed_texts as embed_texts, load_encoder as load_encoder
    from debias_nb.explain.compare import compare as compare
    from debias_nb.explain.diagnose import diagnose as diagnose
    from debias_nb.interventions import importance as importance
    from debias_nb.metrics import (
        auc_at as auc_at, evaluate_pairs as evaluate_pairs, rank_metrics as rank_metrics,
    )
    from debias_nb.regularized import (
        ITVReg as ITVReg, L2SP as L2SP, MaskReg as MaskReg, OutReg as OutReg, Regularized as Regularized,
        SimCSE as SimCSE, WordDropout as WordDropout, wise_ft as wise_ft,
    )
    from debias_nb.scan_training import SCAN as SCAN
    from debias_nb.stats import interval as interval, mean_std as mean_std, paired as paired

PUBLIC = { # module -> its names that are also names of the package
    "debias_nb.regularized": (
        "Regularized", "ITVReg", "OutReg", "MaskReg", "SimCSE", "L2SP", "WordDropout", "wise_ft"),
    "debias_nb.arr": ("ARR", "ProductOfExperts", "AuthorPairSampler"),
    "debias_nb.scan_training": ("SCAN",),
    "debias_nb.explain.diagnose": ("diagnose",),
    "debias_nb.explain.compare": ("compare",),
    "debias_nb.encoders": ("load_encoder", "embed_texts"),
    "debias_nb.interventions": ("importance",),
    "debias_nb.metrics": ("auc_at", "evaluate_pairs", "rank_metrics"),
    "debias_nb.stats": ("mean_std", "interval", "paired"),
    "debias_nb.data.questions": ("load_questions", "read_pairs"),
}

__all__ = [name for names in PUBLIC.values() for name in names]


def _home(name: str) -> str | None:
    "The module of a public name."
    for module, names in PUBLIC.items():
        if name in names:
            return module
    return None


def __getattr__(name: str):
    module = _home(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as e:
        raise ImportError(f"debias_nb.{name} needs the package {(e.name or '?').partition('.')[0]}") from e
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
