"""Make a few of the committed planted runs again: of everything that the first seed's runs have they have one.

python tools/some_runs.py     makes them in _runs/, where `debias-nb agree` compares them with their records

Each task has every kind of method, where one that says the same and more stands for another, each kind of encoder,
and every setting of a training, a corpus and a test; each kind of encoder has every setting of a method, and each
loss, optimizer and choice of a training. Numbers are left out, but for 0. Of the runs that have something alike it
takes those that were quick when they were recorded. `make reports` makes all of them.
"""
import json
import sys

from notebooks import ROOT

NAMES = {"name", "label", "was", "setting"} # which change nothing that is computed


def kind_of(value):
    "What is said, without names and numbers."
    if isinstance(value, dict):
        return {name: kind_of(one) for name, one in value.items() if name not in NAMES}
    if isinstance(value, list):
        return [kind_of(one) for one in value]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return "a number" if is_number and value else value


def leaves(value, place: str = ""): # yields each setting with its place, as `world.kappa: 0`
    "List the settings of a kind, those inside others too."
    if isinstance(value, dict):
        for name, one in value.items():
            yield from leaves(one, f"{place}{name}.")
    else:
        yield f"{place.removesuffix('.')}: {json.dumps(value)}"


def settings_of(part) -> frozenset[str]: # part: of `RunConfig`, or None
    "List what it says beside its defaults."
    return frozenset(leaves(kind_of(part.model_dump(mode="json", exclude_defaults=True)))) if part else frozenset()


def parts_of(run, methods: set[frozenset]) -> set[tuple]: # methods: what those of the run's task say
    "List what a run has that others may have too."
    said = {name: settings_of(getattr(run, name)) for name in ("method", "training", "corpus")}
    said |= {name: frozenset(getattr(run, name)) for name in ("evaluate", "measure")}
    found = {(run.task, "method", one) for one in methods if one <= said["method"]}
    found |= {(run.task, name, one) for name in said if name != "method" for one in said[name]}
    words = {one for one in said["training"] if "number" not in one}
    return found | {(run.task, run.encoder.kind)} | {(run.encoder.kind, one) for one in said["method"] | words}


def few(parts: dict[str, set], costs: dict[str, float]) -> list[str]: # both by id -> ids, in the order of `parts`
    "Choose cheap runs that have every part among them, none of which could be left out."
    wanted = set().union(*parts.values())
    chosen, found = [], set()
    while found != wanted:
        best = max(parts, key=lambda run_id: len(parts[run_id] - found) / costs[run_id])
        chosen.append(best)
        found |= parts[best]
    for run_id in sorted(chosen, key=costs.get, reverse=True):
        others = [parts[other] for other in chosen if other != run_id]
        if set().union(*others) == wanted:
            chosen.remove(run_id)
    return [run_id for run_id in parts if run_id in chosen]


START = .3 # seconds that a run takes beside its training


def some_runs() -> tuple[list, int]: # those to make, and of how many
    "Choose among the runs of the first seed that have a record."
    from debias_nb.runs import runner
    from debias_nb.runs.config import configured
    from debias_nb.runs.records import committed_store
    experiments = [runner.load(name, "planted", seeds=[0]) for name in configured("*/*.planted.yaml", ROOT)]
    runs = {run.id: run for experiment in experiments for run in experiment.runs}
    records = runner.finished(list(runs.values()), committed_store(ROOT))
    runs = {run_id: run for run_id, run in runs.items() if run_id in records}
    costs = {run_id: START + record["seconds"] for run_id, record in records.items()}
    methods = {run.task: set() for run in runs.values()}
    for run in runs.values():
        methods[run.task].add(settings_of(run.method))
    chosen = few({run_id: parts_of(run, methods[run.task]) for run_id, run in runs.items()}, costs)
    return [runs[run_id] for run_id in chosen], len(runs)


def main() -> int:
    from debias_nb.runs import runner
    runs, of = some_runs()
    print(f"{len(runs)} of {of} runs of the first seed", flush=True)
    outcome = runner.run_all(runs, runner.own_store())
    for run_id, reason in (outcome.failed | outcome.missing).items():
        print(f"failed: {run_id}: {reason}", file=sys.stderr)
    return int(len(outcome.records) < len(runs))


if __name__ == "__main__":
    sys.exit(main())
