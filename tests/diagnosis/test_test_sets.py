"`diagnose` and `compare` on queries with candidates, on retrieval, and on what shares no text with training."
import json
import re

import numpy as np
import pandas as pd
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator, RerankingEvaluator
from sentence_transformers.sentence_transformer.evaluation import TripletEvaluator

import made
from debias_nb.diagnosis.pairs import PairFile
from debias_nb.diagnosis.compare import compare
from debias_nb.diagnosis.diagnose import diagnose
from debias_nb.diagnosis.test_sets import as_test
from debias_nb.diagnosis.titles import TITLES
from debias_nb.diagnosis.verdicts import NEW

torch.set_num_threads(1)
WORDS = [word for word in made.WORDS if word.isalpha()]
METRICS = { # of retrieval, as sentence-transformers calls them
    "ndcg10": "cosine_ndcg@10", "mrr10": "cosine_mrr@10", "recall10": "cosine_recall@10",
    "recall100": "cosine_recall@100",
    "map": "cosine_map@150",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return [str(made.table(folder / str(seed), seed)) for seed in (0, 1)]


def distinct_texts(n, seed):
    "Texts of which no two have the same words, so that no two have the same vector."
    rng = np.random.default_rng(seed)
    out = {}
    while len(out) < n:
        words = rng.choice(WORDS, size=rng.integers(4, 9)).tolist()
        out.setdefault(tuple(sorted(words)), " ".join(words))
    return list(out.values())


def retrieval(queries=60, seed=0):
    "Queries with one to three relevant texts each, in a corpus of 150."
    corpus = distinct_texts(150, seed)
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(queries):
        relevant = rng.permutation(len(corpus))[:1 + number % 3]
        asked = " ".join([*corpus[relevant[0]].split()[:3], rng.choice(WORDS), WORDS[number % len(WORDS)]])
        rows += [(number, asked, corpus[place], 1, number + 1, place) for place in relevant.tolist()]
    frame = pd.DataFrame(rows, columns=["query", "left", "right", "label", "line", "document"])
    return PairFile("corpus", frame, f"of seed {seed}", form="retrieval", corpus=corpus)


def candidates(queries=60, negatives=1, seed=0):
    "Queries with one relevant text and others."
    texts = distinct_texts((1 + negatives) * queries, seed)
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(queries):
        own = texts[number * (1 + negatives):][:1 + negatives]
        asked = " ".join([*own[0].split()[:2], *rng.choice(WORDS, size=3)])
        rows += [(number, asked, text, int(place == 0), number + 1) for place, text in enumerate(own)]
    frame = pd.DataFrame(rows, columns=["query", "left", "right", "label", "line"])
    return PairFile("candidates", frame, f"of seed {seed}", form="candidates")


def by_evaluator(file, path, metrics):
    "The same metrics by sentence-transformers."
    frame = file.frame.astype({"query": str})
    asked = dict(zip(frame["query"], frame.left))
    relevant = {query: set(rows.document.astype(str)) for query, rows in frame.groupby("query")}
    corpus = {str(place): text for place, text in enumerate(file.corpus)}
    evaluator = InformationRetrievalEvaluator(
        asked, corpus, relevant, mrr_at_k=[10], ndcg_at_k=[10], precision_recall_at_k=[10, 100], map_at_k=[150],
        write_csv=False)
    found = evaluator(SentenceTransformer(path, device="cpu"))
    return [found[METRICS[metric]] for metric in metrics]


def test_retrieval_has_the_numbers_of_sentence_transformers(models):
    file = retrieval()
    found = diagnose(*models, tests={"new": file})
    table = found.verdicts
    assert table.metric.tolist() == list(METRICS) and table.decides.tolist() == [True] + 4 * [False]
    for name, path in zip(("base", "tuned"), models):
        assert table[name].tolist() == pytest.approx(by_evaluator(file, path, table.metric), abs=1e-9)
    assert (table.low <= table.change).all() and (table.change <= table.high).all()
    assert found.shortcuts.empty
    lost = found.lost["new"]
    assert (lost["rank after"] > lost["rank before"]).all() and set(lost.instead) <= set(file.corpus)
    page = found.html()
    made.read_page(page)
    assert all(TITLES[metric] in page for metric in METRICS)
    assert json.loads(found.json())["verdicts"][4]["base"] == pytest.approx(table.base[4], abs=1e-6)


def test_candidates_have_the_numbers_of_sentence_transformers(models):
    one, several = candidates(seed=1), candidates(negatives=4, seed=2)
    found = diagnose(*models, candidates(seed=3), {"one": one, "several": several})
    value = {(row.test, row.metric): row for row in found.verdicts.itertuples()}
    rows = one.frame
    texts = [rows.left[rows.label == 1].tolist(), rows.right[rows.label == 1].tolist(),
             rows.right[rows.label == 0].tolist()]
    samples = [
        {"query": own.left.iloc[0], "positive": own.right[own.label == 1].tolist(),
         "negative": own.right[own.label == 0].tolist()}
        for _, own in several.frame.groupby("query")]
    for name, path in zip(("base", "tuned"), models):
        model = SentenceTransformer(path, device="cpu")
        by_others = TripletEvaluator(*texts, write_csv=False)(model)["cosine_accuracy"]
        assert getattr(value["one", "accuracy"], name) == pytest.approx(by_others, abs=1e-6)
        by_others = RerankingEvaluator(samples, at_k=10, write_csv=False, show_progress_bar=False)(model)["mrr@10"]
        assert getattr(value["several", "mrr"], name) == pytest.approx(by_others, abs=1e-9)
    made.read_page(found.html())
    assert "MultipleNegativesRankingLoss" in found.program, "of candidates a ranking loss is trained"


def test_the_metric_that_is_asked_for_decides_on_tests_that_have_it(models):
    tests = {"corpus": retrieval(), "candidates": candidates()}
    found = diagnose(*models, tests=tests, metric="map")
    decides = found.verdicts[found.verdicts.decides]
    assert dict(zip(decides.test, decides.metric)) == {"corpus": "map", "candidates": "accuracy"}
    assert re.search(r"^corpus: .*\. MAP ", repr(found), re.MULTILINE)
    with pytest.raises(ValueError, match="did you mean 'map'"):
        diagnose(*models, tests=tests, metric="mapp")


def test_a_sample_has_whole_queries_and_whole_groups(models):
    twice = candidates(40)
    twice = PairFile("t", twice.frame.assign(left=[f"red {number // 2}" for number in twice.frame["query"]]), "",
                     form="candidates")
    few = as_test("t", twice).subsample(20)
    assert len(few.cases) == 20 and few.file.frame.groupby("left")["query"].nunique().eq(2).all()
    assert few.file.frame.groupby("query").size().eq(2).all() and set(few.file.frame["query"]) == set(range(20))
    found = diagnose(*models, tests={"new": retrieval(), "pairs": made.some_pairs(200)}, sample=50)
    assert set(found.verdicts.cases) == {50}


def test_methods_are_compared_on_all_forms(models, tmp_path):
    train = candidates(negatives=3, seed=5)
    tests = {"corpus": retrieval(seed=6), "candidates": candidates(seed=7), "pairs": made.some_pairs(seed=8)}
    found = compare(models[0], train, tests, "base,plain", seeds=2, epochs=1, batch_size=20, folder=tmp_path)
    assert found.facts["options"]["loss"] == "MultipleNegativesRankingLoss"
    assert train.dataset(labeled=False).column_names == ["left", "right", "negative_1", "negative_2", "negative_3"]
    base = found.scores[found.scores.method == "base"].set_index(["test", "metric"]).value
    alone = diagnose(*models, train, tests).verdicts.set_index(["test", "metric"]).base
    assert base.loc[alone.index].tolist() == pytest.approx(alone.tolist(), abs=1e-9)
    made.read_page(found.html())


# ---- what shares no text with training

def half_leaked(seed=1):
    "Pairs to train on, and a test whose first 60 pairs have a left text of them, beside those that have none."
    train, new = (made.some_pairs(seed=seed)
                  .assign(left=lambda rows: [f"{text} {i}" for i, text in enumerate(rows.left)])
                  for seed in (0, seed))
    new["right"] = [f"{text} new" for text in new.right]
    new["left"] = [f"{text} new" for text in new.left]
    new.loc[:59, "left"] = train.left[:60].str.upper() + "!"
    return train, new


def test_what_shares_no_text_with_training_is_told_as_if_it_stood_alone(models):
    train, new = half_leaked()
    found = diagnose(*models, train, {"new": new})
    alone = diagnose(*models, train, {"new": new[60:]})
    apart = found.verdicts[found.verdicts.part == NEW].reset_index()
    assert set(apart.cases) == {60}
    assert set(apart.share) == {.5}
    assert set(alone.verdicts.part) == {"all"}
    assert apart.metric.tolist() == ["auc05", "ap"]
    for figure in ("base", "tuned", "change"):
        assert apart[figure].tolist() == pytest.approx(alone.verdicts[figure].tolist(), abs=1e-12)
    assert (apart.low <= apart.change).all() and (apart.change <= apart.high).all()
    assert "\nnew, the 60 of 120 pairs that share no text with training: " in repr(found)
    few = diagnose(*models, train, {"new": new[:63]})
    assert "\nnew, the 3 of 63 pairs that share no text with training: too few for an interval." in repr(few)
    assert few.failing("unsure") == ["new"]


# ---- a vocabulary that grows
