"SCAN as a loss of CrossEncoderTrainer: its terms by hand, what is trained, what is saved, and refusals."
import copy
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.base.modules import Transformer
from sentence_transformers.cross_encoder.modules import LogitScore
from transformers import BertTokenizerFast, Qwen3Config, Qwen3ForCausalLM, Qwen3ForSequenceClassification

import made
from made import cross_encoder
from debias_nb.losses.scan import Memory
from debias_nb.losses.scan_head import contrast
from debias_nb.losses.scan_loss import SCAN, last_layer, pair_scores

QUESTIONS = ["how red", "why blue kettle", "what chair", "how old lamp", "why new", "what large table", "how",
             "why red"]
ANSWERS = ["red kettle", "a lamp", "the old chair", "blue", "new kettle for the table", "a", "large small", "lamp lamp"]
LABELS = [1, 0, 0, 1, 0, 0, 1, 0]


@pytest.fixture(params=[("bert", 1), ("bert", 2), ("roberta", 1)], ids=str)
def model(request, tmp_path):
    kind, labels = request.param
    return cross_encoder(tmp_path / "model", labels, kind, dropout=0.)


def by_hand(model, hidden):
    scores = last_layer(model)(hidden)
    labels = torch.tensor(LABELS)
    if model.num_labels == 1:
        return F.binary_cross_entropy_with_logits(scores[:, 0], labels.float())
    return F.cross_entropy(scores, labels)


def test_terms_are_those_of_the_representation_before_the_last_layer(model):
    loss = SCAN(model, weights=False, ce=.5, cl=2.)
    terms = loss([QUESTIONS, ANSWERS], torch.tensor(LABELS))
    layer_inputs = []
    handle = last_layer(model).register_forward_pre_hook(lambda layer, inputs: layer_inputs.append(inputs[0]))
    scores = model(model.preprocess(list(zip(QUESTIONS, ANSWERS))))["scores"]
    handle.remove()
    hidden = layer_inputs[0]
    assert torch.allclose(last_layer(model)(hidden).flatten(), scores.flatten(), atol=1e-6)
    debiased_rows, bias = loss.debiasing(hidden)
    assert torch.isclose(terms["sw"], by_hand(model, hidden), atol=1e-6)
    assert torch.isclose(terms["ce"], .5 * by_hand(model, debiased_rows), atol=1e-6)
    assert torch.isclose(terms["cl"], 2 * contrast(hidden, debiased_rows, bias), atol=1e-6)


@pytest.mark.parametrize("is_loss, dtype", [(False, torch.bfloat16), (True, torch.bfloat16), (True, torch.float16)])
def test_half_precision_gives_nearly_the_same_terms(model, is_loss, dtype):
    loss = SCAN(model, weights=False)
    labels = torch.tensor(LABELS)
    exact = loss([QUESTIONS, ANSWERS], labels)
    module = loss if is_loss else model
    module.to(dtype)
    half = loss([QUESTIONS, ANSWERS], labels)
    assert last_layer(model).weight.dtype == dtype
    for name, term in half.items():
        assert term.dtype == torch.float32
        assert torch.isclose(term, exact[name], atol=1e-2)
    sum(half.values()).backward()
    assert all(weight.grad.isfinite().all() for weight in [last_layer(model).weight, *loss.debiasing.parameters()])


def test_an_adapter_around_the_last_layer_is_refused(tmp_path):
    "What such a layer is given is not its input alone: the factors of the adapter are linear layers too."
    peft = pytest.importorskip("peft")
    model = cross_encoder(tmp_path / "inside")
    model.add_adapter(peft.LoraConfig(task_type="SEQ_CLS", r=1, target_modules=["query"],
                                      modules_to_save=["classifier"]))
    assert SCAN(model).debiasing.transform[0].in_features == 32
    model = cross_encoder(tmp_path / "around")
    model.add_adapter(peft.LoraConfig(task_type="SEQ_CLS", r=4, target_modules=["query", "classifier"]))
    with pytest.raises(ValueError, match="adapter"):
        SCAN(model)


def test_weights_are_learned_in_training_alone(model):
    loss = SCAN(model, debias=False)
    labels = torch.tensor(LABELS)
    with torch.no_grad():
        last_layer(model).weight.mul_(50) # pairs that are told apart
        plain = loss([QUESTIONS, ANSWERS], labels)
    assert loss.memory.features is None, "an evaluation leaves nothing behind"
    np.random.seed(3)
    first = loss([QUESTIONS, ANSWERS], labels)
    assert list(first) == ["sw"] and abs(first["sw"] - plain["sw"]) > 1e-6
    assert len(loss.memory.features) == 8
    np.random.seed(3)
    second = SCAN(model, debias=False)([QUESTIONS, ANSWERS], labels)
    assert torch.equal(first["sw"], second["sw"]), "what is drawn follows from NumPy's generator"


def test_the_memory_is_the_printed_one_by_default(model):
    assert ((SCAN(model).memory.kind, SCAN(model, memory=280).memory.size, SCAN(model, memory=0).memory)
            == ("ema", 280, None))
    mine = Memory("ema", .7)
    loss = SCAN(model, memory=mine)
    assert loss.memory is not mine and loss.memory.alpha == .7 and loss.get_config_dict()["memory"] == "ema, 0.7"
    with pytest.raises(ValueError, match="queu"):
        SCAN(model, memory="queu")


PAIRS = Dataset.from_dict({"question": 2 * QUESTIONS, "answer": 2 * ANSWERS, "label": 2 * LABELS})


def test_the_trainer_trains_logs_and_saves_a_plain_cross_encoder(tmp_path):
    model = cross_encoder(tmp_path / "model")
    loss = SCAN(model)
    start = copy.deepcopy(loss.state_dict())
    args = CrossEncoderTrainingArguments(
        str(tmp_path / "out"), per_device_train_batch_size=8, num_train_epochs=2, learning_rate=1e-2, logging_steps=1,
        eval_strategy="epoch", report_to="none", disable_tqdm=True, use_cpu=True)
    trainer = CrossEncoderTrainer(model=model, args=args, train_dataset=PAIRS, eval_dataset=PAIRS, loss=loss)
    trainer.train()
    changes = {name for name, value in loss.state_dict().items() if not torch.equal(value, start[name])}
    assert any(name.startswith("debiasing.") for name in changes), "the branch is trained with the model"
    assert any(name.startswith("model.") for name in changes)
    steps = [line for line in trainer.state.log_history if "sw" in line]
    assert steps and all({"sw", "ce", "cl"} <= line.keys() for line in steps)
    model.save_pretrained(str(tmp_path / "saved"))
    copy_on_disk = CrossEncoder(str(tmp_path / "saved"), device="cpu")
    assert np.allclose(copy_on_disk.predict([("how", "red")]), model.predict([("how", "red")]), atol=1e-6)
    assert "zhong2022reducing" in (tmp_path / "saved/README.md").read_text("utf-8")


def six_steps(folder, out, keep=True, stop=None, settings=None, seed=0, **options):
    "A model trained for six steps with a checkpoint at each; `stop`: after so many; `seed`: of what is fresh."
    torch.manual_seed(seed)
    model = CrossEncoder(str(folder), device="cpu")
    loss = SCAN(model, memory=20, **(settings or {}))

    class Stop(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            control.should_training_stop |= state.global_step == stop

    args = CrossEncoderTrainingArguments(
        str(out), per_device_train_batch_size=4, max_steps=6, learning_rate=1e-2, logging_strategy="no", seed=1,
        save_strategy="steps", save_steps=1, report_to="none", disable_tqdm=True, use_cpu=True)
    callbacks = [Stop(), loss.callback] if keep else [Stop()]
    CrossEncoderTrainer(model=model, args=args, train_dataset=PAIRS, loss=loss, callbacks=callbacks).train(**options)
    return loss


def furthest(a, b):
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return max(float((x - y).abs().max()) for x, y in pairs)


@pytest.mark.parametrize("settings", [{}, {"debias": False}, {"weights": False}], ids=str)
def test_a_resumed_training_is_the_uninterrupted_one(tmp_path, settings):
    "Model, branch and memory, to the last bit."
    cross_encoder(tmp_path / "model").save_pretrained(str(tmp_path / "model"))
    uninterrupted = six_steps(tmp_path / "model", tmp_path / "whole", settings=settings)
    first = six_steps(tmp_path / "model", tmp_path / "out", stop=3, settings=settings)
    second = six_steps(tmp_path / "model", tmp_path / "out", resume_from_checkpoint=True, settings=settings, seed=99)
    assert furthest(second, uninterrupted) == 0 < furthest(first, uninterrupted)
    if uninterrupted.memory is not None:
        assert torch.equal(second.memory.features,
                           uninterrupted.memory.features) and len(uninterrupted.memory.features) == 20
        assert torch.equal(second.memory.weights, uninterrupted.memory.weights)


def test_a_step_leaves_no_gradient_of_the_branch_where_the_models_are_cleared(tmp_path):
    "sentence-transformers 6.0 clears those of the model alone."
    model = cross_encoder(tmp_path / "model", dropout=0.)
    loss = SCAN(model, weights=False)

    def gradient():
        sum(loss([QUESTIONS, ANSWERS], torch.tensor(LABELS)).values()).backward()
        return torch.cat([weight.grad.flatten().clone() for weight in loss.debiasing.parameters()])

    first = gradient()
    twice = gradient() # two batches of one step
    model.zero_grad()
    second = gradient()
    assert torch.allclose(twice, 2 * first, atol=1e-6) and torch.allclose(second, first, atol=1e-6)


def test_a_training_resumed_without_the_callback_says_what_is_lost(tmp_path):
    cross_encoder(tmp_path / "model").save_pretrained(str(tmp_path / "model"))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*SCAN")
        six_steps(tmp_path / "model", tmp_path / "out", keep=False, stop=3)
    with pytest.raises(FileNotFoundError, match="checkpoint-3.scan_0_0.safetensors"):
        six_steps(tmp_path / "model", tmp_path / "out", resume_from_checkpoint=True)
    with pytest.warns(UserWarning, match=r"callbacks=\[loss.callback\]"):
        six_steps(tmp_path / "model", tmp_path / "out", keep=False, resume_from_checkpoint=True)


def test_what_cannot_work_is_refused_when_it_is_made(tmp_path):
    model = cross_encoder(tmp_path / "model")
    for name, change in [
        ("temperature", {"temperature": None}),
        ("memory", {"memory": 1.5}), ("cl", {"cl": -1.}), ("ce", {"ce": "1"}), ("steps", {"steps": "a"}),
        ("class_mass", {"class_mass": "kept"}), ("both off", {"weights": False, "debias": False})]:
        with pytest.raises(ValueError, match=name):
            SCAN(model, **change)
    with pytest.raises(ValueError, match="SentenceTransformer"):
        SCAN(SentenceTransformer(str(made.table(tmp_path)), device="cpu"))
    for name, saver, reader in [("debiasing", {"debias": False}, {}), ("memory", {}, {"memory": 0})]:
        with pytest.raises(ValueError, match=name):
            SCAN(model, **saver).load_state(SCAN(model, **reader).state())


@pytest.mark.parametrize("columns, labels, words", [
    ([QUESTIONS, ANSWERS, ANSWERS], LABELS, "3 columns"),
    ([{}, {}], LABELS, "columns of texts"),
    ([QUESTIONS, torch.zeros(8)], LABELS, "columns of texts"),
    ([QUESTIONS, ANSWERS], None, "label"),
    ([QUESTIONS, ANSWERS], LABELS[:3], "8 pairs"),
    ([QUESTIONS, ANSWERS], [.5] * 8, "0.5"),
    ([QUESTIONS, ANSWERS], [2] * 8, "got 2"),
    ([QUESTIONS, ANSWERS], [-1] * 8, "-1"),
])
def test_batches_that_do_not_fit_are_refused(tmp_path, columns, labels, words):
    loss = SCAN(cross_encoder(tmp_path / "model"))
    with pytest.raises(ValueError, match=words):
        loss(columns, None if labels is None else torch.tensor(labels))


def decoder(folder, causal):
    "A random decoder that reranks: with a classifier on its last token, or by the logits of two words."
    folder.mkdir()
    made.cross_encoder(folder / "words")
    tokenizer = BertTokenizerFast(str(folder / "words" / "vocab.txt"), model_max_length=40)
    shape = Qwen3Config(
        vocab_size=len(made.VOCABULARY), hidden_size=32, intermediate_size=64, num_hidden_layers=2, head_dim=16,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, num_labels=1)
    torch.manual_seed(0)
    if not causal:
        Qwen3ForSequenceClassification(shape).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return CrossEncoder(str(folder), device="cpu")
    tokenizer.padding_side = "left"
    Qwen3ForCausalLM(shape).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    words = Transformer(str(folder), transformer_task="text-generation")
    yes, no = tokenizer.convert_tokens_to_ids(["red", "blue"])
    return CrossEncoder(modules=[words, LogitScore(yes, no)], device="cpu")


@pytest.mark.parametrize("causal", [False, True], ids=["classifier", "causal"])
def test_a_decoder_is_represented_by_the_last_token_of_a_pair(tmp_path, causal):
    model = decoder(tmp_path / "decoder", causal)
    pairs = list(zip(QUESTIONS[:6], ANSWERS[:6]))
    scores, hidden, classify = pair_scores(model, pairs)
    assert hidden.shape == (6, 32)
    assert torch.allclose(classify(hidden), scores, atol=1e-5)
    alone = torch.cat([pair_scores(model, [pair])[1] for pair in pairs])
    assert torch.allclose(hidden, alone, atol=1e-4), "whatever stands beside it in a batch"
    loss = SCAN(model)
    columns, labels = [QUESTIONS[:6], ANSWERS[:6]], torch.tensor([0, 1] * 3)
    sum(loss(columns, labels).values()).backward()
    assert all(float(part.grad.abs().sum()) > 0 for part in (last_layer(model).weight, *loss.debiasing.parameters()))
