"""What papers print, setting by setting and equation by equation, what runs have of it, and why that differs.

All of it is in `experiments/as_printed.yaml`, a row each.
"""
import importlib
import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from IPython.display import Markdown
from pydantic import Field

from ...checks import ConfigError, check_known
from ...files import Names, Settings, load_config, once_per_state, project_root
from ...runs.config import BlockConfig, ExperimentConfig, Profile, RunConfig, load_experiment
from ...runs.parquet import published_columns
from ...runs.records import Store, committed_store
from ..settings.answers import first_stage
from .frame import PROFILES, all_experiments, profiles_of
from .places import address_of, page_of
from .report import PRINTED_TABLE, title_of
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
    quote: str | None = None     # a few words of the paper; an equation is its own
    read: str | None = None
    where: dict[str, tuple[Value, ...]] = {} # path -> values: the runs that it is about; default: all that are trained
    ours: Value | tuple[Value, ...] | None = None # what a configuration calls the printed value; default: the same
    told: Told | None = None
    by: str | None = None        # `tests/….py::test_…`, or `debias_nb.….name`
    why: Told = {}               # it differs
    note: str | None = None      # how the paper is read, where it can be read in several ways
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


def constant(name: str):
    "Return an object of the code by its full name."
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


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
            value = constant(setting.read)
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


@dataclass(frozen=True)
class SettingComparison:
    "A printed setting in one experiment: what the runs of each profile have."
    setting: PrintedSetting
    experiment: str         # its name in experiments/<paper>/
    here: dict[str, str]    # profile -> what its runs have; those that have no such runs are left out
    differing: tuple[str, ...] # profiles

    @property
    def is_printed(self) -> bool:
        return self.setting.value is not None

    @property
    def reasons(self) -> dict[str, str]: # profile -> why it differs there, empty without a reason
        return {profile: of_profile(self.setting.why, profile) for profile in self.differing}

    @property
    def why(self) -> list[str]:
        "List the reasons, with their profiles where these have several, and how the paper is read."
        profiles = {}
        for profile, reason in self.reasons.items():
            profiles.setdefault(reason, []).append(f"`{profile}`")
        texts = [f"{', '.join(names)}: {reason}" for reason, names in profiles.items()]
        if len(profiles) == 1:
            texts = list(profiles)
        return [*texts, *filter(None, [self.setting.note])]

    @property
    def of_paper(self) -> str:
        return in_words(_several(self.setting.value)) if self.is_printed else "not reported"

    @property
    def place(self) -> str: # with words of the paper
        quote = self.setting.quote
        return f"{self.setting.place}: “{quote}”" if quote else self.setting.place


def _are_printed(values_of_runs: list[tuple[Value, ...]], paper_values: tuple[Value, ...]) -> bool:
    "Return whether runs have the printed values: each run all of them, or one each and all runs together all of them."
    if all(set(values) == set(paper_values) for values in values_of_runs):
        return True
    has_one_each = all(len(values) == 1 for values in values_of_runs)
    return has_one_each and {value for value, in values_of_runs} == set(paper_values)


def compare_setting(
    setting: PrintedSetting,
    experiments: list[ExperimentConfig], # the profiles of one experiment
) -> SettingComparison:
    """Compare a printed setting with what runs have.

    Raises `ConfigError` for a name that no configuration has."""
    texts = {}
    differing = []
    for experiment in experiments:
        profile = experiment.profile
        if setting.told is not None:
            text = of_profile(setting.told, profile)
            values = [(text,)]
        else:
            runs_by_value = read_values(setting, experiment)
            text = values_in_words(runs_by_value)
            values = list(runs_by_value)
        if not text:
            continue
        texts[profile] = text
        if setting.value is not None and _are_printed(values, setting.values):
            texts[profile] = "as reported"
        elif setting.value is not None:
            differing.append(profile)
    return SettingComparison(setting, experiments[0].experiment, texts, tuple(differing))


def profiles_by_name(paper: str) -> dict[str, list[ExperimentConfig]]: # name of an experiment -> its configurations
    "Load the experiments of a paper."
    experiments = {}
    for experiment in all_experiments(paper):
        experiments.setdefault(experiment.experiment, []).append(experiment)
    return experiments


def setting_comparisons(
    paper: str,
    names: Iterable[str] | None = None, # of experiments in experiments/<paper>/; None: all
    notebook: str | None = None,        # that lists a setting among its deviations; None: all settings
) -> list[SettingComparison]: # in the order of the printed settings
    """Compare the settings that a paper prints with those of its experiments.

    Raises `ConfigError` for a setting that names an experiment which is not there, or says nothing of any."""
    experiments = profiles_by_name(paper)
    comparisons = []
    for setting in printed_settings(paper):
        if notebook and notebook not in setting.notebooks:
            continue
        place = f"{LEDGER}: {paper}: {setting.name}"
        for name in setting.experiments:
            if names is not None and name not in names:
                continue
            check_known(f"experiment of {place}", name, experiments, ConfigError)
            comparison = compare_setting(setting, experiments[name])
            if not comparison.here:
                raise ConfigError(f"{place}: no run of {paper}/{name} has it")
            comparisons.append(comparison)
    return comparisons


def faults(comparisons: list[SettingComparison]) -> list[str]:
    """List what is wrong with reasons and with what is told.

    A setting that differs has a reason, a reason a difference, and what is as printed by our word alone names what
    does it."""
    by_setting = {}
    for comparison in comparisons:
        by_setting.setdefault(id(comparison.setting), []).append(comparison)
    messages = []
    for alike in by_setting.values():
        setting = alike[0].setting
        place = f"{setting.name} of {', '.join(setting.experiments)}"
        for comparison in alike:
            messages += [f"{setting.name} of {comparison.experiment}: differs at {profile} without a reason"
                         for profile, reason in comparison.reasons.items() if not reason]
        present = {profile for comparison in alike for profile in comparison.here}
        differing = {profile for comparison in alike for profile in comparison.differing}
        with_reason = setting.why or {} if not isinstance(setting.why, str) else present
        messages += [f"{place}: a reason for {profile}, where nothing differs"
                     for profile in PROFILES if profile in with_reason and profile not in differing]
        if setting.told is not None and setting.value is not None and present > differing and not setting.by:
            messages.append(f"{place}: told to be as reported, and nothing is named that does it (`by`)")
    return messages


def unique(texts: Iterable[str]) -> list[str]: # those that are not empty, each once
    return list(dict.fromkeys(filter(None, texts)))


def printed_parts(experiments: Iterable[ExperimentConfig]) -> list[str]: # e.g. `table3`, `figure2`
    "List the printed tables and figures that experiments of a paper make: their tables, or what their name says."
    parts = []
    for experiment in experiments:
        tables = [table.id for table in experiment.tables if PRINTED_TABLE.fullmatch(table.id)]
        parts += tables or [re.sub(r"0+(?=\d)", "", experiment.experiment)]
    return unique(filter(PRINTED_TABLE.fullmatch, parts))


def page_in(paper: str, experiment: str) -> str:
    "Return where the notebook is that shows an experiment, seen from the folder of its paper."
    name = f"{paper}/{experiment}"
    return address_of(load_experiment(name, profiles_of(name)[0]))


def seen_from(text: str, folder: str) -> str: # text: Markdown with links from the project's folder
    "Rewrite links so that they are right in a notebook of a folder."
    return re.sub(r"\]\(((?:nbs|experiments)/[^)#]+)", lambda link: f"]({posixpath.relpath(link[1], folder)}", text)


def settings_table(paper: str, comparisons: list[SettingComparison]) -> str: # Markdown
    "Tabulate settings: reported, of each profile where it is another one, and why; what they are of, and their place."
    alike = {} # experiments that have the same of a setting are one row
    for comparison in comparisons:
        key = id(comparison.setting), *comparison.here.items()
        alike.setdefault(key, []).append(comparison)
    experiments = profiles_by_name(paper)
    rows = []
    for first, *others in alike.values():
        links = []
        for item in (first, *others):
            parts = printed_parts(experiments[item.experiment])
            links.append(f"[{', '.join(map(title_of, parts))}]({page_in(paper, item.experiment)})")
        cells = {profile: first.here.get(profile, "—") for profile in PROFILES}
        cells |= {profile: f"**{cells[profile]}**" for profile in first.differing}
        own = cells.pop("small")
        rows.append([first.setting.name, first.of_paper, own, "; ".join(first.why), *cells.values(),
                     ", ".join(dict.fromkeys(links)), first.place])
    head = ["setting", "reported", "small", "why", "planted", "paper", "of", "in"]
    telling = [number for number in range(len(head)) if {row[number] for row in rows} - {"", "—", "as reported"}]
    table = text_table([head[number] for number in telling], [[row[number] for number in telling] for row in rows])
    return seen_from(table, f"nbs/papers/{paper}")


# section of a page -> whether a setting stands there; the first counts
SECTIONS: dict[str, Callable[[SettingComparison], bool]] = {
    "What differs at `small`": lambda item: "small" in item.differing,
    "What differs at `planted` or `paper` alone": lambda item: bool(item.differing),
    "As reported": lambda item: item.is_printed,
    "Not reported": lambda item: True, # a run needs it, and the paper does not name it
}


def ledger(paper: str) -> str: # Markdown
    "Answer which settings of a paper our runs have, and tabulate all: first those that differ, the others folded."
    comparisons = setting_comparisons(paper)
    word = "It depends" if any(item.differing for item in comparisons) else "Yes"
    parts = [f"**Answer.** {word}. At `small` {in_short(comparisons)}"]
    for title, belongs in SECTIONS.items():
        rows = [item for item in comparisons if belongs(item)]
        comparisons = [item for item in comparisons if not belongs(item)]
        table = settings_table(paper, rows)
        if rows:
            parts.append(f"## {title}\n\n{table}" if rows[0].differing else
                         f'<details markdown="1"><summary>{title}</summary>\n\n{table}\n\n</details>')
    return "\n\n".join(parts)


def deviations(notebook: str) -> Markdown: # notebook: of `nbs/`, as `losses/scan`
    "List what a notebook's code has otherwise than its paper, or has and the paper leaves open."
    lines = []
    for paper in load_config(project_root() / LEDGER, dict[str, list]):
        rows = {}
        for item in setting_comparisons(paper, notebook=notebook):
            rows.setdefault((item.setting.name, item.of_paper), []).append(item)
        for (name, of_paper), items in rows.items():
            profiles = {}
            for profile in PROFILES:
                texts = unique(text for item in items for text in item.here.get(profile, "").split("; "))
                profiles.setdefault("; ".join(texts), []).append(f"`{profile}`")
            texts = [f"{', '.join(names)}: {text}" for text, names in profiles.items() if text]
            here = "; ".join(texts if len(profiles) > 1 else profiles)
            why = "; ".join(unique(text for item in items for text in item.why))
            lines.append(f"- **{name}** ({items[0].place}). Reported: {of_paper}. Ours: {here}{why and f' ({why})'}.")
    return Markdown(seen_from("\n".join(lines), posixpath.dirname(f"nbs/{notebook}")))


def key_deviations(
    page: str, # the notebook of a table or figure, `paper/name`
    profile: str,
) -> str: # Markdown
    "Say in how many printed settings a page's runs differ from the paper, and list those that may change an answer."
    paper = page.partition("/")[0]
    names = {item.experiment for item in all_experiments(paper) if page_of(item) == page}
    comparisons = [item for item in setting_comparisons(paper, names) if item.is_printed and profile in item.here]
    differing = [item for item in comparisons if profile in item.differing]
    rows = {}
    for item in differing:
        if item.setting.matters:
            # each once
            rows.setdefault((item.setting.name, item.of_paper), {})[item.here[profile]] = None
    counts = (f"Of {len(comparisons)} reported settings and equations {len(differing) or 'none'} "
              f"differ{'s' * (len(differing) < 2)} at `{profile}`")
    ending = ". These may change the answer:" if rows else "."
    table = ""
    if rows:
        lines = [[*names, " or ".join(texts)] for names, texts in rows.items()]
        table = text_table(["setting", "reported", "ours"], lines)
    return "\n\n".join(filter(None, [f"{counts} ([all](./as_printed.ipynb)){ending}", table]))


def in_short(comparisons: list[SettingComparison]) -> str: # a sentence or two; comparisons: all of a paper
    """Count the settings and equations in which runs on public data differ from print.

    Those that may change an answer are named, and those that differ in profile `paper`."""
    comparisons = [item for item in comparisons if item.is_printed]

    def names(profile="", kind=("setting", "equation"), matters=(False, True)):
        return unique(item.setting.name for item in comparisons if item.setting.kind in kind
                      and item.setting.matters in matters and (not profile or profile in item.differing))

    counts = [f"{len(names('small', [kind]))} of the {len(names(kind=[kind]))} reported {kind}s"
              for kind in ("setting", "equation")]
    unavoidable = names("paper")
    avoidable = ", ".join(name for name in names("small", matters=[True]) if name not in unavoidable)
    return (f"{' and '.join(counts)} differ; these may change an answer: {avoidable}. At the paper's own scale these "
            f"differ as well: {', '.join(unavoidable)}.")
