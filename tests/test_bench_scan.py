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
from debias_nb.repro.config import ScanConfig
from test_bench import needs, quick

torch.set_num_threads(1)

def positive(timed, *figures):
    for name, v in timed.items():
        for s in (v[f] for f in figures): assert 0 < s["q1"] <= s["median"] <= s["q3"] < math.inf, name

# weights

def test_weights_bench():
    printed, record = quick("weights")
    assert record["settings"] == dict(repeats=2, batch=20, functions=5) and list(record["widths"]) == ["16", "32"]
    for result in record["widths"].values():
        assert list(result["variants"]) == [weights.OURS, weights.GRAM, weights.DIRECT, weights.AUTOGRAD] and 0 < result["difference"] <= weights.AGREE
        assert result["auto"] in ("gram", "direct") and f"{result['variants'][weights.AUTOGRAD]['ms']['median']:.4g}" in printed
        positive(result["variants"], "ms", "ratio")
        assert result["variants"][weights.OURS]["ratio"] == dict(median=1., q1=1., q3=1.)


def test_each_variant_goes_its_own_way():
    "The closed forms go through the matrices they are named after, the reference through none of them, and the library is as before."
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
    assert features.shape == memory.features.shape == (24, 5) and memory.kind == "ema" and labels.sum() == 4
    assert not torch.equal(memory.features, features) and memory.weights.std() > .01 and memory.weights.mean() == pytest.approx(1, abs=1e-4), "learned, not uniform"


def test_weights_bench_refuses_other_weights():
    runs = {weights.OURS: lambda: torch.ones(3), "other": lambda: torch.ones(3) + 1e-5}
    assert weights.agreement(runs) == pytest.approx(1e-5, rel=.1)
    for wrong in (1e-3, math.nan):
        with pytest.raises(RuntimeError, match="other: weights differ"): weights.agreement(runs | {"other": lambda wrong=wrong: torch.ones(3) + wrong})


def test_a_penalty_of_another_size_is_noticed():
    "The comparison is of the whole objective: with other settings the reference disagrees."
    data = weights.samples(14, 6)
    other = {k: v | dict(penalty=.6) if k == "fixed" else v for k, v in scan.VARIANTS.items()}
    with patch.dict(scan.VARIANTS, other): changed = weights.by_autograd(*data)
    with pytest.raises(RuntimeError, match="differ by up to"): weights.agreement({weights.OURS: weights.variants(data)[weights.OURS], "other": lambda: changed})

# a step of SCAN

def test_scan_step_bench():
    printed, record = quick("scan_step", "--encoder", "learned", "--steps", "3")
    assert record["settings"] == dict(repeats=2) and list(record["encoders"]) == ["learned"]
    result = record["encoders"]["learned"]
    assert (result["steps"], result["batch"], result["rounds"], result["width"]) == (3, 24, 2, 32) and result["tokens"] == 15, "five words of a question, ten of an answer"
    positive(result["variants"], "step_ms", "ratio")
    for name, v in result["variants"].items():
        assert name in printed and (v["weights_ms"]["median"] > 0) == (name in ("FD", "SCAN")) and v["weights_ms"]["q3"] < v["step_ms"]["q3"]
    assert result["variants"]["plain"]["ratio"] == dict(median=1., q1=1., q3=1.)
    epoch = record["epoch"]
    assert (epoch["candidates"], epoch["tokenizer"], epoch["pairs"]) == ("answers train", "learned", 600) and epoch["tokens"] == dict(padded=76_800, random=9_000, like=9_000)
    assert epoch["share"] == dict(padded=1., random=.1172, like=.1172) and "11.7%" in printed


def test_variants_are_what_they_are_called():
    configs = {name: ScanConfig(**v) for name, v in scan_step.VARIANTS.items() if v is not None}
    assert {n: (c.weights, c.debias) for n, c in configs.items()} == {"FD": ("learned", "none"), "LD": ("uniform", "paper"), "SCAN": ("learned", "paper")}
    for name in ("FD", "SCAN"): assert (configs[name].variant, configs[name].functions, configs[name].class_mass, configs[name].memory) == ("fixed", 5, "keep", "ema")


def test_a_roberta_reads_as_many_tokens_as_it_should():
    size = scan_step.SIZES["roberta-base"]
    assert size.shape == (12, 768, 12, 3072)
    encoder, data = scan_step.material("roberta-base", scan_step.Size(2, 2, 1, size.words, (1, 8, 1, 8)))
    assert len(data) == 4 and (data.inputs.lengths == 128).all() and encoder.positions == 512
    batch = data.inputs.batch([0, 1])
    assert set(batch) == {"input_ids", "attention_mask"} and (batch["input_ids"] != encoder.transformer.config.vocab_size).all()
    assert (batch["input_ids"][:, 0] == 0).all() and ((batch["input_ids"] == 2).sum(1) == 3).all() and (batch["input_ids"] != 3).all(), "<s> question </s></s> answer </s>, and every word is known"
    assert encoder(**batch).shape == (2, 8)


def test_candidates_of_both_worlds():
    for made in (scan_step.planted(20), scan_step.catalogue(20)): assert len(made) == 20 and 0 < made.labels.sum() < 20
    assert {len(a.split()) for a in scan_step.planted(8, words=30).answers} == {30}


def test_a_run_leaves_the_encoder_as_it_was():
    encoder, data = scan_step.material("learned", scan_step.Size(14, 2, 1))
    before = {k: v.clone() for k, v in encoder.state_dict().items()}
    found = scan_step.training_run("SCAN", encoder, data, 14)
    assert 0 < found["weights_ms"] < found["step_ms"] and all(torch.equal(v, before[k]) for k, v in encoder.state_dict().items())


def test_too_few_steps_are_noticed():
    encoder, data = scan_step.material("learned", scan_step.Size(14, 2, 1))
    from debias_nb.repro import answer_training as answers
    whole = answers.fit_answers
    def short(*args, **kwargs):
        trainer = whole(*args, **kwargs)
        trainer.history.pop()
        return trainer
    with patch.object(answers, "fit_answers", short), pytest.raises(RuntimeError, match="plain: 1 steps instead of 2"): scan_step.training_run("plain", encoder, data, 14)

# ranking

@needs("ir_measures")
@needs("pytrec_eval")
def test_ranking_bench():
    printed, record = quick("ranking")
    assert record["settings"] == dict(repeats=2, data="made up", questions=40, candidates=300) and record["difference"] <= ranking.AGREE
    assert list(record["variants"]) == [ranking.OURS, ranking.PREPARED, ranking.CONVERTED] and all(name in printed for name in record["variants"])
    positive(record["variants"], "ms", "ratio")


@needs("ir_measures")
@needs("pytrec_eval")
def test_both_give_the_same_means():
    data = ranking.candidates(ranking.arguments(["--quick"]))[1]
    runs = ranking.variants(data)
    means = runs[ranking.OURS]()
    for name in (ranking.PREPARED, ranking.CONVERTED):
        for m, value in runs[name]().items(): assert value == pytest.approx(means[ranking.measures()[m]], abs=1e-9)
    assert .1 < means["map"] < .9


@needs("ir_measures")
@needs("pytrec_eval")
def test_ranking_bench_refuses_other_values():
    from debias_nb.metrics import rank_metrics
    data = ranking.candidates(ranking.arguments(["--quick"]))[1]
    _, values, questions = rank_metrics(data[2], data[1], data[0])
    theirs = {(k, q): float(v) for k, each in values.items() for q, v in zip(questions.tolist(), each)}
    assert ranking.agreement(data, theirs) == 0
    for wrong in (1e-6, math.nan):
        with pytest.raises(RuntimeError, match="mrr of question q7 is"): ranking.agreement(data, theirs | {("mrr", "q7"): theirs["mrr", "q7"] + wrong})
    with pytest.raises(RuntimeError, match="1 values stand on one side only, the first of them is map of q7"): ranking.agreement(data, {k: v for k, v in theirs.items() if k != ("map", "q7")})


def test_made_up_candidates():
    ids, labels = ranking.made_up(**ranking.LIKE)
    found = {q: [] for q in ids}
    for q, y in zip(ids, labels.tolist()): found[q].append(y)
    assert len(ids) == 19435 and len(found) == 1590 and all(map(any, found.values())) and ids == sorted(ids, key=lambda q: int(q[1:])), "a question's candidates stand together"
    scores = ranking.candidates(ranking.arguments(["--quick"]))[1][2]
    assert len(set(scores.astype(np.float32))) == len(scores), "no ties, not even in single precision, which trec_eval keeps scores in"


def test_ranking_bench_says_what_it_lacks(capsys):
    with patch.object(ranking, "find_spec", lambda name: None if name == "pytrec_eval" else True): assert ranking.main(["--quick"]) == 1
    assert "pytrec_eval not installed (extra bench)" in capsys.readouterr().err

# options

@pytest.mark.parametrize("bench, options, words", [(weights, ["--batch", "11"], "--batch must be at least 12"), (weights, ["--width", "1"], "--width must be at least 2"), (weights, ["--repeats", "0"], "--repeats must be"),
                                                   (scan_step, ["--steps", "0"], "--steps must be at least 1"), (scan_step, ["--batch", "1"], "--batch must be at least 2"), (scan_step, ["--encoder", "x"], "invalid choice"),
                                                   (ranking, ["--questions", "5"], "come together"), (ranking, ["--questions", "5", "--candidates", "4"], "(4) must be at least --questions (5)"),
                                                   *((b, ["--quick", "--write"], "worth writing") for b in (weights, scan_step, ranking))])
def test_options_that_make_no_sense(bench, options, words, capsys):
    with pytest.raises(SystemExit): bench.arguments(options)
    assert words in capsys.readouterr().err
