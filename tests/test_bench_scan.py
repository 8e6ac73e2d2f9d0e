"""The benches of answer selection run, compare what is the same, and say so when it is not. No timing is asserted."""
import math
from unittest.mock import patch

import numpy as np
import pytest
import torch

import ranking
import scan_step
import weights
from debias_nb import scan
from debias_nb.metrics import rank_metrics
from debias_nb.repro.runs import answer_training as answers
from debias_nb.repro.config import ScanConfig
from test_bench import NO_SPREAD, needs, only_encoder, quick

torch.set_num_threads(1)


def positive(timed, *figures):
    for name, variant in timed.items():
        for figure in figures:
            spread = variant[figure]
            assert 0 < spread["q1"] <= spread["median"] <= spread["q3"] < math.inf, name


# weights

def test_weights_bench():
    printed, record = quick("weights")
    assert record["settings"] == {"repeats": 2, "batch": 20, "functions": 5}
    assert list(record["widths"]) == ["16", "32"]
    for result in record["widths"].values():
        variants = result["variants"]
        assert list(variants) == [weights.OURS, weights.GRAM, weights.DIRECT, weights.AUTOGRAD]
        assert 0 < result["difference"] <= weights.AGREE and result["auto"] in ("gram", "direct")
        assert f"{variants[weights.AUTOGRAD]['ms']['median']:.4g}" in printed
        positive(variants, "ms", "ratio")
        assert variants[weights.OURS]["ratio"] == NO_SPREAD


def test_each_variant_goes_its_own_way():
    """The closed forms go through the matrices they are named after, the reference through none of them, and the
    library is as before."""
    ways = []

    def seen(name, kind):
        def made(*args):
            ways.append(name)
            return kind(*args)
        return made

    data = weights.samples(14, 6)
    plain = scan.decorrelation
    expected = {
        weights.GRAM: {"gram"}, weights.DIRECT: {"direct"}, weights.OURS: {weights.chosen(data[0], data[2])},
        weights.AUTOGRAD: set(),
    }
    with patch.dict(scan.WAYS, {name: seen(name, kind) for name, kind in scan.WAYS.items()}):
        for name, run in weights.variants(data).items():
            ways.clear()
            assert run().shape == (14,)
            assert set(ways) == expected[name], name
    assert scan.decorrelation is plain


def test_the_memory_is_that_of_training():
    features, labels, memory = weights.samples(24, 5)
    assert features.shape == memory.features.shape == (24, 5) and labels.sum() == 4
    assert memory.kind == "ema" and not torch.equal(memory.features, features)
    assert memory.weights.std() > .01, "learned, not uniform"
    assert memory.weights.mean() == pytest.approx(1, abs=1e-4)


def test_weights_bench_refuses_other_weights():
    def difference(error):
        return weights.agreement({weights.OURS: lambda: torch.ones(3), "other": lambda: torch.ones(3) + error})

    assert difference(1e-5) == pytest.approx(1e-5, rel=.1)
    for wrong in (1e-3, math.nan):
        with pytest.raises(RuntimeError, match="other: weights differ"):
            difference(wrong)


def test_a_penalty_of_another_size_is_noticed():
    "The comparison is of the whole objective: with other settings the reference disagrees."
    data = weights.samples(14, 6)
    with patch.dict(scan.VARIANTS, {"fixed": scan.VARIANTS["fixed"] | {"penalty": .6}}):
        changed = weights.by_autograd(*data)
    ours = weights.variants(data)[weights.OURS]
    with pytest.raises(RuntimeError, match="differ by up to"):
        weights.agreement({weights.OURS: ours, "other": lambda: changed})


# a step of SCAN

def test_scan_step_bench():
    "Five words of a question, ten of an answer."
    printed, record = quick("scan_step", "--encoder", "learned", "--steps", "3")
    assert record["settings"] == {"repeats": 2}
    result = only_encoder(record, "learned")
    assert (result["steps"], result["batch"], result["rounds"], result["width"]) == (3, 24, 2, 32)
    assert result["tokens"] == 15
    positive(result["variants"], "step_ms", "ratio")
    for name, figures in result["variants"].items():
        assert name in printed and (figures["weights_ms"]["median"] > 0) == (name in ("FD", "SCAN"))
        assert figures["weights_ms"]["q3"] < figures["step_ms"]["q3"]
    assert result["variants"]["plain"]["ratio"] == NO_SPREAD

    epoch = record["epoch"]
    assert (epoch["candidates"], epoch["tokenizer"], epoch["pairs"]) == ("answers train", "learned", 600)
    assert epoch["tokens"] == {"padded": 76_800, "random": 9_000, "like": 9_000}
    assert epoch["share"] == {"padded": 1., "random": .1172, "like": .1172} and "11.7%" in printed


def test_variants_are_what_they_are_called():
    configs = {name: ScanConfig(**found) for name, found in scan_step.VARIANTS.items() if found is not None}
    parts = {name: (config.weights, config.debias) for name, config in configs.items()}
    assert parts == {"FD": ("learned", "none"), "LD": ("uniform", "paper"), "SCAN": ("learned", "paper")}
    for name in ("FD", "SCAN"):
        config = configs[name]
        assert (config.variant, config.functions, config.class_mass, config.memory) == ("fixed", 5, "keep", "ema")


def test_a_roberta_reads_as_many_tokens_as_it_should():
    "<s> question </s></s> answer </s>, and every word is known."
    size = scan_step.SIZES["roberta-base"]
    assert size.shape == (12, 768, 12, 3072)
    encoder, data = scan_step.material("roberta-base", scan_step.Size(2, 2, 1, size.words, (1, 8, 1, 8)))
    assert len(data) == 4 and (data.inputs.lengths == 128).all() and encoder.positions == 512
    batch = data.inputs.batch([0, 1])
    assert set(batch) == {"input_ids", "attention_mask"}
    ids = batch["input_ids"]
    assert (ids[:, 0] == 0).all() and ((ids == 2).sum(1) == 3).all() and (ids != 3).all()
    assert (ids != encoder.transformer.config.vocab_size).all()
    assert encoder(**batch).shape == (2, 8)


def test_candidates_of_both_worlds():
    for made in (scan_step.planted(20), scan_step.catalogue(20)):
        assert len(made) == 20 and 0 < made.labels.sum() < 20
    assert {len(answer.split()) for answer in scan_step.planted(8, words=30).answers} == {30}


def test_a_run_leaves_the_encoder_as_it_was():
    encoder, data = scan_step.material("learned", scan_step.Size(14, 2, 1))
    before = {name: values.clone() for name, values in encoder.state_dict().items()}
    found = scan_step.training_run("SCAN", encoder, data, 14)
    assert 0 < found["weights_ms"] < found["step_ms"]
    assert all(torch.equal(values, before[name]) for name, values in encoder.state_dict().items())


def test_too_few_steps_are_noticed():
    encoder, data = scan_step.material("learned", scan_step.Size(14, 2, 1))
    whole = answers.fit_answers

    def short(*args, **kwargs):
        trainer = whole(*args, **kwargs)
        trainer.history.pop()
        return trainer

    with patch.object(answers, "fit_answers", short):
        with pytest.raises(RuntimeError, match="plain: 1 steps instead of 2"):
            scan_step.training_run("plain", encoder, data, 14)


# ranking

def quick_candidates():
    return ranking.candidates(ranking.arguments(["--quick"]))[1]


@needs("ir_measures")
@needs("pytrec_eval")
def test_ranking_bench():
    printed, record = quick("ranking")
    assert record["settings"] == {"repeats": 2, "data": "made up", "questions": 40, "candidates": 300}
    assert record["difference"] <= ranking.AGREE
    assert list(record["variants"]) == [ranking.OURS, ranking.PREPARED, ranking.CONVERTED]
    assert all(name in printed for name in record["variants"])
    positive(record["variants"], "ms", "ratio")


@needs("ir_measures")
@needs("pytrec_eval")
def test_both_give_the_same_means():
    runs = ranking.variants(quick_candidates())
    means, names = runs[ranking.OURS](), ranking.measures()
    for variant in (ranking.PREPARED, ranking.CONVERTED):
        for measure, value in runs[variant]().items():
            assert value == pytest.approx(means[names[measure]], abs=1e-9)
    assert .1 < means["map"] < .9


@needs("ir_measures")
@needs("pytrec_eval")
def test_ranking_bench_refuses_other_values():
    data = quick_candidates()
    _, values, questions = rank_metrics(data[1], data[2], data[0])
    theirs = {}
    for measure, each in values.items():
        for question, value in zip(questions.tolist(), each):
            theirs[measure, question] = float(value)
    assert ranking.agreement(data, theirs) == 0
    for wrong in (1e-6, math.nan):
        changed = theirs | {("mrr", "q7"): theirs["mrr", "q7"] + wrong}
        with pytest.raises(RuntimeError, match="mrr of question q7 is"):
            ranking.agreement(data, changed)
    del theirs["map", "q7"]
    with pytest.raises(RuntimeError, match="1 values stand on one side only, the first of them is map of q7"):
        ranking.agreement(data, theirs)


def test_made_up_candidates_are_like_those_of_a_test_set():
    ids, labels = ranking.made_up(**ranking.LIKE)
    found = {}
    for question, label in zip(ids, labels.tolist()):
        found.setdefault(question, []).append(label)
    assert len(ids) == 19435 and len(found) == 1590 and all(map(any, found.values()))
    assert ids == sorted(ids, key=lambda question: int(question[1:])), "a question's candidates stand together"
    scores = quick_candidates()[2]
    without_ties = set(scores.astype(np.float32)) # trec_eval keeps scores in single precision
    assert len(without_ties) == len(scores)


def test_ranking_bench_says_what_it_lacks(capsys):
    with patch.object(ranking, "find_spec", lambda name: None if name == "pytrec_eval" else True):
        assert ranking.main(["--quick"]) == 1
    assert "pytrec_eval not installed (extra bench)" in capsys.readouterr().err


# options

@pytest.mark.parametrize("bench, options, words", [
    (weights, ["--batch", "11"], "--batch must be at least 12"),
    (weights, ["--width", "1"], "--width must be at least 2"),
    (weights, ["--repeats", "0"], "--repeats must be"),
    (weights, ["--quick", "--write"], "worth writing"),
    (scan_step, ["--steps", "0"], "--steps must be at least 1"),
    (scan_step, ["--batch", "1"], "--batch must be at least 2"),
    (scan_step, ["--encoder", "x"], "invalid choice"),
    (scan_step, ["--quick", "--write"], "worth writing"),
    (ranking, ["--questions", "5"], "come together"),
    (ranking, ["--questions", "5", "--candidates", "4"], "(4) must be at least --questions (5)"),
    (ranking, ["--quick", "--write"], "worth writing"),
])
def test_options_that_make_no_sense_are_refused(bench, options, words, capsys):
    with pytest.raises(SystemExit):
        bench.arguments(options)
    assert words in capsys.readouterr().err
