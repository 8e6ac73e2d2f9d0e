"Training against a loop written by hand, interventions that depend on nothing but their row, losses in somebody else's trainer, and runs that fail."
import copy, json, math, os, subprocess, sys, tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from datasets import Dataset
from hypothesis import given, settings, strategies as st
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments

from debias_nb import encoders

from debias_nb import itvreg as methods

from debias_nb.repro import records
from debias_nb.repro import runner
from debias_nb.repro.tasks.common import base_encoder
from debias_nb.repro.tasks.pairs import training_pairs
from debias_nb.repro.config import MethodConfig, RunConfig, TrainConfig
from debias_nb.encoders import Tokens, embed_texts, encode_tokens, encoder_fingerprint, single_thread, stack, tokenise
from debias_nb.interventions import choose, intervene
from debias_nb.itvreg import CachedBase, FrozenBase, ITVAugLoss, ITVRegLoss, MaskRegLoss, OutRegLoss, SimCSELoss, cosines, itvreg
from debias_nb.repro.records import Store, TrainingFailed, comparable, latest
from debias_nb.repro.training import PairCollator, fine_tune, pair_tokens
from made import STATIC, WORLD, WORDS, bert, experiment, load, table

FINETUNED, ITVREG = MethodConfig(name="Finetuned"), MethodConfig(name="ITVReg", regulariser="itvreg", weight=1., mask_share=.5)
OUTREG, ITVAUG = MethodConfig(name="OutReg", regulariser="outreg", weight=1.), MethodConfig(name="ITVAug", augmentation="itvaug", mask_share=.5)
ROOT = Path(encoders.__file__).parent.parent

@pytest.fixture(autouse=True)
def one_thread():
    runner.quiet()
    with single_thread(): yield

@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    "Planted encoders of this file are trained in a folder of its own."
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEBIAS_NB_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield

@pytest.fixture(scope="module")
def static(cache):
    with single_thread(): return encoders.planted_encoder(STATIC)

@pytest.fixture(scope="module")
def pairs(): return training_pairs(experiment().blocks[0].corpora[0])

@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {"bert": bert(folder), "table": table(folder)}

def few(n=24, seed=0):
    "Pairs of random words; the first half match."
    rng = np.random.default_rng(seed)
    left = [" ".join(rng.choice(WORDS, rng.integers(3, 9))) for _ in range(n)]
    return left, [t if i < n // 2 else left[-1 - i] for i, t in enumerate(left)], [float(i < n // 2) for i in range(n)]

def state(model): return {k: v.clone() for k, v in model.state_dict().items()}
def unchanged(model, before): return all(torch.equal(v, before[k]) for k, v in model.state_dict().items()) and all(p.grad is None for p in model.parameters())

# against a loop written by hand

@pytest.mark.parametrize("optimizer, decay", [("adam", 0.), ("adam", .01), ("adamw", .01)])
def test_the_trainer_does_what_a_plain_loop_does(static, pairs, monkeypatch, optimizer, decay):
    settings = TrainConfig(learning_rate=2e-2, epochs=2, batch_size=96, optimizer=optimizer, weight_decay=decay, warmup_steps=3)
    model, data, batches, collate = copy.deepcopy(static), pair_tokens(static, pairs.left, pairs.right, pairs.labels), [], PairCollator.__call__
    def recorded(self, features): batches.append([f["row"] for f in features]); return collate(self, features)
    monkeypatch.setattr(PairCollator, "__call__", recorded)
    loss = fine_tune(model, None, data, FINETUNED, settings, seed=3)
    n = len(pairs.labels)
    per_epoch = math.ceil(n / 96)
    assert n % 96 and len(batches) == len(loss.history) == 2 * per_epoch, "the last batch of an epoch is a short one"
    for epoch in (batches[:per_epoch], batches[per_epoch:]): assert sorted(sum(epoch, [])) == list(range(n))
    assert batches[:per_epoch] != batches[per_epoch:]

    W = static[0].embedding.weight.detach().clone().requires_grad_()
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[optimizer]
    steps, curve = kind([W], lr=settings.learning_rate, weight_decay=settings.weight_decay), []
    def unit(tokens, rows):
        ids, mask = tokens.ids[rows], tokens.mask[rows].float()
        mean = (W[ids] * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return mean / mean.norm(dim=1, keepdim=True)
    for i, rows in enumerate(batches):
        for group in steps.param_groups: group["lr"] = settings.learning_rate * min(1, i / 3)
        error = ((unit(data.left, rows) * unit(data.right, rows)).sum(1) - data.labels[rows]).square().mean()
        steps.zero_grad(); error.backward(); steps.step(); curve.append(float(error.detach()))
    assert np.allclose([float(h["erm"]) for h in loss.history], curve, atol=1e-6)
    assert (model[0].embedding.weight - W).abs().max() < 5e-6 < .1 < (W - static[0].embedding.weight).abs().max()

# interventions

@st.composite
def rectangles(draw):
    lengths = draw(st.lists(st.integers(0, 9), min_size=1, max_size=8))
    ids = torch.zeros(len(lengths), max(lengths) + 2, dtype=torch.long)
    for i, n in enumerate(lengths): ids[i, :n + 2] = torch.tensor([1, *draw(st.lists(st.integers(3, 40), min_size=n, max_size=n)), 2])
    return Tokens(ids, ids > 0, ids > 2)

@settings(max_examples=150, deadline=None)
@given(rectangles(), st.floats(.01, .99), st.integers(0, 2**31), st.integers(0, 50), st.integers(0, 9), st.data())
def test_interventions_know_nothing_of_the_batch(tokens, share, seed, epoch, pad, data):
    n = len(tokens)
    rows = np.array(data.draw(st.lists(st.integers(0, 10**6), min_size=n, max_size=n, unique=True)))
    order = data.draw(st.permutations(range(n)).map(lambda p: p[: data.draw(st.integers(1, n))]))
    wide = stack(tokens, Tokens(*(torch.zeros(1, tokens.ids.shape[1] + pad, dtype=t.dtype) for t in (tokens.ids, tokens.mask, tokens.ordinary))))
    part = Tokens(wide.ids[order], wide.mask[order], wide.ordinary[order]) # some of the rows, in another order, between other columns
    for names, again in ((rows, rows[order]), (None, None)):
        chosen, weight = choose(tokens, share, seed, epoch, names)
        other, other_weight = choose(part, share, seed, epoch, again)
        assert torch.equal(other[:, : chosen.shape[1]], chosen[order]) and not other[:, chosen.shape[1]:].any() and torch.equal(other_weight, weight[order])
        count = tokens.ordinary.sum(1)
        assert not (chosen & ~tokens.ordinary).any() and torch.equal(weight, (count > 1).float())
        assert torch.equal(chosen.sum(1), torch.where(count > 1, (share * count).round().clamp(min=1).minimum(count - 1), 0))

@pytest.mark.parametrize("kind", ["mask", "delete", "pad", "random"])
@pytest.mark.parametrize("name", ["bert", "table"])
def test_replacements_know_nothing_of_the_batch(made, name, kind):
    model, (left, _, _) = load(made[name]), few()
    tokens, rows, part = tokenise(model, left), np.arange(24), [5, 1, 17]
    embedded = lambda t, names: encode_tokens(model, intervene(model, t, choose(t, .5, 7, 2, names)[0], kind, 7, 2, names))
    with torch.no_grad(): assert torch.allclose(embedded(tokens, rows)[part], embedded(tokens[part], rows[part]), atol=1e-6)

@pytest.mark.parametrize("name", ["bert", "table"])
def test_training_draws_the_same_whatever_the_batches(made, name, monkeypatch):
    "Row 5 of epoch 1 gets one intervention, in batches of 4 or 7, and when the base encoder is prepared."
    drawn = {}
    def recorded(tokens, share, seed, epoch, rows=None):
        chosen, weight = choose(tokens, share, seed, epoch, rows)
        for row, positions in zip(rows, chosen): assert drawn.setdefault((epoch, int(row)), positions.nonzero().flatten().tolist()) == positions.nonzero().flatten().tolist()
        return chosen, weight
    monkeypatch.setattr(methods, "choose", recorded)
    base, (left, right, labels) = load(made[name]), few()
    for size in (4, 7): fine_tune(copy.deepcopy(base), base, pair_tokens(base, left, right, labels), ITVREG, TrainConfig(learning_rate=1e-3, epochs=2, batch_size=size), seed=1)
    assert sorted(drawn) == [(e, r) for e in (0, 1) for r in range(24)]
    assert sum(drawn[0, r] != drawn[1, r] for r in range(24)) > 12, "and another one in the next epoch"

@pytest.mark.parametrize("name", ["bert", "table"])
def test_all_methods_of_a_seed_see_the_same_batches(made, name, monkeypatch):
    "However much randomness a method uses up, dropout of a transformer included: methods are compared in pairs."
    base, (left, right, labels) = load(made[name]), few()
    seen, collate = [], PairCollator.__call__
    def recorded(self, features): seen[-1].append([f["row"] for f in features]); return collate(self, features)
    monkeypatch.setattr(PairCollator, "__call__", recorded)
    simcse = MethodConfig(name="SimCSE", regulariser="simcse", weight=.1)
    for method, seed in ((FINETUNED, 0), (ITVREG, 0), (simcse, 0), (OUTREG, 0), (ITVAUG, 0), (FINETUNED, 1)):
        seen.append([])
        fine_tune(copy.deepcopy(base), base, pair_tokens(base, left, right, labels), method, TrainConfig(learning_rate=1e-3, epochs=3, batch_size=10), seed=seed)
    assert seen[0] == seen[1] == seen[2] == seen[3] == seen[4] != seen[5] and seen[0][:3] != seen[0][3:6] != seen[0][6:]

# gradients

def test_gradient_reaches_the_text_and_its_twin():
    rng = torch.Generator().manual_seed(0)
    a, b = (torch.randn(5, 4, dtype=torch.double, generator=rng, requires_grad=True) for _ in range(2))
    base, weight = torch.rand(5, dtype=torch.double, generator=rng), torch.tensor([1., 1, 0, 1, 1], dtype=torch.double)
    term = lambda a, b: itvreg(cosines(F.normalize(a, dim=1), F.normalize(b, dim=1)), base, weight)
    assert torch.autograd.gradcheck(term, (a, b))
    ga, gb = torch.autograd.grad(term(a, b), (a, b))
    alive = weight.bool()
    assert (ga[alive].norm(dim=1) > 1e-3).all() and (gb[alive].norm(dim=1) > 1e-3).all() and not ga[~alive].any() and not gb[~alive].any()

@pytest.mark.parametrize("detached, same", [("neither", True), ("x", False), ("x'", False)])
def test_the_loss_has_the_gradient_of_the_formula(made, detached, same):
    "Two least-squares terms, differentiated through f(X), f(Z) and f(X'); cutting off either side of ITVReg gives something else."
    model, (left, right, labels) = load(made["table"]), few()
    base = copy.deepcopy(model); base[0].embedding.weight.data += torch.randn(base[0].embedding.weight.shape, generator=torch.Generator().manual_seed(1))
    x, z, y, rows = tokenise(model, left), tokenise(model, right), torch.tensor(labels), torch.arange(24)
    column = lambda t: dict(input_ids=t.ids, attention_mask=t.mask, row=rows)
    sum(ITVRegLoss(model, base, weight=3., seed=5)([column(x), column(z)], y).values()).backward()
    chosen, _ = choose(x, .5, 5, 0, rows.numpy())
    def unit(W, mask, ids): v = (F.embedding(ids, W) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True); return v / v.norm(dim=1, keepdim=True)
    def three(W): return unit(W, x.mask, x.ids), unit(W, z.mask, z.ids), unit(W, x.mask & ~chosen, x.ids)
    W = model[0].embedding.weight.detach().clone().requires_grad_()
    (fx, fz, fe), (gx, _, ge) = three(W), three(base[0].embedding.weight.detach())
    left_side, right_side = fx.detach() if detached == "x" else fx, fe.detach() if detached == "x'" else fe
    ((((fx * fz).sum(1) - y) ** 2).mean() + 3 * (((left_side * right_side).sum(1) - (gx * ge).sum(1)) ** 2).mean()).backward()
    assert torch.allclose(model[0].embedding.weight.grad, W.grad, atol=1e-6) == same
    assert base[0].embedding.weight.grad is None

# what a step encodes; a base encoder that stays as it is

def counted(model):
    calls = []
    model[0].register_forward_pre_hook(lambda module, args: calls.append(len(args[0]["attention_mask"]) if "attention_mask" in args[0] else len(args[0]["offsets"])))
    return calls

@pytest.mark.parametrize("name", ["bert", "table"])
@pytest.mark.parametrize("method, texts", [(FINETUNED, 2), (OUTREG, 2), (ITVREG, 3), (ITVAUG, 3), (MethodConfig(name="MaskReg", regulariser="maskreg", weight=.1, mask_share=.15), 3)], ids=lambda m: getattr(m, "name", ""))
def test_what_a_step_encodes(made, name, method, texts):
    model, base, (left, right, labels) = load(made[name]), load(made[name]), few(20)
    calls, data, before = counted(model), pair_tokens(base, left, right, labels), state(base)
    fine_tune(model, base, data, method, TrainConfig(learning_rate=1e-3, epochs=2, batch_size=8), seed=0)
    passes = lambda n: [2 * n, n] if texts == 3 and name == "bert" else [texts * n] # dropout of X and Z must not depend on X': a pass of its own
    assert calls == [*passes(8), *passes(8), *passes(4)] * 2
    assert unchanged(base, before) and not base.training and not unchanged(model, before)

@pytest.mark.parametrize("regulariser", ["itvreg", "maskreg", "outreg", "simcse"])
def test_strength_zero_is_plain_fine_tuning_with_dropout_on(made, regulariser):
    share = {"mask_share": .5} if regulariser in ("itvreg", "maskreg") else {}
    tuned = []
    for method in (FINETUNED, MethodConfig(name="zero", regulariser=regulariser, weight=0., **share)):
        model, base, (left, right, labels) = load(made["bert"]), load(made["bert"]), few(20)
        assert model[0].auto_model.config.hidden_dropout_prob > 0
        fine_tune(model, base, pair_tokens(base, left, right, labels), method, TrainConfig(learning_rate=1e-3, epochs=2, batch_size=8), seed=0)
        tuned.append(state(model))
    assert tuned[0].keys() == tuned[1].keys() and all(torch.equal(a, tuned[1][k]) for k, a in tuned[0].items())

def test_the_base_encoder_is_asked_once_a_text_and_epoch(made):
    base, (left, right, labels) = load(made["bert"]), few(20)
    for method, texts in ((OUTREG, 20), (ITVREG, 20 + 3 * 20), (ITVAUG, 40 + 3 * 20)): # f0(X) once, f0(Z) once where needed, f0(X') once for each of three epochs
        model, calls = copy.deepcopy(base), counted(base)
        fine_tune(model, base, pair_tokens(base, left, right, labels), method, TrainConfig(learning_rate=1e-3, epochs=3, batch_size=8), seed=0)
        assert sum(calls) == texts, method.name
        base[0]._forward_pre_hooks.clear()

@pytest.mark.parametrize("kind", [ITVRegLoss, OutRegLoss, ITVAugLoss])
@pytest.mark.parametrize("wrap", [lambda base, x, z: base, lambda base, x, z: FrozenBase(base), CachedBase], ids=["model", "frozen", "cached"])
def test_the_base_encoder_is_no_part_of_the_loss(made, kind, wrap):
    model, base, (left, right, labels) = load(made["bert"]), load(made["bert"]), few(8)
    x, z, before = tokenise(base, left), tokenise(base, right), state(base)
    loss = kind(model.train(), wrap(base, x, z))
    loss.callback.on_epoch_begin(None, type("State", (), {"epoch": 0}), None)
    ours = {id(p) for p in base.parameters()}
    assert not ours & {id(p) for p in loss.parameters()} and not ours & {id(m) for m in loss.modules()} and not any("base" in k for k in loss.state_dict())
    column = lambda t: dict(input_ids=t.ids, attention_mask=t.mask, row=torch.arange(8))
    sum(loss([column(x), column(z)], torch.tensor(labels)).values()).backward()
    loss.train(); torch.optim.SGD(loss.parameters(), lr=.1).step()
    assert unchanged(base, before) and not base.training and not unchanged(model, before)

# in somebody else's trainer

def plain_trainer(model, loss, epochs=3, callback=True):
    "sentence-transformers' own trainer and collator, on columns of text."
    left, right, labels = few()
    args = SentenceTransformerTrainingArguments(output_dir=tempfile.mkdtemp(), num_train_epochs=epochs, per_device_train_batch_size=10, learning_rate=1e-3, report_to="none",
                                                save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True, seed=0, dataloader_pin_memory=False)
    trainer = SentenceTransformerTrainer(model=model, args=args, train_dataset=Dataset.from_dict(dict(left=left, right=right, label=labels)), loss=loss, callbacks=[loss.callback] if callback else [])
    trainer.train()
    return loss

@pytest.mark.parametrize("callback", [True, False], ids=["with callback", "without"])
@pytest.mark.parametrize("name", ["bert", "table"])
def test_itvreg_in_the_trainer_of_sentence_transformers(made, name, callback, monkeypatch):
    drawn, seen = {}, []
    def recorded(tokens, share, seed, epoch, rows=None):
        assert rows is None, "text columns carry no row numbers"
        chosen, weight = choose(tokens, share, seed, epoch, rows)
        for ids, mask, positions in zip(tokens.ids, tokens.mask, chosen):
            text = tuple(ids[mask].tolist()); seen.append(text)
            drawn.setdefault(text, {}).setdefault(epoch, set()).add(tuple(positions.nonzero().flatten().tolist()))
        return chosen, weight
    monkeypatch.setattr(methods, "choose", recorded)
    base = load(made[name])
    model, before = copy.deepcopy(base), state(base)
    loss = plain_trainer(model, ITVRegLoss(model, base, weight=1., mask_share=.5), callback=callback)
    assert len(loss.history) == 9 and all(math.isfinite(v) for h in loss.history for v in h.values()) and loss.history[-1].keys() == {"erm", "raw", "weighted"}
    assert unchanged(base, before) and not unchanged(model, before)
    assert len(drawn) == 24 and len(seen) == 3 * 24
    epochs = [0, 1, 2] if callback else [0]
    assert all(sorted(of_epoch) == epochs and all(len(draws) == 1 for draws in of_epoch.values()) for of_epoch in drawn.values())
    if callback: assert sum(len(set.union(*of_epoch.values())) > 1 for of_epoch in drawn.values()) > 16, "the callback brings another draw each epoch"
    else: assert all(len(set.union(*of_epoch.values())) == 1 for of_epoch in drawn.values()), "without it a text is always intervened on in the same places"

@pytest.mark.parametrize("name", ["bert", "table"])
@pytest.mark.parametrize("kind", [MaskRegLoss, OutRegLoss, SimCSELoss, ITVAugLoss])
def test_the_other_losses_there(made, name, kind):
    base = load(made[name]); model = copy.deepcopy(base)
    loss = plain_trainer(model, kind(model, copy.deepcopy(base)), epochs=1)
    assert len(loss.history) == 3 and all(math.isfinite(v) for h in loss.history for v in h.values()) and loss.history[-1]["raw"] > 0
    assert encoder_fingerprint(model) != encoder_fingerprint(base)

@pytest.mark.parametrize("name", ["bert", "table"])
def test_a_tuned_model_loads_in_plain_sentence_transformers(made, tmp_path, name):
    base, (left, right, labels) = load(made[name]), few()
    model = copy.deepcopy(base)
    fine_tune(model, base, pair_tokens(base, left, right, labels), ITVREG, TrainConfig(learning_rate=1e-2, epochs=2, batch_size=8), seed=0)
    model.save(str(tmp_path / "tuned"), create_model_card=False)
    again = SentenceTransformer(str(tmp_path / "tuned"), device="cpu")
    assert encoder_fingerprint(again) == encoder_fingerprint(model) != encoder_fingerprint(base)
    vectors = again.encode(left, normalize_embeddings=True, convert_to_tensor=True)
    assert torch.allclose(vectors, embed_texts(model, left), atol=1e-6) and not torch.allclose(vectors, embed_texts(base, left), atol=1e-2)
    assert not list((tmp_path / "tuned").rglob("*.bin"))

@pytest.mark.parametrize("name", ["bert", "table"])
def test_bfloat16_training_keeps_weights_in_float32(made, name):
    base, (left, right, labels) = load(made[name]), few()
    tuned = {}
    for dtype in ("fp32", "bf16"):
        tuned[dtype] = copy.deepcopy(base).eval()
        if name == "bert":
            for module in tuned[dtype].modules():
                if isinstance(module, torch.nn.Dropout): module.p = 0.
        fine_tune(tuned[dtype], base, pair_tokens(base, left, right, labels), ITVREG, TrainConfig(learning_rate=1e-3, epochs=1, batch_size=8), seed=0, dtype=dtype)
    a, b = (embed_texts(tuned[d], left) for d in ("fp32", "bf16"))
    assert all(p.dtype == torch.float32 for p in tuned["bf16"].parameters()) and (a * b).sum(1).min() > .99

# runs

def test_a_run_that_diverges_is_recorded_with_its_step_and_tried_again(tmp_path, monkeypatch):
    store = Store(tmp_path)
    bad, good = experiment(["Finetuned"], [0], learning_rate=1e38).runs()[0], experiment(["Finetuned"], [1]).runs()[0]
    out = runner.run_all([bad, good], store, workers=1, progress=False)
    assert list(out.records) == [good.id] == out.trained and out.failed == {bad.id: "step 1: the loss is nan"}, "the others go on"
    failed = latest(store.all())[bad.id]
    assert (failed["status"], failed["step"], failed["error"], failed["metrics"]) == ("failed", 1, "the loss is nan", {}) and failed["config"]["seed"] == 0
    again = runner.run_all([bad, good], store, workers=1, progress=False)
    assert again.trained == [] and list(again.failed) == [bad.id], "a failure is no record to load"
    assert [r["status"] for r in store.all()] == ["failed", "finished", "failed"] and store.find(bad) is None

def test_a_failed_run_can_finish_later(tmp_path, monkeypatch):
    store, run, calls, mse = Store(tmp_path), experiment(["ITVReg"], [0]).runs()[0], [], methods.mse
    def sick(*args): calls.append(1); return mse(*args) * (math.nan if len(calls) == 4 else 1)
    monkeypatch.setattr(methods, "mse", sick)
    with pytest.raises(TrainingFailed, match="step 3: the loss is nan") as e: records.run_or_load(run, runner.execute, store)
    assert e.value.step == 3 and len(calls) == 4 and store.find(run) is None
    monkeypatch.undo()
    record = records.run_or_load(run, runner.execute, store)
    assert record["status"] == "finished" and latest(store.all())[run.id] == record == records.run_or_load(run, lambda c: pytest.fail("it was there"), store)
    assert [r["status"] for r in store.all()] == ["failed", "finished"]

def test_the_base_encoder_of_a_process_survives_a_failure(tmp_path):
    "Runs of one process share a loaded base encoder; a run that diverges must not have trained it."
    before = encoder_fingerprint(base_encoder(STATIC)[0])
    runner.run_all([experiment(["OutReg"], [0], learning_rate=1e38).runs()[0]], Store(tmp_path), workers=1, progress=False)
    assert encoder_fingerprint(base_encoder(STATIC)[0]) == before == base_encoder(STATIC)[1]

def test_another_process_gives_the_same_record(tmp_path):
    "Encoder, data, batches, interventions, resamples: all of it again from nothing, with other hashes of strings."
    runs = [r for r in experiment(["ITVReg"], [3]).runs()]
    here = comparable(runner.execute(runs[0]))
    code = "import json, sys\nfrom debias_nb.repro.config import RunConfig\nfrom debias_nb.repro.runner import execute\nprint(json.dumps(execute(RunConfig.model_validate_json(sys.argv[1]))))"
    env = os.environ | {"PYTHONHASHSEED": "7", "DEBIAS_NB_CACHE": str(tmp_path / "own"), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code, runs[0].model_dump_json()], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    there = json.loads(done.stdout.splitlines()[-1])
    assert comparable(there) == here and there["metrics"]["iid"]["auc05"] > .1 and (tmp_path / "own").is_dir()
    assert RunConfig.model_validate(there["config"]) == runs[0] and WORLD == runs[0].eval_world
