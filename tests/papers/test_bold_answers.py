"Every answer in bold against the table that it stands on, and against the other pages that give the same answer."
import math
import operator
import re
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest

from debias_nb.papers.pages.answers import BEGINNINGS, COUNT_COLUMNS
from debias_nb.papers.pages.claims import ESTIMATES_FILE, VERDICTS
from debias_nb.runs.config import load_experiment

from cells import NUMBER, ROW, is_effect, number, tables_of

REPORTS = Path(__file__).parents[2] / "reports"
COUNTS = list(COUNT_COLUMNS.values()) # better, worse, within a point, cannot tell
ESTIMATE = re.compile(rf"({NUMBER}) points (above|below)[^\[]*\[({NUMBER}), ({NUMBER})\]")
EFFECTS = { # -> the answer where yes is that something is better
    "helps": "Yes", "a gain below a point": "Yes", "costs": "No", "a loss below a point": "No", "within a point": "No",
    "open": "Cannot tell"}
HARM = re.compile(r"\b(hurt|harm|lose|cost)\b") # in a question whose yes is that something is worse


def stated_estimate(answer: str) -> tuple[float, ...] | None:
    "Return the estimate that a sentence gives, with its interval; None where it gives none."
    match = ESTIMATE.search(answer)
    if not match:
        return None
    size, side, low, high = match.groups()
    return (number(size) if side == "above" else -number(size)) + 0., number(low), number(high)


def words_of(row: dict[str, str], tests: dict[str, str], yes: str) -> set[str]: # some of BEGINNINGS
    "Answer from an estimate, and from its tests one by one where some of them say the opposite of others."
    if int(tests["better"]) and int(tests["worse"]):
        return {"It depends"}
    word = EFFECTS[row["effect"]]
    is_turned = yes == "worse" and row["effect"] not in ("within a point", "open")
    return {"No" if word == "Yes" else "Yes"} if is_turned else {word}


def mean_of(rows: list[dict[str, str]], tests: dict[str, dict[str, str]]) -> float:
    "Average the estimates of several rows, each by how many tests it has."
    counts = [sum(int(tests[row[""]][column]) for column in COUNTS) for row in rows]
    means = [number(match[1]) for row in rows if (match := ROW.search(row["estimate, points"]))]
    return sum(map(operator.mul, counts, means)) / sum(counts) if len(means) == len(rows) else math.nan


def ends_of(rows: list[dict[str, str]]) -> tuple[float, float]:
    numbers = [number(text) for row in rows for text in re.findall(NUMBER, row["difference, points"])]
    return min(numbers, default=float("nan")), max(numbers, default=float("nan"))


def contradiction(page: str) -> str: # empty where there is none, or nothing to compare
    "Say what is wrong with the answer of a page, given its first table of estimates and the tests folded below it."
    found = re.search(rf"^\*\*Answer\.\*\* ({'|'.join(BEGINNINGS)})\b(.*)", page, re.M)
    tables = tables_of(page.partition("\n## ")[0])
    estimates = [row for rows in tables for row in rows if "estimate, points" in row]
    tests = {row[""]: row for rows in tables for row in rows if {*COUNTS, "difference, points"} <= row.keys()}
    stated = stated_estimate(found[2]) if found else None
    if not estimates or stated is None:
        return ""
    yes = "worse" if HARM.search(page.partition("\n")[0]) else "better"
    same = [row for row in estimates if (match := ROW.search(row["estimate, points"]))
            and tuple(map(number, match.groups())) == stated]
    if not same:
        joined = [estimates[first:last] for first, last in combinations(range(len(estimates) + 1), 2)]
        is_joined = any(abs(mean_of(rows, tests) - stated[0]) < .11 for rows in joined if len(rows) > 1)
        return "" if is_joined else f"{stated} is the estimate of none of its rows"
    words = set().union(*(words_of(row, tests[row[""]], yes) for row in same))
    return "" if found[1] in words else f"{found[1]}, and its estimates say {words}"


def test_an_effect_is_that_of_its_interval():
    rows = [row for path in PAGES for rows in tables_of(path.read_text("utf-8")) for row in rows if row.get("effect")]
    assert len(rows) > 25
    assert not [row for row in rows if not is_effect(row["effect"], row["estimate, points"])]


PAGES = sorted(path for path in REPORTS.glob("*/*.md") if path.parent.name in ("itvreg", "arr", "scan"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_answer_is_that_of_its_table(path):
    assert not contradiction(path.read_text("utf-8"))


PLAIN = ("Finetuned", "plain fine-tuning")


def without_place(page: str) -> list[str]:
    "List the ends of differences from plain fine-tuning which no two means have that the page shows."
    top, _, below = page.partition("\n## ")
    rows = [row for table in tables_of(top) for row in table if {*COUNTS, "difference, points"} <= row.keys()]
    tables = [table for table in tables_of(below) if "−" not in table[0]
              and any(method in table[0] for method in PLAIN)]
    lacking = []
    for row in rows:
        first, _, base = row[""].partition(" − ")
        method = first.split(" at ")[0]
        stem = re.escape(method.removesuffix(")"))
        is_own = re.compile(rf"{stem}(?: at rate \S+)?\)?(?: \(.*\))?(-\w+)?").fullmatch # a share of masks, or noise
        cells = [(line[name], line[f"{plain}{match[1] or ''}"]) for table in tables for line in table for name in line
               if (match := is_own(name)) for plain in PLAIN if f"{plain}{match[1] or ''}" in line]
        means = [pair for pair in cells if all(mean[0].isdigit() for mean in pair)] if base.startswith(PLAIN) else []
        if not means:
            continue
        pairs = [tuple(float(mean.partition(" ")[0]) for mean in pair) for pair in means] # `39.7 ± 0.1`
        gaps = [(one - another) * (1 if max(one, another) > 1 else 100) for one, another in pairs]
        lacking += [f"{row['']}: {end:+.1f}" for end in ends_of([row]) if min(abs(gap - end) for gap in gaps) > .11]
    return lacking


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_differences_are_those_of_means_that_the_page_shows(path):
    assert not without_place(path.read_text("utf-8"))


PAGE = """# Does it help?

**Answer.** {answer}

|  | estimate, points | effect |
|---|---:|---:|
| a − b | +1.3 [+0.9, +1.8] | {effect} |
| c − b | 0.0 [−0.2, +0.1] | within a point |

|  | {columns} | difference, points |
|---|---|
| a − b | {counts} | −1.0 to +2.0 |
| c − b | 0 | 0 | 3 | 0 | 0.0 |

## More
"""


@pytest.mark.parametrize("answer, effect, counts, wrong", [
    ("Yes: a is 1.3 points above b [+0.9, +1.8], the mean of 3 tests.", "helps", (0, 0, 0, 3), ""),
    ("Cannot tell: a is 1.3 points above b [+0.9, +1.8].", "helps", (0, 0, 0, 3),
     "Cannot tell, and its estimates say {'Yes'}"),
    ("Yes: a is 1.3 points above b [+0.9, +1.8].", "helps", (1, 1, 0, 1),
     "Yes, and its estimates say {'It depends'}"),
    ("Yes: a is 1.3 points below b [+0.9, +1.8].", "helps", (3, 0, 0, 0),
     "(-1.3, 0.9, 1.8) is the estimate of none of its rows"),
])
def test_an_answer_that_its_table_denies_is_seen(answer, effect, counts, wrong):
    page = PAGE.format(answer=answer, effect=effect, columns=" | ".join(COUNTS), counts=" | ".join(map(str, counts)))
    assert contradiction(page) == wrong


def test_an_answer_carries_its_number():
    answers = {path: re.search(r"^\*\*Answer\.\*\* (.*)", path.read_text("utf-8"), re.M) for path in PAGES
               if path.stem != "figure01"}
    without = [path.stem for path, answer in answers.items() if answer and not re.search(r"(?<![@(.\d-])\d", answer[1])]
    assert sum(map(bool, answers.values())) > 20 and not without


def test_most_pages_are_compared_with_their_tables():
    pages = [path.read_text("utf-8") for path in PAGES]
    changed = [re.sub(r"(\*\*Answer\.\*\*.*?)\d+\.\d", r"\g<1>98.7", page, count=1) for page in pages]
    assert sum(map(bool, map(contradiction, changed))) >= 9, "another number would be seen"


RESTING = re.compile(r"((?:\[[^\]]+\]\([^)]*\)(?:, )?)+) \(\*\*([A-Z][^*]*)\*\*\)")
NAMED = re.compile(r"\[((?:[RQ]-)?[ABC]\d+[a-z]?)\]\([^)]*CLAIMS\.md#[^)]*\): ([a-z][^,.;()]*)")


def test_pages_give_a_claim_the_word_that_its_estimate_has():
    answers = pd.read_csv(REPORTS / ESTIMATES_FILE).query("profile == 'small'").groupby("claim").verdict.first()
    wrong, count = [], 0
    for path in (REPORTS / "FINDINGS.md", *PAGES):
        page = path.read_text("utf-8")
        verdicts = [(id, word) for id, word in NAMED.findall(page) if word in {*map(str.lower, VERDICTS)}]
        verdicts += [(id, word) for ids, word in RESTING.findall(page) for id in re.findall(r"\[([^\]]+)\]", ids)]
        count += len(verdicts)
        wrong += [(path.name, id, word) for id, word in verdicts if word.lower() != answers[id].lower()]
    assert count > 60 and not wrong


def test_the_answer_on_published_fine_tunes_is_that_of_its_counts():
    rest = pd.read_csv(REPORTS / "finetunes.csv", index_col="name").loc["other"]
    page = (REPORTS / "diagnosis/FINETUNES.md").read_text("utf-8")
    is_both = min(rest.loses_low, rest.gains_low) > .2 # as the page states it
    assert bool(re.search(r"^\*\*Answer\.\*\* It depends\b", page, re.M)) == is_both
    assert f"{rest.loses:.0%} [{rest.loses_low:.0%}, {rest.loses_high:.0%}]" in page.partition("\n- ")[0]


def settings_of(
    name: str, table: str, method: str,
) -> dict: # of the runs of a method in a table, but its name, seeds, and what it is called
    "Return what distinguishes runs from others."
    experiment = load_experiment(name, "small")
    corpora = {column.corpus for one in experiment.tables if one.id == table for column in one.columns}
    runs = [run for run in experiment.runs() if run.method.name == method and run.encoder.kind == "alignment"
            and run.data.display in corpora]
    settings = [run.model_dump(mode="json", exclude={"seed", "experiment", "evaluate", "measure"}) for run in runs]
    names = {"method": ("name", "was"), "corpus": ("label",)}
    for setting in settings:
        setting |= {part: {key: value for key, value in setting[part].items() if key not in left_out}
                for part, left_out in names.items()}
    return settings[0]


def test_new_seeds_are_of_the_row_above():
    page = (REPORTS / "scan/table02.md").read_text("utf-8")
    above, again = [row[""] for row in tables_of(page)[0]][-2:]
    assert "weighed three times" in above and again == "… with new seeds"
    assert (settings_of("scan/table02", "table2", "SCAN, weighted")
            == settings_of("scan/weights", "weights_again", "SCAN"))


NUMBERS = {"one": 1, "two": 2, "three": 3, "five": 5, "ten": 10, "thirteen": 13}


@pytest.mark.parametrize("name", ["scan/table02", "scan/table05", "scan/table06"])
def test_a_page_says_how_many_seeds_the_rows_of_the_papers_names_have(name):
    scale = re.search(r"\*\*Profile `small`:\*\*.*", (REPORTS / f"{name}.md").read_text("utf-8"))[0]
    counts = {NUMBERS[word] for word in re.findall(r"\w+", scale) if word in NUMBERS}
    rows = pd.read_csv(REPORTS / f"{name}.differences.csv").query("profile == 'small'")
    rows = rows[rows.table.str.startswith("table")]
    assert {*rows.n[rows.method.str.match(r"SCAN \(weights by (SGD|Adam)\)")]} <= counts
