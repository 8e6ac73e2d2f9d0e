"""What papers print, setting by setting and equation by equation, what runs have of it, and why that differs.

All of it is in `experiments/as_printed.yaml`, a row each.
"""
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from pkgutil import resolve_name
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from IPython.display import Markdown
from pydantic import Field

from ...checks import ConfigError, check_known
from ...files import Names, Settings, load_config, once_per_state, project_root
from ...runs.config import PRINTED_TABLE, BlockConfig, ExperimentConfig, Profile, RunConfig
from ...runs.parquet import published_columns
from ...runs.records import Store, committed_store
from ..settings.answers import first_stage
from .frame import PROFILES, all_experiments, experiments_of
from .tables import text_table


LEDGER = "experiments/as_printed.yaml"
NONE = "none" # a setting that is not there, as the number of something that is not done
Value = int | float | str
Told = str | dict[Profile, str] # for all profiles, or for some


class PrintedSetting(Settings):
    """One setting or equation as a paper prints it, and where that of the runs is read.

    `read` is a path from a run, as `training.margin` or `data.split.authors`; a name of `READERS`; or an object of the
    code, as `debias_nb.papers.tasks.answers.PERTURBED_SHARE`. What nothing says is `told` in words, and what does it,
    or the test that holds it, is `by`.
    """
    kind: Literal["setting", "equation"] = "setting"
    name: str
    experiments: Annotated[Names, Field(min_length=1)] # that it holds for, by their names in experiments/<paper>/
    value: Value | tuple[Value, ...] | None # None: the paper is silent
    place: Annotated[str, Field(pattern=r"^(Appendix|Equation|Figure|Section|Supplement|Table)s? ")] # in its text
    quote: str = ""              # a few words of the paper; an equation is its own
    read: str | None = None
    where: dict[str, tuple[Value, ...]] = {} # path -> values: the runs that it is about; default: all that are trained
    ours: Value | tuple[Value, ...] | None = None # what a configuration calls the printed value; default: the same
    told: Told | None = None
    by: str | None = None        # `tests/….py::test_…`, or `debias_nb.….name`
    why: Told = {}               # it differs
    note: str = ""               # how the paper is read, where it can be read in several ways
    matters: bool = False        # another value may change an answer: pages of tables name it where it differs
    notebooks: Names = ()        # of `nbs/`, that list it among their deviations

    @property
    def values(self) -> tuple[Value, ...]: # as configurations say them; empty where the paper is silent
        value = self.value if self.ours is None else self.ours
        return () if value is None else _several(value)

    def rules(self):
        is_silent = self.value is None
        yield (self.read is None) == (self.told is None), "either `read` or `told` is needed"
        yield self.where and self.read is None, "`where` belongs to what is read"
        yield is_silent and (self.why or self.ours is not None), (
            "where the paper is silent nothing differs: say it in `note`")
        yield not (is_silent or self.quote or self.kind == "equation"), "a few words of the paper are needed (`quote`)"
        told = self.told.values() if isinstance(self.told, dict) else [self.told]
        yield self.value in told and not (is_silent or self.by), "what is told as reported needs what does it (`by`)"


def of_profile(
    text: Told,
    profile: Profile,
) -> str: # empty where nothing is told of it
    "Return what is told of a profile."
    return text if isinstance(text, str) else text.get(profile, "")


_read_settings_once = once_per_state(load_config)


def printed_settings(paper: str) -> tuple[PrintedSetting, ...]:
    "Read the rows of a paper. Raises `ConfigError` naming file and key."
    return _read_settings_once(project_root() / LEDGER, dict[str, tuple[PrintedSetting, ...]], LEDGER)[paper]


def _metrics(experiment: ExperimentConfig, *_) -> tuple[str, ...]:
    "Return the metrics of all tables that the paper has."
    tables = [table for table in experiment.tables if PRINTED_TABLE.fullmatch(table.id)]
    of_columns = {column.metric.partition("[")[0] for table in tables for column in table.columns if column.metric}
    of_tables = {table.metric for table in tables if not all(column.metric for column in table.columns)}
    return tuple(sorted(of_columns | of_tables))


def _attempts(run: RunConfig) -> list[RunConfig]:
    from ..tasks.authors import attempts
    return attempts(run)


def _of_weights(run: RunConfig, name: str) -> object: # of the learner of SCAN's weights
    from ...losses.scan import VARIANTS
    return VARIANTS[run.method.scan.variant][name]


# in an epoch, unless `epoch_of` is set
PASSED_OVER = {"hinge": "relevant pairs", "authors": "authors, two texts of each"}
READERS: dict[str, Callable[[ExperimentConfig, BlockConfig, RunConfig], object]] = { # what no single field says
    "seeds": lambda experiment, block, run: block.seeds,
    "number of seeds": lambda experiment, block, run: len(block.seeds),
    "metrics": _metrics,
    "learning rates": lambda experiment, block, run: (run.training.learning_rate, *run.training.further_rates),
    "temperatures": lambda experiment, block, run: (run.training.temperature, *run.training.further_temperatures),
    "held-out categories": lambda experiment, block, run: len(run.data.held_out),
    "epochs of authors": lambda experiment, block, run: _attempts(run)[0].training.epochs,
    "choice of settings": lambda experiment, block, run:
        "by R@8 on validation texts" if len(_attempts(run)) > 1 else NONE,
    "rate of the weights": lambda experiment, block, run: run.method.scan.rate or _of_weights(run, "lr"),
    "steps of the weights": lambda experiment, block, run: _of_weights(run, "steps"),
    "scale of H": lambda experiment, block, run:
        "unit deviation of each feature" if _of_weights(run, "scale") else "as it is",
    "joint loss of a batch": lambda experiment, block, run: # what a mean counts where the others are sums
        round(run.method.scan.contrast * run.training.batch_size, 6),
    "first stage": lambda experiment, block, run: stage.corpus if (stage := first_stage(run)) else None,
    "passed over": lambda experiment, block, run: run.training.epoch_of or PASSED_OVER[run.training.loss],
}


def _value_at(run: RunConfig, path: str): # None where a part of the path is not there
    """Return what a run says at a path.

    Raises `ConfigError` for a name that no configuration has."""
    value = run
    for name in path.split("."):
        if value is None:
            return None
        if not hasattr(value, name):
            check_known("setting", name, list(type(value).model_fields), ConfigError)
        value = getattr(value, name)
    return value


def _several(value) -> tuple[Value, ...]: # several values as they are, one value alone
    values = value if isinstance(value, tuple) else (value,)
    return tuple(NONE if item is None else item for item in values)


def _is_meant(setting: PrintedSetting, run: RunConfig) -> bool:
    if not setting.where:
        return run.method.trained
    return all(set(_several(_value_at(run, path))) & set(values) for path, values in setting.where.items())


_ids = once_per_state(lambda path: frozenset(published_columns(path, ["id"])["id"]))


def _is_recorded(run: RunConfig, store: Store) -> bool:
    path = store.folder / f"{run.place}.parquet"
    return path.is_file() and run.id in _ids(path)


def read_values(
    setting: PrintedSetting, # with `read`
    experiment: ExperimentConfig,
) -> dict[tuple[Value, ...], list[RunConfig]]: # value -> a run of the first seed for each place that has it
    """Read a setting from the runs that it is about: from those that have a record, or from all where none has.

    Raises `ConfigError` for a name that no configuration has."""
    runs = []
    for block in experiment.blocks:
        first_seed = block.model_copy(update={"seeds": block.seeds[:1], "worlds": 0})
        runs += [(block, run) for run in experiment.block_runs(first_seed) if _is_meant(setting, run)]
    store = committed_store()
    runs_by_value = {}
    for block, run in [pair for pair in runs if _is_recorded(pair[1], store)] or runs:
        if setting.read.startswith("debias_nb."):
            value = resolve_name(setting.read)
        elif setting.read in READERS:
            value = READERS[setting.read](experiment, block, run)
        else:
            value = _value_at(run, setting.read)
        runs_by_value.setdefault(_several(value), []).append(run)
    return runs_by_value


def in_words(values: tuple[Value, ...]) -> str:
    "Return values as a page has them, `1e−4, 0.3`."
    return ", ".join(value if isinstance(value, str) else _number(value) for value in values)


def _number(value: int | float) -> str:
    if 0 < value < .001:
        return re.sub(r"e-0?", "e−", np.format_float_scientific(value, trim="-"))
    return f"{value:,}" if value >= 10_000 else f"{value:g}"


OWNERS: dict[str, Callable[[RunConfig], str]] = { # of several values of one setting
    "encoder": lambda run: run.encoder.display,
    "corpus": lambda run: run.data.display if run.data else "",
}


def _as_code(value: Value) -> Value:
    "Mark the name that a configuration has for something."
    return f"`{value}`" if isinstance(value, str) and value != NONE and " " not in value else value


def values_in_words(runs_by_value: dict[tuple[Value, ...], list[RunConfig]]) -> str:
    "Say every value that runs have, and which encoders or corpora have it where that separates them."
    texts = {value: in_words(tuple(map(_as_code, value))) for value in sorted(runs_by_value, key=_order)}
    for owner_of in OWNERS.values():
        owners = {value: dict.fromkeys(map(owner_of, runs_by_value[value])) for value in texts}
        names = [name for owned in owners.values() for name in owned]
        if len(texts) > 1 and len(names) == len(set(names)):
            owner_names = {text: ", ".join(owners[value]) for value, text in texts.items()}
            return "; ".join(
                text if text.strip("`") == owner else f"{text} ({owner})" for text, owner in owner_names.items())
    return "; ".join(texts.values())


def _order(values: tuple[Value, ...]) -> list[tuple[bool, float, str]]:
    "Sort numbers by size, and before words."
    return [(True, 0., value) if isinstance(value, str) else (False, value, "") for value in values]


def _are_printed(values_of_runs: list[tuple[Value, ...]], paper_values: tuple[Value, ...]) -> bool:
    "Return whether runs have the printed values: each run all of them, or one each and all runs together all of them."
    if all(set(values) == set(paper_values) for values in values_of_runs):
        return True
    has_one_each = all(len(values) == 1 for values in values_of_runs)
    return has_one_each and {value for value, in values_of_runs} == set(paper_values)


COLUMNS = ["number", "name", "kind", "matters", "place", "quote", "note", "experiment", "profile", "reported", "ours",
           "differs", "why"]


def compared_settings(
    paper: str,
    some: Iterable[ExperimentConfig] | None = None, # of its experiments; None: all
    notebook: str | None = None,        # that lists a setting among its deviations; None: all settings
) -> pd.DataFrame: # `COLUMNS`, a row each setting and profile of an experiment, in the order of the file
    """Compare the settings that a paper reports with those of its experiments.

    Raises `ConfigError` for a name that no configuration has."""
    experiments = {}
    for experiment in all_experiments(paper) if some is None else some:
        experiments.setdefault(experiment.experiment, []).append(experiment)
    rows = []
    for number, setting in enumerate(printed_settings(paper)):
        if notebook and notebook not in setting.notebooks:
            continue
        rows += [compare_setting(setting, experiment) | {"number": number} for name in setting.experiments
                 for experiment in experiments.get(name, ())]
    frame = pd.DataFrame(rows, columns=COLUMNS).astype({"differs": bool})
    return frame[frame.ours != ""]


def compare_setting(setting: PrintedSetting, experiment: ExperimentConfig) -> dict: # of `COLUMNS`
    """Compare a reported setting with what runs have; ours is empty where nothing is told of the profile.

    Raises `ConfigError` for a name that no configuration has."""
    if setting.told is not None:
        ours = of_profile(setting.told, experiment.profile)
        values = [(ours,)]
    else:
        values = read_values(setting, experiment)
        ours = values_in_words(values)
    is_reported = setting.value is not None
    is_same = is_reported and _are_printed([*values], setting.values)
    differs = is_reported and not is_same
    about = {name: getattr(setting, name) for name in ("name", "kind", "matters", "place", "quote", "note")}
    return about | {"experiment": experiment.experiment, "profile": experiment.profile,
                    "reported": in_words(_several(setting.value)) if is_reported else "",
                    "ours": "as reported" if is_same and ours else ours, "differs": differs,
                    "why": of_profile(setting.why, experiment.profile) if differs else ""}


def unique(texts: Iterable[str]) -> list[str]: # those that are not empty, each once
    return list(dict.fromkeys(filter(None, texts)))


def by_profile(texts: Mapping[str, str], all_profiles: Iterable[str] = PROFILES) -> str: # texts: profile -> its text
    "Say what profiles have, once where it is the same: `a`, or `planted`: a; `small`, `paper`: b."
    profiles = {}
    for profile in all_profiles:
        profiles.setdefault(texts.get(profile, ""), []).append(f"`{profile}`")
    return next(iter(profiles)) if len(profiles) < 2 else "; ".join(
        f"{', '.join(names)}: {text}" for text, names in profiles.items() if text)


def reasons(rows: pd.DataFrame) -> list[str]: # rows: of one setting and experiment
    "Say why a setting differs, with profiles where these have several reasons, and how the paper is read."
    texts = unique(rows.why)
    if len(texts) > 1:
        texts = [by_profile(dict(zip(rows.profile, rows.why)), dict.fromkeys(rows.profile))]
    return unique([*texts, rows.note.iloc[0]])


def seen_from(text: str, folder: str) -> str: # text: Markdown with links from the project's folder
    "Rewrite links so that they are right in a notebook of a folder."
    return re.sub(r"\]\(((?:nbs|experiments)/[^)#]+)", lambda link: f"]({posixpath.relpath(link[1], folder)}", text)


REAL = ("small", "paper") # profiles of real data


def settings_table(rows: pd.DataFrame, head: list[str]) -> str: # rows: of `compared_settings`; Markdown
    "Tabulate settings on real data, a row each that is the same in several experiments: ours where it differs."
    experiments = {*rows.experiment}
    rows = rows[rows.profile.isin(REAL)]
    lines = {}
    for (_, experiment), own in rows.groupby(["number", "experiment"], sort=False):
        row = {"setting": own.name.iloc[0], "reported": own.reported.iloc[0],
               "ours": by_profile(dict(zip(own.profile, own.ours)), REAL), "why": "; ".join(reasons(own)),
               "in": own.place.iloc[0]}
        lines.setdefault(tuple(row.items()), []).append(experiment)
    table, last = [], ""
    for row, own in lines.items():
        is_all = {*own} == experiments
        row = dict(row) | {"tables": "all" if is_all else ", ".join(re.sub(r"table0*", "", name) for name in own)}
        last, row["why"] = row["why"], "as above" if row["why"] and row["why"] == last else row["why"]
        table.append([row[name] for name in head])
    return text_table(head, table)


def ledger(paper: str) -> str: # Markdown
    "Answer which settings of a paper our runs have: those that differ, and why; as reported; not reported."
    rows = compared_settings(paper)
    word = "It depends" if rows.differs.any() else "Yes"
    has_one = rows.groupby(["number", "experiment"]).differs.transform("any")
    alike = rows[~has_one & (rows.reported != "")]
    read = alike[alike.note != ""]
    head = ["setting", "reported", "ours", "why", "in", "tables"]
    values, real = [], rows[rows.profile.isin(REAL)]
    for name, own in rows[rows.differs & (rows.profile == "planted")].groupby("name", sort=False):
        if not {*own.ours} <= {*real.ours[real.name == name]}:
            values.append(f"{name} {' or '.join(unique(own.ours))}")
    others = [name for name in unique(alike.name) if name not in {*read.name}]
    parts = [f"**Answer.** {word}. At `small` {in_short(rows)}",
             "## What differs", settings_table(rows[rows.differs], head),
             f"At `planted`, on synthetic texts: {'; '.join(values)}.",
             f"## As reported\n\n{'; '.join(others)}. So are these, as we read them:",
             settings_table(read, ["setting", "why"]),
             "## Not reported",
             settings_table(rows[rows.reported == ""], ["setting", "ours", "why"])]
    return seen_from("\n\n".join(parts), f"nbs/papers/{paper}")


def deviations(notebook: str) -> Markdown: # notebook: of `nbs/`, as `losses/scan`
    "List what a notebook's code has otherwise than its paper, or has and the paper leaves open."
    lines = []
    for paper in load_config(project_root() / LEDGER, dict[str, list]):
        rows = compared_settings(paper, notebook=notebook)
        for (name, reported), own in rows.groupby(["name", "reported"], sort=False):
            texts = {profile: "; ".join(unique(text for ours in part.ours for text in ours.split("; ")))
                     for profile, part in own.groupby("profile")}
            by_experiment = own.groupby(["number", "experiment"], sort=False)
            why = "; ".join(unique(reason for _, part in by_experiment for reason in reasons(part)))
            place, quote = own[["place", "quote"]].iloc[0]
            words = f"{place}: “{quote}”" if quote else place
            lines.append(f"- **{name}** ({words}). Reported: {reported or 'not reported'}. Ours: {by_profile(texts)}"
                         f"{why and f' ({why})'}.")
    return Markdown(seen_from("\n".join(lines), posixpath.dirname(f"nbs/{notebook}")))


def key_deviations(
    page: str, # the notebook of a table or figure, `paper/name`
    profile: str,
) -> str: # Markdown
    "Say in how many reported settings a page's runs differ from the paper, and list those that may change an answer."
    paper = page.partition("/")[0]
    rows = compared_settings(paper, experiments_of(page))
    rows = rows[(rows.reported != "") & (rows.profile == profile)]
    differing = rows[rows.differs]
    telling = differing[differing.matters]
    counts = (f"Of {len(rows)} reported settings and equations {len(differing) or 'none'} "
              f"differ{'s' * (len(differing) < 2)} at `{profile}`")
    text = f"{counts} ([all](./as_printed.ipynb)){'. These may change the answer:' if len(telling) else '.'}"
    if telling.empty:
        return text
    lines = [[*names, " or ".join(unique(own.ours))]
             for names, own in telling.groupby(["name", "reported"], sort=False)]
    return f"{text}\n\n{text_table(['setting', 'reported', 'ours'], lines)}"


def in_short(rows: pd.DataFrame) -> str: # a sentence or two; rows: of `compared_settings`, of all experiments
    """Count the settings and equations in which runs on public data differ from the paper.

    Those that may change an answer are named, and those that differ in profile `paper`."""
    reported = rows[rows.reported != ""]
    differing = reported[reported.differs]
    small = differing[differing.profile == "small"]
    counts = [f"{small.name[small.kind == kind].nunique()} of the {reported.name[reported.kind == kind].nunique()} "
              f"reported {kind}s" for kind in ("setting", "equation")]
    unavoidable = unique(differing.name[differing.profile == "paper"])
    avoidable = ", ".join(name for name in unique(small.name[small.matters]) if name not in unavoidable)
    return (f"{' and '.join(counts)} differ; these may change an answer: {avoidable}. At the paper's own scale these "
            f"differ as well: {', '.join(unavoidable)}.")
