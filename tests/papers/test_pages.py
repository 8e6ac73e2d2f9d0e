"How records become the rows, sentences and files of pages."
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import explorer
import pandas as pd
import pytest
from matplotlib.figure import Figure

from cells import a_run
from debias_nb.runs.config import load_experiment
from debias_nb.measures.stats import Interval, paired
from debias_nb.papers.pages.answers import _detectable_text, answer, answer_word, distance_from, place_of, select
from debias_nb.papers.pages.answers import summarize
from debias_nb.papers.pages.cases import printed_lists
from debias_nb.papers.pages.cells import Cell, Setting, status_of, table_cells, with_value
from debias_nb.papers.notebooks import template_path, templates
from debias_nb.papers.pages.execution import check_parameters
from debias_nb.papers.pages.comparisons import LOSS_TITLES, losses_in
from debias_nb.papers.pages.frame import Results, all_experiments, best_settings, nearest_method, papers
from debias_nb.papers.pages.pictures import Picture, svg
from debias_nb.papers.pages.printed import RELATIONS, PrintedCells, describe_checks, fact, printed_verdict
from debias_nb.papers.pages.places import STUDIES, STUDY_OF, page_of
from debias_nb.papers.pages.report import Output, _tables_of, has_notebook, page_files, seen_from_page
from debias_nb.papers.pages.report import tables_beside
from debias_nb.papers.pages.style import replace_names
from debias_nb.papers.pages.tables import differences, gains_and_losses, intervals, means, missing, pairs
from debias_nb.papers.pages.tables import provenance
from debias_nb.papers.pages.tables import strength_of
from debias_nb.papers.pages.claims import resting_on

ROOT = Path(__file__).parents[2]
PLACE = ("itvreg", "table3", "small", "MiniLM", "ITVReg", "AskUbuntu -> Quora", "ood", "askubuntu", "quora")


def a_record(seed, value, **changes):
    "A record of one metric."
    words = {"status": "finished", "metrics": {"quora": {"auc05": value}}, "replicates": {}}
    return {"id": f"run{seed}", "seed": seed, "run": a_run(seed=seed)} | words | changes


@pytest.fixture(scope="module")
def study():
    return Results().load("itvreg/table03", "small")


def test_a_cell_says_what_its_runs_do():
    records = {f"run{seed}": a_record(seed, value) for seed, value in ((0, .25), (1, .35))}
    full = with_value(Cell(*PLACE, runs=["run0", "run1"]), records)
    assert (round(full.value, 9), full.status) == (30, "measured")
    part = with_value(Cell(*PLACE, runs=["run0", "run1", "run2"]), records)
    assert (part.status, part.why) == ("partial", "2 of 3 runs are there")
    failures = {"run0": a_record(0, 0., status="failed", error="the loss is nan", metrics={})}
    failure = with_value(Cell(*PLACE, runs=["run0"]), failures)
    assert (failure.status, failure.why) == ("failed", "training stopped: the loss is nan")


@pytest.mark.parametrize("cell, status", [(30.5, "match"), (30.1, "near"), (35., "differs")])
def test_a_number_beside_the_printed_one(cell, status):
    ours = Cell(*PLACE, level=Interval(31., 30.2, 31.8, 3, .5, ""), expected=cell)
    assert status_of(ours, tolerance=1., decimals=2) == status


def test_rows_say_rate_epochs_and_texts_by_themselves():
    by_rate = load_experiment("itvreg/table06", "small")
    cells = table_cells(by_rate, by_rate.tables[0], {})
    rates = {(cell.method, cell.setting.rate) for cell in cells}
    assert rates == {(f"Finetuned, {rate:g}", rate) for rate in (.01, .05, .1)}
    assert {cell.setting.epochs for cell in cells} == {2, 4, 10}
    by_texts = load_experiment("itvreg/other_texts", "small")
    table = next(experiment for experiment in by_texts.tables if experiment.id == "texts_quora")
    rows = {cell.method: cell for cell in table_cells(by_texts, table, {})}
    tenth = rows["OutReg 1, a tenth of AskUbuntu"]
    assert (tenth.family, tenth.setting) == ("OutReg", Setting(1, .1, texts="askubuntu", share=.1))
    assert rows["OutReg"].setting.texts == "" and rows["WiSE-FT 0.5"].family == "WiSE-FT"


def test_rows_of_one_method_stand_from_weak_to_strong():
    experiment = load_experiment("itvreg/other_texts", "small")
    table = next(table for table in experiment.tables if table.id == "texts_quora")
    methods = tuple(method.model_copy(update={"interpolate": method.mixing_weights[::-1]})
                    for method in experiment.methods)
    orders = [[cell.method for cell in table_cells(experiment.model_copy(update=update), table, {})]
              for update in ({}, {"methods": methods})]
    assert orders[0] == orders[1] and any(method.mixing_weights[:1] == (.9,) for method in methods)


def test_a_setting_that_lacks_a_run_is_not_chosen():
    names = ["SCAN (tau 1)", "SCAN (tau 0.3)", "SCAN, ours (tau 1)", "SCAN, ours (tau 0.3)"]
    families = ["SCAN", "SCAN", "SCAN, ours", "SCAN, ours"]
    table = pd.DataFrame(dict(method=names, family=families, complete=[True, True, True, False],
                              value=[.6, .7, .5, .9]))
    assert best_settings(table) == {"SCAN": "SCAN (tau 0.3)", "SCAN, ours": "SCAN, ours (tau 1)"}


def test_tables_and_sentences_of_records(study):
    assert Results().scales("itvreg/table03") == ["small", "planted"]
    table = study["table3"]
    assert "SuperUser -> Quora" not in means(table), "nothing was trained there"
    comparisons = differences(table)
    pair_table = pairs(table)
    assert pair_table.replicates.tolist() == [f"{n} seeds" for n in comparisons.n]
    assert pair_table.is_few.tolist() == (comparisons.n < 4).tolist()
    assert (select(comparisons, test="SuperUser -> Quora").empty
            and select(comparisons[:0], method="ITVReg").empty), "not run, or once"
    for selection in ({"method": "OutReg2"}, {"evaluate": "askubuntu@0.3"}, {"method": "OutReg", "shift": "other"}):
        with pytest.raises(KeyError, match="itvreg/table03 at small has nothing with"):
            select(comparisons, **selection)
    once = select(differences(table[table.seed == table.seed.min()]), method="ITVReg")
    assert answer(once, "this", "that") == "Cannot tell: this was run with one seed, and a comparison takes two."
    assert strength_of(table, "OutReg") == "λ = 0.1" and strength_of(table, "Base") == "a λ that was not run"
    assert strength_of(table.assign(strength=2.5), "ITVReg") == "λ = 2.5"
    assert missing(study, "table3") in missing(study) and not missing(study, "another table")
    assert {"table03.csv", "table03.differences.csv"} <= tables_beside("table03", [study], Results()).keys()


def test_metrics_that_do_not_decide_have_tables_where_that_is_asked():
    study = Results().load("itvreg/table02", "planted")
    counts = [[ending for ending, _ in _tables_of(study, Results(), has_further)].count(".differences")
              for has_further in (True, False)]
    assert counts[0] > counts[1] == study.runs.table.nunique()


def of_size(*differences, spread=.1, unit="percent"):
    "Differences with these means over four seeds."
    over_seeds = [paired([mean - spread, mean, mean, mean + spread], [0] * 4) for mean in differences]
    columns = {name: [getattr(experiment, name) for experiment in over_seeds]
               for name in ("difference", "low", "high", "p", "n")}
    return pd.DataFrame(columns | {"paired": over_seeds, "unit": unit})


@pytest.mark.parametrize("comparisons, yes, words", [
    (of_size(2, 3, 4), "better",
     "Yes: this is 3.0 points above that [+2.9, +3.1], the mean of 3 tests."),
    (of_size(2, 3, 4), "worse", "No: this is 3.0 points above that [+2.9, +3.1]"),
    (of_size(-2, -3), "worse", "Yes: this is 2.5 points below that [−2.6, −2.4]"),
    (of_size(2), "better", "Yes: this is 2.0 points above that [+1.9, +2.1]."),
    (of_size(-2, 3, 4), "better", "It depends: this is 1.7 points above that [+1.6, +1.7]"),
    (of_size(.3, -.4, .5), "better", "Yes, by less than a point: this is 0.1 points above that [+0.1, +0.2]"),
    (of_size(-.3, -.2), "better", "No: this is 0.2 points below that"),
    (of_size(-.3, -.2), "worse", "Yes, by less than a point: this is 0.2 points below that"),
    (of_size(.002, .004, spread=.001, unit="fraction"), "better",
     "Yes, by less than a point: this is 0.3 points above"),
    (of_size(.05, -.06), "better", "No: this is 0.0 points below that [−0.1, +0.1], the mean of 2 tests, "
                                   "within a point."),
    (of_size(1, -2, 3, spread=9.), "better", "Cannot tell: this is 0.7 points above that ["),
    (pd.concat([of_size(9), of_size(1, 2, spread=9.)]), "better", "Cannot tell: this is 4.0 points above that ["),
    (pd.concat([of_size(9, 8, 7), of_size(1, 2, 3, spread=9.)]), "better", "Yes: this is 5.0 points above that ["),
    (of_size(), "better", "Cannot tell: this was not run."),
])
def test_an_answer_begins_with_one_of_four_words_by_one_rule(comparisons, yes, words):
    sentence = answer(comparisons, "this", "that", yes)
    assert sentence.startswith(words) and answer_word(f"# Title\n\n**Answer.** {sentence}")
    assert not answer_word("**Answer.** Nothing else.") and not answer_word("**Answer.** Nobody knows.")


def test_counts_of_words_stand_in_columns():
    comparisons = summarize({"a − b": of_size(2, -3, .1), "c − b": of_size()}, {"a − b": pd.Series([1.5, 2.])})
    first, second = comparisons.to_dict("records")
    assert [first[word] for word in ("better", "worse", "within a point", "cannot tell")] == [1, 1, 1, 0]
    assert first["difference, points"] == "−3.0 to +2.0" and first["printed difference, points"] == "+1.5 to +2.0"
    assert second["estimate, points"] == "not run" and distance_from(of_size()) == "not measured"
    both = {"a − b": of_size(2, 3, 1, spread=9.), "c − b": of_size(2, 3, 1)}
    printed = {"a − b": pd.Series([5.]), "c − b": pd.Series([5., 7.])}
    wide, narrow = summarize(both, printed).to_dict("records")
    assert (wide["effect"], wide["printed size"]) == ("open", "open")
    assert (narrow["effect"], narrow["printed size"]) == ("helps", "excluded")
    assert narrow["estimate, points"] == "+2.0 [+1.9, +2.1]°"


def test_bold_is_what_is_better_or_worse():
    "A significant difference within a point is neither, in either unit."
    comparisons = pd.concat([of_size(3, -3, .2, spread=.03), of_size(.002, .03, spread=.0003, unit="fraction")],
                            ignore_index=True)
    assert (comparisons.p < .01).all() and gains_and_losses(comparisons).tolist() == [1, -1, 0, 0, 1]
    place = {"encoder": "it", "test": "new", "seeds_alone": True, "against": "plain", "method": [*"abcde"]}
    assert intervals(comparisons.assign(**place)).new.str.startswith("**").tolist() == [True, True, False, False, True]


@pytest.mark.parametrize("strength, weights, text",
                         [(.1, {}, "+2.0"), (1., {}, ""), (1., {"a − b": 1.}, "+2.0"), (math.nan, {}, "+2.0")])
def test_the_papers_number_stands_beside_ours_at_its_own_strength(strength, weights, text):
    ours = {"a − b": of_size(1).assign(strength=strength), "c − b": of_size(1)}
    comparisons = summarize(ours, {"a − b": pd.Series([2.]), "c − b": pd.Series([3.])},
                            weights)["printed difference, points"]
    assert comparisons.tolist() == [text, "+3.0"]


def test_synthetic_data_have_no_sites(study):
    table = study["table3"]
    assert place_of(table, "ood") == "on the other site"
    table.attrs["study"] = "itvreg/table03", "planted"
    assert place_of(table, "ood") == "out of distribution" and place_of(table, "iid") == "in distribution"


def test_a_command_has_the_parameters_of_its_page(study):
    changed_study = replace(study, changes={"seeds": [0, 1], "weight": 3.})
    assert changed_study.unlike == "seeds = [0, 1], weight = 3.0" and not study.unlike and not study.options
    for text in (provenance(changed_study), missing(changed_study)):
        assert '--profile small -p "seeds=[0, 1]" -p "weight=3.0"`' in text
    assert missing(study).endswith("--profile small`") and resting_on(Results(), replace(study, own=True)) == ""


MOST_WORDS = 60 # of what a reader hears who cannot see a figure


@pytest.mark.parametrize("page", sorted((ROOT / "reports").rglob("*.md")), ids=str)
def test_no_figure_of_a_page_is_a_table_read_aloud(page):
    alt_texts = re.findall(r"!\[([^\]]*)\]\(", page.read_text("utf-8"))
    assert [alt for alt in alt_texts if len(alt.split()) > MOST_WORDS] == []


def test_printed_numbers_to_calculate_with():
    paper = PrintedCells("itvreg")
    assert paper("table1", method="Base", column="IID") < paper("table1", method="Finetuned", column="IID")
    best = paper.best("method", "table2", method="*", column="*")
    assert (best >= paper("table2", method="Base", column="*")).all()
    for names, message in (({"method": "OutRg", "column": "*"}, "OutReg"), ({"method": "OutReg"}, "several cells")):
        with pytest.raises(ValueError, match=message):
            paper("table2", **names)
    columns = ["Amazon1.3M (OOD)", "AmazonCatOOD (OOD)"]
    facts = fact("unseen", paper.gap("table2", "Base", "Finetuned", column=columns), ">")
    assert printed_verdict(facts) == "holds in 1 of 2"
    assert describe_checks(facts, False).startswith("unseen (Amazon1.3M (OOD)): ")
    with pytest.raises(ValueError, match="no relation '=='"):
        fact("x", 1., "==")


def test_a_page_and_its_links(tmp_path):
    parts = [Output("text/markdown", "# Table 3"), Output("image/svg+xml", "<svg/>", "dots"),
             Output("text/plain", "3 runs")]
    files = page_files("table03", parts, tmp_path)
    assert files["table03.1.svg"] == b"<svg/>"
    assert files["table03.md"].decode() == "# Table 3\n\n![dots](./table03.1.svg)\n\n```\n3 runs\n```\n"
    text = "[a](https://a.b/c.ipynb), [b](#b), [claims](../claims.ipynb#a1), [table](./table02.ipynb), ![f](./f.svg)"
    assert seen_from_page(text, "itvreg/table03") == (
        "[a](https://a.b/c.ipynb), [b](#b), [claims](../CLAIMS.md#a1), [table](./table02.md), ![f](./f.svg)")


def test_a_table_is_called_as_its_page_with_the_papers_number():
    experiment = load_experiment("itvreg/table03", "small")
    assert explorer.titled(experiment, "table3") == f"Table 3: {experiment.title}"


def test_every_experiment_has_a_page_of_its_own_or_with_others():
    pages = {experiment.name: page_of(experiment) for paper in papers() for experiment in all_experiments(paper)}
    assert [name for name, page in pages.items() if not has_notebook(page)] == []
    assert pages["itvreg/table14"] == pages["itvreg/table11"] == "itvreg/table11"
    assert pages["arr/figure02"] == "arr/table01"
    assert template_path(page_of(load_experiment("itvreg/table14", "small")),
                         ROOT) == ROOT / "nbs/papers/itvreg/table11.ipynb", "`debias-nb run` executes it"


def test_an_experiment_of_a_study_is_executed_by_itself():
    pages = {experiment.name: page_of(experiment) for paper in papers() for experiment in all_experiments(paper)}
    assert {name: pages.get(name) for name in STUDY_OF} == STUDY_OF and {*STUDY_OF} <= {*templates(ROOT)}
    assert not {*STUDIES} & {*templates(ROOT)}, "a study is no experiment"
    notebook = template_path("arr/leakage", ROOT)
    assert notebook == ROOT / "nbs/papers/studies/experiment.ipynb"
    assert check_parameters(notebook, {"name": "arr/leakage"})


def test_pages_name_methods_as_readers_know_them():
    names = "OutReg 1, general mix; MiniLM, 10 % of the pairs; Word dropout 15 %; auc05[no known text]"
    assert replace_names(names) == "OutReg 1, general texts; MiniLM; Word dropout 15%; auc05[disjoint pairs]"
    figure = Figure()
    figure.suptitle("OutReg 1, general mix")
    assert b"general texts" in svg(Picture(figure).figure)


@pytest.mark.parametrize("relation, right, wrong", [
    ("=", [(1., 1.), (1., 1.004)], [(1., -1.), (1., 1.006)]), ("~", [(-1., 1.)], [(1.1, 1.)]),
    ("!=", [(-1.1, 1.)], [(1., 1.)]), (">=", [(1., 1.)], [(.9, 1.)]), ("<", [(.9, 1.)], [(1., 1.)]),
])
def test_what_a_printed_number_is_to_another(relation, right, wrong):
    assert all(RELATIONS[relation](*pair) for pair in right) and not any(RELATIONS[relation](*pair) for pair in wrong)


def test_the_nearest_strength_is_that_of_data_like_training():
    values = {"weak": [.5, .5], "strong": [.7, .9], "other": [.69, .5], "not run": []}
    runs = pd.DataFrame([{"method": method, "shift": shift, "value": value} for method, both in values.items()
                         for shift, value in zip(("iid", "ood"), both)])
    assert nearest_method(runs, ["weak", "strong"], "other") == "strong", "though weak is as near on other data"
    assert nearest_method(runs, ["strong", "weak"], "weak") == "weak"
    assert nearest_method(runs, ["weak", "strong"], "none") == "weak"


def test_losses_are_named_once_in_their_order():
    first, second, third = [*LOSS_TITLES][:3]
    rows = pd.DataFrame({"losses": [{second}, {first, second}]})
    assert losses_in(rows) == f"{LOSS_TITLES[first]}, {LOSS_TITLES[second]}" and third not in losses_in(rows)


@pytest.mark.parametrize("about, first", [("lamp", "✓ A red Lamp"), ("", "A red Lamp"), (None, "A red Lamp")])
def test_printed_titles_are_marked_that_say_what_they_are_about(about, first):
    rows = {"Base": ["A red Lamp", "a chair"], "OutReg": ["a rug", "a hat"]}
    table = printed_lists(SimpleNamespace(about=about, rows=rows))
    assert table.Base.tolist() == [first, "a chair"] and table.OutReg.tolist() == ["a rug", "a hat"]


@pytest.mark.parametrize("relation, by, words", [
    ("!=", .1, "not within ±0.1"), ("!=", 0., "not equal"), ("~", .1, "within ±0.1"), ("~", 0., "equal"),
    (">", -1., "> −1")])
def test_what_is_asked_of_a_printed_number_is_said(relation, by, words):
    [check] = fact("x", .5, relation, by)
    assert check.asked == words and check.holds == RELATIONS[relation](.5, by)


def test_what_so_few_seeds_detect_is_no_size():
    two_seeds, thousand = (SimpleNamespace(freedom=freedom, error=9.) for freedom in (1, 1000))
    assert _detectable_text(None) == _detectable_text(two_seeds) == "; so few seeds cannot tell"
    assert _detectable_text(thousand) == "; the detectable difference (80% power) is 25.2 points"
