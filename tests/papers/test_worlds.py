"Planted catalogs where a notebook cell cannot show it well: the definition, in any configuration; what cannot be."
import pytest
from hypothesis import given, settings, strategies as st

from debias_nb.settings import AnswersWorldConfig, AuthorsWorldConfig, WorldConfig
from debias_nb.papers.worlds.planted_answers import answers_split
from debias_nb.papers.worlds.planted_authors import author_words, authors_split
from debias_nb.data.lexicon import SPLITS
from debias_nb.data.worlds import Catalog, relevant
from debias_nb.data.worlds import wordpiece_vocabulary

SMALL = dict(types=12, unseen_types=5, train_pairs=120, broad_pairs=150, queries=25, items=90, test_negatives=5)


def small(**dials):
    return Catalog(WorldConfig(**SMALL | dials))


SHARES = st.floats(0, 1)
worlds = st.builds(
    small, seed=st.integers(0, 10**6), p=SHARES, brand_match=SHARES, p_ood=SHARES, decoys=SHARES, p_attr=SHARES,
    p_noun=SHARES, known=SHARES, aknown=SHARES, p_broad=SHARES, attributes=st.sampled_from(["shared", "local"]),
    accessories=st.floats(0, .8), prefix_brands=st.floats(0, .5), negatives=st.integers(1, 4),
)


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
    (lambda: answers_split(AnswersWorldConfig(name="answers", content=40_000), "dev"), "words"),
    (lambda: answers_split(AnswersWorldConfig(name="answers", content=20, asked=12, many=9, few=0), "dev"), "content"),
    (lambda: authors_split(AuthorsWorldConfig(name="authors"), "cross", float("nan")), "likeness"),
    (lambda: author_words(AuthorsWorldConfig(name="authors", content=20_000, apart=.1)), "words"),
])
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# ---------------------------------------------------------------- catalogs


@settings(max_examples=15)
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
