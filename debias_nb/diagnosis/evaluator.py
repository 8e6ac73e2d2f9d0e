"""An evaluator for sentence-transformers' trainer that keeps the step at which no test has lost."""
from sentence_transformers.sentence_transformer.evaluation import SentenceEvaluator

from .diagnose import read_tests
from .models import Model, load_model
from .test_sets import TooSmall


class DiagnosisEvaluator(SentenceEvaluator):
    """Evaluate an encoder on several tests while it trains, by what changed since the base.

    Parameters
    ----------
    tests : dict
        Name to what is tested on, as `diagnose` takes it.
    base : str, Path or SentenceTransformer
        The encoder before fine-tuning; a model in memory is measured now, before it is trained.

    Returns
    -------
    dict of float
        When called with a model: `worst_change`, the change of the test that changed worst, which is the primary
        metric, and for each test its value and change; fractions.

    Raises
    ------
    DataError
        For tests that cannot be read or are too small.
    EncoderError
        For a base that is not found, or no sentence encoder.

    Examples
    --------
    >>> from debias_nb import DiagnosisEvaluator
    >>> from debias_nb.diagnosis.demo import offers, small_encoder
    >>> model = small_encoder()
    >>> evaluator = DiagnosisEvaluator({"new": offers(300, 1, .2, .4)}, base=model)
    >>> evaluator(model)["worst_change"]
    0.0
    """
    def __init__(self, tests: dict, base: Model):
        super().__init__()
        scorer = load_model(base)
        _, made, left_out, _ = read_tests(None, tests, None, None, 0, False)
        if left_out:
            raise TooSmall("; ".join(left_out.values()))
        self.tests = {test.name: test for test in made}
        self.base = {test: self._value(test_set, scorer) for test, test_set in self.tests.items()}
        self.primary_metric = "worst_change"

    def _value(self, test, scorer) -> float:
        scores = test.score({"it": scorer})["it"]
        return test.measured(scores, test.metric).value

    def __call__(self, model, output_path=None, epoch: int = -1, steps: int = -1) -> dict[str, float]:
        scorer = load_model(model)
        values = {test: self._value(test_set, scorer) for test, test_set in self.tests.items()}
        changes = {test: value - self.base[test] for test, value in values.items()}
        metrics = {"worst_change": min(changes.values())}
        for test, test_set in self.tests.items():
            metrics |= {f"{test}_{test_set.metric}": values[test], f"{test}_change": changes[test]}
        self.store_metrics_in_model_card_data(model, metrics, epoch, steps)
        return metrics
