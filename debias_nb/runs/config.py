"""One experiment is one literal YAML file; it expands into runs, and a run has a name that its settings decide.

A run is a corpus, an encoder, a method, the settings of training, a seed, and what it is tested on. Its id is a slug
that a person can read, and a hash of all settings that differ from their defaults: a setting added later, with a
default that means "as before", leaves old ids alone, and a method that is called otherwise later keeps its old name in
ids, as `was`. This module knows nothing of data, models or training.
"""
import functools
import inspect
import itertools
import re
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin

from pydantic import Field, TypeAdapter, ValidationError, model_serializer, model_validator

from ..settings import EncoderConfig, OfLabels, OfMatches
from ..checks import ConfigError, check_known, quoted
from ..files import Count, Natural, NotNegative, Positive, Probability, Share, Settings, Strict, load_config
from ..files import fingerprint, once_per_state, project_root
from ..data.corpora import CorpusConfig, Names, World

Profile = Literal["planted", "small", "paper"]
OWN = "own" # in the place of a profile, of runs on a user's files
ClassPath = Annotated[str, Field(pattern=r"^\w[\w.]*\.\w+$")] # `mymodule.Name`, a class of a user's own
OurLoss = Literal["mse", "cosent", "ranking", "ranking-hard", "hinge", "cross-entropy", "authors"]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")] # what of a configuration names a file

# The terms among `regularizers.REGULARIZERS`, and `matching.GOR`. This module does not import them: that loads torch, which
# commands that train nothing do without.
INTERVENING = ("itvreg", "maskreg") # on tokens, a `mask_share` of them
HOLDING = (*INTERVENING, "outreg", "simcse") # texts, those of a batch or others
REGULARIZER_NAMES = (*HOLDING, "l2sp", "gor")
Intervention = Literal["mask", "delete", "pad", "random"]


class ScanConfig(Settings):
    """Settings that SCAN adds to plain training with cross-entropy.

    Weights `shuffled` are the learned ones, shuffled within classes; `oracle` ones are 1 / P(word overlap | label).
    """
    once = {"functions": 5, "from_epoch": 0.}
    weights: Literal["uniform", "learned", "shuffled", "oracle"] = "learned" # of samples
    variant: Literal["paper", "released", "fixed"] = "fixed" # of the learner
    pairs: Literal["matched", "each"] = "matched" # of random functions; as printed is `paper` with `each`
    penalty: NotNegative = .3    # on the spread of weights (`fixed`)
    rate: Positive | None = None # learning rate of the weights; None: the variant's own
    class_mass: Literal["free", "keep"] = "keep" # whether each class keeps its share of all weight
    memory: Literal["none", "ema", "queue"] = "queue" # of samples and weights of earlier batches
    alpha: Annotated[float, Field(ge=0, lt=1)] = .9 # how much of the old an `ema` keeps
    debias: Literal["none", "paper", "released"] = "none" # language debiasing, a preset of `methods/scan.HEADS`
    contrast: NotNegative = 1.   # strength of the contrastive loss; 0 leaves a second classification loss alone
    temperature: Positive = 1.   # tau of the contrastive loss

    def rules(self):
        yield self.pairs == "each" and self.variant != "paper", "`pairs: each` belongs to the variant `paper`"


class AuthorsConfig(Settings):
    """Making of a representation of authors: counted, or trained by a base loss, and perhaps by a student of that.

    Base `cl` is contrastive, `mll` goes over all authors. Student `arr` is the paper's, `corrected` has a teacher less
    the topic (ours).
    """
    once = {"masked": 0., "frequent": 300}
    counted: Literal["bow", "tfidf", "char", "function words"] | None = None # what is counted; nothing is trained
    base: Literal["cl", "mll"] = "cl"
    student: Literal["none", "arr", "corrected"] = "none"
    variant: Literal["paper", "released"] = "paper" # of Eq. 3 (ARR)
    bias: Probability | None = None # B of all batches; None: Eq. 2 (ARR); 0: plain self-distillation
    gamma: NotNegative = 0.      # strength of the topic model, in a product of experts or a corrected teacher
    epochs: Natural | None = None # of what is kept, where they are others than the block's

    def rules(self):
        has_changes = self.variant != "paper" or self.bias is not None
        product = self.student == "none" and self.base == "cl"
        yield self.counted and self.model_copy(update={"counted": None}) != AuthorsConfig(), (
            "what is counted takes no loss and no student")
        yield self.student != "arr" and has_changes, "`variant` and `bias` belong to the student `arr`"
        yield self.student == "corrected" and not self.gamma, "a corrected teacher needs `gamma`"
        yield self.gamma and not product and self.student != "corrected", (
            "`gamma` belongs to a corrected teacher, or to the base `cl` without a student (product of experts)")


class TextsConfig(Strict):
    "Unlabeled texts on which an encoder is regularized, instead of a batch's."
    # Whose training texts, without those that a run is tested on. Or evaluation sets of titles (`ood`) and of a planted
    # world: texts of the same kind in no test.
    corpora: Annotated[Names, Field(min_length=1)]
    share: Share = 1.            # of these texts, drawn once


class LoraConfig(Strict):
    """Adapters of low rank (LoRA) in place of the weights of a transformer, made by `peft` with its own defaults.

    Of a BERT they stand next to the queries and values of every layer, without dropout and biases, and are scaled by
    alpha / rank. Modules after the transformer are trained as ever. After training the adapters are merged into the
    weights.
    """
    rank: Natural
    alpha: Natural = 8           # peft's default, whatever the rank


class ReplayConfig(Strict):
    "General pairs among the batches of a run: in earlier records."
    corpus: str                  # whose relevant pairs they are
    share: float                 # of all batches


ON_PAIRS = ("frozen_layers", "lora", "replay") # settings of methods that train on pairs or titles


class MethodConfig(Settings):
    "One row of a table: plain fine-tuning plus at most one regularizer or augmentation."
    once = {"share": None}
    before = {"regularizer": "regulariser"}
    name: str
    setting: str | None = None   # of a search that tries several of one method: what rows say of it in brackets
    was: str | None = None       # its name in ids and records, where runs were made before the row was renamed
    trained: bool = True         # False: the base encoder as it is
    regularizer: str = "none"    # of `REGULARIZER_NAMES`, or `mymodule.Name`
    weight: NotNegative = 0.     # the paper's lambda
    mask_share: Annotated[float, Field(gt=0, lt=1)] | None = None # share of ordinary tokens intervened on
    intervention: Intervention = "mask"
    augmentation: Literal["none", "itvaug", "worddropout"] = "none"
    rows: Share = 1.             # share of each batch that is regularized
    texts: TextsConfig | None = None # other texts that are regularized, as many as a batch has rows (pairs, titles)
    interpolate: tuple[Probability, ...] = () # WiSE-FT: also test weights so far from the base encoder's (0) to the tuned (1)
    scan: ScanConfig | None = None # sample weights and language debiasing (answers)
    transfer: bool = False       # whether training on another corpus comes first (answers)
    authors: AuthorsConfig | None = None # base loss and student (authors)
    frozen_layers: Count | None = None # of a transformer: the embeddings and so many layers above them are not trained (pairs)
    lora: LoraConfig | None = None # adapters are trained in place of the weights of a transformer (pairs)
    replay: ReplayConfig | None = None # general pairs among the batches: in earlier records

    @model_serializer(mode="wrap")
    def _serialize(self, dump):
        "Name settings as ids and older records do."
        return {self.before.get(name, name): value for name, value in dump(self).items()}

    @property
    def display(self) -> str: # the name in tables, and in ids and records where `was` says no other
        return f"{self.name} ({self.setting})" if self.setting else self.name

    def rules(self):
        if "." not in self.regularizer:
            check_known("regularizer", self.regularizer, ["none", *REGULARIZER_NAMES])
        has_regularizer = self.regularizer != "none"
        has_augmentation = self.augmentation != "none"
        masks = self.regularizer in INTERVENING or has_augmentation
        trains = self.non_defaults("regularizer", "augmentation", "interpolate", "scan", "transfer", *ON_PAIRS)
        is_counted = self.authors is not None and self.authors.counted is not None
        yield masks != (self.mask_share is not None), (
            "`mask_share` belongs to what intervenes on tokens, as itvreg, itvaug and worddropout, and is required there")
        yield not self.trained and trains, f"an encoder that is not trained has no `{'`, `'.join(trains)}`"
        yield has_regularizer and has_augmentation, "a regularizer or an augmentation, not both"
        yield from self.owner_rules({} if has_regularizer else {"a regularizer": ("weight", "rows", "texts")}, "none")
        yield self.texts and (self.regularizer not in HOLDING or self.rows < 1), (
            "`texts` belongs to a regularizer of texts, without `rows`")
        yield self.authors and self.trained == is_counted, (
            "what is counted is not trained, and what is not trained has no loss")
        others = self.non_defaults("scan", "transfer", "authors")
        yield from self.owner_rules({"training on pairs or titles": ON_PAIRS} if others else {}, "other data")
        yield self.lora and (self.frozen_layers is not None or self.regularizer == "l2sp"), (
            "`lora` leaves the weights as they are: it goes neither with `frozen_layers` nor with l2sp")


class TransferConfig(Strict):
    "Training on another corpus before that on a run's own (TANDA)."
    corpus: str                  # of answers
    part: Literal["train", "dev"] = "train"
    learning_rate: Positive
    epochs: Natural


OF_LOSSES = { # loss -> settings that others do not have
    "hinge": ("margin", "hardest"), "cross-entropy": ("positive_weight", "transfer"),
    "authors": ("student_epochs", "further_rates", "further_temperatures")}


class TrainConfig(Settings):
    """Settings of fine-tuning, the same for every method of a block.

    Losses: `mse` of cosine and label; `cosent`, sentence-transformers' CoSENTLoss of the same; `ranking`, its
    MultipleNegativesRankingLoss on the duplicates alone; `ranking-hard`, the same with a text that is no duplicate as
    third column; `hinge`, contrastive with hard negatives of the batch; `cross-entropy` of a classifier on pairs;
    `authors`, the one that the method names; others of sentence-transformers by their own names, or `mymodule.Name`.
    `select`: the encoder after the last epoch, or after the one that did best on held-out training data (answers: on
    the development set, by MAP).
    """
    once = {"weight_decay": 0., "threads": 1, "warmup_steps": 0}
    loss: OurLoss | OfLabels | OfMatches | ClassPath = "mse"
    margin: Annotated[float, Field(gt=0, le=2)] | None = None # of the hinge
    hardest: Natural | None = None # negatives of a query in the hinge
    temperature: Positive | None = None # of these negatives' weights, None: equal weights; or tau of the losses of authors
    learning_rate: Positive
    epochs: Annotated[int | float, Field(gt=0)]
    batch_size: Natural
    epoch_of: Literal["texts", "items"] | None = None # what an epoch has as many of as there are; None: authors, or pairs
    optimizer: Literal["adam", "adamw"] = "adam"
    select: Literal["last", "best"] = "last"
    positive_weight: Positive = 1. # of right answers in the cross-entropy
    transfer: TransferConfig | None = None # the first stage, of methods that ask for one
    student_epochs: Natural | None = None # of a distilled student (authors); None: as many as its teacher had
    # Learning rates to try beside `learning_rate`; kept is the best by R@8 on the validation texts (authors).
    further_rates: tuple[Positive, ...] = ()
    further_temperatures: tuple[Positive, ...] = () # the same for `temperature`; each rate meets each temperature

    def rules(self):
        yield from self.owner_rules(OF_LOSSES, self.loss)
        yield self.loss == "hinge" and len(self.non_defaults("margin", "hardest")) < 2, "the hinge needs `margin` and `hardest`"
        yield self.loss == "authors" and self.temperature is None, "the losses of authors need a `temperature`"
        yield self.temperature is not None and self.loss not in ("hinge", "authors"), (
            "`temperature` belongs to the hinge and to authors")
        of_loss = {"authors": "texts", "hinge": "items"}.get(self.loss)
        yield self.epoch_of not in (None, of_loss), "`epoch_of` is `texts` of authors, or `items` of the hinge"


# Gradient norms of each regularizer; top items (and token importance) of some queries;
# words of real pairs: how many of them training has seen, and how important brands, shops and numbers are; retrieval of
# duplicates over all right texts of an evaluation set; how many texts of a test also occur in training, and scores of
# overlapping and of disjoint pairs; replicates in which pairs that share texts are drawn together.
Measure = Literal["gradients", "cases", "words", "retrieval", "known texts", "shared texts"]


def _with_seed(config: Strict, names: Names, seed: int) -> Strict:
    "Copy a configuration and give another seed to those of the parts that it has."
    parts = {name: getattr(config, name) for name in names}
    return config.model_copy(update={
        name: part.model_copy(update={"seed": seed}) for name, part in parts.items() if part})


class RunConfig(Strict):
    "Settings that determine one run."
    paper: FileName
    experiment: FileName
    profile: Profile | Literal["own"]
    encoder: EncoderConfig
    method: MethodConfig
    corpus: CorpusConfig | None = None # None for an encoder that is not trained
    training: TrainConfig | None = None
    evaluate: Names # names of evaluation sets
    eval_world: World | None = None # the world that planted evaluation sets come from
    eval_corpus: CorpusConfig | None = None # what an encoder which is not trained is tested on, or compared with for overlap
    measure: tuple[Measure, ...] = () # what else is looked at
    seed: int = 0

    @functools.cached_property
    def id(self) -> str:
        return run_id(self)

    @property
    def data(self) -> CorpusConfig | None: # what it is trained on, or else tested on
        return self.corpus or self.eval_corpus

    @property
    def task(self) -> str:
        return self.data.task if self.data else "pairs"

    @property
    def is_of_before(self) -> bool:
        "Whether a run is not made any more: a question that is answered leaves its records and pages."
        split = self.data.split if self.data else None
        return bool(self.method.replay or split and split.validation == "across")

    @property
    def place(self) -> str: # of the records of its experiment
        return f"{self.paper}/{self.experiment}.{self.profile}"

    @property
    def world_seed(self) -> int | None: # of its synthetic dataset, or its random split; None: real data, divided in one way
        source = (self.data and self.data.drawn) or self.eval_world
        return source.seed if source else None

    def in_world(self, seed: int) -> "RunConfig":
        """Return the same run in another synthetic dataset, or on another random split of real texts.

        Words, texts, and the base encoder that was made there are drawn again.
        """
        changes = {}
        if self.encoder.world:
            changes["encoder"] = _with_seed(self.encoder, ("world", "pretrain"), seed)
        for name in ("corpus", "eval_corpus"):
            corpus = getattr(self, name)
            if corpus and corpus.drawn:
                changes[name] = _with_seed(corpus, ("world" if corpus.world else "split",), seed)
        return _with_seed(self.model_copy(update=changes), ("eval_world",), seed)

    def as_recorded(self) -> "RunConfig": # the same run, its method under the name that ids and records have for it
        name = self.method.was or self.method.display
        if name == self.method.name:
            return self
        method = self.method.model_copy(update={"name": name, "setting": None, "was": None})
        return self.model_copy(update={"method": method})


def slug(text: str) -> str:
    "Return a text as part of the name of a file."
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


def typed(
    name: str,     # of a parameter
    value: object,
    kind: object,  # a type, as `list[int] | None`
):
    """Check a parameter's value against its declared type; a single value stands for a list of one.

    Raise `ConfigError` for one of another type.
    """
    is_list = any(get_origin(part) is list for part in (kind, *get_args(kind)))
    if is_list and isinstance(value, str) and value.startswith("["):
        raise ConfigError(f"{name} must be a list, got the text {quoted(value)}; papermill takes lists as -y {quoted(f'{name}: {value}')}")
    values = [value] if is_list and isinstance(value, int | float | str) else value
    try:
        return TypeAdapter(kind).validate_python(values, strict=True)
    except ValidationError:
        raise ConfigError(f"{name} must be {inspect.formatannotation(kind)}, got {quoted(value)}") from None


@functools.lru_cache(maxsize=None)
def run_id(
    run: RunConfig,
) -> str: # e.g. `table03-small-minilm-quora-itvreg-s0-1a2b3c4d5e`
    "Return a readable slug and ten hex digits of the sha256 of all settings that are not defaults."
    run = run.as_recorded()
    settings = run.model_dump(mode="json", exclude_defaults=True)
    digits = fingerprint(settings)[:10]
    corpus = run.corpus.display if run.corpus else ""
    parts = (
        run.experiment, run.profile, run.encoder.name.split("/")[-1], corpus, run.method.name, f"s{run.seed}", digits)
    return "-".join(slug(part) for part in parts if part)


class BlockConfig(Settings):
    "Full grid: encoders × corpora × methods × training settings × seeds."
    encoders: Names # labels (else names) from the experiment's `encoders`
    corpora: tuple[CorpusConfig, ...]
    methods: Names # names from the experiment's `methods`
    training: TrainConfig | tuple[TrainConfig, ...]
    seeds: Annotated[tuple[int, ...], Field(min_length=1)]
    evaluate: Names
    measure: tuple[Measure, ...] = ()
    of: str | None = None        # the experiment that these runs belong to; default: this one
    full: bool = False           # left out unless the full grid is asked for
    worlds: Count = 0 # further planted worlds, or random splits, of seeds 1, 2, …, each with the
    # first training seed; in the full grid alone
    redraw: bool = False         # whether each seed draws its own share of the training pairs

    def rules(self):
        sources = [corpus.drawn for corpus in self.corpora]
        yield self.redraw and any(corpus.share == 1 for corpus in self.corpora), "`redraw` belongs to corpora with a `share`"
        yield self.worlds and not all(sources), "`worlds` belongs to planted corpora and to random splits"
        twice = any(1 <= one.seed <= self.worlds for one in sources if one)
        yield twice, "`worlds` counts a world that the block has already"

    @property
    def trainings(self) -> tuple[TrainConfig, ...]: # one, or those of a search
        return self.training if isinstance(self.training, tuple) else (self.training,)


class ColumnConfig(Strict):
    "One column of a table: trained on one corpus, evaluated on one set."
    label: str
    corpus: str                  # label (else name) of a corpus
    evaluate: str
    shift: Literal["iid", "ood"] # whether the set is of the same kind as the training data
    metric: str | None = None    # default: the table's; `{row}` in it stands for the row's name
    suffix: str = ""             # behind the row's name: one method may fill several rows, tested in different ways
    epochs: int | None = None    # of the runs, where a block tries several training settings


class TableConfig(Strict):
    "Numbers that make a table. Rows are encoders × methods."
    id: str                      # its name in `expected/<paper>.yaml`
    metric: str = "auc05"
    unit: Literal["percent", "fraction", "count"] | None = None # default: the paper's; percent for tables of ours
    also: Names = () # further metrics, shown below the table
    columns: Annotated[tuple[ColumnConfig, ...], Field(min_length=1)]
    methods: Names | None = None # rows; default: all
    encoders: Names | None = None # default: all
    rows: dict[str, str] = {}    # method -> what this table calls it
    against: dict[str, str] = {} # method -> the one that it is compared with; default: plain fine-tuning
    tuned: bool = False          # of methods with interpolated weights, whether the tuned ones make a row, too


class Announced(Strict):
    "Number of runs that were announced before any of them was made, where fewer were made."
    runs: Annotated[int, Field(gt=0)]
    commits: Names # of the configuration as announced
    why: str       # a phrase: why there are fewer


class ExperimentConfig(Strict):
    "All runs of one table or figure at one profile."
    paper: FileName
    experiment: FileName
    profile: Profile
    title: str
    scale: str                   # a phrase: at which scale the numbers hold
    page: FileName | None = None # the notebook that shows it; default: the one of its own name
    announced: Announced | None = None # default: all runs that stand here; it is no part of a run
    encoders: tuple[EncoderConfig, ...]
    methods: tuple[MethodConfig, ...]
    blocks: tuple[BlockConfig, ...]
    tables: tuple[TableConfig, ...] = ()
    world: World | None = None   # a world that is drawn, not trained on
    resamples: Natural | None = None # of each test that results/ keeps, of the 200 that a run makes; default: all

    @property
    def name(self) -> str: # `paper/experiment`
        return f"{self.paper}/{self.experiment}"

    def by_name(self, kind: str) -> dict[str, EncoderConfig | MethodConfig]: # kind: `encoders` or `methods`
        "Return all encoders or methods by their names in tables."
        return {one.display: one for one in getattr(self, kind)}

    @model_validator(mode="after")
    def _references(self):
        "Raise `ValueError` with the nearest name for a name that is not defined."
        for kind in ("encoders", "methods"):
            names = self.by_name(kind)
            for name in itertools.chain.from_iterable(getattr(block, kind) for block in self.blocks):
                check_known(kind[:-1], name, names)
        return self

    def block_runs(self, block: BlockConfig) -> list[RunConfig]:
        """Return the runs of one block, each once.

        An encoder that is not trained has no settings and no seed of its own, and of pairs no corpus, unless their overlap
        with training is measured. Those of the first seed stand in the further worlds, too.
        """
        encoders = self.by_name("encoders")
        methods = self.by_name("methods")
        runs = {}
        grid = itertools.product(block.encoders, block.corpora, block.methods, block.trainings, block.seeds)
        for encoder, corpus, name, training, seed in grid:
            method = methods[name]
            own = {}
            if block.redraw and method.trained:
                corpus = corpus.model_copy(update={"share_seed": seed})
            if method.trained:
                own = {"corpus": corpus, "training": training, "seed": seed}
            elif corpus.task != "pairs" or "known texts" in block.measure:
                own = {"eval_corpus": corpus}
            run = RunConfig(
                paper=self.paper, experiment=block.of or self.experiment, profile=self.profile,
                encoder=encoders[encoder], method=method, evaluate=block.evaluate, eval_world=corpus.world,
                measure=block.measure, **own)
            if run.id in runs:
                continue
            runs[run.id] = run
            if not method.trained or seed == block.seeds[0]:
                copies = [run.in_world(world) for world in range(1, block.worlds + 1)]
                runs |= {copy.id: copy for copy in copies}
        return list(runs.values())

    @functools.cached_property
    def of_blocks(self) -> tuple[tuple[BlockConfig, list[RunConfig]], ...]:
        "Each block with its runs."
        return tuple((block, self.block_runs(block)) for block in self.blocks)

    def runs(self) -> list[RunConfig]:
        "Return every run, in a fixed order."
        by_id = {}
        for _, runs in self.of_blocks:
            by_id |= {run.id: run for run in runs}
        return list(by_id.values())


def configured(
    pattern: str, # of files in `configs/`
    root: str | Path | None = None, # the project's root; default: found from here
) -> list[str]: # `paper/experiment`
    "List the experiments with a configuration in such a file."
    files = (Path(root or project_root()) / "configs").glob(pattern)
    return sorted({f"{file.parent.name}/{file.name.partition('.')[0]}" for file in files})


_read_once = once_per_state(load_config)


def load_experiment(
    name: str, # `paper/experiment`, e.g. `itvreg/table03`
    profile: Profile,
    root: str | Path | None = None, # the project's root; default: found from here
) -> ExperimentConfig:
    "Read and validate `configs/<paper>/<experiment>.<profile>.yaml`. Raise `ConfigError`."
    folder = Path(root or project_root()) / "configs"
    name_and_profile = f"{name}.{profile}"
    path = folder / f"{name_and_profile}.yaml"
    names = [f"{file.parent.name}/{file.stem}" for file in sorted(folder.glob("*/*.yaml"))]
    check_known("configuration", name_and_profile, names, ConfigError)
    source = f"configs/{name_and_profile}.yaml"
    config = _read_once(path, ExperimentConfig, source)
    if (config.name, config.profile) != (name, profile):
        raise ConfigError(f"{source}: says it is {config.name} at {config.profile}")
    return config
