"Ranges of the numbers that are given: one for a function, its command and its help."
from dataclasses import dataclass
from math import inf

from ..checks import BRACKETS, LARGEST_SEED, check_range, check_whole


@dataclass(frozen=True)
class Range:
    "Range of a number, with or without its ends."
    kind: type            # int or float
    low: float
    high: float = inf
    closed: str = "both"  # as of `check_range`
    is_optional: bool = False # None says that there is none

    def check(self, name: str, value) -> None:
        "Check that a number lies in it. Raise `ConfigError`."
        if value is None and self.is_optional:
            return
        if self.kind is int:
            check_whole(name, value, int(self.low), None if self.high == inf else int(self.high))
        else:
            check_range(name, value, self.low, self.high, self.closed)

    def __str__(self):
        begin, end = BRACKETS["left" if self.kind is int and self.high == inf else self.closed]
        low, high = (str(number) if abs(number) == inf else f"{int(number)}" for number in (self.low, self.high))
        return f"{self.kind.__name__} in {begin}{low}, {high}{end}"


RANGES = { # by argument: one for a function, its command and its help
    "seed": Range(int, 0, LARGEST_SEED),
    "sample": Range(int, 10, is_optional=True),
    "margin": Range(float, 0, 100, "right"),
    "threshold": Range(float, -inf, inf, "neither", is_optional=True),
    "seeds": Range(int, 2),
    "learning_rate": Range(float, 0, inf, "neither", is_optional=True),
    "epochs": Range(float, 0, inf, "neither", is_optional=True),
    "batch_size": Range(int, 1, 1_048_576, is_optional=True),
}


def check_numbers(**values) -> None:
    "Check that numbers lie in the ranges of the arguments of their names. Raise `ConfigError`."
    for name, value in values.items():
        RANGES[name].check(name, value)
