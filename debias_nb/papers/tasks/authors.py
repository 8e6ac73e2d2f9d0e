"""From the configuration of a run to vectors of authors, metrics, and the record.

The record says which split, which loss, which settings were tried, and who is found. Queries and targets are halves of
a test, drawn by the seed of the split, the same for all methods and seeds. R@8 and MRR are expectations over the orders
of ties. An author's queries depend on each other: resamples draw authors with all their queries, and the values for
paired tests are sums over the queries of an author, scaled so that their mean is the metric.

Other than in the paper: a student's batches are author pairs for both bases, without which B would be 0; every method
tries every setting of its configuration and keeps the one with the best R@8 on the validation texts, the first of
equals, a student after its teacher has; MRR has no cut; R@8, which the paper does not define, is 1 for a query with
some target of its author among the first eight.
"""
import copy
import itertools
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache, partial

import numpy as np
import pandas as pd
import torch
from numpy.random import default_rng
from sentence_transformers import SentenceTransformer
from transformers import TrainerCallback

from ...losses.author_losses import ContrastiveAuthorLoss, MulticlassLoss
from ...losses.authors import ARR, CorrectedTeacher, ProductOfExperts
from ...losses.author_batches import AuthorCollator, AuthorPairSampler, AuthorTextSampler, NumberedTexts, author_ids
from ...losses.author_batches import text_rows
from ..data.author_splits import AuthorSplit, Halves, isin, leakage, leakage_aware_split, nearest_topics, paper_split
from ..data.author_splits import query_target
from ..data.authors import Texts, author_corpora, describe, load_texts, planted_texts
from ...checks import ConfigError, check_known
from ...settings import EncoderConfig
from ...encoders.tokens import embed, encoder_fingerprint, tokenize, weights_hash
from ...encoders.loading import best_device
from ...measures.metrics import bootstrap_weights
from ...runs.records import TrainingFailed
from ...runs.config import RunConfig
from ..settings.authors import AuthorsConfig, AuthorsCorpus, AuthorsMethod
from ...runs.tasks import Task, Tested, Trained, base_model, encoder_files, overlap_shares, random_parts
from ...measures.rankings import reciprocal_rank
from .retrieval import first_hits, recall_at
from ...runs.pair_batches import batch_columns
from ...runs.training import MatchingTrainer, curve_summary, history_summary, train_with
from ..worlds.planted_authors import author_words


PUBLISHED_PARTS = {"pan20_train": ("pan20_test", {"cross": "pan21_test"})} # published in parts: validation, tests


SCHEMES = {
    "paper": paper_split, "random": partial(paper_split, at_random=True), "aware": leakage_aware_split}


@lru_cache(maxsize=2)
def author_split(corpus: AuthorsCorpus) -> AuthorSplit:
    """Divide the texts of a corpus into parts.

    Raise `MissingData`, `ConfigError` for an unknown corpus, and `ValueError` for a split that leaves nothing.
    """
    check_known("corpus", corpus.name, (*author_corpora(), "authors"), ConfigError)
    settings = corpus.split

    def read(name):
        return load_texts(name, "quotes" in corpus.cleaned, "signatures" in corpus.cleaned, require_hash=True)

    if corpus.world:
        train = planted_texts(corpus.world, "train")
        cross = planted_texts(corpus.world, "cross", corpus.likeness)
        tests = {"cross": cross, "iid": planted_texts(corpus.world, "iid")}
        validation = train.take([])
        if settings:
            out, rows = random_parts(len(train), 1 - settings.share, [settings.seed, 5])
            validation = train.take(out, name="authors validation")
            train = train.take(rows)
        return AuthorSplit("planted authors", train, validation, tests)
    if settings.scheme == "published":
        check_known("corpus published in parts", corpus.name, PUBLISHED_PARTS, ConfigError)
        validation_name, tests = PUBLISHED_PARTS[corpus.name]
        tests = {key: read(name) for key, name in tests.items()}
        return AuthorSplit(f"{corpus.name}, as published", read(corpus.name), read(validation_name), tests)
    divide = SCHEMES[settings.scheme]
    return divide(read(corpus.name), settings.authors, settings.topics, share=settings.share, seed=settings.seed)


def word_table(
    words: list[str], # distinct, capitals kept
    width: int,
    rng: np.random.Generator, # of the vectors, N(0, .1²)
):
    "Return a SentenceTransformer that averages random word vectors; words it lacks share one."
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["[PAD]", "[UNK]", *words]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    vectors = rng.normal(size=(len(words), width)).astype("float32")
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=.1 * vectors)], device="cpu")


def learned_table(texts: list[str], width: int, seed: int = 0):
    "Return a `word_table` of the words of some texts."
    words = {word for text in texts for word in text.split()}
    return word_table(sorted(words), width, default_rng([seed, 9]))


def beginning(
    encoder: EncoderConfig,
    corpus: AuthorsCorpus,
    seed: int = 0, # of a `learned` table
): # a new model each time
    "Return the model as it is before any training. Raise `EncoderError` or `MissingData`."
    if encoder.name != "learned":
        return copy.deepcopy(base_model(encoder))
    texts = author_split(corpus).train.text
    return learned_table(texts, encoder.embedding, seed).to(best_device())


@lru_cache(maxsize=6)
def _tokens(encoder: EncoderConfig, corpus: AuthorsCorpus, part: str):
    texts = author_split(corpus).parts()[part].text
    return tokenize(beginning(encoder, corpus), texts, encoder.max_length)


def _vectors(model, run: RunConfig, part: str): # (n, d) of the part's texts
    return embed(model, _tokens(run.encoder, run.data, part), run.encoder.dtype)


@lru_cache(maxsize=2)
def topic_rows(corpus: AuthorsCorpus):
    "Return rows of the topic model, TF-IDF, for the training texts, which it was fitted to."
    texts = author_split(corpus).train.text
    return text_rows("tfidf", texts)(texts)


def author_loss(
    method: AuthorsConfig,
    model,
    labels: np.ndarray,       # (n,) author ids of the training texts
    temperature: float,       # tau > 0
    rows=None,                # (n, V) of the topic model; a function that gives them
    teacher=None,             # (n, d) vectors of the training texts, for a student
    seed: int = 0,            # of a classifier's first weights
):
    "Return the loss of a method. Raise `ValueError` as the losses do."
    if method.student == "corrected":
        return CorrectedTeacher(model, NumberedTexts(rows(), labels), teacher, temperature, method.gamma)
    if method.student == "arr":
        return ARR(model, NumberedTexts(rows(), labels), teacher, temperature, method.bias, method.variant)
    if method.gamma:
        return ProductOfExperts(model, NumberedTexts(rows(), labels), temperature, method.gamma)
    if method.base == "mll":
        return MulticlassLoss(model, int(labels.max()) + 1, seed)
    return ContrastiveAuthorLoss(model, temperature)


class HeldOutLoss(TrainerCallback):
    "Callback that notes a loss on one batch of held-out texts, before the training and after each epoch."
    def __init__(self, loss, batch: dict): # batch: of an `AuthorCollator`, or empty: nothing is noted
        self.loss = loss
        self.batch = batch
        self.values = []

    def note(self, *_, **__):
        if not self.batch:
            return
        self.loss.model.eval()
        with torch.no_grad():
            value = self.loss(batch_columns(self.batch), self.batch["label"])
        self.values.append(round(float(value), 5))

    on_train_begin = on_epoch_end = note


def held_out_batch(run: RunConfig) -> dict: # empty where there are none
    "Return the validation texts by authors of training as one batch."
    split = author_split(run.corpus)
    labels = pd.Index(np.unique(split.train.author)).get_indexer(split.validation.author) # -1: of another author
    rows = np.flatnonzero(labels >= 0)
    if not len(rows):
        return {}
    tokens = _tokens(run.encoder, run.corpus, "validation")
    return AuthorCollator(tokens, labels)([{"row": row} for row in rows.tolist()])


def fit_authors(
    model,              # trained in place
    loss,               # from `author_loss`
    tokens,             # of the training texts
    labels: np.ndarray, # (n,) their author ids
    run: RunConfig,     # an epoch passes over what `epoch_of` says; over the texts for `MulticlassLoss`
    *callbacks,
):
    """Train with sentence-transformers' trainer.

    Raise `TrainingFailed` if the loss is not finite, `ValueError` if fewer than two authors have two texts.
    """
    over_texts = run.training.epoch_of == "texts"
    sampler = {"dataloader_drop_last": over_texts}
    if not isinstance(loss, MulticlassLoss):
        sampler["batch_sampler"] = AuthorTextSampler if over_texts else AuthorPairSampler
    rows = {"row": range(len(labels)), "label": labels}
    try:
        train_with(
            MatchingTrainer, model, rows, AuthorCollator(tokens, labels), run.training, run.seed,
            run.encoder.dtype, sampler, loss=loss, callbacks=[*callbacks])
    except ValueError as e:
        if "is not finite" in str(e): # the losses refuse cosines that are not numbers
            raise TrainingFailed(len(loss.history) + 1, str(e)) from None
        raise


NEAR = 8 # neighbors that are looked at
REPLICATE_METRICS = ("r8", "mrr", "false topic share") # metrics with bootstrap replicates


def neighbor_shares(texts: Texts, halves: Halves, nearest: torch.Tensor) -> dict[str, np.ndarray]: # (q,) each
    "Compute the fraction of nearest targets on the query's topic, and of those by other authors, NaN where none are."
    topic = author_ids(np.array(texts.topic, dtype=object))
    author = halves.author
    nearest_texts = halves.targets[nearest.numpy()]
    query_texts = halves.queries[:, None]
    is_on_topic = topic[nearest_texts] == topic[query_texts]
    false = author[nearest_texts] != author[query_texts]
    false_share = (is_on_topic & false).sum(1) / false.sum(1).clip(1)
    on_topic = np.bincount(topic[halves.targets], minlength=topic.max() + 1)
    return {
        "topic share": is_on_topic.mean(1),
        "false topic share": np.where(false.any(1), false_share, np.nan),
        "topic chance": on_topic[topic[halves.queries]] / len(halves.targets), # of all targets
    }


def evaluate_authors(
    rows,                  # (n, d) of the texts, of length 1 or 0: a torch matrix, or a scipy sparse one
    texts: Texts,
    halves: Halves,        # of them
    replicates: int = 100, # resamples of the authors, the same for all methods
) -> tuple[dict[str, float], dict[str, list[float]], list[float]]: # metrics, replicates, R@8 by author who asks
    "Compute R@8, MRR and the topics of the neighbors."
    q = len(halves.queries)
    nearest = min(NEAR, len(halves.targets))
    query_rows = rows[halves.queries]
    target_rows = rows[halves.targets]
    hits = first_hits(query_rows, target_rows, halves.relevance(), nearest)
    values = {"r8": recall_at(hits, NEAR), "mrr": reciprocal_rank(hits.n_better, hits.tied, hits.right)}
    if texts.topic is not None:
        values |= neighbor_shares(texts, halves, hits.nearest)

    asks = halves.author[halves.queries]
    weights = bootstrap_weights(q, replicates, groups=asks).astype(float)
    metrics = {"queries": float(q), "targets": float(len(halves.targets))}
    replicates_of = {}
    for key, value in values.items():
        is_known = ~np.isnan(value)
        known = value[is_known]
        if not len(known):
            continue
        metrics[key] = float(np.ones(len(known)) @ known / len(known))
        known_weights = weights[:, is_known]
        sizes = known_weights.sum(1)
        if key in REPLICATE_METRICS and sizes.all():
            replicates_of[key] = np.round(known_weights @ known / sizes, 4).tolist()
    sums = np.bincount(asks, values["r8"])[np.unique(asks)]
    by_author = sums * len(sums) / len(asks) # their mean is that of the queries
    return metrics, replicates_of, np.round(by_author, 3).tolist()


def attempts(run: RunConfig) -> list[RunConfig]:
    "Return a run for each setting that a method tries, in order. The classifier of MLL has no temperature."
    method = run.method.authors
    training = run.training
    temperatures = (training.temperature, *training.further_temperatures)
    if method.base == "mll" and method.student == "none":
        temperatures = temperatures[:1]
    of_students = training.student_epochs if method.student != "none" else None
    epochs = method.epochs or of_students or training.epochs
    settings = itertools.product((training.learning_rate, *training.further_rates), temperatures)
    return [run.model_copy(update={"training": training.model_copy(
        update={"learning_rate": rate, "temperature": temperature, "epochs": epochs})})
            for rate, temperature in settings]


def _fit(run: RunConfig, teacher):
    """Train a model with one setting; return it, the history of its loss, and its held-out loss, of a base loss.

    Raise `TrainingFailed`."""
    model = beginning(run.encoder, run.corpus, run.seed)
    labels = author_ids(author_split(run.corpus).train.author)
    tokens = _tokens(run.encoder, run.corpus, "train")
    loss = author_loss(
        run.method.authors, model, labels, run.training.temperature, lambda: topic_rows(run.corpus), teacher, run.seed)
    held_out = HeldOutLoss(loss, {} if loss.numbered else held_out_batch(run))
    fit_authors(model, loss, tokens, labels, run, held_out)
    return model, loss.history, held_out.values


def chosen_training(run: RunConfig) -> tuple[object, list[dict], dict]: # model, history of its loss, record of it
    "Train a method with every setting it may try. Raise `TrainingFailed` if none of them ends in finite numbers."
    teacher = None
    facts = {}
    if run.method.authors.student != "none":
        base, _, choice = _teacher(teacher_of(run))
        teacher = _vectors(base, run, "train")
        facts["teacher"] = choice["setting"]
    options = attempts(run)
    trials = facts["tried"] = []
    best = None
    for option in options:
        setting = {"learning_rate": option.training.learning_rate, "temperature": option.training.temperature}
        trials.append(setting)
        try:
            model, history, losses = _fit(option, teacher)
        except TrainingFailed as e:
            failure = e
            trials[-1] = setting | {"failed": str(e)}
            continue
        score = 0.
        if len(options) > 1:
            texts = author_split(run.corpus).validation
            halves = query_target(texts, run.corpus.split.seed)
            metrics, *_ = evaluate_authors(_vectors(model, run, "validation"), texts, halves, 2)
            score = metrics["r8"]
            trials[-1] = setting | {"r8": round(score, 5)}
        if best is None or score > best[0]:
            best = score, model, history, {"setting": setting} | ({"held out": losses} if losses else {})
    if best is None:
        raise failure
    _, model, history, kept = best
    return model, history, facts | kept


_teacher = lru_cache(maxsize=6)(chosen_training) # two bases, three seeds: as many as a table's students take in turn


def teacher_of(run: RunConfig) -> RunConfig:
    "Return the run of the base that a student learns from: the same for all, and for the row of that base."
    method = AuthorsMethod(name="teacher", authors=AuthorsConfig(base=run.method.authors.base))
    return run.model_copy(update={"experiment": "teacher", "method": method, "evaluate": (), "measure": ()})


PART_TITLES = {"train": "Training", "cross": "Cross-topic test", "iid": "In-distribution-topic test"}


def counts(corpus: AuthorsCorpus) -> dict[str, float]: # `Training samples` and so on -> number
    """Count the texts, authors and topics of the parts; `leakage cross` and `leakage iid` where they can be measured.

    Raise `MissingData`.
    """
    split = author_split(corpus)
    out = {}
    for key, sizes in split.table().drop(index="validation").iterrows():
        out |= {f"{PART_TITLES[key]} {noun}": float(n) for noun, n in sizes.items()}
        if key != "train":
            with suppress(ValueError): # topics that coincide with authors
                out[f"leakage {key}"] = leakage(split.train, split.tests[key])
    return out


EXCERPT = 12 # words


def excerpt(texts: list[str], words: list[str]) -> str:
    "Return the stretch with the most of the given words, the first of several, anywhere in the texts."
    stretches = {" ".join(texts[0].split()[:EXCERPT]): 0} # where no text has one of the words
    for text in texts:
        tokens = text.split()
        bare = [word.strip(".,;:!?()\"'*").lower() for word in tokens] # without the marks around it
        for start in np.flatnonzero(isin(bare, set(words))):
            stretch = slice(start, start + EXCERPT)
            stretches[" ".join(tokens[stretch])] = len({*bare[stretch]} & {*words})
    return max(stretches, key=stretches.get)


def leaks(corpus: AuthorsCorpus) -> list[dict]: # test topic, training topic, cosine, words, test, training
    "Return the pairs of topics across a split that are most alike, with an excerpt of each. Raise as `nearest_topics`."
    split = author_split(corpus)
    out = []
    test = split.tests["cross"]
    for test_topic, training_topic, cosine, shared in nearest_topics(split.train, test, 5).itertuples(index=False):
        words = shared.split(", ")
        leak = {"test topic": test_topic, "training topic": training_topic, "cosine": round(cosine, 4), "words": words}
        for side, topic, texts in (("test", test_topic, test), ("training", training_topic, split.train)):
            table = texts.frame()
            leak[side] = excerpt(table.text[table.topic == topic].tolist(), words)
        out.append(leak)
    return out


MOST_AUTHORS = 2000 # authors: larger sets do not leave the values of single authors in a record


def _data_facts(texts: Texts) -> dict:
    "Describe some texts for the record."
    numbers = {**texts.counts, **describe(texts)}
    counts = {key: value for key, value in numbers.items() if value == int(value)}
    return {"fingerprint": texts.fingerprint, "counts": counts}


class AuthorsTask(Task): # its models are encoders; of what is counted, functions: texts -> rows
    "Task of texts by authors on topics, which asks who wrote a text."
    def data(self, run: RunConfig) -> tuple[AuthorSplit, dict]:
        split = author_split(run.data)
        return split, {f"train {run.data.name}": _data_facts(split.train)}

    def train(self, run: RunConfig) -> Trained:
        corpus = run.data
        split, facts = self.data(run)
        kind = run.method.authors and run.method.authors.counted
        if run.evaluate == ("counts",):
            return Trained(None, "none: texts are counted", data=facts)
        if kind: # a planted language has function words of its own
            words = author_words(corpus.world).style.tolist() if corpus.world else None
            rows = text_rows(kind, split.train.text, words)
            return Trained(rows, f"none: {kind} of the training texts", data=facts)
        model = beginning(run.encoder, corpus, run.seed)
        if run.encoder.name == "learned":
            identity = weights_hash(model).hexdigest()
        else:
            identity = encoder_fingerprint(model)
        curve = {}
        extra = {}
        if run.method.trained:
            is_teacher = run.method.authors == teacher_of(run).method.authors
            model, history, extra = _teacher(teacher_of(run)) if is_teacher else chosen_training(run)
            curve = curve_summary(history)
            summary = history_summary(history, extra["setting"]["temperature"])
            values = {key: round(value, 6) for key, value in summary.items() if np.isfinite(value)}
            extra = extra | {"history": values, "steps": len(history)}
        return Trained(model, identity, curve, facts, extra)

    def test_set(self, run: RunConfig, name: str) -> tuple:
        return author_split, (run.data,)

    def evaluate(self, model, run: RunConfig, name: str, test: AuthorSplit, results: Tested) -> None:
        corpus = run.data
        if name == "counts":
            results.metrics[name] = counts(corpus)
            return
        parts = test.parts()
        check_known("evaluation set", name, parts, ConfigError)
        texts = parts[name]
        rows = model(texts.text) if run.method.is_counted else _vectors(model, run, name)
        halves = query_target(texts, corpus.split.seed if corpus.split else 0)
        results.metrics[name], replicates, by_author = evaluate_authors(rows, texts, halves)
        results.data[f"test {name}"] = _data_facts(texts)
        if "known texts" in run.measure:
            results.metrics[name] |= overlap_shares(test.train.text, texts.text)
        if name == "validation":
            return
        results.replicates[name] = replicates
        if run.method.trained and len(by_author) <= MOST_AUTHORS:
            results.extra.setdefault("questions", {})[name] = by_author

    def test(self, model, run: RunConfig) -> Tested:
        results = super().test(model, run)
        if "cases" in run.measure:
            results.extra["leaks"] = leaks(run.data)
        return results

    def needs(self, run: RunConfig) -> Iterator[tuple]:
        counts_alone = run.method.authors is not None or run.evaluate == ("counts",)
        if run.method.trained or not counts_alone:
            yield encoder_files, run.encoder
        yield author_split, run.data


TASK = AuthorsTask()
