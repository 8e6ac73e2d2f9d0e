"""Make the file of published fine-tunes from a clone of https://github.com/embeddings-benchmark/results:

python tools/finetunes.py CLONE                     write experiments/finetunes.csv.xz and experiments/finetunes.json
python tools/finetunes.py CLONE --out FOLDER        write both elsewhere

A row is a task of which a fine-tune and the model that it was adapted from both have a score. What is adapted from
what, and trained on what, is read from an installed mteb (`pip install mteb`), which nothing else here needs. Bases
whose name has a sha256 that 3 divides are left out, so that ranges can be tried on them later.
"""
import argparse
import hashlib
import json
import lzma
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import pandas as pd

from debias_nb.diagnosis.files.mteb_results import is_same_data
from debias_nb.files import sha256_file

ROOT = Path(__file__).resolve().parents[1]
REPOSITORY = "github:embeddings-benchmark/results"
FILE = "finetunes.csv.xz"
FEWEST = 10     # tasks that a fine-tune and its base have in common
SAME_SIZE = .1  # difference of parameters up to which two models have the same size
LANGUAGES = 4   # of a task, up to which they are named and not counted
LARGEST = 4 << 20 # bytes of a file of scores: larger ones have thousands of pairs of languages
DECIMALS = 3    # of a score
TEST = "test"   # the split that is counted; another one where a task has none
EXCLUDED = ("exclude_superseded", "exclude_aggregate", "exclude_private", "exclude_beta") # by mteb, unless asked
UNNAMED = ("external", "no_revision_available") # folders of scores that name no revision
COLUMNS = [
    "tuned", "base", "same_size", "parameters", "released", "task", "kind", "text", "items", "languages", "subsets",
    "trained", "base_trained", "base_score", "tuned_score", "tuned_mteb", "base_mteb", "same_revision"]


class ResultError(ValueError):
    "A file of results, or a clone, that cannot be read."


@dataclass
class ModelFacts:
    "What mteb says of a model."
    base: str | None = None           # the model that it was adapted from
    parameters: float | None = None
    released: str | None = None
    training_sets: frozenset[str] | None = None # None: nothing is declared


@dataclass
class TaskFacts:
    "What mteb says of a task."
    kind: str = ""
    is_text: bool = False    # whether it has no pictures, sound or video
    items: int | None = None # queries, or samples of the test


@dataclass
class Facts:
    "What an installed mteb says of models and tasks, by name."
    models: dict[str, ModelFacts]
    tasks: dict[str, TaskFacts]
    version: str


@dataclass
class Score:
    "The scores of a model on one task."
    subsets: dict[tuple[str, str], float] # split and subset -> main score, from 0 to 1
    languages: dict[tuple[str, str], list[str]]
    version: str | None                   # of mteb
    revision: str | None                  # of the data


@dataclass
class Pair:
    "A fine-tune and the model that it was adapted from, with the tasks of both."
    tuned: str
    base: str
    tuned_scores: dict[str, Score] = field(default_factory=dict)
    base_scores: dict[str, Score] = field(default_factory=dict)


def is_left_out(base: str) -> bool:
    "Return whether a base is kept for later trials."
    return int(hashlib.sha256(base.encode()).hexdigest(), 16) % 3 == 0


def items_of(statistics: dict | None) -> int | None:
    "Return the number of queries of a task's test, or of samples where it has no queries."
    splits = statistics or {}
    test = splits.get(TEST) or next(iter(splits.values()), {})
    queries = test.get("queries_text_statistics") or {}
    return test.get("num_queries") or queries.get("unique_texts") or test.get("num_samples")


def installed_facts() -> Facts:
    "Read what the installed mteb says. Raises `SystemExit` where there is none."
    try:
        import mteb
    except ImportError:
        raise SystemExit("mteb is not installed: pip install mteb, in an environment of its own") from None
    models = {}
    for meta in mteb.get_model_metas():
        training_sets = frozenset(meta.training_datasets) if meta.training_datasets else None
        models[meta.name] = ModelFacts(meta.adapted_from, meta.n_parameters, meta.release_date, training_sets)
    tasks = {}
    for task in mteb.get_tasks(**dict.fromkeys(EXCLUDED, False)):
        kind = type(task).__module__.split(".")[2] # mteb.tasks.<kind>.<language>
        metadata = task.metadata
        tasks[metadata.name] = TaskFacts(kind, list(metadata.modalities) == ["text"],
                                         items_of(metadata.descriptive_stats))
    return Facts(models, tasks, mteb.__version__)


def is_number(value: object) -> bool:
    "Return whether a main score can be counted: some files have lists, NaN or nothing in its place."
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read_score(path: Path) -> Score | None:
    "Read the scores of one task, or return None for a file without a number. Raises `ResultError`."
    subsets, languages = {}, {}
    try:
        content = json.loads(path.read_text("utf-8"))
        splits = content.get("scores") or {} # the oldest files have none
        for split, rows in splits.items():
            for row in rows:
                if is_number(row.get("main_score")):
                    subset = split, row["hf_subset"]
                    subsets[subset] = float(row["main_score"])
                    languages[subset] = list(row.get("languages") or [])
        version, revision = content.get("mteb_version"), content.get("dataset_revision")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ResultError(f"{path} is no result of mteb: {error!r}") from None
    return Score(subsets, languages, version, revision) if subsets else None


def revisions(folder: Path) -> list[Path]:
    "Return a model's folders of scores, those that name no revision last."
    folders = [path for path in sorted(folder.iterdir()) if path.is_dir()]
    named = [path for path in folders if path.name not in UNNAMED]
    named.sort(key=lambda path: len(list(path.glob("*.json"))), reverse=True)
    return named + [path for path in folders if path.name in UNNAMED]


def read_model(clone: Path, name: str) -> dict[str, Score]:
    "Read the scores of a model, task by task, each from the first of `revisions` that has one. Raises `ResultError`."
    folder = clone / "results" / name.replace("/", "__")
    scores = {}
    for revision in revisions(folder) if folder.is_dir() else ():
        for path in sorted(revision.glob("*.json")):
            if path.name == "model_meta.json" or path.stem in scores or path.stat().st_size >= LARGEST:
                continue
            score = read_score(path)
            if score:
                scores[path.stem] = score
    return scores


def pairs(clone: Path, facts: Facts) -> Iterator[Pair]:
    "Yield each fine-tune with its base, where both have enough tasks in common."
    scores = {}
    for name, card in sorted(facts.models.items()):
        if card.base is None or card.base == name or is_left_out(card.base):
            continue
        for model in (name, card.base):
            if model not in scores:
                scores[model] = read_model(clone, model)
        if len(scores[name].keys() & scores[card.base].keys()) >= FEWEST:
            yield Pair(name, card.base, scores[name], scores[card.base])


def is_same_size(first: float | None, second: float | None) -> bool:
    "Return whether two models have as many parameters, up to a tenth."
    return bool(first and second) and abs(first - second) <= SAME_SIZE * second


def yes_or_no(holds: bool) -> str:
    "Return a truth as the file has it."
    return "yes" if holds else "no"


def declaration(training_sets: frozenset[str] | None, task: str) -> str:
    "Return whether a model is declared to be trained on a task, `yes` or `no`; empty: nothing is declared."
    if training_sets is None:
        return ""
    return yes_or_no(any(is_same_data(task, name) for name in training_sets))


def named_languages(score: Score, subsets: list[tuple[str, str]]) -> str:
    "Return the languages of some subsets, or how many there are."
    names = sorted({language for subset in subsets for language in score.languages[subset]})
    return " ".join(names) if len(names) <= LANGUAGES else f"{len(names)} languages"


def common_subsets(tuned: Score, base: Score) -> list[tuple[str, str]]:
    "Return the splits and subsets of which both models have a score: those of the test, or all where none of it is."
    shared = [subset for subset in tuned.subsets if subset in base.subsets]
    return [subset for subset in shared if subset[0] == TEST] or shared


def row_of(pair: Pair, task: str, facts: Facts) -> dict | None:
    "Return a task of a pair as a row, or None where the two have no subset in common."
    tuned, base = pair.tuned_scores[task], pair.base_scores[task]
    shared = common_subsets(tuned, base)
    if not shared:
        return None
    card, of_base = facts.models[pair.tuned], facts.models.get(pair.base, ModelFacts())
    of_task = facts.tasks.get(task, TaskFacts())
    scores = [round(100 * fmean(model.subsets[subset] for subset in shared), DECIMALS) for model in (base, tuned)]
    same_size = yes_or_no(is_same_size(card.parameters, of_base.parameters))
    values = [
        pair.tuned, pair.base, same_size, card.parameters, card.released, task, of_task.kind,
        yes_or_no(of_task.is_text), of_task.items, named_languages(tuned, shared), len(shared),
        declaration(card.training_sets, task), declaration(of_base.training_sets, task),
        *scores, tuned.version, base.version, yes_or_no(tuned.revision == base.revision)]
    return dict(zip(COLUMNS, values))


def changes(clone: Path, facts: Facts) -> pd.DataFrame:
    "Return all rows. Raises `ResultError` for a clone without results, or a file that cannot be read."
    if not (clone / "results").is_dir():
        raise ResultError(f"{clone} has no folder results/: it is no clone of {REPOSITORY}")
    rows = []
    for pair in pairs(clone, facts):
        tasks = sorted(pair.tuned_scores.keys() & pair.base_scores.keys())
        of_pair = [row for task in tasks if (row := row_of(pair, task, facts))]
        rows += of_pair if len(of_pair) >= FEWEST else []
    return pd.DataFrame(rows, columns=COLUMNS)


def commit_of(clone: Path) -> str:
    "Return the commit of a clone; empty where it is no checkout of git."
    done = subprocess.run(["git", "-C", str(clone), "rev-parse", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip()


def write(table: pd.DataFrame, folder: Path, clone: Path, version: str) -> None:
    "Write the file and where it is from."
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / FILE
    text = table.to_csv(index=False, float_format="%.12g", lineterminator="\n")
    file.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    source = json.loads((ROOT / "experiments/finetunes.json").read_text("utf-8"))
    source["upstream"] = {"repository": REPOSITORY, "commit": commit_of(clone), "mteb": version}
    counts = {"rows": len(table), "fine_tunes": table.tuned.nunique(), "bases": table.base.nunique()}
    source |= {"sha256": sha256_file(file), "bytes": file.stat().st_size} | counts
    (folder / "finetunes.json").write_text(json.dumps(source, indent=1, ensure_ascii=False) + "\n", "utf-8")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path, help="folder of the clone")
    parser.add_argument("--out", type=Path, default=ROOT / "experiments", help="folder of the files")
    args = parser.parse_args(arguments)
    facts = installed_facts()
    try:
        table = changes(args.clone, facts)
    except ResultError as error:
        sys.exit(str(error))
    write(table, args.out, args.clone, facts.version)
    models = f"{table.tuned.nunique()} fine-tunes of {table.base.nunique()} bases"
    print(f"{len(table):,} changes of {models} in {args.out / FILE}")


if __name__ == "__main__":
    main()
