"""From the configuration of a run of answer selection to trained model, metrics, and the record.

The record says which candidates there were, and how they were disturbed. Two runs can only be compared when they saw
the same candidates, disturbed in the same way. So what disturbs, which labels are switched and which texts are
perturbed, belongs to the corpus and not to the run's seed. Of an evaluation set called `… perturbed` a character is
swapped, inserted or deleted in 30% of the candidates (Section 5.3 of the paper); never in the question, which all
candidates share. What is not trained counts shared words.
"""
import operator
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np
from safetensors.torch import load_model, save_model

from .answer_training import AnswerModel, AnswerTokens, answer_model, answer_scores, answer_tokens
from .answer_training import diary_summary, evaluate_answers, train_stages
from ...checks import ConfigError, check_known
from ...encoders.tokens import weights_hash
from ...encoders.loading import best_device
from ...encoders.safe_folders import WEIGHTS_FILE
from ...measures.metrics import rank_metrics
from ..data.answers import SOURCES, Answers, flip_labels, load_answers, overlap_errors, perturb, planted_answers
from ..data.answers import shared_words
from ...data.registry import MissingData
from ...runs.config import RunConfig
from ..settings.answers import AnswersCorpus, first_stage
from ...runs.tasks import Task, Tested, Trained, encoder_files, overlap_shares
from ...settings import EncoderConfig
from ...runs.training import curve_summary


def _part(corpus: AnswersCorpus, key: str, part: str) -> Answers:
    "Return a part of a corpus; of the synthetic dataset, whose test in distribution is called `iid`."
    if not corpus.world:
        return load_answers(key, part, require_hash=True)
    return planted_answers(corpus.world, "iid" if part == "test" else part)


@lru_cache(maxsize=4)
def training_answers(
    corpus: AnswersCorpus,
    part: str = "train", # `train`, or `dev`, which is never disturbed
) -> Answers:
    """Return candidates to train or to choose by; in `train`, the corpus's fraction `flip` of the labels is switched.

    Raise `MissingData`, or `ConfigError` for an unknown corpus.
    """
    check_known("corpus", corpus.name, (*SOURCES, "answers"), ConfigError)
    answers = _part(corpus, corpus.name, part)
    if corpus.flip and part == "train":
        return flip_labels(answers, corpus.flip, 0)
    return answers


PERTURBED_SHARE = .3 # share of candidates that are perturbed


@lru_cache(maxsize=8)
def evaluation_answers(
    # a corpus, `dev` of the one trained on, or a split of the planted world; ` perturbed` behind it
    name: str,
    corpus: AnswersCorpus, # that a run is trained on
) -> Answers:
    "Return an evaluation set. Raise `MissingData`, or `ConfigError` for an unknown name."
    plain = name.removesuffix(" perturbed")
    if plain != name:
        answers = evaluation_answers(plain, corpus)
        texts = perturb(answers.answers, PERTURBED_SHARE, 0)
        counts = answers.counts | {"perturbed candidates": sum(map(operator.ne, answers.answers, texts))}
        return replace(answers, name=f"{answers.name} perturbed", answers=texts, counts=counts)
    if name == "dev":
        return training_answers(corpus, "dev")
    names = ("iid", "neutral", "shifted") if corpus.world else tuple(SOURCES)
    check_known("evaluation set", name, names, ConfigError)
    if corpus.world:
        return planted_answers(corpus.world, name)
    if "test" not in SOURCES[name].files:
        raise ConfigError(f"{name} has no test part")
    return load_answers(name, "test", require_hash=True)


def _data_facts(answers: Answers) -> dict: # for the record
    return {"fingerprint": answers.fingerprint, "counts": answers.counts}


NAMES = {"wikiqa": "WikiQA", "selqa": "SelQA", "antique": "ANTIQUE"}
PARTS = ("train", "dev", "test")


def counts(corpus: AnswersCorpus) -> tuple[dict, dict]: # `WikiQA #Q Train` and so on -> number; data for the record
    "Count the questions (#Q) and candidates (#A) of the parts. Raise `MissingData` if there is not one file."
    out = {}
    data = {}
    names = {"answers": "planted"} if corpus.world else NAMES
    for key, name in names.items():
        for part in PARTS:
            try:
                answers = _part(corpus, key, part)
            except MissingData as e:
                failure = e
                continue
            questions = set(answers.question_ids)
            out[f"{name} #Q {part.title()}"] = float(len(questions))
            out[f"{name} #A {part.title()}"] = float(len(answers))
            data[f"{part} {key}"] = _data_facts(answers)
    if not out:
        raise failure
    return out, data


LONGEST = 400 # characters of an answer that a record keeps


def first_choices(scores: np.ndarray, answers: Answers) -> list[dict]: # question, answer, right, relevant, misled
    "Return the candidate that each question gets, for case studies; of equal scores the first."
    table = answers.frame().assign(score=scores, misled=overlap_errors(answers))
    out = []
    for _, rows in table.groupby("question_id", sort=False):
        relevant = rows.answer[rows.label == 1]
        if relevant.empty:
            continue
        top = rows.loc[rows.score.idxmax()]
        out.append({
            "question": top.question,
            "answer": top.answer[:LONGEST],
            "right": bool(top.label),
            "relevant": relevant.iloc[0][:LONGEST],
            "misled": bool(top.misled),
        })
    return out


MOST_QUESTIONS = 600 # questions: larger sets do not leave the values of single questions in a record


def _tokens(model: AnswerModel, run: RunConfig, answers: Answers) -> AnswerTokens:
    return answer_tokens(model.encoder, answers, run.encoder.max_length)


def score(model: AnswerModel | None, run: RunConfig, answers: Answers) -> np.ndarray: # (n,)
    "Score candidates by a trained model; without one by the words they share with their question."
    if model is None:
        return shared_words(answers)
    return answer_scores(model, _tokens(model, run, answers).inputs, dtype=run.encoder.dtype)


def cross_encoder_files(encoder: EncoderConfig) -> None:
    "Look for the files of an encoder as `encoder_files`; a cross-encoder's transformer is one of them."
    from .pair_encoders import transformer_folder
    if encoder.kind == "cross" and encoder.has_files:
        transformer_folder(encoder)
    else:
        encoder_files(encoder)


def _untrained(run: RunConfig, data: dict[str, Answers]) -> AnswerModel:
    "Return the model that a run begins with."
    words = None
    if run.encoder.name == "learned":
        texts = [data[part].questions + data[part].answers for part in ("train", "transfer") if part in data]
        words = list(chain.from_iterable(texts))
    return answer_model(run, words)


class AnswersTask(Task):
    "Questions with candidate answers, ranked."
    def data(self, run: RunConfig) -> tuple[dict[str, Answers], dict]:
        "Return candidates to `train` on, `dev` ones to choose the best epoch, and those of a first stage, `transfer`."
        corpus = run.corpus
        parts = {"train": training_answers(corpus)}
        names = {"train": corpus.name, "dev": corpus.name}
        if run.training.select == "best":
            parts["dev"] = training_answers(corpus, "dev")
        stage = first_stage(run)
        if stage:
            parts["transfer"] = load_answers(stage.corpus, stage.part, require_hash=True)
            names["transfer"] = stage.corpus
        return parts, {f"{part} {names[part]}": _data_facts(answers) for part, answers in parts.items()}

    def train(self, run: RunConfig) -> Trained:
        if not run.method.trained:
            return Trained(None, "none: words are counted")
        data, facts = self.data(run)
        model = _untrained(run, data)
        identity = weights_hash(model.encoder).hexdigest() # of the weights that the run starts from
        tokens = {part: _tokens(model, run, answers) for part, answers in data.items()}

        def validate(model): # its MAP
            scores = answer_scores(model, tokens["dev"].inputs, dtype=run.encoder.dtype)
            ranking, *_ = rank_metrics(data["dev"].labels, scores, data["dev"].question_ids, unanswered="exclude")
            return ranking["map"]

        model.to(best_device())
        chooses = "dev" in data # or keeps the last epoch
        first, last = train_stages(model, tokens["train"], run, validate if chooses else None, tokens.get("transfer"))
        extra = {}
        if last.diary:
            extra["weights"] = diary_summary(last.diary) | {"fresh": last.fresh}
        if first:
            extra["first stage"] = curve_summary(first.history)
        if last.scores:
            extra["development MAP"] = [round(x, 5) for x in last.scores]
        return Trained(model, identity, curve_summary(last.history), facts, extra)

    def save(self, model: AnswerModel, folder: Path) -> None:
        folder.mkdir()
        save_model(model, str(folder / WEIGHTS_FILE))

    def load_saved(self, run: RunConfig, folder: Path) -> AnswerModel:
        data, _ = self.data(run)
        model = _untrained(run, data).to(best_device())
        load_model(model, folder / WEIGHTS_FILE)
        return model

    def test_set(self, run: RunConfig, name: str) -> tuple:
        return (counts, (run.data,)) if name == "counts" else (evaluation_answers, (name, run.data))

    def evaluate(self, model: AnswerModel | None, run: RunConfig, name: str, test, results: Tested) -> None:
        if name == "counts":
            results.metrics[name], facts = test
            results.data |= facts
            return
        answers = test
        scores = score(model, run, answers)
        values, results.replicates[name], precision = evaluate_answers(scores, answers)
        results.data[f"test {name}"] = _data_facts(answers)
        if len(precision) <= MOST_QUESTIONS:
            results.extra.setdefault("questions", {})[name] = precision
        if "known texts" in run.measure:
            train = training_answers(run.data)
            values |= overlap_shares(train.questions + train.answers, answers.questions, answers.answers)
        if "cases" in run.measure:
            results.extra.setdefault("cases", {})[name] = first_choices(scores, answers)
        results.metrics[name] = values

    def needs(self, run: RunConfig) -> Iterator[tuple]:
        if run.method.trained:
            yield cross_encoder_files, run.encoder
            yield training_answers, run.corpus
            yield training_answers, run.corpus, "dev"
        elif "known texts" in run.measure:
            yield training_answers, run.data
        stage = first_stage(run)
        if stage:
            yield load_answers, stage.corpus, stage.part


TASK = AnswersTask()
