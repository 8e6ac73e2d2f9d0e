"""From the configuration of a run to vectors of authors, metrics, and the record: which split, which loss, which settings were tried, and who is found.

Queries and targets are halves of a test, drawn by the seed of the split, the same for all methods and seeds. R@8 and
MRR are expectations over the orders of ties. An author's queries depend on each other: resamples draw authors with all
their queries, and the values for paired tests are sums over the queries of an author, scaled so that their mean is the
metric.

Other than in the paper: a student's batches are author pairs for both bases, without which B would be 0; every method
tries every setting of its configuration and keeps the one with the best R@8 on the validation texts, the first of
equals, a student after its teacher has; MRR has no cut; R@8, which the paper does not define, is 1 for a query with
some target of its author among the first eight.
"""
import copy
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from numpy.random import default_rng

from ...losses.authors import ARR, ContrastiveAuthorLoss, CorrectedTeacher, MulticlassLoss, ProductOfExperts
from ...losses.authors import history_summary
from ...losses.author_batches import AuthorCollator, AuthorPairSampler, NumberedTexts, author_ids, text_rows
from ...data.author_splits import AuthorSplit, Halves, among, leakage, leakage_aware_split, nearest_topics, paper_split
from ...data.author_splits import query_target, random_split
from ...data.authors import SOURCES, Texts, describe, load_texts, planted_texts
from ...checks import ConfigError, check_known
from ...settings import EncoderConfig
from ...encoders.tokens import embed, encoder_fingerprint, single_thread, tokenize, weights_hash
from ...encoders.loading import best_device, load_encoder
from ...trainer import QuietTrainer
from ...measures.metrics import bootstrap_weights
from ..records import TrainingFailed
from ..config import AuthorsConfig, CorpusConfig, RunConfig, TrainConfig
from .common import Task, Tested, Trained, encoder_files, lacking, parted, shares_known
from .common import together
from ...measures.rankings import reciprocal_rank
from ...measures.retrieval import first_hits, recall_at
from ..training import arguments_for, curve_summary, optimizer_for
from ...data.planted_authors import author_words


APART = .25 # share of the training authors, and of their topics, set apart where validation is across topics


def _drawn(values, seed: list[int]) -> set:
    "A quarter of the distinct values."
    distinct = sorted(set(values))
    count = round(APART * len(distinct))
    drawn = default_rng(seed).permutation(distinct)[:count]
    return set(drawn.tolist())


def _validated_across(split: AuthorSplit, seed: int) -> AuthorSplit:
    "A split whose validation texts are by authors, and on topics, that training does not have."
    train = split.train
    authors = _drawn(train.author, [seed, 5])
    topics = _drawn(train.topic, [seed, 6])
    by_author = among(train.author, authors)
    on_topic = among(train.topic, topics)
    kept = train.take(~by_author & ~on_topic)
    validation = train.take(by_author & on_topic, name=f"{train.name}, validation across topics")
    tests = dict(split.tests)
    if "iid" in tests: # its topics are those of training
        iid = tests["iid"]
        known = among(iid.topic, set(kept.topic))
        tests["iid"] = iid.take(known)
    return AuthorSplit(f"{split.name}, validation across topics", kept, validation, tests, split.counts)


PUBLISHED = {"pan20_train": ("pan20_test", {"cross": "pan21_test"})} # published in parts: validation, tests


def _read(name: str, corpus: CorpusConfig) -> Texts:
    return load_texts(name, quotes="quotes" in corpus.cleaned, signatures="signatures" in corpus.cleaned)


SCHEMES = {"paper": paper_split, "random": random_split, "aware": leakage_aware_split}


@lru_cache(maxsize=2)
def author_split(corpus: CorpusConfig) -> AuthorSplit:
    """The texts of a corpus in parts.
    Raises `MissingData`, `ConfigError` for an unknown corpus, and `ValueError` for a split that leaves nothing."""
    check_known("corpus", corpus.name, (*SOURCES, "authors"), ConfigError)
    settings = corpus.split
    if corpus.world:
        train = planted_texts(corpus.world, "train")
        cross = planted_texts(corpus.world, "cross", corpus.likeness)
        tests = {"cross": cross, "iid": planted_texts(corpus.world, "iid")}
        validation = train.take([])
        if settings:
            out, rest = parted(len(train), 1 - settings.share, [settings.seed, 5])
            validation = train.take(out, name="authors validation")
            train = train.take(rest)
        split = AuthorSplit("planted authors", train, validation, tests)
    elif settings.scheme == "published":
        check_known("corpus published in parts", corpus.name, PUBLISHED, ConfigError)
        held, tests = PUBLISHED[corpus.name]
        tests = {key: _read(name, corpus) for key, name in tests.items()}
        texts = _read(corpus.name, corpus)
        split = AuthorSplit(f"{corpus.name}, as published", texts, _read(held, corpus), tests)
    else:
        divide = SCHEMES[settings.scheme]
        texts = _read(corpus.name, corpus)
        split = divide(texts, settings.authors, settings.topics, share=settings.share, seed=settings.seed)
    if settings and settings.validation == "across":
        return _validated_across(split, settings.seed)
    return split


def learned_table(
    texts: list[str],  # its vocabulary is made of them, word by word, capitals kept
    width: int,
    seed: int = 0,     # of the vectors, N(0, .1²)
):
    "A SentenceTransformer that averages random word vectors; words it does not know are one."
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["[PAD]", "[UNK]", *sorted({word for text in texts for word in text.split()})]
    drawn = default_rng([seed, 9]).normal(size=(len(words), width))
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    table = StaticEmbedding(tokenizer, embedding_weights=.1 * drawn.astype("float32"))
    return SentenceTransformer(modules=[table], device="cpu")


@lru_cache(maxsize=2)
def _loaded(encoder: EncoderConfig):
    return load_encoder(encoder, best_device())


def beginning(
    encoder: EncoderConfig,
    corpus: CorpusConfig,
    seed: int = 0, # of a `learned` table
): # a new model each time
    "The model as it is before any training. Raises `EncoderError` or `MissingData`."
    if encoder.name != "learned":
        return copy.deepcopy(_loaded(encoder))
    texts = author_split(corpus).train.text
    return learned_table(texts, encoder.embedding, seed).to(best_device())


@lru_cache(maxsize=6)
def _tokens(encoder: EncoderConfig, corpus: CorpusConfig, part: str):
    texts = author_split(corpus).parts()[part].text
    return tokenize(beginning(encoder, corpus), texts, encoder.max_length)


def _vectors(model, encoder: EncoderConfig, corpus: CorpusConfig, part: str): # (n, d) of the part's texts
    return embed(model, _tokens(encoder, corpus, part), encoder.dtype)


@lru_cache(maxsize=2)
def topic_rows(corpus: CorpusConfig):
    "Rows of the topic model, TF-IDF, for the training texts, which it was fitted to."
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
    "The loss that a method is trained with. Raises `ValueError` for a student without a teacher, and as the losses do."
    if method.student != "none" and teacher is None:
        raise ValueError("a student needs the vectors of its teacher")
    if method.student == "corrected":
        return CorrectedTeacher(model, NumberedTexts(rows(), labels), teacher, temperature, method.gamma)
    if method.student == "arr":
        return ARR(model, NumberedTexts(rows(), labels), teacher, temperature, method.bias, method.variant)
    if method.gamma:
        return ProductOfExperts(model, NumberedTexts(rows(), labels), temperature, method.gamma)
    if method.base == "mll":
        return MulticlassLoss(model, int(labels.max()) + 1, seed)
    return ContrastiveAuthorLoss(model, temperature)


def fit_authors(
    model,                  # trained in place
    loss,                   # from `author_loss`
    tokens,                 # of the training texts
    labels: np.ndarray,     # (n,) their author ids
    training: TrainConfig,
    epochs: int,            # passes over the authors, two texts each; over the texts for `MulticlassLoss`
    seed: int = 0,          # of batches and dropout
    dtype: str = "fp32",
):
    """Train with sentence-transformers' trainer.
    Raises `TrainingFailed` when the loss is no longer finite, `ValueError` when fewer than two authors have two texts."""
    from datasets import Dataset
    changes = {"num_train_epochs": epochs}
    if not isinstance(loss, MulticlassLoss):
        changes["batch_sampler"] = AuthorPairSampler
    rows = Dataset.from_dict({"row": range(len(labels)), "label": labels})
    with tempfile.TemporaryDirectory() as folder, single_thread():
        args = arguments_for(training, folder, model, seed, dtype, **changes)
        trainer = QuietTrainer(
            model=model, args=args, loss=loss, train_dataset=rows, data_collator=AuthorCollator(tokens, labels),
            optimizer_cls_and_kwargs=optimizer_for(training))
        try:
            trainer.train()
        except ValueError as e:
            if "is not finite" in str(e): # the losses refuse cosines that are not numbers
                raise TrainingFailed(len(loss.history) + 1, str(e)) from None
            raise
    for step, seen in enumerate(loss.history, 1):
        value = float(seen["loss"])
        if not np.isfinite(value):
            raise TrainingFailed(step, f"the loss is {value}")
    return model.eval()


NEAR = 8 # neighbors that are looked at
RESAMPLED = ("r8", "mrr", "false topic share") # metrics with bootstrap replicates


@dataclass(frozen=True)
class Found:
    "What retrieval came to: metrics, their replicates, and R@8 by author."
    metrics: dict[str, float]
    replicates: dict[str, list[float]]
    authors: list[float] # (authors who ask,) mean: R@8


def neighbors(texts: Texts, halves: Halves, nearest: torch.Tensor) -> dict[str, np.ndarray]: # (q,) each
    """Shares of the nearest targets that are on the query's topic; of those by other authors, NaN for queries that have
    none."""
    topic = author_ids(np.array(texts.topic, dtype=object))
    author = halves.author
    found = halves.targets[nearest.numpy()]
    asked = halves.queries[:, None]
    same = topic[found] == topic[asked]
    false = author[found] != author[asked]
    false_share = (same & false).sum(1) / false.sum(1).clip(1)
    on_topic = np.bincount(topic[halves.targets], minlength=topic.max() + 1)
    return {
        "topic share": same.mean(1),
        "false topic share": np.where(false.any(1), false_share, np.nan),
        "topic chance": on_topic[topic[halves.queries]] / len(halves.targets), # of all targets
    }


def evaluate_authors(
    rows,                  # (n, d) of the texts, of length 1 or 0: a torch matrix, or a scipy sparse one
    texts: Texts,
    halves: Halves,        # of them
    replicates: int = 100, # resamples of the authors, the same for all methods
) -> Found:
    "R@8, MRR and the topics of the neighbors."
    q = len(halves.queries)
    nearest = min(NEAR, len(halves.targets))
    asked = rows[halves.queries]
    offered = rows[halves.targets]
    hits = first_hits(asked, offered, halves.relevance(), nearest, progress=q > 20_000)
    values = {"r8": recall_at(hits, NEAR), "mrr": reciprocal_rank(hits.above, hits.tied, hits.right)}
    if texts.topic is not None:
        values |= neighbors(texts, halves, hits.nearest)

    asks = halves.author[halves.queries]
    weights = bootstrap_weights(q, replicates, groups=asks).astype(float)
    metrics = {"queries": float(q), "targets": float(len(halves.targets))}
    resampled = {}
    for key, value in values.items():
        counts = ~np.isnan(value)
        own = weights[:, counts]
        if not counts.any():
            continue
        ones = np.ones(counts.sum())
        metrics[key] = float(ones @ value[counts] / ones.sum())
        if key in RESAMPLED and (own.sum(1) > 0).all():
            resampled[key] = np.round(own @ value[counts] / own.sum(1), 4).tolist()
    sums = np.bincount(asks, values["r8"])[np.unique(asks)]
    by_author = sums * len(sums) / len(asks) # their mean is that of the queries
    return Found(metrics, resampled, np.round(by_author, 3).tolist())


@dataclass
class Tuned:
    "A trained model, and how it came about."
    model: object
    setting: dict[str, float]                      # learning rate, temperature
    tried: list[dict] = field(default_factory=list) # settings with R@8 on the validation texts
    history: list[dict] = field(default_factory=list) # of the kept one, a batch each
    teacher: dict | None = None                    # the teacher's setting


def settings(training: TrainConfig, method: AuthorsConfig) -> list[tuple[float, float]]: # learning rate, temperature
    "What a method tries, in order. The classifier of MLL has no temperature."
    rates = (training.learning_rate, *training.further_rates)
    temperatures = (training.temperature, *training.further_temperatures)
    if method.base == "mll" and method.student == "none":
        temperatures = temperatures[:1]
    return [(rate, temperature) for rate in rates for temperature in temperatures]


def _fitted(corpus, encoder, training, method, seed, temperature, teacher): # teacher: (texts, d) or None
    "A model trained with one setting, and the history of its loss. Raises `TrainingFailed`."
    model = beginning(encoder, corpus, seed)
    labels = author_ids(author_split(corpus).train.author)
    tokens = _tokens(encoder, corpus, "train")
    loss = author_loss(method, model, labels, temperature, lambda: topic_rows(corpus), teacher, seed)
    of_students = training.student_epochs if method.student != "none" else None
    epochs = method.epochs or of_students or training.epochs
    fit_authors(model, loss, tokens, labels, training, epochs, seed, encoder.dtype)
    return model, loss.history


def tuned(
    corpus: CorpusConfig, encoder: EncoderConfig, training: TrainConfig, method: AuthorsConfig, seed: int,
) -> Tuned:
    "Train a method, with every setting it may try. Raises `TrainingFailed` when none of them ends in finite numbers."
    teacher = None
    taught_by = None
    if method.student != "none":
        base = _teacher(corpus, encoder, training, AuthorsConfig(base=method.base), seed)
        teacher = _vectors(base.model, encoder, corpus, "train")
        taught_by = base.setting
    options = settings(training, method)
    tried = []
    failures = []
    best = None
    most = -1.
    for rate, temperature in options:
        noted = {"learning_rate": rate, "temperature": temperature}
        setting = dict(noted)
        tried.append(noted)
        own = training.model_copy(update={"learning_rate": rate})
        try:
            model, history = _fitted(corpus, encoder, own, method, seed, temperature, teacher)
        except TrainingFailed as e:
            failures.append(e)
            noted["failed"] = str(e)
            continue
        score = 0.
        if len(options) > 1:
            texts = author_split(corpus).validation
            halves = query_target(texts, corpus.split.seed)
            rows = _vectors(model, encoder, corpus, "validation")
            score = evaluate_authors(rows, texts, halves, 2).metrics["r8"]
            noted["r8"] = round(score, 5)
        if score > most:
            most = score
            best = Tuned(model, setting, tried, history, taught_by)
    if best is None:
        raise failures[-1]
    return best


_teacher = lru_cache(maxsize=6)(tuned) # two bases, three seeds: as many as a table's students take in turn


PARTS = {"train": "Training", "cross": "Cross-topic test", "iid": "In-distribution-topic test"}


def counts(corpus: CorpusConfig) -> dict[str, float]: # `Training samples` and so on -> number
    """How many texts, authors and topics the parts have; `leakage cross` and `leakage iid` where they can be measured.
    Raises `MissingData`."""
    split = author_split(corpus)
    parts = split.parts()
    sizes = split.table()
    out = {}
    for key, name in PARTS.items():
        texts = parts.get(key)
        if not texts:
            continue
        found = sizes.loc[key]
        out |= {f"{name} {what}": float(n) for what, n in found.items() if n}
        if texts.topic and key != "train":
            with suppress(ValueError): # topics that cannot be told from authors
                out[f"leakage {key}"] = leakage(split.train, texts)
    return out


def excerpt(texts: list[str], words: list[str], length: int = 12) -> str: # words
    "The stretch with the most different words of those asked for, the first of several, anywhere in the texts."
    best = " ".join(texts[0].split()[:length])
    most = 0
    for text in texts:
        told = text.split()
        bare = [word.strip(".,;:!?()\"'*").lower() for word in told] # without the marks around it
        for start in np.flatnonzero(among(bare, set(words))):
            stretch = slice(start, start + length)
            found = set(bare[stretch]) & set(words)
            if len(found) > most:
                most = len(found)
                best = " ".join(told[stretch])
    return best


def leaks(corpus: CorpusConfig) -> list[dict]: # test topic, training topic, cosine, words, test, training
    "The pairs of topics across a split that are most alike, with an excerpt of each. Raises as `nearest_topics`."
    split = author_split(corpus)
    out = []
    for asked, trained, cosine, shared in nearest_topics(split.train, split.tests["cross"], 5).itertuples(index=False):
        words = shared.split(", ")
        leak = {"test topic": asked, "training topic": trained, "cosine": round(cosine, 4), "words": words}
        for side, topic, texts in (("test", asked, split.tests["cross"]), ("training", trained, split.train)):
            leak[side] = excerpt([text for text, on in zip(texts.text, texts.topic) if on == topic], words)
        out.append(leak)
    return out


MOST = 2000 # authors: larger sets do not leave the values of single authors in a record


def _about(texts: Texts) -> dict: # for the record
    "What a record says of some texts."
    numbers = {**texts.counts, **describe(texts)}
    whole = {key: value for key, value in numbers.items() if value == int(value)}
    return {"fingerprint": texts.fingerprint, "counts": whole}


class AuthorsTask(Task):
    "Who wrote it? Texts by authors on topics."
    def train(self, run: RunConfig) -> Trained: # its model is a function: part of the split -> rows
        "Raises `TrainingFailed`, `MissingData` (its training data), `EncoderError` or `ConfigError`."
        corpus = run.data
        split = author_split(corpus)
        method = run.method.authors or AuthorsConfig()
        about = {f"train {corpus.name}": _about(split.train)}
        if run.evaluate == ("counts",):
            return Trained(None, "none: texts are counted", data=about)
        if method.counted: # a planted language has function words of its own
            words = author_words(corpus.world).style.tolist() if corpus.world else None
            rows = text_rows(method.counted, split.train.text, words)
            return Trained(
                lambda part: rows(split.parts()[part].text), f"none: {method.counted} of the training texts", data=about)
        if run.encoder.name == "learned":
            identity = weights_hash(beginning(run.encoder, corpus, run.seed)).hexdigest()
        else:
            identity = encoder_fingerprint(_loaded(run.encoder))
        curve = {}
        told = {}
        if run.method.trained:
            is_teacher = method == AuthorsConfig(base=method.base) # a base that students learn from
            train = _teacher if is_teacher else tuned
            done = train(corpus, run.encoder, run.training, method, run.seed)
            model = done.model
            curve = curve_summary(done.history)
            has_bias = any("B" in step for step in done.history)
            summary = history_summary(done.history, done.setting["temperature"] if has_bias else None)
            history = {key: round(value, 6) for key, value in summary.items() if np.isfinite(value)}
            told = {"setting": done.setting, "tried": done.tried, "history": history, "steps": len(done.history)}
            if done.teacher:
                told["teacher"] = done.teacher
        else:
            model = beginning(run.encoder, corpus, run.seed)
        return Trained(lambda part: _vectors(model, run.encoder, corpus, part), identity, curve, about, told)

    def test(self, run: RunConfig, trained: Trained) -> Tested:
        corpus = run.data
        parts = author_split(corpus).parts()
        seed = corpus.split.seed if corpus.split else 0
        tested = Tested()
        authors = {}
        for name in run.evaluate:
            if name == "counts":
                tested.metrics[name] = counts(corpus)
                continue
            check_known("evaluation set", name, parts, ConfigError)
            texts = parts[name]
            found = evaluate_authors(trained.model(name), texts, query_target(texts, seed))
            tested.metrics[name] = found.metrics
            tested.data[f"test {name}"] = _about(texts)
            if "known texts" in run.measure:
                tested.metrics[name] |= shares_known(author_split(corpus).train.text, texts.text)
            if name == "validation":
                continue
            tested.replicates[name] = found.replicates
            if len(found.authors) <= MOST:
                authors[name] = found.authors
        if "cases" in run.measure:
            tested.extra["leaks"] = leaks(corpus)
        if run.method.trained and authors:
            tested.extra["questions"] = authors
        return tested

    def lacks(self, run: RunConfig) -> str | None:
        counts_alone = run.method.authors is not None or run.evaluate == ("counts",)
        embeds = run.method.trained or not counts_alone
        why = lacking(encoder_files, run.encoder) if embeds else None
        return together(why, lacking(author_split, run.data))


TASK = AuthorsTask()
