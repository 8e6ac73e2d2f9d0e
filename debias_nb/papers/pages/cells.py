"""The cells of tables: which runs make a number, what they say, and what is lacking where they say nothing."""
from collections.abc import Iterator
from itertools import product
from operator import itemgetter

import pandas as pd

from ...data.registry import load_registry
from ...runs.config import BlockConfig, ColumnConfig, ExperimentConfig, RunConfig, TableConfig
from ...runs.settings import CorpusConfig, MethodConfig, PairMethod
from ..settings.answers import first_stage
from ..settings.authors import AuthorsMethod
from .printed import Printed, load_expected
from ...runs.pairing import mean_level, run_on
from ...runs.records import Records


REFERENCE = "Finetuned" # plain fine-tuning
UNTRAINED_METHODS = ("Base", "Word overlap", "Zero-shot", "BOW", "TF-IDF", "Character 3-grams",
                     "Function words", "Topics")


CELL = { # what is known of a cell before its records are read: the columns of the frame of cells
    "paper": "", "table": "", "profile": "",
    "encoder": "",        # as displayed
    "method": "", "column": "",
    "shift": "",          # iid or ood
    "corpus": "", "evaluate": "",
    "metric": "auc05",    # key in the records
    "unit": "percent",    # or `fraction`
    "role": None,         # weak or strong, of the encoder
    "against": REFERENCE, # the method of its table that it is compared with
    "family": "",         # rows of one family differ in strength, or in another setting of one method
    "strength": None,     # lambda of a regularizer, or the share of tuned weights; None: neither
    "rate": None,         # learning rate
    "epochs": None,       # of a column that asks for so many
    "texts": "",          # what unlabeled texts are of, which a regularizer holds
    "share": None,        # of these texts
    "of": "",             # of interpolated weights the method, as the table calls it; else `method`
    "command": None,      # what fills it
    "runs": (),           # ids of all runs that make it
    "records": (),        # ids of those that are there, and have the metric
    "value": None, "std": None, "low": None, "high": None, "n": 0, # ours, in the table's unit: mean over seeds
    "expected": None,     # the paper's number, where it is comparable: at profile `paper`
    "status": "not run",  # measured: by all of its runs; partial, failed, not run
    "why": None,          # what is missing, or the sentence a difference needs
}


def frame_of(cells: list[dict]) -> pd.DataFrame: # cells: as `CELL`, or with some of it
    return pd.DataFrame([CELL | cell for cell in cells], columns=[*CELL], dtype=object)


def with_value(cell: dict, records: Records) -> dict: # cell: as `CELL`; records: id -> its newest record
    "Return a cell with its level and status."
    cell_records = sorted((records[i] for i in cell["runs"] if i in records), key=itemgetter("seed"))
    present = [record for record in cell_records if cell["metric"] in record["metrics"].get(cell["evaluate"], {})]
    errors = [record["error"] for record in cell_records if record["status"] == "failed"]
    notes = [f"training stopped: {error}".replace(" -", " −") for error in errors[:1]]
    cell = cell | {"records": [record["id"] for record in present], "status": "failed" if errors else "not run"}
    if present:
        side = [run_on(record, cell["evaluate"], cell["metric"], cell["unit"]) for record in present]
        level = vars(mean_level(side))
        cell |= {name: level[name] for name in ("value", "std", "low", "high", "n")} | {"status": "measured"}
        if len(present) < len(cell["runs"]):
            cell["status"] = "partial"
            notes.insert(0, f"{len(present)} of {len(cell['runs'])} runs are there")
    return cell | {"why": "; ".join(notes) or None}


NAME_ENDINGS = {"weight": " {:g}", "mask_share": " ({:.2f})", "rate": ", {:g}"} # of what stands behind a method's name


def row_name(method: str, **settings) -> str: # settings: those of `NAME_ENDINGS`, others are no part of the name
    "Return what tables call a method in a setting: `OutReg 0.1`, `MaskReg (0.15)`, `Finetuned, 1e-05`."
    return method + "".join(form.format(float(settings[key])) for key, form in NAME_ENDINGS.items() if key in settings)


def printed_place(printed: Printed) -> tuple[str, str, str]: # of a number: encoder, method, column
    "Return where a number of the paper stands; rows without a base encoder hold for all."
    return printed.row.get("base", ""), row_name(**printed.row), printed.column


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
        strength=None, texts="", share=None)
    if isinstance(method, PairMethod):
        row["strength"] = method.weight or None
        if method.texts:
            row |= dict(texts=", ".join(method.texts.corpora), share=method.texts.share)
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
) -> list[dict]: # as `CELL`
    """Return every cell of one table with its status, at profile `paper` with the paper's numbers.

    Encoders and methods stand as configured, and interpolated weights of one method from weak to strong."""
    paper_table = load_expected(experiment.paper).tables.get(table.id)
    unit = table.unit or getattr(paper_table, "unit", "percent")
    printed = {}
    if paper_table and experiment.profile == "paper":
        printed = {printed_place(one): one for one in paper_table.cells}
    cells = {}
    for cell, run in _empty_cells(experiment, table):
        place = cell["encoder"], cell["method"], cell["column"]
        if place in cells and cells[place]["value"] is not None:
            continue
        cells[place] = cell = with_value(cell | {"unit": unit}, records)
        beside = printed.get(place) or printed.get(("", *place[1:]))
        if beside:
            cell["expected"] = beside.value
            if beside.value is None or cell["status"] == "measured":
                cell["why"] = beside.note
        if cell["status"] == "not run" and not cell["why"]:
            cell["why"] = lack_of(cell, run)
    encoders = list(experiment.by_name("encoders"))
    methods = table.methods or experiment.by_name("methods")
    names = [table.rows.get(method, method) for method in methods]
    order = [*names, *(cell["of"] for cell in cells.values())]

    def place_of(cell):
        strength = cell["strength"] if cell["of"] != cell["method"] else 0.
        return encoders.index(cell["encoder"]), order.index(cell["of"]), strength

    return sorted(cells.values(), key=place_of)


def _empty_cells(experiment: ExperimentConfig, table: TableConfig) -> Iterator[tuple[dict, RunConfig]]:
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
                    if run.id not in cells[place][0]["runs"]:
                        cells[place][0]["runs"].append(run.id)
    yield from cells.values()


def _empty_cell(
    experiment: ExperimentConfig, table: TableConfig, column: ColumnConfig, run: RunConfig, row: dict, command: str,
) -> dict: # row: of `table_rows`
    "Return a cell before its records are read."
    shown = {name: table.rows.get(name, name) for name in (row["method"], row["of"])}
    name = shown[row["method"]] + column.suffix
    reference = table.against.get(run.method.display) if table.against else REFERENCE
    metric = column.metric or table.metric
    place = {"paper": experiment.paper, "table": table.id, "profile": experiment.profile,
             "encoder": run.encoder.display, "role": run.encoder.role, "method": name, "column": column.label}
    test = {"shift": column.shift, "corpus": column.corpus, "evaluate": column.evaluate + row["suffix"],
            "metric": metric.replace("{row}", name), "epochs": column.epochs}
    names = {"against": table.rows.get(reference, reference), "family": row["family"] or name,
             "of": shown[row["of"]] or name}
    settings = {key: row[key] for key in ("strength", "rate", "texts", "share")}
    return CELL | place | test | settings | names | {"command": command, "runs": []}


def lack_of(cell: dict, run: RunConfig) -> str: # run: one that fills it
    "Explain from the registry alone why a cell is empty."
    if cell["metric"].startswith("leakage") and cell["profile"] == "small":
        return "no test topic has texts of two authors, so that topics and authors cannot be separated"
    if cell["evaluate"] == "counts":
        return "the file has no public download: download it manually (`debias-nb data`)"
    is_full = cell["profile"] == "paper"
    needs = {run.data.name: True} if run.data else {} # name of a data set -> whether all of its files are wanted
    stage = first_stage(run)
    if stage:
        needs[stage.corpus] = True
    needs.setdefault(cell["evaluate"], is_full) # a reduced run may want the test part alone
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
