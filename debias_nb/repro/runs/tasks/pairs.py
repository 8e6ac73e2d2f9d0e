"""Is the second text a match of the first? Trained and tested on pairs, scored by cosine.

Where the truth is known, importance is summed by role: on the brand, which is spurious except for accessories, and on
nouns and attributes, which cause relevance. Of real texts some words can be told by looking: brands, words of shops,
numbers.
"""
import copy
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, compress

import numpy as np
from numpy.random import default_rng
from scipy.sparse import csr_array

from ....checks import ConfigError, check_known
from ....settings import EncoderConfig, WorldConfig
from ....files import fingerprint
from ....encoders.interventions import importance, importance_by_role
from ....losses.pair_losses import cosines
from ....measures.metrics import auc_at, evaluate_pairs, rank_metrics
from ....losses.regularizers import wise_ft
from ....measures.retrieval import evaluate_ranking, evaluate_retrieval
from ....data.pairs import CATEGORIES, ROLES, SOURCES, QuestionPairs, components, fold, known_texts, load_offers
from ....data.pairs import load_products, load_questions, load_test, seen_words, word_overlap, worded
from ....data.answers import load_answers
from ....data.sentences import KINDS, NEWS, TEXTS_ONLY, load_news, load_sentences, sentence_texts
from ....data.registry import MissingData
from ...config import CorpusConfig, MethodConfig, RunConfig, TextsConfig
from .common import Task, Tested, Trained, base_encoder, base_model, encoder_files, lacking
from .common import shares_of, text_tokens, together, unmeasured, vectors
from ..matching import RANKING
from ..training import BestEpoch, PairTokens, Watch, curve_summary, fine_tune, gradient_norms
from ..training import pair_tokens, ranking_tokens, with_replayed
from ....data.titles import TitleTask
from ....data.worlds import Catalog, Pairs


PLANTED = ("iid", "uncoupled", "redealt", "unseen") # splits of the planted catalogue
FEWEST_APART = 300 # pairs of a part of a test, to be scored apart


@dataclass(frozen=True)
class LabeledPairs:
    "Pairs to train on or to be tested on."
    name: str
    left: list[str]
    right: list[str]
    labels: np.ndarray                      # (n,) 0 or 1
    groups: np.ndarray | None = None        # (n,) query of each pair, where pairs share queries
    subsets: dict = field(default_factory=dict) # name -> (n,) booleans
    info: dict = field(default_factory=dict)    # fingerprint and counts, for the record
    offers: TitleTask | None = None             # of products: who asks for whom

    @property
    def all_texts(self) -> list[str]:
        "The left ones first."
        return self.left + self.right


@lru_cache(maxsize=4)
def catalogue(world: WorldConfig) -> Catalog:
    "A planted catalog, drawn once a process."
    return Catalog(world)


def _of_world(pairs, name: str, is_test: bool) -> LabeledPairs:
    "Planted pairs; in a test they are grouped by query."
    left, right = pairs.texts()
    labels = pairs.labels
    info = {
        "fingerprint": fingerprint([left, right, labels.tolist()]), "pairs": len(labels), "positives": int(labels.sum())}
    found = LabeledPairs(name, left, right, labels, info=info)
    if not is_test:
        return found
    subsets = {"ordinary": ~pairs.accessory} if pairs.accessory.any() else {}
    return replace(found, groups=pairs.group, subsets=subsets)


def _of_texts(found, name: str, **further) -> LabeledPairs: # found: questions, or offers of products
    info = {
        "fingerprint": found.fingerprint, "pairs": len(found.labels), "positives": int(found.labels.sum()),
        "counts": found.counts}
    return LabeledPairs(name, found.left, found.right, found.labels, info=info, **further)


def _part_of(pairs, corpus: CorpusConfig, part: str):
    "Planted training pairs, or those held out, by the corpus's own seed; whole queries are drawn."
    queries = np.unique(pairs.group)
    kept = default_rng([0, 7]).permutation(queries)[:round(corpus.holdout * len(queries))]
    if part == "train":
        rest = np.setdiff1d(queries, kept)
        kept = default_rng([0, 8]).permutation(rest)[:round(corpus.share * len(queries))]
    keep = np.isin(pairs.group, kept)
    return Pairs(list(compress(pairs.left, keep)), list(compress(pairs.right, keep)), pairs.group[keep])


def questions_of(
    pairs: LabeledPairs | QuestionPairs,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]: # texts; (n,) left and (n,) right ones; (texts,) what each asks
    "Distinct texts, and which of them ask the same: duplicates, duplicates of these, and so on."
    texts, places = np.unique(np.array(pairs.all_texts, dtype=object), return_inverse=True)
    left, right = places.reshape(2, -1)
    known = pairs.labels == 1
    _, group = components(left[known], right[known], len(texts))
    return texts, left, right, group


def at_balance(
    pairs: QuestionPairs,    # with labels of both classes
    duplicates: int | None,  # how many are drawn; None: all of them
    negatives: int,          # texts for each of them that are no duplicates of it
    seed: int,
) -> QuestionPairs: # each duplicate in front of its negatives
    """Duplicates at another balance, as in the data of paper A (1:100): the left text of a duplicate next to texts drawn
    at random from all texts of these pairs, each text once a duplicate, none that is known to ask the same.
    Raises `ConfigError` when there are fewer duplicates or texts than asked for."""
    rng = default_rng([seed, 11])
    known = np.flatnonzero(pairs.labels)
    count = len(known) if duplicates is None else duplicates
    if count > len(known):
        raise ConfigError(f"{pairs.name}: `duplicates` is {count:,}, and there are {len(known):,}")
    drawn = rng.permutation(known)[:count]
    texts, left, right, group = questions_of(pairs)
    alike = np.bincount(group)[group[left[drawn]]]
    if negatives > len(texts) - alike.max(initial=0):
        raise ConfigError(f"{pairs.name}: `negatives` is {negatives:,}, and there are {len(texts):,} texts")

    others = np.empty((count, negatives), int)
    for row, first in zip(others, left[drawn]):
        found = np.empty(0, int)
        while len(found) < negatives:
            more = rng.integers(len(texts), size=negatives)
            found = np.concatenate([found, more[group[more] != group[first]]])
            _, new = np.unique(found, return_index=True)
            found = found[np.sort(new)]
        row[:] = found[:negatives]

    seconds = np.column_stack([right[drawn], others])
    labels = np.zeros(seconds.shape, "int8")
    labels[:, 0] = 1
    firsts = np.repeat(left[drawn], 1 + negatives)
    return QuestionPairs(
        f"{pairs.name} at 1:{negatives}", texts[firsts].tolist(), texts[seconds.ravel()].tolist(), labels.ravel(),
        pairs.counts | {"duplicates drawn": count, "negatives each": negatives})


def ranking_columns(
    pairs: LabeledPairs,
    hard: bool, # whether there is a third column
) -> tuple[list[list[str]], np.ndarray, dict]: # columns; what their texts ask, as of `PairTokens`; counts
    """Duplicates for a ranking loss, and a text that asks something else: the other text of a pair that is known to be no
    duplicate. Where only the right text of a duplicate stands in such a pair, the two change places; where neither does,
    the third text is drawn from all such pairs. Raises `ConfigError` where there is no such pair."""
    texts, left, right, group = questions_of(pairs)
    known = pairs.labels == 1
    first, second = left[known], right[known]
    if not hard:
        return [texts[first].tolist(), texts[second].tolist()], group[first][:, None], {"duplicates": len(first)}

    rng = default_rng([0, 17])
    others = np.column_stack([left, right])[~known]
    others = others[group[others[:, 0]] != group[others[:, 1]]]
    if not len(others):
        raise ConfigError(f"{pairs.name}: `ranking-hard` needs pairs that are no duplicates, and there are none")
    both_ways = np.concatenate([others, others[:, ::-1]])
    beside = np.full(len(texts), -1)
    of, what = rng.permutation(both_ways).T
    beside[of] = what
    turn = (beside[first] < 0) & (beside[second] >= 0)
    first, second = np.where(turn, [second, first], [first, second])
    third = beside[first]
    own = int((third >= 0).sum())
    lacking = np.flatnonzero(third < 0)
    while len(lacking):
        third[lacking] = rng.choice(others.ravel(), len(lacking))
        lacking = lacking[group[third[lacking]] == group[first[lacking]]]
    columns = [texts[column].tolist() for column in (first, second, third)]
    return columns, group[np.column_stack([first, third])], {"duplicates": len(first), "with a negative of their own": own}


@lru_cache(maxsize=4)
def training_pairs(corpus: CorpusConfig, part: str = "train") -> LabeledPairs: # part: `train` or `heldout`
    "The pairs of a corpus. Raises `MissingData` when its files are not there."
    if corpus.name == "catalogue":
        drawn = catalogue(corpus.world).labeled_pairs()
        return _of_world(_part_of(drawn, corpus, part), corpus.name, is_test=False)
    if corpus.name in CATEGORIES:
        if corpus.holdout:
            raise ConfigError(f"corpus {corpus.name!r}: products have a validation file and take no `holdout`")
        file = "valid" if part == "heldout" else "train"
        return _of_texts(load_products(corpus.name, file, corpus.share), corpus.name)
    if corpus.name == NEWS:
        if corpus.holdout:
            raise ConfigError(f"corpus {corpus.name!r}: news takes no `holdout`")
        return _of_texts(load_news(corpus.share), corpus.name)
    check_known("corpus", corpus.name, (*SOURCES, *CATEGORIES, NEWS, "catalogue"), ConfigError)
    found = load_questions(corpus.name, part, share=corpus.share, holdout=corpus.holdout)
    if corpus.negatives:
        found = at_balance(found, corpus.duplicates if part == "train" else None, corpus.negatives, 0)
    return _of_texts(found, corpus.name)


@lru_cache(maxsize=16)
def evaluation_pairs(name: str, corpus: CorpusConfig | None, world: WorldConfig | None) -> LabeledPairs:
    "An evaluation set. Raises `MissingData` when its files are not there, `ConfigError` for an unknown name."
    if name == "heldout":
        return training_pairs(corpus, "heldout")
    if name in PLANTED:
        return _of_world(catalogue(world).test_pairs(name), name, is_test=True)
    if name in CATEGORIES:
        test, parts = load_test(name)
        return _of_texts(test, name, subsets=parts, offers=load_offers(name))
    if name in KINDS:
        return _of_texts(load_sentences(name), name)
    check_known("evaluation set", name, (*SOURCES, *CATEGORIES, *KINDS, *PLANTED, "heldout"), ConfigError)
    return _of_texts(load_questions(name, "test"), name)


GENERAL = ("qnli",) # sentences of no corpus that anybody trains on here


def training_texts(
    name: str, # of a corpus; of a split, where there is a world
    world: WorldConfig | None = None,
) -> list[str]:
    """Its training texts; in a synthetic dataset as many titles of a split's kind, drawn apart from training and tests.
    Raises `MissingData`, and `ConfigError` for an unknown corpus."""
    planted = PLANTED if world else ()
    check_known("corpus of texts", name, (*SOURCES, *CATEGORIES, *KINDS, *TEXTS_ONLY, *GENERAL, *planted), ConfigError)
    if name in planted:
        return [title.text for title in catalogue(world).unlabeled(name)]
    if name in GENERAL:
        general = load_answers(name, "dev")
        return [*general.questions, *general.answers]
    if name in (*KINDS, *TEXTS_ONLY):
        return sentence_texts(name)
    return training_pairs(CorpusConfig(name=name)).all_texts


@lru_cache(maxsize=2)
def general_pairs(encoder: EncoderConfig, name: str) -> tuple[PairTokens, dict]: # name: one of `GENERAL`
    "Relevant pairs to be replayed, of which no two ask the same, and what a record says of them. Raises as `training_texts`."
    check_known("corpus of general pairs", name, GENERAL, ConfigError)
    general = load_answers(name, "dev")
    columns = [list(compress(texts, general.labels)) for texts in (general.questions, general.answers)]
    _, asks = np.unique(columns[1], return_inverse=True) # one text answers several questions
    tokens = ranking_tokens(base_model(encoder), columns, asks[:, None], encoder.max_length)
    return tokens, {"fingerprint": general.fingerprint, "pairs": len(asks)}


def untested(
    asked: TextsConfig,
    texts: Iterable[str],  # of its corpora
    tested: Iterable[str],
) -> tuple[str, ...]: # at least two
    "The distinct texts in random order, without those that are tested. Raises `ConfigError` where fewer than two are left."
    found = {}
    for text in texts:
        found.setdefault(fold(text, True), text)
    for text in tested:
        found.pop(fold(text, True), None)
    texts = list(found.values())
    if len(texts) < 2:
        names = ", ".join(asked.corpora)
        raise ConfigError(f"texts: {len(texts)} of {names} are not tested, and what is tested is not held: two are needed")
    order = default_rng([0, 13]).permutation(len(texts))
    count = max(2, round(asked.share * len(texts)))
    return tuple(texts[place] for place in order[:count])


@lru_cache(maxsize=8)
def held_texts(
    asked: TextsConfig,
    evaluate: tuple[str, ...],         # names of evaluation sets
    corpus: CorpusConfig | None = None, # of these
    world: WorldConfig | None = None,
) -> tuple[str, ...]:
    "The texts that a run is held on, of `untested`; a test whose files are not there tests nothing. Raises as `training_texts`."
    texts = [training_texts(name, world) for name in asked.corpora]
    there = [name for name in evaluate if not lacking(evaluation_pairs, name, corpus, world)]
    tested = [evaluation_pairs(name, corpus, world).all_texts for name in there]
    return untested(asked, chain(*texts), chain(*tested))


def side_cosines(both) -> np.ndarray: # both: (2n, d) tensor of unit vectors, left sides first -> (n,)
    "Cosine of both sides of every pair."
    left, right = both.chunk(2)
    return cosines(left, right).numpy()


def score(model, pairs: LabeledPairs, encoder: EncoderConfig) -> np.ndarray: # (n,) cosines
    "Embed all pairs, and compare their sides."
    return side_cosines(vectors(model, pairs.all_texts, encoder))


MOST = 100 # texts whose importance is looked at


def importance_shares(
    model,
    encoder: EncoderConfig,
    queries: list, # texts, or `worlds.Text`s
) -> dict: # `peak importance`; of planted titles also `brand importance` and `causal importance`
    "Mean over the first queries: share of importance on the top token, and on words of each role. Accessories are left out."
    planted = bool(queries) and not isinstance(queries[0], str)
    texts = queries
    if planted:
        queries = [query for query in queries if not query.accessory]
        texts = [query.text for query in queries]
    if not texts:
        return {}
    tokens, rows = text_tokens(encoder, tuple(texts[:MOST]))
    values = importance(model, tokens, dtype=encoder.dtype).values.clamp(min=0).nan_to_num()[rows]
    peak = values.amax(1) / values.sum(1).clamp(min=1e-9)
    shares = {"peak importance": float(peak.mean())}
    if planted:
        roles = importance_by_role(model, queries[:MOST]).mean()
        causal = roles.get("noun", 0.) + roles.get("attribute", 0.)
        shares |= {"brand importance": float(roles["brand"]), "causal importance": float(causal)}
    return shares


KEPT_RESAMPLES = 40 # of metrics beside the main one, so that records stay small


def _few(resampled: dict[str, list[float]]) -> dict[str, list[float]]:
    "The resamples that a record keeps of a metric next to the main one; none where one of them lacks a class."
    kept = {}
    for key, values in resampled.items():
        few = np.round(values[:KEPT_RESAMPLES], 4)
        if np.isfinite(few).all():
            kept[key] = few.tolist()
    return kept


def offer_measures(
    both, # (2n, d) tensor, embeddings of both sides
    pairs: LabeledPairs, # with `offers`
) -> tuple[dict, dict]: # `p1`, also of offers whose title is seen or unseen in training; replicates
    "Whether the offer nearest to an offer is of its product; ties are shared."
    place = {title: i for i, title in enumerate(pairs.all_texts)}
    items = both[[place[title] for title in pairs.offers.items]]
    values, resampled = evaluate_retrieval(items[pairs.offers.own], items, pairs.offers, ks=(1,))
    resampled.pop("p1[seen]", None)
    return values, _few(resampled)


def role_importance(
    model,
    encoder: EncoderConfig,
    texts: list[str],
) -> dict: # `number importance`, and the same for each other role of `data/07_products`
    "Mean over the first texts: share of importance on the words of each role, and on the top token."
    texts = list(dict.fromkeys(texts))[:MOST]
    roles = importance_by_role(model, [worded(text) for text in texts], dtype=encoder.dtype).mean()
    shares = {f"{role} importance": float(roles.get(role, 0.)) for role in ROLES}
    return shares | importance_shares(model, encoder, texts)


@lru_cache(maxsize=16)
def word_measures(name: str, corpus: CorpusConfig | None) -> dict: # `overlap auc05`; `seen words` of what is trained
    "What can be said of a real test without an encoder: AUC(0.05) of word overlap, and the share of words in training."
    pairs = evaluation_pairs(name, corpus, None)
    values = {"overlap auc05": auc_at(pairs.labels, word_overlap(pairs.left, pairs.right), name=name)}
    if corpus:
        values["seen words"] = seen_words(training_pairs(corpus).all_texts, pairs.all_texts)
    return values


@lru_cache(maxsize=16)
def center(encoder: EncoderConfig, texts: tuple[str, ...]) -> np.ndarray: # (d,) unit vector
    "Where texts lie on the whole, for the base encoder."
    mean = vectors(base_model(encoder), list(texts), encoder).double().mean(0).numpy()
    return mean / np.linalg.norm(mean)


def beforehand(encoder: EncoderConfig, corpus: CorpusConfig, name: str) -> dict: # name: of a test
    """What can be measured of a shift before anything is trained: the share of a test's words that training has, AUC(0.05)
    of word overlap, the mean cosine of unrelated texts of the test, and how far the test's texts lie from those of training
    (one less the cosine of their mean embeddings), both for the base encoder."""
    test = evaluation_pairs(name, corpus, None)
    both = vectors(base_model(encoder), test.all_texts, encoder)
    left, right = both.chunk(2)
    unrelated = cosines(left, right.roll(1, 0))
    centers = [center(encoder, tuple(texts)) for texts in (training_pairs(corpus).all_texts, test.all_texts)]
    return word_measures(name, corpus) | {
        "unrelated cosine": float(unrelated.mean()), "distance of kinds": float(1 - np.dot(*centers))}


@lru_cache(maxsize=4)
def trained_texts(corpus: CorpusConfig) -> frozenset[str]:
    "The texts that a corpus trains on, folded."
    return frozenset(map(fold, training_pairs(corpus).all_texts))


def known_parts(
    pairs: LabeledPairs,
    corpus: CorpusConfig, # that is trained on
) -> tuple[dict, dict]: # shares; part -> (n,) booleans, where there are enough pairs of both classes
    "How many of the texts of each pair stand in training: `KNOWN`, the share of matches of each part, and the parts."
    known = known_texts(trained_texts(corpus), pairs.left, pairs.right)
    values = shares_of(known)
    parts = {}
    for name, part in {"no known text": known == 0, "known text": known > 0}.items():
        labels = pairs.labels[part]
        if len(labels):
            values[f"matches[{name}]"] = float(labels.mean())
        if FEWEST_APART <= len(labels) < len(known) and 0 < labels.mean() < 1:
            parts[name] = part
    return values, parts


STRENGTHS = {name: MethodConfig(name=name, **settings) for name, settings in { # whose gradient norms are compared
    "ITVReg": {"regulariser": "itvreg", "mask_share": .5},
    "ITVReg (0.15)": {"regulariser": "itvreg", "mask_share": .15},
    "MaskReg": {"regulariser": "maskreg", "mask_share": .15},
    "MaskReg (0.50)": {"regulariser": "maskreg", "mask_share": .5},
    "SimCSE": {"regulariser": "simcse"},
    "OutReg": {"regulariser": "outreg"},
    "L2-SP": {"regulariser": "l2sp"},
}.items()}
MAIN = ("p1[ordinary]", "p1", "auc05[ordinary]", "auc05") # the metric that is followed along training: the first there is
FOLLOWED = ("brand importance", "causal importance")


def followed(metrics: dict) -> dict: # `<set> <metric>` -> value
    "The figures of all evaluation sets in short, for the course of training."
    seen = {}
    for name, values in metrics.items():
        main = next((key for key in MAIN if key in values), None)
        for key, value in values.items():
            if key == main or key in FOLLOWED:
                seen[f"{name} {key}"] = round(value, 4)
    return seen


@lru_cache(maxsize=8)
def search_of(name: str, corpus: CorpusConfig | None, world: WorldConfig | None) -> TitleTask:
    "Left texts of an evaluation set that have a duplicate; relevant are those of all its right texts that ask the same."
    pairs = evaluation_pairs(name, corpus, world)
    texts, left, right, group = questions_of(pairs)
    queries, items = np.unique(left[pairs.labels == 1]), np.unique(right)
    every = np.arange(len(texts))
    place = np.full(len(texts), -1) # of a text among the items
    place[items] = np.arange(len(items))
    asks = csr_array((np.ones(len(texts)), (every, group)))
    own = csr_array((np.ones(len(texts)), (every, every)))
    others = asks[queries] @ asks[items].T - own[queries] @ own[items].T
    found = others.sum(1) > 0
    queries = queries[found]
    return TitleTask(
        pairs.name, texts[queries].tolist(), texts[items].tolist(), others[found], place[queries], None,
        np.zeros(len(items)))


def search_measures(
    both,              # (2n, d) tensor of unit vectors, embeddings of both sides
    pairs: LabeledPairs,
    search: TitleTask, # of `search_of` for these pairs
) -> dict: # `ndcg10`, `mrr10` and `recall10`, in [0, 1]
    "How duplicates are found among all right texts."
    place = {text: i for i, text in enumerate(pairs.all_texts)}
    queries, items = [both[[place[text] for text in texts]] for texts in (search.queries, search.items)]
    return evaluate_ranking(queries, items, search)


class PairTask(Task):
    "Labeled pairs: duplicate questions, offers of one product, planted products."
    def data(self, encoder: EncoderConfig, corpus: CorpusConfig, loss: str = "mse") -> tuple[PairTokens, dict]:
        "The training set, tokenized, and what a record says of it."
        pairs = training_pairs(corpus)
        model = base_model(encoder)
        info = pairs.info
        if loss in RANKING:
            columns, asks, counts = ranking_columns(pairs, hard=loss == "ranking-hard")
            tokens = ranking_tokens(model, columns, asks, encoder.max_length)
            info = info | {"ranked": counts}
        else:
            tokens = pair_tokens(model, pairs.left, pairs.right, pairs.labels, encoder.max_length)
        return tokens, {f"train {pairs.name}": info}

    def evaluation_set(self, model, run: RunConfig, name: str) -> tuple[dict, dict, dict]: # metrics, replicates, data
        "One evaluation set. Raises `MissingData`."
        pairs = evaluation_pairs(name, run.corpus, run.eval_world)
        both = vectors(model, pairs.all_texts, run.encoder)
        scores = side_cosines(both)
        known, parts = known_parts(pairs, run.data) if "known texts" in run.measure else ({}, {})
        values, resampled = evaluate_pairs(pairs.labels, scores, pairs.groups, pairs.subsets | parts, name=name)
        values |= known
        main = "auc05[ordinary]" if "ordinary" in pairs.subsets else "auc05"
        kept = {key: resampled.pop(key) for key in (main, *(f"auc05[{part}]" for part in parts))}
        if name in PLANTED:
            values |= importance_shares(model, run.encoder, catalogue(run.eval_world).split(name).queries)
        if pairs.offers:
            asked, ranked = offer_measures(both, pairs)
            ranking, *_ = rank_metrics(pairs.labels, scores, np.zeros(len(scores), int), name=name) # one list
            values |= asked | {"ap": ranking["map"]}
            resampled.pop("auc")
            kept |= ranked | _few(resampled)
        if "retrieval" in run.measure:
            values |= search_measures(both, pairs, search_of(name, run.corpus, run.eval_world))
        if "words" in run.measure and name in (*SOURCES, *CATEGORIES):
            values |= word_measures(name, run.corpus)
            values |= role_importance(model, run.encoder, pairs.left)
        if "beforehand" in run.measure and run.corpus:
            values |= beforehand(run.encoder, run.corpus, name)
        return values, kept, {f"test {name}": pairs.info}

    def evaluation_sets(self, model, run: RunConfig, suffix: str = "") -> Tested:
        "All evaluation sets that are there; `suffix` marks the state of the encoder, as in `iid@0.5`."
        tested = Tested()
        for name in run.evaluate:
            try:
                values, resampled, found = self.evaluation_set(model, run, name)
            except MissingData:
                tested.missing.append(name)
                continue
            tested.metrics[name + suffix] = values
            tested.replicates[name + suffix] = resampled
            tested.data |= found
        return tested

    def held(self, run: RunConfig) -> tuple[str, ...]:
        "The unlabeled texts that a run is held on. Raises `ConfigError`."
        return held_texts(run.method.texts, run.evaluate, run.corpus, run.eval_world)

    def train(self, run: RunConfig) -> Trained:
        "Fine-tune as a run says. Raises `TrainingFailed`."
        base, identity = base_encoder(run.encoder)
        if not run.method.trained:
            return Trained(base, identity)
        tokens, data = training_data(self, run.encoder, run.corpus, run.training.loss)
        if run.method.replay and run.training.loss == "ranking":
            others, info = general_pairs(run.encoder, run.method.replay.corpus)
            tokens = with_replayed(tokens, others)
            data = data | {f"replayed {run.method.replay.corpus}": info}
        model = copy.deepcopy(base)
        best = watch = None
        if run.training.select == "best":
            held = training_pairs(run.corpus, "heldout")
            best = BestEpoch(model, lambda m: auc_at(held.labels, score(m, held, run.encoder)))
        if "trajectory" in run.measure:
            watch = Watch(model, lambda m: followed(self.evaluation_sets(m, run).metrics))
        texts = None
        if run.method.texts:
            texts = list(self.held(run))
            data = data | {"held texts": {"fingerprint": fingerprint(texts), "texts": len(texts)}}
        callbacks = tuple(filter(None, (best, watch)))
        course = fine_tune(
            model, base, tokens, run.method, run.training, run.seed, run.encoder.dtype, callbacks, texts)
        extra = {}
        if best:
            extra["held-out scores"] = best.scores
        if watch:
            extra["trajectory"] = watch.seen
        if "gradients" in run.measure and run.method.regulariser == "none":
            extra["gradient norms"] = gradient_norms(model, base, tokens, STRENGTHS, run.training, run.seed)
        return Trained(model, identity, curve_summary(course.history), data, extra)

    def test(self, run: RunConfig, trained: Trained) -> Tested:
        "All evaluation sets, of the tuned encoder and of those between base and tuned (WiSE-FT)."
        tested = self.evaluation_sets(trained.model, run)
        base = base_model(run.encoder)
        for alpha in run.method.interpolate:
            between = self.evaluation_sets(wise_ft(base, trained.model, alpha), run, suffix=f"@{alpha:g}")
            tested.metrics |= between.metrics
            tested.replicates |= between.replicates
        return tested

    load = staticmethod(training_pairs)

    def lacks(self, run: RunConfig) -> str | None:
        why = [lacking(encoder_files, run.encoder)]
        if run.data:
            why.append(lacking(self.load, run.data))
        if run.method.texts:
            why.append(lacking(self.held, run))
        if run.method.replay:
            why.append(lacking(training_texts, run.method.replay.corpus))
        return together(*why)

    def stale(self, record: dict, run: RunConfig) -> bool:
        missing = unmeasured(record, run)
        return any(not lacking(evaluation_pairs, name, run.corpus, run.eval_world) for name in missing)


@lru_cache(maxsize=4)
def training_data(task: PairTask, encoder: EncoderConfig, corpus: CorpusConfig, loss: str):
    return task.data(encoder, corpus, loss)


TASK = PairTask()
