"""The cells of tables: which runs make a number, what they say, and what is lacking where they say nothing."""
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from operator import itemgetter

from ...data.registry import load_registry
from ...measures.stats import Interval
from ...runs.config import BlockConfig, ColumnConfig, ExperimentConfig, RunConfig, TableConfig
from ...runs.settings import CorpusConfig, MethodConfig, PairMethod
from ..settings.answers import first_stage
from ..settings.authors import AuthorsMethod
from .printed import ExpectedTable, Printed, load_expected
from ...runs.pairing import Side, mean_level, run_on
from ...runs.records import Records


REFERENCE = "Finetuned" # plain fine-tuning
UNTRAINED_METHODS = ("Base", "Word overlap", "Zero-shot", "BOW", "TF-IDF", "Character 3-grams",
                     "Function words", "Topics")


@dataclass
class Cell:
    "One number of a table at one profile."
    paper: str
    table: str
    profile: str
    encoder: str                  # as displayed
    method: str
    column: str
    shift: str                    # iid or ood
    corpus: str
    evaluate: str
    metric: str = "auc05"         # key in the records
    unit: str = "percent"         # or `fraction`
    role: str | None = None       # weak or strong, of the encoder
    against: str | None = REFERENCE # the method of its table that it is compared with
    family: str = ""              # rows of one family differ in strength, or in another setting of one method
    strength: float | None = None # lambda of a regularizer, or the share of tuned weights; None: neither
    rate: float | None = None     # learning rate
    epochs: int | None = None     # of a column that asks for so many
    texts: str = ""               # what unlabeled texts are of, which a regularizer holds
    share: float | None = None    # of these texts
    of: str = ""                  # of interpolated weights the method, as the table calls it; else `method`
    command: str | None = None    # what fills it
    runs: list[str] = field(default_factory=list)    # ids of all runs that make it
    records: list[str] = field(default_factory=list) # ids of those that are there, and have the metric
    level: Interval | None = None # ours, in the table's unit: mean over seeds
    expected: float | None = None # the paper's number, where it is comparable: at profile `paper`
    status: str = "not run"       # measured: by all of its runs; partial, failed, not run
    why: str | None = None        # what is missing, or the sentence a difference needs

    @property
    def row(self) -> str:
        return f"{self.encoder} · {self.method}"

    @property
    def fields(self) -> dict: # name -> value, those of its level included
        level = vars(self.level) if self.level else {"value": None, "n": 0}
        return level | vars(self)

    @property
    def value(self) -> float | None:
        return self.level and self.level.value

    @property
    def place(self) -> tuple[str, str, str]: # in its table
        return self.encoder, self.method, self.column


def cell_side(
    cell: Cell,
    records: Records,
    unit: str, # of the numbers
) -> Side:
    "Return the side of a comparison that a cell's records make."
    return [run_on(records[i], cell.evaluate, cell.metric, unit) for i in cell.records]


def with_value(cell: Cell, records: Records) -> Cell: # records: id -> its newest record
    "Return a cell with its level and status."
    cell_records = sorted((records[i] for i in cell.runs if i in records), key=itemgetter("seed"))
    ids = [record["id"] for record in cell_records if cell.metric in record["metrics"].get(cell.evaluate, {})]
    cell = replace(cell, records=ids)
    errors = [record["error"] for record in cell_records if record["status"] == "failed"]
    status = "failed" if errors else "not run"
    level = None
    notes = []
    if ids:
        level = mean_level(cell_side(cell, records, cell.unit))
        status = "measured"
        if len(ids) < len(cell.runs):
            status = "partial"
            notes.append(f"{len(ids)} of {len(cell.runs)} runs are there")
    if errors:
        notes.append(f"training stopped: {errors[0]}".replace(" -", " −"))
    return replace(cell, status=status, why="; ".join(notes) or None, level=level)


NAME_ENDINGS = {"weight": " {:g}", "mask_share": " ({:.2f})", "rate": ", {:g}"} # of what stands behind a method's name


def row_name(method: str, **settings) -> str: # settings: those of `NAME_ENDINGS`, others are no part of the name
    "Return what tables call a method in a setting: `OutReg 0.1`, `MaskReg (0.15)`, `Finetuned, 1e-05`."
    return method + "".join(form.format(float(settings[key])) for key, form in NAME_ENDINGS.items() if key in settings)


def beside_paper(cell: Cell, paper_table: ExpectedTable) -> Cell:
    "Return a cell with the number that the paper prints there, if it prints one or says why it does not."
    paper_cell = next((printed_cell for printed_cell in paper_table.cells if is_printed(cell, printed_cell)), None)
    if paper_cell is None:
        return cell
    is_of_paper = paper_cell.value is None or cell.status == "measured"
    return replace(cell, expected=paper_cell.value, why=paper_cell.note if is_of_paper else cell.why)


def is_printed(cell: Cell, paper_cell: Printed) -> bool:
    "Return whether a number of the same table is the paper's for a cell; rows without a base encoder hold for all."
    base = paper_cell.row.get("base", cell.encoder)
    return cell.place == (base, row_name(**paper_cell.row), paper_cell.column)


FAMILIES = { # regularizer or augmentation -> what tables call it
    "itvreg": "ITVReg",
    "maskreg": "MaskReg",
    "outreg": "OutReg",
    "simcse": "SimCSE",
    "l2sp": "L2-SP",
    "itvaug": "ITVAug",
    "worddropout": "Word dropout",
}


def remedy_of(method: MethodConfig) -> str | None: # None: it has none
    "Return the regularizer or augmentation that a method is a strength or a variant of."
    if not isinstance(method, PairMethod):
        return None
    return FAMILIES.get(method.regularizer) or FAMILIES.get(method.augmentation)


def _strength_and_texts(method: MethodConfig) -> dict: # strength, texts and share of `table_rows`
    if not isinstance(method, PairMethod):
        return {"strength": None, "texts": "", "share": None}
    texts = method.texts
    corpora = ", ".join(texts.corpora) if texts else ""
    return {"strength": method.weight or None, "texts": corpora, "share": texts.share if texts else None}


def table_rows(
    run: RunConfig,
    block: BlockConfig,
    with_tuned: bool = False, # of interpolated weights, whether the tuned ones make a row, too
) -> Iterator[dict]: # of a cell: method, of, family, strength, rate, texts, share; and `suffix`
    """Yield the rows of a table that a run belongs to.

    One, of its learning rate where a block tries several; or one a share of interpolated weights. `suffix` ends the
    name of their evaluation sets, `@0.5` for weights between base and tuned."""
    method = run.method
    name = method.display
    row = dict(
        method=name, of="", family=method.name, suffix="", rate=run.training.learning_rate if run.training else None,
        **_strength_and_texts(method))
    for share in method.mixing_weights:
        at_share = dict(strength=share, suffix=f"@{share:g}", of=name)
        yield row | at_share | dict(method=row_name(name, weight=share))
    if method.mixing_weights:
        if with_tuned:
            yield row | dict(strength=1.)
    elif run.training and isinstance(block.training, tuple):
        yield row | dict(method=row_name(name, rate=row["rate"]))
    else:
        yield row | dict(family=remedy_of(method) or (method.setting and method.name)) # None: what the table calls it


def _is_of(run: RunConfig, column: ColumnConfig, corpus: CorpusConfig) -> bool:
    """Return whether a run belongs to a column: trained on its corpus and so long, or evaluated on it without training.

    A corpus that is sampled again with another seed is the same one."""
    if run.data:
        is_on = run.data.display == corpus.display
    else:
        eval_world, corpus_world = (world and world.model_copy(update={"seed": 0})
                                    for world in (run.eval_world, corpus.world))
        is_on = eval_world == corpus_world
    is_trained_so = run.training is None or column.epochs in (None, run.training.epochs)
    return column.evaluate in run.evaluate and is_trained_so and is_on


def table_cells(
    experiment: ExperimentConfig,
    table: TableConfig,       # one of its `tables`
    records: Records,           # id -> record
) -> list[Cell]:
    """Return every cell of one table with its status, at profile `paper` with the paper's numbers.

    Encoders and methods stand as configured, and interpolated weights of one method from weak to strong."""
    paper_table = load_expected(experiment.paper).tables.get(table.id)
    unit = table.unit or getattr(paper_table, "unit", "percent")
    cells = {}
    for cell, run in _empty_cells(experiment, table):
        if cell.place in cells and cells[cell.place].value is not None:
            continue
        cell = with_value(replace(cell, unit=unit), records)
        if paper_table and experiment.profile == "paper":
            cell = beside_paper(cell, paper_table)
        if cell.status == "not run" and not cell.why:
            cell.why = lack_of(cell, run)
        cells[cell.place] = cell
    encoders = list(experiment.by_name("encoders"))
    methods = table.methods or experiment.by_name("methods")
    names = [table.rows.get(method, method) for method in methods]
    order = [*names, *(cell.of for cell in cells.values())]

    def place_of(cell):
        strength = cell.strength if cell.of != cell.method else 0.
        return encoders.index(cell.encoder), order.index(cell.of), strength

    return sorted(cells.values(), key=place_of)


def _empty_cells(experiment: ExperimentConfig, table: TableConfig) -> Iterator[tuple[Cell, RunConfig]]:
    """Yield the cells of a table with the ids of their runs, and one of these runs, block by block.

    Blocks of one training on the same data are one: they differ in seeds."""
    cells = {}
    for block, runs in experiment.of_blocks:
        command = f"debias-nb run {experiment.name} --profile {experiment.profile}" + " --full" * block.full
        encoders = table.encoders or block.encoders
        corpora = {corpus.display: corpus for corpus in block.corpora}
        columns = [column for column in table.columns if column.corpus in corpora]
        for column, run in product(columns, runs):
            if run.encoder.display in encoders and _is_of(run, column, corpora[column.corpus]):
                for row in table_rows(run, block, table.tuned):
                    place = (block.training, block.corpora, run.encoder.display, row["method"], column)
                    if table.methods and row["method"] not in table.methods:
                        continue
                    if place not in cells:
                        cells[place] = _empty_cell(experiment, table, column, run, row, command), run
                    if run.id not in cells[place][0].runs:
                        cells[place][0].runs.append(run.id)
    yield from cells.values()


def _empty_cell(
    experiment: ExperimentConfig, table: TableConfig, column: ColumnConfig, run: RunConfig, row: dict, command: str,
) -> Cell: # row: of `table_rows`
    "Return a cell before its records are read."
    reference_name = table.against.get(run.method.display) if table.against else REFERENCE
    name = table.rows.get(row["method"], row["method"]) + column.suffix
    reference = table.rows.get(reference_name, reference_name)
    base_method = table.rows.get(row["of"], row["of"])
    metric = column.metric or table.metric
    return Cell(
        experiment.paper, table.id, experiment.profile, run.encoder.display, name, column.label, column.shift,
        column.corpus,
        evaluate=column.evaluate + row["suffix"], metric=metric.replace("{row}", name), role=run.encoder.role,
        against=reference,
        family=row["family"] or name, of=base_method or name, command=command, epochs=column.epochs,
        **{key: row[key] for key in ("strength", "rate", "texts", "share")})


def lack_of(cell: Cell, run: RunConfig) -> str: # run: one that fills it
    "Explain from the registry alone why a cell is empty."
    if cell.metric.startswith("leakage") and cell.profile == "small":
        return "no test topic has texts of two authors, so that topics and authors cannot be separated"
    if cell.evaluate == "counts":
        return "the file has no public download: download it manually (`debias-nb data`)"
    is_full = cell.profile == "paper"
    needs = {run.data.name: True} if run.data else {} # name of a data set -> whether all of its files are wanted
    stage = first_stage(run)
    if stage:
        needs[stage.corpus] = True
    needs.setdefault(cell.evaluate, is_full) # a reduced run may want the test part alone
    lacks = []
    for name, is_whole in needs.items():
        dataset = load_registry().datasets.get(name)
        files = dataset.files if dataset else ()
        hidden = [file.file for file in files if not file.url]
        is_part = len(hidden) < len(files)
        if hidden and (is_whole or not is_part):
            files_without = f" of {', '.join(hidden)}" if is_part else ""
            lacks.append(f"{name} has no public download{files_without}: download its files manually "
                         "(`debias-nb data`)")
    is_counted = isinstance(run.method, AuthorsMethod) and run.method.is_counted
    if is_full and "/" in run.encoder.name and not is_counted:
        lacks += [f"the encoder {run.encoder.name} from the hub (`debias-nb data`)", "a GPU"]
    return "; ".join(lacks) or "has not been run"


def reasons(cells: list[Cell]) -> list[str]: # each once, in order of appearance
    "List what the cells lack, separately where a cell lacks several things."
    parts = [part for cell in cells if cell.why for part in cell.why.split("; ")]
    return list(dict.fromkeys(parts))
