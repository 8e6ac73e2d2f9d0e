"What users bring, one row per case: a small input of theirs, and beside it what a user must get of it."
import copy
import random
from pathlib import Path

import pandas as pd
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sklearn.metrics import average_precision_score, roc_auc_score

import made
from debias_nb.checks import ConfigError
from debias_nb.diagnosis.compare import compare
from debias_nb.diagnosis.diagnose import diagnose
from debias_nb.diagnosis.evidence import shared_pairs
from debias_nb.diagnosis.pairs import read_pairs_file


def shop(n, seed=0):
    "Pairs of shop items, half of them matches."
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        color, item = rng.choice(["red", "blue", "old"]), rng.choice(["kettle", "lamp", "chair", "table"])
        other = item if i % 2 else rng.choice(["kettle", "lamp", "chair", "table"])
        rows.append((f"{color} {item} model {seed}{i}", f"{other} in {color} ({i}{seed})", i % 2))
    return pd.DataFrame(rows, columns=["left", "right", "label"])


# ---------------------------------------------------------------- files


def leaked(folder):
    train = shop(40)
    some = list(train.itertuples(index=False, name=None))
    rows = [(some[0][1], some[0][0], some[0][2])] # swapped
    ways = (str.upper, lambda text: text.replace("e", "e\u0301"), lambda text: text.replace(" ", "  "),
            lambda text: text.replace(" ", "\xa0"), lambda text: text + ".", lambda text: text + " !",
            lambda text: text.replace("l", "l\u200b"))
    rows += [(way(left), right, label) for way, (left, right, label) in zip(ways, some[1:])]
    test = pd.concat([shop(40, 1), pd.DataFrame(rows, columns=train.columns)])
    train.loc[2, "left"] = train.left[2].replace("e", "\xe9") # the accents of the second way, in one character
    return shared_pairs(read_pairs_file(test), read_pairs_file(train))


def held_test(folder):
    test = folder / "new.csv"
    shop(60).to_csv(test, index=False)
    with pytest.raises(ValueError) as e:
        compare("no model is asked", shop(40, 1), {"new": test}, texts=f"{test}:left", methods="outreg-texts")
    return str(e.value)


# ---------------------------------------------------------------- models


def pair_of_models(folder):
    base = made.load(made.table(folder))
    tuned = copy.deepcopy(base)
    with torch.no_grad():
        tuned[0].embedding.weight *= (1 + torch.arange(len(base[0].embedding.weight)) % 5).unsqueeze(1)
    return base, tuned


def by_others(pairs, left, right, similarity):
    "AUC(0.05) and AP in percent, by scikit-learn on what sentence-transformers encodes."
    scores = similarity(torch.as_tensor(left), torch.as_tensor(right)).numpy().astype(float).round(5)
    most = .05
    standard = roc_auc_score(pairs.label, scores, max_fpr=most) # of McClish: .5 by chance, 1 at best
    area = (2 * standard - 1) * (most - most**2 / 2) + most**2 / 2
    return area / most, average_precision_score(pairs.label, scores)


def scored(found):
    return found.verdicts[found.verdicts.part == "all"][["base", "tuned"]].T.to_numpy().ravel().tolist()


def cosine(one, other):
    return torch.nn.functional.cosine_similarity(one, other)


def of_models(change, encode, similarity=cosine, **options):
    """What `diagnose` gives, and the right numbers; change: of both models; encode:

    (model, texts, whether they stand on the left)."""
    def run(folder):
        base, tuned = pair_of_models(folder)
        change(base, tuned)
        saved = []
        for name, model in (("one", base), ("two", tuned)):
            model.save(str(folder / name), create_model_card=False)
            saved.append(str(folder / name))
        pairs = shop(80)
        found = diagnose(*saved, shop(40, 1), {"new": pairs}, **options)
        right = []
        for path in saved:
            model = SentenceTransformer(path, device="cpu")
            vectors = [encode(model, pairs[side].tolist(), side == "left") for side in ("left", "right")]
            right += by_others(pairs, *vectors, similarity)
        assert scored(found) == pytest.approx(right, abs=2e-4)
        return " ".join([repr(found), *found.notes])
    return run


def dotted(base, tuned):
    base.similarity_fn_name = tuned.similarity_fn_name = "dot"


def prompted(base, tuned):
    tuned.prompts = {"query": "why the ", "passage": "table of "}


def named(base, tuned):
    for model in (base, tuned):
        model.prompts = {"search": "why the ", "query": "red ", "document": "blue "}


def truncated(base, tuned):
    tuned[0].load_state_dict(base[0].state_dict())
    tuned.truncate_dim = 4


def plain(model, texts, left):
    return model.encode(texts)


def behind_prompts(model, texts, left):
    if not any(model.prompts.values()):
        return model.encode(texts)
    return model.encode(texts, prompt_name="query" if left else "passage")


def behind_asked(model, texts, left):
    return model.encode(texts, prompt="why the " if left else "table of ")


def cut(folder):
    bert = SentenceTransformer(str(made.bert(folder)), device="cpu")
    other = SentenceTransformer(str(made.bert(folder / "other", seed=1)), device="cpu")
    for model in (bert, other):
        model.max_seq_length = 8
    test = shop(60)
    test.loc[:9, ["left", "right"]] = [[f"red {i % 3}", f"old {i}"] for i in range(10)] # short ones
    return [said for said in diagnose(bert, other, shop(40, 1), {"new": test}).warnings if "more than" in said]


CASES = { # what is done with the input, what must come of it
    "leaks in disguise": (leaked, 8),
    "a column of the test as texts": (held_test, "60 of 60 also occur in the test new"),
    "dot products": (of_models(dotted, plain, lambda one, other: (one * other).sum(1)), "dot for the base model"),
    "prompts of two sides": (of_models(prompted, behind_prompts),
                             "left texts behind 'why the ' and right texts behind 'table of '"),
    "prompts that are asked for": (
        of_models(named, behind_asked, prompts=("search", "table of ")),
        "left texts behind 'why the ' and right texts behind 'table of '"),
    "prompts by names that one model has": (
        of_models(prompted, behind_prompts, prompts=(" query", "passage ")),
        "left texts behind 'why the ' and right texts behind 'table of '"),
    "numbers that are not kept": (of_models(truncated, plain), "differ in settings"),
    "texts that are cut": (cut, [
        "new: 50 of 60 pairs have a text of more than 8 tokens, the limit of the base model and the tuned model: its "
        "end is not read."]),
}


@pytest.mark.parametrize("do, right", CASES.values(), ids=CASES)
def test_what_users_bring_gives_the_right_value(tmp_path: Path, do, right):
    found = do(tmp_path)
    assert right in found if isinstance(found, str) else found == right


@pytest.mark.parametrize("asked, words", [
    ("qeury", "no prompt is called 'qeury'; did you mean 'query'?"), (" docs", "no prompt is called 'docs'"),
    ("[Q]", "a prompt itself ends in a colon or a blank")])
@pytest.mark.parametrize("side", [0, 1])
def test_a_prompt_that_is_no_name_is_not_put_before_texts(tmp_path, asked, words, side):
    base, tuned = (SentenceTransformer(str(made.table(tmp_path / str(seed), seed)), device="cpu") for seed in (0, 1))
    tuned.prompts = {"query": "why the ", "passage": "table of "}
    prompts = (asked, "passage") if side == 0 else ("query", asked)
    with pytest.raises(ConfigError) as e:
        diagnose(base, tuned, None, {"new": shop(60)}, prompts=prompts)
    assert words in str(e.value)
    with pytest.raises(ConfigError):
        compare(tuned, shop(60), {"new": shop(60, 1)}, prompts=prompts)


def test_prompts_are_printed(tmp_path):
    base, tuned = (SentenceTransformer(str(made.table(tmp_path / str(seed), seed)), device="cpu") for seed in (0, 1))
    tuned.prompts = {"query": "why the ", "passage": "table of "}
    told = repr(diagnose(base, tuned, None, {"new": shop(60)}, prompts=("query", "red:")))
    assert "The tuned model reads left texts behind 'why the ' and right texts behind 'red:'." in told
    assert "The base model reads left texts behind '' and right texts behind 'red:'." in told
