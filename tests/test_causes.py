"""What causes what in a planted world is found by experiment, and the dials of the world govern it."""
import pytest

from debias_nb.data.causes import causal_edges
from debias_nb.config import WorldConfig

SMALL = dict(types=20, unseen_types=8)

@pytest.fixture(scope="module")
def mild():
    return causal_edges(WorldConfig(**SMALL), n=200)

def at(edges, source, target, products="ordinary"):
    return edges.set_index(["source", "target", "products"]).loc[source, target, products]

def test_brand_causes_relevance_for_accessories_only(mild):
    ordinary, accessory = at(mild, "brand", "relevance"), at(mild, "brand", "relevance", "accessory")
    assert not ordinary.present and ordinary.iid == 0
    assert accessory.present and not accessory.spurious
    causes = mild[mild.present & (mild.target == "relevance") & (mild.measure == "change")]
    assert set(causes.source) == {"type", "values", "brand"}

def test_the_tie_of_type_and_brand_is_gone_without_p_ood(mild):
    tie = at(mild, "type", "brand")
    assert tie.present and tie.spurious and tie.uncoupled == tie.unseen == 0
    assert tie.cut == "uncoupled, unseen"
    kept = at(causal_edges(WorldConfig(**SMALL, p_ood=.9), n=200), "type", "brand")
    assert kept.cut == "" and kept.spurious and kept.uncoupled > .8
    shared = at(mild, "shared brand", "relevance")
    assert abs(shared.uncoupled) < .1 < .3 < shared.iid

def test_every_dial_governs_its_arrow(mild):
    assert abs(at(mild, "type", "noun").iid - .6) < .12
    assert abs(at(mild, "values", "attribute words").iid - .9) < .12
    turned = causal_edges(WorldConfig(**SMALL, p_noun=.2, p_attr=.4, brand_match=.9), n=200)
    assert at(turned, "type", "noun").iid < .35 and at(turned, "values", "attribute words").iid < .6
    assert at(turned, "brand", "the other brand").iid > at(mild, "brand", "the other brand").iid + .2

def test_nothing_leads_to_fillers_and_codes(mild):
    words = ["fillers", "model code"]
    assert not mild[mild.target.isin(words) | mild.source.isin(words)].present.any()

def test_a_world_without_ties():
    edges = causal_edges(WorldConfig(**SMALL, p=0., brand_match=0., accessories=0.), n=200)
    assert not edges.spurious.any() and set(edges.products) == {"ordinary"} and (edges.cut == "").all()

def test_too_few_draws():
    with pytest.raises(ValueError, match="n: 99 draws"):
        causal_edges(WorldConfig(), n=99)
