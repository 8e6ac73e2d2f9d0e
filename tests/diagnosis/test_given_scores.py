"`diagnose` without weights: runs of a search and columns of scores give the numbers that the models themselves give."
import json
import re
from itertools import permutations

import made
import numpy as np
import pandas as pd
import pytest
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
from sentence_transformers.util import cos_sim
from typer.testing import CliRunner

from debias_nb.checks import ConfigError
from debias_nb.data.registry import DataError
from debias_nb.diagnosis.demo import offers, small_encoder
from debias_nb.diagnosis.diagnose import diagnose
from debias_nb.diagnosis.files.pairs_file import read_pairs_file
from debias_nb.diagnosis.files.run_files import read_run
from debias_nb.diagnosis.external_scores import NO_WEIGHTS, diagnose_scores, score_pairs
from debias_nb.diagnosis.models import load_model, pair_scores
from debias_nb.commands.cli import app

NUMBERS = ["base", "tuned", "change", "low", "high", "p"]


def scored_file(source, *scores):
    "Labeled pairs with the columns of both scores."
    return read_pairs_file(source, ("left", "right", "label"), scores=scores or ("base", "tuned"))


@pytest.fixture(scope="module")
def models():
    return {"base": small_encoder(0), "tuned": small_encoder(1)}


@pytest.fixture(scope="module")
def folder(models, tmp_path_factory):
    "Forty queries on eighty texts; what each model says as programs write it: every text of a query, or the first 20."
    folder = tmp_path_factory.mktemp("runs")
    pairs = offers(120, 5, .5, .5).query("label == 1").drop_duplicates("left").reset_index(drop=True)
    corpus = {f"d{place}": text
              for place, text in enumerate(dict.fromkeys([*pairs.right, *offers(60, 6, .5, .5).right]))}
    places = {text: one for one, text in corpus.items()}
    queries = {f"q{number}": text for number, text in enumerate(pairs.left)}
    relevant = {query: {places[text]} for query, text in zip(queries, pairs.right)}
    corpus["q0"] = queries["q0"] # a query that is searched for is no answer to itself
    (folder / "new/qrels").mkdir(parents=True)
    for name, texts in (("queries", queries), ("corpus", corpus)):
        (folder / f"new/{name}.jsonl").write_text(
            "".join(json.dumps({"_id": one, "text": text}) + "\n" for one, text in texts.items()))
    (folder / "new/qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(
        f"{query}\t{text}\t1\n" for query, texts in relevant.items() for text in texts))
    for name, model in models.items():
        evaluator = InformationRetrievalEvaluator(queries, corpus, relevant, map_at_k=[len(corpus)], write_csv=False,
                                                  write_predictions=True)
        evaluator(model, output_path=str(folder / name))
        found = cos_sim(model.encode([*queries.values()]), model.encode([*corpus.values()])).double().numpy().round(6)
        scores = {query: dict(zip(corpus, row.tolist())) for query, row in zip(queries, found)}
        (folder / f"{name}.json").write_text(
            json.dumps({"mteb_model_meta": {"revision": None}, "default": {"test": scores}}))
        for depth, tag in ((len(corpus), "trec"), (20, "20.trec")):
            (folder / f"{name}.{tag}").write_text("".join(
                f"{query} Q0 {text} {rank} {score} {name}\n" for query, own in scores.items()
                for rank, (text, score) in enumerate(sorted(own.items(), key=lambda item: -item[1])[:depth], 1)))
    return folder


def run_of(folder, model, depth, queries=40):
    "A run of the first queries, cut to a depth, as a dict."
    scores = json.loads((folder / f"{model}.json").read_text())["default"]["test"]
    return {query: dict(sorted(own.items(), key=lambda item: -item[1])[:depth])
            for query, own in [*scores.items()][:queries]}


@pytest.mark.parametrize("base, tuned", [(60, 10), (10, 60), (25, 20)])
def test_runs_of_two_depths_are_read_to_one(folder, base, tuned):
    cut = diagnose_scores(tests={"new": folder / "new"},
                          scores={"base": run_of(folder, "base", base), "tuned": run_of(folder, "tuned", tuned)})
    same = diagnose_scores(tests={"new": folder / "new"},
                           scores={model: run_of(folder, model, min(base, tuned)) for model in ("base", "tuned")})
    assert cut.verdicts[NUMBERS].equals(same.verdicts[NUMBERS])
    assert not any("different depths" in text for text in same.warnings)
    (warning,) = [text for text in cut.warnings if "different depths" in text]
    assert f"up to {base}" in warning
    assert f"cut to the first {min(base, tuned)}" in warning
    assert repr(cut).splitlines()[1] == warning


@pytest.mark.parametrize("answered, void", [(15, True), (30, False), (40, False)])
def test_queries_that_neither_run_answers_decide_nothing(folder, answered, void):
    "A zero that nobody searched for shortens an interval."
    runs = {model: run_of(folder, model, 20, answered) for model in ("base", "tuned")}
    found = diagnose_scores(tests={"new": folder / "new"}, scores=runs)
    assert found.decision.is_void == void
    assert any("no text in either run" in text for text in [found.decision.heading, *found.warnings]) == (answered < 40)
    assert void or set(found.verdicts.cases) == {answered}
    whole = diagnose_scores(tests={"new": folder / "new"}, scores={model: run_of(folder, model, 20) for model in runs})
    width, of_all = ((one.verdicts.high - one.verdicts.low).iloc[0] for one in (found, whole))
    assert void or width >= of_all


@pytest.mark.parametrize("seed", range(3))
def test_pairs_with_both_labels_decide_nothing_and_come_first(seed):
    rng = np.random.default_rng(seed)
    frame = offers(300, 4 + seed, .3, .3).reset_index(drop=True)
    frame = frame[~frame.duplicated(["left", "right"])].reset_index(drop=True)
    frame[["base", "tuned"]] = frame.label.to_numpy()[:, None] + rng.normal(size=(len(frame), 2))
    turned = frame.iloc[: 20 + seed].assign(label=lambda rows: 1 - rows.label, base=9., tuned=-9.)
    both, rest = (diagnose_scores({"new": scored_file(rows)})
                  for rows in (pd.concat([frame, turned]), frame.iloc[20 + seed:]))
    assert f"new: {2 * len(turned)} pairs whose texts stand there with both labels decide nothing." == repr(
        both).splitlines()[1]
    assert both.verdicts[["cases", "base", "tuned"]].equals(rest.verdicts[["cases", "base", "tuned"]])


@pytest.mark.parametrize("texts", [1, 2, 3])
def test_texts_of_one_score_are_in_the_order_of_their_ranks(tmp_path, texts):
    path = tmp_path / "run.csv"
    path.write_text("query_id,doc_id,rank,score\n" + "".join(f"q,d{rank},{rank},0\n" for rank in range(1, texts + 1)))
    run = read_run(path)
    assert run.score.tolist() == ([-1, -2, -3][:texts] if texts > 1 else [0])
    assert run.attrs["by rank"] == (texts > 1)


def counted_scores(run, step):
    "The same run with scores that are rounded down to a few values."
    return {query: {text: step * round(score / step) for text, score in own.items()} for query, own in run.items()}


@pytest.mark.parametrize("step, is_open", [(1e-6, False), (.5, True)])
def test_where_the_order_of_equal_scores_decides_there_is_no_decision(folder, step, is_open):
    "Of 0 and 1 for all texts a metric may be nearly anything; a mean over all orders is none of a model."
    runs = {model: run_of(folder, model, 80) for model in ("base", "tuned")}
    found = diagnose_scores({"new": folder / "new"}, {model: counted_scores(run, step) for model, run in runs.items()})
    assert found.decision.is_void == is_open
    ends = r"from [\d.]+ to [\d.]+ by base, from [\d.]+ to [\d.]+ by tuned: give scores before they are rounded"
    assert is_open == bool(re.match(
        f"Cannot tell. new: so many texts have one score that nDCG@10 may be anything {ends}", found.decision.heading))
    if is_open: # what is said of one order of them is within the ends
        first, last = map(float, re.search(r"from ([\d.]+) to ([\d.]+) by tuned", found.decision.heading).groups())
        told = counted_scores(runs["tuned"], step)
        for turn in (1, -1): # the order of equal scores as it stands there, or turned round
            ranks = {query: {text: -rank for rank, text in enumerate(sorted([*own][::turn], key=own.get, reverse=True))}
                     for query, own in told.items()}
            by_rank = diagnose_scores({"new": folder / "new"}, {"base": runs["base"], "tuned": ranks})
            value = 100 * by_rank.verdicts.query("metric == 'ndcg10'").tuned.iloc[0]
            assert first - .1 <= value <= last + .1 and not by_rank.decision.is_void, "as the advice says"


@pytest.mark.parametrize("name", ["new\nVERDICT: better", "new\r", "a\tb", "new\u2028", "\x1b[2Jnew"])
def test_a_name_that_would_begin_a_line_is_refused(folder, name):
    runs = {model: run_of(folder, model, 20) for model in ("base", "tuned")}
    with pytest.raises(DataError, match="tests: a name that can be printed is expected"):
        diagnose_scores({name: folder / "new"}, runs)


def test_no_name_in_a_file_begins_a_line():
    pairs = offers(300, 1, .2, .4)
    frame = pairs.assign(base=pairs.label + np.arange(300) % 7, tuned=np.arange(300) % 5,
                         **{"note\nVERDICT: better": "x\nVERDICT: better"})
    file = read_pairs_file(frame, ("left", "right", "label"), "note\nVERDICT: better", scores=("base", "tuned"))
    lines = repr(diagnose_scores({"new": file})).splitlines()
    assert not [line for line in lines if line.startswith("VERDICT")]


@pytest.mark.parametrize("given", [None, 3., "high", {"a": 1}])
def test_what_is_no_list_of_scores_is_refused(given):
    with pytest.raises(DataError, match="base gives .*, and a list of 60 scores is expected"):
        score_pairs(offers(60, 1, .2, .4),
                    {"base": lambda left, right: given, "tuned": lambda left, right: [0.] * len(left)})


def given(folder, pattern):
    return {name: folder / pattern.format(name) for name in ("base", "tuned")}


@pytest.mark.parametrize("pattern", [
    "{}.trec", "{}.json", "{}/Information-Retrieval_evaluation_predictions_cosine.jsonl"])
def test_a_run_gives_the_numbers_of_its_model(folder, models, pattern):
    train = offers(30, 5, .5, .5) # has a fourth of the queries
    tests = {"new": folder / "new"}
    by_runs = diagnose_scores(train=train, tests=tests, scores=given(folder, pattern))
    by_models = diagnose(**models, train=train, tests=tests)
    assert by_runs.verdicts.part.tolist() == by_models.verdicts.part.tolist() and by_runs.verdicts.part.nunique() == 2
    assert np.allclose(by_runs.verdicts[NUMBERS], by_models.verdicts[NUMBERS], atol=1e-6, equal_nan=True)
    assert by_runs.verdicts.verdict.tolist() == by_models.verdicts.verdict.tolist()
    assert by_runs.ranks == by_models.ranks and NO_WEIGHTS in by_runs.notes
    moved = ["line", "rank before", "rank after", "instead"]
    pd.testing.assert_frame_equal(by_runs.flips["new"][moved], by_models.flips["new"][moved])
    assert not by_runs.words and by_runs.averaged.empty and by_runs.snippet == ""
    made.read_page(by_runs.html())


def trec_eval(run, relevant): # run: text -> score
    "nDCG@10, MRR@10, recall@10 and average precision of one order, equal scores by falling ids as trec_eval has them."
    order = sorted(run, key=lambda text: (run[text], text), reverse=True)
    hits = [place for place, text in enumerate(order, 1) if text in relevant]
    best = sum(1 / np.log2(place + 1) for place in range(1, 1 + min(10, len(relevant))))
    ndcg = sum(1 / np.log2(place + 1) for place in hits if place <= 10) / best
    precisions = [number / place for number, place in enumerate(hits, 1)]
    mrr = next((1 / place for place in hits if place <= 10), 0)
    return ndcg, mrr, sum(place <= 10 for place in hits) / len(relevant), sum(precisions) / len(relevant)


def test_a_run_with_ties_has_the_mean_of_trec_eval_over_all_names_of_texts():
    rng = np.random.default_rng(0)
    texts, names = ["a", "b", "c", "d"], [f"q{number}" for number in range(12)]
    relevant = {query: rng.choice(texts, 1 + number % 2, replace=False).tolist() for number, query in enumerate(names)}
    scores = {model: {query: {text: int(rng.integers(2)) for text in rng.choice(texts, 3, replace=False)}
                      for query in names} for model in ("base", "tuned")}
    test = {"queries": {query: f"asked {query}" for query in names}, "corpus": {text: f"text {text}" for text in texts},
            "relevant_docs": relevant}
    found = diagnose_scores(tests={"new": test}, scores=scores)
    assert sum("another text has the score of a relevant one" in note for note in found.notes) == 2
    for model, run in scores.items():
        values = []
        for order in permutations(texts):
            other = dict(zip(texts, order))
            values += [trec_eval({other[text]: score for text, score in run[query].items()},
                                 {other[text] for text in relevant[query]}) for query in names]
        assert (found.verdicts.set_index("metric").loc[["ndcg10", "mrr10", "recall10", "map"], model].tolist()
                == pytest.approx(np.mean(values, axis=0), abs=1e-9))


def test_depth_ties_and_what_is_not_ranked_are_said(folder):
    runs = given(folder, "{}.20.trec")
    full = diagnose_scores(tests={"new": folder / "new"}, scores=given(folder, "{}.trec")).verdicts.set_index("metric")
    lines = runs["tuned"].read_text().splitlines(True)
    changed = folder / "changed.trec" # without the first query, with one that nobody asked and a text that is not there
    changed.write_text("".join(["other Q0 d1 1 .5 x\n", *lines[20:-1], re.sub(" d[0-9]+ ", " strange ", lines[-1])]))
    with pytest.raises(DataError, match=r"changed.trec ranks nothing for 1 queries that .*base.20.trec answers, such "
                                        r"as 'q0'"):
        diagnose_scores(tests={"new": folder / "new"}, scores=runs | {"tuned": changed})
    both = folder / "both.trec"
    both.write_text("".join(runs["base"].read_text().splitlines(True)[20:]))
    found = diagnose_scores(tests={"new": folder / "new"}, scores={"base": both, "tuned": changed})
    assert [text.partition(" (")[0] for text in found.warnings if "changed" in text] == [
        f"new: 1 texts that {changed} ranks are not in the corpus.",
        f"new: 1 queries of {changed} have no relevant text there, and are left out."]
    assert "new: 1 of 40 queries have no text in either run, and are left out." in found.warnings
    assert sum(found.ranks["new"]["moves"].values()) == 39
    shallow = diagnose_scores(tests={"new": folder / "new"}, scores=runs)
    values = shallow.verdicts.set_index("metric").base
    assert values["ndcg10"] == pytest.approx(full.base["ndcg10"]) and values["recall100"] < full.base["recall100"]
    assert any("base.20.trec ranks 19 to 20 of " in note for note in shallow.notes)


def test_columns_of_scores_give_the_numbers_of_their_models(models, tmp_path):
    pairs = offers(300, 3, .2, .4)
    scorers = {name: load_model(model) for name, model in models.items()}
    scored = pairs.assign(**pair_scores(scorers, pairs.left.tolist(), pairs.right.tolist()))
    scored.rename(columns={"base": "old", "tuned": "mine"}).to_csv(tmp_path / "scored.csv", index=False)
    by_columns = diagnose_scores({"new": scored_file(tmp_path / "scored.csv", "old", "mine")})
    by_models = diagnose(**models, tests={"new": pairs})
    assert np.allclose(by_columns.verdicts[NUMBERS], by_models.verdicts[NUMBERS], atol=1e-9)
    pd.testing.assert_frame_equal(by_columns.thresholds,
                                  by_models.thresholds[by_models.thresholds.model.isin(["base", "tuned"])])
    assert by_columns.facts["command"].startswith("debias-nb diagnose-scores --test new=")
    assert by_columns.facts["models"]["tuned"]["name"] == "mine"
    (tmp_path / "scored.csv").write_text((tmp_path / "scored.csv").read_text().rpartition(",")[0] + ",nan\n")
    with pytest.raises(DataError, match=r"scored.csv:301: column 'mine': a finite score is expected, found 'nan'"):
        diagnose_scores({"new": scored_file(tmp_path / "scored.csv", "old", "mine")})


@pytest.mark.parametrize(("run", "why"), [
    ("other Q0 d1 1 .5 x\n", r":1: query 'other' is not in new, and no other of the run is"),
    ("q0 Q0 D1 1 .5 x\n", r":1: text 'D1' is not in the corpus of new; 1 of 1 are not"),
])
def test_what_is_no_run_of_the_test_is_refused(folder, run, why):
    path = folder / "bad.trec"
    path.write_text(run)
    with pytest.raises(DataError, match=f"bad.trec.*{why}"):
        diagnose_scores(tests={"new": folder / "new"}, scores={"base": path, "tuned": folder / "tuned.trec"})


def test_what_lacks_or_contradicts_is_refused(folder):
    tests, run = {"new": folder / "new"}, folder / "base.20.trec"
    for error, why, asked in [
        (DataError, "new: base and tuned have the same scores", {"scores": {"base": run, "tuned": run}}),
        (DataError, "no such file", {"scores": {"base": run, "tuned": folder / "none.trec"}}),
        (DataError, "one run is expected.*; found 2",
         {"scores": {"base": run, "tuned": {"a": {"test": {"q": {"d": 1}}}, "b": {"test": {"q": {"d": 1}}}}}}),
        (ConfigError, "two models are expected, or a run of each: --scores tuned=FILE", {"scores": {"base": run}}),
        (ConfigError, "no model of scores 'bse'; did you mean 'base'", {"scores": {"bse": run, "tuned": run}}),
        (ConfigError, "no test with queries, corpus and qrels that is called 'nwe'; did you mean 'new'",
         {"scores": {"base": {"nwe": run}, "tuned": run}}),
        (ConfigError, "more: two models are expected, or a run of each: --scores base=FILE, or base:more=FILE", {
            "scores": {"base": {"new": run}, "tuned": run}, "tests": tests | {"more": folder / "new"}}),
        (ConfigError, "like: two models are expected, or labeled pairs with two columns of scores",
         {"scores": given(folder, "{}.20.trec"), "tests": {"like": offers(60, 1, 1, 0)}}),
    ]:
        with pytest.raises(error, match=why):
            diagnose_scores(**{"tests": tests} | asked)


def test_the_last_line_is_the_verdict(folder, tmp_path):
    asked = [f"--scores={name}:new={folder / name}.20.trec"
             for name in ("base", "tuned")] + [f"--test=new={folder / 'new'}"]
    done = CliRunner().invoke(app, ["diagnose-scores", *asked, f"--out={tmp_path / 'page'}", "--fail-on=unsure"])
    report = json.loads((tmp_path / "page/report.json").read_text())
    line = done.output.splitlines()[-1]
    assert line == report["verdict"]
    number = r"[-+]?[01]\.\d{4}"
    found = re.fullmatch(rf"VERDICT: (better|worse|within-margin|cannot-tell) \| metric=ndcg10 \| base=({number}) \| "
                         rf"tuned=({number}) \| change=({number}) "
                         rf"\[({number}), ({number})\] \| test=new", line)
    assert ([float(one) for one in found.groups()[1:]]
            == pytest.approx([report["verdicts"][0][name] for name in NUMBERS[:5]], abs=6e-5))
    words = CliRunner().invoke(app, ["diagnose-scores", *asked, "--verdict-words"]).output.splitlines()[-1]
    assert re.match(rf"VERDICT: (WIN|MARGINAL|REGRESSION) \| score={found[3]} \| baseline={found[2]} \| "
                    rf"delta={re.escape(found[4])} \|", words)
    assert CliRunner().invoke(app,
                              ["diagnose-scores", "--scores=bse=x",
                               f"--test=new={folder / 'new'}"]).output.strip().endswith("did you mean 'base'?")


def test_a_significant_change_that_does_not_matter_is_no_reason_to_ship():
    """Of 6,000 pairs each match scores a trace higher:

    AUC(0.05) rises, significantly, by less than a hundredth of a point."""
    rng = np.random.default_rng(0)
    labels = np.arange(6000) % 3 == 0
    base = rng.normal(.8 * labels, 1).round(4)
    texts = {side: [f"{side} {number}" for number in range(len(labels))] for side in ("left", "right")}
    pairs = pd.DataFrame(texts | {"label": labels.astype(int), "base": base, "tuned": base + .0002 * labels})
    found = diagnose_scores({"new": scored_file(pairs)})
    row = found.verdicts.iloc[0]
    assert row.p < .05 and 0 < row.low < row.high < .0005 and row.verdict == "within the margin"
    assert found.decision.heading == "Ship either: fine-tuning changed nothing that matters."
    assert found.decision.call == "either"
    assert "better" not in found.decision.reason
    assert "which leaves out zero and lies within the margin" in found.sentences[0]
    strict = diagnose_scores({"new": scored_file(pairs)}, margin=.001)
    assert strict.verdicts.verdict[0] == "better", "where so little matters"


def test_a_run_whose_texts_all_have_one_score_goes_by_its_ranks(folder):
    "As a search writes it whose scores say nothing; without ranks there is no order."
    runs, tests = given(folder, "{}.trec"), {"new": folder / "new"}
    whole = diagnose_scores(tests=tests, scores=runs)
    flat = folder / "flat.trec"
    lines = [line.split() for line in runs["tuned"].read_text().splitlines()]
    flat.write_text("".join(" ".join([*line[:4], "1", "x"]) + "\n" for line in lines))
    found = diagnose_scores(tests=tests, scores=runs | {"tuned": flat})
    assert np.allclose(found.verdicts[NUMBERS[:3]], whole.verdicts[NUMBERS[:3]], atol=.01), "but for what ties"
    assert f"new: {flat} has one score for all texts of 40 queries: these are in the order of ranks." in found.warnings
    run = {}
    for query, _, text, *_ in lines:
        run.setdefault(query, {})[text] = 0
    found = diagnose_scores(tests=tests, scores=runs | {"tuned": run})
    assert found.decision.heading == "Do not ship. new: all scores of a query are the same in the tuned model."
    with pytest.raises(DataError, match="run:q0: a finite score is expected, found True|a run of the tuned model:q0: "
                                        ".* found True"):
        diagnose_scores(tests=tests, scores=runs | {"tuned": {"q0": {"d1": True, "d2": False}}})


@pytest.mark.parametrize("asked, why", [
    (["--scores=base={run}", "--scores=base:new={run}", "--scores=tuned={run}"],
     "--scores takes .* each once, got 'base:new="),
    (["--scores=base:new={run}", "--scores=base={run}", "--scores=tuned={run}"],
     "--scores takes .* each once, got 'base="),
    (["--scores=base:zzz={run}", "--scores=tuned={run}"], r"that is called 'zzz' \(known: 'new'\)"),
    (["--scores=base={run}", "--test=new={pairs}", "--columns=left,right,label,old,mine"],
     "the scores of pairs are their columns old, mine"),
])
def test_no_run_is_ignored(folder, tmp_path, asked, why):
    pairs = tmp_path / "pairs.csv"
    offers(60, 1, .2, .4).assign(old=range(60), mine=range(60)).to_csv(pairs, index=False)
    words = [text.format(run=folder / "base.20.trec", pairs=pairs) for text in asked]
    tests = [] if any("--test" in text for text in words) else [f"--test=new={folder / 'new'}"]
    done = CliRunner().invoke(app, ["diagnose-scores", *words, *tests])
    assert done.exit_code == 2 and re.search(why, done.output), done.output


def letters(left, right):
    return [len({*one} & {*other}) for one, other in zip(left, right)]


def words(left, right):
    return np.array([len({*one.split()} & {*other.split()}) for one, other in zip(left, right)])


def test_any_two_functions_score_a_test():
    pairs = offers(300, 3, .2, .4)
    by_hand = pairs.assign(old=words(pairs.left, pairs.right), mine=letters(pairs.left, pairs.right))
    expected = diagnose_scores({"new": scored_file(by_hand, "old", "mine")})
    found = diagnose_scores(tests={"new": score_pairs(pairs, {"base": words, "tuned": letters})})
    pd.testing.assert_frame_equal(found.verdicts, expected.verdicts)
    assert found.facts["command"] is None and NO_WEIGHTS in found.notes
    rows = [{"anchor": f"q {i}", "positive": f"q {i} a", "negative": f"z {i}"} for i in range(40)]
    ranked = diagnose_scores(
        tests={"new": score_pairs(rows, {"base": words, "tuned": lambda left, right: -words(left, right)})})
    assert ranked.verdicts[["base", "tuned"]].iloc[0].tolist() == [1, 0]
    assert ranked.warnings[0].startswith("new: by tuned relevant texts score below")


@pytest.mark.parametrize("scorers, error, why", [
    ({"base": words}, ConfigError, "functions called base and tuned are expected, got 'base'"),
    ({"base": words, "tuned": lambda left, right: [1]}, DataError, "tuned gives 1 scores for 60 pairs"),
    ({"base": words, "tuned": lambda left, right: [one == other for one, other in zip(left, right)]}, DataError,
     ":1: column 'tuned': a finite score"),
    ({"base": words, "tuned": lambda left, right: np.zeros((60, 2))}, DataError, ":1: column 'tuned': a finite score"),
])
def test_what_scores_no_pairs_is_refused(scorers, error, why):
    with pytest.raises(error, match=why):
        score_pairs(offers(60, 1, .2, .4), scorers)


def test_a_corpus_is_not_scored_pair_by_pair(folder):
    with pytest.raises(DataError, match="new: a corpus is searched; give the run of a search"):
        score_pairs(folder / "new", {"base": words, "tuned": letters})
