"The demonstration, and the evaluator that keeps the step at which no test has lost."
import pytest
import torch
import transformers
from datasets import Dataset
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

from debias_nb.diagnosis.demo import offers, small_encoder
from debias_nb.diagnosis.evaluator import DiagnosisEvaluator
from debias_nb.trainer import QuietTrainer, training_arguments


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    yield
    torch.set_num_threads(threads)


def test_the_trainer_keeps_the_step_whose_worst_change_is_smallest(tmp_path):
    train, like, new = offers(1500, 1, 1, 0), offers(900, 2, 1, 0), offers(900, 3, .2, .4)
    model = small_encoder()
    evaluator = DiagnosisEvaluator({"like": like, "new": new}, base=model)
    args = training_arguments(
        str(tmp_path), num_train_epochs=3, per_device_train_batch_size=50, learning_rate=.05, seed=0,
        eval_strategy="steps", eval_steps=15,
        save_strategy="steps", save_steps=15, load_best_model_at_end=True, metric_for_best_model="eval_worst_change",
        greater_is_better=True)
    rows = Dataset.from_pandas(train.astype({"label": float}))
    trainer = QuietTrainer(model=model, args=args, train_dataset=rows, loss=CosineSimilarityLoss(model),
                           evaluator=evaluator)
    trainer.train()
    entries = [entry for entry in trainer.state.log_history if "eval_worst_change" in entry]
    best = max(entries, key=lambda entry: entry["eval_worst_change"])
    final = evaluator(model)
    assert abs(final["worst_change"] - best["eval_worst_change"]) < 1e-6 > entries[-1][
        "eval_worst_change"], "the best step is what is kept"
    assert best["step"] < entries[-1]["step"] and final["worst_change"] > entries[-1]["eval_worst_change"]
