"""The settings that a paper prints, those of the runs, which are read from configurations, and why they differ."""
import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...checks import ConfigError, check_known
from ...runs.config import BlockConfig, ExperimentConfig, RunConfig, load_experiment
from .expected import PrintedSetting, Value, load_expected, of_profile
from .frame import PROFILES, all_experiments, profiles_of
from .places import address_of, page_of
from .report import PRINTED_TABLE
from .tables import text_table
from ..settings.answers import first_stage


NONE = "none" # a setting that is not there, as the number of something that is not done


def _metrics(experiment: ExperimentConfig, *_) -> tuple[str, ...]:
    "Return the metrics of all tables that the paper has."
    tables = [table for table in experiment.tables if PRINTED_TABLE.fullmatch(table.id)]
    of_columns = {column.metric.partition("[")[0] for table in tables for column in table.columns if column.metric}
    of_tables = {table.metric for table in tables if not all(column.metric for column in table.columns)}
    return tuple(sorted(of_columns | of_tables))


def _author_epochs(_experiment, _block, run: RunConfig) -> int | float:
    from ..tasks.authors import attempts
    return attempts(run)[0].training.epochs


def _weight_rate(_experiment, _block, run: RunConfig) -> float:
    from ...losses.scan import VARIANTS
    return run.method.scan.rate or VARIANTS[run.method.scan.variant]["lr"]


def _weight_steps(_experiment, _block, run: RunConfig) -> int:
    from ...losses.scan import VARIANTS
    return VARIANTS[run.method.scan.variant]["steps"]


def _first_stage(_experiment, _block, run: RunConfig) -> str | None:
    stage = first_stage(run)
    return stage.corpus if stage else None


# in an epoch, unless `epoch_of` is set
PASSED_OVER = {"hinge": "relevant pairs", "authors": "authors, two texts of each"}


def _passed_over(_experiment, _block, run: RunConfig) -> str:
    return run.training.epoch_of or PASSED_OVER[run.training.loss]


READERS: dict[str, Callable[[ExperimentConfig, BlockConfig, RunConfig], object]] = { # what no single field says
    "seeds": lambda experiment, block, run: block.seeds,
    "number of seeds": lambda experiment, block, run: len(block.seeds),
    "metrics": _metrics,
    "learning rates": lambda experiment, block, run: (run.training.learning_rate, *run.training.further_rates),
    "temperatures": lambda experiment, block, run: (run.training.temperature, *run.training.further_temperatures),
    "held-out categories": lambda experiment, block, run: len(run.data.held_out),
    "epochs of authors": _author_epochs,
    "rate of the weights": _weight_rate,
    "steps of the weights": _weight_steps,
    "first stage": _first_stage,
    "passed over": _passed_over,
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


def _constant(name: str):
    "Return an object of the code by its full name."
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def _is_meant(setting: PrintedSetting, run: RunConfig) -> bool:
    if not setting.where:
        return run.method.trained
    return all(set(_several(_value_at(run, path))) & set(values) for path, values in setting.where.items())


def read_values(
    setting: PrintedSetting, # with `read`
    experiment: ExperimentConfig,
) -> dict[tuple[Value, ...], list[RunConfig]]: # value -> a run of the first seed for each place that has it
    """Read a setting from all runs that it is about.

    Raises `ConfigError` for a name that no configuration has."""
    runs_by_value = {}
    for block in experiment.blocks:
        first_seed = block.model_copy(update={"seeds": block.seeds[:1], "worlds": 0})
        for run in experiment.block_runs(first_seed):
            if not _is_meant(setting, run):
                continue
            if setting.read.startswith("debias_nb."):
                value = _constant(setting.read)
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
    return f"`{value}`" if isinstance(value, str) and value != NONE else value


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


@dataclass(frozen=True)
class Comparison:
    "A printed setting in one experiment: what the runs of each profile have."
    setting: PrintedSetting
    experiment: str         # its name in experiments/<paper>/
    here: dict[str, str]    # profile -> what its runs have; those that have no such runs are left out
    differing: tuple[str, ...] # profiles

    @property
    def reasons(self) -> dict[str, str]: # profile -> why it differs there, empty without a reason
        reasons = {profile: of_profile(self.setting.why, profile) for profile in self.differing}
        return reasons | ({"paper": self.setting.unmet or ""} if "paper" in self.differing else {})

    @property
    def why(self) -> str:
        "Return the reasons, with their profiles where these have several, and how the paper is read."
        profiles = {}
        for profile, reason in self.reasons.items():
            profiles.setdefault(reason, []).append(f"`{profile}`")
        texts = [f"{', '.join(names)}: {reason}" for reason, names in profiles.items()]
        if len(profiles) == 1:
            texts = list(profiles)
        return "; ".join(filter(None, [*texts, self.setting.note or ""]))


SHORT = 24 # characters of a value that is repeated where runs have it, too


def _as_printed(setting: PrintedSetting) -> str:
    text = in_words(_several(setting.value))
    return text if len(text) <= SHORT else "as printed"


def _are_printed(values_of_runs: list[tuple[Value, ...]], paper_values: tuple[Value, ...]) -> bool:
    "Return whether runs have the printed values: each run all of them, or one each and all runs together all of them."
    if all(set(values) == set(paper_values) for values in values_of_runs):
        return True
    has_one_each = all(len(values) == 1 for values in values_of_runs)
    return has_one_each and {value for value, in values_of_runs} == set(paper_values)


def compare(
    setting: PrintedSetting,
    experiments: list[ExperimentConfig], # the profiles of one experiment
) -> Comparison:
    """Compare a printed setting with what runs have.

    Raises `ConfigError` for a name that no configuration has."""
    texts = {}
    differing = []
    for experiment in experiments:
        if setting.told is not None:
            text = of_profile(setting.told, experiment.profile)
            values = [(text,)]
        else:
            runs_by_value = read_values(setting, experiment)
            text = values_in_words(runs_by_value)
            values = list(runs_by_value)
        if not text:
            continue
        is_printed = _are_printed(values, setting.values)
        texts[experiment.profile] = _as_printed(setting) if is_printed else text
        if setting.value is not None and not is_printed:
            differing.append(experiment.profile)
    return Comparison(setting, experiments[0].experiment, texts, tuple(differing))


def comparisons_of(
    paper: str,
    names: list[str] | None = None, # of experiments in experiments/<paper>/; None: all
) -> list[Comparison]: # in the order of the printed settings
    """Compare the settings that a paper prints with those of its experiments.

    Raises `ConfigError` for a setting that names an experiment which is not there, or says nothing of any."""
    experiments = {}
    for experiment in all_experiments(paper):
        experiments.setdefault(experiment.experiment, []).append(experiment)
    comparisons = []
    for setting in load_expected(paper).settings:
        place = f"experiments/printed/{paper}.yaml: settings: {setting.name}"
        chosen = [name for name in setting.experiments if names is None or name in names]
        for name in chosen:
            check_known(f"experiment of {place}", name, experiments, ConfigError)
            comparison = compare(setting, experiments[name])
            if not comparison.here:
                raise ConfigError(f"{place}: no run of {paper}/{name} has it")
            comparisons.append(comparison)
    return comparisons


def faults(comparisons: list[Comparison]) -> list[str]:
    "List what is wrong with reasons: one that is not there where a setting differs, and one that explains nothing."
    messages = []
    by_setting = {}
    for comparison in comparisons:
        unexplained = [profile for profile, reason in comparison.reasons.items() if not reason]
        place = f"{comparison.setting.name} of {comparison.experiment}"
        messages += [f"{place}: differs at {profile} without a reason" for profile in unexplained]
        by_setting.setdefault(id(comparison.setting), []).append(comparison)
    for alike in by_setting.values():
        setting = alike[0].setting
        reasons = [*(setting.why if isinstance(setting.why, dict) else []), *["paper"] * bool(setting.unmet)]
        differing = {profile for comparison in alike for profile in comparison.differing}
        place = f"{setting.name} of {', '.join(setting.experiments)}"
        superfluous = [profile for profile in reasons if profile not in differing]
        messages += [f"{place}: a reason for {profile}, where nothing differs" for profile in superfluous]
    return messages


def _numbered(ids: list[tuple[str, str]]) -> str: # kind, number
    numbers = {}
    for kind, number in ids:
        numbers.setdefault(kind.capitalize(), set()).add(int(number))
    parts = []
    for kind, ids_of_kind in numbers.items():
        parts.append(f"{kind}{'s' * (len(ids_of_kind) > 1)} {', '.join(map(str, sorted(ids_of_kind)))}")
    return "; ".join(parts)


def printed_places(
    paper: str,
    experiment: str, # its name in experiments/<paper>/
) -> str: # `Tables 1, 2, 8; Figures 3, 5`
    "Name the tables and figures of a paper that an experiment makes."
    ids = []
    for profile in profiles_of(f"{paper}/{experiment}"):
        tables = load_experiment(f"{paper}/{experiment}", profile).tables
        ids += [match.groups() for table in tables if (match := PRINTED_TABLE.fullmatch(table.id))]
    return _numbered(ids or [PRINTED_TABLE.fullmatch(experiment).groups()])


@dataclass(frozen=True)
class Row:
    "A setting with all experiments that have the same of it."
    comparison: Comparison
    experiments: tuple[str, ...]

    def cells(self, profiles: tuple[str, ...]) -> list[str]:
        value = self.comparison.setting.value
        of_paper = "not printed" if value is None else in_words(_several(value))
        texts = {profile: self.comparison.here.get(profile, "—") for profile in profiles}
        texts |= {profile: f"**{texts[profile]}**" for profile in profiles if profile in self.comparison.differing}
        return [of_paper, *texts.values(), self.comparison.why]


def rows_of(comparisons: list[Comparison]) -> list[Row]:
    "Put experiments that have the same of a setting into one row."
    experiments = {}
    first = {}
    for comparison in comparisons:
        key = id(comparison.setting), *comparison.here.items()
        experiments.setdefault(key, []).append(comparison.experiment)
        first.setdefault(key, comparison)
    return [Row(first[key], tuple(names)) for key, names in experiments.items()]


def settings_table(paper: str, comparisons: list[Comparison]) -> str: # Markdown
    "Tabulate settings: what they are of, what is printed and where, what each profile has, and why."
    rows = []
    for row in rows_of(comparisons):
        setting = row.comparison.setting
        links = [f"[{printed_places(paper, name)}]({page_in(paper, name)})" for name in row.experiments]
        of_paper, *profile_cells = row.cells(PROFILES)
        rows.append([setting.name, ", ".join(links), of_paper, setting.place, *profile_cells])
    return text_table(["setting", "of", "the paper prints", "in", *PROFILES, "why"], rows)


def page_in(paper: str, experiment: str) -> str:
    "Return where the notebook is that shows an experiment, seen from the folder of its paper."
    name = f"{paper}/{experiment}"
    return address_of(load_experiment(name, profiles_of(name)[0]))


def key_deviations(
    page: str, # the notebook of a table or figure, `paper/name`
    profile: str,
) -> str: # Markdown
    "Say in how many printed settings a page's runs differ from the paper, and list those that may change an answer."
    paper = page.partition("/")[0]
    names = list(dict.fromkeys(item.experiment for item in all_experiments(paper) if page_of(item) == page))
    comparisons = [item for item in comparisons_of(paper, names) if is_printed(item) and profile in item.here]
    differing = [item for item in comparisons if profile in item.differing]
    rows = {}
    for item in differing:
        if item.setting.matters:
            # each once
            rows.setdefault((item.setting.name, in_words(_several(item.setting.value))), {})[item.here[profile]] = None
    counts = (f"Of the {len(comparisons)} settings that the paper prints here, {len(differing) or 'none'} "
              f"differ{'s' * (len(differing) < 2)} at `{profile}`")
    ending = ". These may change the answer:" if rows else "."
    table = ""
    if rows:
        lines = [[*names, " or ".join(texts)] for names, texts in rows.items()]
        table = text_table(["setting", "the paper prints", "here"], lines)
    return "\n\n".join(filter(None, [f"{counts} ([all, with reasons](./as_printed.ipynb)){ending}", table]))


def is_printed(comparison: Comparison) -> bool:
    return comparison.setting.value is not None


def unmet(comparisons: list[Comparison]) -> list[Comparison]:
    "Select the settings in which even profile `paper` differs from print."
    return [comparison for comparison in comparisons if "paper" in comparison.differing]


def answer_of(comparisons: list[Comparison]) -> str: # of all experiments of a paper
    "Answer how many of the printed settings runs have, profile by profile."
    counts = {}
    for profile in reversed(PROFILES):
        present = [comparison for comparison in comparisons if is_printed(comparison) and profile in comparison.here]
        if present:
            counts[profile] = sum(profile not in comparison.differing for comparison in present), len(present)
    word = "Yes" if all(equal == total for equal, total in counts.values()) else "It depends on the profile"
    ratios = ", ".join(f"{equal} of {total} at `{profile}`" for profile, (equal, total) in counts.items())
    return f"**Answer.** {word}: of the printed settings, each counted once per table, our runs have {ratios}."


def in_short(paper: str) -> str: # a sentence or two
    """Count the settings in which runs on public data differ from print, and name those that may change an answer.

    So are those named that differ in profile `paper`."""
    comparisons = [comparison for comparison in comparisons_of(paper) if is_printed(comparison)]
    names = dict.fromkeys(comparison.setting.name for comparison in comparisons)
    deviating = dict.fromkeys(comparison.setting.name for comparison in comparisons if "small" in comparison.differing)
    unavoidable = {comparison.setting.name: comparison.setting.unmet for comparison in unmet(comparisons)}
    matter = dict.fromkeys(comparison.setting.name for comparison in comparisons if "small" in comparison.differing
                           and comparison.setting.matters)
    text = f"{len(deviating)} of the {len(names)} printed settings differ"
    avoidable = ", ".join(name for name in matter if name not in unavoidable)
    text += f"; these may change an answer: {avoidable}." if avoidable else "."
    if unavoidable:
        reasons = "; ".join(f"{name} ({reason})" for name, reason in unavoidable.items())
        text += f" These differ at the paper's own scale as well: {reasons}."
    return text
