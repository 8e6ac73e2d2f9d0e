"Every answer in bold against the table that it stands on, and against the other pages that give the same answer."
import re
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest

from debias_nb.papers.pages.answers import BEGINNINGS, COUNT_COLUMNS, FEWEST, OF_CLAIMS, TOO_MANY
from debias_nb.papers.pages.comparisons import overall
from debias_nb.runs.config import load_experiment

REPORTS = Path(__file__).parents[2] / "reports"
COUNTS = list(COUNT_COLUMNS.values()) # better, worse, within a point, cannot tell
NUMBER = r"(\d+\.\d)"
DISTANCES = { # pattern -> the ends that it says
    rf"between {NUMBER} points below and {NUMBER} above": lambda a, b: (-a, b),
    rf"{NUMBER} to {NUMBER} points below": lambda a, b: (-b, -a),
    rf"{NUMBER} to {NUMBER} points above": lambda a, b: (a, b),
    rf"{NUMBER} points below": lambda a: (-a, -a),
    rf"{NUMBER} points (?:above|from)": lambda a: (a, a),
}
HARM = re.compile(r"\b(hurt|harm|lose|cost)\b") # in a question whose yes is that something is worse


def rows_of(table: str) -> list[dict[str, str]]: # table: Markdown
    "Read the rows of a table by the names of its columns."
    header, _, *lines = [[cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split(" |")]
                         for line in table.splitlines()]
    return [dict(zip(header, line)) for line in lines]


def tables_of(page: str) -> list[list[dict[str, str]]]:
    return [rows_of(table.strip()) for table in re.findall(r"(?m)(?:^\|.*\n)+", page)]


def stated_ends(answer: str) -> tuple[float, float] | None:
    "Return from where to where a sentence says that differences go; None where it says no such thing."
    hits = [(match.start(), ends(*map(float, match.groups()))) for pattern, ends in DISTANCES.items()
            for match in re.finditer(pattern, answer)]
    return min(hits, key=lambda hit: hit[0])[1] if hits else None


def ends_of(rows: list[dict[str, str]]) -> tuple[float, float]:
    numbers = [float(number.replace("−", "-")) for row in rows
               for number in re.findall(r"[−+]?\d+\.\d", row["difference, points"])]
    return min(numbers, default=float("nan")), max(numbers, default=float("nan"))


def detectable_of(rows: list[dict[str, str]]) -> str: # `2.3 to 3.8`
    "Say what tests of some rows can detect, from what each says."
    ends = sorted((end for row in rows for end in re.findall(NUMBER, row.get("detectable, points", ""))), key=float)
    return " to ".join(dict.fromkeys([ends[0], ends[-1]])) if ends else ""


def word_of(rows: list[dict[str, str]], yes: str) -> str: # one of BEGINNINGS
    "Answer from counts, by the rule that the list of pages states."
    better, worse, slight, unsure = (sum(int(row[column]) for row in rows) for column in COUNTS)
    known = better + worse + slight
    if not better + worse + unsure:
        return "No"
    if better and worse:
        return "It depends"
    if unsure >= (known + unsure) * (TOO_MANY if known >= FEWEST else .5):
        return "Cannot tell"
    if slight == better + worse:
        return "It depends"
    if slight > better + worse:
        return "No"
    return "Yes" if bool(better) == (yes == "better") else "No"


def contradiction(page: str) -> str: # empty where there is none, or nothing to compare
    "Say what is wrong with the answer of a page, given the first table of counts below it."
    found = re.search(rf"^\*\*Answer\.\*\* ({'|'.join(BEGINNINGS)})\b(.*)", page, re.M)
    counted = [rows for rows in tables_of(page.partition("\n## ")[0])
               if {*COUNTS, "difference, points"} <= rows[0].keys()]
    ends = stated_ends(re.split(r"\.\s|$", found[2])[0]) if found else None # of its first sentence
    # what it depends on is another question than how often
    if not counted or ends is None or found[2].startswith(" on "):
        return ""
    yes = "worse" if HARM.search(page.partition("\n")[0]) else "better"
    rows = counted[0]
    parts = [rows[first:last] for first, last in combinations(range(len(rows) + 1), 2)]
    there = [part for part in parts if ends_of(part) == ends]
    if not there:
        return f"{ends} is the range of none of its rows"
    stated = re.search(r"detectable difference \(80% power\) is (.*?) points", found[2])
    if stated and stated[1] not in map(detectable_of, there):
        return f"detectable {stated[1]}, and its rows say {[*map(detectable_of, there)]}"
    words = {word_of(part, yes) for part in there}
    return "" if found[1] in words else f"{found[1]}, and its counts say {words}"


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
        first, _, other = row[""].partition(" − ")
        method = first.split(" at ")[0]
        is_own = re.compile(rf"{re.escape(method)}( \(.*\))?").fullmatch # with a share of masks, in some tables
        own = [(line[name], line[plain]) for table in tables for line in table for name in filter(is_own, line)
               for plain in PLAIN if plain in line]
        means = [pair for pair in own if "—" not in pair] if other.startswith(PLAIN) else []
        if not means:
            continue
        pairs = [[float(text.partition(" ")[0]) for text in pair] for pair in means]
        gaps = [(one - another) * (1 if max(one, another) > 1 else 100) for one, another in pairs]
        lacking += [f"{row['']}: {end:+.1f}" for end in ends_of([row]) if min(abs(gap - end) for gap in gaps) > .11]
    return lacking


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_differences_are_those_of_means_that_the_page_shows(path):
    assert not without_place(path.read_text("utf-8"))


PAGE = """# Does it help?

**Answer.** {answer}

| {columns} | difference, points |
|---|---|
| a − b | {counts} | −1.0 to +2.0 |
| c − b | 9 | 0 | 0 | 0 | +3.0 |

## More
"""


@pytest.mark.parametrize("answer, counts, wrong", [
    ("No: a is between 1.0 points below and 2.0 above b, within a point.", (0, 0, 2, 0), ""),
    ("Yes: a is between 1.0 points below and 2.0 above b.", (0, 0, 2, 0), "Yes, and its counts say {'No'}"),
    ("Yes: a is between 1.0 points below and 2.0 above b.", (2, 0, 0, 1), ""),
    ("Yes: a is between 1.0 points below and 2.0 above b.", (1, 1, 0, 1), "Yes, and its counts say {'It depends'}"),
    ("Yes: a is between 1.0 points below and 2.0 above b.", (1, 0, 0, 2), "Yes, and its counts say {'Cannot tell'}"),
    ("Yes: a is 1.0 to 2.0 points above b.", (2, 0, 0, 0), "(1.0, 2.0) is the range of none of its rows"),
])
def test_an_answer_that_its_table_denies_is_seen(answer, counts, wrong):
    page = PAGE.format(answer=answer, columns=" | ".join(["", *COUNTS]), counts=" | ".join(map(str, counts)))
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


def reading(counts: list[int]) -> str:
    "Sum up counts as *What to do* says it does."
    better, worse, slight, unsure = counts
    if slight >= .75 * sum(counts):
        return "within a point" if slight == sum(counts) else "mostly within a point"
    if unsure and better + worse < 2:
        return "cannot tell"
    if better and worse or better + worse < .25 * (better + worse + slight):
        return "depends"
    return "better" if better else "worse"


def test_results_of_what_to_do_are_those_of_their_counts():
    rows = [row for table in tables_of((REPORTS / "diagnosis/WHAT_TO_DO.md").read_text("utf-8")) for row in table
            if set(COUNTS) <= row.keys()]
    bold = [(value.strip("*"), row) for row in rows for value in row.values()
            if re.fullmatch(r"\*\*[a-z ]+\*\*", value)]
    assert len(bold) > 20
    assert not [(word, row) for word, row in bold if word != reading([int(row[column]) for column in COUNTS])]


def plain_word(answer: str) -> str:
    "Return the answer of a claim without what is in part, in brackets, or about sizes alone."
    word = re.sub(r" \(.*\)|, in part", "", answer)
    return OF_CLAIMS["the reverse holds"] if word in ("No: by more", "No: by less") else word


def answers_of_claims() -> dict[str, str]: # id -> answer on real data, in the words of the pages of claims
    pages = [(REPORTS / paper / "claims.md").read_text("utf-8") for paper in ("itvreg", "arr", "scan")]
    rows = [row for page in pages for table in tables_of(page) for row in table if "verdict, `small`" in row
            and row[""]]
    return {row[""].rpartition(">")[2]: row["verdict, `small`"].strip("*") for row in rows}


def test_answers_of_claims_are_those_of_their_comparisons():
    comparisons = pd.read_csv(REPORTS / "claims.csv").query("primary and profile == 'small'")
    words = {id: OF_CLAIMS[overall(own.verdict)] for id, own in comparisons.groupby("claim")}
    answers = answers_of_claims()
    assert len(answers) > 150
    assert ({id: plain_word(answer) for id, answer in answers.items()}
            == {id: words.get(id, OF_CLAIMS["not run"]) for id in answers})


SAID = re.compile(r"\[((?:[RQ]-)?[ABC]\d+[a-z]?)\]\([^)]*claims\.md#[^)]*\): ([a-z]+(?: tell| run| depends)?(?:: "
                  r"within a point|, the reverse|: by more|: by less)?)")
RESTING = re.compile(r"((?:\[[^\]]+\]\([^)]*\)(?:, )?)+) \(\*\*([A-Z][^*]*)\*\*\)")
OTHERS = [REPORTS / "FINDINGS.md", REPORTS / "REPORT.md", *PAGES]


def test_pages_give_a_claim_the_answer_that_claims_give_it():
    answers = {id: plain_word(answer) for id, answer in answers_of_claims().items()}
    words = {word.lower() for word in OF_CLAIMS.values()}
    wrong, compared = [], 0
    for path in OTHERS:
        page = path.read_text("utf-8")
        said = [(id, word) for id, word in SAID.findall(page) if word in words]
        said += [(id, plain_word(word).lower()) for ids, word in RESTING.findall(page)
                 for id in re.findall(r"\[([^\]]+)\]", ids)]
        compared += len(said)
        wrong += [(path.name, id, word, answers[id]) for id, word in said if id in answers
                  and word != answers[id].lower()]
    assert compared > 60 and not wrong


def test_the_answer_on_published_fine_tunes_is_that_of_its_counts():
    other = pd.read_csv(REPORTS / "finetunes.csv", index_col="name").loc["other"]
    page = (REPORTS / "diagnosis/FINETUNES.md").read_text("utf-8")
    is_both = min(other.loses_low, other.gains_low) > .2 # as the page states it
    assert bool(re.search(r"^\*\*Answer\.\*\* It depends\b", page, re.M)) == is_both
    assert f"{other.loses:.0%} [{other.loses_low:.0%}, {other.loses_high:.0%}]" in page.partition("\n- ")[0]


def settings_of(
    name: str, table: str, method: str,
) -> dict: # of the runs of a method in a table, but its name, seeds, and what it is called
    "Return what distinguishes runs from others."
    experiment = load_experiment(name, "small")
    corpora = {column.corpus for one in experiment.tables if one.id == table for column in one.columns}
    runs = [run for run in experiment.runs() if run.method.name == method and run.encoder.kind == "alignment"
            and run.data.display in corpora]
    own = [run.model_dump(mode="json", exclude={"seed", "experiment", "evaluate", "measure"}) for run in runs]
    names = {"method": ("name", "was"), "corpus": ("label",)}
    for one in own:
        one |= {part: {key: value for key, value in one[part].items() if key not in left_out}
                for part, left_out in names.items()}
    return own[0]


def test_new_seeds_are_of_the_row_above():
    page = (REPORTS / "scan/table02.md").read_text("utf-8")
    above, again = [row[""] for row in tables_of(page)[0]][-2:]
    assert "weighed three times" in above and again == "… with new seeds"
    assert (settings_of("scan/table02", "table2", "SCAN, weighted")
            == settings_of("scan/weights", "weights_again", "SCAN"))


COUNTED = {"one": 1, "two": 2, "three": 3, "five": 5, "ten": 10}


@pytest.mark.parametrize("name", ["scan/table02", "scan/table05", "scan/table06"])
def test_a_page_says_how_many_seeds_the_rows_of_the_papers_names_have(name):
    said = re.search(r"\*\*Profile `small`:\*\*.*?(\w+) seeds", (REPORTS / f"{name}.md").read_text("utf-8"))[1]
    rows = pd.read_csv(REPORTS / f"{name}.differences.csv").query("profile == 'small' and method in ('SCAN', "
                                                                  "'SCAN-Perturb', 'SCAN-Noise')")
    assert set(rows.n) == {COUNTED[said]}
