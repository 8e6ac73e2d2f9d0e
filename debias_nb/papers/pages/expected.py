"""What a paper prints: every number and every setting of it, typed once, in `experiments/printed/<paper>.yaml`."""
from typing import Annotated, Literal

from pydantic import Field, field_validator

from ...checks import ConfigError, check_known
from ...files import Names
from ...files import Count, NotNegative, Positive, Settings, Strict, load_config, once_per_state, project_root
from ...runs.config import Profile


class Printed(Strict):
    "One number of a table, as printed."
    row: dict[Literal["base", "method", "weight", "mask_share", "rate"], str] # Base has no weight, mask share or rate
    column: str
    value: float | None          # None: no number stands there; `note` says so
    std: NotNegative | None = None # over the paper's seeds; None: none is printed
    doubtful: bool = False       # the paper contradicts this number elsewhere
    quoted: bool = False         # copied by the paper from earlier work
    note: str | None = None


class ExpectedTable(Strict):
    "A table of a paper. Raises `ValueError` for a repeated cell."
    caption: str
    metric: str
    unit: Literal["percent", "fraction", "count"]
    decimals: Count = 2 # as printed
    tolerance: Positive # largest difference, in `unit`, that counts as near
    cells: Annotated[tuple[Printed, ...], Field(min_length=1)]

    @field_validator("cells")
    @classmethod
    def _each_once(cls, cells):
        places = set()
        for cell in cells:
            place = (*cell.row.items(), cell.column)
            if place in places:
                raise ValueError(f"the cell {cell.row} × {cell.column!r} occurs twice")
            places.add(place)
        return cells


class ExpectedList(Strict):
    "A table that lists titles of items for one query."
    caption: str
    query: str
    rows: dict[str, tuple[str, ...]] # method -> titles, the closest first
    right: tuple[str, ...] = ()  # methods that the paper says are right
    about: str | None = None     # the word that right titles say, as the paper's caption has it
    notes: tuple[str, ...] = ()  # where the paper's prose says otherwise


Value = int | float | str
Told = str | dict[Profile, str] # for all profiles, or for some


class PrintedSetting(Settings):
    """One setting as a paper prints it, and where that of the runs is read.

    `read` is a path from a run, as `training.margin` or `data.split.authors`; a name of `as_printed.READERS`; or an
    object of the code, as `debias_nb.papers.tasks.answers.PERTURBED_SHARE`. What nothing says is `told` in words.
    """
    name: str
    experiments: Annotated[Names, Field(min_length=1)] # that it holds for, by their names in experiments/<paper>/
    value: Value | tuple[Value, ...] | None # None: the paper is silent
    place: Annotated[str, Field(pattern=r"^(Appendix|Equation|Figure|Section|Supplement|Table)s? ")] # in its text
    read: str | None = None
    where: dict[str, tuple[Value, ...]] = {} # path -> values: the runs that it is about; default: all that are trained
    ours: Value | tuple[Value, ...] | None = None # what a configuration calls the printed value; default: the same
    told: Told | None = None
    why: Told = {}               # it differs
    unmet: str | None = None     # why it differs even at profile `paper`
    note: str | None = None      # how the paper is read, where it can be read in several ways
    matters: bool = False        # another value may change an answer: pages of tables name it where it differs

    @property
    def values(self) -> tuple[Value, ...]: # as configurations say them; empty where the paper is silent
        value = self.value if self.ours is None else self.ours
        if value is None:
            return ()
        return value if isinstance(value, tuple) else (value,)

    def rules(self):
        yield (self.read is None) == (self.told is None), "either `read` or `told` is needed"
        yield self.where and self.read is None, "`where` belongs to what is read"
        yield self.value is None and (self.why or self.unmet or self.ours is not None), (
            "where the paper is silent nothing differs: say it in `note`")


def of_profile(
    text: Told,
    profile: Profile,
) -> str: # empty where nothing is told of it
    "Return what is told of a profile."
    return text if isinstance(text, str) else text.get(profile, "")


class Expected(Strict):
    "All that one paper prints."
    paper: str                   # the name used in experiments/ and reports/
    title: str
    settings: tuple[PrintedSetting, ...] = ()
    tables: dict[str, ExpectedTable]
    lists: dict[str, ExpectedList] = {}

    @field_validator("settings")
    @classmethod
    def _each_setting_once(cls, settings):
        places = set()
        for setting in settings:
            for experiment in setting.experiments:
                place = (setting.name, experiment, *sorted(setting.where.items()))
                if place in places:
                    raise ValueError(f"the setting {setting.name!r} of {experiment} occurs twice")
                places.add(place)
        return settings


_read_once = once_per_state(load_config)


def load_expected(
    paper: str, # e.g. `itvreg`
) -> Expected:
    """Read and validate `experiments/printed/<paper>.yaml`.

    Raises `ConfigError` naming file and key."""
    folder = project_root() / "experiments/printed"
    path = folder / f"{paper}.yaml"
    names = sorted(p.name for p in folder.glob("*.yaml"))
    check_known("file in experiments/printed/ called", f"{paper}.yaml", names, ConfigError)
    source = f"experiments/printed/{paper}.yaml"
    paper_numbers = _read_once(path, Expected, source)
    if paper_numbers.paper != paper:
        raise ConfigError(f"{source}: says it is {paper_numbers.paper}")
    return paper_numbers
