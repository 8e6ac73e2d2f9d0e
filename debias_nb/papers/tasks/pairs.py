"""Is the second text a match of the first? Trained and tested on pairs, scored by cosine.

Where the truth is known, importance is summed by role: on the brand, which is spurious except for accessories, and on
nouns and attributes, which cause relevance. Of real texts some words are known by their looks: brands, words of shops,
numbers.
"""
import copy
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from ...settings import EncoderConfig, WorldConfig
from ...files import fingerprint
from ...encoders.interventions import importance, importance_by_role
from ...losses.pair_losses import cosines
from ...measures.metrics import auc_at, evaluate_pairs, rank_metrics, sampling_units
from ...measures.rankings import corpus_levels, mrr, ndcg, recall
from .retrieval import evaluate_retrieval
from ..data.labeled_pairs import LabeledPairs, evaluation_pairs, planted_catalog, questions_of
from ..data.labeled_pairs import ranking_columns, training_pairs
from ...data.lexicon import SPLITS
from ...data.pairs import fold, known_texts, question_corpora, seen_words, word_overlap
from ..data.products import CATEGORIES, TOKEN_ROLES, words_with_roles
from ..data.titles import TitleTask, search_groups
from ...runs.config import RunConfig
from ...runs.settings import PairMethod
from ..settings.pairs import PairsCorpus
from ...runs.tasks import Task, Tested, Trained, base_encoder, base_model, encoder_files, shares_of, text_tokens
from ...runs.tasks import vectors
from .regularization_texts import unlabeled_texts
from ...runs.pair_batches import RANKING_LOSSES, PairTokens, pair_tokens, ranking_tokens
from ...runs.training import BestEpoch, curve_summary, fine_tune, gradient_norms


FEWEST_APART = 300 # pairs of a part of a test that gets a score of its own


def side_cosines(embeddings) -> np.ndarray: # embeddings: (2n, d) tensor of unit vectors, left sides first -> (n,)
    "Compute the cosine of both sides of every pair."
    left, right = embeddings.chunk(2)
    return cosines(left, right).numpy()


def score(model, pairs: LabeledPairs, encoder: EncoderConfig) -> np.ndarray: # (n,) cosines
    "Embed all pairs, and compare their sides."
    return side_cosines(vectors(model, pairs.all_texts, encoder))


MOST_TEXTS = 100 # texts whose importance is looked at


def importance_shares(
    model,
    encoder: EncoderConfig,
    queries: list, # texts, or `worlds.Text`s
) -> dict: # `peak importance`; of planted titles also `brand importance` and `causal importance`
    """Average over the first queries the fraction of importance on the top token, and on words of each role.

    Accessories are left out.
    """
    is_planted = bool(queries) and not isinstance(queries[0], str)
    texts = queries
    if is_planted:
        queries = [query for query in queries if not query.accessory]
        texts = [query.text for query in queries]
    if not texts:
        return {}
    tokens, rows = text_tokens(encoder, tuple(texts[:MOST_TEXTS]))
    values = importance(model, tokens, dtype=encoder.dtype).values.clamp(min=0).nan_to_num()[rows]
    peak = values.amax(1) / values.sum(1).clamp(min=1e-9)
    shares = {"peak importance": float(peak.mean())}
    if is_planted:
        roles = importance_by_role(model, queries[:MOST_TEXTS]).mean()
        causal = roles.get("noun", 0.) + roles.get("attribute", 0.)
        shares |= {"brand importance": float(roles["brand"]), "causal importance": float(causal)}
    return shares


KEPT_RESAMPLES = 40 # of metrics beside the main one, so that records stay small


def _few(replicates: dict[str, list[float]]) -> dict[str, list[float]]:
    "Return the resamples that a record keeps of a secondary metric; none if one of them lacks a class."
    few_replicates = {}
    for key, values in replicates.items():
        few = np.round(values[:KEPT_RESAMPLES], 4)
        if np.isfinite(few).all():
            few_replicates[key] = few.tolist()
    return few_replicates


def _sides(embeddings, pairs: LabeledPairs, task: TitleTask) -> list: # (queries, d) and (items, d)
    "Select the embeddings of a task's queries and items from those of both sides of pairs, (2n, d)."
    place = {text: i for i, text in enumerate(pairs.all_texts)}
    return [embeddings[[place[text] for text in texts]] for texts in (task.queries, task.items)]


def offer_measures(
    embeddings, # (2n, d) tensor, of both sides
    pairs: LabeledPairs, # with `offers`
) -> tuple[dict, dict]: # `p1`, also of offers whose title is seen or unseen in training; replicates
    "Return whether the offer nearest to an offer is of its product; ties are shared."
    queries, items = _sides(embeddings, pairs, pairs.offers)
    values, replicates = evaluate_retrieval(queries, items, pairs.offers, ks=(1,))
    replicates.pop("p1[seen]", None)
    return values, _few(replicates)


def role_importance(
    model,
    encoder: EncoderConfig,
    texts: list[str],
) -> dict: # `number importance`, and the same for each other role of `papers.data.products`
    "Average over the first texts the fraction of importance on the words of each role, and on the top token."
    texts = list(dict.fromkeys(texts))[:MOST_TEXTS]
    roles = importance_by_role(model, [words_with_roles(text) for text in texts], dtype=encoder.dtype).mean()
    shares = {f"{role} importance": float(roles.get(role, 0.)) for role in TOKEN_ROLES}
    return shares | importance_shares(model, encoder, texts)


@lru_cache(maxsize=16)
def word_measures(name: str, corpus: PairsCorpus | None) -> dict: # `overlap auc05`; `seen words` of what is trained
    "Measure a real test without an encoder: AUC(0.05) of word overlap, and the fraction of words in training."
    pairs = evaluation_pairs(name, corpus, None)
    values = {"overlap auc05": auc_at(pairs.labels, word_overlap(pairs.left, pairs.right), name=name)}
    if corpus:
        values["seen words"] = seen_words(training_pairs(corpus).all_texts, pairs.all_texts)
    return values


@lru_cache(maxsize=4)
def training_set(corpus: PairsCorpus) -> frozenset[str]:
    "Return the texts that a corpus trains on, folded."
    return frozenset(map(fold, training_pairs(corpus).all_texts))


def overlap_parts(
    pairs: LabeledPairs,
    corpus: PairsCorpus, # that is trained on
) -> tuple[dict, dict]: # shares; part -> (n,) booleans, where there are enough pairs of both classes
    "Divide pairs by how many of their texts also occur in training: fractions, matches of each part, and the parts."
    counts = known_texts(training_set(corpus), pairs.left, pairs.right)
    values = shares_of(counts)
    parts = {}
    for name, part in {"no known text": counts == 0, "known text": counts > 0}.items():
        labels = pairs.labels[part]
        if len(labels):
            values[f"matches[{name}]"] = float(labels.mean())
        if FEWEST_APART <= len(labels) < len(counts) and 0 < labels.mean() < 1:
            parts[name] = part
    return values, parts


STRENGTHS = {name: PairMethod(name=name, **settings) for name, settings in { # whose gradient norms are compared
    "ITVReg": {"regularizer": "itvreg", "mask_share": .5},
    "ITVReg (0.15)": {"regularizer": "itvreg", "mask_share": .15},
    "MaskReg": {"regularizer": "maskreg", "mask_share": .15},
    "MaskReg (0.50)": {"regularizer": "maskreg", "mask_share": .5},
    "SimCSE": {"regularizer": "simcse"},
    "OutReg": {"regularizer": "outreg"},
    "L2-SP": {"regularizer": "l2sp"},
}.items()}


@lru_cache(maxsize=8)
def search_of(name: str, corpus: PairsCorpus | None, world: WorldConfig | None) -> TitleTask:
    "Return the left texts of an evaluation set that have a duplicate, as a search among its right texts."
    pairs = evaluation_pairs(name, corpus, world)
    texts, left, right, group = questions_of(pairs)
    return search_groups(pairs.name, texts, group, np.unique(left[pairs.labels == 1]), np.unique(right))


def search_measures(
    embeddings,              # (2n, d) tensor of unit vectors, of both sides
    pairs: LabeledPairs,
    search: TitleTask, # of `search_of` for these pairs
) -> dict: # `ndcg10`, `mrr10` and `recall10`, in [0, 1]
    "Measure how duplicates are found among all right texts."
    queries, items = _sides(embeddings, pairs, search)
    query, item = search.relevance.nonzero()
    levels = corpus_levels(queries, items, query, item, np.ones(len(query)), search.itself)
    return {f"{metric.__name__}10": float(metric(levels, 10).mean()) for metric in (ndcg, mrr, recall)}


@lru_cache(maxsize=4)
def training_tokens(encoder: EncoderConfig, corpus: PairsCorpus, loss: str) -> tuple[PairTokens, dict]:
    "Tokenize the training set, and describe it for the record."
    pairs = training_pairs(corpus)
    model = base_model(encoder)
    info = pairs.info
    if loss in RANKING_LOSSES:
        columns, asks, counts = ranking_columns(pairs, hard=loss == "ranking-hard")
        tokens = ranking_tokens(model, columns, asks, encoder.max_length)
        info = info | {"ranked": counts}
    else:
        tokens = pair_tokens(model, pairs.left, pairs.right, pairs.labels, encoder.max_length)
    return tokens, {f"train {pairs.name}": info}


class PairTask(Task):
    "Task of labeled pairs: duplicate questions, offers of one product, planted products."
    def data(self, run: RunConfig) -> tuple[PairTokens, dict]:
        return training_tokens(run.encoder, run.corpus, run.training.loss)

    def test_set(self, run: RunConfig, name: str) -> tuple:
        return evaluation_pairs, (name, run.corpus, run.eval_world)

    def evaluate(self, model, run: RunConfig, name: str, test: LabeledPairs, results: Tested) -> None:
        embeddings = vectors(model, test.all_texts, run.encoder)
        scores = side_cosines(embeddings)
        overlap, parts = overlap_parts(test, run.data) if "known texts" in run.measure else ({}, {})
        groups = sampling_units(test.left, test.right).group if "shared texts" in run.measure else test.groups
        values, replicates = evaluate_pairs(test.labels, scores, groups, test.subsets | parts, name=name)
        values |= overlap
        main = "auc05[ordinary]" if "ordinary" in test.subsets else "auc05"
        main_replicates = {key: replicates.pop(key) for key in (main, *(f"auc05[{part}]" for part in parts))}
        if name in SPLITS:
            values |= importance_shares(model, run.encoder, planted_catalog(run.eval_world).split(name).queries)
        if test.offers:
            offer_values, offer_replicates = offer_measures(embeddings, test)
            ranking, *_ = rank_metrics(test.labels, scores, np.zeros(len(scores), int), name=name) # one list
            values |= offer_values | {"ap": ranking["map"]}
            replicates.pop("auc")
            main_replicates |= offer_replicates | _few(replicates)
        if "retrieval" in run.measure:
            values |= search_measures(embeddings, test, search_of(name, run.corpus, run.eval_world))
        if "words" in run.measure and name in (*question_corpora(), *CATEGORIES):
            values |= word_measures(name, run.corpus)
            values |= role_importance(model, run.encoder, test.left)
        results.metrics[name] = values
        results.replicates[name] = main_replicates
        results.data[f"test {name}"] = test.info

    def unlabeled(self, run: RunConfig) -> tuple[str, ...]:
        "Return the unlabeled texts that a run is regularized on. Raise `ConfigError`."
        return unlabeled_texts(run.method.texts, run.evaluate, run.corpus, run.eval_world)

    def train(self, run: RunConfig) -> Trained:
        base, identity = base_encoder(run.encoder)
        if not run.method.trained:
            return Trained(base, identity)
        tokens, data = self.data(run)
        model = copy.deepcopy(base)
        best = None
        if run.training.select == "best":
            held_out = training_pairs(run.corpus, "heldout")
            best = BestEpoch(model, lambda m: auc_at(held_out.labels, score(m, held_out, run.encoder)))
        texts = None
        if run.method.texts:
            texts = list(self.unlabeled(run))
            data = data | {"held texts": {"fingerprint": fingerprint(texts), "texts": len(texts)}}
        callbacks = (best,) if best else ()
        course = fine_tune(
            model, base, tokens, run.method, run.training, run.seed, run.encoder.dtype, callbacks, texts)
        extra = {}
        if best:
            extra["held-out scores"] = best.scores
        if "gradients" in run.measure and run.method.regularizer == "none":
            extra["gradient norms"] = gradient_norms(model, base, tokens, STRENGTHS, run.training, run.seed)
        return Trained(model, identity, curve_summary(course.history), data, extra)

    load = staticmethod(training_pairs)

    def needs(self, run: RunConfig) -> Iterator[tuple]:
        yield encoder_files, run.encoder
        if run.data:
            yield self.load, run.data
        if run.method.texts:
            yield self.unlabeled, run


TASK = PairTask()
