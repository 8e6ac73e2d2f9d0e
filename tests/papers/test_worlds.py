"Planted worlds where a notebook cell cannot show it well: the definition, in any configuration."
import itertools

import pytest
from hypothesis import given, settings, strategies as st

from debias_nb.settings import AnswersWorldConfig, AuthorsWorldConfig, WorldConfig
from debias_nb.papers.worlds.planted_answers import answers_split
from debias_nb.papers.worlds.planted_authors import author_words, authors_split
from debias_nb.data.lexicon import AUTHOR_SPLITS, SPLITS
from debias_nb.data.worlds import Catalog, relevant
from debias_nb.data.worlds import wordpiece_vocabulary

SMALL = dict(types=12, unseen_types=5, train_pairs=120, broad_pairs=150, queries=25, items=90, test_negatives=5)


def small(**dials):
    return Catalog(WorldConfig(**SMALL | dials))


def asking(**dials):
    return AnswersWorldConfig(name="answers", **dict(questions=60, tests=40) | dials)


def writing(**dials):
    return AuthorsWorldConfig(name="authors", **dict(authors=20, test_authors=12, texts=3, tokens=40) | dials)


SEEDS = st.integers(0, 10**6)
SHARES = st.floats(0, 1)
worlds = st.builds(
    small, seed=SEEDS, p=SHARES, brand_match=SHARES, p_ood=SHARES, decoys=SHARES, p_attr=SHARES, p_noun=SHARES,
    known=SHARES, aknown=SHARES, p_broad=SHARES, attributes=st.sampled_from(["shared", "local"]),
    accessories=st.floats(0, .8), prefix_brands=st.floats(0, .5), negatives=st.integers(1, 4),
)

few = settings(max_examples=15)


# ---------------------------------------------------------------- the same in every process, each part by itself


@pytest.mark.parametrize("split", SPLITS)
def test_unlabeled_titles_are_of_the_kind_of_their_split(split):
    world = small()
    titles = world.unlabeled(split)
    assert len(titles) == 2 * world.config.train_pairs
    unseen = {title.type >= world.config.types for title in titles}
    assert unseen == {split == "unseen"}
    assert small().unlabeled(split) == titles and small(seed=1).unlabeled(split) != titles


@pytest.mark.parametrize("make, words", [
    (lambda: small(prefix_brands=.8), "prefix_brands"),
    (lambda: small(types=8000), "types"),
    (lambda: small(test_negatives=90).test_pairs("iid"), "test_negatives"),
    (lambda: small().test_pairs("uncupled"), "uncoupled"),
    (lambda: wordpiece_vocabulary(["mozdar"], 10), "size"),
    (lambda: answers_split(asking(content=40_000), "dev"), "words"),
    (lambda: answers_split(asking(content=20, asked=12, many=9, few=0), "dev"), "content"),
    (lambda: authors_split(writing(), "cross", float("nan")), "likeness"),
    (lambda: author_words(writing(content=20_000, apart=.1)), "words"),
])
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# ---------------------------------------------------------------- catalogs


@few
@given(worlds, st.sampled_from(SPLITS))
def test_splits_follow_the_definition(world, name):
    c = world.config
    task = world.split(name)
    pairs = world.test_pairs(name)
    assert (task.name, len(task.queries), len(task.items)) == (name, c.queries, c.items)
    for q, positive, hits in zip(task.queries, task.positive, task.relevant):
        assert hits.tolist() == [i for i, z in enumerate(task.items) if relevant(q, z)]
        assert positive in hits
    assert len(set(task.positive)) == c.queries
    decoys = [(q, task.items[d]) for q, d in zip(task.queries, task.decoy) if d >= 0]
    assert len(decoys) == round(c.decoys * c.queries)
    for query, decoy in decoys:
        assert decoy.brand == query.brand and decoy.type == world.type_of[query.brand] and not relevant(query, decoy)
    types_allowed = range(c.types, c.types + c.unseen_types) if name == "unseen" else range(c.types)
    titles = [task.items[i] for i in set(range(c.items)) - set(task.decoy.tolist())]
    assert {t.type for t in task.queries + titles} <= set(types_allowed)
    assert pairs.labels.tolist() == list(map(relevant, pairs.left, pairs.right))
    assert pairs.labels.sum() == c.queries and len(pairs) == c.queries * (1 + c.test_negatives)


# ---------------------------------------------------------------- authors and topics


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
    cross = name == "cross"
    assert w.name == name and {len(column) for column in w[1:]} == {n}
    assert w.author == [f"{name} {a}" for a in range(n // c.texts) for _ in range(c.texts)]
    assert set(w.topic) <= ({f"unseen {t}" for t in range(c.unseen_topics)} if cross
                            else {f"topic {t}" for t in range(c.topics)})
    assert all((home == "") == cross for home in w.home)
    vocabulary = [*words.style, *(words.unseen if cross else words.content)]
    assert len(set(vocabulary)) == len(vocabulary) == c.functions + c.marks + 2 * c.spellings + c.content
    texts = [text.split() for text in w.text]
    assert all(texts) and {*itertools.chain(*texts)} <= set(vocabulary)
