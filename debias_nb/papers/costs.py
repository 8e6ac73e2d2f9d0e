"""What runs cost: at the papers' scale reckoned from `experiments/costs.yaml`, at others as records of them took."""
import math
from collections.abc import Collection

from ..checks import ConfigError, check_known
from ..files import Share, Strict, load_config, once_per_state, project_root
from ..runs.config import RunConfig
from ..runs.settings import HingeTraining, PairMethod
from .settings.answers import first_stage

# regularizer or augmentation -> texts a row: trained; through the frozen encoder in each epoch, and once
TEXTS_A_ROW = {
    "none": (0, 0, 0), "l2sp": (0, 0, 0), "outreg": (0, 0, 1), "maskreg": (1, 0, 0), "simcse": (1, 0, 0),
    "itvreg": (1, 1, 1), "itvaug": (1, 1, 2), "worddropout": (0, 0, 0),
}


def texts_a_row(run: RunConfig) -> tuple[float, int, int]: # trained; frozen in each epoch; frozen once
    "Count the texts that go through the encoders for each row of training."
    method = run.method
    if not isinstance(method, PairMethod):
        return 1, 0, 0
    kind = method.augmentation if method.regularizer == "none" else method.regularizer
    texts, by_epoch, once = TEXTS_A_ROW[kind]
    return 2 + method.rows * texts, by_epoch, once


Stage = tuple[str, str, float, int] # corpus; what an epoch passes over; epochs; settings that are searched


def stages(run: RunConfig) -> list[Stage]: # `groups` are authors, two texts each
    "List what a run trains, the last stage last: an earlier one or a teacher comes before it."
    training = run.training
    corpus = run.corpus.name
    if run.task == "authors":
        method = run.method.authors
        settings = (1 + len(training.further_rates)) * (1 + len(training.further_temperatures))
        pairs = training.epoch_of or "groups" # full batches of texts
        base = "rows" if method.base == "mll" and not training.epoch_of else pairs
        if method.student == "none":
            return [(corpus, base, method.epochs or training.epochs, settings)]
        epochs = method.epochs or training.student_epochs or training.epochs
        return [(corpus, base, training.epochs, settings), (corpus, pairs, epochs, settings)]
    items = isinstance(training, HingeTraining) and training.epoch_of
    last = corpus, items or "rows", training.epochs, 1
    first = first_stage(run)
    return [(first.corpus, "rows", first.epochs, 1), last] if first else [last]


class Costs(Strict):
    "Assumptions of the hours at the papers' scale, as `experiments/costs.yaml` has them."
    device: str
    peak: dict[str, float]    # FLOP a second, by number format
    utilisation: Share
    overhead: float           # seconds a run
    encoders: dict[str, dict[str, float]]
    corpora: dict[str, dict[str, float | str]]


_read_once = once_per_state(lambda path: load_config(path, Costs))


def assumed(part: str) -> dict | float:
    "Return a part of `experiments/costs.yaml`. Raise `ConfigError` naming the key."
    return getattr(_read_once(project_root() / "experiments/costs.yaml"), part)


def _size(corpus: str) -> dict:
    sizes = assumed("corpora")
    check_known("size in experiments/costs.yaml of", corpus, sizes, ConfigError)
    return sizes[corpus]


def rows(run: RunConfig, stage: Stage) -> float:
    "Count the rows that an epoch passes over. Raise `ConfigError` for a corpus that nobody counted."
    corpus, unit, *_ = stage
    size = _size(corpus)
    if unit == "groups":
        return 2 * size["groups"]
    if unit == "texts":
        return size["rows"] - size["rows"] % run.training.batch_size
    share = getattr(run.corpus, "share", 1) if corpus == run.corpus.name else 1
    return share * size[unit]


def _shape(run: RunConfig) -> dict:
    "Return the shape of a transformer, by a part of its name."
    return next(shape for part, shape in assumed("encoders").items() if part in run.encoder.name.lower())


def operations(run: RunConfig) -> float:
    "Count the operations of training and testing; none where no encoder is asked. Raise as `rows`."
    if "counts" in run.evaluate or not run.data: # or it is tested beside another run
        return 0.
    shape = _shape(run)
    tokens = run.encoder.max_length
    weights = shape["layers"] * (4 * shape["width"]**2 + 2 * shape["width"] * shape["inner"])
    forward = 2 * weights * tokens + 4 * shape["layers"] * shape["width"] * tokens**2 # a text forwards
    passes = _size(run.data.name)["texts"] * len(run.evaluate) * (1 + len(run.method.mixing_weights))
    if run.method.trained:
        texts, by_epoch, once = texts_a_row(run)
        for stage in stages(run):
            _, _, epochs, times = stage
            passes += times * rows(run, stage) * (epochs * (3 * texts + by_epoch) + once)
    return forward * passes


def memory(run: RunConfig) -> float:
    "Reckon the bytes of the device's memory that training takes."
    if not run.method.trained:
        return 0.
    shape = _shape(run)
    tokens = run.encoder.max_length
    texts, by_epoch, once = texts_a_row(run)
    state = (20 if by_epoch or once else 16) * shape["parameters"]
    activations = (34 + 5 * shape["heads"] * tokens / shape["width"]) * (1 if run.encoder.dtype == "bf16" else 2)
    return state + activations * tokens * texts * run.training.batch_size * shape["layers"] * shape["width"]


def seconds(run: RunConfig) -> float:
    "Reckon how long a run takes, all of its stages and tests. Raise as `rows`."
    return assumed("overhead") + operations(run) / (assumed("utilisation") * assumed("peak")[run.encoder.dtype])


def two_digits(value: float) -> str:
    "Write a number with two digits that count."
    digits = max(0, 1 - math.floor(math.log10(value))) if value else 0
    return f"{round(value, digits):,.{min(digits, 2)}f}"


def reckoned(runs: Collection[RunConfig]) -> tuple[str, str]: # at least one
    "Say how long runs take at the papers' scale, in minutes or in many hours, and their memory, in GiB."
    minutes = sum(map(seconds, runs)) / 60
    took = f"{minutes / 60:,.0f} hours" if minutes > 600 else f"{two_digits(minutes)} minutes"
    return took, two_digits(max(map(memory, runs)) / 2**30)


def taken(
    records: Collection[dict],     # of finished runs, at least one
    count: int | None = None, # of runs like these; default: these
) -> tuple[str, str]:
    "Say how long runs take, one after the other, and the most memory that one of them held, in GiB."
    minutes = sum(record["seconds"] for record in records) / 60 * (1 if count is None else count / len(records))
    return f"{two_digits(minutes)} minutes", two_digits(max(record["peak_memory_bytes"] for record in records) / 2**30)
