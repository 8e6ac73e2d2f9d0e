"What claims, checksums and the validation of records cost, as a share of a planted run. See README.md."
import gc
import sys
import tempfile
from functools import partial
from itertools import count
from pathlib import Path

from common import (
    Meter, ask_busy, begin, calm, checked, compare, finish, new_parser, seconds, settings_of, telling, variants_table,
)

RECORD = Path(__file__).resolve().with_suffix(".json")
TABLE = "itvreg/table02"
RUN = "run"
FRESH = "record, fresh store"
FULL = "record, full store"
READ = "full store read whole"
VARIANTS = (RUN, FRESH, FULL, READ)


def planted_run(quick: bool):
    "The run that is timed, a short one: the planted table fine-tuned on titles. quick: for one epoch."
    from debias_nb.repro.config import load_experiment
    from debias_nb.repro.runs.runner import narrow
    whole = load_experiment(TABLE, "planted")
    run = narrow(whole, seeds=[0], methods=["Finetuned"], encoders=["tiny static"]).runs()[0]
    if not quick:
        return run
    training = run.training.model_copy(update={"epochs": 1})
    return run.model_copy(update={"training": training})


def with_seed(run, record: dict, seed: int) -> tuple:
    "A run and its record as those of another seed."
    other = run.model_copy(update={"seed": seed})
    changed = {"id": other.id, "seed": seed, "config": other.model_dump(mode="json")}
    return other, record | changed


def fill(store, run, record: dict, records: int) -> None:
    "Write the record as that of so many seeds."
    for seed in range(1, records + 1):
        _, other = with_seed(run, record, seed)
        store.append(other)


def handle(run, record: dict, store) -> None:
    """All that is done for a record around training: it is validated when it is made; its run is claimed and looked
    for; it is validated, sealed, written and read again. Raises `RuntimeError` where it cannot be found then."""
    from debias_nb.repro.runs.records import encode, run_or_load
    encode(record) # as `make_record` does
    with store.claimed(run.id):
        run_or_load(run, lambda _: record, store)
    if store.find(run) is None:
        raise RuntimeError(f"{run.id} has been written and is not found")


def measure(run, record: dict, full, seeds, repeats: int) -> dict:
    """Milliseconds of each variant, and their ratio to those of the run; medians with quartiles.
    full: a store with records; seeds: of which it has none, drawn as they are needed."""
    from debias_nb.repro.runs.records import Store
    from debias_nb.repro.runs.runner import execute

    def once(variant):
        other, its_record = with_seed(run, record, next(seeds))
        with tempfile.TemporaryDirectory() as folder:
            works = {
                RUN: partial(execute, run),
                FRESH: partial(handle, other, its_record, Store(folder)),
                FULL: partial(handle, other, its_record, full),
                READ: full.all,
            }
            gc.collect()
            return {"ms": 1000 * seconds(works[variant])}

    return compare(VARIANTS, once, RUN, repeats, telling(TABLE))


def shown(result: dict, records: int) -> str:
    "The table. records: in the full store."
    head = f"{TABLE}, planted ({result['bytes']:,} bytes a record, {records:,} in a full store)"
    return variants_table(head, result, {"ms": "ms", "ratio to the run": "ratio"})


def arguments(argv):
    "The options. Ends the program where they make no sense."
    parser = new_parser(__doc__, RECORD, 9, "one epoch, 20 records, 2 rounds")
    ask_busy(parser)
    parser.add_argument("--records", type=int, default=1000, help="records in a full store (%(default)s)")
    options = parser.parse_args(argv)
    if options.quick:
        options.records = 20
        options.repeats = 2
    return checked(parser, options, "records")


def main(argv=None) -> int:
    options = arguments(argv)
    load = begin()
    from debias_nb.repro.runs.records import Store, encode
    from debias_nb.repro.runs.runner import execute
    meter = Meter()
    with calm(), tempfile.TemporaryDirectory() as folder:
        run = planted_run(options.quick)
        record = execute(run)
        full = Store(folder)
        fill(full, run, record, options.records)
        seeds = count(options.records + 1)
        with meter:
            timed = measure(run, record, full, seeds, options.repeats)
    result = {"run": run.id, "bytes": len(encode(record)), "variants": timed}
    print(shown(result, options.records), end="\n\n")
    note = f"ratios: medians over {options.repeats} rounds [quartiles]; shares of a run"
    return finish(RECORD, note, options, load, meter, settings_of(options, "repeats", "records"), result)


if __name__ == "__main__":
    sys.exit(main())
