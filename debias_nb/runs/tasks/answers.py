"""From the configuration of a run to trained model, metrics, and the record: which candidates, disturbed how, and what is written down.

Two runs can only be compared when they saw the same candidates, disturbed in the same way. So what disturbs, which
labels are switched and which texts are perturbed, belongs to the corpus and not to the run's seed. Of an evaluation
set called `… perturbed` a character is swapped, inserted or deleted in 30% of the candidates (Section 5.3 of the
paper); never in the question, which all candidates share. What is not trained counts shared words.
"""
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain

import numpy as np

from ..answer_training import REPLICATES, answer_model, answer_scores, answer_tokens, diary_summary
from ..answer_training import evaluate_answers, train_stages
from ...checks import ConfigError, check_known
from ...settings import EncoderConfig
from ...encoders.tokens import weights_hash
from ...encoders.loading import best_device
from ...measures.metrics import rank_metrics
from ...data.answers import SOURCES, Answers, flip_labels, load_answers, misled, perturb, planted_answers
from ...data.answers import shared_words
from ...data.registry import MissingData
from ..config import CorpusConfig, RunConfig, TransferConfig
from ..behavior import BehaviorTests, behavior_metrics, behavior_tests
from .common import Task, Tested, Trained, encoder_files, lacking, shares_known, together
from .common import unmeasured
from ..training import curve_summary


def _part(corpus: CorpusConfig, key: str, part: str) -> Answers:
    "A part of a corpus; of the synthetic dataset, whose test in distribution is called `iid`."
    if not corpus.world:
        return load_answers(key, part)
    return planted_answers(corpus.world, "iid" if part == "test" else part)


@lru_cache(maxsize=4)
def training_answers(
    corpus: CorpusConfig,
    part: str = "train", # `train`, or `dev`, which is never disturbed
) -> Answers:
    """Candidates to train or to choose by; in `train`, the corpus's share `flip` of the labels is switched.
    Raises `MissingData`, or `ConfigError` for an unknown corpus."""
    check_known("corpus", corpus.name, (*SOURCES, "answers"), ConfigError)
    answers = _part(corpus, corpus.name, part)
    if corpus.flip and part == "train":
        return flip_labels(answers, corpus.flip, 0)
    return answers


PERTURBED = .3 # share of candidates that are perturbed


@lru_cache(maxsize=8)
def evaluation_answers(
    name: str,            # a corpus, `dev` of the one trained on, or a split of the planted world; ` perturbed` behind it
    corpus: CorpusConfig, # that a run is trained on
) -> Answers:
    "An evaluation set. Raises `MissingData`, or `ConfigError` for an unknown name."
    plain = name.removesuffix(" perturbed")
    if plain != name:
        answers = evaluation_answers(plain, corpus)
        changed = perturb(answers.answers, PERTURBED, 0)
        counts = answers.counts | {"perturbed candidates": len({edit.text for edit in changed.edits})}
        return replace(answers, name=f"{answers.name} perturbed", answers=changed.texts, counts=counts)
    if name == "dev":
        return training_answers(corpus, "dev")
    known = ("iid", "neutral", "shifted") if corpus.world else tuple(SOURCES)
    check_known("evaluation set", name, known, ConfigError)
    if corpus.world:
        return planted_answers(corpus.world, name)
    if "test" not in SOURCES[name].files:
        raise ConfigError(f"{name} has no test part")
    return load_answers(name, "test")


@lru_cache(maxsize=2)
def behavior_of(
    name: str,            # of an evaluation set
    corpus: CorpusConfig,
) -> BehaviorTests:
    "The behavior tests of an evaluation set. Raises as `evaluation_answers`."
    return behavior_tests(evaluation_answers(name, corpus))


def _about(answers: Answers) -> dict: # for the record
    return {"fingerprint": answers.fingerprint, "counts": answers.counts}


NAMES = {"wikiqa": "WikiQA", "selqa": "SelQA", "antique": "ANTIQUE"}
PARTS = ("train", "dev", "test")


def counts(corpus: CorpusConfig) -> tuple[dict, dict]: # `WikiQA #Q Train` and so on -> number; data for the record
    "How many questions (#Q) and candidates (#A) the parts have. Raises `MissingData` when there is not one file."
    out = {}
    data = {}
    names = {"answers": "planted"} if corpus.world else NAMES
    for key, name in names.items():
        for part in PARTS:
            try:
                answers = _part(corpus, key, part)
            except MissingData as e:
                lost = e
                continue
            questions = set(answers.question_ids)
            out[f"{name} #Q {part.title()}"] = float(len(questions))
            out[f"{name} #A {part.title()}"] = float(len(answers))
            data[f"{part} {key}"] = _about(answers)
    if not out:
        raise lost
    return out, data


def _stage(run: RunConfig) -> TransferConfig | None: # None: there is no first stage
    return run.training.transfer if run.method.transfer else None


def _transferred(stage) -> Answers:
    "The corpus of a first stage."
    return load_answers(stage.corpus, stage.part)


@lru_cache(maxsize=2)
def _vocabulary(corpus: CorpusConfig, encoder: EncoderConfig, stage) -> tuple[str, ...] | None:
    "The texts that give an encoder called `learned` its words."
    if encoder.name != "learned":
        return None
    trained = [training_answers(corpus), *([_transferred(stage)] if stage else [])]
    texts = [answers.questions + answers.answers for answers in trained]
    return tuple(chain.from_iterable(texts))


def train_answers(run: RunConfig) -> Trained:
    "Train as a run says. Raises `TrainingFailed`, `MissingData` or `EncoderError`."
    corpus = run.corpus
    stage = _stage(run)
    words = _vocabulary(corpus, run.encoder, stage)
    model = answer_model(run.encoder, run.method, run.training, words, run.seed)
    identity = weights_hash(model.encoder).hexdigest() # of the weights that the run starts from
    trained = training_answers(corpus)
    dev = training_answers(corpus, "dev")
    used = {f"train {corpus.name}": trained}
    validate = None # the last epoch is kept
    if run.training.select == "best":
        used[f"dev {corpus.name}"] = dev
        tokens = model.encoder.tokenize(dev.questions, dev.answers, run.encoder.max_length)

        def validate(model): # its MAP
            scores = answer_scores(model, tokens, dtype=run.encoder.dtype)
            ranking, *_ = rank_metrics(dev.labels, scores, dev.question_ids, unanswered="exclude")
            return ranking["map"]

    own = answer_tokens(model.encoder, trained, run.encoder.max_length)
    transfer = None
    if stage:
        earlier = _transferred(stage)
        used[f"transfer {stage.corpus}"] = earlier
        transfer = answer_tokens(model.encoder, earlier, run.encoder.max_length)
    model.to(best_device())
    first, last = train_stages(
        model, own, run.method, run.training, run.seed, run.encoder.dtype, validate, transfer)
    told = {}
    if last.diary:
        told["weights"] = diary_summary(last.diary) | {"fresh": last.fresh}
    if first:
        told["first stage"] = curve_summary(first.history)
    if last.scores:
        told["development MAP"] = [round(x, 5) for x in last.scores]
    data = {name: _about(answers) for name, answers in used.items()}
    return Trained(model, identity, curve_summary(last.history), data, told)


LONGEST = 400 # characters of an answer that a record keeps


def chosen(scores: np.ndarray, answers: Answers) -> list[dict]: # question, answer, right, relevant, misled
    "The candidate that each question gets, for case studies; of equal scores the first."
    groups = answers.groups()
    away = misled(answers)
    out = []
    for group in range(groups.max() + 1):
        rows = np.flatnonzero(groups == group)
        relevant = rows[answers.labels[rows] > 0]
        if not len(relevant):
            continue
        top = rows[np.argmax(scores[rows])]
        out.append({
            "question": answers.questions[top],
            "answer": answers.answers[top][:LONGEST],
            "right": bool(answers.labels[top]),
            "relevant": answers.answers[relevant[0]][:LONGEST],
            "misled": bool(away[top]),
        })
    return out


MANY = 600 # questions: larger sets do not leave the values of single questions in a record


def _scores(run: RunConfig, trained: Trained, answers: Answers) -> np.ndarray: # (n,)
    "Score candidates by the trained model; without one by the words they share with their question."
    if trained.model is None:
        return shared_words(answers)
    tokens = trained.model.encoder.tokenize(answers.questions, answers.answers, run.encoder.max_length)
    return answer_scores(trained.model, tokens, dtype=run.encoder.dtype)


class AnswersTask(Task):
    "Questions with candidate answers, ranked."
    def train(self, run: RunConfig) -> Trained:
        "Raises `TrainingFailed`, `MissingData` (its training data) or `EncoderError`."
        if not run.method.trained:
            return Trained(None, "none: words are counted")
        return train_answers(run)

    def test(self, run: RunConfig, trained: Trained) -> Tested:
        tested = Tested(extra={"questions": {}})
        told = {}
        for name in run.evaluate:
            try:
                if name == "counts":
                    tested.metrics[name], found = counts(run.data)
                    tested.data |= found
                    continue
                answers = evaluation_answers(name, run.data)
            except MissingData:
                tested.missing.append(name)
                continue
            scores = _scores(run, trained, answers)
            tested.metrics[name], tested.replicates[name], each = evaluate_answers(scores, answers)
            tested.data[f"test {name}"] = _about(answers)
            if len(each) <= MANY:
                tested.extra["questions"][name] = each
            if "behavior" in run.measure:
                tests = behavior_of(name, run.data)
                kept, drawn = behavior_metrics(answers, scores, tests, partial(_scores, run, trained), REPLICATES)
                tested.metrics[name] |= kept
                tested.replicates[name] |= drawn
            if "known texts" in run.measure:
                train = training_answers(run.data)
                tested.metrics[name] |= shares_known(train.questions + train.answers, answers.questions, answers.answers)
            if "cases" in run.measure:
                told[name] = chosen(scores, answers)
        if told:
            tested.extra["cases"] = told
        return tested

    def lacks(self, run: RunConfig) -> str | None:
        if not run.method.trained:
            return lacking(training_answers, run.data) if "known texts" in run.measure else None
        stage = _stage(run)
        earlier = lacking(_transferred, stage) if stage else None
        return together(lacking(encoder_files, run.encoder), lacking(needed, run.corpus), earlier)

    def stale(self, record: dict, run: RunConfig) -> bool:
        missing = unmeasured(record, run)
        return any(not lacking(evaluation_answers, name, run.data) for name in missing)


TASK = AnswersTask()


@lru_cache(maxsize=None)
def needed(corpus: CorpusConfig) -> None:
    "Load everything that training on a corpus takes. Raises `MissingData` or `ConfigError`."
    training_answers(corpus)
    training_answers(corpus, "dev")
