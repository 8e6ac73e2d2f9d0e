"The quiet trainer: what it leaves out changes no weight."
import copy

import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

import made
from debias_nb.encoders.tokens import report_prompts
from debias_nb.trainer import QuietTrainer, TokenizedOnce, training_arguments

PAIRS = made.some_pairs(40)
DATA = Dataset.from_dict({"left": [*PAIRS.left], "right": [*PAIRS.right], "score": PAIRS.label.astype(float).tolist()})


def train(trainer, model, folder, **changes) -> torch.Tensor:
    "The weights of a copy after two epochs."
    model = copy.deepcopy(model)
    args = training_arguments(folder, per_device_train_batch_size=16, num_train_epochs=2, learning_rate=1e-2,
                              use_cpu=True, **changes)
    trainer(model=model, args=args, train_dataset=DATA, loss=CosineSimilarityLoss(model)).train()
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


@pytest.mark.parametrize("prompts", [None, {"left": "why "}])
def test_a_text_is_tokenized_once_and_training_is_that_of_sentence_transformers(tmp_path, monkeypatch, prompts):
    model = made.load(made.table(tmp_path))
    requests = []
    preprocess = type(model[0]).preprocess
    monkeypatch.setattr(type(model[0]), "preprocess", lambda self, texts, **options: requests.extend(texts)
                        or preprocess(self, texts, **options))
    mine = train(QuietTrainer, model, tmp_path, prompts=prompts)
    once = {*PAIRS.left, *PAIRS.right} if prompts is None else {*PAIRS.right}
    assert len(requests) == len(once) + (0 if prompts is None else 2 * len(PAIRS)), "behind a prompt in each epoch"
    assert torch.equal(mine, train(SentenceTransformerTrainer, model, tmp_path, prompts=prompts))


def test_features_are_those_of_the_model(tmp_path):
    model = made.load(made.table(tmp_path))
    loss = CosineSimilarityLoss(model)
    report_prompts(model, loss)
    once = TokenizedOnce(model.preprocess)
    for texts in (["red lamp", "old", "red lamp"], ["", "old"], ["old"], [""]):
        expected = model.preprocess(texts)
        features = once(texts)
        assert features.keys() == expected.keys()
        assert all(torch.equal(features[name], expected[name]) for name in expected)
        assert all(features[name].dtype == expected[name].dtype for name in expected)
    assert "prompt_length" in once(["red lamp"], prompt="why ")
