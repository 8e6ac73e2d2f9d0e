"""What whole commands cost, imports and reading of files included, beside what anybody would run in their place:

CPU time of
a process, and the most memory that it had. See README.md."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from common import compare, loaded, print_variants, run, static_encoders
from diagnose import TESTS, neighbor, planted_files

IMPORTS, DEMO = "import sentence_transformers", "debias-nb demo"
ENCODING, DIAGNOSIS = "encoding, sentence-transformers' encode", "debias-nb diagnose"
ENCODE = """
import sys
import pandas as pd
from sentence_transformers import SentenceTransformer
files = [pd.read_csv(path) for path in sys.argv[3:]]
texts = [text for file in files for side in (file.left, file.right) for text in side]
for folder in sys.argv[1:3]:
    SentenceTransformer(folder, device="cpu").encode(texts, show_progress_bar=False)
"""
SEARCH = "encoding, and products with the first 100 texts"
SEARCHING = """
import sys
import pandas as pd
from sentence_transformers import SentenceTransformer
texts = [pd.read_json(path, lines=True).text.tolist() for path in sys.argv[3:]]
for folder in sys.argv[1:3]:
    model = SentenceTransformer(folder, device="cpu")
    queries, corpus = (model.encode(side, show_progress_bar=False, convert_to_tensor=True) for side in texts)
    for rows in queries.split(256):
        (rows @ corpus.T).topk(min(100, len(corpus)))
"""
# A child's largest memory begins at that of its parent, so that a small process starts the command and says what it
# took.
METER = """
import json, os, sys
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, spent = os.wait4(child, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), spent.ru_utime + spent.ru_stime, spent.ru_maxrss]))
"""
MEMORY_UNIT = 1 if sys.platform == "darwin" else 1024 # bytes
OURS = [sys.executable, "-c", "from debias_nb.commands.entry import main; main()"]


def usage(command: list[str], folder: str) -> dict: # folder: where it runs
    "Run a command: its CPU time in seconds, and its largest memory in GB."
    metered = [sys.executable, "-S", "-E", "-c", METER, *command]
    said = subprocess.run(metered, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    code, seconds, memory = json.loads(said.splitlines()[-1]) # what the command prints stands before
    if code:
        raise RuntimeError(f"{' '.join(command)[:200]} ended with {code}")
    return {"seconds": seconds, "peak_gb": memory * MEMORY_UNIT / 1e9}


def diagnosis_commands(pairs: int, folder: Path) -> dict[str, list[str]]:
    "What encodes all pairs by both models, and what diagnoses them."
    files, _ = planted_files(pairs)
    for name, file in files.items():
        file.to_csv(folder / f"{name}.csv", index=False)
    tests = [part for name in TESTS for part in ("--test", f"{'like' if name == 'iid' else name}={name}.csv")]
    return {
        ENCODING: [sys.executable, "-c", ENCODE, "base", "tuned", *(f"{name}.csv" for name in files)],
        DIAGNOSIS: [*OURS, "diagnose", "--base", "base", "--tuned", "tuned", "--train", "train.csv", *tests, "--out",
                    "page", "--overwrite"],
    }


def retrieval_commands(texts: int, folder: Path) -> dict[str, list[str]]:
    "What encodes as many queries and texts by both models and multiplies them, and what diagnoses the search."
    from debias_nb.settings import WorldConfig
    from debias_nb.data.worlds import Catalog
    pairs = Catalog(WorldConfig(train_pairs=texts, negatives=1)).labeled_pairs().frame()
    matches = pairs[pairs.label == 1][:texts].reset_index(drop=True)
    ids = matches.index.astype(str)
    search = folder / "search"
    (search / "qrels").mkdir(parents=True, exist_ok=True)
    for name, side in {"queries": "left", "corpus": "right"}.items():
        matches[[side]].set_axis(["text"], axis=1).assign(_id=ids).to_json(
            search / f"{name}.jsonl", orient="records", lines=True)
    judgments = matches.assign(**{"query-id": ids, "corpus-id": ids, "score": 1})[["query-id", "corpus-id", "score"]]
    judgments.to_csv(search / "qrels" / "test.tsv", sep="\t", index=False)
    return {
        SEARCH: [sys.executable, "-c", SEARCHING, "base", "tuned", "search/queries.jsonl", "search/corpus.jsonl"],
        DIAGNOSIS: [*OURS, "diagnose", "--base", "base", "--tuned", "tuned", "--test", "new=search", "--out", "page",
                    "--overwrite"],
    }


def save_models(folder: Path) -> str: # the encoder's name
    "Save an encoder as base, and another one of its make as tuned."
    [(name, base, _)] = loaded(static_encoders()[-1:])
    base.save(str(folder / "base"))
    neighbor(base).save(str(folder / "tuned"))
    return name


def in_turns(commands: dict[str, list[str]], folder: str, repeats: int) -> dict:
    "Run all commands in turns; ratios are to the first one."
    return compare(commands, lambda name: usage(commands[name], folder), next(iter(commands)), repeats)


def measure(options) -> tuple[dict, dict]:
    sizes = [200] if options.quick else options.pairs or [100_000]
    searches = [200] if options.quick else options.retrieval or []
    columns = {"CPU s": "seconds", "GB": "peak_gb", "ratio": "ratio"}
    with tempfile.TemporaryDirectory() as folder:
        name = save_models(Path(folder))
        begun = in_turns({IMPORTS: [sys.executable, "-c", IMPORTS], DEMO: [*OURS, "demo"]}, folder,
                         options.repeats)
        print_variants("without data", begun, columns)
        diagnoses, retrievals = {}, {}
        for size in sizes:
            diagnoses[str(size)] = in_turns(diagnosis_commands(size, Path(folder)), folder, options.repeats)
            print_variants(f"{size:,} pairs, {name}", diagnoses[str(size)], columns)
        for size in searches:
            retrievals[str(size)] = in_turns(retrieval_commands(size, Path(folder)), folder, options.repeats)
            print_variants(f"{size:,} queries and texts, {name}", retrievals[str(size)], columns)
    settings = {"pairs": ", ".join(map(str, sizes)), "retrieval": ", ".join(map(str, searches)), "encoder": name}
    return settings, {"clock": "CPU time", "demo": begun, "diagnose": diagnoses, "retrieval": retrievals}


SIZES = {
    "pairs": {"action": "append", "type": int, "help": "size of a diagnosis, 100000 by default; may be repeated"},
    "retrieval": {"action": "append", "type": int, "help": "queries of a search, and texts of its corpus, none by "
                                                           "default; may be repeated"},
}

if __name__ == "__main__":
    sys.exit(run(__file__, __doc__, measure, 3, SIZES))
