"""Compute again what needs no training, and say where it is apart from the committed records: `make repeats`.

python tools/repeats.py                  all three papers
python tools/repeats.py scan             one of them
python tools/repeats.py --write          also write reports/REPEATS.md

A run that trains nothing reads an encoder, or counts words. Whoever has the encoders and the data can compute it
again, and it should come out the same, on any processor and with any later version of the code. Exit code 1 where a
number is apart by more than `SAME`.
"""
import argparse
import sys
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "reports" / "REPEATS.md"
SAME = 1e-6 # of shares and means between 0 and 1: float32 adds up in another order

HEAD = f"""# Runs without training, computed again

`make repeats` computes every committed run of real data again that trains nothing, and compares all its numbers. Such
a run should come out the same on any processor and with any later version of the code: within {SAME:g}, since single
precision adds up in another order. That is why a run without training is compared with trained ones of any processor,
while trained ones are compared with those of their own."""


def untrained_runs(papers: list[str]) -> tuple[list, dict[str, dict]]: # runs; id -> record
    "The committed runs of real data that train nothing, each once, with their records."
    from debias_nb.repro.pages.frame import all_experiments, found_records, results
    from debias_nb.repro.pages.pairing import depends_on_processor
    runs = {}
    committed = {}
    for paper in papers:
        for experiment in all_experiments(paper):
            if experiment.profile != "small":
                continue
            for run_id, record in found_records(experiment, results("small")).items():
                if record["status"] == "finished" and not depends_on_processor(record):
                    committed[run_id] = record
            runs |= {run.id: run for run in experiment.runs() if run.id in committed}
    return list(runs.values()), committed


def computed(runs: list) -> dict[str, dict]: # id -> record
    "The records of runs, made here and kept nowhere; those whose data or encoder is not here are left out."
    from tqdm import tqdm
    from debias_nb.repro.runs.runner import absent, execute, quiet
    quiet()
    return {run.id: execute(run) for run in tqdm(runs, unit="run") if not absent(run)}


def compared(committed: dict[str, dict], here: dict[str, dict]) -> pd.DataFrame: # as of `agree.apart`, with `apart` by `SAME`
    "Every number that both have."
    from debias_nb.repro.runs.agree import apart
    found = apart(here, committed)
    found["apart"] = ~(found.gap <= SAME)
    return found


def page(committed: dict, here: dict, found: pd.DataFrame) -> str: # found: of `compared`
    "The page of one comparison."
    from debias_nb.repro.runs.records import processor
    from debias_nb.repro.pages.tables import text_table
    elsewhere = [i for i in here if committed[i]["environment"].get("cpu") != processor()]
    paper_of = {i: record["config"]["paper"] for i, record in committed.items()}
    rows = []
    for paper, part in found.groupby(found.run.map(paper_of), sort=False):
        runs = part.run.unique()
        strange = sum(run in elsewhere for run in runs)
        wrong = int(part.apart.sum())
        rows.append([paper, len(runs), strange, len(part), int((part.gap == 0).sum()), f"{part.gap.max():.1g}", wrong])
    columns = ["paper", "runs", "made on another processor", "numbers", "identical", "largest difference", "apart"]
    parts = [HEAD, f"Computed on {processor()}.", text_table(columns, [list(map(str, row)) for row in rows], 1)]
    missing = len(committed) - len(here)
    if missing:
        parts.append(f"{missing} runs could not be computed: their data or their encoder is not here.")
    wrong = found[found.apart]
    if len(wrong):
        lines = [[row.run, row.test, row.metric, f"{row.reference:.6g}", f"{row.here:.6g}"] for row in wrong.itertuples()]
        parts += ["## Apart", text_table(["run", "test", "metric", "committed", "here"], lines)]
    return "\n\n".join(parts) + "\n"


def main(argv: list[str] | None = None) -> int:
    from debias_nb.repro.pages.frame import papers
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("papers", nargs="*", choices=[[], *papers()], help="default: all")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    args = parser.parse_args(argv)
    if args.write and args.papers:
        parser.error("--write keeps the page of all papers: leave their names out")
    runs, committed = untrained_runs(args.papers or papers())
    here = computed(runs)
    found = compared(committed, here)
    text = page(committed, here, found)
    if args.write:
        PAGE.write_text(text, "utf-8")
    print(text)
    return int(found.apart.any() or found.empty)


if __name__ == "__main__":
    sys.exit(main())
