"What pages say of their differences, and on how many replicates; and what pages of case studies tell and count."
import re
import textwrap
from pathlib import Path

import pandas as pd
import pytest

from debias_nb.runs.config import Announced, load_experiment
from debias_nb.papers.pages.cases import answer_counts, answer_rows, case_counts, case_of, case_title, error_rows
from debias_nb.papers.pages.cases import marked_answer, most_confused, picked_cases, right_alone
from debias_nb.papers.pages.details import is_decent
from debias_nb.papers.pages.places import STUDIES
from debias_nb.papers.pages.report import OF_PAPER
from debias_nb.papers.pages.form import words_seen
from debias_nb.papers.pages.frame import summary_of
from debias_nb.runs.pairing import Made
from debias_nb.papers.pages.answers import BEGINNINGS, answer_word
from debias_nb.papers.pages.tables import APART, differences, known_shares, rests_on

from cells import a_run

ROOT = Path(__file__).parents[2]
SEEDS = (0, 1, 2)


def runs_of(method, value, encoder="static", seeds=SEEDS, dirty=(), origin=None, worlds=None):
    "The runs of a method on one test; some from a tree with changes, or made elsewhere."
    rows = []
    for i, seed in enumerate(seeds):
        world = worlds[i] if worlds else None
        rows.append(dict(
            encoder=encoder, corpus="forum", test="Quora", evaluate="quora", shift="ood", method=method, family=method,
            strength=None, metric="auc05", unit="percent", against="Finetuned", further=False, complete=True,
            key=(world, seed), value=value + i / 10,
            resampled=None, overlap=0., made=Made("torch 2.13.0", (origin or {}).get(seed, "here")),
            clean=seed not in dirty, training_data=None, base_encoder=None, test_data=None,
        ))
    return pd.DataFrame(rows)


@pytest.fixture
def plain():
    return runs_of("Finetuned", 50.)


def rows_of(text):
    "The cells of a table in Markdown, without its header."
    lines = [line.strip("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")] for line in lines[2:]]


def test_what_is_left_out_is_named_with_its_reason(plain):
    origins = {2: "elsewhere"}
    runs = pd.concat([plain, runs_of("OutReg", 52.), runs_of("SimCSE", 51.), runs_of("ITVReg", 53., dirty=[0])])
    runs = pd.concat([runs, runs_of("MaskReg", 53., origin=origins)])
    text = rests_on(runs)
    assert text.endswith(APART) and rows_of(text) == [
        ["OutReg; SimCSE", "3 seeds", ""],
        ["ITVReg", "2 seeds", "seed 0: made from a tree with uncommitted changes"],
        ["MaskReg", "2 seeds", "seed 2: made on unlike processors or with unlike versions"],
    ]


def test_a_comparison_that_cannot_be_made_is_not_silent(plain):
    runs = pd.concat([plain, runs_of("OutReg", 52.), runs_of("ITVReg", 53., dirty=SEEDS)])
    assert set(differences(runs).method) == {"OutReg"}
    left_out = ["too few: 0 seeds", "seed 0, seed 1, seed 2: made from a tree with uncommitted changes"]
    assert rows_of(rests_on(runs)) == [["OutReg", "3 seeds", ""], ["ITVReg", *left_out]]
    assert rows_of(rests_on(runs, method="ITVReg")) == [left_out]


def test_one_number_for_all_is_said_once_and_a_world_counts_once(plain):
    assert rests_on(pd.concat([plain, runs_of("OutReg", 52.)])) == "Each difference: n = 3 seeds."
    text = rests_on(pd.concat([plain, runs_of("OutReg", 52., seeds=(0, 1))]))
    assert text == f"Each difference: n = 2 seeds.\n\n{APART}"
    worlds = [0, 0, 1]
    runs = pd.concat([runs_of("Finetuned", 50., worlds=worlds), runs_of("OutReg", 52., worlds=worlds)])
    assert rests_on(runs) == "Each difference: n = 2 synthetic datasets."


def test_encoders_and_tests_are_named_where_they_differ(plain):
    transformers = [runs_of(method, 40., "transformer", seeds=(0, 1)) for method in ("Finetuned", "OutReg", "SimCSE")]
    runs = pd.concat([plain, runs_of("OutReg", 52.), *transformers])
    assert rows_of(rests_on(runs)) == [["static", "OutReg", "3 seeds"], ["transformer", "OutReg; SimCSE", "2 seeds"]]
    others_of_test = [runs_of(method, 60., seeds=(0, 1)).assign(test="AskUbuntu") for method in ("Finetuned", "OutReg")]
    runs = pd.concat([plain, runs_of("OutReg", 52.), *others_of_test])
    assert rows_of(rests_on(runs)) == [["Quora", "3 seeds"], ["AskUbuntu", "2 seeds"]]


def test_runs_are_counted_against_those_announced():
    experiment = load_experiment("itvreg/practice", "small")
    plan = Announced(runs=201, commits=("97cce18d",), why="time was short")
    with_plan = experiment.model_copy(update={"announced": plan})
    assert summary_of(with_plan, 41,
                      41) == "41 of 201 announced runs completed (time was short; announced in 97cce18d)."
    assert "keeps 41 of them" in summary_of(with_plan, 40, 41)
    assert summary_of(experiment.model_copy(update={"announced": None}), 41, 41) == "41 of 41 runs completed."
    no_plan = experiment.model_copy(update={"announced": None})
    assert [run.id for run in experiment.runs()] == [run.id for run in no_plan.runs()]


# ---------------------------------------------------------------- case studies


def answer_of(page):
    "What a page answers above its first section, without the addresses of links; empty if it does not."
    top = page.partition("\n## ")[0]
    match = re.search(r"^\*\*Answer\.\*\* (.+?)(\n\n|\Z)", top, re.S | re.M)
    return re.sub(r"\]\([^)]*\)", "]", match[1]) if match else ""


# not the 8 of R@8, nor the 2 of potion-base-2M
NUMBER = re.compile(r"(?<![\w@.,-])[−+]?\d+(?:[.,]\d+)*(?:e[-−]?\d+)?(?!\w)")
ANSWERING = sorted(path for path in (ROOT / "reports").glob("*/*.md")
                   if (ROOT / "experiments" / path.parent.name).is_dir())
ANSWERING = [path for path in ANSWERING if path.stem not in OF_PAPER]
FORM = re.compile(r"(table|figure)\d+") # pages whose words are limited


@pytest.mark.parametrize("path", ANSWERING, ids=lambda path: path.relative_to(ROOT / "reports").as_posix())
def test_a_page_answers_first_and_in_few_numbers(path):
    page = path.read_text("utf-8")
    answer = answer_of(page).replace("AUC(0.05)", "AUC")
    assert answer_word(page), f"begins with none of {BEGINNINGS}: {answer}"
    # a comparison has up to four: how many, the largest, how far intervals reach
    assert len(NUMBER.findall(answer)) <= 12, answer
    assert len(re.findall(r"\.(?=\s[A-Z[]|$)", answer)) <= 2, answer
    open_text = re.sub(r"<details.*?</details>", "", page, flags=re.S)
    assert (open_text.count("\n") <= 180 or FORM.fullmatch(path.stem)) and "[Run it](../../nbs/papers/" in open_text


MOST_WORDS = 1200


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_short_and_has_two_pictures(name):
    page = (ROOT / "reports" / f"{name}.md").read_text("utf-8")
    assert answer_word(page) and len(NUMBER.findall(answer_of(page))) <= 12
    # without lines of tables and addresses
    words = [word for word in re.sub(r"\]\([^)]*\)", "]", page).split() if re.search(r"\w", word)]
    assert len(words) <= MOST_WORDS and len(re.findall(r"!\[[^\]]+\]\(\./\w+\.\d\.svg\)", page)) == 2


WIDTH, SCREEN = 120, 45 # characters of a line, lines of a screen


def line_count(row, widths):
    "The lines of a table's row in columns of these widths."
    return max(len(textwrap.wrap(cell, max(1, width))) for cell, width in zip(row, widths))


def table_lines(rows):
    "The lines of a table: columns are as wide as their longest words, and share the rest as their texts need."
    least = [max(len(word) for cell in column for word in cell.split() or [""]) for column in zip(*rows)]
    need = [max(map(len, column)) - width for column, width in zip(zip(*rows), least)]
    room = min(1, max(0, WIDTH - 3 * len(least) - sum(least)) / max(1, sum(need)))
    widths = [width + int(room * growth) for width, growth in zip(least, need)]
    return sum(max(1, line_count(row, widths)) for row in rows)


def screens(page):
    "How many screens a page fills before anything is unfolded: 45 lines of 120 characters each."
    text = re.sub(r"<details.*?<summary>(.*?)</summary>.*?</details>", r"\1", page, flags=re.S)
    text = re.sub(r"<[^>]+>|\*\*|`|\]\([^)]*\)|\[", "", text)
    tables = re.findall(r"(?m)(?:^\|.*\n)+", text)
    rows = [[[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()
             if "---" not in line] for table in tables]
    lines = [line for line in text.splitlines() if not line.startswith("|")]
    return (sum(map(table_lines, rows)) + sum(len(textwrap.wrap(line, WIDTH)) or 1 for line in lines)) / SCREEN


@pytest.mark.parametrize("page, limit", [("CLAIMS", 1500), ("itvreg/claims", 3000), ("arr/claims", 1500),
                                         ("scan/claims", 1500)])
def test_claims_are_told_in_few_words(page, limit):
    assert words_seen((ROOT / f"reports/{page}.md").read_text("utf-8")) <= limit


def test_the_claims_fit_on_four_screens():
    assert screens((ROOT / "reports/CLAIMS.md").read_text("utf-8")) <= 4
    assert screens("word " * 24 * 45 + "\n") == 1
    assert screens("| a | b |\n|---|---|\n" + f"| x | {'word ' * 44}|\n" * 45) == pytest.approx((1 + 45 * 2) / 45)


def test_cases_of_violence_or_abuse_are_not_shown():
    assert not is_decent(["why not", "They were Killed."]) and is_decent(["a grape, a skill", "drapery"])


def item(right, *importance, first="bow tie", query="a rowe bow"):
    "One query as a method answers it."
    return {"query": query, "tokens": ["a", "rowe", "bow"], "importance": list(importance), "relevant": ["bow"],
            "top": [[first, right], *[[f"item {n}", False] for n in range(4)]]}


def record_of(method, cases, seed=0, test="ood"):
    "A record that holds cases alone."
    return dict(run=a_run(method), seed=seed, extra={"cases": {test: cases}})


@pytest.fixture
def queries():
    """Five queries: the printed story; the same with ITVReg wrong; its reverse; gained by both; nothing moves."""
    base = [(True, .1), (True, .1), (False, .1), (False, .1), (True, .1)]
    tuned = [(False, .5), (False, .5), (True, .5), (True, .5), (True, .5)]
    items = [(True, .2), (False, .2), (False, .7), (True, .5), (True, .2)]
    rowenta = {"first": "Rowenta irons"}
    return [
        record_of("ITVReg", [item(right, .1, share, .1) for right, share in items]),
        record_of("Finetuned", [item(right, .1, share, .1, **rowenta) for right, share in tuned]),
        record_of("Base", [item(right, .1, share, .1) for right, share in base]),
    ]


def test_queries_that_tell_the_story_and_its_reverse_are_counted(queries):
    [row] = case_counts(queries).to_dict("records")
    assert [row[name] for name in ("method", "queries")] == ["ITVReg", 5]
    assert [row[name] for name in ("lost", "kept", "gained", "missed")] == [2, 1, 2, 1]
    assert [row[name] for name in ("nearer", "farther", "share_nearer", "share_farther")] == [3, 1, 3, 1]
    assert (row["tuned_rise"], row["rise"]) == (pytest.approx(.4), pytest.approx((.1 + .1 + .6 + .4 + .1) / 5))
    assert [row[name] for name in ("says_newly", "says_no_more", "says")] == [5, 0, 0], "rowenta begins with rowe"


def test_answers_won_and_lost_are_counted_also_of_questions_misled_by_overlap():
    def answers(rights):
        return [dict(question=f"q{n}", answer="long " * 99, right=right, misled=n < 2)
                for n, right in enumerate(rights)]

    records = [record_of("SCAN", answers([True, False, True, True])),
               record_of("Finetuned", answers([False, True, False, True]))]
    [row] = answer_counts(records, "Finetuned").to_dict("records")
    assert [row[name] for name in ("method", "questions", "won", "lost", "misled", "misled_won", "misled_lost")] == [
        "SCAN", 4, 2, 1, 2, 1, 1]
    assert row["p"] == 1 and answer_counts(records, "TANDA").empty
    cases = {record["run"].method.name: record["extra"]["cases"]["ood"] for record in records}
    assert right_alone(cases, "SCAN", "Finetuned").question.tolist() == ["q0", "q2"]
    assert answer_rows(cases).SCAN[1].startswith("✗ long") and len(marked_answer("long " * 99, True)) < 260


def test_wrong_answers_have_reasons():
    question = "who made the red lamp"
    chosen = [(False, "the red lamp", "a man of Oslo"), (False, "who made it", "who made it all"), (True, "he", "he")]
    cases = [dict(question=question, right=right, answer=answer, relevant=relevant)
             for right, answer, relevant in chosen]
    right = [case | {"right": number == 1} for number, case in enumerate(cases)]
    records = [record_of("SCAN", cases), record_of("Finetuned", right)]
    rows = error_rows(records).set_index("method")
    assert rows.loc["SCAN"].tolist()[2:] == [3, 2, 1, 1, 0, 1], "in other words, like a right one; one wrong by both"
    assert rows.loc["Finetuned", "wrong"] == 2
    [row] = most_confused(records, "SCAN").to_dict("records")
    assert row["put first"] == "who made it" and row["words in common"] == "75%"


@pytest.mark.parametrize("right, importance, way", [
    ((1, 0, 1), (.1, .5, .2), "As the paper tells it"), ((1, 0, 0), (.1, .5, .2), "In part as the paper tells it"),
    ((0, 1, 1), (.1, .5, .2), "In part as the paper tells it"), ((0, 1, 0), (.1, .5, .9), "Against the paper"),
    ((1, 1, 1), (.1, .5, .5), "Against the paper")])
def test_which_way_a_case_goes(right, importance, way):
    methods = {name: dict(query="q", relevant=["x"], tokens=["rowe"], importance=[share], top=[("a", bool(first))])
               for name, first, share in zip(("Base", "Finetuned", "ITVReg"), right, importance)}
    assert case_title(case_of(methods) | {"place": ("static", "titles", "ood")}).startswith(f"**{way}.**")


def test_picked_are_the_queries_whose_token_rose_most(queries):
    cases = picked_cases([record | {"extra": {"cases": {"ood": [
        case | {"query": f"query {number}", "relevant": ["iron"], "tokens": case["tokens"]}
        for number, case in enumerate(record["extra"]["cases"]["ood"])]}}} for record in queries], count=1)
    assert len(cases) == 1 and cases[0]["rise"] == pytest.approx(.4) and cases[0]["token"] == "rowe"
    assert not picked_cases(queries[:1])


class Counts:
    "A study of two records: an untrained one, and one of a run that was trained."
    values = {"no known text": .25, "one known text": .5, "two known texts": .25, "matches[known text]": .8}
    about = {"metrics": {"quora": values}, "data": {"test quora": {"pairs": 40}}}
    finished = [
        about | {"run": a_run("Base", "quora", is_trained=False)}, about | {"run": a_run(), "metrics": {"quora": {}}}]


def test_a_page_says_how_many_test_pairs_share_a_text_with_training():
    row, = known_shares(Counts).to_dict("records")
    assert (row["corpus"], row["test"], row["size"], row["no known text"]) == ("quora", "quora", 40, .25)
    assert row["matches[known text]"] == .8 and pd.isna(row["matches[no known text]"])
