"The names that semantic versioning promises: which they are, how they are called, their help, examples that run."
import doctest
import inspect
import re

import pytest

import debias_nb

NAMES = """
ARR(model, texts, teacher, temperature=0.1, bias=None, variant='paper')
AnswersWorldConfig(*, name, seed=0, rho=0.8, cue=0.95, stray=0.1, types=4, cues=5, content=600, asked=4, length=10,
    many=3, few=1, candidates=6, questions=3000, tests=500)
AuthorPairSampler(dataset, batch_size, drop_last=False, valid_label_columns=('label',), generator=None, seed=0)
AuthorsWorldConfig(*, name, seed=0, kappa=0.9, style=0.6, functions=60, marks=6, spellings=25, prefers=0.85,
    content=300, concentration=0.1, about=0.5, topics=16, unseen_topics=8, apart=0.0, authors=300, test_authors=200,
    texts=6, tokens=120, spread=0.3)
Catalog(config)
ContrastiveAuthorLoss(model, temperature=0.1)
DataError
DiagnosisEvaluator(tests, base)
EncoderError
Hinge(model, margin=1.0, hardest=1, temperature=None)
ITVReg(weight=0.1, mask_share=0.5, intervention='mask', *, columns=0, rows=1.0, texts=None, texts_per_batch=None,
    prompt=None, task=None, seed=0)
Importance(values, tokens, tokenizer)
L2SP(weight=1e-06, *, columns=0, rows=1.0, texts=None, texts_per_batch=None, prompt=None, task=None, seed=0)
LeastSquares(model)
MaskReg(weight=0.1, mask_share=0.15, intervention='mask', *, columns=0, rows=1.0, texts=None, texts_per_batch=None,
    prompt=None, task=None, seed=0)
Memory(kind='ema', alpha=0.9, size=280)
MissingData
OutReg(weight=0.1, *, columns=0, rows=1.0, texts=None, texts_per_batch=None, prompt=None, task=None, seed=0)
Paired(difference, low, high, n, p, method, seeds_alone=False, error=nan, freedom=nan, items_error=nan,
    seeds_freedom=nan, sources=None)
ProductOfExperts(model, texts, temperature=0.1, gamma=1.0)
Regularized(model, base_loss, regularizers, base=None, draws=<class 'debias_nb.losses.steps.Draws'>)
Regularizer(weight=0.1, *, columns=0, rows=1.0, texts=None, texts_per_batch=None, prompt=None, task=None, seed=0)
SCAN(model, weights=True, debias=True, memory='ema', temperature=1.0, ce=1.0, cl=1.0, class_mass='keep', **settings)
SimCSE(weight=0.1, token_dropout=0.1, *, columns=0, rows=1.0, texts=None, texts_per_batch=None, prompt=None,
    task=None, seed=0)
Tokens(ids, mask, ordinary, prompt=0)
WordDropout(share=0.1, *, columns='all', rows=1.0)
WorldConfig(*, name='catalogue', seed=0, p=0.9, brand_match=0.3, p_ood=0.0, decoys=0.5, p_attr=0.9, p_noun=0.6,
    known=1.0, aknown=1.0, p_broad=0.0, attributes='shared', accessories=0.2, prefix_brands=0.25, types=80,
    unseen_types=30, train_pairs=4000, broad_pairs=12000, queries=300, items=1000, negatives=3, test_negatives=20)
answers_split(config, name)
auc_at(y_true, y_score, max_fpr=0.05, weights=None, name='')
authors_split(config, name, likeness=0.0)
bootstrap_weights(n, replicates=200, seed=0, groups=None)
choose(tokens, share, seed, epoch, rows=None)
compare(base, train, tests, methods=None, *, texts=None, seeds=3, seed=0, learning_rate=None, epochs=None,
    batch_size=None, loss=None, metric=None, margin=1.0, like='like', prompts=None, sample=None, folder=None,
    progress=None)
diagnose(base, tuned, train=None, tests=None, *, metric=None, margin=1.0, like='like', threshold=None, prompts=None,
    sample=None, seed=0, progress=None)
diagnose_weights(weights, features, labels=None, *, generator, r=5, draws=5)
embed_texts(model, texts, max_length=None, dtype='fp32')
estimate_word(low, high, margin=1.0, p=None)
evaluate_pairs(y_true, y_score, groups=None, subsets=None, replicates=200, seed=0, name='')
holm(ps)
importance(model, tokens, kind='mask', dtype='fp32', rows_at_once=512)
interval(values, replicates=None, level=0.95, units=None)
intervene(model, tokens, chosen, kind='mask', seed=0, epoch=0, rows=None)
learn_weights(features, labels=None, memory=None, *, generator, variant='fixed', class_mass='free', r=5, **settings)
load_answers(name, part, download=True, require_hash=False)
load_encoder(config, device='cpu')
load_model(source, device=None)
load_questions(name, part, share=1.0, share_seed=0, holdout=0.0, download=True, require_hash=False)
load_texts(name, quotes=False, signatures=False, download=True, require_hash=False)
paired(a_values, b_values, a_replicates=None, b_replicates=None, level=0.95, units=None)
read_pairs(path, columns=('label', 'left', 'right'), encoding_errors='strict', name=None)
read_pairs_file(source, columns=None, name=None, *, match=None, match_from=None)
tokenize(model, texts, max_length=None, prompt='')
topic_bias(cosines, labels, temperature)
wise_ft(base, tuned, share)
"""


def test_the_names_and_their_signatures_are_these():
    signatures = [f"{name}{calling(getattr(debias_nb, name))}" for name in sorted(debias_nb.__all__)]
    assert signatures == [" ".join(entry.split()) for entry in re.split(r"\n(?! )", NAMES.strip())]


def is_error(thing) -> bool:
    "Whether something is a kind of exception, which has no arguments of its own."
    return isinstance(thing, type) and issubclass(thing, Exception)


def calling(thing) -> str:
    "How something is called: names and defaults, without types."
    if is_error(thing):
        return ""
    signature = inspect.signature(thing)
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def names_explained(text: str) -> set[str]:
    "Return the names that a docstring explains in numpy sections."
    lines = re.findall(r"^\**(\w[\w*, ]*) : ", text, flags=re.M)
    return {name for line in lines for name in line.split(", ")}


@pytest.mark.parametrize("name", debias_nb.__all__)
def test_the_help_is_complete_and_its_examples_run(name):
    "The first line is a sentence, each argument is described, and what stands behind >>> gives what is below it."
    thing = getattr(debias_nb, name)
    text = inspect.getdoc(thing)
    examples = doctest.DocTestFinder(recurse=False).find(thing, name, globs={})[0]
    assert examples.examples
    first = text.splitlines()[0]
    assert first[0].isupper() and first.endswith(".") and len(first) <= 110
    if not is_error(thing):
        assert set(inspect.signature(thing).parameters) <= names_explained(
            text), "each in its own help, not in that of a base class"
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.DocTestRunner(optionflags=flags).run(examples).failed == 0
