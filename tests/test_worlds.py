"""Properties of the planted worlds that a notebook cell cannot say well.

Across processes, across configurations, at the limits.
"""
import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from debias_nb.config import AnswersWorldConfig, AuthorsWorldConfig, WorldConfig
from debias_nb.hashes import sha256_text
from debias_nb.data.planted_answers import answer_words, answers_split
from debias_nb.data.planted_authors import author_words, authors_split
from debias_nb.data.worlds import (
    ANSWER_SPLITS, AUTHOR_SPLITS, ONSETS, SPECIAL, SPLITS, STREAMS, STRONG, Catalogue, Lexicon, relevant, stream,
    strong_world, vocabulary_sha256, wordpiece_vocabulary,
)

SMALL = dict(types=12, unseen_types=5, train_pairs=120, broad_pairs=150, queries=25, items=90, test_negatives=5)


def small(**dials) -> Catalogue:
    return Catalogue(WorldConfig(**SMALL | dials))


def parts(world):
    made = {"broad": world.broad(), "train": world.train_pairs(), "labelled": world.labelled_pairs()}
    for split in SPLITS:
        made[split] = world.split(split)
        made[f"test {split}"] = world.test_pairs(split)
    return made


def broad_titles(world):
    return [title for pair in world.broad() for title in pair]


def broad_texts(world):
    return [title.text for title in broad_titles(world)]


def words_of_role(title, role):
    return [word for word, its_role in zip(title.words, title.roles) if its_role == role]


def rows_of(part):
    "All that a part says, as plain values."
    if isinstance(part, list):
        return [[t.text for t in pair] for pair in part]
    if hasattr(part, "labels"):
        numbers = [part.labels, part.group]
    else:
        numbers = [*part.relevant, part.positive, part.decoy]
    return [part.texts(), [n.tolist() for n in numbers]]


def fingerprint(part):
    return sha256_text(json.dumps(rows_of(part)))


def prints(world):
    return {name: fingerprint(p) for name, p in parts(world).items()}


def lexicon_words(world):
    return [w for a in (world.nouns, world.attribute_words, world.brands, world.fillers) for w in a.ravel()]


def longest_piece(word, start, vocabulary):
    "The longest piece of the vocabulary that the word goes on with, and where it ends; None where there is none."
    begin = "##" if start else ""
    for end in range(len(word), start, -1):
        if begin + word[start:end] in vocabulary:
            return begin + word[start:end], end
    return None


def cut(word, vocabulary):
    "Greedy longest match, as any WordPiece tokenizer."
    pieces = []
    start = 0
    while start < len(word):
        found = longest_piece(word, start, vocabulary)
        if found is None:
            return ["[UNK]"]
        piece, start = found
        pieces.append(piece)
    return pieces


SEEDS = st.integers(0, 10**6)
SHARES = st.floats(0, 1)
worlds = st.builds(
    small, seed=SEEDS, p=SHARES, brand_match=SHARES, p_ood=SHARES, decoys=SHARES, p_attr=SHARES, p_noun=SHARES,
    known=SHARES, aknown=SHARES, p_broad=SHARES, attributes=st.sampled_from(["shared", "local"]),
    accessories=st.floats(0, .8), prefix_brands=st.floats(0, .5), negatives=st.integers(1, 4),
)
few = settings(max_examples=15)


# ---------------------------------------------------------------- the same in every process


ROOT = Path(__file__).parents[1]
PRINTS = """
import json, sys
sys.path.insert(0, "tests")
from test_worlds import broad_texts, prints, small, vocabulary_sha256, wordpiece_vocabulary

vocabulary = wordpiece_vocabulary(broad_texts(small()), 500)
print(json.dumps([prints(small()), vocabulary, vocabulary_sha256(vocabulary)]))
"""


def in_another_process(code, hash_seed):
    "The JSON that the code prints."
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_world_is_the_same_in_every_process():
    one = in_another_process(PRINTS, "1")
    two = in_another_process(PRINTS, "4242")
    assert one == two
    assert one[0] == prints(small())
    vocabulary = wordpiece_vocabulary(broad_texts(small()), 500)
    assert one[1] == vocabulary
    assert one[2] == vocabulary_sha256(vocabulary)


def test_asking_twice_or_in_another_order_changes_nothing():
    world = small()
    forward = prints(world)
    backward = {s: fingerprint(world.split(s)) for s in reversed(SPLITS)}
    assert prints(world) == forward
    assert backward == {s: forward[s] for s in SPLITS}


def test_another_seed_is_another_world():
    one = prints(small())
    two = prints(small(seed=1))
    assert all(one[k] != two[k] for k in one)
    assert set(lexicon_words(small())) != set(lexicon_words(small(seed=1)))


def test_what_is_compared_holds_labels_and_relevance():
    world = small()
    pairs = world.labelled_pairs()
    task = world.split("iid")
    before = fingerprint(pairs), fingerprint(task)
    pairs.labels[0] = 1 - pairs.labels[0]
    task.decoy[0] = task.decoy[0] + 1
    assert fingerprint(pairs) != before[0]
    assert fingerprint(task) != before[1]


EVALUATED = {*SPLITS, *(f"test {s}" for s in SPLITS)}


@pytest.mark.parametrize("change, may_differ", [
    (dict(train_pairs=60), {"train", "labelled"}),
    (dict(broad_pairs=20), {"broad"}),
    (dict(negatives=1), {"labelled"}),
    (dict(queries=20), EVALUATED),
    (dict(items=95), EVALUATED),
    (dict(test_negatives=4), EVALUATED - {*SPLITS}),
    (dict(p_broad=.5), {"broad"}),
    (dict(known=.5, aknown=.5), {"broad"}),
    (dict(p_ood=.5), {"uncoupled", "unseen", "test uncoupled", "test unseen"}),
    (dict(decoys=.2), EVALUATED),
])
def test_a_dial_moves_its_own_parts_alone(change, may_differ):
    one = prints(small())
    two = prints(small(**change))
    assert {k for k in one if one[k] != two[k]} == may_differ


# ---------------------------------------------------------------- what holds in any world


@few
@given(worlds)
def test_labels_follow_the_definition(world):
    c = world.config
    train = world.train_pairs()
    labelled = world.labelled_pairs()
    assert len(train) == c.train_pairs
    assert train.labels.all()
    assert all(map(relevant, train.left, train.right))
    assert len(labelled) == c.train_pairs * (1 + c.negatives)
    assert labelled.labels.sum() == c.train_pairs
    assert all(relevant(a, b) == bool(l) for a, b, l in zip(labelled.left, labelled.right, labelled.labels))
    assert all(labelled.left[i] == train.left[g] for i, g in enumerate(labelled.group))
    assert (np.bincount(labelled.group, labelled.labels) == 1).all(), "one relevant pair a query"
    assert set(labelled.right) <= set(train.right), "others are training items"
    assert all(map(relevant, *zip(*world.broad())))
    in_training = {title.type for title in [*train.left, *train.right]}
    assert in_training <= set(range(c.types)), "no unseen type in training"


@few
@given(worlds, st.sampled_from(SPLITS))
def test_splits_follow_the_definition(world, name):
    c = world.config
    task = world.split(name)
    pairs = world.test_pairs(name)
    assert task.name == name
    assert len(task.queries) == c.queries
    assert len(task.items) == c.items
    for q, hits in zip(task.queries, task.relevant):
        assert hits.tolist() == [i for i, z in enumerate(task.items) if relevant(q, z)]
    assert all(p in hits for p, hits in zip(task.positive, task.relevant))
    assert len(set(task.positive)) == c.queries
    decoys = [(q, task.items[d]) for q, d in zip(task.queries, task.decoy) if d >= 0]
    assert len(decoys) == round(c.decoys * c.queries)
    for query, decoy in decoys:
        assert decoy.brand == query.brand
        assert decoy.type == world.type_of[query.brand]
        assert not relevant(query, decoy)
    allowed = range(c.types, c.types + c.unseen_types) if name == "unseen" else range(c.types)
    others = set(range(c.items)) - set(task.decoy.tolist())
    asked_for = {t.type for t in task.queries}
    offered = {task.items[i].type for i in others}
    assert asked_for | offered <= set(allowed)
    labels = np.array([relevant(a, b) for a, b in zip(pairs.left, pairs.right)])
    assert (pairs.labels == labels).all()
    assert pairs.labels.sum() == c.queries
    assert len(pairs) == c.queries * (1 + c.test_negatives)
    for g, q in enumerate(task.queries):
        mine = [pairs.right[i] for i in np.flatnonzero(pairs.group == g)]
        assert mine[0] == task.items[task.positive[g]]
        if task.decoy[g] >= 0:
            assert task.items[task.decoy[g]] in mine


@few
@given(worlds)
def test_no_word_of_the_lexicon_stands_twice_and_brands_are_dealt_evenly(world):
    words = lexicon_words(world)
    assert len(words) == len(set(words))
    assert not any(c.isdigit() for w in words for c in w)
    ordinary = np.flatnonzero(~world.accessory)
    seen = ordinary[ordinary < world.config.types]
    assert (world.brands_of[world.accessory] == -1).all()
    assert (world.redealt[world.accessory] == -1).all()
    all_brands = list(range(len(world.brands)))
    assert sorted(world.brands_of[seen].ravel()) == sorted(world.redealt[seen].ravel()) == all_brands
    assert all(not set(world.brands_of[t]) & set(world.redealt[t]) for t in seen), "a derangement"
    assert all((world.type_of[world.brands_of[t]] == t).all() for t in seen)
    assert (world.prefix_of >= 0).sum() == round(world.config.prefix_brands * len(world.brands))
    for brand, prefix in zip(world.brands, world.prefix_of):
        begins = [other for other in words if other != brand and brand.startswith(other)]
        assert begins == ([world.brands[prefix]] if prefix >= 0 else [])
    begun = np.flatnonzero(world.prefix_of >= 0)
    assert (world.type_of[begun] != world.type_of[world.prefix_of[begun]]).all()


def word_is_of_role(word, role, title, world):
    if role == "brand":
        return word == world.brands[title.brand]
    if role == "noun":
        return word in world.nouns[title.type]
    if role == "attribute":
        slots = world.slots_of[title.type]
        return any(word in world.attribute_words[slot, value] for slot, value in zip(slots, title.values))
    if role == "filler":
        return word in set(world.fillers)
    assert role == "code"
    return word[0] in ONSETS and len(word) == 3 and word[1:].isdigit()


@few
@given(worlds)
def test_titles_say_what_they_are(world):
    broad = broad_titles(world)[:120]
    others = world.train_pairs().left + world.split("unseen").items
    for t in broad + others:
        assert t.words
        assert len(t.words) == len(t.roles) == len(t.causal) == len(set(t.words))
        assert t.text.split() == list(t.words)
        assert t.accessory == world.accessory[t.type]
        assert "brand" not in t.roles[1:]
        assert 0 <= t.brand < len(world.brands)
        for word, role, causal in zip(t.words, t.roles, t.causal):
            assert causal == (role in ("noun", "attribute") or (role == "brand" and t.accessory))
            assert word_is_of_role(word, role, t, world)
    assert all(t.roles[0] == "brand" for t in others), "only titles of the broad corpus are silent about the brand"


@few
@given(worlds)
def test_the_vocabulary_spells_every_word(world):
    broad = broad_texts(world)
    vocabulary = wordpiece_vocabulary(broad, 400)
    known = set(vocabulary)
    assert len(known) == len(vocabulary) <= 400
    assert tuple(vocabulary[:5]) == SPECIAL
    assert vocabulary == wordpiece_vocabulary(list(reversed(broad)), 400), "the order of the texts does not matter"
    for word in {w for text in broad for w in text.split()}:
        assert "".join(p.removeprefix("##") for p in cut(word, known)) == word
        if not word.isalpha():
            assert cut(word, known) == [word[0], "##" + word[1], "##" + word[2]]


@pytest.mark.parametrize("config", [WorldConfig(), strong_world(seed=3)])
def test_the_vocabulary_keeps_words_of_the_whole_world_in_one_piece(config):
    world = Catalogue(config)
    known = set(wordpiece_vocabulary(broad_texts(world), 2500))
    columns = [*world.labelled_pairs().texts()]
    for split in SPLITS:
        columns += world.split(split).texts()
    words = {word for texts in columns for text in texts for word in text.split()}
    pieces = {word: cut(word, known) for word in words}
    assert not any("[UNK]" in p for p in pieces.values())

    begun = {brand: world.brands[prefix] for brand, prefix in zip(world.brands, world.prefix_of) if prefix >= 0}
    assert begun
    for brand, prefix in begun.items():
        if brand in pieces:
            rest = "##" + brand[len(prefix):]
            assert pieces[brand] == [prefix, rest], "a brand begun by another shares its piece"
    assert all(len(p) == 1 for w, p in pieces.items() if w.isalpha() and w not in begun)


def test_a_small_vocabulary_keeps_the_frequent_words():
    texts = ["aaaa"] * 5 + ["bbbb"] * 3 + ["cccc aaaabb"]
    assert wordpiece_vocabulary(texts, 100)[5 + 6:] == ["aaaa", "bbbb", "cccc", "##bb"]
    assert wordpiece_vocabulary(texts, 5 + 6 + 1)[-1] == "aaaa"
    with pytest.raises(ValueError, match="size: 10 pieces"):
        wordpiece_vocabulary(texts, 10)


# ---------------------------------------------------------------- the dials do what they say


def shares(world, texts, brands):
    return np.mean([t.brand in brands[t.type] for t in texts if not t.accessory])


def near(share, expected, n):
    "Whether a share of n is within four standard deviations of what is expected."
    deviation = np.sqrt(max(expected * (1 - expected), 1e-9) / n)
    return abs(share - expected) < 4 * deviation + 1e-9


@pytest.mark.parametrize("p", [0., .3, .9, 1.])
def test_brands_go_with_types_as_often_as_p_says(p):
    world = Catalogue(WorldConfig(p=p, p_broad=p, queries=900, items=2500))
    chance = 2 / len(world.brands)
    train = world.train_pairs()
    n = 700 # at least so many ordinary titles
    tied = p + (1 - p) * chance
    iid = world.split("iid").queries
    redealt = world.split("redealt").queries
    broad = [a for a, _ in world.broad()[:1500]]
    for texts in (train.left, train.right, iid, broad):
        assert near(shares(world, texts, world.brands_of), tied, n)
    assert near(shares(world, redealt, world.redealt), tied, n)
    assert near(shares(world, redealt, world.brands_of), (1 - p) * chance, n)
    for split in ("uncoupled", "unseen"):
        assert near(shares(world, world.split(split).queries, world.brands_of), chance, n)


@pytest.mark.parametrize("p_ood", [.5, 1.])
def test_p_ood_ties_brands_in_two_splits(p_ood):
    world = Catalogue(WorldConfig(p_ood=p_ood, queries=900, items=2500))
    tied = p_ood + (1 - p_ood) * 2 / len(world.brands)
    for split in ("uncoupled", "unseen"):
        assert near(shares(world, world.split(split).queries, world.brands_of), tied, 700)


def test_dials_at_their_limits_leave_nothing_to_chance():
    def same(pairs):
        "Whether query and item are of one brand, where the brand is no part of what is asked."
        return [a.brand == b.brand for a, b in zip(pairs.left, pairs.right) if not a.accessory]

    matched = Catalogue(WorldConfig(brand_match=1)).train_pairs()
    free = Catalogue(WorldConfig(p=0, brand_match=0)).train_pairs()
    assert all(same(matched))
    assert np.mean(same(free)) < .02
    accessories = [(a, b) for a, b in zip(free.left, free.right) if a.accessory]
    assert all(a.brand == b.brand for a, b in accessories), "an accessory's brand is part of what is asked"
    full = small(p_noun=1, p_attr=1).train_pairs()
    bare = small(p_noun=0, p_attr=0)
    assert all(t.roles.count("noun") == 1 and t.roles.count("attribute") == 2 for t in full.left)
    assert not any({"noun", "attribute"} & set(t.roles) for t in bare.train_pairs().left)
    assert all({"noun", "attribute"} & set(t.roles) for t in broad_titles(bare))
    assert (small(decoys=0).split("iid").decoy == -1).all()
    assert (small(decoys=1).split("iid").decoy >= 0).all()
    assert not small(accessories=0).train_pairs().accessory.any()
    assert (small(prefix_brands=0).prefix_of == -1).all()


def test_the_broad_corpus_mixes_known_synonyms_alone():
    def mixed(world):
        "Of pairs that say their noun twice: how many say it differently."
        said = [[words_of_role(title, "noun") for title in pair] for pair in world.broad()]
        return np.mean([a != b for a, b in said if a and b])

    assert mixed(small(known=0, broad_pairs=3000)) == 0
    assert abs(mixed(small(known=1, broad_pairs=3000)) - .75) < .06
    half = small(known=.5, broad_pairs=3000)
    assert half.known.sum() == round(.5 * 17)
    assert 0 < mixed(half) < .6
    titles = broad_titles(half)
    assert {t.type for t in titles} == set(range(17)), "unseen types included"
    assert 0.45 < np.mean(["brand" in t.roles for t in titles]) < .55


def test_words_of_a_kind_are_equally_frequent():
    world = Catalogue(WorldConfig(broad_pairs=8000))
    counts = Counter(word for title in broad_titles(world) for word in title.words)
    for kind in (world.nouns, world.brands, world.fillers):
        found = np.array([counts[w] for w in kind.ravel()])
        assert (abs(found - found.mean()) < 6 * np.sqrt(found.mean())).all()


def test_local_attributes_name_the_type():
    world = small(attributes="local")
    assert len(world.attribute_words) == 2 * 17
    assert len(set(world.slots_of.ravel())) == 2 * 17
    assert all(len(set(pair)) == 2 for pair in small().slots_of)


@pytest.mark.parametrize("dials, message", [
    (dict(accessories=1), "accessories"),
    (dict(prefix_brands=.8), "prefix_brands"),
    (dict(types=8000), "lower `types`"),
    (dict(seed=-1), "seed"),
])
def test_impossible_lexica_are_refused(dials, message):
    with pytest.raises(ValueError, match=message):
        Lexicon(WorldConfig(**dials))


def test_impossible_parts_are_refused():
    with pytest.raises(ValueError, match="items: 30 are too few for 25 queries"):
        small(items=30).split("iid")
    with pytest.raises(ValueError, match="test_negatives: 90 asked for"):
        small(test_negatives=90).test_pairs("iid")
    with pytest.raises(ValueError, match="raise `train_pairs`"):
        small(train_pairs=1).labelled_pairs()
    with pytest.raises(ValueError, match="did you mean 'uncoupled'"):
        small().split("uncupled")
    with pytest.raises(ValueError, match="no split"):
        small().test_pairs("ood")


def test_the_strong_world_is_a_change_of_the_mild_one():
    changed = {k: v for k, v in strong_world().model_dump().items() if v != getattr(WorldConfig(), k)}
    assert changed == STRONG
    assert strong_world(p=.5).p == .5


# ---------------------------------------------------------------- questions and answers


def asking(**dials):
    return AnswersWorldConfig(name="answers", **{**dict(questions=60, tests=40), **dials})


def columns(split):
    "The columns of a split as plain values."
    return [c.tolist() if isinstance(c, np.ndarray) else c for c in split]


asked_worlds = st.builds(
    asking, seed=SEEDS, rho=st.floats(-1, 1), cue=SHARES, stray=SHARES, types=st.integers(2, 6),
    cues=st.integers(1, 7), content=st.integers(30, 200), asked=st.integers(5, 9), length=st.integers(7, 14),
    many=st.integers(3, 5), few=st.integers(0, 2), candidates=st.integers(2, 8),
)


@few
@given(asked_worlds, st.sampled_from(ANSWER_SPLITS))
def test_answers_follow_the_definition(c, name):
    words = answer_words(c)
    a = answers_split(c, name)
    n = c.questions if name == "train" else c.tests
    own = dict(zip(words.types, map(set, words.cues)))
    content = set(words.content)
    cues = set(words.cues.ravel())
    assert a.name == name
    assert {len(column) for column in a[1:]} == {n * c.candidates}
    assert (a.labels.dtype, a.many.dtype, a.cued.dtype) == (int, bool, bool)
    assert a.question_ids == [q for q in dict.fromkeys(a.question_ids) for _ in range(c.candidates)]
    assert len(set(zip(a.question_ids, a.questions))) == n
    assert (a.labels.reshape(n, -1).sum(1) == 1).all()
    assert set(a.labels) <= {0, 1}
    for question, answer, many, cued in zip(a.questions, a.answers, a.many, a.cued):
        type_, *asked = question.split()
        said = answer.split()
        assert len(set(asked)) == len(asked) == c.asked
        assert set(asked) <= content
        assert len(set(said)) == len(said) == c.length
        assert len(set(said) & set(asked)) == (c.many if many else c.few)
        assert len(set(said) & cues) == 1
        assert len(set(said) & own[type_]) == cued
        assert set(said) <= content | cues


@few
@given(asked_worlds)
def test_rho_moves_the_shared_words_alone(c):
    other = c.model_copy(update=dict(rho=-c.rho))
    for name in ANSWER_SPLITS:
        a = answers_split(c, name)
        b = answers_split(other, name)
        assert columns(a)[:3] == columns(b)[:3]
        assert (a.labels == b.labels).all()
        assert (a.cued == b.cued).all()
        assert [x == y for x, y in zip(a.answers, b.answers)] == (a.many == b.many).tolist()
    assert columns(answers_split(c, "neutral")) == columns(answers_split(other, "neutral"))


@pytest.mark.parametrize("change, may_differ", [
    (dict(questions=70), {"train"}),
    (dict(tests=50), {*ANSWER_SPLITS} - {"train"}),
    (dict(rho=.1), {*ANSWER_SPLITS} - {"neutral"}),
    (dict(seed=1), {*ANSWER_SPLITS}),
    (dict(cue=.5), {*ANSWER_SPLITS}),
])
def test_a_dial_of_the_answers_moves_its_own_parts_alone(change, may_differ):
    one = {s: columns(answers_split(asking(), s)) for s in ANSWER_SPLITS}
    two = {s: columns(answers_split(asking(**change), s)) for s in ANSWER_SPLITS}
    assert {s for s in ANSWER_SPLITS if one[s] != two[s]} == may_differ


@pytest.mark.parametrize("rho", [-1., -.4, 0., .6, 1.])
def test_words_are_shared_as_often_as_rho_says(rho):
    c = asking(rho=rho, questions=1500, tests=1500)
    for name in ANSWER_SPLITS:
        a = answers_split(c, name)
        r = {"neutral": 0, "shifted": -rho}.get(name, rho)
        for label, chance, cue in ((1, (1 + r) / 2, c.cue), (0, (1 - r) / 2, c.stray)):
            rows = a.labels == label
            assert near(a.many[rows].mean(), chance, rows.sum())
            assert near(a.cued[rows].mean(), cue, rows.sum())
            both = (a.many & a.cued)[rows].mean() # given the label, the two signs are independent
            assert near(both, chance * cue, rows.sum())


def even(counts):
    "Whether counts are as equal as chance leaves them."
    return (abs(np.array(counts) - np.mean(counts)) < 5 * np.sqrt(np.mean(counts))).all()


def counts_of(words, found):
    "How often each of the words was found."
    found = Counter(found)
    return [found[word] for word in words]


def test_all_places_types_and_words_are_equally_frequent():
    c = asking(tests=4000, content=60)
    a = answers_split(c, "iid")
    words = answer_words(c)
    cues = words.cues.ravel().tolist()
    assert even(a.labels.reshape(-1, 6).sum(0))

    questions = [question.split() for question in a.questions]
    types = [type_ for type_, *_ in questions]
    asked = [rest for _, *rest in questions]
    said = [answer.split() for answer in a.answers]
    assert even(counts_of(words.types, types[::6]))
    assert even(counts_of(words.content, [word for q in asked[::6] for word in q])), "words asked for"
    places = [q.index(word) for q, answer in zip(asked, said) for word in answer if word in q]
    assert even(np.bincount(places)), "any word of the question may be repeated"

    for rows in (a.many, ~a.many): # fillers, by how many words are shared: they must not tell
        these = [(asked[i], said[i]) for i in np.flatnonzero(rows)]
        fillers = [word for q, answer in these for word in answer if word not in q]
        assert even(counts_of(words.content, fillers))
    for rows in (a.labels == 1, a.labels == 0): # where in the answer the cue stands, and which of its type it is
        these = [said[i] for i in np.flatnonzero(rows)]
        found = [(place, word) for answer in these for place, word in enumerate(answer) if word in cues]
        assert even(np.bincount([place for place, _ in found], minlength=10))
        assert even(counts_of(cues, [word for _, word in found]))


ANSWERS = """
import json
from debias_nb.config import AnswersWorldConfig
from debias_nb.data.planted_answers import ANSWER_SPLITS, answers_split

config = AnswersWorldConfig(name="answers", questions=60, tests=40)
splits = [answers_split(config, split) for split in ANSWER_SPLITS]
print(json.dumps([[a.questions, a.answers, a.labels.tolist()] for a in splits]))
"""


def test_answers_are_the_same_in_every_process():
    backward = [answers_split(asking(), split) for split in reversed(ANSWER_SPLITS)]
    here = [[a.questions, a.answers, a.labels.tolist()] for a in reversed(backward)]
    assert in_another_process(ANSWERS, "77") == here


def test_streams_of_the_answers_stand_behind_those_of_the_catalogue():
    "A stream is made from its place in the list: what is added in front would change every world."
    assert STREAMS[:12] == ("lexicon", "broad", "train", "labelled", *SPLITS, *(f"test {s}" for s in SPLITS))
    assert STREAMS[12:18] == ("answers words", *(f"answers {s}" for s in ANSWER_SPLITS))
    assert STREAMS[18:] == ("authors words", *(f"authors {s}" for s in AUTHOR_SPLITS), "authors unseen words")
    draws = {stream(asking(), part).integers(2**62) for part in STREAMS}
    assert len(draws) == len(STREAMS)


TOO_FEW = "content: 20 words are too few, a question of 15 and an answer of 10 that shares 1 need 23"


@pytest.mark.parametrize("dials, message", [
    (dict(seed=-1), "seed: -1 is negative"),
    (dict(content=40_000), "lower `types`, `cues` or `content`"),
    (dict(types=5000), "lower `types`"),
    (dict(content=20, asked=15, many=3), TOO_FEW),
    (dict(content=20, length=30), "need 32"),
])
def test_impossible_answers_are_refused(dials, message):
    with pytest.raises(ValueError, match=message):
        answers_split(asking(**dials), "dev")


def test_as_few_content_words_as_can_be_are_enough():
    # 12 asked for, 8 others: an answer with one shared word and a cue says them all
    a = answers_split(asking(content=20, asked=12, many=9, few=1), "iid")
    assert all(len(set(t.split())) == 10 for t in a.answers)
    assert not a.many.all()
    with pytest.raises(ValueError, match="content: 20 words"):
        answers_split(asking(content=20, asked=12, many=9, few=0), "iid")


@pytest.mark.parametrize("name, words", [
    ("shiftd", "did you mean 'shifted'"),
    ("test", "no split 'test'"),
    ("uncoupled", "no split"),
])
def test_unknown_splits_of_answers_are_refused(name, words):
    with pytest.raises(ValueError, match=words):
        answers_split(asking(), name)


# ---------------------------------------------------------------- authors and topics


def writing(**dials):
    return AuthorsWorldConfig(name="authors", **{**dict(authors=20, test_authors=12, texts=3, tokens=40), **dials})


written_worlds = st.builds(
    writing, seed=SEEDS, kappa=SHARES, style=st.floats(0, 2), functions=st.integers(2, 80), marks=st.integers(1, 50),
    spellings=st.integers(0, 30), prefers=SHARES, content=st.integers(10, 120), concentration=st.floats(.001, 2),
    about=SHARES, topics=st.integers(2, 9), unseen_topics=st.integers(1, 9), apart=SHARES,
    tokens=st.integers(10, 60), spread=SHARES,
)


@few
@given(written_worlds, st.sampled_from(AUTHOR_SPLITS), st.floats(0, 1))
def test_texts_follow_the_definition(c, name, likeness):
    words = author_words(c)
    w = authors_split(c, name, likeness)
    n = (c.authors if name == "train" else c.test_authors) * c.texts
    assert w.name == name
    assert {len(column) for column in w[1:]} == {n}
    assert w.author == [f"{name} {a}" for a in range(n // c.texts) for _ in range(c.texts)]
    if name == "cross":
        topics = {f"unseen {t}" for t in range(c.unseen_topics)}
        vocabulary = [*words.style, *words.unseen]
    else:
        topics = {f"topic {t}" for t in range(c.topics)}
        vocabulary = [*words.style, *words.content]
    assert set(w.topic) <= topics
    assert all((home == "") == (name == "cross") for home in w.home)
    assert len(set(vocabulary)) == len(vocabulary) == c.functions + c.marks + 2 * c.spellings + c.content
    said = [text.split() for text in w.text]
    assert all(said)
    assert {*itertools.chain(*said)} <= set(vocabulary)


def counted(split, words):
    "How often each text says each word of style, and each content word."
    content = words.unseen if split.name == "cross" else words.content
    counter = CountVectorizer(lowercase=False, token_pattern=r"\S+", vocabulary=[*words.style, *content])
    counts = counter.transform(split.text).toarray()
    return np.split(counts, [len(words.style)], axis=1)


def styled(text, words):
    "The words of style alone."
    return [word for word in text.split() if word in set(words.style)]


@few
@given(written_worlds, st.floats(0, 1))
def test_kappa_moves_the_topics_alone(c, kappa):
    other = c.model_copy(update=dict(kappa=kappa))
    words = author_words(c)
    for name in AUTHOR_SPLITS:
        a = authors_split(c, name)
        b = authors_split(other, name)
        assert a.author == b.author
        assert a.home == b.home
        assert [styled(t, words) for t in a.text] == [styled(t, words) for t in b.text]
        assert [len(t.split()) for t in a.text] == [len(t.split()) for t in b.text]
        assert all(x == y for x, y, s, t in zip(a.text, b.text, a.topic, b.topic) if s == t)
    assert columns(authors_split(c, "cross")) == columns(authors_split(other, "cross"))


@pytest.mark.parametrize("change, may_differ", [
    (dict(authors=21), {"train"}),
    (dict(test_authors=13), {"cross", "iid"}),
    (dict(kappa=.1), {"train", "iid"}),
    (dict(unseen_topics=3), {"cross"}),
    (dict(apart=.5), {"cross"}),
    (dict(seed=1), {*AUTHOR_SPLITS}),
    (dict(style=.1), {*AUTHOR_SPLITS}),
    (dict(concentration=1.), {*AUTHOR_SPLITS}),
    (dict(texts=4), {*AUTHOR_SPLITS}),
    (dict(prefers=.5), {*AUTHOR_SPLITS}),
])
def test_a_dial_of_the_authors_moves_its_own_parts_alone(change, may_differ):
    one = {s: columns(authors_split(writing(), s)) for s in AUTHOR_SPLITS}
    two = {s: columns(authors_split(writing(**change), s)) for s in AUTHOR_SPLITS}
    assert {s for s in AUTHOR_SPLITS if one[s] != two[s]} == may_differ


@pytest.mark.parametrize("kappa", [0., .4, .9, 1.])
def test_texts_are_at_home_as_often_as_kappa_says(kappa):
    c = writing(kappa=kappa, authors=500, test_authors=500, tokens=10)
    for name in ("train", "iid"):
        w = authors_split(c, name)
        at_home = np.mean([home == topic for home, topic in zip(w.home, w.topic)])
        assert near(at_home, kappa + (1 - kappa) / c.topics, 1500)
    # all topics are equally frequent; homes are drawn for authors, so their spread is that of authors
    for w in (authors_split(c, "train"), authors_split(c, "cross")):
        found = np.unique(w.topic, return_counts=True)[1]
        assert len(found) == (8 if w.name == "cross" else 16)
        assert (abs(found - found.mean()) < 5 * np.sqrt(3 * found.mean())).all()


def topic_is_as_planted(split, words, topic, chances):
    "Whether the words of a topic's texts are as frequent as planted, within what chance leaves."
    _, content = counted(split, words)
    found = content[np.array(split.topic) == topic].sum(0)
    return np.allclose(found / found.sum(), chances, atol=5 * np.sqrt(chances.max() / found.sum()))


def test_words_are_as_frequent_as_the_dials_say():
    c = writing(style=0, authors=600, tokens=100, about=.3, prefers=.8, spread=0)
    w = authors_split(c, "train")
    words = author_words(c)
    by_text, content = counted(w, words)
    assert set(by_text.sum(1) + content.sum(1)) == {100}
    assert near(content.sum() / 180000, .3, 180000)
    style = by_text.sum(0) / by_text.sum()
    functions = style[:60]
    marks = style[60:66]
    spelled = style[66:].reshape(-1, 2)
    assert np.allclose([functions.sum(), marks.sum(), spelled.sum()], [.6, .25, .15], atol=.005)
    by_rank = np.arange(1, 61) ** -.8
    assert np.allclose(functions, .6 * by_rank / by_rank.sum(), atol=.002)
    own = by_text.reshape(600, 3, -1).sum(1)[:, 66:].reshape(600, 25, 2)
    often = own.max(2).sum() / own.sum() # which form an author prefers is not told; the more frequent one mostly is it
    assert .78 < often < .9
    assert abs(own[..., 0].sum() / own.sum() - .5) < .03
    for t in (0, 7):
        assert topic_is_as_planted(w, words, f"topic {t}", words.topics[t])


def test_authors_differ_by_style_and_keep_it():
    def spread(style):
        "Of the share of marks: over authors against within them."
        c = writing(style=style, authors=200, texts=4, tokens=200)
        said, _ = counted(authors_split(c, "train"), author_words(c))
        share = said[:, 60:66].sum(1) / said.sum(1)
        by_author = share.reshape(200, 4)
        return by_author.mean(1).std() / by_author.std(1).mean()

    assert spread(0) < .8 < 1.5 < spread(.6) < spread(1.2)


def test_likeness_mixes_topics_of_training():
    c = writing(test_authors=400, tokens=100, about=1., unseen_topics=20, topics=6)
    words = author_words(c)
    for likeness in (0., .4, 1.):
        w = authors_split(c, "cross", likeness)
        for t in (0, 7, 13):
            chances = (1 - likeness) * words.topics[6 + t] + likeness * words.topics[t % 6]
            assert topic_is_as_planted(w, words, f"unseen {t}", chances)
    for name in ("train", "iid"):
        assert columns(authors_split(c, name)) == columns(authors_split(c, name, .4))


@few
@given(written_worlds)
def test_words_of_their_own_stand_where_the_others_stood(c):
    near = c.model_copy(update=dict(apart=0.))
    words = author_words(c)
    known = author_words(near)
    renamed = dict(zip(words.content, words.unseen))
    own = {word for word, before in zip(words.unseen, words.content) if word != before}
    assert len(own) == round(c.apart * c.content)
    assert not own & {*words.style, *words.content}
    assert (known.unseen == known.content).all()
    assert (known.content == words.content).all()
    assert (known.topics == words.topics).all()
    one = authors_split(near, "cross")
    two = authors_split(c, "cross")
    assert [" ".join(renamed.get(w, w) for w in text.split()) for text in one.text] == two.text


def test_words_of_their_own_stay_as_the_dial_is_turned():
    half = author_words(writing(apart=.5)).unseen
    all_ = author_words(writing(apart=1)).unseen
    kept = half == author_words(writing()).content
    assert kept.sum() == 150
    assert (half == all_)[~kept].all()
    assert (half != all_)[kept].all()


def test_a_world_without_words_of_their_own_needs_no_further_words():
    assert len(author_words(writing(content=20_000)).unseen) == 20_000
    with pytest.raises(ValueError, match="lower `functions`, `spellings` or `content`"):
        author_words(writing(content=20_000, apart=.1))


AUTHORS = """
import json
from debias_nb.config import AuthorsWorldConfig
from debias_nb.data.planted_authors import AUTHOR_SPLITS, authors_split

config = AuthorsWorldConfig(name="authors", authors=20, test_authors=12, texts=3, tokens=40)
splits = [authors_split(config, split) for split in AUTHOR_SPLITS]
print(json.dumps([[w.text, w.topic] for w in splits]))
"""


def test_authors_are_the_same_in_every_process():
    backward = [authors_split(writing(), split) for split in reversed(AUTHOR_SPLITS)]
    here = [[w.text, w.topic] for w in reversed(backward)]
    assert in_another_process(AUTHORS, "77") == here


@pytest.mark.parametrize("bad, message", [
    (lambda: authors_split(writing(), "tran"), "did you mean 'train'"),
    (lambda: authors_split(writing(), "cross", -.1), "likeness must lie in"),
    (lambda: author_words(writing(seed=-1)), "seed: -1 is negative"),
    (lambda: author_words(writing(functions=10**6)), "lower `functions`"),
    (lambda: authors_split(writing(), "cross", float("nan")), "likeness must lie in"),
])
def test_impossible_authors_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        bad()
