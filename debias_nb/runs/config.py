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
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import Field, TypeAdapter, ValidationError, field_validator, model_validator

from ..settings import EncoderConfig, World
from ..checks import MOST_SEEDS, ConfigError, check_known, check_seeds, quoted
from ..files import Count, Names, Natural, Settings, Strict, explain, fingerprint, load_yaml, once_per_state
from ..files import project_root
from .settings import PAIRS, AnyCorpus, AnyMethod, AnyTraining, CorpusConfig, MethodConfig, TrainConfig, task_settings

Profile = Literal["planted", "small", "paper"]
NARROWING = ("seeds", "methods", "encoders", "weight") # parameters that say which runs of an experiment are asked for
OWN_PROFILE = "own" # in the place of a profile, of runs on a user's files
SomeNames = Annotated[Names, Field(min_length=1)]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")] # what of a configuration names a file
PRINTED_TABLE = re.compile(r"(table|figure)(\d+)") # an experiment or a table that a paper prints


def place_of(name: str) -> str: # `paper/experiment`
    "Return where an experiment lies in `experiments/`: with its paper, or in `studies/` if no paper prints it."
    return name if PRINTED_TABLE.fullmatch(name.rpartition("/")[2]) else f"studies/{name}"


def name_of(place: str) -> str: # `paper/experiment`, with what stands behind it
    "Return the name of an experiment that lies at a place of `place_of`."
    return place.removeprefix("studies/")


def file_of(name: str) -> str: # name: `paper/experiment`
    "Return the file of an experiment's configuration, from the project's root on."
    return f"experiments/{place_of(name)}.yaml"


# Gradient norms of each regularizer; top items (and token importance) of some queries;
# words of real pairs: how many of them training has seen, and how important brands, shops and numbers are; retrieval of
# duplicates over all right texts of an evaluation set; how many texts of a test also occur in training, and scores of
# overlapping and of disjoint pairs; replicates in which pairs that share texts are drawn together.
Measure = Literal["gradients", "cases", "words", "retrieval", "known texts", "shared texts"]


class RunConfig(Strict):
    "Settings that determine one run."
    paper: FileName
    experiment: FileName
    profile: Profile | Literal["own"]
    encoder: EncoderConfig
    corpus: AnyCorpus | None = None # None for an encoder that is not trained
    # what an encoder which is not trained is tested on, or compared with for overlap
    eval_corpus: AnyCorpus | None = None
    method: AnyMethod
    training: AnyTraining | None = None
    evaluate: Names # names of evaluation sets
    eval_world: World | None = None # the world that planted evaluation sets come from
    measure: tuple[Measure, ...] = () # what else is looked at
    seed: int = 0

    @field_validator("method", "training")
    @classmethod
    def _of_its_task(cls, part, info):
        corpus = info.data.get("corpus") or info.data.get("eval_corpus")
        return task_settings(corpus.task if corpus else PAIRS).fit(part, info.field_name)

    @functools.cached_property
    def id(self) -> str:
        return run_id(self)

    @property
    def data(self) -> CorpusConfig | None: # what it is trained on, or else tested on
        return self.corpus or self.eval_corpus

    @property
    def task(self) -> str:
        return self.data.task if self.data else PAIRS

    @property
    def is_closed(self) -> bool:
        "Whether a run is not made any more: a question that is answered leaves its records and pages."
        return self.method.is_closed or bool(self.data and self.data.is_closed)

    @property
    def place(self) -> str: # of the records of its experiment
        return f"{place_of(f'{self.paper}/{self.experiment}')}.{self.profile}"

    @property
    def world_seed(self) -> int | None:
        "Seed of its synthetic dataset, or of its random split; None: real data, divided in one way."
        source = (self.data and self.data.drawn) or self.eval_world
        return source.seed if source else None

    def in_world(self, seed: int) -> "RunConfig":
        """Return the same run in another synthetic dataset, or on another random split of real texts.

        Words, texts, and the base encoder that was made there are drawn again.
        """
        changes = {name: corpus.with_seed(seed) for name in ("corpus", "eval_corpus")
                   if (corpus := getattr(self, name))}
        if self.encoder.world:
            parts = {name: getattr(self.encoder, name).model_copy(update={"seed": seed})
                     for name in ("world", "pretrain")}
            changes["encoder"] = self.encoder.model_copy(update=parts)
        if self.eval_world:
            changes["eval_world"] = self.eval_world.model_copy(update={"seed": seed})
        return self.model_copy(update=changes)

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
        raise ConfigError(f"{name} must be a list, got the text {quoted(value)}; papermill takes lists as -y "
                          f"{quoted(f'{name}: {value}')}")
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
    settings = run.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    digits = fingerprint(settings)[:10]
    corpus = run.corpus.display if run.corpus else ""
    parts = (
        run.experiment, run.profile, run.encoder.name.split("/")[-1], corpus, run.method.name, f"s{run.seed}", digits)
    return "-".join(slug(part) for part in parts if part)


class BlockConfig(Settings):
    "Full grid: encoders × corpora × methods × training settings × seeds."
    encoders: SomeNames # labels (else names) from the experiment's `encoders`
    corpora: tuple[AnyCorpus, ...]
    methods: SomeNames # names from the experiment's `methods`
    training: AnyTraining | tuple[AnyTraining, ...]
    seeds: tuple[Any, ...]       # whole numbers, each once
    evaluate: SomeNames
    measure: tuple[Measure, ...] = ()
    of: str | None = None        # the experiment that these runs belong to; default: this one
    full: bool = False           # left out unless the full grid is asked for
    # further planted worlds, or random splits, of seeds 1, 2, …, each with the first training seed; in the full grid
    # alone
    worlds: Annotated[Count, Field(le=MOST_SEEDS)] = 0
    redraw: bool = False         # whether each seed draws its own share of the training pairs

    @field_validator("seeds")
    @classmethod
    def _are_seeds(cls, seeds):
        check_seeds("seeds", seeds, ValueError)
        return tuple(map(int, seeds))

    def rules(self):
        sources = [corpus.drawn for corpus in self.corpora]
        yield self.redraw and any(getattr(corpus, "share", 1) == 1
                                  for corpus in self.corpora), "`redraw` belongs to corpora with a `share`"
        yield self.worlds and not all(sources), "`worlds` belongs to planted corpora and to random splits"
        twice = any(1 <= source.seed <= self.worlds for source in sources if source)
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
    id: str                      # its name in `experiments/printed/<paper>.yaml`
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
    page: str = ""               # the notebook of `nbs/papers/` that shows it; default: the one of its own name
    announced: Announced | None = None # default: all runs that stand here; it is no part of a run
    encoders: tuple[EncoderConfig, ...]
    blocks: tuple[BlockConfig, ...]
    methods: tuple[AnyMethod, ...]
    tables: tuple[TableConfig, ...] = ()
    world: World | None = None   # a world that is drawn, not trained on
    resamples: Natural | None = None # of each test that experiments/ keeps, of the 200 that a run makes; default: all

    @property
    def name(self) -> str: # `paper/experiment`
        return f"{self.paper}/{self.experiment}"

    def by_name(self, kind: str) -> dict[str, EncoderConfig | MethodConfig]: # kind: `encoders` or `methods`
        "Return all encoders or methods by their names in tables."
        return {part.display: part for part in getattr(self, kind)}

    @field_validator("methods")
    @classmethod
    def _of_their_tasks(cls, methods, info):
        "Give each method the class of its blocks' task; one without settings of a task may stand in blocks of several."
        tasks = {}
        for block in info.data.get("blocks", ()):
            for name in block.methods:
                tasks.setdefault(name, set()).update(corpus.task for corpus in block.corpora)
        fitted = []
        for method in methods:
            fits = [task_settings(task).fit(method, "method") for task in sorted(tasks.get(method.display, ()))]
            fitted.append(fits[0] if len(fits) == 1 else method)
        return tuple(fitted)

    @model_validator(mode="after")
    def _references(self):
        "Raise `ValueError` with the nearest name for a name that is not defined."
        for kind in ("encoders", "methods"):
            names = self.by_name(kind)
            if len(names) < len(getattr(self, kind)):
                raise ValueError(f"{kind}: a name occurs twice; their names are {', '.join(names)}")
            for name in itertools.chain.from_iterable(getattr(block, kind) for block in self.blocks):
                check_known(kind[:-1], name, names)
        corpora = {corpus.display for block in self.blocks for corpus in block.corpora}
        sets = {name for block in self.blocks for name in block.evaluate}
        for column in itertools.chain.from_iterable(table.columns for table in self.tables):
            check_known("corpus of a column", column.corpus, corpora)
            check_known("evaluation set of a column", column.evaluate, sets)
        return self

    def block_runs(self, block: BlockConfig) -> list[RunConfig]:
        """Return the runs of one block, each once.

        An encoder that is not trained has no settings and no seed of its own, and of pairs no corpus, unless their
        overlap with training is measured. Those of the first seed stand in the further worlds, too.
        """
        encoders = self.by_name("encoders")
        methods = self.by_name("methods")
        runs = {}
        grid = itertools.product(block.encoders, block.corpora, block.methods, block.trainings, block.seeds)
        for encoder, corpus, name, training, seed in grid:
            method = methods[name]
            fields = {}
            if block.redraw and method.trained:
                corpus = corpus.model_copy(update={"share_seed": seed})
            if method.trained:
                fields = {"corpus": corpus, "training": training, "seed": seed}
            elif corpus.task != PAIRS or "known texts" in block.measure:
                fields = {"eval_corpus": corpus}
            run = RunConfig(
                paper=self.paper, experiment=block.of or self.experiment, profile=self.profile,
                encoder=encoders[encoder], method=method, evaluate=block.evaluate, eval_world=corpus.world,
                measure=block.measure, **fields)
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
    pattern: str, # of files in `experiments/`
    root: str | Path | None = None, # the project's root; default: found from here
) -> list[str]: # `paper/experiment`
    "List the experiments with a configuration in such a file; `*.planted.yaml` asks for a profile."
    name, _, profile = pattern.removesuffix(".yaml").partition(".")
    files = (Path(root or project_root()) / "experiments").glob(f"**/{name}.yaml")
    return sorted(f"{file.parent.name}/{file.stem}" for file in files
                  if file.parent.name not in ("experiments", "printed") and file.stem not in STATEMENTS and (
                      profile in ("", "*") or profile in sections(file)))


STATEMENTS = ("claims", "errata") # the files beside those of experiments


def sections(path: Path) -> dict[str, dict]: # profile -> what an experiment says at it
    "Read the profiles of an experiment."
    return sections_of(load_yaml(path), path)


def sections_of(settings: dict, path: Path) -> dict[str, dict]:
    "Part a file by profile: what stands above them holds for all."
    common = {key: value for key, value in settings.items() if key not in get_args(Profile)}
    place = {"paper": path.parent.name, "experiment": path.stem}
    return {profile: common | place | {"profile": profile} | settings[profile]
            for profile in get_args(Profile) if profile in settings}


def _load_experiment(path: Path, profile: Profile, source: str) -> ExperimentConfig:
    settings = sections(path)
    check_known(f"profile in {source} called", profile, settings, ConfigError)
    try:
        return ExperimentConfig.model_validate(settings[profile])
    except ValidationError as e:
        raise ConfigError(explain(e, f"{source}, {profile}")) from None


_load_experiment_once = once_per_state(_load_experiment)


def load_experiment(
    name: str, # `paper/experiment`, e.g. `itvreg/table03`
    profile: Profile,
    root: str | Path | None = None, # the project's root; default: found from here
) -> ExperimentConfig:
    "Read and validate a profile of an experiment's file, `file_of`. Raise `ConfigError`."
    check_known("configuration", name, configured("*/*.yaml", root), ConfigError)
    return _load_experiment_once(Path(root or project_root()) / file_of(name), profile, file_of(name))
